//! The process of a server and its three pipes, in the keeper.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use rustix::fs::{OFlags, fcntl_setfl};

use super::spec::ServerSpec;
use crate::command::keeper::RUN_ENV;
use crate::command::process;
use crate::sandbox::{self, Family, Profile, Report, adopt_orphans};

const READ_BYTES: usize = 64 * 1024;

/// Starts the server in a new process group, with the environment of this process. The error is for
/// the agent. In a sandbox, all processes that it starts form the server's family.
pub(super) fn start(run: &Path, spec: &ServerSpec) -> Result<(Child, Option<Family>), String> {
    if !std::fs::metadata(&spec.folder).is_ok_and(|m| m.is_dir()) {
        return Err(format!("there is no folder {}", spec.folder.display()));
    }
    let failed = |e: io::Error| format!("cannot start {}: {e}", spec.program);
    let (mut command, sandbox) = match &spec.sandbox {
        None => {
            let mut command = Command::new(&spec.program);
            command.args(&spec.args);
            (command, None)
        }
        Some(profile) => {
            adopt_orphans();
            let exe = process::own_exe().map_err(failed)?;
            let args = spec.args.iter().map(OsString::from).collect::<Vec<_>>();
            let profile = Profile::clone(profile);
            let starting = sandbox::forked(&profile, &exe, Path::new(&spec.program), args);
            let starting = starting.map_err(failed)?;
            (
                starting.command,
                Some((starting.report, starting.placeholders)),
            )
        }
    };
    let (report, placeholders) = sandbox.unzip();
    let spawned = command
        .current_dir(&spec.folder)
        .env(RUN_ENV, run.file_name().unwrap_or_default())
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    // The report ends when our copy of its writing end is closed.
    drop(command);
    if let Some(why) = report.and_then(Report::failure) {
        let _ = spawned.and_then(|mut child| child.wait());
        return Err(format!("there is no sandbox for this server: {why}"));
    }
    let child = spawned.map_err(failed)?;
    let profile = spec.sandbox.as_deref();
    let placeholders = placeholders.unwrap_or_default();
    let family = profile.and_then(|profile| Family::of(child.id(), profile, placeholders));
    Ok((child, family))
}

/// The queue of lines for the server. Each line is already journaled.
#[derive(Default)]
pub(super) struct ServerInput {
    /// `None` after the keeper or the server closed it.
    pipe: Option<ChildStdin>,
    /// The lines with their newlines, and the end of each in the journal.
    lines: VecDeque<(Vec<u8>, u64)>,
    /// Number of bytes of the first line that the server has.
    written: usize,
    waiting: usize,
    /// The end in the journal of the last line of which the server has a byte.
    pub handed: u64,
}

impl ServerInput {
    pub(super) fn new(pipe: Option<ChildStdin>) -> io::Result<ServerInput> {
        if let Some(pipe) = &pipe {
            fcntl_setfl(pipe, OFlags::NONBLOCK)?;
        }
        Ok(ServerInput {
            pipe,
            ..ServerInput::default()
        })
    }

    /// Returns the pipe if there is something to write into it.
    pub(super) fn wanting(&self) -> Option<&ChildStdin> {
        self.pipe.as_ref().filter(|_| !self.lines.is_empty())
    }

    pub(super) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Returns how many bytes the server has not read yet.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(super) fn close(&mut self) {
        self.pipe = None;
        self.lines.clear();
        self.waiting = 0;
    }

    /// Writes a line as far as the server reads it now, and queues the rest.
    pub(super) fn hand_over(&mut self, line: Vec<u8>, end: u64) {
        self.waiting += line.len();
        self.lines.push_back((line, end));
        self.write();
    }

    pub(super) fn write(&mut self) {
        while let (Some(pipe), Some((line, end))) = (&mut self.pipe, self.lines.front()) {
            match pipe.write(&line[self.written..]) {
                Ok(n) if n > 0 => {
                    self.handed = *end;
                    self.written += n;
                    self.waiting -= n;
                    if self.written == line.len() {
                        self.written = 0;
                        self.lines.pop_front();
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                // The server has closed it.
                Ok(_) | Err(_) => self.close(),
            }
        }
    }
}

/// An output pipe of the server, read piece by piece.
pub(super) struct ServerOutput<P> {
    /// `None` after its end.
    pub pipe: Option<P>,
    buffer: Vec<u8>,
}

impl<P: Read> ServerOutput<P> {
    pub(super) fn new(pipe: Option<P>) -> ServerOutput<P> {
        ServerOutput {
            pipe,
            buffer: vec![0; READ_BYTES],
        }
    }

    /// Reads once. Call it only when there is something to read.
    pub(super) fn read(&mut self) -> &[u8] {
        let Some(pipe) = &mut self.pipe else {
            return &[];
        };
        match pipe.read(&mut self.buffer) {
            Ok(n) if n > 0 => return &self.buffer[..n],
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => self.pipe = None,
        }
        &[]
    }
}

pub(super) type Answers = ServerOutput<ChildStdout>;
pub(super) type Errors = ServerOutput<ChildStderr>;
