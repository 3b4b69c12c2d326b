//! Damage is named, never skipped and never a panic.

use std::fs;

use rewake::lines::tip::Tip;
use rewake::store::{Order, Scope, Store, StoreError};
use rusqlite::{Connection, params};

use crate::story::*;

fn body_of_entry_2(conn: &Connection) -> Vec<u8> {
    let sql = "SELECT CAST(body AS BLOB) FROM entries WHERE seq = 2";
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Changes a byte of the body behind the store's back; twice is not at all.
fn flip_byte_of_entry_2(conn: &Connection, byte: usize) {
    let mut body = body_of_entry_2(conn);
    body[byte] ^= 0x41;
    conn.execute(
        "UPDATE entries SET body = iif(typeof(body) = 'text', CAST(?1 AS TEXT), ?1) WHERE seq = 2",
        [body],
    )
    .unwrap();
}

fn assert_corrupt(store: &Store, id: &str, at: u64) {
    match store.load(id) {
        Err(StoreError::Corrupt { session, seq, .. }) => {
            assert_eq!((session.as_str(), seq), (id, at));
        }
        other => panic!("not seen: {other:?}"),
    }
}

#[test]
fn any_changed_byte_of_a_body_is_seen() {
    for (text, stored) in [
        ("words 2".to_string(), "text"),
        ("words ".repeat(900), "blob"),
    ] {
        let (dir, mut store) = scratch();
        let mut head = talk(&mut store, 1);
        append(&mut store, &mut head, vec![said(&text), said("words 3")]);
        let conn = raw(dir.path());
        let sql = "SELECT typeof(body) FROM entries WHERE seq = 2";
        let found: String = conn.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(found, stored);
        for byte in 0..body_of_entry_2(&conn).len() {
            flip_byte_of_entry_2(&conn, byte);
            assert_corrupt(&store, head.session(), 2);
            assert!(store.search("words", Scope::All, Order::Newest, 9).is_ok());
            flip_byte_of_entry_2(&conn, byte);
        }
        store.load(head.session()).unwrap();
    }
}

#[test]
fn any_changed_column_is_seen() {
    for change in [
        "at_ms = at_ms + 1",
        "seq = seq + 5",
        "kind = 'noted'",
        "parent = 1",
        "checksum = x'00'",
        "body = ''",
    ] {
        let (dir, mut store) = scratch();
        let id = talk(&mut store, 3).session().to_string();
        let sql = format!("UPDATE entries SET {change} WHERE seq = 2");
        raw(dir.path()).execute(&sql, []).unwrap();
        match store.load(&id) {
            Err(StoreError::Corrupt { .. }) => {}
            other => panic!("{change}: {other:?}"),
        }
    }
}

/// So long that rows are checked while the next ones are read.
#[test]
fn a_long_session_is_given_in_order_up_to_what_is_damaged() {
    let (dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    let words: Vec<String> = (1..=700).map(|n| format!("words {n}")).collect();
    let entries = words.iter().map(|words| said(words)).collect();
    append(&mut store, &mut head, entries);
    let id = head.session();
    assert_eq!(said_texts(&store.load(id).unwrap().1), words);

    raw(dir.path())
        .execute("UPDATE entries SET body = '{}' WHERE seq = 650", [])
        .unwrap();
    assert_corrupt(&store, id, 650);
    let mut given = Vec::new();
    let read = store.load_each(id, |record| {
        given.push(record);
        Ok::<(), StoreError>(())
    });
    assert!(matches!(read, Err(StoreError::Corrupt { seq: 650, .. })));
    assert_eq!(said_texts(&given), words[..649]);

    // Who has enough is not given more.
    let enough = |_| Err(StoreError::Locked { pids: vec![7] });
    assert!(matches!(
        store.load_each(id, enough),
        Err(StoreError::Locked { .. })
    ));
}

#[test]
fn a_missing_row_is_seen_and_those_before_it_can_be_forked() {
    let (dir, mut store) = scratch();
    let id = talk(&mut store, 4).session().to_string();
    let conn = raw(dir.path());
    conn.pragma_update(None, "foreign_keys", false).unwrap();
    conn.execute("UPDATE entries SET body = '{}' WHERE seq = 3", [])
        .unwrap();
    assert_corrupt(&store, &id, 3);
    let fork = fork(&mut store, &id, 2, 9).unwrap();
    let (_, records) = store.load(fork.session()).unwrap();
    assert_eq!(said_texts(&records), ["words 1", "words 2"]);
    conn.execute("DELETE FROM entries WHERE seq = 2", [])
        .unwrap();
    assert_corrupt(&store, &id, 2);
}

#[test]
fn an_unknown_kind_is_refused() {
    let (dir, mut store) = scratch();
    let id = talk(&mut store, 2).session().to_string();
    let body = r#"{"kind":"teleported","to":"mars"}"#;
    let mut hasher = blake3::Hasher::new();
    let (parent, at_ms): (i64, i64) = raw(dir.path())
        .query_row("SELECT parent, at_ms FROM entries WHERE seq = 2", [], |r| {
            Ok((r.get(0)?, r.get(1)?))
        })
        .unwrap();
    for part in [
        &parent.to_le_bytes()[..],
        &2u64.to_le_bytes(),
        &at_ms.to_le_bytes(),
    ] {
        hasher.update(part);
    }
    let hash = hasher.update(body.as_bytes()).finalize();
    let before: Vec<u8> = raw(dir.path())
        .query_row("SELECT tip FROM entries WHERE seq = 1", [], |r| r.get(0))
        .unwrap();
    let tip = Tip::from_bytes(&before).unwrap();
    let tip = tip.and(2, at_ms, body.as_bytes());
    raw(dir.path())
        .execute(
            "UPDATE entries SET kind = 'teleported', body = ?1, checksum = ?2, tip = ?3 WHERE seq = 2",
            params![body, &hash.as_bytes()[..16], tip.as_bytes()],
        )
        .unwrap();
    let error = store.load(&id).unwrap_err();
    assert!(
        matches!(&error, StoreError::Unknown { seq: 2, kind, .. } if kind == "teleported"),
        "{error}"
    );
    assert!(error.hint().unwrap().contains("update"));
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let (dir, store) = scratch();
    drop(store);
    raw(dir.path())
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let error = Store::open(dir.path()).err().unwrap();
    assert!(
        matches!(error, StoreError::Newer { found: 99, .. }),
        "{error}"
    );
}

#[test]
fn a_blob_that_changed_is_not_given_out() {
    let (dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    let mut with_blob = batch(vec![said("look")]);
    with_blob.blobs = vec![BLOB.to_vec(), vec![7; 3]];
    store.append(&mut head, &with_blob).unwrap();
    let hash = rewake::store::blob_ref(BLOB).hash;
    assert_eq!(store.blob(&hash).unwrap().as_deref(), Some(BLOB));
    assert_eq!(store.blob(&"0".repeat(64)).unwrap(), None);
    raw(dir.path())
        .execute("UPDATE blobs SET bytes = 1 << 40", [])
        .unwrap();
    assert!(matches!(store.blob(&hash), Err(StoreError::Damaged { .. })));
}

/// Bytes changed anywhere in the file: whatever is said of it, nothing panics, and what is
/// loaded is what was recorded.
#[test]
fn a_damaged_file_never_lies() {
    let (dir, mut store) = scratch();
    let id = talk(&mut store, 30).session().to_string();
    let (_, recorded) = store.load(&id).unwrap();
    drop(store);
    raw(dir.path())
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    let sound = fs::read(database(dir.path())).unwrap();
    let mut refused = 0;
    for place in (0..sound.len()).step_by(331) {
        let mut bytes = sound.clone();
        bytes[place] ^= 0xff;
        fs::write(database(dir.path()), bytes).unwrap();
        let loaded = Store::open(dir.path()).and_then(|mut store| {
            let _ = store.search("words", Scope::All, Order::Best, 9);
            let _ = store.quick_check();
            store.load(&id)
        });
        match loaded {
            Ok((_, records)) => assert_eq!(records, recorded, "byte {place}"),
            Err(_) => refused += 1,
        }
        for log in ["rewake.db-wal", "rewake.db-shm"] {
            let _ = fs::remove_file(dir.path().join(log));
        }
    }
    assert!(refused > 0);
}

/// The leaves of the table, first to last.
fn leaves(conn: &Connection, table: &str) -> Vec<u32> {
    // Not the table's own statistics: that extension is not built in. The pages are read.
    let root: u32 = conn
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = ?1",
            [table],
            |r| r.get(0),
        )
        .unwrap();
    let bytes = fs::read(conn.path().unwrap()).unwrap();
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut leaves = Vec::new();
    let mut open = vec![root];
    while let Some(page) = open.pop() {
        let start = (page as usize - 1) * PAGE;
        match bytes[start] {
            // A leaf of a table, an inner page of one: the file format, 1.6.
            0x0d => leaves.push(page),
            0x05 => {
                let cells = u16::from_be_bytes([bytes[start + 3], bytes[start + 4]]) as usize;
                let children = (0..cells).map(|cell| {
                    let at = start + 12 + 2 * cell;
                    number(start + u16::from_be_bytes([bytes[at], bytes[at + 1]]) as usize)
                });
                let mut children: Vec<u32> = children.collect();
                children.push(number(start + 8));
                open.extend(children.into_iter().rev());
            }
            kind => panic!("page {page} is of kind {kind}"),
        }
    }
    leaves
}

const PAGE: usize = 4096;

/// The rows of a session, first to last.
fn rows(conn: &Connection, id: &str) -> Vec<i64> {
    let sql = "WITH RECURSIVE chain (id, parent) AS (
      SELECT e.id, e.parent FROM sessions s JOIN entries e ON e.id = s.head WHERE s.id = ?1
      UNION ALL SELECT e.id, e.parent FROM chain JOIN entries e ON e.id = chain.parent)
      SELECT id FROM chain ORDER BY id";
    let mut statement = conn.prepare(sql).unwrap();
    let rows = statement.query_map([id], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// All in the one file, which nobody has open.
fn checkpointed(dir: &std::path::Path) -> Vec<u8> {
    raw(dir)
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    fs::read(database(dir)).unwrap()
}

/// Two sessions that take turns, and a fork of the first: their entries share the pages.
#[test]
fn with_a_leaf_of_the_entries_gone_those_before_it_are_read_and_forked() {
    let (dir, mut store) = scratch();
    let (mut one, mut other) = (talk(&mut store, 1), talk(&mut store, 1));
    for n in 2..=150 {
        append(&mut store, &mut one, vec![said(&format!("words {n}"))]);
        append(&mut store, &mut other, vec![said(&format!("words {n}"))]);
    }
    let mut branch = fork(&mut store, one.session(), 100, 9).unwrap();
    for n in 102..=200 {
        append(&mut store, &mut branch, vec![said(&format!("words {n}"))]);
    }
    let ids: Vec<String> = [&one, &other, &branch]
        .map(|h| h.session().to_string())
        .into();
    let whole: Vec<_> = ids.iter().map(|id| store.load(id).unwrap().1).collect();
    drop(store);
    let sound = checkpointed(dir.path());
    let leaves = leaves(&raw(dir.path()), "entries");
    assert!(leaves.len() > 8, "{leaves:?}");
    let rows: Vec<Vec<i64>> = ids.iter().map(|id| rows(&raw(dir.path()), id)).collect();
    let mut ends = 0;
    for page in &leaves {
        let is_last = Some(page) == leaves.last();
        let mut bytes = sound.clone();
        let start = (*page as usize - 1) * PAGE;
        bytes[start..start + PAGE].fill(0);
        fs::write(database(dir.path()), bytes).unwrap();
        let mut store = Store::open(dir.path()).unwrap();
        let mut damaged = 0;
        for ((id, whole), rows) in ids.iter().zip(&whole).zip(&rows) {
            let looked_at = raw(dir.path());
            let can_be_read = |row: &&i64| {
                let sql = "SELECT seq FROM entries WHERE id = ?1";
                looked_at
                    .query_row(sql, [row], |row| row.get::<_, i64>(0))
                    .is_ok()
            };
            let good = rows.iter().take_while(can_be_read).count();
            let mut given = Vec::new();
            let read = store.load_each(id, |record| {
                given.push(record);
                Ok::<(), StoreError>(())
            });
            assert_eq!(given, whole[..good], "page {page}");
            let Err(error) = read else {
                assert_eq!(given.len(), whole.len());
                continue;
            };
            damaged += 1;
            let StoreError::Corrupt {
                session,
                seq,
                can_append,
                ..
            } = &error
            else {
                panic!("page {page}: {error}");
            };
            assert_eq!((session, *seq), (id, given.len() as u64), "page {page}");
            assert_eq!(*can_append, !is_last);
            // The entries behind the damage can be read, where it does not reach them.
            let last = whole.last().unwrap();
            match store.records(id, last.seq - 1..=last.seq) {
                Ok(end) => {
                    assert_eq!(end, whole[whole.len() - 2..], "page {page}");
                    ends += 1;
                }
                Err(StoreError::Corrupt { seq: found, .. }) => assert!(found >= *seq),
                Err(other) => panic!("page {page}: {other}"),
            }
            match seq.checked_sub(1) {
                Some(good) if !is_last => {
                    let fork = fork(&mut store, id, good, 10)
                        .unwrap_or_else(|e| panic!("page {page} of {leaves:?} at {good}: {e}"));
                    let (_, records) = store.load(fork.session()).unwrap();
                    assert_eq!(records[..given.len()], given, "page {page}");
                    assert_eq!(records.len(), given.len() + 1);
                }
                _ => assert!(!error.hint().unwrap().contains("fork"), "page {page}"),
            }
        }
        assert!(damaged > 0, "page {page} held no entry");
        drop(store);
        for log in ["rewake.db-wal", "rewake.db-shm"] {
            let _ = fs::remove_file(dir.path().join(log));
        }
    }
    assert!(ends > leaves.len(), "{ends}");
}
