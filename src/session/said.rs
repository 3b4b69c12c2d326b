//! Notices that a user sees only once, and not at every start. A file in the state folder has the
//! hash of each notice.
//!
//! If that file cannot be read or written, the start continues and the notice appears again.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

/// Maximum number of remembered notices. The oldest are dropped first.
const MAX_REMEMBERED: usize = 200;
/// Maximum size of the file. A larger one is not ours.
const MAX_BYTES: u64 = 64 * 1024;

const FILE: &str = "said";

/// Returns the notice if it was not shown before, and remembers it as shown.
pub(super) fn once(state_dir: &Path, notice: String) -> Option<String> {
    let hash = blake3::hash(notice.as_bytes()).to_hex();
    let hash = &hash[..32];
    let file = state_dir.join(FILE);
    let before = read(&file).unwrap_or_default();
    let mut known: Vec<&str> = before.lines().collect();
    if known.contains(&hash) {
        return None;
    }
    known.push(hash);
    let first = known.len().saturating_sub(MAX_REMEMBERED);
    if let Err(error) = replace(state_dir, &file, &known[first..].join("\n")) {
        tracing::warn!(%error, ?file, "what was said is not remembered");
    }
    Some(notice)
}

fn read(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    // Opening anything but a regular file may block for ever.
    if fs::metadata(file)?.is_file() {
        fs::File::open(file)?
            .take(MAX_BYTES)
            .read_to_string(&mut text)?;
    }
    Ok(text)
}

fn replace(folder: &Path, file: &Path, text: &str) -> io::Result<()> {
    let mut beside = tempfile::NamedTempFile::new_in(folder)?;
    writeln!(beside, "{text}")?;
    beside.persist(file).map(drop).map_err(|e| e.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_notice_is_shown_only_once() {
        let folder = tempfile::tempdir().unwrap();
        let say = |notice: &str| once(folder.path(), notice.to_string()).is_some();
        assert_eq!(
            [say("a"), say("b"), say("a"), say("b")],
            [true, true, false, false]
        );
        for n in 0..MAX_REMEMBERED {
            assert!(say(&n.to_string()));
        }
        let kept = fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert_eq!(kept.lines().count(), MAX_REMEMBERED);
        assert!(say("a"), "it was too long ago");
    }

    #[test]
    fn a_notice_that_cannot_be_remembered_is_shown_again() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(FILE)).unwrap();
        for _ in 0..2 {
            assert!(once(folder.path(), "a".into()).is_some());
        }
    }
}
