//! A layer: the values of one source, each with its dotted key and its origin.
//!
//! A layer is checked against the whole schema when it is read, so an error can name the file and
//! the line. Merging checked layers cannot fail.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::{DeTable, DeValue, Deserializer, ValueDeserializer};
use toml::{Spanned, Table, Value};

use super::error::nearest;
use super::file::{Digest, ReadError, read_text};
use super::origin::dotted;
use super::rights::hint_of;
use super::{Config, ConfigError, Env, Origin};

/// Maximum size of a config file.
pub(super) const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Keys whose values are paths.
const PATH_KEYS: [&str; 3] = ["api_key_file", "ca_file", "script"];

/// A value that is not a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Leaf {
    pub path: Vec<String>,
    pub value: Value,
    pub origin: Origin,
}

impl Leaf {
    /// Checks a single value against the schema.
    pub(super) fn checked(self) -> Result<Leaf, ConfigError> {
        let mut table = Table::new();
        insert(&mut table, &self.path, self.value.clone());
        match Config::deserialize(table) {
            Ok(_) => Ok(self),
            Err(e) => Err(explain(&self.origin, Some(&dotted(&self.path)), &e)),
        }
    }

    /// Makes relative paths absolute.
    pub(super) fn resolved(mut self, env: &Env, base: &Path) -> Leaf {
        let is_path = match self.path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["providers", _, key] => PATH_KEYS.contains(&key),
            ["shell", "path"] | ["update" | "fleet", "ca_file"] => true,
            _ => false,
        };
        let holds_paths = matches!(
            self.path.iter().map(String::as_str).collect::<Vec<_>>()[..],
            ["sandbox", "read" | "write"]
        );
        let paths = match &mut self.value {
            one @ Value::String(_) if is_path => std::slice::from_mut(one),
            Value::Array(many) if holds_paths => many.as_mut_slice(),
            _ => &mut [],
        };
        for path in paths {
            if let Value::String(path) = path
                && let Some(absolute) = env.resolve(path, base).to_str()
            {
                *path = absolute.to_string();
            }
        }
        self
    }
}

/// The content of one config file.
pub(super) struct Layer {
    /// Digest of exactly the text that was parsed.
    pub digest: Digest,
    /// Empty if the file does not exist.
    pub leaves: Result<Vec<Leaf>, ConfigError>,
}

pub(super) fn read_layer(path: &Path) -> Layer {
    let read = read_text(path, MAX_FILE_BYTES);
    let digest = Digest::of(&read);
    let leaves = match read {
        Ok(text) => parse_layer(path, &text),
        Err(ReadError::Missing) => Ok(Vec::new()),
        Err(e) => {
            let path_text = path.display();
            let error = ConfigError::new(format!("cannot read the config file {path_text}: {e}"));
            let hint = match &e {
                ReadError::Io(error) => hint_of(path, error),
                _ => None,
            };
            Err(match hint {
                Some(hint) => error.with_hint(hint),
                None => error,
            })
        }
    };
    Layer { digest, leaves }
}

fn parse_layer(path: &Path, text: &str) -> Result<Vec<Leaf>, ConfigError> {
    // Line starts are collected once: a file may have as many keys as lines, in any order.
    let lines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let origin = |at: usize| Origin::File {
        path: PathBuf::from(path),
        line: lines.partition_point(|end| *end < at) + 1,
    };
    let fail = |key: Option<&str>, e: &toml::de::Error| {
        explain(&origin(e.span().map_or(0, |s| s.start)), key, e)
    };
    let document = DeTable::parse(text).map_err(|e| fail(None, &e))?;
    let mut found = Vec::new();
    collect(document.get_ref().clone(), &mut Vec::new(), &mut found);
    Config::deserialize(Deserializer::from(document)).map_err(|e| {
        let key = e.span().and_then(|span| {
            let inside =
                |f: &&RawLeaf| f.value.span().start <= span.start && span.end <= f.value.span().end;
            found.iter().find(inside).map(|f| dotted(&f.path))
        });
        fail(key.as_deref(), &e)
    })?;
    found
        .into_iter()
        .map(|f| {
            Ok(Leaf {
                value: Value::deserialize(ValueDeserializer::from(f.value))
                    .map_err(|e| fail(None, &e))?,
                origin: origin(f.at),
                path: f.path,
            })
        })
        .collect()
}

/// A leaf in the text, with the position of its key.
struct RawLeaf<'a> {
    path: Vec<String>,
    at: usize,
    value: Spanned<DeValue<'a>>,
}

fn collect<'a>(table: DeTable<'a>, path: &mut Vec<String>, found: &mut Vec<RawLeaf<'a>>) {
    for (key, value) in table {
        path.push(key.get_ref().to_string());
        let span = value.span();
        match value.into_inner() {
            DeValue::Table(inner) => collect(inner, path, found),
            value => found.push(RawLeaf {
                path: path.clone(),
                at: key.span().start,
                value: Spanned::new(span, value),
            }),
        }
        path.pop();
    }
}

/// Inserts a value, and creates the tables on its path.
pub(super) fn insert(table: &mut Table, path: &[String], value: Value) {
    let (Some(first), rest) = (path.first(), path.get(1..).unwrap_or_default()) else {
        return;
    };
    if rest.is_empty() {
        table.insert(first.clone(), value);
        return;
    }
    let inner = table
        .entry(first.clone())
        .or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(inner) = inner {
        insert(inner, rest, value);
    }
}

/// Converts an error of serde or TOML to user terms. The wrong value is not shown, because it may
/// be a misplaced secret.
fn explain(origin: &Origin, key: Option<&str>, error: &toml::de::Error) -> ConfigError {
    let message = error.message();
    let names = quoted(message);
    if let (Some(unknown), Some((found, known))) = (unknown_of(message), names.split_first()) {
        let subject = match (unknown, key) {
            (UnknownKey::Key, _) => format!("unknown key {found:?}"),
            (UnknownKey::Value, Some(key)) => format!("{key} cannot be {found:?}"),
            (UnknownKey::Value, None) => format!("unknown value {found:?}"),
        };
        let hint = match nearest(found, known) {
            Some(name) => format!("did you mean {name:?}?"),
            None => format!("one of {}", known.join(", ")),
        };
        return ConfigError::new(format!("{origin}: {subject}")).with_hint(hint);
    }
    let text = match (message.rsplit_once(", expected "), key) {
        (Some((_, expected)), Some(key)) => format!("{key} must be {}", plain(expected)),
        (Some((_, expected)), None) => format!("expected {}", plain(expected)),
        (None, _) => message.replace('\n', ", "),
    };
    ConfigError::new(format!("{origin}: {text}"))
}

enum UnknownKey {
    Key,
    Value,
}

/// Parses the wording of `serde::de::Error::unknown_field` and `unknown_variant`.
fn unknown_of(message: &str) -> Option<UnknownKey> {
    if message.starts_with("unknown field ") {
        Some(UnknownKey::Key)
    } else if message.starts_with("unknown variant ") {
        Some(UnknownKey::Value)
    } else {
        None
    }
}

/// Returns the texts between backticks.
fn quoted(message: &str) -> Vec<&str> {
    message.split('`').skip(1).step_by(2).collect()
}

/// Returns a plain name for one of Rust's types.
fn plain(expected: &str) -> &str {
    match expected {
        "u64" => "a whole number, 0 or more",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table",
        "path string" => "a path",
        "string or table" => "a string",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(text: &str) -> Result<Vec<Leaf>, ConfigError> {
        parse_layer(Path::new("/c.toml"), text)
    }

    #[test]
    fn as_many_keys_as_a_file_can_hold_have_their_lines() {
        let keys = 100_000;
        let headers = (0..keys).map(|key| format!("{key:x}=\"\"\n"));
        let text: String = ["[providers.a.headers]\n".to_string()]
            .into_iter()
            .chain(headers)
            .collect();
        let leaves = layer(&text).unwrap();
        assert_eq!(leaves.len(), keys);
        for leaf in leaves {
            let key = usize::from_str_radix(&leaf.path[3], 16).unwrap();
            let path = PathBuf::from("/c.toml");
            let line = key + 2;
            assert_eq!(leaf.origin, Origin::File { path, line });
        }
    }

    #[test]
    fn every_value_knows_its_line() {
        let text = "# one\nmodel = \"a/b\"\n\n[models.\"a/b\"]\ncontext_window = 9000\n[shell]\npass_env = [\n \"X\",\n]\n";
        let found: Vec<(String, String)> = layer(text)
            .unwrap()
            .iter()
            .map(|l| (dotted(&l.path), l.origin.to_string()))
            .collect();
        let want = [
            ("model", "/c.toml:2"),
            ("models.\"a/b\".context_window", "/c.toml:5"),
            ("shell.pass_env", "/c.toml:7"),
        ];
        assert_eq!(found, want.map(|(k, o)| (k.to_string(), o.to_string())));
    }

    #[test]
    fn errors_name_file_line_and_nearest_key() {
        let table = [
            (
                "\nmodle = \"a/b\"",
                "/c.toml:2: unknown key \"modle\"",
                Some("did you mean \"model\"?"),
            ),
            (
                "[context]\nkeeep = 3",
                "/c.toml:2: unknown key \"keeep\"",
                Some("did you mean \"keep\"?"),
            ),
            (
                "[log]\nqqq = 1",
                "/c.toml:2: unknown key \"qqq\"",
                Some("one of level"),
            ),
            (
                "max_turns = \"ten\"",
                "/c.toml:1: max_turns must be a whole number, 0 or more",
                None,
            ),
            (
                "max_turns = -1",
                "/c.toml:1: max_turns must be a whole number, 0 or more",
                None,
            ),
            (
                "[providers.x]\nheaders = \"Bearer sk-1\"",
                "/c.toml:2: providers.x.headers must be a table",
                None,
            ),
            (
                "[models.\"a/b\"]\ninput_price = \"x\"",
                "/c.toml:2: models.\"a/b\".input_price must be a number",
                None,
            ),
            (
                "[permissions]\nallow = \"Bash\"",
                "/c.toml:2: permissions.allow must be a list",
                None,
            ),
            (
                "permissions = 3",
                "/c.toml:1: permissions must be a table",
                None,
            ),
            (
                "\npermission_mode = \"plam\"",
                "/c.toml:2: permission_mode cannot be \"plam\"",
                Some("did you mean \"plan\"?"),
            ),
        ];
        for (text, message, hint) in table {
            let err = layer(text).unwrap_err();
            assert_eq!((err.to_string().as_str(), err.hint()), (message, hint));
        }
        let err = layer("model = \"a/b\"\nmax_turns 3")
            .unwrap_err()
            .to_string();
        assert!(err.starts_with("/c.toml:2: "), "{err}");
    }
}
