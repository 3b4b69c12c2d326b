//! The finished sessions on the start screen, one of which may be resumed.

use crossterm::event::{KeyCode, KeyEvent};

use super::{App, Intent, Phase};
use crate::session::{Finished, SessionSelector};

/// The finished sessions of this folder, as the start screen lists them.
#[derive(Debug, Default)]
pub struct LastHere {
    pub sessions: Vec<Finished>,
    /// The one that Enter resumes. `None`: keys go to the box.
    pub at: Option<usize>,
}

impl App {
    /// Returns whether the list is on the screen and the box is empty.
    pub(super) fn may_choose_last(&self) -> bool {
        self.prompts.is_clear()
            && matches!(self.session.phase, Phase::Resting(_))
            && self.conversation.shows_start()
            && self.input.queue.messages.is_empty()
            && self.input.composer.is_empty()
            && !self.input.composer.is_searching()
            && !self.last_here.sessions.is_empty()
    }
}

impl LastHere {
    /// Takes a key that chooses in the list. `None`: it is for the box, and so are the keys after
    /// it. `may_choose`: the list is on the screen and the box is empty.
    pub(super) fn key(&mut self, key: &KeyEvent, may_choose: bool) -> Option<Vec<Intent>> {
        let at = self.at.take();
        if !may_choose || !key.modifiers.is_empty() {
            return None;
        }
        let last = self.sessions.len().checked_sub(1)?;
        self.at = match (key.code, at) {
            (KeyCode::Down, None) => Some(0),
            (KeyCode::Down, Some(at)) => Some((at + 1).min(last)),
            (KeyCode::Up, Some(at)) => at.checked_sub(1),
            (KeyCode::Esc, Some(_)) => None,
            (KeyCode::Enter, Some(at)) => {
                let id = self.sessions.get(at)?.id.clone();
                return Some(vec![Intent::Open {
                    which: SessionSelector::Named { id, fork: false },
                    take_over: false,
                }]);
            }
            _ => return None,
        };
        Some(Vec::new())
    }
}
