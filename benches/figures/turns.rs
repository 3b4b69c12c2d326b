//! Turns of the real binary with a shell command each, against a server that answers at once.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::child::{self, Cost};
use crate::sample::{RawAppend, Times, process, ratio};
use crate::support::{Answer, Options, Protocol, Server};
use crate::table::{Row, mb, ms};

/// So many syncs has a turn at least: the answer, the begin and the result of its call.
const SYNCS: u32 = 3;

const FLOOR_SAMPLES: usize = 100;

pub fn rows() -> Vec<Row> {
    let mut floor = Floor::new();
    floor.sample();
    let (turns, cost) = run(200, "true");
    floor.sample();
    let turn = turns.median();
    let cpu = cost.cpu + cost.cpu_below;
    vec![
        Row::new(
            "one turn: `true` through the shell, durable",
            format!("{}, p99 {}", ms(turn), ms(turns.worst_of_hundred())),
        )
        .beside(floor.describe())
        .ratio(ratio(turn, floor.time()))
        .target("4 ms", turn <= Duration::from_millis(4)),
        Row::new("CPU for 200 turns", secs(cpu))
            .beside(format!(
                "agent {}, keepers and shells {}",
                secs(cost.cpu),
                secs(cost.cpu_below)
            ))
            .target("1 s", cpu <= Duration::from_secs(1)),
        Row::new("peak memory over 200 turns", mb(cost.peak_bytes))
            .target("40 MB", cost.peak_bytes <= 40_000_000),
    ]
}

/// 1,000 calls that print 2 KB each.
pub fn thousand() -> Vec<Row> {
    let (turns, cost) = run(1_000, "printf %02048d 7");
    let (first, last) = (turns.first(100).median(), turns.last(100).median());
    let growth = ratio(last, first);
    vec![
        Row::new("1,000 calls of 2 KB: last 100 turns", ms(last))
            .beside(format!("first 100: {}", ms(first)))
            .ratio(growth)
            .target("1.3 ×", growth <= 1.3),
        Row::new("… peak memory", mb(cost.peak_bytes)),
        Row::new("… CPU of the agent", secs(cost.cpu)).beside(format!(
            "keepers and shells {}; wall {}",
            secs(cost.cpu_below),
            secs(cost.wall)
        )),
        Row::new(
            "… given to the disk, per call",
            kb(cost.written_bytes / 1_000),
        )
        .beside("agent and keepers, all files"),
    ]
}

/// The times from one request to the next, and what the run cost.
fn run(count: usize, command: &'static str) -> (Times, Cost) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let options = Options {
        keep_bodies: false,
        check: false,
        ..Options::default()
    };
    let server = Server::start_with(options, move |request| {
        seen.lock().unwrap().push(Instant::now());
        match request.turn < count {
            true => Answer::call("bash", json!({ "command": command })),
            false => Answer::text("done"),
        }
    });
    let home = super::wide_home(&server, Protocol::Anthropic);
    let command = home.rewake(["-p", "--yolo", "work"]);
    let cost = child::run(command, Duration::from_millis(20));
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), count + 1, "requests");
    (Times::between(&asked), cost)
}

/// What no agent can be quicker than that runs a shell and syncs.
struct Floor {
    raw: RawAppend,
    shell: Times,
    _folder: tempfile::TempDir,
}

impl Floor {
    fn new() -> Floor {
        let folder = tempfile::tempdir().expect("a folder");
        Floor {
            raw: RawAppend::in_folder(folder.path()),
            shell: Times::default(),
            _folder: folder,
        }
    }

    fn sample(&mut self) {
        for _ in 0..FLOOR_SAMPLES {
            self.raw.once();
            let shell = process(Command::new("bash").args(["-c", "true"]));
            self.shell.push(shell);
        }
    }

    fn time(&self) -> Duration {
        self.shell.median() + self.raw.times.median() * SYNCS
    }

    fn describe(&self) -> String {
        format!(
            "bash -c true {} + {SYNCS} × sync {}",
            ms(self.shell.median()),
            ms(self.raw.times.median())
        )
    }
}

fn secs(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn kb(bytes: u64) -> String {
    format!("{:.0} KB", bytes as f64 / 1e3)
}
