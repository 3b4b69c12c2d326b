//! Summaries of turns that left the context: the request to the summary model, and the digest that
//! replaces its answer if it cannot be asked.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::cleared_results::ClearedResults;
use super::entry::{About, Block, Entry, Failure, Record, Seq, SummaryBy};
use super::plain_text::plain_text;
use super::preface::Preface;
use super::quoted::{escape_tags, indented, inside_tag};
use super::request::Request;
use super::state::State;
use super::text::{clip, head_tail, one_line};
use super::turn::TurnRange;
use super::{happened, hook, limits, prompt, rewind, sharing};

/// Replacement for a summary that could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// An extract from the log, made without a model.
    Digest,
    /// One line that names the missing entries.
    Placeholder,
}

/// Maximum size in bytes of a single result or answer in the transcript.
const TEXT_BYTES: usize = 2_000;

/// Maximum size in bytes of the request without the instructions, the summary and the conversation.
const AROUND_BYTES: usize = 500;

/// Minimum size in bytes of the transcript in a request.
const MIN_TRANSCRIPT_BYTES: usize = 1_000;

/// Maximum size in bytes of a freed result, since the model had used it before.
const FREED_BYTES: usize = 400;

/// Builds the request for a summary: the previous summary, and the records that leave the context.
/// Results in `freed` get less room.
pub fn request(
    model: &str,
    instructions: &str,
    before: Option<&str>,
    records: &[Record],
    freed: &ClearedResults,
    room: &Budget,
    summary_tokens: u64,
) -> Request {
    let instructions = instructions.replace("{max_words}", &(summary_tokens * 3 / 4).to_string());
    let before = before.map(inside_tag);
    let fixed = instructions.len() + before.as_ref().map_or(0, String::len) + AROUND_BYTES;
    let bytes = room
        .bytes(room.hard())
        .saturating_sub(fixed)
        .max(MIN_TRANSCRIPT_BYTES);
    let transcript = transcript(records, freed, bytes);
    let before = before
        .map(|b| format!("<summary>\n{b}\n</summary>\n\n"))
        .unwrap_or_default();
    let text = format!(
        "{before}<conversation>\n{transcript}\n</conversation>\n\nNow write what was asked for."
    );
    let max_tokens = (summary_tokens * 2).min(room.answer);
    Request::of_text(model.to_string(), instructions, text, max_tokens)
}

/// The instruction at the end of the session's own last request.
const HERE: &str = include_str!("../../assets/prompts/summary_here.md");

/// Builds the request for a summary as the last request to the session's model with the instruction
/// at its end, so that a provider's cache has all but that. `last` is the last entry to summarise,
/// and `records` are all that no model has summarised. `None`: it does not fit, or a request that
/// shows these records is better than the digest of them in the context.
pub fn request_in_place(
    state: &State,
    records: &[Record],
    budget: &Budget,
    inline_max_bytes: usize,
    last: Seq,
    summary_tokens: u64,
) -> Option<Request> {
    let lines = records.iter().filter_map(|r| line(r, TEXT_BYTES));
    let bytes: usize = lines.map(|line| line.len()).sum();
    // The request that shows them costs a local model its cached prompt.
    let room = if budget.is_small() { 0 } else { budget.hard() };
    let is_digest = |p: &Preface| p.by == SummaryBy::Digest && p.summary.is_some();
    let has_other =
        |p: &Preface| p.unsound_from.is_some() && (!is_digest(p) || bytes <= budget.bytes(room));
    // With a schema the model answers in that alone.
    if state.structured.is_some() || state.preface.as_ref().is_some_and(has_other) {
        return None;
    }
    let is_answer = |record: &Record| matches!(record.entry, Entry::Replied { .. });
    let sent = state.context.iter().rposition(is_answer)?;
    let end = state.context.partition_point(|record| record.seq <= last);
    let mut asked = state.clone();
    asked.context.truncate(end.max(sent));
    let text = HERE
        .trim_end()
        .replace("{max_words}", &(summary_tokens * 3 / 4).to_string());
    let instruction = Entry::Noted { text, about: None };
    asked.context.push(Record {
        seq: state.next_seq(),
        at_ms: 0,
        entry: instruction,
    });
    let inline = budget.inline_bytes(inline_max_bytes);
    let bytes = prompt::request_bytes(&asked, inline);
    let left = budget.window.saturating_sub(budget.tokens(bytes));
    let mut request = prompt::request(&asked, budget, inline_max_bytes, &mut Default::default());
    // The same as in the last request if possible, since it may be a part of what is cached.
    request.max_tokens = budget.answer.min(left);
    (left >= summary_tokens * 5 / 4).then_some(request)
}

/// Returns the room for a summary request after the server refused one as too long. `None`: it can
/// hardly be smaller.
pub fn smaller_room(room: &Budget, failure: &Failure) -> Option<Budget> {
    let said = limits::figures(&failure.message).limit;
    let guess = room.window * 6 / 10;
    let window = said.filter(|limit| *limit < room.window).unwrap_or(guess);
    let smaller = Budget {
        window,
        answer: room.answer.min(window / 4),
        ..*room
    };
    (smaller.bytes(smaller.hard()) > MIN_TRANSCRIPT_BYTES).then_some(smaller)
}

/// Renders the records as lines in at most `room` bytes, divided by need. Messages of the user are
/// cut only when the output of tools cannot be cut further.
fn transcript(records: &[Record], freed: &ClearedResults, room: usize) -> String {
    let is_said = |record: &Record| matches!(record.entry, Entry::Said { .. });
    let whole: Vec<(&Record, String)> = records
        .iter()
        .filter_map(|r| Some((r, entry_text(&line(r, usize::MAX)?))))
        .collect();
    const LEAST: usize = 120;
    let at_most = |record: &Record| {
        if freed.has(record.seq) {
            FREED_BYTES
        } else {
            TEXT_BYTES
        }
    };
    let others: Vec<usize> = whole
        .iter()
        .filter(|(record, _)| !is_said(record))
        .map(|(record, line)| line.len().min(at_most(record)) + 1)
        .collect();
    let said: Vec<usize> = whole
        .iter()
        .filter(|(record, _)| is_said(record))
        .map(|(_, line)| line.len() + 1)
        .collect();
    let least: usize = others.iter().map(|size| size.min(&LEAST)).sum();
    let most_said = sharing::level(
        said.iter().copied(),
        room.saturating_sub(least).max(room / 2),
    );
    let taken: usize = said.iter().map(|size| size.min(&most_said)).sum();
    let most = sharing::level(others, room.saturating_sub(taken));
    let lines: Vec<String> = whole
        .iter()
        .map(|(record, line)| {
            if is_said(record) {
                cut(line, record.seq, most_said)
            } else {
                cut(line, record.seq, most.min(at_most(record)))
            }
        })
        .collect();
    let all = lines.join("\n");
    // The text after the cut may be the middle of an entry, so it is indented.
    head_tail(&all, room, "\n[… left out …]\n  ").into_owned()
}

/// Returns an entry of a transcript in which quoted text can look neither like another entry nor
/// like the end of the transcript.
fn entry_text(line: &str) -> String {
    let text = indented(&plain_text(line));
    escape_tags(&text).into_owned()
}

/// Shortens a line of a transcript, with the number of missing bytes and the address.
fn cut(line: &str, seq: Seq, max: usize) -> String {
    if line.len() <= max {
        return line.to_string();
    }
    let marker = format!(" [… {} bytes of entry {seq} left out …] ", line.len() - max);
    head_tail(line, max, &marker).into_owned()
}

/// Renders a record as a line of a transcript, with its address. `None` for records without
/// content.
pub fn line(record: &Record, max_bytes: usize) -> Option<String> {
    let seq = record.seq;
    let cut = |text: &str| head_tail(text, max_bytes, " […] ").into_owned();
    Some(match &record.entry {
        Entry::Said { text, .. } => format!("[{seq}] user: {}", cut(text)),
        Entry::Replied { blocks, .. } => {
            let parts: Vec<String> = blocks
                .iter()
                .filter_map(|b| match b {
                    Block::Text { text, .. } if !text.trim().is_empty() => Some(cut(text)),
                    Block::Call {
                        name, arguments, ..
                    } => Some(format!("calls {name} {}", cut(arguments))),
                    Block::Text { .. } | Block::Thinking { .. } => None,
                })
                .collect();
            format!("[{seq}] agent: {}", cut(&parts.join("; ")))
        }
        Entry::Finished { outcome, .. } => {
            format!("[{seq}] result: {}", cut(&outcome.to_model_text().0))
        }
        // Recalled content is in the log already.
        Entry::Noted {
            about: Some(About::Recalled),
            ..
        } => return None,
        Entry::Noted { text, .. } => format!("[{seq}] note: {}", cut(text)),
        Entry::Hooked { .. } => format!("[{seq}] note: {}", cut(&hook::note(&record.entry)?)),
        Entry::Restored { .. } => match rewind::told(&record.entry) {
            Some(text) => format!("[{seq}] note: {}", cut(&text)),
            None => return None,
        },
        Entry::Forked {
            folder: Some(folder),
            from_replica: None,
            ..
        } => format!("[{seq}] note: {}", cut(&rewind::folder_copy_note(folder))),
        Entry::Checked {
            told: Some(told), ..
        } => format!("[{seq}] note: {}", cut(told)),
        Entry::Stopped { .. } => format!("[{seq}] the user stopped the agent"),
        _ => return None,
    })
}

/// Title above the lines of a digest after a summary that a model made …
const SINCE: &str = "What came after that, from the log:";
/// … and without such a summary.
const ALL: &str = "What was done, from the log:";

/// Makes a summary without a model. It has the last summary that a model made, complete, and a line
/// for each event in the turns after it. If there is too little room, the oldest lines are left
/// out. `records` are all of these turns, also those that left the context earlier. `max_bytes` is
/// the room of a summary; at least a quarter of it is for lines.
pub fn digest(state: &State, records: &[Record], max_bytes: usize) -> String {
    const HEAD: &str = "(The summary model gave no summary.)";
    let preface = state.preface.as_ref();
    let sound = preface.and_then(|p| p.sound.as_deref()).map(str::trim);
    let head = match sound {
        Some(sound) => format!("{HEAD}\n{sound}\n\n{SINCE}\n"),
        None => format!("{HEAD} {ALL}\n"),
    };
    let room = max_bytes.max(head.len() + max_bytes / 4);
    newest(&head, &digest_lines(state, records), room)
}

/// Describes the outcome of each turn. The user's messages are left out, because they are repeated
/// separately.
fn digest_lines(state: &State, records: &[Record]) -> Vec<String> {
    let calls = happened::calls(records, state.describe());
    let of = |record: &Record| match &record.entry {
        Entry::Said { .. } => None,
        Entry::Replied { blocks, .. } => {
            let text = Block::texts(blocks).find(|text| !text.trim().is_empty());
            text.map(|text| format!("[{}] agent: {}", record.seq, one_line(text, 160)))
        }
        Entry::Finished {
            call,
            outcome,
            fact,
            ..
        } => {
            let line = happened::line(calls.get(call), outcome, fact.as_ref(), 160);
            Some(format!("[{}] {line}", record.seq))
        }
        _ => line(record, 160).map(|line| one_line(&plain_text(&line), 200)),
    };
    records.iter().filter_map(of).collect()
}

/// Returns the head and as many of the last lines as fit after it.
fn newest(head: &str, lines: &[String], max_bytes: usize) -> String {
    let mut room = max_bytes.saturating_sub(head.len());
    let kept = lines.iter().rev().take_while(|l| {
        let fits = l.len() < room;
        room = room.saturating_sub(l.len() + 1);
        fits
    });
    let from = lines.len() - kept.count();
    format!("{head}{}", lines[from..].join("\n"))
}

/// Returns one line instead of a summary.
pub fn placeholder(range: TurnRange) -> String {
    format!(
        "(entries 0-{} are not summarised; memory_page reads them)",
        range.last
    )
}

/// Number of times from which on a line in the text of a model is a sign of a loop.
const LOOP: usize = 4;

/// A shorter line is a word of a list.
const LOOP_BYTES: usize = 8;

/// Returns why a text that a model wrote about these records is not their summary.
pub fn flaw(text: &str, records: &[Record]) -> Option<&'static str> {
    if accept(text, text.len()).is_none() {
        return Some("its answer has no words");
    }
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for line in text.lines() {
        let line = line.trim_start_matches(|c: char| !c.is_alphabetic());
        // A heading may be that of several parts.
        let counts = line.len() >= LOOP_BYTES && !line.ends_with(':');
        let line = line.trim_end_matches(|c: char| !c.is_alphanumeric());
        *seen.entry(line).or_default() += usize::from(counts);
    }
    if seen.values().any(|times| *times >= LOOP) {
        return Some("its answer repeats a line");
    }
    let lines = records.iter().filter_map(|r| line(r, TEXT_BYTES));
    let named: BTreeSet<String> = lines
        .flat_map(|line| names(line.split_once("] ").unwrap_or_default().1))
        .collect();
    let is_missing = !names(text).iter().any(|name| named.contains(name));
    (!named.is_empty() && is_missing).then_some("its answer has none of the files and numbers")
}

/// Returns the files, without their folders, and the numbers of at least two digits in a text.
fn names(text: &str) -> Vec<String> {
    let is_between = |c: char| !(c.is_alphanumeric() || matches!(c, '.' | '_' | '-'));
    let words = text.split(is_between);
    let words = words.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    let has_name = |word: &&str| {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let is_file = word.contains('.') && word.contains(char::is_alphabetic);
        digits >= 2 || is_file
    };
    words.filter(has_name).map(str::to_lowercase).collect()
}

/// Returns the text of a model, without its oldest lines if it is too long. Returns `None` if it is
/// unusable.
pub fn accept(text: &str, max_bytes: usize) -> Option<String> {
    // Some models repeat the tags around their input.
    let text = text.trim();
    let text = text.strip_prefix("<summary>").unwrap_or(text);
    let text = text.strip_suffix("</summary>").unwrap_or(text).trim();
    if text.chars().filter(|c| c.is_alphanumeric()).count() < 3 {
        return None;
    }
    if text.len() <= max_bytes {
        return Some(text.to_string());
    }
    let lines: Vec<String> = text.lines().map(str::to_string).collect();
    let cut = newest("(the oldest part was cut)\n", &lines, max_bytes);
    if cut.lines().count() > 1 {
        Some(cut)
    } else {
        // One long line.
        Some(clip(text, max_bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::entry::{
        CallId, Fact, Mode, Outcome, PromptPrefix, StopReason, SummaryBy, Usage, Via,
    };
    use crate::core::permission::Permission;
    use crate::core::request::MessagePart;
    use crate::core::tool::{Class, Described};

    struct Log(State, Vec<Record>);

    fn describe(_: &str, arguments: &str) -> Result<Described, String> {
        let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap();
        Ok(Described {
            class: Class::Idempotent,
            subject: arguments["path"].as_str().unwrap_or("").to_string(),
            permission: Permission::None,
            objection: None,
            arguments: Default::default(),
        })
    }

    impl Log {
        fn new() -> Log {
            let mut log = Log(State::new(describe), Vec::new());
            log.push(Entry::Opened {
                folder: "/w".into(),
                version: "0".into(),
                model: "a/b".into(),
                mode: Mode::Default,
                layers: PromptPrefix::default(),
                imported: None,
            });
            log
        }

        fn push(&mut self, entry: Entry) -> Seq {
            let seq = self.0.next_seq();
            let record = Record {
                seq,
                at_ms: 0,
                entry,
            };
            self.0.fold(&record).unwrap();
            self.1.push(record);
            seq
        }

        fn says(&mut self, text: &str) -> Seq {
            self.push(Entry::Said {
                text: text.into(),
                images: Vec::new(),
                via: Via::Prompt,
                command: None,
                origin: None,
            })
        }

        fn calls(&mut self, name: &str, arguments: &str, outcome: Outcome, fact: Option<Fact>) {
            let reply = self.push(Entry::Replied {
                blocks: vec![Block::call(name, arguments)],
                usage: Usage::default(),
                stop: StopReason::ToolUse,
                model: "a/b".into(),
                took_ms: 0,
                asked_bytes: 0,
                source_usage: None,
            });
            self.push(Entry::Finished {
                call: CallId { reply, index: 0 },
                outcome,
                fact,
                tree: None,
            });
        }

        /// Returns the digest that replaces all but the last turn.
        fn digest(&self, max_bytes: usize) -> String {
            let left = crate::core::compacting::unsummarised(&self.0);
            let left = left.map_or(&[][..], |range| {
                &self.1[*range.start() as usize..=*range.end() as usize]
            });
            let records = [left, &self.0.context].concat();
            digest(&self.0, &records, max_bytes)
        }

        /// Replaces all but the last turn with this summary.
        fn compacts(&mut self, summary: String, by: SummaryBy) {
            let range = crate::core::window::compactable(&self.0).unwrap();
            self.push(Entry::Compacted {
                window: 1,
                first: range.first,
                last: range.last,
                summary,
                by,
                spent: Vec::new(),
                preface: None,
            });
        }
    }

    #[test]
    fn a_digest_keeps_the_last_sound_summary_whole_and_shortens_its_own_lines() {
        let sound = "The parser was mended. ".repeat(20);
        let mut log = Log::new();
        log.says("the task");
        log.calls("read", r#"{"path":"a"}"#, Outcome::done("x"), None);
        log.compacts(sound.clone(), SummaryBy::Model);
        for round in 0..12 {
            for n in 0..10 {
                let path = format!(r#"{{"path":"{round}-{n}.rs"}}"#);
                log.calls("read", &path, Outcome::done("text ".repeat(50)), None);
            }
            let text = log.digest(600);
            assert!(text.contains(sound.trim()), "{round}: {text}");
            assert!(text.len() <= 800, "{}", text.len());
            assert!(
                text.contains(&format!("read {round}-9.rs: 250 bytes")),
                "{text}"
            );
            assert_eq!(text.matches(SINCE).count(), 1, "{text}");
            log.compacts(text, SummaryBy::Digest);
        }
    }

    #[test]
    fn a_digest_without_a_summary_before_it_speaks_of_none() {
        let mut log = Log::new();
        log.says("the task");
        for round in 0..3 {
            for n in 0..3 {
                let path = format!(r#"{{"path":"{round}-{n}.rs"}}"#);
                log.calls("read", &path, Outcome::done("text"), None);
            }
            let text = log.digest(2_000);
            assert_eq!(text.matches(ALL).count(), 1, "{text}");
            assert!(!text.contains("came after"), "{text}");
            assert!(text.contains("0-0.rs"), "{round}: {text}");
            assert_eq!(text.matches("gave no summary").count(), 1, "{text}");
            log.compacts(text, SummaryBy::Digest);
        }
    }

    /// A digest cannot continue from the note of a continuation, which has no lines for it: the log
    /// has them.
    #[test]
    fn a_digest_after_a_continuation_has_what_came_before_it() {
        for sound in [None, Some("The parser was repaired.")] {
            let mut log = Log::new();
            log.says("the task");
            log.calls("read", r#"{"path":"a.rs"}"#, Outcome::done("x"), None);
            if let Some(sound) = sound {
                log.compacts(sound.to_string(), SummaryBy::Model);
            }
            log.calls("read", r#"{"path":"b.rs"}"#, Outcome::done("x"), None);
            log.compacts(log.digest(2_000), SummaryBy::Digest);
            log.calls("read", r#"{"path":"c.rs"}"#, Outcome::done("x"), None);
            log.push(Entry::Continued {
                note: "a note".into(),
                by: SummaryBy::Digest,
                spent: Vec::new(),
                story: None,
            });
            log.calls("read", r#"{"path":"d.rs"}"#, Outcome::done("x"), None);
            for path in ["e.rs", "f.rs"] {
                let arguments = format!(r#"{{"path":"{path}"}}"#);
                log.calls("read", &arguments, Outcome::done("x"), None);
                let text = log.digest(2_000);
                for path in ["b.rs", "c.rs", "d.rs", path] {
                    assert_eq!(text.matches(path).count(), 1, "{path}: {text}");
                }
                assert!(text.contains(sound.unwrap_or("a.rs")), "{text}");
                log.compacts(text, SummaryBy::Digest);
            }
        }
    }

    #[test]
    fn a_line_of_a_digest_says_what_came_of_it() {
        let mut log = Log::new();
        log.says("the task");
        let error = Outcome::error("path b.rs: there is no such file");
        log.calls("edit", r#"{"path":"b.rs","edits":[]}"#, error, None);
        let text = log.digest(2_000);
        assert!(text.contains("there is no such file"), "{text}");
        assert!(
            !text.contains("edits") && !text.contains("the task"),
            "{text}"
        );
    }

    #[test]
    fn summary_input_keeps_user_messages_whole_and_cuts_results() {
        let mut log = Log::new();
        let said = format!("the rule {} end of it", "of many words ".repeat(300));
        log.says(&said);
        for n in 0..40 {
            let path = format!(r#"{{"path":"{n}.rs"}}"#);
            log.calls("read", &path, Outcome::done("y".repeat(5_000)), None);
        }
        let room = Budget::new(8_000, 1_000, None);
        let asked = request(
            "a/b",
            "say",
            None,
            &log.1,
            &ClearedResults::default(),
            &room,
            500,
        );
        let MessagePart::Text { text, .. } = &asked.messages[0].parts[0] else {
            panic!("{asked:?}");
        };
        assert!(text.len() <= room.bytes(room.hard()), "{}", text.len());
        assert!(text.contains(&said), "{text}");
        assert!(text.contains("bytes of entry 3 left out"), "{text}");
        assert!(text.contains("calls read {\"path\":\"39.rs\"}"), "{text}");
    }

    #[test]
    fn a_summary_in_a_loop_or_without_the_files_is_refused() {
        let mut log = Log::new();
        log.says("repair the parser");
        assert_eq!(flaw("It was looked at.", &log.1), None);
        log.calls(
            "read",
            r#"{"path":"src/parse.rs"}"#,
            Outcome::done("x"),
            None,
        );
        let none = Some("its answer has none of the files and numbers");
        assert_eq!(flaw("It was looked at [entries 1-3].", &log.1), none);
        assert_eq!(flaw("Read `parse.rs`.", &log.1), None);
        let again = "- Read parse.rs.\n".repeat(3);
        assert_eq!(flaw(&again, &log.1), None);
        let again = format!("{again}\n4. Read parse.rs");
        assert_eq!(flaw(&again, &log.1), Some("its answer repeats a line"));
        let parts = (1..6).map(|n| format!("Files of part:\n- phase {n}: parse.rs\n"));
        assert_eq!(flaw(&parts.collect::<String>(), &log.1), None);
        assert_eq!(flaw(" . ", &log.1), Some("its answer has no words"));
    }

    #[test]
    fn summary_tags_are_removed_from_the_text_of_the_model() {
        assert_eq!(
            accept("<summary>\nit was done\n</summary>", 100).unwrap(),
            "it was done"
        );
        assert_eq!(accept(" . ", 100), None);
    }
}
