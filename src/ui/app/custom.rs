//! Custom commands and prompts of servers on the screen: their lists, and what becomes of one that
//! was not said.

use super::{App, Intent, Overlay, Phase, Words, Yes};
use crate::mcp::offers::Offers;
use crate::session::{CommandLine, NotSaid, Untrusted};
use crate::ui::transcript::Tone;

/// The beginning of the line that names the server a message waits for.
pub(crate) const ASKING: &str = "asking the MCP server";

/// The beginning of the line that names the server whose list is awaited. A list that comes after
/// the message was sent leaves the line about the message.
const LISTING: &str = "listing what the MCP server offers:";

impl App {
    /// The line goes back into the box, or the person is asked whether they trust it.
    pub(super) fn not_said(&mut self, typed: &CommandLine, why: NotSaid) {
        self.server_answered();
        let is_free = self.prompts.is_clear();
        match why {
            NotSaid::Untrusted(untrusted) if is_free => self.ask_to_trust(*untrusted),
            NotSaid::Untrusted(_) => {
                self.input.put_back(Words::plain(typed.line()), self.now_ms);
                let name = &typed.name;
                let text = format!(
                    "/{name} comes with this folder and is not trusted: send it again to look at it"
                );
                self.notify(Tone::Warn, text);
            }
            NotSaid::Failed(why, hint) => {
                self.input.put_back(Words::plain(typed.line()), self.now_ms);
                let hint = hint.map(|hint| format!("\nhint: {hint}"));
                self.notify(Tone::Warn, format!("{why}{}", hint.unwrap_or_default()));
            }
        }
    }

    /// They go back into the box.
    pub(super) fn words_not_said(&mut self, words: Words, why: NotSaid) {
        self.server_answered();
        self.input.put_back(words, self.now_ms);
        if let NotSaid::Failed(why, hint) = why {
            let hint = hint.map(|hint| format!("\nhint: {hint}"));
            self.notify(Tone::Warn, format!("{why}{}", hint.unwrap_or_default()));
        }
    }

    /// A server began to be typed: it is asked where its session is open.
    pub(super) fn ask_server(&mut self, server: String) -> Option<Intent> {
        if !matches!(
            self.session.phase,
            Phase::Working { .. } | Phase::Resting(_)
        ) {
            self.input.composer.server_not_asked();
            return None;
        }
        self.hint = Some(format!("{LISTING} {server} …"));
        Some(Intent::AskServer(server))
    }

    pub(super) fn server_listed(
        &mut self,
        server: &str,
        offers: Result<Offers, (String, Option<String>)>,
    ) {
        self.hint.take_if(|hint| hint.starts_with(LISTING));
        if let Some(why) = self.input.server_listed(server, offers) {
            self.hint = Some(why);
        }
    }

    /// Removes the line about a server: no message waits for it any more.
    pub(super) fn server_answered(&mut self) {
        self.hint.take_if(|hint| hint.starts_with(ASKING));
    }

    fn ask_to_trust(&mut self, untrusted: Untrusted) {
        let Untrusted {
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
        let about = about.collect();
        self.raise(Overlay::Confirm {
            question,
            about,
            answers: ("trust this text and send it", "not now"),
            yes: Yes::Say(Words::of_command(trusted)),
        });
    }
}
