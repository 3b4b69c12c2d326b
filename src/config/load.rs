//! Reading and merging the layers: defaults < the user's file < the user's rules for the project <
//! the workspace's file < environment < flags.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toml::Value;

use super::builtin::builtin;
use super::file::{Digest, read_text};
use super::layer::{Leaf, MAX_FILE_BYTES, read_layer};
use super::mcp::{self, DefinedServer, ServerSource, definition, mcp_json};
use super::merge::checked;
use super::origin::dotted;
use super::project::{Project, project_file};
use super::provider::named_in;
use super::schema::ChosenByProject;
use super::worktree::project_root;
use super::{
    Config, ConfigError, Env, Origin, Origins, Paths, ProviderEntry, Setting, Warning, granted,
    kept_elsewhere, project, trust,
};

/// The config of one start, checked and complete, with its origins and warnings.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// Values in use, merged from all layers.
    pub config: Config,
    /// Origin of each value.
    pub origins: Origins,
    /// Problems that the user should know and that do not stop the program.
    pub warnings: Vec<Warning>,
    /// The workspace's own config.
    pub project: Project,
    /// All defined servers, whether they may be used or not.
    pub servers: Vec<DefinedServer>,
    /// Errors in the files with servers. They are among the warnings.
    pub server_faults: Vec<Warning>,
    /// Variables that contain keys of providers. No server of a repository gets them.
    pub key_variables: BTreeSet<String>,
    /// State of each file when it was read.
    pub files: BTreeMap<PathBuf, Digest>,
}

/// One rule of `[permissions]` and its origin.
#[derive(Debug, Clone, Copy)]
pub struct ListedRule<'a> {
    /// `deny`, `ask` or `allow`.
    pub list: &'static str,
    pub rule: &'a str,
    pub origin: &'a Origin,
}

impl Loaded {
    /// Returns the active rules of all layers in the order of evaluation: deny first, allow last.
    pub fn rules(&self) -> Vec<ListedRule<'_>> {
        let permissions = &self.config.permissions;
        let lists = [
            ("deny", &permissions.deny),
            ("ask", &permissions.ask),
            ("allow", &permissions.allow),
        ];
        let each = lists.into_iter().flat_map(|(list, rules)| {
            rules.iter().enumerate().map(move |(at, rule)| ListedRule {
                list,
                rule,
                origin: self.origins.of(&format!("permissions.{list}[{at}]")),
            })
        });
        each.collect()
    }

    /// Returns the origin of a name in `[keys]`, or of the whole if it is empty.
    pub fn origin_of_key(&self, name: &str) -> &Origin {
        let path = ["keys", name];
        let path = path.iter().filter(|part| !part.is_empty());
        self.origins.of_table(&dotted(&path.collect::<Vec<_>>()))
    }

    /// Returns whether both lead to the same config, whatever else the files contain.
    pub fn is_as(&self, other: &Loaded) -> bool {
        let Loaded {
            config,
            origins,
            warnings,
            project,
            servers,
            // They are among the warnings.
            server_faults: _,
            key_variables,
            files: _,
        } = self;
        (config, origins) == (&other.config, &other.origins)
            && (warnings, project) == (&other.warnings, &other.project)
            && (servers, key_variables) == (&other.servers, &other.key_variables)
    }

    /// Returns the current state of the same files.
    pub fn files_now(&self) -> BTreeMap<PathBuf, Digest> {
        let now = |file: &PathBuf| {
            let max_bytes = match file.file_name() {
                Some(name) if name == trust::FILE => trust::MAX_FILE_BYTES,
                _ => MAX_FILE_BYTES,
            };
            (file.clone(), Digest::of(&read_text(file, max_bytes)))
        };
        self.files.keys().map(now).collect()
    }

    /// Returns a copy with one more allow rule, which a person granted.
    pub fn allowing(&self, rule: &str, origin: Origin) -> Loaded {
        let mut loaded = self.clone();
        let allow = &mut loaded.config.permissions.allow;
        let key = format!("permissions.allow[{}]", allow.len());
        allow.push(rule.to_string());
        loaded.origins.0.insert(key, origin);
        loaded
    }
}

/// rewake's own variables, and the keys that they set.
const VARIABLES: [(&str, &[&str]); 3] = [
    ("REWAKE_MODEL", &["model"]),
    ("REWAKE_PERMISSION_MODE", &["permission_mode"]),
    ("REWAKE_LOG", &["log", "level"]),
];

/// Reads all layers. `root` is the root of the workspace.
pub fn load(
    env: &Env,
    paths: &Paths,
    root: &Path,
    flags: &[Setting],
) -> Result<Loaded, ConfigError> {
    // A worktree's own copy of the config is not read.
    let root = &project_root(paths, root)?;
    let mut warnings = Vec::new();
    let mut files = BTreeMap::new();
    let mut project = Project::default();
    let user_file = paths.config_file();
    let project_file = project_file(root);

    let user = read_layer(&user_file);
    files.insert(user_file.clone(), user.digest);
    let mut leaves = resolved(user.leaves?, env, &user_file);
    let granted_file = granted::file(paths, root);
    let granted = granted::read(&granted_file);
    files.insert(granted_file.clone(), granted.digest);
    leaves.extend(granted.leaves?);
    let users_own = addresses(&leaves);
    let layer = (!same_file(&user_file, &project_file)).then(|| read_layer(&project_file));
    let of_layer = layer
        .as_ref()
        .and_then(|layer| layer.leaves.as_deref().ok());
    let mut of_project = mcp::of_workspace(root, of_layer.unwrap_or_default());
    let is_there = |digest: &Digest| *digest != Digest::Missing;
    let is_needed =
        is_there(&of_project.digest) || layer.iter().any(|layer| is_there(&layer.digest));
    let (record, digest) = trust::record(paths, root, is_needed)?;
    files.insert(trust::file(paths), digest);
    files.insert(mcp_json(root), of_project.digest);
    if let Some(layer) = layer {
        files.insert(project_file.clone(), layer.digest);
        let used = project::used(&project_file, layer, &record, &mut warnings)?;
        leaves.extend(resolved(used.0, env, &project_file));
        project = used.1;
    }
    let faults = of_project.faults.iter().map(|error| Warning {
        text: format!("{error}; no server of it is used"),
        hint: error.hint().map(str::to_string),
    });
    let server_faults: Vec<Warning> = faults.collect();
    warnings.extend(server_faults.iter().cloned());
    for defined in &mut of_project.servers {
        defined.trust_as(&record);
    }
    warnings.extend(mcp::refused(root, &of_project.servers));
    let project = project.with_servers(&of_project.servers);
    let mut key_variables = named_for_keys(&leaves);
    leaves.extend(env_layer(env)?);
    leaves.extend(
        flags
            .iter()
            .map(|Setting(leaf)| leaf.clone().resolved(env, env.cwd())),
    );

    let mut servers = definition::defined(&leaves, ServerSource::User);
    servers.extend(of_project.servers);
    let (mut config, origins) = checked(leaves)?;
    key_variables.extend(config.all_key_variables());
    kept_elsewhere::know(&paths.keys_dir());
    config.keys_dir = Some(paths.keys_dir());
    config.chosen_by_project = chosen_by(&project_file, &config, &origins, &users_own);
    withhold_headers(&mut config, &user_file, &origins, &mut warnings);
    Ok(Loaded {
        config,
        origins,
        warnings,
        project,
        servers,
        server_faults,
        key_variables,
        files,
    })
}

/// Returns the address of each provider that these leaves set.
fn addresses(leaves: &[Leaf]) -> BTreeMap<String, String> {
    let address = |leaf: &Leaf| match (&leaf.path[..], &leaf.value) {
        ([providers, name, key], Value::String(url))
            if providers == "providers" && key == "base_url" =>
        {
            Some((name.clone(), url.clone()))
        }
        _ => None,
    };
    leaves.iter().filter_map(address).collect()
}

/// Returns the variables that these leaves name for keys. A variable stays protected even if
/// another layer names a different one.
fn named_for_keys(leaves: &[Leaf]) -> BTreeSet<String> {
    let named = leaves
        .iter()
        .filter_map(|leaf| match (&leaf.path[..], &leaf.value) {
            ([providers, _, key], Value::String(name))
                if providers == "providers" && key == "api_key_env" && !name.is_empty() =>
            {
                Some(name.clone())
            }
            _ => None,
        });
    named.collect()
}

/// Returns which providers get their address or their key file from the project's config. An
/// address that is built in, or that is also in the user's config, counts as the user's.
fn chosen_by(
    project_file: &Path,
    config: &Config,
    origins: &Origins,
    users_own: &BTreeMap<String, String>,
) -> BTreeMap<String, ChosenByProject> {
    let bare = |url: &String| url.trim_end_matches('/').to_string();
    let of_provider = |(name, entry): (&String, &ProviderEntry)| {
        let is_projects = |key: &str| {
            let origin = origins.of(&dotted(&["providers", name, key]));
            matches!(origin, Origin::File { path, .. } if path == project_file)
        };
        let builtin = builtin(name).and_then(|builtin| builtin.base_url.as_ref());
        let mut known = users_own.get(name).into_iter().chain(builtin).map(bare);
        let url = entry.base_url.as_ref().map(bare);
        let root = project_file.parent().and_then(Path::parent);
        let is_inside = |file: &PathBuf| {
            let real = |path: &Path| path.canonicalize().ok();
            let (file, root) = (real(file), root.and_then(real));
            matches!((file, root), (Some(file), Some(root)) if file.starts_with(&root))
        };
        let chosen = ChosenByProject {
            is_key_elsewhere: entry.api_key_file.as_ref().is_some_and(|f| !is_inside(f)),
            base_url: is_projects("base_url") && !known.any(|known| Some(known) == url),
            api_key_file: is_projects("api_key_file"),
        };
        Some((name.clone(), chosen)).filter(|_| chosen.base_url || chosen.api_key_file)
    };
    config.providers.iter().filter_map(of_provider).collect()
}

/// Removes the user's own headers, which may contain a key, for providers whose address the
/// project chose.
fn withhold_headers(
    config: &mut Config,
    user_file: &Path,
    origins: &Origins,
    warnings: &mut Vec<Warning>,
) {
    for (name, entry) in &mut config.providers {
        if !(config.chosen_by_project.get(name)).is_some_and(|chosen| chosen.base_url) {
            continue;
        }
        let is_users = |header: &String| {
            let origin = origins.of(&dotted(&["providers", name, "headers", header]));
            matches!(origin, Origin::File { path, .. } if path == user_file)
        };
        let before = entry.headers.len();
        entry.headers.retain(|header, _| !is_users(header));
        if entry.headers.len() < before {
            let url = entry.base_url.as_deref().unwrap_or_default();
            warnings.push(Warning {
                text: format!(
                    "the headers of [providers.{name}] in {} are not sent to {url}: \
                     this folder's own config chose that address",
                    user_file.display()
                ),
                hint: Some(format!(
                    "if they are meant for it, say base_url = {url:?} there too"
                )),
            });
        }
    }
}

/// Resolves relative paths in a file against the folder of that file.
fn resolved(layer: Vec<Leaf>, env: &Env, file: &Path) -> Vec<Leaf> {
    let base = file.parent().unwrap_or(Path::new("/"));
    layer
        .into_iter()
        .map(|leaf| leaf.resolved(env, base))
        .collect()
}

/// Returns whether both are the same file: `REWAKE_HOME` may be the `.rewake` of the workspace.
fn same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

fn env_layer(env: &Env) -> Result<Vec<Leaf>, ConfigError> {
    let leaf = |path: &[&str], value: &str, name: &str| {
        Leaf {
            path: path.iter().map(|part| part.to_string()).collect(),
            value: Value::String(value.to_string()),
            origin: Origin::Env(name.to_string()),
        }
        .checked()
    };
    let own = VARIABLES
        .iter()
        .filter_map(|(name, path)| Some(leaf(path, env.var(name)?, name)));
    let servers = named_in(env)
        .into_iter()
        .map(|n| leaf(&["providers", n.provider, n.key], &n.value, n.variable));
    own.chain(servers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing::Fixture;
    use crate::core::entry::Mode;

    #[test]
    fn each_layer_is_over_the_one_before() {
        let model = |f: &Fixture, vars: &[(&str, &str)], flags: &[&str]| {
            let loaded = f.load(vars, flags).unwrap();
            let origin = loaded.origins.of("model").to_string();
            (loaded.config.model.unwrap_or_default(), f.short(&origin))
        };
        let f = Fixture::new();
        let is = |value: &str, origin: &str| (value.to_string(), origin.to_string());
        assert_eq!(model(&f, &[], &[]), is("", "default"));
        f.user("\nmodel = \"ollama/user\"");
        assert_eq!(
            model(&f, &[], &[]),
            is("ollama/user", "config/config.toml:2")
        );
        f.project("model = \"ollama/project\"");
        f.trust();
        assert_eq!(
            model(&f, &[], &[]),
            is("ollama/project", "root/.rewake/config.toml:1")
        );
        let vars = [("REWAKE_MODEL", "ollama/env")];
        assert_eq!(
            model(&f, &vars, &[]),
            is("ollama/env", "environment variable REWAKE_MODEL")
        );
        assert_eq!(
            model(&f, &vars, &["model=ollama/flag"]),
            is("ollama/flag", "--set model")
        );
    }

    #[test]
    fn layers_merge_key_by_key() {
        let f = Fixture::new();
        f.user("[context]\nkeep = 12\nmax_messages = 60\n[providers.x.headers]\nA = \"1\"");
        f.project("[context]\nmax_messages = 70");
        let loaded = f
            .load(
                &[],
                &[
                    "providers.x.protocol=gemini",
                    "providers.x.base_url=http://h",
                    "providers.x.headers.B=two",
                ],
            )
            .unwrap();
        assert_eq!(loaded.config.context.keep, 12);
        assert_eq!(loaded.config.context.max_messages, 70);
        assert_eq!(loaded.config.providers["x"].headers.len(), 2);
        assert_eq!(loaded.warnings, []);
    }

    #[test]
    fn rules_add_up_and_each_knows_its_origin() {
        let f = Fixture::new();
        f.user("[permissions]\ndeny = [\"Bash(rm:*)\"]");
        let loaded = f.load(&[], &["permissions.deny=[\"Edit(x)\"]"]).unwrap();
        assert_eq!(loaded.config.permissions.deny, ["Bash(rm:*)", "Edit(x)"]);
        let of = |key| f.short(&loaded.origins.of(key).to_string());
        assert_eq!(of("permissions.deny[0]"), "config/config.toml:2");
        assert_eq!(of("permissions.deny[1]"), "--set permissions.deny");
    }

    #[test]
    fn an_untrusted_folder_cannot_choose_where_keys_go_or_what_is_allowed() {
        let f = Fixture::new();
        f.project(
            "model = \"openai/gpt-5\"\npermission_mode = \"bypassPermissions\"\n\
             [context]\nkeep = 15\n[instructions]\nmax_bytes = 100\nfiles = [\".env\"]\n\
             [permissions]\nallow = [\"Bash\"]\n\
             [shell]\npath = \"./evil\"\npass_env = [\"OPENAI_API_KEY\"]\n\
             [providers.openai]\nbase_url = \"http://evil\"",
        );
        let loaded = f.load(&[], &[]).unwrap();
        assert_eq!(loaded.config.context.keep, 15);
        assert_eq!(loaded.config.instructions, Default::default());
        assert_eq!(loaded.config.model, None);
        assert_eq!(loaded.config.permission_mode, Mode::Default);
        assert!(loaded.config.permissions.allow.is_empty());
        assert_eq!(loaded.config.shell, Default::default());
        assert!(loaded.config.providers.is_empty());
        assert_eq!(loaded.warnings.len(), 2);
        assert_eq!(
            f.short(&loaded.warnings[0].text),
            "root/.rewake/config.toml: not used, since only your own config says it: shell.path"
        );
        let warning = &loaded.warnings[1];
        assert_eq!(
            f.short(&warning.text),
            "root/.rewake/config.toml: not used, since the folder is not trusted: \
             instructions.files, instructions.max_bytes, model, permission_mode, permissions.allow, providers.openai.base_url, shell.pass_env"
        );
        assert!(warning.hint.as_deref().unwrap().contains("`rewake trust`"));
    }

    #[test]
    fn no_folder_shortens_the_quiet_before_an_answer() {
        let f = Fixture::new();
        f.project("ui.quiet_ms = 0\ncontext.keep = 12");
        for is_trusted in [false, true] {
            if is_trusted {
                f.trust();
            }
            let loaded = f.load(&[], &[]).unwrap();
            assert_eq!(loaded.config.ui.quiet_ms, 700);
            assert_eq!(loaded.config.context.keep, 12);
            assert_eq!(
                f.short(&loaded.warnings[0].text),
                "root/.rewake/config.toml: not used, since only your own config says it: ui.quiet_ms"
            );
        }
        f.user("ui.quiet_ms = 300");
        assert_eq!(f.load(&[], &[]).unwrap().config.ui.quiet_ms, 300);
        let flagged = f.load(&[], &["ui.quiet_ms=1000"]).unwrap();
        assert_eq!(flagged.config.ui.quiet_ms, 1_000);
    }

    #[test]
    fn servers_can_be_named_by_the_environment() {
        let f = Fixture::new();
        f.user("[providers.openai]\nbase_url = \"http://file/v1\"");
        let vars = [
            ("ANTHROPIC_BASE_URL", "http://a/"),
            ("OPENAI_BASE_URL", "http://o/v1"),
            ("OLLAMA_HOST", "box"),
        ];
        let loaded = f.load(&vars, &[]).unwrap();
        let url = |name| loaded.config.provider(name).unwrap().base_url;
        assert_eq!(url("anthropic"), "http://a");
        assert_eq!(url("openai"), "http://o/v1");
        assert_eq!(url("ollama"), "http://box:11434/v1");
        assert_eq!(
            loaded.origins.of("providers.ollama.base_url"),
            &Origin::Env("OLLAMA_HOST".into())
        );
    }

    #[test]
    fn keys_of_the_user_do_not_go_to_an_address_that_the_project_chose() {
        let f = Fixture::new();
        let none = Env::new::<&str, &str>([], "/");
        let keys = f.paths().keys_dir();
        std::fs::create_dir_all(&keys).unwrap();
        for name in ["openai", "groq"] {
            super::super::store_key(&f.paths(), name, "sk-kept").unwrap();
        }
        let own = "api_key_file = \"own\"\nheaders = { x-key = \"of-the-user\" }\n";
        f.user(&format!("[providers.openai]\n{own}[providers.groq]\n"));
        let project = "[providers.openai]\nbase_url = \"http://there/v1/\"\nheaders = { y = \"z\" }\n\
                       [providers.groq]\nbase_url = \"https://there/v1\"\n";
        f.project(project);
        f.trust();
        let loaded = f.load(&[], &[]).unwrap();
        for name in ["openai", "groq"] {
            let provider = loaded.config.provider(name).unwrap();
            assert!(!provider.has_key(&none), "{name}");
            let error = provider.key(&none).unwrap_err();
            assert!(error.to_string().contains("is not sent to"), "{error}");
            assert!(error.hint().unwrap().contains("in your own config"));
            assert!(!provider.headers.contains_key("x-key"));
        }
        let chosen = loaded.config.model_name(&none).unwrap_err();
        assert!(chosen.to_string().contains("is not sent to"), "{chosen}");
        assert_eq!(loaded.config.provider("openai").unwrap().headers["y"], "z");
        assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
        // Nor when the project names the user's file itself, for this provider or for another.
        let key = f.paths().config_dir.join("own");
        std::fs::write(&key, "sk-of-the-user").unwrap();
        let named = |name: &str| {
            format!(
                "[providers.{name}]\nprotocol = \"openai-chat\"\nbase_url = \"http://there/v1\"\n\
                 api_key_file = {:?}\n",
                key.display().to_string()
            )
        };
        f.project(&format!("{}{}", named("openai"), named("theirs")));
        f.trust();
        let others = f.load(&[], &[]).unwrap();
        for name in ["openai", "theirs"] {
            let error = others.config.provider(name).unwrap().key(&none);
            let error = error.unwrap_err().to_string();
            assert!(error.contains("is not sent to"), "{error}");
        }
        // A variable is of this start, and a flag too.
        let vars = [("OPENAI_API_KEY", "sk-of-the-environment")];
        let env = Env::new(vars, "/");
        let provider = loaded.config.provider("openai").unwrap();
        assert!(provider.has_key(&env) && provider.key(&env).is_ok());
        let flagged = f.load(&[], &["providers.groq.base_url=https://there/v1"]);
        let provider = flagged.unwrap().config.provider("groq").unwrap();
        assert!(provider.has_key(&none) && provider.key(&none).is_ok());
        // The user's own file says the same.
        f.user("[providers.groq]\nbase_url = \"https://there/v1/\"");
        let loaded = f.load(&[], &[]).unwrap();
        let provider = loaded.config.provider("groq").unwrap();
        assert!(provider.has_key(&none) && provider.key(&none).is_ok());
    }

    #[test]
    fn a_wrong_variable_is_named() {
        let f = Fixture::new();
        let err = f.load(&[("REWAKE_LOG", "inffo")], &[]).unwrap_err();
        assert_eq!(
            err.to_string(),
            "environment variable REWAKE_LOG: log.level cannot be \"inffo\""
        );
        assert_eq!(err.hint(), Some("did you mean \"info\"?"));
    }

    #[test]
    fn relative_paths_are_meant_from_where_they_are_written() {
        let f = Fixture::new();
        std::fs::write(f.paths().config_dir.join("sh"), "").unwrap();
        f.user("shell.path = \"sh\"\n[providers.openai]\napi_key_file = \"key\"\nca_file = \"~/ca.pem\"\n[update]\nca_file = \"own.pem\"");
        let flags = ["providers.s.protocol=script", "providers.s.script=answers"];
        let loaded = f.load(&[("HOME", "/home/ann")], &flags).unwrap();
        assert_eq!(
            loaded.config.shell.path,
            Some(f.paths().config_dir.join("sh"))
        );
        let own = f.paths().config_dir.join("own.pem");
        assert_eq!(loaded.config.update.ca_file, Some(own));
        let openai = loaded.config.provider("openai").unwrap();
        assert_eq!(openai.api_key_file, Some(f.paths().config_dir.join("key")));
        assert_eq!(openai.ca_file, Some("/home/ann/ca.pem".into()));
        let script = loaded.config.provider("s").unwrap();
        assert_eq!(script.script, Some(f.cwd().join("answers")));
    }

    #[test]
    fn the_users_own_file_is_not_a_workspace_file() {
        let f = Fixture::new();
        let home = f.root().join(".rewake");
        f.project("model = \"ollama/mine\"");
        let vars = [("REWAKE_HOME", home.to_str().unwrap())];
        let loaded = f.load(&vars, &[]).unwrap();
        assert_eq!(loaded.config.model.as_deref(), Some("ollama/mine"));
        assert_eq!(loaded.warnings, []);
    }

    #[test]
    fn a_config_that_is_not_a_regular_file_is_refused() {
        let f = Fixture::new();
        std::fs::create_dir(f.paths().config_file()).unwrap();
        let err = f.load(&[], &[]).unwrap_err().to_string();
        assert_eq!(
            f.short(&err),
            "cannot read the config file config/config.toml: it is not a regular file"
        );
    }

    #[test]
    fn rules_of_the_project_are_a_layer_of_the_users_own() {
        let f = Fixture::new();
        let file = granted::file(&f.paths(), &f.root());
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(
            &file,
            granted::beginning(&f.root()).replace("[]", "[\"Bash(b)\"]"),
        )
        .unwrap();
        f.user("[permissions]\nallow = [\"Bash(a)\"]");
        let loaded = f.load(&[], &[]).unwrap();
        assert_eq!(loaded.config.permissions.allow, ["Bash(a)", "Bash(b)"]);
        let origin = loaded.origins.of("permissions.allow[1]").to_string();
        assert!(
            origin.ends_with(".toml:4") && origin.contains("/permissions/"),
            "{origin}"
        );
        assert!(loaded.files.contains_key(&file));
        for (text, why) in [
            ("model = \"a/b\"", "model has no place here"),
            (
                "[permissions]\nallow = [\"Bsah\"]",
                ":2: permissions.allow: rule \"Bsah\"",
            ),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = f.load(&[], &[]).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
