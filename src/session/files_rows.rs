//! The state of the snapshots as rows, for `rewake doctor` and for `/files`.

use std::path::PathBuf;

use super::{AppContext, ago, now_ms, watch};
use crate::config::{Env, FilesConfig, FilesInTime, Paths};
use crate::core::text::{large_count, size_text};
use crate::store::{Store, StoreError, database};
use crate::workspace::StartFolder;
use crate::workspace::files::{Unwatched, Watch, guard};

/// The grade of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grade {
    Fine,
    /// A fact that a person should know.
    Note,
    Wrong,
}

/// One row about the snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesRow {
    pub grade: Grade,
    pub what: String,
    /// A remedy.
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

    /// Returns the row with its hint in one line.
    pub fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.what),
            None => self.what.clone(),
        }
    }
}

impl AppContext {
    /// Returns the rows for the current settings.
    pub fn files_rows(&self) -> Vec<FilesRow> {
        files_rows(&self.env, &self.paths, &self.here, &self.config().files)
    }
}

/// Returns rows for the covered files, their size, the watch for changes, the time of the last
/// snapshot, and the used space. Changes nothing.
pub fn files_rows(
    env: &Env,
    paths: &Paths,
    here: &StartFolder,
    files: &FilesConfig,
) -> Vec<FilesRow> {
    let home = env.home().map(PathBuf::from);
    let unfit = guard::unfit(&here.root, home.as_deref());
    let mut rows = vec![covered(files, unfit)];
    if files.snapshots == FilesInTime::Off {
        return rows;
    }
    let watch = match (files.snapshots, unfit) {
        (FilesInTime::On, None) => Some(watch(&here.root, files.watch)),
        _ => None,
    };
    if let Some(why) = guard::nearly_full(&paths.data_dir) {
        let row = FilesRow::new(Grade::Wrong, format!("no snapshots at present: {why}"));
        rows.push(row.with_hint(Some("free some space on the disk")));
    }
    if !database::exists(&paths.data_dir) {
        rows.extend(watched(watch, 0));
        return rows;
    }
    // Other checks report problems of the store.
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
    match (files.snapshots, unfit) {
        (FilesInTime::Off, _) => FilesRow::new(Grade::Note, "snapshots are off (files.snapshots)"),
        (FilesInTime::Tools, _) => FilesRow::new(
            Grade::Fine,
            "only files that rewake edits can be restored (files.snapshots)",
        ),
        (FilesInTime::On, Some(why)) => {
            let what = format!("{why}: only files that rewake edits can be restored");
            FilesRow::new(Grade::Note, what)
        }
        (FilesInTime::On, None) => {
            let most = large_count(files.max_files, "file");
            let bytes = size_text(files.max_file_bytes);
            let what = format!(
                "snapshots hold all files that git does not ignore: up to {most} of at most {bytes} each"
            );
            FilesRow::new(Grade::Fine, what)
        }
    }
}

fn stored(
    store: &Store,
    here: &StartFolder,
    files: &FilesConfig,
    watch: Option<Result<usize, Unwatched>>,
) -> Result<Vec<FilesRow>, StoreError> {
    let mut rows = Vec::new();
    let used = store.snapshots().files_bytes()?;
    if let Some((files, bytes)) = store.snapshots().last_tree_size(&here.root)? {
        let (files, bytes) = (large_count(files, "file"), size_text(bytes));
        let what = format!("the last snapshot has {files}, {bytes}");
        rows.push(FilesRow::new(Grade::Fine, what));
    }
    if let Some(at_ms) = store.snapshots().last_tree_ms(&here.root)? {
        let what = format!("the last snapshot was taken {} ago", ago(now_ms() - at_ms));
        rows.push(FilesRow::new(Grade::Fine, what));
    }
    let folders = store.snapshots().last_tree(&here.root).ok().flatten();
    rows.extend(watched(
        watch,
        folders.map_or(0, |known| known.tree.folders()),
    ));
    rows.push(room(used, files.max_bytes));
    Ok(rows)
}

/// Returns the row about the inotify watch, with the reason if it does not work. `folders` is the
/// number of known folders.
fn watched(watch: Option<Result<usize, Unwatched>>, folders: usize) -> Option<FilesRow> {
    let refused = match watch? {
        // Opens one inotify instance as a test, since other programs may use all of them.
        Ok(most) if folders <= most => Watch::new(most).err(),
        Ok(most) => Some(Unwatched::Limit(most)),
        Err(why) => Some(why),
    };
    Some(match refused {
        None => {
            let what = match folders {
                0 => "watching for changes works; no folder is watched yet".to_string(),
                _ => format!("watching for changes in {}", large_count(folders, "folder")),
            };
            FilesRow::new(Grade::Fine, what)
        }
        Some(why) => {
            let what =
                format!("not watching for changes, so every file is checked each time: {why}");
            FilesRow::new(Grade::Note, what).with_hint(why.hint())
        }
    })
}

fn room(used: u64, most: u64) -> FilesRow {
    let (used_text, most_text) = (size_text(used), size_text(most));
    let what = format!("the snapshots of all workspaces use {used_text} of {most_text}");
    let hint = Some("rewake gc frees space");
    match used {
        _ if used >= most => {
            FilesRow::new(Grade::Wrong, format!("{what}: no more snapshots are taken"))
                .with_hint(hint)
        }
        _ if used >= most / 5 * 4 => FilesRow::new(Grade::Note, what).with_hint(hint),
        _ => FilesRow::new(Grade::Fine, what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_separators_and_sizes_one_form() {
        let files = FilesConfig::default();
        let text = |row: FilesRow| row.text();
        assert_eq!(
            text(covered(&files, None)),
            "snapshots hold all files that git does not ignore: up to 200,000 files of at most 8 MiB each"
        );
        let most = files.max_bytes;
        let room = |used| text(room(used, most));
        assert_eq!(room(0), "the snapshots of all workspaces use 0 B of 2 GiB");
        assert_eq!(
            room(1_300),
            "the snapshots of all workspaces use 1.3 KiB of 2 GiB"
        );
        assert_eq!(
            room(most / 10 * 9),
            "the snapshots of all workspaces use 1.8 GiB of 2 GiB; rewake gc frees space"
        );
        assert_eq!(
            room(most),
            "the snapshots of all workspaces use 2 GiB of 2 GiB: no more snapshots are taken; \
             rewake gc frees space"
        );
        let watched = |watch, folders| watched(Some(watch), folders).map(text);
        assert_eq!(
            watched(Err(Unwatched::Limit(65_536)), 0).unwrap(),
            "not watching for changes, so every file is checked each time: it has over 65,536 folders; \
             leave folders out (files.exclude, .ignore), or raise the limit: sysctl \
             fs.inotify.max_user_watches"
        );
        assert_eq!(
            watched(Ok(1_000), 1_001).unwrap().split(';').next(),
            Some(
                "not watching for changes, so every file is checked each time: it has over 1,000 folders"
            )
        );
    }
}
