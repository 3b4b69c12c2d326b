//! The handlers of the routes.

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, patch, post};

use super::problem::Problem;
use super::table::{ROUTES, Route};
use super::{
    App, Shared, changes, events, page, reading, repeated, request_guard, rewinding, starting,
    steering,
};

fn handler(route: &Route) -> MethodRouter<Shared> {
    match (route.method, route.path) {
        ("GET", "/") => get(page::index),
        ("GET", "/app.js") => get(page::script),
        ("GET", "/markdown.js") => get(page::markdown),
        ("GET", "/icon.svg") => get(page::icon),
        ("GET", "/manifest.webmanifest") => get(page::manifest),
        ("GET", "/style.css") => get(page::style),
        ("GET", "/openapi.json") => get(page::openapi),
        ("GET", "/health") => get(page::health),
        ("GET", "/agent/history") => get(reading::history),
        ("GET", "/questions") => get(reading::questions),
        ("GET", "/models") => get(changes::models),
        ("GET", "/ps") => get(changes::processes),
        ("GET", "/events") => get(events::all),
        ("GET", "/sessions/{id}") => get(reading::session),
        ("GET", "/sessions/{id}/entries") => get(reading::entries),
        ("GET", "/sessions/{id}/checkpoints") => get(reading::checkpoints),
        ("GET", "/sessions/{id}/blobs/{hash}") => get(reading::blob),
        ("GET", "/sessions/{id}/events") => get(events::of_session),
        ("GET", "/sessions/{id}/diff") => get(changes::diff),
        ("GET", "/sessions/{id}/calls/{call}/diff") => get(changes::of_call),
        ("GET", "/sessions/{id}/calls/{call}/change") => get(reading::asked_change),
        ("POST", "/sessions") => post(starting::start),
        ("PATCH", "/sessions/{id}") => patch(steering::choose),
        ("POST", "/sessions/{id}/fork") => post(starting::fork),
        ("POST", "/sessions/{id}/rewind") => post(rewinding::rewind),
        ("POST", "/sessions/{id}/compact") => post(rewinding::compact),
        ("POST", "/sessions/{id}/messages") => post(steering::send),
        ("POST", "/sessions/{id}/verdicts") => post(steering::answer),
        ("POST", "/sessions/{id}/answers") => post(steering::answer_server),
        ("POST", "/sessions/{id}/stop") => post(steering::stop),
        ("POST", "/sessions/{id}/pause") => post(steering::pause),
        ("POST", "/sessions/{id}/go") => post(steering::continue_session),
        ("POST", "/ps/{run}/stop") => post(changes::stop),
        _ => MethodRouter::new(),
    }
}

pub(super) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        router = router.route(route.path, handler(route));
    }
    router
        .route_layer(from_fn_with_state(Arc::clone(&app), repeated::once))
        .route_layer(from_fn_with_state(
            Arc::clone(&app),
            request_guard::permitted,
        ))
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown_route)
        .layer(from_fn_with_state(Arc::clone(&app), request_guard::guarded))
        .with_state(app)
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{} cannot be asked with {method}", uri.path()),
    )
    .hint("/openapi.json lists what can be asked, and how")
}

async fn unknown_route(uri: Uri) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        format!("there is nothing at {}", uri.path()),
    )
    .hint("/openapi.json lists what there is")
}
