//! The files that the command of a hook needs: its programs and scripts. The hash of those in the
//! workspace is part of the trust.
//!
//! A word of the command names a file if it is a program that contains `/`, or the first operand
//! of an interpreter. Of the other words, and of the ends of words after an expansion, existing
//! files of the workspace count too. Files that a script loads by itself are not covered.
//!
//! Invariant: a program that is only known when the command runs is reported, not passed over.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FileType};

use super::super::handle::Folder;
use super::super::regular::{load_from, open_on_disk};
use crate::core::path;
use crate::core::shell::{self, SimpleCommand, Word};

/// Interpreters whose first operand is a script, each with the options that take no value.
const INTERPRETERS: [(&str, &str); 9] = [
    ("sh", "euxvnf"),
    ("bash", "euxvnf"),
    ("python", "BEIOPRSsuv"),
    ("node", ""),
    ("ruby", "w"),
    ("perl", "wT"),
    ("php", "q"),
    ("deno", ""),
    ("bun", ""),
];

/// Words before a command.
const KEYWORDS: [&str; 9] = [
    "if", "then", "else", "elif", "while", "until", "do", "!", "time",
];

/// Words that a shell runs by itself.
#[rustfmt::skip]
const BUILTINS: [&str; 50] = [
    ".", ":", "[", "alias", "bg", "break", "builtin", "cd", "command", "compgen", "continue", "declare", "dirs", "echo",
    "enable", "eval", "exec", "exit", "export", "false", "fg", "getopts", "hash", "jobs", "kill", "let", "local",
    "mapfile", "popd", "printf", "pushd", "pwd", "read", "readonly", "return", "set", "shift", "shopt", "source", "test",
    "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait",
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

/// The files of a command, and whether all its programs are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NeededFiles {
    pub files: Vec<Needed>,
    /// A program or script of it that is known only when it runs.
    pub unknown: Option<String>,
}

/// Returns the files that a command needs.
pub fn needed_files(command: &str, place: Place<'_>) -> NeededFiles {
    let root = place.root.to_string_lossy();
    let command = command
        .replace("${CLAUDE_PROJECT_DIR}", &root)
        .replace("$CLAUDE_PROJECT_DIR", &root);
    let mut search = Search {
        place,
        bases: vec![place.folder.to_path_buf(), place.root.to_path_buf()],
        real_root: place.root.canonicalize().unwrap_or_default(),
        found: BTreeMap::new(),
        unknown: None,
    };
    search.text(&command);
    let mut all: BTreeMap<PathBuf, Needed> = BTreeMap::new();
    for (path, mut needed) in search.found {
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
    NeededFiles {
        files: all.into_values().collect(),
        unknown: search.unknown,
    }
}

/// The search for the files of one command.
struct Search<'a> {
    place: Place<'a>,
    /// Folders in which the command may be at some point.
    bases: Vec<PathBuf>,
    real_root: PathBuf,
    found: BTreeMap<PathBuf, Needed>,
    unknown: Option<String>,
}

impl Search<'_> {
    fn text(&mut self, command: &str) {
        match shell::split(command) {
            Ok(parts) => parts.iter().for_each(|part| self.command(part)),
            // Its structure is not known, so every word counts.
            Err(_) => self.loose(command),
        }
    }

    /// Adds the files of every word that may be in a text. Returns whether there are any.
    fn words_in(&mut self, text: &str) -> bool {
        let mut is_found = false;
        for word in shell::loose_words(text).into_iter().flatten() {
            is_found |= self.word(&word);
        }
        is_found
    }

    /// Adds the files of a text whose grammar is not known.
    fn loose(&mut self, text: &str) {
        self.words_in(text);
        for words in rough_commands(text) {
            let mut words = words
                .iter()
                .skip_while(|word| KEYWORDS.contains(&word.as_str()));
            let program = words.next().map_or("", String::as_str);
            let script = words.next().filter(|_| interpreter(program).is_some());
            let run = [Some(program), script.map(String::as_str)];
            for word in run
                .into_iter()
                .flatten()
                .filter(|word| word.contains(['$', '`']))
            {
                self.expanded(word);
            }
        }
    }

    fn command(&mut self, part: &SimpleCommand) {
        for redirect in part.redirects.iter().filter(|r| !r.writes) {
            self.word(&redirect.target.text);
        }
        let Some((program, rest)) = part.words.split_first() else {
            return;
        };
        self.program(program);
        let name = program.text.rsplit('/').next().unwrap_or_default();
        if matches!(name, "cd" | "pushd")
            && let Some(folder) = rest.iter().find(|word| !word.text.starts_with('-'))
        {
            let full = self.full(&folder.text);
            self.bases.push(full);
        }
        let script = match name {
            "." | "source" => Some(0),
            name => script_at(name, rest),
        };
        for (at, word) in rest.iter().enumerate() {
            if Some(at) == script {
                self.script(word);
            } else {
                self.word(&word.text);
            }
        }
    }

    fn program(&mut self, program: &Word) {
        let text = &program.text;
        if program.expands || program.glob {
            return self.expanded(text);
        }
        if text.contains('/') {
            let full = self.full(text);
            self.require(full, true);
            self.word(text);
            return;
        }
        if BUILTINS.contains(&text.as_str()) {
            return;
        }
        // A program that no folder has is required where the first of them would have it.
        let mut places = self
            .place
            .search_path
            .iter()
            .map(|folder| folder.join(text));
        let found = places.clone().find(|path| path.is_file());
        if let Some(path) = found.or_else(|| places.next()) {
            self.require(path, true);
        }
    }

    fn script(&mut self, word: &Word) {
        if word.expands || word.glob {
            return self.expanded(&word.text);
        }
        let full = self.full(&word.text);
        self.require(full, false);
        self.word(&word.text);
    }

    /// Adds the file that an expansion ends with. It is unknown if the workspace has none.
    fn expanded(&mut self, text: &str) {
        if !self.word(text) {
            self.unknown.get_or_insert(text.to_string());
        }
    }

    fn full(&self, word: &str) -> PathBuf {
        let folder = self.place.folder.to_string_lossy();
        PathBuf::from(path::clean(&path::join(&folder, word)))
    }

    fn is_inside(&self, path: &Path) -> bool {
        let is_real = || {
            path.canonicalize()
                .is_ok_and(|real| real.starts_with(&self.real_root))
        };
        path.starts_with(self.place.root) || is_real()
    }

    fn require(&mut self, path: PathBuf, is_program: bool) {
        // After a `cd` it may be elsewhere: the other folders are searched for it too.
        let is_certain = self.bases.len() <= 2 || path.exists();
        let is_hashed = self.is_inside(&path);
        if is_certain {
            self.add(path, is_program, is_hashed);
        }
    }

    fn add(&mut self, path: PathBuf, is_program: bool, is_hashed: bool) {
        let known = self.found.entry(path.clone()).or_insert(Needed {
            path,
            is_program,
            is_required: true,
            is_hashed,
        });
        known.is_program |= is_program;
    }

    /// Adds the files of the workspace that a word may mean: the word itself, each end of it after
    /// a `/`, and what is in it if it is a line. Returns whether there are any.
    fn word(&mut self, text: &str) -> bool {
        if text.contains(char::is_whitespace) {
            return self.words_in(text);
        }
        let value = text.rsplit('=').next().unwrap_or(text);
        let ends = value.match_indices('/').map(|(at, _)| &value[at + 1..]);
        let ends: Vec<&str> = std::iter::once(value).chain(ends).collect();
        let mut is_found = false;
        for base in self.bases.clone() {
            for end in ends.iter().filter(|end| !end.is_empty()) {
                let base = base.to_string_lossy();
                let path = PathBuf::from(path::clean(&path::join(&base, end)));
                if path.is_file() && self.is_inside(&path) {
                    self.add(path, false, true);
                    is_found = true;
                }
            }
        }
        is_found
    }
}

/// Returns the words of the commands of a text whose grammar is not known: quotes are removed, and
/// an expansion is one word with the text around it.
fn rough_commands(text: &str) -> Vec<Vec<String>> {
    let mut commands = vec![vec![String::new()]];
    let (mut quote, mut depth) = (None, 0_usize);
    let mut before = ' ';
    for c in text.chars() {
        let is_start = c == '(' && before == '$';
        match c {
            '\'' | '"' if quote == Some(c) => quote = None,
            '\'' | '"' if quote.is_none() && depth == 0 => quote = Some(c),
            '(' if is_start || depth > 0 => depth += 1,
            ')' if depth > 0 => depth -= 1,
            _ => {}
        }
        let is_inside = quote.is_some() || depth > 0;
        let is_part = is_inside || is_start || (c == ')' && before != ' ') || !c.is_whitespace();
        match (is_inside, c) {
            (_, '\'' | '"') => {}
            (false, ';' | '|' | '&' | '\n' | '{' | '}') => commands.push(vec![String::new()]),
            _ => {
                let Some(words) = commands.last_mut() else {
                    continue;
                };
                match (is_part, words.last_mut()) {
                    (true, Some(word)) => word.push(c),
                    (false, Some(word)) if !word.is_empty() => words.push(String::new()),
                    _ => {}
                }
            }
        }
        before = c;
    }
    commands
}

/// Returns the options without a value of an interpreter, with or without a version in its name:
/// `python3.12`.
fn interpreter(name: &str) -> Option<&'static str> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let known = INTERPRETERS.iter().find(|(known, _)| *known == plain);
    known.map(|(_, flags)| *flags)
}

/// Returns the place of an interpreter's script among its arguments. `None`: there is none, or an
/// option before it may take a value.
fn script_at(name: &str, arguments: &[Word]) -> Option<usize> {
    let flags = interpreter(name)?;
    let is_flag = |word: &Word| {
        let letters = word.text.strip_prefix('-');
        letters.is_some_and(|letters| {
            !letters.is_empty() && letters.chars().all(|letter| flags.contains(letter))
        })
    };
    let at = arguments.iter().position(|word| !is_flag(word))?;
    (!arguments[at].text.starts_with('-')).then_some(at)
}

/// Returns the folder of hooks that a file of the workspace is in.
fn hook_folder(root: &Path, file: &Path) -> Option<PathBuf> {
    let mut folders = HOOK_FOLDERS.iter().map(|folder| root.join(folder));
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
