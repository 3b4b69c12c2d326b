//! A database that was lost, or that is older than what was done: everything comes back from the
//! journal, and no effect is repeated; what is in no copy is held.

use std::fs;

use crate::cli::{LIMIT, bash, calling, play, refused, scripted, step, stream};
pub use crate::scenes::journal::*;

#[test]
fn the_write_ahead_log_removed_after_a_kill() {
    let (home, mut live) = at_work();
    wait_for_calls(&home, 2);
    let sqlite = rusqlite::Connection::open(path(&home, "rewake.db")).unwrap();
    let copied = sqlite.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    copied.unwrap();
    wait_for_calls(&home, 5);
    live.kill();
    live.wait(LIMIT);
    drop(sqlite);
    for name in ["rewake.db-wal", "rewake.db-shm"] {
        let _ = fs::remove_file(path(&home, name));
    }
    let doctor = home.run(["doctor"]);
    if doctor.code() == Some(1) {
        assert!(
            doctor.stdout.contains("older than what was recorded"),
            "{}",
            doctor.stdout
        );
    }
    goes_on_and_repeats_nothing(&home, "resumed");
}

#[test]
fn an_older_copy_put_back_after_a_kill() {
    let (home, mut live) = at_work();
    wait_for_calls(&home, 2);
    let copies = ["rewake.db", "rewake.db-wal"].map(|name| {
        let bytes = fs::read(path(&home, name)).unwrap();
        (name, bytes)
    });
    wait_for_calls(&home, 5);
    live.kill();
    live.wait(LIMIT);
    for name in ["rewake.db", "rewake.db-wal", "rewake.db-shm"] {
        let _ = fs::remove_file(path(&home, name));
    }
    for (name, bytes) in copies {
        fs::write(path(&home, name), bytes).unwrap();
    }
    let doctor = home.run(["doctor"]).expect(1);
    for words in ["older than what was recorded", "--as-is", "put it back"] {
        assert!(doctor.stdout.contains(words), "{}", doctor.stdout);
    }
    goes_on_and_repeats_nothing(&home, "of them from the journal");
}

#[test]
fn the_files_removed_under_a_running_session() {
    let (home, live) = at_work();
    wait_for_calls(&home, 2);
    for name in ["rewake.db", "rewake.db-wal", "rewake.db-shm"] {
        fs::remove_file(path(&home, name)).unwrap();
    }
    let run = live.wait(LIMIT);
    assert_eq!(run.code(), Some(75), "{}", run.stderr);
    assert!(
        run.stderr.contains("was removed, moved or replaced"),
        "{}",
        run.stderr
    );
    assert!(effects(&home).len() < CALLS);
    let doctor = home.run(["doctor"]).expect(1);
    assert!(
        doctor.stdout.contains("the journal has 1 session"),
        "{}",
        doctor.stdout
    );
    goes_on_and_repeats_nothing(&home, "of them from the journal");
}

#[test]
fn a_session_with_lost_entries_is_locked_until_doctor_as_is() {
    let home = calling(&[bash("echo x >> effects")]);
    home.run(["-p", "go", "--yolo"]).expect(0);
    let sqlite = rusqlite::Connection::open(path(&home, "rewake.db")).unwrap();
    let truncated = sqlite.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    truncated.unwrap();
    drop(sqlite);
    let older = fs::read(path(&home, "rewake.db")).unwrap();
    play(&home, &[step("more", &[])]);
    home.run(["-p", "-c", "more"]).expect(0);
    for name in ["rewake.db-wal", "rewake.db-shm"] {
        let _ = fs::remove_file(path(&home, name));
    }
    fs::write(path(&home, "rewake.db"), older).unwrap();
    fs::remove_dir_all(path(&home, "journal")).unwrap();

    let words = [
        "neither in the database nor in its journal",
        "doctor --as-is",
    ];
    for args in [&["-p", "-c", "x"][..], &["-p", "-c", "x", "--fork-session"]] {
        refused(home.run(args), 1, &words);
    }
    let doctor = home.run(["doctor"]).expect(1);
    assert!(doctor.stdout.contains("are locked"), "{}", doctor.stdout);
    home.run(["doctor", "--as-is"]).expect(0);
    play(&home, &[step("as it is", &[])]);
    let run = home.run(["-p", "-c", "x"]).expect(0);
    assert!(!run.stderr.contains("journal"), "{}", run.stderr);
    assert!(
        home.run(["doctor"])
            .expect(0)
            .stdout
            .contains("no problems found")
    );
}

/// Whoever puts it back says so, and the session says it again when it is taken up.
#[test]
fn a_session_reports_a_recovery_by_another_command() {
    for command in [&["history"][..], &["history", "effects"], &["-p", "anew"]] {
        let (home, mut live) = at_work();
        wait_for_calls(&home, 3);
        live.kill();
        live.wait(LIMIT);
        for name in ["rewake.db", "rewake.db-wal", "rewake.db-shm"] {
            let _ = fs::remove_file(path(&home, name));
        }
        if command == ["-p", "anew"] {
            play(&home, &[step("anew", &[])]);
        }
        let first = home.run(command).expect(0);
        assert!(first.stderr.contains("put back"), "{}", first.stderr);
        let doctor = home.run(["doctor"]).expect(0);
        assert!(doctor.stdout.contains("put back"), "{}", doctor.stdout);
        let again = home.run(["history"]).expect(0);
        assert!(!again.stderr.contains("put back"), "{}", again.stderr);

        let (id, _) = crate::cli::history(&home)
            .into_iter()
            .find(|(_, line)| line.contains("  killed "))
            .expect("a session that was killed");
        play(&home, &[step("went on", &[])]);
        let run = home.run(["-p", "-r", &id, "--yolo"]).expect(0);
        assert!(
            run.stderr.contains("of them from the journal"),
            "{}",
            run.stderr
        );
        play(&home, &[step("and on", &[])]);
        let run = home.run(["-p", "-r", &id, "--yolo", "more"]).expect(0);
        assert!(!run.stderr.contains("journal"), "{}", run.stderr);
    }
}

#[test]
fn a_journal_failure_during_a_run_is_reported_once() {
    const BIG: usize = 6;
    let call = |n: usize| {
        let line = format!("seq {n}000000 {n}009999; echo {n} >> effects; sleep 0.1");
        step("", &[bash(&line)])
    };
    let mut steps: Vec<String> = (1..=BIG).map(call).collect();
    steps.push(step("all done", &[]));
    let home = scripted(&steps);
    let live = stream(&home, &["-p", "go", "--yolo"]);
    wait_for_calls(&home, 1);
    fs::rename(path(&home, "journal"), path(&home, "moved")).unwrap();
    fs::write(path(&home, "journal"), "a file in the way").unwrap();
    let run = live.wait(LIMIT);
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    let said = run.stderr.matches("the journal is not written").count();
    assert_eq!(said, 1, "{}", run.stderr);
    assert_eq!(effects(&home).len(), BIG);
    // What it lacks is copied when it can be written again.
    fs::remove_file(path(&home, "journal")).unwrap();
    play(&home, &[step("more", &[])]);
    let run = home.run(["-p", "-c", "more"]).expect(0);
    assert!(!run.stderr.contains("journal"), "{}", run.stderr);
    let doctor = home.run(["doctor"]).expect(0);
    assert!(
        doctor.stdout.contains("ok     journal"),
        "{}",
        doctor.stdout
    );
}

#[test]
fn an_unwritable_journal_is_reported_and_the_session_continues() {
    let home = calling(&[bash("echo x >> effects")]);
    fs::write(path(&home, "journal"), "a file in the way").unwrap();
    let run = home.run(["-p", "go", "--yolo"]).expect(0);
    let said = run.stderr.matches("the journal is not written").count();
    assert_eq!(said, 1, "{}", run.stderr);
    let doctor = home.run(["doctor"]).expect(1);
    assert!(
        doctor.stdout.contains("WRONG  journal"),
        "{}",
        doctor.stdout
    );
    fs::remove_file(path(&home, "journal")).unwrap();
    play(&home, &[step("more", &[])]);
    let run = home.run(["-p", "-c", "more"]).expect(0);
    assert!(!run.stderr.contains("journal"), "{}", run.stderr);
    assert!(
        home.run(["doctor"])
            .expect(0)
            .stdout
            .contains("ok     journal")
    );
}
