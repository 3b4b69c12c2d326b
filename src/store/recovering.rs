//! The interface of the store for the recovery: the format of rows, the names of files, the locks,
//! the mark, and the new database. Only `crate::recovery` uses it.

pub(crate) use super::append::Prepared;
pub(crate) use super::blobs::BlobRow;
pub(crate) use super::chain::{ForkedFrom, SessionStart};
pub(crate) use super::database;
pub(crate) use super::database::private_folder;
pub(crate) use super::error::io as io_error;
pub(crate) use super::gap::gap_of;
pub(crate) use super::gc::in_use;
pub(crate) use super::high_water_mark::{HighWaterMark, MarkText};
pub(crate) use super::ids::{id_of_diverged, parents_first};
pub(crate) use super::lag::JOURNALS_UPTO;
pub(crate) use super::line_writer::{LineWriter, PreparedLine};
pub(crate) use super::lock::StoreLock;
pub(crate) use super::machine::{is_of_another_machine, machine_name};
pub(crate) use super::migrate::refuse_other as refuse_other_schema;
pub(crate) use super::new_database::{NewDatabase, NewRows, SessionRow, WHAT};
pub(crate) use super::new_database::{finish, is_begun, swap};
pub(crate) use super::pending_rows::{ConsumedIds, MayHaveWaited};
pub(crate) use super::purge::{Purged, purged};
pub(crate) use super::row::{Body, BodyPacker, BodyReader, checksum, count};
