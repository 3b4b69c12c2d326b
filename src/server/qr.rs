//! The link of the server as a QR code for a terminal.

use std::io;

use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};

/// Black on white, whatever the colours of the terminal are, and back to them.
const COLOURS: (&str, &str) = ("\x1b[38;5;16;48;5;231m", "\x1b[0m");

/// Returns lines of half blocks. On a terminal they are black on white. Elsewhere, dark is what is
/// printed.
///
/// # Errors
/// The link is too long for a QR code.
pub(super) fn code(link: &str, is_terminal: bool) -> io::Result<String> {
    let code = QrCode::with_error_correction_level(link, EcLevel::L);
    let code = code.map_err(|e| io::Error::other(format!("the link has no QR code: {e}")))?;
    let blocks = code.render::<Dense1x2>().quiet_zone(true).build();
    let (begin, end) = if is_terminal { COLOURS } else { ("", "") };
    let lines = blocks.lines().map(|line| format!("{begin}{line}{end}\n"));
    Ok(lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the modules back from the half blocks.
    fn modules(shown: &str) -> Vec<Vec<bool>> {
        let halves = |c: char| match c {
            ' ' => (false, false),
            '▀' => (true, false),
            '▄' => (false, true),
            '█' => (true, true),
            c => panic!("{c:?}"),
        };
        let rows = shown.lines().flat_map(|line| {
            let both: Vec<_> = line.chars().map(halves).collect();
            [
                both.iter().map(|h| h.0).collect(),
                both.iter().map(|h| h.1).collect::<Vec<bool>>(),
            ]
        });
        rows.collect()
    }

    #[test]
    fn the_half_blocks_are_the_modules_of_the_link() {
        let link = format!("http://127.0.0.1:7391/#token={}", "0a".repeat(32));
        let shown = modules(&code(&link, false).unwrap());
        let meant = QrCode::with_error_correction_level(&link, EcLevel::L).unwrap();
        let (width, colors) = (meant.width(), meant.to_colors());
        // A border of four light modules on each side, without which scanners see nothing.
        assert_eq!(shown[0].len(), width + 8);
        for (y, row) in shown.iter().enumerate() {
            for (x, dark) in row.iter().enumerate() {
                let inside = (4..width + 4).contains(&x) && (4..width + 4).contains(&y);
                let is_meant = inside && colors[(y - 4) * width + x - 4] == qrcode::Color::Dark;
                assert_eq!(*dark, is_meant, "{x}, {y}");
            }
        }
    }

    #[test]
    fn a_terminal_gets_black_on_white_and_its_colours_back() {
        let shown = code("http://x/", true).unwrap();
        assert!(
            shown
                .lines()
                .all(|line| line.starts_with(COLOURS.0) && line.ends_with(COLOURS.1))
        );
        assert!(code(&"x".repeat(8_000), true).is_err());
    }
}
