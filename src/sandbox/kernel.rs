//! Features of the kernel for a sandbox, determined by trying them and never by the kernel's
//! version.
//!
//! They are tried in a separate process ([`super::stage`]), since trying changes the process.
//! [`Kernel::pretending`] removes features from the result, so that tests can simulate an older
//! kernel; it can add nothing.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

/// The hidden first argument that makes this program a [`super::stage`].
pub(super) const STAGE_WORD: &str = "__sandbox";

/// The second argument that asks for the features of the kernel. The answer is JSON on stdout.
pub(super) const PROBE: &str = "probe";

/// The newest version of Landlock's interface whose rights are used.
pub(super) const NEWEST_ABI: u8 = 6;

/// The features of this kernel for a sandbox, as they were tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Kernel {
    /// The version of Landlock's interface; 0 without Landlock.
    pub landlock: u8,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
    /// Whether a process can get a mount namespace in which mounting works.
    pub mounts: bool,
    /// Whether a process can mount a separate folder of pseudo-terminals.
    pub terminals: bool,
    /// Whether a process can get a network namespace with a loopback interface that is up.
    pub private_network: bool,
    /// Whether a process can get a process namespace, in which a command sees only its own
    /// processes.
    pub process_namespace: bool,
    /// Whether pids can be chosen in such a namespace.
    pub process_numbers: bool,
    /// Whether such a namespace has a separate limit for the number of processes (Linux 6.14).
    pub process_limit: bool,
    /// Whether the namespaces need a user namespace, because rewake does not run as root.
    pub user_namespace: bool,
}

/// The levels that run without approval on this kernel, as far as the sandbox is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnapprovedLevels {
    /// Commands at level `read`.
    pub read: bool,
    /// Commands at level `workspace`.
    pub workspace: bool,
}

impl Kernel {
    /// Determines the features of the kernel. `exe` is this program. After an error, which says why
    /// it was not possible, commands have no sandbox.
    pub fn probe(exe: &Path) -> Result<Kernel, String> {
        let output = Command::new(exe)
            .args([STAGE_WORD, PROBE])
            .current_dir("/")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .map_err(|e| format!("cannot ask the kernel for a sandbox: {e}"))?;
        serde_json::from_slice(&output.stdout)
            .map_err(|e| format!("cannot read what the kernel has for a sandbox: {e}"))
    }

    /// Returns this kernel without some features: `abi=N`, `no-namespaces`, `no-network`, `no-pid`,
    /// `no-numbers`, `no-pid-max`, `no-seccomp`, separated by commas.
    pub fn pretending(mut self, less: &str) -> Result<Kernel, String> {
        for word in less.split(',').filter(|word| !word.is_empty()) {
            match word {
                "no-seccomp" => self.seccomp = false,
                "no-network" => self.private_network = false,
                "no-pid" => self.process_namespace = false,
                "no-numbers" => self.process_numbers = false,
                "no-pid-max" => self.process_limit = false,
                "no-namespaces" => {
                    self.mounts = false;
                    self.private_network = false;
                    self.process_namespace = false;
                }
                _ => match word.strip_prefix("abi=").and_then(|n| n.parse::<u8>().ok()) {
                    Some(abi) => self.landlock = self.landlock.min(abi),
                    None => return Err(format!("{word:?} is nothing that a kernel can lack")),
                },
            }
        }
        Ok(self)
    }

    /// Returns whether a command can run in a sandbox at all.
    pub fn can_sandbox(&self) -> bool {
        self.landlock > 0 && self.seccomp
    }

    /// Returns whether Landlock confines signals. Without this a command could kill processes that
    /// are not its own.
    pub(super) fn scopes_signals(&self) -> bool {
        self.landlock >= 6
    }

    /// Returns whether a command gets a process namespace. Commands share `$TMPDIR`, so pids must
    /// differ. Without a choice of pids, a command gets a namespace only if it could otherwise kill
    /// other processes.
    pub fn gives_own_processes(&self) -> bool {
        self.process_namespace && (self.process_numbers || !self.scopes_signals())
    }

    /// Returns the levels that run without approval here. A kernel that cannot keep a level's
    /// promises runs none of that level's commands without approval.
    pub fn unasked(&self) -> UnapprovedLevels {
        let read = self.landlock >= 3 && self.seccomp;
        let contained = self.scopes_signals() || self.process_namespace;
        UnapprovedLevels {
            read,
            workspace: read && self.mounts && contained,
        }
    }

    /// Lists the missing features and their consequences, in words for a person.
    pub fn lacks(&self) -> Vec<&'static str> {
        let mut lacks = Vec::new();
        match self.landlock {
            0 => lacks.push("no Landlock: commands have no sandbox"),
            1 | 2 => lacks.push(
                "Landlock is older than version 3: the sandbox applies to what was approved, and \
                 no command runs without approval because of it",
            ),
            3..6 => lacks.push(
                "Landlock is older than version 6: commands cannot send signals, or get a process \
                 namespace",
            ),
            _ => {}
        }
        if !self.seccomp {
            lacks.push("no seccomp: commands have no sandbox");
        }
        if !self.mounts {
            lacks.push(
                "no mount namespace: protected files are compared after a command, and not held \
                 against it",
            );
        }
        if !(self.mounts && self.terminals) {
            lacks.push("no separate pseudo-terminals: commands can make none");
        }
        if !self.private_network {
            lacks.push("no network namespace: level workspace has no loopback network");
        }
        if !self.gives_own_processes() {
            lacks.push(
                "no process namespace: what a command leaves running is looked for and ended when \
                 it is over",
            );
        }
        lacks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::access::Access;

    fn whole() -> Kernel {
        Kernel {
            landlock: 7,
            seccomp: true,
            mounts: true,
            terminals: true,
            private_network: true,
            process_namespace: true,
            process_numbers: true,
            process_limit: true,
            user_namespace: true,
        }
    }

    #[test]
    fn the_access_without_approval_depends_on_the_kernel() {
        let table = [
            ("", Some(Access::Workspace)),
            ("abi=6", Some(Access::Workspace)),
            ("no-namespaces", Some(Access::Read)),
            ("abi=4", Some(Access::Workspace)),
            ("abi=4,no-pid", Some(Access::Read)),
            ("no-numbers", Some(Access::Workspace)),
            ("abi=4,no-numbers", Some(Access::Workspace)),
            ("abi=2", None),
            ("abi=0", None),
            ("no-seccomp", None),
        ];
        for (less, most) in table {
            let kernel = whole().pretending(less).unwrap();
            let unasked = kernel.unasked();
            let levels = [
                unasked.workspace.then_some(Access::Workspace),
                unasked.read.then_some(Access::Read),
            ];
            assert_eq!(levels.into_iter().flatten().next(), most, "{less}");
            assert_eq!(
                kernel.lacks().is_empty(),
                less.is_empty() || less == "abi=6",
                "{less}"
            );
        }
    }

    #[test]
    fn numbers_that_repeat_are_worse_than_no_namespace_where_signals_have_a_scope() {
        for (less, own) in [
            ("", true),
            ("no-pid-max", true),
            ("no-numbers", false),
            ("abi=4,no-numbers", true),
            ("no-pid", false),
        ] {
            let kernel = whole().pretending(less).unwrap();
            assert_eq!(kernel.gives_own_processes(), own, "{less}");
        }
    }

    #[test]
    fn pretending_adds_nothing() {
        let none = Kernel::default();
        assert_eq!(none.pretending("abi=7").unwrap(), none);
        assert!(none.pretending("abi=x").is_err());
        assert!(none.pretending("mounts").is_err());
    }
}
