//! The routes: which there are, what each needs, and where it leads.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{MethodRouter, get, patch, post};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::problem::Problem;
use super::{App, Scope, Shared, events, fence, page, reading, starting, steering};

/// A route, as `assets/openapi.json` has it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    /// What the token has to be for. `None`: none is needed, and nothing of a session is in it.
    pub scope: Option<Scope>,
}

const fn route(method: &'static str, path: &'static str, scope: Option<Scope>) -> Route {
    Route {
        method,
        path,
        scope,
    }
}

const READ: Option<Scope> = Some(Scope::Read);
const CONTROL: Option<Scope> = Some(Scope::Control);

/// All of them.
#[rustfmt::skip]
pub const ROUTES: &[Route] = &[
    route("GET", "/", None),
    route("GET", "/app.js", None),
    route("GET", "/style.css", None),
    route("GET", "/openapi.json", None),
    route("GET", "/health", None),
    route("GET", "/agent/history", READ),
    route("GET", "/questions", READ),
    route("GET", "/events", READ),
    route("GET", "/sessions/{id}", READ),
    route("GET", "/sessions/{id}/entries", READ),
    route("GET", "/sessions/{id}/checkpoints", READ),
    route("GET", "/sessions/{id}/blobs/{hash}", READ),
    route("GET", "/sessions/{id}/events", READ),
    route("POST", "/sessions", CONTROL),
    route("PATCH", "/sessions/{id}", CONTROL),
    route("POST", "/sessions/{id}/fork", CONTROL),
    route("POST", "/sessions/{id}/messages", CONTROL),
    route("POST", "/sessions/{id}/verdicts", CONTROL),
    route("POST", "/sessions/{id}/stop", CONTROL),
    route("POST", "/sessions/{id}/pause", CONTROL),
    route("POST", "/sessions/{id}/go", CONTROL),
];

fn handler(route: &Route) -> MethodRouter<Shared> {
    match (route.method, route.path) {
        ("GET", "/") => get(page::index),
        ("GET", "/app.js") => get(page::script),
        ("GET", "/style.css") => get(page::style),
        ("GET", "/openapi.json") => get(page::openapi),
        ("GET", "/health") => get(page::health),
        ("GET", "/agent/history") => get(reading::history),
        ("GET", "/questions") => get(reading::questions),
        ("GET", "/events") => get(events::all),
        ("GET", "/sessions/{id}") => get(reading::session),
        ("GET", "/sessions/{id}/entries") => get(reading::entries),
        ("GET", "/sessions/{id}/checkpoints") => get(reading::checkpoints),
        ("GET", "/sessions/{id}/blobs/{hash}") => get(reading::blob),
        ("GET", "/sessions/{id}/events") => get(events::of_session),
        ("POST", "/sessions") => post(starting::start),
        ("PATCH", "/sessions/{id}") => patch(steering::choose),
        ("POST", "/sessions/{id}/fork") => post(starting::fork),
        ("POST", "/sessions/{id}/messages") => post(steering::send),
        ("POST", "/sessions/{id}/verdicts") => post(steering::answer),
        ("POST", "/sessions/{id}/stop") => post(steering::stop),
        ("POST", "/sessions/{id}/pause") => post(steering::pause),
        ("POST", "/sessions/{id}/go") => post(steering::go_on),
        _ => MethodRouter::new(),
    }
}

pub(super) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        router = router.route(route.path, handler(route));
    }
    router
        .route_layer(from_fn_with_state(Arc::clone(&app), fence::permitted))
        .method_not_allowed_fallback(wrong_method)
        .fallback(nothing_there)
        .layer(from_fn_with_state(Arc::clone(&app), fence::guarded))
        .with_state(app)
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{} cannot be asked with {method}", uri.path()),
    )
    .hint("/openapi.json lists what can be asked, and how")
}

async fn nothing_there(uri: Uri) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        format!("there is nothing at {}", uri.path()),
    )
    .hint("/openapi.json lists what there is")
}

/// An answer as JSON.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Result<Response, Problem> {
    let bytes = serde_json::to_vec(value).map_err(|e| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("cannot write the answer: {e}"),
        )
    })?;
    Ok(bytes_as(status, "application/json", bytes))
}

pub(super) fn bytes_as(status: StatusCode, kind: &'static str, bytes: impl Into<Body>) -> Response {
    let mut response = Response::new(bytes.into());
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// What stands behind the `?`.
pub(super) struct Wanted<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Wanted<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(wanted)) => Ok(Wanted(wanted)),
            Err(why) => Err(
                Problem::bad(format!("the query makes no sense: {}", why.body_text()))
                    .hint("/openapi.json says what may be asked"),
            ),
        }
    }
}

/// The parts of the path that name something.
pub(super) struct Named<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(named)) => Ok(Named(named)),
            Err(_) => Err(Problem::bad("the path makes no sense")
                .hint("an id is hexadecimal digits and hyphens")),
        }
    }
}
