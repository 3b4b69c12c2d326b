//! Tests of `read`: pages of files, and files that cannot be shown.

use serde_json::json;

use super::super::Limits;
use super::super::test_support::{ResultRoom, done, error, hash};
use super::*;

fn read(room: &ResultRoom, path: &str) -> ToolResult {
    room.idempotent("read", json!({"path": path}))
}

fn seen(room: &ResultRoom, name: &str, content: impl AsRef<[u8]>) -> Option<Fact> {
    Some(Fact::Seen {
        path: room.key(name),
        hash: hash(content),
        part: None,
    })
}

/// The ranges of lines that count as seen, and whether bytes were replaced. `None`: the whole.
#[track_caller]
fn part(ran: &ToolResult) -> Option<(Vec<(u64, u64)>, bool)> {
    match &ran.fact {
        Some(Fact::Seen { part, .. }) => part.clone().map(|part| (part.lines, part.replaced)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn lines_are_numbered_and_the_file_counts_as_seen() {
    let room = ResultRoom::new();
    room.put("a", "one\ntwo");
    let ran = read(&room, "a");
    assert_eq!(done(&ran), "     1\tone\n     2\ttwo\n");
    assert_eq!(ran.fact, seen(&room, "a", "one\ntwo"));
}

#[test]
fn a_part_says_how_to_read_on_and_alone_counts_as_seen() {
    let room = ResultRoom::new();
    room.put("a", "1\n2\n3\n4\n5\n");
    let ran = room.idempotent("read", json!({"path": "a", "offset": 2, "limit": 2}));
    assert_eq!(
        done(&ran),
        "     2\t2\n     3\t3\n[lines 2-3 of 5; read on with offset 4, limit 2]\n"
    );
    assert_eq!(part(&ran), Some((vec![(2, 3)], false)));
    let ran = room.idempotent("read", json!({"path": "a", "offset": 6}));
    assert!(error(&ran).contains("has 5 lines: there is no line 6"));
}

#[test]
fn a_page_ends_within_its_bounds_and_pages_join() {
    let room = ResultRoom::new();
    let lines: Vec<String> = (1..=3_000)
        .map(|n| format!("line {n} {}", "é".repeat(n % 50)))
        .collect();
    room.put("a", lines.join("\n"));
    let mut got = Vec::new();
    while got.len() < lines.len() {
        let ran = room.idempotent("read", json!({"path": "a", "offset": got.len() + 1}));
        let text = done(&ran);
        assert!(text.len() <= room.ctx.inline_max_bytes);
        let (first, shown) = (got.len() as u64 + 1, text.matches('\t').count() as u64);
        assert_eq!(part(&ran), Some((vec![(first, first + shown - 1)], false)));
        let page = text.lines().filter_map(|l| l.split_once('\t'));
        let before = got.len();
        got.extend(page.map(|(_, line)| line.to_string()));
        assert!(got.len() > before, "no page is empty");
    }
    assert_eq!(got, lines);
}

#[test]
fn long_lines_are_cut_and_say_so() {
    let room = ResultRoom::new();
    room.put("a", format!("{}\nnext\n", "é".repeat(1_000_000)));
    let ran = read(&room, "a");
    let (first, rest) = done(&ran).split_once('\n').unwrap();
    assert!(first.contains(&format!(
        "\t{} … [cut: the line has 2000000 bytes]",
        "é".repeat(2_000)
    )));
    assert_eq!(
        rest,
        "     2\tnext\n[a command such as `sed -n 7p FILE | cut -c 2001-4000` shows more of a line that is cut]\n"
    );
    // A line that is cut was not seen.
    assert_eq!(part(&read(&room, "a")), Some((vec![(2, 2)], false)));
    room.put("b", "x".repeat(2_000));
    assert!(!done(&read(&room, "b")).contains("cut"));
}

#[test]
fn line_ends_and_a_byte_order_mark_are_named_once() {
    let room = ResultRoom::new();
    let check = |content: &str, want: &str| {
        room.put("a", content);
        let ran = read(&room, "a");
        let (_, note) = done(&ran).split_once("two").unwrap();
        let note = note.trim_start_matches(['\n', '\r']);
        assert_eq!(note.trim_end(), want, "{content:?}");
        assert_eq!(part(&ran), None);
    };
    check(
        "\u{feff}one\r\ntwo\r\n",
        "[line ends: CRLF; begins with a BOM; edit and write keep that]",
    );
    check("one\r\ntwo", "[line ends: CRLF; edit and write keep that]");
    check(
        "\u{feff}one\ntwo",
        "[begins with a BOM; edit and write keep that]",
    );
    check(
        "one\r\ntwo\n",
        "[line ends: CRLF and LF; edit and write keep that]",
    );
    check("one\rtwo\r", "[line ends: CR; edit and write keep that]");
    check("one\rand\ntwo\n", "");
    // The CR is the last byte of a chunk.
    let long = "x".repeat(1_000 + SNIFFED_BYTES - 1_001);
    room.put("a", format!("{long}\r\n"));
    assert!(done(&read(&room, "a")).contains("[line ends: CRLF;"));
    let ran = room.idempotent("read", json!({"path": "a"}));
    assert!(!done(&ran).contains('\r'));
}

#[test]
fn bytes_that_are_not_text_are_replaced_and_named() {
    let room = ResultRoom::new();
    room.put("late-nul", format!("{}\0\n", "x\n".repeat(SNIFFED_BYTES)));
    let ran = room.idempotent(
        "read",
        json!({"path": "late-nul", "offset": SNIFFED_BYTES + 1}),
    );
    assert!(done(&ran).ends_with("\t\u{2400}\n"));
    let line = SNIFFED_BYTES as u64 + 1;
    assert_eq!(part(&ran), Some((vec![(line, line)], true)));
    room.put("empty", "");
    let ran = read(&room, "empty");
    assert_eq!(done(&ran), "empty is empty");
    assert_eq!(ran.fact, seen(&room, "empty", ""));
}

#[test]
fn reading_a_binary_file_is_refused_with_its_kind() {
    let room = ResultRoom::new();
    room.put("nul", b"abc\0def");
    room.put("noise", [0x80u8, 0x91, 0xfe, b'a'].repeat(100));
    room.put("wide", b"\xff\xfea\0b\0");
    for (name, what) in [
        ("nul", "binary, 7 bytes"),
        ("noise", "binary"),
        ("wide", "UTF-16"),
    ] {
        let ran = read(&room, name);
        assert!(
            error(&ran).contains(what) && error(&ran).contains("hint"),
            "{name}"
        );
        assert_eq!(ran.fact, None);
    }
    room.put("latin1", b"caf\xe9 and more text\n");
    let ran = read(&room, "latin1");
    assert!(done(&ran).contains("caf\u{fffd} and") && done(&ran).contains("not all of this"));
    assert_eq!(part(&ran), Some((vec![(1, 1)], true)));
    room.put("sign", "caf\u{fffd} is text\n");
    assert_eq!(part(&read(&room, "sign")), None);
}

#[test]
fn reading_a_path_that_is_not_a_file_does_not_block() {
    let room = ResultRoom::new();
    let fifo = room.path("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    assert!(error(&read(&room, "fifo")).contains("a FIFO"));
    assert!(error(&read(&room, "/dev/zero")).contains("a device"));
    assert!(error(&read(&room, "a\0b")).contains("NUL"));
    room.put("dir/b", "");
    room.put("dir/a/x", "");
    assert!(error(&read(&room, "dir")).ends_with("it holds:\na/\nb"));
    assert!(error(&read(&room, "dir/bb")).contains("near names in that folder: b"));
}

#[test]
fn images_go_along() {
    let room = ResultRoom::new();
    let png = support::PNG;
    room.put("a.png", png);
    let ran = read(&room, "a.png");
    let Outcome::Done { output } = &ran.outcome else {
        panic!("{ran:?}");
    };
    assert_eq!(output.images[0].media_type, "image/png");
    assert_eq!(output.text, "a.png: image/png, 3 x 2 px, 88 bytes");
    assert_eq!(output.images[0].blob.hash, hash(png));
    assert_eq!(ran.blobs, vec![png.to_vec()]);
    assert_eq!(part(&ran), Some((vec![], true)));
}

#[test]
fn an_image_that_cannot_be_read_is_refused() {
    let room = ResultRoom::new();
    let png = support::PNG;
    room.put(
        "big.png",
        [png, &vec![0; image::MAX_BYTES as usize]].concat(),
    );
    room.put("cut.png", &png[..png.len() - 1]);
    room.put("none.png", [&png[..8], b"no image at all"].concat());
    for (name, why) in [
        ("big.png", "at most 3932160 are sent"),
        ("cut.png", "begins like image/png, but ends in the middle"),
        ("none.png", "begins like image/png, but "),
    ] {
        let ran = read(&room, name);
        assert!(
            error(&ran).contains(why) && error(&ran).contains("hint: "),
            "{ran:?}"
        );
        assert!(ran.fact.is_none() && ran.blobs.is_empty());
    }
}

#[test]
fn a_huge_file_is_read_only_as_far_as_it_is_shown() {
    let room = ResultRoom::new();
    let path = room.put("huge", "first\nsecond\n");
    // A sparse file of a terabyte, which uses no space, and which no test could read to its end.
    let huge = std::fs::File::options().write(true).open(path).unwrap();
    let filler = "x".repeat(SNIFFED_BYTES);
    std::os::unix::fs::FileExt::write_all_at(&huge, filler.as_bytes(), 13).unwrap();
    huge.set_len(1 << 40).unwrap();
    let ran = room.idempotent("read", json!({"path": "huge", "limit": 2}));
    assert!(done(&ran).ends_with("of a file of 1099511627776 bytes; read on with offset 3]\n"));
    assert_eq!(ran.fact, None);
}

#[test]
fn a_page_that_is_too_far_away_says_how_far_was_read() {
    let mut room = ResultRoom::new();
    let path = room.put("huge", "1\n2\n3\n");
    let filler = "x".repeat(SNIFFED_BYTES) + "\n";
    let huge = std::fs::File::options().write(true).open(path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&huge, filler.as_bytes(), 6).unwrap();
    huge.set_len(1 << 40).unwrap();
    room.ctx.limits.bytes = 200_000;
    let far = |room: &ResultRoom, offset: u64| {
        room.idempotent("read", json!({"path": "huge", "offset": offset}))
    };
    // The page was not reached: nothing is shown.
    let ran = far(&room, 9);
    let said = "from line 9: stopped after 200000 bytes, at line 5 of a file of 1099511627776 bytes\nhint: ";
    assert!(error(&ran).contains(said), "{ran:?}");
    // The lines that were reached are shown.
    let ran = far(&room, 2);
    let text = done(&ran);
    assert!(
        text.starts_with("     2\t2\n     3\t3\n     4\txxx"),
        "{text}"
    );
    let said = "[lines 2-4 of a file of 1099511627776 bytes; stopped after 200000 bytes, at line 5]\n[hint: ";
    assert!(text.contains(said), "{text}");
    assert_eq!(ran.fact, None);
    room.ctx.limits = Limits {
        time: std::time::Duration::ZERO,
        ..Limits::TOOL
    };
    assert!(error(&far(&room, 9)).contains("stopped after 0 s"));
}

#[test]
fn a_reading_that_is_cancelled_ends() {
    let room = ResultRoom::new();
    room.put("a", "x\n");
    let ran = room.looked("read", json!({"path": "a"}), &AtomicBool::new(true));
    assert!(matches!(ran.outcome, Outcome::Interrupted { .. }));
}
