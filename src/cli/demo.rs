//! `rewake demo`: the real agent is killed in the middle of a command, and resumes.
//!
//! Only the model is scripted (`assets/demo/script.toml`). Engine, tools, keeper, store and
//! processes are the real ones, in a temporary folder. The results at the end are read from the
//! log and the files. The demo fails if one of them is wrong.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::command::{self, RunState, Runs};
use crate::core::entry::{CallId, Entry, Fact, Outcome, Record};
use crate::core::state::State;
use crate::core::text::{count, one_line};
use crate::report::{CliError, exit, line};
use crate::session::short_id;
use crate::store::Store;
use crate::tools;

const TOTAL: &str = include_str!("../../assets/demo/total.sh");
const TEST: &str = include_str!("../../assets/demo/test.sh");
const SCRIPT: &str = include_str!("../../assets/demo/script.toml");
const CONFIG: &str = "\
model = \"demo/played\"
permission_mode = \"acceptEdits\"
[permissions]
allow = [\"Bash(sh test.sh:*)\"]
[providers.demo]
protocol = \"script\"
script = \"script.toml\"
";

/// Next steps for a new user. The text assumes no configuration, not even a key.
const NEXT: &str = "\
On your own work, in the folder of a project:
  rewake                      the screen; without a key it asks for one, or for a local model
  rewake key PROVIDER         keeps a key without the screen: anthropic, openai, gemini, …
  rewake -m ollama/MODEL      a model of this machine: no key
  rewake --help               all the rest";

const TASK: &str = "The test fails: sh test.sh. Find out why and fix it.";
const SLOW: &str = "sh test.sh";

/// Time limit for each step of the demo.
const PATIENCE: Duration = Duration::from_secs(45);

/// Maximum number of unread events. Above it, the worker waits.
const WAITING_EVENTS: usize = 256;
/// Maximum number of unread lines of stderr. Above it, lines are dropped.
const WAITING_NOTES: usize = 64;

pub(super) fn run() -> Result<u8, CliError> {
    let scene = Scene::set().map_err(|e| CliError::failed(format!("cannot set the scene: {e}")))?;
    line(
        "A small project with a failing test, in a temporary folder. The model is played; all else is real.\n",
    );
    first_life(&scene)?;
    check_without_agent(&scene)?;
    second_life(&scene)?;
    line("\nWhat the log and the files say:");
    if check(&scene)? {
        line("\nNothing was lost, and nothing ran twice.\n");
        line(NEXT);
        Ok(exit::DONE)
    } else {
        Err(CliError::failed(
            "the demo did not show what it promises; see the lines marked FAILED",
        ))
    }
}

/// The temporary folder: a project, and a separate home for rewake.
struct Scene {
    _dir: tempfile::TempDir,
    exe: PathBuf,
    home: PathBuf,
    project: PathBuf,
}

impl Scene {
    fn set() -> std::io::Result<Scene> {
        let dir = tempfile::Builder::new().prefix("rewake-demo-").tempdir()?;
        let home = dir.path().join("home");
        let project = dir.path().join("project");
        std::fs::create_dir(&home)?;
        std::fs::create_dir(&project)?;
        std::fs::write(home.join("config.toml"), CONFIG)?;
        std::fs::write(home.join("script.toml"), SCRIPT)?;
        std::fs::write(project.join("total.sh"), TOTAL)?;
        std::fs::write(project.join("test.sh"), TEST)?;
        let exe = command::own_exe()?;
        Ok(Scene {
            _dir: dir,
            exe,
            home,
            project,
        })
    }

    fn runs(&self) -> Runs {
        Runs::new(self.home.join("runs"), &self.exe)
    }
}

/// A separate rewake process whose JSON lines are read as they arrive.
struct Worker {
    child: Child,
    events: Receiver<Value>,
    notes: Receiver<String>,
    until: Instant,
}

impl Worker {
    fn start(scene: &Scene, args: &[&str]) -> Result<Worker, CliError> {
        let mut child = crate::sandbox::child(&scene.exe)
            .args(args)
            .args(["--output-format", "stream-json"])
            .current_dir(&scene.project)
            .env("REWAKE_HOME", &scene.home)
            .env_remove("REWAKE_MODEL")
            .env_remove("REWAKE_PERMISSION_MODE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| CliError::failed(format!("cannot start the agent: {e}")))?;
        let (to_events, events) = sync_channel(WAITING_EVENTS);
        let (to_notes, notes) = sync_channel(WAITING_NOTES);
        if let Some(stdout) = child.stdout.take() {
            read_lines(stdout, move |l| {
                serde_json::from_str(&l).is_ok_and(|v| to_events.send(v).is_ok())
            });
        }
        if let Some(stderr) = child.stderr.take() {
            // The worker must never block on a note, so surplus notes are dropped.
            let is_heard =
                move |l| !matches!(to_notes.try_send(l), Err(TrySendError::Disconnected(_)));
            read_lines(stderr, is_heard);
        }
        Ok(Worker {
            child,
            events,
            notes,
            until: Instant::now() + PATIENCE,
        })
    }

    /// Returns the next event, or `None` if the worker closed its output.
    fn next(&self) -> Result<Option<Value>, CliError> {
        let left = self.until.saturating_duration_since(Instant::now());
        match self.events.recv_timeout(left) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(CliError::failed("the agent took too long")),
        }
    }

    fn end(mut self) -> Result<ExitStatus, CliError> {
        self.child
            .wait()
            .map_err(|e| CliError::failed(format!("cannot wait for the agent: {e}")))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_lines(
    from: impl std::io::Read + Send + 'static,
    mut each: impl FnMut(String) -> bool + Send + 'static,
) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            let Ok(line) = line else { return };
            if !each(line) {
                return;
            }
        }
    });
}

fn first_life(scene: &Scene) -> Result<(), CliError> {
    let worker = Worker::start(scene, &["-p", TASK])?;
    line(&format!(
        "The agent starts (process {}).",
        worker.child.id()
    ));
    let mut calls = Calls::default();
    while let Some(event) = worker.next()? {
        calls.observe(&event);
        if calls.is_running(SLOW) {
            std::thread::sleep(Duration::from_millis(2500));
            let pid = worker.child.id();
            drop(worker);
            line(&format!(
                "\n*** SIGKILL: process {pid} is gone, 2.5 s into the slow test. ***\n"
            ));
            return Ok(());
        }
    }
    let notes: Vec<String> = worker.notes.try_iter().collect();
    Err(CliError::failed(format!(
        "the agent ended before it could be killed: {}",
        notes.join("; ")
    )))
}

/// Checks the command twice, a second apart.
fn check_without_agent(scene: &Scene) -> Result<(), CliError> {
    for _ in 0..2 {
        let runs = scene.runs();
        let running = runs
            .list()
            .into_iter()
            .find(|r| matches!(r.state, RunState::Running { .. }));
        let Some(running) = running else {
            return Err(CliError::failed("the command did not outlive the agent"));
        };
        let tail = runs.tail(&running.run, 200).unwrap_or_default();
        let tail = String::from_utf8_lossy(&tail);
        let last = tail.lines().last().unwrap_or("").to_string();
        line(&format!(
            "No agent, but the command is still running: {} … {last}",
            one_line(&running.spec.command, 40)
        ));
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

fn second_life(scene: &Scene) -> Result<(), CliError> {
    let worker = Worker::start(scene, &["-p", "-c"])?;
    line(&format!(
        "\nThe agent starts again (process {}).",
        worker.child.id()
    ));
    if let Ok(found) = worker.notes.recv_timeout(PATIENCE) {
        line(&format!("  {found}"));
    }
    let mut calls = Calls::default();
    while let Some(event) = worker.next()? {
        calls.observe(&event);
    }
    let status = worker.end()?;
    match status.success() {
        true => Ok(()),
        false => Err(CliError::failed(format!(
            "the agent failed after the kill: {status}"
        ))),
    }
}

/// The calls of the last answer, from the events of the stream.
#[derive(Default)]
struct Calls {
    last: Vec<(String, String)>,
    started: Option<usize>,
}

impl Calls {
    fn observe(&mut self, event: &Value) {
        match event["type"].as_str() {
            Some("entry.replied") => self.replied(event),
            Some("entry.started") => {
                self.started = event["call"]["index"]
                    .as_u64()
                    .and_then(|i| usize::try_from(i).ok());
            }
            Some("entry.finished") => self.finished(event),
            _ => {}
        }
    }

    fn replied(&mut self, event: &Value) {
        self.last.clear();
        self.started = None;
        for block in event["blocks"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("text") => line(&format!(
                    "  model: {}",
                    block["text"].as_str().unwrap_or("")
                )),
                Some("call") => {
                    let name = block["name"].as_str().unwrap_or("").to_string();
                    let arguments = block["arguments"].as_str().unwrap_or("");
                    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
                    let about = arguments["command"].as_str().or(arguments["path"].as_str());
                    self.last.push((name, about.unwrap_or("").to_string()));
                }
                _ => {}
            }
        }
    }

    fn finished(&self, event: &Value) {
        let outcome = &event["outcome"];
        let text = outcome["output"]["text"].as_str().unwrap_or("");
        let last = text.lines().rfind(|l| !l.trim().is_empty()).unwrap_or("");
        let index = event["call"]["index"]
            .as_u64()
            .and_then(|i| usize::try_from(i).ok());
        let about = match index.and_then(|i| self.last.get(i)) {
            Some((name, about)) => format!("{name} {about}"),
            None => "the interrupted call".to_string(),
        };
        let how = outcome["outcome"].as_str().unwrap_or("");
        line(&format!("  {about}: {how} … {}", one_line(last, 70)));
    }

    fn is_running(&self, command: &str) -> bool {
        let call = self.started.and_then(|i| self.last.get(i));
        call.is_some_and(|(name, about)| name == "bash" && about == command)
    }
}

fn check(scene: &Scene) -> Result<bool, CliError> {
    let store = Store::open(&scene.home)?;
    let info = store
        .history()
        .newest(None)?
        .ok_or_else(|| CliError::failed("no session was recorded"))?;
    let (_, records) = store.load(&info.id)?;
    let state =
        State::of(tools::describe, &records).map_err(|e| CliError::failed(e.to_string()))?;
    line(&format!(
        "  session {}, {}",
        short_id(&info.id),
        count(records.len(), "entry")
    ));

    let slow = result_of(&records, SLOW);
    let runs_log = std::fs::read_to_string(scene.project.join("runs.log")).unwrap_or_default();
    let results: Vec<CallId> = records.iter().filter_map(finished).collect();
    let mut once = results.clone();
    once.sort();
    once.dedup();
    let points = [
        (
            "the agent was started twice",
            records
                .iter()
                .any(|r| matches!(r.entry, Entry::Resumed { .. })),
        ),
        (
            "every call has exactly one result",
            once.len() == results.len() && state.first_open().is_none(),
        ),
        (
            "the test that ran at the kill gave its real output",
            slow.is_some_and(|(text, _)| {
                text.contains("checking part 1 of 6")
                    && text.contains("checking part 6 of 6")
                    && text.contains("ok:")
            }),
        ),
        (
            "and its real exit code, 0",
            slow.is_some_and(|(_, code)| code == Some(0)),
        ),
        (
            "the test was run twice in all: once to see it fail, once to see it pass",
            runs_log.lines().count() == 2,
        ),
        ("the model ended its turn", !state.unfinished()),
        ("the test passes", test_passes(&scene.project)),
    ];
    let mut all = true;
    for (what, holds) in points {
        line(&format!(
            "  {} {what}",
            if holds { "ok    " } else { "FAILED" }
        ));
        all &= holds;
    }
    Ok(all)
}

fn finished(record: &Record) -> Option<CallId> {
    match &record.entry {
        Entry::Finished { call, .. } => Some(*call),
        _ => None,
    }
}

/// Returns output and exit code of a command, from the log.
fn result_of<'a>(records: &'a [Record], command: &str) -> Option<(&'a str, Option<i32>)> {
    let mut state = State::new(tools::describe);
    for record in records {
        state.fold(record).ok()?;
        if let Entry::Finished {
            call,
            outcome: Outcome::Done { output },
            fact: Some(Fact::Ran { exit_code, .. }),
            ..
        } = &record.entry
        {
            let open = state.call(*call)?;
            if open.described().is_some_and(|d| d.subject == command) {
                return Some((&output.text, *exit_code));
            }
        }
    }
    None
}

fn test_passes(project: &Path) -> bool {
    crate::sandbox::child("sh")
        .args(["test.sh", "quick"])
        .current_dir(project)
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
