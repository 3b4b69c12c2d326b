//! A long session, opened by the real binary.

use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rewake::core::entry::{Block, CallId, Entry, Outcome, Seq, StopReason, SummaryBy, Usage, Via};
use rewake::store::{Batch, JournalPlace, NewSession, Store};

use crate::checkpoint::opened;
use crate::child;
use crate::noise::Noise;
use crate::sample::{Times, ratio};
use crate::table::{Row, mb, ms};
use support::{Answer, Home, Protocol, Server};

const ENTRIES: Seq = 10_000;
const ENTRY_BYTES: usize = 10_000;
/// Exchanges of 20 KB in a context of 120,000 tokens, which is compacted to half of that.
const COMPACTED_AT: usize = 24;
const CLOSED_TO: usize = 12;
const RUNS: usize = 5;

/// In the last answer of the long session, and nowhere else.
pub const LAST_WORD: &str = "thelastwordofall";

/// Whether the context was compacted during the work, as they are unless `strategy` is
/// `manual`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Context {
    Compacted,
    NeverCompacted,
}

pub fn rows() -> Vec<Row> {
    let mut rows = open(
        Context::Compacted,
        "open a session of 10,000 entries, 100 MB",
    );
    rows.extend(open(
        Context::NeverCompacted,
        "the same, all of it in the context",
    ));
    rows.extend(from_journal());
    rows
}

/// Nothing is there but the journal.
fn from_journal() -> Vec<Row> {
    let server = Server::start(|_| Answer::text("not asked"));
    let home = super::wide_home(&server, Protocol::Anthropic);
    let folder = home.rewake_home();
    long_session(&home, Context::Compacted);
    let path = folder.join("rewake.db");
    let bytes = std::fs::read(&path).expect("read the database");
    let (mut walls, mut floor, mut peak) = (Times::default(), Times::default(), 0);
    for _ in 0..RUNS {
        floor.time(|| write_and_sync(&folder.join("floor"), &bytes));
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(folder.join(format!("rewake.db{suffix}")));
        }
        let repair = home.rewake(["doctor", "--repair"]);
        let cost = child::run(repair, Duration::from_millis(1));
        walls.push(cost.wall);
        peak = peak.max(cost.peak_bytes);
    }
    let rebuilt = std::fs::metadata(&path).expect("the new database").len();
    assert!(rebuilt * 10 > bytes.len() as u64 * 9, "{rebuilt} bytes");
    let wall = walls.median();
    vec![
        Row::new("rebuild it from the journal", ms(wall))
            .beside(format!(
                "write and sync its {}: {}",
                mb(bytes.len() as u64),
                ms(floor.median())
            ))
            .ratio(ratio(wall, floor.median()))
            .target("1 s", wall <= Duration::from_secs(1)),
        Row::new("… peak memory", mb(peak)).target("200 MB", peak <= 200_000_000),
    ]
}

fn write_and_sync(path: &Path, bytes: &[u8]) {
    let mut file = std::fs::File::create(path).expect("make the file of the floor");
    file.write_all(bytes).expect("write");
    file.sync_all().expect("sync");
}

fn open(context: Context, what: &str) -> Vec<Row> {
    let server = Server::start(|_| Answer::text("not asked"));
    let home = super::wide_home(&server, Protocol::Anthropic);
    let id = long_session(&home, context);
    let mut walls = Times::default();
    let mut peak = 0;
    for _ in 0..RUNS {
        // Nothing is owed, so it opens, folds, says so and leaves.
        let cost = child::run(home.rewake(["-p", "-r", &id]), Duration::from_micros(200));
        walls.push(cost.wall);
        peak = peak.max(cost.peak_bytes);
    }
    let wall = walls.median();
    let (time, memory) = (
        Row::new(what, ms(wall)),
        Row::new("… peak memory", mb(peak)),
    );
    let time = time.beside("exec to exit: load, check, fold");
    match context {
        Context::Compacted => vec![
            time.target("300 ms", wall <= Duration::from_millis(300)),
            memory.target("100 MB", peak <= 100_000_000),
        ],
        Context::NeverCompacted => vec![time, memory],
    }
}

/// One user message, then reads and their results, then a last word. All of it is in the journal.
pub fn long_session(home: &Home, context: Context) -> String {
    let folder = home.rewake_home();
    let place = JournalPlace {
        folder: folder.join("journal"),
        state_dir: folder.clone(),
        pause: Duration::from_millis(100),
    };
    let mut store = Store::open(&folder).expect("open the store");
    store.start_copies(&folder, &place).expect("a journal");
    fill(store, home, context)
}

fn fill(mut store: Store, home: &Home, context: Context) -> String {
    let folder = home.workspace().canonicalize().expect("the workspace");
    let folder = folder.to_string_lossy().into_owned();
    let new = NewSession {
        id: rewake::store::new_id(),
        workspace: folder.clone(),
        folder: folder.clone(),
    };
    let (mut head, _) = store.create(&new, 0, opened(&folder)).expect("a session");
    let mut entries = entries(context).into_iter().peekable();
    while entries.peek().is_some() {
        let batch = Batch {
            at_ms: 1,
            entries: entries.by_ref().take(500).collect(),
            ..Batch::default()
        };
        store.append(&mut head, &batch).expect("append");
    }
    head.session().to_string()
}

/// What follows `Opened`.
fn entries(context: Context) -> Vec<Entry> {
    let mut noise = Noise::new(2);
    let mut entries = vec![Entry::Said {
        text: noise.text(ENTRY_BYTES),
        images: Vec::new(),
        via: Via::Prompt,
        command: None,
        origin: None,
    }];
    // First and last entry of each exchange that is in the context.
    let mut exchanges = VecDeque::from([(1, 1)]);
    let mut window = 0;
    while (entries.len() as Seq) < ENTRIES - 2 {
        let reply = entries.len() as Seq + 1;
        let call = Block::call("read", r#"{"path":"src/lib.rs"}"#);
        let words = Block::text(noise.text(ENTRY_BYTES));
        entries.push(replied(vec![words, call], StopReason::ToolUse));
        entries.push(Entry::Finished {
            call: CallId { reply, index: 0 },
            outcome: Outcome::done(noise.text(ENTRY_BYTES)),
            fact: None,
            tree: None,
        });
        exchanges.push_back((reply, reply + 1));
        if context == Context::Compacted && exchanges.len() >= COMPACTED_AT {
            window += 1;
            let kept = exchanges.split_off(COMPACTED_AT - CLOSED_TO);
            entries.push(compacted(window, &exchanges, noise.text(2_000)));
            exchanges = kept;
        }
    }
    let words = format!("{}\n\n{LAST_WORD}", noise.text(ENTRY_BYTES));
    entries.push(replied(vec![Block::text(words)], StopReason::EndTurn));
    entries
}

fn compacted(window: u32, exchanges: &VecDeque<(Seq, Seq)>, summary: String) -> Entry {
    Entry::Compacted {
        window,
        first: exchanges.front().expect("an exchange").0,
        last: exchanges.back().expect("an exchange").1,
        summary,
        by: SummaryBy::Model,
        spent: Vec::new(),
        preface: None,
    }
}

fn replied(blocks: Vec<Block>, stop: StopReason) -> Entry {
    Entry::Replied {
        blocks,
        usage: Usage::default(),
        stop,
        model: "local/test-model".into(),
        took_ms: 1,
        asked_bytes: 0,
        source_usage: None,
    }
}
