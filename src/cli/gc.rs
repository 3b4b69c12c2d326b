//! `rewake gc`: removes old file snapshots, and shows the disk usage.

use clap::Args;

use crate::core::text::{count, size_text};
use crate::report::{CliError, exit, line, note};
use crate::session::{AppContext, EndedWorktree, now_ms, removed_ignored_note, worktree_rows};
use crate::store::{Keep, Tidied, database};

const DAY_SEC: u64 = 24 * 3_600;

/// Show disk usage, and remove file snapshots of old sessions with --yes
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct GcArgs {
    /// Remove the data instead of only listing it
    #[arg(long)]
    pub yes: bool,
    /// Select sessions without activity for DAYS [default: files.keep_sec]
    #[arg(long, value_name = "DAYS")]
    pub older_than: Option<u64>,
}

pub(super) fn run(ctx: &AppContext, args: &GcArgs) -> Result<u8, CliError> {
    let keep_sec = match args.older_than {
        Some(days) => days.saturating_mul(DAY_SEC),
        None => ctx.config().files.keep_sec,
    };
    let keep_ms = i64::try_from(keep_sec)
        .unwrap_or(i64::MAX)
        .saturating_mul(1_000);
    let keep = |dry_run| Keep {
        since_ms: now_ms().saturating_sub(keep_ms),
        dry_run,
    };
    let data_dir = &ctx.paths.data_dir;
    let store = ctx.open_store()?;
    sizes(ctx, &store)?;
    let folders = ctx.server_folders().ok();
    let left = folders.as_ref();
    let left = left.map_or(0, |folders| folders.left(&store).len() as u64);
    let worktrees = worktree_rows(data_dir, &store)?;
    if !worktrees.is_empty() {
        let left = worktrees.iter().filter(|row| row.is_left).count() as u64;
        line(&format!(
            "worktrees  {}, {left} of them without a session; one in which nothing would be lost is removed",
            worktrees.len()
        ));
    }
    let found = store.tidy_files(data_dir, keep(true))?;
    if !args.yes {
        if found.bytes == 0 && found.sessions == 0 && left == 0 && worktrees.is_empty() {
            line("to remove  nothing");
            return Ok(exit::DONE);
        }
        line(&format!("to remove  {}", words(&found)));
        if left > 0 {
            line(&format!("           {}", of_servers(left)));
        }
        note(&format!(
            "nothing was removed yet; rewake gc --yes removes it (sessions used in the last {} are kept)",
            age(keep_sec)
        ));
        return Ok(exit::DONE);
    }
    let store = ctx.open_store()?;
    let left = folders.map_or(0, |folders| folders.remove_left(&store));
    if left > 0 {
        line(&format!("removed    {}", of_servers(left)));
    }
    for ended in ctx.worktrees().end_unused(&store)? {
        match ended {
            EndedWorktree::Removed { ignored } => line(&format!(
                "removed    1 worktree, in which nothing was to be kept{}",
                removed_ignored_note(ignored)
            )),
            EndedWorktree::Kept(kept) => note(&format!("a worktree stays: {kept}")),
        }
    }
    let removed = store.tidy_files(data_dir, keep(false))?;
    line(&format!("removed    {}", words(&removed)));
    Ok(exit::DONE)
}

/// Returns a number of seconds in the largest unit that needs no fraction.
fn age(seconds: u64) -> String {
    let units = [(DAY_SEC, "day"), (3_600, "hour"), (60, "minute")];
    let unit = units
        .into_iter()
        .find(|(unit, _)| seconds.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "second"));
    count(seconds / unit, name)
}

fn of_servers(left: u64) -> String {
    format!(
        "{} of MCP servers that nobody needs",
        count(left, "run folder")
    )
}

fn sizes(ctx: &AppContext, store: &crate::store::Store) -> Result<(), CliError> {
    let (sessions, in_trash) = store.history().in_trash()?;
    let of_files = store.snapshots().files_bytes()?;
    line(&format!(
        "database   {}",
        size_text(database::bytes(&ctx.paths.data_dir))
    ));
    line(&format!(
        "snapshots  {} of at most {}",
        size_text(of_files),
        size_text(ctx.config().files.max_bytes)
    ));
    line(&format!(
        "trash      {}, {}",
        count(sessions, "session"),
        size_text(in_trash)
    ));
    Ok(())
}

fn words(tidied: &Tidied) -> String {
    format!(
        "{}: {}, {} of {} ({} of them in the trash)",
        size_text(tidied.bytes),
        count(tidied.contents, "file content"),
        count(tidied.trees, "snapshot"),
        count(tidied.sessions, "session"),
        tidied.in_trash
    )
}
