//! The real world: this machine's files and commands, and a model.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc::UnboundedSender;

use super::archive::Archive;
use super::{BackgroundEnd, Images, Settled, Unready, World, report};
use crate::command::{
    self, Ended, How, RunInfo, RunState, Running, Runs, SettledRun, Spec, Stopped,
};
use crate::core::entry::{BlobRef, CallId, Fact, Failure, Guard, Outcome, Output};
use crate::core::request::Request;
use crate::core::state::Background;
use crate::core::tool::{BashArgs, Input, ToolCall};
use crate::model::{Delta, Models, Reply};
use crate::store::now_ms;
use crate::tools::{self, FileState, Ran, ToolContext};

/// How commands are run.
#[derive(Debug, Clone)]
pub struct Shell {
    pub path: PathBuf,
    pub timeout_ms: u64,
    pub output_cap_bytes: u64,
    /// Commands do not see these variables.
    pub env_remove: Vec<String>,
}

pub struct Machine {
    ctx: ToolContext,
    shell: Shell,
    runs: Runs,
    models: Models,
    archive: Archive,
    session: String,
    boot: String,
    /// The runs that are waited for.
    active: RefCell<BTreeSet<String>>,
}

impl Machine {
    /// `data_dir` is where the store of the session is.
    pub fn new(
        ctx: ToolContext,
        shell: Shell,
        runs: Runs,
        models: Models,
        session: String,
        data_dir: PathBuf,
    ) -> Machine {
        Machine {
            ctx,
            shell,
            runs,
            models,
            archive: Archive::new(data_dir, session.clone()),
            session,
            boot: command::boot_id(),
            active: RefCell::default(),
        }
    }

    fn spec(&self, call: CallId, args: &BashArgs) -> Spec {
        let own_limit = args.timeout_ms.unwrap_or(self.shell.timeout_ms);
        Spec {
            command: args.command.clone(),
            folder: self.ctx.folder.clone(),
            // A background command lives until it ends or is stopped, unless a limit is named.
            timeout_ms: match (args.background, args.timeout_ms) {
                (true, None) => u64::MAX,
                _ => own_limit.max(1),
            },
            output_cap_bytes: self.shell.output_cap_bytes,
            shell: self.shell.path.clone(),
            env_remove: self.shell.env_remove.clone(),
            env_set: Vec::new(),
            session: self.session.clone(),
            call: background_id(call),
            background: args.background,
        }
    }

    fn prepare_run(&self, call: CallId, args: &BashArgs) -> Result<Guard, Unready> {
        let run = self
            .runs
            .prepare(&self.spec(call, args))
            .map_err(|e| unready(&e))?;
        Ok(Guard::Supervised {
            run,
            boot: self.boot.clone(),
            background: args.background,
        })
    }

    /// Starts a prepared run and waits for its end, or says that it goes on.
    async fn run_command(&self, call: CallId, args: &BashArgs, run: &str) -> Ran {
        let begun = match self.runs.start(run) {
            // Only what has begun goes on in the background: until then any look at the run
            // could be the one that decides that it never will.
            Ok(mut running) if args.background => self.runs.begun(&mut running).await,
            Ok(running) => Ok(SettledRun::Running(running)),
            Err(e) => Err(e),
        };
        // An error says nothing of the command, which may run all the same; its folder does.
        let found = match begun {
            Ok(found) => found,
            Err(e) => match self.runs.settle(run, &self.boot) {
                Ok(SettledRun::NotBegun) => {
                    return Ran::error(format!("cannot start the command: {e}"));
                }
                Ok(found) => found,
                Err(_) => return uncertain(&format!("cannot start the command: {e}")),
            },
        };
        self.outcome(call, args, run, found).await
    }

    /// What is told of a run once it is known whether it was begun.
    async fn outcome(&self, call: CallId, args: &BashArgs, run: &str, found: SettledRun) -> Ran {
        match found {
            SettledRun::NotBegun => {
                Ran::error("cannot start the command: its keeper did not begin")
            }
            SettledRun::Ended(ended) if !args.background || matches!(ended.how, How::NotRun(_)) => {
                self.result(&ended)
            }
            SettledRun::Running(mut running) if !args.background => self.end_of(&mut running).await,
            // A keeper is nobody's child once this process is gone; until then tokio reaps it.
            SettledRun::Running(_) | SettledRun::Ended(_) => {
                self.in_background(call, run, &args.command)
            }
        }
    }

    async fn end_of(&self, running: &mut Running) -> Ran {
        let run = running.run().to_string();
        self.active.borrow_mut().insert(run.clone());
        let ended = self.runs.wait(running).await;
        self.active.borrow_mut().remove(&run);
        match ended {
            Ok(ended) => self.result(&ended),
            Err(e) => uncertain(&format!("cannot learn how the command ended: {e}")),
        }
    }

    fn in_background(&self, call: CallId, run: &str, command: &str) -> Ran {
        let id = background_id(call);
        let output = match self.runs.output_file(run) {
            Ok(path) => path.display().to_string(),
            Err(e) => format!("(unknown: {e})"),
        };
        let text = format!(
            "runs in the background as {id}; its output goes to {output}, which read shows; \
             bash_stop with id {id} ends it; you are told when it ends"
        );
        let fact = Fact::Background {
            id,
            run: run.to_string(),
            command: command.to_string(),
        };
        Ran {
            outcome: Outcome::done(text),
            fact: Some(fact),
            blobs: Vec::new(),
        }
    }

    fn result(&self, ended: &Ended) -> Ran {
        report::result(&self.runs, ended, self.ctx.inline_max_bytes)
    }

    async fn settle_run(
        &self,
        call: &ToolCall,
        args: &BashArgs,
        guard: &Guard,
        stop: bool,
    ) -> Settled {
        let Guard::Supervised { run, boot, .. } = guard else {
            return unsettled("it was begun as another kind of call");
        };
        match self.runs.settle(run, boot) {
            Ok(SettledRun::NotBegun) if stop => Settled::NotBegun(guard.clone()),
            Ok(SettledRun::NotBegun) => match self.prepare_run(call.id, args) {
                Ok(guard) => Settled::NotBegun(guard),
                Err(Unready::Refused(outcome)) => Settled::Ended(Ran::of(outcome)),
                Err(Unready::NoRoom(why)) => Settled::NoRoom(why),
            },
            Ok(SettledRun::Ended(ended)) if stop => Settled::Ended(self.result(&ended)),
            Ok(SettledRun::Running(mut running)) if stop => {
                Settled::Ended(match self.runs.stop(run) {
                    Ok(_) => self.end_of(&mut running).await,
                    Err(e) => {
                        interrupted(format!("cannot stop the command: {e}; it may still run"))
                    }
                })
            }
            Ok(found) => {
                let ran = self.outcome(call.id, args, run, found).await;
                Settled::Ended(match args.background {
                    true => ran,
                    false => report::after_restart(ran),
                })
            }
            Err(e) => unsettled(&format!("its run folder cannot be read: {e}")),
        }
    }
}

fn unready(error: &io::Error) -> Unready {
    let why = format!("cannot prepare the command: {error}");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Unready::NoRoom(why),
        _ => Unready::Refused(Outcome::error(why)),
    }
}

/// Blocks up to two seconds. The newest run of a call is the one that was begun.
fn stop_background(runs: &Runs, session: &str, id: &str) -> Ran {
    let mine = |r: &RunInfo| r.spec.session == session && r.spec.background && r.spec.call == id;
    let Some(info) = runs.list().into_iter().rfind(mine) else {
        return Ran::error(format!("there is no background command {id}"));
    };
    match (runs.stop(&info.run), info.state) {
        (Ok(Stopped::Asked), RunState::Ended(_)) => Ran::done(format!(
            "the keeper of {id} was killed before; what still ran of {id} was ended now"
        )),
        (Ok(Stopped::Asked), _) => Ran::done(format!(
            "{id} is being stopped; you are told when it has ended"
        )),
        (Ok(Stopped::NotBegun), _) => Ran::done(format!("{id} had not begun and will not")),
        (Ok(Stopped::Over), _) => Ran::done(format!("{id} had ended already")),
        (Err(e), _) => Ran::error(format!("cannot stop {id}: {e}")),
    }
}

/// The name of a background command for the model: that of its call.
fn background_id(call: CallId) -> String {
    format!("bg_{}_{}", call.reply, call.index)
}

fn interrupted(why: impl Into<String>) -> Ran {
    Ran::of(Outcome::Interrupted {
        output: Output::default(),
        why: why.into(),
    })
}

/// Of a call that was begun, when looking at it fails.
fn uncertain(why: &str) -> Ran {
    interrupted(format!(
        "{why}; it may or may not have happened, or still run; look before you repeat it"
    ))
}

fn unsettled(why: &str) -> Settled {
    Settled::Ended(uncertain(why))
}

/// Sets its flag when it goes: a blocking search whose call is dropped ends soon after.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A blocking piece of work on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| format!("the tool failed inside: {e}"))
}

impl World for Machine {
    async fn call_model(
        &self,
        request: Request,
        images: Images,
        deltas: UnboundedSender<Delta>,
    ) -> Result<Reply, Failure> {
        let blobs = |blob: &BlobRef| images.get(&blob.hash).cloned();
        // Nobody listens any more only when the call is being dropped.
        let mut on_delta = |delta| drop(deltas.send(delta));
        self.models.call(&request, &blobs, &mut on_delta).await
    }

    async fn asked_window(&self, model: &str) -> Option<u64> {
        self.models.asked_window(model).await
    }

    async fn summarise(&self, request: Request) -> Result<Reply, Failure> {
        let none = |_: &BlobRef| None;
        self.models.call(&request, &none, &mut |_| {}).await
    }

    async fn run_idempotent(&self, call: &ToolCall, room: usize) -> Ran {
        let input = match &call.input {
            Ok(Input::BashStop(args)) => {
                let (runs, session) = (self.runs.clone(), self.session.clone());
                let id = args.id.clone();
                let stopped = blocking(move || stop_background(&runs, &session, &id)).await;
                return stopped.unwrap_or_else(Ran::error);
            }
            Ok(
                input @ (Input::MemorySearch(_) | Input::MemoryPage(_) | Input::ReviewHistory(_)),
            ) => {
                let (archive, input, now_ms) = (self.archive.clone(), input.clone(), self.now_ms());
                let room = room.min(self.ctx.inline_max_bytes);
                let found = blocking(move || archive.look_back(&input, now_ms, room)).await;
                let nothing = || Ran::error("this call does not look back");
                return found.map_or_else(Ran::error, |found| found.unwrap_or_else(nothing));
            }
            Ok(input) => input.clone(),
            Err(why) => return Ran::error(why.clone()),
        };
        let cancel = Arc::new(AtomicBool::new(false));
        let _guard = CancelOnDrop(Arc::clone(&cancel));
        let ctx = self.ctx.clone();
        match blocking(move || tools::run_idempotent(&input, &ctx, &cancel)).await {
            Ok(ran) => ran,
            Err(why) => Ran::error(why),
        }
    }

    async fn prepare(
        &self,
        call: &ToolCall,
        seen: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Guard, Unready> {
        let refused = |why: String| Err(Unready::Refused(Outcome::error(why)));
        match &call.input {
            Ok(Input::Bash(args)) => self.prepare_run(call.id, args),
            Ok(input @ (Input::Write(_) | Input::Edit(_) | Input::SaveSkill(_))) => {
                let key = tools::target_key(input, &self.ctx);
                let (input, ctx, seen) = (input.clone(), self.ctx.clone(), seen(&key));
                match blocking(move || tools::prepare(&input, &ctx, seen.as_deref())).await {
                    Ok(prepared) => prepared.map_err(Unready::Refused),
                    Err(why) => refused(why),
                }
            }
            Ok(Input::Foreign { name, .. }) => refused(format!("there is no server for {name}")),
            Ok(_) => refused("this call has no effect to prepare".to_string()),
            Err(why) => refused(why.clone()),
        }
    }

    async fn act(&self, call: &ToolCall, guard: &Guard) -> Ran {
        match (&call.input, guard) {
            (Ok(Input::Bash(args)), Guard::Supervised { run, .. }) => {
                self.run_command(call.id, args, run).await
            }
            (Ok(input), Guard::Checked { .. }) => {
                let (input, guard, ctx) = (input.clone(), guard.clone(), self.ctx.clone());
                match blocking(move || tools::apply(&input, &guard, &ctx)).await {
                    Ok(ran) => ran,
                    Err(why) => interrupted(why),
                }
            }
            _ => Ran::error("the call does not fit what was recorded of it"),
        }
    }

    async fn settle(&self, call: &ToolCall, guard: &Guard, stop: bool) -> Settled {
        match (&call.input, guard) {
            (Ok(Input::Bash(args)), _) => self.settle_run(call, args, guard, stop).await,
            (Ok(_), Guard::Checked { path, after, .. }) => match tools::settle_file(guard) {
                FileState::Before => Settled::NotBegun(guard.clone()),
                FileState::After => {
                    let fact = Fact::Wrote {
                        path: path.clone(),
                        hash: after.clone(),
                    };
                    let text = format!("{path} was written, just before rewake was interrupted");
                    Settled::Ended(Ran {
                        fact: Some(fact),
                        ..Ran::done(text)
                    })
                }
                FileState::Conflict(why) => unsettled(&why),
            },
            _ => unsettled("rewake was interrupted while it ran"),
        }
    }

    async fn discard(&self, guard: &Guard) {
        if let Guard::Supervised { run, .. } = guard
            && let Err(e) = self.runs.remove(run)
        {
            tracing::warn!(run, error = %e, "a run folder stays");
        }
    }

    fn background_end(&self, id: &str, background: &Background) -> Option<BackgroundEnd> {
        match self.runs.ended(&background.run) {
            Ok(ended) => Some(report::background_end(&self.runs, id, background, &ended?)),
            Err(e) => {
                tracing::warn!(run = background.run, error = %e, "cannot look at a background command");
                None
            }
        }
    }

    fn printed_bytes(&self) -> u64 {
        let size = |run: &String| {
            let path = self.runs.output_file(run).ok()?;
            Some(std::fs::metadata(path).ok()?.len())
        };
        self.active.borrow().iter().filter_map(size).sum()
    }

    fn now_ms(&self) -> i64 {
        now_ms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_not_told_to_the_model() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            assert!(matches!(unready(&kind.into()), Unready::NoRoom(_)));
        }
        let refused = unready(&io::ErrorKind::InvalidInput.into());
        assert!(matches!(refused, Unready::Refused(Outcome::Error { .. })));
    }
}
