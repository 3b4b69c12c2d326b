//! Static files: the page, its script and style, and the description of the routes. They are part
//! of the program and contain nothing of a session.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::answer::{bytes_as, json};
use super::problem::Problem;
use crate::session::VERSION;

const INDEX: &str = include_str!("../../assets/page/index.html");
const SCRIPT: &str = include_str!("../../assets/page/app.js");
const MARKDOWN: &str = include_str!("../../assets/page/markdown.js");
const ICON: &str = include_str!("../../assets/page/icon.svg");
const MANIFEST: &str = include_str!("../../assets/page/manifest.webmanifest");
const STYLE: &str = include_str!("../../assets/page/style.css");
const OPENAPI: &str = include_str!("../../assets/openapi.json");

pub(super) async fn index() -> Response {
    bytes_as(StatusCode::OK, "text/html; charset=utf-8", INDEX)
}

pub(super) async fn script() -> Response {
    bytes_as(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT)
}

pub(super) async fn markdown() -> Response {
    bytes_as(StatusCode::OK, "text/javascript; charset=utf-8", MARKDOWN)
}

pub(super) async fn icon() -> Response {
    bytes_as(StatusCode::OK, "image/svg+xml", ICON)
}

/// Returns the manifest of an installed page. It has no token: every client can read it.
pub(super) async fn manifest() -> Response {
    bytes_as(StatusCode::OK, "application/manifest+json", MANIFEST)
}

pub(super) async fn style() -> Response {
    bytes_as(StatusCode::OK, "text/css; charset=utf-8", STYLE)
}

pub(super) async fn openapi() -> Response {
    bytes_as(StatusCode::OK, "application/json", OPENAPI)
}

/// Returns the version, to show that the server is running.
pub(super) async fn health() -> Result<Response, Problem> {
    json(StatusCode::OK, &json!({"status": "ok", "version": VERSION}))
}
