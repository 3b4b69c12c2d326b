//! Reading and verifying a bundle.
//!
//! Invariant: nothing is passed on of a bundle that was not verified to its end. With `partial`, each
//! session ends at its last valid entry.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::BundleError;
use super::files::CheckedFiles;
use super::format::{
    About, ContentLine, End, Ended, FORM, FrameReader, TRAILER, TreeLine, check_trailer,
};
use crate::core::entry::{Entry, Record, Seq};
use crate::core::state::ForeignLog;
use crate::core::tool::Describe;
use crate::core::tree::{ContentHash, uses};
use crate::journal::chain_hash::ChainHash;
use crate::journal::line::{EntryLine, Header, Line, MAX_HELD, is_newer};
use crate::store::{MovedTree, is_session_id};

/// Maximum size of the first line, bytes.
const MAX_FIRST_LINE: u64 = 32 << 20;
/// Maximum size of the last line, bytes.
const MAX_LAST_LINE: u64 = 1_024;
/// Maximum number of sessions of a bundle.
const MAX_SESSIONS: usize = 100_000;
/// Maximum size of the states that are kept for forks, as bytes of their entries.
const MAX_KEPT: usize = 512 << 20;

/// The bytes of a bundle, in a file without a name that nobody else can open. A kill leaves nothing.
pub struct InputFile {
    file: File,
    size: u64,
    /// Size of the frames: all before the hash at the end, if there is one.
    frames: u64,
}

impl InputFile {
    /// Copies all bytes into a file on the disk of this folder.
    pub fn copy(mut from: impl Read, folder: &Path) -> Result<InputFile, BundleError> {
        let mut file = tempfile::tempfile_in(folder)?;
        let size = io::copy(&mut from, &mut file)?;
        Ok(InputFile {
            file,
            size,
            frames: size.saturating_sub(TRAILER),
        })
    }

    fn at_begin(&self) -> io::Result<&File> {
        (&self.file).seek(SeekFrom::Start(0))?;
        Ok(&self.file)
    }
}

/// A session of a bundle that was verified.
#[derive(Debug)]
pub struct CheckedSession {
    pub header: Header,
    /// The tips of the entries that it recorded itself, from `header.first` on.
    pub tips: Vec<ChainHash>,
    /// The session that started it as a subagent.
    pub parent: Option<String>,
    /// Number of calls that are open at its end.
    pub open_calls: u64,
    /// The trees of the bundle that its own entries name.
    pub trees: BTreeSet<String>,
    /// It was asked for at the export.
    pub is_named: bool,
}

impl CheckedSession {
    /// Returns the sequence number after its last entry.
    pub fn end(&self) -> Seq {
        self.header.first + self.tips.len() as u64
    }

    /// Returns the tip of the entry before this place.
    fn tip_before(&self, place: Seq) -> Option<ChainHash> {
        match place.checked_sub(self.header.first)? {
            0 => Some(self.header.tip),
            own => self.tips.get(usize::try_from(own).ok()? - 1).copied(),
        }
    }
}

/// A bundle that was verified.
pub struct Bundle {
    pub(super) input: InputFile,
    pub about: About,
    pub sessions: Vec<CheckedSession>,
    pub files: CheckedFiles,
    /// The reason why not all of it is here. It is there only with `partial`.
    pub loss: Option<BundleError>,
}

impl Bundle {
    /// Verifies all bytes of a bundle, and that the entries of each session may follow each other.
    ///
    /// `partial`: a damaged bundle is read up to the damage.
    pub fn check(
        mut input: InputFile,
        describe: Describe,
        partial: bool,
    ) -> Result<Bundle, BundleError> {
        let whole = check_trailer(input.at_begin()?, input.size);
        let mut loss = None;
        if let Err(error) = whole {
            match partial && error.is_damage() {
                true => loss = Some(error),
                false => return Err(error),
            }
            // It was cut, so its last bytes may be those of a frame.
            input.frames = input.size;
        }
        let mut structure = Structure::default();
        let read = structure.read(&input);
        if let Err(error) = read {
            match partial && error.is_damage() && structure.about.is_some() {
                true => loss = Some(error),
                false => return Err(error),
            }
        }
        let Some(about) = structure.about else {
            return Err(BundleError::damaged("its begin", "it has no line"));
        };
        let mut sessions = structure.sessions;
        // A session without an entry is nothing.
        sessions.retain(|session| !session.tips.is_empty());
        let mut bundle = Bundle {
            input,
            about,
            sessions,
            files: structure.files,
            loss,
        };
        bundle.fold(describe, partial)?;
        Ok(bundle)
    }

    /// Returns a reader of the lines of its sessions, as they were verified.
    pub(super) fn reader(&self) -> Result<Reader<'_>, BundleError> {
        let numbers = self.sessions.iter().map(|s| s.header.session.as_str());
        Ok(Reader {
            lines: Lines::new(&self.input)?,
            numbers: numbers.zip(0..).collect(),
            bundle: self,
            session: None,
            next: 0,
            peeked: None,
        })
    }

    /// Folds each session from its first entry. With `partial`, a session ends before the entry that
    /// may not stand where it stands.
    fn fold(&mut self, describe: Describe, partial: bool) -> Result<(), BundleError> {
        // The states at the entries that forks continue.
        let mut shared: BTreeMap<(String, Seq), Shared> = BTreeMap::new();
        for session in &self.sessions {
            if let Some(forked) = &session.header.forked {
                let key = (forked.session.clone(), forked.seq);
                shared.entry(key).or_default().forks += 1;
            }
        }
        let mut folding = Folding {
            describe,
            shared,
            made_by: self.about.rewake.clone(),
            files: &self.files,
            kept: 0,
            open: None,
            ends: BTreeMap::new(),
        };
        let mut reader = self.reader()?;
        for (number, session) in self.sessions.iter().enumerate() {
            while let Some(line) = reader.next_of(number)? {
                folding.take(number, session, line, partial)?;
            }
        }
        drop(reader);
        folding.end_session();
        let mut ends = folding.ends;
        for (number, session) in self.sessions.iter_mut().enumerate() {
            let Some(ended) = ends.remove(&number) else {
                session.tips.clear();
                continue;
            };
            let own = ended.end.saturating_sub(session.header.first);
            session
                .tips
                .truncate(usize::try_from(own).unwrap_or(usize::MAX));
            session.parent = ended.parent;
            session.open_calls = ended.open_calls;
            session.trees = ended.trees;
            if let Some(why) = ended.why {
                self.loss.get_or_insert(why);
            }
        }
        self.sessions.retain(|session| !session.tips.is_empty());
        match self.loss {
            None => self.check_needed(),
            Some(_) => Ok(()),
        }
    }

    /// Refuses sessions that the first line does not name and that no named one needs: nobody would be
    /// told about them.
    fn check_needed(&self) -> Result<(), BundleError> {
        let ids = self.sessions.iter().map(|s| s.header.session.as_str());
        let numbers: HashMap<&str, usize> = ids.zip(0..).collect();
        let needs = |session: &CheckedSession| {
            let forked = session.header.forked.as_ref();
            forked.and_then(|forked| numbers.get(forked.session.as_str()).copied())
        };
        let mut children: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, session) in self.sessions.iter().enumerate() {
            let parent = session.parent.as_deref().and_then(|id| numbers.get(id));
            if let Some(parent) = parent {
                children.entry(*parent).or_default().push(number);
            }
        }
        let named = (0..).zip(&self.sessions).filter(|(_, s)| s.is_named);
        let mut open: Vec<usize> = named.map(|(number, _)| number).collect();
        let mut needed = BTreeSet::new();
        while let Some(number) = open.pop() {
            if needed.insert(number) {
                open.extend(needs(&self.sessions[number]));
                open.extend(children.get(&number).into_iter().flatten());
            }
        }
        let other = (0..).zip(&self.sessions).find(|(n, _)| !needed.contains(n));
        match other {
            Some((_, other)) => Err(BundleError::refused(
                format!("session {}", other.header.session),
                "no session that the first line names needs it",
            )),
            None => Ok(()),
        }
    }
}

/// A line of a session that was verified.
pub(super) enum BundleLine {
    Blob(Vec<u8>),
    Entry(EntryLine),
}

/// Reads the lines of the sessions of a bundle, one session after the other.
pub(super) struct Reader<'b> {
    lines: Lines<'b>,
    bundle: &'b Bundle,
    numbers: BTreeMap<&'b str, usize>,
    /// The session that is being read. `None`: it is not wanted.
    session: Option<usize>,
    /// Sequence number of its next entry.
    next: Seq,
    /// A line of a later session.
    peeked: Option<(usize, BundleLine)>,
}

impl Reader<'_> {
    /// Returns the next line of this session. `None`: it has no more. Lines of earlier sessions are
    /// passed over.
    pub(super) fn next_of(&mut self, number: usize) -> Result<Option<BundleLine>, BundleError> {
        loop {
            if self.peeked.is_none() {
                self.peeked = self.next()?;
            }
            match &self.peeked {
                Some((of, _)) if *of < number => self.peeked = None,
                Some((of, _)) if *of == number => {
                    return Ok(self.peeked.take().map(|(_, line)| line));
                }
                _ => return Ok(None),
            }
        }
    }

    fn next(&mut self) -> Result<Option<(usize, BundleLine)>, BundleError> {
        loop {
            let line = match self.lines.next() {
                Ok(Some(BundlePart::Line(line))) => line,
                Ok(Some(BundlePart::Content(..) | BundlePart::Tree(_))) => continue,
                Ok(None) => return Ok(None),
                // With `partial`, what follows the damage is not wanted.
                Err(_) if self.bundle.loss.is_some() => return Ok(None),
                Err(error) => return Err(error),
            };
            // After its last verified entry, nothing of a session is wanted.
            let end = |number: &usize| self.bundle.sessions[*number].end();
            let session = self.session.filter(|number| self.next < end(number));
            match (line, session) {
                (Line::Header(header), _) => {
                    self.session = self.numbers.get(header.session.as_str()).copied();
                    self.next = header.first;
                }
                (Line::Blob(bytes), Some(number)) => {
                    return Ok(Some((number, BundleLine::Blob(bytes))));
                }
                (Line::Entry(line), Some(number)) => {
                    self.next += 1;
                    return Ok(Some((number, BundleLine::Entry(line))));
                }
                _ => {}
            }
        }
    }
}

struct Folding<'b> {
    describe: Describe,
    files: &'b CheckedFiles,
    shared: BTreeMap<(String, Seq), Shared>,
    /// Size of the states in `shared`, as bytes of their entries.
    kept: usize,
    made_by: String,
    open: Option<(usize, String, Option<ForeignLog>, FoldedEnd)>,
    ends: BTreeMap<usize, FoldedEnd>,
}

/// The state at an entry that forks continue.
#[derive(Default)]
struct Shared {
    log: Option<ForeignLog>,
    /// Number of forks that have not taken it yet.
    forks: u64,
}

/// The end of a session that was folded.
#[derive(Default)]
struct FoldedEnd {
    end: Seq,
    parent: Option<String>,
    open_calls: u64,
    trees: BTreeSet<String>,
    why: Option<BundleError>,
}

impl Folding<'_> {
    fn take(
        &mut self,
        number: usize,
        session: &CheckedSession,
        line: BundleLine,
        partial: bool,
    ) -> Result<(), BundleError> {
        let BundleLine::Entry(line) = line else {
            return Ok(());
        };
        if self.open.as_ref().is_none_or(|(open, ..)| *open != number) {
            self.end_session();
            let id = session.header.session.clone();
            let log = match &session.header.forked {
                None => Some(ForeignLog::new(self.describe)),
                Some(forked) => self.continued(&(forked.session.clone(), forked.seq)),
            };
            if log.is_none() && !partial {
                let why = "the entry that it continues is not there";
                return Err(BundleError::damaged(format!("session {id}"), why));
            }
            let ended = FoldedEnd {
                end: session.header.first,
                ..FoldedEnd::default()
            };
            self.open = Some((number, id, log, ended));
        }
        let Some((_, id, Some(log), ended)) = &mut self.open else {
            return Ok(());
        };
        if ended.why.is_some() {
            return Ok(());
        }
        let place = format!("entry {} of session {id}", line.seq);
        let folded = entry(&line, &place, &self.made_by).and_then(|entry| {
            if let Entry::Assigned(assignment) = &entry {
                ended.parent = Some(assignment.parent.clone());
            }
            let trees = uses(&entry).filter(|tree| self.files.has(tree));
            ended.trees.extend(trees.map(str::to_string));
            let record = Record {
                seq: line.seq,
                at_ms: line.at_ms,
                entry,
            };
            let folded = log.fold(&record, line.entry.get().len());
            folded.map_err(|why| BundleError::damaged(&place, why))
        });
        match folded {
            Ok(()) => {
                ended.end = line.seq + 1;
                let Some(kept) = self.shared.get_mut(&(id.clone(), line.seq)) else {
                    return Ok(());
                };
                self.kept += log.held();
                if self.kept > MAX_KEPT {
                    let why = "too many forks of long sessions for one bundle";
                    return Err(BundleError::refused(place, why));
                }
                kept.log = Some(log.clone());
                Ok(())
            }
            Err(error) if partial && error.is_damage() => {
                ended.why = Some(error);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the state that a fork continues. `None`: an ancestor has lost the entry.
    fn continued(&mut self, key: &(String, Seq)) -> Option<ForeignLog> {
        let shared = self.shared.get_mut(key)?;
        shared.forks -= 1;
        match shared.forks {
            0 => {
                let log = shared.log.take();
                self.kept -= log.as_ref().map_or(0, ForeignLog::held);
                log
            }
            _ => shared.log.clone(),
        }
    }

    fn end_session(&mut self) {
        if let Some((number, _, Some(log), mut ended)) = self.open.take() {
            let open = log.state.calls.iter().filter(|call| !call.finished);
            ended.open_calls = open.count() as u64;
            self.ends.insert(number, ended);
        }
    }
}

/// Returns the entry of a line.
fn entry(line: &EntryLine, place: &str, made_by: &str) -> Result<Entry, BundleError> {
    serde_json::from_str(line.entry.get()).map_err(|e| {
        let why = e.to_string();
        match why.starts_with("unknown variant") {
            true => BundleError::Newer {
                why: format!("{place} is of a kind that is not known here"),
                made_by: made_by.to_string(),
            },
            false => BundleError::damaged(place, why),
        }
    })
}

/// A line between the first and the last one, whose hash was checked if it has one.
pub(super) enum BundlePart {
    Line(Line),
    Content(ContentHash, Vec<u8>),
    Tree(MovedTree),
}

/// The lines of a bundle between the first and the last one.
pub(super) struct Lines<'i> {
    frames: FrameReader<BufReader<&'i File>>,
    line: Vec<u8>,
    number: u64,
    bytes: u64,
    about: About,
    end: Option<Ended>,
}

impl<'i> Lines<'i> {
    pub(super) fn new(input: &'i InputFile) -> Result<Lines<'i>, BundleError> {
        let file = BufReader::new(input.at_begin()?);
        let mut lines = Lines {
            frames: FrameReader::new(file, input.frames)?,
            line: Vec::new(),
            number: 0,
            bytes: 0,
            about: About::default(),
            end: None,
        };
        if !lines.read_line(MAX_FIRST_LINE)? {
            return Err(lines.damaged("it has no line"));
        }
        lines.about = lines.first()?;
        lines.bytes = 0;
        Ok(lines)
    }

    fn first(&self) -> Result<About, BundleError> {
        #[derive(serde::Deserialize)]
        struct Form {
            bundle: u32,
            #[serde(default)]
            rewake: String,
        }
        let form: Form =
            serde_json::from_slice(&self.line).map_err(|_| self.damaged("it is no bundle"))?;
        if form.bundle != FORM {
            return Err(BundleError::Newer {
                why: format!("its format is {}, and {FORM} is known", form.bundle),
                made_by: form.rewake,
            });
        }
        serde_json::from_slice(&self.line).map_err(|e| self.damaged(&e.to_string()))
    }

    /// Returns the next line. `None`: the last line was reached, and nothing follows it.
    pub(super) fn next(&mut self) -> Result<Option<BundlePart>, BundleError> {
        let left = self.about.bytes.saturating_sub(self.bytes) + MAX_LAST_LINE;
        if self.end.is_some() || !self.read_line(left.min(MAX_HELD as u64))? {
            return Err(self.damaged("the last line is missing"));
        }
        if self.line.starts_with(b"{\"end\"") {
            let End { end } =
                serde_json::from_slice(&self.line).map_err(|e| self.damaged(&e.to_string()))?;
            let is_whole = self.about.lines.checked_add(2) == Some(end.lines)
                && end.lines == self.number
                && self.bytes - self.line.len() as u64 - 1 == self.about.bytes;
            if !is_whole {
                return Err(self.damaged("the numbers of lines and bytes are others than it says"));
            }
            self.end = Some(end);
            let mut rest = [0];
            return match self.frames.read(&mut rest).map_err(|e| self.failed(e))? {
                0 => Ok(None),
                _ => Err(self.damaged("something follows the last line")),
            };
        }
        let is_more = self.number - 1 > self.about.lines || self.bytes > self.about.bytes;
        if is_more {
            return Err(self.damaged("it has more lines or bytes than the first line says"));
        }
        if self.line.starts_with(b"{\"content\"") {
            let content = serde_json::from_slice::<ContentLine<'_>>(&self.line).ok();
            let (hash, bytes) = content
                .and_then(|content| content.bytes())
                .ok_or_else(|| self.damaged("its bytes do not match its hash"))?;
            return Ok(Some(BundlePart::Content(hash, bytes)));
        }
        if self.line.starts_with(b"{\"tree\"") {
            let tree = serde_json::from_slice::<TreeLine>(&self.line).ok();
            let tree = tree.and_then(TreeLine::tree);
            let tree = tree.ok_or_else(|| self.damaged("it is no tree"))?;
            return Ok(Some(BundlePart::Tree(tree)));
        }
        match Line::read(&self.line) {
            Some(Line::Entry(line)) if line.taken.is_some() || line.signal.is_some() => {
                let why = "it names a queued message or a signal, which no export does";
                Err(BundleError::refused(format!("line {}", self.number), why))
            }
            Some(line) => Ok(Some(BundlePart::Line(line))),
            None if is_newer(&self.line) => Err(BundleError::Newer {
                why: format!("line {} is of a newer format", self.number),
                made_by: self.about.rewake.clone(),
            }),
            None => {
                Err(self.damaged("it is no line of a bundle, or its bytes do not match its hash"))
            }
        }
    }

    fn read_line(&mut self, most: u64) -> Result<bool, BundleError> {
        self.line.clear();
        let read = (&mut self.frames)
            .take(most)
            .read_until(b'\n', &mut self.line);
        self.number += 1;
        let read = read.map_err(|e| self.failed(e))?;
        self.bytes += read as u64;
        match (read, self.line.pop()) {
            (0, _) => Ok(false),
            (_, Some(b'\n')) => Ok(true),
            _ => Err(self.damaged("it is cut or too long")),
        }
    }

    fn failed(&self, error: io::Error) -> BundleError {
        match error.kind() {
            io::ErrorKind::InvalidData => self.damaged(&error.to_string()),
            _ => BundleError::Io(error),
        }
    }

    fn damaged(&self, why: &str) -> BundleError {
        BundleError::damaged(format!("line {}", self.number), why)
    }
}

/// The sessions of a bundle, with the tips of their entries.
#[derive(Default)]
struct Structure {
    about: Option<About>,
    sessions: Vec<CheckedSession>,
    /// Their places in it.
    numbers: HashMap<String, usize>,
    files: CheckedFiles,
}

impl Structure {
    fn read(&mut self, input: &InputFile) -> Result<(), BundleError> {
        let mut lines = Lines::new(input)?;
        let named: HashSet<String> = lines.about.sessions.iter().map(|s| s.id.clone()).collect();
        if named.len() != lines.about.sessions.len() || named.len() > MAX_SESSIONS {
            return Err(BundleError::refused(
                "its first line",
                "it names a session twice, or too many",
            ));
        }
        let disk = rustix::fs::fstatvfs(&input.file).map_err(io::Error::from)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if lines.about.bytes > free {
            let needed = lines.about.bytes;
            return Err(BundleError::NoSpace { needed, free });
        }
        self.about = Some(lines.about.clone());
        while let Some(line) = lines.next()? {
            let place = format!("line {}", lines.number);
            let line = match line {
                BundlePart::Line(_) if self.files.have_begun() => {
                    let why = "sessions come before files";
                    return Err(BundleError::refused(place, why));
                }
                BundlePart::Line(line) => line,
                BundlePart::Content(hash, bytes) => {
                    self.files.content(hash, &bytes, &place)?;
                    continue;
                }
                BundlePart::Tree(tree) => {
                    self.files.tree(&tree, &place)?;
                    continue;
                }
            };
            match line {
                Line::Header(header) => {
                    let is_named = named.contains(&header.session);
                    self.header(header, is_named, &place)?;
                }
                Line::Blob(_) if self.sessions.is_empty() => {
                    return Err(BundleError::damaged(place, "it belongs to no session"));
                }
                Line::Blob(_) => {}
                Line::Entry(line) => self.entry(&line, &place)?,
            }
        }
        let about = &lines.about;
        let ended = lines.end.as_ref().map_or(0, |end| end.sessions);
        if ended != self.sessions.len() as u64 {
            return Err(BundleError::damaged("its end", "a session is missing"));
        }
        for listed in &about.sessions {
            let found = self.numbers.get(&listed.id).map(|n| &self.sessions[*n]);
            let is_it = found.is_some_and(|session| {
                session.end() == listed.entries
                    && session.tip_before(listed.entries) == Some(listed.tip)
            });
            if !is_it {
                let why = "its entries are others than the first line says";
                return Err(BundleError::damaged(
                    format!("session {}", shown(&listed.id)),
                    why,
                ));
            }
        }
        Ok(())
    }

    fn header(&mut self, header: Header, is_named: bool, place: &str) -> Result<(), BundleError> {
        if !is_session_id(&header.session) {
            return Err(BundleError::refused(
                place,
                format!("{:?} is no ID of a session", shown(&header.session)),
            ));
        }
        if self.sessions.len() >= MAX_SESSIONS {
            return Err(BundleError::refused(place, "it has too many sessions"));
        }
        let is_there = |id: &str| self.numbers.get(id).map(|number| &self.sessions[*number]);
        if is_there(&header.session).is_some() {
            return Err(BundleError::damaged(
                place,
                "this session was there already",
            ));
        }
        let (first, tip) = match &header.forked {
            None => (0, Some(ChainHash::of_nothing())),
            Some(forked) => {
                let parent = is_there(&forked.session);
                let after = forked.seq.saturating_add(1);
                // The session that recorded the shared entry, not a fork of that one.
                let parent = parent.filter(|parent| parent.header.first < after);
                (after, parent.and_then(|parent| parent.tip_before(after)))
            }
        };
        if header.first != first || tip != Some(header.tip) {
            let why = "the entry that it continues is not there";
            return Err(BundleError::damaged(place, why));
        }
        self.numbers
            .insert(header.session.clone(), self.sessions.len());
        self.sessions.push(CheckedSession {
            header,
            tips: Vec::new(),
            parent: None,
            open_calls: 0,
            trees: BTreeSet::new(),
            is_named,
        });
        Ok(())
    }

    fn entry(&mut self, line: &EntryLine, place: &str) -> Result<(), BundleError> {
        let Some(session) = self.sessions.last_mut() else {
            return Err(BundleError::damaged(place, "it belongs to no session"));
        };
        let before = session.tips.last().copied().unwrap_or(session.header.tip);
        if line.seq != session.end() || !line.follows(before) {
            return Err(BundleError::damaged(
                place,
                "it does not follow the entry before it",
            ));
        }
        session.tips.push(line.tip);
        Ok(())
    }
}

fn shown(id: &str) -> String {
    crate::core::text::one_line(&crate::core::visible::visible(id), 60)
}
