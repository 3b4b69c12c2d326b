//! What the history pane reads: sessions in their order, what is said in them, their way and
//! their forks, and the trash.

use rewake::store::{Order, Scope, Store, StoreError, Traced};

use crate::story::*;

fn titles(store: &Store, here: &str, in_trash: bool) -> Vec<String> {
    let listing = store.history().listing(here, in_trash).unwrap();
    listing
        .into_iter()
        .map(|l| l.title.unwrap_or_default())
        .collect()
}

fn titled_session(store: &mut Store, workspace: &str, title: &str) -> rewake::store::Head {
    let mut head = session(store, workspace);
    append(store, &mut head, vec![said(title)]);
    head
}

#[test]
fn here_comes_first_then_the_workspace_with_the_newest_entry() {
    let (_dir, mut store) = scratch();
    titled_session(&mut store, HERE, "here 1");
    let mut old = titled_session(&mut store, "/old", "old 1");
    titled_session(&mut store, "/new", "new 1");
    titled_session(&mut store, HERE, "here 2");
    titled_session(&mut store, "/new", "new 2");
    session(&mut store, HERE);
    let mine = ["here 2", "here 1", "new 2", "new 1", "old 1"];
    assert_eq!(titles(&store, HERE, false), mine);
    append(&mut store, &mut old, vec![said("again")]);
    let moved = ["here 2", "here 1", "old 1", "new 2", "new 1"];
    assert_eq!(titles(&store, HERE, false), moved);
    assert_eq!(titles(&store, "/new", false)[..2], ["new 2", "new 1"]);
}

#[test]
fn thousands_are_listed_and_read_in_pieces() {
    let (dir, mut store) = scratch();
    drop(titled_session(&mut store, HERE, "first"));
    // By hand: ten thousand commits would take their time.
    raw(dir.path())
        .execute_batch(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
             INSERT INTO sessions (id, workspace, folder, head, length, created_ms, updated_ms, title)
             SELECT 'id-' || i, '/w' || (i % 7), '/w', 1, 2, i, i, 'title ' || i FROM n;",
        )
        .unwrap();
    let listing = store.history().listing(HERE, false).unwrap();
    assert_eq!(listing.len(), 5_001);
    assert_eq!(listing[0].title.as_deref(), Some("first"));
    let keys: Vec<_> = listing[3_000..3_200].iter().map(|l| l.key).collect();
    let infos = store.history().listed(&keys).unwrap();
    assert_eq!(infos.len(), 200);
    for ((key, info), listed) in infos.iter().zip(&listing[3_000..]) {
        assert_eq!((*key, &info.title), (listed.key, &listed.title));
    }
}

#[test]
fn each_session_is_found_once_by_its_newest_words() {
    let (_dir, mut store) = scratch();
    let mut one = titled_session(&mut store, HERE, "the crab walks");
    let other = titled_session(&mut store, "/other", "no crab here");
    append(&mut store, &mut one, vec![said("a crab again")]);
    assert_eq!(store.history().sessions_matching("crab", 9).unwrap(), []);
    while store.index().index_pending(10).unwrap() > 0 {}
    let found = store.history().sessions_matching("crab", 9).unwrap();
    let lines: Vec<(u64, &str)> = found.iter().map(|s| (s.seq, s.snippet.as_str())).collect();
    assert_eq!(lines, [(2, "a crab again"), (1, "no crab here")]);
    let keys: Vec<_> = found.iter().map(|s| s.key).collect();
    let ids: Vec<String> = store
        .history()
        .listed(&keys)
        .unwrap()
        .into_iter()
        .map(|(_, i)| i.id)
        .collect();
    assert_eq!(ids, [one.session(), other.session()]);
    assert_eq!(
        store.history().sessions_matching("crab", 1).unwrap().len(),
        1
    );
}

#[test]
fn trashed_sessions_are_hidden_until_restored() {
    let (_dir, mut store) = scratch();
    let kept = titled_session(&mut store, HERE, "kept words");
    let gone = titled_session(&mut store, HERE, "gone words");
    store.trash(gone.session(), 5).unwrap();
    assert_eq!(titles(&store, HERE, false), ["kept words"]);
    assert_eq!(titles(&store, HERE, true), ["gone words"]);
    let newest = store.history().newest(Some(HERE)).unwrap().unwrap();
    assert_eq!(newest.id, kept.session());
    assert_eq!(
        store
            .history()
            .sessions(Default::default(), 9)
            .unwrap()
            .len(),
        1
    );
    for scope in [Scope::All, Scope::Workspace(HERE)] {
        let hits = store
            .index()
            .search("words", scope, Order::Newest, 9)
            .unwrap();
        assert_eq!(hits.len(), 1);
    }
    assert_eq!(store.load(gone.session()).unwrap().1.len(), 2);
    store.restore(gone.session()).unwrap();
    assert_eq!(titles(&store, HERE, false), ["gone words", "kept words"]);
    for nobody in [store.trash("nobody", 1), store.restore("nobody")] {
        assert!(matches!(nobody, Err(StoreError::NotFound { .. })));
    }
}

#[test]
fn going_on_takes_a_session_out_of_the_trash() {
    let (_dir, mut store) = scratch();
    let mut head = titled_session(&mut store, HERE, "words");
    store.trash(head.session(), 5).unwrap();
    append(&mut store, &mut head, vec![said("more")]);
    assert_eq!(titles(&store, HERE, true), Vec::<String>::new());
    assert_eq!(titles(&store, HERE, false), ["words"]);
}

#[test]
fn the_size_is_that_of_the_sessions_own_entries() {
    let (dir, mut store) = scratch();
    let mut head = talk(&mut store, 3);
    let stored = |id: &str| -> u64 {
        let sql = "SELECT sum(length(body)) FROM entries e JOIN sessions s ON s.key = e.session WHERE s.id = ?1";
        let bytes: i64 = raw(dir.path()).query_row(sql, [id], |r| r.get(0)).unwrap();
        bytes as u64
    };
    let info = store.history().find(head.session()).unwrap();
    assert_eq!(info.bytes, stored(head.session()));
    let fork = fork(&mut store, head.session(), 2, 5).unwrap();
    let fork = store.history().find(fork.session()).unwrap();
    assert_eq!(fork.bytes, stored(&fork.id));
    let mut large = batch(vec![]);
    large.blobs = vec![
        (0..9_000_u32)
            .flat_map(|n| blake3::hash(&n.to_le_bytes()).as_bytes()[..4].to_vec())
            .collect(),
    ];
    store.append(&mut head, &large).unwrap();
    assert_eq!(
        store.history().find(head.session()).unwrap().bytes,
        info.bytes + 36_000
    );
}

fn traced(store: &Store, id: &str, upto: Option<u64>, count: u64) -> Vec<Traced> {
    let mut found = Vec::new();
    store
        .history()
        .trace(id, upto, count, |t| {
            found.push(t);
            Ok::<(), StoreError>(())
        })
        .unwrap();
    found
}

#[test]
fn a_session_is_read_in_pieces_from_its_end() {
    let (_dir, mut store) = scratch();
    let mut head = talk(&mut store, 4);
    append(&mut store, &mut head, vec![planned("parse")]);
    let (_, whole) = store.load(head.session()).unwrap();
    for (upto, count, want) in [
        (None, 2, 4..6),
        (Some(3), 2, 2..4),
        (Some(1), 9, 0..2),
        (Some(99), 1, 5..6),
        (None, 99, 0..6),
    ] {
        let found = traced(&store, head.session(), upto, count);
        let records: Vec<_> = found.into_iter().map(|t| t.record).collect();
        assert_eq!(records, whole[want], "{upto:?} {count}");
    }
    let last = traced(&store, head.session(), None, 1).remove(0);
    assert_eq!(last.plan_step.as_deref(), Some("parse"));
}

#[test]
fn forks_and_ancestors_are_found_with_what_they_share() {
    let (_dir, mut store) = scratch();
    let trunk = talk(&mut store, 5);
    let mut early = fork(&mut store, trunk.session(), 1, 5).unwrap();
    let mut branch = fork(&mut store, trunk.session(), 3, 5).unwrap();
    let late = fork(&mut store, trunk.session(), 4, 5).unwrap();
    append(&mut store, &mut branch, vec![said("branch")]);
    append(&mut store, &mut early, vec![said("early")]);
    let twig = fork(&mut store, branch.session(), 2, 5).unwrap();
    let gone = fork(&mut store, branch.session(), 2, 5).unwrap();
    store.trash(gone.session(), 9).unwrap();
    let names = |found: &[rewake::store::Branch]| -> Vec<(String, u64)> {
        found.iter().map(|b| (b.session.clone(), b.upto)).collect()
    };
    let named = |head: &rewake::store::Head, upto| (head.session().to_string(), upto);
    let family = store.history().family(branch.session()).unwrap();
    assert_eq!(names(&family.ancestors), [named(&trunk, 3)]);
    // The one that left the trunk behind the branch is no fork of the branch.
    assert_eq!(names(&family.forks), [named(&early, 1), named(&twig, 2)]);
    let family = store.history().family(twig.session()).unwrap();
    assert_eq!(
        names(&family.ancestors),
        [named(&branch, 2), named(&trunk, 2)]
    );
    assert_eq!(names(&family.forks), [named(&early, 1)]);
    let family = store.history().family(trunk.session()).unwrap();
    assert_eq!(
        names(&family.forks),
        [named(&early, 1), named(&branch, 3), named(&late, 4)]
    );
}
