//! The real binary on a pseudo-terminal, used at random.

mod hour;
