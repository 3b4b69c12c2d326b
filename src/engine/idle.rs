//! A session in which nothing is to be done without a person: what is waited for.

use std::time::Duration;

use tokio::time::sleep_until;

use super::signals::Heard;
use super::{Engine, EngineError};
use crate::core::entry::SaveReason;
use crate::core::next::{Step, next};
use crate::world::World;

/// How often background commands are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// And while a person waits for what their own command prints.
const LOOK_FOR_PERSON: Duration = Duration::from_millis(50);

impl<W: World> Engine<W> {
    /// Waits until there may be something to do: a command came, a summary is ready, or a
    /// background command ended. Without anybody left who could say something, it leaves.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub async fn idle(&mut self) -> Result<(), EngineError> {
        let every = match self.log.state.user_commands.is_empty() {
            true => LOOK,
            false => LOOK_FOR_PERSON,
        };
        let mut look = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut may_be_tidied = true;
        self.ask_for_title();
        self.begin_to_wait();
        loop {
            tokio::select! {
                biased;
                command = self.commands.recv() => {
                    match command {
                        Some(command) => drop(self.accept(command).await?),
                        None => self.left = Some(SaveReason::Exit),
                    }
                    return Ok(());
                }
                () = sleep_until(self.signals_look.due) => {
                    if self.look_for_signals().await? > Heard::Nothing {
                        return Ok(());
                    }
                }
                _ = self.timer.tick() => self.tick().await?,
                () = self.summaries.drive(), if self.summaries.is_running() => return Ok(()),
                found = self.look_behind.end(), if self.look_behind.is_running() => {
                    self.record_files(found).await?;
                }
                made = self.title.answer(), if self.title.is_asked() => {
                    self.record_title(made).await?;
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
