//! Notifications for a person who looks elsewhere.

use super::{Intent, OpenSession};
use crate::config::{NotifyConfig, NotifyOn};
use crate::ui::notify::Call;

/// Whether the person looks at the terminal, and the events for which they want a notification.
pub struct Attention {
    pub config: NotifyConfig,
    /// The terminal has the focus, or does not say.
    pub(super) has_focus: bool,
}

impl Attention {
    pub(super) fn new() -> Attention {
        Attention {
            config: NotifyConfig::default(),
            has_focus: true,
        }
    }

    /// Calls the person when they look elsewhere and it is worth it.
    pub(super) fn call(
        &self,
        on: NotifyOn,
        what: &str,
        session: &OpenSession,
        now_ms: i64,
    ) -> Option<Intent> {
        let title = session.now.title.as_deref().unwrap_or("new session");
        let call = Call::new(on, &format!("{what}: {title}"));
        let is_due = !self.has_focus && call.is_due(&self.config, session.worked(now_ms));
        is_due.then_some(Intent::Call(call))
    }
}
