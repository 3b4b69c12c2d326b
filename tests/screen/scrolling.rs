//! Scrolling, folding by hand, and searching in a long conversation.

use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::style::Modifier;
use rewake::core::entry::Record;
use rewake::ui::app::{Intent, Msg};
use rewake::ui::transcript::{Kind, Scroll};

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
    stage.keys(&"<PageUp>".repeat(20));
    let asked = stage
        .wanted
        .iter()
        .filter(|i| matches!(i, Intent::Earlier(range) if *range == (0..=39)));
    assert_eq!(asked.count(), 1);
    let before = stage.rows()[0].clone();
    stage.send(Msg::Earlier(ID.into(), Ok(all[..40].to_vec())));
    assert_eq!(stage.rows()[0], before, "what is read stays where it is");
    stage.keys("<Home>");
    stage.sees("question number 1");
}

/// A session of many entries, of which only the last are loaded: all of them, and the first loaded.
fn very_long(stage: &mut Stage) -> (Vec<Record>, u64) {
    for _ in 0..40 {
        long(stage);
    }
    let all = stage.log.records.clone();
    let first = all.len() - 100;
    stage.log.records.drain(..first);
    stage.open();
    (all, u64::try_from(first).unwrap())
}

/// Answers the last request for entries, if there is one. Returns its range.
fn answers(stage: &mut Stage, all: &[Record]) -> Option<(u64, u64)> {
    let range = stage.wanted.iter().rev().find_map(|i| match i {
        Intent::Earlier(range) => Some(range.clone()),
        _ => None,
    })?;
    stage.wanted.clear();
    let at = |seq: &u64| usize::try_from(*seq).unwrap();
    let records = all[at(range.start())..=at(range.end())].to_vec();
    stage.send(Msg::Earlier(ID.into(), Ok(records)));
    Some((*range.start(), *range.end()))
}

/// Whether the view is at the first entry.
fn is_at_first(stage: &mut Stage) -> bool {
    let transcript = &stage.app.conversation.transcript;
    let is_top = transcript.scroll == Scroll::At { block: 0, line: 0 };
    is_top && transcript.blocks[0].seq < 3 && stage.screen().contains("question number 1")
}

fn said(stage: &Stage) -> Vec<u64> {
    let blocks = stage.app.conversation.transcript.blocks.iter();
    let said = blocks.filter(|block| matches!(block.kind, Kind::Said { .. }));
    said.map(|block| block.seq).collect()
}

#[test]
fn one_key_goes_to_the_beginning_of_a_long_session() {
    let mut stage = Stage::new(80, 24);
    let (all, first) = very_long(&mut stage);
    // A page is on its way when the key is pressed.
    stage.keys(&"<PageUp>".repeat(60));
    stage.keys("<C-Home>");
    assert_eq!(answers(&mut stage, &all), Some((first - 400, first - 1)));
    assert_eq!(answers(&mut stage, &all), Some((0, 399)));
    assert!(is_at_first(&mut stage));
    // Nothing is earlier. The end is one key away, and so is the beginning.
    stage.keys("<PageUp><C-End>");
    stage.sees("answer number 30");
    stage.keys("<C-Home>");
    assert!(is_at_first(&mut stage));
    assert_eq!(answers(&mut stage, &all), None);
    // Scrolling down reads what follows, until all is there.
    let mut next = 400;
    for _ in 0..1_000 {
        stage.keys("<PageDown>");
        let before = stage.rows()[0].clone();
        if let Some((from, to)) = answers(&mut stage, &all) {
            assert_eq!(from, next);
            next = to + 1;
            let is_line = before.contains("are read when you scroll on");
            assert!(is_line || stage.rows()[0] == before);
        }
        if next == first - 400 {
            break;
        }
    }
    assert_eq!(stage.app.conversation.transcript.first, Some(0));
    stage.does_not_see("are read when you scroll on");
    let said = said(&stage);
    assert!(said.len() == 40 * 30 && said.is_sorted(), "{said:?}");
}

#[test]
fn scrolling_up_from_the_end_reads_down_to_the_beginning_that_is_there() {
    let mut stage = Stage::new(80, 24);
    let (all, _) = very_long(&mut stage);
    stage.keys("<C-Home>");
    assert_eq!(answers(&mut stage, &all), Some((0, 399)));
    stage.keys("<C-End>");
    for _ in 0..1_000 {
        stage.keys("<PageUp>");
        let before = stage.rows()[0].clone();
        if let Some((from, _)) = answers(&mut stage, &all) {
            assert!(from >= 400);
            assert_eq!(stage.rows()[0], before, "what is read stays where it is");
        }
        if stage.app.conversation.transcript.first == Some(0) {
            break;
        }
    }
    let said = said(&stage);
    assert!(said.len() == 40 * 30 && said.is_sorted(), "{said:?}");
    // A search looks at all entries in their order, so it lets go of a beginning with a gap.
    let mut stage = Stage::new(80, 24);
    let (all, first) = very_long(&mut stage);
    stage.keys("<C-Home>");
    answers(&mut stage, &all);
    stage.keys("<C-f>question number 7");
    assert_eq!(answers(&mut stage, &all), Some((first - 400, first - 1)));
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
        asked
            .filter(|i| matches!(i, Intent::Earlier(range) if *range == (0..=39)))
            .count()
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
