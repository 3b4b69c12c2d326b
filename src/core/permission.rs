//! What a call needs the rules to permit: all that policy knows of a call.
//!
//! Invariant: the set is closed. A new tool takes one of these, so that none runs past the rules.

use super::access::Access;

/// Full names of servers' tools begin so.
pub const FOREIGN_PREFIX: &str = "mcp__";

/// The tool by which all tools of servers are called, and its form for the smallest windows.
pub const MCP_CALL: &str = "mcp_call";
pub const MCP_SHORT: &str = "mcp";

/// Whether a call under this name can be made where these tools are listed. A server's tool may be
/// called under its full name wherever there is a tool that calls all of them.
pub fn is_offered<'a>(name: &str, mut listed: impl Iterator<Item = &'a str>) -> bool {
    let is_foreign = name.starts_with(FOREIGN_PREFIX);
    listed.any(|tool| tool == name || (is_foreign && matches!(tool, MCP_CALL | MCP_SHORT)))
}

/// The server and the tool that a full name stands for, as far as it says them.
pub fn served_parts(full_name: &str) -> Option<(&str, &str)> {
    full_name.strip_prefix(FOREIGN_PREFIX)?.split_once("__")
}

/// What a call does to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathUse {
    /// Reads one file.
    Read,
    /// Searches the contents of files below the path.
    Grep,
    /// Lists the names of files below the path.
    Glob,
    /// Changes parts of a file.
    Edit,
    /// Writes the whole of a file.
    Write,
}

/// A tool that looks at what was recorded before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookBack {
    Memory,
    History,
}

/// How far a tool looks back. Each reaches all that the ones before it reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// The session itself.
    Session,
    /// The other sessions of the workspace.
    Workspace,
    /// Those of other workspaces too.
    All,
}

impl Reach {
    /// From the nearest to the farthest.
    pub const ALL: [Reach; 3] = [Reach::Session, Reach::Workspace, Reach::All];

    /// As it is written in rules and in arguments of tools.
    pub fn name(self) -> &'static str {
        match self {
            Reach::Session => "session",
            Reach::Workspace => "workspace",
            Reach::All => "all",
        }
    }
}

/// What a call needs the rules to permit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    /// No permission: the call sees and changes only the session and the user's own store.
    None,
    /// To look at a path or to change it. A relative one starts in the session's folder.
    Path { path_use: PathUse, path: String },
    /// To write a path that starts at the workspace's root.
    WriteInWorkspace { path: String },
    /// To list the files that a pattern finds, below a path.
    Glob {
        pattern: String,
        /// The folder to list. `None`: the session's folder.
        path: Option<String>,
    },
    /// To run a line of shell. `access` is what the call names.
    Command {
        line: String,
        access: Option<Access>,
        /// It goes on while the model and the user do other things.
        background: bool,
    },
    /// To look at what was recorded before, and so far.
    LookBack { tool: LookBack, reach: Reach },
    /// To give a task to a sub-agent, which may do no more than the session itself.
    Task,
    /// To call a tool of a server, by its full name.
    Foreign { name: String },
}

impl Permission {
    /// The same for what the path of the call really leads to; as it is when it is not about a
    /// path.
    pub fn at(&self, real: &str) -> Permission {
        let path_use = match self {
            Permission::Path { path_use, .. } => *path_use,
            Permission::WriteInWorkspace { .. } => PathUse::Write,
            Permission::Glob { .. } => PathUse::Glob,
            Permission::None
            | Permission::Command { .. }
            | Permission::LookBack { .. }
            | Permission::Task
            | Permission::Foreign { .. } => {
                return self.clone();
            }
        };
        Permission::Path {
            path_use,
            path: real.to_string(),
        }
    }
}
