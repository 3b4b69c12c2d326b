//! Facts that sessions learnt about models: the size of their context window, and how many bytes
//! make a token.
//!
//! Requests to models, read from the log for sums over all sessions.
//!
//! Entries have no index for this: all rows are visited once, in their order. Only the bodies of
//! entries with a request are read, and of these only the usage.
//!
//! The last known answers of MCP servers about their tools, by the hash of the server's definition.
//!
//! This is a cache: a lost entry is requested again from the server, so no journal has it.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, ToSql, Transaction, params};
use serde::{Deserialize, Serialize};

use super::database::begin;
use super::error::Doing;
use super::load::explained;
use super::row::{BodyReader, count, int};
use super::{Catalogue, History, Models, StoreError, cached};
use crate::core::entry::{RequestForm, Spent, Usage};

/// Learnt facts about a model. `None`: not known yet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Learnt {
    /// The context window, in tokens.
    pub context_tokens: Option<u64>,
    /// Bytes of a request per token, as the provider counted.
    pub bytes_per_token: Option<f64>,
}

/// The current bytes of a request per token, recorded with an append.
#[derive(Debug, Clone, PartialEq)]
pub struct LearntRatio {
    /// `provider/model`.
    pub model: String,
    /// The ratio. It is stored only if it is a positive number.
    pub bytes_per_token: f64,
}

/// Stores a ratio in the transaction of the answer that it was measured with, so it needs no
/// separate sync.
pub(super) fn learn_ratio(tx: &Transaction<'_>, learnt: &LearntRatio) -> rusqlite::Result<()> {
    let LearntRatio {
        model,
        bytes_per_token,
    } = learnt;
    if !bytes_per_token.is_finite() || *bytes_per_token <= 0.0 {
        return Ok(());
    }
    tx.prepare_cached(
        "INSERT INTO model_limits (model, bytes_per_token) VALUES (?1, ?2)
         ON CONFLICT DO UPDATE SET bytes_per_token = excluded.bytes_per_token",
    )?
    .execute(params![model, bytes_per_token])
    .map(drop)
}

impl Models<'_> {
    /// Stores the context window of a model. `model` is `provider/model`.
    pub fn learn_limit(&self, model: &str, context_tokens: u64) -> Result<(), StoreError> {
        self.learn(
            "INSERT INTO model_limits (model, context_tokens) VALUES (?1, ?2)
             ON CONFLICT DO UPDATE SET context_tokens = excluded.context_tokens",
            model,
            &int(context_tokens),
        )
    }

    /// Returns the facts about `provider/model`, which may be none.
    pub fn learnt(&self, model: &str) -> Result<Learnt, StoreError> {
        let sql = "SELECT context_tokens, bytes_per_token FROM model_limits WHERE model = ?1";
        cached::row(self.conn, sql, [model], |row| {
            Ok(Learnt {
                context_tokens: row.get::<_, Option<i64>>(0)?.map(count),
                bytes_per_token: row.get(1)?,
            })
        })
        .optional()
        .map(Option::unwrap_or_default)
        .doing("read what was learnt of the model")
    }

    /// Counts that this server refused the plain history and accepted this form.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn keep_form(&self, model: &str, form: RequestForm, now_ms: i64) -> Result<(), StoreError> {
        let Some(name) = form_name(form) else {
            return Ok(());
        };
        let known = self.kept_form(&name, model)?;
        let refusals = known
            .filter(|kept| kept.is_fresh(now_ms))
            .map_or(0, |kept| kept.refusals);
        let kept = KeptForm {
            refusals: refusals.saturating_add(1),
            at_ms: now_ms,
        };
        let value = serde_json::to_string(&kept).unwrap_or_default();
        let sql = "INSERT OR REPLACE INTO meta VALUES (?1 || ?2, ?3)";
        cached::execute(self.conn, sql, params![form_prefix(&name), model, value])
            .map(drop)
            .doing(WHAT_FORMS)
    }

    /// Returns the forms with which a session of this model begins: those that were learnt twice,
    /// the last time not long ago.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn forms(&self, model: &str, now_ms: i64) -> Result<Vec<RequestForm>, StoreError> {
        let mut forms = Vec::new();
        for form in [
            RequestForm::NotesInResults,
            RequestForm::OneCall,
            RequestForm::WithoutImages,
        ] {
            let kept = match form_name(form) {
                Some(name) => self.kept_form(&name, model)?,
                None => None,
            };
            if kept.is_some_and(|kept| kept.refusals >= 2 && kept.is_fresh(now_ms)) {
                forms.push(form);
            }
        }
        Ok(forms)
    }

    fn kept_form(&self, name: &str, model: &str) -> Result<Option<KeptForm>, StoreError> {
        let sql = "SELECT value FROM meta WHERE name = ?1 || ?2";
        // Another value than rewake writes is as good as none: no session depends on it.
        let row = cached::row(self.conn, sql, params![form_prefix(name), model], |row| {
            Ok(row.get::<_, String>(0).ok())
        });
        let text = row.optional().doing(WHAT_FORMS)?.flatten();
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Returns all that sessions learnt of models, in the order of their names.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn all_learnt(&self) -> Result<Vec<LearntOfModel>, StoreError> {
        let mut all: BTreeMap<String, LearntOfModel> = BTreeMap::new();
        let mut read = || -> rusqlite::Result<()> {
            let sql = "SELECT model, context_tokens FROM model_limits WHERE context_tokens > 0";
            let mut statement = self.conn.prepare_cached(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let model: String = row.get(0)?;
                of(&mut all, &model).context_tokens = row.get::<_, Option<i64>>(1)?.map(count);
            }
            let sql =
                "SELECT substr(name, length(?1) + 1), value FROM meta WHERE name GLOB ?1 || '*'";
            let mut statement = self.conn.prepare_cached(sql)?;
            let mut rows = statement.query([FORM])?;
            while let Some(row) = rows.next()? {
                let name: String = row.get(0)?;
                let Ok(value) = row.get::<_, String>(1) else {
                    continue;
                };
                let form = name.split_once(' ').and_then(|(form, model)| {
                    let kept: KeptForm = serde_json::from_str(&value).ok()?;
                    let form = serde_json::from_value(form.into()).ok()?;
                    Some((model.to_string(), form, kept))
                });
                if let Some((model, form, kept)) = form {
                    of(&mut all, &model).forms.push((form, kept));
                }
            }
            Ok(())
        };
        read().doing(WHAT_FORMS)?;
        Ok(all.into_values().collect())
    }

    /// Forgets what sessions learnt of this model. Returns whether there was anything.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn forget(&self, model: &str) -> Result<bool, StoreError> {
        let sql = "DELETE FROM model_limits WHERE model = ?1";
        let limits = cached::execute(self.conn, sql, [model]).doing(WHAT_FORMS)?;
        let sql = "DELETE FROM meta WHERE name GLOB ?1 || '*' AND substr(name, instr(name, ' ') + 1) = ?2";
        let forms = cached::execute(self.conn, sql, params![FORM, model]).doing(WHAT_FORMS)?;
        Ok(limits + forms > 0)
    }

    fn learn(&self, sql: &str, model: &str, value: &dyn ToSql) -> Result<(), StoreError> {
        cached::execute(self.conn, sql, params![model, value])
            .map(drop)
            .doing("keep what was learnt of the model")
    }
}

const WHAT_FORMS: &str = "read or keep what was learnt of models";

/// The names of the rows of `meta` with forms begin so: `form:one_call PROVIDER/MODEL`.
const FORM: &str = "form:";

/// How long a form is known to later sessions.
const FORM_DAYS: i64 = 30;

/// How often a form was learnt, and when last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptForm {
    pub refusals: u32,
    /// UTC, milliseconds since 1970.
    pub at_ms: i64,
}

impl KeptForm {
    fn is_fresh(&self, now_ms: i64) -> bool {
        self.at_ms <= now_ms && now_ms.saturating_sub(self.at_ms) < FORM_DAYS * 24 * 60 * 60 * 1_000
    }
}

/// The facts that sessions learnt of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LearntOfModel {
    /// `provider/model`.
    pub model: String,
    pub context_tokens: Option<u64>,
    pub forms: Vec<(RequestForm, KeptForm)>,
}

fn of<'a>(all: &'a mut BTreeMap<String, LearntOfModel>, model: &str) -> &'a mut LearntOfModel {
    let learnt = all.entry(model.to_string()).or_default();
    learnt.model = model.to_string();
    learnt
}

fn form_name(form: RequestForm) -> Option<String> {
    let name = serde_json::to_value(form).ok()?;
    name.as_str().map(str::to_string)
}

fn form_prefix(name: &str) -> String {
    format!("{FORM}{name} ")
}

const WHAT_USAGE: &str = "read what models were asked for";

/// SQL for the kinds of entries that record usage: see [`crate::core::entry::Entry::spent`].
const ASKED: &str = "SELECT s.key, s.workspace, e.at_ms, e.body
FROM entries e CROSS JOIN sessions s ON s.key = e.session
WHERE e.kind IN ('replied', 'closed', 'continued', 'titled', 'billed') AND e.at_ms >= ?1
  AND (s.replica IS NULL OR s.replica GLOB 'shared@*')
  AND (?2 IS NULL OR s.workspace = ?2)";

/// A request to a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelRequest<'a> {
    /// A number that identifies the session within this store. Entries that a fork shares count
    /// once, for the session that recorded them.
    pub session: i64,
    pub workspace: &'a str,
    /// UTC, milliseconds since 1970.
    pub at_ms: i64,
    /// `provider/model`.
    pub model: &'a str,
    pub usage: &'a Usage,
}

/// The usage of an entry. Other fields are skipped.
#[derive(Deserialize)]
struct Spending {
    model: Option<String>,
    usage: Option<Usage>,
    #[serde(default)]
    spent: Vec<Spent>,
}

impl History<'_> {
    /// Calls `each` for every request to a model since `since_ms`, in the sessions of this
    /// workspace or in all. Sessions in the trash count, since they were paid for. Returns the
    /// number of entries that could not be read.
    pub fn each_asked(
        &self,
        since_ms: i64,
        workspace: Option<&str>,
        mut each: impl FnMut(ModelRequest<'_>),
    ) -> Result<u64, StoreError> {
        let mut bodies = BodyReader::new()?;
        let mut unreadable = 0;
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = self.conn.prepare_cached(ASKED)?;
            let mut rows = statement.query(params![since_ms, workspace])?;
            while let Some(row) = rows.next()? {
                let Ok(spending) = bodies.read_as::<Spending>(row.get_ref(3)?) else {
                    unreadable += 1;
                    continue;
                };
                let workspace: String = row.get(1)?;
                let (session, at_ms) = (row.get(0)?, row.get(2)?);
                let answer = spending.model.as_ref().zip(spending.usage.as_ref());
                let besides = spending.spent.iter().map(|s| (&s.model, &s.usage));
                for (model, usage) in answer.into_iter().chain(besides) {
                    each(ModelRequest {
                        session,
                        workspace: &workspace,
                        at_ms,
                        model,
                        usage,
                    });
                }
            }
            Ok(())
        };
        read().doing(WHAT_USAGE)?;
        Ok(unreadable)
    }
}

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
        self.newest_answer(
            "SELECT at_ms, body FROM catalogue WHERE server = ?1 AND config_hash = ?2",
            server,
            config_hash,
        )
    }

    /// Returns the last answer of the server with this name under another definition.
    pub fn catalogued_before(
        &self,
        server: &str,
        config_hash: &str,
    ) -> Result<Option<Catalogued>, StoreError> {
        self.newest_answer(
            "SELECT at_ms, body FROM catalogue WHERE server = ?1 AND config_hash <> ?2
             ORDER BY at_ms DESC LIMIT 1",
            server,
            config_hash,
        )
    }

    fn newest_answer(
        &self,
        sql: &str,
        server: &str,
        config_hash: &str,
    ) -> Result<Option<Catalogued>, StoreError> {
        explained(self.conn, self.copies, || {
            cached::row(self.conn, sql, params![server, config_hash], |row| {
                Ok(Catalogued {
                    at_ms: row.get(0)?,
                    body: row.get(1)?,
                })
            })
            .optional()
            .doing("read what is known of the servers' tools")
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
        let sql = "INSERT INTO catalogue (server, config_hash, at_ms, body) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET at_ms = excluded.at_ms, body = excluded.body";
        cached::execute(
            &tx,
            sql,
            params![server, config_hash, said.at_ms, said.body],
        )
        .doing(WHAT)?;
        let sql = "DELETE FROM catalogue WHERE (server, config_hash) NOT IN (
               SELECT server, config_hash FROM catalogue ORDER BY at_ms DESC LIMIT ?1)";
        cached::execute(&tx, sql, params![MAX_KEPT]).doing(WHAT)?;
        tx.commit().doing(WHAT)
    }
}
