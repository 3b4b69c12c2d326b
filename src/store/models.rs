//! What was learnt about models, whatever the session: the context window they really
//! have, and how many bytes make a token for them.

use rusqlite::{OptionalExtension, ToSql, Transaction, params};

use super::error::Doing;
use super::row::{count, int};
use super::{Models, StoreError};

/// What sessions learnt of a model. `None`: nothing yet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Learnt {
    /// The context window, tokens.
    pub context_tokens: Option<u64>,
    /// Bytes of a request for each token that the provider counted.
    pub bytes_per_token: Option<f64>,
}

/// The bytes of a request for each token, as an append says that they are by now.
#[derive(Debug, Clone, PartialEq)]
pub struct LearntRatio {
    /// `provider/model`.
    pub model: String,
    /// One that is no positive number is not kept.
    pub bytes_per_token: f64,
}

/// In the transaction of the answer that it was learnt of: it costs no sync of its own.
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
    /// `model` is `provider/model`.
    pub fn learn_limit(&self, model: &str, context_tokens: u64) -> Result<(), StoreError> {
        self.learn(
            "INSERT INTO model_limits (model, context_tokens) VALUES (?1, ?2)
             ON CONFLICT DO UPDATE SET context_tokens = excluded.context_tokens",
            model,
            &int(context_tokens),
        )
    }

    /// What sessions learnt of `provider/model`, nothing included.
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
