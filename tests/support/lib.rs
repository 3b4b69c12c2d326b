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

/// An image of 3 x 2 pixels.
pub const PNG: &[u8] = b"\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x03\x00\x00\x00\x02\x08\x02\x00\x00\x00\x12\x16\xf1\x4d\x00\x00\x00\x03\x74\x45\x58\x74\x61\x00\x62\xdc\x49\xa2\x3b\x00\x00\x00\x10\x49\x44\x41\x54\x78\x9c\x63\xf8\xcf\xc0\x00\x41\x0c\x70\x16\x00\x41\xd2\x05\xfb\x87\xf0\xb9\x48\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82";

/// What a real API gives with these thoughts and calls, for requests made by hand.
pub mod given {
    pub use super::anthropic::signature as anthropic_signature;
    pub use super::gemini::signature as gemini_signature;
    pub use super::responses::encrypted as responses_encrypted;
}
