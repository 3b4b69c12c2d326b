//! A server over HTTP, as a process that is spoken with in lines: towards its keeper an MCP server
//! over stdio, towards the network a client of Streamable HTTP. So what holds for a server over
//! stdio (its requests are written down, its answers are found after a crash) holds for one over
//! HTTP, and its streams stay open when the agent dies.
//!
//! Sources: <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http>.
//!
//! One process for each server. It ends when its input is closed.
//!
//! | file | subject |
//! |---|---|
//! | [`definition`] | which server, and what may be sent to it |
//! | [`lines`] | stdin and stdout |
//! | [`headers`] | what of a message is said again in headers |
//! | [`mirror`] | arguments that a server wants to see in headers |
//! | [`messages`] | the messages of an answer: one object, several, or a stream of events |
//! | [`access`] | the token that a request shows, and a new one for it |
//! | [`wire`] | a request over HTTP: sent again where that is safe, refused in words |
//! | [`session`] | what a server with a handshake wants to hear again, and its own stream |
//! | [`exchange`] | a request and its answer, across broken streams |
//! | [`serve`] | all of it |
//!
//! # When something breaks
//!
//! | seen | what follows |
//! |---|---|
//! | no connection | tried twice more, then refused: it was not done |
//! | 429, and 503 with `Retry-After` | waited for, at most three times |
//! | 401 | once with a token that is newer, then refused: somebody has to log in |
//! | 404 for a session | a new session, and the request once more: the server did not know it |
//! | a stream that broke, with an event id | taken up again (`Last-Event-ID`) |
//! | any other end of a connection behind a request | it may or may not have happened |
//!
//! Invariant: a request that may have reached the server is never sent again.

mod access;
mod definition;
mod exchange;
mod headers;
mod lines;
mod messages;
mod mirror;
mod serve;
mod session;
mod wire;

pub use definition::address;
pub use serve::run;
