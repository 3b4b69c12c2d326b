//! `rewake show ID`: prints a session, entry by entry.

use clap::Args;

use super::shared::{SharedCommand, SharedFlag};
use super::time::local_time;
use crate::core::entry::{Entry, Record, Usage};
use crate::core::gauge::Parts;
use crate::core::state::State;
use crate::core::text::{clip, count, one_line, session_name};
use crate::core::visible::visible;
use crate::core::window::CompactionSettings;
use crate::model::Figures;
use crate::report::{CliError, exit, line};
use crate::session::context::{Gauge, KnownWindows, windows};
use crate::session::describe::{BodyPart, Describer, Description, Kind, Stream, image_count};
use crate::session::{AppContext, FoldCache, SessionError};
use crate::store::StoreError;
use crate::tools;

/// Maximum length of a shown result.
const RESULT_BYTES: usize = 2_000;
/// Maximum length of the shown arguments of a call.
const CALL_CHARS: usize = 300;

/// Print a session
#[derive(Debug, Clone, PartialEq, Args)]
#[command(shared_flag("Copy the session from the shared database first", &[]))]
pub(crate) struct ShowArgs {
    /// Session ID or its beginning
    pub id: String,
    #[command(flatten)]
    pub shared: SharedFlag,
    /// Print a summary as one JSON object (all entries: rewake export --json)
    #[arg(long)]
    pub json: bool,
}

pub(super) fn run(ctx: &AppContext, args: &ShowArgs) -> Result<u8, CliError> {
    let id = args.shared.local_id(ctx, &args.id)?;
    let store = super::open_store_for_reading(ctx)?;
    if args.json {
        return super::print_json(&ctx.session_object(&store, &FoldCache::default(), &id)?);
    }
    let info = store.history().find(&id)?;
    let mut records = Vec::new();
    let read = store.load_each(&info.id, |record| {
        records.push(record);
        Ok::<(), StoreError>(())
    });
    let damage = match read {
        Ok(_) => None,
        // Entries before a damaged one are shown, then the error.
        Err(error @ StoreError::Corrupt { .. }) if !records.is_empty() => Some(error),
        Err(error) => return Err(error.into()),
    };
    let state = State::of(tools::describe, &records).map_err(|why| SessionError::Illegal {
        session: info.id.clone(),
        why,
    })?;
    head(ctx, &info.id, &records, &state);
    let known = KnownWindows::read(ctx, &store, &[&state.model])?;
    for text in Gauge::of(&state, &known, &windows(ctx.config())).lines() {
        line(&format!("context   {text}"));
    }
    line("");
    let mut figures = Figured::new(ctx, &known);
    let mut describer = Describer::default();
    for record in &records {
        let figured = figures.of(record);
        let text = text(&describer.describe(record), figured.as_deref());
        line(&format!(
            "{:>5}  {}",
            record.seq,
            text.trim_end().replace('\n', "\n       ")
        ));
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
    line(&format!("title     {}", session_name(state.title())));
    line(&format!("folder    {}", state.folder));
    line(&format!(
        "model     {}  mode: {}",
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
    if let Some(source) = &state.imported {
        let mut counted = Usage::default();
        for record in records {
            if let Entry::Replied {
                source_usage: Some(usage),
                ..
            } = &record.entry
            {
                counted.add(usage);
            }
        }
        let version = source.agent_version.as_deref().unwrap_or_default();
        line(&format!(
            "source    {}",
            visible(&format!(
                "{} {version}, session {}; it counted {} in, {} cached, {} written to the cache, {} out",
                source.agent,
                source.id,
                counted.input,
                counted.cached,
                counted.cache_written,
                counted.output
            ))
        ));
    }
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

/// Computes the size of a request before and after each entry that changes the context.
struct Figured<'a> {
    known: &'a KnownWindows,
    windows: CompactionSettings,
    state: State,
}

impl Figured<'_> {
    fn new<'a>(ctx: &AppContext, known: &'a KnownWindows) -> Figured<'a> {
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

    /// Returns the sizes at an entry, or `None` if it does not change the context.
    fn of(&mut self, record: &Record) -> Option<String> {
        let changes = matches!(
            record.entry,
            Entry::Compacted { .. } | Entry::Continued { .. } | Entry::Freed { .. }
        );
        let before = changes.then(|| self.parts());
        // The complete log was folded before, so this cannot fail.
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

/// Returns a description as text, with the sizes of the context at that entry.
fn text(it: &Description<'_>, figures: Option<&str>) -> String {
    let figures = figures.map(|f| format!(" ({f})")).unwrap_or_default();
    let parts: Vec<String> = it.body.iter().filter_map(part).collect();
    let parts = parts.join("\n");
    let head = match &it.kind {
        Kind::User => format!("you: {parts}"),
        Kind::Model { usage, took_ms, .. } => format!(
            "model ({:.1} s, {} in, {} out): {parts}",
            *took_ms as f64 / 1000.0,
            usage.prompt(),
            usage.output,
        ),
        Kind::Note { .. } => format!("{}: {parts}", it.line()),
        Kind::Call { id, .. } => joined(&format!("{id} {}", it.line()), &parts),
        Kind::Failure => joined(&it.line(), &parts),
        Kind::Session(_) if parts.is_empty() => format!("{}{figures}", it.line()),
        Kind::Session(_) => format!("{}{figures}:\n{parts}", it.line()),
    };
    match it.stream {
        Stream::Cut(Some(words)) => format!("{head}\nwhat was streaming: {words}"),
        Stream::Cut(None) | Stream::GoesOn | Stream::Whole => head,
    }
}

fn joined(head: &str, parts: &str) -> String {
    match parts {
        "" => head.to_string(),
        parts => format!("{head}\n{parts}"),
    }
}

fn part(part: &BodyPart<'_>) -> Option<String> {
    Some(match part {
        BodyPart::Words(text) => text.to_string(),
        BodyPart::Summary(text) => text.to_string(),
        BodyPart::Thinking(_) => return None,
        BodyPart::Command(line) => line.clone(),
        BodyPart::Images(images) => image_count(images),
        BodyPart::Call(call) if call.is_served() => {
            let subject = one_line(call.subject(), CALL_CHARS);
            format!("[{} {subject}]", call.shown_name())
        }
        BodyPart::Call(call) => {
            let arguments = one_line(&call.arguments, CALL_CHARS);
            format!("[{} {arguments}]", call.shown_name())
        }
        BodyPart::Output(text) => clip(text, RESULT_BYTES).into_owned(),
        BodyPart::Hint(hint) => format!("hint: {hint}"),
    })
}
