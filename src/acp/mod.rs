//! `rewake acp`: rewake inside an editor, over the Agent Client Protocol (ACP), version 1.
//!
//! The editor starts this process and speaks JSON-RPC 2.0 on its stdin and stdout, one message per
//! line. One thread reads, one writes, and each open session has a thread with its engine. The main
//! thread dispatches: a prompt becomes a row of the inbox, and a verdict, a mode or a stop becomes a
//! signal. These are the rows that `rewake send`, `allow`, `set` and `stop` write, so the first
//! answer to a question counts, wherever it was given.
//!
//! An editor that is gone is a hang-up: the sessions are left in order, commands continue under
//! their keepers, and questions stay open.
//!
//! Deliberately absent: the files and terminals of the client (`fs/*`, `terminal/*`), because
//! commands must outlive it; and `session/delete`.
//!
//! Invariant: stdout carries frames only, and only what the client said that it supports. Nothing
//! waits for the client, except a replay.

mod client;
mod frames;
mod output;
mod prompt;
mod questions;
mod session;
mod settings;
mod turns;
mod updates;
mod wire;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use client::Connection;
use output::Output;
use questions::Questions;
use session::OpenedSession;
use wire::ClientCapabilities;

use crate::core::entry::SaveReason;
use crate::engine::Command;
use crate::headless::signals;
use crate::report::{CliError, exit};
use crate::session::{AppContext, SessionError};

/// Maximum number of sessions that are open at the same time.
const SESSIONS_MAX: usize = 64;

/// Options of the command line.
pub struct Options {
    /// `bypassPermissions` can be chosen.
    pub is_yolo: bool,
    /// Returns whether a name is a command of the screen.
    pub is_own_command: fn(&str) -> bool,
}

/// The state that the threads share.
struct Shared {
    ctx: AppContext,
    is_yolo: bool,
    is_own: fn(&str) -> bool,
    output: Output,
    /// Set by `initialize`.
    client: OnceLock<ClientCapabilities>,
    questions: Questions,
    sessions: Mutex<BTreeMap<String, Arc<OpenedSession>>>,
    /// Number of threads of sessions.
    threads: Mutex<usize>,
    thread_ended: Condvar,
    is_leaving: AtomicBool,
}

impl Shared {
    fn client(&self) -> ClientCapabilities {
        self.client.get().cloned().unwrap_or_default()
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<String, Arc<OpenedSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn threads(&self) -> MutexGuard<'_, usize> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an open session. Returns false if the process is leaving.
    fn add(&self, session: Arc<OpenedSession>) -> bool {
        let mut sessions = self.sessions();
        if self.is_leaving.load(Ordering::SeqCst) {
            return false;
        }
        sessions.insert(session.id.clone(), session);
        true
    }

    /// Removes a session, unless it was opened again meanwhile.
    fn remove(&self, session: &Arc<OpenedSession>) {
        let mut sessions = self.sessions();
        if sessions
            .get(&session.id)
            .is_some_and(|open| Arc::ptr_eq(open, session))
        {
            sessions.remove(&session.id);
        }
    }

    /// Starts the thread of a session. Returns false if there are too many.
    fn start(self: &Arc<Shared>, work: impl FnOnce(&Arc<Shared>) + Send + 'static) -> bool {
        let mut threads = self.threads();
        if *threads >= SESSIONS_MAX {
            return false;
        }
        let shared = Arc::clone(self);
        let started = std::thread::Builder::new()
            .name("session".into())
            .spawn(move || {
                let ended = ThreadEnd(shared);
                work(&ended.0);
            });
        *threads += usize::from(started.is_ok());
        started.is_ok()
    }

    /// Leaves all sessions, and waits for their threads at most until `end`.
    fn leave(&self, end: Instant) {
        self.is_leaving.store(true, Ordering::SeqCst);
        for session in self.sessions().values() {
            let leave = Command::Leave(SaveReason::Signal);
            let _ = session.commands.send(leave);
        }
        let mut threads = self.threads();
        while *threads > 0 && Instant::now() < end {
            let pause = Duration::from_millis(10);
            let woken = self.thread_ended.wait_timeout(threads, pause);
            threads = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A running thread of a session. Its end is counted also after a panic.
struct ThreadEnd(Arc<Shared>);

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        *self.0.threads() -= 1;
        self.0.thread_ended.notify_all();
    }
}

/// Serves the client until it is gone or a signal ends the process, and returns the exit code.
///
/// # Errors
/// The runtime cannot be started.
pub fn run(ctx: AppContext, options: &Options) -> Result<u8, CliError> {
    let runtime = crate::net::runtime().map_err(SessionError::Runtime)?;
    let shared = Arc::new(Shared {
        ctx,
        is_yolo: options.is_yolo,
        is_own: options.is_own_command,
        output: Output::start(),
        client: OnceLock::new(),
        questions: Questions::default(),
        sessions: Mutex::default(),
        threads: Mutex::default(),
        thread_ended: Condvar::new(),
        is_leaving: AtomicBool::new(false),
    });
    let mut frames = frames::read();
    let mut connection = Connection::new(Arc::clone(&shared));
    let code = runtime.block_on(async {
        let mut ending = signals::Ending::catch();
        loop {
            tokio::select! {
                biased;
                code = ending.next() => return code,
                Ok(()) = tokio::signal::ctrl_c() => return exit::SIGINT,
                () = shared.output.closed() => return exit::DONE,
                frame = frames.recv() => match frame {
                    Some(frame) => connection.take(frame),
                    None => return exit::DONE,
                },
            }
        }
    });
    let end = Instant::now() + frames::LEAVING;
    shared.leave(end);
    shared.output.drain(end);
    shared.output.end();
    Ok(code)
}
