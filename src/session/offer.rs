//! Unfinished work of a folder, as a start offers it: how it stopped, what it was doing, what
//! still runs, and what is in doubt.
//!
//! Looking changes nothing: a session that is offered is neither locked nor woken.

use super::reading::{Recent, fold};
use super::resume_report::ResumeReport;
use super::{SessionError, SessionList, now_ms};
use crate::command::server::Servers;
use crate::command::{RunState, Runs};
use crate::core::ending::Ending;
use crate::core::entry::{Entry, Failure, FailureClass, Guard, Mode, Record, SaveReason};
use crate::core::marks::title_line;
use crate::core::request_failure::RequestFailure;
use crate::core::state::{Halt, State};
use crate::core::text::{count, one_line};
use crate::store::{SessionInfo, SessionLock, Store};

/// Of the end of what a command printed, this is looked at for its last line.
const TAIL_BYTES: u64 = 2_000;

/// So many finished sessions are offered for the words left in them.
const MAX_WITH_WORDS: u32 = 3;

/// For so long after the session's last entry: a week.
const WORDS_OFFERED_MS: i64 = 7 * 24 * 3_600_000;

/// A slash command is done or not; it is nothing that somebody wanted to say.
fn is_command(draft: &str) -> bool {
    let stored: Option<serde_json::Value> = serde_json::from_str(draft).ok();
    let text = stored.as_ref().and_then(|s| s.get("text")?.as_str());
    text.unwrap_or(draft).starts_with('/')
}

/// An unfinished session as a start offers it.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    pub info: SessionInfo,
    /// Another process works in it.
    pub held_by: Option<u32>,
    /// What takes a look into the log: `None` until that was taken, or when it cannot be read.
    pub details: Option<Details>,
}

/// What a look into the log of an offered session says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Details {
    /// `killed`, `the machine went down`, `left on a signal`, …
    pub how: String,
    /// When it stopped so, as far as is known: UTC, milliseconds since 1970.
    pub since_ms: i64,
    /// Why it failed, in a few words; `None` when it did not.
    pub failure: Option<String>,
    /// What the model may do without asking.
    pub mode: Mode,
    /// The last message of the user.
    pub request: Option<String>,
    /// The beginning of what stands unsent in the input box.
    pub typed: Option<String>,
    /// The last thing that it was about.
    pub doing: Option<String>,
    /// The step of the plan that was being worked on.
    pub plan_step: Option<String>,
    /// Which step of how many it is, from 1.
    pub plan_at: Option<(usize, usize)>,
    /// Its commands that go on.
    pub running: Vec<StillRunning>,
    /// Words of an answer that was being made, and messages that wait.
    pub recovered: Vec<String>,
    /// What may or may not have happened.
    pub in_doubt: Vec<String>,
}

/// A command that goes on while nobody works in its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StillRunning {
    pub command: String,
    /// Since it was begun, milliseconds.
    pub age_ms: i64,
    /// The last line that it printed. `None`: it printed none yet, or it cannot be read.
    pub last_line: Option<String>,
}

impl SessionList {
    /// The newest first, without the details. Those that were dismissed only with `all`.
    pub fn offers(&self, store: &Store, all: bool) -> Result<Vec<Offer>, SessionError> {
        let mut offered = self.unfinished(store, all)?;
        for info in self.with_words(store)? {
            if !offered.iter().any(|other| other.id == info.id) {
                offered.push(info);
            }
        }
        Ok(offered.into_iter().map(|info| self.offer(info)).collect())
    }

    /// Finished sessions of this folder in which words were left unsent, by a kill or the end of
    /// the terminal. One that another process has is no offer, and an old one no more.
    fn with_words(&self, store: &Store) -> Result<Vec<SessionInfo>, SessionError> {
        let mut found = store.with_input(&self.workspace, MAX_WITH_WORDS)?;
        found.retain(|(_, draft)| !is_command(draft));
        let mut found: Vec<SessionInfo> = found.into_iter().map(|(info, _)| info).collect();
        let edited = self.editor.sessions(store, &self.workspace)?.into_iter();
        found.extend(edited.filter(|info| store.is_said(&info.id).unwrap_or(false)));
        let since_ms = now_ms() - WORDS_OFFERED_MS;
        found.retain(|info| {
            info.updated_ms >= since_ms && !info.dismissed && !self.is_in_use(&info.id)
        });
        Ok(found)
    }

    /// An offer of this session, without details.
    pub fn offer(&self, info: SessionInfo) -> Offer {
        let holder = || SessionLock::holder(&self.data_dir, &info.id).unwrap_or(0);
        Offer {
            held_by: self.is_in_use(&info.id).then(holder),
            info,
            details: None,
        }
    }
}

/// Returns the commands that still run in each of these sessions.
pub fn still_running(runs: &Runs, sessions: Vec<String>) -> Vec<(String, Vec<StillRunning>)> {
    let of = |id: String| {
        let found = running(runs, &id);
        (id, found)
    };
    sessions.into_iter().map(of).collect()
}

impl SessionList {
    /// A look into the log of what is offered.
    pub fn details(
        &self,
        store: &Store,
        info: &SessionInfo,
        (runs, servers): (&Runs, &Servers),
    ) -> Result<Details, SessionError> {
        let mut recent = Recent::new(true);
        let (_, state, last) = fold(store, &info.id, &mut recent)?;
        let queued = store.queued(&info.id)?.len();
        let drafts = store.drafts(&info.id)?;
        let title = info.title.as_deref();
        let found = ResumeReport::look(
            &info.id,
            title,
            last.as_ref(),
            &state,
            runs,
            queued,
            now_ms(),
        );
        let held_ms = SessionLock::held_ms(&self.data_dir, &info.id);
        let mut recovered = Vec::new();
        if let Some(words) = drafts.stream.filter(|d| !d.trim().is_empty()) {
            let words = count(words.split_whitespace().count(), "word");
            recovered.push(format!("{words} of an answer that was streaming"));
        }
        if queued > 0 {
            recovered.push(count(queued, "queued message"));
        }
        if self
            .editor
            .text(&info.id)
            .is_some_and(|t| !t.trim().is_empty())
        {
            recovered.push("what you wrote in your editor".to_string());
        }
        let typed = drafts.input.filter(|d| !d.trim().is_empty());
        let recent = recent.into_records();
        let request = recent.iter().rev().find_map(|record| {
            let typed = record.entry.typed()?;
            Some(title_line(&typed, 200))
        });
        Ok(Details {
            request,
            typed: typed.map(|typed| typed_words(&typed)),
            how: how(found.ending, last.as_ref()),
            since_ms: match found.ending {
                // While a long command ran nothing was recorded, and it was alive all the same.
                Ending::Killed => held_ms.map_or(info.updated_ms, |at| at.max(info.updated_ms)),
                _ => info.updated_ms,
            },
            failure: match (found.ending, &state.halted) {
                (Ending::Failed, Some(Halt::Failed(failure))) => Some(in_short(failure)),
                _ => None,
            },
            mode: found.mode,
            doing: doing(&state, &recent),
            plan_step: state
                .plan
                .as_ref()
                .and_then(|p| p.current())
                .map(|s| s.text.clone()),
            plan_at: state.plan.as_ref().and_then(|plan| {
                let at = plan.steps.iter().position(|s| Some(s) == plan.current())?;
                Some((at + 1, plan.steps.len()))
            }),
            running: running(runs, &info.id),
            recovered,
            in_doubt: in_doubt(&state, runs, servers),
        })
    }
}

/// The words of a draft of the input box. What is pasted or dropped stands there as a
/// character of private use.
fn typed_words(draft: &str) -> String {
    let draft = match serde_json::from_str::<serde_json::Value>(draft) {
        Ok(value) => value["text"].as_str().unwrap_or_default().to_string(),
        // Those of older versions are the words alone.
        Err(_) => draft.to_string(),
    };
    let is_private = |c: char| matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..);
    one_line(&draft.replace(is_private, "…"), 200)
}

/// Why a model could not be asked, for one who knows what they run: without addresses.
fn in_short(failure: &Failure) -> String {
    let message = &failure.message;
    let status = message.split("HTTP ").nth(1).and_then(|rest| rest.get(..3));
    let status = status.filter(|status| status.bytes().all(|b| b.is_ascii_digit()));
    let hint = failure.hint.as_deref().unwrap_or_default();
    let variable = hint.strip_prefix("check the key in ");
    let variable = variable.and_then(|rest| rest.split([',', ' ']).next());
    if let (FailureClass::Auth, Some(variable), Some(status)) = (failure.class, variable, status) {
        return format!("the key in {variable} was refused ({status})");
    }
    let provider = RequestFailure::parse(message);
    let provider = provider.map(|failed| format!("{}: {}", failed.provider, failed.reason));
    let words = provider.as_deref().unwrap_or(message).split_whitespace();
    let words: Vec<&str> = words.filter(|word| !word.contains("://")).collect();
    one_line(&words.join(" "), 120)
}

fn how(ending: Ending, last: Option<&Record>) -> String {
    let last_ms = last.map_or(0, |r| r.at_ms);
    match ending {
        Ending::Killed if crate::command::booted_ms().is_some_and(|at| at > last_ms) => {
            "the machine went down".into()
        }
        Ending::Left => match last.map(|r| &r.entry) {
            Some(Entry::Saved {
                reason: SaveReason::Signal,
                ..
            }) => "left on a signal".into(),
            Some(
                Entry::Forked { .. }
                | Entry::Restored {
                    new_folder: true, ..
                },
            ) => "a fork that was never used".into(),
            _ => "left".into(),
        },
        Ending::Done | Ending::Failed | Ending::Stopped | Ending::Dismissed | Ending::Killed => {
            ending.word().into()
        }
    }
}

/// The call that is open, else the last words.
fn doing(state: &State, recent: &[Record]) -> Option<String> {
    if let Some(open) = state.first_open() {
        let subject = open.described().map_or("", |d| &d.subject);
        return Some(one_line(
            &format!("{} {subject}", open.call.shown_name()),
            200,
        ));
    }
    recent.iter().rev().find_map(|record| match &record.entry {
        said @ Entry::Said { .. } => {
            let typed = said.typed().unwrap_or_default();
            Some(format!("answering: {}", title_line(&typed, 200)))
        }
        Entry::Finished { .. } => Some("waiting for the model after a tool call".to_string()),
        _ => None,
    })
}

fn running(runs: &Runs, session: &str) -> Vec<StillRunning> {
    let running = runs
        .list()
        .into_iter()
        .filter(|r| r.spec.session == session && matches!(r.state, RunState::Running { .. }));
    running
        .map(|r| StillRunning {
            last_line: runs
                .tail(&r.run, TAIL_BYTES)
                .ok()
                .and_then(|bytes| last_line(&bytes)),
            command: one_line(&r.spec.command, 200),
            age_ms: now_ms() - r.since_ms,
        })
        .collect()
}

fn last_line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(one_line(line, 200))
}

/// Calls that were begun and of which nothing more is known now.
fn in_doubt(state: &State, runs: &Runs, servers: &Servers) -> Vec<String> {
    let open = state.calls.iter().filter(|c| !c.finished);
    let doubtful = open.filter(|c| match &c.guard {
        None => false,
        Some(Guard::Opaque | Guard::Checked { .. }) => true,
        Some(Guard::Supervised { run, .. }) => !runs.exists(run),
        Some(Guard::Served { run, .. }) => servers.path(run).is_ok_and(|path| !path.is_dir()),
        // Its own log says what it did.
        Some(Guard::Child { .. }) => false,
    });
    doubtful
        .map(|c| {
            let subject = c.described().map_or("", |d| &d.subject);
            one_line(&format!("{} {subject}", c.call.shown_name()), 200)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_without_its_address() {
        let of = |class, message: &str, hint: Option<&str>| {
            in_short(&Failure {
                class,
                message: message.into(),
                hint: hint.map(str::to_string),
            })
        };
        let url = "http://127.0.0.1:8080/v1/messages";
        assert_eq!(
            of(
                FailureClass::Auth,
                &format!("request to mock failed: HTTP 401: no such key ({url})"),
                Some("check the key in MOCK_KEY, and that it may use this model"),
            ),
            "the key in MOCK_KEY was refused (401)"
        );
        assert_eq!(
            of(
                FailureClass::Overloaded,
                &format!("asking mock at {url}: HTTP 529: see {url} later"),
                None,
            ),
            "mock: HTTP 529: see later"
        );
        assert_eq!(
            of(FailureClass::Nonsense, "the answer is empty", None),
            "the answer is empty"
        );
    }
}
