//! Bundles: what one store exports another imports, and nothing else is let in.

use std::io::Read;
use std::path::Path;

use proptest::prelude::*;
use rewake::bundle::{Bundle, BundleError, Exporting, Files, Import, Importer, InputFile};
use rewake::core::budget::Budget;
use rewake::core::entry::*;
use rewake::core::prompt::{KeptMessages, request};
use rewake::core::state::State;
use rewake::journal::chain_hash::ChainHash;
use rewake::store::{Batch, ExportView, NewSession, Store, blob_ref, new_id};
use rewake::tools::describe;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::scene::Scene;
use crate::story::*;

/// Number of bit flips. `REWAKE_BUNDLE_FLIPS` sets another one.
const FLIPS: u64 = 10_000;

fn call(reply: u64) -> CallId {
    CallId { reply, index: 0 }
}

fn replied(name: &str, arguments: &str) -> Entry {
    let has_call = !name.is_empty();
    Entry::Replied {
        blocks: match has_call {
            true => vec![Block::call(name, arguments)],
            false => vec![Block::text("done")],
        },
        usage: Usage::default(),
        stop: match has_call {
            true => StopReason::ToolUse,
            false => StopReason::EndTurn,
        },
        model: "anthropic/large".into(),
        took_ms: 1,
        asked_bytes: 0,
        source_usage: None,
    }
}

fn started(reply: u64) -> Entry {
    Entry::Started {
        call: call(reply),
        guard: Guard::Supervised {
            run: "run-1".into(),
            boot: "b".into(),
            background: false,
        },
        access: None,
    }
}

fn finished(reply: u64, fact: Option<Fact>) -> Entry {
    Entry::Finished {
        call: call(reply),
        outcome: Outcome::Done {
            output: Output {
                text: "line".into(),
                blob: Some(blob_ref(BLOB)),
                images: vec![],
            },
        },
        fact,
        tree: None,
    }
}

fn memory() -> Option<Fact> {
    let Entry::Finished { fact, .. } = remembered("docker is needed") else {
        return None;
    };
    fact
}

/// The sessions of a store: one with a memory, a blob, a mode and an open call, a fork of it, a fork
/// of that one from before its own entries and one from after them, and a subagent.
struct Told {
    first: String,
    fork: String,
    early: String,
    late: String,
    child: String,
}

fn tell(store: &mut Store) -> Told {
    let mut head = session(store, HERE);
    let mode = Entry::Chose(Choice {
        mode: Some(Mode::BypassPermissions),
        limits: Some(RunLimits {
            answers: Some(3),
            ..RunLimits::default()
        }),
        system_prompt: Some("obey the bundle".into()),
        folders: Some(vec!["/".into()]),
        ..Choice::default()
    });
    append(store, &mut head, vec![said("please work"), mode]);
    append(
        store,
        &mut head,
        vec![replied("bash", r#"{"command":"true"}"#), started(3)],
    );
    let mut with_blob = batch(vec![finished(3, memory())]);
    with_blob.blobs = vec![BLOB.to_vec()];
    store.append(&mut head, &with_blob).unwrap();
    append(store, &mut head, vec![replied("", ""), said("and write")]);
    let open = vec![
        replied("write", r#"{"path":"made","content":"x"}"#),
        Entry::Started {
            call: call(8),
            guard: Guard::Checked {
                path: "made".into(),
                before: None,
                after: "ab".into(),
            },
            access: None,
        },
    ];
    append(store, &mut head, open);
    let first = head.session().to_string();
    let mut forked = fork(store, &first, 6, 3_000).unwrap();
    append(store, &mut forked, vec![said("in the fork")]);
    let fork_id = forked.session().to_string();
    let early = fork(store, &fork_id, 3, 4_000).unwrap();
    let mut late = fork(store, &fork_id, 8, 4_000).unwrap();
    append(store, &mut late, vec![said("later")]);
    let new = NewSession {
        id: new_id(),
        workspace: HERE.into(),
        folder: HERE.into(),
    };
    let assigned = Entry::Assigned(Assignment {
        parent: first.clone(),
        call: call(8),
        agent: None,
        instructions: String::new(),
        tools: None,
        rules: vec![],
        branch: None,
    });
    let entries = [opened(), assigned, said("look around")];
    store.create_child(&new, &first, 2_000, &entries).unwrap();
    Told {
        first,
        fork: fork_id,
        early: early.session().to_string(),
        late: late.session().to_string(),
        child: new.id,
    }
}

fn exported(store: &Store, named: &[&String]) -> Vec<u8> {
    let view = ExportView::of(store).unwrap();
    let named: Vec<String> = named.iter().map(|id| (*id).clone()).collect();
    let exporting = Exporting::new(&view, &named, Files::All, "far".into(), 5_000).unwrap();
    exporting.write(Vec::new()).unwrap()
}

fn checked_with(bytes: &[u8], partial: bool) -> Result<Bundle, BundleError> {
    let input = InputFile::copy(bytes, &std::env::temp_dir())?;
    Bundle::check(input, describe, partial)
}

fn checked(bytes: &[u8]) -> Result<Bundle, BundleError> {
    checked_with(bytes, false)
}

fn import_as(
    store: &mut Store,
    data: &Path,
    bundle: &Bundle,
    new_id: bool,
) -> Result<Vec<Import>, BundleError> {
    let mut importer = Importer {
        store,
        data_dir: data,
        folder: None,
        workspace_of: &|folder| folder.to_string_lossy().into_owned(),
        new_id,
        max_file_bytes: 1 << 30,
        now_ms: 9_000,
    };
    importer.import(bundle)
}

fn import(store: &mut Store, data: &Path, bytes: &[u8]) -> Vec<Import> {
    import_as(store, data, &checked(bytes).unwrap(), false).unwrap()
}

/// The rows of a session's own entries, byte for byte.
fn rows(data: &Path, session: &str) -> Vec<(i64, i64, Vec<u8>)> {
    let conn = raw(data);
    let mut read = conn
        .prepare(
            "SELECT seq, at_ms, tip FROM entries e JOIN sessions s ON s.key = e.session
             WHERE s.id = ?1 ORDER BY seq",
        )
        .unwrap();
    let rows = read.query_map([session], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

fn count_of(data: &Path, what: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {what}");
    raw(data).query_row(&sql, [], |row| row.get(0)).unwrap()
}

/// The lines of a bundle.
pub fn lines(bytes: &[u8]) -> Vec<String> {
    let mut text = String::new();
    let mut decoder = zstd::Decoder::new(&bytes[..bytes.len() - 40]).unwrap();
    decoder.read_to_string(&mut text).unwrap();
    text.lines().map(String::from).collect()
}

/// A bundle of these lines, in frames of this size, with the hash that belongs to it.
fn made_of(lines: &[String], frame: usize) -> Vec<u8> {
    let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
    let mut compressor = zstd::bulk::Compressor::new(1).unwrap();
    compressor
        .set_parameter(zstd::zstd_safe::CParameter::ChecksumFlag(true))
        .unwrap();
    let frames = text.as_bytes().chunks(frame);
    sealed(
        frames
            .flat_map(|part| compressor.compress(part).unwrap())
            .collect(),
    )
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let hash = blake3::hash(&bytes);
    bytes.extend([0x50, 0x2a, 0x4d, 0x18, 32, 0, 0, 0]);
    bytes.extend(hash.as_bytes());
    bytes
}

/// Changes one line of a bundle by its JSON. The tips of the entries, and the numbers in the first
/// and the last line, are made right again.
fn changed(bytes: &[u8], at: usize, change: impl Fn(&mut Value)) -> Vec<u8> {
    let mut lines = lines(bytes);
    let mut value: Value = serde_json::from_str(&lines[at]).unwrap();
    change(&mut value);
    // The first key tells the kind of a line.
    let first = ["bundle", "seq", "blob", "rewake"]
        .into_iter()
        .find(|key| value.get(key).is_some());
    let key = first.unwrap();
    let rest = value.as_object_mut().unwrap();
    let head = rest.remove(key).unwrap();
    let rest = serde_json::to_string(rest).unwrap();
    lines[at] = format!("{{{key:?}:{head},{}", &rest[1..]);
    relinked(lines)
}

pub fn relinked(mut lines: Vec<String>) -> Vec<u8> {
    let mut tip = ChainHash::of_nothing();
    for line in &mut lines {
        if line.starts_with("{\"rewake\"") {
            let header: Value = serde_json::from_str(line).unwrap();
            tip = serde_json::from_value(header["tip"].clone()).unwrap();
        }
        if line.starts_with("{\"seq\"") {
            let known: rewake::journal::line::EntryLine = match serde_json::from_str(line) {
                Ok(known) => known,
                Err(_) => continue,
            };
            tip = tip.and(known.seq, known.at_ms, known.entry.get().as_bytes());
            *line =
                serde_json::to_string(&rewake::journal::line::EntryLine { tip, ..known }).unwrap();
        }
    }
    let mut first: Value = serde_json::from_str(&lines[0]).unwrap();
    let inner = &lines[1..lines.len() - 1];
    first["lines"] = json!(inner.len());
    first["bytes"] = json!(inner.iter().map(|line| line.len() + 1).sum::<usize>());
    if let Some(listed) = first["sessions"].as_array_mut()
        && listed.len() == 1
    {
        listed[0]["tip"] = serde_json::to_value(tip).unwrap();
    }
    lines[0] = first.to_string();
    made_of(&lines, 1 << 20)
}

/// A store with one session and its bundle.
fn one() -> (TempDir, Vec<u8>) {
    let (dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    append(&mut store, &mut head, vec![said("please work")]);
    append(
        &mut store,
        &mut head,
        vec![replied("bash", r#"{"command":"true"}"#), started(2)],
    );
    let mut with_blob = batch(vec![finished(2, None)]);
    with_blob.blobs = vec![BLOB.to_vec()];
    store.append(&mut head, &with_blob).unwrap();
    append(&mut store, &mut head, vec![replied("", "")]);
    let bytes = exported(&store, &[&head.session().to_string()]);
    (dir, bytes)
}

#[test]
fn all_kinds_of_sessions_arrive_byte_for_byte() {
    let (there, mut store) = scratch();
    let told = tell(&mut store);
    let all = [
        &told.first,
        &told.fork,
        &told.early,
        &told.late,
        &told.child,
    ];
    store
        .inbox_mut()
        .queue(&told.first, &message("waits"), &[], 1)
        .unwrap();
    let bytes = exported(&store, &all[..4]);
    let (here, mut other) = scratch();
    let imported = import(&mut other, here.path(), &bytes);
    assert_eq!(imported.len(), 5);
    assert_eq!(imported.iter().filter(|one| one.is_named).count(), 4);
    for id in all {
        assert_eq!(rows(here.path(), id), rows(there.path(), id), "{id}");
        let (a, b) = (store.load(id).unwrap(), other.load(id).unwrap());
        assert_eq!(a.1, b.1);
        let info = other.history().find(id).unwrap();
        assert_eq!(info.replica.as_deref(), Some("rewake@far"), "{id}");
        let from = store.history().find(id).unwrap();
        assert_eq!(info.forked_from.is_some(), from.forked_from.is_some());
        assert_eq!(info.parent, from.parent);
        // Only an import appends.
        let mut head = other.load(id).unwrap().0;
        let refused = other.append(&mut head, &batch(vec![said("no")]));
        assert!(refused.unwrap_err().to_string().contains("copy"), "{id}");
    }
    assert_eq!(other.blob(&blob_ref(BLOB).hash).unwrap().unwrap(), BLOB);
    // What waits and what was remembered stays there.
    assert_eq!(count_of(there.path(), "memories"), 1);
    assert_eq!(count_of(here.path(), "memories"), 0);
    assert_eq!(count_of(here.path(), "inbox"), 0);
    let open = imported.iter().find(|one| one.session == told.first);
    assert_eq!(open.unwrap().open_calls, 1);
    // The same again records nothing.
    let again = import(&mut other, here.path(), &bytes);
    assert!(again.iter().all(|one| one.appended == 0));
    let ids = |imported: &[Import]| {
        imported
            .iter()
            .map(|i| i.session.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&imported), ids(&again));
}

#[test]
fn a_fork_of_a_copy_has_no_mode_whoever_is_asked() {
    let (_there, mut store) = scratch();
    let told = tell(&mut store);
    let bytes = exported(&store, &[&told.first]);
    let (here, mut other) = scratch();
    import(&mut other, here.path(), &bytes);
    let direct = fork(&mut other, &told.first, 9, 6_000).unwrap();
    // The entry before belongs to the copy, though the session that is asked does not.
    let asked = direct.session().to_string();
    let of_fork = fork(&mut other, &asked, 7, 7_000).unwrap();
    for id in [asked, of_fork.session().to_string()] {
        let mut state = State::new(describe);
        for record in other.load(&id).unwrap().1 {
            state.fold(&record).unwrap();
        }
        assert_eq!(state.mode, Mode::Default, "{id}");
        assert!(state.seen.is_empty());
        assert!(state.calls.iter().all(|call| call.finished));
        assert!(state.added_folders.is_empty() && state.added_prompt.is_empty());
        assert_eq!(state.run_limits, RunLimits::default());
        // The prompt of the bundle is replaced.
        assert!(state.has_moved && state.assignment.is_none());
    }
}

#[test]
fn a_longer_bundle_appends_and_a_shorter_one_records_nothing() {
    let (_there, mut store) = scratch();
    let mut head = talk(&mut store, 3);
    let id = head.session().to_string();
    let short = exported(&store, &[&id]);
    append(&mut store, &mut head, vec![said("more")]);
    let long = exported(&store, &[&id]);
    let (here, mut other) = scratch();
    assert_eq!(import(&mut other, here.path(), &short)[0].appended, 4);
    let grown = import(&mut other, here.path(), &long);
    assert_eq!(
        (grown[0].session.as_str(), grown[0].appended),
        (id.as_str(), 1)
    );
    assert_eq!(import(&mut other, here.path(), &short)[0].appended, 0);
    assert_eq!(other.load(&id).unwrap().1.len(), 5);
}

#[test]
fn a_session_of_this_store_is_never_changed() {
    let (there, mut store) = scratch();
    let mut head = talk(&mut store, 3);
    let id = head.session().to_string();
    let bytes = exported(&store, &[&id]);
    // All of it is here.
    let known = import(&mut store, there.path(), &bytes);
    assert_eq!(
        (known[0].session.as_str(), known[0].appended),
        (id.as_str(), 0)
    );
    assert!(store.history().find(&id).unwrap().replica.is_none());
    // Another store continues it: the session here does not get what happened there.
    let (here, mut other) = scratch();
    let mut theirs = other
        .create(
            &NewSession {
                id: id.clone(),
                workspace: HERE.into(),
                folder: format!("{HERE}/src"),
            },
            1_000,
            opened(),
        )
        .unwrap()
        .0;
    for i in 1..=3 {
        append(&mut other, &mut theirs, vec![said(&format!("words {i}"))]);
    }
    append(&mut other, &mut theirs, vec![said("went on there")]);
    let longer = exported(&other, &[&id]);
    let before = rows(there.path(), &id);
    let copy = import(&mut store, there.path(), &longer);
    assert_ne!(copy[0].session, id);
    assert_eq!(copy[0].appended, 5);
    assert_eq!(rows(there.path(), &id), before);
    let again = import(&mut store, there.path(), &longer);
    assert_eq!(
        (again[0].session.clone(), again[0].appended),
        (copy[0].session.clone(), 0)
    );
    append(&mut store, &mut head, vec![said("still mine")]);
    drop(here);
}

#[test]
fn a_fork_comes_back_to_the_store_of_its_ancestor() {
    let (a_dir, mut a) = scratch();
    let told = tell(&mut a);
    let (b_dir, mut b) = scratch();
    import(&mut b, b_dir.path(), &exported(&a, &[&told.first]));
    let mut forked = fork(&mut b, &told.first, 6, 8_000).unwrap();
    append(&mut b, &mut forked, vec![said("from b")]);
    let id = forked.session().to_string();
    let before = count_of(a_dir.path(), "entries");
    let back = import(&mut a, a_dir.path(), &exported(&b, &[&id]));
    // Only the entries of the fork are stored.
    assert_eq!(count_of(a_dir.path(), "entries"), before + 2);
    assert!(
        back.iter()
            .any(|one| one.session == id && one.appended == 2)
    );
    assert_eq!(a.load(&id).unwrap().1, b.load(&id).unwrap().1);
    assert!(a.history().find(&told.first).unwrap().replica.is_none());
}

/// The end of a session in each state in which it can be left, after a message and an answer.
fn states() -> Vec<(&'static str, Vec<Entry>)> {
    let image = Image {
        media_type: "image/png".into(),
        blob: blob_ref(BLOB),
    };
    let with_image = Entry::Finished {
        call: call(4),
        outcome: Outcome::Done {
            output: Output {
                text: "shown".into(),
                blob: None,
                images: vec![image.clone()],
            },
        },
        fact: None,
        tree: None,
    };
    let open = |name: &str, arguments: &str, guard: Guard| {
        let started = Entry::Started {
            call: call(4),
            guard,
            access: None,
        };
        vec![replied(name, arguments), started]
    };
    let run = || ("run-1".to_string(), "b".to_string());
    let served = || Guard::Served {
        server: "files".into(),
        run: run().0,
        boot: run().1,
        request: "1".into(),
        repeatable: true,
    };
    let mut of_server = open("mcp__files__look", "{}", served());
    of_server.extend([with_image.clone(), replied("", "")]);
    let mut asked = vec![replied("bash", r#"{"command":"true"}"#)];
    asked.push(Entry::Asked {
        call: call(4),
        why: "it writes".into(),
        rule: None,
        access: None,
        at: None,
        form: None,
    });
    let compacted = Entry::Compacted {
        window: 1,
        first: 1,
        last: 2,
        summary: "it was asked to work".into(),
        by: SummaryBy::Model,
        spent: vec![],
        preface: Some("it was asked to work".into()),
    };
    let continued = Entry::Continued {
        note: "it was asked to work, and works".into(),
        by: SummaryBy::Model,
        spent: vec![],
        story: None,
    };
    let child = Guard::Child {
        session: new_id(),
        run: run().0,
        boot: run().1,
        background: false,
        done: 0,
        in_vain: 0,
        before: vec![],
        worked_ms: 0,
    };
    let checked = Guard::Checked {
        path: "/made".into(),
        before: None,
        after: "ab".into(),
    };
    let supervised = Guard::Supervised {
        run: run().0,
        boot: run().1,
        background: false,
    };
    let pause = Entry::Paused { origin: None };
    vec![
        ("plain", vec![]),
        (
            "an image",
            vec![Entry::Said {
                text: "look".into(),
                images: vec![image],
                via: Via::Prompt,
                command: None,
                origin: None,
            }],
        ),
        ("a result of a server", of_server),
        ("compacted", vec![compacted, said("and then")]),
        ("continued", vec![continued, said("and then")]),
        ("idempotent", vec![replied("read", r#"{"path":"a"}"#)]),
        (
            "checked",
            open("write", r#"{"path":"made","content":"x"}"#, checked),
        ),
        (
            "supervised",
            open("bash", r#"{"command":"true"}"#, supervised),
        ),
        ("a subagent", open("task", r#"{"prompt":"do it"}"#, child)),
        ("served", open("mcp__files__look", "{}", served())),
        (
            "asks",
            open(
                "ask_user",
                r#"{"questions":[{"question":"which?"}]}"#,
                Guard::Asks,
            ),
        ),
        ("opaque", open("mcp__old__look", "{}", Guard::Opaque)),
        ("a question", asked),
        ("paused", vec![said("and then"), pause]),
    ]
}

/// Returns the state of a fork at the end of a session, after one more message.
fn forked_at_the_end(store: &Store, id: &str, folder: Option<&str>, what: &str) -> State {
    let mut state = State::new(describe);
    let records = store.load(id).unwrap().1;
    for record in &records {
        let legal = state.fold(record);
        assert!(legal.is_ok(), "{what}: {legal:?}");
    }
    let from = ForkPoint {
        session: id.into(),
        seq: state.next_seq() - 1,
    };
    let folder = folder.map(String::from);
    let forked = store.history().forked(&from, folder).unwrap();
    for entry in [forked, said("go further")] {
        let record = Record {
            seq: state.next_seq(),
            at_ms: 9_000,
            entry,
        };
        state.fold(&record).unwrap();
    }
    state
}

#[test]
fn each_state_of_a_session_asks_for_the_same_elsewhere() {
    for (what, end) in states() {
        let (_there, mut store) = scratch();
        let mut head = session(&mut store, HERE);
        let begin = vec![said("please work"), replied("", ""), said("and now")];
        let mut all = batch([begin, end].concat());
        all.blobs = vec![BLOB.to_vec()];
        store.append(&mut head, &all).unwrap();
        let id = head.session().to_string();
        let bytes = exported(&store, &[&id]);
        let (here, mut other) = scratch();
        let imported = import(&mut other, here.path(), &bytes);
        assert_eq!(imported[0].session, id, "{what}");
        assert_eq!(store.load(&id).unwrap().1, other.load(&id).unwrap().1);
        let budget = Budget::new(200_000, 8_000, None);
        let asked = |state: &State| {
            let mut kept = KeptMessages::default();
            let request = request(state, &budget, 16 * 1024, &mut kept);
            format!("{:#?}", request.messages)
        };
        let there = forked_at_the_end(&store, &id, None, what);
        let elsewhere = forked_at_the_end(&other, &id, Some("/elsewhere"), what);
        assert_eq!(asked(&there), asked(&elsewhere), "{what}");
        assert!(elsewhere.calls.iter().all(|call| call.finished), "{what}");
        assert!(!elsewhere.paused, "{what}");
        let has_blob = what == "an image" || what == "a result of a server";
        let blob = other.blob(&blob_ref(BLOB).hash).unwrap();
        assert_eq!(blob.is_some(), has_blob, "{what}");
    }
}

/// A copy of another agent follows its source only: a bundle with more entries does not make it a
/// session of this store, as `forked` does to one of an agent.
#[test]
fn a_copy_of_another_agent_is_not_continued_by_a_bundle() {
    let (_there, mut store) = scratch();
    let mut head = talk(&mut store, 2);
    let id = head.session().to_string();
    let short = exported(&store, &[&id]);
    let from = ForkPoint {
        session: id.clone(),
        seq: 2,
    };
    let more = vec![
        Entry::Forked {
            from,
            folder: None,
            from_replica: None,
        },
        Entry::Chose(Choice {
            mode: Some(Mode::BypassPermissions),
            ..Choice::default()
        }),
    ];
    append(&mut store, &mut head, more);
    let long = exported(&store, &[&id]);
    for agent in ["claude", "rewake@far"] {
        let (here, mut other) = scratch();
        import(&mut other, here.path(), &short);
        let sql = "UPDATE sessions SET replica = ?1";
        raw(here.path()).execute(sql, [agent]).unwrap();
        let imported = import(&mut other, here.path(), &long);
        let is_other = imported[0].session != id;
        assert_eq!(is_other, agent == "claude");
        assert_eq!(count_of(here.path(), "sessions WHERE replica IS NULL"), 0);
        let length = other.load(&id).unwrap().1.len();
        assert_eq!(length, if is_other { 3 } else { 5 });
    }
}

/// Row IDs of one store mean nothing in another one.
#[test]
fn what_waits_here_still_waits() {
    let (_there, mut store) = scratch();
    let told = tell(&mut store);
    let (here, mut other) = scratch();
    let mine = talk(&mut other, 1).session().to_string();
    for n in 0..5 {
        other
            .inbox_mut()
            .queue(&mine, &message(&format!("waits {n}")), &[], 1)
            .unwrap();
    }
    let bytes = exported(&store, &[&told.first]);
    import(&mut other, here.path(), &bytes);
    assert_eq!(other.inbox().queued(&mine).unwrap().len(), 5);
    // A line that names a row is refused.
    let (_dir, bytes) = one();
    for field in ["taken", "signal"] {
        let hostile = changed(&bytes, 3, |line| line[field] = json!(1));
        let refused = checked(&hostile).err().unwrap();
        assert!(matches!(refused, BundleError::Refused { .. }), "{refused}");
        assert!(refused.to_string().contains("line 4"), "{refused}");
    }
}

#[test]
fn a_purged_copy_comes_back_only_on_request() {
    let (_there, mut store) = scratch();
    let id = talk(&mut store, 2).session().to_string();
    let bytes = exported(&store, &[&id]);
    let scene = Scene::new();
    let mut other = scene.open();
    import(&mut other, &scene.data(), &bytes);
    other
        .purge(&scene.data(), Some(&scene.place()), &id)
        .unwrap();
    let mut other = scene.open();
    let bundle = checked(&bytes).unwrap();
    let refused = import_as(&mut other, &scene.data(), &bundle, false).unwrap_err();
    assert!(
        matches!(&refused, BundleError::Purged { session } if *session == id),
        "{refused}"
    );
    assert!(refused.hint().unwrap().contains("--new-id"));
    let again = import_as(&mut other, &scene.data(), &bundle, true).unwrap();
    assert_ne!(again[0].session, id);
    assert_eq!(again[0].appended, 3);
}

/// The journal alone is enough to have a copy again, as a copy.
#[test]
fn a_copy_is_a_copy_in_a_rebuilt_database() {
    let (_there, mut store) = scratch();
    let told = tell(&mut store);
    let bytes = exported(&store, &[&told.first, &told.late]);
    let scene = Scene::new();
    let mut other = scene.open();
    import(&mut other, &scene.data(), &bytes);
    drop(other);
    let all = [&told.first, &told.late, &told.child];
    for rebuilt in [false, true] {
        for file in ["rewake.db", "rewake.db-wal", "rewake.db-shm"] {
            let _ = std::fs::remove_file(scene.data().join(file));
        }
        if rebuilt {
            scene.rebuild(false, &[]).unwrap().unwrap();
        }
        let other = scene.open();
        for id in all {
            let info = other.history().find(id).unwrap();
            assert_eq!(
                info.replica.as_deref(),
                Some("rewake@far"),
                "{id}, {rebuilt}"
            );
        }
        assert_eq!(count_of(&scene.data(), "memories"), 0);
    }
}

#[test]
fn every_changed_bit_is_refused() {
    let (_dir, bytes) = one();
    let flips = std::env::var("REWAKE_BUNDLE_FLIPS").ok();
    let flips = flips.and_then(|n| n.parse().ok()).unwrap_or(FLIPS);
    let bits = bytes.len() as u64 * 8;
    for n in 0..flips {
        let bit = usize::try_from(n * 7_919 % bits).unwrap();
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(checked(&flipped).is_err(), "bit {bit}");
    }
    assert!(checked(&bytes).is_ok());
    for more in [&b"x"[..], b"\n", &[0; 40]] {
        let longer = [&bytes[..], more].concat();
        assert!(checked(&longer).is_err());
    }
}

#[test]
fn every_cut_is_refused_or_gives_a_beginning() {
    let (_dir, bytes) = one();
    for end in 0..bytes.len() {
        assert!(checked(&bytes[..end]).is_err(), "{end} bytes");
    }
    let whole = checked(&bytes).unwrap().sessions[0].tips.clone();
    let lines = lines(&bytes);
    // A frame for each line, so that what comes before a cut can be read.
    let mut small = Vec::new();
    let mut ends = vec![0];
    for line in &lines {
        let frame = made_of(std::slice::from_ref(line), 1 << 20);
        small.extend(&frame[..frame.len() - 40]);
        ends.push(small.len());
    }
    assert!(checked(&sealed(small.clone())).is_ok());
    for (count, end) in ends.iter().enumerate() {
        // At the end of a line with the hash that belongs to it, and without one.
        let cut = sealed(small[..*end].to_vec());
        let is_whole = count == lines.len();
        assert_eq!(checked(&cut).is_ok(), is_whole, "{count} lines");
        if count == 0 {
            continue;
        }
        let part = checked_with(&cut, true).unwrap();
        assert_eq!(part.loss.is_none(), is_whole);
        if let Some(session) = part.sessions.first() {
            assert!(whole.starts_with(&session.tips));
            let (here, mut other) = scratch();
            let imported = import_as(&mut other, here.path(), &part, false).unwrap();
            assert_eq!(imported[0].appended, session.tips.len() as u64);
        }
    }
}

#[test]
fn exchanged_doubled_and_missing_lines_are_refused() {
    let (_dir, bytes) = one();
    let known = lines(&bytes);
    for at in 1..known.len() - 1 {
        let mut missing = known.clone();
        missing.remove(at);
        let mut doubled = known.clone();
        doubled.insert(at, known[at].clone());
        let mut exchanged = known.clone();
        exchanged.swap(at, at + 1);
        for (what, lines) in [
            ("missing", missing),
            ("doubled", doubled),
            ("exchanged", exchanged),
        ] {
            // The numbers in the first and the last line are those of the lines.
            let mut lines = lines;
            let mut first: Value = serde_json::from_str(&lines[0]).unwrap();
            let inner = &lines[1..lines.len() - 1];
            first["lines"] = json!(inner.len());
            first["bytes"] = json!(inner.iter().map(|line| line.len() + 1).sum::<usize>());
            lines[0] = first.to_string();
            if let Some(last) = lines.last_mut().filter(|last| last.starts_with("{\"end\"")) {
                let number = inner_len(&first) + 2;
                *last = format!("{{\"end\":{{\"lines\":{number},\"sessions\":1}}}}");
            }
            let is_blob = known[at..=at + 1]
                .iter()
                .any(|line| line.starts_with("{\"blob\""));
            let refused = checked(&made_of(&lines, 1 << 20));
            // Without its bytes an entry still stands: a store may have lost them, too.
            assert!(refused.is_err() || is_blob, "line {} {what}", at + 1);
        }
    }
}

fn inner_len(first: &Value) -> u64 {
    first["lines"].as_u64().unwrap()
}

#[test]
fn hostile_bundles_are_refused() {
    let (_dir, bytes) = one();
    let is_refused = |what: &str, bytes: &[u8]| {
        let refused = checked(bytes).err();
        refused.unwrap_or_else(|| panic!("{what} was taken"))
    };
    let id = changed(&bytes, 1, |line| line["session"] = json!("../../x"));
    assert!(is_refused("an ID", &id).to_string().contains("no ID"));
    // The hash at the end is right, but not that of the entry.
    let mut other = lines(&bytes);
    other[3] = other[3].replace("please work", "please rest");
    let refused = is_refused("another text", &made_of(&other, 1 << 20));
    assert!(refused.to_string().contains("line 4"), "{refused}");
    // The call of this result never started.
    let illegal = changed(&bytes, 4, |line| {
        line["entry"] = json!({ "kind": "noted", "text": "instead of the start" });
    });
    is_refused("an illegal order", &illegal);
    let kind = changed(&bytes, 3, |line| {
        line["entry"] = json!({ "kind": "tomorrow" })
    });
    let newer = is_refused("an unknown kind", &kind);
    assert!(matches!(newer, BundleError::Newer { .. }), "{newer}");
    let form = changed(&bytes, 0, |line| line["bundle"] = json!(2));
    let newer = is_refused("a newer format", &form);
    assert!(
        newer
            .to_string()
            .contains("its format is 2, and 1 is known"),
        "{newer}"
    );
    let declared = {
        let mut lines = lines(&bytes);
        lines[0] = lines[0].replace("\"bytes\":", "\"bytes\":10995116277");
        made_of(&lines, 1 << 20)
    };
    is_refused("a wrong size", &declared);
    let mut deep = lines(&bytes);
    let nested = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    deep[3] = format!(
        "{{\"seq\":1,\"at_ms\":1,\"tip\":\"{}\",\"entry\":{nested}}}",
        "0".repeat(32)
    );
    is_refused("a deep entry", &made_of(&deep, 1 << 20));
    deep[3] = nested;
    is_refused("a deep line", &made_of(&deep, 1 << 20));
    let parent = changed(&bytes, 1, |line| {
        line["forked"] = json!({ "session": new_id(), "seq": 3 });
    });
    is_refused("a fork of nothing", &parent);
    // A frame that expands beyond its limit, one without its size, and one without a checksum.
    let bomb = zstd::bulk::compress(&vec![b' '; 64 << 20], 3).unwrap();
    is_refused("a bomb", &sealed(bomb));
    let text = format!("{}\n", lines(&bytes).join("\n"));
    let streamed = zstd::stream::encode_all(text.as_bytes(), 3).unwrap();
    is_refused("no size", &sealed(streamed));
    let unchecked = zstd::bulk::compress(text.as_bytes(), 3).unwrap();
    is_refused("no checksum", &sealed(unchecked));
    is_refused("nothing", &sealed(Vec::new()));
    // A session that nobody would be told about, and one that is its own parent.
    let unnamed = changed(&bytes, 0, |line| line["sessions"] = json!([]));
    let refused = is_refused("an unnamed session", &unnamed).to_string();
    assert!(
        refused.contains("no session that the first line names"),
        "{refused}"
    );
    let twice = changed(&bytes, 0, |line| {
        let first = line["sessions"][0].clone();
        line["sessions"] = json!([first, first]);
    });
    is_refused("a session that is named twice", &twice);
    let mut huge = lines(&bytes);
    let mut first: Value = serde_json::from_str(&huge[0]).unwrap();
    first["lines"] = json!(u64::MAX);
    huge[0] = first.to_string();
    is_refused("a number of lines", &made_of(&huge, 1 << 20));
    let full = {
        let mut lines = lines(&bytes);
        lines[0] = lines[0].replace("\"bytes\":", "\"bytes\":9999999999999");
        made_of(&lines, 1 << 20)
    };
    let full = is_refused("a size that no disk has", &full);
    assert!(matches!(full, BundleError::NoSpace { .. }), "{full}");
    // Many small frames are slow, but right.
    assert!(checked(&made_of(&lines(&bytes), 1)).is_ok());
    let skipped = [
        &[0x51, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4],
        &bytes[..bytes.len() - 40],
    ];
    is_refused("a frame that is skipped", &sealed(skipped.concat()));
}

/// Each fork continues a state, and no bundle makes more of them than fit into memory.
#[test]
fn many_forks_of_a_long_session_are_refused() {
    let (_there, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    append(&mut store, &mut head, vec![said(&"x".repeat(16 << 20))]);
    let first = head.session().to_string();
    let mut named = vec![first.clone()];
    for _ in 0..40 {
        append(&mut store, &mut head, vec![said("more")]);
        let fork = fork(&mut store, &first, head.seq(), 3_000).unwrap();
        named.push(fork.session().to_string());
    }
    let bytes = exported(&store, &named.iter().collect::<Vec<_>>());
    let refused = checked(&bytes).err().unwrap();
    assert!(refused.to_string().contains("too many forks"), "{refused}");
    // A fork that was read is not kept.
    let bytes = exported(&store, &named.iter().take(20).collect::<Vec<_>>());
    assert!(checked(&bytes).is_ok());
}

#[test]
fn a_copy_with_the_id_of_a_subagent_of_this_store_is_not_among_its_subagents() {
    let (here, mut store) = scratch();
    let told = tell(&mut store);
    let mut lines = lines(&exported(&store, &[&told.child]));
    // The same subagent with another ID, as a bundle could have it.
    let id = new_id();
    for line in &mut lines {
        *line = line.replace(&told.child, &id);
    }
    let planted = relinked(lines);
    let imported = import(&mut store, here.path(), &planted);
    assert_eq!(imported[0].session, id);
    let info = store.history().find(&id).unwrap();
    assert_eq!(info.parent, None);
}

#[test]
fn the_journal_of_another_store_gives_copies() {
    let there = Scene::new();
    let mut store = there.open();
    let told = tell(&mut store);
    drop(store);
    let journal = there.data().join("journal");
    // Into an empty folder, and into one with a session.
    for has_own in [false, true] {
        let here = Scene::new();
        let mine = has_own.then(|| {
            let mut store = here.open();
            let mine = talk(&mut store, 2).session().to_string();
            drop(store);
            // The rebuild begins with a damaged database.
            std::fs::write(here.data().join("rewake.db"), b"damaged").unwrap();
            let _ = std::fs::remove_file(here.data().join("rewake.db-wal"));
            mine
        });
        assert!(restored_into(&here, &journal, &told.first).is_some());
        let store = here.open();
        for id in [&told.first, &told.late, &told.child] {
            let info = store.history().find(id).unwrap();
            assert!(
                info.replica.is_some_and(|from| from.starts_with("rewake@")),
                "{id}"
            );
        }
        if let Some(mine) = mine {
            assert!(store.history().find(&mine).unwrap().replica.is_none());
        }
        assert_eq!(count_of(&here.data(), "memories"), 0);
    }
}

/// A container has the boot of its host, and is another machine.
#[test]
fn the_machine_must_be_the_same_and_not_only_its_boot() {
    for (machine, is_copy) in [(None, false), (Some("same"), false), (Some("boot"), true)] {
        let there = Scene::new();
        let mut store = there.open();
        let id = talk(&mut store, 2).session().to_string();
        drop(store);
        let kept = tempfile::tempdir().unwrap();
        let journal = kept.path().join("journal");
        copy(&there.data().join("journal"), &journal);
        let tail = journal.join(&id).join("tail.jsonl");
        let text = std::fs::read_to_string(&tail).unwrap();
        let mut header: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        let word = header["machine"].as_str().unwrap().to_string();
        let (name, boot) = (&word[..8], &word[8..]);
        header["machine"] = match machine {
            None => Value::Null,
            Some("same") => json!(format!(
                "{name}{}",
                boot.replace(|c: char| c.is_ascii_hexdigit(), "0")
            )),
            Some(_) => json!(format!("{}{boot}", "0".repeat(8))),
        };
        let header = header.to_string();
        let rest: Vec<&str> = text.lines().skip(1).collect();
        let header = match header.find("\"rewake\"") {
            Some(_) => reordered(&header),
            None => header,
        };
        std::fs::write(&tail, format!("{header}\n{}\n", rest.join("\n"))).unwrap();
        // This store lost the session: its own journal of it is gone, and its database.
        std::fs::remove_dir_all(there.data().join("journal").join(&id)).unwrap();
        for file in ["rewake.db", "rewake.db-wal", "rewake.db-shm"] {
            let _ = std::fs::remove_file(there.data().join(file));
        }
        let source = restored_into(&there, &journal, &id);
        assert_eq!(source.is_some(), is_copy, "{machine:?}");
    }
}

/// Restores what a folder has into an empty store, and returns where a session comes from.
fn restored(from: &Path, id: &str) -> Option<String> {
    let here = Scene::new();
    drop(here.open());
    restored_into(&here, from, id)
}

fn restored_into(here: &Scene, from: &Path, id: &str) -> Option<String> {
    let repair = rewake::recovery::Repair {
        from: &[from.to_path_buf()],
        same_machine: false,
        only_whole: false,
        progress: &mut |_| {},
    };
    rewake::recovery::recover(&here.data(), Some(&here.place()), repair).unwrap();
    let found = here.open().history().find(id);
    found.unwrap().replica
}

/// The same reading that gives the entries of a journal tells who wrote it.
#[test]
fn a_journal_is_of_elsewhere_wherever_its_headers_are() {
    let there = Scene::new();
    let mut store = there.open();
    let id = talk(&mut store, 2).session().to_string();
    drop(store);
    let kept = tempfile::tempdir().unwrap();
    let journal = kept.path().join("journal");
    copy(&there.data().join("journal"), &journal);
    let tail = journal.join(&id).join("tail.jsonl");
    let text = std::fs::read_to_string(&tail).unwrap();
    // In a tail that was set aside.
    let aside = journal.join(&id).join("tail.jsonl.old-1");
    std::fs::rename(&tail, &aside).unwrap();
    assert!(restored(&journal, &id).is_some());
    // With other blanks.
    std::fs::rename(&aside, &tail).unwrap();
    std::fs::write(&tail, format!(" {text}")).unwrap();
    assert!(restored(&journal, &id).is_some());
    // Beside a file that cannot be read.
    std::fs::write(&tail, &text).unwrap();
    std::os::unix::fs::symlink("/nowhere", journal.join(&id).join("1.jsonl.zst")).unwrap();
    assert!(restored(&journal, &id).is_some());
}

/// A data folder that was copied to another machine and used there has a database of this store.
#[test]
fn a_database_is_not_used_if_the_journal_beside_it_is_of_another_machine() {
    for is_moved in [false, true] {
        let here = Scene::new();
        let mut store = here.open();
        let mut head = talk(&mut store, 2);
        let id = head.session().to_string();
        drop(store);
        let moved = tempfile::tempdir().unwrap();
        copy(&here.data(), moved.path());
        // Used there.
        let mut store = Store::open(moved.path()).unwrap();
        append(&mut store, &mut head, vec![said("there")]);
        drop(store);
        let tail = moved.path().join("journal").join(&id).join("tail.jsonl");
        let text = std::fs::read_to_string(&tail).unwrap();
        let mut header: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        if is_moved {
            header["machine"] = json!("00000000:00000000:there");
        }
        let rest: Vec<&str> = text.lines().skip(1).collect();
        let header = reordered(&header.to_string());
        std::fs::write(&tail, format!("{header}\n{}\n", rest.join("\n"))).unwrap();
        // This store has lost its database.
        for file in ["rewake.db", "rewake.db-wal", "rewake.db-shm"] {
            let _ = std::fs::remove_file(here.data().join(file));
        }
        assert_eq!(restored_into(&here, moved.path(), &id), None);
        let length = here.open().load(&id).unwrap().1.len();
        assert_eq!(length, if is_moved { 3 } else { 4 });
    }
}

/// The numbers of messages in a journal of another store are not those of messages here.
#[test]
fn a_journal_of_another_store_takes_no_message_that_waits_here() {
    let here = Scene::new();
    let mut store = here.open();
    let mine = talk(&mut store, 2).session().to_string();
    store
        .inbox_mut()
        .queue(&mine, &message("waits"), &[], 1)
        .unwrap();
    drop(store);
    let there = Scene::new();
    let mut store = there.open();
    let mut head = talk(&mut store, 1);
    let theirs = head.session().to_string();
    let waiting = &message("was said");
    let queued = store.inbox_mut().queue(&theirs, waiting, &[], 1).unwrap();
    let taking = Batch {
        taken: Some(queued),
        ..batch(vec![said("was said")])
    };
    store.append(&mut head, &taking).unwrap();
    drop(store);
    let journal = there.data().join("journal");
    let text = std::fs::read_to_string(journal.join(&theirs).join("tail.jsonl")).unwrap();
    assert!(text.contains("\"taken\":1"), "{text}");
    // The rows of the waiting messages are read from the database here.
    assert!(restored_into(&here, &journal, &theirs).is_some());
    let store = here.open();
    let waiting = store.inbox().queued(&mine).unwrap();
    assert_eq!(waiting.len(), 1);
}

/// The first key of a header is `rewake`.
fn reordered(header: &str) -> String {
    let mut value: Value = serde_json::from_str(header).unwrap();
    let fields = value.as_object_mut().unwrap();
    let form = fields.remove("rewake").unwrap();
    let rest = serde_json::to_string(fields).unwrap();
    format!("{{\"rewake\":{form},{}", &rest[1..])
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_give_an_error_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        prop_assert!(checked(&bytes).is_err());
        prop_assert!(checked(&sealed(bytes.clone())).is_err());
        drop(checked_with(&sealed(bytes), true));
    }

    #[test]
    fn any_text_in_frames_gives_an_error_and_no_panic(text in "\\PC{0,300}") {
        let lines: Vec<String> = text.lines().map(String::from).collect();
        prop_assert!(checked(&made_of(&lines, 64)).is_err());
    }
}
