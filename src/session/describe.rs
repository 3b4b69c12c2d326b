//! Descriptions of entries for people: one for every place that shows a session.
//!
//! `rewake show`, the Markdown export, the history and the transcript format a [`Description`] as
//! text, Markdown, plain lines and styled lines. [`Describer::describe`] alone decides the words
//! for a kind of entry, and whether it is a part of the conversation. Its match names every kind,
//! so a new one cannot be forgotten.
//!
//! Invariant: nothing here is escaped for a terminal or cut, except the names of calls: the code
//! that formats a description decides that.

use std::borrow::Cow;

use serde_json::Value;

use super::short_id;

use crate::core::check;
use crate::core::ending::is_answer;
use crate::core::entry::{
    About, Block, By, CallId, CheckEnding, Choice, Entry, Fact, Failure, FailureClass,
    FallbackModel, Guard, HookEvent, HookResult, HookVerdict, Image, Learned, LearnedForm, Outcome,
    Record, Refusal, RunLimits, SaveReason, Seq, SummaryBy, Unfit, Usage, UsedCommand, Verdict,
};
use crate::core::file_name::path_text;
use crate::core::form::{Field, FormAnswer, RequestedAnswer, ServerQuestion};
use crate::core::text::{count, large_count, one_line};
use crate::core::to_person::{result_to_person, to_person, without_advice};
use crate::core::tool::ToolCall;
use crate::core::visible::figure;
use crate::tools;

/// The description of an entry for a person.
#[derive(Debug)]
pub struct Description<'a> {
    pub kind: Kind<'a>,
    pub level: Level,
    /// The event in one line. For a call: its result, without its name.
    pub title: String,
    pub body: Vec<BodyPart<'a>>,
    pub stream: Stream<'a>,
}

/// The speaker or subject of an entry.
#[derive(Debug)]
pub enum Kind<'a> {
    User,
    Model {
        /// `provider/model`.
        model: &'a str,
        /// For an imported answer, what the other agent counted.
        usage: &'a Usage,
        took_ms: u64,
    },
    Call {
        id: CallId,
        /// The tool and the subject of the call, in one line.
        name: String,
        status: CallStatus<'a>,
    },
    /// A note to the model.
    Note {
        /// Whether the user asked for it, as for the output of their own command.
        is_wanted: bool,
        /// The background command that ended, and its exit code if it exited by itself.
        ended: Option<(&'a str, Option<i32>)>,
    },
    /// An event of the session itself: a crash, a stop, a new context.
    Session(Tone),
    /// A request to the model failed.
    Failure,
}

/// The status of a call after an entry.
#[derive(Debug)]
pub enum CallStatus<'a> {
    Allowed,
    Denied,
    Started {
        /// ID of the command's run folder.
        run: Option<&'a str>,
    },
    Finished {
        outcome: &'a Outcome,
        fact: Option<&'a Fact>,
    },
}

/// The places that show an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Every place that shows the conversation.
    Conversation,
    /// Only the places that show a session entry by entry.
    Detail,
}

/// The severity of a line for a person. The theme has a style for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// No action is needed.
    Calm,
    /// A person should notice it.
    Warn,
    /// Something failed.
    Bad,
}

/// The way in which a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEnd {
    Done,
    Stopped,
    Failed,
}

/// Returns how the turn ends with this entry, if it does. An answer without calls is its end.
pub fn end_of_turn(entry: &Entry) -> Option<TurnEnd> {
    match entry {
        Entry::Replied { blocks, stop, .. } => is_answer(blocks, *stop).then_some(TurnEnd::Done),
        Entry::Stopped { .. } => Some(TurnEnd::Stopped),
        Entry::Failed { .. } => Some(TurnEnd::Failed),
        _ => None,
    }
}

/// Returns the failure of an entry that says that the provider does not have the model.
pub fn missing_model(entry: &Entry) -> Option<&Failure> {
    match entry {
        Entry::Failed { error, .. } if error.class == FailureClass::NoModel => Some(error),
        _ => None,
    }
}

/// Whether a person chose a setting.
pub fn is_choice(entry: &Entry) -> bool {
    matches!(entry, Entry::Chose(_))
}

/// Returns the start and the exit code of a shell command of the user that ended.
pub fn end_of_user_command(entry: &Entry) -> Option<(Seq, Option<i32>)> {
    match entry {
        Entry::Noted {
            about: Some(About::UserCommandEnded { entry, exit_code }),
            ..
        } => Some((*entry, *exit_code)),
        _ => None,
    }
}

/// A part of the body, which follows the title. The parts are in this order.
#[derive(Debug)]
pub enum BodyPart<'a> {
    /// Words of the user, of the model, or of a note. Never blank.
    Words(Cow<'a, str>),
    /// Never blank.
    Thinking(&'a str),
    Images(&'a [Image]),
    /// A custom command as the user typed it. The words after it are its expansion.
    Command(String),
    Call(ToolCall),
    /// The result of a tool.
    Output(Cow<'a, str>),
    /// A summary or note that replaces the context from here on.
    Summary(&'a str),
    Hint(&'a str),
}

/// The effect of an entry on the answer that is streaming.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream<'a> {
    GoesOn,
    /// The entry has the whole answer.
    Whole,
    /// The answer was cut off: its words so far, never blank.
    Cut(Option<&'a str>),
}

/// A describer of a session's entries, which it must get in their order.
#[derive(Debug)]
pub struct Describer {
    name_chars: usize,
    /// The last answer, and in `names` the names of its calls. Their results come before the next
    /// answer.
    reply: Seq,
    names: Vec<String>,
    /// The last question of a server.
    asked: Option<ServerQuestion>,
}

/// Default maximum number of characters of the name of a call.
const NAME_CHARS: usize = 160;

/// Maximum numbers of characters for the parts of a server's question and its answer.
const SERVER_CHARS: usize = 40;
const ASKED_CHARS: usize = 120;
const VALUE_CHARS: usize = 80;
const VALUES_CHARS: usize = 400;
const HOOK_CHARS: usize = 160;

impl Default for Describer {
    fn default() -> Describer {
        Describer::new(NAME_CHARS)
    }
}

impl Describer {
    pub(crate) fn new(name_chars: usize) -> Describer {
        Describer {
            name_chars,
            reply: 0,
            names: Vec::new(),
            asked: None,
        }
    }

    pub fn describe<'a>(&mut self, record: &'a Record) -> Description<'a> {
        match &record.entry {
            Entry::Opened {
                imported: Some(source),
                ..
            } => {
                let version = source.agent_version.as_deref().unwrap_or_default();
                let agent = format!("{} {version}", source.agent);
                detail(format!("imported from {}", agent.trim()))
            }
            Entry::Opened { version, .. } => detail(format!("opened by rewake {version}")),
            Entry::Assigned(assignment) => detail(format!(
                "a task of session {}",
                short_id(&assignment.parent)
            )),
            Entry::Rendered { version, .. } => detail(format!("resumed by rewake {version}")),
            Entry::Said {
                text,
                images,
                command,
                ..
            } => message_description(text, images, command.as_ref()),
            Entry::Asked {
                call,
                why,
                form: Some(question),
                ..
            } => {
                self.asked = Some((**question).clone());
                detail(format!("{} asked in call {call}: {why}", question.asker()))
            }
            Entry::Answered {
                call,
                key,
                answer,
                by,
                origin,
                ..
            } => {
                let by = who(*by, origin.as_deref());
                let question = self.asked.take().filter(|asked| asked.key == *key);
                event(Tone::Calm, answered(question.as_ref(), *call, answer, &by))
            }
            Entry::Asked { call, why, .. } => detail(format!("asked about call {call}: {why}")),
            Entry::Replied {
                blocks,
                usage,
                source_usage,
                model,
                took_ms,
                ..
            } => {
                let kind = Kind::Model {
                    model,
                    usage: source_usage.as_ref().unwrap_or(usage),
                    took_ms: *took_ms,
                };
                self.replied(record.seq, blocks, kind)
            }
            Entry::Decided {
                at: _,
                call,
                verdict,
                by,
                rule,
                access: _,
                origin,
            } => self.decided(
                *call,
                verdict,
                &who(*by, origin.as_deref()),
                rule.as_deref(),
            ),
            Entry::Started { call, guard, .. } => self.started(*call, guard),
            Entry::Finished {
                call,
                outcome,
                fact,
                ..
            } => self.finished(*call, outcome, fact.as_ref()),
            Entry::Stopped { draft, origin } => {
                let by = who(By::Person, origin.as_deref());
                event(Tone::Warn, format!("stopped {by}")).cutting(draft)
            }
            Entry::Paused { origin } => {
                let by = who(By::Person, origin.as_deref());
                event(
                    Tone::Warn,
                    format!("paused {by}: running calls end, the rest waits"),
                )
            }
            Entry::Lifted { origin } => {
                let by = who(By::Person, origin.as_deref());
                event(Tone::Calm, format!("continues: unblocked {by}"))
            }
            Entry::Failed { error, draft } => Description {
                kind: Kind::Failure,
                body: error.hint.iter().map(|h| BodyPart::Hint(h)).collect(),
                ..event(Tone::Bad, &error.message)
            }
            .cutting(draft),
            Entry::Noted {
                text,
                about: Some(about @ About::CheckEnded { ending, .. }),
            } if text.is_empty() || !matches!(ending, CheckEnding::Exited { .. }) => {
                let tone = match ending {
                    CheckEnding::TimedOut { .. } | CheckEnding::Failed { .. } => Tone::Bad,
                    CheckEnding::Exited { .. } | CheckEnding::Stopped => Tone::Calm,
                };
                event(tone, check::line(about).unwrap_or_default())
            }
            Entry::Noted { text, about } => Description {
                kind: Kind::Note {
                    is_wanted: matches!(about, None | Some(About::UserCommandEnded { .. })),
                    ended: match about {
                        Some(About::BackgroundEnded { id, exit_code, .. }) => {
                            Some((id.as_str(), *exit_code))
                        }
                        _ => None,
                    },
                },
                body: words(to_person(text, about.as_ref())).collect(),
                ..event(Tone::Calm, "note")
            },
            Entry::Compacted {
                first,
                last,
                by,
                summary,
                ..
            } => compacted(*first, *last, *by, summary),
            Entry::Continued { note, .. } => Description {
                body: vec![BodyPart::Summary(note)],
                ..event(Tone::Calm, "the context was restarted from a note")
            },
            Entry::Saved { why: Some(why), .. } => event(
                Tone::Bad,
                format!("the state of the files before this was not saved: {why}"),
            ),
            Entry::Freed { results } => detail(format!(
                "{} left the context for a line each",
                count(results.len() as u64, "old result")
            )),
            Entry::Saved { reason, .. } => detail(format!("saved: {}", saved(*reason))),
            Entry::Restoring {
                new_folder: true, ..
            } => detail("files are being put into the new folder".to_string()),
            Entry::Restoring { .. } => detail("the files are being restored".to_string()),
            Entry::Restored { .. } => restored(&record.entry),
            Entry::Forked {
                from,
                folder,
                from_replica,
            } => {
                let origin = short_id(&from.session);
                let files = match (folder, from_replica) {
                    (Some(folder), None) => format!("it has files of its own in {folder}"),
                    (Some(folder), Some(_)) => format!("it works in {folder}"),
                    (None, _) => "files are shared".to_string(),
                };
                let text = format!("forked from {origin} at entry {}; {files}", from.seq);
                event(Tone::Calm, text)
            }
            Entry::Moved { from, host, .. } => {
                let from = if from.is_empty() {
                    "another machine"
                } else {
                    from
                };
                event(
                    Tone::Calm,
                    format!("{host} continues, since {from} was lost"),
                )
            }
            Entry::Relocated {
                from, folder, by, ..
            } => event(
                Tone::Calm,
                format!(
                    "the folder was moved from {from} to {folder}: {}",
                    by.words()
                ),
            ),
            Entry::Checked { unfit, told, .. } => checked(unfit.as_ref(), told.as_deref()),
            Entry::Chose(choice) => chosen(choice),
            Entry::UserCommand { command, .. } => {
                detail(format!("you ran {}", one_line(command, 100)))
            }
            Entry::CheckStarted { check, .. } => detail(format!("checking: {check}")),
            Entry::Hooking { event, runs, .. } => detail(format!(
                "{} about to run for {}",
                count(runs.len() as u64, "hook"),
                event.name()
            )),
            Entry::Hooked {
                event,
                call,
                results,
                ..
            } => {
                let call = call.and_then(|id| self.names.get(id.index as usize));
                hooked(*event, call.map(String::as_str), results)
            }
            Entry::Named { title } => detail(format!("named {title}")),
            Entry::Titled {
                title: Some(title), ..
            } => detail(format!("titled {title}")),
            Entry::Titled { title: None, .. } => detail("no title was made".to_string()),
            Entry::Dismissed => detail("dismissed: not offered again".to_string()),
            Entry::Billed { model, usage } => detail(format!(
                "an answer of {model} broke off or was of no use; about {} tokens were billed",
                usage.all()
            )),
            Entry::Learned(Learned {
                model,
                limit,
                silently,
                images,
                form,
                output,
                guess,
                ..
            }) => match (form, output) {
                (_, Some(output)) => event(
                    Tone::Calm,
                    format!(
                        "{model} may answer with {} tokens at most from here on",
                        output.tokens
                    ),
                ),
                (Some(form), None) => reformed(model, form),
                (None, None) if *guess => event(
                    Tone::Warn,
                    format!(
                        "{model} refused a request that fits its window; this session sends at most \
                         {limit} tokens until a longer request succeeds"
                    ),
                ),
                (None, None) => learned(model, *limit, *silently, images.as_ref()),
            },
            Entry::Resumed { found, draft, .. } => event(Tone::Warn, found).cutting(draft),
        }
    }

    fn replied<'a>(&mut self, seq: Seq, blocks: &'a [Block], kind: Kind<'a>) -> Description<'a> {
        self.reply = seq;
        self.names.clear();
        let mut body = Vec::new();
        for block in blocks {
            match block {
                Block::Text { text, .. } => body.extend(words(text)),
                Block::Thinking { text, .. } if text.trim().is_empty() => {}
                Block::Thinking { text, .. } => body.push(BodyPart::Thinking(text)),
                Block::Call {
                    name, arguments, ..
                } => {
                    let index = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
                    let call = tools::call(CallId { reply: seq, index }, name, arguments);
                    self.names.push(call.in_one_line(self.name_chars));
                    body.push(BodyPart::Call(call));
                }
            }
        }
        let title = match self.names.len() {
            0 => "answered".to_string(),
            1 => "answered, with a call".to_string(),
            n => format!("answered, with {n} calls"),
        };
        Description {
            kind,
            body,
            stream: Stream::Whole,
            ..event(Tone::Calm, title)
        }
    }

    fn decided<'a>(
        &self,
        id: CallId,
        verdict: &Verdict,
        by: &str,
        rule: Option<&str>,
    ) -> Description<'a> {
        let (status, title) = match verdict {
            Verdict::Allow => {
                let rule = rule.map(|rule| format!(", with {rule} for this session"));
                let title = format!("allowed {by}{}", rule.unwrap_or_default());
                (CallStatus::Allowed, title)
            }
            Verdict::Deny { reason } => (
                CallStatus::Denied,
                format!("denied {by}: {}", without_advice(reason)),
            ),
        };
        // The result of a denied call also says that it was denied.
        Description {
            level: Level::Detail,
            ..self.call(id, status, title)
        }
    }

    fn started<'a>(&self, id: CallId, guard: &'a Guard) -> Description<'a> {
        let (run, title) = match guard {
            Guard::Checked { path, .. } => {
                (None, format!("started on {}", path_text(path.as_bytes())))
            }
            Guard::Supervised { run, .. } => (Some(run.as_str()), format!("started as run {run}")),
            Guard::Child { run, session, .. } => (
                Some(run.as_str()),
                format!("started as session {session}, run {run}"),
            ),
            Guard::Served { run, server, .. } => (
                Some(run.as_str()),
                format!("started at server {server}, run {run}"),
            ),
            Guard::Asks | Guard::Opaque => (None, "began".to_string()),
        };
        Description {
            level: Level::Detail,
            ..self.call(id, CallStatus::Started { run }, title)
        }
    }

    fn finished<'a>(
        &self,
        id: CallId,
        outcome: &'a Outcome,
        fact: Option<&'a Fact>,
    ) -> Description<'a> {
        let word = match outcome {
            Outcome::Done { .. } => "done",
            Outcome::Error { .. } => "error",
            Outcome::Denied { .. } => "denied",
            Outcome::Interrupted { .. } => "interrupted",
        };
        let output = BodyPart::Output(result_to_person(outcome).0.into());
        Description {
            body: vec![output],
            ..self.call(id, CallStatus::Finished { outcome, fact }, word.to_string())
        }
    }

    fn call<'a>(&self, id: CallId, status: CallStatus<'a>, title: String) -> Description<'a> {
        let index = usize::try_from(id.index).unwrap_or(usize::MAX);
        let name = self.names.get(index).filter(|_| id.reply == self.reply);
        let name = name.map_or("a call", String::as_str).to_string();
        Description {
            kind: Kind::Call { id, name, status },
            ..event(Tone::Calm, title)
        }
    }
}

impl Description<'_> {
    /// Returns the line for a list: the subject, and the event.
    pub fn line(&self) -> Cow<'_, str> {
        match &self.kind {
            Kind::Call { name, .. } => format!("{name}: {}", self.title).into(),
            Kind::Failure => format!("failed: {}", self.title).into(),
            Kind::User | Kind::Model { .. } | Kind::Note { .. } | Kind::Session(_) => {
                Cow::Borrowed(&self.title)
            }
        }
    }

    pub fn is_in_conversation(&self) -> bool {
        self.level == Level::Conversation
    }

    /// Returns the words of the user, the model or a note. Empty if there are none.
    pub fn words(&self) -> String {
        let words = self.body.iter().filter_map(|part| match part {
            BodyPart::Words(text) => Some(text.as_ref()),
            _ => None,
        });
        words.collect::<Vec<_>>().join("\n")
    }
}

impl<'a> Description<'a> {
    /// Marks that the entry cut off the stream, and has its text so far.
    fn cutting(mut self, draft: &'a Option<String>) -> Description<'a> {
        let draft = draft.as_deref().filter(|d| !d.trim().is_empty());
        self.stream = Stream::Cut(draft);
        self
    }
}

fn event<'a>(tone: Tone, title: impl Into<String>) -> Description<'a> {
    Description {
        kind: Kind::Session(tone),
        level: Level::Conversation,
        title: title.into(),
        body: Vec::new(),
        stream: Stream::GoesOn,
    }
}

fn detail<'a>(title: String) -> Description<'a> {
    Description {
        level: Level::Detail,
        ..event(Tone::Calm, title)
    }
}

/// Returns a line such as `everything asked: Who are you? · answered by you: name "ann", age 7`.
fn answered(
    question: Option<&ServerQuestion>,
    call: CallId,
    answer: &FormAnswer,
    by: &str,
) -> String {
    let is_question = |field: &&Field| !field.name.ends_with("_other");
    let asked = match question {
        Some(of_model) if of_model.is_of_model() && of_model.message.contains('\n') => {
            let questions = fields(question).iter().filter(is_question).count();
            format!("the agent asked {}", count(questions, "question"))
        }
        Some(question) => {
            let asker = one_line(question.asker(), SERVER_CHARS);
            format!("{asker} asked: {}", one_line(&question.line(), ASKED_CHARS))
        }
        None => format!("the server of call {call} asked"),
    };
    let what = match answer {
        FormAnswer::Accept { .. } => "answered",
        FormAnswer::Decline => "declined",
        FormAnswer::Cancel => "closed without an answer",
    };
    let is_of_model = question.is_some_and(ServerQuestion::is_of_model);
    let between = if is_of_model { "; " } else { ", " };
    let values = match answer {
        FormAnswer::Accept { values } => {
            let is_blank = |value: &Value| match value {
                Value::String(text) => text.trim().is_empty(),
                Value::Array(all) => all.is_empty(),
                _ => false,
            };
            let given = values.iter();
            let given = given.filter(|(_, value)| !is_of_model || !is_blank(value));
            let mut values: Vec<(&String, &Value)> = given.collect();
            values.sort_by_key(|(name, _)| place(question, name));
            let value = |(name, value): (&String, &Value)| {
                let name = match label(question, name) {
                    // The title follows the options on the form.
                    title if is_of_model => title.strip_prefix("or ").unwrap_or(title),
                    title => title,
                };
                let name = one_line(name, VALUE_CHARS);
                let (gap, value) = if is_of_model {
                    (": ", plain(value))
                } else {
                    (" ", value.to_string())
                };
                format!("{name}{gap}{}", one_line(&value, VALUE_CHARS))
            };
            values.into_iter().map(value).collect()
        }
        FormAnswer::Decline | FormAnswer::Cancel => Vec::new(),
    };
    let values = match values.is_empty() {
        true => String::new(),
        false => format!(": {}", one_line(&values.join(between), VALUES_CHARS)),
    };
    format!("{asked} · {what} {by}{values}")
}

/// Returns a value without the marks of JSON: `report, cli`.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn fields(question: Option<&ServerQuestion>) -> &[Field] {
    match question.map(|question| &question.wanted) {
        Some(RequestedAnswer::Form { fields }) => fields,
        _ => &[],
    }
}

fn place(question: Option<&ServerQuestion>, name: &str) -> Option<usize> {
    let mut fields = fields(question).iter();
    fields.position(|field| field.name == name)
}

/// Returns the label that a person saw for a field: its title, else its name.
fn label<'a>(question: Option<&'a ServerQuestion>, name: &'a str) -> &'a str {
    let mut fields = fields(question).iter();
    let field = fields.find(|field| field.name == name);
    let title = field.map(|field| field.title.trim());
    title.filter(|title| !title.is_empty()).unwrap_or(name)
}

fn words<'a>(text: impl Into<Cow<'a, str>>) -> impl Iterator<Item = BodyPart<'a>> {
    let said = Some(text.into()).filter(|t| !t.trim().is_empty());
    said.map(BodyPart::Words).into_iter()
}

fn message_description<'a>(
    text: &'a str,
    images: &'a [Image],
    command: Option<&UsedCommand>,
) -> Description<'a> {
    let images = Some(images).filter(|i| !i.is_empty()).map(BodyPart::Images);
    let line = command.map(UsedCommand::line);
    let title = line.clone().unwrap_or_else(|| text.to_string());
    let typed = line.map(BodyPart::Command).into_iter();
    Description {
        kind: Kind::User,
        body: typed.chain(words(text)).chain(images).collect(),
        ..event(Tone::Calm, title)
    }
}

fn compacted<'a>(first: Seq, last: Seq, by: SummaryBy, summary: &'a str) -> Description<'a> {
    let how = match by {
        SummaryBy::Model => "",
        SummaryBy::Digest => ", as a digest",
        SummaryBy::Placeholder => ", as a placeholder",
    };
    let title = format!("entries {first} to {last} were summarised{how}");
    Description {
        body: vec![BodyPart::Summary(summary)],
        ..event(Tone::Calm, title)
    }
}

/// Returns the author: `by you`, `by you (cli)`.
fn who(by: By, origin: Option<&str>) -> String {
    let by = match by {
        By::Person => "by you",
        By::Start => "by rewake",
        By::Hook => "by a hook",
    };
    match origin {
        Some(origin) => format!("{by} ({})", one_line(origin, 40)),
        None => by.to_string(),
    }
}

fn saved(reason: SaveReason) -> &'static str {
    match reason {
        SaveReason::Timer => "timer",
        SaveReason::Turn => "end of the turn",
        SaveReason::Signal => "interrupted by a signal",
        SaveReason::Exit => "end of the program",
        SaveReason::TurnLimit => "turn limit",
        SaveReason::ContextLimit => "context nearly full",
        SaveReason::Manual => "saved by hand",
        SaveReason::Files => "snapshot of the files",
    }
}

fn checked<'a>(unfit: Option<&Unfit>, told: Option<&str>) -> Description<'a> {
    match (unfit, told) {
        (None, _) => detail("the answer matches its JSON Schema".to_string()),
        (Some(unfit), Some(_)) => event(
            Tone::Warn,
            format!(
                "the answer does not match its JSON Schema, so the model is asked again: {unfit}"
            ),
        ),
        (Some(unfit), None) => event(
            Tone::Bad,
            format!("the answer does not match its JSON Schema: {unfit}"),
        ),
    }
}

/// Describes the results of hooks. `call` is the call that they are about.
fn hooked<'a>(
    event_name: HookEvent,
    call: Option<&str>,
    results: &[HookResult],
) -> Description<'a> {
    let mut tone = Tone::Calm;
    let mut lines: Vec<String> = Vec::new();
    for result in results {
        let hook = one_line(&result.hook, HOOK_CHARS);
        let reason = one_line(&result.reason, VALUES_CHARS);
        match (event_name, result.verdict) {
            (_, HookVerdict::Failed) => {
                tone = Tone::Bad;
                lines.push(format!("the hook {hook} failed: {reason}"));
            }
            (HookEvent::UserPromptSubmit, HookVerdict::Deny) => {
                tone = Tone::Bad;
                // A hook that was stopped has no exit code.
                let why = match (result.exit, reason.as_str()) {
                    (None, why) => format!("the hook {hook} did not decide: {why}"),
                    (_, "") => format!("the hook {hook} refused it"),
                    (_, why) => format!("the hook {hook} refused it: {why}"),
                };
                lines.push(format!("the message was not sent: {why}"));
            }
            (HookEvent::Stop | HookEvent::SubagentStop, HookVerdict::Deny) => {
                lines.push(format!("the hook {hook} asks for more work: {reason}"));
            }
            _ => {}
        }
        if let (Some(input), Some(call)) = (&result.input, call) {
            let input = one_line(input, VALUES_CHARS);
            lines.push(format!("the hook {hook} changed {call} to {input}"));
        }
        if let Some(wrote) = &result.wrote {
            lines.push(format!(
                "the hook {hook} changed {}",
                one_line(&wrote.path, HOOK_CHARS)
            ));
        }
        lines.extend(
            result
                .message
                .as_deref()
                .map(|text| one_line(text, VALUES_CHARS)),
        );
    }
    match lines.is_empty() {
        true => detail(format!(
            "{} ran for {}",
            count(results.len() as u64, "hook"),
            event_name.name()
        )),
        false => event(tone, lines.join("; ")),
    }
}

fn chosen<'a>(choice: &Choice) -> Description<'a> {
    if let Some(FallbackModel { model, error }) = choice.fallback.as_deref() {
        return event(
            Tone::Warn,
            format!(
                "{model} answers until your next message, since: {}",
                error.message
            ),
        );
    }
    if let Some(rule) = &choice.without {
        return event(Tone::Calm, format!("{rule} was removed from this session"));
    }
    let model = choice.model.as_ref().map(|m| format!("model {m}"));
    let mode = choice.mode.map(|m| format!("mode: {}", m.name()));
    let effort = choice.effort.map(|e| format!("effort {}", e.name()));
    let temperature = choice.temperature.map(|t| format!("temperature {t}"));
    let schema = match (&choice.schema, choice.without_schema) {
        (Some(_), _) => Some("the next answer must match a JSON Schema".to_string()),
        (None, true) => Some("no JSON Schema applies any more".to_string()),
        (None, false) => None,
    };
    let limits = choice.limits.map(|limits| limited(&limits));
    let prompt = choice.system_prompt.as_deref().map(|text| match text {
        "" => "nothing is added to the system prompt".to_string(),
        text => format!(
            "added to the system prompt: {}",
            one_line(text, VALUES_CHARS)
        ),
    });
    let folders = choice.folders.as_ref().map(|folders| {
        let folders = folders.join(", ");
        format!("added folders: {}", one_line(&folders, VALUES_CHARS))
    });
    let said = [
        model,
        mode,
        effort,
        temperature,
        schema,
        limits,
        prompt,
        folders,
    ]
    .into_iter()
    .flatten();
    event(Tone::Calm, said.collect::<Vec<_>>().join(", "))
}

fn limited(limits: &RunLimits) -> String {
    let answers = limits.answers.map(|n| format!("{n} answers"));
    let usd = limits.usd.map(|usd| format!("${usd}"));
    let tokens = limits.tokens.map(|n| format!("{n} tokens"));
    let all: Vec<String> = answers.into_iter().chain(tokens).chain(usd).collect();
    match all.is_empty() {
        true => "no limit of answers or cost".to_string(),
        false => format!("pauses at {} of the whole session", all.join(" or ")),
    }
}

/// Describes a restore: the restored files, and those that were left.
fn restored<'a>(entry: &'a Entry) -> Description<'a> {
    let Entry::Restored {
        new_folder,
        written,
        removed,
        kept,
        more_kept,
        why,
        ..
    } = entry
    else {
        return detail("the files were restored".to_string());
    };
    if let Some(why) = why {
        return event(Tone::Bad, format!("no file was restored: {why}"));
    }
    let files = large_count(*written, "file");
    let removed = figure(removed);
    let done = match new_folder {
        true => format!("{files} put into the new folder"),
        false => format!("{files} restored, {removed} removed"),
    };
    let left = kept.len() as u64 + more_kept;
    let left = match left {
        0 => String::new(),
        left => format!(
            ", {} left as {}",
            count(left, "file"),
            if left == 1 { "it is" } else { "they are" }
        ),
    };
    let named = kept
        .iter()
        .map(|kept| format!("{}: {}", kept.path, kept.why.words()));
    let named: Vec<String> = named.collect();
    Description {
        body: (!named.is_empty())
            .then(|| BodyPart::Output(named.join("\n").into()))
            .into_iter()
            .collect(),
        ..event(Tone::Calm, format!("{done}{left}"))
    }
}

fn reformed<'a>(model: &str, form: &LearnedForm) -> Description<'a> {
    let words = form.words();
    match form.why.is_empty() {
        true => event(Tone::Calm, format!("{model} gets the history {words}")),
        false => event(
            Tone::Warn,
            format!(
                "{model} refused the history; it is sent {words} from here on: {}",
                form.why
            ),
        ),
    }
}

fn learned<'a>(
    model: &str,
    limit: u64,
    silently: bool,
    images: Option<&Refusal>,
) -> Description<'a> {
    match images {
        Some(Refusal { why, .. }) => event(
            Tone::Warn,
            format!("{model} refused images; they are sent as text from here on: {why}"),
        ),
        None if silently => event(
            Tone::Calm,
            format!(
                "{model} takes at most {limit} tokens: its server drops the beginning of longer \
                 requests without a word"
            ),
        ),
        None => event(Tone::Calm, format!("{model} takes at most {limit} tokens")),
    }
}

/// Returns a count such as `[2 images]`.
pub fn image_count(images: &[Image]) -> String {
    format!("[{}]", count(images.len(), "image"))
}

#[cfg(test)]
mod tests;
