//! Output of a command as plain text, without control sequences for a terminal.
//!
//! The log has the bytes as they were printed, and this makes the text for the model. Colours,
//! titles and links are removed. Of a progress line that was overwritten only the last state stays,
//! and of several lines too, which a program writes again after it moved the cursor up. Nothing is
//! placed in columns, and a program that clears the screen hides nothing.
//!
//! Invariant: the result depends on the text alone, and converting the result again does not change
//! it.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::visible::sequence_length;

/// Maximum length of an escape sequence. Of a longer one only the ESC is removed.
const MAX_SEQUENCE_BYTES: usize = 64;

const ESC: char = '\u{1b}';
const BACKSPACE: char = '\u{8}';
/// Ends a string sequence such as a title.
const STRING_END: char = '\u{9c}';

/// Number of newest lines that a cursor can reach: more than a terminal has.
const REACHED_LINES: usize = 200;

/// Number of columns to the left that are the way to the beginning of a line.
const TO_BEGINNING: usize = 80;

/// Removes escape sequences, and applies carriage returns, backspaces, and what erases or moves the
/// cursor to another line.
pub fn plain_text(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| c == '\r' || c == BACKSPACE || is_left_out(c)) {
        return Cow::Borrowed(text);
    }
    let mut screen = Screen {
        rows: VecDeque::from([Row::default()]),
        ..Screen::default()
    };
    let mut rest = text;
    while let Some(at) = rest.find(|c| matches!(c, '\n' | '\r') || is_left_out(c)) {
        screen.write(&rest[..at]);
        rest = &rest[at..];
        let one = rest.chars().next().map_or(0, char::len_utf8);
        let short = || sequence_length(rest).filter(|length| *length <= MAX_SEQUENCE_BYTES);
        let length = string_length(rest).or_else(short).unwrap_or(one);
        screen.control(&rest[..length]);
        rest = &rest[length..];
    }
    screen.write(rest);
    Cow::Owned(screen.into_text())
}

/// Returns whether a character is removed: ESC, the bell, changes of the character set, and the
/// one-byte forms of the sequences that ESC begins.
fn is_left_out(c: char) -> bool {
    matches!(c, ESC | '\u{7}' | '\u{e}' | '\u{f}')
        || matches!(c, '\u{90}' | '\u{98}' | '\u{9b}'..='\u{9f}')
}

/// An output in the making. Of the lines that the cursor cannot reach any more only the text is left.
#[derive(Default)]
struct Screen {
    above: String,
    rows: VecDeque<Row>,
    /// The row of the cursor.
    at: usize,
    /// The cursor is at the beginning of its row.
    is_at_start: bool,
}

/// A line that may be written over.
#[derive(Default)]
struct Row {
    /// Earlier states of the line that the last one does not replace.
    states: String,
    text: String,
    /// The text written since the cursor went back to the beginning.
    over: Option<String>,
    /// `over` replaces `text`, whatever the two are.
    is_redrawn: bool,
}

impl Screen {
    fn write(&mut self, text: &str) {
        if !text.is_empty() {
            let row = &mut self.rows[self.at];
            row.over.as_mut().unwrap_or(&mut row.text).push_str(text);
            self.is_at_start = false;
        }
    }

    fn control(&mut self, control: &str) {
        match control {
            "\n" => return self.go_down(),
            "\r" => return self.go_to_start(),
            _ => {}
        }
        let body = control.strip_prefix("\u{1b}[");
        let body = body
            .or_else(|| control.strip_prefix('\u{9b}'))
            .unwrap_or("");
        let (number, kind) = body.split_at(body.len().saturating_sub(1));
        if number.is_empty() {
            self.move_cursor(kind, 0);
        } else if let Ok(number) = number.parse() {
            self.move_cursor(kind, number);
        }
    }

    /// Applies a sequence that moves the cursor or erases. Without a number it is 0.
    fn move_cursor(&mut self, kind: &str, number: usize) {
        let count = number.max(1);
        match kind {
            "A" => self.go_to(self.at.saturating_sub(count)),
            "B" => self.go_to(self.at.saturating_add(count)),
            "G" if count == 1 => self.go_to_start(),
            "D" if count >= TO_BEGINNING => self.go_to_start(),
            "K" => self.erase(number),
            "J" if number == 0 => {
                self.erase(0);
                self.rows.truncate(self.at + 1);
            }
            _ => {}
        }
    }

    fn go_down(&mut self) {
        self.rows[self.at].settle();
        if self.at + 1 == self.rows.len() {
            self.rows.push_back(Row::default());
        }
        if self.rows.len() > REACHED_LINES
            && let Some(first) = self.rows.pop_front()
        {
            self.above.push_str(&first.into_text());
            self.above.push('\n');
            self.at = self.at.saturating_sub(1);
        }
        self.is_at_start = true;
        self.go_to(self.at + 1);
    }

    fn go_to(&mut self, row: usize) {
        self.rows[self.at].settle();
        self.at = row.min(self.rows.len() - 1);
        if self.is_at_start {
            self.go_to_start();
        }
    }

    fn go_to_start(&mut self) {
        let is_above = self.at + 1 < self.rows.len();
        self.is_at_start = true;
        let row = &mut self.rows[self.at];
        row.settle();
        row.over = (!row.text.is_empty()).then(String::new);
        row.is_redrawn = is_above;
    }

    /// Erases the row to its end (0), to its beginning (1) or as a whole (2).
    fn erase(&mut self, part: usize) {
        let is_whole = self.is_at_start || part > 0;
        let row = &mut self.rows[self.at];
        row.is_redrawn = true;
        if is_whole {
            row.text.clear();
            row.over = None;
        }
    }

    fn into_text(self) -> String {
        let rows: Vec<String> = self.rows.into_iter().map(Row::into_text).collect();
        self.above + &rows.join("\n")
    }
}

impl Row {
    /// Puts the text that was written over the line in its place.
    fn settle(&mut self) {
        let Some(next) = self.over.take().filter(|next| !next.is_empty()) else {
            return;
        };
        let before = std::mem::replace(&mut self.text, next);
        if !self.is_redrawn && !is_written_over(&before, &self.text) {
            self.states.push_str(&without_backspaces(&before));
            self.states.push('\n');
        }
    }

    fn into_text(mut self) -> String {
        self.settle();
        self.states + &without_backspaces(&self.text)
    }
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

/// Returns whether a state of a line is overwritten by the next: a counter, a bar, a sign that turns,
/// or a line that blanks erase. Other texts between carriage returns are lines.
fn is_written_over(state: &str, next: &str) -> bool {
    let is_counted = state.contains(|c: char| c.is_ascii_digit());
    let has_words = state.contains(char::is_alphanumeric);
    let is_letter = |c: &char| c.is_alphanumeric();
    let has_same = || {
        state
            .chars()
            .filter(is_letter)
            .eq(next.chars().filter(is_letter))
    };
    let word = first_word(state);
    let is_erased = next.trim().is_empty() && next.len() >= state.chars().count();
    !has_words
        || is_erased
        || has_same()
        || (is_counted && (word.is_none() || word == first_word(next)))
}

/// Returns the letters of the first word. Letters right after a figure are a unit, which changes as
/// the figure grows.
fn first_word(text: &str) -> Option<&str> {
    let mut words = text.split(|c: char| !c.is_alphanumeric());
    let word = words.find(|word| word.starts_with(char::is_alphabetic))?;
    word.split(|c: char| !c.is_alphabetic()).next()
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

    /// Returns what a program printed that drew a thousand frames.
    fn frames(frame: impl Fn(usize) -> String) -> String {
        (1..=1_000).map(frame).collect()
    }

    #[test]
    fn a_thousand_frames_become_their_last_state() {
        let bar = |n: usize| format!("[{}{}]", "=".repeat(n / 50), " ".repeat(20 - n / 50));
        let cargo = frames(|n| {
            let built = if n % 100 == 0 {
                format!("   Compiling c{n} v1.0\n")
            } else {
                String::new()
            };
            format!(
                "\r\u{1b}[K{built}    \u{1b}[1;36mBuilding\u{1b}[0m {} {n}/1000: c{n}(bin)",
                bar(n)
            )
        });
        let compiled: String = (1..=10)
            .map(|n| format!("   Compiling c{}00 v1.0\n", n))
            .collect();
        let docker = frames(|n| {
            format!(
                "\u{1b}[2A\u{1b}[2K\r1f2e: Downloading {} {n}kB/1MB\u{1b}[1B\r\u{1b}[2K\ra3b4: Extracting {n}/1000\r\u{1b}[1B",
                bar(n)
            )
        });
        let buildkit = frames(|n| {
            let up = if n == 1 {
                ""
            } else {
                "\u{1b}[1A\u{1b}[1A\u{1b}[0G\u{1b}[?25l"
            };
            format!(
                "{up}[+] Building {n}.0s (3/10)\n => [2/9] RUN make {n}.1s\u{1b}[0m\n\u{1b}[?25h"
            )
        });
        let signs = ["|", "/", "-", "⠋", "⠙"];
        for (tool, printed, want) in [
            (
                "cargo",
                format!("{cargo}\r\u{1b}[K    Finished dev\n"),
                format!("{compiled}    Finished dev\n"),
            ),
            (
                "npm",
                frames(|n| {
                    format!(
                        "\u{1b}[1G\u{1b}[0K{} reify:c: http fetch GET 200 x{n}",
                        signs[n % 5]
                    )
                }) + "\u{1b}[1G\u{1b}[0Kadded 9 packages\n",
                "added 9 packages\n".to_string(),
            ),
            (
                "npm, a sign that turns",
                frames(|n| format!("\r{} Installing", signs[n % 5])) + "\n",
                "| Installing\n".to_string(),
            ),
            (
                "yarn",
                frames(|n| format!("\u{1b}[2K\u{1b}[1G[{n}/1000] fetching"))
                    + "\u{1b}[2K\u{1b}[1GDone in 1s.\n",
                "Done in 1s.\n".to_string(),
            ),
            (
                "pnpm",
                frames(|n| format!("Progress: resolved {n}\u{1b}[0K\n\u{1b}[1A")) + "\u{1b}[1B",
                "Progress: resolved 1000\n".to_string(),
            ),
            (
                "pip",
                frames(|n| {
                    format!(
                        "\r\u{1b}[2K   \u{1b}[32m━━━\u{1b}[0m {n}/1000 kB \u{1b}[31m5 MB/s\u{1b}[0m eta 0:00:01"
                    )
                }) + "\n",
                "   ━━━ 1000/1000 kB 5 MB/s eta 0:00:01\n".to_string(),
            ),
            (
                "an older pip",
                frames(|n| {
                    format!(
                        "\r     |{}| {n}kB {}",
                        bar(n),
                        if n < 9 { "9kB/s" } else { "1.1MB/s" }
                    )
                }) + "\n",
                format!("     |{}| 1000kB 1.1MB/s\n", bar(1000)),
            ),
            (
                "docker",
                format!("Using tag\n\n\n{docker}\u{1b}[1Bok\n"),
                format!(
                    "Using tag\n1f2e: Downloading {} 1000kB/1MB\na3b4: Extracting 1000/1000\nok\n",
                    bar(1000)
                ),
            ),
            (
                "buildkit",
                buildkit + "done\n",
                "[+] Building 1000.0s (3/10)\n => [2/9] RUN make 1000.1s\ndone\n".to_string(),
            ),
            (
                "wget",
                frames(|n| {
                    format!(
                        "\rf.iso  {}%{}  {n}K  --.-KB/s  eta {}s ",
                        n / 10,
                        bar(n),
                        1000 - n
                    )
                }) + "\n",
                format!("f.iso  100%{}  1000K  --.-KB/s  eta 0s \n", bar(1000)),
            ),
            (
                "curl",
                frames(|n| {
                    format!(
                        "\r{} 100M  {n}k    0     0   {}",
                        n / 10,
                        if n < 9 { "500k" } else { "2M" }
                    )
                }) + "\n",
                "100 100M  1000k    0     0   2M\n".to_string(),
            ),
            (
                "apt",
                frames(|n| format!("\r{}% [Working]\r              \rGet:1 x\n", n / 10))
                    .replace("Get:1 x\n", "")
                    + "\rok\n",
                "ok\n".to_string(),
            ),
            (
                "ink",
                frames(|n| {
                    let erase = if n == 1 {
                        ""
                    } else {
                        "\u{1b}[2K\u{1b}[1A\u{1b}[2K\u{1b}[1A\u{1b}[2K\u{1b}[G"
                    };
                    format!("{erase}one {n}\ntwo\n")
                }),
                "one 1000\ntwo\n".to_string(),
            ),
        ] {
            assert_eq!(plain_text(&printed), want, "{tool}");
            assert_eq!(plain_text(&want), want, "{tool}");
        }
    }

    #[test]
    fn a_cursor_takes_nothing_that_it_does_not_write_over() {
        let lines = "line\n".repeat(500);
        for (given, want) in [
            // Above all lines, and from one line into another.
            ("a\nb\u{1b}[9Ac\n".to_string(), "ac\nb".to_string()),
            ("a\u{1b}[5Bb".to_string(), "ab".to_string()),
            ("a\u{1b}[K\rb\n".to_string(), "a\nb\n".to_string()),
            ("a\r\u{1b}[K".to_string(), String::new()),
            // Lines that a terminal shows no more are out of reach.
            (format!("{lines}\u{1b}[999A\u{1b}[J"), "line\n".repeat(301)),
            (
                "words\u{1b}[2J\u{1b}[Hmore".to_string(),
                "wordsmore".to_string(),
            ),
            ("a\u{9b}".to_string(), "a".to_string()),
            (
                "a\u{1b}[99999999999999999999Ab".to_string(),
                "ab".to_string(),
            ),
        ] {
            assert_eq!(plain_text(&given), want, "{given:?}");
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
