//! Changes of requests and calls to the files, next to the lines of the tree.

use std::path::Path;

use super::*;
use crate::core::access::Access;
use crate::core::tree::{Item, Tree, diff};
use crate::store::contents::{ContentLocation, NewContent, compress};
use crate::store::{Cause, KnownTree, NewTree};

/// A session whose files are stored.
struct Kept {
    store: Store,
    head: Head,
    last: Option<KnownTree>,
}

impl Kept {
    /// The entry, which names the tree of these files.
    fn add_with(&mut self, files: &[(&str, &str)], entry: impl Fn(String) -> Entry) {
        let mut tree = Tree::default();
        let mut contents = Vec::new();
        for (path, text) in files {
            let bytes = text.as_bytes();
            let hash = *blake3::hash(bytes).as_bytes();
            let data = compress(bytes, None, false).unwrap().data;
            contents.push(NewContent {
                hash,
                bytes: bytes.len() as u64,
                stored: data.len() as u64,
                base: None,
                place: ContentLocation::Row(data),
            });
            let file = Item::File {
                mode: 0o644,
                hash,
                bytes: bytes.len() as u64,
            };
            tree.0.insert(path.as_bytes().to_vec(), file);
        }
        let before = self.last.as_ref().map(|l| l.tree.clone());
        let delta = diff(&before.unwrap_or_default(), &tree);
        let (root, last) = (Path::new(HERE), self.last.as_ref());
        let new = NewTree::new(root, last, &delta, &tree, Cause::Call, contents).unwrap();
        let batch = Batch {
            at_ms: NOW_MS,
            entries: vec![entry(new.name())],
            tree: Some(new.clone()),
            ..Batch::default()
        };
        self.last = Some(KnownTree {
            link: new.link(),
            tree,
        });
        self.store.append(&mut self.head, &batch).unwrap();
    }

    fn add(&mut self, entries: Vec<Entry>) {
        add(&mut self.store, &mut self.head, NOW_MS, entries);
    }

    fn saved(&mut self, files: &[(&str, &str)]) {
        self.add_with(files, |tree| Entry::Saved {
            reason: SaveReason::Files,
            tree: Some(tree),
            why: None,
            clock: None,
        });
    }

    /// Adds a command that starts, and ends without a tree.
    fn ran(&mut self, command: &str) {
        let call = Block::call("bash", format!(r#"{{"command":"{command}"}}"#));
        self.add(vec![replied(vec![call])]);
        let reply = self.head.seq();
        self.add(vec![
            started(reply, Access::Workspace),
            finished(reply, 0, Outcome::done("so"), None),
        ]);
    }
}

fn started(reply: Seq, access: Access) -> Entry {
    Entry::Started {
        call: CallId { reply, index: 0 },
        guard: Guard::Opaque,
        access: Some(access),
    }
}

/// Two requests with commands, an edit, and a change of somebody else; then one at whose end the
/// files are not known.
fn kept(scene: &Scene) {
    let mut store = scene.store();
    let head = begin(&mut store, HERE, NOW_MS);
    let mut it = Kept {
        store,
        head,
        last: None,
    };
    it.add(vec![said("make the tables")]);
    it.saved(&[("a.rs", "one\n"), ("b.rs", "b\n"), ("mine", "m\n")]);
    it.ran("python3 make.py");
    // Its files are recorded after its end.
    it.saved(&[("a.rs", "one\ntwo\n"), ("c.rs", "c\nc\n"), ("mine", "m\n")]);
    // This change was not made by a call.
    it.saved(&[
        ("a.rs", "one\ntwo\n"),
        ("c.rs", "c\nc\n"),
        ("mine", "M\nM\n"),
    ]);
    let edit = r#"{"path":"a.rs","edits":[{"old":"two","new":"2"}]}"#;
    it.add(vec![replied(vec![Block::call("edit", edit)])]);
    let reply = it.head.seq();
    it.add(vec![started(reply, Access::Workspace)]);
    let files = [("a.rs", "one\n2\n"), ("c.rs", "c\nc\n"), ("mine", "M\nM\n")];
    it.add_with(&files, |tree| Entry::Finished {
        call: CallId { reply, index: 0 },
        outcome: Outcome::done("edited"),
        fact: None,
        tree: Some(tree),
    });
    it.add(vec![replied(vec![Block::text("They are made.")])]);
    it.add(vec![said("look at them")]);
    it.ran("touch nothing");
    it.saved(&files);
    it.add(vec![said("and break off")]);
    it.ran("rm -rf b");
}

fn tree(play: &mut Play<'_>, columns: u16, rows: u16) -> Vec<String> {
    let screen = play.screen(columns, rows);
    let line = |line: &str| line.trim_matches('"').trim_end().to_string();
    screen.lines().map(line).collect()
}

#[test]
fn a_request_and_what_was_done_for_it_say_what_they_changed() {
    let scene = Scene::new();
    kept(&scene);
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Right]);
    play.screens("changes");
    let lines = tree(&mut play, 90, 40);
    let line = |words: &str| {
        let found = lines.iter().find(|line| line.contains(words));
        found.unwrap_or_else(|| panic!("{lines:#?}")).as_str()
    };
    // The change outside of calls is not counted: `mine` is not a fourth file.
    assert!(
        line("▌ make the tables").contains("+3 −1 in 3"),
        "{lines:#?}"
    );
    assert!(line("ran python3").contains("+3 −1 in 3"), "{lines:#?}");
    for unchanged in [
        "▌ look at them",
        "touch nothing",
        "▌ and break off",
        "rm -rf b",
    ] {
        assert!(!line(unchanged).contains('+'), "{lines:#?}");
    }
}

#[test]
fn only_lines_on_the_screen_are_asked_about_and_each_once() {
    let scene = Scene::new();
    kept(&scene);
    let mut play = Play::new(&scene);
    play.keys(&[KeyCode::Right]);
    let pane = &mut play.pane;
    let tree = pane.tree.as_mut().unwrap();
    (tree.scroll.top, tree.scroll.height) = (0, 1);
    let asked = pane.seen();
    let Some(HistoryRequest::Changes { lines, .. }) = &asked else {
        panic!("{asked:?}");
    };
    assert_eq!(lines.len(), 1, "the first request");
    assert_eq!(pane.seen(), None, "it is asked already");
    play.ask(asked.unwrap());
    assert_eq!(play.pane.seen(), None, "it is known");
    let tree = play.pane.tree.as_mut().unwrap();
    tree.scroll.height = 20;
    assert!(play.pane.seen().is_some());
}
