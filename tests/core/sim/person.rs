//! A person at the terminal: everything that may be asked of the engine, while it works and
//! while it rests, with a process that dies near it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use rewake::config::Config;
use rewake::core::budget::Budget;
use rewake::core::entry::Choice;
use rewake::core::entry::*;
use rewake::core::permission::{PathUse, Permission};
use rewake::core::policy::{Decision, Judgement};
use rewake::core::settings::Policy;
use rewake::core::signal::Signal;
use rewake::core::state::State;
use rewake::engine::{Command, Engine, EngineError, Event, Log, OnEvent, OnTerminal, RestReason};
use rewake::session::context::windows;
use rewake::store::{InboxId, Message, Store};
use tokio::sync::mpsc::unbounded_channel;

use super::check::{check_acknowledged, check_end};
use super::fake::{self, Fake, Outside, Script};
use super::stage::{begin, fresh_store, settings};

pub const OTHER_MODEL: &str = "test/other";
const WORDS: &str = "some words";
const MENDED: &str = "mended words";
const ASIDE: &str = "told besides";
const THEIRS: &str = "make test";
const TITLE: &str = "a title";

/// What a person does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    Say,
    /// Says something, and mends it in the queue.
    Edit,
    /// Says something, and takes it out of the queue.
    Remove,
    Note,
    Name,
    Mode,
    Model,
    Compact,
    Stop,
    StopAndSay,
    GoOn,
    KeepInput,
    /// Runs a command of their own.
    Run,
    /// Runs one that has the terminal.
    OnTerminal,
}

pub const ALL: [Does; 12] = [
    Does::Say,
    Does::Edit,
    Does::Remove,
    Does::Note,
    Does::Name,
    Does::Mode,
    Does::Model,
    Does::Compact,
    Does::Stop,
    Does::StopAndSay,
    Does::GoOn,
    Does::KeepInput,
];

/// And what they do besides the model.
pub const OWN: [Does; 2] = [Does::Run, Does::OnTerminal];

/// The person, what they were told, and the disk that they fill.
#[derive(Default)]
pub struct Person {
    /// At this boundary, or when there is nothing else to do.
    act: Option<(u64, Does)>,
    /// Follows when the first message is in the queue.
    then: Option<Does>,
    /// The last text of each message that was told to be queued.
    texts: HashMap<InboxId, String>,
    /// Taken out of the queue: it may have been said before.
    removed: bool,
    went_on: bool,
    /// How the disk is filled at the boundary of the act; it is emptied when that was told.
    pub fill_disk: Option<fn(bool)>,
    /// The disk was full at least once, and nothing could go on.
    pub was_full: bool,
    was_paused: bool,
    /// Where each call led when it was asked about last.
    asked_about: BTreeMap<CallId, Option<PathBuf>>,
}

impl Person {
    pub fn new(at: u64, does: Does) -> Person {
        Person {
            act: Some((at, does)),
            ..Person::default()
        }
    }

    /// What is done at this boundary.
    pub fn at_boundary(&mut self, now: u64) -> Vec<Command> {
        match self.act {
            Some((at, does)) if at == now => self.begin(does),
            _ => Vec::new(),
        }
    }

    fn begin(&mut self, does: Does) -> Vec<Command> {
        self.act = None;
        if let Some(fill) = self.fill_disk {
            fill(true);
        }
        match does {
            Does::Say => vec![say(WORDS)],
            Does::Edit | Does::Remove => {
                self.then = Some(does);
                vec![say(WORDS)]
            }
            // What is said behind it tells when it was heard.
            Does::Note => vec![Command::Note(ASIDE.into()), say(WORDS)],
            Does::Name => vec![Command::Signal(Signal::Name {
                title: TITLE.into(),
            })],
            Does::Mode => vec![choose(None, Some(Mode::Plan))],
            Does::Model => vec![choose(Some(OTHER_MODEL), None)],
            Does::Compact => vec![Command::Signal(Signal::Compact)],
            Does::Stop => vec![Command::STOP],
            Does::StopAndSay => vec![Command::STOP, say(WORDS)],
            Does::GoOn => vec![Command::Signal(Signal::GoOn)],
            Does::Run | Does::OnTerminal => vec![Command::RunForUser {
                command: THEIRS.into(),
                on_terminal: does == Does::OnTerminal,
            }],
            Does::KeepInput => vec![Command::KeepInput("not sent".into())],
        }
    }

    /// A message is in the queue.
    fn queued(&mut self, id: InboxId, text: &str) -> Option<Command> {
        self.texts.insert(id, text.to_string());
        match self.then.take()? {
            Does::Edit => Some(Command::EditQueued {
                id,
                message: Some(message(MENDED)),
            }),
            _ => {
                self.removed = true;
                Some(Command::EditQueued { id, message: None })
            }
        }
    }

    /// There is nothing to do without the person. `None`: they leave.
    fn at_rest(&mut self) -> Option<Vec<Command>> {
        if let Some((_, does)) = self.act {
            return Some(self.begin(does));
        }
        (!std::mem::replace(&mut self.went_on, true)).then(|| vec![Command::Signal(Signal::GoOn)])
    }
}

fn message(text: &str) -> Message {
    Message {
        text: text.into(),
        images: vec![],
        via: Via::Queue,
        command: None,
        origin: None,
    }
}

fn say(text: &str) -> Command {
    Command::Say {
        message: message(text),
        blobs: vec![],
    }
}

fn choose(model: Option<&str>, mode: Option<Mode>) -> Command {
    Command::Signal(Signal::Choose(Choice {
        model: model.map(str::to_string),
        mode,
        ..Choice::default()
    }))
}

/// Asks about commands, a change and what is far away: several calls of each answer.
pub fn policy() -> Policy {
    Policy {
        served_check: std::sync::Arc::new(|_| Ok(())),
        permission_check: Arc::new(|permission, _, _| {
            let decision = match permission {
                Permission::Command { line, .. } if line.contains("denied") => Decision::Deny {
                    reason: "no".into(),
                },
                Permission::Command { line, .. } if line == "server" => Decision::Allow,
                Permission::Command { .. }
                | Permission::Foreign { .. }
                | Permission::Fetch { .. }
                | Permission::Search { .. }
                | Permission::Path {
                    path_use: PathUse::Write,
                    ..
                } => Decision::Ask {
                    why: "it does something".into(),
                    rule: None,
                },
                _ => Decision::Allow,
            };
            // Every command gets the same access; the world checks that it is recorded.
            let access = match permission {
                Permission::Command { line, .. } => Some(fake::access_of(line)),
                _ => None,
            };
            Judgement { decision, access }
        }),
        interactive: true,
        background: Default::default(),
        sandbox: Default::default(),
        checks: Vec::new(),
        max_turns: None,
        loop_guard: true,
        budget: Arc::new(|_, limit, ratio| Budget::new(limit.unwrap_or(1_000_000), 1_000, ratio)),
        windows: windows(&Config::default()),
        price: std::sync::Arc::new(|_, _| None),
    }
}

/// How it went.
pub struct Done {
    /// Passed in all.
    pub boundaries: u64,
    /// The disk was full while the person acted.
    pub was_full: bool,
    /// Nothing went on for that.
    pub was_paused: bool,
    /// Calls that were allowed, and not done because their path leads elsewhere by now.
    pub refused: usize,
}

/// A session with this person, through its crashes, to its end.
pub fn run(person: Person, crashes: Vec<u64>) -> Done {
    run_in(person, crashes, false)
}

/// The same where each crash exchanges what paths lead to.
pub fn run_where_paths_move(crashes: Vec<u64>) -> Done {
    run_in(Person::default(), crashes, true)
}

fn run_in(person: Person, crashes: Vec<u64>, moves: bool) -> Done {
    let dir = fresh_store();
    let has_crashes = !crashes.is_empty();
    let does = person.act.map(|(_, does)| does);
    let mut outside = Outside::new(Script::all_classes(), crashes);
    outside.person = person;
    outside.moves = moves;
    let outside = Rc::new(RefCell::new(outside));
    let session = begin(dir.path());
    let mut starts = 0;
    while !life(dir.path(), &session, &outside, starts > 0) {
        outside.borrow_mut().die(false);
        starts += 1;
        assert!(starts < 100, "the session never comes to rest");
    }
    let records = check_end(dir.path(), &session, &outside);
    check_words(&records, &outside.borrow().person);
    check_questions(&records);
    let refused = check_asked_about(&records, &outside.borrow().person);
    check_commands(&records, &outside.borrow(), has_crashes);
    if !has_crashes && let Some(does) = does {
        check_done(dir.path(), &session, &records, does);
        if !outside.borrow().person.was_paused {
            check_undisturbed(&records, does);
        }
    }
    let outside = outside.borrow();
    Done {
        boundaries: outside.passed,
        was_full: outside.person.was_full,
        was_paused: outside.person.was_paused,
        refused,
    }
}

/// One process, until the person leaves. False when it died.
fn life(dir: &Path, session: &str, outside: &Rc<RefCell<Outside>>, again: bool) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let crash = outside.borrow().crash.clone();
    runtime.block_on(async {
        let (commands, inbox) = unbounded_channel();
        outside.borrow_mut().commands = Some(commands);
        let store = Store::open(dir).expect("the store opens");
        let (head, records) = store.load(session).expect("the session loads");
        let state = State::of(rewake::tools::describe, &records).expect("the log folds");
        check_acknowledged(&records, session, outside);
        outside.borrow_mut().replies = replies(&records);
        let log = Log {
            store,
            head,
            state,
            shared: None,
        };
        let world = Rc::new(Fake::new(Rc::clone(outside)));
        let hears = hears(outside, session);
        let mut engine = Engine::new(log, world, settings(policy()), inbox, hears);
        let mut is_new = !again;
        let life = async {
            loop {
                let step = async {
                    if !is_new {
                        engine
                            .record_resumed(By::Person, "found".into(), false)
                            .await?;
                        is_new = true;
                    }
                    match engine.run().await? {
                        RestReason::Left(_) => Ok(true),
                        RestReason::Waiting(_) => {
                            rest(outside);
                            engine.idle().await.map(|()| false)
                        }
                    }
                };
                match step.await {
                    Ok(true) => return,
                    Ok(false) => {}
                    Err(EngineError::Store(error)) if error.is_passing() => {
                        outside.borrow_mut().person.was_paused = true;
                        make_room(outside);
                    }
                    Err(error) => panic!("the engine stopped: {error}"),
                }
            }
        };
        tokio::select! {
            biased;
            () = crash.notified() => false,
            () = life => true,
        }
    })
}

/// The person is told that the disk is full, and makes room.
fn make_room(outside: &Rc<RefCell<Outside>>) {
    let mut outside = outside.borrow_mut();
    outside.person.was_full = true;
    if let Some(fill) = outside.person.fill_disk {
        fill(false);
    }
}

fn rest(outside: &Rc<RefCell<Outside>>) {
    let mut outside = outside.borrow_mut();
    let does = outside.person.at_rest();
    let does = does.unwrap_or_else(|| vec![Command::Leave(SaveReason::Exit)]);
    outside.send(does);
}

fn replies(records: &[Record]) -> usize {
    let replied = records.iter().filter(|r| r.entry.kind() == "replied");
    replied.count()
}

fn hears(outside: &Rc<RefCell<Outside>>, session: &str) -> OnEvent {
    let outside = Rc::clone(outside);
    let session = session.to_string();
    Box::new(move |state, event| {
        let mut seen_by_user = outside.borrow_mut();
        match event {
            Event::Recorded(record) => {
                // The screen runs what has the terminal once it is recorded.
                if let Entry::UserCommand {
                    guard: Guard::Opaque,
                    ..
                } = &record.entry
                {
                    let ended = OnTerminal {
                        exit_code: Some(0),
                        how: "exit code 0".into(),
                    };
                    let entry = record.seq;
                    seen_by_user.send([Command::UserCommandOver { entry, ended }]);
                }
                seen_by_user.replies += usize::from(record.entry.kind() == "replied");
                seen_by_user.acknowledged.push((session.clone(), *record));
            }
            Event::Queued(queued) => {
                let next = seen_by_user.person.queued(queued.id, &queued.message.text);
                seen_by_user.send(next);
            }
            Event::Requeued(all) => {
                for queued in all {
                    let text = queued.message.text;
                    seen_by_user.person.texts.insert(queued.id, text);
                }
            }
            // Whoever presses twice decides once.
            Event::Asked { call, .. } => {
                let asked = state.call(call).map(|open| open.call.clone());
                let at = asked.and_then(|asked| seen_by_user.leads_to(&asked));
                seen_by_user.person.asked_about.insert(call, at);
                let (allow, reason) = (Verdict::Allow, "no".to_string());
                let decide = |verdict| Command::Decide {
                    call,
                    verdict,
                    rule: None,
                };
                seen_by_user.send([decide(allow), decide(Verdict::Deny { reason })]);
            }
            Event::Kept(Err(_)) => {
                drop(seen_by_user);
                make_room(&outside);
            }
            Event::Delta(_)
            | Event::Context(_)
            | Event::SummaryFailed(_)
            | Event::InputKept(_)
            | Event::RewindPlanned(..)
            | Event::Files(_)
            | Event::JournalFails(_)
            | Event::Notice(_)
            | Event::ChildAsks(_)
            | Event::ServerAsks { .. }
            | Event::Kept(Ok(())) => {}
            Event::CommandNotRun { .. } => panic!("a command was refused"),
        }
    })
}

fn count(records: &[Record], is_so: impl Fn(&Entry) -> bool) -> usize {
    records.iter().filter(|r| is_so(&r.entry)).count()
}

fn said(records: &[Record], words: &str) -> usize {
    count(
        records,
        |e| matches!(e, Entry::Said { text, .. } if text == words),
    )
}

/// What was told to be queued was said once, in its last text; nothing was said twice.
fn check_words(records: &[Record], person: &Person) {
    for words in [WORDS, MENDED] {
        let times = said(records, words);
        let seen_by_user = person.texts.values().filter(|t| *t == words).count();
        let least = if person.removed { 0 } else { seen_by_user };
        assert!(times <= 1, "{words:?} was said {times} times");
        assert!(times >= least, "{words:?} is lost");
    }
    let noted = count(
        records,
        |e| matches!(e, Entry::Noted { text, .. } if text == ASIDE),
    );
    assert!(noted <= 1, "a note was told {noted} times");
    for call in records.iter().filter_map(|r| match &r.entry {
        Entry::Decided { call, .. } => Some(*call),
        _ => None,
    }) {
        let of = |e: &Entry| matches!(e, Entry::Decided { call: c, .. } if *c == call);
        assert_eq!(count(records, of), 1, "call {call} was decided twice");
    }
}

/// What the user typed was run once at most, and its end was told once. One that was told to have
/// ended was run, and nothing is left of it.
fn check_commands(records: &[Record], outside: &Outside, has_crashes: bool) {
    let state = State::of(rewake::tools::describe, records).expect("the log folds");
    assert!(state.user_commands.is_empty(), "an end was not told");
    let ran = outside.effects.get(fake::OF_USER).copied().unwrap_or(0);
    let ends = |text: &str| {
        count(
            records,
            |e| matches!(e, Entry::Noted { text: t, about: Some(About::UserCommandEnded { .. }) } if t.contains(text)),
        )
    };
    let recorded = count(records, |e| matches!(e, Entry::UserCommand { .. }));
    assert!(recorded <= 1 && ran <= 1, "{recorded} recorded, {ran} run");
    assert_eq!(ends(""), recorded, "ends that were told");
    assert!(ran as usize <= recorded, "it was run without a record");
    assert_eq!(ends(fake::OF_USER), ran as usize, "its end is another's");
    // Behind a crash the next start sweeps it.
    assert!(
        has_crashes || outside.left_of_user() == 0,
        "a run folder stays"
    );
}

/// Every question of an answer was answered before a call of it with an effect was begun.
fn check_questions(records: &[Record]) {
    let begun: Vec<(u64, CallId)> = records
        .iter()
        .filter_map(|r| match &r.entry {
            Entry::Started { call, .. } => Some((r.seq, *call)),
            _ => None,
        })
        .collect();
    for record in records {
        let Entry::Decided { call, .. } = &record.entry else {
            continue;
        };
        let before = begun
            .iter()
            .find(|(seq, other)| *seq < record.seq && other.reply == call.reply);
        assert_eq!(before, None, "call {call} was asked about too late");
    }
}

/// What a person allowed is done where they were asked about, or not at all. How often it was not.
fn check_asked_about(records: &[Record], person: &Person) -> usize {
    for record in records {
        let Entry::Started {
            call,
            guard: Guard::Checked { path, .. },
            ..
        } = &record.entry
        else {
            continue;
        };
        if let Some(Some(at)) = person.asked_about.get(call) {
            assert_eq!(
                Path::new(path),
                at,
                "call {call} acts where nobody was asked about"
            );
        }
    }
    let refused = |e: &Entry| match e {
        Entry::Finished {
            outcome: Outcome::Error { output },
            ..
        } => output.text.contains("is not what was permitted"),
        _ => false,
    };
    count(records, refused)
}

/// No step was cut short but by a stop.
fn check_undisturbed(records: &[Record], does: Does) {
    let cut = |e: &Entry| {
        let Entry::Finished { outcome, .. } = e else {
            return false;
        };
        matches!(outcome, Outcome::Interrupted { .. })
    };
    let stops = matches!(does, Does::Stop | Does::StopAndSay);
    assert!(stops || count(records, cut) == 0, "a step was cut short");
}

/// Nobody died: what was asked for was done, once.
fn check_done(dir: &Path, session: &str, records: &[Record], does: Does) {
    let state = State::of(rewake::tools::describe, records).expect("the log folds");
    let store = Store::open(dir).expect("the store opens");
    assert!(store.inbox().queued(session).expect("the inbox").is_empty());
    let times = |is_so: fn(&Entry) -> bool| count(records, is_so);
    match does {
        Does::Say | Does::StopAndSay => assert_eq!(said(records, WORDS), 1),
        // It was queued at a moment at which it may be said at once.
        Does::Edit => assert_eq!(said(records, MENDED), 1),
        Does::Remove => assert!(said(records, WORDS) <= 1),
        Does::Note => {
            let noted = times(|e| matches!(e, Entry::Noted { text, .. } if text == ASIDE));
            assert_eq!((noted, said(records, WORDS)), (1, 1));
        }
        Does::Name => assert_eq!(state.title(), Some(TITLE)),
        Does::Mode => assert_eq!(state.mode, Mode::Plan),
        Does::Model => assert_eq!(state.model, OTHER_MODEL),
        Does::KeepInput => {
            let kept = store.inbox().drafts(session).expect("the drafts").input;
            assert_eq!(kept.as_deref(), Some("not sent"));
        }
        Does::Stop => assert!(times(|e| matches!(e, Entry::Stopped { .. })) <= 1),
        Does::Run | Does::OnTerminal => {
            let recorded = times(|e| matches!(e, Entry::UserCommand { .. }));
            assert_eq!(recorded, 1);
        }
        Does::Compact | Does::GoOn => {}
    }
    if matches!(does, Does::Mode | Does::Model) {
        assert_eq!(times(|e| matches!(e, Entry::Chose(_))), 1);
    }
    if does == Does::Name {
        assert_eq!(times(|e| matches!(e, Entry::Named { .. })), 1);
    }
    let info = store.history().find(session).expect("the session");
    assert_eq!(info.unfinished, state.unfinished(), "what lists say of it");
}
