//! Every key that the common terminals send, and what happens to bytes that are none.

use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyEvent, MouseButton, MouseEvent, MouseEventKind};
use crossterm::event::{KeyCode::*, KeyModifiers as M};
use proptest::prelude::*;

use super::*;

/// The events of one read and of the silence after it, as short text.
fn events(bytes: &[u8]) -> Vec<String> {
    let now = Instant::now();
    let mut input = Input::default();
    let mut events = input.feed(bytes, now);
    events.extend(input.tick(now + PASTE_SILENCE));
    events.iter().map(spelled).collect()
}

fn spelled(event: &Event) -> String {
    match event {
        Event::Key(KeyEvent {
            code,
            modifiers,
            kind,
            ..
        }) => {
            let mut text = String::new();
            if *kind == SPLIT {
                text.push_str("split ");
            }
            for (one, name) in [(M::CONTROL, "C-"), (M::ALT, "A-"), (M::SHIFT, "S-")] {
                if modifiers.contains(one) {
                    text.push_str(name);
                }
            }
            match code {
                Char(c) => text.push(*c),
                F(n) => text.push_str(&format!("F{n}")),
                other => text.push_str(&format!("{other:?}")),
            }
            text
        }
        Event::Paste(text) => format!("<{text}>"),
        Event::FocusGained => "focus".into(),
        Event::FocusLost => "blur".into(),
        other => format!("{other:?}"),
    }
}

#[test]
fn keys_of_the_terminals() {
    #[rustfmt::skip]
    let table: &[(&str, &str)] = &[
        // plain, all terminals
        ("a", "a"), ("A", "S-A"), ("ü", "ü"), ("日", "日"), ("😀", "😀"), (" ", " "),
        ("\r", "Enter"), ("\n", "C-j"), ("\t", "Tab"), ("\x7f", "Backspace"), ("\x08", "C-h"),
        ("\x00", "C- "), ("\x01", "C-a"), ("\x1a", "C-z"), ("\x1c", "C-\\"), ("\x1f", "C-_"),
        ("\x1b", "Esc"), ("\x1b\x1b", "Esc Esc"), ("ab", "a b"),
        // Alt as an escape byte
        ("\x1ba", "A-a"), ("\x1bB", "A-S-B"), ("\x1bü", "A-ü"), ("\x1b\r", "A-Enter"),
        ("\x1b\x7f", "A-Backspace"), ("\x1b\x01", "C-A-a"), ("\x1b[", "A-["), ("\x1bO", "A-S-O"),
        ("\x1b]", "A-]"), ("\x1bP", "A-S-P"),
        // xterm: normal and application cursor keys
        ("\x1b[A", "Up"), ("\x1b[B", "Down"), ("\x1b[C", "Right"), ("\x1b[D", "Left"),
        ("\x1b[H", "Home"), ("\x1b[F", "End"), ("\x1bOA", "Up"), ("\x1bOB", "Down"),
        ("\x1bOC", "Right"), ("\x1bOD", "Left"), ("\x1bOH", "Home"), ("\x1bOF", "End"),
        ("\x1b[2~", "Insert"), ("\x1b[3~", "Delete"), ("\x1b[5~", "PageUp"), ("\x1b[6~", "PageDown"),
        ("\x1b[Z", "S-BackTab"), ("\x1b[E", "KeypadBegin"),
        ("\x1bOP", "F1"), ("\x1bOQ", "F2"), ("\x1bOR", "F3"), ("\x1bOS", "F4"),
        ("\x1b[15~", "F5"), ("\x1b[17~", "F6"), ("\x1b[18~", "F7"), ("\x1b[19~", "F8"),
        ("\x1b[20~", "F9"), ("\x1b[21~", "F10"), ("\x1b[23~", "F11"), ("\x1b[24~", "F12"),
        // xterm: with modifiers
        ("\x1b[1;2A", "S-Up"), ("\x1b[1;3D", "A-Left"), ("\x1b[1;5C", "C-Right"),
        ("\x1b[1;6B", "C-S-Down"), ("\x1b[1;8H", "C-A-S-Home"), ("\x1b[1;2P", "S-F1"),
        ("\x1b[1;2R", "S-F3"), ("\x1bO5P", "C-F1"), ("\x1bO2S", "S-F4"), ("\x1b[3;5~", "C-Delete"),
        ("\x1b[5;2~", "S-PageUp"), ("\x1b[15;2~", "S-F5"), ("\x1b[24;6~", "C-S-F12"),
        // xterm: modifyOtherKeys
        ("\x1b[27;2;13~", "S-Enter"), ("\x1b[27;5;13~", "C-Enter"), ("\x1b[27;5;9~", "C-Tab"),
        ("\x1b[27;6;97~", "C-S-A"), ("\x1b[27;5;47~", "C-/"),
        // the keypad in application mode
        ("\x1bOM", "Enter"), ("\x1bOj", "*"), ("\x1bOk", "+"), ("\x1bOm", "-"), ("\x1bOo", "/"),
        ("\x1bOp", "0"), ("\x1bOy", "9"),
        // kitty, and tmux with extended-keys
        ("\x1b[27u", "Esc"), ("\x1b[13;2u", "S-Enter"), ("\x1b[13;3u", "A-Enter"),
        ("\x1b[13;5u", "C-Enter"), ("\x1b[9;2u", "S-BackTab"), ("\x1b[127;5u", "C-Backspace"),
        ("\x1b[99;5u", "C-c"), ("\x1b[97;6u", "C-S-A"), ("\x1b[47:63;2u", "S-?"),
        ("\x1b[97;3u", "A-a"), ("\x1b[97;1:1u", "a"), ("\x1b[97;1:2u", "a"), ("\x1b[97;1:3u", ""),
        ("\x1b[97;;97u", "a"), ("\x1b[228u", "ä"), ("\x1b[57376u", "F13"), ("\x1b[57399u", "0"),
        ("\x1b[57414u", "Enter"), ("\x1b[57419u", "Up"), ("\x1b[57441;2u", ""), ("\x1b[13~", "F3"),
        ("\x1b[1;1:3A", ""), ("\x1b[1;5:1A", "C-Up"),
        // the linux console
        ("\x1b[[A", "F1"), ("\x1b[[B", "F2"), ("\x1b[[E", "F5"), ("\x1b[1~", "Home"), ("\x1b[4~", "End"),
        ("\x1b[25~", "F13"), ("\x1b[28~", "F15"), ("\x1b[34~", "F20"),
        // rxvt
        ("\x1b[7~", "Home"), ("\x1b[8~", "End"), ("\x1b[11~", "F1"), ("\x1b[14~", "F4"),
        ("\x1b[a", "S-Up"), ("\x1b[d", "S-Left"), ("\x1bOa", "C-Up"), ("\x1bOc", "C-Right"),
        ("\x1b[3$", "S-Delete"), ("\x1b[3^", "C-Delete"), ("\x1b[3@", "C-S-Delete"),
        ("\x1b[5$", "S-PageUp"), ("\x1b\x1b[A", "A-Up"), ("\x1b\x1bOA", "A-Up"),
        ("\x1b\x1b[3~", "A-Delete"),
        // focus
        ("\x1b[I", "focus"), ("\x1b[O", "blur"),
        // replies and unknown keys say nothing, and hide nothing
        ("\x1b[?62;22c", ""), ("\x1b[?1u", ""), ("\x1b[?2026;2$y", ""), ("\x1b[12;40R", ""),
        ("\x1b]11;rgb:0000/0000/0000\x07x", "x"), ("\x1b]11;rgb:0/0/0\x1b\\x", "x"),
        ("\x1bP>|term 1\x1b\\x", "x"), ("\x1b_Gi=1;OK\x1b\\x", "x"), ("\x1b[99~x", "x"),
        ("\x1b[201~x", "x"), ("\x1b[1;", ""), ("\x1b[1\rx", "Enter x"), ("\x1b[1\x1b[A", "Up"),
        ("\x1b]\r", "Enter"), ("\x1b]x", "x"),
        ("\x1b\x1bx", "Esc A-x"),
    ];
    for (bytes, want) in table {
        assert_eq!(events(bytes.as_bytes()).join(" "), *want, "{bytes:?}");
    }
}

#[test]
fn bytes_that_are_no_text_are_dropped() {
    for (bytes, want) in [
        (&b"\xffa"[..], "a"),
        (b"\xc3a", "a"),
        (b"\xe6\x97a", "a"),
        (b"\xc3\x1b[A", "Up"),
        (b"\xf0\x9f", ""),
    ] {
        assert_eq!(events(bytes).join(" "), want, "{bytes:?}");
    }
}

#[test]
fn the_mouse() {
    let mouse = |kind, column, row, modifiers| {
        Event::Mouse(MouseEvent {
            kind,
            column,
            row,
            modifiers,
        })
    };
    use MouseEventKind::*;
    for (bytes, want) in [
        (
            "\x1b[<0;1;1M",
            mouse(Down(MouseButton::Left), 0, 0, M::NONE),
        ),
        (
            "\x1b[<2;300;200m",
            mouse(Up(MouseButton::Right), 299, 199, M::NONE),
        ),
        (
            "\x1b[<32;5;6M",
            mouse(Drag(MouseButton::Left), 4, 5, M::NONE),
        ),
        ("\x1b[<35;5;6M", mouse(Moved, 4, 5, M::NONE)),
        ("\x1b[<64;5;6M", mouse(ScrollUp, 4, 5, M::NONE)),
        ("\x1b[<81;5;6M", mouse(ScrollDown, 4, 5, M::CONTROL)),
        ("\x1b[M !!", mouse(Down(MouseButton::Left), 0, 0, M::NONE)),
        ("\x1b[96;5;6M", mouse(ScrollUp, 4, 5, M::NONE)),
    ] {
        let got = Input::default().feed(bytes.as_bytes(), Instant::now());
        assert_eq!(got, [want], "{bytes:?}");
    }
    assert_eq!(events(b"\x1b[<0;1M\x1b[<9999999999;1;1Mx"), ["x"]);
}

#[test]
fn a_paste_is_one_event() {
    for (bytes, want) in [
        ("\x1b[200~a\r\nb\x1b[201~c", "<a\r\nb> c"),
        ("x\x1b[200~\x1b[201~y", "x y"),
        ("\x1b[200~\x1b[A\x1b[201~", "<\x1b[A>"),
        ("\x1b[200~no end", "<no end>"),
        ("\x1b[200~a\x1b[20", "<a\x1b[20>"),
        ("\x1b[200~a\x1b[200~b\x1b[201~c", "<a\x1b[200~b> c"),
    ] {
        assert_eq!(events(bytes.as_bytes()).join(" "), want, "{bytes:?}");
    }
}

#[test]
fn a_paste_without_its_end_gives_the_keyboard_back() {
    let now = Instant::now();
    let mut input = Input::default();
    assert!(input.feed(b"\x1b[200~half", now).is_empty());
    assert!(input.tick(now + PASTE_SILENCE / 2).is_empty());
    let got = input.feed(b"a", now + PASTE_SILENCE);
    assert_eq!(got.iter().map(spelled).collect::<Vec<_>>(), ["<half>", "a"]);
}

#[test]
fn the_rest_of_a_paste_that_stalled_is_not_typed() {
    let now = Instant::now();
    let late = now + 2 * PASTE_SILENCE;
    let mut input = Input::default();
    input.feed(b"\x1b[200~rm -rf", now);
    input.tick(now + PASTE_SILENCE);
    let got = input.feed(b" x\ry\r\x1b[201~z", late);
    assert_eq!(
        got.iter().map(spelled).collect::<Vec<_>>(),
        ["< x\ry\r>", "z"]
    );
    // The end came: what looks like a burst is typed again.
    assert_eq!(input.feed(b"0123456789abcdef", late).len(), 16);
}

/// The events of reads at these milliseconds, and of the silence after them.
fn events_of(reads: &[(u64, &str)]) -> String {
    events_from(Input::default(), reads)
}

fn events_from(mut input: Input, reads: &[(u64, &str)]) -> String {
    let start = Instant::now();
    let mut events = Vec::new();
    let mut silent = start;
    for (ms, bytes) in reads {
        let now = start + Duration::from_millis(*ms);
        events.extend(input.tick(silent.min(now)));
        events.extend(input.feed(bytes.as_bytes(), now));
        silent = now + SEQUENCE_WAIT;
    }
    events.extend(input.tick(silent + PASTE_SILENCE));
    events.iter().map(spelled).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_paste_or_a_report_in_pieces_is_not_typed() {
    let paste = "[200~a\r!b\r\x1b[201~";
    for (reads, want) in [
        (&[(0, "\x1b"), (40, paste)][..], "<a\r!b\r>"),
        (&[(0, "\x1b"), (400, paste)], "Esc <a\r!b\r>"),
        (&[(0, "\x1b[20"), (300, "0~a\r\x1b[201~")], "<a\r>"),
        (
            &[(0, "\x1b[200"), (900, "~"), (950, "a\r\x1b[201~")],
            "<a\r>",
        ),
        (
            &[(0, "\x1b[2"), (300, "00"), (900, "~a\r\x1b[201~")],
            "<a\r>",
        ),
        (&[(0, "\x1b"), (40, "[A")], "Up"),
        // The escape byte was taken for a key; its rest is not typed.
        (&[(0, "\x1b"), (140, "[A")], "Esc Up"),
        (&[(0, "\x1b"), (140, "OA")], "Esc Up"),
        (&[(0, "\x1b"), (900, "[A")], "Esc [ S-A"),
        // Keys are keys at once, also after a report whose rest is lost.
        (&[(0, "\x1b"), (49, "x")], "A-x"),
        (&[(0, "\x1b"), (51, "x")], "Esc x"),
        (&[(0, "\x1b"), (51, "[")], "Esc ["),
        (&[(0, "\x1b"), (51, "O")], "Esc S-O"),
        (&[(0, "\x1b"), (200, "["), (300, "2")], "Esc [ 2"),
        (&[(0, "\x1b[<35;8"), (300, "1")], "1"),
        (&[(0, "\x1b[<35;8"), (300, "1"), (400, "m")], "1 m"),
        (&[(0, "\x1b[200"), (20_000, "~")], "~"),
    ] {
        assert_eq!(events_of(reads), want, "{reads:?}");
    }
    for cut in 1.."\x1b[<35;88;12M".len() {
        for ms in [70, 300, 900] {
            let (first, rest) = "\x1b[<35;88;12M".split_at(cut);
            let said = events_of(&[(0, first), (ms, rest), (2_000, "a")]);
            let keys = match (cut, ms) {
                (1, _) => "Esc ",
                (2, 300..) => "A-[ ",
                _ => "",
            };
            assert!(
                said.starts_with(&format!("{keys}Mouse(")) && said.ends_with(" a"),
                "{cut} {ms}: {said}"
            );
        }
    }
}

#[test]
fn a_key_that_ssh_splits_is_that_key() {
    for (reads, want) in [
        (&[(0, "\x1b"), (70, "\r")][..], "A-Enter"),
        (&[(0, "\x1b"), (300, "\r")], "A-Enter"),
        (&[(0, "\x1b"), (300, "\x7f")], "A-Backspace"),
        (&[(0, "\x1b"), (400, "\r")], "Esc Enter"),
        (&[(0, "\x1b"), (65, "[A")], "Up"),
        (&[(0, "\x1b"), (340, "[1;5H")], "C-Home"),
        (&[(0, "\x1b"), (340, "OP")], "F1"),
        (&[(0, "\x1b"), (65, "["), (130, "A")], "Up"),
        (
            &[(0, "\x1b"), (65, "["), (130, "1;5"), (195, "H")],
            "C-Home",
        ),
        (&[(0, "\x1b["), (200, "A")], "Up"),
        (&[(0, "\x1b["), (300, "D")], "Left"),
        (&[(0, "\x1bO"), (300, "D")], "Left"),
        (&[(0, "\x1b"), (300, "[200~a\r\x1b[201~")], "<a\r>"),
        (&[(0, "\x1b"), (300, "\x1b")], "Esc Esc"),
        (&[(0, "\x1b")], "Esc"),
        // Letters may be typed after Esc, so the key says that it came in two parts.
        (&[(0, "\x1b"), (40, "b")], "split A-b"),
        (&[(0, "\x1bb")], "split A-b"),
        (&[(0, "\x1b\r")], "A-Enter"),
        (&[(0, "\x1b"), (200, "b")], "split A-b"),
        (&[(0, "\x1b"), (200, "ü")], "split A-ü"),
        (&[(0, "\x1b"), (200, "]"), (210, "x")], "split A-] x"),
        (&[(0, "\x1b"), (200, "P"), (300, "l")], "split A-P l"),
        (&[(0, "\x1b"), (200, "["), (300, "x")], "split A-[ x"),
        (&[(0, "\x1b"), (200, "[")], "split A-["),
        (&[(0, "\x1b"), (200, "pasted")], "Esc p a s t e d"),
        (&[(0, "\x1b"), (400, "b")], "Esc b"),
    ] {
        assert_eq!(events_from(Input::new(true), reads), want, "{reads:?}");
    }
}

#[test]
fn an_escape_byte_is_no_key_where_esc_is_a_sequence() {
    let kitty = || {
        let mut input = Input::default();
        assert!(input.feed(b"\x1b[?1u", Instant::now()).is_empty());
        input
    };
    for (reads, want) in [
        (&[(0, "\x1b"), (900, "[A")][..], "Up"),
        (&[(0, "\x1b"), (900, "\r")], "A-Enter"),
        (&[(0, "\x1b"), (900, "b")], "A-b"),
        (&[(0, "\x1b[27u"), (1, "x")], "Esc x"),
    ] {
        let mut input = kitty();
        let start = Instant::now();
        let mut events = Vec::new();
        for (ms, bytes) in reads {
            events.extend(input.feed(bytes.as_bytes(), start + Duration::from_millis(*ms)));
        }
        let said: Vec<_> = events.iter().map(spelled).collect();
        assert_eq!(said.join(" "), want, "{reads:?}");
    }
    // A terminal that sends the byte alone has lost the protocol: it waits long only once.
    let (mut input, now) = (kitty(), Instant::now());
    for wait in [PASTE_SILENCE, ESCAPE_WAIT] {
        assert!(input.feed(b"\x1b", now).is_empty());
        assert_eq!(input.wait(now), Some(wait));
        assert_eq!(input.tick(now + wait).len(), 1);
    }
    for other in [
        "\x1b[?0u",
        "\x1b[?u",
        "\x1b[1u",
        "\x1b[?1;1u",
        "\x1b[?99999999999u",
    ] {
        let mut input = Input::default();
        input.feed(other.as_bytes(), now);
        assert!(!input.is_kitty, "{other:?}");
    }
}

#[test]
fn every_split_gives_the_same_events() {
    let bytes =
        "a\x1b[1;5Cü\x1b[200~p\x1b[20\x1b[201~\x1b[<0;1;1M\x1b[13;2ux\x1b]11;q\x07日".as_bytes();
    let now = Instant::now();
    let whole: Vec<Event> = Input::default().feed(bytes, now);
    assert_eq!(whole.len(), 8);
    for first in 0..bytes.len() {
        for second in first..bytes.len() {
            let mut input = Input::default();
            let mut events = input.feed(&bytes[..first], now);
            events.extend(input.feed(&bytes[first..second], now));
            events.extend(input.feed(&bytes[second..], now));
            assert_eq!(events, whole, "split at {first} and {second}");
        }
    }
}

#[test]
fn a_huge_reply_is_dropped_and_a_huge_paste_is_cut() {
    let now = Instant::now();
    let mut input = Input::default();
    let mut bytes = b"\x1b]52;c;".to_vec();
    bytes.extend(vec![b'x'; 100_000]);
    assert!(input.feed(&bytes, now).is_empty());
    assert!(input.pending.len() <= MAX_SEQUENCE_BYTES);
    assert_eq!(input.feed(b"\x07a", now).len(), 1);
    // Its end never comes.
    input.feed(&bytes, now);
    assert_eq!(input.feed(b"a", now + PASTE_SILENCE).len(), 1);

    let mut paste = Paste::default();
    paste.keep(&vec![b'x'; MAX_PASTE_BYTES - 1]);
    assert_eq!(paste.take(b"yyyy"), None);
    assert_eq!(paste.bytes.len(), MAX_PASTE_BYTES);
}

#[test]
fn the_reader_reads_a_terminal_and_ends() {
    use std::io::Write;
    use std::sync::mpsc;
    let (theirs, mut ours) = std::os::unix::net::UnixStream::pair().unwrap();
    let (sender, receiver) = mpsc::channel();
    let reader = Reader::on(theirs.into(), false, move |heard| {
        sender.send(heard).is_ok()
    })
    .unwrap();
    let wait = Duration::from_secs(10);
    let heard = || match receiver.recv_timeout(wait).unwrap() {
        TerminalItem::Event(event) => spelled(&event),
        TerminalItem::BurstEnter => "BurstEnter".into(),
        TerminalItem::Background(rgb) => format!("{rgb:?}"),
        TerminalItem::TakesStatus => "TakesStatus".into(),
    };
    ours.write_all(b"\x1b[A").unwrap();
    assert_eq!(heard(), "Up");
    ours.write_all(b"\x1b]11;rgb:ffff/ffff/ffff\x07").unwrap();
    assert_eq!(heard(), "[255, 255, 255]");
    ours.write_all(b"\x1b]7501;?\x1b\\").unwrap();
    assert_eq!(heard(), "TakesStatus");
    // Nobody sends more: the thread itself must notice that this was the Esc key.
    ours.write_all(b"\x1b").unwrap();
    assert_eq!(heard(), "Esc");
    ours.write_all(b"some notes\rof a page\r").unwrap();
    assert_eq!(heard(), "<some notes\rof a page>");
    assert_eq!(heard(), "BurstEnter");
    drop(reader);
    assert!(receiver.recv().is_err());
}

#[test]
fn the_background_is_read_in_every_form() {
    for (answer, rgb) in [
        ("\x1b]11;rgb:ffff/8080/0000\x1b\\", [255, 128, 0]),
        ("\x1b]11;rgb:ff/80/00\x07", [255, 128, 0]),
        ("\x1b]11;rgba:0/f/0/f\x07", [0, 255, 0]),
    ] {
        let mut input = Input::default();
        assert!(input.feed(answer.as_bytes(), Instant::now()).is_empty());
        assert_eq!(input.background(), Some(rgb), "{answer:?}");
        assert_eq!(input.background(), None);
    }
    for answer in [
        "\x1b]10;rgb:ff/ff/ff\x07",
        "\x1b]11;?\x07",
        "\x1b]11;rgb:f\x07",
    ] {
        let mut input = Input::default();
        assert!(input.feed(answer.as_bytes(), Instant::now()).is_empty());
        assert_eq!(input.background(), None, "{answer:?}");
    }
}

#[test]
fn only_an_answer_to_the_question_takes_reports() {
    for (answer, takes) in [
        ("\x1b]7501;?\x1b\\", true),
        ("\x1b]7501;?\x07", true),
        ("\x1b]7501;state=idle\x1b\\", false),
        ("\x1b]750;?\x07", false),
    ] {
        let mut input = Input::default();
        assert!(input.feed(answer.as_bytes(), Instant::now()).is_empty());
        assert_eq!(input.takes_status(), takes, "{answer:?}");
        assert!(!input.takes_status());
    }
}

#[test]
fn an_answer_that_comes_late_and_in_pieces_is_never_typed_text() {
    never_typed(b"\x1b]11;rgb:1e1e/2e2e/fdfd\x1b\\");
    never_typed(b"\x1b]7501;?\x1b\\");
}

fn never_typed(answer: &[u8]) {
    let typed = |events: &[Event]| {
        let of_text = |e: &&Event| match e {
            Event::Key(key) => matches!(key.code, Char(_)) && !key.modifiers.contains(M::ALT),
            Event::Paste(_) => true,
            _ => false,
        };
        events
            .iter()
            .filter(of_text)
            .map(spelled)
            .collect::<String>()
    };
    for first in 1..answer.len() {
        for second in first + 1..=answer.len() {
            // A single byte after an Esc is a pressed key.
            if first < 3 && second - first == 1 {
                continue;
            }
            let mut now = Instant::now();
            let mut input = Input::default();
            let mut events = Vec::new();
            for piece in [&answer[..first], &answer[first..second], &answer[second..]] {
                // A single byte in the middle of the answer is looked at in the test below.
                events.extend(input.feed(piece, now));
                now += Duration::from_secs(1);
                events.extend(input.tick(now));
            }
            let is_single = second - first == 1 && second < answer.len() - 1;
            if !is_single {
                assert_eq!(typed(&events), "", "cut at {first} and {second}");
            }
            // The keyboard is not held up.
            assert_eq!(typed(&input.feed(b"x", now)), "x");
        }
    }
}

#[test]
fn a_key_after_an_unterminated_terminal_reply_is_a_key() {
    let mut input = Input::default();
    let now = Instant::now();
    input.feed(b"\x1b]11;rgb:1e", now);
    let later = now + Duration::from_secs(1);
    assert!(input.tick(later).is_empty());
    assert_eq!(input.feed(b"f", later).len(), 1);
    // The same after an Esc.
    let later = later + Duration::from_secs(1);
    assert!(input.feed(b"\x1b", later).is_empty());
    let later = later + Duration::from_secs(1);
    assert_eq!(input.tick(later).len(), 1);
    assert_eq!(input.feed(b"]", later).len(), 1);
}

fn bytes() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        "[\\x1b\\[\\]<>OMPu~;:0-9$?^_a-e]{0,20}".prop_map(String::into_bytes),
        Just(PASTE_START.to_vec()),
        Just(PASTE_END.to_vec()),
        Just(vec![b'x'; 3 * MAX_SEQUENCE_BYTES]),
    ];
    proptest::collection::vec(piece, 0..12)
}

/// The bytes that wait for more, and never more than may be pasted.
fn kept(input: &Input) -> usize {
    let paste = input.paste.as_ref();
    input.pending.len() + paste.map_or(0, |paste| paste.bytes.len() + paste.tail.len())
}

proptest! {
    #[test]
    fn any_bytes_give_the_same_events_however_they_are_cut(
        reads in bytes(),
        cuts in proptest::collection::vec(0..12usize, 0..80),
    ) {
        let now = Instant::now();
        let stream = reads.concat();
        let whole = Input::default().feed(&stream, now);
        let mut input = Input::default();
        let (mut events, mut rest) = (Vec::new(), &stream[..]);
        for cut in cuts {
            let (read, tail) = rest.split_at(cut.min(rest.len()));
            events.extend(input.feed(read, now));
            prop_assert!(input.pending.len() <= MAX_SEQUENCE_BYTES);
            prop_assert!(kept(&input) <= stream.len() - tail.len() + 2 * PASTE_END.len());
            rest = tail;
        }
        events.extend(input.feed(rest, now));
        prop_assert_eq!(events, whole);
    }

    #[test]
    fn the_keyboard_always_comes_back(reads in bytes()) {
        let now = Instant::now();
        let mut input = Input::default();
        for read in &reads {
            input.feed(read, now);
            prop_assert!(input.pending.len() <= MAX_SEQUENCE_BYTES);
        }
        let later = now + PASTE_SILENCE;
        input.tick(later);
        prop_assert_eq!(input.wait(later), None);
        let got = input.feed(b"a", later);
        prop_assert_eq!(got.iter().map(spelled).collect::<Vec<_>>(), ["a"]);
    }
}
