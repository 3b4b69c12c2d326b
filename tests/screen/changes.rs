//! Below a command stands what it changed in the files, once that is known.

use rewake::core::access::Access;
use rewake::core::entry::{Block, Entry, SaveReason};
use rewake::session::ChangedFiles;
use rewake::ui::app::{Intent, Msg};

use crate::log::{bash, entry};
use crate::stage::{ID, Stage, scene};

/// What is asked of the worker after a frame: the entries that calls began and ended with.
fn asked(stage: &mut Stage) -> Vec<(u64, u64)> {
    stage.draw();
    let spans = stage.app.seen().into_iter().map(|intent| match intent {
        Intent::CallChanges { session, spans } => {
            assert_eq!(session, ID);
            spans
        }
        _ => panic!("something else is asked"),
    });
    spans.flatten().collect()
}

fn answers(stage: &mut Stage, span: (u64, u64), files: Option<&[(&str, &str)]>) {
    let files = files.map(|files| ChangedFiles {
        files: files
            .iter()
            .map(|(name, figures)| (name.to_string(), figures.to_string()))
            .collect(),
        count: files.len(),
        lines: Some((1, 1)),
    });
    stage.send(Msg::CallChanges(ID.into(), vec![(span, files)]));
}

fn saved(stage: &mut Stage) {
    stage.log(Entry::Saved {
        reason: SaveReason::Files,
        tree: Some("ab".repeat(16)),
        why: None,
        clock: None,
    });
}

fn three_files(stage: &mut Stage) {
    stage.open();
    stage.says("make the tables");
    stage.runs(bash("python3 make.py"), 0, "made");
    saved(stage);
    stage.rest();
    let span = asked(stage)[0];
    let files = [
        ("a.rs", "+1 −1"),
        ("made/b.rs", "+9 −0"),
        ("c", "mode 0644 → 0755"),
    ];
    answers(stage, span, Some(&files));
}

#[test]
fn a_command_says_how_many_files_it_changed_and_unfolded_which() {
    scene!("changed_files", |stage: &mut Stage| three_files(stage));
    scene!("changed_files_unfolded", |stage: &mut Stage| {
        three_files(stage);
        stage.keys("<C-o>");
    });
}

#[test]
fn the_row_of_a_rewind_has_the_files_that_commands_changed_and_cuts_the_message_first() {
    let mut stage = Stage::opened(80, 24);
    stage.says(&"make the tables and all the other things ".repeat(3));
    stage.runs(bash("python3 make.py"), 0, "made");
    saved(&mut stage);
    stage.replies(vec![Block::text("Made.")]);
    stage.rest();
    let span = asked(&mut stage)[0];
    answers(&mut stage, span, Some(&[("a", "+1 −1"), ("b", "+1 −1")]));
    stage.keys("<Esc><Esc>");
    let row = stage.line_with("…  12:0");
    assert!(row.contains(" · commands changed 2 files"), "{row}");
}

#[test]
fn changes_are_requested_once_per_recorded_tree() {
    let mut stage = Stage::opened(120, 40);
    stage.says("make");
    stage.runs(bash("make"), 0, "made");
    let first = asked(&mut stage);
    assert_eq!(first.len(), 1);
    assert_eq!(asked(&mut stage), [], "the answer is awaited");
    answers(&mut stage, first[0], None);
    stage.does_not_see("changed");
    assert_eq!(asked(&mut stage), [], "nothing came since");
    saved(&mut stage);
    assert_eq!(asked(&mut stage), first);
    answers(&mut stage, first[0], Some(&[("a", "+1 −0")]));
    stage.sees("changed 1 file");
    stage.does_not_see("+1 −0");
    assert_eq!(asked(&mut stage), []);
}

#[test]
fn only_what_is_on_the_screen_and_may_have_changed_files_is_asked_about() {
    let mut stage = Stage::opened(80, 24);
    stage.says("look");
    let id = stage.replies(vec![bash("ls")])[0];
    stage.log(entry::started_with(id, Access::Read));
    stage.log(entry::ran(id, 0, "a"));
    assert_eq!(asked(&mut stage), []);
    for at in 0..20 {
        stage.runs(bash(&format!("make {at}")), 0, "one\ntwo\nthree");
        saved(&mut stage);
    }
    let spans = asked(&mut stage);
    assert!((2..8).contains(&spans.len()), "{spans:?}");
    // Another session has entries with the same numbers.
    let other = "01a1fc18-224f-7000-8000-00000000000f".to_string();
    let files = ChangedFiles {
        count: 7,
        ..ChangedFiles::default()
    };
    stage.send(Msg::CallChanges(other, vec![(spans[0], Some(files))]));
    stage.does_not_see("changed 7 files");
}
