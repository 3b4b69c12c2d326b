//! The seccomp filter: system calls that a command may not make, because the rest of the sandbox
//! does not govern them. They concern sockets by family, metadata of files, other processes and the
//! kernel.
//!
//! The lists are of denied calls, except for sockets, where the allowed families are listed.
//! Programs for another architecture are killed, since their numbers mean other calls. The x32
//! interface is refused as a whole. Integer arguments are compared in the 32 bits that the kernel
//! uses.

use std::collections::BTreeMap;

use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use super::profile::{Network, Profile};
use crate::core::access::Access;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

#[cfg(target_arch = "x86_64")]
const ARCH: Option<TargetArch> = Some(TargetArch::x86_64);
#[cfg(target_arch = "aarch64")]
const ARCH: Option<TargetArch> = Some(TargetArch::aarch64);
#[cfg(target_arch = "riscv64")]
const ARCH: Option<TargetArch> = Some(TargetArch::riscv64);
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
const ARCH: Option<TargetArch> = None;

/// Calls that are newer than the library's list, with the same number on every architecture.
pub(super) const MOUNT_SETATTR: i64 = 442;
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const OPEN_TREE_ATTR: i64 = 467;
const FILE_SETATTR: i64 = 469;

/// Calls that are denied at every level: the kernel itself, other processes, mounts, keys.
const DENIED: [i64; 57] = [
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    MOUNT_SETATTR,
    libc::SYS_setns,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_vhangup,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_nfsservctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_memfd_secret,
];

#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[i64] = &[
    libc::SYS_kexec_file_load,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS__sysctl,
];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE: &[i64] = &[libc::SYS_kexec_file_load];

/// Calls for shared memory, semaphores and messages that are found by number. They are denied
/// without an IPC namespace.
const SYSTEM_V: [i64; 11] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semctl,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
];

/// Calls that change metadata, which Landlock does not govern. Level `read` denies them.
const METADATA: [i64; 14] = [
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
];

#[cfg(target_arch = "x86_64")]
const METADATA_HERE: &[i64] = &[
    FILE_SETATTR,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const METADATA_HERE: &[i64] = &[FILE_SETATTR];

/// Calls that send signals. Without a scope for signals all are denied, even to the sender itself.
const SIGNALS: [i64; 6] = [
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_send_signal,
];

/// `ioctl`s that insert keystrokes into a terminal.
const TERMINAL_IOCTLS: [u64; 2] = [libc::TIOCSTI, 0x541C];

/// `ioctl`s that change a file through a read-only descriptor: flags, project, verity.
const METADATA_IOCTLS: [u64; 4] = [0x4008_6602, 0x4004_6602, 0x401c_5820, 0x4080_6685];

/// `fcntl` and `ioctl` that make the kernel send signals.
const SIGNAL_FCNTLS: [u64; 3] = [8, 10, 15];
const SIGNAL_IOCTLS: [u64; 2] = [0x8901, 0x8902];

const CLONE_NEW: u64 = 0x7E02_0080;

/// One filter program for the kernel: each further one would slow down every start of a command.
pub(super) struct Filter(Vec<sock_filter>);

/// The namespaces that the stage has set up. The filter covers the rest.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reached {
    pub private_network: bool,
    pub own_processes: bool,
    pub own_system_v: bool,
}

impl Filter {
    pub(super) fn new(profile: &Profile, reached: Reached) -> Result<Filter, String> {
        let failed = |e: seccompiler::BackendError| format!("cannot make the call filter: {e}");
        let denied = denied(profile, reached).map_err(failed)?;
        // The flags of `clone3` are in memory, where no filter sees them. Programs fall back on
        // `clone`.
        let mut absent = vec![libc::SYS_clone3];
        if profile.kernel.landlock < 3 {
            absent.push(libc::SYS_openat2);
        }
        let mut program = marked();
        program.extend(absent_calls(&absent));
        // `denied` begins with the check of the architecture, and its jumps are relative.
        program.extend(compiled(denied).map_err(failed)?);
        Ok(Filter(program))
    }

    pub(super) fn enforce(&self) -> Result<(), String> {
        seccompiler::apply_filter(&self.0).map_err(|e| format!("cannot apply the call filter: {e}"))
    }
}

/// Returns whether filters work. Changes this process: it can gain no more privileges.
pub(super) fn can_filter() -> bool {
    let mut program = absent_calls(&[]);
    program.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    ARCH.is_some() && seccompiler::apply_filter(&program).is_ok()
}

/// Calls of a process that only computes: memory, and the files that it has open.
const COMPUTING: [i64; 20] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_lseek,
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_getrandom,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Leaves only the calls of [`COMPUTING`] to this process, for good. It must have one thread.
pub(super) fn only_compute() -> Result<(), String> {
    let failed = |e: seccompiler::BackendError| format!("cannot make the call filter: {e}");
    let arch = ARCH.ok_or_else(|| format!("no call filter on {}", std::env::consts::ARCH))?;
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let allowed = COMPUTING.map(|call| (call, Vec::new())).into();
    let filter = SeccompFilter::new(allowed, refuse, SeccompAction::Allow, arch);
    let program: Vec<sock_filter> = filter.and_then(TryInto::try_into).map_err(failed)?;
    seccompiler::apply_filter(&program).map_err(|e| format!("cannot apply the call filter: {e}"))
}

fn compiled(rules: Rules) -> Result<Vec<sock_filter>, seccompiler::BackendError> {
    let arch = ARCH.ok_or(seccompiler::BackendError::InvalidTargetArch(
        std::env::consts::ARCH.to_string(),
    ))?;
    let errno = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, errno, arch)?.try_into()
}

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_BITS: u16 = 0x45;
const RETURN: u16 = 0x06;

fn step(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Returns the beginning of a program. These calls, and the whole x32 interface (numbers with that
/// bit, of which some are x32 calls only), fail as if the kernel did not have them. A number that
/// means another call on another architecture is refused as well; the rest of the filter kills such
/// programs.
fn absent_calls(numbers: &[i64]) -> Vec<sock_filter> {
    const NUMBER: u32 = 0;
    const X32: u32 = 0x4000_0000;
    let refuse = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    let mut program = vec![
        step(LOAD, 0, 0, NUMBER),
        step(JUMP_IF_BITS, 0, 1, X32),
        step(RETURN, 0, 0, refuse),
    ];
    let numbers = numbers
        .iter()
        .filter_map(|number| u32::try_from(*number).ok());
    for number in numbers {
        program.push(step(JUMP_IF_EQUAL, 0, 1, number));
        program.push(step(RETURN, 0, 0, refuse));
    }
    program
}

/// The call by which a program asks for the mark, with its argument and its answer. Without the
/// filter the kernel answers that the process does not exist.
const ASKED: i64 = libc::SYS_kcmp;
const ARGUMENT: u32 = 0x7e77_a4e0;
const ANSWER: i32 = libc::ENOTNAM;

/// Returns the beginning of a program that marks the process: a process below the filter can detect
/// the mark, and cannot remove it.
fn marked() -> Vec<sock_filter> {
    const NUMBER: u32 = 0;
    const FIRST_ARGUMENT: u32 = if cfg!(target_endian = "big") { 20 } else { 16 };
    let Ok(asked) = u32::try_from(ASKED) else {
        return Vec::new();
    };
    vec![
        step(LOAD, 0, 0, NUMBER),
        step(JUMP_IF_EQUAL, 0, 3, asked),
        step(LOAD, 0, 0, FIRST_ARGUMENT),
        step(JUMP_IF_EQUAL, 0, 1, ARGUMENT),
        step(
            RETURN,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | ANSWER.unsigned_abs(),
        ),
    ]
}

/// Returns whether this process is below a filter of rewake.
#[allow(unsafe_code)]
pub(super) fn is_marked() -> bool {
    // SAFETY: it compares two processes and changes nothing. There are none of these numbers.
    let answer = unsafe { libc::syscall(ASKED, ARGUMENT, ARGUMENT, 0, 0, 0) };
    answer == -1 && std::io::Error::last_os_error().raw_os_error() == Some(ANSWER)
}

type FilterRules = Result<Rules, seccompiler::BackendError>;

fn denied(profile: &Profile, reached: Reached) -> FilterRules {
    let mut rules: Rules = BTreeMap::new();
    let mut always = |calls: &[i64]| {
        for call in calls {
            rules.insert(*call, Vec::new());
        }
    };
    always(&DENIED);
    always(DENIED_HERE);
    let reads = profile.access == Access::Read;
    if reads {
        always(&METADATA);
        always(METADATA_HERE);
    }
    if !reached.own_system_v {
        always(&SYSTEM_V);
    }
    let scoped = profile.kernel.scopes_signals() || reached.own_processes;
    if !scoped {
        always(&SIGNALS);
    }
    let mut ioctls: Vec<u64> = TERMINAL_IOCTLS.to_vec();
    if reads {
        ioctls.extend(METADATA_IOCTLS);
    }
    if !scoped {
        ioctls.extend(SIGNAL_IOCTLS);
        rules.insert(libc::SYS_fcntl, any_of(1, &SIGNAL_FCNTLS)?);
    }
    rules.insert(libc::SYS_ioctl, any_of(1, &ioctls)?);
    rules.insert(libc::SYS_socket, sockets(profile.network, reached)?);
    rules.insert(
        libc::SYS_socketpair,
        vec![
            // Only the family of Unix sockets has pairs.
            rule([(0, SeccompCmpOp::Ne, families::UNIX)])?,
            // A pair of datagrams could send to a socket by its path.
            rule([(1, SeccompCmpOp::MaskedEq(0xf), 2)])?,
            rule([(1, SeccompCmpOp::MaskedEq(0xf), 3)])?,
        ],
    );
    // Denies new namespaces: in a user namespace a command would have every capability.
    let namespaces: Result<Vec<SeccompRule>, _> = (0..32)
        .map(|bit| 1_u64 << bit)
        .filter(|bit| CLONE_NEW & bit != 0)
        .map(|bit| rule([(0, SeccompCmpOp::MaskedEq(bit), bit)]))
        .collect();
    let namespaces = namespaces?;
    // For `clone` the lowest byte is the signal at the end, not a flag.
    rules.insert(libc::SYS_clone, namespaces[1..].to_vec());
    rules.insert(libc::SYS_unshare, namespaces);
    // Denies changing limits and priorities of other processes of the user.
    rules.insert(libc::SYS_prlimit64, vec![rule([(0, SeccompCmpOp::Ne, 0)])?]);
    rules.insert(
        libc::SYS_setpriority,
        vec![rule([(1, SeccompCmpOp::Ne, 0)])?],
    );
    if profile.kernel.landlock < 3 {
        truncation(&mut rules)?;
    }
    Ok(rules)
}

/// Denies truncation: before version 3 Landlock does not govern it, so a readable file could be
/// emptied.
fn truncation(rules: &mut Rules) -> Result<(), seccompiler::BackendError> {
    const READING_AND_TRUNCATING: SeccompCmpOp = SeccompCmpOp::MaskedEq(0o1003);
    rules.insert(libc::SYS_truncate, Vec::new());
    rules.insert(
        libc::SYS_openat,
        vec![rule([(2, READING_AND_TRUNCATING, 0o1000)])?],
    );
    #[cfg(target_arch = "x86_64")]
    rules.insert(
        libc::SYS_open,
        vec![rule([(1, READING_AND_TRUNCATING, 0o1000)])?],
    );
    Ok(())
}

mod families {
    pub(super) const UNIX: u64 = 1;
    pub(super) const INET: u64 = 2;
    pub(super) const INET6: u64 = 10;
    pub(super) const NETLINK: u64 = 16;
}

/// Adds the rules that deny all families of sockets except those of the level.
fn sockets(
    network: Network,
    reached: Reached,
) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    use families::{INET, INET6, NETLINK};
    let allowed = match network {
        Network::Open => true,
        Network::Private => reached.private_network,
        Network::None => false,
    };
    if !allowed {
        return Ok(Vec::new());
    }
    let other = [INET, INET6, NETLINK].map(|family| (0, SeccompCmpOp::Ne, family));
    Ok(vec![
        rule(other)?,
        // Netlink sockets only for NETLINK_ROUTE, which lists the network interfaces.
        rule([(0, SeccompCmpOp::Eq, NETLINK), (2, SeccompCmpOp::Ne, 0)])?,
        // No raw sockets.
        rule([
            (0, SeccompCmpOp::Ne, NETLINK),
            (1, SeccompCmpOp::MaskedEq(0xf), 3),
        ])?,
    ])
}

fn any_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let each = values.iter();
    each.map(|value| rule([(argument, SeccompCmpOp::Eq, *value)]))
        .collect()
}

/// Returns a rule that needs all conditions.
fn rule<const N: usize>(
    conditions: [(u8, SeccompCmpOp, u64); N],
) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions: Result<Vec<SeccompCondition>, _> = conditions
        .into_iter()
        .map(|(argument, operator, value)| {
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
        })
        .collect();
    SeccompRule::new(conditions?)
}
