//! `--input-format stream-json`: lines on stdin that control the run, one JSON object each.
//!
//! Each line becomes the same row of the store as `rewake send`, `allow` or `set` writes. It is
//! acknowledged with `taken` after the row is on disk, or with `refused` and the reason.
//!
//! Invariant: a line with an ID takes effect at most once per session. The rows and entries that it
//! became name it as their origin. A stop that found nothing to stop leaves no entry.

use std::cell::Cell;
use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::print::out;
use crate::core::entry::{CallId, Entry, Image, Seq, Verdict, Via};
use crate::core::form::FormAnswer;
use crate::core::signal::Signal;
use crate::core::text::one_line;
use crate::report::{InputLine, next_line};
use crate::session::{
    AppContext, QuestionChoice, Session, SessionError, SettingsChange, SteerError, decode_image,
    denial,
};
use crate::store::{Message, SessionInfo, Store, StoreError};

/// Maximum size of a line.
const MAX_LINE_BYTES: usize = 10 * 1024 * 1024;

/// Maximum length of an ID.
const MAX_ID_CHARS: usize = 200;

/// The origin of rows and entries, which the ID of a line follows after a colon.
const ORIGIN: &str = "stdin";

/// The origin of the limit that a line set beside other settings.
const LIMIT_ORIGIN: &str = "stdin-limit";

/// Number of entries of the log that are read at once.
const ENTRIES_AT_ONCE: Seq = 1_000;

/// Interval in which the end of the input looks whether all of its signals were obeyed, and the
/// longest time that it waits.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const OBEYED_WITHIN: Duration = Duration::from_secs(30);

/// Settings that a line can change.
const SETTINGS: &[&str] = &[
    "model",
    "mode",
    "effort",
    "temperature",
    "turns",
    "usd",
    "tokens",
];

/// A line of the input.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Say {
        #[serde(default)]
        text: String,
        #[serde(default)]
        images: Vec<SentImage>,
    },
    Allow {
        call: Option<CallName>,
    },
    Deny {
        call: Option<CallName>,
        reason: Option<String>,
    },
    Answer {
        call: Option<CallName>,
        asked: Option<Seq>,
        answer: String,
        #[serde(default)]
        values: Map<String, Value>,
    },
    Stop {},
    /// With [`SETTINGS`].
    Set(Map<String, Value>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SentImage {
    /// Base64.
    data: String,
}

/// Why a line had no effect.
struct Refused(String);

impl From<String> for Refused {
    fn from(why: String) -> Refused {
        Refused(why)
    }
}

impl From<SteerError> for Refused {
    fn from(error: SteerError) -> Refused {
        Refused(error.with_hint())
    }
}

/// The input as the run sees it. Without `--input-format` it ends at once.
pub(super) struct Input {
    shared: Option<Arc<Shared>>,
    /// A line says that the run waits.
    said_waiting: Cell<bool>,
}

/// The end of the input, which the thread that reads it sets.
#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    over: Notify,
}

/// Tells the run that no more lines come, also after a panic.
struct InputEnd(Arc<Shared>);

impl Drop for InputEnd {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        self.0.over.notify_waiters();
    }
}

impl Input {
    /// Returns an input that has ended.
    pub(super) fn none() -> Rc<Input> {
        Rc::new(Input {
            shared: None,
            said_waiting: Cell::new(false),
        })
    }

    /// Starts to read stdin for this session.
    ///
    /// # Errors
    /// The store cannot be read, or the thread cannot be started.
    pub(super) fn read(ctx: &AppContext, session: &Session) -> Result<Rc<Input>, SessionError> {
        let shared = Arc::new(Shared::default());
        let mut reader = Reader {
            ctx: ctx.clone(),
            info: session.log.store.history().find(&session.id)?,
            known: known_origins(
                &session.log.store,
                &session.id,
                session.log.state.next_seq(),
            )?,
            store: ctx.open_store()?,
        };
        let over = InputEnd(Arc::clone(&shared));
        std::thread::Builder::new()
            .name("stdin".to_string())
            .spawn(move || {
                reader.read_lines(&mut BufReader::new(std::io::stdin().lock()));
                reader.wait_until_obeyed();
                drop(over);
            })
            .map_err(SessionError::Runtime)?;
        Ok(Rc::new(Input {
            shared: Some(shared),
            said_waiting: Cell::new(false),
        }))
    }

    /// Returns whether more lines may come.
    pub(super) fn is_open(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| !shared.is_over.load(Ordering::Acquire))
    }

    /// Waits until no more lines come. Without an input it never returns.
    pub(super) async fn ended(&self) {
        match &self.shared {
            None => std::future::pending().await,
            Some(shared) => {
                let mut over = std::pin::pin!(shared.over.notified());
                // The end may come between the look and the wait.
                over.as_mut().enable();
                if !shared.is_over.load(Ordering::Acquire) {
                    over.await;
                }
            }
        }
    }

    /// Prints once that the run waits for a line.
    pub(super) fn waits(&self) {
        if !self.said_waiting.replace(true) {
            out(&json!({ "type": "waiting" }).to_string());
        }
    }

    pub(super) fn works(&self) {
        self.said_waiting.set(false);
    }
}

/// Returns the origins of the rows and entries that lines with an ID became. `end` is the number
/// after the last entry.
///
/// # Errors
/// The store cannot be read.
pub fn known_origins(
    store: &Store,
    session: &str,
    end: Seq,
) -> Result<HashSet<String>, StoreError> {
    let queued = store.inbox().queued(session)?.into_iter();
    let signals = store.inbox().signals(session)?.into_iter();
    let mut known: HashSet<String> = queued.filter_map(|queued| queued.message.origin).collect();
    known.extend(signals.map(|signal| signal.origin));
    let mut next = 0;
    while next < end {
        let last = (next + ENTRIES_AT_ONCE).min(end) - 1;
        let records = store.records(session, next..=last)?;
        known.extend(records.into_iter().filter_map(|record| {
            let origin = match record.entry {
                Entry::Said { origin, .. }
                | Entry::Decided { origin, .. }
                | Entry::Answered { origin, .. }
                | Entry::Stopped { origin, .. } => origin,
                Entry::Chose(choice) => choice.origin,
                _ => None,
            };
            origin.filter(|origin| origin.starts_with(ORIGIN))
        }));
        next = last + 1;
    }
    Ok(known)
}

/// The thread that reads the lines.
struct Reader {
    ctx: AppContext,
    info: SessionInfo,
    /// Its own connection, as another process would have.
    store: Store,
    known: HashSet<String>,
}

impl Reader {
    fn read_lines(&mut self, input: &mut impl BufRead) {
        for number in 1_u64.. {
            let line = match next_line(input, MAX_LINE_BYTES) {
                Ok(None) => return,
                Ok(Some(line)) => line,
                Err(error) => {
                    tracing::warn!(%error, "stdin cannot be read");
                    return;
                }
            };
            let (id, done) = match line {
                InputLine::TooLong => (None, Err(Refused("the line is longer than 10 MiB".into()))),
                InputLine::Whole(line) if line.trim_ascii().is_empty() => continue,
                InputLine::Whole(line) => self.line(&line),
            };
            let mut answer = match done {
                Ok(()) => json!({ "type": "taken" }),
                Err(Refused(why)) => json!({ "type": "refused", "why": why }),
            };
            match id {
                Some(id) => answer["id"] = Value::String(id),
                None => answer["line"] = json!(number),
            }
            out(&answer.to_string());
        }
    }

    /// Applies a line. Returns its ID.
    fn line(&mut self, line: &[u8]) -> (Option<String>, Result<(), Refused>) {
        let value: Value = match serde_json::from_slice(line) {
            Ok(value) => value,
            Err(error) => return (None, Err(Refused(format!("not JSON: {error}")))),
        };
        let (id, value) = match own_form(value) {
            Ok(found) => found,
            Err(why) => return (None, Err(Refused(why))),
        };
        let origin = match &id {
            Some(id) => format!("{ORIGIN}:{id}"),
            None => ORIGIN.to_string(),
        };
        let parsed: Result<Line, _> = serde_json::from_value(value);
        let done = match parsed {
            Ok(line) => self.apply(line, &origin),
            Err(error) => Err(Refused(error.to_string())),
        };
        (id, done)
    }

    /// Returns whether a line with this origin had its effect. Otherwise, it has it now.
    fn is_known(&self, origin: &str) -> bool {
        origin.contains(':') && self.known.contains(origin)
    }

    fn apply(&mut self, line: Line, origin: &str) -> Result<(), Refused> {
        // Two rows of one line have two origins, so that a kill between them loses neither.
        let limit_origin = origin.replacen(ORIGIN, LIMIT_ORIGIN, 1);
        if self.is_known(origin) && !matches!(line, Line::Set(_)) {
            return Ok(());
        }
        let steering = self.ctx.steering();
        let (store, info) = (&mut self.store, &self.info);
        match line {
            Line::Say { text, images } => {
                let images = images.iter().map(|image| decode_image(&image.data));
                let images: Vec<(Image, Vec<u8>)> = images.collect::<Result<_, _>>()?;
                let (images, blobs): (Vec<Image>, Vec<Vec<u8>>) = images.into_iter().unzip();
                let message = Message {
                    images,
                    ..Message::new(text, Via::Signal)
                };
                steering.send(store, &info.id, message, &blobs, origin)?;
            }
            Line::Allow { call } => {
                let call = call_of(call)?;
                steering.answer(store, info, call, (Verdict::Allow, None), origin)?;
            }
            Line::Deny { call, reason } => {
                let call = call_of(call)?;
                steering.answer(store, info, call, (denial(reason), None), origin)?;
            }
            Line::Answer {
                call,
                asked,
                answer,
                values,
            } => {
                let answer = match answer.as_str() {
                    "accept" => FormAnswer::Accept { values },
                    "decline" => FormAnswer::Decline,
                    "cancel" => FormAnswer::Cancel,
                    other => {
                        let other = one_line(other, 60);
                        return Err(Refused(format!(
                            "`answer` is {other:?}, and not accept, decline or cancel"
                        )));
                    }
                };
                let choice = QuestionChoice {
                    call: call_of(call)?,
                    asked,
                };
                steering.answer_form(store, info, choice, answer, origin)?;
            }
            Line::Stop {} => {
                self.ctx.steer(store, info, Signal::STOP, origin)?;
            }
            Line::Set(settings) => {
                let change = SettingsChange::parse(settings, SETTINGS)?;
                // A model that was chosen before may have lost its key since.
                let signals = if self.is_known(origin) {
                    change.signals()
                } else {
                    self.ctx.settings_signals(info, &change)
                };
                for signal in signals? {
                    let origin = match signal {
                        Signal::Limit { .. } => &limit_origin,
                        _ => origin,
                    };
                    if !self.is_known(origin) {
                        self.ctx
                            .steer(&mut self.store, &self.info, signal, origin)?;
                        self.known.insert(origin.to_string());
                    }
                }
                return Ok(());
            }
        }
        self.known.insert(origin.to_string());
        Ok(())
    }

    /// Waits until the run has obeyed all signals, so that the end of the input comes after them. It
    /// finds messages by itself.
    fn wait_until_obeyed(&self) {
        let end = Instant::now() + OBEYED_WITHIN;
        let waits =
            || !matches!(self.store.inbox().signals(&self.info.id), Ok(all) if all.is_empty());
        while waits() && Instant::now() < end {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// A call, as `rewake approvals` prints it, or as it is in the entries.
#[derive(Deserialize)]
#[serde(untagged)]
enum CallName {
    Text(String),
    Entry(CallId),
}

fn call_of(call: Option<CallName>) -> Result<Option<CallId>, Refused> {
    match call {
        None => Ok(None),
        Some(CallName::Entry(id)) => Ok(Some(id)),
        Some(CallName::Text(text)) => match text.parse() {
            Ok(id) => Ok(Some(id)),
            Err(why) => Err(Refused(why.to_string())),
        },
    }
}

/// Returns the ID of a line, and the line in rewake's own form. Claude Code's `user` is a `say`.
fn own_form(value: Value) -> Result<(Option<String>, Value), String> {
    let Value::Object(mut line) = value else {
        return Err("it is not a JSON object".to_string());
    };
    let id = match line.remove("id") {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) if !id.is_empty() && id.chars().count() <= MAX_ID_CHARS => Some(id),
        Some(_) => {
            return Err(format!(
                "`id` is not a text of 1 to {MAX_ID_CHARS} characters"
            ));
        }
    };
    if line.get("type") != Some(&json!("user")) {
        return Ok((id, Value::Object(line)));
    }
    let id = id.or_else(|| Some(line.get("uuid")?.as_str()?.to_string()));
    let content = line.remove("message").and_then(|mut message| {
        let content = message.get_mut("content")?;
        Some(content.take())
    });
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    match content {
        Some(Value::String(text)) => texts.push(text),
        Some(Value::Array(parts)) => {
            for part in &parts {
                match (part["type"].as_str(), part["text"].as_str()) {
                    (Some("text"), Some(text)) => texts.push(text.to_string()),
                    (Some("image"), _) if part["source"]["data"].is_string() => {
                        images.push(json!({ "data": part["source"]["data"] }));
                    }
                    _ => {
                        return Err(
                            "`content` has a part that is neither a text nor an image".into()
                        );
                    }
                }
            }
        }
        _ => return Err("`message` has no `content`".to_string()),
    }
    let say = json!({ "type": "say", "text": texts.join("\n"), "images": images });
    Ok((id, say))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_line_of_claude_code_is_a_say() {
        let form = |line: Value| own_form(line).map(|(id, line)| (id, line["text"].clone()));
        let text =
            json!({"type": "user", "uuid": "u1", "message": {"role": "user", "content": "hi"}});
        assert_eq!(form(text), Ok((Some("u1".into()), json!("hi"))));
        let parts = json!({"type": "user", "id": "a", "message": {"content": [
            {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}});
        assert_eq!(form(parts), Ok((Some("a".into()), json!("a\nb"))));
        for bad in [
            json!([]),
            json!({"type": "user"}),
            json!({"type": "user", "message": {"content": [{"type": "video"}]}}),
            json!({"type": "say", "id": 7}),
            json!({"type": "say", "id": ""}),
        ] {
            assert!(form(bad.clone()).is_err(), "{bad}");
        }
    }
}
