//! The colours: of the theme, and for the background that the terminal says it has.

use super::{App, Intent};
use crate::ui::theme::{Ground, Palette};

/// An answer of the terminal that did not come by then does not come.
const ANSWER_MS: i64 = 2_000;

impl App {
    pub(super) fn restyle(&mut self, palette: Palette) -> Vec<Intent> {
        self.palette = palette;
        self.theme = self.palette.on(self.ground).clone();
        self.generation += 1;
        match self.follows_background() && !self.is_ground_known {
            true => vec![Intent::AskBackground],
            false => Vec::new(),
        }
    }

    /// The colours for this background, where the theme leaves it to the terminal.
    pub fn stand_on(&mut self, ground: Ground) {
        self.ground = ground;
        let theme = self.palette.on(ground);
        if self.theme != *theme {
            self.theme = theme.clone();
            self.generation += 1;
        }
    }

    /// The terminal was asked what its background is.
    pub fn asked_background(&mut self) {
        self.ground_asked_ms = Some(self.now_ms);
    }

    /// Whether the answer of the terminal may be on its way.
    pub fn awaits_background(&self) -> bool {
        self.ground_asked_ms
            .is_some_and(|at| self.now_ms - at < ANSWER_MS)
    }

    /// Whether the colours are those for the terminal's background.
    pub fn follows_background(&self) -> bool {
        self.palette.is_auto()
    }
}
