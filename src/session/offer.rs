//! The unfinished work of a folder, which the resume prompt offers: how it stopped, the last
//! activity, the commands that still run, and the calls in doubt.
//!
//! Reading it changes nothing: an offered session is neither locked nor resumed.

use super::reading::{Recent, fold};
use super::resume_report::ResumeReport;
use super::{SessionError, SessionList, now_ms};
use crate::command::server::Servers;
use crate::command::{RunState, Runs};
use crate::core::ending::Ending;
use crate::core::entry::{Entry, Failure, FailureClass, Guard, Mode, Record};
use crate::core::marks::title_line;
use crate::core::request_failure::RequestFailure;
use crate::core::state::{Halt, State};
use crate::core::text::{count, one_line};
use crate::store::{SessionInfo, SessionLock, Store};

/// Number of bytes at the end of a command's output that are searched for its last line.
const TAIL_BYTES: u64 = 2_000;

/// Maximum number of finished sessions that are offered because of unsent text.
const MAX_WITH_WORDS: u32 = 3;

/// Time after its last entry for which such a session is offered: a week.
const WORDS_OFFERED_MS: i64 = 7 * 24 * 3_600_000;

/// Returns whether a draft is a slash command, which is not text that somebody wanted to send.
fn is_command(draft: &str) -> bool {
    let stored: Option<serde_json::Value> = serde_json::from_str(draft).ok();
    let text = stored.as_ref().and_then(|s| s.get("text")?.as_str());
    text.unwrap_or(draft).starts_with('/')
}

/// An unfinished session in the resume prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    pub info: SessionInfo,
    /// ID of another process that uses it.
    pub held_by: Option<u32>,
    /// The details that need the log. `None` until it is read, or if it cannot be read.
    pub details: Option<Details>,
}

/// Details from the log of an offered session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Details {
    /// How it ended: `killed`, `the machine went down`, `interrupted`, …
    pub how: String,
    /// When it ended, as far as known: UTC, milliseconds since 1970.
    pub since_ms: i64,
    /// Why it failed, in a few words. `None`: it did not fail.
    pub failure: Option<String>,
    /// Its permission mode.
    pub mode: Mode,
    /// The last message of the user.
    pub request: Option<String>,
    /// The beginning of the unsent text in the input box.
    pub typed: Option<String>,
    /// Its last activity, for a sentence such as `it stopped while …`.
    pub doing: Option<String>,
    /// The step of the plan that was being worked on.
    pub plan_step: Option<String>,
    /// Number of that step, from 1, and the number of steps.
    pub plan_at: Option<(usize, usize)>,
    /// Its commands that still run.
    pub running: Vec<StillRunning>,
    /// Text that can be recovered: words of a streamed answer, and queued messages.
    pub recovered: Vec<String>,
    /// Calls whose outcome is unknown.
    pub in_doubt: Vec<String>,
}

/// A command that runs while no process uses its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StillRunning {
    pub command: String,
    /// Time since its start, milliseconds.
    pub age_ms: i64,
    /// The last line of its output. `None`: there is none yet, or it cannot be read.
    pub last_line: Option<String>,
}

impl SessionList {
    /// Returns the offers without details, the newest first. Dismissed sessions are included only
    /// with `all`.
    pub fn offers(&self, store: &Store, all: bool) -> Result<Vec<Offer>, SessionError> {
        let mut offered = self.unfinished(store, all)?;
        for info in self.with_words(store)? {
            if !offered.iter().any(|other| other.id == info.id) {
                offered.push(info);
            }
        }
        Ok(offered.into_iter().map(|info| self.offer(info)).collect())
    }

    /// Returns the finished sessions of this folder with unsent text, which a kill or the end of
    /// the terminal left. A session that another process uses, or an old one, is left out.
    fn with_words(&self, store: &Store) -> Result<Vec<SessionInfo>, SessionError> {
        let mut found = store
            .history()
            .with_input(&self.workspace, MAX_WITH_WORDS)?;
        found.retain(|(_, draft)| !is_command(draft));
        let mut found: Vec<SessionInfo> = found.into_iter().map(|(info, _)| info).collect();
        let edited = self.editor.sessions(store, &self.workspace)?.into_iter();
        found.extend(edited.filter(|info| store.history().has_content(&info.id).unwrap_or(false)));
        let since_ms = now_ms() - WORDS_OFFERED_MS;
        found.retain(|info| {
            info.updated_ms >= since_ms && !info.dismissed && !self.is_in_use(&info.id)
        });
        Ok(found)
    }

    /// Returns the offer of this session, without details.
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
    /// Reads the details of an offered session from its log.
    pub fn details(
        &self,
        store: &Store,
        info: &SessionInfo,
        (runs, servers): (&Runs, &Servers),
    ) -> Result<Details, SessionError> {
        let mut recent = Recent::new(true);
        let (_, state, last) = fold(store, &info.id, &mut recent)?;
        let queued = store.inbox().queued(&info.id)?.len();
        let drafts = store.inbox().drafts(&info.id)?;
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
        let held_ms = SessionLock::last_held_ms(&self.data_dir, &info.id);
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
                // The lock also shows signs of life, since nothing is recorded while a long command
                // runs.
                Ending::Killed => held_ms.map_or(info.updated_ms, |at| at.max(info.updated_ms)),
                _ => info.updated_ms,
            },
            failure: match (found.ending, &state.halted) {
                (Ending::Failed, Some(Halt::Failed(failure))) => Some(in_short(failure)),
                _ => None,
            },
            mode: found.mode,
            // A finished session is offered because of its unsent text.
            doing: doing(&state, &recent).filter(|_| found.ending != Ending::Done),
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

/// Returns the text of a draft of the input box. Pasted or dropped content is a character of
/// private use in it.
fn typed_words(draft: &str) -> String {
    let draft = match serde_json::from_str::<serde_json::Value>(draft) {
        Ok(value) => value["text"].as_str().unwrap_or_default().to_string(),
        // Drafts of older versions are plain text.
        Err(_) => draft.to_string(),
    };
    let is_private = |c: char| matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..);
    one_line(&draft.replace(is_private, "…"), 200)
}

/// Returns why a request to the model failed, in short and without addresses, for a person who
/// knows the setup.
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
    let provider = provider.map(|failed| match failed.server_words() {
        Some(words) if words == failed.reason => format!("{}: {words}", failed.provider),
        _ => format!("{} from {}", failed.reason, failed.provider),
    });
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
            Some(
                Entry::Forked { .. }
                | Entry::Restored {
                    new_folder: true, ..
                },
            ) => "a fork that was never used".into(),
            _ => ending.word().into(),
        },
        ending => ending.word().into(),
    }
}

/// Returns the last activity: the open call, else the last message.
fn doing(state: &State, recent: &[Record]) -> Option<String> {
    if let Some(open) = state.first_open() {
        let subject = open.described().map_or("", |d| &d.subject);
        let call = format!("{} {subject}", open.call.shown_name());
        let doing = match open.guard {
            Some(_) => format!("running {call}"),
            None => format!("about to run {call}"),
        };
        return Some(one_line(&doing, 200));
    }
    recent.iter().rev().find_map(|record| match &record.entry {
        said @ Entry::Said { .. } => {
            let typed = said.typed().unwrap_or_default();
            Some(format!("answering {:?}", title_line(&typed, 200)))
        }
        Entry::Finished { .. } => Some("waiting for the next answer of the model".to_string()),
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

/// Returns the calls that had started and whose outcome cannot be found any more.
fn in_doubt(state: &State, runs: &Runs, servers: &Servers) -> Vec<String> {
    let open = state.calls.iter().filter(|c| !c.finished);
    let doubtful = open.filter(|c| match &c.guard {
        None => false,
        Some(Guard::Opaque | Guard::Checked { .. }) => true,
        Some(Guard::Supervised { run, .. }) => !runs.exists(run),
        Some(Guard::Served { run, .. }) => servers.path(run).is_ok_and(|path| !path.is_dir()),
        // The subagent's log has its outcome. A question is shown again.
        Some(Guard::Child { .. } | Guard::Asks) => false,
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
                &format!("no such key (HTTP 401) from mock at {url}"),
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
            "HTTP 529: see later from mock"
        );
        assert_eq!(
            of(
                FailureClass::Network,
                &format!("cannot reach mock at {url}: connection refused"),
                None,
            ),
            "mock: connection refused"
        );
        assert_eq!(
            of(FailureClass::Nonsense, "the answer is empty", None),
            "the answer is empty"
        );
    }
}
