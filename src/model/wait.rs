//! The pause that a server asks for: in a header, in a field of its error, or in its message.
//!
//! Sources: RFC 9110, section 10.2.3 (`retry-after`); Azure (`retry-after-ms`); Google
//! (`RetryInfo.retryDelay`); OpenAI, Groq and others (`x-ratelimit-reset-tokens: 6m0s`, "Please
//! try again in 1m26.4s"); OpenRouter (`X-RateLimit-Reset` in milliseconds since 1970); Anthropic
//! (`anthropic-ratelimit-tokens-reset`, a time).

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::core::half_character::read_lenient;

/// A lookup of the headers of one answer, by lower-case name.
pub(super) type Headers<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Header names of rate limits: `PREFIX-remaining…` and `PREFIX-reset…`.
const RESETS: [(&str, &str); 8] = [
    (
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-requests",
    ),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    (
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
    ),
    (
        "anthropic-ratelimit-tokens-remaining",
        "anthropic-ratelimit-tokens-reset",
    ),
    (
        "anthropic-ratelimit-input-tokens-remaining",
        "anthropic-ratelimit-input-tokens-reset",
    ),
    (
        "anthropic-ratelimit-output-tokens-remaining",
        "anthropic-ratelimit-output-tokens-reset",
    ),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("ratelimit-remaining", "ratelimit-reset"),
];

/// Words that precede a time in a message.
const BEFORE: [&str; 7] = [
    "try again in ",
    "retry in ",
    "retry after ",
    "try again after ",
    "please wait ",
    "resets in ",
    "reset in ",
];

/// Returns the wait that a refusal asks for. A statement about this refusal takes precedence over
/// statements about rate limits, which are not all reached.
pub(super) fn asked(status: u16, headers: Headers, body: &str, now: Timestamp) -> Option<Duration> {
    let ms = headers("retry-after-ms").and_then(|ms| number(&ms));
    let ms = ms.and_then(|ms| seconds(ms / 1000.0));
    let after = || headers("retry-after").and_then(|after| retry_after(&after, now));
    ms.or_else(after)
        .or_else(|| in_body(body, now))
        .or_else(|| in_words(body))
        .or_else(|| of_limits(headers, now).filter(|_| status == 429))
}

/// Parses `retry-after: 2` or `Wed, 21 Oct 2026 07:28:00 GMT`.
fn retry_after(after: &str, now: Timestamp) -> Option<Duration> {
    if let Some(asked) = number(after) {
        return seconds(asked);
    }
    let at = jiff::fmt::rfc2822::parse(after.trim()).ok()?;
    until(at.timestamp(), now)
}

/// Returns whether a server refuses because it loads the model: status 503 with such words.
pub(super) fn is_for_loading(status: u16, body: &str) -> bool {
    let words = body.to_lowercase();
    let is_word = |at: usize| !words[..at].ends_with(char::is_alphabetic);
    let mut loading = words.match_indices("loading").map(|(at, _)| at);
    let is_broken = ["error loading", "failed", "cannot"];
    status == 503 && loading.any(is_word) && !is_broken.iter().any(|word| words.contains(word))
}

/// Reads Google's `RetryInfo`, and headers that a router puts into its error.
fn in_body(body: &str, now: Timestamp) -> Option<Duration> {
    let value = read_lenient(body.as_bytes()).ok()?;
    let value = value.get(0).unwrap_or(&value);
    let error = value.get("error").unwrap_or(value);
    let details = error.get("details").and_then(Value::as_array);
    let delay = details
        .into_iter()
        .flatten()
        .find_map(|detail| time(detail.get("retryDelay")?.as_str()?));
    delay.or_else(|| {
        let headers = error.pointer("/metadata/headers")?.as_object()?;
        let named = |(name, _): &(&String, &Value)| name.eq_ignore_ascii_case("x-ratelimit-reset");
        let (_, reset) = headers.iter().find(named)?;
        let text = reset
            .as_str()
            .map_or_else(|| reset.to_string(), str::to_string);
        end_of(&text, now)
    })
}

/// Parses "Please try again in 1m26.4s" or "retry after 20 seconds".
pub(super) fn in_words(text: &str) -> Option<Duration> {
    let text = text.to_lowercase();
    BEFORE.iter().find_map(|before| {
        let (_, rest) = text.split_once(before)?;
        time(rest)
    })
}

/// Returns the time until all reached limits have ended. If none is marked as reached, returns the
/// earliest end.
fn of_limits(headers: Headers, now: Timestamp) -> Option<Duration> {
    let limits: Vec<(bool, Duration)> = RESETS
        .iter()
        .filter_map(|(remaining, reset)| {
            let left = headers(remaining).and_then(|left| number(&left));
            Some((left == Some(0.0), end_of(&headers(reset)?, now)?))
        })
        .collect();
    let reached = limits.iter().filter(|(is_reached, _)| *is_reached);
    let last = reached.map(|(_, end)| *end).max();
    last.or_else(|| limits.iter().map(|(_, end)| *end).min())
}

/// Parses the end of a limit: seconds from now, a duration, a time since 1970 (seconds or
/// milliseconds), or RFC 3339.
fn end_of(text: &str, now: Timestamp) -> Option<Duration> {
    /// Larger numbers are times since 1970, because no limit lasts that long.
    const SINCE_1970_S: f64 = 1e9;
    const SINCE_1970_MS: f64 = 1e12;
    match number(text) {
        Some(ms) if ms >= SINCE_1970_MS => Timestamp::from_millisecond(ms as i64)
            .ok()
            .and_then(|at| until(at, now)),
        Some(s) if s >= SINCE_1970_S => Timestamp::from_second(s as i64)
            .ok()
            .and_then(|at| until(at, now)),
        Some(from_now) => seconds(from_now),
        None => match text.trim().parse::<Timestamp>() {
            Ok(at) => until(at, now),
            Err(_) => time(text),
        },
    }
}

/// Returns the time until `at`, or `None` if it has passed.
fn until(at: Timestamp, now: Timestamp) -> Option<Duration> {
    let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
    plausible(left)
}

/// Returns `wait` if it is plausible. No limit lasts longer than a year, so such a number is
/// ignored.
fn plausible(wait: Duration) -> Option<Duration> {
    const LONGEST: Duration = Duration::from_secs(366 * 86_400);
    (wait <= LONGEST).then_some(wait)
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

fn seconds(seconds: f64) -> Option<Duration> {
    plausible(Duration::try_from_secs_f64(seconds).ok()?)
}

/// Parses a duration at the beginning of a text: `6m0s`, `1.5s`, `20ms`, `2 minutes 30 seconds`. A
/// number without a unit is not one.
fn time(text: &str) -> Option<Duration> {
    let mut rest = text.trim_start();
    let mut sum: Option<f64> = None;
    loop {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (count, behind) = rest.split_at(digits);
        let Ok(count) = count.parse::<f64>() else {
            break;
        };
        let behind = behind.trim_start();
        let letters = behind
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let Some(unit) = unit_seconds(unit) else {
            break;
        };
        sum = Some(sum.unwrap_or_default() + count * unit);
        rest = behind.trim_start();
    }
    sum.and_then(seconds)
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-10-21T07:27:30Z";

    /// Milliseconds that a refusal with status 429 asks for.
    fn asked_ms(headers: &[(&str, &str)], body: &str) -> Option<u128> {
        let header = |name: &str| {
            let found = headers.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| value.to_string())
        };
        asked(429, &header, body, NOW.parse().unwrap()).map(|wait| wait.as_millis())
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        let read = |ms: &str, after: &str| {
            let headers = [("retry-after-ms", ms), ("retry-after", after)];
            let given: Vec<_> = headers.into_iter().filter(|(_, v)| !v.is_empty()).collect();
            asked_ms(&given, "")
        };
        assert_eq!(read("1500", "9"), Some(1500));
        assert_eq!(read("", "2"), Some(2000));
        assert_eq!(read("", " 0.5 "), Some(500));
        assert_eq!(read("", "Wed, 21 Oct 2026 07:28:00 GMT"), Some(30_000));
        assert_eq!(read("", "Wed, 21 Oct 2026 07:00:00 GMT"), Some(0));
        for nonsense in [
            "soon",
            "-1",
            "1e300",
            "NaN",
            "",
            "99999999999999999999",
            "Fri, 31 Dec 9999 23:59:59 GMT",
        ] {
            assert_eq!(read("", nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_limit_says_when_it_ends() {
        let tokens = |reset| asked_ms(&[("x-ratelimit-reset-tokens", reset)], "");
        assert_eq!(tokens("6m0s"), Some(360_000));
        assert_eq!(tokens("20ms"), Some(20));
        assert_eq!(tokens("2m59.56s"), Some(179_560));
        assert_eq!(tokens("12"), Some(12_000));
        assert_eq!(tokens("1792567710"), Some(60_000));
        assert_eq!(tokens("1792567710000"), Some(60_000));
        assert_eq!(tokens("2026-10-21T07:28:30Z"), Some(60_000));
        assert_eq!(tokens("never"), None);
        let anthropic = ("anthropic-ratelimit-tokens-reset", "2026-10-21T07:27:40Z");
        assert_eq!(asked_ms(&[anthropic], ""), Some(10_000));
    }

    #[test]
    fn the_limit_that_is_reached_counts() {
        let of = |left_requests, left_tokens| {
            let headers = [
                ("x-ratelimit-remaining-requests", left_requests),
                ("x-ratelimit-reset-requests", "1h"),
                ("x-ratelimit-remaining-tokens", left_tokens),
                ("x-ratelimit-reset-tokens", "7s"),
            ];
            asked_ms(&headers, "")
        };
        assert_eq!(of("99", "0"), Some(7_000));
        assert_eq!(of("0", "12"), Some(3_600_000));
        assert_eq!(of("99", "12"), Some(7_000));
    }

    #[test]
    fn an_error_says_how_long() {
        let google = r#"[{"error":{"code":429,"message":"slow","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.07s"}]}}]"#;
        assert_eq!(asked_ms(&[], google), Some(34_070));
        let router = r#"{"error":{"message":"free","metadata":{"headers":{"X-RateLimit-Reset":"1792567710000"}}}}"#;
        assert_eq!(asked_ms(&[], router), Some(60_000));
        for (words, ms) in [
            (
                "Rate limit reached for x. Please try again in 20s. Visit",
                20_000,
            ),
            ("Please try again in 1m26.4s.", 86_400),
            ("please retry after 20 seconds", 20_000),
            ("Please retry in 34.074824224s.", 34_074),
            ("try again in 2 minutes 30 seconds", 150_000),
            ("Please try again in 340ms", 340),
        ] {
            let body = format!(r#"{{"error":{{"message":"{words}"}}}}"#);
            assert_eq!(asked_ms(&[], &body), Some(ms), "{words}");
        }
        assert_eq!(asked_ms(&[], "please try again in a while"), None);
        assert_eq!(asked_ms(&[], "try again in 99999999999999999999999d"), None);
        assert_eq!(asked_ms(&[("retry-after", "3")], google), Some(3_000));
    }
}
