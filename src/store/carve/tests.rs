//! Carving against what SQL reads of the same files, and against files that were damaged on purpose.

mod hostile;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::*;
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, params};

use super::child::{read_all, write_all};
use super::*;
use crate::store::Store;
use crate::store::blobs::{Packed, insert_blob};
use crate::store::row::int;

/// Of the log: a header, and a page.
const FRAME: usize = 24 + PAGE;

/// A row of `entries` that was found, or that SQL reads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    id: i64,
    body: Vec<u8>,
    tip: Option<Vec<u8>>,
}

/// What is found in these files, through the form that it has on the pipe.
fn found(database: &Path, log: &Path) -> (BTreeSet<Row>, Vec<Vec<u8>>) {
    let mut pipe = Vec::new();
    let (mut entries, mut blobs) = (BTreeSet::new(), Vec::new());
    if write_all(database, log, &mut pipe, u64::MAX).is_err() {
        return (entries, blobs);
    }
    read_all(&pipe[..], &mut |carved| {
        match carved {
            Carved::Entry(entry) => {
                let sum = checksum(entry.parent, entry.seq, entry.at_ms, entry.body);
                assert_eq!(entry.checksum, sum);
                let row = Row {
                    id: entry.id,
                    body: entry.body.to_vec(),
                    tip: entry.tip.map(|tip| tip.as_bytes().to_vec()),
                };
                assert!(entries.insert(row), "given twice");
            }
            Carved::Blob(blob) => {
                assert!(blob.is_whole());
                let data = blob.data.to_vec();
                blobs.push(match blob.is_packed {
                    true => zstd::bulk::decompress(&data, 1 << 20).unwrap(),
                    false => data,
                });
            }
            Carved::Upto(_) => {}
        }
        Ok(())
    })
    .unwrap();
    (entries, blobs)
}

fn ids(rows: &BTreeSet<Row>) -> Vec<i64> {
    rows.iter().map(|row| row.id).collect()
}

struct Scene {
    dir: tempfile::TempDir,
    /// Open, so that the log stays.
    conn: Connection,
    /// What was recorded, and is not any more or not so.
    removed: BTreeSet<Row>,
}

/// A row that is to be recorded.
#[derive(Debug, Clone)]
struct New {
    bytes: usize,
    is_packed: bool,
    has_tip: bool,
    plan_step: Option<String>,
    at_ms: i64,
}

/// What happens to a table.
#[derive(Debug, Clone)]
enum Step {
    Add(Vec<New>),
    /// So many rows that fill some pages of the log, and are not committed.
    RollBack(Vec<New>),
    /// The newest ones: their ids are used again.
    Remove(i64),
    /// It gets its tip later.
    SetTip(i64),
    Checkpoint,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => vec(new(), 1..4).prop_map(Step::Add),
        2 => vec(new(), 1..30).prop_map(Step::RollBack),
        2 => (1_i64..4).prop_map(Step::Remove),
        2 => (1_i64..100).prop_map(Step::SetTip),
        2 => Just(Step::Checkpoint),
    ]
}

fn new() -> impl Strategy<Value = New> {
    let bytes = prop_oneof![
        4 => 0_usize..600,
        2 => 3_000_usize..4_200,
        2 => 4_000_usize..30_000,
        1 => 100_000_usize..300_000
    ];
    let at_ms = prop_oneof![
        Just(0),
        Just(1),
        -5_i64..5,
        any::<i64>(),
        any::<i32>().prop_map(i64::from)
    ];
    (
        bytes,
        any::<bool>(),
        any::<bool>(),
        proptest::option::of("[a-z ]{0,40}"),
        at_ms,
    )
        .prop_map(|(bytes, is_packed, has_tip, plan_step, at_ms)| New {
            bytes,
            is_packed,
            has_tip,
            plan_step,
            at_ms,
        })
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        drop(Store::open(dir.path()).unwrap());
        let conn = super::super::database::open(dir.path()).unwrap();
        conn.pragma_update(None, "synchronous", "OFF").unwrap();
        conn.pragma_update(None, "foreign_keys", false).unwrap();
        conn.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
        // Large transactions are in the log before they are committed.
        conn.pragma_update(None, "cache_size", 8).unwrap();
        Scene {
            dir,
            conn,
            removed: BTreeSet::new(),
        }
    }

    fn files(&self) -> [PathBuf; 2] {
        let names = super::super::database::names(self.dir.path());
        let [log, _] = names.beside;
        [names.database, log]
    }

    fn take(&mut self, step: &Step) {
        let before = self.selected();
        let last = before.last().map_or(0, |row| row.id);
        match step {
            Step::Checkpoint => self.checkpoint(),
            Step::Add(rows) | Step::RollBack(rows) => {
                self.conn.execute_batch("BEGIN").unwrap();
                for (id, row) in (last + 1..).zip(rows) {
                    self.add(id, row);
                }
                let end = match step {
                    Step::Add(_) => "COMMIT",
                    _ => "ROLLBACK",
                };
                self.conn.execute_batch(end).unwrap();
            }
            Step::Remove(rows) => {
                let sql = "DELETE FROM entries WHERE id > ?1";
                self.conn.execute(sql, [last - rows]).unwrap();
            }
            Step::SetTip(row) => {
                let sql = "UPDATE entries SET tip = zeroblob(16) WHERE id = ?1";
                self.conn.execute(sql, [row]).unwrap();
            }
        }
        let after = self.selected();
        self.removed.extend(before.difference(&after).cloned());
    }

    fn add(&self, id: i64, row: &New) {
        let seed = row.at_ms.wrapping_add(id * 3);
        let letter = |n: i64| b'a' + n.wrapping_mul(7).wrapping_add(seed).rem_euclid(26) as u8;
        let body: Vec<u8> = (0..row.bytes as i64).map(letter).collect();
        let parent = (id > 1).then_some(id - 1);
        let seq = Seq::try_from(id - 1).unwrap();
        let sum = checksum(parent, seq, row.at_ms, &body);
        let tip = row.has_tip.then(|| vec![id as u8; TIP_BYTES]);
        let body = match row.is_packed {
            true => Sql::Blob(body),
            false => Sql::Text(String::from_utf8(body).unwrap()),
        };
        self.conn
            .execute(
                "INSERT INTO entries (id, parent, session, seq, at_ms, kind, checksum, plan_step,
                   body, tip) VALUES (?1, ?2, ?3, ?4, ?5, 'said', ?6, ?7, ?8, ?9)",
                params![
                    id,
                    parent,
                    id % 3,
                    int(seq),
                    row.at_ms,
                    sum,
                    row.plan_step,
                    body,
                    tip
                ],
            )
            .unwrap();
    }

    fn checkpoint(&self) {
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        self.conn.query_row(sql, [], |_| Ok(())).unwrap();
    }

    fn selected(&self) -> BTreeSet<Row> {
        let sql = "SELECT id, CAST(body AS BLOB), tip FROM entries";
        let mut statement = self.conn.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| {
            Ok(Row {
                id: row.get(0)?,
                body: row.get(1)?,
                tip: row.get(2)?,
            })
        });
        rows.unwrap().map(Result::unwrap).collect()
    }
}

/// `PROPTEST_CASES` says another number.
fn cases() -> u32 {
    let cases = std::env::var("PROPTEST_CASES");
    cases.map_or(32, |cases| cases.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_that_sql_reads_is_found(
        steps in vec(step(), 1..60),
        blobs in vec(vec(any::<u8>(), 0..9_000), 0..5),
        zeroed in any::<bool>(),
    ) {
        let mut scene = Scene::new();
        for step in &steps {
            scene.take(step);
        }
        let mut wanted = blobs;
        for blob in &wanted {
            insert_blob(&scene.conn, &Packed::new(blob)).unwrap();
        }
        let [database, log] = scene.files();
        let copy = scene.dir.path().join("copy");
        let mut bytes = fs::read(&database).unwrap();
        // The page that says where things are: nothing of an entry lies on it.
        if zeroed {
            bytes[..PAGE].fill(0);
        }
        fs::write(&copy, bytes).unwrap();
        let (entries, mut found) = found(&copy, &log);
        let selected = scene.selected();
        for row in &selected {
            prop_assert!(entries.contains(row), "row {} is not found", row.id);
        }
        // What is found besides was recorded once, and nothing that was rolled back. The tip is
        // not under the checksum: who uses it looks whether it follows.
        for row in entries.difference(&selected) {
            let is_it = |was: &Row| (was.id, &was.body) == (row.id, &row.body);
            let mut recorded = scene.removed.iter().chain(&selected);
            prop_assert!(recorded.any(is_it), "row {} was never recorded", row.id);
        }
        wanted.sort();
        wanted.dedup();
        found.sort();
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn random_bytes_are_nothing(mut bytes in vec(any::<u8>(), 0..5 * PAGE), leaves in any::<bool>()) {
        if leaves {
            bytes.chunks_mut(PAGE).for_each(|page| page[0] = LEAF_OF_TABLE);
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("random");
        fs::write(&path, &bytes).unwrap();
        prop_assert_eq!(found(&path, &path), (BTreeSet::new(), Vec::new()));
        let _ = values(&bytes, bytes.len());
        let _ = read_all(&bytes[..], &mut |_| Ok(()));
    }
}

/// What was written behind the last commit, or under a commit that was not finished, is not looked
/// at.
#[test]
fn a_log_counts_up_to_its_last_valid_commit() {
    let scene = Scene::new();
    let row = |bytes| New {
        bytes,
        is_packed: false,
        has_tip: true,
        plan_step: None,
        at_ms: 1,
    };
    let [database, log] = scene.files();
    let mut ends = vec![];
    // Each commit has several frames, of more than one leaf.
    for id in 1..=12 {
        scene.conn.execute_batch("BEGIN").unwrap();
        scene.add(2 * id - 1, &row(3_000));
        scene.add(2 * id, &row(3_000));
        scene.conn.execute_batch("COMMIT").unwrap();
        ends.push(usize::try_from(fs::metadata(&log).unwrap().len()).unwrap());
    }
    let whole = fs::read(&log).unwrap();
    let copy = scene.dir.path().join("log");
    // The log ends at each of its frames, and in the middle of one. The new leaves come last of a
    // commit.
    for end in (ends[0]..=whole.len()).step_by(FRAME) {
        for more in [0, 1, FRAME - 1] {
            let upto = (end + more).min(whole.len());
            fs::write(&copy, &whole[..upto]).unwrap();
            let ids = ids(&found(&database, &copy).0);
            let commits = ends.iter().filter(|end| **end <= upto).count() as i64;
            assert_eq!(ids, (1..=2 * commits).collect::<Vec<i64>>());
        }
    }
    // A frame in the middle is damaged: what is behind it does not count.
    let mut damaged = whole.clone();
    let at = ends[5] + 200;
    damaged[at] ^= 1;
    fs::write(&copy, &damaged).unwrap();
    let ids = ids(&found(&database, &copy).0);
    assert_eq!(ids, (1..=12).collect::<Vec<i64>>());
}

#[test]
fn a_leaf_of_zeros_costs_its_rows() {
    let scene = Scene::new();
    for id in 1..200 {
        scene.add(
            id,
            &New {
                bytes: 700,
                is_packed: false,
                has_tip: true,
                plan_step: None,
                at_ms: 5,
            },
        );
    }
    scene.checkpoint();
    let [database, _] = scene.files();
    let selected = scene.selected();
    let bytes = fs::read(&database).unwrap();
    let copy = scene.dir.path().join("copy");
    let mut lost = 0;
    for page in 0..bytes.len() / PAGE {
        let mut damaged = bytes.clone();
        damaged[page * PAGE..(page + 1) * PAGE].fill(0);
        fs::write(&copy, &damaged).unwrap();
        let (entries, _) = found(&copy, &copy);
        let is_leaf = bytes[page * PAGE] == LEAF_OF_TABLE;
        let missing = selected.len() - entries.len();
        assert!(
            missing <= 5 && (is_leaf || missing == 0),
            "page {page}: {missing}"
        );
        lost += missing;
    }
    // Each row lies on one page.
    assert_eq!(lost, selected.len());
}
