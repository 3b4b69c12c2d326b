//! What a server has for people besides tools: prompts, and resources. Bounded, as all that a server
//! says.

use serde_json::Value;

use super::clean;
use super::result::{Part, part};

/// Of a server, no more prompts and no more resources are taken.
const OFFERS_MAX: usize = 512;
const ARGUMENTS_MAX: usize = 32;
const MESSAGES_MAX: usize = 128;
const NAME_MAX_BYTES: usize = 200;
const URI_MAX_BYTES: usize = 2048;
const DESCRIPTION_MAX_BYTES: usize = 2048;

/// Of a prompt or a resource, no more text is taken.
const TEXT_MAX_BYTES: usize = 8 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// As the server has it.
    pub name: String,
    pub description: String,
    pub arguments: Vec<PromptArgument>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptArgument {
    pub name: String,
    pub description: String,
    pub is_required: bool,
}

/// One message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptMessage {
    /// Else it is the user's.
    pub is_assistant: bool,
    pub part: Part,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub uri: String,
    pub name: String,
    pub description: String,
    pub mime: String,
}

/// The prompts of a page of `prompts/list`, in their order. Nameless ones are left out.
pub(super) fn prompts(page: &Value, taken: &mut Vec<Prompt>) {
    for prompt in page["prompts"].as_array().into_iter().flatten() {
        let name = name(&prompt["name"]);
        let is_new = !name.is_empty() && taken.iter().all(|known| known.name != name);
        if is_new && taken.len() < OFFERS_MAX {
            let arguments = prompt["arguments"].as_array().into_iter().flatten();
            taken.push(Prompt {
                name,
                description: description(prompt),
                arguments: arguments.take(ARGUMENTS_MAX).map(argument).collect(),
            });
        }
    }
}

fn argument(argument: &Value) -> PromptArgument {
    PromptArgument {
        name: name(&argument["name"]),
        description: description(argument),
        is_required: argument["required"] == true,
    }
}

/// The resources of a page of `resources/list`, in their order.
pub(super) fn resources(page: &Value, taken: &mut Vec<Resource>) {
    for resource in page["resources"].as_array().into_iter().flatten() {
        let uri = clean(resource["uri"].as_str().unwrap_or_default(), URI_MAX_BYTES);
        let is_new = !uri.is_empty() && taken.iter().all(|known| known.uri != uri);
        if is_new && taken.len() < OFFERS_MAX {
            taken.push(Resource {
                uri,
                name: name(&resource["name"]),
                description: description(resource),
                mime: name(&resource["mimeType"]),
            });
        }
    }
}

/// What `prompts/get` gave.
pub(super) fn messages(result: &Value) -> Vec<PromptMessage> {
    let messages = result["messages"].as_array().into_iter().flatten();
    let mut left = TEXT_MAX_BYTES;
    let read = messages.take(MESSAGES_MAX).map(|message| PromptMessage {
        is_assistant: message["role"] == "assistant",
        part: bounded(part(&message["content"], left), &mut left),
    });
    read.collect()
}

/// What `resources/read` gave: text, images, and what is only named.
pub(super) fn contents(result: &Value) -> Vec<Part> {
    let contents = result["contents"].as_array().into_iter().flatten();
    let mut left = TEXT_MAX_BYTES;
    let read = contents.take(MESSAGES_MAX).map(|content| {
        let mime = name(&content["mimeType"]);
        let read = match content["blob"].as_str() {
            Some(data) if mime.starts_with("image/") => Part::Image {
                mime,
                data: data.to_string(),
            },
            _ => part(
                &serde_json::json!({ "type": "resource", "resource": content }),
                left,
            ),
        };
        bounded(read, &mut left)
    });
    read.collect()
}

fn bounded(part: Part, left: &mut usize) -> Part {
    if let Part::Text(text) = &part {
        *left = left.saturating_sub(text.len());
    }
    part
}

fn name(text: &Value) -> String {
    clean(text.as_str().unwrap_or_default(), NAME_MAX_BYTES).replace('\n', " ")
}

fn description(of: &Value) -> String {
    let text = [&of["description"], &of["title"]];
    let text = text.into_iter().find_map(Value::as_str).unwrap_or_default();
    clean(text, DESCRIPTION_MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prompts_are_bounded_and_named_once() {
        let mut taken = Vec::new();
        let page = json!({ "prompts": [
            { "name": "review", "title": "Reviews\u{1b}[2J",
                "arguments": [{ "name": "file", "required": true }, 7] },
            { "name": "review" }, {}, 7,
        ] });
        prompts(&page, &mut taken);
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].description, "Reviews[2J");
        assert!(taken[0].arguments[0].is_required && !taken[0].arguments[1].is_required);
        let many: Vec<Value> = (0..5000)
            .map(|n| json!({ "name": format!("p{n}") }))
            .collect();
        prompts(&json!({ "prompts": many }), &mut taken);
        assert_eq!(taken.len(), OFFERS_MAX);
    }

    #[test]
    fn a_prompt_and_a_resource_are_read_as_parts() {
        let read = messages(&json!({ "messages": [
            { "role": "assistant", "content": { "type": "text", "text": "a\u{7}" } },
            { "role": "user", "content": { "type": "resource", "resource": { "text": "inside" } } },
        ] }));
        assert!(read[0].is_assistant && !read[1].is_assistant);
        assert_eq!(read[0].part, Part::Text("a".into()));
        assert_eq!(read[1].part, Part::Text("inside".into()));
        let read = contents(&json!({ "contents": [
            { "uri": "u", "text": "t" },
            { "uri": "u", "blob": "AAAA", "mimeType": "image/png" },
            { "uri": "file:///x", "blob": "AAAA" },
        ] }));
        assert_eq!(read[0], Part::Text("t".into()));
        assert!(matches!(&read[1], Part::Image { mime, .. } if mime == "image/png"));
        assert!(matches!(&read[2], Part::Link { uri, .. } if uri == "file:///x"));
        let mut taken = Vec::new();
        resources(
            &json!({ "resources": [{ "uri": "a", "name": "A" }, { "uri": "a" }, 3] }),
            &mut taken,
        );
        assert_eq!((taken.len(), taken[0].name.as_str()), (1, "A"));
    }
}
