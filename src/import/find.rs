//! Finds the sessions of other agents below the home folder.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::lines::{Lines, text};
use super::open::regular;
use super::opencode::Database;
use super::{About, Agent, OpenCalls, Piece, Report, claude, codex, gemini, pi, qwen};
use crate::config::Env;
use crate::core::marks::title_line;
use crate::workspace::handle::Folder;

/// Maximum number of lines that are read to find the folder of a session.
const HEAD_LINES: usize = 50;
/// Maximum length of a title, characters.
const TITLE_CHARS: usize = 200;
/// The database of opencode.
const DATABASE: &str = "opencode.db";
/// The file in which gemini-cli stores the folder of a project.
const PROJECT_ROOT: &str = ".project_root";

/// A session of another agent.
#[derive(Debug)]
pub struct Found {
    pub agent: Agent,
    pub about: About,
    /// The file that contains it.
    pub path: PathBuf,
    /// The time of its last line, milliseconds since 1970.
    pub updated_ms: i64,
    pub bytes: u64,
    /// Calls without a result.
    pub open_calls: u64,
    pub report: Report,
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
    /// `only`: those of this agent. `folders`: those of these folders. Both `None`: all.
    pub fn list(
        &self,
        only: Option<Agent>,
        folders: Option<&[PathBuf]>,
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
            let mut reading = Reading {
                root,
                agent: *agent,
                folder: &opened,
                is_here: &is_here,
                found: &mut found,
                errors: &mut errors,
            };
            match agent {
                Agent::Opencode => reading.database(),
                _ => reading.files(parts(*agent), &opened, Path::new("")),
            }
        }
        found.sort_by(|a, b| (b.updated_ms, &b.path).cmp(&(a.updated_ms, &a.path)));
        (found, errors)
    }
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
    found: &'a mut Vec<Found>,
    errors: &'a mut Vec<SourceError>,
}

impl Reading<'_> {
    fn files(&mut self, parts: &[Part], folder: &Folder, way: &Path) {
        let Some((part, rest)) = parts.split_first() else {
            return;
        };
        let listed = match folder.list() {
            Ok(listed) => listed,
            Err(e) => return self.errors.push(unreadable(&self.root.join(way), &e)),
        };
        for (name, kind) in listed {
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
        let path = self.root.join(way);
        let project = match self.agent {
            Agent::Gemini => project_root(self.folder, way),
            _ => None,
        };
        let read = regular(folder, name).and_then(|file| {
            if !(self.is_here)(project.clone().or(head_folder(file.try_clone()?)?).as_ref()) {
                return Ok(None);
            }
            let stat = file.metadata()?;
            let mut one = Found {
                agent: self.agent,
                about: About::default(),
                path: path.clone(),
                updated_ms: 0,
                bytes: stat.len(),
                open_calls: 0,
                report: Report::default(),
            };
            let mut seen = Seen::default();
            let mut report = Report::default();
            let mut sink = |piece: Piece| seen.take(&piece);
            let reader = match self.agent {
                Agent::Claude => claude::read,
                Agent::Codex => codex::read,
                Agent::Pi => pi::read,
                Agent::Qwen => qwen::read,
                Agent::Gemini => gemini::read,
                Agent::Opencode => return Ok(None),
            };
            one.about = reader(Lines::new(file), &mut report, &mut sink)?;
            one.about.folder = one.about.folder.or(project.clone());
            seen.end(&mut one, report, stat.mtime().saturating_mul(1_000));
            Ok(Some(one))
        });
        match read {
            Ok(one) => self.found.extend(one),
            Err(e) => self.errors.push(unreadable(&path, &e)),
        }
    }

    fn database(&mut self) {
        let path = self.root.join(DATABASE);
        let database = match Database::copy(self.folder, DATABASE) {
            Ok(database) => database,
            Err(e) if e.kind() == ErrorKind::NotFound => return,
            Err(e) => return self.errors.push(unreadable(&path, &e)),
        };
        let mut report = Report::default();
        let before = self.found.len();
        for listed in database.sessions(&mut report) {
            if !(self.is_here)(listed.about.folder.as_ref()) {
                continue;
            }
            let mut one = Found {
                agent: self.agent,
                about: listed.about,
                path: path.clone(),
                updated_ms: 0,
                bytes: 0,
                open_calls: 0,
                report: Report::default(),
            };
            let mut seen = Seen::default();
            let mut of_one = report.clone();
            let mut sink = |piece: Piece| seen.take(&piece);
            one.bytes = database.read(&one.about.id, &mut of_one, &mut sink);
            seen.end(&mut one, of_one, listed.updated_ms);
            self.found.push(one);
        }
        let why = report
            .partial
            .first()
            .filter(|_| self.found.len() == before);
        if let Some(why) = why {
            self.errors.push(SourceError {
                path,
                why: why.clone(),
            });
        }
    }
}

/// The sum of the pieces of a session.
#[derive(Default)]
struct Seen {
    calls: OpenCalls,
    first_words: Option<String>,
    updated_ms: i64,
    extra: u64,
}

impl Seen {
    fn take(&mut self, piece: &Piece) {
        let (Piece::Said { at_ms, .. }
        | Piece::Text { at_ms, .. }
        | Piece::Call { at_ms, .. }
        | Piece::Result { at_ms, .. }
        | Piece::Summary { at_ms, .. }) = piece;
        self.updated_ms = self.updated_ms.max(*at_ms);
        if let (Piece::Said { text, .. }, None) = (piece, &self.first_words) {
            self.first_words = Some(title_line(text, TITLE_CHARS));
        }
        let is_extra = !self.calls.take(piece);
        self.extra += u64::from(is_extra);
    }

    fn end(self, one: &mut Found, report: Report, otherwise_ms: i64) {
        one.report = report;
        one.open_calls = self.calls.count();
        // gemini-cli writes each result twice.
        if !matches!(one.agent, Agent::Gemini) {
            one.report.extra_results += self.extra;
        }
        one.updated_ms = match self.updated_ms {
            0 => otherwise_ms,
            at_ms => at_ms,
        };
        let title = one.about.title.take();
        one.about.title = title
            .map(|title| title_line(&title, TITLE_CHARS))
            .or(self.first_words);
    }
}

/// Returns the folder that one of the first lines names.
fn head_folder(file: File) -> io::Result<Option<PathBuf>> {
    let mut lines = Lines::new(file);
    lines.rewind()?;
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
    // The copy of a descriptor has the same position in the file.
    lines.rewind()?;
    Ok(found)
}

/// Returns the folder of a project of gemini-cli. `way`: `tmp/NAME/chats/FILE`.
fn project_root(folder: &Folder, way: &Path) -> Option<PathBuf> {
    let project = way.parent()?.parent()?.join(PROJECT_ROOT);
    let file = regular(folder, &project).ok()?;
    let mut text = String::new();
    io::Read::read_to_string(&mut io::Read::take(file, 4_096), &mut text).ok()?;
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
