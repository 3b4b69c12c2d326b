//! `rewake fork ID`: an independent copy of a session, with the same files or with separate ones.

use std::path::PathBuf;

use clap::Args;

use super::shared::{SharedCommand, SharedFlag};
use crate::report::{CliError, exit, line, note};
use crate::session::{AppContext, ForkFolder, NotForked, Parting, now_ms, short_id};

/// Copy a session and print the ID of the copy
#[derive(Debug, Clone, PartialEq, Default, Args)]
#[command(shared_flag("Copy the session from the shared database first", &[]))]
pub(crate) struct ForkArgs {
    /// Session ID or its beginning
    pub id: String,
    #[command(flatten)]
    pub shared: SharedFlag,
    /// End the copy after this entry, as `rewake show` numbers them
    #[arg(long, value_name = "ENTRY")]
    pub at: Option<u64>,
    /// Restore the files of that entry into a new or empty folder
    #[arg(long, value_name = "DIR", conflicts_with = "worktree")]
    pub files: Option<PathBuf>,
    /// Restore them into a new git worktree (default: beside the repository)
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    pub worktree: Option<Option<PathBuf>>,
}

pub(super) fn run(ctx: &AppContext, wanted: &ForkArgs) -> Result<u8, CliError> {
    let id = wanted.shared.local_id(ctx, &wanted.id)?;
    let mut store = super::open_store(ctx)?;
    let info = store.history().find(&id)?;
    let parting = wanted.at.map_or(Parting::End, Parting::Behind);
    let folder = match (&wanted.files, &wanted.worktree) {
        (Some(folder), _) => Some(ForkFolder::Folder(folder.clone())),
        (None, Some(folder)) => Some(ForkFolder::Worktree(folder.clone())),
        (None, None) => None,
    };
    let (fork, files) = match folder {
        Some(folder) => {
            let made = ctx.fork_into(&mut store, &info, parting, &folder);
            let made = made.map_err(fork_error)?;
            made.notes.iter().for_each(|text| note(text));
            (made.id, format!("its files are in {}", made.root.display()))
        }
        None => {
            let (fork, _lock, warning) = ctx.fork(&mut store, &info.id, parting, now_ms())?;
            warning.iter().for_each(|text| note(text));
            (fork, "files are not copied".to_string())
        }
    };
    line(&fork);
    note(&format!(
        "{files}; to continue: rewake -p -r {}",
        short_id(&fork)
    ));
    Ok(exit::DONE)
}

fn fork_error(error: NotForked) -> CliError {
    let (said, hint) = (error.to_string(), error.hint());
    let code = match error {
        NotForked::Session(error) => return CliError::from(error),
        NotForked::Unknown { .. } | NotForked::Folder { .. } | NotForked::Worktree { .. } => {
            exit::USAGE
        }
        NotForked::NotLaidOut { .. } => exit::RESUMABLE,
    };
    CliError::new(code, said).with_any_hint(hint)
}
