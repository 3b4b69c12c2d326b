//! Routes that control a session: messages, answers, signals. Each becomes a row of the store
//! before the request is answered. The answer says whether a running process will handle it.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::answer::{Target, json};
use super::problem::Problem;
use super::{Shared, TokenScope, body};
use crate::core::entry::{CallId, Image, Mode, Seq, Verdict, Via};
use crate::core::form::FormAnswer;
use crate::core::image;
use crate::core::signal::Signal;
use crate::session::{
    Accepted, AppContext, Delivery, QuestionChoice, Receipt, SettingsChange, decode_image, denial,
    is_in_bypass,
};
use crate::store::{Message as InboxMessage, Store};

/// Origin of these signals, as entries record it.
pub(super) const ORIGIN: &str = "http";

/// Answers the request. If the client wants it and no process works on the session, starts one
/// first. The request is already recorded then, so a failed start is only mentioned in the answer.
async fn accepted(
    app: &Shared,
    scope: TokenScope,
    session: String,
    receipts: &[Receipt],
    start: bool,
) -> Result<Response, Problem> {
    let mut last = receipts.last().map_or(Delivery::NothingToDo, |r| r.sending);
    let mut failed = None;
    let mut started = false;
    if start && last == Delivery::Kept {
        match app
            .starter
            .continue_session(&app.stores, &session, scope)
            .await
        {
            Ok(()) => started = true,
            Err(problem) => {
                let id = session.clone();
                let read =
                    move |ctx: &AppContext, _: &mut Store| Ok(ctx.session_list().is_worked_in(&id));
                match app.stores.read(read).await? {
                    // Another process was faster.
                    true => last = Delivery::Heard,
                    false => failed = Some(problem.value()),
                }
            }
        }
    }
    let answer = Accepted {
        became: last.word(),
        started,
        not_started: failed,
        ..Accepted::of(session, receipts)
    };
    json(StatusCode::ACCEPTED, &answer)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageArgs {
    #[serde(default)]
    text: String,
    #[serde(default)]
    images: Vec<SentImage>,
    #[serde(default)]
    start: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SentImage {
    /// Base64.
    data: String,
}

impl SentImage {
    fn decoded(&self) -> Result<(Image, Vec<u8>), Problem> {
        if self.data.len() as u64 > image::MAX_BYTES.div_ceil(3) * 4 {
            return Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("an image has more than {} bytes", image::MAX_BYTES),
            )
            .hint("make it smaller"));
        }
        decode_image(&self.data)
            .map_err(|why| Problem::bad(why).hint("PNG, JPEG, GIF or WebP, in base64"))
    }
}

pub(super) async fn send(target: Target, request: Request) -> Result<Response, Problem> {
    let Target { app, scope, id } = target;
    let message: MessageArgs = body::json(request).await?;
    may_reach(&app, scope, &id).await?;
    let start = message.start;
    let sent = app.stores.write_session(id, move |ctx, store, info| {
        let decoded = message.images.iter().map(SentImage::decoded);
        let decoded = decoded.collect::<Result<Vec<_>, _>>()?;
        let (images, blobs): (Vec<Image>, Vec<Vec<u8>>) = decoded.into_iter().unzip();
        let message = InboxMessage {
            images,
            ..InboxMessage::new(message.text, Via::Signal)
        };
        let steering = ctx.steering();
        Ok(steering.send(store, &info.id, message, &blobs, ORIGIN)?)
    });
    let (session, receipt) = sent.await?;
    accepted(&app, scope, session, &[receipt], start).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerBody {
    verdict: MessageBody,
    call: Option<String>,
    reason: Option<String>,
    /// A rule that the question offers for the session.
    rule: Option<String>,
    #[serde(default)]
    start: bool,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum MessageBody {
    Allow,
    Deny,
}

pub(super) async fn answer(target: Target, request: Request) -> Result<Response, Problem> {
    let Target { app, scope, id } = target;
    let answer: AnswerBody = body::json(request).await?;
    may_reach(&app, scope, &id).await?;
    let call = named_call(answer.call.as_deref())?;
    let verdict = match answer.verdict {
        MessageBody::Allow if answer.reason.is_some() => {
            return Err(Problem::bad("what is allowed has no reason").hint("leave the reason out"));
        }
        MessageBody::Deny if answer.rule.is_some() => {
            return Err(Problem::bad("a denial has no rule").hint("leave the rule out"));
        }
        MessageBody::Allow => Verdict::Allow,
        MessageBody::Deny => denial(answer.reason),
    };
    let answered = app.stores.write_session(id, move |ctx, store, info| {
        let verdict = (verdict, answer.rule);
        Ok(ctx.steering().answer(store, info, call, verdict, ORIGIN)?)
    });
    let (session, (_, receipt)) = answered.await?;
    accepted(&app, scope, session, &[receipt], answer.start).await
}

/// The answer for a server's question during a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerAnswer {
    answer: Answered,
    values: Option<Map<String, Value>>,
    call: Option<String>,
    /// Place of the entry with the question.
    asked: Option<Seq>,
    #[serde(default)]
    start: bool,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Answered {
    Accept,
    Decline,
    Cancel,
}

pub(super) async fn answer_server(target: Target, request: Request) -> Result<Response, Problem> {
    let Target { app, scope, id } = target;
    let sent: ServerAnswer = body::json(request).await?;
    may_reach(&app, scope, &id).await?;
    let meant = QuestionChoice {
        call: named_call(sent.call.as_deref())?,
        asked: sent.asked,
    };
    let answer = match (sent.answer, sent.values) {
        (Answered::Accept, values) => FormAnswer::Accept {
            values: values.unwrap_or_default(),
        },
        (_, Some(_)) => {
            return Err(
                Problem::bad("only what is accepted has values").hint("leave the values out")
            );
        }
        (Answered::Decline, None) => FormAnswer::Decline,
        (Answered::Cancel, None) => FormAnswer::Cancel,
    };
    let answered = app.stores.write_session(id, move |ctx, store, info| {
        let steering = ctx.steering();
        Ok(steering.answer_form(store, info, meant, answer, ORIGIN)?)
    });
    let (session, (_, receipt)) = answered.await?;
    accepted(&app, scope, session, &[receipt], sent.start).await
}

fn named_call(call: Option<&str>) -> Result<Option<CallId>, Problem> {
    let call = call.map(str::parse::<CallId>).transpose();
    call.map_err(|why| {
        Problem::bad(why).hint("GET /questions says which call each question is about")
    })
}

pub(super) async fn stop(target: Target, request: Request) -> Result<Response, Problem> {
    let Target { app, scope, id } = target;
    let Nothing {} = body::json_if_any(request).await?;
    send_signal(&app, scope, id, Signal::STOP, false).await
}

pub(super) async fn pause(target: Target, request: Request) -> Result<Response, Problem> {
    let Target { app, scope, id } = target;
    let Nothing {} = body::json_if_any(request).await?;
    send_signal(&app, scope, id, Signal::PAUSE, false).await
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct GoOn {
    #[serde(default)]
    pub(super) start: bool,
}

pub(super) async fn continue_session(
    target: Target,
    request: Request,
) -> Result<Response, Problem> {
    let Target { app, scope, id } = target;
    let GoOn { start } = body::json_if_any(request).await?;
    may_reach(&app, scope, &id).await?;
    send_signal(&app, scope, id, Signal::GoOn, start).await
}

pub(super) async fn send_signal(
    app: &Shared,
    scope: TokenScope,
    id: String,
    signal: Signal,
    start: bool,
) -> Result<Response, Problem> {
    let sent = app.stores.write_session(id, move |ctx, store, info| {
        Ok(ctx.steer(store, info, signal, ORIGIN)?)
    });
    let (session, receipt) = sent.await?;
    accepted(app, scope, session, &[receipt], start).await
}

pub(super) async fn choose(target: Target, request: Request) -> Result<Response, Problem> {
    let Target { app, scope, id } = target;
    let change: SettingsChange = body::json(request).await?;
    may_choose(change.mode, scope)?;
    // A stricter mode is chosen for any session, and a name changes nothing.
    if change.mode.is_none() && !change.is_title() {
        may_reach(&app, scope, &id).await?;
    }
    let sent = app.stores.write_session(id, move |ctx, store, info| {
        Ok(ctx.change_settings(store, info, &change, ORIGIN)?)
    });
    let (session, receipts) = sent.await?;
    accepted(&app, scope, session, &receipts, false).await
}

/// Requires the widest scope for a session in `bypassPermissions`.
pub(super) async fn may_reach(app: &Shared, scope: TokenScope, id: &str) -> Result<(), Problem> {
    if scope >= TokenScope::Admin {
        return Ok(());
    }
    let (id, folds) = (id.to_string(), Arc::clone(&app.folds));
    let found = app.stores.read(move |_, store| {
        let id = store.history().find(&id)?.id;
        Ok(is_in_bypass(store, &folds, &id)?)
    });
    if found.await? {
        Err(Problem::new(
            StatusCode::FORBIDDEN,
            "the session is in the mode bypassPermissions, which needs the scope admin",
        )
        .hint("a fork of it has mode default; rewake serve --scope admin prints a link that may"))
    } else {
        Ok(())
    }
}

/// Requires the widest scope for `bypassPermissions`.
pub(super) fn may_choose(mode: Option<Mode>, scope: TokenScope) -> Result<(), Problem> {
    match mode {
        Some(Mode::BypassPermissions) if scope < TokenScope::Admin => Err(Problem::new(
            StatusCode::FORBIDDEN,
            "the mode bypassPermissions needs the scope admin",
        )
        .hint("rewake serve --scope admin prints a link that may")),
        _ => Ok(()),
    }
}
