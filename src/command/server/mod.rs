//! Servers that outlive the agent: processes that are spoken with over stdin and stdout, a line at
//! a time (MCP).
//!
//! As for a command there is a **run folder** and a **keeper** ([`keeper`]), a process of this same
//! binary in a session of its own. It starts the server, holds both of its pipes, writes down each
//! line that passes, and speaks with one agent at a time over a socket.
//!
//! ```text
//! agent ── unix socket ── keeper ── stdin/stdout ── server
//!
//! RUN/spec status claim   as for a command, see [`super`]; the keeper locks `status`
//! RUN/in.0                each line for the server; on the disk before the server has a byte of it
//! RUN/out.0               each line of the server; an answer is on the disk before it is told
//! RUN/output, RUN/tail    what it printed on stderr, bounded
//! RUN/socket              or a short name in `$XDG_RUNTIME_DIR`, where this one is too long
//! RUN/known               what an agent keeps for the next one; the keeper does not read it
//! ```
//!
//! # What became of a request
//!
//! An agent that is killed leaves its socket to the kernel: what it had sent can still be read. A
//! new agent says hello, and the keeper first reads the old socket to its end and hands over each
//! line that is whole; only then it answers. So what is seen behind the answer is final:
//!
//! | seen | the request |
//! |---|---|
//! | its answer is in `out` | is answered |
//! | it is not in `in` | was not begun, and never will be |
//! | it is in `in`, and the server lives | is being worked on: wait |
//! | it is in `in`, and keeper or server are dead | is lost: it may or may not have happened |
//!
//! When the keeper could write down how the server ended, it also says how far the server had
//! read: a request behind that was not begun either. While the old agent lives the new one is
//! told so, and refused.
//!
//! # When the server ends
//!
//! By itself; or without an agent and with nothing in flight for [`ServerSpec::linger_ms`]; or at
//! once when the agent says so; or by SIGTERM to the keeper (`rewake ps stop`); or when the run
//! folder is removed. Then: its input is closed, after two seconds TERM, after two more KILL, to
//! its whole group.
//!
//! # When the disk is full
//!
//! A line for the server that cannot be written down is not handed over, and the agent is told. A
//! line of the server is kept in memory, nothing more is read of the server, the agent is told, and
//! writing it is tried again until there is room.
//!
//! Invariant: a line is handed over at most once, by the one keeper that a run folder has.
//!
//! Invariant: values of a server's environment are in no file.
//!
//! Deliberately absent: any knowledge of what is said but for ids, so other protocols of lines fit;
//! a restart (a server that is over is started again in a new run folder, by whoever needs it);
//! cancelling by dropping (a client that is dropped leaves its calls to go on).

mod child;
mod client;
mod connection;
mod end;
mod journal;
mod keeper;
mod line;
mod past;
mod servers;
mod socket;
mod spec;
mod wire;

pub use client::{Client, Unsent};
pub use end::describe;
pub use keeper::{WORD, keep_if_asked};
pub use line::LINE_MAX_BYTES;
pub use past::{Fate, Past};
pub use servers::{Attached, ServerInfo, Servers};
pub use spec::{LINGER_MS, ServerEnv, ServerSpec};
