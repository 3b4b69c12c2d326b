//! `rewake history [QUERY]`: sessions, or where something was said or printed.

use super::time::local_time;
use crate::report::{Trouble, exit, line, note};
use crate::session::{AppContext, short_id};
use crate::store::{Order, Scope, SessionFilter};

const MAX_SESSIONS: u32 = 100;
const MAX_HITS: u32 = 50;

pub(super) fn run(ctx: &AppContext, query: &str) -> Result<u8, Trouble> {
    match query.trim() {
        "" => list(ctx),
        query => search(ctx, query),
    }
}

fn list(ctx: &AppContext) -> Result<u8, Trouble> {
    let store = ctx.open_store()?;
    let here = ctx.workspace();
    let sessions = store.sessions(SessionFilter::default(), MAX_SESSIONS)?;
    for info in &sessions {
        let state = match info.unfinished {
            _ if ctx.is_in_use(&info.id) => "in use",
            true if info.dismissed => "dismissed",
            true => "unfinished",
            false => "done",
        };
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
            info.title.as_deref().unwrap_or("untitled"),
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

fn search(ctx: &AppContext, query: &str) -> Result<u8, Trouble> {
    let mut store = ctx.open_store()?;
    let hits = store.search(query, Scope::All, Order::Newest, MAX_HITS)?;
    for hit in &hits {
        line(&format!(
            "{}  {}  {:>5} {:<9} {}",
            short_id(&hit.session),
            local_time(hit.at_ms),
            hit.seq,
            hit.kind,
            hit.snippet.split_whitespace().collect::<Vec<_>>().join(" "),
        ));
    }
    if hits.is_empty() {
        note(&format!("nothing of {query:?} was said or printed"));
    }
    Ok(exit::DONE)
}
