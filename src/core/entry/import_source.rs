//! The origin of a session that was imported.

use serde::{Deserialize, Serialize};

/// The session of another agent that this one is a copy of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportSource {
    /// The name of the agent, as in `rewake import --from`.
    pub agent: String,
    /// The version of the agent that began the session. `None`: the source does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The ID that the agent gave the session.
    pub id: String,
}

/// The copy that a fork continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaOrigin {
    /// The agent whose session it is a copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}
