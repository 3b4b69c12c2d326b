//! Inspection of a run folder without changing it.
//!
//! Invariant: the checks are made in the order that [`super`] gives; another order gives wrong
//! answers.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde::de::DeserializeOwned;

use super::aftermath::Aftermath;
use super::folder::{self, RunFolder};
use super::status::{self, Begun, End, How, StatusSlot};
use super::{output, process};
use crate::core::access::Access;
use crate::sandbox::remove_left_placeholders;
use crate::store::now_ms;

/// Time for a keeper to write its first record after the claim; it needs microseconds.
const BEGIN_WITHIN: Duration = Duration::from_millis(200);

/// Time for the kernel to end the processes of a namespace.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Prefix of those gaps of a profile that the command's result mentions: a rule asked for more than
/// the sandbox can enforce. The other gaps are the kernel's, which `rewake doctor` reports.
pub const NOT_HELD: &str = "not held: ";

/// A command that ended. For a lost one, times and sizes are estimates from its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    pub how: How,
    /// Milliseconds from the command's start to its end.
    pub took_ms: u64,
    /// The time limit in milliseconds, if the command was ended at it.
    pub limit_ms: Option<u64>,
    /// Milliseconds since 1970, UTC.
    pub ended_at_ms: i64,
    /// Number of bytes that the command printed.
    pub bytes_total: u64,
    /// Number of bytes in the file `output`, the head of the output.
    pub bytes_kept: u64,
    /// The file with the head of the output.
    pub output: PathBuf,
    /// Why less is stored than the cap allows.
    pub write_error: Option<String>,
    /// Whether the machine went down before the output was on the disk, so that the files differ
    /// from the output.
    pub is_output_lost: bool,
    /// The report of the sandbox, if there was one.
    pub sandbox: Option<Aftermath>,
    /// The access of the command in the sandbox.
    pub access: Option<Access>,
    /// Restrictions that rules asked for and the sandbox could not enforce, in words for a person.
    pub not_held: Vec<String>,
}

/// The state of a run folder as it is found. `E` is the record of its end.
pub(super) enum ObservedState<E = End> {
    Unclaimed,
    Kept(StatusSlot<Begun>),
    Ended(E),
    /// Claimed, without a keeper and without the record of an end.
    Abandoned(StatusSlot<Begun>),
    /// The run folder does not exist, or only a part of it does.
    Missing,
}

pub(super) fn look<E: DeserializeOwned>(folder: &RunFolder) -> io::Result<ObservedState<E>> {
    let status = match folder.open_status() {
        Ok(status) => status,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(ObservedState::Missing),
        Err(e) => return Err(with_context("cannot open the status of", folder.path(), e)),
    };
    look_at(folder, &status)
        .map_err(|e| with_context("cannot read the status of", folder.path(), e))
}

fn look_at<E: DeserializeOwned>(folder: &RunFolder, status: &File) -> io::Result<ObservedState<E>> {
    if let StatusSlot::Written(end) = status::read_end(status)? {
        return Ok(ObservedState::Ended(end));
    }
    // The claim before the lock: see `super`.
    if !folder.is_claimed()? {
        return Ok(ObservedState::Unclaimed);
    }
    if folder::is_kept(status)? {
        return Ok(ObservedState::Kept(status::read_begun(status)?));
    }
    Ok(match status::read_end(status)? {
        StatusSlot::Written(end) => ObservedState::Ended(end),
        StatusSlot::Empty | StatusSlot::Torn => {
            ObservedState::Abandoned(status::read_begun(status)?)
        }
    })
}

/// Does the same as [`look`], but first waits for a keeper that is between its claim and its first
/// record, or that is about to exit because it came too late.
pub(super) fn look_after_claim<E: DeserializeOwned>(
    folder: &RunFolder,
) -> io::Result<ObservedState<E>> {
    let pause = Duration::from_millis(1);
    let mut waited = Duration::ZERO;
    loop {
        match look(folder)? {
            ObservedState::Kept(StatusSlot::Empty | StatusSlot::Torn) if waited < BEGIN_WITHIN => {
                std::thread::sleep(pause);
                waited += pause;
            }
            seen => return Ok(seen),
        }
    }
}

/// Returns the end of a command from its record. After another boot, the files are compared with
/// the hash of the output; within the same boot, nothing can be missing.
pub(super) fn ended(folder: &RunFolder, end: End, this_boot: bool) -> RunEnd {
    let is_output_lost = !this_boot
        && end.output_sum.as_ref().is_some_and(|printed| {
            !output::sum(folder, end.bytes_kept).is_ok_and(|found| found == *printed)
        });
    let (bytes_kept, bytes_total) = if is_output_lost {
        on_disk(folder)
    } else {
        (end.bytes_kept, end.bytes_total)
    };
    let was_limited = end.how == How::TimedOut;
    // The spec is read only if something in it is needed.
    let is_needed = was_limited || end.sandbox.is_some();
    let spec = is_needed.then(|| folder.prepared().ok()).flatten();
    let spec = spec.map(|prepared| prepared.spec);
    let limit_ms = spec.as_ref().map(|spec| spec.timeout_ms);
    let profile = spec.and_then(|spec| spec.sandbox);
    let profile = profile.filter(|_| end.sandbox.is_some());
    let gaps = profile.iter().flat_map(|profile| &profile.gaps);
    let not_held = gaps.filter_map(|gap| gap.strip_prefix(NOT_HELD));
    let not_held = not_held.map(str::to_string).collect();
    RunEnd {
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

/// Returns the end of a lost command. The start record is given only if it is from this boot: after
/// another boot none of its processes can be alive.
pub(super) fn lost(folder: &RunFolder, begun: Option<&Begun>) -> RunEnd {
    let (kept, total) = on_disk(folder);
    let group = begun.and_then(|begun| survivors_of(folder, begun));
    remove_placeholders(folder);
    let seen_ms = last_written_ms(&folder.output());
    let since_ms = begun.map_or(seen_ms, |begun| begun.at_ms);
    RunEnd {
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

/// Returns a group of the command that outlived its keeper. In a process namespace there is none:
/// the kernel ends it with the keeper, which takes a moment.
fn survivors_of(folder: &RunFolder, begun: &Begun) -> Option<u32> {
    let find = || process::survivors_of(begun).first().copied();
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

/// Removes what the killed keeper of a command made in git folders.
fn remove_placeholders(folder: &RunFolder) {
    let profile = folder.prepared().ok().and_then(|run| run.spec.sandbox);
    if let Some(data_dir) = profile.as_ref().and_then(|p| p.quarantine.parent()) {
        remove_left_placeholders(data_dir);
    }
}

/// Returns the bytes in the file of the head, and in both files.
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

/// Returns when a lost command last wrote output.
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
