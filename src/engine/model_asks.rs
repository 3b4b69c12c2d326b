//! Questions of the model to the person: recorded with the start of the call, shown, and answered.
//!
//! Invariant: the question is recorded before it is shown, and the answer before the model gets it.
//! A start after a crash shows the recorded question, or uses the recorded answer.

use tokio::sync::oneshot;

use super::drive_step::Stoppable;
use super::{Engine, EngineError, Write};
use crate::core::entry::{Entry, Guard};
use crate::core::form::ServerQuestion;
use crate::core::tool::ToolCall;
use crate::tools::{self, ToolResult, Work, answer_for_model};
use crate::world::{ServerAsks, World};

/// Maximum number of questions without a message of the user.
const MAX_QUESTIONS: u32 = 8;

const NOBODY: &str = "nobody can be asked now: take the likely reading and say which";

/// Records the question of a call and shows it. Without a person, or after many questions, the model
/// gets an error.
pub(super) async fn begin<W: World>(
    engine: &mut Engine<W>,
    call: &ToolCall,
) -> Result<(), EngineError> {
    let log = &mut engine.log;
    if log.may_run(call).is_none() {
        return Ok(());
    }
    let question = match question_of(call) {
        Ok(question) => question,
        Err(why) => return log.finish(call, ToolResult::error(why)).await,
    };
    if !log.policy.interactive || log.state.asked_by_model >= MAX_QUESTIONS {
        return log.finish(call, ToolResult::error(NOBODY)).await;
    }
    let started = Entry::Started {
        call: call.id,
        guard: Guard::Asks,
        access: None,
    };
    let asked = Entry::Asked {
        call: call.id,
        why: question.line(),
        rule: None,
        access: None,
        at: None,
        form: Some(Box::new(question)),
    };
    log.record(Write::of_all(vec![started, asked])).await?;
    await_answer(engine, call).await
}

/// Waits for the answer of the person, and records it as the result.
pub(super) async fn await_answer<W: World>(
    engine: &mut Engine<W>,
    call: &ToolCall,
) -> Result<(), EngineError> {
    // As it was recorded: another version may word the form differently.
    let asked = engine.log.state.call(call.id);
    let asked = asked.and_then(|open| open.server_question.as_ref());
    let Some(question) = asked.map(|asked| asked.question.clone()) else {
        let why = "the question was not recorded";
        return engine.log.finish(call, ToolResult::error(why)).await;
    };
    let (reply, answered) = oneshot::channel();
    let asked = ServerAsks {
        question: question.clone(),
        reply,
    };
    if engine.asking.ask(&mut engine.log, asked).await? {
        return Ok(());
    }
    match engine.drive_step_silently(answered, Stoppable::Yes).await? {
        Some(Ok(answer)) => {
            let text = answer_for_model(&question, &answer);
            engine.log.finish(call, ToolResult::done(text)).await
        }
        // The step was stopped or left, or another start answers.
        Some(Err(_)) | None => Ok(()),
    }
}

fn question_of(call: &ToolCall) -> Result<ServerQuestion, String> {
    match tools::work(call)? {
        Work::Ask(question) => Ok(*question),
        _ => Err("the call asks nothing".to_string()),
    }
}
