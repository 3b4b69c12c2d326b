//! How far a command may reach: the levels of the sandbox, from least to most.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Sandbox policy of a command. Each level includes the levels before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Reads the workspace and the system; writes only its own temporary folder. No network.
    Read,
    /// Also writes below the workspace. Network only to itself.
    Workspace,
    /// Also the network, and the shared package caches.
    Network,
    /// No sandbox.
    Full,
}

impl Access {
    /// All levels, from least to most.
    pub const ALL: [Access; 4] = [
        Access::Read,
        Access::Workspace,
        Access::Network,
        Access::Full,
    ];

    /// Returns the level's name as it is stored and shown: `read`, `workspace`, `network` or
    /// `full`.
    pub fn name(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Workspace => "workspace",
            Access::Network => "network",
            Access::Full => "full",
        }
    }
}

/// The levels that a hook or server of a workspace may get, from least to most.
pub const WORKSPACE_ACCESS: [Access; 2] = [Access::Workspace, Access::Network];

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_in_order_and_their_names_are_the_stored_ones() {
        assert!(Access::ALL.is_sorted());
        for access in Access::ALL {
            let stored = serde_json::to_string(&access).unwrap();
            assert_eq!(stored, format!("\"{access}\""));
        }
    }
}
