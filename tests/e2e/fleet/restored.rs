//! A data folder that lacks what the database has, and the other way round: after a kill between the
//! two, a restored backup, or a failover.

use std::process::Command;

use crate::fleet::postgres::Postgres;
use crate::fleet::{effects, happened, home, newest, play, refused, same, step};
use support::Home;

const ID: &str = "0198aaaa-bbbb-7ccc-8ddd-eeeeffff0000";

/// Keeps a copy of the data folder, or puts it back.
fn copy(home: &Home, back: bool) {
    let here = home.rewake_home();
    let there = here.with_extension("kept");
    let (from, to) = if back { (there, here) } else { (here, there) };
    let _ = std::fs::remove_dir_all(&to);
    let done = Command::new("cp").arg("-a").args([&from, &to]).status();
    assert!(done.unwrap().success());
}

#[test]
fn a_session_that_only_the_database_has_is_continued_under_its_id() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let home = home(&server, server.port, &effects(2));
    home.run(["-p", "first", "--shared"]).expect(0);
    server.sql("TRUNCATE rewake.sessions CASCADE");
    copy(&home, false);
    for already in [2, 6] {
        copy(&home, true);
        play(&home, &effects(2));
        let start = ["-p", "count", "--shared", "--session-id", ID];
        home.run(start).expect(0);
        // As a kill right after the first push, or much later, leaves it.
        copy(&home, true);
        server.sql(&format!(
            "DELETE FROM rewake.lines WHERE seq >= {already}; UPDATE rewake.sessions SET length = {already}, tip = (
               SELECT decode(t, 'hex') FROM (VALUES ('{}')) v (t))",
            tip(&server, already)
        ));
        play(&home, &[effects(2).concat(), step("more", &[]).repeat(3)]);
        home.run(start).expect(0);
        let entries = same(&server, &home, ID);
        assert_eq!(entries[0]["kind"], "opened");
        server.sql("TRUNCATE rewake.sessions CASCADE");
    }
}

/// The tip of the session after this many entries: the lines of the database have it.
fn tip(server: &Postgres, length: u64) -> String {
    let hex = server.sql(&format!(
        "SELECT encode(body, 'hex') FROM rewake.lines WHERE seq = {}",
        length - 1
    ));
    let body: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect();
    let line = zstd::bulk::decompress(&body, 1 << 20).unwrap();
    let line: serde_json::Value = serde_json::from_slice(&line).unwrap();
    line["tip"].as_str().unwrap().to_string()
}

/// Entries that a restored data folder lacks come back only if they are whole.
#[test]
fn a_gap_in_the_database_changes_nothing_here() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let home = home(&server, server.port, &effects(2));
    home.run(["-p", "count", "--shared"]).expect(0);
    let id = newest(&home);
    copy(&home, false);
    play(&home, &[effects(2).concat(), effects(3)[2..].concat()]);
    home.run(["-p", "more", "-r", &id]).expect(0);
    let whole = same(&server, &home, &id).len();
    copy(&home, true);
    server.sql("CREATE TABLE kept AS TABLE rewake.lines");
    for damage in [
        "DELETE FROM rewake.lines WHERE seq = (SELECT max(seq) - 1 FROM kept)",
        "DELETE FROM rewake.lines WHERE seq = (SELECT max(seq) FROM kept)",
        "UPDATE rewake.lines l SET body = k.body, mac = k.mac FROM kept k
         WHERE l.seq = (SELECT max(seq) - 1 FROM kept) AND k.seq = 1",
    ] {
        server.sql(damage);
        let run = home.run(["-p", "again", "-r", &id]);
        refused(run, 2, &["in the database is missing", "rewake fork"]);
        home.run(["show", &id]).expect(0);
        server.sql("DELETE FROM rewake.lines; INSERT INTO rewake.lines SELECT * FROM kept");
    }
    let sessions = home.run(["history", "--json"]).expect(0).stdout;
    assert_eq!(sessions.matches("\"id\"").count(), 1, "{sessions}");
    play(&home, &[effects(2).concat(), step("fine", &[]).repeat(3)]);
    home.run(["-p", "again", "-r", &id]).expect(0);
    assert!(same(&server, &home, &id).len() > whole);
}

#[test]
fn a_session_that_the_database_lost_is_recorded_there_again() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let home = home(&server, server.port, &effects(2));
    home.run(["-p", "count", "--shared"]).expect(0);
    let id = newest(&home);
    server.sql("TRUNCATE rewake.sessions CASCADE");
    play(&home, &[effects(2).concat(), step("more", &[])]);
    let run = home.run(["-p", "more", "-r", &id]).expect(0);
    assert!(run.stderr.contains("had lost"), "{}", run.stderr);
    same(&server, &home, &id);
    assert!(happened(&home).values().all(|n| *n == 1));
}

/// The folder that recorded a session and cannot have its lease reads a copy.
#[test]
fn a_session_of_this_folder_is_read_without_its_lease() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let home = home(&server, server.port, &effects(1));
    home.run(["-p", "count", "--shared"]).expect(0);
    let id = newest(&home);
    server.sql("UPDATE rewake.sessions SET home = 'other'");
    let shown = home.run(["show", &id, "--shared"]).expect(0);
    assert!(shown.stderr.contains("a copy is read"), "{}", shown.stderr);
    let fork = home.run(["fork", &id, "--shared"]).expect(0).stdout;
    play(&home, &[effects(1).concat(), step("continued", &[])]);
    let run = home.run(["-p", "more", "-r", fork.trim()]).expect(0);
    assert!(run.stdout.contains("continued"), "{}", run.stdout);
}

#[test]
fn a_fork_is_not_shared_and_says_so() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let home = home(&server, server.port, &effects(1));
    home.run(["-p", "count", "--shared"]).expect(0);
    let id = newest(&home);
    let run = home.run(["-p", "x", "-r", &id, "--fork-session", "--shared"]);
    refused(run, 2, &["a fork is recorded on this machine only"]);
    let sessions = home.run(["history", "--json"]).expect(0).stdout;
    assert_eq!(sessions.matches("\"id\"").count(), 1, "{sessions}");
}
