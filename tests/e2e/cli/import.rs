//! `rewake import`: the sessions of other agents.

use std::path::Path;

use serde_json::Value;

use crate::scenes::import::*;
use support::{Home, Protocol, Says, Server, git};

#[test]
fn sessions_of_six_agents_are_listed_and_stay_as_they_are() {
    for state in ["killed", "resumed"] {
        let home = with(&[state]);
        let before = files(&home.user());
        let sessions = listed(&home, &["--all"]);
        let agents: Vec<&str> = sessions
            .iter()
            .map(|s| s["agent"].as_str().unwrap())
            .collect();
        let mut sorted = agents.clone();
        sorted.sort_unstable();
        assert_eq!(
            sorted,
            ["claude", "codex", "gemini", "opencode", "pi", "qwen"]
        );
        for session in &sessions {
            let is_gemini = session["agent"] == "gemini";
            assert_eq!(session["open_calls"], u64::from(!is_gemini), "{session}");
            assert_eq!(session["folder"], "/tmp/demo", "{session}");
            assert_eq!(session["imported"], Value::Null);
            assert!(session["bytes"].as_u64().unwrap() > 1_000, "{session}");
            let title = session["title"].as_str().unwrap();
            let has_words = title.contains("marmalade") || title == "Run scripted commands";
            assert!(has_words || session["agent"] == "opencode", "{session}");
            let at_ms = session["updated_ms"].as_i64().unwrap();
            assert!(at_ms > 1_795_000_000_000, "{session}");
        }
        assert_eq!(files(&home.user()), before);
        assert!(home.run(["history"]).expect(0).stdout.is_empty());
    }
}

/// Agents that are killed at their start leave such sessions.
#[test]
fn a_session_without_a_message_is_not_listed() {
    let home = with(&["killed"]);
    let of_codex = |path: &String| path.contains(".codex");
    let file = files(&home.user()).into_keys().find(of_codex).unwrap();
    let first = std::fs::read(&file).unwrap();
    let first = first.split_inclusive(|byte| *byte == b'\n').next().unwrap();
    std::fs::write(&file, first).unwrap();
    assert_eq!(listed(&home, &["--all"]).len(), 5);
    let all = home.run(["import", "--all", "--yes"]).expect(0);
    assert_eq!(all.stdout.lines().count(), 5);
    let named = home.run(["import", &file]).expect(1);
    let why = "it has no message of the user";
    assert!(named.stderr.contains(why), "{}", named.stderr);
    // The list is a cache: the session is read again when it has grown.
    assert_eq!(listed(&home, &["--all"]).len(), 5);
}

#[test]
fn the_list_is_of_this_folder_unless_all_are_wanted() {
    let home = with(&["killed"]);
    let none = home.run(["import"]).expect(0);
    assert!(none.stdout.is_empty());
    assert!(
        none.stderr.contains("rewake import --all lists"),
        "{}",
        none.stderr
    );
    let codex = home.user().join(".codex");
    let moved = home.user().join("elsewhere");
    std::fs::rename(codex, &moved).unwrap();
    let mut command = home.rewake(["import", "--all", "--from", "codex"]);
    command.env("CODEX_HOME", &moved);
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert_eq!(output.lines().count(), 1, "{output}");
    for part in ["codex", "1 call without result", "marmalade", "/tmp/demo"] {
        assert!(output.contains(part), "{part}: {output}");
    }
    // A link to the folder of the agent is followed, as those who share their settings have one.
    std::os::unix::fs::symlink(&moved, home.user().join(".codex")).unwrap();
    assert_eq!(listed(&home, &["--all", "--from", "codex"]).len(), 1);
    let wrong = home.run(["import", "--from", "crush"]).expect(2);
    assert!(
        wrong.stderr.contains("claude, codex, opencode"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn a_check_reports_damage_and_the_exit_code_says_it() {
    let home = with(&["killed"]);
    let sound = home.run(["import", "--check", "--all"]).expect(0);
    assert_eq!(
        sound.stdout.matches("no problems").count(),
        6,
        "{}",
        sound.stdout
    );
    let file = files(&home.user())
        .into_keys()
        .find(|path| path.contains(".claude"))
        .unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.extend(b"\0\0\0\n{\"type\":\"tomorrow\"}\n");
    std::fs::write(&file, bytes).unwrap();
    let damaged = home.run(["import", "--check", &file]).expect(1);
    assert!(
        damaged.stdout.contains("1 damaged line skipped"),
        "{}",
        damaged.stdout
    );
    assert!(
        damaged.stdout.contains("unknown kind tomorrow"),
        "{}",
        damaged.stdout
    );
    let unknown = home
        .run(["import", "--check", "147e5f31-dc4c-4816-84d6-c367fa6b2f71"])
        .expect(2);
    assert!(
        unknown
            .stderr
            .contains("147e5f31-dc4c-4816-84d6-c367fa6b2f70"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn what_is_no_file_is_named_and_never_followed() {
    let home = with(&["killed"]);
    let slug = home.user().join(".claude/projects/-tmp-demo");
    let file = std::fs::read_dir(&slug)
        .unwrap()
        .flatten()
        .next()
        .unwrap()
        .path();
    let away = home.user().join("away.jsonl");
    std::fs::rename(&file, &away).unwrap();
    std::os::unix::fs::symlink(&away, &file).unwrap();
    let fifo = slug.join("fifo.jsonl");
    let made = std::process::Command::new("mkfifo")
        .arg(&fifo)
        .status()
        .unwrap();
    assert!(made.success());
    std::os::unix::fs::symlink("/tmp", home.user().join(".claude/projects/linked")).unwrap();
    let found = home.run(["import", "--all", "--from", "claude"]).expect(0);
    assert!(found.stdout.is_empty(), "{}", found.stdout);
    assert!(
        found
            .stderr
            .contains(&format!("cannot read {}", file.display())),
        "{}",
        found.stderr
    );
    assert!(
        found
            .stderr
            .contains("fifo.jsonl: it is not a regular file"),
        "{}",
        found.stderr
    );
    assert_eq!(
        found.stderr.matches("cannot read").count(),
        2,
        "{}",
        found.stderr
    );
}

#[test]
fn a_damaged_database_is_read_up_to_the_damage() {
    let home = with(&["opencode-1.18.33-resumed"]);
    let data = home.user().join(".local/share/opencode/opencode.db");
    // With its rows in the database itself.
    let connection = rusqlite::Connection::open(&data).unwrap();
    connection
        .pragma_update(None, "journal_mode", "delete")
        .unwrap();
    let root: u32 = connection
        .query_row(
            "SELECT rootpage FROM sqlite_master WHERE name = 'part'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    drop(connection);
    let mut bytes = std::fs::read(&data).unwrap();
    let page = usize::try_from(root - 1).unwrap() * 4_096;
    bytes[page..page + 4_096].fill(0xff);
    std::fs::write(&data, bytes).unwrap();
    let sessions = listed(&home, &["--all"]);
    assert_eq!(sessions.len(), 1);
    let checked = home.run(["import", "--check", "--all"]).expect(1);
    assert!(
        checked.stdout.contains("the table part"),
        "{}",
        checked.stdout
    );
}

#[test]
fn a_title_is_shown_as_text() {
    let home = Home::new();
    let folder = home.user().join(".claude/projects/x");
    std::fs::create_dir_all(&folder).unwrap();
    let line = serde_json::json!({ "type": "user", "uuid": "1", "sessionId": "\u{1b}[31mred",
        "cwd": "/tmp/\u{1b}]0;x\u{7}", "message": { "content": "\u{1b}[2Jwipe\r\u{202e}it" } });
    std::fs::write(folder.join("1.jsonl"), format!("{line}\n")).unwrap();
    let found = home.run(["import", "--all"]).expect(0);
    assert!(found.stdout.contains("wipe"), "{}", found.stdout);
    for bad in ['\u{1b}', '\r', '\u{202e}', '\u{7}'] {
        assert!(!found.stdout.contains(bad), "{:?}", found.stdout);
    }
}

#[test]
fn a_copy_is_shown_searched_and_never_continued_itself() {
    let home = here(&["killed"]);
    let server = Server::start(|_| Says::text("now I know").into());
    home.configure(&server, Protocol::Chat, "");
    let copies = imported(&home);
    let list = home.run(["history"]).expect(0).stdout;
    for agent in copies.keys() {
        assert!(
            list.contains(&format!("{agent}: Please run the two commands")),
            "{list}"
        );
    }
    // The newest one is that of Claude Code.
    assert!(list.lines().next().unwrap().contains("claude: "), "{list}");
    let found = home.run(["history", "marmalade"]).expect(0).stdout;
    assert!(found.lines().count() >= 6, "{found}");
    let shown = home.run(["show", &copies["codex"]]).expect(0).stdout;
    assert!(shown.contains("imported from codex 0.169.0"), "{shown}");
    assert!(shown.contains("source    codex 0.169.0"), "{shown}");
    let stats = home.run(["stats"]).expect(0).stdout;
    assert!(!stats.contains("codex"), "{stats}");

    let nothing = home.run(["-c", "-p", "x"]).expect(2);
    assert!(nothing.stderr.contains("rewake -r"), "{}", nothing.stderr);
    let refused = home.run(["send", &copies["pi"], "hello"]).expect(2);
    let why = "a copy of a session of pi";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
    // A fork of a fork at an entry of the copy has nothing of the copy's mode.
    home.run(["-p", "x", "-r", &copies["pi"]]).expect(0);
    let newest = home.run(["history"]).expect(0).stdout;
    let fork = newest.split_whitespace().next().unwrap().to_string();
    home.run(["fork", &fork, "--at", "2"]).expect(0);
    let newest = home.run(["history"]).expect(0).stdout;
    let second = newest.split_whitespace().next().unwrap().to_string();
    assert_ne!(second, fork);
    let exported = home.run(["export", "--json", &second]).expect(0).stdout;
    assert!(exported.contains("\"from_replica\""), "{exported}");
    // `-c` continues the fork.
    home.run(["-c", "-p", "x"]).expect(0);
}

/// A file of another agent may name any folder of this machine.
#[test]
fn a_copy_continues_only_in_a_folder_that_the_user_chose() {
    let home = with(&["claude-2.1.197-killed"]);
    let server = Server::start(|_| Says::text("now I know").into());
    home.configure(&server, Protocol::Chat, "");
    let folders = std::fs::read_dir(home.user().join(".claude/projects")).unwrap();
    let folder = folders.flatten().next().unwrap().path();
    let mut files = std::fs::read_dir(&folder).unwrap().flatten();
    let file = files.next().unwrap().path();
    let text = std::fs::read_to_string(&file).unwrap();
    let (ssh, other) = (home.user().join(".ssh"), home.workspace().join("../other"));
    std::fs::create_dir_all(ssh.join("sub")).unwrap();
    std::fs::create_dir(&other).unwrap();
    let other = other.canonicalize().unwrap();
    std::os::unix::fs::symlink(&ssh, home.path("link")).unwrap();
    let browser = home.user().join("snap/firefox/common");
    let settings = home.user().join(".config/vivaldi");
    let dotfiles = home.user().join(".dotfiles");
    let certificates = other.join("certificates");
    for folder in [&browser, &settings, &dotfiles, &certificates] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::write(certificates.join("server.key"), "").unwrap();
    git(&dotfiles, &["init"]);
    let refusals = [
        (browser, "folder of settings"),
        (settings, "folder of settings"),
        (certificates, "keys"),
        (dotfiles, "was not confirmed"),
        (home.user(), "home folder"),
        (Path::new("/").to_path_buf(), "is not used"),
        (ssh.clone(), "keys"),
        (ssh.join("sub"), "keys"),
        (home.path("link"), "keys"),
        (home.rewake_home(), "rewake"),
        (other.clone(), "was not confirmed"),
    ];
    for (folder, why) in refusals {
        std::fs::write(&file, text.replace("/tmp/demo", folder.to_str().unwrap())).unwrap();
        let args = ["import", "--new-id", file.to_str().unwrap()];
        let id = home.run(args).expect(0).stdout;
        let refused = home.run(["-p", "x", "-r", id.trim()]).expect(2).stderr;
        assert!(refused.contains(why), "{}: {refused}", folder.display());
        let hint = format!("rewake -C DIR -r {}", id.trim());
        assert!(refused.contains(&hint), "{refused}");
    }
    assert!(server.requests().is_empty());
    // Where the user says it, or starts it, it continues.
    let newest = home.run(["history", "--json"]).expect(0).stdout;
    let newest: Value = serde_json::from_str(&newest).unwrap();
    let id = newest["sessions"][0]["id"].as_str().unwrap().to_string();
    home.run(["-C", other.to_str().unwrap(), "-p", "x", "-r", &id])
        .expect(0);
}

#[test]
fn a_fork_needs_a_folder() {
    let home = with(&["claude-2.1.197-killed"]);
    let server = Server::start(|_| Says::text("now I know").into());
    home.configure(&server, Protocol::Chat, "");
    let path = listed(&home, &["--all"]);
    assert_eq!(path.len(), 1);
    let text = std::fs::read_dir(home.user().join(".claude/projects")).unwrap();
    let folder = text.flatten().next().unwrap().path();
    let file = std::fs::read_dir(&folder)
        .unwrap()
        .flatten()
        .next()
        .unwrap()
        .path();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("/tmp/demo", "/gone/away")).unwrap();
    let id = home
        .run(["import", file.to_str().unwrap()])
        .expect(0)
        .stdout;
    let id = id.trim();
    let refused = home.run(["-p", "x", "-r", id]).expect(2);
    assert!(
        refused.stderr.contains("/gone/away does not exist"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains("rewake -C DIR -r"),
        "{}",
        refused.stderr
    );
    let work = home.workspace();
    let run = home
        .run(["-C", work.to_str().unwrap(), "-p", "x", "-r", id])
        .expect(0);
    assert!(run.stdout.contains("now I know"), "{}", run.stderr);
    home.run(["-c", "-p", "x"]).expect(0);
}

#[test]
fn what_cannot_be_imported_is_named() {
    let home = here(&["claude-2.1.197-killed"]);
    let unknown = home.run(["import", "147e5f31-dead"]).expect(2);
    assert!(
        unknown.stderr.contains("the nearest is 147e5f31-dc4c"),
        "{}",
        unknown.stderr
    );

    let file = home.path("claude.jsonl");
    let source = home.user().join(".claude/projects");
    let folder = std::fs::read_dir(source)
        .unwrap()
        .flatten()
        .next()
        .unwrap()
        .path();
    let first = std::fs::read_dir(&folder)
        .unwrap()
        .flatten()
        .next()
        .unwrap()
        .path();
    let mut bytes = std::fs::read(first).unwrap();
    bytes.extend(b"\0\0\0\n{\"type\":\"assis");
    std::fs::write(&file, &bytes).unwrap();
    let damaged = home.run(["import", "claude.jsonl"]).expect(0);
    assert!(
        damaged.stderr.contains("2 damaged lines skipped"),
        "{}",
        damaged.stderr
    );
    assert_eq!(damaged.stdout.lines().count(), 1);

    std::os::unix::fs::symlink(&file, home.path("link.jsonl")).unwrap();
    for path in ["link.jsonl", "."] {
        let refused = home.run(["import", path]).expect(1);
        assert!(refused.stderr.contains(path), "{}", refused.stderr);
    }
    let newer = "{\"type\":\"tomorrow\"}\n".repeat(9);
    let line =
        "{\"type\":\"user\",\"uuid\":\"1\",\"sessionId\":\"n\",\"message\":{\"content\":\"x\"}}\n";
    std::fs::write(home.path("newer.jsonl"), format!("{line}{newer}")).unwrap();
    let refused = home
        .run(["import", "--from", "claude", "newer.jsonl"])
        .expect(1);
    assert!(
        refused
            .stderr
            .contains("newer than this version of rewake knows"),
        "{}",
        refused.stderr
    );
    std::fs::write(home.path("other.jsonl"), "{}\n").unwrap();
    let refused = home.run(["import", "other.jsonl"]).expect(1);
    assert!(
        refused.stderr.contains("--from names it"),
        "{}",
        refused.stderr
    );
}

/// A database is read as a whole: a list in one folder does not hide the sessions of another.
#[test]
fn a_list_in_one_folder_does_not_hide_sessions_of_another() {
    let home = here(&["opencode-1.18.33-killed"]);
    let data = home.user().join(".local/share/opencode/opencode.db");
    let other = home.path("other");
    std::fs::create_dir(&other).unwrap();
    let connection = rusqlite::Connection::open(data).unwrap();
    let copy = format!(
        "CREATE TEMP TABLE t AS SELECT * FROM session;
         UPDATE t SET id = 'ses_other', directory = '{}';
         INSERT INTO session SELECT * FROM t;
         CREATE TEMP TABLE m AS SELECT * FROM message;
         UPDATE m SET id = id || 'o', session_id = 'ses_other';
         INSERT INTO message SELECT * FROM m;
         CREATE TEMP TABLE p AS SELECT * FROM part;
         UPDATE p SET id = id || 'o', message_id = message_id || 'o', session_id = 'ses_other';
         INSERT INTO part SELECT * FROM p;",
        other.display()
    );
    connection.execute_batch(&copy).unwrap();
    drop(connection);
    home.run(["history"]).expect(0);
    for _ in 0..2 {
        assert_eq!(listed(&home, &[]).len(), 1);
        let there = home.run(["-C", other.to_str().unwrap(), "import", "--json"]);
        let there: Value = serde_json::from_str(&there.expect(0).stdout).unwrap();
        let mut there = there["sessions"].as_array().unwrap().iter();
        assert!(
            there.any(|session| session["id"] == "ses_other"),
            "{there:?}"
        );
        assert_eq!(listed(&home, &["--all"]).len(), 2);
    }
}
