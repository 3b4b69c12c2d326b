//! Signals of a headless run: the first SIGINT stops what is in progress, the second leaves
//! at once; SIGTERM and SIGHUP leave in order, and what runs goes on.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::UnboundedSender;

use super::exit;
use crate::core::entry::SaveReason;
use crate::engine::Command;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    Terminated,
    HungUp,
}

/// The signal that made this process leave: 0 none, 1 SIGTERM, 2 SIGHUP.
static LAST: AtomicU8 = AtomicU8::new(0);

pub fn last() -> Option<Leaving> {
    match LAST.load(Ordering::Relaxed) {
        1 => Some(Leaving::Terminated),
        2 => Some(Leaving::HungUp),
        _ => None,
    }
}

pub fn exit_code(leaving: Leaving) -> u8 {
    match leaving {
        Leaving::Terminated => exit::SIGTERM,
        Leaving::HungUp => exit::SIGHUP,
    }
}

/// Turns signals into commands for as long as it is polled.
pub async fn forward(commands: UnboundedSender<Command>) -> Infallible {
    let streams = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    );
    let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = streams else {
        tracing::warn!("signals cannot be caught; they end the process at once");
        return std::future::pending().await;
    };
    let mut interrupts = 0;
    loop {
        let (mark, command) = tokio::select! {
            _ = interrupt.recv() => {
                interrupts += 1;
                if interrupts > 1 {
                    std::process::exit(exit::SIGINT.into());
                }
                (0, Command::Stop)
            }
            _ = terminate.recv() => (1, Command::Leave(SaveReason::Signal)),
            _ = hangup.recv() => (2, Command::Leave(SaveReason::Signal)),
        };
        LAST.store(mark, Ordering::Relaxed);
        // The engine is gone only when the run is over.
        let _ = commands.send(command);
    }
}
