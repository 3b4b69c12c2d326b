//! The continuation note: what a context begins again from, when summarising is not enough.
//!
//! All but the section that a model may write comes from the log. Sections are cut in the
//! order of their worth, so that in the smallest window the task, the plan and the results of
//! the last answer are still there, each at least as a line with its address.

use super::entry::{Block, Entry, Outcome, Plan, Seq};
use super::ledger::RanCommand;
use super::state::State;
use super::text::{clip, head_tail, one_line};

/// No note is longer, however large the window.
const MAX_BYTES: usize = 16 * 1024;

/// The results of the last answer that are shown in more than a line.
const FULL_RESULTS: usize = 3;

struct Section {
    title: &'static str,
    body: String,
    /// It is cut to this before a section of more worth is cut at all.
    floor: usize,
}

/// The note, at most `max_bytes` long. `model_text` is what a model wrote of what was accomplished,
/// what failed and what is next; without it the log has to do.
pub fn note(state: &State, max_bytes: usize, model_text: Option<&str>) -> String {
    const HEAD: &str = "<continuation>\nThe context was full and began again from this note; nothing is lost: \
                        memory_search finds what came before, memory_page reads it by its entry. Go on with \
                        the work where it stands; do not begin anew.\n";
    const END: &str = "</continuation>";
    let room = max_bytes
        .min(MAX_BYTES)
        .saturating_sub(HEAD.len() + END.len());
    let mut sections = sections(state, model_text, room);
    fit(&mut sections, room);
    let mut text = HEAD.to_string();
    for section in sections.iter().filter(|s| !s.body.is_empty()) {
        text.push_str(&format!(
            "\n## {}\n{}\n",
            section.title,
            section.body.trim_end()
        ));
    }
    text.push_str(END);
    text
}

fn sections(state: &State, model_text: Option<&str>, room: usize) -> Vec<Section> {
    let section = |title, body: String, floor| Section { title, body, floor };
    // In the order of their worth.
    vec![
        section("The user's last message", last_words(state, room), room / 5),
        section("Plan", plan(state), room / 6),
        section(
            "Results of the last answer",
            last_results(state, room),
            room / 3,
        ),
        section(
            "What was done, what failed, what is next",
            story(state, model_text),
            room / 8,
        ),
        section("What the user said before", said_before(state), room / 16),
        section("Files", files(state), room / 16),
        section("Commands", commands(state), room / 16),
        section("Tried and failed", failures(state), room / 16),
    ]
}

/// Cuts from the least worth up, first to the floors, then to nothing.
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
            section.body = clip(&section.body, keep).into_owned();
        }
    }
}

fn last_words(state: &State, room: usize) -> String {
    let Some((seq, words)) = &state.words else {
        return String::new();
    };
    let marker = format!("\n[… memory_page reads the rest at entry {seq} …]\n");
    format!(
        "(entry {seq})\n{}",
        head_tail(words, (room / 4).max(200), &marker)
    )
}

/// The calls of the last answer with their results: the last ones with some of their text,
/// each of the others in a line.
fn last_results(state: &State, room: usize) -> String {
    let mut answer = String::new();
    let mut results: Vec<(Seq, &Outcome)> = Vec::new();
    for record in &state.context {
        match &record.entry {
            Entry::Replied { blocks, .. } => {
                results.clear();
                answer = spoken(blocks);
            }
            Entry::Finished { outcome, .. } => results.push((record.seq, outcome)),
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
    let share = room / 12;
    let full = results.len().saturating_sub(FULL_RESULTS);
    for (seq, outcome) in &results[full..] {
        let (text_of, _) = outcome.to_model_text();
        if text_of.len() > 80 && share > 100 {
            text.push_str(&format!(
                "entry {seq} in part:\n{}\n",
                head_tail(&text_of, share, "\n[…]\n")
            ));
        }
    }
    text
}

fn spoken(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|b| match b {
        Block::Text { text, .. } => Some(text.trim()),
        Block::Thinking { .. } | Block::Call { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n").trim().to_string()
}

/// What a model wrote of it, else the last summary.
fn story(state: &State, model_text: Option<&str>) -> String {
    match model_text {
        Some(model_text) => model_text.trim().to_string(),
        None => state
            .preface
            .as_ref()
            .and_then(|p| p.summary.clone())
            .unwrap_or_default(),
    }
}

fn plan(state: &State) -> String {
    let plan = state.plan.as_ref().and_then(Plan::to_text);
    plan.unwrap_or_default()
}

fn said_before(state: &State) -> String {
    let last = state.words.as_ref().map(|(seq, _)| *seq);
    let lines = state
        .ledger
        .said
        .iter()
        .filter(|(seq, _)| Some(*seq) != last);
    lines
        .map(|(seq, text)| format!("- entry {seq}: {}\n", one_line(text, 300)))
        .collect()
}

fn files(state: &State) -> String {
    let mut files: Vec<_> = state.ledger.files.iter().collect();
    files.sort_by_key(|(_, t)| (!t.changed, std::cmp::Reverse(t.seq)));
    let line = |(path, t): (&String, &super::ledger::Touched)| {
        let did = if t.changed { "changed" } else { "read" };
        format!("- {did} {path} (entry {})\n", t.seq)
    };
    files.into_iter().map(line).collect()
}

fn commands(state: &State) -> String {
    let line = |c: &RanCommand| match c.exit_code {
        Some(code) => format!("- `{}` → exit code {code} (entry {})\n", c.line, c.seq),
        None => format!(
            "- `{}` → ended without an exit code (entry {})\n",
            c.line, c.seq
        ),
    };
    state.ledger.commands.iter().rev().map(line).collect()
}

fn failures(state: &State) -> String {
    let lines = state.ledger.failures.iter().rev();
    lines
        .map(|(seq, text)| format!("- {text} (entry {seq})\n"))
        .collect()
}

/// Room for a note when this much is fixed.
pub fn note_bytes(room_bytes: usize, layers_bytes: usize) -> usize {
    room_bytes.saturating_sub(layers_bytes + 300).max(1_000)
}
