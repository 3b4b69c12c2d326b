//! Keys in, screens out, over a real store: what is asked is answered at once.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::tz::TimeZone;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::queue::Queue;
use super::read::Reader;
use super::*;
use crate::config::{self, Env, Paths};
use crate::core::entry::*;
use crate::session::Surroundings;
use crate::store::{Batch, Head, NewFork, NewSession, SessionLock, Store, new_id};
use crate::ui::theme::Theme;
use crate::workspace::Here;

const HERE: &str = "/home/ann/parser";
/// 2026-11-21 12:00 UTC.
const NOW_MS: i64 = 1_795_262_400_000;
const HOUR_MS: i64 = 3_600_000;
const SIZES: [(u16, u16); 3] = [(120, 40), (80, 24), (40, 12)];

struct Scene {
    _dir: tempfile::TempDir,
    around: Surroundings,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_string_lossy().into_owned();
        let env = Env::new([("REWAKE_HOME", home.as_str())], dir.path().to_path_buf());
        let paths = Paths::new(&env).unwrap();
        paths.create().unwrap();
        let loaded = config::load(&env, &paths, dir.path(), &[]).unwrap();
        let here = Here {
            root: HERE.into(),
            is_git: true,
            folder: HERE.into(),
        };
        let around = Surroundings {
            env,
            paths,
            here,
            loaded,
            flags: Vec::new(),
        };
        Scene { _dir: dir, around }
    }

    fn store(&self) -> Store {
        self.around.open_store().unwrap()
    }

    fn reader(&self) -> Reader<'_> {
        Reader::open(&self.around, TimeZone::UTC).unwrap()
    }
}

fn begin(store: &mut Store, workspace: &str, at_ms: i64) -> Head {
    let new = NewSession {
        id: new_id(),
        workspace: workspace.into(),
        folder: workspace.into(),
    };
    let opened = Entry::Opened {
        folder: workspace.into(),
        version: "0.1.0".into(),
        model: "anthropic/claude-sonnet-4-5".into(),
        mode: Mode::Default,
        layers: Layers::default(),
    };
    store.create(&new, at_ms, opened).unwrap().0
}

fn add(store: &mut Store, head: &mut Head, at_ms: i64, entries: Vec<Entry>) {
    let batch = Batch {
        at_ms,
        entries,
        ..Batch::default()
    };
    store.append(head, &batch).unwrap();
}

fn said(text: &str) -> Entry {
    Entry::Said {
        text: text.into(),
        images: vec![],
        via: Via::Prompt,
    }
}

fn replied(blocks: Vec<Block>) -> Entry {
    Entry::Replied {
        blocks,
        usage: Usage {
            input: 20_000,
            output: 1_000,
            ..Usage::default()
        },
        stop: StopReason::EndTurn,
        model: "anthropic/claude-sonnet-4-5".into(),
        took_ms: 1,
        asked_bytes: 0,
    }
}

fn finished(reply: Seq, index: u32, outcome: Outcome, fact: Option<Fact>) -> Entry {
    Entry::Finished {
        call: CallId { reply, index },
        outcome,
        fact,
        tree: None,
    }
}

fn talk(store: &mut Store, workspace: &str, at_ms: i64, words: &str) -> Head {
    let mut head = begin(store, workspace, at_ms);
    let answer = replied(vec![Block::text("It is done.")]);
    add(store, &mut head, at_ms, vec![said(words), answer]);
    head
}

fn fork(store: &mut Store, from: &Head, seq: Seq, at_ms: i64) -> Head {
    let from = ForkPoint {
        session: from.session().into(),
        seq,
    };
    let new = NewFork {
        id: new_id(),
        from,
        unfinished: false,
    };
    store.fork(&new, at_ms).unwrap()
}

/// The session that most tests look into: a plan, an edit, a failing test.
fn parser(store: &mut Store) -> Head {
    let mut head = begin(store, HERE, NOW_MS - 2 * HOUR_MS);
    let plan = Plan {
        steps: vec![PlanStep {
            text: "mend the lexer".into(),
            state: StepState::Current,
        }],
        goals: vec![],
    };
    let wrote = Fact::Wrote {
        path: format!("{HERE}/src/lexer.rs"),
        hash: "ab".into(),
    };
    let edit = r#"{"path":"src/lexer.rs","edits":[{"old":"a","new":"b"}]}"#;
    let steps = r#"{"steps":[{"text":"mend the lexer","state":"current"}]}"#;
    add(
        store,
        &mut head,
        NOW_MS - 2 * HOUR_MS,
        vec![
            said("fix the parser \u{1b}[31mtest\nit fails on 日本語"),
            replied(vec![
                Block::text("I look at the lexer."),
                Block::call("plan", steps),
                Block::call("edit", edit),
                Block::call("bash", r#"{"command":"cargo test"}"#),
            ]),
            finished(2, 0, Outcome::done("kept"), Some(Fact::Planned { plan })),
            finished(2, 1, Outcome::done("edited"), Some(wrote)),
            finished(2, 2, Outcome::error("1 failed:\n\u{7}lexer::wide"), None),
            replied(vec![Block::text("One test still fails.")]),
        ],
    );
    add(
        store,
        &mut head,
        NOW_MS - HOUR_MS,
        vec![
            said("go on"),
            replied(vec![Block::text("Now all of them pass.")]),
        ],
    );
    head
}

/// Sessions of three folders and days, one blank, one fork.
fn full() -> Scene {
    let scene = Scene::new();
    let mut store = scene.store();
    let day = 24 * HOUR_MS;
    talk(
        &mut store,
        "/home/ann/site",
        NOW_MS - 40 * day,
        "the colours of the\tsite",
    );
    talk(
        &mut store,
        HERE,
        NOW_MS - day,
        "write a \u{202e}grammar for the parser",
    );
    begin(&mut store, HERE, NOW_MS);
    talk(
        &mut store,
        "/home/ann/notes/with/a/very/long/path/that/goes/on",
        NOW_MS - day,
        "notes",
    );
    let head = parser(&mut store);
    let mut other = fork(&mut store, &head, 4, NOW_MS - HOUR_MS);
    add(
        &mut store,
        &mut other,
        NOW_MS - HOUR_MS,
        vec![said("try a table instead")],
    );
    let owed = Batch {
        at_ms: NOW_MS,
        unfinished: true,
        entries: vec![said("and the docs")],
        ..Batch::default()
    };
    store.append(&mut other, &owed).unwrap();
    scene
}

struct Play<'a> {
    reader: Reader<'a>,
    pane: Pane,
}

impl<'a> Play<'a> {
    fn new(scene: &'a Scene) -> Play<'a> {
        let (pane, ask) = Pane::new(HERE);
        let reader = scene.reader();
        let mut play = Play { reader, pane };
        play.ask(ask);
        play
    }

    fn ask(&mut self, ask: Ask) {
        let mut next = Some(ask);
        while let Some(ask) = next {
            let found = self.reader.answer(&ask, &Queue::default());
            next = found.and_then(|found| self.pane.found(found));
        }
    }

    fn did(&mut self, did: Did) -> Did {
        match did {
            Did::Ask(ask) => {
                self.ask(ask);
                Did::Nothing
            }
            did => did,
        }
    }

    fn key(&mut self, code: KeyCode) -> Did {
        let did = self.pane.key(&KeyEvent::new(code, KeyModifiers::NONE));
        self.did(did)
    }

    fn keys(&mut self, codes: &[KeyCode]) {
        for code in codes {
            assert_eq!(self.key(*code), Did::Nothing, "{code}");
        }
    }

    fn letters(&mut self, text: &str) {
        text.chars().for_each(|c| self.keys(&[KeyCode::Char(c)]));
    }

    fn screen(&mut self, columns: u16, rows: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        let theme = Theme::named("dark").unwrap();
        let draw = |frame: &mut ratatui::Frame<'_>| {
            self.pane.draw(frame, frame.area(), &theme, NOW_MS);
        };
        terminal.draw(draw).unwrap();
        terminal.backend().to_string()
    }

    /// The same at each size.
    fn screens(&mut self, name: &str) {
        for (columns, rows) in SIZES {
            let screen = self.screen(columns, rows);
            insta::assert_snapshot!(format!("{name}-{columns}x{rows}"), screen);
        }
    }

    fn title(&self) -> &str {
        self.pane.list.row().map_or("", |row| row.title.as_str())
    }
}

#[test]
fn sessions_stand_under_their_folders_and_days() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.pane.list.rows[1].state = State::InUse(Some(4_242));
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
    assert!(play.screen(80, 24).contains("Nothing like it"));
}

#[test]
fn checkpoints_are_a_tree_with_the_conversation_beside_it() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Down, KeyCode::Enter]);
    play.screens("tree");
    play.keys(&[KeyCode::Tab]);
    let small = play.screen(40, 12);
    insta::assert_snapshot!("tree-conversation-40x12", small);
}

#[test]
fn a_fork_shows_where_it_comes_from_and_leads_there() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Enter]);
    play.screens("fork");
    let fork = play.pane.tree.as_ref().unwrap().session.clone();
    play.keys(&[KeyCode::Down, KeyCode::Right]);
    let trunk = play.pane.tree.as_ref().unwrap().session.clone();
    assert_ne!(fork, trunk);
    assert!(play.screen(120, 40).contains("answered"));
}

#[test]
fn a_session_is_gone_on_with_from_its_end_and_forked_before_it() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Down]);
    let id = play.pane.list.row().unwrap().id.clone();
    assert_eq!(play.key(KeyCode::Char('r')), Did::Resume(id.clone()));
    let at = |seq| Did::ForkAt {
        id: id.clone(),
        seq,
    };
    assert_eq!(play.key(KeyCode::Char('f')), at(8));
    play.keys(&[KeyCode::Enter]);
    assert_eq!(play.key(KeyCode::Enter), Did::Resume(id.clone()));
    assert_eq!(play.key(KeyCode::Char('f')), at(8));
    play.keys(&[KeyCode::Up, KeyCode::Up]);
    assert_eq!(play.key(KeyCode::Enter), at(5));
    play.keys(&[KeyCode::Home]);
    assert_eq!(play.key(KeyCode::Char('r')), at(2));
    play.keys(&[KeyCode::Left]);
    assert_eq!(play.key(KeyCode::Esc), Did::Close);
}

#[test]
fn deleting_asks_and_can_be_undone() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Down, KeyCode::Char('d')]);
    play.screens("delete");
    let title = play.title().to_string();
    play.keys(&[KeyCode::Char('n'), KeyCode::Char('d'), KeyCode::Enter]);
    assert_eq!(play.title(), title);
    play.keys(&[KeyCode::Delete, KeyCode::Char('y')]);
    assert_ne!(play.title(), title);
    assert_eq!(play.pane.list.total, 4);
    play.letters("T");
    assert_eq!((play.title(), play.pane.list.total), (title.as_str(), 1));
    play.letters("T");
    play.letters("u");
    assert_eq!(play.pane.list.total, 5);
    play.letters("u");
}

#[test]
fn a_session_in_use_is_shown_so_and_not_deleted() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Down]);
    let id = play.pane.list.row().unwrap().id.clone();
    let _lock = SessionLock::take(&scene.around.paths.data_dir, &id).unwrap();
    let pid = std::process::id();
    let ask = play.pane.reload();
    play.ask(ask);
    assert_eq!(play.pane.list.row().unwrap().state, State::InUse(Some(pid)));
    play.letters("dy");
    let screen = play.screen(120, 40);
    assert!(
        screen.contains("cannot delete: session") && screen.contains("is in use"),
        "{screen}"
    );
    assert_eq!(play.pane.list.total, 5);
    play.ask(Ask::Rename {
        id,
        title: "mine".into(),
    });
    assert!(play.screen(120, 40).contains("cannot rename"));
}

#[test]
fn a_new_title_is_typed_and_kept() {
    let scene = full();
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Down, KeyCode::Char('R')]);
    let clear = KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL);
    assert_eq!(play.pane.key(&clear), Did::Nothing);
    play.pane.paste("The\nparser");
    assert!(play.screen(40, 12).contains("Title: The parser"));
    let Did::Rename { id, title } = play.key(KeyCode::Enter) else {
        panic!("no title");
    };
    play.ask(Ask::Rename {
        id: id.clone(),
        title,
    });
    assert_eq!(play.title(), "The parser");
    let info = scene.store().find(&id).unwrap();
    assert_eq!(info.title.as_deref(), Some("The parser"));
    assert!(!info.unfinished);
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
        (200, 450)
    );
    play.keys(&[KeyCode::End]);
    assert_eq!(play.pane.list.rows.len(), 400);
    play.keys(&[KeyCode::End, KeyCode::End]);
    assert_eq!(play.title(), "task 0");
    play.keys(&[KeyCode::Home]);
    assert_eq!(play.title(), "task 449");
    // One that is written to meanwhile costs no other its place in the list.
    let ids: std::collections::HashSet<&str> = play
        .pane
        .list
        .rows
        .iter()
        .map(|row| row.id.as_str())
        .collect();
    assert_eq!(ids.len(), 450);
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
    play.keys(&[KeyCode::Enter]);
    let selected = |play: &Play<'_>| play.pane.tree.as_ref().unwrap().target();
    assert_eq!(selected(&play), Some(tree::Target::Point(1_000)));
    assert_eq!(play.pane.tree.as_ref().unwrap().points.len(), 200);
    play.keys(&[KeyCode::Home]);
    // What came before does not move the cursor.
    assert_eq!(selected(&play), Some(tree::Target::Point(802)));
    assert_eq!(play.pane.tree.as_ref().unwrap().points.len(), 400);
    for _ in 0..9 {
        play.keys(&[KeyCode::Home]);
    }
    assert_eq!(selected(&play), Some(tree::Target::Point(2)));
    assert_eq!(play.pane.tree.as_ref().unwrap().points.len(), 1_000);
}

#[test]
fn stale_answers_are_dropped() {
    let scene = full();
    let mut reader = scene.reader();
    let (mut pane, first) = Pane::new(HERE);
    let Did::Ask(second) = pane.paste("lexer") else {
        panic!("nothing is asked");
    };
    let queue = Queue::default();
    let late = reader.answer(&first, &queue).unwrap();
    let found = reader.answer(&second, &queue).unwrap();
    pane.found(found);
    let rows = pane.list.rows.len();
    pane.found(late);
    assert_eq!(pane.list.rows.len(), rows);
    assert!(rows < 5);
}

#[test]
fn the_worker_answers_and_ends() {
    let scene = full();
    let (tell, told) = mpsc::channel();
    let tell = Arc::new(move |found| drop(tell.send(found)));
    let Scene { _dir, around } = scene;
    let worker = Worker::start(Arc::new(around), tell);
    let (mut pane, ask) = Pane::new(HERE);
    worker.ask(ask);
    let limit = Duration::from_secs(60);
    pane.found(told.recv_timeout(limit).unwrap());
    assert_eq!(pane.list.rows.len(), 5);
    drop(worker);
    let gone = told.recv_timeout(limit);
    assert_eq!(gone, Err(mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn no_size_and_no_key_makes_it_fall_over() {
    let scene = full();
    let mut play = Play::new(&scene);
    let codes = [
        KeyCode::Down,
        KeyCode::Enter,
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
