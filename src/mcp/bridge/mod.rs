//! Bridge to a server over HTTP: a process that exchanges lines. Its keeper sees an MCP server
//! over stdio. The server sees a client of Streamable HTTP. So the guarantees for servers over
//! stdio also apply to servers over HTTP: requests are journalled, and answers are found after a
//! crash. The streams stay open when the agent dies.
//!
//! Sources: <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http>.
//!
//! There is one process for each server. It ends when its input is closed.
//!
//! | file | subject |
//! |---|---|
//! | [`definition`] | which server, and what may be sent to it |
//! | [`lines`] | stdin and stdout |
//! | [`headers`] | parts of a message that are repeated in headers |
//! | [`mirror`] | arguments that a server expects in headers |
//! | [`messages`] | the messages of an answer: one object, several, or a stream of events |
//! | [`access`] | the token of a request, and its renewal |
//! | [`wire`] | one HTTP request, with retries where they are safe, and its errors |
//! | [`session`] | the state of a session with a handshake, and the server's own stream |
//! | [`exchange`] | a request and its answer, across broken streams |
//! | [`serve`] | the main loop |
//!
//! # When something breaks
//!
//! | seen | what follows |
//! |---|---|
//! | no connection | tried twice more, then refused: the call did not happen |
//! | 429, and 503 with `Retry-After` | waits, at most three times |
//! | 401 | retried once with a newer token, then refused: somebody has to log in |
//! | 404 for a session | a new session, then the request once more: the server did not know it |
//! | a stream that broke, with an event id | resumed (`Last-Event-ID`) |
//! | any other end of a connection after a request was sent | the call may or may not have happened |
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
