//! Data that the address of a page or a search would carry away, and the repeated fetch of a page.
//!
//! A page may tell the model to put secrets of the session into an address. Rules allow hosts, not
//! addresses, so the text of an address is measured: bytes that the model did not find in a message
//! of the user or in a fetched page. Results of other tools do not count as found, since a command
//! can print anything. Nor does a text that was new in an earlier address: a page may repeat what it
//! was sent.

use std::collections::BTreeMap;

use super::entry::{Block, CallId, Entry, Outcome, Record, Seq};
use super::permission::{Permission, WEB_FETCH, WEB_SEARCH};
use super::tool::{Describe, ToolCall};

/// Maximum bytes of new text in one address.
const MAX_NEW_BYTES: usize = 200;

/// Maximum bytes of new text to one host since the user's last message.
const MAX_TO_HOST_BYTES: usize = 1024;

/// Minimum bytes of a part of an address that counts as found. Shorter ones are in any page.
const MIN_FOUND_BYTES: usize = 12;

/// Time for which a repeated fetch returns the recorded result, milliseconds.
const REPEATED_WITHIN_MS: i64 = 15 * 60 * 1000;

/// Maximum number of domains of which [`SentBefore`] counts the bytes one by one.
const MAX_DOMAINS: usize = 64;

/// The part of a session's log that decides about addresses.
#[derive(Clone, Copy)]
pub struct PageLog<'a> {
    pub context: &'a [Record],
    /// The model of the parent wrote the messages of a subagent.
    pub is_subagent: bool,
    pub describe: Describe,
    pub before: &'a SentBefore,
}

/// Bytes of new text that addresses carried since the user's last message, in the part of the log
/// that left the context. By domain; those of further domains count for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentBefore {
    domains: BTreeMap<String, usize>,
    further: usize,
}

impl SentBefore {
    /// Returns the bytes after the records until `last` leave the context.
    pub fn leaving(log: &PageLog<'_>, last: Seq) -> SentBefore {
        let mut sent = log.before.clone();
        let fetches = Fetches::of(log);
        let new = fetches.all.iter().enumerate().skip(fetches.first_new);
        let leaving: Vec<_> = new
            .filter(|(_, fetch)| fetch.call.reply <= last && fetch.is_sent())
            .collect();
        if leaving.is_empty() {
            return sent;
        }
        let measured = fetches.new_bytes("", "");
        for (at, fetch) in leaving {
            sent.add(domain(&fetch.host), measured.get(at).copied().unwrap_or(0));
        }
        sent
    }

    fn add(&mut self, domain: &str, bytes: usize) {
        if let Some(sum) = self.domains.get_mut(domain) {
            *sum += bytes;
        } else if self.domains.len() < MAX_DOMAINS {
            self.domains.insert(domain.to_string(), bytes);
        } else {
            self.further += bytes;
        }
    }

    fn to(&self, domain: &str) -> usize {
        self.domains.get(domain).copied().unwrap_or(0) + self.further
    }
}

/// Returns the host and the address of a call for the web. A search has no host: the user chose it.
pub fn address_of(permission: &Permission) -> Option<(String, String)> {
    match permission {
        Permission::Fetch { host, url, .. } => Some((host.clone(), url.clone())),
        Permission::Search { query } => Some((String::new(), format!("search://?q={query}"))),
        _ => None,
    }
}

/// A fetch or a search in the log.
struct Fetch<'a> {
    call: CallId,
    host: String,
    url: String,
    /// Number of messages and pages before it.
    said: usize,
    pages: usize,
    /// The end, with its time.
    end: Option<(&'a Outcome, i64)>,
}

impl Fetch<'_> {
    fn is_sent(&self) -> bool {
        !matches!(self.end, Some((Outcome::Denied { .. }, _)))
    }
}

/// The fetches of the context, the user's messages and the texts of pages, oldest first.
#[derive(Default)]
struct Fetches<'a> {
    all: Vec<Fetch<'a>>,
    said: Vec<&'a str>,
    pages: Vec<&'a str>,
    /// The first fetch after the user's last message.
    first_new: usize,
}

impl<'a> Fetches<'a> {
    fn of(log: &PageLog<'a>) -> Fetches<'a> {
        let mut fetches = Fetches::default();
        for record in log.context {
            match &record.entry {
                Entry::Said { .. } if log.is_subagent => {}
                Entry::Said { text, .. } => {
                    fetches.said.push(text);
                    fetches.first_new = fetches.all.len();
                }
                Entry::Replied { blocks, .. } => {
                    fetches.add_calls(log.describe, record.seq, blocks)
                }
                Entry::Finished { call, outcome, .. } => {
                    let fetch = fetches.all.iter_mut().rev().find(|f| f.call == *call);
                    let Some(fetch) = fetch else { continue };
                    fetch.end = Some((outcome, record.at_ms));
                    if let Outcome::Done { output } = outcome {
                        fetches.pages.push(text_of_page(&output.text));
                    }
                }
                _ => {}
            }
        }
        fetches
    }

    fn add_calls(&mut self, describe: Describe, reply: u64, blocks: &[Block]) {
        for (call, name, arguments) in Block::calls(reply, blocks) {
            if name != WEB_FETCH && name != WEB_SEARCH {
                continue;
            }
            let described = describe(name, arguments).ok();
            if let Some((host, url)) = described.and_then(|d| address_of(&d.permission)) {
                self.all.push(Fetch {
                    call,
                    host,
                    url,
                    said: self.said.len(),
                    pages: self.pages.len(),
                    end: None,
                });
            }
        }
    }

    /// Returns the new bytes of each fetch so far, and then those of this one.
    fn new_bytes(&self, host: &str, url: &str) -> Vec<usize> {
        let mut sent = Vec::new();
        let earlier = self.all.iter().map(|fetch| {
            let (said, pages) = (&self.said[..fetch.said], &self.pages[..fetch.pages]);
            (fetch.host.as_str(), fetch.url.as_str(), said, pages)
        });
        let this = (host, url, &self.said[..], &self.pages[..]);
        let all = earlier.chain([this]);
        all.map(|(host, url, said, pages)| new_bytes(host, url, said, pages, &mut sent))
            .collect()
    }
}

/// Returns the text of a page in the result of its fetch. The lines before it have the address,
/// which the model chose.
fn text_of_page(result: &str) -> &str {
    result.split_once("\n\n").map_or("", |(_, text)| text)
}

/// Returns why a person should see the address of a page before it is requested.
pub fn reason_to_ask(host: &str, url: &str, log: &PageLog<'_>) -> Option<String> {
    let fetches = Fetches::of(log);
    let counts = |fetch: &Fetch<'_>| {
        // The call that is judged is in the log too.
        let is_this = fetch.end.is_none() && fetch.url == url;
        fetch.is_sent() && !is_this && domain(&fetch.host) == domain(host)
    };
    let new = fetches.all.iter().enumerate().skip(fetches.first_new);
    let sent: Vec<(usize, &Fetch<'_>)> = new.filter(|(_, fetch)| counts(fetch)).collect();
    let most = if log.is_subagent {
        // Each subagent begins with nothing sent.
        MAX_NEW_BYTES
    } else {
        MAX_TO_HOST_BYTES
    };
    let left_context = log.before.to(domain(host));
    let longest: usize = sent.iter().map(|(_, fetch)| fetch.url.len()).sum();
    if url.len() <= MAX_NEW_BYTES && url.len() + longest + left_context <= most {
        return None;
    }
    let measured = fetches.new_bytes(host, url);
    let bytes = measured.last().copied().unwrap_or(0);
    if host.is_empty() {
        return (bytes > MAX_NEW_BYTES)
            .then(|| format!("its query carries {bytes} bytes that are in no message or page"));
    }
    if bytes > MAX_NEW_BYTES {
        return Some(format!(
            "its address carries {bytes} bytes to `{host}` that are in no message or page"
        ));
    }
    let before: usize = sent.iter().filter_map(|(at, _)| measured.get(*at)).sum();
    let before = before + left_context;
    (bytes + before > most).then(|| {
        format!(
            "addresses of `{}` carried {before} bytes since your last message that are in no \
             message or page",
            domain(host)
        )
    })
}

/// Returns the domain below which a host can receive data in its name: its last two labels.
fn domain(host: &str) -> &str {
    if host.starts_with('[') || host.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return host;
    }
    match host.rmatch_indices('.').nth(1) {
        Some((dot, _)) => &host[dot + 1..],
        None => host,
    }
}

/// Returns the bytes of subdomain, path and query that are in no message and no page. `sent`: the
/// texts that were new in earlier addresses; those of this one are added.
fn new_bytes<'a>(
    host: &'a str,
    url: &'a str,
    said: &[&str],
    pages: &[&str],
    sent: &mut Vec<&'a str>,
) -> usize {
    if is_in(said, url) {
        return 0;
    }
    let path = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = path.find(['/', '?']).map_or("", |at| &path[at..]);
    let subdomain = &host[..host.len() - domain(host).len()];
    let mut new = subdomain.len() + path.len();
    for part in path.split(['/', '?', '&', '=']).chain([subdomain]) {
        if part.len() < MIN_FOUND_BYTES {
            continue;
        }
        if is_in(said, part) || (is_in(pages, part) && !is_in(sent, part)) {
            new -= part.len();
        } else {
            sent.push(part);
        }
    }
    new
}

fn is_in(texts: &[&str], part: &str) -> bool {
    texts.iter().any(|text| text.contains(part))
}

/// Returns the recorded result of the same page or search of a short time ago.
pub fn recorded_page(log: &PageLog<'_>, call: &ToolCall, now_ms: i64) -> Option<Outcome> {
    let described = call.described.as_ref().ok()?;
    let (_, url) = address_of(&described.permission)?;
    let fetches = Fetches::of(log);
    let of_page = fetches.all.iter().rev().filter(|fetch| fetch.url == url);
    of_page
        .filter_map(|fetch| fetch.end)
        .find_map(|(outcome, at_ms)| {
            let is_recent = (0..REPEATED_WITHIN_MS).contains(&now_ms.saturating_sub(at_ms));
            let is_done = matches!(outcome, Outcome::Done { .. });
            (is_recent && is_done).then(|| outcome.clone())
        })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::core::entry::{Output, Record, StopReason, Usage, Via};
    use crate::core::tool::{Class, Described};

    fn fetch_permission(url: &str) -> Permission {
        let host = url.split('/').nth(2).unwrap_or_default();
        Permission::Fetch {
            host: host.into(),
            url: url.into(),
            usual_port: true,
        }
    }

    /// Describes each call as a fetch of its arguments.
    fn describe(name: &str, arguments: &str) -> Result<Described, String> {
        Ok(Described {
            subject: arguments.into(),
            permission: match name {
                "web_fetch" => fetch_permission(arguments),
                "web_search" => Permission::Search {
                    query: arguments.into(),
                },
                _ => Permission::None,
            },
            objection: None,
            class: Class::Idempotent,
            arguments: Arc::default(),
        })
    }

    fn records(entries: Vec<Entry>) -> Vec<Record> {
        let record = |(seq, entry)| Record {
            seq,
            at_ms: 1_000,
            entry,
        };
        (0..).zip(entries).map(record).collect()
    }

    fn log<'a>(context: &'a [Record], before: &'a SentBefore) -> PageLog<'a> {
        PageLog {
            context,
            is_subagent: false,
            describe,
            before,
        }
    }

    fn said(text: &str) -> Entry {
        Entry::Said {
            text: text.into(),
            images: Vec::new(),
            via: Via::Prompt,
            command: None,
            origin: None,
        }
    }

    fn called(name: &str, url: &str) -> Entry {
        Entry::Replied {
            blocks: vec![Block::call(name, url)],
            usage: Usage::default(),
            stop: StopReason::ToolUse,
            model: "m".into(),
            took_ms: 0,
            asked_bytes: 0,
            source_usage: None,
        }
    }

    fn finished(reply: u64, outcome: Outcome) -> Entry {
        Entry::Finished {
            call: CallId { reply, index: 0 },
            outcome,
            fact: None,
            tree: None,
        }
    }

    fn asks(url: &str, entries: Vec<Entry>) -> bool {
        asks_after(url, entries, &SentBefore::default())
    }

    fn asks_after(url: &str, entries: Vec<Entry>, before: &SentBefore) -> bool {
        let host = url.split('/').nth(2).unwrap_or_default();
        reason_to_ask(host, url, &log(&records(entries), before)).is_some()
    }

    /// The parent's model may have the address from a page.
    #[test]
    fn the_prompt_of_a_subagent_makes_nothing_known() {
        let url = format!("https://a.test/{}", "s".repeat(201));
        let (records, before) = (
            records(vec![said(&format!("fetch {url}"))]),
            SentBefore::default(),
        );
        let mut log = log(&records, &before);
        assert!(reason_to_ask("a.test", &url, &log).is_none());
        log.is_subagent = true;
        assert!(reason_to_ask("a.test", &url, &log).is_some());
    }

    #[test]
    fn text_that_is_in_no_message_or_page_asks() {
        let secret = "s".repeat(201);
        let url = format!("https://a.test/{secret}");
        let page = |text: &str| {
            vec![
                called("web_fetch", "https://b.test/"),
                finished(0, Outcome::done(format!("head\n\n{text}"))),
            ]
        };
        assert!(asks(&url, Vec::new()));
        assert!(!asks(&url[..url.len() - 20], Vec::new()));
        assert!(!asks(&url, vec![said(&format!("read {url}"))]));
        assert!(!asks(&url, vec![said(&secret)]));
        assert!(!asks(&url, page(&format!("[next](/{secret})"))));
        // Results of other tools and the model's own words count for nothing.
        let printed = Outcome::done(format!("head\n\n{url}"));
        let read = vec![called("read", "x"), finished(0, printed)];
        assert!(asks(&url, read));
        // A page that repeats what it was sent makes nothing known, nor does the address itself.
        let echo = Outcome::done(format!("https://b.test/{secret}\n\n{secret}"));
        let sent = format!("https://b.test/{secret}");
        assert!(asks(
            &url,
            vec![called("web_fetch", &sent), finished(0, echo)]
        ));
        // Short parts are in any page.
        let short = "s/".repeat(101);
        assert!(asks(&format!("https://a.test/{short}"), page(&secret)));
        // A subdomain carries data as well as a path.
        assert!(asks(&format!("https://{secret}.a.test/"), Vec::new()));
    }

    #[test]
    fn the_second_kibibyte_to_a_host_asks_until_the_next_message() {
        let url = |n: usize| format!("https://h{n}.a.test/{}", "s".repeat(170 + n));
        let fetch = |n: usize| {
            // The host repeats what it was sent, which does not make that known.
            let echo = Outcome::done(format!("head\n\n{}", url(n)));
            [
                called("web_fetch", &url(n)),
                finished(1 + 2 * n as u64, echo),
            ]
        };
        let sent = |calls: usize| -> Vec<Entry> {
            let calls = (0..calls).flat_map(fetch);
            [said("go")].into_iter().chain(calls).collect()
        };
        assert!(!asks(&url(20), sent(4)));
        assert!(asks(&url(20), sent(6)));
        assert!(asks(&url(1), sent(6)));
        assert!(!asks("https://b.test/x", sent(6)));
        let next = sent(6).into_iter().chain([said("on")]).collect();
        assert!(!asks(&url(20), next));
        let denied = Outcome::Denied {
            reason: "no".into(),
        };
        let long = format!("https://a.test/{}", "s".repeat(2_000));
        let refused = vec![said("go"), called("web_fetch", &long), finished(1, denied)];
        assert!(!asks("https://a.test/x", refused));
    }

    #[test]
    fn what_was_sent_counts_after_its_entries_left_the_context() {
        let url = |n: usize| format!("https://a.test/{n}{}", "s".repeat(150));
        let fetch = |n: usize| {
            let page = Outcome::done("head\n\ntext");
            [
                called("web_fetch", &url(n)),
                finished(1 + 2 * n as u64, page),
            ]
        };
        let context: Vec<Entry> = [said("go")]
            .into_iter()
            .chain((0..6).flat_map(fetch))
            .collect();
        let context = records(context);
        let before = SentBefore::default();
        let sent = SentBefore::leaving(&log(&context, &before), 4);
        assert_eq!(sent.to("a.test"), 2 * 152);
        let all = SentBefore::leaving(&log(&context[5..], &sent), 20);
        assert_eq!(all.to("a.test"), 6 * 152);
        assert!(asks_after(&url(7), Vec::new(), &all));
        assert!(!asks_after(&url(7), Vec::new(), &sent));
        assert!(!asks_after("https://b.test/x", Vec::new(), &all));
        // Further domains count for each.
        let mut many = SentBefore::default();
        (0..=MAX_DOMAINS).for_each(|n| many.add(&format!("{n}.test"), 1_000));
        assert!(asks_after(&url(7), Vec::new(), &many));
    }

    #[test]
    fn a_long_query_asks_and_a_found_page_does_not() {
        let asks = |query: &str, entries: Vec<Entry>| {
            let permission = Permission::Search {
                query: query.into(),
            };
            let (host, url) = address_of(&permission).unwrap();
            reason_to_ask(&host, &url, &log(&records(entries), &SentBefore::default())).is_some()
        };
        let secret = "s".repeat(201);
        assert!(asks(&secret, Vec::new()));
        assert!(!asks(&secret, vec![said(&secret)]));
        let many = (0..20).map(|n| called("web_search", &format!("{n}{}", "q".repeat(100))));
        assert!(!asks("tokio select", many.collect()));
        let found = |text: &str| Outcome::done(format!("head\n\n{text}"));
        let url = format!("https://a.test/{secret}");
        let searched = |query: &str| vec![called("web_search", query), finished(0, found(&url))];
        assert!(!super::tests::asks(&url, searched("tokio")));
        // The results may repeat the query.
        assert!(super::tests::asks(&url, searched(&secret)));
    }

    #[test]
    fn a_page_of_a_short_time_ago_is_not_fetched_again() {
        let id = CallId { reply: 9, index: 0 };
        let call = ToolCall::new(id, "web_fetch", "https://a.test/", describe);
        let page = Outcome::Done {
            output: Output::text("page"),
        };
        let recorded = |outcome: &Outcome, call, now_ms| {
            let fetched = records(vec![
                called("web_fetch", "https://a.test/"),
                finished(0, outcome.clone()),
            ]);
            recorded_page(&log(&fetched, &SentBefore::default()), call, now_ms)
        };
        assert_eq!(recorded(&page, &call, 1_001), Some(page.clone()));
        let later = 1_000 + REPEATED_WITHIN_MS;
        assert_eq!(recorded(&page, &call, later), None);
        assert_eq!(recorded(&page, &call, 999), None);
        assert_eq!(recorded(&Outcome::error("404"), &call, 1_001), None);
        let other = ToolCall::new(id, "web_fetch", "https://a.test/b", describe);
        assert_eq!(recorded(&page, &other, 1_001), None);
    }
}
