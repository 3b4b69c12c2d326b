//! `memory_page`: shows an entry, a range of entries or a blob in full, page by page.
//!
//! Every page but the last ends with a line that says how to read on. The next page starts at the
//! entry where this one ended, so a page costs the same anywhere in a range.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::history_view::{HistoryView, PastScope, error_text, when};
use super::outline::outline;
use super::printable;
use super::schema::{integer, object, one_of, string};
use super::shown::Verb;
use super::tool::{Group, Tool};
use super::truncate::floor;
use super::whole::WholeNumber;
use super::work::Work;
use crate::core::address::Address;
use crate::core::entry::{Block, Entry, Fact, Image, Outcome, Output, Record, Seq};
use crate::core::permission::{LookBack, Permission, Reach};
use crate::core::plain_text::plain_text;

/// Number of entries that are read from the store at once.
const ENTRIES_AT_ONCE: u64 = 32;

/// Bytes reserved for headings and for the line that says how to read on.
const FRAME_BYTES: usize = 250;

/// Minimum size of a page, for any requested limit.
const MIN_PAGE_BYTES: usize = 200;

/// The form in which the output of a command is returned.
type Form = fn(&str) -> String;

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    /// The address: see [`crate::core::address`].
    address: String,
    /// ID of another session than this one.
    session: Option<String>,
    /// Where that session is searched for.
    scope: Option<PastScope>,
    /// Offset in bytes into the first entry, or into the blob.
    offset: Option<WholeNumber>,
    /// Size of a page in bytes.
    limit: Option<WholeNumber>,
}

impl Tool for Args {
    const NAME: &'static str = "memory_page";
    const TEXT: &'static str = include_str!("../../assets/tools/memory_page.md");
    const VERB: Verb = Verb::Look;
    const GROUP: Group = Group::Memory;
    const LEFT_OUT: &'static [&'static str] = &["session", "scope"];

    fn schema() -> Value {
        let properties = json!({
            "address": string(), "session": string(),
            "scope": one_of(&PastScope::NAMES), "offset": integer(), "limit": integer(),
        });
        object(properties, &["address"])
    }

    fn subject(&self) -> String {
        self.address.clone()
    }

    fn permission(&self) -> Permission {
        let reach = match (self.scope, &self.session, Address::parse(&self.address)) {
            (Some(PastScope::All), ..) => Reach::All,
            (_, None, Ok(Address::Entries { session: None, .. })) => Reach::Session,
            _ => Reach::Workspace,
        };
        Permission::LookBack {
            tool: LookBack::Memory,
            reach,
        }
    }

    fn work(self) -> Work {
        Work::LookBack(Box::new(move |past| run(&self, past)))
    }
}

fn run(args: &Args, past: &mut HistoryView<'_>) -> Result<String, String> {
    let most = past.room.saturating_sub(FRAME_BYTES).max(MIN_PAGE_BYTES);
    let size = |n: WholeNumber| usize::try_from(n.0).unwrap_or(usize::MAX);
    let limit = args.limit.map_or(most, size).clamp(MIN_PAGE_BYTES, most);
    let offset = args.offset.map_or(0, size);
    match Address::parse(&args.address)? {
        Address::Blob(hash) => blob_page(past, &hash, args.scope, offset, limit),
        Address::Entries {
            session,
            first,
            last,
        } => {
            let session = match session.as_deref().or(args.session.as_deref()) {
                Some(id) => past.session_named(id.trim(), args.scope)?,
                None => past.session.to_string(),
            };
            let range = Range {
                session,
                first,
                last,
            };
            range.page(past, offset, limit)
        }
    }
}

fn blob_page(
    past: &HistoryView<'_>,
    hash: &str,
    scope: Option<PastScope>,
    offset: usize,
    limit: usize,
) -> Result<String, String> {
    let bytes = past.store.blob(hash).map_err(error_text)?;
    let refers = || past.store.refers_to(past.session, hash);
    let is_open = bytes.is_none() || scope.is_some() || refers().map_err(error_text)?;
    let bytes = bytes.filter(|_| is_open).ok_or_else(|| {
        format!("there is no blob {hash} in this project; with scope all the user is asked")
    })?;
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(format!("blob {hash} is not text"));
    };
    // A result names offsets in the plain text of its blob, one of an older version in the printed text.
    let printed = printable(&text);
    let plain = plain_text(&printed).into_owned();
    let is_of_plain = offset < plain.len().max(1);
    let text = if is_of_plain { plain } else { printed };
    is_within(&text, offset, "the blob")?;
    let (part, next) = cut(&text, offset, limit);
    Ok(match next {
        None => part.to_string(),
        Some(next) => format!(
            "{part}\n[bytes {}-{next} of {}; read on with address blob:{hash}, offset {next}]",
            floor(&text, offset),
            text.len()
        ),
    })
}

/// Fails if nothing is at the offset.
fn is_within(text: &str, offset: usize, what: &str) -> Result<(), String> {
    match offset > 0 && offset >= text.len() {
        true => Err(format!(
            "{what} has {} bytes: there is nothing at offset {offset}",
            text.len()
        )),
        false => Ok(()),
    }
}

/// Returns the part of the text from `offset`, and the offset of the next one. The cut is after a
/// line end if there is one in the last quarter.
pub(super) fn cut(text: &str, offset: usize, limit: usize) -> (&str, Option<usize>) {
    let start = floor(text, offset);
    let end = floor(text, start.saturating_add(limit));
    if end == text.len() {
        return (&text[start..], None);
    }
    let earliest = end - (end - start) / 4;
    let end = match text[start..end].rfind('\n') {
        Some(at) if start + at + 1 > earliest => start + at + 1,
        _ => end,
    };
    (&text[start..end], Some(end))
}

struct Range {
    session: String,
    first: Seq,
    last: Seq,
}

impl Range {
    fn page(&self, past: &HistoryView<'_>, offset: usize, limit: usize) -> Result<String, String> {
        let mut page = String::new();
        let mut skip = offset;
        let mut from = self.first;
        while from <= self.last {
            let upto = self.last.min(from.saturating_add(ENTRIES_AT_ONCE - 1));
            let records = match past.store.records(&self.session, from..=upto) {
                // The range ends after the last entry.
                Err(_) if from > self.first => break,
                records => records.map_err(error_text)?,
            };
            let ended = (records.len() as u64) < upto - from + 1;
            for record in &records {
                if !page.is_empty() && page.len() + 100 > limit {
                    return Ok(self.to_be_continued(past, page, record.seq, 0));
                }
                let text = match &record.entry {
                    Entry::Said { .. } if past.was_refused(&self.session, record.seq)? => {
                        "[not sent: a hook refused this message]".to_string()
                    }
                    _ => text_at(record, past, skip)?,
                };
                let room = limit.saturating_sub(page.len()).max(1);
                is_within(&text, skip, &format!("entry {}", record.seq))?;
                let (part, next) = cut(&text, std::mem::take(&mut skip), room);
                page.push_str(&heading(record));
                page.push_str(part.trim_end_matches('\n'));
                page.push('\n');
                if let Some(next) = next {
                    return Ok(self.to_be_continued(past, page, record.seq, next));
                }
            }
            if ended {
                break;
            }
            from = upto + 1;
        }
        Ok(page)
    }

    fn to_be_continued(
        &self,
        past: &HistoryView<'_>,
        page: String,
        seq: Seq,
        offset: usize,
    ) -> String {
        let range = match seq == self.last {
            true => format!("{seq}"),
            false => format!("{seq}-{}", self.last),
        };
        let address = match (self.session == past.session, seq == self.last) {
            (true, true) => format!("entry {range}"),
            (true, false) => format!("entries {range}"),
            (false, _) => format!("{}:{range}", self.session),
        };
        format!("{page}[read on with address {address}, offset {offset}]")
    }
}

fn heading(record: &Record) -> String {
    let what = match &record.entry {
        Entry::Said { .. } => "user".to_string(),
        Entry::Replied { .. } => "agent".to_string(),
        Entry::Finished { call, .. } => {
            format!("result of call {} of entry {}", call.index + 1, call.reply)
        }
        Entry::Noted { .. } => "note".to_string(),
        Entry::Hooked { .. } => "output of hooks".to_string(),
        Entry::Compacted { first, last, .. } => format!("summary of entries {first}-{last}"),
        Entry::Continued { .. } => "continuation note".to_string(),
        other => other.kind().to_string(),
    };
    format!("[{}] {what}, {}\n", record.seq, when(record.at_ms))
}

/// Returns the full text of an entry. An offset of an older version counts in the printed text, so an
/// offset after the plain text is one in that.
fn text_at(record: &Record, past: &HistoryView<'_>, offset: usize) -> Result<String, String> {
    let plain = whole(record, past, |text| plain_text(text).into_owned())?;
    if offset < plain.len().max(1) {
        return Ok(plain);
    }
    whole(record, past, str::to_string)
}

/// Returns the full text of an entry, with the output of a command in this form. Text that was stored
/// as a blob is read from there.
fn whole(record: &Record, past: &HistoryView<'_>, form: Form) -> Result<String, String> {
    let text = match &record.entry {
        Entry::Said { text, images, .. } => format!("{text}{}", images_of(images)),
        Entry::Replied { blocks, .. } => {
            let parts: Vec<String> = blocks.iter().filter_map(block).collect();
            parts.join("\n")
        }
        Entry::Finished { outcome, fact, .. } => match fact {
            Some(Fact::Remembered { memory }) => memory.text.clone(),
            fact => result(outcome, fact.as_ref(), past, form)?,
        },
        Entry::Noted { text, .. }
        | Entry::Checked {
            told: Some(text), ..
        } => text.clone(),
        Entry::Compacted { summary, .. } => summary.clone(),
        Entry::Continued { note, .. } => note.clone(),
        Entry::Freed { results } => {
            let lines: Vec<&str> = results.iter().map(|r| r.line.as_str()).collect();
            lines.join("\n")
        }
        Entry::Stopped {
            draft: Some(draft), ..
        } => draft.clone(),
        other => {
            let mut fields = serde_json::to_value(other).map_err(|e| e.to_string())?;
            // The heading names the kind.
            if let Some(fields) = fields.as_object_mut() {
                fields.remove("kind");
            }
            outline(&fields)
        }
    };
    Ok(printable(&text))
}

fn block(block: &Block) -> Option<String> {
    match block {
        Block::Text { text, .. } => Some(text.clone()),
        Block::Thinking { text, .. } if text.is_empty() => None,
        Block::Thinking { text, .. } => Some(format!("(thinking) {text}")),
        Block::Call {
            name, arguments, ..
        } => Some(match serde_json::from_str(arguments) {
            Ok(arguments) => format!("calls {name}\n{}", outline(&arguments)),
            Err(_) => format!("calls {name} {arguments}"),
        }),
    }
}

fn result(
    outcome: &Outcome,
    fact: Option<&Fact>,
    past: &HistoryView<'_>,
    form: Form,
) -> Result<String, String> {
    let output = match outcome {
        Outcome::Done { output }
        | Outcome::Error { output }
        | Outcome::Interrupted { output, .. } => output,
        Outcome::Denied { .. } => return Ok(outcome.to_model_text().0),
    };
    let Some(blob) = &output.blob else {
        let (text, _) = outcome.to_model_text();
        // A file that the model read is shown as it is.
        let text = match fact {
            Some(Fact::Ran { .. }) => form(&text),
            _ => text,
        };
        return Ok(format!("{text}{}", images_of(&output.images)));
    };
    let bytes = past.store.blob(&blob.hash).map_err(error_text)?;
    let text = bytes.and_then(|b| String::from_utf8(b).ok());
    let text = text.map(|text| form(&text));
    Ok(match (text, outcome) {
        (Some(text), Outcome::Interrupted { why, .. }) => format!("{text}\n[interrupted: {why}]"),
        (Some(text), _) => {
            let ending: String = ending(output)
                .filter(|line| !text.trim_end().ends_with(line))
                .map(|line| format!("\n{line}"))
                .collect();
            format!("{}{ending}", text.trim_end_matches('\n'))
        }
        // Without the blob, only the head and the tail are left.
        (None, _) => outcome.to_model_text().0,
    })
}

/// Returns the lines of a result that follow its output: how a command ended, and the notes on it.
fn ending(output: &Output) -> impl Iterator<Item = &str> {
    let is_told = |line: &&str| line.starts_with('[') && line.ends_with(']');
    let told = output.text.lines().rev().take_while(is_told).count();
    let lines = output.text.lines().count();
    output.text.lines().skip(lines - told)
}

fn images_of(images: &[Image]) -> String {
    let line = |i: &Image| format!("\n[{}, {} bytes]", i.media_type, i.blob.bytes);
    images.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::history_view::test_support::*;
    use super::*;

    /// Reads all pages from this address on and joins them, as a model would.
    fn read_on(past: &mut Sessions, address: &str, limit: u64) -> (String, usize) {
        let (mut address, mut offset) = (address.to_string(), 0_u64);
        let (mut whole, mut pages) = (String::new(), 0);
        loop {
            let args = json!({"address": address, "offset": offset, "limit": limit});
            let page = past.done("memory_page", args);
            pages += 1;
            assert!(pages < 1_000, "it never ends");
            assert!(page.len() <= past.room, "{} bytes", page.len());
            let Some((text, on)) = page.rsplit_once("read on with address ") else {
                whole.push_str(&page);
                return (whole, pages);
            };
            whole.push_str(&text[..text.rfind('[').unwrap()]);
            let (next, at) = on.trim_end_matches(']').rsplit_once(", offset ").unwrap();
            (address, offset) = (next.to_string(), at.parse().unwrap());
        }
    }

    #[test]
    fn a_blob_is_given_back_whole_in_pages() {
        let mut past = Sessions::new();
        let text: String = (0..2_000).map(|n| format!("line {n} \u{fc}\n")).collect();
        past.prints_much(&text);
        let hash = crate::store::blob_ref(text.as_bytes()).hash;
        let (whole, pages) = read_on(&mut past, &format!("blob:{hash}"), 5_000);
        // A page ends with a line end that the text may not have there.
        assert_eq!(whole.replace('\n', ""), text.replace('\n', ""));
        assert!(pages > 4);
        // The entry is shown as the blob with a heading.
        let (whole, _) = read_on(&mut past, "entry 2", 5_000);
        assert!(whole.contains("line 1000 \u{fc}"));
    }

    #[test]
    fn offsets_of_a_result_with_colours_are_those_of_its_plain_text() {
        let mut past = Sessions::new();
        let text: String = (0..2_000)
            .map(|n| format!("\u{1b}[31mline {n}\u{1b}[0m\n"))
            .collect();
        past.prints_much(&text);
        let hash = crate::store::blob_ref(text.as_bytes()).hash;
        let offset = "line 0\nline 1\n".len();
        let page = json!({"address": format!("blob:{hash}"), "offset": offset, "limit": 200});
        let page = past.done("memory_page", page);
        assert!(page.starts_with("line 2\nline 3\n"), "{page}");
        // An offset of an older version, which counted in the printed text.
        let offset = text.find("line 1990").unwrap();
        for address in [format!("blob:{hash}"), "entry 2".to_string()] {
            let page = json!({"address": address, "offset": offset});
            let page = past.done("memory_page", page);
            assert!(page.contains("line 1990") && !page.contains("line 1989"));
            assert!(page.contains("line 1999"), "{page}");
        }
        let page = json!({"address": format!("blob:{hash}"), "offset": text.len()});
        let ran = past.run("memory_page", page);
        assert!(text_of_error(&ran).starts_with("the blob has "), "{ran:?}");
    }

    #[test]
    fn a_blob_of_another_project_needs_scope_all() {
        let mut past = Sessions::new();
        let text: String = (0..2_000).map(|n| format!("private {n}\n")).collect();
        past.prints_much(&text);
        let hash = crate::store::blob_ref(text.as_bytes()).hash;
        let page = json!({"address": format!("blob:{hash}")});
        past.opens("/here");
        assert!(
            past.done("memory_page", page.clone())
                .contains("private 1\n")
        );
        past.opens("/there");
        let ran = past.run("memory_page", page);
        let why = text_of_error(&ran);
        assert!(why.contains("with scope all the user is asked"), "{why}");
        let all = json!({"address": format!("blob:{hash}"), "scope": "all"});
        assert!(past.done("memory_page", all).contains("private 1\n"));
        // A session of this project refers to it now.
        past.prints_much(&text);
        let page = json!({"address": format!("blob:{hash}")});
        assert!(past.done("memory_page", page).contains("private 1\n"));
    }

    #[test]
    fn a_range_is_given_back_entry_by_entry() {
        let mut past = Sessions::new();
        for n in 0..100 {
            past.says(&format!("message {n} {}", "x".repeat(n * 10)));
        }
        for limit in [200, 1_000, 15_000] {
            let (whole, _) = read_on(&mut past, "entries 3-80", limit);
            for n in 3..=80 {
                assert!(whole.contains(&format!("[{n}] user")), "{n}");
                assert!(whole.contains(&format!("message {} ", n - 1)), "{n}");
            }
            let wanted: usize = (2..80).map(|n| n * 10).sum();
            assert_eq!(whole.matches('x').count(), wanted);
            assert!(!whole.contains("[81]") && !whole.contains("[2]"));
        }
        // A range that reaches beyond the end is cut there.
        assert!(
            past.done("memory_page", json!({"address": "entries 99-9000"}))
                .contains("[100]")
        );
        let ran = past.run("memory_page", json!({"address": "entry 9000"}));
        assert!(
            text_of_error(&ran).starts_with("there is no entry 9000 of session "),
            "{ran:?}"
        );
        assert!(
            text_of_error(&ran).ends_with("; the last is 100"),
            "{ran:?}"
        );
    }

    #[test]
    fn an_offset_after_the_end_is_an_error_and_not_an_empty_page() {
        let mut past = Sessions::new();
        past.says("four");
        past.prints_much(&"much ".repeat(1_000));
        let blob = past.done("memory_search", json!({"query": "much"}));
        assert!(blob.contains("entry "), "{blob}");
        for (offset, is_there) in [(0, true), (3, true), (4, false), (99, false)] {
            let args = json!({"address": "entry 1", "offset": offset});
            let ran = past.run("memory_page", args);
            match is_there {
                true => assert!(!ran.outcome.to_model_text().1, "{ran:?}"),
                false => assert_eq!(
                    text_of_error(&ran),
                    format!("entry 1 has 4 bytes: there is nothing at offset {offset}")
                ),
            }
        }
    }

    #[test]
    fn every_kind_of_entry_can_be_read() {
        let mut past = Sessions::new();
        assert!(
            past.done("memory_page", json!({"address": "0"}))
                .contains("opened")
        );
        // No entry is shown as JSON.
        let opened = past.done("memory_page", json!({"address": "0"}));
        assert!(opened.contains("\nfolder: /here\n"), "{opened}");
        assert!(!opened.contains(['{', '"']), "{opened}");
        past.appends(Entry::Replied {
            blocks: vec![
                Block::text("I look"),
                Block::call("read", r#"{"path":"a"}"#),
            ],
            usage: Default::default(),
            stop: crate::core::entry::StopReason::ToolUse,
            model: "m".into(),
            took_ms: 0,
            asked_bytes: 0,
            source_usage: None,
        });
        let page = past.done("memory_page", json!({"address": "entry 1"}));
        assert!(page.ends_with("I look\ncalls read\npath: a\n"), "{page}");
    }

    #[test]
    fn an_invalid_address_is_refused_with_the_reason() {
        let mut past = Sessions::new();
        let refusal = |past: &mut Sessions, address: &str| {
            let ran = past.run("memory_page", json!({"address": address}));
            text_of_error(&ran).to_string()
        };
        assert!(refusal(&mut past, "nonsense").contains("one is `entry 812`"));
        assert!(refusal(&mut past, "ffffffff:1").contains("there is no session"));
        let hash = "0".repeat(64);
        assert!(refusal(&mut past, &format!("blob:{hash}")).contains("there is no blob"));
    }

    #[test]
    fn a_page_is_cut_at_characters_and_lines() {
        assert_eq!(cut("abc", 0, 3), ("abc", None));
        assert_eq!(cut("\u{fc}\u{fc}\u{fc}", 1, 3), ("\u{fc}", Some(2)));
        assert_eq!(cut("1234567\n90", 0, 9), ("1234567\n", Some(8)));
        assert_eq!(cut("abc", 99, 3), ("", None));
    }
}
