//! The Model Context Protocol over a kept server: `rewake mcp probe`, and a connection that outlives
//! its agent.

use std::path::Path;
use std::sync::Arc;

use rewake::mcp::connection::{Connection, McpError};
use rewake::mcp::elicit::Declines;
use rewake::mcp::era::ProtocolHint;
use rewake::mcp::result::ResultPart;

use super::*;
use crate::cli::{quiet, refused};
use support::{Home, Run};

const LIMIT: Duration = Duration::from_secs(90);

/// Probes the server of the tests.
fn probe(mode: &str, more: &[&str]) -> (Home, Run) {
    let home = Home::new();
    let program = std::env::current_exe().unwrap();
    let env = format!("{}={mode}", spoken::ASKED);
    let mut args: Vec<String> = ["mcp", "probe", "--env", &env].map(String::from).into();
    args.extend(more.iter().map(ToString::to_string));
    args.extend(["--".to_string(), program.to_str().unwrap().to_string()]);
    args.extend(spoken::arguments(SERVER));
    let run = home.run(args);
    quiet(&run);
    (home, run)
}

/// Nothing of it runs, and nothing is left on the disk.
fn is_clear(home: &Home) {
    let left = std::fs::read_dir(home.rewake_home().join("servers"));
    let left = left.map_or(0, Iterator::count);
    assert_eq!(left, 0);
}

#[test]
fn a_server_of_either_era_is_probed() {
    for (mode, protocol) in [
        ("old", "2025-11-25 (initialize)"),
        ("new", "2026-07-28 (server/discover)"),
    ] {
        let (home, run) = probe(mode, &[]);
        let run = run.expect(0);
        for words in [
            protocol,
            "spoken 1",
            "tools     2",
            "__second",
            "Does[31m it",
        ] {
            assert!(run.stdout.contains(words), "{words}: {}", run.stdout);
        }
        assert!(run.stderr.contains("no message"), "{}", run.stderr);
        is_clear(&home);
    }
}

#[test]
fn a_tool_is_called_and_its_result_shown() {
    let (_, run) = probe("old", &["--call", "do.it"]);
    let run = run.expect(0);
    assert!(
        run.stdout
            .ends_with("result:\ndone\n(image image/png, 4 bytes as base64)\n")
    );
    let (_, run) = probe("new", &["--call", "fail"]);
    assert!(run.expect(0).stdout.contains("failed:"));
    let (_, run) = probe("old", &["--call", "x", "--arguments", "[1]"]);
    refused(run, 2, &["--arguments"]);
}

#[test]
fn a_failed_probe_states_its_reason() {
    let (home, run) = probe("exits", &[]);
    let run = refused(run, 1, &["exited with code 3"]);
    assert!(
        run.stderr
            .contains("hint: its last words: no licence found"),
        "{}",
        run.stderr
    );
    is_clear(&home);
    let (home, run) = probe("silent", &["--timeout", "2"]);
    refused(run, 1, &["did not answer initialize within 2 s"]);
    is_clear(&home);
    let (_, run) = probe("ancient", &[]);
    refused(run, 1, &["\"2023-01-01\"", "2025-11-25"]);
    // The server is named, although the call fails.
    let (home, run) = probe("old", &["--call", "half"]);
    let run = refused(run, 1, &["the server ended while it worked on this"]);
    let server = "protocol  2025-11-25 (initialize)\nserver    spoken 1\n";
    assert_eq!(run.stdout, server);
    is_clear(&home);
    let run = Home::new().run(["mcp", "probe", "--", "/no/such/server"]);
    refused(run, 1, &["/no/such/server", "No such file"]);
    let run = Home::new().run(["mcp", "probe"]);
    assert_eq!(run.code(), Some(2));
}

#[test]
fn pages_in_a_circle_are_noted() {
    let (_, run) = probe("circle", &[]);
    let run = run.expect(0);
    assert!(run.stderr.contains("go in a circle"), "{}", run.stderr);
    assert!(run.stdout.contains("tools     2"), "{}", run.stdout);
}

async fn begin(client: Client, root: &Path) -> Connection {
    let connecting = Connection::begin(
        client,
        root,
        LIMIT,
        Arc::new(Declines),
        ProtocolHint::Unknown,
    );
    connecting.await.unwrap()
}

async fn start(place: &Place, mode: &str) -> (String, Connection) {
    let run = place.servers.prepare(&place.spec()).unwrap();
    let own = [(spoken::ASKED.to_string(), mode.to_string())];
    let env = ServerEnv::new(|name| std::env::var_os(name), &own);
    let client = live(place.servers.start(&run, &env).await.unwrap());
    let root = place.folder.path();
    (run, begin(client, root).await)
}

async fn reopen(place: &Place, run: &str) -> Connection {
    let client = place.attach(run).await;
    begin(client, place.folder.path()).await
}

/// How often words stand in a file of the journal.
fn count(place: &Place, run: &str, file: &str, words: &str) -> usize {
    let file = place.servers.path(run).unwrap().join(file);
    std::fs::read_to_string(file)
        .unwrap()
        .matches(words)
        .count()
}

fn sent(place: &Place, run: &str, words: &str) -> usize {
    count(place, run, "in.0", words)
}

#[tokio::test]
async fn a_call_continues_without_its_agent_after_a_single_handshake() {
    for mode in ["old", "new"] {
        let place = place();
        let (run, first) = start(&place, mode).await;
        let until = place.folder.path().join("go");
        let arguments = json!({ "file": place.effects(), "text": "x", "until": until });
        let is_sent = async {
            while sent(&place, &run, "\"tools/call\"") == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            biased;
            result = first.call("call_1", "append", &arguments, false) => panic!("{result:?}"),
            () = is_sent => {}
        }
        drop(first);
        let second = reopen(&place, &run).await;
        place.go();
        let result = second
            .call("call_1", "append", &arguments, false)
            .await
            .unwrap();
        assert_eq!(result.parts[0], ResultPart::Text("done".into()));
        assert_eq!(place.appended(), ["x"]);
        assert_eq!(sent(&place, &run, "\"tools/call\""), 1);
        let hands = [
            sent(&place, &run, "\"initialize\""),
            sent(&place, &run, "notifications/initialized"),
        ];
        assert_eq!(hands, if mode == "old" { [1, 1] } else { [0, 0] });
        second.client().leave().await;
    }
}

#[tokio::test]
async fn a_server_gets_what_it_asks_for_once() {
    let place = place();
    let (run, first) = start(&place, "old").await;
    let result = first
        .call("call_1", "ask_back", &json!({}), true)
        .await
        .unwrap();
    let ResultPart::Text(roots) = &result.parts[0] else {
        panic!("{result:?}")
    };
    assert!(roots.contains("file:///"), "{roots}");
    assert!(first.is_changed());
    first.note_changed(false);
    assert!(!first.is_changed());
    drop(first);
    let second = reopen(&place, &run).await;
    // It comes upon the old question on its way to the answer.
    second
        .call("call_2", "do.it", &json!({}), true)
        .await
        .unwrap();
    assert_eq!(
        sent(&place, &run, "\"roots\""),
        3,
        "the capability in both eras, and one answer"
    );
    second.client().leave().await;
}

#[tokio::test]
async fn notifications_before_a_result_are_received_with_it() {
    let place = place();
    let (run, first) = start(&place, "old").await;
    let arguments = json!({ "ms": 1000 });
    let is_sent = async {
        while sent(&place, &run, "\"tools/call\"") == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        biased;
        () = is_sent => {}
        result = first.call("call_1", "change", &arguments, true) => panic!("{result:?}"),
    }
    drop(first);
    while count(&place, &run, "out.0", "\"done\"") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Both are there when it is asked for.
    let second = reopen(&place, &run).await;
    let call = second.call("call_1", "change", &arguments, true);
    call.await.unwrap();
    assert!(second.is_changed());
    second.client().leave().await;
}

#[tokio::test]
async fn cancelling_tells_the_server_and_ends_nothing() {
    let place = place();
    let (run, connection) = start(&place, "new").await;
    let arguments = json!({});
    let is_sent = async {
        while sent(&place, &run, "\"tools/call\"") == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // It may be told that it is.
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    tokio::select! {
        biased;
        result = connection.call("call_1", "stall", &arguments, false) => panic!("{result:?}"),
        () = is_sent => {}
    }
    connection.cancel("call_1", "not needed").await;
    assert_eq!(sent(&place, &run, "notifications/cancelled"), 1);
    connection
        .call("call_2", "do.it", &arguments, false)
        .await
        .unwrap();
    let group = place.info(&run).group.unwrap();
    kill(group);
    let lost = connection
        .call("call_1", "stall", &arguments, false)
        .await
        .unwrap_err();
    assert!(matches!(lost, McpError::Lost(_)), "{lost}");
    let over = connection
        .call("call_3", "do.it", &arguments, false)
        .await
        .unwrap_err();
    assert!(matches!(over, McpError::Over(_)), "{over}");
}
