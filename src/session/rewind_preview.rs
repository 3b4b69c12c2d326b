//! The preview of a rewind of files: the changes and the limits, path by path. The screen and
//! `rewake rewind --preview` show the same.

use std::collections::BTreeSet;
use std::time::Instant;

use super::file_change::COUNTED_FOR;
use super::{FileChange, SessionList, short_id};
use crate::core::entry::KeptWhy;
use crate::core::file_name::path_text;
use crate::core::rewind::PathChoice;
use crate::core::text::{large_count, one_line};
use crate::core::tree::{Item, PathBytes};
use crate::core::visible::figure;
use crate::engine::Rewinding;
use crate::store::{SessionFilter, Store, StoreError};
use crate::workspace::head_moved_since;

/// Maximum number of paths whose changed lines are counted. For more paths, only the kind of change
/// is shown.
const MAX_COUNTED: usize = 2_000;

/// Maximum number of sessions of the workspace that are checked.
const MAX_SESSIONS: u32 = 50;

/// Maximum number of characters of a command or commit.
const MAX_NAME: usize = 60;

/// The changes of a rewind, and the paths that it leaves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RewindPreview {
    /// Rows, by section and path.
    pub rows: Vec<RewindRow>,
    /// Warnings for a person: HEAD moved, running commands, other sessions.
    pub warnings: Vec<String>,
}

/// Text about the files and changes that are never restored.
pub const NEVER_SET_BACK: &str =
    "Never restored: commits, ignored files, secrets, files that are too big";

/// A path that differs from its earlier state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewindRow {
    pub path: PathBytes,
    /// The path for a person, on one line.
    pub name: String,
    pub section: RewindSection,
    /// Its change by the plan, or why it stays.
    pub planned: Result<PathChange, KeptWhy>,
    /// Its change if a person chooses to restore it. `None`: it stays in any case.
    pub taken: Option<PathChange>,
}

/// The section of a path in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RewindSection {
    /// Changed by calls of the model.
    Calls,
    /// Changed while a command ran.
    Commands,
    /// Appeared while a command ran: it stays, unless a person chooses to remove it.
    Appeared,
    /// Needs a separate approval.
    Asked,
    /// Changed outside of rewake.
    Outside,
    /// Stays for another reason.
    Stays,
}

impl RewindSection {
    /// Returns its heading.
    pub fn title(self) -> &'static str {
        match self {
            RewindSection::Calls => "Changed by the model",
            RewindSection::Commands => "Changed while a command ran",
            RewindSection::Appeared => "Appeared while a command ran",
            RewindSection::Asked => "Protected, or outside of the workspace",
            RewindSection::Outside => "Changed outside of rewake",
            RewindSection::Stays => "Cannot be restored for certain",
        }
    }
}

/// The change of a path by a rewind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathChange {
    pub what: PathBecomes,
    /// `+12 −3`. Empty if it was not counted.
    pub figures: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathBecomes {
    /// It was created since then, and is removed.
    Removed,
    /// It was deleted since then, and comes back.
    Back,
    /// It gets its earlier content.
    Written,
    /// It gets its earlier content, merged with the changes of others.
    Merged,
    /// It is a path beside another one. It gets the version that others made of that path, which
    /// cannot be merged into it.
    Beside,
}

impl PathBecomes {
    /// Returns the change in words. Empty for a plain restore.
    pub fn words(self) -> &'static str {
        match self {
            PathBecomes::Removed => "created → removed",
            PathBecomes::Back => "deleted → back",
            PathBecomes::Written => "",
            PathBecomes::Merged => "with the changes of others",
            PathBecomes::Beside => "the version of others, which does not fit in",
        }
    }
}

impl PathChange {
    /// Returns the figures and the words: `+0 −3 created → removed`.
    pub fn text(&self) -> String {
        let words = self.what.words();
        let gap = match self.figures.is_empty() || words.is_empty() {
            true => "",
            false => "  ",
        };
        format!("{}{gap}{words}", self.figures)
    }
}

impl RewindRow {
    /// Returns whether a person may choose to remove it: it appeared while a command ran, and is
    /// unchanged since.
    pub fn may_be_removed(&self) -> bool {
        let taken = self.taken.as_ref();
        self.planned == Err(KeptWhy::Command)
            && taken.is_some_and(|taken| taken.what == PathBecomes::Removed)
    }

    /// Returns its change with this choice, or why it stays.
    pub fn becomes(&self, choice: Option<PathChoice>) -> Result<&PathChange, KeptWhy> {
        match (choice, &self.planned, &self.taken) {
            (Some(PathChoice::Keep), ..) => Err(KeptWhy::Chosen),
            (Some(PathChoice::Take), _, Some(taken)) => Ok(taken),
            (_, planned, _) => planned.as_ref().map_err(|why| *why),
        }
    }
}

impl SessionList {
    /// Returns the preview of a plan for the session `id`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn rewind_preview(
        &self,
        store: &Store,
        id: &str,
        rewinding: &Rewinding,
    ) -> Result<RewindPreview, StoreError> {
        Ok(RewindPreview {
            rows: rows(store, rewinding)?,
            warnings: self.rewind_warnings(store, id, rewinding)?,
        })
    }

    fn rewind_warnings(
        &self,
        store: &Store,
        id: &str,
        rewinding: &Rewinding,
    ) -> Result<Vec<String>, StoreError> {
        let mut warnings = Vec::new();
        let info = store.history().find(id)?;
        let root = std::path::Path::new(&info.workspace);
        if let Some(moved) = head_moved_since(root, rewinding.then_ms) {
            let times = match moved.times {
                1 => "once".to_string(),
                times => format!("{times} times"),
            };
            warnings.push(format!(
                "commits stay: HEAD moved {times} since (last: {})",
                one_line(&moved.last, MAX_NAME)
            ));
        }
        for command in &rewinding.running {
            warnings.push(format!(
                "a command runs and may write meanwhile: {}",
                one_line(command, MAX_NAME)
            ));
        }
        let filter = SessionFilter {
            children: true,
            ..SessionFilter::of(&info.workspace)
        };
        let sessions = store.history().sessions(filter, MAX_SESSIONS)?;
        let others = sessions.iter().filter(|other| other.id != info.id);
        let open: Vec<&str> = others
            .filter(|other| self.is_in_use(&other.id))
            .map(|other| short_id(&other.id))
            .collect();
        if !open.is_empty() {
            warnings.push(format!(
                "{} open in this folder: {}; what is set back is set back under them",
                match open.len() {
                    1 => "another session is".to_string(),
                    n => format!("{n} other sessions are"),
                },
                open.join(", ")
            ));
        }
        Ok(warnings)
    }
}

/// Returns the change of one path as a diff.
///
/// # Errors
/// The store cannot be read.
pub fn rewind_diff(
    store: &Store,
    rewinding: &Rewinding,
    path: &[u8],
    choice: Option<PathChoice>,
) -> Result<String, StoreError> {
    let tree = match choice {
        Some(PathChoice::Take | PathChoice::Keep) => &rewinding.then,
        None if rewinding.plan.kept.contains_key(path) => &rewinding.then,
        None => &rewinding.plan.target,
    };
    let (now, to) = (rewinding.now.0.get(path), tree.0.get(path));
    Ok(FileChange::of(store, now, to)?.unified(&path_text(path)))
}

fn rows(store: &Store, rewinding: &Rewinding) -> Result<Vec<RewindRow>, StoreError> {
    let Rewinding {
        plan, then, now, ..
    } = rewinding;
    let differs = |path: &&PathBytes| now.0.get(*path) != plan.target.0.get(*path);
    let written = now.0.keys().chain(plan.target.0.keys()).filter(differs);
    let paths: BTreeSet<&PathBytes> = written.chain(plan.kept.keys()).collect();
    let began = Instant::now();
    let is_many = paths.len() > MAX_COUNTED;
    let change = |to: Option<&Item>, path: &PathBytes, is_merged| {
        let from = now.0.get(path);
        let what = match (from, to) {
            (_, None) => PathBecomes::Removed,
            _ if plan.beside.contains(path) => PathBecomes::Beside,
            (None, Some(_)) => PathBecomes::Back,
            _ if is_merged => PathBecomes::Merged,
            _ => PathBecomes::Written,
        };
        let figures = match is_many || began.elapsed() > COUNTED_FOR {
            false => FileChange::of(store, from, to)?.figures(),
            true => String::new(),
        };
        Ok::<PathChange, StoreError>(PathChange { what, figures })
    };
    let mut rows = Vec::new();
    for path in paths {
        let is_merged = plan.merged.contains(path);
        let planned = match plan.kept.get(path) {
            Some(why) => Err(*why),
            None => Ok(change(plan.target.0.get(path), path, is_merged)?),
        };
        let taken = match (&planned, plan.fixed.contains(path)) {
            (_, true) => None,
            (Ok(planned), _) if !is_merged => Some(planned.clone()),
            _ => Some(change(then.0.get(path), path, false)?),
        };
        rows.push(RewindRow {
            path: path.clone(),
            name: path_text(path),
            section: section(&planned, plan.of_commands.contains(path)),
            planned,
            taken,
        });
    }
    rows.sort_by_key(|row| row.section);
    Ok(rows)
}

fn section(planned: &Result<PathChange, KeptWhy>, is_of_command: bool) -> RewindSection {
    match planned {
        Ok(_) if is_of_command => RewindSection::Commands,
        Ok(_) => RewindSection::Calls,
        Err(KeptWhy::Command) => RewindSection::Appeared,
        Err(KeptWhy::Protected | KeptWhy::Outside) => RewindSection::Asked,
        Err(KeptWhy::Yours) => RewindSection::Outside,
        Err(_) => RewindSection::Stays,
    }
}

/// The numbers of files that are written, removed and left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RewindSums {
    pub written: usize,
    pub removed: usize,
    pub stay: usize,
}

impl RewindSums {
    /// Returns a text such as `restores 3 files, removes 1, keeps 2`.
    pub fn text(self) -> String {
        let RewindSums {
            written,
            removed,
            stay,
        } = self;
        let sums = [("restores", written), ("removes", removed), ("keeps", stay)];
        let mut parts = Vec::new();
        for (does, files) in sums.into_iter().filter(|(_, files)| *files > 0) {
            // Only the first number names the unit.
            parts.push(match parts.is_empty() {
                true => format!("{does} {}", large_count(files, "file")),
                false => format!("{does} {}", figure(files)),
            });
        }
        match parts.is_empty() {
            true => "no file would change".to_string(),
            false => parts.join(", "),
        }
    }
}
