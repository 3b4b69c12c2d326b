//! Markdown as lines of a screen.
//!
//! A text is cut into its top-level blocks, and each is laid out by itself ([`Stream`]); a
//! whole text is a stream with one piece. So links by reference to another block are shown as
//! they are written, and so are their definitions.
//!
//! Deliberately absent: OSC 8 links (an address is shown, never hidden), footnotes, HTML.

mod code;
mod stream;
mod table;
mod writer;

use ratatui::text::Line;

pub(crate) use stream::Stream;

use super::highlight::Highlighter;
use super::theme::Theme;

/// Returns the whole text as lines of at most `width` columns.
pub(crate) fn render(
    text: &str,
    width: u16,
    theme: &Theme,
    code: &mut Highlighter,
) -> Vec<Line<'static>> {
    let mut stream = Stream::default();
    stream.push(text);
    stream.finish();
    stream.lines(width, theme, code);
    stream.into_lines()
}

#[cfg(test)]
mod tests;
