//! Export: one state of the database as a bundle.

use std::io::Write;

use super::BundleError;
use super::format::{About, End, Ended, FORM, FrameWriter, Listed};
use crate::journal::line::BlobLine;
use crate::store::{ExportView, Planned, SessionPart};

/// A bundle that is about to be written.
pub struct Exporting<'v> {
    view: &'v ExportView<'v>,
    planned: Vec<Planned>,
    about: About,
    missing_blobs: u64,
}

/// What a bundle contains, for a person.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exported {
    /// Number of sessions, ancestors and subagents included.
    pub sessions: u64,
    /// Number of their own entries.
    pub entries: u64,
    /// Number of queued messages and signals, which are left out.
    pub waiting: u64,
    /// Number of large outputs that the store has lost.
    pub missing_blobs: u64,
}

impl<'v> Exporting<'v> {
    /// Reads all entries once, so that damage is found before anything is written.
    ///
    /// # Errors
    /// A session is unknown or damaged.
    pub fn new(
        view: &'v ExportView<'v>,
        named: &[String],
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
                store: store.to_string(),
                host,
                os: std::env::consts::OS.to_string(),
                at_ms,
                sessions: listed.map(Listed::of).collect(),
                lines: 0,
                bytes: 0,
            },
            view,
            planned,
            missing_blobs: 0,
        };
        let (mut lines, mut bytes) = (0, 0);
        exporting.missing_blobs = exporting.lines(&mut |line| {
            lines += 1;
            bytes += line.len() as u64 + 1;
            Ok(())
        })?;
        (exporting.about.lines, exporting.about.bytes) = (lines, bytes);
        Ok(exporting)
    }

    /// Returns what it contains.
    pub fn summary(&self) -> Result<Exported, BundleError> {
        let mut summary = Exported {
            sessions: self.planned.len() as u64,
            missing_blobs: self.missing_blobs,
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
        self.lines(&mut |line| Ok(frames.line(line)?))?;
        let end = Ended {
            lines: self.about.lines + 2,
            sessions: self.planned.len() as u64,
        };
        frames.line(&json(&End { end })?)?;
        Ok(frames.finish()?)
    }

    /// Passes on the lines of all sessions. Returns the number of blobs that are missing.
    fn lines(
        &self,
        each: &mut dyn FnMut(&[u8]) -> Result<(), BundleError>,
    ) -> Result<u64, BundleError> {
        let mut missing = 0;
        for session in &self.planned {
            each(&json(&session.header)?)?;
            missing += self
                .view
                .read::<BundleError>(session, &mut |part| match part {
                    SessionPart::Blob(bytes) => each(&json(&BlobLine::of(bytes))?),
                    SessionPart::Entry(line) => each(&json(line)?),
                })?;
        }
        Ok(missing)
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

fn json(line: &impl serde::Serialize) -> Result<Vec<u8>, BundleError> {
    serde_json::to_vec(line).map_err(|e| BundleError::Io(e.into()))
}
