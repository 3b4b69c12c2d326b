//! Custom commands and server prompts that were not sent: they return to the box, or the person is
//! asked.

use super::{App, OutgoingMessage, Overlay, Yes};
use crate::session::{CommandLine, NotSaid, UntrustedCommand};
use crate::ui::text::with_hint;
use crate::ui::transcript::Tone;

/// The beginning of the line that names the server a message waits for.
pub(crate) const ASKING: &str = "asking the MCP server";

impl App {
    /// Puts the line back into the box, or asks the person whether they trust it.
    pub(super) fn not_said(&mut self, typed: &CommandLine, why: NotSaid) {
        self.server_answered();
        match why {
            NotSaid::Untrusted(untrusted) if self.prompts.is_clear() => {
                self.raise(trust_question(*untrusted));
            }
            NotSaid::Untrusted(_) => {
                self.input
                    .put_back(OutgoingMessage::plain(typed.line()), self.now_ms);
                let name = &typed.name;
                let text = format!(
                    "/{name} comes with this folder and is not trusted: send it again to look at it"
                );
                self.notify(Tone::Warn, text);
            }
            NotSaid::Failed(..) => self.return_message(OutgoingMessage::plain(typed.line()), why),
        }
    }

    /// Puts the message back into the box.
    pub(super) fn return_message(&mut self, words: OutgoingMessage, why: NotSaid) {
        self.server_answered();
        self.input.put_back(words, self.now_ms);
        if let NotSaid::Failed(why, hint) = why {
            self.notify(Tone::Warn, with_hint(why, hint));
        }
    }

    /// Removes the line about a server: no message waits for it any more.
    pub(super) fn server_answered(&mut self) {
        self.hint.take_if(|hint| hint.starts_with(ASKING));
    }
}

/// Asks whether a custom command from the folder may be sent.
fn trust_question(untrusted: UntrustedCommand) -> Overlay {
    let UntrustedCommand {
        typed,
        path,
        hash,
        is_changed,
        model,
        body,
    } = untrusted;
    let what = match is_changed {
        true => "changed since you trusted it",
        false => "comes with this folder",
    };
    let question = format!("{path} {what}. Do you trust /{} to say this?", typed.name);
    let model = model.map(|model| format!("model: {model}"));
    let about = model.into_iter().chain(body.lines().map(str::to_string));
    let trusted = CommandLine {
        trusts: Some(hash),
        ..typed
    };
    Overlay::Confirm {
        question,
        about: about.collect(),
        answers: ("trust this text and send it", "not now"),
        yes: Yes::Say(OutgoingMessage::of_command(trusted)),
    }
}
