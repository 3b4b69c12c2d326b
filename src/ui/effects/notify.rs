//! A person is called: through the terminal, and by a command of their own.

use std::os::unix::process::CommandExt;
use std::process::{Command as Process, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::Effects;
use crate::ui::notify::{Call, bytes};
use crate::ui::terminal::Screen;

/// A command that takes longer is ended.
const PATIENCE: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(20);
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
        let mut process = Process::new(program);
        for name in self.ctx.unseen_by_commands() {
            process.env_remove(name);
        }
        // Never a part of a shell line: it may be a model's text.
        process
            .args(arguments)
            .arg(&call.text)
            .env("REWAKE_EVENT", call.on.name())
            .env("REWAKE_TEXT", &call.text)
            .current_dir(&self.ctx.here.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let calls = Arc::clone(&self.calls);
        std::thread::spawn(move || {
            if let Err(error) = run(&mut process) {
                tracing::warn!(%error, "notify.command was not run");
            }
            calls.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

fn run(process: &mut Process) -> std::io::Result<()> {
    let mut child = process.spawn()?;
    let end = Instant::now() + PATIENCE;
    while child.try_wait()?.is_none() {
        if Instant::now() >= end {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            if let Some(group) = group {
                // A group that is gone is what was wanted.
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            break;
        }
        std::thread::sleep(TICK);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_not_there_is_no_trouble() {
        assert!(run(&mut Process::new("/no/such/program")).is_err());
        assert!(run(&mut Process::new("true")).is_ok());
    }
}
