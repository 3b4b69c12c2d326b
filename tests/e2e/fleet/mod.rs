//! Shared sessions: the real binary and a real PostgreSQL. What is counted: effects that happened
//! twice, entries that the database or a store lacks, and results of calls.

mod failover;
mod faults;
#[cfg(feature = "fleet")]
mod files;
#[cfg(target_os = "linux")]
mod forged;
mod guards;
mod other_machines;
mod proxy;
mod restored;
mod setup;
mod steering;
#[cfg(target_os = "linux")]
mod workers;

pub use crate::scenes::fleet::*;
pub use crate::scenes::{LIMIT, play};
