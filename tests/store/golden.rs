//! Databases of every released schema are opened and say what they said.
//!
//! `golden/store-vN.sql` was made by
//! `cargo test --test store golden::write_golden -- --ignored`
//! with schema N. It is never made again: a new schema gets a new file.

use std::path::{Path, PathBuf};

use rewake::core::choice::Effort;
use rewake::core::entry::{
    Block, CallId, Choice, ImportSource, Mode, StopReason, Usage, Verdict, Via,
};
use rewake::core::entry::{Entry, ForkPoint, Record};
use rewake::core::form::FormAnswer;
use rewake::core::signal::Signal;
use rewake::store::{
    Batch, CachedSource, Catalogued, Copied, Draft, Message, NewSession, ReplicaWriter, Store,
    Telemetry, TelemetryCursor, blob_ref, cache_sources, id_of,
};
use rusqlite::Connection;

use crate::story::*;

const OPENED_MS: i64 = 1_000;
const APPENDED_MS: i64 = 2_000;
const FORKED_MS: i64 = 3_000;
const TRASHED_MS: i64 = 4_000;
const ELSEWHERE: &str = "/elsewhere";

/// The schema of this version: its file is what [`write_golden`] makes.
const NEWEST: u32 = 9;

fn golden(schema: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/store-v{schema}.sql"))
}

fn opened_from(schema: u32) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let sql = std::fs::read_to_string(golden(schema)).unwrap();
    raw(dir.path()).execute_batch(&sql).unwrap();
    let store = Store::open(dir.path()).unwrap();
    (dir, store)
}

fn write_session(store: &mut Store) {
    let mut head = session(store, HERE);
    let story = Batch {
        at_ms: APPENDED_MS,
        entries: all_kinds(),
        blobs: vec![BLOB.to_vec()],
        unfinished: true,
        ..Batch::default()
    };
    store.append(&mut head, &story).unwrap();
    store
        .inbox_mut()
        .append_draft(head.session(), "half an ")
        .unwrap();
    store
        .inbox_mut()
        .append_draft(head.session(), "answer")
        .unwrap();
    store
        .inbox_mut()
        .set_input(head.session(), "unsent")
        .unwrap();
    let message = Message {
        text: "and then".into(),
        images: vec![],
        via: Via::Queue,
        command: None,
        origin: None,
    };
    store
        .inbox_mut()
        .queue(head.session(), &message, &[], 2_500)
        .unwrap();
    for signal in all_signals() {
        let session = head.session();
        store
            .inbox_mut()
            .signal(session, "cli", 2_600, |_| signal)
            .unwrap();
    }
    store.models().learn_limit("ollama/small", 4_096).unwrap();
    store
        .catalogue()
        .store_catalogued("files", "a hash", &catalogued())
        .unwrap();
    Telemetry::of(store)
        .set_cursor(head.session(), &cursor())
        .unwrap();
    let mut elsewhere = session(store, ELSEWHERE);
    append(
        store,
        &mut elsewhere,
        vec![remembered("the tests need docker")],
    );
    fork(store, head.session(), 2, FORKED_MS).unwrap();
    let mut gone = session(store, ELSEWHERE);
    append(store, &mut gone, vec![said("thrown away")]);
    store.trash(gone.session(), TRASHED_MS).unwrap();
    write_copy(store);
}

pub fn copied_id() -> String {
    id_of(5_000, [9; 10])
}

/// A session of another agent, and a fork of it.
fn copied() -> Vec<Entry> {
    let mut opened = opened();
    if let Entry::Opened {
        version,
        model,
        imported,
        ..
    } = &mut opened
    {
        *version = "import/1".into();
        *model = "claude".into();
        *imported = Some(Box::new(ImportSource {
            agent: "claude".into(),
            agent_version: Some("2.1.197".into()),
            id: "of claude".into(),
        }));
    }
    let usage = Usage {
        input: 7,
        output: 2,
        ..Usage::default()
    };
    let replied = Entry::Replied {
        blocks: vec![Block::call("bash", "{\"command\":\"ls\"}")],
        usage: Usage::default(),
        stop: StopReason::ToolUse,
        model: "claude/opus".into(),
        took_ms: 0,
        asked_bytes: 0,
        source_usage: Some(usage),
    };
    vec![opened, said("of another agent"), replied]
}

pub fn write_copy(store: &mut Store) {
    let new = NewSession {
        id: copied_id(),
        workspace: "/copied".into(),
        folder: "/copied".into(),
    };
    let mut writer = ReplicaWriter::new(store, new, 5_000).unwrap();
    for (at_ms, entry) in (5_000..).zip(copied()) {
        assert!(writer.push(at_ms, entry, vec![]).unwrap());
    }
    assert_eq!(writer.finish().unwrap(), Copied::Appended(3));
    fork(store, &copied_id(), 2, 6_000).unwrap();
    let source = CachedSource {
        path: "/source".into(),
        id: String::new(),
        bytes: 10,
        modified: 11,
        about: "{}".into(),
        session: Some(copied_id()),
    };
    cache_sources(store, &[source]).unwrap();
}

fn check_copy(store: &Store) {
    let (_, found) = store.load(&copied_id()).unwrap();
    let expected = (0..).zip(copied()).map(|(seq, entry)| Record {
        seq,
        at_ms: 5_000 + seq as i64,
        entry,
    });
    assert_eq!(found, expected.collect::<Vec<_>>());
    let info = store.history().find(&copied_id()).unwrap();
    assert_eq!(info.replica.as_deref(), Some("claude"));
    assert_eq!(info.usage, Usage::default());
    let fork = store.history().newest(Some("/copied")).unwrap().unwrap();
    assert_eq!(fork.replica, None);
    let (_, found) = store.load(&fork.id).unwrap();
    let Some(Entry::Forked { from_replica, .. }) = found.last().map(|r| &r.entry) else {
        panic!("{found:?}");
    };
    assert_eq!(
        from_replica.as_ref().unwrap().agent.as_deref(),
        Some("claude")
    );
    let cached = store.history().cached_sources().unwrap();
    assert_eq!(cached.len(), 1);
    assert_eq!((cached[0].bytes, cached[0].modified), (10, 11));
    assert_eq!(cached[0].session, Some(copied_id()));
}

/// What is on the disk is read for ever: as it was written, to the letter.
#[test]
fn a_question_of_a_server_and_its_answer_say_what_they_said() {
    let golden = include_str!("../golden/server-asks.jsonl");
    let is_of_it = |e: &&Entry| {
        matches!(
            e,
            Entry::Answered { .. } | Entry::Asked { form: Some(_), .. }
        )
    };
    let kinds = all_kinds();
    let written: Vec<String> = kinds
        .iter()
        .filter(is_of_it)
        .map(|entry| serde_json::to_string(entry).unwrap())
        .collect();
    assert_eq!(written, golden.lines().collect::<Vec<_>>());
    for line in golden.lines() {
        let read: Entry = serde_json::from_str(line).unwrap();
        assert!(kinds.contains(&read), "{line}");
    }
    let sent: Signal = serde_json::from_str(
        r#"{"signal":"answer","call":{"reply":2,"index":1},"asked":4,"answer":{"answer":"decline"}}"#,
    )
    .unwrap();
    assert!(all_signals().contains(&sent));
}

fn cursor() -> TelemetryCursor {
    TelemetryCursor {
        seq: 3,
        turn: 1,
        trace: [7; 16],
        parent: Some([8; 8]),
    }
}

fn catalogued() -> Catalogued {
    Catalogued {
        at_ms: 2_700,
        body: "{}".into(),
    }
}

/// In place of a schema: what this version writes.
const MADE_NOW: u32 = u32::MAX;

/// Every kind of signal: what waited when an older version was left is obeyed by a newer one.
fn all_signals() -> Vec<Signal> {
    let call = CallId { reply: 2, index: 1 };
    let decide = |verdict| Signal::Decide {
        call,
        asked: 4,
        verdict,
    };
    vec![
        Signal::Stop { seen: 7 },
        Signal::Pause { seen: 7 },
        Signal::GoOn,
        decide(Verdict::Allow),
        decide(Verdict::Deny {
            reason: "no".into(),
        }),
        Signal::Choose(Choice {
            model: Some("ollama/small".into()),
            mode: Some(Mode::Plan),
            effort: Some(Effort::High),
            temperature: Some(0.5),
            ..Choice::default()
        }),
        Signal::Name {
            title: "The parser".into(),
        },
        Signal::Compact,
        Signal::Leave { seen: 7 },
        Signal::Answer {
            call,
            asked: 4,
            answer: FormAnswer::Decline,
        },
        Signal::Limit {
            turns: Some(3),
            usd: Some(1.5),
            tokens: None,
        },
    ]
}

fn records(first_seq: u64, at_ms: i64, entries: Vec<Entry>) -> Vec<Record> {
    (first_seq..)
        .zip(entries)
        .map(|(seq, entry)| Record { seq, at_ms, entry })
        .collect()
}

/// What a session of this schema's file says: a kind that is newer than the file is not in it.
fn kinds_of(schema: u32) -> Vec<Entry> {
    let mut kinds = all_kinds();
    kinds.retain(|entry| schema >= 4 || !matches!(entry, Entry::Checked { .. }));
    let is_of_6 = |e: &Entry| matches!(e.kind(), "asked" | "paused" | "lifted");
    kinds.retain(|entry| schema >= 6 || !is_of_6(entry));
    // They came without a change of the tables: the file of schema 7 has none.
    let is_newer = |e: &Entry| {
        matches!(
            e,
            Entry::Answered { .. } | Entry::Asked { form: Some(_), .. }
        )
    };
    kinds.retain(|entry| schema >= 8 || !is_newer(entry));
    kinds
}

fn check(store: &mut Store, schema: u32) {
    let fork = store.history().newest(Some(HERE)).unwrap().unwrap();
    let origin = fork.forked_from.clone().unwrap();
    assert_eq!(origin.seq, 2);
    let (head, found) = store.load(&origin.session).unwrap();
    let mut expected = records(0, OPENED_MS, vec![opened()]);
    expected.extend(records(1, APPENDED_MS, kinds_of(schema)));
    assert_eq!(found, expected);
    assert_eq!(head.seq() + 1, expected.len() as u64);

    let (_, found) = store.load(&fork.id).unwrap();
    expected.truncate(3);
    let from = ForkPoint {
        session: origin.session.clone(),
        seq: 2,
    };
    expected.extend(records(
        3,
        FORKED_MS,
        vec![Entry::Forked {
            from,
            folder: None,
            from_replica: None,
        }],
    ));
    assert_eq!(found, expected);

    assert_eq!(store.blob(&blob_ref(BLOB).hash).unwrap().unwrap(), BLOB);
    let drafts = store.inbox().drafts(&origin.session).unwrap();
    assert_eq!(drafts.stream.as_deref(), Some("half an answer"));
    assert_eq!(drafts.input.as_deref(), Some("unsent"));
    let queued = store
        .inbox()
        .oldest_queued(&origin.session)
        .unwrap()
        .unwrap();
    assert_eq!(queued.message.text, "and then");
    let learnt = store.models().learnt("ollama/small").unwrap();
    assert_eq!(learnt.context_tokens, Some(4_096));
    let known = store.catalogue().catalogued("files", "a hash").unwrap();
    assert_eq!(known, (schema >= 7).then(catalogued));
    let sent = Telemetry::of(store).cursor(&origin.session).unwrap();
    assert_eq!(sent, (schema >= 8).then(cursor));
    if schema >= 9 {
        check_copy(store);
    }
    let info = store.history().find(&origin.session).unwrap();
    assert_eq!(info.title.as_deref(), Some("The parser"));
    assert_eq!(info.model.as_deref(), Some("ollama/small"));
    assert!(info.unfinished);
    let conversation = store.conversation(&origin.session).unwrap().unwrap();
    assert_eq!(conversation.summary, "so");
    assert_eq!(conversation.message_count, 4);
    assert_eq!(conversation.last_summarised_at_ms, APPENDED_MS);
    store
        .inbox_mut()
        .clear_draft(&origin.session, Draft::Stream)
        .unwrap();
}

#[test]
fn a_database_of_schema_1_says_what_it_said() {
    let (_dir, mut store) = opened_from(1);
    check(&mut store, 1);
    assert_eq!(store.check().quick_check().unwrap(), Vec::<String>::new());
    assert_eq!(memories(&store, ELSEWHERE, "docker"), Vec::<String>::new());
    // What is new in schema 2 works in it.
    let mut head = session(&mut store, ELSEWHERE);
    append(&mut store, &mut head, vec![remembered("docker is gone")]);
    assert_eq!(memories(&store, ELSEWHERE, "docker"), ["docker is gone"]);
}

#[test]
fn a_database_of_schema_2_says_what_it_said() {
    let (_dir, mut store) = opened_from(2);
    check(&mut store, 2);
    assert_eq!(store.check().quick_check().unwrap(), Vec::<String>::new());
    assert_eq!(
        memories(&store, ELSEWHERE, "docker"),
        ["the tests need docker"]
    );
}

#[test]
fn a_database_of_schema_3_says_what_it_said() {
    let (_dir, mut store) = opened_from(3);
    check(&mut store, 3);
    assert_eq!(store.check().quick_check().unwrap(), Vec::<String>::new());
    let trash = store.history().listing(ELSEWHERE, true).unwrap();
    let titles: Vec<_> = trash.iter().map(|l| l.title.as_deref()).collect();
    assert_eq!(titles, [Some("thrown away")]);
    let newest = store.history().newest(Some(HERE)).unwrap().unwrap();
    assert!(newest.bytes > 0);
}

/// Its entries have tips already; those of the schemas before get them.
#[test]
fn a_database_of_schema_4_says_what_it_said() {
    let (dir, mut store) = opened_from(4);
    check(&mut store, 4);
    assert_eq!(store.check().quick_check().unwrap(), Vec::<String>::new());
    assert_eq!(store.check().without_tip().unwrap(), 0);
    assert!(dir.path().join("rewake.db.schema-4").exists());
}

/// The session from which the newest one was forked.
fn origin_of_newest(store: &Store) -> String {
    let newest = store.history().newest(Some(HERE)).unwrap().unwrap();
    newest.forked_from.unwrap().session
}

#[test]
fn a_database_of_schema_5_says_what_it_said() {
    let (dir, mut store) = opened_from(5);
    check(&mut store, 5);
    assert_eq!(store.check().quick_check().unwrap(), Vec::<String>::new());
    assert!(dir.path().join("rewake.db.schema-5").exists());
    // What was not counted then is not known.
    let info = store.history().find(&origin_of_newest(&store)).unwrap();
    assert_eq!(info.usage.billed_nanos, None);
}

#[test]
fn a_database_of_schema_6_says_what_it_said() {
    let (dir, mut store) = opened_from(6);
    check(&mut store, 6);
    assert_eq!(store.check().quick_check().unwrap(), Vec::<String>::new());
    assert!(dir.path().join("rewake.db.schema-6").exists());
    let signals = store.inbox().signals(&origin_of_newest(&store)).unwrap();
    let signals: Vec<_> = signals
        .into_iter()
        .map(|sent| (sent.origin, sent.at_ms, sent.signal.unwrap()))
        .collect();
    let of_6 = |signal: &Signal| !matches!(signal, Signal::Answer { .. });
    let sent = all_signals().into_iter().filter(of_6);
    let sent: Vec<_> = sent.map(|s| ("cli".to_string(), 2_600, s)).collect();
    assert_eq!(signals, sent);
}

#[test]
fn a_database_of_schema_7_says_what_it_said() {
    let (dir, mut store) = opened_from(7);
    check(&mut store, 7);
    assert_eq!(store.check().quick_check().unwrap(), Vec::<String>::new());
    assert!(dir.path().join("rewake.db.schema-7").exists());
}

#[test]
fn a_database_of_schema_8_says_what_it_said() {
    let (dir, mut store) = opened_from(8);
    check(&mut store, 8);
    assert_eq!(store.check().quick_check().unwrap(), Vec::<String>::new());
    assert!(dir.path().join("rewake.db.schema-8").exists());
}

#[test]
fn a_database_of_schema_9_says_what_it_said() {
    let (dir, mut store) = opened_from(9);
    check(&mut store, 9);
    assert_eq!(store.check().quick_check().unwrap(), Vec::<String>::new());
    assert!(!dir.path().join("rewake.db.schema-9").exists());
}

#[test]
fn older_databases_are_copied_and_then_protected() {
    for schema in 1..NEWEST {
        let (dir, mut store) = opened_from(schema);
        let copy = dir.path().join(format!("rewake.db.schema-{schema}"));
        let version = |path: &Path| -> i64 {
            let conn = Connection::open(path).unwrap();
            conn.pragma_query_value(None, "user_version", |row| row.get(0))
                .unwrap()
        };
        assert_eq!(version(&copy), i64::from(schema));
        assert_eq!(version(&database(dir.path())), i64::from(NEWEST));
        assert_eq!(store.check().without_tip().unwrap() > 20, schema < 4);
        check(&mut store, schema);
        while store.maintain().unwrap() {}
        assert_eq!(store.check().without_tip().unwrap(), 0);
        check_again(&store);
    }
}

fn check_again(store: &Store) {
    let fork = store.history().newest(Some(HERE)).unwrap().unwrap();
    store.load(&fork.id).unwrap();
    store.load(&fork.forked_from.unwrap().session).unwrap();
}

#[test]
fn a_database_made_now_says_the_same() {
    let (dir, mut store) = scratch();
    write_session(&mut store);
    drop(store);
    check(&mut Store::open(dir.path()).unwrap(), MADE_NOW);
}

#[test]
#[ignore = "makes the golden file; run once per schema"]
fn write_golden() {
    let (dir, mut store) = scratch();
    write_session(&mut store);
    drop(store);
    std::fs::write(golden(NEWEST), dump(&raw(dir.path()))).unwrap();
}

/// The database as SQL that makes it again. The search indexes hold nothing of their own.
fn dump(conn: &Connection) -> String {
    let mut lines = vec!["BEGIN;".to_string()];
    let schema = rows(
        conn,
        "SELECT CASE type WHEN 'table' THEN name END, sql FROM sqlite_schema
         WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%' AND name NOT LIKE '%\\_index\\_%' ESCAPE '\\'
         ORDER BY rowid",
    );
    for (_, sql) in &schema {
        lines.push(format!("{};", sql.as_ref().unwrap()));
    }
    lines.push("PRAGMA defer_foreign_keys = 1;".to_string());
    let tables = schema.iter().filter_map(|(name, _)| name.as_ref());
    for table in tables.filter(|t| !t.ends_with("_index")) {
        let columns = rows(
            conn,
            &format!("SELECT name, '' FROM pragma_table_info('{table}')"),
        );
        let quoted: Vec<String> = columns
            .iter()
            .map(|(name, _)| format!("quote({})", name.as_ref().unwrap()))
            .collect();
        let select = format!("SELECT {}, '' FROM {table}", quoted.join(" || ', ' || "));
        for (values, _) in rows(conn, &select) {
            lines.push(format!("INSERT INTO {table} VALUES ({});", values.unwrap()));
        }
    }
    lines.push("INSERT INTO memory_index (memory_index) VALUES ('rebuild');".to_string());
    let version: i64 = conn
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    lines.push(format!("PRAGMA user_version = {version};\nCOMMIT;\n"));
    lines.join("\n")
}

fn rows(conn: &Connection, sql: &str) -> Vec<(Option<String>, Option<String>)> {
    let mut statement = conn.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.unwrap().map(Result::unwrap).collect()
}
