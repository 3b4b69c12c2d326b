//! The files that the command of a hook needs: its programs and scripts. The hash of those in the
//! workspace is part of the trust.
//!
//! A word of the command names a file if it is a program that contains `/`, or the first operand
//! of an interpreter. Of the other words, existing files of the workspace count too. Files that a
//! script loads by itself are not covered.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FileType};

use super::super::handle::Folder;
use super::super::regular::{load_from, open_on_disk};
use crate::core::path;
use crate::core::shell::{self, SimpleCommand};

/// Interpreters whose first operand is a script.
const INTERPRETERS: [&str; 9] = [
    "sh", "bash", "python", "node", "ruby", "perl", "php", "deno", "bun",
];

/// Options of an interpreter after which no script follows.
const WITHOUT_SCRIPT: [&str; 3] = ["-c", "-e", "-m"];

/// Words that a shell runs by itself.
#[rustfmt::skip]
const BUILTINS: [&str; 40] = [
    ".", ":", "[", "alias", "bg", "break", "cd", "command", "continue", "echo", "eval", "exec", "exit", "export",
    "false", "fg", "getopts", "hash", "jobs", "kill", "local", "printf", "pwd", "read", "readonly", "return", "set",
    "shift", "source", "test", "times", "trap", "true", "type", "ulimit", "umask", "unalias", "unset", "wait", "declare",
];

/// Folders whose scripts often load each other, so the hash covers the whole folder.
const HOOK_FOLDERS: [&str; 2] = [".rewake/hooks", ".claude/hooks"];

/// Limits of a hashed folder or file.
const MAX_FILES: usize = 1_000;
const MAX_BYTES: u64 = 16 * 1024 * 1024;
const MAX_DEPTH: usize = 16;

/// The hash of a file that did not exist when it was trusted.
pub const MISSING: &str = "missing";

/// A file that a hook needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Needed {
    /// Absolute; not resolved.
    pub path: PathBuf,
    /// It must be executable.
    pub is_program: bool,
    /// It must exist.
    pub is_required: bool,
    /// It is in the workspace, so its content is part of the trust.
    pub is_hashed: bool,
}

/// Where the words of a command lead.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The folder in which the hook runs.
    pub folder: &'a Path,
    /// The root of the workspace.
    pub root: &'a Path,
    /// The folders that are searched for programs.
    pub search_path: &'a [PathBuf],
}

/// Returns the files that a command needs.
pub fn needed_files(command: &str, place: Place<'_>) -> Vec<Needed> {
    let root = place.root.to_string_lossy();
    let command = command
        .replace("${CLAUDE_PROJECT_DIR}", &root)
        .replace("$CLAUDE_PROJECT_DIR", &root);
    let mut found: BTreeMap<PathBuf, Needed> = BTreeMap::new();
    let mut add = |needed: Needed| {
        let known = found.entry(needed.path.clone()).or_insert(needed.clone());
        known.is_program |= needed.is_program;
        known.is_required |= needed.is_required;
    };
    match shell::split(&command) {
        Ok(parts) => {
            for part in &parts {
                of_command(part, place, &mut add);
            }
        }
        Err(_) => {
            for word in shell::loose_words(&command).into_iter().flatten() {
                place.other(&word).into_iter().for_each(&mut add);
            }
        }
    }
    let mut all: BTreeMap<PathBuf, Needed> = BTreeMap::new();
    for (path, mut needed) in found {
        if let Some(folder) = hook_folder(place.root, &path) {
            needed.is_hashed = false;
            all.entry(folder.clone()).or_insert(Needed {
                path: folder,
                is_program: false,
                is_required: false,
                is_hashed: true,
            });
        }
        all.insert(path, needed);
    }
    all.into_values().collect()
}

fn of_command(part: &SimpleCommand, place: Place<'_>, add: &mut impl FnMut(Needed)) {
    let mut words = part.words.iter().filter(|word| !word.expands && !word.glob);
    let Some(program) = words.next() else { return };
    let name = program.text.rsplit('/').next().unwrap_or_default();
    if program.text.contains('/') {
        add(place.needed(&program.text, true));
    } else if !BUILTINS.contains(&name) {
        // A program that no folder has is required where the first of them would have it.
        let at = |folder: &PathBuf| folder.join(name);
        let mut places = place.search_path.iter().map(at);
        let found = places.clone().find(|path| path.is_file());
        if let Some(path) = found.or_else(|| places.next()) {
            add(Needed {
                path,
                is_program: true,
                is_required: true,
                is_hashed: false,
            });
        }
    }
    let runs_script = is_interpreter(name) || matches!(name, "." | "source");
    let mut may_be_script = runs_script;
    for word in words {
        if may_be_script && WITHOUT_SCRIPT.contains(&word.text.as_str()) {
            may_be_script = false;
        }
        match may_be_script && !word.text.starts_with('-') {
            true => {
                may_be_script = false;
                add(place.needed(&word.text, false));
            }
            false => place.other(&word.text).into_iter().for_each(&mut *add),
        }
    }
    for redirect in part.redirects.iter().filter(|r| !r.writes) {
        place
            .other(&redirect.target.text)
            .into_iter()
            .for_each(&mut *add);
    }
}

/// Returns whether a name is an interpreter, with or without a version: `python3.12`.
fn is_interpreter(name: &str) -> bool {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.contains(&plain)
}

impl Place<'_> {
    fn full(&self, word: &str) -> PathBuf {
        let folder = self.folder.to_string_lossy();
        PathBuf::from(path::clean(&path::join(&folder, word)))
    }

    fn needed(&self, word: &str, is_program: bool) -> Needed {
        let full = self.full(word);
        Needed {
            is_hashed: full.starts_with(self.root),
            path: full,
            is_program,
            is_required: true,
        }
    }

    /// Returns the file of a word that may be anything, if the workspace has it.
    fn other(&self, word: &str) -> Option<Needed> {
        let full = self.full(word.rsplit('=').next().unwrap_or(word));
        let is_file = full.starts_with(self.root) && full.is_file();
        is_file.then(|| Needed {
            path: full,
            is_program: false,
            is_required: true,
            is_hashed: true,
        })
    }
}

/// Returns the folder of hooks that a file of the workspace is in.
fn hook_folder(root: &Path, file: &Path) -> Option<PathBuf> {
    let folders = HOOK_FOLDERS.iter().map(|folder| root.join(folder));
    let mut folders = folders;
    folders.find(|folder| file.starts_with(folder) && file != folder)
}

/// Returns the hash of a file, or of everything in a folder. Links in the path are followed, and
/// none in a folder.
///
/// # Errors
/// It is missing, cannot be read, or is above the limits.
pub fn hash(path: &Path) -> io::Result<String> {
    let real = path.canonicalize()?;
    if !real.is_dir() {
        let bytes = load_from(open_on_disk(&real)?, MAX_BYTES)?;
        return Ok(blake3::hash(&bytes).to_hex().to_string());
    }
    let mut files = Vec::new();
    list(&Folder::open(&real)?, Path::new(""), 0, &mut files)?;
    files.sort();
    let folder = Folder::open(&real)?;
    let (mut all, mut left) = (blake3::Hasher::new(), MAX_BYTES);
    for name in &files {
        let bytes = load_from(folder.file(name)?, left)?;
        left -= bytes.len() as u64;
        all.update(name.as_os_str().as_encoded_bytes());
        all.update(&[0]);
        all.update(blake3::hash(&bytes).as_bytes());
    }
    Ok(all.finalize().to_hex().to_string())
}

fn list(folder: &Folder, at: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if depth > MAX_DEPTH || files.len() > MAX_FILES {
        return Err(io::Error::new(
            ErrorKind::FileTooLarge,
            format!("a folder of hooks may have {MAX_FILES} files, {MAX_DEPTH} folders deep"),
        ));
    }
    let names: Vec<(OsString, FileType)> = folder.list()?;
    for (name, kind) in names {
        let path = at.join(&name);
        match kind {
            FileType::Directory if name == "__pycache__" => {}
            FileType::Directory => {
                list(&folder.below(Path::new(&name))?, &path, depth + 1, files)?;
            }
            FileType::RegularFile => files.push(path),
            _ => {
                return Err(io::Error::other(format!(
                    "{} is not a file",
                    path.display()
                )));
            }
        }
    }
    Ok(())
}

/// Returns whether this process may execute a file.
pub fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}
