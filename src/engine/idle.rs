//! The wait of a session that has nothing to do without a person.

use std::time::Duration;

use tokio::time::sleep_until;

use super::signals::PollResult;
use super::title::Title;
use super::{Engine, EngineError};
use crate::core::entry::SaveReason;
use crate::core::next::{Step, next};
use crate::world::World;

/// Time between two checks of background commands.
const LOOK: Duration = Duration::from_secs(1);
/// The same while a command of the user runs, whose output they wait for.
const LOOK_FOR_PERSON: Duration = Duration::from_millis(50);

impl<W: World> Engine<W> {
    /// Waits until there may be something to do: a command came, a summary is ready, or a
    /// background command ended. Leaves the session if nobody can send commands any more.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub async fn idle(&mut self) -> Result<(), EngineError> {
        self.log.world.rest();
        let every = match self.log.state.user_commands.is_empty() {
            true => LOOK,
            false => LOOK_FOR_PERSON,
        };
        let mut look = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut may_be_tidied = true;
        if !self.requests.waits_for_person {
            self.title.ask(&self.log, &self.summaries);
        }
        self.signals_look.begin_to_wait();
        loop {
            tokio::select! {
                biased;
                command = self.commands.recv() => {
                    match command {
                        Some(command) => drop(self.accept(command).await?),
                        None => self.requests.left = Some(SaveReason::Exit),
                    }
                    return Ok(());
                }
                () = sleep_until(self.signals_look.due) => {
                    if self.poll_signals().await? > PollResult::Nothing {
                        return Ok(());
                    }
                }
                _ = self.timer.tick() => self.tick().await?,
                () = self.summaries.drive(), if self.summaries.is_running() => return Ok(()),
                found = self.files.behind.end(), if self.files.behind.is_running() => {
                    self.log.record_files(found).await?;
                }
                made = self.title.answer(), if self.title.is_asked() => {
                    Title::record(&mut self.log, made).await?;
                }
                _ = look.tick() => {
                    let step = next(&self.log.state, &self.log.policy, &self.pending()?);
                    if matches!(step, Step::ReportEnd(_) | Step::ReportUserEnd(_)) {
                        return Ok(());
                    }
                    may_be_tidied = may_be_tidied && self.log.tidy();
                }
            }
        }
    }
}
