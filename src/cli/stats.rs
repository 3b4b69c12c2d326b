//! `rewake stats`: usage and cost of models, by day, project and model.
//!
//! An unknown price is reported as unknown, never counted as zero.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use clap::Args;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};
use serde_json::{Value, json};

use super::table::{Cell, Column, TableLayout, TableRow, broken, terminal_columns};
use crate::core::entry::Usage;
use crate::core::text::count;
use crate::model::Figures;
use crate::model::catalogue::{ModelInfo, snapshot};
use crate::report::{CliError, exit, line, note};
use crate::session::AppContext;
use crate::store::ModelRequest;
use crate::workspace::here;

/// Maximum number of lines of each table. `--json` prints all.
const MAX_LINES: usize = 31;

/// Show sessions, tokens and cost by day, project and model
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct StatsArgs {
    /// Count from a day (2026-11-21) or an age (24h, 7d, 4w)
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Count only sessions of this folder
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(super) fn run(ctx: &AppContext, args: &StatsArgs) -> Result<u8, CliError> {
    let zone = TimeZone::system();
    let now = Timestamp::now().to_zoned(zone.clone());
    let since = args
        .since
        .as_deref()
        .map(|text| since_of(text, &now))
        .transpose()?;
    let workspace = args.project.as_deref().map(|path| workspace(ctx, path));
    let mut stats = Stats::new(Figures::new(ctx.config()), zone);
    let since_ms = since
        .as_ref()
        .map_or(i64::MIN, |at| at.timestamp().as_millisecond());
    let unreadable = super::open_store_for_reading(ctx)?.history().each_asked(
        since_ms,
        workspace.as_deref(),
        |asked| stats.add(&asked),
    )?;
    match args.json {
        true => line(
            &stats
                .to_json(since.as_ref(), workspace.as_deref(), unreadable)
                .to_string(),
        ),
        false => stats.print(),
    }
    if unreadable > 0 {
        let entries = count(unreadable, "damaged entry");
        note(&format!("{entries} left out; rewake doctor says more"));
    }
    Ok(exit::DONE)
}

/// Parses a day, or a duration before now.
fn since_of(text: &str, now: &Zoned) -> Result<Zoned, CliError> {
    let wrong = || {
        CliError::usage(format!("--since {text:?} is no day and no span of time"))
            .with_hint("a day as 2026-11-21, or a span back from now as 24h, 7d or 4w")
    };
    let text = text.trim();
    if let Ok(day) = text.parse::<Date>() {
        return day.to_zoned(now.time_zone().clone()).map_err(|_| wrong());
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u32 = digits.parse().map_err(|_| wrong())?;
    let span = match &text[digits.len()..] {
        "h" => Span::new().try_hours(number),
        "d" => Span::new().try_days(number),
        "w" => Span::new().try_weeks(number),
        _ => return Err(wrong()),
    };
    let back = span.and_then(|span| now.checked_sub(span));
    back.map_err(|_| wrong())
}

/// Returns the root that sessions of this folder are recorded with. A deleted folder is used as
/// typed.
fn workspace(ctx: &AppContext, path: &Path) -> String {
    let path = ctx.here.folder.join(path);
    let root = here(&path).map_or(path, |here| here.root);
    root.to_string_lossy().into_owned()
}

/// Usage and cost of some models.
#[derive(Default)]
struct Sum {
    sessions: BTreeSet<i64>,
    answers: u64,
    usage: Usage,
    /// Cost in US dollars of the answers that have a price.
    cost: f64,
    priced: u64,
    /// Answers whose price is unknown, and their tokens.
    unpriced: u64,
    unpriced_tokens: u64,
}

impl Sum {
    fn add(&mut self, asked: &ModelRequest<'_>, cost: Option<f64>) {
        self.sessions.insert(asked.session);
        self.answers += 1;
        self.usage.add(asked.usage);
        match cost {
            Some(cost) => {
                self.cost += cost;
                self.priced += 1;
            }
            None => {
                self.unpriced += 1;
                self.unpriced_tokens += asked.usage.all();
            }
        }
    }

    /// Returns the cost in US dollars. `None`: no price is known.
    fn known_cost(&self) -> Option<f64> {
        (self.priced > 0 || self.answers == 0).then_some(self.cost)
    }

    fn cost_text(&self) -> String {
        let known = self.known_cost().map(|cost| format!("${cost:.2}"));
        match (known, self.unpriced) {
            (Some(known), 0) => known,
            (Some(known), n) => format!("{known} + {n} unpriced"),
            (None, _) => "price not known".to_string(),
        }
    }

    /// Returns the cell for the cost. In the short form, `+` means that some prices are unknown. A
    /// note gives the number.
    fn cost_cell(&self) -> Cell {
        let short = match (self.known_cost(), self.unpriced) {
            (Some(cost), 0) => format!("${cost:.2}"),
            (Some(cost), _) => format!("${cost:.2}+"),
            (None, _) => "?".to_string(),
        };
        Cell {
            long: self.cost_text(),
            short,
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "sessions": self.sessions.len(),
            "answers": self.answers,
            "input": self.usage.input,
            "cached": self.usage.cached,
            "cache_written": self.usage.cache_written,
            "output": self.usage.output,
            "cost_usd": self.known_cost(),
            "unpriced_answers": self.unpriced,
            "unpriced_tokens": self.unpriced_tokens,
        })
    }
}

struct Stats {
    figures: Figures,
    zone: TimeZone,
    /// Cache of prices.
    prices: HashMap<String, ModelInfo>,
    all: Sum,
    days: BTreeMap<Date, Sum>,
    projects: BTreeMap<String, Sum>,
    models: BTreeMap<String, Sum>,
}

impl Stats {
    fn new(figures: Figures, zone: TimeZone) -> Stats {
        Stats {
            figures,
            zone,
            prices: HashMap::new(),
            all: Sum::default(),
            days: BTreeMap::new(),
            projects: BTreeMap::new(),
            models: BTreeMap::new(),
        }
    }

    fn add(&mut self, asked: &ModelRequest<'_>) {
        if !self.prices.contains_key(asked.model) {
            let info = self.figures.of(asked.model);
            self.prices.insert(asked.model.to_string(), info);
        }
        let prices = self.prices.get(asked.model);
        let cost = prices.and_then(|info| info.cost(asked.usage));
        let at = Timestamp::from_millisecond(asked.at_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        let day = at.to_zoned(self.zone.clone()).date();
        self.all.add(asked, cost);
        self.days.entry(day).or_default().add(asked, cost);
        sum_of(&mut self.projects, asked.workspace).add(asked, cost);
        sum_of(&mut self.models, asked.model).add(asked, cost);
    }

    fn to_json(&self, since: Option<&Zoned>, project: Option<&str>, unreadable: u64) -> Value {
        let day = |(day, sum): (&Date, &Sum)| named("day", &day.to_string(), sum);
        json!({
            "since": since.map(|at| at.timestamp().to_string()),
            "project": project,
            "prices_of": snapshot(),
            "unreadable_entries": unreadable,
            "total": self.all.to_json(),
            "days": self.days.iter().map(day).collect::<Vec<_>>(),
            "projects": list(&self.projects, "project"),
            "models": list(&self.models, "model"),
        })
    }

    fn print(&self) {
        if self.all.answers == 0 {
            return note("no model was called in that time");
        }
        let days = self
            .days
            .iter()
            .rev()
            .map(|(day, sum)| (day.to_string(), sum));
        let tables = [
            ("day", days.collect()),
            ("project", by_tokens(&self.projects)),
            ("model", by_tokens(&self.models)),
            ("total", vec![(String::new(), &self.all)]),
        ];
        let columns = terminal_columns();
        print_tables(&tables, columns);
        let say = |text: &str| note(&broken(text, columns));
        say(&format!(
            "prices as of {}, or as the provider reports them; input does not count cached tokens",
            snapshot()
        ));
        if self.all.unpriced > 0 {
            let answers = count(self.all.unpriced, "answer");
            let tokens = tokens(self.all.unpriced_tokens);
            say(&format!(
                "{answers} with {tokens} tokens have no known price and are not in the cost; \
                 [models.\"NAME\"] in the config sets one"
            ));
        }
    }
}

fn sum_of<'a>(sums: &'a mut BTreeMap<String, Sum>, name: &str) -> &'a mut Sum {
    if !sums.contains_key(name) {
        sums.insert(name.to_string(), Sum::default());
    }
    sums.entry(name.to_string()).or_default()
}

fn named(key: &str, name: &str, sum: &Sum) -> Value {
    let mut value = sum.to_json();
    value[key] = json!(name);
    value
}

fn list(sums: &BTreeMap<String, Sum>, key: &str) -> Vec<Value> {
    sums.iter()
        .map(|(name, sum)| named(key, name, sum))
        .collect()
}

/// Sorts by tokens, largest first.
fn by_tokens(sums: &BTreeMap<String, Sum>) -> Vec<(String, &Sum)> {
    let mut rows: Vec<(String, &Sum)> = sums.iter().map(|(n, s)| (n.clone(), s)).collect();
    rows.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.usage.all()));
    rows
}

/// Prints all tables with one layout, so that their columns are aligned.
fn print_tables(tables: &[(&str, Vec<(String, &Sum)>)], terminal: Option<usize>) {
    let of_table = |sums: &[(String, &Sum)]| -> Vec<TableRow> {
        sums.iter().take(MAX_LINES).map(row).collect()
    };
    let rows: Vec<Vec<TableRow>> = tables.iter().map(|(_, sums)| of_table(sums)).collect();
    let heads: Vec<TableRow> = tables
        .iter()
        .map(|(what, _)| (what.to_string(), Vec::new()))
        .collect();
    let all: Vec<&TableRow> = rows.iter().flatten().chain(&heads).collect();
    let layout = TableLayout::new(&COLUMNS, &all, terminal);
    for ((what, sums), rows) in tables.iter().zip(&rows) {
        line(&layout.head(what));
        for row in rows {
            line(&layout.row(row));
        }
        let more = sums.len() - rows.len();
        if more > 0 {
            line(&format!("… and {more} more; --json has all"));
        }
        line("");
    }
}

const COLUMNS: [Column; 6] = [
    column("sessions", 8, 2),
    column("answers", 7, 3),
    column("input", 7, 0),
    column("cached", 7, 1),
    column("output", 7, 0),
    column("cost", 0, 0),
];

const fn column(head: &'static str, width: usize, left_out: u8) -> Column {
    Column {
        head,
        width,
        left_out,
    }
}

fn row((name, sum): &(String, &Sum)) -> TableRow {
    let cells = vec![
        Cell::of(sum.sessions.len()),
        Cell::of(sum.answers),
        Cell::of(tokens(
            sum.usage.input.saturating_add(sum.usage.cache_written),
        )),
        Cell::of(tokens(sum.usage.cached)),
        Cell::of(tokens(sum.usage.output)),
        sum.cost_cell(),
    ];
    (name.clone(), cells)
}

/// Formats a number of tokens: `12k`, `1.2M`.
fn tokens(count: u64) -> String {
    match count {
        ..1_000 => count.to_string(),
        1_000..999_500 => format!("{:.0}k", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Zoned {
        "2026-11-22T10:00:00[UTC]".parse().unwrap()
    }

    #[test]
    fn a_time_is_a_day_or_a_span_back_from_now() {
        let since = |text: &str| since_of(text, &now()).map(|at| at.timestamp().to_string());
        assert_eq!(since("2026-11-01").unwrap(), "2026-11-01T00:00:00Z");
        assert_eq!(since("24h").unwrap(), "2026-11-21T10:00:00Z");
        assert_eq!(since("7d").unwrap(), "2026-11-15T10:00:00Z");
        assert_eq!(since("2w").unwrap(), "2026-11-08T10:00:00Z");
        for wrong in [
            "",
            "x",
            "7",
            "d",
            "7y",
            "-7d",
            "99999999999d",
            "4294967295w",
            "2026-13-01",
        ] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn usage_without_a_price_is_shown_and_not_counted_as_zero() {
        let usage = |billed_nanos| Usage {
            input: 1_000,
            output: 10,
            billed_nanos,
            ..Usage::default()
        };
        let mut sum = Sum::default();
        let mut add = |session, usage: &Usage, cost| {
            let asked = ModelRequest {
                session,
                workspace: "/w",
                at_ms: 0,
                model: "m/x",
                usage,
            };
            sum.add(&asked, cost);
            (sum.cost_text(), sum.to_json()["cost_usd"].clone())
        };
        let unknown = add(1, &usage(None), None);
        assert_eq!(unknown, ("price not known".into(), Value::Null));
        let both = add(2, &usage(Some(500_000_000)), Some(0.5));
        assert_eq!(both, ("$0.50 + 1 unpriced".into(), json!(0.5)));
        assert_eq!(sum.to_json()["unpriced_tokens"], 1_010);
        assert_eq!(sum.to_json()["sessions"], 2);
    }
}
