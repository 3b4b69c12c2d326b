//! What a person is told while a rebuild takes long: each step when it begins, and now and then how
//! far it is.

use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_secs(2);

pub(super) struct Progress<'a> {
    tell: &'a mut dyn FnMut(&str),
    step: String,
    /// When something was told last.
    told: Instant,
}

impl<'a> Progress<'a> {
    pub(super) fn new(tell: &'a mut dyn FnMut(&str)) -> Progress<'a> {
        Progress {
            tell,
            step: String::new(),
            told: Instant::now(),
        }
    }

    pub(super) fn begin(&mut self, step: &str) {
        (self.tell)(step);
        self.step = step.to_string();
        self.told = Instant::now();
    }

    /// How far the step is; it is put into words only when it is told.
    pub(super) fn so_far(&mut self, done: impl FnOnce() -> String) {
        if self.told.elapsed() >= PAUSE {
            (self.tell)(&format!("{}: {}", self.step, done()));
            self.told = Instant::now();
        }
    }
}

pub(super) fn mb(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}
