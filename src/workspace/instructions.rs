//! The instructions for a folder: `AGENTS.md` of the user's config folder, then those from the root
//! of the workspace down to the working folder, the nearest last.
//!
//! A file that cannot be read is skipped with a warning: a broken file never stops a session.
//!
//! Invariant: the text of a workspace file comes from inside the workspace. A link that
//! leads out is not followed, or a cloned repository could send the user's own files to a
//! model.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::StartFolder;
use crate::config::{InstructionsConfig, read_text};

/// Maximum size of a file. Nobody writes a larger text for a model, so not even its head is used.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Minimum size of a part. A file of which less would fit is omitted.
const MIN_PART_BYTES: usize = 200;

const HEADING: &str = "These are the instructions of the user and of the project, each file under its path. \
Follow them. Where they disagree, the later one holds: it is nearer to the working folder.";

/// The instructions in layer 2 of every request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Instructions {
    /// Empty when there are none.
    pub text: String,
    /// The files of the text, in the same order.
    pub sources: Vec<PathBuf>,
    /// The files that were skipped or cut, one line each.
    pub warnings: Vec<String>,
}

/// Reads the instructions for `here`. Together they have at most `config.max_bytes`; if not all
/// fit, the nearest have priority.
pub fn instructions(
    here: &StartFolder,
    config_dir: &Path,
    config: &InstructionsConfig,
) -> Instructions {
    let mut found = Instructions::default();
    if config.max_bytes == 0 {
        return found;
    }
    let mut files = Vec::new();
    let mut seen = BTreeSet::new();
    let user = std::iter::once((config_dir.to_path_buf(), None));
    let chain = chain(here).into_iter().map(|dir| (dir, Some(&here.root)));
    for (dir, inside) in user.chain(chain) {
        for path in in_folder(&dir, config) {
            match read(&path, inside.map(PathBuf::as_path)) {
                Ok(file) if !seen.insert(file.canonical.clone()) => {}
                Ok(file) if file.text.is_empty() => {}
                Ok(file) => files.push(file),
                Err(why) => found.warnings.push(format!(
                    "instructions in {} are not used: {why}",
                    path.display()
                )),
            }
        }
    }
    let max_bytes = usize::try_from(config.max_bytes).unwrap_or(usize::MAX);
    render(files, max_bytes, &mut found);
    found
}

struct File {
    path: PathBuf,
    canonical: PathBuf,
    text: String,
}

/// Returns the folders from the root down to the working folder.
pub(super) fn chain(here: &StartFolder) -> Vec<PathBuf> {
    let folder = here
        .folder
        .canonicalize()
        .ok()
        .filter(|folder| folder.starts_with(&here.root))
        .unwrap_or_else(|| here.root.clone());
    let mut chain: Vec<PathBuf> = folder
        .ancestors()
        .take_while(|dir| dir.starts_with(&here.root))
        .map(Path::to_path_buf)
        .collect();
    chain.reverse();
    chain
}

/// Returns the files of one folder: all of `files`, or else the first of `fallback`. A broken link
/// counts as existing: it is reported, not ignored.
fn in_folder(dir: &Path, config: &InstructionsConfig) -> Vec<PathBuf> {
    let existing = |names: &[String]| -> Vec<PathBuf> {
        names
            .iter()
            .map(|name| dir.join(name))
            .filter(|path| path.symlink_metadata().is_ok())
            .collect()
    };
    let mut paths = existing(&config.files);
    if paths.is_empty() {
        paths = existing(&config.fallback);
        paths.truncate(1);
    }
    paths
}

fn read(path: &Path, inside: Option<&Path>) -> Result<File, String> {
    let canonical = path
        .canonicalize()
        .map_err(|e| format!("the link leads nowhere ({e})"))?;
    if inside.is_some_and(|root| !canonical.starts_with(root)) {
        return Err("it is a link that leads out of the workspace".to_string());
    }
    // The checked path is the one that is read.
    let text = read_text(&canonical, MAX_FILE_BYTES).map_err(|e| e.to_string())?;
    Ok(File {
        path: path.to_path_buf(),
        canonical,
        text: text.trim().to_string(),
    })
}

/// Renders the files in reading order. The available bytes go to the nearest file first.
fn render(files: Vec<File>, max_bytes: usize, found: &mut Instructions) {
    let mut left = max_bytes;
    let mut parts = Vec::new();
    let mut cuts = Vec::new();
    for file in files.into_iter().rev() {
        let size = file.text.len();
        let kept = fitting(&file.text, left);
        if kept == size {
            left -= size;
            parts.push(part(&file.path, &file.text, None));
            found.sources.push(file.path);
            continue;
        }
        left = 0;
        if kept < MIN_PART_BYTES {
            cuts.push(format!(
                "instructions in {} are left out: {max_bytes} bytes are allowed for all",
                file.path.display()
            ));
            parts.push(part(&file.path, "", Some((0, size))));
            continue;
        }
        cuts.push(format!(
            "instructions in {} are cut to {kept} of {size} bytes: {max_bytes} are allowed for all",
            file.path.display()
        ));
        parts.push(part(&file.path, &file.text[..kept], Some((kept, size))));
        found.sources.push(file.path);
    }
    if parts.is_empty() {
        return;
    }
    parts.push(HEADING.to_string());
    parts.reverse();
    cuts.reverse();
    found.text = parts.join("\n\n");
    found.sources.reverse();
    found.warnings.append(&mut cuts);
}

/// Returns the length of the longest head of at most `max_bytes`.
fn fitting(text: &str, max_bytes: usize) -> usize {
    (0..=max_bytes.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

/// Renders one file. The path is quoted, so that a name with a line break cannot imitate a heading.
fn part(path: &Path, text: &str, cut: Option<(usize, usize)>) -> String {
    let path = path.to_string_lossy();
    match cut {
        None => format!("<file path={path:?}>\n{text}\n</file>"),
        Some((0, size)) => format!("<file path={path:?}>\n[left out: {size} bytes]\n</file>"),
        Some((kept, size)) => {
            format!("<file path={path:?}>\n{text}\n[cut: {kept} of {size} bytes]\n</file>")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::here;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A user's folder `user` and a repository `root` with the folders `a/b`.
    struct Fixture {
        _dir: tempfile::TempDir,
        path: PathBuf,
        config: InstructionsConfig,
    }

    impl Fixture {
        fn new() -> Fixture {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().canonicalize().unwrap();
            fs::create_dir_all(path.join("user")).unwrap();
            fs::create_dir_all(path.join("root/.git")).unwrap();
            fs::write(path.join("root/.git/HEAD"), "").unwrap();
            fs::create_dir_all(path.join("root/a/b")).unwrap();
            Fixture {
                _dir: dir,
                path,
                config: InstructionsConfig::default(),
            }
        }

        fn write(self, name: &str, text: impl AsRef<[u8]>) -> Fixture {
            fs::write(self.path.join(name), text).unwrap();
            self
        }

        fn link(self, name: &str, to: &str) -> Fixture {
            symlink(self.path.join(to), self.path.join(name)).unwrap();
            self
        }

        fn max_bytes(mut self, max_bytes: u64) -> Fixture {
            self.config.max_bytes = max_bytes;
            self
        }

        /// Returns the instructions for `root/a/b`, without the temporary folder.
        fn read(&self) -> Instructions {
            let here = here(&self.path.join("root/a/b")).unwrap();
            let read = instructions(&here, &self.path.join("user"), &self.config);
            let short = |text: &str| text.replace(&format!("{}/", self.path.display()), "");
            Instructions {
                text: short(&read.text),
                sources: read
                    .sources
                    .iter()
                    .map(|s| short(&s.to_string_lossy()).into())
                    .collect(),
                warnings: read.warnings.iter().map(|w| short(w)).collect(),
            }
        }

        fn sources(&self) -> Vec<String> {
            let sources = self.read().sources;
            sources.iter().map(|s| s.display().to_string()).collect()
        }
    }

    #[test]
    fn the_nearest_comes_last() {
        let f = Fixture::new()
            .write("user/AGENTS.md", "mine\n")
            .write("root/AGENTS.md", "root")
            .write("root/a/b/AGENTS.md", "b")
            .write("AGENTS.md", "above the root");
        let read = f.read();
        assert_eq!(
            read.text,
            format!(
                "{HEADING}\n\n<file path=\"user/AGENTS.md\">\nmine\n</file>\n\n\
                 <file path=\"root/AGENTS.md\">\nroot\n</file>\n\n\
                 <file path=\"root/a/b/AGENTS.md\">\nb\n</file>"
            )
        );
        assert_eq!(
            f.sources(),
            ["user/AGENTS.md", "root/AGENTS.md", "root/a/b/AGENTS.md"]
        );
        assert!(read.warnings.is_empty());
    }

    #[test]
    fn claude_md_is_used_where_agents_md_is_missing() {
        let f = Fixture::new()
            .write("root/AGENTS.md", "x")
            .write("root/CLAUDE.md", "not this")
            .write("root/a/CLAUDE.md", "y");
        assert_eq!(f.sources(), ["root/AGENTS.md", "root/a/CLAUDE.md"]);
    }

    #[test]
    fn all_files_count_but_only_the_first_fallback() {
        let mut f = Fixture::new()
            .write("root/A.md", "a")
            .write("root/B.md", "b")
            .write("root/a/C.md", "c")
            .write("root/a/D.md", "d");
        let names = |names: [&str; 2]| names.map(str::to_string).to_vec();
        f.config.files = names(["A.md", "B.md"]);
        f.config.fallback = names(["C.md", "D.md"]);
        assert_eq!(f.sources(), ["root/A.md", "root/B.md", "root/a/C.md"]);
    }

    #[test]
    fn blank_instruction_files_give_no_text() {
        let f = Fixture::new().write("root/AGENTS.md", " \n");
        assert_eq!(f.read(), Instructions::default());
    }

    #[test]
    fn the_nearest_instructions_win_when_space_is_short() {
        let f = Fixture::new()
            .write("user/AGENTS.md", "u".repeat(50))
            .write("root/AGENTS.md", "ä".repeat(300))
            .write("root/a/b/AGENTS.md", "b".repeat(700))
            .max_bytes(1_001);
        let read = f.read();
        assert!(read.text.contains(&"b".repeat(700)));
        assert!(
            read.text
                .contains(&format!("\n{}\n[cut: 300 of 600 bytes]", "ä".repeat(150)))
        );
        assert!(
            read.text
                .contains("<file path=\"user/AGENTS.md\">\n[left out: 50 bytes]")
        );
        assert_eq!(f.sources(), ["root/AGENTS.md", "root/a/b/AGENTS.md"]);
        assert_eq!(
            read.warnings,
            [
                "instructions in user/AGENTS.md are left out: 1001 bytes are allowed for all",
                "instructions in root/AGENTS.md are cut to 300 of 600 bytes: 1001 are allowed for all",
            ]
        );
    }

    #[test]
    fn instructions_can_be_turned_off() {
        let f = Fixture::new().write("root/AGENTS.md", "x").max_bytes(0);
        assert_eq!(f.read(), Instructions::default());
    }

    #[test]
    fn unreadable_instructions_are_named_and_skipped() {
        let f = Fixture::new()
            .write("secret", "key")
            .write("user/AGENTS.md", b"\xff\xfe")
            .link("root/AGENTS.md", "secret")
            .write("root/a/AGENTS.md", "x".repeat(1024 * 1024 + 1))
            .link("root/a/b/AGENTS.md", "root/none");
        let read = f.read();
        assert_eq!(read.text, "");
        let warnings = [
            "instructions in user/AGENTS.md are not used: it is not UTF-8 text",
            "instructions in root/AGENTS.md are not used: it is a link that leads out of the workspace",
            "instructions in root/a/AGENTS.md are not used: it is larger than 1048576 bytes",
            "instructions in root/a/b/AGENTS.md are not used: the link leads nowhere",
        ];
        for (got, want) in read.warnings.iter().zip(warnings) {
            assert!(got.starts_with(want), "{got}");
        }
        assert_eq!(read.warnings.len(), warnings.len());
    }

    #[test]
    fn instructions_that_are_not_a_regular_file_cause_a_warning() {
        let f = Fixture::new();
        fs::create_dir(f.path.join("root/AGENTS.md")).unwrap();
        let pipe = f.path.join("root/a/AGENTS.md");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let read = f.read();
        assert_eq!(read.warnings.len(), 2);
        assert!(
            read.warnings
                .iter()
                .all(|w| w.ends_with("not a regular file"))
        );
    }

    #[test]
    fn a_file_reached_twice_is_read_once() {
        let f = Fixture::new()
            .write("root/AGENTS.md", "x")
            .link("root/a/AGENTS.md", "root/AGENTS.md")
            .link("user/AGENTS.md", "root/AGENTS.md");
        // The user's own links may lead anywhere.
        assert_eq!(f.sources(), ["user/AGENTS.md"]);
    }
}
