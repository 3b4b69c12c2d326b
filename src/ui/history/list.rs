//! The list of sessions: the rows that are loaded, and their arrangement on lines.
//!
//! Invariant: a page is either the beginning of the list or follows the loaded rows.

use jiff::tz::TimeZone;

use super::input::LineInput;
use super::scroll::Scroll;
use super::{About, HistoryRequest, Page, Row};

/// More rows are requested when this number or fewer are left below the cursor.
const NEAR: usize = 60;

/// A line of the screen, made from the row with this index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListLine {
    Folder(usize),
    /// A blank line above another folder.
    Space(usize),
    Session(usize),
    /// Details of the chosen session.
    Details(usize),
    Snippet(usize),
}

pub(super) struct List {
    pub(super) query: LineInput,
    pub(super) in_trash: bool,
    pub(super) rows: Vec<Row>,
    pub(super) total: usize,
    /// Rows of the workspace that the list was opened in.
    pub(super) here: usize,
    pub(super) zone: TimeZone,
    pub(super) lines: Vec<ListLine>,
    pub(super) selected: usize,
    pub(super) scroll: Scroll,
    /// The list that is waited for or shown.
    number: u64,
    waiting: bool,
    /// At least one answer has arrived.
    pub(super) is_known: bool,
    /// Details of the session with this id; empty before the answer arrives.
    about: Option<(String, About)>,
}

impl List {
    pub(super) fn new() -> List {
        List {
            query: LineInput::default(),
            in_trash: false,
            rows: Vec::new(),
            total: 0,
            here: 0,
            zone: TimeZone::UTC,
            lines: Vec::new(),
            selected: 0,
            scroll: Scroll::default(),
            number: 0,
            waiting: false,
            is_known: false,
            about: None,
        }
    }

    pub(super) fn ask(&mut self, number: u64) -> HistoryRequest {
        self.number = number;
        self.waiting = true;
        HistoryRequest::Sessions {
            number,
            query: self.query.text().trim().to_string(),
            in_trash: self.in_trash,
        }
    }

    /// Returns a request for more rows, when the cursor comes near the end of the loaded ones.
    pub(super) fn more(&mut self) -> Option<HistoryRequest> {
        let from = self.rows.len();
        if self.waiting || from >= self.total || self.selected + NEAR < from {
            return None;
        }
        self.waiting = true;
        let number = self.number;
        Some(HistoryRequest::More { number, from })
    }

    /// Returns the request that the cursor needs: more rows, or else details of the chosen session.
    pub(super) fn look(&mut self) -> Option<HistoryRequest> {
        if let Some(more) = self.more() {
            return Some(more);
        }
        let id = self.row()?.id.clone();
        if self.about.as_ref().is_some_and(|(of, _)| *of == id) {
            return None;
        }
        self.about = Some((id.clone(), About::default()));
        Some(HistoryRequest::About { id })
    }

    pub(super) fn learned(&mut self, id: &str, about: About) {
        if let Some((_, known)) = self.about.as_mut().filter(|(of, _)| of == id) {
            *known = about;
        }
    }

    /// Returns details of the chosen session.
    pub(super) fn about(&self) -> Option<&About> {
        let id = &self.row()?.id;
        let about = self.about.as_ref().filter(|(of, _)| of == id);
        about.map(|(_, about)| about)
    }

    pub(super) fn receive(&mut self, page: Page) {
        if page.number != self.number {
            return;
        }
        let kept = self.row().map(|row| row.id.clone());
        if page.from == 0 {
            self.about = None;
        }
        match page.from {
            0 => self.rows = page.rows,
            from if from == self.rows.len() => self.rows.extend(page.rows),
            _ => return,
        }
        self.waiting = false;
        self.is_known = true;
        self.here = page.here;
        self.zone = page.zone;
        // Sessions that went away meanwhile are not waited for.
        self.total = match self.rows.len() {
            there if there == page.from => there,
            _ => page.total,
        };
        if page.from == 0 {
            let again = kept.and_then(|id| self.rows.iter().position(|row| row.id == id));
            self.selected = again.unwrap_or(0);
        }
        self.lay();
    }

    pub(super) fn failed(&mut self, number: u64) {
        self.waiting &= number != self.number;
    }

    /// Removes a session and its subagents, which are listed below it.
    pub(super) fn remove(&mut self, id: &str, here: &str) {
        let before = self.rows.len();
        let goes = |row: &Row| row.id == id || row.parent.as_deref() == Some(id);
        let of_here = self
            .rows
            .iter()
            .filter(|row| goes(row) && row.workspace == here);
        self.here = self.here.saturating_sub(of_here.count());
        self.rows.retain(|row| !goes(row));
        self.total = self.total.saturating_sub(before - self.rows.len());
        self.selected = self.selected.min(self.rows.len().saturating_sub(1));
        self.lay();
    }

    pub(super) fn rename(&mut self, id: &str, title: &str) {
        for row in self.rows.iter_mut().filter(|row| row.id == id) {
            row.title = title.to_string();
        }
    }

    pub(super) fn row(&self) -> Option<&Row> {
        self.rows.get(self.selected)
    }

    pub(super) fn step(&mut self, by: isize) {
        let last = self.rows.len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(by).min(last);
        self.lay();
    }

    /// Rows on a screen, about.
    pub(super) fn screenful(&self) -> isize {
        isize::try_from(self.scroll.height.saturating_sub(2).max(1)).unwrap_or(1)
    }

    fn lay(&mut self) {
        self.lines.clear();
        for (at, row) in self.rows.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|before| self.rows.get(before));
            let same_folder = before.is_some_and(|b| b.workspace == row.workspace);
            if !same_folder {
                if before.is_some() {
                    self.lines.push(ListLine::Space(at));
                }
                self.lines.push(ListLine::Folder(at));
            }
            self.lines.push(ListLine::Session(at));
            if at == self.selected {
                self.lines.push(ListLine::Details(at));
            }
            if row.snippet.is_some() {
                self.lines.push(ListLine::Snippet(at));
            }
        }
    }

    /// Scrolls to the cursor: with the headings above it, as far as they fit.
    pub(super) fn show_selected(&mut self, height: usize) {
        self.scroll.height = height;
        let at = self.selected;
        let of_row = |line: &ListLine| {
            let (ListLine::Space(row)
            | ListLine::Folder(row)
            | ListLine::Session(row)
            | ListLine::Details(row)
            | ListLine::Snippet(row)) = line;
            *row
        };
        // Lines are in the order of rows.
        let first = self.lines.partition_point(|line| of_row(line) < at);
        let end = self.lines.partition_point(|line| of_row(line) <= at);
        let last = end.saturating_sub(1).max(first);
        self.scroll.show(first, last, self.lines.len());
    }
}
