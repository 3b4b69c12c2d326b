//! Telemetry of a session: what is sent of it from this start on.

use super::AppContext;
use crate::core::state::State;
use crate::engine::Log;
use crate::store::{Store, StoreError, Telemetry, TelemetryCursor};
use crate::telemetry::spans::{Trace, call_span};
use crate::telemetry::{Job, settings, trace_of};

/// Returns the telemetry of this start, and the trace of the session. A problem is a warning.
pub(super) fn telemetry(
    ctx: &AppContext,
    log: &Log,
    warnings: &mut Vec<String>,
) -> Option<(Job, Trace)> {
    let session = log.head.session().to_string();
    let exporting = match settings::read(&ctx.config().telemetry, &ctx.env) {
        Ok(Some(exporting)) => {
            let parent = exporting.parent.as_deref().and_then(Trace::parse);
            let trace = begin(&log.store, &log.state, &session, parent);
            trace.map(|trace| Some((exporting, trace)))
        }
        Ok(None) => forget(&log.store, &session).map(|()| None),
        Err(warning) => {
            warnings.push(warning);
            return None;
        }
    };
    let (exporting, trace) = exporting.unwrap_or_else(|error| {
        warnings.push(format!("no telemetry is sent: {error}"));
        None
    })?;
    let job = Job {
        exporting,
        data_dir: ctx.paths.data_dir.clone(),
        session,
        waits_at_end: log.state.assignment.is_none(),
    };
    Some((job, trace))
}

/// Returns the trace of a session. The first start with telemetry decides it, and that entries
/// before it are not sent.
fn begin(
    store: &Store,
    state: &State,
    session: &str,
    parent: Option<Trace>,
) -> Result<Trace, StoreError> {
    if let Some(cursor) = Telemetry::of(store).cursor(session)? {
        return Ok(trace_of(&cursor));
    }
    let trace = match &state.assignment {
        Some(task) => {
            let above = Telemetry::of(store)
                .cursor(&task.parent)?
                .map(|cursor| cursor.trace);
            Trace {
                id: above.unwrap_or_else(|| Trace::of_session(&task.parent).id),
                parent: Some(call_span(&task.parent, task.call)),
            }
        }
        None => parent.unwrap_or_else(|| Trace::of_session(session)),
    };
    let cursor = TelemetryCursor {
        seq: state.next_seq(),
        turn: state.next_seq(),
        trace: trace.id,
        parent: trace.parent,
    };
    Telemetry::of(store).set_cursor(session, &cursor)?;
    Ok(trace)
}

/// Removes the progress of a session, so that the entries of a start without telemetry are never
/// sent.
fn forget(store: &Store, session: &str) -> Result<(), StoreError> {
    match Telemetry::of(store).cursor(session)? {
        Some(_) => Telemetry::of(store).forget(session),
        None => Ok(()),
    }
}
