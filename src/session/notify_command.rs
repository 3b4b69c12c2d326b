//! The user's program for notifications (`notify.command`). The screen runs it when the user looks
//! elsewhere, and a run without a screen when it waits for them.

use std::path::PathBuf;
use std::process::Command as Process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{AppContext, unseen_by_commands};
use crate::command::limited;
use crate::config::{NotifyConfig, NotifyOn};
use crate::core::text::one_line;
use crate::core::visible::visible;

/// Time limit of the program. After that it is killed with all its children.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of programs that run at once.
const AT_ONCE: usize = 4;

const TEXT_CHARS: usize = 200;

/// Number of running programs, shared by all [`NotifyCommand`]s.
pub type RunningNotifiers = Arc<AtomicUsize>;

/// The program and its settings.
pub struct NotifyCommand {
    config: NotifyConfig,
    /// Variables with keys, which it does not get.
    unseen: Vec<String>,
    folder: PathBuf,
    running: RunningNotifiers,
}

impl NotifyCommand {
    pub fn new(ctx: &AppContext, running: RunningNotifiers) -> NotifyCommand {
        NotifyCommand {
            config: ctx.config().notify.clone(),
            unseen: unseen_by_commands(ctx.config(), &ctx.env),
            folder: ctx.here.folder.clone(),
            running,
        }
    }

    /// Runs the program if the user wants to know of this event. Does not wait for it.
    pub fn run_for(&self, event: NotifyOn, text: &str) {
        if self.config.on.contains(&event) {
            self.run(event, text);
        }
    }

    /// Runs the program, if there is one. Does not wait for it.
    pub fn run(&self, event: NotifyOn, text: &str) {
        let Some((program, arguments)) = self.config.command.split_first() else {
            return;
        };
        if self.running.fetch_add(1, Ordering::SeqCst) >= AT_ONCE {
            self.running.fetch_sub(1, Ordering::SeqCst);
            tracing::warn!("too many notify.command run already");
            return;
        }
        let text = notification_line(text);
        // Passed as an argument and never through a shell: a model may have written it.
        let mut arguments = arguments.to_vec();
        arguments.push(text.clone());
        let mut process = match limited::command(PATIENCE, program, &arguments) {
            Ok(process) => process,
            Err(error) => {
                self.running.fetch_sub(1, Ordering::SeqCst);
                return tracing::warn!(%error, "notify.command was not run");
            }
        };
        for name in &self.unseen {
            process.env_remove(name);
        }
        process
            .env("REWAKE_EVENT", event.name())
            .env("REWAKE_TEXT", &text)
            .current_dir(&self.folder);
        let running = Arc::clone(&self.running);
        std::thread::spawn(move || {
            if let Err(error) = wait_for(&mut process) {
                tracing::warn!(%error, "notify.command was not run");
            }
            running.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

/// Returns one line without control characters, since a model wrote parts of it.
pub fn notification_line(text: &str) -> String {
    let line = one_line(&visible(text), TEXT_CHARS);
    line.chars().filter(|c| !c.is_control()).collect()
}

/// Waits for the process. Its stdin stays open as long as this program lives, so it notices our
/// death.
fn wait_for(process: &mut Process) -> std::io::Result<()> {
    let mut child = process.spawn()?;
    let _held = child.stdin.take();
    match child.wait()?.code() {
        Some(127) => Err(std::io::ErrorKind::NotFound.into()),
        _ => Ok(()),
    }
}
