//! The key table: the effect of every key of the main screen. Keys are looked up in it and the help
//! sheet is printed from it, so neither can know a key that the other does not.
//!
//! Two keys in a row (`Ctrl+X h`, `Esc Esc`) are a binding too; [`Keys`] remembers the first.
//!
//! Invariant: in one context a key means one thing. Where contexts overlap the first of the
//! given ones wins. No clock is read: the time of a key is given.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Everything that a key can do in the main screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    // The conversation
    Submit,
    Newline,
    Interrupt,
    CycleMode,
    EditQueued,
    Rewind,
    CopyAnswer,
    // The view
    ToggleExpand,
    FoldThinking,
    SearchTranscript,
    ScrollUp,
    ScrollDown,
    PageUp,
    PageDown,
    ScrollTop,
    ScrollBottom,
    Redraw,
    // Panes and programs
    Help,
    History,
    Ps,
    /// Makes work that waits for a snapshot wait until its end.
    WaitForFiles,
    ExternalEditor,
    PasteImage,
    Suspend,
    Quit,
    AskQuit,
    // Typing
    Clear,
    SearchPrompts,
    Left,
    Right,
    Up,
    Down,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    Backspace,
    Delete,
    DeleteWord,
    DeleteNextWord,
    KillToEnd,
    KillToStart,
    Yank,
    Undo,
    Redo,
    // Lists that pop up while typing
    Next,
    Previous,
    Accept,
    Complete,
    Close,
    // The search in earlier prompts
    Older,
    Newer,
}

/// The condition of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    /// The search in earlier prompts is open.
    Searching,
    /// A list of completions is open.
    Popup,
    /// Nothing is typed and a message is queued.
    Queued,
    /// Nothing is typed and nothing is running.
    Idle,
    /// Nothing is typed.
    Empty,
    /// The main screen, whatever is typed.
    Main,
    /// The box is focused.
    Typing,
}

/// The headings of the help sheet, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Conversation,
    View,
    Panes,
    Typing,
    Lists,
}

impl Group {
    pub(crate) const ALL: [Group; 5] = [
        Group::Conversation,
        Group::View,
        Group::Panes,
        Group::Typing,
        Group::Lists,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Group::Conversation => "Conversation",
            Group::View => "View",
            Group::Panes => "Panes and programs",
            Group::Typing => "Typing",
            Group::Lists => "Lists and prompt search",
        }
    }
}

/// A key with its modifiers. Shift is left out where it is part of the character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Press {
    code: KeyCode,
    modifiers: KeyModifiers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chord {
    One(Press),
    Two(Press, Press),
}

pub(crate) struct Binding {
    pub keys: &'static [Chord],
    pub action: Action,
    pub context: Context,
    pub group: Group,
    pub help: &'static str,
}

const fn bind(
    context: Context,
    group: Group,
    action: Action,
    keys: &'static [Chord],
    help: &'static str,
) -> Binding {
    Binding {
        keys,
        action,
        context,
        group,
        help,
    }
}

const fn press(code: KeyCode, modifiers: KeyModifiers) -> Press {
    Press { code, modifiers }
}

const fn key(code: KeyCode) -> Chord {
    Chord::One(press(code, KeyModifiers::NONE))
}

const fn shift(code: KeyCode) -> Chord {
    Chord::One(press(code, KeyModifiers::SHIFT))
}

const fn alt(code: KeyCode) -> Chord {
    Chord::One(press(code, KeyModifiers::ALT))
}

const fn ctrl(code: KeyCode) -> Chord {
    Chord::One(press(code, KeyModifiers::CONTROL))
}

const fn ctrl_char(c: char) -> Chord {
    ctrl(KeyCode::Char(c))
}

const fn alt_char(c: char) -> Chord {
    alt(KeyCode::Char(c))
}

const fn char_key(c: char) -> Chord {
    key(KeyCode::Char(c))
}

/// Returns the chord of `Ctrl+X`, then a letter.
const fn after_x(c: char) -> Chord {
    Chord::Two(
        press(KeyCode::Char('x'), KeyModifiers::CONTROL),
        press(KeyCode::Char(c), KeyModifiers::NONE),
    )
}

const ESC_ESC: Chord = Chord::Two(
    press(KeyCode::Esc, KeyModifiers::NONE),
    press(KeyCode::Esc, KeyModifiers::NONE),
);

#[rustfmt::skip]
pub(crate) const BINDINGS: &[Binding] = {
    use Action::*;
    use Context::{Empty, Idle, Main, Popup, Queued, Searching, Typing as InBox};
    use Group::{Conversation, Lists, Panes, Typing, View};
    use KeyCode as K;
    &[
        bind(InBox, Conversation, Submit, &[key(K::Enter)], "send; while it works, queue"),
        bind(InBox, Conversation, Newline, &[shift(K::Enter), alt(K::Enter), ctrl_char('j'), ctrl(K::Enter)], "new line (also \\ and Enter)"),
        bind(Main, Conversation, Interrupt, &[key(K::Esc)], "stop"),
        bind(Main, Conversation, CycleMode, &[shift(K::BackTab)], "next permission mode"),
        bind(Queued, Conversation, EditQueued, &[key(K::Up)], "edit the queued message (nothing typed)"),
        bind(Idle, Conversation, Rewind, &[ESC_ESC], "rewind to before a message (nothing typed)"),
        bind(Main, Conversation, CopyAnswer, &[after_x('y')], "copy the last answer"),

        bind(Main, View, ToggleExpand, &[ctrl_char('o')], "unfold and fold"),
        bind(Main, View, FoldThinking, &[ctrl_char('t')], "show and hide thinking"),
        bind(Main, View, SearchTranscript, &[ctrl_char('f')], "search the conversation"),
        bind(Main, View, ScrollUp, &[shift(K::Up)], "scroll up"),
        bind(Main, View, ScrollDown, &[shift(K::Down)], "scroll down"),
        bind(Main, View, PageUp, &[key(K::PageUp)], "a page up"),
        bind(Main, View, PageDown, &[key(K::PageDown)], "a page down"),
        bind(Main, View, ScrollTop, &[ctrl(K::Home)], "to the beginning"),
        bind(Empty, View, ScrollTop, &[key(K::Home)], "to the beginning (nothing typed)"),
        bind(Main, View, ScrollBottom, &[ctrl(K::End)], "to the end"),
        bind(Empty, View, ScrollBottom, &[key(K::End)], "to the end (nothing typed)"),
        bind(Main, View, Redraw, &[ctrl_char('l')], "redraw the screen"),

        bind(Main, Panes, Help, &[key(K::F(1))], "this help"),
        bind(Empty, Panes, Help, &[char_key('?')], "this help (nothing typed)"),
        bind(Main, Panes, History, &[key(K::F(2)), after_x('h')], "history: every session"),
        bind(Main, Panes, Ps, &[after_x('p')], "background commands"),
        bind(Main, Panes, WaitForFiles, &[after_x('w')], "wait for the snapshot"),
        bind(Main, Panes, ExternalEditor, &[ctrl_char('g'), after_x('e')], "write in your editor"),
        bind(Main, Panes, Suspend, &[ctrl_char('z')], "to the shell; fg comes back"),
        bind(Empty, Panes, AskQuit, &[ctrl_char('c')], "twice: leave (nothing typed)"),
        bind(Empty, Panes, Quit, &[ctrl_char('d')], "leave (nothing typed)"),

        bind(InBox, Typing, Clear, &[ctrl_char('c')], "clear what is typed"),
        bind(Main, Typing, SearchPrompts, &[ctrl_char('r')], "search earlier prompts"),
        bind(InBox, Typing, Up, &[key(K::Up), ctrl_char('p')], "line up; at the first, the prompt before"),
        bind(InBox, Typing, Down, &[key(K::Down), ctrl_char('n')], "line down; at the last, the next prompt"),
        bind(InBox, Typing, Left, &[key(K::Left)], "left"),
        bind(InBox, Typing, Right, &[key(K::Right)], "right"),
        bind(InBox, Typing, WordLeft, &[alt_char('b'), ctrl(K::Left), alt(K::Left)], "word left"),
        bind(InBox, Typing, WordRight, &[alt_char('f'), ctrl(K::Right), alt(K::Right)], "word right"),
        bind(InBox, Typing, LineStart, &[ctrl_char('a'), key(K::Home)], "beginning of the line"),
        bind(InBox, Typing, LineEnd, &[ctrl_char('e'), key(K::End)], "end of the line"),
        bind(InBox, Typing, Backspace, &[key(K::Backspace), ctrl_char('h'), shift(K::Backspace)], "delete before"),
        bind(InBox, Typing, Delete, &[key(K::Delete), ctrl_char('d')], "delete forward"),
        bind(InBox, Typing, DeleteWord, &[ctrl_char('w'), alt(K::Backspace), ctrl(K::Backspace)], "delete the word before"),
        bind(InBox, Typing, DeleteNextWord, &[alt_char('d'), ctrl(K::Delete), alt(K::Delete)], "delete the next word"),
        bind(InBox, Typing, KillToEnd, &[ctrl_char('k')], "cut to the end of the line"),
        bind(InBox, Typing, KillToStart, &[ctrl_char('u')], "cut to the beginning of the line"),
        bind(InBox, Typing, Yank, &[ctrl_char('y')], "paste what was cut"),
        bind(Main, Typing, PasteImage, &[ctrl_char('v')], "paste an image"),
        bind(InBox, Typing, Undo, &[ctrl_char('_'), ctrl_char('/'), after_x('u')], "undo"),
        bind(InBox, Typing, Redo, &[alt_char('_'), alt_char('/'), after_x('r')], "redo"),

        bind(Popup, Lists, Next, &[key(K::Down), ctrl_char('n')], "next"),
        bind(Popup, Lists, Previous, &[key(K::Up), ctrl_char('p')], "previous"),
        bind(Popup, Lists, Accept, &[key(K::Enter)], "take it; a command is run"),
        bind(Popup, Lists, Complete, &[key(K::Tab)], "take it"),
        bind(Popup, Lists, Close, &[key(K::Esc)], "close"),
        bind(Searching, Lists, Older, &[ctrl_char('r'), key(K::Up)], "older prompt that matches"),
        bind(Searching, Lists, Newer, &[ctrl_char('s'), key(K::Down)], "newer prompt that matches"),
        bind(Searching, Lists, Accept, &[key(K::Enter), key(K::Tab)], "take it to edit"),
        bind(Searching, Lists, Close, &[key(K::Esc), ctrl_char('c'), ctrl_char('g')], "back to what was typed"),
        bind(Searching, Lists, Backspace, &[key(K::Backspace), ctrl_char('h')], "delete before"),
    ]
};

/// Maximum time between two presses of the same key (`Esc Esc`).
pub(crate) const DOUBLE_WAIT: Duration = Duration::from_millis(500);

/// A first key that does nothing by itself (`Ctrl+X`) is forgotten after this time.
pub(crate) const PREFIX_WAIT: Duration = Duration::from_secs(3);

/// The meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pressed {
    Act(Action),
    /// A character to type.
    Type(char),
    /// The first of two keys.
    Prefix,
    Unbound,
}

/// The look-up, with the memory of a first key.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    first: Option<(Press, Instant)>,
}

impl Keys {
    /// Looks up a key. `contexts` are those that apply now, the strongest first.
    pub(crate) fn press(
        &mut self,
        event: &KeyEvent,
        now: Instant,
        contexts: &[Context],
    ) -> Pressed {
        let press = normal(event);
        if let Some((first, at)) = self.first.take() {
            let limit = if first == press {
                DOUBLE_WAIT
            } else {
                PREFIX_WAIT
            };
            if now.saturating_duration_since(at) <= limit {
                if let Some(action) = bound(Chord::Two(first, press), contexts) {
                    return Pressed::Act(action);
                }
                if bound(Chord::One(first), contexts).is_none() {
                    return Pressed::Unbound;
                }
            }
        }
        if begins(press, contexts) {
            self.first = Some((press, now));
        }
        match (bound(Chord::One(press), contexts), event.code) {
            (Some(action), _) => Pressed::Act(action),
            (None, _) if self.first.is_some() => Pressed::Prefix,
            (None, KeyCode::Char(c)) if (event.modifiers - KeyModifiers::SHIFT).is_empty() => {
                Pressed::Type(c)
            }
            (None, _) => Pressed::Unbound,
        }
    }
}

/// Terminals differ in whether a letter with Ctrl is large, and whether Shift is named
/// beside a large letter.
fn normal(event: &KeyEvent) -> Press {
    let mut modifiers = event.modifiers;
    let code = match event.code {
        KeyCode::Char(c) => {
            modifiers -= KeyModifiers::SHIFT;
            let lower = modifiers.contains(KeyModifiers::CONTROL) && c.is_ascii();
            KeyCode::Char(if lower { c.to_ascii_lowercase() } else { c })
        }
        KeyCode::BackTab => {
            modifiers |= KeyModifiers::SHIFT;
            KeyCode::BackTab
        }
        other => other,
    };
    Press { code, modifiers }
}

fn bound(chord: Chord, contexts: &[Context]) -> Option<Action> {
    contexts.iter().find_map(|context| {
        BINDINGS
            .iter()
            .find(|b| b.context == *context && b.keys.contains(&chord))
            .map(|b| b.action)
    })
}

fn begins(press: Press, contexts: &[Context]) -> bool {
    let in_force = BINDINGS.iter().filter(|b| contexts.contains(&b.context));
    in_force
        .flat_map(|b| b.keys)
        .any(|chord| matches!(chord, Chord::Two(first, _) if *first == press))
}

/// A line of the help sheet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HelpLine {
    pub group: Group,
    /// `F2, Ctrl+X h`
    pub keys: String,
    pub text: &'static str,
}

/// Returns the whole help sheet, group by group.
pub(crate) fn help() -> Vec<HelpLine> {
    let of = |group: Group| BINDINGS.iter().filter(move |b| b.group == group);
    let line = |b: &Binding| {
        let keys: Vec<String> = b.keys.iter().map(Chord::spelled).collect();
        HelpLine {
            group: b.group,
            keys: keys.join(", "),
            text: b.help,
        }
    };
    Group::ALL.into_iter().flat_map(of).map(line).collect()
}

impl Chord {
    fn spelled(&self) -> String {
        match self {
            Chord::One(press) => press.spelled(),
            Chord::Two(first, second) => format!("{} {}", first.spelled(), second.spelled()),
        }
    }
}

impl Press {
    fn spelled(&self) -> String {
        let mut text = String::new();
        for (modifier, name) in [
            (KeyModifiers::CONTROL, "Ctrl+"),
            (KeyModifiers::ALT, "Alt+"),
            (KeyModifiers::SHIFT, "Shift+"),
        ] {
            if self.modifiers.contains(modifier) {
                text.push_str(name);
            }
        }
        match self.code {
            KeyCode::Char(c) if self.modifiers.is_empty() => text.push(c),
            KeyCode::Char(c) => text.extend(c.to_uppercase()),
            KeyCode::BackTab => text.push_str("Tab"),
            KeyCode::Up => text.push('↑'),
            KeyCode::Down => text.push('↓'),
            KeyCode::Left => text.push('←'),
            KeyCode::Right => text.push('→'),
            code => text.push_str(&code.to_string()),
        }
        text
    }
}

#[cfg(test)]
mod tests;
