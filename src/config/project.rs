//! The workspace's own config, `.rewake/config.toml`: the parts that are used, and those that need
//! trust. Each server of the workspace, there or in `.mcp.json`, is trusted separately.
//!
//! Trust is bound to the content. The person trusted keys with their values. Later changes, for
//! example by `git pull`, are not used until they are trusted too. Comments and keys that need no
//! trust may change.
//!
//! Invariant: a file that is not trusted stops nothing. What is wrong with it is a warning.
//! Invariant: the bytes that are hashed are the bytes that are parsed; a file is read once.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::Value;

use super::file::Digest;
use super::layer::{Layer, Leaf};
use super::mcp::{self, DefinedServer, ServerSource, ServerTrusted};
use super::merge::checked;
use super::origin::dotted;
use super::trusted::Record;
use super::{ConfigError, Warning};
use crate::core::access::Access;

/// The beginning of a line about hooks and servers where no sandbox can be used.
pub const NO_SANDBOX: &str = "no sandbox on this machine";

/// Maximum number of keys that a warning names.
const MAX_NAMED: usize = 10;

/// Maximum length of a value in a warning.
const MAX_SHOWN_CHARS: usize = 60;

/// Returns the path of the file.
pub fn project_file(root: &Path) -> PathBuf {
    root.join(".rewake/config.toml")
}

/// Returns whether a folder may set this key before it is trusted. Such keys cannot run a command,
/// send anything anywhere, or replace an approval. The names of the instruction files are
/// excluded: they could name a file that a rule denies to read. Their size is excluded too: it
/// could hide the user's own file.
fn is_harmless(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    matches!(path[..], ["context", ..] | ["theme"])
}

/// Returns whether only the user's own file and flags may set this key, even in a trusted folder.
/// These keys choose the user's keys, protect against accidental ones, start the user's programs, open a private network to
/// pages, send data to a collector, contact the release server, use the
/// shared database, turn off the sandbox, or name the shell: a command could rewrite one in the
/// workspace, and it also runs what the user types.
fn is_user_only(leaf: &Leaf) -> bool {
    let path: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
    match path[..] {
        ["shell", "path"] => true,
        ["sandbox", "enabled"] => leaf.value == Value::Boolean(false),
        [first, ..] => matches!(
            first,
            "ui" | "editor" | "keys" | "notify" | "web" | "telemetry" | "update" | "fleet"
        ),
        [] => false,
    }
}

/// The parts of a workspace's own config that need trust, as they were read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    /// Hash of the whole file: blake3 in hex, empty if there is none.
    pub file: String,
    /// Values by dotted key.
    pub keys: BTreeMap<String, TrustedValue>,
    /// Servers that the folder defines, by source and name.
    pub servers: BTreeMap<(ServerSource, String), TrustedValue>,
}

/// A value in a workspace's own config that needs trust.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrustedValue {
    /// Hash of the value as TOML: blake3 in hex.
    pub hash: String,
    /// The complete value as text, one line per array element, without anything that may be
    /// secret.
    pub shown: String,
    /// Access in the sandbox of a server that runs a program. `None` for everything else.
    pub access: Option<Access>,
}

impl Content {
    pub(super) fn of(digest: &Digest, leaves: &[Leaf]) -> Content {
        let needs_trust = |leaf: &&Leaf| {
            let path = &leaf.path;
            !is_harmless(path) && !is_user_only(leaf) && !mcp::is_server(path)
        };
        let needing = leaves.iter().filter(needs_trust);
        let keys = needing.map(|leaf| {
            let hash = blake3::hash(leaf.value.to_string().as_bytes());
            let shown = if leaf.path.iter().any(|part| part == "headers") {
                "…".to_string()
            } else {
                shown(&leaf.value)
            };
            let hash = hash.to_hex().to_string();
            let access = None;
            let value = TrustedValue {
                hash,
                shown,
                access,
            };
            (dotted(&leaf.path), value)
        });
        Content {
            file: digest.hex(),
            keys: keys.collect(),
            servers: BTreeMap::new(),
        }
    }

    /// Adds the servers that the folder defines. Invalid ones cannot be trusted.
    pub(super) fn with_servers(mut self, servers: &[DefinedServer]) -> Content {
        let given = |defined: &DefinedServer| {
            let server = defined.server.as_ref().ok()?;
            let given = TrustedValue {
                hash: defined.hash.clone(),
                shown: shown_server(defined, server),
                access: defined.granted_access(),
            };
            Some(((defined.source, defined.name.clone()), given))
        };
        self.servers = servers.iter().filter_map(given).collect();
        self
    }

    /// Returns the files with this content, from the root of the workspace.
    pub fn files(&self) -> Vec<&'static str> {
        let sources = self.servers.keys().map(|(source, _)| *source);
        let config = (!self.keys.is_empty()).then_some(ServerSource::Project);
        let mut sources: Vec<ServerSource> = sources.chain(config).collect();
        sources.sort();
        sources.dedup();
        sources.into_iter().rev().map(ServerSource::name).collect()
    }

    /// Returns each server, then `key = value` for each key, most important first, and the number
    /// of further ones.
    pub fn lines(&self, most: usize) -> Vec<String> {
        let servers = self.servers.iter();
        let servers = servers.map(|((source, name), given)| {
            format!("{}: {}", server_key(*source, name), given.shown)
        });
        let mut all: Vec<(&String, &TrustedValue)> = self.keys.iter().collect();
        all.sort_by_key(|(key, _)| weight(key));
        let lines = all.iter();
        let lines = lines.map(|(key, given)| format!("{key} = {}", given.shown));
        some(servers.chain(lines), self.servers.len() + all.len(), most)
    }
}

/// Returns the definition of a server, and its access in the sandbox.
fn shown_server(defined: &DefinedServer, server: &mcp::McpServer) -> String {
    let shown = mcp::shown(server);
    match defined.granted_access() {
        Some(access) => format!("{shown}\n  access in the sandbox: {access}"),
        None => shown,
    }
}

/// Returns the name of a server in the list of a folder's settings.
fn server_key(source: ServerSource, name: &str) -> String {
    format!("server {name} ({source})")
}

/// Returns the position of a key in the list. Keys that allow, run or send something come first,
/// so that they are not cut off.
fn weight(key: &str) -> usize {
    const FIRST: [&str; 4] = ["permission", "shell", "check", "providers"];
    let place = FIRST.iter().position(|start| key.starts_with(start));
    place.unwrap_or(FIRST.len())
}

/// Returns the complete value as text, since a person decides whether to trust it. Each element of
/// an array has a separate line. `Debug` makes control characters and characters without a width
/// visible.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(values) if values.len() > 1 => {
            let values: Vec<String> = values.iter().map(inline).collect();
            format!("[\n  {}\n]", values.join(",\n  "))
        }
        other => inline(other),
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(inline).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Table(table) => {
            let entry = |(key, value): (&String, &Value)| format!("{key:?} = {}", inline(value));
            let entries: Vec<String> = table.iter().map(entry).collect();
            format!("{{{}}}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// Returns a short form of a value, on one line, for a warning.
fn short(shown: &str) -> String {
    let text = shown.replace("[\n  ", "[").replace("\n  ", " ");
    let text = text.replace("\n]", "]");
    if text.chars().count() > MAX_SHOWN_CHARS {
        text.chars()
            .take(MAX_SHOWN_CHARS - 1)
            .chain(['…'])
            .collect()
    } else {
        text
    }
}

/// Returns the first items and the number of the others.
fn some(items: impl Iterator<Item = String>, count: usize, most: usize) -> Vec<String> {
    let mut some: Vec<String> = items.take(most).collect();
    if count > most {
        some.push(format!("{} more", count - most));
    }
    some
}

/// The trust in a workspace's own config.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ProjectTrust {
    /// The folder is not trusted.
    #[default]
    Untrusted,
    /// All content that needs trust is trusted.
    Trusted,
    /// The content differs from the trusted one.
    Changed(Vec<Difference>),
}

/// A difference between a workspace's own config and the trusted content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The dotted key.
    pub key: String,
    /// Current value. `None` if the key was removed.
    pub shown: Option<String>,
    /// `changed`, `new` or `gone`.
    pub how: &'static str,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shown {
            Some(shown) => write!(f, "{} = {shown} ({})", self.key, self.how),
            None => write!(f, "{} ({})", self.key, self.how),
        }
    }
}

impl ProjectTrust {
    pub(super) fn of(record: &Record, content: &Content) -> ProjectTrust {
        let trusted = match record {
            Record::None => return ProjectTrust::Untrusted,
            Record::Bound(trusted) => trusted,
        };
        let new = content.keys.iter().filter_map(|(key, given)| {
            let how = match trusted.keys.get(key) {
                Some(hash) if *hash == given.hash => return None,
                Some(_) => "changed",
                None => "new",
            };
            let (key, shown) = (key.clone(), Some(given.shown.clone()));
            Some(Difference { key, shown, how })
        });
        let gone = trusted.keys.keys();
        let gone = gone.filter(|key| !content.keys.contains_key(*key));
        let gone = gone.map(|key| Difference {
            key: key.clone(),
            shown: None,
            how: "gone",
        });
        let mut differences: Vec<Difference> = new.chain(gone).collect();
        differences.sort_by_key(|difference| weight(&difference.key));
        if differences.is_empty() {
            ProjectTrust::Trusted
        } else {
            ProjectTrust::Changed(differences)
        }
    }
}

/// The workspace's own config and its trust.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Project {
    /// Parts that need trust.
    pub content: Content,
    pub standing: ProjectTrust,
    /// Error because of which none of it is used.
    pub broken: Option<ConfigError>,
    /// Servers of the folder that differ from the trusted ones.
    pub servers: Vec<Difference>,
    /// The sandbox cannot be used on this machine, or is turned off.
    pub has_no_sandbox: bool,
}

impl Project {
    /// Returns whether the user should be asked about it.
    pub fn needs_trust(&self) -> bool {
        (self.standing != ProjectTrust::Trusted && !self.content.keys.is_empty())
            || !self.servers.is_empty()
    }

    /// Returns a line for the question of trust, if servers would run without a sandbox.
    pub fn sandbox_line(&self) -> Option<String> {
        let mut servers = self.content.servers.values();
        let is_told = self.has_no_sandbox && servers.any(|server| server.access.is_some());
        is_told.then(|| format!("{NO_SANDBOX}: its servers run with all your rights"))
    }

    /// Returns the differences from the trusted content. Empty if it was never trusted, or is
    /// completely trusted.
    pub fn differences(&self) -> Vec<&Difference> {
        let of_keys = match &self.standing {
            ProjectTrust::Changed(differences) => &differences[..],
            ProjectTrust::Trusted => &[],
            ProjectTrust::Untrusted => return Vec::new(),
        };
        self.servers.iter().chain(of_keys).collect()
    }

    /// Adds the servers that differ from the trusted ones.
    pub(super) fn with_servers(mut self, servers: &[DefinedServer]) -> Project {
        let difference = |defined: &DefinedServer| {
            let how = match defined.trusted {
                ServerTrusted::Yes => return None,
                ServerTrusted::No | ServerTrusted::New => "new",
                ServerTrusted::Changed => "changed",
            };
            let server = defined.server.as_ref().ok()?;
            Some(Difference {
                key: server_key(defined.source, &defined.name),
                shown: Some(shown_server(defined, server)),
                how,
            })
        };
        self.servers = servers.iter().filter_map(difference).collect();
        self.content = self.content.with_servers(servers);
        self
    }
}

/// Returns the part of the layer that is used, and warnings about the rest.
pub(super) fn used(
    file: &Path,
    layer: Layer,
    record: &Record,
    warnings: &mut Vec<Warning>,
) -> Result<(Vec<Leaf>, Project), ConfigError> {
    let leaves = match layer.leaves {
        Ok(leaves) => leaves,
        Err(error) if record.is_of(&layer.digest) => return Err(error),
        Err(error) => {
            warnings.push(unusable(&error));
            let broken = Some(error);
            return Ok((
                Vec::new(),
                Project {
                    broken,
                    ..Project::default()
                },
            ));
        }
    };
    let content = Content::of(&layer.digest, &leaves);
    // Servers are not merged from two files: see `super::mcp`.
    let leaves = leaves.into_iter();
    let leaves = leaves.filter(|leaf| !mcp::is_server(&leaf.path));
    let (own, leaves): (Vec<Leaf>, Vec<Leaf>) = leaves.partition(is_user_only);
    if let Some(leaf) = own.first() {
        let key = dotted(&leaf.path);
        warnings.push(Warning {
            text: format!(
                "{}: not used, since only your own config says it: {key}",
                file.display()
            ),
            hint: None,
        });
    }
    let mut project = Project {
        standing: ProjectTrust::of(record, &content),
        content,
        ..Project::default()
    };
    if project.standing == ProjectTrust::Trusted {
        return Ok((leaves, project));
    }
    let harmless = leaves.into_iter().filter(|leaf| is_harmless(&leaf.path));
    let mut harmless: Vec<Leaf> = harmless.collect();
    if let Err(error) = checked(harmless.clone()) {
        warnings.push(unusable(&error));
        harmless.clear();
        project.broken = Some(error);
    }
    warnings.extend(not_used(file, &project));
    Ok((harmless, project))
}

fn unusable(error: &ConfigError) -> Warning {
    Warning {
        text: format!("{error}; the file is not used, and is not trusted"),
        hint: error.hint().map(str::to_string),
    }
}

fn not_used(file: &Path, project: &Project) -> Option<Warning> {
    let keys = &project.content.keys;
    let names = || some(keys.keys().cloned(), keys.len(), MAX_NAMED);
    let (why, what, hint) = match &project.standing {
        ProjectTrust::Trusted => return None,
        ProjectTrust::Changed(differences) => {
            let all = differences.iter().map(|difference| {
                let shown = difference.shown.as_deref().map(short);
                let key = difference.key.clone();
                Difference {
                    key,
                    shown,
                    ..*difference
                }
                .to_string()
            });
            (
                "it changed since it was trusted",
                some(all, differences.len(), MAX_NAMED),
                "`rewake trust` trusts it as it is now",
            )
        }
        _ if keys.is_empty() => return None,
        ProjectTrust::Untrusted => (
            "the folder is not trusted",
            names(),
            "`rewake trust` trusts the folder",
        ),
    };
    Some(Warning {
        text: format!(
            "{}: not used, since {why}: {}",
            file.display(),
            what.join(", ")
        ),
        hint: Some(hint.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use crate::config::testing::Fixture;
    use crate::config::{ProjectTrust, trust};

    /// Returns the warnings of the next start, without the temporary folder.
    fn warnings(f: &Fixture) -> Vec<String> {
        let loaded = f.load(&[], &[]).unwrap();
        loaded.warnings.iter().map(|w| f.short(&w.text)).collect()
    }

    const GREEDY: &str =
        "[permissions]\nallow = [\"Bash\"]\n[providers.openai]\nbase_url = \"http://evil\"\n";

    #[test]
    fn a_project_config_changed_since_trust_is_listed_and_not_used() {
        let f = Fixture::new();
        f.project("model = \"ollama/a\"\nmax_turns = 3\n[permissions]\ndeny = [\"Edit\"]\n");
        f.trust();
        assert_eq!(f.load(&[], &[]).unwrap().config.max_turns, Some(3));
        f.project(&format!("model = \"ollama/b\"\nmax_turns = 3\n{GREEDY}"));
        let loaded = f.load(&[], &[]).unwrap();
        assert_eq!(loaded.config.model, None);
        assert_eq!(loaded.config.max_turns, None);
        assert!(loaded.config.permissions.allow.is_empty());
        assert!(loaded.config.providers.is_empty());
        assert_eq!(
            warnings(&f),
            [
                "root/.rewake/config.toml: not used, since it changed since it was trusted: \
              permissions.allow = [\"Bash\"] (new), permissions.deny (gone), \
              providers.openai.base_url = \"http://evil\" (new), model = \"ollama/b\" (changed)"
            ]
        );
        assert!(
            loaded.warnings[0]
                .hint
                .as_deref()
                .unwrap()
                .contains("`rewake trust`")
        );
        f.trust();
        assert_eq!(f.load(&[], &[]).unwrap().config.permissions.allow, ["Bash"]);
        assert!(warnings(&f).is_empty());
    }

    #[test]
    fn content_to_trust_is_shown_in_full_with_an_element_per_line() {
        let f = Fixture::new();
        let address = format!("http://{}.evil", "a".repeat(200));
        let rule = format!("Bash({}; rm)", "b".repeat(200));
        let rules = vec![format!("{rule:?}"); 100].join(", ");
        f.project(&format!(
            "[permissions]\nallow = [{rules}]\n[providers.openai]\nbase_url = {address:?}\n"
        ));
        let loaded = f.load(&[], &[]).unwrap();
        let lines = loaded.project.content.lines(usize::MAX).join("\n");
        let said: Vec<&str> = lines.lines().collect();
        assert_eq!(said[0], "permissions.allow = [");
        assert_eq!(said[1], format!("  {rule:?},"));
        assert_eq!(said[100], format!("  {rule:?}"));
        assert_eq!(said[101], "]");
        assert_eq!(
            said[102],
            format!("providers.openai.base_url = {address:?}")
        );
        // A warning decides nothing: it stays short.
        f.trust();
        f.project(&format!("[permissions]\nallow = [{rules}, \"Bash\"]\n"));
        let warning = &warnings(&f)[0];
        assert!(warning.len() < 500 && !warning.contains('\n'), "{warning}");
    }

    #[test]
    fn settings_that_need_no_trust_can_change_after_trust() {
        let f = Fixture::new();
        f.project("max_turns = 3\n");
        f.trust();
        f.project("# a comment\ntheme = \"light\"\nmax_turns = 3\n[context]\nkeep = 12\n");
        let loaded = f.load(&[], &[]).unwrap();
        assert_eq!(
            (loaded.config.max_turns, loaded.config.context.keep),
            (Some(3), 12)
        );
        assert!(warnings(&f).is_empty());
    }

    #[test]
    fn rules_of_a_removed_project_config_are_reported_as_gone() {
        let f = Fixture::new();
        f.project("[permissions]\ndeny = [\"Bash(rm:*)\"]\n");
        f.trust();
        std::fs::remove_file(f.root().join(".rewake/config.toml")).unwrap();
        assert!(
            warnings(&f)[0].ends_with("permissions.deny (gone)"),
            "{:?}",
            warnings(&f)
        );
    }

    #[test]
    fn a_folder_without_content_is_untrusted_and_nothing_else_is_lost() {
        let f = Fixture::new();
        f.project("max_turns = 3\n");
        let root = f.root().canonicalize().unwrap();
        let file = f.paths().config_dir.join("trusted.toml");
        let old = format!(
            "[folders]\n\"/another\" = \"2026-01-01T00:00:00Z\"\n{:?} = \"2026-01-01T00:00:00Z\"\n\
             [declined]\n\"/third\" = \"2026-01-01T00:00:00Z\"\n",
            root.to_str().unwrap()
        );
        std::fs::write(&file, old).unwrap();
        let loaded = f.load(&[], &[]).unwrap();
        assert_eq!(
            (loaded.config.max_turns, &loaded.project.standing),
            (None, &ProjectTrust::Untrusted)
        );
        assert_eq!(
            warnings(&f),
            ["root/.rewake/config.toml: not used, since the folder is not trusted: max_turns"]
        );
        f.trust();
        assert_eq!(f.load(&[], &[]).unwrap().config.max_turns, Some(3));
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            text.contains("\"/another\"") && text.contains("\"/third\""),
            "{text}"
        );
        assert!(trust::untrust(&f.paths(), &f.root()).unwrap());
        assert_eq!(
            f.load(&[], &[]).unwrap().project.standing,
            ProjectTrust::Untrusted
        );
    }

    #[test]
    fn values_are_short_and_marked_and_secrets_are_not_shown() {
        let f = Fixture::new();
        f.project("max_turns = 3\n");
        f.trust();
        let long = "x".repeat(200);
        f.project(&format!(
            "model = \"a\\u001b]0;x\\u0007\\u202eb/c\"\nsummary_model = \"{long}/m\"\n\
             [providers.x.headers]\nAuthorization = \"Bearer sk-1\"\n"
        ));
        let said = warnings(&f)[0].clone();
        assert!(
            !said.chars().any(|c| c.is_control() || c == '\u{202e}'),
            "{said:?}"
        );
        assert!(said.contains("\\u{1b}]0;x\\u{7}\\u{202e}b"), "{said}");
        assert!(!said.contains("sk-1") && said.contains("providers.x.headers.Authorization = …"));
        assert!(!said.contains(&"x".repeat(60)), "{said}");
    }

    #[test]
    fn errors_in_an_untrusted_project_config_are_only_warnings() {
        let f = Fixture::new();
        f.user("max_turns = 7");
        for (text, message, hint) in [
            (
                "# c\nmodle = \"a/b\"",
                ":2: unknown key \"modle\"",
                Some("did you mean \"model\"?"),
            ),
            (
                "max_turns = \"ten\"",
                ":1: max_turns must be a whole number, 0 or more",
                None,
            ),
            ("[context]\nkeep = 12\nmax_turns 3", ":3: ", None),
            (
                "[context]\nkeep = 99",
                ":2: context.keep is 99, and must be from 10 to 15",
                None,
            ),
            ("theme = 3", ":1: theme must be a string", None),
        ] {
            f.project(text);
            let loaded = f.load(&[], &[]).unwrap();
            let default = crate::config::Config::default().context.keep;
            assert_eq!(
                (loaded.config.max_turns, loaded.config.context.keep),
                (Some(7), default)
            );
            let [warning] = &loaded.warnings[..] else {
                panic!("{:?}", loaded.warnings);
            };
            let said = f.short(&warning.text);
            assert!(
                said.starts_with(&format!("root/.rewake/config.toml{message}")),
                "{said}"
            );
            assert!(
                said.ends_with("; the file is not used, and is not trusted"),
                "{said}"
            );
            assert_eq!(warning.hint.as_deref(), hint);
            assert!(loaded.project.broken.is_some());
        }
    }

    #[test]
    fn a_large_or_irregular_project_config_only_causes_a_warning() {
        let f = Fixture::new();
        f.project("");
        let file = f.root().join(".rewake/config.toml");
        let says = |what: &str| {
            let said = warnings(&f);
            assert!(
                said.len() == 1 && said[0].contains(what),
                "{what}: {said:?}"
            );
            if file.symlink_metadata().unwrap().is_dir() {
                std::fs::remove_dir(&file).unwrap();
            } else {
                std::fs::remove_file(&file).unwrap();
            }
        };
        std::fs::write(&file, "#".repeat(1024 * 1024 + 1)).unwrap();
        says("it is larger than 1048576 bytes");
        std::fs::write(&file, b"\xff\xfe").unwrap();
        says("it is not UTF-8 text");
        for target in ["/dev/zero", "/dev/tty", "/"] {
            std::os::unix::fs::symlink(target, &file).unwrap();
            says("cannot read the config file");
        }
        let made = std::process::Command::new("mkfifo").arg(&file).status();
        assert!(made.unwrap().success());
        says("it is not a regular file");
        std::fs::create_dir(&file).unwrap();
        says("it is not a regular file");
    }

    #[test]
    fn an_error_in_a_trusted_project_config_fails_the_load() {
        let f = Fixture::new();
        f.project("max_turns = 0\n");
        f.trust();
        let error = f.load(&[], &[]).unwrap_err().to_string();
        assert!(error.contains("max_turns is 0"), "{error}");
        f.project("max_turnz = 1\n");
        assert!(
            trust::content(&f.paths(), &f.root()).is_err(),
            "a file with an error cannot be trusted"
        );
    }
}
