//! `--shared`: sessions of the shared database instead of those of this data folder. Only a build with
//! the feature `fleet` has the flag.

use clap::{Args, Command, Id};
use tracing_appender::non_blocking::WorkerGuard;

use super::place::SessionPlace;
#[cfg(feature = "fleet")]
pub(super) use super::shared_list::list;
use crate::report::{CliError, note};
use crate::session::{AppContext, remote};

/// Whether a subcommand uses the sessions of the shared database. [`SharedCommand`] describes the flag.
#[derive(Debug, Clone, Copy, PartialEq, Default, Args)]
#[group(skip)]
pub(crate) struct SharedFlag {
    #[cfg_attr(feature = "fleet", arg(long))]
    #[cfg_attr(not(feature = "fleet"), arg(skip))]
    shared: bool,
}

/// A subcommand that has the flag.
pub(super) trait SharedCommand {
    /// Sets the help of the flag, and the arguments that exclude it.
    fn shared_flag(self, help: &'static str, conflicts: &'static [&'static str]) -> Command;
}

impl SharedCommand for Command {
    fn shared_flag(self, help: &'static str, conflicts: &'static [&'static str]) -> Command {
        let described = self.mut_args(|arg| {
            if arg.get_id() == "shared" {
                arg.help(help).conflicts_with_all(conflicts)
            } else {
                arg
            }
        });
        // The group of a struct lacks its arguments if one of them is flattened.
        let args = described.get_arguments().map(|arg| arg.get_id().clone());
        let args: Vec<Id> = args.collect();
        let group = described.get_groups().next();
        match group.map(|group| group.get_id().to_string()) {
            Some(group) => described.mut_group(group, |group| group.args(args)),
            None => described,
        }
    }
}

impl SharedFlag {
    pub fn is_given(self) -> bool {
        self.shared
    }

    /// Returns the place. With the flag only a person may use it.
    pub fn place(self, place: SessionPlace) -> Result<SessionPlace, CliError> {
        if self.shared {
            place.of_person()
        } else {
            Ok(place)
        }
    }

    /// Reads the config and starts the log.
    pub fn work(
        self,
        place: SessionPlace,
        log: &mut Option<WorkerGuard>,
    ) -> Result<AppContext, CliError> {
        self.place(place)?.work(log)
    }

    /// Does the same for a subcommand that only reads. With the flag it stores copies, too.
    pub fn look(
        self,
        place: SessionPlace,
        log: &mut Option<WorkerGuard>,
    ) -> Result<AppContext, CliError> {
        if self.shared {
            place.of_person()?.work(log)
        } else {
            place.look(log)
        }
    }

    /// Returns the ID of the session in this data folder. With the flag it is copied here first.
    pub fn local_id(self, ctx: &AppContext, id: &str) -> Result<String, CliError> {
        if !self.shared {
            return Ok(id.to_string());
        }
        let copied = remote::copy(ctx, &mut ctx.open_store()?, id)?;
        copied.notes.iter().for_each(|text| note(text));
        Ok(copied.id)
    }
}

/// Returns the error of a build without shared sessions.
#[cfg(not(feature = "fleet"))]
pub(super) fn list(_: &AppContext, _: bool) -> Result<u8, CliError> {
    Err(remote::none().into())
}
