//! The last line: what would be lost if the power went now, and what runs.

use rewake::core::entry::Mode;
use rewake::engine::Event;
use rewake::ui::app::Intent;
use rewake::ui::live::LiveEvent;
use serde_json::json;

use crate::log::{call, entry, text};
use crate::stage::{Stage, scene};

fn status(stage: &mut Stage) -> String {
    stage.rows().pop().unwrap_or_default()
}

#[test]
fn unsaved_time_is_shown_only_while_changes_are_pending() {
    let mut stage = Stage::opened(120, 40);
    stage.says("hello");
    stage.waits(30_000);
    assert!(status(&mut stage).ends_with("saved"));
    stage.streams("an ans");
    stage.waits(300);
    assert!(status(&mut stage).ends_with("saved 0.3 s ago"));
    stage.engine_event(Event::Kept(Ok(())));
    assert!(status(&mut stage).ends_with("saved"));
    // At rest nothing moves, so nothing is drawn again and again.
    stage.replies(vec![text("an answer")]);
    stage.rest();
    stage.waits(300);
    assert!(!stage.app.moves());
}

#[test]
fn the_clock_stands_still_while_a_person_is_asked() {
    let mut stage = Stage::opened(120, 40);
    stage.open();
    stage.says("push it");
    let id = stage.replies(vec![crate::log::bash("git push")])[0];
    stage.asks(id, "a command that no rule allows", None);
    stage.quiet();
    assert!(!stage.app.moves());
    let before = stage.app.now_ms;
    stage.waits(600_000);
    let waited = stage.app.now_ms - before;
    assert!(waited >= 600_000);
    stage.log(entry::decided(id));
    stage.log(entry::started(id));
    stage.sees("working ");
    let line = stage
        .rows()
        .into_iter()
        .find(|row| row.contains("working "));
    assert!(!line.unwrap().contains("min"));
}

#[test]
fn waiting_for_an_answer_and_getting_it_are_told_apart() {
    let mut stage = Stage::new(120, 40);
    stage.open();
    stage.says("hello");
    stage.waits(2_000);
    stage.does_not_see("first byte");
    stage.waits(10_000);
    stage.sees("waiting for the first byte 12 s");
    stage.streams(&"word ".repeat(64));
    stage.waits(2_000);
    stage.sees("streaming about 40 tok/s");
    stage.does_not_see("first byte");
}

#[test]
fn a_terminal_without_utf_8_gets_ascii_alone() {
    for (width, height) in [(120, 40), (80, 24), (20, 5)] {
        let mut stage = Stage::opened(width, height);
        stage.app.look.is_ascii = true;
        stage.says("漢字 and é");
        stage.runs(crate::log::bash("make"), 1, "no");
        let id = stage.replies(vec![crate::log::bash("git push")])[0];
        let screen = stage.screen();
        assert!(screen.is_ascii(), "{screen}");
        stage.asks(id, "a command that no rule allows", None);
        let screen = stage.screen();
        assert!(screen.is_ascii(), "{screen}");
    }
}

#[test]
fn a_failure_to_save_is_shown_in_red() {
    scene!("not_saved", |stage: &mut Stage| {
        stage.open();
        stage.says("hello");
        stage.engine_event(LiveEvent::Paused(
            "cannot record: the disk is full".into(),
            Some("free some space on /home".into()),
        ));
    });
    let mut stage = Stage::opened(80, 24);
    stage.says("hello");
    stage.engine_event(LiveEvent::Paused(
        "cannot record: the disk is full".into(),
        None,
    ));
    let error = stage.app.look.theme.error;
    assert_eq!(stage.style_of("NOT SAVED").fg, error.fg);
    assert_eq!(stage.style_of("nothing can be saved").fg, error.fg);
    stage.engine_event(LiveEvent::GoesOn);
    stage.does_not_see("NOT SAVED");
    stage.engine_event(Event::Kept(Err("cannot keep what is typed".into())));
    stage.sees("NOT SAVED");
    stage.engine_event(Event::Kept(Ok(())));
    stage.does_not_see("NOT SAVED");
}

#[test]
fn a_journal_failure_is_shown_and_the_session_continues() {
    let mut stage = Stage::opened(80, 24);
    stage.says("hello");
    stage.engine_event(Event::JournalFails("the disk is full".into()));
    stage.sees("the journal is not written: the disk is full");
    stage.does_not_see("not saved");
}

#[test]
fn background_commands_are_counted() {
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
fn tasks_in_the_background_are_told_from_commands() {
    let both = |stage: &mut Stage| {
        stage.open();
        stage.says("look at both");
        let task = |prompt: &str| call("task", json!({ "prompt": prompt, "background": true }));
        let start = call(
            "bash",
            json!({ "command": "npm start", "background": true }),
        );
        let calls = stage.replies(vec![task("count the lines"), start]);
        for (id, call) in ["bg1", "bg2"].into_iter().zip(calls) {
            let entries = match id {
                "bg1" => [
                    entry::task_started(call),
                    entry::task_in_background(call, id, "count the lines"),
                ],
                _ => [
                    entry::started(call),
                    entry::in_background(call, id, "npm start"),
                ],
            };
            entries.into_iter().for_each(|entry| stage.log(entry));
        }
        stage.replies(vec![text("Both run.")]);
        stage.rest();
        stage.waits(400);
    };
    scene!("background_task", both);
    let mut stage = Stage::new(120, 40);
    both(&mut stage);
    stage.sees("1 task at work · 1 running");
}

#[test]
fn the_most_important_status_parts_stay_at_narrow_widths() {
    for width in [30, 40, 60, 80, 120] {
        let mut stage = Stage::opened(width, 12);
        stage.says("hello");
        stage.replies(vec![text("Hello.")]);
        let line = status(&mut stage);
        assert!(line.contains("saved"), "{width}: {line:?}");
        assert!(line.contains("context "), "{width}: {line:?}");
        if width >= 60 {
            assert!(line.contains("default"), "{width}: {line:?}");
        }
        assert!(rewake::ui::text::width(&line) <= usize::from(width));
    }
}

#[test]
fn the_mode_that_asks_nothing_is_shown_at_any_width() {
    for width in [20, 30, 38, 80] {
        let mut stage = Stage::opened(width, 12);
        stage.app.session.now.mode = Mode::BypassPermissions;
        let line = status(&mut stage);
        assert!(line.contains("bypassPermissions"), "{width}: {line:?}");
    }
}

#[test]
fn a_known_price_is_shown_in_the_status() {
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
fn the_folder_is_named_without_its_path() {
    let mut stage = Stage::opened(120, 40);
    let line = status(&mut stage);
    assert!(line.contains("· parser main"), "{line}");
}

/// Esc leaves the session of another process. At no moment does it stop that process.
#[test]
fn esc_leaves_a_watched_session_from_its_first_frame_on() {
    let mut stage = Stage::new(120, 40);
    stage.watch();
    stage.says("build it");
    stage.keys("<Esc>");
    let leaves = |intent: &Intent| matches!(intent, Intent::Open { .. });
    assert!(stage.wanted.iter().any(leaves));
    let orders = |intent: &Intent| matches!(intent, Intent::Engine(_));
    assert!(!stage.wanted.iter().any(orders));
}
