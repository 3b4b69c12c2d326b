//! How soon a session obeys what another process sends: while a command runs, and while a person is
//! waited for.

use std::time::{Duration, Instant};

use rewake::core::signal::Signal;
use rewake::store::Store;
use serde_json::json;

use crate::sample::Times;
use crate::table::{Row, ms};
use support::{Answer, Home, Live, Protocol, Server};

const SAMPLES: u32 = 100;

/// It is looked for other processes' commits every 200 ms.
const TARGET: Duration = Duration::from_millis(250);

const LIMIT: Duration = Duration::from_secs(60);

pub fn rows() -> Vec<Row> {
    let running = times(
        "bash",
        json!({"command": "sleep 90"}),
        &["--yolo"],
        "started",
    );
    let ask = ["--on-approval", "wait"];
    let asking = times("write", json!({"path": "f", "content": "x"}), &ask, "asked");
    let row = |what: &str, times: &Times| {
        let worst = times.worst_of_hundred();
        let figures = format!("{}, p99 {}", ms(times.median()), ms(worst));
        Row::new(format!("a signal is obeyed: {what}"), figures)
            .beside("it is looked for five times a second")
            .target("p99 250 ms", worst <= TARGET)
    };
    vec![
        row("a command runs", &running),
        row("a person is waited for", &asking),
    ]
}

/// From the commit of the signal to that of what it becomes, in a session that came to its first
/// entry of this kind.
fn times(tool: &'static str, arguments: serde_json::Value, args: &[&str], until: &str) -> Times {
    let server = Server::start(move |_| Answer::call(tool, arguments.clone()));
    let home = super::wide_home(&server, Protocol::Anthropic);
    let format = ["-p", "work", "--output-format", "stream-json"];
    let live = Live::spawn(home.rewake(format.iter().chain(args)));
    let kind = format!("\"type\":\"entry.{until}\"");
    live.wait_for(LIMIT, |line| line.contains(&kind));
    let times = signals(&home);
    drop(live);
    times
}

fn signals(home: &Home) -> Times {
    let mut store = Store::open(&home.rewake_home()).expect("the store");
    let newest = store
        .history()
        .newest(None)
        .expect("a look")
        .expect("a session");
    let mut times = Times::default();
    for n in 0..SAMPLES {
        // At any instant between two looks.
        std::thread::sleep(Duration::from_millis(u64::from(n * 37 % 200)));
        let title = format!("name {n}");
        let name = |_| Signal::Name { title };
        store
            .inbox_mut()
            .signal(&newest.id, "bench", 1, name)
            .expect("sent");
        let since = Instant::now();
        while !store
            .inbox()
            .signals(&newest.id)
            .expect("the signals")
            .is_empty()
        {
            assert!(since.elapsed() < LIMIT, "nobody obeys");
            std::thread::sleep(Duration::from_millis(1));
        }
        times.push(since.elapsed());
    }
    times
}
