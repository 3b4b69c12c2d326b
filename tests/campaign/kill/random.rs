//! Randomness that a seed plays again.

use std::time::Duration;

/// SplitMix64: small, and the same on every machine.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Both ends included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// After the start of a process. A quarter of them hit it while it opens its session.
    pub fn instant(&mut self) -> Duration {
        let most_us = match self.between(0, 3) {
            0 => 40_000,
            _ => 400_000,
        };
        Duration::from_micros(self.between(0, most_us))
    }
}

pub fn seed_of_now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |d| d.as_nanos() as u64)
}
