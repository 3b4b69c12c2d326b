//! Shared sessions: creating one in the database, and taking the lease of one that this data folder
//! recorded.
//!
//! Invariant: this store appends to a shared session only after [`SharedWriter`] took its lease, and
//! only after both had the same entries.

use super::{AppContext, SessionError};
use crate::core::entry::Entry;
use crate::core::text::count;
use crate::journal::chain_hash::ChainHash;
use crate::journal::line::{FIRST_FORM, Header};
use crate::shared::SharedError;
use crate::shared::log::Home;
use crate::shared::writer::{Listed, SharedWriter, parts};
use crate::store::shared::{self, NewLines};
use crate::store::{NewSession, Store, home_of_machine};

/// Creates a session in the database, with its first entry.
pub(super) fn create(
    ctx: &AppContext,
    store: &mut Store,
    new: &NewSession,
    at_ms: i64,
    opened: &Entry,
) -> Result<SharedWriter, SessionError> {
    let writer = start(ctx, store, &new.id)?;
    let before = (ChainHash::of_nothing(), 0);
    let lines = shared::lines_of(before, at_ms, std::slice::from_ref(opened), false)?;
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
        tip: before.0,
    };
    let header = serde_json::to_string(&header).map_err(|e| SharedError::Failed {
        what: e.to_string(),
    })?;
    let listed = Listed {
        title: String::new(),
        state: "idle",
    };
    let blobs = Vec::new();
    writer.create(before, header, &NewLines { lines, blobs }, listed)?;
    shared::hold(store, &new.id, &writer.database);
    Ok(writer)
}

/// Takes the lease of a session, and makes both logs the same. The caller has the lock of the
/// session.
pub(super) fn take(
    ctx: &AppContext,
    store: &mut Store,
    session: &str,
    warnings: &mut Vec<String>,
) -> Result<SharedWriter, SessionError> {
    let writer = start(ctx, store, session)?;
    match_logs(&writer, store, session, warnings)?;
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
    let theirs = writer.claim()?;
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
        let listed = Listed {
            title: store.history().find(session)?.title.unwrap_or_default(),
            state: "idle",
        };
        for part in parts(shared::lines_from(store, session, theirs.1)?) {
            writer.push_blocking(before, &part, listed.clone())?;
            before = part.end().unwrap_or(before);
        }
        warnings.push(format!(
            "{} had lost {}, which are recorded there again",
            writer.database,
            count(ours.1 - theirs.1, "entry")
        ));
        return Ok(());
    }
    let missing = match ours.1 < theirs.1 {
        true => Some(writer.lines(ours.1)?),
        false => None,
    };
    match missing {
        Some(new) if new.lines.first().is_some_and(|line| line.follows(ours.0)) => {
            shared::append(store, session, &new)?;
        }
        _ => {
            let parted = shared::replace(store, session, &writer.lines(0)?)?;
            warnings.push(format!(
                "{} has other entries of this session than this machine, and they count; those of \
                 this machine are session {parted}",
                writer.database
            ));
        }
    }
    match shared::end_of(store, session)? == theirs {
        true => Ok(()),
        false => Err(SharedError::Failed {
            what: format!("{}: session {session} misses entries", writer.database),
        }
        .into()),
    }
}

/// Returns the error of a session that is recorded here only.
pub(super) fn is_not_shared(session: &str) -> SessionError {
    SharedError::setup(
        format!("session {session} is not shared"),
        format!("without --shared it is continued: rewake -r {session}"),
    )
    .into()
}

/// Returns the error of a session that another data folder recorded.
pub(super) fn is_not_here(session: &str) -> SessionError {
    SharedError::setup(
        format!("session {session} is not in this data folder"),
        format!("a fork continues it: rewake fork {session} --shared"),
    )
    .into()
}

#[cfg(feature = "fleet")]
fn start(ctx: &AppContext, store: &mut Store, session: &str) -> Result<SharedWriter, SessionError> {
    use crate::shared::postgres::Postgres;

    let address = fleet_address(ctx)?;
    let shown = address.shown.clone();
    let home = home(store)?;
    let key = shared::key(store)?;
    SharedWriter::start(
        Postgres::new(address),
        home,
        session.to_string(),
        shown,
        key,
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

#[cfg_attr(
    not(feature = "fleet"),
    allow(dead_code, reason = "only a fleet has machines")
)]
fn home(store: &Store) -> Result<Home, SessionError> {
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
    mut store: Store,
    session: &str,
) -> Result<Vec<String>, SessionError> {
    let mut lock = crate::store::SessionLock::take(&ctx.paths.data_dir, session)?;
    let mut warnings = Vec::new();
    take(ctx, &mut store, session, &mut warnings)?;
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
