//! The stage: this program with a hidden first argument, as a fresh process with one thread that
//! drops its own rights and then becomes the command.
//!
//! It reads its order from one inherited descriptor, and reports failures on another. The second
//! one closes when the command is executed, so an empty report means success. On a third it reports
//! how many processes ended with the command.
//!
//! With [`super::kernel::PROBE`] it tries the features of the kernel and prints them.
//!
//! Invariant: from the start to the command no step is skipped. Any step that fails is reported,
//! and the process ends.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use super::kernel::STAGE_WORD;
use super::profile::Profile;

/// The input of a stage.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub profile: Profile,
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// The name of the program (`argv[0]`), if it differs from its path.
    pub shown_as: Option<String>,
    /// The pid of the process that starts the stage. The stage ends with it.
    pub parent: u32,
}

/// Becomes a sandboxed command if this process was started for that. Returns `None` for an ordinary
/// start.
pub fn become_if_asked() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != OsStr::new(STAGE_WORD) {
        return None;
    }
    let words: Vec<String> = args.filter_map(|word| word.into_string().ok()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Some(linux::run(&words))
}

#[cfg(not(target_os = "linux"))]
mod linux {
    use std::process::ExitCode;

    /// Other systems have no stage.
    pub fn run(_: &[&str]) -> ExitCode {
        ExitCode::FAILURE
    }
}

#[cfg(target_os = "linux")]
pub(super) use linux::apply;

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, ExitCode};

    use rustix::process::Pid;

    use super::super::calls::{self, Filter, Reached};
    use super::super::descriptors::close_inherited;
    use super::super::init::Parent;
    use super::super::kernel::{Kernel, PROBE};
    use super::super::namespaces::{self, WantedNamespaces};
    use super::super::profile::{Network, Profile};
    use super::super::{files, init, mounts, rights};
    use super::Order;

    pub(super) fn run(words: &[&str]) -> ExitCode {
        match words {
            [PROBE] => probe(),
            [order, report, left] => act(order, report, left),
            _ => ExitCode::FAILURE,
        }
    }

    fn act(order: &str, report: &str, left: &str) -> ExitCode {
        let open = |number| File::options().write(true).open(inherited(number));
        let (Ok(mut report), Ok(left)) = (open(report), open(left)) else {
            return ExitCode::FAILURE;
        };
        let order = read_order(order);
        close_inherited(&[report.as_raw_fd(), left.as_raw_fd()]);
        // It returns only if the command does not run.
        let why = match order {
            Ok(order) => carry_out(&order, left),
            Err(why) => why,
        };
        let _ = report.write_all(why.as_bytes());
        ExitCode::FAILURE
    }

    fn inherited(number: &str) -> String {
        format!("/proc/self/fd/{number}")
    }

    fn read_order(number: &str) -> Result<Order, String> {
        let mut json = Vec::new();
        File::open(inherited(number))
            .and_then(|mut file| file.read_to_end(&mut json))
            .map_err(|e| format!("cannot read what the sandbox is to be: {e}"))?;
        serde_json::from_slice(&json)
            .map_err(|e| format!("cannot understand what the sandbox is to be: {e}"))
    }

    /// Drops the rights of this process, which must have one thread. If the command gets a process
    /// namespace, this returns in another process than it was called in. An error may come from any
    /// of the processes between the two.
    pub(crate) fn apply(profile: &Profile, parent: &Parent) -> Result<(), String> {
        rights::offer_to_out_of_memory();
        rights::limit(&profile.limits)?;
        let wanted = wanted(profile);
        let apart = wanted.mounts || wanted.network || wanted.processes;
        if apart {
            namespaces::enter(wanted)?;
        }
        let first = if wanted.processes {
            Some(init::enter(
                &profile.kernel,
                profile.limits.processes,
                parent,
            )?)
        } else {
            None
        };
        if wanted.mounts {
            mounts::make_private()?;
            if first.is_some() {
                mounts::own_process_list();
            }
            mounts::hold(profile)?;
            return_to_folder()?;
        }
        // The processes in between must keep the rights that are dropped from here on: a command
        // could inspect a process that has as few rights as it has.
        if let Some(first) = first {
            first.start()?;
        }
        let rules = files::open(profile, wanted.mounts)?;
        rights::drop_all()?;
        rules.enforce()?;
        let reached = Reached {
            private_network: wanted.network,
            own_processes: wanted.processes,
            own_system_v: apart,
        };
        Filter::new(profile, reached)?.enforce()
    }

    /// Carries out the order. Returns why the command does not run.
    fn carry_out(order: &Order, left: File) -> String {
        let parent = Parent {
            pid: i32::try_from(order.parent).ok().and_then(Pid::from_raw),
            left: Some(left.into()),
        };
        if let Err(why) = apply(&order.profile, &parent) {
            return why;
        }
        drop(parent);
        let mut command = Command::new(&order.program);
        command.args(&order.args);
        if let Some(name) = &order.shown_as {
            command.arg0(name);
        }
        let program = order.program.display();
        format!("cannot start {program}: {}", command.exec())
    }

    fn wanted(profile: &Profile) -> WantedNamespaces {
        let kernel = &profile.kernel;
        let processes = kernel.gives_own_processes();
        WantedNamespaces {
            user: kernel.user_namespace,
            mounts: kernel.mounts,
            network: profile.network == Network::Private,
            processes,
        }
    }

    /// Enters the working folder again, through the new mounts. Otherwise a command that starts in
    /// a protected folder would be below the mount and see the original.
    fn return_to_folder() -> Result<(), String> {
        std::env::current_dir()
            .and_then(std::env::set_current_dir)
            .map_err(|e| format!("cannot return to the working folder: {e}"))
    }

    /// Tries all features in one process, least intrusive first, and prints those that work.
    #[allow(clippy::print_stdout, reason = "the answer of the hidden word")]
    fn probe() -> ExitCode {
        let all = WantedNamespaces {
            user: !rustix::process::geteuid().is_root(),
            mounts: true,
            network: true,
            processes: true,
        };
        let mut kernel = Kernel {
            landlock: files::newest_abi(),
            ..Kernel::default()
        };
        // For root without the capability, in a container, a user namespace may work.
        let tries = [all, WantedNamespaces { user: true, ..all }].map(|wanted| {
            [
                wanted,
                WantedNamespaces {
                    network: false,
                    ..wanted
                },
            ]
        });
        let entered = tries
            .into_iter()
            .flatten()
            .find(|wanted| namespaces::enter(*wanted).is_ok());
        if let Some(wanted) = entered {
            kernel.user_namespace = wanted.user;
            kernel.private_network = wanted.network;
            if let Some(tried) = init::try_processes() {
                kernel.process_namespace = true;
                kernel.process_numbers = tried.numbers;
                kernel.process_limit = tried.limit;
            }
            kernel.terminals = mounts::make_private()
                .and_then(|()| mounts::own_terminals())
                .is_ok();
            kernel.mounts = mounts::can_mount();
        }
        kernel.seccomp = calls::can_filter();
        match serde_json::to_string(&kernel) {
            Ok(json) => println!("{json}"),
            Err(_) => return ExitCode::FAILURE,
        }
        ExitCode::SUCCESS
    }
}
