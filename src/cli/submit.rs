//! `rewake submit`: a task for the workers of a shared database.

use std::time::Duration;

use clap::Args;

use super::send::text;
use crate::core::entry::Via;
use crate::core::marks::cut_title;
use crate::headless::Ask;
use crate::journal::chain_hash::ChainHash;
use crate::report::{CliError, exit, line, note};
use crate::session::clone::{check_repo, commit_of};
use crate::session::remote::blocking;
use crate::session::shared::{fleet_address, header_of};
use crate::session::{AppContext, check_message, short_id};
use crate::shared::SharedError;
use crate::shared::connection::Connection;
use crate::shared::queue::{NewTask, TaskState};
use crate::shared::schema::meta;
use crate::store::{Message, NewSession, new_id, now_ms};

/// Interval of the requests of `--wait`.
const LOOK: Duration = Duration::from_secs(1);

/// Submit a task for the workers of the shared database
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct SubmitArgs {
    /// The task for the model (- reads it, or the rest of it, from stdin)
    #[arg(value_name = "TEXT", required = true)]
    pub text: Vec<String>,
    /// Address of the git repository
    #[arg(long, value_name = "URL", allow_hyphen_values = true)]
    pub repo: String,
    /// Branch, tag or commit (default: the default branch)
    #[arg(long = "ref", value_name = "REF", allow_hyphen_values = true)]
    pub reference: Option<String>,
    /// The same key again returns the session of the first task
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Label that a worker needs (repeatable)
    #[arg(long, value_name = "LABEL")]
    pub label: Vec<String>,
    /// Cost at which the session pauses (a worker may have a lower limit)
    #[arg(long, value_name = "USD")]
    pub usd: Option<f64>,
    /// Let questions wait for rewake allow --shared: wait=30m (default: deny)
    #[arg(long, value_name = "HOW")]
    pub ask: Option<Ask>,
    /// Wait for the end, and exit as -p does
    #[arg(long)]
    pub wait: bool,
}

pub(super) fn run(ctx: &AppContext, args: &SubmitArgs) -> Result<u8, CliError> {
    ctx.steering().check_not_below_agent()?;
    let repos = &ctx.config().fleet.repos;
    let any = ["*".to_string()];
    // The worker compares it with its own config too.
    let named = if repos.is_empty() { &any[..] } else { repos };
    let usage = |why: String| CliError::usage(why);
    check_repo(&args.repo, named).map_err(|why| {
        usage(why).with_hint("rewake submit \"what to do\" --repo https://HOST/REPOSITORY")
    })?;
    if args.usd.is_some_and(|usd| !usd.is_finite() || usd <= 0.0) {
        return Err(usage("--usd needs a number above 0".to_string()));
    }
    let message = Message::new(text(&args.text)?, Via::Signal);
    check_message(&message)?;
    let address = fleet_address(ctx)?;
    let session = new_id();
    let json = |error: serde_json::Error| CliError::failed(error.to_string());
    let id = blocking::<_, CliError>(async {
        let connection = Connection::connect(&address).await?;
        let work_dir = meta(&connection).await?.work_dir.ok_or_else(|| {
            SharedError::setup(
                "the database names no folder for clones",
                "its owner sets one: rewake fleet init --work-dir /srv/rewake",
            )
        })?;
        let commit = commit_of(&ctx.env, &args.repo, args.reference.as_deref());
        let commit = commit.map_err(|why| {
            usage(why).with_hint(format!("git ls-remote {} lists the refs", args.repo))
        })?;
        let folder = format!("{}/{session}", work_dir.trim_end_matches('/'));
        let new = NewSession {
            id: session.clone(),
            workspace: folder.clone(),
            folder,
        };
        let task = NewTask {
            key: args.key.clone(),
            repo: args.repo.clone(),
            commit,
            labels: args.label.clone(),
            usd: args.usd,
            ask_ms: match args.ask.unwrap_or_default() {
                Ask::Wait(time) => {
                    time.map(|time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
                }
                Ask::Deny | Ask::Parent => None,
            },
            tip: ChainHash::of_nothing().as_bytes().to_vec(),
            header: header_of(&new, now_ms())?,
            title: cut_title(&message.text),
            message: serde_json::to_string(&message).map_err(json)?,
            session,
        };
        Ok(connection.submit(&task).await?)
    })?;
    line(&id);
    if !args.wait {
        return Ok(exit::DONE);
    }
    note(&format!(
        "rewake show {} --shared shows what it does",
        short_id(&id)
    ));
    loop {
        let state = blocking::<_, SharedError>(async {
            Connection::connect(&address).await?.task_state(&id).await
        });
        match state {
            Ok(TaskState::Ended(code)) => return Ok(code),
            Ok(TaskState::Paused) => {
                return Err(CliError::new(
                    exit::RESUMABLE,
                    format!("session {id} is paused: three workers left it without an end, or somebody paused it"),
                )
                .with_hint(format!("rewake unblock {} --shared", short_id(&id))));
            }
            Ok(TaskState::Pending) | Err(SharedError::Away { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        std::thread::sleep(LOOK);
    }
}
