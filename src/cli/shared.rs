//! The sessions of the shared database, for commands with `--shared`: a list, and a copy here.

use serde_json::json;

use super::print_json;
use super::time::local_time;
use crate::bundle::{Bundle, Importer, InputFile};
use crate::core::text::{count, one_line, session_name};
use crate::core::visible::visible;
use crate::report::{CliError, exit, line, note};
use crate::session::shared::{fleet_address, update_shared};
use crate::session::{AppContext, SessionError, short_id};
use crate::shared::SharedError;
use crate::shared::connection::Connection;
use crate::shared::postgres::Postgres;
use crate::shared::reader::bundle;
use crate::store::{SessionLock, now_ms};
use crate::tools;

const TITLE_CHARS: usize = 80;
const HOST_CHARS: usize = 40;

/// Runs requests to the database.
pub(super) fn blocking<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new(exit::FAILED, error.to_string()))?
        .block_on(work)
}

/// Prints the sessions that changed last.
pub(super) fn list(ctx: &AppContext, json: bool) -> Result<u8, CliError> {
    let address = fleet_address(ctx)?;
    let sessions = blocking(async {
        let connection = Connection::connect(&address).await?;
        Ok(connection.sessions().await?)
    })?;
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

/// Copies a session from the database, or the entries that its copy lacks. A session of this data
/// folder gets what the database has more. Returns its ID here.
pub(super) fn copy(ctx: &AppContext, beginning: &str) -> Result<String, CliError> {
    let address = fleet_address(ctx)?;
    let mut store = ctx.open_store()?;
    let data_dir = &ctx.paths.data_dir;
    let found = blocking(async {
        let connection = Connection::connect(&address).await?;
        Ok(connection.find(beginning).await?)
    })?;
    let known = match store.history().knows(&found.id)? {
        true => Some(store.history().find(&found.id)?),
        false => None,
    };
    if known.is_some_and(|known| known.shared.is_some()) {
        // A process that works in it has it all.
        if SessionLock::is_held(data_dir, &found.id) {
            return Ok(found.id);
        }
        match update_shared(ctx, &mut store, &found.id) {
            Ok(warnings) => {
                warnings.iter().for_each(|text| note(text));
                return Ok(found.id);
            }
            Err(SessionError::Shared(error)) => note(&format!("{error}; a copy is read")),
            Err(error) => return Err(error.into()),
        }
    }
    let failed = |error: std::io::Error| SharedError::Failed {
        what: error.to_string(),
    };
    let file = tempfile::tempfile_in(data_dir).map_err(failed)?;
    let mut file = blocking(async {
        let log = Postgres::new(address.clone());
        Ok(bundle(log, &found, file, now_ms()).await?)
    })?;
    std::io::Seek::rewind(&mut file).map_err(failed)?;
    let bundle = Bundle::check(InputFile::copy(file, data_dir)?, tools::describe, false)?;
    let mut importer = Importer {
        store: &mut store,
        data_dir,
        folder: None,
        workspace_of: &super::bundle::root_of,
        new_id: false,
        max_file_bytes: ctx.config().files.max_bytes,
        now_ms: now_ms(),
    };
    let imported = importer.import(&bundle)?;
    imported
        .into_iter()
        .next()
        .map(|one| one.session)
        .ok_or_else(|| CliError::new(exit::FAILED, format!("session {} has no entry", found.id)))
}
