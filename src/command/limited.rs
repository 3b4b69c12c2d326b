//! Runs a helper program of the user, such as `notify.command`, that must not outlive the agent.
//!
//! This program runs between the two, with a hidden first argument. It starts the helper in a
//! separate process group and ends that group at the time limit, or soon after the death of the
//! agent, of any kind: the agent has the other end of its stdin.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::process::{arguments_after, own_exe};
use crate::sandbox::child;

/// The hidden first argument. It is followed by the milliseconds, the program and its arguments.
pub const WORD: &str = "__limited";

/// Time that a helper gets after the agent died.
const ALONE: Duration = Duration::from_millis(300);
const TICK: Duration = Duration::from_millis(20);

/// Returns the command line that runs a program under the limit. The caller sets its variables and
/// its folder.
///
/// # Errors
/// When the file of this program is not found.
pub fn command(limit: Duration, program: &str, arguments: &[String]) -> io::Result<Command> {
    let mut command = child(own_exe()?);
    command
        .arg0("rewake")
        .arg(WORD)
        .arg(limit.as_millis().to_string())
        .arg(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    Ok(command)
}

/// Runs a helper if this process was started for that. Returns `None` for an ordinary start.
pub fn become_if_asked() -> Option<ExitCode> {
    let words: Vec<OsString> = arguments_after(WORD)?.collect();
    let [limit, program, arguments @ ..] = &words[..] else {
        return Some(ExitCode::FAILURE);
    };
    let limit = limit.to_str().and_then(|limit| limit.parse().ok());
    let limit = Duration::from_millis(limit.unwrap_or(0));
    let is_alone = watch_stdin();
    let started = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn();
    Some(match started {
        Ok(child) => attend(child, Instant::now() + limit, &is_alone),
        Err(_) => ExitCode::from(127),
    })
}

/// Returns a flag that is set when nobody has the other end of stdin any more.
fn watch_stdin() -> Arc<AtomicBool> {
    let is_alone = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&is_alone);
    std::thread::spawn(move || {
        let mut stdin = io::stdin();
        while matches!(stdin.read(&mut [0; 64]), Ok(n) if n > 0) {}
        tell.store(true, Ordering::SeqCst);
    });
    is_alone
}

fn attend(mut child: Child, mut end: Instant, is_alone: &AtomicBool) -> ExitCode {
    let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return ExitCode::FAILURE;
    };
    let mut was_alone = false;
    let mut ended = None;
    loop {
        if ended.is_none() {
            ended = child.try_wait().ok().flatten();
        }
        // Processes that it left running get the same time. The number of a group that still has
        // members is not given to another.
        if ended.is_some() && test_kill_process_group(group).is_err() {
            break;
        }
        if !was_alone && is_alone.load(Ordering::SeqCst) {
            was_alone = true;
            end = end.min(Instant::now() + ALONE);
        }
        if Instant::now() >= end {
            // It is fine if the group is already gone.
            let _ = kill_process_group(group, Signal::KILL);
            break;
        }
        std::thread::sleep(TICK);
    }
    let status = ended.or_else(|| child.wait().ok());
    let code = status.and_then(|status| status.code()).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
