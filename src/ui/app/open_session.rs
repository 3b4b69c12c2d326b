//! The open session: its engine, phase, cost, and what is recorded.

use std::time::Duration;

use super::Intent;
use crate::config::NotifyOn;
use crate::core::entry::{Choice, Mode, Record};
use crate::core::next::Why;
use crate::core::policy::Sandbox;
use crate::core::signal::Signal;
use crate::engine::{Command, FilesWork};
use crate::model::Figures;
use crate::ui::live::{Opening, SessionView};

/// The phase of the open session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The offers of a start are being loaded.
    Starting,
    /// No session is open.
    Nothing,
    Opening,
    /// The engine does something, or waits for a model or a command.
    Working {
        /// UTC, milliseconds since 1970.
        since_ms: i64,
    },
    /// There is nothing to do without a person.
    Resting(Why),
    /// Another process works in the session, and this one follows.
    Watching,
    Ended,
}

/// The state of storing, for the status line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SaveStatus {
    /// When an entry was last stored: UTC, milliseconds since 1970.
    pub at_ms: Option<i64>,
    /// An event is not stored yet, but will be in a moment.
    pub is_pending: bool,
    /// The reason why nothing can be stored, and a hint.
    pub trouble: Option<String>,
}

/// Typed text is on the disk after this time, unless the disk is slow.
const SLOW_KEEP_MS: i64 = 1_000;

/// The session that is open, as its engine reports it.
pub struct OpenSession {
    /// The number of the engine that is listened to.
    pub engine: u64,
    pub phase: Phase,
    /// The session that is open. `None`: there is none.
    pub id: Option<String>,
    /// The sandbox that its commands get on this system.
    pub(super) sandbox: Sandbox,
    pub now: SessionView,
    /// The folder of the session when its log names none.
    start_folder: String,
    /// Cost of the session so far, US dollars. `None` when a price is not known.
    pub cost_usd: Option<f64>,
    pub(super) figures: Figures,
    pub kept: SaveStatus,
    /// The current work on files, for which a person waits.
    pub files_work: Option<FilesWork>,
}

impl OpenSession {
    /// Returns the state before any session is open.
    pub(super) fn none(figures: Figures, folder: &str) -> OpenSession {
        OpenSession {
            engine: 0,
            phase: Phase::Nothing,
            id: None,
            sandbox: Sandbox::default(),
            now: SessionView::default(),
            start_folder: folder.to_string(),
            cost_usd: Some(0.0),
            figures,
            kept: SaveStatus::default(),
            files_work: None,
        }
    }

    /// Takes the state of a session that was just opened. The session of another process is watched
    /// from the request to open it: Esc never stops that process.
    pub(super) fn open(&mut self, opening: &Opening, now_ms: i64) {
        self.cost_usd = opening.cost_usd;
        self.id = Some(opening.id.clone());
        self.now = opening.now.clone();
        self.sandbox = opening.sandbox;
        self.files_work = None;
        self.is_recorded(now_ms);
        if self.phase != Phase::Watching {
            self.phase = Phase::Working { since_ms: now_ms };
        }
    }

    /// Returns the folder that it works in.
    pub fn folder(&self) -> &str {
        match self.now.folder.as_str() {
            "" => &self.start_folder,
            folder => folder,
        }
    }

    /// Returns whether a session is there to keep words in.
    pub(super) fn is_open(&self) -> bool {
        !matches!(
            self.phase,
            Phase::Starting | Phase::Nothing | Phase::Opening
        )
    }

    /// Returns whether a session is being opened, or the engine works.
    pub fn is_busy(&self) -> bool {
        matches!(self.phase, Phase::Working { .. } | Phase::Opening)
    }

    /// Notes that the engine works.
    pub(super) fn works(&mut self, now_ms: i64) {
        if !matches!(self.phase, Phase::Working { .. }) {
            self.phase = Phase::Working { since_ms: now_ms };
        }
    }

    /// Takes a record that is on the disk, and the state after it where it changed.
    pub(super) fn recorded(&mut self, record: &Record, now: Option<Box<SessionView>>, now_ms: i64) {
        self.is_recorded(now_ms);
        for (model, usage) in record.entry.spent() {
            let cost = self.figures.cost(model, usage);
            self.cost_usd = self.cost_usd.zip(cost).map(|(sum, one)| sum + one);
        }
        if let Some(now) = now {
            self.now = *now;
        }
    }

    /// Returns the estimated tokens of the next request.
    pub(super) fn request_tokens(&self) -> Option<u64> {
        self.now.gauge.as_ref().map(|gauge| gauge.parts.all())
    }

    /// Notes that everything so far is on the disk.
    pub(super) fn is_recorded(&mut self, now_ms: i64) {
        self.kept = SaveStatus {
            at_ms: Some(now_ms),
            ..SaveStatus::default()
        };
    }

    /// Notes that text of the model arrived, which is recorded a moment later.
    pub(super) fn streams(&mut self, now_ms: i64) {
        if !self.kept.is_pending {
            self.kept.is_pending = true;
            self.kept.at_ms = Some(now_ms);
        }
    }

    /// Returns the age of the oldest unsaved work in milliseconds. `None`: everything is on the
    /// disk. `typed_ms`: since when a draft is not stored.
    pub fn unsaved_ms(&self, typed_ms: Option<i64>, now_ms: i64) -> Option<i64> {
        let at = self.kept.at_ms?;
        let typed = typed_ms.filter(|at| now_ms - at > SLOW_KEEP_MS);
        let is_pending = self.kept.is_pending || typed.is_some();
        is_pending.then(|| (now_ms - at).max(0))
    }

    /// Returns how long the engine has worked since it last rested.
    pub(super) fn worked(&self, now_ms: i64) -> Duration {
        match self.phase {
            Phase::Working { since_ms } => {
                Duration::from_millis(u64::try_from(now_ms - since_ms).unwrap_or(0))
            }
            _ => Duration::ZERO,
        }
    }

    /// Subtracts the time spent waiting for a person from the working time.
    pub(super) fn waited(&mut self, ms: i64) {
        if let Phase::Working { since_ms } = &mut self.phase {
            *since_ms += ms;
        }
    }

    /// Returns whether it waits for the person's word, or for Enter.
    pub(super) fn goes_on(&self) -> bool {
        match self.phase {
            Phase::Resting(Why::Halted | Why::CrashLoop | Why::Idle) => self.now.owes,
            Phase::Resting(Why::Paused | Why::Limit | Why::Repeats) => true,
            _ => false,
        }
    }

    /// Returns the notification for an engine that rests. `None`: the person stopped it.
    pub(super) fn rest_notification(&self, why: Why) -> Option<(NotifyOn, &'static str)> {
        match why {
            Why::Idle => Some((NotifyOn::Done, "done")),
            Why::Halted if self.now.has_failed => Some((NotifyOn::Failed, "failed")),
            Why::Halted | Why::Paused => None,
            Why::CrashLoop
            | Why::Turns
            | Why::Repeats
            | Why::Nonsense
            | Why::Unfit
            | Why::Limit
            | Why::Asked => Some((NotifyOn::Failed, "cannot continue")),
        }
    }

    /// Chooses the next of the modes that ask.
    pub(super) fn cycle_mode(&self) -> Vec<Intent> {
        // Asking nothing is never one key away.
        const CYCLE: [Mode; 3] = [Mode::Default, Mode::AcceptEdits, Mode::Plan];
        let at = CYCLE.iter().position(|mode| *mode == self.now.mode);
        choose_mode(CYCLE[at.map_or(0, |at| (at + 1) % CYCLE.len())])
    }

    /// Stops the engine, also that of another process. Refuses with a hint when nothing works.
    pub(super) fn stop(&self) -> (Vec<Intent>, Option<&'static str>) {
        let stop = vec![Intent::Engine(Command::STOP)];
        match self.phase {
            Phase::Working { .. } => (stop, None),
            Phase::Watching => (stop, Some("the other process is told to stop")),
            _ => (Vec::new(), Some("there is nothing to stop")),
        }
    }

    /// Lets a command wait for the files without a time limit. Returns a hint too.
    pub(super) fn wait_for_files(&self) -> (Vec<Intent>, &'static str) {
        match self.files_work {
            Some(FilesWork::Scanning { .. }) => (
                vec![Intent::Engine(Command::WaitForFiles)],
                "waiting until the files are saved · Esc stops",
            ),
            _ => (Vec::new(), "nothing is waiting for the files"),
        }
    }

    pub(super) fn export(&self, words: &str) -> Vec<Intent> {
        let file = Some(words.trim()).filter(|w| !w.is_empty());
        let export = |id: &String| Intent::Export {
            session: id.clone(),
            file: file.map(str::to_string),
        };
        self.id.iter().map(export).collect()
    }
}

pub(super) fn choose_mode(mode: Mode) -> Vec<Intent> {
    vec![Intent::Engine(Command::Signal(Signal::Choose(
        Choice::of_mode(mode),
    )))]
}

/// Returns the hint for an engine that rests. `None`: the present hint stays.
pub(super) fn rest_hint(why: Why) -> Option<&'static str> {
    Some(match why {
        Why::Idle | Why::Halted => return None,
        Why::Paused => "paused; Enter continues",
        Why::Asked => "a question waits for its answer",
        Why::Limit => "a limit of this session is reached; Enter continues without limits",
        Why::CrashLoop => {
            "crash loop: the last starts all ended without progress; Enter tries again"
        }
        Why::Repeats => {
            "the model repeats itself: continue? Enter continues, a message redirects it"
        }
        Why::Turns => "the limit of turns is reached; send a message to continue",
        Why::Unfit => {
            "no answer matched the JSON Schema of this session; send a message, or /schema drop"
        }
        Why::Nonsense => "the model's last answers cannot be used; send a message",
    })
}
