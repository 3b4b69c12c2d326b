//! The cost of hooks: a start with many of them, and one before a command beyond its own time, with
//! and without the sandbox.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sample::Times;
use crate::starting::instants;
use crate::table::{Row, ms};
use support::{Answer, Home, Live, Protocol};

const STARTS: usize = 40;
const CALLS: usize = 100;

/// Hooks of the workspace that the user trusted.
const TRUSTED: usize = 50;

const LIMIT: Duration = Duration::from_secs(60);

pub fn rows() -> Vec<Row> {
    let (none, many) = (start_with(0), start_with(TRUSTED));
    let added = many.median().saturating_sub(none.median());
    vec![
        Row::new(
            format!("exec to the first request with {TRUSTED} trusted hooks"),
            ms(many.median()),
        )
        .beside(format!("without hooks {}", ms(none.median())))
        .target("+5 ms", added <= Duration::from_millis(5)),
        overhead(),
        in_the_sandbox(),
    ]
}

/// Starts to the first request, with this number of hooks, each with a separate script.
fn start_with(count: usize) -> Times {
    let (server, asked) = instants(|_| Answer::text("done"));
    let home = crate::home_with(&server, Protocol::Anthropic, "");
    if count > 0 {
        trusted_hooks(&home, count);
    }
    let mut times = Times::default();
    for round in 0..=STARTS {
        let since = Instant::now();
        let live = Live::spawn(home.rewake(["-p", "hello"]));
        let at = asked.recv_timeout(LIMIT).expect("a request");
        let run = live.wait(LIMIT);
        assert!(run.status.success(), "{}", run.stderr);
        // The first one makes the store.
        if round > 0 {
            times.push(at - since);
        }
    }
    times
}

fn trusted_hooks(home: &Home, count: usize) {
    fs::create_dir_all(home.path(".rewake")).expect("a folder");
    let hooks: Vec<Value> = (0..count)
        .map(|n| {
            fs::write(home.path(format!("guard{n}.sh")), "exit 0\n").expect("a script");
            json!({ "type": "command", "command": format!("sh guard{n}.sh") })
        })
        .collect();
    let file = json!({ "hooks": { "PreToolUse": [{ "matcher": "Bash", "hooks": hooks }] } });
    fs::write(home.path(".rewake/hooks.json"), file.to_string()).expect("the hooks");
    home.run(["trust", "--yes"]).expect(0);
}

/// The time from the record of a hook to that of its result, less the time of the hook itself.
fn overhead() -> Row {
    let mut times = Times::default();
    for (took, own) in guarded_calls(|home, guards| {
        fs::write(home.rewake_home().join("hooks.json"), guards).expect("the hooks");
    }) {
        times.push(took.saturating_sub(own));
    }
    let median = times.median();
    Row::new(
        "a guard before a command, above its own time, p50",
        ms(median),
    )
    .beside(format!("{CALLS} calls"))
    .target("6 ms", median <= Duration::from_millis(6))
}

/// The whole time of the same guard from the user's file and from the workspace, which runs in the
/// sandbox.
fn in_the_sandbox() -> Row {
    let (mut of_user, mut of_workspace) = (Times::default(), Times::default());
    for (took, _) in guarded_calls(|home, guards| {
        fs::write(home.rewake_home().join("hooks.json"), guards).expect("the hooks");
    }) {
        of_user.push(took);
    }
    for (took, _) in guarded_calls(|home, guards| {
        fs::create_dir_all(home.path(".rewake")).expect("a folder");
        fs::write(home.path(".rewake/hooks.json"), guards).expect("the hooks");
        home.run(["trust", "--yes"]).expect(0);
    }) {
        of_workspace.push(took);
    }
    let added = of_workspace
        .worst_of_hundred()
        .saturating_sub(of_user.worst_of_hundred());
    Row::new(
        "a guard of the workspace, in the sandbox, p99",
        ms(of_workspace.worst_of_hundred()),
    )
    .beside(format!(
        "of the user {}, added {}",
        ms(of_user.worst_of_hundred()),
        ms(added)
    ))
    .target("+20 ms", added <= Duration::from_millis(20))
}

/// The time from the record of a guard to that of its result, and that of the guard itself, for
/// each of [`CALLS`] commands. `place` writes the definitions.
fn guarded_calls(place: impl FnOnce(&Home, String)) -> Vec<(Duration, Duration)> {
    let count = AtomicUsize::new(0);
    let (server, _asked) = instants(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        n @ ..CALLS => Answer::call("bash", json!({ "command": format!(": {n}") })),
        _ => Answer::text("done"),
    });
    let home = crate::wide_home(&server, Protocol::Anthropic);
    let guard = json!({ "hooks": { "PreToolUse": [{ "hooks": [
        { "type": "command", "command": "true" }] }] } });
    place(&home, guard.to_string());
    let arguments = ["-p", "--yolo", "--output-format", "stream-json", "work"];
    let run = home.run(arguments).expect(0);
    let mut times = Vec::new();
    let mut since = 0;
    for event in run.events() {
        let at = event["at_ms"].as_u64().unwrap_or_default();
        match event["type"].as_str() {
            Some("entry.hooking") => since = at,
            Some("entry.hooked") => {
                let own = event["results"][0]["took_ms"].as_u64().unwrap_or_default();
                times.push((
                    Duration::from_millis(at.saturating_sub(since)),
                    Duration::from_millis(own),
                ));
            }
            _ => {}
        }
    }
    assert_eq!(times.len(), CALLS, "{}", run.stderr);
    times
}
