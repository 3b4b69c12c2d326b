//! Opening a task of the shared database: its clone, its entries, and the machine that had it before.
//!
//! Invariant: rows of the database grant nothing. The mode, the rules and the limits are those of the
//! config here, and `Moved` takes back what was allowed on another machine.

use std::path::{Path, PathBuf};

use super::clone::{check_repo, clone};
use super::remote::blocking;
use super::shared::{fleet_address, start_with};
use super::shared_branch::SharedBranch;
use super::{AppContext, Session, SessionError, SessionSelector, unseen_by_commands};
use crate::config;
use crate::core::entry::Entry;
use crate::core::state::State;
use crate::journal::chain_hash::ChainHash;
use crate::shared::SharedError;
use crate::shared::files::{Files, fetch, refused};
use crate::shared::postgres::Postgres;
use crate::shared::queue::{MovedFrom, SharedTask, TakenTask};
use crate::shared::reader::SharedSession;
use crate::shared::writer::{Listed, SharedWriter};
use crate::store::shared::{self, adopt, end_of, lines_of};
use crate::store::{NewSession, SessionLock, Store, home_of_machine, now_ms};
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
    let is_known = store.history().knows(&of.id)?;
    let is_new = of.entries == 0;
    let lock = SessionLock::take(&ctx.paths.data_dir, &of.id)?;
    let writer = start_with(ctx, &mut store, &of.id, true)?;
    // Also if this process ends before the entry that says so.
    let is_moved = !is_new && (!is_known || !writer.is_own()?);
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
    let mut command = std::process::Command::new(exe);
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

/// Records what the database has here, and that this machine continues.
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
    if !store.history().knows(&of.id)? {
        let lines = writer.lines(nothing, theirs)?.ok_or_else(gap)?;
        let new = NewSession {
            id: of.id.clone(),
            workspace: root_text(folder),
            folder: folder.to_string_lossy().into_owned(),
        };
        let created_ms = lines.lines.first().map_or(0, |line| line.at_ms);
        adopt(store, &new, created_ms, &lines)?;
    } else {
        let ours = end_of(store, &of.id)?;
        let more = match ours.1 < theirs.1 {
            true => writer.lines(ours, theirs)?,
            false => None,
        };
        match more {
            Some(more) => shared::append(store, &of.id, &more)?,
            None if ours == theirs => {}
            None => {
                let all = writer.lines(nothing, theirs)?.ok_or_else(gap)?;
                shared::replace(store, &of.id, &all)?;
            }
        }
    }
    let state = state_of(store, &of.id)?;
    let (_, boot, host) = home_of_machine().unwrap_or_default();
    let moved = Entry::Moved {
        from: from.map_or_else(String::new, |from| from.host.clone()),
        until: from.map_or_else(String::new, |from| from.until.clone()),
        host,
        os: std::env::consts::OS.to_string(),
        boot,
        mode: ctx.config().permission_mode,
    };
    let end = end_of(store, &of.id)?;
    let new = shared::NewLines {
        lines: lines_of(end, now_ms(), &[moved], state.unfinished())?,
        ..shared::NewLines::default()
    };
    writer.push_blocking(end, &new, Listed::of(&state))?;
    shared::append(store, &of.id, &new)?;
    Ok(())
}

/// Folds all entries, so that damage is found before anything follows from them.
fn state_of(store: &Store, session: &str) -> Result<State, SessionError> {
    let mut state = State::new(tools::describe);
    store.load_each(session, |record| {
        state.fold(&record).map_err(|why| SessionError::Illegal {
            session: session.to_string(),
            why,
        })
    })?;
    Ok(state)
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
