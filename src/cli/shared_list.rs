//! `rewake history --shared`: the list of the sessions of the shared database.

use serde_json::json;

use super::print_json;
use super::time::local_time;
use crate::core::text::{count, one_line, session_name};
use crate::core::visible::visible;
use crate::report::{CliError, exit, line, note};
use crate::session::remote::blocking;
use crate::session::shared::fleet_address;
use crate::session::{AppContext, short_id};
use crate::shared::SharedError;
use crate::shared::connection::Connection;

const TITLE_CHARS: usize = 80;
const HOST_CHARS: usize = 40;

/// Prints the sessions that changed last.
pub(super) fn list(ctx: &AppContext, json: bool) -> Result<u8, CliError> {
    let address = fleet_address(ctx)?;
    let sessions = blocking(async { Connection::connect(&address).await?.sessions().await })
        .map_err(|error: SharedError| CliError::from(error))?;
    if json {
        return print_json(&json!({ "sessions": sessions }));
    }
    for session in &sessions {
        let shown = |text: &str, most| one_line(&visible(text), most);
        let title = match session.title.as_str() {
            "" => session_name(None).to_string(),
            title => shown(title, TITLE_CHARS),
        };
        line(&format!(
            "{}  {}  {:<10}  {:>13}  {title}  {}:{}",
            short_id(&session.id),
            local_time(session.updated_ms),
            shown(&session.state, 10),
            count(u64::try_from(session.entries).unwrap_or_default(), "entry"),
            shown(&session.host, HOST_CHARS),
            visible(&session.folder()),
        ));
    }
    if sessions.is_empty() {
        note("there are no shared sessions yet; rewake -p \"what to do\" --shared starts one");
    }
    Ok(exit::DONE)
}
