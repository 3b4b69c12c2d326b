//! The agent: `rewake` with a screen, `rewake -p` without one.

use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use super::confirm::{can_ask, is_yes};
use super::given_flags::{self, GivenArgs};
use super::{json_schema, values};
use crate::config::{ConfigError, Setting};
use crate::core::background::BackgroundMode;
use crate::core::choice::Effort;
use crate::core::entry::{By, Mode, UsedCommand};
use crate::core::text::session_name;
use crate::core::visible::visible;
use crate::headless::{self, Ask, Format, Named, Task};
use crate::report::{CliError, exit, note};
use crate::session::sandbox::probe_kernel_in_background;
use crate::session::{
    AppContext, CommandLine, NotSaid, Relocation, SessionError, SessionSelector, ago,
    folder_to_confirm, is_prompt, short_id,
};
use crate::store::{SessionLock, Store, StoreError};
use crate::ui;
use crate::ui::commands;

/// Time after which a note says that stdin is read.
const QUIET_STDIN: Duration = Duration::from_secs(1);

/// Maximum size of piped input.
const STDIN_MAX_BYTES: u64 = 10 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct RunArgs {
    /// The task for the model
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,

    /// Run non-interactively and print the final answer
    ///
    /// Standard input is added to the prompt. Write a prompt that looks like a flag as
    /// --print="-like this".
    #[arg(short, long, value_name = "PROMPT", num_args = 0..=1)]
    pub print: Option<Option<String>>,

    /// Resume the most recent session in this folder
    #[arg(short, long = "continue", conflicts_with = "resume", group = "session")]
    pub continue_: bool,

    /// Resume a session by ID
    ///
    /// The beginning of an ID is enough; `rewake history` lists them. On the screen, -r without
    /// an ID opens a list to choose from.
    #[arg(short, long, value_name = "ID", num_args = 0..=1, group = "session")]
    pub resume: Option<Option<String>>,

    /// Open the session with this UUID, or create it (with -p)
    ///
    /// The same command line resumes the session after a kill, and does not send the prompt
    /// again. When the work is done, it prints the recorded answer.
    #[arg(
        long,
        value_name = "UUID",
        value_parser = values::session_id,
        requires = "print",
        conflicts_with_all = ["session", "worktree"]
    )]
    pub session_id: Option<String>,

    /// Continue in a copy of the session (with -c or -r)
    #[arg(long, requires = "session")]
    pub fork_session: bool,

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
    pub worktree: Option<String>,

    /// Offer dismissed sessions too
    #[arg(long, conflicts_with_all = ["print", "session"])]
    pub all: bool,

    /// Choose the output format of -p
    #[arg(long, value_name = "FORMAT", value_enum, requires = "print")]
    pub output_format: Option<OutputFormat>,

    /// Read JSON lines from stdin that control the run (with -p)
    ///
    /// The output has JSON lines too. Each line is acknowledged after it is on disk. The run waits
    /// for answers to questions, and ends when the input ends and no work is left.
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        requires = "print",
        conflicts_with = "output_format"
    )]
    pub input_format: Option<InputFormat>,

    /// Print JSON that fits this JSON Schema (with -p)
    ///
    /// rewake validates the answer, and the model gets up to 3 corrections. stdout has only the
    /// JSON. The schema applies to the session until an answer fits.
    #[arg(long, value_name = "FILE|JSON", requires = "print")]
    pub json_schema: Option<String>,

    /// Set what happens when a call needs approval: deny, wait, wait=30m
    ///
    /// The default is deny. With wait, `rewake allow` or `rewake deny` answers from another
    /// process. When the time is over, rewake exits with 75 and the question stays open.
    #[arg(long = "on-approval", value_name = "POLICY", requires = "print")]
    pub ask: Option<Ask>,

    /// Use this model
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,

    /// Set the reasoning effort of the model
    #[arg(long, value_name = "EFFORT", value_parser = values::effort())]
    pub effort: Option<Effort>,

    /// Set what runs without approval
    #[arg(long, value_name = "MODE", value_parser = values::mode())]
    pub permission_mode: Option<Mode>,

    /// Skip all approvals and run commands WITHOUT the sandbox
    #[arg(long, conflicts_with = "permission_mode")]
    pub yolo: bool,

    /// Refuse a session in bypassPermissions
    #[arg(long, hide = true, requires = "print")]
    pub no_bypass: bool,

    /// Stay on the terminal's main screen
    #[arg(long, conflicts_with = "print")]
    pub no_alt_screen: bool,

    /// Leave the mouse to the terminal, to select text
    #[arg(long, conflicts_with = "print")]
    pub no_mouse: bool,

    /// Print lines only, for screen readers and simple terminals
    ///
    /// Without colour and without moving the cursor. Answer a question with y, a or n and Enter.
    #[arg(long, conflicts_with_all = ["print", "no_alt_screen"])]
    pub plain: bool,

    /// Stop after N answers of the model
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_turns: Option<u32>,

    #[command(flatten)]
    pub given: GivenArgs,

    /// Stop after this time, such as 90s, 30m or 2h
    #[arg(long, value_name = "DURATION", value_parser = headless::time)]
    pub timeout: Option<Duration>,

    /// Set what happens to background commands at the end (with -p)
    ///
    /// The default is remind. The end is the model's last answer. rewake waits for tasks in any
    /// case.
    #[arg(long, value_name = "MODE", requires = "print")]
    pub background: Option<AtEnd>,

    /// Attach an image to the prompt (repeatable)
    #[arg(long, value_name = "FILE")]
    pub image: Vec<PathBuf>,

    /// Allow calls that match a rule, for this run (repeatable)
    #[arg(long, value_name = "RULE")]
    pub allow: Vec<String>,

    /// Deny calls that match a rule, for this run (repeatable)
    #[arg(long, value_name = "RULE")]
    pub deny: Vec<String>,

    /// Use the MCP servers in this JSON file, for this run (repeatable)
    #[arg(long, value_name = "FILE")]
    pub mcp_config: Vec<PathBuf>,

    /// Exit with 1 if a call was denied, also one of a subagent (with -p)
    #[arg(long, requires = "print")]
    pub fail_on_denied: bool,

    /// Purge the new session after exit code 0
    ///
    /// Until then it is recorded like any other, so a kill loses nothing.
    #[arg(long, conflicts_with_all = ["session", "session_id"])]
    pub ephemeral: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum OutputFormat {
    /// The final answer
    #[default]
    Text,
    /// One JSON object at the end
    Json,
    /// One JSON object a line, while it runs
    StreamJson,
}

/// The treatment of background commands at the end of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum AtEnd {
    /// Ask the model once to wait, stop or leave
    #[default]
    Remind,
    /// Leave them running
    Leave,
    /// Stop them
    Stop,
}

impl From<AtEnd> for BackgroundMode {
    fn from(at_end: AtEnd) -> BackgroundMode {
        match at_end {
            AtEnd::Remind => BackgroundMode::Remind,
            AtEnd::Leave => BackgroundMode::Leave,
            AtEnd::Stop => BackgroundMode::Stop,
        }
    }
}

/// The format of stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    /// One JSON object a line
    StreamJson,
}

/// Returns whether these arguments want JSON on stdout. They may be wrong otherwise, so they are not
/// parsed.
pub(super) fn prints_json(argv: &[OsString]) -> bool {
    let flags = argv.iter().take_while(|arg| *arg != "--");
    let flags: Vec<String> = flags
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    let is_format = |flag: &str| matches!(flag, "--output-format" | "--input-format");
    let is_json = |value: &str| matches!(value, "json" | "stream-json");
    let bound = flags.iter().filter_map(|flag| flag.split_once('='));
    let apart = flags
        .windows(2)
        .map(|two| (two[0].as_str(), two[1].as_str()));
    bound
        .chain(apart)
        .any(|(flag, value)| is_format(flag) && is_json(value))
}

impl RunArgs {
    /// Returns an error about contradicting arguments that clap accepts.
    pub(super) fn check(&self) -> Result<(), String> {
        if let (Some(one), Some(Some(other))) = (&self.prompt, &self.print) {
            return Err(format!(
                "there are two prompts, {other:?} and {one:?}: quote the whole prompt"
            ));
        }
        match self.print.is_some() && self.picks() {
            false => Ok(()),
            true => Err(
                "'--resume' needs the id of a session when there is no terminal to pick one; \
                 `rewake history` lists them"
                    .to_string(),
            ),
        }
    }

    /// Returns the first argument that only applies to a run.
    pub(super) fn first_run_argument(&self) -> Option<String> {
        let prompt = self.prompt.as_ref();
        let prompt = prompt.map(|text| format!("the prompt {text:?}"));
        prompt.or_else(|| self.first_flag().map(|flag| format!("'{flag}'")))
    }

    /// Returns the first flag that only applies to a run.
    pub(super) fn first_flag(&self) -> Option<&'static str> {
        let given = [
            (self.print.is_some(), "--print"),
            (self.continue_, "--continue"),
            (self.resume.is_some(), "--resume"),
            (self.worktree.is_some(), "--worktree"),
            (self.session_id.is_some(), "--session-id"),
            (self.json_schema.is_some(), "--json-schema"),
            (self.ask.is_some(), "--on-approval"),
            (self.background.is_some(), "--background"),
            (self.model.is_some(), "--model"),
            (self.effort.is_some(), "--effort"),
            (self.permission_mode.is_some(), "--permission-mode"),
            (self.yolo, "--yolo"),
            (self.all, "--all"),
            (self.max_turns.is_some(), "--max-turns"),
            (self.given.max_usd.is_some(), "--max-usd"),
            (
                self.given.append_system_prompt.is_some(),
                "--append-system-prompt",
            ),
            (!self.given.add_dir.is_empty(), "--add-dir"),
            (!self.image.is_empty(), "--image"),
            (!self.allow.is_empty(), "--allow"),
            (!self.deny.is_empty(), "--deny"),
            (!self.mcp_config.is_empty(), "--mcp-config"),
            (self.given.name.is_some(), "--name"),
            (self.timeout.is_some(), "--timeout"),
            (self.ephemeral, "--ephemeral"),
            (self.fail_on_denied, "--fail-on-denied"),
        ];
        let first = given.into_iter().find(|(given, _)| *given);
        first.map(|(_, flag)| flag)
    }

    /// Returns the settings of the flags.
    pub(super) fn settings(&self) -> Vec<Result<Setting, ConfigError>> {
        let effort = self.effort.map(Effort::name);
        let mode = self.permission_mode.map(Mode::name);
        let yolo = self.yolo.then(|| Mode::BypassPermissions.name());
        let texts = [
            ("--model", "model", self.model.as_deref()),
            ("--effort", "effort", effort),
            ("--permission-mode", "permission_mode", mode),
            ("--yolo", "permission_mode", yolo),
        ];
        let texts = texts.into_iter();
        let texts = texts.filter_map(|(flag, key, value)| Some(Setting::new(flag, key, value?)));
        let turns = self.max_turns.map(i64::from);
        let turns = turns.map(|turns| Setting::new("--max-turns", "max_turns", turns));
        let lists = [
            ("--allow", "allow", &self.allow),
            ("--deny", "deny", &self.deny),
        ];
        let lists = lists.into_iter().filter(|(_, _, rules)| !rules.is_empty());
        let rules = lists.map(|(flag, list, rules)| Setting::rules(flag, list, rules));
        let servers =
            self.mcp_config
                .iter()
                .flat_map(|file| match Setting::servers("--mcp-config", file) {
                    Ok(settings) => settings.into_iter().map(Ok).collect(),
                    Err(error) => vec![Err(error)],
                });
        texts.chain(turns).chain(rules).chain(servers).collect()
    }

    /// Returns the prompt, which may be a value of `-p`.
    pub(super) fn prompt(&self) -> Option<String> {
        let printed = self.print.iter().flatten();
        self.prompt.iter().chain(printed).next().cloned()
    }

    /// Returns the format of the output. `None`: the run has a screen.
    pub(super) fn format(&self) -> Option<OutputFormat> {
        let format = match self.input_format {
            Some(InputFormat::StreamJson) => OutputFormat::StreamJson,
            None => self.output_format.unwrap_or_default(),
        };
        self.print.is_some().then_some(format)
    }

    /// Returns the session that the arguments name. One that will be chosen on the screen is still
    /// unknown.
    pub(super) fn which(&self) -> SessionSelector {
        let fork = self.fork_session;
        match &self.resume {
            _ if self.continue_ => SessionSelector::Newest { fork },
            Some(Some(id)) => SessionSelector::Named {
                id: id.clone(),
                fork,
            },
            _ => match &self.session_id {
                Some(id) => SessionSelector::Given { id: id.clone() },
                None => SessionSelector::New,
            },
        }
    }

    /// Returns the handling of questions of a run without a screen.
    fn ask(&self) -> Ask {
        let default = match self.input_format {
            Some(_) => Ask::Wait(None),
            None => Ask::default(),
        };
        self.ask.unwrap_or(default)
    }

    /// Returns whether the user chooses the session on the screen.
    pub(super) fn picks(&self) -> bool {
        self.resume == Some(None)
    }
}

pub(super) fn run(ctx: &AppContext, args: &RunArgs) -> Result<u8, CliError> {
    let worktree = match &args.worktree {
        Some(name) => Some(ctx.in_worktree(name, args.continue_)?),
        None => None,
    };
    let mut ctx = worktree.as_ref().unwrap_or(ctx).clone();
    ctx.given = given_flags::given(&ctx, &args.given)?;
    ctx.given.is_attended = args.print.is_some() && args.ask().is_attended();
    if let Some(folder) = folder_to_confirm(&ctx, &args.which()).filter(|_| can_ask()) {
        let shown = visible(&folder.to_string_lossy()).into_owned();
        if !is_yes(&format!(
            "This session is from elsewhere. Continue it in {shown}?"
        )) {
            return Err(CliError::usage("nothing was continued")
                .with_hint("rewake -C DIR -r ID continues it in another folder"));
        }
        ctx.given.confirmed_folder = Some(folder);
    }
    let mut args = args.clone();
    confirm_relocation(&mut ctx, &mut args)?;
    let (ctx, args) = (&ctx, &args);
    ctx.worktrees().mark_own_worktree_used()?;
    let code = match args.format() {
        Some(format) => headless(ctx, args, format),
        None => on_screen(ctx, args),
    }?;
    if let Some(work) = ctx.worktrees().work_note() {
        note(&work);
    }
    Ok(code)
}

/// Asks whether a session whose folder was moved continues in the folder of this start. Without a
/// terminal, `-c` continues one only in the same folder, and a named one in each that is recognised.
fn confirm_relocation(ctx: &mut AppContext, args: &mut RunArgs) -> Result<(), CliError> {
    let which = args.which();
    let is_new = which == SessionSelector::New;
    if !can_ask() || is_new && (args.picks() || args.print.is_some() || args.ephemeral) {
        return Ok(());
    }
    let Some(to) = Relocation::to_confirm(ctx, &which) else {
        return Ok(());
    };
    let session = short_id(&to.session);
    let question = format!("Session {session}: {}. Continue it there?", to.words());
    if is_yes(&question) {
        ctx.given.confirmed_session = Some(to.session.clone());
        if is_new {
            args.resume = Some(Some(to.session));
        }
    } else if !is_new {
        return Err(CliError::usage("nothing was continued")
            .with_hint("rewake -C DIR -r ID continues it in another folder"));
    }
    Ok(())
}

fn headless(ctx: &AppContext, args: &RunArgs, format: OutputFormat) -> Result<u8, CliError> {
    let began = Instant::now();
    probe_kernel_in_background(ctx);
    let format = match format {
        OutputFormat::Text => Format::Text,
        OutputFormat::Json => Format::Json,
        OutputFormat::StreamJson => Format::StreamJson,
    };
    let schema = args.json_schema.as_deref().map(json_schema::read);
    let schema = schema.transpose()?;
    let has_input = args.input_format.is_some();
    let piped = match has_stdin() && !has_input {
        true => piped(args.timeout)?,
        false => None,
    };
    let timeout = args
        .timeout
        .map(|limit| limit.saturating_sub(began.elapsed()));
    let prompt = args.prompt();
    let is_job = args.session_id.is_some();
    let job = is_job.then(|| {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        (text(&prompt), text(&piped))
    });
    let (named, prompt, command) = match named(ctx, prompt.as_deref(), &piped) {
        Some(named) => (Some(named), prompt, None),
        None => {
            let (prompt, command) = prompt_text(ctx, prompt)?;
            (None, prompt, command)
        }
    };
    let prompt = join(prompt, piped);
    let which = args.which();
    let by = match which {
        SessionSelector::Named { .. } => By::Person,
        SessionSelector::New
        | SessionSelector::Newest { .. }
        | SessionSelector::Given { .. }
        | SessionSelector::ForkAt { .. } => By::Start,
    };
    let is_new = matches!(which, SessionSelector::New | SessionSelector::Given { .. });
    if is_new && prompt.is_none() && !has_input {
        return Err(
            CliError::usage("there is nothing to do: the prompt is empty").with_hint(
                "rewake -p \"what to do\"; rewake -p -c resumes the newest session here",
            ),
        );
    }
    for warning in &ctx.loaded.warnings {
        note(&warning.text);
        if let Some(hint) = &warning.hint {
            note(&format!("hint: {hint}"));
        }
    }
    if which == SessionSelector::New {
        note_unfinished(ctx)?;
    }
    if is_new {
        check_bypass(args, ctx.config().permission_mode)?;
    }
    let (images, blobs) = given_flags::images(&args.image)?;
    let job = job.map(|(prompt, piped)| headless::job_origin(&prompt, &piped, &images));
    let session = ctx.open(&which, false).map_err(in_use)?;
    check_bypass(args, session.state_as_chosen().mode)?;
    let id = session.id.clone();
    let task = Task {
        images,
        blobs,
        timeout,
        background: args.background.unwrap_or_default().into(),
        prompt,
        command,
        named,
        format,
        by,
        schema,
        job,
        has_input,
        ask: args.ask(),
        fail_on_denied: args.fail_on_denied,
    };
    let code = headless::run(ctx, session, task)?;
    if args.ephemeral && code == exit::DONE {
        purge_ended(ctx, &id);
    }
    Ok(code)
}

/// Refuses `bypassPermissions` for a start that may not have it.
fn check_bypass(args: &RunArgs, mode: Mode) -> Result<(), CliError> {
    if args.no_bypass && mode == Mode::BypassPermissions {
        let why = "the session would run in bypassPermissions, by the config or its own mode, which needs the scope admin";
        return Err(CliError::usage(why)
            .with_hint("name another mode; rewake serve --scope admin prints a link that may"));
    }
    Ok(())
}

/// Purges a session that is not needed any more. If that is not possible, the session stays.
fn purge_ended(ctx: &AppContext, id: &str) {
    let purge = |store: Store| match store.inbox().oldest_queued(id)? {
        Some(_) => {
            note(&format!(
                "the session was not purged: a message for it waits; rewake -r {} reads it",
                short_id(id)
            ));
            Ok(())
        }
        None => match ctx.purge(store, id) {
            // Nothing was said in it.
            Err(SessionError::Store(StoreError::NotFound { .. })) => Ok(()),
            purged => purged.map(drop),
        },
    };
    let store = super::open_store(ctx).map_err(CliError::from);
    if let Err(error) = store.and_then(|store| Ok(purge(store)?)) {
        note(&format!(
            "the session was not purged: {}; rewake purge {} purges it",
            error.message,
            short_id(id)
        ));
    }
}

/// Runs the screen, which requires a terminal on stdin and stdout.
fn on_screen(ctx: &AppContext, args: &RunArgs) -> Result<u8, CliError> {
    // A dumb terminal supports nothing but plain output.
    let plain = args.plain || ctx.env.var("TERM") == Some("dumb");
    if !args.plain && (!std::io::stdin().is_terminal() || !std::io::stdout().is_terminal()) {
        return Err(
            CliError::usage("the screen needs a terminal, but stdin or stdout is not one").with_hint(
                "rewake -p \"what to do\" works without one; rewake -p -c resumes the newest session here",
            ),
        );
    }
    if plain && !args.plain {
        note("TERM=dumb cannot draw a screen: plain lines, as with --plain");
    }
    if !args.image.is_empty() && args.prompt().is_none() {
        return Err(CliError::usage("--image needs a prompt")
            .with_hint("rewake --image FILE \"what is wrong here?\""));
    }
    given_flags::images(&args.image)?;
    let start = ui::Start {
        which: Some(args.which()).filter(|which| *which != SessionSelector::New),
        pick: args.picks(),
        fork: args.fork_session,
        all: args.all,
        prompt: args.prompt(),
        images: args.image.clone(),
        plain,
        no_alt_screen: args.no_alt_screen,
        no_mouse: args.no_mouse,
        timeout: args.timeout,
        is_ephemeral: args.ephemeral,
    };
    super::update::ask_if_wanted(ctx);
    let (closed, made) = ui::run(ctx.clone(), start);
    if args.ephemeral && closed == ui::Closed::Code(exit::DONE) {
        made.iter().for_each(|id| purge_ended(ctx, id));
    }
    if closed == ui::Closed::Code(exit::DONE) {
        super::update::say_if_newer(ctx);
    }
    match closed {
        ui::Closed::Code(code) => Ok(code),
        ui::Closed::Demo => super::demo::run(),
    }
}

/// Returns the prompts and resources of MCP servers that a prompt names. Piped input is not
/// searched.
fn named(ctx: &AppContext, prompt: Option<&str>, piped: &Option<String>) -> Option<Named> {
    let prompt = prompt?;
    let typed = Some(prompt)
        .filter(|prompt| commands::is_command(prompt))
        .and_then(CommandLine::parse);
    if let Some(typed) = typed {
        let is_one = ctx.is_server_prompt(&typed, commands::is_own);
        return is_one.then(|| Named {
            ctx: ctx.clone(),
            prompt: Some((typed, piped.clone())),
            resources: Vec::new(),
        });
    }
    let resources = ctx.defined_servers().mentioned_resources(prompt);
    (!resources.is_empty()).then(|| Named {
        ctx: ctx.clone(),
        prompt: None,
        resources,
    })
}

/// Returns the prompt, or the text of the custom command that it names.
fn prompt_text(
    ctx: &AppContext,
    prompt: Option<String>,
) -> Result<(Option<String>, Option<UsedCommand>), CliError> {
    let named = prompt
        .as_deref()
        .filter(|prompt| commands::is_command(prompt));
    let Some(typed) = named.and_then(CommandLine::parse) else {
        return Ok((prompt, None));
    };
    let trouble = |why: String, hint: &str| CliError::usage(why).with_hint(hint);
    if commands::is_own(&typed.name) && !is_prompt(&typed.name) {
        return Err(trouble(
            format!("/{} is a command of the screen", typed.name),
            "a prompt that begins with a slash may begin with a space; rewake --help lists what works without a screen",
        ));
    }
    match ctx.expand(&typed, commands::is_own) {
        Ok(expanded) => {
            expanded.notes.iter().for_each(|text| note(text));
            Ok((Some(expanded.text), Some(expanded.command)))
        }
        Err(NotSaid::Untrusted(untrusted)) => {
            let what = match untrusted.is_changed {
                true => "changed since it was trusted",
                false => "comes with this folder and is not trusted",
            };
            Err(trouble(
                format!("/{} was not sent: {} {what}", typed.name, untrusted.path),
                "read it; `rewake trust` trusts it as it is now",
            ))
        }
        Err(NotSaid::Failed(why, hint)) => Err(match hint {
            Some(hint) => trouble(why, &hint),
            None => trouble(
                why,
                "a prompt that begins with a slash may begin with a space",
            ),
        }),
    }
}

/// Returns the error for a session that another process uses. An older session is never opened
/// instead.
fn in_use(error: SessionError) -> CliError {
    let held = matches!(&error, SessionError::Store(StoreError::Held { .. }));
    let trouble = CliError::from(error);
    match held {
        true => trouble
            .with_hint("wait for it, close that process, or continue in a copy: --fork-session"),
        false => trouble,
    }
}

/// Prints a note if this folder has unfinished sessions.
fn note_unfinished(ctx: &AppContext) -> Result<(), CliError> {
    let store = super::open_store(ctx)?;
    for info in ctx.session_list().unfinished(&store, false)?.iter().take(3) {
        let id = short_id(&info.id);
        let title = session_name(info.title.as_deref());
        note(&match SessionLock::holder(&ctx.paths.data_dir, &info.id) {
            Some(pid) => format!("in use here: {id} \"{title}\", in process {pid}"),
            None => format!(
                "unfinished here: {id} \"{title}\", {} ago; rewake -p -r {id} resumes it",
                ago(crate::session::now_ms() - info.updated_ms),
            ),
        });
    }
    Ok(())
}

/// Returns whether stdin is a pipe or a file. Otherwise it is not read.
fn has_stdin() -> bool {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return false;
    }
    let Ok(metadata) = std::fs::metadata("/dev/stdin") else {
        return false;
    };
    let kind = metadata.file_type();
    kind.is_fifo() || kind.is_file()
}

/// Reads stdin to its end, or to one byte more than allowed. A script may keep the pipe open: after a
/// second a note says what is waited for, and after the time limit it is an error.
pub(super) fn read_stdin(limit: Option<Duration>) -> Result<Vec<u8>, CliError> {
    let (sender, receiver) = sync_channel(1);
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let stdin = std::io::stdin().lock();
        let read = stdin.take(STDIN_MAX_BYTES + 1).read_to_end(&mut bytes);
        let _ = sender.send(read.map(|_| bytes));
    });
    let limit = limit.unwrap_or(Duration::MAX);
    let mut read = receiver.recv_timeout(QUIET_STDIN.min(limit));
    if read.is_err() {
        note("reading stdin …; </dev/null ends it");
        read = receiver.recv_timeout(limit.saturating_sub(QUIET_STDIN));
    }
    match read {
        Ok(read) => read.map_err(|e| CliError::failed(format!("cannot read stdin: {e}"))),
        Err(RecvTimeoutError::Disconnected) => {
            Err(CliError::failed("cannot read stdin: its reader ended"))
        }
        Err(RecvTimeoutError::Timeout) => {
            let why = "stopped: the time limit of --timeout is reached, and stdin has not ended";
            Err(CliError::new(exit::RESUMABLE, why)
                .with_hint("if there is none, add </dev/null to the command"))
        }
    }
}

fn piped(limit: Option<Duration>) -> Result<Option<String>, CliError> {
    let bytes = read_stdin(limit)?;
    if bytes.len() as u64 > STDIN_MAX_BYTES {
        return Err(CliError::usage("stdin is larger than 10 MiB")
            .with_hint("put it into a file, and name that file in the prompt"));
    }
    let text = String::from_utf8_lossy(&bytes).replace('\0', "\u{2400}");
    Ok(Some(text).filter(|t| !t.trim().is_empty()))
}

fn join(prompt: Option<String>, piped: Option<String>) -> Option<String> {
    let prompt = prompt.filter(|p| !p.trim().is_empty());
    match (prompt, piped) {
        (Some(prompt), Some(piped)) => Some(format!("{prompt}\n\n{piped}")),
        (prompt, piped) => prompt.or(piped),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piped_input_follows_the_prompt() {
        let text = |t: &str| Some(t.to_string());
        assert_eq!(join(text("a"), text("b\n")), text("a\n\nb\n"));
        assert_eq!(join(text(" "), text("b")), text("b"));
        assert_eq!(join(None, None), None);
    }
}
