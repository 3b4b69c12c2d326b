//! Who changed a file of the config while the screen is open: a person, or the session.
//!
//! A person's change takes effect when it happens. A session's change does not, or a model could
//! write the rules that apply to itself: it takes effect after `/reload`, or at the next start.
//! Nobody can see who wrote a file, so the time decides. Between two looks at a file, a change is a
//! person's only if no call that can change files, and no command in the background, was in
//! progress at any moment between them. The engine reports such a call before it starts, so none
//! can be missed. Any other change of that time also counts as the session's.
//!
//! Invariant: content from the session stays the session's until a person takes it over, or until
//! it is again the content in use, however often it is changed in between.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::config::Digest;
use crate::config::write::SettingChange;
use crate::ui::live::LiveEvent;

type ShownFiles = BTreeMap<PathBuf, Digest>;

/// Whether the session does something that may change files. Reported by the engine's thread.
#[derive(Debug, Default)]
pub(super) struct Acting {
    is_acting: AtomicBool,
    /// Grows with every event during such work, so that nothing short is missed.
    moments: AtomicU64,
}

/// One observation of [`Acting`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Moment {
    pub is_acting: bool,
    moments: u64,
}

impl Acting {
    /// Takes an event. It is called with each event, before the engine continues.
    pub(super) fn observe(&self, event: &LiveEvent) {
        let now = match event {
            LiveEvent::Opened(opening) => &opening.now,
            LiveEvent::Engine(_, Some(now)) => now,
            _ => return,
        };
        if now.acting {
            self.moments.fetch_add(1, Ordering::SeqCst);
        }
        self.is_acting.store(now.acting, Ordering::SeqCst);
    }

    /// Returns the current observation. `runs`: a command of another or a closed session runs.
    pub(super) fn moment(&self, runs: bool) -> Moment {
        Moment {
            is_acting: self.is_acting.load(Ordering::SeqCst) || runs,
            moments: self.moments.load(Ordering::SeqCst),
        }
    }
}

/// The files of the config, and who wrote the content of each.
#[derive(Debug)]
pub(super) struct PendingChanges {
    /// The content that is in use.
    used: ShownFiles,
    /// The content at the last look, and the time of that look.
    seen: ShownFiles,
    at: Moment,
    of_session: BTreeSet<PathBuf>,
    /// Content that was reported to the person.
    reported: ShownFiles,
    is_undone: bool,
}

impl PendingChanges {
    pub(super) fn new(used: &ShownFiles, at: Moment) -> PendingChanges {
        PendingChanges {
            used: used.clone(),
            seen: used.clone(),
            at,
            of_session: BTreeSet::new(),
            reported: ShownFiles::new(),
            is_undone: false,
        }
    }

    /// Compares the files that were found between these two moments.
    pub(super) fn look(&mut self, from: Moment, found: &ShownFiles, to: Moment) {
        let was_quiet = !self.at.is_acting && !to.is_acting && self.at.moments == to.moments;
        for (file, digest) in found {
            let is_new = self.seen.insert(file.clone(), *digest) != Some(*digest);
            if is_new && !was_quiet {
                self.of_session.insert(file.clone());
            }
            if self.used.get(file) == Some(digest) {
                self.is_undone |= self.of_session.remove(file);
            }
        }
        self.at = Moment {
            is_acting: from.is_acting || to.is_acting || from.moments != to.moments,
            ..to
        };
    }

    /// Returns whether something ended since the last look. The next look separates the changes of
    /// the session from later changes of a person.
    pub(super) fn is_due(&self, now: Moment) -> bool {
        !now.is_acting && self.at.moments != now.moments
    }

    /// Returns whether something was in progress at the last look.
    pub(super) fn was_acting(&self) -> bool {
        self.at.is_acting
    }

    /// Records that rewake changed the file for a person. The caller has looked just before. A
    /// change in between is attributed by the same rule as any other.
    pub(super) fn wrote(&mut self, file: &Path, change: &SettingChange, now: Moment) {
        if !change.is_changed {
            return;
        }
        let before = ShownFiles::from([(file.to_path_buf(), change.before)]);
        self.look(now, &before, now);
        self.seen.insert(file.to_path_buf(), change.after);
        if let Some(reported) = self.reported.get_mut(file) {
            *reported = change.after;
        }
    }

    /// Records that all files are in use as they were read.
    pub(super) fn took_over(&mut self, used: &ShownFiles) {
        self.used = used.clone();
        self.seen.extend(used.clone());
        self.of_session.clear();
    }

    /// Returns true once when a change of the session was undone.
    pub(super) fn was_undone(&mut self) -> bool {
        std::mem::take(&mut self.is_undone) && self.of_session.is_empty()
    }

    /// Returns the files whose content is the session's.
    pub(super) fn changed_by_session(&self) -> impl Iterator<Item = &Path> {
        self.of_session.iter().map(PathBuf::as_path)
    }

    /// Returns those of them whose content was not reported yet.
    pub(super) fn unreported(&mut self) -> Vec<PathBuf> {
        let mut new = Vec::new();
        for file in &self.of_session {
            let Some(digest) = self.seen.get(file) else {
                continue;
            };
            if self.reported.insert(file.clone(), *digest) != Some(*digest) {
                new.push(file.clone());
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Moment = moment(false, 0);

    const fn moment(is_acting: bool, moments: u64) -> Moment {
        Moment { is_acting, moments }
    }

    fn files(text: &str) -> ShownFiles {
        let digest = Digest::Of(blake3::hash(text.as_bytes()));
        ShownFiles::from([("/c".into(), digest)])
    }

    fn change(before: &str, after: &str) -> SettingChange {
        let of = |text| files(text)[Path::new("/c")];
        SettingChange {
            is_changed: true,
            before: of(before),
            after: of(after),
        }
    }

    fn has_changes_of_session(changes: &PendingChanges) -> bool {
        changes.changed_by_session().next().is_some()
    }

    #[test]
    fn a_change_is_a_persons_only_if_nothing_was_in_progress_meanwhile() {
        let quiet_later = moment(false, 3);
        for (before, from, to, held) in [
            (QUIET, QUIET, QUIET, false),
            // A call is in progress now, or started while the file was read.
            (QUIET, moment(true, 1), moment(true, 1), true),
            (QUIET, QUIET, moment(true, 1), true),
            // A call started and ended between the looks.
            (QUIET, quiet_later, quiet_later, true),
            // A call was in progress at the last look, and has ended.
            (moment(true, 3), quiet_later, quiet_later, true),
            (quiet_later, quiet_later, quiet_later, false),
        ] {
            let mut changes = PendingChanges::new(&files("a"), QUIET);
            changes.look(before, &files("a"), before);
            changes.look(from, &files("b"), to);
            assert_eq!(
                has_changes_of_session(&changes),
                held,
                "{before:?} {from:?} {to:?}"
            );
        }
    }

    #[test]
    fn a_look_at_rest_divides_the_sessions_changes_from_a_persons() {
        let mut changes = PendingChanges::new(&files("a"), QUIET);
        let after = moment(false, 1);
        assert!(!changes.is_due(moment(true, 1)) && changes.is_due(after));
        changes.look(after, &files("a"), after);
        assert!(!changes.is_due(after));
        changes.look(after, &files("b"), after);
        assert!(!has_changes_of_session(&changes));
    }

    #[test]
    fn session_activity_during_a_look_counts_for_the_next_look() {
        let mut changes = PendingChanges::new(&files("a"), QUIET);
        changes.look(QUIET, &files("a"), moment(false, 1));
        changes.look(moment(false, 1), &files("b"), moment(false, 1));
        assert!(has_changes_of_session(&changes));
    }

    #[test]
    fn content_of_the_session_stays_so_until_it_is_taken_over_or_gone() {
        let after = moment(false, 1);
        let mut changes = PendingChanges::new(&files("a"), QUIET);
        changes.look(after, &files("b"), after);
        assert_eq!(changes.unreported(), [PathBuf::from("/c")]);
        assert!(changes.unreported().is_empty(), "said once");
        changes.look(after, &files("b and more"), after);
        assert!(has_changes_of_session(&changes));
        assert_eq!(changes.unreported().len(), 1);
        changes.look(after, &files("a"), after);
        assert!(!has_changes_of_session(&changes));
        assert!(changes.was_undone() && !changes.was_undone());
        changes.look(moment(false, 2), &files("b"), moment(false, 2));
        assert!(has_changes_of_session(&changes));
        changes.took_over(&files("b"));
        assert!(!has_changes_of_session(&changes));
    }

    #[test]
    fn user_requested_writes_during_a_command_count_as_user_changes() {
        let running = moment(true, 1);
        let mut changes = PendingChanges::new(&files("a"), QUIET);
        changes.look(running, &files("a"), running);
        changes.wrote(Path::new("/c"), &change("a", "a and a rule"), running);
        changes.look(running, &files("a and a rule"), running);
        assert!(!has_changes_of_session(&changes));
        // But not what the session had written under it.
        changes.wrote(Path::new("/c"), &change("b", "b and a rule"), running);
        changes.look(running, &files("b and a rule"), running);
        assert!(has_changes_of_session(&changes));
    }
}
