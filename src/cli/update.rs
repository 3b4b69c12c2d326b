//! `rewake update`: installs another version of the program in place.
//!
//! | file | subject |
//! |---|---|
//! | [`channel`] | how the program was installed |
//! | [`release`] | the address of the releases, `SHA256SUMS`, downloads |
//! | [`archive`] | the program in an archive |
//! | [`mod@install`] | downloading, trying and placing a version |
//! | [`folder`] | the names in the folder of the program |
//! | [`check`] | the daily update check |
//!
//! The layout of a release is in docs/install.md. Whatever a release server sends is hostile until
//! its checksum matches, and even then only one regular file of it is used.

mod archive;
mod channel;
mod check;
mod folder;
mod install;
mod release;

use std::fmt::Display;
use std::path::Path;

use clap::Args;
use semver::Version;

use super::confirm::{can_ask, is_yes};
use crate::report::{CliError, exit, line, note};
use crate::session::{AppContext, now_ms};
use channel::{command, installed, write_receipt};
use check::{ask_daily, newer};
use folder::{Folder, OLD, PROGRAM};
use install::{install, lock, undo};
use release::{RELEASES, Release, ReleaseServer};

/// Update a rewake that install.sh installed
///
/// The old program stays beside it as rewake.old. Running sessions keep their version until
/// they end. If rewake was installed another way, it prints how to update it.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct UpdateArgs {
    /// Check for a newer version without installing it
    #[arg(long, conflicts_with_all = ["to", "undo", "yes"])]
    pub check: bool,
    /// Install this version, even an older one
    #[arg(long, value_name = "VERSION", value_parser = version)]
    pub to: Option<Version>,
    /// Go back to the previous version (swaps rewake and rewake.old)
    #[arg(long, conflicts_with = "to")]
    pub undo: bool,
    /// Skip the confirmations
    #[arg(long)]
    pub yes: bool,
}

/// Returns the version of this program. It counts, and not that of the receipt, which a kill may
/// leave old.
fn own_version() -> Result<Version, CliError> {
    let own = env!("CARGO_PKG_VERSION");
    Version::parse(own).map_err(|e| CliError::failed(format!("the version {own}: {e}")))
}

/// Returns the error of a file or folder.
fn failed_at(path: &Path, why: impl Display) -> CliError {
    CliError::failed(format!("{}: {why}", path.display()))
}

fn version(text: &str) -> Result<Version, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    Version::parse(text).map_err(|e| format!("{e}; a version is like 0.1.0"))
}

pub(super) fn run(ctx: &AppContext, args: &UpdateArgs) -> Result<u8, CliError> {
    let runtime = crate::net::runtime().map_err(|error| CliError::failed(error.to_string()))?;
    let data_dir = &ctx.paths.data_dir;
    if args.check {
        let release = runtime.block_on(server(ctx)?.release(None))?;
        return compare(&release, installed(data_dir).is_some());
    }
    let _lock = lock(data_dir)?;
    let folder = installed(data_dir).ok_or_else(|| {
        CliError::failed("install.sh did not install this program").with_hint(command())
    })?;
    folder.lock()?;
    if args.undo {
        let version = runtime.block_on(undo(&folder))?;
        write_receipt(data_dir, &folder, &version);
        line(&format!(
            "{} is version {version} now",
            folder.file(PROGRAM).display()
        ));
        return Ok(exit::DONE);
    }
    if folder.is_old() {
        let program = folder.file(PROGRAM);
        return Err(
            CliError::failed(format!("this is {OLD}, not the installed program")).with_hint(
                format!(
                    "{} update, or go back: {OLD} update --undo",
                    program.display()
                ),
            ),
        );
    }
    let server = server(ctx)?;
    if !server.is_built_in {
        confirm(
            args.yes,
            &format!("{RELEASES} names the address {}", server.base),
            "install from it?",
        )?;
    }
    let release = runtime.block_on(server.release(args.to.as_ref()))?;
    let own = own_version()?;
    match args.to {
        None if release.version <= own => return compare(&release, true),
        Some(_) if release.version == own => {
            line(&format!("rewake {own} is installed already"));
            return Ok(exit::DONE);
        }
        Some(_) if release.version < own => confirm(
            args.yes,
            &format!(
                "version {} is older than {own}, and may refuse the sessions of {own}",
                release.version
            ),
            "install it?",
        )?,
        _ => {}
    }
    note(&format!(
        "installing rewake {} from {}",
        release.version, server.base
    ));
    runtime.block_on(install(&server, &release, &folder))?;
    write_receipt(data_dir, &folder, &release.version);
    report(&folder, &own, &release);
    Ok(exit::DONE)
}

fn report(folder: &Folder, own: &Version, release: &Release) {
    line(&format!(
        "updated rewake {own} to {}: {}",
        release.version,
        folder.file(PROGRAM).display()
    ));
    line(&format!(
        "version {own} is {} now; rewake update --undo goes back",
        folder.file(OLD).display()
    ));
}

fn server(ctx: &AppContext) -> Result<ReleaseServer, CliError> {
    ReleaseServer::find(&ctx.env, ctx.config().update.ca_file.clone())
}

/// Prints the installed and the newest version.
fn compare(release: &Release, is_updated_here: bool) -> Result<u8, CliError> {
    let own = own_version()?;
    line(&format!("installed: {own}"));
    line(&format!("newest:    {}", release.version));
    match (release.version > own, is_updated_here) {
        (false, _) => line("rewake is up to date"),
        (true, true) => line("rewake update installs it"),
        (true, false) => line(&format!("to update: {}", command())),
    }
    Ok(exit::DONE)
}

/// Asks on the terminal.
fn confirm(yes: bool, what: &str, question: &str) -> Result<(), CliError> {
    note(what);
    match yes {
        true => Ok(()),
        false if !can_ask() => Err(CliError::usage(format!(
            "{what}, and there is no terminal to confirm it"
        ))
        .with_hint("add --yes if you want it")),
        false if is_yes(question) => Ok(()),
        false => Err(CliError::usage("nothing was installed")),
    }
}

/// Returns the server for the daily update check: that of this build. Another address would have to
/// be confirmed. A debug build has none, and takes that of the environment, for tests.
fn asked_daily(ctx: &AppContext) -> Option<ReleaseServer> {
    let server = server(ctx).ok().filter(|_| ctx.config().update.check)?;
    (server.is_built_in || cfg!(debug_assertions)).then_some(server)
}

/// Asks the release server for a newer version in the background, if the user's config says so.
pub(super) fn ask_if_wanted(ctx: &AppContext) {
    if let Some(server) = asked_daily(ctx) {
        ask_daily(server, ctx.paths.state_dir.clone(), now_ms());
    }
}

/// Prints a note if a newer version is known and the user wants to know it.
pub(super) fn say_if_newer(ctx: &AppContext) {
    if let Some(server) = asked_daily(ctx)
        && let Some(newest) = newer(&server.base, &ctx.paths.state_dir)
    {
        let how = match installed(&ctx.paths.data_dir) {
            Some(_) => "rewake update".to_string(),
            None => command(),
        };
        note(&format!("version {newest} of rewake is available: {how}"));
    }
}
