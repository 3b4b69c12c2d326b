//! The list: its content, the filter, the trash, titles; and the worker that reads it.

use std::collections::HashSet;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::*;

#[test]
fn sessions_stand_under_their_folders_and_days() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.pane.list.rows[1].standing = SessionState::InUse {
        pid: Some(4_242),
        works: true,
    };
    play.pane.list.rows[1].state = "running";
    play.keys(&[KeyCode::Down]);
    play.screens("list");
}

#[test]
fn typing_filters_by_title_and_by_what_was_said() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.letters("grammr");
    assert_eq!(play.title(), "write a <U+202E>grammar for the parser");
    play.keys(&[KeyCode::Esc]);
    assert_eq!(play.pane.list.rows.len(), 5);
    play.letters("lexer");
    play.screens("filter");
    play.letters(" nowhere");
    assert!(
        play.screen(80, 24)
            .contains("No message, output or title matches")
    );
}

#[test]
fn a_session_is_opened_by_a_key_that_came_before_the_list() {
    let scene = full();
    for (keys, opens) in [
        (&[KeyCode::Right][..], true),
        (&[KeyCode::Right, KeyCode::Down], false),
    ] {
        let (pane, ask) = Pane::new(HERE);
        let reader = scene.reader();
        let mut play = Play { reader, pane };
        play.keys(keys);
        play.ask(ask);
        assert_eq!(play.pane.tree.is_some(), opens, "{keys:?}");
    }
}

#[test]
fn deleting_asks_and_can_be_undone() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Down]);
    play.control('d');
    play.screens("delete");
    let title = play.title().to_string();
    play.keys(&[KeyCode::Char('n')]);
    play.control('d');
    play.keys(&[KeyCode::Right]);
    assert_eq!(play.title(), title);
    play.keys(&[KeyCode::Delete, KeyCode::Char('y')]);
    assert_ne!(play.title(), title);
    assert_eq!(play.pane.list.total, 4);
    play.keys(&[KeyCode::Tab]);
    assert_eq!((play.title(), play.pane.list.total), (title.as_str(), 1));
    play.keys(&[KeyCode::Tab]);
    play.control('y');
    assert_eq!(play.pane.list.total, 5);
    play.control('y');
}

#[test]
fn letters_filter_wherever_one_is() {
    let scene = full();
    let mut play = Play::new(&scene);
    // Below the first row letters were commands: this deleted, forked and resumed.
    play.keys(&[KeyCode::Down, KeyCode::Down]);
    play.letters("parserfdTR/e");
    assert_eq!(play.pane.list.query.text(), "parserfdTR/e");
    assert!(play.pane.question.is_none() && !play.pane.list.in_trash);
    play.keys(&[KeyCode::Esc, KeyCode::Right]);
    assert!(play.pane.tree.is_some());
    play.letters("rfRe");
    assert!(play.pane.question.is_none());
}

#[test]
fn the_footer_has_the_most_used_keys_and_the_help_all_with_the_session_figures() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Down]);
    let id = play.pane.list.row().unwrap().id[..13].to_string();
    let screen = play.screen(80, 24).replace('\u{a0}', " ");
    assert!(screen.contains("? keys") && !screen.contains("Ctrl+Y"));
    assert!(!screen.contains(&id));
    let help = play.pane.help();
    assert!(help.contains(" · Ctrl+Y bring back · "), "{help}");
    assert!(
        help.contains(&format!(" · session {id}, 9 entries, ")),
        "{help}"
    );
    assert!(!play.pane.takes_text());
    // In words that are searched for a question mark is a letter.
    play.letters("a?");
    assert_eq!(play.pane.list.query.text(), "a?");
    assert!(play.pane.takes_text());
    play.keys(&[KeyCode::Esc, KeyCode::Right]);
    assert!(!play.pane.takes_text());
    let help = play.pane.help();
    assert!(help.contains("Tab conversation"), "{help}");
    assert!(!help.contains("session "), "{help}");
}

#[test]
fn a_row_is_the_title_and_the_chosen_one_has_the_last_request() {
    let scene = full();
    let mut play = Play::new(&scene);
    let screen = play.screen(80, 24);
    // Nobody answered the fork's last words.
    assert!(screen.contains("⑂ fix the parser") && !screen.contains("last said"));
    assert!(screen.contains("last: and the docs"), "{screen}");
    play.keys(&[KeyCode::Down]);
    let screen = play.screen(80, 24);
    assert!(screen.contains("last: go on"), "{screen}");
    assert!(screen.contains(" · 2 requests "), "{screen}");
    assert!(
        screen.contains("last said: Now all of them pass."),
        "{screen}"
    );
    // The one whose title is all that was said needs no second time.
    play.keys(&[KeyCode::Down]);
    let screen = play.screen(80, 24);
    assert!(!screen.contains("last: ") && screen.contains("      1 request "));
}

#[test]
fn a_wide_screen_shows_the_chosen_session_beside_the_list() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Down]);
    let beside = |screen: &str| -> Vec<String> {
        let rows = screen.lines().filter_map(|line| line.split_once("│ "));
        // The screen has the cells that a wide character hides at the end of its row.
        let text = |text: &str| {
            text.split('"')
                .next()
                .unwrap_or_default()
                .trim_end()
                .to_string()
        };
        rows.map(|(_, row)| text(row)).collect()
    };
    let rows = beside(&play.screen(200, 50));
    assert!(rows[0].starts_with("fix the parser"), "{rows:?}");
    assert!(
        rows[1].starts_with("anthropic/claude-sonnet-4-5 · $"),
        "{rows:?}"
    );
    assert_eq!(rows[2], "2026-11-21 11:00");
    assert!(rows.contains(&"go on".to_string()), "{rows:?}");
    assert!(
        rows.contains(&"Now all of them pass.".to_string()),
        "{rows:?}"
    );
    assert!(!play.screen(200, 50).contains("last said"));
    assert!(beside(&play.screen(120, 40)).is_empty());
    // A long message has many rows, and leaves room for what is below it.
    let id = play.pane.list.row().unwrap().id.clone();
    let about = super::super::About {
        by_user: Some("request\n".repeat(90)),
        by_model: Some("answer\n".repeat(90)),
        output: Some("printed".into()),
        requests: None,
    };
    play.pane.list.learned(&id, about);
    let rows = beside(&play.screen(200, 50));
    let count = |text: &str| rows.iter().filter(|row| row.as_str() == text).count();
    assert!(count("request") > 9 && count("answer") > 9, "{rows:?}");
    assert_eq!(count("printed"), 1, "{rows:?}");
}

#[test]
fn a_name_that_a_person_gave_wins_over_one_that_a_model_made() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Down]);
    let id = play.pane.list.row().unwrap().id.clone();
    let name = |play: &mut Play<'_>| {
        let ask = play.pane.reload();
        play.ask(ask);
        let rows = &play.pane.list.rows;
        rows.iter().find(|row| row.id == id).unwrap().title.clone()
    };
    let append = |entry: Entry| {
        let mut store = scene.store();
        let mut head = store.load(&id).unwrap().0;
        add(&mut store, &mut head, NOW_MS, vec![entry]);
    };
    append(Entry::Titled {
        title: Some("Parser".into()),
        spent: vec![],
    });
    assert_eq!(name(&mut play), "Parser");
    append(Entry::Named {
        title: "My parser".into(),
    });
    append(said("and now the docs"));
    assert_eq!(name(&mut play), "My parser");
    play.keys(&[KeyCode::Home]);
    let screen = play.screen(80, 24);
    assert!(screen.contains("last: and now the docs"), "{screen}");
}

#[test]
fn every_session_says_how_it_ended_in_its_own_colour() {
    let scene = Scene::new();
    let mut store = scene.store();
    let call = || replied(vec![Block::call("bash", r#"{"command":"make"}"#)]);
    let guard = Guard::Supervised {
        run: "r".into(),
        boot: "b".into(),
        background: false,
    };
    let started = Entry::Started {
        call: CallId { reply: 2, index: 0 },
        guard,
        access: None,
    };
    let error = Failure::new(FailureClass::Auth, "refused");
    let interrupted = Outcome::Interrupted {
        output: Output::default(),
        why: "stopped".into(),
    };
    let saved = |reason| Entry::Saved {
        reason,
        tree: None,
        why: None,
        clock: None,
    };
    let endings: [(&str, bool, Vec<Entry>); 6] = [
        (
            "failed",
            true,
            vec![
                Entry::Failed { error, draft: None },
                saved(SaveReason::Exit),
            ],
        ),
        // The stop comes first, then its calls are closed, and then the screen is left.
        (
            "stopped",
            false,
            vec![
                call(),
                started.clone(),
                Entry::Stopped {
                    draft: None,
                    origin: None,
                },
                finished(2, 0, interrupted, None),
                saved(SaveReason::Exit),
            ],
        ),
        ("killed", true, vec![call(), started.clone()]),
        (
            "interrupted",
            true,
            vec![call(), started.clone(), saved(SaveReason::Signal)],
        ),
        (
            "turn limit",
            true,
            vec![call(), started, saved(SaveReason::TurnLimit)],
        ),
        (
            "done",
            false,
            vec![replied(vec![Block::text("so")]), saved(SaveReason::Exit)],
        ),
    ];
    for (word, unfinished, entries) in &endings {
        let mut head = begin(&mut store, HERE, NOW_MS);
        let mut entries = entries.clone();
        entries.insert(0, said(&format!("to be {word}")));
        let batch = Batch {
            at_ms: NOW_MS,
            entries,
            unfinished: *unfinished,
            ..Batch::default()
        };
        store.append(&mut head, &batch).unwrap();
    }
    let mut play = Play::new(&scene);
    let screen = play.screen(80, 24);
    for (glyph, word) in [
        ("✗", "failed"),
        ("◌", "stopped"),
        ("◌", "killed"),
        ("◌", "interrupted"),
        ("◌", "turn limit"),
        ("·", "done"),
    ] {
        let row = screen
            .lines()
            .find(|line| line.contains(&format!("to be {word}")))
            .unwrap();
        assert!(row.contains(&format!("{glyph} to be {word}")), "{row}");
        let state = row
            .split(&format!("to be {word}"))
            .nth(1)
            .unwrap_or_default();
        assert!(state.contains(&format!(" {word} ")), "{row}");
    }
    play.screens("endings");
    // The word has the colour of the glyph, and only what failed has one.
    let theme = Theme::named("dark").unwrap();
    let (buffer, screen) = (play.buffer(80, 24), play.screen(80, 24));
    for (row, line) in screen
        .lines()
        .enumerate()
        .filter(|(_, line)| line.contains("to be"))
    {
        let colour = |x: u16| buffer[(x, row as u16)].fg;
        let is_failed = line.contains("✗");
        assert_eq!(colour(2), colour(60), "{line}");
        assert_eq!(Some(colour(2)) == theme.error.fg, is_failed, "{line}");
    }
}

#[test]
fn an_export_asks_where_and_says_what_it_wrote() {
    let scene = full();
    let mut play = Play::new(&scene);
    let id = play.pane.list.row().unwrap().id.clone();
    play.control('e');
    let name = format!("rewake-{}.md", &id[..13]);
    assert!(play.screen(80, 24).contains(&format!("Write to: {name}")));
    let clear = KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL);
    assert_eq!(play.pane.key(&clear), PaneOutcome::Nothing);
    play.pane.paste("~/notes/it.json");
    let file = "~/notes/it.json".to_string();
    assert_eq!(play.key(KeyCode::Enter), PaneOutcome::Export { id, file });
    play.pane
        .exported(Ok("written to /n/it.json: every entry as JSON, 3 KB".into()));
    assert!(
        play.screen(80, 24)
            .contains("written to /n/it.json: every entry as JSON, 3 KB")
    );
}

#[test]
fn a_session_that_asks_waits_for_you() {
    let scene = Scene::new();
    let mut store = scene.store();
    let mut head = begin(&mut store, HERE, NOW_MS);
    let asked = Entry::Asked {
        call: CallId { reply: 2, index: 0 },
        why: "commands ask".into(),
        rule: None,
        access: None,
        at: None,
        form: None,
    };
    let call = Block::call("bash", r#"{"command":"cargo test"}"#);
    let owed = Batch {
        at_ms: NOW_MS,
        unfinished: true,
        entries: vec![said("test it"), replied(vec![call]), asked],
        ..Batch::default()
    };
    store.append(&mut head, &owed).unwrap();
    let _lock = SessionLock::take(&scene.ctx.paths.data_dir, head.session()).unwrap();
    let mut play = Play::new(&scene);
    assert!(play.screen(120, 40).contains("waits for you"));
}

#[test]
fn a_session_in_use_is_shown_so_and_not_deleted() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Down]);
    let id = play.pane.list.row().unwrap().id.clone();
    let _lock = SessionLock::take(&scene.ctx.paths.data_dir, &id).unwrap();
    let pid = std::process::id();
    let ask = play.pane.reload();
    play.ask(ask);
    let row = play.pane.list.row().unwrap();
    let (pid, works) = (Some(pid), false);
    assert_eq!(row.standing, SessionState::InUse { pid, works });
    // Nothing is to be done in it: it is only open there.
    assert_eq!(row.state, "open");
    play.control('d');
    play.letters("y");
    let screen = play.screen(120, 40);
    assert!(
        screen.contains("cannot put it into the trash: session") && screen.contains("is in use"),
        "{screen}"
    );
    assert_eq!(play.pane.list.total, 5);
    play.ask(HistoryRequest::Rename {
        id,
        title: "mine".into(),
    });
    assert!(play.screen(120, 40).contains("cannot rename"));
}

#[test]
fn a_new_title_is_typed_and_kept() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Down]);
    play.control('t');
    let clear = KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL);
    assert_eq!(play.pane.key(&clear), PaneOutcome::Nothing);
    play.pane.paste("The\nparser");
    assert!(play.screen(40, 12).contains("Title: The parser"));
    let PaneOutcome::Rename { id, title } = play.key(KeyCode::Enter) else {
        panic!("no title");
    };
    play.ask(HistoryRequest::Rename {
        id: id.clone(),
        title,
    });
    assert_eq!(play.title(), "The parser");
    let info = scene.store().history().find(&id).unwrap();
    assert_eq!(info.title.as_deref(), Some("The parser"));
    assert!(!info.unfinished);
}

#[test]
fn unfinished_work_is_dismissed_and_a_new_name_does_not_bring_it_back() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Down]);
    let is_owed = |row: &Row| row.standing == SessionState::Ended(Ending::Killed);
    let at = play.pane.list.rows.iter().position(is_owed).unwrap();
    play.pane.list.selected = at;
    let id = play.pane.list.rows[at].id.clone();
    play.control('x');
    assert!(play.screen(120, 40).contains("not offered again"));
    let standing = |play: &Play<'_>| play.pane.list.rows[at].standing;
    let dismissed = SessionState::Ended(Ending::Dismissed);
    assert_eq!(standing(&play), dismissed);
    let title = "Later".to_string();
    play.ask(HistoryRequest::Rename { id, title });
    play.keys(&[KeyCode::Tab, KeyCode::Tab]);
    assert_eq!(play.pane.list.rows[at].title, "Later");
    assert_eq!(standing(&play), dismissed);
    // What is done needs no dismissal.
    let is_done = |row: &Row| row.standing == SessionState::Ended(Ending::Done);
    play.pane.list.selected = play.pane.list.rows.iter().position(is_done).unwrap();
    play.control('x');
    assert!(
        play.screen(120, 40)
            .contains("it is finished, so it is not offered")
    );
}

#[test]
fn thousands_of_sessions_come_as_they_are_scrolled_to() {
    let scene = Scene::new();
    let mut store = scene.store();
    for n in 0..450 {
        talk(&mut store, HERE, NOW_MS - n, &format!("task {n}"));
    }
    let mut play = Play::new(&scene);
    assert_eq!(
        (play.pane.list.rows.len(), play.pane.list.total),
        (260, 450)
    );
    play.keys(&[KeyCode::End]);
    assert_eq!(play.pane.list.rows.len(), 450);
    play.keys(&[KeyCode::End]);
    assert_eq!(play.title(), "task 0");
    play.keys(&[KeyCode::Home]);
    assert_eq!(play.title(), "task 449");
    // One that is written to meanwhile costs no other its place in the list.
    let ids: HashSet<&str> = play
        .pane
        .list
        .rows
        .iter()
        .map(|row| row.id.as_str())
        .collect();
    assert_eq!(ids.len(), 450);
}

#[test]
fn stale_answers_are_dropped() {
    let scene = full();
    let mut reader = scene.reader();
    let (mut pane, first) = Pane::new(HERE);
    let PaneOutcome::Request(second) = pane.paste("lexer") else {
        panic!("nothing is asked");
    };
    let queue = Queue::default();
    let late = reader.answer(&first, &queue).unwrap();
    let found = reader.answer(&second, &queue).unwrap();
    pane.receive(found);
    let rows = pane.list.rows.len();
    pane.receive(late);
    assert_eq!(pane.list.rows.len(), rows);
    assert!(rows < 5);
}

#[test]
fn the_worker_answers_and_ends() {
    let scene = full();
    let (respond, responses) = mpsc::channel();
    let respond = Arc::new(move |found| drop(respond.send(found)));
    let Scene { _dir, ctx } = scene;
    let worker = HistoryWorker::start(Arc::new(ctx), respond);
    let (mut pane, ask) = Pane::new(HERE);
    worker.ask(ask);
    let limit = Duration::from_secs(60);
    pane.receive(responses.recv_timeout(limit).unwrap());
    assert_eq!(pane.list.rows.len(), 5);
    drop(worker);
    let gone = responses.recv_timeout(limit);
    assert_eq!(gone, Err(mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn no_size_and_no_key_makes_it_fall_over() {
    let scene = full();
    let mut play = Play::new(&scene);
    let codes = [
        KeyCode::Down,
        KeyCode::Right,
        KeyCode::Tab,
        KeyCode::PageUp,
        KeyCode::End,
        KeyCode::Char('R'),
        KeyCode::Char('x'),
        KeyCode::Esc,
        KeyCode::Esc,
        KeyCode::Char('d'),
    ];
    for code in codes {
        let _ = play.key(code);
        for (columns, rows) in [(1, 1), (3, 2), (10, 4), (40, 5), (100, 6), (300, 90)] {
            let _ = play.screen(columns, rows);
        }
    }
}

/// A task of a session, which has its own.
fn with_task(scene: &Scene) -> (String, String) {
    let mut store = scene.store();
    let parent = talk(&mut store, HERE, NOW_MS, "give a task");
    let id = crate::store::new_id();
    let new = NewSession {
        id: id.clone(),
        workspace: HERE.into(),
        folder: HERE.into(),
    };
    let assigned = Entry::Assigned(Assignment {
        parent: parent.session().to_string(),
        call: CallId { reply: 2, index: 0 },
        agent: None,
        instructions: String::new(),
        tools: None,
        rules: vec![],
        branch: None,
    });
    let entries = [said("count the lines"), assigned];
    let of = parent.session();
    store.create_child(&new, of, NOW_MS, &entries).unwrap();
    (of.to_string(), id)
}

#[test]
fn a_session_takes_its_tasks_into_the_trash_and_back() {
    let scene = full();
    let (parent, task) = with_task(&scene);
    let mut play = Play::new(&scene);
    let at = |play: &Play, id: &str| play.pane.list.rows.iter().position(|row| row.id == id);
    let place = at(&play, &parent).unwrap();
    assert_eq!(
        at(&play, &task),
        Some(place + 1),
        "it stands below its parent"
    );
    assert_eq!(play.pane.list.total, 7);
    play.screens("tasks");
    for _ in 0..place {
        play.keys(&[KeyCode::Down]);
    }
    let lock = SessionLock::take(&scene.ctx.paths.data_dir, &task).unwrap();
    play.keys(&[KeyCode::Delete, KeyCode::Char('y')]);
    let screen = play.screen(120, 40);
    assert!(screen.contains("cannot put it into the trash"), "{screen}");
    assert_eq!(play.pane.list.total, 7);
    drop(lock);
    play.keys(&[KeyCode::Delete, KeyCode::Char('y')]);
    assert_eq!((at(&play, &parent), at(&play, &task)), (None, None));
    assert_eq!(play.pane.list.total, 5);
    play.keys(&[KeyCode::Tab]);
    assert_eq!((at(&play, &parent), at(&play, &task)), (Some(0), Some(1)));
    play.keys(&[KeyCode::Tab]);
    play.control('y');
    assert_eq!(play.pane.list.total, 7);
}
