//! What a request carries, and how much of it is the request before.

use serde_json::{Value, json};

use crate::table::Row;
use support::{self, Answer, Logged, Protocol, Server};

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
    let home = super::wide_home(&server, protocol);
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
    let kept = runs
        .iter()
        .map(|(protocol, log)| (protocol.name(), kept(log)));
    let kept: Vec<(&str, f64)> = kept.collect();
    let worst = kept
        .iter()
        .map(|(_, percent)| *percent)
        .fold(100.0, f64::min);
    let each: Vec<String> = kept
        .iter()
        .map(|(name, percent)| format!("{name} {percent:.2}"))
        .collect();
    Row::new(
        "prompt prefix kept from one request to the next",
        format!("{worst:.2} %"),
    )
    .beside(each.join(", "))
    .target("99 %", worst >= 99.0)
}

/// Of the bytes of each prompt, how many begin the next one; percent.
fn kept(log: &[Logged]) -> f64 {
    let bodies = log
        .iter()
        .map(|l| l.body.as_ref().expect("bodies are kept"));
    let prompts: Vec<String> = bodies
        .map(|body| support::prompt(&serde_json::from_slice(body).expect("a JSON body")))
        .collect();
    let (mut same, mut all) = (0, 0);
    for pair in prompts.windows(2) {
        let bytes = pair[0].bytes().zip(pair[1].bytes());
        same += bytes.take_while(|(a, b)| a == b).count();
        all += pair[0].len();
    }
    same as f64 / all as f64 * 100.0
}
