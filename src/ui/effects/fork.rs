//! Forks with a separate copy of the files: made while the session stays open, and then opened.

use std::path::PathBuf;
use std::sync::Arc;

use super::Effects;
use crate::core::entry::Seq;
use crate::session::{AppContext, ForkFolder, NotForked, Parting, SessionSelector};
use crate::ui::Wake;
use crate::ui::app::{App, Msg};
use crate::ui::text::with_hint;
use crate::ui::transcript::Tone;

impl Effects {
    pub(super) fn fork_into(&self, id: String, at: Option<Seq>, folder: ForkFolder, app: &App) {
        let (ctx, engine) = (Arc::clone(&self.ctx), app.session.engine);
        let to_screen = self.to_screen.clone();
        self.aside(move || {
            Some(match forked(&ctx, &id, at, folder) {
                Ok((id, notes)) => {
                    for text in notes {
                        // If the screen is gone, there is nothing to show.
                        let _ = to_screen.send(Msg::Notice(Tone::Calm, text).into());
                    }
                    Wake::Found {
                        engine,
                        which: SessionSelector::Named { id, fork: false },
                        take_over: false,
                    }
                }
                Err(error) => Wake::Msg(Msg::Notice(Tone::Warn, with_hint(&error, error.hint()))),
            })
        });
    }
}

fn forked(
    ctx: &AppContext,
    id: &str,
    at: Option<Seq>,
    folder: ForkFolder,
) -> Result<(String, Vec<String>), NotForked> {
    let home = |path: PathBuf| match (path.strip_prefix("~"), ctx.env.home()) {
        (Ok(below), Some(home)) => home.join(below),
        _ => path,
    };
    let folder = match folder {
        ForkFolder::Folder(path) => ForkFolder::Folder(home(path)),
        ForkFolder::Worktree(path) => ForkFolder::Worktree(path.map(home)),
    };
    let mut store = ctx.open_store()?;
    let info = store.history().find(id)?;
    let parting = at.map_or(Parting::End, Parting::Behind);
    let made = ctx.fork_into(&mut store, &info, parting, &folder)?;
    let mut notes = vec![format!("its files are in {}", made.root.display())];
    notes.extend(made.notes);
    Ok((made.id, notes))
}
