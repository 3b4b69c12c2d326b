//! The keeper's part of a sandbox while the command runs: it watches the processes, the limits that
//! the kernel does not enforce, and the protected files that are compared at the end.

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::aftermath::{Aftermath, Survivor};
use super::inside::is_spared;
use super::process;
use crate::core::text::{one_line, size_text};
use crate::sandbox::{
    Family, ModeChange, Modes, Placeholders, Profile, SurvivorPipe, Watched, WatchedChange,
    bytes_below, descendants,
};

/// Interval at which processes are counted.
const COUNT_EVERY: Duration = Duration::from_millis(200);
const MEASURE_EVERY: Duration = Duration::from_secs(1);

/// Maximum number of named processes that outlive their command.
const MAX_SURVIVORS: usize = 20;
/// Number of processes that are named with their command line: the record has a fixed size.
const MAX_COMMANDS: usize = 5;
const COMMAND_MAX_CHARS: usize = 40;
const COMMAND_MAX_BYTES: u64 = 1024;

/// Maximum number of reported changes of protected files.
pub(super) const MAX_CHANGES: usize = 6;
const NAME_MAX_CHARS: usize = 200;

impl Aftermath {
    /// Returns the named processes of the command that are still alive.
    pub fn living(&self) -> Vec<Survivor> {
        let named = self.survivor_pids.iter().cloned();
        named.filter(Survivor::is_alive).collect()
    }

    /// Returns the report on a command without a sandbox that left these processes running. `None`:
    /// there are none.
    pub(super) fn left_by(family: &Family) -> Option<Aftermath> {
        let others = family.others();
        let mut named = Survivor::first_of(&others);
        let with_command = named.iter_mut().take(MAX_COMMANDS);
        with_command.for_each(Survivor::read_command);
        (!others.is_empty()).then(|| Aftermath {
            survivors: u32::try_from(others.len()).unwrap_or(u32::MAX),
            survivor_pids: named,
            ..Aftermath::default()
        })
    }
}

impl Survivor {
    /// Removes the processes that have ended, and adds the descendants of the others.
    pub(super) fn follow(all: &mut Vec<Survivor>) {
        all.retain(Survivor::is_alive);
        let below = |one: &Survivor| Some(descendants(process::pid(one.pid)?, is_spared));
        let below: Vec<Pid> = all.iter().filter_map(below).flatten().collect();
        all.extend(below.into_iter().map(Survivor::of));
        all.sort_by_key(|one| one.pid);
        all.dedup_by_key(|one| one.pid);
    }

    fn is_alive(&self) -> bool {
        self.started.is_some() && process::started(self.pid) == self.started
    }

    fn first_of(all: &[Pid]) -> Vec<Survivor> {
        let first = all.iter().take(MAX_SURVIVORS);
        first.map(|pid| Survivor::of(*pid)).collect()
    }

    fn of(pid: Pid) -> Survivor {
        let pid = pid.as_raw_nonzero().get().unsigned_abs();
        Survivor {
            pid,
            started: process::started(pid),
            command: None,
        }
    }

    /// Reads the start of the command line, as far as the process shows it.
    fn read_command(&mut self) {
        let Ok(file) = std::fs::File::open(format!("/proc/{}/cmdline", self.pid)) else {
            return;
        };
        let mut bytes = Vec::new();
        let _ = file.take(COMMAND_MAX_BYTES).read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
        self.command = Some(one_line(&text, COMMAND_MAX_CHARS)).filter(|text| !text.is_empty());
    }
}

pub(super) struct Confined {
    profile: Profile,
    watched: Watched,
    modes: Modes,
    family: Option<Family>,
    left: Option<SurvivorPipe>,
    count_at: Instant,
    measure_at: Instant,
    after: Aftermath,
    background: bool,
}

impl Confined {
    /// Records the protected files before the command starts, as the state to restore.
    pub(super) fn new(profile: &Profile, background: bool) -> Confined {
        let now = Instant::now();
        Confined {
            profile: profile.clone(),
            watched: Watched::look(profile),
            modes: Modes::look(&profile.modes),
            family: None,
            left: None,
            count_at: now + COUNT_EVERY,
            measure_at: now + MEASURE_EVERY,
            after: Aftermath::default(),
            background,
        }
    }

    pub(super) fn began(&mut self, child: u32, left: SurvivorPipe, placeholders: Placeholders) {
        self.family = Family::of(child, &self.profile, placeholders);
        self.left = Some(left);
    }

    /// Returns whether the command passed a limit and must be ended.
    pub(super) fn is_over_a_limit(&mut self, now: Instant) -> bool {
        if self.after.limit.is_some() {
            return false;
        }
        let limits = &self.profile.limits;
        if let Some(family) = self.family.as_ref().filter(|_| self.count_at <= now) {
            self.count_at = now + COUNT_EVERY;
            family.reap();
            if family.count() > limits.processes as usize {
                self.after.limit = Some(format!("more than {} processes", limits.processes));
            }
        }
        if self.measure_at <= now {
            let bytes = bytes_below(&self.profile.tmp, limits.tmp_bytes);
            // A folder that takes long to measure is measured less often.
            self.measure_at = now + MEASURE_EVERY.max(now.elapsed() * 20);
            if bytes > limits.tmp_bytes {
                let most = size_text(limits.tmp_bytes);
                self.after.limit = Some(format!("more than {most} in $TMPDIR"));
            }
        }
        self.after.limit.is_some()
    }

    pub(super) fn next_look(&self) -> Instant {
        self.count_at.min(self.measure_at)
    }

    /// Ends the processes that the first one left running: later they could repeat, unseen, the
    /// changes that are undone here.
    pub(super) fn is_over(&mut self) {
        let Some(family) = &self.family else { return };
        let found = family.end();
        let left = self.left.take().map_or(0, SurvivorPipe::count);
        self.after.ended = count(left + found.ended);
        self.after.survivors = count(found.survivors.len());
        self.after.survivor_pids = Survivor::first_of(&found.survivors);
    }

    /// Undoes the changes of protected files. Called when no process can make further ones.
    pub(super) fn finish(mut self) -> Aftermath {
        if let Some(folder) = &self.profile.private_tmp {
            // Removed if the command left nothing in it; otherwise it stays until the session ends.
            let _ = std::fs::remove_dir(folder);
        }
        // Its placeholders are no changes.
        self.family = None;
        let modes = self.modes.restore();
        let mut changed: Vec<String> = modes.iter().map(describe_mode).collect();
        let mut found_changed = Vec::new();
        if self.background {
            let found = self.watched.differences();
            found_changed.extend(found.iter().map(|change| short(&change.path)));
        } else {
            changed.extend(self.watched.compare().iter().map(describe));
        }
        for told in [&mut changed, &mut found_changed] {
            self.after.more_changed += count(told.len().saturating_sub(MAX_CHANGES));
            told.truncate(MAX_CHANGES);
        }
        let unwritten = self.watched.unwritten();
        let unwritten = unwritten.iter().map(|path| short(path)).take(MAX_CHANGES);
        self.after.unwritten = unwritten.collect();
        self.after.changed = changed;
        self.after.found_changed = found_changed;
        self.after
    }
}

fn count(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

fn short(path: &Path) -> String {
    let name = path.display().to_string();
    name.chars().take(NAME_MAX_CHARS).collect()
}

pub(super) fn describe(change: &WatchedChange) -> String {
    let path = short(&change.path);
    match (&change.moved_to, change.restored) {
        (Some(to), _) => format!("{path} (the change is in {})", short(to)),
        (None, true) => format!("{path} (it is as it was)"),
        (None, false) => format!("{path} (it could not be put back)"),
    }
}

pub(super) fn describe_mode(change: &ModeChange) -> String {
    let path = short(&change.path);
    if change.restored {
        format!("{path} (its permissions are as they were)")
    } else {
        format!("{path} (its permissions could not be put back)")
    }
}
