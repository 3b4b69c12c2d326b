//! A world of files, commands and far-away tools that outlives the processes of the test.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rewake::core::access::Access;
use rewake::core::check::Check;
use rewake::core::entry::*;
use rewake::core::file_clock::FileClock;
use rewake::core::form::FormAnswer;
use rewake::core::next::MAX_CALLS_AT_ONCE;
use rewake::core::request::{MessagePart, Request};
use rewake::core::signal::Signal;
use rewake::core::state::{Background, State, UserCommand};
use rewake::core::tool::ToolCall;
use rewake::core::tree::{Item, Tree};
use rewake::engine::Command;
use rewake::model::{Delta, Reply};
use rewake::shared::writer::SharedWriter;
use rewake::store::{Cause, Message, NewTree, Store};
use rewake::tools::{self, ToolResult, Work};
use rewake::world::{
    BackgroundEnd, Boundary, Images, PrepareError, Settled, Snapshot, SnapshotRequest, World,
};
use rewake::world::{CheckRun, HookEnd, HookOccasion, RestoreEnd, RestoreOrder, ServerAsks};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};

use super::checks;
use super::hooks::{self, CHANGING, GUARDED, Hooks};
use super::person::Person;
use super::served::{AGAIN, ASKS, Fate, NEAR, Servers, question};

pub const MODEL: &str = "test/model";

/// The effect of a command of the user, and how its end is told.
pub const OF_USER: &str = "of-the-user";

/// What the user says while the agent works.
pub const ALSO: &str = "also";

/// xorshift64*: small, and the same everywhere.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n.max(1)
    }
}

/// The answers of the model, by the number of its answers in the request.
pub struct Script(Vec<Vec<Block>>);

impl Script {
    /// A turn with calls of all effect classes, alone and together.
    pub fn all_classes() -> Script {
        Script(vec![
            vec![
                Block::text("look"),
                call("read", r#"{"path":"a"}"#),
                call("read", r#"{"path":"b"}"#),
                call("bash", r#"{"command":"one"}"#),
                call("write", r#"{"path":"f","content":"1"}"#),
                call("mcp__far__poke", "{}"),
                call("plan", r#"{"steps":[{"text":"s","state":"current"}]}"#),
                call("memory_insert", r#"{"text":"kept","kind":"semantic"}"#),
            ],
            vec![
                call("bash", r#"{"command":"denied"}"#),
                call("edit", r#"{"path":"f","edits":[{"old":"1","new":"2"}]}"#),
                call("bash", r#"{"command":"server","background":true}"#),
                call("launch", "{}"),
                call("bash", r#"{"command":"two"}"#),
            ],
            vec![Block::text("done")],
        ])
    }

    /// Tasks, at the same time and alone, before and behind a command.
    pub fn tasks() -> Script {
        let task = |prompt: &str| call("task", &format!(r#"{{"prompt":"{prompt}"}}"#));
        Script(vec![
            vec![
                task("one"),
                task("two"),
                call("bash", r#"{"command":"one"}"#),
            ],
            vec![task("three")],
            vec![Block::text("done")],
        ])
    }

    /// Calls of tools of a server, alone and beside others.
    pub fn served() -> Script {
        Script(vec![
            vec![
                call(NEAR, "{}"),
                call("bash", r#"{"command":"one"}"#),
                call(NEAR, "{}"),
            ],
            vec![call(AGAIN, "{}"), call(NEAR, "{}")],
            vec![Block::text("done")],
        ])
    }

    /// Calls of a server that asks a person, beside others.
    pub fn asked_by_server() -> Script {
        Script(vec![
            vec![call(ASKS, "{}"), call("bash", r#"{"command":"one"}"#)],
            vec![call(NEAR, "{}"), call(ASKS, "{}")],
            vec![Block::text("done")],
        ])
    }

    /// The model asks the person, once with a command after it.
    pub fn asked_by_model() -> Script {
        let asks = || call("ask_user", r#"{"questions":[{"question":"which?"}]}"#);
        Script(vec![
            vec![asks(), call("bash", r#"{"command":"one"}"#)],
            vec![asks()],
            vec![Block::text("done")],
        ])
    }

    /// Tasks in the background, beside commands and beside one that is waited for.
    pub fn tasks_in_background() -> Script {
        let task = |rest: &str| call("task", &format!(r#"{{"prompt":"look"{rest}}}"#));
        let command = || call("bash", r#"{"command":"one"}"#);
        let background = || task(r#","background":true"#);
        Script(vec![
            vec![background(), command()],
            vec![background(), task("")],
            vec![command()],
            vec![command()],
            vec![Block::text("done")],
        ])
    }

    /// Commands in the background: one is waited for, the other still runs at the answer.
    pub fn waiting() -> Script {
        let server = || call("bash", r#"{"command":"server","background":true}"#);
        Script(vec![
            vec![server()],
            vec![call("bash_wait", "{}"), call("read", r#"{"path":"a"}"#)],
            vec![server()],
            vec![Block::text("done")],
            vec![Block::text("it may run on")],
        ])
    }

    /// The same call again and again, with the same result, beside a look. `rounds` of them are
    /// followed by an answer.
    pub fn repeating(rounds: usize) -> Script {
        let look = call("read", r#"{"path":"a"}"#);
        let round = vec![look, call("bash", r#"{"command":"denied"}"#)];
        let rounds = std::iter::repeat_n(round, rounds);
        Script(rounds.chain([vec![Block::text("done")]]).collect())
    }

    /// A look, and a command and a change that ask.
    pub fn short() -> Script {
        Script(vec![
            vec![
                call("read", r#"{"path":"a"}"#),
                call("bash", r#"{"command":"one"}"#),
                call("write", r#"{"path":"f","content":"1"}"#),
            ],
            vec![Block::text("done")],
        ])
    }

    /// Answers that begin with an effect: each can be in one transaction with what it begins.
    pub fn effects_first() -> Script {
        let two = call("bash", r#"{"command":"two"}"#);
        Script(vec![
            vec![call("bash", r#"{"command":"one"}"#), two],
            vec![call("write", r#"{"path":"f","content":"1"}"#)],
            vec![call("bash", r#"{"command":"server","background":true}"#)],
            vec![call("mcp__far__poke", "{}")],
            vec![Block::text("done")],
        ])
    }

    /// Commands that only read, more than may run at the same time, between looks and an effect.
    pub fn reading() -> Script {
        let read = |path: &str| call("read", &format!(r#"{{"path":"{path}"}}"#));
        let bash = |line: &str| call("bash", &format!(r#"{{"command":"{line}"}}"#));
        let mut many = vec![read("a")];
        many.extend((0..6).map(|n| bash(&format!("look {n}"))));
        many.extend([
            read("b"),
            bash("one"),
            bash("look at $TMPDIR"),
            bash("look again"),
        ]);
        Script(vec![
            many,
            vec![bash("look"), bash("look"), bash("denied")],
            vec![Block::text("done")],
        ])
    }

    /// Calls with hooks that allow, deny and change them, between calls without any.
    pub fn hooked() -> Script {
        let bash = |line: &str| call("bash", &format!(r#"{{"command":"{line}"}}"#));
        Script(vec![
            vec![
                call("read", r#"{"path":"a"}"#),
                call("read", r#"{"path":"b"}"#),
                bash("one"),
                bash(GUARDED),
                call("plan", r#"{"steps":[]}"#),
                call("write", r#"{"path":"f","content":"1"}"#),
                bash(CHANGING),
            ],
            vec![bash("two"), call("mcp__far__poke", "{}")],
            vec![Block::text("done")],
        ])
    }

    /// Several edits in one answer, and commands.
    pub fn checked() -> Script {
        let bash = |line: &str| call("bash", &format!(r#"{{"command":"{line}"}}"#));
        let write = |content: &str| {
            let arguments = format!(r#"{{"path":"f","content":"{content}"}}"#);
            call("write", &arguments)
        };
        Script(vec![
            vec![write("1"), bash("one"), write("2")],
            vec![call("read", r#"{"path":"a"}"#), write("3")],
            vec![bash("two")],
            vec![Block::text("done")],
        ])
    }

    /// A command that takes longer than the calls after it.
    pub fn reading_slowly() -> Script {
        let first = call("bash", r#"{"command":"look slowly"}"#);
        let second = call("bash", r#"{"command":"look"}"#);
        let look = call("read", r#"{"path":"a"}"#);
        Script(vec![vec![first, look, second], vec![Block::text("done")]])
    }

    /// A look around, then answers of which one is an object with `n`.
    pub fn structured(fits_at: usize) -> Script {
        let answer = |at| match at == fits_at {
            true => vec![Block::text(r#"{"n": 1}"#)],
            false => vec![Block::text(format!("answer {at}"))],
        };
        let look = vec![call("read", r#"{"path":"a"}"#)];
        Script(std::iter::once(look).chain((0..12).map(answer)).collect())
    }

    pub fn random(seed: u64) -> Script {
        let mut rng = Rng::new(seed ^ 0xABCD);
        let mut answers = Vec::new();
        for _ in 0..1 + rng.below(4) {
            answers.push(
                (0..1 + rng.below(5))
                    .map(|_| random_block(&mut rng))
                    .collect(),
            );
        }
        answers.push(vec![Block::text("done")]);
        Script(answers)
    }
}

fn random_block(rng: &mut Rng) -> Block {
    match rng.below(13) {
        0 => Block::text("words"),
        1 => call("read", r#"{"path":"a"}"#),
        2 => call("plan", r#"{"steps":[]}"#),
        3 => call("write", r#"{"path":"f","content":"x"}"#),
        4 => call("edit", r#"{"path":"f","edits":[{"old":"x","new":"y"}]}"#),
        5 => call("mcp__far__poke", "{}"),
        6 => call("bash", r#"{"command":"server","background":true}"#),
        7 => call("bash", r#"{"command":"denied"}"#),
        8 => call("bash", "{malformed"),
        10 => call("task", r#"{"prompt":"do it"}"#),
        11 => call(NEAR, "{}"),
        12 => call("bash", r#"{"command":"look"}"#),
        9 => call("memory_insert", r#"{"text":"kept","kind":"episodic"}"#),
        _ => call("bash", r#"{"command":"run"}"#),
    }
}

fn call(name: &str, arguments: &str) -> Block {
    Block::call(name, arguments)
}

pub fn opened() -> Entry {
    Entry::Opened {
        folder: "/w".into(),
        version: "0".into(),
        model: MODEL.into(),
        mode: Mode::Default,
        layers: layers(),
        imported: None,
    }
}

pub fn layers() -> PromptPrefix {
    let names = [
        "read",
        "write",
        "edit",
        "bash",
        "plan",
        "memory_insert",
        "ask_user",
        "bash_wait",
        "task",
        "mcp__far__poke",
        NEAR,
        ASKS,
        AGAIN,
    ];
    let spec = |name: &&str| ToolSpec {
        name: name.to_string(),
        description: String::new(),
        schema: serde_json::json!({"type": "object"}),
    };
    PromptPrefix {
        tools: names.iter().map(spec).collect(),
        ..PromptPrefix::default()
    }
}

/// The calls of an answer.
pub fn calls(seq: Seq, blocks: &[Block]) -> Vec<ToolCall> {
    let calls = blocks.iter().filter_map(|b| match b {
        Block::Call {
            name, arguments, ..
        } => Some((name, arguments)),
        _ => None,
    });
    let call = |(index, (name, arguments)): (usize, (&String, &String))| {
        tools::call(
            CallId {
                reply: seq,
                index: index as u32,
            },
            name,
            arguments,
        )
    };
    calls.enumerate().map(call).collect()
}

/// The result of an idempotent call.
pub fn look(call: CallId) -> String {
    format!("looked for {call}")
}

/// The name of a call's effect.
pub fn marker(call: CallId) -> String {
    format!("effect-{}-{}", call.reply, call.index)
}

pub fn markers(seq: Seq, blocks: &[Block]) -> Vec<String> {
    calls(seq, blocks).iter().map(|c| marker(c.id)).collect()
}

/// A run folder.
#[derive(Debug, Clone, Default)]
struct Run {
    call: Option<CallId>,
    boot: u64,
    /// Somebody created the claim file.
    claimed: bool,
    /// The command runs.
    running: bool,
    ended: bool,
    /// The user typed it.
    of_user: bool,
}

/// A sub-agent: its session, which outlives its processes.
#[derive(Debug, Clone, Default)]
struct Child {
    call: Option<CallId>,
    /// Its effect is in its log, and not done again.
    done: bool,
    /// Its answer was given.
    ended: bool,
    /// Nobody waits for it.
    background: bool,
}

/// Takes the lease of a session, and returns its writer.
pub type TakesLease = dyn Fn(&mut Store, &str) -> SharedWriter;

/// What outlives a process.
pub struct Outside {
    script: Script,
    files: BTreeMap<String, String>,
    runs: BTreeMap<String, Run>,
    next_run: u64,
    children: BTreeMap<String, Child>,
    pub servers: Servers,
    /// Whose process is at work.
    at_work: BTreeSet<String>,
    /// Number of processes of subagents that were started.
    pub child_starts: usize,
    boot: u64,
    /// How often each effect happened.
    pub effects: BTreeMap<String, u32>,
    /// How often each idempotent call was run.
    pub looks: BTreeMap<CallId, u32>,
    /// Messages of the user that were told to be queued.
    pub queued: usize,
    /// Keepers that were spawned and have not claimed yet.
    spawned: BTreeSet<String>,
    pub late_keeper: bool,
    pub passed: u64,
    crashes: Vec<u64>,
    pub crash: Arc<Notify>,
    pub stop_at: Option<u64>,
    pub pause_at: Option<u64>,
    /// A person lifts the pause at the next start.
    pub lifts: bool,
    /// Each later start waits for the person first.
    pub waits_first: bool,
    pub say_at: Option<u64>,
    pub person: Person,
    /// At this boundary another process does something to the session.
    pub other: Option<(u64, Box<dyn Fn()>)>,
    /// It is called at each boundary, before the process may die there.
    pub watch: Option<Box<dyn FnMut(Boundary)>>,
    /// Takes the lease of the session, if it is shared.
    pub shared: Option<Rc<TakesLease>>,
    pub commands: Option<UnboundedSender<Command>>,
    pub acknowledged: Vec<(String, Record)>,
    clock_ms: i64,
    branch: u32,
    pub window: u64,
    pub bulk: usize,
    /// The model is reminded of commands in the background.
    pub reminds: bool,
    pub summariser_fails: bool,
    pub upgraded: bool,
    /// The session's own model is always overloaded.
    pub overloaded: bool,
    /// The first answers without a call are cut off by the output limit.
    pub cuts: bool,
    /// The first try of each answer breaks off after its usage is known.
    pub breaks: bool,
    /// Tries that broke off, and those after which another was made.
    pub broken: usize,
    pub tried_again: usize,
    /// The answer has to fit a schema.
    pub has_schema: bool,
    /// The models that were asked.
    pub asked: Vec<String>,
    /// Answers in the log.
    pub replies: usize,
    /// Somebody answers what servers ask, each time something else.
    pub has_person: bool,
    pub said_to_servers: u64,
    /// What servers may be told: it is in the log.
    pub answered: BTreeMap<(CallId, String), FormAnswer>,
    /// How often the user changed a file of their own.
    edits: u32,
    /// The name of the tree that the files were as, at the begin of each effect.
    pub files_at: BTreeMap<CallId, String>,
    /// The targets of restores that were done, and the one that was recorded at the begin.
    pub restored: BTreeSet<String>,
    pub begun: Option<String>,
    /// What paths lead to is exchanged for another at each death.
    pub moves: bool,
    deaths: u32,
    /// Calls of a batch take turns at each boundary.
    pub interleaves: bool,
    /// Effects of commands that only read, which change no file.
    reading: BTreeSet<String>,
    /// Commands of this process that run, and the most that ran at the same time.
    acting: usize,
    pub most_acting: usize,
    pub hooks: Hooks,
    /// There are checks.
    pub has_checks: bool,
}

impl Outside {
    pub fn new(script: Script, crashes: Vec<u64>) -> Outside {
        Outside {
            script,
            files: BTreeMap::new(),
            runs: BTreeMap::new(),
            next_run: 0,
            children: BTreeMap::new(),
            servers: Servers::default(),
            at_work: BTreeSet::new(),
            child_starts: 0,
            boot: 1,
            effects: BTreeMap::new(),
            looks: BTreeMap::new(),
            queued: 0,
            spawned: BTreeSet::new(),
            late_keeper: false,
            passed: 0,
            crashes,
            crash: Arc::new(Notify::new()),
            stop_at: None,
            pause_at: None,
            lifts: false,
            waits_first: false,
            say_at: None,
            person: Person::default(),
            other: None,
            watch: None,
            shared: None,
            commands: None,
            acknowledged: Vec::new(),
            clock_ms: 0,
            branch: 0,
            window: 1_000_000,
            bulk: 0,
            reminds: false,
            summariser_fails: false,
            upgraded: false,
            overloaded: false,
            cuts: false,
            breaks: false,
            broken: 0,
            tried_again: 0,
            has_schema: false,
            asked: Vec::new(),
            replies: 0,
            has_person: false,
            said_to_servers: 0,
            answered: BTreeMap::new(),
            edits: 0,
            files_at: BTreeMap::new(),
            restored: BTreeSet::new(),
            begun: None,
            moves: false,
            deaths: 0,
            interleaves: false,
            reading: BTreeSet::new(),
            acting: 0,
            most_acting: 0,
            hooks: Hooks::default(),
            has_checks: false,
        }
    }

    pub fn boot(&self) -> u64 {
        self.boot
    }

    /// Where a call leads by now, when it is about a path.
    pub fn leads_to(&self, call: &ToolCall) -> Option<PathBuf> {
        let is_about_path = matches!(tools::work(call), Ok(Work::Replace(_)));
        (self.moves && is_about_path).then(|| format!("/{}/f", self.deaths).into())
    }

    fn child_starts(&mut self, session: &str) {
        self.at_work.insert(session.to_string());
        self.child_starts += 1;
    }

    /// The process is dead. What runs goes on, unless the power went.
    pub fn die(&mut self, power_cut: bool) {
        self.crash = Arc::new(Notify::new());
        self.commands = None;
        self.acting = 0;
        self.deaths += 1;
        self.hooks.die(power_cut, self.late_keeper);
        // A sub-agent dies with its parent, or works on to its end.
        let at_work: Vec<String> = std::mem::take(&mut self.at_work).into_iter().collect();
        for (place, session) in at_work.iter().enumerate() {
            if !power_cut && (self.deaths as usize + place).is_multiple_of(2) {
                self.child_acts(session);
                self.child_ends(session);
            }
        }
        // So does a server, or it works on until its call is settled.
        let acted = match (power_cut, self.deaths.is_multiple_of(2)) {
            (true, is_late) => self.servers.die(is_late),
            (false, true) => self.servers.work(),
            (false, false) => Vec::new(),
        };
        acted.into_iter().for_each(|call| self.effect(call));
        if power_cut {
            self.boot += 1;
            self.spawned.clear();
            for run in self.runs.values_mut() {
                run.running = false;
            }
        } else if !self.late_keeper {
            self.keepers_come_to_life();
        }
        for run in self.runs.values_mut() {
            if run.running {
                run.running = false;
                run.ended = true;
            }
        }
    }

    pub fn send(&self, commands: impl IntoIterator<Item = Command>) {
        for command in commands {
            if let Some(sender) = &self.commands {
                let _ = sender.send(command);
            }
        }
    }

    /// Run folders of commands of the user.
    pub fn left_of_user(&self) -> usize {
        self.runs.values().filter(|run| run.of_user).count()
    }

    /// A fork gives the same names to other calls behind this entry.
    pub fn forget_after(&mut self, seq: Seq) {
        let kept = |m: &String| {
            m.split('-')
                .nth(1)
                .and_then(|r| r.parse().ok())
                .is_some_and(|r: u64| r <= seq)
        };
        self.effects.retain(|m, _| kept(m));
        self.files_at.retain(|call, _| call.reply <= seq);
        self.stop_at = None;
        self.branch += 1;
    }

    /// The effect of a sub-agent, once for its session.
    fn child_acts(&mut self, session: &str) {
        let child = self.children.get_mut(session).expect("a session");
        let is_first = !std::mem::replace(&mut child.done, true);
        let call = child.call.expect("a call");
        if is_first {
            self.effect(call);
        }
    }

    /// Nobody kills those that are at work any more.
    pub fn children_end(&mut self) {
        for session in std::mem::take(&mut self.at_work) {
            self.child_acts(&session);
            self.child_ends(&session);
        }
    }

    fn child_ends(&mut self, session: &str) {
        self.children.get_mut(session).expect("a session").ended = true;
        self.at_work.remove(session);
    }

    fn keepers_come_to_life(&mut self) {
        for name in std::mem::take(&mut self.spawned) {
            self.keeper(&name);
        }
    }

    /// A keeper claims, and only then starts the command.
    fn keeper(&mut self, name: &str) {
        let Some(run) = self.runs.get_mut(name) else {
            return;
        };
        if run.claimed {
            return;
        }
        run.claimed = true;
        run.running = true;
        if run.of_user {
            *self.effects.entry(OF_USER.to_string()).or_default() += 1;
        }
        if let Some(call) = run.call {
            *self.effects.entry(marker(call)).or_default() += 1;
        }
    }

    /// The tree of all that lies outside, but for what a command of the user or a sub-agent in the
    /// background changes: they work beside the calls, and nothing says before which of them.
    fn tree(&self) -> NewTree {
        let (files, edits) = (&self.files, self.edits);
        let beside = self.children.values().filter(|child| child.background);
        let beside: Vec<String> = beside.filter_map(|child| child.call.map(marker)).collect();
        let is_beside = |name: &String| {
            *name == OF_USER || beside.contains(name) || self.reading.contains(name)
        };
        let effects = self.effects.iter().filter(|(name, _)| !is_beside(name));
        let effects: BTreeMap<_, _> = effects.collect();
        let target = format!("{effects:?} {files:?} {edits}").into_bytes();
        let tree = Tree([(b"all".to_vec(), Item::Link { target })].into());
        let (root, delta) = (Path::new("/w"), tree.whole());
        NewTree::new(root, None, &delta, &tree, Cause::Outside, Vec::new()).expect("a tree")
    }

    fn begins_to_act(&mut self) {
        self.acting += 1;
        self.most_acting = self.most_acting.max(self.acting);
        assert!(self.acting <= MAX_CALLS_AT_ONCE, "{} at once", self.acting);
    }

    fn effect(&mut self, call: CallId) {
        *self.effects.entry(marker(call)).or_default() += 1;
    }

    fn prepare_run(&mut self, call: CallId, background: bool) -> Guard {
        self.next_run += 1;
        let name = format!("run-{}", self.next_run);
        let run = Run {
            call: Some(call),
            boot: self.boot,
            ..Run::default()
        };
        self.runs.insert(name.clone(), run);
        Guard::Supervised {
            run: name,
            boot: self.boot.to_string(),
            background,
        }
    }
}

fn child_guard(session: String, outside: &Outside) -> Guard {
    Guard::Child {
        background: outside.children[&session].background,
        session,
        run: String::new(),
        boot: outside.boot.to_string(),
        done: 0,
        in_vain: 0,
        before: Vec::new(),
        worked_ms: 0,
    }
}

/// Returns the access of a command.
pub fn access_of(line: &str) -> Access {
    match line.starts_with("look") {
        true => Access::Read,
        false => Access::Workspace,
    }
}

pub struct Fake {
    outside: Rc<RefCell<Outside>>,
    /// Calls that this process made ready.
    ready: RefCell<BTreeSet<CallId>>,
    asks: UnboundedSender<ServerAsks>,
    asked: RefCell<UnboundedReceiver<ServerAsks>>,
}

fn ran(outcome: Outcome, fact: Option<Fact>) -> ToolResult {
    ToolResult {
        outcome,
        fact,
        blobs: Vec::new(),
    }
}

fn hash(text: &str) -> String {
    format!("hash of {text}")
}

/// The content that a call gives its file, another one in each branch.
fn content(branch: u32, call: &ToolCall) -> String {
    format!("content of {} in branch {branch}", call.id)
}

impl Fake {
    pub fn new(outside: Rc<RefCell<Outside>>) -> Fake {
        let (asks, asked) = unbounded_channel();
        Fake {
            outside,
            ready: RefCell::default(),
            asks,
            asked: RefCell::new(asked),
        }
    }

    /// Runs a method of the world, and may die before it and after it.
    fn between<T>(&self, method: impl Future<Output = T>) -> impl Future<Output = T> {
        // On the heap: the engine's future is large without it.
        let method = Box::pin(method);
        async move {
            self.pass().await;
            let result = method.await;
            self.pass().await;
            result
        }
    }

    /// A try that breaks off. The engine has the time of a pause until the next one.
    async fn break_off(&self, deltas: &UnboundedSender<Delta>) {
        let _ = deltas.send(Delta::Usage(Usage {
            input: 100,
            output: 1,
            ..Usage::default()
        }));
        let _ = deltas.send(Delta::Retry {
            after_ms: 0,
            until_ms: 0,
            failure: Failure::new(FailureClass::Network, "the stream was cut"),
        });
        self.outside.borrow_mut().broken += 1;
        tokio::task::yield_now().await;
        self.pass().await;
        self.outside.borrow_mut().tried_again += 1;
    }

    /// Dies here when it is time to.
    async fn pass(&self) {
        let (die, crash) = {
            let mut outside = self.outside.borrow_mut();
            outside.passed += 1;
            let now = outside.passed;
            if outside.servers.dies_at.contains(&now) {
                let acted = outside.servers.die(now.is_multiple_of(2));
                acted.into_iter().for_each(|call| outside.effect(call));
            }
            if outside.pause_at == Some(now)
                && let Some(commands) = &outside.commands
            {
                let _ = commands.send(Command::Signal(Signal::Pause { seen: 0 }));
            }
            if outside.stop_at == Some(now)
                && let Some(commands) = &outside.commands
            {
                let _ = commands.send(Command::STOP);
            }
            if outside.say_at == Some(now)
                && let Some(commands) = &outside.commands
            {
                let message = Message {
                    text: ALSO.into(),
                    images: vec![],
                    via: Via::Queue,
                    command: None,
                    origin: None,
                };
                let say = Command::Say {
                    message,
                    blobs: vec![],
                };
                let _ = commands.send(say);
            }
            if let Some((_, act)) = outside.other.take_if(|(at, _)| *at == now) {
                act();
            }
            let does = outside.person.at_boundary(now);
            outside.send(does);
            (outside.crashes.contains(&now), outside.crash.clone())
        };
        if die {
            crash.notify_one();
            std::future::pending::<()>().await;
        }
        if self.outside.borrow().interleaves {
            tokio::task::yield_now().await;
        }
    }

    /// The result of an edit. Only checks need to know the file.
    fn wrote(&self, call: &ToolCall) -> ToolResult {
        let outside = self.outside.borrow();
        let content = outside.files.get("f").filter(|_| outside.has_checks);
        let wrote = content.map(|content| Fact::Wrote {
            path: "/w/f".into(),
            hash: hash(content),
        });
        Fake::done(call, wrote)
    }

    fn done(call: &ToolCall, fact: Option<Fact>) -> ToolResult {
        ran(Outcome::done(format!("{} happened", marker(call.id))), fact)
    }

    fn started_in_background(call: &ToolCall, run: &str) -> ToolResult {
        let fact = Fact::Background {
            id: marker(call.id),
            run: run.into(),
            command: "server".into(),
            child: None,
        };
        Fake::done(call, Some(fact))
    }

    fn child_in_background(call: &ToolCall, session: &str) -> ToolResult {
        let fact = Fact::Background {
            id: marker(call.id),
            run: format!("of {session}"),
            command: "task".into(),
            child: Some(ChildRun {
                session: session.into(),
                before: Vec::new(),
                worked_ms: 0,
            }),
        };
        Fake::done(call, Some(fact))
    }

    /// It acts and ends between the looks at it; one whose process is gone is started again.
    fn child_end(&self, id: &str, session: &str) -> Option<BackgroundEnd> {
        let mut outside = self.outside.borrow_mut();
        let Child { done, ended, .. } = outside.children[session];
        match (ended, outside.at_work.contains(session)) {
            (true, _) => {
                return Some(BackgroundEnd {
                    spent: Vec::new(),
                    exit_code: Some(0),
                    text: format!("{id} ended"),
                    blobs: Vec::new(),
                });
            }
            (false, false) => outside.child_starts(session),
            (false, true) if done => outside.child_ends(session),
            (false, true) => outside.child_acts(session),
        }
        None
    }

    fn lost(why: &str) -> Settled {
        let outcome = Outcome::Interrupted {
            output: Output::default(),
            why: why.into(),
        };
        Settled::Ended(ran(outcome, None))
    }

    /// What the server was given is done and answered.
    fn servers_work(&self) {
        let mut outside = self.outside.borrow_mut();
        let acted = outside.servers.work();
        acted.into_iter().for_each(|call| outside.effect(call));
    }

    /// What a server wants to know first, until it knows it. It may be told what is in the log,
    /// and nothing else.
    async fn server_asks_of(&self, call: CallId, run: &str, request: &str) {
        loop {
            let Some(key) = self.outside.borrow().servers.asks(run, request) else {
                return;
            };
            let (reply, answered) = oneshot::channel();
            let asked = ServerAsks {
                question: question(&key),
                reply,
            };
            self.asks.send(asked).expect("the engine is there");
            let Ok(answer) = answered.await else {
                return std::future::pending().await;
            };
            self.pass().await;
            {
                let mut outside = self.outside.borrow_mut();
                let recorded = outside.answered.get(&(call, key.clone()));
                assert_eq!(recorded, Some(&answer), "{call}, {key}: not in the log");
                outside.servers.tell(run, request, answer);
            }
            self.pass().await;
        }
    }

    async fn settle_served(&self, call: &ToolCall, guard: &Guard, stop: bool) -> Settled {
        let Guard::Served {
            run,
            request,
            repeatable,
            ..
        } = guard
        else {
            return Fake::lost("another guard");
        };
        let again = || {
            let mut outside = self.outside.borrow_mut();
            let boot = outside.boot;
            Settled::NotBegun(outside.servers.guard(call.id, &call.name, boot))
        };
        let fate = || self.outside.borrow().servers.fate(run, request);
        if fate() == Fate::Running && !stop {
            self.pass().await;
            self.server_asks_of(call.id, run, request).await;
            self.servers_work();
        }
        match fate() {
            Fate::Answered => Settled::Ended(Fake::done(call, None)),
            Fate::NotBegun { is_alive } if is_alive || stop => Settled::NotBegun(guard.clone()),
            Fate::NotBegun { .. } => again(),
            // It was told to end the call, and may do it all the same.
            Fate::Running => {
                self.servers_work();
                Fake::lost("stopped")
            }
            Fate::Lost if *repeatable && !stop => again(),
            Fate::Lost => Fake::lost("it may or may not have happened"),
        }
    }

    async fn settle_run(&self, call: &ToolCall, guard: &Guard, stop: bool) -> Settled {
        let Guard::Supervised {
            run: name,
            background,
            ..
        } = guard
        else {
            return Fake::lost("another guard");
        };
        let mut outside = self.outside.borrow_mut();
        let boot = outside.boot;
        let Some(run) = outside.runs.get_mut(name) else {
            return Fake::lost("no run folder");
        };
        if !run.running && !run.ended {
            // Whoever creates the claim has decided. Behind a claim with which nothing began
            // was one that settled.
            run.claimed = true;
            if run.boot != boot {
                return Fake::lost("another boot");
            }
            if stop {
                return Settled::NotBegun(guard.clone());
            }
            return Settled::NotBegun(outside.prepare_run(call.id, *background));
        }
        if *background {
            return Settled::Ended(Fake::started_in_background(call, name));
        }
        if stop {
            run.running = false;
            run.ended = true;
            return Fake::lost("stopped");
        }
        run.running = false;
        run.ended = true;
        Settled::Ended(Fake::done(call, None))
    }
}

/// Answers when the session's own model does not.
pub const FALLBACK: &str = "other/model";

impl World for Fake {
    async fn call_model(
        &self,
        request: Request,
        _images: Images,
        deltas: UnboundedSender<Delta>,
    ) -> Result<Reply, Failure> {
        self.between(async {
            crate::valid::assert_valid(&request.messages);
            for part in request.messages.iter().flat_map(|m| m.parts.iter()) {
                if let MessagePart::Result {
                    text,
                    is_error: false,
                    name,
                    ..
                } = part
                    && ["bash", "write", "edit", "mcp__far__poke", NEAR, AGAIN, ASKS]
                        .contains(&name.as_str())
                {
                    assert!(text.contains("happened"), "{text}");
                }
            }
            let turn = self.outside.borrow().replies;
            let _ = deltas.send(Delta::Text("streaming".into()));
            self.outside.borrow_mut().asked.push(request.model.clone());
            // The user works too.
            self.outside.borrow_mut().edits += 1;
            if self.outside.borrow().breaks {
                self.break_off(&deltas).await;
            }
            self.pass().await;
            if self.outside.borrow().overloaded && request.model != FALLBACK {
                return Err(Failure {
                    class: FailureClass::Overloaded,
                    message: "busy".into(),
                    hint: None,
                });
            }
            let script = &self.outside.borrow().script.0;
            let blocks = script
                .get(turn)
                .cloned()
                .unwrap_or_else(|| vec![Block::text("done")]);
            // The first answer without a call, and two more: it ends, also if it is continued too
            // often.
            let is_call = |block: &Block| matches!(block, Block::Call { .. });
            let first = script.iter().position(|blocks| !blocks.iter().any(is_call));
            let first = first.unwrap_or(script.len());
            let is_cut = self.outside.borrow().cuts && (first..first + 3).contains(&turn);
            let stop = match is_cut {
                true => StopReason::MaxTokens,
                false => StopReason::ToolUse,
            };
            Ok(Reply {
                blocks,
                usage: Usage::default(),
                stop,
                has_text_calls: false,
            })
        })
        .await
    }

    async fn summarise(
        &self,
        _request: Request,
        _images: Images,
        _on: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Reply, Failure> {
        self.between(async {
            self.pass().await;
            match self.outside.borrow().summariser_fails {
                true => Err(Failure {
                    class: FailureClass::Overloaded,
                    message: "down".into(),
                    hint: None,
                }),
                false => Ok(Reply {
                    blocks: vec![Block::text("what was done before")],
                    usage: Usage::default(),
                    stop: StopReason::EndTurn,
                    has_text_calls: false,
                }),
            }
        })
        .await
    }

    fn leads_to(&self, call: &ToolCall) -> Result<Option<PathBuf>, String> {
        Ok(self.outside.borrow().leads_to(call))
    }

    async fn run_idempotent(
        &self,
        call: &ToolCall,
        _at: Option<&Path>,
        _room: usize,
    ) -> ToolResult {
        self.between(async {
            *self.outside.borrow_mut().looks.entry(call.id).or_default() += 1;
            let bulk = "x".repeat(self.outside.borrow().bulk);
            let fact = (call.name == "memory_insert").then(|| Fact::Remembered {
                memory: Memory {
                    kind: match call.arguments.contains("episodic") {
                        true => MemoryKind::Episodic,
                        false => MemoryKind::Semantic,
                    },
                    topic: None,
                    text: marker(call.id),
                },
            });
            ran(Outcome::done(format!("{}\n{bulk}", look(call.id))), fact)
        })
        .await
    }

    /// By the end of the wait, all commands have ended.
    async fn wait_for_background(
        &self,
        call: &ToolCall,
        background: &BTreeMap<String, Background>,
    ) -> ToolResult {
        self.between(async {
            let mut outside = self.outside.borrow_mut();
            *outside.looks.entry(call.id).or_default() += 1;
            for background in background.values() {
                if let Some(run) = outside.runs.get_mut(&background.run) {
                    run.running = false;
                    run.ended = true;
                }
            }
            ran(Outcome::done(format!("{}\nended", look(call.id))), None)
        })
        .await
    }

    async fn prepare(
        &self,
        call: &ToolCall,
        access: Option<Access>,
        at: Option<&Path>,
        _state: &rewake::core::state::State,
    ) -> Result<Guard, PrepareError> {
        self.between(async {
            let mut outside = self.outside.borrow_mut();
            self.ready.borrow_mut().insert(call.id);
            match tools::work(call) {
                Ok(Work::Replace(_)) => Ok(Guard::Checked {
                    path: at.map_or_else(|| "f".into(), |at| at.display().to_string()),
                    before: outside.files.get("f").map(|t| hash(t)),
                    after: hash(&content(outside.branch, call)),
                }),
                Ok(Work::Task(order)) => {
                    // One for each time it is made ready: a session whose call was not begun is never
                    // worked in.
                    let session = format!("child-{}", outside.children.len());
                    let child = Child {
                        call: Some(call.id),
                        background: order.background,
                        ..Child::default()
                    };
                    outside.children.insert(session.clone(), child);
                    Ok(child_guard(session, &outside))
                }
                Ok(Work::Run(command)) => {
                    let expected = access_of(&command.line);
                    assert_eq!(access, Some(expected), "a command without its access");
                    if expected == Access::Read {
                        outside.reading.insert(marker(call.id));
                    }
                    Ok(outside.prepare_run(call.id, command.background))
                }
                Ok(Work::Served(order)) if order.name.starts_with("mcp__near__") => {
                    let boot = outside.boot;
                    Ok(outside.servers.guard(call.id, &order.name, boot))
                }
                _ => Ok(Guard::Opaque),
            }
        })
        .await
    }

    async fn server_asks(&self) -> ServerAsks {
        let asked = poll_fn(|cx| self.asked.borrow_mut().poll_recv(cx)).await;
        asked.expect("this is the sender")
    }

    async fn snapshot(&self, wish: SnapshotRequest) -> Snapshot {
        self.between(async {
            let tree = self.outside.borrow().tree();
            match wish.last == Some(tree.name()) {
                true => Snapshot::Same(tree.name()),
                false => Snapshot::New(Box::new(tree)),
            }
        })
        .await
    }

    fn root(&self) -> PathBuf {
        PathBuf::from("/w")
    }

    async fn restore(&self, order: RestoreOrder) -> RestoreEnd {
        self.between(async {
            self.outside.borrow_mut().restored.insert(order.target);
            RestoreEnd {
                written: 1,
                kept: BTreeMap::from([(b"open".to_vec(), KeptWhy::Open)]),
                ..RestoreEnd::default()
            }
        })
        .await
    }

    async fn act(&self, call: &ToolCall, guard: &Guard) -> Option<ToolResult> {
        self.between(async {
            let name = self.outside.borrow().begun.clone();
            if let Some(target) = name {
                let is_done = self.outside.borrow().restored.contains(&target);
                assert!(is_done, "{} acts on files that are half set back", call.id);
            }
            if self.ready.borrow_mut().remove(&call.id) {
                let name = self.outside.borrow().tree().name();
                self.outside.borrow_mut().files_at.insert(call.id, name);
            }
            Some(match guard {
                Guard::Child {
                    session,
                    background,
                    ..
                } => {
                    self.pass().await;
                    self.outside.borrow_mut().child_starts(session);
                    self.pass().await;
                    return background.then(|| Fake::child_in_background(call, session));
                }
                Guard::Checked { before, .. } => {
                    self.pass().await;
                    {
                        let mut outside = self.outside.borrow_mut();
                        let now = outside.files.get("f").map(|t| hash(t));
                        if now != *before {
                            return Some(ran(Outcome::error("changed on disk"), None));
                        }
                        let content = content(outside.branch, call);
                        outside.files.insert("f".into(), content);
                        outside.effect(call.id);
                    }
                    self.pass().await;
                    self.wrote(call)
                }
                Guard::Supervised {
                    run, background, ..
                } => {
                    self.outside.borrow_mut().spawned.insert(run.clone());
                    self.outside.borrow_mut().begins_to_act();
                    self.pass().await;
                    if call.arguments.contains("slowly") {
                        tokio::time::sleep(Duration::from_millis(300)).await;
                    }
                    self.outside.borrow_mut().spawned.remove(run);
                    self.outside.borrow_mut().keeper(run);
                    self.pass().await;
                    self.outside.borrow_mut().acting -= 1;
                    if *background {
                        return Some(Fake::started_in_background(call, run));
                    }
                    if let Some(run) = self.outside.borrow_mut().runs.get_mut(run) {
                        run.running = false;
                        run.ended = true;
                    }
                    Fake::done(call, None)
                }
                Guard::Served { run, request, .. } => {
                    self.pass().await;
                    let give = |outside: &mut Outside| {
                        outside.servers.give(run, request, call.id, &call.name);
                    };
                    give(&mut self.outside.borrow_mut());
                    self.pass().await;
                    self.server_asks_of(call.id, run, request).await;
                    self.servers_work();
                    self.pass().await;
                    let fate = self.outside.borrow().servers.fate(run, request);
                    // Of a server that is over the journal says what became of the call.
                    return (fate == Fate::Answered).then(|| Fake::done(call, None));
                }
                Guard::Asks => unreachable!("the engine asks"),
                Guard::Opaque => {
                    self.pass().await;
                    self.outside.borrow_mut().effect(call.id);
                    self.pass().await;
                    Fake::done(call, None)
                }
            })
        })
        .await
    }

    fn is_at_work(&self, guard: &Guard) -> bool {
        let outside = self.outside.borrow();
        match guard {
            Guard::Supervised {
                run, background, ..
            } => !background && outside.runs.get(run).is_some_and(|run| run.running),
            Guard::Child {
                session,
                background,
                ..
            } => !background && outside.at_work.contains(session),
            Guard::Served { run, request, .. } => {
                outside.servers.fate(run, request) == Fate::Running
            }
            Guard::Checked { .. } | Guard::Asks | Guard::Opaque => false,
        }
    }

    async fn settle(
        &self,
        call: &ToolCall,
        guard: &Guard,
        access: Option<Access>,
        stop: bool,
    ) -> Settled {
        self.between(async {
            if let Ok(Work::Run(command)) = tools::work(call) {
                let expected = access_of(&command.line);
                assert_eq!(access, Some(expected), "the access was not recorded");
            }
            match guard {
                Guard::Checked { before, after, .. } => {
                    let now = self.outside.borrow().files.get("f").map(|t| hash(t));
                    if now.as_ref() == Some(after) {
                        Settled::Ended(self.wrote(call))
                    } else if now == *before {
                        Settled::NotBegun(guard.clone())
                    } else {
                        Fake::lost("the file is another")
                    }
                }
                Guard::Supervised { .. } => {
                    self.pass().await;
                    let settled = self.settle_run(call, guard, stop).await;
                    // A keeper of the dead process may come to life at any time.
                    self.outside.borrow_mut().keepers_come_to_life();
                    self.pass().await;
                    settled
                }
                Guard::Child {
                    session,
                    background,
                    ..
                } => {
                    self.pass().await;
                    let (is_at_work, ended) = {
                        let outside = self.outside.borrow();
                        (
                            outside.at_work.contains(session),
                            outside.children[session].ended,
                        )
                    };
                    if is_at_work && *background && !stop {
                        return Settled::Ended(Fake::child_in_background(call, session));
                    }
                    if is_at_work && !stop {
                        self.outside.borrow_mut().child_acts(session);
                        self.pass().await;
                        // It may have died with the power.
                        if self.outside.borrow().at_work.contains(session) {
                            self.outside.borrow_mut().child_ends(session);
                        }
                        self.pass().await;
                    } else if !ended && !stop {
                        // Its process is lost, its log is not.
                        let again = child_guard(session.clone(), &self.outside.borrow());
                        return Settled::NotBegun(again);
                    }
                    self.outside.borrow_mut().at_work.remove(session);
                    match self.outside.borrow().children[session].ended {
                        true => Settled::Ended(Fake::done(call, None)),
                        false => Fake::lost("stopped"),
                    }
                }
                Guard::Served { .. } => {
                    self.pass().await;
                    let settled = self.settle_served(call, guard, stop).await;
                    self.pass().await;
                    settled
                }
                Guard::Asks => unreachable!("the engine asks"),
                Guard::Opaque => Fake::lost("it may or may not have happened"),
            }
        })
        .await
    }

    async fn discard(&self, guard: &Guard) {
        self.between(async {
            if let Guard::Supervised { run, .. } = guard {
                self.outside.borrow_mut().runs.remove(run);
            }
        })
        .await
    }

    fn prepare_hooks(&self, occasion: &HookOccasion<'_>, state: &State) -> Vec<HookRun> {
        let mut outside = self.outside.borrow_mut();
        let boot = outside.boot;
        outside.hooks.prepare(boot, occasion, state)
    }

    async fn run_hooks(
        &self,
        event: HookEvent,
        runs: &[HookRun],
        call: Option<&ToolCall>,
        _wrote: Option<&HookWrote>,
        stop: bool,
    ) -> HookEnd {
        self.between(hooks::run(
            &self.outside,
            || self.pass(),
            event,
            runs,
            call,
            stop,
        ))
        .await
    }

    fn background_end(&self, id: &str, background: &Background) -> Option<BackgroundEnd> {
        if let Some(child) = &background.child {
            return self.child_end(id, &child.session);
        }
        let outside = self.outside.borrow();
        let ended = outside.runs.get(&background.run).is_none_or(|r| r.ended);
        ended.then(|| BackgroundEnd {
            spent: Vec::new(),
            exit_code: Some(0),
            text: format!("{id} ended"),
            blobs: Vec::new(),
        })
    }

    async fn prepare_for_user(&self, _command: &str) -> Result<Guard, PrepareError> {
        self.between(async {
            let mut outside = self.outside.borrow_mut();
            outside.next_run += 1;
            let name = format!("run-{}", outside.next_run);
            let run = Run {
                boot: outside.boot,
                of_user: true,
                ..Run::default()
            };
            outside.runs.insert(name.clone(), run);
            Ok(Guard::Supervised {
                run: name,
                boot: outside.boot.to_string(),
                background: true,
            })
        })
        .await
    }

    async fn begin_for_user(&self, guard: &Guard) {
        self.between(async {
            let Guard::Supervised { run, .. } = guard else {
                panic!("a keeper has nothing to begin");
            };
            self.outside.borrow_mut().spawned.insert(run.clone());
            self.pass().await;
            self.outside.borrow_mut().spawned.remove(run);
            self.outside.borrow_mut().keeper(run);
            self.pass().await;
        })
        .await
    }

    fn user_command_end(&self, command: &UserCommand) -> Option<BackgroundEnd> {
        let mut outside = self.outside.borrow_mut();
        let boot = outside.boot;
        let end = |text: &str| BackgroundEnd {
            spent: Vec::new(),
            exit_code: None,
            text: text.to_string(),
            blobs: Vec::new(),
        };
        let Some(run) = outside.runs.get_mut(command.run()?) else {
            return Some(end("lost: no run folder"));
        };
        if run.running {
            // It ends between one look and the next.
            run.running = false;
            run.ended = true;
            return None;
        }
        if run.ended {
            return Some(end(OF_USER));
        }
        run.claimed = true;
        Some(match run.boot == boot {
            true => end("not begun"),
            false => end("lost: another boot"),
        })
    }

    async fn prepare_check(&self, _check: &Check) -> Result<Guard, PrepareError> {
        self.between(async {
            let mut outside = self.outside.borrow_mut();
            let boot = outside.boot;
            Ok(Guard::Supervised {
                run: outside.hooks.prepare_check(boot),
                boot: boot.to_string(),
                background: false,
            })
        })
        .await
    }

    async fn run_check(&self, run: &str, _boot: &str, stop: bool) -> CheckRun {
        self.between(checks::run(&self.outside, || self.pass(), run, stop))
            .await
    }

    fn printed_bytes(&self) -> u64 {
        0
    }

    fn file_clock(&self) -> Option<FileClock> {
        Some(FileClock {
            ahead_ms: -30_000,
            booted_ms: Some(self.outside.borrow().clock_ms),
        })
    }

    fn now_ms(&self) -> i64 {
        let mut outside = self.outside.borrow_mut();
        outside.clock_ms += 1;
        outside.clock_ms
    }

    async fn boundary(&self, at: Boundary) {
        let watch = self.outside.borrow_mut().watch.take();
        if let Some(mut watch) = watch {
            watch(at);
            self.outside.borrow_mut().watch = Some(watch);
        }
        self.pass().await;
    }
}
