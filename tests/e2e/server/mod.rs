//! `rewake serve` as scripts, browsers and people who mean no good meet it: every route, every
//! refusal, streams that go on after kills, and the page in a real browser.

mod attacked;
mod browser;
mod changed;
mod described;
mod failing;
mod followed;
mod listens;
mod refused;
mod routes;
mod steered;

pub use crate::scenes::http_sessions::*;
pub use crate::scenes::{SCRIPTED, scripted, serve as client, step};
