//! Building a client of HTTP: TLS with the roots of the system, proxies, no redirects.
//!
//! Invariant: a client follows no redirect by itself, since a key would go along.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Certificate, ClientBuilder};
use thiserror::Error;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the servers are that a client is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Remote,
    /// On this machine, which no proxy can reach.
    Local,
}

/// Why there is no client.
#[derive(Debug, Error)]
pub enum Unbuilt {
    #[error("reading the certificates in {}: {why}", .path.display())]
    Certificates { path: PathBuf, why: String },
    #[error("the HTTP client cannot be built: {0}")]
    Client(String),
}

/// What every client begins with. `ca_file`: certificates (PEM) that are trusted besides those of
/// the system.
///
/// # Errors
/// The certificates cannot be read.
pub fn builder(kind: Kind, ca_file: Option<&Path>) -> Result<ClientBuilder, Unbuilt> {
    // An error says that there is one already, which is as good. Without one, building panics.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("rewake/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none());
    if kind == Kind::Local {
        builder = builder.no_proxy();
    }
    if let Some(path) = ca_file {
        let failed = |why: String| Unbuilt::Certificates {
            path: path.to_path_buf(),
            why,
        };
        let pem = std::fs::read(path).map_err(|e| failed(e.to_string()))?;
        let certificates = Certificate::from_pem_bundle(&pem).map_err(|e| failed(reason(e)))?;
        if certificates.is_empty() {
            return Err(failed("there are none".to_string()));
        }
        builder = builder.tls_certs_merge(certificates);
    }
    Ok(builder)
}

/// Reads the system's certificates, which takes time.
///
/// # Errors
/// They cannot be read.
pub fn build(builder: ClientBuilder) -> Result<reqwest::Client, Unbuilt> {
    builder.build().map_err(|e| Unbuilt::Client(reason(e)))
}

/// The innermost reason: the outer ones say only that a request failed. Without the address, which
/// may hold a secret.
pub fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut inner: &dyn std::error::Error = &error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
