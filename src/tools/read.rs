//! Reading a file: a page of numbered lines, or an image.
//!
//! A page never has a hole: it ends where the limit of an output is reached and says how
//! to read on. The file is streamed, so memory is flat whatever its size.

use crate::core::text::count;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::file::{self, Kind};
use super::limit::{Stop, Watch};
use super::paths::{self, ToolContext};
use super::{Ran, printable};
use crate::core::entry::{BlobRef, Fact, Image, Outcome, Output};
use crate::core::image::{self, media_type};
use crate::core::tool::ReadArgs;

const DEFAULT_LINES: u64 = 2_000;
const MAX_PAGE_BYTES: usize = 50_000;
const MAX_LINE_CHARS: usize = 2_000;
/// UTF-8 has at most 4 bytes a char.
const MAX_LINE_BYTES: usize = 4 * MAX_LINE_CHARS;
/// A larger file is read no further than shown: no count of its lines, no hash.
const MAX_HASHED_BYTES: u64 = 64 * 1024 * 1024;
const MAX_NAMES: usize = 100;
const MAX_NAMES_READ: usize = 10_000;
const SNIFFED_BYTES: usize = 8 * 1024;
const CHUNK_BYTES: usize = 64 * 1024;

pub fn run(args: &ReadArgs, ctx: &ToolContext, cancel: &AtomicBool) -> Ran {
    match read(args, ctx, cancel) {
        Ok(ran) => ran,
        Err(why) => Ran::error(why),
    }
}

fn read(args: &ReadArgs, ctx: &ToolContext, cancel: &AtomicBool) -> Result<Ran, String> {
    let name = &args.path;
    let path = paths::resolve(name, ctx)?;
    let cannot = |e: io::Error| format!("cannot read {name}: {e}");
    let size = match file::kind(&path).map_err(cannot)? {
        Kind::Missing => return Err(paths::missing(name, &path)),
        Kind::Special(what) => return Err(format!("cannot read {name}: it is {what}, not a file")),
        Kind::Folder => return Err(listing(name, &path)),
        Kind::Regular(metadata) => metadata.len(),
    };
    let mut file = file::open(&path).map_err(cannot)?;
    let mut start = Vec::new();
    let sniffed = file
        .by_ref()
        .take(SNIFFED_BYTES as u64)
        .read_to_end(&mut start);
    sniffed.map_err(cannot)?;
    let key = path.to_string_lossy().into_owned();
    if media_type(&start).is_some() {
        return image(name, key, &path, size);
    }
    if let Some(what) = not_text(&start) {
        return Err(format!(
            "cannot show {name}: it is {what}, {size} bytes\n{HINT_BINARY}"
        ));
    }
    let mut page = Page::new(args, ctx);
    let whole = io::Cursor::new(start).chain(file);
    let watch = Watch::new(ctx.limits, cancel);
    match stream(whole, &mut page, &watch).map_err(cannot)? {
        Ended::Stopped(Stop::Cancelled) => Ok(Ran::cancelled(page.text)),
        Ended::Stopped(stop) => page.stopped(name, size, stop),
        Ended::Whole { hash } => page.whole(name, key, hash),
        Ended::Early => Ok(page.early(size)),
    }
}

const HINT_BINARY: &str = "hint: look at it with a command such as file, xxd or iconv";

/// The caller reads the folder's names instead of trying again.
fn listing(name: &str, path: &Path) -> String {
    let entries = match path.read_dir() {
        Ok(entries) => entries,
        Err(e) => return format!("{name} is a folder, and cannot be listed: {e}"),
    };
    let mut names: Vec<String> = entries
        .take(MAX_NAMES_READ)
        .flatten()
        .map(|entry| {
            let slash = if entry.path().is_dir() { "/" } else { "" };
            format!("{}{slash}", entry.file_name().to_string_lossy())
        })
        .collect();
    names.sort();
    let more = match names.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        more => format!("\n… and {more} more"),
    };
    names.truncate(MAX_NAMES);
    format!("{name} is a folder; it holds:\n{}{more}", names.join("\n"))
}

fn image(name: &str, key: String, path: &Path, size: u64) -> Result<Ran, String> {
    const MAX: u64 = image::MAX_BYTES;
    let smaller = "hint: make a smaller copy with a command";
    let bytes = file::load(path, MAX).map_err(|e| match e.kind() {
        io::ErrorKind::FileTooLarge => format!(
            "cannot show {name}: the image has {size} bytes, at most {MAX} are sent\n{smaller}"
        ),
        _ => format!("cannot read {name}: {e}"),
    })?;
    let known = image::check(&bytes).map_err(|why| {
        let hint = match why.contains("pixels; at most") {
            true => smaller,
            false => "hint: look at it with a command such as file or xxd",
        };
        format!("cannot show {name}: it {why}\n{hint}")
    })?;
    let blob = BlobRef {
        hash: file::hash(&bytes),
        bytes: bytes.len() as u64,
    };
    let hash = blob.hash.clone();
    let output = Output {
        text: format!(
            "{name}: {}, {} x {} px, {} bytes",
            known.media_type,
            known.width,
            known.height,
            bytes.len()
        ),
        blob: None,
        images: vec![Image {
            media_type: known.media_type.to_string(),
            blob,
        }],
    };
    Ok(Ran {
        outcome: Outcome::Done { output },
        fact: Some(Fact::Seen { path: key, hash }),
        blobs: vec![bytes],
    })
}

fn not_text(start: &[u8]) -> Option<&'static str> {
    if start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]) {
        return Some("text in UTF-16");
    }
    let invalid: usize = start.utf8_chunks().map(|c| c.invalid().len()).sum();
    (start.contains(&0) || invalid * 10 > start.len() * 3).then_some("binary")
}

enum Ended {
    Whole {
        hash: Option<String>,
    },
    /// The page is full and the file too large to go on for its hash.
    Early,
    Stopped(Stop),
}

fn stream(mut from: impl Read, page: &mut Page, watch: &Watch<'_>) -> io::Result<Ended> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut hasher = blake3::Hasher::new();
    let mut bytes: u64 = 0;
    loop {
        if let Some(stop) = watch.stop() {
            return Ok(Ended::Stopped(stop));
        }
        let read = match from.read(&mut chunk) {
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        if read == 0 {
            break;
        }
        bytes += read as u64;
        watch.read(read);
        let is_hashed = bytes <= MAX_HASHED_BYTES;
        if is_hashed {
            hasher.update(&chunk[..read]);
        } else if page.is_full() {
            return Ok(Ended::Early);
        }
        page.feed(&chunk[..read]);
    }
    page.end();
    let hash = (bytes <= MAX_HASHED_BYTES).then(|| hasher.finalize().to_hex().to_string());
    Ok(Ended::Whole { hash })
}

/// The lines that are shown, gathered while the file goes by.
struct Page {
    /// From 1.
    first: u64,
    limit: u64,
    max_bytes: usize,
    text: String,
    /// Lines shown.
    shown: u64,
    /// Lines that went by.
    lines: u64,
    /// The start of the line that is going by, and its whole length.
    line: Vec<u8>,
    line_bytes: u64,
    no_room: bool,
    not_utf8: bool,
}

impl Page {
    fn new(args: &ReadArgs, ctx: &ToolContext) -> Page {
        Page {
            first: args.offset.unwrap_or(1).max(1),
            limit: args.limit.unwrap_or(DEFAULT_LINES).max(1),
            max_bytes: MAX_PAGE_BYTES.min(ctx.inline_max_bytes),
            text: String::new(),
            shown: 0,
            lines: 0,
            line: Vec::new(),
            line_bytes: 0,
            no_room: false,
            not_utf8: false,
        }
    }

    fn is_full(&self) -> bool {
        self.no_room || self.shown >= self.limit
    }

    fn is_shown(&self) -> bool {
        self.lines + 1 >= self.first && !self.is_full()
    }

    fn feed(&mut self, chunk: &[u8]) {
        for piece in chunk.split_inclusive(|b| *b == b'\n') {
            let body = piece.strip_suffix(b"\n").unwrap_or(piece);
            if self.is_shown() {
                let room = MAX_LINE_BYTES - self.line.len();
                self.line.extend_from_slice(&body[..body.len().min(room)]);
            }
            self.line_bytes += body.len() as u64;
            if body.len() < piece.len() {
                self.end_line();
            }
        }
    }

    /// The last line need not have an end.
    fn end(&mut self) {
        if self.line_bytes > 0 {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        if self.is_shown() {
            let line = self.shown_line();
            // The first line of a page always has a place, or no page would get past it.
            if self.shown > 0 && self.text.len() + line.len() > self.max_bytes {
                self.no_room = true;
            } else {
                self.text.push_str(&line);
                self.shown += 1;
            }
        }
        self.lines += 1;
        self.line.clear();
        self.line_bytes = 0;
    }

    fn shown_line(&mut self) -> String {
        let mut bytes = self.line.as_slice();
        if self.line_bytes == bytes.len() as u64 {
            bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        }
        if self.lines == 0 {
            bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        }
        let text = printable(&String::from_utf8_lossy(bytes));
        let clip = text
            .char_indices()
            .nth(MAX_LINE_CHARS)
            .map_or(text.len(), |(at, _)| at);
        let clip = super::fit::floor(&text, clip.min(self.max_bytes));
        let is_clipped = clip < text.len() || self.line_bytes > MAX_LINE_BYTES as u64;
        self.not_utf8 |= !is_clipped && std::str::from_utf8(bytes).is_err();
        let note = match is_clipped {
            true => format!(" … [cut: the line has {} bytes]", self.line_bytes),
            false => String::new(),
        };
        format!("{:>6}\t{}{note}\n", self.lines + 1, &text[..clip])
    }

    fn whole(mut self, name: &str, key: String, hash: Option<String>) -> Result<Ran, String> {
        let seen = hash.map(|hash| Fact::Seen { path: key, hash });
        if self.lines == 0 {
            return Ok(Ran::done(format!("{name} is empty")).with(seen));
        }
        if self.shown == 0 {
            return Err(format!(
                "{name} has {}: there is no line {}",
                count(self.lines, "line"),
                self.first
            ));
        }
        let last = self.first + self.shown - 1;
        if last < self.lines {
            self.text.push_str(&format!(
                "[lines {}-{last} of {}; read on with offset {}]\n",
                self.first,
                self.lines,
                last + 1
            ));
        }
        self.note_encoding();
        Ok(Ran::done(self.text).with(seen))
    }

    /// What was reached is shown; where that is nothing, how to get there.
    fn stopped(mut self, name: &str, size: u64, stop: Stop) -> Result<Ran, String> {
        let (words, at) = (stop.words(), self.lines + 1);
        let hint = "hint: a command such as tail, or sed with line numbers, reads further";
        if self.shown == 0 {
            let first = self.first;
            return Err(format!(
                "cannot show {name} from line {first}: stopped {words}, at line {at} of a file of {size} bytes\n{hint}"
            ));
        }
        let last = self.first + self.shown - 1;
        self.text.push_str(&format!(
            "[lines {}-{last} of a file of {size} bytes; stopped {words}, at line {at}]\n[{hint}]\n",
            self.first,
        ));
        self.note_encoding();
        Ok(Ran::done(self.text))
    }

    fn early(mut self, size: u64) -> Ran {
        let last = self.first + self.shown - 1;
        self.text.push_str(&format!(
            "[lines {}-{last} of a file of {size} bytes; read on with offset {}]\n",
            self.first,
            last + 1
        ));
        self.note_encoding();
        Ran::done(self.text)
    }

    fn note_encoding(&mut self) {
        if self.not_utf8 {
            self.text
                .push_str("[not all of this is UTF-8: \u{fffd} stands for other bytes, and edit refuses the file]\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::support::{Room, done, error, hash, input};
    use super::super::{Limits, run_idempotent};
    use super::*;

    fn read(room: &Room, path: &str) -> Ran {
        room.idempotent("read", json!({"path": path}))
    }

    fn seen(room: &Room, name: &str, content: impl AsRef<[u8]>) -> Option<Fact> {
        Some(Fact::Seen {
            path: room.key(name),
            hash: hash(content),
        })
    }

    #[test]
    fn lines_are_numbered_and_the_file_counts_as_seen() {
        let room = Room::new();
        room.put("a", "one\ntwo");
        let ran = read(&room, "a");
        assert_eq!(done(&ran), "     1\tone\n     2\ttwo\n");
        assert_eq!(ran.fact, seen(&room, "a", "one\ntwo"));
    }

    #[test]
    fn a_part_says_how_to_read_on_and_the_whole_counts_as_seen() {
        let room = Room::new();
        room.put("a", "1\n2\n3\n4\n5\n");
        let ran = room.idempotent("read", json!({"path": "a", "offset": 2, "limit": 2}));
        assert_eq!(
            done(&ran),
            "     2\t2\n     3\t3\n[lines 2-3 of 5; read on with offset 4]\n"
        );
        assert_eq!(ran.fact, seen(&room, "a", "1\n2\n3\n4\n5\n"));
        let ran = room.idempotent("read", json!({"path": "a", "offset": 6}));
        assert!(error(&ran).contains("has 5 lines: there is no line 6"));
    }

    #[test]
    fn a_page_ends_within_its_bounds_and_pages_join() {
        let room = Room::new();
        let lines: Vec<String> = (1..=3_000)
            .map(|n| format!("line {n} {}", "é".repeat(n % 50)))
            .collect();
        room.put("a", lines.join("\n"));
        let mut got = Vec::new();
        while got.len() < lines.len() {
            let ran = room.idempotent("read", json!({"path": "a", "offset": got.len() + 1}));
            let text = done(&ran);
            assert!(text.len() <= room.ctx.inline_max_bytes + 100);
            let page = text.lines().filter_map(|l| l.split_once('\t'));
            let before = got.len();
            got.extend(page.map(|(_, line)| line.to_string()));
            assert!(got.len() > before, "no page is empty");
        }
        assert_eq!(got, lines);
    }

    #[test]
    fn long_lines_are_cut_and_say_so() {
        let room = Room::new();
        room.put("a", format!("{}\nnext\n", "é".repeat(1_000_000)));
        let ran = read(&room, "a");
        let (first, rest) = done(&ran).split_once('\n').unwrap();
        assert!(first.contains(&format!(
            "\t{} … [cut: the line has 2000000 bytes]",
            "é".repeat(2_000)
        )));
        assert_eq!(rest, "     2\tnext\n");
        room.put("b", "x".repeat(2_000));
        assert!(!done(&read(&room, "b")).contains("cut"));
    }

    #[test]
    fn text_is_shown_without_its_line_ends_and_byte_order_mark() {
        let room = Room::new();
        room.put("a", "\u{feff}one\r\ntwo\r\n");
        assert_eq!(done(&read(&room, "a")), "     1\tone\n     2\ttwo\n");
        room.put("late-nul", format!("{}\0\n", "x\n".repeat(SNIFFED_BYTES)));
        let ran = room.idempotent(
            "read",
            json!({"path": "late-nul", "offset": SNIFFED_BYTES + 1}),
        );
        assert!(done(&ran).ends_with("\t\u{2400}\n"));
        room.put("empty", "");
        let ran = read(&room, "empty");
        assert_eq!(done(&ran), "empty is empty");
        assert_eq!(ran.fact, seen(&room, "empty", ""));
    }

    #[test]
    fn what_is_not_text_is_refused_clearly() {
        let room = Room::new();
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
    }

    #[test]
    fn what_is_not_a_file_does_not_block() {
        let room = Room::new();
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
        let room = Room::new();
        let png = image::sample::PNG;
        room.put("a.png", png);
        let ran = read(&room, "a.png");
        let Outcome::Done { output } = &ran.outcome else {
            panic!("{ran:?}");
        };
        assert_eq!(output.images[0].media_type, "image/png");
        assert_eq!(output.text, "a.png: image/png, 3 x 2 px, 88 bytes");
        assert_eq!(output.images[0].blob.hash, hash(png));
        assert_eq!(ran.blobs, vec![png.to_vec()]);
        assert_eq!(ran.fact, seen(&room, "a.png", png));
    }

    #[test]
    fn an_image_that_cannot_be_read_is_refused() {
        let room = Room::new();
        let png = image::sample::PNG;
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
        let room = Room::new();
        let path = room.put("huge", "first\nsecond\n");
        // Sparse: a terabyte that takes no room and no test would sit through.
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
        let mut room = Room::new();
        let path = room.put("huge", "1\n2\n3\n");
        let filler = "x".repeat(SNIFFED_BYTES) + "\n";
        let huge = std::fs::File::options().write(true).open(path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&huge, filler.as_bytes(), 6).unwrap();
        huge.set_len(1 << 40).unwrap();
        room.ctx.limits.bytes = 200_000;
        let far = |room: &Room, offset: u64| {
            room.idempotent("read", json!({"path": "huge", "offset": offset}))
        };
        // No line in sight: nothing is shown.
        let ran = far(&room, 9);
        let said = "from line 9: stopped after 200000 bytes, at line 5 of a file of 1099511627776 bytes\nhint: ";
        assert!(error(&ran).contains(said), "{ran:?}");
        // What was reached is.
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
        let room = Room::new();
        room.put("a", "x\n");
        let read = input("read", json!({"path": "a"}));
        let ran = run_idempotent(&read, &room.ctx, &AtomicBool::new(true));
        assert!(matches!(ran.outcome, Outcome::Interrupted { .. }));
    }
}
