//! The screen of an [`App`] that is given a log and keys, and read like a page.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Style;
use rewake::config::{Config, ModelFigures};
use rewake::core::access::Access;
use rewake::core::entry::{Block, CallId, Entry, Mode, Via};
use rewake::core::next::Why;
use rewake::core::policy::Sandbox;
use rewake::engine::Event;
use rewake::model::{Delta, Figures};
use rewake::session::context::{Gauging, KnownWindows, windows};
use rewake::session::{Ending, ResumeReport};
use rewake::store::{Message, NewSession, Queued, Store};
use rewake::ui::app::{App, Intent, LaunchInfo, Msg, Phase};
use rewake::ui::commands::CustomList;
use rewake::ui::highlight::Highlighter;
use rewake::ui::live::{LiveEvent, Opening, SessionView};
use rewake::ui::theme::Theme;
use rewake::ui::view;

use crate::keyboard::keys;
use crate::log::{FOLDER, Log, NOON_MS, entry};

pub const ID: &str = "01a1fc18-224f-7000-8000-000000000000";

/// The sizes that every screen is looked at.
pub const SIZES: [(u16, u16); 3] = [(120, 40), (80, 24), (40, 12)];

/// A kernel that has all.
const SANDBOX: Sandbox = Sandbox::WHOLE;

pub struct Stage {
    pub app: App,
    pub log: Log,
    /// All that was wanted to be done outside.
    pub wanted: Vec<Intent>,
    terminal: Terminal<TestBackend>,
    is_open: bool,
    /// When the last key was pressed.
    key_at: Instant,
}

impl Stage {
    pub fn new(width: u16, height: u16) -> Stage {
        let launch = LaunchInfo {
            folder: FOLDER.into(),
            workspace: FOLDER.into(),
            home: Some("/home/ann".into()),
        };
        let theme = Theme::named("dark").unwrap();
        let mut app = App::new(launch, theme, Figures::new(&Config::default()), NOON_MS);
        app.look.code = Highlighter::direct();
        app.branch = Some("main".into());
        let mut stage = Stage {
            app,
            log: Log::default(),
            wanted: Vec::new(),
            terminal: Terminal::new(TestBackend::new(width, height)).unwrap(),
            is_open: false,
            key_at: Instant::now(),
        };
        stage.send(Msg::Resize(width, height));
        stage.send(Msg::Commands(CustomList::default()));
        stage
    }

    /// A session that is open, with nothing said yet.
    pub fn opened(width: u16, height: u16) -> Stage {
        let mut stage = Stage::new(width, height);
        stage.open();
        stage.engine_event(LiveEvent::Resting(Why::Idle));
        stage
    }

    pub fn send(&mut self, msg: Msg) {
        let now_ms = self.app.now_ms;
        let wanted = self.app.update(msg, now_ms);
        self.wanted.extend(wanted);
    }

    pub fn engine_event(&mut self, event: impl Into<LiveEvent>) {
        self.send(Msg::Engine(0, event.into()));
    }

    /// The session with all that its log has.
    pub fn open(&mut self) {
        self.open_with(|_| {});
    }

    /// One that was taken up, or copied.
    pub fn open_found(&mut self, mode: Mode, forked: bool) {
        let entries = self.log.last_seq() + 1;
        self.open_with(|opening| {
            opening.found = Some(ResumeReport {
                id: ID.into(),
                forked,
                mode,
                title: "mend it".into(),
                ending: Ending::Killed,
                age_ms: 1_000,
                entries,
                running: Vec::new(),
                queued: 0,
                owed: true,
                brought: 0,
            });
        });
    }

    pub fn open_with(&mut self, change: impl FnOnce(&mut Opening)) {
        self.app.now_ms = self.log.now_ms();
        let mut opening = Opening {
            id: ID.into(),
            found: None,
            warnings: Vec::new(),
            recent: self.log.records.clone(),
            cost_usd: Some(0.0),
            queued: Vec::new(),
            input: None,
            edited: None,
            sandbox: SANDBOX,
            now: self.now(),
        };
        change(&mut opening);
        self.is_open = true;
        self.engine_event(LiveEvent::Opened(Box::new(opening)));
        if self.app.session.phase != Phase::Watching {
            self.engine_event(LiveEvent::Working);
        }
    }

    /// The session of another process.
    pub fn watch(&mut self) {
        self.app.session.phase = Phase::Watching;
        self.open();
    }

    pub fn rest(&mut self) {
        self.engine_event(LiveEvent::Resting(Why::Idle));
    }

    fn now(&self) -> SessionView {
        let mut config = Config::default();
        let figures = ModelFigures {
            context_window: Some(200_000),
            max_output: Some(8_000),
            ..ModelFigures::default()
        };
        config.models.insert(self.log.state.model.clone(), figures);
        let gauging = Gauging {
            known: KnownWindows::of(&config),
            windows: windows(&config),
        };
        SessionView::of(&self.log.state, &gauging)
    }

    /// One more entry, shown as it is recorded.
    #[track_caller]
    pub fn log(&mut self, entry: Entry) {
        let record = self.log.push(entry).clone();
        if self.is_open {
            self.app.now_ms = record.at_ms;
            let now = self.now();
            self.engine_event(LiveEvent::recorded(record, now));
        }
    }

    #[track_caller]
    pub fn says(&mut self, text: &str) {
        self.log(entry::said(text));
    }

    /// An answer; the ids of its calls.
    #[track_caller]
    pub fn replies(&mut self, blocks: Vec<Block>) -> Vec<CallId> {
        let calls = blocks
            .iter()
            .filter(|b| matches!(b, Block::Call { .. }))
            .count();
        self.log(entry::replied(blocks));
        let reply = self.log.last_seq();
        let id = |index| CallId { reply, index };
        (0..u32::try_from(calls).unwrap()).map(id).collect()
    }

    /// An answer with one call that is done at once.
    #[track_caller]
    pub fn calls(&mut self, call: Block, output: &str) {
        let ids = self.replies(vec![call]);
        self.log(entry::done(ids[0], output));
    }

    #[track_caller]
    pub fn runs(&mut self, call: Block, exit_code: i32, output: &str) {
        let ids = self.replies(vec![call]);
        self.log(entry::started(ids[0]));
        self.log(entry::ran(ids[0], exit_code, output));
    }

    pub fn streams(&mut self, text: &str) {
        self.engine_event(Event::Delta(Delta::Text(text.into())));
    }

    pub fn asks(&mut self, call: CallId, why: &str, rule: Option<&str>) {
        self.asks_one_of(call, why, rule, (1, 1));
    }

    /// One of several questions of an answer.
    pub fn asks_one_of(
        &mut self,
        call: CallId,
        why: &str,
        rule: Option<&str>,
        place: (usize, usize),
    ) {
        self.asks_with(call, why, rule, None, place);
    }

    /// About a command that would reach so far.
    pub fn asks_for(&mut self, call: CallId, why: &str, rule: Option<&str>, access: Access) {
        self.asks_with(call, why, rule, Some(access), (1, 1));
    }

    fn asks_with(
        &mut self,
        call: CallId,
        why: &str,
        rule: Option<&str>,
        access: Option<Access>,
        place: (usize, usize),
    ) {
        self.engine_event(Event::Asked {
            call,
            why: why.into(),
            rule: rule.map(str::to_string),
            access,
            place,
        });
    }

    /// Time goes by.
    pub fn waits(&mut self, ms: i64) {
        self.app.now_ms += ms;
        self.key_at += Duration::from_millis(u64::try_from(ms).unwrap());
        self.send(Msg::Tick(self.key_at));
    }

    /// Keys, ten milliseconds after each other.
    #[track_caller]
    pub fn keys(&mut self, written: &str) {
        for key in keys(written) {
            self.key_at += Duration::from_millis(10);
            self.app.now_ms += 10;
            // As in the loop: what is seen is what keys are about.
            self.draw();
            self.send(Msg::Key(key, self.key_at));
        }
    }

    /// A key at this very time; `\n` is Enter.
    pub fn presses(&mut self, key: char) {
        let code = match key {
            '\n' => KeyCode::Enter,
            key => KeyCode::Char(key),
        };
        let key = KeyEvent::new(code, KeyModifiers::NONE);
        self.send(Msg::Key(key, self.key_at));
    }

    pub fn pastes(&mut self, text: &str) {
        self.send(Msg::Paste(text.into(), self.key_at));
    }

    pub fn draw(&mut self) -> &Buffer {
        let Stage { app, terminal, .. } = self;
        terminal.draw(|frame| view::draw(frame, app)).unwrap();
        app.prompts.drawn(self.key_at, self.key_at);
        terminal.backend().buffer()
    }

    /// What asks is seen, and nothing is typed for as long as it wants.
    pub fn quiet(&mut self) {
        self.draw();
        self.waits(700);
        self.draw();
    }

    /// Keys as a person presses them who read what asks.
    #[track_caller]
    pub fn answers(&mut self, written: &str) {
        self.quiet();
        self.keys(written);
    }

    /// Selects an answer by its letter, and confirms it as soon as Enter counts.
    #[track_caller]
    pub fn chooses(&mut self, letter: &str) {
        self.answers(letter);
        self.confirms();
    }

    /// Enter, as soon as it counts.
    #[track_caller]
    pub fn confirms(&mut self) {
        self.answers("<Enter>");
    }

    /// Denies what is asked, with this reason.
    #[track_caller]
    pub fn denies(&mut self, reason: &str) {
        self.chooses("n");
        self.keys(&format!("{reason}<Enter>"));
    }

    /// Another size of the terminal.
    pub fn resize(&mut self, width: u16, height: u16) {
        self.terminal.backend_mut().resize(width, height);
        self.send(Msg::Resize(width, height));
    }

    /// The rows of the screen, without the blanks at their ends.
    pub fn rows(&mut self) -> Vec<String> {
        let buffer = self.draw();
        let (width, height) = (buffer.area.width, buffer.area.height);
        let row = |y: u16| {
            let mut row = String::new();
            let mut hidden = 0;
            for x in 0..width {
                let symbol = buffer[(x, y)].symbol();
                if hidden == 0 {
                    row.push_str(symbol);
                    // A wide character has the next cell too.
                    hidden = rewake::ui::text::width(symbol).saturating_sub(1);
                } else {
                    hidden -= 1;
                }
            }
            row.trim_end().to_string()
        };
        (0..height).map(row).collect()
    }

    pub fn screen(&mut self) -> String {
        self.rows().join("\n")
    }

    #[track_caller]
    pub fn sees(&mut self, text: &str) {
        let screen = self.screen();
        assert!(screen.contains(text), "{text:?} is not on\n{screen}");
    }

    /// The one row with this text.
    #[track_caller]
    pub fn line_with(&mut self, text: &str) -> String {
        let rows = self.rows();
        let found: Vec<&String> = rows.iter().filter(|row| row.contains(text)).collect();
        match found[..] {
            [row] => row.clone(),
            _ => panic!("{} rows have {text:?}:\n{}", found.len(), rows.join("\n")),
        }
    }

    #[track_caller]
    pub fn does_not_see(&mut self, text: &str) {
        let screen = self.screen();
        assert!(!screen.contains(text), "{text:?} is on\n{screen}");
    }

    /// How the first character of a text on the screen looks.
    #[track_caller]
    pub fn style_of(&mut self, text: &str) -> Style {
        let rows = self.rows();
        let at = rows.iter().enumerate().find_map(|(y, row)| {
            let before = &row[..row.find(text)?];
            Some((rewake::ui::text::width(before), y))
        });
        let Some((x, y)) = at else {
            panic!("{text:?} is not on\n{}", rows.join("\n"));
        };
        let at = (u16::try_from(x).unwrap(), u16::try_from(y).unwrap());
        self.terminal.backend().buffer()[at].style()
    }

    /// What was said with Enter, oldest first.
    pub fn sent(&self) -> Vec<&str> {
        let said = self.wanted.iter().filter_map(|intent| match intent {
            Intent::Say(words) => Some(words.text.as_str()),
            _ => None,
        });
        said.collect()
    }

    pub fn is_over(&self) -> bool {
        self.wanted
            .iter()
            .any(|intent| matches!(intent, Intent::Quit))
    }
}

/// Messages that wait, with ids as a store gives them.
pub fn queued(texts: &[&str]) -> Vec<Queued> {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let new = NewSession {
        id: ID.into(),
        workspace: FOLDER.into(),
        folder: FOLDER.into(),
    };
    let opened = Log::default().records.remove(0).entry;
    store.create(&new, NOON_MS, opened).unwrap();
    for text in texts {
        let message = Message {
            text: text.to_string(),
            images: Vec::new(),
            via: Via::Queue,
            command: None,
            origin: None,
        };
        store.inbox_mut().queue(ID, &message, &[], NOON_MS).unwrap();
    }
    store.inbox().queued(ID).unwrap()
}

/// The same scene at every size, as one text.
pub fn at_every_size(play: impl Fn(&mut Stage)) -> String {
    let mut pages = String::new();
    for (width, height) in SIZES {
        let mut stage = Stage::new(width, height);
        play(&mut stage);
        let screen = stage.screen();
        pages.push_str(&format!("──── {width}x{height} ────\n{screen}\n"));
    }
    pages
}

/// The scene is as it was accepted, at every size.
macro_rules! scene {
    ($name:literal, $play:expr) => {
        insta::with_settings!({
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!($name, crate::stage::at_every_size($play));
        })
    };
}
pub(crate) use scene;
