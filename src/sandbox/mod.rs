//! The sandbox of commands: restrictions that the operating system enforces.
//!
//! ```text
//! Request ── Profile::new ──► Profile ── a memory file ──► stage ── exec ──► the command
//!   level, folders, config      plain data, kept with        namespaces, Landlock, seccomp
//!   Kernel::probe               the run
//! ```
//!
//! A [`Profile`] has the permissions of a command as plain data. The keeper starts this program
//! again as the *stage* ([`stage`]): a fresh process with one thread, which drops its own rights
//! and becomes the command. If it cannot drop a right, it reports that, and the command does not
//! run. All processes that the command starts inherit the restrictions.
//!
//! | file | subject |
//! |---|---|
//! | `profile` | computation of a [`Profile`] from a level and the folders |
//! | `paths` | which paths exist, where they lead, and which lie below others |
//! | `repository` | the git folders of a workspace |
//! | `protected` | the protected files of a workspace, found by a scan |
//! | `folders` | the entries of folders, remembered between scans and never stale |
//! | `placeholders` | what git folders get for names that git obeys and that do not exist |
//! | `places` | the lists: system folders, toolchains, secrets, caches, protected names |
//! | `toolchains` | the folders with programs that the environment names |
//! | `environment` | the variables of a command |
//! | `descriptors` | inherited descriptors, and the limit of open files |
//! | `kernel` | the features of the kernel, determined by trying them |
//! | `obstacle` | the setting of a system that keeps namespaces from commands |
//! | `stage` | the process that becomes the command |
//! | `init` | the processes of a process namespace before its command |
//! | `namespaces`, `mounts`, `files`, `calls`, `rights` | one mechanism each |
//! | `start` | the command line that starts a stage, and its report |
//! | `watch` | protected files that mounts cannot protect: compared afterwards |
//! | `states` | the state of a path, with its content |
//! | `writable` | the open folders that a command may write to, and names below them |
//! | `appeared` | protected files that a command created anywhere in the workspace |
//! | `modes` | permission bits of rewake's own folders and of key files, restored afterwards |
//! | `family` | all processes that a command started |
//! | `macos` | the same profile in the language of `sandbox-exec` |
//!
//! Invariant: a level is applied completely or the command does not run. No restriction is dropped
//! silently because a kernel is old; [`Kernel`] decides beforehand, and [`Profile::gaps`] lists the
//! missing ones.
//!
//! Deliberately absent: bubblewrap or any other program, and a retry without a sandbox.

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
mod obstacle;
mod path_bytes;
mod paths;
mod placeholders;
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
pub mod reaper;
#[cfg(target_os = "linux")]
mod rights;
pub mod stage;

/// Keeps other processes of the user from inspecting this one: its memory, its environment with the
/// keys, its files. Executed programs do not inherit this. Linux only.
pub fn conceal() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // If the kernel refuses, nothing changes.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// Undoes [`conceal`]. A process that makes a user namespace must be able to open its own files in
/// `/proc`.
pub fn reveal() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    }
}

/// Takes everything from this process but its memory, a part of the processor's time and the files
/// that it has open: it reaches no other file, no network and no process. It must have one thread.
/// On other systems than Linux, only memory and time are limited.
///
/// # Errors
/// The system does not enforce it.
pub fn only_compute(memory_bytes: u64, seconds: u64) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limits = [
        (Resource::As, memory_bytes),
        (Resource::Cpu, seconds),
        (Resource::Core, 0),
    ];
    for (resource, most) in limits {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit).map_err(|e| format!("cannot set limits: {e}"))?;
    }
    #[cfg(target_os = "linux")]
    calls::only_compute()?;
    Ok(())
}

/// Returns whether this process runs in a sandbox of rewake: as a command, or started by one.
pub fn is_inside() -> bool {
    #[cfg(target_os = "linux")]
    let inside = calls::is_marked();
    #[cfg(not(target_os = "linux"))]
    let inside = false;
    inside
}

pub use descriptors::{child, close_inherited, give_back_limit, limit, raise_limit};
pub use family::{EndedProcess, Family, adopt_orphans, descendants, has_terminal};
pub use folders::Folders;
pub use kernel::{Kernel, UnapprovedLevels};
pub use modes::{ModeChange, Modes};
pub use obstacle::namespace_setting;
pub use placeholders::{KeptPlaceholders, Placeholders, remove_left_placeholders};
pub use places::holds_secrets;
pub use profile::{Limits, Network, Profile, ProtectedScan, Request, ResolvedFolder, Unsupported};
pub use protected::Remembered;
pub use repository::Repository;
pub use start::{Report, Starting, SurvivorPipe, command, forked};
pub use toolchains::Toolchains;
pub use watch::{Watched, WatchedChange, bytes_below};
