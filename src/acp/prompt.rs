//! Prompts of the client: their parts become one message.
//!
//! Resource links are not fetched. Embedded text is a part of the message, never a rule.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::wire::{ContentBlock, INVALID_PARAMS, Resource, RpcError};
use crate::core::entry::{Image, UsedCommand, Via};
use crate::core::image;
use crate::session::{AppContext, CommandLine, NotSaid, check_message};
use crate::store::{Message, blob_ref};

/// Origin of rows of the inbox and of signals, as entries record it.
pub(super) const ORIGIN: &str = "acp";

/// The command that continues a session without a message.
pub(super) const CONTINUE: &str = "continue";

/// A prompt, ready to be stored.
pub(super) enum Said {
    Message {
        message: Message,
        /// The bytes of its images.
        blobs: Vec<Vec<u8>>,
    },
    /// `/continue`.
    Continue,
}

/// Returns the message of a prompt. `is_own` knows the commands of the screen.
///
/// # Errors
/// A part cannot be sent, or the prompt is a command that cannot be used.
pub(super) fn message(
    ctx: &AppContext,
    blocks: Vec<ContentBlock>,
    is_own: fn(&str) -> bool,
) -> Result<Said, RpcError> {
    let (mut text, mut embedded) = (String::new(), String::new());
    let mut pictures = Pictures::default();
    for block in blocks {
        match block {
            ContentBlock::Text { text: more } => text.push_str(&more),
            ContentBlock::Image { data } => pictures.add(&data)?,
            ContentBlock::Audio {} => return Err(refused("audio is not supported")),
            ContentBlock::ResourceLink { name, uri } => {
                text.push_str(&format!("[@{name}]({})", path_of(&uri)));
            }
            ContentBlock::Resource { resource } => {
                text.push_str(&format!("@{}", path_of(&resource.uri)));
                embed(resource, &mut embedded, &mut pictures)?;
            }
        }
    }
    let mut command = None;
    if let Some(typed) = command_line(&text) {
        if typed.name == CONTINUE {
            return Ok(Said::Continue);
        }
        (text, command) = expanded(ctx, &typed, is_own)?;
    }
    text.push_str(&embedded);
    let message = Message {
        images: pictures.images,
        command,
        origin: Some(ORIGIN.to_string()),
        ..Message::new(text.replace('\0', "\u{2400}"), Via::Prompt)
    };
    check_message(&message)?;
    Ok(Said::Message {
        message,
        blobs: pictures.blobs,
    })
}

/// Returns the command of a text that begins with a slash and a word. A path does not count.
fn command_line(text: &str) -> Option<CommandLine> {
    let typed = CommandLine::parse(text).filter(|_| text.starts_with('/'))?;
    (!typed.name.is_empty() && !typed.name.contains(['/', '.'])).then_some(typed)
}

fn expanded(
    ctx: &AppContext,
    typed: &CommandLine,
    is_own: fn(&str) -> bool,
) -> Result<(String, Option<UsedCommand>), RpcError> {
    match ctx.expand(typed, is_own) {
        Ok(expanded) => Ok((expanded.text, Some(expanded.command))),
        Err(NotSaid::Untrusted(untrusted)) => {
            let what = format!(
                "/{} was not sent: {} comes with this folder and is not trusted",
                typed.name, untrusted.path
            );
            Err(refused(what).with_hint(Some("read it; `rewake trust` trusts it as it is now")))
        }
        Err(NotSaid::Failed(why, hint)) => Err(refused(why).with_hint(hint)),
    }
}

/// The images of a prompt.
#[derive(Default)]
struct Pictures {
    images: Vec<Image>,
    blobs: Vec<Vec<u8>>,
}

impl Pictures {
    fn add(&mut self, data: &str) -> Result<(), RpcError> {
        let bytes = STANDARD.decode(data).ok();
        let bytes = bytes.ok_or_else(|| refused("an image is not base64"))?;
        let known = image::check(&bytes);
        let known = known.map_err(|why| refused(format!("cannot send an image: it {why}")))?;
        self.images.push(Image {
            media_type: known.media_type.to_string(),
            blob: blob_ref(&bytes),
        });
        self.blobs.push(bytes);
        Ok(())
    }
}

fn embed(
    resource: Resource,
    embedded: &mut String,
    pictures: &mut Pictures,
) -> Result<(), RpcError> {
    let place = path_of(&resource.uri);
    match resource {
        Resource {
            text: Some(text), ..
        } => {
            embedded.push_str(&format!(
                "\n\n<resource uri=\"{place}\">\n{text}\n</resource>"
            ));
            Ok(())
        }
        Resource {
            blob: Some(blob), ..
        } => pictures.add(&blob),
        Resource { .. } => Err(refused("a resource has no text and no blob")),
    }
}

/// Returns the path of a `file:` address. Other addresses stay as they are.
fn path_of(uri: &str) -> &str {
    match uri.strip_prefix("file://") {
        Some(path) if path.starts_with('/') => path,
        _ => uri,
    }
}

fn refused(why: impl Into<String>) -> RpcError {
    RpcError::new(INVALID_PARAMS, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_not_a_command() {
        let name = |text: &str| command_line(text).map(|typed| typed.name);
        assert_eq!(name("/init now").as_deref(), Some("init"));
        assert_eq!(name("/usr/bin/env is missing"), None);
        assert_eq!(name("/ a"), None);
        assert_eq!(name(" /init"), None);
        assert_eq!(name("look at /init"), None);
    }

    #[test]
    fn the_address_of_a_file_becomes_its_path() {
        assert_eq!(path_of("file:///a/b.rs#L1"), "/a/b.rs#L1");
        assert_eq!(path_of("https://a.b/c"), "https://a.b/c");
    }
}
