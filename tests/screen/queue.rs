//! Messages that wait while the agent works.

use rewake::core::next::Why;
use rewake::core::signal::Signal;
use rewake::engine::Command;
use rewake::engine::Event;
use rewake::ui::app::Intent;
use rewake::ui::live::LiveEvent;

use crate::log::entry;
use crate::stage::{Stage, queued, scene};

fn working(stage: &mut Stage) {
    stage.open();
    stage.says("build it");
    for message in queued(&["then run the tests", "and write the docs"]) {
        stage.engine_event(Event::Queued(message));
    }
}

#[test]
fn queued_messages_are_shown() {
    scene!("queued", |stage: &mut Stage| {
        working(stage);
        stage.waits(5_000);
    });
    scene!("queued_edited", |stage: &mut Stage| {
        working(stage);
        stage.keys("<Up>");
    });
}

#[test]
fn a_queued_message_is_changed_in_its_place() {
    let mut stage = Stage::new(80, 24);
    working(&mut stage);
    stage.keys("<Up> in English<Enter>");
    let changed = stage.wanted.iter().find_map(|intent| match intent {
        Intent::Engine(Command::EditQueued { message, .. }) => message.clone(),
        _ => None,
    });
    assert_eq!(changed.unwrap().text, "and write the docs in English");
    assert!(stage.sent().is_empty());
}

fn edits(stage: &Stage) -> Vec<Option<String>> {
    let edits = stage.wanted.iter().filter_map(|intent| match intent {
        Intent::Engine(Command::EditQueued { message, .. }) => Some(message.clone()),
        _ => None,
    });
    edits.map(|m| m.map(|m| m.text)).collect()
}

#[test]
fn a_queued_message_that_is_emptied_is_deleted() {
    for keys in ["<Up><C-u><Enter>", "<Up><C-c><Enter>", "<Up><C-u>  <Enter>"] {
        let mut stage = Stage::new(100, 24);
        working(&mut stage);
        stage.keys("<Up>");
        stage.sees("or deletes it if empty");
        stage.keys(keys.strip_prefix("<Up>").unwrap());
        assert_eq!(edits(&stage), [None], "{keys}");
        stage.sees("deleted");
        assert_eq!(stage.app.input.composer.text(), "", "{keys}");
        // Enter again is no second word.
        stage.keys("<Enter>");
        assert_eq!(edits(&stage).len(), 1);
    }
}

#[test]
fn up_reaches_every_queued_message_and_then_the_prompts_before() {
    let mut stage = Stage::new(120, 24);
    stage.says("the prompt before");
    stage.replies(vec![crate::log::text("Done.")]);
    stage.open();
    stage.says("build it");
    for message in queued(&["one", "two\nin two lines", "three"]) {
        stage.engine_event(Event::Queued(message));
    }
    let text = |stage: &Stage| stage.app.input.composer.text();
    stage.keys("<Up>");
    assert_eq!(text(&stage), "three");
    stage.sees("queued 3 of 3");
    stage.keys("<Up>");
    assert_eq!(text(&stage), "two\nin two lines");
    stage.keys("<Up><Up>");
    assert_eq!(text(&stage), "one");
    stage.keys("<Up>");
    assert_eq!(text(&stage), "the prompt before");
    stage.keys("<Down>");
    assert_eq!(text(&stage), "");
    stage.keys("<Up><Up><Down>");
    assert_eq!(text(&stage), "three");
    // Behind the newest is the empty box.
    stage.keys("<Down>");
    assert_eq!(text(&stage), "");
    // What was changed stays until it is put back or left.
    stage.keys("<Up><Up> more<Up><Up>");
    assert_eq!(text(&stage), "two\nin two lines more");
    stage.keys("<Down><Enter>");
    assert_eq!(edits(&stage), [Some("two\nin two lines more".to_string())]);
}

#[test]
fn a_command_that_leaves_the_session_is_not_kept_as_its_draft() {
    for command in ["/new", "/resume 01a1", "/fork", "/quit", "/help"] {
        let mut stage = Stage::opened(80, 24);
        stage.keys(command);
        stage.waits(400);
        let kept = |stage: &Stage| {
            let mut kept = stage.wanted.iter().filter_map(|intent| match intent {
                Intent::Engine(Command::KeepInput(text)) => Some(text.clone()),
                _ => None,
            });
            kept.next_back()
        };
        assert!(kept(&stage).unwrap().contains(command), "{command}");
        stage.keys("<Enter>");
        // Before anything else is done.
        assert_eq!(kept(&stage).as_deref(), Some(""), "{command}");
        let at = |is: fn(&Intent) -> bool| stage.wanted.iter().rposition(is);
        let kept_at = at(|i| matches!(i, Intent::Engine(Command::KeepInput(_))));
        let left_at = at(|i| matches!(i, Intent::Open { .. } | Intent::Quit));
        assert!(left_at.is_none_or(|left| Some(left) > kept_at), "{command}");
    }
}

#[test]
fn a_queued_message_sent_while_edited_stays_in_the_box() {
    let mut stage = Stage::new(80, 24);
    stage.open();
    stage.says("build it");
    for message in queued(&["then run the tests"]) {
        stage.engine_event(Event::Queued(message));
    }
    stage.keys("<Up> twice");
    stage.replies(vec![crate::log::text("Built.")]);
    stage.says("then run the tests");
    stage.sees("then run the tests twice");
    stage.sees("was sent meanwhile");
    stage.does_not_see("queued: then");
}

#[test]
fn escape_leaves_a_queued_message_as_it_was() {
    let mut stage = Stage::new(80, 24);
    working(&mut stage);
    stage.keys("<Up> nonsense<Esc>");
    stage.does_not_see("nonsense");
    stage.sees("queued: and write the docs");
    let stopped = |i: &Intent| matches!(i, Intent::Engine(Command::Signal(Signal::Stop { .. })));
    assert!(!stage.wanted.iter().any(stopped), "the work goes on");
    stage.keys("<Esc>");
    assert!(stage.wanted.iter().any(stopped));
}

#[test]
fn enter_continues_after_a_failure_but_not_after_a_stop() {
    let goes_on = |i: &Intent| matches!(i, Intent::Engine(Command::Signal(Signal::GoOn)));
    for (entry, lifts) in [
        (entry::failed("the server is down", "start it"), true),
        (entry::stopped("I was about"), false),
    ] {
        let mut stage = Stage::opened(80, 24);
        stage.says("mend it");
        stage.log(entry);
        stage.engine_event(LiveEvent::Resting(Why::Halted));
        match lifts {
            true => stage.sees("Enter continues"),
            false => stage.does_not_see("Enter continues"),
        }
        stage.keys("<Enter>");
        assert_eq!(stage.wanted.iter().any(goes_on), lifts);
    }
}
