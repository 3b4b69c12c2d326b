//! The history of one session as a tree: requests and the work for them, in its ancestors and in
//! itself. Forks are shown below the point where they start.
//!
//! Parts are loaded from the end. Older ones are put before the loaded ones when the user scrolls
//! there.

use std::collections::HashMap;
use std::ops::Range;

use super::preview::Preview;
use super::scroll::Scroll;
use super::{
    Branch, CallResult, HistoryPart, HistoryRequest, LineKey, LineTrees, Point, TimelineItem,
};
use crate::core::entry::Seq;
use crate::core::text::count;
use crate::tools::Verb;

/// Older entries are requested when this number or fewer lines are left above the cursor.
const NEAR: usize = 30;

/// Maximum depth of ancestors that is shown by indentation.
const MAX_DEPTH: usize = 4;

/// A selectable item of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TreeTarget {
    /// The state of the session after this entry.
    Point(Seq),
    Branch {
        id: String,
        entries: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeLine {
    /// The lines of the tree to the left of the text.
    pub(super) branches: String,
    pub(super) what: HistoryRow,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HistoryRow {
    /// Older entries exist.
    Older,
    /// The heading above the part of one session.
    Session(String),
    /// Index of the point of a message.
    Said(usize),
    /// The points of work that is shown on one line.
    Work(Range<usize>),
    Ended(usize),
    Branch {
        label: String,
        target: TreeTarget,
    },
}

/// The part of a small screen that is shown, or the part of a large one that keys scroll.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Side {
    #[default]
    Tree,
    Preview,
}

#[derive(Default)]
pub(super) struct Tree {
    pub(super) session: String,
    pub(super) title: String,
    pub(super) entries: u64,
    pub(super) points: Vec<Point>,
    pub(super) lines: Vec<TreeLine>,
    pub(super) selected: usize,
    pub(super) scroll: Scroll,
    pub(super) side: Side,
    pub(super) preview: Preview,
    pub(super) is_known: bool,
    /// The ancestors, the nearest first.
    ancestors: Vec<Branch>,
    /// The forks, in the order of the entries from which they start.
    forks: Vec<Branch>,
    first: Seq,
    number: u64,
    waiting: bool,
    /// Changes of lines to the files, in short. Empty for those that are not known.
    changes: HashMap<LineKey, String>,
    /// Changes were requested and have not arrived yet.
    awaits_changes: bool,
}

impl Tree {
    pub(super) fn new(session: &str, title: &str, number: u64) -> (Tree, HistoryRequest) {
        let tree = Tree {
            session: session.to_string(),
            title: title.to_string(),
            number,
            waiting: true,
            ..Tree::default()
        };
        let ask = HistoryRequest::Checkpoints {
            number,
            session: session.to_string(),
            upto: None,
        };
        (tree, ask)
    }

    /// Returns a request for older entries when the cursor comes near the start of the loaded ones.
    pub(super) fn more(&mut self) -> Option<HistoryRequest> {
        if self.waiting || self.first == 0 || self.selected > NEAR {
            return None;
        }
        self.waiting = true;
        Some(HistoryRequest::Checkpoints {
            number: self.number,
            session: self.session.clone(),
            upto: Some(self.first - 1),
        })
    }

    pub(super) fn receive(&mut self, piece: HistoryPart) {
        let follows = !self.is_known || piece.first < self.first;
        if piece.number != self.number || piece.session != self.session || !follows {
            return;
        }
        self.waiting = false;
        self.first = piece.first;
        let kept = self.target();
        let mut points = piece.points;
        points.append(&mut self.points);
        self.points = points;
        if !self.is_known {
            self.is_known = true;
            self.title = piece.title;
            self.entries = piece.entries;
            self.ancestors = piece.ancestors;
            self.forks = piece.forks;
        }
        self.lay();
        self.select(kept);
    }

    /// Returns a request for the unknown changes of the lines on the screen.
    pub(super) fn ask_changes(&mut self) -> Option<HistoryRequest> {
        if self.awaits_changes {
            return None;
        }
        let seen = self.scroll.top..self.scroll.top + self.scroll.height;
        let lines: Vec<LineTrees> = seen
            .filter_map(|at| self.line_trees(at))
            .filter(|line| !self.changes.contains_key(&line.key))
            .collect();
        if lines.is_empty() {
            return None;
        }
        self.awaits_changes = true;
        Some(HistoryRequest::Changes {
            number: self.number,
            lines,
        })
    }

    pub(super) fn receive_changes(&mut self, number: u64, lines: Vec<(LineKey, String)>) {
        if number == self.number {
            self.awaits_changes = false;
            self.changes.extend(lines);
        }
    }

    /// Returns the changes of a line to the files, as far as they are known.
    pub(super) fn changed(&self, at: usize) -> Option<&str> {
        let text = self.changes.get(&self.line_key(at)?)?;
        (!text.is_empty()).then_some(text)
    }

    /// Returns the points that a line represents: for a request, all work done for it.
    fn points_of(&self, at: usize) -> Option<&[Point]> {
        match &self.lines.get(at)?.what {
            HistoryRow::Work(range) => self.points.get(range.clone()),
            HistoryRow::Said(said) => {
                let behind = self.points.get(said + 1..)?;
                let is_said = |point: &Point| matches!(point.item, TimelineItem::Said(_));
                let next = behind.iter().position(is_said).unwrap_or(behind.len());
                self.points.get(*said..said + 1 + next)
            }
            _ => None,
        }
    }

    fn line_key(&self, at: usize) -> Option<LineKey> {
        let points = self.points_of(at)?;
        Some((points.first()?.seq, points.last()?.seq))
    }

    /// Returns the trees of a line. `None`: nothing on the line changed files, or the trees are not
    /// known.
    fn line_trees(&self, at: usize) -> Option<LineTrees> {
        let key = self.line_key(at)?;
        let points = self.points_of(at)?.iter();
        let pairs: Vec<_> = points.filter_map(|point| point.trees.clone()).collect();
        (!pairs.is_empty()).then_some(LineTrees { key, pairs })
    }

    pub(super) fn failed(&mut self, number: u64) {
        self.waiting &= number != self.number;
    }

    pub(super) fn target(&self) -> Option<TreeTarget> {
        match &self.lines.get(self.selected)?.what {
            HistoryRow::Ended(at) => self.points.get(*at).map(|p| TreeTarget::Point(p.seq)),
            HistoryRow::Work(range) => {
                let last = self.points.get(range.clone())?.last();
                last.map(|p| TreeTarget::Point(p.seq))
            }
            HistoryRow::Branch { target, .. } => Some(target.clone()),
            HistoryRow::Older | HistoryRow::Session(_) | HistoryRow::Said(_) => None,
        }
    }

    /// Returns whether the last point is selected, so that continuing there continues the session.
    pub(super) fn is_at_end(&self) -> bool {
        let last = self.lines.iter().rposition(|line| line.what.is_point());
        last == Some(self.selected)
    }

    fn select(&mut self, kept: Option<TreeTarget>) {
        let at = |tree: &mut Tree, index: usize| {
            tree.selected = index;
            tree.target()
        };
        let last_point = (0..self.lines.len())
            .rev()
            .find(|i| self.lines[*i].what.is_point());
        if let Some(kept) = kept {
            for index in 0..self.lines.len() {
                if at(self, index).as_ref() == Some(&kept) {
                    return;
                }
            }
        }
        self.selected = last_point.unwrap_or(0);
    }

    /// Moves over `by` selectable lines.
    pub(super) fn step(&mut self, by: isize) {
        let can = |line: &TreeLine| line.what.can_be_chosen();
        let mut left = by.unsigned_abs();
        let mut at = self.selected;
        while left > 0 {
            let next = match by > 0 {
                true => (at + 1..self.lines.len()).find(|i| can(&self.lines[*i])),
                false => (0..at).rev().find(|i| can(&self.lines[*i])),
            };
            let Some(next) = next else { break };
            (at, left) = (next, left - 1);
        }
        self.selected = at;
    }

    pub(super) fn show_selected(&mut self, height: usize) {
        self.scroll.height = height;
        let at = self.selected;
        // The message before a checkpoint is shown with it.
        let is_said = |i: &usize| matches!(self.lines[*i].what, HistoryRow::Said(_));
        let first = at.checked_sub(1).filter(is_said).unwrap_or(at);
        // At the upper end, the lines above the first checkpoint are shown too.
        let first = if self.first_target() == at { 0 } else { first };
        self.scroll.show(first, at, self.lines.len());
    }

    fn first_target(&self) -> usize {
        let can = |line: &TreeLine| line.what.can_be_chosen();
        self.lines.iter().position(can).unwrap_or(0)
    }

    fn lay(&mut self) {
        let mut lay = TreeLayout::default();
        if self.first > 0 {
            lay.put("", HistoryRow::Older);
        }
        let mut from = 0;
        // From the root down to the session itself.
        for (depth, ancestor) in self.ancestors.iter().rev().enumerate() {
            let upto = self.points.partition_point(|p| p.seq <= ancestor.upto);
            lay.session(depth, &ancestor.title);
            self.lay_points(&mut lay, depth, from..upto, ancestor.upto);
            let more = ancestor.entries.saturating_sub(ancestor.upto + 1);
            if more > 0 {
                let more = count(more, "more entry");
                lay.branch(depth, "├─ ", &more, ancestor);
            }
            from = upto;
        }
        let depth = self.ancestors.len();
        // Without ancestors, the head of the screen has the title.
        if depth > 0 {
            lay.session(depth, &self.title);
        }
        self.lay_points(&mut lay, depth, from..self.points.len(), Seq::MAX);
        self.lines = lay.lines;
    }

    /// Adds the lines for points of one session, with the forks that start there.
    fn lay_points(&self, lay: &mut TreeLayout, depth: usize, range: Range<usize>, upto: Seq) {
        let mut at = range.start;
        while at < range.end {
            let end = self.together(at, range.end);
            let next = self.points.get(end).filter(|_| end < range.end);
            // The work for a request is listed below it.
            let is_last = next.is_none_or(|next| matches!(next.item, TimelineItem::Said(_)));
            let branch = if is_last { "  └ " } else { "  ├ " };
            match self.points[at].item {
                TimelineItem::Said(_) => lay.put_at(depth, "", HistoryRow::Said(at)),
                TimelineItem::Did { .. } => lay.put_at(depth, branch, HistoryRow::Work(at..end)),
                TimelineItem::Ended(_) => lay.put_at(depth, branch, HistoryRow::Ended(at)),
            }
            let before = next.map_or(upto.saturating_add(1), |next| next.seq);
            self.lay_forks(lay, depth, self.points[end - 1].seq..before, is_last);
            at = end;
        }
    }

    /// Returns the end of the points that share a line with this one.
    fn together(&self, at: usize, end: usize) -> usize {
        let mut parts = Parts::default();
        parts.add(&self.points[at].item);
        if parts.is_empty() {
            return at + 1;
        }
        let mut next = at + 1;
        while next < end {
            let (last, point) = (self.points[next - 1].seq, &self.points[next]);
            let fork = self.forks.partition_point(|f| f.upto < last);
            let hangs = self.forks.get(fork).is_some_and(|f| f.upto < point.seq);
            if hangs || !parts.add(&point.item) {
                break;
            }
            next += 1;
        }
        next
    }

    /// Adds the lines for the forks that start at the first of these entries or later, and before
    /// the last.
    fn lay_forks(&self, lay: &mut TreeLayout, depth: usize, seqs: Range<Seq>, is_last: bool) {
        // Forks are sorted by the last entry that they share.
        let from = self.forks.partition_point(|f| f.upto < seqs.start);
        let to = self.forks.partition_point(|f| f.upto < seqs.end);
        let forks = self.forks.get(from..to).unwrap_or_default();
        for (i, fork) in forks.iter().enumerate() {
            let branches = match (is_last, i + 1 == forks.len()) {
                (true, true) => "     └─ ",
                (true, false) => "     ├─ ",
                (false, true) => "  │  └─ ",
                (false, false) => "  │  ├─ ",
            };
            let own = fork.entries.saturating_sub(fork.upto + 1);
            let own = format!("{} of its own", count(own, "entry"));
            lay.branch(depth, branches, &own, fork);
        }
    }
}

impl HistoryRow {
    /// Returns whether the line is a checkpoint, from which a session can be resumed or forked.
    fn is_point(&self) -> bool {
        matches!(self, HistoryRow::Work(_) | HistoryRow::Ended(_))
    }

    fn can_be_chosen(&self) -> bool {
        self.is_point() || matches!(self, HistoryRow::Branch { .. })
    }
}

/// Maximum number of parts on one line.
const MAX_PARTS: usize = 3;

/// Work on one line: `3 read-only calls · ran cargo test ✗ · edited lexer.rs`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    parts: Vec<WorkPart>,
}

#[derive(Debug, PartialEq, Eq)]
struct WorkPart {
    words: String,
    times: usize,
    is_look: bool,
}

impl Parts {
    pub(super) fn of<'a>(points: impl Iterator<Item = &'a Point>) -> Parts {
        let mut parts = Parts::default();
        points.for_each(|point| {
            parts.add(&point.item);
        });
        parts
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds work to the line. Returns false when the line is full.
    fn add(&mut self, item: &TimelineItem) -> bool {
        let TimelineItem::Did {
            verb,
            subject,
            result,
        } = item
        else {
            return false;
        };
        let (is_look, words) = match (verb, result) {
            (Verb::Look, CallResult::Done) => (true, String::new()),
            (verb, CallResult::Done) => (false, format!("{} {subject}", verb.done())),
            (verb, CallResult::Failed) => (false, format!("{} {subject} ✗", verb.done())),
            (_, CallResult::Denied) => (false, format!("denied {subject}")),
            (verb, CallResult::Interrupted) => (false, format!("{} {subject} ◌", verb.done())),
            (_, CallResult::InBackground) => (false, format!("started {subject}")),
            (verb, CallResult::Running) => (false, format!("{} {subject} ◐", verb.doing())),
        };
        let is_full = self.parts.len() == MAX_PARTS;
        match self.parts.last_mut() {
            Some(last) if last.is_look == is_look && last.words == words => last.times += 1,
            _ if is_full => return false,
            _ => self.parts.push(WorkPart {
                words,
                times: 1,
                is_look,
            }),
        }
        true
    }

    pub(super) fn to_text(&self) -> String {
        let parts = self.parts.iter().map(|part| match part.times {
            times if part.is_look => count(times, "read-only call"),
            1 => part.words.clone(),
            times => format!("{} ×{times}", part.words),
        });
        parts.collect::<Vec<_>>().join(" · ")
    }
}

#[derive(Default)]
struct TreeLayout {
    lines: Vec<TreeLine>,
}

impl TreeLayout {
    fn put(&mut self, branches: &str, what: HistoryRow) {
        let branches = branches.to_string();
        self.lines.push(TreeLine { branches, what });
    }

    fn put_at(&mut self, depth: usize, branches: &str, what: HistoryRow) {
        self.put(&format!("{}{branches}", indent(depth)), what);
    }

    fn session(&mut self, depth: usize, title: &str) {
        let what = HistoryRow::Session(title.to_string());
        match depth {
            0 => self.put("", what),
            _ => self.put_at(depth - 1, "└─ ", what),
        }
    }

    fn branch(&mut self, depth: usize, branches: &str, more: &str, branch: &Branch) {
        let drawn = HistoryRow::Branch {
            label: format!("{} · {more}", branch.title),
            target: TreeTarget::Branch {
                id: branch.id.clone(),
                entries: branch.entries,
            },
        };
        self.put_at(depth, branches, drawn);
    }
}

fn indent(depth: usize) -> String {
    "   ".repeat(depth.min(MAX_DEPTH))
}
