//! A home of its own for a run of the real binary: a temporary `REWAKE_HOME`, a user's
//! folder and a workspace, removed at the end; and children that are never waited for
//! without a limit.

use std::ffi::OsStr;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

use super::server::{KEY, Server};
use super::{Protocol, page};

/// Where programs of `PATH` have the rest of themselves.
const TOOLCHAINS: [&str; 5] = [
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "PYENV_ROOT",
    "NVM_DIR",
];

/// The real binary: cargo puts it beside the folder of the test programs.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().expect("the test program");
    let built = test.parent().and_then(Path::parent).expect("its folder");
    built.join("rewake")
}

pub struct Home {
    root: tempfile::TempDir,
}

impl Home {
    /// Without a configuration.
    pub fn new() -> Home {
        page::begin();
        let root = tempfile::Builder::new()
            .prefix("rewake-test-")
            .tempdir()
            .expect("make a temporary folder");
        let home = Home { root };
        for folder in [home.rewake_home(), home.user(), home.workspace()] {
            std::fs::create_dir_all(folder).expect("make a folder of the test's home");
        }
        home
    }

    /// Configured for `local/test-model` at this server.
    pub fn with(server: &Server, protocol: Protocol) -> Home {
        let home = Home::new();
        home.configure(server, protocol, "");
        home
    }

    /// `more` is TOML that is put before the tables: top-level keys, or tables of its own
    /// behind them.
    pub fn configure(&self, server: &Server, protocol: Protocol, more: &str) {
        let config = format!(
            "model = \"local/test-model\"\nsummary_model = \"local/test-summary\"\n{more}\n\
             [providers.local]\nprotocol = \"{}\"\nbase_url = \"{}\"\napi_key_env = \"LOCAL_KEY\"\n",
            protocol.name(),
            server.base_url(protocol),
        );
        self.write_config(&config);
    }

    pub fn write_config(&self, toml: &str) {
        std::fs::write(self.rewake_home().join("config.toml"), toml).expect("write the config");
    }

    pub fn rewake_home(&self) -> PathBuf {
        self.root.path().join("rewake")
    }

    pub fn user(&self) -> PathBuf {
        self.root.path().join("user")
    }

    /// Where the agent works. Not a git repository.
    pub fn workspace(&self) -> PathBuf {
        self.root.path().join("work")
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.workspace().join(name)
    }

    /// Runs git in the workspace.
    #[track_caller]
    pub fn git(&self, args: &[&str]) -> String {
        super::git(&self.workspace(), args)
    }

    /// A file of the workspace; empty when there is none.
    pub fn read(&self, name: impl AsRef<Path>) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The real binary in the workspace, with nothing of this process's environment but
    /// `PATH` and the homes of toolchains, and the one key of the local provider. No standard input.
    pub fn rewake<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(program());
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.user())
            .env("REWAKE_HOME", self.rewake_home())
            .env("LOCAL_KEY", KEY)
            .current_dir(self.workspace())
            .stdin(Stdio::null());
        for name in TOOLCHAINS {
            command.envs(std::env::var_os(name).map(|folder| (name, folder)));
        }
        command
    }

    /// Runs it to its end.
    pub fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        run(self.rewake(args), Duration::from_secs(180))
    }
}

impl Drop for Home {
    /// After a failure its folder stays.
    fn drop(&mut self) {
        if std::thread::panicking() {
            page::print("entries of the newest session", || page::entries(self));
            let root = self.root.path().display().to_string();
            page::print("the rest is in", || root);
            self.root.disable_cleanup(true);
        }
    }
}

impl Default for Home {
    fn default() -> Home {
        Home::new()
    }
}

/// The same command line with these soft and hard limits of open files.
pub fn limited(command: &Command, soft: u32, hard: u32) -> Command {
    let mut limited = Command::new("sh");
    let line = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$0\" \"$@\"");
    limited.args(["-c", &line]).arg(command.get_program());
    limited.args(command.get_args()).env_clear();
    for (name, value) in command.get_envs() {
        limited.envs(value.map(|value| (name, value)));
    }
    limited.stdin(Stdio::null());
    limited.current_dir(command.get_current_dir().expect("a folder"));
    limited
}

/// How a child ended and what it printed.
#[derive(Debug, Clone)]
pub struct Run {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// `None` when a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// The JSON lines of stdout. A last line that a kill tore is left out; any other that
    /// is no JSON fails the test.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        let whole = match self.stdout.rfind('\n') {
            Some(end) => &self.stdout[..end],
            None => "",
        };
        whole
            .lines()
            .map(|line| {
                serde_json::from_str(line)
                    .unwrap_or_else(|e| panic!("not a JSON line: {e}: {line:?}"))
            })
            .collect()
    }

    /// Fails with everything it printed unless it ended with this code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Run {
        assert_eq!(
            self.code(),
            Some(code),
            "{}\n--- stdout\n{}\n--- stderr\n{}",
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }
}

/// Runs a command to its end; one that takes longer is killed and fails the test.
#[track_caller]
pub fn run(command: Command, limit: Duration) -> Run {
    Live::spawn(command).wait(limit)
}

/// A child that is still running, with what it has printed so far.
pub struct Live {
    child: Child,
    printed: Arc<Printed>,
    readers: Vec<JoinHandle<()>>,
    /// What the readers read.
    pipes: [OwnedFd; 2],
}

#[derive(Default)]
struct Printed {
    text: Mutex<[String; 2]>,
    more: Condvar,
}

impl Live {
    #[track_caller]
    pub fn spawn(mut command: Command) -> Live {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("start {command:?}: {e}"));
        let printed = Arc::new(Printed::default());
        let out = child.stdout.take().expect("stdout is a pipe");
        let err = child.stderr.take().expect("stderr is a pipe");
        let pipes = [out.as_fd(), err.as_fd()];
        let pipes = pipes.map(|pipe| pipe.try_clone_to_owned().expect("the same pipe"));
        let readers = vec![
            collect(out, printed.clone(), 0),
            collect(err, printed.clone(), 1),
        ];
        Live {
            child,
            printed,
            readers,
            pipes,
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// SIGKILL. `false` when it had ended already.
    pub fn kill(&mut self) -> bool {
        let running = matches!(self.child.try_wait(), Ok(None));
        running && self.child.kill().is_ok()
    }

    /// Waits for a line on stdout; the test fails when it does not come.
    #[track_caller]
    pub fn wait_for(&self, limit: Duration, wanted: impl Fn(&str) -> bool) -> String {
        self.wait_for_nth(limit, 1, wanted)
    }

    /// Waits for the line on stdout that is the n-th of these; the test fails when it does not come.
    #[track_caller]
    pub fn wait_for_nth(&self, limit: Duration, n: usize, wanted: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + limit;
        let mut text = self.printed.text.lock().unwrap();
        loop {
            let whole = text[0].rfind('\n').map_or("", |end| &text[0][..end]);
            if let Some(line) = whole.lines().filter(|line| wanted(line)).nth(n - 1) {
                return line.to_string();
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "the line did not come in {limit:?}\n--- stdout\n{}\n--- stderr\n{}",
                text[0],
                text[1]
            );
            text = self.printed.more.wait_timeout(text, left).unwrap().0;
        }
    }

    /// Until it ends by itself or by an earlier [`Live::kill`].
    #[track_caller]
    pub fn wait(mut self, limit: Duration) -> Run {
        let end = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("wait for the child") {
                break status;
            }
            if Instant::now() > end {
                self.kill();
                let text = self.printed.text.lock().unwrap().clone();
                panic!(
                    "still running after {limit:?}\n--- stdout\n{}\n--- stderr\n{}",
                    text[0], text[1]
                );
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        self.drain();
        let [stdout, stderr] = self.printed.text.lock().unwrap().clone();
        Run {
            status,
            stdout,
            stderr,
        }
    }

    /// The rest of its output. A grandchild that kept the pipe open is not waited for.
    fn drain(&self) {
        let (soon, end) = (Duration::from_millis(500), Duration::from_secs(90));
        let since = Instant::now();
        while self.readers.iter().any(|r| !r.is_finished()) && since.elapsed() < end {
            if since.elapsed() >= soon && self.is_all_read() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The last lines of both, for the page of a failure.
    fn last_lines(&self) -> String {
        let text = self.printed.text.lock();
        let text = text.unwrap_or_else(PoisonError::into_inner);
        let last = |text: &str| {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(5)..].join("\n")
        };
        format!("{}\n{}", last(&text[0]), last(&text[1]))
    }

    /// It is read under this lock: what is in no pipe is in the text.
    fn is_all_read(&self) -> bool {
        let _text = self.printed.text.lock().unwrap();
        let at_once = Timespec::try_from(Duration::ZERO).unwrap();
        let is_empty = |pipe: &OwnedFd| {
            let mut fds = [PollFd::new(pipe, PollFlags::IN)];
            poll(&mut fds, Some(&at_once)).unwrap() == 0
        };
        let mut both = self.readers.iter().zip(&self.pipes);
        both.all(|(reader, pipe)| reader.is_finished() || is_empty(pipe))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        page::print("last output of the program", || self.last_lines());
        self.kill();
        let _ = self.child.wait();
    }
}

/// Reads until nobody has the other end. Whole lines are added, and a last one without its end.
fn collect(
    mut from: impl Read + AsFd + Send + 'static,
    to: Arc<Printed>,
    which: usize,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let (mut line, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            let mut fds = [PollFd::new(&from, PollFlags::IN)];
            if poll(&mut fds, None).is_err() {
                continue;
            }
            let mut text = to.text.lock().unwrap();
            let read = match from.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.unwrap_or(0),
            };
            let end = buffer[..read].iter().rposition(|byte| *byte == b'\n');
            let whole = end.map_or(0, |end| end + 1);
            line.extend_from_slice(&buffer[..whole]);
            if whole > 0 || read == 0 {
                text[which].push_str(&String::from_utf8_lossy(&line));
                to.more.notify_all();
                line.clear();
            }
            line.extend_from_slice(&buffer[whole..read]);
            if read == 0 {
                return;
            }
        }
    })
}
