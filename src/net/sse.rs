//! Server-sent events, from bytes.
//!
//! The format is the one of <https://html.spec.whatwg.org/multipage/server-sent-events.html>:
//! lines end with LF, CR or CRLF, an empty line ends an event, and one that the stream ends
//! in the middle of is dropped. That an answer is whole must be read from the protocol's own
//! end event, never from the end of the stream.
//!
//! Invariant: no socket and no clock; the same bytes give the same events however they are
//! cut.

use std::time::Duration;

use crate::core::entry::{Failure, FailureClass};
use crate::core::text::size_text;

/// Maximum size of one event.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// Maximum length of an event's ID, which is sent back in a header. Longer ones are ignored.
const MAX_ID_BYTES: usize = 4096;

/// One server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Empty when the event has no name.
    pub event: String,
    /// The `data` lines, joined by LF. Bad UTF-8 is replaced.
    pub data: String,
}

/// A parser for the bytes of a stream, however they are cut into chunks.
#[derive(Debug, Default)]
pub struct Parser {
    /// Incomplete line at the end of the last chunk.
    line: Vec<u8>,
    name: Vec<u8>,
    /// `None` until there is a `data` line: an event without one is ignored.
    data: Option<Vec<u8>>,
    /// The last byte was a CR. A following LF belongs to it.
    after_cr: bool,
    /// The first line may begin with a byte order mark.
    begun: bool,
    /// `id` of the current event.
    id: Option<String>,
    last_id: Option<String>,
    retry: Option<Duration>,
}

impl Parser {
    /// Creates a parser for the start of a stream.
    pub fn new() -> Parser {
        Parser::default()
    }

    /// Returns the `id` of the last complete event, after which the stream can be resumed.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Returns the pause that the server wants before the stream is resumed.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Returns the events that end in this chunk.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<Vec<Event>, Failure> {
        let mut events = Vec::new();
        let mut rest = chunk;
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = rest.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            let (line, tail) = rest.split_at(end);
            self.check(line.len())?;
            events.extend(self.take_line(line));
            rest = match tail {
                [b'\r', b'\n', rest @ ..] => rest,
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [_, rest @ ..] => rest,
                [] => &[],
            };
        }
        self.check(rest.len())?;
        self.line.extend_from_slice(rest);
        Ok(events)
    }

    fn check(&self, more: usize) -> Result<(), Failure> {
        let data = self.data.as_ref().map_or(0, Vec::len);
        if self.line.len() + data + more <= MAX_EVENT_BYTES {
            return Ok(());
        }
        Err(Failure::new(
            FailureClass::Protocol,
            format!(
                "reading the answer: one event has more than {}",
                size_text(MAX_EVENT_BYTES as u64)
            ),
        ))
    }

    /// Completes a line. `end` is the line, or the rest of one that began in an earlier chunk.
    fn take_line(&mut self, end: &[u8]) -> Option<Event> {
        if self.line.is_empty() {
            return self.field(end);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(end);
        self.field(&line)
    }

    fn field(&mut self, line: &[u8]) -> Option<Event> {
        let line = if std::mem::replace(&mut self.begun, true) {
            line
        } else {
            line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line)
        };
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = match line.iter().position(|b| *b == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => self.name = value.to_vec(),
            b"data" => match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            },
            b"id" if value.len() <= MAX_ID_BYTES && !value.contains(&0) => {
                self.id = Some(text(value.to_vec()));
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let ms = std::str::from_utf8(value)
                    .ok()
                    .and_then(|ms| ms.parse().ok());
                self.retry = ms.map(Duration::from_millis).or(self.retry);
            }
            // A comment has an empty field name.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<Event> {
        let name = std::mem::take(&mut self.name);
        if let Some(id) = self.id.take() {
            self.last_id = Some(id).filter(|id| !id.is_empty());
        }
        let data = self.data.take()?;
        Some(Event {
            event: text(name),
            data: text(data),
        })
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut parser = Parser::new();
        let mut events = Vec::new();
        for chunk in chunks {
            events.extend(parser.feed(chunk).unwrap());
        }
        events.into_iter().map(|e| (e.event, e.data)).collect()
    }

    fn check(stream: &[u8], expect: &[(&str, &str)]) {
        let want: Vec<(String, String)> = expect
            .iter()
            .map(|(e, d)| (e.to_string(), d.to_string()))
            .collect();
        assert_eq!(parse(&[stream]), want, "in one chunk");
        for at in 0..=stream.len() {
            let (a, b) = stream.split_at(at);
            assert_eq!(parse(&[a, b]), want, "split at {at}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(parse(&bytes), want, "byte by byte");
    }

    #[test]
    fn the_format_is_understood_at_every_split_point() {
        check(b"data: a\n\n", &[("", "a")]);
        check(b"\xEF\xBB\xBFdata: a\n\n", &[("", "a")]);
        check(b"event: x\r\ndata:a\r\n\r\n", &[("x", "a")]);
        check(b"data: a\r\rdata: b\r\r", &[("", "a"), ("", "b")]);
        check(b": comment\n\ndata:  two\n\n", &[("", " two")]);
        check(b"data: a\ndata: b\ndata\n\n", &[("", "a\nb\n")]);
        check(b"data\n\n", &[("", "")]);
        check(b"event: x\n\ndata: a\n\n", &[("", "a")]);
        check(b"id: 1\nretry: 5\nfoo: bar\ndata: a\n\n", &[("", "a")]);
        check(b"data: \xff\xc3\xa9\n\n", &[("", "\u{fffd}é")]);
        check("data: äöü 漢字 🦀\n\n".as_bytes(), &[("", "äöü 漢字 🦀")]);
    }

    #[test]
    fn a_stream_says_where_and_when_it_can_be_taken_up_again() {
        let mut parser = Parser::new();
        let mut fed = |bytes: &str| {
            parser.feed(bytes.as_bytes()).unwrap();
            let retry = parser.retry().map(|r| r.as_millis());
            (parser.last_id().map(str::to_string), retry)
        };
        let some = |id: &str| Some(id.to_string());
        assert_eq!(fed("id: 7\nretry: 500\nda"), (None, Some(500)));
        assert_eq!(fed("ta: \n\n"), (some("7"), Some(500)));
        assert_eq!(fed("data: a\n\nretry: soon\n\n"), (some("7"), Some(500)));
        assert_eq!(fed("id: a\u{0}b\ndata: x\n\n"), (some("7"), Some(500)));
        assert_eq!(
            fed("id: 8\n\nretry: 99999999999999999999999\n\n"),
            (some("8"), Some(500))
        );
        assert_eq!(fed("id: cut"), (some("8"), Some(500)));
        assert_eq!(fed("\nid\n\n"), (None, Some(500)));
    }

    #[test]
    fn an_event_that_is_not_ended_is_none() {
        check(b"data: a\n\ndata: b\n", &[("", "a")]);
        check(b"data: a", &[]);
        check(b"", &[]);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = Parser::new();
        let chunk = vec![b'x'; 1024 * 1024];
        let failed = (0..20).find_map(|_| parser.feed(&chunk).err()).unwrap();
        assert_eq!(failed.class, FailureClass::Protocol);

        let mut parser = Parser::new();
        let mut lines = b"data: ".to_vec();
        lines.extend(std::iter::repeat_n(b'x', 1024 * 1024));
        lines.push(b'\n');
        assert!((0..20).any(|_| parser.feed(&lines).is_err()));
    }

    /// The bytes that wait for more.
    fn kept(parser: &Parser) -> usize {
        let data = parser.data.as_ref().map_or(0, Vec::len);
        parser.line.len() + parser.name.len() + data
    }

    #[test]
    fn a_stream_without_end_takes_no_more_memory_than_one_event() {
        let line = "x".repeat(1000);
        let name = format!("event: {line}\n");
        let comment = format!(": {line}\r\n");
        let unknown = format!("{line}\r");
        let data = format!("data: {line}\n");
        let event = format!("data: {line}\n\n");
        let endless = [&name, &comment, &unknown, &data, &event, &line, "data\n"];
        for (text, is_refused) in endless.iter().zip([0, 0, 0, 1, 0, 1, 1]) {
            let mut parser = Parser::new();
            let chunk = text.repeat((1024 * 1024) / text.len()).into_bytes();
            let fed = (0..96).find_map(|_| {
                let refused = parser.feed(&chunk).is_err();
                assert!(kept(&parser) <= MAX_EVENT_BYTES + text.len(), "{text:.9}");
                refused.then_some(1)
            });
            assert_eq!(fed.unwrap_or(0), is_refused, "{text:.9}");
        }
    }

    /// Quadratic work would take minutes here.
    #[test]
    fn work_grows_with_the_bytes_only() {
        let mut line = b"data: ".to_vec();
        line.extend(std::iter::repeat_n(b'x', 8 * 1024 * 1024));
        line.extend_from_slice(b"\n\n");
        let chunks: Vec<&[u8]> = line.chunks(16 * 1024).collect();
        assert_eq!(parse(&chunks)[0].1.len(), 8 * 1024 * 1024);

        let many = b"data: {\"delta\":\"a few words of text\"}\n\n".repeat(20_000);
        assert_eq!(parse(&[&many]).len(), 20_000);
    }

    /// The definition, line by line, on the whole stream.
    fn oracle(stream: &[u8]) -> Vec<(String, String)> {
        let text = String::from_utf8_lossy(stream).replace("\r\n", "\n");
        let text = text.replace('\r', "\n");
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let (mut events, mut name, mut data) = (Vec::new(), String::new(), None::<String>);
        let ended = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in ended.split('\n').filter(|_| text.contains('\n')) {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                _ if line.is_empty() => {
                    let name = std::mem::take(&mut name);
                    events.extend(data.take().map(|d| (name, d)));
                }
                "event" => name = value.to_string(),
                "data" => {
                    data = Some(match data {
                        Some(d) => d + "\n" + value,
                        None => value.to_string(),
                    });
                }
                _ => {}
            }
        }
        events
    }

    proptest! {
        #[test]
        fn any_stream_is_read_as_defined_however_it_is_cut(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "data", "event", ":", " ", "\n", "\r", "\r\n", "\n\n", "é", "x", "id", "\u{feff}",
                "data: a\n\n",
            ]), 0..60),
            cuts in prop::collection::vec(1..9usize, 1..20),
        ) {
            let stream = pieces.concat().into_bytes();
            let mut chunks = Vec::new();
            let mut rest = &stream[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (chunk, tail) = rest.split_at((*cut).min(rest.len()));
                chunks.push(chunk);
                rest = tail;
            }
            prop_assert_eq!(parse(&chunks), oracle(&stream));
        }

        #[test]
        fn any_bytes_give_the_same_events_however_they_are_cut(
            pieces in prop::collection::vec(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..20),
                prop::sample::select(vec![
                    &b"data: a\n"[..], b"event: x\r\n", b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf", b"\xef", b"\xf0\x9f",
                ]).prop_map(<[u8]>::to_vec),
            ], 0..40),
            cuts in prop::collection::vec(0..9usize, 0..60),
        ) {
            let stream = pieces.concat();
            let mut parser = Parser::new();
            let (mut events, mut rest) = (Vec::new(), &stream[..]);
            for cut in cuts {
                let (chunk, tail) = rest.split_at(cut.min(rest.len()));
                events.extend(parser.feed(chunk).unwrap());
                prop_assert!(kept(&parser) <= stream.len() - tail.len());
                rest = tail;
            }
            events.extend(parser.feed(rest).unwrap());
            let events: Vec<_> = events.into_iter().map(|e| (e.event, e.data)).collect();
            prop_assert_eq!(events, parse(&[&stream]));
        }
    }
}
