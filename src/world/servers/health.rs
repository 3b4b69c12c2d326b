//! The delay before a server that ended is started again. It grows each time, so that a server that
//! cannot run costs little.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Age up to which the ends of a server count.
const COUNTED: Duration = Duration::from_secs(600);

/// Number of ends after which a person is told that the server is down.
const DOWN_AT: usize = 5;

const LONGEST: Duration = Duration::from_secs(60);

/// The recent ends of one server.
#[derive(Debug, Default)]
pub(super) struct Health {
    ends: VecDeque<Instant>,
    why: String,
    is_said: bool,
}

impl Health {
    /// Records that the server ended, or could not be started.
    pub(super) fn ended(&mut self, now: Instant, why: String) {
        self.ends.push_back(now);
        self.why = why;
        self.forget_old(now);
        if self.ends.len() < DOWN_AT {
            self.is_said = false;
        }
    }

    /// Returns how long to wait before the next start: after the first end one second, then two,
    /// four, ….
    pub(super) fn wait(&self, now: Instant) -> Duration {
        let counted = self.ends.iter().filter(|at| now - **at < COUNTED).count();
        let (Some(last), Some(doublings)) = (self.ends.back(), counted.checked_sub(1)) else {
            return Duration::ZERO;
        };
        let pause = Duration::from_secs(1 << doublings.min(6)).min(LONGEST);
        (*last + pause).saturating_duration_since(now)
    }

    pub(super) fn why(&self) -> &str {
        &self.why
    }

    /// Returns, once, the message for a person that the server is down.
    pub(super) fn take_trouble(&mut self) -> Option<String> {
        if self.ends.len() < DOWN_AT || self.is_said {
            return None;
        }
        self.is_said = true;
        Some(format!(
            "it ended {} times within ten minutes and is started at most once a minute: {}",
            self.ends.len(),
            self.why
        ))
    }

    fn forget_old(&mut self, now: Instant) {
        while self.ends.front().is_some_and(|at| now - *at >= COUNTED) {
            self.ends.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_waits_longer_and_a_person_is_told_once() {
        let mut health = Health::default();
        let mut now = Instant::now();
        assert_eq!(health.wait(now), Duration::ZERO);
        for (end, pause) in [1, 2, 4, 8, 16, 32, 60, 60].into_iter().enumerate() {
            health.ended(now, format!("reason {end}"));
            assert_eq!(health.wait(now), Duration::from_secs(pause), "end {end}");
            assert_eq!(health.take_trouble().is_some(), end == 4, "end {end}");
            now += Duration::from_secs(pause);
            assert_eq!(health.wait(now), Duration::ZERO);
        }
        assert_eq!(health.why(), "reason 7");
    }

    #[test]
    fn old_failures_do_not_count() {
        let mut health = Health::default();
        let first = Instant::now();
        for _ in 0..5 {
            health.ended(first, String::new());
        }
        assert!(health.take_trouble().is_some());
        let later = first + COUNTED;
        assert_eq!(health.wait(later), Duration::ZERO);
        health.ended(later, String::new());
        assert_eq!(health.wait(later), Duration::from_secs(1));
        assert_eq!(health.take_trouble(), None);
        for _ in 0..4 {
            health.ended(later, String::new());
        }
        assert!(health.take_trouble().is_some());
    }
}
