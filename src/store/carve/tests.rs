//! Carving against what SQL reads of the same files, and against files that were damaged on purpose.

use std::collections::BTreeMap;
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

/// What is found in these files, through the form that it has on the pipe.
fn found(database: &Path, log: &Path) -> (BTreeMap<i64, Vec<u8>>, Vec<Vec<u8>>) {
    let mut pipe = Vec::new();
    let (mut entries, mut blobs) = (BTreeMap::new(), Vec::new());
    if write_all(database, log, &mut pipe).is_err() {
        return (entries, blobs);
    }
    read_all(&pipe[..], &mut |carved| {
        match carved {
            Carved::Entry(entry) => {
                let sum = checksum(entry.parent, entry.seq, entry.at_ms, entry.body);
                assert_eq!(entry.checksum, sum);
                assert_eq!(entries.insert(entry.id, entry.body.to_vec()), None);
            }
            Carved::Blob(bytes) => blobs.push(bytes.to_vec()),
        }
        Ok(())
    })
    .unwrap();
    (entries, blobs)
}

struct Scene {
    dir: tempfile::TempDir,
    /// Open, so that the log stays.
    conn: Connection,
}

#[derive(Debug, Clone)]
struct Row {
    bytes: usize,
    is_packed: bool,
    has_tip: bool,
    plan_step: Option<String>,
    at_ms: i64,
}

fn row() -> impl Strategy<Value = Row> {
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
        .prop_map(|(bytes, is_packed, has_tip, plan_step, at_ms)| Row {
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
        Scene { dir, conn }
    }

    fn files(&self) -> [PathBuf; 2] {
        let names = super::super::database::names(self.dir.path());
        let [log, _] = names.beside;
        [names.database, log]
    }

    fn add(&self, id: i64, row: &Row) {
        let body: Vec<u8> = (0..row.bytes)
            .map(|n| b'a' + (n as i64 * 7 + id * 3).rem_euclid(26) as u8)
            .collect();
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

    fn selected(&self) -> BTreeMap<i64, Vec<u8>> {
        let sql = "SELECT id, CAST(body AS BLOB) FROM entries";
        let mut statement = self.conn.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.unwrap().map(Result::unwrap).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_that_sql_reads_is_found(
        rows in vec(row(), 1..60),
        checkpoint in 0_usize..60,
        blobs in vec(vec(any::<u8>(), 0..9_000), 0..5),
        zeroed in 0_usize..4,
    ) {
        let scene = Scene::new();
        for (n, row) in rows.iter().enumerate() {
            scene.add(n as i64 + 1, row);
            if n == checkpoint {
                scene.checkpoint();
            }
        }
        let mut wanted = blobs;
        for blob in &wanted {
            insert_blob(&scene.conn, &Packed::new(blob)).unwrap();
        }
        let [database, log] = scene.files();
        let selected = scene.selected();
        // The pages that say where things are: nothing of an entry lies on the first.
        if zeroed == 0 {
            let mut bytes = fs::read(&database).unwrap();
            bytes[..PAGE].fill(0);
            fs::write(scene.dir.path().join("copy"), bytes).unwrap();
        } else {
            fs::copy(&database, scene.dir.path().join("copy")).unwrap();
        }
        let (entries, mut found) = found(&scene.dir.path().join("copy"), &log);
        prop_assert_eq!(entries, selected);
        wanted.sort();
        wanted.dedup();
        found.sort();
        prop_assert_eq!(found, wanted);
    }

    /// Whatever stands in the files: no panic, an end, and nothing that is not what was written.
    #[test]
    fn what_is_damaged_is_not_believed(
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..200),
        in_log in any::<bool>(),
        words in vec((any::<prop::sample::Index>(), any::<u64>()), 0..40),
    ) {
        let scene = Scene::new();
        for id in 1..40 {
            let bytes = usize::try_from(id * id * 10).unwrap();
            scene.add(id, &Row { bytes, is_packed: id % 2 == 0, has_tip: true, plan_step: None, at_ms: id });
            if id == 20 {
                scene.checkpoint();
            }
        }
        let [database, log] = scene.files();
        let selected = scene.selected();
        let mut bytes = [fs::read(&database).unwrap(), fs::read(&log).unwrap()];
        let damaged = &mut bytes[usize::from(in_log)];
        for (at, byte) in flips {
            let at = at.index(damaged.len());
            damaged[at] ^= byte;
        }
        for (at, word) in words {
            let at = at.index(damaged.len() - 8);
            damaged[at..at + 8].copy_from_slice(&word.to_be_bytes());
        }
        let copies = ["one", "two"].map(|name| scene.dir.path().join(name));
        fs::write(&copies[0], &bytes[0]).unwrap();
        fs::write(&copies[1], &bytes[1]).unwrap();
        for (id, body) in found(&copies[0], &copies[1]).0 {
            // A row id is not under the checksum.
            prop_assert!(selected.get(&id) == Some(&body) || selected.values().any(|b| *b == body));
        }
    }

    #[test]
    fn random_bytes_are_nothing(mut bytes in vec(any::<u8>(), 0..5 * PAGE), leaves in any::<bool>()) {
        if leaves {
            bytes.chunks_mut(PAGE).for_each(|page| page[0] = LEAF_OF_TABLE);
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("random");
        fs::write(&path, &bytes).unwrap();
        prop_assert_eq!(found(&path, &path), (BTreeMap::new(), Vec::new()));
        let _ = values(&bytes, bytes.len());
        let _ = read_all(&bytes[..], &mut |_| Ok(()));
    }
}

/// A leaf of the table with one row whose rest lies on other pages, which `pages` link.
fn with_chain(total: u64, next: u32, pages: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; PAGE * (2 + pages.len())];
    let leaf = &mut bytes[PAGE..2 * PAGE];
    leaf[0] = LEAF_OF_TABLE;
    leaf[3..5].copy_from_slice(&20_u16.to_be_bytes());
    for cell in 0..20 {
        leaf[8 + 2 * cell..10 + 2 * cell].copy_from_slice(&60_u16.to_be_bytes());
    }
    let groups = |value: u64, bytes: u32| -> Vec<u8> {
        let group = |n| ((value >> (7 * n)) & 0x7f) as u8 | if n > 0 { 0x80 } else { 0 };
        (0..bytes).rev().map(group).collect()
    };
    let mut cell = groups(total, 8);
    cell.push(1);
    // NULL, a parent, a session, a place, a time, `said`, 16 bytes, NULL, the body.
    let body = (total - 34) * 2 + 12;
    let mut header = vec![0, 8, 8, 8, 8, 21, 44, 0];
    header.extend(groups(body, 5));
    cell.push(header.len() as u8 + 1);
    cell.extend(header);
    leaf[60..60 + cell.len()].copy_from_slice(&cell);
    let at = 60 + 9 + local(total as usize);
    if let Some(pointer) = leaf.get_mut(at..at + 4) {
        pointer.copy_from_slice(&next.to_be_bytes());
    }
    for (n, next) in pages.iter().enumerate() {
        let at = PAGE * (2 + n);
        bytes[at..at + 4].copy_from_slice(&next.to_be_bytes());
    }
    bytes
}

/// Pages that lead back to themselves, and lengths beyond all bounds.
#[test]
fn a_chain_without_end_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hostile");
    for total in [20_000, 200_000_000, 1 << 40, u64::MAX >> 2] {
        for pages in [
            vec![3],
            vec![4, 3],
            vec![4, 5, 6, 4],
            vec![0],
            vec![u32::MAX],
        ] {
            let bytes = with_chain(total, 3, &pages);
            let is_ours = Cell::at(&bytes[PAGE..2 * PAGE], 60).and_then(|cell| key(&cell));
            assert_eq!(is_ours.is_some(), total < 1 << 40);
            fs::write(&path, bytes).unwrap();
            assert_eq!(found(&path, &path), (BTreeMap::new(), Vec::new()));
        }
    }
}

/// Each page of the chain is read so often at most, however many rows claim it.
#[test]
fn rows_that_claim_the_same_pages_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hostile");
    let pages: Vec<u32> = (4..=203).collect();
    fs::write(&path, with_chain(700_000, 3, &pages)).unwrap();
    let mut carving = Carving {
        pages: Pages {
            database: Some(File::open(&path).unwrap()),
            wal: None,
        },
        uses: HashMap::new(),
        entries: HashSet::new(),
        blobs: HashSet::new(),
    };
    let page = &fs::read(&path).unwrap()[PAGE..2 * PAGE];
    let cell = Cell::at(page, 60).unwrap();
    assert!(key(&cell).is_some());
    for _ in 0..100 {
        carving
            .cell(&cell, &mut |_| panic!("it is believed"))
            .unwrap();
    }
    assert_eq!(carving.uses.values().max(), Some(&MAX_USES));
}

/// What was written behind the last commit, or under a commit that was not finished, is not looked
/// at.
#[test]
fn a_log_counts_up_to_its_last_valid_commit() {
    let scene = Scene::new();
    let row = |bytes| Row {
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
            let ids: Vec<i64> = found(&database, &copy).0.into_keys().collect();
            let commits = ends.iter().filter(|end| **end <= upto).count() as i64;
            assert_eq!(ids, (1..=2 * commits).collect::<Vec<i64>>());
        }
    }
    // A frame in the middle is damaged: what is behind it does not count.
    let mut damaged = whole.clone();
    let at = ends[5] + 200;
    damaged[at] ^= 1;
    fs::write(&copy, &damaged).unwrap();
    let ids: Vec<i64> = found(&database, &copy).0.into_keys().collect();
    assert_eq!(ids, (1..=12).collect::<Vec<i64>>());
}

#[test]
fn a_leaf_of_zeros_costs_its_rows() {
    let scene = Scene::new();
    for id in 1..200 {
        scene.add(
            id,
            &Row {
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
