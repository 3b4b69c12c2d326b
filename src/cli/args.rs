//! The command line as typed: [`Cli`] is the type that clap parses and `--help` documents.
//!
//! Flags for keys of the config become [`Setting`]s, so only the config defines the precedence.
//!
//! Absent on purpose: checks of the terminal, stdin and the environment.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgAction, Args, FromArgMatches, Parser, Subcommand};

use super::run::RunArgs;
#[cfg(feature = "serve")]
use super::serve;
use super::{
    acp, allow, answer, approvals, compact, completion, deny, diff, dismiss, doctor, export, fork,
    gc, history, hooks, import, key, mcp, models, pause, permissions, ps, purge, restore, rewind,
    sandbox, send, set, show, stats, stop, trust, unblock, update,
};
#[cfg(feature = "fleet")]
use super::{fetch, fleet, submit, worker};
use crate::config::{ConfigError, Setting};
use crate::core::text::nearest;

const EXAMPLES: &str = "\
Examples:
  rewake                                open the screen, offer unfinished sessions
  rewake -c                             resume the most recent session here
  rewake -p \"fix the failing test\"      run until done, then print the answer
  git diff | rewake -p \"review this\"    add standard input to the prompt
  rewake -p -c                          finish an interrupted run
  rewake -p -c \"now the docs too\"       send a message to the most recent session here
  rewake -p -r ID --fork-session \"...\"  try another way in a copy of a session
  rewake -p \"...\" --json-schema FILE    print JSON that fits a schema
  rewake -p -m ollama/qwen3 \"...\"       use a local model
  rewake send @here \"use tabs\"          send a message to a running session
  rewake demo                           watch it survive a kill (no key, no network)

Exit codes:
  0 done   1 failed   2 usage or config   75 stopped, can be resumed
  129 SIGHUP   130 SIGINT   143 SIGTERM";

/// A coding agent for the terminal that survives crashes.
///
/// Kill it at any time. The next start picks up where it stopped. Without -p it opens the
/// screen and offers the unfinished sessions of this folder.
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(
    name = "rewake",
    version,
    after_help = EXAMPLES,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(super) run: RunArgs,

    #[command(flatten)]
    common: Common,

    #[command(subcommand)]
    pub(super) command: Option<Command>,

    /// The name of the subcommand.
    #[arg(skip)]
    subcommand: Option<String>,

    /// A `--` stood among the arguments: everything after it is a prompt, even if it looks like a flag.
    #[arg(skip)]
    is_marked: bool,
}

#[derive(Debug, Clone, PartialEq, Args)]
struct Common {
    /// Work in this folder
    #[arg(short = 'C', long = "cd", value_name = "DIR", global = true)]
    cd: Option<PathBuf>,

    /// Override a config key, such as log.level=debug (repeatable)
    #[arg(long, value_name = "KEY=VALUE", action = ArgAction::Append, global = true)]
    set: Vec<String>,
}

/// The subcommands. Each has its arguments and its `run` in a file of its name.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub(super) enum Command {
    History(history::HistoryArgs),
    Show(show::ShowArgs),
    Fork(fork::ForkArgs),
    Diff(diff::DiffArgs),
    Rewind(rewind::RewindArgs),
    Restore(restore::RestoreArgs),
    Gc(gc::GcArgs),
    Purge(purge::PurgeArgs),
    Dismiss(dismiss::DismissArgs),
    Compact(compact::CompactArgs),
    Export(export::ExportArgs),
    Send(send::SendArgs),
    Stop(stop::StopArgs),
    Pause(pause::PauseArgs),
    Unblock(unblock::UnblockArgs),
    Set(set::SetArgs),
    Approvals(approvals::ApprovalsArgs),
    Allow(allow::AllowArgs),
    Deny(deny::DenyArgs),
    Answer(answer::AnswerArgs),
    Ps(ps::PsArgs),
    Import(import::ImportArgs),
    /// Manage MCP servers
    #[command(subcommand)]
    Mcp(mcp::McpAction),
    /// List, test and import hooks
    Hooks {
        #[command(subcommand)]
        action: Option<hooks::HooksAction>,
    },
    Models(models::ModelsArgs),
    Stats(stats::StatsArgs),
    Permissions(permissions::PermissionsArgs),
    Trust(trust::TrustArgs),
    Key(key::KeyArgs),
    Sandbox(sandbox::SandboxArgs),
    Doctor(doctor::DoctorArgs),
    Update(update::UpdateArgs),
    Acp(acp::AcpArgs),
    #[cfg(feature = "fleet")]
    Fetch(fetch::FetchArgs),
    #[cfg(feature = "fleet")]
    Fleet(fleet::FleetArgs),
    #[cfg(feature = "fleet")]
    Submit(submit::SubmitArgs),
    #[cfg(feature = "fleet")]
    Worker(worker::WorkerArgs),
    #[cfg(feature = "serve")]
    Serve(serve::ServeArgs),
    /// Show a session that survives a kill (no key, no network)
    Demo,
    Completion(completion::CompletionArgs),
    /// Print the manual page
    Man,
}

/// Returns the subcommand that the first argument resembles. That argument was parsed as a prompt,
/// so the arguments after it were unknown.
pub(super) fn meant(argv: impl IntoIterator<Item = OsString>) -> Option<String> {
    let first = argv.into_iter().nth(1)?;
    nearest_subcommand(first.to_str()?).filter(|meant| first != meant.as_str())
}

impl Cli {
    /// Parses the arguments of a process, starting with its name.
    pub(crate) fn read(argv: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
        let argv = prompts_bound(argv);
        let is_marked = argv.iter().any(|arg| arg == "--");
        let matches = tree::command().try_get_matches_from(&argv)?;
        let cli = Cli::from_arg_matches(&matches).map_err(|e| e.format(&mut tree::command()))?;
        let subcommand = matches.subcommand_name().map(str::to_string);
        Ok(Cli {
            is_marked,
            subcommand,
            ..cli
        })
    }

    /// Returns the folder to work in, as typed.
    pub(crate) fn cd(&self) -> Option<&PathBuf> {
        self.common.cd.as_ref()
    }

    /// Returns the settings of `--set`, and those of flags, which take precedence.
    pub(crate) fn settings(&self) -> Result<Vec<Setting>, ConfigError> {
        let set = self.common.set.iter().map(|text| Setting::parse(text));
        set.chain(self.run.settings()).collect()
    }

    /// Checks what clap cannot: arguments that contradict each other, and mistyped subcommands.
    pub(crate) fn check(&self) -> Result<(), clap::Error> {
        let Some(command) = &self.command else {
            if let Some(word) = self.run.prompt.as_deref().filter(|_| !self.is_marked)
                && self.run.first_flag().is_none()
                && let Some(meant) = mistyped(word)
            {
                return Err(tree::command().error(ErrorKind::InvalidSubcommand, meant));
            }
            return self.run.check().map_err(conflict);
        };
        if let Some(given) = self.run.first_run_argument() {
            return Err(conflict(format!(
                "{given} cannot be used with the subcommand '{}'\n\n  \
                 tip: to say it as a prompt, quote the whole prompt, or put '--' before it",
                self.subcommand.as_deref().unwrap_or_default()
            )));
        }
        match command {
            Command::Rewind(args) => args.check().map_err(conflict),
            Command::Deny(args) => args.answer().map(|_| ()).map_err(conflict),
            _ => Ok(()),
        }
    }
}

/// Returns an error for a one-word prompt that resembles a subcommand. It was probably not meant
/// for the model, and an answer costs money.
fn mistyped(word: &str) -> Option<String> {
    let meant = match word.to_lowercase().as_str() {
        flag @ ("help" | "version") => format!("--{flag}"),
        _ => nearest_subcommand(word)?,
    };
    Some(format!(
        "there is no subcommand {word:?}: did you mean \"{meant}\"?\n\n  \
         tip: to send it as a prompt: rewake -- {word}"
    ))
}

fn nearest_subcommand(word: &str) -> Option<String> {
    let command = tree::command();
    let names = command.get_subcommands().map(clap::Command::get_name);
    // Many words are similar to a short name, so it must have exactly the same letters.
    let is_near = |name: &&str| name.len() > 3 || has_letters_of(word, name);
    nearest(word, names.filter(is_near)).map(str::to_string)
}

fn has_letters_of(word: &str, name: &str) -> bool {
    let sorted = |text: &str| {
        let mut letters: Vec<char> = text.to_lowercase().chars().collect();
        letters.sort_unstable();
        letters
    };
    sorted(word) == sorted(name)
}

/// Binds the argument after `-p` to it if it cannot be a flag, since no flag has such a second
/// character: `-p "- a list"`. Scripts pass arbitrary text there.
fn prompts_bound(argv: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut bound: Vec<OsString> = Vec::new();
    let mut options = true;
    for arg in argv {
        options &= arg != "--";
        let after_print = bound.last().is_some_and(|l| l == "-p" || l == "--print");
        if options && after_print && is_hyphenated_text(&arg) {
            bound.pop();
            let mut print = OsString::from("--print=");
            print.push(arg);
            bound.push(print);
        } else {
            bound.push(arg);
        }
    }
    // `-p -c go`: without a session to control, the word is the prompt.
    let prints = |arg: &OsString| arg == "-p" || arg == "--print";
    if options
        && bound.iter().any(prints)
        && let Some(last) = bound.pop_if(|last| STEERING.iter().any(|name| last == name))
    {
        bound.extend(["--".into(), last]);
    }
    bound
}

/// Subcommands that are parsed as words of a prompt if no session follows them.
const STEERING: [&str; 9] = [
    "send", "stop", "pause", "unblock", "go", "set", "allow", "deny", "answer",
];

fn is_hyphenated_text(arg: &OsString) -> bool {
    match arg.as_encoded_bytes() {
        [b'-', second, ..] => !second.is_ascii_alphabetic() && *second != b'-',
        _ => false,
    }
}

fn conflict(message: String) -> clap::Error {
    tree::command().error(ErrorKind::ArgumentConflict, message)
}

pub(super) mod foreign;
#[cfg(test)]
mod tests;
pub(super) mod tree;
