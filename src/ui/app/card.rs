//! The card of unfinished sessions that a start shows.

use super::{App, Intent, Overlay};
use crate::session::Which;

impl App {
    /// An offer is gone from the card; behind the last one a new session begins.
    pub(super) fn dismissed(&mut self, id: &str, outcome: Result<(), String>) -> Vec<Intent> {
        let Some(card) = self.prompts.card() else {
            return Vec::new();
        };
        match outcome {
            Ok(()) if card.dismissed(id) => Vec::new(),
            Ok(()) => {
                self.prompts.overlay = Overlay::None;
                self.prompts.behind = None;
                self.hint = Some("dismissed: rewake --all offers it again".into());
                vec![Intent::Open {
                    which: Which::New,
                    take_over: false,
                }]
            }
            Err(why) => {
                self.hint = Some(format!("cannot dismiss: {why}"));
                Vec::new()
            }
        }
    }
}
