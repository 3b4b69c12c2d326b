//! Tests of what errors mean.

use super::*;
use FailureClass::*;

fn class_of(status: u16, body: &str) -> FailureClass {
    classify(status, body).class
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
        (402, r#"{"error":{"message":"Insufficient Balance"}}"#, Auth),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota"}}"#,
            Auth,
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
        (400, r#"{"code":"insufficient_quota","error":"no"}"#, Auth),
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
            BadRequest,
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
    assert_eq!(classify(404, "").hint.as_deref(), Some(NAME));
    assert_eq!(classify(402, "").hint.as_deref(), Some(BILLING));
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
fn the_servers_words_are_kept_on_one_short_line() {
    let failure = classify(400, r#"{"error":{"message":"bad\u001b[31m\nthing"}}"#);
    assert_eq!(failure.message, "bad [31m thing");
    assert_eq!(clip(&"ä".repeat(9000)).chars().count(), MAX_WORDS + 1);
    assert_eq!(clip(&"ab ".repeat(9000)).chars().count(), MAX_WORDS + 1);
    assert_eq!(classify(502, "").message, "");
}
