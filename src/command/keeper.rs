//! The keeper: a process that starts one command, waits for its end and records how it ended. It is
//! this binary, started with a hidden first argument that is handled before anything else. It gets
//! its run folder as an argument, or later over a pipe (see [`super::spare`]).
//!
//! It must outlive the agent, so it shares nothing with it. It has a separate process session, no
//! inherited descriptors but the three standard ones, and gets no signals of a terminal. Its stdout
//! and stderr are `/dev/null`; its stdin is a pipe that is open as long as somebody waits for the
//! result.
//!
//! The process that waits records the result and syncs it. So the keeper syncs its files only when
//! nobody waits: the agent is dead, or the command runs in the background. If the agent dies a
//! moment later and the power fails too, the record of the end may be on the disk without the
//! output. The record has a hash of the output, which reveals that.
//!
//! SIGTERM asks the keeper to end the command: TERM, two seconds, KILL, to the whole group. The
//! time limit ends the command in the same way, and the end of the lease of a shared session too:
//! TERM at 5/6 of it, KILL at 9/10. Other signals that can be caught do nothing; they
//! are caught and not ignored, because the command would inherit that.
//!
//! A command ends when its shell exits. In a sandbox, the processes that it left running end with
//! it. Without a sandbox they continue. Their output is read for 200 ms more; a later write fails
//! with a broken pipe. On Linux the record of the end names those that still run then, and a stop or
//! a limit ends them like the group, in whatever group or session they are. Processes with a
//! terminal, the server of these (tmux) and other keepers are spared.
//!
//! A hook has ended when nothing has its output open any more; a process that keeps it open is ended
//! at the time limit. Its input is a file, and its errors have a separate one.
//!
//! Invariant: memory does not grow with the output. No threads, no async runtime, and nothing
//! before the claim that is not needed for it: every command waits for this.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, PipeReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, test_kill_process_group};

use super::aftermath::Aftermath;
use super::confined::Confined;
use super::folder::{self, RunFolder};
use super::inside::{KEEP, is_spared};
use super::lease::{LEASE_OVER, LeaseState, LeaseWatch};
use super::output::Capture;
use super::process::{self, GRACE, TICK};
use super::signals::Signals;
use super::spec::{GIT_SETTINGS, Spec};
use super::status::{self, Begun, End, How};
use super::{memory, spare};
use crate::sandbox::{
    self, Family, Placeholders, Profile, Report, SurvivorPipe, adopt_orphans, close_inherited,
};
use crate::store::now_ms;

/// The hidden first argument of a keeper. The second is the run folder. A spare keeper gets no
/// second argument.
pub const WORD: &str = KEEP;

/// The hidden first argument of a subagent. The second is its session, the third its run.
pub const CHILD_WORD: &str = "__child";

/// Variable with the command line settings of the parent, for a subagent.
pub const SETTINGS_ENV: &str = "REWAKE_CHILD_SETTINGS";

/// Variable with the name of the run, set for each command of a keeper.
pub const RUN_ENV: &str = "REWAKE_RUN";

/// Time for which output is still read after the shell exited.
const DRAIN: Duration = Duration::from_millis(200);

/// Longest sleep, so that a distant deadline fits the range of any clock.
const IDLE: Duration = Duration::from_secs(3600);

/// The reason for not running a command that was stopped early.
pub(super) const STOPPED_EARLY: &str = "it was stopped before it began";

const READ_BYTES: usize = 64 * 1024;

const NOTE_MAX_CHARS: usize = 500;

/// Maximum number of bytes of a hook's errors that are stored.
pub(super) const ERRORS_MAX_BYTES: usize = 64 * 1024;

/// Runs as a keeper if this process was started as one. Returns `None` for an ordinary start.
pub fn run_if_keeper() -> Option<ExitCode> {
    let mut args = process::arguments_after(WORD)?;
    close_inherited(&[]);
    let given = args.next().map(RunFolder::at);
    let is_spare = given.is_none();
    let folder = match rustix::process::setsid() {
        Ok(_) => given.or_else(spare::wait_for_folder),
        Err(_) => None,
    };
    // Nobody reads a keeper's messages; the agent reads only the run folder.
    let kept = folder.is_some_and(|folder| keep(&folder, is_spare).is_ok());
    Some(ExitCode::from(u8::from(!kept)))
}

fn keep(folder: &RunFolder, is_spare: bool) -> io::Result<()> {
    let signals = Signals::catch()?;
    let status = folder.open_status()?;
    if !folder::take(&status)? {
        return Ok(());
    }
    let spec = folder.prepared()?.spec;
    if is_spare {
        set_environment(&spec)?;
    }
    let mut capture = Capture::open(folder, spec.output_cap_bytes)?;
    if !folder.claim()? {
        return Ok(());
    }
    let mut begun = Begun {
        keeper: std::process::id(),
        keeper_start: process::started(std::process::id()),
        group: None,
        at_ms: now_ms(),
    };
    status::write_begun(&status, &begun)?;
    let mut confined = spec.sandbox.as_deref().map(|profile| {
        adopt_orphans();
        Confined::new(profile, spec.background)
    });
    // The commands of a subagent have keepers, which outlive it.
    let is_unconfined = confined.is_none() && spec.child.is_none();
    if is_unconfined {
        adopt_orphans();
    }
    let mut family = None;
    let kills = memory::kills();
    let since = Instant::now();
    let mut lease = spec.lease.as_deref().map(LeaseWatch::new);
    let how = if signals.stop_asked() {
        How::NotRun(STOPPED_EARLY.to_string())
    } else if has_ended(&mut lease) {
        How::NotRun(LEASE_OVER.to_string())
    } else {
        match start(folder, &spec) {
            Ok(Started {
                child,
                output,
                errors,
                sandbox,
            }) => {
                begun.group = Some(child.id());
                // For display, and for a stop after this process was killed: a failure here is
                // ignored.
                let _ = status::write_begun(&status, &begun);
                if let (Some(confined), Some((left, placeholders))) = (&mut confined, sandbox) {
                    confined.began(child.id(), left, placeholders);
                }
                family = Family::unconfined(child.id(), is_spared).filter(|_| is_unconfined);
                let errors = errors.map(|pipe| Errors::new(pipe, folder));
                let processes = (confined.as_mut(), family.as_ref());
                EndWatch::new(child, output, errors, &spec, processes, lease)
                    .watch(&signals, &mut capture)?
            }
            Err(why) => How::NotRun(why.chars().take(NOTE_MAX_CHARS).collect()),
        }
    };
    let took = since.elapsed();
    capture.finish();
    // Without a hash of its output, the record of the end must not outlive the output.
    let has_sum = capture.error.is_none();
    let is_durable = spec.background || !has_reader() || !has_sum;
    if is_durable {
        capture.sync();
    }
    let left = family.as_ref().and_then(Aftermath::left_by);
    let mut after = confined.map(Confined::finish).or(left);
    if kills.is_some_and(|before| memory::kills().is_some_and(|now| now > before)) {
        after.get_or_insert_default().out_of_memory = true;
    }
    status::write_end(&status, &end(how, took, &mut capture, after))?;
    if is_durable {
        status.sync_data()?;
        folder.sync()?;
    }
    Ok(())
}

fn has_ended(lease: &mut Option<LeaseWatch>) -> bool {
    let lease = lease.as_mut();
    lease.is_some_and(|lease| lease.look() != LeaseState::Good)
}

/// Gives this process the environment with which a keeper of this command is started.
#[allow(unsafe_code)]
fn set_environment(spec: &Spec) -> io::Result<()> {
    let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
    let environment = spec.environment(std::env::var(GIT_SETTINGS).ok());
    let is_valid = |(name, value): &(String, Option<String>)| match value {
        Some(value) => is_name(name) && !value.contains('\0'),
        None => true,
    };
    if !environment.iter().all(is_valid) {
        return Err(io::Error::from(ErrorKind::InvalidInput));
    }
    for (name, value) in environment {
        if let Some(value) = value {
            // SAFETY: a keeper has one thread.
            unsafe { std::env::set_var(name, value) };
        } else if is_name(&name) {
            // SAFETY: as above.
            unsafe { std::env::remove_var(name) };
        }
    }
    Ok(())
}

/// Returns whether somebody waits for the result. Nothing is ever written to the pipe, so it is not
/// readable while it is open. Any other input (`/dev/null`) is readable at once.
fn has_reader() -> bool {
    let input = rustix::stdio::stdin();
    let mut fds = [PollFd::new(&input, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&Timespec::default())), Ok(0))
}

fn end(how: How, took: Duration, capture: &mut Capture, after: Option<Aftermath>) -> End {
    End {
        how,
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        ended_at_ms: now_ms(),
        bytes_total: capture.total,
        bytes_kept: capture.kept,
        write_error: capture
            .error
            .as_ref()
            .map(|e| e.chars().take(NOTE_MAX_CHARS).collect()),
        sandbox: after,
        output_sum: capture.sum(),
    }
}

/// A command that was started.
struct Started {
    child: Child,
    output: PipeReader,
    /// The errors of a hook. Those of a command are in its output.
    errors: Option<PipeReader>,
    /// The values that the keeper needs when a command in a sandbox has ended.
    sandbox: Option<(SurvivorPipe, Placeholders)>,
}

/// Starts the command in a new process group. Its output and errors share one pipe, and only the
/// command has the writing end. A hook has two pipes, and its input is a file. The error is for the
/// model.
fn start(folder: &RunFolder, spec: &Spec) -> Result<Started, String> {
    let metadata = std::fs::metadata(&spec.folder);
    if !metadata.is_ok_and(|m| m.is_dir()) {
        return Err(format!("there is no folder {}", spec.folder.display()));
    }
    let failed = |e: io::Error| format!("cannot start {}: {e}", spec.shell.display());
    let (output, writer) = io::pipe().map_err(failed)?;
    let mut errors = None;
    let (input, error_writer) = match spec.hook {
        None => (Stdio::null(), writer.try_clone().map_err(failed)?),
        Some(_) => {
            let (reader, writer) = io::pipe().map_err(failed)?;
            errors = Some(reader);
            (File::open(folder.input()).map_err(failed)?.into(), writer)
        }
    };
    let args = arguments(folder, spec);
    let (mut command, sandbox) = match &spec.sandbox {
        _ if spec.child.is_some() => (child(folder, spec).map_err(failed)?, None),
        None => {
            let mut command = Command::new(&spec.shell);
            command.args(args).env(RUN_ENV, name(folder));
            (command, None)
        }
        Some(profile) => {
            let mut profile = Profile::clone(profile);
            profile.read.extend(folder.script().canonicalize());
            let exe = process::own_exe().map_err(failed)?;
            let mut starting =
                sandbox::forked(&profile, &exe, &spec.shell, args).map_err(failed)?;
            starting.command.env(RUN_ENV, name(folder));
            let kept = (starting.left, starting.placeholders);
            (starting.command, Some((starting.report, kept)))
        }
    };
    let (report, sandbox) = sandbox.unzip();
    let spawned = command
        .current_dir(&spec.folder)
        .process_group(0)
        .stdin(input)
        .stdout(writer)
        .stderr(error_writer)
        .spawn();
    // This closes our copies of the writing ends.
    drop(command);
    if let Some(why) = report.and_then(Report::failure) {
        let _ = spawned.and_then(|mut child| child.wait());
        return Err(format!("there is no sandbox for this command: {why}"));
    }
    let child = spawned.map_err(failed)?;
    Ok(Started {
        child,
        output,
        errors,
        sandbox,
    })
}

/// Returns the arguments of the shell.
fn arguments(folder: &RunFolder, spec: &Spec) -> Vec<OsString> {
    let is_fish = spec.shell.file_name() == Some(OsStr::new("fish"));
    let mut args: Vec<OsString> = if spec.needs_script() {
        vec![folder.script().into()]
    } else if is_fish {
        // It would run the `--`.
        ["-c", &spec.command].map(OsString::from).into()
    } else {
        ["-c", "--", &spec.command].map(OsString::from).into()
    };
    if is_fish && spec.sandbox.is_some() {
        // It would complain about folders of the home folder that it cannot write.
        args.insert(0, "--no-config".into());
    }
    args
}

fn name(folder: &RunFolder) -> &OsStr {
    folder.path().file_name().unwrap_or_default()
}

/// Returns the command line of a subagent, which is this program. The variable that marks commands
/// of a model is removed.
fn child(folder: &RunFolder, spec: &Spec) -> io::Result<Command> {
    let mut command = Command::new(process::own_exe()?);
    command
        .arg0("rewake")
        .arg(CHILD_WORD)
        .arg(spec.child.as_deref().unwrap_or_default())
        .arg(name(folder))
        .env_remove(RUN_ENV);
    Ok(command)
}

fn is_gone(group: u32) -> bool {
    process::pid(group).is_none_or(|group| test_kill_process_group(group).is_err())
}

/// The running command, with its deadlines.
struct EndWatch<'a> {
    child: Child,
    /// The keeper's part of the sandbox, if the command has one.
    confined: Option<&'a mut Confined>,
    /// The processes of a command without a sandbox.
    family: Option<&'a Family>,
    /// The output; `None` after its end.
    pipe: Option<PipeReader>,
    /// The errors of a hook; `None` for a command.
    errors: Option<Errors>,
    /// More output than this ends a hook.
    most_bytes: Option<u64>,
    /// Time at which the limit is reached; `None` for no limit.
    limit_at: Option<Instant>,
    /// The lease of the session, if it is shared.
    lease: Option<LeaseWatch>,
    exit: Option<ExitStatus>,
    /// Set when the keeper ends the command.
    ending: Option<Ending>,
    /// When the shell's exit was noticed. Since then only processes that it left running can print.
    over_since: Option<Instant>,
}

struct Ending {
    how: How,
    kill_at: Instant,
    killed: bool,
}

impl<'a> EndWatch<'a> {
    fn new(
        child: Child,
        pipe: PipeReader,
        errors: Option<Errors>,
        spec: &Spec,
        (confined, family): (Option<&'a mut Confined>, Option<&'a Family>),
        lease: Option<LeaseWatch>,
    ) -> EndWatch<'a> {
        EndWatch {
            child,
            confined,
            family,
            pipe: Some(pipe),
            errors,
            most_bytes: spec.hook.as_ref().map(|_| spec.output_cap_bytes),
            limit_at: Instant::now().checked_add(Duration::from_millis(spec.timeout_ms)),
            lease,
            exit: None,
            ending: None,
            over_since: None,
        }
    }

    fn watch(mut self, signals: &Signals, capture: &mut Capture) -> io::Result<How> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let now = Instant::now();
            let is_too_much = self.most_bytes.is_some_and(|most| capture.total > most);
            self.look(now, signals.stop_asked(), is_too_much)?;
            if let Some(how) = self.ended(now) {
                return Ok(how);
            }
            if capture.tail_due().is_some_and(|due| due <= now) {
                capture.write_tail();
            }
            let lease = self.lease.as_ref().map(LeaseWatch::pause);
            let lease = lease.map(|pause| Instant::now() + pause);
            let until = [self.next_deadline(), capture.tail_due(), lease];
            let until = until.into_iter().flatten().min();
            self.wait(signals, until.unwrap_or(now + IDLE), &mut buffer, capture)?;
            if signals.clear()
                && let Some(family) = self.family
            {
                family.reap();
            }
        }
    }

    /// Checks the state of the command and does what is due.
    fn look(&mut self, now: Instant, stop_asked: bool, is_too_much: bool) -> io::Result<()> {
        if self.exit.is_none() {
            self.exit = self.child.try_wait()?;
        }
        let late = self.limit_at.is_some_and(|limit| limit <= now);
        let is_open = self.has_open_hook_pipe();
        // What the command left running has ended only after the pause for its output.
        let is_left = stop_asked && self.over_since.is_some() && self.has_others();
        let runs = self.ending.is_none() && (self.exit.is_none() || is_open || is_left);
        let confined = self.confined.as_mut().filter(|_| runs);
        let over_a_limit = confined.is_some_and(|confined| confined.is_over_a_limit(now));
        let lease = self.lease.as_mut();
        let lease = lease.map_or(LeaseState::Good, LeaseWatch::look);
        let how = match () {
            () if stop_asked => Some(How::Stopped),
            () if late => Some(How::TimedOut),
            () if over_a_limit || is_too_much => Some(How::Stopped),
            () if lease != LeaseState::Good => Some(How::LeaseEnded),
            () => None,
        };
        if let Some(how) = how.filter(|_| runs) {
            // First those outside the group: they are not found while the shell that ends leaves
            // them to this process.
            self.family.into_iter().for_each(Family::ask_to_end);
            process::signal_group(self.child.id(), Signal::TERM);
            self.over_since = None;
            let of_lease = self.lease.as_ref().filter(|_| how == How::LeaseEnded);
            let grace = of_lease.map_or(GRACE, LeaseWatch::until_kill);
            self.ending = Some(Ending {
                how,
                kill_at: now + grace,
                killed: false,
            });
        }
        let group = self.child.id();
        let has_others = self.ending.is_some() && self.has_others();
        let over = match &mut self.ending {
            _ if self.over_since.is_some() => return Ok(()),
            None => self.exit.is_some() && !is_open,
            Some(ending) => {
                let group_gone = self.exit.is_some() && is_gone(group);
                let due = ending.kill_at <= now || lease == LeaseState::Over;
                if !group_gone && !ending.killed && due {
                    process::signal_group(group, Signal::KILL);
                }
                ending.killed |= due;
                (group_gone && !has_others) || (ending.killed && self.exit.is_some())
            }
        };
        if over {
            self.over_since = Some(now);
            if let Some(confined) = &mut self.confined {
                confined.is_over();
            }
            if let (Some(family), Some(_)) = (self.family, &self.ending) {
                family.end();
            }
        }
        Ok(())
    }

    /// Returns whether a process has an output of this hook open.
    fn has_open_hook_pipe(&self) -> bool {
        let errors = self.errors.as_ref();
        errors.is_some_and(|errors| errors.pipe.is_some() || self.pipe.is_some())
    }

    /// Returns whether processes of a command without a sandbox run besides its shell.
    fn has_others(&self) -> bool {
        self.family.is_some_and(|all| !all.others().is_empty())
    }

    fn ended(&self, now: Instant) -> Option<How> {
        let drained_at = self.over_since? + DRAIN;
        let is_open = self.pipe.is_some() || self.has_open_hook_pipe();
        // A process substitution ends a moment after its shell. What a hook leaves is not awaited.
        if now < drained_at && (is_open || (self.errors.is_none() && self.has_others())) {
            return None;
        }
        let exit = self.exit?;
        Some(match &self.ending {
            Some(ending) => ending.how.clone(),
            None => match exit.code() {
                Some(code) => How::Exited(code),
                None => How::Signalled(exit.signal().unwrap_or_default()),
            },
        })
    }

    fn next_deadline(&self) -> Option<Instant> {
        if let Some(since) = self.over_since {
            return Some(since + DRAIN);
        }
        match &self.ending {
            None => {
                let look = self.confined.as_ref().map(|confined| confined.next_look());
                self.limit_at.into_iter().chain(look).min()
            }
            // No event reports the end of a group's last process.
            Some(_) if self.exit.is_some() => Some(Instant::now() + TICK),
            Some(ending) if !ending.killed => Some(ending.kill_at),
            Some(_) => None,
        }
    }

    /// Sleeps until there is output, a signal, or the deadline, and reads the output.
    fn wait(
        &mut self,
        signals: &Signals,
        until: Instant,
        buffer: &mut [u8],
        capture: &mut Capture,
    ) -> io::Result<()> {
        let wanted = PollFlags::IN;
        let errors = self.errors.as_ref().and_then(|errors| errors.pipe.as_ref());
        let mut fds = vec![PollFd::new(&signals.wake, wanted)];
        fds.extend(self.pipe.iter().map(|pipe| PollFd::new(pipe, wanted)));
        fds.extend(errors.map(|pipe| PollFd::new(pipe, wanted)));
        // Rounded up: waking a little too early would be a busy loop.
        let left = until.saturating_duration_since(Instant::now()) + Duration::from_micros(50);
        let left = Timespec::try_from(left.min(IDLE)).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&left)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
        let mut ready = fds[1..].iter().map(|pipe| !pipe.revents().is_empty());
        let has_output = self.pipe.is_some() && ready.next().unwrap_or_default();
        let has_errors = errors.is_some() && ready.next().unwrap_or_default();
        if has_output {
            read(&mut self.pipe, buffer, |bytes| capture.take(bytes));
        }
        if let Some(errors) = self.errors.as_mut().filter(|_| has_errors) {
            errors.read(buffer);
        }
        Ok(())
    }
}

/// Reads from a pipe once. At its end, or when it cannot be read, it becomes `None`.
fn read(pipe: &mut Option<PipeReader>, buffer: &mut [u8], take: impl FnOnce(&[u8])) {
    let Some(reader) = pipe else { return };
    match reader.read(buffer) {
        Ok(n) if n > 0 => take(&buffer[..n]),
        Err(e) if e.kind() == ErrorKind::Interrupted => {}
        Ok(_) | Err(_) => *pipe = None,
    }
}

/// The errors of a hook: the first bytes are stored, the rest is read and dropped.
struct Errors {
    /// `None` after its end.
    pipe: Option<PipeReader>,
    /// `None`: they cannot be stored.
    file: Option<File>,
    stored: usize,
}

impl Errors {
    fn new(pipe: PipeReader, folder: &RunFolder) -> Errors {
        Errors {
            pipe: Some(pipe),
            file: File::options().append(true).open(folder.errors()).ok(),
            stored: 0,
        }
    }

    fn read(&mut self, buffer: &mut [u8]) {
        read(&mut self.pipe, buffer, |bytes| {
            let room = ERRORS_MAX_BYTES - self.stored;
            let bytes = &bytes[..bytes.len().min(room)];
            self.stored += bytes.len();
            let written = self.file.as_mut().map(|file| file.write_all(bytes));
            if let Some(Err(_)) = written {
                self.file = None;
            }
        });
    }
}
