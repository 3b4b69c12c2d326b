//! The command line: arguments -> config -> what is asked -> exit code.
//!
//! One file for each subcommand. What they print and their exit codes go through
//! [`crate::report`]; the rooms below that return values and errors.

mod answer;
pub(crate) mod args;
mod bridge;
mod child;
mod compact;
mod completion;
mod confirm;
mod demo;
mod diff;
mod dismiss;
mod doctor;
mod export;
mod fork;
mod gc;
mod history;
mod invocation;
mod json_schema;
mod key;
mod logging;
mod mcp;
mod models;
mod permissions;
mod ps;
mod purge;
mod rewind;
mod run;
mod sandbox;
#[cfg(feature = "serve")]
pub(crate) mod serve;
mod show;
mod stats;
mod steer;
mod steer_args;
mod table;
mod time;
mod trust;
mod values;

use tracing_appender::non_blocking::WorkerGuard;

use crate::command;
use crate::config::{self, Env, Paths};
use crate::report::{Trouble, exit, lost_output, note, print, raw};
use crate::session::AppContext;
use crate::store::{Store, StoreError};
use crate::workspace::{Here, here};
use args::Cli;
use invocation::Invocation;

/// Runs what the arguments ask for, and gives the exit code.
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
    let cli = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    for (old, new) in cli.renamed() {
        note(&format!("hint: {old} is now {new}"));
    }
    // Kept to the end: what went wrong is logged too.
    let mut log = None;
    match dispatch(cli, &mut log) {
        Ok(code) => code,
        Err(trouble) => trouble.report(),
    }
}

/// The store of this start. What was put back into it is said, whichever command did it.
fn open_store(ctx: &AppContext) -> Result<Store, StoreError> {
    let store = ctx.open_store()?;
    say_what_came_back(&store);
    Ok(store)
}

/// The same for what only reads: also where nothing can be written.
fn open_store_to_look(ctx: &AppContext) -> Result<Store, StoreError> {
    let (store, why) = ctx.open_store_to_look()?;
    if let Some(why) = why {
        note(&why);
    }
    say_what_came_back(&store);
    Ok(store)
}

fn say_what_came_back(store: &Store) {
    if let Some(line) = store.brought().line() {
        note(&line);
    }
    if let Some(line) = store.made_anew() {
        note(&line);
    }
}

/// One JSON object on stdout, for programs: as it is.
fn print_json(value: &impl serde::Serialize) -> Result<u8, Trouble> {
    let text = serde_json::to_string(value)
        .map_err(|e| Trouble::new(exit::FAILED, format!("cannot write the answer: {e}")))?;
    raw(format!("{text}\n").as_bytes());
    Ok(exit::DONE)
}

/// Help and versions go to stdout with 0, wrong usage to stderr with 2.
fn usage(error: &clap::Error) -> u8 {
    let code = error.exit_code();
    match error.use_stderr() {
        true => drop(error.print()),
        false => print(|_| error.print()),
    }
    if error.kind() == clap::error::ErrorKind::UnknownArgument
        && let Some(meant) = args::meant(std::env::args_os())
    {
        note(&format!("hint: did you mean {meant:?}?"));
    }
    if error.kind() == clap::error::ErrorKind::MissingRequiredArgument
        && let [_, word] = &std::env::args_os().collect::<Vec<_>>()[..]
    {
        let word = word.to_string_lossy();
        note(&format!("hint: to send it as a prompt: rewake -- {word}"));
    }
    u8::try_from(code).unwrap_or(exit::USAGE)
}

fn dispatch(cli: Cli, log: &mut Option<WorkerGuard>) -> Result<u8, Trouble> {
    let cd = cli.cd().cloned();
    let settings = cli.settings()?;
    let invocation = match cli.invocation() {
        Ok(invocation) => invocation,
        Err(error) => return Ok(usage(&error)),
    };
    // These need nothing of the machine.
    match invocation {
        Invocation::Completion { shell } => return completion::run(shell),
        Invocation::Man => return completion::man(),
        Invocation::Demo => return demo::run(),
        _ => {}
    }
    let env = Env::capture(cd.as_deref())?;
    let paths = Paths::new(&env)?;
    let here = here(&env.cwd().join(cd.unwrap_or_default()))?;
    if let Invocation::Doctor(asked) = invocation {
        return doctor::run(&env, &paths, &here, &settings, &asked);
    }
    match paths.create() {
        // What is there can be looked at where nothing can be made.
        Err(_) if only_looks(&invocation) => {}
        created => created?,
    }
    if is_for_a_person(&invocation) && command::is_below_keeper(env.var(command::keeper::RUN_ENV)) {
        return Err(Trouble::new(
            exit::USAGE,
            "trust, keys and sessions are not changed from inside a command that an agent runs",
        )
        .with_hint("type it in a terminal of your own"));
    }
    match invocation {
        Invocation::Trust { yes } => {
            return trust::trust(&paths, &project_of(&paths, &here)?, yes);
        }
        Invocation::Untrust => return trust::untrust(&paths, &project_of(&paths, &here)?),
        _ => {}
    }
    let loaded = config::load(&env, &paths, &here.root, &settings)?;
    let ctx = AppContext {
        env,
        paths,
        here,
        loaded,
        flags: settings,
    };
    match &invocation {
        Invocation::Sandbox(wanted) => return sandbox::run(&ctx, wanted),
        Invocation::Key { provider, remove } => {
            return key::run(ctx.config(), &ctx.env, &ctx.paths, provider, *remove);
        }
        Invocation::Models { filter, json } => return models::run(ctx.config(), filter, *json),
        Invocation::Permissions { json } => return permissions::run(&ctx, *json),
        _ => {}
    }
    *log = logging::start(&ctx.paths, ctx.config().log.level);
    work(&ctx, invocation)
}

/// What a model could give itself more with, or remove for good.
fn is_for_a_person(invocation: &Invocation) -> bool {
    matches!(
        invocation,
        Invocation::Trust { .. }
            | Invocation::Untrust
            | Invocation::Key { .. }
            | Invocation::Purge { .. }
    )
}

/// The project that a worktree of rewake's is of: what is trusted there holds in it.
fn project_of(paths: &Paths, here_now: &Here) -> Result<Here, Trouble> {
    match config::project_root(paths, &here_now.root)? {
        root if root == here_now.root => Ok(here_now.clone()),
        root => Ok(here(&root)?),
    }
}

/// What only reads the store.
fn only_looks(invocation: &Invocation) -> bool {
    matches!(
        invocation,
        Invocation::History { .. }
            | Invocation::Show { .. }
            | Invocation::Diff { .. }
            | Invocation::Export { .. }
            | Invocation::Stats { .. }
    )
}

/// What needs the store.
fn work(ctx: &AppContext, invocation: Invocation) -> Result<u8, Trouble> {
    match invocation {
        Invocation::Run(run) => match &run.worktree {
            Some(name) => {
                let resumes = matches!(run.session, invocation::Session::Newest { .. });
                let its = ctx.in_worktree(name, resumes)?;
                run::run(&its, run)
            }
            None => run::run(ctx, run),
        },
        Invocation::History { query, page } => history::run(ctx, &query, page),
        Invocation::Show { id, json } => show::run(ctx, &id, json),
        Invocation::Fork(wanted) => fork::run(ctx, &wanted),
        Invocation::Diff { id, range, stat } => diff::run(ctx, &id, range, stat),
        Invocation::Rewind(wanted) => rewind::run(ctx, &wanted),
        Invocation::Restore {
            paths,
            at,
            output,
            yes,
        } => rewind::restore(ctx, &paths, &at, output.as_deref(), yes),
        Invocation::Gc(wanted) => gc::run(ctx, wanted),
        Invocation::Purge { id, yes } => purge::run(ctx, &id, yes),
        Invocation::Dismiss { id } => dismiss::run(ctx, &id),
        Invocation::Compact { id } => compact::run(ctx, &id),
        Invocation::Export {
            id,
            format,
            file,
            replace,
        } => {
            let file = file.as_deref().map(|file| (file, replace));
            export::run(ctx, &id, format, file)
        }
        Invocation::Stats {
            since,
            project,
            json,
        } => stats::run(ctx, since.as_deref(), project.as_deref(), json),
        Invocation::Steer(steer) => steer::run(ctx, steer),
        #[cfg(feature = "serve")]
        Invocation::Serve(args) => serve::run(ctx, args),
        Invocation::Mcp(action) => mcp::run(ctx, &action),
        Invocation::Ps => ps::list(ctx),
        Invocation::PsStop { run } => ps::stop(ctx, &run),
        Invocation::Completion { .. }
        | Invocation::Man
        | Invocation::Demo
        | Invocation::Doctor(_)
        | Invocation::Sandbox(_)
        | Invocation::Models { .. }
        | Invocation::Permissions { .. }
        | Invocation::Key { .. }
        | Invocation::Trust { .. }
        | Invocation::Untrust => Ok(exit::DONE),
    }
}
