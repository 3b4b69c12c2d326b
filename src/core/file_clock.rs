//! Times of files, compared with times of records: a file system may have another clock than the
//! machine (NFS, CIFS, folders of virtual machines), and clocks are set.
//!
//! Records have times of the machine. The difference of the two clocks is measured, and stored with
//! snapshots. Where it changed, or cannot be measured, the order of a change and a record is unknown.

use serde::{Deserialize, Serialize};

/// Tolerance for the end of a command: it may end a little later than recorded, and the clock of a
/// file system is coarse.
const SLACK_MS: i64 = 500;

/// Difference between two measurements from which a clock was set.
const SET_MS: i64 = 1_000;

/// The same for the time at which the machine was started, of which some systems know only the
/// second.
const SET_BACK_MS: i64 = 2_000;

/// A measurement of the clock of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileClock {
    /// Milliseconds by which it is ahead of the machine's clock.
    pub ahead_ms: i64,
    /// When the machine was started, by its own clock: UTC, milliseconds since 1970. It decreases
    /// when that clock is set back. `None`: the system does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booted_ms: Option<i64>,
}

/// The time of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileTime {
    /// When the file last changed, by the clock of its file system: milliseconds since 1970.
    pub changed_ms: i64,
    /// The clock of its file system, measured now. `None`: it cannot be measured.
    pub clock: Option<FileClock>,
    /// Whether the file is on the file system of the workspace's root.
    pub is_in_root: bool,
}

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandEnd {
    /// UTC, milliseconds since 1970, by the clock of the machine.
    pub at_ms: i64,
    /// The clock of the root's file system at the last snapshot before. Logs of older versions have
    /// none.
    pub clock: Option<FileClock>,
}

impl CommandEnd {
    /// Returns whether the command may have made the last change of a file: it is known that the
    /// file did not change after the command ended.
    pub fn may_have_changed(&self, file: &FileTime) -> bool {
        let Some(now) = file.clock else {
            return false;
        };
        if self
            .clock
            .is_some_and(|then| was_set(then, now, file.is_in_root))
        {
            return false;
        }
        let ended = self.at_ms.saturating_add(now.ahead_ms);
        file.changed_ms <= ended.saturating_add(SLACK_MS)
    }
}

/// Returns whether a clock was set between two measurements, in a way that can hide the order.
fn was_set(then: FileClock, now: FileClock, is_same: bool) -> bool {
    let set_back = match (then.booted_ms, now.booted_ms) {
        (Some(then), Some(now)) => now < then.saturating_sub(SET_BACK_MS),
        _ => false,
    };
    set_back || (is_same && then.ahead_ms.abs_diff(now.ahead_ms) > SET_MS.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(ahead_ms: i64, booted_ms: i64) -> FileClock {
        FileClock {
            ahead_ms,
            booted_ms: Some(booted_ms),
        }
    }

    #[test]
    fn a_change_is_compared_with_the_end_on_the_clock_of_its_file_system() {
        let ended = |clock| CommandEnd {
            at_ms: 100_000,
            clock,
        };
        let file = |changed_ms, clock| FileTime {
            changed_ms,
            clock,
            is_in_root: true,
        };
        for ahead in [-30_000, -2_000, 0, 2_000, 30_000] {
            let now = Some(clock(ahead, 5));
            for then in [now, None] {
                let end = ended(then);
                assert!(end.may_have_changed(&file(100_000 + ahead, now)), "{ahead}");
                assert!(
                    !end.may_have_changed(&file(101_000 + ahead, now)),
                    "{ahead}"
                );
            }
        }
        let early = |clock| file(0, clock);
        // Not measured, or set since: the order is unknown.
        assert!(!ended(None).may_have_changed(&early(None)));
        let then = Some(clock(0, 50_000));
        assert!(ended(then).may_have_changed(&early(Some(clock(900, 49_000)))));
        for now in [
            clock(-5_000, 50_000),
            clock(5_000, 50_000),
            clock(0, 40_000),
        ] {
            assert!(!ended(then).may_have_changed(&early(Some(now))), "{now:?}");
        }
        // A restart of the machine sets nothing back.
        assert!(ended(then).may_have_changed(&early(Some(clock(0, 90_000)))));
        // Of another file system, nothing was recorded.
        let elsewhere = FileTime {
            is_in_root: false,
            ..file(95_000, Some(clock(-5_000, 50_000)))
        };
        assert!(ended(then).may_have_changed(&elsewhere));
    }
}
