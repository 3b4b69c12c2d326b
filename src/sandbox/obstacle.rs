//! The setting of a system that keeps commands from getting namespaces, in words for a person.
//!
//! Most kernels have namespaces for everybody. Where a command gets none, a container or a
//! distribution refuses them, and one setting changes that.

use super::kernel::Kernel;

/// The signs of the system besides the features of its kernel.
#[derive(Debug, Clone, Copy, Default)]
struct Signs {
    /// Whether a call filter of somebody else applies to this process.
    has_call_filter: bool,
    /// Whether an AppArmor profile applies to this process.
    has_profile: bool,
    /// Switches of the kernel; `None` where it lacks them.
    apparmor_restricts: Option<u64>,
    clone_allowed: Option<u64>,
    most_namespaces: Option<u64>,
}

impl Signs {
    fn look() -> Signs {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let number = |path: &str| read(path)?.trim().parse().ok();
        let status = read("/proc/self/status").unwrap_or_default();
        let mut lines = status.lines();
        let profile = read("/proc/self/attr/current").unwrap_or_default();
        Signs {
            has_call_filter: lines.any(|line| line.split_whitespace().eq(["Seccomp:", "2"])),
            has_profile: profile.trim_end().ends_with(')'),
            apparmor_restricts: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            clone_allowed: number("/proc/sys/kernel/unprivileged_userns_clone"),
            most_namespaces: number("/proc/sys/user/max_user_namespaces"),
        }
    }

    /// Returns who refuses, and the setting that gives the rest.
    fn obstacle(&self, kernel: &Kernel) -> Option<(&'static str, &'static str)> {
        const APPARMOR: (&str, &str) = (
            "AppArmor restricts user namespaces",
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        );
        let has_some = kernel.mounts || kernel.private_network || kernel.process_namespace;
        match () {
            () if kernel.mounts && kernel.private_network && kernel.process_namespace => None,
            () if self.most_namespaces == Some(0) => Some((
                "user namespaces are turned off",
                "sudo sysctl user.max_user_namespaces=15000",
            )),
            () if self.clone_allowed == Some(0) => Some((
                "user namespaces are for root only",
                "sudo sysctl kernel.unprivileged_userns_clone=1",
            )),
            () if !has_some && self.has_call_filter => Some((
                "a call filter refuses namespaces, as in a container",
                "start the container with --security-opt seccomp=unconfined",
            )),
            () if !kernel.mounts && self.has_profile => Some((
                "an AppArmor profile refuses mounts, as in a container",
                "start the container with --security-opt apparmor=unconfined",
            )),
            () if self.apparmor_restricts.unwrap_or(0) > 0 || (has_some && !kernel.mounts) => {
                Some(APPARMOR)
            }
            () => None,
        }
    }
}

/// Returns why commands get no namespaces here, and the one setting that gives them. `None`: they
/// get all, or no setting is known.
pub fn namespace_setting(kernel: &Kernel) -> Option<String> {
    let (why, setting) = Signs::look().obstacle(kernel)?;
    Some(format!(
        "{why}: `{setting}` gives commands the whole sandbox"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_follows_from_what_is_seen() {
        let none = Kernel::default();
        let no_mounts = Kernel {
            process_namespace: true,
            ..none
        };
        let all = Kernel {
            mounts: true,
            private_network: true,
            ..no_mounts
        };
        let plain = Signs::default();
        let docker = Signs {
            has_call_filter: true,
            has_profile: true,
            apparmor_restricts: Some(1),
            ..plain
        };
        let ubuntu = Signs {
            apparmor_restricts: Some(1),
            ..plain
        };
        let off = Signs {
            most_namespaces: Some(0),
            ..plain
        };
        let debian = Signs {
            clone_allowed: Some(0),
            most_namespaces: Some(63_000),
            ..plain
        };
        let table = [
            (docker, all, None),
            (ubuntu, none, Some("apparmor_restrict")),
            (plain, no_mounts, Some("apparmor_restrict")),
            (docker, none, Some("seccomp=unconfined")),
            (docker, no_mounts, Some("apparmor=unconfined")),
            (off, none, Some("max_user_namespaces")),
            (debian, none, Some("unprivileged_userns_clone")),
            (plain, none, None),
        ];
        for (signs, kernel, setting) in table {
            let found = signs.obstacle(&kernel).map(|(_, setting)| setting);
            let fits = found.is_some_and(|found| setting.is_some_and(|s| found.contains(s)));
            assert!(fits || found == setting, "{signs:?} {kernel:?}: {found:?}");
        }
    }
}
