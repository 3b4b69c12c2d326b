//! Telemetry: spans and metrics of sessions for an OpenTelemetry collector, if the user's own config
//! has `[telemetry] enabled = true`.
//!
//! One thread for each open session reads the log through its own connection, from the entry up to
//! which everything was sent, and posts what is new ([`exporter`]). The engine does not know it.
//! The log is the only queue: after a crash the next start sends the rest.
//!
//! Invariant: the progress of a session is stored after the collector accepted or refused a batch,
//! never before. So a span may be sent twice, with the same id, and none is lost.

mod encode;
mod exporter;
pub mod settings;
pub mod spans;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

use crate::store::{Store, TelemetryCursor};
use exporter::Exporter;
use settings::Exporting;
use spans::Trace;

/// Time that the end of a run waits for the rest to be sent: less than half a second in total.
const END_WAIT: Duration = Duration::from_millis(450);

/// Interval for checking whether anything was recorded.
const LOOK: Duration = Duration::from_secs(1);

/// Returns the trace of a session with this progress.
pub fn trace_of(cursor: &TelemetryCursor) -> Trace {
    Trace {
        id: cursor.trace,
        parent: cursor.parent,
    }
}

/// The session whose spans are sent, and how.
#[derive(Debug, Clone)]
pub struct Job {
    pub exporting: Exporting,
    pub data_dir: PathBuf,
    pub session: String,
    /// The end of the run waits for the collector. A subagent does not: its parent waits for it,
    /// and sends its rest.
    pub waits_at_end: bool,
}

/// The first warning of a run. Further ones are only in the log file.
#[derive(Debug, Clone, Default)]
struct Warning(Arc<Mutex<(bool, Option<String>)>>);

impl Warning {
    fn set(&self, text: &str) {
        tracing::warn!(text, "telemetry");
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut said.0, true) {
            said.1 = Some(format!("telemetry: {text}"));
        }
    }

    fn take(&self) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1
            .take()
    }
}

/// The thread that sends the spans of a session. It ends when this is dropped.
pub struct Sender {
    stop: watch::Sender<bool>,
    /// Disconnected when the thread ends.
    over: Receiver<()>,
    warning: Warning,
    waits_at_end: bool,
}

impl Sender {
    /// Starts to send.
    pub fn start(job: Job) -> Sender {
        let (stop, stopped) = watch::channel(false);
        let (running, over) = sync_channel::<()>(0);
        let warning = Warning::default();
        let sender = Sender {
            stop,
            over,
            warning: warning.clone(),
            waits_at_end: job.waits_at_end,
        };
        thread::spawn(move || {
            if let Err(why) = send(job, stopped, &warning) {
                warning.set(&why);
            }
            drop(running);
        });
        sender
    }

    /// Returns a warning for the user, once.
    pub fn take_warning(&self) -> Option<String> {
        self.warning.take()
    }

    /// Waits at most half a second until the rest is sent. Returns the warning, if there is one.
    pub fn finish(self) -> Option<String> {
        let _ = self.stop.send(true);
        if self.waits_at_end {
            let late = self.over.recv_timeout(END_WAIT);
            if matches!(late, Err(RecvTimeoutError::Timeout)) {
                self.warning.set(LATE);
            }
        }
        self.warning.take()
    }
}

const LATE: &str = "the collector does not answer; the next start sends the rest";

/// Sends until `stopped` is true or its sender is dropped, and then for at most [`END_WAIT`].
fn send(job: Job, mut stopped: watch::Receiver<bool>, warning: &Warning) -> Result<(), String> {
    let runtime =
        crate::net::runtime().map_err(|error| format!("its thread cannot start: {error}"))?;
    let store = Store::open(&job.data_dir).map_err(|error| error.to_string())?;
    let waits_at_end = job.waits_at_end;
    let mut exporter = Exporter::new(job, store, stopped.clone(), warning.clone())?;
    let end = async {
        let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
        if waits_at_end {
            tokio::time::sleep(END_WAIT).await;
            warning.set(LATE);
        }
    };
    runtime.block_on(async {
        tokio::select! {
            biased;
            () = end => Ok(()),
            sent = exporter.run() => sent.map_err(|error| error.to_string()),
        }
    })
}
