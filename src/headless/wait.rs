//! Waiting for a person who answers from another process, in a run without a screen.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep_until};

use super::input::Input;
use crate::config::NotifyOn;
use crate::core::entry::{Entry, SaveReason};
use crate::core::next::Why;
use crate::core::state::State;
use crate::core::text::session_name;
use crate::engine::{Command, Event};
use crate::report::note;
use crate::session::{NotifyCommand, short_id};

/// Handling of questions that would need a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ask {
    /// The question is denied.
    #[default]
    Deny,
    /// The question is asked, and the run waits for an answer from another process, at most this
    /// long.
    Wait(Option<Duration>),
    /// The parent of a subagent is asked. A subagent that reaches a limit stops, its parent learns
    /// of it and decides whether it continues.
    Parent,
}

/// Longest time to wait for a person.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// Parses the typed form: `deny`, `wait`, `wait=30m`.
impl std::str::FromStr for Ask {
    type Err = String;

    fn from_str(text: &str) -> Result<Ask, String> {
        match text.split_once('=') {
            None if text == "deny" => Ok(Ask::Deny),
            None if text == "wait" => Ok(Ask::Wait(None)),
            Some(("wait", text)) => time(text).map(|time| Ask::Wait(Some(time))),
            _ => Err("deny, wait, or wait=30m".to_string()),
        }
    }
}

/// Parses a time of at least a second and at most 30 days: 90s, 30m or 2h.
///
/// # Errors
/// Why it is none, for a person.
pub fn time(text: &str) -> Result<Duration, String> {
    let found = duration(text).filter(|time| *time <= LONGEST && !time.is_zero());
    found.ok_or_else(|| format!("{text:?} is not a time: 90s, 30m or 2h, and 30 days at most"))
}

fn duration(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back()?;
    let number = text.strip_suffix(unit)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    Some(Duration::from_secs(number.checked_mul(seconds)?))
}

impl Ask {
    /// Returns whether somebody can be asked.
    pub fn is_attended(self) -> bool {
        matches!(self, Ask::Wait(_) | Ask::Parent)
    }
}

/// A wait for a person, and its start.
pub(super) struct WaitState {
    ask: Ask,
    /// Command that notifies the person. `None`: the run does not wait.
    notify: Option<NotifyCommand>,
    since: Cell<Option<Instant>>,
    changed: Notify,
    is_over: Cell<bool>,
}

impl WaitState {
    pub(super) fn new(ask: Ask, notify: NotifyCommand) -> Rc<WaitState> {
        Rc::new(WaitState {
            ask,
            notify: matches!(ask, Ask::Wait(_)).then_some(notify),
            since: Cell::new(None),
            changed: Notify::new(),
            is_over: Cell::new(false),
        })
    }

    pub(super) fn event(&self, state: &State, event: &Event) {
        match event {
            Event::Asked { .. } | Event::ServerAsks { .. } => {
                self.tell(state, NotifyOn::Approval, "asks");
                self.waits(true);
            }
            Event::ChildAsks(Some(_)) => self.tell(state, NotifyOn::Approval, "asks"),
            Event::Recorded(record) => match &record.entry {
                // Nothing that a person has to act on.
                Entry::Saved { .. } | Entry::Asked { .. } | Entry::Paused { .. } => {}
                _ => self.waits(false),
            },
            _ => {}
        }
    }

    /// Runs the user's notification command, like the screen does in the background.
    fn tell(&self, state: &State, event: NotifyOn, what: &str) {
        if let Some(notify) = &self.notify {
            let title = session_name(state.title());
            notify.run_for(event, &format!("{what}: {title}"));
        }
    }

    fn waits(&self, waits: bool) {
        let since = self.since.get().filter(|_| waits);
        self.since.set(since.or_else(|| waits.then(Instant::now)));
        self.changed.notify_one();
    }

    /// Returns whether the run waits until a person elsewhere resolves this. Prints a note, since
    /// nothing else is printed during the wait.
    pub(super) fn waits_for_person_elsewhere(
        &self,
        why: Why,
        state: &State,
        session: &str,
    ) -> bool {
        let short = short_id(session);
        match (why, self.ask) {
            (Why::Paused, Ask::Wait(_)) => note(&format!(
                "paused; this run waits, and continues after rewake unblock {short}"
            )),
            (Why::Limit, Ask::Wait(_)) => {
                self.tell(state, NotifyOn::Failed, "cannot continue");
                note(&format!(
                    "a limit is reached; this run waits, and continues after rewake unblock {short}"
                ));
            }
            (Why::Repeats, Ask::Wait(_)) => {
                self.tell(state, NotifyOn::Failed, "cannot continue");
                note(&format!(
                    "the model repeats itself; this run waits, and continues after rewake unblock {short}"
                ));
            }
            (Why::Paused, Ask::Parent) => {}
            _ => return false,
        }
        self.waits(true);
        true
    }

    /// Ends the run when the time limit for a person is reached.
    /// Nobody answers on stdin after its end, so the limit is over then.
    pub(super) async fn limit(
        &self,
        commands: UnboundedSender<Command>,
        input: &Input,
    ) -> Infallible {
        let Ask::Wait(longest) = self.ask else {
            return std::future::pending().await;
        };
        let longest = longest.unwrap_or(LONGEST);
        loop {
            let Some(since) = self.since.get() else {
                self.changed.notified().await;
                continue;
            };
            tokio::select! {
                () = async {
                    tokio::select! {
                        () = sleep_until(since + longest) => {}
                        () = input.ended() => {}
                    }
                } => {
                    self.is_over.set(true);
                    // The engine ends only when the run is over.
                    let _ = commands.send(Command::Leave(SaveReason::Exit));
                    return std::future::pending().await;
                }
                () = self.changed.notified() => {}
            }
        }
    }

    /// Returns whether the time limit has passed without an answer.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.get()
    }
}
