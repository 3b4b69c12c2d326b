//! What waits for the worker: the newest question of each kind, and every change.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::Ask;

#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    changes: VecDeque<Ask>,
    list: Option<Ask>,
    checkpoints: Option<Ask>,
    preview: Option<Ask>,
    is_closed: bool,
}

impl Waiting {
    fn pop(&mut self) -> Option<Ask> {
        self.changes
            .pop_front()
            .or_else(|| self.list.take())
            .or_else(|| self.checkpoints.take())
            .or_else(|| self.preview.take())
    }
}

impl Queue {
    pub(super) fn push(&self, ask: Ask) {
        let mut waiting = self.lock();
        match &ask {
            // A new list makes more of the one before needless.
            Ask::More { .. } if matches!(waiting.list, Some(Ask::Sessions { .. })) => return,
            Ask::Sessions { .. } | Ask::More { .. } => waiting.list = Some(ask),
            Ask::Checkpoints { .. } => waiting.checkpoints = Some(ask),
            Ask::Preview { .. } => waiting.preview = Some(ask),
            Ask::Rename { .. } | Ask::Trash { .. } | Ask::Restore { .. } => {
                waiting.changes.push_back(ask);
            }
        }
        self.changed.notify_one();
    }

    /// Waits for the next one. `None` when nobody will ask any more.
    pub(super) fn next(&self) -> Option<Ask> {
        let mut waiting = self.lock();
        loop {
            if waiting.is_closed {
                return None;
            }
            if let Some(ask) = waiting.pop() {
                return Some(ask);
            }
            waiting = self
                .changed
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The list that is being made is of no use any more.
    pub(super) fn has_newer_list(&self) -> bool {
        let waiting = self.lock();
        waiting.is_closed || waiting.list.is_some()
    }

    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(number: u64) -> Ask {
        Ask::Sessions {
            number,
            query: String::new(),
            in_trash: false,
        }
    }

    #[test]
    fn the_newest_question_wins_and_no_change_is_lost() {
        let queue = Queue::default();
        let trash = |id: &str| Ask::Trash { id: id.into() };
        let more = Ask::More { number: 1, from: 5 };
        for ask in [
            more.clone(),
            sessions(2),
            sessions(3),
            more,
            trash("a"),
            trash("b"),
        ] {
            queue.push(ask);
        }
        assert!(queue.has_newer_list());
        let taken: Vec<Ask> = (0..3).filter_map(|_| queue.next()).collect();
        assert_eq!(taken, [trash("a"), trash("b"), sessions(3)]);
        assert!(!queue.has_newer_list());
        queue.close();
        assert_eq!(queue.next(), None);
    }
}
