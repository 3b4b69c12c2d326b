//! The table holds together, and keys of every terminal find their way in it.

use std::collections::BTreeMap;

use crossterm::event::{KeyCode, KeyModifiers};

use super::table::{BINDINGS, Binding};
use super::*;

const EMPTY: &[Context] = &[
    Context::Idle,
    Context::Empty,
    Context::Main,
    Context::Typing,
];
const TYPED: &[Context] = &[Context::Main, Context::Typing];

fn event(code: KeyCode, modifiers: KeyModifiers) -> KeyEvent {
    KeyEvent::new(code, modifiers)
}

fn one(code: KeyCode, modifiers: KeyModifiers, contexts: &[Context]) -> Pressed {
    Keys::default().press(&event(code, modifiers), Instant::now(), contexts)
}

fn chords() -> impl Iterator<Item = (&'static Binding, Chord)> {
    BINDINGS
        .iter()
        .flat_map(|b| b.keys.iter().map(move |keys| (b, *keys)))
}

#[test]
fn no_two_bindings_of_a_context_clash() {
    let all: Vec<_> = chords().collect();
    for (i, (a, chord)) in all.iter().enumerate() {
        for (b, other) in &all[i + 1..] {
            let same = chord == other
                || matches!((chord, other), (Chord::One(x), Chord::Two(y, _)) | (Chord::Two(y, _), Chord::One(x)) if x == y);
            assert!(
                a.context != b.context || !same,
                "{} is {:?} and {:?} in {:?}",
                chord.spelled(),
                a.action,
                b.action,
                a.context
            );
        }
    }
}

/// The list and a match that does not compile when an action is missing in it.
macro_rules! all_actions {
    ($($action:ident)*) => {
        const ALL: &[Action] = &[$(Action::$action),*];
        const fn _known(action: Action) {
            match action { $(Action::$action => {})* }
        }
    };
}

#[rustfmt::skip]
all_actions! {
    Submit Newline Interrupt CycleMode EditQueued Rewind CopyAnswer ToggleExpand FoldThinking
    SearchTranscript ScrollUp ScrollDown PageUp PageDown ScrollTop ScrollBottom Redraw Help
    History Ps WaitForFiles ExternalEditor PasteImage Suspend Quit AskQuit Clear SearchPrompts Left Right Up Down
    WordLeft WordRight LineStart LineEnd Backspace Delete DeleteWord DeleteNextWord KillToEnd
    KillToStart Yank Undo Redo Next Previous Accept Complete Close Older Newer
}

#[test]
fn every_action_has_keys_and_help() {
    for action in ALL {
        let bindings: Vec<_> = BINDINGS.iter().filter(|b| b.action == *action).collect();
        assert!(!bindings.is_empty(), "{action:?}");
        assert!(
            bindings
                .iter()
                .all(|b| !b.keys.is_empty() && !b.help.is_empty())
        );
    }
    assert_eq!(help(&Keymap::default()).len(), BINDINGS.len());
}

#[test]
fn keys_find_their_action() {
    use Action::*;
    use KeyCode as K;
    const NONE: KeyModifiers = KeyModifiers::NONE;
    const CTRL: KeyModifiers = KeyModifiers::CONTROL;
    const SHIFT: KeyModifiers = KeyModifiers::SHIFT;
    const ALT: KeyModifiers = KeyModifiers::ALT;
    for (code, modifiers, contexts, want) in [
        (K::Enter, NONE, TYPED, Pressed::Act(Submit)),
        (K::Enter, SHIFT, TYPED, Pressed::Act(Newline)),
        (K::Enter, ALT, TYPED, Pressed::Act(Newline)),
        (K::Char('j'), CTRL, TYPED, Pressed::Act(Newline)),
        (K::Char('A'), CTRL, TYPED, Pressed::Act(LineStart)),
        (K::Char('A'), CTRL | SHIFT, TYPED, Pressed::Act(LineStart)),
        (K::BackTab, NONE, TYPED, Pressed::Act(CycleMode)),
        (K::BackTab, SHIFT, EMPTY, Pressed::Act(CycleMode)),
        (K::Char('?'), SHIFT, EMPTY, Pressed::Act(Help)),
        (K::Char('?'), SHIFT, TYPED, Pressed::Type('?')),
        (K::Char('A'), SHIFT, TYPED, Pressed::Type('A')),
        (K::Char('@'), CTRL | ALT, TYPED, Pressed::Unbound),
        (K::Char('c'), CTRL, EMPTY, Pressed::Act(AskQuit)),
        (K::Char('c'), CTRL, TYPED, Pressed::Act(Clear)),
        (K::Char('d'), CTRL, EMPTY, Pressed::Act(Quit)),
        (K::Char('d'), CTRL, TYPED, Pressed::Act(Delete)),
        (
            K::Up,
            NONE,
            &[Context::Queued, Context::Typing],
            Pressed::Act(EditQueued),
        ),
        (
            K::Up,
            NONE,
            &[Context::Popup, Context::Typing],
            Pressed::Act(Previous),
        ),
        (K::Esc, NONE, EMPTY, Pressed::Act(Interrupt)),
        (K::Char('q'), CTRL, TYPED, Pressed::Unbound),
        (K::F(9), NONE, TYPED, Pressed::Unbound),
    ] {
        assert_eq!(
            one(code, modifiers, contexts),
            want,
            "{code:?} {modifiers:?}"
        );
    }
}

#[test]
fn two_keys_are_one_binding() {
    let now = Instant::now();
    let x = event(KeyCode::Char('x'), KeyModifiers::CONTROL);
    let esc = event(KeyCode::Esc, KeyModifiers::NONE);
    let letter = |c| event(KeyCode::Char(c), KeyModifiers::NONE);
    let mut keys = Keys::default();

    assert_eq!(keys.press(&x, now, TYPED), Pressed::Prefix);
    assert_eq!(
        keys.press(&letter('h'), now, TYPED),
        Pressed::Act(Action::History)
    );
    assert_eq!(keys.press(&letter('h'), now, TYPED), Pressed::Type('h'));

    // An unbound key after the first one types nothing; much later it is a letter again.
    keys.press(&x, now, TYPED);
    assert_eq!(keys.press(&letter('q'), now, TYPED), Pressed::Unbound);
    keys.press(&x, now, TYPED);
    assert_eq!(
        keys.press(&letter('q'), now + 2 * PREFIX_WAIT, TYPED),
        Pressed::Type('q')
    );

    let interrupt = Pressed::Act(Action::Interrupt);
    assert_eq!(keys.press(&esc, now, EMPTY), interrupt);
    assert_eq!(
        keys.press(&esc, now + DOUBLE_WAIT, EMPTY),
        Pressed::Act(Action::Rewind)
    );
    assert_eq!(keys.press(&esc, now + DOUBLE_WAIT, EMPTY), interrupt);
    assert_eq!(keys.press(&esc, now + 3 * DOUBLE_WAIT, EMPTY), interrupt);

    // The first one interrupted; the second is not half of a pair.
    let mut keys = Keys::default();
    assert_eq!(
        keys.press(&esc, now, &[Context::Empty, Context::Main]),
        interrupt
    );
    assert_eq!(keys.press(&esc, now, EMPTY), interrupt);
    // Another key between.
    keys.press(&letter('a'), now, EMPTY);
    assert_eq!(keys.press(&esc, now, EMPTY), interrupt);
}

#[test]
fn the_help_sheet_spells_the_keys() {
    let keys_of = |text: &str| {
        let line = help(&Keymap::default())
            .into_iter()
            .find(|l| l.text == text);
        line.map(|l| l.keys).unwrap_or_default()
    };
    assert_eq!(keys_of("history: every session"), "F2, Ctrl+X h");
    assert_eq!(keys_of("next permission mode"), "Shift+Tab");
    assert_eq!(
        keys_of("rewind to before a message (nothing typed)"),
        "Esc Esc"
    );
    assert_eq!(keys_of("scroll up"), "Shift+↑");
}

/// Returns the keys of a config, and what is wrong in it.
fn configured(text: &str) -> (Keymap, Vec<String>) {
    let config: BTreeMap<String, toml::Value> = toml::from_str(text).unwrap();
    let (map, faults) = Keymap::checked(&config);
    (map, faults.into_iter().map(|fault| fault.why).collect())
}

#[test]
fn the_config_gives_other_keys() {
    let (map, faults) = configured(
        "expand = \"Ctrl+E\"\nline_end = [\"End\", \"alt+e\"]\nredraw = []\nquit = \"q\"\n\
         next_mode = \"F5\"\nup = \"Ctrl+X Up\"\nclear = \"Shift+Tab\"",
    );
    assert_eq!(faults, [""; 0]);
    assert_eq!(map.hint(Action::ToggleExpand, "unfolds"), "Ctrl+E unfolds");
    assert_eq!(map.hint(Action::Redraw, "redraws"), "");
    let mut keys = Keys {
        map,
        ..Keys::default()
    };
    let now = Instant::now();
    const CTRL: KeyModifiers = KeyModifiers::CONTROL;
    for (code, modifiers, want) in [
        (KeyCode::Char('e'), CTRL, Pressed::Act(Action::ToggleExpand)),
        (KeyCode::Char('o'), CTRL, Pressed::Unbound),
        (
            KeyCode::Char('e'),
            KeyModifiers::ALT,
            Pressed::Act(Action::LineEnd),
        ),
        (KeyCode::Char('l'), CTRL, Pressed::Unbound),
        (KeyCode::Char('q'), KeyModifiers::NONE, Pressed::Type('q')),
        (
            KeyCode::F(5),
            KeyModifiers::NONE,
            Pressed::Act(Action::CycleMode),
        ),
        (
            KeyCode::BackTab,
            KeyModifiers::NONE,
            Pressed::Act(Action::Clear),
        ),
        (KeyCode::Char('x'), CTRL, Pressed::Prefix),
        (KeyCode::Up, KeyModifiers::NONE, Pressed::Act(Action::Up)),
    ] {
        let pressed = keys.press(&event(code, modifiers), now, TYPED);
        assert_eq!(pressed, want, "{code:?}");
    }
    let shown = help(&keys.map);
    let line = |text: &str| shown.iter().find(|line| line.text == text);
    assert_eq!(line("unfold and fold").unwrap().keys, "Ctrl+E");
    assert_eq!(line("redraw the screen"), None);
}

#[test]
fn a_wrong_key_is_a_fault_and_the_usual_ones_apply() {
    for (text, want) in [
        (
            "expnd = \"F3\"",
            "keys.expnd: unknown action; did you mean expand?",
        ),
        (
            "expand = \"Hyper+O\"",
            "keys.expand: unknown key \"Hyper+O\"; its usual keys apply",
        ),
        (
            "expand = \"Ctrl+\"",
            "keys.expand: unknown key \"Ctrl+\"; its usual keys apply",
        ),
        (
            "expand = 3",
            "keys.expand: must be a key or a list of keys; its usual keys apply",
        ),
        (
            "expand = \"o\"",
            "keys.expand: o would no longer be text; its usual keys apply",
        ),
        (
            "next_mode = \"m\"",
            "keys.next_mode: m would no longer be text; its usual keys apply",
        ),
        (
            "submit = \"Space\"",
            "keys.submit: Space would no longer be text; its usual keys apply",
        ),
        (
            "copy_answer = \"y y\"",
            "keys.copy_answer: y y would no longer be text; its usual keys apply",
        ),
        (
            "expand = \"Ctrl+T\"",
            "keys.expand: Ctrl+T is the key of fold_thinking; its usual keys apply",
        ),
        // Both always apply.
        (
            "expand = \"Ctrl+A\"",
            "keys.expand: Ctrl+A is the key of line_start; its usual keys apply",
        ),
        (
            "expand = \"Ctrl+X\"",
            "keys.expand: Ctrl+X is the key of copy_answer; its usual keys apply",
        ),
    ] {
        let (map, faults) = configured(text);
        assert_eq!(faults, [want]);
        assert_eq!(map.key(Action::ToggleExpand), "Ctrl+O");
        assert_eq!(map.key(Action::CycleMode), "Shift+Tab");
    }
    let (map, faults) = configured("expand = \"F9\"\nredraw = \"F9\"");
    assert_eq!(
        faults,
        ["keys.redraw: F9 is the key of expand; its usual keys apply"]
    );
    assert_eq!(map.key(Action::ToggleExpand), "F9");
    // Two that change places are no clash.
    let (_, faults) = configured("expand = \"Ctrl+T\"\nfold_thinking = \"Ctrl+O\"");
    assert_eq!(faults, [""; 0]);
    let whole = crate::config::KeysConfig::from(toml::Value::Integer(3));
    let (_, faults) = Keymap::checked(&whole.0);
    assert_eq!(faults[0].why, "keys must be a table");
}

#[test]
fn every_key_of_the_table_can_be_written_and_the_documents_name_it() {
    let example = include_str!("../../../config.example.toml");
    let manual = include_str!("../../../docs/screen.md");
    let start = example.find("\n[keys]\n").unwrap();
    let listed: String = example[start..]
        .lines()
        .skip_while(|line| !line.starts_with("# "))
        .take_while(|line| line.starts_with("# "))
        .map(|line| format!("{}\n", &line[2..]))
        .collect();
    let (map, faults) = configured(&listed);
    assert_eq!(faults, [""; 0]);
    let config: BTreeMap<String, toml::Value> = toml::from_str(&listed).unwrap();
    assert_eq!(config.len(), BINDINGS.len());
    for (binding, keys) in map.rows() {
        assert_eq!(keys, binding.keys, "{}", binding.name);
        assert!(
            manual.contains(&format!("`{}`", binding.name)),
            "{}",
            binding.name
        );
    }
}
