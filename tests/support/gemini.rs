//! Gemini `streamGenerateContent`: <https://ai.google.dev/api/generate-content>, with the
//! thought signatures of <https://ai.google.dev/gemini-api/docs/thought-signatures>.
//!
//! Field names are wanted in camelCase, as the API's reference writes them.

use serde_json::{Value, json};

use super::answer::{Says, Stop};
use super::http::Head;
use super::rules::*;
use super::seal::{digest, open, seal};
use super::server::Turn;

pub const PREFIX: &str = "/v1beta/models/";
pub const METHOD: &str = ":streamGenerateContent";
const SEAL: &str = "gemini";

/// For calls that another model made; the API's documentation names them.
const UNSIGNED: [&str; 2] = [
    "skip_thought_signature_validator",
    "context_engineering_is_the_way_to_go",
];

const FIELDS: &[&str] = &[
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "generationConfig",
    "safetySettings",
    "cachedContent",
];

/// What the API's own schema knows; `parametersJsonSchema` takes any JSON Schema.
const SCHEMA_FIELDS: &[&str] = &[
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "example",
    "anyOf",
    "propertyOrdering",
    "default",
    "items",
    "minimum",
    "maximum",
];

pub fn check(head: &Head, body: &Value, memory: &Memory) -> Result<View, Fault> {
    let key = head.header("x-goog-api-key").or(head.parameter("key"));
    if key.is_none_or(str::is_empty) {
        return Err(Fault::new(
            403,
            "Method doesn't allow unregistered callers (callers without established identity). \
             Please use API Key or other form of API consumer identity to call this API.",
        ));
    }
    demand!(
        head.parameter("alt") == Some("sse"),
        "this server only streams with alt=sse"
    );
    if let Some(field) = unknown_field(body, FIELDS) {
        demand!(
            false,
            "Invalid JSON payload received. Unknown name \"{field}\": Cannot find field."
        );
    }
    let model = head
        .path
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_suffix(METHOD))
        .unwrap_or_default();
    let mut view = View {
        model: model.to_string(),
        system: system(body)?,
        ..View::default()
    };
    for tool in list_of(body, "tools") {
        let declared = list_of(tool, "functionDeclarations");
        demand!(
            !declared.is_empty(),
            "tools: at least one function declaration is required"
        );
        for function in declared {
            declaration(function, &mut view.tools)?;
        }
    }
    contents(list_of(body, "contents"), memory, &mut view)?;
    Ok(view)
}

fn system(body: &Value) -> Result<String, Fault> {
    let Some(instruction) = body.get("systemInstruction") else {
        return Ok(String::new());
    };
    let mut texts = Vec::new();
    for part in list_of(instruction, "parts") {
        let text = text_of(part, "text");
        demand!(
            !text.is_empty(),
            "systemInstruction.parts: text must not be empty"
        );
        texts.push(text);
    }
    demand!(
        !texts.is_empty(),
        "systemInstruction.parts must not be empty"
    );
    Ok(texts.join("\n\n"))
}

fn declaration(function: &Value, tools: &mut Vec<String>) -> Result<(), Fault> {
    let name = text_of(function, "name");
    demand!(
        !name.starts_with(|c: char| c.is_ascii_digit() || c == '-'),
        "Invalid function name. Must start with a letter or an underscore: {name:?}"
    );
    if let Some(schema) = function.get("parameters") {
        narrow_schema(schema)?;
    }
    let schema = function.get("parametersJsonSchema");
    check_tool(tools, name, schema.or(function.get("parameters")))
}

fn narrow_schema(schema: &Value) -> Result<(), Fault> {
    if let Some(field) = unknown_field(schema, SCHEMA_FIELDS) {
        demand!(
            false,
            "Invalid JSON payload received. Unknown name \"{field}\" at \
             'tools[0].function_declarations[0].parameters': Cannot find field."
        );
    }
    demand!(
        !schema["type"].is_array(),
        "Invalid JSON payload received. Proto field is not repeating, cannot start list."
    );
    let properties = schema.get("properties").and_then(Value::as_object);
    demand!(
        schema["type"] != "object" || properties.is_some_and(|p| !p.is_empty()),
        "parameters.properties: should be non-empty for OBJECT type"
    );
    for property in properties.into_iter().flat_map(|p| p.values()) {
        narrow_schema(property)?;
    }
    for choice in list_of(schema, "anyOf") {
        narrow_schema(choice)?;
    }
    schema.get("items").map_or(Ok(()), narrow_schema)
}

/// A call of the content before: its name and its id, if it has one.
type Asked = (String, Option<String>);

fn contents(contents: &[Value], memory: &Memory, view: &mut View) -> Result<(), Fault> {
    demand!(!contents.is_empty(), "contents is not specified");
    let mut open: Vec<Asked> = Vec::new();
    for (i, content) in contents.iter().enumerate() {
        let at = format!("contents[{i}]");
        let role = text_of(content, "role");
        demand!(
            ["user", "model"].contains(&role),
            "Please use a valid role: user, model."
        );
        demand!(
            i > 0 || role == "user",
            "{at}: the first content must be of the user"
        );
        demand!(
            (i % 2 == 0) == (role == "user"),
            "Please ensure that multiturn requests alternate between user and model."
        );
        let parts = list_of(content, "parts");
        demand!(!parts.is_empty(), "{at}.parts must not be empty.");
        for (j, part) in parts.iter().enumerate() {
            check_part(&format!("{at}.parts[{j}]"), part)?;
        }
        if role == "user" {
            user(&at, parts, &open, view)?;
            open.clear();
        } else {
            open = answer(i, parts, memory, view)?;
            view.turn += 1;
        }
    }
    demand!(
        contents.len() % 2 == 1,
        "Please ensure that the last content is of the user or holds function responses."
    );
    Ok(())
}

/// A part is exactly one thing.
fn check_part(at: &str, part: &Value) -> Result<(), Fault> {
    let kinds = ["text", "inlineData", "functionCall", "functionResponse"];
    let found = kinds
        .iter()
        .filter(|kind| part.get(**kind).is_some())
        .count();
    demand!(
        found == 1,
        "{at}.data: required oneof field 'data' must have one initialized field"
    );
    let known = [&kinds[..], &["thought", "thoughtSignature"]].concat();
    if let Some(field) = unknown_field(part, &known) {
        demand!(
            false,
            "Invalid JSON payload received. Unknown name \"{field}\" at '{at}': Cannot find field."
        );
    }
    demand!(
        part.get("text").is_none()
            || !text_of(part, "text").is_empty()
            || part.get("thoughtSignature").is_some(),
        "{at}: Unable to submit request because it has an empty text parameter"
    );
    if let Some(image) = part.get("inlineData") {
        check_image(text_of(image, "mimeType"), text_of(image, "data"))?;
    }
    if part.get("text").is_some()
        && let Some(signature) = part.get("thoughtSignature").and_then(Value::as_str)
    {
        demand!(
            open(SEAL, signature).is_some(),
            "{at}: Thought signature is not valid."
        );
    }
    Ok(())
}

fn user(at: &str, parts: &[Value], asked: &[Asked], view: &mut View) -> Result<(), Fault> {
    let responses: Vec<_> = parts
        .iter()
        .filter_map(|p| p.get("functionResponse"))
        .collect();
    demand!(
        responses.len() == asked.len(),
        "Please ensure that the number of function response parts is equal to the number of \
         function call parts of the function call turn."
    );
    let first = parts.iter().take(responses.len());
    demand!(
        first
            .filter(|p| p.get("functionResponse").is_some())
            .count()
            == responses.len(),
        "{at}: function responses must come before all other parts"
    );
    for (response, (name, id)) in responses.iter().zip(asked) {
        demand!(
            text_of(response, "name") == name,
            "{at}: function response {:?} answers no call: {name:?} was called",
            text_of(response, "name")
        );
        let answered = response.get("id").and_then(Value::as_str);
        demand!(
            answered.is_none() || answered == id.as_deref(),
            "{at}: function response id {answered:?} does not match the call's {id:?}"
        );
        let value = &response["response"];
        demand!(
            value.is_object(),
            "Invalid value at '{at}.parts[0].function_response.response' \
             (type.googleapis.com/google.protobuf.Struct)"
        );
        let text = ["output", "result", "error"]
            .iter()
            .find_map(|key| value.get(*key)?.as_str())
            .map_or_else(|| value.to_string(), str::to_string);
        view.results
            .push((id.clone().unwrap_or(name.clone()), text));
    }
    let texts: Vec<_> = parts.iter().map(|p| text_of(p, "text")).collect();
    let said = texts.join("");
    if !said.is_empty() {
        view.user = said;
    }
    Ok(())
}

fn answer(
    index: usize,
    parts: &[Value],
    memory: &Memory,
    view: &View,
) -> Result<Vec<Asked>, Fault> {
    let mut asked: Vec<Asked> = Vec::new();
    for part in parts {
        demand!(
            part.get("functionResponse").is_none(),
            "Please ensure that function response parts are of the user."
        );
        let Some(call) = part.get("functionCall") else {
            continue;
        };
        let name = text_of(call, "name");
        check_called(name, &view.tools, memory)?;
        demand!(
            call.get("args").is_none_or(Value::is_object),
            "Invalid value at 'contents[{index}].parts[].function_call.args' \
             (type.googleapis.com/google.protobuf.Struct)"
        );
        let sent = part.get("thoughtSignature").and_then(Value::as_str);
        check_signature(index, call, sent, asked.is_empty())?;
        let id = call.get("id").and_then(Value::as_str).map(str::to_string);
        demand!(
            id.is_none() || !asked.iter().any(|(_, other)| *other == id),
            "call ids must be unique: {id:?}"
        );
        asked.push((name.to_string(), id));
    }
    Ok(asked)
}

/// The first call of an answer is always given with a signature, and only the first.
fn check_signature(
    index: usize,
    call: &Value,
    sent: Option<&str>,
    first: bool,
) -> Result<(), Fault> {
    let name = text_of(call, "name");
    match sent {
        None => demand!(
            !first,
            "Function call is missing a thought_signature in functionCall parts. This is \
             required for tools to work correctly, and missing thought_signature may lead to \
             degraded model performance. Additional data, function call `{name}` , position \
             {index}."
        ),
        Some(sent) => {
            let args = call.get("args").cloned().unwrap_or(json!({}));
            demand!(
                UNSIGNED.contains(&sent) || sent == signature(name, &args),
                "Thought signature is not valid. Function call `{name}`, position {index}."
            );
        }
    }
    Ok(())
}

/// Of a call; `args` in the one order of keys that `Value` keeps.
pub fn signature(name: &str, args: &Value) -> String {
    seal(SEAL, &digest(&format!("{name} {args}")))
}

pub fn error(fault: &Fault, retry_after_secs: Option<u64>) -> Value {
    let status = match fault.status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    };
    let mut error = json!({
        "code": fault.status, "message": fault.message, "status": status,
    });
    if let Some(secs) = retry_after_secs {
        error["details"] = json!([{
            "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{secs}s"),
        }]);
    }
    json!({"error": error})
}

pub fn too_long(tokens: u64, limit: u64) -> Fault {
    Fault::new(
        400,
        format!(
            "The input token count ({tokens}) exceeds the maximum number of tokens allowed \
             ({limit})."
        ),
    )
}

pub fn render(says: &Says, turn: &Turn) -> String {
    let mut out = String::new();
    let mut chunk = |parts: Value, finish: Option<&str>, usage: bool| {
        let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
        if let Some(reason) = finish {
            candidate["finishReason"] = reason.into();
        }
        let data = json!({
            "candidates": [candidate],
            "usageMetadata": usage_metadata(turn, usage),
            "modelVersion": turn.model,
            "responseId": format!("resp-{}", turn.number),
        });
        out.push_str(&format!("data: {data}\r\n\r\n"));
    };
    if turn.wants("/generationConfig/thinkingConfig/includeThoughts") {
        for piece in says.pieces(&says.thinking) {
            chunk(json!([{"text": piece, "thought": true}]), None, false);
        }
    }
    for piece in says.pieces(&says.text) {
        chunk(json!([{"text": piece}]), None, false);
    }
    let mut finish = match says.stop() {
        Stop::EndTurn | Stop::ToolUse => "STOP",
        Stop::MaxTokens => "MAX_TOKENS",
        Stop::Refusal => "SAFETY",
    };
    for (index, call) in says.calls.iter().enumerate() {
        let Ok(args @ Value::Object(_)) = serde_json::from_str(&call.arguments) else {
            finish = "MALFORMED_FUNCTION_CALL";
            break;
        };
        let mut part = json!({"functionCall": {"name": call.name, "args": args}});
        if let Some(id) = &call.id {
            part["functionCall"]["id"] = id.as_str().into();
        }
        if index == 0 {
            part["thoughtSignature"] = signature(&call.name, &args).into();
        }
        chunk(json!([part]), None, false);
    }
    // With thinking and no call, the signature comes behind the text, in an empty part.
    let last = if says.calls.is_empty() && !says.thinking.is_empty() {
        json!([{"text": "", "thoughtSignature": seal(SEAL, &digest(&says.text))}])
    } else {
        json!([{"text": ""}])
    };
    chunk(last, Some(finish), true);
    out
}

fn usage_metadata(turn: &Turn, whole: bool) -> Value {
    let tokens = turn.tokens;
    let mut usage = json!({
        "promptTokenCount": tokens.prompt(),
        "totalTokenCount": tokens.prompt() + tokens.output,
    });
    if tokens.cached > 0 {
        usage["cachedContentTokenCount"] = tokens.cached.into();
    }
    if whole {
        usage["candidatesTokenCount"] = tokens.output.into();
    }
    usage
}
