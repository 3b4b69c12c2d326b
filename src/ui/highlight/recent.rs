//! A bounded map that drops entries which were not used recently, roughly.

use std::collections::HashMap;

/// Two halves: when the new one is full, the old one is forgotten and they change places.
pub(super) struct Recent<V> {
    new: HashMap<u64, V>,
    old: HashMap<u64, V>,
    half: usize,
}

impl<V> Recent<V> {
    pub(super) fn new(max: usize) -> Recent<V> {
        Recent {
            new: HashMap::new(),
            old: HashMap::new(),
            half: max.div_ceil(2),
        }
    }

    pub(super) fn insert(&mut self, key: u64, value: V) {
        if self.new.len() >= self.half {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(key, value);
    }

    /// Returns a value and marks it as used, so that it stays.
    pub(super) fn get(&mut self, key: u64) -> Option<&V> {
        if let Some(value) = self.old.remove(&key) {
            self.insert(key, value);
        }
        self.new.get(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_entries_stay_and_the_others_are_evicted() {
        let mut recent = Recent::new(8);
        for n in 0..100 {
            recent.insert(n, n);
            assert_eq!(recent.get(0), Some(&0), "after {n}");
        }
        assert_eq!(recent.get(50), None);
        assert_eq!(recent.get(99), Some(&99));
        assert!(recent.new.len() + recent.old.len() <= 8);
    }
}
