//! Fetching a page of the web for the model.
//!
//! The model chose the address, perhaps because a page told it to. So each address is checked
//! before a connection, redirects too; nothing of the user is sent; and all that comes back is
//! bounded. What it says is data.
//!
//! Deliberately absent: cookies, a cache, JavaScript, the text of PDF files, a second try.

mod charset;
mod html;
#[cfg(test)]
mod tests;

use std::time::Duration;

use reqwest::header::{
    ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION, RETRY_AFTER,
};
use reqwest::{Response, StatusCode, Url};

use super::address::{host, literal};
use super::client::{self, Kind, reason};
use super::resolve::{Lookup, checked_addresses, of_system};
use crate::core::text::{one_line, size_text};

pub use html::{MainContent, main_content, to_markdown, to_text};

/// Maximum bytes of a body, after decompression.
pub const MAX_BODY_BYTES: usize = 5 * 1024 * 1024;

/// See [`Web::within`].
const FETCHED_WITHIN: Duration = Duration::from_secs(20);

const MAX_REDIRECTS: usize = 5;

/// Maximum bytes of an address.
const MAX_URL_BYTES: usize = 8 * 1024;

/// Maximum bytes of a header that an error quotes.
const QUOTED_BYTES: usize = 80;

/// Parses the address of a page, in the form in which it is judged and requested.
///
/// # Errors
/// The reason why no such page is fetched, for the model.
pub fn parse(address: &str) -> Result<Url, String> {
    if address.len() > MAX_URL_BYTES {
        return Err(format!("longer than {MAX_URL_BYTES} bytes"));
    }
    let mut url = Url::parse(address.trim()).map_err(|e| format!("not a URL: {e}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("only http and https are fetched".to_string());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a user name is never sent".to_string());
    }
    let name = host(&url).to_string();
    if name.is_empty() || name.ends_with('.') {
        return Err("the host is missing".to_string());
    }
    url.set_host(Some(&name))
        .map_err(|e| format!("not a URL: {e}"))?;
    url.set_fragment(None);
    Ok(url)
}

/// Returns whether the port is the usual one of HTTP or HTTPS.
pub fn has_usual_port(url: &Url) -> bool {
    matches!(url.port_or_known_default(), Some(80 | 443))
}

/// A fetched page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The address after redirects.
    pub url: Url,
    pub content: PageContent,
}

/// The text of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageContent {
    Html(String),
    /// Text in another format.
    Text(String),
    /// A redirect to another host, which has to be judged first.
    Elsewhere(Url),
}

/// The means to fetch pages.
#[derive(Clone)]
pub struct Web {
    /// `HOST:PORT` of private servers that the user's own config allows.
    private: Vec<String>,
    lookup: Lookup,
    /// Time limit of all requests for one page.
    within: Duration,
}

impl Web {
    /// Returns the web as this machine's resolver sees it.
    pub fn new(private: Vec<String>) -> Web {
        Web {
            private,
            lookup: of_system(),
            within: FETCHED_WITHIN,
        }
    }

    /// Fetches a page, or the redirect to another host.
    ///
    /// # Errors
    /// The reason for the model: the address must not be reached, the server failed, or the answer
    /// is not text or too large.
    pub async fn fetch(&self, url: Url) -> Result<Page, String> {
        match tokio::time::timeout(self.within, self.follow(url)).await {
            Ok(fetched) => fetched,
            Err(_) => Err(format!(
                "the page did not arrive within {} s",
                self.within.as_secs()
            )),
        }
    }

    async fn follow(&self, mut url: Url) -> Result<Page, String> {
        for _ in 0..=MAX_REDIRECTS {
            let response = self.request(&url).await?;
            let Some(next) = redirect(&url, &response)? else {
                let content = read(&url, response).await?;
                return Ok(Page { url, content });
            };
            if host(&next) != host(&url) || !has_usual_port(&next) && next.port() != url.port() {
                let content = PageContent::Elsewhere(next);
                return Ok(Page { url, content });
            }
            url = next;
        }
        Err(format!(
            "more than {MAX_REDIRECTS} redirects, last to {url}"
        ))
    }

    async fn request(&self, url: &Url) -> Result<Response, String> {
        let port = url.port_or_known_default().unwrap_or(0);
        let place = format!("{}:{port}", host(url));
        let may_be_private = self.private.iter().any(|p| p.eq_ignore_ascii_case(&place));
        // Behind a proxy too: a name that cannot be resolved here cannot be checked.
        let addresses = checked_addresses(url, may_be_private, &self.lookup).await?;
        let mut builder = client::builder(Kind::of(url), None).map_err(|e| e.to_string())?;
        if literal(url).is_none() {
            builder = builder.resolve_to_addrs(host(url), &addresses);
        }
        if url.scheme() == "http" {
            // The system's certificates are not needed, and a small container has none.
            builder = builder.tls_certs_only([]);
        }
        let client = client::build(builder).map_err(|e| e.to_string())?;
        let request = client.get(url.clone());
        let request = request.header(
            ACCEPT,
            "text/html, application/xhtml+xml, text/*, */*;q=0.5",
        );
        let sent = request.send().await;
        sent.map_err(|e| format!("{} cannot be reached: {}", host(url), reason(e)))
    }
}

pub(super) fn header(headers: &HeaderMap, name: HeaderName) -> &str {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}

/// Returns the target of a redirect. `None`: it is none.
fn redirect(url: &Url, response: &Response) -> Result<Option<Url>, String> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let to = header(response.headers(), LOCATION);
    let refused = |why: String| {
        format!(
            "{} redirects to {:?}: {why}",
            host(url),
            one_line(to, QUOTED_BYTES)
        )
    };
    let next = url.join(to).map_err(|e| refused(e.to_string()))?;
    parse(next.as_str()).map(Some).map_err(refused)
}

/// Reads the body of an answer as text.
pub(super) async fn read(url: &Url, mut response: Response) -> Result<PageContent, String> {
    let status = response.status();
    let headers = response.headers().clone();
    if !status.is_success() {
        return Err(in_words(url, status, &headers));
    }
    let encoding = header(&headers, CONTENT_ENCODING);
    if !matches!(encoding, "" | "identity") {
        return Err(format!(
            "the page is encoded as {:?}, and only gzip is understood",
            one_line(encoding, QUOTED_BYTES)
        ));
    }
    let content_type = header(&headers, CONTENT_TYPE).to_string();
    let kind = content_type.split(';').next().unwrap_or_default();
    let kind = kind.trim().to_ascii_lowercase();
    let size = response.content_length();
    if !is_text(&kind) {
        let size = size.map_or_else(String::new, |bytes| format!(" of {}", size_text(bytes)));
        return Err(format!(
            "it is a file{size} of type {:?}: only pages of text are fetched",
            one_line(&kind, QUOTED_BYTES)
        ));
    }
    let too_large = || {
        format!(
            "the page is larger than {}",
            size_text(MAX_BODY_BYTES as u64)
        )
    };
    if size.is_some_and(|bytes| bytes > MAX_BODY_BYTES as u64) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    let failed = |e| format!("the page was cut: {}", reason(e));
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if body.len() + chunk.len() > MAX_BODY_BYTES {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    if body.is_empty() {
        return Err(format!("the page is empty ({status})"));
    }
    let text = charset::decode(&body, &content_type);
    let is_html = matches!(kind.as_str(), "text/html" | "application/xhtml+xml");
    let starts_as_html = || {
        let start = text.trim_start().as_bytes();
        start.get(..5).is_some_and(|start| {
            start.eq_ignore_ascii_case(b"<html") || start.eq_ignore_ascii_case(b"<!doc")
        })
    };
    Ok(if is_html || kind.is_empty() && starts_as_html() {
        PageContent::Html(text)
    } else {
        PageContent::Text(text)
    })
}

/// Returns whether a media type is text. An answer without a type is taken for text.
fn is_text(kind: &str) -> bool {
    let is_listed = matches!(
        kind,
        "" | "application/json" | "application/xml" | "application/xhtml+xml"
    );
    is_listed || kind.starts_with("text/") || kind.ends_with("+json") || kind.ends_with("+xml")
}

/// Returns the meaning of a status other than success.
fn in_words(url: &Url, status: StatusCode, headers: &HeaderMap) -> String {
    let words = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            "the page needs a login, or its server refuses programs".to_string()
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => "there is no such page".to_string(),
        StatusCode::NOT_MODIFIED => {
            "the server says that nothing changed, and sends no page".into()
        }
        StatusCode::TOO_MANY_REQUESTS => match header(headers, RETRY_AFTER) {
            "" => "too many requests: try later".to_string(),
            after => format!(
                "too many requests: the server asks to wait until {:?} (seconds or a date)",
                one_line(after, QUOTED_BYTES)
            ),
        },
        _ if status.is_server_error() => "the server failed".to_string(),
        _ => "the server sent no page".to_string(),
    };
    format!("{words} (HTTP {status}, {url})")
}
