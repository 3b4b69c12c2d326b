//! What a person typed, as a query that FTS5 cannot misunderstand.

/// More words than this are ignored.
const MAX_TERMS: usize = 32;

/// A shorter last word, in bytes, must be a whole one: half of all words begin so.
const MIN_PREFIX_BYTES: usize = 3;

/// Every word must occur; the last may be the beginning of one. `None` when there is
/// nothing to look for.
pub(super) fn escape(text: &str) -> Option<String> {
    let terms = terms(text);
    let star = if terms.last()?.len() >= MIN_PREFIX_BYTES {
        "*"
    } else {
        ""
    };
    let quoted: Vec<String> = terms.iter().map(|t| format!("\"{t}\"")).collect();
    Some(quoted.join(" ") + star)
}

/// The words of the query. What is between quotes in FTS5 is a phrase of its tokens, so
/// only the quote itself (and NUL, where it would end) has to go.
pub(super) fn terms(text: &str) -> Vec<&str> {
    text.split(|c: char| c.is_whitespace() || c == '"' || c == '\0')
        .filter(|term| term.chars().any(char::is_alphanumeric))
        .take(MAX_TERMS)
        .collect()
}

/// Bytes of text around the first hit.
const BEFORE: usize = 60;
const AFTER: usize = 140;

/// One line around the first word that occurs.
pub(super) fn snippet(text: &str, terms: &[&str]) -> String {
    // Lower case of ASCII only: it keeps the places of the bytes.
    let lower = text.to_ascii_lowercase();
    let hit = terms
        .iter()
        .filter_map(|term| lower.find(&term.to_ascii_lowercase()))
        .min()
        .unwrap_or(0);
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
        assert_eq!(escape("auth refac"), Some(r#""auth" "refac"*"#.into()));
        assert_eq!(
            escape(r#"NEAR(" OR -x*"#),
            Some(r#""NEAR(" "OR" "-x*"*"#.into())
        );
        assert_eq!(escape("fix a"), Some(r#""fix" "a""#.into()));
        assert_eq!(escape(" * \" ( \0"), None);
    }

    #[test]
    fn the_snippet_is_around_the_hit() {
        let text = format!("{} the Parser\nfails {}", "ä".repeat(100), "ö".repeat(100));
        let line = snippet(&text, &["parser"]);
        assert!(line.contains("the Parser fails"), "{line}");
        assert!(line.starts_with('…') && line.ends_with('…'));
        assert_eq!(snippet("short", &["nothing"]), "short");
    }
}
