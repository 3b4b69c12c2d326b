//! Opening a task of the shared database: its clone, its entries, and the machine that had it before.
//!
//! Invariant: rows of the database grant nothing. The folder is the clone, and the mode, the model, the
//! rules and the limits are those of the config here. `Moved` leaves only the conversation.

use std::path::{Path, PathBuf};

use super::clone::{check_repo, clone};
use super::remote::blocking;
use super::shared::{fleet_address, start_with, take_entries};
use super::shared_branch::SharedBranch;
use super::{AppContext, Session, SessionError, SessionSelector, unseen_by_commands};
use crate::config;
use crate::core::entry::{Choice, Entry, Record};
use crate::core::state::ForeignLog;
use crate::journal::chain_hash::ChainHash;
use crate::sandbox::child;
use crate::shared::SharedError;
use crate::shared::files::{Files, fetch, refused};
use crate::shared::postgres::Postgres;
use crate::shared::queue::{MovedFrom, SharedTask, TakenTask};
use crate::shared::reader::SharedSession;
use crate::shared::writer::{Listed, SharedWriter};
use crate::store::shared::{self, adopt, lines_of};
use crate::store::{NewSession, SessionLock, Store, home_of_machine, is_purged, now_ms};
use crate::tools;
use crate::workspace::{here, root_text};

/// The branch of a clone.
const BRANCH: &str = "rewake/";

/// Opens a task that this data folder took. Returns the context in its clone.
///
/// # Errors
/// Another process has it, its repository is not one of the config, or its entries are damaged.
pub fn open_task(
    ctx: &AppContext,
    work_dir: &Path,
    of: &SharedSession,
    task: &SharedTask,
    taken: &TakenTask,
) -> Result<(AppContext, Session), SessionError> {
    let folder = work_dir.join(&of.id);
    let mut store = ctx.open_store()?;
    let is_known = is_task_here(ctx, &store, &of.id, &folder)?;
    let is_new = of.entries == 0;
    let lock = SessionLock::take(&ctx.paths.data_dir, &of.id)?;
    if !is_known && store.history().knows(&of.id)? {
        shared::set_copy_aside(&mut store, &of.id)?;
    }
    let writer = start_with(ctx, &mut store, &of.id, true)?;
    // Also if this process ends before the entry that says so is here.
    let is_moved = !is_new && (!is_known || !writer.is_own(shared::end_of(&mut store, &of.id)?)?);
    if is_new || is_moved {
        let unnamed = |why: String| {
            SessionError::from(SharedError::setup(
                format!("session {}: {why}", of.id),
                "fleet.repos in the config of this machine names the repositories of tasks",
            ))
        };
        check_repo(&task.repo, &ctx.config().fleet.repos).map_err(unnamed)?;
        let branch = format!("{BRANCH}{}", of.id);
        let files = of.files.as_deref().filter(|_| is_moved);
        let files = files.map(Files::read).transpose().map_err(|why| {
            let what = format!("where its files are is not valid: {why}");
            SessionError::from(refused(&of.id, &what))
        })?;
        // The branch of a session with files is made with them.
        let named = files.is_none().then_some(&branch[..]);
        let base = files.as_ref().map_or(&task.commit, |files| &files.base);
        let cloned = clone(&ctx.env, &task.repo, base, named, &folder);
        cloned.map_err(|why| SharedError::Away {
            what: format!("session {}: {why}", of.id),
        })?;
        if let Some(files) = &files {
            lay_out(ctx, &of.id, files, &folder)?;
        }
        set_up(ctx, &folder)?;
        if is_moved {
            take_over(ctx, &mut store, &writer, of, taken.moved.as_ref(), &folder)?;
        }
    }
    drop((writer, lock, store));
    let mut its = in_folder(ctx, &of.id, &folder)?;
    let own = ctx.given.max_usd;
    its.given.max_usd = match (own, task.usd) {
        (Some(own), Some(wish)) => Some(own.min(wish)),
        (own, wish) => own.or(wish),
    };
    let which = match is_new {
        true => SessionSelector::Given { id: of.id.clone() },
        false => SessionSelector::Named {
            id: of.id.clone(),
            fork: false,
        },
    };
    let session = its.open(&which, false)?;
    Ok((its, session))
}

fn in_folder(ctx: &AppContext, session: &str, folder: &Path) -> Result<AppContext, SessionError> {
    let here = here(folder).map_err(|why| SessionError::Folder {
        session: session.to_string(),
        why,
    })?;
    let loaded = config::load(&ctx.env, &ctx.paths, &here.root, &ctx.flags)?;
    Ok(AppContext {
        here,
        loaded,
        ..ctx.clone()
    })
}

/// Gives a fresh clone the files and commits of the session.
fn lay_out(
    ctx: &AppContext,
    session: &str,
    files: &Files,
    folder: &Path,
) -> Result<(), SessionError> {
    let tmp = tempfile::tempdir_in(&ctx.paths.data_dir).map_err(SessionError::Runtime)?;
    let mut log = Postgres::new(fleet_address(ctx)?);
    let changes = blocking(fetch(&mut log, session, files, tmp.path()))?;
    let branch = SharedBranch::new(&ctx.env, folder, session, files);
    branch
        .and_then(|branch| branch.lay_out(tmp.path(), &changes))
        .map_err(|error| refused(session, &error).into())
}

/// Runs the command of the config for fresh clones, in the sandbox.
fn set_up(ctx: &AppContext, folder: &Path) -> Result<(), SessionError> {
    let Some(setup) = &ctx.config().fleet.setup else {
        return Ok(());
    };
    let exe = crate::command::own_exe().map_err(SessionError::OwnExe)?;
    let mut command = child(exe);
    // What the repository runs here sees as little as a command of the model.
    for name in unseen_by_commands(ctx.config(), &ctx.env) {
        command.env_remove(name);
    }
    let ended = command
        .args(["sandbox", "--access", "network", "--", "/bin/sh", "-c"])
        .arg(setup)
        .current_dir(folder)
        .stdin(std::process::Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .map_err(SessionError::Runtime)?;
    match ended.success() {
        true => Ok(()),
        false => Err(SharedError::setup(
            format!("fleet.setup failed in {}: {ended}", folder.display()),
            "run it by hand in a clone: rewake sandbox --access network -- sh -c COMMAND",
        )
        .into()),
    }
}

/// Returns whether this data folder worked on the task before. A copy of it counts as no work.
///
/// # Errors
/// It has, or had, another session with this ID.
fn is_task_here(
    ctx: &AppContext,
    store: &Store,
    session: &str,
    folder: &Path,
) -> Result<bool, SessionError> {
    let data_dir = &ctx.paths.data_dir;
    let is_taken = if store.history().knows(session)? {
        let info = store.history().find(session)?;
        let database = fleet_address(ctx)?.shown;
        if shared::is_recorded_in(&info, &database) && Path::new(&info.folder) == folder {
            return Ok(true);
        }
        !info
            .replica
            .is_some_and(|replica| crate::store::is_of_rewake(&replica))
    } else {
        is_purged(data_dir, session)
            || SessionLock::was_recorded(data_dir, session)
            || store.has_journal(session)
    };
    if !is_taken {
        return Ok(false);
    }
    Err(SharedError::setup(
        format!(
            "session {session} of this data folder is not this task, and stays as it is; the task \
             is not worked on"
        ),
        "submit the task again, so that it gets another ID: rewake submit",
    )
    .into())
}

/// Records that this machine continues, and brings the entries of the database here. The database has
/// the first before this store has any entry of another one.
fn take_over(
    ctx: &AppContext,
    store: &mut Store,
    writer: &SharedWriter,
    of: &SharedSession,
    from: Option<&MovedFrom>,
    folder: &Path,
) -> Result<(), SessionError> {
    let nothing = (ChainHash::of_nothing(), 0);
    let theirs = writer.claim()?;
    shared::hold(store, &of.id, &writer.database);
    let gap = || SessionError::from(SharedError::gap(&of.id, 0));
    // All entries are folded, so that damage is found before anything follows from them.
    let mut log = ForeignLog::new(tools::describe);
    let illegal = |why| SessionError::Illegal {
        session: of.id.clone(),
        why,
    };
    let mut created_ms = 0;
    let is_whole = writer.each_part(nothing, theirs, |part| {
        for line in &part.lines {
            let entry = serde_json::from_str(line.entry.get());
            let record = Record {
                seq: line.seq,
                at_ms: line.at_ms,
                entry: entry.map_err(|_| SharedError::gap(&of.id, line.seq))?,
            };
            if line.seq == 0 {
                created_ms = line.at_ms;
            }
            log.fold(&record, line.entry.get().len()).map_err(illegal)?;
        }
        Ok::<_, SessionError>(())
    })?;
    if !is_whole {
        return Err(gap());
    }
    let (_, boot, host) = home_of_machine().unwrap_or_default();
    let folder = folder.to_string_lossy().into_owned();
    let moved = Entry::Moved {
        from: from.map_or_else(String::new, |from| from.host.clone()),
        until: from.map_or_else(String::new, |from| from.until.clone()),
        host,
        os: std::env::consts::OS.to_string(),
        boot,
        mode: ctx.config().permission_mode,
        folder: Some(folder.clone()),
    };
    let model = ctx.config().model_name(&ctx.env)?;
    let chosen = Entry::Chose(Choice::of_model(model.to_string()));
    let at_ms = now_ms();
    for entry in [&moved, &chosen] {
        let record = Record {
            seq: log.state.next_seq(),
            at_ms,
            entry: entry.clone(),
        };
        log.fold(&record, 0).map_err(illegal)?;
    }
    let entries = [moved, chosen];
    let new = shared::NewLines {
        lines: lines_of(theirs, at_ms, &entries, log.state.unfinished())?,
        ..shared::NewLines::default()
    };
    let end = new.end().unwrap_or(theirs);
    writer.push_blocking(theirs, &new, Listed::of(&log.state))?;
    if store.history().knows(&of.id)? {
        take_entries(writer, store, &of.id, end)?;
        return Ok(());
    }
    let session = NewSession {
        id: of.id.clone(),
        workspace: root_text(Path::new(&folder)),
        folder,
    };
    let mut is_there = false;
    writer.each_part(nothing, end, |part| {
        if std::mem::replace(&mut is_there, true) {
            shared::append(store, &of.id, &part)?
        } else {
            adopt(store, &session, created_ms, &part)?
        }
        Ok::<_, SessionError>(())
    })?;
    Ok(())
}

/// Returns the folder of the clones.
///
/// # Errors
/// The database names none, or another data folder uses it here.
pub fn work_dir(store: &Store, named: Option<&str>) -> Result<PathBuf, SessionError> {
    let Some(named) = named else {
        return Err(SharedError::setup(
            "the database names no folder for clones",
            "its owner sets one: rewake fleet init --work-dir /srv/rewake",
        )
        .into());
    };
    let work_dir = PathBuf::from(named);
    let failed = |error: std::io::Error| {
        SharedError::setup(
            format!("{}: {error}", work_dir.display()),
            "make the folder, and let this user write in it",
        )
    };
    if !work_dir.is_absolute() {
        return Err(failed(std::io::Error::other("it is not an absolute path")).into());
    }
    std::fs::create_dir_all(&work_dir).map_err(failed)?;
    let id = shared::store_id(store)?;
    let mark = work_dir.join(".rewake-store");
    match std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&mark)
    {
        Ok(mut file) => std::io::Write::write_all(&mut file, id.as_bytes()).map_err(failed)?,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let known = std::fs::read_to_string(&mark).map_err(failed)?;
            if known != id {
                return Err(SharedError::setup(
                    format!(
                        "{} belongs to another data folder of rewake",
                        work_dir.display()
                    ),
                    format!("if that is gone: rm {}", mark.display()),
                )
                .into());
            }
        }
        Err(error) => return Err(failed(error).into()),
    }
    Ok(work_dir)
}
