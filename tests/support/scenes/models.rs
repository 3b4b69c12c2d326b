//! Servers that lack models.

use serde_json::json;

use crate::{Answer, Protocol, Says, Server};

/// The error of each protocol's own server for a model that it does not have any more.
pub fn gone(protocol: Protocol, model: &str) -> Answer {
    let (status, body) = match protocol {
        Protocol::Anthropic => (
            404,
            json!({"type": "error", "error": {"type": "not_found_error", "message": format!("model: {model}")}}),
        ),
        Protocol::Chat => (
            410,
            json!({"error": {"message": format!("The model `{model}` has been deprecated"), "code": "model_not_found"}}),
        ),
        Protocol::Responses => (
            400,
            json!({"error": {"message": format!("The requested model '{model}' does not exist."), "param": "model", "code": "model_not_found"}}),
        ),
        Protocol::Gemini => (
            404,
            json!({"error": {"code": 404, "message": format!("models/{model} is not found for API version v1beta"), "status": "NOT_FOUND"}}),
        ),
    };
    Answer::Raw {
        status,
        content_type: "application/json",
        body: body.to_string(),
    }
}

/// A server that has all models but these.
pub fn without(protocol: Protocol, names: &'static [&'static str]) -> Server {
    Server::start(move |seen| match names.contains(&seen.model.as_str()) {
        true => gone(protocol, &seen.model),
        false => Says::text(format!("I am {}.", seen.model)).into(),
    })
}

pub fn asked(server: &Server) -> Vec<String> {
    server.requests().iter().map(|r| r.model.clone()).collect()
}
