//! What is on stdout and what on stderr: the shapes that programs rely on, and nothing that
//! paints a person's terminal.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::cli::{LIMIT, bash, calling, newest, quiet, scripted, shell, step, streamed};
use support::{Home, Run, run};

const RESULT: [&str; 15] = [
    "background",
    "calls",
    "cost_usd",
    "denied",
    "exit_code",
    "model",
    "result",
    "resumable",
    "session",
    "title",
    "turns",
    "type",
    "usage",
    "why",
    "hint",
];

#[track_caller]
fn has_fields(value: &Value, names: &[&str]) {
    for name in names {
        assert!(value.get(name).is_some(), "{name} is missing: {value}");
    }
}

/// The keys of an object as they stand in its text, those of objects in it too.
fn keys(text: &str) -> Vec<&str> {
    let mut parts = text.split('"').skip(1);
    let mut keys = Vec::new();
    while let Some(part) = parts.next() {
        if parts.next().is_some_and(|behind| behind.starts_with(':')) {
            keys.push(part);
        }
    }
    keys
}

#[test]
fn the_sample_of_the_documentation_is_what_is_printed() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/headless.md"));
    let page = page.unwrap();
    let block = |start: &str| {
        let (_, behind) = page.split_once(start).unwrap();
        behind.split_once("```").unwrap().0.to_string()
    };
    let sample = block("```json\n");
    let steps = page.split_once("answers.toml <<'END'\n").unwrap().1;
    let steps = steps
        .split_once("\nEND\n")
        .unwrap()
        .0
        .replace("sleep 20", "sleep 0");
    let home = scripted(&[steps]);
    home.write_config(
        "model = \"played/any\"\n[permissions]\nallow = [\"Bash(sleep:*)\"]\n\
         [providers.played]\nprotocol = \"script\"\nscript = \"script.toml\"\n",
    );
    let run = home.run(["-p", "build it", "--output-format", "json"]);
    let printed = run.expect(0).stdout;
    assert_eq!(keys(&sample), keys(&printed));
    let plain = |text: &str| {
        let mut value: Value = serde_json::from_str(text).unwrap();
        value["session"] = json!("");
        value["usage"]["input"] = json!(0);
        value
    };
    assert_eq!(plain(&sample), plain(&printed));
}

#[test]
fn json_is_one_object() {
    let without = json!({"command": "touch x", "access": "full"});
    let home = calling(&[bash("echo hi"), ("bash", without)]);
    let run = home
        .run(["-p", "do it", "--output-format", "json"])
        .expect(0);
    let [result] = &run.events()[..] else {
        panic!("{}", run.stdout);
    };
    has_fields(result, &RESULT);
    assert_eq!(result["type"], "result");
    assert_eq!(result["result"], "done");
    assert_eq!(result["title"], "do it");
    assert_eq!(result["exit_code"], 0);
    assert_eq!(result["resumable"], false);
    assert_eq!(
        (&result["turns"], &result["calls"], &result["denied"]),
        (&json!(2), &json!(2), &json!(1))
    );
    has_fields(
        &result["usage"],
        &["input", "output", "cached", "cache_written"],
    );
}

#[test]
fn json_of_a_failure_says_why_and_what_to_do() {
    let home = scripted(&["[[step]]\nfail = { class = \"auth\" }\n".to_string()]);
    let run = home.run(["-p", "x", "--output-format", "json"]).expect(1);
    let result = &run.events()[0];
    assert_eq!(result["exit_code"], 1);
    assert_eq!(result["resumable"], true);
    assert!(result["why"].as_str().unwrap().contains("script fails"));
    assert!(!result["why"].as_str().unwrap().contains('\n'), "{result}");
    assert_eq!(result["result"], "");
}

/// Whatever keeps a run from starting, a program reads it from stdout as the result.
#[test]
fn a_start_that_fails_prints_a_json_result() {
    let home = scripted(&[step("done", &[])]);
    for (args, code, why) in [
        (&["-p", "x", "--no-such-flag"][..], 2, "--no-such-flag"),
        (&["-p", "x", "-r", "ffff"], 2, "ffff"),
        (&["-p", ""], 2, "the prompt is empty"),
        (&["-p", "x", "--model", "nobody/none"], 2, "nobody"),
        (&["-p", "x", "--json-schema", "{"], 2, "--json-schema"),
        (&["-p", "x", "--image", "no.png"], 2, "no.png"),
        (&["-p", "x", "-w", "tree"], 2, "git"),
        (&["-p", "x", "-C", "nowhere"], 2, "nowhere"),
        (&["-p", "x", "--set", "nonsense=1"], 2, "nonsense"),
    ] {
        for format in ["json", "stream-json"] {
            let format = ["--output-format", format];
            let run = home.run(args.iter().chain(&format)).expect(code);
            let [result] = &run.events()[..] else {
                panic!("{args:?}: {}", run.stdout);
            };
            has_fields(result, &RESULT);
            assert_eq!(result["type"], "result");
            assert_eq!(result["exit_code"], code);
            assert_eq!(result["session"], Value::Null);
            assert!(result["why"].as_str().unwrap().contains(why), "{result}");
            assert!(run.stderr.contains("error: "), "{}", run.stderr);
        }
        let text = home.run(args).expect(code);
        assert_eq!(text.stdout, "", "{args:?}");
    }
}

/// A script that keeps a pipe open sees what the run waits for.
#[test]
fn a_note_says_that_stdin_is_read() {
    let home = scripted(&[step("done", &[])]);
    let mut command = home.rewake(["-p", "say"]);
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped());
    command.stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut notes = BufReader::new(child.stderr.take().unwrap()).lines();
    let note = notes.find(|line| line.as_ref().unwrap().contains("reading stdin"));
    assert!(note.is_some());
    drop(child.stdin.take());
    notes.for_each(drop);
    assert!(child.wait().unwrap().success());
}

/// A script keeps the pipe open, and the time limit of the run applies.
#[test]
fn a_run_does_not_wait_longer_for_stdin_than_its_time_limit() {
    let home = scripted(&[step("done", &[])]);
    let mut command = home.rewake(["-p", "say", "--timeout", "2s"]);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut text = String::new();
    let read = child.stderr.take().unwrap().read_to_string(&mut text);
    read.unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(75), "{text}");
    assert!(text.contains("--timeout is reached"), "{text}");
    assert!(
        text.contains("hint: if there is none, add </dev/null to the command"),
        "{text}"
    );
}

#[test]
fn stream_json_is_a_line_for_each_thing_that_happens() {
    let home = scripted(&[
        "[[step]]\nthinking = \"hm\"\ntext = \"I look\"\nchunk_chars = 2\n\
         calls = [{ name = \"bash\", arguments = { command = \"echo hi\" } }]\n"
            .to_string(),
        step("done", &[]),
    ]);
    let run = streamed(&home, &["-p", "x"]).expect(0);
    let events = run.events();
    let kinds: Vec<&str> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[0], "session.opened");
    assert_eq!(*kinds.last().unwrap(), "result");
    for kind in [
        "entry.said",
        "delta.thinking",
        "delta.text",
        "delta.call",
        "entry.replied",
        "entry.started",
        "entry.finished",
    ] {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
    has_fields(
        &events[0],
        &["session", "model", "mode", "folder", "title", "version"],
    );
    has_fields(events.last().unwrap(), &RESULT);
    for entry in events
        .iter()
        .filter(|e| e["type"].as_str().unwrap().starts_with("entry."))
    {
        has_fields(entry, &["seq", "at_ms"]);
    }
    let text: String = events
        .iter()
        .filter(|e| e["type"] == "delta.text")
        .filter_map(|e| e["text"].as_str())
        .collect();
    assert_eq!(text, "I lookdone");
    let on = streamed(&home, &["-p", "y", "-c"]).expect(0).events();
    assert_eq!(on[0]["type"], "session.resumed");
    assert_eq!(on[0]["session"], events[0]["session"]);
}

#[test]
fn text_is_the_answer_and_all_else_is_on_stderr() {
    let home = calling(&[bash("echo hi")]);
    let run = home.run(["-p", "x", "--yolo"]).expect(0);
    assert_eq!(run.stdout, "done\n");
    assert!(run.stderr.contains("· bash echo hi"), "{}", run.stderr);
    assert!(run.stderr.contains("exit code 0"), "{}", run.stderr);
}

#[test]
fn nobody_paints_the_terminal() {
    let red = "\u{1b}[31mred\u{7}\u{1b}]0;title\u{7}";
    let home = scripted(&[
        step(
            red,
            &[
                bash(&format!("echo '{red}'")),
                (red, json!({})),
                ("read", json!({"path": red})),
                (
                    "plan",
                    json!({"steps": [{"text": red, "state": "current"}]}),
                ),
            ],
        ),
        step("done", &[]),
    ]);
    let run = home
        .run(["-p", red, "--yolo", "--max-turns", "1"])
        .expect(75);
    assert!(
        !run.stderr.contains(['\u{1b}', '\u{7}']),
        "{:?}",
        run.stderr
    );
    let next = home.run(["-p", "x", "--max-turns", "1"]);
    assert!(next.stderr.contains("unfinished here"), "{:?}", next.stderr);
    assert!(
        !next.stderr.contains(['\u{1b}', '\u{7}']),
        "{:?}",
        next.stderr
    );
    let id = crate::cli::history(&home)[1].0.clone();
    for args in [
        &["history"][..],
        &["history", "red"],
        &["show", &id],
        &["show", red],
    ] {
        let run = home.run(args);
        let all = run.stdout + &run.stderr;
        assert!(!all.contains(['\u{1b}', '\u{7}']), "{args:?}: {all:?}");
    }
    let raw = home.run(["-p", "-r", &id, "--output-format", "stream-json"]);
    assert!(!raw.stdout.contains('\u{1b}'), "JSON has them escaped");
}

#[test]
fn a_reader_that_goes_away_does_not_stop_the_work() {
    let steps = [
        step("a", &[bash("echo one")]),
        step("b", &[bash("sleep 0.2; touch finished")]),
        step("c", &[]),
    ];
    let home = scripted(&steps);
    for (format, also) in [("stream-json", ""), ("text", ""), ("stream-json", "2>&1")] {
        let line = format!(
            "\"$0\" -p x --yolo --output-format {format} {also} | head -1 >/dev/null; \
             while [ ! -e finished ]; do sleep 0.01; done"
        );
        quiet(&run(shell(&home, &line), LIMIT).expect(0));
        std::fs::remove_file(home.path("finished")).unwrap();
    }
    crate::cli::sessions_are_done(&home, 3);
}

#[test]
fn stored_files_are_not_accessible_to_others() {
    use std::os::unix::fs::PermissionsExt;
    let background = json!({"command": "echo hi", "background": true});
    let home = calling(&[("bash", background), bash("echo hi")]);
    quiet(&home.run(["-p", "x", "--yolo"]).expect(0));
    let mut folders = vec![
        home.rewake_home().join("log"),
        home.rewake_home().join("runs"),
    ];
    while let Some(folder) = folders.pop() {
        let mode = folder.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", folder.display());
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    let database = home.rewake_home().join("rewake.db");
    assert_eq!(database.metadata().unwrap().permissions().mode() & 0o077, 0);
}

/// Runs this with stdout on a device that is full.
#[cfg(target_os = "linux")]
fn into_full_device(home: &Home, args: &str) -> Run {
    run(shell(home, &format!("\"$0\" {args} >/dev/full")), LIMIT)
}

#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_printed_is_not_a_success() {
    let fits = json!({"type": "object"}).to_string();
    for args in [
        "-p x",
        "-p x --output-format json",
        "-p x --output-format stream-json",
        &format!("-p x --json-schema '{fits}'"),
    ] {
        let home = scripted(&[step("{\"n\": 1}", &[])]);
        let failed = into_full_device(&home, args);
        let failed = crate::cli::refused(failed, 1, &["cannot write to stdout", "rewake show "]);
        let (_, hint) = failed.stderr.split_once("rewake show ").unwrap();
        let id = hint.split_whitespace().next().unwrap();
        let shown = home.run(["show", id]).expect(0).stdout;
        assert!(shown.contains("{\"n\": 1}"), "{args}: {shown}");
        // The work itself is done.
        crate::cli::sessions_are_done(&home, 1);
    }
    // A run that fails for another reason keeps its exit code, and says this too.
    let home = scripted(&[step("", &[bash("true")])]);
    let stopped = into_full_device(&home, "-p x --yolo --max-turns 1 --output-format json");
    crate::cli::refused(
        stopped,
        75,
        &["cannot write to stdout", "--max-turns raises it"],
    );
}

#[cfg(target_os = "linux")]
#[test]
fn no_subcommand_succeeds_when_its_output_is_lost() {
    let write = ("write", json!({"path": "new", "content": "text\n"}));
    let home = calling(&[write, bash("echo one")]);
    home.run(["-p", "x", "--yolo"]).expect(0);
    let id = newest(&home);
    for args in [
        "--help",
        "--version",
        "approvals --json",
        "completion bash",
        "diff ID",
        "diff ID --stat",
        "doctor --scrub",
        "export ID",
        "export ID --json",
        "fork ID",
        "gc",
        "history",
        "history --help",
        "history --json",
        "history one",
        "man",
        "mcp list --json",
        "models",
        "models --json",
        "permissions --json",
        "restore new --at ID:4 -o -",
        "rewind ID 2 --files --preview --json",
        "show ID",
        "show ID --json",
        "stats",
        "stats --json",
    ] {
        let args = args.replace("ID", &id);
        let printed = run(shell(&home, &format!("\"$0\" {args}")), LIMIT).expect(0);
        assert!(!printed.stdout.is_empty(), "{args} prints nothing");
        let lost = into_full_device(&home, &args).expect(1);
        quiet(&lost);
        assert!(
            lost.stderr.contains("No space left on device"),
            "{args}: {}",
            lost.stderr
        );
        let unread = run(shell(&home, &format!("\"$0\" {args} | true")), LIMIT).expect(0);
        quiet(&unread);
        assert!(
            !unread.stderr.contains("error: "),
            "{args}: {}",
            unread.stderr
        );
    }
}
