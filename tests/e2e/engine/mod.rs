//! The engine in the real world: a session from start to start, what it keeps over several of
//! them, long tasks, and this machine's files and commands before and after a crash.

mod background;
mod cached;
mod interactive;
mod judged;
mod long;
mod machine;
mod memory;
mod session;
mod stands_in;
