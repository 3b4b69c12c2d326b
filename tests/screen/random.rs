//! Any keys over any log at any size: nothing panics, and no control character is drawn.

use proptest::collection::vec;
use proptest::prelude::*;
use rewake::config::Scrollback;
use rewake::core::entry::Mode;
use rewake::engine::Event;
use serde_json::json;

use crate::log::{bash, call, edit, entry, text, thinking};
use crate::looks::is_harmless;
use crate::stage::{Stage, queued};

#[derive(Debug, Clone)]
enum Happens {
    Said(String),
    Answered(String),
    Streamed(String),
    Ran(String, i32),
    Edited(String),
    Asked,
    Stopped,
    Resumed,
    Closed,
    Mode,
    Queued,
    Keys(String),
    Pasted(String),
    Resized(u16, u16),
    Waited(i64),
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z \n]{0,80}",
        "\\PC{0,60}",
        any::<String>(),
        Just("漢字👩‍👩‍👧\u{1b}[31mשלום\t\r\u{7}\u{202e}".to_string()),
        Just("```rust\nfn main() {}\n\n| a | b |\n|--|--|\n| 1 | 2".to_string()),
        "x{300,400}",
    ]
}

fn keys() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        "[a-z/@!? ]".prop_map(|c| c),
        prop::sample::select(vec![
            "<Enter>",
            "<Esc>",
            "<Esc><Esc>",
            "<Tab>",
            "<S-Tab>",
            "<Up>",
            "<Down>",
            "<Left>",
            "<Right>",
            "<PageUp>",
            "<PageDown>",
            "<Home>",
            "<End>",
            "<C-Home>",
            "<C-End>",
            "<F1>",
            "<F2>",
            "<C-o>",
            "<C-t>",
            "<C-f>",
            "<C-r>",
            "<C-c>",
            "<C-x>",
            "<C-j>",
            "<C-k>",
            "<C-u>",
            "<C-w>",
            "<C-y>",
            "<C-_>",
            "<Backspace>",
            "<Delete>",
            "<S-Up>",
            "/plan<Enter>",
            "/context<Enter>",
            "/help<Enter>",
            "/rewind<Enter>",
            "<C-a>",
            "<C-e>",
        ])
        .prop_map(String::from),
    ];
    vec(key, 1..12).prop_map(|keys| keys.concat())
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        3 => words().prop_map(Happens::Said),
        3 => words().prop_map(Happens::Answered),
        2 => words().prop_map(Happens::Streamed),
        2 => (words(), 0..3).prop_map(|(w, n)| Happens::Ran(w, n)),
        1 => words().prop_map(Happens::Edited),
        1 => Just(Happens::Asked),
        1 => Just(Happens::Stopped),
        1 => Just(Happens::Resumed),
        1 => Just(Happens::Closed),
        1 => Just(Happens::Mode),
        1 => Just(Happens::Queued),
        8 => keys().prop_map(Happens::Keys),
        1 => words().prop_map(Happens::Pasted),
        2 => (1u16..=200, 1u16..=60).prop_map(|(w, h)| Happens::Resized(w, h)),
        1 => (0i64..100_000).prop_map(Happens::Waited),
    ]
}

/// What cannot happen now does not.
fn happen(stage: &mut Stage, what: &Happens) {
    let open = stage.log.state.first_open().is_some();
    let owed = stage.log.state.owed && stage.log.state.halted.is_none();
    match what {
        Happens::Keys(keys) => stage.keys(keys),
        Happens::Pasted(words) => stage.pastes(words),
        Happens::Resized(width, height) => stage.resize(*width, *height),
        Happens::Waited(ms) => stage.waits(*ms),
        Happens::Streamed(words) => stage.streams(words),
        Happens::Queued => {
            stage.engine_event(Event::Requeued(queued(&["one", "two", "three", "four"])))
        }
        Happens::Resumed => stage.log(entry::resumed("resumed", Some("half"))),
        Happens::Mode => stage.log(entry::chose(Mode::Plan)),
        _ if open => {}
        Happens::Said(words) => stage.says(words),
        Happens::Closed | Happens::Stopped if !owed => stage.rest(),
        Happens::Stopped => stage.log(entry::stopped("half")),
        _ if !owed => {}
        Happens::Answered(words) => drop(stage.replies(vec![thinking(words), text(words)])),
        Happens::Ran(words, code) => stage.runs(bash(words), *code, words),
        Happens::Edited(words) => {
            let id = stage.replies(vec![edit("a.rs", words, "new"), call("plan", json!({}))])[0];
            stage.log(entry::denied(id, words));
            let second = rewake::core::entry::CallId { index: 1, ..id };
            stage.log(entry::denied(second, words));
        }
        Happens::Asked => {
            let id = stage.replies(vec![bash("make\nall")])[0];
            stage.asks(id, "why", Some("Bash(make:*)"));
        }
        Happens::Closed => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_and_nothing_is_obeyed(
        size in (1u16..=200, 1u16..=60),
        all in vec(happens(), 1..24),
    ) {
        let mut stage = Stage::opened(size.0, size.1);
        for what in &all {
            happen(&mut stage, what);
            is_harmless(&mut stage);
        }
        let _ = {
            let mut layout = stage.app.look.layout(stage.app.now_ms);
            let all = Scrollback::Conversation;
            stage.app.conversation.printed(all, 0, &mut layout)
        };
    }
}
