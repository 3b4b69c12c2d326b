//! What is so: the fold of the log.
//!
//! [`State::fold`] takes one record after the other and refuses what cannot have happened.
//! The engine checks an entry before it writes it, and every load checks it again, so a log
//! that can be opened is a log whose every prefix is legal.
//!
//! Invariant: nothing that is still to be done is kept anywhere but here; `next` reads it
//! from the state, so a restart owes exactly what the dead process owed.

use std::collections::BTreeMap;

use super::access::Access;
use super::choice::Effort;
use super::ending::Ending;
use super::entry::{
    Assignment, Block, CallId, ChildRun, Entry, Failure, ForkPoint, Guard, Kept, Layers, Mode,
    Plan, Record, RunLimits, Seq, StopReason, Usage, Verdict,
};
use super::form::{FormAnswer, ServerQuestion};
use super::freed::Freed;
use super::ledger::Ledger;
use super::limits::Counts;
use super::outside::Outside;
use super::preface::{Carried, Preface};
use super::rule::Rule;
use super::size::{PART_BYTES, layers_bytes};
use super::structured::{Standing, Structured};
use super::tool::{Class, Describe, Described, MAX_CALLS, ToolCall};
use super::unsent::{self, Refused};
use super::words::Words;

mod allows;
mod apply;
mod context;

/// An entry that cannot follow the ones before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Illegal {
    /// The place that the entry would have had.
    pub seq: Seq,
    /// The kind of the entry, as it is stored.
    pub kind: &'static str,
    /// Why it cannot stand there, in words for a person.
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
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Says what the calls of answers are.
    describe: Describing,
    next_seq: Seq,
    /// The folder that the session works in, as `Opened` recorded it, or `Forked` of a fork with
    /// files of its own.
    pub folder: String,
    /// The layers are those of another folder.
    pub has_moved: bool,
    /// The version of rewake that rendered the layers.
    pub version: String,
    /// `provider/model` that is asked next.
    pub model: String,
    /// What runs without asking, as it was chosen last.
    pub mode: Mode,
    /// What was chosen in this session; the config says the rest.
    pub effort: Effort,
    pub temperature: Option<f64>,
    /// The session's own model, while a fallback answers in its place.
    pub fallback_from: Option<String>,
    /// The session's own model, while the model of a command answers.
    pub model_before_command: Option<String>,
    /// The answer that has to fit a schema. `None`: any answer will do.
    pub structured: Option<Structured>,
    /// What every request begins with, as it was rendered last.
    pub layers: Layers,
    /// The records that requests are made of: everything since the context last began.
    pub context: Vec<Record>,
    /// What stands for the records that left the context.
    pub preface: Option<Preface>,
    /// The calls of the last answer, in order.
    pub calls: Vec<OpenCall>,
    /// The model owes an answer: something was said or finished since its last one.
    pub owed: bool,
    /// Why nothing more is done without a person. `None`: nothing halts it.
    pub halted: Option<Halt>,
    /// A person paused it: nothing more is begun until one lifts that.
    pub paused: bool,
    /// Where it pauses by itself.
    pub run_limits: RunLimits,
    /// How long it was worked in, milliseconds: not the time between two starts, nor that in which
    /// nothing was to be done.
    pub worked_ms: u64,
    /// The time of the last entry.
    last_ms: Option<i64>,
    /// The place of the entry with which the last process took it up.
    pub taken_up: Seq,
    /// Starts in a row that brought nothing forward.
    pub restarts: u32,
    /// At the last start, what an open call began was still at work.
    was_at_work: bool,
    /// Answers since the user last spoke, or since this start.
    pub turns: u32,
    /// Answers in a row that could not be used.
    pub nonsense: u32,
    /// Files the model knows, with the hash it knows them by.
    pub seen: BTreeMap<String, String>,
    /// What changed outside of rewake and was not told to the model.
    pub outside: Outside,
    /// Commands that go on in the background, by id.
    pub background: BTreeMap<String, Background>,
    /// The session is that of a sub-agent.
    pub assignment: Option<Assignment>,
    /// Tasks that were begun since the user last spoke.
    pub tasks_begun: u32,
    /// Shell commands of the user that are not over, by the place of their entry.
    pub user_commands: BTreeMap<Seq, UserCommand>,
    /// The plan as the model wrote it last. `None` until there is one.
    pub plan: Option<Plan>,
    /// The entry of that plan.
    pub(crate) plan_at: Option<Seq>,
    /// Of all that was asked, summaries too.
    pub usage: Usage,
    /// Of that, for summaries and notes.
    pub summarising: Usage,
    /// What each model was asked for, request by request: prices depend on the length of each.
    pub spent: BTreeMap<String, Vec<Usage>>,
    /// Answers of the model in the whole session.
    pub replies: u64,
    /// Finished calls in the whole session.
    pub finished: u64,
    /// Where the session was forked from. `None` for one that is no fork.
    pub forked_from: Option<ForkPoint>,
    /// How often the context began again from a note.
    pub continuations: u32,
    name: Option<String>,
    /// What a model made of the task, and whether one was asked.
    made_title: Option<String>,
    was_titled: bool,
    first_words: Option<String>,
    /// The name of the last tree: what the workspace's files were when it was recorded.
    pub tree: Option<String>,
    /// A call began after that tree that may have changed files.
    pub may_differ_from_tree: bool,
    /// Why the files could not be kept, when that was so at last.
    pub files_not_kept: Option<String>,
    /// The files are being set back: what is owed before all else.
    pub restoring: Option<Restoring>,
    /// The context windows that were learnt from providers' errors, tokens.
    pub limits: BTreeMap<String, u64>,
    /// Models whose servers refused images, and which.
    pub refused_images: BTreeMap<String, Vec<Refused>>,
    /// Bytes per token of each model, learnt from what providers counted.
    pub ratios: BTreeMap<String, f64>,
    /// Limits learnt in a row, without an answer between.
    pub learned: u32,
    /// What the model's provider counted since the context last changed.
    pub counts: Counts,
    /// Files, commands, failures and the user's words, for summaries and notes.
    pub ledger: Ledger,
    /// The last user message, whole.
    pub words: Option<(Seq, String)>,
    /// All that the user said.
    pub(crate) said: Words,
    /// Results of the context that a line stands for.
    pub freed: Freed,
    /// What became relevant again was not looked for yet.
    pub recall_due: bool,
    /// Rules that a person allowed for this session, oldest first.
    pub session_rules: Vec<Rule>,
}

/// No part of what is so: two states are equal by what was folded. (A function may have several
/// addresses, so pointers to it say nothing.)
#[derive(Debug, Clone, Copy)]
struct Describing(Describe);

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
    /// What a person was asked about it last.
    pub asked: Option<Asked>,
    /// A person's or a hook's verdict. `None`: the rules decide.
    pub decided: Option<Verdict>,
    /// The access that a person allowed.
    pub allowed_access: Option<Access>,
    /// Where its path led when the person was asked.
    pub asked_about: Option<String>,
    /// The last `Started` of the call.
    pub guard: Option<Guard>,
    /// The access of that `Started`.
    pub started_access: Option<Access>,
    /// Its result is in the log.
    pub finished: bool,
    /// That result says that it was refused or failed.
    pub failed: bool,
    /// What its server asked last, in the middle of it.
    pub server_question: Option<OpenQuestion>,
    /// What its server was answered so far, oldest first.
    pub answers: Vec<(ServerQuestion, FormAnswer)>,
}

/// A question of a server, as `Entry::Asked` has it.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenQuestion {
    /// The place of its entry: which question an answer is about.
    pub seq: Seq,
    /// When it was asked: UTC, milliseconds since 1970.
    pub at_ms: i64,
    pub question: ServerQuestion,
    /// The answer that was recorded. Whether the server has it is in the journal of its run.
    pub answer: Option<FormAnswer>,
}

/// A question about a call, as `Entry::Asked` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The place of its entry: which question a verdict is about.
    pub seq: Seq,
    /// When it was asked first in this form: UTC, milliseconds since 1970.
    pub at_ms: i64,
    pub why: String,
    pub rule: Option<String>,
    pub access: Option<Access>,
    pub at: Option<String>,
}

/// What the agent was halted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halt {
    /// A person stopped it.
    Stopped,
    /// The model call failed for good.
    Failed(Failure),
}

/// Files that are being set back: the names of the trees that they were and are to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restoring {
    pub before: String,
    pub target: String,
    /// They are put into the folder of a new fork.
    pub new_folder: bool,
    /// What stays as it is by the plan, and how many more.
    pub kept: Vec<Kept>,
    pub more_kept: u64,
}

/// A command that goes on in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Background {
    /// The name of its run folder.
    pub run: String,
    /// The command line, as the model wrote it.
    pub command: String,
    /// It is no command but a sub-agent.
    pub child: Option<ChildRun>,
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
    /// The state of a log without entries.
    pub fn new(describe: Describe) -> State {
        State {
            describe: Describing(describe),
            next_seq: 0,
            folder: String::new(),
            has_moved: false,
            version: String::new(),
            model: String::new(),
            mode: Mode::default(),
            effort: Effort::Default,
            temperature: None,
            fallback_from: None,
            model_before_command: None,
            structured: None,
            layers: Layers::default(),
            context: Vec::new(),
            preface: None,
            calls: Vec::new(),
            owed: false,
            halted: None,
            paused: false,
            run_limits: RunLimits::default(),
            worked_ms: 0,
            last_ms: None,
            taken_up: 0,
            restarts: 0,
            was_at_work: false,
            turns: 0,
            nonsense: 0,
            seen: BTreeMap::new(),
            outside: Outside::default(),
            background: BTreeMap::new(),
            assignment: None,
            tasks_begun: 0,
            user_commands: BTreeMap::new(),
            plan: None,
            plan_at: None,
            usage: Usage::default(),
            summarising: Usage::default(),
            spent: BTreeMap::new(),
            replies: 0,
            finished: 0,
            forked_from: None,
            continuations: 0,
            name: None,
            made_title: None,
            was_titled: false,
            first_words: None,
            tree: None,
            may_differ_from_tree: false,
            files_not_kept: None,
            restoring: None,
            limits: BTreeMap::new(),
            refused_images: BTreeMap::new(),
            ratios: BTreeMap::new(),
            learned: 0,
            counts: Counts::default(),
            ledger: Ledger::default(),
            words: None,
            said: Words::default(),
            freed: Freed::default(),
            recall_due: false,
            session_rules: Vec::new(),
        }
    }

    /// The state after all of `records`.
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

    /// The place of the next entry.
    pub fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// The first call without a result.
    pub fn first_open(&self) -> Option<&OpenCall> {
        self.calls.iter().find(|c| !c.finished)
    }

    /// Says what a call is, from its name and arguments.
    pub(crate) fn describe(&self) -> Describe {
        self.describe.0
    }

    /// A call of the last answer by its id. `None` for calls of earlier answers.
    pub fn call(&self, id: CallId) -> Option<&OpenCall> {
        self.calls.iter().find(|c| c.call.id == id)
    }

    /// The questions that wait for a person, as far as the log says.
    pub fn questions(&self) -> impl Iterator<Item = (&OpenCall, &Asked)> {
        let is_open = |c: &&OpenCall| !c.finished && c.guard.is_none() && c.decided.is_none();
        let open = self.calls.iter().filter(is_open);
        open.filter_map(|c| Some((c, c.asked.as_ref()?)))
            .filter(|_| !self.is_stopped())
    }

    /// The question of a server that waits for a person, with its call.
    pub fn server_question(&self) -> Option<(&OpenCall, &OpenQuestion)> {
        let asks = |open: &&OpenCall| !open.finished && open.guard.is_some();
        let asked = self.calls.iter().filter(asks);
        asked
            .filter_map(|open| Some((open, open.server_question.as_ref()?)))
            .find(|(_, asked)| asked.answer.is_none())
            .filter(|_| !self.is_stopped())
    }

    /// A person is asked: about a call, or by a server.
    pub fn asks(&self) -> bool {
        self.questions().next().is_some() || self.server_question().is_some()
    }

    /// The first call that was begun and has no result.
    pub fn first_begun(&self) -> Option<&OpenCall> {
        let begun = |c: &&OpenCall| c.guard.is_some() && !c.finished;
        self.calls.iter().find(begun)
    }

    /// A call with an effect was begun and has no result, or a command runs in the background.
    pub fn acts(&self) -> bool {
        let begun = |c: &OpenCall| c.guard.is_some() && !c.finished;
        self.calls.iter().any(begun) || !self.background.is_empty()
    }

    /// Whether a person stopped the agent and nothing lifted that since.
    pub fn is_stopped(&self) -> bool {
        self.halted == Some(Halt::Stopped)
    }

    /// Whether the model knows what the file of a call held when the call was begun.
    fn knows_file_of(&self, guard: &Guard) -> bool {
        match guard {
            Guard::Checked {
                path,
                before: Some(before),
                ..
            } => self.seen.get(path) == Some(before),
            Guard::Checked { before: None, .. }
            | Guard::Supervised { .. }
            | Guard::Child { .. }
            | Guard::Served { .. }
            | Guard::Opaque => true,
        }
    }

    /// Whether the file of a call had changed since the model last saw it, when the call was begun.
    pub fn changed_since_seen(&self, guard: &Guard) -> bool {
        match guard {
            Guard::Checked { path, .. } => {
                self.seen.contains_key(path) && !self.knows_file_of(guard)
            }
            Guard::Supervised { .. }
            | Guard::Child { .. }
            | Guard::Served { .. }
            | Guard::Opaque => false,
        }
    }

    /// Whether a sub-agent works in the background.
    pub fn works_in_background(&self) -> bool {
        self.background.values().any(|b| b.child.is_some())
    }

    /// Sub-agents that are at work: their calls are in progress, or go on in the background.
    pub fn children(&self) -> impl Iterator<Item = &str> {
        let open = self.calls.iter().filter(|c| !c.finished);
        let waited_for = open.filter_map(|c| match &c.guard {
            Some(Guard::Child { session, .. }) => Some(session.as_str()),
            _ => None,
        });
        let background = self.background.values();
        waited_for.chain(background.filter_map(|b| Some(b.child.as_ref()?.session.as_str())))
    }

    /// How many sub-agents are at work.
    pub fn tasks_at_work(&self) -> usize {
        self.children().count()
    }

    /// The first call of the same answer before this one that was to change a file and was refused
    /// or failed.
    pub fn failed_change_before(&self, id: CallId) -> Option<&OpenCall> {
        let mut before = self.calls.iter().take_while(|c| c.call.id != id);
        before.find(|c| c.failed && c.changes_a_file())
    }

    /// Why the images of an entry are not sent to the model; `None` when they are.
    pub fn image_refusal(&self, seq: Seq) -> Option<&str> {
        unsent::why(self.refused_images.get(&self.model)?, seq)
    }

    /// Something is owed to the user: an answer, a call, a question, or a command that runs
    /// under a keeper, theirs too.
    /// Not when the user stopped it.
    pub fn unfinished(&self) -> bool {
        if self.restoring.is_some() {
            return true;
        }
        if self.is_stopped() {
            return self.first_open().is_some();
        }
        let of_user = self.user_commands.values().any(|c| c.run().is_some());
        self.owed
            || of_user
            || self.first_open().is_some()
            || self.unchecked().is_some()
            || !self.background.is_empty()
    }

    /// How the session came to its end, if this was its last entry. [`super::ending::of_entries`] says the
    /// same from the entries alone, but for an answer that is not compared with its schema yet.
    pub fn ending(&self, last: Option<&Entry>) -> Ending {
        match &self.halted {
            Some(Halt::Stopped) => return Ending::Stopped,
            Some(Halt::Failed(_)) => return Ending::Failed,
            None => {}
        }
        match self.owed || self.first_open().is_some() || self.unchecked().is_some() {
            true => Ending::with_work_owed(last),
            false => Ending::Done,
        }
    }

    /// The answer that is still to be compared with its schema.
    pub fn unchecked(&self) -> Option<Seq> {
        match self.structured.as_ref()?.standing {
            Standing::Unchecked(answer) => Some(answer),
            Standing::Owed | Standing::Fits(_) | Standing::GivenUp(_) => None,
        }
    }

    /// The schema that an answer still has to fit.
    pub fn owed_schema(&self) -> Option<&serde_json::Value> {
        let held = self.structured.as_ref()?;
        match held.standing {
            Standing::Owed | Standing::Unchecked(_) | Standing::GivenUp(_) => Some(&held.schema),
            Standing::Fits(_) => None,
        }
    }

    /// The answer at this entry, while it is in the context.
    pub fn answer(&self, seq: Seq) -> Option<(&[Block], StopReason)> {
        let record = self.context.iter().rev().find(|r| r.seq == seq)?;
        match &record.entry {
            Entry::Replied { blocks, stop, .. } => Some((blocks, *stop)),
            _ => None,
        }
    }

    /// What to call the session: its name, else what a model made of the task, else the first
    /// words of the user.
    pub fn title(&self) -> Option<&str> {
        let named = self.name.as_deref().or(self.made_title.as_deref());
        named.or(self.first_words.as_deref())
    }

    /// The words that a title is to be made from. `None`: there is one, or a model was asked for
    /// one already, or there was no answer yet.
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

    /// A person named the session.
    pub fn is_named(&self) -> bool {
        self.name.is_some()
    }

    /// Bytes of what every request has, whatever the conversation is: layers, and the schema of
    /// the answer.
    pub fn fixed_bytes(&self) -> usize {
        let schema = self.structured.as_ref();
        let schema = schema.map_or(0, |held| held.schema.to_string().len() + PART_BYTES);
        layers_bytes(&self.layers) + schema
    }

    /// What is said again behind a summary.
    pub fn carried(&self) -> Carried<'_> {
        Carried {
            plan: self.plan.as_ref(),
            words: self.words.as_ref(),
            ledger: &self.ledger,
        }
    }

    /// The model that the session is to use, whichever answers now.
    pub fn own_model(&self) -> &str {
        self.fallback_from.as_deref().unwrap_or(&self.model)
    }
}

impl OpenCall {
    /// Beyond the number of calls that are run of one answer.
    pub fn is_surplus(&self) -> bool {
        self.call.id.index >= MAX_CALLS
    }

    /// What a server was answered to the same question.
    pub fn answer_to(&self, question: &ServerQuestion) -> Option<&FormAnswer> {
        let mut answers = self.answers.iter().rev();
        let same = answers.find(|(asked, _)| asked == question);
        same.map(|(_, answer)| answer)
    }

    /// Whether it is to change a file.
    fn changes_a_file(&self) -> bool {
        self.call.class() == Some(Class::Checked)
    }

    /// What the call is. `None` when it cannot be understood; then it is closed.
    pub fn described(&self) -> Option<&Described> {
        self.call.described.as_ref().ok()
    }
}
