//! A question about a call: what is seen of it, and what becomes of each answer.

use rewake::core::entry::{CallId, Mode, Verdict};
use rewake::engine::Command;
use rewake::ui::app::Intent;

use crate::log::{Log, bash, edit, entry, text};
use crate::stage::{Stage, scene};

const WHY: &str = "a command that no rule allows";

fn asked(stage: &mut Stage, rule: Option<&str>) -> CallId {
    stage.open();
    stage.says("push it");
    let id = stage.replies(vec![text("I will push."), bash("git push origin main")])[0];
    stage.asks(id, WHY, rule);
    id
}

fn verdicts(stage: &Stage) -> Vec<Verdict> {
    let decided = stage.wanted.iter().filter_map(|intent| match intent {
        Intent::Engine(Command::Decide { verdict, .. }) => Some(verdict.clone()),
        _ => None,
    });
    decided.collect()
}

#[test]
fn a_command_is_asked_about() {
    scene!("ask_command", |stage: &mut Stage| {
        asked(stage, None);
    });
    scene!("ask_rule", |stage: &mut Stage| {
        asked(stage, Some("Bash(git push:*)"));
        stage.keys("<Down>");
    });
    scene!("ask_deny", |stage: &mut Stage| {
        asked(stage, Some("Bash(git push:*)"));
        stage.keys("nnot before the tests pass");
    });
}

#[test]
fn all_of_a_long_command_can_be_read() {
    let command: String = (1..=60).map(|n| format!("echo step {n} && \\\n")).collect();
    let command = format!("{command}rm -rf build");
    scene!("ask_long", |stage: &mut Stage| {
        stage.open();
        stage.says("go");
        let id = stage.replies(vec![bash(&command)])[0];
        stage.asks(id, WHY, None);
    });
    let mut stage = Stage::opened(80, 24);
    stage.says("go");
    let id = stage.replies(vec![bash(&command)])[0];
    stage.asks(id, WHY, None);
    stage.does_not_see("rm -rf build");
    stage.keys(&"j".repeat(80));
    stage.sees("rm -rf build");
    stage.sees(WHY);
    assert_eq!(verdicts(&stage), []);
}

#[test]
fn an_edit_is_asked_about_with_its_diff() {
    scene!("ask_edit", |stage: &mut Stage| {
        stage.open();
        stage.says("mend it");
        let old = "fn next(&self) -> usize {\n    self.at - 1\n}";
        let new = "fn next(&self) -> usize {\n    self.at\n}";
        let id = stage.replies(vec![edit("src/parser.rs", old, new)])[0];
        stage.asks(id, "an edit of a file", Some("Edit(src/**)"));
    });
}

#[test]
fn each_answer_is_given() {
    let answered = |keys: &str, rule: Option<&str>| {
        let mut stage = Stage::new(80, 24);
        asked(&mut stage, rule);
        stage.keys(keys);
        let always = stage.wanted.iter().find_map(|intent| match intent {
            Intent::AllowAlways(rule) => Some(rule.clone()),
            _ => None,
        });
        (verdicts(&stage), always)
    };
    let rule = Some("Bash(git push:*)");
    let deny = |reason: &str| Verdict::Deny {
        reason: reason.into(),
    };
    assert_eq!(answered("y", None), (vec![Verdict::Allow], None));
    assert_eq!(answered("<Enter>", rule), (vec![Verdict::Allow], None));
    assert_eq!(
        answered("a", rule),
        (vec![Verdict::Allow], rule.map(String::from))
    );
    assert_eq!(answered("a", None), (vec![], None));
    assert_eq!(answered("nlater<Enter>", rule), (vec![deny("later")], None));
    // What is typed by chance is no answer.
    assert_eq!(answered("x <C-y><F5>", rule), (vec![], None));
}

#[test]
fn the_words_in_the_box_are_there_after_the_question() {
    let mut stage = Stage::opened(80, 24);
    stage.says("push it");
    stage.keys("half a sentence");
    let id = stage.replies(vec![bash("git push")])[0];
    stage.asks(id, WHY, None);
    stage.keys("y");
    stage.log(entry::allowed(id));
    stage.sees("half a sentence");
}

#[test]
fn escape_stops_the_work_and_page_up_looks_round() {
    let mut stage = Stage::new(80, 24);
    for n in 0..30 {
        stage.says(&format!("question {n}"));
        stage.replies(vec![text("answer")]);
    }
    asked(&mut stage, None);
    stage.keys("<PageUp><PageUp>");
    stage.sees("more below");
    stage.sees("bash asks");
    assert_eq!(verdicts(&stage), []);
    stage.keys("<Esc>");
    let stopped = |i: &Intent| matches!(i, Intent::Engine(Command::Stop));
    assert!(stage.wanted.iter().any(stopped));
}

#[test]
fn shift_tab_goes_round_the_modes_and_never_to_the_one_that_asks_nothing() {
    let mut stage = Stage::opened(80, 24);
    let mut seen = Vec::new();
    for _ in 0..3 {
        stage.keys("<S-Tab>");
        let chosen = stage.wanted.drain(..).find_map(|intent| match intent {
            Intent::Engine(Command::Choose { mode, .. }) => mode,
            _ => None,
        });
        let mode = chosen.unwrap();
        seen.push(mode);
        stage.log(entry::chose(mode));
        stage.sees(mode.name());
    }
    assert_eq!(seen, [Mode::AcceptEdits, Mode::Plan, Mode::Default]);
}

#[test]
fn a_question_is_open_again_when_its_session_is() {
    let mut log = Log::default();
    log.push(entry::said("push it"));
    log.push(entry::replied(vec![bash("git push")]));
    let mut stage = Stage::new(80, 24);
    stage.log = log;
    stage.open();
    let id = CallId { reply: 2, index: 0 };
    stage.asks(id, WHY, None);
    stage.sees("bash asks");
    stage.sees("git push");
}
