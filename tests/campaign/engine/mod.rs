//! Random histories of the engine in the real world.

mod machine;
