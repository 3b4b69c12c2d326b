//! The conversation: words, thinking, and what happened to the session itself.

use rewake::core::entry::{Fact, Failure, FailureClass, Mode, Outcome, StepState};
use rewake::engine::Event;
use rewake::model::Delta;
use serde_json::json;

use crate::log::{bash, call, edit, entry, steps, text, thinking};
use crate::stage::{Stage, scene};

const ANSWER: &str = "\
# What was wrong

The loop ended **one token early**, see `src/parser.rs`:

```rust
fn next(&mut self) -> Option<Token> {
    // the last one too
    self.tokens.get(self.at).copied()
}
```

1. read the tests
2. mend the loop
   - and its *bound*

| case | before | after |
|------|--------|-------|
| empty | ok | ok |
| one | lost | ok |

> It was so since the first version.

More at <https://example.org/parser>.";

#[test]
fn a_pasted_log_stays_folded_after_it_is_sent() {
    let mut stage = Stage::opened(80, 40);
    let log: String = (1..=200).map(|n| format!("printed {n}\n")).collect();
    stage.says(&format!("why does this fail?\n{log}and when?"));
    stage.sees("why does this fail?");
    stage.sees("printed 4");
    stage.sees("… 194 more lines (Ctrl+O)");
    stage.sees("and when?");
    stage.does_not_see("printed 5");
    stage.keys("<C-o>");
    stage.sees("printed 180");
    stage.does_not_see("more lines (Ctrl+O)");
    stage.keys("<C-o><C-f>printed 77");
    stage.sees("printed 77");
}

#[test]
fn an_answer_is_shown_as_it_is_meant() {
    scene!("markdown", |stage: &mut Stage| {
        stage.open();
        stage.says("Why is the last token lost?");
        stage.replies(vec![
            thinking("Where does the loop end?\nLook at the bound."),
            text(ANSWER),
        ]);
        stage.rest();
    });
}

#[test]
fn streamed_text_is_shown_until_its_entry_arrives() {
    scene!("streaming", |stage: &mut Stage| {
        stage.open();
        stage.says("Why is the last token lost?");
        stage.engine_event(Event::Delta(Delta::Thinking("Where does it end?".into())));
        stage.streams("The loop ends **one tok");
        stage.engine_event(Event::Delta(Delta::Call {
            name: "read".into(),
        }));
        stage.waits(3_000);
    });
    let mut stage = Stage::opened(80, 24);
    stage.says("hello");
    stage.streams("a half ans");
    stage.sees("a half ans");
    stage.replies(vec![text("a whole answer")]);
    stage.does_not_see("a half ans");
    stage.sees("a whole answer");
}

#[test]
fn an_answer_that_is_asked_for_again_says_why() {
    let mut stage = Stage::opened(80, 24);
    stage.says("hello");
    stage.streams("void");
    let failure = Failure {
        class: FailureClass::Overloaded,
        message: "the server is busy".into(),
        hint: None,
    };
    stage.engine_event(Event::Delta(Delta::Retry {
        after_ms: 4_000,
        until_ms: stage.app.now_ms + 4_000,
        failure,
    }));
    stage.does_not_see("void");
    stage.sees("the server is busy; retrying in 4 s");
    for (ms, shown) in [
        (1_000, "retrying in 3 s"),
        (1_500, "retrying in 2 s"),
        (500, "retrying in 1 s"),
    ] {
        stage.app.now_ms += ms;
        stage.sees(&format!("the server is busy; {shown}"));
    }
    stage.app.now_ms += 5_000;
    stage.sees("the server is busy; retrying now");
}

#[test]
fn session_events_are_shown_in_the_conversation() {
    scene!("markers", |stage: &mut Stage| {
        stage.says("build it");
        let call = stage.replies(vec![bash("make all")])[0];
        stage.log(entry::started(call));
        stage.log(entry::resumed(
            "resumed 01a1fc18-224f \"build it\", killed 3 min ago: 4 entries, 1 command still running (make all, 4m12s)",
            Some("I will bui"),
        ));
        stage.log(entry::ran(call, 0, "built"));
        stage.log(entry::failed(
            "the server refused the key of anthropic (401)",
            "set ANTHROPIC_API_KEY to a key that is valid",
        ));
        stage.says("again");
        stage.log(entry::stopped("I was about to"));
        stage.says("go on");
        stage.replies(vec![text("Done.")]);
        stage.log(entry::closed(1, 5));
        stage.log(entry::continued());
        stage.log(entry::chose(Mode::AcceptEdits));
        stage.log(entry::noted(
            "the background command bg1 ended with exit code 0",
        ));
        stage.open();
        stage.rest();
    });
}

#[test]
fn a_plan_ticks() {
    use StepState::{Current, Done, Left};
    let plan = [
        ("read the tests", Done),
        ("mend the loop", Current),
        ("run everything", Left),
    ];
    scene!("plan", |stage: &mut Stage| {
        stage.open();
        stage.says("mend the parser");
        let id = stage.replies(vec![call("plan", steps(&plan))])[0];
        stage.log(entry::planned(id, &plan));
        stage.keys("/plan<Enter>");
    });
    let mut stage = Stage::new(80, 24);
    stage.open();
    stage.says("mend it");
    let id = stage.replies(vec![call("plan", steps(&plan))])[0];
    stage.log(entry::planned(id, &plan));
    stage.sees("plan 2 of 3 · mend the loop");
    let later = [
        ("read the tests", Done),
        ("mend the loop", Done),
        ("run everything", Current),
    ];
    let id = stage.replies(vec![call("plan", steps(&later))])[0];
    stage.log(entry::planned(id, &later));
    stage.sees("plan 3 of 3 · run everything");
    stage.sees("✓ mend the loop");
    // While it works, and no longer.
    stage.rest();
    stage.does_not_see("plan 3 of 3");
}

#[test]
fn thinking_is_folded_and_unfolds() {
    let mut stage = Stage::opened(80, 24);
    stage.says("why?");
    stage.replies(vec![thinking("first thought\nsecond thought"), text("So.")]);
    stage.does_not_see("second thought");
    stage.keys("<C-t>");
    stage.sees("second thought");
    stage.keys("<C-t>");
    stage.does_not_see("second thought");
}

#[test]
fn a_fork_says_where_it_comes_from_and_closes_its_calls() {
    let mut stage = Stage::new(80, 24);
    stage.says("build it");
    stage.replies(vec![bash("make")]);
    let seq = stage.log.last_seq();
    stage.log(rewake::core::entry::Entry::Forked {
        from: rewake::core::entry::ForkPoint {
            session: "0197a1b2-c3d4-7000-8000-000000000000".into(),
            seq,
        },
        folder: None,
        from_replica: None,
    });
    stage.open();
    stage.sees(&format!(
        "forked from 0197a1b2-c3d4 at entry {seq}; files are shared"
    ));
    stage.sees("interrupted");
}

#[test]
fn a_call_of_an_unknown_tool_is_shown_with_its_error() {
    let mut stage = Stage::opened(80, 24);
    stage.says("go");
    let id = stage.replies(vec![call("teleport", json!({ "to": "moon" }))])[0];
    stage.log(entry::finished(
        id,
        rewake::core::entry::Outcome::error("there is no tool teleport"),
        None,
    ));
    stage.sees("teleport");
    stage.sees("there is no tool teleport");
}

#[test]
fn a_turn_ends_with_a_line_that_says_what_was_done() {
    let mut stage = Stage::opened(100, 24);
    stage.says("mend it");
    let call = edit("src/parser.rs", "one\ntwo", "one\n2\nthree");
    let id = stage.replies(vec![call])[0];
    // It was asked for a minute: that is not what it took.
    stage.asks(id, "an edit of a file", None);
    stage.log.waits(60_000);
    stage.log(entry::decided(id));
    stage.log(entry::checked(id, "/home/ann/parser/src/parser.rs"));
    let wrote = Fact::Wrote {
        path: "/home/ann/parser/src/parser.rs".into(),
        hash: "0".into(),
    };
    let done = Outcome::Done {
        output: rewake::core::entry::Output::text("ok"),
    };
    stage.log(entry::finished(id, done, Some(wrote)));
    stage.runs(bash("cargo test"), 1, "no");
    stage.does_not_see("done in");
    stage.replies(vec![text("It is mended.")]);
    stage.rest();
    stage.sees("src/parser.rs +2 −1 · 1 command failed · 13.1k tokens · $0.02 · 12:01");
    let line = stage.rows().into_iter().find(|row| row.contains("done in"));
    let line = line.unwrap();
    // Seven entries, a second each.
    assert!(line.starts_with("  done in 7 s · "), "{line}");
    // A session that is opened again says the same.
    let mut again = Stage::new(100, 24);
    again.log = stage.log;
    again.open();
    again.rest();
    again.sees(line.trim());
    // What the person stopped says so once.
    again.says("more");
    again.log(entry::stopped("I was"));
    again.sees("◌ stopped by you after 1 s");
}

#[test]
fn calls_that_look_stand_in_one_block_until_it_is_unfolded() {
    let mut stage = Stage::opened(100, 40);
    stage.says("look round");
    let ids = stage.replies(vec![
        call("read", json!({ "path": "a.rs" })),
        call("glob", json!({ "pattern": "*.md" })),
    ]);
    // They may end in another order.
    stage.log(entry::done(ids[1], "README.md"));
    stage.log(entry::done(ids[0], "1\tfn main() {}"));
    stage.calls(
        call("grep", json!({ "pattern": "fn next" })),
        "a.rs:1:fn next",
    );
    stage.sees("· read       a.rs · *.md · \"fn next\" (1 hit)");
    // One that failed stands alone.
    let id = stage.replies(vec![call("read", json!({ "path": "gone.rs" }))])[0];
    stage.log(entry::finished(
        id,
        Outcome::error("there is no gone.rs"),
        None,
    ));
    stage.sees("· read       a.rs · *.md · \"fn next\" (1 hit)");
    stage.sees("✗ read       gone.rs");
    stage.does_not_see("README.md");
    stage.keys("<C-o>");
    for seen in ["fn main() {}", "README.md", "a.rs:1:fn next"] {
        stage.sees(seen);
    }
    stage.keys("<C-o>");
    stage.does_not_see("README.md");
    stage.sees("· read       a.rs · *.md · \"fn next\" (1 hit)");
}

#[test]
fn the_source_of_a_table_is_not_seen_while_it_streams() {
    let mut stage = Stage::opened(80, 24);
    stage.says("compare");
    stage.streams("They differ:\n\n| file | lines |\n|---");
    stage.sees("They differ:");
    stage.does_not_see("file");
    stage.streams("|---|\n| a | 1 |\n");
    stage.sees("file │ lines");
    stage.streams("\nIn code:\n\n``");
    stage.does_not_see("``");
    stage.streams("`sh\nls\n");
    stage.sees("ls");
    stage.does_not_see("```");
}

#[test]
fn thinking_is_one_line_while_it_lasts_and_how_long_after_it() {
    let mut stage = Stage::opened(80, 24);
    stage.says("why?");
    let thinks = |text: &str| Event::Delta(Delta::Thinking(text.into()));
    stage.engine_event(thinks("Where does it"));
    stage.waits(4_000);
    stage.engine_event(thinks(" end?"));
    stage.sees("thinking 4 s  Where does it end?");
    stage.streams("So.");
    stage.sees("  thought 4 s");
    stage.does_not_see("Where does it end?");
    stage.replies(vec![thinking("Where does it end?"), text("So.")]);
    stage.sees("  thought 4 s");
}

#[test]
fn a_turn_that_is_continued_without_a_message_has_its_summary_too() {
    let mut stage = Stage::opened(80, 30);
    stage.says("go");
    stage.log(entry::failed(
        "overloaded (HTTP 529) from mock at http://h",
        "later",
    ));
    stage.sees("✗ overloaded (HTTP 529) from mock");
    stage.log(entry::resumed(
        "resumed 01a1 \"go\", failed 1 s ago: 3 entries",
        None,
    ));
    stage.log(entry::replied(vec![text("It is done.")]));
    stage.rest();
    let rows = stage.rows();
    let ends = rows.iter().filter(|row| row.starts_with("  done"));
    assert_eq!(ends.count(), 1, "{rows:#?}");
}

#[test]
fn a_summary_names_the_tokens_before_and_after_and_the_hint_goes() {
    let mut stage = Stage::opened(80, 24);
    stage.says(&"many words ".repeat(2_000));
    stage.replies(vec![text("first")]);
    stage.says("second");
    stage.replies(vec![text("second answer")]);
    stage.rest();
    stage.keys("/compact<Enter>");
    stage.sees("the older part will be summarised");
    stage.log(entry::closed(1, 2));
    stage.does_not_see("will be summarised");
    let row = stage.line_with("were summarised");
    assert!(row.contains("k → ") && row.contains(" tokens"), "{row}");
    stage.keys("/compact<Enter>");
    stage.rest();
    stage.sees("there is nothing to summarise yet");
}

#[test]
fn the_cost_of_the_session_is_shown_in_money_and_thousands_of_tokens() {
    let mut stage = Stage::opened(80, 24);
    stage.says("go");
    stage.replies(vec![text("done")]);
    stage.rest();
    stage.keys("/cost<Enter>");
    stage.sees("this session  $0.01");
    stage.sees("sent          4.2k tokens, 3.0k of them from the cache");
    stage.sees("received      150 tokens");
    stage.sees("last turn     4.3k tokens · $0.01");
}
