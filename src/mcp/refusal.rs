//! What a bridge answers in place of a server that gave no answer. It goes over the same lines as
//! the server's own words, so it is an error of JSON-RPC with a mark of ours.

use serde_json::{Value, json};

use super::message::RpcError;
use super::oauth::challenge::Challenge;

/// Of the codes that the protocol leaves to those who implement it.
const CODE: i64 = -32_010;
const MARK: &str = "rewake";

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub why: Why,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It was not done.
    NotDone,
    /// It may or may not have been done.
    InDoubt,
    /// It was not done: somebody has to log in.
    Login(Challenge),
}

impl Refusal {
    pub fn not_done(message: impl Into<String>) -> Refusal {
        Refusal {
            why: Why::NotDone,
            message: message.into(),
        }
    }

    pub fn in_doubt(message: impl Into<String>) -> Refusal {
        Refusal {
            why: Why::InDoubt,
            message: message.into(),
        }
    }

    /// As the `error` of an answer.
    pub fn to_error(&self) -> Value {
        let mark = match &self.why {
            Why::NotDone => json!({ MARK: "not_done" }),
            Why::InDoubt => json!({ MARK: "in_doubt" }),
            Why::Login(challenge) => json!({
                MARK: "login",
                "resource_metadata": challenge.resource_metadata,
                "scope": challenge.scope,
                "error": challenge.error,
            }),
        };
        json!({ "code": CODE, "message": self.message, "data": mark })
    }

    /// `None`: it is the server's own error.
    pub fn read(error: &RpcError) -> Option<Refusal> {
        let data = error.data.as_ref().filter(|_| error.code == CODE)?;
        let text = |name: &str| data[name].as_str().map(str::to_string);
        let why = match data[MARK].as_str()? {
            "not_done" => Why::NotDone,
            "in_doubt" => Why::InDoubt,
            "login" => Why::Login(Challenge {
                resource_metadata: text("resource_metadata"),
                scope: text("scope"),
                error: text("error"),
            }),
            _ => return None,
        };
        Some(Refusal {
            why,
            message: error.message.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_comes_through_and_an_error_of_the_server_is_none() {
        let login = Why::Login(Challenge {
            scope: Some("a".into()),
            ..Challenge::default()
        });
        for why in [Why::NotDone, Why::InDoubt, login] {
            let refusal = Refusal {
                why,
                message: "m".into(),
            };
            let error: RpcError = serde_json::from_value(refusal.to_error()).unwrap();
            assert_eq!(Refusal::read(&error), Some(refusal));
        }
        for other in [
            json!({ "code": CODE, "message": "m" }),
            json!({ "code": 1, "data": { MARK: "in_doubt" } }),
        ] {
            let error: RpcError = serde_json::from_value(other).unwrap();
            assert_eq!(Refusal::read(&error), None);
        }
    }
}
