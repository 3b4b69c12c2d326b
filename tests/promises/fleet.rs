//! A session that a database records loses nothing in a kill.

use std::time::Instant;

use crate::scenes::LIMIT;
use crate::scenes::fleet::postgres::Postgres;
use crate::scenes::fleet::*;
use support::Live;

/// The start of a call is in the database before its effect, and a restart on the same machine finds
/// the real result.
#[test]
fn a_kill_in_a_command_loses_nothing_and_is_continued_at_once() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let steps = [
        step(
            "",
            &["echo 0 >> effects; until [ -e end ]; do sleep 0.05; done; echo real"],
        ),
        step("done", &[]),
    ];
    let home = home(&server, server.port, &steps);
    let mut agent = Live::spawn(home.rewake(["-p", "go", "--shared"]));
    until(|| !happened(&home).is_empty());
    // Seven: opened, said, chose, replied, started and what comes between them.
    let before: u64 = server
        .sql("SELECT length FROM rewake.sessions")
        .parse()
        .unwrap();
    assert!(agent.kill());
    let killed = Instant::now();
    agent.wait(LIMIT);
    let held = home.run(["fleet", "ps", "--json"]).expect(0).stdout;
    assert!(held.contains(&newest(&home)), "{held}");
    let lock = home.run(["fleet", "ps"]).expect(0).stdout;
    assert!(lock.contains("until in"), "{lock}");
    std::fs::write(home.path("end"), "").unwrap();
    let id = newest(&home);
    home.run(["-p", "-r", &id]).expect(0);
    let _ = killed;
    once(&server, &home, 1);
    let entries = same(&server, &home, &id);
    assert!(entries.len() as u64 > before);
    let finished = entries.iter().find(|e| e["kind"] == "finished").unwrap();
    assert!(finished.to_string().contains("real"), "{finished}");
}
