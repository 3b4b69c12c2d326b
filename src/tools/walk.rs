//! The files of a folder as a developer sees them: what `.gitignore` and `.ignore` leave
//! out is left out, inside a repository and outside one; and so is what the user's rules hide.
//!
//! Invariant: the order is that of the names, so the same tree gives the same output. The
//! user's global gitignore is not read: it would make results depend on the environment.

use std::path::Path;
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use ignore::{Walk, WalkBuilder};

use super::place::Hidden;

/// Links are not followed. The folder itself may be hidden or ignored: it was named.
pub fn walk(folder: &Path, with_dots: bool, hidden: &Arc<Hidden>) -> Walk {
    let hidden = Arc::clone(hidden);
    WalkBuilder::new(folder)
        .hidden(!with_dots)
        .require_git(false)
        .git_global(false)
        .follow_links(false)
        // What git itself keeps is never what is looked for.
        .filter_entry(move |entry| {
            entry.depth() == 0 || (entry.file_name() != ".git" && !hidden.hides(entry.path()))
        })
        .sort_by_file_name(|a, b| a.cmp(b))
        .build()
}

/// A glob on paths below a folder. One without a slash is about the name alone, as in
/// `.gitignore`.
pub struct PathGlob {
    matcher: GlobMatcher,
    by_name: bool,
}

impl PathGlob {
    pub fn new(pattern: &str) -> Result<PathGlob, String> {
        Ok(PathGlob {
            by_name: !pattern.contains('/'),
            ..PathGlob::on_paths(pattern)?
        })
    }

    /// About the path also without a slash.
    pub fn on_paths(pattern: &str) -> Result<PathGlob, String> {
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|e| format!("the glob {pattern:?} cannot be used: {}", e.kind()))?;
        Ok(PathGlob {
            matcher: glob.compile_matcher(),
            by_name: false,
        })
    }

    /// `path` is relative to the folder.
    pub fn is_match(&self, path: &Path) -> bool {
        match (self.by_name, path.file_name()) {
            (true, Some(name)) => self.matcher.is_match(name),
            _ => self.matcher.is_match(path),
        }
    }
}
