//! `--json-schema`: a file or JSON, read and checked before anything else happens.

use std::path::Path;

use serde_json::Value;

use crate::config::read_text;
use crate::model::schema::{MAX_BYTES, check_schema};
use crate::report::CliError;

/// Returns the schema from a file or from JSON.
pub(super) fn read(given: &str) -> Result<Value, CliError> {
    let is_json = given.trim_start().starts_with('{');
    let (text, from) = match is_json {
        true if given.len() as u64 > MAX_BYTES => {
            return Err(refused(format!(
                "the schema is larger than {MAX_BYTES} bytes"
            )));
        }
        true => (given.to_string(), "--json-schema".to_string()),
        false => {
            let text = read_text(Path::new(given), MAX_BYTES)
                .map_err(|e| refused(format!("cannot read the schema {given}: {e}")))?;
            (text, given.to_string())
        }
    };
    let schema = serde_json::from_str(&text)
        .map_err(|e| refused(format!("the schema of {from} is not JSON: {e}")))?;
    check_schema(&schema)
        .map_err(|why| refused(format!("the schema of {from} cannot be used: {why}")))?;
    Ok(schema)
}

fn refused(why: String) -> CliError {
    CliError::usage(why).with_hint(
        "--json-schema takes a file with a JSON Schema, or the schema itself: '{\"type\": \"object\", …}'",
    )
}
