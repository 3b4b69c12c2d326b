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
use super::ending::{self, Ending};
use super::entry::Choice;
use super::entry::{
    About, Assignment, Block, By, CallId, ChildRun, Entry, Fact, Failure, ForkPoint, FreedResult,
    Guard, Kept, Layers, Mode, Outcome, Plan, Record, RunLimits, SaveReason, Seq, Spent,
    StopReason, SummaryBy, Unfit, Usage, Verdict,
};
use super::exchange;
use super::form::{FormAnswer, ServerQuestion};
use super::freed::Freed;
use super::ledger::Ledger;
use super::limits::{Count, Counts};
use super::outside::Outside;
use super::permission::is_offered;
use super::preface::{self, Carried, Preface};
use super::rule::Rule;
use super::size::{PART_BYTES, layers_bytes};
use super::structured::{self, Standing, Structured};
use super::text;
use super::tool::{Class, Describe, Described, MAX_CALLS, ToolCall};
use super::tree;
use super::unsent::{self, Refused};
use super::words::Words;

/// Smaller requests are no measure of a model's tokens.
const MEASURED_TOKENS: u64 = 500;

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

    /// How the session came to its end, if this was its last entry. [`ending::of_entries`] says the
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

    /// Whether `entry` may come next. Nothing is changed.
    pub fn check(&self, entry: &Entry) -> Result<(), Illegal> {
        self.allows(entry).map_err(|why| Illegal {
            seq: self.next_seq,
            kind: entry.kind(),
            why,
        })
    }

    fn allows(&self, entry: &Entry) -> Result<(), String> {
        let opened = self.next_seq > 0;
        match entry {
            Entry::Opened { .. } if opened => Err("the session is open already".into()),
            Entry::Opened { .. } => Ok(()),
            _ if !opened => Err("the first entry of a session is `opened`".into()),
            Entry::Assigned(_) if self.next_seq > 1 => Err("the session is no new one".into()),
            Entry::Assigned(_) => Ok(()),
            _ if self.restoring.is_some() => match entry {
                Entry::Restored { .. }
                | Entry::Chose(_)
                | Entry::Stopped { .. }
                | Entry::Paused { .. }
                | Entry::Lifted { .. }
                | Entry::Saved { .. }
                | Entry::Named { .. }
                | Entry::Titled { .. }
                | Entry::Dismissed
                | Entry::Forked { .. }
                | Entry::Resumed { .. } => Ok(()),
                _ => Err("the files are being set back".into()),
            },
            Entry::Paused { .. } if self.paused => Err("it is paused already".into()),
            Entry::Lifted { .. } if !self.paused => Err("it is not paused".into()),
            Entry::Restored { .. } => Err("no files are being set back".into()),
            Entry::Restoring { .. } => self.no_open_call(),
            Entry::Said { .. } | Entry::Rendered { .. } => self.no_open_call(),
            Entry::Compacted {
                first,
                last,
                summary,
                ..
            } => {
                self.no_open_call()?;
                not_blank(summary)?;
                match exchange::is_compactable(&self.context, *first, *last) {
                    true => Ok(()),
                    false => Err(format!(
                        "entries {first} to {last} are not the oldest exchanges of the context"
                    )),
                }
            }
            Entry::Continued { note, .. } => {
                self.no_open_call()?;
                if let Some(answer) = self.unchecked() {
                    return Err(format!("answer {answer} waits to be checked"));
                }
                not_blank(note)
            }
            Entry::Freed { results } => {
                self.no_open_call()?;
                self.may_free(results)
            }
            Entry::Noted { about, .. } => {
                self.no_open_call()?;
                match about {
                    Some(About::BackgroundEnded { id, .. })
                        if !self.background.contains_key(id) =>
                    {
                        Err(format!("no background command {id} is known"))
                    }
                    Some(About::UserCommandEnded { entry, .. })
                        if !self.user_commands.contains_key(entry) =>
                    {
                        Err(format!("no command of the user began at entry {entry}"))
                    }
                    _ => Ok(()),
                }
            }
            Entry::Replied { .. } | Entry::Failed { .. } => {
                self.no_open_call()?;
                match (self.owed, &self.halted) {
                    (true, None) => Ok(()),
                    (false, _) => Err("no answer is owed".into()),
                    (true, Some(_)) => Err("the session is halted".into()),
                }
            }
            Entry::Checked {
                answer,
                unfit,
                told,
            } => self.may_check(*answer, unfit.is_some(), told.is_some()),
            Entry::Asked {
                call,
                form: Some(question),
                ..
            } => self.may_be_asked_by_server(*call, question),
            Entry::Answered {
                call, asked, key, ..
            } => self.may_answer(*call, *asked, key),
            Entry::Asked { call, .. } | Entry::Decided { call, .. } => {
                let open = self.open_call(*call)?;
                if open.guard.is_some() {
                    return Err(format!("call {call} was begun before it was decided"));
                }
                let is_asked_again = matches!(entry, Entry::Asked { .. })
                    && open.decided == Some(Verdict::Allow)
                    && open.call.class() == Some(Class::Served);
                match open.decided {
                    Some(_) if is_asked_again => Ok(()),
                    Some(_) => Err(format!("call {call} is decided already")),
                    None => Ok(()),
                }
            }
            Entry::Started { call, guard, .. } => self.may_start(*call, guard),
            Entry::Finished { call, outcome, .. } => self.may_finish(*call, outcome),
            Entry::UserCommand { guard, .. } => match guard {
                Guard::Supervised { .. } | Guard::Opaque => Ok(()),
                Guard::Checked { .. } | Guard::Child { .. } | Guard::Served { .. } => {
                    Err("a command is not guarded so".into())
                }
            },
            Entry::Stopped { .. }
            | Entry::Paused { .. }
            | Entry::Lifted { .. }
            | Entry::Saved { .. }
            | Entry::Forked { .. }
            | Entry::Chose(_)
            | Entry::Named { .. }
            | Entry::Titled { .. }
            | Entry::Dismissed
            | Entry::Learned { .. }
            | Entry::Resumed { .. } => Ok(()),
        }
    }

    fn may_free(&self, results: &[FreedResult]) -> Result<(), String> {
        let is_there = |r: &&FreedResult| {
            let mut context = self.context.iter();
            context.any(|c| c.seq == r.at && matches!(c.entry, Entry::Finished { .. }))
        };
        match results
            .iter()
            .find(|r| !is_there(r) || r.line.trim().is_empty())
        {
            Some(result) => Err(format!("entry {} is no result of the context", result.at)),
            None => Ok(()),
        }
    }

    fn no_open_call(&self) -> Result<(), String> {
        match self.first_open() {
            Some(open) => Err(format!("call {} has no result yet", open.call.id)),
            None => Ok(()),
        }
    }

    fn open_call(&self, id: CallId) -> Result<&OpenCall, String> {
        match self.call(id) {
            Some(open) if !open.finished => Ok(open),
            Some(_) => Err(format!("call {id} has its result already")),
            None => Err(format!("the last answer has no call {id}")),
        }
    }

    /// An answer is checked once, and the model is told so often and no more.
    fn may_check(&self, answer: Seq, is_unfit: bool, is_told: bool) -> Result<(), String> {
        if self.unchecked() != Some(answer) {
            return Err(format!("no answer {answer} waits to be checked"));
        }
        let may_repair = self.structured.as_ref().is_some_and(Structured::may_repair);
        match (is_unfit, is_told) {
            (false, true) => Err(format!(
                "answer {answer} fits, so the model is told nothing"
            )),
            (true, true) if !may_repair => Err(format!(
                "the model was told {} times already what is wrong",
                structured::MAX_REPAIRS
            )),
            _ => Ok(()),
        }
    }

    /// A server asks only in a call that it works on.
    fn may_be_asked_by_server(&self, id: CallId, question: &ServerQuestion) -> Result<(), String> {
        match &self.open_call(id)?.guard {
            Some(Guard::Served { server, .. }) if *server == question.server => Ok(()),
            _ => Err(format!(
                "the server {} does not work on call {id}",
                question.server
            )),
        }
    }

    fn may_answer(&self, id: CallId, asked: Seq, key: &str) -> Result<(), String> {
        let Some(open) = &self.open_call(id)?.server_question else {
            return Err(format!("no server asked anything in call {id}"));
        };
        match (open.seq == asked && open.question.key == key, &open.answer) {
            (false, _) => Err(format!("another question is asked in call {id} by now")),
            (true, Some(_)) => Err(format!("question {asked} is answered already")),
            (true, None) => Ok(()),
        }
    }

    fn may_start(&self, id: CallId, guard: &Guard) -> Result<(), String> {
        let open = self.open_call(id)?;
        if let Some(other) = self
            .calls
            .iter()
            .filter(|c| !(c.call.is_task() && open.call.is_task()))
            .find(|c| !c.finished && c.guard.is_some() && c.call.id != id)
        {
            return Err(format!("call {} is still in progress", other.call.id));
        }
        if self.is_stopped() {
            return Err("the user stopped the session".into());
        }
        match (open.call.class(), guard) {
            (Some(Class::Checked), Guard::Checked { .. })
            | (Some(Class::Served), Guard::Served { .. })
            // An older version could not look at what a server did.
            | (Some(Class::Opaque | Class::Served), Guard::Opaque) => Ok(()),
            (Some(Class::Supervised), Guard::Supervised { .. }) if !open.call.is_task() => Ok(()),
            (Some(Class::Supervised), Guard::Child { .. }) if open.call.is_task() => Ok(()),
            (class, guard) => Err(format!(
                "a call of class {class:?} is not guarded by {guard:?}"
            )),
        }
    }

    /// A call with an effect is done only after it was begun; it may fail, be denied or be
    /// interrupted before that.
    fn may_finish(&self, id: CallId, outcome: &Outcome) -> Result<(), String> {
        let open = self.open_call(id)?;
        let idempotent = open.call.class() == Some(Class::Idempotent);
        match outcome {
            Outcome::Done { .. } if !idempotent && open.guard.is_none() => {
                Err(format!("call {id} is done but was never begun"))
            }
            Outcome::Denied { .. } if open.guard.is_some() => {
                Err(format!("call {id} was denied after it was begun"))
            }
            _ => Ok(()),
        }
    }

    /// Takes the next record of the log.
    ///
    /// # Errors
    /// [`Illegal`] when it cannot follow; the state is unchanged then.
    pub fn fold(&mut self, record: &Record) -> Result<(), Illegal> {
        if record.seq != self.next_seq {
            return Err(Illegal {
                seq: record.seq,
                kind: record.entry.kind(),
                why: format!("entry {} was expected", self.next_seq),
            });
        }
        self.check(&record.entry)?;
        self.apply(record);
        self.next_seq += 1;
        Ok(())
    }

    fn worked(&mut self, record: &Record) {
        let since_ms = self.last_ms.replace(record.at_ms);
        let is_rest = matches!(
            record.entry,
            Entry::Said { .. } | Entry::Resumed { .. } | Entry::Dismissed | Entry::Named { .. }
        );
        if let Some(since_ms) = since_ms.filter(|_| !is_rest) {
            let took_ms = record.at_ms.saturating_sub(since_ms);
            // Clocks are set back, too.
            self.worked_ms = self
                .worked_ms
                .saturating_add(took_ms.try_into().unwrap_or(0));
        }
    }

    fn apply(&mut self, record: &Record) {
        self.worked(record);
        for (model, usage) in record.entry.spent() {
            self.usage.add(usage);
            match self.spent.get_mut(model) {
                Some(spent) => spent.push(*usage),
                None => drop(self.spent.insert(model.to_string(), vec![*usage])),
            }
        }
        if changes_the_context(&record.entry) {
            self.counts.begin_again();
        }
        let is_ours =
            self.may_differ_from_tree || !self.background.is_empty() || self.restoring.is_some();
        let last = self.tree.as_deref();
        self.outside
            .follow(record.seq, &record.entry, last, is_ours);
        if let Some(tree) = tree::named(&record.entry) {
            self.tree = Some(tree.to_string());
            self.may_differ_from_tree = false;
            self.files_not_kept = None;
        }
        self.may_differ_from_tree |= tree::may_change_files(&record.entry);
        match &record.entry {
            Entry::Opened {
                folder,
                version,
                model,
                mode,
                layers,
            } => {
                self.folder = folder.clone();
                self.version = version.clone();
                self.model = model.clone();
                self.mode = *mode;
                self.layers = layers.clone();
                self.taken_up = record.seq;
            }
            Entry::Assigned(assignment) => {
                let rules = assignment.rules.iter();
                self.session_rules
                    .extend(rules.filter_map(|rule| Rule::parse(rule).ok()));
                self.assignment = Some(assignment.clone());
            }
            Entry::Rendered { version, layers } => {
                self.version = version.clone();
                self.layers = layers.clone();
                self.has_moved = false;
            }
            Entry::Said { text, command, .. } => {
                let typed = record.entry.typed().unwrap_or_default();
                self.first_words
                    .get_or_insert_with(|| text::task_title(&text::one_line(&typed, 240)));
                self.owed = true;
                self.halted = None;
                self.leave_fallback();
                self.answer_with(command.as_ref().and_then(|c| c.model.as_deref()));
                self.said_of_schema();
                self.progress();
                self.turns = 0;
                self.tasks_begun = 0;
                self.nonsense = 0;
                self.ledger.said(record.seq, text);
                self.said.say(record.seq, text);
                self.words = Some((record.seq, text.clone()));
                self.recall_due = true;
                self.keep(record);
            }
            Entry::Replied {
                blocks,
                usage,
                stop,
                model,
                asked_bytes,
                ..
            } => {
                self.replied(record.seq, blocks, *stop);
                self.learned = 0;
                self.ledger.replied();
                self.freed.replied();
                self.measure(
                    model,
                    Count {
                        bytes: *asked_bytes,
                        tokens: usage.prompt(),
                    },
                );
                self.keep(record);
            }
            Entry::Asked {
                call,
                why,
                rule,
                access,
                at,
                form: None,
            } => {
                let asked = Asked {
                    seq: record.seq,
                    at_ms: record.at_ms,
                    why: why.clone(),
                    rule: rule.clone(),
                    access: *access,
                    at: at.clone(),
                };
                self.on_call(*call, |open| {
                    // What was allowed is another by now.
                    open.decided = None;
                    open.asked = Some(asked);
                });
            }
            Entry::Asked {
                call,
                form: Some(question),
                ..
            } => {
                let asked = OpenQuestion {
                    seq: record.seq,
                    at_ms: record.at_ms,
                    question: (**question).clone(),
                    answer: None,
                };
                self.on_call(*call, |open| open.server_question = Some(asked));
            }
            Entry::Answered { call, answer, .. } => {
                self.on_call(*call, |open| {
                    if let Some(asked) = &mut open.server_question {
                        asked.answer = Some(answer.clone());
                        open.answers.push((asked.question.clone(), answer.clone()));
                    }
                });
                self.progress();
            }
            Entry::Decided {
                call,
                verdict,
                access,
                at,
                rule,
                by: _,
                origin: _,
            } => {
                self.on_call(*call, |open| {
                    open.decided = Some(verdict.clone());
                    open.allowed_access = *access;
                    open.asked_about.clone_from(at);
                });
                // One that another version wrote, and that is not understood, allows nothing.
                let rule = rule.as_deref().and_then(|text| Rule::parse(text).ok());
                if let Some(rule) = rule.filter(|rule| !self.session_rules.contains(rule)) {
                    self.session_rules.push(rule);
                }
            }
            Entry::Started {
                call,
                guard,
                access,
            } => {
                let is_first = self.call(*call).is_some_and(|open| open.guard.is_none());
                if is_first && matches!(guard, Guard::Child { .. }) {
                    self.tasks_begun += 1;
                }
                self.on_call(*call, |open| {
                    open.guard = Some(guard.clone());
                    open.started_access = *access;
                });
            }
            Entry::Finished {
                call,
                outcome,
                fact,
                ..
            } => {
                let failed = matches!(outcome, Outcome::Error { .. } | Outcome::Denied { .. });
                self.on_call(*call, |open| {
                    open.finished = true;
                    open.failed = failed;
                });
                if let Some(open) = self.calls.iter().find(|c| c.call.id == *call) {
                    if matches!(outcome, Outcome::Done { .. }) {
                        let shows_log = matches!(fact, Some(Fact::Recalled));
                        self.freed.called(&open.call, shows_log);
                    }
                    self.ledger
                        .finished(record.seq, &open.call, outcome, fact.as_ref());
                }
                // What was changed in a file that the model does not know, leaves it unknown.
                let is_known = match fact {
                    Some(Fact::Wrote { .. }) => self
                        .call(*call)
                        .and_then(|open| open.guard.as_ref())
                        .is_none_or(|guard| self.knows_file_of(guard)),
                    _ => true,
                };
                if let Some(fact) = fact.as_ref().filter(|_| is_known) {
                    self.learn(record.seq, fact);
                }
                self.finished += 1;
                self.owed = true;
                self.progress();
                self.keep(record);
            }
            Entry::Checked {
                answer,
                unfit,
                told,
            } => {
                self.checked(*answer, unfit.as_ref(), told.is_some());
                self.progress();
                self.keep(record);
            }
            Entry::Stopped { .. } => {
                self.halted = Some(Halt::Stopped);
                self.paused = false;
                self.keep(record);
            }
            // What the next start owes is to wait: that it came to rest is no crash.
            Entry::Paused { .. } => {
                self.paused = true;
                self.progress();
            }
            Entry::Lifted { .. } => {
                self.paused = false;
                self.progress();
            }
            // A server that cannot be asked does not make the next start less likely to work.
            Entry::Failed { error, .. } => {
                self.halted = Some(Halt::Failed(error.clone()));
                self.restarts = 0;
                // None of the list could be asked; the next try begins with the first.
                self.leave_fallback();
            }
            Entry::Noted { about, .. } => {
                match about {
                    Some(About::BackgroundEnded { id, .. }) => {
                        self.background.remove(id);
                    }
                    Some(About::UserCommandEnded { entry, .. }) => {
                        self.user_commands.remove(entry);
                    }
                    Some(About::Recalled) => self.recall_due = false,
                    Some(About::Instructions | About::Mode { .. } | About::FilesChanged { .. })
                    | None => {}
                }
                self.keep(record);
            }
            Entry::Compacted {
                window,
                first,
                last,
                summary,
                by,
                spent,
                preface,
            } => {
                self.summarised(spent);
                self.compacted(*window, *first, *last, summary, *by, preface.as_deref());
            }
            Entry::Continued {
                note,
                by,
                spent,
                story,
            } => {
                self.summarised(spent);
                self.continued(record.seq, note, *by, story.as_deref());
            }
            Entry::Freed { results } => self.freed.free(results),
            // An orderly stop from outside is not a start that came to nothing.
            Entry::Saved {
                reason: SaveReason::Signal,
                ..
            } => self.restarts = 0,
            Entry::Saved { why: Some(why), .. } => self.files_not_kept = Some(why.clone()),
            Entry::Saved { .. } => {}
            Entry::Restoring {
                before,
                target,
                new_folder,
                kept,
                more_kept,
                ..
            } => {
                self.restoring = Some(Restoring {
                    before: before.clone(),
                    target: target.clone(),
                    new_folder: *new_folder,
                    kept: kept.clone(),
                    more_kept: *more_kept,
                });
            }
            Entry::Restored { .. } => {
                self.restoring = None;
                self.progress();
                self.keep(record);
            }
            Entry::Forked { from, folder } => self.forked(record, from, folder.as_ref()),
            Entry::Chose(choice) => self.chose(choice),
            Entry::UserCommand { command, guard } => {
                let command = UserCommand {
                    command: command.clone(),
                    guard: guard.clone(),
                    since_ms: record.at_ms,
                };
                self.user_commands.insert(record.seq, command);
            }
            Entry::Named { title } => self.name = Some(title.clone()),
            Entry::Titled { title, spent } => {
                self.summarised(spent);
                self.made_title.clone_from(title);
                self.was_titled = true;
            }
            // What is owed is owed all the same: only lists ask whether it is wanted.
            Entry::Dismissed => {}
            Entry::Learned {
                model,
                images: Some(refusal),
                ..
            } => {
                self.learned += 1;
                let refused = Refused {
                    at: record.seq,
                    refusal: refusal.clone(),
                };
                let of_model = self.refused_images.entry(model.clone());
                of_model.or_default().push(refused);
            }
            Entry::Learned {
                model,
                limit,
                tokens,
                bytes,
                silently: _,
                images: None,
            } => {
                self.limits.insert(model.clone(), *limit);
                self.learned += 1;
                if let Some(tokens) = tokens.filter(|t| *t > 0 && *bytes > 0) {
                    let seen = (*bytes as f64 / tokens as f64).clamp(1.0, 8.0);
                    let ratio = self.ratios.entry(model.clone()).or_insert(seen);
                    *ratio = ratio.min(seen);
                }
            }
            Entry::Resumed { by, unrecorded, .. } => {
                self.taken_up = record.seq;
                self.resumed(*by, *unrecorded);
            }
        }
    }

    /// What the provider counted, against what was sent: the ratio moves slowly, and small
    /// requests say nothing.
    fn measure(&mut self, model: &str, count: Count) {
        if count.tokens < MEASURED_TOKENS || count.bytes == 0 {
            return;
        }
        let seen = count.bytes as f64 / count.tokens as f64;
        // A server that cuts long requests in silence counts what it kept.
        let is_measure = self.counts.is_measure(count) && (1.0..=8.0).contains(&seen);
        self.counts.see(count);
        if !is_measure {
            return;
        }
        let ratio = self.ratios.entry(model.to_string()).or_insert(seen);
        *ratio = 0.7 * *ratio + 0.3 * seen;
    }

    /// The oldest exchanges leave; the summary stands for them and for all before.
    fn compacted(
        &mut self,
        window: u32,
        first: Seq,
        last: Seq,
        summary: &str,
        by: SummaryBy,
        recorded: Option<&str>,
    ) {
        self.context.retain(|r| r.seq > last);
        self.freed.leave(last);
        let before = self.preface.take();
        let (sound, unsound_from) = match by {
            SummaryBy::Model => (Some(summary.to_string()), None),
            SummaryBy::Digest | SummaryBy::Placeholder => (
                before.as_ref().and_then(|p| p.sound.clone()),
                before.as_ref().and_then(|p| p.unsound_from).or(Some(first)),
            ),
        };
        self.preface = Some(Preface {
            text: match recorded {
                Some(text) => text.to_string(),
                None => preface::render_as_before(&self.carried(), summary, last),
            },
            summary: Some(summary.to_string()),
            by,
            windows: window,
            last,
            sound,
            unsound_from,
        });
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

    fn chose(&mut self, choice: &Choice) {
        let Choice {
            model,
            mode,
            effort,
            temperature,
            fallback,
            without,
            schema,
            without_schema,
            limits,
            origin: _,
        } = choice;
        self.run_limits = limits.unwrap_or(self.run_limits);
        if *without_schema {
            self.structured = None;
        }
        if let Some(schema) = schema {
            self.structured = Some(Structured::new(schema.clone()));
        }
        if let Some(without) = without {
            self.session_rules
                .retain(|rule| rule.to_string() != *without);
        }
        if let Some(model) = model {
            self.use_model(model.clone());
            self.fallback_from = None;
            self.model_before_command = None;
            self.effort = Effort::Default;
            self.temperature = None;
        }
        if let Some(fallback) = fallback {
            let before = std::mem::take(&mut self.model);
            self.fallback_from.get_or_insert(before);
            self.use_model(fallback.model.clone());
        }
        self.mode = mode.unwrap_or(self.mode);
        self.effort = effort.unwrap_or(self.effort);
        self.temperature = temperature.or(self.temperature);
    }

    /// A schema holds until an answer fits it; each message has its own repairs.
    fn said_of_schema(&mut self) {
        self.structured = self.structured.take().and_then(|held| match held.standing {
            Standing::Fits(_) => None,
            _ => Some(Structured::new(held.schema)),
        });
    }

    fn checked(&mut self, answer: Seq, unfit: Option<&Unfit>, is_told: bool) {
        let json = self
            .answer(answer)
            .and_then(|(blocks, stop)| structured::json_of(blocks, stop).ok());
        let Some(held) = &mut self.structured else {
            return;
        };
        held.standing = match unfit {
            None => Standing::Fits(json.unwrap_or_default()),
            Some(_) if is_told => Standing::Owed,
            Some(unfit) => Standing::GivenUp(unfit.clone()),
        };
        held.repairs += u32::from(is_told);
        self.owed = is_told;
    }

    fn use_model(&mut self, model: String) {
        self.counts = Counts::default();
        self.model = model;
    }

    /// A model that answered in place of the session's own is asked no longer.
    fn leave_fallback(&mut self) {
        if let Some(own) = self.fallback_from.take() {
            self.use_model(own);
        }
    }

    /// What was said last may name its own model; the next message is the session's own again.
    fn answer_with(&mut self, model: Option<&str>) {
        if let Some(own) = self.model_before_command.take() {
            self.use_model(own);
        }
        if let Some(model) = model.filter(|model| *model != self.model) {
            self.model_before_command = Some(self.model.clone());
            self.use_model(model.to_string());
        }
    }

    /// The model that the session is to use, whichever answers now.
    pub fn own_model(&self) -> &str {
        self.fallback_from.as_deref().unwrap_or(&self.model)
    }

    fn summarised(&mut self, spent: &[Spent]) {
        for Spent { usage, .. } in spent {
            self.summarising.add(usage);
        }
    }

    fn continued(&mut self, seq: Seq, note: &str, by: SummaryBy, story: Option<&str>) {
        let first = self.context.first().map(|r| r.seq);
        self.context.clear();
        self.freed.leave(seq);
        self.continuations += 1;
        let before = self.preface.take();
        let windows = before.as_ref().map_or(0, |p| p.windows);
        // What no model summarised is only in the log, and is summarised when one can be asked.
        let (sound, unsound_from) = match story {
            Some(story) => (Some(story.to_string()), None),
            None => {
                let from = before.as_ref().and_then(|p| p.unsound_from).or(first);
                (before.and_then(|p| p.sound), from)
            }
        };
        self.preface = Some(Preface {
            text: note.to_string(),
            summary: None,
            by,
            windows: windows + 1,
            last: seq,
            sound,
            unsound_from,
        });
        self.recall_due = true;
    }

    fn keep(&mut self, record: &Record) {
        self.context.push(record.clone());
    }

    fn progress(&mut self) {
        self.restarts = 0;
    }

    fn on_call(&mut self, id: CallId, change: impl FnOnce(&mut OpenCall)) {
        if let Some(open) = self.calls.iter_mut().find(|c| c.call.id == id) {
            change(open);
        }
    }

    fn replied(&mut self, seq: Seq, blocks: &[Block], stop: StopReason) {
        self.calls = open_calls(seq, blocks, stop, self.describe.0);
        self.replies += 1;
        self.turns += 1;
        self.progress();
        let tools = &self.layers.tools;
        let is_known = |name: &str| is_offered(name, tools.iter().map(|t| t.name.as_str()));
        let usable = |c: &OpenCall| !c.cut && c.call.described.is_ok() && is_known(&c.call.name);
        let spoke = ending::speaks(blocks);
        let sense = match self.calls.is_empty() {
            true => ending::is_answer(blocks, stop),
            false => self.calls.iter().any(usable),
        };
        self.nonsense = if sense { 0 } else { self.nonsense + 1 };
        // An answer without a word or a call is no answer: the same is asked again.
        self.owed = self.calls.is_empty() && !sense;
        if self.calls.is_empty()
            && spoke
            && stop != StopReason::Refusal
            && let Some(held) = &mut self.structured
            && held.standing == Standing::Owed
        {
            held.standing = Standing::Unchecked(seq);
        }
    }

    fn learn(&mut self, seq: Seq, fact: &Fact) {
        match fact {
            Fact::Seen { path, hash } | Fact::Wrote { path, hash } => {
                self.seen.insert(path.clone(), hash.clone());
                self.outside.known(path, seq);
            }
            Fact::Background {
                id,
                run,
                command,
                child,
            } => {
                let background = Background {
                    run: run.clone(),
                    command: command.clone(),
                    child: child.clone(),
                };
                self.background.insert(id.clone(), background);
            }
            Fact::Planned { plan } => {
                self.plan = Some(plan.clone());
                self.plan_at = Some(seq);
            }
            Fact::Ran { .. } | Fact::Task { .. } | Fact::Remembered { .. } | Fact::Recalled => {}
        }
    }

    /// Every open call is closed, and what runs stays with the session that started it.
    fn forked(&mut self, record: &Record, from: &ForkPoint, folder: Option<&String>) {
        self.forked_from = Some(from.clone());
        if let Some(folder) = folder {
            self.folder.clone_from(folder);
            self.has_moved = true;
            // What is known of files is of the other folder.
            self.tree = None;
            self.files_not_kept = None;
            self.may_differ_from_tree = false;
            self.outside = Outside::default();
        }
        self.background.clear();
        self.user_commands.clear();
        // The other branch does it.
        self.restoring = None;
        self.paused = false;
        self.taken_up = record.seq;
        // They were allowed for that session.
        self.session_rules.clear();
        if self.first_open().is_some() {
            self.owed = true;
        }
        for open in &mut self.calls {
            open.finished = true;
        }
        self.restarts = 0;
        self.keep(record);
    }

    fn resumed(&mut self, by: By, unrecorded: bool) {
        if matches!(self.halted, Some(Halt::Failed(_))) {
            self.halted = None;
        }
        self.nonsense = 0;
        self.turns = 0;
        let owing = self.owed || self.first_open().is_some() || self.restoring.is_some();
        self.restarts = match (owing, by) {
            (false, _) => 0,
            (true, By::Person) => 1,
            // The start before is not one of those that came to nothing.
            (true, By::Start | By::Hook) if unrecorded => self.restarts.max(1),
            (true, By::Start | By::Hook) => self.restarts + 1,
        };
    }
}

/// Behind it, a request does not begin with the one before.
fn changes_the_context(entry: &Entry) -> bool {
    matches!(
        entry,
        Entry::Rendered { .. }
            | Entry::Compacted { .. }
            | Entry::Continued { .. }
            | Entry::Freed { .. }
            | Entry::Learned { .. }
            | Entry::Forked { .. }
    )
}

fn not_blank(text: &str) -> Result<(), String> {
    match text.trim().is_empty() {
        true => Err("what stands for the context is empty".into()),
        false => Ok(()),
    }
}

/// The calls of an answer. One that the output limit cut is marked.
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
                started_access: None,
                guard: None,
                finished: false,
                failed: false,
                server_question: None,
                answers: Vec::new(),
            });
        }
    }
    calls
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
