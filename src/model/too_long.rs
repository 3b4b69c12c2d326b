//! Detection of errors about a request that does not fit into the context window.
//!
//! The check is the same for all protocols: a router, a gateway or a local server uses one
//! protocol and passes on the messages of another. [`crate::core::limits`] reads the sizes in such
//! an error.
//!
//! Deliberately excluded: a limit on the answer (`max_tokens`), and rate limits (tokens per
//! minute), since a shorter request would not help.

/// Providers' codes and types for this error.
#[rustfmt::skip]
const CODES: [&str; 9] = [
    "context_length_exceeded", "context_window_exceeded", "model_context_window_exceeded",
    "exceed_context_size_error", "model_max_prompt_tokens_exceeded", "too_many_prompt_tokens",
    "tokens_limit_reached", "request_too_large",
    // LiteLLM puts the name of its error type into the message.
    "contextwindowexceedederror",
];

/// Texts of rate limits and spending limits.
#[rustfmt::skip]
const RATES: [&str; 11] = [
    "rate limit", "rate-limit", "rate_limit", "per minute", "per-minute", "per day", "too many requests", "throttl",
    "please wait", "quota", "billing",
];

/// Texts that identify the error on their own.
#[rustfmt::skip]
const SURE: [&str; 22] = [
    "maximum context length", "maximum prompt length", "prompt is too long", "prompt too long",
    "prompt exceeds max length", "prompt token count", "input is too long", "input token count",
    "input tokens exceed", "input prompt exceed", "range of input length should be",
    "length of all messages is too long", "reduce the length of", "too large for model with",
    // text-generation-inference: the size of the input, and the size left for the answer.
    "inputs tokens +", "inputs must have less than",
    // A limit in bytes, but a shorter request helps.
    "request payload size exceeds", "request entity too large", "request body too large", "payload too large",
    "total message size", "body size exceed",
];

#[rustfmt::skip]
const WINDOW: [&str; 15] = [
    "context length", "context_length", "context window", "context_window", "context size", "context limit",
    "prompt length", "input length", "model length", "sequence length", "max_model_len", "max_seq_len",
    "max_input_len", "n_ctx", "max token length",
];

#[rustfmt::skip]
const EXCEEDED: [&str; 9] = [
    "exceed", "too long", "too large", "larger than", "longer than", "greater than", "overflow", "not enough",
    "but the configured",
];

/// Texts about a number of tokens. The rest of the message decides whether it means the prompt.
const TOKENS: [&str; 3] = ["token limit", "tokens limit", "too many tokens"];

/// Texts about the length of the answer.
#[rustfmt::skip]
const OUTPUT: [&str; 7] = [
    "output token", "completion token", "maximum output", "max_tokens", "max tokens", "max_new_tokens",
    "maxoutputtokens",
];

/// Parts of any other wording: a measure and an excess. They count only for refused requests (400,
/// 413, 422), and not for the errors below.
const MEASURE: [&str; 4] = ["context", "token", "length", "sequence"];
#[rustfmt::skip]
const TOO_MUCH: [&str; 25] = [
    "exceed", "too long", "too large", "too many", "too big", "larger than", "longer than", "greater than",
    "bigger than", "more than", "over the", "above the", "beyond", "overflow", "overrun", "not enough", "no room",
    "not fit", "n't fit", "limit", "maximum", "at most", "only takes", "reduce", "shorten",
];
#[rustfmt::skip]
const OTHER_THINGS: [&str; 38] = [
    "maximum tokens", "budget", "string too long", "unexpected token", "invalid token", "access token", "token is",
    "token has", "token provided", "expired", "schema", "description", "image", "audio", "video", "file", "logprob",
    "temperature", "top_p", "top_k", "penalty", "stop sequence", "logit_bias", "metadata", "tool_choice",
    "tool_call_id", "tool_use_id", "_id", ".id", ".name", "function name", "tool name", "function.name", "property",
    "properties", "parameters", "content-length", "cache_control",
];

/// Minimum length of a string that can be a whole conversation. Limits of ids, names and
/// descriptions are far lower.
const LONG_STRING: u64 = 100_000;

/// Returns whether the error means that the request is too long. `status`: the HTTP status, or the
/// corresponding one of an error in a stream. `codes`: in lower case. `words`: the complete
/// message of the server, without parts of the request.
pub(super) fn is_too_long(status: u16, codes: &[String], words: &str) -> bool {
    let words = words.to_lowercase().replace(['`', '\'', '"'], "");
    let says = |list: &[&str]| list.iter().any(|phrase| words.contains(phrase));
    match status {
        401..=403 => return false,
        413 => return true,
        // The request is larger than the rate allows, so it never fits.
        429 => return words.contains("request too large"),
        _ => {}
    }
    if codes.iter().any(|code| CODES.contains(&code.as_str())) || says(&CODES) {
        return true;
    }
    if says(&RATES) {
        return false;
    }
    let is_window = says(&WINDOW) && says(&EXCEEDED);
    let is_tokens = says(&TOKENS) && !says(&OUTPUT);
    let is_refused = matches!(status, 400 | 413 | 422);
    let is_any = || says(&MEASURE) && says(&TOO_MUCH) && !says(&OUTPUT) && !says(&OTHER_THINGS);
    says(&SURE) || is_window || is_tokens || is_long_string(&words) || (is_refused && is_any())
}

/// Reads OpenAI's "string too long. Expected a string with maximum length 10485760".
fn is_long_string(words: &str) -> bool {
    let Some((_, rest)) = words.split_once("string too long") else {
        return false;
    };
    let length = rest.split_once("maximum length ").map(|(_, rest)| rest);
    let digits = length.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let most = digits.and_then(|digits| digits.parse::<u64>().ok());
    most.is_some_and(|most| most >= LONG_STRING)
}

#[cfg(test)]
mod tests;
