//! The sessions of a database as anybody with the role `rewake_reader` sees them: a list, and one of
//! them as a bundle. The importer of bundles verifies it, since other programs may have written it.

use std::fs::File;
use std::io::Write;

use tokio_postgres::Row;
use uuid::Uuid;

use super::SharedError;
use super::connection::{Connection, get};
use super::log::{EndOfLog, MailKind};
use super::parts::next_part;
use super::postgres::{LEVEL, id_of};
use crate::bundle::{BundleError, SessionSpool};
use crate::core::entry::Seq;
use crate::journal::chain_hash::ChainHash;
use crate::journal::line::{FIRST_FORM, Header, Line, MAX_HELD};
use crate::store::shared::NewLines;

/// Maximum number of sessions of the list.
const MAX_SESSIONS: i64 = 100;
/// Maximum size of a session that is read, on the disk, bytes.
const MAX_BYTES: u64 = 1 << 30;
/// Number of sessions that an error names.
const NAMED: i64 = 5;

/// A session of the list.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SharedSession {
    pub id: String,
    pub title: String,
    /// `idle`, `working` or `asks`.
    pub state: String,
    /// The name of the machine that recorded it.
    pub host: String,
    /// The role that recorded it.
    pub role: String,
    pub entries: i64,
    /// UTC, milliseconds since 1970.
    pub updated_ms: i64,
    /// Whether a process holds its lease.
    pub held: bool,
    #[serde(skip)]
    header: String,
    #[serde(skip)]
    tip: Vec<u8>,
    #[serde(skip)]
    needs: i32,
    /// Where its files are: JSON.
    #[serde(skip)]
    pub files: Option<String>,
}

const COLUMNS: &str = "id::text, title, state, host, role::text, length,
  (extract(epoch FROM updated) * 1000)::bigint, coalesce(lease_until > clock_timestamp(), false),
  header, tip, needs, files";

impl SharedSession {
    fn of(row: &Row) -> Result<SharedSession, SharedError> {
        Ok(SharedSession {
            id: get(row, 0)?,
            title: get(row, 1)?,
            state: get(row, 2)?,
            host: get(row, 3)?,
            role: get(row, 4)?,
            entries: get(row, 5)?,
            updated_ms: get(row, 6)?,
            held: get(row, 7)?,
            header: get(row, 8)?,
            tip: get(row, 9)?,
            needs: get(row, 10)?,
            files: get(row, 11)?,
        })
    }

    /// Returns the folder in which it works.
    pub fn folder(&self) -> String {
        self.header()
            .map_or_else(String::new, |header| header.folder)
    }

    fn header(&self) -> Option<Header> {
        match Line::read(self.header.as_bytes()) {
            Some(Line::Header(header)) => Some(header),
            _ => None,
        }
    }

    /// Returns the end of its log.
    pub fn end(&self) -> Option<(ChainHash, Seq)> {
        let tip = ChainHash::from_bytes(&self.tip)?;
        Some((tip, u64::try_from(self.entries).ok()?))
    }
}

impl Connection {
    /// Returns the sessions that changed last.
    ///
    /// # Errors
    /// The server does not answer, or the role may not read.
    pub async fn sessions(&self) -> Result<Vec<SharedSession>, SharedError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM rewake.sessions ORDER BY updated DESC LIMIT {MAX_SESSIONS}"
        );
        let rows = self.rows(&sql, &[]).await?;
        rows.iter().map(SharedSession::of).collect()
    }

    /// Returns the sessions that ask something, those that wait longest first.
    ///
    /// # Errors
    /// The server does not answer, or the role may not read.
    pub async fn asking(&self) -> Result<Vec<SharedSession>, SharedError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM rewake.sessions WHERE state = 'asks'
             ORDER BY updated LIMIT {MAX_SESSIONS}"
        );
        let rows = self.rows(&sql, &[]).await?;
        rows.iter().map(SharedSession::of).collect()
    }

    /// Sends a message or a signal to a session. Returns its number in the database. 0: it took effect
    /// at once.
    ///
    /// # Errors
    /// The role may not send, or too much waits already.
    pub async fn send(
        &self,
        session: &str,
        kind: MailKind,
        body: &str,
        blobs: &[Vec<u8>],
    ) -> Result<i64, SharedError> {
        let hashes: Vec<Vec<u8>> = blobs
            .iter()
            .map(|bytes| blake3::hash(bytes).as_bytes().to_vec())
            .collect();
        let id = id_of(session)?;
        let sql = "SELECT rewake.send_1($1, $2, $3, $4, $5)";
        let rows = self
            .rows(sql, &[&id, &kind.name(), &body, &hashes, &blobs])
            .await?;
        rows.first().map_or(Ok(0), |row| get(row, 0))
    }

    /// Returns the session whose ID begins so.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub async fn find(&self, beginning: &str) -> Result<SharedSession, SharedError> {
        let none = || {
            SharedError::setup(
                format!("{} has no session {beginning:?}", self.address.shown),
                "rewake history --shared lists them",
            )
        };
        let (first, last) = ids_of(beginning).ok_or_else(none)?;
        let sql = format!(
            "SELECT {COLUMNS} FROM rewake.sessions WHERE id BETWEEN $1 AND $2 LIMIT {NAMED}"
        );
        let rows = self.rows(&sql, &[&first, &last]).await?;
        match &rows[..] {
            [] => Err(none()),
            [row] => SharedSession::of(row),
            several => {
                let ids: Result<Vec<String>, _> = several.iter().map(|row| get(row, 0)).collect();
                let ids = ids?;
                Err(SharedError::setup(
                    format!(
                        "several sessions begin with {beginning}: {}",
                        ids.join(", ")
                    ),
                    "give more of the ID",
                ))
            }
        }
    }
}

/// Returns the first and the last ID that begin so.
fn ids_of(beginning: &str) -> Option<(Uuid, Uuid)> {
    let digits = beginning.trim().to_ascii_lowercase().replace('-', "");
    if digits.is_empty() || digits.len() > 32 {
        return None;
    }
    let filled =
        |with: &str| Uuid::try_parse(&format!("{digits}{}", with.repeat(32 - digits.len())));
    Some((filled("0").ok()?, filled("f").ok()?))
}

/// Writes a session as a bundle. `spool`: a file without a name.
///
/// # Errors
/// The server does not answer, or a line of the session is damaged. The session is named.
pub async fn bundle<W: Write>(
    connection: &Connection,
    of: &SharedSession,
    spool: File,
    to: W,
    at_ms: i64,
) -> Result<W, SharedError> {
    let damaged = |what: &str| SharedError::Failed {
        what: format!("session {}: {what}", of.id),
    };
    let failed = |error: BundleError| damaged(&error.to_string());
    let said = of
        .header()
        .ok_or_else(|| damaged("its header is damaged"))?;
    let header = Header {
        rewake: FIRST_FORM,
        store: of.host.clone(),
        session: of.id.clone(),
        forked: None,
        replica: false,
        source: None,
        machine: None,
        first: 0,
        tip: ChainHash::of_nothing(),
        ..said
    };
    let mut spool = SessionSpool::new(spool, header).map_err(failed)?;
    let mut end = (ChainHash::of_nothing(), 0);
    while let Some(part) = part_after(connection, of, end).await? {
        end = part.end().unwrap_or(end);
        spool.add(&part.lines, &part.blobs).map_err(failed)?;
        if spool.bytes() > MAX_BYTES {
            let what = format!("it has more than {} MiB", MAX_BYTES >> 20);
            return Err(damaged(&what));
        }
    }
    spool.finish(to, of.host.clone(), at_ms).map_err(failed)
}

/// Returns the next lines that a copy with this end lacks. They follow it. `None`: it has all.
///
/// # Errors
/// As [`bundle`], or the copy has other entries.
pub async fn part_after(
    mut connection: &Connection,
    of: &SharedSession,
    end: EndOfLog,
) -> Result<Option<NewLines>, SharedError> {
    if of.needs > LEVEL {
        return Err(SharedError::setup(
            format!("session {} has entries of a newer version", of.id),
            "rewake update",
        ));
    }
    let other = || SharedError::Failed {
        what: format!("session {} has other entries than its copy here", of.id),
    };
    match of.end() {
        Some(now) if now == end => Ok(None),
        Some(now) if now.1 > end.1 => {
            let part = next_part(&mut connection, &of.id, end, now, None, MAX_HELD).await?;
            part.ok_or_else(other).map(Some)
        }
        _ => Err(other()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_id_gives_a_range() {
        let range = |beginning| ids_of(beginning).map(|(a, b)| (a.to_string(), b.to_string()));
        assert_eq!(
            range("01A2-b").unwrap(),
            (
                "01a2b000-0000-0000-0000-000000000000".to_string(),
                "01a2bfff-ffff-ffff-ffff-ffffffffffff".to_string()
            )
        );
        for none in ["", "x", "01'", &"0".repeat(33)] {
            assert_eq!(range(none), None, "{none:?}");
        }
    }
}
