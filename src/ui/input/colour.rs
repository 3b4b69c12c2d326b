//! The answers of the terminal: the colour of its background (OSC 11), and that it takes reports of
//! a program's status (OSC 7501).
//!
//! `ESC ] 11 ; rgb:RRRR/GGGG/BBBB` up to BEL or `ESC \`. Source: XTerm Control Sequences,
//! and XParseColor for how many digits a part may have. `ESC ] 7501 ; ?` up to the same ends.
//! Source: the Program Status Protocol.
//!
//! Invariant: whenever and in how many pieces an answer comes, none of it is typed text.

use std::time::Duration;

const START: &[u8] = b"\x1b]11;";
pub(super) const TAKES_STATUS: &[u8] = b"\x1b]7501;?";

/// Maximum wait for the rest of an answer that broke off.
pub(super) const REST_WAIT: Duration = Duration::from_secs(10);

/// Returns the colour in a whole answer.
pub(super) fn parse(answer: &[u8]) -> Option<[u8; 3]> {
    let rest = answer.strip_prefix(START)?;
    let end = rest.iter().position(|b| matches!(b, 0x07 | 0x1b))?;
    let text = std::str::from_utf8(&rest[..end]).ok()?;
    let (kind, parts) = text.split_once(':')?;
    let mut parts = parts.split('/').map(part);
    let rgb = [parts.next()??, parts.next()??, parts.next()??];
    matches!(kind, "rgb" | "rgba").then_some(rgb)
}

/// Parses one to four hex digits and scales them to a byte.
fn part(digits: &str) -> Option<u8> {
    let most = match digits.len() {
        1..=4 => (1_u32 << (4 * digits.len())) - 1,
        _ => return None,
    };
    let value = u32::from_str_radix(digits, 16).ok()?;
    u8::try_from(value * 255 / most).ok()
}

/// Returns whether these bytes, which broke off, may be the beginning of an answer.
pub(super) fn is_beginning(bytes: &[u8]) -> bool {
    !bytes.is_empty() && matches!(end(bytes), Some(None))
}

/// Returns whether the bytes of this read continue an answer. One byte after an Esc, or after an
/// answer that never ended, is a key: only an end may come alone.
pub(super) fn goes_on(cut: &[u8], bytes: &[u8]) -> bool {
    let joined = [cut, bytes].concat();
    match end(&joined) {
        Some(Some(end)) => end > cut.len(),
        Some(None) => bytes.len() > 1,
        None => false,
    }
}

/// Returns the end of an answer: `Some(None)` when it is not there yet, `None` when this is not an
/// answer.
fn end(bytes: &[u8]) -> Option<Option<usize>> {
    let begins = |start: &&[u8]| {
        let length = bytes.len().min(start.len());
        bytes[..length] == start[..length]
    };
    let start = [START, TAKES_STATUS].into_iter().find(begins)?;
    for (at, byte) in bytes.iter().enumerate().skip(start.len()) {
        match byte {
            b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' | b'r' | b'g' | b':' | b'/' => {}
            0x07 => return Some(Some(at + 1)),
            0x1b => {
                return match bytes.get(at + 1) {
                    None => Some(None),
                    Some(b'\\') => Some(Some(at + 2)),
                    Some(_) => None,
                };
            }
            _ => return None,
        }
    }
    Some(None)
}
