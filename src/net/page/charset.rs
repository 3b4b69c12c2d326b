//! Decoding of a page: by its header, a byte order mark, its `<meta>`, or else as UTF-8.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Number of bytes in which a `<meta>` names the encoding.
const META_BYTES: usize = 1024;

/// Decodes a body. `content_type`: the value of its header. Invalid bytes become U+FFFD.
pub(super) fn decode(body: &[u8], content_type: &str) -> String {
    let named = charset(content_type).or_else(|| {
        let head = &body[..body.len().min(META_BYTES)];
        let meta = charset(&String::from_utf8_lossy(head))?;
        // A page whose `<meta>` can be read as ASCII is not in UTF-16.
        Some(if meta == UTF_16BE || meta == UTF_16LE {
            UTF_8
        } else {
            meta
        })
    });
    // A byte order mark overrides the name.
    named.unwrap_or(UTF_8).decode(body).0.into_owned()
}

/// Returns the encoding after `charset=`.
fn charset(text: &str) -> Option<&'static Encoding> {
    let text = text.to_ascii_lowercase();
    let (_, rest) = text.split_once("charset")?;
    let rest = rest.trim_start().strip_prefix('=')?;
    let rest = rest.trim_start().trim_start_matches(['"', '\'']);
    let mut labels = rest.split(|c: char| !(c.is_ascii_alphanumeric() || "-_:.".contains(c)));
    Encoding::for_label(labels.next()?.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_is_found_in_this_order() {
        let (sjis, ..) = encoding_rs::SHIFT_JIS.encode("日本");
        assert_eq!(decode(&sjis, "text/html; charset=\"Shift_JIS\""), "日本");
        let page = [b"<meta charset='shift_jis'>", &sjis[..]].concat();
        assert!(decode(&page, "text/html").ends_with("日本"));
        // The header overrides the page, and a byte order mark both.
        let page = ["<meta charset=shift_jis>".as_bytes(), "é".as_bytes()].concat();
        assert!(decode(&page, "text/html;charset=utf-8").ends_with('é'));
        assert_eq!(
            decode(b"\xef\xbb\xbf\xc3\xa9", "text/html;charset=latin1"),
            "é"
        );
        assert_eq!(decode(b"\xc3\xa9", "text/html"), "é");
        assert_eq!(decode(b"a\xff", "text/plain; charset=none"), "a\u{fffd}");
        assert_eq!(decode(b"\xe9", "text/plain; charset=latin1"), "é");
    }
}
