//! Views of an open store: each has the methods of one subject, and borrows only what they need.

use std::path::Path;

use rusqlite::Connection;

use super::Store;
use super::copies::Copies;
use super::database::InUse;

/// Lists of sessions, and reads across them.
#[derive(Clone, Copy)]
pub struct History<'a> {
    pub(super) conn: &'a Connection,
    pub(super) copies: Option<&'a Copies>,
}

/// The full-text index of the entries and of the memories.
#[derive(Clone, Copy)]
pub struct Index<'a> {
    pub(super) conn: &'a Connection,
    pub(super) copies: Option<&'a Copies>,
    pub(super) in_use: &'a InUse,
}

/// Trees and contents of files.
#[derive(Clone, Copy)]
pub struct Snapshots<'a> {
    pub(super) conn: &'a Connection,
    pub(super) in_use: &'a InUse,
    /// The folder of packs.
    pub(super) packs: &'a Path,
}

/// Queued messages, signals and drafts.
#[derive(Clone, Copy)]
pub struct Inbox<'a> {
    pub(super) conn: &'a Connection,
}

/// Changes of queued messages, signals and drafts. All but streamed drafts are written to the journal
/// too; a failure of that is reported as a trouble of the journal and does not fail the change.
pub struct InboxWriter<'a> {
    pub(super) conn: &'a Connection,
    pub(super) in_use: &'a InUse,
    pub(super) copies: Option<&'a mut Copies>,
    /// See [`InboxWriter::of_mail`].
    pub(super) mail: Option<i64>,
}

/// The last known tool lists of MCP servers.
#[derive(Clone, Copy)]
pub struct Catalogue<'a> {
    pub(super) conn: &'a Connection,
    pub(super) copies: Option<&'a Copies>,
    pub(super) in_use: &'a InUse,
}

/// The limits of models that were learnt from their answers.
#[derive(Clone, Copy)]
pub struct Models<'a> {
    pub(super) conn: &'a Connection,
}

/// How far the spans of each session were sent.
#[derive(Clone, Copy)]
pub struct Telemetry<'a> {
    pub(super) conn: &'a Connection,
    pub(super) in_use: &'a InUse,
}

/// Checks that read everything.
#[derive(Clone, Copy)]
pub struct Check<'a> {
    pub(super) conn: &'a Connection,
    pub(super) copies: Option<&'a Copies>,
    pub(super) in_use: &'a InUse,
    pub(super) packs: &'a Path,
}

impl Store {
    pub fn history(&self) -> History<'_> {
        History {
            conn: &self.conn,
            copies: self.copies.as_ref(),
        }
    }

    pub fn index(&self) -> Index<'_> {
        Index {
            conn: &self.conn,
            copies: self.copies.as_ref(),
            in_use: &self.in_use,
        }
    }

    pub fn snapshots(&self) -> Snapshots<'_> {
        Snapshots {
            conn: &self.conn,
            in_use: &self.in_use,
            packs: &self.packs,
        }
    }

    pub fn inbox(&self) -> Inbox<'_> {
        Inbox { conn: &self.conn }
    }

    pub fn inbox_mut(&mut self) -> InboxWriter<'_> {
        InboxWriter {
            conn: &self.conn,
            in_use: &self.in_use,
            copies: self.copies.as_mut(),
            mail: None,
        }
    }

    pub fn catalogue(&self) -> Catalogue<'_> {
        Catalogue {
            conn: &self.conn,
            copies: self.copies.as_ref(),
            in_use: &self.in_use,
        }
    }

    pub fn models(&self) -> Models<'_> {
        Models { conn: &self.conn }
    }

    pub fn check(&self) -> Check<'_> {
        Check {
            conn: &self.conn,
            copies: self.copies.as_ref(),
            in_use: &self.in_use,
            packs: &self.packs,
        }
    }
}

impl<'a> Index<'a> {
    pub(super) fn history(self) -> History<'a> {
        History {
            conn: self.conn,
            copies: self.copies,
        }
    }
}

impl<'a> Check<'a> {
    pub(super) fn history(self) -> History<'a> {
        History {
            conn: self.conn,
            copies: self.copies,
        }
    }

    pub(super) fn snapshots(self) -> Snapshots<'a> {
        Snapshots {
            conn: self.conn,
            in_use: self.in_use,
            packs: self.packs,
        }
    }
}
