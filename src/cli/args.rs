//! The command line as typed, and as it is meant.
//!
//! [`Cli`] is what clap reads and `--help` shows; [`Invocation`] is what is to be done, in
//! which nothing contradicts anything any more. Flags that stand for a key of the config
//! become [`Setting`]s, so that the config alone knows what overrides what.
//!
//! Absent on purpose: looking at the terminal, at stdin or at the environment.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgAction, Args, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use super::answer::AnswerArgs;
use super::diff::Range;
use super::doctor::Asked;
use super::fork::ForkArgs;
use super::gc::Wanted;
use super::invocation::{Invocation, OutputFormat, PageArgs, Run, Sandboxed, Session};
use super::mcp::McpAction;
use super::rewind::{At, RewindArgs};
use super::steer_args::{SendArgs, SetArgs, Steer};
use super::values;
use crate::config::{ConfigError, Setting};
use crate::core::access::Access;
use crate::core::entry::{CallId, Mode, Verdict};
use crate::core::text::nearest;
use crate::headless::Ask;
use crate::session::denial;
use crate::session::export::{Format, Replace};

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
/// Kill it or cut the power: the next start continues where it stopped. Without -p it opens the
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
    /// The task for the model
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,

    #[command(flatten)]
    run: RunArgs,

    #[command(flatten)]
    common: Common,

    #[command(subcommand)]
    command: Option<Command>,

    /// A `--` stood among the arguments: what is behind it is a prompt, whatever it looks like.
    #[arg(skip)]
    is_marked: bool,

    /// Names of earlier versions that were typed, with the new ones.
    #[arg(skip)]
    renamed: Vec<(&'static str, &'static str)>,
}

#[derive(Debug, Clone, PartialEq, Args)]
struct RunArgs {
    /// Run non-interactively and print the final answer
    ///
    /// Standard input is added to the prompt. Write a prompt that looks like a flag as
    /// --print="-like this".
    #[arg(short, long, value_name = "PROMPT", num_args = 0..=1)]
    print: Option<Option<String>>,

    /// Resume the most recent session in this folder
    #[arg(short, long = "continue", conflicts_with = "resume", group = "session")]
    continue_: bool,

    /// Resume a session by ID
    ///
    /// The beginning of an ID is enough; `rewake history` lists them. On the screen, -r without
    /// an ID opens a list to choose from.
    #[arg(short, long, value_name = "ID", num_args = 0..=1, group = "session")]
    resume: Option<Option<String>>,

    /// Continue in a copy of the session (with -c or -r)
    #[arg(long, requires = "session")]
    fork_session: bool,

    /// Work in a new git worktree on the branch rewake/NAME
    ///
    /// The worktree is stored in the data folder and starts at the last commit. Config and rules
    /// of this folder apply in it. With -c it is an existing one. `rewake gc` removes it when
    /// nothing in it would be lost.
    #[arg(
        short,
        long,
        value_name = "NAME",
        conflicts_with = "resume",
        allow_hyphen_values = true
    )]
    worktree: Option<String>,

    /// Offer dismissed sessions too
    #[arg(long, conflicts_with_all = ["print", "session"])]
    all: bool,

    /// Choose the output format of -p
    #[arg(long, value_name = "FORMAT", value_enum, requires = "print")]
    output_format: Option<OutputFormat>,

    /// Print JSON that fits this JSON Schema (with -p)
    ///
    /// rewake validates the answer, and the model gets up to 3 corrections. stdout has only the
    /// JSON. The schema applies to the session until an answer fits.
    #[arg(long, value_name = "FILE|JSON", requires = "print")]
    json_schema: Option<String>,

    /// Set what happens when a call needs approval: deny, wait, wait=30m
    ///
    /// The default is deny. With wait, `rewake allow` or `rewake deny` answers from another
    /// process. When the time is over, rewake exits with 75 and the question stays open.
    #[arg(
        long = "on-approval",
        alias = "ask",
        value_name = "POLICY",
        requires = "print"
    )]
    ask: Option<Ask>,

    /// Use this model
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    model: Option<String>,

    /// Set the reasoning effort of the model
    #[arg(long, value_name = "EFFORT", value_parser = values::effort())]
    effort: Option<String>,

    /// Set what runs without approval
    #[arg(long, value_name = "MODE", value_parser = values::mode())]
    permission_mode: Option<String>,

    /// Skip all approvals and run commands WITHOUT the sandbox
    #[arg(long, conflicts_with = "permission_mode")]
    yolo: bool,

    /// Stay on the terminal's main screen
    #[arg(long, conflicts_with = "print")]
    no_alt_screen: bool,

    /// Leave the mouse to the terminal, to select text
    #[arg(long, conflicts_with = "print")]
    no_mouse: bool,

    /// Print lines only, for screen readers and simple terminals
    ///
    /// Without colour and without moving the cursor. Answer a question with y, a or n and Enter.
    #[arg(long, conflicts_with_all = ["print", "no_alt_screen"])]
    plain: bool,

    /// Stop after N answers of the model
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_turns: Option<u32>,
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

#[derive(Debug, Clone, PartialEq, Subcommand)]
enum Command {
    /// List sessions, or search them for QUERY
    History {
        /// Words to search for in messages, calls and output
        #[arg(value_name = "QUERY")]
        query: Vec<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Print a session
    Show {
        /// Session ID or its beginning
        id: String,
        /// Print a summary as one JSON object (all entries: rewake export --json)
        #[arg(long)]
        json: bool,
    },
    /// Copy a session and print the ID of the copy
    Fork(ForkArgs),
    /// Show the file changes of a session and who made each
    Diff {
        /// Session ID or its beginning
        id: String,
        /// Entries to compare, as `rewake show` numbers them (default: all)
        #[arg(value_name = "FROM[..TO]")]
        range: Option<Range>,
        /// Print only file names, line counts and authors
        #[arg(long)]
        stat: bool,
    },
    /// Rewind files, conversation or both to an entry of a session
    Rewind(RewindArgs),
    /// Restore single files as they were at an entry of a session
    Restore {
        /// Files or folders
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<PathBuf>,
        /// Session and entry, as `rewake show` numbers them
        #[arg(long, value_name = "ID:ENTRY")]
        at: At,
        /// Write the file to FILE (- for stdout) and change nothing else
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Skip the confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Show disk usage, and remove file snapshots of old sessions with --yes
    Gc {
        /// Remove the data instead of only listing it
        #[arg(long)]
        yes: bool,
        /// Select sessions without activity for DAYS [default: files.keep_sec]
        #[arg(long, value_name = "DAYS")]
        older_than: Option<u64>,
    },
    /// Delete a session permanently, also from the journal
    Purge {
        /// Session ID or its beginning
        id: String,
        /// Delete without asking
        #[arg(long)]
        yes: bool,
    },
    /// Stop offering an unfinished session at start-up
    Dismiss {
        /// Session ID or its beginning
        id: String,
    },
    /// Summarise all but the newest turn of a session
    Compact {
        /// Session ID or its beginning
        id: String,
    },
    /// Export a session as Markdown or JSON
    Export {
        /// Session ID or its beginning
        id: String,
        /// Export one JSON object with every entry of the log
        #[arg(long)]
        json: bool,
        /// Write to this file instead of stdout
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Replace an existing file
        #[arg(long, requires = "output")]
        force: bool,
    },
    /// Send a message to a session, also to a running one
    Send(SendArgs),
    /// Stop the current turn of a session
    Stop {
        /// Session ID or its beginning (@here: newest session of this folder)
        id: String,
    },
    /// Pause a session after the calls that are running
    Pause {
        /// Session ID or its beginning (@here: newest session of this folder)
        id: String,
    },
    /// Unblock a paused or failed session
    #[command(alias = "go")]
    Unblock {
        /// Session ID or its beginning (@here: newest session of this folder)
        id: String,
    },
    /// Set the model, mode, effort, temperature or limits of a session
    Set(SetArgs),
    /// List open questions of all sessions and how to answer them
    #[command(alias = "asks")]
    Approvals {
        /// Keep running and print each new question
        #[arg(long)]
        watch: bool,
        /// Print a JSON array (with --watch: one JSON object a line)
        #[arg(long)]
        json: bool,
    },
    /// Allow a call that needs approval, once
    Allow {
        /// Session ID or its beginning (@here: newest session of this folder)
        id: String,
        /// Call to answer, as `rewake approvals` shows it (if there are several)
        #[arg(value_name = "CALL")]
        call: Option<CallId>,
    },
    /// Deny a call that needs approval
    Deny {
        /// Session ID or its beginning (@here: newest session of this folder)
        id: String,
        /// Call, as `rewake approvals` shows it, and a reason for the model
        #[arg(value_name = "CALL|WHY", num_args = 0..=2)]
        rest: Vec<String>,
    },
    /// Answer a question of an MCP server
    Answer(AnswerArgs),
    /// List running commands and servers of all sessions, or stop one
    Ps {
        #[command(subcommand)]
        action: Option<PsAction>,
    },
    /// Manage MCP servers
    Mcp {
        #[command(subcommand)]
        action: McpAction,
    },
    /// List known models with context window, output limit and prices
    Models {
        /// Provider or part of a name
        #[arg(value_name = "FILTER")]
        filter: Option<String>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show sessions, tokens and cost by day, project and model
    Stats {
        /// Count from a day (2026-11-21) or an age (24h, 7d, 4w)
        #[arg(long, value_name = "WHEN")]
        since: Option<String>,
        /// Count only sessions of this folder
        #[arg(long, value_name = "DIR")]
        project: Option<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// List the permission rules of this folder and their sources
    Permissions {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Trust the config, commands and MCP servers of this folder
    Trust {
        /// Withdraw the trust
        #[arg(long)]
        remove: bool,
        /// Trust what is listed without asking
        #[arg(long, conflicts_with = "remove")]
        yes: bool,
    },
    /// Store the API key of a provider
    ///
    /// The key is typed, or read from standard input, and never shown. An environment variable
    /// and api_key_file in the config take precedence over it.
    Key {
        /// Provider, as in PROVIDER/MODEL
        #[arg(value_name = "PROVIDER")]
        provider: String,
        /// Remove the stored key
        #[arg(long)]
        remove: bool,
    },
    /// Run a command in the sandbox
    Sandbox {
        /// Set the access of the command
        #[arg(long, value_name = "LEVEL", default_value = "workspace", value_parser = values::access())]
        access: String,
        /// Act as if the kernel lacked something: abi=N, no-namespaces, no-network, no-pid
        #[arg(long, value_name = "WHAT", hide = true, default_value = "")]
        pretend: String,
        /// Program and arguments
        #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
        command: Vec<OsString>,
    },
    /// Check config, keys, store, git, shell and sandbox
    Doctor {
        /// Accept a database with missing entries and unlock its sessions
        ///
        /// The journal and the record of the newest entry are renamed, not deleted.
        #[arg(long, conflicts_with_all = ["repair", "scrub"])]
        as_is: bool,
        /// Rebuild a damaged or lost database from its rows and the journal
        ///
        /// The old file is renamed, not deleted.
        #[arg(long)]
        repair: bool,
        /// Also read another data folder, database or journal
        #[arg(long, value_name = "PATH", requires = "repair")]
        from: Vec<PathBuf>,
        /// Read all stored data and report damage
        #[arg(long, conflicts_with = "repair")]
        scrub: bool,
    },
    /// Serve sessions over HTTP, for scripts and phones
    #[cfg(feature = "serve")]
    Serve(super::serve::ServeArgs),
    /// Show a session that survives a kill (no key, no network)
    Demo,
    /// Print a shell completion script
    Completion {
        /// Shell to complete for
        shell: Shell,
    },
    /// Print the manual page
    Man,
}

#[derive(Debug, Clone, PartialEq, Subcommand)]
enum PsAction {
    /// Stop a command or a server
    Stop {
        /// ID that `rewake ps` shows
        #[arg(value_name = "RUN")]
        run: String,
    },
}

/// The subcommand that the first argument is most like: it was taken for a prompt, and what stands
/// behind it for nothing that is known.
pub(super) fn meant(argv: impl IntoIterator<Item = OsString>) -> Option<String> {
    let first = argv.into_iter().nth(1)?;
    nearest_subcommand(first.to_str()?).filter(|meant| first != meant.as_str())
}

impl Cli {
    /// Reads the arguments of a process, its name first.
    pub(crate) fn read(argv: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
        let argv = prompts_bound(argv);
        let is_marked = argv.iter().any(|arg| arg == "--");
        let matches = tree::command().try_get_matches_from(&argv)?;
        let cli = Cli::from_arg_matches(&matches).map_err(|e| e.format(&mut tree::command()))?;
        let renamed = tree::renamed(&argv, cli.command.as_ref().map(Command::name));
        Ok(Cli {
            is_marked,
            renamed,
            ..cli
        })
    }

    /// Returns the names of earlier versions that were typed, with the new ones.
    pub(crate) fn renamed(&self) -> &[(&'static str, &'static str)] {
        &self.renamed
    }

    /// The folder to work in, as typed.
    pub(crate) fn cd(&self) -> Option<&PathBuf> {
        self.common.cd.as_ref()
    }

    /// What the flags say of the config. A flag of its own is over `--set`.
    pub(crate) fn settings(&self) -> Result<Vec<Setting>, ConfigError> {
        let run = &self.run;
        let mut settings = self
            .common
            .set
            .iter()
            .map(|text| Setting::parse(text))
            .collect::<Result<Vec<_>, _>>()?;
        if let Some(model) = &run.model {
            settings.push(Setting::new("--model", "model", model.as_str())?);
        }
        if let Some(effort) = &run.effort {
            settings.push(Setting::new("--effort", "effort", effort.as_str())?);
        }
        if let Some(mode) = &run.permission_mode {
            settings.push(Setting::new(
                "--permission-mode",
                "permission_mode",
                mode.as_str(),
            )?);
        }
        if run.yolo {
            let mode = Mode::BypassPermissions.name();
            settings.push(Setting::new("--yolo", "permission_mode", mode)?);
        }
        if let Some(turns) = run.max_turns {
            settings.push(Setting::new("--max-turns", "max_turns", i64::from(turns))?);
        }
        Ok(settings)
    }

    /// What is meant, or what contradicts itself.
    pub(crate) fn invocation(self) -> Result<Invocation, clap::Error> {
        let Some(command) = self.command else {
            if let Some(word) = self.prompt.as_deref().filter(|_| !self.is_marked)
                && first_of(None, &self.run).is_none()
                && let Some(meant) = mistyped(word)
            {
                return Err(tree::command().error(ErrorKind::InvalidSubcommand, meant));
            }
            return run(self.prompt, self.run).map(Invocation::Run);
        };
        if let Some(flag) = first_of(self.prompt.as_deref(), &self.run) {
            return Err(conflict(format!(
                "{flag} cannot be used with the subcommand '{}'\n\n  \
                 tip: to say it as a prompt, quote the whole prompt, or put '--' before it",
                command.name()
            )));
        }
        Ok(match command {
            Command::History { query, page } => Invocation::History {
                query: query.join(" "),
                page,
            },
            Command::Show { id, json } => Invocation::Show { id, json },
            Command::Fork(args) => Invocation::Fork(args),
            Command::Diff { id, range, stat } => Invocation::Diff {
                id,
                range: range.unwrap_or_default(),
                stat,
            },
            Command::Rewind(args) => {
                if !(args.redo || args.files || args.conversation || args.both) {
                    return Err(conflict(
                        "choose what to rewind: --files, --conversation or --both".to_string(),
                    ));
                }
                Invocation::Rewind(args)
            }
            Command::Restore {
                paths,
                at,
                output,
                yes,
            } => Invocation::Restore {
                paths,
                at,
                output,
                yes,
            },
            Command::Gc { yes, older_than } => Invocation::Gc(Wanted {
                older_than_days: older_than,
                yes,
            }),
            Command::Purge { id, yes } => Invocation::Purge { id, yes },
            Command::Dismiss { id } => Invocation::Dismiss { id },
            Command::Compact { id } => Invocation::Compact { id },
            Command::Export {
                id,
                json,
                output,
                force,
            } => Invocation::Export {
                id,
                format: if json { Format::Json } else { Format::Markdown },
                file: output,
                replace: if force { Replace::Yes } else { Replace::No },
            },
            Command::Send(args) => Invocation::Steer(Steer::Send(args)),
            Command::Stop { id } => Invocation::Steer(Steer::Stop { id }),
            Command::Pause { id } => Invocation::Steer(Steer::Pause { id }),
            Command::Unblock { id } => Invocation::Steer(Steer::Go { id }),
            Command::Set(args) => Invocation::Steer(Steer::Set(args)),
            Command::Approvals { watch, json } => Invocation::Steer(Steer::Asks { watch, json }),
            Command::Allow { id, call } => Invocation::Steer(Steer::Answer {
                id,
                call,
                verdict: Verdict::Allow,
            }),
            Command::Answer(args) => Invocation::Steer(Steer::AnswerServer(args)),
            Command::Deny { id, rest } => Invocation::Steer(denied(id, rest)?),
            Command::Ps { action: None } => Invocation::Ps,
            Command::Ps {
                action: Some(PsAction::Stop { run }),
            } => Invocation::PsStop { run },
            Command::Mcp { action } => Invocation::Mcp(action),
            Command::Models { filter, json } => Invocation::Models {
                filter: filter.unwrap_or_default(),
                json,
            },
            Command::Stats {
                since,
                project,
                json,
            } => Invocation::Stats {
                since,
                project,
                json,
            },
            Command::Permissions { json } => Invocation::Permissions { json },
            Command::Key { provider, remove } => Invocation::Key { provider, remove },
            Command::Trust { remove: true, .. } => Invocation::Untrust,
            Command::Trust { yes, .. } => Invocation::Trust { yes },
            Command::Sandbox {
                access,
                pretend,
                command,
            } => Invocation::Sandbox(Sandboxed {
                // clap has checked the name.
                access: Access::named(&access).unwrap_or(Access::Read),
                pretend,
                command,
            }),
            Command::Doctor {
                as_is,
                repair,
                from,
                scrub,
            } => Invocation::Doctor(match (as_is, repair, scrub) {
                (true, ..) => Asked::AsIs,
                (_, true, _) => Asked::Repair { from },
                (_, _, true) => Asked::Scrub,
                _ => Asked::Look,
            }),
            #[cfg(feature = "serve")]
            Command::Serve(args) => Invocation::Serve(args),
            Command::Demo => Invocation::Demo,
            Command::Completion { shell } => Invocation::Completion { shell },
            Command::Man => Invocation::Man,
        })
    }
}

impl Command {
    fn name(&self) -> &'static str {
        match self {
            Command::History { .. } => "history",
            Command::Show { .. } => "show",
            Command::Fork(_) => "fork",
            Command::Diff { .. } => "diff",
            Command::Rewind(_) => "rewind",
            Command::Restore { .. } => "restore",
            Command::Gc { .. } => "gc",
            Command::Purge { .. } => "purge",
            Command::Dismiss { .. } => "dismiss",
            Command::Compact { .. } => "compact",
            Command::Export { .. } => "export",
            Command::Send(_) => "send",
            Command::Stop { .. } => "stop",
            Command::Pause { .. } => "pause",
            Command::Unblock { .. } => "unblock",
            Command::Set(_) => "set",
            Command::Approvals { .. } => "approvals",
            Command::Allow { .. } => "allow",
            Command::Deny { .. } => "deny",
            Command::Answer(_) => "answer",
            Command::Ps { .. } => "ps",
            Command::Mcp { .. } => "mcp",
            Command::Models { .. } => "models",
            Command::Stats { .. } => "stats",
            Command::Permissions { .. } => "permissions",
            Command::Key { .. } => "key",
            Command::Trust { .. } => "trust",
            Command::Sandbox { .. } => "sandbox",
            Command::Doctor { .. } => "doctor",
            #[cfg(feature = "serve")]
            Command::Serve(_) => "serve",
            Command::Demo => "demo",
            Command::Completion { .. } => "completion",
            Command::Man => "man",
        }
    }
}

/// `deny ID`, `deny ID 12.0`, `deny ID "why"` and `deny ID 12.0 "why"`.
fn denied(id: String, rest: Vec<String>) -> Result<Steer, clap::Error> {
    let mut rest = rest.into_iter().peekable();
    let call = rest.next_if(|word| word.parse::<CallId>().is_ok());
    let call = call.and_then(|word| word.parse().ok());
    let reason = rest.next();
    match rest.next() {
        Some(more) => Err(conflict(format!(
            "the reason is one argument, and {more:?} is another: quote the whole reason"
        ))),
        None => Ok(Steer::Answer {
            id,
            call,
            verdict: denial(reason),
        }),
    }
}

/// The first argument that only a run has a use for.
fn first_of(prompt: Option<&str>, run: &RunArgs) -> Option<String> {
    let given = [
        (run.print.is_some(), "--print"),
        (run.continue_, "--continue"),
        (run.resume.is_some(), "--resume"),
        (run.worktree.is_some(), "--worktree"),
        (run.json_schema.is_some(), "--json-schema"),
        (run.ask.is_some(), "--on-approval"),
        (run.model.is_some(), "--model"),
        (run.effort.is_some(), "--effort"),
        (run.permission_mode.is_some(), "--permission-mode"),
        (run.yolo, "--yolo"),
        (run.all, "--all"),
        (run.max_turns.is_some(), "--max-turns"),
    ];
    prompt
        .map(|text| format!("the prompt {text:?}"))
        .or_else(|| {
            given
                .into_iter()
                .find(|(given, _)| *given)
                .map(|(_, flag)| format!("'{flag}'"))
        })
}

/// What is said of a prompt that is one word, and nearly the name of a subcommand: the call of the
/// model that it would cost is hardly meant.
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
    // Of a short name too many words are near: only its own letters are taken for it.
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

fn run(prompt: Option<String>, args: RunArgs) -> Result<Run, clap::Error> {
    let prompt = match (prompt, args.print.clone().flatten()) {
        (Some(one), Some(other)) => {
            return Err(conflict(format!(
                "there are two prompts, {other:?} and {one:?}: quote the whole prompt"
            )));
        }
        (one, other) => one.or(other),
    };
    let headless = args
        .print
        .is_some()
        .then(|| args.output_format.unwrap_or_default());
    let fork = args.fork_session;
    let session = match (args.continue_, args.resume) {
        (true, _) => Session::Newest { fork },
        (false, Some(Some(id))) => Session::Named { id, fork },
        (false, Some(None)) if headless.is_some() => {
            return Err(conflict(
                "'--resume' needs the id of a session when there is no terminal to pick one; \
                 `rewake history` lists them"
                    .to_string(),
            ));
        }
        (false, Some(None)) => Session::Pick { fork },
        (false, None) => Session::New,
    };
    Ok(Run {
        prompt,
        headless,
        session,
        worktree: args.worktree,
        all: args.all,
        no_alt_screen: args.no_alt_screen,
        no_mouse: args.no_mouse,
        plain: args.plain,
        json_schema: args.json_schema,
        ask: args.ask.unwrap_or_default(),
    })
}

/// `-p "- a list"`: what follows `-p` and can be no flag, since no flag has such a second
/// character, is bound to it. Scripts pass any text there.
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
    // `-p -c go`: without a session to steer it is what is said.
    let prints = |arg: &OsString| arg == "-p" || arg == "--print";
    if options
        && bound.iter().any(prints)
        && let Some(last) = bound.pop_if(|last| STEERING.iter().any(|name| last == name))
    {
        bound.extend(["--".into(), last]);
    }
    bound
}

/// Subcommands that are words of a prompt, too, where no session is named behind them.
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

#[cfg(test)]
mod tests;
pub(super) mod tree;
