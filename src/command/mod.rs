//! Shell commands that outlive the agent.
//!
//! Each command has a **run folder** and runs under a **keeper**: a tiny process of this same
//! binary ([`keeper`]) in a separate process session. It starts the command, collects its output,
//! enforces its time limit and records how it ended. The agent ([`Runs`]) may die at any instant;
//! the next agent finds the folder and continues from there.
//!
//! ```text
//! RUN/spec      what is to be run; written by the agent
//! RUN/script    the command, when it is too long to be an argument
//! RUN/status    reserved room: that it began, later how it ended; the keeper locks this file
//! RUN/claim     empty; the process that creates it (`O_EXCL`) decides whether the command is run
//! RUN/output    the head of what it printed, up to a cap
//! RUN/tail      the end of what it printed, when that is beyond the cap
//! ```
//!
//! # Who decides
//!
//! The agent: create the folder → log and sync `Started` → give the folder to a
//! keeper, a spare one or a new one. The keeper:
//!
//! ```text
//! lock status ── claim (O_EXCL) ── write start record ── start the command
//!     ── write end record, sync ── die
//! ```
//!
//! When the keeper cannot get the lock or the claim, it exits without a trace. A later agent that
//! settles the run checks, in this order:
//!
//! 1. The end record is there and whole: that is the answer.
//! 2. Another boot: lost. Nothing can be running. The parts of the claim and of the start record
//!    that reached the disk prove nothing, so the command is never run again.
//! 3. It tries to create `claim` itself. If it can, no keeper has passed that point and none
//!    ever will: **not started**.
//! 4. Else the claim was there before it looked at the lock. A keeper takes the lock before
//!    the claim and holds it until it dies. So if the status is locked, the run is **running**. If
//!    it is free, the process that claimed is dead and its records are final. The end record is
//!    read again. Without it, a start record means **lost** (the keeper was killed; its command may
//!    still be alive). Without a start record, the command was never started: **not started**. A
//!    second settle sees the latter too, when the first one claimed and its agent died before it
//!    could log that.
//!
//! All interleavings of a late keeper K and a settling agent A:
//!
//! - A before K's claim: A claims; K sees that and exits.
//! - A between K's claim and its start record, K alive: locked, running.
//! - A between K's claim and its start record, K killed: free, no start record, and nothing was
//!   started.
//! - A after the start record: locked or lost.
//! - A after A's own claim while a late K holds the lock for a moment: A waits until the start
//!   record is written or the lock is free.
//! - Two keepers of one run: one lock, one claim. So a [`spare`] that does not begin is replaced.
//!
//! An agent that *stops* a run before its start claims it in the same way, and then writes the end
//! record under the lock: with the claim alone, the next agent would start the run again.
//!
//! Inspecting the lock takes it *shared*, and only when there is a claim. So an inspection never
//! blocks a keeper, and two inspections never take each other for a keeper.
//!
//! Pids are for display and for signals; nothing is decided by them.
//!
//! Invariant: at most one process ever starts the command of a run folder, and after
//! [`SettledRun::NotBegun`] none does. A run folder's name is never used twice.
//!
//! Invariant: neither the folder nor the command's environment contains a key of ours.
//!
//! Deliberately absent: a pseudo-terminal, a daemon that knows all runs, a pid file that is
//! believed, and, on systems other than Linux, any control of processes that leave the session
//! (`setsid`) of a command without a sandbox. On Linux they stay descendants of the keeper.

mod aftermath;
mod child;
mod confined;
mod folder;
mod inside;
pub mod keeper;
mod lease;
pub mod lease_file;
pub mod limited;
mod look;
mod memory;
pub mod on_terminal;
mod output;
pub mod page;
mod process;
mod run;
pub mod server;
mod signals;
mod spare;
mod spec;
mod status;

pub use aftermath::{Aftermath, Survivor};
pub use inside::is_below_keeper;
pub use lease::LEASE_ENDED;
pub use look::{NOT_HELD, RunEnd};
pub use output::Printed;
pub use process::{boot_id, booted_ms, own_exe, watch_child_exits};
pub use run::{RunInfo, RunState, Running, Runs, SettledRun, Stopped};
pub use spare::Spare;
pub use spec::{HookSpec, NeededFile, OF_CHECK, OF_HOOK, OF_UNAWAITED_HOOK, OF_USER, Spec};
pub use status::How;
