//! Vim's keys in the box, and keys of the config.

use ratatui::style::Modifier;
use rewake::core::entry::Block;

use crate::log::{bash, text};
use crate::stage::{Stage, scene};

/// A session whose box has vim's keys.
fn vim() -> Stage {
    let mut stage = Stage::opened(80, 24);
    stage.keys("/vim<Enter>");
    stage.sees("vim's keys are on");
    stage
}

#[test]
fn the_border_shows_the_mode_and_enter_sends_in_each() {
    let mut stage = vim();
    stage.keys("fix the parser");
    stage.does_not_see("NORMAL");
    stage.keys("<Esc>");
    stage.sees("NORMAL");
    stage.keys("bcwlexer<Esc>0cwmend<Esc>");
    stage.sees("› mend the lexer");
    stage.keys("0v");
    stage.sees("VISUAL");
    stage.keys("w");
    let style = stage.style_of("mend the");
    assert!(style.add_modifier.contains(Modifier::REVERSED));
    stage.keys("<Esc>");
    stage.sees("NORMAL");
    stage.keys("<Enter>");
    assert_eq!(stage.sent(), ["mend the lexer"]);
    // The next message begins with letters.
    stage.does_not_see("NORMAL");
    stage.keys("dd two<C-j>lines<Esc>kd3l<Enter>");
    assert_eq!(stage.sent(), ["mend the lexer", "dd t\nlines"]);
    stage.keys("/vim<Enter>");
    stage.sees("vim's keys are off");
    stage.keys("text<Esc>dd");
    stage.sees("› textdd");
}

#[test]
fn vim_in_the_box() {
    scene!("vim_visual_line", |stage: &mut Stage| {
        stage.open();
        stage.rest();
        stage.keys("/vim<Enter>one line<C-j><C-j>and another<Esc>Vgg");
    });
}

#[test]
fn esc_in_insert_mode_stops_nothing_and_a_further_one_does() {
    let mut stage = Stage::new(80, 24);
    stage.open();
    stage.keys("/vim<Enter>");
    let before = stage.wanted.len();
    stage.keys("later<Esc>");
    assert_eq!(stage.wanted.len(), before, "it only goes to normal mode");
    stage.keys("d<Esc>");
    assert_eq!(stage.wanted.len(), before, "it only forgets the operator");
    stage.keys("<Esc>");
    assert_eq!(stage.wanted.len(), before + 1);
}

#[test]
fn one_insert_is_undone_at_once_and_a_list_closes_with_insert_mode() {
    let mut stage = vim();
    stage.keys("some words here<Esc>u");
    stage.sees("Describe a task");
    stage.keys("<C-r>");
    stage.sees("› some words here");
    stage.keys("S/mo");
    stage.sees("/model");
    stage.keys("<Esc>");
    stage.does_not_see("choose the model");
    stage.keys("x");
    stage.does_not_see("choose the model");
    stage.sees("› /m");
}

#[test]
fn a_chip_is_one_character() {
    let mut stage = vim();
    stage.pastes(&"long\n".repeat(20));
    stage.keys(" end<Esc>0x");
    stage.does_not_see("Pasted text");
    stage.keys("u");
    stage.sees("[Pasted text #1 +20 lines] end");
    stage.keys("wdw0<Enter>");
    assert_eq!(stage.sent(), ["long\n".repeat(20).trim_end()]);
}

#[test]
fn keys_with_two_presses_and_help_work_in_normal_mode() {
    let mut stage = vim();
    stage.keys("<Esc>?");
    stage.sees("keys and commands");
    stage.keys("<Esc>ione two<Esc><C-x>u");
    stage.sees("NORMAL");
    stage.does_not_see("one two");
}

#[test]
fn letters_for_a_question_stay_letters() {
    let mut stage = Stage::new(80, 24);
    stage.says("go");
    stage.open();
    stage.keys("/vim<Enter><Esc>");
    let call: Vec<Block> = vec![text("now"), bash("make")];
    let ids = stage.replies(call);
    stage.asks(ids[0], "it writes", None);
    stage.answers("yes do it");
    stage.sees("› yes do it");
}
