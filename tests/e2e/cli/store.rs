//! A store that is damaged, of another version, or that cannot be written: it is said, and
//! nothing of it is touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::{LIMIT, SCRIPTED, history, play, quiet, refused, scripted, step};
#[cfg(target_os = "linux")]
use support::skip;
use support::{Home, Run, run};

fn used() -> Home {
    let home = scripted(&[step("the first words", &[]), step("the second words", &[])]);
    home.run(["-p", "begin"]).expect(0);
    home
}

fn database(home: &Home) -> PathBuf {
    home.rewake_home().join("rewake.db")
}

/// Everything that needs the store refuses with these words; doctor finds it and goes on.
#[track_caller]
fn all_refuse(home: &Home, words: &[&str]) {
    let commands: [&[&str]; 6] = [
        &["-p", "x"],
        &["-p", "-c"],
        &["history"],
        &["history", "words"],
        &["show", "0"],
        &["fork", "0"],
    ];
    for args in commands {
        refused(home.run(args), 1, words);
    }
    doctor_finds(home, words);
}

#[track_caller]
fn doctor_finds(home: &Home, words: &[&str]) -> Run {
    let run = home.run(["doctor"]).expect(1);
    quiet(&run);
    let found = |word: &&&str| !run.stdout.contains(**word);
    assert_eq!(words.iter().find(found), None, "{}", run.stdout);
    assert!(
        run.stdout.contains("WRONG ") && run.stdout.contains("git"),
        "{}",
        run.stdout
    );
    run
}

#[test]
fn a_text_file_in_its_place_is_kept_beside_and_the_journal_has_all() {
    let home = used();
    let text = "dear diary, ".repeat(1000);
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(home.rewake_home().join(format!("rewake.db{suffix}")));
    }
    fs::write(database(&home), &text).unwrap();
    let run = home.run(["history"]).expect(0);
    assert!(
        run.stderr.contains("rebuilt from the journal"),
        "{}",
        run.stderr
    );
    let files = fs::read_dir(home.rewake_home()).unwrap();
    let names = files.map(|file| file.unwrap().path());
    let kept = |path: &std::path::PathBuf| path.to_string_lossy().contains("rewake.db.damaged-");
    let kept: Vec<_> = names.filter(kept).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::read_to_string(&kept[0]).unwrap(), text);
}

#[test]
fn a_text_file_as_database_is_refused_and_kept_without_journal() {
    let home = used();
    let text = "dear diary, ".repeat(1000);
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(home.rewake_home().join(format!("rewake.db{suffix}")));
    }
    fs::remove_dir_all(home.rewake_home().join("journal")).unwrap();
    fs::write(database(&home), &text).unwrap();
    all_refuse(&home, &["store is damaged", "not a database", "hint"]);
    assert_eq!(fs::read_to_string(database(&home)).unwrap(), text);
}

#[test]
fn another_schema_is_refused_and_kept() {
    let home = used();
    for (schema, words) in [
        (99, ["schema is 99", "update rewake"]),
        (
            9,
            ["schema 9 is from before version 0.1.0", "set REWAKE_HOME"],
        ),
    ] {
        let sqlite = rusqlite::Connection::open(database(&home)).unwrap();
        sqlite.pragma_update(None, "user_version", schema).unwrap();
        drop(sqlite);
        let before = fs::read(database(&home)).unwrap();
        all_refuse(&home, &words);
        assert_eq!(fs::read(database(&home)).unwrap(), before);
    }
}

#[test]
fn flipped_bytes_are_found_wherever_they_are() {
    let home = used();
    checkpoint(&home);
    let whole = fs::read(database(&home)).unwrap();
    let pages = whole.len() / 4096;
    for page in 0..pages {
        let mut bytes = whole.clone();
        for at in (page * 4096 + 16..(page + 1) * 4096).step_by(97) {
            bytes[at] ^= 0x55;
        }
        fs::write(database(&home), &bytes).unwrap();
        for args in [&["history"][..], &["show", "0"], &["-p", "-c"], &["doctor"]] {
            let run = home.run(args);
            quiet(&run);
            assert!(run.code().is_some(), "page {page}: {run:?}");
        }
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(home.rewake_home().join(format!("rewake.db{suffix}")));
        }
    }
    fs::write(database(&home), &whole).unwrap();
    home.run(["doctor"]).expect(0);
}

/// All is in the one file.
fn checkpoint(home: &Home) {
    let sqlite = rusqlite::Connection::open(database(home)).unwrap();
    let truncated = sqlite.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    truncated.unwrap();
}

#[test]
fn a_damaged_entry_is_named_and_a_fork_before_it_works() {
    let home = scripted(&[step("the first words", &[])]);
    home.write_config(&format!("{SCRIPTED}[store]\njournal = false\n"));
    home.run(["-p", "begin"]).expect(0);
    play(&home, &[step("healthy", &[]), step("and well", &[])]);
    home.run(["-p", "the healthy one"]).expect(0);
    let (id, _) = history(&home).remove(1);
    checkpoint(&home);
    let mut bytes = fs::read(database(&home)).unwrap();
    let row = b"\"text\":\"the first words";
    // Pages keep remains of rows that were moved.
    let places = 0..bytes.len() - row.len();
    for at in places.rev() {
        if bytes[at..].starts_with(row) {
            bytes[at + row.len() - 1] ^= 1;
        }
    }
    fs::write(database(&home), bytes).unwrap();

    let words = [
        "entry 2 of session",
        "checksum",
        &format!("rewake fork {id}"),
    ];
    refused(home.run(["show", id.as_str()]), 1, &words);
    refused(home.run(["-p", "x", "-r", id.as_str()]), 1, &words);
    doctor_finds(&home, &words);
    home.run(["-p", "y", "-c"]).expect(0);

    let fork = home.run(["fork", id.as_str()]).expect(0);
    assert!(
        fork.stderr.contains("the copy ends at entry 1"),
        "{}",
        fork.stderr
    );
    let copy = fork.stdout.trim();
    assert_eq!(home.run(["-p", "-r", copy]).expect(0).stdout, "healthy\n");
    let other = home
        .run(["-p", "x", "-r", id.as_str(), "--fork-session"])
        .expect(0);
    assert!(
        other.stderr.contains("the copy ends at entry 1"),
        "{}",
        other.stderr
    );
}

#[test]
fn with_a_damaged_config_doctor_looks_at_the_rest() {
    let home = used();
    home.write_config("modle = \"x\"\n");
    let run = doctor_finds(&home, &["config.toml:1", "\"model\"", "1 problem found"]);
    assert!(run.stdout.contains("ok     store"), "{}", run.stdout);
}

#[test]
fn doctor_has_nothing_to_say_of_what_is_in_order_and_makes_nothing() {
    let home = used();
    let run = home.run(["doctor"]).expect(0);
    quiet(&run);
    assert!(run.stdout.contains("no problems found"), "{}", run.stdout);
    for word in ["script.toml", "1 session, all readable", "s/play", "folder"] {
        assert!(run.stdout.contains(word), "{word} in\n{}", run.stdout);
    }
    let new = Home::new();
    fs::remove_dir(new.rewake_home()).unwrap();
    new.run(["doctor"]).expect(1);
    assert!(!new.rewake_home().exists());
}

#[cfg(target_os = "linux")]
const NAMESPACES: &str = "unshare, and the right to mount in a namespace of its own";

/// The same command where nothing below this folder can be changed, also for root.
#[cfg(target_os = "linux")]
fn read_only(home: &Home, folder: &Path, args: &[&str]) -> Option<Run> {
    let unshare = |script: &str| {
        let program = home.rewake([""; 0]);
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", script]).arg(folder);
        command.arg(program.get_program()).args(args);
        command
            .env_clear()
            .envs(program.get_envs().filter_map(|(k, v)| Some((k, v?))));
        command.current_dir(home.workspace());
        command
    };
    let mount = "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\" \"$0\"";
    let can = unshare(&format!("{mount} 2>/dev/null")).output();
    can.is_ok_and(|output| output.status.success())
        .then(|| run(unshare(&format!("{mount} && cd . && exec \"$@\"")), LIMIT))
}

#[cfg(target_os = "linux")]
#[test]
fn commands_that_cannot_write_the_store_are_refused() {
    let home = used();
    for args in [&["-p", "x"][..], &["-p", "-c", "y"]] {
        let Some(run) = read_only(&home, &home.rewake_home(), args) else {
            return skip(NAMESPACES);
        };
        refused(run, 1, &["Read-only", "REWAKE_HOME"]);
    }
    for args in [
        &["send", "@here", "y"][..],
        &["pause", "@here"],
        &["unblock", "@here"],
    ] {
        let run = read_only(&home, &home.rewake_home(), args).unwrap();
        refused(run, 1, &["Read-only", "REWAKE_HOME"]);
    }
    // Only the file of the database.
    let run = read_only(&home, &database(&home), &["-p", "x"]).unwrap();
    refused(run, 1, &["rewake.db: Read-only", "REWAKE_HOME"]);
    let doctor = read_only(&home, &home.rewake_home(), &["doctor"])
        .unwrap()
        .expect(1);
    quiet(&doctor);
    assert!(doctor.stdout.contains("Read-only"), "{}", doctor.stdout);
    assert!(
        doctor.stdout.contains("1 session, all readable"),
        "{}",
        doctor.stdout
    );
    assert_eq!(history(&home).len(), 1);
}

/// With all in the one file, and with some of it in the write-ahead log.
#[cfg(target_os = "linux")]
#[test]
fn a_read_only_store_can_be_read() {
    let home = used();
    for is_open in [false, true] {
        // Who has it open keeps the log.
        let store = is_open.then(|| {
            let mut store = rewake::store::Store::open(&home.rewake_home()).unwrap();
            let id = store.history().newest(None).unwrap().unwrap().id;
            store.inbox_mut().set_input(&id, "unsent").unwrap();
            store
        });
        let (id, _) = history(&home).remove(0);
        let looks: [(&[&str], &str); 5] = [
            (&["history"], "begin"),
            (&["history", "words"], "words"),
            (&["show", &id], "the first words"),
            (&["export", &id], "the first words"),
            (&["stats"], "s/play"),
        ];
        for (args, words) in looks {
            let Some(run) = read_only(&home, &home.rewake_home(), args) else {
                return skip(NAMESPACES);
            };
            let run = run.expect(0);
            quiet(&run);
            assert!(run.stdout.contains(words), "{args:?}: {run:?}");
            let said = "the session store is only looked at";
            assert_eq!(run.stderr.matches(said).count(), 1, "{args:?}: {run:?}");
        }
        drop(store);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_workspace_that_cannot_be_written_is_told_to_the_model() {
    let home = crate::cli::calling(&[
        ("write", serde_json::json!({"path": "new", "content": "x"})),
        crate::cli::bash("echo x > new"),
    ]);
    let args = ["-p", "x", "--yolo", "--output-format", "stream-json"];
    let Some(run) = read_only(&home, &home.workspace(), &args) else {
        return skip(NAMESPACES);
    };
    let results = crate::cli::results(&run.expect(0));
    assert_eq!(results[0].0, "error");
    assert!(results[0].1.contains("Read-only"), "{results:?}");
    assert!(results[1].1.contains("Read-only"), "{results:?}");
}

/// A session whose entries fill several pages.
fn long(journal: bool) -> (Home, String) {
    let call = |n: u32| {
        step(
            "",
            &[crate::cli::bash(&format!("echo {n} >> effects; seq 1 150"))],
        )
    };
    let mut steps: Vec<String> = (0..14).map(call).collect();
    steps.push(step("over", &[]));
    steps.extend((0..3).map(|_| step("healthy", &[])));
    let home = scripted(&steps);
    home.write_config(&format!("{SCRIPTED}[store]\njournal = {journal}\n"));
    home.run(["-p", "begin", "--yolo"]).expect(0);
    checkpoint(&home);
    let store = rewake::store::Store::open(&home.rewake_home()).unwrap();
    let id = store.history().newest(None).unwrap().unwrap().id;
    (home, id)
}

/// The number behind this word.
fn number(text: &str, word: &str) -> Option<u64> {
    let (_, behind) = text.split_once(word)?;
    behind
        .split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// Each page of the database zeroed in turn: the session goes on, or a fork at its last good
/// entry does, or what is said of the store is true. No command of it runs again.
fn any_page_gone(journal: bool) {
    let (home, id) = long(journal);
    let whole = fs::read(database(&home)).unwrap();
    // Journal and mark are put back with it, or they would know of the runs before.
    let copies = ["journal", "marks"].map(|name| {
        let (from, kept) = (
            home.rewake_home().join(name),
            home.rewake_home().join(format!("kept-{name}")),
        );
        let copy = move |from: &Path, to: &Path| {
            let _ = fs::remove_dir_all(to);
            let copied = Command::new("cp").arg("-a").args([from, to]).status();
            assert!(copied.unwrap().success());
        };
        if journal {
            copy(&from, &kept);
        }
        move || {
            if journal {
                copy(&kept, &from);
            }
        }
    });
    let (mut well, mut forked, mut repaired, mut unreadable) = (0, 0, 0, 0);
    let pages = whole.len() / 4096;
    let no_effect = |page: usize| {
        assert!(!home.workspace().join("effects").exists(), "page {page}");
    };
    // A fork at the entry that is named goes on.
    let forks = |run: &Run| {
        let fork = format!("rewake fork {id} --at ");
        let last = number(&run.stderr, &fork)?;
        refused(home.run(["-p", "more", "-r", &id]), 1, &[&fork]);
        let copy = home.run(["fork", &id, "--at", &last.to_string()]).expect(0);
        let copy = copy.stdout.trim().to_string();
        home.run(["-p", "more", "-r", &copy, "--yolo"]).expect(0);
        Some(last)
    };
    for page in 0..pages {
        let mut bytes = whole.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0);
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(home.rewake_home().join(format!("rewake.db{suffix}")));
        }
        fs::write(database(&home), bytes).unwrap();
        copies.iter().for_each(|put_back| put_back());
        let _ = fs::remove_file(home.workspace().join("effects"));

        let run = home.run(["-p", "-c", "more"]);
        quiet(&run);
        no_effect(page);
        if run.code() == Some(0) {
            well += 1;
            continue;
        }
        let run = refused(run, 1, &["damaged", "hint: "]);
        assert!(!run.stderr.contains("empty"), "page {page}: {}", run.stderr);
        let doctor = home.run(["doctor"]).expect(1);
        assert!(!doctor.stdout.contains("no problems found"), "page {page}");
        if forks(&run).is_some() {
            forked += 1;
            continue;
        }
        assert!(
            run.stderr.contains("rewake doctor --repair"),
            "page {page}: {}",
            run.stderr
        );
        let repair = home.run(["doctor", "--repair"]);
        quiet(&repair);
        if !journal && repair.stderr.contains("nothing was found") {
            unreadable += 1;
            continue;
        }
        let again = home.run(["-p", "-c", "more"]);
        no_effect(page);
        let goes_on = again.code() == Some(0) || forks(&again).is_some();
        assert!(
            goes_on,
            "page {page}: {}{}{}",
            repair.stdout, repair.stderr, again.stderr
        );
        // With a journal all of it comes back.
        assert!(
            !journal || repair.code() == Some(0) && again.code() == Some(0),
            "page {page}: {}{}",
            repair.stdout,
            repair.stderr
        );
        repaired += 1;
    }
    // Without a journal: the first page, that of the schema which names sessions and entries, the
    // sessions, and the first pages of the entries.
    assert!(unreadable <= 5, "{unreadable}");
    assert_eq!(well + forked + repaired + unreadable, pages);
    assert!(journal == (forked == 0), "{well} {forked} {repaired}");
    assert!(repaired < 10, "{well} {forked} {repaired}");
}

#[test]
fn any_lost_page_is_survived_or_reported_without_a_journal() {
    any_page_gone(false);
}

#[test]
fn any_lost_page_is_fully_recovered_with_a_journal() {
    any_page_gone(true);
}
