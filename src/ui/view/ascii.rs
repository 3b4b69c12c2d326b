//! The screen of a terminal that shows only ASCII: one glyph for each cell, and a question mark for
//! unknown ones.

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

/// Returns the ASCII text for a glyph.
fn ascii(symbol: &str) -> &'static str {
    match symbol {
        "▌" | "›" | "▸" | "❯" => ">",
        "…" => "~",
        "·" | "•" | "◦" | "▪" => ".",
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
        "←" | "⟨" | "«" | "‹" => "<",
        "⑂" => "Y",
        "×" => "x",
        "↵" => "/",
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
    use std::path::Path;

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

    /// The glyphs of a source file, without its comments and its tests.
    fn glyphs(source: &str) -> Vec<char> {
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        let code = code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let code = code.map(|line| line.split(" // ").next().unwrap_or_default());
        code.flat_map(str::chars)
            .filter(|c| !c.is_ascii())
            .collect()
    }

    fn look(folder: &Path, unknown: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "tests" {
                look(&path, unknown);
            } else if name.ends_with(".rs") && name != "tests.rs" && name != "ascii.rs" {
                let glyphs = glyphs(&std::fs::read_to_string(&path).unwrap());
                let mut none = glyphs;
                none.retain(|c| ascii(&c.to_string()) == "?");
                unknown.extend(none.iter().map(|c| format!("{c} in {name}")));
            }
        }
    }

    #[test]
    fn every_glyph_that_is_drawn_has_one_in_ascii() {
        let mut unknown = Vec::new();
        look(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src/ui"),
            &mut unknown,
        );
        unknown.sort();
        unknown.dedup();
        assert!(unknown.is_empty(), "{unknown:#?}");
    }

    #[test]
    fn the_ascii_ellipsis_differs_from_the_ascii_separator() {
        assert_eq!(ascii("…"), "~");
        assert_ne!(ascii("…"), ascii("·"));
    }
}
