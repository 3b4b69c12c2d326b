//! Shared sessions of other machines, in a build without them.

use std::convert::Infallible;

use super::{AppContext, Post, Question, SessionError, Steering};
use crate::shared::SharedError;
use crate::store::Store;

/// In this build no session is on another machine.
pub struct Remote {
    pub session: String,
    pub copy: String,
    nowhere: Infallible,
}

/// A copy of a session of a database.
pub struct Copied {
    pub id: String,
    pub notes: Vec<String>,
}

/// Returns the error of a build without shared sessions.
pub fn none() -> SessionError {
    SharedError::setup(
        "this build of rewake has no shared sessions",
        "build it with the feature `fleet`",
    )
    .into()
}

impl Remote {
    /// # Errors
    /// Always.
    pub fn open(_: &AppContext, _: &mut Store, _: &str) -> Result<Remote, SessionError> {
        Err(none())
    }

    /// # Errors
    /// Never: there is no such value.
    pub fn pull(&mut self, _: &mut Store) -> Result<(), SessionError> {
        match self.nowhere {}
    }
}

/// # Errors
/// Always.
pub fn copy(_: &AppContext, _: &mut Store, _: &str) -> Result<Copied, SessionError> {
    Err(none())
}

/// # Errors
/// Always.
pub fn steering(_: &AppContext, _: &str) -> Result<(Steering, String), SessionError> {
    Err(none())
}

/// # Errors
/// Always.
pub fn each_questions(
    _: &AppContext,
    _: &mut dyn FnMut(Result<Vec<Question>, SessionError>),
) -> Result<(), SessionError> {
    Err(none())
}

/// # Errors
/// Always.
pub fn post(_: &AppContext, _: &str) -> Result<Post, SessionError> {
    Err(none())
}
