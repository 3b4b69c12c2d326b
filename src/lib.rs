//! rewake is a coding agent for the terminal that resumes where it stopped, after any crash. This
//! page is an overview of the code. `docs/architecture.md` follows a key press and a crash through
//! the files, `docs/storage.md` describes the data on disk, and `docs/glossary.md` lists the
//! terms.
//!
//! # The idea
//!
//! A session is an append-only log of [entries](core::entry) in SQLite. [`core::state::State`] is
//! the fold of that log. [`core::next::next`] is a pure function that returns the next step. The
//! [engine] runs the step, records its result as an entry, and calls `next` again.
//!
//! ```text
//!            ┌───────────── load, fold ◄── start (first start and restart are the same)
//!            ▼
//!  State ──► next ──► Step ──► world does it ──► Entry ──► store.append (sync) ──► fold ──► State …
//!                                                            └──► stdout / screen
//! ```
//!
//! Recovery needs no code path: starting *is* recovering. Pending work follows from the log and
//! never lives only in memory.
//!
//! # The one data path
//!
//! A prompt goes into the session's *inbox* (a durable row). `next` knows that it waits there.
//! When no call is open, `next` returns `TakeMessage`. The engine turns the row into `Said`, in
//! the transaction that deletes it. Then `next` returns `CallModel`. [`core::prompt::request`]
//! projects the log to messages, and a codec in [`model`] encodes them. The complete answer is
//! recorded as `Replied` *before* any of its calls runs, if possible in one transaction with the
//! first of them.
//!
//! [`tools::describe`] returns the properties of a call: its effect class, and the permission it
//! needs. It is passed to the state, so the core does not know any tool. For each call `next`
//! decides whether it runs, needs approval or is closed. Idempotent calls run at once. A person is
//! asked about all calls of an answer before one with an effect runs. The path of a call is
//! checked again right before the call acts on it.
//!
//! A call with an effect is prepared ([`tools::prepare`], or a run folder of [`command`]),
//! recorded as `Started` with its guard, executed, and recorded as `Finished`. Then the model is
//! called again, until an answer contains no call.
//!
//! Hooks follow entries: a message, an answer with calls, a result. The recorder prepares a run
//! folder for each matching hook and records them (`Hooking`) in the transaction of that entry.
//! `next` returns `RunHooks` before the step that the hooks decide about. The results of guards of a
//! call (`Hooked`) are recorded together with its start or its denial. [`core::hook`] applies the answers of guards: deny wins over
//! ask, and ask over allow, over all hooks and rules.
//!
//! Hooks and servers that a workspace defines run in the [sandbox], with the access that the user
//! trusted them with. Only the hooks of the user's own files can allow a call without a question.
//!
//! When all calls of an answer are finished and changed files, `next` returns the checks that match
//! them ([`core::check`]), one after the other, before the next request.
//!
//! # From another process
//!
//! A message, a stop, a pause, an answer or another model may come from another process
//! ([`session::Steering`], `rewake send`, `allow`, …). They are rows of the store: messages are in
//! the inbox, all others are a [`core::signal::Signal`]. The engine checks for them between two
//! steps, during a step and while it waits. It turns each into its entry, in the transaction that
//! deletes the row.
//!
//! A question is recorded (`Asked`) before a person is asked, so any process can show and answer
//! it. If a question has several answers, the newest counts. The question of a server during a
//! call is handled in the same way, and its answer is recorded (`Answered`) before the server gets
//! it. `rewake serve` does the same for clients over HTTP: it reads and writes the store, and has
//! no engine.
//!
//! # One key press
//!
//! With a screen, the same engine runs on a separate thread ([`ui::live`]). `ui::input` decodes
//! the bytes of a key, and [`ui::app`] handles it as a message. The app contains the whole state
//! of the screen and does no I/O. Enter produces an [`ui::app::Intent`], and `ui::effects`
//! carries it out: here, a command to the engine, which puts the text into the inbox. From there
//! the path is the same as above. Recorded entries come back as an [`ui::live::LiveEvent`], are
//! folded into [`ui::transcript`], and drawn by [`ui::view`].
//!
//! An approval prompt accepts keys only after a pause without keys ([`ui::app::TypeAheadGuard`]). A letter
//! only selects, and Enter confirms ([`ui::app::Letters`]). An approval prompt shows every byte
//! ([`core::visible`]). The screen stores nothing outside of the log, the inbox and the drafts.
//!
//! # Invariants
//!
//! 1. **Record, then act, then record.** An effect that cannot be recorded does not happen.
//! 2. **Derive, don't emit.** No effect is queued at a transition; `next` reads the state.
//! 3. **The head only moves to a child**, by compare-and-swap. Nothing is edited; rewinding is
//!    forking; nothing is repaired on reading.
//! 4. **Messages are a projection** of the log, valid by construction for every prefix of it.
//!    The projection invents nothing: a call that will not run gets a `Finished`.
//! 5. **At most once, and reported.** `next` is called only when no step is in progress, so an open
//!    `Started` that it sees means a crash, or a stop that still has to be carried out. The effect
//!    class of the call decides its outcome:
//!
//!    | class | tools | after a crash |
//!    |---|---|---|
//!    | idempotent | those that look (read, grep, memory_search, …), and what may be repeated (bash_stop, bash_wait) | run again |
//!    | … | memory_insert: its row is made in the transaction of its `Finished` | run again |
//!    | checked | those that replace a file (write, edit, …) | the file's hash says whether it was done |
//!    | supervised | bash | the keeper's run folder says: not started, running, ended, lost |
//!    | … | task: a subagent, which is a session | its own log says; a killed one is started again |
//!    | … | `!` of the user: [`core::entry::Entry::UserCommand`] | the same; one that never started is not started later |
//!    | … | checks: [`core::entry::Entry::CheckStarted`] | the same; one whose keeper is lost has failed |
//!    | … | hooks: [`core::entry::Entry::Hooking`] | the same; one whose keeper is lost has failed |
//!    | served | tools of servers (MCP) | the journal of the server's keeper says: not sent, in progress, answered, lost |
//!    | opaque | foreign tools, in logs of older versions | interrupted: "may or may not have happened" |
//!    | … | `!` of the user with the terminal | reported: it ended with the program |
//! 6. **Same path means same crash.** Starts without progress are counted. After three of them the
//!    session is in a crash loop: nothing more runs until a person lifts it. A start makes progress
//!    if work of an open call is alive, or has ended since the start before.
//! 7. **What was sent is sent again byte for byte.** The next request has the last one as its
//!    prefix: everything in it comes from entries, the system prompt too. If a server refuses the
//!    history, the form in which it is sent from then on is an entry before that request
//!    ([`core::request_form`]).
//!
//! Files are restored in the same way. [`core::rewind`] computes the target of each path, and that
//! tree is recorded (`Restoring`). [`workspace::files::restore`](workspace::files::restore())
//! writes the files, and `Restored` records the result. After a crash in between, the next step is
//! `Restore`.
//!
//! # The rooms
//!
//! The compiler checks that a crate uses only crates below it. In a crate, imports go strictly down
//! this list, and no file uses a file that uses it: `tests/source/layers` checks that.
//!
//! | crate | room | subject |
//! |---|---|---|
//! | rewake | `main` | the keeper modes, then [`cli`] |
//! | … | [`cli`] | arguments; one file for each subcommand |
//! | … | [`acp`] | `rewake acp`: the engine inside an editor, over the Agent Client Protocol |
//! | … | [`headless`] | the engine without a screen: text, JSON, JSON lines; signals |
//! | … | `server` | `rewake serve`: sessions over HTTP, and the page; a window on the store, without an engine |
//! | ui | [`ui`] | the terminal: the screen as a projection of the log, and the keys |
//! | session | [`report`] | output for the shell: exit codes, data on stdout, notes and errors on stderr |
//! | … | [`session`] | assembly of a session: selection, lock, log, layers, rules, world; its [loop](session::drive) and its [description](session::describe) for people |
//! | … | [`import`] | sessions of other agents: finding, reading and copying them |
//! | engine | [`engine`] | the loop, and the events that it handles during a step |
//! | … | [`world`] | the seam to everything outside of the log: [`world::World`]; [`world::machine`] is the real one |
//! | … | [`tools`] | one file for each tool; the descriptions for the model are in `assets/tools` |
//! | … | [`mcp`] | the Model Context Protocol as a client: eras, tools, calls, and the catalogue of the servers of a session |
//! | … | [`telemetry`] | spans and metrics of sessions for an OpenTelemetry collector; off by default |
//! | … | [`shared`] | the log of shared sessions in PostgreSQL: leases, lost answers, address, schema |
//! | command | [`command`] | shell commands that outlive the agent: keeper, runs; and [servers](command::server) |
//! | … | [`sandbox`] | limits on commands that the kernel enforces: Landlock, seccomp, namespaces |
//! | store | [`bundle`] | files with sessions for another store: writing, verifying and copying them |
//! | … | [`recovery`] | a new database instead of a damaged one, from its readable rows and the journals |
//! | … | [`store`] | SQLite: append, load, fork, search, blobs, drafts, inbox, signals, locks; trees and contents of files |
//! | … | [`journal`] | a second copy of each session as plain files, in lines with chained hashes; no SQLite |
//! | host | [`model`] | wire protocols, retries, figures of models, the scripted model |
//! | … | [`workspace`] | the workspace's root, and whether git may be used there; its [files](workspace::files); AGENTS.md; skills; custom commands |
//! | … | [`net`] | common parts of all HTTP clients: building one, server-sent events, private addresses |
//! | … | [`config`] | layers, and the origin of each value; trust; paths; keys |
//! | core | [`core`] | pure: entries, state, next, prompt, policy. No files, clock, async, logging |
//!
//! # When the context is full
//!
//! [`core::window`] decides what leaves the context: first old results, each replaced by a line
//! ([`core::freeing`]), then whole turns. [`core::summary`] requests a summary of those turns or
//! makes a digest. [`core::continuation`] writes the note from which a context starts over.
//! [`core::budget`] divides the context window.
//!
//! The user's messages are never summarised away: `core::user_messages` repeats them after each summary
//! and note. Content that left the context has a [`core::address`], with which a tool reads it
//! completely. Content that a message of the user refers to is brought back (`Recall`). `next`
//! frees results at once (`Free`), starts a summary in the background (`Summarise`), and waits for
//! a summary only at the hard limit (`Compact`).
//!
//! # Deliberately absent
//!
//! No event bus, no queue of effects, no message list that is edited, no recovery in the loop, no trait
//! with one implementation besides `World`. Streams are never entries: the text streamed so far
//! goes to a draft, is shown after a crash, and is not sent.
//!
//! No start repeats a shell command of the user (`!`). If its keeper never started, the session
//! reports that. A command with the terminal (`!vim`) has no keeper: it ends with the program, and
//! the session reports that.

pub use rewake_command::{command, sandbox};
pub use rewake_core::core;
pub use rewake_engine::{engine, mcp, shared, telemetry, tools, world};
pub use rewake_host::{config, model, net, workspace};
pub use rewake_session::{import, report, session};
pub use rewake_store::{bundle, journal, recovery, store};
pub use rewake_ui::ui;

pub mod acp;
pub mod cli;
pub mod headless;
#[cfg(feature = "serve")]
pub mod server;
