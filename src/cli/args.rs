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
use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand};
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
  rewake                                the screen; offers what is unfinished here
  rewake -c                             resume the newest session here
  rewake -p \"fix the failing test\"      work until it is done, then print the answer
  git diff | rewake -p \"review this\"    what is piped in is added to the prompt
  rewake -p -c                          resume what was interrupted here
  rewake -p -c \"now the docs too\"       say more to the newest session here
  rewake -p -r ID --fork-session \"...\"  try another way in a copy of a session
  rewake -p \"...\" --json-schema FILE    the answer as JSON that fits a schema
  rewake -p -m ollama/qwen3 \"...\"       use a local model
  rewake send @here \"use tabs\"          say something to an agent at work; rewake asks,
                                        allow, deny, pause, go, stop and set steer it
  rewake demo                           see it survive a kill: no key, no network

Exit codes:
  0 done   1 failed   2 usage or config   75 stopped, can be resumed
  129 SIGHUP   130 SIGINT   143 SIGTERM";

/// A coding agent for the terminal that cannot lose its place.
///
/// Kill it, or cut the power: it goes on where it was. Without -p it takes the terminal, and
/// offers what is unfinished here.
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(
    name = "rewake",
    version,
    after_help = EXAMPLES,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// What to do
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
}

#[derive(Debug, Clone, PartialEq, Args)]
struct RunArgs {
    /// Work without a terminal until the model ends its turn; stdin is added to the prompt
    ///
    /// A prompt that looks like a flag is given as --print="-like this".
    #[arg(short, long, value_name = "PROMPT", num_args = 0..=1)]
    print: Option<Option<String>>,

    /// Go on with the newest session of this folder
    #[arg(short, long = "continue", conflicts_with = "resume", group = "session")]
    continue_: bool,

    /// Go on with a session: by its id or the beginning of it, as `rewake history` lists them
    #[arg(short, long, value_name = "ID", num_args = 0..=1, group = "session")]
    resume: Option<Option<String>>,

    /// With -c or -r: go on in a copy, and leave the session as it is
    #[arg(long, requires = "session")]
    fork_session: bool,

    /// Work in a new git worktree of this name, on the branch rewake/NAME; with -c in one that is there
    ///
    /// It lies in the data folder and begins at the last commit here. The config and the rules of
    /// this folder hold in it. `rewake gc` removes it when nothing in it would be lost.
    #[arg(
        short,
        long,
        value_name = "NAME",
        conflicts_with = "resume",
        allow_hyphen_values = true
    )]
    worktree: Option<String>,

    /// Offer the sessions too that were dismissed
    #[arg(long, conflicts_with_all = ["print", "session"])]
    all: bool,

    /// With -p: what is printed
    #[arg(long, value_name = "FORMAT", value_enum, requires = "print")]
    output_format: Option<OutputFormat>,

    /// With -p: the answer is JSON that fits this JSON Schema, given as a file or as JSON
    ///
    /// It is compared here, and the model is told up to 3 times what does not fit. stdout is the
    /// JSON and nothing else. It holds for the session until an answer fits.
    #[arg(long, value_name = "FILE|JSON", requires = "print")]
    json_schema: Option<String>,

    /// With -p: what becomes of what would ask: deny, wait, or wait=30m for so long at most
    ///
    /// wait: it is asked, and `rewake allow` or `rewake deny` answers from another process. When
    /// the time is over it exits with 75, and the question stays open.
    #[arg(long, value_name = "WHAT", requires = "print")]
    ask: Option<Ask>,

    /// The model, as provider/model
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    model: Option<String>,

    /// How hard the model is to think: none, minimal, low, medium, high, xhigh, max
    #[arg(long, value_name = "EFFORT", value_parser = values::effort())]
    effort: Option<String>,

    /// What runs without asking
    #[arg(long, value_name = "MODE", value_parser = values::mode())]
    permission_mode: Option<String>,

    /// Ask nothing: the same as --permission-mode bypassPermissions; deny rules still hold
    #[arg(long, conflicts_with = "permission_mode")]
    yolo: bool,

    /// In a terminal: do not use its other screen; the conversation is printed at the end
    #[arg(long, conflicts_with = "print")]
    no_alt_screen: bool,

    /// In a terminal: leave the mouse to it, to select text; ui.mouse = false does so always
    #[arg(long, conflicts_with = "print")]
    no_mouse: bool,
    /// In a terminal: lines only, for screen readers and terminals that cannot be drawn on
    ///
    /// Nothing is drawn over, no cursor is moved and there is no colour. Questions and commands
    /// are answered by a line: y, a or n and Enter.
    #[arg(long, conflicts_with_all = ["print", "no_alt_screen"])]
    plain: bool,

    /// Stop after N calls of the model
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_turns: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Args)]
struct Common {
    /// Work in this folder
    #[arg(short = 'C', long = "cd", value_name = "DIR", global = true)]
    cd: Option<PathBuf>,

    /// Override a key of the config: --set log.level=debug (repeatable)
    #[arg(long, value_name = "KEY=VALUE", action = ArgAction::Append, global = true)]
    set: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Subcommand)]
enum Command {
    /// List sessions, or those in which QUERY was said or printed
    History {
        #[arg(value_name = "QUERY")]
        query: Vec<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Print a session
    Show {
        /// The id of a session, or the beginning of it
        id: String,
        /// What is known of it, as one JSON object; `rewake export --json` has its entries
        #[arg(long)]
        json: bool,
    },
    /// Copy a session, and print the id of the copy
    Fork(ForkArgs),
    /// Show what changed in the files during a session: by calls, by commands and by hand
    Diff {
        /// The id of a session, or the beginning of it
        id: String,
        /// From entry FROM, or to entry TO, as `rewake show` numbers them; else from the first
        /// that is known of the files to the last
        #[arg(value_name = "FROM[..TO]")]
        range: Option<Range>,
        /// Only which files, and how many lines
        #[arg(long)]
        stat: bool,
    },
    /// Go back to an entry of a session: with its files, with the conversation, or with both
    Rewind(RewindArgs),
    /// Set single files back to what they were at an entry of a session, or print one
    Restore {
        /// Files or folders
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<PathBuf>,
        /// The session and the entry, as `rewake show` numbers them
        #[arg(long, value_name = "ID:ENTRY")]
        at: At,
        /// Write the one file into FILE, `-` for stdout, and change nothing else
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Show what the data takes; with --yes remove what is kept of the files of old sessions
    Gc {
        /// Remove it; without this it is only shown
        #[arg(long)]
        yes: bool,
        /// Of sessions in which nothing happened for so long [default: files.keep_days]
        #[arg(long, value_name = "DAYS")]
        older_than: Option<u64>,
    },
    /// Remove a session for good, from the journal too; what forks go on from stays
    Purge {
        /// The id of a session, or the beginning of it
        id: String,
        /// Remove it; without this it is only shown
        #[arg(long)]
        yes: bool,
    },
    /// Do not offer an unfinished session any more; resuming it takes that back
    Dismiss {
        /// The id of a session, or the beginning of it
        id: String,
    },
    /// Summarise all but the newest exchange of a session now
    Compact {
        /// The id of a session, or the beginning of it
        id: String,
    },
    /// Write a session as Markdown
    Export {
        /// The id of a session, or the beginning of it
        id: String,
        /// As one JSON object: every entry as it is in the log
        #[arg(long)]
        json: bool,
        /// Into this file instead of stdout
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Replace the file when it exists
        #[arg(long, requires = "output")]
        force: bool,
    },
    /// Say something to a session, also one in which an agent works
    Send(SendArgs),
    /// Stop what a session is at
    Stop {
        /// The id of a session, or the beginning of it; @here: the newest one of this folder
        id: String,
    },
    /// Pause a session: what was begun ends, and nothing more is begun, also after a restart
    Pause {
        /// The id of a session, or the beginning of it; @here: the newest one of this folder
        id: String,
    },
    /// Lift a pause, a limit, a failure or a crash loop of a session
    Go {
        /// The id of a session, or the beginning of it; @here: the newest one of this folder
        id: String,
    },
    /// Give a session another model, mode, effort or temperature, or limits, from its next step on
    Set(SetArgs),
    /// List what sessions ask: the whole command or change, and how it is answered
    Asks {
        /// Go on, and print each new question
        #[arg(long)]
        watch: bool,
        /// As a JSON array; with --watch as one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Allow a call that a session asks about, this once
    Allow {
        /// The id of a session, or the beginning of it; @here: the newest one of this folder
        id: String,
        /// As `rewake asks` shows it; needed when several things are asked
        #[arg(value_name = "CALL")]
        call: Option<CallId>,
    },
    /// Deny a call that a session asks about
    Deny {
        /// The id of a session, or the beginning of it; @here: the newest one of this folder
        id: String,
        /// The CALL, as `rewake asks` shows it, and why: the model reads it
        #[arg(value_name = "CALL|WHY", num_args = 0..=2)]
        rest: Vec<String>,
    },
    /// Answer what a server asks in the middle of a call
    Answer(AnswerArgs),
    /// List the commands and servers that run for sessions, also those whose agent is gone; `ps stop RUN` ends one
    Ps {
        #[command(subcommand)]
        action: Option<PsAction>,
    },
    /// Servers of the Model Context Protocol: add, list, remove, try and import them
    Mcp {
        #[command(subcommand)]
        action: McpAction,
    },
    /// List the models that are known: window, longest answer, prices
    Models {
        /// A provider, or a part of a name
        #[arg(value_name = "FILTER")]
        filter: Option<String>,
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// What models were asked for: sessions, tokens and cost by day, project and model
    Stats {
        /// From this day (2026-11-21), or from so long ago (24h, 7d, 4w)
        #[arg(long, value_name = "WHEN")]
        since: Option<String>,
        /// Only sessions of this folder
        #[arg(long, value_name = "DIR")]
        project: Option<PathBuf>,
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// List the permission rules that hold here, each with where it comes from
    Permissions {
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Trust this folder: its own config may choose models, servers, rules and commands
    Trust {
        /// Trust it no longer
        #[arg(long)]
        remove: bool,
        /// Trust what is listed without asking
        #[arg(long, conflicts_with = "remove")]
        yes: bool,
    },
    /// Keep the key of a provider: it is asked for, or read from stdin, and never shown
    ///
    /// A variable of the environment and api_key_file in the config go before it.
    Key {
        /// As in PROVIDER/MODEL
        #[arg(value_name = "PROVIDER")]
        provider: String,
        /// Remove the key that is kept
        #[arg(long)]
        remove: bool,
    },
    /// Run one command in the sandbox that commands of the model get
    Sandbox {
        /// What the command may do
        #[arg(long, value_name = "LEVEL", default_value = "workspace", value_parser = values::access())]
        access: String,
        /// Act as if the kernel lacked something: abi=N, no-namespaces, no-network, no-pid
        #[arg(long, value_name = "WHAT", hide = true, default_value = "")]
        pretend: String,
        #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
        command: Vec<OsString>,
    },
    /// Look at config, keys, store, locks, git and shell, and say what is wrong
    Doctor {
        /// Take a database that is older than what was recorded as it is: journal and mark are
        /// moved aside, and sessions that were locked by it can be resumed
        #[arg(long, conflicts_with_all = ["repair", "scrub"])]
        as_is: bool,
        /// Make a damaged or lost database anew from what can be read of it and from the journal;
        /// the old file is kept
        #[arg(long)]
        repair: bool,
        /// Also take what is in another data folder, database or journal
        #[arg(long, value_name = "PATH", requires = "repair")]
        from: Vec<PathBuf>,
        /// Read everything that is kept, and say what is damaged
        #[arg(long, conflicts_with = "repair")]
        scrub: bool,
    },
    /// Serve sessions over HTTP, to steer them from scripts and from a phone: see docs/server.md
    #[cfg(feature = "serve")]
    Serve(super::serve::ServeArgs),
    /// Show a session that survives its own kill: needs no key and no network
    Demo,
    /// Print the completion script of a shell
    Completion { shell: Shell },
    /// Print the manual page, as `man` reads it
    Man,
}

#[derive(Debug, Clone, PartialEq, Subcommand)]
enum PsAction {
    /// End a command or a server
    Stop {
        /// The id that `rewake ps` shows
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
        let cli = Cli::try_parse_from(argv)?;
        Ok(Cli { is_marked, ..cli })
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
                return Err(Cli::command().error(ErrorKind::InvalidSubcommand, meant));
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
                        "what is to go back: --files, --conversation or --both".to_string(),
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
            Command::Go { id } => Invocation::Steer(Steer::Go { id }),
            Command::Set(args) => Invocation::Steer(Steer::Set(args)),
            Command::Asks { watch, json } => Invocation::Steer(Steer::Asks { watch, json }),
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
            Command::Go { .. } => "go",
            Command::Set(_) => "set",
            Command::Asks { .. } => "asks",
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
        (run.ask.is_some(), "--ask"),
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
    let command = Cli::command();
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
const STEERING: [&str; 8] = [
    "send", "stop", "pause", "go", "set", "allow", "deny", "answer",
];

fn is_hyphenated_text(arg: &OsString) -> bool {
    match arg.as_encoded_bytes() {
        [b'-', second, ..] => !second.is_ascii_alphabetic() && *second != b'-',
        _ => false,
    }
}

fn conflict(message: String) -> clap::Error {
    Cli::command().error(ErrorKind::ArgumentConflict, message)
}

#[cfg(test)]
mod tests;
