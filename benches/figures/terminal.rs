//! From exec to what a person sees: the real binary on a terminal of its own.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::json;

use crate::child;
use crate::opening::{Context, LAST_WORD, long_session};
use crate::sample::{Times, process, ratio};
use crate::starting::instants;
use crate::table::{Row, mb, ms};
use support::{Answer, Home, Live, Protocol, Server, Terminal};

const STARTS: usize = 30;
const OPENINGS: usize = 7;
const KILLS: usize = 10;
/// Calls that are done before the kill.
const CALLS: usize = 20;

/// In the status line of every frame: what would be lost.
const STATUS: &str = "sav";

const LIMIT: Duration = Duration::from_secs(30);
const FIRST_FRAME: Duration = Duration::from_millis(100);

/// What a person has after some years.
const MANY_SESSIONS: u64 = 10_000;
const LARGE_BYTES: u64 = 1_000_000_000;

pub fn rows() -> Vec<Row> {
    let mut floor = Times::default();
    for _ in 0..STARTS {
        floor.push(process(&mut Command::new("/bin/true")));
    }
    let floor = format!("/bin/true {}", ms(floor.median()));
    let server = Server::start(|_| Answer::text("not asked"));
    let home = super::wide_home(&server, Protocol::Anthropic);
    let mut rows = vec![first_frame(&home, "an empty store", &floor)];
    let id = long_session(&home, Context::Compacted);
    rows.extend(long(&home, &id, &floor));
    let bytes = grow(&home);
    let large = format!("{} in {MANY_SESSIONS} sessions", mb(bytes));
    rows.push(first_frame(&home, &large, &floor));
    rows.extend(history(&home, &large, &floor));
    rows.push(after_a_kill(&floor));
    rows
}

fn first_frame(home: &Home, store: &str, floor: &str) -> Row {
    let mut times = Times::default();
    for round in 0..=STARTS {
        let since = Instant::now();
        let terminal = Terminal::that_answers(home, &[]);
        terminal.sees(STATUS);
        let time = since.elapsed();
        terminal.kill();
        // The first one makes the store.
        if round > 0 {
            times.push(time);
        }
    }
    Row::new(format!("exec to the first frame, {store}"), both(&times))
        .beside(floor)
        .target("100 ms", times.median() <= FIRST_FRAME)
}

/// The history pane over a large store: opened, and narrowed by what is typed, of which every
/// letter is on the screen before the list is.
fn history(home: &Home, store: &str, floor: &str) -> Vec<Row> {
    const F2: &str = "\x1bOQ";
    const NARROW: &str = "number 777";
    let (mut opened, mut echoed, mut narrowed) =
        (Times::default(), Times::default(), Times::default());
    for _ in 0..OPENINGS {
        let mut terminal = Terminal::that_answers(home, &[]);
        terminal.sees(STATUS);
        let since = Instant::now();
        terminal.types(F2);
        terminal.sees("task number");
        opened.push(since.elapsed());
        let since = Instant::now();
        terminal.types(NARROW);
        terminal.sees(&format!("search: {NARROW}"));
        echoed.push(since.elapsed());
        terminal.sees("task number 7770");
        narrowed.push(since.elapsed());
        terminal.kill();
    }
    vec![
        Row::new(
            format!("F2 to the list of the history, {store}"),
            both(&opened),
        )
        .beside(floor)
        .target("100 ms", opened.median() <= FIRST_FRAME),
        Row::new("… what is typed to filter is on the screen", both(&echoed)),
        Row::new("… and the list is narrowed", both(&narrowed)),
    ]
}

/// The long session by its id: the first frame, the conversation, and what it takes.
fn long(home: &Home, id: &str, floor: &str) -> Vec<Row> {
    let (mut first, mut whole) = (Times::default(), Times::default());
    let mut peak = 0;
    for _ in 0..OPENINGS {
        let since = Instant::now();
        let terminal = Terminal::that_answers(home, &["-r", id]);
        terminal.sees(STATUS);
        first.push(since.elapsed());
        terminal.sees(LAST_WORD);
        whole.push(since.elapsed());
        peak = peak.max(child::peak_bytes(terminal.id()));
        terminal.kill();
    }
    vec![
        Row::new("… to the first frame, 10,000 entries, 100 MB", both(&first))
            .beside(floor)
            .target("100 ms", first.median() <= FIRST_FRAME),
        Row::new("… to its conversation", both(&whole))
            .ratio(ratio(whole.median(), first.median()))
            .target("300 ms", whole.median() <= Duration::from_millis(300)),
        Row::new("… peak memory with it on the screen", mb(peak))
            .target("100 MB", peak <= 100_000_000),
    ]
}

/// Copies of the long session's rows and many sessions beside it: the size of the store of
/// somebody who used it for years. They are listed, and never opened. The search index is taken for
/// finished, by its mark (row 0) and by how far it says that it reaches.
fn grow(home: &Home) -> u64 {
    let path = home.rewake_home().join("rewake.db");
    let conn = Connection::open(path).expect("open the database");
    conn.pragma_update(None, "synchronous", "OFF")
        .expect("quick");
    conn.pragma_update(None, "foreign_keys", false)
        .expect("as it stands");
    let size = |what: &str| -> u64 {
        let number = conn.query_row(&format!("PRAGMA {what}"), [], |row| row.get::<_, i64>(0));
        number.expect("the size of the database").unsigned_abs()
    };
    conn.execute_batch("BEGIN").expect("begin");
    while size("page_count") * size("page_size") < LARGE_BYTES {
        conn.execute_batch(
            "INSERT INTO entries (parent, session, seq, at_ms, kind, checksum, body)
             SELECT parent, session, seq, at_ms, kind, checksum, body FROM entries
             WHERE id <= 10000",
        )
        .expect("copy the entries");
    }
    conn.execute_batch(&format!(
        "INSERT INTO entry_index (rowid, text)
         SELECT 0, '' WHERE NOT EXISTS (SELECT 1 FROM entry_index WHERE rowid = 0);
         UPDATE indexed SET upto = (SELECT max(id) FROM entries);
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MANY_SESSIONS})
         INSERT INTO sessions (id, workspace, folder, head, length, created_ms, updated_ms, title, version, model)
         SELECT printf('01a00000-%04x-7000-8000-000000000000', i), workspace || CASE i % 10 WHEN 0 THEN '' ELSE i % 50 END,
                folder, head, length, i, i, 'task number ' || i, version, model
         FROM n, (SELECT * FROM sessions LIMIT 1);
         COMMIT;
         PRAGMA wal_checkpoint(TRUNCATE);"
    ))
    .expect("many sessions");
    size("page_count") * size("page_size")
}

/// SIGKILL while the model is waited for, and the screen again: it goes on by itself.
fn after_a_kill(floor: &str) -> Row {
    let mut times = Times::default();
    for _ in 0..KILLS {
        let count = AtomicUsize::new(0);
        let (server, asked) = instants(move |_| match count.fetch_add(1, Ordering::Relaxed) {
            n @ ..CALLS => Answer::call("bash", json!({ "command": format!(": {n}") })),
            CALLS => Answer::Hang,
            _ => Answer::text("done"),
        });
        let home = super::wide_home(&server, Protocol::Anthropic);
        let mut live = Live::spawn(home.rewake(["-p", "--yolo", "work"]));
        for _ in 0..=CALLS {
            asked.recv_timeout(LIMIT).expect("a request");
        }
        assert!(live.kill(), "it ended by itself");
        live.wait(LIMIT);

        let since = Instant::now();
        let terminal = Terminal::that_answers(&home, &["-c", "--yolo"]);
        let at = asked.recv_timeout(LIMIT).expect("the request again");
        times.push(at - since);
        terminal.kill();
    }
    Row::new("the screen after a kill to the first request", both(&times))
        .beside(floor)
        .target("50 ms", times.median() <= Duration::from_millis(50))
}

fn both(times: &Times) -> String {
    format!(
        "{}, p99 {}",
        ms(times.median()),
        ms(times.worst_of_hundred())
    )
}
