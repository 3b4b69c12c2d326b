//! Finds the sessions of other agents below the home folder.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{self, Cursor, ErrorKind, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::claude::Claude;
use super::lines::{Lines, text};
use super::links::read_tree;
use super::normal::Normal;
use super::open::regular;
use super::opencode::Database;
use super::pi::Pi;
use super::qwen::Qwen;
use super::{About, Agent, Piece, Report, Sink, codex, gemini};
use crate::config::Env;
use crate::core::marks::title_line;
use crate::store::CachedSource;
use crate::workspace::handle::Folder;

/// Maximum number of lines that are read to find the folder of a session.
const HEAD_LINES: usize = 50;
/// Maximum number of bytes of these lines.
const HEAD_BYTES: u64 = 1024 * 1024;
/// Maximum number of files of an agent whose first lines are read at a start.
const MAX_HEADS: u32 = 200;
/// Maximum size of a database that is read at a start, bytes.
const MAX_DATABASE: u64 = 16 * 1024 * 1024;
/// Maximum length of a title, characters.
const TITLE_CHARS: usize = 200;
/// The database of opencode.
const DATABASE: &str = "opencode.db";
/// The file in which gemini-cli stores the folder of a project.
const PROJECT_ROOT: &str = ".project_root";

/// A session of another agent. It is stored as JSON, so that an unchanged one is not read again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ForeignSession {
    pub agent: Agent,
    pub about: About,
    /// The time of its last line, milliseconds since 1970.
    pub updated_ms: i64,
    pub bytes: u64,
    /// Calls without a result.
    pub open_calls: u64,
    /// It has a message of the user.
    pub has_messages: bool,
    /// More than half of its lines are of unknown kinds.
    pub is_newer: bool,
    /// The state of its file when it was imported last.
    imported: Option<FileState>,
    /// The output of each call at its end that has no result.
    #[serde(default)]
    pub(super) printed: Vec<Option<String>>,
    /// The file that contains it.
    #[serde(skip)]
    pub path: PathBuf,
    /// The folder of the agent, and the path of the file relative to it.
    #[serde(skip)]
    root: PathBuf,
    #[serde(skip)]
    relative_path: PathBuf,
    /// The state of its file when it was read.
    #[serde(skip)]
    state: FileState,
    /// The end of the branch that it is. `None`: it is the conversation as the user left it.
    #[serde(skip)]
    pub branch: Option<String>,
    /// Its copy. `None`: it was not imported.
    #[serde(skip)]
    pub session: Option<String>,
    /// It was read now, not taken from the cache.
    #[serde(skip)]
    pub was_read: bool,
    /// It is of another folder than those that are wanted. A database is read as a whole.
    #[serde(skip)]
    pub is_elsewhere: bool,
    #[serde(skip)]
    pub report: Report,
}

/// The size of a file in bytes, and the time of its last change in nanoseconds since 1970. Of a
/// database: the sum, and the later time, of its two files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct FileState {
    bytes: u64,
    modified: i64,
}

impl FileState {
    fn of(file: &Metadata) -> FileState {
        let seconds = file.mtime().saturating_mul(1_000_000_000);
        FileState {
            bytes: file.len(),
            modified: seconds.saturating_add(file.mtime_nsec()),
        }
    }
}

/// Returns what the calls at the end of an imported session printed, one by one, from the text in
/// [`CachedSource::about`].
pub fn printed_of(about: &str) -> Vec<Option<String>> {
    let stored: Option<ForeignSession> = serde_json::from_str(about).ok();
    stored.map(|stored| stored.printed).unwrap_or_default()
}

impl ForeignSession {
    /// Reads the session. `sink` gets its pieces in order.
    pub(super) fn read(
        &self,
        report: &mut Report,
        sink: Sink<'_>,
        database: Option<&Database>,
    ) -> io::Result<()> {
        if let Some(database) = database {
            database.read(&self.about.id, report, sink);
            return Ok(());
        }
        let folder = Folder::open(&self.root.canonicalize()?)?;
        let lines = Lines::new(regular(&folder, &self.relative_path)?);
        read_lines(self.agent, lines, self.branch.as_deref(), report, sink).map(drop)
    }

    /// Returns a copy of the database that contains it.
    pub(super) fn database(&self) -> Result<Database, SourceError> {
        let open = || Database::copy(&Folder::open(&self.root.canonicalize()?)?, DATABASE);
        open().map_err(|e| self.unreadable(&e))
    }

    pub(super) fn unreadable(&self, error: &io::Error) -> SourceError {
        unreadable(&self.path, error)
    }

    /// Returns the branches of it that the user left.
    pub fn branches(&self, cache: &Cache) -> Vec<ForeignSession> {
        let branch = |end: &String| {
            let mut cached = cache.of(&self.path).iter();
            let cached = cached.find(|cached| cached.id == *end);
            let known = cached
                .and_then(|cached| ForeignSession::stored(cached, &self.root, &self.relative_path));
            ForeignSession {
                branch: Some(end.clone()),
                session: known.as_ref().and_then(|known| known.session.clone()),
                imported: known.and_then(|known| known.imported),
                printed: Vec::new(),
                ..self.clone()
            }
        };
        self.about.left.iter().map(branch).collect()
    }

    /// Returns the copy that has all of it.
    pub(super) fn whole_copy(&self) -> Option<&String> {
        self.session
            .as_ref()
            .filter(|_| self.imported == Some(self.state))
    }

    /// Notes that this copy has all of it.
    pub(super) fn was_imported(&mut self, session: String, printed: Vec<Option<String>>) {
        self.session = Some(session);
        self.imported = Some(self.state);
        self.printed = printed;
    }

    /// Returns it as it was stored.
    fn stored(cached: &CachedSource, root: &Path, relative_path: &Path) -> Option<ForeignSession> {
        Some(ForeignSession {
            path: root.join(relative_path),
            root: root.to_path_buf(),
            relative_path: relative_path.to_path_buf(),
            state: FileState {
                bytes: cached.bytes,
                modified: cached.modified,
            },
            session: cached.session.clone(),
            ..serde_json::from_str(&cached.about).ok()?
        })
    }

    /// Returns it as it is stored.
    pub fn cached(&self) -> CachedSource {
        CachedSource {
            path: self.path.to_string_lossy().into_owned(),
            id: match self.agent {
                Agent::Opencode => self.about.id.clone(),
                _ => self.branch.clone().unwrap_or_default(),
            },
            bytes: self.state.bytes,
            modified: self.state.modified,
            about: serde_json::to_string(self).unwrap_or_default(),
            session: self.session.clone(),
        }
    }
}

/// The sessions that were stored before, by path.
#[derive(Debug, Default)]
pub struct Cache(HashMap<String, Vec<CachedSource>>);

impl Cache {
    pub fn new(sources: Vec<CachedSource>) -> Cache {
        let mut by_path: HashMap<String, Vec<CachedSource>> = HashMap::new();
        for source in sources {
            by_path.entry(source.path.clone()).or_default().push(source);
        }
        Cache(by_path)
    }

    fn of(&self, path: &Path) -> &[CachedSource] {
        self.0
            .get(&*path.to_string_lossy())
            .map_or(&[], Vec::as_slice)
    }
}

/// A source that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {why}", path.display())]
pub struct SourceError {
    pub path: PathBuf,
    pub why: String,
}

/// The folders of the agents.
#[derive(Debug)]
pub struct Sources(Vec<(Agent, PathBuf)>);

impl Sources {
    pub fn new(env: &Env) -> Sources {
        let home = |path: &str| env.home().map(|home| home.join(path));
        let named = |name: &str| {
            let path = env.var_os(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let roots = [
            (
                Agent::Claude,
                named("CLAUDE_CONFIG_DIR").or(home(".claude")),
            ),
            (Agent::Codex, named("CODEX_HOME").or(home(".codex"))),
            (
                Agent::Opencode,
                named("XDG_DATA_HOME")
                    .or(home(".local/share"))
                    .map(|data| data.join("opencode")),
            ),
            (Agent::Pi, home(".pi/agent")),
            (Agent::Qwen, home(".qwen")),
            (Agent::Gemini, home(".gemini")),
        ];
        let known = |(agent, root): (Agent, Option<PathBuf>)| root.map(|root| (agent, root));
        Sources(roots.into_iter().filter_map(known).collect())
    }

    /// Lists the sessions, the newest first, and what could not be read.
    ///
    /// `only`: those of this agent. `folders`: those of these folders. Both `None`: all. What is in
    /// `cache` and unchanged is not read.
    pub fn list(
        &self,
        only: Option<Agent>,
        folders: Option<&[PathBuf]>,
        cache: &Cache,
    ) -> (Vec<ForeignSession>, Vec<SourceError>) {
        let mut found = Vec::new();
        let mut errors = Vec::new();
        let is_wanted = |agent: Agent| only.is_none_or(|only| only == agent);
        for (agent, root) in self.0.iter().filter(|(agent, _)| is_wanted(*agent)) {
            // The folder of an agent is often a link. Below it, none is followed.
            let opened = root.canonicalize().and_then(|root| Folder::open(&root));
            let opened = match opened {
                Ok(opened) => opened,
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => {
                    errors.push(unreadable(root, &e));
                    continue;
                }
            };
            let mut reading = Reading::new(root, *agent, &opened, folders, cache);
            match agent {
                Agent::Opencode => {
                    if let Err(error) = reading.database() {
                        reading.unreadable(Path::new(DATABASE), &error);
                    }
                }
                _ => reading.files(pattern(*agent), &opened, Path::new("")),
            }
            found.append(&mut reading.found);
            errors.append(&mut reading.errors);
        }
        found.sort_by(|a, b| (b.updated_ms, &b.path).cmp(&(a.updated_ms, &a.path)));
        (found, errors)
    }

    /// Returns the agents that have a session of one of these folders, from the first lines of a
    /// limited number of files. A large database is not read.
    pub fn agents_of(&self, folders: &[PathBuf]) -> Vec<Agent> {
        let has_any = |(agent, root): &&(Agent, PathBuf)| {
            let folder = root.canonicalize().and_then(|root| Folder::open(&root));
            let Ok(folder) = folder else {
                return false;
            };
            let cache = Cache::default();
            let mut reading = Reading::new(root, *agent, &folder, Some(folders), &cache);
            match agent {
                Agent::Opencode => reading.is_database_in_this_folder(),
                _ => {
                    reading.heads_left = Some(MAX_HEADS);
                    reading.files(pattern(*agent), &folder, Path::new(""));
                    reading.is_any_in_this_folder
                }
            }
        };
        let found = self.0.iter().filter(has_any);
        found.map(|(agent, _)| *agent).collect()
    }

    /// Reads a file in any folder. `agent`: the agent that wrote it. `None`: its first lines tell.
    pub fn file(&self, path: &Path, agent: Option<Agent>) -> Result<ForeignSession, SourceError> {
        let read = || {
            let folder = path.parent().unwrap_or(Path::new("/")).canonicalize()?;
            let name = path
                .file_name()
                .ok_or_else(|| io::Error::other("it is not a file"))?;
            let opened = Folder::open(&folder)?;
            let file = regular(&opened, Path::new(name))?;
            let agent = match agent {
                Some(agent) => agent,
                None => agent_of(file.try_clone()?)?,
            };
            let cache = Cache::default();
            let one = Reading::new(&folder, agent, &opened, None, &cache)
                .read_file(file, Path::new(name))?;
            one.ok_or_else(|| io::Error::other("it has no session"))
        };
        let mut one = read().map_err(|e| unreadable(path, &e))?;
        one.path = path.to_path_buf();
        Ok(one)
    }
}

/// Returns the first value that `find` finds in the first lines of a file. The copy of a descriptor
/// has the same position in the file, so the file is then at its beginning again.
fn find_in_head<T>(mut file: File, find: impl Fn(&Value) -> Option<T>) -> io::Result<Option<T>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    Read::by_ref(&mut file)
        .take(HEAD_BYTES)
        .read_to_end(&mut bytes)?;
    file.rewind()?;
    let mut lines = Lines::new(Cursor::new(bytes));
    for _ in 0..HEAD_LINES {
        let Some(line) = lines.next(&mut Report::default())? else {
            break;
        };
        let found = find(&line.value);
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Returns the agent that wrote a file, from its first lines.
fn agent_of(file: File) -> io::Result<Agent> {
    let agent = find_in_head(file, |value| {
        let has = |name: &str| value.get(name).is_some();
        match text(value, &["type"]) {
            "session_meta" => Some(Agent::Codex),
            "session" if has("version") => Some(Agent::Pi),
            "user" | "assistant" if !value["message"]["parts"].is_null() => Some(Agent::Qwen),
            "user" | "assistant" if has("message") && has("uuid") => Some(Agent::Claude),
            "" if has("projectHash") => Some(Agent::Gemini),
            _ => None,
        }
    });
    agent?.ok_or_else(|| io::Error::other("it is of no agent that is known: --from names it"))
}

/// Returns the folder that one of the first lines names.
fn head_folder(file: File) -> io::Result<Option<PathBuf>> {
    find_in_head(file, |value| {
        let places = [text(value, &["cwd"]), text(value, &["payload", "cwd"])];
        let mut places = places.into_iter().filter(|text| !text.is_empty());
        places.next().map(PathBuf::from)
    })
}

/// Returns the pattern of the paths of sessions below the folder of an agent. `*` is any part of a
/// name.
fn pattern(agent: Agent) -> &'static str {
    match agent {
        Agent::Claude => "projects/*/*.jsonl",
        Agent::Codex => "sessions/*/*/*/rollout-*.jsonl",
        Agent::Opencode => DATABASE,
        Agent::Pi => "sessions/*/*.jsonl",
        Agent::Qwen => "projects/*/chats/*.jsonl",
        Agent::Gemini => "tmp/*/chats/session-*.jsonl",
    }
}

/// A look at the sessions of one agent.
struct Reading<'a> {
    root: &'a Path,
    agent: Agent,
    folder: &'a Folder,
    /// The folders whose sessions are wanted. `None`: all.
    folders: Option<&'a [PathBuf]>,
    cache: &'a Cache,
    found: Vec<ForeignSession>,
    errors: Vec<SourceError>,
    /// Only the first lines are read, of this number of files, up to one that is wanted.
    heads_left: Option<u32>,
    is_any_in_this_folder: bool,
}

impl<'a> Reading<'a> {
    fn new(
        root: &'a Path,
        agent: Agent,
        folder: &'a Folder,
        folders: Option<&'a [PathBuf]>,
        cache: &'a Cache,
    ) -> Reading<'a> {
        Reading {
            root,
            agent,
            folder,
            folders,
            cache,
            found: Vec::new(),
            errors: Vec::new(),
            heads_left: None,
            is_any_in_this_folder: false,
        }
    }

    /// Reads the files whose paths below this folder match the pattern.
    fn files(&mut self, pattern: &str, folder: &Folder, relative_path: &Path) {
        let (part, rest) = match pattern.split_once('/') {
            Some((part, rest)) => (part, Some(rest)),
            None => (pattern, None),
        };
        let matches = |name: &str| match part.split_once('*') {
            Some((begin, end)) => name.starts_with(begin) && name.ends_with(end),
            None => name == part,
        };
        let mut listed = match folder.list() {
            Ok(listed) => listed,
            Err(e) => return self.unreadable(relative_path, &e),
        };
        listed.retain(|(name, _)| matches(&name.to_string_lossy()));
        // The names of newer ones are mostly higher.
        listed.sort_by(|(a, _), (b, _)| b.cmp(a));
        for (name, kind) in listed {
            if self.heads_left == Some(0) {
                return;
            }
            let name = Path::new(&name);
            let relative_path = relative_path.join(name);
            match (rest, kind == FileType::Directory) {
                (None, false) => self.file(folder, name, &relative_path),
                (Some(rest), true) => match folder.below(name) {
                    Ok(below) => self.files(rest, &below, &relative_path),
                    Err(e) => self.unreadable(&relative_path, &e),
                },
                (None, true) | (Some(_), false) => {}
            }
        }
    }

    fn unreadable(&mut self, relative_path: &Path, error: &io::Error) {
        let error = unreadable(&self.root.join(relative_path), error);
        self.errors.push(error);
    }

    fn file(&mut self, folder: &Folder, name: &Path, relative_path: &Path) {
        let file = regular(folder, name);
        if let Some(left) = &mut self.heads_left {
            *left -= 1;
            let is_in = file.and_then(|file| self.is_file_in_this_folder(file, relative_path));
            if is_in.unwrap_or(false) {
                self.is_any_in_this_folder = true;
                self.heads_left = Some(0);
            }
            return;
        }
        match file.and_then(|file| self.read_file(file, relative_path)) {
            Ok(one) => self.found.extend(one),
            Err(e) => self.unreadable(relative_path, &e),
        }
    }

    /// Reads a session, unless it is of another folder.
    fn read_file(&self, file: File, relative_path: &Path) -> io::Result<Option<ForeignSession>> {
        let state = FileState::of(&file.metadata()?);
        let mut cached = self.cache.of(&self.root.join(relative_path)).iter();
        let cached = cached.find(|cached| cached.id.is_empty());
        let known =
            cached.and_then(|cached| ForeignSession::stored(cached, self.root, relative_path));
        let known = match known {
            Some(known) if known.state == state => {
                let is_wanted = self.in_this_folder(known.about.folder.as_ref());
                return Ok(is_wanted.then_some(known));
            }
            known => known,
        };
        if !self.is_file_in_this_folder(file.try_clone()?, relative_path)? {
            return Ok(None);
        }
        let read = |report: &mut Report, sink: Sink<'_>| {
            let mut about = read_lines(self.agent, Lines::new(file), None, report, sink)?;
            about.folder = about.folder.or(self.project(relative_path));
            if about.id.is_empty() {
                let name = relative_path.file_stem().unwrap_or_default();
                about.id = name.to_string_lossy().into_owned();
            }
            Ok((about, state.bytes, state.modified / 1_000_000))
        };
        let report = Report::default();
        let one = self.described(relative_path, state, known.as_ref(), report, read);
        one.map(Some)
    }

    /// Returns whether the sessions of a folder are wanted.
    fn in_this_folder(&self, folder: Option<&PathBuf>) -> bool {
        let is_one = |folders: &[PathBuf]| folder.is_some_and(|folder| folders.contains(folder));
        self.folders.is_none_or(is_one)
    }

    /// Returns whether one of the first lines of a file names a folder that is wanted.
    fn is_file_in_this_folder(&self, file: File, relative_path: &Path) -> io::Result<bool> {
        let folder = match self.project(relative_path) {
            Some(project) => Some(project),
            None => head_folder(file)?,
        };
        Ok(self.in_this_folder(folder.as_ref()))
    }

    fn project(&self, relative_path: &Path) -> Option<PathBuf> {
        match self.agent {
            Agent::Gemini => project_root(self.folder, relative_path),
            _ => None,
        }
    }

    /// Reads a session. It is converted as for an import, so both count the same. `known`: as it was
    /// before. `read` returns its bytes, and its time if none of its pieces has one, too.
    fn described(
        &self,
        relative_path: &Path,
        state: FileState,
        known: Option<&ForeignSession>,
        mut report: Report,
        read: impl FnOnce(&mut Report, Sink<'_>) -> io::Result<(About, u64, i64)>,
    ) -> io::Result<ForeignSession> {
        let (mut first_words, mut updated_ms) = (None, 0);
        let mut ignored = |_, _, _| {};
        let mut normal = Normal::new(self.agent, &About::default(), &mut ignored);
        let (mut about, bytes, changed_ms) = read(&mut report, &mut |piece| {
            updated_ms = piece.at_ms().max(updated_ms);
            if let (Piece::Said { text, .. }, None) = (&piece, &first_words) {
                first_words = Some(title_line(text, TITLE_CHARS));
            }
            normal.take(piece);
        })?;
        let ended = normal.end();
        report.add(ended.report);
        // A table that cannot be read may have messages.
        let has_messages = first_words.is_some() || !report.partial.is_empty();
        let title = about.title.take();
        let title = title.map(|title| title_line(&title, TITLE_CHARS));
        about.title = title.or(first_words);
        if updated_ms == 0 {
            updated_ms = changed_ms;
        }
        Ok(ForeignSession {
            agent: self.agent,
            about,
            updated_ms,
            bytes,
            open_calls: ended.without_result,
            has_messages,
            is_newer: report.is_newer_than_known(),
            imported: known.and_then(|known| known.imported),
            printed: known.map(|known| known.printed.clone()).unwrap_or_default(),
            path: self.root.join(relative_path),
            root: self.root.to_path_buf(),
            relative_path: relative_path.to_path_buf(),
            state,
            branch: None,
            session: known.and_then(|known| known.session.clone()),
            was_read: true,
            is_elsewhere: false,
            report,
        })
    }

    fn database(&mut self) -> io::Result<()> {
        let relative_path = Path::new(DATABASE);
        let state = match self.database_state() {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            state => state?,
        };
        let cached = self.cache.of(&self.root.join(relative_path)).iter();
        let mut known: Vec<ForeignSession> = cached
            .filter_map(|cached| ForeignSession::stored(cached, self.root, relative_path))
            .collect();
        // All sessions of a database are stored together.
        if known.iter().any(|known| known.state == state) {
            known.retain(|known| {
                known.state == state && self.in_this_folder(known.about.folder.as_ref())
            });
            self.found = known;
            return Ok(());
        }
        let database = Database::copy(self.folder, DATABASE)?;
        let mut report = Report::default();
        for listed in database.sessions(&mut report) {
            let known = known.iter().find(|known| known.about.id == listed.about.id);
            let is_elsewhere = !self.in_this_folder(listed.about.folder.as_ref());
            let read = |report: &mut Report, sink: Sink<'_>| {
                let bytes = database.read(&listed.about.id, report, sink);
                Ok((listed.about, bytes, listed.updated_ms))
            };
            let one = self.described(relative_path, state, known, report.clone(), read)?;
            self.found.push(ForeignSession {
                is_elsewhere,
                ..one
            });
        }
        match report.partial.first() {
            Some(why) if self.found.is_empty() => Err(io::Error::other(why.clone())),
            _ => Ok(()),
        }
    }

    fn is_database_in_this_folder(&self) -> bool {
        let is_small = |state: FileState| state.bytes <= MAX_DATABASE;
        if !self.database_state().is_ok_and(is_small) {
            return false;
        }
        let database = Database::copy(self.folder, DATABASE);
        let listed = database.map(|database| database.sessions(&mut Report::default()));
        let mut listed = listed.into_iter().flatten();
        listed.any(|listed| self.in_this_folder(listed.about.folder.as_ref()))
    }

    fn database_state(&self) -> io::Result<FileState> {
        let state = |name: &str| {
            let file = regular(self.folder, Path::new(name))?;
            Ok::<_, io::Error>(FileState::of(&file.metadata()?))
        };
        let mut sum = state(DATABASE)?;
        if let Ok(log) = state(&format!("{DATABASE}-wal")) {
            sum.bytes += log.bytes;
            sum.modified = sum.modified.max(log.modified);
        }
        Ok(sum)
    }
}

/// Reads a session in lines. `end`: the end of the branch to read, if the format has branches.
pub(super) fn read_lines(
    agent: Agent,
    lines: Lines,
    end: Option<&str>,
    report: &mut Report,
    sink: Sink<'_>,
) -> io::Result<About> {
    match agent {
        Agent::Claude => read_tree::<Claude>(lines, end, report, sink),
        Agent::Codex => codex::read(lines, report, sink),
        Agent::Pi => read_tree::<Pi>(lines, end, report, sink),
        Agent::Qwen => read_tree::<Qwen>(lines, end, report, sink),
        Agent::Gemini => gemini::read(lines, report, sink),
        Agent::Opencode => Ok(About::default()),
    }
}

/// Returns the folder of a project of gemini-cli. `relative_path`: `tmp/NAME/chats/FILE`.
fn project_root(folder: &Folder, relative_path: &Path) -> Option<PathBuf> {
    let project = relative_path.parent()?.parent()?.join(PROJECT_ROOT);
    let file = regular(folder, &project).ok()?;
    let mut text = String::new();
    file.take(4_096).read_to_string(&mut text).ok()?;
    Some(text.trim())
        .filter(|text| !text.is_empty())
        .map(PathBuf::from)
}

fn unreadable(path: &Path, error: &io::Error) -> SourceError {
    SourceError {
        path: path.to_path_buf(),
        why: error.to_string(),
    }
}
