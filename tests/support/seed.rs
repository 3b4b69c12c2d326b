//! The seed of random cases, and how to replay them.

use std::fmt;

/// The seed of a campaign. It is printed at once: a test that fails shows it.
pub struct Seed {
    pub number: u64,
}

impl Seed {
    /// Returns the seed that this environment variable has, else another one.
    pub fn of(variable: &str, otherwise: impl FnOnce() -> u64) -> Seed {
        let asked = std::env::var(variable).ok();
        let number = asked.map_or_else(otherwise, |text| text.parse().expect("a number"));
        Seed::new(number, format!("{variable}={number}"))
    }

    /// `how`: the environment variables that replay it.
    pub fn new(number: u64, how: String) -> Seed {
        println!("{how}");
        Seed { number }
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(to)
    }
}
