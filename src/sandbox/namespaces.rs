//! Namespaces: views of mounts, network and processes that are the command's own.
//!
//! Root creates them directly. Other users also need a user namespace, in which this process keeps
//! its own user ID and has no other.

use std::io;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use rustix::thread::UnshareFlags;

#[derive(Debug, Clone, Copy)]
pub(super) struct WantedNamespaces {
    pub user: bool,
    pub mounts: bool,
    pub network: bool,
    pub processes: bool,
}

/// Moves this process into new namespaces. A process namespace starts with the next child.
pub(super) fn enter(wanted: WantedNamespaces) -> Result<(), String> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let mut flags = UnshareFlags::NEWIPC;
    flags.set(UnshareFlags::NEWUSER, wanted.user);
    flags.set(UnshareFlags::NEWNS, wanted.mounts);
    flags.set(UnshareFlags::NEWNET, wanted.network);
    flags.set(UnshareFlags::NEWPID, wanted.processes);
    unshare(flags).map_err(|e| format!("cannot make namespaces: {e}"))?;
    if wanted.user {
        let write = |file: &str, text: String| {
            std::fs::write(format!("/proc/self/{file}"), text)
                .map_err(|e| format!("cannot set up the user namespace ({file}): {e}"))
        };
        write("setgroups", "deny".to_string())?;
        let (user, group) = (user.as_raw(), group.as_raw());
        write("uid_map", format!("{user} {user} 1"))?;
        write("gid_map", format!("{group} {group} 1"))?;
    }
    if wanted.network {
        loopback_up().map_err(|e| format!("cannot bring up the loopback network: {e}"))?;
    }
    Ok(())
}

/// Makes the next child the first process of a namespace below the previous one.
pub(super) fn own_processes() -> rustix::io::Result<()> {
    unshare(UnshareFlags::NEWPID)
}

#[allow(unsafe_code)]
fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: only sharing the table of descriptors would be unsafe, and that flag is never
    // given; this process has one thread.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// Brings the loopback interface up, with one message to the kernel, rtnetlink(7).
fn loopback_up() -> io::Result<()> {
    const SET_LINK: u16 = 16;
    const REQUEST_AND_ACK: u16 = 1 | 4;
    const UP: u32 = 1;
    const LOOPBACK: i32 = 1;
    let mut message: Vec<u8> = Vec::with_capacity(32);
    message.extend(32_u32.to_ne_bytes());
    message.extend(SET_LINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACK.to_ne_bytes());
    message.extend(1_u32.to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    message.extend([0_u8; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )?;
    sendto(
        &socket,
        &message,
        SendFlags::empty(),
        &SocketAddrNetlink::new(0, 0),
    )?;
    let mut answer = [0_u8; 256];
    let (got, _) = recv(
        &socket,
        answer.as_mut_slice(),
        rustix::net::RecvFlags::empty(),
    )?;
    // The answer is an error message (type 2) whose number is 0 when all is well.
    let error = answer.get(16..20).filter(|_| got >= 20);
    let error = error
        .and_then(|bytes| bytes.try_into().ok())
        .map(i32::from_ne_bytes);
    match error {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        None => Err(io::Error::other("the kernel gave no answer")),
    }
}
