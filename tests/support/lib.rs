//! What the tests and benches share: a model server that plays scripted answers in the four
//! wire protocols and checks every request as the real APIs do, and a home of its own for
//! each run of the real binary.
//!
//! Invariant: nothing here uses the code under test, so that one mistake cannot be made on
//! both sides of the wire and go unseen.

#[macro_use]
mod rules;

mod answer;
mod anthropic;
mod cache;
mod chat;
#[cfg(target_os = "linux")]
pub mod cut_short;
#[cfg(target_os = "linux")]
mod failing_disk;
mod gemini;
mod git;
mod home;
pub mod http;
mod kernel;
pub mod mcp_server;
pub mod page;
mod prefix;
#[cfg(target_os = "linux")]
mod refusal;
mod responses;
pub mod scenes;
mod seal;
mod seed;
mod server;
mod shell;
mod signals;
mod skip;
pub mod spoken;
mod spoken_newer;
mod terminal;
mod tls;

pub use answer::{Answer, Call, Protocol, Says, Stop, Tokens, list};
pub use cache::{Cache, Hit};
#[cfg(target_os = "linux")]
pub use failing_disk::{FailingDisk, Fails};
pub use git::git;
pub use home::{Home, Live, Run, limited, program, run};
pub use kernel::has_whole_sandbox;
pub use prefix::{Asked, Row as PrefixRow, prompt};
#[cfg(target_os = "linux")]
pub use refusal::Refusal;
pub use seed::Seed;
pub use server::{KEY, Logged, Options, Seen, Server};
pub use shell::default_shell;
pub use skip::{skip, skip_everywhere};
pub use terminal::{ENTER, ESC, Terminal};
pub use tls::Authority;

/// What a real API gives with these thoughts and calls, for requests made by hand.
pub mod given {
    pub use super::anthropic::signature as anthropic_signature;
    pub use super::gemini::signature as gemini_signature;
    pub use super::responses::encrypted as responses_encrypted;
}
