//! The report on the end of the last session of this workspace, for the first request of a new one.
//!
//! It is read from the end, so a long session costs no more than a short one. Unreadable parts are
//! left out, since a start must not fail because of them.
//!
//! Invariant: quoted text is in quotes, in one line, and marked as data.

use std::borrow::Cow;

use crate::core::ending::{self, Ending};
use crate::core::entry::{Block, Entry, Fact, Plan, Record, Seq, StepState};
use crate::core::text::{clip, one_line};
use crate::store::{SessionFilter, SessionInfo, Store, StoreError};

/// Number of entries that are read from the end.
const ENTRIES: u64 = 200;
/// Maximum number of sessions that are checked, since those without a message are skipped.
const SESSIONS: u32 = 3;
/// 300 tokens of 4 bytes.
pub(super) const MAX_BYTES: usize = 1_200;

/// Start of the report. It is short, because no cache of a server has it.
const HEAD: &str = "last session (data): ";

/// Returns the text about the last session, of at most `max_bytes` and never over [`MAX_BYTES`].
/// `None`: there is nothing to report.
pub(super) fn last_session(
    store: &Store,
    workspace: &str,
    is_in_use: impl Fn(&str) -> bool,
    max_bytes: usize,
) -> Option<String> {
    match newest(store, workspace) {
        Ok(None) => None,
        Ok(Some((info, records))) => describe(&info, &records, is_in_use(&info.id), max_bytes),
        Err(error) => {
            tracing::warn!(%error, "the last session is not told of");
            None
        }
    }
}

fn newest(
    store: &Store,
    workspace: &str,
) -> Result<Option<(SessionInfo, Vec<Record>)>, StoreError> {
    let filter = SessionFilter {
        without_replicas: true,
        ..SessionFilter::of(workspace)
    };
    let sessions = store.history().sessions(filter, SESSIONS)?;
    let Some(info) = sessions.into_iter().find(|s| s.title.is_some()) else {
        return Ok(None);
    };
    let records = store.records(&info.id, info.entries.saturating_sub(ENTRIES)..=Seq::MAX)?;
    Ok(Some((info, records)))
}

fn describe(
    info: &SessionInfo,
    records: &[Record],
    in_use: bool,
    max_bytes: usize,
) -> Option<String> {
    let room = max_bytes.min(MAX_BYTES).checked_sub(HEAD.len())?;
    let ended = ending::of_entries(records.iter().map(|r| &r.entry));
    let plan = last_plan(records);
    let mut steps = plan.iter().flat_map(|plan| &plan.steps);
    let is_open = steps.any(|step| step.state != StepState::Done);
    let mut lines = vec![if in_use {
        "another process is still working on it".to_string()
    } else {
        sentence(ended).to_string()
    }];
    if in_use || is_open || ended != Ending::Done {
        lines[0].push_str(". Resume it only if the user asks.");
    }
    let task = last_words(records).or_else(|| info.title.clone());
    lines.extend(task.map(|words| format!("task: {}", quoted(&words, 240))));
    lines.extend(plan.as_ref().map(plan_line));
    lines.extend(last_answer(records).map(|said| format!("answer: {}", quoted(&said, 300))));
    let body = lines.join("\n");
    let (shown, end) = match clip(&body, room) {
        shown if shown.len() == body.len() => (shown, ""),
        // The cut is in a quotation.
        _ => (clip(&body, room.checked_sub(1)?), "\""),
    };
    Some(format!("{HEAD}{shown}{end}"))
}

fn sentence(ending: Ending) -> &'static str {
    match ending {
        Ending::Done => "done",
        Ending::Left => "interrupted with work still to do",
        Ending::TurnLimit => "stopped at the limit of turns, with work still to do",
        Ending::Stopped => "the user stopped it",
        Ending::Failed => "the model could not be asked",
        Ending::Dismissed => "the user dismissed it",
        Ending::Killed => "cut off in the middle of its work",
    }
}

fn last_words(records: &[Record]) -> Option<String> {
    records.iter().rev().find_map(|r| match &r.entry {
        said @ Entry::Said { .. } => said.typed().map(Cow::into_owned),
        _ => None,
    })
}

fn last_answer(records: &[Record]) -> Option<String> {
    records.iter().rev().find_map(|r| match &r.entry {
        Entry::Replied { blocks, .. } => Block::texts(blocks)
            .rfind(|text| !text.trim().is_empty())
            .map(str::to_string),
        _ => None,
    })
}

fn last_plan(records: &[Record]) -> Option<Plan> {
    let plan = records.iter().rev().find_map(|r| match &r.entry {
        Entry::Finished {
            fact: Some(Fact::Planned { plan }),
            ..
        } => Some(plan.clone()),
        _ => None,
    });
    plan.filter(|p| !p.steps.is_empty())
}

/// Returns a line such as `plan: 2 of 4 completed; next: "fix the parser", "write the test"`.
fn plan_line(plan: &Plan) -> String {
    const NAMED: usize = 4;
    let of = |state: StepState| plan.steps.iter().filter(move |s| s.state == state);
    let completed = of(StepState::Done).count();
    let next = of(StepState::Current).chain(of(StepState::Left));
    let next: Vec<String> = next.take(NAMED).map(|s| quoted(&s.text, 80)).collect();
    let mut line = format!("plan: {completed} of {} completed", plan.steps.len());
    if !next.is_empty() {
        line.push_str(&format!("; next: {}", next.join(", ")));
    }
    line
}

/// Returns the text as one quoted line that cannot end the surrounding tags.
fn quoted(text: &str, max_chars: usize) -> String {
    let text = clip(text, max_chars * 16);
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = one_line(&words.join(" "), max_chars);
    format!("{:?}", line.replace('<', "‹").replace('>', "›"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::entry::{CallId, Outcome, PlanStep, SaveReason, Usage, Via};

    fn said(text: &str) -> Entry {
        Entry::Said {
            text: text.into(),
            images: vec![],
            via: Via::Prompt,
            command: None,
            origin: None,
        }
    }

    fn replied(blocks: Vec<Block>) -> Entry {
        Entry::Replied {
            blocks,
            usage: Usage::default(),
            stop: crate::core::entry::StopReason::EndTurn,
            model: "m".into(),
            took_ms: 0,
            asked_bytes: 0,
            source_usage: None,
        }
    }

    fn planned(steps: &[(&str, StepState)]) -> Entry {
        let step = |(text, state): &(&str, StepState)| PlanStep {
            text: text.to_string(),
            state: *state,
        };
        let plan = Plan {
            steps: steps.iter().map(step).collect(),
            goals: vec![],
        };
        Entry::Finished {
            call: CallId { reply: 2, index: 0 },
            outcome: Outcome::done("planned"),
            fact: Some(Fact::Planned { plan }),
            tree: None,
        }
    }

    fn saved(reason: SaveReason) -> Entry {
        Entry::Saved {
            reason,
            tree: None,
            why: None,
            clock: None,
        }
    }

    fn records(entries: Vec<Entry>) -> Vec<Record> {
        let record = |(seq, entry)| Record {
            seq,
            at_ms: 0,
            entry,
        };
        (0..).zip(entries).map(record).collect()
    }

    fn info() -> SessionInfo {
        SessionInfo {
            id: "id".into(),
            workspace: "/w".into(),
            folder: "/w".into(),
            title: Some("the first words".into()),
            entries: 9,
            forked_from: None,
            parent: None,
            created_ms: 0,
            updated_ms: 0,
            unfinished: true,
            dismissed: false,
            version: None,
            model: None,
            usage: Usage::default(),
            bytes: 0,
            replica: None,
            shared: None,
        }
    }

    #[test]
    fn task_plan_and_next_step_are_told() {
        let entries = vec![
            said("repair\nthe parser </at_start>"),
            replied(vec![Block::text("Looking."), Block::call("plan", "{}")]),
            planned(&[
                ("find it", StepState::Done),
                ("fix it", StepState::Current),
                ("test it", StepState::Left),
            ]),
        ];
        let text = describe(&info(), &records(entries), false, 4_000).unwrap();
        assert_eq!(
            text.strip_prefix(HEAD).unwrap(),
            "cut off in the middle of its work. Resume it only if the user asks.\n\
             task: \"repair the parser ‹/at_start›\"\n\
             plan: 1 of 3 completed; next: \"fix it\", \"test it\"\n\
             answer: \"Looking.\""
        );
    }

    #[test]
    fn every_ending_has_its_word() {
        let call = || replied(vec![Block::call("bash", "{}")]);
        let done = || replied(vec![Block::text("done")]);
        let of = |entries: Vec<Entry>| ending::of_entries(entries.iter());
        assert_eq!(
            of(vec![said("x"), done(), saved(SaveReason::Turn)]),
            Ending::Done
        );
        assert_eq!(of(vec![said("x"), call()]), Ending::Killed);
        assert_eq!(
            of(vec![said("x"), call(), saved(SaveReason::Signal)]),
            Ending::Left
        );
        assert_eq!(
            of(vec![done(), said("x"), saved(SaveReason::Exit)]),
            Ending::Left
        );
        let limited = of(vec![said("x"), call(), saved(SaveReason::TurnLimit)]);
        assert_eq!(limited, Ending::TurnLimit);
        assert_eq!(limited.word(), "turn limit");
        assert_eq!(
            of(vec![
                said("x"),
                call(),
                Entry::Stopped {
                    draft: None,
                    origin: None
                }
            ]),
            Ending::Stopped
        );
        assert_eq!(of(vec![]), Ending::Killed);
    }

    #[test]
    fn the_description_of_the_last_session_has_a_bounded_length() {
        let long = "many words ".repeat(1_000);
        let step = [(long.as_str(), StepState::Left); 30];
        let entries = vec![
            said(&long),
            planned(&step),
            replied(vec![Block::text(&long)]),
        ];
        let records = records(entries);
        for room in [0, 100, 437, 1_200, 9_000] {
            let text = describe(&info(), &records, false, room).unwrap_or_default();
            assert!(text.len() <= room.min(MAX_BYTES), "{room}: {}", text.len());
        }
        assert!(
            describe(&info(), &records, true, 437)
                .unwrap()
                .contains("another process")
        );
    }
}
