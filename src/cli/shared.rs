//! The sessions of the shared database, for commands with `--shared`: a list, a copy here, and what is
//! sent to them.

use serde_json::json;

use super::time::local_time;
use super::{print_json, steer};
use crate::core::entry::{CallId, Verdict};
use crate::core::signal::Signal;
use crate::core::text::{count, one_line, session_name};
use crate::core::visible::visible;
use crate::report::{CliError, exit, line, note};
use crate::session::remote::{self, blocking};
use crate::session::shared::fleet_address;
use crate::session::{AppContext, Question, Steering, short_id};
use crate::shared::SharedError;
use crate::shared::connection::Connection;
use crate::shared::reader::SharedSession;

const TITLE_CHARS: usize = 80;
const HOST_CHARS: usize = 40;
/// Maximum size of what one session asks, bytes.
const MAX_QUESTION_BYTES: usize = 4 << 20;

/// Prints the sessions that changed last.
pub(super) fn list(ctx: &AppContext, json: bool) -> Result<u8, CliError> {
    let address = fleet_address(ctx)?;
    let sessions = blocking(async { Connection::connect(&address).await?.sessions().await })
        .map_err(|error: SharedError| CliError::from(error))?;
    if json {
        return print_json(&json!({ "sessions": sessions }));
    }
    for session in &sessions {
        let shown = |text: &str, most| one_line(&visible(text), most);
        let title = match session.title.as_str() {
            "" => session_name(None).to_string(),
            title => shown(title, TITLE_CHARS),
        };
        line(&format!(
            "{}  {}  {:<10}  {:>13}  {title}  {}:{}",
            short_id(&session.id),
            local_time(session.updated_ms),
            shown(&session.state, 10),
            count(u64::try_from(session.entries).unwrap_or_default(), "entry"),
            shown(&session.host, HOST_CHARS),
            visible(&session.folder()),
        ));
    }
    if sessions.is_empty() {
        note("there are no shared sessions yet; rewake -p \"what to do\" --shared starts one");
    }
    Ok(exit::DONE)
}

/// Copies a session from the database. Returns its ID here.
pub(super) fn copy(ctx: &AppContext, beginning: &str) -> Result<String, CliError> {
    let copied = remote::copy(ctx, &mut ctx.open_store()?, beginning)?;
    copied.notes.iter().for_each(|text| note(text));
    Ok(copied.id)
}

/// Returns a sender to a session of the database, and the session.
pub(super) fn steering(
    ctx: &AppContext,
    beginning: &str,
) -> Result<(Steering, SharedSession), CliError> {
    let address = fleet_address(ctx)?;
    let found = blocking(async { Connection::connect(&address).await?.find(beginning).await })
        .map_err(|error: SharedError| CliError::from(error))?;
    Ok((ctx.steering().by(remote::post(ctx, &found.id)?), found))
}

/// Sends a signal to a session of the database.
pub(super) fn send_signal(ctx: &AppContext, id: &str, signal: Signal) -> Result<u8, CliError> {
    let (steering, found) = steering(ctx, id)?;
    let receipt = steering.signal_by_post(signal)?;
    Ok(steer::report_delivery_to(&found.id, receipt.sending, true))
}

/// Answers a call of a session of the database.
pub(super) fn answer(
    ctx: &AppContext,
    id: &str,
    call: Option<CallId>,
    verdict: Verdict,
) -> Result<u8, CliError> {
    let (steering, found) = steering(ctx, id)?;
    let mut store = ctx.open_store()?;
    let copied = remote::copy(ctx, &mut store, &found.id)?;
    let info = store.history().find(&copied.id)?;
    let (question, receipt) = steering.answer(
        &mut store,
        &info,
        call,
        (verdict.clone(), None),
        steer::ORIGIN,
    )?;
    note(&steer::answered(&verdict, &question));
    Ok(steer::report_delivery_to(&found.id, receipt.sending, true))
}

/// Gives the open questions of all sessions of the database, session by session, or the error of one that
/// cannot be read. So only one of them is in memory.
pub(super) fn each_questions(
    ctx: &AppContext,
    give: &mut dyn FnMut(Result<Vec<Question>, String>),
) -> Result<(), CliError> {
    let address = fleet_address(ctx)?;
    let asking = blocking(async { Connection::connect(&address).await?.asking().await })
        .map_err(|error: SharedError| CliError::from(error))?;
    let mut store = ctx.open_store()?;
    for session in asking {
        let read = remote::copy(ctx, &mut store, &session.id).and_then(|copied| {
            let info = store.history().find(&copied.id)?;
            let mut of_session = ctx.steering().questions_of(&store, &info)?;
            for question in &mut of_session {
                question.is_live = copied.of.held;
            }
            let bytes = |q: &Question| q.call.arguments.len() + q.asked.why.len();
            if of_session.iter().map(bytes).sum::<usize>() > MAX_QUESTION_BYTES {
                let what = format!("session {}: its question is too large", session.id);
                return Err(SharedError::Failed { what }.into());
            }
            Ok(of_session)
        });
        give(read.map_err(|error| CliError::from(error).message));
    }
    Ok(())
}
