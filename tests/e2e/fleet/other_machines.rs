//! A session on other machines, and a hostile database.

use crate::fleet::postgres::{Postgres, WORKER};
use crate::fleet::{effects, elsewhere, happened, home, newest, play, refused, same, step};
use support::Home;

#[test]
fn any_machine_lists_shows_exports_and_forks_a_session() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let first = home(&server, server.port, &effects(3));
    first.run(["-p", "count to three", "--shared"]).expect(0);
    let id = newest(&first);
    let other = elsewhere(&server);
    let list = other.run(["history", "--shared"]).expect(0).stdout;
    assert!(
        list.contains(&id[..13]) && list.contains("count to three"),
        "{list}"
    );
    let json = other
        .run(["history", "--shared", "--json"])
        .expect(0)
        .stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["sessions"][0]["id"], id);
    assert_eq!(json["sessions"][0]["state"], "idle");
    // Only the data folder that recorded it continues it.
    let own = other.run(["-p", "more", "-r", &id, "--shared"]);
    refused(own, 2, &["not in this data folder", "rewake fork"]);
    let here = first.run(["show", &id]).expect(0).stdout;
    let there = other.run(["show", &id[..8], "--shared"]).expect(0).stdout;
    assert_eq!(here, there);
    let export = |home: &Home| {
        home.run(["export", &id, "--json", "--shared"])
            .expect(0)
            .stdout
    };
    assert_eq!(export(&first), export(&other));
    let work = first.workspace();
    let fork = ["fork", &id, "--shared", "-C", work.to_str().unwrap()];
    let fork = other.run(fork).expect(0).stdout;
    let run = other.run(["-p", "more", "-r", fork.trim()]).expect(0);
    assert!(run.stdout.contains("continued"), "{}", run.stdout);
    // The fork is of that machine alone.
    assert_eq!(server.sql("SELECT count(*) FROM rewake.sessions"), "1");
    assert_eq!(
        happened(&first).values().copied().collect::<Vec<_>>(),
        [1, 1, 1]
    );
    // What is appended later is copied too.
    play(&first, &[effects(3).concat(), step("four", &[])]);
    first.run(["-p", "and four", "-r", &id]).expect(0);
    let there = other.run(["show", &id, "--shared"]).expect(0).stdout;
    assert_eq!(first.run(["show", &id]).expect(0).stdout, there);
    same(&server, &first, &id);
}

/// The bytes of images and long outputs are on any machine.
#[test]
fn images_of_messages_are_shared() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let first = home(&server, server.port, &[step("seen", &[])]);
    let image = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/server/dot.png");
    first
        .run(["-p", "look", "--image", image, "--shared"])
        .expect(0);
    let id = newest(&first);
    assert_eq!(
        server.sql("SELECT count(*) FROM rewake.objects"),
        "1",
        "the image"
    );
    let other = elsewhere(&server);
    other.run(["show", &id, "--shared"]).expect(0);
    let stored = std::fs::read(image).unwrap();
    let store = rewake::store::Store::open(&other.rewake_home()).unwrap();
    let hash = blake3::hash(&stored).to_hex().to_string();
    assert_eq!(store.blob(&hash).unwrap(), Some(stored));
}

#[test]
fn a_session_without_the_flag_is_nowhere_else() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let home = home(&server, server.port, &effects(1));
    home.run(["-p", "count"]).expect(0);
    assert_eq!(server.sql("SELECT count(*) FROM rewake.sessions"), "0");
    let id = newest(&home);
    let run = home.run(["-p", "more", "-r", &id, "--shared"]);
    refused(run, 2, &["is not shared"]);
}

/// Other processes of the same data folder do not append to a shared session.
#[test]
fn nothing_is_appended_without_the_lease() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let home = home(&server, server.port, &effects(1));
    home.run(["-p", "count", "--shared"]).expect(0);
    let id = newest(&home);
    for command in [vec!["set", &id, "--title", "other"], vec!["dismiss", &id]] {
        let run = home.run(&command);
        // One that is done is not offered anyway.
        assert!(
            run.code() != Some(0) || command[0] == "dismiss",
            "{command:?}"
        );
    }
    let entries = same(&server, &home, &id);
    // A message waits for the process that takes the lease, and becomes one entry.
    home.run(["send", &id, "and say it"]).expect(0);
    assert_eq!(same(&server, &home, &id).len(), entries.len());
    play(&home, &[effects(1).concat(), step("said", &[]).repeat(2)]);
    home.run(["-p", "-r", &id]).expect(0);
    let entries = same(&server, &home, &id);
    let said = entries.iter().filter(|e| e["text"] == "and say it");
    assert_eq!(said.count(), 1);
    // Without the database nothing is recorded, and nothing is lost.
    server.down("fast");
    refused(home.run(["-p", "more", "-r", &id]), 75, &["hint: "]);
    home.run(["show", &id]).expect(0);
    let store = rewake::store::Store::open(&home.rewake_home()).unwrap();
    assert_eq!(store.load(&id).unwrap().1.len(), entries.len());
}

/// Rows may be written by other programs: what they break is named, and the rest works.
#[test]
fn damaged_rows_lock_their_session_only() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let long = format!("echo {}; seq 100000", "x".repeat(50));
    let first = home(
        &server,
        server.port,
        &[step("", &[&long]), step("done", &[])],
    );
    first.run(["-p", "damaged", "--shared"]).expect(0);
    let id = newest(&first);
    first.run(["-p", "whole", "--shared"]).expect(0);
    let whole = newest(&first);
    assert_ne!(id, whole);
    let other = elsewhere(&server);
    let damages = [
        "UPDATE rewake.lines SET body = substr(body, 1, 20) WHERE seq = 2",
        "UPDATE rewake.lines SET body = '\\x00' WHERE seq = 2",
        "DELETE FROM rewake.lines WHERE seq = 2",
        "UPDATE rewake.lines SET body = (SELECT body FROM rewake.lines b WHERE b.seq = 1 AND b.session = lines.session) WHERE seq = 2",
        "UPDATE rewake.objects SET body = '\\x00' WHERE true",
        "UPDATE rewake.sessions SET header = '{}' WHERE true",
        "UPDATE rewake.sessions SET header = replace(header, '\"first\":0', '\"first\":1') WHERE true",
        "UPDATE rewake.sessions SET needs = 9 WHERE true",
    ];
    assert_ne!(server.sql("SELECT count(*) FROM rewake.objects"), "0");
    for damage in damages {
        server.sql("CREATE SCHEMA kept");
        for table in ["lines", "objects", "sessions"] {
            server.sql(&format!(
                "CREATE TABLE kept.{table} AS TABLE rewake.{table}"
            ));
        }
        let column = match damage.contains("rewake.sessions") {
            true => "id",
            false => "session",
        };
        server.sql(&format!("{damage} AND {column} = '{id}'"));
        let run = other.run(["show", &id, "--shared"]);
        if damage.contains("\"first\"") {
            // The header of a bundle is made from it: the place is not taken from the row.
            run.expect(0);
            other.run(["purge", &id, "--yes"]).expect(0);
        } else {
            assert_ne!(run.code(), Some(0), "{damage}");
            assert!(
                run.stderr.contains("error: ") && run.stderr.contains("session"),
                "{}",
                run.stderr
            );
            assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
        }
        other.run(["history", "--shared"]).expect(0);
        other.run(["show", &whole, "--shared"]).expect(0);
        for table in ["lines", "objects"] {
            server.sql(&format!("DELETE FROM rewake.{table}"));
        }
        server.sql(
            "UPDATE rewake.sessions s SET header = k.header, needs = k.needs
             FROM kept.sessions k WHERE k.id = s.id",
        );
        for table in ["lines", "objects"] {
            server.sql(&format!(
                "INSERT INTO rewake.{table} SELECT * FROM kept.{table}"
            ));
        }
        server.sql("DROP SCHEMA kept CASCADE");
    }
    // The machine that recorded it has its own.
    same(&server, &first, &id);
}

/// Roles have SELECT and EXECUTE only.
#[test]
fn a_worker_writes_no_table_and_a_reader_no_session() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let first = home(&server, server.port, &effects(1));
    first.run(["-p", "count", "--shared"]).expect(0);
    let id = newest(&first);
    server.sql("CREATE ROLE other LOGIN; GRANT rewake_worker TO other");
    server.sql("CREATE ROLE looker LOGIN; GRANT rewake_reader TO looker");
    for sql in [
        "UPDATE rewake.sessions SET tip = '\\x00112233445566778899aabbccddeeff'",
        "DELETE FROM rewake.lines",
        "INSERT INTO rewake.objects VALUES (gen_random_uuid(), decode(repeat('00', 32), 'hex'), '')",
        "UPDATE rewake.meta SET lease = '1 year'",
        "SELECT rewake.append_1(gen_random_uuid(), 1, 0, '{a}', '{a}', '{}', '{}')",
        "CREATE TABLE rewake.mine ()",
        "TRUNCATE rewake.lines",
    ] {
        for role in [WORKER, "other", "looker"] {
            let (text, is_done) = server.sql_as(role, "team", sql);
            assert!(
                !is_done && text.contains("permission denied"),
                "{role}: {sql}: {text}"
            );
        }
    }
    // A worker changes only sessions that it has claimed: another role cannot claim it.
    let of = |column: &str| format!("(SELECT {column} FROM rewake.sessions WHERE id = '{id}')");
    let claim = format!(
        "SELECT count(*) FROM rewake.claim_1('{id}', {}, {}, 'x')",
        of("home"),
        of("boot")
    );
    assert_eq!(
        server.sql_as("other", "team", &claim),
        ("0".to_string(), true)
    );
    let push = format!(
        "SELECT rewake.push_1(id, fence, tip, length, tip, '{{a}}',
           ARRAY[decode(repeat('00', 32), 'hex')], '{{}}', '{{}}', 't', 's', 1)
         FROM rewake.sessions WHERE id = '{id}'"
    );
    assert_eq!(
        server.sql_as("other", "team", &push),
        ("f".to_string(), true)
    );
    let (text, is_done) = server.sql_as("looker", "team", &push);
    assert!(!is_done && text.contains("permission denied"), "{text}");
    // Not even its own role can, without synchronous commits.
    let local = format!("SET synchronous_commit = local; {claim}; {push}");
    let (text, is_done) = server.sql_as(WORKER, "team", &local);
    assert!(
        !is_done && text.contains("synchronous_commit is local"),
        "{text}"
    );
    same(&server, &first, &id);
}
