//! Requests to addresses that a server names. They are untrusted: only `https`, no private network
//! unless the server itself is there, no redirects, bounded answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{RequestBuilder, StatusCode, Url};
use serde_json::Value;
use thiserror::Error;

use crate::net::address::{is_loopback, is_private, literal};
use crate::net::client::{self, Kind, reason};
use crate::net::resolve::Public;

const ANSWER_MAX_BYTES: usize = 1024 * 1024;
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// An error of a login, with a hint.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct LoginError {
    pub message: String,
    pub hint: Option<String>,
}

impl LoginError {
    pub fn new(message: impl Into<String>) -> LoginError {
        LoginError {
            message: message.into(),
            hint: None,
        }
    }

    pub fn with_hint(self, hint: impl Into<String>) -> LoginError {
        LoginError {
            hint: Some(hint.into()),
            ..self
        }
    }
}

/// An HTTP client for such requests.
#[derive(Debug, Clone)]
pub struct Web {
    remote: reqwest::Client,
    /// The server itself is on this machine or in a private network, so other addresses may be
    /// there too.
    may_be_private: bool,
}

impl Web {
    /// Creates a client for the addresses that this server names.
    ///
    /// # Errors
    /// The system's certificates cannot be read, or the name of the server cannot be resolved.
    pub async fn for_server(server: &Url) -> Result<Web, LoginError> {
        let may_be_private = is_in_private_network(server).await?;
        // A server on this machine may name addresses elsewhere, over TLS.
        let kind = match is_loopback(server) {
            true => Kind::Local,
            false => Kind::Remote,
        };
        let built = client::builder(kind, None).map(|builder| match may_be_private {
            true => builder,
            false => builder.dns_resolver(Arc::new(Public)),
        });
        let remote = built.and_then(|builder| client::build(builder.timeout(ANSWER_WITHIN)));
        Ok(Web {
            remote: remote.map_err(|e| LoginError::new(e.to_string()))?,
            may_be_private,
        })
    }

    /// Parses an address that a server named, and checks that it may be requested.
    ///
    /// # Errors
    /// The address is invalid, not `https`, or private.
    pub fn check(&self, what: &str, address: &str) -> Result<Url, LoginError> {
        let refused = |why: &str| {
            let shown = crate::mcp::clean(address, 200);
            LoginError::new(format!("the server names {shown} as its {what}: {why}"))
        };
        let url = Url::parse(address).map_err(|_| refused("that is not an address"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("there is a user name in it"));
        }
        let is_private = literal(&url).is_some_and(is_private) || is_loopback(&url);
        match url.scheme() {
            "https" | "http" if is_private && !self.may_be_private => Err(refused(
                "that is in a private network, and the server is not",
            )),
            "https" => Ok(url),
            "http" if self.may_be_private && is_private => Ok(url),
            _ => Err(refused("only https is asked")),
        }
    }

    /// Requests a JSON document. `None`: there is none at this address.
    ///
    /// # Errors
    /// The server cannot be reached, or its answer is not JSON.
    pub async fn get(&self, url: &Url) -> Result<Option<Value>, LoginError> {
        let request = self.remote.get(url.clone());
        let request = request.header("accept", "application/json");
        match self.send(url, request).await? {
            (status, Some(body)) if status.is_success() => Ok(Some(body)),
            _ => Ok(None),
        }
    }

    /// # Errors
    /// The server cannot be reached.
    pub async fn post_json(
        &self,
        url: &Url,
        body: &Value,
    ) -> Result<(StatusCode, Option<Value>), LoginError> {
        let request = self.remote.post(url.clone());
        let request = request.header("content-type", "application/json");
        let request = request.header("accept", "application/json");
        self.send(url, request.body(body.to_string())).await
    }

    /// `basic`: the value of an `Authorization` header.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn post_form(
        &self,
        url: &Url,
        form: &[(&str, &str)],
        basic: Option<&str>,
    ) -> Result<(StatusCode, Option<Value>), LoginError> {
        let request = self.remote.post(url.clone());
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let mut request = request.header("accept", "application/json");
        if let Some(basic) = basic {
            request = request.header("authorization", basic);
        }
        self.send(url, request.body(encode(form))).await
    }

    /// Returns the target of a redirect without following it.
    ///
    /// # Errors
    /// The server cannot be reached, or does not redirect.
    pub async fn redirect(&self, url: &Url) -> Result<Url, LoginError> {
        let sent = self.remote.get(url.clone()).send().await;
        let response = sent.map_err(|e| unreachable(url, e))?;
        let location = response.headers().get("location");
        let location = location.and_then(|to| url.join(to.to_str().ok()?).ok());
        location.ok_or_else(|| {
            let status = response.status().as_u16();
            LoginError::new(format!(
                "{} answers HTTP {status} and redirects nowhere",
                shown(url)
            ))
        })
    }

    async fn send(
        &self,
        url: &Url,
        request: RequestBuilder,
    ) -> Result<(StatusCode, Option<Value>), LoginError> {
        let mut response = request.send().await.map_err(|e| unreachable(url, e))?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| unreachable(url, e))? {
            body.extend_from_slice(&chunk);
            if body.len() > ANSWER_MAX_BYTES {
                return Err(LoginError::new(format!(
                    "the answer of the login server is too long ({})",
                    shown(url)
                )));
            }
        }
        Ok((response.status(), serde_json::from_slice(&body).ok()))
    }
}

fn unreachable(url: &Url, error: reqwest::Error) -> LoginError {
    LoginError::new(format!(
        "the login server cannot be reached: {} ({})",
        reason(error),
        shown(url)
    ))
}

/// Returns the address without its query, which may contain a secret.
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    crate::mcp::clean(url.as_str(), 300)
}

/// Encodes a form as `application/x-www-form-urlencoded`.
pub fn encode(form: &[(&str, &str)]) -> String {
    let Ok(mut url) = Url::parse("http://localhost/") else {
        return String::new();
    };
    url.query_pairs_mut().extend_pairs(form);
    url.query().unwrap_or_default().to_string()
}

async fn is_in_private_network(server: &Url) -> Result<bool, LoginError> {
    if is_loopback(server) {
        return Ok(true);
    }
    if let Some(address) = literal(server) {
        return Ok(is_private(address));
    }
    let host = server.host_str().unwrap_or_default().to_string();
    let port = server.port_or_known_default().unwrap_or(443);
    // Behind a proxy that resolves names, this machine may not be able to.
    let Ok(found) = tokio::net::lookup_host((host, port)).await else {
        return Ok(false);
    };
    let found: Vec<SocketAddr> = found.collect();
    Ok(!found.is_empty() && found.iter().all(|address| is_private(address.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn web(server: &str) -> Web {
        Web::for_server(&Url::parse(server).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn a_public_server_may_not_name_what_is_private() {
        let web = web("https://93.184.216.34/mcp").await;
        for address in [
            "https://127.0.0.1/x",
            "https://localhost/x",
            "https://169.254.169.254/latest",
            "https://10.0.0.1/x",
            "https://[::1]/x",
            "http://auth.example/x",
            "https://user@auth.example/x",
            "file:///etc/passwd",
            "auth.example",
        ] {
            assert!(web.check("metadata", address).is_err(), "{address}");
        }
        assert!(web.check("metadata", "https://auth.example/x").is_ok());
        let private = "https://localtest.invalid/";
        let asked = web.get(&Url::parse(private).unwrap()).await;
        assert!(asked.is_err());
    }

    #[tokio::test]
    async fn a_server_of_this_machine_may_name_this_machine() {
        let web = web("http://localhost:1/mcp").await;
        assert!(web.check("metadata", "http://127.0.0.1:2/x").is_ok());
        assert!(web.check("metadata", "https://auth.example/x").is_ok());
        assert!(web.check("metadata", "http://auth.example/x").is_err());
    }

    #[test]
    fn a_form_is_encoded() {
        assert_eq!(
            encode(&[("a b", "c&d=é"), ("e", "+")]),
            "a+b=c%26d%3D%C3%A9&e=%2B"
        );
    }
}
