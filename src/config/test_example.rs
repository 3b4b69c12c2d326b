//! Checks that `config.example.toml` matches the schema.
//!
//! A line `key = value` is a default; a line `# key = value` is a key without one.

use std::collections::BTreeSet;

use serde::Deserialize;
use toml::Table;

use super::Config;
use super::origin::dotted;
use super::testing::Fixture;

const EXAMPLE: &str = include_str!("../../config.example.toml");

/// Returns the example with the keys that have no default.
fn uncommented() -> String {
    EXAMPLE
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if is_key_value(rest) || rest.starts_with('[') => rest,
            _ => line,
        })
        .collect::<Vec<_>>()
        .join("\n")
}

fn is_key_value(line: &str) -> bool {
    line.split_once(" = ")
        .is_some_and(|(key, _)| !key.is_empty() && !key.contains(' '))
}

fn keys(table: &Table) -> BTreeSet<String> {
    fn walk(table: &Table, path: &mut Vec<String>, keys: &mut BTreeSet<String>) {
        for (key, value) in table {
            path.push(key.clone());
            match value {
                toml::Value::Table(inner) => walk(inner, path, keys),
                _ => {
                    keys.insert(dotted(path));
                }
            }
            path.pop();
        }
    }
    let mut keys = BTreeSet::new();
    walk(table, &mut Vec::new(), &mut keys);
    keys
}

/// Returns the keys that the schema knows in a table, taken from its error about an unknown key.
fn known(table: &str) -> Vec<String> {
    let dot = if table.is_empty() { "" } else { "." };
    let message = toml::from_str::<Config>(&format!("{table}{dot}nonesuch = 0"))
        .unwrap_err()
        .message()
        .to_string();
    message
        .split('`')
        .skip(3)
        .step_by(2)
        .map(|name| format!("{table}{dot}{name}"))
        .collect()
}

#[test]
fn its_values_are_the_defaults() {
    let example: Table = toml::from_str(EXAMPLE).unwrap();
    let defaults = Table::try_from(Config::default()).unwrap();
    assert_eq!(keys(&example), keys(&defaults));
    assert_eq!(Config::deserialize(example).unwrap(), Config::default());
}

#[test]
fn the_example_config_names_every_key() {
    let mut example = keys(&toml::from_str(&uncommented()).unwrap());
    example.retain(|key| !key.starts_with("keys."));
    let tables = [
        "ui",
        "editor",
        "notify",
        "context",
        "permissions",
        "shell",
        "sandbox",
        "instructions",
        "retry",
        "store",
        "files",
        "agents",
        "web",
        "telemetry",
        "update",
        "fleet",
        "log",
    ];
    // `crate::ui::keys` compares the names of keys.
    let maps = ["keys", "providers", "models", "mcp_servers"];
    let mut schema: BTreeSet<String> = known("")
        .into_iter()
        .filter(|key| !tables.contains(&key.as_str()) && !maps.contains(&key.as_str()))
        .collect();
    for table in tables {
        schema.extend(known(table));
    }
    schema.extend(known("providers.local"));
    schema.extend(known("models.\"local/my-model\""));
    schema.remove("providers.local.headers");
    schema.insert("providers.local.headers.X-Team".to_string());
    // A server has a command or an address. Keys of the second kind are in the second example.
    for key in known("mcp_servers.tracker") {
        let name = key.rsplit_once('.').map_or("", |(_, name)| name);
        match name {
            "url" | "bearer_token_env_var" => schema.insert(key),
            "headers" => schema.insert(format!("{key}.X-Team")),
            "env" => schema.insert("mcp_servers.files.env.FILES_TOKEN".to_string()),
            name => schema.insert(format!("mcp_servers.files.{name}")),
        };
    }
    assert_eq!(example, schema);
}

#[test]
fn the_keys_without_a_default_are_valid_too() {
    let f = Fixture::new();
    // A shell that may not exist on this machine.
    f.user(&uncommented().replace("/bin/bash", "/bin/sh"));
    let loaded = f.load(&[], &[]).unwrap();
    assert_eq!(
        loaded.config.model.as_deref(),
        Some("anthropic/claude-sonnet-5-5")
    );
}
