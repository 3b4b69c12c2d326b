//! How far a tool may look: until it is cancelled, or has used up its time, paths or bytes.
//!
//! What a folder holds is not the user's doing: a clone may have any number of files, of any
//! size. So whatever goes through folders or files asks a [`Watch`] as it goes, and says in
//! its result where it stopped.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub time: Duration,
    /// Paths looked at.
    pub paths: u64,
    /// Bytes read from files.
    pub bytes: u64,
}

impl Limits {
    /// Of `read`, `grep` and `glob`.
    pub const TOOL: Limits = Limits {
        time: Duration::from_secs(30),
        paths: 2_000_000,
        bytes: 8 << 30,
    };

    /// Of the screen's list of files: it is wanted while one types.
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

/// Why a tool did not look further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The user stopped it.
    Cancelled,
    /// So much time was over.
    Time(Duration),
    /// So many paths were looked at.
    Paths(u64),
    Bytes(u64),
}

impl Stop {
    /// After "stopped".
    pub fn words(self) -> String {
        match self {
            Stop::Cancelled => "by the user".to_string(),
            Stop::Time(limit) => format!("after {} s", limit.as_secs_f64()),
            Stop::Paths(limit) => format!("after {limit} paths"),
            Stop::Bytes(limit) => format!("after {limit} bytes"),
        }
    }
}

/// What is left of the limits of one call.
#[derive(Debug)]
pub struct Watch<'a> {
    limits: Limits,
    began: Instant,
    cancel: &'a AtomicBool,
    paths: Cell<u64>,
    bytes: Cell<u64>,
}

impl<'a> Watch<'a> {
    /// Begins to count: the time runs from here. `cancel` ends the look when it is set.
    pub fn new(limits: Limits, cancel: &'a AtomicBool) -> Watch<'a> {
        Watch {
            limits,
            began: Instant::now(),
            cancel,
            paths: Cell::new(0),
            bytes: Cell::new(0),
        }
    }

    /// One more path is looked at.
    pub fn path(&self) {
        self.paths.set(self.paths.get().saturating_add(1));
    }

    /// So many more bytes were read.
    pub fn read(&self, bytes: usize) {
        self.bytes
            .set(self.bytes.get().saturating_add(bytes as u64));
    }

    /// Why to stop now; `None` to go on.
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
