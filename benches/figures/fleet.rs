//! What a shared session costs: a push of two entries beside a bare INSERT of the same bytes, one
//! writer and sixteen of them, and the list of a hundred thousand sessions.
//!
//! A push is measured as the engine does it: with its JSON, its compression, its authentication code
//! and its thread. The server is on this machine, with fsync.

use std::process::Command;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::pushes::{Inserts, Pushes};
use crate::sample::{Times, process, ratio};
use crate::table::{Row, ms};
use support::Home;
use support::scenes::fleet::postgres::{Postgres, WORKER};

const PUSHES: usize = 2_000;
const MORE_THAN_INSERT: Duration = Duration::from_micros(500);

const WRITERS: usize = 16;
const PUSHES_OF_EACH: usize = 500;
const ROUNDS: usize = 5;
const OF_INSERTS: f64 = 0.4;
const WORST: Duration = Duration::from_millis(20);

const SESSIONS: usize = 100_000;
const LISTS: usize = 40;
const LISTED: Duration = Duration::from_millis(100);

pub fn rows() -> Vec<Row> {
    let Some(server) = Postgres::start() else {
        return vec![];
    };
    server.sql(&format!(
        "CREATE TABLE public.bare (LIKE rewake.lines INCLUDING STORAGE INCLUDING INDEXES);
         GRANT INSERT ON public.bare TO {WORKER}"
    ));
    let mut rows = one(&server);
    rows.extend(sixteen(&server));
    rows.push(list(&server));
    rows
}

fn both(times: &Times) -> String {
    let worst = times.worst_of_hundred();
    format!("{}, p99 {}", ms(times.median()), ms(worst))
}

fn one(server: &Postgres) -> Vec<Row> {
    let (mut pushes, mut inserts) = (Pushes::start(server, 1), Inserts::start(server));
    let (mut ours, mut bare) = (Times::default(), Times::default());
    for round in 0..PUSHES + 100 {
        let new = pushes.next();
        let (inserted, pushed) = (inserts.insert(&new), pushes.push(&new));
        // The first ones fill caches.
        if round >= 100 {
            bare.push(inserted);
            ours.push(pushed);
        }
    }
    let (median, floor) = (ours.median(), bare.median());
    vec![
        Row::new("a shared session: push of two entries", both(&ours))
            .beside(format!("INSERT {}", both(&bare)))
            .ratio(ratio(median, floor))
            .target("INSERT + 0.5 ms", median <= floor + MORE_THAN_INSERT),
    ]
}

/// Runs this on a thread for each writer. Returns the number in a second, and their times.
fn together<W: Send>(writers: &mut [W], once: impl Fn(&mut W) -> Duration + Sync) -> (f64, Times) {
    let barrier = Barrier::new(writers.len() + 1);
    let (barrier, once) = (&barrier, &once);
    let mut all = Times::default();
    let mut took = Duration::ZERO;
    std::thread::scope(|scope| {
        let threads: Vec<_> = writers
            .iter_mut()
            .map(|writer| {
                scope.spawn(move || {
                    barrier.wait();
                    (0..PUSHES_OF_EACH)
                        .map(|_| once(writer))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        barrier.wait();
        let since = Instant::now();
        for thread in threads {
            let times = thread.join().expect("a writer");
            times.into_iter().for_each(|time| all.push(time));
        }
        took = since.elapsed();
    });
    let count = (writers.len() * PUSHES_OF_EACH) as f64;
    (count / took.as_secs_f64(), all)
}

fn sixteen(server: &Postgres) -> Vec<Row> {
    let new = Pushes::start(server, 1).next();
    let pushes = (0..WRITERS).map(|n| Pushes::start(server, n as u64 + 2));
    let mut pushes: Vec<Pushes> = pushes.collect();
    let inserts = (0..WRITERS).map(|_| Inserts::start(server));
    let mut inserts: Vec<Inserts> = inserts.collect();
    let mut found = Vec::new();
    for _ in 0..ROUNDS {
        let (bare, inserted) = together(&mut inserts, |inserts| inserts.insert(&new));
        let (ours, times) = together(&mut pushes, |pushes| {
            let new = pushes.next();
            pushes.push(&new)
        });
        found.push((ours / bare, ours, bare, times, inserted));
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (part, ours, bare, times, inserted) = found.swap_remove(ROUNDS / 2);
    vec![
        Row::new(
            format!("{WRITERS} writers: pushes in a second"),
            format!("{ours:.0}"),
        )
        .beside(format!("{bare:.0} INSERTs"))
        .ratio(part)
        .target(format!("{OF_INSERTS} ×"), part >= OF_INSERTS),
        Row::new("… a push", both(&times))
            .beside(format!("INSERT {}", both(&inserted)))
            .target(
                format!("p99 {}", ms(WORST)),
                times.worst_of_hundred() <= WORST,
            ),
    ]
}

fn list(server: &Postgres) -> Row {
    server.sql(&format!(
        "INSERT INTO rewake.sessions
           (id, fence, home, boot, host, role, tip, length, header, title, state, needs, updated)
         SELECT gen_random_uuid(), 1, 'home', 'boot', 'host', '{WORKER}',
           decode(repeat('00', 16), 'hex'), n, '{{}}', 'The title of session ' || n, 'idle', 1,
           clock_timestamp() - n * interval '1 s'
         FROM generate_series(1, {SESSIONS}) n"
    ));
    server.sql("VACUUM ANALYZE rewake.sessions");
    let home = Home::new();
    home.write_config(&format!("[fleet]\nurl = \"{}\"\n", server.url(WORKER)));
    let (mut ours, mut floor) = (Times::default(), Times::default());
    for _ in 0..LISTS {
        floor.push(process(&mut Command::new("/bin/true")));
        ours.push(process(&mut home.rewake(["history", "--shared"])));
    }
    Row::new(
        format!("rewake history --shared of {SESSIONS} sessions"),
        both(&ours),
    )
    .beside(format!("/bin/true {}", ms(floor.median())))
    .target(ms(LISTED), ours.median() <= LISTED)
}
