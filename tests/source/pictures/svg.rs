//! A screen as a picture: text that stays text, in its colours.

use std::fmt::Write;

/// Of a cell, in the picture's own units.
const CELL_WIDTH: f64 = 8.4;
const CELL_HEIGHT: f64 = 17.0;
const FONT_SIZE: f64 = 14.0;
/// From the top of a cell to the line that letters stand on.
const BASELINE: f64 = 13.0;
const MARGIN: f64 = 12.0;

/// The colours of a terminal's own.
pub struct Paper {
    background: &'static str,
    text: &'static str,
    /// Of the picture's edge, where the page may have the same background.
    edge: &'static str,
}

pub const DARK: Paper = Paper {
    background: "#16161e",
    text: "#c8cbdc",
    edge: "none",
};
pub const LIGHT: Paper = Paper {
    background: "#ffffff",
    text: "#1f2328",
    edge: "#d0d7de",
};

/// Cells side by side that look the same.
#[derive(PartialEq, Clone)]
struct Look {
    fg: String,
    bg: Option<String>,
    bold: bool,
    italic: bool,
    underline: bool,
}

/// `rewrite` is given each text that looks the same, and may make it shorter.
pub fn picture(
    screen: &vt100::Screen,
    title: &str,
    paper: &Paper,
    rewrite: impl Fn(&str) -> String,
) -> String {
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let width = f64::from(columns) * CELL_WIDTH + 2.0 * MARGIN;
    let height = f64::from(rows) * CELL_HEIGHT + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" \
         font-size=\"{FONT_SIZE}\" role=\"img\">\n<title>{}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{}\" stroke=\"{}\"/>\n",
        escaped(title),
        paper.background,
        paper.edge
    );
    for row in 0..rows {
        line(screen, row, columns, paper, &rewrite, &mut svg);
    }
    svg.push_str("</svg>\n");
    svg
}

fn line(
    screen: &vt100::Screen,
    row: u16,
    columns: u16,
    paper: &Paper,
    rewrite: &impl Fn(&str) -> String,
    svg: &mut String,
) {
    let mut column = 0;
    while column < columns {
        let from = column;
        let first = look(screen, row, column, paper);
        let mut text = String::new();
        while column < columns && look(screen, row, column, paper) == first {
            let cell = screen.cell(row, column);
            let is_rest = cell.is_some_and(vt100::Cell::is_wide_continuation);
            match cell.map(vt100::Cell::contents).unwrap_or_default() {
                _ if is_rest => {}
                "" => text.push(' '),
                contents => text.push_str(contents),
            }
            column += 1;
        }
        let at = from..column;
        let shown = rewrite(&text);
        let lost = text.chars().count().saturating_sub(shown.chars().count());
        let lost = u16::try_from(lost).unwrap_or(0);
        run(
            svg,
            row,
            at.start..at.end.saturating_sub(lost),
            &shown,
            &first,
        );
    }
}

fn run(svg: &mut String, row: u16, at: std::ops::Range<u16>, text: &str, look: &Look) {
    let x = MARGIN + f64::from(at.start) * CELL_WIDTH;
    let y = MARGIN + f64::from(row) * CELL_HEIGHT;
    let width = f64::from(at.end - at.start) * CELL_WIDTH;
    if let Some(bg) = &look.bg {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{CELL_HEIGHT}\" fill=\"{bg}\"/>"
        );
    }
    if text.trim().is_empty() {
        return;
    }
    let mut style = String::new();
    for (is_so, attribute) in [
        (look.bold, " font-weight=\"bold\""),
        (look.italic, " font-style=\"italic\""),
        (look.underline, " text-decoration=\"underline\""),
    ] {
        if is_so {
            style.push_str(attribute);
        }
    }
    // Its length is given, so that columns stand below each other in whatever font.
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" fill=\"{}\"{style} \
         xml:space=\"preserve\">{}</text>",
        y + BASELINE,
        look.fg,
        escaped(text)
    );
}

fn look(screen: &vt100::Screen, row: u16, column: u16, paper: &Paper) -> Look {
    let Some(cell) = screen.cell(row, column) else {
        return Look {
            fg: paper.text.into(),
            bg: None,
            bold: false,
            italic: false,
            underline: false,
        };
    };
    let (mut fg, mut bg) = (colour(cell.fgcolor()), colour(cell.bgcolor()));
    // The cursor of the box is a cell in reverse.
    if cell.inverse() {
        (fg, bg) = (
            Some(bg.unwrap_or_else(|| paper.background.into())),
            Some(fg.unwrap_or_else(|| paper.text.into())),
        );
    }
    Look {
        fg: fg.unwrap_or_else(|| paper.text.into()),
        bg,
        bold: cell.bold(),
        italic: cell.italic(),
        underline: cell.underline(),
    }
}

/// `None` is the terminal's own. The themes of the program name their colours in full.
fn colour(colour: vt100::Color) -> Option<String> {
    match colour {
        vt100::Color::Rgb(r, g, b) => Some(format!("#{r:02x}{g:02x}{b:02x}")),
        vt100::Color::Default | vt100::Color::Idx(_) => None,
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
