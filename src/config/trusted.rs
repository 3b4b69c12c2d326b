//! What is kept of a folder that was trusted: hashes of what its config said then.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::file::Digest;
use super::mcp::{ServerSource, ServerTrusted};

/// Hashes are blake3 in hex.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrustedContent {
    /// Of the file; empty when there was none.
    pub file: String,
    /// Dotted key -> hash of its value, for the keys that need trust.
    #[serde(default)]
    pub keys: BTreeMap<String, String>,
    /// File from the root of the workspace -> name of a server there -> hash of its definition.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub servers: BTreeMap<String, BTreeMap<String, String>>,
}

/// What is kept of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    None,
    /// It was trusted, and it is not known with what content.
    Unbound,
    Bound(TrustedContent),
}

impl Record {
    /// How the definition of a server stands to what was trusted.
    pub(super) fn server(&self, source: ServerSource, name: &str, hash: &str) -> ServerTrusted {
        let trusted = match self {
            Record::None => return ServerTrusted::No,
            Record::Unbound => return ServerTrusted::New,
            Record::Bound(trusted) => &trusted.servers,
        };
        match trusted.get(source.name()).and_then(|of| of.get(name)) {
            None => ServerTrusted::New,
            Some(trusted) if trusted == hash => ServerTrusted::Yes,
            Some(_) => ServerTrusted::Changed,
        }
    }

    /// The file was trusted byte for byte as it is.
    pub(super) fn is_of(&self, digest: &Digest) -> bool {
        match self {
            Record::Bound(trusted) => {
                matches!(digest, Digest::Of(_)) && trusted.file == digest.hex()
            }
            Record::None | Record::Unbound => false,
        }
    }
}
