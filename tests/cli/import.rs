//! `rewake import`: the sessions of other agents.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::time::SystemTime;

use serde_json::Value;

use crate::support::Home;

/// Puts the files of these fixtures below the home folder, with the databases decompressed.
fn with(endings: &[&str]) -> Home {
    let home = Home::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import");
    for entry in std::fs::read_dir(fixtures).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if endings.iter().any(|ending| name.ends_with(ending)) {
            copy(&entry.path(), &home.user());
        }
    }
    home
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else if let Some(name) = name.strip_suffix(".gz") {
            let mut bytes = Vec::new();
            let file = std::fs::File::open(&path).unwrap();
            flate2::read::GzDecoder::new(file)
                .read_to_end(&mut bytes)
                .unwrap();
            std::fs::write(to.join(name), bytes).unwrap();
        } else {
            std::fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

fn listed(home: &Home, args: &[&str]) -> Vec<Value> {
    let args = [&["import", "--json"], args].concat();
    let all: Value = serde_json::from_str(&home.run(args).expect(0).stdout).unwrap();
    assert_eq!(all["errors"], serde_json::json!([]));
    all["sessions"].as_array().unwrap().clone()
}

/// Every file below a folder, with its bytes and the time of its last change.
fn files(folder: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let changed = entry.metadata().unwrap().modified().unwrap();
            let bytes = std::fs::read(&path).unwrap();
            found.insert(path.display().to_string(), (bytes, changed));
        }
    }
    found
}

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
