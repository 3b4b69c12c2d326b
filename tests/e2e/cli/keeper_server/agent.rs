//! An agent as a process of its own, so that it can be killed: it makes calls with effects, keeps a
//! log of them as the engine does (begun, then done), and settles first what an earlier one left.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::*;

const AGENT: &str = "cli::keeper_server::agent::as_an_agent";
const ASKED: &str = "REWAKE_TEST_AGENT";
const CALLS: &str = "REWAKE_TEST_CALLS";

/// The agent itself.
#[test]
fn as_an_agent() {
    let Some(folder) = std::env::var_os(ASKED) else {
        return;
    };
    let calls = std::env::var(CALLS).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(work(Path::new(&folder), calls));
}

/// Starts an agent that makes so many calls in this folder, or goes on with them.
pub(super) fn spawn(folder: &Path, calls: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([AGENT, "--exact", "--quiet", "--nocapture"])
        .env(ASKED, folder)
        .env(CALLS, calls.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// What the log says: the words of each line.
pub(super) fn log(folder: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    // A last line without its end was being written at a kill.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let words = |line: &str| line.split(' ').map(str::to_string).collect();
    whole.lines().map(words).collect()
}

fn record(folder: &Path, line: &str) {
    let path = folder.join("log");
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let mut file = file.unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let torn = !text.is_empty() && !text.ends_with('\n');
    let line = format!("{}{line}\n", if torn { "\n" } else { "" });
    file.write_all(line.as_bytes()).unwrap();
    file.sync_data().unwrap();
}

async fn work(folder: &Path, calls: usize) {
    let servers = servers_in(folder.join("servers"));
    let lines = log(folder);
    let is = |n: usize, what: &str| {
        let n = n.to_string();
        lines.iter().any(|line| line[0] == what && line[1] == n)
    };
    let run = lines.iter().find(|line| line[0] == "server");
    let client = match run {
        Some(line) => match servers.attach(&line[1]).await.unwrap() {
            Attached::Live(client) => client,
            // Killed before the keeper was started: nothing was begun in it.
            Attached::Over(past) => {
                assert_eq!(
                    past.outcome("call_0").unwrap(),
                    ServerOutcome::NotBegun,
                    "{past:?}"
                );
                start(folder, &servers).await
            }
            Attached::Busy { pid } => panic!("agent {pid} is said to live"),
        },
        None => start(folder, &servers).await,
    };
    for n in (0..calls).filter(|n| !is(*n, "done")) {
        let id = format!("call_{n}");
        let mut how = "answered";
        if is(n, "begun") {
            match client.outcome(&id).unwrap() {
                ServerOutcome::Answered(_) => how = "found",
                ServerOutcome::Running => how = "attached",
                ServerOutcome::NotBegun => how = "not-begun",
                ServerOutcome::Lost => how = "lost",
            }
        } else {
            record(folder, &format!("begun {n}"));
        }
        if matches!(how, "answered" | "not-begun") {
            let ms = (n * 37) % 60;
            let params = json!({ "file": folder.join("effects"), "text": id, "ms": ms });
            client
                .send(&request(&id, "append", params), true)
                .await
                .unwrap();
        }
        if how != "lost" {
            assert_eq!(result(client.answer(&id).await.unwrap()), json!("appended"));
        }
        record(folder, &format!("done {n} {how}"));
    }
    client.leave().await;
}

async fn start(folder: &Path, servers: &Servers) -> Client {
    let run = servers.prepare(&spec(folder.into())).unwrap();
    // The last one counts.
    let path = folder.join("log");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let rest: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("server "))
        .collect();
    std::fs::write(
        &path,
        rest.iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )
    .unwrap();
    record(folder, &format!("server {run}"));
    live(servers.start(&run, &env()).await.unwrap())
}

#[test]
fn an_agent_killed_in_a_call_gets_the_real_answer_later() {
    let place = place();
    let folder = place.folder.path();
    // The second call takes 37 ms.
    let mut agent = spawn(folder, 2);
    until(|| log(folder).iter().any(|line| line[..2] == ["begun", "1"]));
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(spawn(folder, 2).wait().unwrap().success());
    assert_eq!(place.appended(), ["call_0", "call_1"]);
}
