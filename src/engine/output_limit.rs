//! The longest answer that a model may give: learnt from a refusal, or raised once when thinking used
//! all of it.

use super::context::{ContextChange, MAX_LEARNED};
use super::{Engine, EngineError, Write};
use crate::core::ending::speaks;
use crate::core::entry::{Block, Entry, Failure, FailureClass, Learned, OutputLimit, StopReason};
use crate::core::limits;
use crate::model::Reply;
use crate::world::World;

/// Records the limit that the server names in its refusal of a longer one. Returns false if that
/// was not the reason.
pub(super) async fn learn<W: World>(
    engine: &mut Engine<W>,
    model: &str,
    failure: &Failure,
    asked: u64,
) -> Result<bool, EngineError> {
    if failure.class != FailureClass::BadRequest || engine.log.state.learned >= MAX_LEARNED {
        return Ok(false);
    }
    let Some(limit) = limits::output_limit(&failure.message, asked) else {
        return Ok(false);
    };
    let learned = learned(engine, model, limit, None);
    engine
        .log
        .record(Write::of(learned).clearing_stream())
        .await?;
    engine
        .summaries
        .emit_context(&mut engine.log, ContextChange::OutputLearned(limit));
    Ok(true)
}

/// Returns what follows an answer that ended at its limit before it had a word or a call: a
/// higher limit, once, or the failure, since the same request would end so again.
pub(super) fn after_only_thinking<W: World>(
    engine: &mut Engine<W>,
    model: &str,
    reply: &Reply,
) -> Option<Entry> {
    let is_call = |block: &Block| matches!(block, Block::Call { .. });
    let is_empty = !speaks(&reply.blocks) && !reply.blocks.iter().any(is_call);
    if reply.stop != StopReason::MaxTokens || !is_empty {
        return None;
    }
    let budget = engine.log.policy.budget_of(&engine.log.state, model);
    let most = engine
        .log
        .world
        .most_answer_tokens(model)
        .min(budget.window / 4);
    let was_raised = engine.log.state.outputs.knows(model);
    if most > budget.answer && !was_raised {
        return Some(learned(engine, model, most, Some(budget.answer)));
    }
    Some(Entry::Failed {
        error: Failure {
            class: FailureClass::Nonsense,
            message: format!(
                "the answer of {model} ended at its output limit of {} tokens before it said a \
                     word: thinking used all of them",
                budget.answer
            ),
            hint: Some(format!(
                "set a larger max_output in [models.\"{model}\"] of the config, and max_output_tokens if \
                     it is set (an answer has a \
                     quarter of context_window at most), or let it think less: --effort low"
            )),
        },
        draft: None,
    })
}

fn learned<W: World>(
    engine: &Engine<W>,
    model: &str,
    tokens: u64,
    raised_from: Option<u64>,
) -> Entry {
    Entry::Learned(Learned {
        model: model.to_string(),
        // A version without `output` reads this as a limit that it knows already.
        limit: engine.log.policy.budget_of(&engine.log.state, model).window,
        output: Some(OutputLimit {
            tokens,
            raised_from,
        }),
        ..Learned::default()
    })
}
