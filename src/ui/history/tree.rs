//! The way of one session as a tree: its ancestors' checkpoints, its own, and what branches
//! off, each under the checkpoint that it goes on from.
//!
//! Pieces come from the end: what is older is put before what is there, as it is scrolled to.

use super::preview::Preview;
use super::scroll::Scroll;
use super::{Branch, HistoryRequest, Piece, Point, What};
use crate::core::entry::Seq;
use crate::core::text::count;

/// Older entries are asked for when so many or fewer lines are left above the cursor.
const NEAR: usize = 30;

/// A deeper ancestry is not drawn deeper.
const MAX_DEPTH: usize = 4;

/// What the cursor can be on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// The checkpoint at this entry.
    Point(Seq),
    Branch {
        id: String,
        entries: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// The lines of the tree left of it.
    pub(super) branches: String,
    pub(super) what: Drawn,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Drawn {
    /// There is more above.
    Older,
    /// Here begins what this session did itself.
    Session(String),
    /// Index of the point.
    Said(usize),
    Checkpoint(usize),
    Branch {
        label: String,
        target: Target,
    },
}

/// Which part of a small screen is shown, and which part of a large one the keys scroll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Tree,
    Preview,
}

pub(super) struct Tree {
    pub(super) session: String,
    pub(super) title: String,
    pub(super) entries: u64,
    pub(super) points: Vec<Point>,
    pub(super) lines: Vec<Line>,
    pub(super) selected: usize,
    pub(super) scroll: Scroll,
    pub(super) side: Side,
    pub(super) preview: Preview,
    pub(super) is_known: bool,
    /// The nearest first.
    ancestors: Vec<Branch>,
    /// In the order of the entries that they go on from.
    forks: Vec<Branch>,
    first: Seq,
    number: u64,
    waiting: bool,
}

impl Tree {
    pub(super) fn new(session: &str, title: &str, number: u64) -> (Tree, HistoryRequest) {
        let tree = Tree {
            session: session.to_string(),
            title: title.to_string(),
            entries: 0,
            points: Vec::new(),
            lines: Vec::new(),
            selected: 0,
            scroll: Scroll::default(),
            side: Side::Tree,
            preview: Preview::default(),
            is_known: false,
            ancestors: Vec::new(),
            forks: Vec::new(),
            first: 0,
            number,
            waiting: true,
        };
        let ask = HistoryRequest::Checkpoints {
            number,
            session: session.to_string(),
            upto: None,
        };
        (tree, ask)
    }

    /// Older entries, when the cursor comes near the beginning of what is there.
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

    pub(super) fn receive(&mut self, piece: Piece) {
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

    pub(super) fn failed(&mut self, number: u64) {
        self.waiting &= number != self.number;
    }

    pub(super) fn target(&self) -> Option<Target> {
        match &self.lines.get(self.selected)?.what {
            Drawn::Checkpoint(at) => self.points.get(*at).map(|p| Target::Point(p.seq)),
            Drawn::Branch { target, .. } => Some(target.clone()),
            Drawn::Older | Drawn::Session(_) | Drawn::Said(_) => None,
        }
    }

    /// The session's last checkpoint, from which going on is going on with the session.
    pub(super) fn is_at_end(&self) -> bool {
        let last = self.points.iter().rev().find(|p| p.what.is_checkpoint());
        last.is_some_and(|p| self.target() == Some(Target::Point(p.seq)))
    }

    fn select(&mut self, kept: Option<Target>) {
        let at = |tree: &mut Tree, index: usize| {
            tree.selected = index;
            tree.target()
        };
        let last_point = (0..self.lines.len())
            .rev()
            .find(|i| matches!(self.lines[*i].what, Drawn::Checkpoint(_)));
        if let Some(kept) = kept {
            for index in 0..self.lines.len() {
                if at(self, index).as_ref() == Some(&kept) {
                    return;
                }
            }
        }
        self.selected = last_point.unwrap_or(0);
    }

    /// Moves over so many lines that the cursor can be on.
    pub(super) fn step(&mut self, by: isize) {
        let can = |line: &Line| matches!(line.what, Drawn::Checkpoint(_) | Drawn::Branch { .. });
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
        // What was said before a checkpoint is seen with it.
        let is_said = |i: &usize| matches!(self.lines[*i].what, Drawn::Said(_));
        let first = at.checked_sub(1).filter(is_said).unwrap_or(at);
        // And at the upper end, what stands above the first of all.
        let first = if self.first_target() == at { 0 } else { first };
        self.scroll.show(first, at, self.lines.len());
    }

    fn first_target(&self) -> usize {
        let can = |line: &Line| matches!(line.what, Drawn::Checkpoint(_) | Drawn::Branch { .. });
        self.lines.iter().position(can).unwrap_or(0)
    }

    fn lay(&mut self) {
        let mut lay = Lay::default();
        if self.first > 0 {
            lay.put("", Drawn::Older);
        }
        let mut from = 0;
        // From the root down to the session itself.
        for (depth, ancestor) in self.ancestors.iter().rev().enumerate() {
            let upto = self.points.partition_point(|p| p.seq <= ancestor.upto);
            lay.session(depth, &ancestor.title);
            self.lay_points(&mut lay, depth, from..upto, ancestor.upto, false);
            let more = ancestor.entries.saturating_sub(ancestor.upto + 1);
            if more > 0 {
                let more = count(more, "more entry");
                lay.branch(depth, "├─ ", &more, ancestor);
            }
            from = upto;
        }
        let depth = self.ancestors.len();
        lay.session(depth, &self.title);
        self.lay_points(&mut lay, depth, from..self.points.len(), Seq::MAX, true);
        self.lines = lay.lines;
    }

    /// A stretch of points of one session, with the forks that hang there.
    fn lay_points(
        &self,
        lay: &mut Lay,
        depth: usize,
        range: std::ops::Range<usize>,
        upto: Seq,
        is_last: bool,
    ) {
        let last = range
            .clone()
            .rev()
            .find(|i| self.points[*i].what.is_checkpoint());
        for at in range.clone() {
            let point = &self.points[at];
            let ends = is_last && Some(at) == last;
            match point.what {
                What::Said(_) => lay.put_at(depth, "│ ", Drawn::Said(at)),
                What::Checkpoint { .. } => {
                    lay.put_at(
                        depth,
                        if ends { "└─ " } else { "├─ " },
                        Drawn::Checkpoint(at),
                    );
                }
            }
            if !point.what.is_checkpoint() {
                continue;
            }
            // Until the next checkpoint everything hangs here.
            let next = (at + 1..range.end).find(|i| self.points[*i].what.is_checkpoint());
            let before = next.map_or(upto.saturating_add(1), |i| self.points[i].seq);
            // They are in the order of what they share.
            let from = self.forks.partition_point(|f| f.upto < point.seq);
            let to = self.forks.partition_point(|f| f.upto < before);
            let forks = self.forks.get(from..to).unwrap_or_default();
            for (i, fork) in forks.iter().enumerate() {
                let branches = match (ends, i + 1 == forks.len()) {
                    (true, true) => "   └─ ",
                    (true, false) => "   ├─ ",
                    (false, true) => "│  └─ ",
                    (false, false) => "│  ├─ ",
                };
                let own = fork.entries.saturating_sub(fork.upto + 1);
                let own = format!("{} of its own", count(own, "entry"));
                lay.branch(depth, branches, &own, fork);
            }
        }
    }
}

impl What {
    pub(super) fn is_checkpoint(&self) -> bool {
        matches!(self, What::Checkpoint { .. })
    }
}

#[derive(Default)]
struct Lay {
    lines: Vec<Line>,
}

impl Lay {
    fn put(&mut self, branches: &str, what: Drawn) {
        let branches = branches.to_string();
        self.lines.push(Line { branches, what });
    }

    fn put_at(&mut self, depth: usize, branches: &str, what: Drawn) {
        self.put(&format!("{}{branches}", indent(depth)), what);
    }

    fn session(&mut self, depth: usize, title: &str) {
        let what = Drawn::Session(title.to_string());
        match depth {
            0 => self.put("", what),
            _ => self.put_at(depth - 1, "└─ ", what),
        }
    }

    fn branch(&mut self, depth: usize, branches: &str, more: &str, branch: &Branch) {
        let drawn = Drawn::Branch {
            label: format!("{} · {more}", branch.title),
            target: Target::Branch {
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
