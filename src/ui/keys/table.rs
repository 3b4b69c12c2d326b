//! The table of keys: the effect of each, its keys where the config names no others, and its help.

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
    pub code: KeyCode,
    pub modifiers: KeyModifiers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chord {
    One(Press),
    Two(Press, Press),
}

pub(crate) struct Binding {
    /// The name in `[keys]` of the config.
    pub name: &'static str,
    pub keys: &'static [Chord],
    pub action: Action,
    pub context: Context,
    pub group: Group,
    pub help: &'static str,
}

const fn bind(
    name: &'static str,
    context: Context,
    group: Group,
    action: Action,
    keys: &'static [Chord],
    help: &'static str,
) -> Binding {
    Binding {
        name,
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
        bind("submit", InBox, Conversation, Submit, &[key(K::Enter)], "send; while it works, queue"),
        bind("newline", InBox, Conversation, Newline, &[shift(K::Enter), alt(K::Enter), ctrl_char('j'), ctrl(K::Enter)], "new line (or \\ and Enter)"),
        bind("stop", Main, Conversation, Interrupt, &[key(K::Esc)], "stop"),
        bind("next_mode", Main, Conversation, CycleMode, &[shift(K::BackTab)], "next permission mode"),
        bind("edit_queued", Queued, Conversation, EditQueued, &[key(K::Up)], "edit the queued message (nothing typed)"),
        bind("rewind", Idle, Conversation, Rewind, &[ESC_ESC], "rewind to before a message (nothing typed)"),
        bind("copy_answer", Main, Conversation, CopyAnswer, &[after_x('y')], "copy the last answer"),

        bind("expand", Main, View, ToggleExpand, &[ctrl_char('o')], "unfold and fold"),
        bind("fold_thinking", Main, View, FoldThinking, &[ctrl_char('t')], "show and hide thinking"),
        bind("search", Main, View, SearchTranscript, &[ctrl_char('f')], "search the conversation"),
        bind("scroll_up", Main, View, ScrollUp, &[shift(K::Up)], "scroll up"),
        bind("scroll_down", Main, View, ScrollDown, &[shift(K::Down)], "scroll down"),
        bind("page_up", Main, View, PageUp, &[key(K::PageUp)], "a page up"),
        bind("page_down", Main, View, PageDown, &[key(K::PageDown)], "a page down"),
        bind("scroll_top", Main, View, ScrollTop, &[ctrl(K::Home)], "to the beginning"),
        bind("scroll_top_empty", Empty, View, ScrollTop, &[key(K::Home)], "to the beginning (nothing typed)"),
        bind("scroll_bottom", Main, View, ScrollBottom, &[ctrl(K::End)], "to the end"),
        bind("scroll_bottom_empty", Empty, View, ScrollBottom, &[key(K::End)], "to the end (nothing typed)"),
        bind("redraw", Main, View, Redraw, &[ctrl_char('l')], "redraw the screen"),

        bind("help", Main, Panes, Help, &[key(K::F(1))], "this help"),
        bind("help_empty", Empty, Panes, Help, &[char_key('?')], "this help (nothing typed)"),
        bind("history", Main, Panes, History, &[key(K::F(2)), after_x('h')], "history: every session"),
        bind("background_commands", Main, Panes, Ps, &[after_x('p')], "background commands"),
        bind("wait_for_snapshot", Main, Panes, WaitForFiles, &[after_x('w')], "wait for the snapshot"),
        bind("editor", Main, Panes, ExternalEditor, &[ctrl_char('g'), after_x('e')], "write in your editor"),
        bind("suspend", Main, Panes, Suspend, &[ctrl_char('z')], "to the shell; fg returns"),
        bind("quit_twice", Empty, Panes, AskQuit, &[ctrl_char('c')], "twice: leave (nothing typed)"),
        bind("quit", Empty, Panes, Quit, &[ctrl_char('d')], "leave (nothing typed)"),

        bind("clear", InBox, Typing, Clear, &[ctrl_char('c')], "clear what is typed"),
        bind("search_prompts", Main, Typing, SearchPrompts, &[ctrl_char('r')], "search earlier prompts"),
        bind("up", InBox, Typing, Up, &[key(K::Up), ctrl_char('p')], "line up; at the first, the prompt before"),
        bind("down", InBox, Typing, Down, &[key(K::Down), ctrl_char('n')], "line down; at the last, the next prompt"),
        bind("left", InBox, Typing, Left, &[key(K::Left)], "left"),
        bind("right", InBox, Typing, Right, &[key(K::Right)], "right"),
        bind("word_left", InBox, Typing, WordLeft, &[alt_char('b'), ctrl(K::Left), alt(K::Left)], "word left"),
        bind("word_right", InBox, Typing, WordRight, &[alt_char('f'), ctrl(K::Right), alt(K::Right)], "word right"),
        bind("line_start", InBox, Typing, LineStart, &[ctrl_char('a'), key(K::Home)], "beginning of the line"),
        bind("line_end", InBox, Typing, LineEnd, &[ctrl_char('e'), key(K::End)], "end of the line"),
        bind("backspace", InBox, Typing, Backspace, &[key(K::Backspace), ctrl_char('h'), shift(K::Backspace)], "delete before"),
        bind("delete", InBox, Typing, Delete, &[key(K::Delete), ctrl_char('d')], "delete forward"),
        bind("delete_word", InBox, Typing, DeleteWord, &[ctrl_char('w'), alt(K::Backspace), ctrl(K::Backspace)], "delete the word before"),
        bind("delete_next_word", InBox, Typing, DeleteNextWord, &[alt_char('d'), ctrl(K::Delete), alt(K::Delete)], "delete the next word"),
        bind("cut_to_end", InBox, Typing, KillToEnd, &[ctrl_char('k')], "cut to the end of the line"),
        bind("cut_to_start", InBox, Typing, KillToStart, &[ctrl_char('u')], "cut to the beginning of the line"),
        bind("paste_cut", InBox, Typing, Yank, &[ctrl_char('y')], "paste what was cut"),
        bind("paste_image", Main, Typing, PasteImage, &[ctrl_char('v')], "paste an image"),
        bind("undo", InBox, Typing, Undo, &[ctrl_char('_'), ctrl_char('/'), after_x('u')], "undo"),
        bind("redo", InBox, Typing, Redo, &[alt_char('_'), alt_char('/'), after_x('r')], "redo"),

        bind("list_next", Popup, Lists, Next, &[key(K::Down), ctrl_char('n')], "next"),
        bind("list_previous", Popup, Lists, Previous, &[key(K::Up), ctrl_char('p')], "previous"),
        bind("list_accept", Popup, Lists, Accept, &[key(K::Enter)], "take it; a command is run"),
        bind("list_complete", Popup, Lists, Complete, &[key(K::Tab)], "take it"),
        bind("list_close", Popup, Lists, Close, &[key(K::Esc)], "close"),
        bind("prompts_older", Searching, Lists, Older, &[ctrl_char('r'), key(K::Up)], "older prompt that matches"),
        bind("prompts_newer", Searching, Lists, Newer, &[ctrl_char('s'), key(K::Down)], "newer prompt that matches"),
        bind("prompts_accept", Searching, Lists, Accept, &[key(K::Enter), key(K::Tab)], "take it to edit"),
        bind("prompts_close", Searching, Lists, Close, &[key(K::Esc), ctrl_char('c'), ctrl_char('g')], "back to what was typed"),
        bind("prompts_backspace", Searching, Lists, Backspace, &[key(K::Backspace), ctrl_char('h')], "delete before"),
    ]
};

/// Terminals differ in whether a letter with Ctrl is large, and whether Shift is named
/// beside a large letter.
pub(super) fn normal(event: &KeyEvent) -> Press {
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

impl Chord {
    pub(super) fn spelled(&self) -> String {
        match self {
            Chord::One(press) => press.spelled(),
            Chord::Two(first, second) => format!("{} {}", first.spelled(), second.spelled()),
        }
    }
}

impl Press {
    pub(super) fn spelled(&self) -> String {
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
