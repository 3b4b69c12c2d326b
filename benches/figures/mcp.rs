//! What a keeper costs a server of tools: a call through it beside one over bare pipes, how soon the
//! next agent is at a call that goes on, and the memory of the keeper.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rewake::command::server::{Attached, Client, ServerEnv, ServerOutcome, ServerSpec, Servers};
use serde_json::json;

use crate::child::{own_bytes, peak_bytes};
use crate::sample::Times;
use crate::table::{Row, ms};
use support::spoken;

const CALLS: u32 = 300;
const ATTACHES: u32 = 50;

const OVER: Duration = Duration::from_micros(500);
const ATTACH: Duration = Duration::from_millis(20);
const MEMORY: u64 = 2_000_000;

pub fn rows() -> Vec<Row> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let own = bare(folder.path());
    let sync = syncs(folder.path());
    runtime.block_on(async {
        let bench = Bench::start(folder.path()).await;
        let durable = bench.calls(true).await;
        let quick = bench.calls(false).await;
        let (memory, peak) = (own_bytes(bench.keeper()), peak_bytes(bench.keeper()));
        let attach = bench.attaches().await;
        let over = durable.median().saturating_sub(own.median());
        let over_quick = quick.median().saturating_sub(own.median());
        let two = sync.median() * 2;
        vec![
            Row::new(
                "a call of a server's tool, over the server's own time",
                ms(over),
            )
            .beside(format!("{} for 2 syncs", ms(two)))
            .target("0.5 ms over 2 syncs", over <= two + OVER),
            Row::new("the same of one that may be repeated", ms(over_quick))
                .beside(format!("{} for the server itself", ms(own.median())))
                .target(
                    "0.5 ms, and the sync of its answer",
                    over_quick <= sync.median() + OVER,
                ),
            Row::new(
                "from a new agent to the continued call",
                ms(attach.median()),
            )
            .target("20 ms", attach.median() <= ATTACH),
            Row::new("memory of the keeper of a server, its own", mb(memory))
                .beside(format!("{} with shared pages of the program", mb(peak)))
                .target("2 MB", memory <= MEMORY),
        ]
    })
}

fn mb(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn program() -> String {
    let program = std::env::current_exe().expect("this program");
    program.to_str().expect("UTF-8").to_string()
}

fn request(id: u32, method: &str) -> Vec<u8> {
    let id = format!("call_{id}");
    let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": { "a": 1 } });
    request.to_string().into_bytes()
}

/// The same server without a keeper.
fn bare(folder: &Path) -> Times {
    let mut server = Command::new(program())
        .current_dir(folder)
        .env(spoken::ASKED, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start the server");
    let mut to = server.stdin.take().expect("its stdin");
    let mut from = BufReader::new(server.stdout.take().expect("its stdout"));
    let mut times = Times::default();
    let mut line = String::new();
    for n in 0..CALLS {
        let since = Instant::now();
        to.write_all(&[request(n, "echo"), b"\n".to_vec()].concat())
            .expect("sent");
        line.clear();
        from.read_line(&mut line).expect("an answer");
        times.push(since.elapsed());
    }
    drop(to);
    server.wait().expect("its end");
    times
}

fn syncs(folder: &Path) -> Times {
    let mut file = File::create(folder.join("synced")).expect("a file");
    let mut times = Times::default();
    for n in 0..CALLS {
        let since = Instant::now();
        file.write_all(&request(n, "echo")).expect("written");
        file.sync_data().expect("synced");
        times.push(since.elapsed());
    }
    times
}

struct Bench {
    servers: Servers,
    run: String,
}

impl Bench {
    async fn start(folder: &Path) -> Bench {
        let servers = Servers::new(folder.join("servers"), env!("CARGO_BIN_EXE_rewake"), None);
        let spec = ServerSpec {
            name: "bench".into(),
            session: "bench".into(),
            program: program(),
            args: Vec::new(),
            folder: folder.into(),
            env: vec![spoken::ASKED.into()],
            linger_ms: 900_000,
            sandbox: None,
            lease: None,
        };
        let own = [(spoken::ASKED.to_string(), "1".to_string())];
        let env = ServerEnv::new(|name| std::env::var_os(name), &own);
        let run = servers.prepare(&spec).expect("a run folder");
        drop(live(servers.start(&run, &env).await.expect("a keeper")));
        Bench { servers, run }
    }

    async fn client(&self) -> Client {
        live(self.servers.attach(&self.run).await.expect("a keeper"))
    }

    async fn calls(&self, durable: bool) -> Times {
        let client = self.client().await;
        let first = if durable { 0 } else { CALLS };
        let mut times = Times::default();
        for n in first..first + CALLS {
            let since = Instant::now();
            client
                .send(&request(n, "echo"), durable)
                .await
                .expect("sent");
            let answer = client
                .answer(&format!("call_{n}"))
                .await
                .expect("an answer");
            assert!(matches!(answer, ServerOutcome::Answered(_)));
            times.push(since.elapsed());
        }
        client.forget();
        times
    }

    /// From the start of an agent to its wait for a call that another one made.
    async fn attaches(&self) -> Times {
        let stalled = 10 * CALLS;
        let client = self.client().await;
        client
            .send(&request(stalled, "stall"), true)
            .await
            .expect("sent");
        drop(client);
        let mut times = Times::default();
        for _ in 0..ATTACHES {
            let since = Instant::now();
            let client = self.client().await;
            let fate = client
                .outcome(&format!("call_{stalled}"))
                .expect("the journal");
            times.push(since.elapsed());
            assert_eq!(fate, ServerOutcome::Running);
        }
        self.client().await.leave().await;
        times
    }

    fn keeper(&self) -> u32 {
        let status = self.servers.path(&self.run).expect("a run").join("status");
        let status = std::fs::read(status).expect("its status");
        // The record is JSON behind a sum and a length.
        let text = String::from_utf8_lossy(&status);
        let (_, behind) = text.split_once("\"keeper\":").expect("the keeper");
        let digits = behind.chars().take_while(char::is_ascii_digit);
        digits.collect::<String>().parse().expect("a number")
    }
}

fn live(attached: Attached) -> Client {
    match attached {
        Attached::Live(client) => client,
        other => panic!("it does not live: {other:?}"),
    }
}
