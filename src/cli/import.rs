//! `rewake import`: lists, checks and imports the sessions of other agents, and those of bundles.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::bundle::{self, ToImport};
use super::confirm::{can_ask, is_yes};
use super::print_json;
use super::time::local_time;
use crate::core::text::{count, one_line, size_text};
use crate::core::visible::visible;
use crate::import::{Agent, Cache, ForeignSession, Importer, SourceError, Sources};
use crate::report::{CliError, exit, line, note};
use crate::session::AppContext;
use crate::store::{CachedSource, Store, cache_sources, database};
use crate::workspace::root_text;

/// Characters of an id in the list.
const ID_CHARS: usize = 13;
const TITLE_CHARS: usize = 80;

/// Import sessions of other agents or of a bundle, or list the former
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct ImportArgs {
    /// Beginning of a session's ID, its file, a bundle, or `-` for stdin
    #[arg(value_name = "ID|PATH")]
    pub sessions: Vec<String>,
    /// Those of every folder
    #[arg(long, conflicts_with = "sessions")]
    pub all: bool,
    /// Import all that are listed
    #[arg(long, conflicts_with_all = ["json", "check"])]
    pub yes: bool,
    /// Only sessions of this agent
    #[arg(long, value_name = "AGENT", value_parser = agent)]
    pub from: Option<Agent>,
    /// Print the list as one JSON object
    #[arg(long, conflicts_with = "check")]
    pub json: bool,
    /// Import again under a new ID
    #[arg(long, conflicts_with = "check")]
    pub new_id: bool,
    /// Import also the branches that the user left, each as a session
    #[arg(long, conflicts_with_all = ["json", "check"])]
    pub branches: bool,
    /// Continue the sessions of a bundle in this folder
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Import each session of a damaged bundle up to the damage
    #[arg(long)]
    pub partial: bool,
    /// Report damage and unknown lines, with exit code 1 if there are any
    #[arg(long)]
    pub check: bool,
}

impl ImportArgs {
    /// Returns whether sessions are imported, not only listed or checked.
    pub(super) fn imports(&self) -> bool {
        self.yes || !self.sessions.is_empty() && !self.check
    }
}

fn agent(name: &str) -> Result<Agent, String> {
    let known = Agent::ALL.into_iter().find(|agent| agent.name() == name);
    known.ok_or_else(|| {
        let names = Agent::ALL.map(Agent::name).join(", ");
        format!("the agents are {names}")
    })
}

pub(super) fn run(ctx: &AppContext, args: &ImportArgs) -> Result<u8, CliError> {
    let bundles = bundle::bundles(ctx, &args.sessions)?;
    if bundles.is_empty() && (args.folder.is_some() || args.partial) {
        let error = "--folder and --partial are for bundles, and none is named";
        return Err(CliError::usage(error));
    }
    if !bundles.is_empty() {
        if args.branches || args.from.is_some() {
            let error = "--branches and --from are for sessions of other agents";
            return Err(CliError::usage(error));
        }
        let wanted = ToImport {
            folder: args.folder.as_deref(),
            partial: args.partial,
            new_id: args.new_id,
            json: args.json,
            check: args.check,
        };
        return bundle::import(ctx, &wanted, &bundles);
    }
    if args.json && (args.new_id || !args.sessions.is_empty()) {
        let error = "--json prints the list of other agents, or what was imported of a bundle";
        return Err(CliError::usage(error));
    }
    let cwd = ctx.env.cwd();
    let mut here = vec![ctx.here.root.clone(), cwd.to_path_buf()];
    here.extend(cwd.canonicalize());
    let is_everywhere = args.all || !args.sessions.is_empty();
    let folders = (!is_everywhere).then_some(here.as_slice());
    let imports = args.imports();
    // A list creates no store.
    let mut store = match imports {
        true => Some(ctx.open_store()?),
        // A list needs it only to be fast.
        false => match database::exists(&ctx.paths.data_dir) {
            true => ctx.open_store().ok(),
            false => None,
        },
    };
    let cache = match &store {
        // A check reads everything.
        Some(store) if !args.check => Cache::new(store.history().cached_sources()?),
        _ => Cache::default(),
    };
    let sources = Sources::new(&ctx.env);
    let (mut found, errors) = sources.list(args.from, folders, &cache);
    if let (Some(store), false) = (&mut store, args.check) {
        remember(store, &found);
    }
    found.retain(|one| !one.is_elsewhere);
    if args.sessions.is_empty() && !args.check {
        // An agent that was killed at its start leaves a session without a message.
        found.retain(|one| one.has_messages || one.is_newer);
    }
    if args.json {
        return json(&found, &errors);
    }
    if !args.sessions.is_empty() {
        found = named(found, &sources, args, ctx)?;
    }
    // Files beside those that are wanted do not matter.
    let errors = match args.sessions.is_empty() {
        true => errors,
        false => Vec::new(),
    };
    for error in &errors {
        note(&visible(&error.to_string()));
    }
    if args.check {
        return Ok(check(&found, !errors.is_empty()));
    }
    if let Some(store) = store.as_mut().filter(|_| imports) {
        if args.branches {
            let left: Vec<ForeignSession> =
                found.iter().flat_map(|one| one.branches(&cache)).collect();
            found.extend(left);
        }
        let is_sound = import(ctx, store, &mut found, args.new_id) && errors.is_empty();
        return Ok(if is_sound { exit::DONE } else { exit::FAILED });
    }
    for one in &found {
        line(&listed(one, args.all));
    }
    if found.is_empty() {
        note(if args.all {
            "no other agent has sessions here"
        } else {
            "no other agent has sessions of this folder; rewake import --all lists those of every folder"
        });
    }
    Ok(exit::DONE)
}

/// Stores what was read, so that the next list is fast. A failure changes nothing else.
fn remember(store: &mut Store, found: &[ForeignSession]) {
    let read: Vec<CachedSource> = found
        .iter()
        .filter(|one| one.was_read)
        .map(ForeignSession::cached)
        .collect();
    if !read.is_empty()
        && let Err(error) = cache_sources(store, &read)
    {
        tracing::warn!(%error, "what was read of other agents is not stored");
    }
}

/// Imports the sessions and prints the ID of each. Returns whether all were imported.
fn import(ctx: &AppContext, store: &mut Store, found: &mut [ForeignSession], new_id: bool) -> bool {
    let mut importer = Importer {
        store,
        data_dir: &ctx.paths.data_dir,
        workspace_of: &root_text,
        new_id,
        database: None,
    };
    let mut is_sound = true;
    // The oldest first: its copy has the older ID.
    for one in found.iter_mut().rev() {
        match importer.import(one) {
            Ok(imported) => {
                if let Some(before) = &imported.before {
                    note(&format!(
                        "{before} has other entries than the source has now, so another copy was made"
                    ));
                }
                let problems = imported.report.problems();
                if !problems.is_empty() {
                    let source = visible(&one.path.to_string_lossy()).into_owned();
                    note(&format!("{source}: {}", problems.join(", ")));
                }
                line(&imported.session);
            }
            Err(error) => {
                is_sound = false;
                let hint = error.hint().map(|hint| format!("\n  {hint}"));
                note(&format!(
                    "{}{}",
                    visible(&error.to_string()),
                    hint.unwrap_or_default()
                ));
            }
        }
    }
    is_sound
}

/// `claude    147e5f31-dc4c  2026-11-23 23:06  8 KiB  1 call without result  Fix the parser`
fn listed(one: &ForeignSession, is_everywhere: bool) -> String {
    let open = match one.open_calls {
        0 => String::new(),
        calls => format!("{} without result", count(calls, "call")),
    };
    let title = one.about.title.as_deref().unwrap_or_default();
    let folder = one.about.folder.as_ref().filter(|_| is_everywhere);
    let folder = folder.map(|folder| format!("  {}", visible(&folder.to_string_lossy())));
    let text = format!(
        "{:<8}  {}  {}  {:>7}  {open:<21}  {}{}",
        one.agent,
        one_line(&visible(short(&one.about.id)), ID_CHARS),
        local_time(one.updated_ms),
        size_text(one.bytes),
        one_line(&visible(title), TITLE_CHARS),
        folder.unwrap_or_default(),
    );
    text.trim_end().to_string()
}

fn short(id: &str) -> &str {
    id.char_indices()
        .nth(ID_CHARS)
        .map_or(id, |(end, _)| &id[..end])
}

fn json(found: &[ForeignSession], errors: &[SourceError]) -> Result<u8, CliError> {
    let sessions = found.iter().map(|one| {
        json!({
            "agent": one.agent,
            "id": one.about.id,
            "folder": one.about.folder,
            "title": one.about.title,
            "updated_ms": one.updated_ms,
            "bytes": one.bytes,
            "open_calls": one.open_calls,
            "imported": one.session,
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
fn named(
    mut found: Vec<ForeignSession>,
    sources: &Sources,
    args: &ImportArgs,
    ctx: &AppContext,
) -> Result<Vec<ForeignSession>, CliError> {
    let path_of = |name: &str| ctx.env.cwd().join(PathBuf::from(name));
    let is_it = |one: &ForeignSession, name: &str| {
        one.about.id.starts_with(name) || one.path == path_of(name)
    };
    let mut may_be_read = args.check || args.yes || !can_ask();
    for name in &args.sessions {
        if found.iter().any(|one| is_it(one, name)) {
            continue;
        }
        let path = path_of(name);
        if path.symlink_metadata().is_ok() {
            may_be_read = may_be_read || is_allowed(&path)?;
            let one = sources.file(&path, args.from);
            found.push(one.map_err(|e| CliError::failed(visible(&e.to_string())))?);
            continue;
        }
        let alike = |id: &str| {
            id.bytes()
                .zip(name.bytes())
                .take_while(|(a, b)| a == b)
                .count()
        };
        let ids = found.iter().map(|one| one.about.id.as_str());
        let nearest = ids.max_by_key(|id| alike(id)).filter(|id| alike(id) > 0);
        let error = CliError::usage(format!("no agent has a session {name:?}"));
        return Err(error.with_hint(match nearest {
            Some(id) => format!("the nearest is {id}"),
            None => "rewake import --all lists all".to_string(),
        }));
    }
    let is_named = |one: &ForeignSession| args.sessions.iter().any(|name| is_it(one, name));
    Ok(found.into_iter().filter(is_named).collect())
}

/// Asks before a file outside of the folders of the agents is imported. Without a terminal, its
/// name is consent.
fn is_allowed(path: &Path) -> Result<bool, CliError> {
    let question = format!(
        "{} is in no folder of an agent, and its messages will count as yours. Import it?",
        visible(&path.to_string_lossy())
    );
    match is_yes(&question) {
        true => Ok(true),
        false => Err(CliError::usage("nothing was imported")),
    }
}

/// Prints what is wrong with each session. Returns the exit code.
fn check(found: &[ForeignSession], has_errors: bool) -> u8 {
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
                one_line(&visible(short(&one.about.id)), ID_CHARS),
                one_line(&visible(&problem), 200)
            ));
        }
    }
    if is_sound { exit::DONE } else { exit::FAILED }
}
