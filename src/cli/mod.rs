//! The command line: arguments -> config -> subcommand -> exit code.
//!
//! Each subcommand has a file with its arguments and its `run`. Output and exit codes go through
//! [`crate::report`]. Lower rooms only return values and errors.

mod acp;
mod allow;
mod answer;
mod approvals;
pub(crate) mod args;
mod bridge;
mod bundle;
mod child;
mod compact;
mod completion;
mod confirm;
mod demo;
mod deny;
mod diff;
mod dismiss;
mod doctor;
mod export;
#[cfg(feature = "fleet")]
mod fetch;
#[cfg(feature = "fleet")]
mod fleet;
mod fork;
mod gc;
mod given_flags;
mod history;
mod hooks;
mod import;
mod json_schema;
mod key;
mod logging;
mod man;
mod mcp;
mod models;
mod pause;
mod permissions;
mod place;
mod ps;
mod purge;
mod restore;
mod rewind;
mod run;
mod sandbox;
mod send;
#[cfg(feature = "serve")]
pub(crate) mod serve;
mod set;
mod shared;
#[cfg(feature = "fleet")]
mod shared_list;
mod show;
mod stats;
mod steer;
mod stop;
#[cfg(feature = "fleet")]
mod submit;
mod table;
mod time;
mod trust;
mod unblock;
mod update;
mod values;
#[cfg(feature = "fleet")]
mod worker;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use tracing_appender::non_blocking::WorkerGuard;

use crate::config::{Env, Paths};
use crate::headless::failed_start;
use crate::report::{CliError, exit, lost_output, note, print, raw};
use crate::session::AppContext;
use crate::store::{Store, StoreError};
use args::foreign::{self, ForeignWord};
use args::{Cli, Command, tree};
use place::SessionPlace;

/// Runs the program with the process's arguments, and returns the exit code.
pub fn main() -> u8 {
    lost_output(
        run_as_asked(),
        "the output is not complete: free space there, or print it to another place",
    )
}

fn run_as_asked() -> u8 {
    if let Some((session, run)) = child::asked() {
        return match child::run(&session, &run) {
            Ok(code) => code,
            Err(trouble) => trouble.report(),
        };
    }
    if let Some(args) = bridge::asked() {
        return bridge::run(&args);
    }
    let argv: Vec<OsString> = std::env::args_os().collect();
    let is_json = run::prints_json(&argv);
    if let Some(word) = ForeignWord::find(&argv) {
        return failed(&is_foreign(&word), is_json);
    }
    let cli = match Cli::read(argv) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, is_json),
    };
    // The guard lives until the end, so that errors are logged too.
    let mut log = None;
    match dispatch(cli, &mut log, is_json) {
        Ok(code) => code,
        Err(trouble) => failed(&trouble, is_json),
    }
}

/// Reports the error of a start, also on stdout if a program reads that.
fn failed(error: &CliError, is_json: bool) -> u8 {
    if is_json {
        raw(format!("{}\n", failed_start(error)).as_bytes());
    }
    error.report()
}

/// Opens the store. Prints a note if entries were restored into it.
fn open_store(ctx: &AppContext) -> Result<Store, StoreError> {
    let store = ctx.open_store()?;
    report_restored(&store);
    Ok(store)
}

/// Same as [`open_store`] for commands that only read. It also works on a read-only disk.
fn open_store_for_reading(ctx: &AppContext) -> Result<Store, StoreError> {
    let (store, why) = ctx.open_store_for_reading()?;
    if let Some(why) = why {
        note(&why);
    }
    report_restored(&store);
    Ok(store)
}

fn report_restored(store: &Store) {
    if let Some(line) = store.restore_report().line() {
        note(&line);
    }
}

/// Prints one JSON object on stdout, unchanged.
fn print_json(value: &impl serde::Serialize) -> Result<u8, CliError> {
    let text = serde_json::to_string(value)
        .map_err(|e| CliError::failed(format!("cannot write the answer: {e}")))?;
    raw(format!("{text}\n").as_bytes());
    Ok(exit::DONE)
}

/// Prints help and versions on stdout with exit code 0, wrong usage on stderr with 2.
fn usage(error: &clap::Error, is_json: bool) -> u8 {
    let code = error.exit_code();
    if is_json && error.use_stderr() {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        let why = first.strip_prefix("error: ").unwrap_or(first);
        let error = CliError::usage(why).with_hint("rewake --help lists the flags");
        raw(format!("{}\n", failed_start(&error)).as_bytes());
    }
    match error.use_stderr() {
        true => drop(error.print()),
        false => print(|_| error.print()),
    }
    if error.kind() == clap::error::ErrorKind::UnknownArgument
        && let Some(meant) = args::meant(std::env::args_os())
    {
        note(&format!("hint: did you mean {meant:?}?"));
    }
    if let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg)
        && let Some(own) = foreign::flag(typed)
    {
        note(&format!("hint: rewake has {own} for it"));
    }
    if error.kind() == clap::error::ErrorKind::MissingRequiredArgument
        && let [_, word] = &std::env::args_os().collect::<Vec<_>>()[..]
    {
        if let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg)
            && missing.iter().any(|name| name == "<ID>")
        {
            note("hint: rewake history lists the sessions with their IDs");
        }
        let word = word.to_string_lossy();
        note(&format!("hint: to send it as a prompt: rewake -- {word}"));
    }
    u8::try_from(code).unwrap_or(exit::USAGE)
}

/// Returns the error for a subcommand of another agent. Nothing is opened.
fn is_foreign(word: &ForeignWord) -> CliError {
    let paths = Env::capture(None).and_then(|env| Paths::new(&env));
    let config = paths.map_or("config.toml".into(), |paths| paths.config_file());
    CliError::usage(format!("there is no subcommand {:?}", word.word)).with_hint(word.hint(&config))
}

fn dispatch(cli: Cli, log: &mut Option<WorkerGuard>, is_json: bool) -> Result<u8, CliError> {
    let (cd, settings) = (cli.cd().cloned(), cli.settings()?);
    if let Err(error) = cli.check() {
        return Ok(usage(&error, is_json));
    }
    let place = move || SessionPlace::find(cd, settings);
    let Some(command) = cli.command else {
        return run::run(&place()?.work(log)?, &cli.run);
    };
    match command {
        // These need no files of the machine.
        Command::Completion(args) => completion::run(&args, tree::command()),
        Command::Man => man::run(tree::command()),
        Command::Demo => demo::run(),
        // These need no store, or check it before anything is created.
        Command::Doctor(args) => doctor::run(&place()?, &args),
        Command::Hooks { action } => hooks::run(place()?, &action.unwrap_or_default()),
        Command::Trust(args) => trust::run(&place()?.of_person()?, &args),
        Command::Key(args) => key::run(&place()?.of_person()?.config()?, &args),
        Command::Update(args) => update::run(&place()?.of_person()?.config()?, &args),
        Command::Sandbox(args) => sandbox::run(&place()?.config()?, &args),
        Command::Models(args) => models::run(&place()?.config()?, &args),
        Command::Permissions(args) => permissions::run(&place()?.config()?, &args),
        // These only read the store.
        Command::History(args) => history::run(&args.shared.place(place()?)?.look(log)?, args),
        Command::Show(args) => show::run(&args.shared.look(place()?, log)?, &args),
        Command::Diff(args) => diff::run(&place()?.look(log)?, &args),
        Command::Export(args) => export::run(&args.shared.look(place()?, log)?, &args),
        Command::Stats(args) => stats::run(&place()?.look(log)?, &args),
        Command::Import(args) if args.imports() => {
            import::run(&place()?.of_person()?.work(log)?, &args)
        }
        Command::Import(args) => import::run(&place()?.look(log)?, &args),
        // These write to the store.
        Command::Fork(args) => fork::run(&args.shared.work(place()?, log)?, &args),
        Command::Rewind(args) => rewind::run(&place()?.work(log)?, &args),
        Command::Restore(args) => restore::run(&place()?.work(log)?, &args),
        Command::Gc(args) => gc::run(&place()?.work(log)?, &args),
        Command::Purge(args) => purge::run(&place()?.of_person()?.work(log)?, &args),
        Command::Dismiss(args) => dismiss::run(&place()?.work(log)?, &args),
        Command::Compact(args) => compact::run(&place()?.work(log)?, args),
        Command::Send(args) => send::run(&args.shared.work(place()?, log)?, &args),
        Command::Stop(args) => stop::run(&args.shared.work(place()?, log)?, &args),
        Command::Pause(args) => pause::run(&args.shared.work(place()?, log)?, &args),
        Command::Unblock(args) => unblock::run(&args.shared.work(place()?, log)?, &args),
        Command::Set(args) => set::run(&place()?.work(log)?, &args),
        Command::Approvals(args) => approvals::run(&args.shared.work(place()?, log)?, &args),
        Command::Allow(args) => allow::run(&args.shared.work(place()?, log)?, &args),
        Command::Deny(args) => deny::run(&args.shared.work(place()?, log)?, &args),
        Command::Answer(args) => answer::run(&place()?.work(log)?, &args),
        Command::Ps(args) => ps::run(&place()?.work(log)?, &args),
        Command::Mcp(action) => mcp::run(&place()?.work(log)?, &action),
        #[cfg(feature = "fleet")]
        Command::Submit(args) => submit::run(&place()?.of_person()?.config()?, &args),
        #[cfg(feature = "fleet")]
        Command::Worker(args) => worker::run(&place()?.of_person()?.work(log)?, &args),
        #[cfg(feature = "fleet")]
        Command::Fetch(args) => fetch::run(&place()?.of_person()?.work(log)?, &args),
        #[cfg(feature = "fleet")]
        Command::Fleet(args) => fleet::run(&place()?.of_person()?.config()?, &args),
        Command::Acp(args) => acp::run(place()?, args, log),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(&place()?.work(log)?, args),
    }
}
