//! The continuation note, from which the context starts over when summaries are not enough.
//!
//! The note is made from the log, except for one section that a model may write. The user's
//! messages have their own share of the window. The other sections are cut in the order of their
//! worth. Even in the smallest window the plan and the results of the last answer remain, each at
//! least as a line with its address.

use super::budget::Budget;
use super::entry::{Block, Entry, Outcome, Record, Seq};
use super::ledger::RanCommand;
use super::plain_text::plain_text;
use super::prompt::inlined_result;
use super::quoted::{clip_fenced, escape_tags, fenced, inside_tag};
use super::state::State;
use super::text::head_tail;
use super::{happened, said_again, sharing};

/// Maximum size of a note in bytes, apart from the user's messages, however large the window.
const MAX_BYTES: usize = 16 * 1024;

/// Maximum number of files in the note. Files, commands and failures are listed newest first.
const MAX_FILES: usize = 20;
const MAX_COMMANDS: usize = 6;

/// Maximum size in bytes of a one-line result that stands in the line of its call.
const SHORT_RESULT: usize = 80;

/// Minimum size in bytes of an excerpt of a longer result. A shorter one adds nothing to the line.
const MIN_PART_BYTES: usize = 300;

struct Section {
    title: &'static str,
    body: String,
    /// The size to which the section is cut before a more valuable section is cut at all.
    floor: usize,
}

/// Renders the note. `story` is a model's account of the work done, the failures and the next step.
/// Without it the note has only the log. `exists` tells whether a file still exists.
pub fn note(
    state: &State,
    budget: &Budget,
    story: Option<&str>,
    exists: &dyn Fn(&str) -> bool,
) -> String {
    const END: &str = "</continuation>";
    let head = head(why(state, budget));
    let room = note_bytes(state, budget).saturating_sub(head.len() + END.len());
    let words = said_again::words(state, budget, Seq::MAX);
    let words = escape_tags(&words).into_owned();
    let plan = said_again::plan(state, budget, words.len()).unwrap_or_default();
    // The user's messages are never cut here, and the plan usually is not either.
    let rest = room.saturating_sub(words.len()).min(MAX_BYTES);
    let mut sections = sections(state, story, plan, rest, exists);
    fit(&mut sections, rest);
    let words = Section {
        title: said_again::WORDS_TITLE,
        body: words,
        floor: 0,
    };
    let mut text = head;
    for section in std::iter::once(&words).chain(&sections) {
        if !section.body.is_empty() {
            let body = section.body.trim_end();
            text.push_str(&format!("\n## {}\n{body}\n", section.title));
        }
    }
    text.push_str(END);
    text
}

/// Returns the beginning of the note: why there is one, and how to continue.
fn head(why: String) -> String {
    format!(
        "<continuation>\n{why} The context starts over from this note. Nothing is lost: \
         memory_search finds what came before, memory_page reads it by its entry. Continue the work \
         where it stands; do not start over.\n"
    )
}

/// Returns why the context starts over, with what to do differently if its last results were too
/// large.
fn why(state: &State, budget: &Budget) -> String {
    let is_answer = |record: &Record| matches!(record.entry, Entry::Replied { .. });
    let last = state.context.iter().rev().take_while(|r| !is_answer(r));
    let sizes = last.filter_map(|record| match &record.entry {
        Entry::Finished { outcome, .. } => Some(outcome.to_model_text().0.len()),
        _ => None,
    });
    let sizes: Vec<usize> = sizes.collect();
    let is_too_much = sizes.iter().sum::<usize>() > note_bytes(state, budget);
    match (is_too_much, sizes.len()) {
        (false, _) => "The context was full.".to_string(),
        (true, 1) => "The last result did not fit. Read it in parts.".to_string(),
        (true, n) => {
            format!("The last {n} results did not fit together. Read one at a time, in parts.")
        }
    }
}

fn sections(
    state: &State,
    story_of_model: Option<&str>,
    plan: String,
    room: usize,
    exists: &dyn Fn(&str) -> bool,
) -> Vec<Section> {
    let section = |title, body: String, floor| Section {
        title,
        body: inside_tag(&body),
        floor,
    };
    // The most valuable first.
    vec![
        section("Plan", plan, room / 3),
        section(
            "Results of the last answer",
            last_results(state, room),
            room / 3,
        ),
        section(
            "What was done, what failed, what is next",
            story(state, story_of_model),
            room / 6,
        ),
        section("Files", files(state, exists), room / 16),
        section("Commands", commands(state), room / 16),
        section("Tried and failed", failures(state), room / 16),
    ]
}

/// Cuts the sections to `room` bytes, the least valuable first: all to their floors, then to
/// nothing.
fn fit(sections: &mut [Section], room: usize) {
    let size = |all: &[Section]| -> usize {
        all.iter()
            .filter(|s| !s.body.is_empty())
            .map(|s| s.body.len() + s.title.len() + 6)
            .sum()
    };
    for to_floor in [true, false] {
        for place in (0..sections.len()).rev() {
            let over = size(sections).saturating_sub(room);
            if over == 0 {
                return;
            }
            let section = &mut sections[place];
            let floor = if to_floor { section.floor } else { 0 };
            let keep = section
                .body
                .len()
                .saturating_sub(over)
                .max(floor.min(section.body.len()));
            section.body = clip_fenced(&section.body, keep);
        }
    }
}

/// Lists the calls of the last answer with their results, one line each. If there is room for a
/// useful excerpt of each result, the excerpts follow.
fn last_results(state: &State, room: usize) -> String {
    let mut answer = String::new();
    let mut results: Vec<(Seq, String, &Outcome)> = Vec::new();
    for record in &state.context {
        match &record.entry {
            Entry::Replied { blocks, .. } => {
                results.clear();
                answer = spoken(blocks);
            }
            Entry::Finished { outcome, .. } => {
                let (text, _) = outcome.to_model_text();
                results.push((record.seq, plain_text(&text).into_owned(), outcome));
            }
            _ => {}
        }
    }
    let mut text = String::new();
    if !answer.is_empty() {
        text.push_str(&format!(
            "You had said: {}\n",
            head_tail(&answer, room / 12, " […] ")
        ));
    }
    text.push_str(&state.ledger.result_lines(room / 4));
    // A short result is already complete in its line.
    results.retain(|(_, text, _)| text.len() > SHORT_RESULT || text.trim().contains('\n'));
    const AROUND: usize = 50;
    let sizes = results.iter().map(|(_, text, _)| text.len() + AROUND);
    let each = sharing::level(sizes, room / 4);
    let each = each.saturating_sub(AROUND);
    for (seq, result, outcome) in &results {
        if result.len() <= each {
            text.push_str(&format!("entry {seq}:\n{}\n", fenced(result.trim_end())));
        } else if each >= MIN_PART_BYTES {
            let part = inlined_result(result, each, *seq, outcome);
            text.push_str(&format!(
                "entry {seq} in part:\n{}\n",
                fenced(part.trim_end())
            ));
        }
    }
    text
}

fn spoken(blocks: &[Block]) -> String {
    let texts = Block::texts(blocks).map(str::trim);
    texts.collect::<Vec<_>>().join("\n").trim().to_string()
}

/// Returns the given story, else the last text that a model wrote.
fn story(state: &State, story: Option<&str>) -> String {
    match (story, &state.preface) {
        (Some(story), _) => story.trim().to_string(),
        (None, Some(preface)) => preface
            .summary
            .clone()
            .or_else(|| preface.sound.clone())
            .unwrap_or_default(),
        (None, None) => String::new(),
    }
}

fn files(state: &State, exists: &dyn Fn(&str) -> bool) -> String {
    let mut files: Vec<_> = state.ledger.files.iter().collect();
    files.sort_by_key(|(_, t)| (!t.changed, std::cmp::Reverse(t.seq)));
    let there = files.into_iter().filter(|(path, _)| exists(path));
    // If all do not fit, changed files come before files that were only read.
    let mut there: Vec<_> = there.take(MAX_FILES).collect();
    there.sort_by_key(|(_, t)| std::cmp::Reverse(t.seq));
    let line = |(path, t): &(&String, &super::ledger::Touched)| {
        let did = if t.changed { "changed" } else { "read" };
        format!("- {did} {path} (entry {})\n", t.seq)
    };
    there.iter().map(line).collect()
}

/// Lists the last commands that did something, newest first.
fn commands(state: &State) -> String {
    let line = |c: &RanCommand| {
        let ended = happened::ended(&c.line, c.exit_code);
        let said = if c.last_line.is_empty() {
            String::new()
        } else {
            format!(", \"{}\"", c.last_line)
        };
        format!("- `{}`: {ended}{said} (entry {})\n", c.line, c.seq)
    };
    let acted = state.ledger.commands.iter().rev().filter(|c| !c.only_looks);
    acted.take(MAX_COMMANDS).map(line).collect()
}

fn failures(state: &State) -> String {
    let lines = state.ledger.failures.iter().rev();
    lines
        .map(|(seq, text)| format!("- {text} (entry {seq})\n"))
        .collect()
}

/// Returns the room for a note in bytes: half of what the layers leave, so that the work after it
/// has as much.
pub(crate) fn note_bytes(state: &State, budget: &Budget) -> usize {
    let room = budget.bytes(budget.hard());
    (room.saturating_sub(state.fixed_bytes()) / 2).max(1_000)
}
