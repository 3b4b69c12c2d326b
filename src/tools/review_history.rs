//! `review_history`: lists the sessions of this workspace, or shows the plan, the summary, the
//! checkpoints and the end of one.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::describe;
use super::history_view::{HistoryView, PastScope, error_text, when};
use super::schema::{integer, object, one_of, string};
use super::shown::Verb;
use super::tool::{Group, Tool};
use super::whole::WholeNumber;
use super::work::Work;
use crate::core::entry::{Entry, Outcome, Plan};
use crate::core::permission::{LookBack, Permission, Reach};
use crate::core::state::{Halt, State};
use crate::core::summary;
use crate::core::text::{clip, count, head_tail, one_line, session_name};
use crate::store::{SessionFilter, SessionInfo, StoreError};

const DEFAULT_SESSIONS: u64 = 5;
const DEFAULT_CHECKPOINTS: u64 = 10;
const MAX_LINES: u64 = 30;

/// Number of last entries that are searched for the end of a session.
const LAST_ENTRIES: u64 = 8;

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    /// The session to show in detail.
    session: Option<String>,
    /// Where that session is searched for.
    scope: Option<PastScope>,
    limit: Option<WholeNumber>,
}

impl Tool for Args {
    const NAME: &'static str = "review_history";
    const TEXT: &'static str = include_str!("../../assets/tools/review_history.md");
    const VERB: Verb = Verb::Look;
    const GROUP: Group = Group::Memory;
    const LEFT_OUT: &'static [&'static str] = &["session", "scope"];

    fn schema() -> Value {
        let properties = json!({
            "session": string(), "scope": one_of(&PastScope::NAMES), "limit": integer(),
        });
        object(properties, &[])
    }

    fn subject(&self) -> String {
        self.session.clone().unwrap_or_default()
    }

    fn permission(&self) -> Permission {
        let reach = match self.scope {
            Some(PastScope::All) => Reach::All,
            None => Reach::Workspace,
        };
        Permission::LookBack {
            tool: LookBack::History,
            reach,
        }
    }

    fn work(self) -> Work {
        Work::LookBack(Box::new(move |past| run(&self, past)))
    }
}

fn run(args: &Args, past: &mut HistoryView<'_>) -> Result<String, String> {
    let text = match &args.session {
        None => list(past, args.limit.map_or(DEFAULT_SESSIONS, u64::from))?,
        Some(id) => {
            let id = past.session_named(id.trim(), args.scope)?;
            one(past, &id, args.limit.map_or(DEFAULT_CHECKPOINTS, u64::from))?
        }
    };
    let cut = "\n[… cut …]\n";
    Ok(head_tail(&text, past.room.max(cut.len()), cut).into_owned())
}

fn list(past: &HistoryView<'_>, limit: u64) -> Result<String, String> {
    let workspace = past.workspace()?;
    let filter = SessionFilter::of(&workspace);
    let limit = limit.clamp(1, MAX_LINES) as u32;
    let sessions = past
        .store
        .history()
        .sessions(filter, limit)
        .map_err(error_text)?;
    let mut text = String::new();
    for info in sessions {
        let own = match info.id == past.session {
            true => " (this session)",
            false => "",
        };
        text.push_str(&format!(
            "{}{own} · {} · {} · {}\n  {}\n",
            info.id,
            when(info.updated_ms),
            count(info.entries, "entry"),
            one_line(session_name(info.title.as_deref()), 100),
            ended(past, &info)?,
        ));
        let checkpoints = past
            .store
            .history()
            .checkpoints(&info.id, 1)
            .map_err(error_text)?;
        if let Some(step) = checkpoints.into_iter().find_map(|c| c.plan_step) {
            text.push_str(&format!("  plan step: {}\n", one_line(&step, 120)));
        }
    }
    Ok(text.trim_end().to_string())
}

/// Returns how the session ended, from its last entries.
fn ended(past: &HistoryView<'_>, info: &SessionInfo) -> Result<String, String> {
    let last = info.entries.saturating_sub(1);
    let records = past
        .store
        .records(&info.id, last.saturating_sub(LAST_ENTRIES - 1)..=last);
    let records = match records {
        // A session that cannot be read is still listed.
        Err(e @ (StoreError::Corrupt { .. } | StoreError::Unknown { .. })) => {
            return Ok(e.to_string());
        }
        records => records.map_err(error_text)?,
    };
    let state = match info.unfinished {
        true => "unfinished",
        false => "done",
    };
    let how = records.iter().rev().find_map(|r| match &r.entry {
        Entry::Stopped { .. } => Some("stopped by the user".to_string()),
        Entry::Failed { error, .. } => Some(format!("failed: {}", one_line(&error.message, 120))),
        Entry::Replied { .. } => {
            summary::line(r, 200).map(|line| format!("last {}", one_line(&line, 200)))
        }
        Entry::Finished {
            outcome: outcome @ (Outcome::Done { .. } | Outcome::Error { .. }),
            ..
        } => Some(format!(
            "last [{}] result: {}",
            r.seq,
            one_line(&outcome.to_model_text().0, 120)
        )),
        _ => None,
    });
    Ok(match how {
        Some(how) => format!("{state}; {how}"),
        None => state.to_string(),
    })
}

fn one(past: &mut HistoryView<'_>, id: &str, limit: u64) -> Result<String, String> {
    let info = past.store.history().find(id).map_err(error_text)?;
    let state = fold(past, id)?;
    let title = one_line(session_name(info.title.as_deref()), 100);
    let mut text = format!(
        "{id} · {} to {} · {} · {title}\n{}\n",
        when(info.created_ms),
        when(info.updated_ms),
        count(info.entries, "entry"),
        ended(past, &info)?,
    );
    if let Some(Halt::Failed(failure)) = &state.halted {
        text.push_str(&format!("failed: {}\n", one_line(&failure.message, 200)));
    }
    if let Some(plan) = state.plan.as_ref().and_then(Plan::to_text) {
        text.push_str(&format!("\nPlan:\n{plan}"));
    }
    if let Some((seq, words)) = &state.words {
        let address = past.address(id, *seq);
        let words = clip(words, 600);
        text.push_str(&format!(
            "\nThe user's last message ({address}):\n{words}\n"
        ));
    }
    if let Some(conversation) = past.store.conversation(id).map_err(error_text)? {
        text.push_str(&format!(
            "\nSummary of its first {} entries ({}):\n{}\n",
            conversation.message_count,
            when(conversation.last_summarised_at_ms),
            clip(&conversation.summary, 2_000)
        ));
    }
    let limit = limit.clamp(1, MAX_LINES) as u32;
    let checkpoints = past
        .store
        .history()
        .checkpoints(id, limit)
        .map_err(error_text)?;
    text.push_str("\nLast checkpoints:\n");
    for point in checkpoints {
        let step = point.plan_step.map_or(String::new(), |s| format!(" · {s}"));
        text.push_str(&format!(
            "{} · {} · {}{}\n",
            past.address(id, point.seq),
            point.reason,
            when(point.at_ms),
            one_line(&step, 120)
        ));
    }
    Ok(text.trim_end().to_string())
}

/// Computes the state of a session, for the whole plan and the last words, which no row has.
fn fold(past: &HistoryView<'_>, id: &str) -> Result<State, String> {
    enum Stop {
        Store(StoreError),
        Illegal(String),
    }
    impl From<StoreError> for Stop {
        fn from(error: StoreError) -> Stop {
            Stop::Store(error)
        }
    }
    let mut state = State::new(describe);
    let folded = past.store.load_each(id, |record| {
        state
            .fold(&record)
            .map_err(|illegal| Stop::Illegal(illegal.to_string()))
    });
    match folded {
        Ok(_) => Ok(state),
        Err(Stop::Store(error)) => Err(error_text(error)),
        Err(Stop::Illegal(why)) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::history_view::test_support::*;
    use super::*;
    use crate::core::entry::SummaryBy;

    #[test]
    fn the_sessions_of_this_workspace_are_listed_with_their_end() {
        let mut past = Sessions::new();
        past.says("fix the parser");
        past.appends(Entry::Stopped {
            draft: None,
            origin: None,
        });
        let first = past.session();
        past.opens("/elsewhere");
        past.says("other things");
        past.opens("/here");
        past.says("write docs");
        let text = past.done("review_history", json!({}));
        assert!(text.contains(&format!("{first} · ")), "{text}");
        assert!(text.contains("fix the parser") && text.contains("stopped by the user"));
        assert!(text.contains("(this session)") && text.contains("write docs"));
        assert!(!text.contains("other things"));
        assert_eq!(
            past.done("review_history", json!({"limit": 1}))
                .lines()
                .count(),
            2
        );
    }

    #[test]
    fn a_session_is_shown_with_plan_summary_and_checkpoints() {
        let mut past = Sessions::new();
        past.says("fix the parser");
        past.says("and test it");
        past.appends(Entry::Compacted {
            window: 1,
            first: 1,
            last: 1,
            summary: "the parser was looked at".into(),
            by: SummaryBy::Model,
            spent: Vec::new(),
            preface: None,
        });
        let id = past.session();
        past.opens("/here");
        let text = past.done("review_history", json!({"session": id}));
        for what in [
            "fix the parser",
            &format!("The user's last message ({id}:2):\nand test it"),
            "Summary of its first 2 entries",
            "the parser was looked at",
            &format!("{id}:3 · closed"),
        ] {
            assert!(text.contains(what), "{what} is not in:\n{text}");
        }
    }
}
