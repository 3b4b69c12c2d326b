//! What becomes of a call that a dead process had begun, by its class and by how far it came.

use std::process::Command;

use rewake::command::{RunState, Runs};
use rewake::core::entry::{Fact, Guard, Outcome};
use rewake::core::state::Background;
use rewake::core::tool::ToolCall;
use rewake::tools::ToolResult;
use rewake::world::{Settled, World};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::bench::{Bench, bash, call, done, interrupted, meanwhile, run_of};
use crate::scenes::until_async;

impl Bench {
    /// Settles the call in another process.
    async fn settle(&self, call: &ToolCall, guard: &Guard) -> Settled {
        self.machine().settle(call, guard, None, false).await
    }

    async fn settle_stopped(&self, call: &ToolCall, guard: &Guard) -> Settled {
        self.machine().settle(call, guard, None, true).await
    }

    /// The keeper of a process that is dead comes late.
    async fn comes_late(&self, call: &ToolCall, guard: &Guard) {
        let ran = self.machine().act(call, guard).await.unwrap();
        assert!(matches!(ran.outcome, Outcome::Error { .. }), "{ran:?}");
    }

    fn kill_keeper(&self, guard: &Guard) {
        let RunState::Running {
            keeper: Some(keeper),
            ..
        } = self.info(guard).state
        else {
            panic!("no keeper");
        };
        kill_process(Pid::from_raw(keeper as i32).unwrap(), Signal::KILL).unwrap();
    }
}

#[track_caller]
fn not_begun(settled: Settled) -> Guard {
    match settled {
        Settled::NotBegun(guard) => guard,
        other => panic!("it is not to be run: {other:?}"),
    }
}

#[track_caller]
fn ended(settled: Settled) -> ToolResult {
    match settled {
        Settled::Ended(ran) => ran,
        other => panic!("it has no end: {other:?}"),
    }
}

/// Ends by itself when the folder is gone: a test that fails leaves nothing running.
const UNTIL_GO: &str = "echo >> count; echo so far; \
    until [ -e go ] || ! [ -e \"$PWD\" ]; do sleep 0.01; done; echo real; exit 7";

#[tokio::test]
async fn an_unstarted_command_is_run_once_in_another_run() {
    let bench = Bench::new();
    let call = bash("echo >> count; echo real");
    let guard = bench.prepared(&call).await;
    let first = not_begun(bench.settle(&call, &guard).await);
    // That process died before it could record what it found.
    let again = not_begun(bench.settle(&call, &guard).await);
    for other in [&first, &guard] {
        assert_ne!(run_of(&again), run_of(other));
    }
    bench.comes_late(&call, &guard).await;
    assert_eq!(bench.count(), 0);
    let ran = bench.machine().act(&call, &again).await.unwrap();
    assert_eq!((done(&ran), bench.count()), ("real\n".into(), 1));
}

#[tokio::test]
async fn a_command_that_runs_is_waited_for_and_gives_its_real_result() {
    let bench = Bench::new();
    let call = bash(UNTIL_GO);
    let guard = bench.prepared(&call).await;
    bench.dies_when(&call, &guard, || bench.count() == 1).await;
    let settled = meanwhile(bench.settle(&call, &guard), || bench.put("go", "")).await;
    check_real_result(&bench, &ended(settled));
}

#[tokio::test]
async fn a_command_that_ended_while_nobody_was_there_gives_its_real_result() {
    let bench = Bench::new();
    let call = bash(UNTIL_GO);
    let guard = bench.prepared(&call).await;
    bench.dies_when(&call, &guard, || bench.count() == 1).await;
    bench.put("go", "");
    until_async(|| bench.is_over(&guard)).await;
    // As often as it is asked: the process may die again before it is recorded.
    for _ in 0..2 {
        check_real_result(&bench, &ended(bench.settle(&call, &guard).await));
    }
    bench.machine().discard(&guard).await;
    assert!(!bench.runs().exists(run_of(&guard)));
}

fn check_real_result(bench: &Bench, ran: &ToolResult) {
    let text = done(ran);
    assert!(
        text.starts_with("so far\nreal\n[exit code 7]\n[rewake was down; the command kept running"),
        "{text}"
    );
    let exit = matches!(
        ran.fact,
        Some(Fact::Ran {
            exit_code: Some(7),
            ..
        })
    );
    assert!(exit, "{:?}", ran.fact);
    assert_eq!(bench.count(), 1);
}

#[tokio::test]
async fn a_command_whose_keeper_was_killed_is_told_and_not_run_again() {
    let bench = Bench::new();
    let call = bash(UNTIL_GO);
    let guard = bench.prepared(&call).await;
    let printed = || !bench.get("count").is_empty() && output(&bench, &guard) == b"so far\n";
    bench.dies_when(&call, &guard, printed).await;
    bench.kill_keeper(&guard);
    until_async(|| bench.is_over(&guard)).await;
    let text = interrupted(&ended(bench.settle(&call, &guard).await));
    assert!(text.starts_with("so far\n"), "{text}");
    assert!(text.contains("Check before you repeat it"), "{text}");
    assert_eq!(bench.count(), 1);
    bench.put("go", "");
}

fn output(bench: &Bench, guard: &Guard) -> Vec<u8> {
    bench.runs().tail(run_of(guard), 100).unwrap()
}

#[tokio::test]
async fn after_another_boot_a_command_is_told_and_not_run() {
    let bench = Bench::new();
    let call = bash("echo >> count");
    let mut guard = bench.prepared(&call).await;
    if let Guard::Supervised { boot, .. } = &mut guard {
        *boot = "another".into();
    }
    for _ in 0..2 {
        let text = interrupted(&ended(bench.settle(&call, &guard).await));
        assert!(text.contains("Check before you repeat it"), "{text}");
    }
    assert_eq!(bench.count(), 0);
    // Nor when nothing of it is left.
    bench.machine().discard(&guard).await;
    interrupted(&ended(bench.settle(&call, &guard).await));
}

#[tokio::test]
async fn a_stop_ends_a_command_that_runs_and_keeps_what_it_printed() {
    let bench = Bench::new();
    let call = bash(UNTIL_GO);
    let guard = bench.prepared(&call).await;
    bench
        .dies_when(&call, &guard, || output(&bench, &guard) == b"so far\n")
        .await;
    let text = interrupted(&ended(bench.settle_stopped(&call, &guard).await));
    assert!(text.starts_with("so far\n"), "{text}");
    assert!(bench.is_over(&guard));
    assert_eq!(bench.count(), 1);
}

#[tokio::test]
async fn a_stop_before_a_command_began_is_for_ever() {
    let bench = Bench::new();
    let call = bash("echo >> count");
    let guard = bench.prepared(&call).await;
    assert_eq!(
        not_begun(bench.settle_stopped(&call, &guard).await),
        guard,
        "no run is made that will not be used"
    );
    bench.comes_late(&call, &guard).await;
    assert_eq!(bench.count(), 0);
}

#[tokio::test]
async fn a_running_background_command_settles_now_and_ends_later() {
    let bench = Bench::new();
    let call = call("bash", json!({"command": UNTIL_GO, "background": true}));
    let prepared = bench.prepared(&call).await;
    let guard = not_begun(bench.settle(&call, &prepared).await);
    assert!(matches!(
        guard,
        Guard::Supervised {
            background: true,
            ..
        }
    ));
    bench.comes_in_background(&call, &guard).await;
    for over in [false, true] {
        let ran = ended(bench.settle(&call, &guard).await);
        let (id, background) = known(&ran);
        assert_eq!(background.run, run_of(&guard));
        let end = bench.machine().background_end(&id, &background);
        assert_eq!(end.is_some(), over);
        if let Some(end) = end {
            assert_eq!(end.exit_code, Some(7));
            assert!(end.text.contains("real"), "{}", end.text);
        }
        bench.put("go", "");
        until_async(|| bench.is_over(&guard)).await;
    }
    assert_eq!(bench.count(), 1);
}

/// Looking for the end of a background command must not take the claim from its keeper.
#[tokio::test]
async fn a_background_command_whose_keeper_is_slow_is_run() {
    let bench = Bench::new();
    let slow = tempfile::tempdir().unwrap();
    let exe = slow.path().join("rewake");
    // Written by another process: while this one forks, it may not have it open for writing.
    let script = r#"printf '#!/bin/sh\nsleep 0.1\nexec "%s" "$@"\n' "$1" >"$0" && chmod 700 "$0""#;
    let written = Command::new("sh")
        .args(["-c", script])
        .args([exe.as_os_str(), env!("CARGO_BIN_EXE_rewake").as_ref()])
        .status();
    assert!(written.unwrap().success());
    let machine = bench.machine_with(Runs::new(bench.folder.path().join("runs"), exe));

    let call = call("bash", json!({"command": UNTIL_GO, "background": true}));
    let guard = bench.prepared(&call).await;
    let (id, background) = known(&machine.act(&call, &guard).await.unwrap());
    assert_eq!(machine.background_end(&id, &background), None);
    until_async(|| bench.count() == 1).await;
    bench.put("go", "");
    until_async(|| bench.is_over(&guard)).await;
}

impl Bench {
    async fn comes_in_background(&self, call: &ToolCall, guard: &Guard) {
        done(&self.machine().act(call, guard).await.unwrap());
        until_async(|| self.count() == 1).await;
    }
}

fn known(ran: &ToolResult) -> (String, Background) {
    let Some(Fact::Background {
        id,
        run,
        command,
        child,
    }) = ran.fact.clone()
    else {
        panic!("not in the background: {ran:?}");
    };
    (
        id,
        Background {
            run,
            command,
            child,
            searched: 0,
        },
    )
}

/// A new file, one that is replaced, one that is edited: the call, and what was there.
fn checked() -> [(ToolCall, Option<&'static str>); 3] {
    let write = || call("write", json!({"path": "f", "content": "new"}));
    let edits = json!([{"old": "old", "new": "new"}]);
    [
        (write(), None),
        (write(), Some("old")),
        (
            call("edit", json!({"path": "f", "edits": edits})),
            Some("old"),
        ),
    ]
}

/// The call is recorded as begun, and the process is dead.
async fn begun(call: &ToolCall, before: Option<&str>) -> (Bench, Guard) {
    let bench = Bench::new();
    if let Some(before) = before {
        bench.put("f", before);
    }
    let guard = bench.prepared(call).await;
    assert_eq!(bench.get("f"), before.unwrap_or_default());
    (bench, guard)
}

#[tokio::test]
async fn a_file_that_was_not_written_is_written() {
    for (call, before) in checked() {
        let (bench, guard) = begun(&call, before).await;
        assert_eq!(not_begun(bench.settle(&call, &guard).await), guard);
        done(&bench.machine().act(&call, &guard).await.unwrap());
        assert_eq!(bench.get("f"), "new");
    }
}

#[tokio::test]
async fn a_file_that_was_written_is_done() {
    for (call, before) in checked() {
        let (bench, guard) = begun(&call, before).await;
        let wrote = bench.machine().act(&call, &guard).await.unwrap().fact;
        for _ in 0..2 {
            let ran = ended(bench.settle(&call, &guard).await);
            assert!(done(&ran).contains("was written"), "{ran:?}");
            assert_eq!(ran.fact, wrote, "the model knows the file as before");
        }
        assert_eq!(bench.get("f"), "new");
    }
}

#[tokio::test]
async fn a_file_that_somebody_else_wrote_is_told_and_left_alone() {
    for (call, before) in checked() {
        let (bench, guard) = begun(&call, before).await;
        bench.put("f", "theirs: old");
        let ran = ended(bench.settle(&call, &guard).await);
        let text = interrupted(&ran);
        assert!(text.contains("look before you repeat it"), "{text}");
        assert_eq!(ran.fact, None);
        assert_eq!(bench.get("f"), "theirs: old");
    }
}

#[tokio::test]
async fn a_file_changed_after_the_check_is_left_alone() {
    for (call, before) in checked() {
        let (bench, guard) = begun(&call, before).await;
        not_begun(bench.settle(&call, &guard).await);
        bench.put("f", "theirs: old");
        let ran = bench.machine().act(&call, &guard).await.unwrap();
        assert!(matches!(ran.outcome, Outcome::Error { .. }), "{ran:?}");
        assert_eq!(bench.get("f"), "theirs: old");
    }
}

#[tokio::test]
async fn an_unknowable_effect_is_reported_as_such() {
    let bench = Bench::new();
    let foreign = call("mcp__far__poke", json!({}));
    for call in [foreign, bash("echo >> count")] {
        let text = interrupted(&ended(bench.settle(&call, &Guard::Opaque).await));
        assert!(text.contains("may or may not have happened"), "{text}");
    }
    assert_eq!(bench.count(), 0);
}
