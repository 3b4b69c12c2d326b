//! IDs of sessions, which sort by creation time.
//!
//! An ID begins with the millisecond in which it was made. People read and type this part, so
//! [`super::SessionLock::take_new`] gives each millisecond to one session of a store.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use uuid::{Builder, Uuid};

use super::machine::now_ms;

use crate::journal::chain_hash::ChainHash;

/// Interval in which a process that has used the current millisecond looks for the next one.
const LOOK_EVERY: Duration = Duration::from_micros(100);

/// Number of letters of an ID that encode the millisecond.
const SHORT_CHARS: usize = 13;

/// Returns a unique ID. Two IDs of one process differ in their millisecond: this waits for the next
/// one. A session of a store takes its ID from
/// [`SessionLock::take_new`](super::SessionLock::take_new).
pub fn new_id() -> String {
    static LAST_MS: AtomicU64 = AtomicU64::new(0);
    loop {
        if let Some(ms) = next_ms(&LAST_MS, now_ms()) {
            return id_at(ms);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Returns a unique ID without waiting for the next millisecond. It is for runs, whose IDs nobody
/// types.
pub fn new_run_id() -> String {
    id_at(u64::try_from(now_ms()).unwrap_or(0))
}

/// Returns the millisecond of the next ID. `None`: wait for the next one.
fn next_ms(last: &AtomicU64, now: i64) -> Option<u64> {
    // A clock before 1970 stands still here, so there is nothing to wait for.
    let Some(now) = u64::try_from(now).ok().filter(|now| *now > 0) else {
        return Some(last.fetch_add(1, Ordering::Relaxed) + 1);
    };
    let last = last.fetch_max(now, Ordering::Relaxed);
    // A clock that was set back must not make this wait: the random part differs.
    (last < now || last > now + 1).then_some(now)
}

fn id_at(ms: u64) -> String {
    let random = Uuid::new_v4();
    let mut rest = [0; 10];
    rest.copy_from_slice(&random.as_bytes()[..10]);
    id_of(ms, rest)
}

/// Returns the ID with this time and these other bytes.
pub fn id_of(ms: u64, rest: [u8; 10]) -> String {
    Builder::from_unix_timestamp_millis(ms, &rest)
        .into_uuid()
        .to_string()
}

/// Returns the beginning of an id that people read and type: its millisecond.
pub fn short_id(id: &str) -> &str {
    id.get(..SHORT_CHARS).unwrap_or(id)
}

/// Returns the beginning of an id that no other of these ids has: [`short_id`], or more of it.
/// Versions before this one made several sessions in one millisecond.
pub fn unique_short_id<'a>(id: &'a str, others: &[&str]) -> &'a str {
    let short = short_id(id);
    let twins: Vec<&&str> = others
        .iter()
        .filter(|other| **other != id && other.starts_with(short))
        .collect();
    let is_unique = |end: &usize| {
        id.get(..*end)
            .is_some_and(|part| twins.iter().all(|twin| !twin.starts_with(part)))
    };
    let end = (short.len()..id.len()).find(is_unique);
    end.map_or(id, |end| &id[..end])
}

/// Returns the ID of the session that is made from a diverged copy of `session` with this tip. It
/// is the same each time, and begins almost like `session`, so that people see them together.
pub(crate) fn id_of_diverged(session: &str, end: ChainHash) -> String {
    let id = Uuid::try_parse(session).unwrap_or_default();
    // Bits of an ID that `new_id` made are its millisecond.
    let beginning = (id.as_u128() >> 80) as u64;
    let hash = blake3::Hasher::new()
        .update(session.as_bytes())
        .update(end.as_bytes())
        .finalize();
    let mut rest = [0; 10];
    rest.copy_from_slice(&hash.as_bytes()[..10]);
    Builder::from_unix_timestamp_millis(beginning.wrapping_add(1), &rest)
        .into_uuid()
        .to_string()
}

/// Sorts sessions by ID, and each after the session that it was forked from: an ID that the user
/// chose says nothing about age, and a clock may be set back.
pub(crate) fn parents_first(
    mut ids: Vec<String>,
    parent: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    ids.sort_unstable();
    let mut left: BTreeSet<String> = ids.iter().cloned().collect();
    let mut sorted = Vec::new();
    for id in ids {
        // The session and its ancestors that are not sorted yet, the oldest last.
        let mut line = Vec::new();
        let mut next = Some(id);
        // A session leaves the set when it is met, so damaged journals cannot make a circle.
        while let Some(id) = next.take_if(|id| left.remove(id)) {
            next = parent(&id);
            line.push(id);
        }
        sorted.extend(line.into_iter().rev());
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::folder::is_session_id;

    #[test]
    fn each_id_of_a_process_has_its_own_millisecond() {
        let make = || (0..20).map(|_| new_id()).collect::<Vec<String>>();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(make)).collect();
        let ids: Vec<String> = threads
            .into_iter()
            .flat_map(|t| t.join().unwrap())
            .collect();
        let short: BTreeSet<&str> = ids.iter().map(|id| short_id(id)).collect();
        assert_eq!(short.len(), ids.len());
        assert!(
            ids.iter()
                .all(|id| Uuid::try_parse(id).unwrap().get_version_num() == 7)
        );
        assert!(
            *ids.iter().max().unwrap() < id_at(now_ms() as u64 + 1),
            "none is ahead of the clock"
        );
    }

    #[test]
    fn a_fork_comes_after_its_origin() {
        let sorted = |parents: &[(&str, &str)]| {
            let ids = ["c", "a", "d", "b"].map(str::to_string).to_vec();
            let parent = |id: &str| {
                let found = parents.iter().find(|(of, _)| *of == id);
                found.map(|(_, parent)| parent.to_string())
            };
            parents_first(ids, parent).concat()
        };
        assert_eq!(sorted(&[]), "abcd");
        assert_eq!(sorted(&[("a", "c"), ("c", "d")]), "dcab");
        assert_eq!(sorted(&[("b", "gone"), ("d", "a")]), "abcd");
        // A circle.
        assert_eq!(sorted(&[("a", "b"), ("b", "a")]), "bacd");
    }

    #[test]
    fn a_clock_before_1970_gives_ids_that_differ() {
        let last = AtomicU64::new(0);
        let made: Vec<_> = (0..3).map(|_| next_ms(&last, 0)).collect();
        assert_eq!(made, [Some(1), Some(2), Some(3)]);
        assert_eq!(next_ms(&last, -5), Some(4));
        assert_eq!(next_ms(&last, 7), Some(7));
        assert_eq!(next_ms(&last, 7), None);
        assert!(is_session_id(&id_at(0)));
    }

    #[test]
    fn ids_of_one_millisecond_are_shown_with_as_many_letters_as_they_need() {
        let ids = [
            "01a20bbd-51ff-7000-8000-000000000001",
            "01a20bbd-51ff-7000-8100-000000000001",
            "01a20bbd-51ff-7000-8100-000000000002",
            "01a20bbd-5200-7000-8100-000000000002",
        ];
        let shown: Vec<&str> = ids.iter().map(|id| unique_short_id(id, &ids)).collect();
        assert_eq!(
            shown,
            ["01a20bbd-51ff-7000-80", ids[1], ids[2], "01a20bbd-5200"]
        );
        assert_eq!(unique_short_id("run", &ids), "run");
    }
}
