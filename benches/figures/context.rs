//! What a long task asks of the model, and how much of that a provider's cache gives back:
//! compactions keep the requests short, and make part of them new.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::support::{Answer, Options, PrefixRow, Protocol, Server};
use crate::table::Row;

const CALLS: usize = 300;

/// What the task asked, tokens.
struct Task {
    asked: u64,
    /// Of that, what the request before began with.
    cached: u64,
    /// Asked of the summary model.
    summarised: u64,
    summaries: usize,
    largest: u64,
}

pub fn rows() -> Vec<Row> {
    let never = task("strategy = \"manual\"", 100_000_000);
    let mut rows: Vec<Row> = [32_000, 200_000]
        .map(|window| row(&format!("window {window}"), &task("", window)))
        .into();
    rows.push(row("no window closed", &never));
    rows
}

fn row(what: &str, task: &Task) -> Row {
    let kept = task.cached as f64 / task.asked as f64 * 100.0;
    Row::new(
        format!("{CALLS} calls of 4 KB, {what}: tokens asked"),
        millions(task.asked),
    )
    .beside(format!(
        "{} of it cached ({kept:.1} %), {} new; {} in {} summaries; largest request {}",
        millions(task.cached),
        millions(task.asked - task.cached),
        millions(task.summarised),
        task.summaries,
        task.largest,
    ))
}

fn millions(tokens: u64) -> String {
    format!("{:.2} M", tokens as f64 / 1e6)
}

/// 300 commands that print 4 KB each.
fn task(strategy: &str, window: u64) -> Task {
    let (row, summaries) = (Arc::new(Mutex::new(PrefixRow::default())), Arc::default());
    let server = server(Arc::clone(&row), Arc::clone(&summaries));
    let home = crate::support::Home::new();
    let more = format!(
        "[context]\n{strategy}\n[models.\"local/test-model\"]\ncontext_window = {window}\n"
    );
    home.configure(&server, Protocol::Anthropic, &more);
    home.run(["-p", "--yolo", "work"]).expect(0);
    server.assert_no_violations();
    let row = row.lock().unwrap();
    assert_eq!(row.asked.len(), CALLS + 1, "requests");
    let summaries: std::sync::MutexGuard<'_, Vec<usize>> = summaries.lock().unwrap();
    Task {
        asked: row.asked.iter().map(|a| a.tokens()).sum(),
        cached: row.asked.iter().map(|a| a.same as u64 / 4).sum(),
        summarised: summaries.iter().map(|bytes| *bytes as u64 / 4).sum(),
        summaries: summaries.len(),
        largest: row.asked.iter().map(|a| a.tokens()).max().unwrap_or(0),
    }
}

fn server(row: Arc<Mutex<PrefixRow>>, summaries: Arc<Mutex<Vec<usize>>>) -> Server {
    let asked = AtomicUsize::new(0);
    let options = Options {
        keep_bodies: false,
        ..Options::default()
    };
    Server::start_with(options, move |seen| {
        if seen.model.contains("summary") {
            summaries.lock().unwrap().push(seen.body.len());
            return Answer::text("what was done so far, told in some twenty words. ".repeat(20));
        }
        row.lock().unwrap().see(&seen.json);
        match asked.fetch_add(1, Ordering::Relaxed) {
            n if n < CALLS => {
                Answer::call("bash", json!({ "command": format!("printf %04096d {n}") }))
            }
            _ => Answer::text("done"),
        }
    })
}
