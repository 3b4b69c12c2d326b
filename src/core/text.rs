//! Text from outside, made fit to be shown, and cut to a size.
//!
//! What a model, a tool or a file says may hold sequences that drive a terminal or make
//! one text look like another. [`neutralise`] takes that power away; the rest cuts.
//!
//! Invariant: text is never cut inside a character, and no result is longer than asked.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The mark of a cut.
const ELLIPSIS: char = '…';

/// Longer words are typos of nothing.
const MAX_NEAREST_CHARS: usize = 64;

/// Takes away escape sequences, and makes other control characters, bidirectional
/// overrides and characters without width visible. Tabs and line ends are kept; CR LF
/// becomes LF.
pub fn neutralise(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_dangerous) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = None;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        if let Some(length) = escape_length(rest) {
            rest = &rest[length..];
            continue;
        }
        match c {
            '\r' if after.starts_with('\n') => {}
            '\u{2028}' | '\u{2029}' => out.push('\n'),
            '\u{200c}' | '\u{200d}' if joins(before, after) => out.push(c),
            c if is_dangerous(c) => push_visible(&mut out, c),
            c => out.push(c),
        }
        before = Some(c);
        rest = after;
    }
    Cow::Owned(out)
}

/// Joiners are part of emoji and of several scripts; beside ASCII they only hide.
fn joins(before: Option<char>, after: &str) -> bool {
    let foreign = |c: Option<char>| c.is_some_and(|c| !c.is_ascii() && !is_dangerous(c));
    foreign(before) && foreign(after.chars().next())
}

fn push_visible(out: &mut String, c: char) {
    match u32::from(c) {
        code @ 0..0x20 => out.extend(char::from_u32(0x2400 + code)),
        0x7f => out.push('\u{2421}'),
        code => {
            // Writing to a string cannot fail.
            let _ = write!(out, "<U+{code:04X}>");
        }
    }
}

fn is_dangerous(c: char) -> bool {
    match c {
        '\t' | '\n' => false,
        ' '..='~' => false,
        _ => {
            c.is_control()
                || matches!(c,
                    '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}'
                    | '\u{17b5}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                    | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
                    | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
        }
    }
}

/// The bytes of the escape sequence that `text` begins with (ECMA-48). A sequence without
/// its end gives only its introducer, so that nothing can hide what follows.
fn escape_length(text: &str) -> Option<usize> {
    let mut chars = text.chars();
    let first = chars.next()?;
    let (kind, introducer) = match first {
        '\u{1b}' => (chars.next().filter(char::is_ascii)?, 2),
        // The C1 form of ESC and a letter.
        '\u{80}'..='\u{9f}' => (char::from_u32(u32::from(first) - 0x40)?, first.len_utf8()),
        _ => return None,
    };
    let body = &text[introducer..];
    match kind {
        '[' => Some(introducer + control_sequence_length(body)),
        ']' | 'P' | 'X' | '^' | '_' => Some(introducer + control_string_length(body)),
        // Two-character sequences and those with intermediate bytes, such as `ESC ( B`.
        ' '..='/' => {
            let length = body.find(|c| !(' '..='/').contains(&c)).unwrap_or(0);
            let ends = body[length..].starts_with(|c| ('0'..='~').contains(&c));
            Some(introducer + length + usize::from(ends))
        }
        '0'..='~' if first == '\u{1b}' => Some(introducer),
        _ => None,
    }
}

fn control_sequence_length(body: &str) -> usize {
    let length = body.find(|c| !(' '..='?').contains(&c)).unwrap_or(0);
    match body[length..].chars().next() {
        Some('@'..='~') => length + 1,
        _ => 0,
    }
}

fn control_string_length(body: &str) -> usize {
    for (at, c) in body.char_indices() {
        match c {
            '\u{7}' | '\u{9c}' => return at + c.len_utf8(),
            '\u{1b}' if body[at..].starts_with("\u{1b}\\") => return at + 2,
            '\u{1b}' | '\u{18}' | '\u{1a}' | '\n' => return 0,
            _ => {}
        }
    }
    0
}

/// At most `max_bytes` of the text, with `…` for what was cut.
pub fn clip(text: &str, max_bytes: usize) -> Cow<'_, str> {
    if text.len() <= max_bytes {
        return Cow::Borrowed(text);
    }
    match max_bytes.checked_sub(ELLIPSIS.len_utf8()) {
        Some(room) => {
            let mut out = text[..boundary_below(text, room)].to_string();
            out.push(ELLIPSIS);
            Cow::Owned(out)
        }
        None => Cow::Borrowed(&text[..boundary_below(text, max_bytes)]),
    }
}

/// The last boundary of characters at or before `at`; `at` is inside the text.
fn boundary_below(text: &str, at: usize) -> usize {
    let mut boundaries = (0..=at).rev();
    boundaries.find(|i| text.is_char_boundary(*i)).unwrap_or(0)
}

fn boundary_above(text: &str, at: usize) -> usize {
    let mut boundaries = at..text.len();
    boundaries
        .find(|i| text.is_char_boundary(*i))
        .unwrap_or(text.len())
}

/// Head and tail of the text with `marker` between, together at most `max_bytes`.
pub fn head_tail<'a>(text: &'a str, max_bytes: usize, marker: &str) -> Cow<'a, str> {
    if text.len() <= max_bytes {
        return Cow::Borrowed(text);
    }
    let Some(room) = max_bytes.checked_sub(marker.len()) else {
        return clip(text, max_bytes);
    };
    let head = boundary_below(text, room.div_ceil(2));
    let tail = boundary_above(text, text.len() - room / 2);
    Cow::Owned(format!("{}{marker}{}", &text[..head], &text[tail..]))
}

/// The first line that says something, neutralised, its blanks made single: for titles.
pub fn one_line(text: &str, max_chars: usize) -> String {
    let line = text.lines().find(|l| !l.trim().is_empty()).unwrap_or("");
    // A character is at most 4 bytes; blanks and sequences may take some more.
    let line = clip(line, max_chars.saturating_mul(16).max(64));
    let clean = neutralise(&line);
    let words: Vec<&str> = clean.split_whitespace().collect();
    let joined = words.join(" ");
    if joined.chars().count() <= max_chars {
        return joined;
    }
    let mut out: String = joined.chars().take(max_chars.saturating_sub(1)).collect();
    if max_chars > 0 {
        out.push(ELLIPSIS);
    }
    out
}

/// The candidate that `word` was most likely meant to be; none when nothing is near.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    if length == 0 || length > MAX_NEAREST_CHARS {
        return None;
    }
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .filter(|c| c.len() <= 4 * MAX_NEAREST_CHARS)
        .map(|c| (distance(&word, &c.to_lowercase()), c))
        .filter(|(d, c)| *d <= (length.max(c.chars().count()) / 3).max(1))
        .min_by_key(|(d, _)| *d)
        .map(|(_, c)| c)
}

/// Edits from one word to the other, two neighbours swapped counting as one (optimal
/// string alignment).
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut older = vec![0; b.len() + 1];
    let mut old: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut new = vec![i + 1];
        for (j, &y) in b.iter().enumerate() {
            let mut best = (old[j] + usize::from(x != y))
                .min(old[j + 1] + 1)
                .min(new[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && a[i - 1] == y {
                best = best.min(older[j - 1] + 1);
            }
            new.push(best);
        }
        older = std::mem::replace(&mut old, new);
    }
    old[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sequences_lose_their_power() {
        for (given, want) in [
            ("plain\ttext\nüñí 日本", "plain\ttext\nüñí 日本"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}[?1049h\u{1b}[2Jx", "x"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]8;;http://e\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]52;c;cm0gLXJm\u{7}", ""),
            ("\u{1b}Pq#0\u{1b}\\x", "x"),
            ("\u{9b}31mred", "red"),
            ("\u{9d}0;t\u{9c}x", "x"),
            ("\u{1b}(Bx\u{1b}7y\u{1b}cz", "xyz"),
            // Without its end, a sequence hides nothing.
            ("\u{1b}]0;rm -rf /", "0;rm -rf /"),
            ("\u{1b}[31", "31"),
            ("\u{1b}]0;a\nb\u{7}c", "0;a\nb␇c"),
            ("\u{1b}", "␛"),
            ("a\r\nb\rc\u{0}\u{8}\u{7f}", "a\nb␍c␀␈␡"),
            ("\u{85}", "<U+0085>"),
            ("a\u{202e}b\u{2066}c", "a<U+202E>b<U+2066>c"),
            ("r\u{200b}m \u{feff}x\u{ad}", "r<U+200B>m <U+FEFF>x<U+00AD>"),
            ("r\u{200d}m", "r<U+200D>m"),
            (
                "👩\u{200d}👧 می\u{200c}خواهم",
                "👩\u{200d}👧 می\u{200c}خواهم",
            ),
            ("a\u{e0041}b", "a<U+E0041>b"),
            ("a\u{2028}b", "a\nb"),
        ] {
            assert_eq!(neutralise(given), want, "{given:?}");
        }
    }

    #[test]
    fn what_is_too_long_is_cut() {
        assert_eq!(clip("hello", 5), "hello");
        assert_eq!(clip("hello!", 5), "he…");
        assert_eq!(clip("äöü", 5), "ä…");
        assert_eq!(clip("hello", 2), "he");
        assert_eq!(head_tail("0123456789", 10, "…"), "0123456789");
        assert_eq!(head_tail("0123456789", 9, "..."), "012...789");
        assert_eq!(head_tail("0123456789", 2, "....."), "01");
    }

    #[test]
    fn a_title_is_one_line() {
        assert_eq!(
            one_line("\n  \n fix\tthe   parser \n more", 40),
            "fix the parser"
        );
        assert_eq!(one_line("fix the parser", 8), "fix the…");
        assert_eq!(one_line("\u{1b}[1mbold\u{1b}[0m", 8), "bold");
        assert_eq!(one_line("", 8), "");
        assert_eq!(one_line("abc", 0), "");
    }

    #[test]
    fn the_nearest_name_is_found() {
        let tools = ["Bash", "Read", "Edit", "Write", "Grep", "Glob"];
        assert_eq!(nearest("bash", tools), Some("Bash"));
        assert_eq!(nearest("Bsah", tools), Some("Bash"));
        assert_eq!(nearest("Wirte", tools), Some("Write"));
        assert_eq!(nearest("Deploy", tools), None);
        assert_eq!(nearest("", tools), None);
        assert_eq!(nearest(&"x".repeat(100_000), tools), None);
        assert_eq!(
            nearest("max_token", ["max_turns", "max_tokens"]),
            Some("max_tokens")
        );
    }

    proptest! {
        #[test]
        fn neutral_text_stays_neutral(text in "\\PC{0,20}|[\\x00-\\u{ff}\\u{1b}\\[\\];\\u{2000}-\\u{206f}]{0,40}") {
            let once = neutralise(&text).into_owned();
            prop_assert!(!once.chars().any(|c| c != '\u{200c}' && c != '\u{200d}' && is_dangerous(c)), "{once:?}");
        }

        #[test]
        fn no_cut_is_longer_than_asked(text in "\\PC{0,60}", max in 0_usize..80, marker in "\\PC{0,9}") {
            prop_assert!(clip(&text, max).len() <= max);
            prop_assert!(head_tail(&text, max, &marker).len() <= max);
            prop_assert!(one_line(&text, max).chars().count() <= max);
        }
    }
}
