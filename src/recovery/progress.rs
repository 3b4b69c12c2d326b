//! Progress messages of a long rebuild: one at the start of each step, and one every few seconds.

use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_secs(2);

pub(super) struct Progress<'a> {
    tell: &'a mut dyn FnMut(&str),
    step: String,
    /// When the last message was sent.
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

    /// Reports the progress of the step. `done` is called only when a message is due.
    pub(super) fn so_far(&mut self, done: impl FnOnce() -> String) {
        if self.told.elapsed() >= PAUSE {
            (self.tell)(&format!("{}: {}", self.step, done()));
            self.told = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_it_is_is_told_now_and_then() {
        let mut said = Vec::new();
        let mut tell = |words: &str| said.push(words.to_string());
        let mut progress = Progress::new(&mut tell);
        progress.begin("reading");
        // In the future, so that no message is due even on a slow machine.
        progress.told += Duration::from_secs(3_600);
        progress.so_far(|| unreachable!());
        progress.told = Instant::now().checked_sub(PAUSE).unwrap();
        progress.so_far(|| "70 lines".to_string());
        assert_eq!(said, ["reading", "reading: 70 lines"]);
    }
}
