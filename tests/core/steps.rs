//! The pure core: tables `log -> Step`, and properties over random histories.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on says so by panicking"
)]

mod background;
mod checks;
mod forged;
mod moved;
mod repeats;

use proptest::prelude::*;
use rewake::config::Config;
use rewake::core::access::Access;
use rewake::core::authorization::{Authorization, authorize};
use rewake::core::authorization::{place_of_question, questions};
use rewake::core::budget::Budget;
use rewake::core::choice::Effort;
use rewake::core::ending;
use rewake::core::entry::*;
use rewake::core::entry::{Choice, FallbackModel};
use rewake::core::exfiltration::reason_to_ask;
use rewake::core::form::{Field, FieldKind, FormAnswer, RequestedAnswer, ServerQuestion};
use rewake::core::freeing;
use rewake::core::hook_event::event_after;
use rewake::core::next::{
    BackgroundSummary, MAX_NONSENSE, MAX_RESTARTS, Pending, Step, Why, next, recall_point,
};
use rewake::core::permission::Permission;
use rewake::core::policy::{Decision, Judgement};
use rewake::core::prompt::{KeptMessages, messages, messages_again};
use rewake::core::request::{Message, MessagePart, Role};
use rewake::core::settings::Policy;
use rewake::core::signal::{Signal, late};
use rewake::core::state::State;
use rewake::core::tool::MAX_CALLS;
use rewake::core::turn::TurnRange;
use rewake::session::context::windows;

use crate::valid::assert_valid;

const MODEL: &str = "test/model";

fn log(entries: impl IntoIterator<Item = Entry>) -> Vec<Record> {
    let entries = std::iter::once(opened()).chain(entries);
    entries
        .enumerate()
        .map(|(seq, entry)| Record {
            seq: seq as u64,
            at_ms: seq as i64,
            entry,
        })
        .collect()
}

fn state(entries: impl IntoIterator<Item = Entry>) -> State {
    State::of(rewake::tools::describe, &log(entries)).expect("a legal log")
}

fn opened() -> Entry {
    let names = [
        "read",
        "grep",
        "glob",
        "plan",
        "write",
        "edit",
        "bash",
        "bash_stop",
        "bash_wait",
        "mcp__far__poke",
    ];
    let spec = |name: &&str| ToolSpec {
        name: name.to_string(),
        description: String::new(),
        schema: serde_json::json!({"type": "object"}),
    };
    Entry::Opened {
        folder: "/w".into(),
        version: "0".into(),
        model: MODEL.into(),
        mode: Mode::Default,
        layers: PromptPrefix {
            tools: names.iter().map(spec).collect(),
            ..PromptPrefix::default()
        },
        imported: None,
    }
}

fn said(text: &str) -> Entry {
    Entry::Said {
        text: text.into(),
        images: vec![],
        via: Via::Prompt,
        command: None,
        origin: None,
    }
}

fn replied(blocks: Vec<Block>) -> Entry {
    let stop = StopReason::ToolUse;
    Entry::Replied {
        blocks,
        usage: Usage::default(),
        stop,
        model: MODEL.into(),
        took_ms: 1,
        asked_bytes: 0,
        source_usage: None,
    }
}

/// A command that names its own model.
fn said_with(model: &str) -> Entry {
    let command = UsedCommand {
        name: "think".into(),
        arguments: String::new(),
        model: Some(model.into()),
    };
    Entry::Said {
        text: "Think.".into(),
        images: vec![],
        via: Via::Prompt,
        command: Some(command),
        origin: None,
    }
}

fn noted() -> Entry {
    Entry::Noted {
        text: "a note".into(),
        about: None,
    }
}

fn read(path: &str) -> Block {
    Block::call("read", format!(r#"{{"path":"{path}"}}"#))
}

fn bash(command: &str) -> Block {
    Block::call("bash", format!(r#"{{"command":"{command}"}}"#))
}

fn poke() -> Block {
    Block::call("mcp__far__poke", "{}")
}

fn id(reply: u64, index: u32) -> CallId {
    CallId { reply, index }
}

fn finished(call: CallId) -> Entry {
    Entry::Finished {
        call,
        outcome: Outcome::done("ok"),
        fact: None,
        tree: None,
    }
}

fn interrupted(call: CallId) -> Entry {
    let outcome = Outcome::Interrupted {
        output: Output::text("half"),
        why: "gone".into(),
    };
    Entry::Finished {
        call,
        outcome,
        fact: None,
        tree: None,
    }
}

fn supervised() -> Guard {
    Guard::Supervised {
        run: "r".into(),
        boot: "b".into(),
        background: false,
    }
}

fn started(call: CallId, guard: Guard) -> Entry {
    Entry::Started {
        call,
        guard,
        access: None,
    }
}

fn stopped() -> Entry {
    Entry::Stopped {
        draft: None,
        origin: None,
    }
}

fn resumed(by: By) -> Entry {
    Entry::Resumed {
        by,
        found: String::new(),
        draft: None,
        unrecorded: false,
        at_work: false,
    }
}

fn failed() -> Entry {
    let error = Failure {
        class: FailureClass::Network,
        message: "no".into(),
        hint: None,
    };
    Entry::Failed { error, draft: None }
}

/// Allows all but `bash` commands that begin with `ask` or `deny`.
fn policy(interactive: bool) -> Policy {
    Policy {
        served_check: std::sync::Arc::new(|_| Ok(())),
        permission_check: std::sync::Arc::new(|permission, _, _| {
            let decision = match permission {
                Permission::Command { line, .. } if line.starts_with("ask") => Decision::Ask {
                    why: "asks".into(),
                    rule: None,
                },
                Permission::Command { line, .. } if line.starts_with("deny") => Decision::Deny {
                    reason: "no".into(),
                },
                _ => Decision::Allow,
            };
            let access = match permission {
                Permission::Command { line, .. } if line.starts_with("look") => Some(Access::Read),
                Permission::Command { .. } => Some(Access::Workspace),
                _ => None,
            };
            Judgement { decision, access }
        }),
        interactive,
        background: Default::default(),
        sandbox: Default::default(),
        checks: Vec::new(),
        max_turns: Some(30),
        loop_guard: true,
        budget: std::sync::Arc::new(|_, limit, ratio| {
            Budget::new(limit.unwrap_or(1_000_000), 1_000, ratio)
        }),
        windows: windows(&Config::default()),
        price: std::sync::Arc::new(|_, _| None),
    }
}

/// Nothing waits outside of the log.
fn nothing_else(state: &State) -> Pending {
    Pending {
        recalled: recall_point(state),
        ..Pending::default()
    }
}

fn what_next(state: &State, policy: &Policy) -> Step {
    next(state, policy, &nothing_else(state))
}

#[track_caller]
fn check(entries: Vec<Entry>, want: Step) {
    assert_eq!(what_next(&state(entries), &policy(true)), want);
}

#[test]
fn the_model_of_a_command_answers_it_and_nothing_else() {
    let model = |entries: Vec<Entry>| state(entries).model;
    let text = || replied(vec![Block::text("so")]);
    let begin = || vec![said_with("s/large")];
    let with = |more: Vec<Entry>| [begin(), more].concat();
    assert_eq!(model(begin()), "s/large");
    // As long as it is answered: over calls, failures and starts.
    assert_eq!(model(with(vec![text()])), "s/large");
    let resumed = Entry::Resumed {
        by: By::Start,
        found: String::new(),
        draft: None,
        unrecorded: false,
        at_work: false,
    };
    assert_eq!(model(with(vec![resumed])), "s/large");
    let failed = Entry::Failed {
        error: Failure {
            class: FailureClass::Network,
            message: "gone".into(),
            hint: None,
        },
        draft: None,
    };
    assert_eq!(model(with(vec![failed])), "s/large");
    // Then the session's own again, also behind two commands and a fallback.
    assert_eq!(model(with(vec![text(), said("next")])), MODEL);
    let fallback = Entry::Chose(Choice {
        fallback: Some(Box::new(FallbackModel {
            model: "fallback/model".into(),
            error: Failure {
                class: FailureClass::Overloaded,
                message: "busy".into(),
                hint: None,
            },
        })),
        ..Choice::default()
    });
    let entries = vec![fallback, said_with("s/small"), said("next")];
    assert_eq!(model(with(entries[..1].to_vec())), "fallback/model");
    assert_eq!(model(with(entries[..2].to_vec())), "s/small");
    assert_eq!(model(with(entries)), MODEL);
    // What a person chooses meanwhile stays.
    let chose = Entry::Chose(Choice::of_model("s/chosen"));
    assert_eq!(model(with(vec![chose, text(), said("next")])), "s/chosen");
    assert_eq!(state(begin()).title(), Some("/think"));
}

/// Only what reads, needs no question and does not share its `$TMPDIR`; and only what follows each
/// other.
#[test]
fn calls_that_only_read_run_at_the_same_time() {
    let batch = |blocks: Vec<Block>, want: &[u32]| {
        let want = want.iter().map(|index| id(2, *index)).collect();
        check(vec![said("go"), replied(blocks)], Step::Run(want));
    };
    let looks = || vec![bash("look 1"), read("a"), bash("look 2"), bash("look 3")];
    batch(looks(), &[0, 1, 2, 3]);
    batch([vec![read("a")], looks()].concat(), &[0, 1, 2, 3, 4]);
    let then = |more: Block| [looks(), vec![more, bash("look 4")]].concat();
    for barrier in [
        bash("write"),
        bash("look at $TMPDIR"),
        bash("look > ${TEMP}/x"),
        Block::call("bash", r#"{"command":"look on","background":true}"#),
        Block::call("write", r#"{"path":"a","content":"b"}"#),
        Block::call("mcp__far__poke", "{}"),
        bash("deny"),
    ] {
        batch(then(barrier), &[0, 1, 2, 3]);
    }
    let five = (0..5).map(|n| bash(&format!("look {n}"))).collect();
    batch(five, &[0, 1, 2, 3]);
    // A call that stops a command is not one that reads.
    let stop = || Block::call("bash_stop", r#"{"id":"bg_1_0"}"#);
    batch(vec![bash("look"), read("a"), stop()], &[0, 1]);
    batch(vec![stop(), read("a"), bash("look")], &[0, 1]);
    // A barrier runs alone.
    batch(vec![bash("look at $TMPDIR"), bash("look")], &[0]);
    batch(vec![bash("write"), bash("look")], &[0]);
    // A command waits for the question of another call; a read does not.
    batch(
        vec![read("a"), read("b"), bash("look"), bash("ask")],
        &[0, 1],
    );
    check(
        vec![said("go"), replied(vec![bash("look"), bash("ask")])],
        Step::Ask(id(2, 1)),
    );
    // What ran before a crash is settled first, and nothing is taken twice.
    let started = |index| Entry::Started {
        call: id(2, index),
        guard: supervised(),
        access: Some(Access::Read),
    };
    let log = vec![said("go"), replied(looks()), started(0), started(2)];
    check(log.clone(), Step::Settle(id(2, 0)));
    let log = [log, vec![finished(id(2, 0))]].concat();
    check(log.clone(), Step::Run(vec![id(2, 1)]));
    // In a pause the read does not run, so the results after it wait.
    check(
        [log, vec![Entry::Paused { origin: None }]].concat(),
        Step::Wait(Why::Paused),
    );
}

#[test]
fn next_step_follows_from_the_log() {
    let turn = |blocks| vec![said("go"), replied(blocks)];
    let then = |mut log: Vec<Entry>, more: Vec<Entry>| {
        log.extend(more);
        log
    };
    check(vec![], Step::Wait(Why::Idle));
    check(vec![said("go")], Step::CallModel);
    check(turn(vec![Block::text("done")]), Step::Wait(Why::Idle));
    // Idempotent calls run together up to the first that is not.
    check(
        turn(vec![read("a"), read("b"), bash("x"), read("c")]),
        Step::Run(vec![id(2, 0), id(2, 1)]),
    );
    check(turn(vec![bash("x"), bash("y")]), Step::Run(vec![id(2, 0)]));
    check(
        then(
            turn(vec![bash("x"), bash("y")]),
            vec![started(id(2, 0), supervised())],
        ),
        Step::Settle(id(2, 0)),
    );
    check(
        then(
            turn(vec![bash("x"), read("y")]),
            vec![started(id(2, 0), supervised()), finished(id(2, 0))],
        ),
        Step::Run(vec![id(2, 1)]),
    );
    check(
        then(turn(vec![read("y")]), vec![finished(id(2, 0))]),
        Step::CallModel,
    );
    // Verdicts.
    check(turn(vec![bash("ask")]), Step::Ask(id(2, 0)));
    check(turn(vec![bash("deny")]), Step::Close(id(2, 0)));
    let decided = |verdict| Entry::Decided {
        at: None,
        call: id(2, 0),
        verdict,
        by: By::Person,
        access: None,
        rule: None,
        origin: None,
    };
    check(
        then(turn(vec![bash("ask")]), vec![decided(Verdict::Allow)]),
        Step::Run(vec![id(2, 0)]),
    );
    let no = Verdict::Deny {
        reason: "no".into(),
    };
    check(
        then(turn(vec![bash("ask")]), vec![decided(no)]),
        Step::Close(id(2, 0)),
    );
    // A stop settles what was begun and closes the rest, then waits.
    let begun = turn(vec![bash("x"), read("y")]);
    let begun = then(begun, vec![started(id(2, 0), supervised()), stopped()]);
    check(begun.clone(), Step::Settle(id(2, 0)));
    let settled = then(begun, vec![interrupted(id(2, 0))]);
    check(settled.clone(), Step::Close(id(2, 1)));
    let closed = then(settled, vec![interrupted(id(2, 1))]);
    check(closed.clone(), Step::Wait(Why::Halted));
    check(
        then(closed.clone(), vec![resumed(By::Start)]),
        Step::Wait(Why::Halted),
    );
    check(then(closed, vec![said("go on")]), Step::CallModel);
    // A failure waits for a person or for a new start.
    check(vec![said("go"), failed()], Step::Wait(Why::Halted));
    check(
        vec![said("go"), failed(), resumed(By::Start)],
        Step::CallModel,
    );
    // A note owes no answer.
    let noted = || Entry::Noted {
        text: "x".into(),
        about: None,
    };
    check(vec![noted()], Step::Wait(Why::Idle));
    check(vec![said("go"), noted()], Step::CallModel);
    // A fork closes what is open and owes the answer.
    let from = ForkPoint {
        session: "s".into(),
        seq: 2,
    };
    check(
        then(
            turn(vec![bash("x")]),
            vec![Entry::Forked {
                from,
                folder: None,
                from_replica: None,
            }],
        ),
        Step::CallModel,
    );
}

fn asked_by(server: &str, key: &str) -> Entry {
    let number = Field {
        name: "n".into(),
        title: String::new(),
        description: String::new(),
        is_required: true,
        kind: FieldKind::YesNo,
        default: None,
    };
    let question = ServerQuestion {
        server: server.into(),
        key: key.into(),
        message: "who?".into(),
        wanted: RequestedAnswer::Form {
            fields: vec![number],
        },
    };
    Entry::Asked {
        call: id(2, 0),
        why: question.line(),
        rule: None,
        access: None,
        at: None,
        form: Some(Box::new(question)),
    }
}

fn answered(asked: Seq, key: &str, answer: FormAnswer) -> Entry {
    Entry::Answered {
        call: id(2, 0),
        asked,
        key: key.into(),
        answer,
        by: By::Person,
        origin: None,
    }
}

#[test]
fn a_question_of_a_server_is_open_until_it_is_answered_once() {
    let decline = || FormAnswer::Decline;
    let served = Guard::Served {
        server: "far".into(),
        run: "r".into(),
        boot: "b".into(),
        request: "q".into(),
        repeatable: false,
    };
    let turn = vec![said("go"), replied(vec![poke()])];
    let before = state(turn.clone());
    assert!(before.check(&asked_by("far", "a")).is_err(), "not begun");
    let begun = [turn, vec![started(id(2, 0), served)]].concat();
    let s = state(begun.clone());
    assert!(s.check(&asked_by("near", "a")).is_err(), "another server");
    assert!(s.check(&answered(4, "a", decline())).is_err(), "not asked");
    let asked = [begun, vec![asked_by("far", "a")]].concat();
    let s = state(asked.clone());
    let (open, question) = s.server_question().expect("it is open");
    assert_eq!((open.call.id, question.seq), (id(2, 0), 4));
    assert!(s.asks() && s.questions().next().is_none());
    assert!(
        s.check(&answered(4, "b", decline())).is_err(),
        "another key"
    );
    assert!(
        s.check(&answered(3, "a", decline())).is_err(),
        "another place"
    );
    let send = |s: &State, asked, answer| {
        let call = id(2, 0);
        late(
            s,
            &Signal::Answer {
                call,
                asked,
                answer,
            },
        )
    };
    assert_eq!(send(&s, 4, decline()), None);
    let unfit = FormAnswer::Accept {
        values: Default::default(),
    };
    assert!(send(&s, 4, unfit).is_some_and(|why| why.contains("required")));
    assert!(send(&s, 3, decline()).is_some_and(|why| why.contains("another question")));
    // Only who has no person, and found it open, leaves it.
    assert_eq!(what_next(&s, &policy(false)), Step::Settle(id(2, 0)));
    let left_open = Pending {
        left_open: true,
        ..nothing_else(&s)
    };
    assert_eq!(next(&s, &policy(false), &left_open), Step::Wait(Why::Asked));
    let paused = state([asked.clone(), vec![Entry::Paused { origin: None }]].concat());
    assert_eq!(
        next(&paused, &policy(false), &left_open),
        Step::Wait(Why::Paused)
    );
    let stopped_in_it = state([asked.clone(), vec![stopped()]].concat());
    assert!(!stopped_in_it.asks());
    let step = next(&stopped_in_it, &policy(false), &left_open);
    assert_eq!(step, Step::Settle(id(2, 0)));
    let answered = [asked, vec![answered(4, "a", decline())]].concat();
    let s = state(answered.clone());
    assert!(!s.asks());
    let open = s.call(id(2, 0)).expect("the call");
    let question = &open.server_question.as_ref().expect("it").question;
    assert_eq!(open.answer_to(question), Some(&decline()));
    assert!(send(&s, 4, decline()).is_some_and(|why| why.contains("answered already")));
    // The next round is another question.
    let s = state([answered, vec![asked_by("far", "b")]].concat());
    let (open, question) = s.server_question().expect("it is open");
    assert_eq!(
        (question.seq, open.answer_to(&question.question)),
        (6, None)
    );
}

#[test]
fn a_yes_for_a_page_approves_its_host_in_this_session() {
    let approved = |url: &str, verdict: Verdict| -> Vec<String> {
        let call = Block::call("web_fetch", serde_json::json!({ "url": url }).to_string());
        let decided = Entry::Decided {
            at: None,
            call: id(2, 0),
            verdict,
            by: By::Person,
            access: None,
            rule: None,
            origin: None,
        };
        let hosts = state([said("go"), replied(vec![call]), decided]).approved_hosts;
        hosts.into_iter().collect()
    };
    let no = Verdict::Deny {
        reason: "no".into(),
    };
    assert_eq!(approved("https://A.test/x", Verdict::Allow), ["a.test"]);
    // A page on another port approves only itself.
    assert_eq!(approved("https://a.test:8443/", Verdict::Allow), [""; 0]);
    assert_eq!(approved("https://a.test/", no), [""; 0]);
}

#[test]
fn bytes_to_a_host_count_after_a_compaction() {
    let url = |n: u64| format!("https://a.test/{n}{}", "s".repeat(180));
    let page = |n: u64| {
        let call = Block::call(
            "web_fetch",
            serde_json::json!({ "url": url(n) }).to_string(),
        );
        [replied(vec![call]), finished(id(2 + 2 * n, 0))]
    };
    let fetched = || [said("go")].into_iter().chain((0..6).flat_map(page));
    let asks = |entries: Vec<Entry>| {
        let state = state(entries);
        reason_to_ask("a.test", &url(9), &state.page_log()).is_some()
    };
    assert!(asks(fetched().collect()));
    let compacted = Entry::Compacted {
        window: 1,
        first: 1,
        last: 11,
        summary: "pages".into(),
        by: SummaryBy::Digest,
        spent: Vec::new(),
        preface: None,
    };
    let continued = Entry::Continued {
        note: "pages".into(),
        by: SummaryBy::Digest,
        story: None,
        spent: Vec::new(),
    };
    for left in [compacted, continued] {
        let after = || fetched().chain([left.clone()]);
        assert!(asks(after().collect()), "{left:?}");
        assert!(!asks(after().chain([said("on")]).collect()));
    }
}

#[test]
fn rules_of_a_session_are_folded_from_its_log() {
    let with = |rule: &str| Entry::Decided {
        at: None,
        call: id(2, 0),
        verdict: Verdict::Allow,
        by: By::Person,
        access: None,
        rule: Some(rule.to_string()),
        origin: None,
    };
    let rules = |entries: Vec<Entry>| -> Vec<String> {
        let rules = state(entries).session_rules;
        rules.iter().map(ToString::to_string).collect()
    };
    let allowed = |rule| [said("go"), replied(vec![bash("ask")]), with(rule)].to_vec();
    assert_eq!(rules(allowed("Bash(make:*)")), ["Bash(make:*)"]);
    // What another version wrote and this one cannot read allows nothing.
    assert_eq!(rules(allowed("Later(x)")), [""; 0]);
    let without = |rule: &str| {
        Entry::Chose(Choice {
            without: Some(rule.to_string()),
            ..Choice::default()
        })
    };
    let taken_back = |rule| [allowed("Bash(make:*)"), vec![without(rule)]].concat();
    assert_eq!(rules(taken_back("Bash(make:*)")), [""; 0]);
    assert_eq!(rules(taken_back("Bash(x)")), ["Bash(make:*)"]);
    // A copy of the session is another session.
    let from = ForkPoint {
        session: "s".into(),
        seq: 3,
    };
    let copy = [
        allowed("Bash(make:*)"),
        vec![Entry::Forked {
            from,
            folder: None,
            from_replica: None,
        }],
    ]
    .concat();
    assert_eq!(rules(copy), [""; 0]);
}

#[test]
fn all_questions_of_an_answer_come_before_what_has_an_effect() {
    let calls = vec![
        read("a"),
        bash("x"),
        bash("ask 1"),
        bash("deny"),
        bash("ask 2"),
    ];
    let decided = |call, verdict| Entry::Decided {
        at: None,
        call,
        verdict,
        by: By::Person,
        access: None,
        rule: None,
        origin: None,
    };
    let mut log = vec![said("go"), replied(calls)];
    let mut goes_on = |entry: Option<Entry>, want: Step, place: (usize, usize)| {
        log.extend(entry);
        let state = state(log.clone());
        let policy = policy(true);
        assert_eq!(what_next(&state, &policy), want);
        if let Step::Ask(call) = want {
            assert_eq!(
                place_of_question(&state, &questions(&state, &policy), call),
                place
            );
        }
    };
    // What only looks needs no question and may go before.
    goes_on(None, Step::Run(vec![id(2, 0)]), (0, 0));
    goes_on(Some(finished(id(2, 0))), Step::Ask(id(2, 2)), (1, 2));
    let no = Verdict::Deny {
        reason: "no".into(),
    };
    goes_on(Some(decided(id(2, 2), no)), Step::Ask(id(2, 4)), (2, 2));
    let yes = decided(id(2, 4), Verdict::Allow);
    goes_on(Some(yes), Step::Run(vec![id(2, 1)]), (0, 0));
    goes_on(
        Some(started(id(2, 1), supervised())),
        Step::Settle(id(2, 1)),
        (0, 0),
    );
    goes_on(Some(finished(id(2, 1))), Step::Close(id(2, 2)), (0, 0));
    // Where nobody can be asked, nothing waits for an answer.
    let state = state(vec![said("go"), replied(vec![bash("x"), bash("ask")])]);
    assert_eq!(what_next(&state, &policy(false)), Step::Run(vec![id(2, 0)]));
}

#[test]
fn calls_that_cannot_run_are_closed_with_a_reason() {
    let close = |blocks: Vec<Block>, stop| {
        let reply = Entry::Replied {
            blocks,
            usage: Usage::default(),
            stop,
            model: MODEL.into(),
            took_ms: 0,
            asked_bytes: 0,
            source_usage: None,
        };
        let state = state([said("go"), reply]);
        let open = state.first_open().expect("an open call").clone();
        match authorize(&state, &policy(false), &open) {
            Authorization::Close(outcome) => outcome.to_model_text().0,
            other => panic!("{other:?}"),
        }
    };
    assert!(
        close(vec![Block::call("launch", "{}")], StopReason::ToolUse)
            .contains("the tools are read, ")
    );
    for (name, tool) in [("Read", "read"), ("Bash", "bash"), ("apply_patch", "edit")] {
        let told = close(vec![Block::call(name, "{}")], StopReason::ToolUse);
        let want = format!("there is no tool named {name:?}; use `{tool}`");
        assert!(told.contains(&want), "{told}");
    }
    assert!(close(vec![Block::call("read", "{\"pa")], StopReason::ToolUse).contains("not JSON"));
    assert!(close(vec![read("a")], StopReason::MaxTokens).contains("output limit"));
    assert!(close(vec![bash("ask")], StopReason::ToolUse).contains("nobody is there"));
}

#[test]
fn only_the_first_of_hundreds_of_calls_are_run() {
    let blocks = (0..300).map(|n| bash(&format!("echo {n}"))).collect();
    let mut log = log([said("go"), replied(blocks)]);
    let mut ran = 0;
    loop {
        let state = State::of(rewake::tools::describe, &log).expect("legal");
        let mut push = |entry| {
            log.push(Record {
                seq: log.len() as u64,
                at_ms: 0,
                entry,
            })
        };
        match what_next(&state, &policy(true)) {
            Step::Run(calls) => {
                ran += 1;
                push(started(calls[0], supervised()));
                push(finished(calls[0]));
            }
            Step::Close(call) => push(Entry::Finished {
                call,
                outcome: Outcome::error("surplus"),
                fact: None,
                tree: None,
            }),
            step => {
                assert_eq!(step, Step::CallModel);
                break;
            }
        }
    }
    assert_eq!(ran, MAX_CALLS);
}

/// They do not lift a crash loop either, and one that did fail is counted behind them.
#[test]
fn starts_that_end_on_a_full_disk_are_not_counted() {
    let unrecorded = || Entry::Resumed {
        by: By::Start,
        found: String::new(),
        draft: None,
        unrecorded: true,
        at_work: false,
    };
    let mut entries = vec![said("go")];
    for _ in 0..2 * MAX_RESTARTS {
        entries.push(unrecorded());
        check(entries.clone(), Step::CallModel);
    }
    for _ in 2..MAX_RESTARTS {
        entries.push(resumed(By::Start));
        check(entries.clone(), Step::CallModel);
    }
    entries.push(resumed(By::Start));
    check(entries.clone(), Step::Wait(Why::CrashLoop));
    entries.push(unrecorded());
    check(entries, Step::Wait(Why::CrashLoop));
}

/// A start that only waits for live work is killed as often as somebody likes.
#[test]
fn starts_that_wait_for_live_work_are_not_a_crash_loop() {
    let start = |at_work| Entry::Resumed {
        by: By::Start,
        found: String::new(),
        draft: None,
        unrecorded: false,
        at_work,
    };
    let call = id(2, 0);
    let mut entries = vec![
        said("go"),
        replied(vec![bash("x")]),
        started(call, supervised()),
    ];
    for _ in 0..2 * MAX_RESTARTS {
        entries.push(start(true));
        check(entries.clone(), Step::Settle(call));
    }
    // It ended since the last start. From here on each start could have recorded its result.
    for _ in 0..MAX_RESTARTS - 1 {
        entries.push(start(false));
        check(entries.clone(), Step::Settle(call));
    }
    let mut looping = entries.clone();
    looping.push(start(false));
    check(looping.clone(), Step::Wait(Why::CrashLoop));
    // Work that is alive after all ends the loop.
    looping.push(start(true));
    check(looping, Step::Settle(call));
    // Calls that ended while the work of another went on are progress as before.
    entries.push(finished(call));
    check(entries, Step::CallModel);
}

#[test]
fn starts_that_come_to_nothing_are_a_crash_loop() {
    let mut entries = vec![
        said("go"),
        replied(vec![bash("x")]),
        started(id(2, 0), supervised()),
    ];
    for _ in 1..MAX_RESTARTS {
        entries.push(resumed(By::Start));
        check(entries.clone(), Step::Settle(id(2, 0)));
    }
    entries.push(resumed(By::Start));
    check(entries.clone(), Step::Wait(Why::CrashLoop));
    let mut lifted = entries.clone();
    lifted.push(resumed(By::Person));
    check(lifted, Step::Settle(id(2, 0)));
    entries.push(finished(id(2, 0)));
    check(entries, Step::CallModel);
    // An outage is no crash: however often it fails, the next start tries again.
    let mut outage = vec![said("go")];
    for _ in 0..2 * MAX_RESTARTS {
        outage.push(failed());
        check(outage.clone(), Step::Wait(Why::Halted));
        outage.push(resumed(By::Start));
        check(outage.clone(), Step::CallModel);
    }
    // Nothing owed, no crash loop.
    check(
        vec![
            resumed(By::Start),
            resumed(By::Start),
            resumed(By::Start),
            resumed(By::Start),
        ],
        Step::Wait(Why::Idle),
    );
}

#[test]
fn an_answer_that_the_output_limit_cut_is_continued_once() {
    let ends = |stop| {
        let Entry::Replied { usage, model, .. } = replied(vec![]) else {
            unreachable!();
        };
        Entry::Replied {
            blocks: vec![Block::text("so")],
            usage,
            stop,
            model,
            took_ms: 1,
            asked_bytes: 0,
            source_usage: None,
        }
    };
    let cut = || ends(StopReason::MaxTokens);
    let told = || Entry::Noted {
        text: "continue".into(),
        about: Some(About::AnswerCut),
    };
    let mut entries = vec![said("go"), cut()];
    check(entries.clone(), Step::ContinueAnswer);
    assert_ne!(ending::of_entries(entries.iter()), ending::Ending::Done);
    // Not a second time after a kill.
    entries.extend([told(), resumed(By::Start)]);
    check(entries.clone(), Step::CallModel);
    let whole = [entries.clone(), vec![ends(StopReason::EndTurn)]].concat();
    check(whole.clone(), Step::Wait(Why::Idle));
    let texts = ending::last_answer(&state(whole).context).concat();
    assert_eq!(texts, [Block::text("so"), Block::text("so")]);
    entries.push(cut());
    check(entries.clone(), Step::Wait(Why::Idle));
    assert_eq!(ending::of_entries(entries.iter()), ending::Ending::Done);
    assert!(state(entries.clone()).check(&told()).is_err());
    // But the answer to the next message is, also after an answer without sense.
    entries.extend([said("more"), cut()]);
    check(entries.clone(), Step::ContinueAnswer);
    entries.push(replied(vec![]));
    check(entries, Step::ContinueAnswer);
}

#[test]
fn turns_and_nonsense_are_bounded() {
    let mut entries = vec![said("go")];
    for _ in 0..MAX_NONSENSE {
        check(entries.clone(), Step::CallModel);
        entries.push(replied(vec![]));
    }
    check(entries.clone(), Step::Wait(Why::Nonsense));
    entries.push(said("again"));
    check(entries, Step::CallModel);

    let mut entries = vec![said("go")];
    for _ in 0..30 {
        let reply = 1 + entries.len() as u64;
        check(entries.clone(), Step::CallModel);
        entries.extend([
            replied(vec![read(&reply.to_string())]),
            finished(id(reply, 0)),
        ]);
    }
    check(entries.clone(), Step::Wait(Why::Turns));
    // Going on after that is another start, with turns of its own.
    entries.push(resumed(By::Start));
    check(entries, Step::CallModel);
}

#[test]
fn impossible_entries_are_refused_and_change_nothing() {
    let refuse = |entries: Vec<Entry>, entry: Entry| {
        let state = state(entries);
        let before = state.clone();
        assert!(state.check(&entry).is_err(), "{entry:?}");
        let mut after = state;
        let seq = after.next_seq();
        assert!(
            after
                .fold(&Record {
                    seq,
                    at_ms: 0,
                    entry
                })
                .is_err()
        );
        assert_eq!(before, after, "a refused entry changes nothing");
    };
    let call = || vec![said("go"), replied(vec![bash("x"), read("y"), poke()])];
    let with = |more: Vec<Entry>| call().into_iter().chain(more).collect::<Vec<_>>();
    refuse(vec![], opened());
    refuse(vec![], replied(vec![Block::text("unasked")]));
    refuse(call(), said("while a call is open"));
    refuse(call(), replied(vec![Block::text("while a call is open")]));
    refuse(call(), finished(id(2, 0))); // done, but never begun
    refuse(call(), finished(id(2, 2)));
    refuse(call(), finished(id(2, 7)));
    refuse(call(), started(id(2, 1), Guard::Opaque)); // idempotent
    refuse(call(), started(id(2, 0), Guard::Opaque)); // another class
    refuse(with(vec![finished(id(2, 1))]), finished(id(2, 1))); // twice
    refuse(
        with(vec![started(id(2, 0), supervised())]),
        started(id(2, 2), Guard::Opaque),
    ); // two at once
    refuse(with(vec![stopped()]), started(id(2, 0), supervised()));
    refuse(
        vec![said("go"), stopped()],
        replied(vec![Block::text("after the stop")]),
    );
    let ended = Some(About::BackgroundEnded {
        id: "b".into(),
        exit_code: None,
        spent: Vec::new(),
        asks_model: false,
    });
    refuse(
        vec![],
        Entry::Noted {
            text: String::new(),
            about: ended,
        },
    );
    let user_ended = |entry| Entry::Noted {
        text: String::new(),
        about: Some(About::UserCommandEnded {
            entry,
            exit_code: None,
        }),
    };
    refuse(vec![], user_ended(1)); // never begun
    refuse(vec![user_command(), user_ended(1)], user_ended(1)); // twice
    refuse(with(vec![user_command()]), user_ended(3)); // while a call is open
    refuse(
        vec![],
        Entry::UserCommand {
            command: "make".into(),
            guard: Guard::Checked {
                path: "/f".into(),
                before: None,
                after: "h".into(),
            },
        },
    ); // another class
    let gap = Record {
        seq: 5,
        at_ms: 0,
        entry: said("x"),
    };
    assert!(state([said("go")]).fold(&gap).is_err());
}

/// A command of the user's that is about to be begun.
fn user_command() -> Entry {
    Entry::UserCommand {
        command: "make".into(),
        guard: supervised(),
    }
}

#[test]
fn a_command_of_the_user_is_unfinished_until_its_end_is_told() {
    let ended = Entry::Noted {
        text: "it ended".into(),
        about: Some(About::UserCommandEnded {
            entry: 1,
            exit_code: Some(0),
        }),
    };
    let runs = state(vec![user_command()]);
    assert!(runs.unfinished() && !runs.owed);
    assert_eq!(runs.user_commands[&1].run(), Some("r"));
    let over = state(vec![user_command(), ended]);
    assert!(!over.unfinished() && over.user_commands.is_empty());
    // It may be typed while a call runs.
    let open = vec![said("go"), replied(vec![bash("x")]), user_command()];
    assert_eq!(state(open).user_commands.len(), 1);
    // What runs stays with the session that started it.
    let forked = Entry::Forked {
        from: ForkPoint {
            session: "s".into(),
            seq: 1,
        },
        folder: None,
        from_replica: None,
    };
    let fork = state(vec![user_command(), forked]);
    assert!(fork.user_commands.is_empty());
    // One that has the terminal cannot be waited for.
    let on_terminal = Entry::UserCommand {
        command: "vim".into(),
        guard: Guard::Opaque,
    };
    assert!(!state(vec![on_terminal]).unfinished());
}

#[test]
fn each_result_is_sent_after_its_call() {
    let output = || Output::text("so far");
    let outcomes = [
        Outcome::done("ok"),
        Outcome::done(""),
        Outcome::error("no"),
        Outcome::Denied {
            reason: "never".into(),
        },
        Outcome::Interrupted {
            output: output(),
            why: "gone".into(),
        },
    ];
    let blocks = outcomes.iter().map(|_| read("a")).collect();
    let mut entries = vec![said("go"), replied(blocks)];
    let results = (0u32..)
        .zip(&outcomes)
        .map(|(index, outcome)| Entry::Finished {
            call: id(2, index),
            outcome: outcome.clone(),
            fact: None,
            tree: None,
        });
    entries.extend(results);
    let messages = messages(&state(entries), usize::MAX);
    assert_valid(&messages);
    let told: Vec<(&str, &str, bool)> = messages[2]
        .parts
        .iter()
        .filter_map(|part| match part {
            MessagePart::Result {
                id, text, is_error, ..
            } => Some((id.as_str(), text.as_str(), *is_error)),
            _ => None,
        })
        .collect();
    assert_eq!(
        told,
        [
            ("c00000003", "ok", false),
            ("c00000007", "(no output)", false),
            ("c0000000C", "no", true),
            ("c0000000I", "denied: never", true),
            ("c0000000P", "so far\n[interrupted: gone]", true),
        ]
    );
}

#[test]
fn an_entry_is_read_as_it_was_written() {
    let entries = [
        opened(),
        said("x"),
        replied(vec![
            Block::Thinking {
                text: "t".into(),
                sealed: Some(serde_json::json!({"signature": "s"})),
            },
            read("a"),
        ]),
        started(
            id(1, 0),
            Guard::Checked {
                path: "/a".into(),
                before: None,
                after: "h".into(),
            },
        ),
        interrupted(id(1, 0)),
        resumed(By::Person),
        failed(),
    ];
    for entry in entries {
        let json = serde_json::to_string(&entry).expect("serialises");
        assert!(
            json.contains(&format!("\"kind\":\"{}\"", entry.kind())),
            "{json}"
        );
        assert_eq!(serde_json::from_str::<Entry>(&json).expect("reads"), entry);
    }
    assert!(serde_json::from_str::<Entry>(r#"{"kind":"dreamt"}"#).is_err());
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" \n".into()),
        "\\PC{0,12}",
        Just("\u{0}\u{1b}[31m\u{202e}".into())
    ]
}

fn any_block() -> impl Strategy<Value = Block> {
    prop_oneof![
        any_text().prop_map(Block::text),
        any_text().prop_map(|text| Block::Thinking { text, sealed: None }),
        "[a-c]".prop_map(|p| read(&p)),
        Just(poke()),
        prop_oneof![Just("true"), Just("ask"), Just("deny")].prop_map(bash),
        any_text().prop_map(|t| Block::call("read", t)),
        any_text().prop_map(|t| Block::call(t, "{}")),
    ]
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        any_text().prop_map(Outcome::done),
        any_text().prop_map(Outcome::error),
        any_text().prop_map(|reason| Outcome::Denied { reason }),
        any_text().prop_map(|why| Outcome::Interrupted {
            output: Output::default(),
            why
        }),
    ]
}

/// Any entry, sensible or not; calls are named by their distance from the last answer.
#[derive(Debug, Clone)]
enum Move {
    /// Results from this one on leave for a line each.
    Free(prop::sample::Index),
    Plain(Entry),
    Start(u32),
    Finish(u32, Outcome),
    Decide(u32, bool),
    /// Whether the answer fits, and whether the model is told.
    Check(bool, bool),
    /// Hooks follow the last entry.
    Hook,
    /// The first hooks that are pending end with this verdict.
    Hooked(HookVerdict),
    /// A check starts, and the one that runs ends.
    StartCheck,
    EndCheck,
}

fn any_move() -> impl Strategy<Value = Move> {
    let image = Image {
        media_type: "image/png".into(),
        blob: BlobRef {
            hash: "h".into(),
            bytes: 1,
        },
    };
    let stop = prop_oneof![
        Just(StopReason::ToolUse),
        Just(StopReason::MaxTokens),
        Just(StopReason::EndTurn)
    ];
    let reply = (
        prop::collection::vec(any_block(), 0..5),
        stop,
        any::<bool>(),
    )
        .prop_map(|(blocks, stop, same)| {
            let model = if same { MODEL } else { "other/model" }.to_string();
            Entry::Replied {
                blocks,
                usage: Usage::default(),
                stop,
                model,
                took_ms: 0,
                asked_bytes: 0,
                source_usage: None,
            }
        });
    let plain = prop_oneof![
        4 => reply,
        3 => (any_text(), any::<bool>()).prop_map(move |(text, with)| Entry::Said {
            text,
            images: if with { vec![image.clone()] } else { vec![] },
            via: Via::Queue, command: None,
            origin: None,
        }),
        1 => any_text().prop_map(|d| Entry::Stopped { draft: Some(d), origin: None }),
        1 => any_text().prop_map(|text| Entry::Noted { text, about: None }),
        1 => Just(failed()),
        1 => Just(resumed(By::Start)),
        1 => Just(Entry::Saved { reason: SaveReason::Timer, tree: None, why: None, clock: None }),
        1 => Just(Entry::Forked { from: ForkPoint { session: "s".into(), seq: 0 }, folder: None, from_replica: None, }),
        1 => Just(restoring()),
        2 => Just(restored(None)),
        1 => any_text().prop_map(|note| Entry::Continued { note, by: SummaryBy::Digest, spent: Vec::new(), story: None }),
        1 => Just(Entry::Chose(Choice { fallback: Some(Box::new(FallbackModel {
            model: "fallback/model".into(),
            error: Failure { class: FailureClass::Overloaded, message: "busy".into(), hint: None },
        })), effort: Some(Effort::High), temperature: Some(0.5), ..Choice::default() })),
        1 => Just(Entry::Chose(Choice::of_model("other/model"))),
        1 => Just(Entry::Chose(Choice {
            schema: Some(serde_json::json!({ "type": "object" })),
            ..Choice::default()
        })),
        1 => Just(Entry::Chose(Choice { without_schema: true, ..Choice::default() })),
    ];
    prop_oneof![
        4 => plain.prop_map(Move::Plain),
        2 => (0..5u32).prop_map(Move::Start),
        5 => (0..5u32, any_outcome()).prop_map(|(i, o)| Move::Finish(i, o)),
        1 => (0..5u32, any::<bool>()).prop_map(|(i, yes)| Move::Decide(i, yes)),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(fits, told)| Move::Check(fits, told)),
        1 => any::<prop::sample::Index>().prop_map(Move::Free),
        3 => Just(Move::Hook),
        3 => any_verdict().prop_map(Move::Hooked),
        2 => Just(Move::StartCheck),
        2 => Just(Move::EndCheck),
    ]
}

fn any_verdict() -> impl Strategy<Value = HookVerdict> {
    prop_oneof![
        Just(HookVerdict::None),
        Just(HookVerdict::Allow),
        Just(HookVerdict::Ask),
        Just(HookVerdict::Failed),
        Just(HookVerdict::Deny),
    ]
}

fn hook_run(call: Option<CallId>) -> HookRun {
    HookRun {
        hook: "hooks.json: guard".into(),
        call,
        run: "run".into(),
        boot: "boot".into(),
        is_of_user: false,
        may_fail: false,
        failed: None,
    }
}

/// The end of pending hooks.
fn hooked_of(state: &State, of: Seq, call: Option<CallId>, verdict: HookVerdict) -> Entry {
    let hooks = state
        .hooks
        .pending()
        .iter()
        .find(|h| h.seq == of)
        .expect("pending hooks");
    let runs = hooks.runs.iter().filter(|run| run.call == call);
    let result = |run: &HookRun| HookResult {
        is_brief: true,
        hook: run.hook.clone(),
        verdict,
        reason: "the hook says so".into(),
        ..HookResult::default()
    };
    Entry::Hooked {
        event: hooks.event,
        of,
        call,
        results: runs.map(result).collect(),
    }
}

fn entry_of(state: &State, step: Move) -> Option<Entry> {
    let call = |index: u32| state.calls.get(index as usize).map(|c| &c.call);
    Some(match step {
        Move::Plain(entry) => entry,
        Move::Check(fits, told) => Entry::Checked {
            answer: state.unchecked()?,
            unfit: (!fits).then(|| Unfit {
                path: String::new(),
                why: "no".into(),
            }),
            told: told.then(|| "mend it".into()),
        },
        Move::Free(which) => {
            let context = state.context.iter();
            let results: Vec<u64> = context
                .filter(|r| matches!(r.entry, Entry::Finished { .. }))
                .map(|r| r.seq)
                .collect();
            let results = results.get(which.index(results.len() + 1)..)?;
            freeing::entry(state, results)?
        }
        Move::Hook => {
            let last = state
                .context
                .last()
                .filter(|r| r.seq + 1 == state.next_seq())?;
            let (event, calls) = event_after(&last.entry, state)?;
            Entry::Hooking {
                event,
                of: last.seq,
                runs: calls.into_iter().map(hook_run).collect(),
            }
        }
        Move::Hooked(verdict) => {
            let hooks = state.hooks.pending().first()?;
            hooked_of(state, hooks.seq, hooks.runs[0].call, verdict)
        }
        Move::StartCheck => checks::started("lint", state.checks.answer()),
        Move::EndCheck => checks::ended("lint", state.checks.running()?.seq),
        Move::Start(index) => {
            let call = call(index)?;
            let guard = match call.class()? {
                rewake::core::tool::Class::Supervised => supervised(),
                _ => Guard::Opaque,
            };
            started(call.id, guard)
        }
        Move::Finish(index, outcome) => Entry::Finished {
            call: call(index)?.id,
            outcome,
            fact: None,
            tree: None,
        },
        Move::Decide(index, yes) => {
            let verdict = if yes {
                Verdict::Allow
            } else {
                Verdict::Deny {
                    reason: "no".into(),
                }
            };
            Entry::Decided {
                at: None,
                call: call(index)?.id,
                verdict,
                by: By::Person,
                access: None,
                rule: None,
                origin: None,
            }
        }
    })
}

/// They are in logs of requests and in caches: the same call keeps its id in every version.
#[test]
fn ids_of_calls_are_nine_letters_and_digits_and_never_change() {
    let id = |reply, index| CallId { reply, index }.wire();
    assert_eq!(id(0, 0), "c00000000");
    assert_eq!(id(3, 1), "c0000000B");
    assert_eq!(id(1_000_000, 511), "c08oKVnTD");
    // More than nine where there is no room, and still unlike any other.
    assert_eq!(id(u64::MAX, u32::MAX), "c3tX16eq5C820PcpjzF3Zxo");
    let mut ids = std::collections::HashSet::new();
    for reply in (0..300).chain(19_000_000..19_000_300) {
        for index in (0..70).chain([511, 4_095]) {
            let id = id(reply, index);
            assert!(
                id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
                "{id}"
            );
            assert!(ids.insert(id), "{reply} {index}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// For every prefix of every legal log: the messages are valid, a request is only asked
    /// for when it can be sent, and the next request has the last one as its prefix.
    #[test]
    fn every_prefix_of_every_log_makes_valid_messages(moves in prop::collection::vec(any_move(), 0..60)) {
        let mut state = state([]);
        let mut sent = Vec::new();
        let mut kept = KeptMessages::default();
        for step in moves {
            let Some(entry) = entry_of(&state, step) else { continue };
            // A message that a hook refuses was not sent: its hooks come first.
            let is_refused = matches!(&entry, Entry::Hooked { event: HookEvent::UserPromptSubmit, .. });
            let renews = is_refused
                || matches!(entry, Entry::Continued { .. } | Entry::Freed { .. } | Entry::Chose(_));
            let model = state.model.clone();
            let record = Record { seq: state.next_seq(), at_ms: 0, entry };
            if state.fold(&record).is_err() {
                continue;
            }
            // What was made by one model is sent to another in another form.
            if renews || state.model != model {
                sent.clear();
            }
            let now = messages(&state, usize::MAX);
            assert_valid(&now);
            prop_assert_eq!(&messages_again(&state, usize::MAX, &mut kept), &now);
            if what_next(&state, &policy(true)) == Step::CallModel {
                prop_assert_eq!(now.last().map(|m| m.role), Some(Role::User));
                prop_assert!(state.first_open().is_none());
                assert_extends(&sent, &now);
                sent = now;
            }
        }
    }

    /// How a session ended is the same, read from its last entries back or folded.
    #[test]
    fn the_ending_is_the_same_from_the_entries_alone(moves in prop::collection::vec(any_move(), 0..30)) {
        let mut records = vec![opened()];
        let mut state = state([]);
        for step in moves {
            let Some(entry) = entry_of(&state, step) else { continue };
            let record = Record { seq: state.next_seq(), at_ms: 0, entry };
            if state.fold(&record).is_err() {
                continue;
            }
            records.push(record.entry);
            // An answer that is not compared with its schema yet looks like any other.
            if state.unchecked().is_none() {
                let folded = state.ending(records.last());
                prop_assert_eq!(ending::of_entries(records.iter()), folded, "{:?}", records);
            }
        }
    }

    /// `next` always leads on: whatever it asks for can be recorded.
    #[test]
    fn each_next_step_can_be_recorded(
        moves in prop::collection::vec(any_move(), 0..60),
        waiting in any_pending(),
    ) {
        let mut state = state([]);
        for step in moves {
            if let Some(entry) = entry_of(&state, step) {
                let record = Record { seq: state.next_seq(), at_ms: 0, entry };
                let _ = state.fold(&record);
            }
            let policy = checks::with_check(policy(true));
            match next(&state, &policy, &waiting) {
                Step::RecordChoice => {
                    let chosen = Entry::Chose(Choice::of_mode(Mode::Plan));
                    prop_assert!(state.check(&chosen).is_ok());
                }
                Step::TakeMessage => prop_assert!(state.check(&said("more")).is_ok()),
                // All the others that take something in need that no call is open, as a note does.
                Step::Render | Step::CompactAsAsked | Step::ReportEnd(_) | Step::ReportUserEnd(_)
                | Step::Remind(_)
                | Step::Summarise(_) | Step::LearnLimit(_) | Step::Recall(_) => {
                    prop_assert!(state.check(&noted()).is_ok());
                }
                Step::ContinueAnswer => {
                    let about = Some(About::AnswerCut);
                    let told = Entry::Noted { text: "x".into(), about };
                    prop_assert!(state.check(&told).is_ok());
                }
                Step::NoteRepetition => {
                    let about = Some(About::Repeats { calls: 1, rounds: 4 });
                    let told = Entry::Noted { text: "x".into(), about };
                    prop_assert!(state.check(&told).is_ok());
                }
                Step::CallModel => prop_assert!(state.check(&replied(vec![])).is_ok()),
                Step::Close(call) => {
                    let open = state.call(call).expect("the call is there");
                    let Authorization::Close(outcome) = authorize(&state, &policy, open) else { panic!("no outcome") };
                    let entry = Entry::Finished { call, outcome, fact: None, tree: None };
                    prop_assert!(state.check(&entry).is_ok());
                }
                Step::Run(calls) => prop_assert!(!calls.is_empty()),
                Step::Settle(call) => prop_assert!(state.check(&interrupted(call)).is_ok()),
                Step::Ask(call) => {
                    let entry = Entry::Decided { at: None, call, verdict: Verdict::Allow, by: By::Person, access: None, rule: None, origin: None };
                    prop_assert!(state.check(&entry).is_ok());
                }
                Step::CheckAnswer(answer) => {
                    let entry = Entry::Checked { answer, unfit: None, told: None };
                    prop_assert!(state.check(&entry).is_ok());
                    prop_assert!(state.answer(answer).is_some());
                }
                Step::Free(results) => {
                    let entry = freeing::entry(&state, &results).expect("results of the context");
                    prop_assert!(state.check(&entry).is_ok());
                }
                Step::Restore => prop_assert!(state.check(&restored(None)).is_ok()),
                Step::RunHooks { hooking, calls } => {
                    prop_assert!(!calls.is_empty());
                    for call in calls {
                        prop_assert!(state.check(&hooked_of(&state, hooking, call, HookVerdict::None)).is_ok());
                    }
                }
                Step::StartCheck { check, .. } => {
                    prop_assert!(state.check(&checks::started(&check, state.checks.answer())).is_ok());
                }
                Step::RunCheck(entry) => {
                    prop_assert!(state.check(&checks::ended("lint", entry)).is_ok());
                }
                Step::Compact(_) | Step::Continue | Step::Wait(_) => {}
            }
        }
    }
}

fn any_pending() -> impl Strategy<Value = Pending> {
    let summary = prop_oneof![
        Just(BackgroundSummary::None),
        Just(BackgroundSummary::Running),
        Just(BackgroundSummary::Paused),
        Just(BackgroundSummary::Alone),
        (0..9u64, 0..9u64)
            .prop_map(|(first, last)| BackgroundSummary::Ready(TurnRange { first, last })),
    ];
    let flags = any::<[bool; 8]>();
    let ended = prop::option::of("bg_[0-9]");
    let ends = (ended, prop::option::of(0..9u64));
    (flags, ends, summary, prop::option::of(0..9u64)).prop_map(
        |(
            [
                choice,
                waits_for_person,
                settles,
                left_open,
                rendering,
                compaction,
                message,
                has_changed,
            ],
            ends,
            summary,
            recalled,
        )| {
            let (ended, user_ended) = ends;
            Pending {
                choice,
                waits_for_person,
                settles,
                left_open,
                rendering,
                compaction,
                ended,
                user_ended,
                message,
                summary,
                changed: if has_changed {
                    vec!["src/a.rs".into()]
                } else {
                    Vec::new()
                },
                recalled,
            }
        },
    )
}

#[test]
fn pending_input_is_taken_in_before_the_model_is_called() {
    let owing = || state(vec![said("go")]);
    let with = |change: &dyn Fn(&mut Pending)| {
        let mut pending = nothing_else(&owing());
        change(&mut pending);
        next(&owing(), &policy(true), &pending)
    };
    assert_eq!(with(&|_| ()), Step::CallModel);
    assert_eq!(with(&|p| p.choice = true), Step::RecordChoice);
    assert_eq!(with(&|p| p.rendering = true), Step::Render);
    assert_eq!(with(&|p| p.compaction = true), Step::CompactAsAsked);
    assert_eq!(
        with(&|p| p.ended = Some("bg_2_0".into())),
        Step::ReportEnd("bg_2_0".into())
    );
    assert_eq!(with(&|p| p.user_ended = Some(3)), Step::ReportUserEnd(3));
    assert_eq!(with(&|p| p.message = true), Step::TakeMessage);
    assert_eq!(with(&|p| p.recalled = None), Step::Recall(1));
    let all = |p: &mut Pending| {
        (p.choice, p.rendering, p.compaction, p.message) = (true, true, true, true);
        p.ended = Some("bg_2_0".into());
    };
    assert_eq!(with(&all), Step::RecordChoice);
    assert_eq!(
        with(&|p| {
            all(p);
            p.choice = false;
        }),
        Step::Render
    );
}

#[test]
fn while_a_call_is_open_nothing_is_taken_in() {
    let open = state(vec![said("go"), replied(vec![bash("x")])]);
    let pending = Pending {
        rendering: true,
        compaction: true,
        ended: Some("bg_2_0".into()),
        message: true,
        ..Pending::default()
    };
    assert_eq!(
        next(&open, &policy(true), &pending),
        Step::Run(vec![id(2, 0)])
    );
}

#[test]
fn while_a_person_is_waited_for_only_what_they_asked_for_is_done() {
    let waiting = |compaction| Pending {
        waits_for_person: true,
        compaction,
        message: true,
        ended: Some("bg_2_0".into()),
        ..Pending::default()
    };
    let owing = state(vec![said("go")]);
    let next_of = |state: &State, compaction| next(state, &policy(true), &waiting(compaction));
    assert_eq!(next_of(&owing, false), Step::Wait(Why::Idle));
    assert_eq!(next_of(&owing, true), Step::CompactAsAsked);
    let open = state(vec![said("go"), replied(vec![bash("x")])]);
    assert_eq!(next_of(&open, true), Step::Wait(Why::Idle));
    let stopped = state(vec![said("go"), stopped()]);
    assert_eq!(next_of(&stopped, false), Step::Wait(Why::Halted));
}

/// In an editor, the results of commands are recorded meanwhile, and nothing more is done.
#[test]
fn while_a_person_is_waited_for_started_calls_may_be_settled() {
    let waiting = Pending {
        waits_for_person: true,
        settles: true,
        message: true,
        ..Pending::default()
    };
    let next_of = |state: &State| next(state, &policy(true), &waiting);
    let call = id(2, 0);
    let open = vec![said("go"), replied(vec![bash("x")])];
    assert_eq!(next_of(&state(open.clone())), Step::Wait(Why::Idle));
    let running = [open, vec![started(call, supervised())]].concat();
    assert_eq!(next_of(&state(running.clone())), Step::Settle(call));
    let ended = [running, vec![finished(call)]].concat();
    assert_eq!(next_of(&state(ended)), Step::Wait(Why::Idle));
}

fn restoring() -> Entry {
    Entry::Restoring {
        before: "0".repeat(32),
        target: "1".repeat(32),
        to: Some(1),
        new_folder: false,
        whole: false,
        kept: vec![],
        more_kept: 0,
    }
}

fn restored(why: Option<&str>) -> Entry {
    Entry::Restored {
        new_folder: false,
        tree: Some("1".repeat(32)),
        written: 1,
        removed: 0,
        paths: vec!["a".into()],
        kept: vec![],
        more_kept: 0,
        why: why.map(str::to_string),
    }
}

#[test]
fn files_that_are_half_set_back_are_done_before_all_else() {
    let half = state(vec![said("go"), restoring()]);
    assert!(half.unfinished());
    for waits_for_person in [false, true] {
        let pending = Pending {
            waits_for_person,
            message: true,
            compaction: true,
            ended: Some("bg_2_0".into()),
            ..Pending::default()
        };
        assert_eq!(next(&half, &policy(true), &pending), Step::Restore);
    }
    for entry in [said("more"), replied(vec![]), noted(), restoring()] {
        assert!(half.check(&entry).is_err(), "{entry:?}");
    }
    assert!(half.check(&stopped()).is_ok());
    // Starts that come to nothing are counted, and end.
    let mut entries = vec![said("go"), restoring()];
    entries.extend((0..MAX_RESTARTS).map(|_| Entry::Resumed {
        by: By::Start,
        found: String::new(),
        draft: None,
        unrecorded: false,
        at_work: false,
    }));
    let looping = state(entries.clone());
    let message = Pending {
        message: true,
        ..Pending::default()
    };
    assert_eq!(
        next(&looping, &policy(true), &message),
        Step::Wait(Why::CrashLoop)
    );
    entries.push(Entry::Resumed {
        by: By::Person,
        found: String::new(),
        draft: None,
        unrecorded: false,
        at_work: false,
    });
    assert_eq!(
        next(&state(entries), &policy(true), &message),
        Step::Restore
    );
    // An open call goes first, and nothing is set back that was not begun.
    assert!(
        state(vec![said("go"), replied(vec![bash("x")])])
            .check(&restoring())
            .is_err()
    );
    assert!(state(vec![said("go")]).check(&restored(None)).is_err());
}

#[test]
fn a_restore_keeps_the_next_step_and_leaves_none_to_a_fork() {
    let owing = state(vec![said("go"), restoring(), restored(None)]);
    assert_eq!(what_next(&owing, &policy(true)), Step::CallModel);
    let held = state(vec![said("go"), stopped(), restoring(), restored(None)]);
    assert_eq!(what_next(&held, &policy(true)), Step::Wait(Why::Halted));
    assert!(!held.unfinished());
    let told = messages(&owing, usize::MAX);
    let text = format!("{told:?}");
    assert!(text.contains("The user set 1 file back"), "{text}");
    let forked = Entry::Forked {
        from: ForkPoint {
            session: "other".into(),
            seq: 2,
        },
        folder: None,
        from_replica: None,
    };
    let copy = state(vec![said("go"), restoring(), forked]);
    assert_eq!(copy.restoring, None);
    assert_eq!(what_next(&copy, &policy(true)), Step::CallModel);
}

#[test]
fn a_message_lifts_a_hold_and_nothing_else_is_done_under_it() {
    let mut entries = vec![said("go")];
    entries.extend((0..MAX_RESTARTS).map(|_| resumed(By::Start)));
    let looping = state(entries);
    let with = |message| Pending {
        rendering: true,
        compaction: true,
        message,
        ..Pending::default()
    };
    assert_eq!(
        next(&looping, &policy(true), &with(false)),
        Step::Wait(Why::CrashLoop)
    );
    assert_eq!(
        next(&looping, &policy(true), &with(true)),
        Step::TakeMessage
    );
}

/// Everything that was sent is sent again first. The last message may have grown.
fn assert_extends(before: &[Message], now: &[Message]) {
    for (old, new) in before.iter().zip(now) {
        assert_eq!(old.role, new.role);
        assert!(new.parts.len() >= old.parts.len(), "{old:?} {new:?}");
        assert_eq!(old.parts[..], new.parts[..old.parts.len()]);
    }
    assert!(now.len() >= before.len());
}

/// A state in which these tools are listed besides, after this answer.
fn listing(more: &[&str], blocks: Vec<Block>) -> State {
    let mut records = log(vec![said("go"), replied(blocks)]);
    let Entry::Opened { layers, .. } = &mut records[0].entry else {
        unreachable!("it begins with `Opened`");
    };
    layers.tools.extend(more.iter().map(|name| ToolSpec {
        name: name.to_string(),
        description: String::new(),
        schema: serde_json::json!({"type": "object"}),
    }));
    State::of(rewake::tools::describe, &records).expect("a legal log")
}

fn through_mcp_call(tool: &str) -> Block {
    let arguments = serde_json::json!({ "tool": tool, "arguments": {} });
    Block::call("mcp_call", arguments.to_string())
}

#[track_caller]
fn fate_of_first(state: &State, policy: &Policy) -> Authorization {
    authorize(state, policy, state.first_open().expect("an open call"))
}

#[test]
fn a_tool_that_no_server_has_is_refused_before_anybody_is_asked() {
    let policy = Policy {
        permission_check: std::sync::Arc::new(|_, _, _| {
            let ask = Decision::Ask {
                why: "asks".into(),
                rule: None,
            };
            ask.into()
        }),
        served_check: std::sync::Arc::new(|name| match name {
            "mcp__far__poke" => Ok(()),
            name => Err(format!("there is no {name}; near to it: mcp__far__poke")),
        }),
        ..policy(true)
    };
    for block in [
        through_mcp_call("mcp__far__pkoe"),
        Block::call("mcp__far__pkoe", "{}"),
    ] {
        let state = listing(&["mcp_call"], vec![block]);
        let Authorization::Close(Outcome::Error { output }) = fate_of_first(&state, &policy) else {
            panic!("it is not closed");
        };
        assert_eq!(
            output.text,
            "not run: there is no mcp__far__pkoe; near to it: mcp__far__poke"
        );
        assert_eq!(what_next(&state, &policy), Step::Close(id(2, 0)));
    }
    for block in [
        through_mcp_call("mcp__far__poke"),
        Block::call("mcp__far__poke", "{}"),
    ] {
        let state = listing(&["mcp_call"], vec![block]);
        assert!(matches!(
            fate_of_first(&state, &policy),
            Authorization::Ask { .. }
        ));
    }
    let bad = Block::call("mcp_call", r#"{"tool":"mcp__far__poke","arguments":[1]}"#);
    let Authorization::Close(Outcome::Error { output }) =
        fate_of_first(&listing(&["mcp_call"], vec![bad]), &policy)
    else {
        panic!("it is not closed");
    };
    assert!(output.text.contains("`arguments` has to be an object"));
}

/// Models call a tool that they found by its own name, also where only `mcp_call` is listed.
#[test]
fn a_tool_of_a_server_may_be_called_by_its_name_where_any_of_them_can() {
    let call = || vec![Block::call("mcp__other__look", "{}")];
    for listed in ["mcp_call", "mcp"] {
        let state = listing(&[listed], call());
        assert!(matches!(
            fate_of_first(&state, &policy(true)),
            Authorization::Run { .. }
        ));
        assert_eq!(state.nonsense, 0);
    }
    let state = listing(&["mcp_find"], call());
    let Authorization::Close(Outcome::Error { output }) = fate_of_first(&state, &policy(true))
    else {
        panic!("it is not closed");
    };
    assert!(
        output
            .text
            .contains("there is no tool named \"mcp__other__look\"")
    );
    assert_eq!(state.nonsense, 1);
}
