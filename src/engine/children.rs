//! Questions of subagents to a person. An interactive process shows them, any other process denies
//! them. A verdict is a row of the store, so it reaches the subagent even if this process dies.

use super::{EngineError, Event, Recorder};
use crate::core::entry::{CallId, Seq, Verdict};
use crate::core::form::{FormAnswer, ServerQuestion};
use crate::core::signal::Signal;
use crate::core::state::State;
use crate::core::to_person::DO_WITHOUT;
use crate::core::tool::ToolCall;
use crate::store::{Store, StoreError};
use crate::tools;
use crate::world::World;

/// Name of the sender of a verdict.
const ORIGIN: &str = "task";

const NOBODY: &str = "nobody is there to be asked";

/// A question of a subagent to a person, about one of its calls.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildQuestion {
    /// Session of the subagent.
    pub session: String,
    /// Title of its task.
    pub title: String,
    pub call: ToolCall,
    /// Sequence number of the question in the subagent's log.
    pub asked: Seq,
    pub why: String,
    /// How far the command would reach. `None`: the call runs no command.
    pub access: Option<crate::core::access::Access>,
    /// The question of an MCP server during the call. `None`: the question is whether the call may
    /// run.
    pub form: Option<Box<ServerQuestion>>,
}

/// The question of a subagent that was handled last.
#[derive(Default)]
pub(super) struct Children {
    /// The question that was shown or denied last: its session and its entry.
    asks: Option<(String, Seq)>,
}

impl Children {
    /// Restarts subagents in the background that were killed. Called while a step takes long.
    pub(super) fn restart_if_killed<W: World>(&self, log: &Recorder<W>) {
        for (id, background) in &log.state.background {
            if background.child.is_some() {
                log.world.restart_if_killed(id, background);
            }
        }
    }

    /// Checks whether a subagent asks something new, and shows or denies the question. A read error
    /// does not fail the step in progress.
    pub(super) fn check_question<W: World>(&mut self, log: &mut Recorder<W>) {
        let asks = child_question(&log.store, &log.state).unwrap_or_else(|error| {
            tracing::warn!(%error, "it is not known whether a task asks");
            None
        });
        let key = asks.as_ref().map(|q| (q.session.clone(), q.asked));
        if key == self.asks {
            return;
        }
        match (asks, log.policy.interactive) {
            (Some(question), false) => {
                let verdict = Verdict::Deny {
                    reason: format!("{NOBODY}{DO_WITHOUT}"),
                };
                let (session, call, asked) = (question.session, question.call.id, question.asked);
                let answer = match question.form {
                    None => Signal::Decide {
                        call,
                        asked,
                        verdict,
                        rule: None,
                    },
                    Some(_) => Signal::Answer {
                        call,
                        asked,
                        answer: FormAnswer::Decline,
                    },
                };
                if let Err(error) = self.show_or_deny(log, &session, answer) {
                    tracing::warn!(%error, "a question of a task was not answered");
                    return;
                }
            }
            (asks, _) => log.emit(Event::ChildAsks(asks.map(Box::new))),
        }
        self.asks = key;
    }

    pub(super) fn show_or_deny<W: World>(
        &mut self,
        log: &mut Recorder<W>,
        session: &str,
        what: Signal,
    ) -> Result<(), EngineError> {
        let at_ms = log.world.now_ms();
        log.store
            .inbox_mut()
            .signal(session, ORIGIN, at_ms, |_| what)?;
        Ok(())
    }
}

/// Returns the first question of a running subagent of this session that has no answer yet.
///
/// # Errors
/// The store cannot be read, or a log does not fold.
pub fn child_question(store: &Store, of: &State) -> Result<Option<ChildQuestion>, EngineError> {
    let children: Vec<&str> = of.children().collect();
    if children.is_empty() {
        return Ok(None);
    }
    for info in store.history().asking()? {
        if !children.contains(&info.id.as_str()) {
            continue;
        }
        let mut state = State::new(tools::describe);
        let mut folded = Ok(());
        store.load_each(&info.id, |record| {
            if folded.is_ok() {
                folded = state.fold(&record);
            }
            Ok::<(), StoreError>(())
        })?;
        folded?;
        let waiting = store.inbox().signals(&info.id)?;
        let is_answered = |call: CallId, asked: Seq| {
            waiting.iter().any(|sent| {
                matches!(&sent.signal, Ok(
                    Signal::Decide { call: c, asked: a, .. } | Signal::Answer { call: c, asked: a, .. }
                ) if (*c, *a) == (call, asked))
            })
        };
        let of_server = state.server_question().map(|(open, asked)| {
            let form = Some(Box::new(asked.question.clone()));
            (open, asked.seq, asked.question.line(), None, form)
        });
        let of_calls = state.questions();
        let of_calls =
            of_calls.map(|(open, asked)| (open, asked.seq, asked.why.clone(), asked.access, None));
        let mut all = of_server.into_iter().chain(of_calls);
        let first = all.find(|(open, asked, ..)| !is_answered(open.call.id, *asked));
        if let Some((open, asked, why, access, form)) = first {
            return Ok(Some(ChildQuestion {
                title: info.title.unwrap_or_default(),
                session: info.id,
                call: open.call.clone(),
                asked,
                why,
                access,
                form,
            }));
        }
    }
    Ok(None)
}
