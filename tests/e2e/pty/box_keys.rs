//! What a terminal makes of the box: characters that it measures otherwise, the clipboard, and the
//! mouse that is left to it.

use std::os::unix::fs::PermissionsExt;

use crate::pty::scripted;
use crate::pty::step;
use support::{ENTER, Home, Terminal};

/// Ctrl+L, Ctrl+U, Ctrl+V.
const REDRAW: &str = "\x0c";
const CLEAR: &str = "\x15";
const PASTE: &str = "\x16";

/// Families, a flag, a skin tone, variation selectors, a keycap. The terminal of the tests counts
/// each code point for itself, as old terminals and tmux do.
const EMOJI: &str =
    "👨\u{200d}👩\u{200d}👧\u{200d}👦 🇩🇪 👍🏽 ❤\u{fe0f} 1\u{fe0f}\u{20e3} 🏳\u{fe0f}\u{200d}🌈";

fn rows(terminal: &Terminal) -> Vec<String> {
    let screen = terminal.screen();
    screen
        .lines()
        .map(|row| row.trim_end().to_string())
        .collect()
}

#[test]
fn characters_of_several_code_points_are_erased_completely() {
    let answer = format!("They are {EMOJI} here.\n\nA plain line.");
    let home = scripted(&[step(&answer, &[])]);
    let mut terminal = Terminal::start(&home, &["begin"]);
    terminal.sees("A plain line.");
    terminal.sees("here.");
    terminal.types(&format!("x {EMOJI} end of it"));
    terminal.sees("end of it");
    terminal.types(CLEAR);
    terminal.no_longer_sees("end of it");
    terminal.types("plain");
    terminal.sees("› plain");
    terminal.waits("the row of the box is not clean", |screen| {
        screen.lines().any(|row| row.trim() == "› plain")
    });
    // All that is drawn anew is what was there.
    let before = rows(&terminal);
    let answer_before = before.iter().find(|row| row.contains("They are")).cloned();
    assert!(answer_before.is_some_and(|row| row.ends_with(" here.")));
    terminal.types(REDRAW);
    terminal.types("!");
    terminal.sees("› plain!");
    // A frame may be half read.
    let conversation = &before[..before.len() - 5];
    let is_as_before = |screen: &str| {
        let rows: Vec<&str> = screen.lines().map(str::trim_end).collect();
        rows.get(..conversation.len())
            .is_some_and(|rows| rows == conversation)
    };
    terminal.waits("drawn anew, it is another", is_as_before);
    terminal.waits("the row of the box is not clean", |screen| {
        screen.lines().any(|row| row.trim() == "› plain!")
    });
    // Another text in its place: nothing of it is left beside or below.
    terminal.types("\x1bOP");
    terminal.sees("keys and commands");
    terminal.types("\x1b");
    terminal.waits("something is left of the list", is_as_before);
}

/// With this script as `wl-paste`, and no other program that reads a clipboard.
fn with_clipboard(home: &Home, script: &str) -> Terminal {
    let folder = home.user().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("wl-paste");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = home.rewake::<&str>([]);
    command.env("WAYLAND_DISPLAY", "wayland-0");
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    let terminal = Terminal::of(command);
    terminal.sees("Describe a task");
    terminal
}

/// One pixel.
const PNG: &[u8] = &[
    137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 1, 0, 0, 0, 1, 8, 6, 0,
    0, 0, 31, 21, 196, 137, 0, 0, 0, 13, 73, 68, 65, 84, 120, 156, 99, 248, 207, 192, 240, 31, 0,
    5, 0, 1, 255, 137, 153, 61, 29, 0, 0, 0, 0, 73, 69, 78, 68, 174, 66, 96, 130,
];

#[test]
fn an_image_in_the_clipboard_goes_with_the_message() {
    let home = scripted(&[step("I see it.", &[])]);
    let image = home.user().join("image.png");
    std::fs::write(&image, PNG).unwrap();
    let script = format!(
        "case \"$1\" in --list-types) echo image/png;; *) cat '{}';; esac",
        image.display()
    );
    let mut terminal = with_clipboard(&home, &script);
    terminal.types("look at ");
    terminal.types(PASTE);
    terminal.sees("› look at [Image #1 clipboard-");
    terminal.types(ENTER);
    terminal.sees("[1 image]");
    terminal.sees("I see it.");
}

#[test]
fn a_clipboard_that_hangs_or_is_too_large_does_not_hold_up_the_keys() {
    let home = scripted(&[step("As you say.", &[])]);
    let mut terminal = with_clipboard(&home, "sleep 1000");
    terminal.types(PASTE);
    terminal.types("words");
    terminal.sees("› words");
    terminal.sees("wl-paste gave nothing within 5 s");
    drop(terminal);
    let home = scripted(&[step("As you say.", &[])]);
    let much = "case \"$1\" in --list-types) echo image/png;; *) head -c 52428800 /dev/zero;; esac";
    let mut terminal = with_clipboard(&home, much);
    let too_large = "the image in the clipboard has more than 3932160 bytes";
    let too_late = "wl-paste gave nothing within 5 s";
    // On a busy machine even a program that does not hang may be too late.
    loop {
        terminal.types(PASTE);
        terminal.waits("nothing is said of the clipboard", |screen| {
            screen.contains(too_large) || screen.contains(too_late)
        });
        if terminal.screen().contains(too_large) {
            break;
        }
        // A key takes the hint away.
        terminal.types("x");
        terminal.no_longer_sees(too_late);
        terminal.types(CLEAR);
        terminal.no_longer_sees("› x");
    }
    terminal.types("words");
    terminal.sees("› words");
}

#[test]
fn the_mouse_is_left_to_the_terminal_when_that_is_wished() {
    const CAPTURE: &str = "\x1b[?1000h";
    let home = scripted(&[]);
    let shown = |home: &Home, args: &[&str]| {
        let terminal = Terminal::start(home, args);
        terminal.sees("Describe a task");
        terminal.raw()
    };
    assert!(shown(&home, &[]).contains(CAPTURE));
    assert!(!shown(&home, &["--no-mouse"]).contains(CAPTURE));
    let config = std::fs::read_to_string(home.rewake_home().join("config.toml")).unwrap();
    home.write_config(&format!("ui.mouse = false\n{config}"));
    assert!(!shown(&home, &[]).contains(CAPTURE));
}
