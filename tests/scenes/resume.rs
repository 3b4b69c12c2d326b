//! One session with a scripted model, and looks at what it left.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rewake::command::{RunInfo, RunState, Runs, Spec};
use rewake::core::access::Access;
use rewake::core::entry::*;
use rewake::store::{Batch, QueuedSignal, Store};
use rustix::process::{Pid, Signal, kill_process, test_kill_process_group};
use serde_json::{Value, json};

use super::until;
use support::{Answer, Home, Live, Protocol, Run, Says, Seen, Server, default_shell};

pub const LIMIT: Duration = Duration::from_secs(90);
pub const FINAL_WORDS: &str = "that was all";

pub struct Scene {
    pub home: Home,
    pub server: Server,
    heard: Arc<Mutex<Vec<Seen>>>,
}

/// Says that it has begun, waits for the file `go`, says that it ends, and fails with 7.
pub fn waits_for_go() -> String {
    format!("{WAITS}; exit 7")
}

/// Not for ever: after a failed test nobody makes the file.
const WAITS: &str = "echo begun >> effects; echo first words; n=0; \
                     until [ -e go ] || [ $n -gt 3000 ]; do n=$((n+1)); sleep 0.02; done; \
                     echo last words";

/// The call of a command, then the end.
pub fn bash(command: &str) -> Answer {
    Answer::call("bash", json!({"command": command}))
}

pub fn bash_in_background(command: &str) -> Answer {
    Answer::call("bash", json!({"command": command, "background": true}))
}

impl Scene {
    pub fn new(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Scene {
        let heard: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let hears = heard.clone();
        let server = Server::start(move |seen| {
            hears.lock().unwrap().push(seen.clone());
            script(seen)
        });
        let home = Home::with(&server, Protocol::Chat);
        Scene {
            home,
            server,
            heard,
        }
    }

    /// A model that runs this command, and then has nothing more to do.
    pub fn with_command(command: &str) -> Scene {
        let command = command.to_string();
        Scene::new(move |seen| match seen.turn {
            0 => bash(&command),
            _ => Says::text(FINAL_WORDS).into(),
        })
    }

    pub fn start(&self) -> Live {
        self.live(&["-p", "do it", "--yolo"])
    }

    pub fn live(&self, args: &[&str]) -> Live {
        let format = ["--output-format", "stream-json"];
        Live::spawn(self.home.rewake(args.iter().chain(&format)))
    }

    /// Goes on with the newest session here until it comes to rest.
    pub fn go_on(&self) -> Run {
        self.live(&["-p", "-c"]).wait(LIMIT)
    }

    /// Starts the task and waits until its command has begun and its first words are kept.
    pub fn start_command(&self) -> Live {
        let live = self.start();
        until(|| self.running().is_some() && self.printed().contains("first words"));
        live
    }

    /// What the command has printed so far.
    fn printed(&self) -> String {
        let run = self.the_run().map(|info| info.run);
        let bytes = run.and_then(|run| self.runs().tail(&run, 1_000).ok());
        String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
    }

    /// How often a command has begun, as it says itself.
    pub fn effects(&self) -> usize {
        self.home.read("effects").lines().count()
    }

    pub fn go(&self) {
        std::fs::write(self.home.path("go"), "").expect("make the file go");
    }

    /// The last result in the last request.
    pub fn last_result(&self) -> String {
        let heard = self.heard.lock().unwrap();
        heard.last().expect("a request").last_result().to_string()
    }

    /// The last request, whole.
    pub fn last_request(&self) -> String {
        let heard = self.heard.lock().unwrap();
        heard.last().expect("a request").json.to_string()
    }

    pub fn runs(&self) -> Runs {
        super::runs_of(&self.home)
    }

    pub fn the_run(&self) -> Option<RunInfo> {
        let mut all = self.runs().list();
        assert!(all.len() < 2, "{all:?}");
        all.pop()
    }

    /// Keeper and process group of the command that runs.
    pub fn running(&self) -> Option<(u32, u32)> {
        match self.the_run()?.state {
            RunState::Running { keeper, group } => keeper.zip(group),
            RunState::NotBegun | RunState::Ended(_) => None,
        }
    }

    pub fn store(&self) -> Store {
        super::store(&self.home)
    }

    /// The entries of the newest session, as lines of the stream.
    pub fn log(&self) -> Vec<Value> {
        super::log(&self.home, &self.id())
    }

    pub fn entries(&self, kind: &str) -> Vec<Value> {
        super::entries(&self.home, &self.id(), kind)
    }

    /// Adds to the newest session what a process that died then would have left.
    pub fn append(&self, entry: impl FnOnce(u64) -> rewake::core::entry::Entry) {
        let mut store = self.store();
        let (mut head, records) = store.load(&self.id()).expect("load it");
        let batch = Batch {
            at_ms: 1,
            entries: vec![entry(records.len() as u64)],
            unfinished: true,
            ..Batch::default()
        };
        store.append(&mut head, &batch).expect("append");
    }
}

pub fn is_entry(line: &str, kind: &str) -> bool {
    let event: Value = serde_json::from_str(line).unwrap_or_default();
    event["type"] == format!("entry.{kind}")
}

pub fn send(pid: u32, signal: Signal) {
    kill_process(pid_of(pid), signal).expect("send the signal");
}

pub fn is_gone(group: u32) -> bool {
    test_kill_process_group(pid_of(group)).is_err()
}

fn pid_of(pid: u32) -> Pid {
    Pid::from_raw(pid as i32).expect("a pid")
}

/// Fails with what there is when a part is missing.
#[track_caller]
pub fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
}

pub const REAL_RESULT: [&str; 3] = [
    "first words\nlast words\n",
    "[exit code 7]",
    "[rewake was down; the command kept running]",
];

/// Kills the keeper, and returns the command's process group, which keeps running.
pub fn kill_keeper(scene: &Scene) -> u32 {
    let (keeper, group) = scene.running().expect("a command");
    send(keeper, Signal::KILL);
    until(|| scene.running().is_none());
    group
}

pub fn assert_interrupted(scene: &Scene, run: Run, group: u32) {
    run.expect(0);
    let finished = scene.entries("finished");
    assert_eq!(finished.len(), 1, "{finished:?}");
    assert_eq!(
        finished[0]["outcome"]["outcome"], "interrupted",
        "{finished:?}"
    );
    let told = scene.last_result();
    assert_has(
        &told,
        &[
            "first words",
            "the supervisor of this command was killed; the output ends here. Its processes",
            "Check before you repeat it.",
        ],
    );
    assert_has(&told, &[&format!("`kill -- -{group}` ends them")]);
    let listed = scene.home.run(["ps"]).expect(0).stdout;
    assert_has(&listed, &[&format!("left behind, group {group}")]);
    let listed = scene.home.run(["ps", "--json"]).expect(0).stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed[0]["left_behind"], true, "{listed:#}");
    assert_eq!(listed[0]["group"], group, "{listed:#}");
    scene.go();
    until(|| is_gone(group));
    assert_eq!(scene.effects(), 1);
    scene.server.assert_no_violations();
}

pub const COMMAND: &str = "echo begun >> effects; echo it ran";

/// A session whose last entry is the `Started` of [`COMMAND`] in this boot. Gives its run.
pub fn started(boot: &str) -> (Scene, String) {
    started_with(boot, COMMAND, "bypassPermissions", None)
}

/// The same of a command with this access, in a session of this mode.
pub fn started_with(
    boot: &str,
    command: &str,
    mode: &str,
    access: Option<Access>,
) -> (Scene, String) {
    let scene = Scene::new(|seen| Says::text(format!("answer {}", seen.turn)).into());
    let hello = ["-p", "hello", "--permission-mode", mode];
    scene.live(&hello).wait(LIMIT).expect(0);
    let session = scene.id();
    scene.append(|_| Entry::Said {
        text: "do it".into(),
        images: vec![],
        via: Via::Prompt,
        command: None,
        origin: None,
    });
    let mut call = CallId { reply: 0, index: 0 };
    scene.append(|seq| {
        call.reply = seq;
        let arguments = serde_json::json!({"command": command}).to_string();
        Entry::Replied {
            blocks: vec![Block::call("bash", arguments)],
            usage: Usage::default(),
            stop: StopReason::ToolUse,
            model: "local/test-model".into(),
            took_ms: 0,
            asked_bytes: 0,
            source_usage: None,
        }
    });
    let spec = Spec {
        command: command.into(),
        folder: scene.home.workspace(),
        timeout_ms: u64::MAX,
        output_cap_bytes: 1_000_000,
        shell: default_shell(),
        env_remove: vec![],
        env_set: vec![],
        session,
        call: format!("bg_{}_0", call.reply),
        background: false,
        sandbox: None,
        child: None,
        hook: None,
        lease: None,
    };
    let run = scene.runs().prepare(&spec).expect("prepare the run");
    scene.append(|_| Entry::Started {
        call,
        guard: Guard::Supervised {
            run: run.clone(),
            boot: boot.into(),
            background: false,
        },
        access,
    });
    (scene, run)
}

/// A model that writes the file `f`, which asks, and then says what it was told.
pub fn writes() -> Scene {
    Scene::new(|seen| match seen.turn {
        0 => Answer::call("write", json!({"path": "f", "content": "written\n"})),
        _ => Says::text(FINAL_WORDS).into(),
    })
}

impl Scene {
    pub fn steers(&self, args: &[&str]) -> Run {
        self.home.run(args)
    }

    /// The open question, as another process reads it.
    pub fn asked(&self) -> Vec<Value> {
        let run = self.steers(&["approvals", "--json"]).expect(0);
        serde_json::from_str(&run.stdout).expect("a list")
    }

    /// The signals that wait in a session.
    pub fn signals(&self, id: &str) -> Vec<QueuedSignal> {
        self.store().inbox().signals(id).expect("the signals")
    }

    pub fn waiting(&self) -> Live {
        let live = self.live(&["-p", "do it", "--on-approval", "wait"]);
        live.wait_for(LIMIT, |line| is_entry(line, "asked"));
        live
    }

    pub fn id(&self) -> String {
        super::newest(&self.home)
    }
}
