//! The end and the kind of terminal sequences.
//!
//! Sources: ECMA-48 (control sequences), XTerm Control Sequences (SS3, mouse, paste), the
//! kitty keyboard protocol, and terminfo of linux, rxvt and tmux for where they differ.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

use super::{PASTE_START, decode};

/// The meaning of the bytes so far.
#[derive(Debug, PartialEq)]
pub(super) enum Parsed {
    /// The beginning of a sequence.
    More,
    /// A complete sequence without a use: a reply, an unknown key, bytes that are not text.
    Nothing,
    /// The last byte does not belong to the bytes before it. Those have no use, except for an
    /// escape byte directly before it.
    Again,
    /// As `Again`, but the bytes before were the Esc key.
    Escape,
    Event(Event),
}

pub(super) fn parse(bytes: &[u8]) -> Parsed {
    match bytes {
        [] | [0x1b] | [0x1b, 0x1b] => Parsed::More,
        // rxvt: Alt is an escape byte before the sequence.
        [0x1b, 0x1b, b'[' | b'O', ..] => with_alt(parse(&bytes[1..])),
        [0x1b, 0x1b, ..] => Parsed::Escape,
        [0x1b, b'[', rest @ ..] => control(rest),
        [0x1b, b'O', rest @ ..] => single_shift(rest),
        [0x1b, b']' | b'P' | b'_' | b'^' | b'X', rest @ ..] => string(bytes[1], rest),
        [0x1b, rest @ ..] => with_alt(plain(rest)),
        _ => plain(bytes),
    }
}

/// Returns the keys of an incomplete sequence after which nothing came.
pub(super) fn abandoned(bytes: &[u8]) -> Vec<Event> {
    let escape = || decode::key(KeyCode::Esc, KeyModifiers::NONE);
    match bytes {
        [0x1b] => vec![escape()],
        [0x1b, 0x1b] => vec![escape(), escape()],
        [0x1b, byte @ (b'[' | b']' | b'^' | b'_')] => vec![alt(char::from(*byte))],
        [0x1b, byte @ (b'O' | b'P' | b'X')] => vec![alt(char::from(*byte))],
        [0x1b, 0x1b, byte @ (b'[' | b'O')] => vec![escape(), alt(char::from(*byte))],
        _ => Vec::new(),
    }
}

/// Returns whether the bytes are a report of the mouse or the beginning of a paste, or may become
/// one.
pub(super) fn is_report(bytes: &[u8]) -> bool {
    let start = bytes.len().min(PASTE_START.len());
    let numbers = bytes.strip_prefix(b"\x1b[<").map(|rest| {
        let mut rest = rest.iter();
        rest.find(|byte| !matches!(byte, b'0'..=b'9' | b';'))
    });
    bytes[..start] == PASTE_START[..start] || matches!(numbers, Some(None | Some(b'M' | b'm')))
}

/// Returns whether the bytes of this read continue a report that broke off. Only an end may come
/// alone: one other byte is a key.
pub(super) fn is_rest(cut: &[u8], bytes: &[u8]) -> bool {
    is_report(&[cut, bytes].concat()) && (bytes.len() > 1 || matches!(bytes, b"M" | b"m" | b"~"))
}

/// Returns whether the bytes of this read are the rest of a key whose escape byte was taken for the
/// Esc key.
pub(super) fn is_rest_of_key(cut: &[u8], bytes: &[u8]) -> bool {
    cut == [0x1b]
        && matches!(bytes, [b'[' | b'O', _, ..])
        && matches!(parse(&[cut, bytes].concat()), Parsed::Event(_))
}

/// Returns whether this is the answer of a terminal that sends the Esc key as a sequence: the first
/// flag of the kitty keyboard protocol is set.
pub(super) fn has_escape_key(reply: &[u8]) -> bool {
    let flags = reply
        .strip_prefix(b"\x1b[?")
        .and_then(|rest| rest.strip_suffix(b"u"));
    let flags = flags.and_then(|flags| std::str::from_utf8(flags).ok()?.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & 1 != 0)
}

/// Returns whether this is a reply that ends with a terminator, at any length.
pub(super) fn is_string(bytes: &[u8]) -> bool {
    matches!(bytes, [0x1b, b']' | b'P' | b'_' | b'^' | b'X', ..])
}

fn alt(c: char) -> Event {
    let shift = if c.is_ascii_uppercase() {
        KeyModifiers::SHIFT
    } else {
        KeyModifiers::NONE
    };
    decode::key(KeyCode::Char(c), KeyModifiers::ALT | shift)
}

fn with_alt(found: Parsed) -> Parsed {
    match found {
        Parsed::Event(Event::Key(key)) => Parsed::Event(Event::Key(KeyEvent {
            modifiers: key.modifiers | KeyModifiers::ALT,
            ..key
        })),
        other => other,
    }
}

/// Parses a character, or one of the control keys.
fn plain(bytes: &[u8]) -> Parsed {
    match bytes {
        [] => Parsed::More,
        [byte] if byte.is_ascii() => Parsed::Event(decode::byte(*byte)),
        // No character is longer or begins otherwise.
        [0x80..=0xc1 | 0xf5..=0xff, ..] => Parsed::Nothing,
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => match text.chars().next() {
                Some(c) => Parsed::Event(decode::character(c)),
                None => Parsed::Nothing,
            },
            Err(e) if e.error_len().is_none() => Parsed::More,
            Err(_) => Parsed::Again,
        },
    }
}

/// Parses the bytes after `ESC [`.
fn control(bytes: &[u8]) -> Parsed {
    match bytes {
        [] => Parsed::More,
        // The linux console's F1 to F5.
        [b'[', letter @ b'A'..=b'E'] => Parsed::Event(decode::key(
            KeyCode::F(letter - b'A' + 1),
            KeyModifiers::NONE,
        )),
        [b'['] => Parsed::More,
        [b'[', _] => Parsed::Again,
        // X10 mouse: three bytes that may be anything.
        [b'M', rest @ ..] => match rest {
            [button, column, row] => event(decode::mouse_bytes(*button, *column, *row)),
            _ => Parsed::More,
        },
        [start @ .., last] => match last {
            // rxvt ends shifted keys with a dollar sign, which elsewhere is in the middle
            // of a reply.
            b'$' if start.first().is_some_and(u8::is_ascii_digit) && !start.contains(&b';') => {
                event(decode::control(start, b'$'))
            }
            0x20..=0x3f => Parsed::More,
            0x40..=0x7e => event(decode::control(start, *last)),
            // A new sequence, or a byte that belongs to none.
            _ => Parsed::Again,
        },
    }
}

/// Parses the bytes after `ESC O`: one letter, before which old terminals put the modifiers.
fn single_shift(bytes: &[u8]) -> Parsed {
    match bytes {
        [] | [b'1'..=b'9'] => Parsed::More,
        [letter @ 0x20..=0x7e] => event(decode::single_shift(*letter, None)),
        [digit, letter @ 0x20..=0x7e] => event(decode::single_shift(*letter, Some(digit - b'0'))),
        _ => Parsed::Again,
    }
}

/// Parses a reply up to BEL or `ESC \`. Bytes with other control characters are not a reply.
fn string(introducer: u8, bytes: &[u8]) -> Parsed {
    match bytes {
        [.., 0x07] | [.., 0x1b, b'\\'] => Parsed::Nothing,
        [.., 0x1b] => Parsed::More,
        // The escape byte starts another sequence.
        [.., 0x1b, _] => Parsed::Again,
        // A reply has no line ends and begins as its kind does: this was Alt and a letter.
        [.., 0x00..=0x1f] => Parsed::Again,
        [first, ..] if introducer == b']' && !first.is_ascii_digit() => Parsed::Again,
        _ => Parsed::More,
    }
}

fn event(event: Option<Event>) -> Parsed {
    event.map_or(Parsed::Nothing, Parsed::Event)
}
