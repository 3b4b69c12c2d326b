//! Export: one state of the database as a bundle.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Write;

use super::BundleError;
use super::format::{About, ContentLine, End, Ended, FORM, FrameWriter, Listed, TreeLine};
use crate::core::entry::Seq;
use crate::journal::chain_hash::ChainHash;
use crate::journal::line::{BlobLine, EntryLine, Header, MAX_HELD};
use crate::store::{ExportView, ExportedFiles, FilePart, Planned, SessionPart, SessionRead};

/// The states of files that are exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    None,
    /// The newest one of each session.
    Last,
    /// All that entries name.
    All,
}

/// A bundle that is about to be written.
pub struct Exporting<'v> {
    view: &'v ExportView<'v>,
    planned: Vec<Planned>,
    about: About,
    files: ExportedFiles,
    missing: Missing,
}

/// Number of parts that the store has lost.
#[derive(Debug, Clone, Copy, Default)]
struct Missing {
    blobs: u64,
    contents: u64,
}

/// The contents of a bundle, for a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exported {
    /// Number of sessions, ancestors and subagents included.
    pub sessions: u64,
    /// Number of their own entries.
    pub entries: u64,
    /// Number of queued messages and signals, which are left out.
    pub waiting: u64,
    /// Number of large outputs that the store has lost.
    pub missing_blobs: u64,
    /// Number of states of files.
    pub states: u64,
    /// Number of states and of contents of files that the store has lost.
    pub missing_files: u64,
    /// Paths whose content is not stored, with the reason.
    pub left_out: Vec<String>,
}

impl<'v> Exporting<'v> {
    /// Reads all entries once, so that damage is found before anything is written.
    ///
    /// # Errors
    /// A session is unknown or damaged.
    pub fn new(
        view: &'v ExportView<'v>,
        named: &[String],
        files: Files,
        host: String,
        at_ms: i64,
    ) -> Result<Exporting<'v>, BundleError> {
        let planned = view.plan(named)?;
        let (store, schema) = view.store();
        let listed = planned.iter().filter(|session| session.is_named);
        let mut exporting = Exporting {
            about: About {
                bundle: FORM,
                rewake: env!("CARGO_PKG_VERSION").to_string(),
                schema,
                store,
                host,
                os: std::env::consts::OS.to_string(),
                at_ms,
                sessions: listed.map(Listed::of).collect(),
                lines: 0,
                bytes: 0,
            },
            view,
            planned,
            files: ExportedFiles::default(),
            missing: Missing::default(),
        };
        let (mut lines, mut bytes) = (0, 0);
        let mut count = |line: &[u8]| {
            lines += 1;
            bytes += line.len() as u64 + 1;
            Ok(())
        };
        let read = exporting.sessions(&mut count)?;
        exporting.missing.blobs = read.iter().map(|session| session.missing_blobs).sum();
        exporting.files = exporting.find_files(&read, files)?;
        exporting.missing.contents = exporting.file_lines(&mut count)?;
        (exporting.about.lines, exporting.about.bytes) = (lines, bytes);
        Ok(exporting)
    }

    /// Returns the files to export.
    fn find_files(&self, read: &[SessionRead], files: Files) -> Result<ExportedFiles, BundleError> {
        let headers = self.planned.iter().map(|session| &session.header);
        let by_id: HashMap<&str, _> = headers
            .zip(read)
            .map(|(header, read)| (header.session.as_str(), (header, read)))
            .collect();
        let of = |id: &str| by_id.get(id).copied();
        // The newest tree up to a place, in the session or in those that it continues.
        let newest = |id: &str| {
            let (mut id, mut upto) = (id, Seq::MAX);
            loop {
                let (header, read) = of(id)?;
                let own = read.trees.iter().rev().find(|(seq, _)| *seq <= upto);
                match (own, &header.forked) {
                    (Some((_, tree)), _) => return Some(tree.clone()),
                    (None, Some(forked)) => (id, upto) = (&forked.session, forked.seq),
                    (None, None) => return None,
                }
            }
        };
        let ids = self.planned.iter().map(|s| s.header.session.as_str());
        let last: BTreeSet<String> = match files {
            Files::None => return Ok(ExportedFiles::default()),
            Files::Last | Files::All => ids.filter_map(newest).collect(),
        };
        let mut names = last.clone();
        if files == Files::All {
            let all = read.iter().flat_map(|session| &session.trees);
            names.extend(all.map(|(_, tree)| tree.clone()));
        }
        Ok(self.view.files(&names, &last)?)
    }

    /// Returns what it contains.
    pub fn summary(&self) -> Result<Exported, BundleError> {
        let mut summary = Exported {
            sessions: self.planned.len() as u64,
            missing_blobs: self.missing.blobs,
            states: self.files.states,
            missing_files: self.files.missing + self.missing.contents,
            left_out: self.files.left_out.iter().cloned().collect(),
            ..Exported::default()
        };
        for session in &self.planned {
            summary.entries += session.end.saturating_sub(session.header.first);
            summary.waiting += self.view.waiting(&session.header.session)?;
        }
        Ok(summary)
    }

    /// Writes the bundle.
    pub fn write<W: Write>(&self, to: W) -> Result<W, BundleError> {
        let mut frames = FrameWriter::new(to)?;
        frames.line(&json(&self.about)?)?;
        let mut line = |line: &[u8]| Ok(frames.line(line)?);
        self.sessions(&mut line)?;
        self.file_lines(&mut line)?;
        let end = Ended {
            lines: self.about.lines + 2,
            sessions: self.planned.len() as u64,
        };
        frames.line(&json(&End { end })?)?;
        Ok(frames.finish()?)
    }

    /// Passes on the lines of all sessions.
    fn sessions(
        &self,
        each: &mut dyn FnMut(&[u8]) -> Result<(), BundleError>,
    ) -> Result<Vec<SessionRead>, BundleError> {
        let mut done = Vec::new();
        for session in &self.planned {
            each(&json(&session.header)?)?;
            let mut too_large = 0;
            let mut read = self
                .view
                .read::<BundleError>(session, &mut |part| match part {
                    SessionPart::Blob(bytes) => {
                        let line = json(&BlobLine::of(bytes))?;
                        if fits(&line) {
                            return each(&line);
                        }
                        too_large += 1;
                        Ok(())
                    }
                    SessionPart::Entry(line) => each(&bounded(json(line)?)?),
                })?;
            read.missing_blobs += too_large;
            done.push(read);
        }
        Ok(done)
    }

    /// Passes on the lines of the files. Returns the number of contents that are missing.
    fn file_lines(
        &self,
        each: &mut dyn FnMut(&[u8]) -> Result<(), BundleError>,
    ) -> Result<u64, BundleError> {
        let mut too_large = 0;
        let missing = self
            .view
            .read_files::<BundleError>(&self.files, &mut |part| match part {
                FilePart::Content(hash, bytes) => {
                    let line = json(&ContentLine::of(hash, &bytes))?;
                    if fits(&line) {
                        return each(&line);
                    }
                    too_large += 1;
                    Ok(())
                }
                FilePart::Tree(tree) => each(&bounded(json(&TreeLine::of(tree))?)?),
            })?;
        Ok(missing + too_large)
    }
}

/// A session that does not come from a store here, part by part, on its way into a bundle.
pub struct SessionSpool {
    frames: FrameWriter<File>,
    header: Header,
    entries: u64,
    tip: ChainHash,
    lines: u64,
    bytes: u64,
}

impl SessionSpool {
    /// `file`: a file without a name, which gets the parts.
    pub fn new(file: File, header: Header) -> Result<SessionSpool, BundleError> {
        let mut spool = SessionSpool {
            frames: FrameWriter::new(file)?,
            entries: 0,
            tip: header.tip,
            lines: 0,
            bytes: 0,
            header,
        };
        let line = json(&spool.header)?;
        spool.line(&line)?;
        Ok(spool)
    }

    fn line(&mut self, line: &[u8]) -> Result<(), BundleError> {
        self.lines += 1;
        self.bytes += line.len() as u64 + 1;
        Ok(self.frames.line(line)?)
    }

    /// Adds entries. `blobs`: the bytes that they refer to.
    ///
    /// # Errors
    /// The disk is full, or an entry is too large.
    pub fn add(&mut self, lines: &[EntryLine], blobs: &[Vec<u8>]) -> Result<(), BundleError> {
        for blob in blobs {
            let line = json(&BlobLine::of(blob))?;
            if fits(&line) {
                self.line(&line)?;
            }
        }
        for line in lines {
            self.line(&bounded(json(line)?)?)?;
            self.entries += 1;
            self.tip = line.tip;
        }
        Ok(())
    }

    /// Returns the size of all lines so far, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes the bundle.
    ///
    /// # Errors
    /// `Io`.
    pub fn finish<W: Write>(self, to: W, host: String, at_ms: i64) -> Result<W, BundleError> {
        let about = About {
            bundle: FORM,
            rewake: env!("CARGO_PKG_VERSION").to_string(),
            schema: 0,
            store: self.header.store,
            host,
            os: String::new(),
            at_ms,
            sessions: vec![Listed {
                id: self.header.session,
                title: None,
                entries: self.entries,
                tip: self.tip,
                bytes: self.bytes,
            }],
            lines: self.lines,
            bytes: self.bytes,
        };
        let mut frames = FrameWriter::new(to)?;
        frames.line(&json(&about)?)?;
        frames.append(self.frames.into_inner()?)?;
        let end = Ended {
            lines: about.lines + 2,
            sessions: 1,
        };
        frames.line(&json(&End { end })?)?;
        Ok(frames.finish()?)
    }
}

impl Listed {
    fn of(planned: &Planned) -> Listed {
        Listed {
            id: planned.header.session.clone(),
            title: planned.title.clone(),
            entries: planned.end,
            tip: planned.tip,
            bytes: planned.bytes,
        }
    }
}

/// Returns whether a reader takes a line of this size.
fn fits(line: &[u8]) -> bool {
    line.len() < MAX_HELD
}

/// Fails if a line is longer than a reader takes.
fn bounded(line: Vec<u8>) -> Result<Vec<u8>, BundleError> {
    if fits(&line) {
        Ok(line)
    } else {
        let why = format!("a line has more than {} MiB", MAX_HELD >> 20);
        Err(BundleError::Io(std::io::Error::other(why)))
    }
}

fn json(line: &impl serde::Serialize) -> Result<Vec<u8>, BundleError> {
    serde_json::to_vec(line).map_err(|e| BundleError::Io(e.into()))
}
