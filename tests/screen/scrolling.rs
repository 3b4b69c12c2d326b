//! Scrolling, folding by hand, and searching in a long conversation.

use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::style::Modifier;
use rewake::ui::app::{Intent, Msg};

use crate::log::{bash, text};
use crate::stage::{ID, Stage, scene};

fn long(stage: &mut Stage) {
    for n in 1..=30 {
        stage.says(&format!("question number {n}"));
        stage.replies(vec![text(&format!(
            "answer number {n}\n\nwith a second part"
        ))]);
    }
    stage.rest();
}

fn wheel(up: bool) -> Msg {
    let kind = match up {
        true => MouseEventKind::ScrollUp,
        false => MouseEventKind::ScrollDown,
    };
    Msg::Mouse(MouseEvent {
        kind,
        column: 3,
        row: 3,
        modifiers: KeyModifiers::NONE,
    })
}

#[test]
fn a_scrolled_view_shows_that_more_is_below() {
    scene!("scrolled", |stage: &mut Stage| {
        stage.open();
        long(stage);
        stage.keys("<PageUp><PageUp><S-Up>");
    });
    let mut stage = Stage::opened(80, 24);
    long(&mut stage);
    stage.does_not_see("more below");
    stage.keys("<Home>");
    stage.sees("question number 1");
    stage.sees("more below");
    stage.keys("<End>");
    stage.sees("answer number 30");
    stage.does_not_see("more below");
}

#[test]
fn a_scrolled_view_stays_in_place_while_output_arrives() {
    let mut stage = Stage::opened(80, 24);
    long(&mut stage);
    stage.keys("<PageUp><PageUp>");
    let before: Vec<String> = stage.rows()[..10].to_vec();
    stage.says("one more");
    stage.streams("and a stream\n\nof many\n\nlines");
    assert_eq!(stage.rows()[..10], before[..]);
}

#[test]
fn the_wheel_scrolls_there_and_back() {
    let mut stage = Stage::opened(80, 24);
    long(&mut stage);
    let before = stage.screen();
    stage.send(wheel(true));
    assert_ne!(stage.screen(), before);
    stage.send(wheel(false));
    assert_eq!(stage.screen(), before);
}

#[test]
fn earlier_entries_are_fetched_once_when_the_first_line_is_reached() {
    let mut stage = Stage::new(80, 24);
    long(&mut stage);
    let all = stage.log.records.clone();
    stage.log.records.drain(..40);
    stage.open();
    stage.keys("<Home><PageUp><PageUp>");
    let asked = stage
        .wanted
        .iter()
        .filter(|i| matches!(i, Intent::Earlier(40)));
    assert_eq!(asked.count(), 1);
    let before = stage.rows()[0].clone();
    stage.send(Msg::Earlier(ID.into(), Ok(all[..40].to_vec())));
    assert_eq!(stage.rows()[0], before, "what is read stays where it is");
    stage.keys("<Home>");
    stage.sees("question number 1");
}

#[test]
fn the_conversation_is_searched() {
    scene!("search", |stage: &mut Stage| {
        stage.open();
        long(stage);
        stage.keys("<C-f>number 7<Enter>");
    });
    let mut stage = Stage::opened(80, 24);
    long(&mut stage);
    // While one types.
    stage.keys("<C-f>QUESTION number");
    stage.sees("30 of 30");
    stage.sees("question number 30");
    stage.keys(&"<Enter>".repeat(10));
    stage.sees("20 of 30");
    stage.sees("question number 20");
    let marked = |stage: &mut Stage, text: &str| {
        let style = stage.style_of(text);
        [Modifier::UNDERLINED, Modifier::REVERSED].map(|is| style.add_modifier.contains(is))
    };
    assert_eq!(marked(&mut stage, "question number 20"), [true, true]);
    assert_eq!(marked(&mut stage, "question number 21"), [true, false]);
    assert_eq!(marked(&mut stage, "20"), [false, false]);
    stage.keys("<Down><Down>");
    stage.sees("22 of 30");
    stage.keys(" 3");
    stage.sees("2 of 2");
    stage.keys("<C-u>no such words");
    stage.sees("(not found)");
    stage.sees("answer number 30");
    stage.keys("<Esc>");
    stage.does_not_see("search:");
}

#[test]
fn folded_output_matching_a_search_is_unfolded_while_selected() {
    let mut stage = Stage::opened(80, 24);
    stage.says("go");
    let output: String = (1..=40).map(|n| format!("printed line {n}\n")).collect();
    stage.runs(bash("first"), 0, &output);
    stage.says("and then the word needle");
    stage.does_not_see("printed line 7");
    stage.keys("<C-f>line 7");
    stage.sees("printed line 7");
    stage.sees("1 of 1");
    // Gone on from, it is folded again.
    stage.keys("<C-u>needle");
    stage.does_not_see("printed line 7");
    stage.keys("<C-u>line 7<Esc>");
    stage.sees("printed line 7");
}

#[test]
fn words_of_a_broken_line_are_found_and_marked_on_both_rows() {
    let mut stage = Stage::opened(40, 12);
    stage.says("these are many ordinary words before the quick brown fox comes");
    stage.keys("<C-f>before the quick");
    stage.sees("1 of 1");
    for word in ["before", "quick"] {
        let style = stage.style_of(word);
        assert!(style.add_modifier.contains(Modifier::REVERSED), "{word}");
    }
}

#[test]
fn entries_that_are_not_there_yet_are_fetched_and_searched() {
    let mut stage = Stage::new(80, 24);
    long(&mut stage);
    let all = stage.log.records.clone();
    stage.log.records.drain(..40);
    stage.open();
    stage.keys("<C-f>question number");
    let asked = |stage: &Stage| {
        let asked = stage.wanted.iter();
        asked.filter(|i| matches!(i, Intent::Earlier(40))).count()
    };
    assert_eq!(asked(&stage), 1);
    stage.sees("…");
    let before = stage.screen();
    assert!(before.contains("question number 30"));
    // Of a session that was left meanwhile.
    stage.send(Msg::Earlier("another".into(), Ok(all[..40].to_vec())));
    assert_eq!(stage.screen(), before);
    stage.send(Msg::Earlier(ID.into(), Err("it is locked".into())));
    stage.sees("cannot read earlier entries: it is locked");
    stage.keys("<Esc><C-f>question number");
    assert_eq!(asked(&stage), 2);
    stage.send(Msg::Earlier(ID.into(), Ok(all[..40].to_vec())));
    stage.sees("30 of 30");
    stage.sees("question number 30");
}

#[test]
fn a_click_unfolds_one_block_and_leaves_the_others() {
    let mut stage = Stage::opened(80, 40);
    stage.says("go");
    let printed = |mark: &str| (1..=9).map(|n| format!("{mark}{n}\n")).collect::<String>();
    stage.runs(bash("first"), 0, &printed("aa"));
    stage.runs(bash("second"), 0, &printed("bb"));
    stage.does_not_see("aa1");
    let row = stage
        .rows()
        .iter()
        .position(|row| row.contains("second"))
        .unwrap();
    stage.send(Msg::Mouse(MouseEvent {
        kind: MouseEventKind::Down(MouseButton::Left),
        column: 2,
        row: u16::try_from(row).unwrap(),
        modifiers: KeyModifiers::NONE,
    }));
    stage.sees("bb1");
    stage.does_not_see("aa1");
}

#[test]
fn another_width_keeps_the_place() {
    let mut stage = Stage::opened(80, 24);
    long(&mut stage);
    stage.keys("<C-f>number 15<Enter><Esc>");
    stage.sees("number 15");
    let rows = stage.rows();
    let first = rows.iter().find(|row| row.contains("number"));
    let first = first.unwrap().trim_start_matches('▌').trim().to_string();
    stage.resize(40, 12);
    stage.sees(&first);
    stage.resize(120, 40);
    stage.sees(&first);
}
