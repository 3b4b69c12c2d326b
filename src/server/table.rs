//! The list of routes and their required scopes.

use super::access::TokenScope;

/// A route, as in `assets/openapi.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    /// Scope that the token needs. `None`: no token is needed, and the answer contains nothing of
    /// a session.
    pub scope: Option<TokenScope>,
}

const fn route(method: &'static str, path: &'static str, scope: Option<TokenScope>) -> Route {
    Route {
        method,
        path,
        scope,
    }
}

const READ: Option<TokenScope> = Some(TokenScope::Read);
const CONTROL: Option<TokenScope> = Some(TokenScope::Control);

/// All routes.
#[rustfmt::skip]
pub const ROUTES: &[Route] = &[
    route("GET", "/", None),
    route("GET", "/app.js", None),
    route("GET", "/markdown.js", None),
    route("GET", "/style.css", None),
    route("GET", "/icon.svg", None),
    route("GET", "/manifest.webmanifest", None),
    route("GET", "/openapi.json", None),
    route("GET", "/health", None),
    route("GET", "/agent/history", READ),
    route("GET", "/questions", READ),
    route("GET", "/models", READ),
    route("GET", "/ps", READ),
    route("GET", "/events", READ),
    route("GET", "/sessions/{id}", READ),
    route("GET", "/sessions/{id}/entries", READ),
    route("GET", "/sessions/{id}/checkpoints", READ),
    route("GET", "/sessions/{id}/blobs/{hash}", READ),
    route("GET", "/sessions/{id}/events", READ),
    route("GET", "/sessions/{id}/diff", READ),
    route("GET", "/sessions/{id}/calls/{call}/diff", READ),
    route("GET", "/sessions/{id}/calls/{call}/change", CONTROL),
    route("POST", "/sessions", CONTROL),
    route("PATCH", "/sessions/{id}", CONTROL),
    route("POST", "/sessions/{id}/fork", CONTROL),
    route("POST", "/sessions/{id}/rewind", CONTROL),
    route("POST", "/sessions/{id}/compact", CONTROL),
    route("POST", "/sessions/{id}/messages", CONTROL),
    route("POST", "/sessions/{id}/verdicts", CONTROL),
    route("POST", "/sessions/{id}/answers", CONTROL),
    route("POST", "/sessions/{id}/stop", CONTROL),
    route("POST", "/sessions/{id}/pause", CONTROL),
    route("POST", "/sessions/{id}/go", CONTROL),
    route("POST", "/ps/{run}/stop", CONTROL),
];
