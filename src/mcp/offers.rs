//! Prompts and resources, which servers offer to people besides tools. They are bounded, like
//! everything from a server.

use std::collections::BTreeMap;

use serde_json::Value;

use super::clean;
use super::result::{ResultPart, part};

/// Maximum number of prompts and of resources of one server.
const OFFERS_MAX: usize = 512;
const ARGUMENTS_MAX: usize = 32;
const MESSAGES_MAX: usize = 128;
const NAME_MAX_BYTES: usize = 200;
const URI_MAX_BYTES: usize = 2048;
const DESCRIPTION_MAX_BYTES: usize = 2048;

/// Maximum size of the text of a prompt or a resource.
const TEXT_MAX_BYTES: usize = 8 * 1024 * 1024;

/// The prompts and resources of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offers {
    pub prompts: Vec<Prompt>,
    pub resources: Vec<Resource>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Name on the server.
    pub name: String,
    pub description: String,
    pub arguments: Vec<PromptArgument>,
}

impl Prompt {
    /// Returns the arguments as text for the user: `<city> [state]`.
    pub fn usage(&self) -> String {
        let named = self.arguments.iter().map(|argument| {
            let name = &argument.name;
            match argument.is_required {
                true => format!("<{name}>"),
                false => format!("[{name}]"),
            }
        });
        named.collect::<Vec<String>>().join(" ")
    }

    /// Assigns the words after the prompt's name to its arguments, in order. The last argument
    /// takes the rest.
    ///
    /// # Errors
    /// Returns a text that names the missing arguments or the surplus words.
    pub fn fill(&self, words: &[String]) -> Result<BTreeMap<String, String>, String> {
        let missing = self.arguments.iter().skip(words.len());
        let missing: Vec<&str> = missing
            .filter(|argument| argument.is_required)
            .map(|argument| argument.name.as_str())
            .collect();
        if !missing.is_empty() {
            return Err(format!("it needs {}", missing.join(" and ")));
        }
        if self.arguments.is_empty() && !words.is_empty() {
            return Err("it takes no arguments".to_string());
        }
        let last = self.arguments.len().saturating_sub(1);
        let filled = self.arguments.iter().zip(words).enumerate();
        let filled = filled.map(|(at, (argument, word))| {
            let value = match at == last {
                true => words[at..].join(" "),
                false => word.clone(),
            };
            (argument.name.clone(), value)
        });
        Ok(filled.collect())
    }
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
    /// Whether the message is from the assistant, not from the user.
    pub is_assistant: bool,
    pub part: ResultPart,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub uri: String,
    pub name: String,
    pub description: String,
    pub mime: String,
}

/// Reads the prompts of a page of `prompts/list`, in order. Prompts without a name are left out.
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

/// Reads the resources of a page of `resources/list`, in order.
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

/// Reads the answer to `prompts/get`.
pub(super) fn messages(result: &Value) -> Vec<PromptMessage> {
    let messages = result["messages"].as_array().into_iter().flatten();
    let mut left = TEXT_MAX_BYTES;
    let read = messages.take(MESSAGES_MAX).map(|message| PromptMessage {
        is_assistant: message["role"] == "assistant",
        part: bounded(part(&message["content"], left), &mut left),
    });
    read.collect()
}

/// Reads the answer to `resources/read`: text, images, and links to other content.
pub(super) fn contents(result: &Value) -> Vec<ResultPart> {
    let contents = result["contents"].as_array().into_iter().flatten();
    let mut left = TEXT_MAX_BYTES;
    let read = contents.take(MESSAGES_MAX).map(|content| {
        let mime = name(&content["mimeType"]);
        let read = match content["blob"].as_str() {
            Some(data) if mime.starts_with("image/") => ResultPart::Image {
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

fn bounded(part: ResultPart, left: &mut usize) -> ResultPart {
    if let ResultPart::Text(text) = &part {
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
    fn words_become_arguments_in_their_order() {
        let argument = |name: &str, is_required| PromptArgument {
            name: name.into(),
            description: String::new(),
            is_required,
        };
        let mut prompt = Prompt {
            name: "weather".into(),
            description: String::new(),
            arguments: vec![argument("city", true), argument("state", false)],
        };
        assert_eq!(prompt.usage(), "<city> [state]");
        let words = |text: &str| -> Vec<String> { text.split(' ').map(String::from).collect() };
        let filled = |prompt: &Prompt, words: &[String]| {
            prompt
                .fill(words)
                .map(|filled| serde_json::to_string(&filled).unwrap())
        };
        assert_eq!(
            filled(&prompt, &words("Paris")).unwrap(),
            r#"{"city":"Paris"}"#
        );
        assert_eq!(
            filled(&prompt, &words("Paris a b")).unwrap(),
            r#"{"city":"Paris","state":"a b"}"#
        );
        assert_eq!(filled(&prompt, &[]).unwrap_err(), "it needs city");
        prompt.arguments.clear();
        assert_eq!(filled(&prompt, &[]).unwrap(), "{}");
        assert_eq!(
            filled(&prompt, &words("x")).unwrap_err(),
            "it takes no arguments"
        );
    }

    #[test]
    fn a_prompt_and_a_resource_are_read_as_parts() {
        let read = messages(&json!({ "messages": [
            { "role": "assistant", "content": { "type": "text", "text": "a\u{7}" } },
            { "role": "user", "content": { "type": "resource", "resource": { "text": "inside" } } },
        ] }));
        assert!(read[0].is_assistant && !read[1].is_assistant);
        assert_eq!(read[0].part, ResultPart::Text("a".into()));
        assert_eq!(read[1].part, ResultPart::Text("inside".into()));
        let read = contents(&json!({ "contents": [
            { "uri": "u", "text": "t" },
            { "uri": "u", "blob": "AAAA", "mimeType": "image/png" },
            { "uri": "file:///x", "blob": "AAAA" },
        ] }));
        assert_eq!(read[0], ResultPart::Text("t".into()));
        assert!(matches!(&read[1], ResultPart::Image { mime, .. } if mime == "image/png"));
        assert!(matches!(&read[2], ResultPart::Link { uri, .. } if uri == "file:///x"));
        let mut taken = Vec::new();
        resources(
            &json!({ "resources": [{ "uri": "a", "name": "A" }, { "uri": "a" }, 3] }),
            &mut taken,
        );
        assert_eq!((taken.len(), taken[0].name.as_str()), (1, "A"));
    }
}
