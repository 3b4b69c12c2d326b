//! The required permission of a call: all that the policy knows of it.
//!
//! Invariant: the set is closed. A new tool uses one of these, so that none bypasses the rules.

use super::access::Access;

/// Prefix of the full names of servers' tools.
pub const FOREIGN_PREFIX: &str = "mcp__";

/// Name of the tool that calls the tools of servers. [`MCP_SHORT`] is its form for the smallest
/// windows.
pub const MCP_CALL: &str = "mcp_call";
pub const MCP_SHORT: &str = "mcp";

/// Name of the tool that finds the tools of servers. It is left out where all of them are listed.
pub const MCP_FIND: &str = "mcp_find";

/// Name of the tool that replaces [`MEMORY_TOOLS`] in small windows.
pub const MEMORY: &str = "memory";

/// Tools for memory, history and skills. They can be called where [`MEMORY`] is listed, since many
/// texts for the model name them.
pub const MEMORY_TOOLS: [&str; 5] = [
    "memory_search",
    "memory_page",
    "memory_insert",
    "review_history",
    "save_skill",
];

/// Name of the tool that fetches pages of the web.
pub const WEB_FETCH: &str = "web_fetch";

/// Name of the tool that searches the web.
pub const WEB_SEARCH: &str = "web_search";

/// Returns whether a tool with this name can be called when these tools are listed. A server's tool
/// can be called under its full name if the tool that calls all of them is listed.
pub fn is_offered<'a>(name: &str, mut listed: impl Iterator<Item = &'a str>) -> bool {
    let is_foreign = name.starts_with(FOREIGN_PREFIX);
    let is_memory = MEMORY_TOOLS.contains(&name);
    listed.any(|tool| match tool {
        MCP_SHORT => is_foreign || name == MCP_SHORT,
        MCP_CALL => is_foreign || name == MCP_CALL || name == MCP_FIND,
        MEMORY => is_memory || name == MEMORY,
        tool => tool == name,
    })
}

/// Splits a full name into the server and the tool, if it has both.
pub fn served_parts(full_name: &str) -> Option<(&str, &str)> {
    full_name.strip_prefix(FOREIGN_PREFIX)?.split_once("__")
}

/// Use of a path by a call.
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

/// A tool that reads earlier records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookBack {
    Memory,
    History,
}

/// The records that a tool may read. Each reach includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// The session itself.
    Session,
    /// The other sessions of the workspace.
    Workspace,
    /// The sessions of other workspaces too.
    All,
}

impl Reach {
    /// All reaches, from the nearest to the farthest.
    pub const ALL: [Reach; 3] = [Reach::Session, Reach::Workspace, Reach::All];

    /// Returns the name in rules and in arguments of tools.
    pub fn name(self) -> &'static str {
        match self {
            Reach::Session => "session",
            Reach::Workspace => "workspace",
            Reach::All => "all",
        }
    }
}

/// The permission that the rules must grant for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permission {
    /// No permission: the call sees and changes only the session and the user's own store.
    None,
    /// Reading or changing a path. A relative one starts in the session's folder.
    Path { path_use: PathUse, path: String },
    /// Writing a path that starts at the workspace's root.
    WriteInWorkspace { path: String },
    /// Listing the files that match a pattern, below a path.
    Glob {
        pattern: String,
        /// The folder to list. `None`: the session's folder.
        path: Option<String>,
    },
    /// Running a shell line. `access` is the access that the call requests.
    Command {
        line: String,
        access: Option<Access>,
        /// It runs in the background.
        background: bool,
    },
    /// Reading earlier records, as far as `reach`.
    LookBack { tool: LookBack, reach: Reach },
    /// Waiting for the session's background work.
    Wait,
    /// Giving a task to a subagent, which may do no more than the session itself.
    Task,
    /// Calling a server's tool, by its full name.
    Foreign { name: String },
    /// Fetching a page.
    Fetch {
        host: String,
        /// The whole address, without its fragment.
        url: String,
        /// The port is that of HTTP or HTTPS.
        usual_port: bool,
    },
    /// Searching the web with the server of the user's config.
    Search { query: String },
}

impl Permission {
    /// Returns the same permission for the real path of the call, or an unchanged copy if it is not
    /// about a path.
    pub fn at(&self, real: &str) -> Permission {
        match self.path_use() {
            Some(path_use) => Permission::Path {
                path_use,
                path: real.to_string(),
            },
            None => self.clone(),
        }
    }

    /// Returns the use of the path that it is about. `None`: it is not about a path.
    pub(crate) fn path_use(&self) -> Option<PathUse> {
        match self {
            Permission::Path { path_use, .. } => Some(*path_use),
            Permission::WriteInWorkspace { .. } => Some(PathUse::Write),
            Permission::Glob { .. } => Some(PathUse::Glob),
            Permission::None
            | Permission::Command { .. }
            | Permission::LookBack { .. }
            | Permission::Wait
            | Permission::Task
            | Permission::Foreign { .. }
            | Permission::Fetch { .. }
            | Permission::Search { .. } => None,
        }
    }
}
