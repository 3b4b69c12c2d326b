//! The last line: what would be lost if the power went now, and what runs.

use rewake::ui::live::EngineEvent;
use serde_json::json;

use crate::log::{call, entry, text};
use crate::stage::{Stage, scene};

fn status(stage: &mut Stage) -> String {
    stage.rows().pop().unwrap_or_default()
}

#[test]
fn what_is_kept_is_said_with_its_age() {
    let mut stage = Stage::opened(120, 40);
    stage.says("hello");
    stage.waits(300);
    assert!(status(&mut stage).ends_with("saved 0.3 s ago"));
    stage.waits(30_000);
    assert!(status(&mut stage).ends_with("saved 30 s ago"));
}

#[test]
fn what_cannot_be_kept_is_said_in_red() {
    scene!("not_saved", |stage: &mut Stage| {
        stage.open();
        stage.says("hello");
        stage.engine_event(EngineEvent::Paused(
            "cannot record: the disk is full".into(),
            Some("free some space on /home".into()),
        ));
    });
    let mut stage = Stage::opened(80, 24);
    stage.says("hello");
    stage.engine_event(EngineEvent::Paused(
        "cannot record: the disk is full".into(),
        None,
    ));
    let error = stage.app.theme.error;
    assert_eq!(stage.style_of("not saved").fg, error.fg);
    assert_eq!(stage.style_of("nothing can be saved").fg, error.fg);
    stage.engine_event(EngineEvent::GoesOn);
    stage.does_not_see("not saved");
    stage.engine_event(EngineEvent::Kept(Err("cannot keep what is typed".into())));
    stage.sees("not saved");
    stage.engine_event(EngineEvent::Kept(Ok(())));
    stage.does_not_see("not saved");
}

#[test]
fn a_journal_that_cannot_be_written_is_told_and_the_session_goes_on() {
    let mut stage = Stage::opened(80, 24);
    stage.says("hello");
    stage.engine_event(EngineEvent::JournalFails("the disk is full".into()));
    stage.sees("the journal is not written: the disk is full");
    stage.does_not_see("not saved");
}

#[test]
fn what_runs_in_the_background_is_counted() {
    scene!("background", |stage: &mut Stage| {
        stage.open();
        stage.says("serve it");
        for id in ["bg1", "bg2"] {
            let start = call(
                "bash",
                json!({ "command": "npm start", "background": true }),
            );
            let call = stage.replies(vec![start])[0];
            stage.log(entry::started(call));
            stage.log(entry::in_background(call, id, "npm start"));
        }
        stage.replies(vec![text("Both run.")]);
        stage.rest();
        stage.waits(400);
    });
}

#[test]
fn what_matters_most_stays_where_there_is_no_room() {
    for width in [30, 40, 60, 80, 120] {
        let mut stage = Stage::opened(width, 12);
        stage.says("hello");
        stage.replies(vec![text("Hello.")]);
        let line = status(&mut stage);
        assert!(line.contains("saved 0.0 s"), "{width}: {line:?}");
        assert!(line.contains("default"), "{width}: {line:?}");
        assert!(rewake::ui::text::width(&line) <= usize::from(width));
    }
}

#[test]
fn the_price_is_said_where_it_is_known() {
    let mut stage = Stage::opened(120, 40);
    stage.says("hello");
    for _ in 0..10 {
        stage.replies(vec![text("Hello.")]);
        stage.says("again");
    }
    let line = status(&mut stage);
    assert!(line.contains("↑42.0k ↓1.5k $0.0"), "{line}");
}

#[test]
fn only_what_is_inside_the_home_is_said_to_be() {
    for (home, said) in [
        ("/home/ann", "~/parser"),
        ("/home/an", "/home/ann/parser"),
        ("/home/ann/parser", "· ~ (main)"),
    ] {
        let mut stage = Stage::opened(120, 40);
        stage.app.launch.home = Some(home.into());
        let line = status(&mut stage);
        assert!(line.contains(said), "{line}");
    }
}
