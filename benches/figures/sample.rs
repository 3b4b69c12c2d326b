//! Times of the same thing, again and again.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Times, in the order they were taken.
#[derive(Default)]
pub struct Times(Vec<Duration>);

impl Times {
    pub fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub fn time<T>(&mut self, what: impl FnOnce() -> T) -> T {
        let since = Instant::now();
        let result = what();
        self.push(since.elapsed());
        result
    }

    /// From each instant to the next.
    pub fn between(instants: &[Instant]) -> Times {
        Times(instants.windows(2).map(|w| w[1] - w[0]).collect())
    }

    /// The same work `rounds` times over: of each time the least. On a busy machine another
    /// process takes its turn inside any of them, and rarely inside the same one again.
    pub fn least_of(rounds: usize, mut run: impl FnMut() -> Times) -> Times {
        let mut least = run();
        for _ in 1..rounds {
            let pairs = least.0.iter_mut().zip(run().0);
            pairs.for_each(|(least, time)| *least = time.min(*least));
        }
        least
    }

    pub fn first(&self, count: usize) -> Times {
        Times(self.0[..count.min(self.0.len())].to_vec())
    }

    pub fn last(&self, count: usize) -> Times {
        Times(self.0[self.0.len().saturating_sub(count)..].to_vec())
    }

    fn at(&self, hundredth: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted[(sorted.len() - 1) * hundredth / 100]
    }

    pub fn median(&self) -> Duration {
        self.at(50)
    }

    pub fn worst_of_hundred(&self) -> Duration {
        self.at(99)
    }
}

/// The floor of everything durable: 4 KiB at the end of a file, and a sync.
pub struct RawAppend {
    file: File,
    block: [u8; 4096],
    pub times: Times,
}

impl RawAppend {
    pub fn in_folder(folder: &Path) -> RawAppend {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(folder.join("raw"))
            .expect("make the file of the floor");
        RawAppend {
            file,
            block: [7; 4096],
            times: Times::default(),
        }
    }

    pub fn once(&mut self) {
        let since = Instant::now();
        self.file.write_all(&self.block).expect("append");
        self.file.sync_data().expect("sync");
        self.times.push(since.elapsed());
    }
}

/// A process from its start to its end.
pub fn process(command: &mut Command) -> Duration {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let since = Instant::now();
    let status = command.status().expect("start a process");
    assert!(status.success(), "{command:?}: {status}");
    since.elapsed()
}

pub fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64().max(1e-9)
}

/// Processor time of this process with all its threads, in steps of a hundredth of a second.
/// Zero where it is not told.
pub fn own_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    crate::child::cpu(&stat).0
}
