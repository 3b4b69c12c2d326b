//! Tasks of the database: submitting one, taking one, and its end.

use std::time::Duration;

use tokio_postgres::Row;
use uuid::Uuid;

use super::SharedError;
use super::connection::{Connection, flag, get};
use super::log::Home;
use super::postgres::{LEVEL, id_of};

/// A task to submit.
#[derive(Debug, Clone)]
pub struct NewTask {
    pub session: String,
    /// The same key again is not another task.
    pub key: Option<String>,
    pub repo: String,
    pub commit: String,
    pub labels: Vec<String>,
    pub usd: Option<f64>,
    /// Time for which a question waits, milliseconds. `None`: questions are denied.
    pub ask_ms: Option<i64>,
    /// The tip of a session without entries.
    pub tip: Vec<u8>,
    /// JSON of the header of its journal.
    pub header: String,
    pub title: String,
    /// JSON of the first message.
    pub message: String,
}

/// A task, as far as its worker needs it. Anybody with a role may have written it.
#[derive(Debug, Clone)]
pub struct SharedTask {
    pub repo: String,
    pub commit: String,
    pub usd: Option<f64>,
    pub ask_ms: Option<i64>,
}

/// A task that this data folder has now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenTask {
    pub session: String,
    /// Another data folder or machine had it.
    pub moved: Option<MovedFrom>,
}

/// The machine that had a task before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedFrom {
    pub host: String,
    /// The end of its lease, by the clock of the database: `2026-11-29 03:17:49 UTC`.
    pub until: String,
}

/// The state of a task for the one who waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskState {
    /// Its worker ended with this exit code.
    Ended(u8),
    /// Three workers left it without an end, or somebody paused it.
    Paused,
    Pending,
}

/// Time after which work is looked for without a notification.
const LOOK: Duration = Duration::from_secs(1);

impl Connection {
    /// Asks the server to tell when somebody submits or sends something.
    ///
    /// # Errors
    /// The database is away.
    pub async fn listen(&self) -> Result<(), SharedError> {
        self.rows("LISTEN rewake", &[]).await.map(drop)
    }

    /// Waits until there may be work: at most a second.
    pub async fn wait_for_work(&self) {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = self.notified() => {}
        }
    }

    /// Submits a task. Returns its session, which is another one if the key was used before.
    ///
    /// # Errors
    /// The role may not, or the database is away.
    pub async fn submit(&self, task: &NewTask) -> Result<String, SharedError> {
        let sql = "SELECT rewake.submit_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)::text";
        let rows = self
            .rows(
                sql,
                &[
                    &id_of(&task.session)?,
                    &task.key,
                    &task.repo,
                    &task.commit,
                    &task.labels,
                    &task.usd,
                    &task.ask_ms,
                    &task.tip,
                    &task.header,
                    &task.title,
                    &task.message,
                ],
            )
            .await?;
        rows.first()
            .map_or_else(|| Ok(task.session.clone()), |row| get(row, 0))
    }

    /// Takes a task that no living worker has, and whose labels this one has.
    ///
    /// # Errors
    /// The role may not, or the database is away.
    pub async fn take(
        &self,
        labels: &[String],
        home: &Home,
        skip: &[Uuid],
    ) -> Result<Option<TakenTask>, SharedError> {
        let sql = "SELECT session::text, moved, from_host,
           coalesce(to_char(from_until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'), '') || ' UTC'
           FROM rewake.take_1($1, $2, $3, $4, $5, $6)";
        let rows = self
            .rows(
                sql,
                &[&labels, &home.home, &home.boot, &home.host, &LEVEL, &skip],
            )
            .await?;
        let taken = |row: &Row| {
            let from = MovedFrom {
                host: get(row, 2)?,
                until: get(row, 3)?,
            };
            Ok(TakenTask {
                session: get(row, 0)?,
                moved: get::<bool>(row, 1)?.then_some(from),
            })
        };
        rows.first().map(taken).transpose()
    }

    /// Returns the tasks of this data folder that a dead process left.
    ///
    /// # Errors
    /// The role may not, or the database is away.
    pub async fn left_tasks(&self, home: &Home) -> Result<Vec<String>, SharedError> {
        let sql = "SELECT s.id::text FROM rewake.sessions s JOIN rewake.tasks t ON t.session = s.id
           WHERE s.home = $1 AND s.role = session_user AND s.lease_until IS NOT NULL
             AND NOT t.paused ORDER BY s.updated LIMIT 100";
        let rows = self.rows(sql, &[&home.home]).await?;
        rows.iter().map(|row| get(row, 0)).collect()
    }

    /// Returns a task.
    ///
    /// # Errors
    /// It is none, or the database is away.
    pub async fn task(&self, session: &str) -> Result<SharedTask, SharedError> {
        let sql = "SELECT repo, commit, usd, ask_ms FROM rewake.tasks WHERE session = $1";
        let rows = self.rows(sql, &[&id_of(session)?]).await?;
        let row = rows.first().ok_or_else(|| SharedError::Missing {
            what: format!("session {session} is not a task"),
        })?;
        Ok(SharedTask {
            repo: get(row, 0)?,
            commit: get(row, 1)?,
            usd: get(row, 2)?,
            ask_ms: get(row, 3)?,
        })
    }

    /// Gives a task back. `state`: `None` lets other workers continue it. Returns whether this data
    /// folder still had it.
    ///
    /// # Errors
    /// The database is away.
    pub async fn end_task(
        &self,
        session: &str,
        home: &Home,
        state: Option<&str>,
        exit: Option<u8>,
    ) -> Result<bool, SharedError> {
        let sql = "SELECT rewake.end_1($1, $2, $3, $4, $5)";
        let exit = exit.map(i32::from);
        let id = id_of(session)?;
        flag(
            &self
                .rows(sql, &[&id, &home.home, &home.boot, &state, &exit])
                .await?,
        )
    }

    /// Returns the state of a task.
    ///
    /// # Errors
    /// It is none, or the database is away.
    pub async fn task_state(&self, session: &str) -> Result<TaskState, SharedError> {
        let sql = "SELECT t.exit, t.paused, s.lease_until IS NULL FROM rewake.tasks t
           JOIN rewake.sessions s ON s.id = t.session WHERE t.session = $1";
        let rows = self.rows(sql, &[&id_of(session)?]).await?;
        let row = rows.first().ok_or_else(|| SharedError::Missing {
            what: format!("session {session} is not a task"),
        })?;
        let exit: Option<i32> = get(row, 0)?;
        Ok(match (exit, get(row, 1)?) {
            (Some(exit), _) => TaskState::Ended(u8::try_from(exit).unwrap_or(u8::MAX)),
            (None, true) if get(row, 2)? => TaskState::Paused,
            (None, _) => TaskState::Pending,
        })
    }
}
