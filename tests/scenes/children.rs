//! A session with a subagent.

use std::sync::{Arc, Mutex};

use rewake::command::{RunInfo, RunState};
use rewake::store::{SessionInfo, Store};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

pub use super::LIMIT;
use super::runs_of;
use support::{Answer, Home, Live, Protocol, Run, Says, Seen, Server};

pub const DO_IT: &str = "count the effect";

pub const ANSWER: &str = "the child's real answer";

pub const OVER: &str = "that was all";

/// Says that it began, waits for the file `go`, and ends.
pub const WAITS: &str = "echo begun >> effects; n=0; until [ -e go ] || [ $n -gt 3000 ]; \
                     do n=$((n+1)); sleep 0.02; done; echo over";

pub struct Scene {
    pub home: Home,
    pub server: Server,
    pub heard: Arc<Mutex<Vec<Seen>>>,
}

pub fn is_child(seen: &Seen) -> bool {
    seen.json.to_string().contains("You are a subagent")
}

impl Scene {
    pub fn new(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Scene {
        Scene::with_config("", script)
    }

    pub fn with_config(
        more: &str,
        script: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
    ) -> Scene {
        let heard: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let hears = heard.clone();
        let server = Server::start(move |seen| {
            hears.lock().unwrap().push(seen.clone());
            script(seen)
        });
        let home = Home::new();
        home.configure(&server, Protocol::Chat, more);
        Scene {
            home,
            server,
            heard,
        }
    }

    /// The parent gives a task with these arguments, the child runs this command and answers.
    pub fn with_task(arguments: Value, command: &'static str) -> Scene {
        Scene::new(move |seen| match (is_child(seen), seen.turn) {
            (false, 0) => Answer::call("task", arguments.clone()),
            (false, _) => Says::text(OVER).into(),
            (true, 0) => Answer::call("bash", json!({"command": command})),
            (true, _) => Says::text(ANSWER).into(),
        })
    }

    pub fn live(&self, args: &[&str]) -> Live {
        let format = ["--output-format", "stream-json"];
        Live::spawn(self.home.rewake(args.iter().chain(&format)))
    }

    pub fn start(&self) -> Live {
        self.live(&["-p", "do it", "--yolo"])
    }

    pub fn go_on(&self) -> Run {
        self.live(&["-p", "-c", "--yolo"]).wait(LIMIT)
    }

    pub fn effects(&self) -> usize {
        self.home.read("effects").lines().count()
    }

    pub fn go(&self) {
        std::fs::write(self.home.path("go"), "").unwrap();
    }

    pub fn store(&self) -> Store {
        super::store(&self.home)
    }

    pub fn parent(&self) -> SessionInfo {
        self.store()
            .history()
            .newest(None)
            .unwrap()
            .expect("a parent")
    }

    pub fn children(&self) -> Vec<SessionInfo> {
        let store = self.store();
        let newest = store.history().newest(None).unwrap();
        newest.map_or_else(Vec::new, |info| store.history().children(&info.id).unwrap())
    }

    pub fn log(&self, id: &str) -> Vec<Value> {
        super::log(&self.home, id)
    }

    pub fn entries(&self, id: &str, kind: &str) -> Vec<Value> {
        super::entries(&self.home, id, kind)
    }

    pub fn runs_of_children(&self) -> Vec<RunInfo> {
        let all = runs_of(&self.home).list().into_iter();
        all.filter(|info| info.spec.child.is_some()).collect()
    }

    /// Kills the process of a child, and its keeper too if `with_keeper`. False: none was at work.
    pub fn kill_child(&self, with_keeper: bool) -> bool {
        let running = self.runs_of_children().into_iter();
        let pids = running.filter_map(|info| match info.state {
            RunState::Running { keeper, group } => keeper.zip(group),
            _ => None,
        });
        let kill = |pid: u32| {
            let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
            let _ = kill_process(pid, Signal::KILL);
        };
        let mut any = false;
        for (keeper, child) in pids {
            any = true;
            if with_keeper {
                kill(keeper);
            }
            kill(child);
        }
        any
    }

    /// The words on the task that the parent's model was told.
    pub fn result(&self) -> String {
        let heard = self.heard.lock().unwrap();
        let last = heard.iter().rev().find(|seen| !is_child(seen));
        last.expect("a request").last_result().to_string()
    }

    /// One child, whose effect happened once, and the parent has its answer.
    #[track_caller]
    pub fn is_whole(&self) {
        assert_eq!(self.effects(), 1, "effects");
        assert_eq!(self.children().len(), 1, "children of one call");
        let result = self.result();
        assert!(result.contains(ANSWER), "{result}");
        let parent = self.parent();
        assert_eq!(self.entries(&parent.id, "finished").len(), 1);
        assert!(self.runs_of_children().is_empty(), "a run folder is left");
        self.server.assert_no_violations();
    }
}
