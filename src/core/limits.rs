//! How long a request may be, by what providers say when one is too long, and by what they
//! count when they say nothing.
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

/// A request, as we sized it and as the provider counted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    pub bytes: u64,
    pub tokens: u64,
}

/// The counts of requests of which each begins with the one before: between two changes of
/// the context. A server that reads all of them counts more each time. One that does not
/// either cuts what is over its window and says nothing (Ollama: the beginning goes, and what
/// it counts stays at its `num_ctx`, or at half of that), or leaves out what it has in its
/// cache (some versions of llama.cpp and Ollama). Only the first is a limit, so whatever the
/// second can explain is no evidence.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counts {
    peak: Count,
    last: Count,
    /// The last request of which a part was clearly not read.
    cut: Option<Count>,
    /// After such a one, another that counted no more.
    sure: bool,
    /// The server counts less than it reads.
    partial: bool,
}

/// A count this far behind what is expected, as a part of the highest, is no noise.
const BEHIND: f64 = 0.3;

/// A server that cuts keeps about half of its window at least; below this, it left out what
/// it had in its cache.
const KEPT: f64 = 0.4;

/// What a chat template may add to what is new, tokens.
const TEMPLATE_TOKENS: f64 = 200.0;

impl Counts {
    /// Takes the next request of the row. One that is smaller begins another row.
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

    /// The context changed. How the server counts did not.
    pub fn begin_again(&mut self) {
        *self = Counts {
            partial: self.partial,
            ..Counts::default()
        };
    }

    /// Its count is far below that of all of it, and is not that of what is new in it.
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

    /// Whether this count says how many bytes a token has.
    pub fn is_measure(&self, count: Count) -> bool {
        count.tokens > self.peak.tokens || count.bytes <= self.last.bytes
    }

    /// The longest request that was read whole, when the server is sure to cut longer ones.
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
        // What is new costs next to nothing: spaces, rows of one letter.
        assert_eq!(shown(&growing(|b, _| 2_000 + b / 100)), None);
        // Thinking of earlier turns is dropped by the server, once.
        let dropped = |b: u64, _| if b > 20_000 { b / 4 - 2_500 } else { b / 4 };
        assert_eq!(shown(&growing(dropped)), None);
        // Another tokenizer behind the same name, from some request on.
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
    fn a_count_that_stays_behind_measures_nothing() {
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
