//! Recognizes that a server refuses the model itself: it does not know it, has retired it, or does
//! not give it to this key. Another model then helps, and nothing else does.
//!
//! Sources, all passed on by routers too: OpenAI (`model_not_found` with 400, 403 or 404),
//! Anthropic (404 `not_found_error`, "model: NAME"), Gemini ("models/NAME is not found for API
//! version v1beta"), Azure (`DeploymentNotFound`), Vertex ("Publisher Model … was not found"),
//! Bedrock ("The provided model identifier is invalid", "has reached the end of its life"), Groq
//! (`model_decommissioned`), Together (`model_not_available`), Mistral ("Invalid model: NAME"),
//! DeepSeek ("Model Not Exist"), Moonshot ("Not found the model NAME or Permission denied"), Z.ai
//! ("Unknown Model"), OpenRouter ("not a valid model ID", "No endpoints found for NAME"), LiteLLM
//! ("Invalid model name passed in", "not allowed to access model"), vLLM ("The model `NAME` does
//! not exist."), Ollama and llama.cpp ("model 'NAME' not found"), LM Studio ("Invalid model
//! identifier").
//!
//! Invariant: another 404 is none of these. An address that does not exist is an error of
//! `base_url`, and says nothing about a model.

/// Codes of an error, in lower case.
const CODES: [&str; 12] = [
    "model_not_found",
    "modelnotfound",
    "invalid_model",
    "deploymentnotfound",
    "model_not_supported",
    "model_not_available",
    "model_decommissioned",
    "model_deprecated",
    "model_permission_blocked_org",
    "model_permission_blocked_project",
    "key_model_access_denied",
    "team_model_access_denied",
];

/// Words that mean it whatever the status is.
const CLEAR: [&str; 18] = [
    "model not found",
    "model not exist",
    "not a valid model",
    "invalid model:",
    "invalid model name",
    "invalid model identifier",
    "model identifier is invalid",
    "could not resolve the foundation model",
    "unknown model",
    "no such model",
    "no endpoints found for",
    "no endpoints found matching",
    "no allowed providers are available",
    "allowed to access model",
    "have access to model",
    "access to the model",
    "is not found for api version",
    "marked by provider as legacy",
];

/// What is said of a model that is not there.
const STATES: [&str; 29] = [
    "not found",
    "not exist",
    "doesn't exist",
    "no longer exists",
    "could not find",
    "cannot find",
    "couldn't find",
    "been deprecated",
    "is deprecated",
    "was deprecated",
    "retired",
    "decommissioned",
    "discontinued",
    "shut down",
    "been removed",
    "no longer available",
    "no longer supported",
    "end of life",
    "end-of-life",
    "end of its life",
    "not available",
    "isn't available",
    "not supported",
    "not deployed",
    "not enabled",
    "not authorized",
    "unable to access",
    "have access",
    "has access",
];

/// Subjects of other errors that also name a model, and marks of an error page. A model that is
/// only busy comes back.
const OTHER: [&str; 25] = [
    "<html",
    "<!doctype",
    "url",
    "cannot post",
    "no route",
    "page not found",
    "parameter",
    "argument",
    "field",
    "header",
    "temperature",
    "top_p",
    "tool",
    "function",
    "image",
    "audio",
    "thinking",
    "reasoning",
    "effort",
    "schema",
    "tokens",
    "temporar",
    "overload",
    "demand",
    "try again",
];

/// Maximum distance between a model and what is said of it. Names of models are long.
const NEAR_BYTES: usize = 160;

/// Returns whether this error refuses the model. `codes` are in lower case; `parameter` is the part
/// of the request that the error names.
pub(super) fn is_refused(
    status: u16,
    codes: &[String],
    parameter: Option<&str>,
    words: &str,
) -> bool {
    let text = words.to_lowercase();
    if codes.iter().any(|code| CODES.contains(&code.as_str()))
        || CLEAR.iter().any(|words| text.contains(words))
    {
        return true;
    }
    let is_of_another = |name: &str| !["model", "none"].contains(&name);
    let text = without_names(&text);
    if parameter.is_some_and(is_of_another) || OTHER.iter().any(|w| text.contains(w)) {
        return false;
    }
    let subject = ["model", "deployment"]
        .iter()
        .find_map(|noun| text.find(noun));
    let Some(subject) = subject else {
        return false;
    };
    let is_near = |at: usize| at.saturating_sub(subject) <= NEAR_BYTES;
    match status {
        404 | 410 => {
            let is_coded = codes.iter().any(|code| code.contains("not_found"));
            is_coded
                || parameter == Some("model")
                || STATES.iter().any(|state| text.contains(state))
        }
        // The subject of the sentence is the model: "… is not supported for this model" is not.
        400 | 403 | 422 => STATES
            .iter()
            .filter_map(|state| text.find(state))
            .any(|at| at > subject && is_near(at)),
        _ => false,
    }
}

/// Returns the text without words that are quoted, contain a digit or are a path: the name of a
/// model may contain any word.
fn without_names(text: &str) -> String {
    let is_name = |word: &&str| {
        let word = word.trim_start_matches('(');
        word.starts_with(['`', '\'', '"', '‘', '“'])
            || word.contains('/')
            || word.bytes().any(|b| b.is_ascii_digit())
    };
    let words: Vec<&str> = text.split_whitespace().filter(|w| !is_name(w)).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::errors::classify;
    use crate::core::entry::FailureClass;

    /// Bodies as their servers send them, with the status.
    const REFUSED: &[(u16, &str)] = &[
        (
            404,
            r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-sonnet-4-5"}}"#,
        ),
        (
            404,
            r#"{"error":{"message":"The model `gpt-5` has been deprecated, learn more here: https://platform.openai.com/docs/deprecations","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
        ),
        (
            403,
            r#"{"error":{"message":"Project `proj_1` does not have access to model `gpt-6`","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"The requested model 'm' does not exist.","type":"invalid_request_error","param":"model","code":"model_not_found"}}"#,
        ),
        (
            404,
            r#"[{"error":{"code":404,"message":"models/m is not found for API version v1beta, or is not supported for generateContent.","status":"NOT_FOUND"}}]"#,
        ),
        (
            404,
            r#"{"error":{"code":404,"message":"This model models/gemini-2.5-pro is no longer available to new users. Please update your code to use a newer model.","status":"NOT_FOUND"}}"#,
        ),
        (
            404,
            r#"{"error":{"code":404,"message":"Publisher Model `projects/p/locations/l/publishers/google/models/m` was not found or your project does not have access to it.","status":"NOT_FOUND"}}"#,
        ),
        (
            404,
            r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
        ),
        (
            410,
            r#"{"error":{"code":"410","message":"The model 'gpt-4' has been retired."}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"The model `llama3-70b-8192` has been decommissioned and is no longer supported. Please refer to https://example.com/docs/deprecations","type":"invalid_request_error","code":"model_decommissioned"}}"#,
        ),
        (
            404,
            r#"{"error":{"message":"Unable to access model m. Please visit the list of supported models.","type":"invalid_request_error","param":null,"code":"model_not_available"}}"#,
        ),
        (
            400,
            r#"{"object":"error","message":"Invalid model: m","type":"invalid_model","param":null,"code":"1500"}"#,
        ),
        (
            400,
            r#"{"error":{"message":"Model Not Exist","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
        ),
        (
            404,
            r#"{"error":{"message":"Not found the model kimi-x or Permission denied","type":"resource_not_found_error"}}"#,
        ),
        (
            400,
            r#"{"error":{"code":"1211","message":"Unknown Model, please check the model code."}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"x is not a valid model ID","code":400}}"#,
        ),
        (
            404,
            r#"{"error":{"message":"No endpoints found for x/m.","code":404}}"#,
        ),
        (
            404,
            r#"{"error":{"message":"No allowed providers are available for the selected model.","code":404}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"{'error': '/chat/completions: Invalid model name passed in model=m. Call `/v1/models` to view available models for your key.'}","type":"None","param":"None","code":"400"}}"#,
        ),
        (
            401,
            r#"{"error":{"message":"key not allowed to access model. This key can only access models=['a']. Tried to access m","type":"key_model_access_denied","param":"model","code":"401"}}"#,
        ),
        (
            404,
            r#"{"object":"error","message":"The model `m` does not exist.","type":"NotFoundError","param":null,"code":404}"#,
        ),
        (404, r#"{"error":"model 'm' not found"}"#),
        (
            404,
            r#"{"error":"model \"m\" not found, try pulling it first"}"#,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"model 'm' not found","type":"invalid_request_error"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"Invalid model identifier \"m\". Please specify a valid downloaded model","type":"invalid_request_error"}}"#,
        ),
        (
            400,
            r#"{"message":"The provided model identifier is invalid."}"#,
        ),
        (
            404,
            r#"{"message":"This model version has reached the end of its life. Please refer to the documentation."}"#,
        ),
        (
            403,
            r#"{"message":"You don't have access to the model with the specified model ID."}"#,
        ),
        (
            404,
            r#"{"error":{"message":"Model not found, inaccessible, and/or not deployed","code":"NOT_FOUND"}}"#,
        ),
        (
            404,
            r#"{"code":"Some requested entity was not found","error":"The model m does not exist or your team t does not have access to it."}"#,
        ),
        (
            400,
            r#"{"error":{"message":"The requested model is not supported.","code":"model_not_supported","param":"model"}}"#,
        ),
        (
            503,
            r#"{"error":{"message":"No available channel for m under group default","code":"model_not_found"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"Model m is not available in your region."}}"#,
        ),
        (
            404,
            r#"{"error":{"message":"The model 'grok-4-fast-reasoning' was not found"}}"#,
        ),
    ];

    /// Errors about something else, also those that name a model.
    const OTHERS: &[(u16, &str)] = &[
        (404, ""),
        (404, "404 page not found"),
        (404, r#"{"detail":"Not Found"}"#),
        (
            404,
            "<!DOCTYPE html><title>Error 404</title>The requested URL /x/models/m:streamGenerateContent was not found on this server.",
        ),
        (
            404,
            r#"{"error":{"message":"Invalid URL (POST /v1/v1/models/chat)","type":"invalid_request_error"}}"#,
        ),
        (
            404,
            r#"{"type":"error","error":{"type":"not_found_error","message":"Not Found"}}"#,
        ),
        (
            404,
            r#"{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}"#,
        ),
        (
            404,
            r#"{"error":{"code":"404","message":"Resource not found"}}"#,
        ),
        (410, ""),
        (
            404,
            r#"{"error":{"message":"No endpoints found that support image input","code":404}}"#,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"`temperature` is deprecated for this model."}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"Unsupported value: 'none' is not supported with the 'gpt-6.1-sol' model.","param":"reasoning.effort","code":"unsupported_value"}}"#,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"This model does not support assistant message prefill."}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"model m: prefix mode is on; top_p is not supported"}}"#,
        ),
        (
            400,
            r#"{"error":{"message":"Prompt caching is not enabled for this model"}}"#,
        ),
        (
            429,
            r#"{"error":{"message":"The model m is not available: quota exceeded"}}"#,
        ),
        (
            503,
            r#"{"error":{"message":"The model is overloaded. Please try again later."}}"#,
        ),
        (
            403,
            r#"{"type":"error","error":{"type":"permission_error","message":"Your key does not have permission to use the specified resource."}}"#,
        ),
        (
            401,
            r#"{"error":{"message":"Incorrect API key provided: sk-x","code":"invalid_api_key"}}"#,
        ),
    ];

    #[test]
    fn every_server_says_it_in_its_own_words() {
        for (status, body) in REFUSED {
            let failure = classify(*status, body);
            assert_eq!(failure.class, FailureClass::NoModel, "{status} {body}");
            let hint = failure.hint.unwrap_or_default();
            assert!(hint.contains("-m ") && hint.contains("/model"), "{hint}");
        }
    }

    #[test]
    fn other_errors_stay_what_they_are() {
        for (status, body) in OTHERS {
            let class = classify(*status, body).class;
            assert_ne!(class, FailureClass::NoModel, "{status} {body}");
        }
    }
}
