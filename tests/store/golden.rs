//! A database of the schema is opened and says what it said. Those of other numbers are refused.
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
use rewake::recovery::{Repair, recover};
use rewake::store::{
    Batch, CachedSource, Catalogued, Copied, Draft, Message, NewSession, ReplicaWriter, Store,
    StoreError, Telemetry, TelemetryCursor, blob_ref, cache_sources, id_of,
};
use rusqlite::Connection;

use crate::story::*;

const OPENED_MS: i64 = 1_000;
const APPENDED_MS: i64 = 2_000;
const FORKED_MS: i64 = 3_000;
const TRASHED_MS: i64 = 4_000;
const ELSEWHERE: &str = "/elsewhere";

/// The schema of this version: its file is what [`write_golden`] makes.
const NEWEST: i64 = 10;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/store-v{NEWEST}.sql"))
}

/// A data folder with the golden database, whose schema has this number.
fn numbered(schema: i64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let sql = std::fs::read_to_string(golden()).unwrap();
    let conn = raw(dir.path());
    conn.execute_batch(&sql).unwrap();
    conn.pragma_update(None, "user_version", schema).unwrap();
    dir
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

/// Every kind of signal: what waited when an older version was left is obeyed by a newer one.
fn all_signals() -> Vec<Signal> {
    let call = CallId { reply: 2, index: 1 };
    let decide = |verdict| Signal::Decide {
        call,
        asked: 4,
        verdict,
        rule: None,
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

fn check(store: &mut Store) {
    let fork = store.history().newest(Some(HERE)).unwrap().unwrap();
    let origin = fork.forked_from.clone().unwrap();
    assert_eq!(origin.seq, 2);
    let (head, found) = store.load(&origin.session).unwrap();
    let mut expected = records(0, OPENED_MS, vec![opened()]);
    expected.extend(records(1, APPENDED_MS, all_kinds()));
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
    assert_eq!(known, Some(catalogued()));
    let sent = Telemetry::of(store).cursor(&origin.session).unwrap();
    assert_eq!(sent, Some(cursor()));
    check_copy(store);
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
fn a_database_of_the_schema_says_what_it_said() {
    let dir = numbered(NEWEST);
    let mut store = Store::open(dir.path()).unwrap();
    check(&mut store);
    assert_eq!(store.check().quick_check().unwrap(), Vec::<String>::new());
    assert_eq!(
        memories(&store, ELSEWHERE, "docker"),
        ["the tests need docker"]
    );
    let trash = store.history().listing(ELSEWHERE, true).unwrap();
    let titles: Vec<_> = trash.iter().map(|l| l.title.as_deref()).collect();
    assert_eq!(titles, [Some("thrown away")]);
    let newest = store.history().newest(Some(HERE)).unwrap().unwrap();
    assert!(newest.bytes > 0);
    let origin = newest.forked_from.unwrap().session;
    let signals = store.inbox().signals(&origin).unwrap().into_iter();
    let signals: Vec<_> = signals
        .map(|sent| (sent.origin, sent.at_ms, sent.signal.unwrap()))
        .collect();
    let sent = all_signals().into_iter();
    let sent: Vec<_> = sent.map(|s| ("cli".to_string(), 2_600, s)).collect();
    assert_eq!(signals, sent);
}

/// Formats begin with 0.1.0. Neither a start nor a recovery changes what was before.
#[test]
fn a_database_of_another_schema_is_refused_untouched() {
    for schema in (1..NEWEST).chain([NEWEST + 1]) {
        let dir = numbered(schema);
        let before = std::fs::read(database(dir.path())).unwrap();
        let refused = |error: StoreError| match error {
            StoreError::Older { found } => assert_eq!(found, schema),
            StoreError::Newer { found, known } => assert_eq!((found, known), (schema, NEWEST)),
            other => panic!("{other:?}"),
        };
        refused(Store::open(dir.path()).map(drop).unwrap_err());
        refused(Store::open_current(dir.path()).map(drop).unwrap_err());
        refused(Store::open_read_only(dir.path()).map(drop).unwrap_err());
        let repair = Repair {
            from: &[],
            same_machine: false,
            only_whole: false,
            progress: &mut |_| {},
        };
        refused(recover(dir.path(), None, repair).map(drop).unwrap_err());
        assert_eq!(std::fs::read(database(dir.path())).unwrap(), before);
    }
}

#[test]
fn a_database_made_now_says_the_same() {
    let (dir, mut store) = scratch();
    write_session(&mut store);
    drop(store);
    check(&mut Store::open(dir.path()).unwrap());
}

#[test]
#[ignore = "makes the golden file; run once per schema"]
fn write_golden() {
    let (dir, mut store) = scratch();
    write_session(&mut store);
    drop(store);
    std::fs::write(golden(), dump(&raw(dir.path()))).unwrap();
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
