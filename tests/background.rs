//! Commands as the engine's world runs them, with the real binary as their keeper.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use rewake::command::{Runs, default_shell};
use rewake::config::{Config, Env};
use rewake::core::entry::{CallId, Fact, Guard, Outcome};
use rewake::core::state::Background;
use rewake::core::tool::ToolCall;
use rewake::model::Models;
use rewake::tools::{Place, Ran};
use rewake::world::machine::{Machine, Shell};
use rewake::world::{BackgroundEnd, World};

struct There {
    folder: tempfile::TempDir,
    runs: Runs,
    machine: Machine,
}

fn there() -> There {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::new(folder.path().join("runs"), env!("CARGO_BIN_EXE_rewake"));
    let place = Place {
        folder: folder.path().into(),
        home: None,
        inline_max_bytes: 10_000,
        hidden: Default::default(),
    };
    let shell = Shell {
        path: default_shell(),
        timeout_ms: 60_000,
        output_cap_bytes: 1_000_000,
        env_remove: vec![],
    };
    let models = Models::new(Config::default(), Env::capture(None).unwrap());
    let machine = Machine::new(place, shell, runs.clone(), models, "session".into());
    There {
        folder,
        runs,
        machine,
    }
}

fn call(name: &str, arguments: serde_json::Value) -> ToolCall {
    let id = CallId { reply: 2, index: 0 };
    ToolCall::new(id, name, &arguments.to_string())
}

fn bash(command: &str, background: bool) -> ToolCall {
    call(
        "bash",
        serde_json::json!({ "command": command, "background": background }),
    )
}

impl There {
    async fn prepare(&self, call: &ToolCall) -> Guard {
        self.machine.prepare(call, &|_| None).await.unwrap()
    }

    /// Starts a background command.
    async fn begin(&self, command: &str) -> (Background, Ran) {
        let call = bash(command, true);
        let guard = self.prepare(&call).await;
        let ran = self.machine.act(&call, &guard).await;
        let background = Background {
            run: run_of(&guard).to_string(),
            command: command.to_string(),
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

fn run_of(guard: &Guard) -> &str {
    match guard {
        Guard::Supervised { run, .. } => run,
        guard => panic!("{guard:?}"),
    }
}

fn text(ran: &Ran) -> String {
    match &ran.outcome {
        Outcome::Done { output } | Outcome::Error { output } => output.text.clone(),
        Outcome::Interrupted { why, .. } => why.clone(),
        Outcome::Denied { reason } => reason.clone(),
    }
}

#[tokio::test]
async fn what_is_said_to_run_in_the_background_runs() {
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
    let ran = there.machine.act(&call, &guard).await;
    assert!(matches!(ran.outcome, Outcome::Error { .. }), "{ran:?}");
    assert_eq!(ran.fact, None);
    assert!(text(&ran).contains("did not begin"), "{}", text(&ran));
}
