//! A complete login, from the address of a server to stored tokens.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Url;
use reqwest::header::WWW_AUTHENTICATE;
use uuid::Uuid;

use super::callback::{self, Callback, LoginAnswer};
use super::challenge::Challenge;
use super::client::{self, ClientSettings};
use super::discover::{self, Authority, Resource};
use super::store::{Login, Logins};
use super::token;
use super::web::{LoginError, Web};
use crate::net::client::{self as http, Kind, reason};
use crate::store::now_ms;

/// Parameters of a login.
pub struct LoginRequest<'a> {
    pub server: &'a Url,
    /// The server's challenge. `None`: it is requested first.
    pub challenge: Option<Challenge>,
    /// Client data from the user's config.
    pub known: &'a ClientSettings,
    /// Scopes to request besides those of the server.
    pub scopes: &'a [String],
}

/// A way to bring a person to the authorization server.
pub enum Person<'a> {
    /// Called with the address to open in a browser and the authorization server.
    Browser(&'a (dyn Fn(&Url, &Authority) + Sync)),
    /// No person is present: the address redirects at once. For tests.
    Nobody,
}

/// Logs in, and stores the tokens.
///
/// # Errors
/// The server needs no login, names an address that must not be used, or nobody logs in.
pub async fn login(
    logins: &Logins,
    wanted: &LoginRequest<'_>,
    person: &Person<'_>,
) -> Result<Login, LoginError> {
    let web = Web::for_server(wanted.server).await?;
    let challenge = match &wanted.challenge {
        Some(challenge) => challenge.clone(),
        None => ask_for_challenge(wanted.server).await?,
    };
    let resource = discover::resource(&web, wanted.server, &challenge).await?;
    let authority = discover::authority(&web, wanted.server, &resource).await?;
    let server = discover::canonical(wanted.server);
    let before = logins
        .load(&server)
        .filter(|login| login.issuer == authority.issuer);
    let scope = scope(
        &challenge,
        &resource,
        &authority,
        wanted.scopes,
        before.as_ref(),
    );
    let callback = Callback::listen().await?;
    let known = wanted.known;
    let registered = client::client(
        &web,
        &authority,
        known,
        callback.address(),
        scope.as_deref(),
    );
    let client = registered.await?;

    let verifier = secret();
    let state = secret();
    let mut address = authority.authorization_endpoint.clone();
    address
        .query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &client.id)
        .append_pair("redirect_uri", callback.address())
        .append_pair("code_challenge", &code_challenge(&verifier))
        .append_pair("code_challenge_method", "S256")
        .append_pair("state", &state)
        .append_pair("resource", &resource.resource);
    if let Some(scope) = &scope {
        address.query_pairs_mut().append_pair("scope", scope);
    }
    let answer = match person {
        Person::Browser(show) => {
            show(&address, &authority);
            callback.wait(&state).await?
        }
        Person::Nobody => redirected(&web, &address, &callback).await?,
    };
    let code = code_of(&answer, &state, &authority)?;
    let grant = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", callback.address()),
        ("code_verifier", verifier.as_str()),
        ("resource", resource.resource.as_str()),
    ];
    let tokens = token::ask(&web, &authority.token_endpoint, &client, &grant).await?;
    let asked = token::words(scope.as_deref().unwrap_or_default());
    let login = Login {
        server,
        resource: resource.resource,
        issuer: authority.issuer,
        token_endpoint: authority.token_endpoint.to_string(),
        client,
        access_token: tokens.access,
        refresh_token: tokens.refresh,
        expires_at_ms: tokens.expires_at_ms,
        scopes: tokens.scopes.unwrap_or(asked),
        at_ms: now_ms(),
    };
    let failed = |e: std::io::Error| LoginError::new(format!("keeping the login: {e}"));
    let _lock = logins.lock(&login.server).await.map_err(failed)?;
    logins.save(&login).map_err(failed)?;
    Ok(login)
}

/// Requests the challenge with a message that carries no token.
async fn ask_for_challenge(server: &Url) -> Result<Challenge, LoginError> {
    let built = http::builder(Kind::of(server), None).and_then(http::build);
    let client = built.map_err(|e| LoginError::new(e.to_string()))?;
    let request = serde_json::json!({ "jsonrpc": "2.0", "id": "rewake_login", "method": "initialize",
        "params": crate::mcp::era::initialize_params(crate::mcp::era::HANDSHAKE[0]) });
    let sent = client
        .post(server.clone())
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(request.to_string())
        .send();
    let within = std::time::Duration::from_secs(20);
    let response = match tokio::time::timeout(within, sent).await {
        Ok(sent) => sent.map_err(|e| {
            LoginError::new(format!(
                "the server cannot be reached: {} ({})",
                reason(e),
                super::web::shown(server)
            ))
        })?,
        Err(_) => {
            let shown = super::web::shown(server);
            return Err(LoginError::new(format!(
                "the server does not answer ({shown})"
            )));
        }
    };
    let said = response.headers().get_all(WWW_AUTHENTICATE).iter();
    Ok(Challenge::read(
        said.filter_map(|value| value.to_str().ok()),
    ))
}

/// Returns the scopes to request: those of the challenge, else those of the metadata. Earlier
/// scopes are added, because a new token would lose them.
fn scope(
    challenge: &Challenge,
    resource: &Resource,
    authority: &Authority,
    more: &[String],
    before: Option<&Login>,
) -> Option<String> {
    let mut wanted = match &challenge.scope {
        Some(scope) => token::words(scope),
        None => resource.scopes.clone(),
    };
    let had = before.map(|login| login.scopes.clone()).unwrap_or_default();
    wanted.extend(had);
    wanted.extend_from_slice(more);
    // Without this scope, some servers issue tokens that cannot be renewed.
    let offline = "offline_access".to_string();
    if !wanted.is_empty() && authority.scopes.contains(&offline) {
        wanted.push(offline);
    }
    let mut seen = BTreeSet::new();
    wanted.retain(|scope| seen.insert(scope.clone()));
    (!wanted.is_empty()).then(|| wanted.join(" "))
}

async fn redirected(
    web: &Web,
    address: &Url,
    callback: &Callback,
) -> Result<LoginAnswer, LoginError> {
    let to = web.redirect(address).await?;
    if !to.as_str().starts_with(callback.address()) {
        return Err(LoginError::new(format!(
            "the authorization server wants a person: it redirects to {}",
            super::web::shown(&to)
        )));
    }
    Ok(callback::read(&to))
}

/// Returns the code, if the answer belongs to this login and this authorization server (RFC 9207).
fn code_of<'a>(
    answer: &'a LoginAnswer,
    state: &str,
    authority: &Authority,
) -> Result<&'a str, LoginError> {
    if answer.state.as_deref() != Some(state) {
        return Err(LoginError::new(
            "the browser brought the answer of another login",
        ));
    }
    let is_right = match &answer.iss {
        Some(iss) => *iss == authority.issuer,
        None => !authority.says_issuer,
    };
    if !is_right {
        return Err(LoginError::new(
            "the answer is not that of the authorization server that was asked",
        )
        .with_hint("somebody may have come between: nothing was sent to it"));
    }
    match (&answer.code, &answer.error) {
        (_, Some(error)) => Err(LoginError::new(format!(
            "the authorization server refuses: {}",
            crate::mcp::clean(error, 200)
        ))),
        (Some(code), None) => Ok(code),
        (None, None) => Err(LoginError::new("the authorization server gave no code")),
    }
}

/// Returns 244 random bits as letters and digits.
fn secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// Returns the code challenge of RFC 7636, S256.
fn code_challenge(verifier: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, verifier.as_bytes());
    URL_SAFE_NO_PAD.encode(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(says_issuer: bool) -> Authority {
        let url = Url::parse("https://a.b/x").unwrap();
        Authority {
            issuer: "https://a.b".into(),
            authorization_endpoint: url.clone(),
            token_endpoint: url,
            registration_endpoint: None,
            says_issuer,
            takes_documents: false,
            auth_methods: vec![],
            scopes: vec![],
        }
    }

    /// The example of RFC 7636, appendix B.
    #[test]
    fn a_code_is_bound_to_its_verifier() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(
            code_challenge(verifier),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
        assert!(secret().len() >= 43 && secret() != secret());
    }

    #[test]
    fn an_answer_of_another_login_or_another_server_is_refused() {
        let answer = |state: &str, iss: Option<&str>| LoginAnswer {
            code: Some("c".into()),
            state: Some(state.into()),
            iss: iss.map(str::to_string),
            error: None,
        };
        let (quiet, says) = (authority(false), authority(true));
        assert!(code_of(&answer("s", None), "s", &quiet).is_ok());
        assert!(code_of(&answer("s", Some("https://a.b")), "s", &says).is_ok());
        assert!(code_of(&answer("s", Some("https://a.b/")), "s", &quiet).is_err());
        assert!(code_of(&answer("s", None), "s", &says).is_err());
        assert!(code_of(&answer("t", None), "s", &quiet).is_err());
        let mut refused = answer("s", Some("https://evil"));
        refused.error = Some("read this".into());
        let why = code_of(&refused, "s", &quiet).unwrap_err();
        assert!(!why.message.contains("read this"), "{why}");
        refused.iss = None;
        assert!(
            code_of(&refused, "s", &quiet)
                .unwrap_err()
                .message
                .contains("read this")
        );
    }

    #[test]
    fn scopes_are_those_that_the_server_names_and_those_that_were_granted() {
        let resource = Resource {
            resource: "r".into(),
            issuer: None,
            scopes: vec!["all".into()],
        };
        let named = Challenge {
            scope: Some("a b".into()),
            ..Challenge::default()
        };
        let mut authority = authority(false);
        let none = Challenge::default();
        let asked = |challenge: &Challenge, authority: &Authority, more: &[String]| {
            scope(challenge, &resource, authority, more, None)
        };
        assert_eq!(asked(&named, &authority, &[]).as_deref(), Some("a b"));
        assert_eq!(asked(&none, &authority, &[]).as_deref(), Some("all"));
        assert_eq!(
            asked(&named, &authority, &["b".into(), "c".into()]).as_deref(),
            Some("a b c")
        );
        authority.scopes = vec!["offline_access".into()];
        assert_eq!(
            asked(&named, &authority, &[]).as_deref(),
            Some("a b offline_access")
        );
        let empty = Resource {
            scopes: vec![],
            ..resource.clone()
        };
        assert_eq!(scope(&none, &empty, &authority, &[], None), None);
    }
}
