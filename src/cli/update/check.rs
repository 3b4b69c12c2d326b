//! The daily update check, if the user's own config has `[update] check = true`.
//! Its answer is stored in the state folder, and shown when the screen is left.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use semver::Version;
use serde::{Deserialize, Serialize};

use super::own_version;
use super::release::ReleaseServer;

const FILE: &str = "update.json";
const MAX_BYTES: u64 = 4 * 1024;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The last answer: `{"base":"https://…","asked_ms":1700000000000,"newest":"0.2.0"}`.
#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    /// The address that was asked.
    base: String,
    /// UTC, milliseconds since 1970.
    asked_ms: i64,
    /// `None`: there was no answer yet.
    newest: Option<Version>,
}

/// Asks in the background, if it was not done in the last 24 hours. A failure is only logged.
pub fn ask_daily(server: ReleaseServer, state_dir: PathBuf, now_ms: i64) {
    let before = last(&state_dir, &server.base);
    let is_new = |asked: &Asked| (0..DAY_MS).contains(&(now_ms - asked.asked_ms));
    if before.as_ref().is_some_and(is_new) {
        return;
    }
    let ask = move || {
        let runtime = crate::net::runtime();
        let Ok(runtime) = runtime else { return };
        let found = runtime.block_on(server.release(None));
        if let Err(error) = &found {
            tracing::info!(error = error.message, "no newer version is known");
        }
        let asked = Asked {
            base: server.base,
            asked_ms: now_ms,
            newest: found
                .ok()
                .map(|release| release.version)
                .or(before.and_then(|before| before.newest)),
        };
        if let Err(error) = write(&state_dir, &asked) {
            tracing::warn!(%error, "the newest version is not stored");
        }
    };
    // The process may end before the answer: then the next one asks.
    let _ = std::thread::Builder::new()
        .name("update".to_string())
        .spawn(ask);
}

/// Returns the newest version that is known, if this program is older.
pub fn newer(base: &str, state_dir: &Path) -> Option<Version> {
    let newest = last(state_dir, base)?.newest?;
    (newest > own_version().ok()?).then_some(newest)
}

fn last(state_dir: &Path, base: &str) -> Option<Asked> {
    let file = state_dir.join(FILE);
    let found = fs::symlink_metadata(&file).ok()?;
    if !found.is_file() || found.len() > MAX_BYTES {
        return None;
    }
    let asked: Asked = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    (asked.base == base).then_some(asked)
}

fn write(state_dir: &Path, asked: &Asked) -> std::io::Result<()> {
    let mut beside = tempfile::NamedTempFile::new_in(state_dir)?;
    writeln!(beside, "{}", serde_json::to_string(asked)?)?;
    beside
        .persist(state_dir.join(FILE))
        .map(drop)
        .map_err(|e| e.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_only_for_its_address() {
        let folder = tempfile::tempdir().unwrap();
        let asked = |newest: &str| Asked {
            base: "https://a.example".to_string(),
            asked_ms: 1,
            newest: Some(Version::parse(newest).unwrap()),
        };
        let newer_of = |base: &str| newer(base, folder.path()).map(|version| version.to_string());
        assert_eq!(newer_of("https://a.example"), None);
        write(folder.path(), &asked("99.0.0")).unwrap();
        assert_eq!(newer_of("https://a.example"), Some("99.0.0".to_string()));
        assert_eq!(newer_of("https://b.example"), None);
        write(folder.path(), &asked("0.0.1")).unwrap();
        assert_eq!(newer_of("https://a.example"), None);
        fs::write(folder.path().join(FILE), "{").unwrap();
        assert_eq!(newer_of("https://a.example"), None);
    }
}
