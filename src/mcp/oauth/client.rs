//! The identity of rewake for an authorization server: a client that was registered by hand, the
//! address of a document about it, or a new registration.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::discover::Authority;
use super::web::{LoginError, Web, encode};

/// Client data from the user's config.
#[derive(Clone, Default)]
pub struct ClientSettings {
    /// ID of a client that was registered by hand.
    pub id: Option<String>,
    pub secret: Option<String>,
    /// Address of a document that describes the client.
    pub document: Option<String>,
}

/// A client of one authorization server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    pub auth: ClientAuth,
}

/// The authentication method of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    None,
    Basic,
    Post,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.id)
            .field("auth", &self.auth)
            .finish_non_exhaustive()
    }
}

impl ClientAuth {
    fn of_name(name: &str) -> Option<ClientAuth> {
        match name {
            "none" => Some(ClientAuth::None),
            "client_secret_basic" => Some(ClientAuth::Basic),
            "client_secret_post" => Some(ClientAuth::Post),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            ClientAuth::None => "none",
            ClientAuth::Basic => "client_secret_basic",
            ClientAuth::Post => "client_secret_post",
        }
    }

    /// Returns the authentication method that both sides support. An authorization server that
    /// names none supports `client_secret_basic` (RFC 8414).
    fn fitting(authority: &Authority, has_secret: bool) -> ClientAuth {
        let wanted = match has_secret {
            true => [ClientAuth::Basic, ClientAuth::Post, ClientAuth::None],
            false => [ClientAuth::None, ClientAuth::None, ClientAuth::None],
        };
        let takes = |auth: &ClientAuth| authority.auth_methods.iter().any(|m| m == auth.name());
        wanted.into_iter().find(takes).unwrap_or(wanted[0])
    }
}

impl Client {
    /// Returns the value of the `Authorization` header, if the method uses one.
    pub fn basic(&self) -> Option<String> {
        let secret = self
            .secret
            .as_ref()
            .filter(|_| self.auth == ClientAuth::Basic)?;
        let part = |text: &str| encode(&[(text, "")]).trim_end_matches('=').to_string();
        let pair = format!("{}:{}", part(&self.id), part(secret));
        Some(format!("Basic {}", STANDARD.encode(pair)))
    }

    /// Returns the form fields that identify the client.
    pub fn form(&self) -> Vec<(&str, &str)> {
        match (self.auth, &self.secret) {
            (ClientAuth::Basic, Some(_)) => vec![],
            (ClientAuth::Post, Some(secret)) => {
                vec![("client_id", &self.id), ("client_secret", secret)]
            }
            _ => vec![("client_id", &self.id)],
        }
    }
}

/// Finds or registers a client.
///
/// # Errors
/// This authorization server supports no kind of client that is available.
pub async fn client(
    web: &Web,
    authority: &Authority,
    known: &ClientSettings,
    redirect: &str,
    scope: Option<&str>,
) -> Result<Client, LoginError> {
    if let Some(id) = &known.id {
        return Ok(Client {
            id: id.clone(),
            secret: known.secret.clone(),
            auth: ClientAuth::fitting(authority, known.secret.is_some()),
        });
    }
    if let Some(document) = known
        .document
        .as_ref()
        .filter(|_| authority.takes_documents)
    {
        return Ok(Client {
            id: document.clone(),
            secret: None,
            auth: ClientAuth::None,
        });
    }
    match &authority.registration_endpoint {
        Some(endpoint) => register(web, authority, endpoint, redirect, scope).await,
        None => Err(LoginError::new(format!(
            "the authorization server {} registers no clients",
            authority.issuer
        ))
        .with_hint("register one by hand, and name it: --client-id ID")),
    }
}

async fn register(
    web: &Web,
    authority: &Authority,
    endpoint: &reqwest::Url,
    redirect: &str,
    scope: Option<&str>,
) -> Result<Client, LoginError> {
    let first = authority
        .auth_methods
        .iter()
        .find_map(|m| ClientAuth::of_name(m));
    let takes_none = authority.auth_methods.iter().any(|m| m == "none");
    let auth = match first {
        Some(first) if !takes_none => first,
        _ => ClientAuth::None,
    };
    let mut wanted = json!({
        "client_name": "rewake",
        "application_type": "native",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": auth.name(),
    });
    if let Some(scope) = scope {
        wanted["scope"] = json!(scope);
    }
    let (status, answer) = web.post_json(endpoint, &wanted).await?;
    let answer = answer.unwrap_or_default();
    let Some(id) = answer["client_id"].as_str().filter(|_| status.is_success()) else {
        let why = [&answer["error_description"], &answer["error"]];
        let why = why
            .into_iter()
            .find_map(|why| why.as_str())
            .unwrap_or_default();
        return Err(LoginError::new(format!(
            "the authorization server {} registers no client (HTTP {}) {}",
            authority.issuer,
            status.as_u16(),
            crate::mcp::clean(why, 300)
        ))
        .with_hint("register one by hand, and name it: --client-id ID"));
    };
    let secret = answer["client_secret"].as_str().map(str::to_string);
    let given = answer["token_endpoint_auth_method"].as_str();
    let auth = given.and_then(ClientAuth::of_name);
    Ok(Client {
        id: id.to_string(),
        auth: auth.unwrap_or_else(|| ClientAuth::fitting(authority, secret.is_some())),
        secret,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_shows_itself_as_is_wanted() {
        let mut client = Client {
            id: "a b".into(),
            secret: Some("s:é".into()),
            auth: ClientAuth::Basic,
        };
        let basic = client.basic().unwrap();
        let pair = STANDARD
            .decode(basic.strip_prefix("Basic ").unwrap())
            .unwrap();
        assert_eq!(pair, b"a+b:s%3A%C3%A9");
        assert!(client.form().is_empty());
        assert!(!format!("{client:?}").contains("s:é"));
        client.auth = ClientAuth::Post;
        assert_eq!(
            client.form(),
            [("client_id", "a b"), ("client_secret", "s:é")]
        );
        assert_eq!(client.basic(), None);
        client.auth = ClientAuth::None;
        assert_eq!(client.form(), [("client_id", "a b")]);
    }
}
