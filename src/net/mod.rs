//! What all clients of HTTP here share.
//!
//! | file | subject |
//! |---|---|
//! | [`client`] | building a client: TLS, proxies, no redirects |
//! | [`sse`] | server-sent events, from bytes |
//! | [`address`] | which addresses are on this machine or in a private network |

pub mod address;
pub mod client;
pub mod sse;
