//! Helpers for text: cutting it to a size, sizes and counts in words, and similar names.
//!
//! Invariant: text is never cut inside a character, and no result is longer than asked.

use std::borrow::Cow;

use super::visible::{command, figure, visible};

/// The mark of a cut.
const ELLIPSIS: char = '…';

/// Maximum length of a word for which similar names are searched.
const MAX_NEAREST_CHARS: usize = 64;

/// Returns at most `max_bytes` of the text, with `…` where it was cut.
pub fn clip(text: &str, max_bytes: usize) -> Cow<'_, str> {
    if text.len() <= max_bytes {
        return Cow::Borrowed(text);
    }
    match max_bytes.checked_sub(ELLIPSIS.len_utf8()) {
        Some(room) => {
            let mut out = text[..whole_below(text, room)].to_string();
            out.push(ELLIPSIS);
            Cow::Owned(out)
        }
        None => Cow::Borrowed(&text[..boundary_below(text, max_bytes)]),
    }
}

/// Returns a number and its noun: `1 file`, `2 files`, `2 entries`, `2 matches`.
pub fn count<N: std::fmt::Display + PartialEq + From<u8>>(n: N, one: &str) -> String {
    if n == N::from(1) {
        format!("{n} {one}")
    } else {
        format!("{n} {}", plural(one))
    }
}

/// Returns the same as [`count`] for numbers that may be thousands: `1 file`, `2,000 files`.
pub fn large_count<N: std::fmt::Display + PartialEq + From<u8>>(n: N, one: &str) -> String {
    if n == N::from(1) {
        format!("{n} {one}")
    } else {
        format!("{} {}", figure(n), plural(one))
    }
}

/// Formats a size for people: `512 B`, `1.2 KiB`, `8 MiB`. All sizes are shown in this form, with
/// powers of 1,024 as in the config.
pub fn size_text(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1_024.0;
    let mut unit = 0;
    while value >= 1_023.5 && unit + 1 < UNITS.len() {
        value /= 1_024.0;
        unit += 1;
    }
    let tenths = (value * 10.0).round();
    let has_tenths = tenths < 100.0 && tenths % 10.0 != 0.0;
    let decimals = usize::from(has_tenths);
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// Returns the plural of a regular English noun.
pub(crate) fn plural(one: &str) -> String {
    let vowel = |c: char| "aeiou".contains(c);
    match one.strip_suffix('y') {
        Some(stem) if !stem.ends_with(vowel) => format!("{stem}ies"),
        _ if ["s", "x", "ch", "sh"].iter().any(|end| one.ends_with(end)) => format!("{one}es"),
        _ => format!("{one}s"),
    }
}

/// Returns the last boundary of characters at or before `at`; `at` is inside the text.
pub fn boundary_below(text: &str, at: usize) -> usize {
    let mut boundaries = (0..=at).rev();
    boundaries.find(|i| text.is_char_boundary(*i)).unwrap_or(0)
}

/// Returns the same as [`boundary_below`], and never a place inside of an emoji of several
/// characters, such as one with a skin tone.
fn whole_below(text: &str, at: usize) -> usize {
    let mut at = boundary_below(text, at);
    loop {
        let before = text[..at].chars().next_back();
        let after = text[at..].chars().next();
        match before.zip(after) {
            Some((before, after)) if extends(after) || before == JOINER => at -= before.len_utf8(),
            _ => return at,
        }
    }
}

const JOINER: char = '\u{200d}';

/// Returns whether a character changes the one before it: a skin tone, a joiner, a variation
/// selector or an accent.
fn extends(c: char) -> bool {
    matches!(c, '\u{1f3fb}'..='\u{1f3ff}' | JOINER | '\u{fe0e}' | '\u{fe0f}' | '\u{20e3}' | '\u{300}'..='\u{36f}')
}

/// Returns the first boundary of characters at or after `at`.
pub fn boundary_above(text: &str, at: usize) -> usize {
    let mut boundaries = at..text.len();
    boundaries
        .find(|i| text.is_char_boundary(*i))
        .unwrap_or(text.len())
}

/// Returns head and tail of the text with `marker` between, together at most `max_bytes`.
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

/// Returns the first line with text, with invisible characters marked and single spaces: for
/// titles.
pub fn one_line(text: &str, max_chars: usize) -> String {
    let line = text.lines().find(|l| !l.trim().is_empty()).unwrap_or("");
    // A character has at most 4 bytes; blanks and sequences may take some more.
    let line = clip(line, max_chars.saturating_mul(16).max(64));
    let clean = visible(&line);
    let words: Vec<&str> = clean.split_whitespace().collect();
    let joined = words.join(" ");
    if joined.chars().count() <= max_chars {
        return joined;
    }
    let most = joined.char_indices().nth(max_chars.saturating_sub(1));
    let end = most.map_or(joined.len(), |(at, _)| whole_below(&joined, at));
    let mut out = joined[..end].to_string();
    if max_chars > 0 {
        out.push(ELLIPSIS);
    }
    out
}

/// Returns the name of a session for a person: its title, else the same word everywhere.
pub fn session_name(title: Option<&str>) -> &str {
    match title.map(str::trim) {
        Some(title) if !title.is_empty() => title,
        _ => "untitled",
    }
}

/// Returns a title for a task without a model: its first sentence, cut between two words. Invisible
/// characters stay.
pub fn task_title(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    const MIN_SENTENCE_CHARS: usize = 12;
    // The first part is enough, even of a long text.
    let start: String = text.trim_start().chars().take(MAX_CHARS * 4).collect();
    let is_mark = |word: &&str| word.chars().all(|c| "#>*-".contains(c));
    let mut title = String::new();
    for word in start.split_whitespace().skip_while(is_mark) {
        let is_long = title.chars().count() + 1 + word.chars().count() > MAX_CHARS;
        if is_long && !title.is_empty() {
            title.push(ELLIPSIS);
            return title;
        }
        if !title.is_empty() {
            title.push(' ');
        }
        title.push_str(word);
        if word.ends_with(['.', '!', '?']) && title.chars().count() >= MIN_SENTENCE_CHARS {
            return title.trim_end_matches('.').to_string();
        }
    }
    match title.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}{ELLIPSIS}", &title[..end]),
        None => title,
    }
}

/// Returns the whole text as one line, with marks also for line ends: for commands.
pub fn in_one_line(text: &str, max_chars: usize) -> String {
    let shown = command(text.trim_end()).replace('\n', " ␊ ");
    let shown = shown.replace('\t', " ");
    if shown.chars().count() <= max_chars {
        return shown;
    }
    let mut out: String = shown.chars().take(max_chars.saturating_sub(1)).collect();
    if max_chars > 0 {
        out.push(ELLIPSIS);
    }
    out
}

/// Returns the candidate that `word` was most likely meant to be. `None`: none is similar.
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

/// Returns the number of edits from one word to the other. A swap of two neighbours counts as one
/// (optimal string alignment).
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

    #[test]
    fn a_size_has_one_form() {
        let sizes = [
            0,
            1_023,
            1_024,
            1_536,
            10_239,
            8 << 20,
            1_048_000,
            1_048_575,
            2 << 30,
            5 << 40,
        ];
        let shown: Vec<String> = sizes.into_iter().map(size_text).collect();
        let want = [
            "0 B", "1023 B", "1 KiB", "1.5 KiB", "10 KiB", "8 MiB", "1023 KiB", "1 MiB", "2 GiB",
            "5 TiB",
        ];
        assert_eq!(shown, want);
    }

    #[test]
    fn a_title_is_the_first_sentence_of_the_task() {
        assert_eq!(task_title("# mend the parser. It fails"), "mend the parser");
        assert_eq!(task_title("--yolo"), "--yolo");
        assert_eq!(task_title("a.b is 1. no"), "a.b is 1. no");
        assert_eq!(
            task_title("why does it fail?\nI looked."),
            "why does it fail?"
        );
        let long = task_title(&"word ".repeat(40));
        assert_eq!(long, format!("{}…", ["word"; 12].join(" ")));
        assert_eq!(task_title(&"ü".repeat(99)).chars().count(), 61);
        assert_eq!(task_title(" # \n"), "");
    }

    #[test]
    fn a_count_has_its_singular_and_its_plural() {
        let counts = [
            (count(0_usize, "file"), "0 files"),
            (count(1_u64, "file"), "1 file"),
            (count(2_u32, "file"), "2 files"),
            (count(1_usize, "entry"), "1 entry"),
            (count(2_usize, "entry"), "2 entries"),
            (count(2_usize, "key"), "2 keys"),
            (count(2_usize, "match"), "2 matches"),
        ];
        for (got, want) in counts {
            assert_eq!(got, want);
        }
    }
    use proptest::prelude::*;

    #[test]
    fn text_that_is_too_long_is_cut() {
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
        assert_eq!(one_line("\u{1b}[1mbold", 8), "␛[1mbold");
        assert_eq!(one_line("", 8), "");
        assert_eq!(one_line("abc", 0), "");
    }

    #[test]
    fn a_command_in_one_line_hides_none_of_its_lines() {
        assert_eq!(in_one_line("true\nrm \u{1b}x\n", 40), "true ␊ rm ␛x");
        assert_eq!(
            in_one_line(&format!("a{}b", " ".repeat(9_000)), 40),
            "a⟨9,000 spaces⟩b"
        );
        assert_eq!(in_one_line("abcdef", 4), "abc…");
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

    #[test]
    fn an_emoji_with_a_skin_tone_is_never_cut() {
        let text = "ab👍🏽cd";
        for bytes in 5..=12 {
            let cut = clip(text, bytes).into_owned();
            assert!(cut == "ab…" || cut == text, "{bytes}: {cut}");
        }
        assert_eq!(one_line("ab👍🏽cde", 5), "ab👍🏽…");
        assert_eq!(one_line("ab👍🏽cde", 4), "ab…");
    }

    proptest! {
        #[test]
        fn no_cut_is_longer_than_asked(text in "\\PC{0,60}", max in 0_usize..80, marker in "\\PC{0,9}") {
            prop_assert!(clip(&text, max).len() <= max);
            prop_assert!(head_tail(&text, max, &marker).len() <= max);
            prop_assert!(one_line(&text, max).chars().count() <= max);
        }
    }
}
