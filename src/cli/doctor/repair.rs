//! `rewake doctor --repair` and `--scrub`: rebuilds a damaged database, and reads all stored data.

use std::path::PathBuf;

use crate::cli::confirm::{can_ask, is_yes};
use crate::config::{Loaded, Paths};
use crate::core::text::count;
use crate::recovery::{Recovered, Repair, recover};
use crate::report::{CliError, exit, line, note};
use crate::session::journal_place;
use crate::store::{JournalPlace, Scrubbed, Store, StoreError, database};

/// Runs `rewake doctor --repair`.
/// `same_machine`: the sessions of the other copies belong to this machine.
pub(super) fn repair(
    loaded: &Loaded,
    paths: &Paths,
    from: &[PathBuf],
    same_machine: bool,
) -> Result<u8, CliError> {
    if same_machine {
        ask_same_machine()?;
    }
    let place = journal_place(&loaded.config.store, paths);
    if from.is_empty() && is_sound(paths, place.as_ref())? {
        line("the database is sound: it is left as it is");
        return Ok(exit::DONE);
    }
    let repair = Repair {
        from,
        same_machine,
        only_whole: false,
        progress: &mut |doing| note(doing),
    };
    let Some(rebuilt) = recover(&paths.data_dir, place.as_ref(), repair)? else {
        let trouble = CliError::failed(
            "nothing was found that a database could be made of; nothing was changed".to_string(),
        );
        return Err(trouble.with_hint(
            "if there is another copy of the data folder, or of its journal: rewake doctor --repair \
             --from FOLDER",
        ));
    };
    line(&rebuilt.line());
    Ok(report_repair(&rebuilt))
}

/// Asks whether what these sessions began is to be continued here.
fn ask_same_machine() -> Result<(), CliError> {
    let question = "the sessions are continued as if they had run on this machine: open calls are looked \
        for on its disk, or run again, and their permissions apply. Is it the same machine?";
    if !can_ask() {
        let error = CliError::usage("--same-machine asks a question, and there is no terminal");
        return Err(
            error.with_hint("without it, the sessions become copies, which rewake -r forks")
        );
    }
    match is_yes(question) {
        true => Ok(()),
        false => Err(CliError::usage("nothing was changed")),
    }
}

fn report_repair(rebuilt: &Recovered) -> u8 {
    for gap in &rebuilt.gaps {
        let error = StoreError::Gap(Box::new(gap.clone()));
        note(&error.to_string());
        if gap.first > 0 {
            note(&format!("hint: {}", error.hint().unwrap_or_default()));
        }
    }
    if rebuilt.missing > 0 {
        let error = StoreError::BackInTime {
            missing: rebuilt.missing,
        };
        note(&error.to_string());
        note(&format!("hint: {}", error.hint().unwrap_or_default()));
    }
    match rebuilt.lost() {
        0 => exit::DONE,
        _ => exit::FAILED,
    }
}

/// Returns whether the database is readable and contains everything from the journal.
fn is_sound(paths: &Paths, place: Option<&JournalPlace>) -> Result<bool, StoreError> {
    match Store::open_current(&paths.data_dir) {
        Ok(Some(store)) => {
            let scrubbed = store.check().scrub(None, &mut |doing| note(doing))?;
            let is_whole = scrubbed.damaged.is_empty();
            Ok(is_whole
                && place.map_or(Ok(0), |place| {
                    store.check().count_only_in_journals(&paths.data_dir, place)
                })? == 0)
        }
        // The next start makes it.
        Ok(None) => Ok(database::exists(&paths.data_dir)),
        Err(StoreError::Damaged { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Runs `rewake doctor --scrub`.
pub(super) fn scrub(loaded: &Loaded, paths: &Paths) -> Result<u8, CliError> {
    let place = journal_place(&loaded.config.store, paths);
    let Some(store) = Store::open_current(&paths.data_dir)? else {
        line("there is no database yet, or it is empty: the next run makes it");
        return Ok(exit::DONE);
    };
    let scrubbed = store
        .check()
        .scrub(place.as_ref(), &mut |doing| note(doing))?;
    for read in counts(&scrubbed) {
        line(&format!("ok     {read}"));
    }
    for damaged in &scrubbed.damaged {
        line(&format!("WRONG  {damaged}"));
    }
    if scrubbed.damaged.is_empty() {
        line("nothing is damaged");
        return Ok(exit::DONE);
    }
    let found = scrubbed.damaged.len() as u64;
    let trouble = CliError::failed(format!("{} damaged", count(found, "thing")));
    Err(trouble.with_hint(
        "copy the data folder to another disk; then rewake doctor --repair writes a new database. \
         A damaged journal is no loss while the database is sound",
    ))
}

fn counts(read: &Scrubbed) -> [String; 3] {
    [
        format!(
            "{} with {} of {}",
            count(read.pages, "page"),
            count(read.entries, "entry"),
            count(read.sessions, "session")
        ),
        format!(
            "{}, {} and {} of files",
            count(read.blobs, "blob"),
            count(read.contents, "content"),
            count(read.trees, "tree")
        ),
        format!(
            "{} of {} with {} and {}",
            count(read.journal_files, "file"),
            count(read.journals, "journal"),
            count(read.frames, "frame"),
            count(read.lines, "line")
        ),
    ]
}
