//! `rewake fetch ID`: a branch with the commits and the files of a shared session.

use clap::Args;
use serde_json::json;

use super::print_json;
use crate::core::text::{count, one_line};
use crate::core::visible::visible;
use crate::report::{CliError, exit, line, note};
use crate::session::AppContext;
use crate::session::remote::blocking;
use crate::session::shared::fleet_address;
use crate::session::shared_branch::{NotFetched, SharedBranch};
use crate::shared::SharedError;
use crate::shared::connection::Connection;
use crate::shared::files::{Files, fetch, refused};
use crate::shared::postgres::Postgres;

/// Maximum length of the title in the message of the commit, in characters.
const TITLE_CHARS: usize = 200;

/// Get a shared session's work as the git branch rewake/ID
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct FetchArgs {
    /// Session ID or its beginning
    pub id: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub(super) fn run(ctx: &AppContext, args: &FetchArgs) -> Result<u8, CliError> {
    let address = fleet_address(ctx)?;
    let found = blocking::<_, SharedError>(async {
        Connection::connect(&address).await?.find(&args.id).await
    })?;
    let Some(json) = &found.files else {
        let why = format!("session {} has no files in the database", found.id);
        let hint = "it worked in no git repository, or has not changed a file yet";
        return Err(CliError::usage(why).with_hint(hint));
    };
    let files = Files::read(json).map_err(|why| {
        refused(
            &found.id,
            &format!("where its files are is not valid: {why}"),
        )
    })?;
    let branch = SharedBranch::new(&ctx.env, &ctx.here.root, &found.id, &files).map_err(failed)?;
    let failed_here = |error: std::io::Error| CliError::failed(error.to_string());
    // Only this user may read it.
    let folder = tempfile::tempdir_in(&ctx.paths.data_dir).map_err(failed_here)?;
    let mut log = Postgres::new(address.clone());
    let changes = blocking(fetch(&mut log, &found.id, &files, folder.path()))?;
    let title = one_line(&visible(&found.title), TITLE_CHARS);
    let done = branch
        .update(folder.path(), &changes, &title)
        .map_err(failed)?;
    if args.json {
        return print_json(&json!({
            "session": found.id,
            "branch": done.branch,
            "commit": done.commit,
            "commits": done.commits,
            "files": done.files,
            "left_out": files.left_out,
            "changed": done.is_changed,
        }));
    }
    let state = if done.is_changed { "" } else { ", as before" };
    line(&format!(
        "{}: {}, and {} that they lack{state}",
        done.branch,
        count(done.commits, "commit"),
        count(done.files, "changed file"),
    ));
    if files.left_out > 0 {
        note(&format!(
            "{} left out: too large, or not stored",
            count(files.left_out, "file")
        ));
    }
    Ok(exit::DONE)
}

fn failed(error: NotFetched) -> CliError {
    CliError::usage(error.to_string()).with_hint(error.hint())
}
