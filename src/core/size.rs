//! Estimated sizes of the parts of a request, in bytes. Images count by their cost.

use super::budget::{BYTES_PER_TOKEN, IMAGE_TOKENS};
use super::cut::is_cut;
use super::entry::{Block, Entry, Image, Outcome, PromptPrefix, Record, ToolSpec};
use super::quoted::escape_tags;
use super::{hook, rewind};

/// Factor by which the user's messages may be longer than the output of a tool.
pub(super) const SAID_FACTOR: usize = 4;

/// Size of a call, a result or a message without its text.
pub(crate) const PART_BYTES: usize = 80;

/// Returns the bytes of the system prompt, the tools and the instructions.
pub fn prefix_bytes(layers: &PromptPrefix) -> usize {
    let tools: usize = layers.tools.iter().map(tool_bytes).sum();
    layers.system.len() + layers.instructions.len() + tools + PART_BYTES
}

/// Estimates the bytes of a tool in a request.
pub fn tool_bytes(tool: &ToolSpec) -> usize {
    tool.name.len() + tool.description.len() + tool.schema.to_string().len() + PART_BYTES
}

/// Approximate size of an image.
pub const IMAGE_BYTES: usize = (IMAGE_TOKENS as f64 * BYTES_PER_TOKEN) as usize;
/// Approximate size of the line that replaces an image which is not sent.
pub const UNSENT_BYTES: usize = 200;

/// Returns the images that an entry adds to requests: those of a message, or of a result that was
/// not interrupted.
pub fn images_of(entry: &Entry) -> &[Image] {
    match entry {
        Entry::Said { images, .. } => images,
        Entry::Finished {
            outcome: Outcome::Done { output } | Outcome::Error { output },
            ..
        } => &output.images,
        _ => &[],
    }
}

/// Estimates the bytes of a record in a request.
pub fn record_bytes(record: &Record, inline: usize) -> usize {
    let sent = |len: usize, most: usize| if is_cut(len, most) { most } else { len };
    let text = |len: usize| sent(len, inline) + PART_BYTES;
    let images = images_of(&record.entry).len() * IMAGE_BYTES;
    match &record.entry {
        Entry::Said { text: said, .. } => {
            sent(said.len(), inline.saturating_mul(SAID_FACTOR)) + PART_BYTES + images
        }
        Entry::Replied { blocks, .. } => blocks
            .iter()
            .map(|block| match block {
                Block::Text { text: said, .. } => text(said.len()),
                Block::Thinking { .. } => thinking_bytes(block).min(inline),
                Block::Call {
                    name, arguments, ..
                } => text(arguments.len()) + name.len() + PART_BYTES,
            })
            .sum(),
        Entry::Finished { outcome, .. } => {
            let (output, extra) = match outcome {
                Outcome::Done { output } | Outcome::Error { output } => (Some(output), 0),
                Outcome::Interrupted { output, why } => (Some(output), why.len()),
                Outcome::Denied { reason } => (None, reason.len()),
            };
            text(output.map_or(0, |o| o.text.len()) + extra) + PART_BYTES + images
        }
        // The escape of a tag adds bytes.
        Entry::Noted { text: noted, .. } => text(escape_tags(noted).len()),
        Entry::Hooked { .. } => {
            hook::note(&record.entry).map_or(0, |t| text(escape_tags(&t).len()))
        }
        Entry::Restored { .. } => text(rewind::told(&record.entry).map_or(0, |t| t.len())),
        Entry::Forked {
            folder: Some(folder),
            from_replica: None,
            ..
        } => text(rewind::folder_copy_note(folder).len()),
        Entry::Checked { told, .. } => text(told.as_ref().map_or(0, String::len)),
        Entry::Stopped { draft, .. } => text(draft.as_ref().map_or(0, String::len)),
        _ => 0,
    }
}

fn thinking_bytes(block: &Block) -> usize {
    match block {
        Block::Thinking { text, sealed } => {
            text.len() + sealed.as_ref().map_or(0, |s| s.to_string().len()) + PART_BYTES
        }
        Block::Text { .. } | Block::Call { .. } => 0,
    }
}
