//! Text search in files, with the crates of ripgrep.

use crate::core::text::count;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::file::{FolderEntry, Kind};
use super::limit::{Stop, Watch};
use super::paths::{self, Hidden, ToolContext};
use super::schema::{boolean, integer, object, string};
use super::shown::{ShownResult, Verb};
use super::tool::Tool;
use super::walk::{FRAME_BYTES, PathGlob, Walk, hints};
use super::whole::WholeNumber;
use super::work::Work;
use super::{ToolResult, printable};
use crate::core::permission::{PathUse, Permission};

const DEFAULT_HITS: u64 = 200;
const MAX_HITS: u64 = 2_000;
/// Maximum number of hits that are counted. Above it, the report says "more than".
const MAX_COUNTED: u64 = 10_000;
const MAX_TEXT_BYTES: usize = 50_000;
const MAX_CONTEXT_LINES: u64 = 20;
const MAX_LINE_CHARS: usize = 300;
/// Bytes of a long line that are shown before the hit.
const LEAD_BYTES: usize = 100;
/// Maximum length of a line. A file is searched up to the first longer one, since a search cannot
/// be stopped within a line, and some patterns take a second for each long line.
const MAX_LINE_BYTES: usize = 1024 * 1024;
/// Maximum number of files with such a line that are named.
const MAX_NAMED: usize = 3;

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    /// A regular expression of the Rust `regex` crate.
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    /// Number of lines to show around a hit.
    context: Option<WholeNumber>,
    /// Show only the names of the files.
    #[serde(default)]
    files_only: bool,
    /// Maximum number of hits.
    limit: Option<WholeNumber>,
}

impl Tool for Args {
    const NAME: &'static str = "grep";
    const TEXT: &'static str = include_str!("../../assets/tools/grep.md");
    const VERB: Verb = Verb::Look;
    const RESULT: ShownResult = ShownResult::HitCount;
    const LEFT_OUT: &'static [&'static str] = &["ignore_case", "context", "files_only", "limit"];

    fn schema() -> Value {
        let properties = json!({
            "pattern": string(), "path": string(), "glob": string(), "ignore_case": boolean(),
            "context": integer(), "files_only": boolean(), "limit": integer(),
        });
        object(properties, &["pattern"])
    }

    fn subject(&self) -> String {
        self.pattern.clone()
    }

    fn permission(&self) -> Permission {
        Permission::Path {
            path_use: PathUse::Grep,
            path: self.path.as_deref().unwrap_or(".").to_string(),
        }
    }

    fn work(self) -> Work {
        Work::Look(Box::new(move |ctx, cancel| {
            grep(&self, ctx, cancel).unwrap_or_else(ToolResult::error)
        }))
    }
}

fn grep(args: &Args, ctx: &ToolContext, cancel: &AtomicBool) -> Result<ToolResult, String> {
    let matcher = matcher(args)?;
    let glob = args.glob.as_deref().map(PathGlob::new).transpose()?;
    let named = args.path.as_deref().unwrap_or(".");
    let root = paths::resolve(named, ctx)?;
    let cannot = |e: io::Error| format!("cannot search {named}: {e}");
    let Some(place) = FolderEntry::of(&root).map_err(cannot)? else {
        return Err(paths::missing(named, &root));
    };
    let is_folder = match place.kind().map_err(cannot)? {
        Kind::Folder => true,
        Kind::Regular(_) => false,
        Kind::Missing => return Err(paths::missing(named, &root)),
        Kind::Special(what) => return Err(format!("cannot search {named}: it is {what}")),
    };
    let watch = Watch::new(ctx.limits, cancel);
    let mut search = GrepSearch {
        matcher,
        searcher: searcher(args),
        files_only: args.files_only,
        folder: paths::real_folder(ctx),
        hidden: Arc::clone(&ctx.hidden),
        watch: &watch,
        last: root.clone(),
        unused: Vec::new(),
        left_out: String::new(),
        stopped: None,
        found: Matches::new(args, ctx),
    };
    if is_folder {
        search.folder(&root, glob.as_ref());
    } else {
        search.file(&root, || place.open());
    }
    if search.stopped == Some(Stop::Cancelled) {
        return Ok(ToolResult::cancelled(search.found.text));
    }
    let last = paths::shown(&search.last, &search.folder);
    let hints = search.left_out + &hints(search.stopped, &last, &search.unused);
    Ok(ToolResult::done(
        search.found.report(&args.pattern, named) + &hints,
    ))
}

fn matcher(args: &Args) -> Result<RegexMatcher, String> {
    if args.pattern.is_empty() {
        return Err("the pattern is empty".to_string());
    }
    RegexMatcherBuilder::new()
        .case_insensitive(args.ignore_case)
        // `^` and `$` are the ends of each line, not of the part that is searched at once.
        .multi_line(true)
        .crlf(true)
        .build(&args.pattern)
        .map_err(|e| {
            format!(
                "the pattern {:?} cannot be used: {e}\nhint: lines are searched one by one; escape . ( [ {{ with a backslash to mean them",
                args.pattern
            )
        })
}

fn searcher(args: &Args) -> Searcher {
    let context = match args.files_only {
        true => 0,
        false => args.context.map_or(0, u64::from).min(MAX_CONTEXT_LINES) as usize,
    };
    SearcherBuilder::new()
        .line_terminator(LineTerminator::crlf())
        .line_number(true)
        .before_context(context)
        .after_context(context)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_LINE_BYTES))
        .build()
}

struct GrepSearch<'a> {
    matcher: RegexMatcher,
    searcher: Searcher,
    files_only: bool,
    /// Folder to which shown paths are relative.
    folder: PathBuf,
    hidden: Arc<Hidden>,
    watch: &'a Watch<'a>,
    /// Path that was searched last.
    last: PathBuf,
    unused: Vec<String>,
    /// The line about what was not searched, if nothing was found.
    left_out: String,
    stopped: Option<Stop>,
    found: Matches,
}

impl GrepSearch<'_> {
    fn folder(&mut self, root: &Path, glob: Option<&PathGlob>) {
        let mut walk = Walk::new(root, false, &self.hidden, self.watch);
        while let Some(entry) = walk.next() {
            let Ok(entry) = entry else {
                self.found.unreadable += 1;
                continue;
            };
            let below = entry.path.strip_prefix(root).unwrap_or(&entry.path);
            if entry.of.is_file() && glob.is_none_or(|g| g.is_match(below)) {
                self.file(&entry.path, || walk.file(&entry.path));
            }
            if self.found.hits > MAX_COUNTED {
                break;
            }
        }
        self.stopped = self.stopped.or(walk.stopped());
        self.unused = walk.unused();
        if self.found.hits == 0 {
            let way = "name one as path to search it";
            self.left_out = walk.left_out().in_words(&self.folder, way);
        }
    }

    fn file(&mut self, path: &Path, open: impl FnOnce() -> io::Result<File>) {
        self.last = path.to_path_buf();
        let Ok(file) = open() else {
            self.found.unreadable += 1;
            return;
        };
        self.found.searched += 1;
        let hits = FileHits {
            name: printable(&paths::shown(path, &self.folder)),
            is_named: false,
            had_break: false,
            files_only: self.files_only,
            matcher: &self.matcher,
            found: &mut self.found,
        };
        let mut file = Watched {
            file,
            watch: self.watch,
            stopped: None,
        };
        let searched = self.searcher.search_reader(&self.matcher, &mut file, hits);
        self.stopped = file.stopped;
        match searched {
            Ok(()) => {}
            Err(e) if is_long_line(&e) => {
                let name = paths::shown(path, &self.folder);
                self.found.long.push(name);
            }
            Err(_) => self.found.unreadable += 1,
        }
    }
}

/// Returns whether the searcher failed because a line does not fit its buffer. The text is the only
/// sign of it.
fn is_long_line(error: &io::Error) -> bool {
    error.to_string().contains("configured allocation limit")
}

/// A file whose reads end as soon as the search must stop.
struct Watched<'a> {
    file: File,
    watch: &'a Watch<'a>,
    stopped: Option<Stop>,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stopped = self.watch.stop();
        if self.stopped.is_some() {
            return Ok(0);
        }
        let read = self.file.read(buffer)?;
        self.watch.read(read);
        Ok(read)
    }
}

/// The hits of a search, within the limits of a report.
#[derive(Default)]
struct Matches {
    text: String,
    max_bytes: usize,
    limit: u64,
    is_full: bool,
    /// Number of hits, or of files with a hit in a search for files only.
    hits: u64,
    shown: u64,
    searched: u64,
    binary: u64,
    /// The files with a line over [`MAX_LINE_BYTES`].
    long: Vec<String>,
    unreadable: u64,
}

impl Matches {
    fn new(args: &Args, ctx: &ToolContext) -> Matches {
        Matches {
            max_bytes: MAX_TEXT_BYTES.min(ctx.inline_max_bytes.saturating_sub(FRAME_BYTES)),
            limit: args
                .limit
                .map_or(DEFAULT_HITS, u64::from)
                .clamp(1, MAX_HITS),
            ..Matches::default()
        }
    }

    /// Appends a line and returns whether it had room. After the first line without room, no line
    /// is appended any more.
    fn push(&mut self, line: &str) -> bool {
        self.is_full |= self.text.len() + line.len() > self.max_bytes;
        if !self.is_full {
            self.text.push_str(line);
        }
        !self.is_full
    }

    fn report(mut self, pattern: &str, named: &str) -> String {
        if self.hits == 0 {
            self.text = format!(
                "no match for {pattern} in {named}; files searched: {}\n",
                self.searched
            );
        }
        let more = self.hits - self.shown;
        if more > 0 {
            let over = if self.hits > MAX_COUNTED { "over " } else { "" };
            self.text.push_str(&format!(
                "[{} shown, {over}{more} more: narrow the pattern, path or glob]\n",
                self.shown
            ));
        }
        if self.binary > 0 {
            let (files, end) = not_to_its_end(self.binary, "binary file");
            self.text.push_str(&format!("[{files} {end}]\n"));
        }
        if !self.long.is_empty() {
            let (files, end) = not_to_its_end(self.long.len() as u64, "file");
            let named = self.long[..self.long.len().min(MAX_NAMED)].join(", ");
            self.text.push_str(&format!(
                "[{files} with a line of over 1 MiB {end}: {named}; search there with a command]\n"
            ));
        }
        if self.unreadable > 0 {
            let paths = count(self.unreadable, "path");
            self.text
                .push_str(&format!("[{paths} could not be read]\n"));
        }
        self.text
    }
}

/// Returns a number of files, and the words that they were not searched to their end.
fn not_to_its_end(n: u64, what: &str) -> (String, &'static str) {
    let end = if n == 1 {
        "was not searched to its end"
    } else {
        "were not searched to their end"
    };
    (count(n, what), end)
}

/// Returns the number of places that a report of [`grep`] found, including those that it does not
/// show. For a search for files only, returns the number of files.
pub fn hits(report: &str) -> u64 {
    if report.starts_with("no match for ") {
        return 0;
    }
    let is_hit = |line: &&str| {
        let (number, _) = line.split_once(':').unwrap_or_default();
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    };
    let is_own = |line: &&str| line.starts_with('[') && line.ends_with(']');
    let shown = match report.lines().filter(is_hit).count() {
        0 => report.lines().filter(|line| !is_own(line)).count(),
        hits => hits,
    };
    let more = report.lines().rev().find_map(|line| {
        let (_, rest) = line.strip_prefix('[')?.split_once(" shown, ")?;
        let rest = rest.strip_prefix("over ").unwrap_or(rest);
        rest.split_once(" more: ")?.0.parse().ok()
    });
    shown as u64 + more.unwrap_or(0)
}

/// The hits of one file, under its name.
struct FileHits<'a> {
    name: String,
    is_named: bool,
    had_break: bool,
    files_only: bool,
    matcher: &'a RegexMatcher,
    found: &'a mut Matches,
}

impl FileHits<'_> {
    /// Adds a line. `mark` is `:` for a hit and `-` for a line around one.
    fn line(&mut self, number: Option<u64>, mark: char, text: &str) -> bool {
        let mut lines = String::new();
        if !self.is_named {
            lines = format!("{}\n", self.name);
        } else if self.had_break {
            lines.push_str("--\n");
        }
        lines.push_str(&format!("{}{mark}{text}\n", number.unwrap_or(0)));
        self.is_named = true;
        self.had_break = false;
        self.found.push(&lines)
    }
}

impl Sink for FileHits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, hit: &SinkMatch<'_>) -> io::Result<bool> {
        self.found.hits += 1;
        let has_room = self.found.shown < self.found.limit && !self.found.is_full;
        if self.files_only {
            let name = format!("{}\n", self.name);
            self.found.shown += u64::from(has_room && self.found.push(&name));
            return Ok(false);
        }
        if has_room {
            let at = self.matcher.find(hit.bytes()).ok().flatten();
            let text = around(hit.bytes(), at.map_or(0, |m| m.start()));
            let is_shown = self.line(hit.line_number(), ':', &text);
            self.found.shown += u64::from(is_shown);
        }
        Ok(self.found.hits <= MAX_COUNTED)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        // Lines after the last shown hit belong to it. Lines before the next hit do not.
        let is_wanted = match line.kind() {
            grep_searcher::SinkContextKind::Before => self.found.shown < self.found.limit,
            _ => self.found.shown == self.found.hits,
        };
        if is_wanted && !self.found.is_full {
            self.line(line.line_number(), '-', &around(line.bytes(), 0));
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.had_break = self.is_named;
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.found.binary += u64::from(end.binary_byte_offset().is_some());
        Ok(())
    }
}

/// Returns a line without its end; of a long line, the part around the byte `at`.
fn around(line: &[u8], at: usize) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= MAX_LINE_CHARS {
        return printable(&String::from_utf8_lossy(line));
    }
    let is_inside_char = |at: &usize| line.get(*at).is_some_and(|b| b & 0xc0 == 0x80);
    let mut start = at.min(line.len()).saturating_sub(LEAD_BYTES);
    for _ in 0..3 {
        start += usize::from(is_inside_char(&start));
    }
    let end = line.len().min(start + 4 * MAX_LINE_CHARS);
    let text = String::from_utf8_lossy(&line[start..end]);
    let kept: String = text.chars().take(MAX_LINE_CHARS).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if start + kept.len() < line.len() {
        "…"
    } else {
        ""
    };
    printable(&format!("{before}{kept}{after}"))
}

#[cfg(test)]
mod tests;
