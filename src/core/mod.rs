//! The pure core: the stored entries, the state and the next step that follow from them, and the
//! requests to a model.
//!
//! Invariant: nothing here knows of async, files, clocks, randomness or logging. Every
//! function is a function of its arguments, so every rule of the agent can be tested as
//! a table of `log -> Step`.

pub mod access;
pub(crate) mod address;
pub mod agent;
pub mod authorization;
pub mod background;
pub mod budget;
pub mod check;
pub mod choice;
pub mod cleared_results;
pub mod compacting;
pub(crate) mod constraint;
pub mod continuation;
pub mod custom;
pub(crate) mod cut;
pub mod ending;
pub mod entry;
pub mod exfiltration;
pub mod external_changes;
pub mod file_clock;
pub mod form;
pub mod freeing;
mod front_matter;
pub(crate) mod gauge;
pub(crate) mod half_character;
pub(crate) mod happened;
pub mod hook;
pub mod hook_event;
pub(crate) mod image;
pub(crate) mod ledger;
pub(crate) mod limits;
pub mod loop_guard;
pub(crate) mod marks;
pub mod next;
pub(crate) mod offer;
pub(crate) mod path;
pub mod permission;
pub(crate) mod plain_text;
pub(crate) mod planned;
pub mod policy;
pub(crate) mod preface;
pub mod prompt;
pub(crate) mod quoted;
pub(crate) mod read_only_commands;
pub mod refused_history;
pub(crate) mod repeated_key;
pub mod request;
pub(crate) mod request_failure;
pub mod request_form;
pub mod rewind;
pub mod rule;
pub mod run_limits;
pub(crate) mod said_again;
pub mod settings;
pub(crate) mod sharing;
pub(crate) mod shell;
pub mod signal;
pub mod size;
pub(crate) mod skill;
pub mod state;
pub mod structured;
pub mod summary;
pub(crate) mod text;
pub mod to_person;
pub mod told;
pub mod tool;
pub(crate) mod tool_name;
pub mod tree;
pub mod turn;
pub(crate) mod unsent;
pub(crate) mod user_messages;
pub(crate) mod visible;
pub mod window;
