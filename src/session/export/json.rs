//! The JSON export: one object with the session's row, every record as in the log, and the blobs
//! that are text.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::ExportError;
use crate::core::entry::Record;
use crate::core::visible::escape_json;
use crate::store::{SessionInfo, Store};

/// Maximum size of a blob whose text is written. For a larger one only the size is.
const MAX_BLOB_BYTES: u64 = 1 << 20;

/// Writes the session as `{"session": {…}, "records": [{"seq", "at_ms", "entry"}, …], "blobs":
/// {HASH: {"bytes", "text"}, …}}`, with one record per line. `text` is missing if a blob is large
/// or not text.
pub(crate) fn json(store: &Store, session: &str, out: &mut impl Write) -> Result<(), ExportError> {
    let info = store.history().find(session)?;
    write!(
        out,
        "{{\"session\": {},\n\"records\": [",
        escape_json(&head(&info).to_string())
    )?;
    let mut blobs = BTreeMap::new();
    let mut between = "\n";
    store.load_each(&info.id, |record: Record| -> Result<(), ExportError> {
        let json = serde_json::to_string(&record).map_err(io::Error::from)?;
        write!(out, "{between}{}", escape_json(&json))?;
        between = ",\n";
        let named = record.entry.blobs();
        blobs.extend(named.map(|blob| (blob.hash.clone(), blob.bytes)));
        Ok(())
    })?;
    write!(out, "\n],\n\"blobs\": {{")?;
    between = "\n";
    for (hash, bytes) in &blobs {
        let blob = blob(store, hash, *bytes)?;
        let json = format!("{}: {blob}", Value::from(hash.as_str()));
        write!(out, "{between}{}", escape_json(&json))?;
        between = ",\n";
    }
    writeln!(out, "\n}}}}")?;
    Ok(())
}

fn head(info: &SessionInfo) -> Value {
    json!({
        "id": info.id,
        "title": info.title,
        "workspace": info.workspace,
        "folder": info.folder,
        "model": info.model,
        "version": info.version,
        "created_ms": info.created_ms,
        "updated_ms": info.updated_ms,
        "entries": info.entries,
        "unfinished": info.unfinished,
        "forked_from": info.forked_from,
        "usage": info.usage,
    })
}

fn blob(store: &Store, hash: &str, bytes: u64) -> Result<Value, ExportError> {
    let text = match bytes {
        ..=MAX_BLOB_BYTES => store.blob(hash)?.and_then(|b| String::from_utf8(b).ok()),
        _ => None,
    };
    Ok(match text {
        Some(text) => json!({ "bytes": bytes, "text": text }),
        None => json!({ "bytes": bytes }),
    })
}
