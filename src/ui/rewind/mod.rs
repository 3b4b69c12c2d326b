//! The changes that a restore of files would make, shown path by path before it is done.
//!
//! [`RewindPane`] is a value: keys go in, requests come out. The engine makes the plan, and the
//! engine's thread reads its preview. The choices of a person for paths are stored here and go with
//! the request. Before the restore the engine plans again: if the result differs from the preview,
//! it is shown again.
//!
//! Invariant: nothing is restored without a separate key, pressed while the list is seen.

mod draw;
mod keys;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::core::entry::KeptWhy;
use crate::core::rewind::PathChoice;
use crate::core::tree::PathBytes;
use crate::engine::{AfterPlan, Back, Rewinding};
use crate::session::{PathBecomes, RewindPreview, RewindRow, RewindSection, RewindSums};

pub use draw::draw;

/// The kind of a rewind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewindWhat {
    /// The files, in this session.
    Files,
    /// The files, in a copy of the session from before the message.
    Both,
    /// Undoes the last rewind.
    Redo,
}

/// A request to the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewindRequest {
    pub number: u64,
    pub back: Back,
    /// Restores all covered files, also those that the session did not change.
    pub whole: bool,
    pub chosen: BTreeMap<PathBytes, PathChoice>,
    /// Paths that need a separate confirmation, and have it.
    pub allowed: BTreeSet<PathBytes>,
    pub then: AfterPlan,
}

/// A plan and its preview for a person.
#[derive(Debug, Clone)]
pub struct RewindShown {
    pub preview: RewindPreview,
    pub rewinding: Arc<Rewinding>,
    /// It differs from the plan that the person confirmed.
    pub is_other: bool,
}

/// The result of a key.
#[derive(Debug)]
pub enum RewindDid {
    Nothing,
    Closed,
    /// The engine must plan or restore.
    Plan(RewindRequest),
    /// The lines of this path must be read.
    Diff {
        rewinding: Arc<Rewinding>,
        path: PathBytes,
        choice: Option<PathChoice>,
    },
}

/// A line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    Warning(String),
    Heading(RewindSection, usize),
    /// A row of the preview.
    Row(usize),
    /// A fact about every rewind.
    Always(&'static str),
    Blank,
}

/// The lines of one path.
#[derive(Debug)]
struct Diff {
    path: PathBytes,
    name: String,
    /// `None`: they are being read.
    lines: Option<Vec<String>>,
    top: usize,
}

/// The list, and where a person is in it.
#[derive(Debug)]
pub struct RewindPane {
    pub number: u64,
    pub what: RewindWhat,
    pub back: Back,
    /// The message before which to rewind; empty for a redo.
    pub words: String,
    whole: bool,
    chosen: BTreeMap<PathBytes, PathChoice>,
    allowed: BTreeSet<PathBytes>,
    /// `None`: it is being planned.
    shown: Option<RewindShown>,
    items: Vec<Item>,
    at: usize,
    top: usize,
    /// Rows of the list that were last drawn.
    rows: usize,
    /// The list was on the screen, so that a key can be an answer to it.
    is_seen: bool,
    /// Enter restores: `y` was typed last.
    pub is_yes: bool,
    note: Option<String>,
    diff: Option<Diff>,
}

impl RewindPane {
    /// Makes a pane without its list, and the request for it.
    pub fn new(
        number: u64,
        what: RewindWhat,
        back: Back,
        words: String,
    ) -> (RewindPane, RewindRequest) {
        let pane = RewindPane {
            number,
            what,
            back,
            words,
            whole: false,
            chosen: BTreeMap::new(),
            allowed: BTreeSet::new(),
            shown: None,
            items: Vec::new(),
            at: 0,
            top: 0,
            rows: 10,
            is_seen: false,
            is_yes: false,
            note: None,
            diff: None,
        };
        let request = pane.request(AfterPlan::Show);
        (pane, request)
    }

    fn request(&self, then: AfterPlan) -> RewindRequest {
        RewindRequest {
            number: self.number,
            back: self.back,
            whole: self.whole,
            chosen: self.chosen.clone(),
            allowed: self.allowed.clone(),
            then,
        }
    }

    /// Takes the finished plan.
    pub fn receive(&mut self, shown: RewindShown) {
        self.note = shown.is_other.then(|| {
            "the files changed meanwhile, so nothing was done: this is the list as it is now"
                .to_string()
        });
        self.items = items(&shown.preview);
        self.shown = Some(shown);
        self.diff = None;
        self.is_seen = false;
        self.is_yes = false;
        self.top = 0;
        self.at = 0;
        self.step(false, 0);
    }

    /// Takes the lines of a path, or the reason why they cannot be read.
    pub fn receive_diff(&mut self, path: &[u8], text: Result<String, String>) {
        if let Some(diff) = self.diff.as_mut().filter(|diff| diff.path == path) {
            let text = text.unwrap_or_else(|why| format!("cannot be shown: {why}"));
            diff.lines = Some(text.lines().map(str::to_string).collect());
        }
    }

    /// Notes that the pane was on the screen.
    pub fn drawn(&mut self) {
        self.is_seen = self.shown.is_some();
    }

    /// Returns whether the list is shown, and a key may be an answer to it.
    pub fn asks(&self) -> bool {
        self.shown.is_some() && self.diff.is_none()
    }

    /// Returns whether `y` selects the restore.
    pub fn may_confirm(&self) -> bool {
        self.asks() && self.is_seen
    }

    /// Returns whether the lines of a path are shown over the list.
    pub fn shows_diff(&self) -> bool {
        self.diff.is_some()
    }

    fn preview(&self) -> Option<&RewindPreview> {
        self.shown.as_ref().map(|shown| &shown.preview)
    }

    /// Returns the row of the cursor.
    fn row(&self) -> Option<&RewindRow> {
        match self.items.get(self.at)? {
            Item::Row(row) => self.preview()?.rows.get(*row),
            _ => None,
        }
    }

    fn choice(&self, row: &RewindRow) -> Option<PathChoice> {
        self.chosen.get(&row.path).copied()
    }

    fn sums(&self) -> RewindSums {
        let mut sums = RewindSums::default();
        for row in self.preview().map_or(&[][..], |p| &p.rows) {
            match row.becomes(self.choice(row)) {
                Ok(change) if change.what == PathBecomes::Removed => sums.removed += 1,
                Ok(_) => sums.written += 1,
                Err(_) => sums.stay += 1,
            }
        }
        sums
    }

    /// Moves the cursor over `by` rows with a path; with 0, to the next one if it is on none.
    fn step(&mut self, up: bool, by: usize) {
        let is_row = |at: &usize| matches!(self.items.get(*at), Some(Item::Row(_)));
        let mut at = self.at;
        if !is_row(&at) {
            at = (at..self.items.len()).find(is_row).unwrap_or(at);
        }
        for _ in 0..by {
            let next = match up {
                true => (0..at).rev().find(is_row),
                false => (at + 1..self.items.len()).find(is_row),
            };
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        self.at = at;
        // The warnings are above the first path.
        if (0..at).rev().find(is_row).is_none() {
            self.top = 0;
        }
        self.scroll_into_view();
    }

    fn scroll_into_view(&mut self) {
        let rows = self.rows.max(1);
        let last_row = self.items.iter().rposition(|i| matches!(i, Item::Row(_)));
        // The notes after the last path are shown with it.
        let end = match last_row == Some(self.at) {
            true => self.items.len().saturating_sub(1).min(self.at + rows - 1),
            false => self.at,
        };
        self.top = self.top.min(self.at).max((end + 1).saturating_sub(rows));
    }

    fn has_rows(&self) -> bool {
        self.preview()
            .is_some_and(|preview| !preview.rows.is_empty())
    }

    /// Returns whether a yes changes a file, makes a copy, or leads back to the original of this
    /// copy.
    fn does_something(&self) -> bool {
        let sums = self.sums();
        let leads_back = self
            .shown
            .as_ref()
            .is_some_and(|shown| shown.rewinding.copy_of.is_some());
        sums.written + sums.removed > 0
            || match self.what {
                RewindWhat::Files => false,
                RewindWhat::Both => true,
                RewindWhat::Redo => leads_back,
            }
    }

    fn take(&mut self) {
        let Some(row) = self.row().cloned() else {
            return;
        };
        if row.taken.is_none() {
            let why = row.planned.err().unwrap_or(KeptWhy::Entered);
            self.note = Some(format!("it stays whatever is chosen: {}", why.words()));
            return;
        }
        if self.chosen.get(&row.path) == Some(&PathChoice::Take) {
            self.forget(&row.path);
            return;
        }
        if matches!(row.planned, Err(KeptWhy::Protected | KeptWhy::Outside)) {
            self.allowed.insert(row.path.clone());
        }
        self.chosen.insert(row.path, PathChoice::Take);
    }

    fn keep(&mut self) {
        let Some(path) = self.row().map(|row| row.path.clone()) else {
            return;
        };
        match self.chosen.get(&path) {
            Some(PathChoice::Keep) => self.forget(&path),
            _ => {
                self.allowed.remove(&path);
                self.chosen.insert(path, PathChoice::Keep);
            }
        }
    }

    fn forget(&mut self, path: &[u8]) {
        self.chosen.remove(path);
        self.allowed.remove(path);
    }
}

/// Lists the warnings, the paths section by section, and the things that are never restored.
fn items(preview: &RewindPreview) -> Vec<Item> {
    let mut items: Vec<Item> = preview
        .warnings
        .iter()
        .map(|warning| Item::Warning(warning.clone()))
        .collect();
    let mut last = None;
    for (at, row) in preview.rows.iter().enumerate() {
        if last != Some(row.section) {
            last = Some(row.section);
            let of = preview.rows.iter().filter(|r| r.section == row.section);
            if !items.is_empty() {
                items.push(Item::Blank);
            }
            items.push(Item::Heading(row.section, of.count()));
        }
        items.push(Item::Row(at));
    }
    if preview.rows.is_empty() {
        items.push(Item::Always("No file differs from what it was."));
    }
    items.push(Item::Blank);
    items.push(Item::Always(crate::session::NEVER_SET_BACK));
    items
}
