//! The state of a database: what is wrong with it, and who has which session.

use serde::Serialize;
use tokio_postgres::{Error, Row};

use super::connection::{Connection, get};
use super::{SharedError, schema};

/// Oldest version of the server, as `server_version_num`: 13.
const OLDEST: i32 = 130_000;

/// A result of the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    pub text: String,
    /// The command or setting that changes it.
    pub hint: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Good,
    Warning,
    /// Sessions cannot be shared.
    Wrong,
    /// The server cannot write now.
    Away,
}

/// A session that a process holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldSession {
    pub id: String,
    pub title: String,
    /// The name of its machine.
    pub host: String,
    /// The database role.
    pub role: String,
    /// Milliseconds until the lease ends, by the clock of the server.
    pub lease_ms: i64,
}

impl Connection {
    /// Checks the settings of the server, the schema and the role.
    ///
    /// # Errors
    /// The server does not answer, or its schema is newer.
    pub async fn check(&self) -> Result<Vec<Finding>, SharedError> {
        let explain = |error: Error| self.explain(&error);
        let row = self
            .client
            .query_one(
                "SELECT current_setting('server_version_num')::int, current_setting('server_version'),
                        current_setting('fsync'), current_setting('full_page_writes'),
                        current_setting('synchronous_commit'), pg_is_in_recovery(),
                        current_setting('synchronous_standby_names'),
                        to_regclass('rewake.meta') IS NOT NULL",
                &[],
            )
            .await
            .map_err(explain)?;
        let mut found = settings(&row);
        if !self.address.has_password {
            found.push(Finding {
                level: Level::Warning,
                text: "the server asks for no password, so the model's commands could read all sessions".to_string(),
                hint: Some("use scram-sha-256 in pg_hba.conf instead of trust or peer"),
            });
        }
        if !row.get::<_, bool>(7) {
            found.push(Finding {
                level: Level::Wrong,
                text: "there are no tables of rewake".to_string(),
                hint: Some("the owner of the database runs: rewake fleet init"),
            });
            return Ok(found);
        }
        let rights = self
            .client
            .query_one(
                "SELECT pg_has_role('rewake_worker', 'member'), pg_has_role('rewake_reader', 'member')",
                &[],
            )
            .await
            .map_err(explain)?;
        found.push(match (rights.get(0), rights.get(1)) {
            (true, _) => good("the role may work on sessions"),
            (false, true) => Finding {
                level: Level::Warning,
                text: "the role may only read sessions".to_string(),
                hint: Some("the owner of the database runs: GRANT rewake_worker TO USER"),
            },
            (false, false) => {
                found.push(Finding {
                    level: Level::Wrong,
                    text: "the role may not read sessions".to_string(),
                    hint: Some("the owner of the database runs: GRANT rewake_worker TO USER"),
                });
                return Ok(found);
            }
        });
        let meta = schema::meta(self).await?;
        found.push(good(&format!(
            "schema {}, lease of {} ms, work folder {}",
            meta.schema,
            meta.lease.as_millis(),
            meta.work_dir.as_deref().unwrap_or("not set")
        )));
        Ok(found)
    }

    /// Returns the sessions that somebody holds, those whose lease ends first before the others.
    ///
    /// # Errors
    /// The server does not answer, or the role may not read.
    pub async fn held_sessions(&self) -> Result<Vec<HeldSession>, SharedError> {
        let rows = self
            .rows(
                "SELECT id::text, title, host, role::text,
                        (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint
                 FROM rewake.sessions WHERE lease_until > clock_timestamp()
                 ORDER BY lease_until LIMIT 1000",
                &[],
            )
            .await?;
        let held = |row: &Row| {
            Ok(HeldSession {
                id: get(row, 0)?,
                title: get(row, 1)?,
                host: get(row, 2)?,
                role: get(row, 3)?,
                lease_ms: get(row, 4)?,
            })
        };
        rows.iter().map(held).collect()
    }
}

fn good(text: &str) -> Finding {
    Finding {
        level: Level::Good,
        text: text.to_string(),
        hint: None,
    }
}

fn settings(row: &Row) -> Vec<Finding> {
    let text = |at: usize| row.get::<_, String>(at);
    let (number, version): (i32, String) = (row.get(0), text(1));
    let mut found = vec![match number < OLDEST {
        true => Finding {
            level: Level::Wrong,
            text: format!("PostgreSQL {version} is older than 13"),
            hint: Some("upgrade the server"),
        },
        false => good(&format!("PostgreSQL {version}")),
    }];
    if row.get(5) {
        found.push(Finding {
            level: Level::Away,
            text: "this is a standby, which cannot write".to_string(),
            hint: Some("name the primary server in the address"),
        });
    }
    for (at, name) in [(2, "fsync"), (3, "full_page_writes")] {
        if text(at) != "on" {
            found.push(Finding {
                level: Level::Wrong,
                text: format!(
                    "{name} is {}: a crash of the server would lose entries",
                    text(at)
                ),
                hint: Some("set it to on in postgresql.conf"),
            });
        }
    }
    // The connection asks for `on`. A role or a database may forbid that.
    if ["off", "local"].contains(&text(4).as_str()) {
        found.push(Finding {
            level: Level::Wrong,
            text: format!("synchronous_commit is {}", text(4)),
            hint: Some("set it to on for this role and database"),
        });
    }
    if text(6).is_empty() {
        found.push(Finding {
            level: Level::Warning,
            text: "synchronous_standby_names is empty: a failover to a standby can lose entries"
                .to_string(),
            hint: Some("without standbys this is right"),
        });
    }
    found
}
