//! Output of a command as plain text, without control sequences for a terminal.
//!
//! The log has the bytes as they were printed, and this makes the text for the model. Colours,
//! cursor movements, titles and links are removed. Of a progress line that was overwritten only the
//! last state stays.
//!
//! Invariant: the result depends on the text alone, and converting the result again does not change
//! it.

use std::borrow::Cow;

use super::visible::sequence_length;

/// Maximum length of an escape sequence. Of a longer one only the ESC is removed.
const MAX_SEQUENCE_BYTES: usize = 64;

const ESC: char = '\u{1b}';
const BACKSPACE: char = '\u{8}';
/// Ends a string sequence such as a title.
const STRING_END: char = '\u{9c}';

/// Removes escape sequences, and applies carriage returns and backspaces.
pub(crate) fn plain_text(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| c == '\r' || c == BACKSPACE || is_left_out(c)) {
        return Cow::Borrowed(text);
    }
    let text = without_sequences(text);
    if !text.contains(['\r', BACKSPACE]) {
        return Cow::Owned(text);
    }
    let lines = text.split('\n').map(line);
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}

/// Returns whether a character is removed: ESC, the bell, changes of the character set, and the
/// one-byte forms of the sequences that ESC begins.
fn is_left_out(c: char) -> bool {
    matches!(c, ESC | '\u{7}' | '\u{e}' | '\u{f}')
        || matches!(c, '\u{90}' | '\u{98}' | '\u{9b}'..='\u{9f}')
}

fn without_sequences(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_left_out) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let short = || sequence_length(rest).filter(|length| *length <= MAX_SEQUENCE_BYTES);
        let one = rest.chars().next().map_or(0, char::len_utf8);
        rest = &rest[string_length(rest).or_else(short).unwrap_or(one)..];
    }
    out.push_str(rest);
    out
}

/// Returns the length in bytes of the string sequence (a title, a link, an image) at the beginning
/// of `text` (ECMA-48, 5.6). A sequence that does not end within its line is treated as text.
fn string_length(text: &str) -> Option<usize> {
    let mut chars = text.chars();
    let begin = match chars.next()? {
        ESC if matches!(chars.next()?, ']' | 'P' | 'X' | '^' | '_') => 2,
        c @ ('\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}') => c.len_utf8(),
        _ => return None,
    };
    let is_end = |c| matches!(c, '\u{7}' | STRING_END | ESC | '\n' | '\r');
    let length = begin + text[begin..].find(is_end)?;
    match &text[length..] {
        end if end.starts_with(['\u{7}', STRING_END]) => {
            Some(length + end.chars().next().map_or(0, char::len_utf8))
        }
        end if end.starts_with("\u{1b}\\") => Some(length + 2),
        _ => None,
    }
}

/// Returns the final visible state of a line.
fn line(line: &str) -> String {
    // A line ending of another system.
    let line = line.trim_end_matches('\r');
    let mut states = line
        .split('\r')
        .filter(|state| !state.is_empty())
        .peekable();
    let mut out = String::new();
    while let Some(state) = states.next() {
        match states.peek() {
            Some(next) if is_written_over(state, next) => {}
            Some(_) => out.push_str(&format!("{}\n", without_backspaces(state))),
            None => out.push_str(&without_backspaces(state)),
        }
    }
    out
}

/// Returns whether a state of a line is overwritten by the next: a counter or a bar. Other texts
/// between carriage returns are lines.
fn is_written_over(state: &str, next: &str) -> bool {
    let is_counted = state.contains(|c: char| c.is_ascii_digit());
    let has_words = state.contains(char::is_alphanumeric);
    let word = first_word(state);
    !has_words || (is_counted && (word.is_none() || word == first_word(next)))
}

fn first_word(text: &str) -> Option<&str> {
    let mut words = text.split(|c: char| !c.is_alphabetic());
    words.find(|word| !word.is_empty())
}

/// Applies the backspaces of a line: each removes the character before it, once another character
/// follows.
fn without_backspaces(text: &str) -> Cow<'_, str> {
    if !text.contains(BACKSPACE) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut back = 0;
    for c in text.chars() {
        if c == BACKSPACE {
            back += 1;
            continue;
        }
        for _ in 0..std::mem::take(&mut back) {
            out.pop();
        }
        out.push(c);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn terminal_control_sequences_are_removed() {
        for (given, want) in [
            ("plain\ttext\nüñí 日本", "plain\ttext\nüñí 日本"),
            ("\u{1b}[1;31merror\u{1b}[0m: x", "error: x"),
            (
                "\u{1b}[2K\u{1b}[1;1Hx\u{1b}(B\u{1b}7\u{9b}31my\u{1b}[?25l",
                "xy",
            ),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]8;;http://e\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{9d}0;t\u{9c}x", "x"),
            ("\u{1b}Pq#0\u{1b}\\x", "x"),
            // A sequence without its end hides nothing.
            ("\u{1b}]0;title\nx", "]0;title\nx"),
            ("\u{1b}[31", "[31"),
            ("a\u{1b}\u{1b}[0m[31mb\u{7}", "a[31mb"),
            ("a\r\nb\r\n", "a\nb\n"),
            ("10%\r50%\r100%\nok", "100%\nok"),
            (
                "get: 1%\r\u{1b}[Kget: 99%\rget: 100%, done.\n",
                "get: 100%, done.\n",
            ),
            ("|\r/\r-\rdone\n", "done\n"),
            ("a 1\r", "a 1"),
            // Lines of an old system are lines.
            ("first\rsecond\rthird", "first\nsecond\nthird"),
            ("N\u{8}NA\u{8}AME\n", "NAME\n"),
            ("10%\u{8}\u{8}\u{8}20%\u{8}\u{8}\u{8}\nx", "20%\nx"),
        ] {
            assert_eq!(plain_text(given), want, "{given:?}");
        }
    }

    proptest! {
        #[test]
        fn plain_text_has_no_sequence_and_loses_no_words(
            words in prop::collection::vec("[a-zäö <>/]{1,8}", 0..8),
            between in "(\u{1b}\\[[0-9;?]{0,5}[A-Zm]|\u{1b}\\][0-9];[a-z]{0,5}(\u{7}|\u{1b}\\\\)|\u{1b}[78(]?|\u{9b}[0-9]{0,2}m|\u{7}|\n){1,3}",
        ) {
            let printed = words.join(&between);
            let once = plain_text(&printed).into_owned();
            prop_assert!(!once.contains(is_left_out), "{once:?}");
            prop_assert_eq!(&plain_text(&once), &once);
        }

        #[test]
        fn text_without_control_characters_stays(text in "[ -~\n\tä-ü]{0,60}") {
            prop_assert_eq!(&*plain_text(&text), &text);
        }

        #[test]
        fn nothing_printed_keeps_an_escape(text in "[\u{0}-\u{ff}]{0,60}") {
            let once = plain_text(&text).into_owned();
            prop_assert!(!once.contains(is_left_out));
            prop_assert_eq!(&plain_text(&once), &once);
        }
    }
}
