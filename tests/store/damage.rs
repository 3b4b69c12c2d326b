//! Damage is named, never skipped and never a panic.

use std::fs;

use rewake::core::entry::Record;
use rewake::core::signal::Signal;
use rewake::journal::chain_hash::ChainHash;
use rewake::recovery::{Recovered, Repair, recover};
use rewake::store::{MemoryQuery, Order, Scope, SessionFilter, Store, StoreError};
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
            assert!(
                store
                    .index()
                    .search("words", Scope::All, Order::Newest, 9)
                    .is_ok()
            );
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
    let tip = ChainHash::from_bytes(&before).unwrap();
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
        let loaded = Store::open(dir.path()).and_then(|store| {
            let _ = store.index().search("words", Scope::All, Order::Best, 9);
            let _ = store.check().quick_check();
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

/// A session and its entries.
type Log = (String, Vec<Record>);

/// Sessions with something in each table, all in one file, and what was recorded in them.
fn full() -> (tempfile::TempDir, Vec<u8>, Vec<Log>) {
    let (dir, mut store) = scratch();
    let mut head = talk(&mut store, 1);
    let mut all = batch(all_kinds());
    all.blobs = vec![BLOB.to_vec()];
    store.append(&mut head, &all).unwrap();
    let mut branch = fork(&mut store, head.session(), 3, 9).unwrap();
    let more = vec![
        said(&"more ".repeat(3_000)),
        remembered("the vault is blue"),
    ];
    append(&mut store, &mut branch, more);
    store
        .inbox_mut()
        .set_input(head.session(), "not sent yet")
        .unwrap();
    store
        .inbox_mut()
        .queue(branch.session(), &message("wait"), &[], 1)
        .unwrap();
    let sent = store
        .inbox_mut()
        .signal(branch.session(), "cli", 1, |_| Signal::GoOn);
    sent.unwrap();
    store.models().learn_limit("a/b", 9_000).unwrap();
    while store.index().index_pending(100).unwrap() > 0 {}
    let logs = [&head, &branch].map(|head| {
        let id = head.session().to_string();
        let records = store.load(&id).unwrap().1;
        (id, records)
    });
    drop(store);
    let bytes = checkpointed(dir.path());
    (dir, bytes, logs.into())
}

/// What a session needs of the store: all of it works, or the error is given.
fn work(store: &mut Store, id: &str) -> Result<(), StoreError> {
    let (mut head, _) = store.load(id)?;
    store.inbox().drafts(id)?;
    store.inbox_mut().set_input(id, "words")?;
    let queued = store.inbox_mut().queue(id, &message("words"), &[], 1)?;
    let found = store.inbox().queued(id)?;
    assert_eq!(found.last().map(|found| found.id), Some(queued));
    let sent = store.inbox_mut().signal(id, "cli", 1, |_| Signal::GoOn)?;
    let found = store.inbox().signals(id)?;
    assert_eq!(found.last().map(|found| found.id), Some(sent));
    store.models().learnt("a/b")?;
    let mut all = batch(all_kinds());
    all.entries.push(remembered("the vault is red"));
    all.blobs = vec![vec![7; 9_000]];
    all.taken = Some(queued);
    all.signal = Some(sent);
    store.append(&mut head, &all)?;
    store.index().search("words", Scope::All, Order::Best, 9)?;
    store.index().memories(&sought("vault"))?;
    store.maintain()?;
    store.history().sessions(SessionFilter::default(), 9)?;
    Ok(())
}

fn sought(query: &str) -> MemoryQuery<'_> {
    MemoryQuery {
        query,
        scope: Scope::All,
        kinds: &["semantic", "episodic", "procedural"],
        now_ms: 9,
        limit: 9,
    }
}

/// The pages of a table, of its indexes and of what else a name begins with.
fn roots(conn: &Connection, names: &[&str]) -> Vec<u32> {
    let mut statement = conn
        .prepare("SELECT rootpage FROM sqlite_schema WHERE rootpage > 0 AND name = ?1")
        .unwrap();
    let root = |name: &&str| statement.query_row([name], |row| row.get(0)).unwrap();
    names.iter().map(root).collect()
}

/// A start rebuilds the database if every entry can be read, also without a journal.
fn repaired(dir: &std::path::Path) -> Option<Recovered> {
    let repair = Repair {
        from: &[],
        same_machine: true,
        only_whole: true,
        progress: &mut |_| {},
    };
    recover(dir, None, repair).unwrap()
}

/// Without a journal, only a page of entries, of sessions or of the schema can keep a session from
/// going on.
#[test]
fn sessions_survive_any_zeroed_page_without_entries() {
    let (dir, sound, logs) = full();
    let held: Vec<u32> = {
        let conn = raw(dir.path());
        let mut held = leaves(&conn, "entries");
        held.extend(leaves(&conn, "sessions"));
        held.extend(roots(&conn, &["entries", "sessions"]));
        held
    };
    let (mut whole, mut refused) = (0, 0);
    for page in 1..=u32::try_from(sound.len() / PAGE).unwrap() {
        let mut bytes = sound.clone();
        let start = (page as usize - 1) * PAGE;
        bytes[start..start + PAGE].fill(0);
        put(dir.path(), &bytes);
        if repaired(dir.path()).is_none() {
            refused += u32::from(!held.contains(&page));
            continue;
        }
        whole += 1;
        assert!(!held.contains(&page), "page {page}");
        let mut store = Store::open(dir.path()).unwrap();
        assert_eq!(store.check().quick_check().unwrap(), [""; 0], "page {page}");
        assert!(!store.is_damaged());
        for (id, records) in &logs {
            work(&mut store, id).unwrap();
            assert_eq!(store.load(id).unwrap().1[..records.len()], records[..]);
        }
    }
    // The first page and those of the schema.
    assert!((1..7).contains(&refused), "{refused}");
    assert!(whole > 15, "{whole}");
}

#[test]
fn damage_in_what_every_session_needs_is_noticed() {
    let (dir, sound, _) = full();
    let tables = [
        "drafts",
        "inbox",
        "signals",
        "sqlite_sequence",
        "model_limits",
        "meta",
        "indexed",
        "catalogue",
        "telemetry",
        "places",
        "sessions",
        "blobs",
        "trees",
        "contents",
        "packs",
        "tree_uses",
        "memories",
        "conversation_context",
        "entries",
        "sessions_by_workspace",
        "sqlite_autoindex_sessions_1",
        "sqlite_autoindex_blobs_1",
        "sqlite_autoindex_trees_1",
        "sqlite_autoindex_contents_1",
        "sqlite_autoindex_places_1",
    ];
    assert!(!Store::open(dir.path()).unwrap().is_damaged());
    let pages = roots(&raw(dir.path()), &tables);
    assert_eq!(pages.len(), tables.len());
    for page in pages {
        let mut bytes = sound.clone();
        let start = (page as usize - 1) * PAGE;
        bytes[start..start + PAGE].fill(0);
        put(dir.path(), &bytes);
        let store = Store::open(dir.path()).unwrap();
        assert!(store.is_damaged(), "page {page}");
    }
}

/// In place of the database that is there.
fn put(dir: &std::path::Path, bytes: &[u8]) {
    for log in ["rewake.db-wal", "rewake.db-shm"] {
        let _ = fs::remove_file(dir.join(log));
    }
    fs::write(database(dir), bytes).unwrap();
}

/// One page of many: what stands on the others is kept.
#[test]
fn readable_rows_of_a_damaged_table_are_kept() {
    let (dir, mut store) = scratch();
    let head = talk(&mut store, 1);
    let long = |n: u32| format!("{n} {}", "long ".repeat(300));
    for n in 0..12 {
        store
            .inbox_mut()
            .queue(head.session(), &message(&long(n)), &[], 1)
            .unwrap();
    }
    let last = store
        .inbox()
        .queued(head.session())
        .unwrap()
        .pop()
        .unwrap()
        .id;
    drop(store);
    let mut bytes = checkpointed(dir.path());
    let leaves = leaves(&raw(dir.path()), "inbox");
    assert!(leaves.len() > 3);
    let start = (leaves[1] as usize - 1) * PAGE;
    bytes[start..start + PAGE].fill(0);
    put(dir.path(), &bytes);
    repaired(dir.path()).unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    let left = store.inbox().queued(head.session()).unwrap();
    assert!((8..12).contains(&left.len()), "{}", left.len());
    assert_eq!(left[0].message.text, long(0));
    assert_eq!(left.last().map(|queued| queued.id), Some(last));
    // No number is used twice.
    let next = store
        .inbox_mut()
        .queue(head.session(), &message("next"), &[], 1)
        .unwrap();
    assert!(left.iter().all(|queued| queued.id != next));
}

/// The entries know what was to be remembered.
#[test]
fn memories_come_back_from_their_entries() {
    let (dir, mut store) = scratch();
    let mut head = talk(&mut store, 1);
    append(&mut store, &mut head, vec![remembered("the vault is blue")]);
    drop(store);
    let mut bytes = checkpointed(dir.path());
    let roots = roots(&raw(dir.path()), &["memories"]);
    let start = (roots[0] as usize - 1) * PAGE;
    bytes[start..start + PAGE].fill(0);
    put(dir.path(), &bytes);
    repaired(dir.path()).unwrap();
    let mut store = Store::open(dir.path()).unwrap();
    let (mut head, _) = store.load(head.session()).unwrap();
    append(&mut store, &mut head, vec![remembered("the vault is red")]);
    let mut found = memories(&store, HERE, "vault");
    found.sort();
    assert_eq!(found, ["the vault is blue", "the vault is red"]);
}
