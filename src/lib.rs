//! rewake is a coding agent for the terminal that cannot lose its place. This page is the
//! map of the house; read it first. `docs/architecture.md` walks a key press and a crash through
//! it file by file, `docs/storage.md` says what is on the disk, `docs/glossary.md` has the words.
//!
//! # The idea
//!
//! A session is an append-only log of [entries](core::entry) in SQLite. [`core::state::State`]
//! is the fold of that log. [`core::next::next`] is a pure function that says what is to be
//! done now. The [engine] does it, records what came of it as an entry, and asks again.
//!
//! ```text
//!            ┌───────────── load, fold ◄── start (first start and restart are the same)
//!            ▼
//!  State ──► next ──► Step ──► world does it ──► Entry ──► store.append (sync) ──► fold ──► State …
//!                                                            └──► stdout / screen
//! ```
//!
//! There is no recovery code path: starting *is* recovering. What is owed is read from the
//! log, so nothing that is pending lives only in memory.
//!
//! # The one data path
//!
//! A prompt goes into the session's *inbox* (a durable row). `next` is told that it waits
//! there; when no call is open it says `TakeMessage`, and the engine turns the row into `Said`,
//! in the transaction that deletes it. Then `next` says `CallModel`;
//! [`core::prompt::request`] projects the log to messages; a codec in
//! [`model`] puts them on the wire; the whole answer is recorded as `Replied` *before*
//! anything is done on it, where it can be in one transaction with what it begins. What a call is (its effect class, what it needs the rules to
//! permit) says [`tools::describe`], which a state is made with: the core knows no tool. For
//! each call `next` says what is to become of it. Idempotent calls run at once. A person is asked
//! about all calls of the answer before one with an effect runs. Where the path of a call leads
//! is judged once more right before it acts, and it acts there. A call with an effect is prepared
//! ([`tools::prepare`], or a run folder of [`command`]), recorded as `Started` with its guard, done, and recorded as `Finished`. Then
//! the model is asked again, until it calls nothing more.
//!
//! # From another process
//!
//! Words, a stop, a pause, a verdict or another model may come from another process
//! ([`session::Order`], `rewake send`, `allow`, …). They are rows of the store: words of the inbox,
//! all else a [`core::signal::Signal`]. The engine looks for them between two steps, beside a step
//! and while it waits, and turns each into the entry that it becomes, in the transaction that
//! deletes its row. A question is recorded (`Asked`) before a person is asked, so any process can
//! show it and answer it. Of several answers to one question the newest counts. So is what a server asks in the middle of a call, and its answer is recorded
//! (`Answered`) before the server gets it. `rewake serve` does the same for clients over HTTP: it is a window on the store,
//! and has no engine.
//!
//! # One key press
//!
//! With a screen the same engine runs on a thread of its own ([`ui::live`]). A key is bytes
//! ([`ui::input`]), then a message to [`ui::app`], which is all that the screen shows and does
//! no I/O. Enter gives an [`ui::app::Intent`]; [`ui::effects`] carries it out: here, a command
//! to the engine, which puts the words into the inbox. From there on it is the path above. What
//! the engine recorded comes back as an [`ui::live::LiveEvent`], is folded into
//! [`ui::transcript`], and is drawn by [`ui::view`]. A key counts at a prompt only after a quiet that
//! was seen ([`ui::app::Quiet`]). A letter only selects, and Enter confirms
//! ([`ui::app::Letters`]). A prompt shows every byte ([`core::visible`]). The screen keeps nothing that is not in the log, the inbox or the drafts.
//!
//! # Invariants
//!
//! 1. **Record, then act, then record.** What cannot be recorded is not done.
//! 2. **Derive, don't emit.** No effect is queued at a transition; `next` reads the state.
//! 3. **The head only moves to a child**, by compare-and-swap. Nothing is edited; rewinding is
//!    forking; nothing is repaired on reading.
//! 4. **Messages are a projection** of the log, valid by construction for every prefix of it.
//!    The projection invents nothing: a call that will not run gets a `Finished`.
//! 5. **At most once, and told.** `next` is asked only when no step is in progress, so an open
//!    `Started` that it sees means a crash, or a stop that is still to be obeyed. What became
//!    of the call is settled by its effect class:
//!
//!    | class | tools | after a crash |
//!    |---|---|---|
//!    | idempotent | those that look (read, grep, memory_search, …), and what may be repeated (bash_stop) | run again |
//!    | … | memory_insert: its row is made in the transaction of its `Finished` | run again |
//!    | checked | those that replace a file (write, edit, …) | the file's hash says whether it was done |
//!    | supervised | bash | the keeper's run folder says: not begun, running, ended, lost |
//!    | … | task: a subagent, which is a session | its own log says; one that was killed is started again |
//!    | … | `!` of the user: [`core::entry::Entry::UserCommand`] | the same; what was not begun stays so |
//!    | served | tools of servers (MCP) | the journal of the server's keeper says: not begun, at work, answered, lost |
//!    | opaque | foreign tools, in logs of older versions | interrupted: "may or may not have happened" |
//!    | … | `!` of the user with the terminal | told: it ended with the program |
//! 6. **Same path means same crash.** Starts that get nowhere are counted; at three it
//!    is a crash loop: nothing more is done until a person lifts it. A start gets somewhere if
//!    work of an open call is alive, or has ended since the start before.
//! 7. **What was sent is sent again byte for byte.** The next request has the last one as its
//!    prefix: everything in it comes from entries, the system prompt too.
//!
//! Files are set back the same way: [`core::rewind`] says what each path is to be, that tree is
//! recorded (`Restoring`), [`workspace::files::restore`](workspace::files::restore()) does it, and `Restored` says what came of it. A
//! crash between leaves `Restore` to be the next step.
//!
//! # The rooms
//!
//! Imports go strictly down this list; `tests/source/layers` reads them and says so.
//!
//! | room | subject |
//! |---|---|
//! | `main` | the keeper's word first, then [`cli`] |
//! | [`cli`] | arguments; one file for each subcommand |
//! | [`ui`] | the terminal: the screen as a projection of the log, and the keys |
//! | [`headless`] | the engine without a screen: text, JSON, JSON lines; signals |
//! | `server` | `rewake serve`: sessions over HTTP, and the page; a window on the store, without an engine |
//! | [`report`] | what the shell is told: exit codes, data on stdout, notes and errors on stderr |
//! | [`session`] | a session put together: which one, lock, log, layers, rules, world; [driven](session::drive), and [described](session::describe) to people |
//! | [`engine`] | the loop, and what is attended to while a step is in progress |
//! | [`world`] | the one seam: [`world::World`]; [`world::machine`] is the real one |
//! | [`model`] | wire protocols, retries, figures of models, the scripted model |
//! | [`tools`] | one file for each tool, with all that is known of it; what the model reads of it is in `assets/tools` |
//! | [`mcp`] | the Model Context Protocol as a client: eras, tools, calls, and what is known of all servers of a session |
//! | [`command`] | shell commands that outlive the agent: keeper, runs; and [servers](command::server) |
//! | [`sandbox`] | what the system itself keeps a command from doing: Landlock, seccomp, namespaces |
//! | [`store`] | SQLite: append, load, fork, search, blobs, drafts, inbox, signals, locks; trees and contents of files |
//! | [`journal`] | each session a second time, as plain files: lines in a chain of hashes, written, read and salvaged; no SQLite |
//! | [`workspace`] | where "here" is, and whether git may look at it; its [files](workspace::files) as they are now; AGENTS.md; skills; custom commands |
//! | [`net`] | what all clients of HTTP here share: building one, server-sent events, which addresses are private |
//! | [`config`] | layers, and where each value came from; trust; paths; keys |
//! | [`core`] | pure: entries, state, next, prompt, policy. No files, clock, async, logging |
//!
//! # When the context is full
//!
//! [`core::window`] says what leaves: first old results, for a line each ([`core::freeing`]), then
//! whole exchanges. [`core::summary`] asks for a summary of those or makes a digest;
//! [`core::continuation`] writes the note a context begins again from; [`core::budget`] shares out
//! the window. What the user said is never summarised away: [`core::words`] says it again behind
//! each summary and note. What left the context has a [`core::address`] by which a tool reads it
//! whole; what the user's words speak of is brought back (`Recall`). `next` frees results at once
//! (`Free`), begins a summary in the background (`Summarise`) and waits for one only at the hard
//! limit (`Compact`).
//!
//! # Deliberately absent
//!
//! No event bus, no queue of effects, no message list that is edited, no `recover()`, no trait
//! with one implementation besides the seam. Streams are never entries: the text streamed so
//! far goes to a draft, is shown after a crash, and is not sent.
//!
//! No start begins a shell command of the user (`!`) again: one that was recorded and whose keeper
//! never began is told as such. One that has the terminal (`!vim`) has no keeper: it ends with the
//! program, and that is told.

pub mod cli;
pub mod command;
pub mod config;
pub mod core;
pub mod engine;
pub mod headless;
pub mod journal;
pub mod mcp;
pub mod model;
pub mod net;
pub mod report;
pub mod sandbox;
#[cfg(feature = "serve")]
pub mod server;
pub mod session;
pub mod store;
pub mod tools;
pub mod ui;
pub mod workspace;
pub mod world;
