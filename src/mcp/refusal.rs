//! The bridge's own answer when a server gave none. It takes the same way as the server's
//! messages, so it is a JSON-RPC error with a mark of rewake.

use serde_json::{Value, json};

use super::message::RpcError;
use super::oauth::challenge::Challenge;

/// An error code from the range that the protocol leaves to implementations.
const CODE: i64 = -32_010;
const MARK: &str = "rewake";

/// The reason why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub why: Why,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The call did not happen.
    NotDone,
    /// The call may or may not have happened.
    InDoubt,
    /// The call did not happen: somebody has to log in.
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

    /// Returns the refusal as the `error` of an answer.
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

    /// Reads a refusal. `None`: the error is the server's own.
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
