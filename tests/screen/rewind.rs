//! Going back: the message, what of it, the list of what would change, and what is asked for then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rewake::core::entry::{Fact, KeptWhy, Outcome};
use rewake::core::rewind::{PathChoice, Plan};
use rewake::core::tree::Tree;
use rewake::engine::Event;
use rewake::engine::{AfterPlan, Back, FilesWork, Rewinding};
use rewake::session::{
    ForkFolder, PathBecomes, PathChange, RewindPreview, RewindRow, RewindSection, SessionSelector,
};
use rewake::ui::app::{Intent, Msg};
use rewake::ui::live::{LiveEvent, RewindAnswer};
use rewake::ui::rewind::{RewindRequest, RewindShown};

use crate::log::{edit, entry, text};
use crate::stage::{ID, Stage, scene};

fn talk(stage: &mut Stage) {
    for (question, answer) in [
        ("repair the parser", "It is repaired."),
        ("and the docs", "Written."),
    ] {
        stage.says(question);
        stage.replies(vec![text(answer)]);
    }
    stage.open();
    stage.rest();
}

#[test]
fn each_message_has_its_time_and_the_files_that_changed_after_it() {
    let mut stage = Stage::new(120, 40);
    stage.says("repair the parser");
    let id = stage.replies(vec![edit("src/a.rs", "one", "two")])[0];
    let path = "/home/ann/parser/src/a.rs";
    stage.log(entry::checked(id, path));
    let wrote = Fact::Wrote {
        path: path.into(),
        hash: "0".into(),
    };
    stage.log(entry::finished(id, Outcome::done("ok"), Some(wrote)));
    stage.replies(vec![text("It is repaired.")]);
    stage.says("and the docs");
    stage.replies(vec![text("Written.")]);
    stage.open();
    stage.rest();
    stage.keys("/rewind<Enter>");
    let rows = stage.rows();
    let row = |text: &str| {
        rows.iter()
            .find(|row| row.contains(text) && row.contains("entry"))
            .cloned()
            .unwrap()
    };
    assert!(row("and the docs").contains("12:0"), "{rows:?}");
    assert!(!row("and the docs").contains("src/a.rs"), "{rows:?}");
    assert!(
        row("repair the parser").contains("src/a.rs +1 −1"),
        "{rows:?}"
    );
}

fn rewinding() -> Rewinding {
    Rewinding {
        plan: Plan::default(),
        then: Tree::default(),
        then_ms: 0,
        now: Tree::default(),
        before: "the tree that was seen".into(),
        running: Vec::new(),
        copy_of: None,
        entry: None,
        tree: None,
    }
}

fn becomes(what: PathBecomes, figures: &str) -> PathChange {
    PathChange {
        what,
        figures: figures.into(),
    }
}

fn row(name: &str, section: RewindSection, planned: Result<PathChange, KeptWhy>) -> RewindRow {
    let taken = match (&planned, section) {
        (Ok(change), _) => Some(change.clone()),
        (Err(_), RewindSection::Stays) => None,
        (Err(_), _) => Some(becomes(PathBecomes::Written, "+1 −1")),
    };
    RewindRow {
        path: name.as_bytes().to_vec(),
        name: name.into(),
        section,
        planned,
        taken,
    }
}

fn preview() -> RewindPreview {
    let written = |figures| Ok(becomes(PathBecomes::Written, figures));
    RewindPreview {
        rows: vec![
            row("src/a.rs", RewindSection::Calls, written("+12 −3")),
            row(
                "tools/x",
                RewindSection::Calls,
                Ok(becomes(PathBecomes::Removed, "+0 −4")),
            ),
            row("Cargo.lock", RewindSection::Commands, written("+2 −200")),
            row("made.txt", RewindSection::Commands, Err(KeptWhy::Command)),
            row(".envrc", RewindSection::Asked, Err(KeptWhy::Protected)),
            row("notes.md", RewindSection::Outside, Err(KeptWhy::Yours)),
            row("big.bin", RewindSection::Stays, Err(KeptWhy::Marker)),
        ],
        warnings: vec!["commits stay: HEAD moved once since (last: commit: a)".into()],
    }
}

fn shows(stage: &mut Stage, number: u64, preview: RewindPreview, is_other: bool) {
    let shown = RewindShown {
        preview,
        rewinding: Arc::new(rewinding()),
        is_other,
    };
    stage.engine_event(LiveEvent::RewindPlanned(number, RewindAnswer::Shown(shown)));
}

/// The list for the last message.
fn listed(stage: &mut Stage, keys: &str) {
    talk(stage);
    stage.keys(keys);
    shows(stage, 1, preview(), false);
    stage.quiet();
}

#[test]
fn words_that_are_typed_ahead_answer_no_list() {
    let mut stage = Stage::new(80, 24);
    talk(&mut stage);
    stage.keys(FILES);
    shows(&mut stage, 1, preview(), false);
    stage.draw();
    let before = requests(&stage).len();
    stage.keys("maybe they stay");
    stage.quiet();
    stage.keys("y");
    assert_eq!(requests(&stage).len(), before, "nothing is done");
    stage.sees("Tab first");
    stage.keys("<Esc>");
    stage.sees("maybe they stayy");
}

#[test]
fn esc_with_words_in_the_box_says_what_leads_to_a_rewind() {
    let mut stage = Stage::new(80, 24);
    talk(&mut stage);
    stage.keys("words<Esc><Esc>");
    stage.sees("your text stays; Ctrl+C clears it, then Esc Esc rewinds");
    assert_eq!(stage.app.input.composer.text(), "words");
    stage.keys("<C-c><Esc><Esc>");
    stage.sees("rewind to before");
}

#[test]
fn a_rewind_that_changes_nothing_offers_no_yes() {
    let mut stage = Stage::new(80, 24);
    talk(&mut stage);
    stage.keys(FILES);
    shows(&mut stage, 1, RewindPreview::default(), false);
    stage.quiet();
    stage.sees("No file differs from what it was.");
    stage.sees("Esc cancel");
    for key in ["y restore", "t restore", "k keep", "e exact", "Enter diff"] {
        stage.does_not_see(key);
    }
    stage.chooses("y");
    stage.sees("there is nothing to restore");
    assert_eq!(requests(&stage).len(), 1);
    stage.keys("<Esc>");
    // A path that could be chosen: y is offered when one is.
    stage.keys(FILES);
    let rows = vec![row("notes.md", RewindSection::Outside, Err(KeptWhy::Yours))];
    let warnings = Vec::new();
    shows(&mut stage, 2, RewindPreview { rows, warnings }, false);
    stage.quiet();
    stage.sees("t restore this");
    stage.does_not_see("y restore");
    stage.chooses("y");
    assert_eq!(requests(&stage).len(), 2);
    stage.keys("t");
    stage.sees("y restore");
    stage.chooses("y");
    assert_eq!(requests(&stage).len(), 3);
    // With the conversation there is something to do: the copy.
    stage.keys("<Esc>");
    stage.keys("/undo<Enter>");
    shows(&mut stage, 3, RewindPreview::default(), false);
    stage.quiet();
    stage.sees("y rewind");
    stage.answers("y");
    stage.sees("Enter rewinds");
    assert_eq!(requests(&stage).len(), 4);
    stage.confirms();
    assert_eq!(requests(&stage).len(), 5);
}

const FILES: &str = "<Esc><Esc><Enter><Down><Down><Enter>";

fn requests(stage: &Stage) -> Vec<RewindRequest> {
    let wanted = stage.wanted.iter().filter_map(|intent| match intent {
        Intent::PlanRewind(request) => Some(request.clone()),
        _ => None,
    });
    wanted.collect()
}

#[test]
fn a_message_is_gone_back_to_and_the_menu_opens_on_nothing() {
    scene!("rewind", |stage: &mut Stage| {
        talk(stage);
        stage.keys("<Esc><Esc>");
    });
    scene!("rewind_what", |stage: &mut Stage| {
        talk(stage);
        stage.keys("<Esc><Esc><Enter>");
    });
    let mut stage = Stage::new(80, 24);
    talk(&mut stage);
    stage.keys("<Esc><Esc><Enter><Enter>");
    let acts = |intent: &Intent| {
        matches!(
            intent,
            Intent::PlanRewind(_) | Intent::RewindCopy { .. } | Intent::Open { .. }
        )
    };
    assert!(!stage.wanted.iter().any(acts));
    stage.does_not_see("what to rewind");
    // With words in the box it is no wish to go back.
    stage.keys("words<Esc><Esc>");
    stage.does_not_see("rewind to before");
}

#[test]
fn the_conversation_goes_back_in_a_copy_with_the_words_in_its_box() {
    let mut stage = Stage::new(80, 24);
    talk(&mut stage);
    stage.keys("<Esc><Esc><Down><Enter><Down><Enter>");
    let copied = stage.wanted.iter().find_map(|intent| match intent {
        Intent::RewindCopy {
            origin,
            to,
            files: None,
            draft: Some(draft),
        } => Some((origin.clone(), *to, draft.contains("repair the parser"))),
        _ => None,
    });
    assert_eq!(copied, Some((ID.into(), 0, true)));
    assert_eq!(stage.app.input.composer.text(), "repair the parser");
}

#[test]
fn files_are_listed_before_they_go_back() {
    scene!("rewind_files", |stage: &mut Stage| listed(stage, FILES));
    scene!("rewind_looking", |stage: &mut Stage| {
        talk(stage);
        stage.keys(FILES);
    });
    let mut stage = Stage::new(80, 24);
    talk(&mut stage);
    // A key that comes before the list is seen is no answer to it.
    stage.keys(FILES);
    stage.keys("y");
    assert_eq!(requests(&stage).len(), 1);
    assert_eq!(requests(&stage)[0].back, Back::Before(3));
    assert_eq!(requests(&stage)[0].then, AfterPlan::Show);
    shows(&mut stage, 1, preview(), false);
    let key = crate::keyboard::keys("y").remove(0);
    stage.send(Msg::Key(key, std::time::Instant::now()));
    assert_eq!(requests(&stage).len(), 1);
    stage.sees("restores 2 files, removes 1, keeps 4");
    // They are in the box: with them in front, a key is for the box.
    stage.answers("<Tab>");
    stage.chooses("y");
    let seen = "the tree that was seen".to_string();
    assert_eq!(requests(&stage)[1].then, AfterPlan::Do { seen });
    // It was another list by then: nothing was done, and it is shown.
    shows(&mut stage, 1, RewindPreview::default(), true);
    stage.sees("the files changed meanwhile");
    stage.sees("No file differs from what it was.");
    stage.keys("<Esc>");
    stage.sees("no file was changed");
    assert_eq!(requests(&stage).len(), 2);
}

#[test]
fn each_path_can_be_chosen_individually() {
    scene!("rewind_chosen", |stage: &mut Stage| {
        listed(stage, FILES);
        stage.keys("k<Down><Down><Down>t<Down>t<Down><Down>t");
    });
    let mut stage = Stage::new(80, 40);
    listed(&mut stage, FILES);
    stage.keys("k<Down><Down><Down>t<Down>t<Down>t<Down>t");
    stage.sees("it stays whatever is chosen: its content is not kept");
    stage.keys("<Up>");
    stage.sees("restores 4 files, removes 1, keeps 2");
    // Taken back.
    stage.keys("t");
    stage.sees("restores 3 files, removes 1, keeps 3");
    stage.chooses("y");
    let request = requests(&stage).pop().unwrap();
    let path = |path: &str| path.as_bytes().to_vec();
    let chosen = BTreeMap::from([
        (path("src/a.rs"), PathChoice::Keep),
        (path("made.txt"), PathChoice::Take),
        (path(".envrc"), PathChoice::Take),
    ]);
    assert_eq!(request.chosen, chosen);
    assert_eq!(request.allowed, BTreeSet::from([path(".envrc")]));
}

#[test]
fn exact_mode_replans_and_enter_shows_the_diff_of_a_path() {
    let mut stage = Stage::new(80, 24);
    listed(&mut stage, FILES);
    stage.keys("e");
    assert!(requests(&stage)[1].whole);
    stage.sees("looking at the files");
    shows(&mut stage, 1, preview(), false);
    stage.sees("exact: also what others changed");
    stage.keys("<Down><Enter>");
    stage.sees("reading …");
    let asked = stage.wanted.iter().any(|intent| {
        matches!(intent, Intent::RewindDiff { path, choice: None, .. } if path == b"tools/x")
    });
    assert!(asked);
    let diff = "--- a/tools/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone \u{1b}[31mred\n";
    stage.send(Msg::RewindDiff(b"tools/x".to_vec(), Ok(diff.into())));
    stage.sees("-gone");
    let theme = stage.app.look.theme.clone();
    assert_eq!(stage.style_of("-gone").fg, theme.diff_del.fg);
    stage.keys("<Esc>");
    stage.sees("Changed by the model");
}

#[test]
fn the_list_goes_on_under_its_keys_and_is_not_answered_by_them() {
    let mut stage = Stage::new(80, 24);
    listed(&mut stage, FILES);
    stage.keys("k<Down>");
    let before = stage.screen();
    stage.keys("?");
    stage.sees("keys and commands");
    stage.sees("restore this");
    stage.keys("x");
    stage.quiet();
    assert_eq!(stage.screen(), before);
    // The lines of a path, and another plan, arrive under the keys.
    stage.keys("<Enter>?");
    stage.sees("keys and commands");
    let diff = "@@ -1 +0,0 @@\n-gone\n";
    stage.send(Msg::RewindDiff(b"tools/x".to_vec(), Ok(diff.into())));
    stage.keys("x");
    stage.sees("-gone");
    stage.keys("<Esc>");
    stage.answers("e?");
    stage.sees("keys and commands");
    shows(&mut stage, 1, preview(), false);
    stage.keys("x");
    stage.sees("exact: also what others changed");
    assert_eq!(stage.app.input.composer.text(), "");
    // Yes stays selected, and an Enter counts only when the list was seen again.
    stage.answers("y");
    stage.waits(700);
    let planned = requests(&stage).len();
    stage.keys("<F1><Enter><Enter>");
    assert_eq!(requests(&stage).len(), planned);
    stage.sees("Enter restores");
    stage.confirms();
    assert_eq!(requests(&stage).len(), planned + 1);
    // After words it is one of them.
    let mut stage = Stage::new(80, 24);
    listed(&mut stage, FILES);
    stage.keys("what?");
    assert_eq!(stage.app.input.composer.text(), "what?");
}

#[test]
fn a_thousand_paths_are_gone_through_to_the_end() {
    let mut stage = Stage::new(40, 12);
    talk(&mut stage);
    stage.keys(FILES);
    let written = || Ok(becomes(PathBecomes::Written, "+1 −1"));
    let rows = (0..1_000).map(|n| row(&format!("f{n:03}"), RewindSection::Calls, written()));
    let preview = RewindPreview {
        rows: rows.collect(),
        warnings: vec!["HEAD moved".into()],
    };
    shows(&mut stage, 1, preview, false);
    stage.sees("HEAD moved");
    stage.keys("<End>");
    stage.sees("▸ ← f999");
    stage.sees("Never restored: commits");
    stage.keys("<Home>");
    stage.sees("▸ ← f000");
    stage.sees("HEAD moved");
    stage.keys(&"<PageDown>".repeat(3));
    stage.sees("▸ ← f021");
    stage.sees("restores 1,000 files");
}

#[test]
fn both_go_back_in_a_copy_and_redo_leads_to_where_it_came_from() {
    let mut stage = Stage::new(80, 24);
    listed(&mut stage, "/undo<Enter>");
    stage.sees("Rewind files and conversation to before: and the docs");
    stage.chooses("y");
    assert!(matches!(
        requests(&stage)[1].then,
        AfterPlan::HandOver { .. }
    ));
    let handed = RewindAnswer::HandedOver(Box::new(rewinding()));
    stage.engine_event(LiveEvent::RewindPlanned(1, handed));
    let copied = stage.wanted.iter().find_map(|intent| match intent {
        Intent::RewindCopy { to, files, .. } => Some((*to, files.is_some())),
        _ => None,
    });
    assert_eq!(copied, Some((2, true)));
    assert_eq!(stage.app.input.composer.text(), "and the docs");
    stage.keys("<C-c>");
    stage.keys("/redo<Enter>");
    assert_eq!(requests(&stage)[2].back, Back::Undo);
    let copy_of = Some("origin".to_string());
    // Of a pane that was closed nothing is wanted.
    stage.engine_event(LiveEvent::RewindPlanned(
        1,
        RewindAnswer::Done {
            copy_of: copy_of.clone(),
        },
    ));
    stage.sees("Redo: take the last rewind back");
    stage.engine_event(LiveEvent::RewindPlanned(2, RewindAnswer::Done { copy_of }));
    let opened = stage.wanted.iter().find_map(|intent| match intent {
        Intent::Open { which, .. } => Some(which.clone()),
        _ => None,
    });
    let (id, fork) = ("origin".to_string(), false);
    assert_eq!(opened, Some(SessionSelector::Named { id, fork }));
}

#[test]
fn rewind_is_refused_while_working_and_failures_are_shown() {
    let mut stage = Stage::new(80, 24);
    talk(&mut stage);
    stage.engine_event(LiveEvent::Working);
    stage.says("and the tests");
    stage.keys("/undo<Enter>");
    stage.sees("working: stop it, then rewind the files");
    assert!(requests(&stage).is_empty());
    // Behind the answer the files may still be looked at.
    stage.replies(vec![text("They pass.")]);
    stage.keys("/undo<Enter>");
    assert_eq!(requests(&stage).len(), 1);
    let not = RewindAnswer::Not {
        why: "the files are not known before entry 3".into(),
        hint: Some("/rewind goes back in the conversation alone".into()),
    };
    stage.engine_event(LiveEvent::RewindPlanned(1, not));
    stage.sees("the files are not known before entry 3");
    stage.does_not_see("Rewind files");
}

#[test]
fn work_at_the_files_is_shown_while_it_is_waited_for() {
    let mut stage = Stage::new(80, 24);
    talk(&mut stage);
    stage.engine_event(LiveEvent::Working);
    let (done, all) = (412, 2_000);
    stage.engine_event(Event::Files(Some(FilesWork::Restoring { done, all })));
    stage.sees("restoring files, 412 of 2,000 · this cannot be stopped");
    let waits = |stage: &Stage| {
        let is = |i: &Intent| matches!(i, Intent::Engine(rewake::engine::Command::WaitForFiles));
        stage.wanted.iter().any(is)
    };
    stage.keys("<C-x>w");
    assert!(!waits(&stage));
    let seen = 41_000;
    stage.engine_event(Event::Files(Some(FilesWork::Scanning { seen })));
    stage.sees("taking a snapshot first, 41,000 files seen · Ctrl+X w waits for it");
    stage.keys("<C-x>w");
    assert!(waits(&stage));
    stage.engine_event(Event::Files(None));
    stage.does_not_see("taking a snapshot");
}

#[test]
fn fork_with_files_requests_the_given_folder_or_worktree() {
    let wanted = |typed: &str| {
        let mut stage = Stage::new(80, 24);
        talk(&mut stage);
        stage.keys(&format!("{typed}<Enter>"));
        let fork = stage.wanted.iter().find_map(|intent| match intent {
            Intent::ForkInto { at, folder, .. } => Some((*at, folder.clone())),
            _ => None,
        });
        (fork, stage)
    };
    let folder = |path: &str| ForkFolder::Folder(path.into());
    for (typed, at, into) in [
        ("/fork --files ../my copy", None, folder("../my copy")),
        ("/fork 12 --files /tmp/x", Some(12), folder("/tmp/x")),
        ("/fork 12 --worktree", Some(12), ForkFolder::Worktree(None)),
        (
            "/fork --worktree ../w",
            None,
            ForkFolder::Worktree(Some("../w".into())),
        ),
    ] {
        assert_eq!(wanted(typed).0, Some((at, into)), "{typed}");
    }
    for (typed, said) in [
        ("/fork --files", "which folder?"),
        ("/fork x --files y", "is no entry"),
        ("/fork --branch x", "--branch is none of them"),
    ] {
        let (fork, mut stage) = wanted(typed);
        assert_eq!(fork, None, "{typed}");
        stage.sees(said);
    }
}

#[test]
fn what_appeared_while_a_command_ran_is_removed_only_by_choice() {
    let mut stage = Stage::new(80, 24);
    talk(&mut stage);
    stage.keys(FILES);
    let made = RewindRow {
        taken: Some(becomes(PathBecomes::Removed, "+0 −1")),
        ..row("made.txt", RewindSection::Appeared, Err(KeptWhy::Command))
    };
    let preview = RewindPreview {
        rows: vec![made],
        warnings: Vec::new(),
    };
    shows(&mut stage, 1, preview, false);
    stage.quiet();
    stage.sees("Appeared while a command ran · 1 path: press t to remove one");
    stage.sees("keeps 1 file");
    stage.does_not_see("y restore");
    stage.keys("t");
    stage.sees("created → removed (your choice)");
    stage.sees("y restore");
}
