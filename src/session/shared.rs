//! Shared sessions: creating one in the database, and taking the lease of one that this data folder
//! recorded.
//!
//! Invariant: this store appends to a shared session only after [`SharedWriter`] took its lease, and
//! only after both had the same entries.

use super::{AppContext, SessionError, shared_files};
use crate::core::entry::Entry;
use crate::core::text::count;
use crate::journal::chain_hash::ChainHash;
use crate::journal::line::{FIRST_FORM, Header};
use crate::shared::SharedError;
use crate::shared::log::{EndOfLog, Home};
use crate::shared::writer::{Listed, SharedWriter, split};
use crate::store::shared::{self, NewLines};
use crate::store::{NewSession, Store, home_of_machine};

/// The end of a session without entries.
fn nothing() -> EndOfLog {
    (ChainHash::of_nothing(), 0)
}

/// Creates a session in the database, with its first entry. Returns the first entry that the database
/// has and this store lacks, if a process of this data folder ended between the two.
pub(super) fn create(
    ctx: &AppContext,
    store: &mut Store,
    new: &NewSession,
    at_ms: i64,
    opened: &Entry,
) -> Result<(SharedWriter, Option<(i64, Entry)>), SessionError> {
    let mut writer = start(ctx, store, &new.id)?;
    writer.files = shared_files::files(ctx, None);
    let lines = shared::lines_of(nothing(), at_ms, std::slice::from_ref(opened), false)?;
    let lines = NewLines {
        lines,
        ..NewLines::default()
    };
    let created = create_with(&writer, new, at_ms, &lines, idle(""));
    let first = match created {
        Err(SharedError::Lost { .. }) => {
            let end = writer.claim()?;
            let mut line = None;
            writer.each_part(nothing(), end, |part| {
                line = line.take().or_else(|| part.lines.into_iter().next());
                Ok::<_, SharedError>(())
            })?;
            line.and_then(|line| Some((line.at_ms, serde_json::from_str(line.entry.get()).ok()?)))
        }
        created => created.map(|()| None)?,
    };
    shared::hold(store, &new.id, &writer.database);
    Ok((writer, first))
}

fn create_with(
    writer: &SharedWriter,
    new: &NewSession,
    at_ms: i64,
    lines: &NewLines,
    listed: Listed,
) -> Result<(), SharedError> {
    writer.create(nothing(), header_of(new, at_ms)?, lines, listed)
}

/// Returns the header of a session in the database: JSON.
pub fn header_of(new: &NewSession, at_ms: i64) -> Result<String, SharedError> {
    let header = Header {
        rewake: FIRST_FORM,
        store: String::new(),
        session: new.id.clone(),
        workspace: new.workspace.clone(),
        folder: new.folder.clone(),
        created_ms: at_ms,
        forked: None,
        replica: false,
        source: None,
        machine: None,
        first: 0,
        tip: ChainHash::of_nothing(),
    };
    serde_json::to_string(&header).map_err(|e| SharedError::Failed {
        what: e.to_string(),
    })
}

fn idle(title: &str) -> Listed {
    Listed {
        title: title.to_string(),
        state: "idle",
    }
}

/// Takes the lease of a session, and makes both logs the same. The caller has the lock of the
/// session.
pub(super) fn take(
    ctx: &AppContext,
    store: &mut Store,
    session: &str,
    warnings: &mut Vec<String>,
) -> Result<SharedWriter, SessionError> {
    let mut writer = start(ctx, store, session)?;
    match_logs(&writer, store, session, warnings)?;
    writer.take_mail()?;
    writer.files = shared_files::files(ctx, writer.last_files()?.as_deref());
    Ok(writer)
}

/// Takes the lease, and makes both logs the same. The caller has the lock of the session.
///
/// # Errors
/// `Lost`: another process has the lease, or the database has entries that this store did not record.
pub fn match_logs(
    writer: &SharedWriter,
    store: &mut Store,
    session: &str,
    warnings: &mut Vec<String>,
) -> Result<(), SessionError> {
    let claimed = writer.claim();
    let is_missing = matches!(claimed, Err(SharedError::Missing { .. }));
    let theirs = match claimed {
        _ if is_missing => nothing(),
        claimed => claimed?,
    };
    shared::hold(store, session, &writer.database);
    let ours = shared::end_of(store, session)?;
    if theirs == ours {
        return Ok(());
    }
    let continues_theirs =
        theirs.1 < ours.1 && shared::tip_before(store, session, theirs.1)? == theirs.0;
    if continues_theirs {
        // A failover to a standby lost entries that were acknowledged.
        let mut before = theirs;
        let info = store.history().find(session)?;
        let listed = idle(info.title.as_deref().unwrap_or_default());
        for part in split(shared::lines_from(store, session, theirs.1)?) {
            if is_missing && before.1 == 0 {
                let new = NewSession {
                    id: session.to_string(),
                    workspace: info.workspace.clone(),
                    folder: info.folder.clone(),
                };
                create_with(writer, &new, info.created_ms, &part, listed.clone())?;
            } else {
                writer.push_blocking(before, &part, listed.clone())?;
            }
            before = part.end().unwrap_or(before);
        }
        warnings.push(format!(
            "{} had lost {}, which are recorded there again",
            writer.database,
            count(ours.1 - theirs.1, "entry")
        ));
        return Ok(());
    }
    if let Some(parted) = take_entries(writer, store, session, theirs)? {
        warnings.push(format!(
            "{} has other entries of this session than this machine, and they count; those of \
             this machine are session {parted}",
            writer.database
        ));
    }
    match shared::end_of(store, session)? == theirs {
        true => Ok(()),
        false => Err(SharedError::Failed {
            what: format!("{}: session {session} misses entries", writer.database),
        }
        .into()),
    }
}

/// Brings the entries of the database up to this end here. Returns the ID that the session as it was
/// here has now, if its entries differ. Nothing changes before all of them were verified.
pub(super) fn take_entries(
    writer: &SharedWriter,
    store: &mut Store,
    session: &str,
    theirs: EndOfLog,
) -> Result<Option<String>, SessionError> {
    let ours = shared::end_of(store, session)?;
    let pass = |_: NewLines| Ok::<_, SessionError>(());
    if ours.1 < theirs.1 && writer.each_part(ours, theirs, pass)? {
        writer.each_part(ours, theirs, |part| {
            Ok::<_, SessionError>(shared::append(store, session, &part)?)
        })?;
        return Ok(None);
    }
    let mut common = None;
    let is_whole = writer.each_part(nothing(), theirs, |part| {
        common = shared::last_common(store, session, &part)?.or(common);
        Ok::<_, SessionError>(())
    })?;
    if !is_whole {
        return Err(SharedError::gap(session, 0).into());
    }
    let mut parted = None;
    writer.each_part(nothing(), theirs, |part| {
        match parted {
            Some(_) => shared::append(store, session, &part)?,
            None => {
                let common = common.unwrap_or_default();
                parted = Some(shared::replace(store, session, &part, common)?);
            }
        }
        Ok::<_, SessionError>(())
    })?;
    Ok(parted)
}

/// Returns the error of a session that is recorded here only.
pub(super) fn is_not_shared(session: &str) -> SessionError {
    SharedError::setup(
        format!("session {session} is not shared"),
        format!("without --shared it is continued: rewake -r {session}"),
    )
    .into()
}

/// Returns the error of a fork, which no database records.
pub(super) fn is_fork() -> SessionError {
    SharedError::setup(
        "a fork is recorded on this machine only",
        "leave out --shared",
    )
    .into()
}

#[cfg(feature = "fleet")]
fn start(ctx: &AppContext, store: &mut Store, session: &str) -> Result<SharedWriter, SessionError> {
    start_with(ctx, store, session, false)
}

/// `of_any_store`: see [`crate::shared::writer::Options`].
#[cfg(feature = "fleet")]
pub(super) fn start_with(
    ctx: &AppContext,
    store: &mut Store,
    session: &str,
    of_any_store: bool,
) -> Result<SharedWriter, SessionError> {
    use crate::shared::mailbox::Mailbox;
    use crate::shared::postgres::Postgres;
    use crate::shared::writer::Options;

    let address = fleet_address(ctx)?;
    let shown = address.shown.clone();
    let home = home(store)?;
    let key = shared::key(store)?;
    let approvers = ctx.config().fleet.approvers.clone();
    let data_dir = ctx.paths.data_dir.clone();
    let mailbox = Mailbox::new(data_dir, session.to_string(), approvers);
    SharedWriter::start(
        Postgres::new(address),
        home,
        session.to_string(),
        shown,
        key,
        Options {
            mailbox: Some(mailbox),
            keeps_lease: ctx.given.is_task,
            of_any_store,
            lease_file: match ctx.given.is_task {
                true => Some(lease_file(ctx, session)?),
                false => None,
            },
        },
    )
    .map_err(SessionError::Runtime)
}

#[cfg(not(feature = "fleet"))]
fn start(
    _ctx: &AppContext,
    _store: &mut Store,
    _session: &str,
) -> Result<SharedWriter, SessionError> {
    Err(SharedError::setup(
        "this build of rewake has no shared sessions",
        "build it with the feature `fleet`",
    )
    .into())
}

/// Returns the file of the lease of a task. It is the same after a restart.
///
/// # Errors
/// Its folder cannot be made.
#[cfg(feature = "fleet")]
pub fn lease_file(ctx: &AppContext, session: &str) -> Result<std::path::PathBuf, SessionError> {
    let folder = ctx.paths.data_dir.join("leases");
    std::fs::create_dir_all(&folder).map_err(SessionError::Runtime)?;
    Ok(folder.join(session))
}

#[cfg_attr(
    not(feature = "fleet"),
    allow(dead_code, reason = "only a fleet has machines")
)]
pub fn home(store: &Store) -> Result<Home, SessionError> {
    let (machine, boot, host) = home_of_machine().ok_or_else(|| {
        SharedError::setup(
            "this machine has no identity, so its sessions cannot be shared",
            "systemd-machine-id-setup makes one",
        )
    })?;
    let store = blake3::hash(shared::store_id(store)?.as_bytes()).to_hex()[..32].to_string();
    Ok(Home {
        home: format!("{store}:{machine}"),
        boot,
        host,
    })
}

/// Makes a shared session of this data folder the same as in the database. Returns warnings.
///
/// # Errors
/// A process works in it, or another machine has it.
#[cfg(feature = "fleet")]
pub fn update_shared(
    ctx: &AppContext,
    store: &mut Store,
    session: &str,
) -> Result<Vec<String>, SessionError> {
    let mut lock = crate::store::SessionLock::take(&ctx.paths.data_dir, session)?;
    let mut warnings = Vec::new();
    take(ctx, store, session, &mut warnings)?;
    lock.recorded();
    Ok(warnings)
}

/// Returns the address of the shared database, from the config or the variable that it names.
///
/// # Errors
/// There is none, or it is invalid.
#[cfg(feature = "fleet")]
pub fn fleet_address(ctx: &AppContext) -> Result<crate::shared::address::Address, SharedError> {
    let fleet = &ctx.config().fleet;
    let named = fleet.url_env.as_deref();
    let url = match (named.map(|name| (name, ctx.env.var(name))), &fleet.url) {
        (Some((_, Some(url))), _) => url.to_string(),
        (_, Some(url)) => url.clone(),
        (Some((name, None)), None) => {
            return Err(SharedError::setup(
                format!("the variable {name} is not set"),
                "fleet.url_env names it; it holds the address of the database",
            ));
        }
        (None, None) => {
            return Err(SharedError::setup(
                "there is no database of shared sessions",
                format!("set fleet.url in {}", ctx.paths.config_file().display()),
            ));
        }
    };
    crate::shared::address::Address::read(&url, &ctx.env, fleet.ca_file.as_deref())
}
