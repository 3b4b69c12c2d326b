//! The user's own command for a status line (`ui.status_command`).
//!
//! It reads the state of the session as JSON, with the names of Claude Code's `statusLine`, and the
//! first line that it prints is shown without escape sequences. It runs in a thread, one at a time,
//! when the state changed, with a time limit.
//!
//! Source: <https://code.claude.com/docs/en/statusline>. Deliberately absent: fields that rewake
//! does not count, such as changed lines.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::Effects;
use crate::command::limited;
use crate::core::plain_text::plain_text;
use crate::session::{AppContext, unseen_by_commands};
use crate::ui::app::{App, Msg};

/// Time limit of the command. After that its process group is killed.
const PATIENCE: Duration = Duration::from_secs(5);
/// Minimum time between two looks at the state.
const BETWEEN: Duration = Duration::from_millis(300);
/// Maximum number of bytes of its output that are read.
const MAX_OUTPUT_BYTES: usize = 8 * 1024;
const MAX_CHARS: usize = 1_000;

/// Runs the command with the state on its stdin. The state is not an argument, which other users of
/// the machine can read.
const SCRIPT: &str = r#"printf '%s\n' "$REWAKE_STATUS" | sh -c "$1""#;

/// The state of the last run, and the time of the last look at it.
#[derive(Default)]
pub(super) struct StatusCommand {
    began: Option<Instant>,
    looked: Option<Instant>,
    /// The command and the state.
    last: (String, Value),
    is_running: Arc<AtomicBool>,
}

impl Effects {
    /// Runs the user's command if the state changed since its last run. Does not wait for it.
    pub(crate) fn status_line(&mut self, app: &mut App) {
        let line = &mut self.status_command;
        let command = self.ctx.config().ui.status_command.clone();
        if command.trim().is_empty() {
            line.last = Default::default();
            return app.own_status.clear();
        }
        let is_early = line.looked.is_some_and(|at| at.elapsed() < BETWEEN);
        if is_early || line.is_running.load(Ordering::SeqCst) {
            return;
        }
        line.looked = Some(Instant::now());
        let mut state = state(&self.ctx, app);
        let wanted = (command.clone(), state.clone());
        if line.last == wanted {
            return;
        }
        line.last = wanted;
        // A change of the time alone runs nothing.
        let began = line.began.get_or_insert_with(Instant::now);
        state["cost"]["total_duration_ms"] = json!(began.elapsed().as_secs() * 1_000);
        line.is_running.store(true, Ordering::SeqCst);
        let (ctx, is_running) = (Arc::clone(&self.ctx), Arc::clone(&line.is_running));
        self.aside(move || {
            let unseen = unseen_by_commands(ctx.config(), &ctx.env);
            let shown = run(&command, &state, &unseen, &ctx.here.folder).unwrap_or_else(|error| {
                tracing::warn!(%error, "ui.status_command was not run");
                format!("status_command failed: {error}")
            });
            is_running.store(false, Ordering::SeqCst);
            Some(Msg::OwnStatus(shown))
        });
    }
}

/// Runs the command, and returns the line to show.
///
/// # Errors
/// It failed and printed nothing: the first line of its errors, if there is one.
fn run(command: &str, state: &Value, unseen: &[String], folder: &Path) -> io::Result<String> {
    let arguments = ["-c", SCRIPT, "sh", command].map(str::to_string);
    let mut process = limited::command(PATIENCE, "sh", &arguments)?;
    for name in unseen {
        process.env_remove(name);
    }
    process
        .env("REWAKE_STATUS", state.to_string())
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let began = Instant::now();
    let mut child = process.spawn()?;
    // Held until the end, so that it notices the death of this program.
    let _held = child.stdin.take();
    let until = began + PATIENCE + Duration::from_secs(1);
    let mut printed = Vec::new();
    // Its errors are read meanwhile: a full or closed pipe would end it.
    let errors = child.stderr.take().map(|mut errors| {
        std::thread::spawn(move || {
            let first = read_until(&mut errors, until);
            let mut has_more = || read_until(&mut errors, until).is_ok_and(|more| !more.is_empty());
            while Instant::now() < until && has_more() {}
            first
        })
    });
    if let Some(stdout) = child.stdout.take() {
        printed = read_until(stdout, until)?;
    }
    let status = child.wait()?;
    if printed.is_empty() && !status.success() {
        let errors = errors.and_then(|errors| errors.join().ok()?.ok());
        let errors = line(&String::from_utf8_lossy(&errors.unwrap_or_default()));
        let why = match errors.as_str() {
            _ if began.elapsed() >= PATIENCE => {
                format!("did not end within {} s", PATIENCE.as_secs())
            }
            "" => format!("{status}, nothing printed"),
            errors => format!("{status}: {errors}"),
        };
        return Err(io::Error::other(why));
    }
    Ok(line(&String::from_utf8_lossy(&printed)))
}

/// Reads to the end, to the maximum size, or until this time: a process that left the group can
/// have the pipe open for longer than the command runs.
fn read_until(mut output: impl Read + AsFd, until: Instant) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; MAX_OUTPUT_BYTES];
    let mut count = 0;
    while count < bytes.len() {
        let left = until.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(&output, PollFlags::IN)];
        match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Ok(0) => break,
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        match output.read(&mut bytes[count..])? {
            0 => break,
            read => count += read,
        }
    }
    bytes.truncate(count);
    Ok(bytes)
}

/// Returns the first line with words, without escape sequences.
fn line(printed: &str) -> String {
    let text = plain_text(printed);
    let line = text.lines().find(|line| !line.trim().is_empty());
    let line = line.unwrap_or_default().trim_end();
    line.chars().take(MAX_CHARS).collect()
}

/// Returns the state of the session.
fn state(ctx: &AppContext, app: &App) -> Value {
    let session = &app.session;
    let now = &session.now;
    let used = now.gauge.as_ref().map(|gauge| gauge.parts.all());
    let window = now.gauge.as_ref().map(|gauge| gauge.window.max(1));
    let percent = used
        .zip(window)
        .map(|(used, window)| (used * 100 / window).min(100));
    let usage = |used: u64| {
        json!({
            "input_tokens": used,
            "output_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        })
    };
    json!({
        "hook_event_name": "Status",
        "session_id": session.id,
        "session_name": now.title,
        "cwd": session.folder(),
        "permission_mode": now.mode.name(),
        "version": env!("CARGO_PKG_VERSION"),
        "model": { "id": now.model, "display_name": now.model.rsplit('/').next() },
        "effort": { "level": now.effort.name() },
        "workspace": {
            "current_dir": session.folder(),
            "project_dir": ctx.here.root.to_string_lossy(),
            "added_dirs": [],
        },
        "cost": { "total_cost_usd": session.cost_usd },
        "exceeds_200k_tokens": used > Some(200_000),
        "context_window": {
            "total_input_tokens": now.usage.prompt(),
            "total_output_tokens": now.usage.output,
            "context_window_size": window,
            "used_percentage": percent,
            "remaining_percentage": percent.map(|percent| 100 - percent),
            "current_usage": used.map(usage),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_without_sequences_is_shown() {
        for (printed, shown) in [
            ("", ""),
            ("\n \n a\tb  \nc\n", " a\tb"),
            ("\u{1b}[1;31mred\u{1b}[0m\n", "red"),
            ("\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{7}", "link"),
            ("50 %\r100 %", "100 %"),
        ] {
            assert_eq!(line(printed), shown, "{printed:?}");
        }
        assert_eq!(line(&"é".repeat(1_000_000)).chars().count(), MAX_CHARS);
    }
}
