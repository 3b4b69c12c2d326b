//! Each entry names all before it by a hash: what was exchanged for something else is seen,
//! also where its own checksum is right.

use rewake::journal::chain_hash::ChainHash;
use rewake::store::StoreError;
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
        // Also where its own was taken away.
        conn.execute("UPDATE entries SET tip = x'' WHERE id = ?1", [row])
            .unwrap();
        assert_corrupt(store.load(&id).unwrap_err(), seq);
        assert_corrupt(store.records(&id, 2..=seq + 1).unwrap_err(), seq);
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

/// Nothing continues from an entry whose tip is damaged: a computed one would hide the damage.
#[test]
fn an_entry_without_a_tip_has_no_successor() {
    let (dir, mut store) = scratch();
    let head = talk(&mut store, 5);
    let conn = raw(dir.path());
    let null = conn.execute("UPDATE entries SET tip = NULL WHERE id = 4", []);
    assert!(null.is_err());
    conn.execute("UPDATE entries SET tip = x'00' WHERE id = 4", [])
        .unwrap();
    assert_corrupt(store.load(head.session()).unwrap_err(), 3);
    assert_corrupt(fork(&mut store, head.session(), 3, 9).unwrap_err(), 3);
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
