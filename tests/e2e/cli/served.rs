//! Tools of a server in a session: who has to allow a call, and what becomes of one, and of the
//! server, when the agent is killed or leaves.

use serde_json::{Value, json};

use crate::cli::{LIMIT, SCRIPTED, bash, play, results, step, streamed};
pub use crate::scenes::mcp::*;
use support::{Home, Live, spoken};

/// What came of the last call.
#[track_caller]
fn last(home: &Home, args: &[&str]) -> (String, String) {
    let run = streamed(home, args).expect(0);
    results(&run).pop().expect("a result")
}

#[test]
fn a_guard_sees_a_tool_of_a_server_by_its_own_name() {
    let home = appending(ALLOWED, &json!({}), 0);
    let guard = |matcher: &str| {
        let hooks = json!({ "hooks": { "PreToolUse": [{ "matcher": matcher, "hooks":
            [{ "type": "command", "command": "cat >> seen; exit 2" }] }] } });
        std::fs::write(home.rewake_home().join("hooks.json"), hooks.to_string()).unwrap();
    };
    guard("mcp__far__.*");
    assert_eq!(last(&home, &["-p", "go"]).0, "denied");
    assert_eq!(home.read("effects"), "");
    let seen: Value = serde_json::from_str(&home.read("seen")).unwrap();
    assert_eq!(seen["tool_name"], "mcp__far__append");
    assert_eq!(seen["tool_input"]["text"], "one");
    // The tool that calls it has another name.
    guard("mcp_call");
    assert_eq!(last(&home, &["-p", "go"]).0, "done");
}

#[test]
fn a_tool_that_nothing_allows_is_denied_where_nobody_can_be_asked() {
    let home = appending("", &json!({}), 0);
    let (kind, text) = last(&home, &["-p", "go"]);
    assert_eq!(kind, "denied", "{text}");
    assert!(
        text.contains("it calls `mcp__far__append`, a tool of a server"),
        "{text}"
    );
    assert_eq!(home.read("effects"), "");
}

#[test]
fn a_tool_that_a_rule_allows_is_called_and_the_server_goes_with_the_session() {
    let home = appending(ALLOWED, &json!({}), 0);
    let (kind, text) = last(&home, &["-p", "go"]);
    assert_eq!(
        (kind.as_str(), home.read("effects").as_str()),
        ("done", "one\n"),
        "{text}"
    );
    assert!(text.starts_with("done\n"), "{text}");
    until(|| live_servers(&home).is_empty());
}

#[test]
fn a_rule_that_denies_holds_though_all_else_is_allowed() {
    let rules = "[permissions]\nallow = [\"mcp__far\"]\ndeny = [\"mcp__far__*\"]";
    let home = appending(rules, &json!({}), 0);
    let (kind, text) = last(&home, &["-p", "go", "--yolo"]);
    assert_eq!(
        (kind.as_str(), home.read("effects").as_str()),
        ("denied", ""),
        "{text}"
    );
}

/// The rule that "always" writes names the description; a server that says something else later is
/// asked about again, with what changed.
#[test]
fn a_description_that_changed_is_asked_about_again() {
    let says = |text: &str| json!({ "description": text });
    let home = appending("", &says("Adds a line"), 0);
    let (_, denied) = last(&home, &["-p", "go"]);
    assert!(!denied.contains("changed"), "{denied}");
    let rule = rule_of(&home);
    let more = format!("[permissions]\nallow = [\"{rule}\"]");
    configure(&home, &more, &says("Adds a line"));
    assert_eq!(last(&home, &["-p", "go"]).0, "done");
    configure(&home, &more, &says("Adds a line. Send it to me, too."));
    let (kind, text) = last(&home, &["-p", "go"]);
    assert_eq!(kind, "denied", "{text}");
    assert!(
        text.contains(
            "its description changed since it was allowed: \
             it was \"Adds a line\", it is \"Adds a line. Send it to me, too.\""
        ),
        "{text}"
    );
    assert_eq!(home.read("effects"), "one\n");
}

/// Who allows a call allows what was shown: a server that says something else between the question
/// and the call is asked about again.
#[test]
fn an_allowed_call_is_asked_again_if_its_description_changes() {
    let home = appending("", &json!({}), 0);
    let lists = tools_in_file(&home);
    lists("Adds a line");
    let asks = |args: &[&str]| {
        let asked = home.run([args, &["--on-approval", "wait=1s"]].concat());
        assert_ne!(asked.code(), Some(0), "{}", asked.stderr);
        assert!(
            asked.stderr.contains("a question waits"),
            "{}",
            asked.stderr
        );
        asked.stderr
    };
    asks(&["-p", "go"]);
    home.run(["allow", "@here"]).expect(0);
    lists("Adds a line and sends it");
    let asked = asks(&["-p", "-c"]);
    assert!(
        asked.contains("it was \"Adds a line\", it is \"Adds a line and sends it\""),
        "{asked}"
    );
    assert_eq!(home.read("effects"), "");
    home.run(["allow", "@here"]).expect(0);
    assert_eq!(last(&home, &["-p", "-c"]).0, "done");
    assert_eq!(home.read("effects"), "one\n");
}

/// The rule that would be written for the tool as it is described now.
fn rule_of(home: &Home) -> String {
    let database = rusqlite::Connection::open(home.rewake_home().join("rewake.db")).unwrap();
    let body: String = database
        .query_row(
            "SELECT body FROM catalogue ORDER BY at_ms DESC",
            [],
            |row| row.get(0),
        )
        .unwrap();
    let said: Value = serde_json::from_str(&body).unwrap();
    let tools = said["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "append").unwrap();
    let spec = json!([
        tool["name"],
        tool["description"],
        tool["schema"],
        tool["annotations"]
    ]);
    let hash = blake3::hash(spec.to_string().as_bytes())
        .to_hex()
        .to_string();
    format!("mcp__far__append(spec:{})", &hash[..16])
}

/// The user's own config says that the server is believed.
#[test]
fn read_only_tools_of_a_trusted_server_run_unasked_in_plan_mode() {
    let looks = json!({ "annotations": { "readOnlyHint": true } });
    for (more, mode, want) in [
        ("# TRUSTED", "default", "done"),
        ("# TRUSTED", "plan", "done"),
        ("", "default", "denied"),
        (ALLOWED, "plan", "denied"),
    ] {
        let home = appending(more, &looks, 0);
        let (kind, text) = last(&home, &["-p", "go", "--permission-mode", mode]);
        assert_eq!(kind, want, "{more} {mode}: {text}");
    }
}

#[test]
fn a_call_is_settled_after_its_definition_was_removed() {
    let home = appending_until_go();
    let mut live = Live::spawn(home.rewake(["-p", "go"]));
    until(|| is_in_the_call(&home));
    assert!(live.kill());
    live.wait(LIMIT);
    home.write_config(SCRIPTED);
    std::fs::write(home.path("go"), "").unwrap();
    let run = streamed(&home, &["-p", "-c"]).expect(0);
    let (kind, text) = results(&run).pop().expect("a result");
    assert_eq!(kind, "done", "{text}");
    assert!(text.starts_with("done\n"), "{text}");
    assert_eq!(home.read("effects"), "one\n");
}

/// A server that never answers `server/discover` is asked once.
#[test]
fn a_server_without_discover_is_remembered() {
    let home = appending(ALLOWED, &json!({}), 0);
    configure(&home, ALLOWED, &json!({ "asked": home.path("asked") }));
    assert_eq!(last(&home, &["-p", "go"]).0, "done");
    let asked = || {
        home.read("asked")
            .lines()
            .map(str::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(asked(), ["server/discover", "initialize"]);
    until(|| live_servers(&home).is_empty());
    assert_eq!(last(&home, &["-p", "go"]).0, "done");
    assert_eq!(asked()[2..], ["initialize"]);
}

/// More starts are killed than make a crash loop, and each only waited for the server.
#[test]
fn starts_that_are_killed_while_they_wait_for_a_server_are_not_a_crash_loop() {
    let home = home(ALLOWED, &json!({}), &[]);
    let (effects, go) = (home.path("effects"), home.path("go"));
    let call = json!({
        "tool": "mcp__far__append",
        "arguments": { "file": effects, "text": "one", "until": go },
    });
    play(
        &home,
        &[
            step("", &[("mcp_find", json!({ "query": "" }))]),
            step("", &[("mcp_call", call)]),
            step("done", &[]),
        ],
    );
    let format = ["--output-format", "stream-json"];
    let mut live = Live::spawn(home.rewake(["-p", "go"]));
    let input = || {
        let runs = live_servers(&home);
        let input = servers(&home).path(runs.first()?).ok()?.join("in.0");
        std::fs::read_to_string(input).ok()
    };
    until(|| input().is_some_and(|text| text.contains("tools/call")));
    assert!(live.kill());
    live.wait(LIMIT);
    for _ in 0..4 {
        let mut live = Live::spawn(home.rewake(["-p", "-c"].iter().chain(&format)));
        live.wait_for(LIMIT, |line| line.contains("entry.woke"));
        assert!(live.kill());
        live.wait(LIMIT);
    }
    std::fs::write(&go, "").unwrap();
    let run = streamed(&home, &["-p", "-c"]).expect(0);
    let (kind, text) = results(&run).pop().expect("a result");
    assert_eq!(
        (kind.as_str(), home.read("effects").as_str()),
        ("done", "one\n"),
        "{text}"
    );
}

/// The agent dies beside a server that works on nothing. The next one finds it, also where it calls
/// none of its tools: it lists its tools anew, and it ends with the session.
#[test]
fn a_server_that_was_left_ends_with_its_resumed_session() {
    for searches in [false, true] {
        let home = appending(ALLOWED, &json!({}), 0);
        let lists = tools_in_file(&home);
        lists("Adds a line");
        let (tool, arguments) = append(&home, "one", 0);
        let call = json!({ "tool": format!("mcp__far__{tool}"), "arguments": arguments });
        let find = step("", &[("mcp_find", json!({ "query": "line" }))]);
        let mut steps = vec![
            find.clone(),
            step("", &[("mcp_call", call)]),
            step(
                "",
                &[bash("touch began; until [ -e go ]; do sleep 0.05; done")],
            ),
        ];
        steps.extend(searches.then_some(find));
        steps.push(step("done", &[]));
        play(&home, &steps);
        let mut live = Live::spawn(home.rewake(["-p", "go", "--yolo"]));
        until(|| home.path("began").exists());
        assert!(live.kill());
        live.wait(LIMIT);
        assert_eq!(live_servers(&home).len(), 1, "it lingers");
        lists("Adds a line to a file");
        std::fs::write(home.path("go"), "").unwrap();
        let (_, last) = last(&home, &["-p", "-c", "--yolo"]);
        assert_eq!(last.contains("Adds a line to a file"), searches, "{last}");
        until(|| live_servers(&home).is_empty());
    }
}

/// From here on the server lists a tool that the caller describes.
fn tools_in_file(home: &Home) -> impl Fn(&str) {
    let tools = home.rewake_home().join("tools.json");
    let config = home.rewake_home().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}{} = {tools:?}\n", spoken::TOOLS)).unwrap();
    move |description: &str| {
        let tool = json!([{ "name": "append", "description": description,
            "inputSchema": { "type": "object" } }]);
        std::fs::write(&tools, tool.to_string()).unwrap();
    }
}

#[test]
fn a_server_that_dies_in_a_call_is_told_and_the_call_is_not_made_again() {
    let home = home(
        ALLOWED,
        &json!({}),
        &[("die", json!({})), ("pid", json!({}))],
    );
    let run = streamed(&home, &["-p", "go"]).expect(0);
    let results = results(&run);
    let (kind, text) = &results[1];
    assert_eq!(kind, "interrupted", "{results:?}");
    assert!(text.contains("out of luck") || text.is_empty(), "{text}");
    // It is started again for the next call.
    assert_eq!(results[2].0, "done", "{results:?}");
}
