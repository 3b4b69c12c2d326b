//! Hooks as users write them: guards that decide and that fail, formatters, trust, kills, and the
//! subcommand.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cli::mirror::write_program;
use crate::cli::{LIMIT, bash, calling, play, refused, results, scripted, step, streamed, until};
use crate::scenes::hooks::*;
use support::{Home, Live, Run, git};

const BYPASS: [&str; 4] = ["-p", "go", "--permission-mode", "bypassPermissions"];
/// A script in the workspace.
fn script(home: &Home, name: &str, text: &str) -> PathBuf {
    let path = home.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    write_program(&path, text);
    path
}

/// The kinds of the recorded entries of a run.
fn kinds(run: &Run) -> Vec<String> {
    let events = run.events().into_iter();
    let kind = |e: Value| Some(e["type"].as_str()?.strip_prefix("entry.")?.to_string());
    events.filter_map(kind).collect()
}

/// The results of hooks that a run recorded.
fn hooked(run: &Run) -> Vec<Value> {
    let events = run.events().into_iter();
    let of_entry = |e: Value| match e["type"] == "entry.hooked" {
        true => e["results"].as_array().cloned().unwrap_or_default(),
        false => Vec::new(),
    };
    events.flat_map(of_entry).collect()
}

/// The ten guards that fail of the design, one with 1 GiB of output, and one whose child keeps the
/// pipe open. Nobody is there to be asked, so each denies, whatever the mode allows.
#[test]
fn a_guard_that_fails_in_any_way_lets_no_call_run() {
    let home = touching();
    let not_executable = script(&home, "not-executable", "#!/bin/sh\nexit 0\n");
    fs::set_permissions(&not_executable, fs::Permissions::from_mode(0o644)).unwrap();
    script(&home, "no-interpreter", "#!/no/such/interpreter\n");
    // By its seconds it is found among the processes of the machine: no other test sleeps so.
    let sleep = format!("sleep 600.{}", std::process::id());
    let sleep_beside = format!("{sleep} & echo");
    let failing = [
        ("./gone.sh", "is missing"),
        ("./not-executable", "is not executable"),
        ("./no-interpreter", "exit code 12"),
        ("python3 gone.py", "is missing"),
        ("exit 1", "exit code 1"),
        ("echo why >&2; exit 3", "exit code 3: why"),
        ("kill -9 $$", "signal 9"),
        (sleep.as_str(), "reached its time limit"),
        (r#"echo '{"decision":'"#, "not valid JSON"),
        (r#"echo '{"decision":"perhaps"}'"#, "which is unknown"),
        ("head -c 1073741824 /dev/zero", "longer than 1 MiB"),
        (sleep_beside.as_str(), "reached its time limit"),
    ];
    for (command, why) in failing {
        let quick = file(&[("PreToolUse", "Bash", command)]).replace("20}", "1}");
        fs::write(home.rewake_home().join("hooks.json"), quick).unwrap();
        let run = streamed(&home, &BYPASS);
        let [(kind, text)] = &results(&run)[..] else {
            panic!("{command}: {run:?}");
        };
        assert_eq!(kind, "denied", "{command}: {text}");
        assert!(text.contains(why), "{command}: {text}");
        assert!(!home.path("ran").exists(), "{command}");
    }
    // The child that kept the pipe open ends with its group.
    until(|| !is_running(&sleep));
}

fn is_running(line: &str) -> bool {
    let found = std::process::Command::new("pgrep")
        .args(["-fx", line])
        .output();
    found.is_ok_and(|found| found.status.success())
}

#[test]
fn a_failure_counts_for_nothing_only_where_the_hook_says_so() {
    let home = touching();
    let lenient = file(&[("PreToolUse", "Bash", "exit 1")])
        .replace("\"timeout\":20", "\"timeout\":20,\"onFailure\":\"allow\"");
    fs::write(home.rewake_home().join("hooks.json"), lenient).unwrap();
    let run = streamed(&home, &ACCEPT).expect(0);
    assert!(home.path("ran").exists());
    let message = hooked(&run)[0]["message"].as_str().unwrap().to_string();
    assert!(
        message.contains("failed, and is ignored: exit code 1"),
        "{message}"
    );
}

/// What a hook answers, and what comes of a command that the mode and the rules would allow.
#[test]
fn deny_wins_over_ask_and_ask_over_allow() {
    let allow = answer("allow");
    let ask = answer("ask");
    let deny = answer("deny");
    let cases: [(&[&str], &str, bool); 7] = [
        (&["true"], "", true),
        (&["echo words"], "", true),
        (&["echo no >&2; exit 2"], "no", false),
        (&[&allow], "", true),
        (&[&allow, &ask], "because", false),
        (&[&ask, &deny], "denies it: because", false),
        (&[&allow, "exit 7"], "exit code 7", false),
    ];
    for (commands, why, runs) in cases {
        let home = touching();
        let all: Vec<_> = commands
            .iter()
            .map(|c| ("PreToolUse", "Bash", *c))
            .collect();
        hooks(&home, &all);
        let run = streamed(&home, &ACCEPT);
        let results = results(&run);
        assert_eq!(home.path("ran").exists(), runs, "{commands:?}: {results:?}");
        assert!(results[0].1.contains(why), "{commands:?}: {results:?}");
    }
}

/// Guards that exit with 0 and refuse in a form that is none of the documented ones, and guards that
/// echo what the model wrote.
#[test]
fn an_answer_that_is_not_understood_lets_no_call_run() {
    let echoed = r#"echo {"decision":"approve"} > ran"#;
    let print = |text: &str| format!("printf '%b' '{text}'");
    let cases = [
        (
            print(r#"{"permissionDecision":"deny"}"#),
            "unknown key `permissionDecision`",
        ),
        (print(r#"[{"decision":"block"}]"#), "not an object"),
        (print("false"), "not an object"),
        (print(r#""deny""#), "not an object"),
        (
            print(r#"guard 1.0\n{"decision":"block",}"#),
            "a form that is not JSON",
        ),
        (
            print(r#"{"reason":"rm is not allowed"}"#),
            "rm is not allowed",
        ),
        (print(r#"guard 1.0\n{"decision":"block"}"#), "denies it"),
        (
            print(r#"\033[32m{"decision":"allow"}\033[0m"#),
            "other text beside its JSON",
        ),
        (
            "jq -r .tool_input.command".to_string(),
            "other text beside its JSON",
        ),
    ];
    for (command, why) in cases {
        if command.starts_with("jq") && !which("jq") {
            continue;
        }
        let home = calling(&[bash(echoed)]);
        hooks(&home, &[("PreToolUse", "Bash", &command)]);
        let results = results(&streamed(&home, &BYPASS));
        assert!(!home.path("ran").exists(), "{command}: {results:?}");
        assert!(results[0].1.contains(why), "{command}: {results:?}");
    }
    let home = touching();
    hooks(&home, &[("PreToolUse", "Bash", "tee log")]);
    streamed(&home, &ACCEPT).expect(0);
    assert!(home.path("ran").exists(), "a guard that prints its input");
}

fn answer(decision: &str) -> String {
    let answer = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": decision,
        "permissionDecisionReason": "because",
    }});
    format!("echo '{answer}'")
}

/// An allow is an allow rule for one call, and no more.
#[test]
fn an_allow_overrides_no_deny_rule_ask_rule_protected_file_or_plan_mode() {
    let home = scripted(&[]);
    hooks(&home, &[("PreToolUse", "", &answer("allow"))]);
    let edit = ("write", json!({ "path": "a", "content": "x" }));
    let cases = [
        (bash("touch a"), "default", "", true),
        (edit.clone(), "default", "", true),
        (
            bash("touch a"),
            "default",
            "deny = [\"Bash(touch:*)\"]",
            false,
        ),
        (edit.clone(), "acceptEdits", "ask = [\"Write(a)\"]", false),
        (
            ("write", json!({ "path": ".envrc", "content": "x" })),
            "acceptEdits",
            "",
            false,
        ),
        (edit, "plan", "", false),
        (
            ("bash", json!({ "command": "touch a", "access": "full" })),
            "default",
            "",
            false,
        ),
    ];
    for (call, mode, rules, runs) in cases {
        for name in ["a", ".envrc"] {
            let _ = fs::remove_file(home.path(name));
        }
        home.write_config(&format!("{}[permissions]\n{rules}\n", crate::cli::SCRIPTED));
        play(
            &home,
            &[step("", std::slice::from_ref(&call)), step("done", &[])],
        );
        let run = streamed(&home, &["-p", "go", "--permission-mode", mode]);
        let results = results(&run);
        assert_eq!(
            results[0].0 == "done",
            runs,
            "{call:?} {mode} {rules}: {results:?}"
        );
        assert_eq!(
            home.path("a").exists() || home.path(".envrc").exists(),
            runs
        );
    }
}

#[test]
fn changed_arguments_are_judged_again_and_recorded_beside_the_original() {
    let change = |input: Value| {
        let answer = json!({ "hookSpecificOutput": { "updatedInput": input } });
        format!("echo '{answer}'")
    };
    let home = touching();
    hooks(
        &home,
        &[(
            "PreToolUse",
            "Bash",
            &change(json!({ "command": "touch other" })),
        )],
    );
    let run = streamed(&home, &ACCEPT).expect(0);
    assert!(home.path("other").exists() && !home.path("ran").exists());
    assert_eq!(hooked(&run)[0]["input"], r#"{"command":"touch other"}"#);
    // The rules judge what the call is by now.
    home.write_config(&format!(
        "{}[permissions]\ndeny = [\"Bash(rm:*)\"]\n",
        crate::cli::SCRIPTED
    ));
    hooks(
        &home,
        &[(
            "PreToolUse",
            "Bash",
            &change(json!({ "command": "rm other" })),
        )],
    );
    let run = streamed(&home, &ACCEPT);
    assert!(results(&run)[0].1.contains("Bash(rm:*)"), "{run:?}");
    assert!(home.path("other").exists());
    // Two hooks that differ: neither is used, and nobody is there to be asked.
    let (one, two) = (
        change(json!({ "command": "touch one" })),
        change(json!({ "command": "touch two" })),
    );
    hooks(
        &home,
        &[("PreToolUse", "Bash", &one), ("PreToolUse", "Bash", &two)],
    );
    let run = streamed(&home, &ACCEPT);
    let text = &results(&run)[0].1;
    assert!(
        text.contains("touch one") && text.contains("touch two"),
        "{text}"
    );
    assert!(!home.path("one").exists() && !home.path("two").exists());
    // One that leads to a protected file is asked about.
    let protected = change(json!({ "file_path": ".envrc", "content": "x" }));
    hooks(&home, &[("PreToolUse", "Write", &protected)]);
    let write = ("write", json!({ "path": "a", "content": "x" }));
    play(&home, &[step("", &[write]), step("done", &[])]);
    let run = streamed(&home, &ACCEPT);
    assert!(results(&run)[0].1.contains(".envrc"), "{run:?}");
    assert!(!home.path(".envrc").exists() && !home.path("a").exists());
}

#[test]
fn a_guard_sees_the_files_that_earlier_calls_of_the_answer_wrote() {
    let home = calling(&[
        ("write", json!({ "path": "flag", "content": "x" })),
        bash("touch ran"),
    ]);
    hooks(&home, &[("PreToolUse", "Bash", "test ! -e flag || exit 2")]);
    let run = streamed(&home, &ACCEPT);
    assert_eq!(results(&run)[1].0, "denied", "{run:?}");
    assert!(home.path("flag").exists() && !home.path("ran").exists());
}

/// The model can edit a file at once after a hook formatted it.
#[test]
fn a_file_that_a_hook_formats_can_be_edited_at_once() {
    let home = scripted(&[
        step(
            "",
            &[(
                "write",
                json!({ "path": "a.go", "content": "package a\nvar  x=1\n" }),
            )],
        ),
        step(
            "",
            &[(
                "edit",
                json!({ "path": "a.go", "edits": [{ "old": "var x = 1", "new": "var x = 2" }] }),
            )],
        ),
        step("done", &[]),
    ]);
    let input = "import json,sys;p=json.load(sys.stdin)[\"tool_input\"][\"file_path\"]";
    let format = match which("gofmt") {
        true => format!("gofmt -w \"$(python3 -c '{input};print(p)')\""),
        false => format!(
            "python3 -c '{input};t=open(p).read();open(p,\"w\").write(t.replace(\"var  x=1\",\"var x = 1\"))'"
        ),
    };
    hooks(&home, &[("PostToolUse", "Write|Edit", &format)]);
    let run = streamed(&home, &ACCEPT).expect(0);
    let results = results(&run);
    assert_eq!(results[1].0, "done", "{results:?}");
    assert!(
        home.read("a.go").contains("var x = 2"),
        "{}",
        home.read("a.go")
    );
    let context = hooked(&run)[0]["context"]["text"]
        .as_str()
        .unwrap()
        .to_string();
    assert!(context.contains("+var x = 1"), "{context}");
}

fn which(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[test]
fn without_a_matching_hook_there_is_no_entry() {
    let home = touching();
    hooks(
        &home,
        &[
            ("PreToolUse", "Write", "exit 2"),
            ("PostToolUse", "mcp__.*", "true"),
        ],
    );
    let run = streamed(&home, &ACCEPT).expect(0);
    assert!(
        !kinds(&run).iter().any(|kind| kind.starts_with("hook")),
        "{run:?}"
    );
    assert!(home.path("ran").exists());
}

#[test]
fn a_message_can_be_refused_held_and_given_context() {
    let home = scripted(&[step("answered", &[])]);
    let context = "python3 -c \"print('x' * 20000)\"";
    hooks(
        &home,
        &[
            (
                "UserPromptSubmit",
                "",
                "grep -q forbidden && exit 2 || true",
            ),
            ("UserPromptSubmit", "", context),
        ],
    );
    let run = streamed(&home, &["-p", "all is well"]).expect(0);
    let long = &hooked(&run)[1]["context"];
    assert!(long["text"].as_str().unwrap().len() <= 10_000, "{long}");
    let address = format!("blob:{}", long["blob"]["hash"].as_str().unwrap());
    assert!(long["text"].as_str().unwrap().contains(&address));
    // A refused message asks nothing of the model.
    let run = streamed(&home, &["-p", "this is forbidden"]);
    assert!(!kinds(&run).contains(&"replied".to_string()), "{run:?}");
    // A failed guard: the message waits, and goes out when a person says so.
    hooks(&home, &[("UserPromptSubmit", "", "exit 1")]);
    let run = streamed(&home, &["-p", "held"]);
    assert_eq!(run.code(), Some(1), "{run:?}");
    assert!(
        run.stderr.contains("the message was not sent"),
        "{}",
        run.stderr
    );
    assert!(!kinds(&run).contains(&"replied".to_string()));
}

#[test]
fn a_hook_may_refuse_the_end_of_a_turn_five_times() {
    let steps: Vec<String> = (0..9).map(|n| step(&format!("end {n}"), &[])).collect();
    let home = scripted(&steps);
    hooks(&home, &[("Stop", "", "echo more >&2; exit 2")]);
    let run = streamed(&home, &["-p", "go"]).expect(0);
    let answers = kinds(&run).iter().filter(|kind| *kind == "replied").count();
    assert_eq!(answers, 6);
    let last = hooked(&run).pop().unwrap();
    assert!(
        last["message"].as_str().unwrap().contains("ignored now"),
        "{last}"
    );
}

#[test]
fn hooks_of_a_workspace_run_only_if_they_are_trusted_and_unchanged() {
    let home = touching();
    script(&home, "guard.sh", "#!/bin/sh\nexit 2\n");
    fs::create_dir_all(home.path(".rewake")).unwrap();
    fs::write(
        home.path(".rewake/hooks.json"),
        file(&[("PreToolUse", "Bash", "./guard.sh")]),
    )
    .unwrap();
    let run = streamed(&home, &ACCEPT).expect(0);
    assert!(home.path("ran").exists());
    assert!(
        run.stderr.contains("1 hook of .rewake/hooks.json not run"),
        "{}",
        run.stderr
    );
    fs::remove_file(home.path("ran")).unwrap();
    let trust = home.run(["trust", "--yes"]).expect(0);
    assert!(
        trust.stdout.contains("PreToolUse Bash: ./guard.sh"),
        "{}",
        trust.stdout
    );
    streamed(&home, &ACCEPT);
    assert!(!home.path("ran").exists(), "the trusted guard denies");
    // The agent, a pull or anybody else changes the script.
    script(&home, "guard.sh", "#!/bin/sh\nexit 0\n");
    let run = streamed(&home, &ACCEPT);
    let text = &results(&run)[0].1;
    assert!(text.contains("changed since it was trusted"), "{text}");
    assert!(!home.path("ran").exists());
    home.run(["trust", "--yes"]).expect(0);
    streamed(&home, &ACCEPT).expect(0);
    assert!(home.path("ran").exists());
    // Neither a tool nor a command changes what the user trusted.
    let write = ("write", json!({ "path": "guard.sh", "content": "x" }));
    play(
        &home,
        &[
            step("", &[write, bash("echo x > guard.sh")]),
            step("done", &[]),
        ],
    );
    let run = streamed(&home, &ACCEPT);
    assert!(results(&run)[0].1.contains("always asked about"), "{run:?}");
    assert!(home.read("guard.sh").contains("exit 0"), "{run:?}");
}

/// A script that is replaced after it decided about a call does not decide about the next.
#[test]
fn a_script_that_is_replaced_by_an_approved_command_counts_no_more() {
    let home = scripted(&[
        step("", &[bash("mv new.sh guard.sh && touch first")]),
        step("", &[bash("touch second")]),
        step("done", &[]),
    ]);
    script(&home, "guard.sh", "#!/bin/sh\nexit 0\n# before\n");
    script(&home, "new.sh", "#!/bin/sh\nexit 0\n");
    fs::create_dir_all(home.path(".rewake")).unwrap();
    let guard = file(&[("PreToolUse", "Bash", "./guard.sh")]);
    fs::write(home.path(".rewake/hooks.json"), guard).unwrap();
    home.run(["trust", "--yes"]).expect(0);
    let run = streamed(&home, &BYPASS);
    let results = results(&run);
    assert_eq!((&*results[0].0, &*results[1].0), ("done", "denied"));
    assert!(
        results[1].1.contains("changed since it was trusted"),
        "{run:?}"
    );
    assert!(home.path("first").exists() && !home.path("second").exists());
}

/// The model finds no message that a hook refused, in whatever way it looks.
#[test]
fn a_refused_message_is_in_no_later_request() {
    let home = calling(&[
        ("memory_search", json!({ "query": "quetzal" })),
        ("memory_page", json!({ "address": "entries 1-4" })),
        ("review_history", json!({})),
    ]);
    hooks(
        &home,
        &[("UserPromptSubmit", "", "grep -q plu.age && exit 2 || true")],
    );
    streamed(&home, &["-p", "the quetzal has red plumage"]);
    let run = streamed(&home, &["-c", "-p", "look for the quetzal"]).expect(0);
    let results = results(&run);
    assert_eq!(results.len(), 3, "{run:?}");
    for (kind, text) in &results {
        assert_eq!(kind, "done", "{text}");
        assert!(!text.contains("plumage"), "{text}");
    }
    assert!(results[0].1.contains("look for the quetzal"), "{run:?}");
    assert!(
        results[1].1.contains("a hook refused this message"),
        "{run:?}"
    );
    assert!(
        home.run(["history"])
            .expect(0)
            .stdout
            .contains("look for the quetzal")
    );
}

/// The keeper of a guard is killed: its answer is unknown, and it does not run again.
#[test]
fn a_guard_whose_keeper_is_lost_has_failed() {
    let home = touching();
    let guard = "echo $PPID >> guards; while [ ! -e go ]; do sleep 0.02; done";
    hooks(&home, &[("PreToolUse", "Bash", guard)]);
    let mut agent = Live::spawn(home.rewake(BYPASS));
    until(|| home.read("guards").ends_with('\n'));
    let keeper: i32 = home.read("guards").trim().parse().unwrap();
    assert!(agent.kill());
    agent.wait(LIMIT);
    let keeper = rustix::process::Pid::from_raw(keeper).unwrap();
    rustix::process::kill_process(keeper, rustix::process::Signal::KILL).unwrap();
    fs::write(home.path("go"), "").unwrap();
    let run = streamed(
        &home,
        &["-c", "-p", "--permission-mode", "bypassPermissions"],
    );
    assert_eq!(home.read("guards").lines().count(), 1);
    assert!(!home.path("ran").exists(), "{run:?}");
    assert!(
        results(&run)[0].1.contains("supervisor was lost"),
        "{run:?}"
    );
}

#[test]
fn guards_of_other_agents_are_named_until_they_are_imported_or_dismissed() {
    let home = touching();
    fs::create_dir_all(home.path(".claude")).unwrap();
    let settings = json!({
        "permissions": { "deny": ["Bash(curl:*)", "Agent(Explore)"], "allow": ["Bash"] },
        "hooks": { "PreToolUse": [{ "matcher": "Bash", "hooks": [
            { "type": "command", "command": "exit 2" }] }] },
    });
    fs::write(home.path(".claude/settings.json"), settings.to_string()).unwrap();
    let named = |run: &Run| {
        run.stderr
            .contains(".claude/settings.json has 1 hook and 2 deny")
    };
    let run = streamed(&home, &ACCEPT).expect(0);
    assert!(named(&run), "{}", run.stderr);
    assert!(
        home.run(["doctor"])
            .stdout
            .contains(".claude/settings.json has 1 hook")
    );
    fs::remove_file(home.path("ran")).unwrap();
    // To show is to write nothing.
    let shown = home.run(["hooks", "import"]).expect(0);
    for words in [
        "PreToolUse Bash: exit 2",
        "Bash(curl:*)",
        "not taken: Agent(Explore)",
    ] {
        assert!(shown.stdout.contains(words), "{}", shown.stdout);
    }
    assert!(named(&streamed(&home, &ACCEPT)));
    fs::remove_file(home.path("ran")).unwrap();
    home.run(["hooks", "import", "--yes"]).expect(0);
    let run = streamed(&home, &ACCEPT);
    assert!(!named(&run) && !home.path("ran").exists(), "{}", run.stderr);
    let rules = home.run(["permissions"]).expect(0).stdout;
    assert!(rules.contains("deny   Bash(curl:*)"), "{rules}");
    assert!(!rules.contains("allow"), "{rules}");
    // Another file of another agent is dismissed, until it changes.
    fs::create_dir_all(home.path(".cursor")).unwrap();
    let cursor = r#"{"version": 1, "hooks": {"beforeShellExecution": [{"command": "a"}]}}"#;
    fs::write(home.path(".cursor/hooks.json"), cursor).unwrap();
    assert!(
        streamed(&home, &ACCEPT)
            .stderr
            .contains(".cursor/hooks.json")
    );
    home.run(["hooks", "import", "--dismiss"]).expect(0);
    assert!(
        !streamed(&home, &ACCEPT)
            .stderr
            .contains(".cursor/hooks.json")
    );
    fs::write(home.path(".cursor/hooks.json"), cursor.replace("a", "b")).unwrap();
    assert!(
        streamed(&home, &ACCEPT)
            .stderr
            .contains(".cursor/hooks.json")
    );
}

#[test]
fn hooks_are_listed_and_tested_by_a_person_alone() {
    let home = touching();
    hooks(
        &home,
        &[("PreToolUse", "Bash", "grep -q touch && exit 2 || true")],
    );
    streamed(&home, &ACCEPT);
    let list = home.run(["hooks"]).expect(0).stdout;
    for words in ["PreToolUse Bash", "used", "last: deny"] {
        assert!(list.contains(words), "{list}");
    }
    let test = |input: &str| {
        let args = [
            "hooks",
            "test",
            "PreToolUse",
            "--tool",
            "Bash",
            "--input",
            input,
        ];
        home.run(args).expect(0).stdout
    };
    assert!(test(r#"{"command": "touch ran"}"#).contains("verdict: deny"));
    assert!(test(r#"{"command": "ls"}"#).contains("verdict: none"));
    assert!(!home.path("ran").exists());
    refused(
        home.run(["hooks", "test", "Before"]),
        2,
        &["there is no event", "PreToolUse"],
    );
    refused(home.run(["hooks", "test", "PreToolUse"]), 2, &["--tool"]);
    let mut inside = home.rewake(["hooks", "test", "Stop"]);
    inside.env("REWAKE_RUN", "x");
    let run = support::run(inside, LIMIT);
    refused(run, 2, &["inside a command that an agent runs"]);
}

#[test]
fn a_guard_covers_subagents_and_reads_that_need_no_question() {
    let home = calling(&[
        ("task", json!({ "prompt": "look" })),
        ("read", json!({ "path": "a" })),
    ]);
    fs::write(home.path("a"), "secret").unwrap();
    git(&home.workspace(), &["init", "-q"]);
    hooks(
        &home,
        &[(
            "PreToolUse",
            "Read|Task",
            "cat >> seen; echo >> seen; exit 2",
        )],
    );
    let run = streamed(&home, &BYPASS);
    let results = results(&run);
    assert!(
        results.iter().all(|(kind, _)| kind == "denied"),
        "{results:?}"
    );
    let seen = home.read("seen");
    assert!(
        seen.contains(r#""tool_name":"Read""#) && seen.contains(r#""tool_name":"Task""#),
        "{seen}"
    );
    assert!(seen.contains("/work/a"), "paths are absolute: {seen}");
}

/// The example of docs/hooks.md, copied as it is: it names the script that it lacks, and works once the
/// script is there.
#[test]
fn the_example_of_the_documentation_works_as_printed() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/hooks.md");
    let docs = fs::read_to_string(docs).unwrap();
    let example = docs.split("```json\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    let home = touching();
    fs::write(home.rewake_home().join("hooks.json"), example).unwrap();
    let run = streamed(&home, &BYPASS);
    let text = &results(&run)[0].1;
    let guard = home.workspace().canonicalize().unwrap().join("guard.sh");
    assert!(
        text.contains(&format!("{} is missing", guard.display())),
        "{text}"
    );
    assert!(!home.path("ran").exists());
    script(&home, "guard.sh", "#!/bin/sh\nexit 0\n");
    play(&home, &[step("", &[bash("touch ran")]), step("done", &[])]);
    streamed(&home, &BYPASS).expect(0);
    assert!(home.path("ran").exists());
}

#[test]
fn the_hint_of_a_denial_names_no_mode_that_denies_too() {
    let modes = |guard: &str, mode: &str, call: (&str, Value)| {
        let home = calling(&[call]);
        hooks(&home, &[("PreToolUse", "Bash", guard)]);
        let run = home.run(["-p", "go", "--permission-mode", mode]).expect(0);
        let said = |name: &str| run.stderr.contains(&format!("{name} allows"));
        (
            said("--permission-mode acceptEdits"),
            said("--yolo"),
            run.stderr.clone(),
        )
    };
    let write = || ("write", json!({"path": "x", "content": "x"}));
    let outside = || ("write", json!({"path": "/tmp/no/such/x", "content": "x"}));
    for (guard, mode, call, expected) in [
        ("exit 2", "default", bash("touch ran"), (false, false)),
        (
            "exit 1",
            "bypassPermissions",
            bash("touch ran"),
            (false, false),
        ),
        ("true", "default", write(), (true, true)),
        ("true", "acceptEdits", outside(), (false, true)),
    ] {
        let (accept, bypass, stderr) = modes(guard, mode, call);
        assert!(stderr.contains("1 call was denied"), "{stderr}");
        assert_eq!((accept, bypass), expected, "{guard} {mode}: {stderr}");
    }
}

#[test]
fn guards_for_tools_of_other_agents_work_or_are_named() {
    for (matcher, call) in [
        ("bash", bash("touch ran")),
        ("Bash ", bash("touch ran")),
        ("Bash(rm:*)", bash("touch ran")),
        (
            "apply_patch",
            ("write", json!({"path": "ran", "content": "x"})),
        ),
        (
            "^(apply_patch|shell)$",
            ("write", json!({"path": "ran", "content": "x"})),
        ),
    ] {
        let home = calling(&[call]);
        hooks(&home, &[("PreToolUse", matcher, "exit 2")]);
        streamed(&home, &BYPASS).expect(0);
        assert!(!home.path("ran").exists(), "{matcher}");
    }
    // A guard of Codex that is used in place.
    let home = touching();
    let codex = home.user().join(".codex/hooks.json");
    fs::create_dir_all(codex.parent().unwrap()).unwrap();
    fs::write(&codex, file(&[("PreToolUse", "Shel", "exit 2")])).unwrap();
    let shown = home.run(["hooks", "import", "--yes"]).expect(0).stdout;
    let why = "matches no tool";
    assert!(shown.contains(why), "{shown}");
    let run = streamed(&home, &BYPASS).expect(0);
    assert!(run.stderr.contains(why), "{}", run.stderr);
    for args in [&["hooks"][..], &["doctor"], &["hooks", "list", "--json"]] {
        let listed = home.run(args).stdout;
        let word = if args.len() == 3 {
            "\"matches_no_tool\":true"
        } else {
            why
        };
        assert!(listed.contains(word), "{args:?}: {listed}");
    }
}
