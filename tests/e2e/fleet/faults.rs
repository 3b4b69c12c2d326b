//! Kills, lost answers, a database that is away, machines that are copies of each other, and a
//! database that forgot.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::fleet::postgres::{OWNER, Postgres};
use crate::fleet::proxy::Proxy;
use crate::fleet::{LIMIT, effects, happened, home, newest, play, refused, same, step, until};
pub use crate::scenes::fleet::*;
use support::{Home, Live, Seed, run};

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(status.unwrap().success());
}

/// The process ended when the database had the entries and the store had not.
#[test]
fn entries_that_only_the_database_has_come_back() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let home = home(&server, server.port, &effects(2));
    home.run(["-p", "go", "--shared"]).expect(0);
    let id = newest(&home);
    let all = same(&server, &home, &id);
    let kept = home.rewake_home().with_extension("kept");
    copy(&home.rewake_home(), &kept);
    play(
        &home,
        &[
            effects(2).concat(),
            step("", &["echo 2 >> effects"]),
            step("more", &[]),
        ],
    );
    home.run(["-p", "more", "-r", &id]).expect(0);
    let longer = same(&server, &home, &id);
    assert!(longer.len() > all.len());
    std::fs::remove_dir_all(home.rewake_home()).unwrap();
    std::fs::rename(&kept, home.rewake_home()).unwrap();
    play(&home, &[step("", &[]).repeat(5), step("last", &[])]);
    home.run(["-p", "again", "-r", &id]).expect(0);
    let now = same(&server, &home, &id);
    assert_eq!(now[..longer.len()], longer[..]);
    // With a row that another program wrote, it is not continued.
    server.sql(&format!(
        "UPDATE rewake.lines SET mac = decode(repeat('00', 32), 'hex')
         WHERE session = '{id}' AND seq = {}",
        now.len() - 1
    ));
    let store = home.rewake_home();
    copy(&store, &kept);
    home.run(["-p", "again", "-r", &id]).expect(0);
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::rename(&kept, &store).unwrap();
    server.sql(&format!(
        "UPDATE rewake.lines SET mac = decode(repeat('00', 32), 'hex') WHERE session = '{id}'"
    ));
    let run = home.run(["-p", "again", "-r", &id]);
    refused(run, 75, &["another data folder wrote entry", "rewake fork"]);
}

#[test]
fn the_work_continues_when_the_database_comes_back() {
    let Some(mut server) = Postgres::start() else {
        return;
    };
    server.sql("UPDATE rewake.meta SET lease = '60 s'");
    let home = home(&server, server.port, &effects(6));
    let agent = Live::spawn(home.rewake(["-p", "go", "--shared"]));
    server.until(
        "SELECT coalesce(max(length), 0) FROM rewake.sessions",
        |n| n.parse::<u64>().unwrap() >= 8,
    );
    server.down("immediate");
    server.up("");
    agent.wait(LIMIT).expect(0);
    once(&server, &home, 6);
}

/// After the lease the run ends with 75, and it is continued later. While the database is away, no
/// command begins.
#[test]
fn a_database_that_stays_away_ends_the_run() {
    let Some(mut server) = Postgres::start() else {
        return;
    };
    server.sql("UPDATE rewake.meta SET lease = '3 s'");
    let steps = [
        step(
            "",
            &["echo 0 >> effects; until [ -e end ]; do sleep 0.05; done"],
        ),
        step("", &["echo 1 >> effects"]),
        step("done", &[]),
    ];
    let home = home(&server, server.port, &steps);
    let agent = Live::spawn(home.rewake(["-p", "go", "--shared"]));
    until(|| !happened(&home).is_empty());
    server.down("immediate");
    std::fs::write(home.path("end"), "").unwrap();
    let run = agent.wait(LIMIT);
    refused(run, 75, &["to continue: rewake -p -r"]);
    assert_eq!(happened(&home).len(), 1);
    server.up("");
    home.run(["-p", "-r", &newest(&home)]).expect(0);
    once(&server, &home, 2);
}

/// An answer that was lost is looked up: the entries are there once.
#[test]
fn lost_answers_are_looked_up() {
    let Some(server) = Postgres::start() else {
        return;
    };
    server.sql("UPDATE rewake.meta SET lease = '60 s'");
    let proxy = Proxy::to(server.port);
    let n = 12;
    let home = home(&server, proxy.port, &effects(n));
    let agent = Live::spawn(home.rewake(["-p", "go", "--shared"]));
    for effect in 1..n {
        until(|| happened(&home).len() >= effect);
        match effect % 3 {
            0 => proxy.drop_next_answer(),
            1 => proxy.cut(),
            _ => {}
        }
    }
    agent.wait(LIMIT).expect(0);
    assert!(proxy.dropped.load(Ordering::SeqCst) > 0);
    once(&server, &home, n);
}

/// Two machines that are copies of each other: the entries of one alone count.
#[test]
fn of_two_copies_of_a_machine_one_stops() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let home = home(&server, server.port, &[effects(1), vec![]].concat());
    home.run(["-p", "go", "--shared"]).expect(0);
    let id = newest(&home);
    let steps = |name: &str| {
        let wait = format!("echo {name} >> {name}; until [ -e end ]; do sleep 0.05; done");
        [
            effects(1).concat(),
            step("", &[&wait]),
            step("", &["true"]),
            step("done", &[]),
        ]
    };
    let other = Home::new();
    std::fs::remove_dir_all(other.rewake_home()).unwrap();
    copy(&home.rewake_home(), &other.rewake_home());
    play(&home, &steps("one"));
    play(&other, &steps("two"));
    let one = Live::spawn(home.rewake(["-p", "one", "-r", &id]));
    until(|| home.path("one").exists());
    // It claims the session, as a restart does, and gets the entries of the first one. The call that
    // runs there is interrupted.
    let mut command = other.rewake(["-p", "two", "-r", &id]);
    command.current_dir(home.workspace());
    run(command, LIMIT).expect(0);
    let entries = same(&server, &other, &id);
    std::fs::write(home.path("end"), "").unwrap();
    refused(one.wait(LIMIT), 75, &["continued it"]);
    assert_eq!(same(&server, &other, &id), entries);
    let interrupted = entries
        .iter()
        .filter(|e| e.to_string().contains("\"interrupted\""));
    assert_eq!(interrupted.count(), 1);
    // What the first one recorded here is in the database, or it is another session.
    let run = home.run(["-p", "again", "-r", &id]).expect(0);
    assert!(!run.stderr.contains("other entries"), "{}", run.stderr);
    same(&server, &home, &id);
}

/// A failover to a standby that lagged lost entries that were acknowledged.
#[test]
fn entries_that_a_failover_lost_are_recorded_again() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let home = home(&server, server.port, &effects(3));
    home.run(["-p", "go", "--shared"]).expect(0);
    let id = newest(&home);
    let all = same(&server, &home, &id);
    forget(&server, &home, &id, 4);
    let run = home.run(["-p", "again", "-r", &id]).expect(0);
    assert!(run.stderr.contains("had lost 4 entries"), "{}", run.stderr);
    let now = same(&server, &home, &id);
    assert_eq!(now[..all.len()], all[..]);
    assert_eq!(happened(&home).len(), 3);
}

/// … and a copy of the machine continued from there: the database counts, and the rest is kept.
#[test]
fn where_both_were_continued_the_database_counts_and_the_rest_is_a_session() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let home = home(&server, server.port, &effects(3));
    home.run(["-p", "go", "--shared"]).expect(0);
    let id = newest(&home);
    let all = same(&server, &home, &id);
    let kept = home.rewake_home().with_extension("kept");
    copy(&home.rewake_home(), &kept);
    play(&home, &[effects(3).concat(), step("mine", &[])]);
    home.run(["-p", "lost words", "-r", &id]).expect(0);
    let lost = same(&server, &home, &id);
    // The database is as before, and so is the copy, which continues.
    forget(&server, &home, &id, lost.len() - all.len());
    let late = home.rewake_home().with_extension("late");
    std::fs::rename(home.rewake_home(), &late).unwrap();
    std::fs::rename(&kept, home.rewake_home()).unwrap();
    play(&home, &[effects(3).concat(), step("theirs", &[])]);
    home.run(["-p", "other words", "-r", &id]).expect(0);
    let theirs = same(&server, &home, &id);
    std::fs::remove_dir_all(home.rewake_home()).unwrap();
    std::fs::rename(&late, home.rewake_home()).unwrap();
    play(
        &home,
        &[
            effects(3).concat(),
            step("", &[]).repeat(3),
            step("end", &[]),
        ],
    );
    let run = home.run(["-p", "again", "-r", &id]).expect(0);
    assert!(
        run.stderr.contains("has other entries of this session"),
        "{}",
        run.stderr
    );
    let now = same(&server, &home, &id);
    assert_eq!(now[..theirs.len()], theirs[..]);
    // Twice, since the journals are compared when a store is opened.
    for _ in 0..2 {
        let list = home.run(["history"]).expect(0).stdout;
        assert_eq!(list.lines().count(), 2, "{list}");
    }
    let named = run.stderr.split("are session ").nth(1).unwrap();
    let parted = &named[..36];
    let store = rewake::store::Store::open(&home.rewake_home()).unwrap();
    let records = store.load(parted).unwrap().1;
    let texts = format!("{:?}", records);
    assert!(
        texts.contains("lost words") && !texts.contains("other words"),
        "{texts}"
    );
    assert_eq!(store.history().find(parted).unwrap().shared, None);
    // Its calls are closed: the database may have their results.
    assert!(matches!(
        records.last().unwrap().entry,
        rewake::core::entry::Entry::Forked { .. }
    ));
    same(&server, &home, &id);
}

/// Takes the last entries of a session out of the database.
fn forget(server: &Postgres, home: &Home, id: &str, n: usize) {
    let store = rewake::store::Store::open(&home.rewake_home()).unwrap();
    let length: usize = server
        .sql(&format!(
            "SELECT length FROM rewake.sessions WHERE id = '{id}'"
        ))
        .parse()
        .unwrap();
    let left = length - n;
    let tip = rewake::store::shared::tip_before(&store, id, left as u64).unwrap();
    server.sql(&format!(
        "DELETE FROM rewake.lines WHERE session = '{id}' AND seq >= {left};
         UPDATE rewake.sessions SET length = {left}, tip = decode('{tip:?}', 'hex') WHERE id = '{id}'"
    ));
}

/// Kills, cuts, stalls and restarts of the server at random instants.
///
/// `REWAKE_FLEET_SECONDS=N` plays that long.
#[test]
fn effects_happen_once_under_random_faults() {
    let Some(mut server) = Postgres::start() else {
        return;
    };
    let _ = OWNER;
    let seconds = std::env::var("REWAKE_FLEET_SECONDS").ok();
    let seconds: u64 = seconds.map_or(20, |n| n.parse().unwrap());
    let seed = Seed::of("REWAKE_FLEET_SEED", || u64::from(std::process::id()));
    let mut random = seed.number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let proxy = Proxy::to(server.port);
    let n = 400;
    let home = home(&server, proxy.port, &effects(n));
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut agent = Live::spawn(home.rewake(["-p", "go", "--shared"]));
    let id = loop {
        let store = rewake::store::Store::open(&home.rewake_home()).unwrap();
        let sessions = store.history().sessions(Default::default(), 1).unwrap();
        match sessions.first() {
            Some(info) if info.entries > 3 => break info.id.clone(),
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let mut kills = 0;
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(next(700)));
        match next(6) {
            0 => proxy.cut(),
            1 => proxy.drop_next_answer(),
            2 => {
                proxy.stall();
                std::thread::sleep(Duration::from_millis(next(800)));
                proxy.pass();
            }
            3 => {
                proxy.refuse();
                std::thread::sleep(Duration::from_millis(next(800)));
                proxy.pass();
            }
            4 => {
                server.down("immediate");
                server.up("");
            }
            _ => {
                kills += u32::from(agent.kill());
                agent.wait(LIMIT);
                agent = Live::spawn(home.rewake(["-p", "-r", &id]));
            }
        }
    }
    proxy.pass();
    agent.kill();
    agent.wait(LIMIT);
    // To the end of what the script has, without faults: 75 is a lease that ended.
    play(&home, &[effects(n).concat()]);
    let run = home.run(["-p", "-r", &id, "--max-turns", "500"]);
    assert!(
        run.code().is_some_and(|code| [0, 75].contains(&code)),
        "seed {seed}: {run:?}"
    );
    let counts = happened(&home);
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "seed {seed}, {kills} kills: {twice:?}");
    let entries = same(&server, &home, &id);
    let mut results = std::collections::BTreeMap::new();
    for entry in &entries {
        if entry["kind"] == "finished" {
            *results.entry(entry["call"].to_string()).or_insert(0) += 1;
        }
    }
    assert!(
        results.values().all(|n| *n == 1),
        "seed {seed}: {results:?}"
    );
    // An effect that happened has a result that says so, or one that says that it is not known.
    assert!(
        results.len() >= counts.len(),
        "seed {seed}: {} of {}",
        results.len(),
        counts.len()
    );
}
