//! Constraints: sentences of the user that look like rules. They contain a word such as "never",
//! "must" or "only", in one of several languages. They stay in the context verbatim when the
//! message cannot.
//!
//! Facts are sentences with a number, a name or a path. They come after the constraints.
//!
//! A list of words also finds sentences that are not rules. That costs a few bytes, while a
//! forgotten rule may ruin the work.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use super::text::boundary_below;

const LIST: &str = include_str!("../../assets/constraints.txt");

/// Maximum length of a constraint, in bytes. A longer sentence is not repeated; the note names its
/// entry.
const SENTENCE_BYTES: usize = 600;

/// Bytes that are searched at the beginning of a long text, and as many at its end.
const LOOKED_AT_BYTES: usize = 128 * 1024;

/// Maximum number of constraints from one message.
const MAX_CONSTRAINTS: usize = 60;

/// Maximum number of facts from one message, and the length of one in bytes.
const MAX_FACTS: usize = 20;
const FACT_BYTES: usize = 300;

struct Markers {
    words: BTreeSet<&'static str>,
    /// Markers of more than one word, or of a script without spaces between words.
    phrases: Vec<&'static str>,
}

fn markers() -> &'static Markers {
    static MARKERS: OnceLock<Markers> = OnceLock::new();
    MARKERS.get_or_init(|| {
        let lines = LIST.lines().map(str::trim);
        let (words, phrases): (Vec<_>, Vec<_>) = lines
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .partition(|line| line.chars().all(|c| is_of_word(c) && !is_unspaced(c)));
        Markers {
            words: words.into_iter().collect(),
            phrases,
        }
    })
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric()
}

/// Returns whether the script has no spaces between words, or has signs that Unicode does not class
/// as letters.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{0900}'..='\u{0e7f}' | '\u{2e80}'..='\u{ffff}')
}

/// Returns the sentences of a message that look like rules, in their order.
pub(crate) fn constraints(text: &str) -> Vec<&str> {
    let (head, tail) = ends(text);
    let (head, tail): (Vec<_>, Vec<_>) = (sentences(head).collect(), sentences(tail).collect());
    // The sentences at the cut are incomplete.
    let cut = usize::from(!tail.is_empty());
    let all = head[..head.len() - cut].iter().chain(tail.iter().skip(1));
    all.copied()
        .filter(|s| s.len() <= SENTENCE_BYTES && is_marked(s))
        .take(MAX_CONSTRAINTS)
        .collect()
}

/// Returns the sentences of a message that have a number, a name or a path, in their order.
pub(crate) fn facts(text: &str) -> Vec<&str> {
    let (head, _) = ends(text);
    let is_fact = |s: &&str| s.len() <= FACT_BYTES && specifics(s) > 0 && !is_marked(s);
    sentences(head).filter(is_fact).take(MAX_FACTS).collect()
}

/// Returns how many of a thousand words are a number, a name or a path.
pub(crate) fn specifics(sentence: &str) -> usize {
    let is_inside = |word: &str| word.contains(['/', '_', '.', '@', ':', '\\']);
    let mut begins = true;
    let is_specific = |word: &&str| {
        // The first word of a sentence is written with a capital whatever it is.
        let is_first = std::mem::replace(&mut begins, word.ends_with(['.', '!', '?', ':']));
        let word = word.trim_matches(|c: char| !is_of_word(c));
        let is_name = !is_first && word.starts_with(char::is_uppercase) && word.len() > 1;
        is_name || word.contains(|c: char| c.is_ascii_digit()) || is_inside(word)
    };
    let all = sentence.split_whitespace().count().max(1);
    sentence.split_whitespace().filter(is_specific).count() * 1_000 / all
}

fn ends(text: &str) -> (&str, &str) {
    if text.len() <= 2 * LOOKED_AT_BYTES {
        return (text, "");
    }
    let head = boundary_below(text, LOOKED_AT_BYTES);
    let tail = boundary_below(text, text.len() - LOOKED_AT_BYTES);
    (&text[..head], &text[tail..])
}

fn is_marked(sentence: &str) -> bool {
    let lower = sentence.to_lowercase().replace('\u{2019}', "'");
    let markers = markers();
    let mut words = lower.split(|c: char| !is_of_word(c));
    words.any(|word| markers.words.contains(word))
        || markers.phrases.iter().any(|phrase| has(&lower, phrase))
}

/// Returns whether the text contains the phrase, not as a part of other words.
fn has(text: &str, phrase: &str) -> bool {
    let is_inside = |c: Option<char>| c.is_some_and(is_of_word);
    text.match_indices(phrase).any(|(at, _)| {
        phrase.chars().any(is_unspaced)
            || !is_inside(text[..at].chars().next_back())
                && !is_inside(text[at + phrase.len()..].chars().next())
    })
}

/// Splits a text at the ends of its lines and sentences, and trims the parts.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(sentences_of_line)
}

fn sentences_of_line(line: &str) -> Vec<&str> {
    let mut all = Vec::new();
    let mut from = 0;
    for (at, c) in line.char_indices() {
        let next = at + c.len_utf8();
        let ends = match c {
            '.' | '!' | '?' | '؟' => line[next..].chars().next().is_none_or(char::is_whitespace),
            '。' | '！' | '？' | '।' => true,
            _ => false,
        };
        if ends {
            all.push(&line[from..next]);
            from = next;
        }
    }
    all.push(&line[from..]);
    let trimmed = all.into_iter().map(str::trim);
    trimmed.filter(|s| !s.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_found_among_other_sentences_in_several_languages() {
        for (text, want) in [
            (
                "Fix the parser. Never touch lib.rs! Then go on.",
                &["Never touch lib.rs!"][..],
            ),
            ("see v1.2 of it. DON\u{2019}T push", &["DON\u{2019}T push"]),
            (
                "Bitte ändere die Tabelle nicht.",
                &["Bitte ändere die Tabelle nicht."],
            ),
            (
                "Il ne faut jamais pousser.",
                &["Il ne faut jamais pousser."],
            ),
            ("修复解析器。不要修改文件。", &["不要修改文件。"]),
            (
                "絶対に変更しないでください。はい。",
                &["絶対に変更しないでください。"],
            ),
            ("никогда не трогай это", &["никогда не трогай это"]),
            ("ห้ามแก้ไฟล์นี้", &["ห้ามแก้ไฟล์นี้"]),
            ("mustard is onlyfor eating; read the nevermore poem", &[]),
            ("a\nkeep b\n\n- c", &["keep b"]),
        ] {
            assert_eq!(constraints(text), want, "{text}");
        }
    }

    #[test]
    fn facts_have_numbers_names_or_paths() {
        let text =
            "It runs. The port is 8391. Ask Inés Okafor! Never use 7. See src/a.rs\nthat's it";
        let want = ["The port is 8391.", "Ask Inés Okafor!", "See src/a.rs"];
        assert_eq!(facts(text), want);
        assert!(specifics(want[1]) > specifics(want[0]));
    }

    #[test]
    fn a_huge_message_is_looked_at_at_its_ends() {
        let text = format!("never a. {} always b.", "so it is. ".repeat(100_000));
        assert_eq!(constraints(&text), ["never a.", "always b."]);
        assert!(constraints(&"never ".repeat(1_000_000)).is_empty());
    }
}
