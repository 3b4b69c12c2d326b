//! The pure part: what is stored, what follows from it, and what is asked of a model.
//!
//! Invariant: nothing here knows of async, files, clocks, randomness or logging. Every
//! function is a function of its arguments, so every rule of the agent can be tested as
//! a table of `log -> Step`.

pub mod access;
pub mod address;
pub mod budget;
pub mod choice;
pub mod continuation;
pub mod entry;
pub mod exchange;
pub mod fate;
pub mod gauge;
pub mod harmless;
pub mod image;
pub mod ledger;
pub mod limits;
pub mod next;
pub mod offer;
pub mod path;
pub mod permission;
pub mod policy;
pub mod preface;
pub mod prompt;
pub mod request;
pub mod rule;
pub mod settings;
pub mod shell;
pub mod size;
pub mod skill;
pub mod state;
pub mod summary;
pub mod text;
pub mod tool;
pub mod unsent;
pub mod visible;
pub mod window;
