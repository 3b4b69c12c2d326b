//! What all clients of HTTP here share.
//!
//! | file | subject |
//! |---|---|
//! | [`client`] | building a client: TLS, proxies, no redirects |
//! | [`sse`] | server-sent events, from bytes |
//! | [`browser`] | giving an address to the person's browser |
//! | [`address`] | which addresses are on this machine or in a private network |

pub mod address;
pub mod browser;
pub mod client;
pub mod sse;
