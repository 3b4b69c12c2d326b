//! Sessions of sub-agents belong to their parent: into the trash, out of it and to their end.

use rewake::core::entry::{Assignment, CallId, Entry};
use rewake::store::{NewSession, SessionFilter, Store, StoreError, new_id};

use crate::scene::Scene;
use crate::story::*;

/// The session of a sub-agent that this one gives a task for its call with this number.
fn child(store: &mut Store, parent: &str, call: u64) -> String {
    let new = NewSession {
        id: new_id(),
        workspace: HERE.into(),
        folder: HERE.into(),
    };
    let assigned = Entry::Assigned(Assignment {
        parent: parent.to_string(),
        call: CallId {
            reply: call,
            index: 0,
        },
        agent: None,
        instructions: String::new(),
        tools: None,
        rules: vec![],
        branch: None,
    });
    let entries = [opened(), assigned, said("look around")];
    store.create_child(&new, parent, 2_000, &entries).unwrap();
    new.id
}

fn parent(store: &mut Store) -> String {
    let mut head = session(store, HERE);
    append(store, &mut head, vec![said("do it")]);
    head.session().to_string()
}

#[test]
fn the_trash_takes_the_children_with_their_parent() {
    let (_dir, mut store) = scratch();
    let parent = parent(&mut store);
    let [first, early, last] = [1, 2, 3].map(|call| child(&mut store, &parent, call));
    let other = self::parent(&mut store);
    let of_other = child(&mut store, &other, 1);
    let is_in = |store: &Store, ids: &[&String]| -> Vec<bool> {
        ids.iter()
            .map(|id| store.history().is_in_trash(id).unwrap())
            .collect()
    };
    let all = [&parent, &first, &early, &last, &other, &of_other];
    // This one came there by itself, and stays.
    store.trash(&early, 3).unwrap();
    store.trash(&parent, 5).unwrap();
    assert_eq!(is_in(&store, &all), [true, true, true, true, false, false]);
    store.restore(&parent).unwrap();
    assert_eq!(
        is_in(&store, &all),
        [false, false, true, false, false, false]
    );
    store.restore(&early).unwrap();
    store.trash(&parent, 7).unwrap();
    // It stands below its parent, so that comes back too.
    store.restore(&last).unwrap();
    assert_eq!(is_in(&store, &all), [false; 6]);
}

#[test]
fn the_trash_is_as_it_was_in_a_rebuilt_database() {
    let scene = Scene::new();
    let mut store = scene.open();
    let parent = parent(&mut store);
    let child = child(&mut store, &parent, 1);
    store.trash(&parent, 5).unwrap();
    drop(store);
    scene.replace_database(None);
    let mut store = scene.open();
    assert!(
        store.history().is_in_trash(&parent).unwrap()
            && store.history().is_in_trash(&child).unwrap()
    );
    store.restore(&parent).unwrap();
    assert!(!store.history().is_in_trash(&child).unwrap());
}

#[test]
fn a_purge_takes_the_children_with_their_parent() {
    let scene = Scene::new();
    let mut store = scene.open();
    let parent = parent(&mut store);
    let [one, two] = [1, 2].map(|call| child(&mut store, &parent, call));
    let other = self::parent(&mut store);
    let stays = child(&mut store, &other, 1);
    // What a fork of a sub-agent shares with it stays with the fork.
    let fork = fork(&mut store, &two, 2, 9).unwrap();
    let fork = fork.session().to_string();
    let place = scene.place();
    let removed = store.purge(&scene.data(), Some(&place), &parent).unwrap();
    assert_eq!(removed.tasks, 2);
    assert_eq!((removed.entries, removed.kept), (2 + 3, 3), "{removed:?}");
    // Not with the database, and not without it.
    for is_lost in [false, true] {
        if is_lost {
            scene.replace_database(None);
        }
        let store = scene.open();
        for gone in [&parent, &one, &two] {
            let found = store.load(gone);
            assert!(matches!(found, Err(StoreError::NotFound { .. })), "{gone}");
        }
        for kept in [&other, &stays, &fork] {
            assert!(!store.load(kept).unwrap().1.is_empty());
        }
        assert_eq!(store.history().children(&other).unwrap().len(), 1);
    }
}

/// Also with words that were left in its input box.
#[test]
fn a_child_is_never_resumed_as_a_session() {
    let (_dir, mut store) = scratch();
    let parent = parent(&mut store);
    let child = child(&mut store, &parent, 1);
    let mut head = store.load(&child).unwrap().0;
    append(&mut store, &mut head, vec![said("and that")]);
    store.inbox_mut().set_input(&child, "left here").unwrap();
    let newest = store.history().newest(Some(HERE)).unwrap().unwrap();
    assert_eq!(newest.id, parent);
    let all = store
        .history()
        .sessions(SessionFilter::default(), 9)
        .unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!(
        store.history().page(Default::default(), 9).unwrap().len(),
        1
    );
    let with_words = store.history().with_input(HERE, 9).unwrap();
    assert!(with_words.iter().all(|(info, _)| info.id != child));
}

/// Who looks for the one that was never worked in does not read the others.
#[test]
fn untouched_children_are_found_newest_first() {
    let (_dir, mut store) = scratch();
    let parent = parent(&mut store);
    let mut untouched = Vec::new();
    for call in 0..1_000 {
        let id = child(&mut store, &parent, call);
        match call % 250 {
            7 => untouched.insert(0, id),
            _ => {
                let mut head = store.load(&id).unwrap().0;
                append(&mut store, &mut head, vec![said("more")]);
            }
        }
    }
    let other = self::parent(&mut store);
    child(&mut store, &other, 1);
    assert_eq!(untouched.len(), 4);
    assert_eq!(
        store.history().untouched_children(&parent, 3, 9).unwrap(),
        untouched
    );
    let newest = store.history().untouched_children(&parent, 3, 2).unwrap();
    assert_eq!(newest, untouched[..2]);
}
