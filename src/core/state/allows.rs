//! The check of which entry may come next.

use crate::core::access::Access;
use crate::core::entry::{
    About, CallId, Entry, FreedResult, Guard, HookEvent, HookRun, Outcome, Seq, Verdict,
};
use crate::core::form::ServerQuestion;
use crate::core::structured::{self, Structured};
use crate::core::tool::Class;
use crate::core::turn;

use super::{Illegal, OpenCall, State};

impl State {
    /// Returns an error if `entry` may not come next. The state stays unchanged.
    pub fn check(&self, entry: &Entry) -> Result<(), Illegal> {
        self.allows(entry).map_err(|why| Illegal {
            seq: self.next_seq,
            kind: entry.kind(),
            why,
        })
    }

    fn allows(&self, entry: &Entry) -> Result<(), String> {
        let opened = self.next_seq > 0;
        match entry {
            Entry::Opened { .. } if opened => Err("the session is open already".into()),
            Entry::Opened { .. } => Ok(()),
            _ if !opened => Err("the first entry of a session is `opened`".into()),
            Entry::Assigned(_) if self.next_seq > 1 => Err("the session is no new one".into()),
            Entry::Assigned(_) => Ok(()),
            _ if self.restoring.is_some() => match entry {
                Entry::Restored { .. }
                | Entry::Chose(_)
                | Entry::Stopped { .. }
                | Entry::Paused { .. }
                | Entry::Lifted { .. }
                | Entry::Saved { .. }
                | Entry::Named { .. }
                | Entry::Titled { .. }
                | Entry::Dismissed
                | Entry::Billed { .. }
                | Entry::Hooked { .. }
                | Entry::Forked { .. }
                | Entry::Moved { .. }
                | Entry::Relocated { .. }
                | Entry::Resumed { .. } => Ok(()),
                _ => Err("the files are being set back".into()),
            },
            Entry::Paused { .. } if self.paused => Err("it is paused already".into()),
            Entry::Lifted { .. } if !self.paused && self.loop_guard.stuck().is_none() => {
                Err("it is not paused".into())
            }
            Entry::Restored { .. } => Err("no files are being set back".into()),
            Entry::Restoring { .. } => self.no_open_call(),
            Entry::Said { .. } if self.is_judging_message() => {
                Err("the hooks of the message before have not ended".into())
            }
            Entry::Said { .. } | Entry::Rendered { .. } => self.no_open_call(),
            Entry::Compacted {
                first,
                last,
                summary,
                ..
            } => {
                self.no_open_call()?;
                not_blank(summary)?;
                if turn::is_compactable(&self.context, *first, *last) {
                    Ok(())
                } else {
                    Err(format!(
                        "entries {first} to {last} are not the oldest exchanges of the context"
                    ))
                }
            }
            Entry::Continued { note, .. } => {
                self.no_open_call()?;
                if let Some(answer) = self.unchecked() {
                    return Err(format!("answer {answer} waits to be checked"));
                }
                not_blank(note)
            }
            Entry::Freed { results } => {
                self.no_open_call()?;
                self.may_free(results)
            }
            Entry::Noted { about, .. } => {
                self.no_open_call()?;
                match about {
                    Some(About::BackgroundEnded { id, .. })
                        if !self.background.contains_key(id) =>
                    {
                        Err(format!("no background command {id} is known"))
                    }
                    Some(About::StillRunning { ids })
                        if !ids.iter().all(|id| self.background.contains_key(id)) =>
                    {
                        Err(format!("not all of {} are known", ids.join(", ")))
                    }
                    Some(About::AnswerCut) if self.cut_answer != super::CutAnswer::Owed => {
                        Err("no answer was cut".into())
                    }
                    Some(About::Repeats { .. }) if self.loop_guard.due().is_none() => {
                        Err("no calls were repeated".into())
                    }
                    Some(About::UserCommandEnded { entry, .. })
                        if !self.user_commands.contains_key(entry) =>
                    {
                        Err(format!("no command of the user began at entry {entry}"))
                    }
                    Some(About::CheckEnded { entry, check, .. }) => {
                        let running = self.checks.running();
                        if running.is_some_and(|r| r.seq == *entry && r.check == *check) {
                            Ok(())
                        } else {
                            Err(format!("no check {check} runs since entry {entry}"))
                        }
                    }
                    _ => Ok(()),
                }
            }
            Entry::Replied { .. } | Entry::Failed { .. } => {
                self.no_open_call()?;
                if matches!(entry, Entry::Replied { .. }) && !self.hooks.pending().is_empty() {
                    return Err("hooks have not ended".into());
                }
                if let Some(running) = self.checks.running() {
                    return Err(format!("the check {} has not ended", running.check));
                }
                match (self.owed, &self.halted) {
                    (true, None) => Ok(()),
                    (false, _) => Err("no answer is owed".into()),
                    (true, Some(_)) => Err("the session is halted".into()),
                }
            }
            Entry::Checked {
                answer,
                unfit,
                told,
            } => self.may_check(*answer, unfit.is_some(), told.is_some()),
            Entry::Asked {
                call,
                form: Some(question),
                ..
            } => self.may_be_asked_by_server(*call, question),
            Entry::Answered {
                call, asked, key, ..
            } => self.may_answer(*call, *asked, key),
            Entry::Asked { call, .. } | Entry::Decided { call, .. } => {
                let open = self.open_call(*call)?;
                self.guards_have_ended(*call)?;
                if open.guard.is_some() {
                    return Err(format!("call {call} was begun before it was decided"));
                }
                let is_asked_again = matches!(entry, Entry::Asked { .. })
                    && open.decided == Some(Verdict::Allow)
                    && open.call.class() == Some(Class::Served);
                match open.decided {
                    Some(_) if is_asked_again => Ok(()),
                    Some(_) => Err(format!("call {call} is decided already")),
                    None => Ok(()),
                }
            }
            Entry::Started {
                call,
                guard,
                access,
            } => self.may_start(*call, guard, *access),
            Entry::Finished { call, outcome, .. } => self.may_finish(*call, outcome),
            Entry::UserCommand { guard, .. } => match guard {
                Guard::Supervised { .. } | Guard::Opaque => Ok(()),
                Guard::Checked { .. }
                | Guard::Child { .. }
                | Guard::Served { .. }
                | Guard::Asks => Err("a command is not guarded so".into()),
            },
            Entry::CheckStarted { check, of, .. } => may_start_check(self, check, *of),
            Entry::Hooking { event, of, runs } => self.may_run_hooks(*event, *of, runs),
            Entry::Hooked {
                event,
                of,
                call,
                results,
            } => self.may_end_hooks(*event, *of, *call, results.len()),
            Entry::Stopped { .. }
            | Entry::Paused { .. }
            | Entry::Lifted { .. }
            | Entry::Saved { .. }
            | Entry::Forked { .. }
            | Entry::Moved { .. }
            | Entry::Relocated { .. }
            | Entry::Chose(_)
            | Entry::Named { .. }
            | Entry::Titled { .. }
            | Entry::Dismissed
            | Entry::Billed { .. }
            | Entry::Learned(_)
            | Entry::Resumed { .. } => Ok(()),
        }
    }

    fn may_free(&self, results: &[FreedResult]) -> Result<(), String> {
        let is_there = |r: &&FreedResult| {
            let mut context = self.context.iter();
            context.any(|c| c.seq == r.at && matches!(c.entry, Entry::Finished { .. }))
        };
        match results
            .iter()
            .find(|r| !is_there(r) || r.line.trim().is_empty())
        {
            Some(result) => Err(format!("entry {} is no result of the context", result.at)),
            None => Ok(()),
        }
    }

    fn no_open_call(&self) -> Result<(), String> {
        match self.first_open() {
            Some(open) => Err(format!("call {} has no result yet", open.call.id)),
            None => Ok(()),
        }
    }

    fn open_call(&self, id: CallId) -> Result<&OpenCall, String> {
        match self.call(id) {
            Some(open) if !open.finished => Ok(open),
            Some(_) => Err(format!("call {id} has its result already")),
            None => Err(format!("the last answer has no call {id}")),
        }
    }

    fn is_judging_message(&self) -> bool {
        let mut pending = self.hooks.pending().iter();
        pending.any(|hooks| hooks.event == HookEvent::UserPromptSubmit)
    }

    fn guards_have_ended(&self, call: CallId) -> Result<(), String> {
        match self.hooks.of_call(call) {
            Some(_) => Err(format!("the hooks of call {call} have not ended")),
            None => Ok(()),
        }
    }

    /// Checks an `Entry::Hooking`: hooks that decide about a call are about one that has not
    /// started.
    fn may_run_hooks(&self, event: HookEvent, of: Seq, runs: &[HookRun]) -> Result<(), String> {
        if of >= self.next_seq || runs.is_empty() {
            return Err(format!("no hooks follow entry {of}"));
        }
        for call in runs.iter().map(|run| run.call) {
            match call {
                Some(call)
                    if event.decides_about_call() && self.open_call(call)?.guard.is_some() =>
                {
                    return Err(format!("call {call} was started before its hooks"));
                }
                None if event.decides_about_call() => {
                    return Err("a hook about a call names none".into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn may_end_hooks(
        &self,
        event: HookEvent,
        of: Seq,
        call: Option<CallId>,
        results: usize,
    ) -> Result<(), String> {
        let mut pending = self.hooks.pending().iter();
        let hooks = pending.find(|hooks| hooks.seq == of && hooks.event == event);
        let runs = hooks.map_or(0, |h| h.runs.iter().filter(|r| r.call == call).count());
        match runs {
            0 => Err(format!("no hooks of entry {of} are about to run")),
            runs if runs != results => Err(format!("{runs} hooks have {results} results")),
            _ => Ok(()),
        }
    }

    /// Checks an `Entry::Checked`: an answer is checked once, and the number of repair requests is
    /// limited.
    fn may_check(&self, answer: Seq, is_unfit: bool, is_told: bool) -> Result<(), String> {
        if self.unchecked() != Some(answer) {
            return Err(format!("no answer {answer} waits to be checked"));
        }
        let may_repair = self.structured.as_ref().is_some_and(Structured::may_repair);
        match (is_unfit, is_told) {
            (false, true) => Err(format!(
                "answer {answer} fits, so the model is told nothing"
            )),
            (true, true) if !may_repair => Err(format!(
                "the model was told {} times already what is wrong",
                structured::MAX_REPAIRS
            )),
            _ => Ok(()),
        }
    }

    /// Checks a server's question: a server may ask only during a call that it works on, and the
    /// model in a call for that.
    fn may_be_asked_by_server(&self, id: CallId, question: &ServerQuestion) -> Result<(), String> {
        match &self.open_call(id)?.guard {
            Some(Guard::Served { server, .. }) if *server == question.server => Ok(()),
            Some(Guard::Asks) if question.is_of_model() => Ok(()),
            _ => Err(format!(
                "{} does not work on call {id}",
                question.the_asker()
            )),
        }
    }

    fn may_answer(&self, id: CallId, asked: Seq, key: &str) -> Result<(), String> {
        let Some(open) = &self.open_call(id)?.server_question else {
            return Err(format!("no server asked anything in call {id}"));
        };
        match (open.seq == asked && open.question.key == key, &open.answer) {
            (false, _) => Err(format!("another question is asked in call {id} by now")),
            (true, Some(_)) => Err(format!("question {asked} is answered already")),
            (true, None) => Ok(()),
        }
    }

    fn may_start(&self, id: CallId, guard: &Guard, access: Option<Access>) -> Result<(), String> {
        let open = self.open_call(id)?;
        self.guards_have_ended(id)?;
        let read = Some(Access::Read);
        if let Some(other) = self
            .calls
            .iter()
            .filter(|c| !(c.call.is_task() && open.call.is_task()))
            .filter(|c| !(access == read && c.started_access == read))
            .find(|c| !c.finished && c.guard.is_some() && c.call.id != id)
        {
            return Err(format!("call {} is still in progress", other.call.id));
        }
        if self.is_stopped() {
            return Err("the user stopped the session".into());
        }
        match (open.call.class(), guard) {
            (Some(Class::Checked), Guard::Checked { .. })
            | (Some(Class::Served), Guard::Served { .. })
            | (Some(Class::Asked), Guard::Asks)
            // An older version could not find out what a server did.
            | (Some(Class::Served), Guard::Opaque) => Ok(()),
            (Some(Class::Supervised), Guard::Supervised { .. }) if !open.call.is_task() => Ok(()),
            (Some(Class::Supervised), Guard::Child { .. }) if open.call.is_task() => Ok(()),
            (class, guard) => Err(format!(
                "a call of class {class:?} is not guarded by {guard:?}"
            )),
        }
    }

    /// Checks a result: a call with an effect can be done only after it was started. Before that it
    /// can fail, be denied or be interrupted. Calls of another agent were started there.
    fn may_finish(&self, id: CallId, outcome: &Outcome) -> Result<(), String> {
        let open = self.open_call(id)?;
        let idempotent = open.call.class() == Some(Class::Idempotent);
        if matches!(outcome, Outcome::Done { .. }) {
            self.guards_have_ended(id)?;
        }
        match outcome {
            Outcome::Done { .. }
                if !idempotent && open.guard.is_none() && self.imported.is_none() =>
            {
                Err(format!("call {id} is done but was never begun"))
            }
            Outcome::Denied { .. } if open.guard.is_some() => {
                Err(format!("call {id} was denied after it was begun"))
            }
            _ => Ok(()),
        }
    }
}

/// Checks an `Entry::CheckStarted`: a check runs once for an answer, and one at a time.
fn may_start_check(state: &State, check: &str, of: Seq) -> Result<(), String> {
    state.no_open_call()?;
    if state.is_stopped() {
        return Err("the user stopped the session".into());
    }
    if let Some(running) = state.checks.running() {
        return Err(format!("the check {} has not ended", running.check));
    }
    if !state.owed || !state.checks.may_start(check, of) {
        return Err(format!("the check {check} cannot run for answer {of}"));
    }
    Ok(())
}

fn not_blank(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("what stands for the context is empty".into());
    }
    Ok(())
}
