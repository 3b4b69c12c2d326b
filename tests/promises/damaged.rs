//! Damage is reported: a database is rebuilt from its journal, or its sessions are locked.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::scenes::journal::{at_work, goes_on_and_repeats_nothing, path, wait_for_calls};
use crate::scenes::{LIMIT, play, quiet, refused};
use support::Home;

static GARBAGE: [u8; 50_000] = [b'x'; 50_000];

/// A session that was killed, and a database in which nothing can be read.
fn killed_and_garbage() -> Home {
    let (home, mut live) = at_work();
    wait_for_calls(&home, 4);
    live.kill();
    live.wait(LIMIT);
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(path(&home, &format!("rewake.db{suffix}")));
    }
    fs::write(path(&home, "rewake.db"), GARBAGE).unwrap();
    home
}

#[test]
fn garbage_is_rebuilt_by_a_start_when_all_comes_back() {
    let home = killed_and_garbage();
    goes_on_and_repeats_nothing(&home, "was rebuilt from the journal");
    let kept = fs::read_dir(home.rewake_home()).unwrap().flatten();
    let kept: Vec<PathBuf> = kept
        .map(|file| file.path())
        .filter(|path| path.to_string_lossy().contains("damaged-"))
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::read(&kept[0]).unwrap(), GARBAGE);
}

/// The session's journal, with the line of one entry gone. Its id, and that entry.
fn without_one_line(home: &Home) -> (String, u64) {
    let mut sessions = fs::read_dir(path(home, "journal")).unwrap();
    let folder = sessions.next().unwrap().unwrap().path();
    let text = fs::read_to_string(folder.join("tail.jsonl")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let gap = lines.len() / 2;
    let json = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let (mut header, lost) = (json(lines[0]), json(lines[gap]));
    let seq = lost["seq"].as_u64().unwrap();
    header["first"] = (seq + 1).into();
    header["tip"] = lost["tip"].clone();
    let closed = format!("{}\n", lines[..gap].join("\n"));
    fs::write(folder.join("00000000.closed.jsonl"), closed).unwrap();
    let tail = format!("{header}\n{}\n", lines[gap + 1..].join("\n"));
    fs::write(folder.join("tail.jsonl"), tail).unwrap();
    let id = folder.file_name().unwrap().to_str().unwrap().to_string();
    (id, seq)
}

#[test]
fn an_unrecoverable_entry_blocks_the_session_until_a_fork() {
    let home = killed_and_garbage();
    let (id, gap) = without_one_line(&home);
    let effects = home.read("effects");
    refused(
        home.run(["-p", "-c"]),
        1,
        &["damaged", "rewake doctor --repair"],
    );
    assert_eq!(fs::read(path(&home, "rewake.db")).unwrap(), GARBAGE);

    let repaired = home.run(["doctor", "--repair"]).expect(1);
    quiet(&repaired);
    assert!(
        repaired.stdout.contains("was rebuilt"),
        "{}",
        repaired.stdout
    );
    for step in ["the damaged database", "the journal", "the new database"] {
        assert!(repaired.stderr.contains(step), "{}", repaired.stderr);
    }
    let fork = format!("rewake fork {id} --at {}", gap - 1);
    assert!(repaired.stderr.contains(&fork), "{}", repaired.stderr);
    let held = refused(home.run(["-p", "-c"]), 1, &["in no copy", &fork]);
    let what = format!("entry {gap} of session {id}, recorded between 20");
    assert!(held.stderr.contains(&what), "{}", held.stderr);
    assert!(held.stderr.contains("files may have changed"));
    assert_eq!(home.read("effects"), effects);
    let doctor = home.run(["doctor"]).expect(1);
    assert!(doctor.stdout.contains(&what), "{}", doctor.stdout);
    let forked = home.run(["fork", &id, "--at", &(gap - 1).to_string()]);
    let forked = forked.expect(0);
    assert!(forked.stderr.contains(&what), "{}", forked.stderr);
    // So is the model.
    let lost = format!("A part of this conversation is lost: entry {gap}, recorded between 20");
    let steps = format!("[[step]]\nwhen = '{lost}'\ntext = \"I look first\"\n");
    // Whichever answer of the script is next.
    play(&home, &vec![steps; 20]);
    let run = home.run(["-p", "-c", "go on"]).expect(0);
    assert_eq!(run.stdout.trim(), "I look first");
}
