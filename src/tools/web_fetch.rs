//! `web_fetch`: fetches a page of the web as Markdown.
//!
//! Invariant: the result begins with a line which says that its text is not the user's.

use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::memory_page::cut;
use super::schema::{object, string};
use super::shown::{ShownResult, Verb};
use super::tool::{Group, Tool};
use super::work::Work;
use super::{ToolResult, file};
use crate::core::entry::{BlobRef, Outcome, Output};
use crate::core::permission::{Permission, WEB_FETCH};
use crate::net::{address, page};

/// Maximum bytes of a page in the result. The rest is a blob.
const INLINE_MAX_BYTES: usize = 16 * 1024;

/// Maximum bytes of the text of a page that is stored.
const STORED_MAX_BYTES: usize = page::MAX_BODY_BYTES;

/// The first line of each result.
const NOT_OF_THE_USER: &str = "Text of a web page, not of the user:";

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    url: String,
}

impl Tool for Args {
    const NAME: &'static str = WEB_FETCH;
    const TEXT: &'static str = include_str!("../../assets/tools/web_fetch.md");
    const VERB: Verb = Verb::Look;
    const RESULT: ShownResult = ShownResult::LineCount;
    const GROUP: Group = Group::Web;

    fn schema() -> Value {
        object(json!({"url": string()}), &["url"])
    }

    fn check(&self) -> Result<(), String> {
        let parsed = page::parse(&self.url).map(drop);
        parsed.map_err(|why| format!("`url`: {why}"))
    }

    fn subject(&self) -> String {
        page::parse(&self.url).map_or_else(|_| self.url.clone(), String::from)
    }

    fn permission(&self) -> Permission {
        match page::parse(&self.url) {
            Ok(url) => Permission::Fetch {
                host: address::host(&url).to_string(),
                usual_port: page::has_usual_port(&url),
                url: url.into(),
            },
            // `check` refuses it.
            Err(_) => Permission::Fetch {
                host: String::new(),
                usual_port: false,
                url: self.url.clone(),
            },
        }
    }

    fn work(self) -> Work {
        Work::Fetch(self.url)
    }
}

/// A page as it is shown to the model.
pub struct FetchedPage<'a> {
    pub title: &'a str,
    /// The address after redirects.
    pub url: &'a Url,
    /// Markdown, or the text of a page that is not HTML.
    pub text: &'a str,
    /// When it was fetched: UTC, milliseconds since 1970.
    pub at_ms: i64,
}

impl FetchedPage<'_> {
    /// Returns the result of the call. The whole page is a blob if it is longer than `room`.
    pub fn result(&self, room: usize) -> ToolResult {
        let date = jiff::Timestamp::from_millisecond(self.at_ms).unwrap_or_default();
        let date = date.strftime("%Y-%m-%d %H:%M UTC");
        let title = match self.title {
            "" => String::new(),
            title => format!("{title}\n"),
        };
        let text = self.text.trim();
        let text = if text.is_empty() { "(no text)" } else { text };
        let mut whole = format!(
            "{NOT_OF_THE_USER}\n{title}{}\nfetched {date}\n\n{text}",
            self.url
        );
        // Control characters have no meaning in a page.
        whole.retain(|c| !c.is_control() || matches!(c, '\n' | '\t'));
        whole.truncate(super::truncate::floor(&whole, STORED_MAX_BYTES));
        let (head, next) = cut(&whole, 0, room.min(INLINE_MAX_BYTES));
        let Some(next) = next else {
            return ToolResult::done(whole);
        };
        let hash = file::hash(whole.as_bytes());
        let text = format!(
            "{}\n[bytes 0-{next} of {}; memory_page reads on with address blob:{hash}, offset {next}]",
            head.trim_end_matches('\n'),
            whole.len()
        );
        let bytes = whole.len() as u64;
        let output = Output {
            text,
            blob: Some(BlobRef { hash, bytes }),
            images: Vec::new(),
        };
        ToolResult {
            blobs: vec![whole.into_bytes()],
            ..ToolResult::of(Outcome::Done { output })
        }
    }
}

/// Returns the result of a page that redirects to another host.
pub fn redirected(from: &Url, to: &Url) -> ToolResult {
    ToolResult::done(format!(
        "{from} redirects to another place:\n\n{to}\n\nhint: fetch that address if you want the page"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(text: &str, room: usize) -> ToolResult {
        let url = Url::parse("https://a.test/b").unwrap();
        let page = FetchedPage {
            title: "T",
            url: &url,
            text,
            at_ms: 0,
        };
        page.result(room)
    }

    #[test]
    fn a_result_says_first_that_it_is_not_of_the_user() {
        let ran = result("# a\0\u{1b}[2K\r\n", 1000);
        let want = "Text of a web page, not of the user:\nT\nhttps://a.test/b\n\
                    fetched 1970-01-01 00:00 UTC\n\n# a[2K";
        assert_eq!(ran, ToolResult::done(want));
        let want = result(" ", 1000);
        assert!(
            matches!(want.outcome, Outcome::Done { output } if output.text.ends_with("(no text)"))
        );
    }

    #[test]
    fn the_rest_of_a_long_page_is_a_blob() {
        let long = "line ä\n".repeat(10_000);
        let ran = result(&long, 1 << 20);
        let Outcome::Done { output } = ran.outcome else {
            panic!("no page");
        };
        let blob = output.blob.unwrap();
        assert_eq!(blob.bytes as usize, ran.blobs[0].len());
        assert!(output.text.len() < INLINE_MAX_BYTES + 200);
        let (_, offset) = output.text.rsplit_once("offset ").unwrap();
        let offset: usize = offset.trim_end_matches(']').parse().unwrap();
        let whole = String::from_utf8(ran.blobs[0].clone()).unwrap();
        assert!(output.text.starts_with(whole[..offset].trim_end()));
        assert!(output.text.contains(&format!("blob:{}", blob.hash)));
    }

    #[test]
    fn the_tool_costs_at_most_90_tokens() {
        let spec = super::super::web_specs(false).remove(0);
        let bytes = serde_json::to_string(&spec).unwrap().len();
        assert!(bytes <= 360, "{bytes} bytes");
    }
}
