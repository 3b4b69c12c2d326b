//! A text with `|` as its cursor, an edit, the text after it.

use super::*;
use proptest::prelude::*;

/// A buffer from a text with `|` as the cursor.
fn buffer(text: &str) -> Buffer {
    let at = text.find('|').unwrap();
    let mut buffer = Buffer::default();
    buffer.reset(&text.replace('|', ""), at);
    buffer
}

fn shown(buffer: &Buffer) -> String {
    format!("{}|{}", buffer.before(), buffer.after())
}

#[track_caller]
fn check(given: &str, edit: impl Fn(&mut Buffer) -> bool, want: &str) {
    let mut buffer = buffer(given);
    edit(&mut buffer);
    assert_eq!(shown(&buffer), want, "{given:?}");
}

#[track_caller]
fn moves(given: &str, step: impl Fn(&mut Buffer), want: &str) {
    check(
        given,
        |b| {
            step(b);
            true
        },
        want,
    );
}

#[test]
fn edits() {
    check("ab|", Buffer::backspace, "a|");
    check("|ab", Buffer::backspace, "|ab");
    check("|ab", Buffer::delete, "|b");
    check("a👩\u{200d}👧|b", Buffer::backspace, "a|b");
    check("e\u{301}|", Buffer::backspace, "|");
    check("a\u{10f000}|b", Buffer::backspace, "a|b");
    check("\u{10f000}\u{301}|", Buffer::backspace, "\u{10f000}|");
    check("one two|", Buffer::delete_word, "one |");
    check("one  |", Buffer::delete_word, "|");
    check("a.b|", Buffer::delete_word, "a.|");
    check("x \u{10f000}|", Buffer::delete_word, "x |");
    check("|one two", Buffer::delete_next_word, "| two");
    check("a\nb|c\nd", Buffer::kill_to_end, "a\nb|\nd");
    check("a|\nb", Buffer::kill_to_end, "a|b");
    check("a\nbc|d", Buffer::kill_to_start, "a\n|d");
    check("a\n|b", Buffer::kill_to_start, "a|b");
    check(
        "ab|",
        |b| b.kill_to_start() && b.yank() && b.yank(),
        "abab|",
    );
    check("a|c", |b| b.insert("b"), "ab|c");
}

#[test]
fn moves_go_by_what_is_seen() {
    moves("a👩\u{200d}👧|b", Buffer::left, "a|👩\u{200d}👧b");
    moves("|日本", Buffer::right, "日|本");
    moves("a\nbc|\nd", Buffer::line_start, "a\n|bc\nd");
    moves("a\n|bc\nd", Buffer::line_end, "a\nbc|\nd");
    moves(
        "fix the_parser now|",
        |b| {
            b.word_left();
            b.word_left()
        },
        "fix |the_parser now",
    );
    moves("|fix it", Buffer::word_right, "fix| it");
    moves("|", Buffer::left, "|");
    moves("|", Buffer::word_right, "|");
}

#[test]
fn words_are_undone_as_words() {
    let mut buffer = Buffer::default();
    "fix it".chars().for_each(|c| {
        buffer.type_char(c);
    });
    buffer.undo();
    assert_eq!(shown(&buffer), "fix |");
    buffer.undo();
    assert_eq!(shown(&buffer), "fix|");
    buffer.undo();
    assert_eq!(shown(&buffer), "|");
    assert!(!buffer.undo());
    while buffer.redo() {}
    assert_eq!(shown(&buffer), "fix it|");
}

#[test]
fn there_is_an_end_to_it() {
    let mut buffer = Buffer::default();
    assert!(buffer.insert(&"x".repeat(MAX_BYTES)));
    assert!(!buffer.type_char('x'));
}

proptest! {
    #[test]
    fn the_cursor_is_always_on_a_boundary(steps in proptest::collection::vec((0_u8..16, "\\PC|\u{10f000}|\u{301}|\u{200d}|\n"), 0..40)) {
        let mut b = Buffer::default();
        for (step, text) in steps {
            match step {
                0 => b.left(),
                1 => b.right(),
                2 => b.word_left(),
                3 => b.word_right(),
                4 => { b.backspace(); }
                5 => { b.delete(); }
                6 => { b.delete_word(); }
                7 => { b.undo(); }
                8 => { b.redo(); }
                9 => { b.kill_to_end(); }
                10 => { b.yank(); }
                _ => { b.insert(&text); }
            }
            prop_assert!(b.text().is_char_boundary(b.cursor()));
        }
    }
}
