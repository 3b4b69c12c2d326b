//! Shell commands of the user (`!`): recorded, begun under a keeper, and recorded again when they
//! are over, by whichever process finds that. The model is told what came of them.
//!
//! One that has the terminal (`!vim`) is recorded here and run by the screen. Nobody can look at
//! it: one that this process did not hear the end of ended with another process.
//!
//! Invariant: none is begun by a later start. A person may not want it any more.

use std::collections::BTreeMap;

use super::steps::no_room;
use super::{EngineError, Event, Recorder, Write};
use crate::core::entry::{About, Entry, Guard, Seq};
use crate::core::text::one_line;
use crate::core::to_person::RAN_ON_TERMINAL;
use crate::world::{BackgroundEnd, Boundary, Unready, World};

/// How a command that had the terminal ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnTerminal {
    /// `None` when it did not exit by itself.
    pub exit_code: Option<i32>,
    /// In words: `exit code 0`.
    pub how: String,
}

/// So many run at the same time.
const MAX_RUNNING: usize = 32;

/// Of a command line, in what the model is told.
const LINE_CHARS: usize = 2_000;

/// Commands of the user that run on the terminal.
#[derive(Default)]
pub(super) struct UserCommands {
    /// Those that this process was told to give it to, and how they ended. Another process's are
    /// over.
    on_terminal: BTreeMap<Seq, Option<OnTerminal>>,
}

impl UserCommands {
    /// Record, then act. That it cannot be made ready is told at once. Returns whether it is
    /// recorded.
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
            false => {
                log.world.boundary(Boundary::BeforePrepare).await;
                let prepared = log.world.prepare_for_user(&command).await;
                log.world.boundary(Boundary::AfterPrepare).await;
                match prepared {
                    Ok(guard) => guard,
                    Err(Unready::NoRoom(why)) => return Err(no_room(why)),
                    Err(Unready::Refused(outcome)) => {
                        let (why, _) = outcome.to_model_text();
                        log.emit(Event::CommandNotRun { command, why });
                        return Ok(false);
                    }
                }
            }
        };
        let entry = log.state.next_seq();
        let recorded = Entry::UserCommand {
            command,
            guard: guard.clone(),
        };
        // It stood in the input box: after a crash it is not typed there once more.
        if let Err(error) = log.record(Write::of(recorded).clearing_input()).await {
            // It is made ready again when there is room.
            if !log.state.user_commands.contains_key(&entry) {
                log.discard(&guard).await;
            }
            return Err(error);
        }
        if on_terminal {
            self.on_terminal.insert(entry, None);
            return Ok(true);
        }
        log.world.boundary(Boundary::BeforeAct).await;
        log.world.begin_for_user(&guard).await;
        log.world.boundary(Boundary::AfterAct).await;
        Ok(true)
    }

    /// It is recorded when no call is open.
    pub(super) fn over_on_terminal(&mut self, entry: Seq, ended: OnTerminal) {
        self.on_terminal.insert(entry, Some(ended));
    }

    /// A command of the user that is over, and its end.
    pub(super) fn ended<W: World>(&self, log: &Recorder<W>) -> Option<(Seq, BackgroundEnd)> {
        let mut commands = log.state.user_commands.iter();
        commands.find_map(|(entry, command)| {
            let end = match (command.run(), self.on_terminal.get(entry)) {
                (Some(_), _) => log.world.user_command_end(command)?,
                // It has the terminal.
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

    /// The end goes into the log; only then may the run folder go.
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
            log.discard(&guard).await;
        }
        Ok(())
    }
}
