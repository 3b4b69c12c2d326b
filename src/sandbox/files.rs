//! The Landlock rules: files that a command may reach. A right that the kernel does not know is an
//! error here; [`Kernel`] has determined before which ones it knows.
//!
//! Folders are opened without following a link anywhere in their path. The profile has resolved
//! paths, so any link was put there afterwards.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;

use super::kernel::{Kernel, NEWEST_ABI};
use super::profile::{MAX_SIBLINGS, Network, Profile};

/// Folder of pseudo-terminals, and the device that makes one. A command gets a separate folder or
/// none: in that of the user are the terminals of all other programs.
pub(super) const TERMINALS: &str = "/dev/pts";
pub(super) const NEW_TERMINAL: &str = "/dev/ptmx";

/// Returns the newest version of the interface with all its rights, by trying, without a change.
pub(super) fn newest_abi() -> u8 {
    let found = (1..=NEWEST_ABI)
        .rev()
        .find(|abi| ruleset(*abi, false).is_ok());
    found.unwrap_or(0)
}

fn ruleset(abi: u8, closed_network: bool) -> Result<RulesetCreated, String> {
    let abi = ABI::from(i32::from(abi));
    let failed = |e: landlock::RulesetError| format!("cannot make the rules for files: {e}");
    let mut rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    rules = rules
        .handle_access(AccessFs::from_all(abi))
        .map_err(failed)?;
    if closed_network && abi >= ABI::V4 {
        rules = rules
            .handle_access(AccessNet::from_all(abi))
            .map_err(failed)?;
    }
    if abi >= ABI::V6 {
        rules = rules.scope(Scope::from_all(abi)).map_err(failed)?;
    }
    rules.create().map_err(failed)
}

/// The rights below a path, by kind of access.
struct Rights {
    read: BitFlags<AccessFs>,
    write: BitFlags<AccessFs>,
    device: BitFlags<AccessFs>,
    terminal: BitFlags<AccessFs>,
}

impl Rights {
    fn of(kernel: &Kernel) -> Rights {
        let all = AccessFs::from_all(ABI::from(i32::from(kernel.landlock)));
        let read = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
        // No devices and no sockets: below level `full` a command may not connect to a socket file.
        let write = AccessFs::WriteFile
            | AccessFs::RemoveDir
            | AccessFs::RemoveFile
            | AccessFs::MakeDir
            | AccessFs::MakeReg
            | AccessFs::MakeFifo
            | AccessFs::MakeSym
            | AccessFs::Refer
            | AccessFs::Truncate;
        let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
        Rights {
            read,
            write: (read | write) & all,
            device: device & all,
            terminal: (device | AccessFs::ReadDir | AccessFs::IoctlDev) & all,
        }
    }
}

/// A path with its rule.
struct Grant {
    at: OwnedFd,
    rights: BitFlags<AccessFs>,
}

/// The rules of a profile, with their folders open, not yet enforced.
pub(super) struct Rules {
    grants: Vec<Grant>,
    abi: u8,
    closed_network: bool,
}

/// Opens the paths of the rules, before namespaces change where the paths lead. `hidden_by_mounts`
/// says whether mounts hide the hidden files, and separate terminals are mounted.
pub(super) fn open(profile: &Profile, hidden_by_mounts: bool) -> Result<Rules, String> {
    for pinned in &profile.pinned {
        let Some(fd) = open_exactly(&pinned.path)? else {
            return Err(format!("{} is not there any more", pinned.path.display()));
        };
        let found = fstat(&fd).map_err(|e| cannot_open(&pinned.path, e))?;
        if (found.st_dev, found.st_ino) != (pinned.device, pinned.inode) {
            return Err(format!(
                "{} is not the folder that it was when the command was judged",
                pinned.path.display()
            ));
        }
    }
    let rights = Rights::of(&profile.kernel);
    let hidden: &[PathBuf] = if hidden_by_mounts {
        &[]
    } else {
        &profile.hidden
    };
    let mut rules = Rules {
        grants: Vec::new(),
        abi: profile.kernel.landlock,
        closed_network: profile.network == Network::None,
    };
    for path in &profile.read {
        rules.grant_around(path, rights.read, hidden)?;
    }
    for path in &profile.write {
        rules.grant_around(path, rights.write, hidden)?;
    }
    for path in &profile.devices {
        rules.grant(path, rights.device)?;
    }
    if hidden_by_mounts && profile.kernel.terminals {
        for path in [TERMINALS, NEW_TERMINAL] {
            rules.grant(Path::new(path), rights.terminal)?;
        }
    }
    Ok(rules)
}

impl Rules {
    /// A path that does not exist grants nothing.
    fn grant(&mut self, path: &Path, rights: BitFlags<AccessFs>) -> Result<(), String> {
        let Some(at) = open_exactly(path)? else {
            return Ok(());
        };
        let found = fstat(&at).map_err(|e| cannot_open(path, e))?;
        let rights = match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => rights,
            // A link has nothing below it.
            FileType::Symlink => return Ok(()),
            _ => rights & AccessFs::from_file(ABI::from(i32::from(self.abi))),
        };
        self.grants.push(Grant { at, rights });
        Ok(())
    }

    /// Grants everything but a hidden path: the folders that lead to it are granted without
    /// reading, and their other entries one by one.
    fn grant_around(
        &mut self,
        path: &Path,
        rights: BitFlags<AccessFs>,
        hidden: &[PathBuf],
    ) -> Result<(), String> {
        if hidden.iter().any(|hidden| path.starts_with(hidden)) {
            return Ok(());
        }
        if !hidden.iter().any(|hidden| hidden.starts_with(path)) {
            return self.grant(path, rights);
        }
        let reading = AccessFs::Execute | AccessFs::ReadFile;
        self.grant(path, rights & !reading)?;
        let entries = std::fs::read_dir(path).map_err(|e| cannot_open(path, e))?;
        for (number, entry) in entries.filter_map(Result::ok).enumerate() {
            if number >= MAX_SIBLINGS {
                return Err(format!(
                    "{} holds a file that must not be read among more than {MAX_SIBLINGS} others, \
                     and the kernel gives no mount namespace",
                    path.display()
                ));
            }
            self.grant_around(&entry.path(), rights, hidden)?;
        }
        Ok(())
    }

    /// Enforces the rules for this process and all that it starts, for ever.
    pub(super) fn enforce(self) -> Result<(), String> {
        let failed = |e: landlock::RulesetError| format!("cannot apply the rules for files: {e}");
        let mut rules =
            ruleset(self.abi, self.closed_network)?.set_compatibility(CompatLevel::HardRequirement);
        for grant in self.grants {
            if !grant.rights.is_empty() {
                let rule = PathBeneath::new(grant.at, grant.rights)
                    .set_compatibility(CompatLevel::HardRequirement);
                rules = rules.add_rule(rule).map_err(failed)?;
            }
        }
        let status = rules.restrict_self().map_err(failed)?;
        match status.ruleset {
            RulesetStatus::FullyEnforced => Ok(()),
            other => Err(format!("the rules for files are {other:?}")),
        }
    }
}

fn cannot_open(path: &Path, e: impl std::fmt::Display) -> String {
    format!("cannot open {}: {e}", path.display())
}

/// Opens a path without following links. `None` when it does not exist or contains a link now.
pub(super) fn open_exactly(path: &Path) -> Result<Option<OwnedFd>, String> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => Ok(None),
        Err(e) => Err(cannot_open(path, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seccompiler::{SeccompAction, SeccompFilter, TargetArch};

    /// Simulates a kernel without Landlock for one thread: best effort would find all versions
    /// there.
    #[test]
    fn a_kernel_without_landlock_has_no_landlock_version() {
        let none = std::thread::spawn(|| {
            let rules = [(libc::SYS_landlock_create_ruleset, Vec::new())];
            let absent = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
            let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
            let rules = rules.into_iter().collect();
            let filter = SeccompFilter::new(rules, SeccompAction::Allow, absent, arch).unwrap();
            let filter: seccompiler::BpfProgram = filter.try_into().unwrap();
            seccompiler::apply_filter(&filter).unwrap();
            (newest_abi(), ruleset(NEWEST_ABI, true).is_ok())
        });
        assert_eq!(none.join().unwrap(), (0, false));
    }
}
