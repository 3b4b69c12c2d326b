//! What providers say when a request is too long, in figures.
//!
//! Sources: the error texts of Anthropic ("prompt is too long: 210000 tokens > 200000
//! maximum"), OpenAI and its like ("This model's maximum context length is 8192 tokens.
//! However, you requested 9193 tokens (8193 in the messages, 1000 in the completion)"),
//! Gemini ("The input token count (210000) exceeds the maximum number of tokens allowed
//! (200000)") and llama.cpp ("the request exceeds the available context size (8192 tokens)").

/// Tokens the model takes, and tokens the provider counted. Either may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    pub limit: Option<u64>,
    pub counted: Option<u64>,
}

/// Smaller numbers are codes, not sizes.
const MIN_TOKENS: u64 = 256;

/// What stands directly before a limit.
const BEFORE_LIMIT: [&str; 9] = [
    "maximum context length is",
    "maximum number of tokens allowed",
    "available context size",
    "context size of",
    "context window of",
    "context length of",
    "context window is",
    "n_ctx",
    "tokens >",
];

pub fn figures(message: &str) -> Figures {
    let text = message.to_lowercase();
    let numbers = numbers(&text);
    let said = BEFORE_LIMIT.iter().find_map(|phrase| {
        let end = text.find(phrase)? + phrase.len();
        let (at, number) = numbers.iter().find(|(at, _)| *at >= end)?;
        // Only what follows at once.
        (at - end <= 6).then_some(*number)
    });
    let limit = said.or_else(|| match numbers[..] {
        [(_, a), (_, b)] if a != b => Some(a.min(b)),
        _ => None,
    });
    let counted =
        limit.and_then(|limit| numbers.iter().map(|(_, n)| *n).filter(|n| *n > limit).max());
    Figures { limit, counted }
}

/// Numbers with their places; thousands may be set apart by commas.
fn numbers(text: &str) -> Vec<(usize, u64)> {
    let mut found = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let from = at;
        let mut value: u64 = 0;
        while at < bytes.len() && (bytes[at].is_ascii_digit() || is_separator(bytes, at)) {
            if bytes[at] != b',' {
                value = value
                    .saturating_mul(10)
                    .saturating_add(u64::from(bytes[at] - b'0'));
            }
            at += 1;
        }
        let part_of_a_name = from > 0
            && (bytes[from - 1].is_ascii_alphanumeric()
                || matches!(bytes[from - 1], b'-' | b'.' | b'_'));
        if value >= MIN_TOKENS && !part_of_a_name {
            found.push((from, value));
        }
    }
    found
}

fn is_separator(bytes: &[u8], at: usize) -> bool {
    bytes[at] == b',' && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_each_provider_are_read() {
        let said = |message, limit, counted| {
            assert_eq!(figures(message), Figures { limit, counted }, "{message}");
        };
        said(
            "prompt is too long: 210000 tokens > 200000 maximum",
            Some(200_000),
            Some(210_000),
        );
        said(
            "This model's maximum context length is 8192 tokens. However, you requested 9193 tokens (8193 in the messages, 1000 in the completion). Please reduce",
            Some(8_192),
            Some(9_193),
        );
        said(
            "The input token count (1,210,000) exceeds the maximum number of tokens allowed (1,048,576).",
            Some(1_048_576),
            Some(1_210_000),
        );
        said(
            "the request exceeds the available context size (8192 tokens), try increasing it",
            Some(8_192),
            None,
        );
        said(
            "request (9000 tokens) exceeds the available context size (8192 tokens)",
            Some(8_192),
            Some(9_000),
        );
        said(
            "Your input exceeds the context window of this model.",
            None,
            None,
        );
        said("gpt-4096 says no, 400", None, None);
    }
}
