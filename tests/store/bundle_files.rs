//! The files of bundles: they arrive as they were, and the trees of one machine are never taken for
//! those of a folder of another.

use std::path::Path;

use rewake::bundle::{Bundle, BundleError, Exporting, Files, Importer, InputFile};
use rewake::core::entry::{Entry, SaveReason};
use rewake::core::tree::{Delta, Item, Marked, Tree, diff};
use rewake::store::contents::{ContentLocation, NewContent, compress};
use rewake::store::{Batch, Cause, ExportView, Head, Keep, KnownTree, NewTree, Store};
use rewake::tools::describe;

use crate::story::*;

fn file(text: &[u8]) -> Item {
    Item::File {
        mode: 0o644,
        hash: *blake3::hash(text).as_bytes(),
        bytes: text.len() as u64,
    }
}

fn tree_of(items: &[(&str, Item)]) -> Tree {
    let items = items
        .iter()
        .map(|(path, item)| (path.as_bytes().to_vec(), item.clone()));
    Tree(items.collect())
}

/// Records a tree with its contents after the last one, and returns its name.
fn keep(
    store: &mut Store,
    head: &mut Head,
    last: &mut Option<KnownTree>,
    items: &[(&str, Item)],
    contents: &[&[u8]],
) -> String {
    let tree = tree_of(items);
    let before = last
        .as_ref()
        .map(|last| last.tree.clone())
        .unwrap_or_default();
    let contents = contents.iter().map(|bytes| {
        let compressed = compress(bytes, None, false).unwrap();
        NewContent {
            hash: *blake3::hash(bytes).as_bytes(),
            bytes: bytes.len() as u64,
            stored: compressed.data.len() as u64,
            base: None,
            place: ContentLocation::Row(compressed.data),
        }
    });
    let new = NewTree::new(
        Path::new(HERE),
        last.as_ref(),
        &diff(&before, &tree),
        &tree,
        Cause::Call,
        contents.collect(),
    );
    let new = new.unwrap();
    let name = new.name();
    let saved = Entry::Saved {
        reason: SaveReason::Files,
        tree: Some(name.clone()),
        why: None,
        clock: None,
    };
    *last = Some(KnownTree {
        link: new.link(),
        tree,
    });
    let batch = Batch {
        tree: Some(new),
        ..batch(vec![saved])
    };
    store.append(head, &batch).unwrap();
    name
}

fn exported(store: &Store, id: &str, files: Files) -> Vec<u8> {
    let view = ExportView::of(store).unwrap();
    let exporting = Exporting::new(&view, &[id.to_string()], files, "far".into(), 5).unwrap();
    exporting.write(Vec::new()).unwrap()
}

fn checked(bytes: &[u8], partial: bool) -> Result<Bundle, BundleError> {
    let input = InputFile::copy(bytes, &std::env::temp_dir())?;
    Bundle::check(input, describe, partial)
}

fn import(store: &mut Store, data: &Path, bundle: &Bundle) -> Result<(), BundleError> {
    let mut importer = Importer {
        store,
        data_dir: data,
        folder: None,
        workspace_of: &|folder| folder.to_string_lossy().into_owned(),
        new_id: false,
        max_file_bytes: 1 << 20,
        now_ms: 9_000,
    };
    importer.import(bundle).map(drop)
}

fn count_of(data: &Path, what: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {what}");
    raw(data).query_row(&sql, [], |row| row.get(0)).unwrap()
}

fn root_of(store: &Store, tree: &str) -> String {
    let root = store.snapshots().tree_root(tree).unwrap();
    root.unwrap().to_string_lossy().into_owned()
}

#[test]
fn files_arrive_with_their_sessions_and_belong_to_no_folder_here() {
    let (_there, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    let mut last = None;
    let raw_bytes = [0xff, 0, 1];
    let large = "line\n".repeat(20_000);
    let first = [
        ("a", file(b"one")),
        ("raw", file(&raw_bytes)),
        ("large", file(large.as_bytes())),
    ];
    let contents = [b"one".as_slice(), &raw_bytes, large.as_bytes()];
    let one = keep(&mut store, &mut head, &mut last, &first, &contents);
    let secret = Item::Marker {
        why: Marked::Secret,
        bytes: 3,
        mtime_ms: 1,
        hash: None,
    };
    let second = [first.as_slice(), &[("b", file(b"two")), (".env", secret)]].concat();
    let two = keep(&mut store, &mut head, &mut last, &second, &[b"two"]);
    let id = head.session().to_string();

    // Without files there are none, and a later bundle brings them.
    let (here, mut other) = scratch();
    let without = checked(&exported(&store, &id, Files::None), false).unwrap();
    import(&mut other, here.path(), &without).unwrap();
    assert_eq!(count_of(here.path(), "trees"), 0);
    let with = checked(&exported(&store, &id, Files::All), false).unwrap();
    assert_eq!((with.files.states(), with.files.contents.len()), (2, 4));
    for _ in 0..2 {
        import(&mut other, here.path(), &with).unwrap();
        assert_eq!(count_of(here.path(), "trees"), 2);
        assert_eq!(count_of(here.path(), "tree_uses"), 2);
    }
    for name in [&one, &two] {
        let (there, here) = (store.snapshots().tree(name), other.snapshots().tree(name));
        let (there, here) = (there.unwrap().unwrap().tree, here.unwrap().unwrap().tree);
        assert_eq!(there, here);
        for hash in here.0.values().filter_map(Item::content) {
            let content = other.snapshots().content(hash).unwrap();
            assert_eq!(content, store.snapshots().content(hash).unwrap());
            assert!(content.is_some());
        }
        assert_eq!(root_of(&other, name), format!("bundle:{HERE}"));
    }
    assert_eq!(other.snapshots().last_tree(Path::new(HERE)).unwrap(), None);
    // A copy exports them again, byte for byte.
    let again = checked(&exported(&other, &id, Files::All), false).unwrap();
    assert_eq!((again.files.states(), again.files.contents.len()), (2, 4));
    let (third_dir, mut third) = scratch();
    import(&mut third, third_dir.path(), &again).unwrap();
    assert_eq!(root_of(&third, &two), format!("bundle:{HERE}"));

    // An equal tree of the folder here becomes one of this folder.
    let mut own = session(&mut third, HERE);
    let same = keep(&mut third, &mut own, &mut None, &first, &[]);
    assert_eq!(same, one);
    assert_eq!(root_of(&third, &one), HERE);
    let known = third.snapshots().last_tree(Path::new(HERE)).unwrap();
    assert_eq!(known.unwrap().link.name, one);

    // The newest state alone needs the trees before it, but not their contents.
    let newest = checked(&exported(&store, &id, Files::Last), false).unwrap();
    assert_eq!((newest.files.states(), newest.files.contents.len()), (2, 4));
    keep(
        &mut store,
        &mut head,
        &mut last,
        &[("b", file(b"two"))],
        &[],
    );
    let newest = checked(&exported(&store, &id, Files::Last), false).unwrap();
    assert_eq!(newest.files.contents.len(), 1);

    // Files that were just imported stay, also if their session is old. Without a session that uses
    // them they go.
    let tidy = |other: Store, since_ms| {
        let keep = Keep {
            since_ms,
            dry_run: false,
        };
        other.tidy_files(here.path(), keep).unwrap();
        Store::open(here.path()).unwrap()
    };
    let other = tidy(other, 8_000);
    assert_eq!(count_of(here.path(), "trees"), 2);
    let other = tidy(other, 10_000);
    assert_eq!(count_of(here.path(), "trees"), 0);
    assert_eq!(count_of(here.path(), "contents"), 0);
    drop(other);
}

#[test]
fn files_over_the_limit_are_refused_before_anything_is_recorded() {
    let (_there, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    let large = vec![b'x'; (1 << 20) + 1];
    let items = [("large", file(&large))];
    keep(&mut store, &mut head, &mut None, &items, &[&large]);
    let bundle = checked(&exported(&store, head.session(), Files::Last), false).unwrap();
    let (here, mut other) = scratch();
    let refused = import(&mut other, here.path(), &bundle).unwrap_err();
    assert!(refused.to_string().contains("files.max_bytes"), "{refused}");
    assert_eq!(count_of(here.path(), "sessions"), 0);
}

#[test]
fn a_session_of_this_store_gets_no_trees() {
    let (dir, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    keep(
        &mut store,
        &mut head,
        &mut None,
        &[("a", file(b"one"))],
        &[b"one"],
    );
    let bytes = exported(&store, head.session(), Files::All);
    raw(dir.path())
        .execute_batch("DELETE FROM tree_uses; DELETE FROM trees; DELETE FROM contents;")
        .unwrap();
    import(&mut store, dir.path(), &checked(&bytes, false).unwrap()).unwrap();
    assert_eq!(count_of(dir.path(), "tree_uses"), 0);
    // A copy of it has them.
    append(&mut store, &mut head, vec![said("here")]);
}

#[test]
fn paths_that_leave_the_folder_refuse_the_bundle() {
    for path in [
        "../x",
        "a/../../x",
        "./x",
        "a//x",
        "a/",
        ".git/hooks/x",
        "a/.GIT/config",
        "/w/../etc/x",
        "a\0b",
    ] {
        let (_there, mut store) = scratch();
        let mut head = session(&mut store, HERE);
        let items = [("a-file", file(b"one")), (path, file(b"two"))];
        let contents = [b"one".as_slice(), b"two"];
        keep(&mut store, &mut head, &mut None, &items, &contents);
        let bytes = exported(&store, head.session(), Files::All);
        for partial in [false, true] {
            let refused = checked(&bytes, partial).err();
            let refused = refused.unwrap_or_else(|| panic!("{path:?} was taken"));
            assert!(matches!(refused, BundleError::Refused { .. }), "{refused}");
        }
    }
}

#[test]
fn every_cut_of_a_bundle_with_files_is_refused_or_gives_whole_files() {
    let (_there, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    let mut last = None;
    let one = [("a", file(b"one"))];
    keep(&mut store, &mut head, &mut last, &one, &[b"one"]);
    let two = [one.as_slice(), &[("b", file(b"two"))]].concat();
    keep(&mut store, &mut head, &mut last, &two, &[b"two"]);
    let bytes = exported(&store, head.session(), Files::All);
    for end in 0..bytes.len() {
        assert!(checked(&bytes[..end], false).is_err(), "cut at {end}");
        if let Ok(bundle) = checked(&bytes[..end], true) {
            let (here, mut other) = scratch();
            import(&mut other, here.path(), &bundle).unwrap();
            let scrubbed = other.check().scrub(None, &mut |_| ()).unwrap();
            assert_eq!(scrubbed.damaged, Vec::<String>::new(), "cut at {end}");
        }
    }
}

/// A tree whose name does not belong to it is refused, whatever else is right.
#[test]
fn a_tree_has_the_name_that_follows_from_it() {
    let (_there, mut store) = scratch();
    let mut head = session(&mut store, HERE);
    keep(
        &mut store,
        &mut head,
        &mut None,
        &[("a", file(b"one"))],
        &[b"one"],
    );
    let view = ExportView::of(&store).unwrap();
    let names = [head.session().to_string()];
    let exporting = Exporting::new(&view, &names, Files::All, "far".into(), 5).unwrap();
    let bytes = exporting.write(Vec::new()).unwrap();
    let lines = crate::bundles::lines(&bytes);
    let changed = |from: &str, to: &str| {
        let lines = lines
            .iter()
            .map(|line| match line.starts_with("{\"tree\"") {
                true => line.replace(from, to),
                false => line.clone(),
            });
        crate::bundles::relinked(lines.collect())
    };
    assert!(checked(&changed("", ""), false).is_ok());
    let tree = lines
        .iter()
        .find(|line| line.starts_with("{\"tree\""))
        .unwrap();
    let tree: serde_json::Value = serde_json::from_str(tree).unwrap();
    let delta = tree["delta"].as_str().unwrap();
    let empty = Delta::default().encode();
    let other = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, empty);
    assert!(checked(&changed(delta, &other), false).is_err());
    let root = tree["root"].as_str().unwrap();
    let relative = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, "w");
    assert!(checked(&changed(root, &relative), false).is_err());
    // A name has one spelling, since the store compares its bytes.
    let name = tree["tree"].as_str().unwrap();
    assert_ne!(name, name.to_uppercase());
    assert!(checked(&changed(name, &name.to_uppercase()), false).is_err());
    // No session comes after the files.
    let mut late = lines.clone();
    let last = late.len() - 1;
    let noted = late
        .iter()
        .position(|line| line.starts_with("{\"seq\":1,"))
        .unwrap();
    let noted = late.remove(noted);
    late.insert(last - 1, noted);
    assert!(checked(&crate::bundles::relinked(late), false).is_err());
}

/// Few bytes can be many long paths.
#[test]
fn a_tree_has_a_maximum_size_in_memory() {
    let paths = (0..400_u32).map(|n| {
        let path = format!("{}{n:04}", "a".repeat(4_000)).into_bytes();
        (path, rewake::core::tree::Change::Gone { left: false })
    });
    let delta = Delta(paths.collect());
    let encoded = delta.encode();
    assert!(encoded.len() < 10_000);
    assert!(delta.size() > 1_600_000);
    assert_eq!(Delta::decode_within(&encoded, delta.size()).unwrap(), delta);
    let refused = Delta::decode_within(&encoded, delta.size() - 1).unwrap_err();
    assert!(refused.contains("too many paths"), "{refused}");
}
