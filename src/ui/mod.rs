//! The terminal: the screen as a projection of the log.
//!
//! ```text
//!  keyboard ─┐                         ┌─► commands ─► engine, on its own thread
//!  engine ───┼─► Msg ─► App::update ─► Intent ─► Effects ─► files, runs, config, history
//!  threads ──┘            │                               │
//!                         ▼                               └─► Msg …
//!                    view::draw
//! ```
//!
//! [`app`] is the state of the screen. It does no I/O, so a test gives it a log and keys and looks
//! at the screen. [`effects`] carries out its requests. The [`live`] engine knows nothing of a
//! screen. With `--plain`, lines replace keys, and [`plain`] prints new text instead of
//! `view::draw`; the rest is the same.
//!
//! Invariant: the thread that draws never waits for a file, the store, the model or a command, and
//! only for a moment for the terminal ([`Output`]). `tests/layers` checks this for drawing and for
//! [`app`]; [`effects`] works on other threads. The one exception is another program that has the
//! terminal (an editor).

pub(crate) mod ansi;
pub mod app;
mod cells;
pub mod changes;
pub mod commands;
pub(crate) mod composer;
pub(crate) mod diff;
pub(crate) mod effects;
pub mod files;
pub mod highlight;
pub(crate) mod history;
pub(crate) mod input;
pub(crate) mod keys;
pub mod live;
pub(crate) mod markdown;
pub mod notify;
pub mod offered;
pub mod overlay;
mod plain;
mod program_status;
pub mod rewind;
mod start;
pub mod style;
mod terminal;
pub mod text;
pub mod theme;
pub mod transcript;
pub mod view;
mod watch;

pub use plain::call_in_words;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crossterm::event::Event;
use input::TerminalItem;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::config::Scrollback;
use crate::core::entry::SaveReason;
use crate::engine::{self, Command};
use crate::report::{self, Output, Signals, exit, note, note_background, stderr_takes};
use crate::session::{AppContext, SessionSelector, now_ms, short_id};

use app::{App, Intent, Msg};
use effects::{After, Effects};
use live::{LEAVING, LiveEvent};
use terminal::Screen;

pub use start::{Start, begin};

/// A callback that reports events to the screen, from any thread.
pub type OnLiveEvent = Arc<dyn Fn(LiveEvent) + Send + Sync>;

/// An event that wakes the main loop.
pub enum Wake {
    Msg(Msg),
    /// A config file changed.
    Config,
    /// The session to open was found. `engine` is the number of the engine that was open when the
    /// search started.
    Found {
        engine: u64,
        which: SessionSelector,
        take_over: bool,
    },
    /// The copy for a rewind is ready: its id. `engine` is the number of the engine that was open.
    Rewound {
        engine: u64,
        id: String,
    },
    /// New settings are in use.
    InUse(Arc<AppContext>),
    /// A command for the engine of this number.
    ForEngine {
        engine: u64,
        command: Command,
    },
    /// The start failed: the reason, and a hint.
    NotBegun(String, Option<String>),
    /// The input ended: Ctrl+D, or the end of a pipe.
    NoMoreLines,
    /// The terminal is gone.
    Gone,
}

impl Wake {
    /// Returns whether it comes from the engine and its commands, without a key.
    fn is_of_engine(&self) -> bool {
        let Wake::Msg(msg) = self else { return false };
        matches!(msg, Msg::Engine(..) | Msg::Tails(_) | Msg::UserTails(_))
    }
}

impl From<Msg> for Wake {
    fn from(msg: Msg) -> Wake {
        Wake::Msg(msg)
    }
}

/// The action after the screen is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// The program ends with this exit code.
    Code(u8),
    /// The demo starts.
    Demo,
}

/// Minimum time between frames.
const FRAME: Duration = Duration::from_millis(16);
/// Minimum time between frames that only the engine causes. A fast answer changes whole screens.
const ENGINE_FRAME: Duration = Duration::from_millis(50);
/// Interval between frames while something changes: running times, output, the age of the last
/// save.
const MOVING: Duration = Duration::from_millis(100);
/// Interval between checks whether the engine has left.
const LEFT: Duration = Duration::from_millis(5);
/// Interval between frames while nothing changes.
const STILL: Duration = Duration::from_millis(1_000);
/// Maximum wait of the first frame, and of the end, for the colour of the terminal's background.
const BACKGROUND: Duration = Duration::from_millis(100);
/// Maximum time for taking in waiting events before the next frame.
const TAKE_IN: Duration = Duration::from_millis(10);
/// Delay before a changed config is read. A file that is half written would lift its rules.
const SETTLED: Duration = Duration::from_millis(100);
/// Interval between reads of the output of running commands.
const TAILS: Duration = Duration::from_millis(150);
/// Time after which the request of a line is in progress, or stored in the inbox.
const ON_ITS_WAY: Duration = Duration::from_millis(500);
/// Interval between checks of the current branch.
const BRANCH: Duration = Duration::from_secs(5);

/// Runs until the person leaves. Also returns the sessions that were made.
pub fn run(ctx: AppContext, start: Start) -> (Closed, Vec<String>) {
    let mut made = Vec::new();
    (run_screen(ctx, start, &mut made), made)
}

fn run_screen(ctx: AppContext, start: Start, made: &mut Vec<String>) -> Closed {
    let (is_lines, is_printed) = (start.plain, start.no_alt_screen);
    let is_ephemeral = start.is_ephemeral;
    let stops_at = start.timeout.map(|timeout| Instant::now() + timeout);
    // Unbounded: the engine sends, and must not wait while an editor has the terminal. The answers
    // of the model and the entries of the log limit the queue.
    let (sender, wakes) = channel();
    let ctx = Arc::new(ctx);
    let mut effects = Effects::new(Arc::clone(&ctx), sender.clone(), is_lines);
    let mut app = start::app(&ctx);
    app.input.given_images.clone_from(&start.images);
    let mouse = ctx.config().ui.mouse && !start.no_mouse;
    let signals = Signals::default();
    let opened = if is_lines {
        Screen::lines(&signals)
    } else {
        Screen::open(!is_printed, mouse, &signals)
    };
    let mut screen = match opened {
        Ok(screen) => screen,
        Err(e) => {
            let hint = "rewake --plain prints plain lines and works on any terminal";
            return failed(&format!("cannot take the terminal: {e}"), Some(hint));
        }
    };
    for (signal, code) in [
        (SIGTERM, exit::SIGTERM),
        (SIGHUP, exit::SIGHUP),
        (SIGINT, exit::SIGINT),
    ] {
        signals.catch(signal, code);
    }
    let _watching = start::watch_config(&ctx, sender);
    if let Err(e) = effects.keyboard.listen() {
        drop(screen);
        return failed(&format!("cannot read the keyboard: {e}"), None);
    }
    effects.begin(start, &mut app);
    if style::may_ask(&ctx) {
        // A terminal that is gone is noticed by the first frame.
        let _ = screen.write(program_status::ASK);
    }
    if app.look.follows_background() {
        effects.ask_background(&mut app, &mut screen);
    }
    let mut looping = Loop {
        app: &mut app,
        effects: &mut effects,
        screen: &mut screen,
        wakes: &wakes,
        signals: &signals,
        config_changed: None,
        is_lines,
        other_at: None,
        no_more_lines: None,
        stops_at,
        has_stopped: false,
        made,
    };
    let ended = looping.run();
    let has_left = looping.leave(&ended);
    let scrollback = match (is_lines, is_printed, is_ephemeral) {
        (true, ..) | (false, false, true) => Scrollback::None,
        (false, true, _) => Scrollback::Conversation,
        (false, false, false) => effects.ctx.config().ui.scrollback,
    };
    let words = if ended.leaves_words() {
        let (_, height) = app.look.size;
        let mut layout = app.look.layout(app.now_ms);
        app.conversation.printed(scrollback, height, &mut layout)
    } else {
        String::new()
    };
    let output = Arc::clone(screen.output());
    drop(screen);
    prints(&words, &output);
    // Stderr may be the terminal that takes nothing.
    let may_print = stderr_takes();
    if may_print && !matches!(ended, LoopEnd::TerminalGone | LoopEnd::NotBegun(..)) {
        print_goodbye(&app, has_left, is_ephemeral);
    }
    closed(ended, may_print)
}

/// Prints the conversation for the scrollback, unless the terminal takes nothing.
fn prints(words: &str, output: &Output) {
    if !words.is_empty() && output.is_idle().is_ok_and(|is_idle| is_idle) {
        let _ = output.send(format!("{words}\n").as_bytes());
    }
    let _ = output.wait();
}

/// The way in which the loop ended.
enum LoopEnd {
    Left,
    Demo,
    Signal(u8),
    /// The time limit is reached, and the work has stopped.
    TimedOut,
    TerminalGone,
    /// The start failed: the reason, and a hint.
    NotBegun(String, Option<String>),
}

impl LoopEnd {
    /// Returns whether the terminal is there, and the person may want to read on in it.
    fn leaves_words(&self) -> bool {
        match self {
            LoopEnd::Left | LoopEnd::TimedOut => true,
            LoopEnd::Signal(code) => *code != exit::SIGHUP,
            LoopEnd::Demo | LoopEnd::TerminalGone | LoopEnd::NotBegun(..) => false,
        }
    }
}

struct Loop<'a> {
    app: &'a mut App,
    effects: &'a mut Effects,
    screen: &'a mut Screen,
    wakes: &'a Receiver<Wake>,
    signals: &'a Signals,
    /// When a file of the config last changed, until it is read.
    config_changed: Option<Instant>,
    /// Line mode: lines are read and printed.
    is_lines: bool,
    /// When something came that the engine did not send.
    other_at: Option<Instant>,
    /// Since when no line follows and nothing is in progress.
    no_more_lines: Option<Instant>,
    /// When the work is stopped, and the screen is left.
    stops_at: Option<Instant>,
    has_stopped: bool,
    /// The new sessions.
    made: &'a mut Vec<String>,
}

impl Loop<'_> {
    fn run(&mut self) -> LoopEnd {
        let mut tails_at = Instant::now();
        let mut branch_at = Instant::now();
        if let Some(ended) = self.wait_for_background() {
            return ended;
        }
        loop {
            let drawn_at = Instant::now();
            let Ok(is_shown) = self.screen.draw(self.app) else {
                return LoopEnd::TerminalGone;
            };
            if is_shown {
                self.app.prompts.drawn(drawn_at, Instant::now());
            }
            let asks = self.app.seen();
            if let Some(ended) = self.perform(asks) {
                return ended;
            }
            if is_shown && self.screen.tell(self.app).is_err() {
                return LoopEnd::TerminalGone;
            }
            if let Some(ended) = self.take_in(drawn_at, is_shown) {
                return ended;
            }
            if self
                .config_changed
                .is_some_and(|at| at.elapsed() >= SETTLED)
            {
                self.config_changed = None;
                self.effects.reload();
            }
            self.effects.settle_settings(self.app);
            if let Some(code) = self.signals.last() {
                // The terminal makes a signal of Ctrl+C, which is a key otherwise.
                if !self.is_lines || code != exit::SIGINT {
                    return LoopEnd::Signal(code);
                }
                // An interrupt that ends the program is not forgotten, so that it shortens the
                // wait for a reader.
                if let Some(ended) = self.msg(Msg::Interrupted) {
                    return ended;
                }
                self.signals.forget_interrupt();
            }
            if let Some(ended) = self.lines_ended() {
                return ended;
            }
            if self.is_done() {
                return LoopEnd::Left;
            }
            if self.is_timed_out() {
                return LoopEnd::TimedOut;
            }
            if tails_at.elapsed() >= TAILS {
                tails_at = Instant::now();
                self.effects.tails(self.app);
            }
            if branch_at.elapsed() >= BRANCH {
                branch_at = Instant::now();
                self.effects.branch();
            }
            if !self.is_lines {
                self.effects.status_line(self.app);
            }
            if let Some(ended) = self.msg(Msg::Tick(Instant::now())) {
                return ended;
            }
        }
    }

    /// Waits for something to happen, and takes in all that did until the next frame is due.
    fn take_in(&mut self, drawn_at: Instant, is_shown: bool) -> Option<LoopEnd> {
        let moves = !is_shown || self.app.moves() || self.config_changed.is_some();
        let patience = if moves { MOVING } else { STILL };
        let mut until: Option<Instant> = None;
        loop {
            let wait = match until {
                None => patience,
                Some(until) => Instant::now()
                    .checked_duration_since(until)
                    .map_or_else(|| until - Instant::now(), |_| Duration::ZERO),
            };
            let wake = match self.wakes.recv_timeout(wait) {
                Ok(wake) => wake,
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => return Some(LoopEnd::TerminalGone),
            };
            // A key is drawn at once, also right after a frame of the engine.
            let due = if wake.is_of_engine() {
                drawn_at + ENGINE_FRAME
            } else {
                let before = self.other_at.replace(Instant::now());
                before.map_or(drawn_at, |before| before + FRAME)
            };
            if let Some(ended) = self.wake(wake) {
                return Some(ended);
            }
            let due = due.max(Instant::now());
            let until = *until.insert(until.map_or(due, |until| until.min(due)));
            if Instant::now() >= until + TAKE_IN {
                return None;
            }
        }
    }

    /// Handles messages that were left over when a pipe ended.
    fn lines_ended(&mut self) -> Option<LoopEnd> {
        self.no_more_lines?;
        let intents = self.app.lines_ended();
        self.perform(intents)
    }

    /// Returns whether all work for a pipe is done. Something that was just sent counts for a
    /// moment.
    fn is_done(&mut self) -> bool {
        let Some(since) = &mut self.no_more_lines else {
            return false;
        };
        if !self.app.waits_for_person() {
            *since = Instant::now();
        }
        since.elapsed() >= ON_ITS_WAY
    }

    /// Stops the work when the time limit is reached. Returns whether it has stopped.
    fn is_timed_out(&mut self) -> bool {
        let Some(at) = self.stops_at.filter(|at| *at <= Instant::now()) else {
            return false;
        };
        if !self.has_stopped {
            self.has_stopped = true;
            self.effects.engines.send(Command::STOP);
        }
        self.app.waits_for_person() || at.elapsed() >= LEAVING
    }

    /// Waits for the colour of the terminal's background, for a moment at most, and handles events
    /// meanwhile. So the first frame has the right colours.
    fn wait_for_background(&mut self) -> Option<LoopEnd> {
        let end = Instant::now() + BACKGROUND;
        while self.app.look.awaits_background(self.app.now_ms) {
            let left = end.checked_duration_since(Instant::now())?;
            match self.wakes.recv_timeout(left) {
                Ok(wake) => {
                    if let Some(ended) = self.wake(wake) {
                        return Some(ended);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => return Some(LoopEnd::TerminalGone),
            }
        }
        None
    }

    fn wake(&mut self, wake: Wake) -> Option<LoopEnd> {
        match wake {
            Wake::Msg(msg) => return self.msg(msg),
            Wake::Config => {
                self.effects.check_config_file();
                self.config_changed = Some(Instant::now());
            }
            Wake::Found {
                engine,
                which,
                take_over,
            } => self.effects.found(engine, which, take_over, self.app),
            Wake::Rewound { engine, id } => {
                let origin = self.app.session.id.as_ref();
                if origin.is_some_and(|origin| self.made.contains(origin)) {
                    self.made.push(id.clone());
                }
                self.effects.rewound(engine, id, self.app);
            }
            Wake::InUse(ctx) => self.effects.use_settings(ctx, self.app),
            Wake::ForEngine { engine, command } => {
                self.effects.for_engine(engine, command, self.app);
            }
            Wake::NoMoreLines => {
                use std::io::IsTerminal;
                // Ctrl+D leaves. For a pipe, its messages are handled first.
                if std::io::stdin().is_terminal() {
                    return Some(LoopEnd::Left);
                }
                self.no_more_lines = Some(Instant::now());
            }
            Wake::NotBegun(why, hint) => return Some(LoopEnd::NotBegun(why, hint)),
            Wake::Gone => return Some(LoopEnd::TerminalGone),
        }
        None
    }

    /// Waits until everything is in the log, however long that takes. The person can stop the wait:
    /// once the screen shows it, the keys that quit work again. Returns false when the wait was
    /// stopped.
    fn leave(&mut self, ended: &LoopEnd) -> bool {
        let reason = match ended {
            LoopEnd::Left | LoopEnd::Demo | LoopEnd::TimedOut | LoopEnd::NotBegun(..) => {
                SaveReason::Exit
            }
            LoopEnd::Signal(_) | LoopEnd::TerminalGone => SaveReason::Signal,
        };
        for intent in self.app.leave() {
            if let Intent::Engine(command) = intent {
                self.effects.engines.send(command);
            }
        }
        let end = Instant::now() + LEAVING;
        // A late answer of the terminal must not reach the shell.
        let heard_by = Instant::now() + BACKGROUND;
        let mut draw_at = Instant::now() + MOVING;
        let mut is_said = false;
        self.effects.engines.leave(reason);
        loop {
            let now = Instant::now();
            let may_hear = self.app.look.awaits_background(self.app.now_ms) && now < heard_by;
            if self.effects.has_left() && !may_hear {
                return true;
            }
            if now >= end {
                return false;
            }
            if now >= draw_at && !matches!(ended, LoopEnd::TerminalGone) {
                // A terminal that disappears now must not prevent the log from being completed.
                is_said |= self.screen.draw(self.app).is_ok_and(|is_shown| is_shown);
                draw_at = now + MOVING;
            }
            match self.wakes.recv_timeout(LEFT) {
                Ok(Wake::Msg(msg)) => {
                    let intents = self.app.update(msg, now_ms());
                    if is_said && intents.iter().any(|i| matches!(i, Intent::Quit)) {
                        return false;
                    }
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LEFT),
            }
        }
    }

    fn msg(&mut self, msg: Msg) -> Option<LoopEnd> {
        if let Msg::Engine(of, LiveEvent::Engine(engine::Event::Delta(delta), _)) = &msg
            && *of == self.app.session.engine
        {
            self.screen.hears(delta);
        }
        if let Msg::Engine(_, LiveEvent::Opened(opening)) = &msg
            && opening.found.is_none()
        {
            self.made.push(opening.id.clone());
        }
        let intents = self.app.update(msg, now_ms());
        self.perform(intents)
    }

    fn perform(&mut self, intents: Vec<Intent>) -> Option<LoopEnd> {
        for intent in intents {
            // Ctrl+C for another program on the terminal is not for this one.
            let is_lent = matches!(intent, Intent::OnTerminal { .. } | Intent::Editor(_));
            let signals = self.signals.last();
            let after = self.effects.perform(intent, self.app, self.screen);
            if is_lent && signals.is_none() {
                self.signals.forget_interrupt();
            }
            match after {
                After::GoOn => {}
                After::Quit => return Some(LoopEnd::Left),
                After::Demo => return Some(LoopEnd::Demo),
            }
        }
        None
    }
}

fn closed(ended: LoopEnd, may_print: bool) -> Closed {
    match ended {
        LoopEnd::Left => Closed::Code(exit::DONE),
        LoopEnd::Demo => Closed::Demo,
        LoopEnd::Signal(code) => Closed::Code(code),
        LoopEnd::TimedOut => {
            if may_print {
                note("stopped: the time limit of --timeout is reached");
            }
            Closed::Code(exit::RESUMABLE)
        }
        LoopEnd::TerminalGone => Closed::Code(exit::SIGHUP),
        LoopEnd::NotBegun(..) if !may_print => Closed::Code(exit::FAILED),
        LoopEnd::NotBegun(why, hint) => failed(&why, hint.as_deref()),
    }
}

/// Prints how to resume. Acknowledged messages are in the log, also when the engine has not left.
fn print_goodbye(app: &App, left: bool, is_ephemeral: bool) {
    if !left {
        note("the engine did not end in time; what was recorded is safe");
    }
    let Some(id) = app.session.id.as_deref().filter(|_| !app.is_blank()) else {
        return;
    };
    let of_user = app
        .session
        .now
        .user_commands
        .iter()
        .filter(|c| c.run.is_some());
    let background = app.session.now.background.len() + of_user.count();
    note_background(background);
    if is_ephemeral {
        return;
    }
    note(&format!(
        "to resume: rewake -c, or rewake -r {}",
        short_id(id)
    ));
}

fn failed(why: &str, hint: Option<&str>) -> Closed {
    report::error(why, hint);
    Closed::Code(exit::FAILED)
}

/// Converts input of the terminal to a message. `None`: nothing handles it.
fn message(heard: TerminalItem) -> Option<Msg> {
    let event = match heard {
        TerminalItem::Background(rgb) => return Some(Msg::Background(rgb)),
        TerminalItem::TakesStatus => return Some(Msg::TakesStatus),
        TerminalItem::BurstEnter => return Some(Msg::BurstEnter(Instant::now())),
        TerminalItem::Event(event) => event,
    };
    match event {
        Event::Key(key) => Some(Msg::Key(key, Instant::now())),
        Event::Paste(text) => Some(Msg::Paste(text, Instant::now())),
        Event::Mouse(mouse) => Some(Msg::Mouse(mouse)),
        Event::Resize(width, height) => Some(Msg::Resize(width, height)),
        Event::FocusGained => Some(Msg::Focus(true)),
        Event::FocusLost => Some(Msg::Focus(false)),
    }
}
