//! The last known answers of MCP servers about their tools, by the hash of the server's definition.
//!
//! This is a cache: a lost entry is requested again from the server, so no journal has it.

use rusqlite::{OptionalExtension, params};

use super::error::Doing;
use super::file_identity::begin;
use super::load::explained;
use super::{Catalogue, StoreError};

/// Maximum number of definitions in the cache. The one that was asked longest ago is removed.
const MAX_KEPT: u32 = 128;

/// The last answer of a server about its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogued {
    /// Time of the answer: UTC, milliseconds since 1970.
    pub at_ms: i64,
    /// JSON, in the format of the caller that stored it.
    pub body: String,
}

impl Catalogue<'_> {
    /// Returns the last answer of the server with this name and definition.
    pub fn catalogued(
        &self,
        server: &str,
        config_hash: &str,
    ) -> Result<Option<Catalogued>, StoreError> {
        explained(self.conn, self.copies, || {
            self.conn
                .prepare_cached(
                    "SELECT at_ms, body FROM catalogue WHERE server = ?1 AND config_hash = ?2",
                )
                .and_then(|mut s| {
                    s.query_row(params![server, config_hash], |row| {
                        Ok(Catalogued {
                            at_ms: row.get(0)?,
                            body: row.get(1)?,
                        })
                    })
                    .optional()
                })
                .doing("read what is known of the servers' tools")
        })
    }

    /// Returns the last answer of the server with this name under another definition.
    pub fn catalogued_before(
        &self,
        server: &str,
        config_hash: &str,
    ) -> Result<Option<Catalogued>, StoreError> {
        explained(self.conn, self.copies, || {
            self.conn
                .prepare_cached(
                    "SELECT at_ms, body FROM catalogue WHERE server = ?1 AND config_hash <> ?2
                     ORDER BY at_ms DESC LIMIT 1",
                )
                .and_then(|mut s| {
                    s.query_row(params![server, config_hash], |row| {
                        Ok(Catalogued {
                            at_ms: row.get(0)?,
                            body: row.get(1)?,
                        })
                    })
                    .optional()
                })
                .doing("read what was known of the servers' tools")
        })
    }

    /// Stores the answer of a server, and replaces the earlier one.
    pub fn store_catalogued(
        &self,
        server: &str,
        config_hash: &str,
        said: &Catalogued,
    ) -> Result<(), StoreError> {
        const WHAT: &str = "keep what is known of the servers' tools";
        let tx = begin(self.conn, self.in_use, WHAT)?;
        tx.prepare_cached(
            "INSERT INTO catalogue (server, config_hash, at_ms, body) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET at_ms = excluded.at_ms, body = excluded.body",
        )
        .and_then(|mut s| s.execute(params![server, config_hash, said.at_ms, said.body]))
        .doing(WHAT)?;
        tx.prepare_cached(
            "DELETE FROM catalogue WHERE (server, config_hash) NOT IN (
               SELECT server, config_hash FROM catalogue ORDER BY at_ms DESC LIMIT ?1)",
        )
        .and_then(|mut s| s.execute(params![MAX_KEPT]))
        .doing(WHAT)?;
        tx.commit().doing(WHAT)
    }

    /// Removes the answers of servers with this name, whatever their definition.
    pub fn forget_catalogued(&self, server: &str) -> Result<(), StoreError> {
        self.conn
            .execute("DELETE FROM catalogue WHERE server = ?1", [server])
            .map(drop)
            .doing("forget what is known of the servers' tools")
    }
}
