//! Servers that outlive the agent: processes that exchange lines with it over stdin and stdout
//! (MCP).
//!
//! As for a command there is a **run folder** and a **keeper** ([`keeper`]), a process of this same
//! binary in a separate process session. It starts the server, has both of its pipes, journals each
//! line that passes, and serves one agent at a time over a socket.
//!
//! ```text
//! agent ── unix socket ── keeper ── stdin/stdout ── server
//!
//! RUN/spec status claim   as for a command, see [`super`]; the keeper locks `status`
//! RUN/in.0                each line for the server; on the disk before the server has a byte of it
//! RUN/out.0               each line of the server; an answer is on the disk before it is reported
//! RUN/output, RUN/tail    what it printed on stderr, bounded
//! RUN/socket              or a short name in `$XDG_RUNTIME_DIR`, where this one is too long and there is no `/proc`
//! RUN/known               what an agent keeps for the next one; the keeper does not read it
//! RUN/changes             protected files that a server in a sandbox changed: see [`protected`]
//! ```
//!
//! # The fate of a request
//!
//! The socket of a killed agent stays in the kernel, with the data that it had sent. When a new
//! agent says hello, the keeper first reads the old socket to its end and hands over each whole
//! line. Only then does it answer. So an agent that has this answer finds a final state:
//!
//! | found | the request |
//! |---|---|
//! | its answer is in `out` | is answered |
//! | it is not in `in` | was not sent to the server, and never will be |
//! | it is in `in`, and the server lives | is being worked on: wait |
//! | it is in `in`, and keeper or server are dead | is lost: it may or may not have happened |
//!
//! When the keeper could record the end of the server, the record also says how far the server had
//! read: a request after that place was not sent to it either. While the old agent lives, a new one
//! is told so and refused.
//!
//! # When the server ends
//!
//! By itself; or without an agent and with nothing in flight for [`ServerSpec::linger_ms`]; or at
//! once when the agent says so; or by SIGTERM to the keeper (`rewake ps stop`); or when the run
//! folder is removed. Then its input is closed, after two seconds its whole process group gets TERM,
//! and after two more KILL.
//!
//! # When the disk is full
//!
//! A line for the server that cannot be journaled is not handed over, and the agent is told. A line
//! of the server that cannot be journaled is kept in memory. Nothing more is read from the server,
//! the agent is told, and the write is retried until there is room.
//!
//! Invariant: a line is handed over at most once, by the one keeper that a run folder has.
//!
//! Invariant: values of a server's environment are in no file.
//!
//! Deliberately absent: any knowledge of the lines but for IDs, so other protocols of lines fit; a
//! restart (the process that needs a server that ended starts it again in a new run folder);
//! cancelling by dropping (the calls of a dropped client continue).

mod child;
mod client;
mod connection;
mod end;
mod journal;
mod keeper;
mod line;
mod past;
mod protected;
mod servers;
mod socket;
mod spec;
mod wire;

pub use client::{Client, Unsent};
pub use end::describe;
pub use keeper::{WORD, run_if_keeper};
pub use line::LINE_MAX_BYTES;
pub use past::{EndedServer, ServerOutcome};
pub use servers::{Attached, ServerInfo, Servers};
pub use spec::{ServerEnv, ServerSpec};
