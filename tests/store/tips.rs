//! Each entry names all before it by a hash: what was exchanged for something else is seen,
//! also where its own checksum is right.

use rewake::journal::chain_hash::ChainHash;
use rewake::store::{Store, StoreError};
use rusqlite::{Connection, params};

use crate::story::*;

/// A body in the place of another, with the checksum that goes with it.
fn exchange(conn: &Connection, row: i64, body: &str) {
    let sql = "SELECT parent, seq, at_ms FROM entries WHERE id = ?1";
    let (parent, seq, at_ms): (i64, i64, i64) = conn
        .query_row(sql, [row], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))
        .unwrap();
    let mut hasher = blake3::Hasher::new();
    for part in [parent, seq, at_ms] {
        hasher.update(&part.to_le_bytes());
    }
    let hash = hasher.update(body.as_bytes()).finalize();
    let sql = "UPDATE entries SET body = ?2, checksum = ?3 WHERE id = ?1";
    conn.execute(sql, params![row, body, &hash.as_bytes()[..16]])
        .unwrap();
}

fn tips(conn: &Connection) -> Vec<Option<Vec<u8>>> {
    let mut statement = conn.prepare("SELECT tip FROM entries ORDER BY id").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// As an older version left it.
fn without_tips(conn: &Connection) {
    conn.execute_batch(
        "UPDATE entries SET tip = NULL;
         UPDATE meta SET value = 0 WHERE name = 'tips_upto';
         UPDATE meta SET value = (SELECT max(id) FROM entries) WHERE name = 'tips_end';",
    )
    .unwrap();
}

fn maintained(store: &mut Store) {
    while store.maintain().unwrap() {}
}

const OTHER: &str = r#"{"kind":"said","text":"something else","via":"prompt"}"#;

#[track_caller]
fn assert_corrupt(error: StoreError, at: u64) {
    match &error {
        StoreError::Corrupt { seq, what, .. } if *seq == at && what.contains("tip") => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_entry_that_was_exchanged_is_seen() {
    // Also so many that other threads check them, 32 rows at a time.
    for (entries, row) in [(5, 4_i64), (400, 4), (400, 32), (400, 33)] {
        let (dir, mut store) = scratch();
        let id = talk(&mut store, entries).session().to_string();
        let conn = raw(dir.path());
        let seq = row.unsigned_abs() - 1;
        exchange(&conn, row, OTHER);
        assert_corrupt(store.load(&id).unwrap_err(), seq);
        assert_corrupt(store.records(&id, 2..=seq + 1).unwrap_err(), seq);
        let traced = store
            .history()
            .trace(&id, Some(seq + 1), 4, |_| Ok::<(), StoreError>(()));
        assert_corrupt(traced.unwrap_err(), seq);
        // Also where its own was taken away: the next one tells.
        conn.execute("UPDATE entries SET tip = NULL WHERE id = ?1", [row])
            .unwrap();
        assert_corrupt(store.load(&id).unwrap_err(), seq + 1);
    }
}

#[test]
fn the_tip_is_of_the_json_that_was_first_stored() {
    let (dir, mut store) = scratch();
    let mut head = talk(&mut store, 1);
    append(&mut store, &mut head, vec![said(&"words ".repeat(900))]);
    let records = store.load(head.session()).unwrap().1;
    let mut tip = ChainHash::of_nothing();
    let mut expected = Vec::new();
    for record in &records {
        let json = serde_json::to_string(&record.entry).unwrap();
        tip = tip.and(record.seq, record.at_ms, json.as_bytes());
        expected.push(Some(tip.as_bytes().to_vec()));
    }
    assert_eq!(tips(&raw(dir.path())), expected);
}

#[test]
fn entries_of_an_older_version_get_their_tips_when_nobody_waits() {
    let (dir, mut store) = scratch();
    // More than one step.
    let head = talk(&mut store, 700);
    fork(&mut store, head.session(), 2, 9).unwrap();
    let recorded = tips(&raw(dir.path()));
    without_tips(&raw(dir.path()));
    drop(store);

    let mut store = Store::open(dir.path()).unwrap();
    assert_eq!(store.check().without_tip().unwrap(), 702);
    let (mut head, records) = store.load(head.session()).unwrap();
    assert_eq!(records.len(), 701);
    // What is new goes on from the right ones, in the session and in a fork of it.
    append(&mut store, &mut head, vec![said("new")]);
    let mut branch = fork(&mut store, head.session(), 300, 9).unwrap();
    append(&mut store, &mut branch, vec![said("new")]);
    let new = tips(&raw(dir.path()))[702..].to_vec();
    assert!(new.iter().all(Option::is_some));
    maintained(&mut store);
    assert_eq!(store.check().without_tip().unwrap(), 0);
    assert_eq!(tips(&raw(dir.path())), [recorded, new].concat());
    store.load(head.session()).unwrap();
    store.load(branch.session()).unwrap();
}

/// A hash made now would make what is damaged look sound.
#[test]
fn damaged_entries_and_their_successors_get_no_tip() {
    let (dir, mut store) = scratch();
    let one = talk(&mut store, 5);
    talk(&mut store, 5);
    let conn = raw(dir.path());
    without_tips(&conn);
    conn.execute("UPDATE entries SET checksum = x'00' WHERE id = 4", [])
        .unwrap();
    maintained(&mut store);
    assert_eq!(store.check().without_tip().unwrap(), 3);
    let has: Vec<bool> = tips(&conn).iter().map(Option::is_some).collect();
    assert_eq!(has, [[true; 3], [false; 3], [true; 3], [true; 3]].concat());
    assert!(matches!(
        store.load(one.session()),
        Err(StoreError::Corrupt { seq: 3, .. })
    ));
}

#[test]
fn each_store_has_a_unique_id() {
    let ids = [scratch(), scratch()].map(|(dir, _store)| {
        let sql = "SELECT value FROM meta WHERE name = 'store'";
        raw(dir.path())
            .query_row(sql, [], |row| row.get::<_, String>(0))
            .unwrap()
    });
    assert_ne!(ids[0], ids[1]);
    for id in ids {
        assert!(
            uuid::Uuid::parse_str(&id).is_ok_and(|id| id.get_version_num() == 4),
            "{id}"
        );
    }
}
