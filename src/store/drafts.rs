//! Drafts: the answer that is streaming, and the unsent text in the input box. They survive the
//! process. An append removes them when they are recorded as entries.

use rusqlite::{Connection, params};

use super::error::Doing;
use super::file_identity::begin;
use super::head::read_head;
use super::{Inbox, InboxWriter, StoreError};

const WHAT: &str = "keep a draft";

/// Maximum number of stored pieces of a stream. Later ones are not stored: a draft is only shown,
/// and the answer is recorded when it is complete.
const MAX_PIECES: u32 = 20_000;

/// A kind of draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draft {
    /// The answer of the model so far.
    Stream,
    /// The text in the input box that the user has not sent.
    Input,
}

/// The drafts of a session. `None` if there is no such draft.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drafts {
    /// The streamed text of an answer that is not recorded.
    pub stream: Option<String>,
    /// The unsent text of the input box.
    pub input: Option<String>,
}

/// The unsent text of a session that the user left, as long as it is unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbandonedDraft {
    pub session: String,
    pub draft: String,
}

impl Draft {
    fn name(self) -> &'static str {
        match self {
            Draft::Stream => "stream",
            Draft::Input => "input",
        }
    }
}

impl Inbox<'_> {
    /// Returns the drafts of a session, the pieces of each joined.
    ///
    /// # Errors
    /// `NotFound` when there is no such session.
    pub fn drafts(&self, session: &str) -> Result<Drafts, StoreError> {
        let key = read_head(self.conn, session)?.key;
        let pieces: Vec<(String, String)> = self
            .conn
            .prepare_cached("SELECT kind, text FROM drafts WHERE session = ?1 ORDER BY kind, piece")
            .and_then(|mut s| {
                s.query_map([key], |row| Ok((row.get(0)?, row.get(1)?)))?
                    .collect()
            })
            .doing("read the drafts")?;
        let mut drafts = Drafts::default();
        for (kind, text) in pieces {
            let draft = match kind.as_str() {
                "stream" => &mut drafts.stream,
                _ => &mut drafts.input,
            };
            draft.get_or_insert_default().push_str(&text);
        }
        Ok(drafts)
    }
}

impl InboxWriter<'_> {
    /// Appends a piece to the streamed answer.
    pub fn append_draft(&mut self, session: &str, piece: &str) -> Result<(), StoreError> {
        let tx = begin(self.conn, self.in_use, WHAT)?;
        let key = read_head(&tx, session)?.key;
        tx.prepare_cached(
            "INSERT INTO drafts (session, kind, piece, text)
             SELECT ?1, 'stream', n, ?2
             FROM (SELECT coalesce(max(piece) + 1, 0) AS n FROM drafts
                   WHERE session = ?1 AND kind = 'stream')
             WHERE n < ?3",
        )
        .and_then(|mut s| s.execute(params![key, piece, MAX_PIECES]))
        .doing(WHAT)?;
        tx.commit().doing(WHAT)
    }

    /// Replaces the unsent text.
    pub fn set_input(&mut self, session: &str, text: &str) -> Result<(), StoreError> {
        let tx = begin(self.conn, self.in_use, WHAT)?;
        let key = read_head(&tx, session)?.key;
        set(&tx, key, text).doing(WHAT)?;
        tx.commit().doing(WHAT)?;
        self.write_pending_rows(session);
        Ok(())
    }

    /// Moves unsent text from another session to this one, in one transaction, like
    /// [`InboxWriter::set_input`].
    pub fn move_input_from(
        &mut self,
        session: &str,
        text: &str,
        from: &AbandonedDraft,
    ) -> Result<(), StoreError> {
        let tx = begin(self.conn, self.in_use, WHAT)?;
        let key = read_head(&tx, session)?.key;
        set(&tx, key, text).doing(WHAT)?;
        forget(&tx, from).doing(WHAT)?;
        tx.commit().doing(WHAT)?;
        self.write_pending_rows(session);
        self.write_pending_rows(&from.session);
        Ok(())
    }

    /// Removes this draft after its text was sent in another session.
    pub fn remove_left_draft(&mut self, from: &AbandonedDraft) -> Result<(), StoreError> {
        let tx = begin(self.conn, self.in_use, WHAT)?;
        forget(&tx, from).doing(WHAT)?;
        tx.commit().doing(WHAT)?;
        self.write_pending_rows(&from.session);
        Ok(())
    }

    /// Removes a draft, if there is one.
    ///
    /// # Errors
    /// `NotFound` when there is no such session.
    pub fn clear_draft(&mut self, session: &str, draft: Draft) -> Result<(), StoreError> {
        let tx = begin(self.conn, self.in_use, WHAT)?;
        let key = read_head(&tx, session)?.key;
        clear(&tx, key, draft).doing(WHAT)?;
        tx.commit().doing(WHAT)?;
        if draft == Draft::Input {
            self.write_pending_rows(session);
        }
        Ok(())
    }
}

fn set(conn: &Connection, session: i64, text: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT INTO drafts (session, kind, piece, text) VALUES (?1, 'input', 0, ?2)
         ON CONFLICT DO UPDATE SET text = excluded.text",
    )?
    .execute(params![session, text])?;
    Ok(())
}

/// Removes the unsent text if it is still the same and the session still exists.
fn forget(conn: &Connection, left: &AbandonedDraft) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "DELETE FROM drafts WHERE kind = 'input' AND text = ?2
         AND session = (SELECT key FROM sessions WHERE id = ?1)",
    )?
    .execute(params![left.session, left.draft])?;
    Ok(())
}

pub(super) fn clear(conn: &Connection, session: i64, draft: Draft) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM drafts WHERE session = ?1 AND kind = ?2")?
        .execute(params![session, draft.name()])?;
    Ok(())
}
