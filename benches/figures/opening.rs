//! A long session, opened by the real binary.

use std::time::Duration;

use rewake::core::entry::{Block, CallId, Entry, Outcome, StopReason, Usage, Via};
use rewake::store::{Batch, NewSession, Store};

use crate::checkpoint::opened;
use crate::child;
use crate::noise::Noise;
use crate::sample::Times;
use crate::support::{Answer, Home, Protocol, Server};
use crate::table::{Row, mb, ms};

/// One more, so that the last call has its result.
const ENTRIES: u64 = 10_001;
const ENTRY_BYTES: usize = 10_000;
const RUNS: usize = 5;

pub fn rows() -> Vec<Row> {
    let server = Server::start(|_| Answer::text("not asked"));
    let home = super::wide_home(&server, Protocol::Anthropic);
    let id = long_session(&home);
    let mut walls = Times::default();
    let mut peak = 0;
    for _ in 0..RUNS {
        // Nothing is owed, so it opens, folds, says so and leaves.
        let cost = child::run(home.rewake(["-p", "-r", &id]), Duration::from_micros(200));
        walls.push(cost.wall);
        peak = peak.max(cost.peak_bytes);
    }
    let wall = walls.median();
    vec![
        Row::new("open a session of 10,000 entries, 100 MB", ms(wall))
            .beside("exec to exit: load, check, fold")
            .target("300 ms", wall <= Duration::from_millis(300)),
        Row::new("… peak memory", mb(peak)).target("100 MB", peak <= 100_000_000),
    ]
}

/// In the last answer of the long session, and nowhere else.
pub const LAST_WORD: &str = "thelastwordofall";

/// One user message, then reads and their results, then a last word.
pub fn long_session(home: &Home) -> String {
    let mut store = Store::open(&home.rewake_home()).expect("open the store");
    let folder = home.workspace().canonicalize().expect("the workspace");
    let folder = folder.to_string_lossy().into_owned();
    let new = NewSession {
        id: rewake::store::new_id(),
        workspace: folder.clone(),
        folder: folder.clone(),
    };
    let (mut head, _) = store.create(&new, 0, opened(&folder)).expect("a session");
    let mut noise = Noise::new(2);
    while head.seq() + 1 < ENTRIES {
        let from = head.seq() + 1;
        let to = ENTRIES.min(from + 500);
        let batch = Batch {
            at_ms: 1,
            entries: (from..to).map(|seq| entry(seq, &mut noise)).collect(),
            ..Batch::default()
        };
        store.append(&mut head, &batch).expect("append");
    }
    head.session().to_string()
}

fn entry(seq: u64, noise: &mut Noise) -> Entry {
    let text = noise.text(ENTRY_BYTES);
    match seq {
        1 => Entry::Said {
            text,
            images: Vec::new(),
            via: Via::Prompt,
        },
        _ if seq + 1 == ENTRIES => {
            let text = format!("{text}\n\n{LAST_WORD}");
            replied(vec![Block::text(text)], StopReason::EndTurn)
        }
        _ if seq.is_multiple_of(2) => {
            let call = Block::call("read", r#"{"path":"src/lib.rs"}"#);
            replied(vec![Block::text(text), call], StopReason::ToolUse)
        }
        _ => Entry::Finished {
            call: CallId {
                reply: seq - 1,
                index: 0,
            },
            outcome: Outcome::done(text),
            fact: None,
            tree: None,
        },
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
    }
}
