//! The common parts of all HTTP clients of the program, and the runtime in which they wait.
//!
//! | file | subject |
//! |---|---|
//! | [`client`] | building a client: TLS, proxies, no redirects |
//! | [`sse`] | server-sent events, from bytes |
//! | [`browser`] | opening an address in the person's browser |
//! | [`address`] | which addresses are on this machine or in a private network |
//! | [`resolve`] | host names to addresses, which are checked before a connection |
//! | [`page`] | fetching a page of the web, and its main content |
//! | [`search`] | searching the web with a SearXNG server |

pub mod address;
pub mod browser;
pub mod client;
pub mod page;
pub mod resolve;
pub mod search;
pub mod sse;

use std::io;

use tokio::runtime::{Builder, Runtime};

/// Returns a runtime on the calling thread, for work that the thread waits for.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
