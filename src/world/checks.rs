//! Checks on this machine: how they run under a keeper, in the sandbox, with access `workspace`.
//!
//! Invariant: a check that may have started is never started again, and none runs without a
//! sandbox.

use super::machine::Machine;
use super::{CheckEnd, CheckRun, PrepareError};
use crate::command::{How, LEASE_ENDED, OF_CHECK, RunEnd, Runs, SettledRun, Spec};
use crate::core::access::Access;
use crate::core::check::Check;
use crate::core::entry::{Guard, Outcome};
use crate::core::plain_text::plain_text;
use crate::core::text::one_line;

/// Maximum number of bytes of an output that are compared: its beginning and its end.
const MAX_OUTPUT_BYTES: u64 = 256 * 1024;

/// Maximum length of the shell's words on a check that could not run, characters.
const MAX_REASON_CHARS: usize = 200;

impl Machine {
    /// Prepares the run folder of a check, and starts nothing.
    pub(super) fn prepare_check_run(&self, check: &Check) -> Result<Guard, PrepareError> {
        let refused = |why: String| PrepareError::Refused(Outcome::error(why));
        let sandbox = match &self.shell.sandbox {
            Some(sandbox) => sandbox.profile(Access::Workspace, &[]).map_err(refused)?,
            None => return Err(refused("there is no sandbox in this session".to_string())),
        };
        self.prepare_spec(&Spec {
            folder: self.ctx.root.clone(),
            timeout_ms: check.timeout_ms,
            output_cap_bytes: MAX_OUTPUT_BYTES,
            sandbox: Some(sandbox),
            ..self.unconfined_spec(check.command.clone(), OF_CHECK.to_string())
        })
    }

    /// Runs a prepared check, or finds the result of one that an earlier process started: see
    /// [`super::World::run_check`].
    pub(super) async fn run_prepared_check(&self, run: &str, boot: &str, stop: bool) -> CheckRun {
        let runs = &self.runs;
        let found = match runs.find_started(run, boot) {
            Ok(found) => found,
            Err(error) => return CheckRun::failed(format!("its state is not known: {error}")),
        };
        let mut running = match found {
            Some(SettledRun::Ended(end)) => return ended(runs, &end),
            Some(SettledRun::NotBegun) => {
                return CheckRun::failed("its supervisor did not start it");
            }
            Some(SettledRun::Running(running)) => {
                if stop && let Err(error) = runs.stop(run) {
                    return CheckRun::failed(format!("it cannot be stopped: {error}"));
                }
                running
            }
            None if stop => match runs.settle(run, boot) {
                // Nobody starts it any more.
                Ok(SettledRun::NotBegun) => return CheckRun::of(CheckEnd::Stopped),
                Ok(SettledRun::Ended(end)) => return ended(runs, &end),
                Ok(SettledRun::Running(running)) => running,
                Err(error) => return CheckRun::failed(format!("its state is not known: {error}")),
            },
            None => match self.start(run) {
                Ok(running) => running,
                Err(error) => {
                    let _ = runs.settle(run, boot);
                    return CheckRun::failed(format!("it cannot be started: {error}"));
                }
            },
        };
        match runs.wait(&mut running).await {
            Ok(end) => ended(runs, &end),
            Err(error) => CheckRun::failed(format!("its end is not known: {error}")),
        }
    }
}

/// Returns whether an output may be nothing but the shell's words.
fn is_short(output: &[u8]) -> bool {
    output.trim_ascii().split(|byte| *byte == b'\n').count() <= 3
}

fn ended(runs: &Runs, end: &RunEnd) -> CheckRun {
    let exit_code = match &end.how {
        _ if end.is_output_lost => {
            return CheckRun::failed("the machine went down and took its output");
        }
        How::Exited(code) => *code,
        How::TimedOut => {
            return CheckRun {
                took_ms: end.took_ms,
                ..CheckRun::of(CheckEnd::TimedOut)
            };
        }
        How::Stopped => return CheckRun::of(CheckEnd::Stopped),
        How::LeaseEnded => return CheckRun::failed(format!("ended by rewake: {LEASE_ENDED}")),
        How::Signalled(signal) => return CheckRun::failed(format!("ended by signal {signal}")),
        How::NotRun(why) => return CheckRun::failed(format!("it did not start: {why}")),
        How::Lost { .. } => {
            return CheckRun::failed("its supervisor was lost; it does not run again");
        }
    };
    match runs.output(end, MAX_OUTPUT_BYTES) {
        // The shell found no such program, or could not run it. It prints no more than that.
        Ok(printed) if matches!(exit_code, 126 | 127) && is_short(&printed.head) => {
            let printed = String::from_utf8_lossy(&printed.head).into_owned();
            let words = plain_text(&printed).trim().to_string();
            let last = words.lines().next_back().unwrap_or_default();
            let last = one_line(last, MAX_REASON_CHARS);
            CheckRun {
                took_ms: end.took_ms,
                ..CheckRun::failed(format!("it could not run (exit code {exit_code}): {last}"))
            }
        }
        Ok(printed) => CheckRun {
            end: CheckEnd::Exited(exit_code),
            took_ms: end.took_ms,
            output: [printed.head, printed.tail].join(&b'\n'),
        },
        Err(error) => CheckRun::failed(format!("its output cannot be read: {error}")),
    }
}
