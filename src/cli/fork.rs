//! `rewake fork ID`: a copy that goes its own way.

use crate::report::{Trouble, exit, line, note};
use crate::session::{AppContext, Parting, now_ms, short_id};

pub(super) fn run(ctx: &AppContext, id: &str, at: Option<u64>) -> Result<u8, Trouble> {
    let mut store = super::open_store(ctx)?;
    let info = store.find(id)?;
    let parting = at.map_or(Parting::End, Parting::Behind);
    let (fork, _lock, warning) = ctx.fork(&mut store, &info.id, parting, now_ms())?;
    if let Some(warning) = warning {
        note(&warning);
    }
    line(&fork);
    note(&format!(
        "files are not copied; to continue: rewake -p -r {}",
        short_id(&fork)
    ));
    Ok(exit::DONE)
}
