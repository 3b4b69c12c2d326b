//! The front matter of a Markdown file: lines `key: value` between two lines `---`.
//!
//! Deliberately absent: YAML. Callers read the values of their keys as texts; all other keys are
//! ignored.

use super::visible::visible;

pub(super) const FENCE: &str = "---";

/// Returns the lines between the fences, and the text after them.
pub(super) fn front_matter(text: &str) -> Result<(Vec<&str>, &str), String> {
    let mut rest = text.trim_start_matches('\u{feff}');
    let mut line = || {
        let (line, behind) = rest.split_once('\n').unwrap_or((rest, ""));
        let is_there = !rest.is_empty();
        rest = behind;
        (is_there.then(|| line.trim_end_matches('\r')), behind)
    };
    if line().0.map(str::trim_end) != Some(FENCE) {
        return Err(format!("it does not begin with a line `{FENCE}`"));
    }
    let mut front = Vec::new();
    loop {
        match line() {
            (Some(fence), body) if fence.trim_end() == FENCE => return Ok((front, body)),
            (Some(line), _) => front.push(line),
            (None, _) => return Err(format!("its front matter has no closing line `{FENCE}`")),
        }
    }
}

/// The value of a key: the rest of its line, and the indented lines below it.
pub(super) struct Value<'a> {
    first: &'a str,
    below: Vec<&'a str>,
}

pub(super) fn pairs<'a>(lines: Vec<&'a str>) -> Vec<(&'a str, Value<'a>)> {
    let mut pairs: Vec<(&str, Value<'_>)> = Vec::new();
    for line in lines {
        let is_below = line.starts_with([' ', '\t']) || line.trim().is_empty();
        match (is_below, line.split_once(':')) {
            (true, _) => {
                if let Some((_, value)) = pairs.last_mut() {
                    value.below.push(line);
                }
            }
            (false, Some((key, first))) => {
                let first = first.trim();
                let below = Vec::new();
                pairs.push((key.trim(), Value { first, below }));
            }
            // A comment, or a line that is not a mapping.
            (false, None) => {}
        }
    }
    pairs
}

impl Value<'_> {
    /// Like [`Value::text`], but a value in brackets is taken as text: `[file] [line]`.
    pub(super) fn text_or_list(&self) -> Result<String, String> {
        if self.first.starts_with(['[', '{']) {
            Ok(plain(self.first))
        } else {
            self.text()
        }
    }

    pub(super) fn text(&self) -> Result<String, String> {
        match self.first.chars().next() {
            Some('|' | '>') => Ok(self.below_joined()),
            Some('"') => double_quoted(&self.joined()),
            Some('\'') => single_quoted(&self.joined()),
            Some('[' | '{' | '&' | '*' | '!' | '%' | '@' | '`') => Err("is not a text".to_string()),
            Some('#') => Ok(self.below_joined()),
            None | Some(_) => Ok(plain(&self.joined())),
        }
    }

    /// Joins the lines with spaces, since the value is shown on one line.
    fn joined(&self) -> String {
        format!("{} {}", self.first, self.below_joined())
    }

    fn below_joined(&self) -> String {
        let lines: Vec<&str> = self.below.iter().map(|line| line.trim()).collect();
        lines.join(" ")
    }
}

/// Returns an unquoted value without its comment.
fn plain(text: &str) -> String {
    let end = text.find(" #").unwrap_or(text.len());
    text[..end].trim().to_string()
}

fn single_quoted(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = text.chars().skip(1).peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' if chars.peek() == Some(&'\'') => {
                chars.next();
                out.push('\'');
            }
            '\'' => return Ok(out),
            c => out.push(c),
        }
    }
    Err(unclosed())
}

fn double_quoted(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = text.chars().skip(1);
    while let Some(c) = chars.next() {
        match c {
            '"' => return Ok(out),
            '\\' => out.push(escaped(&mut chars)?),
            c => out.push(c),
        }
    }
    Err(unclosed())
}

fn unclosed() -> String {
    "has no closing quote".to_string()
}

/// Decodes the common escapes (YAML 1.2, 5.7).
fn escaped(chars: &mut impl Iterator<Item = char>) -> Result<char, String> {
    let digits = match chars.next() {
        Some('n' | 'r' | 't' | ' ') => return Ok(' '),
        Some(c @ ('"' | '\\' | '/')) => return Ok(c),
        Some('x') => 2,
        Some('u') => 4,
        Some('U') => 8,
        _ => return Err("has an escape that is not known".to_string()),
    };
    let code: String = chars.take(digits).collect();
    u32::from_str_radix(&code, 16)
        .ok()
        .and_then(char::from_u32)
        .ok_or_else(|| "has an escape that is not a character".to_string())
}

/// Returns the text on one line, with invisible characters marked.
pub(super) fn in_a_line(text: &str) -> String {
    let clean = visible(text);
    clean.split_whitespace().collect::<Vec<_>>().join(" ")
}
