//! Searching the web with the SearXNG server of the user's config.
//!
//! Source of the format: docs.searxng.org/dev/search_api.html. The user chose the server, so its
//! address is not checked; a redirect is not followed. The answer is data of strangers.

use std::time::Duration;

use reqwest::header::ACCEPT;
use reqwest::{StatusCode, Url};
use serde::Deserialize;
use serde_json::Value;

use super::client::{self, Kind, reason};
use super::page::{self, PageContent};
use crate::core::half_character::without_halves;
use crate::core::text::one_line;

/// Maximum number of results.
const MAX_RESULTS: usize = 10;

const MAX_TITLE_CHARS: usize = 200;
const MAX_EXCERPT_CHARS: usize = 300;
const MAX_URL_BYTES: usize = 1024;

/// Time limit of a search.
const SEARCHED_WITHIN: Duration = Duration::from_secs(20);

/// One result, each part in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchResult {
    pub title: String,
    /// An address of http or https.
    pub url: String,
    pub excerpt: String,
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<AnswerResult>,
    #[serde(default)]
    unresponsive_engines: Vec<Value>,
}

#[derive(Deserialize)]
struct AnswerResult {
    url: Option<String>,
    title: Option<String>,
    content: Option<String>,
}

/// Searches the web. `server`: the address of the search page.
///
/// # Errors
/// The reason for the model: the server cannot be reached, refused the search, or its answer is not
/// that of SearXNG.
pub async fn search(server: &str, query: &str) -> Result<Vec<SearchResult>, String> {
    let within = tokio::time::timeout(SEARCHED_WITHIN, ask(server, query));
    let body = match within.await {
        Ok(body) => body?,
        Err(_) => {
            let limit = SEARCHED_WITHIN.as_secs();
            return Err(format!("the search server did not answer within {limit} s"));
        }
    };
    results(&body)
}

async fn ask(server: &str, query: &str) -> Result<String, String> {
    let mut url =
        Url::parse(server).map_err(|e| format!("`[web] search_url` is not a URL: {e}"))?;
    url.query_pairs_mut()
        .append_pair("q", query)
        .append_pair("format", "json");
    let builder = client::builder(Kind::of(&url), None).map_err(|e| e.to_string())?;
    let client = client::build(builder).map_err(|e| e.to_string())?;
    let sent = client.get(url.clone()).header(ACCEPT, "application/json");
    let response = sent.send().await;
    let response =
        response.map_err(|e| format!("the search server cannot be reached: {}", reason(e)))?;
    match response.status() {
        status if status.is_redirection() => Err(format!(
            "the search server redirects (HTTP {status}), which is not followed\nhint: the user \
             corrects `[web] search_url`"
        )),
        // SearXNG's answer to a format that its settings do not have.
        StatusCode::FORBIDDEN => Err(
            "the search server refuses JSON (HTTP 403)\nhint: its owner adds `json` to \
             `search.formats` in settings.yml"
                .to_string(),
        ),
        StatusCode::TOO_MANY_REQUESTS => {
            Err("the search server has had too many requests (HTTP 429): try later".to_string())
        }
        status if !status.is_success() => Err(format!("the search server failed (HTTP {status})")),
        _ => match page::read(&url, response).await? {
            PageContent::Text(text) => Ok(text),
            PageContent::Html(_) | PageContent::Elsewhere(_) => Err(
                "the search server sent a page instead of JSON\nhint: `[web] search_url` must be \
                 the search page of a SearXNG server, with `json` in its `search.formats`"
                    .to_string(),
            ),
        },
    }
}

/// Returns the results in an answer of the server.
fn results(body: &str) -> Result<Vec<SearchResult>, String> {
    let answer: Answer = serde_json::from_str(&without_halves(body))
        .map_err(|e| format!("the answer of the search server is not that of SearXNG: {e}"))?;
    let shown = answer.results.into_iter().filter_map(shown);
    let shown: Vec<SearchResult> = shown.take(MAX_RESULTS).collect();
    if shown.is_empty() && !answer.unresponsive_engines.is_empty() {
        let failed = Value::Array(answer.unresponsive_engines).to_string();
        return Err(format!(
            "no engine of the search server answered: {}",
            one_line(&failed, MAX_EXCERPT_CHARS)
        ));
    }
    Ok(shown)
}

fn shown(result: AnswerResult) -> Option<SearchResult> {
    let url = Url::parse(&result.url?).ok()?;
    if !matches!(url.scheme(), "http" | "https") || url.as_str().len() > MAX_URL_BYTES {
        return None;
    }
    let line = |text: Option<String>, chars| one_line(&text.unwrap_or_default(), chars);
    Some(SearchResult {
        title: line(result.title, MAX_TITLE_CHARS),
        url: url.into(),
        excerpt: line(result.content, MAX_EXCERPT_CHARS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer of searx 1.1, from which SearXNG has the format.
    const RECORDED: &str = include_str!("../../tests/fixtures/searxng.json");

    #[test]
    fn results_are_read_from_a_recorded_answer() {
        let found = results(RECORDED).unwrap();
        assert_eq!(found.len(), MAX_RESULTS);
        assert_eq!(found[0].url, "https://tokio.rs/tokio/tutorial/select");
        assert!(found.iter().all(|r| !r.title.is_empty()));
        assert!(found.iter().all(|r| r.url.starts_with("http")));
        let texts = || found.iter().flat_map(|r| [&r.title, &r.excerpt]);
        assert!(texts().all(|text| text.chars().all(|c| !c.is_control())));
        assert!(texts().all(|text| text.chars().count() <= MAX_EXCERPT_CHARS + 1));
    }

    #[test]
    fn an_answer_that_is_not_one_says_so() {
        let why = |body: &str| results(body).unwrap_err();
        assert!(why("{}").contains("not that of SearXNG: missing field"));
        assert!(why("[1").contains("not that of SearXNG"));
        let failed = r#"{"results": [], "unresponsive_engines": [["brave", "timeout"]]}"#;
        assert_eq!(
            why(failed),
            r#"no engine of the search server answered: [["brave","timeout"]]"#
        );
        let none = r#"{"results": [{"url": "javascript:1", "title": "x"}, {"title": "y"}]}"#;
        assert_eq!(results(none), Ok(Vec::new()));
    }
}
