//! What rewake costs: one table of figures, each beside a floor or a target.
//!
//! `cargo bench` runs all of it, `cargo bench -- turns` one subject. Absolute times are those
//! of this machine in this minute; a floor in the same row was measured in the same run, in
//! turn with what stands beside it, so that the ratio means something on a busy machine too.
//! Everything lies on the disk of the target folder: a temporary folder in memory would make
//! every sync free.
//!
//! Deliberately absent: a statistics framework. What is shown is the median, and the worst
//! of a hundred where that is what a person feels.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench ends at the first thing that goes wrong, and prints"
)]

mod acp;
mod checkpoint;
mod child;
mod context;
mod files;
#[cfg(feature = "fleet")]
mod fleet;
mod hooks;
mod mcp;
mod noise;
mod opening;
mod peer;
#[cfg(feature = "fleet")]
mod pushes;
mod request;
mod sample;
mod sandbox;
mod screen;
mod server;
mod signals;
mod starting;
mod stream;
mod table;
mod tasks;
mod terminal;
mod turns;

use std::path::Path;
use std::time::Instant;

use table::Row;

type Subject = fn() -> Vec<Row>;

const SUBJECTS: &[(&str, Subject)] = &[
    ("checkpoint", checkpoint::rows),
    ("opening", opening::rows),
    ("screen", screen::rows),
    ("terminal", terminal::rows),
    ("turns", turns::rows),
    ("thousand", turns::thousand),
    ("starting", starting::rows),
    ("hooks", hooks::rows),
    ("sandbox", sandbox::rows),
    ("stream", stream::rows),
    ("request", request::rows),
    ("context", context::rows),
    ("files", files::rows),
    ("signals", signals::rows),
    ("server", server::rows),
    ("clients", server::clients),
    ("tasks", tasks::rows),
    ("mcp", mcp::rows),
    ("acp", acp::rows),
    #[cfg(feature = "fleet")]
    ("fleet", fleet::rows),
];

fn main() {
    // The server of the subject `mcp` is this program.
    support::spoken::serve_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` runs this too, to see that it starts.
    if !args.iter().any(|arg| arg == "--bench") {
        return;
    }
    let asked: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let disk = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(disk).expect("make the folder of the benches");
    tempfile::env::override_temp_dir(disk).expect("the first to name the temporary folder");

    let mut rows = Vec::new();
    for (name, subject) in SUBJECTS {
        if asked.is_empty() || asked.iter().any(|word| name.contains(word.as_str())) {
            let since = Instant::now();
            rows.extend(subject());
            eprintln!("{name}: {:.1} s", since.elapsed().as_secs_f64());
        }
    }
    table::print(&rows);
    println!("\n{}", busy());
}

/// How much to believe of the absolute times.
fn busy() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().filter(|l| !l.is_empty());
    let load = load.unwrap_or("unknown");
    format!("{cores} cores, load {load} at the end of the run")
}

/// A home whose model has a window that is never full: compaction is another subject,
/// and the server that checks nothing would count their summaries as turns.
fn wide_home(server: &support::Server, protocol: support::Protocol) -> support::Home {
    home_with(server, protocol, "")
}

/// With more in its config.
fn home_with(server: &support::Server, protocol: support::Protocol, more: &str) -> support::Home {
    let home = support::Home::new();
    let window = "[context]\nstrategy = \"manual\"\n\
                  [models.\"local/test-model\"]\ncontext_window = 100000000\n";
    home.configure(server, protocol, &format!("{window}{more}"));
    home
}
