//! The token of a request: the one of the login at this server, or a newer one after it expired or
//! was refused.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use reqwest::Url;
use reqwest::header::HeaderValue;

use crate::mcp::launch::BridgeConfig;
use crate::mcp::oauth::discover::canonical;
use crate::mcp::oauth::store::{Login, Logins};
use crate::mcp::oauth::token;
use crate::mcp::oauth::web::Web;

pub struct Access {
    url: Url,
    server: String,
    logins: Logins,
    /// The definition contains a key, so no login is used.
    has_key: bool,
    current: Mutex<Option<Login>>,
}

impl Access {
    pub fn new(config: &BridgeConfig, url: &Url) -> Access {
        let is_key = |name: &String| name.eq_ignore_ascii_case("authorization");
        Access {
            url: url.clone(),
            server: canonical(url),
            logins: Logins::of(&config.keys),
            has_key: config.headers.keys().any(is_key),
            current: Mutex::new(None),
        }
    }

    /// Returns whether the definition contains the key. Then a login cannot replace it.
    pub fn has_key(&self) -> bool {
        self.has_key
    }

    /// Returns the value of `Authorization` if the user is logged in.
    pub async fn header(&self) -> Option<HeaderValue> {
        if self.has_key {
            return None;
        }
        let known = self.current().clone();
        let login = known.or_else(|| self.logins.load(&self.server))?;
        let login = match token::is_ending(&login) && login.refresh_token.is_some() {
            true => self.renew(&login).await.unwrap_or(login),
            false => login,
        };
        let header = header(&login);
        *self.current() = Some(login);
        header
    }

    /// Returns whether a token other than the refused one exists. Renews the login if necessary.
    pub async fn is_newer_than(&self, refused: Option<&HeaderValue>) -> bool {
        if self.has_key {
            return false;
        }
        let Some(kept) = self.logins.load(&self.server) else {
            *self.current() = None;
            return false;
        };
        let is_refused = header(&kept).as_ref() == refused;
        let newer = match is_refused {
            false => Some(kept),
            true => self.renew(&kept).await,
        };
        let is_newer = newer.is_some();
        *self.current() = newer;
        is_newer
    }

    async fn renew(&self, old: &Login) -> Option<Login> {
        let renewed = async {
            let web = Web::for_server(&self.url).await?;
            token::refresh(&web, &self.logins, old).await
        };
        match renewed.await {
            Ok(login) => login,
            Err(why) => {
                let _ = writeln!(std::io::stderr(), "the login cannot be renewed: {why}");
                None
            }
        }
    }

    fn current(&self) -> MutexGuard<'_, Option<Login>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn header(login: &Login) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", login.access_token)).ok()?;
    value.set_sensitive(true);
    Some(value)
}
