//! A durable checkpoint against a raw append and sync, and what it writes.

use std::path::Path;
use std::time::Duration;

use rewake::core::entry::{CallId, Entry, Mode, Outcome, PromptPrefix};
use rewake::store::{Batch, Head, JournalPlace, NewSession, Store};

use crate::noise::Noise;
use crate::sample::{RawAppend, Times, ratio};
use crate::table::{Row, ms};

/// Pairs of a checkpoint and a raw append.
const PAIRS: usize = 400;

const LONG: u64 = 100_000;

/// Entries in one transaction when only their number matters.
const AT_ONCE: usize = 5_000;

pub fn rows() -> Vec<Row> {
    let mut rows = durable();
    rows.push(beside_a_journal());
    rows.push(written(false));
    rows.push(written(true));
    rows
}

/// A session in a store of its own.
pub struct Fresh {
    pub store: Store,
    pub head: Head,
    noise: Noise,
}

impl Fresh {
    pub fn in_folder(folder: &Path) -> Fresh {
        Fresh::in_store(Store::open(folder).expect("open a store"))
    }

    /// With a journal, as by default.
    fn with_journal(folder: &Path) -> Fresh {
        let place = JournalPlace {
            folder: folder.join("journal"),
            state_dir: folder.to_path_buf(),
            pause: Duration::from_secs(1),
        };
        let mut store = Store::open(folder).expect("open a store");
        store.start_copies(folder, &place).expect("a journal");
        Fresh::in_store(store)
    }

    fn in_store(mut store: Store) -> Fresh {
        let new = NewSession {
            id: rewake::store::new_id(),
            workspace: "/work".into(),
            folder: "/work".into(),
        };
        let (head, _) = store.create(&new, 0, opened("/work")).expect("a session");
        Fresh {
            store,
            head,
            noise: Noise::new(1),
        }
    }

    /// The result of a call, 2 to 4 KB.
    fn finished(&mut self, seq: u64) -> Entry {
        let bytes = 2_000 + (seq as usize * 37) % 2_000;
        finished(seq, self.noise.text(bytes))
    }

    fn append(&mut self, entries: Vec<Entry>) {
        let batch = Batch {
            at_ms: 1,
            entries,
            ..Batch::default()
        };
        self.store.append(&mut self.head, &batch).expect("append");
    }

    fn tidy(&mut self) {
        while self.store.maintain().expect("maintain") {}
    }

    fn fill(&mut self, length: u64) {
        while self.head.seq() + 1 < length {
            let from = self.head.seq() + 1;
            let to = length.min(from + AT_ONCE as u64);
            let entries = (from..to).map(|seq| self.finished(seq)).collect();
            self.append(entries);
        }
    }
}

pub fn opened(folder: &str) -> Entry {
    Entry::Opened {
        folder: folder.into(),
        version: rewake::session::VERSION.into(),
        model: "local/test-model".into(),
        mode: Mode::default(),
        layers: PromptPrefix::default(),
        imported: None,
    }
}

fn finished(seq: u64, text: String) -> Entry {
    let call = CallId {
        reply: seq,
        index: 0,
    };
    Entry::Finished {
        call,
        outcome: Outcome::done(text),
        fact: None,
        tree: None,
    }
}

fn durable() -> Vec<Row> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut fresh = Fresh::in_folder(folder.path());
    fresh.fill(10);
    let (early, first) = pairs(&mut fresh, folder.path(), "at entry 10");
    fresh.fill(LONG);
    let (late, second) = pairs(&mut fresh, folder.path(), "at entry 100,000");
    let same = Row::new("… at 100,000 against at 10, each by its floor", "")
        .ratio(late / early)
        .target("1.0 ×", late / early <= 1.1);
    vec![first, second, same]
}

/// How many times as long as a raw append, and the row.
fn pairs(fresh: &mut Fresh, folder: &Path, at: &str) -> (f64, Row) {
    let mut raw = RawAppend::in_folder(folder);
    let mut ours = Times::default();
    for place in 0..PAIRS {
        raw.once();
        let seq = fresh.head.seq() + 1;
        let entries = vec![fresh.finished(seq)];
        ours.time(|| fresh.append(entries));
        if place % 20 == 0 {
            fresh.tidy();
        }
    }
    let ratio = ratio(ours.median(), raw.times.median());
    let row = Row::new(format!("durable checkpoint of 2–4 KB, {at}"), both(&ours))
        .beside(format!("4 KiB append + fdatasync {}", both(&raw.times)))
        .ratio(ratio)
        .target("1.5 ×", ratio <= 1.5);
    (ratio, row)
}

fn both(times: &Times) -> String {
    format!(
        "{}, p99 {}",
        ms(times.median()),
        ms(times.worst_of_hundred())
    )
}

/// What the journal adds to an append, in turn with one without.
fn beside_a_journal() -> Row {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let mut with = Fresh::with_journal(folders[0].path());
    let mut without = Fresh::in_folder(folders[1].path());
    let mut times = [Times::default(), Times::default()];
    for place in 0..PAIRS {
        for (fresh, times) in [&mut with, &mut without].into_iter().zip(&mut times) {
            let seq = fresh.head.seq() + 1;
            let entries = vec![fresh.finished(seq)];
            times.time(|| fresh.append(entries));
            if place % 20 == 0 {
                fresh.tidy();
            }
        }
    }
    let [with, without] = times;
    let ratio = ratio(with.median(), without.median());
    Row::new("append of 2–4 KB with the journal", both(&with))
        .beside(format!("without {}", both(&without)))
        .ratio(ratio)
        .target("1.1 ×", ratio <= 1.1)
}

/// Bytes given to the disk by this process, which does nothing else meanwhile.
fn written(journal: bool) -> Row {
    let folder = tempfile::tempdir().expect("a folder");
    let mut fresh = match journal {
        true => Fresh::with_journal(folder.path()),
        false => Fresh::in_folder(folder.path()),
    };
    fresh.fill(10);
    let before = given_to_disk();
    let mut transcript = 0;
    for turn in 0..2_000 {
        let text = fresh.noise.text(2_000);
        transcript += text.len();
        let entry = finished(turn, text);
        fresh.append(vec![entry]);
        // As an agent does while it waits for the model.
        if turn % 4 == 0 {
            fresh.tidy();
        }
    }
    while fresh.store.index().index_pending(1_000).expect("index") > 0 {}
    // Closing copies the rest of the log into the database.
    drop(fresh);
    let Some((before, after)) = before.zip(given_to_disk()) else {
        return Row::new("bytes written per byte of transcript", "not told here");
    };
    let ratio = after.saturating_sub(before) as f64 / transcript as f64;
    let (what, most) = match journal {
        true => (", with the journal", 10.5),
        false => ("", 10.0),
    };
    Row::new(
        format!("bytes written per byte of transcript, 2 KB entries{what}"),
        format!("{ratio:.2}"),
    )
    .beside("write_bytes less what was cut off before it was written; not the file system's own journal")
    .target(format!("under {most}"), ratio < most)
}

/// The kernel counts a page when it is first changed; one whose file is removed before that
/// was written is counted as cancelled.
fn given_to_disk() -> Option<u64> {
    let io = std::fs::read_to_string("/proc/self/io").ok()?;
    let number = |name: &str| -> Option<u64> {
        let line = io.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some(number("write_bytes:")?.saturating_sub(number("cancelled_write_bytes:")?))
}
