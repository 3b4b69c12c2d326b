//! Limits of open connections: of all together, and of one address.
//!
//! When a limit is reached, a new connection replaces the one that has waited longest for a
//! request. So idle connections cannot keep other clients out.
//!
//! Addresses of this machine have no separate limit, because ssh and a proxy connect from them for
//! all their users.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::sync::Notify;
use tokio::time::{Duration, Instant};

/// Maximum number of open connections. Others wait for [`PATIENCE`], and are then refused.
const MAX_CONNECTIONS: usize = 256;

/// Number of descriptors that connections leave for the stores and for starting sessions.
const OTHER_DESCRIPTORS: u64 = 128;

/// Minimum number of connections, however few descriptors there are.
const MIN_CONNECTIONS: usize = 8;

/// Maximum number of connections from one address of another machine.
pub(super) const MAX_OF_ADDRESS: usize = 64;

/// Time without reads or writes after which an answered connection counts as idle. It is longer
/// than the interval of the keep-alive lines of a stream.
const ANSWERED: Duration = Duration::from_secs(20);

/// Number of times that a connection looks for a slot while all are busy.
const PATIENCE: u32 = 2;

/// Interval for finding an idle connection while a limit is reached.
const LOOK: Duration = Duration::from_secs(1);

/// The open connections.
pub(super) struct Admission {
    /// Maximum number of open connections.
    most: usize,
    open: Mutex<OpenStreams>,
    closed: Notify,
}

#[derive(Default)]
struct OpenStreams {
    admitted: u64,
    places: HashMap<u64, HeldSlots>,
}

struct HeldSlots {
    address: Option<IpAddr>,
    phase: Phase,
    is_evicted: bool,
    waker: Option<Waker>,
}

/// The state of a connection, and its start.
#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The head of the first request has not arrived yet.
    New(Instant),
    /// A request arrived and is not answered yet.
    Asked,
    /// An answer was written, and nothing was read since.
    Answered(Instant),
}

/// The slot of an open connection. Dropping it frees the slot.
pub(super) struct AdmissionSlot {
    admission: Arc<Admission>,
    number: u64,
}

/// Availability of a slot for a connection.
pub(super) enum SlotAvailability {
    Place(AdmissionSlot),
    /// The address has too many busy connections.
    NotForAddress,
    /// All connections are busy.
    None,
}

impl Admission {
    /// Returns the admission of a server that may have this number of open descriptors.
    pub(super) fn new(descriptors: u64) -> Admission {
        let free = descriptors.saturating_sub(OTHER_DESCRIPTORS);
        let free = usize::try_from(free).unwrap_or(MAX_CONNECTIONS);
        Admission {
            most: free.clamp(MIN_CONNECTIONS, MAX_CONNECTIONS),
            open: Mutex::default(),
            closed: Notify::new(),
        }
    }

    fn open(&self) -> MutexGuard<'_, OpenStreams> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot. The address is missing for connections over a Unix socket. `None`: there
    /// are too many busy connections, of this address or of all.
    pub(super) async fn place(
        self: &Arc<Admission>,
        address: Option<IpAddr>,
    ) -> Option<AdmissionSlot> {
        for _ in 0..PATIENCE {
            let closed = self.closed.notified();
            match self.admit(address, Instant::now()) {
                SlotAvailability::Place(place) => return Some(place),
                SlotAvailability::NotForAddress => return None,
                // An answered connection becomes idle after a while, without a notification.
                SlotAvailability::None => drop(tokio::time::timeout(LOOK, closed).await),
            }
        }
        None
    }

    pub(super) fn admit(
        self: &Arc<Admission>,
        address: Option<IpAddr>,
        now: Instant,
    ) -> SlotAvailability {
        let mut open = self.open();
        let limited = address.filter(|address| !address.is_loopback());
        if let Some(limited) = limited {
            let of_address = |held: &HeldSlots| held.address == Some(limited) && !held.is_evicted;
            if open.count(of_address) >= MAX_OF_ADDRESS && !open.evict(now, of_address) {
                return SlotAvailability::NotForAddress;
            }
        }
        let all = |held: &HeldSlots| !held.is_evicted;
        if open.count(all) >= self.most && !open.evict(now, all) {
            return SlotAvailability::None;
        }
        open.admitted += 1;
        let number = open.admitted;
        let held = HeldSlots {
            address,
            phase: Phase::New(now),
            is_evicted: false,
            waker: None,
        };
        open.places.insert(number, held);
        SlotAvailability::Place(AdmissionSlot {
            admission: Arc::clone(self),
            number,
        })
    }
}

impl OpenStreams {
    fn count(&self, counts: impl Fn(&HeldSlots) -> bool) -> usize {
        self.places.values().filter(|held| counts(held)).count()
    }

    /// Closes the connection that has waited longest for a request. Returns false if none waits.
    fn evict(&mut self, now: Instant, counts: impl Fn(&HeldSlots) -> bool) -> bool {
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

impl HeldSlots {
    /// Returns the time since when the connection waits for a request. `None`: a request is in
    /// progress.
    fn waits_since(&self, now: Instant) -> Option<Instant> {
        match self.phase {
            Phase::New(since) => Some(since),
            Phase::Answered(since) if now.duration_since(since) >= ANSWERED => Some(since),
            Phase::Answered(_) | Phase::Asked => None,
        }
    }
}

impl AdmissionSlot {
    fn change<T>(&self, change: impl FnOnce(&mut HeldSlots) -> T) -> Option<T> {
        self.admission
            .open()
            .places
            .get_mut(&self.number)
            .map(change)
    }

    /// Records that the head of a request or a part of its body was read.
    pub(super) fn is_asked(&self) {
        self.change(|held| held.phase = Phase::Asked);
    }

    pub(super) fn is_answered(&self) {
        self.change(|held| held.phase = Phase::Answered(Instant::now()));
    }

    /// Returns whether the connection was closed for another one. If not, `waker` is woken when
    /// that happens.
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

impl Drop for AdmissionSlot {
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

    fn admit(admission: &Arc<Admission>, address: Option<IpAddr>, n: u64) -> Option<AdmissionSlot> {
        let now = Instant::now() + Duration::from_millis(n);
        match admission.admit(address, now) {
            SlotAvailability::Place(place) => Some(place),
            SlotAvailability::NotForAddress | SlotAvailability::None => None,
        }
    }

    fn is_evicted(place: &AdmissionSlot) -> bool {
        place.is_evicted(Waker::noop())
    }

    #[test]
    fn the_connection_that_waits_longest_makes_room() {
        let admission = Arc::new(Admission::new(1024));
        let places: Vec<AdmissionSlot> = (0..256)
            .filter_map(|n| admit(&admission, NEAR, n))
            .collect();
        assert_eq!(places.len(), 256);
        places[0].is_asked();
        let new = admit(&admission, NEAR, 999).expect("a place");
        let evicted: Vec<usize> = (0..256).filter(|n| is_evicted(&places[*n])).collect();
        assert_eq!(evicted, [1]);
        places.iter().for_each(AdmissionSlot::is_asked);
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
    fn a_single_remote_address_cannot_take_all_places() {
        let admission = Arc::new(Admission::new(1024));
        let places: Vec<AdmissionSlot> =
            (0..64).filter_map(|n| admit(&admission, FAR, n)).collect();
        places[1..].iter().for_each(AdmissionSlot::is_asked);
        let more = admit(&admission, FAR, 99).expect("a place");
        assert!(is_evicted(&places[0]));
        more.is_asked();
        assert!(admit(&admission, FAR, 99).is_none());
        assert!(admit(&admission, FARTHER, 99).is_some());
        drop(places);
        assert!(admit(&admission, FAR, 99).is_some());
    }
}
