//! Flags of a start that are recorded in the session, so that they apply after a resume and after
//! an update of rewake too.

use crate::core::marks::cut_title;
use std::path::{Path, PathBuf};

use super::layers::AddedByUser;
use super::{AppContext, GivenFlags, Session, SessionError, now_ms};
use crate::config::{Config, ConfigError};
use crate::core::entry::{Choice, RunLimits, Usage};
use crate::core::signal::Signal;
use crate::core::state::State;
use crate::model::Figures;

/// The sender of a name that was given at the start.
const NAME_ORIGIN: &str = "start";

impl GivenFlags {
    /// Returns what the user added to a session, by these flags or by earlier ones. `None`: the
    /// session is new.
    pub(super) fn added(&self, state: Option<&State>) -> AddedByUser {
        let prompt = self.system_prompt.as_ref();
        let prompt = prompt.or(state.map(|state| &state.added_prompt));
        let folders = self.folders.as_ref();
        let folders = folders.or(state.map(|state| &state.added_folders));
        AddedByUser {
            system_prompt: prompt.cloned().unwrap_or_default(),
            folders: folders.cloned().unwrap_or_default(),
        }
    }

    /// Checks that the cost of this model is known, if there is a limit.
    pub(super) fn check_price(&self, config: &Config, model: &str) -> Result<(), ConfigError> {
        let figures = Figures::new(config);
        match self.max_usd.is_some() && figures.cost(model, &Usage::default()).is_none() {
            true => Err(ConfigError::new(format!(
                "--max-usd cannot be used: the price of {model} is unknown"
            ))
            .with_hint(format!(
                "set models.{model:?}.input_price and output_price in config.toml; docs/models.md describes them"
            ))),
            false => Ok(()),
        }
    }

    /// Sends the name of `--name` to a session that has another one.
    pub(super) fn queue_name(&self, session: &mut Session) -> Result<(), SessionError> {
        let log = &mut session.log;
        if let Some(name) = self.name.as_ref()
            && !(log.state.is_named() && log.state.title() == Some(&cut_title(name)))
        {
            let signal = Signal::Name {
                title: name.clone(),
            };
            let mut inbox = log.store.inbox_mut();
            inbox.signal(&session.id, NAME_ORIGIN, now_ms(), |_| signal)?;
        }
        Ok(())
    }

    /// Returns the choice that records the flags that differ from the session.
    pub(super) fn choice(&self, state: &State) -> Choice {
        let limits = RunLimits {
            usd: self.max_usd,
            ..state.run_limits
        };
        let prompt = self.system_prompt.as_ref();
        let folders = self.folders.as_ref();
        Choice {
            limits: self
                .max_usd
                .and_then(|_| (limits != state.run_limits).then_some(limits)),
            system_prompt: prompt.filter(|text| **text != state.added_prompt).cloned(),
            folders: folders.filter(|all| **all != state.added_folders).cloned(),
            ..Choice::default()
        }
    }
}

/// Returns the real path of a folder that may count as part of the workspace.
///
/// # Errors
/// Why it may not, for a person.
pub fn added_folder(ctx: &AppContext, folder: &Path) -> Result<String, String> {
    let path = ctx.env.cwd().join(folder);
    let real = path.canonicalize().map_err(|error| error.to_string())?;
    if !real.is_dir() {
        return Err("it is not a folder".to_string());
    }
    let is_around = |own: &PathBuf| {
        let own = own.canonicalize().unwrap_or(own.clone());
        own.starts_with(&real) || real.starts_with(&own)
    };
    if ctx.own_folders().iter().any(is_around) {
        return Err("it has files of rewake, or is one of its folders".to_string());
    }
    let home = ctx.env.home().and_then(|home| home.canonicalize().ok());
    if home.is_some_and(|home| home.starts_with(&real)) {
        return Err("it has your home folder".to_string());
    }
    match real.to_str() {
        Some(text) if !text.contains(['\n', '\0']) => Ok(text.to_string()),
        _ => Err("its name is not UTF-8, or has a line break".to_string()),
    }
}
