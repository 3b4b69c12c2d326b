//! Building blocks of handlers: the parts of a request that name something, and answers.

use axum::body::Body;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::problem::Problem;
use super::{Shared, TokenScope};

/// Returns an answer with JSON.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Result<Response, Problem> {
    let bytes = serde_json::to_vec(value).map_err(|e| Problem::inside(&e))?;
    Ok(bytes_as(status, "application/json", bytes))
}

pub(super) fn bytes_as(status: StatusCode, kind: &'static str, bytes: impl Into<Body>) -> Response {
    let mut response = Response::new(bytes.into());
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// The query of a request: the part after the `?`.
pub(super) struct QueryParams<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(wanted)) => Ok(QueryParams(wanted)),
            Err(why) => Err(
                Problem::bad(format!("the query makes no sense: {}", why.body_text()))
                    .hint("/openapi.json says what may be asked"),
            ),
        }
    }
}

/// The variables in the path of a request.
pub(super) struct NamedId<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for NamedId<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(named)) => Ok(NamedId(named)),
            Err(_) => Err(Problem::bad("the path makes no sense")
                .hint("an id is hexadecimal digits and hyphens")),
        }
    }
}

/// The session that a request names, and the scope of its token.
pub(super) struct Target {
    pub(super) app: Shared,
    pub(super) scope: TokenScope,
    pub(super) id: String,
}

impl FromRequestParts<Shared> for Target {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Problem> {
        let NamedId(id) = NamedId::from_request_parts(parts, app).await?;
        let scope = parts.extensions.get::<TokenScope>().copied();
        Ok(Target {
            app: Shared::clone(app),
            scope: scope.ok_or_else(|| Problem::inside(&"a request without a scope"))?,
            id,
        })
    }
}
