//! The terminal as it is taken and given back.
//!
//! Invariant: however the process ends short of a SIGKILL, the terminal is as it was: on
//! leaving, on a panic (of any thread), and while another program has it.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste,
    EnableFocusChange, EnableMouseCapture, KeyboardEnhancementFlags, PopKeyboardEnhancementFlags,
    PushKeyboardEnhancementFlags,
};
use crossterm::style::{Print, ResetColor};
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use ratatui::Terminal;
use rustix::termios::OptionalActions;

use super::app::App;
use super::cells::Cells;
use super::plain::Printer;
use super::{program_status, view};
use crate::model::Delta;
use crate::report::{FrameBuffer, Output, Signals, stderr_takes};

/// Maximum wait of a panic until the terminal is restored.
const PANIC: Duration = Duration::from_secs(1);

/// Saves the title on the terminal's stack of titles (XTWINOPS).
const KEEP_TITLE: &str = "\x1b[22;0t";
/// Asks whether the terminal has the kitty keyboard protocol. One that has not does not answer.
const ASK_KEYBOARD: &str = "\x1b[?u";
const TITLE_AS_BEFORE: &str = "\x1b[23;0t";

/// The terminal is ours, in raw mode.
static TAKEN: AtomicBool = AtomicBool::new(false);
static ALTERNATE: AtomicBool = AtomicBool::new(false);
/// The terminal has a report of the status, which is withdrawn when it is given back.
static REPORTED: AtomicBool = AtomicBool::new(false);

/// The output of the screen: drawn, or printed as lines.
pub(crate) enum Screen {
    Drawn(DrawnFrame),
    Lines(Box<Printer>, Arc<Output>),
}

impl Screen {
    /// Opens the screen. `alternate`: uses the terminal's alternate screen, so that its content
    /// returns later.
    pub(super) fn open(alternate: bool, mouse: bool, signals: &Signals) -> io::Result<Screen> {
        let output = Output::stdout(signals)?;
        Ok(Screen::Drawn(DrawnFrame::open(alternate, mouse, output)?))
    }

    /// Returns a screen for line mode, which leaves the terminal as it is.
    pub(super) fn lines(signals: &Signals) -> io::Result<Screen> {
        Ok(Screen::Lines(Box::default(), Output::stdout(signals)?))
    }

    pub(super) fn output(&self) -> &Arc<Output> {
        match self {
            Screen::Drawn(drawn) => &drawn.output,
            Screen::Lines(_, output) => output,
        }
    }

    /// Draws, unless the terminal did not take what was drawn before. Returns whether the app as it
    /// is now is on the screen.
    pub(crate) fn draw(&mut self, app: &mut App) -> io::Result<bool> {
        if !self.output().is_idle()? {
            return Ok(false);
        }
        match self {
            Screen::Drawn(drawn) => drawn.draw(app)?,
            Screen::Lines(printer, output) => output.send(printer.print(app).as_bytes())?,
        }
        self.output().shows()
    }

    /// Takes a piece of the streamed answer, before the app has it.
    pub(crate) fn hears(&mut self, delta: &Delta) {
        if let Screen::Lines(printer, _) = self {
            printer.hears(delta);
        }
    }

    /// Makes the next frame draw the whole screen.
    pub(crate) fn redraw(&mut self) {
        if let Screen::Drawn(drawn) = self {
            drawn.is_stale = true;
        }
    }

    /// Gives the terminal away while `other` has it.
    pub(crate) fn lend<T>(&mut self, other: impl FnOnce() -> T) -> io::Result<T> {
        match self {
            Screen::Drawn(drawn) => drawn.lend(other),
            Screen::Lines(_, output) => {
                output.wait()?;
                Ok(other())
            }
        }
    }

    /// Puts `text` on the clipboard of the person at the terminal.
    pub(crate) fn copy(&mut self, text: &str) -> io::Result<()> {
        match self {
            Screen::Drawn(drawn) => drawn.copy(text),
            Screen::Lines(..) => Err(io::Error::other("lines are printed here, and nothing else")),
        }
    }

    /// Writes bytes that move nothing on the screen. In line mode nothing is written.
    pub(crate) fn write(&mut self, bytes: &str) -> io::Result<()> {
        match self {
            Screen::Drawn(drawn) => drawn.output.send(bytes.as_bytes()),
            Screen::Lines(..) => Ok(()),
        }
    }

    /// Tells the terminal the title and the status of the program, if they changed.
    pub(crate) fn tell(&mut self, app: &App) -> io::Result<()> {
        match self {
            Screen::Drawn(drawn) => drawn.tell(app),
            Screen::Lines(..) => Ok(()),
        }
    }
}

pub(crate) struct DrawnFrame {
    terminal: Terminal<Cells<FrameBuffer>>,
    output: Arc<Output>,
    alternate: bool,
    /// The mouse is ours, and not the terminal's.
    mouse: bool,
    /// The next frame draws the whole screen.
    is_stale: bool,
    /// The title and the report that the terminal has.
    told: String,
}

impl DrawnFrame {
    fn open(alternate: bool, mouse: bool, output: Arc<Output>) -> io::Result<DrawnFrame> {
        restore_on_panic();
        take(alternate, mouse, &output)?;
        let frame = FrameBuffer::new(Arc::clone(&output));
        Ok(DrawnFrame {
            terminal: Terminal::new(Cells::new(frame, alternate))?,
            output,
            alternate,
            mouse,
            is_stale: true,
            told: String::new(),
        })
    }

    fn draw(&mut self, app: &mut App) -> io::Result<()> {
        queue!(self.terminal.backend_mut().out(), BeginSynchronizedUpdate)?;
        if std::mem::take(&mut self.is_stale) {
            // `Terminal::clear` asks the terminal where its cursor is: it would wait for an answer
            // among the keys, which another thread reads.
            let size = self.terminal.size()?;
            self.terminal.resize(size.into())?;
        }
        self.terminal.draw(|frame| view::draw(frame, app))?;
        execute!(self.terminal.backend_mut().out(), EndSynchronizedUpdate)
    }

    /// Gives the terminal away while `other` has it. A signal prevents that.
    fn lend<T>(&mut self, other: impl FnOnce() -> T) -> io::Result<T> {
        give_back(Duration::MAX);
        if self.output.is_hurried() {
            return Err(ErrorKind::Interrupted.into());
        }
        let done = other();
        take(self.alternate, self.mouse, &self.output)?;
        self.is_stale = true;
        self.told.clear();
        Ok(done)
    }

    /// Puts `text` on the clipboard of the person at the terminal with OSC 52, which works over ssh
    /// too.
    fn copy(&mut self, text: &str) -> io::Result<()> {
        use base64::Engine as _;
        let coded = base64::engine::general_purpose::STANDARD.encode(text);
        self.output
            .send(format!("\x1b]52;c;{coded}\x07").as_bytes())
    }

    fn tell(&mut self, app: &App) -> io::Result<()> {
        let bytes = program_status::bytes(app);
        if self.told == bytes {
            return Ok(());
        }
        REPORTED.store(app.takes_status, Ordering::SeqCst);
        self.output.send(bytes.as_bytes())?;
        self.told = bytes;
        Ok(())
    }
}

impl Drop for DrawnFrame {
    fn drop(&mut self) {
        give_back(Duration::MAX);
    }
}

fn take(alternate: bool, mouse: bool, output: &Output) -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    ALTERNATE.store(alternate, Ordering::SeqCst);
    let mut out = Vec::new();
    // The present title returns when the terminal is given back.
    queue!(out, Print(KEEP_TITLE))?;
    if alternate {
        queue!(out, EnterAlternateScreen)?;
    }
    queue!(
        out,
        EnableBracketedPaste,
        EnableFocusChange,
        PushKeyboardEnhancementFlags(KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES),
        Print(ASK_KEYBOARD),
        cursor::Hide
    )?;
    if mouse {
        queue!(out, EnableMouseCapture)?;
    }
    output.send(&out)?;
    output.wait().map(drop)
}

/// Restores the terminal. May be called more than once, and from a panic. Write errors are ignored:
/// the terminal may be gone. `limit`: the maximum wait for the terminal, besides that of
/// [`Output::wait`].
fn give_back(limit: Duration) {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = Vec::new();
    if REPORTED.swap(false, Ordering::SeqCst) {
        out.extend(program_status::WITHDRAW.as_bytes());
    }
    let _ = queue!(
        out,
        EndSynchronizedUpdate,
        PopKeyboardEnhancementFlags,
        DisableMouseCapture,
        DisableFocusChange,
        DisableBracketedPaste,
        ResetColor,
        Print(TITLE_AS_BEFORE),
        cursor::Show
    );
    let _ = if ALTERNATE.load(Ordering::SeqCst) {
        queue!(out, LeaveAlternateScreen)
    } else {
        writeln!(out)
    };
    if let Some(output) = Output::of_stdout() {
        let _ = output.send(&out).and_then(|()| output.wait_within(limit));
    }
    let _ = disable_raw_mode();
}

/// Runs `other` and restores the terminal's modes. Otherwise a program that dies would leave its
/// own modes, which would later be given to the shell as the original ones.
pub(super) fn with_restored_modes<T>(other: impl FnOnce() -> T) -> T {
    let stdin = rustix::stdio::stdin();
    let modes = rustix::termios::tcgetattr(stdin);
    let done = other();
    if let Ok(modes) = modes {
        let set = rustix::termios::tcsetattr(stdin, OptionalActions::Now, &modes);
        if let Err(error) = set {
            tracing::warn!(%error, "the terminal's modes were not set again");
        }
    }
    done
}

/// Restores the terminal before a panic prints. Installs the hook once.
fn restore_on_panic() {
    static HOOKED: AtomicBool = AtomicBool::new(false);
    if HOOKED.swap(true, Ordering::SeqCst) {
        return;
    }
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let was_taken = TAKEN.load(Ordering::SeqCst);
        give_back(PANIC);
        if was_taken && !stderr_takes() {
            return;
        }
        before(info);
        if was_taken {
            let _ = writeln!(
                io::stderr(),
                "rewake stopped because of a bug; nothing that was recorded is lost: rewake -c resumes"
            );
        }
    }));
}
