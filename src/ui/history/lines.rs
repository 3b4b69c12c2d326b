//! Texts of the store as lines of the pane.

use crate::core::marks::title_line;
use crate::core::text::one_line;
use crate::ui::text::clean_line;

const LINE_CHARS: usize = 160;

pub(super) fn one_clean_line(text: &str) -> String {
    clean_line(&one_line(text, LINE_CHARS)).into_owned()
}

/// Returns words of people or the model on one line, without Markdown marks.
pub(super) fn clean_title(text: &str) -> String {
    clean_line(&title_line(text, LINE_CHARS)).into_owned()
}
