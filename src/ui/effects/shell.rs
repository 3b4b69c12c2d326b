//! Shell commands of the user (`!`): no keeper and no rules. The model is told what came of them.
//!
//! Each is the leader of a process group, so that it can be ended with all that it started.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command as Process, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::Effects;
use crate::command::QUIET;
use crate::core::visible::{visible, without_cosmetics};
use crate::engine::Command;
use crate::ui::app::{Msg, ShellId};
use crate::ui::transcript::Tone;

/// Of what a command prints, this much is kept.
const MAX_BYTES: usize = 64 << 10;
const CHUNK_BYTES: usize = 8 << 10;
/// Chunks that may wait to be taken in.
const CHUNKS: usize = 16;
/// How often it is looked whether it is to be stopped, or is over.
const TICK: Duration = Duration::from_millis(20);
/// What does not end in this time when it is asked to is killed.
const GRACE: Duration = Duration::from_secs(2);
/// A pipe that something else still holds after that is not read to its end.
const DRAIN: Duration = Duration::from_millis(200);
/// Leaving the program waits so long for commands that were asked to end.
const LEAVING: Duration = Duration::from_millis(300);

/// A command that runs: how it is stopped.
#[derive(Debug, Default)]
pub(super) struct Running {
    is_stopped: AtomicBool,
    is_over: AtomicBool,
    /// Its process group; 0 before it was started.
    group: AtomicU32,
}

impl Running {
    fn signal(&self, signal: Signal) {
        if let Some(group) = group(self.group.load(Ordering::SeqCst)) {
            // A group that is gone is what was wanted.
            let _ = kill_process_group(group, signal);
        }
    }

    fn is_alive(&self) -> bool {
        group(self.group.load(Ordering::SeqCst)).is_some_and(|g| test_kill_process_group(g).is_ok())
    }
}

fn group(raw: u32) -> Option<Pid> {
    i32::try_from(raw).ok().and_then(Pid::from_raw)
}

impl Effects {
    pub(super) fn shell(&mut self, id: ShellId, command: String) {
        let shell = self.ctx.config().shell.program(&self.ctx.env);
        let folder = self.ctx.here.folder.clone();
        // The model is told what it prints, so keys are as far from it as from the model's own.
        let unseen = self.ctx.unseen_by_commands();
        let engine = self.live.as_ref().map(|live| live.sender());
        let sender = self.to_screen.clone();
        let running = Arc::new(Running::default());
        self.shells.retain(|(_, running)| !is_over(running));
        self.shells.push((id, Arc::clone(&running)));
        std::thread::spawn(move || {
            let text = match run(&shell, &folder, &unseen, &command, &running) {
                Ok((how, printed)) => format!(
                    "the user ran a command: {command}\n{how}\n{}",
                    visible(&without_cosmetics(&printed))
                ),
                Err(e) => {
                    format!("the user ran a command that could not be started: {command}\n{e}")
                }
            };
            running.is_over.store(true, Ordering::SeqCst);
            // The session may have been left meanwhile: then only the user is told.
            let unsaid = match engine {
                Some(engine) => engine.send(Command::Note(text)).err().map(|e| e.0),
                None => Some(Command::Note(text)),
            };
            let _ = sender.send(crate::ui::Wake::Msg(Msg::ShellEnded(id)));
            if let Some(Command::Note(text)) = unsaid {
                let _ = sender.send(crate::ui::Wake::Msg(Msg::Notice(Tone::Warn, text)));
            }
        });
    }

    pub(super) fn stop_shell(&self, id: ShellId) {
        for (_, running) in self.shells.iter().filter(|(other, _)| *other == id) {
            running.is_stopped.store(true, Ordering::SeqCst);
        }
    }

    /// They end with the program: they are asked to.
    pub(crate) fn stop_shells(&mut self) {
        for (_, running) in &self.shells {
            running.is_stopped.store(true, Ordering::SeqCst);
        }
        self.shells_asked = Some(Instant::now());
    }

    /// None is left to be waited for: what was asked to end a while ago is not.
    pub(crate) fn shells_are_over(&self) -> bool {
        let is_late = self.shells_asked.is_some_and(|at| at.elapsed() >= LEAVING);
        is_late || self.shells.iter().all(|(_, running)| is_over(running))
    }

    /// Those that did not end when they were asked to.
    pub(crate) fn kill_shells(&mut self) {
        for (_, running) in self.shells.drain(..).filter(|(_, r)| !is_over(r)) {
            running.signal(Signal::KILL);
        }
    }
}

fn is_over(running: &Running) -> bool {
    running.is_over.load(Ordering::SeqCst)
}

/// How it ended, and what it printed: the beginning of it.
fn run(
    shell: &Path,
    folder: &Path,
    unseen: &[String],
    command: &str,
    running: &Running,
) -> std::io::Result<(String, String)> {
    use std::os::unix::process::CommandExt;
    let (read, write) = std::io::pipe()?;
    let mut process = Process::new(shell);
    for name in unseen {
        process.env_remove(name);
    }
    let child = process
        .arg("-c")
        .arg(command)
        .current_dir(folder)
        .envs(QUIET)
        .stdin(Stdio::null())
        .stdout(write.try_clone()?)
        .stderr(write)
        .process_group(0)
        .spawn()?;
    // It holds the pipe's other end, and with that open the reading would never end.
    drop(process);
    running.group.store(child.id(), Ordering::SeqCst);
    let mut attending = Attending {
        child,
        running,
        status: None,
        printed: Vec::new(),
        is_read: false,
        stopped: None,
    };
    attending.attend(&chunks(read))?;
    let how = attending.how();
    Ok((
        how,
        String::from_utf8_lossy(&attending.printed).into_owned(),
    ))
}

/// What is printed, until the pipe is closed or nobody listens.
fn chunks(mut read: std::io::PipeReader) -> Receiver<Vec<u8>> {
    let (sender, chunks) = sync_channel(CHUNKS);
    std::thread::spawn(move || {
        let mut chunk = [0; CHUNK_BYTES];
        while let Ok(n) = read.read(&mut chunk) {
            if n == 0 || sender.send(chunk[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    chunks
}

/// A command while it runs.
struct Attending<'a> {
    child: Child,
    running: &'a Running,
    status: Option<ExitStatus>,
    printed: Vec<u8>,
    /// Its output was read to the end.
    is_read: bool,
    stopped: Option<Stopped>,
}

struct Stopped {
    at: Instant,
    is_killed: bool,
}

impl Attending<'_> {
    fn attend(&mut self, chunks: &Receiver<Vec<u8>>) -> std::io::Result<()> {
        loop {
            if self.is_read {
                std::thread::sleep(TICK);
            } else {
                match chunks.recv_timeout(TICK) {
                    Ok(chunk) => {
                        let room = MAX_BYTES.saturating_sub(self.printed.len());
                        self.printed.extend(&chunk[..chunk.len().min(room)]);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => self.is_read = true,
                }
            }
            if self.status.is_none() {
                self.status = self.child.try_wait()?;
            }
            if self.is_over() {
                return Ok(());
            }
        }
    }

    /// Also does what a stop takes.
    fn is_over(&mut self) -> bool {
        let is_wished = self.running.is_stopped.load(Ordering::SeqCst);
        let running = self.running;
        let Some(stopped) = &mut self.stopped else {
            if self.is_read && self.status.is_some() {
                return true;
            }
            if is_wished {
                running.signal(Signal::TERM);
                // What sleeps on a signal hears the other one only when it is awake.
                running.signal(Signal::CONT);
                self.stopped = Some(Stopped {
                    at: Instant::now(),
                    is_killed: false,
                });
            }
            return false;
        };
        let age = stopped.at.elapsed();
        if age >= GRACE && !stopped.is_killed {
            stopped.is_killed = true;
            running.signal(Signal::KILL);
        }
        // The leader is waited for first: until then its group is there.
        let is_gone = self.status.is_some() && !running.is_alive();
        (is_gone && self.is_read) || age >= GRACE + DRAIN
    }

    fn how(&self) -> String {
        use std::os::unix::process::ExitStatusExt;
        let ended = match self.status.map(|s| (s.code(), s.signal())) {
            Some((Some(code), _)) => format!("exit code {code}"),
            Some((None, Some(signal))) => format!("ended by signal {signal}"),
            Some((None, None)) => "ended by a signal".to_string(),
            None => "it did not end".to_string(),
        };
        match &self.stopped {
            None => ended,
            Some(_) => format!("stopped by the user ({ended})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(line: &str, unseen: &[String]) -> (String, String) {
        let (sh, folder) = (Path::new("/bin/sh"), Path::new("/"));
        run(sh, folder, unseen, line, &Running::default()).unwrap()
    }

    /// Stopped as soon as it printed that it is ready; then how it ended, what it printed, and
    /// whether anything of its group is alive.
    fn stopped(line: &str) -> (String, String, bool) {
        let running = Running::default();
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let line = format!(
            "echo begun; {}",
            line.replace("READY", &format!("touch {}", ready.display()))
        );
        let (how, printed) = std::thread::scope(|scope| {
            let command = scope
                .spawn(|| run(Path::new("/bin/sh"), folder.path(), &[], &line, &running).unwrap());
            while !ready.exists() {
                assert!(!command.is_finished(), "it ended by itself");
                std::thread::sleep(TICK);
            }
            running.is_stopped.store(true, Ordering::SeqCst);
            command.join().unwrap()
        });
        (how, printed, lives(running.group.load(Ordering::SeqCst)))
    }

    /// Orphans that were killed may wait for long to be taken away: they count as dead.
    fn lives(group: u32) -> bool {
        let stats = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let stat = std::fs::read_to_string(entry.ok()?.path().join("stat")).ok()?;
            let (_, fields) = stat.rsplit_once(") ")?;
            let fields: Vec<String> = fields.split(' ').map(str::to_string).collect();
            Some((fields.first()? != "Z", fields.get(2)?.parse() == Ok(group)))
        });
        stats.into_iter().any(|found| found == (true, true))
    }

    #[test]
    fn a_command_of_the_user_ends_and_sees_no_key() {
        // A variable that is there in every test.
        let unseen = ["PATH".to_string()];
        let line = "echo path=$(/usr/bin/env | /bin/grep -c ^PATH=) >&2; exit 3";
        let (how, printed) = ran(line, &unseen);
        assert_eq!((how.as_str(), printed.trim()), ("exit code 3", "path=0"));
        assert_eq!(ran("kill -9 $$", &[]).0, "ended by signal 9");
        // It may close its output before it ends.
        assert_eq!(
            ran("echo a; exec >&- 2>&-; sleep 0.1; exit 4", &[]),
            ("exit code 4".into(), "a\n".into())
        );
    }

    #[test]
    fn one_that_is_stopped_ends_with_all_that_it_started() {
        for (line, how) in [
            // With what it started in its group.
            (
                "sleep 1000 & READY; sleep 1000",
                "stopped by the user (ended by signal 15)",
            ),
            // It obeys, in its own way.
            (
                "trap 'echo bye; exit 7' TERM; READY; while :; do sleep 0.05; done",
                "stopped by the user (exit code 7)",
            ),
            // It does not.
            (
                "trap '' TERM; READY; while :; do sleep 0.05; done",
                "stopped by the user (ended by signal 9)",
            ),
            // It sleeps on a signal.
            (
                "READY; kill -STOP $$; sleep 1000",
                "stopped by the user (ended by signal 15)",
            ),
            // Its output is closed, and it goes on.
            (
                "exec >&- 2>&-; READY; sleep 1000",
                "stopped by the user (ended by signal 15)",
            ),
        ] {
            let (ended, printed, is_alive) = stopped(line);
            assert_eq!(ended, how, "{line}");
            assert!(printed.starts_with("begun\n"), "{line}: {printed:?}");
            assert!(!is_alive, "{line}");
        }
    }
}
