//! Text from outside, with invisible characters marked.
//!
//! The text of a model, a tool or a file may have bytes that control a terminal, change the
//! direction of writing, or are invisible. Each of them is shown as a mark and none is left out,
//! because a person cannot approve what they cannot see. [`visible`] is for all text and
//! [`command`] for commands that are about to run. [`counted`] prevents spaces from hiding the text
//! after them.
//!
//! Marks: control characters as their picture (`␛`, U+2400 to U+2421), all others as `<U+202E>`,
//! many blanks as `⟨3,000 spaces⟩`.
//!
//! Invariant: only [`without_cosmetics`] leaves anything out, it is for the output of commands, and
//! what it leaves out has no text.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Maximum width in columns of white space inside a line that is shown as it is.
const MAX_BLANK_COLUMNS: usize = 8;
/// The same at the beginning of a line, because code is indented.
const MAX_INDENT_COLUMNS: usize = 32;
const TAB_COLUMNS: usize = 4;
/// Number of consecutive blank lines that are shown as they are.
pub const MAX_BLANK_LINES: usize = 2;

/// Requests the emoji form of the character before it.
const EMOJI_FORM: char = '\u{fe0f}';

/// Maximum length of an escape sequence that only moves the cursor.
const MAX_SEQUENCE_BYTES: usize = 64;

/// How strictly characters are treated that belong to writing in some places.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Joiners stay inside emoji and words of scripts that need them; CR LF is a line end.
    Prose,
    /// Every such character is marked, since a shell takes each as a character of a word.
    Command,
}

/// Replaces every character that is invisible, or that a terminal would obey, with a mark. Line
/// ends and tabs stay; CR LF becomes LF.
pub fn visible(text: &str) -> Cow<'_, str> {
    marked(text, Reading::Prose)
}

/// Returns a command line like [`visible`] does, with further marks. Blanks that only look like
/// spaces become marks, and many blanks or line breaks become a count. Letters that look like Latin
/// ones are followed by their number.
pub fn command(text: &str) -> String {
    let marked = marked(text, Reading::Command);
    let marked = with_lookalikes_marked(&marked);
    let lines: Vec<&str> = marked.split('\n').collect();
    let mut out = Vec::new();
    let mut rest = &lines[..];
    while let Some((line, after)) = rest.split_first() {
        let blank = rest.iter().take_while(|l| l.trim().is_empty()).count();
        if blank > MAX_BLANK_LINES {
            let empty = rest[..blank].iter().all(|l| l.is_empty());
            // The breaks before and after them count too.
            let breaks = (lines.len() - 1).min(blank + 1);
            out.push(if empty {
                format!("⟨{} line breaks⟩", figure(breaks))
            } else {
                format!("⟨{} blank lines⟩", figure(blank))
            });
            rest = &rest[blank..];
        } else {
            out.push(counted(line, true).into_owned());
            rest = after;
        }
    }
    out.join("\n")
}

/// Returns a line with a count for each run of blanks that is long enough to hide something. With
/// `begins`, leading blanks are indentation.
pub fn counted(line: &str, begins: bool) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut rest, mut kept) = (line, 0);
    let mut most = if begins {
        MAX_INDENT_COLUMNS
    } else {
        MAX_BLANK_COLUMNS
    };
    loop {
        let length = rest.find(|c| !is_blank(c)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(length);
        let columns: usize = run.chars().map(columns).sum();
        if columns > most {
            let start = line.len() - rest.len();
            out.push_str(&line[kept..start]);
            kept = start + length;
            let _ = write!(out, "⟨{} {}⟩", figure(run.chars().count()), name(run));
        }
        most = MAX_BLANK_COLUMNS;
        match after.find(is_blank) {
            Some(next) => rest = &after[next..],
            None if kept == 0 => return Cow::Borrowed(line),
            None => {
                out.push_str(&line[kept..]);
                return Cow::Owned(out);
            }
        }
    }
}

/// Removes the escape sequences that only move a cursor, erase or colour from a command's output.
/// None of them has text; those that do (a window title, a link) stay, and become marks later.
pub fn without_cosmetics(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| c == '\u{1b}' || ('\u{80}'..='\u{9f}').contains(&c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = sequence_length(rest).filter(|length| *length <= MAX_SEQUENCE_BYTES);
        if length.is_none() {
            out.push(c);
        }
        rest = &rest[length.unwrap_or(c.len_utf8())..];
    }
    Cow::Owned(out)
}

/// Returns whether a joiner or a variation selector after `before` is part of writing.
pub fn joins_after(before: Option<char>, c: char) -> bool {
    match c {
        '\u{200c}' | '\u{200d}' => {
            before.is_some_and(|c| is_pictograph(c) || is_joining(c) || c == EMOJI_FORM)
        }
        '\u{fe0e}' | '\u{fe0f}' => before.is_some_and(|c| is_pictograph(c) || is_keycap(c)),
        _ => false,
    }
}

/// Returns whether a word has letters that look like Latin ones and are not, beside Latin ones or
/// alone.
pub(crate) fn has_lookalike(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric())
        .any(is_lookalike_word)
}

/// Returns whether one word has letters of another script that look like Latin ones, beside Latin
/// ones or alone. `документы` is a word; `сору` (all Cyrillic) is not `copy`.
fn is_lookalike_word(word: &str) -> bool {
    let mut letters = word.chars().filter(|c| c.is_alphabetic());
    let is_mixed =
        word.contains(|c: char| c.is_ascii_alphabetic()) && word.contains(is_of_like_script);
    is_mixed || (word.contains(looks_latin) && letters.all(looks_latin))
}

/// Returns whether a character is of a script with letters that look like Latin ones, or is a form
/// of a Latin letter.
fn is_of_like_script(c: char) -> bool {
    matches!(c,
        '\u{250}'..='\u{2af}' | '\u{370}'..='\u{3ff}' | '\u{400}'..='\u{52f}' | '\u{530}'..='\u{58f}'
        | '\u{13a0}'..='\u{13ff}' | '\u{1d00}'..='\u{1dbf}' | '\u{2c80}'..='\u{2cff}'
        | '\u{a4d0}'..='\u{a4ff}' | '\u{a640}'..='\u{a69f}' | '\u{ff21}'..='\u{ff5a}'
        | '\u{1d400}'..='\u{1d7ff}')
}

/// Returns whether a letter looks Latin: a Cyrillic or Greek one with the shape of a Latin one, or
/// any form of a Latin letter.
fn looks_latin(c: char) -> bool {
    "асԁеһіјӏорԛѕуѵԝхАВЕЅІЈКМНОРСТХУοαινυρΑΒΕΖΗΙΚΜΝΟΡΤΥΧ".contains(c)
        || matches!(c, '\u{ff21}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d7ff}' | '\u{13a0}'..='\u{13ff}' | '\u{a4d0}'..='\u{a4ff}')
}

/// Adds its number after each look-alike letter of a command.
fn with_lookalikes_marked(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !has_lookalike(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    let mut word = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_alphanumeric() {
            word.push(c);
            continue;
        }
        let suspect = is_lookalike_word(&word);
        for letter in word.drain(..) {
            out.push(letter);
            if suspect && is_of_like_script(letter) {
                let _ = write!(out, "<U+{:04X}>", u32::from(letter));
            }
        }
        out.push(c);
    }
    out.pop();
    Cow::Owned(out)
}

fn marked(text: &str, reading: Reading) -> Cow<'_, str> {
    let suspect = |c| is_unseen(c) || (reading == Reading::Command && is_foreign_blank(c));
    if !text.contains(suspect) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let after = chars.peek().copied();
        match c {
            '\r' if reading == Reading::Prose && after == Some('\n') => {}
            c if reading == Reading::Prose && is_writing(before, c, after) => out.push(c),
            c if suspect(c) => push_mark(&mut out, c),
            c => out.push(c),
        }
        before = Some(c);
    }
    Cow::Owned(out)
}

/// Returns whether a joiner or selector has a visible effect here.
fn is_writing(before: Option<char>, c: char, after: Option<char>) -> bool {
    let after_fits = |fits: fn(char) -> bool| after.is_some_and(fits);
    match c {
        '\u{200d}' if before.is_some_and(|c| is_pictograph(c) || c == EMOJI_FORM) => {
            after_fits(is_pictograph)
        }
        '\u{200c}' | '\u{200d}' => before.is_some_and(is_joining) && after_fits(is_joining),
        '\u{fe0e}' | '\u{fe0f}' => {
            let keycap = before.is_some_and(is_keycap) && after == Some('\u{20e3}');
            keycap || before.is_some_and(is_pictograph)
        }
        _ => false,
    }
}

/// Escapes the characters of a JSON document that a terminal obeys or does not show. They occur in
/// strings only, and mean the same there.
pub fn escape_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_unseen) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        if !is_unseen(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    Cow::Owned(out)
}

pub(super) fn is_unseen(c: char) -> bool {
    match c {
        '\t' | '\n' | ' '..='~' => false,
        _ => {
            c.is_control()
                || matches!(c,
                    '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}'
                    | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
                    | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
                    | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
                    | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
        }
    }
}

/// Returns whether a character looks like a space but is not one for a shell.
fn is_foreign_blank(c: char) -> bool {
    (c.is_whitespace() && !c.is_ascii()) || c == '\u{2800}'
}

fn is_blank(c: char) -> bool {
    c != '\n' && (c.is_whitespace() || is_foreign_blank(c))
}

/// Returns whether a character is an emoji or shown as one, skin tones included.
fn is_pictograph(c: char) -> bool {
    matches!(c,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}'
        | '\u{2190}'..='\u{2bff}' | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}'
        | '\u{1f000}'..='\u{1faff}')
}

/// Returns whether a character is of a script whose letters change their form beside each other:
/// Arabic and related scripts, Mongolian, and those of India and its neighbours.
fn is_joining(c: char) -> bool {
    matches!(c, '\u{620}'..='\u{8ff}' | '\u{900}'..='\u{dff}' | '\u{1000}'..='\u{109f}'
        | '\u{1780}'..='\u{17b3}' | '\u{17b6}'..='\u{17d3}' | '\u{1820}'..='\u{18aa}')
}

fn is_keycap(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '#' | '*')
}

fn push_mark(out: &mut String, c: char) {
    match u32::from(c) {
        code @ 0..0x20 => out.extend(char::from_u32(0x2400 + code)),
        0x7f => out.push('\u{2421}'),
        code => {
            // Writing to a string cannot fail.
            let _ = write!(out, "<U+{code:04X}>");
        }
    }
}

fn columns(c: char) -> usize {
    if c == '\t' { TAB_COLUMNS } else { 1 }
}

fn name(run: &str) -> &'static str {
    match run {
        run if run.chars().all(|c| c == ' ') => "spaces",
        run if run.chars().all(|c| c == '\t') => "tabs",
        _ => "blanks",
    }
}

/// Formats a whole number for people: `3,000`.
pub fn figure(n: impl std::fmt::Display) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns the length of the escape sequence without text at the beginning of `text` (ECMA-48): a
/// control sequence, or an escape of two or three characters. A sequence without its end does not
/// count.
pub(super) fn sequence_length(text: &str) -> Option<usize> {
    let mut chars = text.chars();
    let (kind, introducer) = match chars.next()? {
        '\u{1b}' => (chars.next().filter(char::is_ascii)?, 2),
        '\u{9b}' => ('[', '\u{9b}'.len_utf8()),
        _ => return None,
    };
    let body = &text[introducer..];
    match kind {
        '[' => {
            let length = body.find(|c| !(' '..='?').contains(&c))?;
            let ends = body[length..].starts_with(|c| ('@'..='~').contains(&c));
            ends.then_some(introducer + length + 1)
        }
        // A character set is chosen: `ESC ( B`.
        ' '..='/' => {
            let ends = body.starts_with(|c| ('0'..='~').contains(&c));
            ends.then_some(introducer + 1)
        }
        // Those begin a string.
        'P' | 'X' | ']' | '^' | '_' => None,
        '0'..='~' => Some(introducer),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_json_means_the_same() {
        let text = "a\u{7f}\u{9b}31m\u{202e}\u{e0041}\u{1b} \n";
        let json = serde_json::to_string(text).unwrap();
        let escaped = escape_json(&json);
        assert_eq!(escaped, r#""a\u007f\u009b31m\u202e\udb40\udc41\u001b \n""#);
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
    }
    use proptest::prelude::*;

    #[test]
    fn letters_that_look_latin_are_numbered_in_a_command() {
        for (text, want) in [
            ("n\u{440}m test", "n\u{440}<U+0440>m test"),
            (
                "\u{441}\u{43e}\u{440}\u{443} x",
                "\u{441}<U+0441>\u{43e}<U+043E>\u{440}<U+0440>\u{443}<U+0443> x",
            ),
            ("cat документы/größe", "cat документы/größe"),
            ("echo 日本語 x\u{3b2}", "echo 日本語 x\u{3b2}<U+03B2>"),
            ("r\u{ff4d} -rf", "r\u{ff4d}<U+FF4D> -rf"),
        ] {
            assert_eq!(command(text), want);
            assert_eq!(has_lookalike(text), text != want, "{text}");
        }
        // Prose stays unchanged.
        assert_eq!(visible("n\u{440}m"), "n\u{440}m");
    }

    #[test]
    fn invisible_characters_become_marks_and_nothing_is_removed() {
        for (given, want) in [
            ("plain\ttext\nüñí 日本", "plain\ttext\nüñí 日本"),
            (
                "true \u{1b}]0;touch x; true \u{7}",
                "true ␛]0;touch x; true ␇",
            ),
            ("\u{1b}[31mred\u{1b}[0m", "␛[31mred␛[0m"),
            ("\u{1b}]8;;http://e\u{1b}\\link", "␛]8;;http://e␛\\link"),
            ("\u{1b}Pq#0\u{1b}\\x", "␛Pq#0␛\\x"),
            ("\u{9d}0;t\u{9c}x", "<U+009D>0;t<U+009C>x"),
            ("\u{1b}", "␛"),
            ("a\r\nb\rc\u{0}\u{8}\u{7f}", "a\nb␍c␀␈␡"),
            ("\u{85}", "<U+0085>"),
            ("a\u{202e}b\u{2066}c", "a<U+202E>b<U+2066>c"),
            ("r\u{200b}m \u{feff}x\u{ad}", "r<U+200B>m <U+FEFF>x<U+00AD>"),
            ("a\u{e0041}b\u{e007f}", "a<U+E0041>b<U+E007F>"),
            ("a\u{2028}b\u{2029}", "a<U+2028>b<U+2029>"),
            ("x\u{fe0f}y\u{fe01}", "x<U+FE0F>y<U+FE01>"),
            ("→\u{fe0f}\u{fe0f}", "→\u{fe0f}<U+FE0F>"),
            // A joiner stays where it has a visible effect, and nowhere else.
            (
                "r\u{200d}m 日\u{200d}本 é\u{200c}é",
                "r<U+200D>m 日<U+200D>本 é<U+200C>é",
            ),
            (
                "👩\u{200d}👧 1\u{fe0f}\u{20e3} ❤\u{fe0f}\u{200d}🔥",
                "👩\u{200d}👧 1\u{fe0f}\u{20e3} ❤\u{fe0f}\u{200d}🔥",
            ),
            ("می\u{200c}خواهم", "می\u{200c}خواهم"),
        ] {
            assert_eq!(visible(given), want, "{given:?}");
        }
    }

    #[test]
    fn long_blanks_in_a_command_are_shown_as_a_count() {
        let far = |blank: &str, n: usize| format!("ls{}rm x", blank.repeat(n));
        for (given, want) in [
            (far(" ", 8), far(" ", 8)),
            (far(" ", 3_000), "ls⟨3,000 spaces⟩rm x".into()),
            (far("\t", 40), "ls⟨40 tabs⟩rm x".into()),
            (far(" \t", 9), "ls⟨18 blanks⟩rm x".into()),
            (far("\n", 3), far("\n", 3)),
            (far("\n", 120), "ls\n⟨120 line breaks⟩\nrm x".into()),
            (far(" \n", 120), "ls \n⟨119 blank lines⟩\nrm x".into()),
            ("\n".repeat(9), "⟨9 line breaks⟩".into()),
            (
                format!("{}x", " ".repeat(32)),
                format!("{}x", " ".repeat(32)),
            ),
            (format!("{}x", " ".repeat(33)), "⟨33 spaces⟩x".into()),
            // For a shell these are not blanks, and a CR is a character of the word.
            (
                "rm\u{a0}-rf\u{3000}x\r\ny".into(),
                "rm<U+00A0>-rf<U+3000>x␍\ny".into(),
            ),
            ("a 👩\u{200d}👧".into(), "a 👩<U+200D>👧".into()),
        ] {
            assert_eq!(command(&given), want, "{given:?}");
        }
        assert_eq!(counted(&far("\u{3000}", 12), true), "ls⟨12 blanks⟩rm x");
        assert_eq!(counted("         x", false), "⟨9 spaces⟩x");
    }

    #[test]
    fn only_sequences_without_text_are_cosmetics() {
        for (given, want) in [
            (
                "\u{1b}[2K\u{1b}[1;1Hx\u{1b}(B\u{1b}7\u{9b}31my\u{1b}[?25l",
                "xy",
            ),
            ("\u{1b}]0;title\u{7}x", "\u{1b}]0;title\u{7}x"),
            ("\u{1b}Pq\u{1b}\\", "\u{1b}Pq"),
            ("\u{1b}[31", "\u{1b}[31"),
            ("\u{1b}(", "\u{1b}("),
            ("\u{1b}é", "\u{1b}é"),
        ] {
            assert_eq!(without_cosmetics(given), want, "{given:?}");
        }
        let long = format!("\u{1b}[{}m", "1;".repeat(100));
        assert_eq!(without_cosmetics(&long), long);
    }

    proptest! {
        #[test]
        fn visible_text_has_no_power(text in "\\PC{0,20}|[\\x00-\\u{ff}\\u{1b}\\[\\];\\u{2000}-\\u{206f}]{0,40}") {
            let once = visible(&text).into_owned();
            let kept = ['\u{200c}', '\u{200d}', '\u{fe0e}', '\u{fe0f}'];
            prop_assert!(!once.contains(|c| is_unseen(c) && !kept.contains(&c)), "{once:?}");
            // Visible characters stay visible.
            let seen = |c: &char| !is_unseen(*c);
            let mut rest = once.chars();
            prop_assert!(text.chars().filter(seen).all(|c| rest.any(|other| other == c)));
        }

        #[test]
        fn every_word_of_a_command_is_shown(words in prop::collection::vec("[a-z;|&\u{1b}\u{7}]{1,9}", 1..9), blanks in "[ \t\n\r\u{a0}]{1,99}") {
            let shown = command(&words.join(&blanks));
            prop_assert!(!shown.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
            for word in words {
                prop_assert!(shown.contains(&*visible(&word)), "{word:?} {shown:?}");
            }
        }
    }
}
