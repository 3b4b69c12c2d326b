//! `rewake show ID`: a session, entry by entry.

use super::output::{line, local_time};
use super::trouble::Trouble;
use crate::core::entry::{Block, Entry, Guard, Record, SummaryBy, Verdict};
use crate::core::gauge::Parts;
use crate::core::state::State;
use crate::core::text::{clip, count, one_line};
use crate::core::window::Windows;
use crate::headless::exit;
use crate::model::Figures;
use crate::session::context::{Gauge, Known, windows};
use crate::session::{AppContext, SessionError};
use crate::store::StoreError;
use crate::tools;

/// Of a result, this much is shown.
const RESULT_BYTES: usize = 2_000;

pub fn run(ctx: &AppContext, id: &str) -> Result<u8, Trouble> {
    let store = ctx.open_store()?;
    let info = store.find(id)?;
    let mut records = Vec::new();
    let read = store.load_each(&info.id, |record| {
        records.push(record);
        Ok::<(), StoreError>(())
    });
    let damage = match read {
        Ok(_) => None,
        // What comes before a damaged entry is shown, then the error.
        Err(error @ StoreError::Corrupt { .. }) if !records.is_empty() => Some(error),
        Err(error) => return Err(error.into()),
    };
    let state = State::of(tools::describe, &records).map_err(|why| SessionError::Illegal {
        session: info.id.clone(),
        why,
    })?;
    head(ctx, &info.id, &records, &state);
    let known = Known::read(ctx, &store, &[&state.model])?;
    for text in Gauge::of(&state, &known, &windows(ctx.config())).lines() {
        line(&format!("context   {text}"));
    }
    line("");
    let mut figures = Figured::new(ctx, &known);
    for record in &records {
        let figured = figures.of(record);
        if let Some(text) = describe(record, figured.as_deref()) {
            line(&format!(
                "{:>5}  {}",
                record.seq,
                text.trim_end().replace('\n', "\n       ")
            ));
        }
    }
    match damage {
        Some(error) => Err(error.into()),
        None => Ok(exit::DONE),
    }
}

fn head(ctx: &AppContext, id: &str, records: &[Record], state: &State) {
    let figures = Figures::new(ctx.config());
    let cost = records
        .iter()
        .flat_map(|r| r.entry.spent())
        .try_fold(0.0, |sum, (model, usage)| {
            Some(sum + figures.cost(model, usage)?)
        });
    let at = |r: Option<&Record>| r.map(|r| local_time(r.at_ms)).unwrap_or_default();
    line(&format!("session   {id}"));
    line(&format!(
        "title     {}",
        state.title().unwrap_or("untitled")
    ));
    line(&format!("folder    {}", state.folder));
    line(&format!(
        "model     {}  mode {}",
        state.model,
        state.mode.name()
    ));
    line(&format!(
        "from      {}  to {}",
        at(records.first()),
        at(records.last())
    ));
    let usage = state.usage;
    line(&format!(
        "tokens    {} in, {} cached, {} written to the cache, {} out{}",
        usage.input,
        usage.cached,
        usage.cache_written,
        usage.output,
        cost.filter(|c| *c > 0.0)
            .map(|c| format!("; ${c:.4}"))
            .unwrap_or_default()
    ));
    if let Some(from) = &state.forked_from {
        line(&format!("forked    from {} at {}", from.session, from.seq));
    }
    if let Some(plan) = &state.plan {
        for step in &plan.steps {
            line(&format!("plan      {:?}  {}", step.state, step.text).to_lowercase());
        }
    }
    if state.unfinished() {
        line("state     unfinished");
    }
}

/// What a request had before and behind each entry that changes the context.
struct Figured<'a> {
    known: &'a Known,
    windows: Windows,
    state: State,
}

impl Figured<'_> {
    fn new<'a>(ctx: &AppContext, known: &'a Known) -> Figured<'a> {
        Figured {
            known,
            windows: windows(ctx.config()),
            state: State::new(tools::describe),
        }
    }

    fn parts(&self) -> Parts {
        Parts::of(
            &self.state,
            &self.known.budget_of(&self.state),
            &self.windows,
        )
    }

    /// `None` for an entry that changes nothing of it.
    fn of(&mut self, record: &Record) -> Option<String> {
        let changes = matches!(
            record.entry,
            Entry::Compacted { .. } | Entry::Continued { .. }
        );
        let before = changes.then(|| self.parts());
        // The whole log was folded before: it can be folded.
        self.state.fold(record).ok()?;
        let (before, after) = (before?, self.parts());
        let spent: u64 = record.entry.spent().map(|(_, usage)| usage.all()).sum();
        Some(format!(
            "request {} -> {} tokens, summary {}, {} in full, {} cached so far, {spent} tokens spent on it",
            before.all(),
            after.all(),
            after.summary,
            count(self.state.context.len(), "entry"),
            self.state.usage.cached,
        ))
    }
}

/// `None` for what says nothing to a person.
fn describe(record: &Record, figures: Option<&str>) -> Option<String> {
    let figures = figures.map(|f| format!(" ({f})")).unwrap_or_default();
    Some(match &record.entry {
        Entry::Opened { version, .. } => format!("opened by rewake {version}"),
        Entry::Rendered { version, .. } => format!("taken up by rewake {version}"),
        Entry::Said { text, images, .. } => match images.len() {
            0 => format!("you: {text}"),
            n => format!("you: {text} [{}]", count(n, "image")),
        },
        Entry::Replied {
            blocks,
            usage,
            took_ms,
            ..
        } => {
            let said: Vec<String> = blocks.iter().filter_map(block).collect();
            format!(
                "model ({:.1} s, {} in, {} out): {}",
                *took_ms as f64 / 1000.0,
                usage.prompt(),
                usage.output,
                said.join("\n")
            )
        }
        Entry::Decided {
            call,
            verdict: Verdict::Allow,
            ..
        } => format!("you allowed {call}"),
        Entry::Decided {
            call,
            verdict: Verdict::Deny { reason },
            ..
        } => format!("you denied {call}: {reason}"),
        Entry::Started { call, guard } => match guard {
            Guard::Checked { path, .. } => format!("began {call}: {path}"),
            Guard::Supervised { run, .. } => format!("began {call}: run {run}"),
            Guard::Opaque => format!("began {call}"),
        },
        Entry::Finished { call, outcome, .. } => {
            let (text, is_error) = outcome.to_model_text();
            let mark = if is_error { " (error)" } else { "" };
            format!("result of {call}{mark}: {}", clip(&text, RESULT_BYTES))
        }
        Entry::Stopped { .. } => "stopped by you".to_string(),
        Entry::Failed { error, draft } => match draft {
            Some(draft) => format!("failed: {}\nwhat was streaming: {draft}", error.message),
            None => format!("failed: {}", error.message),
        },
        Entry::Noted { text, .. } => format!("note: {text}"),
        Entry::Compacted {
            first,
            last,
            by,
            summary,
            ..
        } => {
            let by = match by {
                SummaryBy::Model => "",
                SummaryBy::Digest => ", as a digest",
                SummaryBy::Placeholder => ", as a placeholder",
            };
            format!("entries {first} to {last} were summarised{by}{figures}:\n{summary}")
        }
        Entry::Continued { note, .. } => {
            format!("the context began again from this note{figures}:\n{note}")
        }
        Entry::Saved { reason, .. } => format!("saved ({reason:?})").to_lowercase(),
        Entry::Forked { from } => format!("forked from {} at {}", from.session, from.seq),
        Entry::Chose { model, mode } => {
            let model = model.as_deref().unwrap_or("the same model");
            let mode = mode.map_or("the same mode", |m| m.name());
            format!("chose {model}, {mode}")
        }
        Entry::Named { title } => format!("named {title}"),
        Entry::Learned {
            model,
            images: Some(refusal),
            ..
        } => format!(
            "{model} refused images; they are sent as text from here on: {}",
            refusal.why
        ),
        Entry::Learned {
            model,
            limit,
            silently,
            ..
        } => match silently {
            true => format!(
                "{model} takes at most {limit} tokens: its server drops the beginning of longer \
                 requests without a word"
            ),
            false => format!("{model} takes at most {limit} tokens"),
        },
        Entry::Resumed { found, draft, .. } => match draft {
            Some(draft) => format!("woke: {found}\nwhat was streaming: {draft}"),
            None => format!("woke: {found}"),
        },
    })
}

fn block(block: &Block) -> Option<String> {
    match block {
        Block::Text { text, .. } => Some(text.clone()).filter(|t| !t.trim().is_empty()),
        Block::Thinking { .. } => None,
        Block::Call {
            name, arguments, ..
        } => Some(format!("[{name} {}]", one_line(arguments, 300))),
    }
}
