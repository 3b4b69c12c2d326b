//! Sub-agents: what one takes of memory, how soon it begins, and how soon its parent has the result
//! behind a kill.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rewake::command::{RunState, Runs};
use serde_json::json;

use crate::child::{own_bytes, peak_bytes};
use crate::sample::Times;
use crate::starting::instants;
use crate::table::{Row, mb, ms};
use support::{Answer, Home, Live, Protocol, Seen};

const ROUNDS: usize = 20;
const LIMIT: Duration = Duration::from_secs(20);
const MEMORY: u64 = 25_000_000;
const START: Duration = Duration::from_millis(100);
const RESULT: Duration = Duration::from_millis(50);

pub fn rows() -> Vec<Row> {
    vec![memory(), start(), result_after_a_kill()]
}

fn is_child(seen: &Seen) -> bool {
    seen.json.to_string().contains("You are a subagent")
}

fn task() -> Answer {
    Answer::call("task", json!({ "prompt": "look around" }))
}

/// The process group of the sub-agent at work.
fn at_work(home: &Home) -> Option<u32> {
    let exe = env!("CARGO_BIN_EXE_rewake");
    let runs = Runs::new(home.rewake_home().join("runs"), exe).list();
    runs.into_iter().find_map(|info| match info.state {
        RunState::Running { group, .. } if info.spec.child.is_some() => group,
        _ => None,
    })
}

/// Behind twenty calls, while its model is asked.
fn memory() -> Row {
    const CALLS: usize = 20;
    let count = AtomicUsize::new(0);
    let (server, asked) = instants(move |seen| {
        if !is_child(seen) {
            return task();
        }
        match count.fetch_add(1, Ordering::SeqCst) {
            n @ ..CALLS => Answer::call("bash", json!({ "command": format!("seq {n} 2000") })),
            _ => Answer::Hang,
        }
    });
    let home = super::wide_home(&server, Protocol::Anthropic);
    let mut live = Live::spawn(home.rewake(["-p", "--yolo", "work"]));
    for _ in 0..CALLS + 2 {
        asked.recv_timeout(LIMIT).expect("a request");
    }
    let group = at_work(&home).expect("a sub-agent");
    let (peak, own) = (peak_bytes(group), own_bytes(group));
    let of_parent = peak_bytes(live.id());
    live.kill();
    live.wait(LIMIT);
    let _ = rustix::process::Pid::from_raw(group.cast_signed())
        .map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
    Row::new("memory of a subagent", mb(peak))
        .beside(format!(
            "peak, {CALLS} calls; {} of it its own; its parent {}",
            mb(own),
            mb(of_parent)
        ))
        .target("25 MB", peak <= MEMORY)
}

/// From the request that is answered with the task to the first request of the sub-agent.
fn start() -> Row {
    let mut times = Times::default();
    for _ in 0..ROUNDS {
        let (server, asked) = instants(|seen| match (is_child(seen), seen.turn) {
            (false, 0) => task(),
            _ => Answer::text("done"),
        });
        let home = super::wide_home(&server, Protocol::Anthropic);
        let live = Live::spawn(home.rewake(["-p", "--yolo", "work"]));
        let first = asked.recv_timeout(LIMIT).expect("a request");
        let of_child = asked
            .recv_timeout(LIMIT)
            .expect("a request of the sub-agent");
        live.wait(LIMIT);
        times.push(of_child - first);
    }
    Row::new("start of a subagent to its first request", both(&times))
        .target("100 ms", times.median() <= START)
}

/// The parent is killed, the sub-agent comes to its end, and the parent is started again.
fn result_after_a_kill() -> Row {
    let mut times = Times::default();
    for _ in 0..ROUNDS {
        let may_end = Arc::new(AtomicBool::new(false));
        let waits = may_end.clone();
        let (server, asked) = instants(move |seen| match (is_child(seen), seen.turn) {
            (false, 0) => task(),
            (false, _) => Answer::text("done"),
            (true, _) => {
                while !waits.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Answer::text("looked")
            }
        });
        let home = super::wide_home(&server, Protocol::Anthropic);
        let mut live = Live::spawn(home.rewake(["-p", "--yolo", "work"]));
        for _ in 0..2 {
            asked.recv_timeout(LIMIT).expect("a request");
        }
        assert!(live.kill(), "it ended by itself");
        live.wait(LIMIT);
        may_end.store(true, Ordering::SeqCst);
        let until = Instant::now() + LIMIT;
        while at_work(&home).is_some() {
            assert!(Instant::now() < until, "the sub-agent does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
        let since = Instant::now();
        let live = Live::spawn(home.rewake(["-p", "-c", "--yolo"]));
        let at = asked
            .recv_timeout(LIMIT)
            .expect("the request with the result");
        times.push(at - since);
        let run = live.wait(LIMIT);
        assert!(run.status.success(), "{}", run.stderr);
    }
    Row::new(
        "exec after a kill to the request with its result",
        both(&times),
    )
    .target("50 ms", times.median() <= RESULT)
}

fn both(times: &Times) -> String {
    let worst = times.worst_of_hundred();
    format!("{}, p99 {}", ms(times.median()), ms(worst))
}
