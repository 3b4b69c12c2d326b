//! The sandbox of commands: what the system itself keeps a command from doing.
//!
//! ```text
//! Request ── Profile::new ──► Profile ── a memory file ──► stage ── exec ──► the command
//!   level, folders, config      plain data, kept with        namespaces, Landlock, seccomp
//!   Kernel::probe               the run
//! ```
//!
//! [`Profile`] says what a command may do, as plain data. The keeper starts this program again
//! as the *stage* ([`stage`]): a fresh process with one thread, which takes its own rights away
//! and becomes the command. What it cannot take away it reports, and the command does not run.
//! Everything is inherited by whatever the command starts.
//!
//! | file | subject |
//! |---|---|
//! | `profile` | from a level and the folders to a [`Profile`] |
//! | `paths` | which paths exist, where they lead, and which lie below others |
//! | `repository` | the git folders of a workspace |
//! | `protected` | what of a workspace is protected: a look below it |
//! | `folders` | what lies in folders, remembered between looks and never stale |
//! | `places` | the lists: system folders, toolchains, secrets, caches, protected names |
//! | `toolchains` | the folders with programs that the environment names |
//! | `environment` | which variables a command sees |
//! | `kernel` | what the kernel can do, by trying it |
//! | `stage` | the process that becomes the command |
//! | `init` | the processes of a process namespace before its command |
//! | `namespaces`, `mounts`, `files`, `calls`, `rights` | one mechanism each |
//! | `start` | the command line that starts a stage, and what it reports |
//! | `watch` | protected files that cannot be held: compared afterwards |
//! | `states` | what lies at a path, with its content |
//! | `writable` | the open folders that a command may write to, and names below them |
//! | `appeared` | protected files that a command made anywhere in the workspace |
//! | `modes` | permission bits of rewake's own folders and of key files, put back afterwards |
//! | `family` | all processes that a command started |
//! | `macos` | the same profile in the language of `sandbox-exec` |
//!
//! Invariant: a level is applied whole or the command does not run. Nothing is dropped in
//! silence because a kernel is old; [`Kernel`] decides beforehand, and [`Profile::gaps`] says
//! what is missing.
//!
//! Deliberately absent: bubblewrap or any other program, and trying again without a sandbox.

mod appeared;
mod environment;
mod family;
mod folders;
mod kernel;
#[cfg_attr(
    target_os = "linux",
    expect(dead_code, reason = "its text is made on macOS")
)]
pub(crate) mod macos;
mod modes;
mod paths;
mod places;
mod profile;
mod protected;
mod repository;
mod start;
mod states;
mod toolchains;
mod watch;
mod writable;

#[cfg(target_os = "linux")]
mod calls;
mod descriptors;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod rights;
pub mod stage;

/// Keeps other processes of the user from looking into this one: its memory, its environment
/// with the keys, its files. Not kept by what it executes. Linux only.
pub fn conceal() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // A kernel that refuses it leaves things as they always were.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// Whether this process runs in a sandbox of ours: as a command, or started by one.
pub fn is_inside() -> bool {
    #[cfg(target_os = "linux")]
    let inside = calls::is_marked();
    #[cfg(not(target_os = "linux"))]
    let inside = false;
    inside
}

pub use descriptors::close_inherited;
pub use environment::looks_secret;
pub use family::{Ended, Family, adopt_orphans};
pub use folders::Folders;
pub use kernel::{Kernel, Unasked};
pub use modes::{ModeChange, Modes};
pub use profile::{Limits, Looked, Network, Pinned, Profile, Request, Unsupported};
pub use protected::Remembered;
pub use repository::Repository;
pub use start::{Left, Report, Starting, command, forked};
pub use toolchains::Toolchains;
pub use watch::{Change, Watched, bytes_below};
