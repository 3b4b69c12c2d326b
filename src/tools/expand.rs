//! Expansion of a pattern such as `src/*.rs` to the paths that a shell may make of it.
//!
//! Invariant: every name that bash or a POSIX shell would give is among the answers. Of a
//! part with `*`, `?` or `[` only the certain beginning and end are compared: what is
//! between them differs with the shell and the locale (`[!x]`, `[^x]`, `[a-z]`, quotes that
//! the pattern no longer shows). Names that begin with a dot need a dot in the pattern,
//! as in every shell whose user has not turned on `dotglob`.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const MAX_FOUND: usize = 500;
const MAX_LISTED: usize = 10_000;

/// Maximum length of a pattern in bytes. Every path of a system is shorter.
const MAX_PATTERN_BYTES: usize = 4_096;

/// Returns the existing paths that `pattern` may name in an absolute folder. An error says why they
/// cannot be found out.
pub fn matches(folder: &str, pattern: &str) -> Result<Vec<String>, String> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(format!("it has over {MAX_PATTERN_BYTES} bytes"));
    }
    let mut listed = 0;
    let mut found = vec![PathBuf::from(folder)];
    for part in pattern.split('/').filter(|p| !p.is_empty() && *p != ".") {
        if !part.contains(['*', '?', '[']) {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        }
        let mut next = Vec::new();
        for path in &found {
            listed += list(path, part, &mut next)?;
            if listed > MAX_LISTED || next.len() > MAX_FOUND {
                return Err("there are too many files".to_string());
            }
        }
        found = next;
    }
    found.retain(|path| path.symlink_metadata().is_ok());
    let text = |path: PathBuf| path.into_os_string().into_string();
    let texts: Result<Vec<String>, _> = found.into_iter().map(text).collect();
    texts.map_err(|_| "a name is no text".to_string())
}

/// Adds the paths of a folder that may match, and returns how many names were compared.
fn list(folder: &Path, part: &str, found: &mut Vec<PathBuf>) -> Result<usize, String> {
    let (start, end) = certain(part);
    let may_match = |name: &[u8]| {
        name.starts_with(start.as_bytes())
            && name.ends_with(end.as_bytes())
            && (name.starts_with(b".") == part.starts_with('.'))
    };
    // Older shells expand `.*` to these two as well.
    let up = [".", ".."].into_iter().filter(|n| may_match(n.as_bytes()));
    found.extend(up.map(|name| folder.join(name)));
    // A shell that cannot list a folder finds nothing in it either.
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(0);
    };
    let mut listed = 0;
    for entry in entries.take(MAX_LISTED + 1) {
        let entry = entry.map_err(|e| format!("cannot list {}: {e}", folder.display()))?;
        listed += 1;
        if may_match(entry.file_name().as_bytes()) {
            found.push(entry.path());
        }
    }
    Ok(listed)
}

/// Returns the literal beginning and end of a part. Characters outside of ASCII count as uncertain:
/// some file systems have two spellings of one letter.
fn certain(part: &str) -> (&str, &str) {
    let is_unsure = |c: char| matches!(c, '*' | '?' | '[' | ']') || !c.is_ascii();
    let start = part.split(is_unsure).next().unwrap_or_default();
    let end = part.rsplit(is_unsure).next().unwrap_or_default();
    (start, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::path::clean;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        folder
    }

    fn found(folder: &tempfile::TempDir, pattern: &str) -> Vec<String> {
        let root = folder.path().to_str().unwrap();
        let mut names: Vec<String> = matches(root, pattern)
            .unwrap()
            .iter()
            .map(|path| path[root.len() + 1..].to_string())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn every_name_that_a_shell_gives_is_found() {
        let names = [
            "a.rs", "b.rs", "-x.rs", "[a]", "a]b", "aXb", "A.RS", "é.rs", "x y", "s/a.rs",
            "s/t/b.rs", ".h/a.rs", ".hidden", "..x", "q\\r", "-", "--", "n\nl",
        ];
        let folder = folder(&names);
        let root = folder.path().to_str().unwrap();
        symlink("s", folder.path().join("link")).unwrap();
        symlink("nowhere", folder.path().join("dangling.rs")).unwrap();
        for pattern in [
            "*",
            "*.rs",
            "?.rs",
            "[ab].rs",
            "[!a].rs",
            "[^a].rs",
            "[a-z]*",
            "[[]a]",
            "[a]",
            "a[]]b",
            "a?b",
            "s/*",
            "*/*",
            "*/a.rs",
            "**/*.rs",
            ".*",
            ".h*/a.rs",
            "..*",
            "link/*",
            "'a'*",
            "\"-\"*",
            "q\\\\*",
            "d*",
            "[a",
            "x*y",
            "é*",
            "*é*",
            "[é]*",
            "./*",
            ".//*",
            "s/../*.rs",
            "-*",
            "[-]*",
            "n*",
            "*]",
            "[]",
            "[x",
            "*[x*",
        ] {
            for shell in ["bash", "dash", "sh"] {
                let line = format!("for f in {pattern}; do printf '%s\\0' \"$f\"; done");
                let Ok(run) = Command::new(shell)
                    .args(["-c", &line])
                    .current_dir(folder.path())
                    .output()
                else {
                    continue;
                };
                let given = String::from_utf8(run.stdout).unwrap();
                let pattern = pattern.replace(['\'', '"'], "").replace("\\\\", "\\");
                let ours = matches(root, &pattern).unwrap();
                let ours: Vec<String> = ours.iter().map(|path| clean(path)).collect();
                let given = given.split('\0').filter(|n| !n.is_empty() && *n != pattern);
                for name in given.map(|name| clean(&format!("{root}/{name}"))) {
                    assert!(
                        ours.contains(&name),
                        "{shell} {pattern}: {name} is not in {ours:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_pattern_expands_only_to_matching_names() {
        let folder = folder(&["a.rs", "b.txt", ".env", "s/c.rs"]);
        assert_eq!(found(&folder, "*.rs"), ["a.rs"]);
        assert_eq!(found(&folder, "*"), ["a.rs", "b.txt", "s"]);
        assert_eq!(found(&folder, "*/c.rs"), ["s/c.rs"]);
        assert_eq!(found(&folder, "x*"), [""; 0]);
    }

    #[test]
    fn too_many_files_are_not_known() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..=MAX_FOUND {
            fs::write(folder.path().join(format!("f{number}")), "").unwrap();
        }
        let root = folder.path().to_str().unwrap();
        assert!(matches(root, "f*").unwrap_err().contains("too many"));
        assert!(matches(root, "f1*").is_ok());
    }
}
