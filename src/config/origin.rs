//! The origin of a value, as `rewake doctor` and errors show it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    /// `line` starts at 1.
    File {
        path: PathBuf,
        line: usize,
    },
    /// Name of the variable.
    Env(String),
    /// A stored key, in this file.
    Kept(PathBuf),
    /// The flag as typed, without its value.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Env(name) => write!(f, "environment variable {name}"),
            Origin::Kept(path) => write!(f, "the key kept in {}", path.display()),
            Origin::Flag(flag) => f.write_str(flag),
        }
    }
}

/// The origin of every key that is not at its default, by dotted key. Each permission rule has a
/// separate key, for example `permissions.deny[0]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origins(pub(super) BTreeMap<String, Origin>);

impl Origins {
    /// Returns the origin of the value of this dotted key, or `Default` for keys that are not set.
    pub fn of(&self, key: &str) -> &Origin {
        self.0.get(key).unwrap_or(&Origin::Default)
    }

    /// Returns all keys that are set, with their origins, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Origin)> {
        self.0.iter().map(|(key, origin)| (key.as_str(), origin))
    }

    /// Returns the origin of `key`, or of the first key below it.
    pub(super) fn of_table(&self, key: &str) -> &Origin {
        let below = format!("{key}.");
        self.0
            .range(key.to_string()..)
            .take_while(|(k, _)| k.starts_with(key))
            .find(|(k, _)| *k == key || k.starts_with(&below))
            .map_or(&Origin::Default, |(_, origin)| origin)
    }
}

/// Joins a dotted key in TOML syntax, with quotes where necessary.
pub(super) fn dotted<S: AsRef<str>>(path: &[S]) -> String {
    let bare = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    };
    path.iter()
        .map(|part| match part.as_ref() {
            part if bare(part) => part.to_string(),
            part => format!("{part:?}"),
        })
        .collect::<Vec<_>>()
        .join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_dotted_as_toml_writes_them() {
        assert_eq!(dotted(&["context", "keep"]), "context.keep");
        assert_eq!(dotted(&["models", "local/m"]), r#"models."local/m""#);
    }

    #[test]
    fn a_table_has_the_origin_of_what_is_in_it() {
        let origins = Origins(BTreeMap::from([
            ("providers.a".to_string(), Origin::Env("A".into())),
            ("providers.a-b.x".to_string(), Origin::Env("AB".into())),
            ("providers.b.x".to_string(), Origin::Env("B".into())),
        ]));
        assert_eq!(origins.of_table("providers.b"), &Origin::Env("B".into()));
        assert_eq!(origins.of_table("providers.a"), &Origin::Env("A".into()));
        assert_eq!(origins.of_table("providers.c"), &Origin::Default);
        assert_eq!(origins.of("providers.b"), &Origin::Default);
    }
}
