//! Commands as the engine's world runs them, with the real binary as their keeper.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::scenes::until_async;
use std::collections::BTreeMap;
use std::time::Duration;

use rewake::command::{RunState, Runs};
use rewake::config::{Config, Env};
use rewake::core::access::Access;
use rewake::core::entry::{CallId, Entry, Fact, Guard, Mode, Outcome, PromptPrefix, Via};
use rewake::core::state::{Background, State};
use rewake::core::tool::ToolCall;
use rewake::model::Models;
use rewake::store::{Message, NewSession, Store};
use rewake::tools::{self, ToolContext, ToolResult};
use rewake::world::machine::{Machine, Shell};
use rewake::world::{BackgroundEnd, Settled, World};
use serde_json::json;
use support::default_shell;

struct There {
    folder: tempfile::TempDir,
    runs: Runs,
    machine: Machine,
}

fn there() -> There {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::new(folder.path().join("runs"), env!("CARGO_BIN_EXE_rewake"));
    let ctx = ToolContext {
        folder: folder.path().into(),
        root: folder.path().into(),
        home: None,
        inline_max_bytes: 10_000,
        hidden: Default::default(),
        judged: None,
        limits: Default::default(),
        catalogue: Default::default(),
    };
    let shell = Shell {
        path: default_shell(),
        timeout_ms: 60_000,
        output_cap_bytes: 1_000_000,
        env_remove: vec![],
        sandbox: None,
        lease_file: None,
        trace: None,
    };
    let models = Models::new(Config::default(), Env::capture(None).unwrap());
    let machine = Machine::new(
        ctx,
        shell,
        runs.clone(),
        models,
        "session".into(),
        folder.path().join("data"),
    );
    There {
        folder,
        runs,
        machine,
    }
}

fn call(name: &str, arguments: serde_json::Value) -> ToolCall {
    let id = CallId { reply: 2, index: 0 };
    tools::call(id, name, &arguments.to_string())
}

fn bash(command: &str, background: bool) -> ToolCall {
    call(
        "bash",
        serde_json::json!({ "command": command, "background": background }),
    )
}

impl There {
    async fn prepare(&self, call: &ToolCall) -> Guard {
        self.machine
            .prepare(call, Some(Access::Full), None, &State::new(tools::describe))
            .await
            .unwrap()
    }

    /// Starts a background command.
    async fn begin(&self, command: &str) -> (Background, ToolResult) {
        let call = bash(command, true);
        let guard = self.prepare(&call).await;
        let ran = self.machine.act(&call, &guard).await.unwrap();
        let background = Background {
            run: run_of(&guard).to_string(),
            command: command.to_string(),
            child: None,
            searched: 0,
        };
        (background, ran)
    }

    /// Looks until the command is over, as the engine does between its steps.
    async fn end(&self, background: &Background) -> BackgroundEnd {
        loop {
            if let Some(end) = self.machine.background_end("bg_2_0", background) {
                return end;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

fn keeper_of(there: &There, run: &str) -> Option<u32> {
    let info = there.runs.list().into_iter().find(|r| r.run == run)?;
    match info.state {
        RunState::Running { keeper, group } => keeper.filter(|_| group.is_some()),
        RunState::NotBegun | RunState::Ended(_) => None,
    }
}

fn run_of(guard: &Guard) -> &str {
    match guard {
        Guard::Supervised { run, .. } => run,
        guard => panic!("{guard:?}"),
    }
}

fn text(ran: &ToolResult) -> String {
    match &ran.outcome {
        Outcome::Done { output } | Outcome::Error { output } => output.text.clone(),
        Outcome::Interrupted { why, .. } => why.clone(),
        Outcome::Denied { reason } => reason.clone(),
    }
}

#[tokio::test]
async fn a_command_reported_as_in_background_actually_runs() {
    for _ in 0..10 {
        let there = there();
        let (background, ran) = there.begin("echo >> count; exit 4").await;
        assert!(matches!(ran.fact, Some(Fact::Background { .. })), "{ran:?}");
        let end = there.end(&background).await;
        assert_eq!(end.exit_code, Some(4), "{}", end.text);
        let count = std::fs::read(there.folder.path().join("count")).unwrap();
        assert_eq!(count, b"\n");
    }
}

#[tokio::test]
async fn a_background_command_that_cannot_begin_is_an_error() {
    let there = there();
    let call = bash("echo >> count", true);
    let guard = there.prepare(&call).await;
    let run = there.folder.path().join("runs").join(run_of(&guard));
    std::fs::remove_file(run.join("output")).unwrap();
    let ran = there.machine.act(&call, &guard).await.unwrap();
    assert!(matches!(ran.outcome, Outcome::Error { .. }), "{ran:?}");
    assert_eq!(ran.fact, None);
    assert!(text(&ran).contains("did not begin"), "{}", text(&ran));
}

#[tokio::test]
async fn full_output_of_a_background_command_is_kept_at_its_end() {
    let there = there();
    let (background, _) = there.begin("seq 1 5000").await;
    let end = there.end(&background).await;
    let whole: String = (1..=5000).map(|n| format!("{n}\n")).collect();
    assert_eq!(end.blobs, vec![whole.clone().into_bytes()]);
    let hash = blake3::hash(whole.as_bytes()).to_hex();
    assert!(end.text.contains(&format!("blob:{hash}")), "{}", end.text);
    assert!(end.text.len() < 3_000);
    assert!(end.text.ends_with("\n5000\n```"));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn bash_stop_ends_a_process_whose_keeper_was_killed() {
    use rustix::process::{Pid, Signal, kill_process, test_kill_process_group};
    let there = there();
    let (background, _) = there.begin("exec sleep 30").await;
    until_async(|| keeper_of(&there, &background.run).is_some()).await;
    let keeper = keeper_of(&there, &background.run).unwrap();
    kill_process(Pid::from_raw(keeper as i32).unwrap(), Signal::KILL).unwrap();
    until_async(|| keeper_of(&there, &background.run).is_none()).await;

    let end = there.end(&background).await;
    let (_, group) = end.text.split_once("ps -o pid,args -g ").unwrap();
    let group: i32 = group.split('`').next().unwrap().parse().unwrap();
    let stop = call("bash_stop", serde_json::json!({ "id": "bg_2_0" }));
    let said = text(&there.machine.run_idempotent(&stop, None, 10_000).await);
    assert!(said.contains("was ended now"), "{said}");
    until_async(|| test_kill_process_group(Pid::from_raw(group).unwrap()).is_err()).await;
    let said = text(&there.machine.run_idempotent(&stop, None, 10_000).await);
    assert!(said.contains("it had ended: the supervisor"), "{said}");
}

/// The command is under way when the status of its run becomes unreadable.
#[tokio::test]
async fn an_unreadable_run_status_yields_an_interrupted_outcome() {
    let there = there();
    let command = "until [ -e go ]; do sleep 0.01; done; echo >> count";
    let call = bash(command, false);
    let guard = there.prepare(&call).await;
    let run = run_of(&guard);
    let status = there.folder.path().join("runs").join(run).join("status");
    let breaks = async {
        until_async(|| keeper_of(&there, run).is_some()).await;
        std::fs::remove_file(&status).unwrap();
        std::fs::create_dir(&status).unwrap();
        std::fs::write(there.folder.path().join("go"), "").unwrap();
    };
    let (ran, ()) = tokio::join!(there.machine.act(&call, &guard), breaks);
    let ran = ran.unwrap();
    assert!(
        matches!(ran.outcome, Outcome::Interrupted { .. }),
        "{ran:?}"
    );
    assert!(text(&ran).contains("may or may not have happened"));
    assert!(there.folder.path().join("count").exists());
}

#[tokio::test]
async fn only_an_unstopped_command_is_reported_as_having_gone_on() {
    let there = there();
    let call = bash("echo real", false);
    let guard = there.prepare(&call).await;
    there.machine.act(&call, &guard).await;
    for (stop, went_on) in [(true, false), (false, true)] {
        let Settled::Ended(ran) = there.machine.settle(&call, &guard, None, stop).await else {
            panic!("it has not ended");
        };
        let said = text(&ran);
        assert!(said.starts_with("real\n"), "{said}");
        assert_eq!(said.contains("the command kept running"), went_on, "{said}");
    }
}

#[tokio::test]
async fn a_run_stopped_before_its_start_is_not_started_after_a_crash() {
    let there = there();
    let call = bash("echo >> count", false);
    let guard = there.prepare(&call).await;
    there.runs.stop(run_of(&guard)).unwrap();
    let Settled::Ended(ran) = there.machine.settle(&call, &guard, None, false).await else {
        panic!("it would be begun");
    };
    assert!(text(&ran).contains("stopped before it began"), "{ran:?}");
}

impl There {
    async fn wait_for(
        &self,
        background: &BTreeMap<String, Background>,
        arguments: serde_json::Value,
    ) -> ToolResult {
        let call = call("bash_wait", arguments);
        self.machine.wait_for_background(&call, background).await
    }
}

/// A command that prints this and waits for the file `go`.
fn until_go(prints: &str) -> String {
    format!("{prints}; until [ -e go ]; do sleep 0.02; done; echo over")
}

#[tokio::test]
async fn bash_wait_returns_when_a_command_ends() {
    let there = there();
    let (first, _) = there.begin(&until_go("echo started")).await;
    let (second, _) = there.begin("exec sleep 600").await;
    let background: BTreeMap<_, _> = [("bg_1_0", first), ("bg_2_0", second)]
        .map(|(id, background)| (id.to_string(), background))
        .into();
    let ends = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        std::fs::write(there.folder.path().join("go"), "").unwrap();
    };
    let (ran, ()) = tokio::join!(there.wait_for(&background, json!({})), ends);
    assert_eq!(text(&ran), "bg_1_0 ended; still at work: bg_2_0");
    // The other runs on, and the time is over.
    let arguments = json!({"ids": ["bg_2_0"], "timeout_ms": 1});
    let ran = there.wait_for(&background, arguments).await;
    assert_eq!(
        text(&ran),
        "timeout: nothing ended in 0.001 s; still at work: bg_2_0"
    );
    there.runs.stop(&background["bg_2_0"].run).unwrap();
}

#[tokio::test]
async fn bash_wait_finds_a_line_only_once() {
    let there = there();
    let prints = "printf 'one\\n\\033[32mready\\033[39m in 3 ms\\ntwo\\n'";
    let (started, _) = there.begin(&until_go(prints)).await;
    let mut background: BTreeMap<_, _> = [("bg_2_0".to_string(), started)].into();
    let until = json!({"until": "ready in \\d+ ms$"});
    let ran = there.wait_for(&background, until.clone()).await;
    let want = "bg_2_0 printed: ready in 3 ms; still at work: bg_2_0";
    assert_eq!(text(&ran), want);
    let Some(Fact::Waited { searched }) = ran.fact else {
        panic!("{ran:?}");
    };
    // The next wait looks at new output.
    background.get_mut("bg_2_0").unwrap().searched = searched["bg_2_0"];
    std::fs::write(there.folder.path().join("go"), "").unwrap();
    let ran = there.wait_for(&background, until).await;
    assert_eq!(text(&ran), "bg_2_0 ended");
}

#[tokio::test]
async fn a_message_of_the_user_ends_a_wait() {
    let there = there();
    let (started, _) = there.begin("exec sleep 600").await;
    let background: BTreeMap<_, _> = [("bg_2_0".to_string(), started)].into();
    let data = there.folder.path().join("data");
    let mut store = Store::open(&data).unwrap();
    let new = NewSession {
        id: "session".to_string(),
        workspace: "/w".to_string(),
        folder: "/w".to_string(),
    };
    let opened = Entry::Opened {
        folder: "/w".to_string(),
        version: "0".to_string(),
        model: "m".to_string(),
        mode: Mode::Default,
        layers: PromptPrefix::default(),
        imported: None,
    };
    store.create(&new, 0, opened).unwrap();
    let sends = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let message = Message {
            text: "and?".into(),
            images: Vec::new(),
            via: Via::Prompt,
            command: None,
            origin: None,
        };
        store
            .inbox_mut()
            .queue("session", &message, &[], 0)
            .unwrap();
    };
    let (ran, ()) = tokio::join!(there.wait_for(&background, json!({})), sends);
    assert_eq!(text(&ran), "the user sent a message; still at work: bg_2_0");
    there.runs.stop(&background["bg_2_0"].run).unwrap();
}

#[tokio::test]
async fn a_wait_for_an_unknown_id_or_by_an_invalid_pattern_lists_the_ids() {
    let there = there();
    let of = |run: &str| Background {
        run: run.to_string(),
        command: "make".to_string(),
        child: None,
        searched: 0,
    };
    let background: BTreeMap<_, _> = [
        ("bg_2_0".to_string(), of("a")),
        ("bg_4_1".to_string(), of("b")),
    ]
    .into();
    for (arguments, why) in [
        (json!({"ids": ["bg_9_9"]}), "no bg_9_9 is at work"),
        (json!({"ids": ["bg_2_0", "x"]}), "no x is at work"),
        (json!({"until": "("}), "`until` is not a regular expression"),
    ] {
        let ran = there.wait_for(&background, arguments).await;
        assert!(matches!(ran.outcome, Outcome::Error { .. }), "{ran:?}");
        let said = text(&ran);
        assert!(said.contains(why), "{said}");
        assert!(said.ends_with("at work: bg_2_0, bg_4_1"), "{said}");
    }
    let ran = there.wait_for(&BTreeMap::new(), json!({})).await;
    assert!(text(&ran).contains("nothing runs in the background"));
}
