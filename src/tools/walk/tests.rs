//! Tests of the ignore rules in a walk, and of the rules that it does not use.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ignore::WalkBuilder;
use proptest::prelude::*;
use serde_json::json;

use super::{MAX_REPOSITORIES, Walk};
use crate::tools::limit::{Limits, Watch};
use crate::tools::test_support::{ResultRoom, done};
use crate::workspace::ignored::{MAX_FILE_BYTES, MAX_LINE_BYTES, MAX_NAMED, MAX_PATTERNS};

/// Returns a room with a file that is ignored, and one that is not.
fn room() -> ResultRoom {
    let room = ResultRoom::new();
    room.put("sub/.gitignore", "*.log\n");
    room.put("sub/a.log", "needle\n");
    room.put("sub/a.txt", "needle\n");
    room
}

/// Checks that `glob` and `grep` do not use the ignore file, and that they say why.
#[track_caller]
fn not_used(room: &ResultRoom, name: &str, why: &str) {
    let said = format!("{} was not used: {why}", room.path(name).display());
    for (tool, arguments) in [
        ("glob", json!({"pattern": "**/*.log"})),
        ("grep", json!({"pattern": "needle"})),
    ] {
        let ran = room.idempotent(tool, arguments);
        let text = done(&ran);
        assert!(text.contains("sub/a.log"), "{tool}: {text}");
        assert!(text.contains(&said), "{tool}: {text}");
    }
}

#[test]
fn an_ignore_file_is_used() {
    let ran = room().idempotent("grep", json!({"pattern": "needle"}));
    assert_eq!(done(&ran), "sub/a.txt\n1:needle\n");
}

#[test]
fn an_ignore_file_that_is_not_regular_is_not_read() {
    for target in ["/dev/zero", "/dev/full"] {
        let room = room();
        fs::remove_file(room.path("sub/.gitignore")).unwrap();
        symlink(target, room.path("sub/.gitignore")).unwrap();
        not_used(&room, "sub/.gitignore", "it is a device");
    }
    let room = room();
    fs::remove_file(room.path("sub/.gitignore")).unwrap();
    for name in ["sub/.gitignore", "sub/.ignore"] {
        let made = std::process::Command::new("mkfifo")
            .arg(room.path(name))
            .status();
        assert!(made.unwrap().success());
        not_used(&room, name, "it is a FIFO");
    }
    room.put(".git/info/x", "");
    symlink("/dev/zero", room.path(".git/info/exclude")).unwrap();
    not_used(&room, ".git/info/exclude", "it is a device");
}

#[test]
fn a_git_file_that_never_ends_is_not_read() {
    let room = room();
    symlink("/dev/zero", room.path("sub/.git")).unwrap();
    let ran = room.idempotent("grep", json!({"pattern": "needle"}));
    assert_eq!(done(&ran), "sub/a.txt\n1:needle\n");
}

#[test]
fn size_and_patterns_are_bounded() {
    let over = MAX_FILE_BYTES as usize + 1;
    let room = room();
    room.put("sub/.gitignore", format!("*.log\n#{}", "x".repeat(over)));
    not_used(&room, "sub/.gitignore", "it has more than 1048576 bytes");
    room.put(
        "sub/.gitignore",
        format!("*.log\n{}", "a\n".repeat(MAX_PATTERNS)),
    );
    not_used(&room, "sub/.gitignore", "too many patterns (10001)");
    room.put(
        "sub/.gitignore",
        format!("*.log\n{}", "x".repeat(MAX_LINE_BYTES + 1)),
    );
    not_used(&room, "sub/.gitignore", "a pattern has 4097 bytes");
    // The patterns of the parent folders count.
    room.put(".gitignore", "a\n".repeat(MAX_PATTERNS));
    room.put("sub/.gitignore", "*.log\n");
    not_used(
        &room,
        "sub/.gitignore",
        "too many patterns (1): together with",
    );
}

#[test]
fn patterns_are_in_force_only_below_their_folder() {
    let room = ResultRoom::new();
    for n in 0..4 {
        room.put(&format!("{n}/.gitignore"), "*.log\n".repeat(MAX_PATTERNS));
        room.put(&format!("{n}/a.log"), "");
    }
    let ran = room.idempotent("glob", json!({"pattern": "**/*.log"}));
    assert!(done(&ran).starts_with("no file matches"), "{ran:?}");
}

#[test]
fn not_all_that_is_not_used_is_named() {
    let room = ResultRoom::new();
    for n in 0..9 {
        room.put(&format!("{n}/x"), "");
        symlink("/dev/zero", room.path(&format!("{n}/.ignore"))).unwrap();
    }
    let text = done(&room.idempotent("glob", json!({"pattern": "*"}))).to_string();
    assert_eq!(text.matches("was not used").count(), MAX_NAMED);
    assert!(
        text.contains("[4 more ignore files were not used]"),
        "{text}"
    );
}

fn git(room: &ResultRoom, args: &[&str]) {
    let mut git = std::process::Command::new("git");
    git.current_dir(&room.ctx.folder).args(args);
    let ran = git.output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
}

#[test]
fn tracked_files_are_found_though_a_rule_ignores_them() {
    let room = room();
    room.put(".gitignore", "scripts/*\nout/\n");
    for name in [
        "scripts/kept.txt",
        "scripts/new.txt",
        "out/deep/kept.txt",
        "out/deep/new.txt",
    ] {
        room.put(name, "needle\n");
    }
    git(&room, &["init", "-q"]);
    git(
        &room,
        &["add", "-f", "scripts/kept.txt", "out/deep/kept.txt"],
    );
    for index in ["2", "4"] {
        git(&room, &["update-index", "--index-version", index]);
        let names = json!({"pattern": "needle", "files_only": true});
        let ran = room.idempotent("grep", names);
        assert_eq!(
            done(&ran),
            "out/deep/kept.txt\nscripts/kept.txt\nsub/a.txt\n"
        );
    }
    let ran = room.idempotent("glob", json!({"pattern": "**/kept.txt"}));
    assert_eq!(done(&ran), "out/deep/kept.txt\nscripts/kept.txt\n");
    // `.ignore` is about searches, so it also applies to tracked files.
    room.put(".ignore", "scripts/\n");
    let ran = room.idempotent("glob", json!({"pattern": "**/kept.txt"}));
    assert_eq!(done(&ran), "out/deep/kept.txt\n");
    std::fs::remove_file(room.path(".ignore")).unwrap();
    // Nothing is tracked in an index that is not understood.
    room.put(".git/index", b"DIRC\0\0\0\x02\0\0\0\x09");
    let ran = room.idempotent("glob", json!({"pattern": "**/kept.txt"}));
    assert!(
        done(&ran).contains("ignored: out, scripts/kept.txt, scripts/new.txt"),
        "{ran:?}"
    );
}

#[test]
fn the_tracked_files_of_a_bounded_number_of_repositories_are_known() {
    let room = room();
    room.put("r00/kept.log", "");
    git(&room, &["init", "-q", "r00"]);
    git(&room, &["-C", "r00", "add", "-f", "kept.log"]);
    let index = fs::read(room.path("r00/.git/index")).unwrap();
    for number in 0..=MAX_REPOSITORIES {
        room.put(&format!("r{number:02}/kept.log"), "");
        room.put(&format!("r{number:02}/.gitignore"), "*.log\n");
        room.put(&format!("r{number:02}/.git/index"), &index);
    }
    let ran = room.idempotent("glob", json!({"pattern": "**/kept.log"}));
    assert_eq!(done(&ran).lines().count(), MAX_REPOSITORIES, "{ran:?}");
}

#[test]
fn linked_folders_are_named_when_nothing_is_found() {
    let mut room = room();
    room.put("items/foo/README.md", "needle\n");
    std::fs::create_dir(room.path("cat")).unwrap();
    symlink("../items/foo", room.path("cat/foo")).unwrap();
    symlink("../items/foo/README.md", room.path("cat/file")).unwrap();
    let said = "[not searched: linked folders: cat/foo; name one";
    for (tool, arguments) in [
        ("glob", json!({"pattern": "cat/*/*.md"})),
        ("grep", json!({"pattern": "needle", "path": "cat"})),
    ] {
        let text = done(&room.idempotent(tool, arguments)).to_string();
        assert!(text.contains(said), "{tool}: {text}");
    }
    let ran = room.idempotent("grep", json!({"pattern": "needle", "path": "cat/foo"}));
    assert_eq!(done(&ran), "items/foo/README.md\n1:needle\n");
    // The name of a file that a rule hides is not given away.
    room.hide(&["Read(cat/foo)"]);
    let text = done(&room.idempotent("glob", json!({"pattern": "cat/*/*.md"}))).to_string();
    assert_eq!(text, "no file matches cat/*/*.md\n");
}

#[test]
fn at_most_three_of_a_kind_are_named() {
    let room = ResultRoom::new();
    for n in 0..9 {
        room.put(&format!(".hidden{n}"), "");
    }
    let text = done(&room.idempotent("glob", json!({"pattern": "*.rs"}))).to_string();
    assert!(
        text.contains("hidden: .hidden0, .hidden1, .hidden2, …; name"),
        "{text}"
    );
}

fn names() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", ".c", "d.log", "e.txt"]).prop_map(str::to_string)
}

fn pattern() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a", "b", ".c", "*.log", "*", "**", "?", "[ab]", ".*", "e.txt", "\\!a", "#",
    ]);
    let parts = prop::collection::vec(part, 1..3);
    (any::<bool>(), any::<bool>(), parts, any::<bool>()).prop_map(
        |(keeps, anchored, parts, only_folders)| {
            format!(
                "{}{}{}{}",
                if keeps { "!" } else { "" },
                if anchored { "/" } else { "" },
                parts.join("/"),
                if only_folders { "/" } else { "" }
            )
        },
    )
}

/// Folders with their files, and with the patterns of their ignore files.
type Tree = Vec<(Vec<String>, Option<usize>, Vec<String>)>;

fn tree() -> impl Strategy<Value = Tree> {
    let path = prop::collection::vec(names(), 1..4);
    let kind = prop::option::weighted(0.4, 0usize..4);
    prop::collection::vec((path, kind, prop::collection::vec(pattern(), 1..4)), 1..14)
}

fn plant(root: &Path, tree: &Tree) {
    const FILES: [&str; 4] = [".gitignore", ".ignore", ".git/info/exclude", ".git/HEAD"];
    for (path, kind, patterns) in tree {
        let path: PathBuf = path.iter().collect();
        let file = match kind {
            Some(kind) => root.join(path).join(FILES[*kind]),
            None => root.join(path),
        };
        // An existing file in its way stays.
        if fs::create_dir_all(file.parent().unwrap()).is_ok() && !file.exists() {
            fs::write(file, patterns.join("\r\n")).unwrap();
        }
    }
    fs::write(root.join(".gitignore"), tree[0].2.join("\n")).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_meaning_is_that_of_the_crate(tree in tree(), with_dots: bool, at in any::<prop::sample::Index>()) {
        let room = tempfile::tempdir().unwrap();
        let whole = room.path().canonicalize().unwrap();
        plant(&whole, &tree);
        // Also from a subfolder, for which the ignore files of its parents count.
        let mut folders = vec![whole.clone()];
        folders.extend(tree.iter().map(|(path, ..)| whole.join(&path[0])).filter(|p| p.is_dir()));
        let root = &folders[at.index(folders.len())];
        let crates: BTreeSet<PathBuf> = WalkBuilder::new(root)
            .hidden(!with_dots)
            .require_git(false)
            .git_global(false)
            .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git")
            .build()
            .map(|entry| entry.unwrap().into_path())
            .filter(|path| path != root)
            .collect();
        let on = AtomicBool::new(false);
        let watch = Watch::new(Limits::TOOL, &on);
        let ours: Vec<PathBuf> = Walk::new(root, with_dots, &Arc::default(), &watch)
            .map(|found| found.unwrap().path)
            .collect();
        prop_assert!(ours.is_sorted(), "{:?}", ours);
        prop_assert_eq!(ours.into_iter().collect::<BTreeSet<_>>(), crates);
    }
}
