//! The store against real SQLite on real files: old databases, two writers, sudden death,
//! damage, a full disk.

// Helpers here fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bundle_files;
mod bundles;
mod children;
mod crash;
mod damage;
mod disk;
mod files;
mod forks;
mod gaps;
mod golden;
mod growth;
mod heads;
mod history;
mod journal;
mod lag;
mod lists;
mod locks;
mod machines;
mod memories;
mod place;
mod purging;
mod read_only;
mod rebuilding;
mod recovery;
mod scene;
mod searching;
mod signals;
mod small_tables;
mod story;
mod tips;
mod trees;
mod waiting;
