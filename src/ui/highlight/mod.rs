//! Code in colours, without making the screen wait for them.
//!
//! New code is shown plain until a thread has coloured it; [`Highlighter::changed`] reports
//! progress. Lines are cached by a hash of themselves and of all lines before them, so code that
//! grows at its end is only coloured there.
//!
//! Invariant: colours never change the text, so never its layout. A theme is applied when lines are
//! requested; the cache does not depend on a theme.

mod painter;
mod recent;

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ratatui::style::Style;

use painter::Painter;
use recent::Recent;

use super::theme::Theme;

/// Maximum size of coloured code. The rest is shown plain.
const MAX_CODE_BYTES: usize = 256 * 1024;
/// Maximum length of a coloured line. Grammars take very long over very long lines.
const MAX_LINE_BYTES: usize = 1_000;
const MAX_REMEMBERED_LINES: usize = 32_768;
const MAX_WAITING_JOBS: usize = 64;

/// Lines of code as styled texts.
#[derive(Debug, PartialEq)]
pub struct Coloured {
    pub lines: Vec<Vec<(Style, String)>>,
    /// Whether these are their last colours.
    pub settled: bool,
}

/// The role of a piece of code in its language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Plain,
    Comment,
    Keyword,
    Text,
    Constant,
    Function,
    Type,
    Heading,
    Added,
    Removed,
}

impl Role {
    fn style(self, theme: &Theme) -> Style {
        match self {
            Role::Plain => Style::new(),
            Role::Comment => theme.syntax_comment,
            Role::Keyword => theme.syntax_keyword,
            Role::Text => theme.syntax_string,
            Role::Constant => theme.syntax_constant,
            Role::Function => theme.syntax_function,
            Role::Type => theme.syntax_type,
            Role::Heading => theme.heading(),
            Role::Added => theme.diff_add,
            Role::Removed => theme.diff_del,
        }
    }
}

/// A number of bytes of one role. The rest of a line is plain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    role: Role,
    bytes: usize,
}

type Runs = Arc<[Run]>;

struct Job {
    language: String,
    code: String,
}

/// Data that the screen and the thread share.
struct SharedQueue {
    lines: Mutex<Recent<Runs>>,
    generation: AtomicU64,
}

impl SharedQueue {
    fn lines(&self) -> MutexGuard<'_, Recent<Runs>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum HighlightWorker {
    /// Colours in the caller's thread, at once.
    Here(Option<Box<Painter>>),
    /// The thread is started with the first job.
    Idle,
    Running(SyncSender<Job>),
    Gone,
}

/// Colours code, and remembers it.
pub struct Highlighter {
    shared: Arc<SharedQueue>,
    worker: HighlightWorker,
    /// The last lines of the jobs sent since the last change.
    asked: HashSet<u64>,
    seen: u64,
}

impl Highlighter {
    /// Makes a highlighter with a thread: code is plain until it is coloured.
    pub fn background() -> Highlighter {
        Highlighter::new(HighlightWorker::Idle)
    }

    /// Colours at once; the caller waits.
    pub fn direct() -> Highlighter {
        Highlighter::new(HighlightWorker::Here(None))
    }

    fn new(worker: HighlightWorker) -> Highlighter {
        Highlighter {
            shared: Arc::new(SharedQueue {
                lines: Mutex::new(Recent::new(MAX_REMEMBERED_LINES)),
                generation: AtomicU64::new(0),
            }),
            worker,
            asked: HashSet::new(),
            seen: 0,
        }
    }

    /// Returns a number that grows whenever there are new colours.
    pub fn generation(&self) -> u64 {
        self.shared.generation.load(Ordering::Acquire)
    }

    /// Returns whether there are new colours since the last call.
    pub fn changed(&mut self) -> bool {
        let generation = self.generation();
        let changed = generation != self.seen;
        if changed {
            self.seen = generation;
            // Lines that left the cache may be requested again.
            self.asked.clear();
        }
        changed
    }

    /// Returns the lines of `code` from number `skip` (0 is the first) on. The lines before it only
    /// determine their colours. The code must be clean already.
    pub fn lines(&mut self, code: &str, skip: usize, language: &str, theme: &Theme) -> Coloured {
        let language = language_name(language);
        let (known, missing) = match language {
            "" => (Vec::new(), None),
            _ => self.known(code, skip, language),
        };
        let mut settled = true;
        let known = match missing {
            Some(last) => match self.ask(last, language, code) {
                Highlighted::Done => self.known(code, skip, language).0,
                Highlighted::Later => {
                    settled = false;
                    known
                }
                Highlighted::Never => known,
            },
            None => known,
        };
        let plain: Runs = Arc::new([]);
        let lines = code.split_inclusive('\n').skip(skip).enumerate();
        let lines = lines.map(|(n, line)| {
            let line = line.strip_suffix('\n').unwrap_or(line);
            styled(line, known.get(n).unwrap_or(&plain), theme)
        });
        Coloured {
            lines: lines.collect(),
            settled,
        }
    }

    /// Returns the cached lines from `skip` on, up to the first that is missing. If one is missing,
    /// also returns the hash of the last line.
    fn known(&self, code: &str, skip: usize, language: &str) -> (Vec<Runs>, Option<u64>) {
        let mut lines = self.shared.lines();
        let mut known = Vec::new();
        let mut missing = None;
        for (n, (_, hash)) in chain(code, language).enumerate() {
            if n < skip {
                continue;
            }
            match lines.get(hash) {
                Some(runs) if missing.is_none() => known.push(Arc::clone(runs)),
                _ => missing = Some(hash),
            }
        }
        (known, missing)
    }

    fn ask(&mut self, last: u64, language: &str, code: &str) -> Highlighted {
        let job = || Job {
            language: language.to_string(),
            code: code[..capped(code)].to_string(),
        };
        if let HighlightWorker::Idle = self.worker {
            self.worker = start(Arc::clone(&self.shared));
        }
        match &mut self.worker {
            HighlightWorker::Here(painter) => {
                let painter = painter.get_or_insert_default();
                painter.paint(&job(), &self.shared);
                Highlighted::Done
            }
            HighlightWorker::Running(_) if self.asked.contains(&last) => Highlighted::Later,
            HighlightWorker::Running(jobs) => {
                // A full queue is asked again after the next change.
                if jobs.try_send(job()).is_ok() {
                    self.asked.insert(last);
                }
                Highlighted::Later
            }
            HighlightWorker::Idle | HighlightWorker::Gone => Highlighted::Never,
        }
    }
}

enum Highlighted {
    Done,
    Later,
    Never,
}

fn start(shared: Arc<SharedQueue>) -> HighlightWorker {
    let (jobs, waiting) = sync_channel::<Job>(MAX_WAITING_JOBS);
    let work = move || {
        let mut painter = Painter::default();
        for job in waiting {
            painter.paint(&job, &shared);
        }
    };
    let thread = std::thread::Builder::new().name("highlight".to_string());
    match thread.spawn(work) {
        Ok(_) => HighlightWorker::Running(jobs),
        Err(_) => HighlightWorker::Gone,
    }
}

/// Returns the first word of a fence's label: `rust` for `rust,ignore`.
fn language_name(label: &str) -> &str {
    let label = label.trim_start_matches(['{', '.', ' ']);
    let end =
        label.find(|c: char| !c.is_alphanumeric() && !matches!(c, '+' | '#' | '-' | '_' | '.'));
    let name = &label[..end.unwrap_or(label.len())];
    if name.len() <= 64 { name } else { "" }
}

/// Returns the lines to colour, each with the hash of the code up to its end.
fn chain<'a>(code: &'a str, language: &str) -> impl Iterator<Item = (&'a str, u64)> {
    let mut hash = hash_of(language);
    code[..capped(code)].split_inclusive('\n').map(move |line| {
        hash = hash_of((hash, line));
        (line, hash)
    })
}

fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns the length of the code to colour: only whole lines, when there is too much.
fn capped(code: &str) -> usize {
    match code.as_bytes().get(..MAX_CODE_BYTES) {
        Some(head) if code.len() > MAX_CODE_BYTES => head
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1),
        _ => code.len(),
    }
}

fn styled(line: &str, runs: &[Run], theme: &Theme) -> Vec<(Style, String)> {
    let mut parts = Vec::with_capacity(runs.len() + 1);
    let mut rest = line;
    for run in runs {
        if let Some((part, after)) = rest.split_at_checked(run.bytes) {
            parts.push((run.role.style(theme), part.to_string()));
            rest = after;
        }
    }
    if !rest.is_empty() {
        parts.push((Style::new(), rest.to_string()));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "// hello\nfn main() {\n    let s = \"x\";\n}\n";

    fn dark() -> Theme {
        Theme::named("dark").unwrap()
    }

    fn style_of(coloured: &Coloured, part: &str) -> Style {
        let mut parts = coloured.lines.iter().flatten();
        let found = parts.find(|(_, text)| text.contains(part));
        found.unwrap_or_else(|| panic!("{part} in {coloured:?}")).0
    }

    fn text(coloured: &Coloured) -> String {
        let line = |l: &Vec<(Style, String)>| l.iter().map(|(_, t)| t.as_str()).collect::<String>();
        coloured.lines.iter().map(|l| line(l) + "\n").collect()
    }

    #[test]
    fn code_has_the_colours_of_its_theme() {
        let theme = dark();
        let coloured = Highlighter::direct().lines(CODE, 0, "rust,ignore", &theme);
        assert!(coloured.settled);
        assert_eq!(text(&coloured), CODE);
        assert_eq!(style_of(&coloured, "hello"), theme.syntax_comment);
        assert_eq!(style_of(&coloured, "fn"), theme.syntax_keyword);
        assert_eq!(style_of(&coloured, "main"), theme.syntax_function);
        assert_eq!(style_of(&coloured, "\"x\""), theme.syntax_string);
        let plain = Highlighter::direct().lines(CODE, 0, "rust", &Theme::plain());
        assert_eq!(style_of(&plain, "fn"), Style::new());
    }

    #[test]
    fn common_languages_are_known() {
        for (language, code, part) in [
            ("python", "def f():\n    return 'x'\n", "def"),
            ("ts", "const x: number = 1\n", "const"),
            ("tsx", "const x = 1\n", "const"),
            ("toml", "# note\n", "note"),
            ("shell", "# note\n", "note"),
            ("console", "# note\n", "note"),
            ("json", "{\"a\": true}\n", "true"),
            ("golang", "func f() {}\n", "func"),
            ("diff", "+new\n", "new"),
            ("c++", "int x = 1; // note\n", "note"),
        ] {
            let coloured = Highlighter::direct().lines(code, 0, language, &dark());
            assert_ne!(style_of(&coloured, part), Style::new(), "{language}");
        }
    }

    #[test]
    fn growing_code_has_the_colours_of_the_whole() {
        let code = format!("{CODE}/* over\nthree\nlines */ fn g() {{}}\n");
        let whole = Highlighter::direct().lines(&code, 0, "rs", &dark());
        let mut highlighter = Highlighter::direct();
        for end in 0..=code.len() {
            highlighter.lines(&code[..end], 0, "rs", &dark());
        }
        assert_eq!(highlighter.lines(&code, 0, "rs", &dark()), whole);
        let rest = highlighter.lines(&code, 5, "rs", &dark());
        assert_eq!(rest.lines, whole.lines[5..]);
    }

    #[test]
    fn unknown_languages_and_long_code_are_not_highlighted() {
        let long = format!("\"{}\"\nfn x() {{}}\n", "x".repeat(MAX_LINE_BYTES));
        let much = "fn x() {}\n".repeat(MAX_CODE_BYTES / 10 + 10);
        let mut highlighter = Highlighter::direct();
        for (code, language) in [(CODE, ""), (CODE, "klingon"), (CODE, "text")] {
            let coloured = highlighter.lines(code, 0, language, &dark());
            assert!(coloured.settled);
            assert!(coloured.lines.iter().all(|l| l.len() == 1), "{language}");
        }
        let coloured = highlighter.lines(&long, 0, "rust", &dark());
        assert_eq!(coloured.lines[0].len(), 1);
        assert_eq!(style_of(&coloured, "fn"), dark().syntax_keyword);
        assert_eq!(much[..capped(&much)].lines().count(), MAX_CODE_BYTES / 10);
    }

    #[test]
    fn a_thread_colours_what_is_plain_at_first() {
        let mut highlighter = Highlighter::background();
        let first = highlighter.lines(CODE, 0, "rust", &dark());
        assert!(!first.settled);
        assert_eq!(text(&first), CODE);
        let begun = std::time::Instant::now();
        while !highlighter.changed() {
            assert!(begun.elapsed().as_secs() < 60, "no colours came");
            std::thread::yield_now();
        }
        assert!(highlighter.lines(CODE, 0, "rust", &dark()).settled);
        assert!(!highlighter.changed());
        let direct = Highlighter::direct().lines(CODE, 0, "rust", &dark());
        assert_eq!(highlighter.lines(CODE, 0, "rust", &dark()), direct);
    }
}
