//! The validated parts of a server's config that the bridge uses: address and headers.

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::mcp::launch::BridgeConfig;
use crate::net::address::is_loopback;

/// Headers that the bridge sets itself.
const OWN: [&str; 7] = [
    "accept",
    "content-type",
    "content-length",
    "host",
    "last-event-id",
    "mcp-session-id",
    "mcp-protocol-version",
];

/// Returns the address of the server, if the bridge may connect to it.
///
/// # Errors
/// Returns the reason why the address is not usable, without parts of it that may be secret.
pub fn address(config: &BridgeConfig) -> Result<Url, String> {
    let name = &config.name;
    let mut url = Url::parse(&config.url)
        .map_err(|e| format!("the url of server {name} is not an address: {e}"))?;
    let is_open = url.scheme() == "http" && is_loopback(&url);
    if url.scheme() != "https" && !is_open {
        return Err(format!(
            "the url of server {name} is not https: only a server on this machine may be http"
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!(
            "the url of server {name} holds a user name; put it into a header"
        ));
    }
    url.set_fragment(None);
    Ok(url)
}

/// # Errors
/// The name of the one that cannot be sent.
pub fn headers(config: &BridgeConfig) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &config.headers {
        let pair = HeaderName::try_from(name)
            .ok()
            .zip(HeaderValue::from_str(value.trim()).ok());
        let Some((key, mut value)) = pair.filter(|(key, _)| !OWN.contains(&key.as_str())) else {
            return Err(format!(
                "the header {name:?} of server {} cannot be sent",
                config.name
            ));
        };
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn config(url: &str, header: (&str, &str)) -> BridgeConfig {
        BridgeConfig {
            name: "s".into(),
            url: url.into(),
            headers: BTreeMap::from([(header.0.to_string(), header.1.to_string())]),
            keys: "/keys".into(),
        }
    }

    #[test]
    fn only_https_and_this_machine_are_spoken_with() {
        let at = |url: &str| address(&config(url, ("a", "b")));
        for good in [
            "https://a.b/mcp",
            "http://localhost:1/",
            "http://127.0.0.1:1/x#y",
        ] {
            assert!(at(good).is_ok(), "{good}");
        }
        for bad in [
            "http://a.b/",
            "http://10.0.0.1/",
            "ftp://a.b",
            "https://u:secret@a.b",
            "secret",
        ] {
            let why = at(bad).unwrap_err();
            assert!(!why.contains("secret"), "{why}");
        }
    }

    #[test]
    fn headers_are_sent_as_they_are_and_shown_to_nobody() {
        let good = config("https://a.b", ("Authorization", " Bearer secret\n"));
        let read = headers(&good).unwrap();
        assert_eq!(read["authorization"], "Bearer secret");
        assert!(!format!("{read:?}").contains("secret"));
        for bad in [
            ("a b", "secret"),
            ("a", "secret\u{1}\nx"),
            ("Mcp-Session-Id", "secret"),
        ] {
            let why = headers(&config("https://a.b", bad)).unwrap_err();
            assert!(!why.contains("secret"), "{why}");
        }
    }
}
