//! Set-ups that test programs share: a home with a scripted model, and what a run says. Each file
//! below has one subject. What looks at a store with the program's own code is in `tests/scenes`.

pub mod access;
pub mod acp;
pub mod checks;
pub mod fleet;
pub mod hooks;
pub mod http_sessions;
pub mod import;
pub mod journal;
pub mod keys;
pub mod long;
pub mod mcp;
pub mod models;
pub mod pty;
pub mod serve;
pub mod sessions;
pub mod structured;
pub mod worktrees;

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Home, Live, Run};

pub const LIMIT: Duration = Duration::from_secs(180);

/// Waits for something that another process does. The test fails when it does not happen.
#[track_caller]
pub fn until(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "waited too long");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// One answer of the scripted model: words, and calls with their arguments.
pub fn step(text: &str, calls: &[(&str, Value)]) -> String {
    let calls: Vec<String> = calls
        .iter()
        .map(|(name, arguments)| {
            let arguments = match arguments {
                Value::String(raw) => raw.clone(),
                arguments => arguments.to_string(),
            };
            format!(
                "{{ name = {}, arguments = {} }}",
                json!(name),
                json!(arguments)
            )
        })
        .collect();
    format!(
        "[[step]]\ntext = {}\ncalls = [{}]\n",
        json!(text),
        calls.join(", ")
    )
}

pub fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({ "command": command }))
}

pub fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write", json!({ "path": path, "content": content }))
}

/// Calls, then the word "done".
pub fn calling(calls: &[(&str, Value)]) -> Home {
    scripted(&[step("", calls), step("done", &[])])
}

/// A home whose model plays these answers.
pub fn scripted(steps: &[String]) -> Home {
    let home = Home::new();
    play(&home, steps);
    home.write_config(SCRIPTED);
    home
}

pub const SCRIPTED: &str =
    "model = \"s/play\"\n[providers.s]\nprotocol = \"script\"\nscript = \"script.toml\"\n";

pub fn play(home: &Home, steps: &[String]) {
    std::fs::write(home.rewake_home().join("script.toml"), steps.concat()).unwrap();
}

/// A line of the shell, in the workspace. `$0` is the program.
pub fn shell(home: &Home, line: &str) -> Command {
    let program = home.rewake([""; 0]);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).arg(program.get_program());
    let env = program.get_envs().filter_map(|(k, v)| Some((k, v?)));
    shell.env_clear().envs(env).current_dir(home.workspace());
    shell
}

/// Refused with this code in one line that has these words, with at most one hint.
#[track_caller]
pub fn refused(run: Run, code: i32, words: &[&str]) -> Run {
    let run = run.expect(code);
    quiet(&run);
    let lines = |start: &str| run.stderr.lines().filter(|l| l.starts_with(start)).count();
    assert_eq!(lines("error: "), 1, "{}", run.stderr);
    assert!(lines("hint: ") <= 1, "{}", run.stderr);
    for word in words {
        assert!(
            run.stderr.contains(word),
            "{word:?} is not in\n{}",
            run.stderr
        );
    }
    run
}

/// Nothing of the program's inside shows.
#[track_caller]
pub fn quiet(run: &Run) {
    for noise in ["panicked", "RUST_BACKTRACE", "[tracing", "log directory"] {
        assert!(!run.stderr.contains(noise), "{}", run.stderr);
    }
}

/// A run of these arguments as a stream of JSON.
#[track_caller]
pub fn streamed(home: &Home, args: &[&str]) -> Run {
    let format = ["--output-format", "stream-json"];
    let run = home.run(args.iter().copied().chain(format));
    quiet(&run);
    run
}

/// The same as [`streamed`] of a run that is not over.
#[track_caller]
pub fn stream(home: &Home, args: &[&str]) -> Live {
    let format = ["--output-format", "stream-json"];
    Live::spawn(home.rewake(args.iter().copied().chain(format)))
}

/// A run that asks about a call, and waits for the answer.
#[track_caller]
pub fn asking(home: &Home, prompt: &str) -> Live {
    let live = stream(home, &["-p", prompt, "--on-approval", "wait"]);
    live.wait_for(LIMIT, |line| line.contains("entry.asked"));
    live
}

/// The outcome of each call of a run: how it ended, and what the model is told.
pub fn results(run: &Run) -> Vec<(String, String)> {
    let events = run.events();
    let finished = events.iter().filter(|e| e["type"] == "entry.finished");
    finished
        .map(|e| {
            let outcome = &e["outcome"];
            let text = [&outcome["output"]["text"], &outcome["reason"]];
            let text: Vec<&str> = text.iter().filter_map(|t| t.as_str()).collect();
            let kind = outcome["outcome"].as_str().unwrap_or_default();
            (kind.to_string(), text.join("\n"))
        })
        .collect()
}

/// Runs these calls with nothing asked, and gives their results as the model gets them.
#[track_caller]
pub fn tool_results(home: &Home, args: &[&str]) -> Vec<(String, String)> {
    let run = streamed(home, &[&["-p", "go"], args].concat()).expect(0);
    results(&run)
}

/// Ids of `rewake history`, newest first, with their lines.
#[track_caller]
pub fn history(home: &Home) -> Vec<(String, String)> {
    let run = home.run(["history"]).expect(0);
    let line = |line: &str| {
        let id = line.split_whitespace().next().unwrap_or_default();
        (id.to_string(), line.to_string())
    };
    run.stdout.lines().map(line).collect()
}

/// Returns the ID of the newest session as `rewake history` shows it.
#[track_caller]
pub fn short_id(home: &Home) -> String {
    history(home)[0].0.clone()
}

/// This number of sessions exists, and no work is pending in any.
#[track_caller]
pub fn sessions_are_done(home: &Home, count: usize) {
    until(|| {
        let lines = history(home);
        let done = lines.iter().filter(|(_, line)| line.contains("  done "));
        done.count() == count
    });
}
