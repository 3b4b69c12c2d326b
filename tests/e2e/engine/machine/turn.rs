//! A whole turn with real files and real commands, whose process dies at every boundary, and
//! in the middle of every command.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use rewake::command::{RunInfo, RunState};
use rewake::config::Config;
use rewake::core::access::Access;
use rewake::core::budget::Budget;
use rewake::core::entry::*;
use rewake::core::next::Why;
use rewake::core::policy::{Decision, Judgement};
use rewake::core::request::{Request, Role};
use rewake::core::settings::Policy;
use rewake::core::state::UserCommand;
use rewake::core::state::{Background, State};
use rewake::core::summary::Fallback;
use rewake::core::tool::{Class, ToolCall};
use rewake::engine::{Engine, Log, RestReason, Settings, Summarising};
use rewake::model::{Delta, Reply};
use rewake::session::context::windows;
use rewake::store::{Batch, NewSession, Store, new_id};
use rewake::tools::ToolResult;
use rewake::world::machine::Machine;
use rewake::world::{
    BackgroundEnd, Boundary, Images, PrepareError, Settled, Snapshot, SnapshotRequest, World,
};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::bench::{Bench, run_of};
use crate::scenes::until_async;

/// Where a process may die.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// Before this method of the world.
    Before(&'static str),
    /// After it.
    After(&'static str),
    /// Around a record.
    Record(Boundary),
    /// In the middle of a command.
    Middle,
}

/// Where the first process dies. The others live.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Death {
    Never,
    /// At this place, counted from 1.
    At(u64),
    When(Place),
}

/// What outlives the processes.
struct Turn {
    bench: Bench,
    answers: Vec<Vec<Block>>,
    /// The answers are not given before their first words are in the drafts.
    slow: bool,
    /// An answer waits for its first call for a moment only, and here it takes longer.
    late_at: Option<Place>,
    session: String,
    death: Cell<Death>,
    passed: Cell<u64>,
    died: Notify,
    /// The model was asked, and nothing was done since but to record its answer, or to make ready
    /// what that begins.
    asking: Cell<bool>,
    asked: Cell<u64>,
    /// Answers that may have died with the process.
    lost: Cell<u64>,
}

impl Turn {
    fn new(answers: Vec<Vec<Block>>, death: Death) -> Rc<Turn> {
        let bench = Bench::new();
        let mut store = Store::open(&bench.folder.path().join("store")).unwrap();
        let new = NewSession {
            id: new_id(),
            workspace: "/w".into(),
            folder: "/w".into(),
        };
        let (mut head, _) = store.create(&new, 0, opened()).unwrap();
        let said = Entry::Said {
            text: "go".into(),
            images: vec![],
            via: Via::Prompt,
            command: None,
            origin: None,
        };
        let batch = Batch {
            entries: vec![said],
            ..Batch::default()
        };
        store.append(&mut head, &batch).unwrap();
        Rc::new(Turn {
            bench,
            answers,
            slow: false,
            late_at: None,
            session: head.session().into(),
            death: Cell::new(death),
            passed: Cell::new(0),
            died: Notify::new(),
            asking: Cell::new(false),
            asked: Cell::new(0),
            lost: Cell::new(0),
        })
    }

    fn store(&self) -> Store {
        Store::open(&self.bench.folder.path().join("store")).unwrap()
    }

    fn records(&self) -> Vec<Record> {
        self.store().load(&self.session).unwrap().1
    }

    /// Whether the process is to die here.
    fn is_last(&self, at: Place) -> bool {
        self.passed.set(self.passed.get() + 1);
        match self.death.get() {
            Death::Never => false,
            Death::At(n) => n == self.passed.get(),
            Death::When(place) => place == at,
        }
    }

    async fn die(&self) {
        self.death.set(Death::Never);
        self.lost
            .set(self.lost.get() + u64::from(self.asking.replace(false)));
        self.died.notify_one();
        std::future::pending().await
    }

    /// Lets processes live one after the other until the session is at rest.
    async fn play(self: &Rc<Turn>) {
        for start in 0..3 {
            if let Some(rest) = self.live(start > 0).await {
                assert_eq!(rest, RestReason::Waiting(Why::Idle));
                return;
            }
        }
        panic!("the session never comes to rest");
    }

    /// One process. `None` when it died.
    async fn live(self: &Rc<Turn>, again: bool) -> Option<RestReason> {
        let store = self.store();
        let (head, records) = store.load(&self.session).unwrap();
        let state = State::of(rewake::tools::describe, &records).unwrap();
        let world = Rc::new(Mortal {
            machine: self.bench.machine(),
            turn: Rc::clone(self),
        });
        let settings = Settings {
            policy: Policy {
                served_check: std::sync::Arc::new(|_| Ok(())),
                permission_check: std::sync::Arc::new(|_, _, _| Judgement {
                    decision: Decision::Allow,
                    access: Some(Access::Full),
                }),
                interactive: false,
                background: Default::default(),
                sandbox: Default::default(),
                checks: Vec::new(),
                max_turns: None,
                loop_guard: true,
                budget: std::sync::Arc::new(|_, _, _| Budget::new(1_000_000, 1_000, None)),
                windows: windows(&Config::default()),
                price: std::sync::Arc::new(|_, _| None),
            },
            begins_within: match self.late_at {
                Some(_) => Duration::from_millis(1),
                None => Duration::from_secs(600),
            },
            checkpoint_interval: Duration::from_secs(600),
            summarising: Summarising {
                model: None,
                instructions: String::new(),
                continuation: String::new(),
                others: vec![],
                title: None,
                fallback: Fallback::Digest,
                patience: Duration::from_secs(60),
            },
            render: Box::new(|_| PromptPrefix::default()),
            renewed: None,
            chosen: None,
            fallbacks: vec![],
        };
        let (_commands, inbox) = unbounded_channel();
        let log = Log {
            store,
            head,
            state,
            shared: None,
        };
        let mut engine = Engine::new(log, world, settings, inbox, Box::new(|_, _| {}));
        let life = async {
            if again {
                engine
                    .record_resumed(By::Start, "found".into(), false)
                    .await
                    .unwrap();
            }
            engine.run().await.unwrap()
        };
        tokio::select! {
            biased;
            () = self.died.notified() => None,
            rest = life => Some(rest),
        }
    }
}

/// The machine, in a process that may die.
struct Mortal {
    machine: Machine,
    turn: Rc<Turn>,
}

impl Mortal {
    /// Runs a method of the world, and may die before it and after it.
    fn between<T>(
        &self,
        method: &'static str,
        run: impl Future<Output = T>,
    ) -> impl Future<Output = T> {
        // On the heap: the engine's future is large without it.
        let run = Box::pin(run);
        async move {
            self.pass(Place::Before(method)).await;
            let result = run.await;
            self.pass(Place::After(method)).await;
            result
        }
    }

    /// Dies here when it is time to.
    async fn pass(&self, at: Place) {
        let of_the_answer = match at {
            // Its first call is made ready, to be recorded with it.
            Place::Before(method) | Place::After(method) => {
                ["call_model", "prepare", "snapshot"].contains(&method)
            }
            Place::Record(boundary) => boundary == Boundary::BeforeAppend("replied"),
            Place::Middle => false,
        };
        if !of_the_answer {
            self.turn.asking.set(false);
        }
        if self.turn.is_last(at) {
            self.turn.die().await;
        }
        if self.turn.late_at == Some(at) {
            tokio::time::sleep(LATE).await;
        }
    }
}

impl World for Mortal {
    async fn call_model(
        &self,
        request: Request,
        _images: Images,
        deltas: UnboundedSender<Delta>,
    ) -> Result<Reply, Failure> {
        self.between("call_model", async {
            let turn = &self.turn;
            turn.asked.set(turn.asked.get() + 1);
            turn.asking.set(true);
            if turn.slow {
                deltas.send(Delta::Text(HALF.into())).unwrap();
                let store = RefCell::new(turn.store());
                until_async(|| {
                    store
                        .borrow()
                        .inbox()
                        .drafts(&turn.session)
                        .unwrap()
                        .stream
                        .is_some()
                })
                .await;
            }
            let answers = request
                .messages
                .iter()
                .filter(|m| m.role == Role::Assistant);
            Ok(Reply {
                blocks: turn.answers[answers.count()].clone(),
                usage: Usage::default(),
                stop: StopReason::ToolUse,
                has_text_calls: false,
            })
        })
        .await
    }

    async fn summarise(
        &self,
        request: Request,
        images: Images,
        on: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Reply, Failure> {
        self.machine.summarise(request, images, on).await
    }

    fn leads_to(&self, call: &ToolCall) -> Result<Option<PathBuf>, String> {
        self.machine.leads_to(call)
    }

    fn root(&self) -> PathBuf {
        self.machine.root()
    }

    async fn run_idempotent(&self, call: &ToolCall, at: Option<&Path>, room: usize) -> ToolResult {
        self.between("run_idempotent", async {
            self.machine.run_idempotent(call, at, room).await
        })
        .await
    }

    async fn wait_for_background(
        &self,
        call: &ToolCall,
        background: &BTreeMap<String, Background>,
    ) -> ToolResult {
        self.between("wait_for_background", async {
            self.machine.wait_for_background(call, background).await
        })
        .await
    }

    async fn prepare(
        &self,
        call: &ToolCall,
        access: Option<Access>,
        at: Option<&Path>,
        state: &State,
    ) -> Result<Guard, PrepareError> {
        self.between("prepare", async {
            self.machine.prepare(call, access, at, state).await
        })
        .await
    }

    async fn snapshot(&self, _wish: SnapshotRequest) -> Snapshot {
        self.between("snapshot", async { Snapshot::Off }).await
    }

    async fn act(&self, call: &ToolCall, guard: &Guard) -> Option<ToolResult> {
        self.between("act", async {
            let mut act = pin!(self.machine.act(call, guard));
            if call.class() == Some(Class::Supervised) && self.turn.is_last(Place::Middle) {
                let begun = || {
                    let info = self.turn.bench.info(guard);
                    assert_eq!(info.run, run_of(guard));
                    info.state != RunState::NotBegun
                };
                tokio::select! {
                    biased;
                    () = until_async(begun) => {}
                    _ = &mut act => {}
                }
                self.turn.die().await;
            }
            act.await
        })
        .await
    }

    async fn settle(
        &self,
        call: &ToolCall,
        guard: &Guard,
        access: Option<Access>,
        stop: bool,
    ) -> Settled {
        self.between("settle", async {
            self.machine.settle(call, guard, access, stop).await
        })
        .await
    }

    async fn discard(&self, guard: &Guard) {
        self.between("discard", async {
            self.machine.discard(guard).await;
        })
        .await
    }

    fn background_end(&self, id: &str, background: &Background) -> Option<BackgroundEnd> {
        self.machine.background_end(id, background)
    }

    async fn prepare_for_user(&self, command: &str) -> Result<Guard, PrepareError> {
        self.between("prepare_for_user", async {
            self.machine.prepare_for_user(command).await
        })
        .await
    }

    async fn begin_for_user(&self, guard: &Guard) {
        self.between("begin_for_user", async {
            self.machine.begin_for_user(guard).await;
        })
        .await
    }

    fn user_command_end(&self, command: &UserCommand) -> Option<BackgroundEnd> {
        self.machine.user_command_end(command)
    }

    fn printed_bytes(&self) -> u64 {
        self.machine.printed_bytes()
    }

    fn now_ms(&self) -> i64 {
        self.machine.now_ms()
    }

    async fn boundary(&self, at: Boundary) {
        self.pass(Place::Record(at)).await;
    }
}

fn opened() -> Entry {
    let spec = |name: &str| ToolSpec {
        name: name.into(),
        description: String::new(),
        schema: serde_json::json!({"type": "object"}),
    };
    Entry::Opened {
        folder: "/w".into(),
        version: "0".into(),
        model: "test/model".into(),
        mode: Mode::Default,
        layers: PromptPrefix {
            tools: ["glob", "write", "edit", "bash"].map(spec).into(),
            ..PromptPrefix::default()
        },
        imported: None,
    }
}

fn all_real_classes() -> Vec<Vec<Block>> {
    vec![
        vec![
            Block::call("glob", r#"{"pattern":"*"}"#),
            Block::call("bash", r#"{"command":"echo one >> done; echo printed"}"#),
            Block::call("write", r#"{"path":"f","content":"1"}"#),
        ],
        vec![
            Block::call("edit", r#"{"path":"f","edits":[{"old":"1","new":"2"}]}"#),
            Block::call(
                "bash",
                r#"{"command":"echo server >> done","background":true}"#,
            ),
            Block::call("bash", r#"{"command":"echo two >> done; exit 3"}"#),
        ],
        vec![Block::text("done")],
    ]
}

const HALF: &str = "half an answer";

async fn whole_turn(death: Death) -> u64 {
    let turn = Turn::new(all_real_classes(), death);
    turn.play().await;
    assert_eq!(turn.death.get(), Death::Never, "it died");
    let is_running = |r: RunInfo| matches!(r.state, RunState::Running { .. });
    until_async(|| !turn.bench.runs().list().into_iter().any(is_running)).await;
    let done = turn.bench.get("done");
    let mut lines: Vec<&str> = done.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one", "server", "two"], "{death:?}");
    assert_eq!(turn.bench.get("f"), "2", "{death:?}");

    let records = turn.records();
    let mut replies = 0;
    let mut results = Vec::new();
    for record in &records {
        match &record.entry {
            Entry::Replied { .. } => replies += 1,
            Entry::Finished { outcome, .. } => match outcome {
                Outcome::Done { output } => results.push(output.text.as_str()),
                other => panic!("{death:?}: a result is lost: {other:?}"),
            },
            _ => {}
        }
    }
    assert_eq!((replies, results.len()), (3, 6), "{death:?}");
    assert!(results[1].starts_with("printed\n"), "{results:?}");
    assert!(results[5].starts_with("[exit code 3]"), "{results:?}");
    assert_eq!(
        turn.asked.get(),
        replies + turn.lost.get(),
        "{death:?}: an answer that was there is asked for again"
    );
    turn.passed.get()
}

#[tokio::test]
async fn every_boundary_of_the_real_world() {
    let last = whole_turn(Death::Never).await;
    assert!(last > 40, "{last} boundaries");
    for at in 1..=last {
        whole_turn(Death::At(at)).await;
    }
}

/// Longer than an answer waits for its first call.
const LATE: Duration = Duration::from_millis(20);

/// An answer waits for its first call, but not for long: then it is recorded alone, and the call
/// is begun once all the same.
#[tokio::test]
async fn an_answer_is_recorded_alone_when_its_first_call_is_not_ready_in_time() {
    let with_first = |turn: &Turn| {
        let records = turn.records();
        let answer = records.iter().position(|r| r.entry.kind() == "replied");
        let answer = answer.unwrap();
        let started = records[answer..]
            .iter()
            .find(|r| r.entry.kind() == "started");
        (records[answer].at_ms, started.unwrap().at_ms)
    };
    let command = r#"{"command":"echo one >> done"}"#;
    for late_at in [
        None,
        Some(Place::Before("prepare")),
        Some(Place::After("prepare")),
        Some(Place::Before("snapshot")),
        Some(Place::After("snapshot")),
    ] {
        let answers = vec![
            vec![Block::call("bash", command)],
            vec![Block::text("done")],
        ];
        let turn = Turn::new(answers, Death::Never);
        let turn = Rc::new(Turn {
            late_at,
            ..Rc::into_inner(turn).unwrap()
        });
        turn.play().await;
        let (answered, started) = with_first(&turn);
        assert_eq!(answered == started, late_at.is_none(), "{late_at:?}");
        assert_eq!(turn.bench.get("done"), "one\n", "{late_at:?}");
        let left = std::fs::read_dir(turn.bench.folder.path().join("runs")).unwrap();
        let left = left.count();
        // What was made ready and dropped is swept when the session is opened again.
        assert!(left <= 1, "{late_at:?}: {left} run folders");
    }
}

#[tokio::test]
async fn an_answer_leaves_the_drafts_when_it_is_in_the_log_and_not_before() {
    for (death, found) in [
        (Place::After("call_model"), Some(HALF)),
        (Place::Record(Boundary::BeforeAppend("replied")), Some(HALF)),
        (Place::Record(Boundary::AfterAppend("replied")), None),
    ] {
        let turn = Turn::new(vec![vec![Block::text("an answer")]], Death::When(death));
        let turn = Rc::new(Turn {
            slow: true,
            ..Rc::into_inner(turn).unwrap()
        });
        turn.play().await;
        let woke = turn.records().into_iter().find_map(|r| match r.entry {
            Entry::Resumed { draft, .. } => Some(draft),
            _ => None,
        });
        assert_eq!(woke, Some(found.map(String::from)), "{death:?}");
        assert_eq!(
            turn.store().inbox().drafts(&turn.session).unwrap().stream,
            None
        );
    }
}
