//! A person is called: through the terminal, and by a command of their own.

use std::sync::Arc;

use super::Effects;
use crate::session::NotifyCommand;
use crate::ui::notify::{Call, bytes};
use crate::ui::terminal::Screen;

impl Effects {
    pub(super) fn call_person(&self, call: &Call, screen: &mut Screen) {
        let config = &self.ctx.config().notify;
        let env = &self.ctx.env;
        let bytes = bytes(&call.text, config.method, |name| env.var(name));
        if let Err(error) = screen.write(&bytes) {
            tracing::warn!(%error, "the terminal was not asked to call");
        }
        NotifyCommand::new(&self.ctx, Arc::clone(&self.calls)).run(call.on, &call.text);
    }
}
