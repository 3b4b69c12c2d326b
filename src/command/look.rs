//! Looking into a run folder without changing it, and what is made of it.
//!
//! Invariant: the questions are asked in the order that [`super`] gives; another order gives
//! wrong answers.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde::de::DeserializeOwned;

use super::aftermath::Aftermath;
use super::folder::{self, RunFolder};
use super::output;
use super::process;
use super::status::{self, Begun, End, How, Slot};
use crate::core::access::Access;
use crate::store::now_ms;

/// A keeper needs microseconds from its claim to its first record.
const BEGIN_WITHIN: Duration = Duration::from_millis(200);

/// How long the kernel may take to end the processes of a namespace.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Gaps of a profile that begin so are told with the command's result: a rule wanted more of the
/// sandbox than it keeps. The others are the kernel's, which `rewake doctor` speaks of.
pub const NOT_HELD: &str = "not held: ";

/// A command that is over. For one that is lost, times and sizes are what can be known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub how: How,
    /// From the command's start to its end, milliseconds.
    pub took_ms: u64,
    /// The time limit of one that was ended at it, milliseconds.
    pub limit_ms: Option<u64>,
    /// UTC, since 1970.
    pub ended_at_ms: i64,
    /// Printed by the command.
    pub bytes_total: u64,
    /// In the file `output`: the head of what was printed.
    pub bytes_kept: u64,
    /// The file with the head of what was printed.
    pub output: PathBuf,
    /// Why less was kept than the cap allows.
    pub write_error: Option<String>,
    /// The machine went down before the output was on the disk: what is there is not what was
    /// printed.
    pub is_output_lost: bool,
    /// What the sandbox says, where there was one.
    pub sandbox: Option<Aftermath>,
    /// How far it could reach in the sandbox.
    pub access: Option<Access>,
    /// What rules wanted of the sandbox and it did not keep, in words for a person.
    pub not_held: Vec<String>,
}

/// What is seen in a run folder without touching it. `E` is the record of its end.
pub(super) enum Seen<E = End> {
    Unclaimed,
    Kept(Slot<Begun>),
    Ended(E),
    /// Claimed, nobody is there, no final word.
    Abandoned(Slot<Begun>),
    /// There is no run folder, or only a part of it.
    Missing,
}

pub(super) fn look<E: DeserializeOwned>(folder: &RunFolder) -> io::Result<Seen<E>> {
    let status = match folder.open_status() {
        Ok(status) => status,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Seen::Missing),
        Err(e) => return Err(with_context("cannot open the status of", folder.path(), e)),
    };
    look_at(folder, &status)
        .map_err(|e| with_context("cannot read the status of", folder.path(), e))
}

fn look_at<E: DeserializeOwned>(folder: &RunFolder, status: &File) -> io::Result<Seen<E>> {
    if let Slot::Written(end) = status::read_end(status)? {
        return Ok(Seen::Ended(end));
    }
    // First the claim, then the lock: see `super`.
    if !folder.is_claimed()? {
        return Ok(Seen::Unclaimed);
    }
    if folder::is_kept(status)? {
        return Ok(Seen::Kept(status::read_begun(status)?));
    }
    Ok(match status::read_end(status)? {
        Slot::Written(end) => Seen::Ended(end),
        Slot::Empty | Slot::Torn => Seen::Abandoned(status::read_begun(status)?),
    })
}

/// As [`look`], but gives a keeper the moment it needs from its claim to its first record, or
/// to see that it came too late and leave.
pub(super) fn look_begun<E: DeserializeOwned>(folder: &RunFolder) -> io::Result<Seen<E>> {
    let pause = Duration::from_millis(1);
    let mut waited = Duration::ZERO;
    loop {
        match look(folder)? {
            Seen::Kept(Slot::Empty | Slot::Torn) if waited < BEGIN_WITHIN => {
                std::thread::sleep(pause);
                waited += pause;
            }
            seen => return Ok(seen),
        }
    }
}

/// What a power cut left is compared with what was printed; in the boot that it was written in,
/// nothing can be lacking.
pub(super) fn ended(folder: &RunFolder, end: End, this_boot: bool) -> Ended {
    let is_output_lost = !this_boot
        && end.output_sum.as_ref().is_some_and(|printed| {
            !output::sum(folder, end.bytes_kept).is_ok_and(|found| found == *printed)
        });
    let (bytes_kept, bytes_total) = match is_output_lost {
        false => (end.bytes_kept, end.bytes_total),
        true => on_disk(folder),
    };
    let was_limited = end.how == How::TimedOut;
    // The spec is read only for what needs it.
    let is_needed = was_limited || end.sandbox.is_some();
    let spec = is_needed.then(|| folder.prepared().ok()).flatten();
    let spec = spec.map(|prepared| prepared.spec);
    let limit_ms = spec.as_ref().map(|spec| spec.timeout_ms);
    let profile = spec.and_then(|spec| spec.sandbox);
    let profile = profile.filter(|_| end.sandbox.is_some());
    let gaps = profile.iter().flat_map(|profile| &profile.gaps);
    let not_held = gaps.filter_map(|gap| gap.strip_prefix(NOT_HELD));
    let not_held = not_held.map(str::to_string).collect();
    Ended {
        how: end.how,
        took_ms: end.took_ms,
        limit_ms: limit_ms.filter(|_| was_limited),
        ended_at_ms: end.ended_at_ms,
        bytes_total,
        bytes_kept,
        output: folder.output(),
        write_error: end.write_error,
        is_output_lost,
        sandbox: end.sandbox,
        access: profile.map(|profile| profile.access),
        not_held,
    }
}

/// `begun` only when it was in this boot: else nothing of it can be alive.
pub(super) fn lost(folder: &RunFolder, begun: Option<&Begun>) -> Ended {
    let (kept, total) = on_disk(folder);
    let group = begun.and_then(|begun| left_behind(folder, begun));
    let seen_ms = last_written_ms(&folder.output());
    let since_ms = begun.map_or(seen_ms, |begun| begun.at_ms);
    Ended {
        how: How::Lost { group },
        took_ms: u64::try_from(seen_ms - since_ms).unwrap_or(0),
        limit_ms: None,
        ended_at_ms: seen_ms,
        bytes_total: total,
        bytes_kept: kept,
        output: folder.output(),
        write_error: None,
        is_output_lost: false,
        sandbox: None,
        access: None,
        not_held: Vec::new(),
    }
}

/// A group of the command that outlives its keeper. In a process namespace there is none: the kernel
/// ends it with the keeper, which takes a moment.
fn left_behind(folder: &RunFolder, begun: &Begun) -> Option<u32> {
    let find = || process::left_behind(begun).first().copied();
    let until = Instant::now() + ENDS_WITHIN;
    let mut group = find();
    let profile = group.and_then(|_| folder.prepared().ok()?.spec.sandbox);
    if profile.is_some_and(|profile| profile.is_contained()) {
        while group.is_some() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
            group = find();
        }
    }
    group
}

/// What the files have: bytes of the head, and of head and tail.
fn on_disk(folder: &RunFolder) -> (u64, u64) {
    let kept = output::length(&folder.output()).unwrap_or(0);
    let tail = output::length(&folder.tail()).unwrap_or(0);
    (kept, kept + tail)
}

pub(super) fn not_run(why: String) -> End {
    End {
        how: How::NotRun(why),
        took_ms: 0,
        ended_at_ms: now_ms(),
        bytes_total: 0,
        bytes_kept: 0,
        write_error: None,
        sandbox: None,
        output_sum: None,
    }
}

/// The last sign of life of a command that is lost.
fn last_written_ms(output: &Path) -> i64 {
    std::fs::metadata(output)
        .and_then(|metadata| metadata.modified())
        .ok()
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or_else(now_ms)
}

pub(super) fn with_context(tried: &str, on: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{tried} {}: {error}", on.display()))
}
