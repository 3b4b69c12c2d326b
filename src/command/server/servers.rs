//! The servers of all sessions: made, started, attached to, listed, stopped and removed by an agent.
//!
//! Invariant: nothing is remembered here that is not in a run folder.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::client::{ASKS, Client, KNOWN, KNOWN_NEW, lost};
use super::end::ServerEnd;
use super::journal;
use super::keeper;
use super::past::{self, Fate, Past};
use super::socket;
use super::spec::{PreparedServer, ServerEnv, ServerSpec};
use super::wire::{self, ToAgent, ToKeeper, VERSION};
use crate::command::folder::RunFolder;
use crate::command::look::{Seen, look, look_begun, with_context};
use crate::command::process;
use crate::command::run::{Stopped, ask_to_end};
use crate::command::status::Slot;
use crate::store::{new_run_id, now_ms};

/// How long a keeper may take until it answers.
const ATTACH_WITHIN: Duration = Duration::from_secs(10);

/// How long an agent that was just killed may seem to live.
const BUSY_WITHIN: Duration = Duration::from_secs(2);

const LOOK_EVERY: Duration = Duration::from_millis(2);

const NO_KEEPER: &str = "its keeper was gone before it began";

/// One folder for each server, below `root`.
#[derive(Debug, Clone)]
pub struct Servers {
    root: PathBuf,
    exe: PathBuf,
    runtime_dir: Option<PathBuf>,
}

/// What an agent finds.
#[derive(Debug)]
pub enum Attached {
    /// The server lives.
    Live(Client),
    Over(Past),
    /// Another agent speaks with it.
    Busy {
        pid: u32,
    },
}

/// A server as `rewake ps` shows it.
#[derive(Debug)]
pub struct ServerInfo {
    pub run: String,
    pub spec: ServerSpec,
    /// When it was begun or, before that, prepared. UTC, since 1970.
    pub since_ms: i64,
    /// Whether a keeper is there.
    pub is_kept: bool,
    /// Its process group, also of one whose keeper was killed.
    pub group: Option<u32>,
}

impl Servers {
    /// `exe` is this program; `runtime_dir` is `$XDG_RUNTIME_DIR`.
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

    /// Makes the run folder and gives its name. Nothing is started.
    ///
    /// # Errors
    /// The server could not be started so, or the folder cannot be made.
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
            // What is left of it has no claim, no keeper, and nobody knows its name.
            let _ = folder.remove();
            with_context("cannot make the run folder", folder.path(), e)
        })?;
        Ok(run)
    }

    /// Starts the keeper, which starts the server, and attaches to it. To be called once for a run.
    ///
    /// # Errors
    /// The keeper was not started, or does not answer.
    pub async fn start(&self, run: &str, env: &ServerEnv) -> io::Result<Attached> {
        let folder = self.folder(run)?;
        let mut command = Command::new(&self.exe);
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

    /// Attaches to a server that was started before, by this agent or by one that is dead. One
    /// that was never begun never will be.
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
            // First the keeper, then the folder: what it wrote before it went is seen.
            let is_coming = keeper
                .as_mut()
                .is_some_and(|keeper| matches!(keeper.try_wait(), Ok(None)));
            let path = folder.path();
            match look::<ServerEnd>(folder)? {
                Seen::Ended(end) => return Ok(Attached::Over(Past::ended(path, end))),
                Seen::Missing => return Ok(Attached::Over(Past::missing(path))),
                Seen::Abandoned(Slot::Empty) => return Ok(Attached::Over(never_begun(path))),
                Seen::Abandoned(begun) => return Ok(Attached::Over(lost(path, begun))),
                Seen::Unclaimed if !is_coming && folder.claim()? => {
                    return Ok(Attached::Over(never_begun(path)));
                }
                Seen::Unclaimed | Seen::Kept(_) if since.elapsed() < ATTACH_WITHIN => {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                Seen::Unclaimed | Seen::Kept(_) => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        format!("the keeper of {} does not answer", path.display()),
                    ));
                }
            }
        }
    }

    /// Asks for the end of a server. What a killed keeper left behind is ended here, which blocks up
    /// to two seconds.
    ///
    /// # Errors
    /// Its keeper cannot be found out, or the run folder cannot be read.
    pub fn stop(&self, run: &str) -> io::Result<Stopped> {
        let folder = self.folder(run)?;
        match look_begun::<ServerEnd>(&folder)? {
            Seen::Kept(Slot::Written(begun)) => ask_to_end(run, &begun),
            Seen::Kept(Slot::Empty | Slot::Torn) => Err(io::Error::other(format!(
                "cannot stop the server of run {run}: its keeper does not say who it is"
            ))),
            Seen::Abandoned(Slot::Written(begun))
                if self.is_of_this_boot(&folder) && process::end_left_behind(&begun) =>
            {
                Ok(Stopped::Asked)
            }
            Seen::Unclaimed if self.is_of_this_boot(&folder) && folder.claim()? => {
                Ok(Stopped::NotBegun)
            }
            _ => Ok(Stopped::Over),
        }
    }

    /// All servers, oldest first. What cannot be read is none.
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
            Seen::Kept(begun) => (true, begun),
            Seen::Abandoned(begun) if prepared.boot == process::boot_id() => (false, begun),
            _ => (false, Slot::Empty),
        };
        let begun = match begun {
            Slot::Written(begun) => Some(begun),
            Slot::Empty | Slot::Torn => None,
        };
        let group = match (&begun, is_kept) {
            (Some(begun), true) => begun.group,
            (Some(begun), false) => process::left_behind(begun).first().copied(),
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

    /// What a server made of a request, from its journals alone: nothing is attached to it. Of one
    /// that is over, no more is known than [`Fate::Lost`] and its answer.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn fate_unattached(&self, run: &str, id: &str) -> io::Result<Fate> {
        let folder = self.folder(run)?;
        let is_kept = matches!(look::<ServerEnd>(&folder)?, Seen::Kept(_));
        past::fate_unattached(folder.path(), id, is_kept)
    }

    /// What the server printed on stderr: the last bytes.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn printed(&self, run: &str, max_bytes: u64) -> io::Result<Vec<u8>> {
        crate::command::output::last(&self.folder(run)?, max_bytes)
    }

    /// Removes a run folder; false when something of it is still alive. A folder that is not there
    /// is removed.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, run: &str) -> io::Result<bool> {
        let folder = self.folder(run)?;
        if let Seen::Abandoned(Slot::Written(begun)) = look::<ServerEnd>(&folder)?
            && self.is_of_this_boot(&folder)
            && !process::left_behind(&begun).is_empty()
        {
            return Ok(false);
        }
        let elsewhere = folder
            .read_spec::<PreparedServer>()
            .ok()
            .and_then(|prepared| prepared.socket);
        let mut files = journal::files(folder.path());
        files.extend([socket::SOCKET, KNOWN, KNOWN_NEW, ASKS].map(str::to_string));
        let removed = folder
            .remove_with(&files)
            .map_err(|e| with_context("cannot remove the run folder", folder.path(), e))?;
        if let Some(elsewhere) = elsewhere.filter(|_| removed) {
            let _ = std::fs::remove_file(elsewhere);
        }
        Ok(removed)
    }

    /// Where the files of a server lie.
    ///
    /// # Errors
    /// It is no name of a run.
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

fn never_begun(folder: &Path) -> Past {
    Past::ended(folder, ServerEnd::not_run(NO_KEEPER.to_string()))
}

enum Greeted {
    Welcome(UnixStream, Vec<u8>, (u64, u64)),
    Busy(u32),
    /// Nobody is there, or it was gone before it answered.
    Nobody,
}

/// Says hello. Whoever connects and is not answered is not the agent yet.
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

/// The keeper's first word, and what came behind it.
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
