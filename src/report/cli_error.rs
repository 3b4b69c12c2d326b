//! An error for the user: message, hint and exit code.

use std::io::ErrorKind;

use super::exit;
use crate::bundle::BundleError;
use crate::config::ConfigError;
use crate::core::visible::visible;
use crate::engine::EngineError;
use crate::session::export::ExportError;
use crate::session::{SessionError, SteerError};
use crate::shared::SharedError;
use crate::store::StoreError;
use crate::workspace::HereError;

/// An error that ends the program: the text for the user, and the exit code.
#[derive(Debug)]
pub struct CliError {
    pub message: String,
    /// Advice for the user.
    pub hint: Option<String>,
    /// The exit code.
    pub code: u8,
}

impl CliError {
    /// Creates an error without a hint. `code` is the exit code.
    pub fn new(code: u8, message: impl Into<String>) -> CliError {
        CliError {
            message: message.into(),
            hint: None,
            code,
        }
    }

    /// Creates an error for a request that makes no sense.
    pub fn usage(message: impl Into<String>) -> CliError {
        CliError::new(exit::USAGE, message)
    }

    /// Creates an error for work that failed.
    pub fn failed(message: impl Into<String>) -> CliError {
        CliError::new(exit::FAILED, message)
    }

    /// Adds advice for the user, if there is any.
    pub fn with_any_hint(self, hint: Option<impl Into<String>>) -> CliError {
        CliError {
            hint: hint.map(Into::into),
            ..self
        }
    }

    /// Adds advice for the user.
    pub fn with_hint(mut self, hint: impl Into<String>) -> CliError {
        self.hint = Some(hint.into());
        self
    }

    /// Reports the error on stderr and in the log. Returns the exit code.
    pub fn report(&self) -> u8 {
        tracing::error!(code = self.code, "{}", self.message);
        super::error(&self.message, self.hint.as_deref());
        self.code
    }
}

/// Reports that data on stdout was lost, if it was. The hint says how to get it. Returns the exit
/// code of a program that would have ended with `code`.
pub fn lost_output(code: u8, hint: &str) -> u8 {
    let Some(error) = super::take_lost_output() else {
        return code;
    };
    let lost = CliError::new(exit::FAILED, format!("cannot write to stdout: {error}"));
    let failed = lost.with_hint(hint).report();
    match code {
        exit::DONE => failed,
        code => code,
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> CliError {
        CliError::usage(error.to_string()).with_any_hint(error.hint())
    }
}

impl From<HereError> for CliError {
    fn from(error: HereError) -> CliError {
        CliError::usage(error.to_string())
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> CliError {
        CliError::new(code_of(&error), error.to_string()).with_any_hint(error.hint())
    }
}

impl From<&EngineError> for CliError {
    fn from(error: &EngineError) -> CliError {
        let code = match error {
            // The user typed no name, so this is not a usage error.
            EngineError::Store(error) if code_of(error) == exit::USAGE => exit::FAILED,
            EngineError::Store(error) => code_of(error),
            EngineError::Illegal(_) => exit::FAILED,
            EngineError::Shared(error) => code_of_shared(error),
        };
        CliError::new(code, error.to_string()).with_any_hint(error.hint())
    }
}

fn code_of_shared(error: &SharedError) -> u8 {
    match error {
        SharedError::Setup { .. } | SharedError::Missing { .. } => exit::USAGE,
        SharedError::Away { .. } | SharedError::Lost { .. } | SharedError::Forgot { .. } => {
            exit::RESUMABLE
        }
        SharedError::Failed { .. } => exit::FAILED,
    }
}

impl From<SharedError> for CliError {
    fn from(error: SharedError) -> CliError {
        CliError::new(code_of_shared(&error), error.to_string()).with_any_hint(error.hint())
    }
}

fn code_of(error: &StoreError) -> u8 {
    match error {
        StoreError::Held { .. }
        | StoreError::Elsewhere { .. }
        | StoreError::Locked { .. }
        | StoreError::InUse { .. }
        | StoreError::Busy { .. }
        | StoreError::Full { .. }
        | StoreError::DiskError { .. }
        | StoreError::Moved { .. }
        | StoreError::HeadMoved { .. } => exit::RESUMABLE,
        StoreError::NotFound { .. }
        | StoreError::Ambiguous { .. }
        | StoreError::Replica { .. }
        | StoreError::Shared { .. } => exit::USAGE,
        StoreError::TooMany { .. }
        | StoreError::Newer { .. }
        | StoreError::Unknown { .. }
        | StoreError::Older { .. }
        | StoreError::Gap(_)
        | StoreError::BackInTime { .. }
        | StoreError::Corrupt { .. }
        | StoreError::Damaged { .. }
        | StoreError::Unreadable { .. }
        | StoreError::Network { .. }
        | StoreError::InTheWay { .. }
        | StoreError::Io { .. }
        | StoreError::Sqlite { .. }
        | StoreError::Encode { .. } => exit::FAILED,
    }
}

impl From<SessionError> for CliError {
    fn from(error: SessionError) -> CliError {
        match error {
            SessionError::Store(error) => error.into(),
            SessionError::Config(error) => error.into(),
            SessionError::Shared(error) => error.into(),
            SessionError::NothingHere(_)
            | SessionError::Elsewhere { .. }
            | SessionError::OnlyReplicas { .. }
            | SessionError::NoSourceFolder { .. }
            | SessionError::Folder { .. }
            | SessionError::Worktree(_)
            | SessionError::GivenId { .. }
            | SessionError::BelowAgent => {
                CliError::usage(error.to_string()).with_any_hint(error.hint())
            }
            SessionError::Lost { why, hint } => CliError::from(*why).with_hint(hint),
            SessionError::Illegal { .. }
            | SessionError::Running { .. }
            | SessionError::OwnExe(_)
            | SessionError::Runtime(_) => {
                CliError::failed(error.to_string()).with_any_hint(error.hint())
            }
        }
    }
}

impl From<BundleError> for CliError {
    fn from(error: BundleError) -> CliError {
        match error {
            // What the journal has would be missing in the bundle.
            BundleError::Store(error) if error.is_damage() => {
                let error = CliError::failed(error.to_string());
                error.with_hint("rewake doctor --repair restores what the journal has")
            }
            BundleError::Store(error) => error.into(),
            BundleError::Io(e) if e.kind() == ErrorKind::BrokenPipe => {
                CliError::failed("the reader of the bundle ended")
            }
            error => CliError::failed(visible(&error.to_string())).with_any_hint(error.hint()),
        }
    }
}

impl From<ExportError> for CliError {
    fn from(error: ExportError) -> CliError {
        match error {
            ExportError::Store(error) => error.into(),
            ExportError::Exists(_) => CliError::usage(error.to_string())
                .with_hint("give another name, or --force to replace it"),
            ExportError::Write(_) | ExportError::File { .. } => CliError::failed(error.to_string()),
        }
    }
}

impl From<SteerError> for CliError {
    fn from(error: SteerError) -> CliError {
        match error {
            SteerError::Session(error) => error.into(),
            SteerError::Refused { what, hint, .. } => CliError::usage(what).with_hint(hint),
        }
    }
}
