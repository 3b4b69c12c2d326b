//! Shared sessions of other machines: a copy here, which follows, and what is sent to them.
//!
//! Invariant: a copy is verified as a bundle is, since anybody with a role may have written the rows.

use std::io::Seek;

use super::shared::{fleet_address, update_shared};
use super::steer::{Delivery, Outgoing, Post, Question, Receipt, Steering};
use super::{AppContext, SessionError};
use crate::bundle::{Bundle, BundleError, Importer, InputFile};
use crate::core::signal::Signal;
use crate::shared::SharedError;
use crate::shared::address::Address;
use crate::shared::connection::Connection;
use crate::shared::log::MailKind;
use crate::shared::reader::{SharedSession, bundle, part_after};
use crate::store::{SessionLock, Store, now_ms, shared};
use crate::tools;
use crate::workspace::root_text;

/// Maximum size of what one session asks, bytes.
const MAX_QUESTION_BYTES: usize = 4 << 20;

/// Runs requests to the database.
pub fn blocking<T, E: From<SharedError>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let runtime = crate::net::runtime().map_err(|error| SharedError::Failed {
        what: error.to_string(),
    })?;
    runtime.block_on(work)
}

/// A session of the database that is in this data folder now.
pub struct Copied {
    /// Its ID here.
    pub id: String,
    pub of: SharedSession,
    /// For the user.
    pub notes: Vec<String>,
}

/// Copies a session from the database, or the entries that its copy lacks. A session of this data
/// folder gets what the database has more.
///
/// # Errors
/// It is not there, or is damaged there.
pub fn copy(ctx: &AppContext, store: &mut Store, beginning: &str) -> Result<Copied, SessionError> {
    let address = fleet_address(ctx)?;
    let data_dir = &ctx.paths.data_dir;
    let of = blocking(async { Connection::connect(&address).await?.find(beginning).await })?;
    let mut copied = Copied {
        id: of.id.clone(),
        of,
        notes: Vec::new(),
    };
    let of = &copied.of;
    let is_own = store.history().knows(&of.id)? && store.history().find(&of.id)?.shared.is_some();
    if is_own {
        // A process that works in it has it all.
        if SessionLock::is_held(data_dir, &of.id) {
            return Ok(copied);
        }
        match update_shared(ctx, store, &of.id) {
            Ok(warnings) => {
                copied.notes = warnings;
                return Ok(copied);
            }
            Err(SessionError::Shared(error)) => {
                copied.notes.push(format!("{error}; a copy is read"));
            }
            Err(error) => return Err(error),
        }
    }
    let failed = |error: std::io::Error| SharedError::Failed {
        what: error.to_string(),
    };
    let damaged = |error: BundleError| SharedError::Failed {
        what: format!("session {}: {error}", of.id),
    };
    let new_file = || tempfile::tempfile_in(data_dir).map_err(failed);
    let (spool, file) = (new_file()?, new_file()?);
    let mut file = blocking(async {
        let connection = Connection::connect(&address).await?;
        bundle(&connection, of, spool, file, now_ms()).await
    })?;
    file.rewind().map_err(failed)?;
    let input = InputFile::copy(file, data_dir).map_err(damaged)?;
    let bundle = Bundle::check(input, tools::describe, false).map_err(damaged)?;
    let mut importer = Importer {
        store,
        data_dir,
        folder: None,
        workspace_of: &root_text,
        new_id: false,
        max_file_bytes: ctx.config().files.max_bytes,
        now_ms: now_ms(),
    };
    let imported = importer.import(&bundle).map_err(damaged)?;
    let imported = imported
        .into_iter()
        .next()
        .ok_or_else(|| SharedError::Failed {
            what: format!("session {} has no entry yet", of.id),
        })?;
    copied.id = imported.session;
    Ok(copied)
}

/// Returns the sender to a session of the database.
///
/// # Errors
/// The config names none.
pub fn post(ctx: &AppContext, session: &str) -> Result<Post, SessionError> {
    let (address, session) = (fleet_address(ctx)?, session.to_string());
    Ok(Box::new(move |outgoing| {
        Ok(blocking(send(&address, &session, outgoing))?)
    }))
}

/// Returns the sender to the session whose ID begins so, and its ID.
///
/// # Errors
/// It is not in the database.
pub fn steering(ctx: &AppContext, beginning: &str) -> Result<(Steering, String), SessionError> {
    let address = fleet_address(ctx)?;
    let found = blocking(async { Connection::connect(&address).await?.find(beginning).await })?;
    Ok((ctx.steering().by(post(ctx, &found.id)?), found.id))
}

/// Gives the open questions of all sessions of the database, session by session, or the error of one
/// that cannot be read. So only one of them is in memory.
///
/// # Errors
/// The database or the store cannot be read.
pub fn each_questions(
    ctx: &AppContext,
    give: &mut dyn FnMut(Result<Vec<Question>, SessionError>),
) -> Result<(), SessionError> {
    let address = fleet_address(ctx)?;
    let asking = blocking(async { Connection::connect(&address).await?.asking().await })?;
    let mut store = ctx.open_store()?;
    for session in asking {
        give(questions_of(ctx, &mut store, &session.id));
    }
    Ok(())
}

fn questions_of(
    ctx: &AppContext,
    store: &mut Store,
    session: &str,
) -> Result<Vec<Question>, SessionError> {
    let copied = copy(ctx, store, session)?;
    let info = store.history().find(&copied.id)?;
    let mut questions = ctx.steering().questions_of(store, &info)?;
    for question in &mut questions {
        question.is_live = copied.of.held;
    }
    let bytes = |q: &Question| q.call.arguments.len() + q.asked.why.len();
    if questions.iter().map(bytes).sum::<usize>() > MAX_QUESTION_BYTES {
        let what = format!("session {session}: its question is too large");
        return Err(SharedError::Failed { what }.into());
    }
    Ok(questions)
}

async fn send(
    address: &Address,
    session: &str,
    outgoing: Outgoing<'_>,
) -> Result<Receipt, SharedError> {
    let connection = Connection::connect(address).await?;
    let of = connection.find(session).await?;
    let sending = match of.held {
        true => Delivery::Heard,
        false => Delivery::Kept,
    };
    let json = |row: serde_json::Result<String>| {
        row.map_err(|error| SharedError::Failed {
            what: error.to_string(),
        })
    };
    let sent = match outgoing {
        Outgoing::Message(message, blobs) => {
            let body = json(serde_json::to_string(message))?;
            connection
                .send(&of.id, MailKind::Message, &body, blobs)
                .await?
        }
        Outgoing::Signal(Signal::Stop { .. }) if !of.held => {
            return Ok(Receipt {
                id: None,
                sending: Delivery::NothingToDo,
            });
        }
        Outgoing::Signal(signal) => {
            let last = u64::try_from(of.entries)
                .unwrap_or_default()
                .saturating_sub(1);
            let body = json(serde_json::to_string(&signal.clone().sent_after(last)))?;
            connection
                .send(&of.id, MailKind::Signal, &body, &[])
                .await?
        }
    };
    Ok(Receipt {
        id: (sent > 0).then_some(sent),
        sending: if sent > 0 { sending } else { Delivery::Done },
    })
}

/// A copy that follows its session.
pub struct Remote {
    /// The ID of the session, and that of its copy here.
    pub session: String,
    pub copy: String,
    runtime: tokio::runtime::Runtime,
    address: Address,
    connection: Option<Connection>,
    /// Whether a process holds its lease.
    pub is_held: bool,
}

impl Remote {
    /// Copies a session, and keeps a connection to follow it.
    ///
    /// # Errors
    /// As [`copy`].
    pub fn open(ctx: &AppContext, store: &mut Store, id: &str) -> Result<Remote, SessionError> {
        let copied = copy(ctx, store, id)?;
        Ok(Remote {
            is_held: copied.of.held,
            session: copied.of.id,
            copy: copied.id,
            runtime: crate::net::runtime().map_err(SessionError::Runtime)?,
            address: fleet_address(ctx)?,
            connection: None,
        })
    }

    /// Appends the entries that the copy lacks.
    ///
    /// # Errors
    /// `Away`: the next call may work. Others: the copy does not follow any more.
    pub fn pull(&mut self, store: &mut Store) -> Result<(), SessionError> {
        // The process that recorded it here appends to it.
        if store.history().find(&self.copy)?.shared.is_some() {
            return Ok(());
        }
        let open = self.connection.take();
        let open = open.filter(|open| !open.client.is_closed());
        let (connection, of) = self.runtime.block_on(async {
            let connection = match open {
                Some(connection) => connection,
                None => Connection::connect(&self.address).await?,
            };
            let of = connection.find(&self.session).await?;
            Ok::<_, SharedError>((connection, of))
        })?;
        self.is_held = of.held;
        loop {
            let here = shared::end_of(store, &self.copy)?;
            let part = part_after(&connection, &of, here);
            match self.runtime.block_on(part)? {
                Some(new) => shared::append_to_copy(store, &self.copy, &new)?,
                None => break,
            }
        }
        self.connection = Some(connection);
        Ok(())
    }
}
