//! What a server asks in the middle of a call: what is seen of it, and what becomes of keys.

use rewake::core::entry::{By, CallId, Entry, Guard, Outcome, Output};
use rewake::core::form::{FormAnswer, ServerQuestion};
use rewake::core::signal::Signal;
use rewake::engine::Event;
use rewake::engine::{ChildQuestion, Command};
use rewake::ui::app::Intent;
use serde_json::{Value, json};

use crate::log::{call, entry, text};
use crate::stage::{Stage, scene};

const CHILD: &str = "01a1fc18-224f-7000-8000-000000000001";

fn question(message: &str, wanted: Value) -> ServerQuestion {
    serde_json::from_value(json!({
        "server": "everything",
        "key": "1",
        "message": message,
        "wanted": wanted,
    }))
    .unwrap()
}

fn fields() -> Value {
    let choices = json!([
        {"value": "r", "label": "Red"}, {"value": "g", "label": "Green"}, {"value": "b", "label": "Blue"},
    ]);
    json!({"wanted": "form", "fields": [
        {"name": "name", "title": "Your name", "is_required": true, "kind": "text", "max_chars": 20,
            "description": "As it stands in your passport."},
        {"name": "age", "kind": "number", "is_integer": true, "min": 1.0, "max": 150.0},
        {"name": "sure", "title": "Are you sure?", "kind": "yes_no", "default": true},
        {"name": "colour", "kind": "one_of", "choices": choices, "default": "g"},
        {"name": "others", "title": "Other colours", "kind": "some_of", "choices": choices, "max": 2},
    ]})
}

fn whole() -> ServerQuestion {
    question("Please say who you are.\nIt is for the letter.", fields())
}

fn visit(url: &str) -> ServerQuestion {
    let wanted = json!({"wanted": "visit", "url": url});
    question("Please log in, so that the letter can be sent.", wanted)
}

/// A call of the server that asks is in progress.
fn in_call(stage: &mut Stage) -> CallId {
    stage.open();
    stage.says("write the letter");
    let arguments = json!({ "tool": "mcp__everything__letter", "arguments": {} });
    let letter = vec![text("I will write it."), call("mcp_call", arguments)];
    let id = stage.replies(letter)[0];
    stage.log(Entry::Started {
        call: id,
        guard: Guard::Served {
            server: "everything".into(),
            run: "run".into(),
            boot: "boot".into(),
            request: "1".into(),
            repeatable: false,
        },
        access: None,
    });
    id
}

fn asks(stage: &mut Stage, question: &ServerQuestion) -> CallId {
    let id = in_call(stage);
    record(stage, id, question);
    stage.engine_event(Event::ServerAsks(id, Box::new(question.clone())));
    id
}

fn record(stage: &mut Stage, call: CallId, question: &ServerQuestion) {
    stage.log(Entry::Asked {
        call,
        why: question.line(),
        rule: None,
        access: None,
        at: None,
        form: Some(Box::new(question.clone())),
    });
}

fn answered(stage: &mut Stage, call: CallId, answer: FormAnswer) {
    let asked = stage.log.last_seq();
    stage.log(Entry::Answered {
        call,
        asked,
        key: "1".into(),
        answer,
        by: By::Person,
        origin: None,
    });
}

fn accept(values: Value) -> FormAnswer {
    let Value::Object(values) = values else {
        panic!("no object");
    };
    FormAnswer::Accept { values }
}

fn answers(stage: &Stage) -> Vec<(CallId, FormAnswer)> {
    let sent = stage.wanted.iter().filter_map(|intent| match intent {
        Intent::Engine(Command::Answer { call, answer, .. }) => Some((*call, answer.clone())),
        _ => None,
    });
    sent.collect()
}

fn asked() -> (Stage, CallId) {
    let mut stage = Stage::new(80, 24);
    let id = asks(&mut stage, &whole());
    (stage, id)
}

#[test]
fn a_server_asks_with_a_form() {
    scene!("form", |stage: &mut Stage| {
        asks(stage, &whole());
        stage.quiet();
    });
    scene!("form_chosen", |stage: &mut Stage| {
        asks(stage, &whole());
        stage.answers("漢字 é<Tab>33<Tab><Tab><Right><Tab> <Down>");
    });
    scene!("form_wrong", |stage: &mut Stage| {
        asks(stage, &whole());
        stage.answers("<PageDown>ada<Tab>200");
        stage.confirms();
        stage.keys("<PageDown><Enter>");
    });
    scene!("form_visit", |stage: &mut Stage| {
        let url = "https://good.example@login.evil.example/oauth/authorize?client_id=1&scope=all";
        asks(stage, &visit(url));
        stage.quiet();
    });
    scene!("form_later", |stage: &mut Stage| {
        asks(stage, &whole());
        stage.answers("ada<Esc>");
    });
}

#[test]
fn a_filled_in_form_is_sent() {
    let (mut stage, id) = asked();
    stage.answers("ada<Tab>33<Enter>");
    assert_eq!(answers(&stage), [], "Enter right after a letter");
    stage.sees("ada");
    stage.confirms();
    let values = json!({"name": "ada", "age": 33, "sure": true, "colour": "g"});
    assert_eq!(answers(&stage), [(id, accept(values))]);
    stage.does_not_see("asks you");
}

#[test]
fn ctrl_d_declines_the_form() {
    let (mut stage, id) = asked();
    stage.answers("ada<C-d>");
    assert_eq!(answers(&stage), [(id, FormAnswer::Decline)]);
    assert!(!stage.is_over());
}

#[test]
fn keys_typed_before_the_form_go_to_the_box() {
    for early in ["go on<Enter>", "<C-d>", "y<Enter>"] {
        let (mut stage, _) = asked();
        stage.keys(early);
        assert_eq!(answers(&stage), [], "{early}");
        let typed = stage.app.input.composer.text() + &stage.sent().concat();
        let words = early.replace("<Enter>", "").replace("<C-d>", "");
        assert_eq!(typed, words);
        stage.sees("The server everything asks you");
        assert_eq!(
            stage
                .app
                .prompts
                .questions
                .form
                .as_ref()
                .unwrap()
                .entry
                .shown(0),
            ""
        );
    }
    // While words stand in the box, none of the keys is for the form.
    let (mut stage, _) = asked();
    stage.keys("half a sentence");
    stage.answers("x");
    stage.sees("half a sentencex");
    stage.sees("Tab puts your words aside");
    stage.keys("<Tab>");
    stage.answers("ada");
    stage.confirms();
    assert_eq!(answers(&stage).len(), 1);
    assert_eq!(stage.app.input.composer.text(), "half a sentencex");
}

#[test]
fn a_paste_goes_into_the_field_and_sends_nothing() {
    let (mut stage, id) = asked();
    stage.pastes("early");
    assert_eq!(stage.app.input.composer.text(), "early");
    stage.keys("<C-c>");
    stage.quiet();
    stage.pastes("ada\n");
    assert_eq!(answers(&stage), []);
    stage.keys("<Backspace>");
    stage.confirms();
    assert_eq!(answers(&stage)[0].0, id);
    assert_eq!(stage.app.input.composer.text(), "");
}

#[test]
fn a_form_put_aside_returns_with_its_values() {
    let (mut stage, id) = asked();
    stage.answers("ada<Esc>");
    stage.does_not_see("asks you");
    stage.sees("Enter answers");
    // The box is for words meanwhile.
    stage.keys("also the address<Enter>");
    assert_eq!(stage.sent(), ["also the address"]);
    // Twice is once too often: the second does not send.
    stage.keys("<Enter><Enter>");
    assert_eq!(answers(&stage), []);
    stage.resize(40, 12);
    stage.sees("ada");
    stage.resize(80, 24);
    // Who writes on need not wait.
    stage.keys(" l");
    stage.confirms();
    let values = json!({"name": "ada l", "sure": true, "colour": "g"});
    assert_eq!(answers(&stage), [(id, accept(values))]);
}

#[test]
fn escape_stops_the_model_when_the_form_is_aside() {
    let (mut stage, _) = asked();
    stage.answers("<Esc>");
    let stops =
        |intent: &Intent| matches!(intent, Intent::Engine(Command::Signal(Signal::Stop { .. })));
    assert!(!stage.wanted.iter().any(stops));
    stage.keys("<Esc>");
    assert!(stage.wanted.iter().any(stops));
}

#[test]
fn the_same_question_again_keeps_what_was_typed() {
    let (mut stage, id) = asked();
    stage.answers("ada");
    stage.engine_event(Event::ServerAsks(id, Box::new(whole())));
    stage.sees("ada");
    stage.confirms();
    assert_eq!(answers(&stage).len(), 1);
}

#[test]
fn a_question_that_is_answered_elsewhere_closes() {
    let (mut stage, id) = asked();
    stage.answers("a");
    answered(&mut stage, id, FormAnswer::Decline);
    stage.does_not_see("asks you");
    stage.sees("settled elsewhere");
    let (mut stage, id) = asked();
    stage.log(entry::done(id, "it was quicker"));
    stage.does_not_see("asks you");
    // The end of the call is in the conversation, as that of a stop.
    stage.does_not_see("settled elsewhere");
}

#[test]
fn the_conversation_has_the_question_and_its_answer() {
    scene!("form_told", |stage: &mut Stage| {
        let id = asks(stage, &whole());
        answered(
            stage,
            id,
            accept(json!({"name": "ada\nand more", "age": 33, "others": ["r", "b"]})),
        );
        stage.log(entry::done(id, "The letter is written."));
        let arguments = json!({ "tool": "mcp__everything__letter", "arguments": {} });
        let id = stage.replies(vec![call("mcp_call", arguments)])[0];
        stage.log(Entry::Started {
            call: id,
            guard: Guard::Served {
                server: "everything".into(),
                run: "run".into(),
                boot: "boot".into(),
                request: "2".into(),
                repeatable: false,
            },
            access: None,
        });
        record(stage, id, &visit("https://example.com"));
        answered(stage, id, FormAnswer::Decline);
        stage.log(entry::done(id, "Then not."));
        stage.log(entry::replied(vec![text("It is written.")]));
        stage.rest();
    });
}

#[test]
fn an_address_is_opened_by_a_key_alone() {
    let url = "https://example.com/login";
    let mut stage = Stage::new(80, 24);
    let id = asks(&mut stage, &visit(url));
    let opened = |stage: &Stage| {
        let mut intents = stage.wanted.iter();
        intents.any(|intent| matches!(intent, Intent::OpenInBrowser(to) if to == url))
    };
    stage.keys("o");
    assert!(!opened(&stage), "typed ahead");
    stage.keys("<Backspace>");
    stage.quiet();
    assert!(!opened(&stage));
    stage.keys("o<Enter>");
    assert!(!opened(&stage), "Enter right after a letter");
    stage.quiet();
    stage.sees("Enter opens it");
    stage.confirms();
    assert!(opened(&stage));
    assert_eq!(answers(&stage), []);
    stage.keys("<Enter>");
    assert_eq!(answers(&stage), [(id, accept(json!({})))]);
    // A sentence that begins with a key of it is for the box.
    let mut stage = Stage::new(80, 24);
    asks(&mut stage, &visit(url));
    stage.answers("okay wait");
    assert_eq!(stage.app.input.composer.text(), "okay wait");
    stage.confirms();
    assert!(!opened(&stage) && answers(&stage).is_empty());
    let mut stage = Stage::new(80, 24);
    let id = asks(&mut stage, &visit(url));
    stage.chooses("n");
    assert_eq!(answers(&stage), [(id, FormAnswer::Decline)]);
}

/// A form of a server may be longer than the screen, and wider.
#[test]
fn a_long_form_is_read_to_its_end_before_it_is_sent() {
    let fields: Vec<Value> = (0..32)
        .map(|n| json!({"name": format!("field {n} {}", "long ".repeat(30)), "kind": "text"}))
        .collect();
    let message = format!("{}\nthe end of it", "much to say ".repeat(40));
    let long = question(&message, json!({"wanted": "form", "fields": fields}));
    for (width, height) in [(80, 24), (40, 12), (20, 5)] {
        let mut stage = Stage::new(width, height);
        asks(&mut stage, &long);
        stage.answers("<Enter>");
        assert_eq!(answers(&stage), [], "{width}x{height}");
        stage.sees("everything asks");
        stage.keys(&"<PageDown>".repeat(200));
        stage.sees("field 31");
        stage.keys("<Enter>");
        assert_eq!(answers(&stage).len(), 1, "{width}x{height}");
    }
    let mut stage = Stage::new(20, 5);
    asks(&mut stage, &whole());
    stage.answers("ada");
    stage.sees("ada");
    stage.keys("<Tab>x");
    stage.sees("x");
}

#[test]
fn control_characters_in_a_form_are_shown_escaped() {
    let osc = "a\u{1b}]0;x\u{7}b\u{202e}c";
    let nasty = question(
        osc,
        json!({"wanted": "form", "fields": [
            {"name": osc, "title": osc, "description": osc, "kind": "one_of",
                "choices": [{"value": osc, "label": osc}], "default": osc},
        ]}),
    );
    let mut stage = Stage::new(80, 24);
    asks(&mut stage, &nasty);
    stage.quiet();
    let screen = stage.screen();
    assert!(
        !screen.contains(['\u{1b}', '\u{7}', '\u{202e}']),
        "{screen}"
    );
    assert!(screen.contains("a␛]0;x␇b<U+202E>c"), "{screen}");
}

fn child_asks(stage: &mut Stage) -> CallId {
    stage.open();
    stage.says("look it up");
    let task = call("task", json!({ "prompt": "Look it up" }));
    let id = stage.replies(vec![task])[0];
    stage.log(entry::task_started(id));
    let arguments = json!({ "tool": "mcp__everything__letter", "arguments": {} });
    let of_child = CallId { reply: 7, index: 0 };
    stage.engine_event(Event::ChildAsks(Some(Box::new(ChildQuestion {
        session: CHILD.into(),
        title: "Look it up".into(),
        call: rewake::tools::call(of_child, "mcp_call", &arguments.to_string()),
        asked: 9,
        why: whole().line(),
        access: None,
        form: Some(Box::new(whole())),
    }))));
    of_child
}

#[test]
fn the_form_of_a_task_is_filled_in_on_the_screen_of_its_parent() {
    let mut stage = Stage::new(80, 24);
    let id = child_asks(&mut stage);
    stage.sees("in the task \"Look it up\"");
    stage.answers("ada");
    stage.confirms();
    let sent = stage.wanted.iter().find_map(|intent| match intent {
        Intent::Engine(Command::AnswerChild {
            session,
            call,
            asked,
            answer,
        }) => Some((session.as_str(), *call, *asked, answer.clone())),
        _ => None,
    });
    let values = json!({"name": "ada", "sure": true, "colour": "g"});
    assert_eq!(sent, Some((CHILD, id, 9, accept(values))));
    assert_eq!(answers(&stage), []);
    stage.does_not_see("asks you");
    // It was answered elsewhere.
    let mut stage = Stage::new(80, 24);
    child_asks(&mut stage);
    stage.sees("asks you");
    stage.engine_event(Event::ChildAsks(None));
    stage.does_not_see("asks you");
}

#[test]
fn a_call_question_is_shown_before_a_form() {
    let mut stage = Stage::new(80, 24);
    child_asks(&mut stage);
    stage.answers("a");
    let reply = stage.log.last_seq() - 1;
    let id = CallId { reply, index: 0 };
    stage.asks(id, "a command that no rule allows", None);
    stage.does_not_see("asks you");
    stage.keys("da<Enter>");
    let sent = |intent: &Intent| matches!(intent, Intent::Engine(Command::AnswerChild { .. }));
    assert!(!stage.wanted.iter().any(sent));
}

/// The question of a task of the session before would be answered through another engine.
#[test]
fn a_question_of_a_session_that_was_left_does_not_come_up_in_the_next() {
    let mut stage = Stage::new(80, 24);
    child_asks(&mut stage);
    stage.sees("asks you");
    stage.open_with(|opening| opening.id = "another".into());
    stage.does_not_see("asks you");
    let reply = stage.log.last_seq() - 1;
    let task = CallId { reply, index: 0 };
    let done = Outcome::Done {
        output: Output::text("found"),
    };
    stage.log(entry::finished(task, done, None));
    stage.replies(vec![]);
    stage.says("next");
    let id = stage.replies(vec![call("bash", json!({ "command": "make" }))])[0];
    stage.asks(id, "a command that no rule allows", None);
    stage.denies("not now");
    let answered = |intent: &Intent| matches!(intent, Intent::Engine(Command::Decide { .. }));
    assert!(stage.wanted.iter().any(answered));
    stage.does_not_see("asks you");
}

/// Three questions of the model, as the tool `ask_user` makes them.
fn of_model() -> ServerQuestion {
    let options = |labels: &[&str]| -> Vec<Value> {
        let option = |label: &&str| {
            let value = label.split(':').next().unwrap_or_default();
            json!({ "value": value, "label": label })
        };
        labels.iter().map(option).collect()
    };
    let question = |n: u32, title: &str, text: &str, kind: &str, choices: Vec<Value>| {
        [
            json!({"name": format!("q{n}"), "title": title, "description": text, "kind": kind,
                "choices": choices}),
            json!({"name": format!("q{n}_other"), "title": "In your own words", "kind": "text",
                "max_chars": 10_000}),
        ]
    };
    let table =
        "Table: Aligned columns for people who read the report on a terminal of eighty columns";
    let fields = [
        question(
            1,
            "Format",
            "Which output format should the report have?",
            "one_of",
            options(&[table, "JSON: One object a line"]),
        ),
        question(2, "Place", "Where?", "one_of", options(&["stdout", "file"])),
        question(
            3,
            "Tests",
            "Which of these should be covered by tests?",
            "some_of",
            options(&["parser", "report", "cli"]),
        ),
    ];
    let wanted = json!({"wanted": "form", "fields": fields.concat()});
    ServerQuestion {
        server: String::new(),
        key: "ask_user".into(),
        message: "1. Which output format should the report have?\n2. Where?\n3. Which?".into(),
        ..question_of(wanted)
    }
}

fn question_of(wanted: Value) -> ServerQuestion {
    question("", wanted)
}

/// The model asks, and its call waits for the answer.
fn model_asks(stage: &mut Stage) -> CallId {
    stage.open();
    stage.says("write the report");
    let question = json!({"question": "Which output format should the report have?"});
    let arguments = json!({ "questions": [question] });
    let id = stage.replies(vec![text("I need to know."), call("ask_user", arguments)])[0];
    stage.log(Entry::Started {
        call: id,
        guard: Guard::Asks,
        access: None,
    });
    let question = of_model();
    record(stage, id, &question);
    stage.engine_event(Event::ServerAsks(id, Box::new(question)));
    id
}

#[test]
fn the_model_asks_one_question_after_the_other() {
    let mut stage = Stage::new(80, 24);
    model_asks(&mut stage);
    stage.quiet();
    stage.sees("The agent asks you · 3 questions");
    stage.sees("› Format · Place · Tests · Send");
    stage.sees("Which output format should the report have?");
    stage.sees("2. ( ) JSON: One object a line");
    stage.sees("4. ( ) Skip this question");
    stage.does_not_see("Where?");
    stage.answers("<Right>a database");
    stage.sees("› 3. (•) In your own words: a database");
    stage.answers("<Tab>13<Down>");
    stage.sees("1. [x] parser");
    stage.sees("3. [x] cli");
    stage.sees("› 4. [ ] In your own words:");
    stage.answers("<Tab>");
    stage.sees("Format: not answered yet");
    stage.sees("Place: a database");
    stage.sees("Tests: parser, cli");
}

/// However often Enter is pressed, it alone answers nothing.
#[test]
fn enter_alone_answers_no_question_of_the_model() {
    for (width, height) in [(80, 24), (40, 15)] {
        let mut stage = Stage::new(width, height);
        model_asks(&mut stage);
        stage.quiet();
        for _ in 0..12 {
            stage.keys("<PageDown><PageDown><Enter>");
            stage.quiet();
        }
        assert_eq!(answers(&stage), []);
        stage.sees("choose an answer first");
        // Nor is it one on the last step.
        stage.keys("<Tab><Tab><Tab>");
        stage.sees("not answered yet");
        stage.confirms();
        assert_eq!(answers(&stage), []);
    }
}

#[test]
fn each_question_of_the_model_is_answered_or_skipped() {
    let told = |keys: &[&str]| {
        let mut stage = Stage::new(80, 24);
        let id = model_asks(&mut stage);
        for keys in keys {
            stage.answers(keys);
            stage.confirms();
        }
        let mut sent = answers(&stage);
        assert_eq!(sent.len(), 1, "{keys:?}\n{}", stage.screen());
        assert_eq!(sent[0].0, id);
        sent.remove(0).1
    };
    // Digits and arrows choose, the last step confirms.
    let values = json!({"q1": "JSON", "q2": "stdout", "q3": ["parser", "cli"]});
    assert_eq!(told(&["2", "<Down>", "13", ""]), accept(values));
    // Own words instead of an option, and with ticked ones. A question is skipped by its last row.
    let values = json!({"q1_other": "CSV", "q3": ["report"], "q3_other": "and the page"});
    let keys = ["1CSV", "4", "2and the page", ""];
    assert_eq!(told(&keys), accept(values));
    // Who skips all of them has not answered.
    assert_eq!(told(&["4", "14", "5", ""]), FormAnswer::Decline);
    // An answer is changed from the last step.
    let values = json!({"q1": "JSON", "q2": "file", "q3": ["cli"]});
    let keys = ["1", "2", "3", "<Left><Left><Left>2<Right><Right><Right>"];
    assert_eq!(told(&keys), accept(values));
}
