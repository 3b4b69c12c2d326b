//! `rewake acp` as an editor meets it: the real binary with a scripted model, killed, flooded and
//! given nonsense. Every line that it prints is checked against the schema of the protocol.

mod bad_input;
mod ends;
mod forms;
mod loads;
mod prompts;
mod schema;
mod settings;

pub use crate::scenes::acp::*;
pub use crate::scenes::{SCRIPTED, play, scripted, step};
use support::spoken;

/// The server of the tests about forms: see [`spoken`].
const SERVER: &str = spoken::ITSELF;
