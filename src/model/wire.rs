//! The common part of all protocols, and the one place that knows all of them.
//!
//! A protocol is a file with `body` (Request -> JSON) and `Decoder` (events -> deltas and one
//! [`Reply`]). None of them knows of sockets, keys or time. This file provides the URL of a request, and [`super::http`] sends it.
//!
//! Invariant: `Decoder::finish` gives an answer only if the server said why it ended. A stream
//! that was cut is never an answer.

use reqwest::Url;
use serde_json::Value;

use super::halves::Halves;
use super::list::MessageCache;
use super::target::{Blobs, Target};
use super::{Delta, Reply, anthropic, gemini, openai_chat, openai_responses};
pub use crate::config::Protocol;
use crate::core::entry::{Failure, Usage};
use crate::core::request::Request;
use crate::net::sse::Event;

impl Protocol {
    /// Returns the codec, or `None` for the scripted model, which has no wire protocol.
    pub fn codec(self) -> Option<Codec> {
        match self {
            Protocol::Anthropic => Some(Codec::Anthropic),
            Protocol::OpenaiResponses => Some(Codec::OpenaiResponses),
            Protocol::OpenaiChat => Some(Codec::OpenaiChat),
            Protocol::Gemini => Some(Codec::Gemini),
            Protocol::Script => None,
        }
    }
}

/// A protocol over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    Anthropic,
    OpenaiResponses,
    OpenaiChat,
    Gemini,
}

impl Codec {
    /// Returns the request as JSON of the protocol. `blobs` returns the bytes of images.
    pub fn body(self, request: &Request, target: &Target, blobs: Blobs) -> Value {
        let json = self.json(request, target, blobs, &mut MessageCache::default());
        let body = json.and_then(|json| serde_json::from_slice(&json));
        body.unwrap_or(Value::Null)
    }

    /// Returns the same as bytes. `kept`: the encoded messages of the last request.
    ///
    /// # Errors
    /// A part of the request cannot be written as JSON.
    pub(super) fn json(
        self,
        request: &Request,
        target: &Target,
        blobs: Blobs,
        kept: &mut MessageCache,
    ) -> serde_json::Result<Vec<u8>> {
        let mut list = kept.list(format!("{self:?} {}", target.model));
        let (name, body) = match self {
            Codec::Anthropic => (
                anthropic::LIST,
                anthropic::body(request, target, blobs, &mut list),
            ),
            Codec::OpenaiResponses => (
                openai_responses::LIST,
                openai_responses::body(request, target, blobs, &mut list),
            ),
            Codec::OpenaiChat => (
                openai_chat::LIST,
                openai_chat::body(request, target, blobs, &mut list),
            ),
            Codec::Gemini => (
                gemini::LIST,
                gemini::body(request, target, blobs, &mut list),
            ),
        };
        list.into_body(name, body)
    }

    /// Returns a decoder for the stream of one answer.
    pub fn decoder(self) -> Decoder {
        let protocol = match self {
            Codec::Anthropic => ProtocolDecoder::Anthropic(anthropic::MessagesDecoder::default()),
            Codec::OpenaiResponses => {
                ProtocolDecoder::OpenaiResponses(openai_responses::ResponsesDecoder::default())
            }
            Codec::OpenaiChat => ProtocolDecoder::OpenaiChat(openai_chat::ChatDecoder::default()),
            Codec::Gemini => ProtocolDecoder::Gemini(gemini::GeminiDecoder::default()),
        };
        Decoder {
            protocol,
            halves: Halves::default(),
        }
    }

    /// Returns the URL for requests. `base` keeps its query, which some gateways need. `None` when
    /// `base` is not an HTTP address.
    pub fn url(self, base: &str, model: &str) -> Option<Url> {
        let mut url = Url::parse(base).ok()?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return None;
        }
        // Users copy the base URL with or without the version.
        let version = match self {
            Codec::Anthropic => Some("v1"),
            Codec::Gemini => Some("v1beta"),
            Codec::OpenaiResponses | Codec::OpenaiChat => None,
        };
        let last = url.path().trim_end_matches('/').rsplit('/').next();
        let version = version.filter(|version| last != Some(version));
        {
            let mut path = url.path_segments_mut().ok()?;
            path.pop_if_empty().extend(version);
            match self {
                Codec::Anthropic => path.push("messages"),
                Codec::OpenaiResponses => path.push("responses"),
                Codec::OpenaiChat => path.extend(["chat", "completions"]),
                Codec::Gemini => path
                    .push("models")
                    .extend(format!("{model}:streamGenerateContent").split('/')),
            };
        }
        if self == Codec::Gemini {
            url.query_pairs_mut().append_pair("alt", "sse");
        }
        Some(url)
    }

    /// Returns the header for the key, and the prefix of its value.
    pub fn key_header(self) -> (&'static str, &'static str) {
        match self {
            Codec::Anthropic => ("x-api-key", ""),
            Codec::OpenaiResponses | Codec::OpenaiChat => ("authorization", "Bearer "),
            Codec::Gemini => ("x-goog-api-key", ""),
        }
    }
}

/// A decoder for the stream of one answer, event by event.
pub struct Decoder {
    protocol: ProtocolDecoder,
    halves: Halves,
}

enum ProtocolDecoder {
    Anthropic(anthropic::MessagesDecoder),
    OpenaiResponses(openai_responses::ResponsesDecoder),
    OpenaiChat(openai_chat::ChatDecoder),
    Gemini(gemini::GeminiDecoder),
}

/// Calls the decoder of whichever protocol it is.
macro_rules! each_protocol {
    ($protocol:expr, $decoder:ident => $call:expr) => {
        match $protocol {
            ProtocolDecoder::Anthropic($decoder) => $call,
            ProtocolDecoder::OpenaiResponses($decoder) => $call,
            ProtocolDecoder::OpenaiChat($decoder) => $call,
            ProtocolDecoder::Gemini($decoder) => $call,
        }
    };
}

impl Decoder {
    /// Handles the next event, and returns the deltas to show.
    ///
    /// # Errors
    /// The server reports a failure, or violates its protocol.
    pub fn feed(&mut self, event: &Event) -> Result<Vec<Delta>, Failure> {
        let event = &*self.halves.marked(event);
        let deltas = each_protocol!(&mut self.protocol, d => d.feed(event));
        let deltas = deltas.map_err(|failure| self.halves.said(failure))?;
        Ok(self.halves.shown(deltas))
    }

    /// Returns whether the answer has ended completely. The rest of the stream need not be read,
    /// since some servers never end it.
    pub fn is_ended(&self) -> bool {
        each_protocol!(&self.protocol, d => d.is_ended())
    }

    /// Returns whether the stop reason was received. Only data beside the answer may follow
    /// (counts, the protocol's own end), unless the server sends a stop reason in every event.
    pub fn is_whole(&self) -> bool {
        each_protocol!(&self.protocol, d => d.is_whole())
    }

    /// Returns a number that grows with every piece of the answer, including those without a
    /// delta.
    pub fn kept(&self) -> usize {
        each_protocol!(&self.protocol, d => d.kept())
    }

    /// Returns the tokens that the server has reported so far. Most servers report some of them at
    /// the end only.
    pub fn usage_so_far(&self) -> Usage {
        each_protocol!(&self.protocol, d => d.usage)
    }

    /// Returns the complete answer.
    ///
    /// # Errors
    /// The stream ended before the server sent the stop reason.
    pub fn finish(self) -> Result<Reply, Failure> {
        let reply = each_protocol!(self.protocol, d => d.finish());
        Ok(self.halves.whole(reply?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Quirks;
    use crate::core::entry::BlobRef;
    use crate::model::test_samples::{bytes, conversation, text};

    /// Covers a longer session, moved marks, a removed result, a lost image and another model.
    #[test]
    fn the_cache_of_the_last_request_does_not_change_the_next() {
        let whole = conversation(None, Some("sealed"));
        let mut requests = Vec::new();
        for length in (0..=whole.messages.len()).chain([2, whole.messages.len()]) {
            let mut request = whole.clone();
            request.messages.truncate(length);
            for (at, message) in request.messages.iter_mut().enumerate() {
                message.cache = (at + length).is_multiple_of(3);
            }
            requests.push(request);
        }
        let mut freed = whole.clone();
        freed.messages[1].parts = vec![text("freed")].into();
        requests.extend([freed, whole]);
        let nothing = |_: &BlobRef| None;
        let all: [Blobs; 2] = [&bytes, &nothing];
        let codecs = [
            Codec::Anthropic,
            Codec::OpenaiResponses,
            Codec::OpenaiChat,
            Codec::Gemini,
        ];
        let targets = ["gemini-3-pro", "gemini-2"].map(|model| Target {
            model,
            stream: true,
            thinking_budget: None,
            quirks: &Quirks::NONE,
        });
        for codec in codecs {
            let mut kept = MessageCache::default();
            for (target, (n, request)) in targets
                .iter()
                .flat_map(|target| requests.iter().enumerate().map(move |one| (target, one)))
            {
                let blobs = all[usize::from(n.is_multiple_of(4))];
                let fresh = codec.json(request, target, blobs, &mut MessageCache::default());
                let again = codec.json(request, target, blobs, &mut kept);
                assert_eq!(again.unwrap(), fresh.unwrap(), "{codec:?}, request {n}");
            }
        }
    }

    #[test]
    fn protocols_are_named_as_in_the_config() {
        for (protocol, name) in [
            (Protocol::Anthropic, "\"anthropic\""),
            (Protocol::OpenaiResponses, "\"openai-responses\""),
            (Protocol::OpenaiChat, "\"openai-chat\""),
            (Protocol::Gemini, "\"gemini\""),
            (Protocol::Script, "\"script\""),
        ] {
            assert_eq!(serde_json::to_string(&protocol).unwrap(), name);
        }
    }

    #[test]
    fn requests_go_to_the_right_place() {
        let url = |codec: Codec, base| codec.url(base, "m-1").unwrap().to_string();
        assert_eq!(
            url(Codec::Anthropic, "https://a.example"),
            "https://a.example/v1/messages"
        );
        assert_eq!(
            url(Codec::Anthropic, "https://a.example/v1/"),
            "https://a.example/v1/messages"
        );
        assert_eq!(
            url(Codec::OpenaiChat, "http://localhost:8080/v1"),
            "http://localhost:8080/v1/chat/completions"
        );
        assert_eq!(
            url(
                Codec::OpenaiResponses,
                "https://o.example/v1/?api-version=3"
            ),
            "https://o.example/v1/responses?api-version=3"
        );
        assert_eq!(
            url(Codec::Gemini, "https://g.example"),
            "https://g.example/v1beta/models/m-1:streamGenerateContent?alt=sse"
        );
        assert_eq!(Codec::Anthropic.url("localhost:80", "m"), None);
        assert_eq!(Codec::Anthropic.url("", "m"), None);
    }

    /// A whole answer of each protocol in which every count of tokens is this.
    fn counting(codec: Codec, count: &str) -> Reply {
        let events: &[(&str, String)] = &match codec {
            Codec::Anthropic => vec![
                (
                    "message_start",
                    format!(
                        r#"{{"type":"message_start","message":{{"usage":{{"input_tokens":{count},"cache_read_input_tokens":{count},"cache_creation_input_tokens":{count}}}}}}}"#
                    ),
                ),
                (
                    "message_delta",
                    format!(
                        r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}},"usage":{{"output_tokens":{count}}}}}"#
                    ),
                ),
                ("message_stop", r#"{"type":"message_stop"}"#.to_string()),
            ],
            Codec::OpenaiChat => vec![(
                "",
                format!(
                    r#"{{"choices":[{{"index":0,"delta":{{"content":"x"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":{count},"completion_tokens":{count},"prompt_tokens_details":{{"cached_tokens":{count}}}}}}}"#
                ),
            )],
            Codec::OpenaiResponses => vec![(
                "response.completed",
                format!(
                    r#"{{"type":"response.completed","response":{{"status":"completed","output":[],"usage":{{"input_tokens":{count},"output_tokens":{count},"input_tokens_details":{{"cached_tokens":{count}}}}}}}}}"#
                ),
            )],
            Codec::Gemini => vec![(
                "",
                format!(
                    r#"{{"candidates":[{{"content":{{"parts":[{{"text":"x"}}]}},"finishReason":"STOP"}}],"usageMetadata":{{"promptTokenCount":{count},"toolUsePromptTokenCount":{count},"cachedContentTokenCount":{count},"candidatesTokenCount":{count},"thoughtsTokenCount":{count}}}}}"#
                ),
            )],
        };
        let mut decoder = codec.decoder();
        for (event, data) in events {
            let event = Event {
                event: event.to_string(),
                data: data.clone(),
            };
            decoder.feed(&event).unwrap();
        }
        decoder.finish().unwrap()
    }

    #[test]
    fn a_count_that_cannot_be_true_is_left_out() {
        for codec in [
            Codec::Anthropic,
            Codec::OpenaiChat,
            Codec::OpenaiResponses,
            Codec::Gemini,
        ] {
            for count in [
                "18446744073709551615",
                "9223372036854775807",
                "1000000001",
                "1e300",
                "-1",
                "-0.5",
                "\"12\"",
                "null",
                "[7]",
            ] {
                let usage = counting(codec, count).usage;
                assert_eq!(usage, Default::default(), "{codec:?} {count}");
            }
            for count in ["7", "7.9"] {
                let usage = counting(codec, count).usage;
                assert!(
                    usage.prompt() >= 7 && usage.output >= 7,
                    "{codec:?} {usage:?}"
                );
            }
        }
    }

    /// An event without a delta may still be a piece of the answer, such as the arguments of a
    /// call.
    #[test]
    fn every_piece_of_an_answer_counts_as_progress() {
        let cases: [(Codec, &str, &[&str], &[&str]); 4] = [
            (
                Codec::Anthropic,
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"b","input":{}}}"#,
                &[
                    r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{"}}"#,
                ],
                &[
                    r#"{"type":"ping"}"#,
                    r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}"#,
                ],
            ),
            (
                Codec::OpenaiChat,
                r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"b"}}]}}]}"#,
                &[
                    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}"#,
                    r#"{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}"#,
                ],
                &[
                    r#"{"choices":[]}"#,
                    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
                ],
            ),
            (
                Codec::OpenaiResponses,
                r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"a","name":"b","arguments":""}}"#,
                &[
                    r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{"}"#,
                    r#"{"type":"response.reasoning_text.delta","output_index":1,"delta":"hm"}"#,
                ],
                &[
                    r#"{"type":"response.in_progress"}"#,
                    r#"{"type":"keepalive"}"#,
                    r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":""}"#,
                ],
            ),
            (
                Codec::Gemini,
                r#"{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}"#,
                &[
                    r#"{"candidates":[{"content":{"parts":[{"text":"b"}]}}]}"#,
                    r#"{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}]}}]}"#,
                ],
                &[
                    r#"{"candidates":[{"content":{"parts":[{"text":""}]}}]}"#,
                    r#"{"usageMetadata":{"promptTokenCount":5}}"#,
                ],
            ),
        ];
        for (codec, start, pieces, others) in cases {
            let mut decoder = codec.decoder();
            let mut moves = |data: &str| {
                let before = decoder.kept();
                let event = Event {
                    event: String::new(),
                    data: data.to_string(),
                };
                let deltas = decoder.feed(&event).unwrap();
                !deltas.is_empty() || decoder.kept() > before
            };
            assert!(moves(start), "{codec:?}");
            for piece in pieces {
                assert!(moves(piece), "{codec:?}: {piece}");
            }
            for other in others {
                assert!(!moves(other), "{codec:?}: {other}");
            }
        }
    }
}
