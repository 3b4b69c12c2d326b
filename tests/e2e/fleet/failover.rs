//! Failovers to standbys, requests that the server cancels, commits that it does not wait for, its
//! full disk, and clocks that are wrong.

use std::path::PathBuf;

use rewake::store::now_ms;

use crate::fleet::faults::once;
use crate::fleet::postgres::{OWNER, Postgres, WORKER};
use crate::fleet::proxy::{Proxy, Silent};
use crate::fleet::{LIMIT, configure, effects, happened, home, newest, refused, same, step};
use crate::scenes::until;
use support::{Home, Live, run, skip_everywhere};

/// A command that notes its number, and ends when there is a file.
fn until_file(number: usize, file: &str) -> String {
    let command = format!("echo {number} >> effects; until [ -e {file} ]; do sleep 0.05; done");
    step("", &[&command])
}

/// A home whose config names both servers.
fn home_of_both(primary: &Postgres, standby: &Postgres, steps: &[String]) -> Home {
    let home = home(primary, primary.port, steps);
    let (one, two) = (primary.port, standby.port);
    configure(
        &home,
        &format!(
            "postgresql://{WORKER}@127.0.0.1:{one},127.0.0.1:{two}/team?target_session_attrs=read-write"
        ),
    );
    home
}

/// Waits until a command of the home has noted its number.
#[track_caller]
fn began(home: &Home, number: usize) {
    until(|| happened(home).contains_key(&number.to_string()));
}

#[test]
fn a_failover_to_a_synchronous_standby_loses_nothing() {
    let Some(primary) = Postgres::start() else {
        return;
    };
    primary.sql("UPDATE rewake.meta SET lease = '60 s'");
    primary.wait_for_standbys("*");
    let standby = primary.standby();
    standby.sql("ALTER SYSTEM RESET synchronous_standby_names");
    standby.sql("SELECT pg_reload_conf()");
    primary.until(
        "SELECT coalesce(min(sync_state), '') FROM pg_stat_replication",
        |state| state == "sync",
    );
    let steps = [
        effects(5)[..4].concat(),
        until_file(4, "end"),
        effects(7)[5..].concat(),
    ];
    let home = home_of_both(&primary, &standby, &steps);
    let agent = Live::spawn(home.rewake(["-p", "go", "--shared"]));
    began(&home, 4);
    let acknowledged = same(&primary, &home, &newest(&home));
    primary.down("immediate");
    standby.promote();
    std::fs::write(home.path("end"), "").unwrap();
    let run = agent.wait(LIMIT).expect(0);
    assert!(!run.stderr.contains("had lost"), "{}", run.stderr);
    once(&standby, &home, 7);
    let all = same(&standby, &home, &newest(&home));
    assert_eq!(all[..acknowledged.len()], acknowledged[..]);
}

#[test]
fn what_a_standby_that_lagged_lost_is_recorded_again() {
    let Some(primary) = Postgres::start() else {
        return;
    };
    primary.sql("UPDATE rewake.meta SET lease = '60 s'");
    let standby = primary.standby();
    let steps = [
        until_file(0, "end"),
        until_file(1, "late"),
        effects(3)[2..].concat(),
    ];
    let home = home_of_both(&primary, &standby, &steps);
    let agent = Live::spawn(home.rewake(["-p", "go", "--shared"]));
    began(&home, 0);
    standby.until("SELECT count(*) FROM rewake.lines", |n| n != "0");
    standby.sql("ALTER SYSTEM SET primary_conninfo = ''");
    standby.sql("SELECT pg_reload_conf()");
    primary.until("SELECT count(*) FROM pg_stat_replication", |n| n == "0");
    std::fs::write(home.path("end"), "").unwrap();
    began(&home, 1);
    let id = newest(&home);
    let acknowledged = same(&primary, &home, &id);
    primary.down("immediate");
    standby.promote();
    let left = standby.sql("SELECT length FROM rewake.sessions");
    assert!(left.parse::<usize>().unwrap() < acknowledged.len());
    std::fs::write(home.path("late"), "").unwrap();
    refused(agent.wait(LIMIT), 75, &["has lost the last entries"]);
    let run = home.run(["-p", "-r", &id]).expect(0);
    assert!(run.stderr.contains("had lost "), "{}", run.stderr);
    once(&standby, &home, 3);
    let all = same(&standby, &home, &id);
    assert_eq!(all[..acknowledged.len()], acknowledged[..]);
}

/// A host of the address that is switched off answers nothing, and the next one is tried.
#[test]
fn a_host_without_an_answer_is_passed_over() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let home = home(&server, server.port, &effects(2));
    let silent = Silent::new();
    let both = format!("@{},", silent.address());
    configure(&home, &server.url(WORKER).replace('@', &both));
    home.run(["-p", "go", "--shared"]).expect(0);
    once(&server, &home, 2);
}

#[test]
fn cancelled_requests_are_sent_again() {
    let Some(server) = Postgres::start() else {
        return;
    };
    server.sql("UPDATE rewake.meta SET lease = '60 s'");
    let steps = [until_file(0, "end"), effects(2)[1..].concat()];
    let home = home(&server, server.port, &steps);
    let agent = Live::spawn(home.rewake(["-p", "go", "--shared"]));
    began(&home, 0);
    let held = server.hold("SELECT FROM rewake.sessions FOR UPDATE");
    std::fs::write(home.path("end"), "").unwrap();
    for function in ["push_2", "claim_1"] {
        let waits = format!("wait_event_type = 'Lock' AND query LIKE '%rewake.{function}(%'");
        until(|| server.cancel(WORKER, &waits));
    }
    assert_eq!(happened(&home).len(), 1);
    drop(held);
    agent.wait(LIMIT).expect(0);
    once(&server, &home, 2);
}

/// A server that answers a connection and nothing more, as a machine that is frozen.
#[test]
fn a_server_that_is_silent_after_a_connection_ends_the_run() {
    let Some(server) = Postgres::start() else {
        return;
    };
    server.sql("UPDATE rewake.meta SET lease = '3 s'");
    let proxy = Proxy::to(server.port);
    let steps = [until_file(0, "end"), effects(2)[1..].concat()];
    let home = home(&server, proxy.port, &steps);
    let agent = Live::spawn(home.rewake(["-p", "go", "--shared"]));
    began(&home, 0);
    proxy.hold(Some(b"rewake.push_2("));
    proxy.cut();
    std::fs::write(home.path("end"), "").unwrap();
    let words = ["no answer for ", "to continue: rewake -p -r"];
    refused(agent.wait(LIMIT), 75, &words);
    assert_eq!(happened(&home).len(), 1);
    proxy.hold(None);
    home.run(["-p", "-r", &newest(&home)]).expect(0);
    once(&server, &home, 2);
}

/// While the disk of the server is full nothing begins, and the run ends with its lease.
#[test]
fn a_full_disk_of_the_server_ends_the_run() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let Some(disk) = server.small_disk("1m") else {
        return;
    };
    let home = home(&server, server.port, &effects(60));
    configure(&home, &server.url(OWNER));
    home.run(["fleet", "init", "--lease", "3s"]).expect(0);
    configure(&home, &server.url(WORKER));
    let agent = Live::spawn(home.rewake(["-p", "go", "--shared"]));
    began(&home, 1);
    disk.fill();
    let words = ["No space left on device", "to continue: rewake -p -r"];
    refused(agent.wait(LIMIT), 75, &words);
    let id = newest(&home);
    let (before, entries) = (happened(&home), same(&server, &home, &id));
    assert!((2..60).contains(&before.len()), "{before:?}");
    let started = entries.iter().filter(|entry| entry["kind"] == "started");
    assert_eq!(started.count(), before.len());
    refused(home.run(["-p", "-r", &id]), 75, &words);
    assert_eq!(happened(&home), before);
    disk.free();
    home.run(["-p", "-r", &id]).expect(0);
    once(&server, &home, 60);
}

#[test]
fn a_server_that_does_not_wait_for_its_disk_is_refused() {
    let Some(server) = Postgres::start() else {
        return;
    };
    // The connection asks for `on`, which counts before these.
    server.sql(&format!(
        "ALTER ROLE {WORKER} SET synchronous_commit = off;
         ALTER ROLE {WORKER} IN DATABASE team SET synchronous_commit = off;
         ALTER DATABASE team SET synchronous_commit = local;
         CREATE TABLE public.seen (setting text);
         CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           INSERT INTO public.seen VALUES (current_setting('synchronous_commit')); RETURN NULL;
         END $$;
         CREATE TRIGGER note AFTER INSERT ON rewake.lines EXECUTE FUNCTION public.note()"
    ));
    let home = home(&server, server.port, &effects(2));
    home.run(["-p", "go", "--shared"]).expect(0);
    once(&server, &home, 2);
    assert_eq!(server.sql("SELECT DISTINCT setting FROM public.seen"), "on");
    // Something else on the server sets it nevertheless.
    server.sql(
        "CREATE FUNCTION public.hurry() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           PERFORM set_config('synchronous_commit', TG_ARGV[0], true); RETURN NEW;
         END $$",
    );
    let id = newest(&home);
    let entries = same(&server, &home, &id);
    for setting in ["off", "local"] {
        server.sql(&format!(
            "CREATE OR REPLACE TRIGGER hurry BEFORE INSERT OR UPDATE ON rewake.sessions
             FOR EACH ROW EXECUTE FUNCTION public.hurry('{setting}')"
        ));
        let words = ["synchronous_commit is ", setting, "rewake fleet check"];
        refused(home.run(["-p", "more", "-r", &id]), 2, &words);
        refused(home.run(["-p", "more", "--shared"]), 2, &words);
        assert_eq!(same(&server, &home, &id), entries);
    }
    assert_eq!(server.sql("SELECT count(*) FROM rewake.sessions"), "1");
    assert_eq!(happened(&home).len(), 2);
}

/// Waits until a commit of a worker waits for a standby, then cancels the wait: the server commits
/// with a warning. Returns its request.
#[track_caller]
fn cancel_wait(server: &Postgres, after: &str) -> (String, String) {
    let waiting = format!(
        "SELECT query_start, query FROM pg_stat_activity WHERE usename = '{WORKER}'
           AND wait_event = 'SyncRep' AND query_start > '{after}'"
    );
    let found = server.until(&waiting, |row| !row.is_empty());
    until(|| server.cancel(WORKER, "wait_event = 'SyncRep'"));
    let (since, query) = found.split_once('|').unwrap();
    (since.to_string(), query.to_string())
}

/// A commit with a warning is on no standby, so what follows it waits.
#[test]
fn a_wait_for_a_standby_that_was_cancelled_is_no_acknowledgement() {
    let Some(server) = Postgres::start() else {
        return;
    };
    server.sql("UPDATE rewake.meta SET lease = '60 s'");
    let steps = [until_file(0, "end"), effects(2)[1..].concat()];
    let home = home(&server, server.port, &steps);
    let mut agent = None;
    for (number, function) in ["create_1", "push_2"].into_iter().enumerate() {
        server.wait_for_standbys("nobody");
        let agent = agent.get_or_insert_with(|| Live::spawn(home.rewake(["-p", "go", "--shared"])));
        if number == 1 {
            std::fs::write(home.path("end"), "").unwrap();
        }
        let (mut since, query) = cancel_wait(&server, "-infinity");
        assert!(query.contains(function), "{query}");
        for _ in 0..3 {
            let query;
            (since, query) = cancel_wait(&server, &since);
            assert!(query.contains("beat_1"), "{query}");
            assert_eq!(happened(&home).len(), number, "{}", agent.id());
        }
        server.sql("ALTER SYSTEM RESET synchronous_standby_names");
        server.sql("SELECT pg_reload_conf()");
        began(&home, number);
    }
    agent.unwrap().wait(LIMIT).expect(0);
    once(&server, &home, 2);
}

/// The library that gives a program another time (Debian: faketime).
fn faketime() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let mut files = folders.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    files.find(|file| file.is_file())
}

/// A lease ends by the clock of the server, whatever the clock of a worker says.
#[test]
fn a_wrong_clock_changes_no_lease() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let library = faketime();
    if library.is_none() {
        skip_everywhere("faketime (Debian: faketime), so only the time zones differ");
    }
    server.sql("UPDATE rewake.meta SET lease = '10 min'");
    server.sql("ALTER DATABASE team SET timezone = 'Asia/Kathmandu'");
    for (time, zone) in [("+1d", "Etc/GMT+12"), ("-1d", "Pacific/Kiritimati")] {
        let steps = [until_file(0, "end"), step("done", &[])];
        let home = home(&server, server.port, &steps);
        let start = |args: &[&str]| {
            let mut command = home.rewake(args);
            command.env("TZ", zone).env("FAKETIME", time);
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            command.envs(library.as_ref().map(|library| ("LD_PRELOAD", library)));
            command
        };
        let mut agent = Live::spawn(start(&["-p", "go", "--shared"]));
        began(&home, 0);
        let id = newest(&home);
        let held = run(start(&["fleet", "ps", "--json"]), LIMIT).expect(0);
        assert!(held.stdout.contains(&id), "{}", held.stdout);
        assert!(agent.kill());
        agent.wait(LIMIT);
        std::fs::write(home.path("end"), "").unwrap();
        // Of an earlier start of this machine: its lease is waited for.
        let of = format!("WHERE id = '{id}'");
        server.sql(&format!("UPDATE rewake.sessions SET boot = 'earlier' {of}"));
        let claim = ["-p", "-r", &id];
        refused(run(start(&claim), LIMIT), 75, &["for another "]);
        server.sql(&format!(
            "UPDATE rewake.sessions SET lease_until = clock_timestamp() {of}"
        ));
        run(start(&claim), LIMIT).expect(0);
        once(&server, &home, 1);
        if library.is_some() {
            assert!(is_off_by_a_day(&home, &id), "the clock was right");
        }
    }
}

/// Whether the entries of a session have a time about a day away from now.
fn is_off_by_a_day(home: &Home, id: &str) -> bool {
    let store = rewake::store::Store::open(&home.rewake_home()).unwrap();
    let half_a_day = 12 * 3600 * 1000;
    let records = store.load(id).unwrap().1;
    let mut times = records.iter().map(|record| record.at_ms);
    times.all(|at| now_ms().abs_diff(at) > half_a_day)
}
