//! Themes, no colour, foreign scripts, hostile text, and terminals that are too small.

use ratatui::style::Color;
use rewake::ui::app::{Intent, Msg};
use rewake::ui::theme::{Palette, Theme};
use serde_json::json;

use crate::log::{bash, call, edit, text};
use crate::stage::{SIZES, Stage, scene};

fn talk(stage: &mut Stage) {
    stage.says("mend the parser");
    let answer = "# Yes\n\nIt is **mended**: `next`\n\n```rust\nfn main() {}\n```";
    let id = stage.replies(vec![
        text(answer),
        edit("a.rs", "fn old() {}", "fn new() {}"),
    ])[0];
    stage.log(crate::log::entry::checked(id, "/home/ann/parser/a.rs"));
    stage.log(crate::log::entry::done(id, "ok"));
}

#[test]
fn without_colour_nothing_has_one_and_the_words_are_the_same() {
    for (width, height) in SIZES {
        let mut stage = Stage::opened(width, height);
        talk(&mut stage);
        let coloured = stage.screen();
        stage.send(Msg::Restyled(Box::new(Theme::plain().into())));
        assert_eq!(stage.screen(), coloured);
        let buffer = stage.draw();
        for cell in buffer.content() {
            assert_eq!(
                (cell.fg, cell.bg),
                (Color::Reset, Color::Reset),
                "{:?}",
                cell.symbol()
            );
        }
    }
}

#[test]
fn another_theme_is_seen_at_once() {
    let mut stage = Stage::opened(80, 24);
    talk(&mut stage);
    let dark = (stage.style_of("mend the parser"), stage.style_of("fn new"));
    let words = stage.screen();
    stage.send(Msg::Restyled(Box::new(
        Theme::named("light").unwrap().into(),
    )));
    let light = (stage.style_of("mend the parser"), stage.style_of("fn new"));
    assert_ne!(dark, light);
    assert_eq!(stage.screen(), words);
}

/// What a model or a program may send: all of it must stay text.
const HOSTILE: &str = "a\u{1b}[2Jb\u{1b}]52;c;AAAA\u{7}c\u{9b}31md\re\u{8}f\tg\u{200e}h\u{202e}i\u{2066}j\u{feff}k\u{0}l\u{7f}m\u{85}n";

#[test]
fn nothing_that_comes_from_outside_reaches_the_terminal_as_a_command() {
    for (width, height) in SIZES {
        let mut stage = Stage::opened(width, height);
        stage.says(HOSTILE);
        stage.streams(HOSTILE);
        is_harmless(&mut stage);
        stage.replies(vec![
            crate::log::thinking(HOSTILE),
            text(&format!(
                "{HOSTILE}\n\n```{HOSTILE}\n{HOSTILE}\n```\n[{HOSTILE}](http://{HOSTILE})"
            )),
        ]);
        stage.says(HOSTILE);
        stage.runs(bash(&format!("echo {HOSTILE}")), 1, HOSTILE);
        stage.calls(call("read", json!({ "path": HOSTILE })), HOSTILE);
        let id = stage.replies(vec![call(HOSTILE, json!({ "x": HOSTILE }))])[0];
        stage.log(crate::log::entry::denied(id, HOSTILE));
        let id = stage.replies(vec![edit(HOSTILE, HOSTILE, &format!("{HOSTILE}2"))])[0];
        stage.asks(id, HOSTILE, Some(HOSTILE));
        is_harmless(&mut stage);
        stage.send(Msg::Notice(
            rewake::ui::transcript::Tone::Bad,
            HOSTILE.into(),
        ));
        stage.app.branch = Some(HOSTILE.into());
        stage.app.launch.folder = HOSTILE.into();
        is_harmless(&mut stage);
        stage.keys("<C-o><PageUp><PageUp>");
        is_harmless(&mut stage);
    }
}

/// No cell holds what a terminal would obey.
pub fn is_harmless(stage: &mut Stage) {
    let obeyed = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    for cell in stage.draw().content() {
        assert!(!cell.symbol().contains(obeyed), "{:?}", cell.symbol());
    }
}

#[test]
fn other_scripts_keep_their_columns() {
    scene!("scripts", |stage: &mut Stage| {
        stage.open();
        stage.says("漢字とかな、👩‍👩‍👧 family, שלום עולם, مرحبا, naïve é");
        stage.replies(vec![text(
            "| a | b |\n|---|---|\n| 漢字 | 1 |\n| 👍🏽 | 22 |\n| שלום | 333 |\n\nA long line of 漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字 that wraps.",
        )]);
        stage.says("show me");
        stage.runs(bash("printf"), 0, "name\tsize\n漢字.txt\t12\n🦀.rs\t7");
        stage.rest();
    });
}

#[test]
fn a_terminal_that_is_too_small_says_so_and_comes_back() {
    let mut stage = Stage::opened(80, 24);
    talk(&mut stage);
    let before = stage.screen();
    for (width, height) in [(1, 1), (9, 24), (80, 3), (5, 2)] {
        stage.resize(width, height);
        stage.draw();
    }
    stage.resize(9, 3);
    stage.sees("too small");
    stage.resize(80, 24);
    assert_eq!(stage.screen(), before);
}

#[test]
fn a_box_over_a_small_screen_still_shows_its_keys() {
    let mut stage = Stage::opened(40, 12);
    stage.keys("<F1>");
    stage.sees("Esc closes");
    stage.keys("<Esc>");
    stage.says("go");
    let id = stage.replies(vec![bash(&"make ".repeat(200))])[0];
    stage.asks(id, "a command that no rule allows", Some("Bash(make:*)"));
    for answer in ["y once", " s ", " a ", " e ", "n no"] {
        stage.sees(answer);
    }
}

#[test]
fn the_colours_follow_the_background_of_the_terminal() {
    let mut stage = Stage::opened(80, 24);
    talk(&mut stage);
    let [dark, light] = ["dark", "light"].map(|name| Theme::named(name).unwrap());
    let auto = Palette::Auto {
        dark: Box::new(dark.clone()),
        light: Box::new(light.clone()),
    };
    stage.send(Msg::Restyled(Box::new(auto)));
    assert_eq!(stage.app.look.theme, dark);
    stage.send(Msg::Background([255, 255, 255]));
    assert_eq!(stage.app.look.theme, light);
    // It is asked again when one comes back: the terminal may have turned dark meanwhile.
    let asked = |stage: &Stage| {
        let asks = |intent: &&Intent| matches!(intent, Intent::AskBackground);
        stage.wanted.iter().filter(asks).count()
    };
    let before = asked(&stage);
    stage.send(Msg::Focus(false));
    assert_eq!(asked(&stage), before);
    stage.send(Msg::Focus(true));
    assert_eq!(asked(&stage), before + 1);
    stage.send(Msg::Background([0, 0, 0]));
    assert_eq!(stage.app.look.theme, dark);
    // A theme that was chosen stays.
    stage.send(Msg::Restyled(Box::new(light.clone().into())));
    stage.send(Msg::Focus(true));
    assert_eq!(asked(&stage), before + 1);
    assert_eq!(stage.app.look.theme, light);
}
