//! `rewake rewind`: returns to an entry of a session.
//!
//! The command first shows the changes, and applies them only after a yes. Protected paths and
//! paths outside of the workspace need an answer each, from a person at a terminal. `--yes` does
//! not answer that.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use super::confirm::{can_ask, is_yes};
use super::diff::unknown_files;
use crate::core::command_changes::shell_word;
use crate::core::entry::{Entry, KeptWhy, Seq, UnrestoredPath};
use crate::core::file_name::path_text;
use crate::core::path;
use crate::core::rewind::{PathChoice, kept};
use crate::core::text::{count, large_count};
use crate::core::tree::{Change, PathBytes, diff};
use crate::core::visible::figure;
use crate::engine::{Back, Engine, EngineError, Event, NotRewound, Rewind, Rewinding};
use crate::report::{CliError, exit, line, note};
use crate::session::{
    AppContext, NEVER_SET_BACK, RewindPreview, RewindRow, Session, SessionSelector, drive,
    journal_fails, short_id,
};
use crate::store::{Store, StoreError};
use crate::world::machine::Machine;

/// Maximum number of unchanged paths that are named.
const MAX_NAMED: usize = 50;

/// Rewind files, conversation or both to an entry of a session
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct RewindArgs {
    /// Session ID or its beginning
    pub id: String,
    /// Entry, as `rewake show` numbers them
    #[arg(value_name = "ENTRY", required_unless_present = "redo")]
    pub entry: Option<u64>,
    /// Restore the files and leave the conversation unchanged
    #[arg(long, group = "what")]
    pub files: bool,
    /// Copy the session up to ENTRY and leave the files unchanged
    #[arg(long, group = "what")]
    pub conversation: bool,
    /// Restore the files and copy the session up to ENTRY
    #[arg(long, group = "what")]
    pub both: bool,
    /// Undo the last rewind of files
    #[arg(long, conflicts_with_all = ["what", "entry"])]
    pub redo: bool,
    /// Show the changes without making them
    #[arg(long)]
    pub preview: bool,
    /// Restore files that were changed outside of rewake, too
    #[arg(long, conflicts_with = "conversation")]
    pub exact: bool,
    /// Leave this file or folder unchanged (repeatable)
    #[arg(long, value_name = "PATH", conflicts_with = "conversation")]
    pub keep: Vec<PathBuf>,
    /// Restore this file or folder even if you changed it (repeatable)
    #[arg(long, value_name = "PATH", conflicts_with = "conversation")]
    pub take: Vec<PathBuf>,
    /// Skip the confirmation
    #[arg(long)]
    pub yes: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

impl RewindArgs {
    /// Returns an error about missing arguments.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.redo || self.files || self.conversation || self.both {
            true => Ok(()),
            false => Err("choose what to rewind: --files, --conversation or --both".to_string()),
        }
    }
}

/// The options of questions and output.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    pub preview: bool,
    pub yes: bool,
    pub json: bool,
}

pub(super) fn run(ctx: &AppContext, wanted: &RewindArgs) -> Result<u8, CliError> {
    let manner = Manner {
        preview: wanted.preview,
        yes: wanted.yes,
        json: wanted.json,
    };
    let back = wanted.entry.map_or(Back::Undo, Back::To);
    if let (true, Back::To(entry)) = (wanted.conversation, back) {
        return conversation(ctx, &wanted.id, entry, manner);
    }
    let chosen = PathChoices::of(ctx, wanted);
    let asked = |rewind: Rewind| Rewind {
        whole: wanted.exact,
        chosen: chosen.paths.clone(),
        ..rewind
    };
    match (wanted.both, back) {
        (true, Back::To(entry)) => both(ctx, &wanted.id, entry, manner, &chosen, asked),
        _ => files(ctx, &wanted.id, back, manner, &chosen, asked),
    }
}

/// Returns the forms in which a tree may contain a path: relative to the workspace's root, and
/// absolute.
pub(super) fn spelled(ctx: &AppContext, given: &Path) -> [PathBytes; 2] {
    let cwd = ctx.env.cwd().canonicalize();
    let cwd = cwd.unwrap_or_else(|_| ctx.env.cwd().to_path_buf());
    let whole = path::clean(&path::join(
        &cwd.to_string_lossy(),
        &given.to_string_lossy(),
    ));
    let whole = PathBuf::from(whole);
    let below = whole.strip_prefix(&ctx.here.root).unwrap_or(&whole);
    [below, &whole].map(|path| path.as_os_str().as_bytes().to_vec())
}

/// Choices for single paths.
#[derive(Default)]
pub(super) struct PathChoices {
    paths: BTreeMap<PathBytes, PathChoice>,
    /// Paths as given, each with the forms that a tree may contain.
    given: Vec<(PathBuf, [PathBytes; 2])>,
}

impl PathChoices {
    fn of(ctx: &AppContext, wanted: &RewindArgs) -> PathChoices {
        let take = wanted.take.iter().map(|path| (path, PathChoice::Take));
        let keep = wanted.keep.iter().map(|path| (path, PathChoice::Keep));
        let mut chosen = PathChoices::default();
        // If a path is in both lists, the safer choice applies.
        for (path, choice) in take.chain(keep) {
            let spelled = spelled(ctx, path);
            chosen
                .paths
                .extend(spelled.clone().map(|path| (path, choice)));
            chosen.given.push((path.clone(), spelled));
        }
        chosen
    }

    /// Checks that each path matches, so that a mistyped path is not silently ignored.
    fn check(&self, rewinding: &Rewinding) -> Result<(), CliError> {
        let Rewinding { then, now, .. } = rewinding;
        let delta = diff(now, then);
        let is_at = |path: &PathBytes, given: &PathBytes| {
            let rest = path.strip_prefix(given.as_slice());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        for (given, spelled) in &self.given {
            let differs = |path: &PathBytes| spelled.iter().any(|given| is_at(path, given));
            if !delta.0.keys().any(differs) {
                let why = format!("nothing at {} differs from what it was", given.display());
                let hint = "--keep and --take name a file that changed since, or a folder of some; \
                            --preview lists them";
                return Err(CliError::usage(why).with_hint(hint));
            }
        }
        Ok(())
    }
}

/// Forks the session at this entry.
fn conversation(ctx: &AppContext, id: &str, to: Seq, manner: Manner) -> Result<u8, CliError> {
    let mut store = super::open_store(ctx)?;
    let info = store.history().find(id)?;
    if manner.preview && manner.json {
        line(&json!({ "changes": [], "kept": [], "warnings": [] }).to_string());
        return Ok(exit::DONE);
    }
    if manner.preview {
        line(&format!(
            "a copy of session {} up to entry {to}; the files stay as they are",
            short_id(&info.id)
        ));
        return Ok(exit::DONE);
    }
    let (copy, warning) = ctx.rewind_conversation(&mut store, &info.id, to, None)?;
    warning.iter().for_each(|warning| note(warning));
    copied(&copy, manner);
    Ok(exit::DONE)
}

fn copied(copy: &str, manner: Manner) {
    match manner.json {
        true => line(&json!({ "session": copy }).to_string()),
        false => line(copy),
    }
    note(&format!(
        "to continue from there: rewake -r {}",
        short_id(copy)
    ));
}

/// Refuses a copy that was imported. To open it would make a fork, which has no files here.
pub(super) fn refuse_copy(ctx: &AppContext, id: &str) -> Result<(), CliError> {
    let info = super::open_store_for_reading(ctx)?.history().find(id)?;
    match info.replica {
        None => Ok(()),
        Some(agent) => Err(StoreError::Replica {
            session: info.id,
            agent,
        }
        .into()),
    }
}

/// Runs `work` with the engine of a session. The engine starts no work by itself.
fn with_engine<T>(
    ctx: &AppContext,
    id: &str,
    work: impl AsyncFnOnce(&mut Engine<Machine>, &str, &str) -> T,
) -> Result<(String, T), CliError> {
    refuse_copy(ctx, id)?;
    let which = SessionSelector::Named {
        id: id.to_string(),
        fork: false,
    };
    let session: Session = ctx.open(&which, false)?;
    session.warnings.iter().for_each(|warning| note(warning));
    let id = session.id.clone();
    let folder = session.log.state.folder.clone();
    let on_event = |_: &crate::core::state::State, event: Event| {
        if let Event::JournalFails(why) = event {
            note(&journal_fails(&why));
        }
    };
    // Unbounded: nothing is sent.
    let (_commands, inbox) = unbounded_channel();
    let done = drive(session, inbox, Box::new(on_event), async |driver| {
        work(&mut driver.engine, &folder, &id).await
    })?;
    Ok((id, done))
}

pub(super) fn files(
    ctx: &AppContext,
    id: &str,
    back: Back,
    manner: Manner,
    chosen: &PathChoices,
    asked: impl Fn(Rewind) -> Rewind,
) -> Result<u8, CliError> {
    let (_, done) = with_engine(ctx, id, async |engine, folder, id| {
        let wanted = asked(ctx.rewind(folder, back));
        match agreed(ctx, engine, id, wanted, manner, chosen).await? {
            Agreed::Yes(rewinding) => {
                let planned = kept(&rewinding.plan.kept);
                let restored = engine.rewind(*rewinding).await.map_err(engine_trouble)?;
                Ok(report_result(restored.as_ref(), &planned, None, manner))
            }
            Agreed::Over(code) => Ok(code),
        }
    })?;
    done
}

fn both(
    ctx: &AppContext,
    id: &str,
    to: Seq,
    manner: Manner,
    chosen: &PathChoices,
    asked: impl Fn(Rewind) -> Rewind,
) -> Result<u8, CliError> {
    let (origin, planned) = with_engine(ctx, id, async |engine, folder, id| {
        let wanted = asked(ctx.rewind(folder, Back::To(to)));
        agreed(ctx, engine, id, wanted, manner, chosen).await
    })?;
    let rewinding = match planned? {
        Agreed::Yes(rewinding) => *rewinding,
        Agreed::Over(code) => return Ok(code),
    };
    let planned = kept(&rewinding.plan.kept);
    let mut store = super::open_store(ctx)?;
    let (copy, warning) = ctx.rewind_conversation(&mut store, &origin, to, Some(rewinding))?;
    drop(store);
    warning.iter().for_each(|warning| note(warning));
    let (_, restored) = with_engine(ctx, &copy, async |engine, _, _| engine.restore().await)?;
    let restored = restored.map_err(engine_trouble)?;
    let code = report_result(restored.as_ref(), &planned, Some(&copy), manner);
    note(&format!(
        "to continue from there: rewake -r {}",
        short_id(&copy)
    ));
    Ok(code)
}

/// Paths that stay unchanged according to the plan, and the number of further ones.
type UnchangedPaths = (Vec<UnrestoredPath>, u64);

/// The user's decision about the preview.
enum Agreed {
    Yes(Box<Rewinding>),
    /// The command ends with this exit code.
    Over(u8),
}

/// Shows the changes and asks for approval.
async fn agreed(
    ctx: &AppContext,
    engine: &mut Engine<Machine>,
    id: &str,
    mut wanted: Rewind,
    manner: Manner,
    chosen: &PathChoices,
) -> Result<Agreed, CliError> {
    let mut rewinding = engine.plan_rewind(&wanted).await.map_err(not_rewound)?;
    chosen.check(&rewinding)?;
    let store = ctx.open_store()?;
    if manner.preview {
        shown(ctx, &store, id, &rewinding, manner)?;
        return Ok(Agreed::Over(code_of(rewinding.plan.kept.values())));
    }
    let is_asked = !manner.yes && can_ask();
    if is_asked {
        shown(ctx, &store, id, &rewinding, manner)?;
        let needs_own_yes = |why: &KeptWhy| matches!(why, KeptWhy::Protected | KeptWhy::Outside);
        let kept = rewinding.plan.kept.iter();
        let kept = kept.filter(|(_, why)| needs_own_yes(why));
        let asked: Vec<(PathBytes, KeptWhy)> = kept.map(|(p, why)| (p.clone(), *why)).collect();
        for (path, why) in asked {
            if is_yes(&format!("also {} ({})?", path_text(&path), why.words())) {
                wanted.allowed.insert(path);
            }
        }
        if !wanted.allowed.is_empty() {
            rewinding = engine.plan_rewind(&wanted).await.map_err(not_rewound)?;
        }
        if rewinding.entry.is_some() && !is_yes("restore the files?") {
            note("nothing was changed");
            return Ok(Agreed::Over(exit::DONE));
        }
        return Ok(Agreed::Yes(Box::new(rewinding)));
    }
    if !manner.yes {
        shown(ctx, &store, id, &rewinding, manner)?;
        return Err(
            CliError::usage("nothing was changed: there is no terminal to ask for a yes")
                .with_hint("--yes restores the files, --preview only shows what would change"),
        );
    }
    Ok(Agreed::Yes(Box::new(rewinding)))
}

/// Prints the changes, one line per path, and the paths that stay unchanged.
fn shown(
    ctx: &AppContext,
    store: &Store,
    id: &str,
    rewinding: &Rewinding,
    manner: Manner,
) -> Result<(), CliError> {
    let preview = ctx.session_list().rewind_preview(store, id, rewinding)?;
    if manner.json {
        return shown_as_json(rewinding, &preview);
    }
    for row in &preview.rows {
        if let Ok(change) = &row.planned {
            line(&format!("{}  {}", row.name, change.text()));
        }
    }
    let of_commands = &rewinding.plan.of_commands;
    if !of_commands.is_empty() {
        let paths: Vec<String> = of_commands
            .iter()
            .take(MAX_NAMED)
            .map(|p| path_text(p))
            .collect();
        line(&format!(
            "of these, {} changed while a command ran: {}",
            count(of_commands.len(), "file"),
            paths.join(", ")
        ));
    }
    preview.warnings.iter().for_each(|warning| note(warning));
    let (named, _) = kept(&rewinding.plan.kept);
    say_kept(&named, rewinding.plan.kept.len() as u64);
    // An option takes text alone.
    let is_offered = |row: &&RewindRow| row.may_be_removed() && str::from_utf8(&row.path).is_ok();
    let removable = preview.rows.iter().filter(is_offered);
    let removable: Vec<String> = removable
        .take(MAX_NAMED)
        .map(|row| format!("--take {}", shell_word(&row.path)))
        .collect();
    if !removable.is_empty() {
        let paths = removable.join(" ");
        note(&format!(
            "hint: to remove what appeared while a command ran: {paths}"
        ));
    }
    note(NEVER_SET_BACK);
    Ok(())
}

fn shown_as_json(rewinding: &Rewinding, preview: &RewindPreview) -> Result<(), CliError> {
    let delta = diff(&rewinding.now, &rewinding.plan.target);
    let planned = preview.rows.iter().map(|row| (&row.path, &row.planned));
    let planned: BTreeMap<_, _> = planned.collect();
    let changes: Vec<Value> = delta
        .0
        .iter()
        .map(|(path, change)| {
            let what = match change {
                Change::Put { .. } => "write",
                Change::Gone { .. } => "remove",
            };
            let figures = planned.get(path).and_then(|planned| planned.as_ref().ok());
            json!({
                "path": exact(path), "what": what,
                "figures": figures.map(|change| &change.figures),
            })
        })
        .collect();
    let removable = preview.rows.iter().filter(|row| row.may_be_removed());
    let removable: BTreeSet<&PathBytes> = removable.map(|row| &row.path).collect();
    let kept = rewinding.plan.kept.iter();
    let kept: Vec<Value> = kept
        .map(|(path, why)| {
            if removable.contains(path) {
                json!({ "path": exact(path), "why": why, "take": "remove" })
            } else {
                json!({ "path": exact(path), "why": why })
            }
        })
        .collect();
    let said = json!({ "changes": changes, "kept": kept, "warnings": preview.warnings });
    line(&said.to_string());
    Ok(())
}

/// Returns a path for a program: as it is if it is UTF-8, otherwise quoted.
fn exact(path: &[u8]) -> String {
    str::from_utf8(path).map_or_else(|_| path_text(path), str::to_string)
}

/// Reports unchanged paths on stderr.
fn say_kept(kept: &[UnrestoredPath], all: u64) {
    let of_note = kept.iter().filter(|kept| kept.why != KeptWhy::Yours);
    for UnrestoredPath { path, why } in of_note.take(MAX_NAMED) {
        note(&format!("stays as it is: {path} ({})", why.words()));
    }
    let yours = kept
        .iter()
        .filter(|kept| kept.why == KeptWhy::Yours)
        .count() as u64;
    let yours = yours + all.saturating_sub(kept.len() as u64);
    if yours > 0 {
        note(&format!(
            "{} changed outside of rewake, and {} as {}",
            count(yours, "file"),
            if yours == 1 { "stays" } else { "stay" },
            if yours == 1 { "it is" } else { "they are" },
        ));
    }
}

/// Reports the result, and returns the exit code. `planned` contains the unchanged paths if there
/// was nothing to do.
fn report_result(
    restored: Option<&Entry>,
    planned: &UnchangedPaths,
    copy: Option<&str>,
    manner: Manner,
) -> u8 {
    let nothing = Entry::Restored {
        new_folder: false,
        tree: None,
        written: 0,
        removed: 0,
        paths: Vec::new(),
        kept: planned.0.clone(),
        more_kept: planned.1,
        why: None,
    };
    let Entry::Restored {
        written,
        removed,
        kept,
        more_kept,
        why,
        ..
    } = restored.unwrap_or(&nothing)
    else {
        return exit::DONE;
    };
    if manner.json {
        let kept: Vec<Value> = kept
            .iter()
            .map(|kept| json!({ "path": kept.path, "why": kept.why }))
            .collect();
        let said = json!({
            "written": written, "removed": removed, "kept": kept, "more_kept": more_kept,
            "error": why, "session": copy,
        });
        line(&said.to_string());
    } else {
        copy.iter().for_each(|copy| line(copy));
        match (restored, why) {
            (None, _) => note("no file had to be restored"),
            (Some(_), None) => note(&format!(
                "{} restored, {} removed",
                large_count(*written, "file"),
                figure(removed)
            )),
            (Some(_), Some(_)) => {}
        }
    }
    say_kept(kept, kept.len() as u64 + more_kept);
    if let Some(why) = why {
        crate::report::error(
            &format!("no file was restored: {why}"),
            Some("nothing was changed; you can try again"),
        );
        return exit::RESUMABLE;
    }
    code_of(kept.iter().map(|kept| &kept.why))
}

/// Returns the exit code. Files that only others changed were expected to stay unchanged.
fn code_of<'a>(mut kept: impl Iterator<Item = &'a KeptWhy>) -> u8 {
    match kept.any(|why| !why.is_expected()) {
        true => exit::FAILED,
        false => exit::DONE,
    }
}

fn engine_trouble(error: EngineError) -> CliError {
    CliError::from(&error)
}

fn not_rewound(error: NotRewound) -> CliError {
    match error {
        NotRewound::Engine(error) => engine_trouble(error),
        NotRewound::Unknown(place) => unknown_files(&place),
        NotRewound::OtherFolder(_) => CliError::usage(error.to_string())
            .with_hint("rewake restore PATH --at ID:ENTRY -o FILE prints one file as it was there"),
        NotRewound::NothingToRedo => CliError::usage(error.to_string()),
        NotRewound::OpenCall => CliError::new(exit::RESUMABLE, error.to_string())
            .with_hint("rewake -p -r ID resumes it; --conversation leaves it behind"),
        NotRewound::NotKept(_) => CliError::new(exit::RESUMABLE, error.to_string())
            .with_hint("nothing was changed; rewake doctor says what is kept"),
    }
}
