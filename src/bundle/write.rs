//! Export: one state of the database as a bundle.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;

use super::BundleError;
use super::format::{About, ContentLine, End, Ended, FORM, FrameWriter, Listed, TreeLine};
use crate::core::entry::Seq;
use crate::journal::line::{BlobLine, EntryLine, Header};
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
            let read = self
                .view
                .read::<BundleError>(session, &mut |part| match part {
                    SessionPart::Blob(bytes) => each(&json(&BlobLine::of(bytes))?),
                    SessionPart::Entry(line) => each(&json(line)?),
                })?;
            done.push(read);
        }
        Ok(done)
    }

    /// Passes on the lines of the files. Returns the number of contents that are missing.
    fn file_lines(
        &self,
        each: &mut dyn FnMut(&[u8]) -> Result<(), BundleError>,
    ) -> Result<u64, BundleError> {
        self.view
            .read_files::<BundleError>(&self.files, &mut |part| match part {
                FilePart::Content(hash, bytes) => each(&json(&ContentLine::of(hash, &bytes))?),
                FilePart::Tree(tree) => each(&json(&TreeLine::of(tree))?),
            })
    }
}

/// Writes a bundle of one session that does not come from a store here. `blobs`: the bytes that its
/// entries refer to.
pub fn write_session<W: Write>(
    to: W,
    host: String,
    header: &Header,
    lines: &[EntryLine],
    blobs: &[Vec<u8>],
    at_ms: i64,
) -> Result<W, BundleError> {
    let mut all = vec![json(header)?];
    for blob in blobs {
        all.push(json(&BlobLine::of(blob))?);
    }
    for line in lines {
        all.push(json(line)?);
    }
    let bytes = all.iter().map(|line| line.len() as u64 + 1).sum();
    let about = About {
        bundle: FORM,
        rewake: env!("CARGO_PKG_VERSION").to_string(),
        schema: 0,
        store: header.store.clone(),
        host,
        os: String::new(),
        at_ms,
        sessions: vec![Listed {
            id: header.session.clone(),
            title: None,
            entries: lines.len() as u64,
            tip: lines.last().map_or(header.tip, |line| line.tip),
            bytes,
        }],
        lines: all.len() as u64,
        bytes,
    };
    let mut frames = FrameWriter::new(to)?;
    frames.line(&json(&about)?)?;
    for line in &all {
        frames.line(line)?;
    }
    let end = Ended {
        lines: about.lines + 2,
        sessions: 1,
    };
    frames.line(&json(&End { end })?)?;
    Ok(frames.finish()?)
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

fn json(line: &impl serde::Serialize) -> Result<Vec<u8>, BundleError> {
    serde_json::to_vec(line).map_err(|e| BundleError::Io(e.into()))
}
