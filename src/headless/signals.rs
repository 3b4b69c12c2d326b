//! Signals of a headless run. The first SIGINT stops the work in progress, the second exits at
//! once. SIGTERM and SIGHUP exit in order, and commands keep running.
//!
//! A signal that the parent process ignores stays ignored: `nohup` ignores SIGHUP, and a shell
//! ignores SIGINT for background jobs.

use std::convert::Infallible;

use signal_hook::consts::{SIGHUP, SIGTERM};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::UnboundedSender;

use crate::core::entry::SaveReason;
use crate::engine::Command;
use crate::report::{Output, Signals, exit};

/// Catches the signals, and converts them to commands while it is polled. `last` is the one that
/// ends this process. Output that nobody reads does not prevent that.
pub(super) async fn forward(commands: UnboundedSender<Command>, last: Signals) -> Infallible {
    let ignored = ignored();
    if ignored & bit(SignalKind::interrupt()) == 0 {
        Signals::end_at_second_interrupt();
    }
    last.catch(SIGTERM, exit::SIGTERM);
    if ignored & bit(SignalKind::hangup()) == 0 {
        last.catch(SIGHUP, exit::SIGHUP);
    }
    if let Err(error) = Output::of_run(&last) {
        tracing::warn!(%error, "no thread writes the output");
    }
    let mut interrupt = caught(SignalKind::interrupt(), ignored);
    let mut terminate = caught(SignalKind::terminate(), 0);
    let mut hangup = caught(SignalKind::hangup(), ignored);
    loop {
        let command = tokio::select! {
            () = next(&mut interrupt) => Command::STOP,
            () = next(&mut terminate) => Command::Leave(SaveReason::Signal),
            () = next(&mut hangup) => Command::Leave(SaveReason::Signal),
        };
        // The engine ends only when the run is over.
        let _ = commands.send(command);
    }
}

/// The signals that end a process in order, for callers that have no work to stop.
pub(crate) struct Ending {
    terminate: Option<Signal>,
    hangup: Option<Signal>,
}

impl Ending {
    /// Catches them from now on. Must be called inside a tokio runtime.
    pub(crate) fn catch() -> Ending {
        Ending {
            terminate: caught(SignalKind::terminate(), 0),
            hangup: caught(SignalKind::hangup(), ignored()),
        }
    }

    /// Waits for the next one. Returns its exit code.
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            () = next(&mut self.terminate) => exit::SIGTERM,
            () = next(&mut self.hangup) => exit::SIGHUP,
        }
    }
}

/// Returns `None` if the signal is ignored or cannot be caught.
fn caught(kind: SignalKind, ignored: u64) -> Option<Signal> {
    if ignored & bit(kind) != 0 {
        return None;
    }
    signal(kind)
        .inspect_err(|error| tracing::warn!(%error, ?kind, "a signal cannot be caught"))
        .ok()
}

async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

fn bit(kind: SignalKind) -> u64 {
    u32::try_from(kind.as_raw_value() - 1)
        .ok()
        .and_then(|place| 1u64.checked_shl(place))
        .unwrap_or(0)
}

/// Returns the currently ignored signals as a bit mask. Only Linux offers this without unsafe
/// code: `SigIgn` in proc_pid_status(5).
fn ignored() -> u64 {
    #[cfg(target_os = "linux")]
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    #[cfg(not(target_os = "linux"))]
    let status = String::new();
    ignored_in(&status)
}

fn ignored_in(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        let mask = ignored_in("Name:\trewake\nSigIgn:\t0000000000001001\nSigCgt:\t0\n");
        assert_ne!(mask & bit(SignalKind::hangup()), 0);
        assert_eq!(mask & bit(SignalKind::interrupt()), 0);
        assert_eq!(ignored_in(""), 0);
    }
}
