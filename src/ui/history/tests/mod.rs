//! Keys in, screens out, over a real store: what is asked is answered at once.

mod changes;
mod list;
mod tree;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::tz::TimeZone;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::queue::Queue;
use super::read::HistoryReader;
use super::*;
use crate::config::{self, Env, Paths};
use crate::core::entry::*;
use crate::session::{AppContext, Ending};
use crate::store::{Batch, Head, NewFork, NewSession, SessionLock, Store, new_id};
use crate::ui::highlight::Highlighter;
use crate::ui::theme::Theme;
use crate::ui::transcript::LayoutContext;
use crate::workspace::StartFolder;

const HERE: &str = "/home/ann/parser";
/// 2026-11-21 12:00 UTC.
const NOW_MS: i64 = 1_795_262_400_000;
const HOUR_MS: i64 = 3_600_000;
const SIZES: [(u16, u16); 3] = [(120, 40), (80, 24), (40, 12)];

struct Scene {
    _dir: tempfile::TempDir,
    ctx: AppContext,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_string_lossy().into_owned();
        let env = Env::new([("REWAKE_HOME", home.as_str())], dir.path().to_path_buf());
        let paths = Paths::new(&env).unwrap();
        paths.create().unwrap();
        let loaded = config::load(&env, &paths, dir.path(), &[]).unwrap();
        let here = StartFolder {
            root: HERE.into(),
            is_git: true,
            folder: HERE.into(),
        };
        let ctx = AppContext {
            env,
            paths,
            here,
            loaded,
            flags: Vec::new(),
            given: Default::default(),
        };
        Scene { _dir: dir, ctx }
    }

    fn store(&self) -> Store {
        self.ctx.open_store().unwrap()
    }

    fn reader(&self) -> HistoryReader<'_> {
        HistoryReader::open(&self.ctx, TimeZone::UTC).unwrap()
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
        layers: PromptPrefix::default(),
        imported: None,
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
        command: None,
        origin: None,
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
        source_usage: None,
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
        place: None,
        unfinished: false,
    };
    store.fork(&new, &[], &[], at_ms).unwrap()
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
    reader: HistoryReader<'a>,
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

    fn ask(&mut self, request: HistoryRequest) {
        let mut next = Some(request);
        while let Some(ask) = next {
            let found = self.reader.answer(&ask, &Queue::default());
            next = found.and_then(|found| self.pane.receive(found));
        }
    }

    fn did(&mut self, did: PaneOutcome) -> PaneOutcome {
        match did {
            PaneOutcome::Request(ask) => {
                self.ask(ask);
                PaneOutcome::Nothing
            }
            did => did,
        }
    }

    fn key(&mut self, code: KeyCode) -> PaneOutcome {
        let did = self.pane.key(&KeyEvent::new(code, KeyModifiers::NONE));
        self.did(did)
    }

    fn keys(&mut self, codes: &[KeyCode]) {
        for code in codes {
            assert_eq!(self.key(*code), PaneOutcome::Nothing, "{code}");
        }
    }

    fn control(&mut self, letter: char) -> PaneOutcome {
        let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        let did = self.pane.key(&key);
        self.did(did)
    }

    fn letters(&mut self, text: &str) {
        text.chars().for_each(|c| self.keys(&[KeyCode::Char(c)]));
    }

    fn terminal(&mut self, columns: u16, rows: u16) -> Terminal<TestBackend> {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        let theme = Theme::named("dark").unwrap();
        let mut code = Highlighter::direct();
        let mut layout = LayoutContext {
            width: columns,
            theme: &theme,
            code: &mut code,
            generation: 0,
            now_ms: NOW_MS,
            zone: &TimeZone::UTC,
        };
        let draw = |frame: &mut ratatui::Frame<'_>| {
            self.pane.draw(frame, frame.area(), &mut layout);
        };
        terminal.draw(draw).unwrap();
        terminal
    }

    /// As it stands once everything that the first frame asks for is there.
    fn screen(&mut self, columns: u16, rows: u16) -> String {
        self.terminal(columns, rows);
        while let Some(ask) = self.pane.seen() {
            self.ask(ask);
        }
        self.terminal(columns, rows).backend().to_string()
    }

    fn buffer(&mut self, columns: u16, rows: u16) -> ratatui::buffer::Buffer {
        self.terminal(columns, rows).backend().buffer().clone()
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
