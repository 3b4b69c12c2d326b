//! `rewake import`: lists the sessions of other agents, and checks their files.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::print_json;
use super::time::local_time;
use crate::core::text::{count, nearest, one_line, size_text};
use crate::core::visible::command;
use crate::import::{Agent, Found, SourceError, Sources};
use crate::report::{CliError, exit, line, note};
use crate::session::AppContext;

/// Characters of an id in the list.
const ID_CHARS: usize = 13;
const TITLE_CHARS: usize = 80;

/// List the sessions that other agents have of this folder
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct ImportArgs {
    /// Beginning of a session's ID, or its file
    #[arg(value_name = "ID|PATH", requires = "check")]
    pub sessions: Vec<String>,
    /// List those of every folder
    #[arg(long)]
    pub all: bool,
    /// List only sessions of this agent
    #[arg(long, value_name = "AGENT", value_parser = agent)]
    pub from: Option<Agent>,
    /// Print one JSON object
    #[arg(long, conflicts_with = "check")]
    pub json: bool,
    /// Report damage and unknown lines, with exit code 1 if there are any
    #[arg(long)]
    pub check: bool,
}

fn agent(name: &str) -> Result<Agent, String> {
    let known = Agent::ALL.into_iter().find(|agent| agent.name() == name);
    known.ok_or_else(|| {
        let names = Agent::ALL.map(Agent::name).join(", ");
        format!("the agents are {names}")
    })
}

pub(super) fn run(ctx: &AppContext, args: &ImportArgs) -> Result<u8, CliError> {
    let cwd = ctx.env.cwd();
    let mut here = vec![ctx.here.root.clone(), cwd.to_path_buf()];
    here.extend(cwd.canonicalize());
    let is_everywhere = args.all || !args.sessions.is_empty();
    let folders = (!is_everywhere).then_some(here.as_slice());
    let (mut found, errors) = Sources::new(&ctx.env).list(args.from, folders);
    if args.json {
        return json(&found, &errors);
    }
    for error in &errors {
        note(&command(&error.to_string()));
    }
    if !args.sessions.is_empty() {
        found = named(found, &args.sessions, ctx)?;
    }
    if args.check {
        return Ok(check(&found, !errors.is_empty()));
    }
    for one in &found {
        line(&listed(one, args.all));
    }
    if found.is_empty() {
        note(match args.all {
            true => "no other agent has sessions here",
            false => {
                "no other agent has sessions of this folder; rewake import --all lists those of every folder"
            }
        });
    }
    Ok(exit::DONE)
}

/// `claude    147e5f31-dc4c  2026-11-23 23:06  8 KiB  1 call without result  Fix the parser`
fn listed(one: &Found, is_everywhere: bool) -> String {
    let open = match one.open_calls {
        0 => String::new(),
        calls => format!("{} without result", count(calls, "call")),
    };
    let title = one.about.title.as_deref().unwrap_or_default();
    let folder = one.about.folder.as_ref().filter(|_| is_everywhere);
    let folder = folder.map(|folder| format!("  {}", command(&folder.to_string_lossy())));
    let text = format!(
        "{:<8}  {}  {}  {:>7}  {open:<21}  {}{}",
        one.agent,
        one_line(&command(short(&one.about.id)), ID_CHARS),
        local_time(one.updated_ms),
        size_text(one.bytes),
        one_line(&command(title), TITLE_CHARS),
        folder.unwrap_or_default(),
    );
    text.trim_end().to_string()
}

fn short(id: &str) -> &str {
    id.char_indices()
        .nth(ID_CHARS)
        .map_or(id, |(end, _)| &id[..end])
}

fn json(found: &[Found], errors: &[SourceError]) -> Result<u8, CliError> {
    let sessions = found.iter().map(|one| {
        json!({
            "agent": one.agent,
            "id": one.about.id,
            "folder": one.about.folder,
            "title": one.about.title,
            "updated_ms": one.updated_ms,
            "bytes": one.bytes,
            "open_calls": one.open_calls,
            "imported": null,
        })
    });
    let errors = errors
        .iter()
        .map(|error| json!({ "path": error.path, "why": error.why }));
    print_json(&json!({
        "sessions": sessions.collect::<Vec<_>>(),
        "errors": errors.collect::<Vec<_>>(),
    }))
}

/// Returns the sessions whose ID begins with one of these, or whose file is one of these.
fn named(found: Vec<Found>, names: &[String], ctx: &AppContext) -> Result<Vec<Found>, CliError> {
    let is_it = |one: &Found, name: &str| {
        one.about.id.starts_with(name) || one.path == ctx.env.cwd().join(PathBuf::from(name))
    };
    if let Some(name) = names
        .iter()
        .find(|name| !found.iter().any(|one| is_it(one, name)))
    {
        let ids = found.iter().map(|one| one.about.id.as_str());
        let nearest = nearest(name, ids);
        let error = CliError::new(exit::USAGE, format!("no agent has a session {name:?}"));
        return Err(error.with_hint(match nearest {
            Some(id) => format!("the nearest is {id}"),
            None => "rewake import --all lists all".to_string(),
        }));
    }
    let is_named = |one: &Found| names.iter().any(|name| is_it(one, name));
    Ok(found.into_iter().filter(is_named).collect())
}

/// Prints what is wrong with each session. Returns the exit code.
fn check(found: &[Found], has_errors: bool) -> u8 {
    let mut is_sound = !has_errors;
    for one in found {
        let mut problems = one.report.problems();
        if one.report.is_newer_than_known() {
            problems.insert(
                0,
                "it is newer than this version of rewake knows".to_string(),
            );
        }
        is_sound &= problems.is_empty();
        if problems.is_empty() {
            problems.push("no problems".to_string());
        }
        for problem in problems {
            line(&format!(
                "{:<8}  {}  {}",
                one.agent,
                one_line(&command(short(&one.about.id)), ID_CHARS),
                one_line(&command(&problem), 200)
            ));
        }
    }
    match is_sound {
        true => exit::DONE,
        false => exit::FAILED,
    }
}
