//! The log of a subagent: its progress, its answer, its work and its cost.

use super::machine::Machine;
use crate::core::ending::last_answer;
use crate::core::entry::{Block, Entry, Spent, StopReason, Usage};
use crate::core::next::MAX_RESTARTS;
use crate::core::run_limits::reached;
use crate::core::settings::Pricing;
use crate::core::state::{Halt, State};
use crate::core::text::{count, one_line};
use crate::store::{Store, StoreError};
use crate::tools;

/// Maximum number of files and commands that a report names.
const MAX_NAMED: usize = 20;
const LINE_CHARS: usize = 100;

/// The state of a subagent, from its log.
pub(super) struct ChildLog {
    pub state: State,
    /// Number of messages that it has not received yet.
    queued: usize,
}

/// The progress of a subagent.
pub(super) enum TaskProgress {
    /// It has answered.
    Done,
    /// It does not continue by itself, for this reason.
    Rests(String),
    /// It was interrupted.
    Unfinished,
}

impl ChildLog {
    pub fn read(machine: &Machine, session: &str) -> Result<ChildLog, String> {
        let unread = |why: String| {
            format!(
                "the log of task {session} cannot be read: {why}; what it was to do may or may not have happened"
            )
        };
        let failed = |e: StoreError| unread(e.to_string());
        let store = Store::open(machine.archive.data_dir()).map_err(failed)?;
        let mut state = State::new(tools::describe);
        let mut illegal = None;
        store
            .load_each(session, |record| {
                if let Err(why) = state.fold(&record) {
                    illegal.get_or_insert(why.to_string());
                }
                Ok::<(), StoreError>(())
            })
            .map_err(failed)?;
        if let Some(why) = illegal {
            return Err(unread(why));
        }
        let queued = store.inbox().queued(session).map_err(failed)?.len();
        Ok(ChildLog { state, queued })
    }

    /// Returns the number of answers and results. A start that made progress increases it.
    pub fn done(&self) -> u64 {
        self.state.replies + self.state.finished
    }

    pub fn standing(&self, price: &Pricing) -> TaskProgress {
        let state = &self.state;
        if state.restarts >= MAX_RESTARTS {
            return TaskProgress::Rests("its last starts all ended without progress".into());
        }
        if self.queued > 0 || state.first_open().is_some() {
            return TaskProgress::Unfinished;
        }
        match &state.halted {
            Some(Halt::Stopped) => return TaskProgress::Rests("it was stopped".into()),
            Some(Halt::Failed(failure)) => {
                let why = one_line(&failure.message, 300);
                return TaskProgress::Rests(format!("its model could not be asked: {why}"));
            }
            None => {}
        }
        if let Some(repeated) = state.loop_guard.stuck().filter(|_| state.owed) {
            return TaskProgress::Rests(format!("its model repeats itself: {repeated}"));
        }
        match reached(state, price) {
            Some(limit) if state.owed => TaskProgress::Rests(limit.to_string()),
            _ if state.owed => TaskProgress::Unfinished,
            _ if self.is_cut() => TaskProgress::Rests("the output limit cut its answer".into()),
            _ => TaskProgress::Done,
        }
    }

    /// Returns whether the output limit cut its last answer.
    fn is_cut(&self) -> bool {
        let records = self.state.context.iter().rev();
        let mut stops = records.filter_map(|record| match &record.entry {
            Entry::Replied { stop, .. } => Some(*stop),
            _ => None,
        });
        stops.next() == Some(StopReason::MaxTokens)
    }

    /// Returns its last answer.
    pub fn answer(&self) -> String {
        let parts = last_answer(&self.state.context).into_iter();
        let last: String = parts.map(Block::joined_texts).collect();
        if !last.trim().is_empty() {
            return last;
        }
        let records = self.state.context.iter().rev();
        let texts = records.filter_map(|record| match &record.entry {
            Entry::Replied { blocks, .. } => Some(Block::joined_texts(blocks)),
            _ => None,
        });
        texts
            .into_iter()
            .find(|text| !text.trim().is_empty())
            .unwrap_or_default()
    }

    /// Returns the tokens and cost of its models, one sum for each model.
    pub fn spent(&self, price: &Pricing) -> Vec<Spent> {
        let of_model = |(model, all): (&String, &Vec<Usage>)| {
            let mut usage = Usage::default();
            all.iter().for_each(|one| usage.add(one));
            // Prices depend on the length of each request, which a sum does not have.
            let usd: Option<f64> = all.iter().map(|one| price(model, one)).sum();
            usage.billed_nanos = usd.map(|usd| (usd * 1e9).round() as u64);
            Spent {
                model: model.clone(),
                usage,
            }
        };
        self.state.spent.iter().map(of_model).collect()
    }
}

/// Returns the difference to `before`.
pub(super) fn since(all: Vec<Spent>, before: &[Spent]) -> Vec<Spent> {
    let less = |mut spent: Spent| {
        if let Some(known) = before.iter().find(|known| known.model == spent.model) {
            let (usage, known) = (&mut spent.usage, &known.usage);
            usage.input = usage.input.saturating_sub(known.input);
            usage.cached = usage.cached.saturating_sub(known.cached);
            usage.cache_written = usage.cache_written.saturating_sub(known.cache_written);
            usage.output = usage.output.saturating_sub(known.output);
            let billed = usage.billed_nanos.zip(known.billed_nanos);
            usage.billed_nanos = billed.map(|(now, then)| now.saturating_sub(then));
        }
        spent
    };
    let spent = all.into_iter().map(less);
    spent.filter(|s| s.usage.all() > 0).collect()
}

/// Returns the files that it changed, the commands that it ran, its cost, and how to continue it.
pub(super) fn report(log: &ChildLog, session: &str, spent: &[Spent]) -> Vec<String> {
    let state = &log.state;
    let tokens: u64 = spent.iter().map(|s| s.usage.all()).sum();
    let nanos: Option<u64> = spent.iter().map(|s| s.usage.billed_nanos).sum();
    let cost = nanos.map_or(String::new(), |n| format!(", ${:.4}", n as f64 / 1e9));
    let answers = count(state.replies, "answer");
    let mut lines = vec![format!(
        "[task {session}: {answers}, {tokens} tokens{cost}]"
    )];
    let changed = state.ledger.files.iter().filter(|(_, t)| t.changed);
    let changed: Vec<&str> = changed.map(|(path, _)| path.as_str()).collect();
    if !changed.is_empty() {
        lines.push(format!("[files changed: {}]", named(&changed)));
    }
    let ran: Vec<String> = state
        .ledger
        .commands
        .iter()
        .map(|ran| {
            let line = one_line(&ran.line, LINE_CHARS);
            match ran.exit_code {
                Some(0) => line,
                Some(code) => format!("{line} (exit code {code})"),
                None => format!("{line} (no exit code)"),
            }
        })
        .collect();
    if !ran.is_empty() {
        let ran: Vec<&str> = ran.iter().map(String::as_str).collect();
        lines.push(format!("[commands: {}]", named(&ran)));
    }
    if !state.background.is_empty() {
        let left = count(state.background.len() as u64, "command");
        lines.push(format!("[{left} of it still in the background]"));
    }
    lines
}

fn named(all: &[&str]) -> String {
    let shown = all.iter().rev().take(MAX_NAMED).rev();
    let mut text = shown.copied().collect::<Vec<_>>().join("; ");
    if all.len() > MAX_NAMED {
        text.push_str(&format!("; and {} more", all.len() - MAX_NAMED));
    }
    text
}
