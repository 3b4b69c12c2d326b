//! The screen of a terminal that shows ASCII alone: one glyph for each cell, and what has none
//! is a question mark.

use ratatui::buffer::Buffer;

/// Makes every cell ASCII.
pub(super) fn only(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        if !cell.symbol().is_ascii() {
            let shown = ascii(cell.symbol());
            cell.set_symbol(shown);
        }
    }
}

/// What a glyph is shown as.
fn ascii(symbol: &str) -> &'static str {
    match symbol {
        "▌" | "›" | "▸" | "❯" => ">",
        "·" | "…" | "•" | "◦" | "▪" => ".",
        "✗" => "x",
        "◐" | "◓" | "◑" | "◒" | "●" => "*",
        "◌" | "○" | "─" | "−" | "–" | "—" | "━" => "-",
        "┃" | "│" | "▎" | "▏" => "|",
        "┌" | "┐" | "└" | "┘" | "├" | "┤" | "┬" | "┴" | "┼" | "╭" | "╮" | "╯" | "╰" | "◎" => {
            "+"
        }
        "✓" | "↓" => "v",
        "✎" => "~",
        "↑" => "^",
        "→" | "⟩" | "»" => ">",
        "←" | "⟨" | "«" => "<",
        "⑂" => "Y",
        "⋯" => ".",
        "▓" | "▒" | "█" => "#",
        "“" | "”" | "„" => "\"",
        "‘" | "’" => "'",
        "\u{a0}" => " ",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn every_cell_is_ascii_and_stays_where_it_is() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 1));
        buffer.set_string(0, 0, "▌ ✗ 漢é ◐·›", Style::new());
        only(&mut buffer);
        let row: String = buffer.content.iter().map(|cell| cell.symbol()).collect();
        assert_eq!(row, "> x ? ? *.> ");
    }
}
