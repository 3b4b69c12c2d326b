//! Calls that a model writes as text, as one does whose server or template has no tools. They count
//! only for such a model, or for one that the config names, and only as the end of an answer.
//!
//! The forms: `<tool_call>JSON</tool_call>` (Hermes, Qwen), `{"tool_call": JSON}` and
//! `{"tool_calls": [JSON]}` (the generic format of llama.cpp), and the JSON of a known tool, fenced or
//! plain. JSON is `{"name": …, "arguments": …}`, with `parameters` at Llama 3.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Reply;
use super::answer::MAX_CALLS;
use crate::core::entry::{Block, StopReason, ToolSpec};

const OPENING: &str = "<tool_call>";
const CLOSING: &str = "</tool_call>";
const FENCE: &str = "```";

/// Maximum number of lines, from the end, that are tried as the start of an object: each may be as
/// long as the answer.
const MAX_STARTS: usize = 16;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCall<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, alias = "parameters")]
    arguments: &'a RawValue,
    /// Some models add one. It may be repeated, so it is not used.
    #[serde(default, rename = "id")]
    _id: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrappedCalls<'a> {
    #[serde(borrow)]
    ToolCall(WrittenCall<'a>),
    #[serde(borrow)]
    ToolCalls(Vec<WrittenCall<'a>>),
}

/// Replaces the calls at the end of an answer's text by calls. An answer that was cut or that has
/// calls stays as it is.
pub(super) fn read(mut reply: Reply, tools: &[ToolSpec]) -> Reply {
    let is_call = |block: &Block| matches!(block, Block::Call { .. });
    let is_cut = matches!(reply.stop, StopReason::MaxTokens | StopReason::Refusal);
    if is_cut || reply.blocks.iter().any(is_call) {
        return reply;
    }
    let Some(Block::Text {
        text,
        signature: None,
    }) = reply.blocks.last_mut()
    else {
        return reply;
    };
    let (words, calls) = split(text, tools);
    if calls.is_empty() {
        return reply;
    }
    text.truncate(words);
    if text.is_empty() {
        reply.blocks.pop();
    }
    reply.blocks.extend(calls);
    reply.stop = StopReason::ToolUse;
    reply.has_text_calls = true;
    reply
}

/// Returns the length of the words before the calls, and the calls.
fn split(text: &str, tools: &[ToolSpec]) -> (usize, Vec<Block>) {
    let mut rest = text.trim_end();
    let mut calls = Vec::new();
    while calls.len() < MAX_CALLS
        && let Some((words, mut last)) = tagged(rest)
    {
        rest = words.trim_end();
        last.append(&mut calls);
        calls = last;
    }
    if calls.is_empty()
        && let Some((words, json)) = fenced(rest).or_else(|| plain(rest))
        && let Some(found) = wrapped(json).or_else(|| known(json, tools))
    {
        rest = words.trim_end();
        calls = found;
    }
    (rest.len(), calls)
}

/// Returns the text before the last tag, and its calls.
fn tagged(text: &str) -> Option<(&str, Vec<Block>)> {
    let inner = text.strip_suffix(CLOSING).unwrap_or(text);
    let (words, json) = inner.rsplit_once(OPENING)?;
    let call = serde_json::from_str(json).ok().map(call);
    Some((
        words,
        call.map(|call| vec![call]).or_else(|| wrapped(json))?,
    ))
}

/// Returns the text before the fence that ends it, and the JSON in the fence.
fn fenced(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_suffix(FENCE)?;
    line_starts(text, FENCE).find_map(|at| {
        let (_language, json) = text[at..].split_once('\n')?;
        is_json(json).then_some((&text[..at], json))
    })
}

/// Returns the text before the JSON object that ends it and begins a line.
fn plain(text: &str) -> Option<(&str, &str)> {
    let at = line_starts(text, "{").find(|at| is_json(&text[*at..]))?;
    Some(text.split_at(at))
}

/// Returns where the last lines begin that have this at their start, the newest first.
fn line_starts<'a>(text: &'a str, with: &'a str) -> impl Iterator<Item = usize> + 'a {
    let starts = text.rmatch_indices(with).map(|(at, _)| at);
    let starts = starts.filter(|at| *at == 0 || text[..*at].ends_with('\n'));
    starts.take(MAX_STARTS)
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

fn wrapped(json: &str) -> Option<Vec<Block>> {
    Some(match serde_json::from_str(json).ok()? {
        WrappedCalls::ToolCall(one) => vec![call(one)],
        WrappedCalls::ToolCalls(all) => all.into_iter().take(MAX_CALLS).map(call).collect(),
    })
}

fn known(json: &str, tools: &[ToolSpec]) -> Option<Vec<Block>> {
    let written: WrittenCall<'_> = serde_json::from_str(json).ok()?;
    let is_known = tools.iter().any(|tool| tool.name == written.name);
    is_known.then(|| vec![call(written)])
}

fn call(written: WrittenCall<'_>) -> Block {
    // Some models write the arguments as a string of JSON.
    let arguments = written.arguments.get();
    let unquoted: Option<String> = serde_json::from_str(arguments).ok();
    Block::Call {
        name: written.name.into_owned(),
        arguments: unquoted.unwrap_or_else(|| arguments.to_string()),
        provider_id: None,
        signature: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::entry::Usage;

    fn answer(text: &str) -> Reply {
        Reply {
            blocks: vec![Block::text(text)],
            usage: Usage::default(),
            stop: StopReason::EndTurn,
            has_text_calls: false,
        }
    }

    /// Returns the words that stay, and the calls: name and arguments.
    fn read_text(text: &str) -> (String, Vec<(String, String)>) {
        let tools = [ToolSpec {
            name: "bash".into(),
            description: String::new(),
            schema: json!({}),
        }];
        let reply = read(answer(text), &tools);
        let calls = Block::calls(0, &reply.blocks);
        let calls: Vec<_> = calls
            .map(|(_, n, a)| (n.to_string(), a.to_string()))
            .collect();
        assert_eq!(reply.has_text_calls, !calls.is_empty());
        let is_use = reply.stop == StopReason::ToolUse;
        assert_eq!(is_use, !calls.is_empty());
        (Block::joined_texts(&reply.blocks), calls)
    }

    const LS: &str = r#"{"command":"ls"}"#;

    #[test]
    fn each_form_at_the_end_of_an_answer_is_a_call() {
        for text in [
            r#"<tool_call>{"name":"bash","arguments":{"command":"ls"}}</tool_call>"#,
            "<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\":\"ls\"}}\n</tool_call>\n",
            r#"<tool_call>{"name":"bash","arguments":{"command":"ls"}}"#,
            r#"{"tool_call": {"name":"bash","arguments":{"command":"ls"}}}"#,
            r#"{"tool_call": {"id":"1","name":"bash","arguments":{"command":"ls"}}}"#,
            r#"{"tool_calls": [{"name":"bash","arguments":{"command":"ls"}}]}"#,
            "```json\n{\"name\":\"bash\",\"arguments\":{\"command\":\"ls\"}}\n```",
            "```\n{\"tool_call\": {\"name\":\"bash\",\"parameters\":{\"command\":\"ls\"}}}\n```",
            "```json\n{\"name\":\"bash\",\n\"arguments\":{\"command\":\"ls\"}}\n```",
            r#"{"name":"bash","parameters":{"command":"ls"}}"#,
            r#"{"name":"bash","arguments":"{\"command\":\"ls\"}"}"#,
        ] {
            let call = vec![("bash".to_string(), LS.to_string())];
            assert_eq!(read_text(text), (String::new(), call.clone()), "{text}");
            let after_words = format!("I look.\n\n{text}");
            assert_eq!(read_text(&after_words), ("I look.".into(), call), "{text}");
        }
    }

    #[test]
    fn several_calls_keep_their_order_and_their_arguments_as_written() {
        let one = |name: &str| {
            format!("<tool_call>{{\"name\":\"{name}\",\"arguments\":{{ \"n\": 1.0 }}}}</tool_call>")
        };
        let (words, calls) = read_text(&format!("x\n{}\n{}", one("a"), one("b")));
        assert_eq!(words, "x");
        let arguments = "{ \"n\": 1.0 }".to_string();
        assert_eq!(
            calls,
            [("a".into(), arguments.clone()), ("b".into(), arguments)]
        );
    }

    #[test]
    fn a_fence_in_the_arguments_ends_no_call() {
        let json = r#"{"name":"bash","arguments":{"command":"```sh\nls\n```"}}"#;
        for text in [format!("```json\n{json}\n```"), json.to_string()] {
            let (words, calls) = read_text(&text);
            assert_eq!((words.as_str(), calls.len()), ("", 1), "{text}");
        }
    }

    #[test]
    fn all_else_stays_text() {
        let call = r#"{"name":"bash","arguments":{"command":"ls"}}"#;
        for text in [
            format!("<tool_call>{call}</tool_call> does it"),
            format!("```json\n{call}\n```\nis an example"),
            "```json\n{\"name\":\"other\",\"arguments\":{}}\n```".to_string(),
            r#"{"name":"other","arguments":{}}"#.to_string(),
            r#"{"name":"bash","arguments":{},"more":1}"#.to_string(),
            format!("say {call}"),
            format!("`{call}`"),
            format!("x ```json\n{call}\n```"),
            r#"<tool_call>{"name":"bash","arguments":{"command":"\ud83d"}"#.to_string(),
            r#"<tool_call>{"name":"bash"}</tool_call>"#.to_string(),
            "<tool_call></tool_call>".to_string(),
            "```\n```".to_string(),
            "``````".to_string(),
            "{".to_string(),
        ] {
            assert_eq!(read_text(&text), (text.clone(), Vec::new()), "{text}");
        }
    }

    #[test]
    fn an_answer_that_was_cut_or_has_calls_stays_as_it_is() {
        let text = r#"<tool_call>{"name":"bash","arguments":{}}</tool_call>"#;
        for stop in [StopReason::MaxTokens, StopReason::Refusal] {
            let cut = Reply {
                stop,
                ..answer(text)
            };
            assert_eq!(read(cut.clone(), &[]), cut);
        }
        let mut calls = answer(text);
        calls
            .blocks
            .insert(0, read(answer(text), &[]).blocks.remove(0));
        assert_eq!(read(calls.clone(), &[]), calls);
    }
}
