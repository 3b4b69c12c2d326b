//! Tests with repositories that git itself made, and with changes to them.

use super::*;
use std::os::unix::fs::symlink;
use std::process::Command;
use support::git;

fn repository(folder: &Path) {
    fs::create_dir_all(folder.join("src")).unwrap();
    git(folder, &["init", "-q"]);
    fs::write(folder.join("src/a"), "a\n").unwrap();
    fs::write(folder.join("b-longer-name"), "b\n").unwrap();
    git(folder, &["add", "."]);
    git(folder, &["commit", "-qm", "one"]);
}

fn temp() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    (dir, path)
}

/// Creates a repository, and a private one beside it.
fn beside_a_private_one() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let (dir, path) = temp();
    let (mine, private) = (path.join("mine"), path.join("private"));
    repository(&private);
    repository(&mine);
    assert_eq!(plain(&mine), Ok(()));
    (dir, mine, private)
}

fn plain(folder: &Path) -> Result<(), String> {
    is_plain(folder.to_str().unwrap())
}

#[test]
fn a_repository_written_by_git_and_common_tools_is_plain() {
    let (_dir, dir) = temp();
    assert_eq!(plain(&dir), Ok(()));
    let top = dir.join("top");
    repository(&top);
    assert_eq!(plain(&top.join("src")), Ok(()));
    git(
        &top,
        &["remote", "add", "origin", "https://example.com/x.git"],
    );
    git(&top, &["config", "branch.main.merge", "refs/heads/main"]);
    git(
        &top,
        &["config", "branch.main.vscode-merge-base", "origin/main"],
    );
    git(&top, &["config", "remote.origin.gh-resolved", "base"]);
    git(&top, &["config", "core.hooksPath", ".husky/_"]);
    for (name, value) in [
        ("pull.rebase", "true"),
        // Settings for programs that git runs only to transfer, to sign or on request.
        ("core.sshCommand", "ssh -i ~/.ssh/work"),
        ("core.editor", "vim"),
        ("credential.helper", "store"),
        ("credential.https://example.com.username", "ann"),
        ("diff.tool", "meld"),
        ("mergetool.meld.cmd", "meld $BASE"),
        ("commit.gpgSign", "true"),
        ("gpg.format", "ssh"),
        ("user.signingKey", "~/.ssh/id.pub"),
        ("diff.submodule", "log"),
        ("status.submoduleSummary", "false"),
        ("feature.manyFiles", "true"),
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("filter.lfs.smudge", "git-lfs smudge -- %f"),
        ("filter.lfs.process", "git-lfs filter-process"),
        ("filter.lfs.required", "true"),
        ("gpg.ssh.allowedSignersFile", "~/.ssh/allowed"),
        ("blame.ignoreRevsFile", ".git-blame-ignore-revs"),
        ("merge.ours.driver", "true"),
        ("log.showSignature", "false"),
        ("notes.displayRef", "refs/notes/*"),
        ("worktree.useRelativePaths", "true"),
        ("versionsort.suffix", "-rc"),
    ] {
        git(&top, &["config", name, value]);
    }
    git(&top, &["config", "user.name", "Ann \"A\" # B"]);
    git(
        &top,
        &[
            "config",
            "lfs.https://example.com/x.git/info/lfs.access",
            "basic",
        ],
    );
    assert_eq!(plain(&top), Ok(()));
    for version in ["2", "3", "4"] {
        git(&top, &["update-index", "--index-version", version]);
        assert_eq!(plain(&top), Ok(()), "{version}");
    }
    git(&top, &["worktree", "add", "-q", "../tree"]);
    assert_eq!(plain(&dir.join("tree/src")), Ok(()));
    let url = top.to_str().unwrap();
    git(&top, &["submodule", "add", "-q", url, "sub"]);
    assert_eq!(plain(&top), Ok(()));
    assert_eq!(plain(&top.join("sub")), Ok(()));
}

#[test]
fn a_repository_of_the_newer_format_is_plain() {
    let (_dir, top) = temp();
    git(&top, &["init", "-q", "--object-format=sha256"]);
    fs::write(top.join("a"), "a").unwrap();
    git(&top, &["add", "."]);
    assert_eq!(plain(&top), Ok(()));
}

#[test]
fn a_setting_that_runs_or_leads_out_is_in_the_way() {
    for (name, value) in [
        ("core.fsmonitor", "./x"),
        ("core.fsmonitor", "true"),
        ("core.FSMonitor", "./x"),
        ("diff.external", "./x"),
        ("diff.q.textconv", "./x"),
        ("diff.q.command", "./x"),
        ("filter.q.clean", "./x"),
        ("filter.q.process", "./x"),
        ("merge.q.driver", "./x"),
        ("gpg.program", "./x"),
        ("gpg.ssh.program", "./x"),
        ("log.showSignature", "true"),
        ("log.diffMerges", "remerge"),
        ("format.pretty", "%G?"),
        ("pretty.x", "%G?"),
        ("branch.sort", "signature"),
        ("diff.submodule", "diff"),
        ("status.submoduleSummary", "true"),
        ("filter.lfs.clean", "./x"),
        ("filter.lfs.process", "git-lfs filter-process; ./x"),
        ("filter.lfs2.clean", "git-lfs clean -- %f"),
        ("core.pager", "./x"),
        ("core.attributesFile", "/x"),
        ("core.excludesFile", "/x"),
        ("core.alternateRefsCommand", "./x"),
        ("core.worktree", "/"),
        ("core.hooksPath", "~/x"),
        ("include.path", "../x"),
        ("includeIf.gitdir:/.path", "../x"),
        ("mailmap.file", "/etc/passwd"),
        ("blame.ignoreRevsFile", "/etc/passwd"),
        ("blame.ignoreRevsFile", ".env"),
        ("merge.ours.driver", "true; ./x"),
        ("diff.orderFile", "/etc/passwd"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.uploadpack", "./x"),
        ("extensions.partialClone", "origin"),
        ("lfs.extension.x.clean", "./x"),
        ("submodule.x.update", "!./x"),
        ("what.is.this", "1"),
    ] {
        let (_dir, top) = temp();
        repository(&top);
        git(&top, &["config", name, value]);
        assert!(plain(&top.join("src")).is_err(), "{name} = {value}");
    }
}

#[test]
fn a_config_in_another_spelling_is_in_the_way() {
    for text in [
        "[core] fsmonitor = ./x\n",
        "[core]\n\tfsmonitor=./x",
        "[CORE]\nFSMONITOR ./x\n",
        "[core]\nbare = false \\\n[user]\nfsmonitor = ./x\n",
        "[user]\nname = a\\\n[core]\nfsmonitor=./x\n",
        "[user]\nname = a\r[core]\rfsmonitor=./x\n",
        "\u{feff}[core]\nfsmonitor = ./x\n",
        "[user]\nname = a\u{b}\n",
        "[core \"x\"]\nworktree = ..\n[core]\nworktree = /\n[core \"x\"]\nworktree = ..\n",
        "[core]\nworktree = /\nworktree = ..\n",
        "[diff \"q\"]\ntextconv = ./x\n",
        "[diff.q]\ntextconv = ./x\n",
        "fsmonitor = ./x\n",
        "[core]\n\"fsmonitor\" = ./x\n",
    ] {
        let (_dir, top) = temp();
        repository(&top);
        fs::write(top.join(".git/config"), text).unwrap();
        assert!(plain(&top).is_err(), "{text}");
    }
}

#[test]
fn hooks_and_unusual_settings_make_a_repository_not_plain() {
    type Change = (&'static str, fn(&Path));
    let made: [Change; 10] = [
        ("a hook", |top| {
            fs::write(top.join(".git/hooks").join(HOOK), "").unwrap()
        }),
        ("a hook elsewhere", |top| {
            git(top, &["config", "core.hooksPath", "src"]);
            fs::write(top.join("src").join(HOOK), "").unwrap();
        }),
        ("settings of a worktree", |top| {
            fs::write(
                top.join(".git/config.worktree"),
                "[core]\nfsmonitor = ./x\n",
            )
            .unwrap();
        }),
        ("a config that is a link", |top| {
            fs::rename(top.join(".git/config"), top.join("config")).unwrap();
            symlink("../config", top.join(".git/config")).unwrap();
        }),
        ("a link instead of a folder", |top| {
            fs::rename(top.join(".git"), top.join("git")).unwrap();
            symlink("git", top.join(".git")).unwrap();
        }),
        ("a huge config", |top| {
            fs::write(top.join(".git/config"), " \n".repeat(200_000)).unwrap();
        }),
        ("a split index", |top| {
            git(top, &["update-index", "--split-index"]);
        }),
        ("an index that lies about a name", |top| {
            let mut bytes = fs::read(top.join(".git/index")).unwrap();
            // The flags of the first entry end in the length of its name.
            bytes[12 + 40 + 20 + 1] += 1;
            fs::write(top.join(".git/index"), bytes).unwrap();
        }),
        ("a cut index", |top| {
            let bytes = fs::read(top.join(".git/index")).unwrap();
            fs::write(top.join(".git/index"), &bytes[..100]).unwrap();
        }),
        ("a common folder with settings of its own", |top| {
            fs::create_dir(top.join("common")).unwrap();
            fs::write(top.join("common/config"), "[core]\nfsmonitor = ./x\n").unwrap();
            fs::write(top.join(".git/commondir"), "../common\n").unwrap();
        }),
    ];
    for (name, make) in made {
        let (_dir, top) = temp();
        repository(&top);
        assert_eq!(plain(&top), Ok(()));
        make(&top);
        assert!(plain(&top).is_err(), "{name}");
    }
}

#[test]
fn a_bare_repository_in_the_tree_is_in_the_way() {
    let (_dir, top) = temp();
    repository(&top);
    git(&top, &["init", "-q", "--bare", "inner"]);
    fs::create_dir(top.join("inner/deep")).unwrap();
    assert_eq!(plain(&top), Ok(()));
    assert!(plain(&top.join("inner")).is_err());
    assert!(plain(&top.join("inner/deep")).is_err());
    assert!(plain(&top.join(".git")).is_err());
}

#[test]
fn the_repository_around_a_broken_one_counts() {
    let (_dir, top) = temp();
    repository(&top);
    git(&top, &["config", "core.fsmonitor", "./x"]);
    fs::create_dir(top.join("src/.git")).unwrap();
    fs::write(top.join("src/.git/HEAD"), "nonsense").unwrap();
    assert!(plain(&top.join("src")).is_err());
}

#[test]
fn a_repository_elsewhere_is_not_ones_own() {
    let (_dir, dir) = temp();
    let (mine, private) = (dir.join("mine"), dir.join("private"));
    repository(&private);
    fs::create_dir(&mine).unwrap();
    fs::write(mine.join(".git"), "gitdir: ../private/.git\n").unwrap();
    assert!(plain(&mine).is_err());
}

#[test]
fn references_to_another_repository_make_it_not_plain() {
    type Change = (&'static str, fn(&Path, &Path));
    let made: [Change; 7] = [
        ("commondir", |mine, private| {
            let text = format!("{}\n", private.join(".git").display());
            fs::write(mine.join(".git/commondir"), text).unwrap();
        }),
        ("a gitdir that names itself", |mine, private| {
            let own = mine.join("own");
            fs::create_dir(&own).unwrap();
            fs::rename(mine.join(".git"), mine.join("away")).unwrap();
            fs::write(mine.join(".git"), "gitdir: own\n").unwrap();
            fs::write(own.join("HEAD"), "ref: refs/heads/x\n").unwrap();
            fs::write(own.join("gitdir"), mine.join(".git").to_str().unwrap()).unwrap();
            let text = format!("{}\n", private.join(".git").display());
            fs::write(own.join("commondir"), text).unwrap();
        }),
        ("alternates", |mine, private| {
            let text = format!("{}\n", private.join(".git/objects").display());
            fs::create_dir_all(mine.join(".git/objects/info")).unwrap();
            fs::write(mine.join(".git/objects/info/alternates"), text).unwrap();
        }),
        ("a ref", |mine, private| {
            let to = mine.join(".git/refs/heads/deep");
            fs::create_dir(&to).unwrap();
            symlink(private.join(".git/HEAD"), to.join("x")).unwrap();
        }),
        ("a log", |mine, private| {
            fs::remove_file(mine.join(".git/logs/HEAD")).unwrap();
            symlink(private.join(".git/logs/HEAD"), mine.join(".git/logs/HEAD")).unwrap();
        }),
        ("revisions that blame ignores", |mine, private| {
            let link = mine.join(".git-blame-ignore-revs");
            symlink(private.join("b-longer-name"), link).unwrap();
        }),
        ("objects", |mine, private| {
            let _ = fs::remove_dir(mine.join(".git/objects/pack"));
            let pack = private.join(".git/objects/pack");
            symlink(pack, mine.join(".git/objects/pack")).unwrap();
        }),
    ];
    for (name, make) in made {
        let (_dir, mine, private) = beside_a_private_one();
        make(&mine, &private);
        assert!(plain(&mine).is_err(), "{name}");
    }
}

/// git prints lines of these files, for the state or in an error.
#[test]
fn linked_files_that_git_quotes_are_refused() {
    for name in [
        "info/attributes",
        "rebase-merge/done",
        "rebase-merge/git-rebase-todo",
        "sequencer/todo",
        "rebase-apply/next",
        "BISECT_START",
    ] {
        let (_dir, mine, private) = beside_a_private_one();
        let link = mine.join(".git").join(name);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&link);
        symlink(private.join("b-longer-name"), link).unwrap();
        assert!(plain(&mine).is_err(), "{name}");
    }
}

#[test]
fn hooks_that_do_not_run_may_be_links() {
    let (_dir, mine, private) = beside_a_private_one();
    let _ = fs::remove_dir_all(mine.join(".git/hooks"));
    symlink(private.join("src"), mine.join(".git/hooks")).unwrap();
    assert_eq!(plain(&mine), Ok(()));
    fs::write(private.join("src").join(HOOK), "").unwrap();
    assert!(plain(&mine).is_err());
}

#[test]
fn a_worktree_does_not_say_what_format_the_repository_has() {
    let (_dir, top) = temp();
    git(&top, &["init", "-q"]);
    git(&top, &["config", "extensions.worktreeConfig", "true"]);
    let set = |text| fs::write(top.join(".git/config.worktree"), text).unwrap();
    set("[core]\n\tsparseCheckout = true\n");
    assert_eq!(plain(&top), Ok(()));
    set("[extensions]\n\tobjectFormat = sha256\n");
    assert!(plain(&top).is_err());
}

#[test]
fn submodules_are_looked_at() {
    let (_dir, dir) = temp();
    let (top, part) = (dir.join("top"), dir.join("part"));
    repository(&part);
    for version in ["2", "4"] {
        let top = top.with_extension(version);
        repository(&top);
        git(&top, &["submodule", "add", "-q", "../part", "src/part"]);
        git(&top, &["update-index", "--index-version", version]);
        assert_eq!(plain(&top), Ok(()));
        git(&top.join("src/part"), &["config", "core.fsmonitor", "./x"]);
        let why = plain(&top).unwrap_err();
        assert!(why.contains("core.fsmonitor"), "{why}");
    }
    // A repository that git did not create.
    repository(&top);
    repository(&top.join("own"));
    git(&top, &["add", "own"]);
    assert_eq!(plain(&top), Ok(()));
    git(&top.join("own"), &["config", "filter.x.clean", "./x"]);
    assert!(plain(&top).is_err());
}

/// Returns an index with these two files, followed by `more`.
fn index_with(more: impl FnOnce(usize, usize) -> Vec<u8>) -> Vec<u8> {
    let mut bytes = b"DIRC\0\0\0\x02\0\0\0\x02".to_vec();
    let first = bytes.len();
    for name in [b'a', b'b'] {
        bytes.extend([0; 24]);
        bytes.extend(0o100_644_u32.to_be_bytes());
        bytes.extend([0; 12 + 20]);
        bytes.extend([0, 1, name, 0]);
    }
    let end = bytes.len();
    bytes.extend(more(first, end));
    bytes.extend([0; 20]);
    bytes
}

fn extension(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap();
    [&name[..], &length.to_be_bytes(), body].concat()
}

fn numbers(numbers: &[usize]) -> Vec<u8> {
    let each = numbers.iter();
    each.flat_map(|n| u32::try_from(*n).unwrap().to_be_bytes())
        .collect()
}

/// Returns an index of version 4 with files of one path, which only the first one stores.
fn index_of_shared_paths(length: usize, count: u32) -> Vec<u8> {
    let mut bytes = b"DIRC\0\0\0\x04".to_vec();
    bytes.extend(count.to_be_bytes());
    for at in 0..count {
        bytes.extend([0; 24]);
        bytes.extend(0o100_644_u32.to_be_bytes());
        // No time and no size, so git has not written the file.
        bytes.extend([0; 12 + 20]);
        bytes.extend(u16::try_from(length.min(0xfff)).unwrap().to_be_bytes());
        bytes.push(0);
        if at == 0 {
            bytes.extend(vec![b'x'; length]);
        }
        bytes.push(0);
    }
    bytes.extend([0; 20]);
    bytes
}

#[test]
fn shared_paths_of_an_index_take_bounded_memory() {
    let count = |length, count| {
        let mut paths = 0_u32;
        let bytes = index_of_shared_paths(length, count);
        let found = index::entries(&bytes, 20, |_| paths += 1);
        found.map(|found| (paths, found.unwritten.len()))
    };
    assert_eq!(count(4_096, 2), Some((2, 2)));
    assert_eq!(count(4_097, 1), None);
    assert_eq!(count(1_000, 70_000), None);
}

/// git reads a large index with several threads, each starting at a place from a table. With a
/// wrong table it would read entries that are in no order.
#[test]
fn the_tables_of_an_index_name_its_entries() {
    let is_plain = |more: &dyn Fn(usize, usize) -> Vec<u8>| {
        index::entries(&index_with(more), 20, |_| {}).is_some()
    };
    let blocks = |table: &[usize]| extension(b"IEOT", &numbers(&[&[1], table].concat()));
    assert!(is_plain(&|_, _| vec![]));
    assert!(is_plain(&|_, _| extension(b"TREE", b"x")));
    assert!(is_plain(&|first, _| blocks(&[first, 2])));
    assert!(is_plain(&|first, end| blocks(&[
        first,
        1,
        first + (end - first) / 2,
        1
    ])));
    assert!(!is_plain(&|first, _| blocks(&[first, 1])));
    assert!(!is_plain(&|first, _| blocks(&[first, 1, first, 1])));
    assert!(!is_plain(&|first, end| blocks(&[first, 1, end, 1])));
    assert!(!is_plain(&|_, end| blocks(&[end + 8, 2])));
    assert!(!is_plain(&|first, _| blocks(&[first])));
    // The end of the entries: at the very end of the file, even within another extension.
    let end_at = |at: usize| extension(b"EOIE", &[numbers(&[at]), vec![0; 20]].concat());
    assert!(is_plain(&|_, end| end_at(end)));
    assert!(!is_plain(&|_, end| end_at(end + 8)));
    assert!(!is_plain(&|_, end| extension(b"HIDE", &end_at(end + 8))));
}

/// An index that git writes for a number of files that it reads with several threads.
#[test]
fn a_large_index_is_plain() {
    use std::io::Write;
    let (_dir, top) = temp();
    repository(&top);
    git(&top, &["config", "index.threads", "4"]);
    for version in ["2", "4"] {
        let mut run = Command::new("git")
            .args(["update-index", "--index-version", version, "--index-info"])
            .current_dir(&top)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = String::new();
        for number in 0..25_000 {
            let blob = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
            lines.push_str(&format!("100644 {blob}\tmany/{version}/{number}\n"));
        }
        let mut stdin = run.stdin.take().unwrap();
        stdin.write_all(lines.as_bytes()).unwrap();
        drop(stdin);
        assert!(run.wait().unwrap().success());
        let bytes = fs::read(top.join(".git/index")).unwrap();
        assert!(bytes.windows(4).any(|w| w == b"IEOT"), "{version}");
        assert_eq!(plain(&top), Ok(()), "{version}");
    }
}

/// The numbers of its files, which nobody chooses, say whose index it is.
#[test]
fn a_git_folder_elsewhere_is_known_by_the_files_of_its_index() {
    let (_dir, dir) = temp();
    let (top, own) = (dir.join("top"), dir.join("own"));
    repository(&top);
    fs::rename(top.join(".git"), &own).unwrap();
    assert!(is_repository_of(&top, &own));
    let prepared = dir.join("prepared");
    fs::create_dir(&prepared).unwrap();
    assert!(!is_repository_of(&prepared, &own));
    // The same files, but not the very ones.
    fs::copy(top.join("b-longer-name"), prepared.join("b-longer-name")).unwrap();
    assert!(!is_repository_of(&prepared, &own));
    // Those of the other folder, through a link, and as another name.
    symlink(top.join("src"), prepared.join("src")).unwrap();
    assert!(!is_repository_of(&prepared, &own));
    fs::remove_file(prepared.join("b-longer-name")).unwrap();
    fs::hard_link(top.join("b-longer-name"), prepared.join("b-longer-name")).unwrap();
    let dir_of_index = format!("--git-dir={}", own.display());
    git(&top, &[&dir_of_index, "update-index", "-q", "--refresh"]);
    assert!(!is_repository_of(&prepared, &own));
    assert!(is_repository_of(&top, &own));
    // Another device has files of the same numbers. Some programs store no device.
    let index = fs::read(own.join("index")).unwrap();
    let with_devices = |change: fn(&mut [u8])| {
        let mut bytes = index.clone();
        // The entry of `b-longer-name` has 80 bytes.
        for start in [12, 12 + 80] {
            change(&mut bytes[start + 16..start + 20]);
        }
        fs::write(own.join("index"), bytes).unwrap();
        is_repository_of(&top, &own)
    };
    assert!(!with_devices(|device| device[0] ^= 0x80));
    assert!(with_devices(|device| device.fill(0)));
    // The settings name a folder: then it is that one.
    git(&dir, &[&dir_of_index, "config", "core.worktree", "/none"]);
    assert!(!is_repository_of(&top, &own));
}

#[test]
fn a_worktree_of_a_submodule_is_plain_while_git_takes_it_for_one() {
    let (_dir, dir) = temp();
    let (top, tree) = (dir.join("top"), dir.join("tree"));
    repository(&top);
    git(&top, &["config", "core.worktree", ".."]);
    git(&top, &["worktree", "add", "-q", "../tree"]);
    assert_eq!(plain(&tree), Ok(()));
    git(&top, &["config", "extensions.worktreeConfig", "true"]);
    assert!(plain(&tree).is_err());
}
