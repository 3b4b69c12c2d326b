//! The requests that wait for the worker: the newest one of each kind, and every change.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::HistoryRequest;

#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<QueuedRequests>,
    changed: Condvar,
}

#[derive(Default)]
struct QueuedRequests {
    changes: VecDeque<HistoryRequest>,
    list: Option<HistoryRequest>,
    checkpoints: Option<HistoryRequest>,
    preview: Option<HistoryRequest>,
    file_changes: Option<HistoryRequest>,
    about: Option<HistoryRequest>,
    is_closed: bool,
}

impl QueuedRequests {
    fn pop(&mut self) -> Option<HistoryRequest> {
        self.changes
            .pop_front()
            .or_else(|| self.list.take())
            .or_else(|| self.checkpoints.take())
            .or_else(|| self.preview.take())
            .or_else(|| self.file_changes.take())
            .or_else(|| self.about.take())
    }
}

impl Queue {
    pub(super) fn push(&self, request: HistoryRequest) {
        let mut waiting = self.lock();
        match &request {
            // A new list makes more of the one before needless.
            HistoryRequest::More { .. }
                if matches!(waiting.list, Some(HistoryRequest::Sessions { .. })) =>
            {
                return;
            }
            HistoryRequest::Sessions { .. } | HistoryRequest::More { .. } => {
                waiting.list = Some(request)
            }
            HistoryRequest::Checkpoints { .. } => waiting.checkpoints = Some(request),
            HistoryRequest::Preview { .. } => waiting.preview = Some(request),
            HistoryRequest::Changes { .. } => waiting.file_changes = Some(request),
            HistoryRequest::About { .. } => waiting.about = Some(request),
            HistoryRequest::Rename { .. }
            | HistoryRequest::Trash { .. }
            | HistoryRequest::Restore { .. }
            | HistoryRequest::Dismiss { .. } => {
                waiting.changes.push_back(request);
            }
        }
        self.changed.notify_one();
    }

    /// Waits for the next request. `None` when no more will come.
    pub(super) fn next(&self) -> Option<HistoryRequest> {
        let mut waiting = self.lock();
        loop {
            if waiting.is_closed {
                return None;
            }
            if let Some(request) = waiting.pop() {
                return Some(request);
            }
            waiting = self
                .changed
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns whether a newer request replaces the list that is being made.
    pub(super) fn has_newer_list(&self) -> bool {
        let waiting = self.lock();
        waiting.is_closed || waiting.list.is_some()
    }

    /// Returns whether another request waits.
    pub(super) fn has_more(&self) -> bool {
        let waiting = self.lock();
        waiting.is_closed
            || !waiting.changes.is_empty()
            || waiting.list.is_some()
            || waiting.checkpoints.is_some()
            || waiting.preview.is_some()
    }

    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, QueuedRequests> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(number: u64) -> HistoryRequest {
        HistoryRequest::Sessions {
            number,
            query: String::new(),
            in_trash: false,
        }
    }

    #[test]
    fn the_newest_question_wins_and_no_change_is_lost() {
        let queue = Queue::default();
        let trash = |id: &str| HistoryRequest::Trash { id: id.into() };
        let more = HistoryRequest::More { number: 1, from: 5 };
        for request in [
            more.clone(),
            sessions(2),
            sessions(3),
            more,
            trash("a"),
            trash("b"),
        ] {
            queue.push(request);
        }
        assert!(queue.has_newer_list());
        let taken: Vec<HistoryRequest> = (0..3).filter_map(|_| queue.next()).collect();
        assert_eq!(taken, [trash("a"), trash("b"), sessions(3)]);
        assert!(!queue.has_newer_list());
        queue.close();
        assert_eq!(queue.next(), None);
    }
}
