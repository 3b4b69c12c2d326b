//! Earlier prompts of the project, for the input box.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use crate::session::AppContext;
use crate::ui::Wake;
use crate::ui::app::Msg;
use crate::workspace::worktrees;

/// Maximum number of prompts of all sessions of the project: the newest ones.
const MAX_PROMPTS: usize = 1_000;

/// Reads the user's messages of all sessions of the project, its other worktrees included, in a
/// separate thread. A session is open by then, so the store exists and is up to date. Nobody waits
/// for them, so errors are only logged.
pub(super) fn read(ctx: Arc<AppContext>, to_screen: Sender<Wake>) {
    let work = move || {
        let roots = worktrees(&ctx.here.root);
        let roots: Vec<String> = roots
            .iter()
            .map(|root| root.to_string_lossy().into_owned())
            .collect();
        let prompts = ctx
            .open_store()
            .and_then(|store| store.history().prompts(&roots, MAX_PROMPTS));
        match prompts {
            Ok(mut prompts) => {
                prompts.reverse();
                let _ = to_screen.send(Wake::Msg(Msg::Prompts(prompts)));
            }
            Err(error) => tracing::warn!(%error, "prompts of other sessions are not known"),
        }
    };
    let spawned = std::thread::Builder::new()
        .name("prompts".into())
        .spawn(work);
    if let Err(error) = spawned {
        tracing::warn!(%error, "prompts of other sessions are not read");
    }
}
