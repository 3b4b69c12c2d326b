//! Text: what is shown of it.

/// The first line with words in it, at most `max` characters.
pub fn one_line(text: &str, max: usize) -> String {
    let line = text
        .lines()
        .find(|l| !l.trim().is_empty())
        .unwrap_or("")
        .trim();
    line.chars().take(max).collect()
}
