//! `glob`: finds files by name.

use crate::core::text::count;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::file::{FolderEntry, Kind};
use super::limit::{Stop, Watch};
use super::paths::{self, ToolContext};
use super::schema::{object, string};
use super::shown::{ShownResult, Verb};
use super::tool::Tool;
use super::walk::{FRAME_BYTES, PathGlob, Walk, hints};
use super::work::Work;
use super::{ToolResult, printable};
use crate::core::permission::Permission;

const MAX_PATHS: usize = 1_000;

#[derive(Serialize, Deserialize)]
pub(super) struct Args {
    pattern: String,
    path: Option<String>,
}

impl Tool for Args {
    const NAME: &'static str = "glob";
    const TEXT: &'static str = include_str!("../../assets/tools/glob.md");
    const VERB: Verb = Verb::Look;
    const RESULT: ShownResult = ShownResult::LineCount;

    fn schema() -> Value {
        object(json!({"pattern": string(), "path": string()}), &["pattern"])
    }

    fn subject(&self) -> String {
        self.pattern.clone()
    }

    fn permission(&self) -> Permission {
        Permission::Glob {
            pattern: self.pattern.clone(),
            path: self.path.clone(),
        }
    }

    fn work(self) -> Work {
        Work::Look(Box::new(move |ctx, cancel| {
            glob(&self, ctx, cancel).unwrap_or_else(ToolResult::error)
        }))
    }
}

fn glob(args: &Args, ctx: &ToolContext, cancel: &AtomicBool) -> Result<ToolResult, String> {
    let (folder, rest) = split(&args.pattern);
    let named = start(&args.pattern, args.path.as_deref());
    let root = paths::resolve(&named, ctx)?;
    let place = FolderEntry::of(&root);
    let kind = place.and_then(|place| place.map_or(Ok(Kind::Missing), |place| place.kind()));
    match kind.map_err(|e| format!("cannot look into {named}: {e}"))? {
        Kind::Folder => {}
        Kind::Missing => return Err(paths::missing(&named, &root)),
        Kind::Regular(_) | Kind::Special(_) => return Err(format!("{named} is not a folder")),
    }
    let pattern = match folder {
        "" => PathGlob::new(rest)?,
        _ => PathGlob::on_paths(rest)?,
    };
    let with_dots = rest.split('/').any(|part| part.starts_with('.'));
    let mut found = Matches::new(ctx);
    let watch = Watch::new(ctx.limits, cancel);
    let mut walk = Walk::new(&root, with_dots, &ctx.hidden, &watch);
    let mut last = root.clone();
    for entry in walk.by_ref() {
        match entry {
            Err(_) => found.unreadable += 1,
            Ok(entry) => {
                let below = entry.path.strip_prefix(&root).unwrap_or(&entry.path);
                if !entry.of.is_dir() && pattern.is_match(below) {
                    found.add(&entry.path);
                }
                last = entry.path;
            }
        }
    }
    let stopped = walk.stopped();
    if stopped == Some(Stop::Cancelled) {
        return Ok(ToolResult::cancelled(found.text));
    }
    let last = paths::shown(&last, &found.folder);
    let mut hints = hints(stopped, &last, &walk.unused());
    if found.shown == 0 {
        let way = "name one in the pattern to search it";
        hints.insert_str(0, &walk.left_out().in_words(&found.folder, way));
    }
    Ok(ToolResult::done(found.report(&args.pattern) + &hints))
}

/// Returns the folder that is searched for a pattern below a path.
pub(super) fn start(pattern: &str, path: Option<&str>) -> String {
    let (folder, _) = split(pattern);
    let start = match path {
        // It may be quoted, and then nothing can be added.
        Some(path) if folder.is_empty() => return path.to_string(),
        Some(start) if !folder.starts_with("~/") => Path::new(start),
        _ if folder.is_empty() => Path::new("."),
        _ => Path::new(""),
    };
    start.join(folder).to_string_lossy().into_owned()
}

/// Splits a pattern into the folder that it names literally, and the rest: `../a/*.rs` is `../a/`
/// and `*.rs`.
fn split(pattern: &str) -> (&str, &str) {
    let magic = pattern
        .find(['*', '?', '[', '{', '\\'])
        .unwrap_or(pattern.len());
    let at = pattern[..magic].rfind('/').map_or(0, |slash| slash + 1);
    pattern.split_at(at)
}

#[derive(Default)]
struct Matches {
    folder: PathBuf,
    max_bytes: usize,
    text: String,
    shown: usize,
    more: usize,
    unreadable: usize,
}

impl Matches {
    fn new(ctx: &ToolContext) -> Matches {
        Matches {
            folder: paths::real_folder(ctx),
            max_bytes: ctx.inline_max_bytes.saturating_sub(FRAME_BYTES),
            ..Matches::default()
        }
    }

    fn add(&mut self, path: &Path) {
        let line = printable(&paths::shown(path, &self.folder));
        let is_full = self.more > 0
            || self.shown >= MAX_PATHS
            || self.text.len() + line.len() > self.max_bytes;
        if is_full {
            self.more += 1;
        } else {
            self.shown += 1;
            self.text.push_str(&line);
            self.text.push('\n');
        }
    }

    fn report(mut self, pattern: &str) -> String {
        if self.shown == 0 {
            self.text = format!("no file matches {pattern}\n");
        }
        if self.more > 0 {
            self.text.push_str(&format!(
                "[{}; {} more {}: narrow the pattern]\n",
                count(self.shown, "file"),
                self.more,
                if self.more == 1 { "matches" } else { "match" }
            ));
        }
        if self.unreadable > 0 {
            self.text.push_str(&format!(
                "[{} could not be read]\n",
                count(self.unreadable, "path")
            ));
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::super::Limits;
    use super::super::test_support::{ResultRoom, done, error};

    fn room() -> ResultRoom {
        let room = ResultRoom::new();
        for name in [
            "b.rs",
            "a/c.rs",
            "a/b/d.rs",
            "a/e.txt",
            ".hidden/f.rs",
            "out/g.rs",
        ] {
            room.put(name, "");
        }
        room.put(".gitignore", "/out\n");
        room
    }

    fn glob(room: &ResultRoom, pattern: &str) -> String {
        done(&room.idempotent("glob", json!({"pattern": pattern}))).to_string()
    }

    #[test]
    fn files_are_found_in_the_order_of_their_paths() {
        let room = room();
        assert_eq!(glob(&room, "**/*.rs"), "a/b/d.rs\na/c.rs\nb.rs\n");
        assert_eq!(glob(&room, "*.rs"), "a/b/d.rs\na/c.rs\nb.rs\n");
        assert_eq!(glob(&room, "a/*.rs"), "a/c.rs\n");
        assert_eq!(glob(&room, "./a/*.{rs,txt}"), "a/c.rs\na/e.txt\n");
        assert_eq!(glob(&room, "a/e.txt"), "a/e.txt\n");
        assert_eq!(glob(&room, "a/../b.rs"), "b.rs\n");
        let absolute = room.path("a/**/*.rs").to_str().unwrap().to_string();
        assert_eq!(glob(&room, &absolute), "a/b/d.rs\na/c.rs\n");
    }

    #[test]
    fn hidden_and_ignored_files_are_found_when_named() {
        let room = room();
        assert_eq!(glob(&room, ".hidden/*.rs"), ".hidden/f.rs\n");
        assert_eq!(glob(&room, "**/.hidden/*"), ".hidden/f.rs\n");
        assert_eq!(glob(&room, "out/*"), "out/g.rs\n");
    }

    #[test]
    fn glob_leaves_out_files_that_a_rule_hides() {
        let mut room = room();
        room.hide(&["Read(a/b/**)", "Read(*.txt)"]);
        assert_eq!(glob(&room, "**/*"), "a/c.rs\nb.rs\n");
        assert_eq!(glob(&room, "a/b/*").lines().count(), 1);
        assert!(glob(&room, "a/b/*").contains("no file matches"));
    }

    #[test]
    fn a_path_is_where_it_starts() {
        let room = room();
        let ran = room.idempotent("glob", json!({"pattern": "../b.rs", "path": "a"}));
        assert_eq!(done(&ran), "b.rs\n");
        let outside = tempfile::tempdir().unwrap();
        let file = outside.path().canonicalize().unwrap().join("x");
        std::fs::write(&file, "").unwrap();
        let ran = room.idempotent("glob", json!({"pattern": "x", "path": outside.path()}));
        assert_eq!(done(&ran), format!("{}\n", file.display()));
    }

    #[test]
    fn glob_reports_why_nothing_is_found() {
        let room = room();
        assert_eq!(
            glob(&room, "*.py"),
            "no file matches *.py\n\
             [not searched: ignored: out; hidden: .gitignore, .hidden; name one in the pattern to \
             search it]\n"
        );
        let refused = |pattern: &str| {
            error(&room.idempotent("glob", json!({"pattern": pattern}))).to_string()
        };
        assert!(refused("a[").contains("cannot be used"));
        assert!(refused("nowhere/*").contains("does not exist"));
        assert!(refused("b.rs/*").contains("not a folder"));
    }

    #[test]
    fn an_odd_name_is_one_line_and_can_be_searched_for() {
        let room = room();
        room.put("x\ny.md", "");
        room.put("~notes/z.md", "");
        assert_eq!(glob(&room, "*.md"), "\"x\\ny.md\"\n~notes/z.md\n");
        room.put("o\nd/x.rs", "");
        let ran = room.idempotent("glob", json!({"pattern": "*.rs", "path": "\"o\\nd\""}));
        assert_eq!(done(&ran), "\"o\\nd/x.rs\"\n");
        assert_eq!(glob(&room, "~notes/*.md"), "~notes/z.md\n");
        let ran = room.idempotent("glob", json!({"pattern": "~notes/*.md", "path": "."}));
        assert_eq!(done(&ran), "~notes/z.md\n");
    }

    #[test]
    fn a_search_that_is_stopped_says_where() {
        let mut room = room();
        room.ctx.limits.paths = 3;
        assert_eq!(
            glob(&room, "*.rs"),
            "no file matches *.rs\n\
             [stopped after 3 paths, at .: what comes after it was not searched; name a folder \
             below as path, or a narrower pattern or glob]\n"
        );
        // The four paths at the top and the three in `a`, not those in `a/b`.
        room.ctx.limits.paths = 8;
        let text = glob(&room, "*.{rs,txt}");
        assert!(text.contains("[stopped after 8 paths, at a"), "{text}");
        room.ctx.limits = Limits {
            time: Duration::ZERO,
            ..Limits::TOOL
        };
        let text = glob(&room, "*.rs");
        assert!(text.contains("[stopped after 0 s, at .:"), "{text}");
    }

    #[test]
    fn a_pattern_without_end_is_refused() {
        let ran = room().idempotent("glob", json!({"pattern": "[a]".repeat(2_000)}));
        assert!(error(&ran).contains("over 4096 bytes"));
    }

    #[test]
    fn many_files_are_counted() {
        let room = ResultRoom::new();
        for n in 0..1_010 {
            room.put(&format!("{n:04}"), "");
        }
        let text = glob(&room, "*");
        assert!(
            text.ends_with("0999\n[1000 files; 10 more match: narrow the pattern]\n"),
            "{text}"
        );
    }
}
