//! `rewake purge ID`: a session is removed for good.

use super::confirm::{can_ask, is_yes};
use crate::core::text::count;
use crate::report::{Trouble, exit, line, note};
use crate::session::{AppContext, short_id};

pub(super) fn run(ctx: &AppContext, id: &str, yes: bool) -> Result<u8, Trouble> {
    let store = super::open_store(ctx)?;
    let info = store.find(id)?;
    let short = short_id(&info.id).to_string();
    let title = info.title.as_deref().unwrap_or("without a title");
    let children = store.children(&info.id)?;
    if !yes {
        line(&format!(
            "to remove  {short} \"{title}\", {}",
            count(info.entries, "entry")
        ));
        if !can_ask() {
            return Err(Trouble::new(
                exit::USAGE,
                "nothing was removed: there is no terminal to ask for a yes",
            )
            .with_hint(format!(
                "rewake purge {short} --yes removes it for good, from the journal too"
            )));
        }
        if !is_yes("remove it for good, from the journal too?") {
            note("nothing was removed");
            return Ok(exit::DONE);
        }
    }
    let removed = ctx.purge(store, &info.id)?;
    line(&format!(
        "removed    {short} \"{title}\", {}, {}",
        count(removed.entries, "entry"),
        count(removed.blobs, "blob")
    ));
    if !children.is_empty() {
        let ids: Vec<&str> = children.iter().map(|child| short_id(&child.id)).collect();
        note(&format!(
            "{} of it stay, each a session of its own: rewake purge {}",
            count(children.len() as u64, "task"),
            ids.join(", rewake purge ")
        ));
    }
    if removed.kept > 0 {
        note(&format!(
            "{} stay: forks use them",
            count(removed.kept, "entry")
        ));
    }
    for copy in &removed.copies {
        note(&format!(
            "this copy of the database may still hold it, and was not changed: {}",
            copy.display()
        ));
    }
    Ok(exit::DONE)
}
