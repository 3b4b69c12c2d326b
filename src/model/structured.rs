//! Answers that must match a JSON Schema, in the form that the server supports: a field of the
//! request, or a tool that the model calls with its answer.
//!
//! Either form only helps the model. [`super::schema`] checks every answer, whatever the server
//! promises. A call of the tool is converted to the text that it carries, so all later code sees
//! one form of answer.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{Reply, effort, split_name};
use crate::config::{Protocol, Quirks};
use crate::core::entry::{Block, Failure, FailureClass, StopReason, ToolSpec};
use crate::core::request::Request;

/// Name of the tool that carries the answer, for servers without a field for it.
pub(super) const TOOL: &str = "structured_answer";
/// Name of the argument that carries the answer when it need not be an object.
const WRAPPED: &str = "answer";

/// Name of the schema in fields that require one.
const NAME: &str = "answer";

/// Converts the request to the form that the server supports.
pub(super) fn prepare(request: &mut Request, protocol: Protocol, quirks: &Quirks) {
    let Some(schema) = &request.schema else {
        return;
    };
    let model = split_name(&request.model).map_or("", |(_, model)| model);
    if !has_field(protocol, quirks, model, schema) {
        use_tool(request);
    }
}

/// Lets the model answer by calling a tool.
pub(super) fn use_tool(request: &mut Request) {
    if let Some(schema) = request.schema.take() {
        request.tools.push(ToolSpec {
            name: TOOL.into(),
            description:
                "Gives your final answer. Call it once, alone and last, when all the work is done. \
                          Its arguments are the whole answer; what you write beside it is not read."
                    .into(),
            schema: arguments(&schema),
        });
    }
}

fn has_field(protocol: Protocol, quirks: &Quirks, model: &str, schema: &Value) -> bool {
    match protocol {
        Protocol::Script => true,
        Protocol::OpenaiResponses => is_object(schema),
        // Most servers refuse the field together with tools, or ignore the tools.
        Protocol::OpenaiChat => quirks.json_schema && is_object(schema),
        Protocol::Anthropic => effort::claude_version(model) >= (4, 5) && is_strict(schema),
        // Older models refuse it together with tools.
        Protocol::Gemini => is_gemini_3(model) && is_plain(schema),
    }
}

fn is_gemini_3(model: &str) -> bool {
    let model = model.trim_start_matches("models/");
    let version = model
        .strip_prefix("gemini-")
        .and_then(|v| v.split(['-', '.']).next());
    version
        .and_then(|v| v.parse::<u32>().ok())
        .is_some_and(|v| v >= 3)
}

/// Returns `response_format` for Chat Completions.
pub(super) fn response_format(schema: &Value) -> Value {
    json!({ "type": "json_schema", "json_schema": {
        "name": NAME, "schema": schema, "strict": is_strict(schema),
    }})
}

/// Returns `text.format` for the Responses API.
pub(super) fn text_format(schema: &Value) -> Value {
    json!({
        "type": "json_schema", "name": NAME, "schema": schema, "strict": is_strict(schema),
    })
}

/// Returns `output_config.format` for Anthropic.
pub(super) fn output_format(schema: &Value) -> Value {
    json!({ "type": "json_schema", "schema": schema })
}

fn is_object(schema: &Value) -> bool {
    schema.get("type") == Some(&"object".into()) && schema.get("anyOf").is_none()
}

/// Keywords of JSON Schema that all servers with structured output accept.
#[rustfmt::skip]
const PLAIN: [&str; 13] = [
    "$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "items", "properties",
    "required", "title", "type", "$schema",
];
const MAX_DEPTH: usize = 5;

fn is_plain(schema: &Value) -> bool {
    all(schema, 0, &|_| true)
}

/// Returns whether strict mode is possible. OpenAI and Anthropic enforce a schema only if its
/// objects have exactly the named properties.
fn is_strict(schema: &Value) -> bool {
    is_object(schema) && all(schema, 0, &is_closed)
}

fn is_closed(schema: &Map<String, Value>) -> bool {
    let properties = schema.get("properties").and_then(Value::as_object);
    let is_object = schema.get("type") == Some(&"object".into()) || properties.is_some();
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &String| required.is_some_and(|r| r.iter().any(|one| one == name.as_str()));
    !is_object
        || (schema.get("additionalProperties") == Some(&false.into())
            && properties.is_some_and(|of| of.keys().all(is_required)))
}

/// Returns whether `is_so` is true for the schema and all schemas in it, and all use plain
/// keywords only.
fn all(schema: &Value, depth: usize, is_so: &dyn Fn(&Map<String, Value>) -> bool) -> bool {
    let Some(map) = schema.as_object().filter(|_| depth <= MAX_DEPTH) else {
        return schema.is_boolean();
    };
    let of_key = |(key, value): (&String, &Value)| match key.as_str() {
        "properties" | "$defs" => value
            .as_object()
            .is_some_and(|of| of.values().all(|one| all(one, depth + 1, is_so))),
        "anyOf" => value
            .as_array()
            .is_some_and(|of| of.iter().all(|one| all(one, depth + 1, is_so))),
        "items" => all(value, depth + 1, is_so),
        "additionalProperties" => value.is_boolean(),
        "$ref" => value.as_str().is_some_and(|to| to.starts_with("#/$defs/")),
        key => PLAIN.contains(&key),
    };
    is_so(map) && map.iter().all(of_key)
}

/// Returns the parameters of the tool. All servers require an object. Definitions stay at the top,
/// where references look for them.
fn arguments(schema: &Value) -> Value {
    if is_object(schema) {
        return schema.clone();
    }
    let mut out = json!({
        "type": "object", "properties": { WRAPPED: schema }, "required": [WRAPPED],
        "additionalProperties": false,
    });
    for key in ["$defs", "definitions"] {
        if let Some(defined) = schema.get(key) {
            out[key] = defined.clone();
        }
    }
    out
}

/// Returns whether the server does not know the field.
pub(super) fn is_refused(failure: &Failure) -> bool {
    const WORDS: [&str; 9] = [
        "response_format",
        "json_schema",
        "json schema",
        "text.format",
        "output_config",
        "output_format",
        "responsejsonschema",
        "response_json_schema",
        "response mime type",
    ];
    let message = failure.message.to_lowercase();
    failure.class == FailureClass::BadRequest && WORDS.iter().any(|word| message.contains(word))
}

/// Replaces the call of the tool by the text of the answer. If there are other calls, the answer
/// came too early, and its text is put before them.
pub(super) fn read(mut reply: Reply, schema: &Value) -> Reply {
    let (given, mut blocks): (Vec<Block>, Vec<Block>) = reply
        .blocks
        .into_iter()
        .partition(|block| matches!(block, Block::Call { name, .. } if name == TOOL));
    let texts = given.into_iter().filter_map(|block| match block {
        Block::Call { arguments, .. } => Some(Block::text(unwrapped(arguments, schema))),
        Block::Text { .. } | Block::Thinking { .. } => None,
    });
    let is_call = |block: &Block| matches!(block, Block::Call { .. });
    let first = blocks.iter().position(is_call);
    let texts: Vec<Block> = texts.collect();
    let is_given = !texts.is_empty();
    let at = first.unwrap_or(blocks.len());
    blocks.splice(at..at, texts);
    reply.blocks = blocks;
    if is_given && first.is_none() && reply.stop == StopReason::ToolUse {
        reply.stop = StopReason::EndTurn;
    }
    reply
}

fn unwrapped(arguments: String, schema: &Value) -> String {
    if is_object(schema) {
        return arguments;
    }
    let wrapped: Option<BTreeMap<String, &RawValue>> = serde_json::from_str(&arguments).ok();
    let answer = wrapped.filter(|fields| fields.len() == 1);
    let answer = answer.and_then(|fields| fields.get(WRAPPED).map(|json| json.get().to_string()));
    answer.unwrap_or(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::entry::Usage;
    use crate::model::test_samples;

    fn strict() -> Value {
        json!({
            "type": "object",
            "properties": { "a": { "$ref": "#/$defs/b" } },
            "required": ["a"],
            "additionalProperties": false,
            "$defs": { "b": { "type": "array", "items": { "type": "string" } } },
        })
    }

    fn loose() -> Value {
        json!({ "type": "object", "properties": { "a": { "type": "string", "minLength": 3 } } })
    }

    fn prepared(protocol: Protocol, json_schema: bool, model: &str, schema: &Value) -> Request {
        let mut request = test_samples::conversation(None, None);
        request.model = format!("p/{model}");
        request.schema = Some(schema.clone());
        let quirks = Quirks {
            json_schema,
            ..Quirks::NONE
        };
        prepare(&mut request, protocol, &quirks);
        request
    }

    fn has_tool(request: &Request) -> bool {
        let has = request.tools.last().is_some_and(|tool| tool.name == TOOL);
        assert_eq!(has, request.schema.is_none(), "one form, and only one");
        has
    }

    #[test]
    fn a_server_that_has_no_field_for_it_gets_a_tool() {
        let list = json!({ "type": "array", "items": { "type": "string" } });
        for (protocol, quirk, model, schema, tool) in [
            (Protocol::OpenaiResponses, false, "gpt-5", &loose(), false),
            (Protocol::OpenaiResponses, false, "gpt-5", &list, true),
            (Protocol::OpenaiChat, false, "gpt-4o", &strict(), true),
            (Protocol::OpenaiChat, true, "gpt-4o", &loose(), false),
            (
                Protocol::Anthropic,
                false,
                "claude-sonnet-4-5",
                &strict(),
                false,
            ),
            (
                Protocol::Anthropic,
                false,
                "claude-sonnet-4-5",
                &loose(),
                true,
            ),
            (
                Protocol::Anthropic,
                false,
                "claude-sonnet-4-0",
                &strict(),
                true,
            ),
            (
                Protocol::Gemini,
                false,
                "gemini-3-pro-preview",
                &strict(),
                false,
            ),
            (
                Protocol::Gemini,
                false,
                "gemini-3-pro-preview",
                &loose(),
                true,
            ),
            (Protocol::Gemini, false, "gemini-2.5-pro", &strict(), true),
        ] {
            let request = prepared(protocol, quirk, model, schema);
            assert_eq!(has_tool(&request), tool, "{protocol:?} {model} {schema}");
        }
    }

    #[test]
    fn a_model_is_held_to_a_schema_that_servers_take() {
        assert!(is_strict(&strict()));
        assert!(!is_strict(&loose()));
        let mut open = strict();
        open["additionalProperties"] = true.into();
        assert!(!is_strict(&open));
        let mut optional = strict();
        optional["required"] = json!([]);
        assert!(!is_strict(&optional));
        let mut deep = json!({ "type": "string" });
        for _ in 0..MAX_DEPTH + 1 {
            deep = json!({ "type": "array", "items": deep });
        }
        assert!(!is_plain(&deep));
    }

    fn reply(blocks: Vec<Block>) -> Reply {
        Reply {
            blocks,
            usage: Usage::default(),
            stop: StopReason::ToolUse,
            has_text_calls: false,
        }
    }

    #[test]
    fn a_call_of_the_tool_is_the_text_of_the_answer() {
        let given = r#"{"a": 1.50}"#;
        let answer = read(
            reply(vec![Block::text("Here:"), Block::call(TOOL, given)]),
            &loose(),
        );
        assert_eq!(answer.blocks, [Block::text("Here:"), Block::text(given)]);
        assert_eq!(answer.stop, StopReason::EndTurn);
        // What need not be an object is wrapped into one, for the server.
        let list = json!({ "type": "array", "$defs": { "b": {} } });
        assert_eq!(arguments(&list)["properties"]["answer"], list);
        assert!(arguments(&list)["$defs"].is_object());
        let answer = read(
            reply(vec![Block::call(TOOL, r#"{"answer": [1, 2.0]}"#)]),
            &list,
        );
        assert_eq!(answer.blocks, [Block::text("[1, 2.0]")]);
        let answer = read(reply(vec![Block::call(TOOL, "[1]")]), &list);
        assert_eq!(answer.blocks, [Block::text("[1]")]);
    }

    #[test]
    fn an_answer_that_comes_with_other_calls_leaves_them_as_they_are() {
        let blocks = vec![
            Block::call("read", "{}"),
            Block::call(TOOL, "{}"),
            Block::call("grep", "{}"),
        ];
        let answer = read(reply(blocks), &loose());
        let want = [
            Block::text("{}"),
            Block::call("read", "{}"),
            Block::call("grep", "{}"),
        ];
        assert_eq!(answer.blocks, want);
        assert_eq!(answer.stop, StopReason::ToolUse);
    }
}
