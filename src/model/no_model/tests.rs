//! The words of each server for a model that is not there, and errors that are something else.

use crate::core::entry::FailureClass;
use crate::model::errors::classify;

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
