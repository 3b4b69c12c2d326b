//! The lease of a session as a file. The supervisors of its commands and servers read it, and end
//! what they run when the lease ends. Then another machine may continue the session.
//!
//! The holder of the lease writes a new version after each good sign of life. Its times are of a
//! clock that only this machine has. It is not synced: after a power cut, it is of another boot.
//!
//! Invariant: a file that is missing, damaged or of another boot gives no lease.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Maximum size of the file, bytes.
const MAX_BYTES: u64 = 4096;

/// The file with the lease of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseFile {
    path: PathBuf,
}

/// The content of the file, as JSON.
#[derive(Serialize, Deserialize)]
struct Content {
    /// The start of the machine, as the shared log has it.
    boot: String,
    /// Time of [`clock`] when the last good sign of life was sent.
    since_ms: u64,
    lease_ms: u64,
}

/// The times, by [`clock`], at which work under a lease is ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeaseEnds {
    /// Time at which its processes get TERM: 5/6 of the lease.
    pub term_at: Duration,
    /// Time at which its processes get KILL: 9/10 of the lease.
    pub kill_at: Duration,
}

impl LeaseFile {
    pub fn at(path: impl Into<PathBuf>) -> LeaseFile {
        LeaseFile { path: path.into() }
    }

    /// Replaces the file. `since` is the time, by [`clock`], at which the sign of life was sent. Only
    /// the holder of the lease calls this.
    ///
    /// # Errors
    /// The file cannot be written. Then the last version remains.
    pub fn write(&self, boot: &str, since: Duration, lease: Duration) -> io::Result<()> {
        let content = Content {
            boot: boot.to_string(),
            since_ms: millis(since),
            lease_ms: millis(lease),
        };
        let mut new = self.path.clone().into_os_string();
        new.push(".new");
        fs::write(&new, serde_json::to_vec(&content)?)?;
        fs::rename(&new, &self.path)
    }

    /// Returns when the lease ends, or `None` if there is none.
    pub fn read(&self, boot: &str, now: Duration) -> Option<LeaseEnds> {
        let mut json = Vec::new();
        let file = File::open(&self.path).ok()?;
        file.take(MAX_BYTES).read_to_end(&mut json).ok()?;
        let content: Content = serde_json::from_slice(&json).ok()?;
        let since = Duration::from_millis(content.since_ms);
        if boot.is_empty() || content.boot != boot || since > now {
            return None;
        }
        let lease = Duration::from_millis(content.lease_ms);
        Some(LeaseEnds {
            term_at: since + lease * 5 / 6,
            kill_at: since + lease * 9 / 10,
        })
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time since the start of the machine, in which sleep counts.
pub fn clock() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    // On macOS this clock also counts the time of sleep.
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let now = rustix::time::clock_gettime(clock);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or_default(),
        u32::try_from(now.tv_nsec).unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn place() -> (tempfile::TempDir, LeaseFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = LeaseFile::at(folder.path().join("lease"));
        (folder, file)
    }

    #[test]
    fn each_version_replaces_the_one_before() {
        let (folder, file) = place();
        file.write("boot", 10 * SECOND, 30 * SECOND).unwrap();
        file.write("boot", 20 * SECOND, 30 * SECOND).unwrap();
        let ends = LeaseEnds {
            term_at: 45 * SECOND,
            kill_at: 47 * SECOND,
        };
        assert_eq!(file.read("boot", 50 * SECOND), Some(ends));
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn any_other_file_gives_no_lease() {
        let (folder, file) = place();
        let read = |boot: &str| file.read(boot, 50 * SECOND);
        assert_eq!(read("boot"), None, "it is missing");
        file.write("boot", 10 * SECOND, 30 * SECOND).unwrap();
        assert_eq!(read("other"), None);
        assert_eq!(read(""), None);
        assert_eq!(file.read("boot", 9 * SECOND), None, "it is of the future");
        file.write("", 10 * SECOND, 30 * SECOND).unwrap();
        assert_eq!(read(""), None);
        let large = format!("{}{}", " ".repeat(5000), r#"{"boot":"boot"}"#);
        for bad in ["", "{", "7", "\0\u{ff}", r#"{"boot":"boot"}"#, &large] {
            std::fs::write(folder.path().join("lease"), bad).unwrap();
            assert_eq!(read("boot"), None, "{bad}");
        }
    }

    #[test]
    fn no_time_is_too_large() {
        let (_folder, file) = place();
        file.write("boot", Duration::MAX, Duration::MAX).unwrap();
        let ends = file.read("boot", Duration::MAX).unwrap();
        assert!(ends.term_at < ends.kill_at);
    }

    #[test]
    fn the_clock_runs() {
        let before = clock();
        assert!(Duration::ZERO < before && before <= clock());
    }
}
