//! How the screen looks: its colours, which follow the background that the terminal reports, its
//! size, and the clock of the person.

use jiff::tz::TimeZone;

use crate::ui::highlight::Highlighter;
use crate::ui::theme::{BackgroundTone, Palette, Theme};
use crate::ui::transcript::LayoutContext;

/// Maximum wait for an answer of the terminal.
const ANSWER_MS: i64 = 2_000;

/// The colours, the size and the time zone of the screen.
pub struct Appearance {
    pub theme: Theme,
    /// The themes of which the one for this background is shown.
    palette: Palette,
    ground: BackgroundTone,
    /// When the terminal was asked for its background, until it answers.
    asked_ms: Option<i64>,
    is_ground_known: bool,
    pub code: Highlighter,
    /// Grows with every change of the look.
    pub generation: u64,
    /// Time zone of the times of day that are shown.
    pub zone: TimeZone,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// The terminal shows only ASCII.
    pub is_ascii: bool,
}

impl Appearance {
    /// Returns the look on a dark background, until the terminal names another one.
    pub fn new(palette: Palette) -> Appearance {
        Appearance {
            theme: palette.on(BackgroundTone::Dark).clone(),
            palette,
            ground: BackgroundTone::Dark,
            asked_ms: None,
            is_ground_known: false,
            code: Highlighter::background(),
            generation: 0,
            zone: TimeZone::UTC,
            size: (80, 24),
            is_ascii: false,
        }
    }

    /// Returns the environment for the layout of the conversation.
    pub fn layout(&mut self, now_ms: i64) -> LayoutContext<'_> {
        LayoutContext {
            width: self.size.0,
            theme: &self.theme,
            code: &mut self.code,
            generation: self.generation,
            now_ms,
            zone: &self.zone,
        }
    }

    /// Uses other themes. Returns whether the terminal must be asked for its background.
    pub(super) fn restyle(&mut self, palette: Palette) -> bool {
        self.palette = palette;
        self.theme = self.palette.on(self.ground).clone();
        self.generation += 1;
        self.follows_background() && !self.is_ground_known
    }

    /// Uses the colours for this background, where the theme leaves it to the terminal.
    pub fn use_background(&mut self, ground: BackgroundTone) {
        self.ground = ground;
        let theme = self.palette.on(ground);
        if self.theme != *theme {
            self.theme = theme.clone();
            self.generation += 1;
        }
    }

    /// Notes that the terminal was asked for its background.
    pub fn asked_background(&mut self, now_ms: i64) {
        self.asked_ms = Some(now_ms);
    }

    /// Takes the background that the terminal reports.
    pub(super) fn receive_background(&mut self, rgb: [u8; 3]) {
        self.is_ground_known = true;
        self.asked_ms = None;
        self.use_background(BackgroundTone::of(rgb));
    }

    /// Returns whether the answer of the terminal may be on its way.
    pub fn awaits_background(&self, now_ms: i64) -> bool {
        self.asked_ms.is_some_and(|at| now_ms - at < ANSWER_MS)
    }

    /// Returns whether the colours are those for the terminal's background.
    pub fn follows_background(&self) -> bool {
        self.palette.is_auto()
    }

    /// Notes that time went by: code may have got its colours.
    pub(super) fn tick(&mut self) {
        if self.code.changed() {
            self.generation += 1;
        }
    }
}
