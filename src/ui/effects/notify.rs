//! A person is called: through the terminal, and by a command of their own.

use std::process::Command as Process;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Effects;
use crate::command::limited;
use crate::ui::notify::{Call, bytes};
use crate::ui::terminal::Screen;

/// A command that takes longer is ended, with all that it started.
const PATIENCE: Duration = Duration::from_secs(10);
/// While so many run, no other is begun.
const AT_ONCE: usize = 4;

impl Effects {
    pub(super) fn call_person(&self, call: &Call, screen: &mut Screen) {
        let config = &self.ctx.config().notify;
        let env = &self.ctx.env;
        let bytes = bytes(&call.text, config.method, |name| env.var(name));
        if let Err(error) = screen.write(&bytes) {
            tracing::warn!(%error, "the terminal was not asked to call");
        }
        let Some((program, arguments)) = config.command.split_first() else {
            return;
        };
        if self.calls.fetch_add(1, Ordering::SeqCst) >= AT_ONCE {
            self.calls.fetch_sub(1, Ordering::SeqCst);
            tracing::warn!("too many notify.command run already");
            return;
        }
        // Never a part of a shell line: it may be a model's text.
        let mut arguments = arguments.to_vec();
        arguments.push(call.text.clone());
        let mut process = match limited::command(PATIENCE, program, &arguments) {
            Ok(process) => process,
            Err(error) => {
                self.calls.fetch_sub(1, Ordering::SeqCst);
                return tracing::warn!(%error, "notify.command was not run");
            }
        };
        for name in self.ctx.unseen_by_commands() {
            process.env_remove(name);
        }
        process
            .env("REWAKE_EVENT", call.on.name())
            .env("REWAKE_TEXT", &call.text)
            .current_dir(&self.ctx.here.folder);
        let calls = Arc::clone(&self.calls);
        std::thread::spawn(move || {
            if let Err(error) = run(&mut process) {
                tracing::warn!(%error, "notify.command was not run");
            }
            calls.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

/// Its stdin is held open as long as this program lives, which is how it knows.
fn run(process: &mut Process) -> std::io::Result<()> {
    let mut child = process.spawn()?;
    let _held = child.stdin.take();
    match child.wait()?.code() {
        Some(127) => Err(std::io::ErrorKind::NotFound.into()),
        _ => Ok(()),
    }
}
