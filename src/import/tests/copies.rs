//! Copies in a store: made once, continued, made a second time, purged.

use std::fs;

use super::*;
use crate::config::Env;
use crate::core::entry::Entry;
use crate::store::{Batch, Message, NewSession, ReplicaWriter, Store, StoreError, database};

/// A home folder with a session of Claude Code, and a data folder.
struct Place {
    _folder: tempfile::TempDir,
    home: PathBuf,
    data: PathBuf,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let (home, data) = (folder.path().join("home"), folder.path().join("data"));
        fs::create_dir_all(home.join(".claude/projects/p")).unwrap();
        fs::create_dir(&data).unwrap();
        Place {
            _folder: folder,
            home,
            data,
        }
    }

    fn write(&self, bytes: &[u8]) {
        fs::write(self.home.join(".claude/projects/p/s.jsonl"), bytes).unwrap();
    }

    fn store(&self) -> Store {
        Store::open(&self.data).unwrap()
    }

    fn found(&self, store: &Store) -> ForeignSession {
        let env = Env::new([("HOME", self.home.as_os_str())], "/");
        let cache = Cache::new(store.history().cached_sources().unwrap());
        let (mut found, errors) = Sources::new(&env).list(None, None, &cache);
        assert!(errors.is_empty(), "{errors:?}");
        found.pop().unwrap()
    }

    fn import(&self, store: &mut Store) -> Result<Imported, ImportError> {
        self.import_as(store, false)
    }

    fn import_as(&self, store: &mut Store, new_id: bool) -> Result<Imported, ImportError> {
        let mut found = self.found(store);
        let workspace_of = |folder: &Path| folder.to_string_lossy().into_owned();
        let mut importer = Importer {
            store,
            data_dir: &self.data,
            workspace_of: &workspace_of,
            new_id,
            database: None,
        };
        importer.import(&mut found)
    }
}

fn bytes() -> Vec<u8> {
    let (_, _, bytes) = all()
        .into_iter()
        .find(|(_, name, _)| name.starts_with("claude") && name.ends_with("resumed"))
        .unwrap();
    bytes
}

/// The tips of a session, which name all of its entries.
fn tips(place: &Place, session: &str) -> Vec<Vec<u8>> {
    let conn = database::open_damaged(&place.data.join("rewake.db")).unwrap();
    let mut read = conn
        .prepare(
            "SELECT tip FROM entries e JOIN sessions s ON s.key = e.session WHERE s.id = ?1
             ORDER BY seq",
        )
        .unwrap();
    let tips = read.query_map([session], |row| row.get(0)).unwrap();
    tips.map(Result::unwrap).collect()
}

#[test]
fn a_second_import_appends_what_is_new() {
    let bytes = bytes();
    let place = Place::new();
    let mut store = place.store();
    let half = bytes[..bytes.len() * 2 / 3]
        .iter()
        .rposition(|b| *b == b'\n')
        .unwrap();
    place.write(&bytes[..=half]);
    let first = place.import(&mut store).unwrap();
    assert!(first.appended > 0);
    let before = tips(&place, &first.session);

    let again = place.import(&mut store).unwrap();
    assert_eq!(
        (again.session.as_str(), again.appended),
        (first.session.as_str(), 0)
    );

    place.write(&bytes);
    let grown = place.import(&mut store).unwrap();
    assert_eq!(grown.session, first.session);
    assert!(grown.appended > 0 && grown.before.is_none());
    let after = tips(&place, &first.session);
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.len() as u64, before.len() as u64 + grown.appended);

    // Without the cache, the copy itself shows that nothing is new.
    crate::store::cache_sources(&mut store, &[]).unwrap();
    let conn = database::open_damaged(&place.data.join("rewake.db")).unwrap();
    conn.execute("DELETE FROM imported", []).unwrap();
    let again = place.import(&mut store).unwrap();
    assert_eq!((again.session, again.appended), (first.session.clone(), 0));

    // A store elsewhere has the same ID and the same tips.
    let other = Place::new();
    other.write(&bytes);
    let elsewhere = other.import(&mut other.store()).unwrap();
    assert_eq!(elsewhere.session, first.session);
    assert_eq!(tips(&other, &first.session), after);
}

#[test]
fn a_changed_source_becomes_a_second_copy() {
    let bytes = bytes();
    let place = Place::new();
    let mut store = place.store();
    place.write(&bytes);
    let first = place.import(&mut store).unwrap();
    let changed = String::from_utf8(bytes)
        .unwrap()
        .replace("marmalade", "honey");
    place.write(changed.as_bytes());
    let second = place.import(&mut store).unwrap();
    assert_ne!(second.session, first.session);
    assert_eq!(second.before.as_ref(), Some(&first.session));
    // No fork uses the first one.
    assert!(store.history().is_in_trash(&first.session).unwrap());
    assert!(!store.history().is_in_trash(&second.session).unwrap());
    let again = place.import(&mut store).unwrap();
    assert_eq!((&again.session, again.appended), (&second.session, 0));
    // An import of a copy in the trash takes it out.
    store.trash(&second.session, 1).unwrap();
    place.import(&mut store).unwrap();
    assert!(!store.history().is_in_trash(&second.session).unwrap());
}

#[test]
fn only_an_import_changes_a_copy() {
    let place = Place::new();
    let mut store = place.store();
    place.write(&bytes());
    let session = place.import(&mut store).unwrap().session;
    let info = store.history().find(&session).unwrap();
    assert_eq!(info.replica.as_deref(), Some("claude"));
    assert!(!info.unfinished && info.usage.all() == 0);
    assert!(
        store
            .history()
            .newest(Some(&info.workspace))
            .unwrap()
            .is_none()
    );

    let refused = |error: StoreError| {
        assert!(matches!(error, StoreError::Replica { .. }), "{error}");
        assert!(error.hint().unwrap().contains("rewake -r"), "{error}");
    };
    let (mut head, _) = store.load(&session).unwrap();
    let batch = Batch {
        entries: vec![Entry::Noted {
            text: "x".to_string(),
            about: None,
        }],
        ..Batch::default()
    };
    refused(store.append(&mut head, &batch).unwrap_err());
    refused(store.take_up(&session).unwrap_err());
    let message = Message::new("x".to_string(), crate::core::entry::Via::Signal);
    refused(
        store
            .inbox_mut()
            .queue(&session, &message, &[], 1)
            .unwrap_err(),
    );
    let signal = |_| crate::core::signal::Signal::GoOn;
    refused(
        store
            .inbox_mut()
            .signal(&session, "cli", 1, signal)
            .unwrap_err(),
    );
    assert_eq!(store.load(&session).unwrap().0, head);
}

#[test]
fn a_purged_copy_comes_back_only_on_request() {
    let place = Place::new();
    let mut store = place.store();
    place.write(&bytes());
    let first = place.import(&mut store).unwrap().session;
    let folder = place.data.join("purged");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{first}.done")), "").unwrap();
    let conn = database::open_damaged(&place.data.join("rewake.db")).unwrap();
    conn.execute("UPDATE sessions SET id = 'gone' WHERE id = ?1", [&first])
        .unwrap();
    let error = place.import(&mut store).unwrap_err();
    assert!(matches!(error, ImportError::Purged { .. }), "{error}");
    assert!(error.hint().unwrap().contains("--new-id"));
    let second = place.import_as(&mut store, true).unwrap().session;
    assert_ne!(second, first);
    assert_eq!(place.import(&mut store).unwrap().session, second);
}

#[test]
fn a_source_without_words_or_of_a_later_version_is_refused() {
    let place = Place::new();
    let mut store = place.store();
    place.write(b"{\"type\":\"mode\"}\n");
    let error = place.import(&mut store).unwrap_err();
    assert!(matches!(error, ImportError::Empty(_)), "{error}");
    let mut newer = bytes();
    for _ in 0..100 {
        newer.extend(b"{\"type\":\"tomorrow\"}\n");
    }
    place.write(&newer);
    let error = place.import(&mut store).unwrap_err();
    assert!(
        error.to_string().contains("newer than this version"),
        "{error}"
    );
    assert!(
        store
            .history()
            .sessions(Default::default(), 9)
            .unwrap()
            .is_empty()
    );
}

/// A source with 2,600 messages: its import takes several transactions.
fn long() -> Vec<u8> {
    let mut text = String::new();
    for number in 0..2_600 {
        let line = serde_json::json!({
            "type": "user", "uuid": number.to_string(), "sessionId": "long", "cwd": "/w",
            "parentUuid": (number > 0).then(|| (number - 1).to_string()),
            "timestamp": "2026-01-02T03:04:05Z", "message": { "content": format!("words {number}") },
        });
        text.push_str(&format!("{line}\n"));
    }
    text.into_bytes()
}

/// A kill leaves a shorter copy after any transaction, and the next import makes it whole.
#[test]
fn a_killed_import_is_made_whole_by_the_next() {
    let bytes = long();
    let whole = Place::new();
    whole.write(&bytes);
    let session = whole.import(&mut whole.store()).unwrap().session;
    let want = tips(&whole, &session);
    assert_eq!(want.len(), 2_601);
    let entries = entries::entries(Agent::Claude, &bytes);
    for killed_after in [500, 1_500, 2_500] {
        let place = Place::new();
        place.write(&bytes);
        let mut store = place.store();
        let new = NewSession {
            id: session.clone(),
            workspace: "/w".to_string(),
            folder: "/w".to_string(),
        };
        let mut writer = ReplicaWriter::new(&mut store, new, entries[0].0).unwrap();
        for (at_ms, entry) in &entries[..killed_after] {
            writer.push(*at_ms, entry.clone(), Vec::new()).unwrap();
        }
        // Without its end, as after a kill.
        drop(writer);
        let before = tips(&place, &session).len();
        assert_eq!(before, killed_after / 1_000 * 1_000);
        drop(store);
        let imported = place.import(&mut place.store()).unwrap();
        assert_eq!(imported.session, session);
        assert_eq!(imported.appended as usize, want.len() - before);
        assert_eq!(tips(&place, &session), want);
    }
}

#[test]
fn a_start_learns_which_agents_have_sessions_here() {
    let place = Place::new();
    place.write(&bytes());
    let env = Env::new([("HOME", place.home.as_os_str())], "/");
    let sources = Sources::new(&env);
    let agents = |folder: &str| sources.agents_of(&[PathBuf::from(folder)]);
    assert_eq!(agents("/tmp/demo"), [Agent::Claude]);
    assert_eq!(agents("/tmp"), []);
}

/// Each branch that the user left becomes a copy, with the words before it.
#[test]
fn a_branch_that_was_left_is_a_copy_on_request() {
    let line = |id: &str, parent: Option<&str>, text: &str| {
        serde_json::json!({ "type": "user", "uuid": id, "parentUuid": parent, "sessionId": "s",
            "cwd": "/w", "timestamp": "2026-01-02T03:04:05Z", "message": { "content": text } })
    };
    let lines = [
        line("1", None, "first"),
        line("2", Some("1"), "left"),
        line("3", Some("1"), "kept"),
    ];
    let place = Place::new();
    place.write(lines.map(|line| format!("{line}\n")).concat().as_bytes());
    let mut store = place.store();
    let whole = place.import(&mut store).unwrap().session;
    let words = |store: &Store, session: &str| {
        let (_, records) = store.load(session).unwrap();
        let said = records.into_iter().filter_map(|record| match record.entry {
            Entry::Said { text, .. } => Some(text),
            _ => None,
        });
        said.collect::<Vec<_>>()
    };
    assert_eq!(words(&store, &whole), ["first", "kept"]);
    for appended in [3, 0] {
        let cache = Cache::new(store.history().cached_sources().unwrap());
        let mut branches = place.found(&store).branches(&cache);
        assert_eq!(branches.len(), 1);
        let workspace_of = |folder: &Path| folder.to_string_lossy().into_owned();
        let mut importer = Importer {
            store: &mut store,
            data_dir: &place.data,
            workspace_of: &workspace_of,
            new_id: false,
            database: None,
        };
        let left = importer.import(&mut branches[0]).unwrap();
        assert_ne!(left.session, whole);
        assert_eq!(left.appended, appended);
        assert_eq!(words(&store, &left.session), ["first", "left"]);
    }
    // The list still finds the conversation itself.
    assert_eq!(place.found(&store).session, Some(whole));
}
