//! A spare keeper: a keeper that is started before it is needed, and waits for its run folder. So a
//! command does not wait until a new process is up.
//!
//! The path of the folder comes over a separate pipe, as one record: the path and a NUL byte, at
//! most `PIPE_BUF` bytes, which a pipe takes whole or not at all. Anything else is not a record, and
//! the spare exits. When the agent dies, the pipe closes, and the spare exits. Once it has the folder,
//! it is a keeper like any other.
//!
//! Invariant: the agent gives a folder away only after it recorded the start of the run. Until then
//! a spare knows of no run.
//!
//! Invariant: a spare decides nothing. The claim decides which of two keepers starts the command, so
//! a spare that was killed or stopped is replaced by a fresh keeper with the same folder.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

use super::folder::RunFolder;
use crate::sandbox::{child, conceal, reveal};

/// Maximum bytes of a record: `PIPE_BUF` of POSIX, which is at least 512. Linux has 4096.
const MAX_BYTES: usize = 512;

/// A keeper without a run, and this process's ends of its pipes. Dropping it ends the keeper.
#[derive(Debug)]
pub struct Spare {
    child: tokio::process::Child,
    folder: PipeWriter,
    /// The keeper's input: see [`super::Running`].
    waits: PipeWriter,
}

impl Spare {
    /// Starts a spare keeper. `word` is the hidden first argument of keepers. `without` names the
    /// variables that its environment must not have. Call it in a tokio runtime.
    pub(super) fn start(exe: &Path, word: &str, without: &[String]) -> io::Result<Spare> {
        let (input, waits) = io::pipe()?;
        let (reader, folder) = io::pipe()?;
        let mut command = child(exe);
        command
            .arg0("rewake")
            .arg(word)
            .current_dir("/")
            .stdin(input)
            // The only standard descriptor that a keeper never uses.
            .stdout(reader)
            .stderr(Stdio::null());
        for name in without {
            command.env_remove(name);
        }
        let child = tokio::process::Command::from(command).spawn()?;
        Ok(Spare {
            child,
            folder,
            waits,
        })
    }

    /// Returns its process. `None`: it is gone.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Gives the spare its run folder. Returns the keeper's process and its input.
    ///
    /// # Errors
    /// The keeper is gone, or the path is too long for a record. It does not get the folder then.
    pub(super) fn give(mut self, folder: &Path) -> io::Result<(tokio::process::Child, PipeWriter)> {
        let mut record = folder.as_os_str().as_bytes().to_vec();
        record.push(0);
        if record.len() > MAX_BYTES {
            return Err(io::Error::from(ErrorKind::InvalidInput));
        }
        self.folder.write_all(&record)?;
        Ok((self.child, self.waits))
    }
}

/// Waits for the run folder of this spare keeper. `None`: the agent is gone, or sent no whole record.
pub(super) fn wait_for_folder() -> Option<RunFolder> {
    // No command may trace it while it waits.
    conceal();
    let folder = read_record(io::stdout().as_fd().try_clone_to_owned().ok()?.into())?;
    // The pipe ends here: a command must not inherit it.
    let nothing = std::fs::File::options()
        .write(true)
        .open("/dev/null")
        .ok()?;
    rustix::stdio::dup2_stdout(&nothing).ok()?;
    reveal();
    Some(RunFolder::at(OsStr::from_bytes(&folder)))
}

/// Reads one whole record. It does not wait for the end of the pipe: another process may have
/// inherited the agent's end where a pipe cannot be made close-on-exec at once.
fn read_record(mut pipe: std::fs::File) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(MAX_BYTES + 1);
    let mut part = [0; MAX_BYTES + 1];
    while bytes.len() <= MAX_BYTES && bytes.last() != Some(&0) {
        match pipe.read(&mut part) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    let path = bytes.strip_suffix(&[0])?;
    let is_path = path.starts_with(b"/") && !path.contains(&0);
    (is_path && bytes.len() <= MAX_BYTES).then(|| path.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(record: &[u8]) -> Option<Vec<u8>> {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(record).unwrap();
        drop(writer);
        read_record(std::os::fd::OwnedFd::from(reader).into())
    }

    #[test]
    fn only_one_whole_record_is_taken() {
        assert_eq!(read(b"/runs/r1\0").as_deref(), Some(&b"/runs/r1"[..]));
        let long = [b"/".repeat(MAX_BYTES), vec![0]].concat();
        let cut = &b"/runs/r1\0"[..8];
        for other in [
            b"",
            cut,
            b"\0",
            b"runs/r1\0",
            b"/r1\0/r2\0",
            b"/r1\0x",
            &long,
        ] {
            assert_eq!(read(other), None, "{}", String::from_utf8_lossy(other));
        }
    }
}
