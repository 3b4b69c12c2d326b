//! Lines: the entries of a session as a chain in which each names the one before it by a hash.
//! The hash depends on nothing of one machine, so two copies of a session can be compared
//! wherever they lie: in the database, and in its journal.

pub mod line;
pub mod tip;
