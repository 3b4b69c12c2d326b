//! Tool calls in the log: the question about a call, its guard and its result.

use std::path::PathBuf;

use tokio::time::timeout_at;

use super::EngineError;
use super::files::SnapshotResult;
use super::recorder::{Recorder, Write};
use crate::core::access::Access;
use crate::core::authorization::{Authorization, Question, authorize, may_act_at, question};
use crate::core::entry::{CallId, Entry, Guard, Outcome};
use crate::core::permission::Permission;
use crate::core::request::{MessagePart, Request};
use crate::core::tool::{Class, ToolCall};
use crate::tools::ToolResult;
use crate::world::{Images, PrepareError, World};

/// Maximum number of characters of a call that the result of another call names.
const LINE_CHARS: usize = 100;

impl<W: World> Recorder<W> {
    /// Returns the access that the call gets if it runs now. `None`: it may not run. The rules are
    /// asked about the file of a checked call when its path is resolved, in `prepare`.
    pub(super) fn may_run(&self, call: &ToolCall) -> Option<Option<Access>> {
        if call.class() == Some(Class::Checked) {
            return Some(None);
        }
        let open = self.state.call(call.id)?;
        match authorize(&self.state, &self.policy, open) {
            Authorization::Run { access } => Some(access),
            Authorization::Ask { .. } | Authorization::AwaitHooks | Authorization::Close(_) => None,
        }
    }

    /// Returns the path that the call leads to now, on which it may act. `None`: the call is not
    /// about a path.
    ///
    /// # Errors
    /// When the path cannot be resolved, or the call may not act there. The model gets the error.
    pub(super) fn judged(&self, call: &ToolCall) -> Result<Option<PathBuf>, String> {
        let (Some(at), Some(open)) = (self.world.leads_to(call)?, self.state.call(call.id)) else {
            return Ok(None);
        };
        let real = at.to_string_lossy();
        match may_act_at(&self.state, &self.policy, open, &real) {
            true => Ok(Some(at)),
            false => Err(format!(
                "{} leads to {real} now, which is not what was permitted: nothing was done\n\
                 hint: send the call again if that is what you want",
                call.subject()
            )),
        }
    }

    /// Prepares a call with an effect, for the path that the rules judged.
    pub(super) async fn prepare(
        &self,
        call: &ToolCall,
        access: Option<Access>,
    ) -> Result<Guard, PrepareError> {
        match self.judged(call) {
            Ok(at) => {
                self.world
                    .prepare(call, access, at.as_deref(), &self.state)
                    .await
            }
            Err(why) => Err(PrepareError::Refused(Outcome::error(why))),
        }
    }

    /// Adds a line to the result if a file change before this call in the same answer was refused.
    /// The call ran without that change, and the model must know it. Only the first call after the
    /// change says so.
    pub(super) fn note_refused_change(&self, call: &ToolCall, outcome: &mut Outcome) {
        let Some(failed) = self.state.failed_change_before(call.id) else {
            return;
        };
        let after = self.state.calls.iter();
        let mut after = after.filter(|open| open.call.id > failed.call.id);
        let first = after.find(|open| sees_files(&open.call) && !open.denied);
        if first.is_some_and(|first| first.call.id == call.id) {
            let what = failed.call.in_one_line(LINE_CHARS);
            outcome.add_line(&format!(
                "[{what}, before this call in the same answer, was refused: this is without its change]"
            ));
        }
    }

    /// Records the result of a call that has not touched any file.
    pub(super) async fn finish(
        &mut self,
        call: &ToolCall,
        ran: ToolResult,
    ) -> Result<(), EngineError> {
        self.finish_with(call, ran, SnapshotResult::default()).await
    }

    pub(super) async fn finish_with(
        &mut self,
        call: &ToolCall,
        mut ran: ToolResult,
        files: SnapshotResult,
    ) -> Result<(), EngineError> {
        self.note_refused_change(call, &mut ran.outcome);
        self.record_end(call, ran, files).await
    }

    pub(super) async fn record_end(
        &mut self,
        call: &ToolCall,
        ran: ToolResult,
        files: SnapshotResult,
    ) -> Result<(), EngineError> {
        let finished = Entry::Finished {
            call: call.id,
            outcome: ran.outcome,
            fact: ran.fact,
            tree: files.name,
        };
        self.record(Write {
            blobs: ran.blobs,
            tree: files.tree,
            ..Write::of(finished)
        })
        .await
    }

    pub(super) fn images(&self, request: &Request) -> Result<Images, EngineError> {
        let mut images = Images::new();
        for part in request.messages.iter().flat_map(|m| m.parts.iter()) {
            let hashes = match part {
                MessagePart::Image { blob, .. } => vec![&blob.hash],
                MessagePart::Result { images, .. } => images.iter().map(|(_, b)| &b.hash).collect(),
                MessagePart::Text { .. }
                | MessagePart::Thinking { .. }
                | MessagePart::Call { .. } => continue,
            };
            for hash in hashes {
                if !images.contains_key(hash)
                    && let Some(bytes) = self.store.blob(hash)?
                {
                    images.insert(hash.clone(), bytes);
                }
            }
        }
        Ok(images)
    }

    /// Prepares a call. If that takes longer than the answer may be held, records the answer and
    /// prepares the call again: preparing it has no effect.
    pub(super) async fn prepare_in_time(
        &mut self,
        call: &ToolCall,
        access: Option<Access>,
    ) -> Result<Result<Guard, PrepareError>, EngineError> {
        if let Some(due) = self.pending_answer_due() {
            if let Ok(prepared) = timeout_at(due, self.prepare(call, access)).await {
                return Ok(prepared);
            }
            self.record_pending_answer().await?;
        }
        Ok(self.prepare(call, access).await)
    }

    /// Returns why a person is to be asked about a call, or `None` if that is no longer needed.
    pub(super) fn question(&self, call: CallId) -> Option<Question> {
        question(&self.state, &self.policy, self.state.call(call)?)
    }

    /// Returns the entry for a question. `None`: the same question is recorded already.
    pub(super) fn new_question(
        &self,
        question: &Question,
        leads_to: Option<PathBuf>,
    ) -> Option<Entry> {
        let Question {
            call,
            why,
            rule,
            access,
        } = question.clone();
        let rule = rule.map(|rule| rule.to_string());
        let at = leads_to.map(|at| at.to_string_lossy().into_owned());
        let is_known = self.state.call(call)?.asked.as_ref().is_some_and(|asked| {
            (&asked.why, &asked.rule, asked.access, &asked.at) == (&why, &rule, access, &at)
        });
        (!is_known).then_some(Entry::Asked {
            call,
            why,
            rule,
            access,
            at,
            form: None,
        })
    }
}

/// Returns whether a call may give another result after a change of a file. One that reads only the
/// log or the web does not.
fn sees_files(call: &ToolCall) -> bool {
    let permission = call
        .described
        .as_ref()
        .map(|described| &described.permission);
    permission.is_ok_and(|permission| {
        !matches!(
            permission,
            Permission::None
                | Permission::Wait
                | Permission::LookBack { .. }
                | Permission::Fetch { .. }
                | Permission::Search { .. }
        )
    })
}
