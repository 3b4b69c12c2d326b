//! A screen as a picture: text that stays text, in its colours.

use std::fmt::Write;
use std::num::NonZero;

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
    caption: &'static str,
}

pub const DARK: Paper = Paper {
    background: "#16161e",
    text: "#c8cbdc",
    edge: "none",
    caption: "#7aa2f7",
};
pub const LIGHT: Paper = Paper {
    background: "#ffffff",
    text: "#1f2328",
    edge: "#d0d7de",
    caption: "#0550ae",
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

/// Returns one screen as a picture. `rewrite` gets each run of equal cells and may shorten it.
pub fn picture(
    screen: &vt100::Screen,
    title: &str,
    paper: &Paper,
    rewrite: impl Fn(&str) -> String,
) -> String {
    let mut svg = head(screen.size(), 0.0, title, paper);
    svg.push_str(&frame(screen, paper, rewrite));
    svg.push_str("</svg>\n");
    svg
}

/// A moment of an animation.
pub struct Scene {
    /// What [`frame`] returned.
    pub frame: String,
    /// The line below the screen.
    pub caption: &'static str,
    pub seconds: u32,
}

/// The height of the line below the screen of an animation.
const CAPTION_HEIGHT: f64 = 34.0;

/// Returns scenes that follow each other without end, with CSS alone. A reader who wants no
/// motion sees the last one.
pub fn animation(
    size: (NonZero<u16>, NonZero<u16>),
    scenes: &[Scene],
    title: &str,
    paper: &Paper,
) -> String {
    let mut svg = head(size, CAPTION_HEIGHT, title, paper);
    let total: u32 = scenes.iter().map(|scene| scene.seconds).sum();
    let percent = |seconds: u32| 100.0 * f64::from(seconds) / f64::from(total);
    let _ = writeln!(
        svg,
        "<style>\n.scene {{ opacity: 0; animation: {total}s step-end infinite }}"
    );
    let mut from = 0;
    for (number, scene) in scenes.iter().enumerate() {
        let (start, end) = (percent(from), percent(from + scene.seconds));
        let _ = writeln!(
            svg,
            ".scene-{number} {{ animation-name: scene-{number} }}\n\
             @keyframes scene-{number} {{ 0% {{ opacity: {} }} {start:.2}% {{ opacity: 1 }} \
             {end:.2}%, 100% {{ opacity: {} }} }}",
            u8::from(from == 0),
            u8::from(from + scene.seconds == total),
        );
        from += scene.seconds;
    }
    let last = scenes.len().saturating_sub(1);
    let _ = writeln!(
        svg,
        "@media (prefers-reduced-motion: reduce) {{ .scene {{ animation: none }} .scene-{last} {{ opacity: 1 }} }}\n</style>"
    );
    let (_, height) = extent(size, CAPTION_HEIGHT);
    for (number, scene) in scenes.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<g class=\"scene scene-{number}\">\n{}<text x=\"{MARGIN:.1}\" y=\"{:.1}\" fill=\"{}\" \
             font-weight=\"bold\">{}</text>\n</g>",
            scene.frame,
            height - MARGIN,
            paper.caption,
            escaped(scene.caption)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns the width and height of a picture of a screen.
fn extent((rows, columns): (NonZero<u16>, NonZero<u16>), below: f64) -> (f64, f64) {
    (
        f64::from(columns.get()) * CELL_WIDTH + 2.0 * MARGIN,
        f64::from(rows.get()) * CELL_HEIGHT + 2.0 * MARGIN + below,
    )
}

/// Opens a picture and paints its background.
fn head(size: (NonZero<u16>, NonZero<u16>), below: f64, title: &str, paper: &Paper) -> String {
    let (width, height) = extent(size, below);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" \
         font-size=\"{FONT_SIZE}\" role=\"img\">\n<title>{}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{}\" stroke=\"{}\"/>\n",
        escaped(title),
        paper.background,
        paper.edge
    )
}

/// Returns the texts of a screen, without a head.
pub fn frame(screen: &vt100::Screen, paper: &Paper, rewrite: impl Fn(&str) -> String) -> String {
    let (rows, columns) = screen.size();
    let mut svg = String::new();
    for row in 0..rows.get() {
        line(screen, row, columns.get(), paper, &rewrite, &mut svg);
    }
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
