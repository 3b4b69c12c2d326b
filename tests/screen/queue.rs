//! Messages that wait while the agent works.

use rewake::core::next::Why;
use rewake::engine::Command;
use rewake::ui::app::Intent;
use rewake::ui::live::EngineEvent;

use crate::log::entry;
use crate::stage::{Stage, queued, scene};

fn working(stage: &mut Stage) {
    stage.open();
    stage.says("build it");
    for message in queued(&["then run the tests", "and write the docs"]) {
        stage.engine_event(EngineEvent::Queued(message));
    }
}

#[test]
fn what_waits_is_seen() {
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

#[test]
fn one_that_was_sent_meanwhile_is_not_lost_from_the_box() {
    let mut stage = Stage::new(80, 24);
    stage.open();
    stage.says("build it");
    for message in queued(&["then run the tests"]) {
        stage.engine_event(EngineEvent::Queued(message));
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
    let stopped = |i: &Intent| matches!(i, Intent::Engine(Command::Stop));
    assert!(!stage.wanted.iter().any(stopped), "the work goes on");
    stage.keys("<Esc>");
    assert!(stage.wanted.iter().any(stopped));
}

#[test]
fn enter_goes_on_after_a_failure_and_not_after_a_stop() {
    let goes_on = |i: &Intent| matches!(i, Intent::Engine(Command::GoOn));
    for (entry, lifts) in [
        (entry::failed("the server is down", "start it"), true),
        (entry::stopped("I was about"), false),
    ] {
        let mut stage = Stage::opened(80, 24);
        stage.says("mend it");
        stage.log(entry);
        stage.engine_event(EngineEvent::Resting(Why::Halted));
        match lifts {
            true => stage.sees("Enter goes on"),
            false => stage.does_not_see("Enter goes on"),
        }
        stage.keys("<Enter>");
        assert_eq!(stage.wanted.iter().any(goes_on), lifts);
    }
}
