//! Whole sequences as events: which key, which button, which modifiers.

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

/// Returns pasted bytes as text. Invalid bytes become the replacement character.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the character if the bytes are one.
pub(super) fn only_character(bytes: &[u8]) -> Option<char> {
    let mut chars = std::str::from_utf8(bytes).ok()?.chars();
    chars.next().filter(|_| chars.next().is_none())
}

pub(super) fn key(code: KeyCode, modifiers: KeyModifiers) -> Event {
    Event::Key(KeyEvent::new(code, modifiers))
}

/// Decodes one byte of ASCII.
pub(super) fn byte(byte: u8) -> Event {
    let control = |c: u8| key(KeyCode::Char(char::from(c)), KeyModifiers::CONTROL);
    match byte {
        0x00 => control(b' '),
        b'\t' => key(KeyCode::Tab, KeyModifiers::NONE),
        b'\r' => key(KeyCode::Enter, KeyModifiers::NONE),
        0x01..=0x1a => control(byte - 1 + b'a'),
        0x1b => key(KeyCode::Esc, KeyModifiers::NONE),
        0x1c..=0x1f => control(byte - 0x1c + b'\\'),
        0x7f => key(KeyCode::Backspace, KeyModifiers::NONE),
        _ => character(char::from(byte)),
    }
}

pub(super) fn character(c: char) -> Event {
    let shift = if c.is_uppercase() {
        KeyModifiers::SHIFT
    } else {
        KeyModifiers::NONE
    };
    key(KeyCode::Char(c), shift)
}

/// Decodes `ESC O letter`: arrows and function keys, and the keypad in application mode.
pub(super) fn single_shift(letter: u8, modifiers: Option<u8>) -> Option<Event> {
    let modifiers = modifiers.map_or(KeyModifiers::NONE, |m| modifiers_of(u32::from(m)));
    let code = match letter {
        b'M' => KeyCode::Enter,
        b'I' => KeyCode::Tab,
        b' ' => KeyCode::Char(' '),
        b'X' => KeyCode::Char('='),
        b'j'..=b'y' => KeyCode::Char(char::from(letter - 0x40)),
        // rxvt: arrows with Ctrl.
        b'a'..=b'd' => return Some(key(arrow(letter)?, modifiers | KeyModifiers::CONTROL)),
        _ => letter_key(letter)?,
    };
    Some(key(code, modifiers))
}

/// Decodes `ESC [ parameters final`.
pub(super) fn control(parameters: &[u8], last: u8) -> Option<Event> {
    if let Some(mouse) = parameters.strip_prefix(b"<") {
        return mouse_parameters(&numbers(mouse)?, last);
    }
    let numbers = numbers(parameters)?;
    let first = numbers.first().map_or(0, |n| n[0]);
    let modifiers = numbers
        .get(1)
        .map_or(KeyModifiers::NONE, |n| modifiers_of(n[0]));
    if numbers.get(1).is_some_and(|n| n[1] == RELEASED) {
        return None;
    }
    let code = match last {
        b'~' if first == 27 && numbers.len() == 3 => {
            return character_code(numbers[2][0], None, modifiers);
        }
        b'~' => tilde(first)?,
        // rxvt: Shift, Ctrl, and both.
        b'$' => return Some(key(tilde(first)?, KeyModifiers::SHIFT)),
        b'^' => return Some(key(tilde(first)?, KeyModifiers::CONTROL)),
        b'@' => {
            let both = KeyModifiers::CONTROL | KeyModifiers::SHIFT;
            return Some(key(tilde(first)?, both));
        }
        b'u' => {
            let shifted = Some(numbers.first()?[1]).filter(|c| *c != 0);
            return character_code(first, shifted, modifiers);
        }
        b'Z' => return Some(key(KeyCode::BackTab, modifiers | KeyModifiers::SHIFT)),
        b'I' if parameters.is_empty() => return Some(Event::FocusGained),
        b'O' if parameters.is_empty() => return Some(Event::FocusLost),
        b'M' if numbers.len() == 3 => {
            let button = numbers[0][0].checked_sub(32)?;
            return mouse(button, numbers[1][0], numbers[2][0], false);
        }
        b'a'..=b'd' if parameters.is_empty() => {
            return Some(key(arrow(last)?, KeyModifiers::SHIFT));
        }
        // A first number other than 1 is an answer that was not requested.
        _ if first > 1 => return None,
        _ => letter_key(last)?,
    };
    Some(key(code, modifiers))
}

/// The kitty protocol's third kind of a key event.
const RELEASED: u32 = 3;

/// Parses parameters, each with its first two parts (`a:b;c:d`). `None`: this is not a list of
/// numbers, as in private replies.
fn numbers(parameters: &[u8]) -> Option<Vec<[u32; 2]>> {
    let parameters = std::str::from_utf8(parameters).ok()?;
    if parameters.is_empty() {
        return Some(Vec::new());
    }
    let number = |text: Option<&str>| match text {
        None | Some("") => Some(0),
        Some(text) => text.parse::<u32>().ok(),
    };
    parameters
        .split(';')
        .map(|p| {
            let mut parts = p.split(':');
            Some([number(parts.next())?, number(parts.next())?])
        })
        .collect()
}

/// Decodes modifiers. `parameter`: one more than the sum of Shift 1, Alt 2, Ctrl 4, Super 8, Hyper
/// 16, Meta 32.
fn modifiers_of(parameter: u32) -> KeyModifiers {
    let bits = parameter.saturating_sub(1);
    [
        (1, KeyModifiers::SHIFT),
        (2, KeyModifiers::ALT),
        (4, KeyModifiers::CONTROL),
        (8, KeyModifiers::SUPER),
        (16, KeyModifiers::HYPER),
        (32, KeyModifiers::META),
    ]
    .into_iter()
    .filter(|(bit, _)| bits & bit != 0)
    .fold(KeyModifiers::NONE, |all, (_, one)| all | one)
}

fn arrow(letter: u8) -> Option<KeyCode> {
    match letter.to_ascii_uppercase() {
        b'A' => Some(KeyCode::Up),
        b'B' => Some(KeyCode::Down),
        b'C' => Some(KeyCode::Right),
        b'D' => Some(KeyCode::Left),
        _ => None,
    }
}

/// Returns the keys that end in an individual letter.
fn letter_key(letter: u8) -> Option<KeyCode> {
    match letter {
        b'A'..=b'D' => arrow(letter),
        b'E' => Some(KeyCode::KeypadBegin),
        b'F' => Some(KeyCode::End),
        b'H' => Some(KeyCode::Home),
        b'P'..=b'S' => Some(KeyCode::F(letter - b'P' + 1)),
        _ => None,
    }
}

/// Returns the keys that end in a tilde, by number.
fn tilde(number: u32) -> Option<KeyCode> {
    let function = |base: u32| u8::try_from(number - base).ok().map(KeyCode::F);
    match number {
        1 | 7 => Some(KeyCode::Home),
        2 => Some(KeyCode::Insert),
        3 => Some(KeyCode::Delete),
        4 | 8 => Some(KeyCode::End),
        5 => Some(KeyCode::PageUp),
        6 => Some(KeyCode::PageDown),
        11..=15 => function(10),
        17..=21 => function(11),
        23..=26 => function(12),
        28..=29 => function(13),
        31..=34 => function(14),
        _ => None,
    }
}

/// Returns a key by its Unicode number or by the numbers that the kitty protocol takes from the
/// private use area.
fn character_code(code: u32, shifted: Option<u32>, modifiers: KeyModifiers) -> Option<Event> {
    let code = match code {
        8 | 127 => KeyCode::Backspace,
        9 if modifiers.contains(KeyModifiers::SHIFT) => KeyCode::BackTab,
        9 => KeyCode::Tab,
        13 | 57_414 => KeyCode::Enter,
        27 => KeyCode::Esc,
        57_376..=57_398 => KeyCode::F(u8::try_from(code - 57_376 + 13).ok()?),
        57_399..=57_408 => KeyCode::Char(char::from_digit(code - 57_399, 10)?),
        57_409 => KeyCode::Char('.'),
        57_410 => KeyCode::Char('/'),
        57_411 => KeyCode::Char('*'),
        57_412 => KeyCode::Char('-'),
        57_413 => KeyCode::Char('+'),
        57_415 => KeyCode::Char('='),
        57_416 => KeyCode::Char(','),
        57_417 => KeyCode::Left,
        57_418 => KeyCode::Right,
        57_419 => KeyCode::Up,
        57_420 => KeyCode::Down,
        57_421 => KeyCode::PageUp,
        57_422 => KeyCode::PageDown,
        57_423 => KeyCode::Home,
        57_424 => KeyCode::End,
        57_425 => KeyCode::Insert,
        57_426 => KeyCode::Delete,
        // Locks, media keys and the modifiers themselves.
        57_344..=63_743 => return None,
        _ => KeyCode::Char(shown(code, shifted, modifiers)?),
    };
    Some(key(code, modifiers))
}

/// Returns the character that a key gives, which with Shift is another one.
fn shown(code: u32, shifted: Option<u32>, modifiers: KeyModifiers) -> Option<char> {
    let c = char::from_u32(code).filter(|c| !c.is_control())?;
    if !modifiers.contains(KeyModifiers::SHIFT) {
        return Some(c);
    }
    let given = shifted.and_then(char::from_u32).filter(|c| !c.is_control());
    let mut upper = c.to_uppercase();
    let upper = upper.next().filter(|_| upper.next().is_none());
    given.or(upper).or(Some(c))
}

fn mouse_parameters(numbers: &[[u32; 2]], last: u8) -> Option<Event> {
    let [[button, _], [column, _], [row, _]] = numbers else {
        return None;
    };
    match last {
        b'M' => mouse(*button, *column, *row, false),
        b'm' => mouse(*button, *column, *row, true),
        _ => None,
    }
}

pub(super) fn mouse_bytes(button: u8, column: u8, row: u8) -> Option<Event> {
    let number = |byte: u8| byte.checked_sub(32).map(u32::from);
    mouse(number(button)?, number(column)?, number(row)?, false)
}

/// Decodes a mouse event. `button` is a set of bits: 0 to 1 the button, 2 to 4 Shift, Alt and Ctrl,
/// 5 motion, 6 the wheel. Columns and rows are counted from 1 on the wire, from 0 in an event.
fn mouse(button: u32, column: u32, row: u32, released: bool) -> Option<Event> {
    let which = match button & 3 {
        0 => Some(MouseButton::Left),
        1 => Some(MouseButton::Middle),
        2 => Some(MouseButton::Right),
        _ => None,
    };
    let wheel = button & 64 != 0;
    let moved = button & 32 != 0;
    let kind = match (wheel, moved, which) {
        _ if button >= 128 => return None,
        (true, _, Some(MouseButton::Left)) => MouseEventKind::ScrollUp,
        (true, _, Some(MouseButton::Middle)) => MouseEventKind::ScrollDown,
        (true, _, Some(MouseButton::Right)) => MouseEventKind::ScrollLeft,
        (true, _, None) => MouseEventKind::ScrollRight,
        (false, true, Some(which)) => MouseEventKind::Drag(which),
        (false, true, None) => MouseEventKind::Moved,
        (false, false, Some(which)) if released => MouseEventKind::Up(which),
        (false, false, Some(which)) => MouseEventKind::Down(which),
        (false, false, None) => MouseEventKind::Up(MouseButton::Left),
    };
    let modifiers = modifiers_of(((button >> 2) & 7) + 1);
    Some(Event::Mouse(MouseEvent {
        kind,
        column: u16::try_from(column.saturating_sub(1)).ok()?,
        row: u16::try_from(row.saturating_sub(1)).ok()?,
        modifiers,
    }))
}
