//! References of a user to MCP servers: a prompt as `/server:prompt`, resources as `@server:uri`.
//! The server delivers their contents before the message is sent.
//!
//! Invariant: no message is sent if one of its references fails, so none is sent in part.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::{AppContext, CommandLine, NotSaid};
use crate::config::mcp::{ServerState, server_states};
use crate::config::{Env, Loaded};
use crate::core::custom::{self, ServerMention, server_mentions};
use crate::core::entry::{Image, UsedCommand};
use crate::world::{OfferAnswer, OfferError, OfferKind, ServerRequest, ServerWords};

/// Maximum size of the whole message.
const MAX_SAID_BYTES: usize = 1024 * 1024;
/// Maximum number of resources in one message.
const MAX_MENTIONS: usize = 16;

/// A message with the contents of servers that it refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpandedWords {
    pub text: String,
    pub images: Vec<Image>,
    /// The bytes of the images.
    pub blobs: Vec<Vec<u8>>,
    /// The prompt of a server that produced the text.
    pub command: Option<UsedCommand>,
}

impl ExpandedWords {
    fn take_images(&mut self, words: ServerWords) {
        self.images.extend(words.images);
        self.blobs.extend(words.blobs);
    }
}

/// Passes a request on to the engine.
pub type AskServer<'a> = &'a dyn Fn(ServerRequest);

/// The servers that are defined here.
pub struct DefinedServers<'a> {
    env: &'a Env,
    loaded: &'a Loaded,
}

impl AppContext {
    /// Returns the servers that are defined here, trusted or not.
    pub fn defined_servers(&self) -> DefinedServers<'_> {
        DefinedServers {
            env: &self.env,
            loaded: &self.loaded,
        }
    }

    /// Returns whether a typed command is a prompt of a server. A command from a file has priority.
    pub fn is_server_prompt(&self, typed: &CommandLine, is_taken: impl Fn(&str) -> bool) -> bool {
        let is_file = || {
            let found = self.command_files().commands(&is_taken).found;
            found.iter().any(|command| command.name == typed.name)
        };
        self.defined_servers().named(&typed.name).is_some() && !is_file()
    }
}

impl DefinedServers<'_> {
    /// Returns the server, usable or not, whose prompt this command may name.
    pub fn named(&self, command: &str) -> Option<String> {
        let (server, _) = command.split_once(':')?;
        self.is_defined(server).then(|| server.to_string())
    }

    /// Returns the resources in a text that name a server defined here.
    pub fn mentioned_resources(&self, text: &str) -> Vec<ServerMention> {
        let mut mentions = server_mentions(text);
        mentions.retain(|mention| self.is_defined(&mention.server));
        mentions
    }

    /// Returns the message for a prompt of a server.
    ///
    /// # Errors
    /// [`NotSaid`]; nothing is sent.
    pub async fn expand_prompt(
        &self,
        typed: &CommandLine,
        ask: AskServer<'_>,
    ) -> Result<ExpandedWords, NotSaid> {
        let (server, prompt) = typed.name.split_once(':').unwrap_or_default();
        let wanted = OfferKind::Prompt {
            name: prompt.to_string(),
            arguments: typed.arguments.clone(),
        };
        let failed = |not: OfferError| {
            NotSaid::Failed(
                format!("/{} was not sent: {}", typed.name, not.why),
                not.hint,
            )
        };
        let words = self.ask(server, wanted, ask).await.map_err(failed)?;
        let mut said = ExpandedWords {
            text: format!(
                "(from the MCP server {server}, its prompt {prompt})\n\n{}",
                words.text
            ),
            command: Some(UsedCommand {
                name: typed.name.clone(),
                arguments: typed.arguments.clone(),
                model: None,
            }),
            ..ExpandedWords::default()
        };
        said.take_images(words);
        Ok(said)
    }

    /// Returns the text, with the mentioned resources appended.
    ///
    /// # Errors
    /// [`NotSaid`]; nothing is sent.
    pub async fn append_resources(
        &self,
        text: &str,
        mentions: &[ServerMention],
        ask: AskServer<'_>,
    ) -> Result<ExpandedWords, NotSaid> {
        let failed =
            |why: String, hint| NotSaid::Failed(format!("your message was not sent: {why}"), hint);
        if mentions.len() > MAX_MENTIONS {
            let why = format!("it mentions more than {MAX_MENTIONS} resources of servers");
            return Err(failed(why, None));
        }
        let mut said = ExpandedWords {
            text: text.to_string(),
            ..ExpandedWords::default()
        };
        for ServerMention { server, uri } in mentions {
            let wanted = OfferKind::Resource { uri: uri.clone() };
            let words = self
                .ask(server, wanted, ask)
                .await
                .map_err(|not| failed(format!("@{server}:{uri}: {}", not.why), not.hint))?;
            let named = format!("@{server}:{uri} (from the MCP server {server})");
            custom::append_mentioned_file(&mut said.text, &named, &words.text);
            said.take_images(words);
            if said.text.len() > MAX_SAID_BYTES {
                let why = format!("with its resources it has more than {MAX_SAID_BYTES} bytes");
                return Err(failed(why, None));
            }
        }
        Ok(said)
    }

    async fn ask(
        &self,
        server: &str,
        wanted: OfferKind,
        ask: AskServer<'_>,
    ) -> Result<ServerWords, OfferError> {
        self.check_usable(server)?;
        let (sender, answer) = oneshot::channel();
        let sender = Mutex::new(Some(sender));
        let reply = move |answer| {
            let sender = sender.lock().unwrap_or_else(PoisonError::into_inner).take();
            // The receiver may be gone.
            let _ = sender.map(|sender| sender.send(answer));
        };
        ask(ServerRequest {
            server: server.to_string(),
            wanted,
            reply: Arc::new(reply),
        });
        match answer.await.unwrap_or_else(|_| Err(OfferError::nobody()))? {
            OfferAnswer::Words(words) => Ok(words),
            OfferAnswer::List(_) => Err(OfferError::nobody()),
        }
    }

    fn check_usable(&self, server: &str) -> Result<(), OfferError> {
        let (why, hint) = match self.state(server) {
            Some(ServerState::Usable(_)) => return Ok(()),
            Some(ServerState::Off) => ("is switched off in the config".to_string(), None),
            Some(ServerState::Untrusted) => (
                "comes with this folder and is not trusted".to_string(),
                Some("rewake trust shows it, and trusts it as it is now".to_string()),
            ),
            Some(ServerState::Wrong(why, hint)) => (format!("cannot be used: {why}"), hint),
            Some(ServerState::Shadowed(_)) | None => ("is not configured".to_string(), None),
        };
        Err(OfferError {
            why: format!("the server {server} {why}"),
            hint,
        })
    }

    fn is_defined(&self, name: &str) -> bool {
        let mut servers = self.loaded.servers.iter();
        servers.any(|defined| defined.name == name)
    }

    /// Returns the state of the definition that is used, else of the first one.
    fn state(&self, name: &str) -> Option<ServerState> {
        let states = server_states(self.env, self.loaded).into_iter();
        let of_name = states.filter(|(defined, _)| defined.name == name);
        let mut states: Vec<ServerState> = of_name.map(|(_, state)| state).collect();
        let is_used = |state: &ServerState| matches!(state, ServerState::Usable(_));
        let used = states.iter().position(is_used).unwrap_or(0);
        (used < states.len()).then(|| states.swap_remove(used))
    }
}
