//! Streams of events: nothing is lost and nothing comes twice, whoever is killed; and no reader
//! harms the others.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use rewake::core::entry::{Block, Entry, StopReason, Usage};
use rewake::store::{Batch, Store, now_ms};
use serde_json::{Value, json};

use crate::server::client::{Event, LIMIT, Serve};
use crate::server::{done_session, scripted, step};
use support::{Home, Live};

fn ids(events: &[Event]) -> Vec<u64> {
    events.iter().filter_map(|event| event.id).collect()
}

/// A run of commands, each a little slow.
fn at_work(calls: u64) -> Home {
    let bash = |n: u64| {
        (
            "bash",
            json!({"command": format!("sleep 0.05; echo {n} >> effects")}),
        )
    };
    let mut steps: Vec<String> = (0..calls)
        .map(|n| step(&format!("step {n}"), &[bash(n)]))
        .collect();
    steps.push(step("all done", &[]));
    scripted(&steps)
}

/// The server and the agent are both killed, again and again. The client goes on with the last id
/// that it has, and in the end it has each entry once.
#[test]
fn a_stream_resumes_exactly_after_the_last_event_id() {
    let home = at_work(24);
    let agent = |args: &[&str]| {
        Live::spawn(
            home.rewake(
                ["-p", "--yolo", "--output-format", "stream-json"]
                    .iter()
                    .chain(args),
            ),
        )
    };
    let mut live = agent(&["do it"]);
    live.wait_for(LIMIT, |line| line.contains("session.opened"));
    let mut server = Serve::start(&home, &["--scope", "read"]);
    let listed = server.get("/agent/history").json();
    let id = listed["sessions"][0]["id"].as_str().unwrap().to_string();
    let path = format!("/sessions/{id}/events?from=0");
    let (mut came, mut last): (Vec<Event>, Option<u64>) = (Vec::new(), None);
    for round in 0..4 {
        let follow = server.follow(&path, last);
        let wanted = 6 + 3 * round;
        let seen = follow.until(|all, _| ids(all).len() >= wanted || all.iter().any(is_end));
        if round % 2 == 0 {
            server.live.kill();
            live.kill();
        } else {
            live.kill();
            server.live.kill();
        }
        drop(live.wait(LIMIT));
        let mut whole = follow.until(|_, is_over| is_over);
        assert!(whole.len() >= seen.len());
        whole.retain(|event| event.id.is_some());
        last = whole.last().and_then(|event| event.id).or(last);
        came.extend(whole);
        live = agent(&["-c"]);
        server = Serve::start(&home, &["--scope", "read"]);
    }
    let follow = server.follow(&path, last);
    let mut rest = follow.until(|all, _| all.iter().any(is_end));
    live.wait(LIMIT).expect(0);
    rest.retain(|event| event.id.is_some());
    came.extend(rest);
    let upto = came.iter().position(is_end).unwrap();
    let came = &came[..=upto];
    assert_eq!(ids(came), (0..came.len() as u64).collect::<Vec<_>>());
    let mut recorded: Vec<Value> = Vec::new();
    let mut next = Some(0);
    while let Some(from) = next {
        let part = server
            .get(&format!("/sessions/{id}/entries?from={from}"))
            .json();
        recorded.extend(part["entries"].as_array().unwrap().clone());
        next = part["next"].as_u64();
    }
    for (event, entry) in came.iter().zip(&recorded) {
        assert_eq!(&event.data, entry);
    }
}

fn is_end(event: &Event) -> bool {
    event.data["type"] == "entry.replied" && event.data["blocks"][0]["text"] == "all done"
}

#[test]
fn streamed_words_come_as_they_are_streamed() {
    // Two clients come while it streams, however late: that takes some seconds.
    let words: String = (0..400).map(|n| format!("word{n} ")).collect();
    let slow = format!(
        "[[step]]\ntext = {}\nchunk_chars = 20\nchunk_ms = 60\n",
        json!(words)
    );
    let home = scripted(&[slow]);
    let server = Serve::start(&home, &[]);
    let made = server.post(
        "/sessions",
        &json!({"prompt": "speak", "folder": home.workspace()}),
    );
    let id = made.expect(201).json()["session"]
        .as_str()
        .unwrap()
        .to_string();
    let follow = server.follow(&format!("/sessions/{id}/events"), None);
    // Who comes later is told what was streamed so far.
    follow.until(|all, _| text(all).len() > 100);
    let late = server.follow(&format!("/sessions/{id}/events"), None);
    for one in [&follow, &late] {
        let came = one.until(|all, _| all.iter().any(|e| e.data["type"] == "entry.replied"));
        let upto = came
            .iter()
            .position(|e| e.data["type"] == "entry.replied")
            .unwrap();
        let text = text(&came[..upto]);
        assert!(text.len() > 100 && words.starts_with(&text), "{text}");
    }
}

/// The streamed text as a client puts it together.
fn text(events: &[Event]) -> String {
    let mut text = String::new();
    for event in events.iter().filter(|event| event.name == "stream") {
        if event.data["begins"] == true {
            text.clear();
        }
        text.push_str(event.data["text"].as_str().unwrap());
    }
    text
}

#[test]
fn all_sessions_are_followed_by_their_place_among_all() {
    let home = scripted(&[step("ok", &[])]);
    let first = done_session(&home, "one");
    let mut server = Serve::start(&home, &["--scope", "read"]);
    let follow = server.follow("/events?from=0", None);
    let one = follow.until(|all, _| {
        all.iter()
            .filter(|e| e.data["type"] == "entry.replied")
            .count()
            == 1
    });
    assert!(
        one.iter()
            .all(|e| e.id.is_none() || e.data["session"] == first.as_str())
    );
    server.live.kill();
    let came = follow.until(|_, is_over| is_over);
    let last = ids(&came).pop();
    let second = done_session(&home, "two");
    server = Serve::start(&home, &["--scope", "read"]);
    let follow = server.follow("/events", last);
    let came = follow.until(|all, _| all.iter().any(|e| e.data["type"] == "entry.replied"));
    assert!(ids(&came).iter().all(|id| Some(*id) > last));
    assert_eq!(
        came.iter().find(|e| e.id.is_some()).unwrap().data["session"],
        second.as_str()
    );
    assert_eq!(came.iter().find(|e| e.id.is_some()).unwrap().data["seq"], 0);
    // One that is beyond all goes on with what comes.
    let beyond = server.follow("/events", Some(1 << 40));
    beyond.begun();
    done_session(&home, "three");
    beyond.entry("replied");
}

/// Adds an entry with so many bytes of words to a session.
fn add(store: &mut Store, id: &str, bytes: usize) {
    let (mut head, _) = store.load(id).unwrap();
    let entry = |text: String| Entry::Replied {
        blocks: vec![Block::text(text)],
        usage: Usage::default(),
        stop: StopReason::EndTurn,
        model: "s/play".into(),
        took_ms: 0,
        asked_bytes: 0,
        source_usage: None,
    };
    let said = Entry::Said {
        text: "more".into(),
        images: vec![],
        via: rewake::core::entry::Via::Prompt,
        command: None,
        origin: None,
    };
    // What compresses badly, so that it is long on the way, too.
    let text = |n: usize| {
        (n..n + bytes)
            .map(|i| char::from(b'a' + (i * i % 26) as u8))
            .collect()
    };
    let batch = Batch {
        at_ms: now_ms(),
        entries: vec![said, entry(text(bytes))],
        ..Batch::default()
    };
    store.append(&mut head, &batch).unwrap();
}

/// It does not read, and the others are told all the same. When it reads again it is told that it
/// was too slow, and goes on from the id that it has.
#[test]
fn a_slow_reader_harms_nobody() {
    let home = scripted(&[step("ok", &[])]);
    let id = done_session(&home, "x");
    let server = Serve::start(&home, &["--scope", "read"]);
    let path = format!("/sessions/{id}/events?from=0");
    let mut slow = server.connect();
    write!(
        slow,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
        server.token
    )
    .unwrap();
    let mut store = Store::open(&home.rewake_home()).unwrap();
    let quick = server.follow(&path, None);
    quick.entry("replied");
    // Soon enough that the connection is not closed for being idle.
    for n in 0..200 {
        add(&mut store, &id, 50_000);
        if n % 20 == 0 {
            let length = store.history().find(&id).unwrap().entries;
            quick.until(|all, _| ids(all).last() == Some(&(length - 1)));
        }
    }
    let length = store.history().find(&id).unwrap().entries;
    let came = quick.until(|all, _| ids(all).last() == Some(&(length - 1)));
    assert_eq!(ids(&came), (0..length).collect::<Vec<_>>());
    assert!(
        memory(server.live.id()) < 120_000,
        "{} KB",
        memory(server.live.id())
    );

    slow.set_read_timeout(Some(Duration::from_secs(90)))
        .unwrap();
    let mut text = String::new();
    let mut buffer = vec![0; 1 << 16];
    while !text.contains("event: problem") {
        match slow.read(&mut buffer) {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => break,
            Ok(n) => text.push_str(&String::from_utf8_lossy(&buffer[..n])),
        }
        if text.contains(&format!("\nid: {}\n", length - 1)) {
            break;
        }
    }
    let seen: Vec<u64> = text
        .lines()
        .filter_map(|l| l.strip_prefix("id: ")?.parse().ok())
        .collect();
    assert_eq!(seen, (0..seen.len() as u64).collect::<Vec<_>>());
    // More than is kept for it, here and on the way.
    assert!(text.contains("too slow"), "{} of {length}", seen.len());
    let rest = server.follow(&format!("/sessions/{id}/events"), seen.last().copied());
    let came = rest.until(|all, _| ids(all).last() == Some(&(length - 1)));
    assert_eq!(ids(&came), (seen.len() as u64..length).collect::<Vec<_>>());
}

/// Resident memory, KB.
fn memory(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[test]
fn a_hundred_followers_are_carried_and_forgotten() {
    let home = scripted(&[step("ok", &[])]);
    let id = done_session(&home, "x");
    let server = Serve::start(&home, &["--scope", "read"]);
    server.get("/agent/history").expect(200);
    let before = memory(server.live.id());
    let mut store = Store::open(&home.rewake_home()).unwrap();
    for _ in 0..3 {
        let length = store.history().find(&id).unwrap().entries;
        let all: Vec<_> = (0..100)
            .map(|_| server.follow(&format!("/sessions/{id}/events"), Some(length - 1)))
            .collect();
        for one in &all {
            one.until(|all, _| all.iter().any(|event| event.name == "state"));
        }
        add(&mut store, &id, 1_000);
        for one in &all {
            let came = one.until(|all, _| ids(all).len() == 2);
            assert_eq!(ids(&came), [length, length + 1]);
        }
        let grown = memory(server.live.id()).saturating_sub(before);
        assert!(grown < 30 * 1024, "{grown} KB for a hundred followers");
    }
    // More than may follow at once, one after the other: those that went away are forgotten.
    for _ in 0..300 {
        drop(server.follow(&format!("/sessions/{id}/events"), None));
    }
    let end = std::time::Instant::now() + LIMIT;
    loop {
        let one = server.follow(&format!("/sessions/{id}/events"), None);
        let came = one.until(|all, is_over| is_over || !all.is_empty());
        if !came.is_empty() {
            break;
        }
        assert!(std::time::Instant::now() < end, "no place is free again");
        std::thread::sleep(Duration::from_millis(50));
    }
}
