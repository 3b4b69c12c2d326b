//! Facts that sessions learnt about models: the size of their context window, and how many bytes
//! make a token.

use rusqlite::{OptionalExtension, ToSql, Transaction, params};

use super::error::Doing;
use super::row::{count, int};
use super::{Models, StoreError};

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
        self.conn
            .prepare_cached(
                "SELECT context_tokens, bytes_per_token FROM model_limits WHERE model = ?1",
            )
            .and_then(|mut s| {
                s.query_row([model], |row| {
                    Ok(Learnt {
                        context_tokens: row.get::<_, Option<i64>>(0)?.map(count),
                        bytes_per_token: row.get(1)?,
                    })
                })
                .optional()
            })
            .map(Option::unwrap_or_default)
            .doing("read what was learnt of the model")
    }

    fn learn(&self, sql: &str, model: &str, value: &dyn ToSql) -> Result<(), StoreError> {
        self.conn
            .prepare_cached(sql)
            .and_then(|mut s| s.execute(params![model, value]))
            .map(drop)
            .doing("keep what was learnt of the model")
    }
}
