//! Finds the sessions of other agents below the home folder.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{self, Cursor, ErrorKind, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

use super::claude::Claude;
use super::lines::{Line, Lines, text};
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
pub struct Found {
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
    /// The folder of the agent, and the path of the file below it.
    #[serde(skip)]
    root: PathBuf,
    #[serde(skip)]
    way: PathBuf,
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
    let stored: Option<Found> = serde_json::from_str(about).ok();
    stored.map(|stored| stored.printed).unwrap_or_default()
}

impl Found {
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
        let lines = Lines::new(regular(&folder, &self.way)?);
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
    pub fn branches(&self, cache: &Cache) -> Vec<Found> {
        let branch = |end: &String| {
            let mut cached = cache.of(&self.path).iter();
            let cached = cached.find(|cached| cached.id == *end);
            let known = cached.and_then(|cached| Found::stored(cached, &self.root, &self.way));
            Found {
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
    fn stored(cached: &CachedSource, root: &Path, way: &Path) -> Option<Found> {
        Some(Found {
            path: root.join(way),
            root: root.to_path_buf(),
            way: way.to_path_buf(),
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

/// A part of the path to the files of an agent.
enum Part {
    Named(&'static str),
    AnyFolder,
    /// A file whose name begins and ends like this.
    File(&'static str, &'static str),
}

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
    ) -> (Vec<Found>, Vec<SourceError>) {
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
            let is_here = |folder: Option<&PathBuf>| {
                folders.is_none_or(|folders| folder.is_some_and(|folder| folders.contains(folder)))
            };
            let mut reading = Reading::new(root, *agent, &opened, &is_here, cache);
            match agent {
                Agent::Opencode => reading.database(),
                _ => reading.files(parts(*agent), &opened, Path::new("")),
            }
            found.append(&mut reading.found);
            errors.append(&mut reading.errors);
        }
        found.sort_by(|a, b| (b.updated_ms, &b.path).cmp(&(a.updated_ms, &a.path)));
        (found, errors)
    }
}

impl Sources {
    /// Returns the agents that have a session of one of these folders, from the first lines of a
    /// limited number of files. A large database is not read.
    pub fn agents_of(&self, folders: &[PathBuf]) -> Vec<Agent> {
        let is_here =
            |folder: Option<&PathBuf>| folder.is_some_and(|folder| folders.contains(folder));
        let has_any = |(agent, root): &&(Agent, PathBuf)| {
            let folder = root.canonicalize().and_then(|root| Folder::open(&root));
            let Ok(folder) = folder else {
                return false;
            };
            let cache = Cache::default();
            let mut reading = Reading::new(root, *agent, &folder, &is_here, &cache);
            match agent {
                Agent::Opencode => reading.has_database_of_here(),
                _ => {
                    reading.heads_left = Some(MAX_HEADS);
                    reading.files(parts(*agent), &folder, Path::new(""));
                    reading.is_any_here
                }
            }
        };
        let found = self.0.iter().filter(has_any);
        found.map(|(agent, _)| *agent).collect()
    }

    /// Reads a file in any folder. `agent`: the agent that wrote it. `None`: its first lines tell.
    pub fn file(&self, path: &Path, agent: Option<Agent>) -> Result<Found, SourceError> {
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
            let one = Reading::new(&folder, agent, &opened, &|_| true, &cache)
                .read_file(file, Path::new(name))?;
            one.ok_or_else(|| io::Error::other("it has no session"))
        };
        let mut one = read().map_err(|e| unreadable(path, &e))?;
        one.path = path.to_path_buf();
        Ok(one)
    }
}

/// Returns the first lines of a file. The copy of a descriptor has the same position in the file, so
/// the file is then at its beginning again.
fn head(mut file: File) -> io::Result<Lines> {
    let mut bytes = Vec::new();
    file.rewind()?;
    Read::by_ref(&mut file)
        .take(HEAD_BYTES)
        .read_to_end(&mut bytes)?;
    file.rewind()?;
    Ok(Lines::new(Cursor::new(bytes)))
}

/// Returns the agent that wrote a file, from its first lines.
fn agent_of(file: File) -> io::Result<Agent> {
    let mut lines = head(file)?;
    let mut agent = None;
    for _ in 0..HEAD_LINES {
        let Some(Line { value, .. }) = lines.next(&mut Report::default())? else {
            break;
        };
        let has = |name: &str| value.get(name).is_some();
        agent = match text(&value, &["type"]) {
            "session_meta" => Some(Agent::Codex),
            "session" if has("version") => Some(Agent::Pi),
            "user" | "assistant" if !value["message"]["parts"].is_null() => Some(Agent::Qwen),
            "user" | "assistant" if has("message") && has("uuid") => Some(Agent::Claude),
            "" if has("projectHash") => Some(Agent::Gemini),
            _ => continue,
        };
        break;
    }
    agent.ok_or_else(|| io::Error::other("it is of no agent that is known: --from names it"))
}

/// Returns the way from the folder of an agent to its sessions.
fn parts(agent: Agent) -> &'static [Part] {
    use Part::{AnyFolder, File, Named};
    match agent {
        Agent::Claude => &[Named("projects"), AnyFolder, File("", ".jsonl")],
        Agent::Codex => &[
            Named("sessions"),
            AnyFolder,
            AnyFolder,
            AnyFolder,
            File("rollout-", ".jsonl"),
        ],
        Agent::Pi => &[Named("sessions"), AnyFolder, File("", ".jsonl")],
        Agent::Qwen => &[
            Named("projects"),
            AnyFolder,
            Named("chats"),
            File("", ".jsonl"),
        ],
        Agent::Gemini => &[
            Named("tmp"),
            AnyFolder,
            Named("chats"),
            File("session-", ".jsonl"),
        ],
        Agent::Opencode => &[],
    }
}

/// A look at the sessions of one agent.
struct Reading<'a> {
    root: &'a Path,
    agent: Agent,
    folder: &'a Folder,
    is_here: &'a dyn Fn(Option<&PathBuf>) -> bool,
    cache: &'a Cache,
    found: Vec<Found>,
    errors: Vec<SourceError>,
    /// Only the first lines are read, of this number of files, up to one that is wanted.
    heads_left: Option<u32>,
    is_any_here: bool,
}

impl<'a> Reading<'a> {
    fn new(
        root: &'a Path,
        agent: Agent,
        folder: &'a Folder,
        is_here: &'a dyn Fn(Option<&PathBuf>) -> bool,
        cache: &'a Cache,
    ) -> Reading<'a> {
        Reading {
            root,
            agent,
            folder,
            is_here,
            cache,
            found: Vec::new(),
            errors: Vec::new(),
            heads_left: None,
            is_any_here: false,
        }
    }

    fn files(&mut self, parts: &[Part], folder: &Folder, way: &Path) {
        let Some((part, rest)) = parts.split_first() else {
            return;
        };
        let mut listed = match folder.list() {
            Ok(listed) => listed,
            Err(e) => return self.errors.push(unreadable(&self.root.join(way), &e)),
        };
        // The names of newer ones are mostly higher.
        listed.sort_by(|(a, _), (b, _)| b.cmp(a));
        for (name, kind) in listed {
            if self.heads_left == Some(0) {
                return;
            }
            let way = way.join(&name);
            let shown = name.to_string_lossy();
            match part {
                Part::File(begins, ends) => {
                    if kind != FileType::Directory
                        && shown.starts_with(begins)
                        && shown.ends_with(ends)
                    {
                        self.file(folder, Path::new(&name), &way);
                    }
                }
                Part::Named(wanted) if shown != *wanted => {}
                Part::Named(_) | Part::AnyFolder if kind == FileType::Directory => {
                    match folder.below(Path::new(&name)) {
                        Ok(below) => self.files(rest, &below, &way),
                        Err(e) => self.errors.push(unreadable(&self.root.join(way), &e)),
                    }
                }
                Part::Named(_) | Part::AnyFolder => {}
            }
        }
    }

    fn file(&mut self, folder: &Folder, name: &Path, way: &Path) {
        if let Some(left) = &mut self.heads_left {
            *left -= 1;
            let file = regular(folder, name);
            if file.is_ok_and(|file| self.is_of_here(file, way).unwrap_or(false)) {
                self.is_any_here = true;
                self.heads_left = Some(0);
            }
            return;
        }
        let read = regular(folder, name).and_then(|file| self.read_file(file, way));
        match read {
            Ok(one) => self.found.extend(one),
            Err(e) => self.errors.push(unreadable(&self.root.join(way), &e)),
        }
    }

    /// Reads a session, unless it is of another folder.
    fn read_file(&self, file: File, way: &Path) -> io::Result<Option<Found>> {
        let state = FileState::of(&file.metadata()?);
        let path = self.root.join(way);
        let mut cached = self.cache.of(&path).iter();
        let cached = cached.find(|cached| cached.id.is_empty());
        let known = cached.and_then(|cached| Found::stored(cached, self.root, way));
        let known = match known {
            Some(known) if known.state == state => {
                let is_here = (self.is_here)(known.about.folder.as_ref());
                return Ok(is_here.then_some(known));
            }
            known => known,
        };
        if !self.is_of_here(file.try_clone()?, way)? {
            return Ok(None);
        }
        let (about, seen) = seen(self.agent, Report::default(), |report, sink| {
            read_lines(self.agent, Lines::new(file), None, report, sink)
        });
        let mut about = about?;
        about.folder = about.folder.or(self.project(way));
        if about.id.is_empty() {
            let name = way.file_stem().unwrap_or_default();
            about.id = name.to_string_lossy().into_owned();
        }
        let size_and_time = (state.bytes, state.modified / 1_000_000);
        Ok(Some(self.described(
            about,
            way,
            state,
            known.as_ref(),
            seen,
            size_and_time,
        )))
    }

    /// Returns whether one of the first lines of a file names a folder that is wanted.
    fn is_of_here(&self, file: File, way: &Path) -> io::Result<bool> {
        let folder = match self.project(way) {
            Some(project) => Some(project),
            None => head_folder(file)?,
        };
        Ok((self.is_here)(folder.as_ref()))
    }

    fn project(&self, way: &Path) -> Option<PathBuf> {
        match self.agent {
            Agent::Gemini => project_root(self.folder, way),
            _ => None,
        }
    }

    /// Returns a session that was read now. `known`: as it was before. `changed_ms`: its time, if
    /// none of its pieces has one.
    fn described(
        &self,
        mut about: About,
        way: &Path,
        state: FileState,
        known: Option<&Found>,
        seen: Seen,
        (bytes, changed_ms): (u64, i64),
    ) -> Found {
        // A table that cannot be read may have messages.
        let has_messages = seen.first_words.is_some() || !seen.report.partial.is_empty();
        let title = about.title.take();
        let title = title.map(|title| title_line(&title, TITLE_CHARS));
        about.title = title.or(seen.first_words);
        Found {
            agent: self.agent,
            about,
            updated_ms: match seen.updated_ms {
                0 => changed_ms,
                at_ms => at_ms,
            },
            bytes,
            open_calls: seen.open_calls,
            has_messages,
            is_newer: seen.report.is_newer_than_known(),
            imported: known.and_then(|known| known.imported),
            printed: known.map(|known| known.printed.clone()).unwrap_or_default(),
            path: self.root.join(way),
            root: self.root.to_path_buf(),
            way: way.to_path_buf(),
            state,
            branch: None,
            session: known.and_then(|known| known.session.clone()),
            was_read: true,
            is_elsewhere: false,
            report: seen.report,
        }
    }

    fn database(&mut self) {
        let way = Path::new(DATABASE);
        let path = self.root.join(way);
        let state = match self.database_state() {
            Ok(state) => state,
            Err(e) if e.kind() == ErrorKind::NotFound => return,
            Err(e) => return self.errors.push(unreadable(&path, &e)),
        };
        let cached = self.cache.of(&path).iter();
        let known: Vec<Found> = cached
            .filter_map(|cached| Found::stored(cached, self.root, way))
            .collect();
        // All sessions of a database are stored together.
        if known.iter().any(|known| known.state == state) {
            let now = known.into_iter().filter(|known| known.state == state);
            let is_here = |one: &Found| (self.is_here)(one.about.folder.as_ref());
            return self.found.extend(now.filter(is_here));
        }
        let database = match Database::copy(self.folder, DATABASE) {
            Ok(database) => database,
            Err(e) => return self.errors.push(unreadable(&path, &e)),
        };
        let mut report = Report::default();
        for listed in database.sessions(&mut report) {
            let is_elsewhere = !(self.is_here)(listed.about.folder.as_ref());
            let (bytes, seen) = seen(self.agent, report.clone(), |report, sink| {
                database.read(&listed.about.id, report, sink)
            });
            let known = known.iter().find(|known| known.about.id == listed.about.id);
            let size_and_time = (bytes, listed.updated_ms);
            let one = self.described(listed.about, way, state, known, seen, size_and_time);
            self.found.push(Found {
                is_elsewhere,
                ..one
            });
        }
        if let (Some(why), true) = (report.partial.first(), self.found.is_empty()) {
            self.errors.push(SourceError {
                path,
                why: why.clone(),
            });
        }
    }

    fn has_database_of_here(&self) -> bool {
        let is_small = |state: FileState| state.bytes <= MAX_DATABASE;
        if !self.database_state().is_ok_and(is_small) {
            return false;
        }
        let database = Database::copy(self.folder, DATABASE);
        let listed = database.map(|database| database.sessions(&mut Report::default()));
        let mut listed = listed.into_iter().flatten();
        listed.any(|listed| (self.is_here)(listed.about.folder.as_ref()))
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

/// The sum of the pieces of a session.
#[derive(Default)]
struct Seen {
    first_words: Option<String>,
    updated_ms: i64,
    open_calls: u64,
    report: Report,
}

/// Reads a session and returns what the list shows of it. It is converted as for an import, so both
/// count the same.
fn seen<T>(
    agent: Agent,
    mut report: Report,
    read: impl FnOnce(&mut Report, Sink<'_>) -> T,
) -> (T, Seen) {
    let mut seen = Seen::default();
    let mut ignored = |_, _, _| {};
    let mut normal = Normal::new(agent, &About::default(), &mut ignored);
    let read = read(&mut report, &mut |piece| {
        seen.updated_ms = seen.updated_ms.max(piece.at_ms());
        if let (Piece::Said { text, .. }, None) = (&piece, &seen.first_words) {
            seen.first_words = Some(title_line(text, TITLE_CHARS));
        }
        normal.take(piece);
    });
    let ended = normal.end();
    seen.open_calls = ended.without_result;
    report.add(ended.report);
    seen.report = report;
    (read, seen)
}

/// Returns the folder that one of the first lines names.
fn head_folder(file: File) -> io::Result<Option<PathBuf>> {
    let mut lines = head(file)?;
    let mut found = None;
    for _ in 0..HEAD_LINES {
        let Some(line) = lines.next(&mut Report::default())? else {
            break;
        };
        let places = [
            text(&line.value, &["cwd"]),
            text(&line.value, &["payload", "cwd"]),
        ];
        found = places
            .into_iter()
            .find(|text| !text.is_empty())
            .map(PathBuf::from);
        if found.is_some() {
            break;
        }
    }
    Ok(found)
}

/// Returns the folder of a project of gemini-cli. `way`: `tmp/NAME/chats/FILE`.
fn project_root(folder: &Folder, way: &Path) -> Option<PathBuf> {
    let project = way.parent()?.parent()?.join(PROJECT_ROOT);
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
