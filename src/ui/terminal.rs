//! The terminal as it is taken and given back.
//!
//! Invariant: however the process ends short of a SIGKILL, the terminal is as it was: on
//! leaving, on a panic (of any thread), and while another program has it.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste,
    EnableFocusChange, EnableMouseCapture, KeyboardEnhancementFlags, PopKeyboardEnhancementFlags,
    PushKeyboardEnhancementFlags,
};
use crossterm::style::{Print, ResetColor};
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    SetTitle, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use ratatui::Terminal;
use rustix::termios::OptionalActions;

use super::app::App;
use super::cells::Cells;
use super::plain::Printer;
use super::view;
use crate::model::Delta;

/// A frame is written in one go.
const BUFFER_BYTES: usize = 256 * 1024;

/// Saves the title on the terminal's stack of titles (XTWINOPS).
const KEEP_TITLE: &str = "\x1b[22;0t";
const TITLE_AS_BEFORE: &str = "\x1b[23;0t";

/// The terminal is ours, in raw mode.
static TAKEN: AtomicBool = AtomicBool::new(false);
static ALTERNATE: AtomicBool = AtomicBool::new(false);

/// The output of the screen: drawn, or printed as lines.
pub(crate) enum Screen {
    Drawn(DrawnFrame),
    Lines(Box<Printer>),
}

impl Screen {
    /// Opens the screen. `alternate`: uses the terminal's alternate screen, so that its content
    /// returns later.
    pub(crate) fn open(alternate: bool, mouse: bool) -> io::Result<Screen> {
        Ok(Screen::Drawn(DrawnFrame::open(alternate, mouse)?))
    }

    /// Returns a screen for line mode, which leaves the terminal as it is.
    pub(crate) fn lines() -> Screen {
        Screen::Lines(Box::default())
    }

    pub(crate) fn draw(&mut self, app: &mut App) -> io::Result<()> {
        match self {
            Screen::Drawn(drawn) => drawn.draw(app),
            Screen::Lines(printer) => printer.print(app),
        }
    }

    /// Takes a piece of the streamed answer, before the app has it.
    pub(crate) fn hears(&mut self, delta: &Delta) {
        if let Screen::Lines(printer) = self {
            printer.hears(delta);
        }
    }

    /// Makes the next frame draw the whole screen.
    pub(crate) fn redraw(&mut self) -> io::Result<()> {
        match self {
            Screen::Drawn(drawn) => drawn.redraw(),
            Screen::Lines(_) => Ok(()),
        }
    }

    /// Gives the terminal away while `other` has it.
    pub(crate) fn lend<T>(&mut self, other: impl FnOnce() -> T) -> io::Result<T> {
        match self {
            Screen::Drawn(drawn) => drawn.lend(other),
            Screen::Lines(_) => Ok(other()),
        }
    }

    /// Puts `text` on the clipboard of the person at the terminal.
    pub(crate) fn copy(&mut self, text: &str) -> io::Result<()> {
        match self {
            Screen::Drawn(drawn) => drawn.copy(text),
            Screen::Lines(_) => Err(io::Error::other("lines are printed here, and nothing else")),
        }
    }

    /// Writes bytes that move nothing on the screen. In line mode nothing is written.
    pub(crate) fn write(&mut self, bytes: &str) -> io::Result<()> {
        match self {
            Screen::Drawn(drawn) => drawn.write(bytes),
            Screen::Lines(_) => Ok(()),
        }
    }

    pub(crate) fn title(&mut self, title: &str) -> io::Result<()> {
        match self {
            Screen::Drawn(drawn) => drawn.title(title),
            Screen::Lines(_) => Ok(()),
        }
    }
}

pub(crate) struct DrawnFrame {
    terminal: Terminal<Cells<BufWriter<Stdout>>>,
    alternate: bool,
    /// The mouse is ours, and not the terminal's.
    mouse: bool,
}

impl DrawnFrame {
    fn open(alternate: bool, mouse: bool) -> io::Result<DrawnFrame> {
        restore_on_panic();
        take(alternate, mouse)?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout());
        let terminal = Terminal::new(Cells::new(out))?;
        let mut drawn = DrawnFrame {
            terminal,
            alternate,
            mouse,
        };
        drawn.redraw()?;
        Ok(drawn)
    }

    fn draw(&mut self, app: &mut App) -> io::Result<()> {
        queue!(self.terminal.backend_mut().out(), BeginSynchronizedUpdate)?;
        self.terminal.draw(|frame| view::draw(frame, app))?;
        execute!(self.terminal.backend_mut().out(), EndSynchronizedUpdate)
    }

    /// Makes the next frame draw the whole screen. (`Terminal::clear` asks the terminal where its
    /// cursor is: it would wait for an answer among the keys, which another thread reads.)
    fn redraw(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }

    /// Gives the terminal away while `other` has it.
    fn lend<T>(&mut self, other: impl FnOnce() -> T) -> io::Result<T> {
        give_back();
        let done = other();
        take(self.alternate, self.mouse)?;
        self.redraw()?;
        Ok(done)
    }

    /// Puts `text` on the clipboard of the person at the terminal with OSC 52, which works over ssh
    /// too.
    fn copy(&mut self, text: &str) -> io::Result<()> {
        use base64::Engine as _;
        let coded = base64::engine::general_purpose::STANDARD.encode(text);
        let out = self.terminal.backend_mut().out();
        write!(out, "\x1b]52;c;{coded}\x07")?;
        out.flush()
    }

    /// Writes bytes that move nothing on the screen.
    fn write(&mut self, bytes: &str) -> io::Result<()> {
        let out = self.terminal.backend_mut().out();
        out.write_all(bytes.as_bytes())?;
        out.flush()
    }

    fn title(&mut self, title: &str) -> io::Result<()> {
        execute!(self.terminal.backend_mut().out(), SetTitle(title))
    }
}

impl Drop for DrawnFrame {
    fn drop(&mut self) {
        give_back();
    }
}

fn take(alternate: bool, mouse: bool) -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    ALTERNATE.store(alternate, Ordering::SeqCst);
    let mut out = io::stdout();
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
        cursor::Hide
    )?;
    if mouse {
        queue!(out, EnableMouseCapture)?;
    }
    out.flush()
}

/// Restores the terminal. May be called more than once, and from a panic. Write errors are ignored:
/// the terminal may be gone.
pub(super) fn give_back() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = io::stdout();
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
    let left = match ALTERNATE.load(Ordering::SeqCst) {
        true => queue!(out, LeaveAlternateScreen),
        false => writeln!(out),
    };
    let _ = left.and_then(|()| out.flush());
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
        give_back();
        before(info);
        if was_taken {
            let _ = writeln!(
                io::stderr(),
                "rewake stopped because of a bug; nothing that was recorded is lost: rewake -c resumes"
            );
        }
    }));
}
