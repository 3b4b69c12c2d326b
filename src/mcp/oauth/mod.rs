//! Logging in to a server over HTTP: OAuth 2.1 as the Model Context Protocol wants it.
//!
//! Sources: <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>, RFC 9728
//! (whose tokens a server takes), RFC 8414 and OpenID Connect Discovery (where they are given), RFC
//! 7636 (PKCE), RFC 8707 (`resource`), RFC 9207 (`iss`), RFC 7591 (registration).
//!
//! | file | subject |
//! |---|---|
//! | [`challenge`] | what a server says with 401 and 403 |
//! | [`web`] | asking the addresses that servers name: bounded, and none of a private network |
//! | [`discover`] | from the server's address to the endpoints of its authorization server |
//! | [`client`] | who we are to an authorization server |
//! | [`callback`] | where the browser comes back to |
//! | [`token`] | a code for tokens, an old token for a new one |
//! | [`store`] | tokens on the disk |
//! | [`login`] | all of it in its order |
//!
//! Invariant: tokens and secrets are in no log, no run folder and no `Debug`.

pub mod callback;
pub mod challenge;
pub mod client;
pub mod discover;
pub mod login;
pub mod store;
pub mod token;
pub mod web;
