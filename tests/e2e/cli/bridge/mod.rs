//! Servers over HTTP: the real binary as their bridge, under a keeper, against a server of the
//! tests.

mod breaks;
mod login;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rewake::command::server::{Attached, ServerEnv, ServerSpec, Servers};
use rewake::mcp::connection::{Connection, McpError};
use rewake::mcp::elicit::Declines;
use rewake::mcp::era::ProtocolHint;
use rewake::mcp::result::ResultPart;
use serde_json::json;

use crate::cli::{quiet, refused, until_async};
use support::mcp_server::{
    Asked, Gives, McpServer, Piece, event, with_handshake, without_handshake,
};
use support::{Home, Run};

const LIMIT: Duration = Duration::from_secs(90);
const DOUBT: &str = "may or may not have happened";

/// With these answers to calls of tools.
fn older(call: impl Fn(&Asked) -> Gives + Send + Sync + 'static) -> McpServer {
    McpServer::start(move |asked| with_handshake(asked).unwrap_or_else(|| call(asked)))
}

fn newer(call: impl Fn(&Asked) -> Gives + Send + Sync + 'static) -> McpServer {
    McpServer::start(move |asked| without_handshake(asked).unwrap_or_else(|| call(asked)))
}

fn done(asked: &Asked) -> Gives {
    Gives::json(&asked.text("done"))
}

fn probe(home: &Home, server: &McpServer, args: &[&str]) -> Run {
    let mut all = vec!["mcp", "probe"];
    all.extend(args);
    let url = server.url();
    all.push(&url);
    let run = home.run(all);
    quiet(&run);
    run
}

fn call(server: &McpServer) -> Run {
    probe(&Home::new(), server, &["--call", "do"])
}

/// A bridge under a keeper, as one agent sees it.
struct Place {
    folder: tempfile::TempDir,
    servers: Servers,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let runtime = Some(std::env::temp_dir());
        let exe = env!("CARGO_BIN_EXE_rewake");
        let servers = Servers::new(folder.path().join("servers"), exe, runtime);
        Place { folder, servers }
    }

    async fn start(&self, url: &str) -> (String, Connection) {
        let config = json!({ "name": "test", "url": url, "keys": self.folder.path(),
            "headers": { "X-Key": "secret-key" } });
        let spec = ServerSpec {
            name: "test".into(),
            session: "session".into(),
            program: env!("CARGO_BIN_EXE_rewake").into(),
            args: vec!["__bridge".into(), "test".into()],
            folder: self.folder.path().into(),
            env: vec!["REWAKE_BRIDGE".into()],
            linger_ms: 60_000,
            sandbox: None,
            lease: None,
        };
        let run = self.servers.prepare(&spec).unwrap();
        let own = [("REWAKE_BRIDGE".to_string(), config.to_string())];
        let env = ServerEnv::new(|name| std::env::var_os(name), &own);
        let attached = self.servers.start(&run, &env).await.unwrap();
        let connection = self.begin(attached).await;
        (run, connection)
    }

    async fn attach(&self, run: &str) -> Connection {
        let attached = self.servers.attach(run).await.unwrap();
        self.begin(attached).await
    }

    async fn begin(&self, attached: Attached) -> Connection {
        let Attached::Live(client) = attached else {
            panic!("it does not live: {attached:?}")
        };
        let root: &Path = self.folder.path();
        let connecting = Connection::begin(
            client,
            root,
            LIMIT,
            Arc::new(Declines),
            ProtocolHint::Unknown,
        );
        connecting.await.unwrap()
    }

    fn group(&self, run: &str) -> u32 {
        let mut all = self.servers.list();
        all.retain(|info| info.run == run);
        all[0].group.unwrap()
    }
}

async fn called(connection: &Connection, id: &str) -> Result<String, McpError> {
    let arguments = json!({});
    let called = connection.call(id, "do", &arguments, false);
    let result = tokio::time::timeout(LIMIT, called)
        .await
        .expect("waited too long")?;
    match &result.parts[..] {
        [ResultPart::Text(text)] => Ok(text.clone()),
        other => panic!("{other:?}"),
    }
}

async fn end(connection: Connection) {
    connection.client().leave().await;
    connection.client().ended().await;
}

#[test]
fn a_server_with_a_session_hears_of_it_each_time_and_at_the_end() {
    let server = older(done);
    let run = call(&server).expect(0);
    assert!(
        run.stdout.contains("2025-06-18 (initialize)"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.ends_with("result:\ndone\n"), "{}", run.stdout);
    let beginning = &server.posted("initialize")[0];
    assert_eq!(beginning.header("mcp-session-id"), None);
    let told = [
        &server.posted("notifications/initialized")[0],
        &server.posted("tools/call")[0],
        &server.with_verb("GET")[0],
        &server.with_verb("DELETE")[0],
    ];
    for asked in told {
        assert_eq!(
            asked.header("mcp-session-id"),
            Some("session-0"),
            "{asked:?}"
        );
        assert_eq!(
            asked.header("mcp-protocol-version"),
            Some("2025-06-18"),
            "{asked:?}"
        );
    }
    assert_eq!(
        told[1].header("accept"),
        Some("application/json, text/event-stream")
    );
}

#[test]
fn a_server_without_one_hears_all_each_time() {
    let server = newer(|asked| Gives::events(vec![event(&asked.text("done"))]));
    let run = call(&server).expect(0);
    assert!(
        run.stdout.contains("2026-07-28 (server/discover)"),
        "{}",
        run.stdout
    );
    let asked = &server.posted("tools/call")[0];
    for (name, value) in [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "do"),
    ] {
        assert_eq!(asked.header(name), Some(value));
    }
    assert_eq!(asked.header("mcp-session-id"), None);
    let capabilities =
        &asked.message()["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert!(capabilities["extensions"]["io.modelcontextprotocol/tasks"].is_object());
    assert!(server.asked().iter().all(|asked| asked.verb == "POST"));
}

/// What is looked up when the server says that it is missing: an agent that knows the tools from
/// before does not ask for them.
#[test]
fn arguments_that_a_server_wants_to_see_in_headers_are_there() {
    let tools = json!({ "resultType": "complete", "tools": [
        { "name": "do", "inputSchema": { "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" } } } },
        { "name": "wrong", "inputSchema": { "type": "object", "properties": {
            "a": { "type": "number", "x-mcp-header": "A" } } } }] });
    let server = McpServer::start(move |asked| match asked.method().as_str() {
        "tools/list" => Gives::json(&asked.result(tools.clone())),
        "tools/call" if asked.header("mcp-param-region") != Some("=?base64?w7w=?=") => {
            let error = json!({ "code": -32020, "message": "Header mismatch" });
            let error = json!({ "jsonrpc": "2.0", "id": asked.message()["id"], "error": error });
            Gives::Status(400, vec![], error.to_string())
        }
        _ => without_handshake(asked).unwrap_or_else(|| done(asked)),
    });
    let home = Home::new();
    let arguments = ["--call", "do", "--arguments", "{\"region\":\"ü\"}"];
    let run = probe(&home, &server, &arguments).expect(0);
    assert!(run.stdout.ends_with("result:\ndone\n"), "{}", run.stdout);
    assert_eq!(server.posted("tools/call").len(), 2);
    let run = probe(&home, &server, &[]).expect(0);
    assert!(run.stdout.contains("tools     1\n"), "{}", run.stdout);
}

#[test]
fn a_server_is_not_spoken_with_in_the_open() {
    for url in [
        "http://192.0.2.1/mcp",
        "ftp://example.com",
        "https://user:secret@example.com",
    ] {
        let run = Home::new().run(["mcp", "probe", url]);
        assert!(!run.stderr.contains("secret"), "{}", run.stderr);
        refused(run, 2, &["server"]);
    }
    let run = Home::new().run(["mcp", "probe", "http://127.0.0.1:9/mcp"]);
    let run = refused(run, 1, &["cannot connect to http://127.0.0.1:9/mcp"]);
    assert!(!run.stderr.contains(DOUBT), "{}", run.stderr);
}

#[tokio::test]
async fn a_call_continues_when_its_agent_is_gone() {
    let server = newer(|asked| {
        Gives::events(vec![
            Piece::Text(": on it\n\n".into()),
            Piece::Pause(3_000),
            event(&asked.text("done")),
        ])
    });
    let place = Place::new();
    let (run, first) = place.start(&server.url()).await;
    let dropped = tokio::time::timeout(Duration::from_millis(150), called(&first, "call_1")).await;
    assert!(dropped.is_err());
    drop(first);
    let second = place.attach(&run).await;
    assert_eq!(called(&second, "call_1").await.unwrap(), "done");
    assert_eq!(server.posted("tools/call").len(), 1);
    end(second).await;
}

#[tokio::test]
async fn a_cancelled_call_of_the_newer_era_ends_its_stream() {
    let server = newer(|_| Gives::events(vec![Piece::Text(": on it\n\n".into()), Piece::Wait]));
    let place = Place::new();
    let (_, connection) = place.start(&server.url()).await;
    let is_on_it = async {
        until_async(|| server.posted("tools/call").len() == 1).await;
        // Its stream begins.
        tokio::time::sleep(Duration::from_millis(150)).await;
    };
    tokio::select! {
        biased;
        result = called(&connection, "call_1") => panic!("{result:?}"),
        () = is_on_it => {}
    }
    connection.cancel("call_1", "not needed").await;
    until_async(|| server.left() == 1).await;
    let gone = called(&connection, "call_1").await.unwrap_err();
    assert!(gone.is_in_doubt(), "{gone}");
    assert!(server.posted("notifications/cancelled").is_empty());
    end(connection).await;
}

/// Its keys are in the environment of its keeper's start, and nowhere else.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_keys_of_a_server_are_in_no_file_and_not_in_the_environment_of_its_bridge() {
    let server = older(done);
    let place = Place::new();
    let (run, connection) = place.start(&server.url()).await;
    called(&connection, "call_1").await.unwrap();
    assert_eq!(
        server.posted("tools/call")[0].header("x-key"),
        Some("secret-key")
    );
    let environment = std::fs::read(format!("/proc/{}/environ", place.group(&run)));
    // Only root may look at all.
    if let Ok(environment) = environment {
        assert!(!String::from_utf8_lossy(&environment).contains("secret-key"));
    }
    for file in std::fs::read_dir(place.servers.path(&run).unwrap()).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        assert!(
            !String::from_utf8_lossy(&bytes).contains("secret-key"),
            "{}",
            path.display()
        );
    }
    end(connection).await;
}

#[tokio::test]
async fn server_notifications_outside_a_call_are_received() {
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    let server = McpServer::start(move |asked| match asked.verb.as_str() {
        "GET" => Gives::events(vec![event(&changed), Piece::Wait]),
        _ => with_handshake(asked).unwrap_or_else(|| done(asked)),
    });
    let place = Place::new();
    let (_, connection) = place.start(&server.url()).await;
    until_async(|| server.with_verb("GET").len() == 1).await;
    let seen = async {
        let mut id = 0;
        while !connection.is_changed() {
            id += 1;
            called(&connection, &format!("call_{id}")).await.unwrap();
        }
    };
    tokio::time::timeout(LIMIT, seen)
        .await
        .expect("it is heard");
    end(connection).await;
}
