//! The card of unfinished sessions that a start shows.

use super::{App, Intent, Overlay};
use crate::session::{Details, Which};
use crate::ui::overlay::Card;

impl App {
    /// An offer is gone from the card; behind the last one a new session begins.
    pub(super) fn dismissed(&mut self, id: &str, outcome: Result<(), String>) -> Vec<Intent> {
        let Some(card) = self.card() else {
            return Vec::new();
        };
        match outcome {
            Ok(()) if card.dismissed(id) => Vec::new(),
            Ok(()) => {
                self.overlay = Overlay::None;
                self.behind = None;
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

    pub(super) fn details(&mut self, id: &str, details: Option<Details>) {
        let now_ms = self.now_ms;
        if let Some(card) = self.card()
            && let Some(offer) = card.offers.iter_mut().find(|o| o.info.id == id)
        {
            card.looked_ms = now_ms;
            offer.details = details;
        }
    }

    /// The card, also while the help lies over it.
    pub(super) fn card(&mut self) -> Option<&mut Card> {
        match (&mut self.overlay, self.behind.as_deref_mut()) {
            (Overlay::Card(card), _) | (_, Some(Overlay::Card(card))) => Some(card),
            _ => None,
        }
    }
}
