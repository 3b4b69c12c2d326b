//! Tests of what errors mean.

use super::*;
use FailureClass::*;

fn class_of(status: u16, body: &str) -> FailureClass {
    classify(status, body, "").class
}

#[test]
fn statuses_and_codes_have_their_class() {
    for (status, body, want) in [
        (
            401,
            r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#,
            Auth,
        ),
        (403, "", Auth),
        (
            402,
            r#"{"error":{"message":"Insufficient Balance"}}"#,
            UsedUp,
        ),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota"}}"#,
            UsedUp,
        ),
        (
            400,
            r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]"#,
            Auth,
        ),
        (
            400,
            r#"{"code":"invalid-argument","error":"Incorrect API key provided. You can obtain an API key from https://console.x.ai."}"#,
            Auth,
        ),
        (400, r#"{"code":"insufficient_quota","error":"no"}"#, UsedUp),
        (
            429,
            r#"{"error":{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED"}}"#,
            RateLimit,
        ),
        (429, "too many tokens, wait before trying again", RateLimit),
        (500, "{}", Overloaded),
        (529, "", Overloaded),
        (408, "", Overloaded),
        (
            404,
            r#"{"error":"model \"x\" not found, try pulling it first"}"#,
            NoModel,
        ),
        (
            400,
            r#"{"error":{"message":"max_tokens is too large: 32000. This model supports at most 16384 completion tokens"}}"#,
            BadRequest,
        ),
        (
            422,
            r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#,
            BadRequest,
        ),
    ] {
        assert_eq!(class_of(status, body), want, "{status} {body}");
    }
    assert_eq!(classify(404, "", "").hint.as_deref(), Some(NAME));
    assert_eq!(classify(402, "", "").hint.as_deref(), Some(BILLING));
}

#[test]
fn an_error_in_a_stream_is_known_by_its_code() {
    let class = |text: &str| in_stream(&serde_json::from_str(text).unwrap()).class;
    assert_eq!(
        class(r#"{"code":"rate_limit_exceeded","message":"slow down"}"#),
        RateLimit
    );
    assert_eq!(class(r#"{"code":502,"message":"upstream"}"#), Overloaded);
    assert_eq!(
        class(r#"{"code":"context_length_exceeded","message":"x"}"#),
        TooLong
    );
    assert_eq!(
        class(r#"{"code":"invalid_prompt","message":"x"}"#),
        BadRequest
    );
    assert_eq!(class(r#"{"code":"server_error"}"#), Overloaded);
    assert_eq!(class("null"), Overloaded);
    assert_eq!(class(r#""the model crashed""#), Overloaded);
}

#[test]
fn an_error_in_a_stream_without_a_code_is_known_by_its_words() {
    let failure = |text: &str| {
        let failure = in_stream(&serde_json::from_str(text).unwrap());
        of_model(failure, "x/m-old")
    };
    for text in [
        r#"{"error":"model 'm-old' not found"}"#,
        r#""m-old does not exist""#,
        r#"{"message":"m-old: not found"}"#,
        r#"{"message":"The model is not available"}"#,
    ] {
        let failure = failure(text);
        assert_eq!(failure.class, NoModel, "{text}");
        assert_eq!(failure.hint.as_deref(), Some(NO_MODEL));
    }
    for text in [
        r#"{"message":"m-old is busy"}"#,
        r#"{"message":"The page was not found"}"#,
        r#"{"code":"overloaded","message":"The model is not available"}"#,
    ] {
        assert_eq!(failure(text).class, Overloaded, "{text}");
    }
}

#[test]
fn the_servers_words_are_kept_on_one_short_line() {
    let failure = classify(400, r#"{"error":{"message":"bad\u001b[31m\nthing"}}"#, "");
    assert_eq!(failure.message, "bad [31m thing");
    assert_eq!(clip(&"ä".repeat(9000)).chars().count(), MAX_WORDS + 1);
    assert_eq!(clip(&"ab ".repeat(9000)).chars().count(), MAX_WORDS + 1);
    assert_eq!(classify(502, "", "").message, "");
}

/// A request that can never succeed fails at once, with a hint.
#[test]
fn a_request_that_cannot_succeed_fails_with_a_hint() {
    for (status, body, class, hint) in [
        // llama.cpp, vLLM, Ollama, OpenRouter
        (
            500,
            r#"{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}"#,
            BadRequest,
            "--jinja",
        ),
        (
            400,
            r#"{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"}"#,
            BadRequest,
            "--enable-auto-tool-choice",
        ),
        (
            400,
            r#"{"error":{"message":"registry.ollama.ai/library/m:1b does not support tools"}}"#,
            BadRequest,
            "can call tools",
        ),
        (
            404,
            r#"{"error":{"message":"No endpoints found that support tool use.","code":404}}"#,
            BadRequest,
            "can call tools",
        ),
        // DeepSeek, Mistral, OpenRouter, xAI (three forms), LiteLLM, Azure, Ollama
        (
            400,
            r#"{"error":{"message":"Model Not Exist","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
            NoModel,
            NO_MODEL,
        ),
        (
            400,
            r#"{"object":"error","message":"Invalid model: m","type":"invalid_model","param":null,"code":"1500"}"#,
            NoModel,
            NO_MODEL,
        ),
        (
            400,
            r#"{"error":{"message":"x/m is not a valid model ID","code":400}}"#,
            NoModel,
            NO_MODEL,
        ),
        (
            404,
            r#"{"error":{"message":"No endpoints found for x/m.","code":404}}"#,
            NoModel,
            NO_MODEL,
        ),
        (
            400,
            r#"{"code":"invalid-argument","error":"Model not found: grok-9"}"#,
            NoModel,
            NO_MODEL,
        ),
        (
            404,
            r#"{"code":"Some requested entity was not found","error":"The model grok-9 does not exist or your team does not have access to it."}"#,
            NoModel,
            NO_MODEL,
        ),
        (
            400,
            r#"{"error":{"message":"Invalid model name passed in model=m. Call `/v1/models` to view available models for your key."}}"#,
            NoModel,
            NO_MODEL,
        ),
        (
            404,
            r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
            NoModel,
            NO_MODEL,
        ),
        (
            404,
            r#"{"error":{"message":"model \"m\" not found, try pulling it first","type":"api_error"}}"#,
            NoModel,
            NO_MODEL,
        ),
        // The month, or all of the money, is over.
        (
            429,
            r#"{"error":{"message":"You have reached your monthly usage limit.","type":"rate_limit_error"}}"#,
            UsedUp,
            BILLING,
        ),
        (
            429,
            r#"{"message":"You are using a Trial key, which is limited to 1000 API calls / month."}"#,
            UsedUp,
            BILLING,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."}}"#,
            UsedUp,
            BILLING,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}"#,
            UsedUp,
            BILLING,
        ),
        (
            429,
            r#"{"code":"The caller does not have permission","error":"Your team has either used all available credits or reached its monthly spending limit."}"#,
            UsedUp,
            BILLING,
        ),
        (
            429,
            r#"{"error":{"message":"Your account is suspended","type":"exceeded_current_quota_error"}}"#,
            UsedUp,
            BILLING,
        ),
        // Google: the quota of the day, with a wait that brings nothing.
        (
            429,
            r#"{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"retryDelay":"34s"}]}}"#,
            UsedUp,
            "of the day",
        ),
    ] {
        let failure = classify(status, body, "");
        assert_eq!(failure.class, class, "{status} {body}");
        let said = failure.hint.unwrap_or_default();
        assert!(said.contains(hint), "{said:?} {body}");
    }
    // A quota of the minute comes back.
    let minute = r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateContentPaidTierInputTokensPerModelPerMinute"}]},{"retryDelay":"34s"}]}}"#;
    assert_eq!(class_of(429, minute), RateLimit);
}

#[test]
fn the_kind_of_an_error_counts_under_any_status() {
    for (kind, want) in [
        ("rate_limit_error", RateLimit),
        ("overloaded_error", Overloaded),
        ("authentication_error", Auth),
        ("permission_error", Auth),
        ("billing_error", UsedUp),
    ] {
        let body = format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"x"}}}}"#);
        assert_eq!(class_of(400, &body), want, "{kind}");
        let event = serde_json::from_str(&body).unwrap();
        assert_eq!(in_stream(&event).class, want, "{kind}");
    }
}

/// A gateway puts the reason where the name of the parameter belongs.
#[test]
fn a_sentence_as_the_name_of_a_parameter_is_part_of_the_words() {
    let said = |text: &str| words(&serde_json::from_str(text).unwrap());
    let text = r#"{"message":"Param Incorrect","param":"max_tokens is too large: 9. This model supports at most 4 completion tokens"}"#;
    assert!(said(text).ends_with("at most 4 completion tokens"));
    assert_eq!(said(r#"{"message":"no","param":"max_tokens"}"#), "no");
    let twice = r#"{"message":"it is too large","param":"is too large"}"#;
    assert_eq!(said(twice), "it is too large");
}
