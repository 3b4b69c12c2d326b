//! The stored record of a trusted folder: hashes of its config at that time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::file::Digest;
use super::mcp::{DefinedServer, ServerSource, ServerTrusted};
use crate::core::access::Access;

/// The trusted content of a folder. Hashes are blake3 in hex.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrustedContent {
    /// Hash of the file; empty if there was none.
    pub file: String,
    /// Dotted key -> hash of its value, for the keys that need trust.
    #[serde(default)]
    pub keys: BTreeMap<String, String>,
    /// File from the root of the workspace -> name of a server there -> hash of its definition.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub servers: BTreeMap<String, BTreeMap<String, String>>,
    /// The same names -> access of the server in the sandbox.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub access: BTreeMap<String, BTreeMap<String, Access>>,
}

/// A trusted hook. The key of its record is the hash of its definition.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedHook {
    pub event: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub matcher: String,
    pub command: String,
    /// `onFailure: "allow"`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_fail: bool,
    /// Absolute path of a file that the command names -> hash of its content.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Access in the sandbox. `None`: a hook of the user's own files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
}

/// The trusted hooks of a file, by the hash of their definition.
pub type TrustedHooks = BTreeMap<String, TrustedHook>;

/// The record of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    None,
    Bound(TrustedContent),
}

impl Record {
    /// Returns the trust in a server's definition.
    fn server(&self, source: ServerSource, name: &str, hash: &str) -> ServerTrusted {
        let trusted = match self {
            Record::None => return ServerTrusted::No,
            Record::Bound(trusted) => &trusted.servers,
        };
        match trusted.get(source.name()).and_then(|of| of.get(name)) {
            None => ServerTrusted::New,
            Some(trusted) if trusted == hash => ServerTrusted::Yes,
            Some(_) => ServerTrusted::Changed,
        }
    }

    /// Returns the access with which a server was trusted, if it was stored.
    fn access(&self, source: ServerSource, name: &str) -> Option<Access> {
        match self {
            Record::Bound(trusted) => trusted.access.get(source.name())?.get(name).copied(),
            Record::None => None,
        }
    }

    /// Returns whether the file is unchanged byte for byte.
    pub(super) fn is_of(&self, digest: &Digest) -> bool {
        match self {
            Record::Bound(trusted) => {
                matches!(digest, Digest::Of(_)) && trusted.file == digest.hex()
            }
            Record::None => false,
        }
    }
}

impl DefinedServer {
    /// Applies the trust of the workspace that defines the server.
    pub(super) fn trust_as(&mut self, record: &Record) {
        self.trusted = record.server(self.source, &self.name, &self.hash);
        let is_trusted = self.trusted == ServerTrusted::Yes;
        self.access = record
            .access(self.source, &self.name)
            .filter(|_| is_trusted);
    }
}
