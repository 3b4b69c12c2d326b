//! The program in an archive of a release.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Component, Path};

use flate2::read::GzDecoder;
use tar::{Archive, EntryType};

use crate::report::CliError;

/// Maximum size of the program.
const MAX_PROGRAM_BYTES: u64 = 200 * 1024 * 1024;
/// Maximum size of the whole archive when it is unpacked.
const MAX_UNPACKED_BYTES: u64 = 2 * MAX_PROGRAM_BYTES;

/// Writes the entry `NAME/rewake` of an archive to a file. The other entries are only checked.
/// `unwritten` makes the error of a write that failed.
///
/// # Errors
/// The archive is damaged or too large, has a link or a path that leads outside, or no program. Or
/// the file cannot be written.
pub fn unpack(
    archive: &mut File,
    name: &str,
    program: &mut File,
    unwritten: impl Fn(io::Error) -> CliError,
) -> Result<(), CliError> {
    let wrong = |why: String| CliError::failed(format!("{name}.tar.gz: {why}"));
    archive.rewind().map_err(|e| wrong(e.to_string()))?;
    let unpacked = GzDecoder::new(&*archive).take(MAX_UNPACKED_BYTES);
    let mut entries = Archive::new(unpacked);
    let wanted = Path::new(name).join("rewake");
    let mut found = false;
    for entry in entries.entries().map_err(|e| wrong(e.to_string()))? {
        let mut entry = entry.map_err(|e| wrong(e.to_string()))?;
        let path = entry.path().map_err(|e| wrong(e.to_string()))?.into_owned();
        let is_inside = path.starts_with(name)
            && path
                .components()
                .all(|part| matches!(part, Component::Normal(_)));
        let kind = entry.header().entry_type();
        if !is_inside || !matches!(kind, EntryType::Regular | EntryType::Directory) {
            return Err(wrong(format!(
                "the entry {path:?} is not a file or folder inside {name}/"
            )));
        }
        if path != wanted {
            continue;
        }
        if found || kind != EntryType::Regular || entry.size() > MAX_PROGRAM_BYTES {
            return Err(wrong(format!(
                "{path:?} must occur once, as a regular file of at most 200 MiB"
            )));
        }
        copy(&mut entry, program).map_err(|failed| match failed {
            Failed::Read(e) => wrong(e.to_string()),
            Failed::Written(e) => unwritten(e),
        })?;
        found = true;
    }
    // To the end, where the checksum of gzip is.
    let mut rest = entries.into_inner();
    io::copy(&mut rest, &mut io::sink()).map_err(|e| wrong(e.to_string()))?;
    match found {
        _ if rest.limit() == 0 => Err(wrong("it is larger than 400 MiB when unpacked".to_string())),
        true => Ok(()),
        false => Err(wrong(format!("there is no entry {wanted:?}"))),
    }
}

enum Failed {
    Read(io::Error),
    Written(io::Error),
}

fn copy(from: &mut impl Read, to: &mut File) -> Result<(), Failed> {
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match from.read(&mut buffer).map_err(Failed::Read)? {
            0 => return Ok(()),
            length => to.write_all(&buffer[..length]).map_err(Failed::Written)?,
        }
    }
}
