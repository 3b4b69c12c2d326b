//! A config value from the command line.

use std::path::Path;

use serde::Deserialize;
use toml::de::ValueDeserializer;
use toml::{Table, Value};

use super::layer::Leaf;
use super::{ConfigError, Origin, mcp};

/// A config value from the command line. It takes precedence over files and variables.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting(pub(super) Leaf);

impl Setting {
    /// Creates the setting of a flag with a fixed key, such as `--model`.
    pub fn new(flag: &str, key: &str, value: impl Into<Value>) -> Result<Setting, ConfigError> {
        Setting::of_flag(flag.to_string(), vec![key.to_string()], value.into())
    }

    /// Creates a checked setting. `flag` names its origin.
    fn of_flag(flag: String, path: Vec<String>, value: Value) -> Result<Setting, ConfigError> {
        let origin = Origin::Flag(flag);
        let leaf = Leaf {
            path,
            value,
            origin,
        };
        leaf.checked().map(Setting)
    }

    /// Creates the setting of a flag that adds rules to a list of `permissions`.
    pub fn rules(flag: &str, list: &str, rules: &[String]) -> Result<Setting, ConfigError> {
        let rules = rules.iter().cloned().map(Value::String);
        let path = vec!["permissions".to_string(), list.to_string()];
        Setting::of_flag(flag.to_string(), path, Value::Array(rules.collect()))
    }

    /// Reads the MCP servers of a file in the format of `.mcp.json`. They count as the user's own.
    pub fn servers(flag: &str, file: &Path) -> Result<Vec<Setting>, ConfigError> {
        let mut settings = Vec::new();
        for defined in mcp::servers_in(file)? {
            let name = &defined.name;
            let wrong = |why: String| {
                ConfigError::new(format!("{}: server {name:?}: {why}", file.display()))
            };
            let server = defined.server.map_err(wrong)?;
            let table = Table::try_from(server).map_err(|e| wrong(e.to_string()))?;
            let path = vec!["mcp_servers".to_string(), name.clone()];
            let origin = Origin::Flag(format!("{flag} {}", file.display()));
            add_leaves(path, Value::Table(table), &origin, &mut settings);
        }
        Ok(settings)
    }

    /// `--set key=value`: a dotted key, and a TOML value or a bare word.
    pub fn parse(text: &str) -> Result<Setting, ConfigError> {
        let wrong = || {
            ConfigError::new(format!("--set {}: not key=value", key_of(text)))
                .with_hint("for example --set context.keep=12")
        };
        let (key, value) = split(text).ok_or_else(wrong)?;
        let value = ValueDeserializer::parse(value.trim())
            .and_then(Value::deserialize)
            .unwrap_or_else(|_| Value::String(value.to_string()));
        if matches!(value, Value::Table(_)) {
            return Err(
                ConfigError::new(format!("--set {}: a table cannot be set", key_of(text)))
                    .with_hint("set its keys one by one"),
            );
        }
        Setting::of_flag(format!("--set {}", key_of(text)), key, value)
    }
}

fn add_leaves(path: Vec<String>, value: Value, origin: &Origin, settings: &mut Vec<Setting>) {
    let Value::Table(table) = value else {
        let origin = origin.clone();
        settings.push(Setting(Leaf {
            path,
            value,
            origin,
        }));
        return;
    };
    for (key, value) in table {
        let path = path.iter().cloned().chain([key]).collect();
        add_leaves(path, value, origin, settings);
    }
}

/// Keys that a subagent takes from its own log or its parent's.
const OF_SESSION: [&str; 5] = [
    "model",
    "permission_mode",
    "effort",
    "temperature",
    "max_turns",
];

impl Setting {
    /// Returns the settings that a subagent's process starts with.
    pub fn encode_for_subagent(settings: &[Setting]) -> String {
        let handed: Vec<_> = settings
            .iter()
            .map(|Setting(leaf)| leaf)
            .filter(|leaf| match &leaf.path[..] {
                [key] => !OF_SESSION.contains(&key.as_str()),
                _ => true,
            })
            .map(|leaf| (&leaf.path, &leaf.value))
            .collect();
        serde_json::to_string(&handed).unwrap_or_else(|_| "[]".to_string())
    }

    /// Parses the result of [`Setting::encode_for_subagent`].
    ///
    /// # Errors
    /// The text was not written by [`Setting::encode_for_subagent`].
    pub fn decode_from_parent(text: &str) -> Result<Vec<Setting>, ConfigError> {
        let wrong = |e| ConfigError::new(format!("what the parent's command line said: {e}"));
        let handed: Vec<(Vec<String>, Value)> = serde_json::from_str(text).map_err(wrong)?;
        let setting =
            |(path, value)| Setting::of_flag("the parent's command line".to_string(), path, value);
        handed.into_iter().map(setting).collect()
    }
}

/// Returns the key for an error. The value is never shown, because it may be a secret.
fn key_of(text: &str) -> &str {
    text.split('=').next().unwrap_or_default().trim()
}

/// Splits at the first equals sign that leaves a valid key: a quoted key may contain one.
fn split(text: &str) -> Option<(Vec<String>, &str)> {
    text.match_indices('=')
        .take(8)
        .find_map(|(at, _)| Some((key_path(&text[..at])?, &text[at + 1..])))
}

fn key_path(key: &str) -> Option<Vec<String>> {
    if key.contains(['\n', '#', '=']) && !key.contains(['"', '\'']) {
        return None;
    }
    let mut table: Table = toml::from_str(&format!("{key} = 0")).ok()?;
    let mut path = Vec::new();
    loop {
        if table.len() != 1 {
            return None;
        }
        let (part, value) = table.into_iter().next()?;
        path.push(part);
        match value {
            Value::Table(inner) => table = inner,
            _ => return Some(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::origin::dotted;

    #[test]
    fn settings_passed_to_a_subagent_leave_out_session_settings() {
        let texts = ["model=a/b", "permission_mode=plan", "context.keep=12"];
        let given: Vec<Setting> = texts.map(|t| Setting::parse(t).unwrap()).into();
        let text = Setting::encode_for_subagent(&given);
        let read = Setting::decode_from_parent(&text).unwrap();
        let keys: Vec<_> = read
            .iter()
            .map(|Setting(leaf)| dotted(&leaf.path))
            .collect();
        assert_eq!(keys, ["context.keep"]);
        assert!(Setting::decode_from_parent("{}").is_err());
    }

    #[test]
    fn a_value_is_toml_or_a_bare_word() {
        let table = [
            ("context.keep=12", "context.keep", Value::Integer(12)),
            ("model=openai/gpt-5", "model", "openai/gpt-5".into()),
            ("model=\"a/b\"", "model", "a/b".into()),
            (
                "shell.pass_env=[\"A\"]",
                "shell.pass_env",
                Value::Array(vec!["A".into()]),
            ),
            (
                "models.\"a/b=c\".input_price=0.5",
                "models.\"a/b=c\".input_price",
                Value::Float(0.5),
            ),
            (
                "providers.x.base_url=http://h/?a=b",
                "providers.x.base_url",
                "http://h/?a=b".into(),
            ),
        ];
        for (text, key, value) in table {
            let Setting(leaf) = Setting::parse(text).unwrap();
            assert_eq!((dotted(&leaf.path).as_str(), leaf.value), (key, value));
        }
    }

    #[test]
    fn an_invalid_set_option_is_reported_without_its_value() {
        let table = [
            ("context.keep", "--set context.keep: not key=value"),
            ("=3", "--set : not key=value"),
            (
                "models.a/b.input_price=1",
                "--set models.a/b.input_price: not key=value",
            ),
            ("contxt.keep=3", "--set contxt.keep: unknown key \"contxt\""),
            (
                "context.keep=secret",
                "--set context.keep: context.keep must be a whole number, 0 or more",
            ),
            ("context={keep=3}", "--set context: a table cannot be set"),
        ];
        for (text, message) in table {
            assert_eq!(Setting::parse(text).unwrap_err().to_string(), message);
        }
    }
}
