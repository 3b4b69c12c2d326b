//! Conversion of typed text to FTS5 queries, the sessions that are searched, and the places of the
//! words in a text.

use std::cmp::Ordering;

/// Maximum number of words of a query. Later ones are ignored.
const MAX_TERMS: usize = 32;

/// Minimum length of a last word that matches as a prefix, in bytes. A shorter one would match too
/// many words.
const MIN_PREFIX_BYTES: usize = 3;

/// The sessions that are searched.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// The chain of this session, with the entries of its ancestors, even if these are in the
    /// trash.
    Session(&'a str),
    /// All sessions of a workspace, given by its root.
    Workspace(&'a str),
    All,
}

/// Returns a query for which every word must occur; the last may be the beginning of one. Returns
/// `None` when there are no words.
pub(super) fn escape(terms: &[&str]) -> Option<String> {
    let star = if terms.last()?.len() >= MIN_PREFIX_BYTES {
        "*"
    } else {
        ""
    };
    let quoted: Vec<String> = terms.iter().map(|t| format!("\"{t}\"")).collect();
    Some(quoted.join(" ") + star)
}

/// Returns a query for which at least one of the words must occur.
pub(super) fn any_of(terms: &[&str]) -> Option<String> {
    let quoted: Vec<String> = terms.iter().map(|t| format!("\"{t}\"")).collect();
    (terms.len() > 1).then(|| quoted.join(" OR "))
}

/// Words that occur in every text and do not narrow a search.
#[rustfmt::skip]
const IN_EVERY_TEXT: &[&str] = &[
    "a", "about", "an", "and", "any", "are", "as", "at", "be", "by", "can", "did", "do", "does", "for", "from", "had",
    "has", "have", "how", "i", "if", "in", "is", "it", "its", "me", "my", "of", "on", "or", "our", "that", "the",
    "their", "there", "this", "to", "was", "we", "were", "what", "when", "where", "which", "who", "why", "with",
    "you", "your",
];

/// Returns the words of a question that narrow a search: for "the password of the vault" two. If
/// all words are common ones, returns all of them.
pub(super) fn distinctive_words(text: &str) -> Vec<&str> {
    let words: Vec<&str> = terms(text)
        .into_iter()
        .map(|t| t.trim_matches(|c: char| !c.is_alphanumeric()))
        .collect();
    let is_distinctive = |w: &&str| !IN_EVERY_TEXT.contains(&w.to_lowercase().as_str());
    match words.iter().any(is_distinctive) {
        true => words.into_iter().filter(is_distinctive).collect(),
        false => words,
    }
}

/// Returns names as a list for the brackets of `IN`. They never come from outside, but anything
/// other than a name is left out.
pub(super) fn list(names: &[&str]) -> String {
    let is_name = |n: &&&str| n.bytes().all(|b| b.is_ascii_lowercase());
    let quoted: Vec<String> = names
        .iter()
        .filter(is_name)
        .map(|n| format!("'{n}'"))
        .collect();
    quoted.join(", ")
}

/// Returns the words of the query. Text between quotes is a phrase of tokens in FTS5, so only the
/// quote itself is removed (and NUL, which would end the text).
pub(super) fn terms(text: &str) -> Vec<&str> {
    text.split(|c: char| c.is_whitespace() || c == '"' || c == '\0')
        .filter(|term| term.chars().any(char::is_alphanumeric))
        .take(MAX_TERMS)
        .collect()
}

/// Bytes of text before and after the first match.
const BEFORE: usize = 60;
const AFTER: usize = 140;

/// The place of the words in a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MatchLocation {
    /// The first line that has most of them, from 1.
    pub line: u64,
    /// Number of lines of the text.
    pub lines: u64,
    /// Number of lines that have as many of the words.
    pub times: u64,
    /// That line, or the part of it around the words.
    pub text: String,
}

/// Returns the lines that have the words as they were typed, else all of them, else most of them.
pub(super) fn place(text: &str, terms: &[&str]) -> MatchLocation {
    let lower = text.to_ascii_lowercase();
    let best = best_lines(&lower, terms);
    let at = best.first;
    let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
    MatchLocation {
        line: best.line,
        lines: best.lines,
        times: best.times,
        text: snippet(text[at..end].trim(), terms),
    }
}

struct Best {
    /// Offset at which the first of these lines begins.
    first: usize,
    line: u64,
    lines: u64,
    times: u64,
}

/// Finds the lines that match best. Text and words are in lower case: only ASCII is converted,
/// which keeps the offsets of the bytes.
fn best_lines(lower: &str, terms: &[&str]) -> Best {
    let terms: Vec<String> = terms.iter().map(|t| t.to_ascii_lowercase()).collect();
    let phrase = terms.join(" ");
    let mut best = Best {
        first: 0,
        line: 1,
        lines: 0,
        times: 1,
    };
    let (mut most, mut at) = (0, 0);
    for line in lower.split_inclusive('\n') {
        best.lines += 1;
        let has = match line.contains(&phrase) {
            true => terms.len() + 1,
            false => terms.iter().filter(|t| line.contains(t.as_str())).count(),
        };
        match has.cmp(&most) {
            Ordering::Greater => {
                (most, best.first, best.line, best.times) = (has, at, best.lines, 1);
            }
            Ordering::Equal if most > 0 => best.times += 1,
            _ => {}
        }
        at += line.len();
    }
    best
}

/// Returns one line around the words, from the place that has most of them.
pub(super) fn snippet(text: &str, terms: &[&str]) -> String {
    let lower = text.to_ascii_lowercase();
    let first = best_lines(&lower, terms).first;
    let rest = &lower[first..];
    let phrase = terms.join(" ").to_ascii_lowercase();
    let hit = rest.find(&phrase).or_else(|| {
        let places = terms
            .iter()
            .map(|term| rest.find(&term.to_ascii_lowercase()));
        places.flatten().min()
    });
    let hit = first + hit.unwrap_or(0);
    let start = floor(text, hit.saturating_sub(BEFORE));
    let end = floor(text, (hit + AFTER).min(text.len()));
    let line = text[start..end]
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let (left, right) = (
        if start > 0 { "…" } else { "" },
        if end < text.len() { "…" } else { "" },
    );
    format!("{left}{line}{right}")
}

pub(super) fn floor(text: &str, index: usize) -> usize {
    (0..=index)
        .rev()
        .find(|i| text.is_char_boundary(*i))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_the_last_is_a_prefix() {
        let escape = |text| escape(&terms(text));
        assert_eq!(escape("auth refac"), Some(r#""auth" "refac"*"#.into()));
        assert_eq!(
            escape(r#"NEAR(" OR -x*"#),
            Some(r#""NEAR(" "OR" "-x*"*"#.into())
        );
        assert_eq!(escape("fix a"), Some(r#""fix" "a""#.into()));
        assert_eq!(escape(" * \" ( \0"), None);
    }

    #[test]
    fn a_question_is_its_telling_words() {
        assert_eq!(
            distinctive_words("What was the `vault` password?"),
            ["vault", "password"]
        );
        assert_eq!(distinctive_words("to be or"), ["to", "be", "or"]);
        assert_eq!(any_of(&["a", "b"]), Some(r#""a" OR "b""#.into()));
        assert_eq!(any_of(&["a"]), None);
        assert_eq!(list(&["said", "x') --"]), "'said'");
    }

    #[test]
    fn the_snippet_is_around_the_hit() {
        let text = format!("{} the Parser\nfails {}", "ä".repeat(100), "ö".repeat(100));
        let line = snippet(&text, &["parser"]);
        assert!(line.contains("the Parser fails"), "{line}");
        assert!(line.starts_with('…') && line.ends_with('…'));
        assert_eq!(snippet("short", &["nothing"]), "short");
        assert_eq!(snippet("", &["nothing"]), "");
    }

    #[test]
    fn the_place_is_the_line_with_the_words_as_they_were_typed() {
        let text = "git status\n  Git Push origin\npush to git\ngit push --force\n";
        let found = place(text, &["git", "push"]);
        assert_eq!((found.line, found.lines, found.times), (2, 4, 2));
        assert_eq!(found.text, "Git Push origin");
        let found = place(text, &["git", "to"]);
        assert_eq!(
            (found.line, found.times, found.text.as_str()),
            (3, 1, "push to git")
        );
        let none = place("ä\nb", &["nothing"]);
        assert_eq!((none.line, none.lines, none.times), (1, 2, 1));
        assert_eq!(place("", &["x"]).text, "");
    }
}
