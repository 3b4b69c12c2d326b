//! Common parts of the subcommands that control a session from another process, whether or not a
//! process works on it.

use crate::core::entry::{CallId, Verdict};
use crate::core::signal::Signal;
use crate::report::{CliError, exit, note};
use crate::session::{AppContext, Delivery, Question, short_id};
use crate::store::{SessionInfo, Store};

/// Origin of these signals, as entries record it.
pub(super) const ORIGIN: &str = "cli";

/// Opens the store, unless this process may not control sessions.
pub(super) fn open_store(ctx: &AppContext) -> Result<Store, CliError> {
    ctx.steering().check_not_below_agent()?;
    Ok(super::open_store(ctx)?)
}

/// Sends a signal to a session.
pub(super) fn send_signal(ctx: &AppContext, id: &str, signal: Signal) -> Result<u8, CliError> {
    let mut store = open_store(ctx)?;
    let info = ctx.steering().find_session(&store, id)?;
    let sending = ctx.steer(&mut store, &info, signal, ORIGIN)?.sending;
    Ok(report_delivery(&info, sending))
}

/// Answers a call that needs approval.
pub(super) fn answer(
    ctx: &AppContext,
    id: &str,
    call: Option<CallId>,
    verdict: Verdict,
) -> Result<u8, CliError> {
    let mut store = open_store(ctx)?;
    let info = ctx.steering().find_session(&store, id)?;
    let (question, receipt) =
        ctx.steering()
            .answer(&mut store, &info, call, (verdict.clone(), None), ORIGIN)?;
    note(&answered(&verdict, &question));
    Ok(report_delivery(&info, receipt.sending))
}

/// Returns the line about a verdict.
pub(super) fn answered(verdict: &Verdict, question: &Question) -> String {
    let what = match verdict {
        Verdict::Allow => "allowed",
        Verdict::Deny { .. } => "denied",
    };
    format!("{what}: {}", question.call.in_one_line(200))
}

/// Reports the result of an order.
pub(super) fn report_delivery(info: &SessionInfo, sending: Delivery) -> u8 {
    report_delivery_to(&info.id, sending, false)
}

/// Reports the result of an order to a session, of this data folder or of the shared database.
pub(super) fn report_delivery_to(id: &str, sending: Delivery, is_shared: bool) -> u8 {
    let id = short_id(id);
    note(&match sending {
        Delivery::Heard => format!("sent to {id}"),
        Delivery::Kept if is_shared => {
            format!("saved: {id} is not running; the next process that runs it will read it")
        }
        Delivery::Kept => format!("saved: {id} is not running; rewake -r {id} will read it"),
        Delivery::NothingToDo => format!("{id} is not running"),
        Delivery::Done => format!("{id} is paused; rewake unblock {id} lifts that"),
    });
    exit::DONE
}
