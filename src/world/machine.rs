//! The real world: this machine's files and commands, and a model.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc::UnboundedSender;

use super::{BackgroundEnd, Images, Settled, World, report};
use crate::command::{self, Ended, Found, How, RunState, Runs, Spec};
use crate::core::entry::{BlobRef, Block, CallId, Fact, Failure, Guard, Outcome, Output};
use crate::core::prompt::Request;
use crate::core::state::Background;
use crate::core::tool::{BashArgs, Input, ToolCall};
use crate::model::{Delta, Models, Reply};
use crate::tools::{self, Look, Place, Ran};

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
    place: Place,
    shell: Shell,
    runs: Runs,
    models: Models,
    session: String,
    boot: String,
    /// The runs that are waited for.
    active: RefCell<BTreeSet<String>>,
}

impl Machine {
    pub fn new(place: Place, shell: Shell, runs: Runs, models: Models, session: String) -> Machine {
        Machine {
            place,
            shell,
            runs,
            models,
            session,
            boot: command::boot_id(),
            active: RefCell::default(),
        }
    }

    fn spec(&self, call: CallId, args: &BashArgs) -> Spec {
        let own_limit = args.timeout_ms.unwrap_or(self.shell.timeout_ms);
        Spec {
            command: args.command.clone(),
            folder: self.place.folder.clone(),
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

    fn prepare_run(&self, call: CallId, args: &BashArgs) -> Result<Guard, String> {
        let run = self
            .runs
            .prepare(&self.spec(call, args))
            .map_err(|e| format!("cannot prepare the command: {e}"))?;
        Ok(Guard::Supervised {
            run,
            boot: self.boot.clone(),
            background: args.background,
        })
    }

    /// Starts a prepared run and waits for its end, or says that it goes on.
    async fn run_command(&self, call: CallId, args: &BashArgs, run: &str) -> Ran {
        let mut running = match self.runs.start(run) {
            Ok(running) => running,
            Err(e) => return failed(format!("cannot start the command: {e}")),
        };
        if args.background {
            // Only what has begun goes on in the background: until then any look at the run
            // could be the one that decides that it never will. The keeper is nobody's child
            // once this process is gone; until then tokio reaps it.
            return match self.runs.begun(&mut running).await {
                Ok(Found::Ended(ended)) if matches!(ended.how, How::NotRun(_)) => {
                    self.result(Ok(ended))
                }
                Ok(Found::Running(_) | Found::Ended(_)) => {
                    self.in_background(call, run, &args.command)
                }
                Ok(Found::NotBegun) => failed("cannot start the command: its keeper did not begin"),
                Err(e) => self.result(Err(e)),
            };
        }
        self.active.borrow_mut().insert(run.to_string());
        let ended = self.runs.wait(&mut running).await;
        self.active.borrow_mut().remove(run);
        self.result(ended)
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

    fn result(&self, ended: std::io::Result<Ended>) -> Ran {
        match ended {
            Ok(ended) => report::result(&self.runs, &ended, self.place.inline_max_bytes),
            Err(e) => failed(format!("cannot learn how the command ended: {e}")),
        }
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
            Ok(Found::NotBegun) if stop => Settled::NotBegun(guard.clone()),
            Ok(Found::NotBegun) => match self.prepare_run(call.id, args) {
                Ok(guard) => Settled::NotBegun(guard),
                Err(why) => Settled::Ended(failed(why)),
            },
            Ok(_) if args.background && !stop => {
                Settled::Ended(self.in_background(call.id, run, &args.command))
            }
            Ok(Found::Ended(ended)) => {
                Settled::Ended(report::after_restart(self.result(Ok(ended))))
            }
            Ok(Found::Running(mut running)) => {
                if stop && let Err(e) = self.runs.stop(run) {
                    return Settled::Ended(failed(format!("cannot stop the command: {e}")));
                }
                self.active.borrow_mut().insert(run.clone());
                let ended = self.runs.wait(&mut running).await;
                self.active.borrow_mut().remove(run);
                let ran = self.result(ended);
                Settled::Ended(if stop {
                    ran
                } else {
                    report::after_restart(ran)
                })
            }
            Err(e) => unsettled(&format!("its run folder cannot be read: {e}")),
        }
    }

    fn stop_background(&self, id: &str) -> Ran {
        let mine = |r: &command::RunInfo| {
            r.spec.session == self.session && r.spec.background && r.spec.call == id
        };
        let Some(info) = self.runs.list().into_iter().find(mine) else {
            return failed(format!("there is no background command {id}"));
        };
        if let RunState::Ended(_) = info.state {
            return done(format!("{id} had ended already"));
        }
        match self.runs.stop(&info.run) {
            Ok(true) => done(format!(
                "{id} is being stopped; you are told when it has ended"
            )),
            Ok(false) => done(format!("{id} had ended already")),
            Err(e) => failed(format!("cannot stop {id}: {e}")),
        }
    }
}

/// The name of a background command for the model: that of its call.
fn background_id(call: CallId) -> String {
    format!("bg_{}_{}", call.reply, call.index)
}

fn done(text: impl Into<String>) -> Ran {
    Ran {
        outcome: Outcome::done(text),
        fact: None,
        blobs: Vec::new(),
    }
}

fn failed(why: impl Into<String>) -> Ran {
    Ran {
        outcome: Outcome::error(why),
        fact: None,
        blobs: Vec::new(),
    }
}

fn interrupted(why: impl Into<String>) -> Ran {
    let outcome = Outcome::Interrupted {
        output: Output::default(),
        why: why.into(),
    };
    Ran {
        outcome,
        fact: None,
        blobs: Vec::new(),
    }
}

fn unsettled(why: &str) -> Settled {
    Settled::Ended(interrupted(format!(
        "{why}; it may or may not have happened; look before you repeat it"
    )))
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

    async fn summarise(&self, request: Request) -> Result<String, Failure> {
        let none = |_: &BlobRef| None;
        let reply = self.models.call(&request, &none, &mut |_| {}).await?;
        let words = reply.blocks.into_iter().filter_map(|block| match block {
            Block::Text { text, .. } => Some(text),
            Block::Thinking { .. } | Block::Call { .. } => None,
        });
        Ok(words.collect::<Vec<_>>().join("\n"))
    }

    async fn run_pure(&self, call: &ToolCall) -> Ran {
        let input = match &call.input {
            Ok(Input::BashStop(args)) => return self.stop_background(&args.id),
            Ok(input) => input.clone(),
            Err(why) => return failed(why.clone()),
        };
        let cancel = Arc::new(AtomicBool::new(false));
        let _guard = CancelOnDrop(Arc::clone(&cancel));
        let place = self.place.clone();
        match blocking(move || tools::run_pure(&input, &place, &cancel)).await {
            Ok(ran) => ran,
            Err(why) => failed(why),
        }
    }

    async fn prepare(
        &self,
        call: &ToolCall,
        seen: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Guard, Outcome> {
        match &call.input {
            Ok(Input::Bash(args)) => self.prepare_run(call.id, args).map_err(Outcome::error),
            Ok(input @ (Input::Write(_) | Input::Edit(_))) => {
                let key = tools::path_key(&input.subject(), &self.place);
                let (input, place, seen) = (input.clone(), self.place.clone(), seen(&key));
                match blocking(move || tools::prepare(&input, &place, seen.as_deref())).await {
                    Ok(prepared) => prepared,
                    Err(why) => Err(Outcome::error(why)),
                }
            }
            Ok(Input::Foreign { name, .. }) => {
                Err(Outcome::error(format!("there is no server for {name}")))
            }
            Ok(_) => Err(Outcome::error("this call has no effect to prepare")),
            Err(why) => Err(Outcome::error(why.clone())),
        }
    }

    async fn act(&self, call: &ToolCall, guard: &Guard) -> Ran {
        match (&call.input, guard) {
            (Ok(Input::Bash(args)), Guard::Supervised { run, .. }) => {
                self.run_command(call.id, args, run).await
            }
            (Ok(input), Guard::Checked { .. }) => {
                let (input, guard, place) = (input.clone(), guard.clone(), self.place.clone());
                match blocking(move || tools::apply(&input, &guard, &place)).await {
                    Ok(ran) => ran,
                    Err(why) => interrupted(why),
                }
            }
            _ => failed("the call does not fit what was recorded of it"),
        }
    }

    async fn settle(&self, call: &ToolCall, guard: &Guard, stop: bool) -> Settled {
        match (&call.input, guard) {
            (Ok(Input::Bash(args)), _) => self.settle_run(call, args, guard, stop).await,
            (Ok(_), Guard::Checked { path, after, .. }) => match tools::look(guard) {
                Look::Before => Settled::NotBegun(guard.clone()),
                Look::After => {
                    let fact = Fact::Wrote {
                        path: path.clone(),
                        hash: after.clone(),
                    };
                    let text = format!("{path} was written, just before rewake was interrupted");
                    Settled::Ended(Ran {
                        fact: Some(fact),
                        ..done(text)
                    })
                }
                Look::Conflict(why) => unsettled(&why),
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
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

/// How a command that is over is told in one line, and whether it did what it was to do.
pub(super) fn how(how: &How) -> (String, Option<i32>) {
    match how {
        How::Exited(code) => (format!("exit code {code}"), Some(*code)),
        How::Signalled(signal) => (format!("ended by signal {signal}"), None),
        How::TimedOut => ("ended by rewake: it ran longer than its time limit".into(), None),
        How::Stopped => ("stopped".into(), None),
        How::NotRun(why) => (format!("it never ran: {why}"), None),
        How::Lost { group: Some(group) } => (
            format!(
                "its keeper was killed, so its end is not known; its processes still run (group \
                 {group}; rewake ps stops them); it may or may not have done its work; look before \
                 you repeat it"
            ),
            None,
        ),
        How::Lost { group: None } => (
            "its keeper was killed or the machine went down; it may or may not have done its work; \
             look before you repeat it"
                .into(),
            None,
        ),
    }
}
