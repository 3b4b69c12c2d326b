//! Resolution of host names for addresses that others choose: servers, and the model.
//!
//! Invariant: a client connects only to the addresses that were checked here. A name is not resolved
//! again between the check and the connection.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::{host, is_loopback, is_never_reached, is_private, literal};

/// The addresses of a host name, as they arrive.
pub type Resolved = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// A function that resolves a host name. Tests use another than the system's.
pub type Lookup = Arc<dyn Fn(&str) -> Resolved + Send + Sync>;

/// Returns the resolver of the system.
pub fn of_system() -> Lookup {
    Arc::new(|name| {
        let name = name.to_string();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    })
}

/// Resolves the host of a URL and checks each of its addresses. One address that is not allowed
/// refuses the host. `may_be_private`: the user's config allows private addresses there.
///
/// # Errors
/// The host cannot be resolved, or must not be reached.
pub async fn checked_addresses(
    url: &Url,
    may_be_private: bool,
    lookup: &Lookup,
) -> Result<Vec<SocketAddr>, String> {
    let host = host(url);
    let port = url.port_or_known_default().unwrap_or(0);
    let found = match literal(url) {
        Some(address) => vec![address],
        None if is_loopback(url) && !may_be_private => return Err(private(host, port)),
        None => lookup(host)
            .await
            .map_err(|e| format!("{host} cannot be resolved: {e}"))?,
    };
    if found.is_empty() {
        return Err(format!("{host} has no address"));
    }
    for address in &found {
        if is_never_reached(*address) {
            return Err(format!("{host} is not a public address: never fetched"));
        }
        if is_private(*address) && !may_be_private {
            return Err(private(host, port));
        }
    }
    let found = found.into_iter();
    Ok(found
        .map(|address| SocketAddr::new(address, port))
        .collect())
}

fn private(host: &str, port: u16) -> String {
    format!(
        "{host} is in a private network\n\
         hint: only the user's own config allows it: [web] private = [\"{host}:{port}\"]"
    )
}

/// A resolver for reqwest that returns only the public addresses of a name.
pub struct Public;

impl Resolve for Public {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = found.filter(|a| !is_private(a.ip())).collect();
            if found.is_empty() {
                Err(format!("{} has only addresses of a private network", name.as_str()).into())
            } else {
                Ok(Box::new(found.into_iter()) as Addrs)
            }
        })
    }
}
