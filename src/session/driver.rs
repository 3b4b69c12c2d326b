//! The driver of a session: runs its engine on a separate runtime until the caller's work is done.
//!
//! The screen, a headless run and `rewake compact` open a session, pass the work for its engine,
//! and report the result. Everything in between is here.
//!
//! Invariant: the lock of the session is held until nothing can be written to it any more.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use super::{Session, SessionError};
use crate::core::entry::By;
use crate::core::next::Why;
use crate::core::state::State;
use crate::engine::{Command, Engine, EngineError, OnEvent, RestReason, notify};
use crate::store::SessionLock;
use crate::telemetry::Sender;
use crate::world::machine::Machine;

/// Time after which a full disk is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// Time between two signs of life. A later start knows the time of a kill to this precision.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// The progress of an engine that works and waits for commands in turn.
pub enum Attended<'a> {
    Works,
    Rests(Why, &'a State),
    /// Nothing can be recorded now. It is tried again.
    Pauses(&'a EngineError),
    /// It tries again.
    GoesOn,
}

/// The engine of an open session.
pub struct Driver {
    pub engine: Engine<Machine>,
    /// The text of the resume report, until it is recorded.
    found: Option<String>,
    /// Whether the previous process left because nothing could be recorded.
    was_unrecorded: bool,
    /// Whether this process fails to record for the same reason, as of the last run.
    is_unrecorded: bool,
    /// Sends the spans of the session. `None`: telemetry is off.
    telemetry: Option<Sender>,
}

impl Driver {
    /// Works until there is nothing to do without a person. First records once that the session was
    /// resumed.
    ///
    /// # Errors
    /// As [`Engine::run`]. It may be called again, and then retries to record.
    pub async fn run(&mut self, by: By) -> Result<RestReason, EngineError> {
        let rest = self.resume_and_run(by).await;
        self.is_unrecorded = matches!(&rest, Err(error) if error.is_passing());
        let warning = self.telemetry.as_ref().and_then(Sender::take_warning);
        notify(&mut self.engine, warning);
        rest
    }

    /// Works and waits for commands, again and again, until it is told to leave. `tell` shows the
    /// progress.
    ///
    /// # Errors
    /// As [`Engine::run`], for a reason that does not pass.
    pub async fn attend(&mut self, tell: impl Fn(Attended<'_>)) -> Result<(), EngineError> {
        let mut is_last_try = false;
        loop {
            let step = async {
                tell(Attended::Works);
                match self.run(By::Person).await? {
                    RestReason::Left(_) => Ok::<_, EngineError>(true),
                    RestReason::Waiting(why) => {
                        tell(Attended::Rests(why, self.engine.state()));
                        self.engine.idle().await?;
                        Ok(false)
                    }
                }
            };
            match step.await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                // An engine that leaves does not wait for room. The last message was tried once more.
                Err(error) if error.is_passing() && !is_last_try => {
                    tell(Attended::Pauses(&error));
                    tokio::time::sleep(AGAIN).await;
                    is_last_try = self.engine.is_abandoned();
                    tell(Attended::GoesOn);
                }
                Err(error) => {
                    tracing::error!(%error, "the engine stopped");
                    return Err(error);
                }
            }
        }
    }

    async fn resume_and_run(&mut self, by: By) -> Result<RestReason, EngineError> {
        if let Some(found) = &self.found {
            let engine = &mut self.engine;
            engine
                .record_resumed(by, found.clone(), self.was_unrecorded)
                .await?;
            self.found = None;
        }
        self.engine.run().await
    }
}

/// Shows that the session is alive, since nothing is recorded while a long command runs.
async fn show_life(lock: &SessionLock) -> Infallible {
    loop {
        lock.show_life();
        tokio::time::sleep(SIGN_OF_LIFE).await;
    }
}

/// Runs `work` with the engine of a session, then releases the session.
///
/// # Errors
/// [`SessionError::Runtime`]; nothing was started.
pub fn drive<T>(
    session: Session,
    commands: UnboundedReceiver<Command>,
    on_event: OnEvent,
    work: impl AsyncFnOnce(&mut Driver) -> T,
) -> Result<T, SessionError> {
    let runtime = crate::net::runtime().map_err(SessionError::Runtime)?;
    let Session {
        mut lock,
        tmp,
        log,
        world,
        settings,
        found,
        telemetry,
        ..
    } = session;
    let held = &lock;
    let (done, is_unrecorded) = runtime.block_on(async move {
        let mut driver = Driver {
            engine: Engine::new(log, world, settings, commands, on_event),
            found: found.map(|found| found.line()),
            was_unrecorded: held.was_unrecorded(),
            is_unrecorded: false,
            telemetry: telemetry.map(Sender::start),
        };
        let done = tokio::select! {
            done = work(&mut driver) => done,
            never = show_life(held) => match never {},
        };
        driver.engine.stop_unneeded_servers().await;
        // Nothing is recorded any more.
        let warning = driver.telemetry.take().and_then(Sender::finish);
        notify(&mut driver.engine, warning);
        (done, driver.is_unrecorded)
    });
    // An interrupted search may still run on a thread, which ends with the process.
    runtime.shutdown_background();
    tmp.remove();
    if is_unrecorded {
        lock.mark_unrecorded_stop();
    }
    drop(lock);
    Ok(done)
}
