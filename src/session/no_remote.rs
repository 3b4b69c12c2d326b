//! Shared sessions of other machines, in a build without them.

use std::convert::Infallible;

use super::{AppContext, Post, SessionError};
use crate::shared::SharedError;
use crate::store::Store;

/// In this build no session is on another machine.
pub struct Remote {
    pub session: String,
    pub copy: String,
    nowhere: Infallible,
}

fn none() -> SessionError {
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
pub fn post(_: &AppContext, _: &str) -> Result<Post, SessionError> {
    Err(none())
}
