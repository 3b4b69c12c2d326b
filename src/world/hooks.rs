//! Hooks on this machine: which of them match, what they read, and how they run.
//!
//! Each runs under a keeper, as commands do, so a kill of the agent loses neither the hook nor its
//! answer. Those of the user run without a sandbox and with the user's rights. Those of a workspace
//! are trusted by content, compared again right before the start, and run in the sandbox: they may
//! load files that a command changed. Without a sandbox on this machine they run like the user's.
//!
//! Invariant: what a hook of a workspace allows or changes decides nothing. A sandbox contains the
//! effects of changed code, and not its answers.
//!
//! Invariant: a hook that may have started is never started again.

mod answer;
mod input;

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};

use futures_util::future::join_all;
use tokio::sync::Semaphore;

use super::confine::Confine;
use super::{HookEnd, HookOccasion};
use crate::command::{
    self, HookSpec, NeededFile, OF_HOOK, OF_UNAWAITED_HOOK, Running, Runs, SettledRun, Spec,
};
use crate::core::entry::{HookEvent, HookResult, HookRun, HookVerdict, HookWrote, Output};
use crate::core::hook::MAX_HOOKS_AT_ONCE;
use crate::core::state::State;
use crate::core::tool::ToolCall;
use crate::sandbox::Profile;
use crate::tools::{FileNow, change_in_words, file_now};
use crate::workspace::hooks::{Hook, HookState, MISSING, hash_of_file, is_executable};
use answer::{Answer, HookBytes, MAX_OUTPUT_BYTES};
use input::Transcript;

/// The file that `transcript_path` names.
const TRANSCRIPT: &str = "transcript.jsonl";

/// The variable with the folder for compiled Python.
const PYTHON_CACHES: &str = "PYTHONPYCACHEPREFIX";

/// The settings for the hooks of a session.
#[derive(Debug)]
pub struct HookSetup {
    pub hooks: Vec<Hook>,
    /// The folder that `CLAUDE_PROJECT_DIR` names.
    pub project: PathBuf,
    /// The folder in which the session works.
    pub cwd: PathBuf,
    /// The folder for the transcript and for caches. Commands in the sandbox cannot write there.
    pub folder: PathBuf,
    pub session: String,
    pub runs: Runs,
    pub shell: PathBuf,
    /// Variables that are removed from the environment.
    pub env_remove: Vec<String>,
    /// The file with the lease of the session; `None` if it is not shared.
    pub lease_file: Option<PathBuf>,
    /// The sandbox for the hooks of the workspace. `None`: there is none on this machine.
    pub sandbox: Option<Confine>,
}

/// The hooks of a session.
#[derive(Debug)]
pub struct MachineHooks {
    setup: HookSetup,
    boot: String,
    transcript: RefCell<Transcript>,
    slots: Semaphore,
}

/// Starts the keeper of a prepared run.
type StartRun<'a> = &'a dyn Fn(&str) -> io::Result<Running>;

impl MachineHooks {
    /// Creates the hooks of a session.
    pub fn new(setup: HookSetup) -> MachineHooks {
        MachineHooks {
            boot: command::boot_id(),
            transcript: RefCell::new(Transcript::new(setup.folder.join(TRANSCRIPT))),
            slots: Semaphore::new(MAX_HOOKS_AT_ONCE),
            setup,
        }
    }

    fn matching(&self, event: HookEvent, name: &str, is_async: bool) -> Vec<&Hook> {
        let matches = |hook: &&Hook| {
            hook.definition.event == event
                && hook.definition.is_async == is_async
                && hook.state != HookState::Untrusted
                && (!has_matcher(event) || hook.matcher.matches(name))
        };
        self.setup.hooks.iter().filter(matches).collect()
    }
}

/// Returns whether the hooks of an event have a matcher.
fn has_matcher(event: HookEvent) -> bool {
    !matches!(
        event,
        HookEvent::UserPromptSubmit | HookEvent::Stop | HookEvent::SubagentStop
    )
}

/// Returns whether an event is not recorded, so that nobody waits for its hooks.
fn is_unrecorded(event: HookEvent) -> bool {
    matches!(
        event,
        HookEvent::PreCompact | HookEvent::Notification | HookEvent::SessionEnd
    )
}

impl MachineHooks {
    /// Prepares the hooks that match, also those for which a session does not wait.
    pub fn prepare_all(&self, occasion: &HookOccasion<'_>, state: &State) -> Vec<HookRun> {
        let name = input::matched(occasion, state);
        let mut matching = self.matching(occasion.event, name, false);
        matching.extend(self.matching(occasion.event, name, true));
        self.prepare_these(matching, occasion, state)
    }

    /// Runs prepared hooks outside of a session, and removes their run folders.
    pub async fn run_alone(
        &self,
        event: HookEvent,
        prepared: &[HookRun],
        call: Option<&ToolCall>,
    ) -> HookEnd {
        let start = |run: &str| self.setup.runs.start(run);
        let end = self.run(&start, event, prepared, call, None, false).await;
        for run in prepared.iter().filter(|run| run.failed.is_none()) {
            if let Err(error) = self.setup.runs.remove(&run.run) {
                tracing::warn!(run = run.run, %error, "a run folder stays");
            }
        }
        end
    }

    /// Prepares the hooks that match.
    pub(crate) fn prepare(&self, occasion: &HookOccasion<'_>, state: &State) -> Vec<HookRun> {
        let name = input::matched(occasion, state);
        let matching = self.matching(occasion.event, name, false);
        self.prepare_these(matching, occasion, state)
    }

    fn prepare_these(
        &self,
        matching: Vec<&Hook>,
        occasion: &HookOccasion<'_>,
        state: &State,
    ) -> Vec<HookRun> {
        if matching.is_empty() {
            return Vec::new();
        }
        let input = self.input(occasion, state);
        let prepared = matching.into_iter().map(|hook| {
            let run = match &hook.state {
                HookState::Failed(why) => Err(why.clone()),
                HookState::Used | HookState::Untrusted => {
                    self.prepare_hook(hook, input.as_bytes(), OF_HOOK)
                }
            };
            let (run, failed) = match run {
                Ok(run) => (run, None),
                Err(why) => (String::new(), Some(why)),
            };
            HookRun {
                hook: hook.name(),
                call: occasion.call,
                run,
                boot: self.boot.clone(),
                is_of_user: hook.is_of_user,
                may_fail: hook.definition.may_fail,
                failed,
            }
        });
        prepared.collect()
    }

    /// Starts hooks for which nobody waits: those of events that are not recorded, and `async`
    /// ones. Their run folders are removed at their end, or by a later start.
    pub(super) fn fire(&self, occasion: &HookOccasion<'_>, state: &State, start: StartRun<'_>) {
        let name = input::matched(occasion, state);
        let mut matching = self.matching(occasion.event, name, true);
        if is_unrecorded(occasion.event) {
            matching.extend(self.matching(occasion.event, name, false));
        }
        if matching.is_empty() {
            return;
        }
        let input = self.input(occasion, state);
        for hook in matching
            .into_iter()
            .filter(|hook| hook.state == HookState::Used)
        {
            if let Err(why) = self.fire_hook(hook, input.as_bytes(), start) {
                tracing::warn!(hook = hook.name(), why, "a hook was not started");
            }
        }
    }

    fn fire_hook(&self, hook: &Hook, input: &[u8], start: StartRun<'_>) -> Result<(), String> {
        let run = self.prepare_hook(hook, input, OF_UNAWAITED_HOOK)?;
        self.check_hook_files(&run)?;
        let mut running = start(&run).map_err(|error| error.to_string())?;
        let runs = self.setup.runs.clone();
        tokio::spawn(async move {
            let ended = runs.wait(&mut running).await;
            if ended.is_ok() {
                // A folder that stays is removed by a later start.
                let _ = runs.remove(&run);
            }
        });
        Ok(())
    }

    fn prepare_hook(&self, hook: &Hook, input: &[u8], call: &str) -> Result<String, String> {
        let files = hook
            .files
            .iter()
            .filter(|(needed, hash)| needed.is_required || hash.is_some());
        let files = files.map(|(needed, hash)| NeededFile {
            path: needed.path.clone(),
            is_program: needed.is_program,
            hash: hash.clone(),
        });
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let sandbox = self
            .sandbox_of(hook)
            .map_err(|why| format!("cannot set up its sandbox: {why}"))?;
        let caches = self.setup.folder.join("pycache");
        let spec = Spec {
            command: hook.definition.command.clone(),
            folder: hook.folder.clone(),
            timeout_ms: hook.definition.timeout_ms,
            output_cap_bytes: MAX_OUTPUT_BYTES,
            shell: self.setup.shell.clone(),
            env_remove: self.setup.env_remove.clone(),
            env_set: vec![
                ("CLAUDE_PROJECT_DIR".to_string(), text(&self.setup.project)),
                ("REWAKE_SESSION".to_string(), self.setup.session.clone()),
                (PYTHON_CACHES.to_string(), text(&caches)),
            ],
            session: self.setup.session.clone(),
            call: call.to_string(),
            // What others change meanwhile is not undone.
            background: sandbox.is_some() && call == OF_UNAWAITED_HOOK,
            sandbox,
            child: None,
            hook: Some(HookSpec {
                files: files.collect(),
            }),
            lease: self.setup.lease_file.clone(),
        };
        let prepared = self.setup.runs.prepare_hook(&spec, input);
        prepared.map_err(|error| format!("it cannot be prepared: {error}"))
    }

    /// Returns the profile of a hook of the workspace, with a separate `$TMPDIR` that no command
    /// can write. `None`: the hook runs outside of the sandbox.
    fn sandbox_of(&self, hook: &Hook) -> Result<Option<Box<Profile>>, String> {
        let (Some(access), Some(sandbox)) = (hook.access, &self.setup.sandbox) else {
            return Ok(None);
        };
        let name = hook.definition.hash.get(..16).unwrap_or_default();
        let mut sandbox = sandbox.clone();
        sandbox.tmp = Some(sandbox.make_tmp()?.join("hooks").join(name));
        // In a worktree the hooks run in the folder of the project.
        if hook.folder != sandbox.workspace {
            sandbox.more_read.push(hook.folder.clone());
        }
        let transcript = self.setup.folder.join(TRANSCRIPT);
        let mut profile = sandbox.profile(access, &[transcript])?;
        for (needed, _) in hook.files.iter().filter(|(needed, _)| needed.is_program) {
            profile.show_program(&needed.path);
        }
        // Commands can write to the caches that they share, and Python runs what it finds there.
        let caches = profile.tmp.join("pycache").to_string_lossy().into_owned();
        profile.set_env.push((PYTHON_CACHES.to_string(), caches));
        Ok(Some(profile))
    }

    /// Compares the files of a hook with what was trusted.
    fn check_hook_files(&self, run: &str) -> Result<(), String> {
        let spec = self
            .setup
            .runs
            .spec(run)
            .map_err(|error| error.to_string())?;
        for file in spec.hook.unwrap_or_default().files {
            let path = file.path.display();
            if !file.path.exists() {
                return Err(format!("{path} is missing"));
            }
            if file.is_program && !is_executable(&file.path) {
                return Err(format!("{path} is not executable; chmod +x {path}"));
            }
            let Some(trusted) = file.hash else { continue };
            // A file that was missing then is another one now.
            let is_trusted = trusted != MISSING
                && hash_of_file(&file.path).map_err(|error| format!("{path}: {error}"))? == trusted;
            if !is_trusted {
                return Err(format!(
                    "{path} changed since it was trusted; review it and run `rewake trust`"
                ));
            }
        }
        Ok(())
    }

    /// Runs prepared hooks in parallel: see [`super::World::run_hooks`].
    pub(crate) async fn run(
        &self,
        start: StartRun<'_>,
        event: HookEvent,
        prepared: &[HookRun],
        call: Option<&ToolCall>,
        wrote: Option<&HookWrote>,
        stop: bool,
    ) -> HookEnd {
        let before = wrote.map(|wrote| file_now(&wrote.path));
        let ended = join_all(prepared.iter().map(async |run| {
            let _slot = self.slots.acquire().await.ok();
            self.hook_answer(start, event, run, call, stop).await
        }));
        let mut end = HookEnd::default();
        for Answer { result, blob } in ended.await {
            end.results.push(result);
            end.blobs.extend(blob);
        }
        if let (Some(wrote), Some(before), Some(last)) = (wrote, before, end.results.last_mut()) {
            note_change(wrote, &before, last);
        }
        end
    }

    async fn hook_answer(
        &self,
        start: StartRun<'_>,
        event: HookEvent,
        run: &HookRun,
        call: Option<&ToolCall>,
        stop: bool,
    ) -> Answer {
        if let Some(why) = &run.failed {
            return answer::failed(run, why);
        }
        let found = match self.setup.runs.find_started(&run.run, &run.boot) {
            Ok(found) => found,
            Err(error) => return answer::failed(run, &format!("its state is not known: {error}")),
        };
        let mut running = match found {
            Some(SettledRun::Ended(end)) => return self.answer_of(event, run, &end, call),
            Some(SettledRun::NotBegun) => {
                return answer::failed(run, "its supervisor did not start it");
            }
            Some(SettledRun::Running(running)) => {
                if stop && let Err(error) = self.setup.runs.stop(&run.run) {
                    return answer::failed(run, &format!("it cannot be stopped: {error}"));
                }
                running
            }
            None => {
                let checked = match stop {
                    true => Err("the user stopped before it started".to_string()),
                    false => self.check_hook_files(&run.run),
                };
                if let Err(why) = checked {
                    // Nobody starts it any more.
                    let _ = self.setup.runs.settle(&run.run, &run.boot);
                    return answer::failed(run, &why);
                }
                match start(&run.run) {
                    Ok(running) => running,
                    Err(error) => {
                        let _ = self.setup.runs.settle(&run.run, &run.boot);
                        return answer::failed(run, &format!("it cannot be started: {error}"));
                    }
                }
            }
        };
        match self.setup.runs.wait(&mut running).await {
            Ok(end) => self.answer_of(event, run, &end, call),
            Err(error) => answer::failed(run, &format!("its end is not known: {error}")),
        }
    }

    fn answer_of(
        &self,
        event: HookEvent,
        run: &HookRun,
        end: &command::RunEnd,
        call: Option<&ToolCall>,
    ) -> Answer {
        let read = std::fs::read(&end.output).and_then(|output| {
            Ok(HookBytes {
                input: self.setup.runs.input(&run.run)?,
                output,
                errors: self.setup.runs.errors(&run.run)?,
            })
        });
        match read {
            Ok(bytes) => {
                let reply = || self.transcript.borrow().last_answer();
                let mut answer = answer::of_end(event, run, end, &bytes, call, &reply);
                if !run.is_of_user {
                    without_grants(&mut answer.result);
                }
                let after = end.sandbox.as_ref();
                if let Some(after) = after.filter(|after| !after.changed.is_empty()) {
                    let files = after.changed.join(", ");
                    let line = format!("the hook {} changed protected files: {files}", run.hook);
                    add_message(&mut answer.result, line);
                }
                answer
            }
            Err(error) => answer::failed(run, &format!("its output cannot be read: {error}")),
        }
    }
}

/// Removes what a hook of the workspace would grant: the trust covers not all code that it loads.
fn without_grants(result: &mut HookResult) {
    if result.verdict == HookVerdict::Allow {
        result.verdict = HookVerdict::None;
    }
    if result.input.take().is_some() {
        let line = format!(
            "the arguments that the hook {} changed are not used: only a hook of your own files changes any",
            result.hook
        );
        add_message(result, line);
    }
}

/// Adds a line for the person to those of the hook.
fn add_message(result: &mut HookResult, line: String) {
    result.message = Some(match result.message.take() {
        Some(said) => format!("{said}\n{line}"),
        None => line,
    });
}

/// Adds the change that hooks made to the file of the call, so that the model knows the file as it
/// is now.
fn note_change(wrote: &HookWrote, before: &FileNow, last: &mut HookResult) {
    let after = file_now(&wrote.path);
    // Otherwise the file changed before the hooks ran, or they ran in an earlier process.
    let was_known = before.hash.as_deref() == Some(&wrote.hash);
    let Some(hash) = after
        .hash
        .clone()
        .filter(|hash| was_known && *hash != wrote.hash)
    else {
        return;
    };
    let Some(change) = change_in_words(before, &after) else {
        return;
    };
    let said = last.context.take();
    let line = format!(
        "{} was changed by a hook after the call:\n{change}",
        wrote.path
    );
    last.context = Some(match said {
        Some(said) => Output {
            text: format!("{}\n{line}", said.text),
            ..said
        },
        None => Output::text(line),
    });
    last.wrote = Some(HookWrote {
        path: wrote.path.clone(),
        hash,
    });
}
