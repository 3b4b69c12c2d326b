//! Systems that refuse what a program asks of them, made with call filters for one child or one
//! thread.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

#[derive(Debug, Clone, Copy)]
pub enum Refusal {
    /// No new namespaces: `unshare` and `clone` with them, and no `clone3` at all. As Docker's
    /// filter for a container.
    Namespaces,
    /// New namespaces in which nothing can be mounted. As AppArmor on Ubuntu, which takes the
    /// capabilities of programs without a profile.
    Mounts,
    /// No `mount_setattr`. As a kernel before 5.12.
    SetAttributes,
    /// No change of permission bits of an open file. As some file systems of containers and networks.
    Modes,
}

/// `CLONE_NEW…` but for time, whose bit is a part of the signal in `clone`.
const NEW: [u64; 7] = [
    libc::CLONE_NEWNS as u64,
    libc::CLONE_NEWUTS as u64,
    libc::CLONE_NEWIPC as u64,
    libc::CLONE_NEWUSER as u64,
    libc::CLONE_NEWPID as u64,
    libc::CLONE_NEWNET as u64,
    libc::CLONE_NEWCGROUP as u64,
];

impl Refusal {
    fn filters(self) -> Vec<BpfProgram> {
        let all = |calls: &[i64]| calls.iter().map(|call| (*call, Vec::new())).collect();
        match self {
            Refusal::Namespaces => {
                let clone = NEW.map(|bit| {
                    let bits = SeccompCmpOp::MaskedEq(bit);
                    let size = SeccompCmpArgLen::Dword;
                    let condition = SeccompCondition::new(0, size, bits, bit).unwrap();
                    SeccompRule::new(vec![condition]).unwrap()
                });
                let mut refused: BTreeMap<i64, Vec<SeccompRule>> = all(&[libc::SYS_unshare]);
                refused.insert(libc::SYS_clone, clone.to_vec());
                vec![
                    filter(refused, libc::EPERM),
                    filter(all(&[libc::SYS_clone3]), libc::ENOSYS),
                ]
            }
            Refusal::Mounts => {
                let calls = [
                    libc::SYS_mount,
                    libc::SYS_umount2,
                    libc::SYS_mount_setattr,
                    libc::SYS_move_mount,
                ];
                vec![filter(all(&calls), libc::EPERM)]
            }
            Refusal::SetAttributes => {
                vec![filter(all(&[libc::SYS_mount_setattr]), libc::ENOSYS)]
            }
            Refusal::Modes => vec![filter(all(&[libc::SYS_fchmod]), libc::EPERM)],
        }
    }

    /// Applies to this thread from now on, and to all that it starts.
    pub fn apply(self) {
        for filter in self.filters() {
            seccompiler::apply_filter(&filter).unwrap();
        }
    }

    /// Applies to this child and to all that it starts.
    #[allow(unsafe_code)]
    pub fn apply_to(self, command: &mut Command) {
        let filters = self.filters();
        let apply = move || {
            let mut each = filters.iter();
            each.try_for_each(|filter| seccompiler::apply_filter(filter))
                .map_err(io::Error::other)
        };
        // SAFETY: the filters are ready; applying them is two system calls.
        unsafe { command.pre_exec(apply) };
    }
}

fn filter(refused: BTreeMap<i64, Vec<SeccompRule>>, error: i32) -> BpfProgram {
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let refuse = SeccompAction::Errno(error.unsigned_abs());
    let filter = SeccompFilter::new(refused, SeccompAction::Allow, refuse, arch).unwrap();
    filter.try_into().unwrap()
}
