//! The dispatch of the client's messages. It runs on the main thread and waits for nothing but the
//! store.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Shared;
use super::frames::Frame;
use super::prompt::{self, ORIGIN, Said};
use super::questions::{Answered, QuestionKey};
use super::session::{self, OpenedSession, Opening};
use super::settings::MODE;
use super::turns::{OpenPrompt, PROMPTS_MAX};
use super::wire::{
    self, ClientCapabilities, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, RpcError,
    UNKNOWN_METHOD,
};
use crate::core::signal::Signal;
use crate::session::objects::HistoryQuery;
use crate::session::{VERSION, now_ms};
use crate::store::Store;

/// The version of the protocol.
const PROTOCOL_VERSION: u64 = 1;

/// Number of sessions in a page of `session/list`.
const PAGE: u32 = 50;

/// The connection to the client.
pub(super) struct Connection {
    shared: Arc<Shared>,
    /// Opened for the first row.
    store: Option<Store>,
}

/// The result of a request. `None`: it is answered later.
type Answer = Result<Option<Value>, RpcError>;

impl Connection {
    pub(super) fn new(shared: Arc<Shared>) -> Connection {
        Connection {
            shared,
            store: None,
        }
    }

    /// Handles a message.
    pub(super) fn take(&mut self, frame: Frame) {
        match frame {
            Frame::Request { id, method, params } => match self.request(&id, &method, &params) {
                Ok(Some(result)) => self.shared.output.respond(&id, &result),
                Ok(None) => {}
                Err(error) => self.shared.output.refuse(&id, &error),
            },
            Frame::Notification { method, params } => {
                let done = match method.as_str() {
                    "session/cancel" => self.cancel(&params),
                    "$/cancel_request" => self.cancel_request(&params),
                    _ => Ok(()),
                };
                if let Err(error) = done {
                    tracing::info!(method, message = error.message, "a notification is ignored");
                }
            }
            Frame::Response { id, result } => self.response(&id, result.as_deref()),
            Frame::Wrong { id, error } => self.shared.output.refuse(&id, &error),
        }
    }

    fn request(&mut self, id: &Value, method: &str, params: &RawValue) -> Answer {
        if self.shared.client.get().is_none() && method != "initialize" {
            return Err(RpcError::new(INVALID_REQUEST, "initialize comes first"));
        }
        match method {
            "initialize" => self.initialize(params).map(Some),
            "authenticate" => self.authenticate(params).map(Some),
            "session/new" => self.open(id, Opening::New, params),
            "session/load" => self.open(id, Opening::Load, params),
            "session/resume" => self.open(id, Opening::Resume, params),
            "session/list" => self.list(params).map(Some),
            "session/close" => self.close(id, params),
            "session/prompt" => self.prompt(id, params),
            "session/set_mode" => self.set_mode(params).map(Some),
            "session/set_config_option" => self.set_config_option(params).map(Some),
            _ => {
                let method = crate::core::text::clip(method, 100);
                let why = format!("there is no method {method:?}");
                Err(RpcError::new(UNKNOWN_METHOD, why))
            }
        }
    }

    fn initialize(&self, params: &RawValue) -> Result<Value, RpcError> {
        let given: wire::Initialize<'_> = wire::params(params)?;
        let client = ClientCapabilities::read(given.client_capabilities);
        let methods = match client.has("/auth/terminal") {
            true => self.login_methods(),
            false => Vec::new(),
        };
        // A second `initialize` changes nothing.
        let _ = self.shared.client.set(client);
        Ok(json!({
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": { "name": "rewake", "title": "rewake", "version": VERSION },
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": { "image": true, "audio": false, "embeddedContext": true },
                "mcpCapabilities": { "http": true, "sse": false },
                "sessionCapabilities": {
                    "list": {}, "resume": {}, "close": {}, "additionalDirectories": {},
                },
            },
            "authMethods": methods,
        }))
    }

    /// Returns a login for the provider of the configured model, or else for every provider. The
    /// client adds the arguments to `rewake acp`.
    fn login_methods(&self) -> Vec<Value> {
        let (config, env) = (self.shared.ctx.config(), &self.shared.ctx.env);
        let model = config.model_name(env).ok();
        let names = match &model {
            Some(model) => vec![model.provider.as_str()],
            None => config.provider_names().into_iter().collect(),
        };
        let method = |name: &str| {
            json!({
                "type": "terminal", "id": format!("key-{name}"),
                "name": format!("Store the API key of {name}"), "args": ["key", name],
            })
        };
        names.into_iter().map(method).collect()
    }

    fn authenticate(&self, params: &RawValue) -> Result<Value, RpcError> {
        let given: wire::Authenticate = wire::params(params)?;
        let provider = given.method_id.strip_prefix("key-");
        let names = self.shared.ctx.config().provider_names();
        match provider.filter(|name| names.contains(name)) {
            Some(_) => Ok(json!({})),
            None => Err(RpcError::new(INVALID_PARAMS, "there is no such login")),
        }
    }

    fn open(&self, id: &Value, opening: Opening, params: &RawValue) -> Answer {
        let params: wire::OpenSession = wire::params(params)?;
        params.check()?;
        let request = id.clone();
        let work = move |shared: &Arc<Shared>| session::run(shared, &request, opening, params);
        match self.shared.start(work) {
            true => Ok(None),
            false => Err(RpcError::new(INTERNAL_ERROR, "too many sessions are open")),
        }
    }

    fn list(&mut self, params: &RawValue) -> Result<Value, RpcError> {
        let given: wire::ListSessions = match params.get() {
            "null" => wire::ListSessions::default(),
            _ => wire::params(params)?,
        };
        let wrong = |why: &str| RpcError::new(INVALID_PARAMS, why);
        if given.cwd.as_ref().is_some_and(|cwd| !cwd.is_absolute()) {
            return Err(wrong("cwd is not absolute"));
        }
        let before = given
            .cursor
            .map(|cursor| cursor.parse().map_err(|_| wrong("unknown cursor")));
        let query = HistoryQuery {
            folder: given.cwd.map(|cwd| cwd.to_string_lossy().into_owned()),
            before: before.transpose()?,
            limit: Some(PAGE),
            ..HistoryQuery::default()
        };
        let list = self.shared.ctx.session_list();
        let page = list.history(self.store()?, &query)?;
        let sessions: Vec<Value> = page
            .sessions
            .iter()
            // A copy of another agent's session is continued only in a fork.
            .filter(|listed| listed.parent.is_none() && listed.imported_from.is_none())
            .map(|listed| {
                let updated = jiff::Timestamp::from_millisecond(listed.updated_ms).ok();
                json!({
                    "sessionId": listed.id, "cwd": listed.folder, "title": listed.name,
                    "updatedAt": updated.map(|time| time.to_string()),
                })
            })
            .collect();
        let mut result = json!({ "sessions": sessions });
        if let Some(next) = page.next {
            result["nextCursor"] = next.to_string().into();
        }
        Ok(result)
    }

    fn close(&mut self, id: &Value, params: &RawValue) -> Answer {
        let given: wire::OfSession = wire::params(params)?;
        let session = self.session(&given.session_id)?;
        if session.turns().closing.is_some() {
            return Err(RpcError::unknown_session(&given.session_id));
        }
        self.cancel_prompts(&session)?;
        let heard = self.signal(&session, Signal::STOP)?;
        session.turns().closing = Some((id.clone(), Arc::clone(&heard)));
        session.hear(false, heard);
        Ok(None)
    }

    fn prompt(&mut self, id: &Value, params: &RawValue) -> Answer {
        let given: wire::Prompt = wire::params(params)?;
        let session = self.session(&given.session_id)?;
        let said = prompt::message(&session.ctx, given.prompt, self.shared.is_own)?;
        let heard = Arc::new(AtomicBool::new(false));
        let store = self.store()?;
        // The engine may take the row as soon as it is written, and then needs the prompt.
        let mut turns = session.turns();
        if turns.prompts.len() >= PROMPTS_MAX || turns.closing.is_some() {
            return Err(RpcError::new(INTERNAL_ERROR, "too many prompts wait"));
        }
        let is_message = matches!(said, Said::Message { .. });
        let row = match said {
            Said::Message { message, blobs } => {
                let mut inbox = store.inbox_mut();
                Some(inbox.queue_from_outside(&session.id, &message, &blobs, now_ms())?)
            }
            Said::Continue => {
                let mut inbox = store.inbox_mut();
                inbox.signal(&session.id, ORIGIN, now_ms(), |_| Signal::GoOn)?;
                None
            }
        };
        turns.prompts.push_back(OpenPrompt {
            request: id.clone(),
            row,
            is_taken: false,
            heard: Arc::clone(&heard),
            is_cancelled: false,
        });
        drop(turns);
        session.hear(is_message, heard);
        Ok(None)
    }

    fn set_mode(&mut self, params: &RawValue) -> Result<Value, RpcError> {
        let given: wire::SetMode = wire::params(params)?;
        let session = self.session(&given.session_id)?;
        let settings = session.settings().clone();
        let choice = settings.choose(&session.ctx, MODE, &given.mode_id)?;
        self.send(&session, Signal::Choose(choice))?;
        Ok(json!({}))
    }

    fn set_config_option(&mut self, params: &RawValue) -> Result<Value, RpcError> {
        let given: wire::SetConfigOption = wire::params(params)?;
        let session = self.session(&given.session_id)?;
        let settings = session.settings().clone();
        let choice = settings.choose(&session.ctx, &given.config_id, &given.value)?;
        let options = settings.with(&choice).options();
        self.send(&session, Signal::Choose(choice))?;
        Ok(json!({ "configOptions": options }))
    }

    fn cancel(&mut self, params: &RawValue) -> Result<(), RpcError> {
        let given: wire::OfSession = wire::params(params)?;
        let session = self.session(&given.session_id)?;
        self.cancel_prompts(&session)?;
        self.send(&session, Signal::STOP)
    }

    /// Cancels the prompt with this request. Other requests are answered anyway.
    fn cancel_request(&mut self, params: &RawValue) -> Result<(), RpcError> {
        let given: wire::CancelRequest = wire::params(params)?;
        let sessions: Vec<Arc<OpenedSession>> = self.shared.sessions().values().cloned().collect();
        for session in sessions {
            let turns = session.turns();
            let is_meant = |prompt: &OpenPrompt| prompt.request == given.request_id;
            let is_here = turns.prompts.iter().any(is_meant);
            drop(turns);
            if is_here && !self.cancel_row(&session, &given.request_id)? {
                return self.send(&session, Signal::STOP);
            }
        }
        Ok(())
    }

    /// Cancels all prompts. Those that the engine has not taken are answered at once.
    fn cancel_prompts(&mut self, session: &OpenedSession) -> Result<(), RpcError> {
        let turns = session.turns();
        let requests = turns.prompts.iter().map(|prompt| prompt.request.clone());
        let requests: Vec<Value> = requests.collect();
        drop(turns);
        for request in requests {
            self.cancel_row(session, &request)?;
        }
        Ok(())
    }

    /// Cancels a prompt. Returns true if its row was still in the inbox: then it is removed.
    fn cancel_row(&mut self, session: &OpenedSession, request: &Value) -> Result<bool, RpcError> {
        let output = self.shared.output.clone();
        let store = self.store()?;
        let mut turns = session.turns();
        let at = turns
            .prompts
            .iter()
            .position(|prompt| prompt.request == *request);
        let Some(prompt) = at.and_then(|at| turns.prompts.get_mut(at)) else {
            return Ok(false);
        };
        prompt.is_cancelled = true;
        let row = prompt.row.filter(|_| !prompt.is_taken);
        let Some(row) = row.filter(|row| store.inbox_mut().remove_queued(*row).is_ok()) else {
            return Ok(false);
        };
        at.and_then(|at| turns.prompts.remove(at));
        drop(turns);
        output.respond(request, &json!({ "stopReason": "cancelled" }));
        // The engine records whether anything is left to do.
        let _ = session.commands.send(crate::engine::Command::EditQueued {
            id: row,
            message: None,
        });
        Ok(true)
    }

    /// Handles the answer of the client to a request.
    fn response(&mut self, id: &Value, result: Option<&RawValue>) {
        let output = self.shared.output.clone();
        let answered = self.shared.questions.answered(&output, id, result);
        let done = match answered {
            Answered::Nothing => Ok(()),
            Answered::Signal(key, signal) => {
                self.answer(&key, |connection, session| connection.send(session, signal))
            }
            Answered::Command(key, command) => self.answer(&key, |_, session| {
                let _ = session.commands.send(command);
                Ok(())
            }),
            Answered::Cancelled(key) => self.session(&key.session).and_then(|session| {
                self.cancel_prompts(&session)?;
                self.send(&session, Signal::STOP)
            }),
        };
        if let Err(error) = done {
            tracing::warn!(
                message = error.message,
                "an answer of the client was not stored"
            );
        }
    }

    /// Passes an answer on, unless another process answered first.
    fn answer(
        &mut self,
        key: &QuestionKey,
        pass: impl FnOnce(&mut Connection, &OpenedSession) -> Result<(), RpcError>,
    ) -> Result<(), RpcError> {
        let session = self.session(&key.session)?;
        let asking = key.child.as_deref().unwrap_or(&key.session);
        let waiting = self.store()?.inbox().signals(asking)?;
        let is_answer = |signal: &Signal| match signal {
            Signal::Decide { call, asked, .. } | Signal::Answer { call, asked, .. } => {
                (*call, *asked) == (key.call, key.asked)
            }
            _ => false,
        };
        match waiting
            .iter()
            .any(|sent| sent.signal.as_ref().is_ok_and(is_answer))
        {
            true => Ok(()),
            false => pass(self, &session),
        }
    }

    /// Writes a signal, and tells the engine to read it.
    fn send(&mut self, session: &OpenedSession, signal: Signal) -> Result<(), RpcError> {
        let heard = self.signal(session, signal)?;
        session.hear(false, heard);
        Ok(())
    }

    fn signal(
        &mut self,
        session: &OpenedSession,
        signal: Signal,
    ) -> Result<Arc<AtomicBool>, RpcError> {
        let mut inbox = self.store()?.inbox_mut();
        inbox.signal(&session.id, ORIGIN, now_ms(), |last| {
            signal.sent_after(last)
        })?;
        Ok(Arc::new(AtomicBool::new(false)))
    }

    fn session(&self, id: &str) -> Result<Arc<OpenedSession>, RpcError> {
        let session = self.shared.sessions().get(id).cloned();
        session.ok_or_else(|| RpcError::unknown_session(id))
    }

    fn store(&mut self) -> Result<&mut Store, RpcError> {
        let store = match self.store.take() {
            Some(store) => store,
            None => self.shared.ctx.open_store()?,
        };
        Ok(self.store.insert(store))
    }
}
