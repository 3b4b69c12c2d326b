//! The kind of a line: whether it asks for an answer, or is one. The keeper reads nothing else of
//! the lines that pass through it.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// Maximum length of a line in both directions.
pub const LINE_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Bytes at the beginning and at the end of a line that is too long which are examined.
const ENDS_BYTES: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LineKind {
    /// A request for an answer with this ID.
    Request(String),
    /// An answer to the request with this ID.
    Answer(String),
    /// A notification, a message with an ID that rewake never uses, or a line that is not a
    /// message.
    Other,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Id {
    Text(String),
    Other(IgnoredAny),
}

#[derive(Deserialize)]
struct Head {
    id: Option<Id>,
    method: Option<IgnoredAny>,
}

impl LineKind {
    pub(super) fn of(line: &[u8]) -> LineKind {
        match serde_json::from_slice(line) {
            Ok(Head {
                id: Some(Id::Text(id)),
                method,
            }) => match method {
                Some(_) => LineKind::Request(id),
                None => LineKind::Answer(id),
            },
            Ok(_) | Err(_) => LineKind::Other,
        }
    }
}

#[derive(Deserialize)]
struct Notification<'a> {
    id: Option<IgnoredAny>,
    #[serde(borrow)]
    method: Cow<'a, str>,
}

/// Returns whether a line is the notification of this name.
pub(super) fn is_notification(line: &[u8], method: &str) -> bool {
    let read: Result<Notification<'_>, _> = serde_json::from_slice(line);
    read.is_ok_and(|read| read.id.is_none() && read.method == method)
}

/// A buffer for the bytes of an incomplete line. A line over the limit is not stored, but for its
/// ends.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    line: Vec<u8>,
    /// Length of a line that is too long, and the last bytes so far.
    too_long: Option<(u64, Vec<u8>)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum SplitLine {
    Line(Vec<u8>),
    TooLong { bytes: u64, ends: Vec<u8> },
}

impl LineBuffer {
    /// Takes bytes up to the end of a line. Returns their number, and the line if it is complete.
    pub(super) fn take(&mut self, bytes: &[u8]) -> (usize, Option<SplitLine>) {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = &bytes[..end.unwrap_or(bytes.len())];
        match &mut self.too_long {
            Some((length, last)) => {
                *length += part.len() as u64;
                last.extend_from_slice(part);
                let surplus = last.len().saturating_sub(ENDS_BYTES);
                last.drain(..surplus);
            }
            None if self.line.len() + part.len() > LINE_MAX_BYTES => {
                let length = (self.line.len() + part.len()) as u64;
                self.line.truncate(ENDS_BYTES);
                self.line.shrink_to_fit();
                let last = &part[part.len().saturating_sub(ENDS_BYTES)..];
                self.too_long = Some((length, last.to_vec()));
            }
            None => self.line.extend_from_slice(part),
        }
        match end {
            None => (bytes.len(), None),
            Some(end) => (end + 1, Some(self.cut())),
        }
    }

    fn cut(&mut self) -> SplitLine {
        let line = std::mem::take(&mut self.line);
        match self.too_long.take() {
            None => SplitLine::Line(line),
            Some((bytes, last)) => SplitLine::TooLong {
                bytes,
                ends: [line, last].concat(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_text_id_is_one_of_ours() {
        let kind = |line: &str| LineKind::of(line.as_bytes());
        let id = || "a_1".to_string();
        assert_eq!(
            kind(r#"{"id":"a_1","method":"x"}"#),
            LineKind::Request(id())
        );
        assert_eq!(kind(r#"{"result":{},"id":"a_1"}"#), LineKind::Answer(id()));
        for other in [
            r#"{"method":"note"}"#,
            r#"{"id":7,"result":1}"#,
            r#"{"id":null,"error":{}}"#,
            r#"{"id":"a","id":"b","result":1}"#,
            r#"[{"id":"a","result":1}]"#,
            r#"{"id":"a","result":1"#,
            "Server ready on stdio",
            "",
        ] {
            assert_eq!(kind(other), LineKind::Other, "{other}");
        }
        assert_eq!(
            LineKind::of(b"{\"id\":\"a_1\",\"result\":\"\xff\"}"),
            LineKind::Answer(id())
        );
    }

    #[test]
    fn a_notification_is_known_by_its_name_alone() {
        let is = |line: &str| is_notification(line.as_bytes(), "a/b");
        assert!(is(r#"{"jsonrpc":"2.0","method":"a/b"}"#));
        assert!(is(r#"{"method":"a\u002fb","params":{"_meta":{}}}"#));
        for other in [
            r#"{"method":"a"}"#,
            r#"{"method":"a/b","id":7}"#,
            r#"{"method":7}"#,
            r#"["a/b"]"#,
            "a/b",
        ] {
            assert!(!is(other), "{other}");
        }
    }

    #[test]
    fn lines_are_cut_where_they_end_however_they_come() {
        let text = b"one\n\ntwo three\nhalf";
        for step in 1..text.len() {
            let (mut buffer, mut lines) = (LineBuffer::default(), Vec::new());
            for mut chunk in text.chunks(step) {
                while !chunk.is_empty() {
                    let (taken, cut) = buffer.take(chunk);
                    chunk = &chunk[taken..];
                    lines.extend(cut);
                }
            }
            let want = ["one", "", "two three"].map(|l| SplitLine::Line(l.into()));
            assert_eq!(lines, want, "in steps of {step}");
        }
    }

    #[test]
    fn only_the_ends_of_a_line_that_is_too_long_are_kept() {
        let mut buffer = LineBuffer::default();
        let chunk = [b'x'; 65_536];
        buffer.take(b"head");
        let mut sent = 4;
        while sent <= 3 * LINE_MAX_BYTES {
            assert_eq!(buffer.take(&chunk), (chunk.len(), None));
            sent += chunk.len();
            assert!(buffer.line.len() <= LINE_MAX_BYTES);
        }
        let (_, cut) = buffer.take(b"tail\nnext");
        let Some(SplitLine::TooLong { bytes, ends }) = cut else {
            panic!("{cut:?}")
        };
        assert_eq!(bytes, sent as u64 + 4);
        assert!(ends.starts_with(b"head") && ends.ends_with(b"tail"));
        assert!(ends.len() <= 2 * ENDS_BYTES);
        assert_eq!(buffer.take(b"\n").1, Some(SplitLine::Line(vec![])));
    }
}
