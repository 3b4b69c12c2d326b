//! Limits on the files that a tool may visit: cancellation, time, paths and bytes.
//!
//! A cloned repository may have any number of files of any size. So all code that visits folders or
//! reads files asks a [`Watch`] on the way, and its result says where it stopped.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Limits of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub time: Duration,
    /// Maximum number of paths that one call may visit.
    pub paths: u64,
    /// Maximum number of bytes that one call may read from files.
    pub bytes: u64,
}

impl Limits {
    /// Limits of `read`, `grep` and `glob`.
    pub const TOOL: Limits = Limits {
        time: Duration::from_secs(30),
        paths: 2_000_000,
        bytes: 8 << 30,
    };

    /// Limits of the screen's list of files, which must appear while the user types.
    pub const SCREEN: Limits = Limits {
        time: Duration::from_secs(10),
        paths: 500_000,
        bytes: 0,
    };
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::TOOL
    }
}

/// The reason why a tool stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The user stopped the tool.
    Cancelled,
    /// The time limit, which was reached.
    Time(Duration),
    /// The limit of visited paths, which was reached.
    Paths(u64),
    Bytes(u64),
}

impl Stop {
    /// Returns the words that follow "stopped" in a result.
    pub fn words(self) -> String {
        match self {
            Stop::Cancelled => "by the user".to_string(),
            Stop::Time(limit) => format!("after {} s", limit.as_secs_f64()),
            Stop::Paths(limit) => format!("after {limit} paths"),
            Stop::Bytes(limit) => format!("after {limit} bytes"),
        }
    }
}

/// The limits of one call, and how much of them it has used.
#[derive(Debug)]
pub struct Watch<'a> {
    limits: Limits,
    began: Instant,
    cancel: &'a AtomicBool,
    paths: Cell<u64>,
    bytes: Cell<u64>,
}

impl<'a> Watch<'a> {
    /// Starts the clock and the counters. The call must stop when `cancel` is set.
    pub fn new(limits: Limits, cancel: &'a AtomicBool) -> Watch<'a> {
        Watch {
            limits,
            began: Instant::now(),
            cancel,
            paths: Cell::new(0),
            bytes: Cell::new(0),
        }
    }

    /// Counts a path that is visited.
    pub fn path(&self) {
        self.paths.set(self.paths.get().saturating_add(1));
    }

    /// Counts bytes that were read.
    pub fn read(&self, bytes: usize) {
        self.bytes
            .set(self.bytes.get().saturating_add(bytes as u64));
    }

    /// Returns the reason to stop now, or `None` to continue.
    pub fn stop(&self) -> Option<Stop> {
        let Limits { time, paths, bytes } = self.limits;
        if self.cancel.load(Ordering::Relaxed) {
            Some(Stop::Cancelled)
        } else if self.paths.get() > paths {
            Some(Stop::Paths(paths))
        } else if self.bytes.get() > bytes {
            Some(Stop::Bytes(bytes))
        } else if self.began.elapsed() >= time {
            Some(Stop::Time(time))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_used_up_stops_it() {
        let (on, off) = (AtomicBool::new(false), AtomicBool::new(true));
        let limits = Limits {
            paths: 2,
            bytes: 10,
            ..Limits::TOOL
        };
        assert_eq!(Watch::new(limits, &off).stop(), Some(Stop::Cancelled));
        let watch = Watch::new(limits, &on);
        watch.path();
        watch.path();
        watch.read(10);
        assert_eq!(watch.stop(), None);
        watch.read(usize::MAX);
        assert_eq!(watch.stop(), Some(Stop::Bytes(10)));
        watch.path();
        assert_eq!(watch.stop(), Some(Stop::Paths(2)));
        let limits = Limits {
            time: Duration::ZERO,
            ..limits
        };
        let stop = Watch::new(limits, &on).stop();
        assert_eq!(stop.map(Stop::words).as_deref(), Some("after 0 s"));
    }
}
