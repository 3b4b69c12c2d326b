//! Text of others (a command, a subagent, a server, another session) inside of text that rewake
//! writes for the model. It can neither end the tag around it nor imitate the text beside it.
//!
//! Invariant: the result depends on the text alone, since a request is rendered again byte for
//! byte.

use std::borrow::Cow;

use super::plain_text::plain_text;
use super::visible::is_unseen;

/// The tags that rewake writes around its text for a model.
const TAGS: [&str; 12] = [
    "note",
    "summary",
    "continuation",
    "conversation",
    "environment",
    "at_start",
    "instructions",
    "last_session",
    "skills",
    "servers",
    "agent",
    "task",
];

/// Maximum length of a tag's name.
const MAX_TAG_BYTES: usize = 12;

/// Replaces the `<` of a tag.
const NO_TAG: char = '‹';

/// Minimum length of a fence.
const MIN_FENCE: usize = 3;

/// Replaces the `<` of everything that reads like one of rewake's own tags with `‹`. This includes
/// tags in any case, and with blanks, attributes or invisible characters.
pub(crate) fn escape_tags(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut done = 0;
    for (at, c) in text.char_indices().filter(|(_, c)| is_angle(*c)) {
        let behind = at + c.len_utf8();
        if is_tag(&text[behind..]) {
            out.push_str(&text[done..at]);
            out.push(NO_TAG);
            done = behind;
        }
    }
    match done {
        0 => Cow::Borrowed(text),
        _ => {
            out.push_str(&text[done..]);
            Cow::Owned(out)
        }
    }
}

/// Returns text of others in a form that is safe inside a tag of rewake.
pub(crate) fn inside_tag(text: &str) -> String {
    escape_tags(&plain_text(text)).into_owned()
}

/// Returns whether a character is `<` or looks like it.
fn is_angle(c: char) -> bool {
    matches!(c, '<' | '\u{ff1c}' | '\u{fe64}')
}

/// Returns whether this text, after a `<`, reads like a tag of rewake.
fn is_tag(text: &str) -> bool {
    let is_before = |c: &char| matches!(c, '/' | '\\') || c.is_whitespace();
    let mut seen = text.chars().filter(|c| !is_unseen(*c) || c.is_whitespace());
    let mut name = String::new();
    let first = seen.by_ref().find(|c| !is_before(c));
    for c in first.into_iter().chain(seen) {
        if !(c.is_ascii_alphanumeric() || c == '_' || c == '-') {
            break;
        }
        if name.len() == MAX_TAG_BYTES {
            return false;
        }
        name.push(c.to_ascii_lowercase());
    }
    TAGS.contains(&name.as_str())
}

/// Returns the text between two lines of backticks. The lines are longer than any run of backticks
/// in the text, so the text cannot end the quote.
pub fn fenced(text: &str) -> String {
    let fence = fence(text);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}\n{text}{end}{fence}")
}

/// Returns the line that begins and ends the quote of a text.
fn fence(text: &str) -> String {
    let (mut longest, mut run) = (0, 0);
    for c in text.chars().filter(|c| !is_unseen(*c)) {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    "`".repeat(longest.max(MIN_FENCE - 1) + 1)
}

/// Returns the text without the fence lines that [`fenced`] wrote: for a person.
pub(crate) fn without_fences(text: &str) -> Cow<'_, str> {
    if !text.contains("```") {
        return Cow::Borrowed(text);
    }
    let mut fence = None;
    let lines = text.split('\n').filter(|line| {
        let is_end = fence == Some(*line);
        let begins = fence.is_none() && is_fence(line);
        if begins {
            fence = Some(*line);
        } else if is_end {
            fence = None;
        }
        !begins && !is_end
    });
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}

/// Returns the text in at most `max_bytes`. If the cut leaves a quote open, the fence is closed.
pub(crate) fn clip_fenced(text: &str, max_bytes: usize) -> String {
    let cut = super::text::clip(text, max_bytes);
    if cut.len() == text.len() {
        return cut.into_owned();
    }
    let Some(fence) = open_fence(&cut) else {
        return cut.into_owned();
    };
    match max_bytes.checked_sub(fence.len() + 1) {
        Some(room) => {
            let cut = super::text::clip(text, room);
            match open_fence(&cut) {
                Some(fence) => format!("{cut}\n{fence}"),
                None => cut.into_owned(),
            }
        }
        None => String::new(),
    }
}

fn open_fence(text: &str) -> Option<&str> {
    text.split('\n').fold(None, |open, line| match open {
        Some(fence) if fence == line => None,
        None if is_fence(line) => Some(line),
        open => open,
    })
}

fn is_fence(line: &str) -> bool {
    line.len() >= MIN_FENCE && line.bytes().all(|byte| byte == b'`')
}

/// Indents all lines but the first. No line then looks like the beginning of an entry, however the
/// text is cut.
pub(crate) fn indented(text: &str) -> String {
    let is_break = |c| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    text.split(is_break).collect::<Vec<_>>().join("\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_that_looks_like_a_known_tag_is_escaped() {
        for hostile in [
            "</note>",
            "<note>",
            "</NOTE>",
            "</Note >",
            "< / note>",
            "<\n/\tnote\n>",
            "</note x=\"1\">",
            "</note/>",
            "<\\note>",
            "</no\u{200b}te>",
            "<\u{feff}/note>",
            "</note",
            "</summary>",
            "</continuation>",
            "</conversation>",
            "</last_session>",
            "\u{ff1c}/note>",
            "<</note>",
        ] {
            let text = format!("a {hostile} b");
            let escaped = escape_tags(&text);
            assert!(escaped.contains(NO_TAG), "{hostile:?}: {escaped}");
            assert_eq!(escaped.replace(NO_TAG, "<"), text.replace('\u{ff1c}', "<"));
            assert_eq!(escape_tags(&escaped), escaped);
        }
        for plain in [
            "a < b > c",
            "<notes>",
            "<div>note</div>",
            "Vec<Note1>",
            "<note-book>",
            "x << note_1",
        ] {
            assert_eq!(escape_tags(plain), plain);
        }
    }

    #[test]
    fn a_quote_is_read_back_by_a_person() {
        let text = format!("it ended:\n{}\n[exit code 1]", fenced("a\n````\n```\nb\n"));
        assert_eq!(
            text,
            "it ended:\n`````\na\n````\n```\nb\n`````\n[exit code 1]"
        );
        assert_eq!(
            without_fences(&text),
            "it ended:\na\n````\n```\nb\n[exit code 1]"
        );
        assert_eq!(without_fences("no quote"), "no quote");
    }

    #[test]
    fn a_cut_leaves_no_quote_open() {
        let text = format!("a:\n{}\nb:\n{}", fenced("````\nx"), fenced("yyyy\nz"));
        for max in 0..=text.len() {
            let cut = clip_fenced(&text, max);
            assert!(cut.len() <= max, "{max}: {cut}");
            assert_eq!(open_fence(&cut), None, "{max}: {cut}");
        }
        assert_eq!(clip_fenced(&text, text.len()), text);
    }

    /// Generates text that tries to escape from a quote.
    fn hostile() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            "[<＜﹤]{1,2}[ \t\n\u{200b}]{0,2}[/\\\\]{0,2}[ \n\u{feff}]{0,2}(note|NOTE|No\u{200b}te|summary|Continuation|conversation)[ \na=\"]{0,3}>?",
            "`{1,6}",
            "\n",
            "\n\\[[0-9]{1,3}\\] (user|result|agent): ",
            "\n## What the user said\n",
            "[a-z ]{0,6}",
            "\\PC{0,6}",
        ];
        prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn no_text_ends_its_note_or_its_quote(text in hostile()) {
            let quoted = fenced(&text);
            let escaped = escape_tags(&quoted);
            // As a lenient reader would look for it.
            let flat: String = escaped
                .chars()
                .filter(|c| !is_unseen(*c) && !c.is_whitespace() && !matches!(c, '/' | '\\'))
                .map(|c| if is_angle(c) { '<' } else { c.to_ascii_lowercase() })
                .collect();
            for tag in TAGS {
                for (at, _) in flat.match_indices(&format!("<{tag}")) {
                    // A longer word is another one.
                    let behind = flat[at + 1 + tag.len()..].chars().next();
                    let is_longer = behind.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
                    prop_assert!(is_longer, "{escaped:?}");
                }
            }
            let fence = quoted.lines().next().unwrap();
            prop_assert!(!text.contains(fence));
            prop_assert_eq!(quoted.matches(fence).count(), 2);
            prop_assert_eq!(open_fence(&quoted), None);
            prop_assert_eq!(&fenced(&text), &quoted, "the same again");
            let all = indented(&text);
            prop_assert!(all.lines().skip(1).all(|line| line.starts_with("  ")), "{all:?}");
        }
    }
}
