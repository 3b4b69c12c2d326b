//! The crash simulation: the real engine on a real store, in a world that can die at every
//! boundary. What must hold: a finished call is never lost, a side effect is never repeated
//! without being told, every request is valid, and the session comes to its end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on says so by panicking"
)]

mod check;
mod checks;
mod fake;
mod hooks;
mod lag;
mod person;
mod served;
mod shared;
mod signals;
mod stage;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use check::{check_acknowledged, check_end};
use fake::{Fake, Outside, Rng, Script};
use lag::Lag;
use person::Person;
use rewake::config::Config;
use rewake::core::background::BackgroundMode;
use rewake::core::budget::Budget;
use rewake::core::entry::Choice;
use rewake::core::entry::*;
use rewake::core::form::FormAnswer;
use rewake::core::next::Why;
use rewake::core::permission::Permission;
use rewake::core::policy::{Decision, Judgement};
use rewake::core::settings::Policy;
use rewake::core::signal::Signal;
use rewake::core::state::State;
use rewake::engine::{Command, Engine, Event, Log, OnEvent, RestReason};
use rewake::session::context::windows;
use rewake::store::{Batch, NewFork, Store, new_id};
use rewake::world::World as _;
use stage::{begin, fresh_store, settings};
use tokio::sync::mpsc::unbounded_channel;

/// What happens to a session in one run of the simulation.
#[derive(Debug, Clone, Default)]
struct Case {
    seed: u64,
    /// The process dies at these boundaries, counted over the whole case.
    crashes: Vec<u64>,
    /// A crash is a power cut: another boot, and no process survives.
    power_cut: bool,
    /// A keeper that was spawned at the crash comes to life after the restart.
    late_keeper: bool,
    stop_at: Option<u64>,
    /// A person pauses there, and lifts it when the session is at rest.
    pause_at: Option<u64>,
    say_at: Option<u64>,
    /// At the end, fork at this entry and run the fork too.
    fork_at: Option<u64>,
    random_script: bool,
    /// The model's context window, tokens; small ones are closed and begun again.
    window: Option<u64>,
    /// What every result has besides, bytes.
    bulk: usize,
    summariser_fails: bool,
    /// Each start is of another version than the session, and names another mode.
    upgraded: bool,
    /// The model cannot be asked, and there is another.
    overloaded: bool,
    /// Each answer begins with an effect.
    effects_first: bool,
    /// Commands that only read are called.
    reading: bool,
    /// The first of them takes longer than the others.
    slowly: bool,
    /// There are hooks.
    hooked: bool,
    /// There are checks.
    checked: bool,
    /// Sub-agents are given tasks.
    tasks: bool,
    /// Each later start waits for the person first.
    waits_first: bool,
    /// The model asks the person.
    model_asks: bool,
    /// Tools of servers are called.
    served: bool,
    /// Servers ask a person in the middle of a call; and whether there is none.
    server_asks: bool,
    without_person: bool,
    /// Servers die at these boundaries.
    servers_die: Vec<u64>,
    /// The same, in the background.
    background_tasks: bool,
    /// Commands in the background are waited for, and left running.
    waits: bool,
    /// The model repeats a call this number of times.
    repeats: usize,
    /// The last answers are cut off by the output limit.
    cut: bool,
    /// The first try of each answer breaks off.
    breaks: bool,
    /// Files are to be set back first; and nothing goes on behind that.
    restoring: bool,
    is_stopped: bool,
    /// The answer has to fit a schema, and this one of the answers does, from 0.
    fits_at: Option<usize>,
    /// The session has a journal, and a kill after a commit comes before its lines are written.
    lags: bool,
    /// The session is in a shared database, whose pushes have these faults.
    shared: Option<Vec<(u64, shared::Fault)>>,
    /// Another machine sends a message before each start of a process.
    mail: bool,
}

/// The version that takes a session up.
const NEWER: &str = "1";

struct Ran {
    /// Boundaries passed.
    boundaries: u64,
    records: Vec<Record>,
    looks: BTreeMap<CallId, u32>,
    /// The models that were asked, in order.
    asked: Vec<String>,
    /// Tries that broke off, and those after which another was made.
    broken: (usize, usize),
    /// The most commands that ran at the same time.
    most_acting: usize,
    /// Requests to append to the shared database.
    pushes: u64,
}

fn policy(window: u64) -> Policy {
    Policy {
        served_check: std::sync::Arc::new(|_| Ok(())),
        permission_check: std::sync::Arc::new(|permission, _, _| {
            let decision = match permission {
                Permission::Command { line, .. } if line.contains("denied") => Decision::Deny {
                    reason: "no".into(),
                },
                _ => Decision::Allow,
            };
            // The world checks that the access is recorded.
            let access = match permission {
                Permission::Command { line, .. } => Some(fake::access_of(line)),
                _ => None,
            };
            Judgement { decision, access }
        }),
        interactive: false,
        background: Default::default(),
        sandbox: Default::default(),
        checks: Vec::new(),
        max_turns: None,
        loop_guard: true,
        budget: std::sync::Arc::new(move |_, limit, ratio| {
            Budget::new(limit.unwrap_or(window), 1_000, ratio)
        }),
        windows: windows(&Config::default()),
        price: std::sync::Arc::new(|_, _| None),
    }
}

/// Runs a case to its end, through all its crashes.
fn run(case: &Case) -> Ran {
    let dir = fresh_store();
    let script = if case.random_script {
        Script::random(case.seed)
    } else if case.model_asks {
        Script::asked_by_model()
    } else if case.server_asks {
        Script::asked_by_server()
    } else if case.served {
        Script::served()
    } else if case.tasks {
        Script::tasks()
    } else if case.background_tasks {
        Script::tasks_in_background()
    } else if case.waits {
        Script::waiting()
    } else if case.checked {
        Script::checked()
    } else if case.repeats > 0 {
        Script::repeating(case.repeats)
    } else if case.hooked {
        Script::hooked()
    } else if case.slowly {
        Script::reading_slowly()
    } else if case.reading {
        Script::reading()
    } else if case.effects_first {
        Script::effects_first()
    } else if let Some(at) = case.fits_at {
        Script::structured(at)
    } else {
        Script::all_classes()
    };
    let outside = Rc::new(RefCell::new(Outside::new(script, case.crashes.clone())));
    outside.borrow_mut().hooks.are_there = case.hooked;
    outside.borrow_mut().has_checks = case.checked;
    outside.borrow_mut().servers.dies_at = case.servers_die.clone();
    outside.borrow_mut().late_keeper = case.late_keeper;
    outside.borrow_mut().has_person = case.model_asks || case.server_asks && !case.without_person;
    outside.borrow_mut().waits_first = case.waits_first;
    outside.borrow_mut().stop_at = case.stop_at;
    outside.borrow_mut().pause_at = case.pause_at;
    outside.borrow_mut().say_at = case.say_at;
    outside.borrow_mut().window = case.window.unwrap_or(1_000_000);
    outside.borrow_mut().bulk = case.bulk;
    outside.borrow_mut().reminds = case.waits;
    outside.borrow_mut().summariser_fails = case.summariser_fails;
    outside.borrow_mut().upgraded = case.upgraded;
    outside.borrow_mut().overloaded = case.overloaded;
    outside.borrow_mut().cuts = case.cut;
    outside.borrow_mut().breaks = case.breaks;
    outside.borrow_mut().has_schema = case.fits_at.is_some();
    outside.borrow_mut().interleaves =
        case.reading || case.slowly || case.random_script && case.seed.is_multiple_of(2);

    let memory = case.shared.clone().map(shared::Memory::with);
    let memory = memory.map(|memory| memory.sending_mail(case.mail));
    let session = begin(dir.path());
    if let Some(memory) = memory.clone() {
        memory.take_over(dir.path(), &session);
        let start = move |store: &mut Store, session: &str| memory.started(store, session);
        outside.borrow_mut().shared = Some(Rc::new(start));
    }
    let lag = case
        .lags
        .then(|| Lag::watch(dir.path(), &session, &outside));
    if case.restoring {
        let target = begin_restoring(dir.path(), &session, case.is_stopped);
        outside.borrow_mut().begun = Some(target);
    }
    go_on(case, dir.path(), &session, &outside, lag.as_ref());
    let boundaries = outside.borrow().passed;
    let looks = outside.borrow().looks.clone();
    let asked = outside.borrow().asked.clone();
    let broken = (outside.borrow().broken, outside.borrow().tried_again);
    let most_acting = outside.borrow().most_acting;
    outside.borrow_mut().children_end();
    let records = check_end(dir.path(), &session, &outside);
    if let Some(memory) = &memory {
        memory.check(dir.path(), &session);
    }
    let effects = outside.borrow().effects.clone();
    outside.borrow().hooks.check(&records, &effects);
    if case.checked {
        checks::check(&records, &outside.borrow());
    }
    let waiting = waiting(dir.path(), &session, &records);
    check_messages(&records, outside.borrow().queued - waiting);
    if !case.power_cut && case.stop_at.is_none() {
        check_results(&records, &case.servers_die);
    }
    if let Some(at) = case.fork_at {
        let at = at % records.len() as u64;
        let mut store = Store::open(dir.path()).expect("the store opens");
        let new = NewFork {
            id: new_id(),
            from: ForkPoint {
                session: session.clone(),
                seq: at,
            },
            place: None,
            unfinished: true,
        };
        let fork = store.fork(&new, &[], &[], 0).expect("a fork");
        drop(store);
        outside.borrow_mut().forget_after(at);
        let before = outside.borrow().effects.clone();
        go_on(case, dir.path(), fork.session(), &outside, None);
        let records = check_end(dir.path(), fork.session(), &outside);
        for record in records.iter().filter(|r| r.seq <= at) {
            if let Entry::Replied { blocks, .. } = &record.entry {
                for marker in fake::markers(record.seq, blocks) {
                    assert_eq!(
                        before.get(&marker),
                        outside.borrow().effects.get(&marker),
                        "{marker} ran in the fork"
                    );
                }
            }
        }
    }
    Ran {
        boundaries,
        records,
        looks,
        asked,
        broken,
        most_acting,
        pushes: memory.map_or(0, |memory| memory.pushes()),
    }
}

/// The same session, with files that are to be set back, and stopped where it was if `stopped`.
fn begin_restoring(dir: &Path, session: &str, is_stopped: bool) -> String {
    let target = "00112233445566778899aabbccddeeff".to_string();
    let mut store = Store::open(dir).expect("the store opens");
    let (mut head, _) = store.load(session).expect("the session loads");
    let mut entries = Vec::new();
    if is_stopped {
        entries.push(Entry::Stopped {
            draft: None,
            origin: None,
        });
    }
    entries.push(Entry::Restoring {
        before: "ffeeddccbbaa99887766554433221100".into(),
        target: target.clone(),
        to: None,
        new_folder: false,
        whole: false,
        kept: vec![UnrestoredPath {
            path: "mine".into(),
            why: KeptWhy::Conflict,
        }],
        more_kept: 0,
    });
    let batch = Batch {
        entries,
        unfinished: true,
        ..Batch::default()
    };
    store.append(&mut head, &batch).expect("restoring");
    target
}

/// Starts the engine again and again until the session is at rest.
fn go_on(
    case: &Case,
    dir: &Path,
    session: &str,
    outside: &Rc<RefCell<Outside>>,
    lag: Option<&Rc<RefCell<Lag>>>,
) {
    let mut by = By::Start;
    for start in 0..200 {
        if let Some(lag) = lag {
            lag.borrow_mut().start();
        }
        match one_process(dir, session, outside, start > 0, by, case.lags) {
            None => {
                if let Some(lag) = lag {
                    lag.borrow_mut().die();
                }
                let mut outside = outside.borrow_mut();
                outside.die(case.power_cut);
                by = By::Start;
            }
            Some(RestReason::Waiting(Why::CrashLoop)) => {
                let store = Store::open(dir).expect("the store opens");
                let (_, records) = store.load(session).expect("the session loads");
                let state = State::of(rewake::tools::describe, &records).expect("the log folds");
                let world = Fake::new(Rc::clone(outside));
                let mut open = state.calls.iter().filter(|open| !open.finished);
                let at_work = open.find(|open| {
                    let guard = open.guard.as_ref();
                    guard.is_some_and(|guard| world.is_at_work(guard))
                });
                assert!(at_work.is_none(), "a crash loop beside work: {at_work:?}");
                by = By::Person;
            }
            Some(RestReason::Waiting(Why::Paused | Why::Repeats)) => {
                outside.borrow_mut().lifts = true
            }
            Some(_) => return,
        }
    }
    panic!("the session never comes to rest: {case:?}");
}

/// One life of a process. `None` when it died.
fn one_process(
    dir: &Path,
    session: &str,
    outside: &Rc<RefCell<Outside>>,
    again: bool,
    by: By,
    has_journal: bool,
) -> Option<RestReason> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let crash = outside.borrow().crash.clone();
    let start = outside.borrow().shared.clone();
    let mut store = Store::open(dir).expect("the store opens");
    // This blocks, so it comes before the runtime.
    let shared = start.map(|start| start(&mut store, session));
    runtime.block_on(async {
        let (commands, inbox) = unbounded_channel();
        if std::mem::take(&mut outside.borrow_mut().lifts) {
            let _ = commands.send(Command::Signal(Signal::GoOn));
        }
        outside.borrow_mut().commands = Some(commands);
        if has_journal {
            let kept = store.start_copies(dir, &lag::place(dir));
            kept.expect("the journal opens");
        }
        let (head, records) = store.load(session).expect("the session loads");
        let state = State::of(rewake::tools::describe, &records).expect("the log folds");
        check_acknowledged(&records, session, outside);
        outside.borrow_mut().replies = records
            .iter()
            .filter(|r| r.entry.kind() == "replied")
            .count();
        outside.borrow_mut().answered = records.iter().filter_map(answered).collect();
        let seen_by_user = Rc::clone(outside);
        let of = session.to_string();
        let on_event: OnEvent = Box::new(move |_, event| {
            let mut seen_by_user = seen_by_user.borrow_mut();
            match event {
                Event::Recorded(record) => {
                    seen_by_user.replies += usize::from(record.entry.kind() == "replied");
                    seen_by_user.answered.extend(answered(&record));
                    seen_by_user.acknowledged.push((of.clone(), *record));
                }
                Event::ServerAsks(call, question) => {
                    let is_told = |outside: &Outside| {
                        let key = (call, question.key.clone());
                        outside.answered.contains_key(&key)
                    };
                    assert!(!is_told(&seen_by_user), "{call} is asked a second time");
                    // Whoever answers twice answers once.
                    for _ in 0..2 {
                        seen_by_user.said_to_servers += 1;
                        let said = match question.is_of_model() {
                            true => serde_json::json!({ "q1": "this one" }),
                            false => serde_json::json!({ "n": seen_by_user.said_to_servers }),
                        };
                        let answer = FormAnswer::Accept {
                            values: said.as_object().cloned().unwrap_or_default(),
                        };
                        let key = question.key.clone();
                        let command = Command::Answer { call, key, answer };
                        if let Some(commands) = &seen_by_user.commands {
                            // The process may be about to die.
                            let _ = commands.send(command);
                        }
                    }
                }
                Event::Queued(_) => seen_by_user.queued += 1,
                Event::Delta(_) | Event::Asked { .. } | Event::Context(_) => {}
                Event::Requeued(_)
                | Event::Kept(_)
                | Event::InputKept(_)
                | Event::RewindPlanned(..)
                | Event::Files(_)
                | Event::JournalFails(_)
                | Event::SummaryFailed(_) => {}
                Event::Notice(text) => panic!("a notice: {text}"),
                Event::CommandNotRun { .. } => panic!("a command was refused"),
                Event::ChildAsks(asks) => panic!("a task asks: {asks:?}"),
            }
        });
        let mut settings = settings(policy(outside.borrow().window));
        settings.policy.interactive = outside.borrow().has_person;
        if outside.borrow().has_checks {
            settings.policy.checks = checks::checks();
        }
        if outside.borrow().reminds {
            settings.policy.background = BackgroundMode::Remind;
        }
        if outside.borrow().overloaded {
            settings.fallbacks = vec![fake::FALLBACK.to_string()];
        }
        if outside.borrow().upgraded {
            settings.renewed =
                (state.version != NEWER).then(|| (NEWER.to_string(), fake::layers()));
            settings.chosen =
                (state.mode != Mode::AcceptEdits).then(|| Choice::of_mode(Mode::AcceptEdits));
        }
        if outside.borrow().has_schema && state.structured.is_none() {
            settings.chosen = Some(Choice {
                schema: Some(serde_json::json!({ "type": "object", "required": ["n"] })),
                ..Choice::default()
            });
        }
        let world = Rc::new(Fake::new(Rc::clone(outside)));
        let log = Log {
            store,
            head,
            state,
            shared,
        };
        let mut engine = Engine::new(log, world, settings, inbox, on_event);
        let life = async {
            if again {
                engine
                    .record_resumed(by, "found".into(), false)
                    .await
                    .expect("woke");
            }
            if again && outside.borrow().waits_first {
                let asked = |outside: &Outside| (outside.child_starts, outside.replies);
                let before = asked(&outside.borrow());
                engine.wait_for_person(true);
                let rest = engine.run().await.expect("the engine waits");
                assert!(matches!(rest, RestReason::Waiting(_)), "{rest:?}");
                assert_eq!(asked(&outside.borrow()), before, "a model was asked");
                if let Some(commands) = &outside.borrow().commands {
                    let _ = commands.send(Command::Signal(Signal::GoOn));
                }
                engine.idle().await.expect("the person continues");
            }
            engine.run().await.expect("the engine runs")
        };
        tokio::select! {
            biased;
            () = crash.notified() => None,
            rest = life => Some(rest),
        }
    })
}

/// Messages that were not said: only behind a stop.
fn waiting(dir: &Path, session: &str, records: &[Record]) -> usize {
    let store = Store::open(dir).expect("the store opens");
    let waiting = store.inbox().queued(session).expect("the inbox").len();
    let state = State::of(rewake::tools::describe, records).expect("the log folds");
    assert!(
        waiting == 0 || state.is_stopped(),
        "messages wait only behind a stop"
    );
    waiting
}

/// What was told to be queued was said, once.
fn check_messages(records: &[Record], queued: usize) {
    let said = records
        .iter()
        .filter(|r| matches!(&r.entry, Entry::Said { text, .. } if text == fake::ALSO));
    assert_eq!(said.count(), queued, "messages said, and queued");
}

/// Nobody stopped it and the machine was up all the time: then only what cannot be known of a
/// call that nobody can look at is lost.
fn check_results(records: &[Record], servers_die: &[u64]) {
    let mut opaque = Vec::new();
    for record in records {
        match &record.entry {
            Entry::Started {
                call,
                guard: Guard::Opaque,
                ..
            } => opaque.push(*call),
            Entry::Started {
                call,
                guard: Guard::Served { .. },
                ..
            } if !servers_die.is_empty() => opaque.push(*call),
            Entry::Finished {
                call,
                outcome: Outcome::Interrupted { why, .. },
                ..
            } => assert!(opaque.contains(call), "the result of {call} is lost: {why}"),
            _ => {}
        }
    }
}

#[test]
fn nothing_happens_twice_without_a_crash() {
    let ran = run(&Case::default());
    assert!(ran.boundaries > 50, "{} boundaries", ran.boundaries);
    assert!(ran.records.len() > 20, "{} entries", ran.records.len());
    assert!(
        ran.looks.values().all(|times| *times == 1),
        "{:?}",
        ran.looks
    );
}

/// A crash at every boundary, of each kind.
#[test]
fn every_boundary() {
    let last = run(&Case::default()).boundaries;
    for at in 1..=last {
        for (power_cut, late_keeper) in [(false, false), (false, true), (true, false)] {
            run(&Case {
                crashes: vec![at],
                power_cut,
                late_keeper,
                ..Case::default()
            });
        }
    }
}

/// How a process dies: with a power cut, or with a supervisor that ends later.
const DEATHS: [(bool, bool); 3] = [(false, false), (false, true), (true, false)];

/// Plays a case with a crash at every boundary and another near it, and with a stop or a pause
/// there and a crash `after` it. How it dies, and whether it stops or pauses, is in turn, unless
/// all are played ([`plays_all`]): each boundary has each kind of death.
fn crashes_and_stops(first: &Case, boundaries: u64, again: &[u64], after: &[Option<u64>]) {
    for at in places(1..=boundaries, 0) {
        for (place, again) in (at..).zip(again) {
            for (power_cut, late_keeper) in in_turn(place, DEATHS) {
                run(&Case {
                    crashes: vec![at, at + again],
                    power_cut,
                    late_keeper,
                    ..first.clone()
                });
            }
        }
        for (place, after) in (at..).zip(after) {
            for stops in in_turn(place, [true, false]) {
                run(&Case {
                    stop_at: stops.then_some(at),
                    pause_at: (!stops).then_some(at),
                    crashes: after.map(|after| at + after).into_iter().collect(),
                    ..first.clone()
                });
            }
        }
    }
}

/// Four commands that only read are in flight when the process dies, or the user stops, at every
/// boundary. [`check_end`] finds that each has one result and ran at most once.
#[test]
fn every_boundary_of_commands_at_the_same_time() {
    let first = Case {
        reading: true,
        ..Case::default()
    };
    let ran = run(&first);
    assert_eq!(ran.most_acting, 4, "at the same time");
    let started = |at: i64| {
        let starts = ran.records.iter().filter(|r| r.entry.kind() == "started");
        starts.filter(|r| r.at_ms == at).count()
    };
    let most = ran.records.iter().map(|record| started(record.at_ms)).max();
    assert_eq!(most, Some(4), "starts in one transaction");
    crashes_and_stops(
        &first,
        ran.boundaries,
        &[1, 2, 5],
        &[None, Some(1), Some(3)],
    );
}

/// The agent dies, or the user stops or pauses, at every boundary of sessions with hooks. The
/// checks find that each hook starts at most once, and that no call starts before its hooks.
#[test]
fn every_boundary_of_hooks() {
    let first = Case {
        hooked: true,
        ..Case::default()
    };
    let ran = run(&first);
    let hooked = |r: &&Record| r.entry.kind() == "hooked";
    assert!(ran.records.iter().filter(hooked).count() >= 9);
    crashes_and_stops(
        &first,
        ran.boundaries,
        &[1, 2, 5],
        &[None, Some(1), Some(3)],
    );
}

/// The agent dies, or the user stops or pauses, at every boundary of a session with checks.
/// [`checks::check`] finds that each runs once for an answer, before the next request, and that no
/// result is lost.
#[test]
fn every_boundary_of_checks() {
    let first = Case {
        checked: true,
        ..Case::default()
    };
    let ran = run(&first);
    let is_check = |r: &&Record| r.entry.kind() == "check_started";
    // Two for the first answer, one each for two others.
    assert_eq!(ran.records.iter().filter(is_check).count(), 4);
    crashes_and_stops(&first, ran.boundaries, &[1, 4], &[None, Some(2)]);
    for at in places(1..=ran.boundaries, 1) {
        run(&Case {
            say_at: Some(at),
            waits_first: at % 2 == 0,
            crashes: vec![at + 2],
            ..first.clone()
        });
    }
}

/// The process dies at every boundary of a session whose last answer is cut off by the output
/// limit, and so is its continuation: it is continued once, whatever comes between.
#[test]
fn every_boundary_of_an_answer_that_is_cut() {
    let first = Case {
        cut: true,
        ..Case::default()
    };
    let last = run(&first).boundaries;
    // Only the end differs from other sessions.
    for at in last.saturating_sub(12).max(1)..=last {
        for power_cut in [false, true] {
            for again in [1, 3] {
                let ran = run(&Case {
                    crashes: vec![at, at + again],
                    power_cut,
                    ..first.clone()
                });
                let is_note = |r: &&Record| {
                    let about = Some(About::AnswerCut);
                    matches!(&r.entry, Entry::Noted { about: it, .. } if *it == about)
                };
                assert_eq!(ran.records.iter().filter(is_note).count(), 1);
            }
        }
    }
}

/// The process dies at every boundary of a session whose answers break off at first: each try that
/// was followed by another is billed, none twice.
#[test]
fn every_boundary_of_an_answer_that_breaks_off() {
    let first = Case {
        breaks: true,
        ..Case::default()
    };
    let last = run(&first).boundaries;
    for at in 1..=last {
        let ran = run(&Case {
            crashes: vec![at, at + 3],
            power_cut: at % 2 == 0,
            ..first.clone()
        });
        let is_billed = |r: &&Record| matches!(r.entry, Entry::Billed { .. });
        let billed = ran.records.iter().filter(is_billed).count();
        let (broken, tried_again) = ran.broken;
        assert!(
            billed >= tried_again && billed <= broken,
            "{at}: {billed} of {:?}",
            ran.broken
        );
        assert!(tried_again > 0);
    }
}

/// [`check_end`] looks at the order.
#[test]
fn results_are_recorded_in_the_order_of_the_calls() {
    let ran = run(&Case {
        slowly: true,
        ..Case::default()
    });
    assert_eq!(ran.most_acting, 2);
}

/// Parent, sub-agent or both die at every boundary, and a second time near it; or the user stops
/// there.
#[test]
fn every_boundary_of_a_task() {
    let first = Case {
        tasks: true,
        ..Case::default()
    };
    let last = run(&first).boundaries;
    for at in places(1..=last, 2) {
        for (place, again) in (at..).zip([1, 2, 4, 7]) {
            for power_cut in in_turn(place, [false, true]) {
                run(&Case {
                    crashes: vec![at, at + again],
                    power_cut,
                    ..first.clone()
                });
            }
        }
        for crash in [None, Some(1), Some(3)] {
            run(&Case {
                stop_at: Some(at),
                crashes: crash.map(|after| at + after).into_iter().collect(),
                ..first.clone()
            });
        }
    }
}

/// As in an editor: each start waits for the person, and records the results of calls meanwhile. It
/// does not ask the model, and starts no subagent that was killed.
#[test]
fn every_boundary_of_a_session_that_waits_for_a_person() {
    for tasks in [false, true] {
        let first = Case {
            tasks,
            waits_first: true,
            ..Case::default()
        };
        for at in places(1..=run(&first).boundaries, 0) {
            for again in [1, 4] {
                run(&Case {
                    crashes: vec![at, at + again],
                    ..first.clone()
                });
            }
        }
    }
}

/// The agent, the server, or one behind the other dies at every boundary; or the user stops there.
/// Only what a dead server was at is in doubt.
#[test]
fn every_boundary_of_a_call_of_a_server() {
    let first = Case {
        served: true,
        ..Case::default()
    };
    let last = run(&first).boundaries;
    for at in places(1..=last, 1) {
        for (place, again) in (at..).zip([1, 2, 3, 5]) {
            for power_cut in in_turn(place, [false, true]) {
                run(&Case {
                    crashes: vec![at, at + again],
                    power_cut,
                    ..first.clone()
                });
            }
        }
        let crashes = [vec![], vec![at], vec![at + 1], vec![at + 3, at + 4]];
        for (place, crash) in (at..).zip(crashes) {
            for server in in_turn(place, [at, at + 2]) {
                run(&Case {
                    servers_die: vec![server, server + 4],
                    crashes: crash.clone(),
                    ..first.clone()
                });
            }
        }
        for crash in [None, Some(1), Some(2), Some(4)] {
            run(&Case {
                stop_at: Some(at),
                crashes: crash.map(|after| at + after).into_iter().collect(),
                servers_die: (at % 3 == 0).then_some(at + 2).into_iter().collect(),
                ..first.clone()
            });
        }
    }
}

/// What a server is told, as the log has it.
fn answered(record: &Record) -> Option<((CallId, String), FormAnswer)> {
    match &record.entry {
        Entry::Answered {
            call, key, answer, ..
        } => Some(((*call, key.clone()), answer.clone())),
        _ => None,
    }
}

/// Each question is asked once and answered once, whoever died between.
fn check_questions(case: &Case, records: &[Record]) {
    let mut open = BTreeSet::new();
    let mut known = BTreeSet::new();
    for record in records {
        match &record.entry {
            Entry::Asked {
                call,
                form: Some(question),
                ..
            } => {
                let key = (*call, question.key.clone());
                assert!(
                    known.insert(key.clone()),
                    "{key:?} was asked twice: {case:?}"
                );
                open.insert(key);
            }
            Entry::Answered {
                call,
                key,
                answer,
                by,
                ..
            } => {
                assert!(open.remove(&(*call, key.clone())), "{case:?}");
                let is_declined = (answer, by) == (&FormAnswer::Decline, &By::Start);
                assert_eq!(is_declined, case.without_person, "{answer:?}");
            }
            _ => {}
        }
    }
    let is_whole = case.stop_at.is_none() && case.servers_die.is_empty() && !case.power_cut;
    if is_whole {
        let asked = if case.model_asks { 2 } else { 4 };
        assert_eq!((known.len(), open.len()), (asked, 0), "{case:?}");
    }
}

/// The model asks a person, and the process dies at every boundary, or the user stops there. Each
/// question is recorded before it is shown, and its answer before the model gets it.
#[test]
fn every_boundary_of_a_question_of_the_model() {
    let first = Case {
        model_asks: true,
        ..Case::default()
    };
    let whole = run(&first);
    let check = |case: Case| check_questions(&case, &run(&case).records);
    check_questions(&first, &whole.records);
    for at in places(1..=whole.boundaries, 2) {
        for power_cut in [false, true] {
            for again in [1, 3] {
                check(Case {
                    crashes: vec![at, at + again],
                    power_cut,
                    ..first.clone()
                });
            }
        }
        for crash in [None, Some(1), Some(3)] {
            check(Case {
                stop_at: Some(at),
                crashes: crash.map(|after| at + after).into_iter().collect(),
                ..first.clone()
            });
        }
    }
}

/// A server asks a person: the agent, the server, or one behind the other dies at every boundary,
/// or the user stops there. What was answered is what the server gets, and is not asked again.
#[test]
fn every_boundary_of_a_question_of_a_server() {
    for without_person in [false, true] {
        let first = Case {
            server_asks: true,
            without_person,
            ..Case::default()
        };
        let whole = run(&first);
        check_questions(&first, &whole.records);
        let check = |case: Case| check_questions(&case, &run(&case).records);
        for at in places(1..=whole.boundaries, 0) {
            for power_cut in [false, true] {
                for again in [1, 3] {
                    check(Case {
                        crashes: vec![at, at + again],
                        power_cut,
                        ..first.clone()
                    });
                }
            }
            check(Case {
                servers_die: vec![at],
                crashes: vec![at + 1],
                ..first.clone()
            });
            for crash in [None, Some(1), Some(3)] {
                check(Case {
                    stop_at: Some(at),
                    crashes: crash.map(|after| at + after).into_iter().collect(),
                    ..first.clone()
                });
            }
        }
    }
}

/// The parent dies at every boundary, and its sub-agents in the background with it or not. What
/// they do is done once, and the parent is told of it.
#[test]
fn every_boundary_of_a_task_in_the_background() {
    let first = Case {
        background_tasks: true,
        ..Case::default()
    };
    let ran = run(&first);
    assert_eq!(told_ends(&ran.records), 2);
    for at in places(1..=ran.boundaries, 1) {
        for power_cut in [false, true] {
            for again in [1, 4] {
                let ran = run(&Case {
                    crashes: vec![at, at + again],
                    power_cut,
                    ..first.clone()
                });
                check_ends(&ran.records);
            }
        }
        run(&Case {
            stop_at: Some(at),
            crashes: vec![at + 2],
            ..first.clone()
        });
    }
}

/// The process dies at every boundary of a wait and of a reminder. The end of the command is told
/// once, before the next answer, and the model is reminded of the other once.
#[test]
fn every_boundary_of_a_wait_and_of_a_reminder() {
    let first = Case {
        waits: true,
        ..Case::default()
    };
    let ran = run(&first);
    let want = [
        "answer", "result", "answer", "result", "result", "end", "answer", "result", "answer",
        "reminder", "answer",
    ];
    assert_eq!(notes_between(&ran.records), want);
    for at in places(1..=ran.boundaries, 2) {
        for again in [1, 4] {
            let ran = run(&Case {
                crashes: vec![at, at + again],
                ..first.clone()
            });
            check_waits(&ran.records);
        }
        run(&Case {
            crashes: vec![at],
            power_cut: true,
            ..first.clone()
        });
        run(&Case {
            stop_at: Some(at),
            crashes: vec![at + 2],
            ..first.clone()
        });
    }
}

/// The process dies at every boundary while the model repeats itself, also between compactions. The
/// model is told once, before its fifth answer, and stopped after its seventh.
#[test]
fn every_boundary_of_a_model_that_repeats_itself() {
    for (repeats, window) in [(6, None), (8, None), (8, Some(4_000))] {
        let first = Case {
            repeats,
            window,
            bulk: if window.is_some() { 1_500 } else { 0 },
            ..Case::default()
        };
        let whole = run(&first);
        check_repeats(repeats, &whole.records);
        let is_compacted = |r: &Record| matches!(r.entry.kind(), "closed" | "continued" | "freed");
        assert_eq!(whole.records.iter().any(is_compacted), window.is_some());
        for at in places(1..=whole.boundaries, 0) {
            for again in [1, 3] {
                let ran = run(&Case {
                    crashes: vec![at, at + again],
                    ..first.clone()
                });
                check_repeats(repeats, &ran.records);
            }
        }
    }
}

fn check_repeats(repeats: usize, records: &[Record]) {
    let mut answers = 0;
    let mut notes = Vec::new();
    let mut lifted = Vec::new();
    for record in records {
        match &record.entry {
            Entry::Replied { .. } => answers += 1,
            Entry::Noted {
                about: Some(About::Repeats { .. }),
                ..
            } => notes.push(answers),
            Entry::Lifted { .. } => lifted.push(answers),
            _ => {}
        }
    }
    assert_eq!(notes, [4]);
    assert_eq!(lifted, if repeats < 7 { vec![] } else { vec![7] });
    assert_eq!(answers, repeats + 1);
}

fn notes_between(records: &[Record]) -> Vec<&str> {
    let kinds = records.iter().filter_map(|record| match &record.entry {
        Entry::Replied { .. } => Some("answer"),
        Entry::Finished { .. } => Some("result"),
        Entry::Noted {
            about: Some(About::BackgroundEnded { asks_model, .. }),
            ..
        } => Some(if *asks_model { "end, asks" } else { "end" }),
        Entry::Noted {
            about: Some(About::StillRunning { ids }),
            ..
        } => Some(if ids.len() == 1 { "reminder" } else { "others" }),
        _ => None,
    });
    kinds.collect()
}

/// A kill may end a command. Then its end is told instead of the reminder.
fn check_waits(records: &[Record]) {
    let kinds = notes_between(records);
    let number = |is: &str| kinds.iter().filter(|kind| kind.starts_with(is)).count();
    let (ends, reminders) = (number("end"), number("reminder"));
    assert!(
        ends <= 2 && reminders <= 1 && ends + reminders >= 2,
        "{kinds:?}"
    );
    assert_eq!(number("others"), 0, "{kinds:?}");
    // The first command has ended when the model learns the result of the wait.
    let wait = kinds.windows(2).position(|two| two == ["result", "result"]);
    let answer = wait.and_then(|at| Some(at + kinds[at..].iter().position(|k| *k == "answer")?));
    let end = kinds.iter().position(|kind| kind.starts_with("end"));
    assert!(end < answer, "{kinds:?}");
}

fn told_ends(records: &[Record]) -> usize {
    let is_end = |r: &&Record| {
        let about = match &r.entry {
            Entry::Noted { about, .. } => about,
            _ => return false,
        };
        matches!(about, Some(About::BackgroundEnded { .. }))
    };
    records.iter().filter(is_end).count()
}

/// Each that goes on in the background is told of once, before the model's last answer.
fn check_ends(records: &[Record]) {
    let mut begun = BTreeSet::new();
    for record in records {
        match &record.entry {
            Entry::Finished {
                fact: Some(Fact::Background { id, .. }),
                ..
            } => assert!(begun.insert(id.clone()), "{id} is begun twice"),
            Entry::Noted {
                about: Some(About::BackgroundEnded { id, .. }),
                ..
            } => assert!(begun.remove(id), "the end of {id} is told twice"),
            _ => {}
        }
    }
    assert_eq!(begun, BTreeSet::new(), "not told of");
}

/// The clock of the simulation never gives a time twice, so what has the same was one transaction.
#[test]
fn an_answer_and_what_it_begins_are_one_transaction() {
    let ran = run(&Case {
        effects_first: true,
        ..Case::default()
    });
    let answers = ran.records.iter().filter(|r| r.entry.kind() == "replied");
    let began: Vec<usize> = answers
        .map(|answer| {
            let with = |r: &&Record| r.at_ms == answer.at_ms && r.entry.kind() == "started";
            ran.records.iter().filter(with).count()
        })
        .collect();
    // A server may have to be started for a call, so that waits for the answer's transaction.
    assert_eq!(began, [1, 1, 1, 0, 0]);
    let ran = run(&Case {
        slowly: true,
        ..Case::default()
    });
    let starts = ran.records.iter().filter(|r| r.entry.kind() == "started");
    let times: BTreeSet<i64> = starts.map(|r| r.at_ms).collect();
    let answer = ran.records.iter().find(|r| r.entry.kind() == "replied");
    let answer = answer.map(|r| r.at_ms);
    assert_eq!(times.into_iter().map(Some).collect::<Vec<_>>(), [answer]);
}

/// An answer that is held at a crash, a stop or a message: it comes before all that follows it.
#[test]
fn every_boundary_of_an_answer_that_begins_something() {
    let first = Case {
        effects_first: true,
        ..Case::default()
    };
    let last = run(&first).boundaries;
    for at in places(1..=last, 1) {
        for (power_cut, late_keeper) in [(false, false), (false, true), (true, false)] {
            run(&Case {
                crashes: vec![at, at + 3],
                power_cut,
                late_keeper,
                ..first.clone()
            });
        }
        for crash in [None, Some(1), Some(2), Some(4)] {
            let crashes: Vec<u64> = crash.map(|after| at + after).into_iter().collect();
            run(&Case {
                stop_at: Some(at),
                crashes: crashes.clone(),
                ..first.clone()
            });
            run(&Case {
                say_at: Some(at),
                crashes,
                ..first.clone()
            });
        }
    }
}

/// A crash, and a second one at every boundary of the recovery. Of the pairs that are further
/// apart one in three is played; `REWAKE_SIM_PAIRS=all` plays all of them.
#[test]
fn every_pair_of_boundaries() {
    let near = 8;
    let plays_all = plays_all();
    let last = run(&Case::default()).boundaries;
    for first in places(1..=last, 2) {
        for second in places(first + 1..=last + 12, 2 * first) {
            if !plays_all && second > first + near && (first + second) % 3 != 0 {
                continue;
            }
            let late_keeper = second % 2 == 0;
            run(&Case {
                crashes: vec![first, second],
                late_keeper,
                ..Case::default()
            });
        }
    }
}

/// The user stops at every boundary, and the process dies at every one near it.
#[test]
fn every_stop() {
    let last = run(&Case::default()).boundaries;
    for stop in places(1..=last, 0) {
        for crash in [None, Some(1), Some(2), Some(3), Some(5)] {
            let crashes = crash.map(|after| stop + after).into_iter().collect();
            let ran = run(&Case {
                stop_at: Some(stop),
                crashes,
                ..Case::default()
            });
            let is_stopped = |r: &Record| matches!(r.entry, Entry::Stopped { .. });
            // When the last answer is there, nothing is left to be stopped.
            if crash.is_none() && stop + 4 < last {
                assert!(
                    ran.records.iter().any(is_stopped),
                    "stop {stop} is not in the log"
                );
            }
        }
    }
}

/// The user says something at every boundary, and the process dies at every one near it.
#[test]
fn every_message() {
    let last = run(&Case::default()).boundaries;
    for say in places(1..=last, 1) {
        for crash in [None, Some(1), Some(2), Some(3), Some(5)] {
            let crashes = crash.map(|after| say + after).into_iter().collect();
            run(&Case {
                say_at: Some(say),
                crashes,
                ..Case::default()
            });
        }
    }
}

/// How much is played: of the boundaries one in three, or with `REWAKE_SIM_PAIRS=each` (as in
/// `.ci/run`) each of them, or with `all` each with all that is played in turn otherwise.
fn sim_pairs() -> Option<String> {
    std::env::var("REWAKE_SIM_PAIRS").ok()
}

/// Nothing is left out.
fn plays_all() -> bool {
    sim_pairs().is_some_and(|pairs| pairs == "all")
}

/// Nothing is left out but what is played in turn.
pub(crate) fn plays_each() -> bool {
    sim_pairs().is_some_and(|pairs| pairs == "each" || pairs == "all")
}

/// The boundaries that are played ([`sim_pairs`]): each, or one in three. `turn` is another number
/// in tests that are alike, so that together they play all.
fn places(all: std::ops::RangeInclusive<u64>, turn: u64) -> impl Iterator<Item = u64> {
    let plays_each = plays_each();
    all.filter(move |at| plays_each || at % 3 == turn % 3)
}

/// Returns one of these in turn, or all of them ([`plays_all`]).
fn in_turn<T, const N: usize>(place: u64, all: [T; N]) -> impl Iterator<Item = T> {
    let count = N as u64;
    let is_it = move |n: u64| plays_all() || n == place % count;
    (0..)
        .zip(all)
        .filter(move |(n, _)| is_it(*n))
        .map(|(_, one)| one)
}

/// A person does each thing at each boundary, the last of them at rest, and the process dies at
/// every one near it: of the three places one at each boundary in turn, or all (`plays_all`).
#[test]
fn every_command() {
    let last = person::run(Person::default(), vec![]).boundaries;
    for (which, does) in (0..).zip(person::ALL) {
        for at in places(1..=last + 1, which) {
            for (place, crash) in (0..).zip([Some(0), Some(2), Some(5), None]) {
                if crash.is_some() && !plays_all() && (at + which) % 3 != place {
                    continue;
                }
                let crashes = crash.map(|after| at + after).into_iter().collect();
                let done = person::run(Person::new(at, does), crashes);
                assert!(!done.was_full && !done.was_paused);
            }
        }
    }
}

/// What a path leads to is exchanged while the process is dead: at the worst moment, between the
/// answer of the person and the act.
#[test]
fn every_moved_path() {
    let last = person::run_where_paths_move(vec![]).boundaries;
    let refused = (1..=last).map(|at| person::run_where_paths_move(vec![at]).refused);
    assert!(
        refused.sum::<usize>() > 0,
        "no crash was between the answer and the act"
    );
}

/// A person runs a command of their own at each boundary, and the process dies at every one near
/// it (every other one, or with `plays_all` each): it is run once at most, and its end is told once.
#[test]
fn every_command_of_the_user() {
    let last = person::run(Person::default(), vec![]).boundaries;
    let near = [0, 2, 4, 6, 9, 10, 11, 12];
    for (which, does) in (0..).zip(person::OWN) {
        for at in places(1..=last + 1, which) {
            let played = (0..).zip(near);
            let played = played.filter(|(place, _)| plays_all() || (at + place) % 2 == 0);
            let crashes = played.map(|(_, after)| Some(at + after));
            for crash in crashes.chain([None]) {
                let crashes = crash.into_iter().collect();
                let done = person::run(Person::new(at, does), crashes);
                assert!(!done.was_full && !done.was_paused);
            }
        }
    }
}

/// Another process sends each signal at each boundary, and the process dies at every one near it:
/// each is obeyed once, or comes to nothing because the session was taken up again.
#[test]
fn every_signal() {
    let last = signals::run(None, vec![]);
    for (which, sends) in (0..).zip(signals::ALL) {
        for at in places(1..=last + 1, which) {
            for crash in [None, Some(0), Some(1), Some(3)] {
                let crashes = crash.map(|after| at + after).into_iter().collect();
                signals::run(Some((at, sends)), crashes);
            }
        }
    }
}

/// Files that are half set back at the begin, and a crash at each boundary: that is done before all
/// else, and recorded once, with what was to stay and what lies beside a file as `.rewake-kept`. Where
/// the session was stopped for it, nothing goes on by itself.
#[test]
fn every_boundary_of_a_restore() {
    for is_stopped in [false, true] {
        let restoring = Case {
            restoring: true,
            is_stopped,
            ..Case::default()
        };
        let last = run(&restoring).boundaries;
        for first in places(0..=last, 2) {
            for second in [0, first + 1, first + 2, first + 4] {
                let ran = run(&Case {
                    crashes: vec![first, second],
                    ..restoring.clone()
                });
                let places = |kind: &str| -> Vec<usize> {
                    let found = ran.records.iter().enumerate();
                    let found = found.filter(|(_, r)| r.entry.kind() == kind);
                    found.map(|(place, _)| place).collect()
                };
                let restored = places("restored");
                assert_eq!(restored.len(), 1, "crashes at {first} and {second}");
                let told = rewake::core::rewind::told(&ran.records[restored[0]].entry);
                let told = told.expect("the model is told");
                for stays in [
                    "mine (also changed outside of rewake",
                    "open (was open for writing: what it was lies beside it, as .rewake-kept)",
                ] {
                    let times = told.matches(stays).count();
                    assert_eq!(times, 1, "crashes at {first} and {second}: {told}");
                }
                let replied = places("replied");
                assert!(replied.iter().all(|place| *place > restored[0]));
                assert_eq!(
                    replied.is_empty(),
                    is_stopped,
                    "crashes at {first} and {second}"
                );
            }
        }
    }
}

/// A fork at every entry leaves the effects of the other branch alone.
#[test]
fn every_fork() {
    let clean = run(&Case::default());
    for at in 0..clean.records.len() as u64 {
        run(&Case {
            fork_at: Some(at),
            ..Case::default()
        });
        // The session died in the middle; the fork is taken from what is left.
        run(&Case {
            fork_at: Some(at),
            crashes: vec![2 * at + 1],
            ..Case::default()
        });
    }
}

/// A window that is full again and again, and a crash at every boundary.
#[test]
fn every_boundary_of_a_small_window() {
    let small = Case {
        window: Some(4_000),
        bulk: 5_000,
        ..Case::default()
    };
    let last = run(&small).boundaries;
    assert!(
        last > run(&Case::default()).boundaries,
        "windows were closed"
    );
    for at in places(1..=last, 0) {
        run(&Case {
            crashes: vec![at],
            summariser_fails: at % 2 == 0,
            ..small.clone()
        });
    }
}

/// Another version takes the session up in another mode, and dies at every boundary: both are
/// recorded, once, before the model is asked.
#[test]
fn every_boundary_of_another_version() {
    let upgraded = Case {
        upgraded: true,
        ..Case::default()
    };
    let last = run(&upgraded).boundaries;
    for at in places(0..=last, 1) {
        let ran = run(&Case {
            crashes: vec![at],
            ..upgraded.clone()
        });
        let places = |is: &dyn Fn(&Entry) -> bool| -> Vec<usize> {
            let found = ran.records.iter().enumerate().filter(|(_, r)| is(&r.entry));
            found.map(|(place, _)| place).collect()
        };
        let rendered =
            places(&|e| matches!(e, Entry::Rendered { version, .. } if version == NEWER));
        let chosen = places(&|e| matches!(e, Entry::Chose(_)));
        let replied = places(&|e| matches!(e, Entry::Replied { .. }));
        assert_eq!((rendered.len(), chosen.len()), (1, 1), "crash at {at}");
        assert!(rendered[0] < replied[0] && chosen[0] < replied[0]);
    }
}

/// A model that is overloaded, another that answers in its place, a message meanwhile, and a crash
/// at every boundary: the change is recorded before the other is asked, so the same goes on.
#[test]
fn every_boundary_of_a_fallback() {
    let overloaded = Case {
        overloaded: true,
        ..Case::default()
    };
    let last = run(&overloaded).boundaries;
    for at in places(0..=last, 2) {
        for say_at in [None, Some(at + 3)] {
            let ran = run(&Case {
                crashes: vec![at],
                say_at,
                ..overloaded.clone()
            });
            let count =
                |is: &dyn Fn(&Entry) -> bool| ran.records.iter().filter(|r| is(&r.entry)).count();
            let is_change = |e: &Entry| matches!(e, Entry::Chose(c) if c.fallback.is_some());
            let said = count(&|e| matches!(e, Entry::Said { .. }));
            assert!(count(&is_change) >= 1, "crash at {at}");
            let mut changes = 0;
            for record in &ran.records {
                match &record.entry {
                    Entry::Said { .. } => changes = 0,
                    entry => changes += usize::from(is_change(entry)),
                }
                assert!(changes <= 1, "crash at {at}: twice for one message");
            }
            let failed = count(&|e| matches!(e, Entry::Failed { .. }));
            let other =
                |e: &Entry| matches!(e, Entry::Replied { model, .. } if model != fake::FALLBACK);
            assert_eq!((failed, count(&other)), (0, 0), "crash at {at}");
            // The own model is asked once for each message, and once more for the crash at most.
            let own = ran.asked.iter().filter(|m| *m != fake::FALLBACK).count();
            assert!(own <= said + 1, "crash at {at}: asked {own} times");
        }
    }
}

/// Answers that do not fit their schema, with a crash at every pair of boundaries: each is looked
/// at once and told of once, three times in all, however often the process dies between.
#[test]
fn every_boundary_of_a_repair() {
    for fits_at in [0, 2, 3, 9] {
        let structured = Case {
            fits_at: Some(fits_at),
            ..Case::default()
        };
        let last = run(&structured).boundaries;
        for first in places(0..=last, 0) {
            for second in [0, first + 1, first + 2, first + 4] {
                let ran = run(&Case {
                    crashes: vec![first, second],
                    ..structured.clone()
                });
                check_repairs(&ran.records, fits_at);
            }
        }
    }
}

fn check_repairs(records: &[Record], fits_at: usize) {
    let of = |is: &dyn Fn(&Entry) -> bool| records.iter().filter(|r| is(&r.entry)).count();
    let answers = fits_at.min(3) + 1;
    let looked = of(&|e| matches!(e, Entry::Checked { .. }));
    let told = of(&|e| matches!(e, Entry::Checked { told: Some(_), .. }));
    let fits = of(&|e| matches!(e, Entry::Checked { unfit: None, .. }));
    // The first answer has a call, and is none yet.
    let replied = of(&|e| matches!(e, Entry::Replied { .. })) - 1;
    assert_eq!((replied, looked, told), (answers, answers, answers - 1));
    assert_eq!(fits, usize::from(fits_at <= 3));
}

/// Random answers, crashes, power cuts, stops, messages and forks.
fn random(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let mut crashes: Vec<u64> = (0..rng.below(6)).map(|_| 1 + rng.below(120)).collect();
        crashes.sort_unstable();
        let case = Case {
            seed,
            crashes,
            power_cut: rng.below(4) == 0,
            late_keeper: rng.below(2) == 0,
            stop_at: (rng.below(4) == 0).then(|| 1 + rng.below(100)),
            pause_at: None,
            say_at: (rng.below(2) == 0).then(|| 1 + rng.below(100)),
            fork_at: (rng.below(4) == 0).then(|| rng.below(60)),
            random_script: true,
            window: (rng.below(2) == 0).then(|| 4_000 + rng.below(4_000)),
            bulk: [0, 500, 5_000][rng.below(3) as usize],
            summariser_fails: rng.below(2) == 0,
            upgraded: seed % 4 == 0,
            overloaded: seed % 5 == 0,
            effects_first: false,
            reading: false,
            slowly: false,
            hooked: seed % 3 == 0,
            checked: false,
            tasks: false,
            served: false,
            server_asks: false,
            without_person: false,
            servers_die: (0..rng.below(3)).map(|_| 1 + rng.below(120)).collect(),
            background_tasks: false,
            waits_first: false,
            model_asks: false,
            waits: false,
            repeats: 0,
            fits_at: None,
            cut: seed % 7 == 0,
            breaks: seed % 5 == 1,
            restoring: seed % 7 == 0,
            is_stopped: false,
            lags: false,
            shared: None,
            mail: false,
        };
        let result = std::panic::catch_unwind(|| run(&case));
        if let Err(panic) = result {
            eprintln!("seed {seed} fails: {case:?}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// The number of seeds for each half. `REWAKE_SIM_SEEDS` gives another, `.ci/run` 1,000.
fn seeds() -> u64 {
    let of = std::env::var("REWAKE_SIM_SEEDS").ok();
    of.and_then(|n| n.parse().ok()).unwrap_or(300)
}

#[test]
fn random_schedules_first_half() {
    random(0..seeds());
}

#[test]
fn random_schedules_second_half() {
    random(1_000_000..1_000_000 + seeds());
}
