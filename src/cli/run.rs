//! The agent: `rewake` in a terminal, `rewake -p` without one.

use std::io::{IsTerminal, Read};
use std::os::unix::fs::FileTypeExt;

use super::invocation::{OutputFormat, Run, Session as Asked};
use super::json_schema;
use crate::core::entry::{By, UsedCommand};
use crate::headless::{self, Format, Named, Task};
use crate::report::{Trouble, exit, note};
use crate::session::sandbox::ask_kernel_beside;
use crate::session::{AppContext, CommandLine, NotSaid, Which, ago, is_prompt, short_id};
use crate::store::{SessionLock, StoreError};
use crate::ui;
use crate::ui::commands;

/// What is piped in is read up to this size.
pub(super) const STDIN_MAX_BYTES: u64 = 10 * 1024 * 1024;

pub(super) fn run(ctx: &AppContext, run: Run) -> Result<u8, Trouble> {
    ctx.enter_worktree_here()?;
    let Some(format) = run.headless else {
        return on_screen(ctx, run);
    };
    ask_kernel_beside(ctx);
    let format = match format {
        OutputFormat::Text => Format::Text,
        OutputFormat::Json => Format::Json,
        OutputFormat::StreamJson => Format::StreamJson,
    };
    let schema = run.json_schema.as_deref().map(json_schema::read);
    let schema = schema.transpose()?;
    let piped = match has_stdin() {
        true => piped()?,
        false => None,
    };
    let (named, prompt, command) = match named(ctx, run.prompt.as_deref(), &piped) {
        Some(named) => (Some(named), run.prompt, None),
        None => {
            let (prompt, command) = said(ctx, run.prompt)?;
            (None, prompt, command)
        }
    };
    let prompt = join(prompt, piped);
    let (which, by) = match run.session {
        Asked::New => (Which::New, By::Start),
        Asked::Newest { fork } => (Which::Newest { fork }, By::Start),
        Asked::Named { id, fork } => (Which::Named { id, fork }, By::Person),
        Asked::Pick { .. } => return Err(nobody_picks()),
    };
    if which == Which::New && prompt.is_none() {
        return Err(
            Trouble::new(exit::USAGE, "there is nothing to do: the prompt is empty").with_hint(
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
    if which == Which::New {
        note_unfinished(ctx)?;
    }
    let session = ctx.open(&which, false).map_err(in_use)?;
    let task = Task {
        prompt,
        command,
        named,
        format,
        by,
        schema,
        ask: run.ask,
    };
    Ok(headless::run(ctx, session, task))
}

/// The screen takes the terminal, so both ends of it must be one.
fn on_screen(ctx: &AppContext, run: Run) -> Result<u8, Trouble> {
    let plain = run.plain || is_dumb(ctx);
    if !run.plain && (!std::io::stdin().is_terminal() || !std::io::stdout().is_terminal()) {
        return Err(
            Trouble::new(exit::USAGE, "the screen needs a terminal, but stdin or stdout is not one").with_hint(
                "rewake -p \"what to do\" works without one; rewake -p -c resumes the newest session here",
            ),
        );
    }
    if plain && !run.plain {
        note("TERM=dumb cannot draw a screen: plain lines, as with --plain");
    }
    let (which, pick, fork) = match run.session {
        Asked::New => (None, false, false),
        Asked::Newest { fork } => (Some(Which::Newest { fork }), false, fork),
        Asked::Named { id, fork } => (Some(Which::Named { id, fork }), false, fork),
        Asked::Pick { fork } => (None, true, fork),
    };
    let start = ui::Start {
        which,
        pick,
        fork,
        all: run.all,
        prompt: run.prompt,
        plain,
        no_alt_screen: run.no_alt_screen,
        no_mouse: run.no_mouse,
    };
    match ui::run(ctx.clone(), start) {
        ui::Closed::Code(code) => Ok(code),
        ui::Closed::Demo => super::demo::run(),
    }
}

/// What a prompt names of servers (MCP), if it does. What is piped in names nothing.
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
    let resources = ctx.mentioned_resources(prompt);
    (!resources.is_empty()).then(|| Named {
        ctx: ctx.clone(),
        prompt: None,
        resources,
    })
}

/// What a prompt says: itself, or the text of the custom command that it names.
fn said(
    ctx: &AppContext,
    prompt: Option<String>,
) -> Result<(Option<String>, Option<UsedCommand>), Trouble> {
    let named = prompt
        .as_deref()
        .filter(|prompt| commands::is_command(prompt));
    let Some(typed) = named.and_then(CommandLine::parse) else {
        return Ok((prompt, None));
    };
    let trouble = |why: String, hint: &str| Trouble::new(exit::USAGE, why).with_hint(hint);
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

/// The terminal says that it can print and nothing else.
fn is_dumb(ctx: &AppContext) -> bool {
    ctx.env.var("TERM") == Some("dumb")
}

fn nobody_picks() -> Trouble {
    Trouble::new(
        exit::USAGE,
        "-p -r needs the id of a session: nobody is there to pick one",
    )
    .with_hint("rewake history lists them; rewake -p -c takes the newest one here")
}

/// A session that another process has is never replaced by an older one.
fn in_use(error: crate::session::SessionError) -> Trouble {
    let held = matches!(
        &error,
        crate::session::SessionError::Store(StoreError::Held { .. })
    );
    let trouble = Trouble::from(error);
    match held {
        true => trouble
            .with_hint("wait for it, close that process, or continue in a copy: --fork-session"),
        false => trouble,
    }
}

/// A start in a folder with unfinished work says so.
fn note_unfinished(ctx: &AppContext) -> Result<(), Trouble> {
    let store = super::open_store(ctx)?;
    for info in ctx.unfinished(&store, false)?.iter().take(3) {
        let id = short_id(&info.id);
        let title = info.title.as_deref().unwrap_or("untitled");
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

/// stdin is read only when it is a pipe or a file.
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

fn piped() -> Result<Option<String>, Trouble> {
    let mut bytes = Vec::new();
    let read = std::io::stdin()
        .lock()
        .take(STDIN_MAX_BYTES + 1)
        .read_to_end(&mut bytes);
    read.map_err(|e| Trouble::new(exit::FAILED, format!("cannot read stdin: {e}")))?;
    if bytes.len() as u64 > STDIN_MAX_BYTES {
        return Err(Trouble::new(exit::USAGE, "stdin is larger than 10 MiB")
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
    fn what_is_piped_in_follows_the_prompt() {
        let text = |t: &str| Some(t.to_string());
        assert_eq!(join(text("a"), text("b\n")), text("a\n\nb\n"));
        assert_eq!(join(text(" "), text("b")), text("b"));
        assert_eq!(join(None, None), None);
    }
}
