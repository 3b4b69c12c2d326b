//! Starting a command in its sandbox: the process that is to be spawned, and what it reports.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;
use std::process::Command;

use super::profile::Profile;

/// Nobody reads a longer reason.
const REPORT_MAX_BYTES: u64 = 4096;

/// A command line that is ready: set its folder and its descriptors, spawn it, and then ask
/// [`Report::failure`]. When it has ended, [`Left::count`] says what ended with it.
#[derive(Debug)]
pub struct Starting {
    pub command: Command,
    pub report: Report,
    pub left: Left,
}

/// How many processes a command left running in its process namespace.
#[derive(Debug)]
pub struct Left {
    reader: Option<io::PipeReader>,
}

impl Left {
    /// The writing end is the stage's.
    #[cfg(target_os = "linux")]
    fn pipe() -> io::Result<(Left, std::os::fd::OwnedFd)> {
        let (reader, writer) = io::pipe()?;
        rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::NONBLOCK)?;
        let reader = Some(reader);
        Ok((Left { reader }, writer.into()))
    }

    /// They were ended with the command. 0 where there is no such namespace.
    pub fn count(self) -> usize {
        let mut bytes = [0; 4];
        let read = self.reader.map(|mut reader| reader.read_exact(&mut bytes));
        match read {
            Some(Ok(())) => u32::from_ne_bytes(bytes) as usize,
            Some(Err(_)) | None => 0,
        }
    }
}

/// What the stage says. The [`Starting::command`] has to be dropped before it is asked.
#[derive(Debug)]
pub struct Report {
    reader: Option<io::PipeReader>,
    /// Ours of the writing end, and of the order: open until the stage has its own.
    inherited: Vec<std::os::fd::OwnedFd>,
}

/// The command line that runs `program` in a sandbox. `exe` is this program.
///
/// The descriptors for the stage are inherited by whatever is spawned while the value lives:
/// not to be used while another thread spawns.
#[cfg(target_os = "linux")]
pub fn command(
    profile: &Profile,
    exe: &Path,
    program: &Path,
    args: impl IntoIterator<Item = OsString>,
) -> io::Result<Starting> {
    use std::io::{Seek, Write};
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::process::CommandExt;

    use rustix::fs::{MemfdFlags, memfd_create};
    use rustix::io::{FdFlags, fcntl_setfd};

    let order = super::stage::Order {
        profile: profile.clone(),
        program: program.to_path_buf(),
        args: args.into_iter().collect(),
        shown_as: None,
        parent: std::process::id(),
    };
    let mut file = std::fs::File::from(memfd_create("rewake sandbox", MemfdFlags::empty())?);
    file.write_all(&serde_json::to_vec(&order)?)?;
    file.rewind()?;
    let order = OwnedFd::from(file);
    let (reader, writer) = io::pipe()?;
    let writer = OwnedFd::from(writer);
    fcntl_setfd(&writer, FdFlags::empty())?;
    let (left, count) = Left::pipe()?;
    fcntl_setfd(&count, FdFlags::empty())?;
    let mut command = Command::new(exe);
    command
        .arg0("rewake")
        .arg(super::kernel::STAGE_WORD)
        .arg(order.as_raw_fd().to_string())
        .arg(writer.as_raw_fd().to_string())
        .arg(count.as_raw_fd().to_string());
    set_environment(&mut command, profile);
    Ok(Starting {
        command,
        report: Report {
            reader: Some(reader),
            inherited: vec![order, writer, count],
        },
        left,
    })
}

/// As [`command`], but this process forks instead of starting itself again, which takes most of
/// the time: for the keeper, which has one thread and nothing open that is inherited.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub fn forked(
    profile: &Profile,
    exe: &Path,
    program: &Path,
    args: Vec<OsString>,
) -> io::Result<Starting> {
    use std::io::Write;
    use std::os::unix::process::CommandExt;

    let alone = std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    if !alone {
        return self::command(profile, exe, program, args);
    }
    let (reader, mut writer) = io::pipe()?;
    let mut command = Command::new(program);
    command.args(args);
    set_environment(&mut command, profile);
    let profile = profile.clone();
    let (left, count) = Left::pipe()?;
    let parent = super::init::Parent {
        pid: Some(rustix::process::getpid()),
        left: Some(count),
    };
    let restrict = move || {
        super::stage::apply(&profile, &parent).map_err(|why| {
            let _ = writer.write_all(why.as_bytes());
            io::Error::from(rustix::io::Errno::PERM)
        })
    };
    // SAFETY: it was just seen that this process has one thread, so no lock is held by another
    // one that the fork leaves behind, and the child may do what any process may.
    unsafe { command.pre_exec(restrict) };
    Ok(Starting {
        command,
        report: Report {
            reader: Some(reader),
            inherited: Vec::new(),
        },
        left,
    })
}

#[cfg(not(target_os = "linux"))]
pub use command as forked;

/// The command line that runs `program` in a sandbox.
#[cfg(not(target_os = "linux"))]
pub fn command(
    profile: &Profile,
    _exe: &Path,
    program: &Path,
    args: impl IntoIterator<Item = OsString>,
) -> io::Result<Starting> {
    let mut command = Command::new(super::macos::PROGRAM);
    command
        .arg("-p")
        .arg(super::macos::rules(profile))
        .arg(program)
        .args(args);
    set_environment(&mut command, profile);
    Ok(Starting {
        command,
        report: Report {
            reader: None,
            inherited: Vec::new(),
        },
        left: Left { reader: None },
    })
}

fn set_environment(command: &mut Command, profile: &Profile) {
    for (name, _) in std::env::vars_os() {
        if profile.removes(&name.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    command.envs(profile.set_env.iter().map(|(name, value)| (name, value)));
}

impl Report {
    /// Waits until the command runs. Some: it does not and never will, and this is why. To be
    /// asked once, after the spawn.
    pub fn failure(mut self) -> Option<String> {
        self.inherited.clear();
        let mut text = Vec::new();
        let reader = self.reader.take()?;
        match reader.take(REPORT_MAX_BYTES).read_to_end(&mut text) {
            Ok(0) => None,
            Ok(_) => Some(String::from_utf8_lossy(&text).into_owned()),
            Err(e) => Some(format!("cannot tell whether the sandbox stands: {e}")),
        }
    }
}
