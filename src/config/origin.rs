//! Where a value came from, as `rewake doctor` and errors say it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Where the value of a key was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    /// `line` from 1.
    File {
        path: PathBuf,
        line: usize,
    },
    /// The name of the variable.
    Env(String),
    /// A key that a person typed, in this file.
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

/// Dotted key -> origin, for every key that is not at its default. A permission rule has a
/// key of its own, for example `permissions.deny[0]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origins(pub(super) BTreeMap<String, Origin>);

impl Origins {
    /// Where the value of this dotted key came from. `Default` for keys that nobody set.
    pub fn of(&self, key: &str) -> &Origin {
        self.0.get(key).unwrap_or(&Origin::Default)
    }

    /// All keys that somebody set, each with its origin, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Origin)> {
        self.0.iter().map(|(key, origin)| (key.as_str(), origin))
    }

    /// The origin of `key`, or of the first key below it.
    pub(super) fn of_table(&self, key: &str) -> &Origin {
        let below = format!("{key}.");
        self.0
            .range(key.to_string()..)
            .take_while(|(k, _)| k.starts_with(key))
            .find(|(k, _)| *k == key || k.starts_with(&below))
            .map_or(&Origin::Default, |(_, origin)| origin)
    }
}

/// A dotted key as TOML writes it: what is not a bare key is quoted.
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
