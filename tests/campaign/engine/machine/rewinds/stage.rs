//! The real side: a session in a folder, whose model calls what it is told to.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rewake::core::access::Access;
use rewake::core::budget::Budget;
use rewake::core::entry::*;
use rewake::core::file_clock::FileClock;
use rewake::core::next::Why;
use rewake::core::policy::{Decision, Judgement};
use rewake::core::request::Request;
use rewake::core::rewind::PathChoice;
use rewake::core::settings::Policy;
use rewake::core::state::{Background, State, UserCommand};
use rewake::core::summary::Fallback;
use rewake::core::tool::ToolCall;
use rewake::engine::{Back, Command, Engine, Log, RestReason, Rewind, Settings, Summarising};
use rewake::model::{Delta, Reply};
use rewake::session::context::windows;
use rewake::store::{Message, NewSession, Store, new_id, now_ms};
use rewake::tools::ToolResult;
use rewake::workspace::files::{Coverage, FileTimes, Unwatched, max_watches};
use rewake::world::machine::Machine;
use rewake::world::{
    BackgroundEnd, Images, Keeping, PrepareError, RestoreEnd, RestoreOrder, Settled, Snapshot,
    SnapshotRequest, World,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::super::bench::Bench;
use super::model::{File, PATHS, State as FileState, name};

/// So many that a tree with some changes is still a delta.
const OTHER_FILES: usize = 60;

/// What is to come back from no rewind.
const UNTOUCHED: [(&str, &str); 3] = [
    (".git/config", "theirs"),
    ("out/ignored", "not covered"),
    (".gitignore", "out/\n"),
];

pub struct Stage {
    engine: Engine<Puppet>,
    answers: Rc<RefCell<VecDeque<Vec<Block>>>>,
    say: UnboundedSender<Command>,
    bench: Bench,
    session: String,
}

impl Stage {
    pub fn new(is_watched: bool) -> Stage {
        let bench = Bench::new();
        let root = bench.folder.path().join("work").canonicalize().unwrap();
        for (name, content) in UNTOUCHED {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), content).unwrap();
        }
        fs::create_dir(root.join("other")).unwrap();
        for n in 0..OTHER_FILES {
            fs::write(root.join(format!("other/{n}")), n.to_string()).unwrap();
        }
        let data_dir = bench.folder.path().join("data");
        let mut store = Store::open(&data_dir).unwrap();
        let workspace = root.display().to_string();
        let new = NewSession {
            id: new_id(),
            workspace: workspace.clone(),
            folder: workspace.clone(),
        };
        let (head, record) = store.create(&new, 0, opened(workspace)).unwrap();
        let state = State::of(rewake::tools::describe, &[record]).unwrap();
        let mut machine = bench.machine();
        let keeping = Keeping {
            coverage: Coverage::new(root, Vec::new(), &[], &[]).unwrap(),
            only_written: None,
            wait: Duration::from_secs(60),
            max_bytes: u64::MAX,
            data_dir,
            watch: match is_watched {
                true => Ok(max_watches()),
                false => Err(Unwatched::Off),
            },
        };
        machine.start_snapshots(keeping).unwrap();
        let answers = Rc::default();
        let world = Rc::new(Puppet {
            machine,
            answers: Rc::clone(&answers),
            ahead_ms: if is_watched { 30_000 } else { -30_000 },
        });
        let (say, inbox) = unbounded_channel();
        let session = head.session().to_string();
        let log = Log {
            store,
            head,
            state,
            shared: None,
        };
        let engine = Engine::new(log, world, settings(), inbox, Box::new(|_, _| {}));
        Stage {
            engine,
            answers,
            say,
            bench,
            session,
        }
    }

    /// The agent renames a file with a command.
    pub async fn rename(&mut self, from: usize, to: usize) {
        let command = format!("mkdir -p d; mv -f {} {}", PATHS[from], PATHS[to]);
        let call = call("bash", json!({ "command": command }));
        self.answer(VecDeque::from([vec![call], vec![Block::text("done")]]))
            .await;
    }

    /// The agent gives each of these files this content: the path, whether it is there, what it is
    /// to be, and whether a command does it.
    pub async fn turn(&mut self, calls: &[(usize, bool, FileState, bool)]) {
        let mut answers = VecDeque::new();
        for (path, is_there, to, by_shell) in calls {
            let path = PATHS[*path];
            if *by_shell {
                let command = command(path, to.as_ref());
                answers.push_back(vec![call("bash", json!({ "command": command }))]);
                continue;
            }
            if *is_there {
                answers.push_back(vec![call("read", json!({ "path": path }))]);
            }
            let content = to.as_ref().map(text).unwrap_or_default();
            let arguments = json!({ "path": path, "content": content });
            answers.push_back(vec![call("write", arguments)]);
        }
        answers.push_back(vec![Block::text("done")]);
        self.answer(answers).await;
    }

    async fn answer(&mut self, answers: VecDeque<Vec<Block>>) {
        self.answers.replace(answers);
        let message = Message {
            text: "go".into(),
            images: vec![],
            via: Via::Prompt,
            command: None,
            origin: None,
        };
        let say = Command::Say {
            message,
            blobs: vec![],
        };
        self.say.send(say).ok().unwrap();
        let rest = self.engine.run().await.unwrap();
        assert_eq!(rest, RestReason::Waiting(Why::Idle));
        assert!(self.answers.borrow().is_empty(), "a call was refused");
    }

    /// The last entry.
    pub fn place(&self) -> u64 {
        self.engine.state().next_seq() - 1
    }

    pub async fn rewind(
        &mut self,
        to: Option<u64>,
        whole: bool,
        chosen: &[(usize, bool)],
        only: Option<&[usize]>,
    ) {
        let path = |path: &usize| PATHS[*path].as_bytes().to_vec();
        let choice = |take: bool| {
            if take {
                PathChoice::Take
            } else {
                PathChoice::Keep
            }
        };
        let chosen: BTreeMap<_, _> = chosen
            .iter()
            .map(|(p, take)| (path(p), choice(*take)))
            .collect();
        let wanted = Rewind {
            back: to.map_or(Back::Undo, Back::To),
            whole,
            only: only.map(|only| only.iter().map(path).collect()),
            allowed: BTreeSet::new(),
            chosen,
            is_protected: Arc::new(|_| false),
        };
        let rewinding = self.engine.plan_rewind(&wanted).await.unwrap();
        if let Some(restored) = self.engine.rewind(rewinding).await.unwrap() {
            let Entry::Restored { why, kept, .. } = restored else {
                panic!("{restored:?}");
            };
            assert_eq!(why, None);
            // Nobody writes meanwhile.
            let changed = kept.iter().find(|kept| kept.why == KeptWhy::Changed);
            assert_eq!(changed, None);
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.bench.folder.path().join("work").join(name)
    }

    pub fn put(&self, path: usize, to: Option<&File>) {
        let path = self.path(PATHS[path]);
        let Some(file) = to else {
            fs::remove_file(path).unwrap_or_default();
            return;
        };
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text(file)).unwrap();
        // As chmod +x and -x: the other bits stay as the umask has made them.
        let before = fs::metadata(&path).unwrap().permissions().mode();
        let mode = if file.is_executable {
            before | 0o111
        } else {
            before & !0o111
        };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    pub fn get(&self, path: usize) -> FileState {
        let path = self.path(&name(path));
        let content = fs::read_to_string(&path).ok()?;
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        Some(File {
            cells: cells(&content),
            is_executable: mode & 0o100 != 0,
        })
    }

    /// What the log says of the files, for who looks for a fault.
    pub fn log(&self) -> String {
        let store = Store::open(&self.bench.folder.path().join("data")).unwrap();
        let (_, records) = store.load(&self.session).unwrap();
        let is_of_files = |r: &&Record| {
            rewake::core::tree::named(&r.entry).is_some()
                || matches!(r.entry, Entry::Started { .. } | Entry::Restoring { .. })
        };
        let line = |r: &Record| format!("{} {:?}\n", r.seq, r.entry);
        records.iter().filter(is_of_files).map(line).collect()
    }

    /// What is not covered is as it was, and nothing is left lying about.
    pub fn check_the_rest(&self) {
        for (name, content) in UNTOUCHED {
            assert_eq!(self.bench.get(name), content, "{name}");
        }
        for n in 0..OTHER_FILES {
            assert_eq!(self.bench.get(&format!("other/{n}")), n.to_string());
        }
        for folder in ["", "d"] {
            let names = fs::read_dir(self.path(folder))
                .into_iter()
                .flatten()
                .flatten();
            let left = names.filter(|e| e.file_name().as_bytes().starts_with(b".rewake"));
            assert_eq!(left.count(), 0);
        }
    }
}

fn text(file: &File) -> String {
    let lines = file.cells.iter().enumerate();
    let lines = lines.map(|(n, cell)| format!("{cell}\n{n} below\n{n} between\n{n} above\n"));
    lines.collect()
}

fn cells(content: &str) -> [u32; 3] {
    let lines: Vec<&str> = content.lines().collect();
    assert_eq!(lines.len(), 12, "{content}");
    std::array::from_fn(|n| lines[n * 4].parse().unwrap())
}

fn command(path: &str, to: Option<&File>) -> String {
    match to {
        None => format!("rm -f {path}"),
        Some(file) => {
            let mode = if file.is_executable { "+x" } else { "-x" };
            format!(
                "mkdir -p d; printf '%s' '{}' > {path}; chmod {mode} {path}",
                text(file)
            )
        }
    }
}

fn call(name: &str, arguments: Value) -> Block {
    Block::call(name, arguments.to_string())
}

fn opened(folder: String) -> Entry {
    let spec = |name: &str| ToolSpec {
        name: name.into(),
        description: String::new(),
        schema: json!({"type": "object"}),
    };
    Entry::Opened {
        folder,
        version: "0".into(),
        model: "test/model".into(),
        mode: Mode::Default,
        layers: PromptPrefix {
            tools: ["read", "write", "bash"].map(spec).into(),
            ..PromptPrefix::default()
        },
        imported: None,
    }
}

fn settings() -> Settings {
    Settings {
        policy: Policy {
            served_check: std::sync::Arc::new(|_| Ok(())),
            permission_check: Arc::new(|_, _, _| Judgement {
                decision: Decision::Allow,
                access: Some(Access::Full),
            }),
            interactive: false,
            background: Default::default(),
            sandbox: Default::default(),
            checks: Vec::new(),
            max_turns: None,
            loop_guard: true,
            budget: Arc::new(|_, _, _| Budget::new(1_000_000, 1_000, None)),
            windows: windows(&rewake::config::Config::default()),
            price: Arc::new(|_, _| None),
        },
        begins_within: Duration::from_millis(5),
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
    }
}

/// This machine, with a model that calls what it is told to.
struct Puppet {
    machine: Machine,
    answers: Rc<RefCell<VecDeque<Vec<Block>>>>,
    /// By so much the clock of this process is ahead of that of the files.
    ahead_ms: i64,
}

impl World for Puppet {
    async fn call_model(
        &self,
        _request: Request,
        _images: Images,
        _deltas: UnboundedSender<Delta>,
    ) -> Result<Reply, Failure> {
        let blocks = self.answers.borrow_mut().pop_front().unwrap();
        Ok(Reply {
            blocks,
            usage: Usage::default(),
            stop: StopReason::ToolUse,
            has_text_calls: false,
        })
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

    async fn run_idempotent(&self, call: &ToolCall, at: Option<&Path>, room: usize) -> ToolResult {
        self.machine.run_idempotent(call, at, room).await
    }

    async fn wait_for_background(
        &self,
        call: &ToolCall,
        background: &BTreeMap<String, Background>,
    ) -> ToolResult {
        self.machine.wait_for_background(call, background).await
    }

    async fn prepare(
        &self,
        call: &ToolCall,
        access: Option<Access>,
        at: Option<&Path>,
        state: &State,
    ) -> Result<Guard, PrepareError> {
        self.machine.prepare(call, access, at, state).await
    }

    async fn snapshot(&self, wish: SnapshotRequest) -> Snapshot {
        self.machine.snapshot(wish).await
    }

    fn root(&self) -> PathBuf {
        self.machine.root()
    }

    async fn restore(&self, order: RestoreOrder) -> RestoreEnd {
        self.machine.restore(order).await
    }

    fn file_clock(&self) -> Option<FileClock> {
        let clock = self.machine.file_clock()?;
        Some(FileClock {
            ahead_ms: clock.ahead_ms - self.ahead_ms,
            ..clock
        })
    }

    fn file_times(&self, root: &Path) -> FileTimes {
        let ahead_ms = self.ahead_ms;
        FileTimes::new(root, move || now_ms() + ahead_ms)
    }

    fn scan_ahead(&self, wish: SnapshotRequest) {
        self.machine.scan_ahead(wish);
    }

    async fn act(&self, call: &ToolCall, guard: &Guard) -> Option<ToolResult> {
        self.machine.act(call, guard).await
    }

    async fn settle(
        &self,
        call: &ToolCall,
        guard: &Guard,
        access: Option<Access>,
        stop: bool,
    ) -> Settled {
        self.machine.settle(call, guard, access, stop).await
    }

    async fn discard(&self, guard: &Guard) {
        self.machine.discard(guard).await;
    }

    async fn prepare_for_user(&self, command: &str) -> Result<Guard, PrepareError> {
        self.machine.prepare_for_user(command).await
    }

    async fn begin_for_user(&self, guard: &Guard) {
        self.machine.begin_for_user(guard).await;
    }

    fn user_command_end(&self, command: &UserCommand) -> Option<BackgroundEnd> {
        self.machine.user_command_end(command)
    }

    fn background_end(&self, id: &str, background: &Background) -> Option<BackgroundEnd> {
        self.machine.background_end(id, background)
    }

    fn printed_bytes(&self) -> u64 {
        self.machine.printed_bytes()
    }

    fn now_ms(&self) -> i64 {
        self.machine.now_ms() + self.ahead_ms
    }
}
