//! Texts of the store as lines of the pane.

use crate::core::text::one_line;
use crate::ui::text::clean_line;

const LINE_CHARS: usize = 160;

pub(super) fn one_clean_line(text: &str) -> String {
    clean_line(&one_line(text, LINE_CHARS)).into_owned()
}
