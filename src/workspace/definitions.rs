//! The search for Markdown files that define a skill, a custom command or an agent.
//!
//! The user's config folder comes first, then the folders of the workspace, the nearest first. Of
//! two definitions with one name the first counts, so a repository cannot replace the user's own.
//!
//! Invariant: a definition of the workspace lies inside the workspace. A link that leads out is
//! not followed. However many files there are, the search ends, and it reads each file once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::StartFolder;
use super::instructions::chain;
use crate::config::read_text;
use crate::core::custom::check_name;
use crate::core::visible::visible;

/// Maximum number of names of files and folders that one search lists.
const MAX_NAMES: usize = 20_000;
/// Maximum number of files that one search reads, including malformed ones.
pub(super) const MAX_READ: usize = 1_000;
pub(super) const MAX_DEPTH: usize = 8;
/// Maximum number of warnings; further ones are only counted.
pub(super) const MAX_WARNINGS: usize = 20;

/// A kind of definition, and where its files are.
pub(super) struct DefinitionKind {
    /// The word for it in warnings.
    pub noun: &'static str,
    /// Its folder in the user's config folder.
    pub of_user: &'static str,
    /// Its folders in each folder from the root of the workspace down to here.
    pub of_workspace: &'static [&'static str],
    pub layout: Layout,
    pub max_found: usize,
    pub max_file_bytes: u64,
}

/// The layout of the files below a folder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// `NAME/FILE`, with this file.
    Folders(&'static str),
    /// `NAME.md`.
    Files,
    /// `NAME.md` at any depth: `git:commit` is `git/commit.md`.
    Tree,
}

/// A file that was read.
pub(super) struct DefinitionFile<'a> {
    pub path: &'a Path,
    /// Its name without `.md`, or that of its folder.
    pub stem: &'a str,
    /// The stem after the folders above it: `git:commit`.
    pub name: String,
    /// Its path from the root of the workspace. `None`: it is the user's own.
    pub of_workspace: Option<String>,
    pub text: String,
}

impl DefinitionFile<'_> {
    /// Returns blake3 of the text in hex.
    pub(super) fn hash(&self) -> String {
        blake3::hash(self.text.as_bytes()).to_hex().to_string()
    }
}

/// Definitions of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definitions<T> {
    pub found: Vec<T>,
    /// A line for each file that was skipped.
    pub warnings: Vec<String>,
}

impl<T> Default for Definitions<T> {
    fn default() -> Definitions<T> {
        Definitions {
            found: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// The reader of one file: its definition, and the name as warnings show it.
type Define<'a, T> = dyn Fn(DefinitionFile<'_>) -> Result<(String, T), String> + 'a;

/// Returns all definitions for `here`; without it only those of the user.
pub(super) fn definitions<T>(
    kind: &DefinitionKind,
    config_dir: &Path,
    here: Option<&StartFolder>,
    define: &Define<'_, T>,
) -> Definitions<T> {
    let mut search = Search {
        kind,
        define,
        definitions: Definitions::default(),
        names: BTreeSet::new(),
        seen: BTreeSet::new(),
        listed: 0,
        read: 0,
        left_out: 0,
    };
    search.folder(&config_dir.join(kind.of_user), None, "", 0);
    if let Some(here) = here {
        for dir in chain(here).into_iter().rev() {
            for name in kind.of_workspace {
                search.folder(&dir.join(name), Some(&here.root), "", 0);
            }
        }
    }
    search.done()
}

struct Search<'a, T> {
    kind: &'a DefinitionKind,
    define: &'a Define<'a, T>,
    definitions: Definitions<T>,
    names: BTreeSet<String>,
    /// Real paths: a file or folder that is reached twice counts once.
    seen: BTreeSet<PathBuf>,
    listed: usize,
    read: usize,
    /// Number of warnings above the limit.
    left_out: usize,
}

impl<T> Search<'_, T> {
    /// Searches a folder. `inside`: links may not lead out of this folder. `before`: the names of
    /// the folders above.
    fn folder(&mut self, folder: &Path, inside: Option<&Path>, before: &str, depth: usize) {
        let Ok(canonical) = folder.canonicalize() else {
            return;
        };
        if inside.is_some_and(|root| !canonical.starts_with(root)) {
            return self.skip(folder, "it is a link that leads out of the workspace");
        }
        let Ok(entries) = canonical.read_dir() else {
            return;
        };
        if !self.seen.insert(canonical) {
            return;
        }
        let room = MAX_NAMES - self.listed;
        let entries = entries.take(room + 1).flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        if names.len() > room {
            self.listed = MAX_NAMES;
            return self.skip(folder, &format!("there are more than {MAX_NAMES} files"));
        }
        self.listed += names.len();
        names.sort();
        for name in names {
            let path = folder.join(&name);
            let Some(text) = name.to_str() else {
                self.skip(&path, "its name is not UTF-8");
                continue;
            };
            if text.starts_with('.') {
                continue;
            }
            match self.kind.layout {
                Layout::Folders(file) => {
                    let file = path.join(file);
                    if file.symlink_metadata().is_ok() {
                        self.file(&file, inside, before, text);
                    }
                }
                Layout::Tree if path.is_dir() => {
                    if let Err(why) = check_name(text) {
                        self.skip(&path, &why);
                    } else if depth == MAX_DEPTH {
                        self.skip(&path, &format!("it lies below {MAX_DEPTH} folders"));
                    } else {
                        self.folder(&path, inside, &format!("{before}{text}:"), depth + 1);
                    }
                }
                Layout::Files | Layout::Tree => {
                    if let Some(stem) = text.strip_suffix(".md") {
                        self.file(&path, inside, before, stem);
                    }
                }
            }
        }
    }

    fn file(&mut self, path: &Path, inside: Option<&Path>, before: &str, stem: &str) {
        let max_found = self.kind.max_found;
        if self.definitions.found.len() == max_found {
            return self.skip(path, &format!("there are {max_found} already"));
        }
        let defined = match real_path(path, inside) {
            // A thousand links to one file cost one read.
            Ok(real) if !self.seen.insert(real.clone()) => return,
            Ok(_) if self.read == MAX_READ => Err(format!("{MAX_READ} files were read already")),
            Ok(real) => self.define(&real, path, inside, before, stem),
            Err(why) => Err(why),
        };
        match defined {
            Ok((name, _)) if self.names.contains(&name) => {
                self.skip(path, &format!("another one is named {name}"));
            }
            Ok((name, definition)) => {
                self.names.insert(name);
                self.definitions.found.push(definition);
            }
            Err(why) => self.skip(path, &why),
        }
    }

    fn define(
        &mut self,
        real: &Path,
        path: &Path,
        inside: Option<&Path>,
        before: &str,
        stem: &str,
    ) -> Result<(String, T), String> {
        self.read += 1;
        let text = read_text(real, self.kind.max_file_bytes).map_err(|e| e.to_string())?;
        let below = inside.map(|root| path.strip_prefix(root).unwrap_or(path));
        (self.define)(DefinitionFile {
            path,
            stem,
            name: format!("{before}{stem}"),
            of_workspace: below.map(|path| path.to_string_lossy().into_owned()),
            text,
        })
    }

    fn skip(&mut self, path: &Path, why: &str) {
        if self.definitions.warnings.len() == MAX_WARNINGS {
            self.left_out += 1;
            return;
        }
        let path = path.to_string_lossy();
        let path = visible(&path).replace(['\n', '\t'], "␤");
        let noun = self.kind.noun;
        let text = format!("the {noun} {path} is not used: {why}");
        self.definitions.warnings.push(text);
    }

    fn done(mut self) -> Definitions<T> {
        if self.left_out > 0 {
            let text = format!("{} more {}s are not used", self.left_out, self.kind.noun);
            self.definitions.warnings.push(text);
        }
        self.definitions
    }
}

fn real_path(path: &Path, inside: Option<&Path>) -> Result<PathBuf, String> {
    let real = path
        .canonicalize()
        .map_err(|e| format!("the link leads nowhere ({e})"))?;
    if inside.is_some_and(|root| !real.starts_with(root)) {
        return Err("it is a link that leads out of the workspace".to_string());
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::{agents, commands, here, skills};
    use super::*;

    /// The number of definitions found, and the warnings.
    type Collected = (usize, Vec<String>);

    /// Makes a repository `project` in a new folder. Returns the folder and its real path.
    fn repository() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        fs::create_dir_all(path.join("project/.git")).unwrap();
        fs::write(path.join("project/.git/HEAD"), "").unwrap();
        (dir, path)
    }

    /// Searches for one kind in the workspace `project` and the config folder `user` of `path`.
    fn found(kind: &str, path: &Path) -> Collected {
        let (here, user) = (here(&path.join("project")).unwrap(), path.join("user"));
        fn of<T>(found: Definitions<T>) -> Collected {
            (found.found.len(), found.warnings)
        }
        let (found, warnings) = match kind {
            "skill" => of(skills(&here, &user)),
            "agent" => of(agents(&here, &user)),
            _ => of(commands(&here, &user, |_| false)),
        };
        let path = format!("{}/project/.rewake/{kind}s/", path.display());
        let begin = format!("the {kind} {path}");
        let shorter = |line: String| line.replace(&begin, "").replace("/SKILL.md", ".md");
        (found, warnings.into_iter().map(shorter).collect())
    }

    /// Writes the file of a definition with this name, as its kind has it.
    fn write(kind: &str, path: &Path, folder: &str, name: &str, text: impl AsRef<[u8]>) {
        let folder = path.join(folder);
        let file = match kind {
            "skill" => folder.join(name).join("SKILL.md"),
            _ => folder.join(format!("{name}.md")),
        };
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    #[test]
    fn hostile_files_of_every_kind_are_treated_alike() {
        for kind in ["skill", "agent", "command"] {
            let (_dir, path) = repository();
            let own = format!("project/.rewake/{kind}s");
            let text = |name: &str| format!("---\nname: {name}\ndescription: x\n---\nx");
            let write = |folder: &str, name: &str, text: &[u8]| {
                write(kind, &path, folder, name, text);
            };
            write("elsewhere", "out", text("out").as_bytes());
            write(&format!("user/{kind}s"), "twice", text("twice").as_bytes());
            write(&own, "twice", text("twice").as_bytes());
            write(&own, ".hidden", text("hidden").as_bytes());
            write(&own, "bad", b"---\ndescription: x\n");
            write(&own, "binary", b"\xff\xfe");
            write(&own, "e\u{1b}[31m\n\u{202e}", b"---\n");
            write(&own, "good", text("good").as_bytes());
            write(&own, "huge", "x".repeat(300_000).as_bytes());
            let end = if kind == "skill" { "" } else { ".md" };
            let link = |to: &str, name: &str| {
                let name = path.join(&own).join(format!("{name}{end}"));
                symlink(path.join(format!("{to}{end}")), name).unwrap();
            };
            link("elsewhere/out", "out");
            // The same file again, and the same folder.
            link(&format!("{own}/good"), "same");
            fs::create_dir_all(path.join("project/.claude")).unwrap();
            let claude = path.join(format!("project/.claude/{kind}s"));
            symlink(path.join(&own), claude).unwrap();
            let (count, warnings) = found(kind, &path);
            assert_eq!(count, 2, "{kind}: {warnings:#?}");
            let whys = [
                "bad.md is not used: its front matter has no closing line",
                "binary.md is not used: it is not UTF-8 text",
                "e␛[31m␤<U+202E>.md is not used: ",
                "huge.md is not used: it is larger than ",
                "out.md is not used: it is a link that leads out of the workspace",
                "twice.md is not used: another one is named ",
            ];
            assert_eq!(warnings.len(), whys.len(), "{kind}: {warnings:#?}");
            for (warning, why) in warnings.iter().zip(whys) {
                assert!(warning.starts_with(why), "{kind}: {warning}");
            }
        }
    }

    #[test]
    fn the_number_of_definitions_and_warnings_is_limited() {
        for kind in ["skill", "agent", "command"] {
            let (_dir, path) = repository();
            let own = format!("project/.rewake/{kind}s");
            for n in 0..530 {
                let text = format!("---\nname: n{n}\ndescription: x\n---\nx");
                write(kind, &path, &own, &format!("n{n}"), text);
            }
            let (count, warnings) = found(kind, &path);
            assert_eq!(warnings.len(), MAX_WARNINGS + 1, "{kind}");
            let rest = 530 - count - MAX_WARNINGS;
            let last = format!("{rest} more {kind}s are not used");
            assert_eq!(warnings.last(), Some(&last));
        }
    }
}
