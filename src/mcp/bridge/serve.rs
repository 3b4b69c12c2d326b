//! The main loop of a bridge: each line of stdin becomes a request, until stdin is closed.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;

use super::exchange::{exchange, send_notification};
use super::session::Session;
use super::wire::Wire;
use super::{headers, lines};
use crate::mcp::launch::BridgeConfig;
use crate::mcp::refusal::Refusal;

/// Time limit for the message that ends the handshake. Other requests wait for it, but not longer
/// than this.
const TOLD_WITHIN: Duration = Duration::from_secs(10);

/// Connects stdin and stdout to the server until stdin is closed. Returns the exit code.
pub fn run(config: &BridgeConfig) -> u8 {
    match begin(config) {
        Ok(()) => 0,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "{why}");
            1
        }
    }
}

fn begin(config: &BridgeConfig) -> Result<(), String> {
    let runtime = crate::net::runtime().map_err(|e| format!("cannot start the runtime: {e}"))?;
    let _inside = runtime.enter();
    let wire = Wire::new(config)?;
    let (output, writer) = lines::output();
    let session = Arc::new(Session::new(wire, output));
    runtime.block_on(serve(session));
    drop(runtime);
    // Waits until all answers are written.
    let _ = writer.join();
    Ok(())
}

async fn serve(session: Arc<Session>) {
    let mut lines = lines::input();
    let mut tasks = JoinSet::new();
    while let Some(line) = lines.recv().await {
        // Removes finished tasks.
        while tasks.try_join_next().is_some() {}
        let Ok(message) = serde_json::from_slice::<Value>(&line) else {
            continue;
        };
        let method = message["method"].as_str().unwrap_or_default().to_string();
        let is_stateless = headers::own_version(&message).is_some();
        match (method.as_str(), message["id"].is_null()) {
            // In this era, closing the stream cancels the request.
            ("notifications/cancelled", true) if is_stateless => {
                let id = &message["params"]["requestId"];
                if session.take(id) {
                    let gone = Refusal::in_doubt("it was cancelled before it was answered");
                    session.output.refuse(id, &gone).await;
                }
            }
            ("notifications/initialized", true) => {
                let told = send_notification(&session, &line, &message);
                let _ = tokio::time::timeout(TOLD_WITHIN, told).await;
                session.is_begun(&line);
            }
            ("", true) => {}
            ("", false) | (_, true) => {
                let session = Arc::clone(&session);
                tasks.spawn(async move { send_notification(&session, &line, &message).await });
            }
            (_, false) => {
                let session = Arc::clone(&session);
                tasks.spawn(async move { exchange(&session, &line, &message).await });
            }
        }
    }
    tasks.abort_all();
    while tasks.join_next().await.is_some() {}
    session.end().await;
}
