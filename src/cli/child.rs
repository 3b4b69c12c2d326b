//! A subagent: this program, started by a keeper. It works in its session until that is at rest.
//! If a person is asked, it waits for the answer.
//!
//! No prompt and no model can start this mode: see [`crate::command::Runs::is_child`].

use super::logging;
use super::place::SessionPlace;
use crate::command::keeper::{CHILD_WORD, SETTINGS_ENV};
use crate::config::{Env, Paths};
use crate::core::background::BackgroundMode;
use crate::headless::{self, Ask, Task};
use crate::report::CliError;
use crate::session::decode_from_parent;
use crate::session::sandbox::probe_kernel_in_background;
use crate::workspace::here;

/// Returns the session and the run, if this process was started as a subagent.
pub(super) fn asked() -> Option<(String, String)> {
    let mut args = std::env::args().skip(1);
    if args.next()? != CHILD_WORD {
        return None;
    }
    Some((
        args.next().unwrap_or_default(),
        args.next().unwrap_or_default(),
    ))
}

pub(super) fn run(session: &str, run: &str) -> Result<u8, CliError> {
    let env = Env::capture(None)?;
    let paths = Paths::new(&env)?;
    let here = here(env.cwd())?;
    let settings = decode_from_parent(env.var(SETTINGS_ENV))?;
    let ctx = SessionPlace {
        env,
        paths,
        here,
        settings,
    }
    .load()?;
    let _log = logging::start(&ctx.paths, ctx.config().log.level);
    probe_kernel_in_background(&ctx);
    let (session, by) = ctx.open_task(session, run)?;
    let task = Task::pending_work(by, BackgroundMode::Leave, Ask::Parent);
    headless::run(&ctx, session, task)
}
