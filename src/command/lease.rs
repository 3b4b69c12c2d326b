//! A keeper's view of the lease of its session. A command or a server of a shared session ends with
//! the lease, so that it never works beside another machine that continues the session.
//!
//! The keeper looks at least once a second: a long sleep in poll(2) does not count the time during
//! which the machine was suspended.

use std::path::Path;
use std::time::Duration;

use super::lease_file::{LeaseEnds, LeaseFile, clock};
use super::process::GRACE;
use crate::store::home_of_machine;

/// The reason for which a command was ended, for the model and the user.
pub const LEASE_ENDED: &str = "the lease of the session on this machine ended";

/// The reason for not running a command.
pub(super) const LEASE_OVER: &str = "the lease of the session ended before it began";

/// Longest time between two looks at the file.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The state of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseState {
    Good,
    /// Processes get TERM.
    Ending,
    /// Processes get KILL.
    Over,
}

/// The lease of a session, as its file was last read.
pub(super) struct LeaseWatch {
    file: LeaseFile,
    boot: String,
    ends: LeaseEnds,
    /// Time of the next look at the file.
    look_at: Duration,
}

impl LeaseWatch {
    pub(super) fn new(path: &Path) -> LeaseWatch {
        LeaseWatch {
            file: LeaseFile::at(path),
            // On a machine without an identity, no lease counts.
            boot: home_of_machine().map_or_else(String::new, |(_, boot, _)| boot),
            ends: LeaseEnds::default(),
            look_at: Duration::ZERO,
        }
    }

    /// Returns the state of the lease. Reads the file again when that is due.
    pub(super) fn look(&mut self) -> LeaseState {
        let now = clock();
        if self.look_at <= now {
            let read = self.file.read(&self.boot, now);
            // The last version still gives the processes time to end.
            self.ends = read.unwrap_or_else(|| LeaseEnds {
                term_at: Duration::ZERO,
                kill_at: self.ends.kill_at.min(now + GRACE),
            });
            let next = [self.ends.term_at, self.ends.kill_at, now + LOOK_EVERY];
            let next = next.into_iter().filter(|at| *at > now).min();
            self.look_at = next.unwrap_or(now).min(now + LOOK_EVERY);
        }
        match now {
            now if now < self.ends.term_at => LeaseState::Good,
            now if now < self.ends.kill_at => LeaseState::Ending,
            _ => LeaseState::Over,
        }
    }

    /// Returns the time until the next look.
    pub(super) fn pause(&self) -> Duration {
        self.look_at.saturating_sub(clock())
    }

    /// Returns the time that processes have between TERM and KILL.
    pub(super) fn until_kill(&self) -> Duration {
        self.ends.kill_at.saturating_sub(clock())
    }
}
