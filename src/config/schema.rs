//! All keys of the config with their types and defaults.
//!
//! The file and the program use the same types. The layers are merged as values (`super::load`),
//! and missing values are taken from the `Default` here. Valid values are in `super::check`.
//! `config.example.toml` documents the keys for the user, and a test compares both.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use jiff::civil::Date;
use serde::Deserialize;

use super::mcp::McpServer;
use super::{Env, Protocol};
use crate::core::choice::Effort;
use crate::core::entry::Mode;
use crate::core::summary::Fallback;
use crate::core::window::Strategy;

/// The whole config. `config.example.toml` documents each key.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Config {
    /// `provider/model`. `None`: [`Config::model_name`] chooses one by the existing keys.
    pub model: Option<String>,
    /// `provider/model` for summaries. `None`: the session's model.
    pub summary_model: Option<String>,
    /// Permission mode of a new session.
    pub permission_mode: Mode,
    /// Seconds between two checkpoints while files change.
    pub checkpoint_interval_sec: u64,
    /// `None`: the model's own limit.
    pub max_output_tokens: Option<u64>,
    /// Models to use, in this order, when the model is overloaded or unreachable, as
    /// `provider/model`.
    pub fallback_model: Vec<String>,
    /// Effort of the models. `None`: each model's default.
    pub effort: Option<Effort>,
    /// `None`: the default of each model's server.
    pub temperature: Option<f64>,
    /// Maximum number of model calls for one prompt. `None`: no limit.
    pub max_turns: Option<u64>,
    /// A model that repeats the same calls with the same results is told so, and then stopped.
    pub loop_guard: bool,
    /// `None`: the model does not think, or decides itself.
    pub thinking_budget_tokens: Option<u64>,
    /// Size in bytes above which a result is stored completely, but sent as head and tail.
    pub inline_max_bytes: u64,
    /// Theme of the terminal screen: a built-in name, or a file in `themes` of the config folder.
    pub theme: String,
    pub ui: UiConfig,
    pub editor: EditorConfig,
    #[cfg_attr(test, serde(skip_serializing))]
    pub keys: KeysConfig,
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
    pub web: WebConfig,
    /// Commands that run after the model changed files.
    #[cfg_attr(test, serde(skip_serializing_if = "Vec::is_empty"))]
    pub check: Vec<CheckConfig>,
    pub telemetry: TelemetryConfig,
    pub update: UpdateConfig,
    pub fleet: FleetConfig,
    pub log: LogConfig,
    /// Settings of providers. [`Config::provider`] returns the complete settings of one.
    pub providers: BTreeMap<String, ProviderEntry>,
    /// Servers of the user's own config and of flags. [`super::mcp::find`] returns those that may
    /// run.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// Figures of models, by `provider/model`.
    pub models: BTreeMap<String, ModelFigures>,
    /// Folder of the keys that the user typed. It cannot be set in a file.
    #[serde(skip)]
    pub keys_dir: Option<PathBuf>,
    /// By provider: settings that come from the workspace's own config and not from the user's.
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
            loop_guard: true,
            thinking_budget_tokens: None,
            inline_max_bytes: 16 * 1024,
            theme: "auto".to_string(),
            ui: UiConfig::default(),
            editor: EditorConfig::default(),
            keys: KeysConfig::default(),
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
            web: WebConfig::default(),
            check: Vec::new(),
            telemetry: TelemetryConfig::default(),
            update: UpdateConfig::default(),
            fleet: FleetConfig::default(),
            log: LogConfig::default(),
            providers: BTreeMap::new(),
            mcp_servers: BTreeMap::new(),
            models: BTreeMap::new(),
            keys_dir: None,
            chosen_by_project: BTreeMap::new(),
        }
    }
}

/// Keyboard and mouse. Only the user's own file and flags apply.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct UiConfig {
    /// Time without a key press before a question accepts an answer.
    pub quiet_ms: u64,
    /// The wheel scrolls and a click folds. If false, the terminal handles the mouse.
    pub mouse: bool,
    /// The text that stays in the terminal when the screen is left.
    pub scrollback: Scrollback,
    /// A shell command that prints a status line. It reads the state of the session as JSON. Empty:
    /// there is none.
    pub status_command: String,
}

/// The text that is printed to the terminal's scrollback when the screen is left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(rename_all = "lowercase")]
pub enum Scrollback {
    /// The conversation since the start.
    #[default]
    Conversation,
    /// Its last two screens.
    Screens,
    None,
}

impl Default for UiConfig {
    fn default() -> UiConfig {
        UiConfig {
            quiet_ms: 700,
            mouse: true,
            scrollback: Scrollback::default(),
            status_command: String::new(),
        }
    }
}

/// The input box. Only the user's own file and flags apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct EditorConfig {
    pub mode: EditorMode,
}

/// The keys in the input box.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(rename_all = "snake_case")]
pub enum EditorMode {
    #[default]
    Default,
    Vim,
}

/// `[keys]` as written. `crate::ui::keys` reads it, so that a wrong key is only a warning. Anything but a
/// table is stored without a name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "toml::Value")]
pub struct KeysConfig(pub BTreeMap<String, toml::Value>);

impl From<toml::Value> for KeysConfig {
    fn from(value: toml::Value) -> KeysConfig {
        KeysConfig(match value {
            toml::Value::Table(table) => table.into_iter().collect(),
            other => BTreeMap::from([(String::new(), other)]),
        })
    }
}

/// Notifications for a person who looks elsewhere. Only the user's own file and flags apply.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct NotifyConfig {
    pub on: Vec<NotifyOn>,
    /// Minimum duration of the work, seconds. Shorter work does not notify.
    pub after_sec: u64,
    pub method: NotifyMethod,
    /// A program and its arguments. The text is added as the last argument. Empty: no program.
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

/// An event that notifies the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(rename_all = "snake_case")]
pub enum NotifyOn {
    /// The session asks a question.
    Approval,
    /// The task is done.
    Done,
    /// The session cannot continue.
    Failed,
}

impl NotifyOn {
    /// Returns the name in the config.
    pub fn name(self) -> &'static str {
        match self {
            NotifyOn::Approval => "approval",
            NotifyOn::Done => "done",
            NotifyOn::Failed => "failed",
        }
    }
}

/// The way in which the terminal notifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(rename_all = "snake_case")]
pub enum NotifyMethod {
    /// A notification if the terminal is known to support it, else the bell.
    Auto,
    Osc9,
    Osc777,
    Osc99,
    Bell,
    None,
}

/// Settings of compaction.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct ContextConfig {
    pub strategy: Strategy,
    /// Messages that stay complete after a compaction by `messages`.
    pub keep: u64,
    /// With `messages`: number of messages that triggers a summary.
    pub max_messages: u64,
    /// With `tokens`: number of tokens that triggers a summary at the latest.
    pub max_tokens: u64,
    /// With `minutes`: length of the pause that triggers a compaction, seconds.
    pub idle_sec: u64,
    pub summary_max_tokens: u64,
    pub fallback: Fallback,
    /// A new session gets a note on how the last one of its workspace ended.
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

/// Settings of commands.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct ShellConfig {
    /// `None`: [`ShellConfig::program`] searches for one.
    pub path: Option<PathBuf>,
    /// Time limit of a command that names none itself, milliseconds.
    pub timeout_ms: u64,
    /// Number of bytes at the beginning of a command's output that are stored.
    pub output_cap_bytes: u64,
    /// Names of variables that contain keys and are nevertheless passed to commands.
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
    /// Returns the configured shell, else the first `bash` in `PATH`, else `/bin/sh`.
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

/// The limits that the sandbox enforces on commands (`crate::sandbox`).
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
    /// If the system supports it.
    #[default]
    Auto,
    /// Always. Without support, commands below level `full` do not run.
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

/// Settings of instruction files.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct InstructionsConfig {
    /// Names of the files that are read in each folder of the chain.
    pub files: Vec<String>,
    /// Alternative names. If a folder has none of `files`, the first of these is read.
    pub fallback: Vec<String>,
    /// Maximum size of all files together. 0: no file is read.
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

/// Retries of failed model calls.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct RetryConfig {
    /// Maximum number of tries of one model call.
    pub tries: u64,
    /// The first pause, milliseconds. Each next one is twice as long.
    pub base_ms: u64,
    /// The longest pause, milliseconds.
    pub cap_ms: u64,
    /// Maximum total wait for rate limits.
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

/// Storage of sessions besides the database.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct StoreConfig {
    /// Whether a second copy of each session is stored as plain files.
    pub journal: bool,
    /// Empty: `journal` in the data folder.
    pub journal_dir: PathBuf,
    /// Time between two syncs of the journal.
    pub journal_sync_ms: u64,
    /// Whether the data folder may be on a network file system.
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

/// Snapshots of the workspace's files around changes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct FilesConfig {
    pub snapshots: FilesInTime,
    /// In a workspace with more files, snapshots contain only the files that file tools write.
    pub max_files: u64,
    /// Maximum size of a file. The content of a larger one is not stored.
    pub max_file_bytes: u64,
    /// Maximum stored size for all workspaces. Above it, no more content is stored.
    pub max_bytes: u64,
    /// Age in seconds up to which `rewake gc` keeps the snapshots of unused sessions.
    pub keep_sec: u64,
    /// Time that an effect waits for the snapshot before it, milliseconds.
    pub wait_ms: u64,
    /// Whether the kernel is asked to report changes.
    pub watch: FilesWatch,
    /// Globs of ignored files that are covered nevertheless.
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

/// The files in snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum FilesInTime {
    /// All files that are not ignored.
    On,
    /// Files that file tools write.
    Tools,
    Off,
}

/// Whether the kernel reports changes, or each scan covers all files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum FilesWatch {
    /// If the kernel's reports are reliable there.
    Auto,
    Off,
}

/// Limits of subagents.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct AgentsConfig {
    /// The model can start subagents.
    pub enabled: bool,
    /// Maximum number of answers of the subagent's model for one task.
    pub max_turns: u64,
    /// Maximum working time for one task, seconds, all its starts together.
    pub max_sec: u64,
    /// Maximum number of tokens in its requests and answers for one task. `None`: no limit.
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

/// Pages of the web. Only the user's own file and flags apply.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct WebConfig {
    /// The model can fetch pages.
    pub enabled: bool,
    /// `HOST:PORT` of servers in a private network that it may reach.
    pub private: Vec<String>,
    /// Address of the search page of a SearXNG server.
    pub search_url: Option<String>,
}

impl WebConfig {
    /// Returns the address for searches. `None`: the model cannot search.
    pub fn search(&self) -> Option<&str> {
        self.search_url.as_deref().filter(|_| self.enabled)
    }
}

impl Default for WebConfig {
    fn default() -> WebConfig {
        WebConfig {
            enabled: true,
            private: Vec::new(),
            search_url: None,
        }
    }
}

/// A command that runs after the model changed files that it matches.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct CheckConfig {
    /// A glob for paths below the root of the workspace. Without `/` it is for names of files.
    pub files: String,
    pub command: String,
    #[serde(default = "check_timeout_sec")]
    pub timeout_sec: u64,
    /// `None`: its command.
    pub name: Option<String>,
}

fn check_timeout_sec() -> u64 {
    60
}

/// Traces and metrics for an OpenTelemetry collector. Only the user's own file and flags apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct TelemetryConfig {
    /// They are sent, as the variables `OTEL_*` say.
    pub enabled: bool,
    /// Prompts, answers, arguments and results are sent too.
    pub contents: bool,
}

/// Updates of the program. Only the user's own file and flags apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct UpdateConfig {
    /// Ask the release server once a day for a newer version.
    pub check: bool,
    /// Certificates (PEM) of the release server that are trusted besides those of the system.
    #[cfg_attr(test, serde(skip_serializing))]
    pub ca_file: Option<PathBuf>,
}

/// The database of shared sessions. Only the user's own file and flags apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct FleetConfig {
    /// `postgresql://USER@HOST:PORT/DATABASE`.
    #[cfg_attr(test, serde(skip_serializing))]
    pub url: Option<String>,
    /// Variable with the address. It takes precedence.
    #[cfg_attr(test, serde(skip_serializing))]
    pub url_env: Option<String>,
    /// Certificates (PEM) of the server that are trusted besides those of the system.
    #[cfg_attr(test, serde(skip_serializing))]
    pub ca_file: Option<PathBuf>,
    /// Database roles whose `rewake allow --shared` counts here.
    pub approvers: Vec<String>,
    /// Repositories of tasks. `*` at the end stands for the rest of the path.
    pub repos: Vec<String>,
    /// Command for fresh clones, run in the sandbox with the network. It may run again.
    #[cfg_attr(test, serde(skip_serializing))]
    pub setup: Option<String>,
}

/// Content of the log file.
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

/// The minimum level of messages in the log file.
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
    /// Returns the level's name in the config.
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

/// `[providers.NAME]` as written: changes to a built-in provider, or a new one.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct ProviderEntry {
    pub protocol: Option<Protocol>,
    pub base_url: Option<String>,
    /// API version, for providers with a version in their address (Azure).
    pub api_version: Option<String>,
    /// Name of the variable with the key. Empty: the server requires none.
    pub api_key_env: Option<String>,
    pub api_key_file: Option<PathBuf>,
    pub headers: BTreeMap<String, String>,
    /// Time of silence after which a stream counts as broken.
    pub idle_timeout_ms: Option<u64>,
    /// Time without progress of a started answer after which a stream counts as broken.
    pub progress_timeout_ms: Option<u64>,
    /// Time limit from the request to the last byte of its answer.
    pub answer_timeout_ms: Option<u64>,
    /// Certificates in PEM that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
    /// File of answers for protocol `script`.
    pub script: Option<PathBuf>,
}

/// The settings of a provider that decide who gets a secret and come from the workspace's own
/// config.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChosenByProject {
    /// The address, if it is neither the built-in one nor in the user's own config.
    pub base_url: bool,
    pub api_key_file: bool,
    /// The file is outside of the workspace.
    pub is_key_elsewhere: bool,
}

/// Shows headers by name only, because their values may be secrets.
impl fmt::Debug for ProviderEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderEntry")
            .field("protocol", &self.protocol)
            .field("base_url", &self.base_url)
            .field("headers", &self.headers.keys())
            .finish_non_exhaustive()
    }
}

/// `[models."provider/model"]`: figures that replace the built-in ones. Prices are in US dollars
/// per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct ModelFigures {
    /// Size in tokens.
    pub context_window: Option<u64>,
    /// Maximum length of an answer, tokens.
    pub max_output: Option<u64>,
    pub input_price: Option<f64>,
    pub cached_price: Option<f64>,
    pub cache_write_price: Option<f64>,
    pub output_price: Option<f64>,
    /// The day from which the provider does not have it any more.
    pub ends: Option<Date>,
    /// Effort of this model.
    pub effort: Option<Effort>,
    pub temperature: Option<f64>,
    /// Calls that the model writes as text are calls. Without it: if its server has no tools.
    pub calls_in_text: Option<bool>,
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
