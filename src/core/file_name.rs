//! File names as text on one line. A name may have any byte but NUL and `/`.
//!
//! A name with a line end, an escape or a byte that is not UTF-8 is quoted as git quotes it
//! (`core.quotePath` off): `"a\nb.txt"`, `"caf\351.txt"`. All other names stay as they are.

use std::borrow::Cow;

use super::visible::is_unseen;

/// Returns a name or path as text on one line, quoted if it needs to be.
pub fn path_text(name: &[u8]) -> String {
    let is_odd = |c: char| is_unseen(c) || matches!(c, '\n' | '\t');
    let mut chunks = name.utf8_chunks();
    let has_odd = chunks.any(|c| !c.invalid().is_empty() || c.valid().contains(is_odd));
    if !has_odd && !name.starts_with(b"\"") {
        return String::from_utf8_lossy(name).into_owned();
    }
    let mut out = String::from('"');
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                '"' | '\\' => out.extend(['\\', c]),
                c if is_odd(c) => push_octal(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => out.push(c),
            }
        }
        push_octal(&mut out, chunk.invalid());
    }
    out.push('"');
    out
}

fn push_octal(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        out.push_str(&format!("\\{byte:03o}"));
    }
}

/// Returns the bytes of a quoted name, or `None` if the text is not quoted.
pub fn unquote_name(text: &str) -> Option<Vec<u8>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut bytes = Vec::new();
    let mut rest = inner.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b'a') => bytes.push(7),
            Some(b'b') => bytes.push(8),
            Some(b'v') => bytes.push(11),
            Some(b'f') => bytes.push(12),
            Some(digit @ b'0'..=b'3') => {
                let mut value = digit - b'0';
                for _ in 0..2 {
                    let digit = rest.next_if(|b| (b'0'..=b'7').contains(b)).unwrap_or(b'0');
                    value = value << 3 | (digit - b'0');
                }
                bytes.push(value);
            }
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    Some(bytes)
}

/// Returns the path that a call names. Only the form of [`path_text`] is quoted: any other spelling
/// would hide the file from hooks and from the person who is asked.
pub fn named_path(text: &str) -> Cow<'_, [u8]> {
    match unquote_name(text).filter(|name| path_text(name) == text) {
        Some(name) => Cow::Owned(name),
        None => Cow::Borrowed(text.as_bytes()),
    }
}

/// Returns the path that a call names as text, in which bytes that are not UTF-8 are U+FFFD.
pub fn named_path_text(text: &str) -> Cow<'_, str> {
    match named_path(text) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(name) => Cow::Owned(String::from_utf8_lossy(&name).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn odd_names_are_quoted_as_git_quotes_them() {
        for (name, text) in [
            (&b"plain name.txt"[..], "plain name.txt"),
            (b"a\"b\\c", "a\"b\\c"),
            (b"\"x\"", "\"\\\"x\\\"\""),
            ("caf\u{e9}".as_bytes(), "caf\u{e9}"),
            (b"a\nb", "\"a\\nb\""),
            (b"caf\xe9.txt", "\"caf\\351.txt\""),
            (b"\x1b[31m\"\\", "\"\\033[31m\\\"\\\\\""),
            ("\u{202e}txt".as_bytes(), "\"\\342\\200\\256txt\""),
            ("\u{9b}1".as_bytes(), "\"\\302\\2331\""),
        ] {
            assert_eq!(path_text(name), text);
        }
        assert_eq!(unquote_name("plain"), None);
    }

    #[test]
    fn only_the_form_of_the_lists_is_a_quoted_path() {
        for (text, path) in [
            ("\"a\\nb\"", &b"a\nb"[..]),
            ("\"caf\\351\"", b"caf\xe9"),
            ("\"\\\"x\\\"\"", b"\"x\""),
            // Nothing in these names needs quotes.
            ("\"\\056env\"", b"\"\\056env\""),
            ("\"a\"", b"\"a\""),
            ("\"a\\012b\"", b"\"a\\012b\""),
        ] {
            assert_eq!(&*named_path(text), path, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_name_is_one_line_and_read_back(name in prop::collection::vec(1u8.., 0..40)) {
            let text = path_text(&name);
            prop_assert_eq!(text.lines().count().max(1), 1);
            prop_assert!(!text.chars().any(is_unseen));
            let is_quoted = text.starts_with('"');
            let read = if is_quoted { unquote_name(&text).unwrap() } else { text.as_bytes().to_vec() };
            prop_assert_eq!(read, name);
        }

        #[test]
        fn unquoting_takes_any_text(text in "\"[\\\\0-9a-z\"]{0,20}\"") {
            prop_assert!(unquote_name(&text).is_some());
        }
    }
}
