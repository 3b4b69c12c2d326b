//! Servers that outlive the agent, with the real binary as their keeper.

mod agent;
mod campaign;
mod full;
mod lease;
mod mcp;
mod newer;
mod odd;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rewake::command::Stopped;
use rewake::command::server::{
    Attached, Client, EndedServer, ServerEnv, ServerInfo, ServerOutcome, ServerSpec, Servers,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::scenes::until;
use support::spoken;

pub const SERVER: &str = spoken::ITSELF;

/// A place for servers, as one agent sees it.
struct Place {
    folder: tempfile::TempDir,
    servers: Servers,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let servers = servers_in(folder.path().join("servers"));
    Place { folder, servers }
}

fn servers_in(root: PathBuf) -> Servers {
    let runtime = std::env::temp_dir();
    Servers::new(root, env!("CARGO_BIN_EXE_rewake"), Some(runtime))
}

fn spec(folder: PathBuf) -> ServerSpec {
    let program = std::env::current_exe().unwrap();
    ServerSpec {
        name: "test".into(),
        session: "session".into(),
        program: program.to_str().unwrap().into(),
        args: spoken::arguments(SERVER),
        folder,
        env: vec![spoken::ASKED.into()],
        linger_ms: 900_000,
        sandbox: None,
        lease: None,
    }
}

fn env() -> ServerEnv {
    let own = [(spoken::ASKED.to_string(), "1".to_string())];
    ServerEnv::new(|name| std::env::var_os(name), &own)
}

fn request(id: &str, method: &str, params: Value) -> Vec<u8> {
    let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    request.to_string().into_bytes()
}

impl Place {
    fn spec(&self) -> ServerSpec {
        spec(self.folder.path().into())
    }

    async fn start(&self) -> (String, Client) {
        self.start_as(&self.spec()).await
    }

    async fn start_as(&self, spec: &ServerSpec) -> (String, Client) {
        let run = self.servers.prepare(spec).unwrap();
        let client = live(self.servers.start(&run, &env()).await.unwrap());
        (run, client)
    }

    async fn attach(&self, run: &str) -> Client {
        live(self.servers.attach(run).await.unwrap())
    }

    async fn past(&self, run: &str) -> EndedServer {
        match self.servers.attach(run).await.unwrap() {
            Attached::Over(past) => past,
            other => panic!("it is not over: {other:?}"),
        }
    }

    fn info(&self, run: &str) -> ServerInfo {
        let mut all = self.servers.list();
        all.retain(|info| info.run == run);
        all.pop().unwrap()
    }

    fn effects(&self) -> PathBuf {
        self.folder.path().join("effects")
    }

    /// What was appended, a line each.
    fn appended(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.effects()).unwrap_or_default();
        text.lines().map(str::to_string).collect()
    }

    fn append(&self, id: &str, ms: u64) -> Vec<u8> {
        request(
            id,
            "append",
            json!({ "file": self.effects(), "text": id, "ms": ms }),
        )
    }

    /// A call that lasts until [`Place::go`].
    fn append_until_go(&self, id: &str) -> Vec<u8> {
        let until = self.folder.path().join("go");
        request(
            id,
            "append",
            json!({ "file": self.effects(), "text": id, "until": until }),
        )
    }

    fn go(&self) {
        std::fs::write(self.folder.path().join("go"), "").unwrap();
    }

    fn keeper(&self, run: &str) -> u32 {
        let status = std::fs::read(self.servers.path(run).unwrap().join("status")).unwrap();
        // The record is JSON behind a sum and a length.
        let text = String::from_utf8_lossy(&status);
        let at = text.find("\"keeper\":").unwrap() + "\"keeper\":".len();
        let digits = text[at..].chars().take_while(char::is_ascii_digit);
        digits.collect::<String>().parse().unwrap()
    }
}

fn live(attached: Attached) -> Client {
    match attached {
        Attached::Live(client) => client,
        other => panic!("it does not live: {other:?}"),
    }
}

fn result(fate: ServerOutcome) -> Value {
    match fate {
        ServerOutcome::Answered(line) => {
            serde_json::from_slice::<Value>(&line).unwrap()["result"].clone()
        }
        other => panic!("no answer: {other:?}"),
    }
}

async fn ask(client: &Client, id: &str, method: &str, params: Value) -> Value {
    client
        .send(&request(id, method, params), true)
        .await
        .unwrap();
    result(client.answer(id).await.unwrap())
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test]
async fn requests_are_answered_and_recorded() {
    let place = place();
    let (run, client) = place.start().await;
    assert_eq!(
        ask(&client, "call_1", "echo", json!({ "a": 1 })).await,
        json!({ "a": 1 })
    );
    assert_eq!(client.outcome("call_2").unwrap(), ServerOutcome::NotBegun);
    let folder = place.servers.path(&run).unwrap();
    let input = std::fs::read(folder.join("in.0")).unwrap();
    assert_eq!(
        input,
        [request("call_1", "echo", json!({ "a": 1 })), b"\n".to_vec()].concat()
    );
    assert_eq!(
        folder.metadata().unwrap().permissions().mode() & 0o777,
        0o700
    );
    for file in ["in.0", "out.0", "spec", "status", "socket"] {
        let mode = folder.join(file).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    client.leave().await;
    client.ended().await;
    assert_eq!(
        result(place.past(&run).await.outcome("call_1").unwrap()),
        json!({ "a": 1 })
    );
    until(|| place.servers.remove(&run).unwrap());
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_server_sees_nothing_of_our_environment_but_what_is_named() {
    let place = place();
    let (_, client) = place.start().await;
    let names = ask(&client, "call_1", "environment", json!({})).await;
    let names: Vec<&str> = names
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let allowed = [
        "PATH",
        "HOME",
        "LANG",
        "TMPDIR",
        "REWAKE_RUN",
        spoken::ASKED,
    ];
    for name in &names {
        let is_proxy = name.to_lowercase().ends_with("_proxy");
        // The test harness of Rust sets one of its own.
        let is_harness = name.starts_with("__RUST") || *name == "RUST_TEST_THREADS";
        let is_for_all = is_proxy || rewake::config::CERTIFICATES.contains(name);
        assert!(is_for_all || is_harness || allowed.contains(name), "{name}");
    }
    assert!(names.contains(&"PATH") && names.contains(&spoken::ASKED));
    client.leave().await;
}

#[tokio::test]
async fn a_dropped_call_continues_and_its_answer_is_available_later() {
    let place = place();
    let (run, client) = place.start().await;
    client
        .send(&place.append_until_go("call_1"), true)
        .await
        .unwrap();
    drop(client.answer("call_1"));
    drop(client);
    let client = place.attach(&run).await;
    assert_eq!(client.outcome("call_1").unwrap(), ServerOutcome::Running);
    place.go();
    assert_eq!(
        result(client.answer("call_1").await.unwrap()),
        json!("appended")
    );
    assert_eq!(place.appended(), ["call_1"]);
    client.leave().await;
}

#[tokio::test]
async fn a_second_agent_is_refused_while_the_first_is_attached() {
    let place = place();
    let (run, first) = place.start().await;
    match place.servers.attach(&run).await.unwrap() {
        Attached::Busy { pid } => assert_eq!(pid, std::process::id()),
        other => panic!("two agents at once: {other:?}"),
    }
    assert_eq!(ask(&first, "call_1", "echo", json!(1)).await, json!(1));
    drop(first);
    let second = place.attach(&run).await;
    assert_eq!(ask(&second, "call_2", "echo", json!(2)).await, json!(2));
    second.leave().await;
}

#[tokio::test]
async fn a_server_that_died_in_a_call_is_told_with_what_is_known() {
    let place = place();
    let (run, client) = place.start().await;
    ask(&client, "call_1", "echo", json!(1)).await;
    client
        .send(&request("call_2", "die", json!({})), true)
        .await
        .unwrap();
    assert_eq!(client.answer("call_2").await.unwrap(), ServerOutcome::Lost);
    assert_eq!(client.outcome("call_3").unwrap(), ServerOutcome::NotBegun);
    assert!(
        client
            .send(&request("call_3", "echo", json!(3)), true)
            .await
            .is_err()
    );
    let past = place.past(&run).await;
    assert_eq!(past.how(), &rewake::command::How::Exited(7));
    assert_eq!(result(past.outcome("call_1").unwrap()), json!(1));
    assert_eq!(past.outcome("call_2").unwrap(), ServerOutcome::Lost);
    assert_eq!(past.outcome("call_3").unwrap(), ServerOutcome::NotBegun);
}

#[tokio::test]
async fn a_request_the_server_never_read_counts_as_not_started() {
    let place = place();
    let (run, client) = place.start().await;
    client
        .send(&request("call_1", "deaf", json!({})), true)
        .await
        .unwrap();
    // More than a pipe holds.
    let long = json!("x".repeat(500_000));
    client
        .send(&request("call_2", "echo", long), true)
        .await
        .unwrap();
    client.send(&place.append("call_3", 0), true).await.unwrap();
    let group = place.info(&run).group.unwrap();
    kill(group);
    assert_eq!(client.answer("call_1").await.unwrap(), ServerOutcome::Lost);
    assert_eq!(client.answer("call_2").await.unwrap(), ServerOutcome::Lost);
    assert_eq!(
        client.answer("call_3").await.unwrap(),
        ServerOutcome::NotBegun
    );
    assert_eq!(place.appended(), [""; 0]);
}

#[tokio::test]
async fn a_killed_keeper_leaves_what_was_answered_and_loses_the_rest() {
    let place = place();
    let (run, client) = place.start().await;
    assert_eq!(ask(&client, "call_1", "echo", json!(1)).await, json!(1));
    client
        .send(&request("call_2", "stall", json!({})), true)
        .await
        .unwrap();
    kill(place.keeper(&run));
    assert_eq!(client.answer("call_2").await.unwrap(), ServerOutcome::Lost);
    let past = place.past(&run).await;
    assert!(matches!(past.how(), rewake::command::How::Lost { .. }));
    assert_eq!(result(past.outcome("call_1").unwrap()), json!(1));
    assert_eq!(past.outcome("call_2").unwrap(), ServerOutcome::Lost);
    assert_eq!(past.outcome("call_3").unwrap(), ServerOutcome::NotBegun);
    // Its input is closed, so the server ends by itself.
    until(|| place.info(&run).group.is_none());
    until(|| place.servers.remove(&run).unwrap());
}

#[tokio::test]
async fn a_server_whose_folder_was_removed_ends() {
    let place = place();
    let (run, client) = place.start().await;
    ask(&client, "call_1", "echo", json!(1)).await;
    let group = place.info(&run).group.unwrap();
    std::fs::remove_dir_all(place.servers.path(&run).unwrap()).unwrap();
    let refused = client
        .send(&place.append("call_2", 0), true)
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("was removed"), "{refused}");
    assert_eq!(client.answer("call_2").await.unwrap(), ServerOutcome::Lost);
    assert_eq!(
        place.past(&run).await.outcome("call_1").unwrap(),
        ServerOutcome::Lost
    );
    let group = Pid::from_raw(group as i32).unwrap();
    until(|| rustix::process::test_kill_process_group(group).is_err());
    assert_eq!(place.appended(), [""; 0]);
}

#[tokio::test]
async fn a_server_that_nobody_uses_ends_and_one_that_works_does_not() {
    let place = place();
    let spec = ServerSpec {
        linger_ms: 100,
        ..place.spec()
    };
    let (run, client) = place.start_as(&spec).await;
    client
        .send(&place.append("call_1", 600), true)
        .await
        .unwrap();
    drop(client);
    until(|| !place.info(&run).is_kept);
    let past = place.past(&run).await;
    assert_eq!(past.how(), &rewake::command::How::Stopped);
    assert_eq!(result(past.outcome("call_1").unwrap()), json!("appended"));
}

#[tokio::test]
async fn a_server_that_does_not_obey_is_killed() {
    let place = place();
    let (run, client) = place.start().await;
    client
        .send(&request("call_1", "deaf", json!({})), true)
        .await
        .unwrap();
    until(|| place.info(&run).group.is_some());
    assert_eq!(place.servers.stop(&run).unwrap(), Stopped::Asked);
    assert_eq!(client.answer("call_1").await.unwrap(), ServerOutcome::Lost);
    assert_eq!(place.servers.stop(&run).unwrap(), Stopped::Over);
}

#[tokio::test]
async fn a_failed_start_states_its_reason() {
    let place = place();
    for (program, word) in [("/no/such/program", "/no/such/program"), ("", "no command")] {
        let spec = ServerSpec {
            program: program.into(),
            ..place.spec()
        };
        let why = match place.servers.prepare(&spec) {
            Err(refused) => refused.to_string(),
            Ok(run) => match place.servers.start(&run, &env()).await.unwrap() {
                Attached::Over(past) => rewake::command::server::describe(past.how()),
                other => panic!("it was started: {other:?}"),
            },
        };
        assert!(why.contains(word), "{why}");
    }
}

#[tokio::test]
async fn a_prepared_run_cannot_start_after_it_was_settled() {
    let place = place();
    let run = place.servers.prepare(&place.spec()).unwrap();
    assert_eq!(
        place.past(&run).await.outcome("call_1").unwrap(),
        ServerOutcome::NotBegun
    );
    match place.servers.start(&run, &env()).await.unwrap() {
        Attached::Over(past) => {
            assert_eq!(past.outcome("call_1").unwrap(), ServerOutcome::NotBegun)
        }
        other => panic!("it was started: {other:?}"),
    }
}

#[tokio::test]
async fn the_socket_of_a_folder_with_a_long_name_works() {
    let mut place = place();
    let long = place.folder.path().join("x".repeat(120));
    place.servers = servers_in(long.clone());
    let (run, client) = place.start().await;
    assert_eq!(ask(&client, "call_1", "echo", json!(1)).await, json!(1));
    // Without `/proc` its path would be too long.
    let socket = match cfg!(target_os = "linux") {
        true => long.join(&run).join("socket"),
        false => std::env::temp_dir().join(format!("rewake-{run}.sock")),
    };
    assert!(socket.exists());
    client.leave().await;
    client.ended().await;
    assert!(!socket.exists());
    until(|| place.servers.remove(&run).unwrap());
}

#[tokio::test]
async fn data_remembered_by_an_agent_is_read_by_the_next() {
    let place = place();
    let (run, client) = place.start().await;
    assert_eq!(client.remembered().unwrap(), None);
    client.remember(b"2025-11-25").unwrap();
    drop(client);
    let client = place.attach(&run).await;
    assert_eq!(client.remembered().unwrap().unwrap(), b"2025-11-25");
    client.leave().await;
}

#[tokio::test]
async fn ps_lists_a_server_and_stops_it() {
    let home = support::Home::new();
    let servers = servers_in(home.rewake_home().join("servers"));
    let place = Place {
        folder: tempfile::tempdir().unwrap(),
        servers,
    };
    let (run, client) = place.start().await;
    until(|| place.info(&run).group.is_some());
    let listed = home.run(["ps"]).expect(0);
    assert!(listed.stdout.contains("server test"), "{}", listed.stdout);
    let id = listed.stdout.split_whitespace().next().unwrap().to_string();
    let stopped = home.run(["ps", "stop", &id]).expect(0);
    assert!(
        stopped.stdout.contains("is being stopped"),
        "{}",
        stopped.stdout
    );
    client.ended().await;
    until(|| !place.info(&run).is_kept);
    let listed = home.run(["ps"]).expect(0);
    assert!(listed.stderr.contains("no running"), "{}", listed.stderr);
}
