//! The tool `read`: a page of numbered lines of a file, or an image.
//!
//! A page has no gaps: it ends after the last whole line that fits, and says how to read on. The
//! file is streamed, so memory use does not depend on its size.

use crate::core::text::count;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::file::{self, FolderEntry, Kind};
use super::limit::{Stop, Watch};
use super::line_ends::{LineEnds, MARK};
use super::paths::{self, ToolContext};
use super::schema::{integer, object, string};
use super::shown::{ShownResult, Verb};
use super::tool::Tool;
use super::whole::WholeNumber;
use super::work::Work;
use super::{ToolResult, printable};
use crate::core::cut::is_cut;
use crate::core::entry::{Fact, Image, Outcome, Output};
use crate::core::image::{self, media_type};
use crate::core::permission::{PathUse, Permission};
use crate::core::seen::SeenPart;
use crate::store::blob_ref;

const DEFAULT_LINES: u64 = 2_000;
const MAX_PAGE_BYTES: usize = 50_000;
const MAX_LINE_CHARS: usize = 2_000;
/// Maximum bytes of a line: UTF-8 has at most 4 per character.
const MAX_LINE_BYTES: usize = 4 * MAX_LINE_CHARS;
/// Maximum size of a file that is hashed. A larger one is read only up to the last shown line: its
/// lines are not counted.
const MAX_HASHED_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes of the lines that follow a page: how to read on, …
const READ_ON_BYTES: usize = 110;
/// … and one about a cut line, about bytes that are not text, or about line ends.
const NOTE_BYTES: usize = 120;
/// Bytes reserved for the number of a line, and for the note that it is cut.
const LINE_FRAME_BYTES: usize = 80;
const MAX_NAMES: usize = 100;
const MAX_NAMES_READ: usize = 10_000;
const SNIFFED_BYTES: usize = 8 * 1024;
const CHUNK_BYTES: usize = 64 * 1024;

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    path: String,
    /// First line, from 1.
    offset: Option<WholeNumber>,
    /// Number of lines.
    limit: Option<WholeNumber>,
}

impl Tool for Args {
    const NAME: &'static str = "read";
    const TEXT: &'static str = include_str!("../../assets/tools/read.md");
    const VERB: Verb = Verb::Look;
    const RESULT: ShownResult = ShownResult::LineCount;

    fn schema() -> Value {
        let properties = json!({"path": string(), "offset": integer(), "limit": integer()});
        object(properties, &["path"])
    }

    fn subject(&self) -> String {
        self.path.clone()
    }

    fn permission(&self) -> Permission {
        Permission::Path {
            path_use: PathUse::Read,
            path: self.path.clone(),
        }
    }

    fn work(self) -> Work {
        Work::Look(Box::new(move |ctx, cancel| {
            read(&self, ctx, cancel).unwrap_or_else(ToolResult::error)
        }))
    }
}

fn read(args: &Args, ctx: &ToolContext, cancel: &AtomicBool) -> Result<ToolResult, String> {
    let name = &args.path;
    let path = paths::resolve(name, ctx)?;
    let cannot = |e: io::Error| format!("cannot read {name}: {e}");
    let Some(place) = FolderEntry::of(&path).map_err(cannot)? else {
        return Err(paths::missing(name, &path));
    };
    let size = match place.kind().map_err(cannot)? {
        Kind::Missing => return Err(paths::missing(name, &path)),
        Kind::Special(what) => return Err(format!("cannot read {name}: it is {what}, not a file")),
        Kind::Folder => return Err(listing(name, &place)),
        Kind::Regular(stat) => file::size(&stat),
    };
    let mut file = place.open().map_err(cannot)?;
    let mut start = Vec::new();
    let sniffed = file
        .by_ref()
        .take(SNIFFED_BYTES as u64)
        .read_to_end(&mut start);
    sniffed.map_err(cannot)?;
    let key = path.to_string_lossy().into_owned();
    if media_type(&start).is_some() {
        return image(name, key, &place, size);
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
        ReadEnd::Stopped(Stop::Cancelled) => Ok(ToolResult::cancelled(page.text)),
        ReadEnd::Stopped(stop) => page.stopped(name, size, stop),
        ReadEnd::Whole { hash } => page.whole(name, key, hash),
        ReadEnd::Early => Ok(page.early(size)),
    }
}

const HINT_BINARY: &str = "hint: look at it with a command such as file, xxd or iconv";

/// Lists the folder in the error, so that the model does not have to guess other names.
fn listing(name: &str, place: &FolderEntry) -> String {
    let folder = place.as_folder();
    let entries = match folder.and_then(|folder| folder.names(Path::new(""))) {
        Ok(entries) => entries,
        Err(e) => return format!("{name} is a folder, and cannot be listed: {e}"),
    };
    let mut names: Vec<String> = entries
        .take(MAX_NAMES_READ)
        .flatten()
        .filter(|entry| !matches!(entry.file_name().to_bytes(), b"." | b".."))
        .map(|entry| {
            let slash = if entry.file_type().is_dir() { "/" } else { "" };
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

fn image(name: &str, key: String, place: &FolderEntry, size: u64) -> Result<ToolResult, String> {
    const MAX: u64 = image::MAX_BYTES;
    let smaller = "hint: make a smaller copy with a command";
    let bytes = place.load(MAX).map_err(|e| match e.kind() {
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
    let blob = blob_ref(&bytes);
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
    Ok(ToolResult {
        outcome: Outcome::Done { output },
        fact: Some(Fact::Seen {
            path: key,
            hash,
            part: SeenPart::new(Vec::new(), 0, true),
        }),
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

enum ReadEnd {
    Whole {
        hash: Option<String>,
    },
    /// The page is full, and the file is too large to be hashed.
    Early,
    Stopped(Stop),
}

fn stream(mut from: impl Read, page: &mut Page, watch: &Watch<'_>) -> io::Result<ReadEnd> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut hasher = blake3::Hasher::new();
    let mut bytes: u64 = 0;
    loop {
        if let Some(stop) = watch.stop() {
            return Ok(ReadEnd::Stopped(stop));
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
            return Ok(ReadEnd::Early);
        }
        page.feed(&chunk[..read]);
    }
    page.end();
    let hash = (bytes <= MAX_HASHED_BYTES).then(|| hasher.finalize().to_hex().to_string());
    Ok(ReadEnd::Whole { hash })
}

/// The shown lines, collected while the file is streamed.
#[derive(Default)]
struct Page {
    /// Number of the first shown line, from 1.
    first: u64,
    limit: u64,
    /// Maximum size with the lines that follow the page.
    max_bytes: usize,
    text: String,
    /// The length of the text and the number of lines at the first line that was too long. More
    /// lines stay only if a cut would save little.
    fits: Option<(usize, u64)>,
    /// Number of lines shown.
    shown: u64,
    /// Number of lines streamed.
    lines: u64,
    /// The start of the current line, and its whole length.
    line: Vec<u8>,
    line_bytes: u64,
    no_room: bool,
    not_utf8: bool,
    has_nul: bool,
    /// Whether a shown line is cut.
    has_cut: bool,
    /// The ranges of lines that are shown in full length.
    seen: Vec<(u64, u64)>,
    has_mark: bool,
    /// Number of LFs, and of those that follow a CR.
    ends: usize,
    crlfs: usize,
    /// Whether the first line has a CR.
    has_cr: bool,
    last_byte: u8,
}

impl Page {
    fn new(args: &Args, ctx: &ToolContext) -> Page {
        Page {
            first: args.offset.map_or(1, u64::from).max(1),
            limit: args.limit.map_or(DEFAULT_LINES, u64::from).max(1),
            max_bytes: MAX_PAGE_BYTES.min(ctx.inline_max_bytes),
            ..Page::default()
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
            self.has_cr |= self.lines == 0 && body.contains(&b'\r');
            if body.len() < piece.len() {
                self.ends += 1;
                self.crlfs += usize::from(*body.last().unwrap_or(&self.last_byte) == b'\r');
                self.end_line();
            }
            self.last_byte = *piece.last().unwrap_or(&0);
        }
    }

    /// Ends the last line, which may lack a line end.
    fn end(&mut self) {
        if self.line_bytes > 0 {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        if self.is_shown() {
            let line = self.shown_line();
            let size = self.text.len() + line.len() + self.frame_bytes();
            if size > self.max_bytes {
                self.fits.get_or_insert((self.text.len(), self.shown));
            }
            // The first line always fits, or no page could get past it.
            match self.fits {
                Some((bytes, shown)) if shown > 0 && is_cut(size, self.max_bytes) => {
                    self.text.truncate(bytes);
                    self.shown = shown;
                    self.no_room = true;
                }
                _ => {
                    self.text.push_str(&line);
                    self.shown += 1;
                }
            }
        }
        self.lines += 1;
        self.line.clear();
        self.line_bytes = 0;
    }

    fn frame_bytes(&self) -> usize {
        let has_ends = self.has_mark || self.has_cr || self.crlfs > 0;
        let notes = [self.has_cut, self.not_utf8, has_ends];
        READ_ON_BYTES + notes.into_iter().filter(|has| *has).count() * NOTE_BYTES
    }

    fn shown_line(&mut self) -> String {
        let mut bytes = self.line.as_slice();
        if self.line_bytes == bytes.len() as u64 {
            bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        }
        if self.lines == 0 {
            let mark = MARK.to_string();
            let lines = bytes.strip_prefix(mark.as_bytes());
            self.has_mark = lines.is_some();
            bytes = lines.unwrap_or(bytes);
        }
        let text = printable(&String::from_utf8_lossy(bytes));
        let clip = text
            .char_indices()
            .nth(MAX_LINE_CHARS)
            .map_or(text.len(), |(at, _)| at);
        let clip = super::truncate::floor(
            &text,
            clip.min(
                self.max_bytes
                    .saturating_sub(READ_ON_BYTES + 2 * NOTE_BYTES + LINE_FRAME_BYTES),
            ),
        );
        let is_clipped = clip < text.len() || self.line_bytes > MAX_LINE_BYTES as u64;
        if !is_clipped {
            self.not_utf8 |= std::str::from_utf8(bytes).is_err();
            self.has_nul |= bytes.contains(&0);
            let line = self.lines + 1;
            match self.seen.last_mut() {
                Some((_, last)) if *last + 1 == line => *last = line,
                _ => self.seen.push((line, line)),
            }
        }
        self.has_cut |= is_clipped;
        let note = match is_clipped {
            true => format!(" … [cut: the line has {} bytes]", self.line_bytes),
            false => String::new(),
        };
        format!("{:>6}\t{}{note}\n", self.lines + 1, &text[..clip])
    }

    /// Returns the part of the file that is shown. `None`: all of it, as it is.
    fn seen_part(&self) -> Option<SeenPart> {
        // Lines after it had no room.
        let last = self.first.saturating_add(self.shown).saturating_sub(1);
        let lines = self.seen.iter().map(|(a, b)| (*a, (*b).min(last)));
        SeenPart::new(lines.collect(), self.lines, self.not_utf8 || self.has_nul)
    }

    fn whole(
        mut self,
        name: &str,
        key: String,
        hash: Option<String>,
    ) -> Result<ToolResult, String> {
        let part = self.seen_part();
        let seen = hash.map(|hash| Fact::Seen {
            path: key,
            hash,
            part,
        });
        if self.lines == 0 {
            return Ok(ToolResult::done(format!("{name} is empty")).with(seen));
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
                "[lines {}-{last} of {}; read on with offset {}, limit {}]\n",
                self.first,
                self.lines,
                last + 1,
                self.lines - last
            ));
        }
        self.notes();
        Ok(ToolResult::done(self.text).with(seen))
    }

    /// Shows the lines up to where reading stopped. Without any, returns an error with a way to
    /// read further.
    fn stopped(mut self, name: &str, size: u64, stop: Stop) -> Result<ToolResult, String> {
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
        self.notes();
        Ok(ToolResult::done(self.text))
    }

    fn early(mut self, size: u64) -> ToolResult {
        let last = self.first + self.shown - 1;
        self.text.push_str(&format!(
            "[lines {}-{last} of a file of {size} bytes; read on with offset {}]\n",
            self.first,
            last + 1
        ));
        self.notes();
        ToolResult::done(self.text)
    }

    fn notes(&mut self) {
        if self.has_cut {
            self.text
                .push_str("[a command such as `sed -n 7p FILE | cut -c 2001-4000` shows more of a line that is cut]\n");
        }
        if self.not_utf8 {
            self.text
                .push_str("[not all of this is UTF-8: \u{fffd} stands for other bytes; edit and write refuse the file]\n");
        }
        self.text.extend(self.ends_note());
    }

    /// Names line ends that are not LF, and the byte order mark. The lines do not show them.
    fn ends_note(&self) -> Option<String> {
        let ends = LineEnds::counted(self.ends, self.crlfs, self.has_cr);
        let ends = ends.name().map(|ends| format!("line ends: {ends}"));
        let mark = self.has_mark.then(|| "begins with a BOM".to_string());
        let named: Vec<String> = ends.into_iter().chain(mark).collect();
        let named = (!named.is_empty()).then(|| named.join("; "))?;
        Some(format!("[{named}; edit and write keep that]\n"))
    }
}

#[cfg(test)]
mod tests;
