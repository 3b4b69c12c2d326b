//! `rewake purge ID`: deletes a session permanently.

use clap::Args;

use super::confirm::{can_ask, is_yes};
use crate::core::text::count;
use crate::report::{CliError, exit, line, note};
use crate::session::{AppContext, EndedWorktree, removed_ignored_note, short_id};

/// Delete a session permanently, also from the journal
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct PurgeArgs {
    /// Session ID or its beginning
    pub id: String,
    /// Delete without asking
    #[arg(long)]
    pub yes: bool,
}

pub(super) fn run(ctx: &AppContext, args: &PurgeArgs) -> Result<u8, CliError> {
    let store = super::open_store(ctx)?;
    let info = store.history().find(&args.id)?;
    let short = short_id(&info.id).to_string();
    let title = info.title.as_deref().unwrap_or("without a title");
    let with_tasks = |tasks: u64| match tasks {
        0 => String::new(),
        n => format!(", with {}", count(n, "task")),
    };
    let tasks = store.history().children(&info.id)?.len() as u64;
    if !args.yes {
        line(&format!(
            "to remove  {short} \"{title}\", {}{}",
            count(info.entries, "entry"),
            with_tasks(tasks)
        ));
        if !can_ask() {
            return Err(CliError::usage(
                "nothing was removed: there is no terminal to ask for a yes",
            )
            .with_hint(format!(
                "rewake purge {short} --yes removes it for good, from the journal too"
            )));
        }
        if !is_yes("remove it for good, from the journal too?") {
            note("nothing was removed");
            return Ok(exit::DONE);
        }
    }
    let (removed, worktrees) = ctx.purge(store, &info.id)?;
    line(&format!(
        "removed    {short} \"{title}\", {}, {}{}",
        count(removed.entries, "entry"),
        count(removed.blobs, "blob"),
        with_tasks(removed.tasks)
    ));
    if removed.kept > 0 {
        note(&format!(
            "{} stay: forks use them",
            count(removed.kept, "entry")
        ));
    }
    for ended in &worktrees {
        match ended {
            EndedWorktree::Removed { ignored } => line(&format!(
                "removed    its worktree, in which nothing was to be kept{}",
                removed_ignored_note(*ignored)
            )),
            EndedWorktree::Kept(kept) => note(&format!("its worktree stays: {kept}")),
        }
    }
    for copy in &removed.copies {
        note(&format!(
            "this copy of the database may still hold it, and was not changed: {}",
            copy.display()
        ));
    }
    Ok(exit::DONE)
}
