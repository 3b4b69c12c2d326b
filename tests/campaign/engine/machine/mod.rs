//! This machine's files, changed and rewound at random.

#[allow(dead_code, reason = "the tests of a death use the rest")]
#[path = "../../../e2e/engine/machine/bench.rs"]
mod bench;
mod rewinds;
