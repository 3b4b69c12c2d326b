//! Config: read once into a checked, complete value, of which every part knows its origin.
//!
//! Layers, each over the one before: defaults, `config.toml` in the user's config folder, the
//! rules that the user allowed for this project ([`granted`]), `.rewake/config.toml` of the workspace root, environment, flags. A later layer replaces
//! a value; lists of permission rules and checks add up, so that no layer can drop a rule to deny.
//!
//! Invariant: the process environment is read in one place, [`Env::capture`], which `main`
//! calls once. Everything else, here and above, takes the [`Env`] it is given.
//!
//! Invariant: what a folder says about itself is believed only as far as it cannot hurt
//! until the user trusts that very content ([`project`], [`trust`]).
//!
//! Absent on purpose: parsing of permission rules (`crate::core::policy`), figures of known
//! models (`crate::model`). `config.toml` belongs to the user: [`mod@write`] changes single keys of
//! it when a person says so on the screen, and nothing else does.

mod builtin;
mod check;
mod env;
mod error;
mod file;
pub mod foreign_guards;
pub mod granted;
mod http;
mod in_use;
mod kept_elsewhere;
mod kept_key;
mod key;
mod layer;
mod load;
pub mod mcp;
mod merge;
mod origin;
mod owner;
mod paths;
mod project;
mod provider;
mod rights;
mod schema;
mod setting;
pub mod trust;
pub mod trusted;
mod worktree;
pub mod write;

pub use builtin::{EffortField, Protocol, Quirks};
pub use env::{CERTIFICATES, Env};
pub use error::{ConfigError, Warning};
pub use file::{Digest, ReadError, read_exact_text, read_text, read_text_from, replace_file};
pub use in_use::{BeforeClosing, FilesInUse, IN_USE, is_in_use};
pub use kept_elsewhere::{IS_KEPT_KEY, is_linked_key, is_stored_key, key_with_other_name};
pub use kept_key::{remove_key, store_key};
pub use key::Key;
pub use load::{ListedRule, Loaded, load};
pub use origin::{Origin, Origins};
pub use owner::is_usable;
pub use paths::{Paths, make_private_folder};
pub use project::{
    Content, Difference, NO_SANDBOX, Project, ProjectTrust, TrustedValue, project_file,
};
pub use provider::{
    ANSWER_TIMEOUT_MS, IDLE_TIMEOUT_MS, KeyedProvider, ModelName, PROGRESS_TIMEOUT_MS,
    ProviderConfig, default_models, keyed_providers,
};
pub use rights::{hint_of, rights_hint_below};
pub use schema::{
    CheckConfig, Config, ContextConfig, EditorConfig, EditorMode, FilesConfig, FilesInTime,
    FilesWatch, InstructionsConfig, KeysConfig, LogConfig, LogLevel, ModelFigures, NetworkUse,
    NotifyConfig, NotifyMethod, NotifyOn, PermissionsConfig, ProviderEntry, RetryConfig,
    SandboxConfig, SandboxUse, Scrollback, ShellConfig, StoreConfig, TelemetryConfig, UiConfig,
    WebConfig,
};
pub use setting::Setting;
pub use worktree::{project_note, project_root, worktree_at, worktrees_folder, worktrees_of};

#[cfg(test)]
mod test_example;
#[cfg(test)]
pub(crate) mod testing;
