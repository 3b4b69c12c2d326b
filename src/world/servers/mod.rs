//! Calls of tools of servers (MCP). A server lives under a keeper of its own and outlives this
//! process, and so does a call of its tool.
//!
//! The order: the server lives, then `Started` is recorded with the id of the request, then the
//! keeper is given the request. What became of a request after a crash says the keeper's journal:
//! [`crate::command::server`].
//!
//! | file | subject |
//! |---|---|
//! | `live` | the servers of the session that live: found again, started, left |
//! | `health` | when a server that ended is started again |
//! | `learn` | what servers say of their tools |
//! | `relisted` | when a server was asked for its list again |
//! | `offers` | what servers have for people: prompts and resources |
//! | `call` | a call: made ready, made, settled |
//! | `standing` | how far a call came |
//! | `asks` | what servers ask a person in the middle of a call |
//! | `result` | from what a server answered to what the model gets |
//!
//! Invariant: a session has at most one live server of a name, and no other session uses it.
//!
//! Invariant: a call that is dropped is not cancelled. What cancels is a person's stop, and the
//! time limit.

mod asks;
mod call;
mod health;
mod learn;
mod live;
mod offers;
mod relisted;
mod result;
mod standing;

use std::time::Duration;

use crate::command::server::{ServerEnv, ServerSpec, Servers};

pub(super) use learn::Learning;
pub(super) use live::LiveServers;
pub use offers::{NotOffered, Offered, ServerReply, ServerRequest, ServerWords, Wanted};

/// What a world needs to call the tools of servers.
pub struct ServerAccess {
    /// The run folders.
    pub servers: Servers,
    /// The tool of this full name, as it was described to the model.
    pub find: FindTool,
    /// How the server of this name is started.
    pub launch: LaunchServer,
}

/// From the full name of a tool to what is known of it, or to why it cannot be called.
pub type FindTool = Box<dyn Fn(&str) -> Result<KnownTool, String>>;

/// From the name of a server to how it is started, or to why it is not.
pub type LaunchServer = Box<dyn Fn(&str) -> Result<Launch, String>>;

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTool {
    /// What the config calls its server.
    pub server: String,
    /// As the server has it.
    pub name: String,
    /// By the user's word it may be called once more when it is not known what became of a call.
    pub repeatable: bool,
    /// For a call. `None`: as long as it takes.
    pub limit: Option<Duration>,
}

/// How a server is started.
#[derive(Debug, Clone)]
pub struct Launch {
    pub spec: ServerSpec,
    pub env: ServerEnv,
    /// Until it has said what it is.
    pub startup: Duration,
}
