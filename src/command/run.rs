//! The agent's side of runs: it prepares, starts, settles, awaits, stops, shows and removes them.
//!
//! Invariant: nothing is remembered between calls that is not in the run folder; dropping
//! everything and asking again gives the same answers. Dropping a [`Running`] or the future of
//! [`Runs::wait`] ends nothing.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, PipeWriter, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Signal, kill_process};
use uuid::Uuid;

use super::aftermath::{Aftermath, Survivor};
use super::folder::{self, Prepared, RunFolder};
use super::look::{
    ObservedState, RunEnd, ended, look, look_after_claim, lost, not_run, with_context,
};
use super::output::{self, Printed, Stored};
use super::spare::Spare;
use super::spec::{GIT_SETTINGS, Spec};
use super::status::{self, Begun, End, StatusSlot};
use super::{keeper, process};
use crate::sandbox::child;
use crate::store::{new_run_id, now_ms};

/// Longest interval at which a re-attached command is checked; the first checks come sooner.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Interval at which a keeper that was just started is checked for having started its command.
const BEGUN_TICK: Duration = Duration::from_millis(1);

/// Time for a spare keeper to claim its run, which takes less than a millisecond. After it a fresh
/// one is started.
const SPARE_WITHIN: Duration = Duration::from_secs(1);

/// The reason for not running a command that nobody stopped.
const NO_KEEPER: &str = "its keeper was gone before it began";

/// Time for a keeper to exit after it recorded the end.
const DIE_WITHIN: Duration = Duration::from_secs(1);

/// Time for creating a run folder, which takes milliseconds. A folder that has no whole spec after
/// this never will.
const MAKE_WITHIN: Duration = Duration::from_secs(3600);

/// All runs, each with a folder below `root`.
#[derive(Debug, Clone)]
pub struct Runs {
    root: PathBuf,
    exe: PathBuf,
}

/// A command whose keeper was alive when it was last checked.
#[derive(Debug)]
pub struct Running {
    run: String,
    /// The keeper, if it is a child of this process.
    child: Option<tokio::process::Child>,
    /// The keeper was a spare, and was not seen to claim the run.
    is_spare: bool,
    /// The keeper's input, open as long as somebody waits here for the result and will record it.
    /// Without it the keeper syncs its records.
    _waits: Option<PipeWriter>,
}

impl Running {
    /// Returns the name of the run folder.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Waits until the keeper exits, if it is our child. Its exit status does not matter, nor that
    /// it may be unknown (when the process that started us ignores SIGCHLD): the run folder says
    /// how the command ended.
    async fn reap(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.wait().await;
            self.child = None;
        }
    }

    /// Returns whether our keeper is gone, so that it cannot start the command any more.
    fn is_gone(&mut self) -> bool {
        self.child
            .as_mut()
            .is_none_or(|child| !matches!(child.try_wait(), Ok(None)))
    }
}

/// The final or current state of a run.
#[derive(Debug)]
pub enum SettledRun {
    /// The command was never started, and never will be.
    NotBegun,
    Running(Running),
    /// Ended, or lost.
    Ended(RunEnd),
}

/// The result of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Something was alive and was asked to end.
    Asked,
    /// The command was not started, and never will be: [`super::How::NotRun`].
    NotBegun,
    /// There was nothing to stop.
    Over,
}

/// A run as `rewake ps` shows it.
#[derive(Debug)]
pub struct RunInfo {
    /// The name of the run folder.
    pub run: String,
    /// The command and its settings.
    pub spec: Spec,
    /// When it was started or, before that, prepared. Milliseconds since 1970, UTC.
    pub since_ms: i64,
    pub state: RunState,
}

/// The state of a run, according to its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// The command was not started yet, or never will be.
    NotBegun,
    /// The keeper is alive, and the command runs.
    Running {
        /// The keeper's pid. `None` when it cannot be read from the run folder.
        keeper: Option<u32>,
        /// The command's process group.
        group: Option<u32>,
    },
    /// The command ended or is lost. If it is lost, `how` names the group that is still alive.
    Ended(Box<RunEnd>),
}

impl Runs {
    /// Returns the path of this program.
    pub fn exe(&self) -> &Path {
        &self.exe
    }

    /// Returns the runs below `root`. `exe` is this program (see [`process::own_exe`]), which is
    /// started again as the keeper.
    pub fn new(root: impl Into<PathBuf>, exe: impl Into<PathBuf>) -> Runs {
        Runs {
            root: root.into(),
            exe: exe.into(),
        }
    }

    /// Creates a run folder and returns its name. Starts nothing. The folder survives a kill; a
    /// power cut may remove it, but nothing is run in another boot.
    pub fn prepare(&self, spec: &Spec) -> io::Result<String> {
        self.prepare_with(spec, None)
    }

    /// Does the same for a hook, which reads `input`.
    pub fn prepare_hook(&self, spec: &Spec, input: &[u8]) -> io::Result<String> {
        self.prepare_with(spec, Some(input))
    }

    fn prepare_with(&self, spec: &Spec, input: Option<&[u8]>) -> io::Result<String> {
        spec.check()?;
        let run = new_run_id();
        let folder = self.folder(&run)?;
        let prepared = Prepared {
            spec: spec.clone(),
            boot: process::boot_id(),
            at_ms: now_ms(),
        };
        folder.create(&prepared, input).map_err(|e| {
            // The rest of the folder has no claim and no keeper, and nobody knows its name.
            let _ = folder.remove();
            with_context("cannot make the run folder", folder.path(), e)
        })?;
        Ok(run)
    }

    /// Starts the keeper, which starts the command. Call it once for a run, in a tokio runtime. An
    /// error means that the keeper was not started.
    pub fn start(&self, run: &str) -> io::Result<Running> {
        self.start_with(run, &[])
    }

    /// Does the same, with variables that are stored nowhere.
    pub fn start_with(&self, run: &str, env: &[(&str, &str)]) -> io::Result<Running> {
        let folder = self.folder(run)?;
        let spec = folder
            .prepared()
            .map_err(|e| with_context("cannot read the run folder", folder.path(), e))?
            .spec;
        let failed = |e| with_context("cannot start the keeper", &self.exe, e);
        let (input, waits) = io::pipe().map_err(failed)?;
        let mut command = child(&self.exe);
        command
            .arg0("rewake")
            .arg(keeper::WORD)
            .arg(folder.path())
            .current_dir("/")
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        for (name, value) in spec.environment(std::env::var(GIT_SETTINGS).ok()) {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.envs(env.iter().copied());
        let child = tokio::process::Command::from(command)
            .spawn()
            .map_err(failed)?;
        Ok(Running {
            run: run.to_string(),
            child: Some(child),
            is_spare: false,
            _waits: Some(waits),
        })
    }

    /// Starts a keeper that waits for its run. `without` names the variables that its environment
    /// must not have. Call it in a tokio runtime.
    pub fn spare(&self, without: &[String]) -> io::Result<Spare> {
        Spare::start(&self.exe, keeper::WORD, without)
    }

    /// Same as [`Runs::start`], with this keeper if it is still there.
    pub fn start_in(&self, run: &str, spare: Spare) -> io::Result<Running> {
        let folder = self.folder(run)?;
        match spare.give(folder.path()) {
            Ok((child, waits)) => Ok(Running {
                run: run.to_string(),
                child: Some(child),
                is_spare: true,
                _waits: Some(waits),
            }),
            Err(_) => self.start(run),
        }
    }

    /// Starts another keeper if the spare one does not claim the run: somebody killed or stopped it.
    async fn replace_spare(&self, running: &mut Running) -> io::Result<()> {
        if !running.is_spare {
            return Ok(());
        }
        let folder = self.folder(&running.run)?;
        let since = Instant::now();
        while !folder.is_claimed()? {
            if running.is_gone() || since.elapsed() >= SPARE_WITHIN {
                // A keeper claims under this lock, so a spare that has not got it yet cannot.
                let lock = folder.open_status()?;
                if folder::take(&lock)? || since.elapsed() >= SPARE_WITHIN * 5 {
                    self.replace(running, &folder, lock).await?;
                    break;
                }
            }
            tokio::time::sleep(BEGUN_TICK).await;
        }
        running.is_spare = false;
        Ok(())
    }

    /// Ends the keeper of a run that is not claimed, and starts another one. `lock` is the lock of
    /// the run, which the other one needs.
    async fn replace(
        &self,
        running: &mut Running,
        folder: &RunFolder,
        lock: File,
    ) -> io::Result<()> {
        if folder.is_claimed()? {
            return Ok(());
        }
        if let Some(child) = &mut running.child {
            let _ = child.kill().await;
        }
        drop(lock);
        // Nothing can claim it any more but a settling agent.
        if !folder.is_claimed()? {
            tracing::warn!(run = running.run, "a spare keeper did not begin");
            match self.start(&running.run) {
                Ok(fresh) => *running = fresh,
                // Its keeper is gone, so it is claimed here and never runs.
                Err(error) => tracing::warn!(run = running.run, %error, "no other keeper started"),
            }
        }
        Ok(())
    }

    /// Waits until a command that was just started runs, or never will. In the latter case it is
    /// claimed here. The future may be dropped; [`Runs::settle`] then returns the state.
    pub async fn begun(&self, running: &mut Running) -> io::Result<SettledRun> {
        self.replace_spare(running).await?;
        let boot = process::boot_id();
        loop {
            // The keeper before the folder, so that its last record is seen.
            let gone = running.is_gone();
            match self.look(&running.run, &boot)? {
                Some(found) => return Ok(found),
                None if gone => return self.settle(&running.run, &boot),
                None => tokio::time::sleep(BEGUN_TICK).await,
            }
        }
    }

    /// Waits for the end of a command. The future may be dropped, and the method called again.
    ///
    /// A command that was never started (its keeper was killed, or it was stopped, early) is
    /// claimed here, so that it never will be, and is [`super::How::NotRun`].
    pub async fn wait(&self, running: &mut Running) -> io::Result<RunEnd> {
        self.replace_spare(running).await?;
        running.reap().await;
        let mut pause = Duration::from_millis(1);
        loop {
            match self.settle(&running.run, &process::boot_id())? {
                SettledRun::Ended(ended) => return Ok(ended),
                SettledRun::NotBegun => {
                    let folder = self.folder(&running.run)?;
                    return Ok(ended(&folder, not_run(NO_KEEPER.to_string()), true));
                }
                SettledRun::Running(_) => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(LOOK_EVERY);
        }
    }

    /// Returns the state of a run that the log was about to start, in the boot `boot`. The order of
    /// the checks is essential: see [`super`].
    pub fn settle(&self, run: &str, boot: &str) -> io::Result<SettledRun> {
        let folder = self.folder(run)?;
        loop {
            if let Some(found) = self.look(run, boot)? {
                return Ok(found);
            }
            if folder.claim()? {
                return Ok(SettledRun::NotBegun);
            }
            // A keeper claimed it first.
        }
    }

    /// Finds a run that may have been started already, in the boot `boot`, without claiming it.
    /// `None`: it may be started.
    pub fn find_started(&self, run: &str, boot: &str) -> io::Result<Option<SettledRun>> {
        self.look(run, boot)
    }

    /// Returns the specification of a run.
    pub fn spec(&self, run: &str) -> io::Result<Spec> {
        Ok(self.folder(run)?.prepared()?.spec)
    }

    /// Returns what a hook wrote to its errors, at most [`keeper::ERRORS_MAX_BYTES`].
    pub fn errors(&self, run: &str) -> io::Result<Vec<u8>> {
        let mut errors = Vec::new();
        let file = File::open(self.folder(run)?.errors())?;
        file.take(keeper::ERRORS_MAX_BYTES as u64)
            .read_to_end(&mut errors)?;
        Ok(errors)
    }

    /// Returns what a hook read.
    pub fn input(&self, run: &str) -> io::Result<Vec<u8>> {
        std::fs::read(self.folder(run)?.input())
    }

    /// Returns how a command ended that is known to have been started. `None` while it runs.
    ///
    /// Claims nothing: an inspection must not keep a keeper from its work.
    pub fn ended(&self, run: &str) -> io::Result<Option<RunEnd>> {
        let folder = self.folder(run)?;
        // An unreadable spec means that the machine went down: see `RunFolder::create`.
        let boot = folder.prepared().map(|p| p.boot).unwrap_or_default();
        Ok(match self.look(run, &boot)? {
            Some(SettledRun::Ended(ended)) => Some(ended),
            Some(SettledRun::NotBegun) => {
                Some(ended(&folder, not_run(NO_KEEPER.to_string()), true))
            }
            Some(SettledRun::Running(_)) | None => None,
        })
    }

    /// Does the same as [`Runs::settle`] without a claim: returns `None` when the run is not
    /// claimed.
    fn look(&self, run: &str, boot: &str) -> io::Result<Option<SettledRun>> {
        let folder = self.folder(run)?;
        let this_boot = !boot.is_empty() && boot == process::boot_id();
        Ok(Some(match look_after_claim(&folder)? {
            ObservedState::Ended(end) => SettledRun::Ended(ended(&folder, end, this_boot)),
            ObservedState::Kept(_) => SettledRun::Running(Running {
                run: run.to_string(),
                child: None,
                is_spare: false,
                _waits: None,
            }),
            ObservedState::Missing => SettledRun::Ended(lost(&folder, None)),
            ObservedState::Unclaimed | ObservedState::Abandoned(_) if !this_boot => {
                SettledRun::Ended(lost(&folder, None))
            }
            ObservedState::Unclaimed => return Ok(None),
            ObservedState::Abandoned(StatusSlot::Empty) => SettledRun::NotBegun,
            ObservedState::Abandoned(StatusSlot::Torn) => SettledRun::Ended(lost(&folder, None)),
            ObservedState::Abandoned(StatusSlot::Written(begun)) => {
                SettledRun::Ended(lost(&folder, Some(&begun)))
            }
        }))
    }

    /// Asks a command to end; [`Runs::wait`] waits for that. Processes that outlive their command or
    /// its keeper are ended here, which blocks up to two seconds. The end of a subagent is awaited
    /// here, up to five seconds.
    pub fn stop(&self, run: &str) -> io::Result<Stopped> {
        let folder = self.folder(run)?;
        let child = folder.prepared().ok().and_then(|p| p.spec.child);
        let is_kept = matches!(look_after_claim::<End>(&folder)?, ObservedState::Kept(_));
        match child.filter(|_| is_kept) {
            Some(session) => self.stop_child(run, &session),
            None => self.stop_process(run),
        }
    }

    pub(super) fn stop_process(&self, run: &str) -> io::Result<Stopped> {
        let folder = self.folder(run)?;
        let this_boot = self.is_of_this_boot(&folder);
        loop {
            return match look_after_claim::<End>(&folder)? {
                ObservedState::Ended(end) if this_boot && end_survivors(&end) => Ok(Stopped::Asked),
                ObservedState::Ended(_) | ObservedState::Missing => Ok(Stopped::Over),
                ObservedState::Unclaimed | ObservedState::Abandoned(_) if !this_boot => {
                    Ok(Stopped::Over)
                }
                ObservedState::Unclaimed if !folder.claim()? => continue,
                ObservedState::Unclaimed | ObservedState::Abandoned(StatusSlot::Empty) => {
                    write_stopped(&folder)?;
                    Ok(Stopped::NotBegun)
                }
                ObservedState::Kept(StatusSlot::Written(begun)) => ask_to_end(run, &begun),
                ObservedState::Kept(StatusSlot::Empty | StatusSlot::Torn) => {
                    Err(io::Error::other(format!(
                        "cannot stop the command of run {run}: its keeper does not say who it is"
                    )))
                }
                ObservedState::Abandoned(StatusSlot::Written(begun))
                    if process::end_survivors_of(&begun) =>
                {
                    Ok(Stopped::Asked)
                }
                ObservedState::Abandoned(StatusSlot::Written(_) | StatusSlot::Torn) => {
                    Ok(Stopped::Over)
                }
            };
        }
    }

    /// Reads at most `max_bytes` of the output: the head, and the end.
    pub fn output(&self, ended: &RunEnd, max_bytes: u64) -> io::Result<Printed> {
        let tail = ended.output.with_file_name(folder::TAIL);
        Stored {
            head: &ended.output,
            tail: &tail,
            kept: ended.bytes_kept,
            total: ended.bytes_total,
        }
        .read(max_bytes)
        .map_err(|e| with_context("cannot read the output", &ended.output, e))
    }

    /// Returns the last bytes printed so far. Beyond the cap they may be half a second old.
    pub fn tail(&self, run: &str, max_bytes: u64) -> io::Result<Vec<u8>> {
        output::last(&self.folder(run)?, max_bytes)
    }

    /// Returns the last bytes of the output beyond the cap. Empty: the head has all of it.
    pub fn tail_beyond_cap(&self, run: &str, max_bytes: u64) -> io::Result<Vec<u8>> {
        output::beyond_cap(&self.folder(run)?, max_bytes)
    }

    /// Returns the file with the head of the output.
    pub fn output_file(&self, run: &str) -> io::Result<PathBuf> {
        Ok(self.folder(run)?.output())
    }

    /// Returns all files with output of the command.
    pub fn output_files(&self, run: &str) -> io::Result<[PathBuf; 2]> {
        let folder = self.folder(run)?;
        Ok([folder.output(), folder.tail()])
    }

    /// Returns all runs, oldest first. A folder that cannot be read is left out.
    pub fn list(&self) -> Vec<RunInfo> {
        let Ok(entries) = std::fs::read_dir(&self.root) else {
            return Vec::new();
        };
        let mut runs: Vec<RunInfo> = entries
            .filter_map(|entry| self.info(entry.ok()?.file_name().to_str()?))
            .collect();
        runs.sort_by(|a, b| a.run.cmp(&b.run));
        runs
    }

    /// Returns whether the keeper is alive and the command runs. False when that is unknown.
    pub fn is_running(&self, run: &str) -> bool {
        let info = self.info(run);
        info.is_some_and(|info| matches!(info.state, RunState::Running { .. }))
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the sessions of the first `at_most` runs.
    pub fn sessions(&self, at_most: usize) -> Vec<String> {
        let runs = std::fs::read_dir(&self.root).into_iter().flatten();
        let session = |run: io::Result<std::fs::DirEntry>| {
            let folder = self.folder(run.ok()?.file_name().to_str()?).ok()?;
            Some(folder.prepared().ok()?.spec.session)
        };
        runs.take(at_most).filter_map(session).collect()
    }

    /// Returns whether this process is the subagent that the keeper of this run started. If a model
    /// types the same command line, the process is below the keeper of another run.
    pub fn is_child(&self, run: &str, session: &str) -> bool {
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
        let Ok(folder) = self.folder(run) else {
            return false;
        };
        let is_meant = folder
            .prepared()
            .is_ok_and(|prepared| prepared.spec.child.as_deref() == Some(session));
        let keeper = match look::<End>(&folder) {
            Ok(ObservedState::Kept(StatusSlot::Written(begun))) => i32::try_from(begun.keeper).ok(),
            _ => None,
        };
        is_meant && parent.is_some() && keeper == parent
    }

    fn info(&self, run: &str) -> Option<RunInfo> {
        let folder = self.folder(run).ok()?;
        let prepared = folder.prepared().ok()?;
        let this_boot = prepared.boot == process::boot_id();
        let mut since_ms = prepared.at_ms;
        let state = match look::<End>(&folder).ok()? {
            // A list does not read the output.
            ObservedState::Ended(mut end) => {
                if let Some(after) = end.sandbox.as_mut().filter(|_| !this_boot) {
                    after.survivor_pids.clear();
                }
                RunState::Ended(Box::new(ended(&folder, end, true)))
            }
            ObservedState::Kept(StatusSlot::Written(begun)) => {
                since_ms = begun.at_ms;
                RunState::Running {
                    keeper: Some(begun.keeper),
                    group: begun.group,
                }
            }
            ObservedState::Kept(StatusSlot::Empty | StatusSlot::Torn) => RunState::Running {
                keeper: None,
                group: None,
            },
            ObservedState::Unclaimed | ObservedState::Abandoned(StatusSlot::Empty) if this_boot => {
                RunState::NotBegun
            }
            ObservedState::Abandoned(StatusSlot::Written(begun)) if this_boot => {
                since_ms = begun.at_ms;
                RunState::Ended(Box::new(lost(&folder, Some(&begun))))
            }
            ObservedState::Unclaimed | ObservedState::Abandoned(_) | ObservedState::Missing => {
                RunState::Ended(Box::new(lost(&folder, None)))
            }
        };
        Some(RunInfo {
            run: run.to_string(),
            spec: prepared.spec,
            since_ms,
            state,
        })
    }

    /// Returns whether a run folder of this name exists. False for a string that is not the name of
    /// a run.
    pub fn exists(&self, run: &str) -> bool {
        self.folder(run).is_ok_and(|folder| folder.path().is_dir())
    }

    /// Removes a run folder and returns whether it is gone. It stays in the list as long as
    /// something of the run is alive. A folder that does not exist counts as removed.
    pub fn remove(&self, run: &str) -> io::Result<bool> {
        let folder = self.folder(run)?;
        let lives = match look::<End>(&folder)? {
            ObservedState::Abandoned(StatusSlot::Written(begun)) => {
                !process::survivors_of(&begun).is_empty()
            }
            ObservedState::Ended(End {
                sandbox: Some(after),
                ..
            }) => !after.living().is_empty(),
            _ => false,
        };
        if lives && self.is_of_this_boot(&folder) {
            return Ok(false);
        }
        let mut waited = Duration::ZERO;
        loop {
            let removed = folder
                .remove()
                .map_err(|e| with_context("cannot remove the run folder", folder.path(), e))?;
            // A keeper that has recorded the end exits within a moment.
            if removed
                || waited >= DIE_WITHIN
                || matches!(look::<End>(&folder)?, ObservedState::Kept(_))
            {
                return Ok(removed);
            }
            std::thread::sleep(process::TICK);
            waited += process::TICK;
        }
    }

    /// Removes the folders that a process left when it died inside [`Runs::prepare`]: they have no
    /// whole spec, so no session asks for them. A young folder may still be under construction.
    pub fn remove_unfinished(&self) -> io::Result<()> {
        let entries = match std::fs::read_dir(&self.root) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let name = entry?.file_name();
            let Some(folder) = name.to_str().and_then(|run| self.folder(run).ok()) else {
                continue;
            };
            let is_old =
                made_at(&name).is_some_and(|at| at.elapsed().is_ok_and(|e| e > MAKE_WITHIN));
            if is_old && folder.prepared().is_err() && !folder.is_claimed()? {
                folder.remove()?;
            }
        }
        Ok(())
    }

    fn folder(&self, run: &str) -> io::Result<RunFolder> {
        RunFolder::named(&self.root, run)
    }

    fn is_of_this_boot(&self, folder: &RunFolder) -> bool {
        folder
            .prepared()
            .is_ok_and(|prepared| prepared.boot == process::boot_id())
    }
}

/// Returns when a run folder was created, from its name, which begins with the time.
fn made_at(name: &OsStr) -> Option<SystemTime> {
    let id = Uuid::try_parse(name.to_str()?).ok()?;
    let (secs, nanos) = id.get_timestamp()?.to_unix();
    UNIX_EPOCH.checked_add(Duration::new(secs, nanos))
}

/// Ends the processes that outlive their command, and their descendants: asks them, and kills those
/// that remain after [`process::GRACE`]. Returns whether there were any.
fn end_survivors(end: &End) -> bool {
    let after = end.sandbox.as_ref();
    let mut all = after.map(Aftermath::living).unwrap_or_default();
    let found = !all.is_empty();
    let signal = |all: &[Survivor], signal| {
        for pid in all.iter().filter_map(|one| process::pid(one.pid)) {
            let _ = kill_process(pid, signal);
        }
    };
    Survivor::follow(&mut all);
    signal(&all, Signal::TERM);
    let kill_at = Instant::now() + process::GRACE;
    while !all.is_empty() && Instant::now() < kill_at {
        std::thread::sleep(process::TICK);
        Survivor::follow(&mut all);
    }
    signal(&all, Signal::KILL);
    found
}

/// Records that a run was stopped before its start. With the claim alone, a later agent would start
/// it again.
fn write_stopped(folder: &RunFolder) -> io::Result<()> {
    let tried = "cannot record the stop in";
    let status = folder
        .open_status()
        .map_err(|e| with_context(tried, folder.path(), e))?;
    let mut waited = Duration::ZERO;
    // A late keeper holds the lock until it sees the claim.
    while !folder::take(&status)? {
        if waited >= DIE_WITHIN {
            let busy = io::Error::other("its keeper does not answer");
            return Err(with_context(tried, folder.path(), busy));
        }
        std::thread::sleep(process::TICK);
        waited += process::TICK;
    }
    let end = not_run(keeper::STOPPED_EARLY.to_string());
    status::write_end(&status, &end).map_err(|e| with_context(tried, folder.path(), e))
}

/// Asks a keeper to end its command, unless its pid now belongs to another process.
pub(super) fn ask_to_end(run: &str, begun: &Begun) -> io::Result<Stopped> {
    let started = process::started(begun.keeper);
    if started.is_some() && started != begun.keeper_start {
        return Err(io::Error::other(format!(
            "cannot stop the command of run {run}: process {} is not its keeper",
            begun.keeper
        )));
    }
    let asked =
        process::pid(begun.keeper).is_some_and(|keeper| kill_process(keeper, Signal::TERM).is_ok());
    Ok(if asked { Stopped::Asked } else { Stopped::Over })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use support::default_shell;

    #[test]
    fn no_other_process_is_signalled_that_has_the_pid_of_a_keeper() {
        let root = tempfile::tempdir().unwrap();
        let runs = Runs::new(root.path(), "/no/such/program");
        let spec = Spec {
            command: "true".into(),
            folder: "/".into(),
            timeout_ms: 1,
            output_cap_bytes: 0,
            shell: default_shell(),
            env_remove: vec![],
            env_set: vec![],
            session: String::new(),
            call: String::new(),
            background: true,
            sandbox: None,
            child: None,
            hook: None,
            lease: None,
        };
        let run = runs.prepare(&spec).unwrap();
        let folder = runs.folder(&run).unwrap();
        let status = folder.open_status().unwrap();
        assert!(folder::take(&status).unwrap() && folder.claim().unwrap());
        let mut other = std::process::Command::new("sleep")
            .arg("30")
            .spawn()
            .unwrap();
        let begun = Begun {
            keeper: other.id(),
            keeper_start: Some(1),
            group: None,
            at_ms: 0,
        };
        status::write_begun(&status, &begun).unwrap();
        let refused = runs.stop(&run);
        let alive = other.try_wait().unwrap().is_none();
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(
            refused
                .unwrap_err()
                .to_string()
                .contains("is not its keeper")
        );
        assert!(alive);
    }
}
