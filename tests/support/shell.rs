//! The shell that runs the commands of tests.

use std::path::{Path, PathBuf};

/// Returns the path of bash if it exists, since models write for it.
pub fn default_shell() -> PathBuf {
    const PLACES: [&str; 5] = [
        "/bin/bash",
        "/usr/bin/bash",
        "/usr/local/bin/bash",
        "/opt/homebrew/bin/bash",
        "/run/current-system/sw/bin/bash",
    ];
    PLACES
        .iter()
        .find(|place| Path::new(place).exists())
        .map_or_else(|| PathBuf::from("/bin/sh"), PathBuf::from)
}
