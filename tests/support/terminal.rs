//! A terminal that the binary believes to be real: its master side is read by a thread into
//! a screen, and written to as a keyboard.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

use super::{Home, page};

/// Nothing that is waited for takes so long.
const LIMIT: Duration = Duration::from_secs(90);

/// The question what the background is, and that it is black.
const ASKED: &[u8] = b"\x1b]11;?\x1b\\";
const ANSWER: &[u8] = b"\x1b]11;rgb:0000/0000/0000\x1b\\";

pub const ENTER: &str = "\r";
pub const ESC: &str = "\x1b";

pub struct Terminal {
    child: Child,
    /// `None` when the terminal was closed.
    master: Option<Arc<File>>,
    reader: Option<JoinHandle<()>>,
    slave: OwnedFd,
    shown: Arc<Shown>,
    /// The part of the screen that had the focus when Enter was typed last. `None` after other keys.
    entered: Option<String>,
}

#[derive(Default)]
struct Shown {
    state: Mutex<State>,
    more: Condvar,
}

impl Shown {
    /// A test that failed beside us is no reason to fail.
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, limit: Duration) -> MutexGuard<'a, State> {
        let waited = self.more.wait_timeout(state, limit);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

struct State {
    parser: vt100::Parser,
    /// All that was ever written, as it came.
    raw: Vec<u8>,
    /// It says what its background is when it is asked.
    answers: bool,
    is_over: bool,
}

impl Default for State {
    fn default() -> State {
        State {
            parser: vt100::Parser::new(lines(ROWS), lines(COLUMNS), 1_000),
            raw: Vec::new(),
            answers: false,
            is_over: false,
        }
    }
}

const ROWS: u16 = 30;
const COLUMNS: u16 = 100;

/// With one blank for each run of blanks and line ends.
fn unbroken(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The lines of a screen that take what is typed; all of them when none does. Time passes on the
/// other lines by itself.
fn listening(screen: &str) -> String {
    let marked: Vec<_> = screen.lines().filter(|line| line.contains('›')).collect();
    if marked.is_empty() {
        return screen.to_string();
    }
    marked.join("\n")
}

/// Whether a cell of the screen begins so. Keys may stand in columns.
fn has_cell(screen: &str, begins: &str) -> bool {
    let words = |cell: &str| cell.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut cells = screen.lines().flat_map(|line| line.split(['│', '┃']));
    cells.any(|cell| words(cell).starts_with(begins))
}

fn lines(count: u16) -> NonZero<u16> {
    NonZero::new(count).unwrap()
}

impl Terminal {
    /// `rewake ARGS` in the workspace of this home.
    pub fn start(home: &Home, args: &[&str]) -> Terminal {
        Terminal::of(home.rewake(args))
    }

    pub fn of(command: Command) -> Terminal {
        Terminal::with(command, false)
    }

    /// One that says what its background is, as most do.
    pub fn that_answers(home: &Home, args: &[&str]) -> Terminal {
        Terminal::with(home.rewake(args), true)
    }

    fn with(mut command: Command, answers: bool) -> Terminal {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap();
        resize(&master, COLUMNS, ROWS);
        let end = || std::process::Stdio::from(slave.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end());
        command.env("TERM", "xterm-256color");
        lead_session(&mut command);
        let child = command
            .spawn()
            .unwrap_or_else(|e| panic!("start {command:?}: {e}"));
        let shown = Arc::new(Shown::default());
        shown.locked().answers = answers;
        let master = Arc::new(File::from(master));
        let (from, to) = (Arc::clone(&master), Arc::clone(&shown));
        let reader = std::thread::spawn(move || collect(&from, &to));
        Terminal {
            child,
            master: Some(master),
            reader: Some(reader),
            slave,
            shown,
            entered: None,
        }
    }

    /// Types like a person: an Enter shows before more is typed, if it shows at all. Bytes right
    /// after it would be a paste.
    pub fn types(&mut self, keys: &str) {
        if let Some(before) = self.entered.take() {
            self.is_read();
            let end = Instant::now() + Duration::from_secs(1);
            while listening(&self.screen()) == before && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.entered = keys.ends_with(ENTER).then(|| listening(&self.screen()));
        let mut master: &File = self.master.as_ref().expect("the terminal is open");
        master.write_all(keys.as_bytes()).unwrap();
        master.flush().unwrap();
    }

    /// Waits until nothing that was typed is unread. Who reads nothing is not waited for that long.
    fn is_read(&self) {
        let end = Instant::now() + LIMIT / 3;
        let at_once = Timespec::try_from(Duration::ZERO).unwrap();
        while Instant::now() < end {
            let mut fds = [PollFd::new(&self.slave, PollFlags::IN)];
            if poll(&mut fds, Some(&at_once)).unwrap() == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Types what is to be said, sees that it stands there, and sends it.
    #[track_caller]
    pub fn says(&mut self, words: &str) {
        if words.starts_with('!') {
            // Enter right after a paste without marks does not run a command.
            self.types(&format!("\x1b[200~{words}\x1b[201~"));
        } else {
            self.types(words);
        }
        self.sees(words);
        self.types(ENTER);
    }

    /// Presses keys when what asks says that it listens: its line of keys begins so then.
    #[track_caller]
    pub fn answers(&mut self, begins: &str, keys: &str) {
        self.waits(&format!("nothing listens with {begins:?}"), |screen| {
            let listens = !screen.contains("a moment") && !screen.contains("Tab first");
            listens && has_cell(screen, begins)
        });
        self.types(keys);
    }

    /// Selects an answer by its letter, unless it is selected, and confirms it when Enter counts.
    #[track_caller]
    pub fn chooses(&mut self, letter: &str) {
        self.answers("Enter chooses", "");
        let selected = format!("› {letter} ");
        if !has_cell(&self.screen(), &selected) {
            self.types(letter);
        }
        self.answers(&selected, ENTER);
    }

    /// Waits until the screen has this text, wherever its lines break.
    #[track_caller]
    pub fn sees(&self, text: &str) {
        let text = unbroken(text);
        self.waits(&format!("{text:?} does not come"), |screen| {
            unbroken(screen).contains(&text)
        });
    }

    #[track_caller]
    pub fn no_longer_sees(&self, text: &str) {
        self.waits(&format!("{text:?} stays"), |screen| !screen.contains(text));
    }

    #[track_caller]
    pub fn waits(&self, why: &str, holds: impl Fn(&str) -> bool) {
        let end = Instant::now() + LIMIT;
        let mut state = self.shown.locked();
        loop {
            let screen = state.parser.screen().contents();
            if holds(&screen) {
                return;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !state.is_over, "{why}:\n{screen}");
            state = self.shown.wait(state, left);
        }
    }

    /// Cells and their colours.
    pub fn cells<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.shown.locked().parser.screen())
    }

    pub fn screen(&self) -> String {
        self.shown.locked().parser.screen().contents()
    }

    /// On the terminal's other screen, where nothing stays.
    pub fn is_on_other_screen(&self) -> bool {
        self.shown.locked().parser.screen().alternate_screen()
    }

    /// Everything that was written, escape sequences and all.
    pub fn raw(&self) -> String {
        let state = self.shown.locked();
        String::from_utf8_lossy(&state.raw).into_owned()
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        let mut state = self.shown.locked();
        state
            .parser
            .screen_mut()
            .set_size(lines(rows), lines(columns));
        drop(state);
        resize(self.master.as_ref().unwrap(), columns, rows);
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// SIGKILL: no last word.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The window is closed by its cross.
    pub fn close(&mut self) {
        self.shown.locked().is_over = true;
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        self.master = None;
    }

    /// Nobody reads any more what is written, and it is redrawn until the terminal is full.
    #[track_caller]
    pub fn stalls(&mut self) {
        self.shown.locked().is_over = true;
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        let end = Instant::now() + LIMIT;
        let moment = Timespec::try_from(Duration::from_millis(50)).unwrap();
        loop {
            let mut fds = [PollFd::new(&self.slave, PollFlags::OUT)];
            if poll(&mut fds, Some(&moment)).unwrap() == 0 {
                return;
            }
            assert!(Instant::now() < end, "the terminal does not become full");
            self.types("\x0c");
        }
    }

    /// Returns whether the program has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end by itself.
    #[track_caller]
    pub fn ends(&mut self) -> ExitStatus {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.takes_in_the_rest();
                return status;
            }
            assert!(Instant::now() < end, "it does not end:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until all that is in the terminal's buffer is on the screen, if it is still read.
    #[track_caller]
    fn takes_in_the_rest(&self) {
        let (Some(master), Some(_)) = (&self.master, &self.reader) else {
            return;
        };
        let end = Instant::now() + LIMIT;
        let at_once = Timespec::try_from(Duration::ZERO).unwrap();
        loop {
            // It is read and shown under this lock: what is not in the buffer is on the screen.
            let shown = self.shown.locked();
            let mut fds = [PollFd::new(&**master, PollFlags::IN)];
            if poll(&mut fds, Some(&at_once)).unwrap() == 0 {
                return;
            }
            drop(shown);
            assert!(Instant::now() < end, "the rest is not read");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The terminal is as a shell wants it: lines are edited and echoed.
    pub fn is_cooked(&self) -> bool {
        let modes: Termios = tcgetattr(self.slave.as_fd()).unwrap();
        modes
            .local_modes
            .contains(LocalModes::ICANON | LocalModes::ECHO)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        page::print("last frame of the terminal", || self.screen());
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.close();
    }
}

fn resize(master: impl AsFd, columns: u16, rows: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(master, size).unwrap();
}

/// Leads a session of its own with the terminal as its own, as under a real one.
#[allow(
    unsafe_code,
    reason = "between fork and exec only two system calls are made"
)]
fn lead_session(command: &mut Command) {
    let lead = || {
        rustix::process::setsid()?;
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        Ok(())
    };
    // SAFETY: both are plain system calls that allocate nothing.
    unsafe { command.pre_exec(lead) };
}

fn collect(master: &File, to: &Shown) {
    let patience = Timespec::try_from(Duration::from_millis(20)).unwrap();
    let mut buffer = [0; 16 * 1024];
    loop {
        let mut fds = [PollFd::new(master, PollFlags::IN)];
        let ready = poll(&mut fds, Some(&patience));
        let mut state = to.locked();
        if state.is_over {
            return;
        }
        if !matches!(ready, Ok(n) if n > 0) {
            continue;
        }
        // Under the lock, so that nothing is between the buffer and the screen for who holds it.
        let mut reader = master;
        let Ok(n) = reader.read(&mut buffer) else {
            return;
        };
        state.parser.process(&buffer[..n]);
        state.raw.extend_from_slice(&buffer[..n]);
        let is_asked = buffer[..n].windows(ASKED.len()).any(|seen| seen == ASKED);
        if state.answers && is_asked {
            let mut keyboard = master;
            keyboard.write_all(ANSWER).unwrap();
        }
        to.more.notify_all();
    }
}
