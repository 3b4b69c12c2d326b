//! What `rewake acp` takes: the first answer after exec, its memory while it waits, and a long
//! session that is loaded.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::child::own_bytes;
use crate::opening::{Context, long_session};
use crate::sample::Times;
use crate::table::{Row, mb, ms};
use support::{Answer, Home, Protocol, Server};

const STARTS: usize = 40;
const LOADS: usize = 5;

const FIRST_ANSWER: Duration = Duration::from_millis(30);
const MEMORY: u64 = 20_000_000;
const FIRST_UPDATE: Duration = Duration::from_millis(300);
const LOADED: Duration = Duration::from_secs(2);

pub fn rows() -> Vec<Row> {
    let server = Server::start(|_| Answer::text("not asked"));
    let home = crate::wide_home(&server, Protocol::Anthropic);
    let mut first = Times::default();
    for round in 0..=STARTS {
        let since = Instant::now();
        let editor = Editor::start(&home);
        // The first one makes the folders.
        if round > 0 {
            first.push(since.elapsed());
        }
        drop(editor);
    }
    let mut editor = Editor::start(&home);
    std::thread::sleep(Duration::from_millis(300));
    let idle = own_bytes(editor.child.id());
    editor.request(
        "session/new",
        json!({ "cwd": home.workspace(), "mcpServers": [] }),
    );
    editor.answer();
    std::thread::sleep(Duration::from_millis(300));
    let opened = own_bytes(editor.child.id());
    drop(editor);
    let (worst, median) = (first.worst_of_hundred(), first.median());
    let mut rows = vec![
        Row::new(
            "rewake acp: exec to the answer to `initialize`",
            format!("{}, p99 {}", ms(median), ms(worst)),
        )
        .target("30 ms", median <= FIRST_ANSWER),
        Row::new("… own memory while it waits", mb(idle)).target("20 MB", idle <= MEMORY),
        Row::new("… with an open session", mb(opened)),
    ];
    rows.extend(load());
    rows
}

fn load() -> Vec<Row> {
    let server = Server::start(|_| Answer::text("not asked"));
    let home = crate::wide_home(&server, Protocol::Anthropic);
    let id = long_session(&home, Context::Compacted);
    let (mut first, mut all, mut lines) = (Times::default(), Times::default(), 0);
    for _ in 0..LOADS {
        let mut editor = Editor::start(&home);
        let since = Instant::now();
        let cwd = home.workspace();
        let load = json!({ "sessionId": id, "cwd": cwd, "mcpServers": [] });
        editor.request("session/load", load);
        editor.line();
        first.push(since.elapsed());
        lines = 2 + editor.answer();
        all.push(since.elapsed());
    }
    let (first, all) = (first.median(), all.median());
    vec![
        Row::new("session/load of 10,000 entries: first update", ms(first))
            .target("300 ms", first <= FIRST_UPDATE),
        Row::new("… all updates and the answer", ms(all))
            .beside(format!("{lines} lines"))
            .target("2 s", all <= LOADED),
    ]
}

/// A client that reads all lines and understands none.
struct Editor {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Editor {
    /// Starts the agent, and waits for its answer to `initialize`.
    fn start(home: &Home) -> Editor {
        let mut command = home.rewake(["acp"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("start the agent");
        let mut editor = Editor {
            stdin: child.stdin.take().expect("stdin is a pipe"),
            stdout: BufReader::new(child.stdout.take().expect("stdout is a pipe")),
            child,
        };
        editor.request("initialize", json!({ "protocolVersion": 1 }));
        editor.answer();
        editor
    }

    fn request(&mut self, method: &str, params: Value) {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        writeln!(self.stdin, "{request}").expect("write to the agent");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("read a line");
        assert!(!line.is_empty(), "the agent ended");
        line
    }

    /// Reads up to an answer. Returns the number of lines before it.
    fn answer(&mut self) -> usize {
        let mut before = 0;
        while !self.line().starts_with("{\"id\":1,") {
            before += 1;
        }
        before
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
