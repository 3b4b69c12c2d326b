//! Shell commands that outlive the agent.
//!
//! Each command has a **run folder** and runs under a **keeper**: a tiny process of this same
//! binary ([`keeper`]) in a session of its own, which starts the command, collects its output,
//! holds its time limit and writes down how it ended. The agent ([`Runs`]) may die at any
//! instant; the next one finds the folder and goes on from there.
//!
//! ```text
//! RUN/spec      what is to be run; written by the agent
//! RUN/script    the command, when it is too long to be an argument
//! RUN/status    reserved room: that it began, later how it ended; the keeper locks this file
//! RUN/claim     empty; whoever creates it (`O_EXCL`) decides whether the command is run
//! RUN/output    the head of what it printed, up to a cap
//! RUN/tail      the end of what it printed, when that is beyond the cap
//! ```
//!
//! # Who decides
//!
//! The agent: folder made → `Started` is logged, synced → keeper spawned. The keeper:
//!
//! ```text
//! lock status ── claim (O_EXCL) ── write "begun" ── start the command ── write "ended", sync ── die
//! ```
//!
//! and it leaves without a trace when the lock or the claim is not to be had. A later agent
//! that settles the run asks, in this order:
//!
//! 1. "ended" is there and whole: that is the answer.
//! 2. Another boot: lost. Nothing can be running, and what reached the disk of claim and
//!    "begun" says nothing, so it is never run again.
//! 3. It tries to create `claim` itself. If it can, no keeper has passed that point and none
//!    ever will: **not begun**.
//! 4. Else the claim was there before it looked at the lock. A keeper takes the lock before
//!    the claim and holds it until it dies, so: locked, it is **running**; free, whoever
//!    claimed is dead and what it wrote is final. "Ended" is read again. Without it: "begun"
//!    means **lost** (the keeper was killed; its command may still be alive), no "begun"
//!    means the command was never started: **not begun**. The last is also what a second
//!    settle sees when the first one claimed and its agent died before it could log that.
//!
//! All interleavings of a late keeper K and a settling agent A: A before K's claim: A claims, K
//! sees it and leaves. A between K's claim and "begun", K alive: locked, running. The same with
//! K killed: free, no "begun", and nothing was started. A behind "begun": locked or lost. A
//! behind A's own claim while a late K holds the lock for a moment: A waits until "begun" is
//! written or the lock is free. Two keepers of one run: one lock, one claim.
//!
//! One who *stops* a run that is not begun claims it as an agent does, and then writes "ended"
//! under the lock: the claim alone would have the next agent start it again.
//!
//! Looking at the lock takes it *shared*, and only when there is a claim, so that one who looks
//! never keeps a keeper from its work and two who look never take each other for a keeper.
//!
//! Pids are for display and for signals; nothing is decided by them.
//!
//! Invariant: at most one process ever starts the command of a run folder, and after
//! [`SettledRun::NotBegun`] none does. A run folder's name is never used twice.
//!
//! Invariant: neither the folder nor the command's environment holds a key of ours.
//!
//! Deliberately absent: a pseudo-terminal, a daemon that knows all runs, a pid file that is
//! believed, and any hold on processes that leave the session (`setsid`) of a command without a
//! sandbox: these are nobody's children, as they asked to be. In a sandbox they stay the keeper's.

mod aftermath;
mod child;
mod confined;
mod folder;
mod inside;
pub mod keeper;
pub mod limited;
mod look;
pub mod on_terminal;
mod output;
mod process;
mod run;
pub mod server;
mod signals;
mod spec;
mod status;

pub use aftermath::{Aftermath, Survivor};
pub use inside::is_below_keeper;
pub use look::{Ended, NOT_HELD};
pub use output::Printed;
pub use process::{boot_id, booted_ms, hear_of_children, own_exe};
pub use run::{QUIET, RunInfo, RunState, Running, Runs, SettledRun, Stopped};
pub use spec::{COMMAND_MAX_BYTES, OF_USER, Spec, default_shell};
pub use status::How;
