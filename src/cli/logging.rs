//! The log file: ids and sizes, never contents.
//!
//! Each start writes to the file of its day. If the log cannot be written, rewake works without it
//! and prints nothing about it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

use crate::config::{LogLevel, Paths, make_private_folder};

/// Number of days that logs are kept.
const KEPT_DAYS: usize = 14;

/// Maximum number of lines that wait to be written: 32 bytes each, allocated at the start.
const WAITING_LINES: usize = 8_192;

/// Starts logging to the file, until the guard is dropped.
pub(super) fn start(paths: &Paths, level: LogLevel) -> Option<WorkerGuard> {
    let today = jiff::Zoned::now().date();
    let file = open(&paths.state_dir.join("log"), &today.to_string()).ok()?;
    // By default lines are lost without notice when the writer is slow.
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(false)
        .buffered_lines_limit(WAITING_LINES)
        .finish(file);
    let filter = EnvFilter::try_new(format!("warn,rewake={}", level.name())).ok()?;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(false)
        // A line that cannot be written is lost: stderr is for the user.
        .log_internal_errors(false)
        .finish();
    tracing::subscriber::set_global_default(subscriber).ok()?;
    Some(guard)
}

/// Opens the file of a day, readable by its owner only, and removes old files.
fn open(folder: &Path, day: &str) -> io::Result<File> {
    make_private_folder(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(folder.join(format!("rewake.{day}.log")))?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    remove_old(folder);
    Ok(file)
}

fn remove_old(folder: &Path) {
    let is_log = |name: &String| name.starts_with("rewake.") && name.ends_with(".log");
    let mut logs: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(is_log)
        .collect();
    // The names sort by date.
    logs.sort();
    for old in logs.iter().rev().skip(KEPT_DAYS) {
        let _ = fs::remove_file(folder.join(old));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_private_and_old_ones_go() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("log");
        for day in 10..30 {
            open(&folder, &format!("2026-11-{day}")).unwrap();
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&folder.join("rewake.2026-11-29.log")), 0o600);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), KEPT_DAYS);
        assert!(!folder.join("rewake.2026-11-15.log").exists());
    }
}
