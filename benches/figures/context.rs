//! What a long task asks of the model, and how much of that a provider's cache gives back:
//! compactions keep the requests short, and make part of them new.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use crate::table::Row;
use support::{Answer, Options, PrefixRow, Protocol, Server};

/// What a task is.
struct Work {
    calls: usize,
    /// What each prints.
    bytes: usize,
    window: u64,
    strategy: &'static str,
}

/// What the task asked, tokens.
struct Task {
    asked: u64,
    /// Of that, what the request before began with.
    cached: u64,
    /// Asked of the summary model.
    summarised: u64,
    /// What the model and the summary model wrote.
    output: u64,
    summaries: usize,
    largest: u64,
}

impl Task {
    /// What it costs, in the price of a token that is new to the provider: one that it has in
    /// its cache costs a tenth, one that it writes costs five.
    fn units(&self) -> u64 {
        self.asked - self.cached + self.summarised + self.cached / 10 + self.output * 5
    }
}

pub fn rows() -> Vec<Row> {
    let work = |calls, bytes, window| Work {
        calls,
        bytes,
        window,
        strategy: "",
    };
    let small = task(&work(300, 4_096, 32_000));
    let large = task(&work(300, 4_096, 200_000));
    let never = task(&Work {
        strategy: "strategy = \"manual\"",
        ..work(300, 4_096, 100_000_000)
    });
    let long = task(&work(1_000, 2_048, 200_000));
    vec![
        row("300 calls of 4 KB, window 32000", &small),
        row("300 calls of 4 KB, window 200000", &large),
        row("300 calls of 4 KB, no window closed", &never),
        row("1,000 calls of 2 KB, window 200000", &long),
        cost(
            "300 calls of 4 KB, window 32000",
            &small,
            BEFORE_SMALL * 8 / 10,
        ),
        cost("1,000 calls of 2 KB, window 200000", &long, 6_000_000),
    ]
}

/// What the first of these tasks cost in version 0.1, which summarised whole exchanges.
const BEFORE_SMALL: u64 = 1_260_000;

fn row(what: &str, task: &Task) -> Row {
    let kept = task.cached as f64 / task.asked as f64 * 100.0;
    Row::new(format!("{what}: tokens asked"), millions(task.asked)).beside(format!(
        "{} of it cached ({kept:.1} %), {} new; {} in {} summaries; largest request {}",
        millions(task.cached),
        millions(task.asked - task.cached),
        millions(task.summarised),
        task.summaries,
        task.largest,
    ))
}

fn cost(what: &str, task: &Task, target: u64) -> Row {
    let units = task.units();
    Row::new(format!("{what}: cost"), millions(units))
        .beside("units: a new token 1, a cached one 0.1, a written one 5")
        .target(millions(target), units <= target)
}

fn millions(tokens: u64) -> String {
    format!("{:.2} M", tokens as f64 / 1e6)
}

/// Commands that print so many bytes each.
fn task(work: &Work) -> Task {
    let (row, summaries) = (Arc::new(Mutex::new(PrefixRow::default())), Arc::default());
    let output = Arc::new(AtomicUsize::new(0));
    let server = server(
        work,
        Arc::clone(&row),
        Arc::clone(&summaries),
        Arc::clone(&output),
    );
    let home = support::Home::new();
    let more = format!(
        "[context]\n{}\n[models.\"local/test-model\"]\ncontext_window = {}\n",
        work.strategy, work.window
    );
    home.configure(&server, Protocol::Anthropic, &more);
    let args = ["-p", "--yolo", "work"];
    support::run(home.rewake(args), Duration::from_secs(300)).expect(0);
    server.assert_no_violations();
    let row = row.lock().unwrap();
    assert_eq!(row.asked.len(), work.calls + 1, "requests");
    let summaries: std::sync::MutexGuard<'_, Vec<usize>> = summaries.lock().unwrap();
    Task {
        asked: row.asked.iter().map(|a| a.tokens()).sum(),
        cached: row.asked.iter().map(|a| a.same as u64 / 4).sum(),
        summarised: summaries.iter().map(|bytes| *bytes as u64 / 4).sum(),
        output: output.load(Ordering::Relaxed) as u64 / 4,
        summaries: summaries.len(),
        largest: row.asked.iter().map(|a| a.tokens()).max().unwrap_or(0),
    }
}

fn server(
    work: &Work,
    row: Arc<Mutex<PrefixRow>>,
    summaries: Arc<Mutex<Vec<usize>>>,
    output: Arc<AtomicUsize>,
) -> Server {
    let (asked, calls, bytes) = (AtomicUsize::new(0), work.calls, work.bytes);
    let options = Options {
        keep_bodies: false,
        ..Options::default()
    };
    Server::start_with(options, move |seen| {
        if seen.model.contains("summary") {
            summaries.lock().unwrap().push(seen.body.len());
            let summary = "what was done so far, told in some twenty words. ".repeat(20);
            output.fetch_add(summary.len(), Ordering::Relaxed);
            return Answer::text(summary);
        }
        row.lock().unwrap().see(&seen.json);
        match asked.fetch_add(1, Ordering::Relaxed) {
            n if n < calls => {
                let command = format!("printf %0{bytes}d {n}");
                // With what a call has around it.
                output.fetch_add(command.len() + 80, Ordering::Relaxed);
                Answer::call("bash", json!({ "command": command }))
            }
            _ => Answer::text("done"),
        }
    })
}
