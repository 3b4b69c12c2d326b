//! Inside a session: the tree, the conversation, and where one resumes from.

use super::*;
use crate::ui::history::tree::TreeTarget;

#[test]
fn checkpoints_are_a_tree_with_the_conversation_beside_it() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Down, KeyCode::Right]);
    play.screens("tree");
    play.keys(&[KeyCode::Tab]);
    let small = play.screen(40, 12);
    insta::assert_snapshot!("tree-conversation-40x12", small);
}

#[test]
fn a_fork_shows_where_it_comes_from_and_leads_there() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Right]);
    play.screens("fork");
    let fork = play.pane.tree.as_ref().unwrap().session.clone();
    play.keys(&[KeyCode::Down, KeyCode::Right]);
    let trunk = play.pane.tree.as_ref().unwrap().session.clone();
    assert_ne!(fork, trunk);
    assert!(play.screen(120, 40).contains("answered"));
    // Beside it stands what the conversation would show there.
    let screen = play.screen(120, 40);
    for shown in ["│ ▌ fix the parser", "│ · edited     src/lexer.rs  +1 −1"] {
        assert!(screen.contains(shown), "{screen}");
    }
}

#[test]
fn a_session_is_resumed_from_its_end_and_forked_before_it() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Down]);
    let id = play.pane.list.row().unwrap().id.clone();
    assert_eq!(play.control('r'), PaneOutcome::Resume(id.clone()));
    assert_eq!(play.key(KeyCode::Enter), PaneOutcome::Resume(id.clone()));
    let at = |seq| PaneOutcome::ForkAt {
        id: id.clone(),
        seq,
    };
    assert_eq!(play.control('f'), at(8));
    play.keys(&[KeyCode::Right]);
    assert_eq!(play.key(KeyCode::Enter), PaneOutcome::Resume(id.clone()));
    assert_eq!(play.control('f'), at(8));
    play.keys(&[KeyCode::Up, KeyCode::Up]);
    assert_eq!(play.key(KeyCode::Enter), at(5));
    play.keys(&[KeyCode::Home]);
    // The first that changed a file: answers with calls and plans are no lines.
    assert_eq!(play.control('r'), at(4));
    play.keys(&[KeyCode::Left]);
    assert_eq!(play.key(KeyCode::Esc), PaneOutcome::Close);
}

#[test]
fn a_long_session_is_read_from_its_end_as_it_is_scrolled_to() {
    let scene = Scene::new();
    let mut store = scene.store();
    let mut head = begin(&mut store, HERE, NOW_MS);
    let exchange = |n| [said(&format!("say {n}")), replied(vec![Block::text("so")])];
    add(
        &mut store,
        &mut head,
        NOW_MS,
        (0..500).flat_map(exchange).collect(),
    );
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Right]);
    let selected = |play: &Play<'_>| play.pane.tree.as_ref().unwrap().target();
    assert_eq!(selected(&play), Some(TreeTarget::Point(1_000)));
    assert_eq!(play.pane.tree.as_ref().unwrap().points.len(), 200);
    play.keys(&[KeyCode::Home]);
    // What came before does not move the cursor.
    assert_eq!(selected(&play), Some(TreeTarget::Point(802)));
    assert_eq!(play.pane.tree.as_ref().unwrap().points.len(), 400);
    for _ in 0..9 {
        play.keys(&[KeyCode::Home]);
    }
    assert_eq!(selected(&play), Some(TreeTarget::Point(2)));
    assert_eq!(play.pane.tree.as_ref().unwrap().points.len(), 1_000);
}

#[test]
fn the_calls_of_a_request_are_grouped_below_it() {
    let scene = Scene::new();
    let mut store = scene.store();
    let mut head = begin(&mut store, HERE, NOW_MS);
    let read = |path: &str| Block::call("read", format!(r#"{{"path":"{path}"}}"#));
    let bash = |line: &str| Block::call("bash", format!(r#"{{"command":"{line}"}}"#));
    let ran = |code| {
        Some(Fact::Ran {
            exit_code: Some(code),
            took_ms: 9,
            refused: false,
        })
    };
    let entries = vec![
        said("look at them"),
        replied(vec![
            read("one"),
            read("two"),
            bash("cat three"),
            read("gone"),
            bash("python3 test.py"),
        ]),
        finished(2, 0, Outcome::done("1"), None),
        finished(2, 1, Outcome::done("2"), None),
        finished(2, 2, Outcome::done("3"), ran(0)),
        finished(2, 3, Outcome::error("no such file"), None),
        finished(2, 4, Outcome::done("1 failed"), ran(1)),
        replied(vec![bash("make"), bash("make")]),
        finished(8, 0, Outcome::done("made"), ran(0)),
        finished(8, 1, Outcome::done("made"), ran(0)),
        replied(vec![Block::text("Two are\nthere.\n\n```sh\nls\n```")]),
        said("and now?"),
        replied(vec![bash("sleep 9")]),
    ];
    add(&mut store, &mut head, NOW_MS, entries);
    let tree = |scene: &Scene| {
        let mut play = Play::new(scene);
        play.keys(&[KeyCode::End, KeyCode::Right]);
        let screen = play.screen(80, 30);
        let lines = screen.lines().skip(1).take(8);
        lines
            .map(|line| line.trim_matches('"').trim_end().to_string())
            .collect::<Vec<_>>()
    };
    let first = "  ├ 3 read-only calls · read gone ✗ · ran python3 test.py ✗";
    let said = tree(&scene);
    assert!(
        said[0].starts_with("▌ look at them  ") && said[0].ends_with("  12:00"),
        "{said:#?}"
    );
    assert_eq!(
        said[1..4],
        [first, "  ├ ran make ×2", "  └ answered: Two are there."]
    );
    // Nobody has the session, so what has no result was cut off.
    assert_eq!(said[5], "› └ ran sleep 9 ◌");
    let _lock = SessionLock::take(&scene.ctx.paths.data_dir, head.session()).unwrap();
    assert_eq!(tree(&scene)[5], "› └ running sleep 9 ◐");
    drop(_lock);
    // Where a fork hangs a line ends.
    fork(&mut store, &head, 6, NOW_MS - HOUR_MS);
    drop(store);
    let forked = tree(&scene);
    assert_eq!(forked[1], "  ├ 3 read-only calls · read gone ✗");
    assert!(
        forked[2].starts_with("  │  └─ ⑂ look at them"),
        "{forked:#?}"
    );
    assert_eq!(forked[3], "  ├ ran python3 test.py ✗ · ran make ×2");
}

#[test]
fn a_stop_is_listed_after_the_calls_it_ended() {
    let scene = Scene::new();
    let mut store = scene.store();
    let mut head = begin(&mut store, HERE, NOW_MS);
    let stopped = Outcome::Interrupted {
        output: Output::default(),
        why: "stopped".into(),
    };
    let entries = vec![
        said("wait"),
        replied(vec![Block::call("bash", r#"{"command":"sleep 9"}"#)]),
        Entry::Stopped {
            draft: None,
            origin: None,
        },
        finished(2, 0, stopped, None),
    ];
    add(&mut store, &mut head, NOW_MS, entries);
    drop(store);
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::End, KeyCode::Right]);
    let screen = play.screen(80, 24);
    let at = |words| screen.find(words).unwrap();
    assert!(at("ran sleep 9 ◌") < at("stopped by you"), "{screen}");
}

#[test]
fn the_preview_is_painted_as_the_conversation_is_and_is_read_from_its_end() {
    let scene = Scene::new();
    let mut store = scene.store();
    let mut head = begin(&mut store, HERE, NOW_MS);
    let edit = r#"{"path":"a.rs","edits":[{"old":"gone","new":"come"}]}"#;
    let wrote = Fact::Wrote {
        path: format!("{HERE}/a.rs"),
        hash: "ab".into(),
    };
    let mut entries = vec![said("mend it")];
    for at in 0..1_000u64 {
        let call = Block::call("edit", edit);
        entries.push(replied(vec![call]));
        entries.push(finished(
            2 * at + 2,
            0,
            Outcome::done("edited"),
            Some(wrote.clone()),
        ));
    }
    let table = "It **holds**:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
    entries.push(replied(vec![Block::text(table)]));
    add(&mut store, &mut head, NOW_MS, entries);
    drop(store);
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Right]);
    let screen = play.screen(120, 40);
    assert!(screen.contains("│   It holds:"), "{screen}");
    assert!(screen.contains("│   a │ b"), "{screen}");
    assert!(
        screen.contains("- gone") && screen.contains("+ come"),
        "{screen}"
    );
    // One scrolls to the beginning of what was read, and no further.
    play.keys(&[KeyCode::Tab, KeyCode::Home]);
    let top = play.screen(120, 40);
    assert!(!top.contains("│   It holds"));
    play.keys(&[KeyCode::Down]);
    assert_ne!(play.screen(120, 40), top);
    play.keys(&[KeyCode::End]);
    assert!(play.screen(120, 40).contains("│   It holds"));
}

#[test]
fn on_a_small_screen_there_is_the_list_alone_and_nothing_overlaps() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Down]);
    let screen = play.screen(20, 5);
    let rows: Vec<&str> = screen.lines().collect();
    assert!(rows[0].contains("History"), "{screen}");
    assert!(rows.iter().any(|row| row.contains("› · fix…")), "{screen}");
    assert!(rows[4].contains("Esc"), "{screen}");
    play.keys(&[KeyCode::Right]);
    let screen = play.screen(20, 5);
    assert!(screen.contains("› └ answered: Now"), "{screen}");
    assert!(
        !screen.contains('│') || !screen.contains("Now all of them"),
        "{screen}"
    );
}

#[test]
fn marks_of_markdown_are_in_no_line_of_the_history() {
    let scene = Scene::new();
    let mut store = scene.store();
    let mut head = begin(&mut store, HERE, NOW_MS);
    let entries = vec![
        said("## Fix `total()` in *.py"),
        replied(vec![Block::text(
            "# Done\n- **It** rounds [now](http://x)\n",
        )]),
        said("and the rest"),
        replied(vec![Block::text("```sh\nls\n```")]),
    ];
    add(&mut store, &mut head, NOW_MS, entries);
    drop(store);
    let mut play = Play::new(&scene);
    let list = play.screen(80, 24);
    assert!(list.contains("Fix total() in *.py"), "{list}");
    play.keys(&[KeyCode::Right]);
    // A screen of few rows has the tree alone.
    let tree = play.screen(80, 12);
    for line in [
        "History › Fix total() in *.py",
        "▌ Fix total() in *.py",
        "└ answered: Done It rounds now",
        "└ answered: ls",
    ] {
        assert!(tree.contains(line), "{line}\n{tree}");
    }
}

#[test]
fn the_title_stands_once_and_the_cursor_left_of_the_tree() {
    let scene = Scene::new();
    let mut store = scene.store();
    talk(&mut store, HERE, NOW_MS, "mend the lexer");
    drop(store);
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Right]);
    let screen = play.screen(80, 12);
    let with_title = screen
        .lines()
        .filter(|line| line.contains("mend the lexer"));
    assert_eq!(
        with_title.count(),
        2,
        "in the head, and as what was said\n{screen}"
    );
    assert!(screen.contains("\"› └ answered: It is done."), "{screen}");
}
