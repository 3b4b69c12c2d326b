//! What `rewake serve` takes: a page of the history of many sessions, and followers while an answer
//! is streamed.

use std::time::{Duration, Instant};

use rewake::core::entry::{Block, Entry, StopReason, Usage, Via};
use rewake::store::{Batch, NewSession, Store, now_ms};

use crate::checkpoint::opened;
use crate::child;
use crate::noise::Noise;
use crate::sample::{Times, ratio};
use crate::table::{Row, mb, ms};
use support::scenes::serve::{Follow, Serve};
use support::{Answer, Home, Live, Protocol, Says, Server};

/// What a person has after some years.
const SESSIONS: usize = 10_000;
const REQUESTS: usize = 100;
const PAGE: Duration = Duration::from_millis(20);

const FOLLOWERS: usize = 100;
const FOLLOWED_FOR: Duration = Duration::from_secs(8);
const MEMORY: u64 = 30_000_000;
const CPU_PERCENT: f64 = 2.0;

/// A session of weeks, shown on the pages of a team.
const LONG_EXCHANGES: usize = 22_000;
const CLIENTS: usize = 50;
const ROUNDS: usize = 10;
const SHOWN: Duration = Duration::from_millis(300);

const LAGS: usize = 100;
const LAG: Duration = Duration::from_millis(250);

pub fn rows() -> Vec<Row> {
    let mut rows = history();
    rows.extend(followers());
    rows.push(lag());
    rows
}

fn both(times: &Times) -> String {
    let worst = times.worst_of_hundred();
    format!("{}, p99 {}", ms(times.median()), ms(worst))
}

fn history() -> Vec<Row> {
    let model = Server::start(|_| Answer::text("not asked"));
    let home = super::wide_home(&model, Protocol::Anthropic);
    let mut store = Store::open(&home.rewake_home()).expect("open the store");
    let mut noise = Noise::new(3);
    for n in 0..SESSIONS {
        session(&home, &mut store, &mut noise, n);
    }
    drop(store);
    let server = Serve::start(&home, &["--scope", "read"]);
    // The index of the words is brought up to date by the first search.
    let search = "/agent/history?q=needle777";
    assert!(server.get(search).expect(200).text().contains("needle777"));
    let (mut floor, mut page, mut found) = (Times::default(), Times::default(), Times::default());
    for _ in 0..REQUESTS {
        floor.time(|| server.get("/health").expect(200));
        page.time(|| server.get("/agent/history").expect(200));
        found.time(|| server.get(search).expect(200));
    }
    let beside = format!("GET /health {}", both(&floor));
    let row = |what: &str, times: &Times| {
        Row::new(what, both(times))
            .beside(&beside)
            .ratio(ratio(times.median(), floor.median()))
            .target("20 ms", times.median() <= PAGE)
    };
    vec![
        row("GET /agent/history, 30 of 10,000 sessions", &page),
        row("… with a search that one session fits", &found),
    ]
}

/// A session that is done: a question and its answer.
fn session(home: &Home, store: &mut Store, noise: &mut Noise, n: usize) -> String {
    let folder = home.workspace().canonicalize().expect("the workspace");
    let folder = folder.to_string_lossy().into_owned();
    let new = NewSession {
        id: rewake::store::new_id(),
        workspace: folder.clone(),
        folder: folder.clone(),
    };
    let (mut head, _) = store.create(&new, 0, opened(&folder)).expect("a session");
    let text = format!("needle{n} {}", noise.text(500));
    let batch = Batch {
        at_ms: now_ms(),
        entries: exchange(text, noise.text(1_500)),
        ..Batch::default()
    };
    store.append(&mut head, &batch).expect("append");
    head.session().to_string()
}

fn exchange(text: String, answer: String) -> Vec<Entry> {
    let said = Entry::Said {
        text,
        images: Vec::new(),
        via: Via::Prompt,
        command: None,
        origin: None,
    };
    let replied = Entry::Replied {
        blocks: vec![Block::text(answer)],
        usage: Usage::default(),
        stop: StopReason::EndTurn,
        model: "local/test-model".into(),
        took_ms: 1,
        asked_bytes: 0,
        source_usage: None,
    };
    vec![said, replied]
}

/// What the server took while it was followed.
struct Taken {
    /// Of one core.
    cpu_percent: f64,
    /// More than before anybody followed, at its peak.
    bytes: u64,
    /// What each follower was told.
    events: usize,
}

fn followers() -> Vec<Row> {
    // Longer than it is followed.
    let model = Server::start(|_| Answer::Slow {
        says: Says::text("words that are streamed ".repeat(20_000)),
        chunk_bytes: 60,
        delay_ms: 10,
    });
    let home = super::wide_home(&model, Protocol::Anthropic);
    let format = ["-p", "speak", "--output-format", "stream-json"];
    let live = Live::spawn(home.rewake(format));
    live.wait_for(Duration::from_secs(20), |line| {
        line.contains("words that are")
    });
    let mut store = Store::open(&home.rewake_home()).expect("open the store");
    let newest = store
        .history()
        .newest(None)
        .expect("a look")
        .expect("a session")
        .id;
    let mut noise = Noise::new(4);
    let mut ids: Vec<String> = (1..FOLLOWERS)
        .map(|n| session(&home, &mut store, &mut noise, n))
        .collect();
    ids.push(newest.clone());
    drop(store);
    let one = taken(&home, std::slice::from_ref(&newest));
    let same = taken(&home, &vec![newest; FOLLOWERS]);
    let each = taken(&home, &ids);
    drop(live);
    let cpu = |what: String, taken: &Taken| {
        Row::new(what, format!("{:.1} % of a core", taken.cpu_percent))
            .beside(format!(
                "1 follower {:.1} %; {} events each",
                one.cpu_percent, taken.events
            ))
            .ratio(taken.cpu_percent / one.cpu_percent.max(0.1))
            .target("2 %", taken.cpu_percent <= CPU_PERCENT)
    };
    let memory = |taken: &Taken| {
        Row::new("… memory", mb(taken.bytes))
            .beside(format!("1 follower {}", mb(one.bytes)))
            .target("30 MB", taken.bytes <= MEMORY)
    };
    vec![
        cpu(
            format!("{FOLLOWERS} followers of a session, an answer streams"),
            &same,
        ),
        memory(&same),
        cpu(
            format!("{FOLLOWERS} followers of a session each, one of them streams"),
            &each,
        ),
        memory(&each),
    ]
}

/// The last of them is at work, and tells when all of it has begun.
fn taken(home: &Home, ids: &[String]) -> Taken {
    let server = Serve::start(home, &["--scope", "read"]);
    let pid = server.live.id();
    server.get("/agent/history").expect(200);
    let before = child::peak_bytes(pid);
    let all: Vec<Follow> = ids
        .iter()
        .map(|id| server.follow(&format!("/sessions/{id}/events"), None))
        .collect();
    for one in &all {
        one.until(|events, _| !events.is_empty());
    }
    let cpu = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        child::cpu(&stat).0
    };
    let told = || all.last().map_or(0, |one| one.until(|_, _| true).len());
    let (from, since, first) = (cpu(), Instant::now(), told());
    std::thread::sleep(FOLLOWED_FOR);
    let cpu_percent = 100.0 * ratio(cpu() - from, since.elapsed());
    Taken {
        cpu_percent,
        bytes: child::peak_bytes(pid).saturating_sub(before),
        events: told() - first,
    }
}

/// One long session, asked for by many clients at once.
pub fn clients() -> Vec<Row> {
    let model = Server::start(|_| Answer::text("not asked"));
    let home = super::wide_home(&model, Protocol::Anthropic);
    let mut store = Store::open(&home.rewake_home()).expect("open the store");
    let id = session(&home, &mut store, &mut Noise::new(6), 0);
    let (mut head, _) = store.load(&id).expect("the session");
    for _ in 0..LONG_EXCHANGES / 500 {
        let entries = (0..500).flat_map(|_| exchange("more".into(), "yes".into()));
        let batch = Batch {
            at_ms: now_ms(),
            entries: entries.collect(),
            ..Batch::default()
        };
        store.append(&mut head, &batch).expect("append");
    }
    drop(store);
    let server = Serve::start(&home, &["--scope", "read"]);
    let path = format!("/sessions/{id}");
    let mut first = Times::default();
    first.time(|| server.get(&path).expect(200));
    let mut all = Times::default();
    std::thread::scope(|threads| {
        let ask = || {
            let timed = (0..ROUNDS).map(|_| {
                let since = Instant::now();
                server.get(&path).expect(200);
                since.elapsed()
            });
            timed.collect::<Vec<_>>()
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| threads.spawn(ask)).collect();
        for client in clients {
            let times = client.join().expect("a client");
            times.into_iter().for_each(|time| all.push(time));
        }
    });
    let row = Row::new("GET /sessions/{id}, 44,000 entries, 50 clients", both(&all))
        .beside(format!("the first one {}", ms(first.median())))
        .target("300 ms", all.median() <= SHOWN);
    vec![row]
}

/// From the commit of an entry to its event at a follower.
fn lag() -> Row {
    let model = Server::start(|_| Answer::text("not asked"));
    let home = super::wide_home(&model, Protocol::Anthropic);
    let mut store = Store::open(&home.rewake_home()).expect("open the store");
    let id = session(&home, &mut store, &mut Noise::new(5), 0);
    let server = Serve::start(&home, &["--scope", "read"]);
    let follow = server.follow(&format!("/sessions/{id}/events"), None);
    follow.until(|events, _| events.iter().any(|event| event.name == "state"));
    let mut times = Times::default();
    for n in 0..LAGS {
        // At any instant between two looks.
        std::thread::sleep(Duration::from_millis((n * 37 % 100) as u64));
        let (mut head, _) = store.load(&id).expect("the session");
        let batch = Batch {
            at_ms: now_ms(),
            entries: exchange("more".into(), "yes".into()),
            ..Batch::default()
        };
        store.append(&mut head, &batch).expect("append");
        let last = head.seq();
        times.time(|| follow.until(|events, _| events.iter().any(|e| e.id == Some(last))));
    }
    Row::new("an entry is at a follower", both(&times))
        .beside("it is looked for ten times a second")
        .target("p99 250 ms", times.worst_of_hundred() <= LAG)
}
