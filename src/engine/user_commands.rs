//! Shell commands of the user (`!`): recorded, started under a supervisor process, and recorded
//! again when they end, by whichever process finds that. The model is told how they ended.
//!
//! A command on the terminal (`!vim`) is recorded here and run by the screen. No later process can
//! check it: if this process does not know its end, it ended with another process.
//!
//! Invariant: a later start never starts such a command. A person may not want it any more.

use std::collections::BTreeMap;

use super::steps::no_room;
use super::{EngineError, Event, Recorder, Write};
use crate::core::entry::{About, Entry, Guard, Seq};
use crate::core::text::one_line;
use crate::core::to_person::RAN_ON_TERMINAL;
use crate::world::{BackgroundEnd, PrepareError, World};

/// The end of a command that ran on the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnTerminal {
    /// Its exit code. `None`: it did not exit by itself.
    pub exit_code: Option<i32>,
    /// How it ended, in words: `exit code 0`.
    pub how: String,
}

/// Maximum number of commands that run at the same time.
const MAX_RUNNING: usize = 32;

/// Maximum number of characters of a command line in the note to the model.
const LINE_CHARS: usize = 2_000;

/// Commands of the user that run on the terminal.
#[derive(Default)]
pub(super) struct UserCommands {
    /// The commands to which this process gave the terminal, and how they ended. Those of another
    /// process have ended.
    on_terminal: BTreeMap<Seq, Option<OnTerminal>>,
}

impl UserCommands {
    /// Records a command, then starts it. If it cannot be prepared, emits that at once. Returns
    /// whether it is recorded.
    pub(super) async fn run<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        command: String,
        on_terminal: bool,
    ) -> Result<bool, EngineError> {
        if log.state.user_commands.len() >= MAX_RUNNING {
            log.emit(Event::CommandNotRun {
                command,
                why: format!("{MAX_RUNNING} commands of yours run already"),
            });
            return Ok(false);
        }
        let guard = match on_terminal {
            true => Guard::Opaque,
            false => match log.world.prepare_for_user(&command).await {
                Ok(guard) => guard,
                Err(PrepareError::NoRoom(why)) => return Err(no_room(why)),
                Err(PrepareError::Refused(outcome)) => {
                    let (why, _) = outcome.to_model_text();
                    log.emit(Event::CommandNotRun { command, why });
                    return Ok(false);
                }
            },
        };
        let entry = log.state.next_seq();
        let recorded = Entry::UserCommand {
            command,
            guard: guard.clone(),
        };
        // Clears the input box too, so the text is not there again after a crash.
        if let Err(error) = log.record(Write::of(recorded).clearing_input()).await {
            // The command is prepared again when there is room.
            if !log.state.user_commands.contains_key(&entry) {
                log.world.discard(&guard).await;
            }
            return Err(error);
        }
        if on_terminal {
            self.on_terminal.insert(entry, None);
            return Ok(true);
        }
        log.world.begin_for_user(&guard).await;
        Ok(true)
    }

    /// Notes the end of a command on the terminal. It is recorded when no call is open.
    pub(super) fn over_on_terminal(&mut self, entry: Seq, ended: OnTerminal) {
        self.on_terminal.insert(entry, Some(ended));
    }

    /// Returns a command of the user that ended, and how.
    pub(super) fn ended<W: World>(&self, log: &Recorder<W>) -> Option<(Seq, BackgroundEnd)> {
        let mut commands = log.state.user_commands.iter();
        commands.find_map(|(entry, command)| {
            let end = match (command.run(), self.on_terminal.get(entry)) {
                (Some(_), _) => log.world.user_command_end(command)?,
                // It still has the terminal.
                (None, Some(None)) => return None,
                (None, Some(Some(ended))) => BackgroundEnd {
                    spent: Vec::new(),
                    exit_code: ended.exit_code,
                    text: format!(
                        "{RAN_ON_TERMINAL}{}\n{}; what it showed is not known",
                        one_line(&command.command, LINE_CHARS),
                        ended.how
                    ),
                    blobs: Vec::new(),
                },
                (None, None) => BackgroundEnd {
                    spent: Vec::new(),
                    exit_code: None,
                    text: format!(
                        "{RAN_ON_TERMINAL}{}\nit ended with rewake, and how is not known",
                        one_line(&command.command, LINE_CHARS)
                    ),
                    blobs: Vec::new(),
                },
            };
            Some((*entry, end))
        })
    }

    /// Records the end of a command. Only then the run folder may be removed.
    pub(super) async fn report_end<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        entry: Seq,
    ) -> Result<(), EngineError> {
        let Some((found, end)) = self.ended(log) else {
            return Ok(());
        };
        let guard = log.state.user_commands.get(&found).map(|c| c.guard.clone());
        debug_assert_eq!(found, entry);
        let noted = Entry::Noted {
            text: end.text,
            about: Some(About::UserCommandEnded {
                entry: found,
                exit_code: end.exit_code,
            }),
        };
        log.record(Write {
            blobs: end.blobs,
            ..Write::of(noted)
        })
        .await?;
        self.on_terminal.remove(&found);
        if let Some(guard) = guard {
            log.world.discard(&guard).await;
        }
        Ok(())
    }
}
