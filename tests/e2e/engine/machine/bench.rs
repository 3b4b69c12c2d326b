//! A folder to work in, and processes that come and go in it.

use crate::scenes::until_async;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use rewake::command::{RunInfo, RunState, Runs};
use rewake::config::{Config, Env};
use rewake::core::access::Access;
use rewake::core::entry::{CallId, Guard, Outcome};
use rewake::core::seen::SeenFile;
use rewake::core::state::State;
use rewake::core::tool::ToolCall;
use rewake::model::Models;
use rewake::tools::{self, ToolContext, ToolResult};
use rewake::world::World;
use rewake::world::machine::{Machine, Shell};
use serde_json::{Value, json};
use support::default_shell;

const SESSION: &str = "session";

pub struct Bench {
    pub folder: tempfile::TempDir,
    /// The file with the lease of the session.
    pub lease_file: Option<PathBuf>,
}

impl Bench {
    pub fn new() -> Bench {
        // In memory where there is such a place: what dies here is a process, not a disk.
        let shm = Path::new("/dev/shm");
        let folder = match shm.is_dir() {
            true => tempfile::tempdir_in(shm).unwrap(),
            false => tempfile::tempdir().unwrap(),
        };
        std::fs::create_dir(folder.path().join("work")).unwrap();
        Bench {
            folder,
            lease_file: None,
        }
    }

    pub fn runs(&self) -> Runs {
        let root = self.folder.path().join("runs");
        Runs::new(root, env!("CARGO_BIN_EXE_rewake"))
    }

    /// The world as another process sees it.
    pub fn machine(&self) -> Machine {
        self.machine_with(self.runs())
    }

    pub fn machine_with(&self, runs: Runs) -> Machine {
        let folder = self.folder.path().join("work").canonicalize().unwrap();
        let shell = Shell {
            path: default_shell(),
            timeout_ms: 60_000,
            output_cap_bytes: 100_000,
            env_remove: vec![],
            sandbox: None,
            lease_file: self.lease_file.clone(),
            trace: None,
        };
        let env = Env::new(std::iter::empty::<(&str, &str)>(), &folder);
        let models = Models::new(Config::default(), env);
        let ctx = ToolContext {
            root: folder.clone(),
            folder,
            home: None,
            inline_max_bytes: 16_000,
            hidden: Default::default(),
            judged: None,
            limits: Default::default(),
            catalogue: Default::default(),
        };
        let data_dir = self.folder.path().join("data");
        Machine::new(ctx, shell, runs, models, SESSION.into(), data_dir)
    }

    pub fn put(&self, name: &str, content: &str) {
        std::fs::write(self.folder.path().join("work").join(name), content).unwrap();
    }

    pub fn get(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join("work").join(name)).unwrap_or_default()
    }

    /// How often commands said `echo >> count`.
    pub fn count(&self) -> usize {
        self.get("count").len()
    }

    pub fn info(&self, guard: &Guard) -> RunInfo {
        let run = run_of(guard);
        let mut all = self.runs().list();
        all.retain(|info| info.run == run);
        all.pop().expect("the run is listed")
    }

    pub fn is_over(&self, guard: &Guard) -> bool {
        matches!(self.info(guard).state, RunState::Ended(_))
    }

    /// Makes all ready for the call, in a process that dies then. The model knows the file of
    /// a checked call as it is.
    pub async fn prepared(&self, call: &ToolCall) -> Guard {
        let mut state = State::new(tools::describe);
        let folder = self.folder.path().join("work").canonicalize().unwrap();
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if let Ok(bytes) = std::fs::read(&path) {
                let hash = blake3::hash(&bytes).to_hex().to_string();
                let path = path.to_string_lossy().into_owned();
                state.seen.insert(path, SeenFile::whole(hash));
            }
        }
        self.machine()
            .prepare(call, Some(Access::Full), None, &state)
            .await
            .unwrap()
    }

    /// Begins the call in a process that dies as soon as something is so.
    pub async fn dies_when(&self, call: &ToolCall, guard: &Guard, so: impl Fn() -> bool) {
        let machine = self.machine();
        let mut act = pin!(machine.act(call, guard));
        tokio::select! {
            biased;
            () = until_async(so) => {}
            ran = &mut act => panic!("it ended before: {ran:?}"),
        }
    }
}

/// Both at once.
pub async fn meanwhile<T>(first: impl Future<Output = T>, other: impl FnOnce()) -> T {
    let other = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        other();
    };
    futures_util::future::join(first, other).await.0
}

pub fn run_of(guard: &Guard) -> &str {
    match guard {
        Guard::Supervised { run, .. } => run,
        Guard::Checked { .. }
        | Guard::Child { .. }
        | Guard::Served { .. }
        | Guard::Asks
        | Guard::Opaque => panic!("not a command: {guard:?}"),
    }
}

pub fn call(name: &str, arguments: Value) -> ToolCall {
    let id = CallId { reply: 2, index: 0 };
    tools::call(id, name, &arguments.to_string())
}

pub fn bash(command: &str) -> ToolCall {
    call("bash", json!({"command": command}))
}

#[track_caller]
pub fn done(ran: &ToolResult) -> String {
    match &ran.outcome {
        Outcome::Done { output } => output.text.clone(),
        other => panic!("not done: {other:?}"),
    }
}

#[track_caller]
pub fn interrupted(ran: &ToolResult) -> String {
    match &ran.outcome {
        Outcome::Interrupted { .. } => ran.outcome.to_model_text().0,
        other => panic!("not interrupted: {other:?}"),
    }
}
