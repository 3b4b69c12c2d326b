//! The part of `rewake doctor` about the journal and the mark, and the command that accepts an
//! older database.

use super::Report;
use crate::config::{Loaded, Paths, rights_hint_below};
use crate::core::text::count;
use crate::report::{CliError, exit, line};
use crate::session::journal_place;
use crate::store::{BackupStatus, JournalPlace, SessionLock, Store, StoreError};

/// Maximum number of sessions that are checked.
const AT_MOST: usize = 1_000_000;

pub(super) fn journal(report: &mut Report, store: &Store, loaded: &Loaded, paths: &Paths) {
    let Some(place) = journal_place(&loaded.config.store, paths) else {
        report.note(
            "journal",
            "turned off by store.journal: a lost or damaged database cannot be rebuilt",
        );
        return;
    };
    match store.check().standing(&paths.data_dir, &place) {
        Ok(standing) => report_status(report, &standing, &place),
        Err(error) => report.wrong("journal", error.to_string(), error.hint().as_deref()),
    }
}

/// Reports the sessions in the journal if the database is missing.
pub(super) fn without_database(report: &mut Report, loaded: &Loaded, paths: &Paths) {
    let place = journal_place(&loaded.config.store, paths);
    let sessions = place.map_or(0, |place| place.sessions(AT_MOST).len() as u64);
    if sessions > 0 {
        report.wrong(
            "journal",
            format!(
                "there is no database, and the journal has {}",
                count(sessions, "session")
            ),
            Some("the next start puts what the journal has into a new database"),
        );
    }
}

fn report_status(report: &mut Report, standing: &BackupStatus, place: &JournalPlace) {
    let folder = place.folder.display();
    if standing.put_back > 0 {
        report.note(
            "journal",
            format!(
                "the database was older than its journal: {} put back; each session says so when \
                 it is resumed",
                count(standing.put_back, "entry")
            ),
        );
    }
    if let Some(why) = &standing.trouble {
        let hint = rights_hint_below(&place.folder);
        let hint = hint
            .as_deref()
            .unwrap_or("sessions are in the database alone until it can be; set store.journal_dir");
        report.wrong(
            "journal",
            format!("it cannot be written: {why}"),
            Some(hint),
        );
    }
    for gap in &standing.gaps {
        let error = StoreError::Gap(Box::new(gap.clone()));
        report.wrong("journal", error.to_string(), error.hint().as_deref());
    }
    if let Some(missing) = standing.held {
        report.wrong(
            "journal",
            format!(
                "{} that the mark tells of: neither database nor journal has them; sessions from before are locked",
                count(missing, "entry")
            ),
            Some(
                "put the newer rewake.db back, with what begins with that name; or take this one as it \
                 is: rewake doctor --as-is",
            ),
        );
    } else if standing.ahead > 0 || standing.beyond > 0 {
        report.wrong(
            "journal",
            format!(
                "the database is older than what was recorded: the journal has {} that it lacks, the mark tells of {}",
                count(standing.ahead, "entry"),
                standing.beyond
            ),
            Some(
                "if there is a newer rewake.db, put it back; else the next start puts in what the \
                 journal has; to take this one as it is: rewake doctor --as-is",
            ),
        );
    } else if standing.trouble.is_none() && standing.gaps.is_empty() {
        let late = match standing.late_ms {
            0 => "up to date".to_string(),
            ms => format!("{:.1} s behind the database", ms as f64 / 1e3),
        };
        let behind = match standing.behind {
            0 => String::new(),
            n => format!("; {n} of them will be updated when they are used"),
        };
        report.ok(
            "journal",
            format!(
                "{late}: {} of {} of {} are also in {folder}{behind}",
                standing.lines,
                count(standing.entries, "entry"),
                count(standing.sessions, "session")
            ),
        );
    }
}

/// Runs `rewake doctor --as-is`.
pub(super) fn take_as_is(loaded: &Loaded, paths: &Paths) -> Result<u8, CliError> {
    let Some(place) = journal_place(&loaded.config.store, paths) else {
        line("there is no journal: the database is taken as it is anyway");
        return Ok(exit::DONE);
    };
    let held = SessionLock::sessions(&paths.data_dir, AT_MOST);
    let held = held
        .iter()
        .find(|id| SessionLock::is_held(&paths.data_dir, id));
    if let Some(session) = held {
        let trouble = CliError::failed(format!("session {session} is in use"));
        return Err(trouble.with_hint("close the other rewake processes"));
    }
    if let Ok(Some(mut store)) = Store::open_current(&paths.data_dir) {
        store.forget_gaps()?;
    }
    place.move_aside(&paths.data_dir)?;
    line(
        "the database is taken as it is; what the journal had was moved aside, and nothing was deleted",
    );
    Ok(exit::DONE)
}
