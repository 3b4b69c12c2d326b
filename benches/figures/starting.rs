//! From exec to something: the version, the first request, the first request after a kill.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::sample::{Times, process, ratio};
use crate::table::{Row, mb, ms};
use support::{Answer, Home, Live, Options, Protocol, Seen, Server};

const STARTS: usize = 60;
const KILLS: usize = 12;

/// Calls that are done before the kill.
const CALLS: usize = 20;

const LIMIT: Duration = Duration::from_secs(20);

pub fn rows() -> Vec<Row> {
    let home = Home::new();
    let (mut ours, mut floor) = (Times::default(), Times::default());
    for _ in 0..STARTS {
        floor.push(process(&mut Command::new("/bin/true")));
        ours.push(process(&mut home.rewake(["--version"])));
    }
    let floor_text = format!("/bin/true {}", ms(floor.median()));
    let version = ours.median();
    let exe = std::fs::metadata(env!("CARGO_BIN_EXE_rewake"));
    let bytes = exe.map_or(0, |exe| exe.len());
    vec![
        Row::new("size of the program, profile `release`", mb(bytes))
            .target("26 MB", bytes <= 26_000_000),
        Row::new("rewake --version", both(&ours))
            .beside(&floor_text)
            .ratio(ratio(version, floor.median()))
            .target("5 ms", version <= Duration::from_millis(5)),
        first_request("exec to the first request", &floor_text, ""),
        first_request(
            "the same with 5 MCP servers that never answer",
            &floor_text,
            &silent_servers(5),
        ),
        after_a_kill(),
    ]
}

fn both(times: &Times) -> String {
    format!(
        "{}, p99 {}",
        ms(times.median()),
        ms(times.worst_of_hundred())
    )
}

fn silent_servers(count: u32) -> String {
    let one = |n| format!("[mcp_servers.silent{n}]\ncommand = \"sleep\"\nargs = [\"60\"]\n");
    (0..count).map(one).collect()
}

fn first_request(what: &'static str, beside: &str, config: &str) -> Row {
    let (server, asked) = instants(|_| Answer::text("done"));
    let home = super::home_with(&server, Protocol::Anthropic, config);
    let mut times = Times::default();
    for round in 0..=STARTS {
        let since = Instant::now();
        let live = Live::spawn(home.rewake(["-p", "hello"]));
        let at = asked.recv_timeout(LIMIT).expect("a request");
        let run = live.wait(LIMIT);
        assert!(run.status.success(), "{}", run.stderr);
        // The first one makes the store.
        if round > 0 {
            times.push(at - since);
        }
    }
    Row::new(what, both(&times))
        .beside(beside)
        .target("25 ms", times.median() <= Duration::from_millis(25))
}

/// SIGKILL while the model is waited for, behind some calls.
fn after_a_kill() -> Row {
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
        let live = Live::spawn(home.rewake(["-p", "-c", "--yolo"]));
        let at = asked.recv_timeout(LIMIT).expect("the request again");
        times.push(at - since);
        let run = live.wait(LIMIT);
        assert!(run.status.success(), "{}", run.stderr);
    }
    Row::new("resume after a kill to the first request", both(&times))
        .beside(format!("{CALLS} calls before the kill"))
        .target("50 ms", times.median() <= Duration::from_millis(50))
}

/// A server that tells when it is asked.
pub fn instants(
    script: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
) -> (Server, Receiver<Instant>) {
    let (sender, asked): (Sender<Instant>, _) = channel();
    let sender = Arc::new(Mutex::new(sender));
    let options = Options {
        keep_bodies: false,
        check: false,
        ..Options::default()
    };
    let server = Server::start_with(options, move |seen| {
        // Nobody listens any more only at the end of the bench.
        let _ = sender.lock().unwrap().send(Instant::now());
        script(seen)
    });
    (server, asked)
}
