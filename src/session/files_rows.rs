//! What is kept of the workspace's files, row by row: for `rewake doctor` and for `/files`.

use std::path::PathBuf;

use super::{AppContext, ago, now_ms, watch};
use crate::config::{Env, FilesConfig, FilesInTime, Paths};
use crate::core::text::count;
use crate::store::{Store, StoreError, database};
use crate::workspace::Here;
use crate::workspace::files::{Unwatched, Watch, guard};

/// How a row is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grade {
    Fine,
    /// It is as it is, and a person should know.
    Note,
    Wrong,
}

/// One thing that is said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesRow {
    pub grade: Grade,
    pub what: String,
    /// What helps.
    pub hint: Option<String>,
}

impl FilesRow {
    fn new(grade: Grade, what: impl Into<String>) -> FilesRow {
        FilesRow {
            grade,
            what: what.into(),
            hint: None,
        }
    }

    fn with_hint(mut self, hint: Option<&str>) -> FilesRow {
        self.hint = hint.map(str::to_string);
        self
    }

    /// All of it in one line.
    pub fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.what),
            None => self.what.clone(),
        }
    }
}

impl AppContext {
    /// As the settings that are in use say.
    pub fn files_rows(&self) -> Vec<FilesRow> {
        files_rows(&self.env, &self.paths, &self.here, &self.config().files)
    }
}

/// What is covered, how much it is, whether changes are watched, when it was looked at last, and
/// what of the room is used. Changes nothing.
pub fn files_rows(env: &Env, paths: &Paths, here: &Here, files: &FilesConfig) -> Vec<FilesRow> {
    let home = env.home().map(PathBuf::from);
    let unfit = guard::unfit(&here.root, home.as_deref());
    let mut rows = vec![covered(files, unfit)];
    if files.time == FilesInTime::Off {
        return rows;
    }
    let watch = match (files.time, unfit) {
        (FilesInTime::On, None) => Some(watch(&here.root, files.watch)),
        _ => None,
    };
    if let Some(why) = guard::nearly_full(&paths.data_dir) {
        let row = FilesRow::new(Grade::Wrong, format!("not kept at present: {why}"));
        rows.push(row.with_hint(Some("make room")));
    }
    if !database::exists(&paths.data_dir) {
        rows.extend(watched(watch, 0));
        return rows;
    }
    // What is wrong with the store is said of the store.
    let Ok(Some(store)) = Store::open_current(&paths.data_dir) else {
        return rows;
    };
    match stored(&store, here, files, watch) {
        Ok(more) => rows.extend(more),
        Err(error) => {
            let row = FilesRow::new(Grade::Wrong, error.to_string());
            rows.push(row.with_hint(error.hint().as_deref()));
        }
    }
    rows
}

fn covered(files: &FilesConfig, unfit: Option<&str>) -> FilesRow {
    match (files.time, unfit) {
        (FilesInTime::Off, _) => FilesRow::new(Grade::Note, "not kept (files.time)"),
        (FilesInTime::Tools, _) => {
            FilesRow::new(Grade::Fine, "what file tools write is kept (files.time)")
        }
        (FilesInTime::On, Some(why)) => {
            let what = format!("only what file tools write is kept: {why}");
            FilesRow::new(Grade::Note, what)
        }
        (FilesInTime::On, None) => {
            let megabytes = files.max_file_bytes as f64 / 1e6;
            let most = files.max_files;
            let what =
                format!("what is not ignored is kept: at most {most} files of {megabytes:.1} MB");
            FilesRow::new(Grade::Fine, what)
        }
    }
}

fn stored(
    store: &Store,
    here: &Here,
    files: &FilesConfig,
    watch: Option<Result<usize, Unwatched>>,
) -> Result<Vec<FilesRow>, StoreError> {
    let mut rows = Vec::new();
    let used = store.files_bytes()?;
    if let Some((count, bytes)) = store.last_tree_size(&here.root)? {
        let megabytes = bytes as f64 / 1e6;
        let what = format!("{count} in the last tree, {megabytes:.1} MB");
        rows.push(FilesRow::new(Grade::Fine, what));
    }
    if let Some(at_ms) = store.last_tree_ms(&here.root)? {
        let what = format!("the last tree was recorded {} ago", ago(now_ms() - at_ms));
        rows.push(FilesRow::new(Grade::Fine, what));
    }
    let folders = store.last_tree(&here.root).ok().flatten();
    rows.extend(watched(
        watch,
        folders.map_or(0, |known| known.tree.folders()),
    ));
    rows.push(room(used, files.max_bytes));
    Ok(rows)
}

/// Whether the kernel tells what changes, and why not. `folders`: as many are known.
fn watched(watch: Option<Result<usize, Unwatched>>, folders: usize) -> Option<FilesRow> {
    let refused = match watch? {
        // One instance is tried: others may use them up.
        Ok(most) if folders <= most => Watch::new(most).err(),
        Ok(most) => Some(Unwatched::Limit(most)),
        Err(why) => Some(why),
    };
    Some(match refused {
        None => {
            let what = format!("changes are watched: {}", count(folders, "folder"));
            FilesRow::new(Grade::Fine, what)
        }
        Some(why) => {
            let what = format!("changes are not watched, so all files are looked at: {why}");
            FilesRow::new(Grade::Note, what).with_hint(why.hint())
        }
    })
}

fn room(used: u64, most: u64) -> FilesRow {
    let (used_mb, most_mb) = (used as f64 / 1e6, most as f64 / 1e6);
    let what = format!("{used_mb:.1} of {most_mb:.1} MB are used by all workspaces");
    let hint = Some("rewake gc makes room");
    match used {
        _ if used >= most => {
            FilesRow::new(Grade::Wrong, format!("{what}: nothing more is kept")).with_hint(hint)
        }
        _ if used >= most / 5 * 4 => FilesRow::new(Grade::Note, what).with_hint(hint),
        _ => FilesRow::new(Grade::Fine, what),
    }
}
