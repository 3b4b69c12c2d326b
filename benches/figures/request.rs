//! What a request carries, and how much of it is the request before.

use serde_json::{Value, json};

use crate::support::{Answer, Home, Logged, Protocol, Server};
use crate::table::Row;

const TURNS: usize = 60;

pub fn rows() -> Vec<Row> {
    let runs = Protocol::ALL.map(|protocol| (protocol, requests(protocol)));
    vec![tokens(&runs[0].1), prefix(&runs)]
}

/// A run of so many calls of 2 KB, with the server's checks.
fn requests(protocol: Protocol) -> Vec<Logged> {
    let server = Server::start(|seen| match seen.turn < TURNS {
        true => Answer::call("bash", json!({ "command": "printf %02048d 7" })),
        false => Answer::text("done"),
    });
    let home = Home::with(&server, protocol);
    home.run(["-p", "--yolo", "work"]).expect(0);
    server.assert_no_violations();
    server.requests()
}

/// Of the first request with the Anthropic protocol, in a folder without instructions.
fn tokens(log: &[Logged]) -> Row {
    let body = log[0].body.as_ref().expect("bodies are kept");
    let body: Value = serde_json::from_slice(body).expect("a JSON body");
    let bytes = |key: &str| body[key].to_string().len();
    let (system, tools) = (bytes("system") / 4, bytes("tools") / 4);
    let all = system + tools;
    Row::new(
        "tokens of system prompt and tools (bytes / 4)",
        format!("{all}"),
    )
    .beside(format!("system {system}, tools {tools}"))
    .target("2,500", all <= 2_500)
}

fn prefix(runs: &[(Protocol, Vec<Logged>)]) -> Row {
    let kept = |log: &[Logged]| {
        let after_first = &log[1..];
        let same: usize = after_first.iter().map(|l| l.same_prefix).sum();
        let former: usize = after_first.iter().map(|l| l.former_bytes).sum();
        same as f64 / former as f64 * 100.0
    };
    let worst = runs.iter().map(|(_, log)| kept(log)).fold(100.0, f64::min);
    let each: Vec<String> = runs
        .iter()
        .map(|(protocol, log)| format!("{} {:.2}", protocol.name(), kept(log)))
        .collect();
    Row::new(
        "prompt prefix kept from one request to the next",
        format!("{worst:.2} %"),
    )
    .beside(each.join(", "))
    .target("99 %", worst >= 99.0)
}
