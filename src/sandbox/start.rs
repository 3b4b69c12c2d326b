//! The start of a command in its sandbox: the process to spawn, and its report.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;
use std::process::Command;

use super::environment;
use super::placeholders::Placeholders;
use super::profile::Profile;

/// Maximum length of the reported reason.
const REPORT_MAX_BYTES: u64 = 4096;

/// A prepared command line. Set its folder and its descriptors, spawn it, and then call
/// [`Report::failure`]. After its end, [`SurvivorPipe::count`] returns how many processes ended with it.
#[derive(Debug)]
pub struct Starting {
    pub command: Command,
    pub report: Report,
    pub left: SurvivorPipe,
    /// The placeholders in git folders while the command runs; for [`super::Family::of`].
    pub placeholders: Placeholders,
}

/// The pipe on which the stage reports how many processes a command left running in its namespace.
#[derive(Debug)]
pub struct SurvivorPipe {
    reader: Option<io::PipeReader>,
}

impl SurvivorPipe {
    /// Returns both ends; the stage gets the writing end.
    #[cfg(target_os = "linux")]
    fn pipe() -> io::Result<(SurvivorPipe, std::os::fd::OwnedFd)> {
        let (reader, writer) = io::pipe()?;
        rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::NONBLOCK)?;
        let reader = Some(reader);
        Ok((SurvivorPipe { reader }, writer.into()))
    }

    /// Returns how many processes were ended with the command; 0 without a process namespace.
    pub fn count(self) -> usize {
        let mut bytes = [0; 4];
        let read = self.reader.map(|mut reader| reader.read_exact(&mut bytes));
        match read {
            Some(Ok(())) => u32::from_ne_bytes(bytes) as usize,
            Some(Err(_)) | None => 0,
        }
    }
}

/// The report of the stage. Drop [`Starting::command`] before reading it.
#[derive(Debug)]
pub struct Report {
    reader: Option<io::PipeReader>,
    /// Our copies of the descriptors for the stage, open until it has its own.
    inherited: Vec<std::os::fd::OwnedFd>,
}

/// Returns the command line that runs `program` in a sandbox. `exe` is this program.
///
/// Any process that is spawned while the value exists inherits the descriptors for the stage, so no
/// other thread may spawn meanwhile.
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

    let placeholders = Placeholders::make(profile);
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
    let (left, count) = SurvivorPipe::pipe()?;
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
        placeholders,
    })
}

/// Does the same as [`command`], but forks this process instead of starting the program again,
/// which takes most of the time. For the keeper, which has one thread and nothing open that is
/// inherited.
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
    let placeholders = Placeholders::make(profile);
    let (reader, mut writer) = io::pipe()?;
    let mut command = Command::new(program);
    command.args(args);
    set_environment(&mut command, profile);
    let profile = profile.clone();
    let (left, count) = SurvivorPipe::pipe()?;
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
    // SAFETY: the check above found that this process has one thread. So no other thread that the
    // fork would lose holds a lock, and the child may do what any process may.
    unsafe { command.pre_exec(restrict) };
    Ok(Starting {
        command,
        report: Report {
            reader: Some(reader),
            inherited: Vec::new(),
        },
        left,
        placeholders,
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
        left: SurvivorPipe { reader: None },
        placeholders: Placeholders::make(profile),
    })
}

fn set_environment(command: &mut Command, profile: &Profile) {
    for (name, value) in std::env::vars_os() {
        if profile.removes(&name.to_string_lossy(), &value.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    let variable = |name: &str| std::env::var(name).ok();
    let is_passed = |name: &str| !profile.removes(name, "");
    command.envs(environment::git_settings(
        variable,
        is_passed,
        profile.access,
    ));
    command.envs(profile.set_env.iter().map(|(name, value)| (name, value)));
}

impl Report {
    /// Waits until the command runs. Returns the reason if it does not and never will. Call it
    /// once, after the spawn.
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
