//! Text that comes in one burst from a terminal that does not mark pastes: GNU screen, a paste
//! buffer of tmux, a slow ssh. It is a paste too. A line end in it is text; only one after which
//! nothing came for [`LINE_END_WAIT`] is the Enter key.
//!
//! Single characters are keys at once, and short texts too, unless a line end is in their middle.
//! An Enter shortly after a burst may be its next line end: it is [`TerminalItem::BurstEnter`].
//! Reports of the terminal (the mouse, the focus) belong to no burst.
//!
//! Invariant: an Enter is never reported while bytes after it may be unread. So [`Bursts::tick`]
//! gets a time up to which the terminal was silent, and [`Bursts::feed`] ends no wait.

use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

use super::{BURST_BYTES, Input, MAX_PASTE_BYTES, decode};

/// How long a line end waits for a byte that makes it text.
pub(crate) const LINE_END_WAIT: Duration = Duration::from_millis(30);

/// A burst is over after this time without text: a slow link pauses in the middle of a paste.
pub(crate) const BURST_PAUSE: Duration = Duration::from_millis(500);

/// An item of terminal input.
#[derive(Debug)]
pub(crate) enum TerminalItem {
    Event(Event),
    /// An Enter at the end of a burst of text. Nobody read the text before it.
    BurstEnter,
    /// The colour of the terminal's background.
    Background([u8; 3]),
    /// The terminal takes reports of the status.
    TakesStatus,
}

/// The input of a terminal, with bursts of text as pastes. It never reads a clock.
#[derive(Debug, Default)]
pub(crate) struct Bursts {
    input: Input,
    /// A paste, or a line end, that may continue. Its line ends are those of the terminal.
    open: Option<String>,
    /// The bytes of text that came without a pause, and the time of the last.
    bytes: usize,
    last: Option<Instant>,
    /// The last read had several characters, so it was not typed: a piece of a text.
    is_piece: bool,
    /// Text after a burst belongs to it until the terminal was silent for [`BURST_PAUSE`].
    is_burst: bool,
}

impl Bursts {
    pub(super) fn new(is_remote: bool) -> Bursts {
        Bursts {
            input: Input::new(is_remote),
            ..Bursts::default()
        }
    }

    /// Returns what these bytes complete. `bytes` is the result of one read.
    pub(crate) fn feed(&mut self, bytes: &[u8], now: Instant) -> Vec<TerminalItem> {
        let pause = if self.is_piece {
            BURST_PAUSE
        } else {
            LINE_END_WAIT
        };
        let is_near = |last| now.duration_since(last) < pause;
        if self.open.is_none() && !self.last.is_some_and(is_near) {
            self.bytes = 0;
        }
        let events = self.input.feed(bytes, now);
        self.sort(events, now)
    }

    /// Returns what is complete after a silence up to this time.
    pub(crate) fn tick(&mut self, now: Instant) -> Vec<TerminalItem> {
        let events = self.input.tick(now);
        let mut items = self.sort(events, now);
        if self.wait(now) == Some(Duration::ZERO) {
            self.release(&mut items);
        }
        self.is_burst &= self.left_of(BURST_PAUSE, now) != Some(Duration::ZERO);
        items
    }

    /// Returns what is complete when the terminal has ended.
    pub(crate) fn end(&mut self) -> Vec<TerminalItem> {
        let mut items = Vec::new();
        self.release(&mut items);
        items
    }

    /// Returns the time until [`Bursts::tick`] has something to do; `None` if it needs more bytes.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let of_text = || {
            let wait = if self.open.is_some() {
                LINE_END_WAIT
            } else if self.is_burst {
                BURST_PAUSE
            } else {
                return None;
            };
            self.left_of(wait, now)
        };
        // The rest of a sequence decides whether it belongs to the burst.
        self.input.wait(now).or_else(of_text)
    }

    /// Returns the rest of a silence after the last text.
    fn left_of(&self, silence: Duration, now: Instant) -> Option<Duration> {
        let since = now.duration_since(self.last?);
        Some(silence.saturating_sub(since))
    }

    /// Returns the colour of the terminal's background, if it arrived since the last call.
    pub(crate) fn background(&mut self) -> Option<[u8; 3]> {
        self.input.background()
    }

    /// Returns whether the terminal said that it takes reports, since the last call.
    pub(crate) fn takes_status(&mut self) -> bool {
        self.input.takes_status()
    }

    fn sort(&mut self, events: Vec<Event>, now: Instant) -> Vec<TerminalItem> {
        let mut items = Vec::new();
        let (mut text, mut keys) = (String::new(), Vec::new());
        for event in events {
            let typed = event.as_key_event().and_then(typed);
            match &event {
                Event::Key(_) | Event::Paste(_) => {
                    if let Some(c) = typed {
                        text.push(c);
                        keys.push(TerminalItem::Event(event));
                        continue;
                    }
                    self.take(&std::mem::take(&mut text), &mut keys, now, &mut items);
                    self.close(&mut items);
                    items.push(TerminalItem::Event(event));
                }
                Event::Mouse(_) | Event::FocusGained | Event::FocusLost | Event::Resize(..) => {
                    items.push(TerminalItem::Event(event));
                }
            }
        }
        self.take(&text, &mut keys, now, &mut items);
        items
    }

    /// Takes text of one read, and the same as keys.
    fn take(
        &mut self,
        text: &str,
        keys: &mut Vec<TerminalItem>,
        now: Instant,
        items: &mut Vec<TerminalItem>,
    ) {
        if text.is_empty() {
            return;
        }
        self.last = Some(now);
        self.is_piece = text.chars().nth(1).is_some();
        self.bytes += text.len();
        self.is_burst |= self.bytes >= BURST_BYTES;
        if let Some(open) = &mut self.open {
            if open.len() + text.len() > MAX_PASTE_BYTES {
                items.push(paste(std::mem::take(open)));
            }
            open.push_str(text);
            keys.clear();
            return;
        }
        let (line, end) = split_line_end(text);
        if is_paste(line, end) {
            self.open = Some(text.to_string());
            self.is_burst = true;
            keys.clear();
            return;
        }
        items.extend(keys.drain(..line.chars().count()));
        keys.clear();
        if !end.is_empty() {
            self.open = Some(end.to_string());
        }
    }

    /// Ends the burst because of another key: its last line end is text.
    fn close(&mut self, items: &mut Vec<TerminalItem>) {
        items.extend(self.open.take().map(paste));
    }

    /// Ends the burst after a silence: its last line end is Enter.
    fn release(&mut self, items: &mut Vec<TerminalItem>) {
        let Some(text) = self.open.take() else { return };
        let (line, end) = split_line_end(&text);
        if !line.is_empty() {
            items.push(paste(line.to_string()));
        }
        let is_burst = self.is_burst || !line.is_empty();
        if end.is_empty() {
            return;
        }
        items.push(if is_burst {
            TerminalItem::BurstEnter
        } else {
            TerminalItem::Event(decode::key(KeyCode::Enter, KeyModifiers::NONE))
        });
    }
}

fn paste(text: String) -> TerminalItem {
    TerminalItem::Event(Event::Paste(text))
}

/// Returns the character of a key that is text.
fn typed(key: KeyEvent) -> Option<char> {
    match (key.code, key.modifiers) {
        (KeyCode::Char(c), KeyModifiers::NONE | KeyModifiers::SHIFT) => Some(c),
        (KeyCode::Enter, KeyModifiers::NONE) => Some('\r'),
        (KeyCode::Char('j'), KeyModifiers::CONTROL) => Some('\n'),
        (KeyCode::Tab, KeyModifiers::NONE) => Some('\t'),
        _ => None,
    }
}

/// Splits off the last line end that may be the Enter key.
fn split_line_end(text: &str) -> (&str, &str) {
    let line = text
        .strip_suffix("\r\n")
        .or_else(|| text.strip_suffix('\r'));
    text.split_at(line.unwrap_or(text).len())
}

/// Returns whether the text of one read was not typed: it is long, or continues after a line end.
fn is_paste(line: &str, end: &str) -> bool {
    let mut before = line.chars();
    if end.is_empty() {
        before.next_back();
    }
    line.len() >= BURST_BYTES || before.as_str().contains(['\r', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The items of reads with their times in milliseconds, and of the silences between them, as
    /// short text. Nothing else is read after the last.
    fn items(reads: &[(u64, &str)]) -> String {
        let start = Instant::now();
        let time = |ms| start + Duration::from_millis(ms);
        let mut input = Bursts::default();
        let mut items = Vec::new();
        for (at, bytes) in reads {
            // The terminal was looked at right before these bytes came.
            items.extend(input.tick(time(*at - u64::from(*at > 0))));
            items.extend(input.feed(bytes.as_bytes(), time(*at)));
        }
        let last = reads.last().map_or(0, |(at, _)| *at);
        for silence in [29, 30, 2_000, 4_000] {
            if silence == 29 {
                items.extend(input.tick(time(last + 29)));
                items.push(TerminalItem::Background([0; 3]));
            } else {
                items.extend(input.tick(time(last + silence)));
            }
        }
        assert_eq!(input.wait(time(last + 4_000)), None, "{reads:?}");
        let spelled = items.iter().map(|item| match item {
            TerminalItem::Event(Event::Paste(text)) => format!("<{}>", text.escape_debug()),
            TerminalItem::Event(Event::Key(key)) => match key.code {
                KeyCode::Char(c) if key.modifiers == KeyModifiers::CONTROL => format!("C-{c}"),
                KeyCode::Char(c) => c.to_string(),
                code => format!("{code:?}"),
            },
            TerminalItem::Event(Event::FocusGained) => "focus".to_string(),
            TerminalItem::Event(_) => "mouse".to_string(),
            TerminalItem::BurstEnter => "BurstEnter".to_string(),
            TerminalItem::Background(_) | TerminalItem::TakesStatus => "|".to_string(),
        });
        spelled.collect::<Vec<_>>().join(" ")
    }

    /// Before the bar is what was reported 29 ms after the last byte.
    #[test]
    fn a_line_end_acts_only_when_no_byte_follows() {
        for (bytes, want) in [
            ("a", "a |"),
            ("\r", "| Enter"),
            ("ls\r", "l s | Enter"),
            ("ls\r\n", "l s | Enter"),
            ("a\rb", "| <a\\rb>"),
            ("a\rb\r", "| <a\\rb> BurstEnter"),
            ("a\r\nb\r\n", "| <a\\r\\nb> BurstEnter"),
            ("a\nb\n", "| <a\\nb\\n>"),
            ("\r\r", "| <\\r> BurstEnter"),
            ("\r\n\r\n", "| <\\r\\n> BurstEnter"),
            // Ctrl+J alone is a key.
            ("a\n", "a C-j |"),
            ("a\t", "a Tab |"),
            ("a sentence of words", "| <a sentence of words>"),
            (
                "a sentence of words\r",
                "| <a sentence of words> BurstEnter",
            ),
            ("!touch made\r", "! t o u c h   m a d e | Enter"),
            ("!touch pasted.txt\r", "| <!touch pasted.txt> BurstEnter"),
            ("einfache Wörter mit ü", "| <einfache Wörter mit ü>"),
            // Keys between text end what came before. A line end before them is text.
            ("a\r\u{1b}[A", "a <\\r> Up |"),
            ("\r\u{1b}[B\r", "<\\r> Down | Enter"),
            ("a\r\u{3}", "a <\\r> C-c |"),
            ("a\r\u{1b}", "a | <\\r> Esc"),
            ("\u{1b}[13u", "| Enter"),
            ("\u{1b}[13ux", "| <\\rx>"),
            (
                "!touch pasted.txt\u{1b}[13u",
                "| <!touch pasted.txt> BurstEnter",
            ),
            // A marked paste is as it was, and Enter after it is Enter.
            ("\u{1b}[200~a\rb\u{1b}[201~", "<a\\rb> |"),
            ("\u{1b}[200~a\rb\u{1b}[201~\r", "<a\\rb> | Enter"),
            ("\r\u{1b}[200~a\u{1b}[201~", "<\\r> <a> |"),
            // Reports are no text.
            ("a\r\u{1b}[I\u{1b}[<35;5;6M", "focus mouse a | Enter"),
            ("a\r\u{1b}]11;rgb:0/0/0\u{7}", "a | Enter"),
            ("a\r\u{1b}[Ib", "focus | <a\\rb>"),
        ] {
            let whole = items(&[(0, bytes)]);
            assert_eq!(whole.trim(), want, "{bytes:?}");
        }
    }

    #[test]
    fn a_burst_may_come_in_several_reads() {
        for (reads, want) in [
            (&[(0, "a\r"), (29, "b")][..], "a | <\\rb>"),
            (&[(0, "a\r"), (31, "b")], "a Enter b |"),
            (
                &[(0, "a\r"), (5, "\nb\r"), (9, "\n")],
                "a | <\\r\\nb> BurstEnter",
            ),
            (
                &[
                    (0, "some notes of a pa"),
                    (10, "ge\r!touch x\r"),
                    (35, "end"),
                ],
                "| <some notes of a page\\r!touch x\\rend>",
            ),
            (
                &[(0, "some notes of a page\r"), (40, "end")],
                "<some notes of a page> BurstEnter e n d |",
            ),
            // One character at a time, as over a serial line.
            (
                &[
                    (0, "!touch"),
                    (3, " "),
                    (6, "pasted.tx"),
                    (9, "t"),
                    (12, "\r"),
                ],
                "! t o u c h   p a s t e d . t x t | BurstEnter",
            ),
            // Pieces of a slow link. Single characters with pauses are typed.
            (
                &[(0, "!touch p"), (100, "asted.tx"), (200, "t"), (300, "\r")],
                "! t o u c h   p a s t e d . t x t | BurstEnter",
            ),
            (
                &[
                    (0, "!touch past"),
                    (40, "e"),
                    (80, "d"),
                    (120, ".txt"),
                    (700, "\r"),
                ],
                "! t o u c h   p a s t e d . t x t | Enter",
            ),
            // A line end of a slow paste, and a blank line of it.
            (
                &[(0, "!touch pasted.txt"), (450, "\r")],
                "<!touch pasted.txt> | BurstEnter",
            ),
            (
                &[(0, "!touch pasted.txt\r"), (80, "\r"), (500, "\r")],
                "<!touch pasted.txt> BurstEnter BurstEnter | BurstEnter",
            ),
            // Each text makes the pause begin again.
            (
                &[(0, "!touch pasted.txt\r"), (400, "b"), (800, "\r")],
                "<!touch pasted.txt> BurstEnter b | BurstEnter",
            ),
            (
                &[(0, "!touch pasted.txt\r"), (501, "b"), (600, "\r")],
                "<!touch pasted.txt> BurstEnter b | Enter",
            ),
            // Enter long after the text was pressed by somebody.
            (
                &[(0, "!touch pasted.txt"), (900, "\r")],
                "<!touch pasted.txt> | Enter",
            ),
            // A report in pieces delays the decision.
            (
                &[(0, "a\r"), (20, "\u{1b}[<35;5"), (40, ";6M")],
                "a mouse Enter |",
            ),
            (&[(0, "a\r"), (20, "\u{1b}"), (40, "[A")], "a <\\r> Up |"),
        ] {
            assert_eq!(items(reads).trim(), want, "{reads:?}");
        }
    }

    #[test]
    fn nothing_is_lost_when_the_terminal_ends_or_never_pauses() {
        let now = Instant::now();
        let mut input = Bursts::default();
        assert!(input.feed(b"a sentence of words\r", now).is_empty());
        assert_eq!(input.end().len(), 2);
        assert!(input.end().is_empty());

        let read = "x".repeat(MAX_PASTE_BYTES / 4);
        let mut items = Vec::new();
        for ms in 0..6 {
            items.extend(input.feed(read.as_bytes(), now + Duration::from_millis(ms)));
            assert!(
                input
                    .open
                    .as_ref()
                    .is_some_and(|open| open.len() <= MAX_PASTE_BYTES)
            );
        }
        assert_eq!(items.len(), 1);
    }

    #[test]
    fn a_late_look_at_the_terminal_makes_no_enter() {
        let now = Instant::now();
        let mut input = Bursts::default();
        input.feed(b"a\r", now);
        // The thread was away for a second: the byte may have come at once.
        assert!(input.feed(b"b", now + Duration::from_secs(1)).is_empty());
        assert_eq!(input.open.as_deref(), Some("\rb"));
    }
}
