//! The state of a session: the fold of its log.
//!
//! [`State::fold`] takes one record after the other and refuses an entry that cannot have happened.
//! The engine checks an entry before it writes it, and every load checks it again. So every prefix
//! of a log that can be opened is legal.
//!
//! Invariant: pending work is stored nowhere but here; `next` reads it from the state, so a restart
//! has exactly the pending work of the dead process.

use std::collections::{BTreeMap, BTreeSet};

use super::access::Access;
use super::check::SessionChecks;
use super::choice::Effort;
use super::cleared_results::ClearedResults;
use super::ending::Ending;
use super::entry::{
    Assignment, Block, CallId, ChildRun, Entry, Failure, ForkPoint, Guard, HookEvent, ImportSource,
    Mode, Plan, PromptPrefix, Record, RunLimits, Seq, StopReason, UnrestoredPath, Usage, Verdict,
};
use super::exfiltration::SentBefore;
use super::external_changes::ExternalChanges;
use super::form::{FormAnswer, ServerQuestion};
use super::hook::SessionHooks;
use super::ledger::Ledger;
use super::limits::{Counts, Guesses, LearntOutputs};
use super::loop_guard::LoopGuard;
use super::permission::Permission;
use super::preface::{Carried, Preface};
use super::request_form::{Forms, RequestForms};
use super::rule::Rule;
use super::seen::SeenFile;
use super::size::{PART_BYTES, prefix_bytes};
use super::structured::{AnswerStatus, Structured};
use super::tool::{Class, Describe, Described, MAX_CALLS, ToolCall};
use super::unsent::{self, Refused};
use super::user_messages::UserMessages;

mod allows;
mod apply;
mod context;
mod foreign_log;

pub use apply::has_run_command;
pub use foreign_log::ForeignLog;

/// An entry that cannot follow the ones before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Illegal {
    /// The place that the entry would have had.
    pub seq: Seq,
    /// The kind of the entry, as it is stored.
    pub kind: &'static str,
    /// Why it is not allowed there, in words for a person.
    pub why: String,
}

impl std::fmt::Display for Illegal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "entry {} ({}) cannot stand here: {}",
            self.seq, self.kind, self.why
        )
    }
}

impl std::error::Error for Illegal {}

/// The state of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// Describes the calls of answers.
    describe: Describing,
    next_seq: Seq,
    /// The folder of the session, as recorded by `Opened`, or by `Forked` for a fork with separate
    /// files.
    pub folder: String,
    /// The layers belong to another folder.
    pub has_moved: bool,
    /// The version of rewake that rendered the layers.
    pub version: String,
    /// `provider/model` that is asked next.
    pub model: String,
    /// The permission mode, as it was chosen last.
    pub mode: Mode,
    /// The effort chosen in this session; the config has the default.
    pub effort: Effort,
    pub temperature: Option<f64>,
    /// The session's own model, while a fallback answers instead.
    pub fallback_from: Option<String>,
    /// The session's own model, while the model of a command answers.
    pub model_before_command: Option<String>,
    /// The schema that the answer has to fit. `None`: the answer is free.
    pub structured: Option<Structured>,
    /// The layers: the beginning of every request, as it was rendered last.
    pub layers: PromptPrefix,
    /// The records in the context: everything since the context last started over.
    pub context: Vec<Record>,
    /// The text that replaces the records which left the context.
    pub preface: Option<Preface>,
    /// The calls of the last answer, in order.
    pub calls: Vec<OpenCall>,
    /// An answer of the model is pending: there is a message or a result after its last one.
    pub owed: bool,
    /// Why the agent waits for a person. `None`: nothing halts it.
    pub halted: Option<Halt>,
    /// A person paused it: nothing new starts until a person lifts the pause.
    pub paused: bool,
    /// Limits at which it pauses by itself.
    pub run_limits: RunLimits,
    /// Text that the user added to the system prompt.
    pub added_prompt: String,
    /// Folders beside the workspace that count as part of it. Absolute.
    pub added_folders: Vec<String>,
    /// Working time in milliseconds, without the time between two starts and the time without work.
    pub worked_ms: u64,
    /// The time of the last entry.
    last_ms: Option<i64>,
    /// The place of the entry with which the last process resumed it.
    pub taken_up: Seq,
    /// Number of starts in a row without progress.
    pub restarts: u32,
    /// At the last start, the work of an open call was still running.
    was_at_work: bool,
    /// Number of answers since the user's last message, or since this start.
    pub turns: u32,
    /// Number of questions of the model since the user's last message.
    pub asked_by_model: u32,
    /// Number of unusable answers in a row.
    pub nonsense: u32,
    /// The last answer, if the output limit cut it.
    pub cut_answer: CutAnswer,
    /// The calls that are compared to find repetitions.
    pub loop_guard: LoopGuard,
    /// Files that the model knows.
    pub seen: BTreeMap<String, SeenFile>,
    /// Outside changes that the model does not know yet.
    pub outside: ExternalChanges,
    /// Commands that run in the background, by id.
    pub background: BTreeMap<String, Background>,
    /// Number of requests since the user's last message that a note on background work started.
    pub wakes: u32,
    /// The background commands of which the model was reminded, by id.
    pub reminded: BTreeSet<String>,
    /// The task of the session, if it is a subagent.
    pub assignment: Option<Assignment>,
    /// Number of tasks that started since the user's last message.
    pub tasks_begun: u32,
    /// Running shell commands of the user, by the place of their entry.
    pub user_commands: BTreeMap<Seq, UserCommand>,
    /// The last plan of the model. `None` until there is one.
    pub plan: Option<Plan>,
    /// The entry of that plan.
    pub(crate) plan_at: Option<Seq>,
    /// Tokens of all requests, summaries included.
    pub usage: Usage,
    /// Tokens of these for summaries and notes.
    pub summarising: Usage,
    /// Tokens of each model, request by request, because prices depend on the length of each.
    pub spent: BTreeMap<String, Vec<Usage>>,
    /// Number of answers of the model in the whole session.
    pub replies: u64,
    /// Number of answers that the user stopped. Requests contain what there is of them.
    pub cut_answers: u64,
    /// Number of finished calls in the whole session.
    pub finished: u64,
    /// The point from which the session was forked. `None`: it is not a fork.
    pub forked_from: Option<ForkPoint>,
    /// The session of another agent that this one is a copy of. `None` after a fork.
    pub imported: Option<Box<ImportSource>>,
    /// Number of continuations: the context started over from a note.
    pub continuations: u32,
    name: Option<String>,
    /// The title that a model gave, and whether a model was asked for one.
    made_title: Option<String>,
    was_titled: bool,
    /// The first words of the user, and their place.
    first_words: Option<(Seq, String)>,
    /// Name of the last tree: the workspace's files when it was recorded.
    pub tree: Option<String>,
    /// A call that may have changed files started after that tree.
    pub may_differ_from_tree: bool,
    /// Why the last snapshot of the files failed. `None`: it did not.
    pub files_not_kept: Option<String>,
    /// The restore in progress, which comes before all other work.
    pub restoring: Option<Restoring>,
    /// The context windows in tokens, learnt from providers' errors.
    pub limits: BTreeMap<String, u64>,
    /// Images that servers refused, by model.
    pub refused_images: BTreeMap<String, Vec<Refused>>,
    /// The lengths of answers that were learnt, by model.
    pub outputs: LearntOutputs,
    /// The forms of the history that servers take, by model.
    pub request_forms: RequestForms,
    /// Bytes per token of each model, learnt from what providers counted.
    pub ratios: BTreeMap<String, f64>,
    /// Limits among these that no server named.
    pub(super) guesses: Guesses,
    /// Number of limits learnt in a row, without an answer between.
    pub learned: u32,
    /// The provider's token counts since the context last changed.
    pub counts: Counts,
    /// Files, commands, failures and the user's messages, for summaries and notes.
    pub ledger: Ledger,
    /// The last user message, whole.
    pub words: Option<(Seq, String)>,
    /// All messages of the user.
    pub(crate) said: UserMessages,
    /// Results of the context that a line replaces.
    pub freed: ClearedResults,
    /// Content that is relevant again was not searched for yet.
    pub recall_due: bool,
    /// Rules that a person allowed for this session, oldest first.
    pub session_rules: Vec<Rule>,
    /// Hosts of which a person allowed a page in this session.
    pub approved_hosts: BTreeSet<String>,
    /// Bytes that addresses carried since the user's last message, before the context.
    sent_before: SentBefore,
    /// The hooks that have not ended, and the answers of guards.
    pub hooks: SessionHooks,
    /// The checks, and the changes of files that they wait for.
    pub checks: SessionChecks,
    /// The messages since the last answer, oldest first. A hook may refuse them.
    unanswered: Vec<Unanswered>,
}

/// A message without an answer: its place, and what the message changed.
#[derive(Debug, Clone, PartialEq)]
struct Unanswered {
    seq: Seq,
    was_owed: bool,
    was_halted: Option<Halt>,
    judged: Judged,
}

/// The answer of hooks to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    No,
    Yes,
    /// A guard failed.
    Failed,
    /// The same, and it was recorded that the message waits for a person.
    Held,
}

/// Does not count when states are compared: two states are equal by what was folded. (A function
/// may have several addresses, so comparing pointers to it proves nothing.)
#[derive(Debug, Clone, Copy)]
struct Describing(Describe);

/// Describes no call: [`State::new`] sets the function that does.
impl Default for Describing {
    fn default() -> Describing {
        Describing(|name, _| Err(format!("there is no tool named {name:?}")))
    }
}

impl PartialEq for Describing {
    fn eq(&self, _: &Describing) -> bool {
        true
    }
}

/// A call of the last answer.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenCall {
    pub call: ToolCall,
    /// The answer was cut by the output limit inside this call.
    pub cut: bool,
    /// The last question to a person about it.
    pub asked: Option<PendingQuestion>,
    /// A person's verdict. `None`: the rules and the hooks decide.
    pub decided: Option<Verdict>,
    /// The access that a person approved.
    pub allowed_access: Option<Access>,
    /// The real path when the person was asked.
    pub asked_about: Option<String>,
    /// The last `Started` of the call.
    pub guard: Option<Guard>,
    /// The place of that `Started`.
    pub started: Seq,
    /// The access of that `Started`.
    pub started_access: Option<Access>,
    /// It ran on a machine that was lost: what is known about that.
    pub lost: Option<String>,
    /// The session moved since it was called, and no hook of this machine has judged it yet.
    is_unjudged: bool,
    /// Its result is in the log.
    pub finished: bool,
    /// The result says that the call was refused or failed.
    pub failed: bool,
    /// It never ran, because a person, a rule or a hook denied it.
    pub denied: bool,
    /// The last question of its server during the call.
    pub server_question: Option<OpenQuestion>,
    /// The answers to its server so far, oldest first.
    pub answers: Vec<(ServerQuestion, FormAnswer)>,
}

/// A question of a server, as `Entry::Asked` has it.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenQuestion {
    /// The place of its entry, which identifies the question of an answer.
    pub seq: Seq,
    /// When it was asked: UTC, milliseconds since 1970.
    pub at_ms: i64,
    pub question: ServerQuestion,
    /// The recorded answer. The journal of the run shows whether the server has it.
    pub answer: Option<FormAnswer>,
}

/// A question about a call, as `Entry::Asked` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingQuestion {
    /// The place of its entry, which identifies the question of a verdict.
    pub seq: Seq,
    /// When it was asked first in this form: UTC, milliseconds since 1970.
    pub at_ms: i64,
    pub why: String,
    pub rule: Option<String>,
    pub access: Option<Access>,
    pub at: Option<String>,
}

/// Reason why the agent was halted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halt {
    /// A person stopped it.
    Stopped,
    /// The model call failed for good.
    Failed(Failure),
}

/// Whether the output limit cut the last answer of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CutAnswer {
    #[default]
    No,
    /// It did, and the model is to continue it.
    Owed,
    /// The model was told to continue it. It is not told a second time.
    Told,
}

/// A restore in progress: the names of the trees before and after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restoring {
    pub before: String,
    pub target: String,
    /// The files are put into the folder of a new fork.
    pub new_folder: bool,
    /// Paths that stay by the plan, and the number of others.
    pub kept: Vec<UnrestoredPath>,
    pub more_kept: u64,
}

/// A command that runs in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Background {
    /// The name of its run folder.
    pub run: String,
    /// The command line, as the model wrote it.
    pub command: String,
    /// Data of a subagent. `None`: a command.
    pub child: Option<ChildRun>,
    /// Number of bytes of its output that a wait searched.
    pub searched: u64,
}

/// A shell command of the user, as `Entry::UserCommand` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserCommand {
    /// The command line, as it was typed.
    pub command: String,
    pub guard: Guard,
    /// When it was recorded: UTC, milliseconds since 1970.
    pub since_ms: i64,
}

impl UserCommand {
    /// The name of its run folder. `None` for one that has the terminal.
    pub fn run(&self) -> Option<&str> {
        self.guard.run()
    }
}

impl State {
    /// Returns the state of a log without entries.
    pub fn new(describe: Describe) -> State {
        State {
            describe: Describing(describe),
            ..State::default()
        }
    }

    /// Returns the state after all of `records`.
    pub fn of<'a>(
        describe: Describe,
        records: impl IntoIterator<Item = &'a Record>,
    ) -> Result<State, Illegal> {
        let mut state = State::new(describe);
        for record in records {
            state.fold(record)?;
        }
        Ok(state)
    }

    /// Returns the place of the next entry.
    pub fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// Returns the first call without a result.
    pub fn first_open(&self) -> Option<&OpenCall> {
        self.calls.iter().find(|c| !c.finished)
    }

    /// Returns the function that describes a call by its name and arguments.
    pub(crate) fn describe(&self) -> Describe {
        self.describe.0
    }

    /// Returns a call of the last answer by its id. `None` for calls of earlier answers.
    pub fn call(&self, id: CallId) -> Option<&OpenCall> {
        self.calls.iter().find(|c| c.call.id == id)
    }

    /// Returns the questions that wait for a person, as far as the log says.
    pub fn questions(&self) -> impl Iterator<Item = (&OpenCall, &PendingQuestion)> {
        let is_open = |c: &&OpenCall| {
            !c.finished
                && c.guard.is_none()
                && c.decided.is_none()
                && self.hooks.of_call(c.call.id).is_none()
        };
        let open = self.calls.iter().filter(is_open);
        open.filter_map(|c| Some((c, c.asked.as_ref()?)))
            .filter(|_| !self.is_stopped())
    }

    /// Returns the question of a server that waits for a person, with its call.
    pub fn server_question(&self) -> Option<(&OpenCall, &OpenQuestion)> {
        let asks = |open: &&OpenCall| !open.finished && open.guard.is_some();
        let asked = self.calls.iter().filter(asks);
        asked
            .filter_map(|open| Some((open, open.server_question.as_ref()?)))
            .find(|(_, asked)| asked.answer.is_none())
            .filter(|_| !self.is_stopped())
    }

    /// Returns whether a question waits for a person: about a call, or from a server.
    pub fn asks(&self) -> bool {
        self.questions().next().is_some() || self.server_question().is_some()
    }

    /// Returns whether a started call has no result, or a command runs in the background.
    pub fn acts(&self) -> bool {
        let begun = |c: &OpenCall| c.guard.is_some() && !c.finished;
        self.calls.iter().any(begun) || !self.background.is_empty()
    }

    /// Returns whether a person stopped the agent and nothing has lifted that since.
    pub fn is_stopped(&self) -> bool {
        self.halted == Some(Halt::Stopped)
    }

    /// Returns whether the model knows the content that the file of a call had when the call
    /// started.
    fn knows_file_of(&self, guard: &Guard) -> bool {
        match guard {
            Guard::Checked {
                path,
                before: Some(before),
                ..
            } => (self.seen.get(path)).is_some_and(|seen| seen.hash == *before),
            Guard::Checked { before: None, .. }
            | Guard::Supervised { .. }
            | Guard::Child { .. }
            | Guard::Served { .. }
            | Guard::Asks
            | Guard::Opaque => true,
        }
    }

    /// Returns whether the file of a call had changed between the model's last view of it and the
    /// start of the call.
    pub fn changed_since_seen(&self, guard: &Guard) -> bool {
        match guard {
            Guard::Checked { path, .. } => {
                self.seen.contains_key(path) && !self.knows_file_of(guard)
            }
            Guard::Supervised { .. }
            | Guard::Child { .. }
            | Guard::Served { .. }
            | Guard::Asks
            | Guard::Opaque => false,
        }
    }

    /// Returns whether a subagent runs in the background.
    pub fn works_in_background(&self) -> bool {
        self.background.values().any(|b| b.child.is_some())
    }

    /// Returns the sessions of running subagents: their calls are in progress, or they run in the
    /// background.
    pub fn children(&self) -> impl Iterator<Item = &str> {
        let open = self.calls.iter().filter(|c| !c.finished);
        let waited_for = open.filter_map(|c| match &c.guard {
            Some(Guard::Child { session, .. }) => Some(session.as_str()),
            _ => None,
        });
        let background = self.background.values();
        waited_for.chain(background.filter_map(|b| Some(b.child.as_ref()?.session.as_str())))
    }

    /// Returns the number of running subagents.
    pub fn tasks_at_work(&self) -> usize {
        self.children().count()
    }

    /// Returns the first earlier call of the same answer that was to change a file and was refused
    /// or failed.
    pub fn failed_change_before(&self, id: CallId) -> Option<&OpenCall> {
        let mut before = self.calls.iter().take_while(|c| c.call.id != id);
        before.find(|c| c.failed && c.call.class() == Some(Class::Checked))
    }

    /// Returns why the images of an entry are not sent to the model in a request in these forms. `None`:
    /// they are.
    pub(crate) fn image_refusal(&self, seq: Seq, forms: Option<&Forms>) -> Option<&str> {
        let learnt = self.refused_images.get(&self.model);
        let learnt = learnt.and_then(|learnt| unsent::why(learnt, seq));
        learnt.or_else(|| forms?.image_refusal(seq))
    }

    /// Returns the messages without an answer for which no hook was recorded: a fork begins with
    /// such messages, for example.
    pub fn unjudged_messages(&self) -> impl Iterator<Item = &Record> {
        let is_pending = |seq: Seq| {
            let mut pending = self.hooks.pending().iter();
            pending.any(|hooks| hooks.of == seq && hooks.event == HookEvent::UserPromptSubmit)
        };
        let unjudged = move |record: &&Record| {
            let mut unanswered = self.unanswered.iter();
            unanswered.any(|said| said.seq == record.seq && said.judged == Judged::No)
                && !is_pending(record.seq)
        };
        self.context.iter().filter(unjudged)
    }

    /// Returns whether work is pending: an answer, a call, a question, or a command that runs under
    /// a keeper, also a command of the user. After a stop only open calls count.
    pub fn unfinished(&self) -> bool {
        if self.restoring.is_some() {
            return true;
        }
        if self.is_stopped() {
            let has_check = self.checks.running().is_some();
            return has_check || self.first_open().is_some() || !self.hooks.pending().is_empty();
        }
        let of_user = self.user_commands.values().any(|c| c.run().is_some());
        self.owed
            || of_user
            || !self.hooks.pending().is_empty()
            || self.first_open().is_some()
            || self.unchecked().is_some()
            || !self.background.is_empty()
    }

    /// Returns the ending of the session, if this was its last entry. [`super::ending::of_entries`]
    /// returns the same from the entries alone, except for an answer that was not compared with its
    /// schema yet.
    pub fn ending(&self, last: Option<&Entry>) -> Ending {
        match &self.halted {
            Some(Halt::Stopped) => return Ending::Stopped,
            Some(Halt::Failed(_)) => return Ending::Failed,
            None => {}
        }
        let has_hooks = !self.hooks.pending().is_empty();
        if has_hooks || self.owed || self.first_open().is_some() || self.unchecked().is_some() {
            Ending::with_pending_work(last)
        } else {
            Ending::Done
        }
    }

    /// Returns the answer that still has to be compared with its schema.
    pub fn unchecked(&self) -> Option<Seq> {
        match self.structured.as_ref()?.standing {
            AnswerStatus::Unchecked(answer) => Some(answer),
            AnswerStatus::Owed | AnswerStatus::Fits(_) | AnswerStatus::GivenUp(_) => None,
        }
    }

    /// Returns the schema that an answer still has to fit.
    pub fn pending_schema(&self) -> Option<&serde_json::Value> {
        let held = self.structured.as_ref()?;
        match held.standing {
            AnswerStatus::Owed | AnswerStatus::Unchecked(_) | AnswerStatus::GivenUp(_) => {
                Some(&held.schema)
            }
            AnswerStatus::Fits(_) => None,
        }
    }

    /// Returns the answer at this entry, while it is in the context.
    pub fn answer(&self, seq: Seq) -> Option<(&[Block], StopReason)> {
        let record = self.context.iter().rev().find(|r| r.seq == seq)?;
        match &record.entry {
            Entry::Replied { blocks, stop, .. } => Some((blocks, *stop)),
            _ => None,
        }
    }

    /// Returns the title of the session: its name, else the one that a model gave, else the first
    /// words of the user.
    pub fn title(&self) -> Option<&str> {
        let named = self.name.as_deref().or(self.made_title.as_deref());
        named.or(self.first_words.as_ref().map(|(_, words)| words.as_str()))
    }

    /// Returns the message for which a model should be asked for a title. `None`: there is a title,
    /// a model was asked already, or the model has not answered yet.
    pub fn untitled_task(&self) -> Option<&str> {
        let is_due = self.name.is_none() && !self.was_titled && self.replies > 0;
        let mut said = self
            .context
            .iter()
            .filter_map(|record| match &record.entry {
                Entry::Said { text, .. } if !text.trim().is_empty() => Some(text.as_str()),
                _ => None,
            });
        said.next().filter(|_| is_due)
    }

    /// Returns whether a person named the session.
    pub fn is_named(&self) -> bool {
        self.name.is_some()
    }

    /// Returns the bytes that every request has, whatever the conversation: layers, and the schema
    /// of the answer.
    pub fn fixed_bytes(&self) -> usize {
        let schema = self.structured.as_ref();
        let schema = schema.map_or(0, |held| held.schema.to_string().len() + PART_BYTES);
        prefix_bytes(&self.layers) + schema
    }

    /// Returns the content that version 0.1 repeated after a summary.
    pub fn carried(&self) -> Carried<'_> {
        Carried {
            plan: self.plan.as_ref(),
            words: self.words.as_ref(),
            ledger: &self.ledger,
        }
    }

    /// Returns the model that the session is set to use, whichever answers now.
    pub fn own_model(&self) -> &str {
        self.fallback_from.as_deref().unwrap_or(&self.model)
    }
}

/// Returns the calls of an answer. A call that the output limit cut is marked.
fn open_calls(reply: Seq, blocks: &[Block], stop: StopReason, describe: Describe) -> Vec<OpenCall> {
    let mut calls = Vec::new();
    for (place, block) in blocks.iter().enumerate() {
        if let Block::Call {
            name, arguments, ..
        } = block
        {
            let id = CallId {
                reply,
                index: calls.len() as u32,
            };
            calls.push(OpenCall {
                call: ToolCall::new(id, name, arguments, describe),
                cut: stop == StopReason::MaxTokens && place + 1 == blocks.len(),
                asked: None,
                decided: None,
                allowed_access: None,
                asked_about: None,
                started: 0,
                started_access: None,
                guard: None,
                lost: None,
                is_unjudged: false,
                finished: false,
                failed: false,
                denied: false,
                server_question: None,
                answers: Vec::new(),
            });
        }
    }
    calls
}

impl OpenCall {
    /// Returns whether it exceeds the number of calls that one answer may run.
    pub fn is_surplus(&self) -> bool {
        self.call.id.index >= MAX_CALLS
    }

    /// Returns whether it is complete and can be understood.
    pub fn may_run(&self) -> bool {
        !self.is_surplus() && !self.cut && self.call.described.is_ok()
    }

    /// Returns whether it has no start, and the session moved since it was called: none of these hooks
    /// has judged it here.
    pub fn needs_judging(&self, hooks: &SessionHooks) -> bool {
        let id = self.call.id;
        self.is_unjudged
            && self.may_run()
            && !self.finished
            && self.guard.is_none()
            && hooks.of_call(id).is_none()
            && hooks.guards(id).is_none()
    }

    /// Returns the recorded answer to the same question of a server.
    pub fn answer_to(&self, question: &ServerQuestion) -> Option<&FormAnswer> {
        let mut answers = self.answers.iter().rev();
        let same = answers.find(|(asked, _)| asked == question);
        same.map(|(_, answer)| answer)
    }

    /// Returns the description of the call. `None`: it cannot be understood, and is closed.
    pub fn described(&self) -> Option<&Described> {
        self.call.described.as_ref().ok()
    }

    /// Returns the host of a page that a person allowed. A page on another port than the usual ones
    /// approves nothing else.
    fn approved_host(&self) -> Option<String> {
        match &self.described()?.permission {
            Permission::Fetch {
                host,
                usual_port: true,
                ..
            } if self.decided == Some(Verdict::Allow) => Some(host.clone()),
            _ => None,
        }
    }
}
