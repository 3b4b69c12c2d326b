//! The description of a command's access for a person, before it runs: what it could do on this
//! system.

use super::level::Sandbox;
use crate::core::access::Access;

/// The access that a command would have, and what it could do with it, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessText {
    pub access: Access,
    pub long: &'static str,
    /// The short form.
    pub short: &'static str,
}

impl AccessText {
    /// Returns the text with the name of the access before it. The danger comes first.
    pub fn named(&self, text: &str) -> String {
        match self.access {
            Access::Full => text.to_string(),
            access => format!("access {access}: {text}"),
        }
    }
}

impl Sandbox {
    /// Returns what a command with this access could do. Without a sandbox that is everything,
    /// whatever the access says.
    pub fn describe(&self, access: Access) -> AccessText {
        let access = if self.available { access } else { Access::Full };
        let (long, short) = match access {
            Access::Read => (
                "can read the workspace and the system; writes only $TMPDIR; no network",
                "reads; writes only $TMPDIR",
            ),
            Access::Workspace => (self.workspace_text(), "writes in the workspace"),
            Access::Network => (
                "can write in the workspace and in package caches; uses the whole network",
                "uses the whole network",
            ),
            Access::Full => (
                "NO SANDBOX: can read and change all your files, use your keys and the network",
                "NO SANDBOX: files, keys, network",
            ),
        };
        AccessText {
            access,
            long,
            short,
        }
    }

    fn workspace_text(&self) -> &'static str {
        match (self.protects, self.loopback) {
            (true, true) => {
                "can write in the workspace except protected files; loopback network only"
            }
            (true, false) => "can write in the workspace except protected files; no network",
            (false, true) => {
                "can write in the workspace, changes of protected files are undone afterwards; \
                 loopback network only"
            }
            (false, false) => {
                "can write in the workspace, changes of protected files are undone afterwards; \
                 no network"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Sandbox = Sandbox::WHOLE;

    #[test]
    fn the_text_follows_what_the_system_enforces() {
        let text = |sandbox: Sandbox, access| sandbox.describe(access).long;
        let read = "can read the workspace and the system; writes only $TMPDIR; no network";
        assert_eq!(text(WHOLE, Access::Read), read);
        for (protects, loopback, want) in [
            (
                true,
                true,
                "can write in the workspace except protected files; loopback network only",
            ),
            (
                true,
                false,
                "can write in the workspace except protected files; no network",
            ),
            (
                false,
                false,
                "can write in the workspace, changes of protected files are undone afterwards; no network",
            ),
        ] {
            let sandbox = Sandbox {
                protects,
                loopback,
                ..WHOLE
            };
            assert_eq!(text(sandbox, Access::Workspace), want);
        }
        let full = "NO SANDBOX: can read and change all your files, use your keys and the network";
        assert_eq!(text(WHOLE, Access::Full), full);
        for access in Access::ALL {
            let described = Sandbox::default().describe(access);
            assert_eq!((described.access, described.long), (Access::Full, full));
        }
    }
}
