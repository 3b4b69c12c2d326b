//! `rewake compact ID`: summarises all but the newest turn of a session now.
//!
//! The rest of the session is unchanged: pending work stays pending, so no message about
//! continuing is printed. Ctrl-C is not caught: until the summary is complete, nothing is written.

use std::cell::RefCell;
use std::rc::Rc;

use clap::Args;
use tokio::sync::mpsc::unbounded_channel;

use crate::core::entry::{Entry, SummaryBy};
use crate::core::state::State;
use crate::core::window;
use crate::engine::Event;
use crate::report::{CliError, exit, line, note};
use crate::session::{AppContext, Session, SessionSelector, drive, journal_fails, short_id};

/// Summarise all but the newest turn of a session
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct CompactArgs {
    /// Session ID or its beginning
    id: String,
}

/// The result of a compaction, and the tokens of the request after it.
#[derive(Default)]
struct Compaction {
    compacted: Option<(u64, u64, SummaryBy)>,
    request_tokens: u64,
}

impl Compaction {
    fn observe(&mut self, event: &Event) {
        match event {
            Event::Recorded(record) => {
                if let Entry::Compacted {
                    first, last, by, ..
                } = record.entry
                {
                    self.compacted = Some((first, last, by));
                }
            }
            Event::JournalFails(why) => note(&journal_fails(why)),
            Event::Notice(text) => note(text),
            Event::ChildAsks(_) => {}
            Event::Context(figures) => self.request_tokens = figures.request_tokens,
            Event::Delta(_)
            | Event::Queued(_)
            | Event::Requeued(_)
            | Event::SummaryFailed(_)
            | Event::CommandNotRun { .. }
            | Event::Kept(_)
            | Event::InputKept(_)
            | Event::RewindPlanned(..)
            | Event::Files(_)
            | Event::ServerAsks { .. }
            | Event::Asked { .. } => {}
        }
    }
}

pub(super) fn run(ctx: &AppContext, args: CompactArgs) -> Result<u8, CliError> {
    let which = SessionSelector::Named {
        id: args.id,
        fork: false,
    };
    let session = ctx.open(&which, false)?;
    let state = &session.log.state;
    if let Some(open) = state.first_open() {
        let short = short_id(&session.id);
        return Err(CliError::new(
            exit::RESUMABLE,
            format!(
                "the call {} of session {short} has no result yet",
                open.call.shown_name()
            ),
        )
        .with_hint(format!("rewake -p -r {short} resumes it")));
    }
    if window::compactable(state).is_none() {
        line("nothing to summarise: only the newest exchange is in full");
        return Ok(exit::DONE);
    }
    let policy = &session.settings.policy;
    let budget = policy.budget_of(state, &state.model);
    let before = window::request_tokens(state, &budget, &policy.windows);
    let compaction = compact(session)?;
    let Some((first, last, by)) = compaction.compacted else {
        return Err(CliError::failed("no summary was made"));
    };
    line(&format!(
        "entries {first} to {last} were summarised: the next request has about {} tokens, it had {before}",
        compaction.request_tokens
    ));
    match by {
        SummaryBy::Model => {}
        SummaryBy::Digest => note(
            "the summary model could not be asked, or gave nothing of use: a digest from the log \
             stands in, until a later summary replaces it",
        ),
        SummaryBy::Placeholder => note(
            "the summary model could not be asked, or gave nothing of use: a placeholder stands \
             in, until a later summary replaces it",
        ),
    }
    Ok(exit::DONE)
}

fn compact(session: Session) -> Result<Compaction, CliError> {
    let compaction = Rc::new(RefCell::new(Compaction::default()));
    let observer = Rc::clone(&compaction);
    let on_event = move |_: &State, event: Event| observer.borrow_mut().observe(&event);
    // Unbounded: nothing is sent.
    let (_commands, inbox) = unbounded_channel();
    drive(session, inbox, Box::new(on_event), async |driver| {
        driver.engine.compact().await
    })?
    .map_err(|error| CliError::from(&error))?;
    Ok(compaction.take())
}
