//! Token requests: with a code, or with a refresh token.

use reqwest::Url;
use serde_json::Value;

use super::client::Client;
use super::store::{Login, Logins};
use super::web::{LoginError, Web};
use crate::store::now_ms;

/// A token that expires within this time is renewed.
const SOON_MS: i64 = 30_000;

/// Maximum size of a token.
const TOKEN_MAX_BYTES: usize = 64 * 1024;

/// The tokens in an answer of an authorization server.
pub struct Tokens {
    pub access: String,
    pub refresh: Option<String>,
    pub expires_at_ms: Option<i64>,
    /// Granted scopes. `None`: the requested ones.
    pub scopes: Option<Vec<String>>,
}

/// Requests tokens.
///
/// # Errors
/// The authorization server issues none.
pub async fn ask(
    web: &Web,
    endpoint: &Url,
    client: &Client,
    grant: &[(&str, &str)],
) -> Result<Tokens, LoginError> {
    let mut form = client.form();
    form.extend_from_slice(grant);
    let basic = client.basic();
    let (status, answer) = web.post_form(endpoint, &form, basic.as_deref()).await?;
    let answer = answer.unwrap_or_default();
    let access = answer["access_token"]
        .as_str()
        .filter(|_| status.is_success());
    let is_bearer = answer["token_type"]
        .as_str()
        .is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    let Some(access) = access.filter(|access| is_usable(access) && is_bearer) else {
        let why = [&answer["error_description"], &answer["error"]];
        let why = why
            .into_iter()
            .find_map(Value::as_str)
            .unwrap_or("no token that can be used");
        return Err(LoginError::new(format!(
            "the authorization server gives no token (HTTP {}): {}",
            status.as_u16(),
            crate::mcp::clean(why, 300)
        )));
    };
    let seconds = match &answer["expires_in"] {
        Value::String(text) => text.parse().ok(),
        number => number.as_i64(),
    };
    let scopes = answer["scope"].as_str().map(words);
    Ok(Tokens {
        access: access.to_string(),
        refresh: answer["refresh_token"].as_str().map(str::to_string),
        expires_at_ms: seconds.map(|s: i64| now_ms().saturating_add(s.saturating_mul(1000))),
        scopes,
    })
}

/// Returns whether the token can be sent in a header.
fn is_usable(token: &str) -> bool {
    !token.is_empty()
        && token.len() <= TOKEN_MAX_BYTES
        && token.bytes().all(|b| b.is_ascii_graphic())
}

pub fn words(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_string).collect()
}

/// Returns whether the token has expired or is about to.
pub fn is_ending(login: &Login) -> bool {
    login
        .expires_at_ms
        .is_some_and(|at| at - SOON_MS <= now_ms())
}

/// Renews a token that expired or was refused. If another process renewed it meanwhile, returns
/// that one. `None`: somebody has to log in.
///
/// # Errors
/// The authorization server cannot be reached, or refuses.
pub async fn refresh(web: &Web, logins: &Logins, old: &Login) -> Result<Option<Login>, LoginError> {
    let failed = |e: std::io::Error| LoginError::new(format!("keeping the login: {e}"));
    let _lock = logins.lock(&old.server).await.map_err(failed)?;
    let current = logins.load(&old.server);
    let Some(mut login) = current else {
        return Ok(None);
    };
    if login.access_token != old.access_token && !is_ending(&login) {
        return Ok(Some(login));
    }
    let Some(refresh) = login.refresh_token.clone() else {
        return Ok(None);
    };
    let endpoint = web.check("token_endpoint", &login.token_endpoint)?;
    let grant = [
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh.as_str()),
        ("resource", login.resource.as_str()),
    ];
    let tokens = ask(web, &endpoint, &login.client, &grant).await?;
    login.access_token = tokens.access;
    login.refresh_token = tokens.refresh.or(Some(refresh));
    login.expires_at_ms = tokens.expires_at_ms;
    login.scopes = tokens.scopes.unwrap_or(login.scopes);
    login.at_ms = now_ms();
    logins.save(&login).map_err(failed)?;
    Ok(Some(login))
}
