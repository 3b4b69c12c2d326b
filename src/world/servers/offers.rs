//! The prompts and resources of servers, requested when a person wants them.
//!
//! Invariant: nobody waits for it here. The server is started if it is not running, and the result
//! goes to the requester.

use std::sync::Arc;
use std::time::Duration;

use super::live::{LiveServers, RunningServers};
use super::result::shown;
use crate::core::custom::words;
use crate::core::entry::Image;
use crate::core::text::{clip, count, nearest, one_line};
use crate::mcp::connection::{Connection, McpError};
use crate::mcp::offers::{Offers, Prompt, PromptMessage};
use crate::mcp::result::ResultPart;

/// Maximum bytes of a prompt or a resource that are put into a message, as for a file.
const TEXT_MAX_BYTES: usize = 256 * 1024;

/// Maximum characters of an address or a name in an error.
const NAMED_CHARS: usize = 200;

/// Maximum number of existing names that an error lists.
const NAMES_MAX: usize = 5;

/// A person's request to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfferKind {
    /// A list of its prompts and resources.
    List,
    Prompt {
        name: String,
        /// The arguments as they were typed after the name.
        arguments: String,
    },
    Resource {
        uri: String,
    },
}

/// The answer of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfferAnswer {
    List(Offers),
    Words(ServerWords),
}

/// Text of a server for a message of the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerWords {
    pub text: String,
    pub images: Vec<Image>,
    /// The bytes of the images.
    pub blobs: Vec<Vec<u8>>,
}

/// The reason why the server gave nothing, for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferError {
    pub why: String,
    pub hint: Option<String>,
}

impl OfferError {
    /// Returns the error for a session without servers.
    pub fn nobody() -> OfferError {
        OfferError {
            why: "no server can be asked here".to_string(),
            hint: Some("the session has to be open in this process".to_string()),
        }
    }

    /// Splits an error that may end with a hint.
    fn of(error: &str) -> OfferError {
        let (why, hint) = match error.split_once("\nhint: ") {
            Some((why, hint)) => (why, Some(hint.to_string())),
            None => (error, None),
        };
        OfferError {
            why: why.to_string(),
            hint,
        }
    }

    fn with_hint(self, hint: String) -> OfferError {
        OfferError {
            hint: self.hint.or(Some(hint)),
            ..self
        }
    }
}

/// Called once with the result, on the engine's thread.
pub type ServerReply = Arc<dyn Fn(Result<OfferAnswer, OfferError>) + Send + Sync>;

/// A person's request to a server, with the place for the result.
#[derive(Clone)]
pub struct ServerRequest {
    /// The name of the server in the config.
    pub server: String,
    pub wanted: OfferKind,
    pub reply: ServerReply,
}

impl LiveServers {
    /// Starts to handle a request.
    pub(crate) fn offer(&self, request: ServerRequest) {
        let at_hand = self.at_hand(&request.server);
        tokio::spawn(async move {
            let (server, wanted) = (&request.server, &request.wanted);
            let answer = match at_hand {
                Err(why) => Err(OfferError::of(&why)),
                Ok((starting, limit)) => match starting.await {
                    Err(why) => Err(OfferError::of(&format!(
                        "the server {server} cannot be started: {why}"
                    ))
                    .with_hint(format!("rewake mcp doctor {server} looks at it"))),
                    Ok(live) => ask(server, wanted, &live, limit).await,
                },
            };
            (request.reply)(answer);
        });
    }
}

async fn ask(
    server: &str,
    wanted: &OfferKind,
    live: &RunningServers,
    limit: Duration,
) -> Result<OfferAnswer, OfferError> {
    let connection = &live.connection;
    let failed = |error: McpError| OfferError::of(&format!("the server {server}: {error}"));
    match wanted {
        OfferKind::List => {
            let offers = connection.offers(limit).await.map_err(failed)?;
            Ok(OfferAnswer::List(offers))
        }
        OfferKind::Prompt { name, arguments } => {
            let prompt = find(server, name, connection, limit).await?;
            let filled = prompt.fill(&words(arguments)).map_err(|why| {
                let usage = format!("/{server}:{name} {}", prompt.usage());
                OfferError::of(&why).with_hint(usage.trim_end().to_string())
            })?;
            let got = connection.get_prompt(name, &filled, limit).await;
            Ok(OfferAnswer::Words(of_prompt(got.map_err(failed)?)))
        }
        OfferKind::Resource { uri } => {
            let got = connection.read_resource(uri, limit).await;
            let parts = got.map_err(|error| {
                failed(error).with_hint(format!("@{server}: lists the resources that it names"))
            })?;
            if parts.is_empty() {
                let uri = one_line(uri, NAMED_CHARS);
                return Err(OfferError::of(&format!(
                    "the server {server} gave nothing for {uri}"
                )));
            }
            Ok(OfferAnswer::Words(of_parts(parts)))
        }
    }
}

/// Finds the prompt of this name, as the server describes it now.
async fn find(
    server: &str,
    name: &str,
    connection: &Connection,
    limit: Duration,
) -> Result<Prompt, OfferError> {
    let prompts = match connection.known().has_prompts {
        true => connection.prompts(limit).await,
        false => Ok(Vec::new()),
    };
    let prompts =
        prompts.map_err(|error| OfferError::of(&format!("the server {server}: {error}")))?;
    let names: Vec<&str> = prompts.iter().map(|prompt| prompt.name.as_str()).collect();
    let hint = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean /{server}:{near}?"),
        None if names.is_empty() => "it has no prompts".to_string(),
        None => {
            let first = names[..names.len().min(NAMES_MAX)].join(", ");
            format!("it has {}: {first}", count(names.len(), "prompt"))
        }
    };
    let found = prompts.iter().find(|prompt| prompt.name == name).cloned();
    found.ok_or_else(|| {
        let name = one_line(name, NAMED_CHARS);
        OfferError::of(&format!("the server {server} has no prompt {name}")).with_hint(hint)
    })
}

/// Joins the messages in order. The speakers are named unless all messages are the user's.
fn of_prompt(messages: Vec<PromptMessage>) -> ServerWords {
    let is_dialogue = messages.iter().any(|message| message.is_assistant);
    let mut parts = Vec::new();
    for PromptMessage { is_assistant, part } in messages {
        if is_dialogue {
            let who = if is_assistant { "assistant:" } else { "user:" };
            parts.push(ResultPart::Text(who.to_string()));
        }
        parts.push(part);
    }
    of_parts(parts)
}

fn of_parts(parts: Vec<ResultPart>) -> ServerWords {
    let mut words = ServerWords::default();
    let mut lines = Vec::new();
    for part in parts {
        match part {
            ResultPart::Text(text) => lines.push(text),
            ResultPart::Link { uri, name } => lines.push(format!("[{name}: {uri}]")),
            ResultPart::Image { mime, data } => match shown(&data, words.images.len()) {
                Ok((line, image, bytes)) => {
                    lines.push(line);
                    words.images.push(image);
                    words.blobs.push(bytes);
                }
                Err(why) => lines.push(format!("[an image, {mime}, is not shown: it {why}]")),
            },
        }
    }
    let text = lines.join("\n");
    let kept = clip(&text, TEXT_MAX_BYTES);
    words.text = match text.len() <= TEXT_MAX_BYTES {
        true => text,
        false => format!("{kept}\n[cut here: it has {} bytes]", text.len()),
    };
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> ResultPart {
        ResultPart::Text(text.to_string())
    }

    #[test]
    fn server_text_is_bounded_and_parts_without_text_are_named() {
        let words = of_parts(vec![
            text("a"),
            ResultPart::Link {
                uri: "x:1".into(),
                name: "bytes that are not shown".into(),
            },
            ResultPart::Image {
                mime: "image/png".into(),
                data: "AAAA".into(),
            },
        ]);
        assert!(
            words
                .text
                .starts_with("a\n[bytes that are not shown: x:1]\n[an image, image/png, is not"),
            "{}",
            words.text
        );
        let long = of_parts(vec![text(&"ä".repeat(TEXT_MAX_BYTES))]);
        assert!(long.text.len() < TEXT_MAX_BYTES + 100);
        assert!(long.text.ends_with("\n[cut here: it has 524288 bytes]"));
    }

    #[test]
    fn a_prompt_says_who_speaks_only_where_that_is_not_the_user_alone() {
        let message = |is_assistant, words: &str| PromptMessage {
            is_assistant,
            part: text(words),
        };
        assert_eq!(of_prompt(vec![message(false, "do it")]).text, "do it");
        assert_eq!(
            of_prompt(vec![message(false, "a"), message(true, "b")]).text,
            "user:\na\nassistant:\nb"
        );
    }

    #[test]
    fn an_error_is_told_with_what_helps() {
        let not = OfferError::of("it is down\nhint: later").with_hint("never".into());
        assert_eq!(
            (not.why.as_str(), not.hint.as_deref()),
            ("it is down", Some("later"))
        );
    }
}
