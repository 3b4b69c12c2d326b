//! One session, from its prompt to its last answer: started, killed and started again, as a
//! person would; and what must hold of it at its end.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rewake::session::objects::entry_line;
use rewake::store::Store;
use serde_json::Value;

use crate::kill::random::Random;
use crate::kill::script::{CALLS, FINAL_WORDS, Heard, ROUNDS, Reach, STEP, Step, script, serve};
use crate::kill::{LIMIT, Phase, Tally};
use support::{Home, Live, Protocol, Run, Server};

const PROMPT: &str = "do the task";
/// Far more than kills can explain.
const MAX_STARTS: usize = 300;

/// One session, from its prompt to its last answer.
pub struct Task {
    name: String,
    reach: Reach,
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
    /// Starts in a row that printed no result.
    barren: u32,
}

impl Task {
    pub fn new(protocol: Protocol, name: String, reach: Reach) -> Task {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let server = serve(heard.clone(), reach);
        let home = Home::new();
        let rules = "[permissions]\nallow = [\"Bash(sh step.sh:*)\"]\n";
        home.configure(&server, protocol, rules);
        std::fs::write(home.path("step.sh"), STEP).expect("write a script");
        std::fs::write(home.user().join("outside"), "").expect("write a file outside");
        Task {
            name,
            reach,
            home,
            server,
            heard,
            session: None,
            begun: None,
            printed: Vec::new(),
            words_were_taken: false,
            barren: 0,
        }
    }

    /// Starts a process again and again, as a person would, until the work is done.
    pub fn work(&mut self, random: &mut Random, tally: &mut Tally) {
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
                // A crash loop, after three starts without progress: a person names the session.
                Some(75) if run.stderr.contains("crash loop") => {
                    let id = self.session.clone().expect("a session in a crash loop");
                    vec!["-p".to_string(), "-r".to_string(), id]
                }
                Some(code) => panic!(
                    "exit {code}\n{}\n{}\n{}",
                    run.stdout,
                    run.stderr,
                    self.describe()
                ),
            };
        }
        panic!("it does not come to its end: {}", self.describe());
    }

    /// A process that is killed after a random time, if it is still there.
    fn live(&mut self, args: &[String], random: &mut Random, tally: &mut Tally) -> Run {
        let asked_before = self.server.requests().len();
        let format = ["--output-format", "stream-json"].map(String::from);
        let mode = match self.reach.is_sandboxed() {
            true => ["--permission-mode", "acceptEdits"]
                .map(String::from)
                .to_vec(),
            false => vec!["--yolo".to_string()],
        };
        let mut command = self.home.rewake(args.iter().chain(&format).chain(&mode));
        command.env("REWAKE_TEST_KERNEL", self.reach.lacks);
        let mut live = Live::spawn(command);
        // On a machine so slow that no start gets anywhere, the next ones get more time.
        std::thread::sleep(random.instant() * (1 + self.barren / 4));
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
            let results = events.iter().filter(|e| e["type"] == "entry.finished");
            let ended: Vec<&Value> = results.map(|e| &e["call"]).collect();
            let starts = events.iter().filter(|e| e["type"] == "entry.started");
            let at_work = starts.filter(|e| !ended.contains(&&e["call"])).count();
            tally.at_once += usize::from(at_work > 1);
        }
        self.barren = match count(&events, "entry.finished") {
            0 => self.barren + 1,
            _ => self.barren / 2,
        };
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
            self.describe()
        );
    }

    pub fn check(&self, tally: &mut Tally) {
        let violations = self.server.violations();
        assert!(
            violations.is_empty(),
            "{}\n{}",
            violations.join("\n"),
            self.describe()
        );
        self.check_what_was_printed();
        let heard = self.heard.lock().unwrap();
        assert_eq!(heard.changed, Vec::<String>::new(), "{}", self.describe());
        self.check_results(&heard.texts);
        self.check_sandbox(&heard.texts, tally);
        self.check_files();
        let went_on = |text: &&String| text.contains("rewake was down; the command kept running");
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
            assert_eq!(log.get(seq), Some(printed), "{}", self.describe());
        }
        assert_eq!(count(&log, "entry.finished"), CALLS, "{}", self.describe());
        assert_eq!(count(&log, "entry.said"), 1, "{}", self.describe());
        let last = log.iter().rfind(|e| e["type"] == "entry.replied");
        let last = last.expect("an answer").to_string();
        assert!(last.contains(FINAL_WORDS), "{}", self.describe());
    }

    /// The model got the true result of every call.
    fn check_results(&self, results: &[String]) {
        assert_eq!(results.len(), CALLS, "{}", self.describe());
        for (call, text) in script().into_iter().flatten().zip(results) {
            let wanted = call.wanted();
            assert!(
                text.contains(&wanted),
                "the model was told {text:?} of {call:?}: {}",
                self.describe()
            );
        }
    }

    /// Each command had its access to its end, whoever it was that waited for it.
    fn check_sandbox(&self, results: &[String], tally: &mut Tally) {
        let access = format!("access {}", self.reach.access);
        let outside = match self.reach.is_sandboxed() {
            true => "outside is closed",
            false => "outside is open",
        };
        for (call, text) in script().into_iter().flatten().zip(results) {
            if !matches!(call, Step::Bash(_)) {
                continue;
            }
            let is_so = text.contains(&access) && text.contains(outside);
            assert!(is_so, "{call:?} {:?}: {text}", self.reach);
            assert!(!text.contains("ran twice"), "{call:?}: {}", self.describe());
            if self.reach.is_sandboxed() {
                tally.sandboxed += 1;
                let re_attached = text.contains("rewake was down; the command kept running");
                tally.re_attached_in_sandbox += usize::from(re_attached);
            }
        }
    }

    /// Every side effect happened, once, and in its order.
    fn check_files(&self) {
        if self.reach.writes() {
            self.check_effects();
        }
        for round in 0..ROUNDS {
            let text = self.home.read(format!("file-{round}.txt"));
            let wanted = format!("round {round}\ncount: after\n");
            assert_eq!(text, wanted, "{}", self.describe());
        }
    }

    fn check_effects(&self) {
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
        assert_eq!(happened, effects, "{}", self.describe());
    }

    /// One more start finds nothing to do, and tidies up what the kills left.
    fn check_that_nothing_is_left(&self) {
        let run = self.home.run(["-p", "-c"]).expect(0);
        assert!(
            run.stderr.contains("nothing is unfinished"),
            "{}",
            run.stderr
        );
        let names = |folder: std::path::PathBuf| {
            let entries = std::fs::read_dir(folder).expect("list a folder");
            let names = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
            let mut names: Vec<String> = names.collect();
            names.sort();
            names
        };
        let tmp = self.home.rewake_home().join("tmp");
        if tmp.exists() {
            assert_eq!(names(tmp), Vec::<String>::new(), "{}", self.describe());
        }
        let folder = self.home.rewake_home().join("runs");
        let mut runs = names(folder.clone());
        // A half-made one stays until nobody can still be making it.
        runs.retain(|run| folder.join(run).join("status").exists());
        assert_eq!(runs, Vec::<String>::new(), "{}", self.describe());
        let files = (0..ROUNDS).map(|n| format!("file-{n}.txt"));
        let effects = self.reach.writes().then(|| "effects.txt".to_string());
        let files: Vec<String> = effects
            .into_iter()
            .chain(files)
            .chain(["step.sh".to_string()])
            .collect();
        assert_eq!(names(self.home.workspace()), files, "{}", self.describe());
        // All commands have ended, and a spare keeper of a killed agent ends by itself.
        let since = Instant::now();
        let home = self.home.rewake_home();
        while !keepers_of(&home).is_empty() {
            assert!(since.elapsed() < LIMIT, "{:?} stay", keepers_of(&home));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// For whoever has to find out what happened.
    fn describe(&self) -> String {
        let id = self.session.as_deref().unwrap_or("none");
        let shown = self.home.run(["show", id]);
        format!("{}\n{}{}", self.name, shown.stdout, shown.stderr)
    }
}

/// The keepers of agents with this data folder, as far as their environment may be read: only root
/// may read that of a spare one.
fn keepers_of(home: &Path) -> Vec<String> {
    let home = format!("REWAKE_HOME={}", home.display());
    let Ok(pids) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = pids.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_keeper = |pid: &String| {
        let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let has_home = || {
            let environment = read("environ");
            environment
                .split(|byte| *byte == 0)
                .any(|line| line == home.as_bytes())
        };
        read("cmdline").starts_with(b"rewake\0__keep\0") && has_home()
    };
    pids.filter(is_keeper).collect()
}

fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|e| e["type"] == kind).count()
}
