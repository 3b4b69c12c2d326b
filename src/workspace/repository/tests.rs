//! Repositories that git itself made, and what is then done to them.

use super::*;
use std::os::unix::fs::symlink;
use std::process::Command;

fn git(folder: &Path, args: &[&str]) {
    let run = Command::new("git")
        .args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(args)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    assert!(
        run.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&run.stderr)
    );
}

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

fn plain(folder: &Path) -> Result<(), String> {
    is_plain(folder.to_str().unwrap())
}

#[test]
fn what_git_and_its_tools_write_by_themselves_is_plain() {
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
    git(&top, &["config", "pull.rebase", "true"]);
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
        ("core.sshCommand", "./x"),
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
fn what_else_a_repository_may_bring_is_in_the_way() {
    type Change = (&'static str, fn(&Path));
    let made: [Change; 9] = [
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
            git(top, &["update-index", "--split-index"])
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
    // One that git did not make.
    repository(&top);
    repository(&top.join("own"));
    git(&top, &["add", "own"]);
    assert_eq!(plain(&top), Ok(()));
    git(&top.join("own"), &["config", "filter.x.clean", "./x"]);
    assert!(plain(&top).is_err());
}
