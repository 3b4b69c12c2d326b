//! What is found on the pages of a database: beside what SQL reads of it, and where that reads
//! nothing at all.

use std::io;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::WHAT;
use super::found::{Found, FoundRow, Rows};
use super::progress::{Progress, mb};
use crate::store::StoreError;
use crate::store::carve::{Carved, carve_beside};
use crate::store::error::Doing;

/// The database and its log are read by this program in a process of its own. The inner error
/// says why they were not read to the end: what was found before counts all the same.
pub(super) fn carve(
    program: &Path,
    [database, log]: [&Path; 2],
    found: &mut Found,
    rows: &mut Rows,
    new: &Connection,
    progress: &mut Progress<'_>,
) -> Result<io::Result<()>, StoreError> {
    let mut failed = None;
    let read = carve_beside(program, database, log, &mut |carved| {
        let kept = match carved {
            Carved::Upto(bytes) => {
                progress.so_far(|| format!("{} of its pages", mb(bytes)));
                Ok(())
            }
            Carved::Blob(blob) => blob.insert(new).doing(WHAT),
            Carved::Entry(entry) => {
                let body = match entry.is_packed {
                    true => ValueRef::Blob(entry.body),
                    false => ValueRef::Text(entry.body),
                };
                let row = FoundRow {
                    id: entry.id,
                    parent: entry.parent,
                    session: entry.session,
                    seq: entry.seq,
                    at_ms: entry.at_ms,
                    checksum: &entry.checksum,
                    body,
                    tip: entry.tip,
                    is_carved: true,
                };
                found.row(rows, &row)
            }
        };
        kept.map_err(|error| {
            failed = Some(error);
            io::ErrorKind::Other.into()
        })
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(read),
    }
}
