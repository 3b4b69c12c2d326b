//! The words that a person reads are those of the field: none of the project's own.

use super::sources;

/// The rooms whose texts a person reads.
const ROOMS: [&str; 5] = ["cli", "headless", "report", "session", "ui"];

/// Words of the sources and of older versions, and what a person reads in place of them.
const PRIVATE: [(&str, &str); 10] = [
    ("owed", "pending, left to do"),
    ("owes", "has to"),
    ("held", "in use, kept, protected"),
    ("woke", "resumed"),
    ("woken", "resumed"),
    ("other branch", "the session it was forked from"),
    ("bring in", "put back"),
    ("goes on with", "resumes"),
    ("go on with", "resume"),
    ("taken up", "resumed"),
];

#[test]
fn user_facing_text_contains_no_internal_terms() {
    let is_read = |path: &str| {
        let mut parts = path.split('/').skip(1);
        parts.next().is_some_and(|room| ROOMS.contains(&room)) && !path.contains("tests")
    };
    let mut found = Vec::new();
    for (path, text) in sources("src") {
        if !is_read(&path) {
            continue;
        }
        for literal in literals(&text) {
            let words = spaced(&without_arguments(&literal));
            let private = PRIVATE
                .iter()
                .find(|(word, _)| words.contains(&spaced(word)));
            found.extend(private.map(|(word, say)| format!("{path}: {literal:?}: {word} → {say}")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Its words in lower case, with one space around each.
fn spaced(text: &str) -> String {
    let words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    format!(" {} ", words.join(" "))
}

/// Without what stands in braces: names of the program's own.
fn without_arguments(text: &str) -> String {
    let mut depth = 0;
    let is_outside = |c: &char| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => return depth == 0,
        }
        false
    };
    text.chars().filter(is_outside).collect()
}

/// The texts in quotes, outside of comments and of the tests at a file's end.
fn literals(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (before, from) = rest.split_at(at);
        let is_raw = before.ends_with('r') || before.ends_with('#');
        rest = match from.as_bytes() {
            [b'/', b'/', ..] => from.split_once('\n').map_or("", |(_, rest)| rest),
            [b'\'', b'"', b'\'', ..] => &from[3..],
            [b'\'', b'\\', ..] => &from[3..],
            [b'"', ..] => {
                let (literal, behind) = quoted(&from[1..], is_raw);
                found.push(literal);
                behind
            }
            _ => &from[1..],
        };
    }
    found
}

/// A text up to the quote at its end, and what stands behind that.
fn quoted(text: &str, is_raw: bool) -> (String, &str) {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !is_escaped => return (text[..at].to_string(), &text[at + 1..]),
            '\\' if !is_raw => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    (text.to_string(), "")
}

#[test]
fn texts_are_told_from_comments_and_characters() {
    let source =
        "// \"a comment\"\nlet a = \"one \\\"two\\\"\"; let b = '\"'; f(r\"th\\\", \"four\")";
    assert_eq!(literals(source), ["one \\\"two\\\"", "th\\", "four"]);
    assert_eq!(
        spaced(&without_arguments("It is OWED, {held}!")),
        " it is owed "
    );
}
