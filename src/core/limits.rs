//! The limit of a request's length, from the error messages of providers, or from their token
//! counts when they report no error.
//!
//! Sources: the error texts of Anthropic ("prompt is too long: 210000 tokens > 200000
//! maximum"), OpenAI and its like ("This model's maximum context length is 8192 tokens.
//! However, you requested 9193 tokens (8193 in the messages, 1000 in the completion)"),
//! Gemini ("The input token count (210000) exceeds the maximum number of tokens allowed
//! (200000)") and llama.cpp ("the request exceeds the available context size (8192 tokens)").

use std::collections::BTreeMap;

use super::budget::Budget;
use super::entry::OutputLimit;
use super::request_failure::RequestFailure;

/// Tokens that the model accepts, and tokens that the provider counted. Either may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    pub limit: Option<u64>,
    pub counted: Option<u64>,
}

/// Smallest number that is taken for a size; smaller ones are codes.
const MIN_TOKENS: u64 = 256;

/// Phrases directly before a limit. If a message has several, the first one in this list decides
/// which number is the limit.
#[rustfmt::skip]
const BEFORE_LIMIT: [&str; 25] = [
    "maximum context length", "maximum prompt length", "maximum input length", "allowed input length of",
    "maximum number of tokens allowed", "available context size", "context size", "context window", "window limit",
    "context length of", "context length", "model length of", "max_seq_len", "n_ctx", "limit of", "limit is",
    "token limit:", "tokens limit", "(tpm): limit", "only supports up to", "too large for model with", "must be <=",
    "cannot exceed", "input length should be [", " > ",
];

/// Finds the numbers in `message`, the message of a failure with the provider's words in it.
pub fn figures(message: &str) -> Figures {
    let text = provider_words(message).to_lowercase();
    let numbers = numbers(&text);
    let said = BEFORE_LIMIT
        .iter()
        .find_map(|phrase| number_after(&text, phrase, &numbers));
    let limit = said.or_else(|| match numbers[..] {
        [(_, a), (_, b)] if a != b && text.contains("token") => Some(a.min(b)),
        _ => None,
    });
    // The requested length of the answer is not a count of the prompt.
    let is_answer = text.contains("max_tokens") && text.contains("is too large: ");
    let counted = limit
        .filter(|_| !is_answer)
        .and_then(|limit| numbers.iter().map(|(_, n)| *n).filter(|n| *n > limit).max());
    Figures { limit, counted }
}

/// The lengths of answers that a session learnt, by model, tokens.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LearntOutputs {
    /// The longest that servers allow.
    most: BTreeMap<String, u64>,
    /// The length that was too short, and the one that it was raised to.
    raised: BTreeMap<String, (u64, u64)>,
}

impl LearntOutputs {
    pub(super) fn learn(&mut self, model: &str, output: &OutputLimit) {
        let model = model.to_string();
        match output.raised_from {
            Some(from) => drop(self.raised.insert(model, (from, output.tokens))),
            None => drop(self.most.insert(model, output.tokens)),
        }
    }

    /// Returns whether anything is known of this model.
    pub fn knows(&self, model: &str) -> bool {
        self.most.contains_key(model) || self.raised.contains_key(model)
    }

    /// Returns the budget with what was learnt. A raised length counts as long as the config gives the
    /// one that was too short.
    pub fn applied(&self, model: &str, mut budget: Budget) -> Budget {
        match self.raised.get(model) {
            Some((from, to)) if *from == budget.answer => budget.answer = *to,
            Some(_) | None => {}
        }
        if let Some(most) = self.most.get(model) {
            budget.answer = budget.answer.min(*most);
        }
        budget.answer = budget.answer.clamp(1, budget.window / 4);
        budget
    }
}

/// The limits that a session guessed, since its servers refused a request as too long without a
/// figure.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Guesses(BTreeMap<String, Guess>);

#[derive(Debug, Clone, PartialEq)]
struct Guess {
    /// Size of the refused request, bytes.
    refused: u64,
    /// The limit that was known before, tokens.
    known: Option<u64>,
}

impl Guesses {
    /// Adds a guess: the bytes of the refused request, and the limit that was known. `None`: the
    /// limit of this model is no longer a guess.
    pub(super) fn learn(&mut self, model: &str, guess: Option<(u64, Option<u64>)>) {
        let before = self.0.remove(model);
        if let Some((refused, known)) = guess {
            // The limit before may be a guess too.
            let known = before.map_or(known, |before| before.known);
            self.0.insert(model.to_string(), Guess { refused, known });
        }
    }

    /// Removes the guess if a request succeeds that is longer than half of the refused one: a guess
    /// keeps requests shorter than the refused one itself. Returns the limit that applies again.
    pub(super) fn refute(&mut self, model: &str, bytes: u64) -> Option<Option<u64>> {
        let guess = self.0.get(model)?;
        if bytes <= guess.refused / 2 {
            return None;
        }
        self.0.remove(model).map(|guess| guess.known)
    }
}

/// How servers call the length of an answer.
const OUTPUT: [&str; 8] = [
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "maxoutputtokens",
    "max_new_tokens",
    "completion tokens",
    "output tokens",
    "maximum tokens you requested",
];

/// Returns the longest answer that the server allows, tokens, from its refusal of one of `asked`
/// tokens: `max_tokens: 8000 > 4096`, `at most 4096 completion tokens`, `should be [1, 4096]`, `range
/// 1 to 65537 (exclusive)`.
pub fn output_limit(message: &str, asked: u64) -> Option<u64> {
    let text = provider_words(message).to_lowercase();
    if !OUTPUT.iter().any(|name| text.contains(name)) {
        return None;
    }
    let below = u64::from(text.contains("exclusive"));
    let all = numbers(&text).into_iter().map(|(_, n)| n);
    let most = all.filter(|n| (MIN_TOKENS..asked).contains(n)).max()?;
    Some(most - below)
}

/// Returns the provider's words alone: a port and a status are numbers too.
fn provider_words(message: &str) -> &str {
    match RequestFailure::parse(message) {
        Some(failure) => failure.server_words().unwrap_or_default(),
        None => message,
    }
}

/// Returns the number directly after this phrase.
fn number_after(text: &str, phrase: &str, numbers: &[(usize, u64)]) -> Option<u64> {
    text.match_indices(phrase).find_map(|(at, _)| {
        let end = at + phrase.len();
        let (at, number) = numbers.iter().find(|(at, _)| *at >= end)?;
        (at - end <= 6).then_some(*number)
    })
}

/// Finds sizes with their places; thousands may be separated by commas. Numbers in names are
/// skipped, and so is the amount by which a limit was exceeded.
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
        let (before, behind) = (&text[..from], &text[at..]);
        if value >= MIN_TOKENS && !is_in_a_name(before, behind) && !before.ends_with(" by ") {
            found.push((from, value));
        }
    }
    found
}

/// Returns whether a number is part of a name: `gpt-4096`, `96164522-08b2`, `1000x`; not
/// `8192-token`.
fn is_in_a_name(before: &str, behind: &str) -> bool {
    let is_joined = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let mut next = behind.chars();
    let is_longer = match next.next() {
        Some('-' | '_') => {
            !behind.starts_with("-token") && next.next().is_some_and(|c| c.is_ascii_alphanumeric())
        }
        Some(c) => c.is_ascii_alphabetic(),
        None => false,
    };
    before.ends_with(is_joined) || is_longer
}

fn is_separator(bytes: &[u8], at: usize) -> bool {
    bytes[at] == b',' && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
}

/// The size of a request in bytes, and the provider's count of its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    pub bytes: u64,
    pub tokens: u64,
}

/// The counts of consecutive requests between two changes of the context, so each request begins
/// with the previous one. A server that reads all of them counts more each time. Other servers do
/// one of two things:
/// - They truncate a request to their window without an error. Ollama drops the beginning, and its
///   count stays at `num_ctx` or half of it.
/// - They leave cached tokens out of the count, as some versions of llama.cpp and Ollama do.
///
/// Only the first shows a limit, so a count that the second can explain is not evidence.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counts {
    peak: Count,
    last: Count,
    /// The last request that was clearly not read completely.
    cut: Option<Count>,
    /// After such a request, a longer one did not have a higher count.
    sure: bool,
    /// The server counts less than it reads.
    partial: bool,
}

/// Least difference between the expected and the actual count that is not noise, as a fraction of
/// the highest count.
const BEHIND: f64 = 0.3;

/// Least fraction of the highest count that truncation explains, because a server that truncates
/// keeps at least about half of its window. A lower count means that cached tokens were left out.
const KEPT: f64 = 0.4;

/// Tokens that a chat template may add to the new part of a request.
const TEMPLATE_TOKENS: f64 = 200.0;

impl Counts {
    /// Adds the next request. A smaller one starts a new sequence.
    pub fn see(&mut self, count: Count) {
        if count.bytes < self.last.bytes {
            self.begin_again();
        }
        if count.tokens > self.peak.tokens {
            self.peak = count;
            self.cut = None;
        } else if (count.tokens as f64) < KEPT * self.peak.tokens as f64 {
            self.partial = true;
        } else if self.is_cut(count) {
            let before = self.cut.replace(count);
            self.sure |= before.is_some_and(|b| count.tokens <= b.tokens && count.bytes > b.bytes);
        }
        self.last = count;
    }

    /// Starts a new sequence after a change of the context. How the server counts did not change.
    pub fn begin_again(&mut self) {
        *self = Counts {
            partial: self.partial,
            ..Counts::default()
        };
    }

    /// Returns whether the count is far below the expected one, and is also not the count of only
    /// the new part.
    fn is_cut(&self, count: Count) -> bool {
        let per_byte = self.peak.tokens as f64 / self.peak.bytes.max(1) as f64;
        let (tokens, new) = (
            count.tokens as f64,
            (count.bytes - self.last.bytes) as f64 * per_byte,
        );
        let is_behind = count.bytes as f64 * per_byte - tokens >= BEHIND * self.peak.tokens as f64;
        let is_what_is_new = tokens >= 0.6 * new && tokens <= 1.5 * new + TEMPLATE_TOKENS;
        is_behind && !is_what_is_new
    }

    /// Returns whether this count can measure the bytes per token.
    pub fn is_measure(&self, count: Count) -> bool {
        count.tokens > self.peak.tokens || count.bytes <= self.last.bytes
    }

    /// Returns the longest request that was read completely, if the server certainly truncates
    /// longer ones.
    pub fn silent_limit(&self) -> Option<Count> {
        (self.sure && !self.partial).then_some(self.peak)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit that these counts (bytes, tokens) show.
    fn shown(row: &[(u64, u64)]) -> Option<u64> {
        let mut counts = Counts::default();
        for (bytes, tokens) in row {
            counts.see(Count {
                bytes: *bytes,
                tokens: *tokens,
            });
        }
        counts.silent_limit().map(|peak| peak.tokens)
    }

    /// Requests of 8,000 bytes and 4,000 more each time, counted like this.
    fn growing(count: impl Fn(u64, u64) -> u64) -> Vec<(u64, u64)> {
        let bytes = (2..12).map(|n| n * 4_000);
        bytes.map(|b| (b, count(b, b - 4_000))).collect()
    }

    #[test]
    fn a_server_that_cuts_in_silence_is_found_out() {
        // At its window; at half of it, as newer versions of Ollama do; by whole messages.
        assert_eq!(shown(&growing(|b, _| (b / 4).min(4_096))), Some(4_096));
        let halved = |b: u64, _| if b / 4 > 4_096 { 2_050 } else { b / 4 };
        assert_eq!(shown(&growing(halved)), Some(4_000));
        let jagged = |b: u64, _| match b / 4 {
            all @ ..4_096 => all,
            all => 3_400 + all % 700,
        };
        assert!(shown(&growing(jagged)).is_some_and(|t| (3_400..4_100).contains(&t)));
        // From the first request on.
        assert_eq!(shown(&growing(|_, _| 2_048)), Some(2_048));
        // Two requests are no plateau.
        assert_eq!(shown(&[(16_000, 4_000), (40_000, 4_000)]), None);
    }

    #[test]
    fn a_server_that_reads_all_is_never_suspected() {
        assert_eq!(shown(&growing(|b, _| b / 4)), None);
        // The new part has few tokens: spaces, rows of one letter.
        assert_eq!(shown(&growing(|b, _| 2_000 + b / 100)), None);
        // Thinking of earlier turns is dropped by the server, once.
        let dropped = |b: u64, _| if b > 20_000 { b / 4 - 2_500 } else { b / 4 };
        assert_eq!(shown(&growing(dropped)), None);
        // Another tokenizer for the same model name, from some request on.
        let other = |b: u64, _| if b > 30_000 { b / 7 } else { b / 4 };
        assert_eq!(shown(&growing(other)), None);
    }

    #[test]
    fn a_server_that_leaves_out_its_cache_is_not_taken_for_one_that_cuts() {
        let new_only = |b: u64, before: u64| match b {
            8_000 => 2_000,
            _ => (b - before) / 4,
        };
        assert_eq!(shown(&growing(new_only)), None);
        // Now and then its cache is lost, and nothing at all is new once.
        let mut row = growing(new_only);
        row.insert(3, (row[2].0 + 100, 25));
        row[6].1 = 1_900;
        row[8].1 = 1_900;
        assert_eq!(shown(&row), None);
    }

    #[test]
    fn a_token_count_that_does_not_grow_with_the_bytes_is_ignored() {
        let mut counts = Counts::default();
        let (small, large) = (
            Count {
                bytes: 8_000,
                tokens: 2_000,
            },
            Count {
                bytes: 16_000,
                tokens: 2_000,
            },
        );
        assert!(counts.is_measure(small));
        counts.see(small);
        assert!(!counts.is_measure(large));
    }

    #[test]
    fn the_longest_answer_is_read() {
        let table = [
            (
                "max_tokens: 8000 > 4096, which is the maximum allowed number of output tokens for m",
                8_000,
                Some(4_096),
            ),
            (
                "max_tokens is too large: 8000. This model supports at most 4096 completion tokens, whereas you provided 8000.",
                8_000,
                Some(4_096),
            ),
            (
                "Range of max_tokens should be [1, 4096]",
                8_000,
                Some(4_096),
            ),
            (
                "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model",
                32_000,
                Some(8_192),
            ),
            (
                "Invalid max_tokens value, the valid range of max_tokens is [1, 8,192]",
                32_000,
                Some(8_192),
            ),
            (
                "Unable to submit request because it has a maxOutputTokens value of 70000 but the supported range is from 1 (inclusive) to 65537 (exclusive).",
                70_000,
                Some(65_536),
            ),
            (
                "The maximum tokens you requested exceeds the model limit of 5120. Try again with a maximum tokens value that is lower than 5120.",
                8_000,
                Some(5_120),
            ),
            (
                "Param Incorrect: max_tokens is too large: 1048576. This model supports at most 131072 completion tokens, whereas you provided 1048576.",
                1_048_576,
                Some(131_072),
            ),
            ("max_tokens must be at least 1", 8_000, None),
            ("max_tokens: 8000", 8_000, None),
            ("messages.3: at most 4096 images", 8_000, None),
        ];
        for (message, asked, limit) in table {
            assert_eq!(output_limit(message, asked), limit, "{message}");
        }
    }

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
        said(
            "exceed context limit: 188240 + 21333 > 200000, decrease input length",
            Some(200_000),
            None,
        );
        said(
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            Some(131_072),
            Some(537_812),
        );
        said(
            "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            Some(32_768),
            Some(65_673),
        );
        said(
            "The decoder prompt (length 9000) is longer than the maximum model length of 4096.",
            Some(4_096),
            Some(9_000),
        );
        said(
            "The input (140000 tokens) is longer than the model's context length (131072 tokens).",
            Some(131_072),
            Some(140_000),
        );
        said(
            "the model is loaded with context length of only 4096 tokens, which is not enough. Keeping 9000",
            Some(4_096),
            Some(9_000),
        );
        said(
            "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 1000 `max_new_tokens`",
            Some(4_096),
            None,
        );
        said(
            "prompt token count of 135355 exceeds the limit of 128000",
            Some(128_000),
            Some(135_355),
        );
        said(
            "Your request exceeded model token limit: 262144 (requested: 270000)",
            Some(262_144),
            Some(270_000),
        );
        said(
            "Current length is 9000 while limit is 8192",
            Some(8_192),
            Some(9_000),
        );
        said(
            "Range of input length should be [1, 98304]",
            Some(98_304),
            None,
        );
        said(
            "(9000) exceeded this model context window limit (8192).",
            Some(8_192),
            Some(9_000),
        );
        said(
            "Unable to submit request because the input token count is 2000000 but model only supports up to 1048576.",
            Some(1_048_576),
            Some(2_000_000),
        );
        said(
            "Prompt length 9000 is greater than max_seq_len 4096",
            Some(4_096),
            Some(9_000),
        );
        said(
            "total number of tokens in the prompt cannot exceed 4081 - received 5292.",
            Some(4_081),
            Some(5_292),
        );
        said(
            "on tokens per minute (TPM): Limit 12000, Requested 31560",
            Some(12_000),
            Some(31_560),
        );
    }

    /// The requested length of the answer is not a count of the prompt.
    #[test]
    fn an_answer_that_would_be_too_long_counts_nothing() {
        let said = figures(
            "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 4096 tokens and your request has 30 input tokens (32000 > 4096 - 30).",
        );
        assert_eq!((said.limit, said.counted), (Some(4_096), None));
    }

    /// A wrong limit would be stored for every later session of the model.
    #[test]
    fn numbers_that_are_no_sizes_in_tokens_are_no_limit() {
        for message in [
            "asking x at http://127.0.0.1:36431/v1/messages: HTTP 400: invalid params, context window exceeds limit (2013)",
            "asking x at http://127.0.0.1:36431/v1/messages: the provider broke off its answer: 9000 tokens are too many",
            "prompt too long; exceeded max context length by 1119046 tokens (ref: 96164522-08b2-4cbf-886e-e5a38961a688)",
            "string too long. Expected a string with maximum length 10485760, but instead got a string with length 15400820 instead.",
            "Request payload size exceeds the limit: 20971520 bytes.",
            "asking x at https://h/v1: HTTP 413: tokens",
            "request to x failed: HTTP 413: tokens (http://127.0.0.1:36431/v1/8192)",
        ] {
            assert_eq!(figures(message), Figures::default(), "{message}");
        }
        let said = figures(
            "asking x at http://127.0.0.1:36431/v1/messages: HTTP 400: the request has 9345 tokens, 8192 fit",
        );
        assert_eq!((said.limit, said.counted), (Some(8_192), Some(9_345)));
    }
}
