//! One session: what its journal has and the database lacks.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::params;

use super::brought::Brought;
use crate::core::entry::Seq;
use crate::journal::line::Header;
use crate::journal::read::{Met, begin, end, lines};
use crate::journal::tip::Tip;
use crate::store::append::WHAT_BROUGHT as WHAT;
use crate::store::bring::{Came, bring};
use crate::store::chain::chain;
use crate::store::clock::now_ms;
use crate::store::copies::Copies;
use crate::store::error::{Doing, io as io_error};
use crate::store::head::{Head, read_head};
use crate::store::ids::id_of_parted;
use crate::store::parted::{close_calls, name_parted};
use crate::store::row::int;
use crate::store::tips::{has_end, tip_behind};
use crate::store::untold::keep_untold;
use crate::store::{Store, StoreError};

/// How a journal stands to a database that ends elsewhere.
enum Compared {
    /// It has more of the same, as far as that is known.
    GoesOn,
    /// Both went on, behind this entry.
    Parts(Option<Seq>),
}

/// A journal and a database that continue a session differently.
struct Parting {
    /// The session that is made of what the journal has.
    id: String,
    /// The last entry of both.
    common: Option<Seq>,
    /// Where the database stands.
    head: Head,
}

impl Store {
    pub(super) fn bring_in_from(
        &mut self,
        copies: &mut Copies,
        session: &str,
    ) -> Result<Brought, StoreError> {
        let folder = copies.journal.of(session);
        let fail = |e| io_error(format!("read the journal in {}", folder.display()), e);
        let journal = match end(&folder) {
            Ok(Some((journal, _))) => journal,
            Ok(None) => return Ok(Brought::default()),
            Err(error) => {
                tracing::warn!(error = %fail(error), "the journal is not looked at");
                return Ok(Brought::default());
            }
        };
        let head = match read_head(&self.conn, session) {
            Ok(head) => Some(head),
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let Some(head) = head else {
            return self.bring_in_new(&folder, session, None);
        };
        if has_end(&self.conn, session, head.length, &journal)? {
            return Ok(Brought::default());
        }
        let tip = tip_behind(&self.conn, session, head.seq())?;
        let common = match self.compare(&folder, session, &head, tip)? {
            Compared::GoesOn => {
                return self.bring_in_behind(&folder, session, Head { tip, ..head });
            }
            Compared::Parts(common) => common,
        };
        // A damaged row looks like a different entry. The error names it, and the journal stays.
        self.load_each(session, |_| Ok::<(), StoreError>(()))?;
        let id = id_of_parted(session, journal.tip);
        let brought = match read_head(&self.conn, &id) {
            // A kill came before the journal was moved aside.
            Ok(_) => Brought::default(),
            Err(StoreError::NotFound { .. }) => {
                let parting = Parting {
                    id,
                    common,
                    head: Head { tip, ..head },
                };
                self.bring_in_new(&folder, session, Some(parting))?
            }
            Err(error) => return Err(error),
        };
        copies.journal.move_aside(session, now_ms())?;
        Ok(brought)
    }

    fn compare(
        &self,
        folder: &Path,
        session: &str,
        head: &Head,
        tip: Tip,
    ) -> Result<Compared, StoreError> {
        let mut tips: BTreeMap<Seq, Tip> = BTreeMap::new();
        let mut is_first = true;
        let read = lines(folder, &mut |met| {
            match met {
                Met::Entry(line) => drop(tips.insert(line.seq, line.tip)),
                Met::Gap(first, tip) => drop(first.checked_sub(1).map(|seq| tips.insert(seq, tip))),
                Met::Blob(_) => {}
            }
            is_first = false;
            Ok(())
        });
        let end = read.map_err(|e| io_error(WHAT, e))?;
        // What its first line follows: a fork may have nothing of its own in the database.
        if let (false, Some(end)) = (is_first, end)
            && let Some(parent) = end.header.first.checked_sub(1)
        {
            tips.insert(parent, end.header.tip);
        }
        let is_beyond = tips.range(head.length..).next().is_some();
        let mut both = tips.range(..head.length).rev().peekable();
        let Some((last, known)) = both.peek() else {
            return Ok(match is_beyond {
                true => Compared::GoesOn,
                false => Compared::Parts(None),
            });
        };
        let is_same = |seq: Seq, known: &Tip| match seq == head.seq() {
            true => Ok(tip == *known),
            false => tip_behind(&self.conn, session, seq).map(|tip| tip == *known),
        };
        // With the last entry of the database in a gap of the journal too: it is not known that
        // they part.
        if is_same(**last, known)? && (is_beyond || **last == head.seq()) {
            return Ok(Compared::GoesOn);
        }
        for (seq, known) in both {
            if is_same(*seq, known)? {
                return Ok(Compared::Parts(Some(*seq)));
            }
        }
        Ok(Compared::Parts(None))
    }

    /// The lines behind the last entry of the session.
    fn bring_in_behind(
        &mut self,
        folder: &Path,
        session: &str,
        mut head: Head,
    ) -> Result<Brought, StoreError> {
        let tx = self.write(WHAT)?;
        let Came { entries, gap } = bring(&tx, folder, &mut head)?;
        let mut brought = Brought::default();
        if entries > 0 {
            keep_untold(&tx, session, entries)?;
            brought.entries.insert(session.to_string(), entries);
        }
        brought.gaps.extend(gap);
        tx.commit().doing(WHAT)?;
        Ok(brought)
    }

    /// What a fork goes on from: the session that its journal names, or one that was made of what
    /// that one's journal had. `None`: none of them has the same entries up to there.
    fn forked_from(
        &self,
        parent: &str,
        seq: Seq,
        fork: &Header,
    ) -> Result<Option<String>, StoreError> {
        let sql = "SELECT id FROM sessions WHERE id = ?1 UNION ALL
          SELECT c.id FROM sessions p JOIN sessions c ON c.forked_from = p.key
          WHERE p.id = ?1 AND c.forked_seq < ?2";
        let ids: Vec<String> = self
            .conn
            .prepare_cached(sql)
            .and_then(|mut s| {
                s.query_map(params![parent, int(seq)], |row| row.get(0))?
                    .collect()
            })
            .doing(WHAT)?;
        for id in ids {
            let is_long_enough = seq < read_head(&self.conn, &id)?.length;
            if is_long_enough && tip_behind(&self.conn, &id, seq)? == fork.tip {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// A session that the database does not have, or a second one that parts from it.
    fn bring_in_new(
        &mut self,
        folder: &Path,
        session: &str,
        parting: Option<Parting>,
    ) -> Result<Brought, StoreError> {
        let id = parting.as_ref().map_or(session, |parting| &parting.id);
        let common = parting.as_ref().and_then(|parting| parting.common);
        let Some(header) = begin(folder).map_err(|e| io_error(WHAT, e))? else {
            return Ok(Brought::default());
        };
        let parent = match (common, &header.forked) {
            (Some(seq), _) => Some((session.to_string(), seq)),
            (None, None) => None,
            (None, Some(forked)) => match self.forked_from(&forked.session, forked.seq, &header)? {
                Some(parent) => Some((parent, forked.seq)),
                None => return Ok(Brought::skips(session, &"its parent went another way")),
            },
        };
        let mut head = Head::before_first(id.to_string(), 0);
        let mut from = (None, None);
        if let Some((parent, seq)) = parent {
            let of = match read_head(&self.conn, &parent) {
                Ok(of) if seq < of.length => of,
                _ => return Ok(Brought::skips(session, &"its parent is not here")),
            };
            let rows = chain(&self.conn, &of, seq)?;
            rows.readable_upto(seq)?;
            head.row = rows.rows.last().copied();
            head.length = seq + 1;
            head.tip = tip_behind(&self.conn, &parent, seq)?;
            from = (Some(of.key), Some(seq));
        }
        if header.first > head.length {
            return Ok(Brought::skips(session, &"it begins behind a gap"));
        }
        let tx = self.write(WHAT)?;
        tx.execute(
            "INSERT INTO sessions (id, workspace, folder, head, length, forked_from, forked_seq,
               created_ms, updated_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)",
            params![
                id,
                header.workspace,
                header.folder,
                head.row.unwrap_or(0),
                int(head.length),
                from.0,
                from.1.map(int),
                header.created_ms
            ],
        )
        .doing(WHAT)?;
        head.key = tx.last_insert_rowid();
        let Came { entries, gap } = bring(&tx, folder, &mut head)?;
        if entries == 0 {
            return Ok(Brought::default());
        }
        keep_untold(&tx, id, entries)?;
        if let Some(Parting { head: of, .. }) = &parting {
            name_parted(&tx, head.key)?;
            let seq = common.unwrap_or(0);
            close_calls(&tx, &mut head, session, seq)?;
            close_calls(&tx, &mut of.clone(), id, seq)?;
        }
        tx.commit().doing(WHAT)?;
        let mut brought = Brought {
            gaps: gap.into_iter().collect(),
            ..Brought::default()
        };
        match parting.is_some() {
            true => brought.parted.push((id.to_string(), session.to_string())),
            false => drop(brought.entries.insert(id.to_string(), entries)),
        }
        Ok(brought)
    }
}
