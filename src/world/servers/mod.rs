//! Calls of servers' tools (MCP). A server runs under a separate keeper and outlives this process,
//! and so does a call of its tool.
//!
//! The order: the server is started, then `Started` is recorded with the ID of the request, then
//! the keeper gets the request. After a crash, the keeper's journal has the fate of the request:
//! [`crate::command::server`].
//!
//! | file | subject |
//! |---|---|
//! | `live` | the running servers of the session: found again, started, left |
//! | `health` | when a server that ended is started again |
//! | `learn` | the lists of the servers' tools |
//! | `relisted` | when a server was asked for its list again |
//! | `offers` | prompts and resources of servers for people |
//! | `call` | a call: prepared, made, settled |
//! | `standing` | the progress of a call |
//! | `asks` | questions of servers for a person during a call |
//! | `result` | conversion of a server's answer to the result for the model |
//!
//! Invariant: a session has at most one live server of a name, and no other session uses it.
//!
//! Invariant: a call that is dropped is not cancelled. Only a person's stop and the time limit
//! cancel it.

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
use crate::mcp::era::ProtocolHint;

pub(super) use live::{Learning, LiveServers};
pub use offers::{OfferAnswer, OfferError, OfferKind, ServerReply, ServerRequest, ServerWords};

/// The means of a world to call the tools of servers.
pub struct ServerAccess {
    /// The run folders.
    pub servers: Servers,
    /// Finds the tool of a full name, as it was described to the model.
    pub find: FindTool,
    /// Returns how the server of a name is started.
    pub launch: LaunchServer,
}

/// Returns the tool of a full name, or the reason why it cannot be called.
pub type FindTool = Box<dyn Fn(&str) -> Result<KnownTool, String>>;

/// Returns how the server of a name is started, or the reason why it is not.
pub type LaunchServer = Box<dyn Fn(&str) -> Result<Launch, String>>;

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTool {
    /// The name of its server in the config.
    pub server: String,
    /// The tool's name on the server.
    pub name: String,
    /// Whether the user allows to call it again after a call with an unknown outcome.
    pub repeatable: bool,
    /// Time limit of a call; `None` for no limit.
    pub limit: Option<Duration>,
}

/// The settings for starting a server.
#[derive(Debug, Clone)]
pub struct Launch {
    pub spec: ServerSpec,
    pub env: ServerEnv,
    /// Time limit until it has identified itself.
    pub startup: Duration,
    pub protocol: ProtocolHint,
}
