//! `rewake send`: sends a message to a session, also to a running one.

use std::path::PathBuf;

use clap::Args;

use super::run::read_stdin;
use super::shared::{SharedCommand, SharedFlag};
use super::steer::{SteeredSession, report_delivery_to};
use super::{given_flags, print_json};
use crate::core::background::BackgroundMode;
use crate::core::entry::{By, Via};
use crate::headless::{self, Ask, Task};
use crate::report::CliError;
use crate::session::{Accepted, AppContext, Delivery, SessionError, SessionSelector};
use crate::store::{Message, StoreError};

/// Send a message to a session, also to a running one
#[derive(Debug, Clone, PartialEq, Args)]
#[command(shared_flag("The session is in the shared database", &["start"]))]
pub(crate) struct SendArgs {
    /// Session ID or its beginning (@here: newest session of this folder)
    pub id: String,
    #[command(flatten)]
    pub shared: SharedFlag,
    /// Message text (- reads it, or the rest of it, from stdin)
    #[arg(value_name = "TEXT")]
    pub text: Vec<String>,
    /// Attach an image (repeatable)
    #[arg(long, value_name = "FILE")]
    pub image: Vec<PathBuf>,
    /// Continue the session here if it is not running, like -p -r ID
    #[arg(long)]
    pub start: bool,
    /// Print a JSON object, as the server's route does
    #[arg(long, conflicts_with = "start")]
    pub json: bool,
}

pub(super) fn run(ctx: &AppContext, args: &SendArgs) -> Result<u8, CliError> {
    let mut session = SteeredSession::find(ctx, &args.id, args.shared)?;
    let (message, blobs) = message(args)?;
    let receipt = session.send(message, &blobs)?;
    match receipt.sending {
        Delivery::Kept if args.start => start(ctx, session),
        _ if args.json => print_json(&Accepted::of(session.id, &[receipt])),
        sending => Ok(session.report(sending)),
    }
}

/// Reads the message and the bytes of its images.
fn message(args: &SendArgs) -> Result<(Message, Vec<Vec<u8>>), CliError> {
    let text = text(&args.text)?;
    let (images, blobs) = given_flags::images(&args.image)?;
    let message = Message {
        images,
        ..Message::new(text, Via::Signal)
    };
    Ok((message, blobs))
}

/// Continues a session that no process uses. If another process was faster, does nothing.
fn start(ctx: &AppContext, session: SteeredSession<'_>) -> Result<u8, CliError> {
    let id = session.close();
    let which = SessionSelector::Named {
        id: id.clone(),
        fork: false,
    };
    let session = match ctx.open(&which, false) {
        Ok(session) => session,
        Err(SessionError::Store(StoreError::Held { .. })) => {
            return Ok(report_delivery_to(&id, Delivery::Heard, false));
        }
        Err(error) => return Err(error.into()),
    };
    let task = Task::pending_work(By::Person, BackgroundMode::Remind, Ask::Deny);
    headless::run(ctx, session, task)
}

/// Returns the text of the arguments. `-` is replaced by stdin.
pub(super) fn text(words: &[String]) -> Result<String, CliError> {
    let mut parts = Vec::new();
    for word in words {
        match word.as_str() {
            "-" => parts.push(stdin()?),
            word => parts.push(word.to_string()),
        }
    }
    Ok(parts.join("\n\n"))
}

fn stdin() -> Result<String, CliError> {
    // The caller refuses input that is one byte too long.
    let bytes = read_stdin(None)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
