//! Restoring one session from its journal.

use std::path::Path;

use rusqlite::params;

use super::brought::RestoreReport;
use crate::core::entry::Seq;
use crate::journal::line::Header;
use crate::journal::read::{begin, end};
use crate::store::append::WHAT_BROUGHT as WHAT;
use crate::store::chain::{Head, SessionStart, insert_session, read_head};
use crate::store::copies::Copies;
use crate::store::error::{Doing, io as io_error};
use crate::store::fork::{add_diverged_title, close_calls};
use crate::store::gap::add_restored_count;
use crate::store::ids::id_of_diverged;
use crate::store::machine::now_ms;
use crate::store::replica::{database_of, of_header};
use crate::store::restore_entries::{RestoredLines, restore_lines};
use crate::store::row::int;
use crate::store::tips::{Ahead, Comparison, compare, forked_from, tip_upto};
use crate::store::{Store, StoreError, cached};

/// A journal that diverged from the database.
struct JournalBranch {
    /// ID of the session that is made from the journal.
    id: String,
    /// The last entry that both have.
    common: Option<Seq>,
    /// The head of the session in the database.
    head: Head,
}

impl Store {
    pub(super) fn restore_with_lock(
        &mut self,
        copies: &mut Copies,
        session: &str,
    ) -> Result<RestoreReport, StoreError> {
        let folder = copies.journal.of(session);
        match end(&folder) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(RestoreReport::default()),
            Err(error) => {
                let error = io_error(format!("read the journal in {}", folder.display()), error);
                tracing::warn!(%error, "the journal is not looked at");
                return Ok(RestoreReport::default());
            }
        }
        let head = match read_head(&self.conn, session) {
            Ok(head) => head,
            Err(StoreError::NotFound { .. }) => {
                return self.restore_missing_session(&folder, session, None);
            }
            Err(error) => return Err(error),
        };
        let (common, Ahead { tip, journal }) = match compare(&self.conn, &folder, &head)? {
            Comparison::Same | Comparison::Behind => return Ok(RestoreReport::default()),
            Comparison::Ahead(Ahead { tip, .. }) => {
                return self.restore_lines_after_head(&folder, session, Head { tip, ..head });
            }
            Comparison::Parted(common, ahead) => (common, ahead),
        };
        // A damaged row looks like a different entry. The error names it, and the journal stays.
        self.load_each(session, |_| Ok::<(), StoreError>(()))?;
        let id = id_of_diverged(session, journal.tip);
        let brought = match read_head(&self.conn, &id) {
            // An earlier run was killed before it moved the journal aside.
            Ok(_) => RestoreReport::default(),
            Err(StoreError::NotFound { .. }) => {
                let branch = JournalBranch {
                    id,
                    common,
                    head: Head { tip, ..head },
                };
                self.restore_missing_session(&folder, session, Some(branch))?
            }
            Err(error) => return Err(error),
        };
        copies.journal.move_aside(session, now_ms())?;
        Ok(brought)
    }

    /// Restores the lines after the last entry of the session.
    fn restore_lines_after_head(
        &mut self,
        folder: &Path,
        session: &str,
        head: Head,
    ) -> Result<RestoreReport, StoreError> {
        let tx = self.write(WHAT)?;
        let RestoredLines { entries, gap, .. } = restore_lines(&tx, folder, head)?;
        let mut brought = RestoreReport::default();
        if entries > 0 {
            add_restored_count(&tx, session, entries)?;
            brought.entries.insert(session.to_string(), entries);
        }
        brought.gaps.extend(gap);
        tx.commit().doing(WHAT)?;
        Ok(brought)
    }

    /// Returns the session that a fork continues: the one that its journal names, or one that was
    /// made from the journal of that session. `None`: none has the same entries up to the fork
    /// point.
    fn forked_from(
        &self,
        parent: &str,
        seq: Seq,
        fork: &Header,
    ) -> Result<Option<String>, StoreError> {
        let sql = "SELECT id FROM sessions WHERE id = ?1 UNION ALL
          SELECT c.id FROM sessions p JOIN sessions c ON c.forked_from = p.key
          WHERE p.id = ?1 AND c.forked_seq < ?2";
        let ids: Vec<String> =
            cached::rows(&self.conn, sql, params![parent, int(seq)], |row| row.get(0))
                .doing(WHAT)?;
        for id in ids {
            let is_long_enough = seq < read_head(&self.conn, &id)?.length;
            if is_long_enough && tip_upto(&self.conn, &id, seq)? == fork.tip {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Restores a session that the database does not have, or makes a second session from a
    /// diverged journal.
    fn restore_missing_session(
        &mut self,
        folder: &Path,
        session: &str,
        branch: Option<JournalBranch>,
    ) -> Result<RestoreReport, StoreError> {
        let id = branch.as_ref().map_or(session, |branch| &branch.id);
        let common = branch.as_ref().and_then(|branch| branch.common);
        let Some(header) = begin(folder).map_err(|e| io_error(WHAT, e))? else {
            return Ok(RestoreReport::default());
        };
        let parent = match (common, &header.forked) {
            (Some(seq), _) => Some((session.to_string(), seq)),
            (None, None) => None,
            (None, Some(forked)) => match self.forked_from(&forked.session, forked.seq, &header)? {
                Some(parent) => Some((parent, forked.seq)),
                None => {
                    return Ok(RestoreReport::skips(
                        session,
                        &"its parent session diverged",
                    ));
                }
            },
        };
        let mut from = None;
        if let Some((parent, seq)) = parent {
            let of = match read_head(&self.conn, &parent) {
                Ok(of) if seq < of.length => of,
                _ => return Ok(RestoreReport::skips(session, &"its parent is not here")),
            };
            from = Some(forked_from(&self.conn, &of, seq)?);
        }
        if header.first > from.as_ref().map_or(0, |from| from.seq + 1) {
            return Ok(RestoreReport::skips(
                session,
                &"its first entry follows a gap",
            ));
        }
        // A branch has its own ID, which no database knows.
        let replica = header.source.as_deref().and_then(of_header);
        let replica = replica.filter(|of| branch.is_none() || database_of(of).is_none());
        let tx = self.write(WHAT)?;
        let start = SessionStart {
            id,
            workspace: &header.workspace,
            folder: &header.folder,
            created_ms: header.created_ms,
            from,
            replica: replica.as_deref(),
        };
        let head = insert_session(&tx, &start, WHAT)?;
        let mut restored = restore_lines(&tx, folder, head)?;
        let entries = restored.entries;
        if entries == 0 {
            return Ok(RestoreReport::default());
        }
        add_restored_count(&tx, id, entries)?;
        if let Some(JournalBranch { head: of, .. }) = &branch {
            add_diverged_title(&tx, restored.head.key)?;
            let seq = common.unwrap_or(0);
            close_calls(&tx, &mut restored.head, session, seq)?;
            close_calls(&tx, &mut of.clone(), id, seq)?;
        }
        tx.commit().doing(WHAT)?;
        let mut brought = RestoreReport {
            gaps: restored.gap.into_iter().collect(),
            ..RestoreReport::default()
        };
        if branch.is_some() {
            brought.parted.push((id.to_string(), session.to_string()));
        } else {
            brought.entries.insert(id.to_string(), entries);
        }
        Ok(brought)
    }
}
