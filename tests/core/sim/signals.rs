//! Another process steers the session by rows of the store, and answers its questions so, with a
//! process that dies near it.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use rewake::core::entry::*;
use rewake::core::next::Why;
use rewake::core::signal::Signal;
use rewake::core::state::State;
use rewake::engine::{Command, Engine, Event, Log, OnEvent, RestReason};
use rewake::headless::known_origins;
use rewake::store::{Message, Store};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;

use super::check::{check_acknowledged, check_end};
use super::fake::{Fake, Outside, Script};
use super::person::policy;
use super::stage::{begin, fresh_store, settings};

/// What was sent before is heard at once: this is far beyond it.
const NEVER_HEARD: Duration = Duration::from_secs(10);

/// Who sends what is counted.
const SENT: &str = "sent";
/// The same for a line of stdin.
const LINE: &str = "stdin:a1";
/// Who answers questions, and lifts what keeps the session from its end.
const HELPS: &str = "helps";

const WORDS: &str = "words from elsewhere";
const TITLE: &str = "a title";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sends {
    Words,
    Stop,
    Pause,
    GoOn,
    Mode,
    Name,
    Compact,
    Leave,
    Limit,
    /// On a call that nobody asked about.
    LateVerdict,
    /// A line of stdin with an ID. Each start gets it again, since the client may not have seen the
    /// acknowledgement.
    Line,
}

pub const ALL: [Sends; 11] = [
    Sends::Words,
    Sends::Stop,
    Sends::Pause,
    Sends::GoOn,
    Sends::Mode,
    Sends::Name,
    Sends::Compact,
    Sends::Leave,
    Sends::Limit,
    Sends::LateVerdict,
    Sends::Line,
];

fn signal(sends: Sends, seen: Seq) -> Option<Signal> {
    Some(match sends {
        Sends::Words | Sends::Line => return None,
        Sends::Stop => Signal::Stop { seen },
        Sends::Pause => Signal::Pause { seen },
        Sends::GoOn => Signal::GoOn,
        Sends::Mode => Signal::Choose(Choice::of_mode(Mode::Plan)),
        Sends::Name => Signal::Name {
            title: TITLE.into(),
        },
        Sends::Compact => Signal::Compact,
        Sends::Leave => Signal::Leave { seen },
        Sends::Limit => Signal::Limit {
            turns: Some(1),
            usd: None,
            tokens: None,
        },
        Sends::LateVerdict => Signal::Decide {
            call: CallId { reply: 0, index: 0 },
            asked: 0,
            verdict: Verdict::Allow,
            rule: None,
        },
    })
}

/// As a process of its own does it.
fn send(dir: &Path, session: &str, sends: Sends) {
    let mut store = Store::open(dir).expect("the store opens");
    let Some(_) = signal(sends, 0) else {
        let origin = match sends {
            Sends::Line => LINE,
            _ => SENT,
        };
        let end = store.load(session).expect("the session loads").1.len() as Seq;
        let known = known_origins(&store, session, end).expect("the origins");
        if known.contains(origin) {
            return;
        }
        let message = Message {
            text: WORDS.into(),
            images: vec![],
            via: Via::Signal,
            command: None,
            origin: Some(origin.into()),
        };
        let sent = store
            .inbox_mut()
            .queue_from_outside(session, &message, &[], 1 << 40);
        sent.expect("sent");
        return;
    };
    let one = |seen| signal(sends, seen).expect("a signal");
    store
        .inbox_mut()
        .signal(session, SENT, 0, one)
        .expect("sent");
}

fn help(dir: &Path, session: &str, signal: Signal) {
    let mut store = Store::open(dir).expect("the store opens");
    store
        .inbox_mut()
        .signal(session, HELPS, 0, |_| signal)
        .expect("sent");
}

/// A session to its end; how many boundaries it passed.
pub fn run(sends: Option<(u64, Sends)>, crashes: Vec<u64>) -> u64 {
    let dir = fresh_store();
    let session = begin(dir.path());
    let mut outside = Outside::new(Script::short(), crashes);
    let was_sent = Rc::new(Cell::new(false));
    if let Some((at, sends)) = sends {
        let (dir, session) = (dir.path().to_path_buf(), session.clone());
        let was_sent = Rc::clone(&was_sent);
        let act = move || {
            was_sent.set(true);
            send(&dir, &session, sends);
        };
        outside.other = Some((at, Box::new(act)));
    }
    let outside = Rc::new(RefCell::new(outside));
    let mut starts = 0;
    while !life(dir.path(), &session, &outside, starts > 0) {
        outside.borrow_mut().die(false);
        starts += 1;
        if was_sent.get() && sends.is_some_and(|(_, sends)| sends == Sends::Line) {
            send(dir.path(), &session, Sends::Line);
        }
        assert!(starts < 100, "the session never comes to rest");
    }
    let records = check_end(dir.path(), &session, &outside);
    let store = Store::open(dir.path()).expect("the store opens");
    let left = store.inbox().signals(&session).expect("the signals");
    assert!(left.is_empty(), "{left:?} was neither obeyed nor deleted");
    check_verdicts(&records);
    if let Some((at, sends)) = sends.filter(|_| was_sent.get()) {
        let has_crashed = starts > 0;
        check_obeyed(&store, &session, &records, sends, has_crashed, at);
    }
    outside.borrow().passed
}

/// One process, until there is nothing more to do. False when it died, or was told to leave.
fn life(dir: &Path, session: &str, outside: &Rc<RefCell<Outside>>, again: bool) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let crash = outside.borrow().crash.clone();
    runtime.block_on(async {
        let (commands, inbox) = unbounded_channel::<Command>();
        let store = Store::open(dir).expect("the store opens");
        let (head, records) = store.load(session).expect("the session loads");
        let state = State::of(rewake::tools::describe, &records).expect("the log folds");
        check_acknowledged(&records, session, outside);
        let replied = records.iter().filter(|r| r.entry.kind() == "replied");
        outside.borrow_mut().replies = replied.count();
        let log = Log {
            store,
            head,
            state,
            shared: None,
        };
        let world = Rc::new(Fake::new(Rc::clone(outside)));
        let hears = hears(dir, session, outside);
        let mut engine = Engine::new(log, world, settings(policy()), inbox, hears);
        let life = async {
            if again {
                let by = By::Person;
                let resumed = engine.record_resumed(by, "found".into(), false).await;
                resumed.expect("resumed");
            }
            loop {
                match engine.run().await.expect("the engine runs") {
                    RestReason::Left(_) => return false,
                    RestReason::Waiting(Why::Paused | Why::Limit | Why::CrashLoop) => {
                        help(dir, session, Signal::GoOn);
                    }
                    // What was sent at the last boundary is not heard yet.
                    RestReason::Waiting(_) if has_signals(dir, session) => {}
                    RestReason::Waiting(_) => return true,
                }
                // What it never hears is found at the end.
                match timeout(NEVER_HEARD, engine.idle()).await {
                    Ok(waited) => waited.expect("the engine waits"),
                    Err(_) => return true,
                }
            }
        };
        let ended = tokio::select! {
            biased;
            () = crash.notified() => false,
            ended = life => ended,
        };
        drop(commands);
        ended
    })
}

fn has_signals(dir: &Path, session: &str) -> bool {
    let store = Store::open(dir).expect("the store opens");
    !store
        .inbox()
        .signals(session)
        .expect("the signals")
        .is_empty()
}

/// Two processes answer each question, and one of them is late.
fn hears(dir: &Path, session: &str, outside: &Rc<RefCell<Outside>>) -> OnEvent {
    let outside = Rc::clone(outside);
    let (dir, session) = (dir.to_path_buf(), session.to_string());
    Box::new(move |state, event| match event {
        Event::Recorded(record) => {
            let mut seen = outside.borrow_mut();
            seen.replies += usize::from(record.entry.kind() == "replied");
            seen.acknowledged.push((session.clone(), *record));
        }
        Event::Asked { call, .. } => {
            let asked = state.call(call).and_then(|open| open.asked.as_ref());
            let asked = asked.expect("a question is in the log first").seq;
            let decide = |verdict| Signal::Decide {
                call,
                asked,
                verdict,
                rule: None,
            };
            let reason = "no".to_string();
            help(&dir, &session, decide(Verdict::Allow));
            help(&dir, &session, decide(Verdict::Deny { reason }));
        }
        _ => {}
    })
}

/// Each question was in the log before its answer, and was answered once.
fn check_verdicts(records: &[Record]) {
    let mut asked = Vec::new();
    let mut decided = Vec::new();
    for record in records {
        match &record.entry {
            Entry::Asked { call, .. } => asked.push(*call),
            Entry::Decided { call, origin, .. } => {
                assert!(asked.contains(call), "call {call} was decided unasked");
                assert!(!decided.contains(call), "call {call} was decided twice");
                assert_eq!(origin.as_deref(), Some(HELPS));
                decided.push(*call);
            }
            _ => {}
        }
    }
    let stopped = records.iter().any(|r| r.entry.kind() == "stopped");
    assert!(stopped || !decided.is_empty(), "nothing was asked");
}

fn check_obeyed(
    store: &Store,
    session: &str,
    records: &[Record],
    sends: Sends,
    has_crashed: bool,
    at: u64,
) {
    let count = |is_so: &dyn Fn(&Entry) -> bool| records.iter().filter(|r| is_so(&r.entry)).count();
    let sent = |origin: &Option<String>| matches!(origin.as_deref(), Some(SENT | LINE));
    let times = count(&|e| match e {
        Entry::Said { origin, .. } => sent(origin),
        Entry::Stopped { origin, .. } | Entry::Paused { origin } => sent(origin),
        Entry::Chose(choice) => sent(&choice.origin),
        _ => false,
    });
    match sends {
        Sends::Words | Sends::Line => {
            let waits = store.inbox().queued(session).expect("the inbox").len();
            assert_eq!(times + waits, 1, "sent at {at}");
        }
        Sends::Mode | Sends::Limit => assert_eq!(times, 1, "{sends:?} sent at {at}"),
        Sends::Name => {
            let named = count(&|e| matches!(e, Entry::Named { .. }));
            assert_eq!(named, 1, "sent at {at}");
        }
        // Who takes the session up later is not meant. And at the end there is nothing to stop.
        Sends::Stop => assert!(times <= 1, "sent at {at}"),
        Sends::Pause if has_crashed => assert!(times <= 1, "sent at {at}"),
        Sends::Pause => assert_eq!(times, 1, "sent at {at}"),
        // Nothing is to be lifted, compacted or decided.
        Sends::GoOn | Sends::Compact | Sends::Leave | Sends::LateVerdict => {
            assert_eq!(times, 0, "{sends:?} sent at {at}");
        }
    }
}
