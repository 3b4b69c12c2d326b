//! `rewake history [QUERY]`: lists sessions, or searches messages and output.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use clap::Args;

use super::shared::{self, SharedCommand, SharedFlag};
use super::time::local_time;
use crate::core::marks::title_line;
use crate::core::text::{count, session_name};
use crate::report::{CliError, exit, line, note};
use crate::session::objects::HistoryQuery;
use crate::session::{AppContext, GLANCE_ENTRIES, SessionSummary, glance, short_id};
use crate::store::{MatchLocation, Order, Scope, SessionFilter, SessionInfo, unique_short_id};

const SESSIONS: u32 = 100;
/// Maximum number of subagents that are listed below one session.
const MAX_CHILDREN: usize = 20;
/// Maximum number of sessions that are searched for subagents.
const MAX_LOOKED_AT: u32 = 1_000;
const HITS: u32 = 50;
const FORK_CHARS: usize = 60;
const TITLE_CHARS: usize = 200;

/// List sessions, or search them for QUERY
#[derive(Debug, Clone, PartialEq, Default, Args)]
#[command(shared_flag(
    "Print the sessions of the shared database",
    &["query", "limit", "before", "folder"]
))]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub shared: SharedFlag,
    /// Words to search for in messages, calls and output
    #[arg(value_name = "QUERY")]
    pub query: Vec<String>,
    /// Print one JSON object with title, state, plan, summary and checkpoints
    #[arg(long)]
    pub json: bool,
    /// Limit the number of sessions or hits (1 to 200)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub limit: Option<u32>,
    /// Print the page after this one: its `next` (with --json)
    #[arg(long, value_name = "PLACE", requires = "json")]
    pub before: Option<i64>,
    /// Print only sessions of this folder (with --json)
    #[arg(long, value_name = "DIR", requires = "json")]
    pub folder: Option<PathBuf>,
}

pub(super) fn run(ctx: &AppContext, args: HistoryArgs) -> Result<u8, CliError> {
    if args.shared.is_given() {
        return shared::list(ctx, args.json);
    }
    if args.json {
        return json(ctx, args);
    }
    match args.query.join(" ").trim() {
        "" => list(ctx, args.limit.unwrap_or(SESSIONS)),
        query => search(ctx, query, args.limit.unwrap_or(HITS)),
    }
}

/// Prints the same JSON as `GET /agent/history` of the server.
fn json(ctx: &AppContext, args: HistoryArgs) -> Result<u8, CliError> {
    let mut store = super::open_store(ctx)?;
    let folder = args.folder.map(|folder| ctx.env.cwd().join(folder));
    let wanted = HistoryQuery {
        words: args.query.join(" "),
        folder: folder.map(|folder| folder.to_string_lossy().into_owned()),
        before: args.before,
        limit: args.limit,
    };
    let found = ctx.session_list().history(&mut store, &wanted)?;
    super::print_json(&found)
}

fn list(ctx: &AppContext, limit: u32) -> Result<u8, CliError> {
    let store = super::open_store_for_reading(ctx)?;
    let here = ctx.workspace();
    let history = store.history();
    let mut top = history.sessions(SessionFilter::default(), limit + 1)?;
    let is_cut = top.len() > limit as usize;
    top.truncate(limit as usize);
    let with_children = SessionFilter {
        children: true,
        ..SessionFilter::default()
    };
    let children = history.sessions(with_children, MAX_LOOKED_AT)?;
    let sessions = with_children_below(top, children);
    let ids: Vec<&str> = sessions.iter().filter_map(Row::id).collect();
    for row in &sessions {
        let info = match row {
            Row::Session(info) => info,
            Row::More(tasks) => {
                line(&format!("{:>9} └ and {}", "", count(*tasks, "more task")));
                continue;
            }
        };
        let seen = glance(&store, info, GLANCE_ENTRIES);
        let sessions = ctx.session_list();
        let state = sessions.standing(info, &seen);
        let state = sessions.state_word(&store, &info.id, state);
        let place = if info.workspace == here {
            "here".to_string()
        } else {
            info.folder.clone()
        };
        line(&format!(
            "{}  {}  {state:<11}  {:>5} {:<7}  {}  {}",
            unique_short_id(&info.id, &ids),
            local_time(info.updated_ms),
            info.entries,
            if info.entries == 1 {
                "entry"
            } else {
                "entries"
            },
            label(info, &seen),
            place,
        ));
    }
    if is_cut {
        note(&cut(&count(u64::from(limit), "session")));
    }
    let lost = ctx.missing_sessions_warning(&store)?;
    if let Some(lost) = &lost {
        note(lost);
    }
    if sessions.is_empty() && lost.is_none() {
        note("there are no sessions yet; rewake -p \"what to do\" starts one");
    }
    Ok(exit::DONE)
}

enum Row {
    Session(Box<SessionInfo>),
    /// Number of further subagents of the session above.
    More(u64),
}

impl Row {
    fn id(&self) -> Option<&str> {
        match self {
            Row::Session(info) => Some(&info.id),
            Row::More(_) => None,
        }
    }
}

/// Returns each session, followed by the newest of its subagents.
fn with_children_below(top: Vec<SessionInfo>, children: Vec<SessionInfo>) -> Vec<Row> {
    let mut of_parent: HashMap<String, Vec<SessionInfo>> = HashMap::new();
    for child in children {
        if let Some(parent) = child.parent.clone() {
            of_parent.entry(parent).or_default().push(child);
        }
    }
    let mut rows = Vec::new();
    for info in top {
        let children = of_parent.remove(&info.id).unwrap_or_default();
        let more = children.len().saturating_sub(MAX_CHILDREN);
        rows.push(Row::Session(Box::new(info)));
        rows.extend(
            children
                .into_iter()
                .take(MAX_CHILDREN)
                .map(|child| Row::Session(Box::new(child))),
        );
        if more > 0 {
            rows.push(Row::More(more as u64));
        }
    }
    rows
}

/// Returns the title. For a fork, adds its last message.
fn label(info: &SessionInfo, seen: &SessionSummary) -> String {
    let title = session_name(info.title.as_deref());
    let title = title_line(title, TITLE_CHARS);
    if let Some(agent) = &info.replica {
        return format!("{agent}: {title}");
    }
    if info.parent.is_some() {
        return format!("└ task: {title}");
    }
    match info.forked_from {
        Some(_) => format!(
            "{title} ⑂ {}",
            title_line(seen.request().unwrap_or("nothing said yet"), FORK_CHARS)
        ),
        None => title,
    }
}

/// Returns the note that a list is cut.
fn cut(shown: &str) -> String {
    format!("the newest {shown}; --limit N shows up to 200; page further with --json --before")
}

fn search(ctx: &AppContext, query: &str, limit: u32) -> Result<u8, CliError> {
    let store = super::open_store_for_reading(ctx)?;
    let store = store.into_searchable(&ctx.paths.data_dir)?;
    let mut hits = store
        .index()
        .search(query, Scope::All, Order::Newest, limit + 1)?;
    let is_cut = hits.len() > limit as usize;
    hits.truncate(limit as usize);
    for hit in &hits {
        line(&format!(
            "{}  {}  {:>5} {:<9} {:<18} {}",
            short_id(&hit.session),
            local_time(hit.at_ms),
            hit.seq,
            hit.kind,
            place(&hit.place),
            hit.place
                .text
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" "),
        ));
    }
    let sessions: HashSet<&str> = hits.iter().map(|hit| hit.session.as_str()).collect();
    match hits.len() {
        0 => note(&format!("no message, call or output contains {query:?}")),
        found => {
            let entries = count(found as u64, "entry");
            let sessions = count(sessions.len() as u64, "session");
            let found = format!("{entries} in {sessions}");
            note(&if is_cut { cut(&found) } else { found });
        }
    }
    Ok(exit::DONE)
}

/// Returns the position of a hit, such as `line 3 of 40, 2×`. Empty for an entry with one line.
fn place(place: &MatchLocation) -> String {
    let times = match place.times {
        1 => String::new(),
        n => format!(", {n}×"),
    };
    match place.lines {
        ..=1 => String::new(),
        lines => format!("line {} of {lines}{times}", place.line),
    }
}
