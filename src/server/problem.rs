//! The error of a request: a status, the failed action and a hint, as JSON.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::session::{Refusal, SessionError, SteerError};
use crate::store::StoreError;

/// An error as `{"error": "…", "hint": "…"}` with a status. The hint may be null.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    error: String,
    hint: Option<String>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Problem {
        Problem {
            status,
            error: error.into(),
            hint: None,
        }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn bad(error: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, error)
    }

    pub(super) fn busy(error: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, error)
    }

    /// Returns an internal error without its reason, which goes to the log: any client with a link
    /// can see the answer, and could do nothing about it.
    pub(super) fn inside(why: &dyn std::fmt::Display) -> Problem {
        tracing::error!(%why, "a request failed");
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the request failed: the session store is damaged, or rewake has an error",
        )
        .hint("rewake doctor looks at the store; the log of rewake serve says what went wrong")
    }

    /// Returns the JSON for an event of a stream.
    pub(super) fn to_json(&self) -> String {
        self.value().to_string()
    }

    /// Returns `{"error": "…", "hint": "…"}`.
    pub(super) fn value(&self) -> Value {
        json!({"error": self.error, "hint": self.hint})
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.to_json()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        match self.status {
            StatusCode::UNAUTHORIZED => {
                let bearer = HeaderValue::from_static("Bearer");
                headers.insert(header::WWW_AUTHENTICATE, bearer);
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let status = match &error {
            StoreError::NotFound { .. } => StatusCode::NOT_FOUND,
            StoreError::Ambiguous { .. } => StatusCode::BAD_REQUEST,
            StoreError::TooMany { .. } => StatusCode::TOO_MANY_REQUESTS,
            StoreError::Held { .. }
            | StoreError::Elsewhere { .. }
            | StoreError::HeadMoved { .. }
            | StoreError::Replica { .. }
            | StoreError::Shared { .. }
            | StoreError::Gap(_)
            | StoreError::BackInTime { .. }
            | StoreError::Unknown { .. } => StatusCode::CONFLICT,
            StoreError::Busy { .. }
            | StoreError::Full { .. }
            | StoreError::DiskError { .. }
            | StoreError::Unreadable { .. }
            | StoreError::Network { .. }
            | StoreError::InTheWay { .. }
            | StoreError::Moved { .. }
            | StoreError::Newer { .. }
            | StoreError::Older { .. }
            | StoreError::Locked { .. }
            | StoreError::InUse { .. } => StatusCode::SERVICE_UNAVAILABLE,
            StoreError::Sqlite { .. } | StoreError::Io { .. } if error.hint().is_some() => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            StoreError::Corrupt { .. }
            | StoreError::Damaged { .. }
            | StoreError::Io { .. }
            | StoreError::Sqlite { .. }
            | StoreError::Encode { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            return Problem::inside(&error);
        }
        Problem {
            status,
            hint: error.hint(),
            error: error.to_string(),
        }
    }
}

impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Problem {
        let status = match error {
            SessionError::Store(error) => return error.into(),
            SessionError::Config(_) => StatusCode::BAD_REQUEST,
            SessionError::Shared(_) => StatusCode::SERVICE_UNAVAILABLE,
            SessionError::NothingHere(_)
            | SessionError::OnlyReplicas { .. }
            | SessionError::Elsewhere { .. }
            | SessionError::Lost { .. } => StatusCode::NOT_FOUND,
            SessionError::Folder { .. }
            | SessionError::Worktree(_)
            | SessionError::NoSourceFolder { .. }
            | SessionError::GivenId { .. }
            | SessionError::Illegal { .. }
            | SessionError::Running { .. } => StatusCode::CONFLICT,
            SessionError::BelowAgent => StatusCode::FORBIDDEN,
            SessionError::OwnExe(_) | SessionError::Runtime(_) => return Problem::inside(&error),
        };
        Problem {
            status,
            hint: error.hint(),
            error: error.to_string(),
        }
    }
}

impl From<SteerError> for Problem {
    fn from(error: SteerError) -> Problem {
        match error {
            SteerError::Session(error) => error.into(),
            SteerError::Refused {
                what,
                hint,
                because,
            } => {
                let status = match because {
                    Refusal::Nonsense => StatusCode::BAD_REQUEST,
                    Refusal::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
                    Refusal::NotNow => StatusCode::CONFLICT,
                    Refusal::Forbidden => StatusCode::FORBIDDEN,
                };
                Problem::new(status, what).hint(hint)
            }
        }
    }
}
