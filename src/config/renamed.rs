//! Config keys that were renamed. The old name stays valid, and a hint names the new one.
//!
//! A leaf has the written name until the layers are merged, because trust and the hash of a
//! server's definition apply to the text as written.

use toml::de::{DeTable, DeValue};
use toml::{Spanned, Value};

use super::origin::dotted;
use super::{Origin, Warning};

/// A key with an old and a new name. Both are in the same table.
struct Renamed {
    /// Parts of the dotted key. `*` matches any name.
    old: &'static [&'static str],
    /// Last part of the new key.
    new: &'static str,
    /// Conversion of a value from the old key to the new one.
    change: Change,
}

#[derive(Clone, Copy)]
enum Change {
    Unchanged,
    /// Multiplies by this factor, for another unit of time.
    Times(i64),
    /// Converts `"annotations"` to true and `"ask"` to false.
    IsAnnotations,
}

const RENAMED: [Renamed; 8] = [
    renamed(
        &["checkpoint_interval_secs"],
        "checkpoint_interval_sec",
        Change::Unchanged,
    ),
    renamed(&["notify", "after_s"], "after_sec", Change::Unchanged),
    renamed(&["context", "idle_minutes"], "idle_sec", Change::Times(60)),
    renamed(&["files", "time"], "snapshots", Change::Unchanged),
    renamed(
        &["files", "keep_days"],
        "keep_sec",
        Change::Times(24 * 3_600),
    ),
    renamed(&["agents", "max_minutes"], "max_sec", Change::Times(60)),
    renamed(
        &["mcp_servers", "*", "linger_s"],
        "idle_timeout_sec",
        Change::Unchanged,
    ),
    renamed(
        &["mcp_servers", "*", "trust"],
        "trust_annotations",
        Change::IsAnnotations,
    ),
];

const fn renamed(old: &'static [&'static str], new: &'static str, change: Change) -> Renamed {
    Renamed { old, new, change }
}

impl Renamed {
    fn of(path: &[String]) -> Option<&'static Renamed> {
        let is_part = |(part, name): (&&str, &String)| *part == "*" || part == name;
        RENAMED.iter().find(|renamed| {
            renamed.old.len() == path.len() && renamed.old.iter().zip(path).all(is_part)
        })
    }

    fn new_path(&self, path: &[String]) -> Vec<String> {
        let table = &path[..path.len().saturating_sub(1)];
        table
            .iter()
            .cloned()
            .chain([self.new.to_string()])
            .collect()
    }
}

/// Returns the new name of a key that is written with its old one.
pub(super) fn new_path(path: &[String]) -> Option<Vec<String>> {
    Renamed::of(path).map(|renamed| renamed.new_path(path))
}

/// Returns the value for the new key. Does not change a value that the schema refuses.
pub(super) fn new_value(path: &[String], value: Value) -> Value {
    let change = Renamed::of(path).map_or(Change::Unchanged, |renamed| renamed.change);
    match (change, value) {
        (Change::Times(factor), Value::Integer(number)) => {
            Value::Integer(number.saturating_mul(factor))
        }
        (Change::IsAnnotations, Value::String(word)) => match is_annotations(&word) {
            Some(is_annotations) => Value::Boolean(is_annotations),
            None => Value::String(word),
        },
        (_, value) => value,
    }
}

fn is_annotations(word: &str) -> Option<bool> {
    match word {
        "annotations" => Some(true),
        "ask" => Some(false),
        _ => None,
    }
}

/// Renames old keys of a document, so that the schema only needs the new names. Numbers are not
/// converted, because the schema checks only their type.
pub(super) fn rename_keys(document: &mut DeTable) {
    for renamed in &RENAMED {
        rename_below(document, renamed.old, renamed);
    }
}

fn rename_below(table: &mut DeTable, path: &[&str], renamed: &Renamed) {
    match path {
        [key] => {
            let Some((key, value)) = table.remove_entry(*key) else {
                return;
            };
            let span = value.span();
            let value = match (renamed.change, value.into_inner()) {
                (Change::IsAnnotations, DeValue::String(word)) => match is_annotations(&word) {
                    Some(is_annotations) => DeValue::Boolean(is_annotations),
                    None => DeValue::String(word),
                },
                (_, value) => value,
            };
            let key = Spanned::new(key.span(), renamed.new.into());
            table.insert(key, Spanned::new(span, value));
        }
        [first, rest @ ..] => {
            let inner = table.iter_mut().filter(|(key, _)| {
                let key: &str = key.get_ref();
                *first == "*" || *first == key
            });
            for (_, value) in inner {
                if let DeValue::Table(inner) = value.get_mut() {
                    rename_below(inner, rest, renamed);
                }
            }
        }
        [] => {}
    }
}

/// Returns the hint for a value that is written with the old name of its key.
pub(super) fn warning(path: &[String], value: &Value, origin: &Origin) -> Option<Warning> {
    let new = dotted(&new_path(path)?);
    Some(Warning {
        text: format!("{origin}: {} is the old name of {new}", dotted(path)),
        hint: Some(format!("write {new} = {}", new_value(path, value.clone()))),
    })
}

#[cfg(test)]
mod tests {
    use crate::config::testing::Fixture;
    use crate::config::{FilesInTime, Loaded};

    const OLD: &str = "checkpoint_interval_secs = 60\n\
        [notify]\nafter_s = 5\n\
        [context]\nidle_minutes = 2\n\
        [files]\ntime = \"off\"\nkeep_days = 3\n\
        [agents]\nmax_minutes = 4\n\
        [mcp_servers.a]\ncommand = \"a\"\nlinger_s = 6\ntrust = \"annotations\"\n";

    const NEW: &str = "checkpoint_interval_sec = 60\n\
        [notify]\nafter_sec = 5\n\
        [context]\nidle_sec = 120\n\
        [files]\nsnapshots = \"off\"\nkeep_sec = 259200\n\
        [agents]\nmax_sec = 240\n\
        [mcp_servers.a]\ncommand = \"a\"\nidle_timeout_sec = 6\ntrust_annotations = true\n";

    fn hints(f: &Fixture, loaded: &Loaded) -> Vec<String> {
        let all = loaded.warnings.iter().map(ToString::to_string);
        all.map(|text| f.short(&text)).collect()
    }

    #[test]
    fn an_old_key_means_what_its_new_one_means_and_a_hint_names_that() {
        let f = Fixture::new();
        f.user(NEW);
        let new = f.load(&[], &[]).unwrap();
        assert_eq!(hints(&f, &new), [""; 0]);
        f.user(OLD);
        let old = f.load(&[], &[]).unwrap();
        assert_eq!(old.config, new.config);
        assert_eq!(old.servers[0].server, new.servers[0].server);
        let keys = |loaded: &Loaded| {
            let keys = loaded.origins.iter().map(|(key, _)| key.to_string());
            keys.collect::<Vec<_>>()
        };
        assert_eq!(keys(&old), keys(&new));
        let mut said = hints(&f, &old);
        said.sort();
        assert_eq!(said.len(), 8);
        let is = |text: &str| assert!(said.iter().any(|said| said == text), "{said:?}");
        is(
            "config/config.toml:7: files.time is the old name of files.snapshots\nhint: write files.snapshots = \"off\"",
        );
        is(
            "config/config.toml:5: context.idle_minutes is the old name of context.idle_sec\n\
             hint: write context.idle_sec = 120",
        );
        is(
            "config/config.toml:14: mcp_servers.a.trust is the old name of \
             mcp_servers.a.trust_annotations\n\
             hint: write mcp_servers.a.trust_annotations = true",
        );
    }

    #[test]
    fn an_old_and_its_new_key_in_one_file_are_refused_with_both_places() {
        let f = Fixture::new();
        let table = [
            (
                "[files]\ntime = \"off\"\n\nsnapshots = \"on\"",
                "config/config.toml:2: files.time is the old name of files.snapshots, \
                 which is set in line 4",
            ),
            (
                "[mcp_servers.a]\ncommand = \"a\"\ntrust_annotations = false\ntrust = \"ask\"",
                "config/config.toml:4: mcp_servers.a.trust is the old name of \
                 mcp_servers.a.trust_annotations, which is set in line 3",
            ),
            (
                "agents = { max_minutes = 3,\n max_sec = 4 }",
                "config/config.toml:1: agents.max_minutes is the old name of agents.max_sec, \
                 which is set in line 2",
            ),
        ];
        for (text, message) in table {
            f.user(text);
            let error = f.load(&[], &[]).unwrap_err();
            assert_eq!(f.short(&error.to_string()), message);
            let old = message.split(' ').nth(1).unwrap();
            assert_eq!(error.hint(), Some(format!("remove {old}").as_str()));
        }
    }

    #[test]
    fn the_higher_layer_wins_whichever_name_it_has() {
        let f = Fixture::new();
        f.user("[context]\nidle_sec = 60");
        f.project("[context]\nidle_minutes = 2");
        let loaded = f.load(&[], &[]).unwrap();
        assert_eq!(loaded.config.context.idle_sec, 120);
        let origin = loaded.origins.of("context.idle_sec").to_string();
        assert_eq!(f.short(&origin), "root/.rewake/config.toml:2");
        f.user("[context]\nidle_minutes = 1");
        f.project("[context]\nidle_sec = 90");
        let loaded = f.load(&[], &[]).unwrap();
        assert_eq!(loaded.config.context.idle_sec, 90);
        let loaded = f.load(&[], &["context.idle_minutes=4"]).unwrap();
        assert_eq!(loaded.config.context.idle_sec, 240);
        assert!(
            hints(&f, &loaded)
                .contains(&"--set context.idle_minutes: context.idle_minutes is the old name of context.idle_sec\nhint: write context.idle_sec = 240".to_string())
        );
    }

    #[test]
    fn a_wrong_value_of_an_old_key_is_reported_with_the_name_that_was_written() {
        let f = Fixture::new();
        let table = [
            (
                "[files]\ntime = \"onn\"",
                ":2: files.time cannot be \"onn\"",
            ),
            (
                "[context]\nidle_minutes = \"long\"",
                ":2: context.idle_minutes must be a whole number, 0 or more",
            ),
            (
                "[context]\nidle_minutes = 0",
                ":2: context.idle_sec is 0, and must be from 1 to 604800",
            ),
            (
                "[mcp_servers.a]\ncommand = \"a\"\ntrust = \"all\"",
                ":3: mcp_servers.a.trust must be true or false",
            ),
            ("[files]\ntimes = \"on\"", ":2: unknown key \"times\""),
        ];
        for (text, message) in table {
            f.user(text);
            let error = f.load(&[], &[]).unwrap_err();
            let want = format!("config/config.toml{message}");
            assert_eq!(f.short(&error.to_string()), want);
            assert!(!error.hint().unwrap_or_default().contains("\"time\""));
        }
    }

    /// A folder that was trusted by an older version stays trusted.
    #[test]
    fn trust_is_bound_to_the_name_that_was_written() {
        let f = Fixture::new();
        f.project("[files]\ntime = \"off\"\n[mcp_servers.a]\ncommand = \"a\"\nlinger_s = 6");
        f.trust();
        let loaded = f.load(&[], &[]).unwrap();
        assert_eq!(loaded.config.files.snapshots, FilesInTime::Off);
        let key = loaded.project.content.keys.keys().next().unwrap();
        assert_eq!(key, "files.time");
        // The hash of the definition as the version before wrote it.
        let written = "command = \"a\"\nlinger_s = 6\n";
        let hash = blake3::hash(written.as_bytes()).to_hex().to_string();
        assert_eq!(loaded.servers[0].hash, hash);
        assert_eq!(hints(&f, &loaded).len(), 2);
    }
}
