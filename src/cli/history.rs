//! `rewake history [QUERY]`: sessions, or where something was said or printed.

use std::collections::HashSet;

use super::args::PageArgs;
use super::time::local_time;
use crate::core::marks::title_line;
use crate::core::text::count;
use crate::report::{Trouble, exit, line, note};
use crate::session::objects::HistoryQuery;
use crate::session::{AppContext, GLANCE_ENTRIES, Glance, glance, short_id};
use crate::store::{Order, Place, Scope, SessionFilter, SessionInfo};

const MAX_SESSIONS: u32 = 100;
const MAX_HITS: u32 = 50;
const FORK_CHARS: usize = 60;
const TITLE_CHARS: usize = 200;

pub(super) fn run(ctx: &AppContext, query: &str, page: PageArgs) -> Result<u8, Trouble> {
    if page.json {
        return json(ctx, query, page);
    }
    match query.trim() {
        "" => list(ctx),
        query => search(ctx, query),
    }
}

/// What `GET /agent/history` of the server gives.
fn json(ctx: &AppContext, query: &str, page: PageArgs) -> Result<u8, Trouble> {
    let mut store = super::open_store(ctx)?;
    let folder = page.folder.map(|folder| ctx.env.cwd().join(folder));
    let wanted = HistoryQuery {
        words: query.to_string(),
        folder: folder.map(|folder| folder.to_string_lossy().into_owned()),
        before: page.before,
        limit: page.limit,
    };
    let found = ctx.history(&mut store, &wanted)?;
    super::print_json(&found)
}

fn list(ctx: &AppContext) -> Result<u8, Trouble> {
    let store = super::open_store_to_look(ctx)?;
    let here = ctx.workspace();
    let sessions = store.sessions(
        SessionFilter {
            children: true,
            ..SessionFilter::default()
        },
        MAX_SESSIONS,
    )?;
    let sessions = below_parents(sessions);
    for info in &sessions {
        let seen = glance(&store, info, GLANCE_ENTRIES);
        let state = ctx.standing(info, &seen).word();
        let place = if info.workspace == here {
            "here".to_string()
        } else {
            info.folder.clone()
        };
        line(&format!(
            "{}  {}  {state:<10}  {:>5} {:<7}  {}  {}",
            short_id(&info.id),
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
    let lost = ctx.lost(&store)?;
    if let Some(lost) = &lost {
        note(lost);
    }
    if sessions.is_empty() && lost.is_none() {
        note("there are no sessions yet; rewake -p \"what to do\" starts one");
    }
    Ok(exit::DONE)
}

/// Each sub-agent's behind its parent, where that is listed.
fn below_parents(sessions: Vec<SessionInfo>) -> Vec<SessionInfo> {
    let ids: HashSet<String> = sessions.iter().map(|info| info.id.clone()).collect();
    let is_below = |info: &SessionInfo| info.parent.as_ref().is_some_and(|id| ids.contains(id));
    let (below, mut all): (Vec<_>, Vec<_>) = sessions.into_iter().partition(is_below);
    // The newest stays the first of its parent's.
    for child in below.into_iter().rev() {
        let at = all
            .iter()
            .position(|info| Some(&info.id) == child.parent.as_ref());
        all.insert(at.map_or(all.len(), |at| at + 1), child);
    }
    all
}

/// The title, of a fork with what was said in it last.
fn label(info: &SessionInfo, seen: &Glance) -> String {
    let title = info.title.as_deref().unwrap_or("untitled");
    let title = title_line(title, TITLE_CHARS);
    if info.parent.is_some() {
        return format!("└ task: {title}");
    }
    match info.forked_from {
        Some(_) => format!("{title} ⑂ {}", title_line(seen.name(info), FORK_CHARS)),
        None => title,
    }
}

fn search(ctx: &AppContext, query: &str) -> Result<u8, Trouble> {
    let store = super::open_store_to_look(ctx)?;
    let mut store = store.into_searchable(&ctx.paths.data_dir)?;
    let hits = store.search(query, Scope::All, Order::Newest, MAX_HITS)?;
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
            let newest = match found == MAX_HITS as usize {
                true => "the newest ",
                false => "",
            };
            let entries = count(found as u64, "entry");
            let sessions = count(sessions.len() as u64, "session");
            note(&format!("{newest}{entries} in {sessions}"));
        }
    }
    Ok(exit::DONE)
}

/// `line 3 of 40, 2×`; nothing of an entry of one line.
fn place(place: &Place) -> String {
    let times = match place.times {
        1 => String::new(),
        n => format!(", {n}×"),
    };
    match place.lines {
        ..=1 => String::new(),
        lines => format!("line {} of {lines}{times}", place.line),
    }
}
