//! The seed of random cases, and how to replay them.

use std::fmt;

use super::page;

/// The seed of a campaign. It is printed at once, and again at the end of a failure.
pub struct Seed {
    pub number: u64,
    /// The environment variables that replay it.
    how: String,
}

impl Seed {
    /// Returns the seed that this environment variable has, else another one.
    pub fn of(variable: &str, otherwise: impl FnOnce() -> u64) -> Seed {
        let asked = std::env::var(variable).ok();
        let number = asked.map_or_else(otherwise, |text| text.parse().expect("a number"));
        Seed::new(number, format!("{variable}={number}"))
    }

    pub fn new(number: u64, how: String) -> Seed {
        println!("{how}");
        Seed { number, how }
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(to)
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        page::print("replay it with", || self.how.clone());
    }
}
