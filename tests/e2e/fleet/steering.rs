//! Messages, verdicts, stops and watching from another machine.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::fleet::postgres::{Postgres, WORKER};
use crate::fleet::{LIMIT, elsewhere, happened, home, newest, play, refused, same, step, until};
use support::{Home, Live};

/// A session at work: its command waits for the file `end`.
fn at_work(server: &Postgres, more: &[String]) -> (Home, Live, String) {
    let waits = "echo 0 >> effects; until [ -e end ]; do sleep 0.05; done";
    let steps = [vec![step("", &[waits])], more.to_vec()].concat();
    let home = home(server, server.port, &steps);
    let agent = Live::spawn(home.rewake(["-p", "go", "--shared"]));
    until(|| !happened(&home).is_empty());
    let id = newest(&home);
    (home, agent, id)
}

fn finish(home: &Home) {
    std::fs::write(home.path("end"), "").unwrap();
}

fn kinds(entries: &[Value], kind: &str) -> usize {
    entries.iter().filter(|e| e["kind"] == kind).count()
}

const NO_MAIL: &str = "SELECT count(*) FROM rewake.mail";

#[test]
fn a_message_from_another_machine_becomes_one_entry() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let (home, agent, id) = at_work(&server, &[step("heard", &[]), step("done", &[])]);
    let other = elsewhere(&server);
    let image = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/server/dot.png");
    let sent = other
        .run(["send", &id, "look here", "--shared", "--image", image])
        .expect(0);
    assert!(sent.stderr.contains("sent to"), "{}", sent.stderr);
    finish(&home);
    agent.wait(LIMIT).expect(0);
    let entries = same(&server, &home, &id);
    let said: Vec<_> = entries
        .iter()
        .filter(|e| e["text"] == "look here")
        .collect();
    assert_eq!(said.len(), 1);
    assert_eq!(said[0]["images"].as_array().unwrap().len(), 1);
    assert_eq!(server.sql(NO_MAIL), "0");
    assert!(happened(&home).values().all(|n| *n == 1));
    // The other machine reads its image back.
    other.run(["show", &id, "--shared"]).expect(0);
    // Without a process it waits, and the next one takes it, once.
    let kept = other.run(["send", &id, "later", "--shared"]).expect(0);
    assert!(kept.stderr.contains("is not running"), "{}", kept.stderr);
    play(&home, &[step("", &[]).repeat(3), step("again", &[])]);
    home.run(["-p", "-r", &id]).expect(0);
    let entries = same(&server, &home, &id);
    assert_eq!(entries.iter().filter(|e| e["text"] == "later").count(), 1);
    assert_eq!(server.sql(NO_MAIL), "0");
}

/// A kill between the database and the store delivers nothing twice.
#[test]
fn mail_that_arrived_before_a_kill_is_one_entry() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let (home, mut agent, id) = at_work(&server, &[step("heard", &[]), step("done", &[])]);
    let other = elsewhere(&server);
    other.run(["send", &id, "look here", "--shared"]).expect(0);
    // It is in the inbox of the store, and not an entry yet.
    until(|| {
        let store = rewake::store::Store::open(&home.rewake_home()).unwrap();
        !store.inbox().queued(&id).unwrap().is_empty()
    });
    assert_eq!(server.sql(NO_MAIL), "1");
    assert!(agent.kill());
    agent.wait(LIMIT);
    finish(&home);
    home.run(["-p", "-r", &id]).expect(0);
    let entries = same(&server, &home, &id);
    assert_eq!(
        entries.iter().filter(|e| e["text"] == "look here").count(),
        1
    );
    assert_eq!(server.sql(NO_MAIL), "0");
}

#[test]
fn a_stop_from_another_machine_ends_the_turn() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let (home, agent, id) = at_work(&server, &[step("never", &[])]);
    let other = elsewhere(&server);
    other.run(["stop", &id, "--shared"]).expect(0);
    let run = agent.wait(LIMIT);
    assert_ne!(run.code(), Some(0));
    let entries = same(&server, &home, &id);
    assert_eq!(kinds(&entries, "stopped"), 1, "{entries:?}");
    assert_eq!(server.sql(NO_MAIL), "0");
    let stopped = other.run(["stop", &id, "--shared"]).expect(0);
    assert!(
        stopped.stderr.contains("is not running"),
        "{}",
        stopped.stderr
    );
    assert_eq!(server.sql(NO_MAIL), "0");
    refused(
        other.run(["send", "0000", "x", "--shared"]),
        2,
        &["has no session"],
    );
}

/// A session that asks, on a machine whose config names the approvers.
fn asking(server: &Postgres) -> (Home, Live, String) {
    let call = json!({"command": "echo 0 >> effects", "access": "workspace"}).to_string();
    let asks = format!(
        "[[step]]\ncalls = [{{ name = \"bash\", arguments = {} }}]\n",
        json!(call)
    );
    let home = home(server, server.port, &[asks, step("done", &[])]);
    let config = std::fs::read_to_string(home.rewake_home().join("config.toml")).unwrap();
    let config = config.replace("bypassPermissions", "default");
    home.write_config(&format!(
        "{config}approvers = [\"boss\"]\n[permissions]\nask = [\"Bash\"]\n"
    ));
    let agent = Live::spawn(home.rewake(["-p", "go", "--shared", "--on-approval", "wait=5m"]));
    server.until(
        "SELECT count(*) FROM rewake.sessions WHERE state = 'asks'",
        |count| count == "1",
    );
    let id = newest(&home);
    (home, agent, id)
}

#[test]
fn an_allow_counts_only_from_an_approver_and_once() {
    let Some(server) = Postgres::start() else {
        return;
    };
    server.sql("CREATE ROLE boss LOGIN; GRANT rewake_submitter TO boss");
    let (home, agent, id) = asking(&server);
    let other = elsewhere(&server);
    let asks = other.run(["approvals", "--shared"]).expect(0).stdout;
    assert!(
        asks.contains("echo 0 >> effects") && asks.contains(&id[..13]),
        "{asks}"
    );
    // This role is not an approver.
    let sent = other.run(["allow", &id, "--shared"]).expect(0);
    assert!(sent.stderr.contains("allowed: "), "{}", sent.stderr);
    server.until(NO_MAIL, |count| count == "0");
    assert!(happened(&home).is_empty());
    let entries = same_while_running(&server, &id);
    assert_eq!(kinds(&entries, "decided"), 0);
    // A verdict on another question than the one that is open, from an approver.
    let boss = |body: Value| {
        let sql = format!("SELECT rewake.send_1('{id}', 'signal', '{body}', '{{}}', '{{}}') > 0");
        assert_eq!(server.sql_as("boss", "team", &sql), ("t".into(), true));
    };
    let asks = other.run(["approvals", "--shared", "--json"]).expect(0);
    let asks: Value = serde_json::from_str(&asks.stdout).unwrap();
    let call = asks[0]["call"].as_str().unwrap().to_string();
    let asked = asks[0]["asked"].as_u64().unwrap();
    let shown = serde_json::to_value(rewake::core::signal::Signal::Decide {
        call: call.parse().unwrap(),
        asked,
        verdict: rewake::core::entry::Verdict::Allow,
        rule: None,
    })
    .unwrap();
    let mut older = shown.clone();
    older["asked"] = (asked - 1).into();
    boss(older);
    // A mode is never taken from the database, nor a rule.
    boss(json!({"signal": "choose", "mode": "bypassPermissions"}));
    let mut with_rule = shown.clone();
    with_rule["rule"] = "Bash(touch:*)".into();
    boss(with_rule);
    boss(json!({"signal": "nonsense"}));
    server.until(NO_MAIL, |count| count == "0");
    assert!(happened(&home).is_empty());
    boss(shown.clone());
    boss(shown);
    agent.wait(LIMIT).expect(0);
    let entries = same(&server, &home, &id);
    assert_eq!(kinds(&entries, "decided"), 1);
    let decided = entries.iter().find(|e| e["kind"] == "decided").unwrap();
    assert_eq!(decided["origin"], "boss", "{decided}");
    assert_eq!(happened(&home).values().copied().collect::<Vec<_>>(), [1]);
    let other = other.run(["allow", &id, "--shared"]);
    refused(other, 2, &["asks nothing"]);
}

/// The entries of a session as the database has them.
fn same_while_running(server: &Postgres, id: &str) -> Vec<Value> {
    let other = elsewhere(server);
    let export = other.run(["export", id, "--json", "--shared"]).expect(0);
    let lines = export.stdout.lines();
    lines
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|line| line.get("entry").cloned().unwrap_or(line))
        .collect()
}

#[test]
fn a_denial_from_another_machine_reaches_the_model() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let (home, agent, id) = asking(&server);
    let other = elsewhere(&server);
    other
        .run(["deny", &id, "not this one", "--shared"])
        .expect(0);
    agent.wait(LIMIT);
    let entries = same(&server, &home, &id);
    let text = format!("{entries:?}");
    assert!(text.contains("not this one"), "{text}");
    assert!(happened(&home).is_empty());
}

/// Mail of one session is not removed by the holder of another one.
#[test]
fn mail_ids_of_another_session_are_left_alone() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let (first, agent, id) = at_work(&server, &[step("done", &[])]);
    let two = elsewhere(&server);
    play(&two, &[step("done", &[])]);
    two.run(["-p", "other", "--shared"]).expect(0);
    let idle = newest(&two);
    first
        .run(["send", &idle, "for the other", "--shared"])
        .expect(0);
    let (fence, mail) = (
        server.sql(&format!(
            "SELECT fence FROM rewake.sessions WHERE id = '{id}'"
        )),
        server.sql("SELECT max(id) FROM rewake.mail"),
    );
    let forget = format!("SELECT rewake.forget_1('{id}', {fence}, '{{{mail}}}')");
    assert!(server.sql_as(WORKER, "team", &forget).1);
    assert_eq!(server.sql(NO_MAIL), "1");
    finish(&first);
    agent.wait(LIMIT).expect(0);
    assert_eq!(server.sql(NO_MAIL), "1");
}

/// `-r ID --shared` shows what happens on another machine, and sends what is typed.
#[test]
fn another_machine_watches_and_types() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let (home, agent, id) = at_work(&server, &[step("heard you", &[]), step("done", &[])]);
    let other = elsewhere(&server);
    let mut watch = other.rewake(["--plain", "-r", &id, "--shared"]);
    let (input, mut keys) = std::io::pipe().unwrap();
    watch.stdin(Stdio::from(input));
    let watch = Live::spawn(watch);
    watch.wait_for(LIMIT, |line| line.contains("echo 0 >> effects"));
    writeln!(keys, "typed far away").unwrap();
    server.until(NO_MAIL, |count| count == "1");
    finish(&home);
    agent.wait(LIMIT).expect(0);
    watch.wait_for(LIMIT, |line| line.contains("heard you"));
    drop(keys);
    watch.wait(LIMIT);
    let entries = same(&server, &home, &id);
    assert_eq!(
        entries
            .iter()
            .filter(|e| e["text"] == "typed far away")
            .count(),
        1
    );
}
