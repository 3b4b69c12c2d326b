//! The finished sessions of the folder, for the start screen.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use crate::session::AppContext;
use crate::ui::Wake;
use crate::ui::app::Msg;

const MAX_SESSIONS: usize = 3;

/// Reads the finished sessions in a separate thread, except the session `open`. Nobody waits for
/// them, so errors are only logged.
pub(super) fn read(ctx: Arc<AppContext>, open: String, to_screen: Sender<Wake>) {
    let work = move || {
        let store = ctx.open_store();
        let found = store.map_err(Into::into);
        match found.and_then(|store| ctx.session_list().finished(&store, &open, MAX_SESSIONS)) {
            Ok(found) => drop(to_screen.send(Wake::Msg(Msg::LastHere(found)))),
            Err(error) => tracing::warn!(%error, "finished sessions are not listed"),
        }
    };
    let spawned = std::thread::Builder::new()
        .name("last here".into())
        .spawn(work);
    if let Err(error) = spawned {
        tracing::warn!(%error, "finished sessions are not listed");
    }
}
