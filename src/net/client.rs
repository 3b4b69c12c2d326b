//! Construction of HTTP clients: TLS with the roots of the system, proxies, no redirects.
//!
//! Invariant: a client follows no redirect by itself, since a key would go along.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Certificate, ClientBuilder, Method, StatusCode, Url};
use thiserror::Error;

use super::address::{host, is_in_network, is_loopback, literal};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for the answer of a proxy that refused a tunnel a moment ago.
const TUNNEL_TIMEOUT: Duration = Duration::from_secs(2);

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

/// A proxy, and the variable that names it.
pub struct NamedProxy {
    pub variable: &'static str,
    value: String,
}

impl fmt::Display for NamedProxy {
    /// Writes `proxy.example:3128 of HTTPS_PROXY`. Its password is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, place) = self.value.split_once("://").unwrap_or(("", &self.value));
        let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
        write!(f, "{} of {}", place.trim_end_matches('/'), self.variable)
    }
}

impl NamedProxy {
    /// Asks for a tunnel to this address, and returns the status of the answer. `None`: there is none
    /// within a short time.
    pub async fn tunnel_status(&self, url: &Url) -> Option<StatusCode> {
        let proxy = reqwest::Proxy::http(&self.value).ok()?;
        let client = build(builder(Kind::LocalPlain, None).ok()?.proxy(proxy)).ok()?;
        let (host, port) = (url.host_str()?, url.port_or_known_default()?);
        let tunnel = client.request(Method::CONNECT, format!("http://{host}:{port}"));
        let answer = tunnel.timeout(TUNNEL_TIMEOUT).send().await.ok()?;
        Some(answer.status())
    }
}

/// Returns the proxy that a request to this address goes through.
pub fn proxy_of(url: &Url, variable: impl Fn(&str) -> Option<String>) -> Option<NamedProxy> {
    let host = host(url);
    let is_set = |name: &&str| variable(name).is_some_and(|value| !value.trim().is_empty());
    let names: &[&str] = match url.scheme() {
        "https" => &["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
        _ => &["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"],
    };
    let name = names.iter().find(|name| is_set(name))?;
    let value = variable(name)?;
    let without = variable("NO_PROXY").or_else(|| variable("no_proxy"));
    let is_without = |entry: &str| {
        let entry = entry.trim().trim_start_matches('.');
        if let Some(is_inside) = literal(url).and_then(|address| is_in_network(address, entry)) {
            return is_inside;
        }
        entry == "*" || !entry.is_empty() && (host == entry || host.ends_with(&format!(".{entry}")))
    };
    if is_loopback(url) || without.is_some_and(|list| list.split(',').any(is_without)) {
        return None;
    }
    Some(NamedProxy {
        variable: name,
        value,
    })
}

/// Returns the innermost reason, because the outer ones say only that a request failed. The text
/// does not contain the address, which may contain a secret. An error of the system has no number,
/// and begins in lower case.
pub fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let text = causes(&error)
        .last()
        .map_or_else(|| error.to_string(), |e| e.to_string());
    match text.split_once(" (os error ") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}

/// Returns the reasons of an error, the innermost last.
pub fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(std::error::Error::source(error), |e| e.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address, the variables that are set, and the proxy.
    type Row = (
        &'static str,
        &'static [(&'static str, &'static str)],
        Option<&'static str>,
    );

    #[test]
    fn a_proxy_is_named_without_its_password() {
        let table: [Row; 12] = [
            (
                "https://api.example/v1",
                &[("HTTPS_PROXY", "http://me:pw@p.example:3128/")],
                Some("p.example:3128 of HTTPS_PROXY"),
            ),
            ("https://api.example/v1", &[("HTTP_PROXY", "p:1")], None),
            (
                "http://api.example/v1",
                &[("http_proxy", "p:1"), ("ALL_PROXY", "q:2")],
                Some("p:1 of http_proxy"),
            ),
            (
                "https://api.example/v1",
                &[("ALL_PROXY", "socks5://q:2")],
                Some("q:2 of ALL_PROXY"),
            ),
            (
                "https://api.example/v1",
                &[("HTTPS_PROXY", "p:1"), ("NO_PROXY", "x, .example")],
                None,
            ),
            (
                "https://api.example/v1",
                &[("HTTPS_PROXY", "p:1"), ("no_proxy", "le")],
                Some("p:1 of HTTPS_PROXY"),
            ),
            ("http://127.0.0.1:1/v1", &[("HTTP_PROXY", "p:1")], None),
            (
                "http://10.1.2.3/v1",
                &[("HTTP_PROXY", "p:1"), ("NO_PROXY", "x, 10.0.0.0/8")],
                None,
            ),
            (
                "http://11.1.2.3/v1",
                &[("HTTP_PROXY", "p:1"), ("NO_PROXY", "10.0.0.0/8")],
                Some("p:1 of HTTP_PROXY"),
            ),
            (
                "http://[fd00::7]/v1",
                &[("HTTP_PROXY", "p:1"), ("NO_PROXY", "fd00::/8")],
                None,
            ),
            (
                "http://[fd00::7]/v1",
                &[("HTTP_PROXY", "p:1"), ("NO_PROXY", "fd00::7")],
                None,
            ),
            (
                "http://10.1.2.3/v1",
                &[("HTTP_PROXY", "p:1"), ("NO_PROXY", "10.0.0.0/99, fd00::/8")],
                Some("p:1 of HTTP_PROXY"),
            ),
        ];
        for (url, set, want) in table {
            let variable = |name: &str| {
                let found = set.iter().find(|(its, _)| *its == name);
                found.map(|(_, value)| value.to_string())
            };
            let url = Url::parse(url).unwrap();
            let proxy = proxy_of(&url, variable).map(|proxy| proxy.to_string());
            assert_eq!(proxy.as_deref(), want, "{url} {set:?}");
        }
    }
}
