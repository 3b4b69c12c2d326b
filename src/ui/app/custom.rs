//! Custom commands on the screen: their list, and what becomes of one that was not said.

use super::{App, Overlay, Words, Yes};
use crate::session::{CommandLine, NotSaid, Untrusted};
use crate::ui::commands::CustomList;
use crate::ui::transcript::Tone;

impl App {
    /// What is wrong with a file is said once.
    pub(super) fn commands_listed(&mut self, found: CustomList) {
        self.commands = Some(found.commands);
        let known = &self.commands_warned;
        let new = found.warnings.iter().filter(|w| !known.contains(w));
        let new: Vec<&str> = new.map(String::as_str).collect();
        if !new.is_empty() {
            self.notify(Tone::Warn, new.join("\n"));
        }
        self.commands_warned = found.warnings;
        self.in_box(|composer, around| composer.commands_listed(around));
    }

    /// The line goes back into the box, or the person is asked whether they trust it.
    pub(super) fn not_said(&mut self, typed: &CommandLine, why: NotSaid) {
        let is_free = matches!(self.overlay, Overlay::None);
        match why {
            NotSaid::Untrusted(untrusted) if is_free => self.ask_to_trust(*untrusted),
            NotSaid::Untrusted(_) => {
                self.back_into_box(Words::plain(typed.line()));
                let name = &typed.name;
                let text = format!(
                    "/{name} comes with this folder and is not trusted: send it again to look at it"
                );
                self.notify(Tone::Warn, text);
            }
            NotSaid::Failed(why, hint) => {
                self.back_into_box(Words::plain(typed.line()));
                let hint = hint.map(|hint| format!("\nhint: {hint}"));
                self.notify(Tone::Warn, format!("{why}{}", hint.unwrap_or_default()));
            }
        }
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
            keys: "y trust this text and send it · n not now",
            yes: Yes::Say(Words::of_command(trusted)),
        });
    }
}
