//! Merging of the layers. Later values replace earlier ones, permission rules and checks add up, and old
//! names of keys are replaced.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

use super::layer::{Leaf, insert};
use super::origin::dotted;
use super::{Config, ConfigError, Origins, check};

/// Merges the leaves, and checks every value.
pub(super) fn checked(leaves: Vec<Leaf>) -> Result<(Config, Origins), ConfigError> {
    let (table, origins) = merge(leaves);
    let config = Config::deserialize(table)
        .map_err(|e| ConfigError::new(format!("cannot merge the layers of the config: {e}")))?;
    check::check(&config, &origins)?;
    Ok((config, origins))
}

/// Returns whether lists of several layers are joined.
fn adds_up(path: &[String]) -> bool {
    match path.first().map(String::as_str) {
        Some("permissions") => true,
        Some("check") => path.len() == 1,
        _ => false,
    }
}

/// Merges the leaves: later ones replace earlier ones, permission rules and checks add up.
fn merge(leaves: Vec<Leaf>) -> (Table, Origins) {
    let mut values: BTreeMap<Vec<String>, Value> = BTreeMap::new();
    let mut origins = BTreeMap::new();
    for Leaf {
        path,
        value,
        origin,
    } in leaves
    {
        let key = dotted(&path);
        match value {
            Value::Array(mut rules) if adds_up(&path) => {
                let earlier = match values.remove(&path) {
                    Some(Value::Array(earlier)) => earlier,
                    _ => Vec::new(),
                };
                for at in earlier.len()..earlier.len() + rules.len() {
                    origins.insert(format!("{key}[{at}]"), origin.clone());
                }
                rules.splice(..0, earlier);
                values.insert(path, Value::Array(rules));
            }
            value => {
                origins.insert(key, origin);
                values.insert(path, value);
            }
        }
    }
    let mut table = Table::new();
    for (path, value) in values {
        insert(&mut table, &path, value);
    }
    (table, Origins(origins))
}
