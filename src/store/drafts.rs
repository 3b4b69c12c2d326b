//! Words that are no entry yet: the answer that is streaming, and what stands unsent in
//! the input box. They survive the process; an append clears them when they are recorded.

use rusqlite::{Connection, params};

use super::error::Doing;
use super::head::read_head;
use super::moved::begin;
use super::{Inbox, InboxWriter, StoreError};

const WHAT: &str = "keep a draft";

/// Pieces of a stream beyond this are not kept: a draft is shown, the answer is recorded
/// when it is whole.
const MAX_PIECES: u32 = 20_000;

/// Words that are no entry yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Draft {
    /// The answer of the model so far.
    Stream,
    /// The user's words not sent yet.
    Input,
}

/// What a session has of each draft. `None`: there is nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drafts {
    /// The streamed text of an answer that is not recorded.
    pub stream: Option<String>,
    /// What stands unsent in the input box.
    pub input: Option<String>,
}

/// Unsent words that stand in a session that was left, as long as they are still these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftDraft {
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
    /// What a session has of drafts, the pieces of each put together.
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
    /// Adds to the streamed answer.
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

    /// Replaces the unsent words.
    pub fn set_input(&mut self, session: &str, text: &str) -> Result<(), StoreError> {
        let tx = begin(self.conn, self.in_use, WHAT)?;
        let key = read_head(&tx, session)?.key;
        set(&tx, key, text).doing(WHAT)?;
        tx.commit().doing(WHAT)?;
        self.keep_waiting(session);
        Ok(())
    }

    /// [`InboxWriter::set_input`] of words that came along from another session: they are never lost in
    /// between, and never in both.
    pub fn bring_input(
        &mut self,
        session: &str,
        text: &str,
        from: &LeftDraft,
    ) -> Result<(), StoreError> {
        let tx = begin(self.conn, self.in_use, WHAT)?;
        let key = read_head(&tx, session)?.key;
        set(&tx, key, text).doing(WHAT)?;
        forget(&tx, from).doing(WHAT)?;
        tx.commit().doing(WHAT)?;
        self.keep_waiting(session);
        self.keep_waiting(&from.session);
        Ok(())
    }

    /// The words of this draft were said elsewhere.
    pub fn forget_left(&mut self, from: &LeftDraft) -> Result<(), StoreError> {
        let tx = begin(self.conn, self.in_use, WHAT)?;
        forget(&tx, from).doing(WHAT)?;
        tx.commit().doing(WHAT)?;
        self.keep_waiting(&from.session);
        Ok(())
    }

    /// Removes a draft. Nothing happens where there is none.
    ///
    /// # Errors
    /// `NotFound` when there is no such session.
    pub fn clear_draft(&mut self, session: &str, draft: Draft) -> Result<(), StoreError> {
        let tx = begin(self.conn, self.in_use, WHAT)?;
        let key = read_head(&tx, session)?.key;
        clear(&tx, key, draft).doing(WHAT)?;
        tx.commit().doing(WHAT)?;
        if draft == Draft::Input {
            self.keep_waiting(session);
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

/// Other words, and a session that is gone, stay as they are.
fn forget(conn: &Connection, left: &LeftDraft) -> rusqlite::Result<()> {
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
