//! The protected files of a server in a sandbox. The keeper compares them before and after each
//! call and at the end, and undoes what the server did to them.
//!
//! A server lives long, and meanwhile others work in the same folders. What was made while all
//! processes of the server slept is not the server's, and stays.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::command::confined::{MAX_CHANGES, describe, describe_mode};
use crate::sandbox::{Family, Modes, Profile, Watched};

/// File of the run folder with the changes that the agent has not read yet, one a line.
pub(super) const CHANGES: &str = "changes";
pub(super) const CHANGES_MAX_BYTES: u64 = 64 * 1024;

/// Pauses between two looks at the processes: they grow as long as the server is not called.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// Maximum number of times of sleep that are stored. What is made later counts as the server's.
const SLEEPS_MAX: usize = 1_000;

pub(super) struct ProtectedFiles {
    watched: Watched,
    modes: Modes,
    changes: PathBuf,
    /// The times in which no process of the server ran, since the last comparison.
    asleep: Vec<(SystemTime, SystemTime)>,
    /// The last result of [`Family::activity`], and since when it is the same.
    activity: Option<(Vec<u64>, SystemTime)>,
    pause: Duration,
    /// When the processes are looked at again.
    pub look_at: Instant,
}

impl ProtectedFiles {
    /// Records the protected files before the server starts.
    pub(super) fn look(profile: &Profile, run: &Path) -> ProtectedFiles {
        ProtectedFiles {
            watched: Watched::look(profile),
            modes: Modes::look(&profile.modes),
            changes: run.join(CHANGES),
            asleep: Vec::new(),
            activity: None,
            pause: FIRST_PAUSE,
            look_at: Instant::now() + FIRST_PAUSE,
        }
    }

    /// Notes whether the processes have slept since the last time.
    pub(super) fn look_at_processes(&mut self, family: Option<&Family>) {
        // What runs during the look is in no time of sleep.
        let until = SystemTime::now();
        let activity = family.and_then(Family::activity);
        match (activity, &self.activity) {
            (Some(now), Some((before, since))) if now == *before => {
                match self.asleep.last_mut().filter(|last| last.0 == *since) {
                    Some(last) => last.1 = until,
                    None => self.asleep.push((*since, until)),
                }
                self.asleep.truncate(SLEEPS_MAX);
            }
            (activity, _) => self.activity = activity.map(|now| (now, SystemTime::now())),
        }
        self.look_at = Instant::now() + self.pause;
        self.pause = LAST_PAUSE.min(self.pause * 2);
    }

    /// Undoes the changes since the last time.
    pub(super) fn compare(&mut self, family: Option<&Family>) {
        self.look_at_processes(family);
        let changes = self.watched.compare_again(&self.asleep);
        self.write_changes(changes.iter().map(describe).collect());
        self.asleep.clear();
        self.pause = FIRST_PAUSE;
        self.look_at = Instant::now() + FIRST_PAUSE;
    }

    /// Does the same when the server has ended with all its processes.
    pub(super) fn finish(&mut self) {
        self.compare(None);
        let modes = self.modes.restore();
        self.write_changes(modes.iter().map(describe_mode).collect());
    }

    fn write_changes(&self, mut changes: Vec<String>) {
        let more = changes.len().saturating_sub(MAX_CHANGES);
        changes.truncate(MAX_CHANGES);
        if more > 0 {
            changes.push(format!("{more} more"));
        }
        let lines: Vec<String> = changes
            .iter()
            .map(|c| c.replace('\n', " ") + "\n")
            .collect();
        let stored = self.changes.metadata().map_or(0, |m| m.len());
        if !lines.is_empty() && stored < CHANGES_MAX_BYTES {
            let file = File::options()
                .append(true)
                .create(true)
                .open(&self.changes);
            // They are undone, also if nobody can be told.
            let _ = file.and_then(|mut file| file.write_all(lines.concat().as_bytes()));
        }
    }
}
