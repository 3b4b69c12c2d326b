//! The servers of all sessions: an agent creates, starts, attaches, lists, stops and removes them.
//!
//! Invariant: nothing is remembered here that is not in a run folder.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::client::{ASKS, Client, KNOWN, KNOWN_NEW, lost};
use super::end::ServerEnd;
use super::past::{self, EndedServer, ServerOutcome};
use super::protected::{CHANGES, CHANGES_MAX_BYTES};
use super::spec::{PreparedServer, ServerEnv, ServerSpec};
use super::wire::{self, ToAgent, ToKeeper, VERSION};
use super::{journal, keeper, socket};
use crate::command::folder::RunFolder;
use crate::command::look::{ObservedState, look, look_after_claim, with_context};
use crate::command::process;
use crate::command::run::{Stopped, ask_to_end};
use crate::command::status::StatusSlot;
use crate::config::read_text;
use crate::sandbox::child;
use crate::store::{new_run_id, now_ms};

/// Time for a keeper to answer.
const ATTACH_WITHIN: Duration = Duration::from_secs(10);

/// Time for which an agent that was just killed may still seem alive.
const BUSY_WITHIN: Duration = Duration::from_secs(2);

const LOOK_EVERY: Duration = Duration::from_millis(2);

const NO_KEEPER: &str = "its keeper was gone before it began";

/// The servers, each with a folder below `root`.
#[derive(Debug, Clone)]
pub struct Servers {
    root: PathBuf,
    exe: PathBuf,
    runtime_dir: Option<PathBuf>,
}

/// The result of attaching to a server.
#[derive(Debug)]
pub enum Attached {
    /// The server is alive.
    Live(Client),
    Over(EndedServer),
    /// Another agent uses the server.
    Busy {
        pid: u32,
    },
}

/// A server as `rewake ps` shows it.
#[derive(Debug)]
pub struct ServerInfo {
    pub run: String,
    pub spec: ServerSpec,
    /// When it was started or, before that, prepared. Milliseconds since 1970, UTC.
    pub since_ms: i64,
    /// Whether its keeper is alive.
    pub is_kept: bool,
    /// Its process group, even after its keeper was killed.
    pub group: Option<u32>,
}

impl Servers {
    /// Returns the servers below `root`. `exe` is this program; `runtime_dir` is
    /// `$XDG_RUNTIME_DIR`.
    pub fn new(
        root: impl Into<PathBuf>,
        exe: impl Into<PathBuf>,
        runtime_dir: Option<PathBuf>,
    ) -> Servers {
        Servers {
            root: root.into(),
            exe: exe.into(),
            runtime_dir,
        }
    }

    /// Creates a run folder and returns its name. Starts nothing.
    ///
    /// # Errors
    /// The server could not be started like this, or the folder cannot be created.
    pub fn prepare(&self, spec: &ServerSpec) -> io::Result<String> {
        spec.check()?;
        let run = new_run_id();
        let folder = self.folder(&run)?;
        let prepared = PreparedServer {
            spec: spec.clone(),
            boot: process::boot_id(),
            at_ms: now_ms(),
            socket: socket::short_name(folder.path(), &run, self.runtime_dir.as_deref())?,
        };
        folder.create_with(&prepared, |_| Ok(())).map_err(|e| {
            // The rest of the folder has no claim and no keeper, and nobody knows its name.
            let _ = folder.remove();
            with_context("cannot make the run folder", folder.path(), e)
        })?;
        Ok(run)
    }

    /// Starts the keeper, which starts the server, and attaches to it. Call it once for a run.
    ///
    /// # Errors
    /// The keeper was not started, or does not answer.
    pub async fn start(&self, run: &str, env: &ServerEnv) -> io::Result<Attached> {
        let folder = self.folder(run)?;
        let mut command = child(&self.exe);
        command
            .arg0("rewake")
            .arg(keeper::WORD)
            .arg(folder.path())
            .env_clear()
            .envs(env.variables())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let keeper = tokio::process::Command::from(command)
            .spawn()
            .map_err(|e| with_context("cannot start the keeper", &self.exe, e))?;
        self.reach(&folder, Some(keeper)).await
    }

    /// Attaches to a server that this agent or a dead one started before. A server that was never
    /// started never will be after this.
    ///
    /// # Errors
    /// The keeper does not answer, or the run folder cannot be read.
    pub async fn attach(&self, run: &str) -> io::Result<Attached> {
        self.reach(&self.folder(run)?, None).await
    }

    async fn reach(
        &self,
        folder: &RunFolder,
        mut keeper: Option<tokio::process::Child>,
    ) -> io::Result<Attached> {
        let since = Instant::now();
        loop {
            match greet(folder, since).await? {
                Greeted::Welcome(stream, rest, lengths) => {
                    let client = Client::new(folder.path(), stream, rest, lengths, keeper)?;
                    return Ok(Attached::Live(client));
                }
                Greeted::Busy(pid) if since.elapsed() > BUSY_WITHIN => {
                    return Ok(Attached::Busy { pid });
                }
                Greeted::Busy(_) | Greeted::Nobody => {}
            }
            // The keeper before the folder, so that its last record is seen.
            let is_coming = keeper
                .as_mut()
                .is_some_and(|keeper| matches!(keeper.try_wait(), Ok(None)));
            let path = folder.path();
            match look::<ServerEnd>(folder)? {
                ObservedState::Ended(end) => {
                    return Ok(Attached::Over(EndedServer::ended(path, end)));
                }
                ObservedState::Missing => return Ok(Attached::Over(EndedServer::missing(path))),
                ObservedState::Abandoned(StatusSlot::Empty) => {
                    return Ok(Attached::Over(ended_before_start(path)));
                }
                ObservedState::Abandoned(begun) => return Ok(Attached::Over(lost(path, begun))),
                ObservedState::Unclaimed if !is_coming && folder.claim()? => {
                    return Ok(Attached::Over(ended_before_start(path)));
                }
                ObservedState::Unclaimed | ObservedState::Kept(_)
                    if since.elapsed() < ATTACH_WITHIN =>
                {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                ObservedState::Unclaimed | ObservedState::Kept(_) => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        format!("the keeper of {} does not answer", path.display()),
                    ));
                }
            }
        }
    }

    /// Asks a server to end. Processes that a killed keeper left are ended here, which blocks up to
    /// two seconds.
    ///
    /// # Errors
    /// Its keeper cannot be determined, or the run folder cannot be read.
    pub fn stop(&self, run: &str) -> io::Result<Stopped> {
        let folder = self.folder(run)?;
        match look_after_claim::<ServerEnd>(&folder)? {
            ObservedState::Kept(StatusSlot::Written(begun)) => ask_to_end(run, &begun),
            ObservedState::Kept(StatusSlot::Empty | StatusSlot::Torn) => Err(io::Error::other(
                format!("cannot stop the server of run {run}: its keeper does not say who it is"),
            )),
            ObservedState::Abandoned(StatusSlot::Written(begun))
                if self.is_of_this_boot(&folder) && process::end_survivors_of(&begun) =>
            {
                Ok(Stopped::Asked)
            }
            ObservedState::Unclaimed if self.is_of_this_boot(&folder) && folder.claim()? => {
                Ok(Stopped::NotBegun)
            }
            _ => Ok(Stopped::Over),
        }
    }

    /// Returns all servers, oldest first. A folder that cannot be read is left out.
    pub fn list(&self) -> Vec<ServerInfo> {
        let entries = std::fs::read_dir(&self.root).into_iter().flatten();
        let mut all: Vec<ServerInfo> = entries
            .filter_map(|entry| self.info(entry.ok()?.file_name().to_str()?))
            .collect();
        all.sort_by(|a, b| a.run.cmp(&b.run));
        all
    }

    fn info(&self, run: &str) -> Option<ServerInfo> {
        let folder = self.folder(run).ok()?;
        let prepared: PreparedServer = folder.read_spec().ok()?;
        let (is_kept, begun) = match look::<ServerEnd>(&folder).ok()? {
            ObservedState::Kept(begun) => (true, begun),
            ObservedState::Abandoned(begun) if prepared.boot == process::boot_id() => {
                (false, begun)
            }
            _ => (false, StatusSlot::Empty),
        };
        let begun = match begun {
            StatusSlot::Written(begun) => Some(begun),
            StatusSlot::Empty | StatusSlot::Torn => None,
        };
        let group = match (&begun, is_kept) {
            (Some(begun), true) => begun.group,
            (Some(begun), false) => process::survivors_of(begun).first().copied(),
            (None, _) => None,
        };
        Some(ServerInfo {
            run: run.to_string(),
            since_ms: begun.map_or(prepared.at_ms, |begun| begun.at_ms),
            spec: prepared.spec,
            is_kept,
            group,
        })
    }

    /// Returns the fate of a request from the journals alone, without attaching to the server. For
    /// a server that has ended, it is the answer or [`ServerOutcome::Lost`].
    ///
    /// # Errors
    /// They cannot be read.
    pub fn outcome_from_journals(&self, run: &str, id: &str) -> io::Result<ServerOutcome> {
        let folder = self.folder(run)?;
        let is_kept = matches!(look::<ServerEnd>(&folder)?, ObservedState::Kept(_));
        past::outcome_from_journals(folder.path(), id, is_kept)
    }

    /// Returns the last bytes that the server printed on stderr.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn printed(&self, run: &str, max_bytes: u64) -> io::Result<Vec<u8>> {
        crate::command::output::last(&self.folder(run)?, max_bytes)
    }

    /// Returns the changes of protected files that the keeper undid since the last time.
    pub fn take_changes(&self, run: &str) -> Vec<String> {
        let Ok(file) = self.folder(run).map(|folder| folder.path().join(CHANGES)) else {
            return Vec::new();
        };
        let text = read_text(&file, 2 * CHANGES_MAX_BYTES).unwrap_or_default();
        let _ = std::fs::remove_file(file);
        text.lines().map(str::to_string).collect()
    }

    /// Removes a run folder and returns whether it is gone. It stays as long as something of the
    /// run is alive. A folder that does not exist counts as removed.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, run: &str) -> io::Result<bool> {
        let folder = self.folder(run)?;
        if let ObservedState::Abandoned(StatusSlot::Written(begun)) = look::<ServerEnd>(&folder)?
            && self.is_of_this_boot(&folder)
            && !process::survivors_of(&begun).is_empty()
        {
            return Ok(false);
        }
        let elsewhere = folder
            .read_spec::<PreparedServer>()
            .ok()
            .and_then(|prepared| prepared.socket);
        let mut files = journal::files(folder.path());
        files.extend([socket::SOCKET, KNOWN, KNOWN_NEW, ASKS, CHANGES].map(str::to_string));
        let removed = folder
            .remove_with(&files)
            .map_err(|e| with_context("cannot remove the run folder", folder.path(), e))?;
        if let Some(elsewhere) = elsewhere.filter(|_| removed) {
            let _ = std::fs::remove_file(elsewhere);
        }
        Ok(removed)
    }

    /// Returns the run folder of a server.
    ///
    /// # Errors
    /// The string is not the name of a run.
    pub fn path(&self, run: &str) -> io::Result<PathBuf> {
        Ok(self.folder(run)?.path().to_path_buf())
    }

    fn is_of_this_boot(&self, folder: &RunFolder) -> bool {
        let prepared: io::Result<PreparedServer> = folder.read_spec();
        prepared.is_ok_and(|prepared| prepared.boot == process::boot_id())
    }

    fn folder(&self, run: &str) -> io::Result<RunFolder> {
        RunFolder::named(&self.root, run)
    }
}

fn ended_before_start(folder: &Path) -> EndedServer {
    EndedServer::ended(folder, ServerEnd::not_run(NO_KEEPER.to_string()))
}

enum Greeted {
    Welcome(UnixStream, Vec<u8>, (u64, u64)),
    Busy(u32),
    /// Nobody answered, or the keeper exited before it answered.
    Nobody,
}

/// Says hello to the keeper. A process becomes its agent only with the answer.
async fn greet(folder: &RunFolder, since: Instant) -> io::Result<Greeted> {
    let Ok(prepared) = folder.read_spec::<PreparedServer>() else {
        return Ok(Greeted::Nobody);
    };
    let address = prepared.socket;
    let address = address.unwrap_or_else(|| folder.path().join(socket::SOCKET));
    let stream = match socket::connect(&address) {
        Ok(stream) => stream,
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Err(e),
        Err(_) => return Ok(Greeted::Nobody),
    };
    stream.set_nonblocking(true)?;
    let mut stream = UnixStream::from_std(stream)?;
    let left = ATTACH_WITHIN.saturating_sub(since.elapsed());
    match tokio::time::timeout(left, hello(&mut stream)).await {
        Ok(Some((
            ToAgent::Welcome {
                version,
                input,
                output,
            },
            rest,
        ))) => match version {
            VERSION => Ok(Greeted::Welcome(stream, rest, (input, output))),
            other => Err(io::Error::other(format!(
                "the keeper of {} speaks version {other}, this program {VERSION}",
                folder.path().display()
            ))),
        },
        Ok(Some((ToAgent::Busy { pid }, _))) => Ok(Greeted::Busy(pid)),
        Ok(Some(_) | None) | Err(_) => Ok(Greeted::Nobody),
    }
}

/// Returns the keeper's first message, and the bytes that followed it.
async fn hello(stream: &mut UnixStream) -> Option<(ToAgent, Vec<u8>)> {
    let hello = ToKeeper::Hello {
        version: VERSION,
        pid: std::process::id(),
    };
    stream.write_all(&wire::encode(&hello)).await.ok()?;
    let mut received = Vec::new();
    loop {
        if let Some((message, taken)) = wire::decode(&received).ok()? {
            received.drain(..taken);
            return Some((message, received));
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await {
            Ok(n) if n > 0 => received.extend_from_slice(&buffer[..n]),
            Ok(_) | Err(_) => return None,
        }
    }
}
