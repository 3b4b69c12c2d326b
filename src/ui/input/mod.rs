//! Input of the terminal as events. [`Input`] takes bytes as they are read and returns crossterm's
//! event types, so that the code above it needs nothing special. [`burst`] finds pastes without
//! marks. [`Reader`] is the thread that feeds both.
//!
//! It replaces crossterm's reader, in which a paste without its end mark blocks the keyboard
//! forever. Here a paste ends by itself when nothing more came for [`PASTE_SILENCE`].
//!
//! Invariant: no byte sequence can stop the keyboard. Whatever came before, after a second of
//! silence the next key is a key. Nothing grows without bound.
//!
//! Three answers of the terminal are read: about its background ([`Input::background`]), about
//! reports of the status ([`Input::takes_status`]), and about the kitty keyboard protocol, with
//! which an escape byte is never the Esc key. All other answers and key releases are dropped.
//! Deliberately absent: waiting for an answer.

mod burst;
mod colour;
mod decode;
mod reader;
mod sequence;

use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

pub(crate) use burst::TerminalItem;
pub(crate) use reader::Reader;

/// How long an escape byte waits for the rest of a key before it is the Esc key.
const ESCAPE_WAIT: Duration = Duration::from_millis(50);

/// The same over ssh, which splits keys.
const REMOTE_ESCAPE_WAIT: Duration = Duration::from_millis(350);

/// The kind of a letter with Alt that came late after its escape byte, or over ssh: it may be Esc
/// and the letter.
pub(crate) const SPLIT: KeyEventKind = KeyEventKind::Repeat;

/// Maximum wait for the rest of an incomplete sequence or character.
pub(crate) const SEQUENCE_WAIT: Duration = Duration::from_millis(250);

/// A paste ends after this time without bytes, with or without its end mark.
pub(crate) const PASTE_SILENCE: Duration = Duration::from_secs(1);

/// Maximum size of a paste. The rest is dropped.
pub(crate) const MAX_PASTE_BYTES: usize = 32 * 1024 * 1024;

/// Maximum length of a key's sequence. A longer reply of the terminal is not needed.
const MAX_SEQUENCE_BYTES: usize = 256;

/// Text of this size in one read was not typed. After a paste that ended by silence it is the rest
/// of the paste.
const BURST_BYTES: usize = 16;

const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// The incomplete input of a terminal. It never reads a clock.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// The beginning of a sequence or a character.
    pending: Vec<u8>,
    /// The bytes of an open paste.
    paste: Option<Paste>,
    /// Set inside a reply that is too long to store: everything up to its end is dropped.
    skipping: bool,
    /// An incomplete answer of the terminal, report of the mouse or beginning of a paste, and
    /// when it was given up. Its rest may still come, and must not count as typed.
    cut: Option<(Vec<u8>, Instant)>,
    background: Option<[u8; 3]>,
    takes_status: bool,
    /// The terminal is at the other end of a network, which splits keys.
    is_remote: bool,
    /// The terminal sends the Esc key as a sequence.
    is_kitty: bool,
    /// The pending escape byte and bracket may be two keys: they came apart.
    is_split: bool,
    /// The last paste had no end mark: it may still come.
    overdue: bool,
    last: Option<Instant>,
}

#[derive(Debug, Default)]
struct Paste {
    bytes: Vec<u8>,
    /// The last bytes, to find an end mark that is split between two reads.
    tail: Vec<u8>,
}

impl Input {
    pub(super) fn new(is_remote: bool) -> Input {
        Input {
            is_remote,
            ..Input::default()
        }
    }

    /// Returns the events that these bytes complete. `bytes` is the result of one read.
    pub(crate) fn feed(&mut self, bytes: &[u8], now: Instant) -> Vec<Event> {
        // A thread that looks late may find the rest of a key that came in time.
        let is_rest = self.pending == [0x1b] && matches!(bytes, [b'[' | b'O' | b']', _, ..]);
        let mut events = if is_rest { Vec::new() } else { self.tick(now) };
        if bytes.is_empty() {
            return events;
        }
        let is_late = |last| now.duration_since(last) >= ESCAPE_WAIT;
        let is_late = self.last.is_some_and(is_late);
        self.last = Some(now);
        if self.pending == [0x1b] && !self.is_kitty && !is_rest && is_late {
            match (bytes, decode::only_character(bytes)) {
                // Alt with a key that types nothing.
                ([0x00..=0x1f | 0x7f], _) => {}
                ([b'['], _) => self.is_split = true,
                (_, Some(c)) => {
                    self.pending.clear();
                    events.push(split(c));
                    return events;
                }
                (_, None) => events.extend(sequence::abandoned(&std::mem::take(&mut self.pending))),
            }
        }
        // An Esc may be a key, or the end of the answer: the next bytes decide.
        if bytes != [0x1b]
            && let Some((cut, at)) = self.cut.take()
            && self.pending.is_empty()
            && (now.duration_since(at) < colour::REST_WAIT
                && (colour::goes_on(&cut, bytes) || sequence::is_rest(&cut, bytes))
                || now.duration_since(at) < REMOTE_ESCAPE_WAIT
                    && sequence::is_rest_of_key(&cut, bytes))
        {
            self.pending = cut;
        }
        let mut rest = bytes;
        if self.paste.is_none() && self.goes_on(rest) {
            self.paste = Some(Paste::default());
        }
        while !rest.is_empty() {
            rest = match &mut self.paste {
                Some(paste) => match paste.take(rest) {
                    Some(after) => {
                        self.end_paste(false, &mut events);
                        after
                    }
                    None => &[],
                },
                None => self.key_bytes(rest, &mut events),
            };
        }
        events
    }

    /// Returns the events that are complete after a silence: a lone Esc, a paste without its end.
    pub(crate) fn tick(&mut self, now: Instant) -> Vec<Event> {
        let mut events = Vec::new();
        if self.wait(now) == Some(Duration::ZERO) {
            self.skipping = false;
            self.end_paste(true, &mut events);
            let pending = std::mem::take(&mut self.pending);
            if std::mem::take(&mut self.is_split) && pending == *b"\x1b[" {
                events.push(split('['));
            } else {
                events.extend(sequence::abandoned(&pending));
            }
            // The Esc key came as one byte: the terminal no longer has the protocol.
            self.is_kitty &= pending != [0x1b];
            let cut = self.cut.take().filter(|_| pending == [0x1b]);
            let cut = [cut.map(|(cut, _)| cut).unwrap_or_default(), pending].concat();
            self.cut =
                (colour::is_beginning(&cut) || sequence::is_report(&cut)).then_some((cut, now));
        }
        events
    }

    /// Returns the colour of the terminal's background, if it arrived since the last call.
    pub(crate) fn background(&mut self) -> Option<[u8; 3]> {
        self.background.take()
    }

    /// Returns whether the terminal said that it takes reports of the status, since the last call.
    pub(crate) fn takes_status(&mut self) -> bool {
        std::mem::take(&mut self.takes_status)
    }

    /// Returns the time until [`Input::tick`] has something to do; `None` if it needs more bytes.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let patience = if self.paste.is_some() {
            PASTE_SILENCE
        } else if self.skipping {
            SEQUENCE_WAIT
        } else if self.pending.is_empty() {
            return None;
        } else if self.pending.iter().any(|b| *b != 0x1b) {
            // A network splits a key after any byte.
            SEQUENCE_WAIT.max(if self.is_remote {
                REMOTE_ESCAPE_WAIT
            } else {
                ESCAPE_WAIT
            })
        } else if self.is_kitty {
            PASTE_SILENCE
        } else if self.is_remote {
            REMOTE_ESCAPE_WAIT
        } else {
            ESCAPE_WAIT
        };
        let since = self.last.map_or(patience, |last| now.duration_since(last));
        Some(patience.saturating_sub(since))
    }

    /// Returns whether a read looks like the rest of a paste whose end never came.
    fn goes_on(&self, bytes: &[u8]) -> bool {
        let plain = self.overdue && self.pending.is_empty() && !self.skipping;
        plain
            && match find_bytes(bytes, PASTE_END) {
                Some(end) => find_bytes(&bytes[..end], PASTE_START).is_none(),
                None => bytes.len() >= BURST_BYTES && !bytes.contains(&0x1b),
            }
    }

    fn end_paste(&mut self, by_silence: bool, events: &mut Vec<Event>) {
        if let Some(paste) = self.paste.take() {
            self.overdue = by_silence;
            if !paste.bytes.is_empty() {
                events.push(Event::Paste(decode::text(&paste.bytes)));
            }
        }
    }

    /// Takes bytes outside a paste. Returns those that are not taken yet.
    fn key_bytes<'a>(&mut self, bytes: &'a [u8], events: &mut Vec<Event>) -> &'a [u8] {
        if self.skipping {
            return self.skip(bytes);
        }
        for (at, byte) in bytes.iter().enumerate() {
            self.pending.push(*byte);
            if self.pending == PASTE_START {
                self.pending.clear();
                self.paste = Some(Paste::default());
                return &bytes[at + 1..];
            }
            if self.pending == PASTE_END {
                self.overdue = false;
            }
            match sequence::parse(&self.pending) {
                sequence::Parsed::More if self.pending.len() < MAX_SEQUENCE_BYTES => {}
                sequence::Parsed::More => {
                    self.skipping = sequence::is_string(&self.pending);
                    self.pending.clear();
                    return &bytes[at + 1..];
                }
                sequence::Parsed::Nothing => {
                    self.background = colour::parse(&self.pending).or(self.background);
                    self.takes_status |= self.pending.starts_with(colour::TAKES_STATUS);
                    self.is_kitty |= sequence::has_escape_key(&self.pending);
                    let is_split = std::mem::take(&mut self.is_split);
                    if let ([_, _, letter], true) = (&self.pending[..], is_split) {
                        events.extend([split('['), decode::byte(*letter)]);
                    }
                    self.pending.clear();
                }
                sequence::Parsed::Again => {
                    // The byte belongs to the next sequence.
                    self.keep_escape();
                    return &bytes[at..];
                }
                sequence::Parsed::Event(event) => {
                    self.is_split = false;
                    // Over ssh, Esc and a letter typed after it may arrive together.
                    let letter = self.pending.strip_prefix(b"\x1b");
                    let letter = letter.filter(|_| self.is_remote && !self.is_kitty);
                    let letter = letter.and_then(decode::only_character);
                    let letter = letter.filter(|letter| !letter.is_control());
                    events.push(letter.map_or(event, split));
                    self.pending.clear();
                }
                sequence::Parsed::Escape => {
                    self.keep_escape();
                    events.push(decode::key(KeyCode::Esc, KeyModifiers::NONE));
                    return &bytes[at..];
                }
            }
        }
        &[]
    }

    /// Drops the pending bytes, but not an escape byte before the last byte: the two may belong
    /// together.
    fn keep_escape(&mut self) {
        let escape = matches!(self.pending[..], [_, .., 0x1b, _]);
        self.pending.clear();
        self.pending.extend(escape.then_some(0x1b));
    }

    /// Drops a reply up to its end: BEL, or the escape byte of a string terminator.
    fn skip<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Some(end) = bytes.iter().position(|b| matches!(b, 0x07 | 0x1b)) else {
            return &[];
        };
        self.skipping = false;
        if bytes[end] == 0x07 {
            &bytes[end + 1..]
        } else {
            &bytes[end..]
        }
    }
}

impl Paste {
    /// Takes bytes up to the end mark. Returns the bytes after the mark, if it came.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let before = self.tail.len();
        // The mark may start in the read before.
        let joint = PASTE_END.len().min(bytes.len());
        self.tail.extend_from_slice(&bytes[..joint]);
        if let Some(at) = find_bytes(&self.tail, PASTE_END).filter(|at| *at < before) {
            self.forget(before - at);
            return Some(&bytes[at + PASTE_END.len() - before..]);
        }
        self.tail.truncate(before);
        if let Some(at) = find_bytes(bytes, PASTE_END) {
            self.keep(&bytes[..at]);
            return Some(&bytes[at + PASTE_END.len()..]);
        }
        self.keep(bytes);
        self.tail.extend_from_slice(bytes);
        let old = self.tail.len().saturating_sub(PASTE_END.len() - 1);
        self.tail.drain(..old);
        None
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MAX_PASTE_BYTES.saturating_sub(self.bytes.len());
        self.bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Takes the beginning of the end mark back out.
    fn forget(&mut self, marks: usize) {
        let part = &PASTE_END[..marks.min(PASTE_END.len())];
        if self.bytes.ends_with(part) {
            self.bytes.truncate(self.bytes.len() - part.len());
        }
    }
}

/// Returns the key of a letter that came late after an escape byte.
fn split(c: char) -> Event {
    let key = KeyEvent::new_with_kind(KeyCode::Char(c), KeyModifiers::ALT, SPLIT);
    Event::Key(key)
}

fn find_bytes(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|w| w == wanted)
}

#[cfg(test)]
mod tests;
