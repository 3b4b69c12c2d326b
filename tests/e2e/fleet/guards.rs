//! The guards of the functions of the schema, one at a time: the fence, the end of the log, and the
//! lease by the clock of the server. A request that is right but for one of them changes nothing.

use crate::fleet::postgres::{Postgres, WORKER};

const ID: &str = "0198aaaa-bbbb-7ccc-8ddd-eeeeffff0000";

/// SQL of a tip.
fn tip(digit: u8) -> String {
    format!("decode(repeat('{digit}0', 16), 'hex')")
}

const ENTRY: &str = "ARRAY['\\x00'::bytea], ARRAY[decode(repeat('00', 32), 'hex')], '{}', '{}'";

/// Runs a function as a worker. Returns its value.
#[track_caller]
fn call(server: &Postgres, function: &str) -> String {
    let sql = format!("SELECT x FROM rewake.{function} x");
    let (text, is_done) = server.sql_as(WORKER, "team", &sql);
    assert!(is_done, "{sql}: {text}");
    text
}

/// A session with one entry and the tip 1, whose fence is 1.
fn session(server: &Postgres) {
    let create = format!(
        "create_1('{ID}', 'home', 'boot', 'host', '{{}}', {}, {ENTRY}, 't', 'idle', 1)",
        tip(1)
    );
    assert_eq!(call(server, &create), "1");
    // Its ID is taken.
    assert_eq!(call(server, &create), "0");
}

/// Appends an entry after this end. Returns whether the server did.
#[track_caller]
fn push(server: &Postgres, fence: u64, before: u8, length: u64) -> bool {
    let row = "SELECT fence, tip, length, lease_until, (SELECT count(*) FROM rewake.lines)
       FROM rewake.sessions";
    let earlier = server.sql(row);
    let pushed = call(
        server,
        &format!(
            "push_2('{ID}', {fence}, {}, {length}, {}, {ENTRY}, 't', 'idle', 1, '{{}}', NULL)",
            tip(before),
            tip(before + 1)
        ),
    );
    if pushed == "f" {
        assert_eq!(server.sql(row), earlier);
    }
    pushed == "t"
}

fn claim(server: &Postgres, boot: &str) -> String {
    let claim = format!("claim_1('{ID}', 'home', '{boot}', 'host')");
    let row = call(server, &claim);
    row.split(',').next().unwrap().replace('(', "")
}

fn lease(server: &Postgres, until: &str) {
    server.sql(&format!("UPDATE rewake.sessions SET lease_until = {until}"));
}

#[test]
fn an_old_fence_appends_nothing() {
    let Some(server) = Postgres::start() else {
        return;
    };
    server.sql("UPDATE rewake.meta SET lease = '10 min'");
    session(&server);
    assert_eq!(claim(&server, "boot"), "2");
    assert!(!push(&server, 1, 1, 1));
    assert!(!push(&server, 3, 1, 1));
    assert_eq!(call(&server, &format!("beat_1('{ID}', 1)")), "f");
    assert_eq!(call(&server, &format!("beat_1('{ID}', 2)")), "t");
    assert!(push(&server, 2, 1, 1));
}

#[test]
fn nothing_is_appended_after_another_end() {
    let Some(server) = Postgres::start() else {
        return;
    };
    server.sql("UPDATE rewake.meta SET lease = '10 min'");
    session(&server);
    assert!(!push(&server, 1, 2, 1));
    assert!(!push(&server, 1, 1, 2));
    assert!(push(&server, 1, 1, 1));
    // Again, as a request that was repeated.
    assert!(!push(&server, 1, 1, 1));
    assert!(push(&server, 1, 2, 2));
}

#[test]
fn a_lease_that_ended_appends_nothing() {
    let Some(server) = Postgres::start() else {
        return;
    };
    server.sql("UPDATE rewake.meta SET lease = '10 min'");
    session(&server);
    for ended in ["clock_timestamp() - interval '1 ms'", "NULL"] {
        lease(&server, ended);
        assert!(!push(&server, 1, 1, 1), "{ended}");
        assert_eq!(call(&server, &format!("beat_1('{ID}', 1)")), "f");
    }
    // Another start of the machine waits for it.
    lease(&server, "clock_timestamp() + interval '10 min'");
    assert_eq!(claim(&server, "other"), "");
    lease(&server, "clock_timestamp()");
    assert_eq!(claim(&server, "other"), "2");
    assert!(push(&server, 2, 1, 1));
}
