//! Flags of a run that other agents have too, and words of other agents.

use std::fs;

use serde_json::{Value, json};

use crate::cli::{bash, calling, history, play, refused, results, scripted, step, streamed};
use support::{Answer, Home, Protocol, Run, Server};

/// The requests of a server, as JSON.
fn bodies(server: &Server) -> Vec<Value> {
    let requests = server.requests();
    let bodies = requests.iter().filter_map(|request| request.body.clone());
    bodies
        .map(|body| serde_json::from_slice(&body).unwrap())
        .collect()
}

fn talking() -> (Server, Home) {
    let server = Server::start(|_| Answer::text("hello"));
    let home = Home::with(&server, Protocol::Anthropic);
    (server, home)
}

fn png() -> &'static [u8] {
    include_bytes!("../server/dot.png")
}

#[test]
fn words_of_other_agents_reach_no_model() {
    let (server, home) = talking();
    let words = [
        ("login", "rewake key "),
        ("auth", "rewake key "),
        ("exec", "rewake -p"),
        ("run", "rewake -p"),
        ("list", "rewake history"),
        ("sessions", "rewake history"),
        ("resume", "rewake -r"),
        ("continue", "rewake -c"),
        ("upgrade", "rewake update"),
        ("config", "config.toml"),
        ("init", "rewake -p /init"),
        ("review", "rewake -p \"review"),
    ];
    for (word, hint) in words {
        for rest in [&[][..], &["openai"], &["it", "--now"]] {
            let run = home.run([word].iter().chain(rest));
            refused(
                run,
                2,
                &["there is no subcommand", hint, "as a prompt: rewake "],
            );
        }
    }
    let config = home.rewake_home().join("config.toml");
    refused(
        home.run(["config"]),
        2,
        &[config.to_str().unwrap(), "rewake doctor"],
    );
    refused(home.run(["resume", "0197"]), 2, &["rewake -r 0197"]);
    let foreign = [
        (["-p", "x", "--allowedTools", "Bash"], "--allow RULE"),
        (["-p", "x", "--dangerously-skip-permissions", "y"], "--yolo"),
        (["-p", "x", "--output-schema", "f"], "--json-schema FILE"),
    ];
    for (args, own) in foreign {
        refused(home.run(args), 2, &["unexpected argument", own]);
    }
    assert!(history(&home).is_empty());
    assert!(server.requests().is_empty());
    // As a prompt they are sent.
    home.run(["-p", "login"]).expect(0);
    home.run(["-p", "--", "upgrade"]).expect(0);
    assert_eq!(history(&home).len(), 2);
}

#[test]
fn the_system_prompt_is_recorded_and_stays_after_a_resume() {
    let (server, home) = talking();
    fs::write(home.path("rules.md"), "Answer in French.\n").unwrap();
    home.run(["-p", "hi", "--append-system-prompt", "@rules.md"])
        .expect(0);
    home.run(["-p", "-c", "again"]).expect(0);
    home.run(["-p", "-c", "now", "--append-system-prompt", "Be short."])
        .expect(0);
    home.run(["-p", "-c", "and", "--append-system-prompt", ""])
        .expect(0);
    let systems: Vec<String> = bodies(&server)
        .iter()
        .map(|b| b["system"].to_string())
        .collect();
    let has = |text: &str| -> Vec<bool> { systems.iter().map(|s| s.contains(text)).collect() };
    assert_eq!(has("Answer in French."), [true, true, false, false]);
    assert_eq!(has("Be short."), [false, false, true, false]);
    refused(
        home.run(["-p", "x", "--append-system-prompt", "@gone.md"]),
        2,
        &["--append-system-prompt", "gone.md"],
    );
}

#[test]
fn an_added_folder_counts_as_part_of_the_workspace() {
    let home = scripted(&[]);
    let other = home.user().join("other");
    fs::create_dir(&other).unwrap();
    let file = other.join("note");
    let calls = || {
        let write = ("write", json!({ "path": file, "content": "x" }));
        let read = ("read", json!({ "path": file }));
        // Protected files are looked for in the workspace alone, so a command only reads there.
        let line = format!("echo y >> {}", file.display());
        play(
            &home,
            &[step("", &[write, read, bash(&line)]), step("done", &[])],
        );
    };
    calls();
    let args = ["-p", "go", "--permission-mode", "acceptEdits"];
    let outcome = |run: &Run| -> Vec<String> { results(run).into_iter().map(|r| r.0).collect() };
    let run = streamed(&home, &args);
    assert_eq!(outcome(&run)[0], "denied", "{run:?}");
    assert!(!file.exists());
    let added = ["--add-dir", other.to_str().unwrap()];
    let run = streamed(&home, &[&args[..], &added].concat());
    assert_eq!(outcome(&run)[..2], ["done", "done"], "{run:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "x");
    // It is recorded: a resume has it too.
    fs::remove_file(&file).unwrap();
    let id = run.events()[0]["session"].as_str().unwrap().to_string();
    play(
        &home,
        &[
            step("", &[]),
            step("", &[]),
            step("", &[("write", json!({ "path": file, "content": "z" }))]),
            step("done", &[]),
        ],
    );
    let run = streamed(&home, &["-p", "more", "-r", &id]);
    assert_eq!(outcome(&run), ["done"], "{run:?}");
    // Protected files stay protected.
    let hook = other.join(".git/hooks/pre-commit");
    play(
        &home,
        &[
            step("", &[("write", json!({ "path": hook, "content": "z" }))]),
            step("done", &[]),
        ],
    );
    let run = streamed(&home, &[&args[..], &added].concat());
    assert_eq!(outcome(&run), ["denied"], "{run:?}");
    let own = home.rewake_home();
    for (bad, why) in [
        ("gone", "No such file"),
        ("/", "rewake"),
        (own.to_str().unwrap(), "rewake"),
    ] {
        let before = history(&home).len();
        refused(
            home.run(["-p", "x", "--add-dir", bad]),
            2,
            &["--add-dir", why],
        );
        assert_eq!(history(&home).len(), before);
    }
}

#[test]
fn images_names_and_rules_are_of_this_run() {
    let (server, home) = talking();
    fs::write(home.path("dot.png"), png()).unwrap();
    home.run(["-p", "look", "--image", "dot.png", "--name", "the dot"])
        .expect(0);
    let sent = bodies(&server)[0]["messages"].to_string();
    assert!(sent.contains("image/png"), "{sent}");
    assert!(home.run(["history"]).expect(0).stdout.contains("the dot"));
    fs::write(home.path("text.png"), "text").unwrap();
    let before = history(&home).len();
    refused(
        home.run(["-p", "x", "--image", "text.png"]),
        2,
        &["text.png"],
    );
    refused(home.run(["-p", "x", "--name", " "]), 2, &["--name"]);
    assert_eq!(history(&home).len(), before);

    let home = calling(&[bash("touch ran")]);
    let deny = [
        "-p",
        "x",
        "--permission-mode",
        "acceptEdits",
        "--deny",
        "Bash(touch *)",
    ];
    assert_eq!(results(&streamed(&home, &deny))[0].0, "denied");
    let both = [&deny[..], &["--allow", "Bash(touch *)"]].concat();
    assert_eq!(results(&streamed(&home, &both))[0].0, "denied");
    assert!(!home.path("ran").exists());
    streamed(&home, &["-p", "x", "--allow", "Bash(touch *)"]);
    assert!(home.path("ran").exists());
    refused(home.run(["-p", "x", "--deny", "Bash("]), 2, &["--deny"]);
}

#[test]
fn a_cost_limit_needs_a_price() {
    let home = scripted(&[step("done", &[])]);
    refused(
        home.run(["-p", "x", "--max-usd", "1"]),
        2,
        &["price of s/play is unknown", "input_price"],
    );
    refused(home.run(["-p", "x", "--max-usd", "0"]), 2, &["above 0"]);
    assert!(history(&home).is_empty());
    let priced = [
        "--set",
        "models.\"s/play\".input_price=1",
        "--set",
        "models.\"s/play\".output_price=1",
    ];
    let run = streamed(
        &home,
        &[&["-p", "x", "--max-usd", "1"][..], &priced].concat(),
    )
    .expect(0);
    let chose = run
        .events()
        .into_iter()
        .find(|e| e["type"] == "entry.chose")
        .unwrap();
    assert_eq!(chose["limits"]["usd"], 1.0);
}

#[test]
fn a_time_limit_stops_the_run_and_leaves_it_resumable() {
    let home = waiting();
    let run = home.run([
        "-p",
        "x",
        "--timeout",
        "1s",
        "--permission-mode",
        "acceptEdits",
    ]);
    let run = run.expect(75);
    assert!(
        run.stderr
            .contains("the time limit of --timeout is reached"),
        "{run:?}"
    );
    refused(
        home.run(["-p", "x", "--timeout", "soon"]),
        2,
        &["90s, 30m or 2h"],
    );
}

/// A model whose command waits for a file.
fn waiting() -> Home {
    scripted(&[
        step("", &[bash("while [ ! -e go ]; do sleep 0.02; done")]),
        step("fine", &[]),
    ])
}

#[test]
fn an_ephemeral_session_is_purged_after_it_ends_well() {
    let home = waiting();
    for more in [
        &["-c"][..],
        &["--session-id", "f9a0c2f0-7d10-4c55-9d0e-0d6f6f3f0a77"],
    ] {
        let args = ["-p", "x", "--ephemeral"].iter().chain(more);
        refused(home.run(args), 2, &["cannot be used with"]);
    }
    let args = ["-p", "x", "--ephemeral", "--permission-mode", "acceptEdits"];
    home.run(args.iter().chain(&["--timeout", "1s"])).expect(75);
    assert_eq!(history(&home).len(), 1, "a run that was stopped stays");
    fs::write(home.path("go"), "").unwrap();
    assert_eq!(home.run(args).expect(0).stdout, "fine\n");
    assert_eq!(history(&home).len(), 1);
}

#[test]
fn servers_of_a_file_are_used_for_this_run() {
    let home = calling(&[("mcp_find", json!({ "query": "" }))]);
    let program = std::env::current_exe().unwrap();
    let server = json!({ "mcpServers": { "far": {
        "command": program, "args": support::spoken::arguments(support::spoken::ITSELF),
        "env": { (support::spoken::ASKED): "tools", (support::spoken::SAYS): "{}" },
    } } });
    fs::write(home.path("mcp.json"), server.to_string()).unwrap();
    let run = streamed(&home, &["-p", "x", "--mcp-config", "mcp.json"]);
    let found = results(&run);
    assert!(found[0].1.contains("mcp__far__append"), "{run:?}");
    refused(
        home.run(["-p", "x", "--mcp-config", "gone.json"]),
        2,
        &["gone.json"],
    );
    fs::write(home.path("bad.json"), "{}").unwrap();
    refused(
        home.run(["-p", "x", "--mcp-config", "bad.json"]),
        2,
        &["mcpServers"],
    );
}
