//! An open session of this folder: its lock, log, state, world and settings.
//!
//! The callers drive the engine, with a screen or without. Opening a session writes only the start
//! of a new session or a fork. The engine records that a session was resumed.

mod app_context;
mod asked_change;
mod assembly;
mod authors;
mod bypass;
mod changed_files;
mod changes;
pub mod checks;
#[cfg(feature = "fleet")]
pub mod clone;
pub mod context;
mod custom;
pub mod describe;
mod dismiss;
mod driver;
mod edited;
mod error;
pub mod export;
mod file_change;
mod files;
mod files_rows;
mod fold_cache;
mod fork_files;
mod git;
mod git_settings;
mod git_worktree;
mod given_flags;
pub mod hook_list;
pub mod hooks;
mod last;
mod layers;
mod missing_sessions;
#[cfg(not(feature = "fleet"))]
pub mod no_remote;
mod notify_command;
pub mod objects;
mod offer;
mod opening;
mod permissions;
mod placed_edit;
mod processes;
mod purge;
mod reading;
mod relocation;
#[cfg(feature = "fleet")]
pub mod remote;
mod rename;
mod replica;
#[cfg(feature = "fleet")]
mod repo_address;
mod resume_report;
mod rewind;
mod rewind_preview;
mod said;
pub mod sandbox;
mod served;
mod server_list;
mod server_rows;
mod server_schema;
mod server_words;
mod servers;
mod session_diff;
mod session_list;
mod settings_change;
pub mod shared;
pub mod shared_branch;
mod shared_files;
#[cfg(feature = "fleet")]
pub mod shared_task;
mod skills;
mod steer;
mod summary;
mod takeover;
mod tasks;
mod telemetry;
mod tmp;
mod waits;
mod worktree;
mod worktree_end;
mod worktree_use;
mod worktrees;

pub use crate::core::ending::Ending;
pub use crate::store::{now_ms, short_id};
pub use app_context::{
    AppContext, GivenFlags, VERSION, journal_place, unseen_by_commands, with_journal_count,
};
pub use authors::FileAuthors;
pub use bypass::{fork_without_bypass, is_in_bypass};
pub use changed_files::{ChangedFiles, TreePair, changed_by_call};
pub use changes::looking_git;
pub use custom::{
    CommandFiles, CommandLine, Expanded, NotSaid, UntrustedCommand, commands_to_trust, is_prompt,
    trust_commands,
};
pub use dismiss::{Dismissal, dismiss};
pub use driver::{Attended, Driver, drive};
pub use edited::{EDITED, EditorFiles, MAX_EDITED_BYTES};
pub use error::{NoWorktree, SessionError};
pub use file_change::FileChange;
pub use files::watch;
pub use files_rows::{FilesRow, Grade, files_rows};
pub use fold_cache::FoldCache;
pub use fork_files::{ForkFolder, ForkedInto, NotForked};
pub use given_flags::added_folder;
pub use missing_sessions::MissingSessions;
#[cfg(not(feature = "fleet"))]
pub use no_remote as remote;
pub use notify_command::{NotifyCommand, RunningNotifiers, notification_line};
pub use offer::{Details, Offer, StillRunning, still_running};
pub use permissions::DISK;
pub use placed_edit::{EditPlace, EditQuery, PlacedEdit, edit_places};
pub use processes::{NotStopped, ProcessObject, add_tails, process_objects, stop_process};
pub use purge::lock_with_children;
pub use relocation::Relocation;
pub use rename::rename;
pub use replica::folder_to_confirm;
pub use resume_report::{ResumeReport, ago, clock, resumed_in_short};
pub use rewind_preview::{
    NEVER_SET_BACK, PathBecomes, PathChange, RewindPreview, RewindRow, RewindSection, RewindSums,
    rewind_diff,
};
pub use server_rows::ServerRow;
pub use server_words::{AskServer, DefinedServers, ExpandedWords};
pub use session_diff::{FileDiff, NoDiff, call_diff, session_diff};
pub use session_list::{Finished, SessionList};
pub use settings_change::{SettingsChange, TEMPERATURE_RANGE};
pub use steer::{
    Accepted, Delivery, HERE, MAX_MESSAGE_BYTES, Outgoing, Post, Question, QuestionChoice, Receipt,
    Refusal, SteerError, Steering, check_message, decode_image, denial, read_image,
};
pub use summary::{GLANCE_ENTRIES, SessionState, SessionSummary, glance};
pub use tasks::decode_from_parent;
pub use waits::only_waits_for_person;
pub use worktree_end::{
    EndedWorktree, KeptWorktree, WorktreeRow, removed_ignored_note, worktree_rows,
};
pub use worktrees::Worktrees;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use context::{Gauging, KnownWindows};

use crate::core::entry::{Entry, Record, Seq, Usage};
use crate::core::settings::PermissionCheck;
use crate::core::state::State;
use crate::engine::{Log, Settings};
use crate::mcp::catalogue::SessionCatalogue;
use crate::model::Figures;
use crate::store::{SessionLock, Store};
use crate::world::machine::Machine;

/// The choice of a session to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionSelector {
    New,
    /// The newest one of this workspace. No older one is opened instead.
    Newest {
        /// Whether to open a fork of it instead of the session itself.
        fork: bool,
    },
    /// A session ID, or the beginning of one.
    Named {
        id: String,
        /// Whether to open a fork of it instead of the session itself.
        fork: bool,
    },
    /// The session with this ID. If there is none, it is created.
    Given {
        id: String,
    },
    /// A fork after this entry.
    ForkAt {
        /// A session ID, or the beginning of one.
        id: String,
        /// The last entry that the fork shares.
        seq: Seq,
    },
}

/// An open session of this process. No other process can use it while `lock` lives.
pub struct Session {
    pub id: String,
    pub lock: SessionLock,
    pub log: Log,
    /// Temporary folder of its commands.
    pub tmp: tmp::SessionTmp,
    /// The world in which its tools act.
    pub world: Rc<Machine>,
    pub settings: Settings,
    pub figures: Figures,
    pub gauging: Gauging,
    /// The report about a session that was resumed.
    pub found: Option<ResumeReport>,
    /// Its last entries, if a screen shows them.
    pub recent: Vec<Record>,
    /// Usage so far, by model.
    pub spent: BTreeMap<String, Usage>,
    /// Warnings for the user, not for the model.
    pub warnings: Vec<String>,
    /// The spans that are sent. `None`: telemetry is off.
    pub telemetry: Option<crate::telemetry::Job>,
}

impl Session {
    /// Returns the state after the choices of this start, which the engine records first.
    pub fn state_as_chosen(&self) -> Cow<'_, State> {
        let state = &self.log.state;
        let Some(chosen) = self.settings.chosen.clone() else {
            return Cow::Borrowed(state);
        };
        let record = Record {
            seq: state.next_seq(),
            at_ms: now_ms(),
            entry: Entry::Chose(chosen),
        };
        let mut state = state.clone();
        // If the choice is invalid, recording it gives the error.
        if let Err(error) = state.fold(&record) {
            tracing::warn!(%error, "what was chosen cannot be shown");
        }
        Cow::Owned(state)
    }
}

/// An opened session whose world is not made yet.
struct Opened {
    log: Log,
    lock: SessionLock,
    found: Option<ResumeReport>,
    /// Whether the config applies to it as to a new session.
    as_new: bool,
    recent: Vec<Record>,
    spent: BTreeMap<String, Usage>,
    warnings: Vec<String>,
    catalogue: SessionCatalogue,
}

/// The place at which a fork starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parting {
    /// After the last entry.
    End,
    /// After this entry.
    Behind(Seq),
}

impl AppContext {
    /// Returns the check by the current rules, for a session that works in this folder.
    pub fn permission_check_of(&self, folder: &str) -> Result<PermissionCheck, SessionError> {
        let folder = match folder {
            "" => &self.here.folder,
            folder => Path::new(folder),
        };
        // The session stores the tools of its servers, so the store has them too.
        let catalogue = self.catalogue(&self.open_store()?);
        let hook_files = hooks::files_of_hooks(self);
        let (check, _) =
            permissions::permission_check(self, folder, &hook_files, self.runs()?, catalogue)?;
        Ok(check)
    }

    /// Returns the input for a gauge of the context, for a process that only reads the session.
    pub fn gauging(&self, store: &Store, model: &str) -> Result<Gauging, SessionError> {
        Ok(Gauging {
            known: KnownWindows::read(self, store, &[model])?,
            windows: context::windows(self.config()),
        })
    }
}

/// Returns the message for a journal that cannot be written.
pub fn journal_fails(why: &str) -> String {
    format!("the journal is not written: {why}; the session is in the database alone")
}
