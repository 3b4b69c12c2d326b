//! What the status line, the title and a call to the person are made of.

use std::time::Duration;

use super::{App, Intent};
use crate::config::NotifyOn;
use crate::core::next::Why;
use crate::ui::notify::Call;
use crate::ui::text::clean_line;

/// Where the work is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// What a start offers is being looked up.
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
    /// Another process works; this one looks on.
    Watching,
    Ended,
}

/// Whether what happens is kept, for the status line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept {
    /// When something was kept last: UTC, milliseconds since 1970.
    pub at_ms: Option<i64>,
    /// Something came since that is kept a moment later.
    pub is_pending: bool,
    /// Why it is not, and what helps.
    pub trouble: Option<String>,
}

/// What is typed is on the disk by then, unless the disk is slow.
const SLOW_KEEP_MS: i64 = 1_000;

impl App {
    /// A session is there to keep words in.
    pub(super) fn has_session(&self) -> bool {
        !matches!(
            self.phase,
            Phase::Starting | Phase::Nothing | Phase::Opening
        )
    }

    /// What the terminal's own frame says.
    pub fn title(&self) -> String {
        let title = self.now.title.as_deref().unwrap_or("new session");
        let title = crate::core::marks::title_line(title, 60);
        let asks = self.asked.is_some() || self.form.is_some();
        let state = match (asks, self.phase) {
            (true, _) => "asks: ",
            (false, Phase::Working { .. }) => "works: ",
            _ => "",
        };
        let title = clean_line(&title);
        let title: String = title.chars().filter(|c| !c.is_control()).collect();
        format!("rewake: {state}{title}")
    }

    /// Calls the person when they look elsewhere and it is worth it.
    pub(super) fn call(&self, on: NotifyOn, what: &str) -> Option<Intent> {
        let worked_ms = match self.phase {
            Phase::Working { since_ms } => (self.now_ms - since_ms).max(0),
            _ => 0,
        };
        let worked = Duration::from_millis(u64::try_from(worked_ms).unwrap_or(0));
        let title = self.now.title.as_deref().unwrap_or("new session");
        let call = Call::new(on, &format!("{what}: {title}"));
        let is_due = !self.has_focus && call.is_due(&self.notify, worked);
        is_due.then_some(Intent::Call(call))
    }

    /// Something waits for the person's word, or for Enter.
    pub fn goes_on(&self) -> bool {
        let waits = match self.phase {
            Phase::Resting(Why::Halted | Why::CrashLoop | Why::Idle) => self.now.owes,
            Phase::Resting(Why::Paused | Why::Limit) => true,
            _ => false,
        };
        waits || (matches!(self.phase, Phase::Resting(_)) && !self.queued.is_empty())
    }

    /// How old what would be lost is, milliseconds. `None`: everything is on the disk.
    pub fn unsaved_ms(&self) -> Option<i64> {
        let at = self.kept.at_ms?;
        let typed = self.typed_ms.filter(|at| self.now_ms - at > SLOW_KEEP_MS);
        let is_pending = self.kept.is_pending || typed.is_some();
        is_pending.then(|| (self.now_ms - at).max(0))
    }

    /// Whether a session is being opened, or the engine works.
    pub fn is_busy(&self) -> bool {
        matches!(self.phase, Phase::Working { .. } | Phase::Opening)
    }
}
