//! Every key of the config with its type and its default.
//!
//! One set of types serves the file and the program: the layers are merged as values
//! (`super::load`), and what is in none of them is taken from the `Default` here. What a
//! value may be is in `super::check`. `config.example.toml` says the same to the user; a
//! test keeps the two equal.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

use super::mcp::McpServer;
use super::{Env, Protocol};
use crate::core::choice::Effort;
use crate::core::entry::Mode;
use crate::core::summary::Fallback;
use crate::core::window::Strategy;

/// The whole config. `config.example.toml` says what each key means.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Config {
    /// `provider/model`. None: [`Config::model_name`] chooses by the keys that exist.
    pub model: Option<String>,
    /// `provider/model` for summaries. None: the model itself.
    pub summary_model: Option<String>,
    /// What runs without asking in a new session.
    pub permission_mode: Mode,
    /// Seconds between two checkpoints while something changes.
    pub checkpoint_interval_sec: u64,
    /// None: the model's own limit.
    pub max_output_tokens: Option<u64>,
    /// `provider/model`, asked in this order when the model is overloaded or not reached.
    pub fallback_model: Vec<String>,
    /// How hard models are to think. None: as each sees fit.
    pub effort: Option<Effort>,
    /// None: as each model's server sees fit.
    pub temperature: Option<f64>,
    /// Model calls for one prompt. None: no limit.
    pub max_turns: Option<u64>,
    /// None: the model does not think, or decides itself.
    pub thinking_budget_tokens: Option<u64>,
    /// A result over so many bytes is kept whole, and sent as head and tail.
    pub inline_max_bytes: u64,
    /// Of the terminal screen: a built-in name, or a file in `themes` of the config folder.
    pub theme: String,
    pub ui: UiConfig,
    pub notify: NotifyConfig,
    pub context: ContextConfig,
    pub permissions: PermissionsConfig,
    pub shell: ShellConfig,
    pub sandbox: SandboxConfig,
    pub instructions: InstructionsConfig,
    pub retry: RetryConfig,
    pub store: StoreConfig,
    pub files: FilesConfig,
    pub agents: AgentsConfig,
    pub log: LogConfig,
    /// What the user says of providers. [`Config::provider`] gives the whole of one.
    pub providers: BTreeMap<String, ProviderEntry>,
    /// Those of the user's own config and of flags. [`super::mcp::find`] gives those that may run.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// By `provider/model`.
    pub models: BTreeMap<String, ModelFigures>,
    /// Where keys lie that a person typed. No file says it.
    #[serde(skip)]
    pub keys_dir: Option<PathBuf>,
    /// By provider: what of it the workspace's own config says, and the user's own does not.
    #[serde(skip)]
    pub chosen_by_project: BTreeMap<String, ChosenByProject>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            model: None,
            summary_model: None,
            permission_mode: Mode::Default,
            checkpoint_interval_sec: 600,
            max_output_tokens: None,
            fallback_model: Vec::new(),
            effort: None,
            temperature: None,
            max_turns: None,
            thinking_budget_tokens: None,
            inline_max_bytes: 16 * 1024,
            theme: "auto".to_string(),
            ui: UiConfig::default(),
            notify: NotifyConfig::default(),
            context: ContextConfig::default(),
            permissions: PermissionsConfig::default(),
            shell: ShellConfig::default(),
            sandbox: SandboxConfig::default(),
            instructions: InstructionsConfig::default(),
            retry: RetryConfig::default(),
            store: StoreConfig::default(),
            files: FilesConfig::default(),
            agents: AgentsConfig::default(),
            log: LogConfig::default(),
            providers: BTreeMap::new(),
            mcp_servers: BTreeMap::new(),
            models: BTreeMap::new(),
            keys_dir: None,
            chosen_by_project: BTreeMap::new(),
        }
    }
}

/// The keyboard and the mouse. Only the user's own file and flags count here.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct UiConfig {
    /// A question is answered only after no key was pressed for so long.
    pub quiet_ms: u64,
    /// The wheel scrolls and a click folds. Without it the mouse is the terminal's own.
    pub mouse: bool,
}

impl Default for UiConfig {
    fn default() -> UiConfig {
        UiConfig {
            quiet_ms: 700,
            mouse: true,
        }
    }
}

/// How a person who looks elsewhere is called. Only the user's own file and flags count here.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct NotifyConfig {
    pub on: Vec<NotifyOn>,
    /// Work that was done sooner, seconds, is not worth a call.
    pub after_sec: u64,
    pub method: NotifyMethod,
    /// A program and its arguments; the text comes behind them. Empty: none.
    pub command: Vec<String>,
}

impl Default for NotifyConfig {
    fn default() -> NotifyConfig {
        NotifyConfig {
            on: vec![NotifyOn::Approval, NotifyOn::Done, NotifyOn::Failed],
            after_sec: 10,
            method: NotifyMethod::Auto,
            command: Vec::new(),
        }
    }
}

/// What a person is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(rename_all = "snake_case")]
pub enum NotifyOn {
    /// It asks.
    Approval,
    /// What was to be done is done.
    Done,
    /// It cannot go on.
    Failed,
}

impl NotifyOn {
    /// As the config writes it.
    pub fn name(self) -> &'static str {
        match self {
            NotifyOn::Approval => "approval",
            NotifyOn::Done => "done",
            NotifyOn::Failed => "failed",
        }
    }
}

/// How the terminal is asked to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(rename_all = "snake_case")]
pub enum NotifyMethod {
    /// As it is known to take it, else the bell.
    Auto,
    Osc9,
    Osc777,
    Osc99,
    Bell,
    None,
}

/// When the context is summarised, and how.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct ContextConfig {
    pub strategy: Strategy,
    /// Messages that stay in full after a compaction by `messages`.
    pub keep: u64,
    /// With `messages`: a summary is made at so many messages.
    pub max_messages: u64,
    /// With `tokens`: a summary is made at so many tokens at the latest.
    pub max_tokens: u64,
    /// With `minutes`: a compaction after a pause of this many seconds.
    pub idle_sec: u64,
    pub summary_max_tokens: u64,
    pub fallback: Fallback,
    /// A new session is told how the last one of its workspace ended.
    pub cross_session: bool,
}

impl Default for ContextConfig {
    fn default() -> ContextConfig {
        ContextConfig {
            strategy: Strategy::Tokens,
            keep: 10,
            max_messages: 50,
            max_tokens: 120_000,
            idle_sec: 1_800,
            summary_max_tokens: 500,
            fallback: Fallback::Digest,
            cross_session: true,
        }
    }
}

/// Rules as written, all layers together. `crate::core::policy` reads them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct PermissionsConfig {
    pub allow: Vec<String>,
    pub ask: Vec<String>,
    pub deny: Vec<String>,
}

/// How commands are run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct ShellConfig {
    /// None: [`ShellConfig::program`] looks for one.
    pub path: Option<PathBuf>,
    /// The time limit of a command that names none itself, milliseconds.
    pub timeout_ms: u64,
    /// How many bytes of the head of a command's output are kept.
    pub output_cap_bytes: u64,
    /// Names of variables that hold keys and are given to commands all the same.
    pub pass_env: Vec<String>,
}

impl Default for ShellConfig {
    fn default() -> ShellConfig {
        ShellConfig {
            path: None,
            timeout_ms: 600_000,
            output_cap_bytes: 8 * 1024 * 1024,
            pass_env: Vec::new(),
        }
    }
}

impl ShellConfig {
    /// The configured shell, else the first `bash` in `PATH`, else `/bin/sh`.
    pub fn program(&self, env: &Env) -> PathBuf {
        if let Some(path) = &self.path {
            return path.clone();
        }
        env.var_os("PATH")
            .into_iter()
            .flat_map(std::env::split_paths)
            .filter(|dir| dir.is_absolute())
            .map(|dir| dir.join("bash"))
            .find(|bash| bash.is_file())
            .unwrap_or_else(|| PathBuf::from("/bin/sh"))
    }
}

/// What a command may do, as the system itself keeps it (`crate::sandbox`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct SandboxConfig {
    pub enabled: SandboxUse,
    /// Further folders that commands may read.
    pub read: Vec<PathBuf>,
    /// Further folders that commands may write from level `workspace` on.
    pub write: Vec<PathBuf>,
}

/// `"auto"`, `true` or `false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(try_from = "SandboxWritten")]
#[cfg_attr(test, serde(into = "SandboxWritten"))]
pub enum SandboxUse {
    /// Where the system has one.
    #[default]
    Auto,
    /// Always: where there is none, commands below level `full` do not run.
    Always,
    Never,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(untagged, expecting = "\"auto\", true or false")]
enum SandboxWritten {
    Switch(bool),
    Word(String),
}

impl TryFrom<SandboxWritten> for SandboxUse {
    type Error = String;

    fn try_from(written: SandboxWritten) -> Result<SandboxUse, String> {
        match written {
            SandboxWritten::Switch(true) => Ok(SandboxUse::Always),
            SandboxWritten::Switch(false) => Ok(SandboxUse::Never),
            SandboxWritten::Word(word) if word == "auto" => Ok(SandboxUse::Auto),
            SandboxWritten::Word(word) => {
                Err(format!("{word:?} is neither \"auto\" nor true nor false"))
            }
        }
    }
}

#[cfg(test)]
impl From<SandboxUse> for SandboxWritten {
    fn from(sandbox: SandboxUse) -> SandboxWritten {
        match sandbox {
            SandboxUse::Auto => SandboxWritten::Word("auto".to_string()),
            SandboxUse::Always => SandboxWritten::Switch(true),
            SandboxUse::Never => SandboxWritten::Switch(false),
        }
    }
}

/// Which instruction files are read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct InstructionsConfig {
    /// File names that are read in each folder of the chain.
    pub files: Vec<String>,
    /// File names of which the first is read where there is none of `files`.
    pub fallback: Vec<String>,
    /// For all files together. 0: none are read.
    pub max_bytes: u64,
}

impl Default for InstructionsConfig {
    fn default() -> InstructionsConfig {
        InstructionsConfig {
            files: vec!["AGENTS.md".to_string()],
            fallback: vec!["CLAUDE.md".to_string()],
            max_bytes: 32 * 1024,
        }
    }
}

/// How a model call that failed is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct RetryConfig {
    /// Tries of one model call in all.
    pub tries: u64,
    /// The first pause, milliseconds. Each next one is twice as long.
    pub base_ms: u64,
    /// The longest pause, milliseconds.
    pub cap_ms: u64,
    /// In all, for limits by time.
    pub max_wait_ms: u64,
}

impl Default for RetryConfig {
    fn default() -> RetryConfig {
        RetryConfig {
            tries: 6,
            base_ms: 1_000,
            cap_ms: 60_000,
            max_wait_ms: 600_000,
        }
    }
}

/// How sessions are kept besides the database.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct StoreConfig {
    /// Each session a second time, as plain files.
    pub journal: bool,
    /// Empty: `journal` in the data folder.
    pub journal_dir: PathBuf,
    /// Time between two syncs of the journal.
    pub journal_sync_ms: u64,
    /// Whether the data folder may lie on a file system that several machines share.
    pub network: NetworkUse,
}

/// See [`StoreConfig::network`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum NetworkUse {
    #[default]
    Refuse,
    Allow,
}

impl Default for StoreConfig {
    fn default() -> StoreConfig {
        StoreConfig {
            journal: true,
            journal_dir: PathBuf::new(),
            journal_sync_ms: 1_000,
            network: NetworkUse::Refuse,
        }
    }
}

/// What is kept of the workspace's files around effects.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct FilesConfig {
    pub snapshots: FilesInTime,
    /// In a workspace with more files, only what file tools write is kept.
    pub max_files: u64,
    /// A larger file is named, and its content is not kept.
    pub max_file_bytes: u64,
    /// For all workspaces, as stored. Beyond it nothing more is kept.
    pub max_bytes: u64,
    /// `rewake gc` keeps the snapshots of sessions that were used in this many seconds.
    pub keep_sec: u64,
    /// An effect waits so long for what the files are before it, milliseconds.
    pub wait_ms: u64,
    /// Whether the kernel is asked to tell what changed.
    pub watch: FilesWatch,
    /// Globs of ignored files that are covered all the same.
    pub include: Vec<String>,
    /// Globs of files that are not covered.
    pub exclude: Vec<String>,
}

impl Default for FilesConfig {
    fn default() -> FilesConfig {
        FilesConfig {
            snapshots: FilesInTime::On,
            max_files: 200_000,
            max_file_bytes: 8 * 1024 * 1024,
            max_bytes: 2 * 1024 * 1024 * 1024,
            keep_sec: 30 * 24 * 3_600,
            wait_ms: 3_000,
            watch: FilesWatch::Auto,
            include: Vec::new(),
            exclude: Vec::new(),
        }
    }
}

/// Which files are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum FilesInTime {
    /// All that are not ignored.
    On,
    /// Those that file tools write.
    Tools,
    Off,
}

/// Whether the kernel tells what changed, or every look is at all files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum FilesWatch {
    /// Where that can be relied on.
    Auto,
    Off,
}

/// How far a sub-agent may go.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct AgentsConfig {
    /// The model can give tasks to sub-agents.
    pub enabled: bool,
    /// Answers of its model for one task.
    pub max_turns: u64,
    /// Seconds that it works for one task, all its starts together.
    pub max_sec: u64,
    /// Tokens of its requests and answers for one task. `None`: no limit.
    pub max_tokens: Option<u64>,
}

impl Default for AgentsConfig {
    fn default() -> AgentsConfig {
        AgentsConfig {
            enabled: true,
            max_turns: 50,
            max_sec: 3_600,
            max_tokens: None,
        }
    }
}

/// What is written into the log file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct LogConfig {
    pub level: LogLevel,
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig {
            level: LogLevel::Info,
        }
    }
}

/// The least important messages that are written into the log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// The level's name as it is written in the config.
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Off => "off",
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }
}

/// `[providers.NAME]` as written: over a provider that is built in, or a new one.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct ProviderEntry {
    pub protocol: Option<Protocol>,
    pub base_url: Option<String>,
    /// For providers that have one in their address (azure).
    pub api_version: Option<String>,
    /// The name of the variable that holds the key. Empty: the server wants none.
    pub api_key_env: Option<String>,
    pub api_key_file: Option<PathBuf>,
    pub headers: BTreeMap<String, String>,
    /// Silence after which a stream counts as cut.
    pub idle_timeout_ms: Option<u64>,
    /// Time without a word of the answer, once it began, after which a stream counts as cut.
    pub progress_timeout_ms: Option<u64>,
    /// From the request to the last byte of its answer.
    pub answer_timeout_ms: Option<u64>,
    /// Certificates in PEM that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
    /// The answers that protocol `script` plays.
    pub script: Option<PathBuf>,
}

/// Which of a provider's keys that decide who gets a secret come from the workspace's own config.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChosenByProject {
    /// And it is neither the address that is built in, nor one of the user's own config.
    pub base_url: bool,
    pub api_key_file: bool,
    /// That file does not lie in the workspace.
    pub is_key_elsewhere: bool,
}

/// Headers by name alone: their values may be secrets.
impl fmt::Debug for ProviderEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderEntry")
            .field("protocol", &self.protocol)
            .field("base_url", &self.base_url)
            .field("headers", &self.headers.keys())
            .finish_non_exhaustive()
    }
}

/// `[models."provider/model"]`: over what is known of the model. Prices are in US dollars
/// for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct ModelFigures {
    /// Tokens.
    pub context_window: Option<u64>,
    /// Tokens.
    pub max_output: Option<u64>,
    pub input_price: Option<f64>,
    pub cached_price: Option<f64>,
    pub cache_write_price: Option<f64>,
    pub output_price: Option<f64>,
    /// How hard it is to think.
    pub effort: Option<Effort>,
    pub temperature: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_is_the_configured_one_or_the_first_bash_in_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = format!("relative:/nowhere:{}", dir.path().display());
        let env = Env::new([("PATH", path)], "/");
        let mut shell = ShellConfig::default();
        assert_eq!(shell.program(&env), PathBuf::from("/bin/sh"));
        std::fs::write(dir.path().join("bash"), "").unwrap();
        assert_eq!(shell.program(&env), dir.path().join("bash"));
        shell.path = Some("/bin/dash".into());
        assert_eq!(shell.program(&env), PathBuf::from("/bin/dash"));
    }
}
