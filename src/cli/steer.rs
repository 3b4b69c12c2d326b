//! Common parts of the subcommands that control a session from another process, whether or not a
//! process works on it.

use super::shared::SharedFlag;
use crate::core::entry::{CallId, Verdict};
use crate::core::signal::Signal;
use crate::report::{CliError, exit, note};
use crate::session::{AppContext, Delivery, Receipt, Steering, remote, short_id};
use crate::store::{Message, SessionInfo, Store};

/// Origin of these signals, as entries record it.
pub(super) const ORIGIN: &str = "cli";

/// Opens the store, unless this process may not control sessions.
pub(super) fn open_store(ctx: &AppContext) -> Result<Store, CliError> {
    ctx.steering().check_not_below_agent()?;
    Ok(super::open_store(ctx)?)
}

/// A session that a subcommand controls: of this data folder, or of the shared database.
pub(super) struct SteeredSession<'c> {
    ctx: &'c AppContext,
    steering: Steering,
    pub id: String,
    /// `None`: it is in the shared database.
    local: Option<(Store, SessionInfo)>,
}

impl SteeredSession<'_> {
    /// Finds the session.
    pub fn find<'c>(
        ctx: &'c AppContext,
        id: &str,
        shared: SharedFlag,
    ) -> Result<SteeredSession<'c>, CliError> {
        let (steering, id, local) = if shared.is_given() {
            let (steering, id) = remote::steering(ctx, id)?;
            (steering, id, None)
        } else {
            let (steering, store) = (ctx.steering(), open_store(ctx)?);
            let info = steering.find_session(&store, id)?;
            (steering, info.id.clone(), Some((store, info)))
        };
        Ok(SteeredSession {
            ctx,
            steering,
            id,
            local,
        })
    }

    pub fn is_shared(&self) -> bool {
        self.local.is_none()
    }

    /// Sends a message, with the bytes of its images.
    pub fn send(&mut self, message: Message, blobs: &[Vec<u8>]) -> Result<Receipt, CliError> {
        let mut opened = None;
        let store = match &mut self.local {
            Some((store, _)) => store,
            None => opened.insert(open_store(self.ctx)?),
        };
        let steering = &self.steering;
        Ok(steering.send(store, &self.id, message, blobs, ORIGIN)?)
    }

    /// Sends a signal.
    pub fn signal(&mut self, signal: Signal) -> Result<Receipt, CliError> {
        Ok(match &mut self.local {
            Some((store, info)) => self.ctx.steer(store, info, signal, ORIGIN)?,
            None => self.steering.signal_by_post(signal)?,
        })
    }

    /// Answers a call that needs approval. Reports which one it was.
    pub fn answer(&mut self, call: Option<CallId>, verdict: Verdict) -> Result<Receipt, CliError> {
        let mut copied = None;
        let (store, info) = match &mut self.local {
            Some(local) => local,
            None => {
                let mut store = self.ctx.open_store()?;
                let id = remote::copy(self.ctx, &mut store, &self.id)?.id;
                let info = store.history().find(&id)?;
                copied.insert((store, info))
            }
        };
        let what = match verdict {
            Verdict::Allow => "allowed",
            Verdict::Deny { .. } => "denied",
        };
        let (question, receipt) =
            self.steering
                .answer(store, info, call, (verdict, None), ORIGIN)?;
        note(&format!("{what}: {}", question.call.in_one_line(200)));
        Ok(receipt)
    }

    /// Reports the result of an order.
    pub fn report(&self, sending: Delivery) -> u8 {
        report_delivery_to(&self.id, sending, self.is_shared())
    }

    /// Closes the store. Returns the ID of the session.
    pub fn close(self) -> String {
        self.id
    }
}

/// Reports the result of an order to a session of this data folder.
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
