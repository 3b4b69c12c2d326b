//! `rewake mcp login` and `logout`: login at a server over HTTP.

use std::collections::BTreeMap;

use clap::Args;
use reqwest::Url;
use tokio::runtime::Runtime;

use crate::config::mcp::{bare_url, find};
use crate::mcp::bridge;
use crate::mcp::launch::BridgeConfig;
use crate::mcp::oauth::challenge::Challenge;
use crate::mcp::oauth::client::ClientSettings;
use crate::mcp::oauth::discover::{Authority, canonical};
use crate::mcp::oauth::login::{self as oauth, LoginRequest, Person};
use crate::mcp::oauth::store::{Login, Logins};
use crate::mcp::oauth::web::LoginError;
use crate::net::browser;
use crate::report::{CliError, exit, line, note};
use crate::session::AppContext;

#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct LoginArgs {
    /// Name or address of the server
    #[arg(value_name = "NAME|URL")]
    server: String,
    /// Request this scope too (repeatable)
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
    /// Print the address instead of opening a browser
    #[arg(long)]
    no_browser: bool,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct LogoutArgs {
    /// Name or address of the server
    #[arg(value_name = "NAME|URL")]
    server: String,
}

/// Who we are to an authorization server; without these, rewake registers itself.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub(crate) struct ClientArgs {
    /// Use a registered client ID
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// Read the client secret from this environment variable
    #[arg(long, value_name = "VARIABLE", requires = "client_id")]
    client_secret_env: Option<String>,
    /// Use the address of a client metadata document
    #[arg(long, value_name = "URL")]
    client_metadata: Option<String>,
}

impl ClientArgs {
    fn known(&self, ctx: &AppContext) -> Result<ClientSettings, CliError> {
        let secret = match &self.client_secret_env {
            None => None,
            Some(name) => Some(
                ctx.env
                    .var(name)
                    .map(str::to_string)
                    .ok_or_else(|| CliError::usage(format!("the variable {name} is not set")))?,
            ),
        };
        Ok(ClientSettings {
            id: self.client_id.clone(),
            secret,
            document: self.client_metadata.clone(),
        })
    }
}

pub(super) fn login(ctx: &AppContext, args: &LoginArgs) -> Result<u8, CliError> {
    let address = address_of(ctx, &args.server)?;
    let known = args.client.known(ctx)?;
    let wanted = LoginRequest {
        server: &address,
        challenge: None,
        known: &known,
        scopes: &args.scope,
    };
    let show = |url: &Url, authority: &Authority| {
        let caution = caution(url, &authority.token_endpoint);
        note("open this address in a browser to log in:");
        line(url.as_str());
        match caution {
            // An attacker may show an honest site's login page to get tokens for itself.
            Some(words) => note(&words),
            None if !args.no_browser => open_in_browser(url),
            None => {}
        }
    };
    let logins = Logins::of(&ctx.paths.keys_dir());
    let runtime = runtime()?;
    let done = runtime.block_on(oauth::login(&logins, &wanted, &Person::Browser(&show)));
    let login = done.map_err(login_error)?;
    line(&format!("logged in at {}{}", login.issuer, granted(&login)));
    Ok(exit::DONE)
}

pub(super) fn logout(ctx: &AppContext, args: &LogoutArgs) -> Result<u8, CliError> {
    let address = address_of(ctx, &args.server)?;
    let logins = Logins::of(&ctx.paths.keys_dir());
    let failed = |e: std::io::Error| CliError::failed(format!("the login cannot be removed: {e}"));
    match logins.remove(&canonical(&address)).map_err(failed)? {
        0 => note(&format!("nobody is logged in at {}", args.server)),
        _ => line(&format!("logged out of {}", args.server)),
    }
    Ok(exit::DONE)
}

/// Logs in without a person.
pub(super) async fn log_in(
    ctx: &AppContext,
    server: &str,
    challenge: Challenge,
    client: &ClientArgs,
) -> Result<Login, CliError> {
    let address = server_address(server)?;
    let wanted = LoginRequest {
        server: &address,
        challenge: Some(challenge),
        known: &client.known(ctx)?,
        scopes: &[],
    };
    let logins = Logins::of(&ctx.paths.keys_dir());
    let login = oauth::login(&logins, &wanted, &Person::Nobody).await;
    login.map_err(login_error)
}

/// Returns a warning if the login page and the token endpoint have different origins. Then no
/// browser is opened, and the user decides whether to continue.
fn caution(page: &Url, tokens: &Url) -> Option<String> {
    let host = |url: &Url| crate::mcp::clean(url.host_str().unwrap_or_default(), 100);
    (page.origin() != tokens.origin()).then(|| {
        format!(
            "caution: the page is at {}, and the login goes to {}: go on only if both belong to who you \
             want to log in at",
            host(page),
            host(tokens)
        )
    })
}

fn granted(login: &Login) -> String {
    match login.scopes.is_empty() {
        true => String::new(),
        false => format!(" for {}", crate::mcp::clean(&login.scopes.join(" "), 300)),
    }
}

fn login_error(error: LoginError) -> CliError {
    CliError::failed(error.message).with_any_hint(error.hint)
}

/// Returns the address of a configured server, or the address that was typed.
fn address_of(ctx: &AppContext, server: &str) -> Result<Url, CliError> {
    if server.contains("://") {
        return server_address(server);
    }
    let found = find(&ctx.env, &ctx.loaded);
    let configured = found.servers.iter().find(|found| found.name == server);
    let Some(configured) = configured else {
        let names: Vec<&str> = found
            .servers
            .iter()
            .map(|found| found.name.as_str())
            .collect();
        let trouble = CliError::usage(format!("there is no server {server:?}"));
        return Err(match names.is_empty() {
            true => trouble.with_hint("name its address: rewake mcp login https://…"),
            false => trouble.with_hint(format!("there are: {}", names.join(", "))),
        });
    };
    match &configured.server.url {
        Some(url) => server_address(url),
        None => Err(CliError::usage(format!(
            "the server {server} is not spoken with over HTTP: there is nothing to log in to"
        ))),
    }
}

/// Parses the address of a server, and checks that rewake may connect to it.
pub(super) fn server_address(url: &str) -> Result<Url, CliError> {
    let config = BridgeConfig {
        name: crate::mcp::clean(&bare_url(url), 100),
        url: url.to_string(),
        headers: BTreeMap::new(),
        keys: std::path::PathBuf::new(),
    };
    bridge::address(&config).map_err(|why| {
        CliError::usage(why).with_hint("a server has an address such as https://example.com/mcp")
    })
}

pub(super) fn runtime() -> Result<Runtime, CliError> {
    crate::net::runtime().map_err(|e| CliError::failed(format!("cannot start the runtime: {e}")))
}

/// Opens a browser if there is one. The address is printed in any case.
fn open_in_browser(url: &Url) {
    let _ = browser::open(url);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_that_goes_to_another_host_is_cautioned_about() {
        let url = |text: &str| Url::parse(text).unwrap();
        let page = url("https://login.example/authorize");
        assert_eq!(caution(&page, &url("https://login.example/token")), None);
        let words = caution(&page, &url("https://evil.example/token")).unwrap();
        assert!(words.contains("login.example") && words.contains("evil.example"));
    }
}
