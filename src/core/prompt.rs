//! State -> Request: the messages of the model are a projection of the log.
//!
//! The projection is valid by construction: results stand directly behind their calls,
//! roles alternate, ids are unique. It invents nothing: a call without a result is never
//! projected, because `next` does not ask the model while one is open.

use serde_json::Value;

use super::budget::{BYTES_PER_TOKEN, Budget, IMAGE_TOKENS};
use super::entry::{BlobRef, Block, CallId, Entry, Image, Outcome, Record, Seq, ToolSpec};
use super::state::State;
use super::text::head_tail;
use super::unsent;

/// A request in no provider's form. The protocols in `crate::model` put it on the wire.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// `provider/model`.
    pub model: String,
    /// Layer 1: the system prompt.
    pub system: String,
    /// Layer 1: the tools.
    pub tools: Vec<ToolSpec>,
    /// Layer 2: instructions. May be empty. Sent as a second system text.
    pub instructions: String,
    /// Roles alternate, the first is the user's, the last is the user's.
    pub messages: Vec<Message>,
    /// Room for the answer, tokens.
    pub max_tokens: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub role: Role,
    pub parts: Vec<Part>,
    /// The provider may cache everything up to here.
    pub cache: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Never empty.
    Text {
        text: String,
        signature: Option<String>,
    },
    /// The bytes are in the blobs of the store.
    Image { media_type: String, blob: BlobRef },
    /// Only in the messages of the model that made it.
    Thinking { text: String, sealed: Option<Value> },
    Call {
        /// Ours ([`super::entry::CallId::wire`]); unique.
        id: String,
        name: String,
        /// Always an object.
        arguments: Value,
        signature: Option<String>,
    },
    /// The one result of the call with this id. In a user message, before everything else.
    Result {
        id: String,
        name: String,
        text: String,
        images: Vec<(String, BlobRef)>,
        is_error: bool,
    },
}

/// The request that is sent now: the same bytes for the same log, whenever it is asked.
pub fn request(state: &State, budget: &Budget, inline_max_bytes: usize) -> Request {
    let mut messages = messages(state, budget.inline_bytes(inline_max_bytes));
    if state.preface.is_some()
        && let Some(first) = messages.first_mut()
    {
        first.cache = true;
    }
    if let Some(last) = messages.last_mut() {
        last.cache = true;
    }
    Request {
        model: state.model.clone(),
        system: state.layers.system.clone(),
        tools: state.layers.tools.clone(),
        instructions: state.layers.instructions.clone(),
        messages,
        max_tokens: budget.answer,
    }
}

/// The messages of the log. Valid for every prefix of every log: a call that has no result
/// yet is left out. A single text over `inline` bytes is head, tail and its address.
pub fn messages(state: &State, inline: usize) -> Vec<Message> {
    let mut out = Messages::new(inline);
    if let Some(preface) = &state.preface {
        out.push(Role::User, [plain(preface.text.clone())]);
    }
    for record in &state.context {
        out.record(record, &state.model, state.image_refusal(record.seq));
    }
    out.finish()
}

/// The user's own words are given more room than what a tool prints.
const SAID_FACTOR: usize = 4;

/// What a call, a result or a message costs besides its text.
const PART_BYTES: usize = 80;

/// Bytes of a request, about; images are counted by what they cost.
pub fn request_bytes(state: &State, inline: usize) -> usize {
    let preface = state
        .preface
        .as_ref()
        .map_or(0, |p| p.text.len() + PART_BYTES);
    let bytes = |record: &Record| match state.image_refusal(record.seq) {
        None => bytes_of(record, inline),
        Some(_) => {
            let images = images_of(&record.entry).len();
            bytes_of(record, inline) - images * (IMAGE_BYTES - UNSENT_BYTES)
        }
    };
    let records: usize = state.context.iter().map(bytes).sum();
    layers_bytes(state) + preface + records
}

/// What an image costs, about, and the line that stands for one that is not sent.
const IMAGE_BYTES: usize = (IMAGE_TOKENS as f64 * BYTES_PER_TOKEN) as usize;
const UNSENT_BYTES: usize = 200;

fn images_of(entry: &Entry) -> &[Image] {
    match entry {
        Entry::Said { images, .. } => images,
        Entry::Finished {
            outcome: Outcome::Done { output } | Outcome::Error { output },
            ..
        } => &output.images,
        _ => &[],
    }
}

/// Bytes of the system prompt, the tools and the instructions.
pub fn layers_bytes(state: &State) -> usize {
    let layers = &state.layers;
    let tools: usize = layers.tools.iter().map(tool_bytes).sum();
    layers.system.len() + layers.instructions.len() + tools + PART_BYTES
}

/// A tool as it stands in a request, about.
pub fn tool_bytes(tool: &ToolSpec) -> usize {
    tool.name.len() + tool.description.len() + tool.schema.to_string().len() + PART_BYTES
}

/// Bytes of a record in a request, about.
pub fn bytes_of(record: &Record, inline: usize) -> usize {
    let text = |len: usize| len.min(inline) + PART_BYTES;
    let images = images_of(&record.entry).len() * IMAGE_BYTES;
    match &record.entry {
        Entry::Said { text: said, .. } => {
            said.len().min(inline.saturating_mul(SAID_FACTOR)) + PART_BYTES + images
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
        Entry::Noted { text: noted, .. } => text(noted.len()),
        Entry::Stopped { draft } => text(draft.as_ref().map_or(0, String::len)),
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

/// Head and tail of what is too large, with the address of the whole.
fn inlined(text: &str, inline: usize, seq: Seq) -> String {
    if text.len() <= inline {
        return text.to_string();
    }
    let marker = format!(
        "\n[… of {} bytes the middle is left out; memory_page reads the whole at entry {seq} …]\n",
        text.len()
    );
    head_tail(text, inline, &marker).into_owned()
}

/// Arguments that are too large, each text of them shortened.
fn shortened(value: Value, inline: usize, seq: Seq) -> Value {
    match value {
        Value::String(text) => Value::String(inlined(&text, inline, seq)),
        Value::Array(items) => items
            .into_iter()
            .map(|v| shortened(v, inline, seq))
            .collect(),
        Value::Object(map) => map
            .into_iter()
            .map(|(key, v)| (key, shortened(v, inline, seq)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other,
    }
}

/// Messages in the making. The last answer waits until its results are known.
struct Messages {
    inline: usize,
    done: Vec<Message>,
    /// Parts of the last answer, and the results of its calls in their order.
    answer: Vec<Part>,
    calls: Vec<(CallId, String, Option<Part>)>,
}

impl Messages {
    fn new(inline: usize) -> Messages {
        Messages {
            inline,
            done: Vec::new(),
            answer: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// `refused`: why its images are not sent.
    fn record(&mut self, record: &Record, model: &str, refused: Option<&str>) {
        match &record.entry {
            Entry::Said { text, images, .. } => {
                self.flush();
                let images = images.iter().map(|i| match refused {
                    Some(why) => plain(unsent::line(i, why)),
                    None => Part::Image {
                        media_type: i.media_type.clone(),
                        blob: i.blob.clone(),
                    },
                });
                let words = match text.trim().is_empty() && images.len() == 0 {
                    true => "(an empty message)".to_string(),
                    false => inlined(text, self.inline.saturating_mul(SAID_FACTOR), record.seq),
                };
                self.push(Role::User, std::iter::once(plain(words)).chain(images));
            }
            Entry::Replied {
                blocks, model: by, ..
            } => {
                self.flush();
                self.answer(record.seq, blocks, by == model);
            }
            Entry::Finished { call, outcome, .. } => {
                self.result(record.seq, *call, outcome, refused);
            }
            Entry::Stopped { draft: Some(draft) } => {
                self.flush();
                self.push(
                    Role::Assistant,
                    [plain(inlined(draft, self.inline, record.seq))],
                );
            }
            Entry::Noted { text, .. } => {
                self.flush();
                self.push(
                    Role::User,
                    [plain(format!(
                        "<note>\n{}\n</note>",
                        inlined(text, self.inline, record.seq)
                    ))],
                );
            }
            Entry::Forked { .. } => {
                self.close_all(
                    "interrupted: this call belongs to the other branch; it may have happened there",
                );
            }
            _ => {}
        }
    }

    fn answer(&mut self, reply: Seq, blocks: &[Block], same_model: bool) {
        for block in blocks {
            match block {
                Block::Text { text, signature } => self.answer.push(Part::Text {
                    text: inlined(text, self.inline, reply),
                    signature: signature.clone().filter(|_| same_model),
                }),
                Block::Thinking { text, sealed } if same_model => {
                    self.answer.push(Part::Thinking {
                        text: text.clone(),
                        sealed: sealed.clone(),
                    })
                }
                Block::Thinking { .. } => {}
                Block::Call {
                    name,
                    arguments,
                    signature,
                    ..
                } => {
                    let index = self.calls.len() as u32;
                    let id = CallId { reply, index };
                    self.answer.push(Part::Call {
                        id: id.wire(),
                        name: name.clone(),
                        arguments: self.arguments(arguments, reply),
                        signature: signature.clone().filter(|_| same_model),
                    });
                    self.calls.push((id, name.clone(), None));
                }
            }
        }
    }

    fn arguments(&self, arguments: &str, reply: Seq) -> Value {
        let value = object(arguments);
        if arguments.len() <= self.inline {
            return value;
        }
        let texts = arguments.len() / self.inline.max(1) + 2;
        let each = shortened(value, (self.inline / texts).max(100), reply);
        match each.to_string().len() <= self.inline {
            true => each,
            false => serde_json::json!({ "shortened": inlined(arguments, self.inline, reply) }),
        }
    }

    fn result(&mut self, seq: Seq, call: CallId, outcome: &Outcome, refused: Option<&str>) {
        if let Some((_, name, part)) = self.calls.iter_mut().find(|(id, ..)| *id == call) {
            let (text, is_error) = told(outcome);
            let mut text = inlined(&text, self.inline, seq);
            let mut images = match outcome {
                Outcome::Done { output } | Outcome::Error { output } => &output.images[..],
                Outcome::Denied { .. } | Outcome::Interrupted { .. } => &[],
            };
            if let Some(why) = refused {
                for image in std::mem::take(&mut images) {
                    text.push('\n');
                    text.push_str(&unsent::line(image, why));
                }
            }
            *part = Some(Part::Result {
                id: call.wire(),
                name: name.clone(),
                text,
                images: images
                    .iter()
                    .map(|i| (i.media_type.clone(), i.blob.clone()))
                    .collect(),
                is_error,
            });
        }
    }

    fn close_all(&mut self, why: &str) {
        for (id, name, part) in &mut self.calls {
            part.get_or_insert_with(|| Part::Result {
                id: id.wire(),
                name: name.clone(),
                text: why.to_string(),
                images: Vec::new(),
                is_error: true,
            });
        }
    }

    /// Puts the last answer down, with the results directly behind it.
    fn flush(&mut self) {
        let calls = std::mem::take(&mut self.calls);
        let open: Vec<String> = calls
            .iter()
            .filter(|(.., part)| part.is_none())
            .map(|(id, ..)| id.wire())
            .collect();
        let mut answer = std::mem::take(&mut self.answer);
        answer.retain(|p| !matches!(p, Part::Call { id, .. } if open.contains(id)));
        self.push(Role::Assistant, answer);
        self.push(Role::User, calls.into_iter().filter_map(|(.., part)| part));
    }

    /// Adds to the last message when it has the same role, so that roles alternate.
    fn push(&mut self, role: Role, parts: impl IntoIterator<Item = Part>) {
        let mut parts: Vec<Part> = parts
            .into_iter()
            .filter(|p| !matches!(p, Part::Text { text, .. } if text.trim().is_empty()))
            .collect();
        // Thinking alone says nothing, and no provider takes it.
        if parts.iter().all(|p| matches!(p, Part::Thinking { .. })) {
            return;
        }
        match self.done.last_mut() {
            Some(last) if last.role == role => last.parts.append(&mut parts),
            _ => self.done.push(Message {
                role,
                parts,
                cache: false,
            }),
        }
    }

    fn finish(mut self) -> Vec<Message> {
        self.flush();
        // A chain may begin with the model's words when what came before has left the context.
        if self.done.first().is_some_and(|m| m.role == Role::Assistant) {
            let parts = vec![plain("(the conversation goes on)".to_string())];
            self.done.insert(
                0,
                Message {
                    role: Role::User,
                    parts,
                    cache: false,
                },
            );
        }
        self.done
    }
}

fn plain(text: String) -> Part {
    Part::Text {
        text,
        signature: None,
    }
}

/// The arguments as a valid object, whatever the model wrote.
fn object(arguments: &str) -> Value {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(map)) => Value::Object(map),
        _ if arguments.trim().is_empty() => Value::Object(Default::default()),
        _ => serde_json::json!({ "malformed": arguments }),
    }
}

/// What the model is told of an outcome, and whether it is an error.
pub fn told(outcome: &Outcome) -> (String, bool) {
    match outcome {
        Outcome::Done { output } if output.text.is_empty() => ("(no output)".to_string(), false),
        Outcome::Done { output } => (output.text.clone(), false),
        Outcome::Error { output } if output.text.is_empty() => ("error".to_string(), true),
        Outcome::Error { output } => (output.text.clone(), true),
        Outcome::Denied { reason } => (format!("denied: {reason}"), true),
        Outcome::Interrupted { output, why } if output.text.is_empty() => {
            (format!("[interrupted: {why}]"), true)
        }
        Outcome::Interrupted { output, why } => {
            (format!("{}\n[interrupted: {why}]", output.text), true)
        }
    }
}
