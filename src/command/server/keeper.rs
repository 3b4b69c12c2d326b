//! The keeper of a server: a process that starts it, stays with it, journals each line that passes,
//! and serves one agent at a time.
//!
//! Like the keeper of a command it shares nothing with the agent. It has a separate process
//! session, no descriptors but the standard ones (all `/dev/null`), and gets no signals of a
//! terminal. SIGTERM asks it to end the server. The end of the lease of a shared session ends it, too:
//! TERM at 5/6 of the lease, KILL at 9/10.
//!
//! Invariant: a line is on the disk before the server has a byte of it, and an answer is on the
//! disk before an agent is told of it.
//!
//! Invariant: no threads, no async runtime. A line that has passed stays nowhere in memory.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::child::{self, Answers, Errors, ServerInput};
use super::client::ASKS;
use super::connection::{AgentMessage, Connection};
use super::end::ServerEnd;
use super::journal::{self, Journal};
use super::line::{LineBuffer, LineKind, SplitLine};
use super::protected::ProtectedFiles;
use super::socket;
use super::spec::{PreparedServer, ServerSpec};
use super::wire::{ToAgent, VERSION};
use crate::command::folder::{self, RunFolder};
use crate::command::lease::{LEASE_OVER, LeaseState, LeaseWatch};
use crate::command::output::Capture;
use crate::command::process::{self, GRACE};
use crate::command::signals::Signals;
use crate::command::status::{self, Begun, How};
use crate::sandbox::{Family, close_inherited};
use crate::store::now_ms;

/// The hidden first argument of a server's keeper. The second is the run folder.
pub const WORD: &str = crate::command::inside::SERVE;

/// Bytes of a server's stderr that are stored from the start; the end is stored as well.
const ERRORS_MAX_BYTES: u64 = 64 * 1024;

/// Maximum number of calls that wait for their answers.
const IN_FLIGHT_MAX: usize = 1024;

/// Maximum number of bytes that wait for a server that does not read. Beyond it, nothing more is
/// accepted from the agent.
const WAITING_MAX_BYTES: usize = 1024 * 1024;

/// Maximum size of the journals. Beyond it, nothing more is accepted until answered lines are
/// forgotten.
const JOURNALS_MAX_BYTES: u64 = 1024 * 1024 * 1024;

/// Maximum number of connections that have not said hello.
const NEWCOMERS_MAX: usize = 8;
const HELLO_WITHIN: Duration = Duration::from_secs(5);

/// Longest time without an agent for which an unanswered call keeps a server alive.
const ALONE_MAX: Duration = Duration::from_secs(24 * 3600);

/// The same for a server that waits for a person.
const PERSON_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Time for which the pipes are still read after the server ended.
const DRAIN: Duration = Duration::from_millis(200);

/// Interval at which a failed write is retried.
const RETRY: Duration = Duration::from_millis(500);

/// Interval at which the processes of a server in a sandbox are counted, if the kernel does not
/// limit them.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// Interval at which the keeper checks that its run folder still exists.
const LOOK_EVERY: Duration = Duration::from_secs(5);

const GONE: &str = "the run folder of the server was removed";

/// Runs as a keeper if this process was started as one. Returns `None` for an ordinary start.
pub fn run_if_keeper() -> Option<ExitCode> {
    let folder = process::arguments_after(WORD)?.next();
    let kept = folder.is_some_and(|folder| keep(&RunFolder::at(folder)).is_ok());
    Some(ExitCode::from(u8::from(!kept)))
}

fn keep(folder: &RunFolder) -> io::Result<()> {
    close_inherited(&[]);
    rustix::process::setsid()?;
    let signals = Signals::catch()?;
    let status = folder.open_status()?;
    if !folder::take(&status)? {
        return Ok(());
    }
    let prepared: PreparedServer = folder.read_spec()?;
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
    let address = prepared.socket.clone();
    let address = address.unwrap_or_else(|| folder.path().join(socket::SOCKET));
    let end = match Keeper::start(folder, &prepared.spec, signals, &address) {
        Ok(mut keeper) => {
            begun.group = Some(keeper.child.id());
            let _ = status::write_begun(&status, &begun);
            keeper.watch(&status)?
        }
        Err(why) => ServerEnd::not_run(why),
    };
    let _ = std::fs::remove_file(&address);
    status::write_end(&status, &end)?;
    status.sync_data()?;
    folder.sync()
}

/// The progress of ending a server.
struct Ending {
    how: How,
    /// When its input was closed.
    since: Instant,
    signals: u32,
}

/// A line that could not be journaled.
struct PendingLine {
    line: Vec<u8>,
    retry_at: Instant,
}

struct Keeper {
    /// File that exists while the server waits for a person.
    asks: PathBuf,
    linger: Duration,
    /// The lease of the session, if it is shared.
    lease: Option<LeaseWatch>,
    has_no_lease: bool,
    signals: Signals,
    listener: UnixListener,
    child: Child,
    /// The server's processes, in a sandbox.
    family: Option<Family>,
    /// The protected files that are compared, in a sandbox.
    protected: Option<ProtectedFiles>,
    /// Maximum number of processes that may be alive at once.
    processes: u32,
    count_at: Instant,
    exit: Option<ExitStatus>,
    over_since: Option<Instant>,
    ending: Option<Ending>,
    /// Whether the server closed its output before anybody asked it to end.
    is_ended_by_itself: bool,
    into: ServerInput,
    answers: Answers,
    errors: Errors,
    printed: Capture,
    input: Journal,
    output: Journal,
    line: LineBuffer,
    /// Bytes from the server that follow the held line.
    rest: Vec<u8>,
    held: Option<PendingLine>,
    agent: Option<Connection>,
    newcomers: Vec<Connection>,
    in_flight: HashSet<String>,
    /// Since when the keeper has been without an agent.
    alone_since: Option<Instant>,
    /// Since when the keeper has been without an agent and without calls in flight.
    idle_since: Option<Instant>,
}

impl Keeper {
    fn start(
        folder: &RunFolder,
        spec: &ServerSpec,
        signals: Signals,
        address: &Path,
    ) -> Result<Keeper, String> {
        let failed = |e: io::Error| format!("cannot keep the server: {e}");
        let input = Journal::create(folder, journal::INPUT).map_err(failed)?;
        let output = Journal::create(folder, journal::OUTPUT).map_err(failed)?;
        let printed = Capture::open(folder, ERRORS_MAX_BYTES).map_err(failed)?;
        // Makes the names of the journals durable, so that their lines are found after a power cut.
        folder.sync().map_err(failed)?;
        let listener = socket::listen(address).map_err(failed)?;
        let mut lease = spec.lease.as_deref().map(LeaseWatch::new);
        let state = lease.as_mut().map(LeaseWatch::look);
        if state.is_some_and(|state| state != LeaseState::Good) {
            return Err(LEASE_OVER.to_string());
        }
        let profile = spec.sandbox.as_deref();
        let protected = profile.map(|profile| ProtectedFiles::look(profile, folder.path()));
        let (mut child, family) = child::start(folder.path(), spec)?;
        let into = ServerInput::new(child.stdin.take()).map_err(failed)?;
        let now = Instant::now();
        Ok(Keeper {
            asks: folder.path().join(ASKS),
            linger: Duration::from_millis(spec.linger_ms),
            lease,
            has_no_lease: false,
            signals,
            listener,
            into,
            answers: Answers::new(child.stdout.take()),
            errors: Errors::new(child.stderr.take()),
            child,
            family,
            protected,
            processes: spec.sandbox.as_ref().map_or(0, |p| p.limits.processes),
            count_at: now,
            exit: None,
            over_since: None,
            ending: None,
            is_ended_by_itself: false,
            printed,
            input,
            output,
            line: LineBuffer::default(),
            rest: Vec::new(),
            held: None,
            agent: None,
            newcomers: Vec::new(),
            in_flight: HashSet::new(),
            alone_since: Some(now),
            idle_since: Some(now),
        })
    }

    fn watch(&mut self, status: &File) -> io::Result<ServerEnd> {
        loop {
            let now = Instant::now();
            if self.exit.is_none() {
                self.exit = self.child.try_wait()?;
                self.over_since = self.exit.map(|_| now);
            }
            self.look(now, status);
            if let Some(end) = self.ended(now) {
                return Ok(end);
            }
            let ready = self.wait(now)?;
            self.signals.clear();
            self.attend(&ready);
        }
    }

    /// Does everything that is due.
    fn look(&mut self, now: Instant, status: &File) {
        let gone = status
            .metadata()
            .is_ok_and(|m| std::os::unix::fs::MetadataExt::nlink(&m) == 0);
        // A server that cannot answer any more is useless.
        let is_silent = self.answers.pipe.is_none();
        if self.signals.stop_asked() || gone || self.is_left(now) {
            self.begin_to_end(now);
        }
        if is_silent && self.ending.is_none() {
            self.begin_to_end(now);
            self.is_ended_by_itself = true;
        }
        let due_signals = match self.lease.as_mut().map(LeaseWatch::look) {
            None | Some(LeaseState::Good) => 0,
            Some(LeaseState::Ending) => 1,
            Some(LeaseState::Over) => 2,
        };
        if due_signals > 0 {
            self.has_no_lease = true;
            self.begin_to_end_as(How::LeaseEnded, now);
        }
        if let Some(ending) = &mut self.ending {
            while self.exit.is_none() && ending.signals < 2 {
                let due = ending.since + GRACE * (ending.signals + 1);
                if due > now && ending.signals >= due_signals {
                    break;
                }
                let signal = [Signal::TERM, Signal::KILL][ending.signals as usize];
                process::signal_group(self.child.id(), signal);
                ending.signals += 1;
            }
        }
        if self.held.as_ref().is_some_and(|held| held.retry_at <= now) {
            self.retry_held_line();
        }
        if self.printed.tail_due().is_some_and(|due| due <= now) {
            self.printed.write_tail();
        }
        self.count_processes(now);
        if let Some(protected) = self.protected.as_mut().filter(|p| p.look_at <= now) {
            protected.look_at_processes(self.family.as_ref());
        }
        self.newcomers
            .retain(|newcomer| !newcomer.is_over && newcomer.since + HELLO_WITHIN > now);
    }

    /// Ends a server with too many processes, if the kernel does not limit them.
    fn count_processes(&mut self, now: Instant) {
        let Some(family) = self.family.as_ref().filter(|family| !family.is_limited()) else {
            return;
        };
        family.reap();
        if self.ending.is_some() || now < self.count_at {
            return;
        }
        self.count_at = now + COUNT_EVERY;
        if family.count() > self.processes as usize {
            let told = format!(
                "ended by the sandbox: more than {} processes\n",
                self.processes
            );
            self.printed.take(told.as_bytes());
            self.begin_to_end(now);
        }
    }

    /// Undoes what the server did to protected files.
    fn compare_protected(&mut self) {
        if let Some(protected) = &mut self.protected {
            protected.compare(self.family.as_ref());
        }
    }

    /// Returns whether nobody uses the server any more.
    fn is_left(&self, now: Instant) -> bool {
        let passed = |since: Option<Instant>, limit| {
            since.is_some_and(|since| now.saturating_duration_since(since) >= limit)
        };
        let is_due = passed(self.idle_since, self.linger) || passed(self.alone_since, ALONE_MAX);
        is_due && (passed(self.alone_since, PERSON_MAX) || !self.asks.exists())
    }

    fn begin_to_end(&mut self, now: Instant) {
        self.begin_to_end_as(How::Stopped, now);
    }

    fn begin_to_end_as(&mut self, how: How, now: Instant) {
        if self.ending.is_none() && self.exit.is_none() {
            self.into.close();
            self.ending = Some(Ending {
                how,
                since: now,
                signals: 0,
            });
        }
    }

    fn ended(&mut self, now: Instant) -> Option<ServerEnd> {
        let exit = self.exit?;
        let is_read = self.answers.pipe.is_none() && self.errors.pipe.is_none();
        let drained = self.over_since.is_some_and(|since| since + DRAIN <= now);
        // Waits for the held line: a full disk may have space again.
        let is_wanted = !self.is_left(now) && !self.signals.stop_asked() && !self.has_no_lease;
        let is_held = self.held.is_some() && is_wanted;
        if is_held || !(is_read || drained) {
            return None;
        }
        // The processes that it left running have nobody to talk to.
        process::signal_group(self.child.id(), Signal::KILL);
        // Its placeholders are removed with the family, and are no changes.
        if let Some(family) = self.family.take() {
            family.end();
        }
        if let Some(mut protected) = self.protected.take() {
            protected.finish();
        }
        self.printed.finish();
        // A server that closed its output was about to exit, if it did so without a signal from the
        // keeper.
        let ending = self.ending.as_ref();
        let asked = ending.filter(|e| !self.is_ended_by_itself || e.signals > 0);
        let how = match (asked, exit.code()) {
            (Some(ending), _) => ending.how.clone(),
            (None, Some(code)) => How::Exited(code),
            (None, None) => How::Signalled(exit.signal().unwrap_or_default()),
        };
        Some(ServerEnd {
            how,
            ended_at_ms: now_ms(),
            handed: Some(self.into.handed),
        })
    }

    fn next_deadline(&self, now: Instant) -> Instant {
        let ending = self
            .ending
            .as_ref()
            .filter(|ending| ending.signals < 2)
            .map(|ending| ending.since + GRACE * (ending.signals + 1));
        let hello = self.newcomers.iter().map(|n| n.since + HELLO_WITHIN).min();
        let idle = self
            .idle_since
            .and_then(|since| since.checked_add(self.linger))
            // A deadline that has passed does not end a server that waits for a person.
            .filter(|due| self.ending.is_none() && *due > now);
        let drained = self.over_since.map(|since| since + DRAIN);
        let retry = self.held.as_ref().map(|held| held.retry_at);
        let is_counted = self
            .family
            .as_ref()
            .is_some_and(|family| !family.is_limited());
        let count = Some(self.count_at).filter(|_| is_counted && self.ending.is_none());
        let lease = self.lease.as_ref().map(|lease| now + lease.pause());
        let protected = self.protected.as_ref().map(|protected| protected.look_at);
        let due = [
            ending,
            hello,
            idle,
            drained,
            retry,
            count,
            lease,
            protected,
            self.printed.tail_due(),
        ];
        let due = due.into_iter().flatten().min().unwrap_or(now + LOOK_EVERY);
        due.min(now + LOOK_EVERY)
    }

    /// Sleeps until something can be done, and returns it in the order of [`Keeper::attend`].
    fn wait(&self, now: Instant) -> io::Result<Ready> {
        let no_more_fits = self.into.waiting() > WAITING_MAX_BYTES;
        let agent = self.agent.as_ref().map(|agent| {
            let mut flags = PollFlags::empty();
            if !no_more_fits {
                flags |= PollFlags::IN;
            }
            if agent.has_to_send() {
                flags |= PollFlags::OUT;
            }
            (&agent.stream, flags)
        });
        let answers = self.answers.pipe.as_ref().filter(|_| self.held.is_none());
        let mut fds = vec![
            PollFd::new(&self.signals.wake, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
        ];
        let mut at = [None; 4];
        // Even without requested events poll(2) reports a hang-up, again and again.
        if let Some((stream, flags)) = agent.filter(|(_, flags)| !flags.is_empty()) {
            at[0] = Some(fds.len());
            fds.push(PollFd::new(stream, flags));
        }
        if let Some(pipe) = self.into.wanting() {
            at[1] = Some(fds.len());
            fds.push(PollFd::new(pipe, PollFlags::OUT));
        }
        if let Some(pipe) = answers {
            at[2] = Some(fds.len());
            fds.push(PollFd::new(pipe, PollFlags::IN));
        }
        if let Some(pipe) = &self.errors.pipe {
            at[3] = Some(fds.len());
            fds.push(PollFd::new(pipe, PollFlags::IN));
        }
        for newcomer in &self.newcomers {
            fds.push(PollFd::new(&newcomer.stream, PollFlags::IN));
        }
        // Rounded up: waking a little too early would be a busy loop.
        let left = self.next_deadline(now).saturating_duration_since(now);
        let left =
            Timespec::try_from(left + Duration::from_micros(50)).map_err(io::Error::other)?;
        match poll(&mut fds, Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let is = |at: Option<usize>| at.is_some_and(|at| !fds[at].revents().is_empty());
        Ok(Ready {
            knocks: !fds[1].revents().is_empty(),
            agent: is(at[0]) && !no_more_fits,
            into: is(at[1]),
            answers: is(at[2]),
            errors: is(at[3]),
        })
    }

    fn attend(&mut self, ready: &Ready) {
        if ready.into {
            self.into.write();
        }
        if ready.answers {
            let heard = self.answers.read().to_vec();
            self.hear(&heard);
        }
        if ready.errors {
            let printed = self.errors.read();
            self.printed.take(printed);
        }
        if ready.agent
            && let Some(agent) = &mut self.agent
        {
            agent.read();
            self.listen_to_agent();
        }
        if let Some(agent) = &mut self.agent {
            agent.flush();
        }
        if ready.knocks {
            self.let_in();
        }
        self.greet();
        self.note_connections();
    }

    fn note_connections(&mut self) {
        let now = Instant::now();
        if self.agent.as_ref().is_some_and(|agent| agent.is_over) {
            self.agent = None;
        }
        match self.agent {
            Some(_) => self.alone_since = None,
            None => drop(self.alone_since.get_or_insert(now)),
        }
        if self.agent.is_none() && self.in_flight.is_empty() {
            self.idle_since = self.idle_since.or(Some(now));
        } else {
            self.idle_since = None;
        }
    }

    fn let_in(&mut self) {
        while self.newcomers.len() < NEWCOMERS_MAX {
            let Ok((stream, _)) = self.listener.accept() else {
                return;
            };
            if socket::is_of_us(&stream).unwrap_or(false)
                && let Ok(newcomer) = Connection::new(stream)
            {
                self.newcomers.push(newcomer);
            }
        }
    }

    /// Reads the messages of newcomers. One that says hello becomes the agent, if there is no
    /// other.
    fn greet(&mut self) {
        let mut silent = Vec::new();
        for mut newcomer in std::mem::take(&mut self.newcomers) {
            newcomer.read();
            match newcomer.next() {
                Ok(Some(AgentMessage::Hello { pid })) => {
                    newcomer.pid = pid;
                    self.admit(newcomer);
                }
                Ok(None) => silent.push(newcomer),
                // A newcomer with any other first message is dropped.
                Ok(Some(_)) | Err(_) => {}
            }
        }
        self.newcomers = silent;
    }

    fn admit(&mut self, mut newcomer: Connection) {
        // The messages of the previous agent come first. A complete one is handed over; one that
        // its death cut off never was.
        while self.agent.as_mut().is_some_and(Connection::read) {
            self.listen_to_agent();
        }
        self.listen_to_agent();
        if let Some(agent) = self.agent.as_ref().filter(|agent| !agent.is_over) {
            newcomer.tell(&ToAgent::Busy { pid: agent.pid });
            return;
        }
        newcomer.tell(&ToAgent::Welcome {
            version: VERSION,
            input: self.input.end(),
            output: self.output.end(),
        });
        if self.held.is_some() {
            newcomer.tell(&ToAgent::paused(PAUSED));
        }
        self.agent = Some(newcomer);
        // More may have arrived together with its hello.
        self.listen_to_agent();
    }

    fn listen_to_agent(&mut self) {
        while let Some(agent) = &mut self.agent {
            let said = match agent.next() {
                Ok(Some(said)) => said,
                Ok(None) => return,
                Err(_) => {
                    self.agent = None;
                    return;
                }
            };
            match said {
                AgentMessage::Line { line, durable } => {
                    let told = match self.take_line(line, durable) {
                        Ok(input) => ToAgent::Taken { input },
                        Err(why) => ToAgent::refused(&why),
                    };
                    self.tell(&told);
                }
                AgentMessage::TooLong { bytes } => self.tell(&ToAgent::refused(&format!(
                    "a line of {bytes} bytes is too long for a server"
                ))),
                AgentMessage::Forget { input, output } => {
                    // Lines that the server has not read yet are still needed.
                    self.input.forget(input.min(self.into.handed));
                    self.output.forget(output);
                }
                AgentMessage::Bye => self.begin_to_end(Instant::now()),
                AgentMessage::Hello { .. } => {}
            }
        }
    }

    fn tell(&mut self, message: &ToAgent) {
        if let Some(agent) = &mut self.agent {
            agent.tell(message);
        }
    }

    /// Journals a line and hands it over. After an error, neither was done.
    fn take_line(&mut self, mut line: Vec<u8>, durable: bool) -> Result<u64, String> {
        if self.input.is_gone() {
            self.begin_to_end(Instant::now());
            return Err(GONE.to_string());
        }
        if self.ending.is_some() || self.exit.is_some() {
            return Err("the server is ending".to_string());
        }
        if !self.into.is_open() {
            return Err("the server reads no more: it has closed its input".to_string());
        }
        if line.contains(&b'\n') {
            return Err("the message holds a line break".to_string());
        }
        if self.input.size() + self.output.size() > JOURNALS_MAX_BYTES {
            return Err("too much was said that is not forgotten yet".to_string());
        }
        let request = match LineKind::of(&line) {
            LineKind::Request(id) => Some(id),
            LineKind::Answer(_) | LineKind::Other => None,
        };
        if let Some(id) = &request {
            if self.in_flight.contains(id) {
                return Err(format!("the request {id} is in flight already"));
            }
            if self.in_flight.len() >= IN_FLIGHT_MAX {
                return Err(format!("{IN_FLIGHT_MAX} requests are in flight already"));
            }
        }
        if request.is_some() && self.in_flight.is_empty() {
            self.compare_protected();
        }
        line.push(b'\n');
        self.input
            .append(&line, durable)
            .map_err(|e| format!("the message cannot be written down: {e}"))?;
        self.in_flight.extend(request);
        let end = self.input.end();
        self.into.hand_over(line, end);
        Ok(end)
    }

    /// Handles bytes of the server, up to a line that cannot be journaled.
    fn hear(&mut self, bytes: &[u8]) {
        let mut left = bytes;
        while !left.is_empty() {
            if self.held.is_some() {
                self.rest.extend_from_slice(left);
                return;
            }
            let (taken, cut) = self.line.take(left);
            left = &left[taken..];
            match cut {
                None => {}
                Some(SplitLine::Line(line)) => self.heard(line),
                Some(SplitLine::TooLong { bytes, ends }) => {
                    self.handle_oversized_line(bytes, &ends)
                }
            }
        }
    }

    /// Handles a whole line of the server.
    fn heard(&mut self, mut line: Vec<u8>) {
        if line.is_empty() {
            return;
        }
        let answers = match LineKind::of(&line) {
            LineKind::Answer(id) if self.in_flight.contains(&id) => Some(id),
            LineKind::Answer(_) | LineKind::Request(_) | LineKind::Other => None,
        };
        if answers.is_none() && self.output.size() >= journal::OTHERS_MAX_BYTES {
            return;
        }
        line.push(b'\n');
        match self.output.append(&line, answers.is_some()) {
            Ok(()) => {
                if let Some(id) = answers {
                    self.in_flight.remove(&id);
                    self.compare_protected();
                }
                let output = self.output.end();
                self.tell(&ToAgent::Output { output });
            }
            Err(e) => {
                line.pop();
                self.held = Some(PendingLine {
                    line,
                    retry_at: Instant::now() + RETRY,
                });
                self.tell(&ToAgent::paused(&format!("{PAUSED}: {e}")));
            }
        }
    }

    /// Replaces an oversized answer by an error. `ends` has the ID of the call.
    fn handle_oversized_line(&mut self, bytes: u64, ends: &[u8]) {
        let text = String::from_utf8_lossy(ends);
        let named =
            |id: &&String| serde_json::to_string(id).is_ok_and(|quoted| text.contains(&quoted));
        let id = self.in_flight.iter().find(named).cloned();
        let message = format!("the server sent a line of {bytes} bytes, which is too long");
        let line = match id {
            Some(id) => serde_json::json!({
                "jsonrpc": "2.0",
                "id": id,
                "error": { "code": TOO_LONG_CODE, "message": message },
            }),
            None => serde_json::json!({
                "jsonrpc": "2.0",
                "method": "rewake/dropped",
                "params": { "why": message },
            }),
        };
        self.heard(line.to_string().into_bytes());
    }

    /// Journals the held line, and continues from there.
    fn retry_held_line(&mut self) {
        let Some(held) = self.held.take() else { return };
        self.heard(held.line);
        if self.held.is_none() {
            self.tell(&ToAgent::Resumed {});
            let rest = std::mem::take(&mut self.rest);
            self.hear(&rest);
        }
    }
}

/// The connections and pipes that can be read or written now.
struct Ready {
    knocks: bool,
    agent: bool,
    into: bool,
    answers: bool,
    errors: bool,
}

/// The error code of a call whose answer was too long, from the range that JSON-RPC leaves to
/// implementations.
const TOO_LONG_CODE: i32 = -32_098;

const PAUSED: &str = "what the server says cannot be written down";
