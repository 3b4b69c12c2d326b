//! Why a session or its worktree cannot be used, with hints for people.

use std::path::PathBuf;

use crate::config::ConfigError;
use crate::core::state::Illegal;
use crate::shared::SharedError;
use crate::store::StoreError;
use crate::workspace::HereError;

/// Why a session could not be opened, read or driven.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// A shared session of another data folder.
    #[error("session {session} is not in this data folder")]
    Elsewhere { session: String },
    /// An error of the folder that a session works in.
    #[error("session {session}: {why}")]
    Folder { session: String, why: HereError },
    #[error("cannot read session {session}: {why}")]
    Illegal { session: String, why: Illegal },
    /// The workspace with this root has no session to resume.
    #[error("there is no session in {0}")]
    NothingHere(PathBuf),
    /// The workspace has only copies of sessions of other agents.
    #[error("the only sessions here are imported: {session} is one of {agent}")]
    OnlyReplicas { session: String, agent: String },
    /// A fork of an imported session has no folder.
    #[error("cannot continue session {session}: {why}")]
    NoSourceFolder { session: String, why: String },
    /// The requested session is missing, and other recorded sessions are missing too.
    #[error("{why}")]
    Lost {
        why: Box<SessionError>,
        hint: String,
    },
    /// It works in a worktree of rewake that cannot be used or made again.
    #[error(transparent)]
    Worktree(#[from] NoWorktree),
    /// The ID that the user gave cannot be used here.
    #[error("cannot use session {session} here: {why}")]
    GivenId { session: String, why: String },
    /// A supervisor process runs each command, and it is this program.
    #[error("cannot find this program's own file: {0}")]
    OwnExe(std::io::Error),
    /// A command of the session is still running.
    #[error("command {run} of session {session} runs")]
    Running { session: String, run: String },
    #[error("cannot start the runtime: {0}")]
    Runtime(std::io::Error),
    /// An agent could answer its own questions this way, or choose another mode.
    #[error("a session is not resumed from inside a command that an agent runs")]
    BelowAgent,
}

impl SessionError {
    /// Returns whether the requested session is missing.
    pub(super) fn is_missing(&self) -> bool {
        matches!(
            self,
            SessionError::NothingHere(_) | SessionError::Store(StoreError::NotFound { .. })
        )
    }

    /// Returns a hint for a person. `None`: no remedy is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            SessionError::Store(e) => e.hint(),
            SessionError::Config(e) => e.hint().map(str::to_string),
            SessionError::Shared(e) => e.hint().map(str::to_string),
            SessionError::Elsewhere { session } => Some(format!(
                "a fork continues it: rewake fork {session} --shared; without -p, -r watches it"
            )),
            SessionError::Folder { session, .. } => Some(format!(
                "make that folder again; if it was moved: rewake -C DIR -r {session} continues there"
            )),
            SessionError::Illegal { session, .. } => Some(format!(
                "rewake history lists the others; rewake doctor looks at the store ({session})"
            )),
            SessionError::NothingHere(_) => Some(
                "start one: rewake -p \"what to do\"; rewake history lists those of other folders"
                    .into(),
            ),
            SessionError::OnlyReplicas { session, .. } => {
                Some(format!("rewake -r {session} continues it in a fork"))
            }
            SessionError::NoSourceFolder { session, .. } => Some(format!(
                "name the folder in which it continues: rewake -C DIR -r {session}"
            )),
            SessionError::GivenId { .. } => {
                Some("give another UUID, or none: rewake -p \"what to do\"".into())
            }
            SessionError::Lost { hint, .. } => Some(hint.clone()),
            SessionError::Worktree(error) => error.hint().map(str::to_string),
            SessionError::Running { run, .. } => Some(format!("rewake ps stop {run}")),
            SessionError::BelowAgent => Some("type it in a terminal of your own".into()),
            SessionError::OwnExe(_) | SessionError::Runtime(_) => None,
        }
    }
}

/// Why a worktree cannot be used or made.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct NoWorktree {
    what: String,
    hint: Option<String>,
}

impl NoWorktree {
    pub(super) fn new(what: impl Into<String>, hint: impl Into<Option<String>>) -> NoWorktree {
        NoWorktree {
            what: what.into(),
            hint: hint.into(),
        }
    }

    /// Returns a hint for a person.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl From<StoreError> for NoWorktree {
    fn from(error: StoreError) -> NoWorktree {
        NoWorktree::new(error.to_string(), error.hint())
    }
}
