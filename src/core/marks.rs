//! Text without Markdown's marks, for titles and other single lines: `# Done` is read as `Done`.
//!
//! A mark is removed only where it is certainly one: `*.rs`, `__init__` and `a * b` stay as they
//! are, and the text between backticks stays unchanged.

use super::text::one_line;

/// Bytes of the text that are read for each character of the resulting line.
const BYTES_PER_CHAR: usize = 16;
const LEAST_BYTES: usize = 1_024;

/// Maximum length of a title that a person gives.
pub const MAX_TITLE_CHARS: usize = 200;

/// Cuts a title that a person gives to [`MAX_TITLE_CHARS`].
pub fn cut_title(title: &str) -> String {
    match title.char_indices().nth(MAX_TITLE_CHARS) {
        None => title.to_string(),
        Some(_) => {
            let start: String = title.chars().take(MAX_TITLE_CHARS - 1).collect();
            format!("{}…", start.trim_end())
        }
    }
}

/// Returns the first line with text, without Markdown's marks and with single spaces: for titles,
/// and for the first words of a message. Text that is only marks stays as it is.
pub fn title_line(text: &str, max_chars: usize) -> String {
    let most = max_chars.saturating_mul(BYTES_PER_CHAR).max(LEAST_BYTES);
    let start = super::text::clip(text.trim_start(), most);
    let words = without_marks(&start);
    if words.trim().is_empty() {
        one_line(text, max_chars)
    } else {
        one_line(&words, max_chars)
    }
}

/// Removes Markdown's marks from the lines of a text. Lines that are only marks (fences, rules) are
/// left out.
pub fn without_marks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let line = without_block_marks(line);
        if is_only_marks(line) {
            continue;
        }
        inline(line, &mut out);
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

/// Removes the marks of headings, quotes, bullets and tasks. Numbers stay, since they are meant to
/// be read.
fn without_block_marks(line: &str) -> &str {
    let mut rest = line.trim();
    loop {
        let marked = rest.trim_start_matches('#');
        let level = rest.len() - marked.len();
        let stripped = match level {
            1..=6 if marked.is_empty() || marked.starts_with(' ') => Some(marked),
            _ => rest.strip_prefix("> ").or_else(|| item(rest)),
        };
        match stripped {
            Some(stripped) => rest = stripped.trim_start(),
            None => return rest,
        }
    }
}

/// Returns the text after a bullet and after the box of a task.
fn item(line: &str) -> Option<&str> {
    let bullets = ["- ", "* ", "+ "];
    let words = bullets.iter().find_map(|mark| line.strip_prefix(mark))?;
    let words = words.trim_start();
    let boxes = ["[ ] ", "[x] ", "[X] "];
    let behind = boxes.iter().find_map(|mark| words.strip_prefix(mark));
    Some(behind.unwrap_or(words))
}

/// Returns whether a line is a fence, a rule, the underline of a heading, or the line between the
/// head and the rows of a table.
fn is_only_marks(line: &str) -> bool {
    let is_fence = line.starts_with("```") || line.starts_with("~~~");
    let is_rule = line.len() >= 3 && line.chars().all(|c| "-=*_|: ".contains(c));
    is_fence || is_rule || matches!(line, "" | ">" | "-" | "*" | "+" | "|")
}

fn inline(line: &str, out: &mut String) {
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let found = match c {
            '`' => code(rest),
            '\\' => escaped(rest),
            '[' => link(rest),
            '!' => rest.strip_prefix('!').and_then(link),
            '*' | '~' => emphasised(rest, out),
            _ => None,
        };
        match found {
            // The text inside of emphasis and links may contain marks.
            Some((inner, behind)) => {
                match c {
                    '`' | '\\' => out.push_str(inner),
                    _ => inline(inner, out),
                }
                rest = behind;
            }
            None => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
}

/// Splits `code`, between as many backticks on both sides, from the text after it.
fn code(rest: &str) -> Option<(&str, &str)> {
    let inner = rest.trim_start_matches('`');
    let marks = rest.len() - inner.len();
    let mut from = 0;
    while let Some(at) = inner.get(from..)?.find('`').map(|at| from + at) {
        let behind = inner[at..].trim_start_matches('`');
        if inner.len() - at - behind.len() == marks {
            return Some((inner[..at].trim(), behind));
        }
        from = inner.len() - behind.len();
    }
    None
}

/// Splits the mark of `\*` from the text after it.
fn escaped(rest: &str) -> Option<(&str, &str)> {
    let behind = rest.strip_prefix('\\')?;
    let is_mark = behind.starts_with(['*', '_', '`', '#', '[', ']', '~', '\\']);
    is_mark.then(|| behind.split_at(1))
}

/// Splits the text of `[text](address)` from the text after it.
fn link(rest: &str) -> Option<(&str, &str)> {
    let (text, behind) = rest.strip_prefix('[')?.split_once("](")?;
    let (address, behind) = behind.split_once(')')?;
    let is_link = !text.is_empty() && !text.contains(['[', ']']) && !address.contains(' ');
    is_link.then_some((text, behind))
}

/// Splits the text of `*so*`, `**so**`, `***so***` or `~~so~~` from the text after it. A mark
/// inside of a word does not count. `before` is the text before the mark.
fn emphasised<'a>(rest: &'a str, before: &str) -> Option<(&'a str, &'a str)> {
    let c = rest.chars().next()?;
    let inner = rest.trim_start_matches(c);
    let marks = rest.len() - inner.len();
    let can_be = match c {
        '~' => marks == 2,
        _ => marks <= 3,
    };
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    if !can_be || inner.starts_with(char::is_whitespace) || is_word(before.chars().next_back()) {
        return None;
    }
    let mark = &rest[..marks];
    let mut from = 0;
    while let Some(at) = inner.get(from..)?.find(mark).map(|at| from + at) {
        let behind = &inner[at + marks..];
        let ends = !inner[..at].ends_with(char::is_whitespace)
            && !inner[..at].is_empty()
            && !behind.starts_with(c)
            && !is_word(behind.chars().next());
        // `*.rs and *.toml`: the second one begins something.
        let begins = inner[..at].ends_with(char::is_whitespace);
        match (ends, begins) {
            (true, _) => return Some((&inner[..at], behind)),
            (false, true) => return None,
            (false, false) => from = inner.len() - behind.trim_start_matches(c).len(),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(title_line(text, 80), want, "{text:?}");
    }

    #[test]
    fn marks_are_no_part_of_a_title() {
        check("# Done", "Done");
        check("### **Done**: `total()` rounds", "Done: total() rounds");
        check("> - [x] *mended*", "mended");
        check("---\n```sh\nmake", "make");
        check("Title\n=====\ntext", "Title");
        check(
            "see [the page](https://a.b/c) and ![it](x.png)",
            "see the page and it",
        );
        check("***all*** of **it** ~~gone~~", "all of it gone");
        check("a \\*star\\* and \\_", "a *star* and _");
        check("``a ` b`` c", "a ` b c");
    }

    #[test]
    fn characters_that_are_not_markdown_are_kept() {
        for text in [
            "rm *.rs and *.toml",
            "a * b * c",
            "2*3*4 = 24",
            "__init__.py and snake_case_name",
            "#12 is open",
            "a `b",
            "**not closed",
            "[x] and (y)",
            "fix a[0](b c)",
            "~/src and ~user",
            "--yolo",
            "1. first",
            "C:\\temp",
            "***",
            "#",
        ] {
            check(text, text);
        }
        check("`rm *.rs` and `**`", "rm *.rs and **");
    }

    #[test]
    fn a_long_title_is_cut_to_its_limit() {
        assert_eq!(cut_title("short"), "short");
        let cut = cut_title(&"ä".repeat(10_000));
        assert_eq!(cut.chars().count(), MAX_TITLE_CHARS);
        assert!(cut.ends_with("ä…"));
        assert_eq!(cut_title(&cut), cut);
    }

    #[test]
    fn a_long_text_is_cut() {
        check(
            &format!("# {}", "x".repeat(9_000)),
            &format!("{}…", "x".repeat(79)),
        );
        let many = "*a ".repeat(300_000);
        assert_eq!(title_line(&many, 8), "*a *a *…");
        assert_eq!(title_line(&"[".repeat(300_000), 4), "[[[…");
    }
}
