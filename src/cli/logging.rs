//! The log file: ids and sizes, never contents.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::EnvFilter;

use crate::config::{LogLevel, Paths};

/// Days of logs that are kept.
const KEPT_DAYS: usize = 14;

/// Logs go to a file of the day until the guard is dropped. Without a place to log to,
/// rewake works all the same.
pub fn start(paths: &Paths, level: LogLevel) -> Option<WorkerGuard> {
    let folder = paths.state_dir.join("log");
    // The appender would make it readable by others, and complain on stderr that it is new.
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .ok()?;
    let appender = RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix("rewake")
        .filename_suffix("log")
        .max_log_files(KEPT_DAYS)
        .build(folder)
        .ok()?;
    // The default is to lose lines in silence when the writer is behind.
    let (writer, guard) = NonBlockingBuilder::default().lossy(false).finish(appender);
    let filter = EnvFilter::try_new(format!("warn,rewake={}", level.name())).ok()?;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(false)
        .finish();
    tracing::subscriber::set_global_default(subscriber).ok()?;
    Some(guard)
}
