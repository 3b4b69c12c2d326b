//! Turns of the real binary with a shell command each, against a server that answers at once.

use std::process::Command;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::child::{self, Cost};
use crate::peer;
use crate::sample::{RawAppend, Times, process, ratio};
use crate::starting::instants;
use crate::table::{Row, mb, ms};
use support::{Answer, Protocol, Says, Seen};

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
    let work = turn.saturating_sub(floor.raw.times.median() * SYNCS);
    let mut rows = vec![
        Row::new(
            "one turn: `true` through the shell, durable",
            format!("{}, p99 {}", ms(turn), ms(turns.worst_of_hundred())),
        )
        .beside(floor.describe())
        .ratio(ratio(turn, floor.time()))
        .target("4 ms", turn <= Duration::from_millis(4)),
        Row::new("… less the syncs", ms(work)),
        Row::new("CPU for 200 turns", secs(cpu))
            .beside(format!(
                "agent {}, keepers and shells {}",
                secs(cost.cpu),
                secs(cost.cpu_below)
            ))
            .target("1 s", cpu <= Duration::from_secs(1)),
        Row::new("peak memory over 200 turns", mb(cost.peak_bytes))
            .target("40 MB", cost.peak_bytes <= 40_000_000),
        Row::new("… of the agent and its keepers", mb(cost.peak_shared_bytes))
            .beside("PSS: shared pages are counted once")
            .target("20 MB", cost.peak_shared_bytes <= 20_000_000),
        at_the_same_time(),
    ];
    if let Some((turns, cost)) = peer::pi(200, "true") {
        let theirs = cost.cpu + cost.cpu_below;
        let (of_turn, of_cpu) = (ratio(work, turns.median()), ratio(cpu, theirs));
        rows.push(
            Row::new("a turn less the syncs, beside one of pi", ms(work))
                .beside(format!("pi, which syncs nothing: {}", ms(turns.median())))
                .ratio(of_turn)
                .target("0.5 ×", of_turn <= 0.5),
        );
        rows.push(
            Row::new("CPU for 200 turns, beside pi", secs(cpu))
                .beside(format!("pi {}", secs(theirs)))
                .ratio(of_cpu)
                .target("0.3 ×", of_cpu <= 0.3),
        );
    }
    rows
}

/// Commands with access `read` in one answer. The floor is the same commands without rewake.
fn at_the_same_time() -> Row {
    const CALLS: u32 = 12;
    let call = || json!({ "command": "sleep 0.2", "access": "read" });
    let (server, asked) = instants(move |request| match request.turn {
        0 => (0..CALLS)
            .fold(Says::default(), |says, _| says.and_call("bash", call()))
            .into(),
        _ => Answer::text("done"),
    });
    let home = super::wide_home(&server, Protocol::Anthropic);
    let (turns, _) = measure(home.rewake(["-p", "work"]), &asked, 1);
    let took = turns.median();
    let floor = Duration::from_millis(200) * CALLS.div_ceil(4);
    Row::new("twelve `sleep 0.2` with access read", secs(took))
        .beside(format!("four at once without rewake {}", secs(floor)))
        .ratio(ratio(took, floor))
        .target("0.9 s", took <= Duration::from_millis(900))
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
    let (server, asked) = instants(calls(count, command));
    let home = super::wide_home(&server, Protocol::Anthropic);
    let command = home.rewake(["-p", "--yolo", "work"]);
    measure(command, &asked, count)
}

/// A model that calls the shell so often, once in each answer.
pub fn calls(count: usize, command: &'static str) -> impl Fn(&Seen) -> Answer {
    move |request| match request.turn < count {
        true => Answer::call("bash", json!({ "command": command })),
        false => Answer::text("done"),
    }
}

/// Runs an agent with this model to its end.
pub fn measure(command: Command, asked: &Receiver<Instant>, count: usize) -> (Times, Cost) {
    let cost = child::run(command, Duration::from_millis(20));
    let asked: Vec<Instant> = asked.try_iter().collect();
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
