//! Construction of HTTP clients: TLS with the roots of the system, proxies, no redirects.
//!
//! Invariant: a client follows no redirect by itself, since a key would go along.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Certificate, ClientBuilder, Url};
use thiserror::Error;

use super::address::is_loopback;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Beginning of the library's error if the system has no certificates.
const NO_AUTHORITIES: &str = "No CA certificates";

/// The location of the servers that a client is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Remote,
    /// On this machine, which no proxy can reach.
    Local,
    /// On this machine, without TLS. The system's certificates are not read: that takes
    /// milliseconds, and a small container has none.
    LocalPlain,
}

impl Kind {
    #[must_use]
    pub fn of(url: &Url) -> Kind {
        match (is_loopback(url), url.scheme()) {
            (false, _) => Kind::Remote,
            (true, "http") => Kind::LocalPlain,
            (true, _) => Kind::Local,
        }
    }
}

/// An error while building a client.
#[derive(Debug, Error)]
pub enum ClientError {
    #[error("reading the certificates in {}: {why}", .path.display())]
    Certificates { path: PathBuf, why: String },
    #[error("this system has no certificates of authorities, which TLS needs")]
    NoAuthorities,
    #[error("the HTTP client cannot be built: {0}")]
    Client(String),
}

impl ClientError {
    /// Returns a hint for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ClientError::Certificates { .. } => Some("the file holds certificates in PEM form"),
            ClientError::NoAuthorities => Some(
                "install the package ca-certificates, or set SSL_CERT_FILE to a file in PEM form",
            ),
            ClientError::Client(_) => None,
        }
    }
}

/// Returns the common settings of every client. `ca_file`: certificates (PEM) that are trusted
/// besides those of the system.
///
/// # Errors
/// The certificates cannot be read.
pub fn builder(kind: Kind, ca_file: Option<&Path>) -> Result<ClientBuilder, ClientError> {
    // If a provider is already installed, the error can be ignored. Without a provider, building
    // panics.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("rewake/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none());
    if kind != Kind::Remote {
        builder = builder.no_proxy();
    }
    if kind == Kind::LocalPlain {
        builder = builder.tls_certs_only([]);
    }
    if let Some(path) = ca_file {
        let failed = |why: String| ClientError::Certificates {
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

/// Builds the client. Reads the system's certificates, which takes time, except for
/// [`Kind::LocalPlain`].
///
/// # Errors
/// The certificates cannot be read.
pub fn build(builder: ClientBuilder) -> Result<reqwest::Client, ClientError> {
    builder.build().map_err(|e| match reason(e) {
        why if why.contains(NO_AUTHORITIES) => ClientError::NoAuthorities,
        why => ClientError::Client(why),
    })
}

/// Returns the innermost reason, because the outer ones say only that a request failed. The text
/// does not contain the address, which may contain a secret.
pub fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut inner: &dyn std::error::Error = &error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
