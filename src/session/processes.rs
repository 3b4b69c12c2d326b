//! Running commands and servers of all sessions, for `rewake ps` and the server: the list, the live
//! output, and a stop.

use serde::Serialize;

use super::{AppContext, SessionError};
use crate::command::server::ServerInfo;
use crate::command::{How, RunInfo, RunState, Stopped};
use crate::core::text::one_line;

/// A running command or MCP server, or processes that outlive their command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessObject {
    /// `rewake ps stop` takes it.
    pub id: String,
    pub session: String,
    /// `command`, `background`, `task`, `user` (typed by the user) or `server`.
    pub kind: &'static str,
    /// Name of a server.
    pub name: Option<String>,
    /// The command itself has ended.
    pub left_behind: bool,
    /// Process group, if known.
    pub group: Option<u32>,
    /// Processes that outlive the command.
    pub processes: Vec<u32>,
    /// UTC, milliseconds since 1970.
    pub since_ms: i64,
    /// The command line.
    pub command: String,
    /// The last output, if it was wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<String>,
}

/// Why a command or server was not stopped.
#[derive(Debug, thiserror::Error)]
pub enum NotStopped {
    // An empty text is a prefix of every ID, so an unset variable in a script would stop a command.
    #[error("no command is named: the id is empty")]
    Empty,
    #[error("there is no command {0:?}")]
    Missing(String),
    #[error("{run:?} could be any of {found} commands")]
    Ambiguous { run: String, found: usize },
    #[error(transparent)]
    Failed(#[from] std::io::Error),
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl NotStopped {
    /// Returns a hint for a person. `None`: no remedy is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            NotStopped::Empty => Some("rewake ps lists the ids"),
            NotStopped::Missing(_) => Some("rewake ps lists them"),
            NotStopped::Ambiguous { .. } => Some("give more of the id"),
            NotStopped::Failed(_) | NotStopped::Session(_) => None,
        }
    }
}

/// Stops the command or server whose ID begins with `run`. Returns its ID and its command line.
/// Waits up to five seconds for a subagent.
///
/// # Errors
/// The ID names none or several, or the stop failed.
pub fn stop_process(ctx: &AppContext, run: &str) -> Result<(String, String, Stopped), NotStopped> {
    let run = run.trim();
    if run.is_empty() {
        return Err(NotStopped::Empty);
    }
    let (runs, servers) = (ctx.runs()?, ctx.servers()?);
    let commands = runs.list().into_iter();
    let commands = commands.map(|info| (info.run, info.spec.command, false));
    let all_servers = servers.list().into_iter();
    let all_servers = all_servers.map(|info| (info.run, info.spec.command_line(), true));
    let all = commands.chain(all_servers);
    let mut found: Vec<(String, String, bool)> =
        all.filter(|(id, _, _)| id.starts_with(run)).collect();
    let (id, command, is_server) = match (found.pop(), found.len()) {
        (Some(one), 0) => one,
        (None, _) => return Err(NotStopped::Missing(run.to_string())),
        (Some(_), others) => {
            return Err(NotStopped::Ambiguous {
                run: run.to_string(),
                found: others + 1,
            });
        }
    };
    let stopped = match is_server {
        true => servers.stop(&id)?,
        false => runs.stop(&id)?,
    };
    Ok((id, command, stopped))
}

/// Adds the last `max_bytes` of the output to each running command. A subagent and a server print
/// nothing for a person.
///
/// # Errors
/// The folder of the runs cannot be used.
pub fn add_tails(
    ctx: &AppContext,
    processes: &mut [ProcessObject],
    max_bytes: u64,
) -> Result<(), SessionError> {
    let runs = ctx.runs()?;
    let printing = processes
        .iter_mut()
        .filter(|one| !matches!(one.kind, "task" | "server"));
    for one in printing {
        let tail = runs.tail(&one.id, max_bytes).ok();
        one.tail = tail.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    }
    Ok(())
}

/// Returns all running commands and servers.
///
/// # Errors
/// The folder of the runs cannot be used.
pub fn process_objects(ctx: &AppContext) -> Result<Vec<ProcessObject>, SessionError> {
    let commands = ctx.runs()?.list().into_iter();
    let commands = commands.filter_map(ProcessObject::of_run);
    let servers = ctx.servers()?.list().into_iter().filter_map(of_server);
    Ok(commands.chain(servers).collect())
}

/// Returns `None` for a server that ended and left nothing.
fn of_server(info: ServerInfo) -> Option<ProcessObject> {
    (info.is_kept || info.group.is_some()).then(|| ProcessObject {
        command: info.spec.command_line(),
        id: info.run,
        session: info.spec.session,
        kind: "server",
        name: Some(info.spec.name),
        left_behind: !info.is_kept,
        group: info.group,
        processes: Vec::new(),
        since_ms: info.since_ms,
        tail: None,
    })
}

impl ProcessObject {
    /// Returns `None` for a command that ended and left nothing.
    pub fn of_run(info: RunInfo) -> Option<ProcessObject> {
        let (left_behind, group, processes) = match &info.state {
            RunState::Running { group, .. } => (false, *group, Vec::new()),
            RunState::Ended(ended) => match ended.how {
                How::Lost { group: Some(group) } => (true, Some(group), Vec::new()),
                _ => {
                    let living = ended.sandbox.as_ref()?.living();
                    (true, None, living.iter().map(|one| one.pid).collect())
                }
            },
            RunState::NotBegun => return None,
        };
        let is_empty = left_behind && group.is_none() && processes.is_empty();
        let kind = if info.spec.is_of_user() {
            "user"
        } else if info.spec.child.is_some() {
            "task"
        } else if info.spec.background {
            "background"
        } else {
            "command"
        };
        (!is_empty).then_some(ProcessObject {
            id: info.run,
            session: info.spec.session,
            kind,
            name: None,
            left_behind,
            group,
            processes,
            since_ms: info.since_ms,
            command: info.spec.command,
            tail: None,
        })
    }

    /// Returns the state in words.
    pub fn state(&self) -> String {
        let what = match (self.kind, &self.name) {
            ("server", name) => {
                format!(
                    "server {}",
                    one_line(name.as_deref().unwrap_or_default(), 40)
                )
            }
            _ if self.left_behind => String::new(),
            ("user", _) => "typed by you".to_string(),
            ("command", _) => "running".to_string(),
            (kind, _) => kind.to_string(),
        };
        let left = match (self.left_behind, what.is_empty()) {
            (false, _) => "",
            (true, true) => "left behind,",
            (true, false) => " left behind,",
        };
        let pids: Vec<String> = self.processes.iter().map(ToString::to_string).collect();
        let whose = match (self.group, &pids[..]) {
            (Some(group), _) => format!(" group {group}"),
            (None, []) => String::new(),
            (None, [one]) => format!(" process {one}"),
            (None, _) => format!(" processes {}", pids.join(" ")),
        };
        format!("{what}{left}{whose}")
    }
}
