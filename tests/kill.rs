//! The kill campaign: the real binary works on a task of 40 calls and is killed with SIGKILL
//! at random instants, then taken up again until it is done. What is counted afterwards:
//! finished calls that were lost, side effects that happened twice, requests that a real
//! API would have refused. All three must be zero.
//!
//! Only the agent is killed. The keepers of its commands live on, so no command may be in
//! doubt here; what a killed keeper means is shown in `resume`.
//!
//! `REWAKE_KILL_SEED=N` plays one campaign again; a failure prints its seed. The instants
//! are measured against a real clock, so a seed repeats the intent, not the schedule.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "all of this file is a test; clippy sees only the #[test] functions as such"
)]

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rewake::headless::entry_line;
use rewake::store::Store;
use serde_json::{Value, json};
use support::{Answer, Home, Live, Options, Protocol, Run, Says, Seen, Server};

const KILLS: usize = 100;
/// Of those, at least so many in each phase that matters.
const KILLS_A_PHASE: usize = 5;
const CALLS: usize = 40;
/// Of one task; far more than kills can explain.
const MAX_STARTS: usize = 300;
const MAX_TASKS: usize = 100;
const FINAL_WORDS: &str = "everything is done";
const PROMPT: &str = "do the task";
const LIMIT: Duration = Duration::from_secs(60);

/// Held alone while half a second counts, so that nothing else of this file loads the machine.
static QUIET: RwLock<()> = RwLock::new(());

#[test]
fn anthropic() {
    campaign(Protocol::Anthropic);
}

#[test]
fn chat() {
    campaign(Protocol::Chat);
}

#[test]
fn responses() {
    campaign(Protocol::Responses);
}

#[test]
fn gemini() {
    campaign(Protocol::Gemini);
}

/// Where in its work a process was when it was killed, as far as it had said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Before it said which session it has.
    Opening,
    /// A request was out.
    Model,
    /// A command ran.
    Command,
    /// A file was being replaced: a matter of microseconds.
    File,
    Between,
}

/// What a campaign has seen; a campaign that saw nothing has shown nothing.
#[derive(Debug, Default)]
struct Tally {
    kills: BTreeMap<Phase, usize>,
    tasks: usize,
    starts: usize,
    /// Results printed by processes that were killed later.
    printed_results: usize,
    /// Commands whose result was given by another process than the one that started them.
    re_attached: usize,
}

impl Tally {
    fn all_kills(&self) -> usize {
        self.kills.values().sum()
    }

    fn is_enough(&self) -> bool {
        let phases = [Phase::Opening, Phase::Model, Phase::Command, Phase::Between];
        let hit = |phase| self.kills.get(phase).copied().unwrap_or(0) >= KILLS_A_PHASE;
        self.all_kills() >= KILLS && phases.iter().all(hit)
    }
}

/// Tasks, each in a session of its own, until enough kills have hit a running process.
fn campaign(protocol: Protocol) {
    let seed = match std::env::var("REWAKE_KILL_SEED") {
        Ok(text) => text.parse().expect("REWAKE_KILL_SEED is a number"),
        Err(_) => seed_of_now(),
    };
    // Printed when a test fails.
    println!("REWAKE_KILL_SEED={seed}");
    let mut random = Random(seed);
    let mut tally = Tally::default();
    while !tally.is_enough() {
        let _loud = QUIET.read().unwrap_or_else(PoisonError::into_inner);
        tally.tasks += 1;
        assert!(
            tally.tasks <= MAX_TASKS,
            "seed {seed}: not hit often enough: {tally:?}"
        );
        let name = format!("{} seed {seed} task {}", protocol.name(), tally.tasks);
        let mut task = Task::new(protocol, name);
        task.work(&mut random, &mut tally);
        task.check(&mut tally);
    }
    println!("{}: {tally:?}, seed {seed}", protocol.name());
    assert!(tally.printed_results > KILLS, "{tally:?}");
    assert!(tally.re_attached > 0, "{tally:?}");
}

/// One session, from its prompt to its last answer.
struct Task {
    name: String,
    home: Home,
    server: Server,
    heard: Arc<Mutex<Heard>>,
    session: Option<String>,
    /// The class of the call that was begun and is not finished, as far as was printed.
    begun: Option<String>,
    /// Every entry that any process of this task has printed.
    printed: Vec<Value>,
    /// A process that was given the words has said which session it has.
    words_were_taken: bool,
}

/// What the server was told: the text of each result by its place in the conversation, and
/// whether two requests ever disagreed on one.
#[derive(Default)]
struct Heard {
    texts: Vec<String>,
    changed: Vec<String>,
}

impl Task {
    fn new(protocol: Protocol, name: String) -> Task {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let server = serve(heard.clone());
        let home = Home::with(&server, protocol);
        Task {
            name,
            home,
            server,
            heard,
            session: None,
            begun: None,
            printed: Vec::new(),
            words_were_taken: false,
        }
    }

    /// Starts a process again and again, as a person would, until the work is done.
    fn work(&mut self, random: &mut Random, tally: &mut Tally) {
        let mut args = vec!["-p".to_string(), PROMPT.to_string()];
        for _ in 0..MAX_STARTS {
            tally.starts += 1;
            let run = self.live(&args, random, tally);
            let go_on = ["-p".to_string(), "-c".to_string()];
            args = match run.code() {
                None => go_on.to_vec(),
                Some(0) if self.server.requests().is_empty() => {
                    self.words_were_never_taken();
                    [&go_on[..], &[PROMPT.to_string()]].concat()
                }
                Some(0) => return,
                // Killed before there was a session: the task is given again.
                Some(2) if run.stderr.contains("there is no session") => {
                    self.words_were_never_taken();
                    vec!["-p".to_string(), PROMPT.to_string()]
                }
                // Held after three starts without progress: a person names the session.
                Some(75) if run.stderr.contains("held") => {
                    let id = self.session.clone().expect("a session that is held");
                    vec!["-p".to_string(), "-r".to_string(), id]
                }
                Some(code) => panic!(
                    "exit {code}\n{}\n{}\n{}",
                    run.stdout,
                    run.stderr,
                    self.tell()
                ),
            };
        }
        panic!("it does not come to its end: {}", self.tell());
    }

    /// A process that is killed after a random time, if it is still there.
    fn live(&mut self, args: &[String], random: &mut Random, tally: &mut Tally) -> Run {
        let asked_before = self.server.requests().len();
        let format = ["--yolo", "--output-format", "stream-json"].map(String::from);
        let mut live = Live::spawn(self.home.rewake(args.iter().chain(&format)));
        std::thread::sleep(random.instant());
        let killed = live.kill();
        let run = live.wait(LIMIT);
        let asked = self.server.requests().len() - asked_before;
        let events = run.events();
        for event in &events {
            self.take(event);
        }
        self.words_were_taken |= !events.is_empty() && args.iter().any(|arg| arg == PROMPT);
        // One that had just ended by itself was not hit.
        if killed && run.signal() == Some(9) {
            *tally.kills.entry(self.phase(&events, asked)).or_default() += 1;
            tally.printed_results += count(&events, "entry.finished");
        }
        run
    }

    fn take(&mut self, event: &Value) {
        match event["type"].as_str().unwrap_or_default() {
            "session.opened" | "session.resumed" => {
                let id = event["session"].as_str().expect("a session has an id");
                let known = self.session.get_or_insert_with(|| id.to_string());
                assert_eq!(*known, id, "{}: another session was taken", self.name);
            }
            "entry.started" => {
                self.begun = event["guard"]["class"].as_str().map(str::to_string);
            }
            "entry.finished" => self.begun = None,
            _ => {}
        }
        if event["seq"].is_u64() {
            self.printed.push(event.clone());
        }
    }

    fn phase(&self, events: &[Value], asked: usize) -> Phase {
        let answered = count(events, "entry.replied");
        match self.begun.as_deref() {
            _ if events.is_empty() => Phase::Opening,
            _ if asked > answered => Phase::Model,
            Some("supervised") => Phase::Command,
            Some(_) => Phase::File,
            None => Phase::Between,
        }
    }

    /// Who was told of the session may count on its having the words.
    fn words_were_never_taken(&self) {
        assert!(
            !self.words_were_taken,
            "the words are lost: {}",
            self.tell()
        );
    }

    fn check(&self, tally: &mut Tally) {
        let violations = self.server.violations();
        assert!(
            violations.is_empty(),
            "{}\n{}",
            violations.join("\n"),
            self.tell()
        );
        self.check_what_was_printed();
        let heard = self.heard.lock().unwrap();
        assert_eq!(heard.changed, Vec::<String>::new(), "{}", self.tell());
        self.check_results(&heard.texts);
        self.check_files();
        let went_on = |text: &&String| text.contains("while rewake was down");
        tally.re_attached += heard.texts.iter().filter(went_on).count();
        drop(heard);
        self.check_that_nothing_is_left();
    }

    /// Each entry that was ever printed is in the log, where it was and as it was.
    fn check_what_was_printed(&self) {
        let store = Store::open(&self.home.rewake_home()).expect("open the store");
        let id = self.session.as_deref().expect("a session");
        let (_, records) = store.load(id).expect("load the session");
        let log: Vec<Value> = records.iter().map(entry_line).collect();
        for printed in &self.printed {
            let seq = printed["seq"].as_u64().expect("a place") as usize;
            assert_eq!(log.get(seq), Some(printed), "{}", self.tell());
        }
        assert_eq!(count(&log, "entry.finished"), CALLS, "{}", self.tell());
        assert_eq!(count(&log, "entry.said"), 1, "{}", self.tell());
        let last = log.iter().rfind(|e| e["type"] == "entry.replied");
        let last = last.expect("an answer").to_string();
        assert!(last.contains(FINAL_WORDS), "{}", self.tell());
    }

    /// The model got the true result of every call.
    fn check_results(&self, results: &[String]) {
        assert_eq!(results.len(), CALLS, "{}", self.tell());
        for (call, text) in script().into_iter().flatten().zip(results) {
            let wanted = call.wanted();
            assert!(
                text.contains(&wanted),
                "the model was told {text:?} of {call:?}: {}",
                self.tell()
            );
        }
    }

    /// Every side effect happened, once, and in its order.
    fn check_files(&self) {
        let effects: Vec<String> = script()
            .into_iter()
            .flatten()
            .filter_map(|call| match call {
                Step::Bash(number) => Some(format!("effect {number}")),
                _ => None,
            })
            .collect();
        let happened = self.home.read("effects.txt");
        let happened: Vec<&str> = happened.lines().collect();
        assert_eq!(happened, effects, "{}", self.tell());
        for round in 0..CALLS / ROUND {
            let text = self.home.read(format!("file-{round}.txt"));
            let wanted = format!("round {round}\ncount: after\n");
            assert_eq!(text, wanted, "{}", self.tell());
        }
    }

    /// One more start finds nothing to do, and tidies up what the kills left.
    fn check_that_nothing_is_left(&self) {
        let run = self.home.run(["-p", "-c"]).expect(0);
        assert!(run.stderr.contains("nothing is owed"), "{}", run.stderr);
        let names = |folder| {
            let entries = std::fs::read_dir(folder).expect("list a folder");
            let names = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
            let mut names: Vec<String> = names.collect();
            names.sort();
            names
        };
        let folder = self.home.rewake_home().join("runs");
        let mut runs = names(folder.clone());
        // A half-made one stays until nobody can still be making it.
        runs.retain(|run| folder.join(run).join("status").exists());
        assert_eq!(runs, Vec::<String>::new(), "{}", self.tell());
        let files = (0..CALLS / ROUND).map(|n| format!("file-{n}.txt"));
        let files: Vec<String> = std::iter::once("effects.txt".to_string())
            .chain(files)
            .collect();
        assert_eq!(names(self.home.workspace()), files, "{}", self.tell());
    }

    /// For whoever has to find out what happened.
    fn tell(&self) -> String {
        let id = self.session.as_deref().unwrap_or("none");
        let shown = self.home.run(["show", id]);
        format!("{}\n{}{}", self.name, shown.stdout, shown.stderr)
    }
}

fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|e| e["type"] == kind).count()
}

/// One call of the task.
#[derive(Debug, Clone, Copy)]
enum Step {
    Plan(usize),
    Bash(usize),
    Write(usize),
    Read(usize),
    Edit(usize),
    Grep(usize),
}

/// Calls of one round of the task.
const ROUND: usize = 10;

/// The calls of each turn: every effect class, alone and several in one answer.
fn script() -> Vec<Vec<Step>> {
    use Step::{Bash, Edit, Grep, Plan, Read, Write};
    let round = |n: usize| {
        let bash = |k: usize| Bash(n * 10 + k);
        vec![
            vec![Plan(n)],
            vec![bash(0)],
            vec![Write(n), bash(1)],
            vec![Read(n), Grep(n)],
            vec![Edit(n)],
            vec![bash(2), bash(3), Read(n)],
        ]
    };
    (0..CALLS / ROUND).flat_map(round).collect()
}

impl Step {
    fn add_to(self, says: Says) -> Says {
        match self {
            Step::Plan(n) => says.and_call(
                "plan",
                json!({"steps": [
                    {"text": format!("round {n}"), "state": "current"},
                    {"text": "the rest", "state": "left"},
                ]}),
            ),
            Step::Bash(n) => {
                let pause = n % 4;
                let command =
                    format!("echo effect {n} >> effects.txt; sleep 0.0{pause}; echo ran {n}.");
                says.and_call("bash", json!({"command": command}))
            }
            Step::Write(n) => says.and_call(
                "write",
                json!({
                    "path": format!("file-{n}.txt"),
                    "content": format!("round {n}\ncount: before\n"),
                }),
            ),
            Step::Read(n) => says.and_call("read", json!({"path": format!("file-{n}.txt")})),
            Step::Edit(n) => says.and_call(
                "edit",
                json!({
                    "path": format!("file-{n}.txt"),
                    "edits": [{"old": "count: before", "new": "count: after"}],
                }),
            ),
            Step::Grep(n) => says.and_call("grep", json!({"pattern": format!("round {n}")})),
        }
    }

    /// What the true result says.
    fn wanted(self) -> String {
        match self {
            Step::Plan(_) => "current".to_string(),
            Step::Bash(n) => format!("ran {n}."),
            Step::Read(n) => format!("round {n}"),
            Step::Write(n) | Step::Edit(n) | Step::Grep(n) => format!("file-{n}.txt"),
        }
    }
}

fn serve(heard: Arc<Mutex<Heard>>) -> Server {
    let turns = script();
    let options = Options {
        keep_bodies: false,
        ..Options::default()
    };
    Server::start_with(options, move |seen: &Seen| {
        remember(&heard, seen);
        let says = match turns.get(seen.turn) {
            None => Says::text(FINAL_WORDS),
            Some(calls) => {
                let says = Says::text(format!("turn {}", seen.turn)).thinking("what is next");
                calls.iter().fold(says, |says, call| call.add_to(says))
            }
        };
        Answer::Slow {
            says,
            chunk_bytes: 400,
            delay_ms: 3,
        }
    })
}

/// A result, once sent, is sent again word for word.
fn remember(heard: &Mutex<Heard>, seen: &Seen) {
    let mut heard = heard.lock().unwrap();
    for (place, (id, text)) in seen.results.iter().enumerate() {
        match heard.texts.get(place) {
            None => heard.texts.push(text.clone()),
            Some(before) if before == text => {}
            Some(before) => {
                let change = format!("result {place} ({id}) was {before:?}, is {text:?}");
                heard.changed.push(change);
            }
        }
    }
}

#[test]
fn the_task_has_forty_calls() {
    assert_eq!(script().iter().flatten().count(), CALLS);
}

/// The words that stream, one of them in each event.
const WORDS: usize = 400;

fn word(number: usize) -> String {
    format!("word-{number:04} ")
}

/// Killed in the middle of an answer, twice: what was to be read half a second before is in
/// the next `woke`, and the next request is the same as the one that was cut.
#[test]
fn a_streamed_answer_survives_the_kill() {
    let _quiet = QUIET.write().unwrap_or_else(PoisonError::into_inner);
    let seed = seed_of_now();
    println!("seed {seed}");
    std::thread::scope(|scope| {
        for (place, protocol) in Protocol::ALL.into_iter().enumerate() {
            let random = Random(seed.wrapping_add(place as u64));
            scope.spawn(move || kill_in_the_stream(protocol, random));
        }
    });
}

fn kill_in_the_stream(protocol: Protocol, mut random: Random) {
    let text: String = (0..WORDS).map(word).collect();
    let patient = Arc::new(AtomicBool::new(true));
    let slow = patient.clone();
    let says = Says {
        piece_chars: word(0).len(),
        ..Says::text(text.clone())
    };
    let server = Server::start(move |_| match slow.load(Ordering::Relaxed) {
        true => Answer::Slow {
            says: says.clone(),
            chunk_bytes: 150,
            delay_ms: 8,
        },
        false => says.clone().into(),
    });
    let home = Home::with(&server, protocol);
    let format = ["--output-format", "stream-json"];
    let mut args = vec!["-p", "say it"];
    let mut last_read: Option<String> = None;
    for _ in 0..2 {
        let mut live = Live::spawn(home.rewake(args.iter().chain(&format)));
        if let Some(read) = &last_read {
            let woke = live.wait_for(LIMIT, |line| line.contains("entry.woke"));
            check_draft(&woke, &text, read);
        }
        let read = word(random.between(20, 150) as usize);
        let is_read = |line: &str| line.contains("delta.text") && line.contains(&read);
        live.wait_for(LIMIT, is_read);
        std::thread::sleep(Duration::from_millis(500));
        assert!(live.kill(), "{protocol:?}: the stream was over too soon");
        live.wait(LIMIT);
        last_read = Some(read);
        args = vec!["-p", "-c"];
    }
    patient.store(false, Ordering::Relaxed);
    let run = home.run(args.iter().chain(&format)).expect(0);
    let woke = run.stdout.lines().find(|l| l.contains("entry.woke"));
    check_draft(woke.expect("a woke"), &text, &last_read.expect("a kill"));
    let answer = run.events().pop().expect("a result");
    assert_eq!(answer["result"], json!(text), "{protocol:?}");
    let bodies: Vec<_> = server.requests().into_iter().map(|r| r.body).collect();
    assert_eq!(bodies.len(), 3, "{protocol:?}");
    assert!(bodies.iter().all(|b| *b == bodies[0]), "{protocol:?}");
    server.assert_no_violations();
}

#[track_caller]
fn check_draft(woke: &str, text: &str, read: &str) {
    let woke: Value = serde_json::from_str(woke).expect("a line of JSON");
    let draft = woke["draft"].as_str().unwrap_or_default();
    assert!(text.starts_with(draft), "not what was said: {draft:?}");
    assert!(draft.contains(read), "{read:?} is lost; left: {draft:?}");
}

/// SplitMix64: small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Both ends included.
    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// After the start of a process. A quarter of them hit it while it opens its session.
    fn instant(&mut self) -> Duration {
        let most_us = match self.between(0, 3) {
            0 => 40_000,
            _ => 400_000,
        };
        Duration::from_micros(self.between(0, most_us))
    }
}

fn seed_of_now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |d| d.as_nanos() as u64)
}
