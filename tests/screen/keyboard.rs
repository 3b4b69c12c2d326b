//! Keys as they are written in a test: `hello<Enter>`, `<C-o>`, `<S-Up>`, `<lt>` for `<`.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Every key of `written`; what is no key fails the test.
#[track_caller]
pub fn keys(written: &str) -> Vec<KeyEvent> {
    let mut keys = Vec::new();
    let mut rest = written;
    while let Some(c) = rest.chars().next() {
        let (key, used) = match rest.strip_prefix('<').and_then(|r| r.split_once('>')) {
            Some((name, _)) => (named(name), name.len() + 2),
            None => (plain(KeyCode::Char(c)), c.len_utf8()),
        };
        keys.push(key);
        rest = &rest[used..];
    }
    keys
}

fn plain(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

#[track_caller]
fn named(name: &str) -> KeyEvent {
    let mut modifiers = KeyModifiers::NONE;
    let mut rest = name;
    for (sign, modifier) in [
        ("C-", KeyModifiers::CONTROL),
        ("A-", KeyModifiers::ALT),
        ("S-", KeyModifiers::SHIFT),
    ] {
        if let Some(after) = rest.strip_prefix(sign) {
            modifiers |= modifier;
            rest = after;
        }
    }
    let code = match rest {
        "Enter" => KeyCode::Enter,
        "Esc" => KeyCode::Esc,
        "Tab" if modifiers == KeyModifiers::SHIFT => KeyCode::BackTab,
        "Tab" => KeyCode::Tab,
        "Backspace" => KeyCode::Backspace,
        "Delete" => KeyCode::Delete,
        "Up" => KeyCode::Up,
        "Down" => KeyCode::Down,
        "Left" => KeyCode::Left,
        "Right" => KeyCode::Right,
        "Home" => KeyCode::Home,
        "End" => KeyCode::End,
        "PageUp" => KeyCode::PageUp,
        "PageDown" => KeyCode::PageDown,
        "lt" => KeyCode::Char('<'),
        _ => match (rest.strip_prefix('F').map(str::parse), rest.chars().next()) {
            (Some(Ok(n)), _) => KeyCode::F(n),
            (_, Some(c)) if rest.chars().count() == 1 => KeyCode::Char(c),
            _ => panic!("<{name}> is no key"),
        },
    };
    KeyEvent::new(code, modifiers)
}

#[test]
fn keys_are_read_as_they_are_written() {
    let typed = |c| plain(KeyCode::Char(c));
    assert_eq!(keys("a<b"), [typed('a'), typed('<'), typed('b')]);
    let held = KeyEvent::new(KeyCode::Char('o'), KeyModifiers::CONTROL);
    assert_eq!(
        keys("<C-o><Enter>é"),
        [held, plain(KeyCode::Enter), typed('é')]
    );
    let back = KeyEvent::new(KeyCode::BackTab, KeyModifiers::SHIFT);
    assert_eq!(keys("<S-Tab><F12>"), [back, plain(KeyCode::F(12))]);
}
