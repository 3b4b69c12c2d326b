//! Bundles: `rewake export --bundle` and `rewake import FILE`.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::json;
use tempfile::NamedTempFile;

use super::confirm::{can_ask, is_yes};
use super::print_json;
use crate::bundle::{
    About, Bundle, BundleError, CheckedSession, Exported, Exporting, Files, Import, Importer,
    InputFile, is_bundle,
};
use crate::core::text::{count, one_line};
use crate::core::visible::visible;
use crate::report::{CliError, exit, line, note};
use crate::session::{AppContext, short_id};
use crate::store::{ExportView, host_name, now_ms};
use crate::tools;
use crate::workspace::root_text;

const TITLE_CHARS: usize = 80;
/// Maximum number of sessions that a question names.
const MAX_NAMED: usize = 10;

/// The states of files in a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FilesArg {
    Last,
    All,
}

/// The request for an export.
pub(super) struct ToExport<'a> {
    pub ids: &'a [String],
    /// All sessions outside the trash.
    pub all: bool,
    pub files: Option<FilesArg>,
    /// Replace an existing file.
    pub force: bool,
}

/// The request for an import.
pub(super) struct ToImport<'a> {
    pub folder: Option<&'a Path>,
    pub partial: bool,
    pub new_id: bool,
    pub json: bool,
    pub check: bool,
}

/// Runs `rewake export --bundle`.
pub(super) fn export(ctx: &AppContext, args: &ToExport<'_>, to: &Path) -> Result<u8, CliError> {
    let is_stdout = to == Path::new("-");
    if is_stdout && std::io::stdout().is_terminal() {
        let error = CliError::usage("a bundle is not for a terminal");
        return Err(error.with_hint("name a file, or redirect stdout"));
    }
    let store = super::open_store_for_reading(ctx)?;
    let mut named = Vec::new();
    for id in args.ids {
        named.push(store.history().find(id)?.id);
    }
    let view = ExportView::of(&store)?;
    if args.all {
        named = view.all()?;
    }
    if named.is_empty() {
        return Err(CliError::usage("there is no session to export"));
    }
    let files = match args.files {
        None => Files::None,
        Some(FilesArg::Last) => Files::Last,
        Some(FilesArg::All) => Files::All,
    };
    let exporting = Exporting::new(&view, &named, files, host_name(), now_ms())?;
    match is_stdout {
        true => drop(exporting.write(BufWriter::new(std::io::stdout().lock()))?),
        false => to_file(&exporting, &ctx.env.cwd().join(to), args.force)?,
    }
    let summary = exporting.summary()?;
    let mut said = format!(
        "{} with {}, and with everything that they read or printed: it may contain secrets",
        count(summary.sessions, "session"),
        count(summary.entries, "entry"),
    );
    if summary.waiting > 0 {
        let waiting = count(summary.waiting, "queued message");
        said.push_str(&format!("; {waiting} left out"));
    }
    if summary.missing_blobs > 0 {
        let missing = count(summary.missing_blobs, "large output");
        said.push_str(&format!("; {missing} missing in the store"));
    }
    note(&said);
    if files != Files::None {
        note(&files_note(&summary));
    }
    Ok(exit::DONE)
}

/// Returns what of the files is in a bundle, and what is not.
fn files_note(summary: &Exported) -> String {
    let mut said = match summary.states {
        0 => "no state of files is stored for it".to_string(),
        states => format!("{} of files", count(states, "state")),
    };
    if summary.missing_files > 0 {
        let missing = summary.missing_files;
        said.push_str(&format!("; {missing} states or files missing in the store"));
    }
    let (shown, more) = summary
        .left_out
        .split_at(summary.left_out.len().min(MAX_NAMED));
    if !shown.is_empty() {
        said.push_str(&format!("; not in it: {}", shown.join(", ")));
    }
    if !more.is_empty() {
        said.push_str(&format!(" and {} more", more.len()));
    }
    said
}

/// Writes the file under a temporary name, and renames it when all of it is on the disk.
fn to_file(exporting: &Exporting<'_>, path: &Path, replace: bool) -> Result<(), CliError> {
    let failed = |error: std::io::Error| {
        CliError::failed(format!("cannot write {}: {error}", path.display()))
    };
    let exists = || {
        let error = CliError::usage(format!("{} exists already", path.display()));
        error.with_hint("give another name, or --force to replace it")
    };
    if !replace && path.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(folder).map_err(failed)?;
    exporting.write(BufWriter::new(file.as_file_mut()))?;
    file.as_file().sync_all().map_err(failed)?;
    let kept = match replace {
        true => file.persist(path),
        false => file.persist_noclobber(path),
    };
    match kept {
        Ok(_) => File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(failed),
        Err(e) if e.error.kind() == std::io::ErrorKind::AlreadyExists => Err(exists()),
        Err(e) => Err(failed(e.error)),
    }
}

/// Returns the files among the sessions to import that are bundles. Their first bytes tell, not their
/// names. `-` is stdin.
pub(super) fn bundles(ctx: &AppContext, names: &[String]) -> Result<Vec<PathBuf>, CliError> {
    let mut found = Vec::new();
    for name in names {
        if name == "-" {
            if std::io::stdin().is_terminal() {
                let error = CliError::usage("a bundle is not typed at a terminal");
                return Err(error.with_hint("rewake export ID --bundle - | rewake import -"));
            }
            found.push(PathBuf::from("-"));
            continue;
        }
        let path = ctx.env.cwd().join(name);
        let mut first = [0; 4];
        // Only a file is opened: the name may be an ID, and opening a FIFO could wait.
        let is_file = path.metadata().is_ok_and(|file| file.is_file());
        let mut read = || File::open(&path)?.read_exact(&mut first);
        if is_file && read().is_ok() && is_bundle(&first) {
            found.push(path);
        }
    }
    let others = names.len() - found.len();
    if !found.is_empty() && others > 0 {
        let error = "bundles and sessions of other agents are not imported in one command";
        return Err(CliError::usage(error));
    }
    Ok(found)
}

/// Runs `rewake import FILE`.
pub(super) fn import(
    ctx: &AppContext,
    args: &ToImport<'_>,
    files: &[PathBuf],
) -> Result<u8, CliError> {
    let mut imported = Vec::new();
    for file in files {
        let bundle = checked(ctx, args.partial, file)?;
        let from = from(&bundle.about);
        if let Some(loss) = &bundle.loss {
            note(&format!("not all of the bundle can be imported: {loss}"));
        }
        if args.check {
            list(&bundle);
            continue;
        }
        let mut named = Vec::new();
        for listed in bundle.about.sessions.iter().take(MAX_NAMED) {
            let folder = match args.folder {
                Some(_) => String::new(),
                None => folder_of(&bundle, &listed.id),
            };
            named.push(format!("\n  {}{folder}", title(listed.title.as_deref())));
        }
        note(&format!("{from}:{}", named.concat()));
        let question = "its messages will count as yours in a fork. Import it?";
        if can_ask() && !is_yes(question) {
            return Err(CliError::usage("nothing was imported"));
        }
        imported.extend(record(ctx, args, &bundle)?);
    }
    if args.check {
        return Ok(exit::DONE);
    }
    if args.json {
        let sessions = imported.iter().map(|one| {
            json!({ "id": one.session, "appended": one.appended, "open_calls": one.open_calls })
        });
        return print_json(&json!({ "sessions": sessions.collect::<Vec<_>>() }));
    }
    for one in &imported {
        if one.open_calls > 0 {
            let calls = count(one.open_calls, "call");
            note(&format!(
                "{}: {calls} without a result",
                short_id(&one.session)
            ));
        }
        line(&one.session);
    }
    Ok(exit::DONE)
}

fn checked(ctx: &AppContext, partial: bool, file: &Path) -> Result<Bundle, CliError> {
    let data_dir = &ctx.paths.data_dir;
    let temporary = std::env::temp_dir();
    // A check creates no store.
    let folder = match data_dir.is_dir() {
        true => data_dir,
        false => &temporary,
    };
    let copied = match file == Path::new("-") {
        true => InputFile::copy(std::io::stdin().lock(), folder),
        false => File::open(file)
            .map_err(BundleError::from)
            .and_then(|file| InputFile::copy(file, folder)),
    };
    Ok(Bundle::check(copied?, tools::describe, partial)?)
}

fn record(ctx: &AppContext, args: &ToImport<'_>, bundle: &Bundle) -> Result<Vec<Import>, CliError> {
    let folder = match args.folder {
        Some(folder) => {
            let path = ctx.env.cwd().join(folder);
            let canonical = path.canonicalize().ok().filter(|path| path.is_dir());
            Some(
                canonical
                    .ok_or_else(|| CliError::usage(format!("{} is no folder", path.display())))?,
            )
        }
        None => None,
    };
    let mut store = ctx.open_store()?;
    let mut importer = Importer {
        store: &mut store,
        data_dir: &ctx.paths.data_dir,
        folder: folder.as_deref(),
        workspace_of: &root_text,
        new_id: args.new_id,
        max_file_bytes: ctx.config().files.max_bytes,
        now_ms: now_ms(),
    };
    let mut imported = importer.import(bundle)?;
    // Ancestors and subagents were not asked for.
    imported.retain(|one| one.is_named);
    Ok(imported)
}

fn list(bundle: &Bundle) {
    note(&format!("{}: no problems", from(&bundle.about)));
    if bundle.files.states() > 0 {
        note(&format!(
            "{} and {} of files",
            count(bundle.files.states(), "state"),
            count(bundle.files.contents.len() as u64, "content")
        ));
    }
    for session in &bundle.sessions {
        let id = session.header.session.as_str();
        let listed = bundle.about.sessions.iter().find(|listed| listed.id == id);
        let title = match listed {
            Some(listed) => title(listed.title.as_deref()),
            None => "needed by the others".to_string(),
        };
        let open = match session.open_calls {
            0 => String::new(),
            calls => format!("  {} without a result", count(calls, "call")),
        };
        let entries = count(session.end() - session.header.first, "entry");
        let folder = folder_of(bundle, id);
        line(&format!("{id}  {entries}{open}  {title}{folder}"));
    }
}

/// Returns `  in /the/folder` for a session.
fn folder_of(bundle: &Bundle, id: &str) -> String {
    let found = bundle.sessions.iter().find(|s| s.header.session == id);
    let folder = found.map(CheckedSession::folder).unwrap_or_default();
    match folder.is_empty() {
        true => String::new(),
        false => format!("  in {}", one_line(&folder, TITLE_CHARS)),
    }
}

fn from(about: &About) -> String {
    let host = one_line(&visible(&about.host), TITLE_CHARS);
    let sessions = count(about.sessions.len() as u64, "session");
    format!("{sessions} of {host}")
}

fn title(title: Option<&str>) -> String {
    one_line(&visible(title.unwrap_or("without a title")), TITLE_CHARS)
}
