//! Control of a session from another process: messages, signals and verdicts.
//!
//! Subcommands and routes of the server use the same functions. Each message or signal is a row of
//! the store, so it needs no running agent and survives the death of both processes.
//!
//! Invariant: nothing here waits for the session to obey, and nothing locks it except a pause of a
//! session that no process uses.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Value, json};

use super::fold_cache::{FoldCache, folded};
use super::{AppContext, SessionError, now_ms, rename};
use crate::command;
use crate::core::access::Access;
use crate::core::entry::{CallId, Entry, Image, Seq, Verdict, Via};
use crate::core::form::{self, FormAnswer, ServerQuestion};
use crate::core::policy::Sandbox;
use crate::core::signal::Signal;
use crate::core::state::{OpenCall, OpenQuestion, PendingQuestion, State};
use crate::core::text::session_name;
use crate::core::tool::ToolCall;
use crate::core::{image, offer};
use crate::store::{
    Batch, Message, SessionInfo, SessionLock, Store, StoreError, blob_ref, database,
};
use crate::tools;

/// Maximum size of a message.
pub const MAX_MESSAGE_BYTES: usize = 10 * 1024 * 1024;

/// Maximum number of images in one message.
const MAX_IMAGES: usize = 20;

/// The name for the newest session of this workspace.
pub const HERE: &str = "@here";

/// Why nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum SteerError {
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The order is invalid or too late: a description and a hint.
    #[error("{what}")]
    Refused {
        what: String,
        hint: String,
        because: Refusal,
    },
}

/// The kind of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Invalid at any time.
    Nonsense,
    /// Too large for one message.
    TooLarge,
    /// Not valid in the current state of the session.
    NotNow,
    /// The sender has no right to do it.
    Forbidden,
}

impl SteerError {
    /// Returns the error and its hint in one line.
    pub fn with_hint(&self) -> String {
        let hint = match self {
            SteerError::Session(error) => error.hint(),
            SteerError::Refused { hint, .. } => Some(hint.clone()),
        };
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{self}{hint}")
    }
}

impl From<StoreError> for SteerError {
    fn from(error: StoreError) -> SteerError {
        SteerError::Session(error.into())
    }
}

pub(super) fn refused(
    because: Refusal,
    what: impl Into<String>,
    hint: impl Into<String>,
) -> SteerError {
    SteerError::Refused {
        what: what.into(),
        hint: hint.into(),
        because,
    }
}

/// The delivery of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// A process uses the session and will obey.
    Heard,
    /// No process uses the session. The next one that resumes it will obey.
    Kept,
    /// No process uses the session, so there was nothing to stop.
    NothingToDo,
    /// The order is recorded already, since no process uses the session.
    Done,
}

/// A receipt for a sent message or signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Row ID of the message or signal while it is pending. `None`: nothing is pending.
    pub id: Option<i64>,
    pub sending: Delivery,
}

impl Delivery {
    /// Returns the word for programs.
    pub fn word(self) -> &'static str {
        match self {
            Delivery::Heard => "heard",
            Delivery::Kept => "kept",
            Delivery::NothingToDo => "nothing_to_do",
            Delivery::Done => "done",
        }
    }
}

/// The answer to a program whose messages or signals were accepted.
#[derive(Debug, Serialize)]
pub struct Accepted {
    pub session: String,
    /// IDs of the messages and signals that wait now.
    pub ids: Vec<i64>,
    pub became: &'static str,
    /// A process was started that continues the session.
    pub started: bool,
    /// Reason why no process was started although the client wanted one. The request is recorded
    /// nevertheless.
    pub not_started: Option<Value>,
}

impl Accepted {
    /// Returns the answer if no process was started.
    pub fn of(session: String, receipts: &[Receipt]) -> Accepted {
        let last = receipts.last().map_or(Delivery::NothingToDo, |r| r.sending);
        Accepted {
            session,
            ids: receipts.iter().filter_map(|receipt| receipt.id).collect(),
            became: last.word(),
            started: false,
            not_started: None,
        }
    }
}

/// The choice of a server's question to answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct QuestionChoice {
    /// Its call. `None`: the only open question.
    pub call: Option<CallId>,
    /// The entry of the question that the person saw. `None`: the current question.
    pub asked: Option<Seq>,
}

/// A question that waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    pub session: SessionInfo,
    pub call: ToolCall,
    pub asked: PendingQuestion,
    /// The question of a server during the call. `None`: the question is whether the call may run.
    pub form: Option<ServerQuestion>,
    /// Whether a process uses the session. It continues as soon as the answer arrives.
    pub is_live: bool,
}

impl Question {
    /// Returns the object that `rewake approvals --json` and the server give.
    pub fn to_json(&self, sandbox: &Sandbox) -> Value {
        let rules = offer::for_session(self.asked.rule.as_deref(), self.call.full_name());
        let rules = rules
            .into_iter()
            .map(|(rule, words)| json!({"rule": rule, "words": words}));
        let reach = self.asked.access.map(|access| sandbox.describe(access));
        json!({
            "session": self.session.id,
            "title": self.session.title,
            "name": session_name(self.session.title.as_deref()),
            "folder": self.session.folder,
            "call": self.call.id.to_string(),
            "asked": self.asked.seq,
            "at_ms": self.asked.at_ms,
            "tool": self.call.full_name(),
            "subject": self.call.subject(),
            "arguments": serde_json::from_str::<Value>(&self.call.arguments)
                .unwrap_or_else(|_| Value::String(self.call.arguments.clone())),
            "why": self.asked.why,
            "rule": self.asked.rule,
            "session_rules": rules.collect::<Vec<_>>(),
            "access": self.asked.access,
            "access_text": reach.map(|reach| reach.named(reach.long)),
            "no_sandbox": reach.is_some_and(|reach| reach.access == Access::Full),
            "leads_to": self.asked.at,
            "form": self.form,
            "live": self.is_live,
        })
    }
}

/// Returns the media type and the bytes of an image file. An invalid image would make every later
/// request fail, so it is refused here.
///
/// # Errors
/// Why it cannot be sent, for a person.
pub fn read_image(path: &Path) -> Result<(&'static str, Vec<u8>), String> {
    let cannot = |why: &str| format!("cannot send {}: {why}", path.display());
    if database::is_open_in_process(path) {
        return Err(cannot("it belongs to the session store"));
    }
    let bytes = tools::load_file(path, image::MAX_BYTES).map_err(|e| match e.kind() {
        std::io::ErrorKind::FileTooLarge => {
            cannot(&format!("it has more than {} bytes", image::MAX_BYTES))
        }
        _ => cannot(&e.to_string()),
    })?;
    let known = image::check(&bytes).map_err(|why| cannot(&format!("it {why}")))?;
    Ok((known.media_type, bytes))
}

/// Returns an image that was sent in base64, and its bytes.
///
/// # Errors
/// Why it cannot be sent, for a person.
pub fn decode_image(data: &str) -> Result<(Image, Vec<u8>), String> {
    let cannot = |why: &str| format!("an image cannot be sent: {why}");
    let bytes = STANDARD
        .decode(data)
        .map_err(|_| cannot("it is not base64"))?;
    if bytes.len() as u64 > image::MAX_BYTES {
        return Err(cannot(&format!(
            "it has more than {} bytes",
            image::MAX_BYTES
        )));
    }
    let known = image::check(&bytes).map_err(|why| cannot(&format!("it {why}")))?;
    let image = Image {
        media_type: known.media_type.to_string(),
        blob: blob_ref(&bytes),
    };
    Ok((image, bytes))
}

/// A message or a signal to a session on another machine.
pub enum Outgoing<'m> {
    /// A message, and the bytes of its images.
    Message(&'m Message, &'m [Vec<u8>]),
    Signal(&'m Signal),
}

/// Sends to a session on another machine.
pub type Post = Box<dyn Fn(Outgoing<'_>) -> Result<Receipt, SessionError>>;

/// A sender of messages, signals and answers to the sessions of this data folder, or to one on
/// another machine.
pub struct Steering {
    post: Option<Post>,
    /// The value of [`command::keeper::RUN_ENV`], which is set in commands of an agent.
    run: Option<String>,
    data_dir: PathBuf,
    /// Root of the workspace for [`HERE`].
    root: PathBuf,
}

impl AppContext {
    /// Returns the [`Steering`] of this process.
    pub fn steering(&self) -> Steering {
        Steering {
            post: None,
            run: self.env.var(command::keeper::RUN_ENV).map(str::to_string),
            data_dir: self.paths.data_dir.clone(),
            root: self.here.root.clone(),
        }
    }

    /// Sends a signal to a session. [`Steering::answer`] gives a verdict, and
    /// [`AppContext::change_settings`] checks settings.
    ///
    /// # Errors
    /// The session cannot be read or written, or this process may not control sessions.
    pub fn steer(
        &self,
        store: &mut Store,
        info: &SessionInfo,
        signal: Signal,
        origin: &str,
    ) -> Result<Receipt, SteerError> {
        let steering = self.steering();
        steering.check_not_below_agent()?;
        let without_signal = |sending| Receipt { id: None, sending };
        let is_live = SessionLock::is_worked_in(&steering.data_dir, &info.id);
        if matches!(signal, Signal::Stop { .. }) && !is_live {
            return Ok(without_signal(Delivery::NothingToDo));
        }
        if matches!(signal, Signal::Pause { .. })
            && !is_live
            && steering.pause_closed_session(store, &info.id, origin)?
        {
            return Ok(without_signal(Delivery::Done));
        }
        if let (Signal::Name { title }, false) = (&signal, is_live) {
            // A signal would wait for the next process of the session.
            match rename(store, &steering.data_dir, &info.id, title) {
                Ok(_) => return Ok(without_signal(Delivery::Done)),
                Err(StoreError::Held { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        steering.put_signal(store, &info.id, signal, origin)
    }
}

impl Steering {
    /// Sends to a session on another machine, of which there is a copy here.
    #[must_use]
    pub fn by(self, post: Post) -> Steering {
        let post = Some(post);
        Steering { post, ..self }
    }

    fn put_signal(
        &self,
        store: &mut Store,
        session: &str,
        signal: Signal,
        origin: &str,
    ) -> Result<Receipt, SteerError> {
        if let Some(post) = &self.post {
            return Ok(post(Outgoing::Signal(&signal))?);
        }
        let id = store
            .inbox_mut()
            .signal(session, origin, now_ms(), |last| signal.sent_after(last))?;
        Ok(Receipt {
            id: Some(id.number()),
            sending: self.sending_to(session),
        })
    }

    /// Sends a signal to a session on another machine.
    ///
    /// # Errors
    /// The signal is not one for other machines, or the database does not take it.
    pub fn signal_by_post(&self, signal: Signal) -> Result<Receipt, SteerError> {
        self.check_not_below_agent()?;
        match (&self.post, &signal) {
            (
                Some(post),
                Signal::Stop { .. } | Signal::Pause { .. } | Signal::GoOn | Signal::Decide { .. },
            ) => Ok(post(Outgoing::Signal(&signal))?),
            _ => Err(refused(
                Refusal::Nonsense,
                "only its own machine can change that in a shared session",
                "a message, a verdict, a stop, a pause or its end can be sent from here",
            )),
        }
    }

    /// Refuses to resume a session inside of an agent's command. There a model could answer its own
    /// questions or choose another mode.
    pub(super) fn may_take_up(&self) -> Result<(), SessionError> {
        let checked = self.check_not_below_agent();
        checked.map_err(|_| SessionError::BelowAgent)
    }

    /// Refuses to control sessions from a command of the agent, since a model could answer its own
    /// questions. Without a sandbox a command can get around this check.
    ///
    /// # Errors
    /// [`SteerError::Refused`].
    pub fn check_not_below_agent(&self) -> Result<(), SteerError> {
        match command::is_below_keeper(self.run.as_deref()) {
            false => Ok(()),
            true => Err(refused(
                Refusal::Forbidden,
                "sessions are not steered from inside a command that an agent runs",
                "type it in a terminal of your own",
            )),
        }
    }

    /// Returns the session with this ID, a beginning of one, or [`HERE`].
    ///
    /// # Errors
    /// As [`History::find`](crate::store::History::find).
    pub fn find_session(&self, store: &Store, id: &str) -> Result<SessionInfo, SessionError> {
        if id != HERE {
            return Ok(store.history().find(id)?);
        }
        let newest = store.history().newest(Some(&self.root.to_string_lossy()))?;
        newest.ok_or_else(|| SessionError::NothingHere(self.root.clone()))
    }

    fn sending_to(&self, session: &str) -> Delivery {
        match SessionLock::is_worked_in(&self.data_dir, session) {
            true => Delivery::Heard,
            false => Delivery::Kept,
        }
    }

    /// Puts a message into the inbox of a session, with the bytes of its images. The session takes
    /// it when no call is open.
    ///
    /// # Errors
    /// The message is too long or empty, or has too many images.
    pub fn send(
        &self,
        store: &mut Store,
        session: &str,
        message: Message,
        blobs: &[Vec<u8>],
        origin: &str,
    ) -> Result<Receipt, SteerError> {
        self.check_not_below_agent()?;
        check_message(&message)?;
        let message = Message {
            text: message.text.replace('\0', "\u{2400}"),
            via: Via::Signal,
            origin: Some(origin.to_string()),
            ..message
        };
        if let Some(post) = &self.post {
            return Ok(post(Outgoing::Message(&message, blobs))?);
        }
        let id = store
            .inbox_mut()
            .queue_from_outside(session, &message, blobs, now_ms())?;
        Ok(Receipt {
            id: Some(id.number()),
            sending: self.sending_to(session),
        })
    }

    /// Records a pause of a session that no process uses. A signal would reach only the next
    /// process that resumes it, and that one is not meant. Returns false if a process uses the
    /// session by now.
    fn pause_closed_session(
        &self,
        store: &mut Store,
        session: &str,
        origin: &str,
    ) -> Result<bool, SteerError> {
        let paused = store.with_closed_session(&self.data_dir, session, |store| {
            let (mut head, state) = folded(store, session)?;
            if !state.paused {
                let origin = Some(origin.to_string());
                let batch = Batch {
                    at_ms: now_ms(),
                    entries: vec![Entry::Paused { origin }],
                    unfinished: state.unfinished(),
                    ..Batch::default()
                };
                store.append(&mut head, &batch)?;
            }
            Ok(true)
        });
        match paused {
            Ok(paused) => paused,
            Err(StoreError::Held { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the open questions of all sessions, and the errors for sessions that cannot be read.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn questions(
        &self,
        store: &Store,
        folds: &FoldCache,
    ) -> Result<(Vec<Question>, Vec<SessionError>), StoreError> {
        let (mut questions, mut unread) = (Vec::new(), Vec::new());
        // By the place in the log, oldest first: a clock may jump.
        for info in store.history().asking()?.into_iter().rev() {
            match folds.with(store, &info.id, |fold| {
                self.questions_in(&info, &fold.state)
            }) {
                Ok(of_session) => questions.extend(of_session),
                Err(error) => unread.push(error),
            }
        }
        Ok((questions, unread))
    }

    /// Returns the open questions of a session.
    ///
    /// # Errors
    /// The session cannot be read.
    pub fn questions_of(
        &self,
        store: &Store,
        info: &SessionInfo,
    ) -> Result<Vec<Question>, SessionError> {
        let (_, state) = folded(store, &info.id)?;
        Ok(self.questions_in(info, &state))
    }

    /// Returns the open questions of a folded session.
    pub(super) fn questions_in(&self, info: &SessionInfo, state: &State) -> Vec<Question> {
        let is_live = SessionLock::is_held(&self.data_dir, &info.id);
        let question = |(open, asked): (&OpenCall, &PendingQuestion)| Question {
            session: info.clone(),
            call: open.call.clone(),
            asked: asked.clone(),
            form: None,
            is_live,
        };
        let of_server = |(open, asked): (&OpenCall, &OpenQuestion)| Question {
            session: info.clone(),
            call: open.call.clone(),
            asked: PendingQuestion {
                seq: asked.seq,
                at_ms: asked.at_ms,
                why: asked.question.line(),
                rule: None,
                access: None,
                at: None,
            },
            form: Some(asked.question.clone()),
            is_live,
        };
        let asked = state.questions().map(question);
        asked
            .chain(state.server_question().map(of_server))
            .collect()
    }

    /// Returns the question of a session about this call, or the only one.
    ///
    /// # Errors
    /// No question is open, or none about this call, or several are and no call is named.
    pub(super) fn question(
        &self,
        store: &Store,
        info: &SessionInfo,
        call: Option<CallId>,
    ) -> Result<Question, SteerError> {
        let questions = self.questions_of(store, info)?;
        let short = super::short_id(&info.id);
        match (call, &questions[..]) {
            (None, [only]) => Ok(only.clone()),
            (None, []) => Err(refused(
                Refusal::NotNow,
                format!("session {short} asks nothing"),
                "rewake approvals lists the open questions; earlier ones are answered or closed",
            )),
            (None, several) => {
                let calls: Vec<String> = several
                    .iter()
                    .map(|q| format!("{} ({})", q.call.id, q.call.in_one_line(60)))
                    .collect();
                Err(refused(
                    Refusal::NotNow,
                    format!("session {short} asks {} things", several.len()),
                    format!("name the call: {}", calls.join(", ")),
                ))
            }
            (Some(id), all) => match all.iter().find(|q| q.call.id == id) {
                Some(question) => Ok(question.clone()),
                None => Err(refused(
                    Refusal::NotNow,
                    format!(
                        "session {short} does not ask about call {id}: it is answered, over, or was never asked"
                    ),
                    "rewake approvals lists the open questions",
                )),
            },
        }
    }

    /// Answers a question of a session: the one about this call, or the only one.
    ///
    /// # Errors
    /// No question is open, or none about this call, or several are and no call is named.
    pub fn answer(
        &self,
        store: &mut Store,
        info: &SessionInfo,
        call: Option<CallId>,
        (verdict, rule): (Verdict, Option<String>),
        origin: &str,
    ) -> Result<(Question, Receipt), SteerError> {
        self.check_not_below_agent()?;
        let found = self.question(store, info, call)?;
        let offered = found.asked.rule.as_deref();
        let is_foreign = |rule: &&String| !offer::is_offered(rule, offered, found.call.full_name());
        if let Some(rule) = rule.as_ref().filter(is_foreign) {
            return Err(refused(
                Refusal::NotNow,
                format!("the question does not offer the rule {rule:?}"),
                "rewake approvals --json shows the rules of each question",
            ));
        }
        if let Some(form) = &found.form {
            let (short, call) = (super::short_id(&info.id), found.call.id);
            return Err(refused(
                Refusal::NotNow,
                format!(
                    "call {call} was allowed: {} asks for something",
                    form.the_asker()
                ),
                format!("rewake approvals shows what; rewake answer {short} {call} answers it"),
            ));
        }
        let signal = Signal::Decide {
            call: found.call.id,
            asked: found.asked.seq,
            verdict,
            rule,
        };
        let receipt = self.put_signal(store, &info.id, signal, origin)?;
        Ok((found, receipt))
    }

    /// Answers the question of a server in a call of a session.
    ///
    /// # Errors
    /// As [`Steering::answer`], or the answer does not fit the question.
    pub fn answer_form(
        &self,
        store: &mut Store,
        info: &SessionInfo,
        meant: QuestionChoice,
        answer: FormAnswer,
        origin: &str,
    ) -> Result<(Question, Receipt), SteerError> {
        self.answer_form_with(store, info, meant, |_| Ok(answer), origin)
    }

    /// Does the same with an answer that is computed from the question.
    ///
    /// # Errors
    /// As [`Steering::answer_form`], and the error of `read`.
    pub fn answer_form_with(
        &self,
        store: &mut Store,
        info: &SessionInfo,
        meant: QuestionChoice,
        read: impl FnOnce(&ServerQuestion) -> Result<FormAnswer, String>,
        origin: &str,
    ) -> Result<(Question, Receipt), SteerError> {
        self.check_not_below_agent()?;
        let found = self.question(store, info, meant.call)?;
        let (short, id) = (super::short_id(&info.id), found.call.id);
        if meant.asked.is_some_and(|asked| asked != found.asked.seq) {
            return Err(refused(
                Refusal::NotNow,
                format!("call {id} asks something else by now: {}", found.asked.why),
                "nothing was answered; rewake approvals lists the open questions",
            ));
        }
        let Some(form) = &found.form else {
            return Err(refused(
                Refusal::NotNow,
                format!("call {id} waits to be allowed; no server asks anything in it"),
                format!("rewake allow {short} {id} or rewake deny {short} {id} answers it"),
            ));
        };
        let fitting = read(form).and_then(|answer| {
            form::check(form, &answer)?;
            Ok(answer)
        });
        let answer = fitting.map_err(|why| {
            refused(
                Refusal::Nonsense,
                format!("the answer does not fit what {} asks: {why}", form.asker()),
                "rewake approvals shows each field and what it takes",
            )
        })?;
        let signal = Signal::Answer {
            call: id,
            asked: found.asked.seq,
            answer,
        };
        let receipt = self.put_signal(store, &info.id, signal, origin)?;
        Ok((found, receipt))
    }
}

/// Checks the limits of a message.
///
/// # Errors
/// It is too long or empty, or has too many images.
pub fn check_message(message: &Message) -> Result<(), SteerError> {
    let Message { text, images, .. } = message;
    if text.len() > MAX_MESSAGE_BYTES {
        return Err(refused(
            Refusal::TooLarge,
            format!(
                "the message has {} bytes, and at most {MAX_MESSAGE_BYTES} are sent",
                text.len()
            ),
            "put it into a file in the session's folder, and name the file in the message",
        ));
    }
    if images.len() > MAX_IMAGES {
        let what = format!(
            "there are {} images, and at most {MAX_IMAGES} are sent",
            images.len()
        );
        return Err(refused(
            Refusal::TooLarge,
            what,
            "send them with several messages",
        ));
    }
    if text.trim().is_empty() && images.is_empty() {
        return Err(refused(
            Refusal::Nonsense,
            "there is nothing to send: the message is empty",
            "rewake send ID \"text\", or - to read it from stdin",
        ));
    }
    Ok(())
}

/// The reason of a denial if the person gives none.
const NO_REASON: &str = "the user said no";

/// Returns the verdict of a denial, with the reason for the model.
pub fn denial(reason: Option<String>) -> Verdict {
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    Verdict::Deny {
        reason: reason.map_or_else(
            || NO_REASON.to_string(),
            |reason| format!("{NO_REASON}: {reason}"),
        ),
    }
}
