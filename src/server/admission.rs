//! The limits of open connections: of all together, and of one address.
//!
//! Where there is no room, the connection that waits for a request for the longest time is closed
//! for the new one. So connections on which nobody asks anything keep nobody out.
//!
//! Addresses of this machine have no limit of their own: ssh and a proxy come from there for
//! everybody.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::sync::Notify;
use tokio::time::{Duration, Instant};

/// The most connections that are open at once. Others wait until one is closed.
pub(super) const MAX_CONNECTIONS: usize = 256;

/// The most connections of one address of another machine.
pub(super) const MAX_OF_ADDRESS: usize = 64;

/// A connection that was answered waits for a request when nothing was read or written for so
/// long: longer than the sign of life of a stream takes.
const ANSWERED: Duration = Duration::from_secs(20);

/// How often it is looked for one that became idle, where there is no room.
const LOOK: Duration = Duration::from_secs(1);

/// The connections that are open.
#[derive(Default)]
pub(super) struct Admission {
    open: Mutex<Open>,
    closed: Notify,
}

#[derive(Default)]
struct Open {
    admitted: u64,
    places: HashMap<u64, Held>,
}

struct Held {
    address: Option<IpAddr>,
    phase: Phase,
    is_evicted: bool,
    waker: Option<Waker>,
}

/// The state of a connection, since when.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The head of its first request has not come.
    New(Instant),
    /// A request has come, and is not answered yet.
    Asked,
    /// Something was written, and nothing was read since.
    Answered(Instant),
}

/// The place of an open connection, until it is dropped.
pub(super) struct Place {
    admission: Arc<Admission>,
    number: u64,
}

/// Whether there is room for a connection.
pub(super) enum Room {
    Place(Place),
    /// Too many of its address are at work.
    NotForAddress,
    /// All are at work: one of them has to be closed first.
    None,
}

impl Admission {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the place of a connection of this address. An address is missing when it came over
    /// a socket of files. `None`: too many of its address are at work.
    pub(super) async fn place(self: &Arc<Admission>, address: Option<IpAddr>) -> Option<Place> {
        loop {
            let closed = self.closed.notified();
            match self.admit(address, Instant::now()) {
                Room::Place(place) => return Some(place),
                Room::NotForAddress => return None,
                // One that was answered counts as idle after a while, which nothing tells.
                Room::None => drop(tokio::time::timeout(LOOK, closed).await),
            }
        }
    }

    pub(super) fn admit(self: &Arc<Admission>, address: Option<IpAddr>, now: Instant) -> Room {
        let mut open = self.open();
        let limited = address.filter(|address| !address.is_loopback());
        if let Some(limited) = limited {
            let of_address = |held: &Held| held.address == Some(limited) && !held.is_evicted;
            if open.count(of_address) >= MAX_OF_ADDRESS && !open.evict(now, of_address) {
                return Room::NotForAddress;
            }
        }
        let all = |held: &Held| !held.is_evicted;
        if open.count(all) >= MAX_CONNECTIONS && !open.evict(now, all) {
            return Room::None;
        }
        open.admitted += 1;
        let number = open.admitted;
        let held = Held {
            address,
            phase: Phase::New(now),
            is_evicted: false,
            waker: None,
        };
        open.places.insert(number, held);
        Room::Place(Place {
            admission: Arc::clone(self),
            number,
        })
    }
}

impl Open {
    fn count(&self, counts: impl Fn(&Held) -> bool) -> usize {
        self.places.values().filter(|held| counts(held)).count()
    }

    /// Closes the one of these that waits for a request for the longest time. False: none waits.
    fn evict(&mut self, now: Instant, counts: impl Fn(&Held) -> bool) -> bool {
        let waiting = self.places.values_mut().filter(|held| counts(held));
        let longest = waiting
            .filter_map(|held| Some((held.waits_since(now)?, held)))
            .min_by_key(|(since, _)| *since);
        let Some((_, held)) = longest else {
            return false;
        };
        held.is_evicted = true;
        if let Some(waker) = held.waker.take() {
            waker.wake();
        }
        true
    }
}

impl Held {
    /// Since when it waits for a request. `None`: one is being answered.
    fn waits_since(&self, now: Instant) -> Option<Instant> {
        match self.phase {
            Phase::New(since) => Some(since),
            Phase::Answered(since) if now.duration_since(since) >= ANSWERED => Some(since),
            Phase::Answered(_) | Phase::Asked => None,
        }
    }
}

impl Place {
    fn change<T>(&self, change: impl FnOnce(&mut Held) -> T) -> Option<T> {
        self.admission
            .open()
            .places
            .get_mut(&self.number)
            .map(change)
    }

    /// The head of a request, or a part of its body, was read.
    pub(super) fn is_asked(&self) {
        self.change(|held| held.phase = Phase::Asked);
    }

    pub(super) fn is_answered(&self) {
        self.change(|held| held.phase = Phase::Answered(Instant::now()));
    }

    /// Returns whether it was closed for another one. If not, `waker` is told when it is.
    pub(super) fn is_evicted(&self, waker: &Waker) -> bool {
        let evicted = self.change(|held| {
            if !held.waker.as_ref().is_some_and(|w| w.will_wake(waker)) {
                held.waker = Some(waker.clone());
            }
            held.is_evicted
        });
        evicted.unwrap_or(false)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.admission.open().places.remove(&self.number);
        self.admission.closed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const FAR: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7)));
    const FARTHER: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 8)));
    const NEAR: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));

    fn admit(admission: &Arc<Admission>, address: Option<IpAddr>, n: u64) -> Option<Place> {
        let now = Instant::now() + Duration::from_millis(n);
        match admission.admit(address, now) {
            Room::Place(place) => Some(place),
            Room::NotForAddress | Room::None => None,
        }
    }

    fn is_evicted(place: &Place) -> bool {
        place.is_evicted(Waker::noop())
    }

    #[test]
    fn the_connection_that_waits_longest_makes_room() {
        let admission = Arc::default();
        let places: Vec<Place> = (0..256)
            .filter_map(|n| admit(&admission, NEAR, n))
            .collect();
        assert_eq!(places.len(), 256);
        places[0].is_asked();
        let new = admit(&admission, NEAR, 999).expect("a place");
        let evicted: Vec<usize> = (0..256).filter(|n| is_evicted(&places[*n])).collect();
        assert_eq!(evicted, [1]);
        places.iter().for_each(Place::is_asked);
        new.is_asked();
        assert!(admit(&admission, NEAR, 0).is_none());
        // One that was answered, and asks nothing more.
        places[7].is_answered();
        assert!(admit(&admission, NEAR, 0).is_none());
        assert!(admit(&admission, NEAR, 30_000).is_some());
        assert!(is_evicted(&places[7]));
        drop(places);
        assert!(admit(&admission, NEAR, 0).is_some());
    }

    #[test]
    fn one_address_of_another_machine_does_not_take_all_places() {
        let admission = Arc::default();
        let places: Vec<Place> = (0..64).filter_map(|n| admit(&admission, FAR, n)).collect();
        places[1..].iter().for_each(Place::is_asked);
        let more = admit(&admission, FAR, 99).expect("a place");
        assert!(is_evicted(&places[0]));
        more.is_asked();
        assert!(admit(&admission, FAR, 99).is_none());
        assert!(admit(&admission, FARTHER, 99).is_some());
        drop(places);
        assert!(admit(&admission, FAR, 99).is_some());
    }
}
