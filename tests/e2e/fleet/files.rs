//! The files of a shared session: what is sent, and the branch that `rewake fetch` makes of it in
//! another clone. What is compared: git's name of the tree of all files.

use std::path::Path;
use std::process::Command;

use rewake::config::Env;
use rewake::core::tree::{Change, Delta, Item};
use rewake::session::shared_branch::SharedBranch;
use rewake::shared::address::Address;
use rewake::shared::files::{Files, encode_tree, fetch};
use serde_json::Value;

use crate::fleet::postgres::{Postgres, WORKER};
use crate::fleet::{configure, home, newest, play, refused, same, step};
use support::{Home, git};

/// Makes the workspace a repository with one commit.
fn repository(home: &Home) {
    let work = home.workspace();
    git(&work, &["init", "-q", "-b", "main"]);
    for (name, text) in [
        ("kept", "kept\n"),
        ("edited", "old\n"),
        ("deleted", "gone\n"),
        ("deleted later", "gone\n"),
        ("folder/inner", "inner\n"),
        (".gitignore", "ignored\n"),
    ] {
        std::fs::create_dir_all(work.join("folder")).unwrap();
        std::fs::write(work.join(name), text).unwrap();
    }
    git(&work, &["add", "-A"]);
    git(&work, &["commit", "-q", "-m", "first"]);
}

/// Another machine with a clone.
fn clone(server: &Postgres, of: &Home) -> Home {
    let other = Home::new();
    configure(&other, &server.url(WORKER));
    let (from, to) = (of.workspace(), other.workspace());
    std::fs::remove_dir(&to).unwrap();
    let args = ["clone", "-q", from.to_str().unwrap(), to.to_str().unwrap()];
    git(other.user().as_path(), &args);
    other
}

/// Returns the output of git in a folder, with this index if one is given.
#[track_caller]
fn said_with(folder: &Path, index: Option<&Path>, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=a", "-c", "user.email=a@b"]);
    command.args(args).current_dir(folder);
    if let Some(index) = index {
        command.env("GIT_INDEX_FILE", index);
    }
    let run = command.output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "git {args:?}: {said}");
    String::from_utf8(run.stdout).unwrap().trim().to_string()
}

/// Git's name of the tree of all files that are not ignored.
fn tree_of_files(home: &Home) -> String {
    let index = home.path("../index");
    let _ = std::fs::remove_file(&index);
    let work = home.workspace();
    said_with(&work, Some(&index), &["read-tree", "HEAD"]);
    said_with(&work, Some(&index), &["add", "-A"]);
    said_with(&work, Some(&index), &["write-tree"])
}

/// All that a fetch must not change: references, the index, the files.
fn state(home: &Home) -> String {
    let work = home.workspace();
    let refs = git(&work, &["for-each-ref"]);
    let status = git(&work, &["status", "--porcelain", "--ignored"]);
    refs + "\n" + &status + "\n" + &git(&work, &["ls-files", "-s"])
}

fn column_files(server: &Postgres, id: &str) -> Value {
    let json = server.sql(&format!(
        "SELECT files FROM rewake.sessions WHERE id = '{id}'"
    ));
    serde_json::from_str(&json).unwrap_or_else(|e| panic!("{json}: {e}"))
}

const COMMIT: &str = "git -c user.name=m -c user.email=m@m commit -q";

/// A session edits, adds and deletes files, and makes a commit.
fn work() -> Vec<String> {
    let files = "echo new > edited; rm deleted; echo added > -added; mkdir new; \
                 printf 'two\\nlines' > \"new/$(printf 'a\\nb')\"; chmod +x kept; \
                 ln -s ../../outside link; ln -s /etc/passwd new/absolute; echo x > ignored";
    let commit = format!("git add edited new; {COMMIT} -m work; echo later >> edited");
    vec![
        step("", &[files]),
        step("", &[&commit]),
        step("done", &[]).repeat(2),
    ]
}

#[test]
fn another_clone_gets_the_commits_and_the_files() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let first = home(&server, server.port, &work());
    repository(&first);
    let base = git(&first.workspace(), &["rev-parse", "HEAD"]);
    let other = clone(&server, &first);
    first.run(["-p", "work", "--shared"]).expect(0);
    let id = newest(&first);
    let files = column_files(&server, &id);
    assert_eq!(
        (&files["base"], &files["left_out"]),
        (&base.clone().into(), &0.into())
    );
    assert_eq!(
        files["head"],
        git(&first.workspace(), &["rev-parse", "HEAD"])
    );
    // What the commit has is not sent.
    let has = |text: &str| {
        let hash = blake3::hash(text.as_bytes()).to_hex();
        let sql = format!("SELECT count(*) FROM rewake.objects WHERE hash = '\\x{hash}'");
        server.sql(&sql) == "1"
    };
    assert!(has("new\nlater\n") && has("two\nlines") && !has("inner\n"));

    let (branch, mine) = (format!("rewake/{id}"), other.workspace());
    let before = git(&mine, &["ls-files", "-s"]);
    let fetched = other.run(["fetch", &id[..8]]).expect(0).stdout;
    assert!(
        fetched.starts_with(&format!("{branch}: 1 commit")),
        "{fetched}"
    );
    let tree = |home: &Home| {
        git(
            &home.workspace(),
            &["rev-parse", &format!("{branch}^{{tree}}")],
        )
    };
    assert_eq!(tree(&other), tree_of_files(&first));
    let log = git(&mine, &["log", "--format=%s|%an|%ae", &branch]);
    let own = format!("Files of session {id}|rewake|rewake@localhost");
    assert_eq!(
        log.lines().collect::<Vec<_>>(),
        [&own, "work|m|m@m", "first|a|a@b"]
    );
    assert_eq!(git(&mine, &["status", "--porcelain"]), "");
    assert_eq!(git(&mine, &["ls-files", "-s"]), before);
    git(&mine, &["fsck", "--strict"]);

    // Again: the same commit.
    let at = |name: &str| git(&mine, &["rev-parse", name]);
    let old = at(&branch);
    let again = other.run(["fetch", &id, "--json"]).expect(0).stdout;
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(
        (&again["changed"], &again["commit"]),
        (&false.into(), &old.clone().into())
    );

    // After more work it moves forward, with a commit that the machine has now.
    let more = format!("rm 'deleted later' -- -added; {COMMIT} -a -m more; echo end > kept");
    play(
        &first,
        &[
            work()[..2].concat(),
            step("done", &[]),
            step("", &[&more]),
            step("done", &[]).repeat(2),
        ],
    );
    git(&mine, &["config", "user.name", "me"]);
    git(&mine, &["config", "user.email", "me@here"]);
    first.run(["-p", "more", "-r", &id]).expect(0);
    assert_eq!(column_files(&server, &id)["base"], base);
    other.run(["fetch", &id]).expect(0);
    assert_eq!(tree(&other), tree_of_files(&first));
    git(&mine, &["merge-base", "--is-ancestor", &old, &branch]);
    let log = git(&mine, &["log", "--format=%s|%an", &branch]);
    assert!(
        log.contains("more|m") && log.starts_with(&format!("Files of session {id}|me")),
        "{log}"
    );
    same(&server, &first, &id);

    // A branch that a person changed, or works in, stays.
    let new = at(&branch);
    let theirs = git(
        &mine,
        &[
            "commit-tree",
            &format!("{branch}^{{tree}}"),
            "-p",
            &branch,
            "-m",
            "mine",
        ],
    );
    git(&mine, &["branch", "-q", "-f", &branch, &theirs]);
    let here = state(&other);
    refused(
        other.run(["fetch", &id]),
        2,
        &[&branch, "has other commits"],
    );
    assert_eq!(state(&other), here);
    git(&mine, &["branch", "-q", "-f", &branch, &new]);
    git(&mine, &["checkout", "-q", &branch]);
    let here = state(&other);
    refused(other.run(["fetch", &id]), 2, &[&branch, "is checked out"]);
    assert_eq!(state(&other), here);
}

/// A worker puts the files into a fresh clone: what was not committed is not committed there.
#[test]
fn a_fresh_clone_gets_the_files_of_the_work_tree() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let first = home(&server, server.port, &work());
    repository(&first);
    let other = clone(&server, &first);
    first.run(["-p", "work", "--shared"]).expect(0);
    let id = newest(&first);
    let files = Files::read(&column_files(&server, &id).to_string()).unwrap();
    let vars = ["PATH", "HOME"].map(|name| (name, std::env::var(name).unwrap()));
    let env = Env::new(
        vars.iter().map(|(name, value)| (*name, value.as_str())),
        "/",
    );
    let address = Address::read(&server.url(WORKER), &env, None).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let mut log = rewake::shared::postgres::Postgres::new(address);
    let fetched = fetch(&mut log, &id, &files, folder.path());
    let changes = runtime.unwrap().block_on(fetched).unwrap();
    let (mine, theirs) = (other.workspace(), first.workspace());
    let branch = SharedBranch::new(&env, &mine, &id, &files).unwrap();
    branch.lay_out(folder.path(), &changes).unwrap();
    assert_eq!(tree_of_files(&other), tree_of_files(&first));
    let at = |folder: &Path| git(folder, &["rev-parse", "HEAD"]);
    assert_eq!(at(&mine), at(&theirs));
    assert_eq!(
        git(&mine, &["branch", "--show-current"]),
        format!("rewake/{id}")
    );
    let differs = |folder: &Path| git(folder, &["diff", "--name-status", "HEAD"]);
    assert_eq!(differs(&mine), differs(&theirs));
    assert_eq!(
        std::fs::read_link(mine.join("link")).unwrap(),
        Path::new("../../outside")
    );
}

/// An object of somebody else, with its right hash. Returns that.
fn forged(server: &Postgres, id: &str, bytes: &[u8]) -> String {
    let hash = blake3::hash(bytes).to_hex().to_string();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    server.sql(&format!(
        "INSERT INTO rewake.objects VALUES ('{id}', '\\x{hash}', '\\x{hex}') ON CONFLICT DO NOTHING"
    ));
    hash
}

/// Sets a field of the JSON of a session's files.
fn set(server: &Postgres, id: &str, field: &str, value: &str) {
    server.sql(&format!(
        "UPDATE rewake.sessions SET files = jsonb_set(files::jsonb, '{{{field}}}', '\"{value}\"')::text
         WHERE id = '{id}'"
    ));
}

/// A git bundle of commits that somebody made, and its head.
fn bundle(folder: &Path, commit: &str, base: &str) -> Vec<u8> {
    git(folder, &["update-ref", "refs/heads/bad", commit]);
    git(
        folder,
        &[
            "bundle",
            "create",
            "-q",
            "../bad.bundle",
            "bad",
            &format!("^{base}"),
        ],
    );
    std::fs::read(folder.join("../bad.bundle")).unwrap()
}

/// Rows may be written by other programs: the session is named, and the clone stays as it is.
#[test]
fn forged_and_damaged_files_change_nothing() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let first = home(&server, server.port, &work());
    repository(&first);
    let other = clone(&server, &first);
    first.run(["-p", "work", "--shared"]).expect(0);
    let id = newest(&first);
    let here = state(&other);
    let row = column_files(&server, &id);
    server.sql("CREATE TABLE kept AS TABLE rewake.objects");
    let field = |name: &str| row[name].as_str().unwrap().to_string();
    let (base, head) = (field("base"), field("head"));
    let tree = |path: &str| {
        let item = Item::Link {
            target: b"x".into(),
        };
        let change = Change::Put {
            item,
            entered: false,
        };
        encode_tree(&Delta([(path.as_bytes().to_vec(), change)].into())).unwrap()
    };
    let check = |words: &[&str]| {
        let run = other.run(["fetch", &id]);
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
        refused(run, 2, &[words, &[&id[..]]].concat());
        assert_eq!(state(&other), here);
        server.sql("DELETE FROM rewake.objects; INSERT INTO rewake.objects SELECT * FROM kept");
        let row = row.to_string();
        server.sql(&format!(
            "UPDATE rewake.sessions SET files = '{row}' WHERE id = '{id}'"
        ));
    };
    let content = blake3::hash(b"new\nlater\n").to_hex();
    for hash in [content.as_str(), &field("tree_object"), &field("bundle")] {
        let of = format!("WHERE hash = '\\x{hash}'");
        server.sql(&format!("UPDATE rewake.objects SET body = '\\x00' {of}"));
        check(&["does not match its hash"]);
        server.sql(&format!("DELETE FROM rewake.objects {of}"));
        check(&["is missing"]);
    }
    for path in [
        "../x",
        "a/../../x",
        "/x",
        ".git/hooks/post-checkout",
        "a/.GIT/config",
        ".g\u{200c}it/config",
    ] {
        set(
            &server,
            &id,
            "tree_object",
            &forged(&server, &id, &tree(path)),
        );
        check(&["the path "]);
    }
    // Git itself refuses what some file systems take for `.git`.
    for path in [
        "git~1/config",
        ".git /config",
        ".git::$INDEX_ALLOCATION/x",
        ".gitmodules",
    ] {
        set(
            &server,
            &id,
            "tree_object",
            &forged(&server, &id, &tree(path)),
        );
        check(&["its files: "]);
    }
    set(
        &server,
        &id,
        "tree_object",
        &forged(&server, &id, b"garbage"),
    );
    check(&["cannot be unpacked"]);
    // Only what the commit has may be named without a content.
    let item = Item::Link {
        target: b"x".into(),
    };
    let change = Change::Put {
        item,
        entered: true,
    };
    let known = encode_tree(&Delta([(b"unknown".to_vec(), change)].into())).unwrap();
    set(&server, &id, "tree_object", &forged(&server, &id, &known));
    check(&["is not in its commit"]);

    let theirs = first.workspace();
    let blob = git(&theirs, &["rev-parse", "HEAD:kept"]);
    let make_tree = format!("printf '100644 blob {blob}\\t.git\\n' | git mktree");
    let bad_tree = Command::new("sh")
        .args(["-c", &make_tree])
        .current_dir(&theirs)
        .output();
    let bad_tree = String::from_utf8(bad_tree.unwrap().stdout).unwrap();
    let commit = |tree: &str, parents: &[&str]| {
        let args = [&["commit-tree", tree.trim(), "-m", "bad"], parents].concat();
        git(&theirs, &args)
    };
    let with_git = commit(&bad_tree, &["-p", &base]);
    let unrelated = commit("HEAD^{tree}", &[]);
    let whole = bundle(&theirs, &head, &base);
    for (head, bytes, why) in [
        (&head, b"garbage".to_vec(), ""),
        (
            &head,
            format!("# v2 git bundle\n{head} HEAD\n\nPACK").into_bytes(),
            "",
        ),
        (&head, whole[..whole.len() / 2].to_vec(), ""),
        (&"a".repeat(40), whole, "is missing"),
        (&with_git, bundle(&theirs, &with_git, &base), "fsck error"),
        (
            &unrelated,
            bundle(&theirs, &unrelated, &base),
            "does not follow",
        ),
    ] {
        set(&server, &id, "bundle", &forged(&server, &id, &bytes));
        set(&server, &id, "head", head);
        check(&["its commits: ", why]);
    }
    for json in ["{}", "null", "x", "{\"base\": 1}"] {
        server.sql(&format!("UPDATE rewake.sessions SET files = '{json}'"));
        check(&["is not valid"]);
    }
    set(&server, &id, "base", "--upload-pack=touch${IFS}x");
    check(&["is not valid"]);
    other.run(["fetch", &id]).expect(0);
    let got = git(
        &other.workspace(),
        &["rev-parse", &format!("rewake/{id}^{{tree}}")],
    );
    assert_eq!(got, tree_of_files(&first));
}

#[test]
fn a_folder_that_cannot_have_the_branch_is_refused() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let first = home(
        &server,
        server.port,
        &[step("", &["echo x > y"]), step("done", &[]).repeat(2)],
    );
    first.run(["-p", "no repository", "--shared"]).expect(0);
    let id = newest(&first);
    refused(first.run(["fetch", &id]), 2, &[&id, "has no files"]);
    repository(&first);
    first.run(["-p", "work", "--shared"]).expect(0);
    let id = newest(&first);
    let base = column_files(&server, &id)["base"]
        .as_str()
        .unwrap()
        .to_string();
    let other = Home::new();
    configure(&other, &server.url(WORKER));
    refused(other.run(["fetch", &id]), 2, &["is in no git repository"]);
    repository(&other);
    git(
        &other.workspace(),
        &["commit", "-q", "--amend", "-m", "another"],
    );
    let here = state(&other);
    refused(
        other.run(["fetch", &id]),
        2,
        &["has no commit", &base, "git fetch"],
    );
    assert_eq!(state(&other), here);
}

/// A content over the limit is not sent: the branch has that of the commit, and says so.
#[test]
fn large_files_are_left_out_and_counted() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let large = "seq 1000 > large; seq 1000 > folder/inner; echo small > edited";
    let first = home(
        &server,
        server.port,
        &[step("", &[large]), step("done", &[]).repeat(2)],
    );
    let config = first.rewake_home().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text + "[files]\nmax_file_bytes = 2000\n").unwrap();
    repository(&first);
    let other = clone(&server, &first);
    first.run(["-p", "work", "--shared"]).expect(0);
    let id = newest(&first);
    assert_eq!(column_files(&server, &id)["left_out"], 2);
    let run = other.run(["fetch", &id]).expect(0);
    assert!(run.stderr.contains("2 files left out"), "{}", run.stderr);
    let show = |path: &str| {
        git(
            &other.workspace(),
            &["show", &format!("rewake/{id}:{path}")],
        )
    };
    assert_eq!(
        (show("edited"), show("folder/inner")),
        ("small".into(), "inner".into())
    );
    let names = git(
        &other.workspace(),
        &["ls-tree", "--name-only", &format!("rewake/{id}")],
    );
    assert!(!names.contains("large"), "{names}");
}
