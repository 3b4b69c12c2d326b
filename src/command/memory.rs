//! The number of processes that the kernel killed for lack of memory, as the cgroup of this process
//! counts them. Linux only.

use std::path::Path;

/// Returns the number so far. `None`: no counter can be read.
pub(super) fn kills() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    kills_below(Path::new("/sys/fs/cgroup"), &own)
}

/// Returns the number of the cgroup that `own` names, as `/proc/PID/cgroup` does.
fn kills_below(mount: &Path, own: &str) -> Option<u64> {
    own.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (folders, file) = match controllers {
            "" => ([mount.into(), mount.join("unified")], "memory.events"),
            list if list.split(',').any(|name| name == "memory") => (
                [mount.join("memory"), mount.join(list)],
                "memory.oom_control",
            ),
            _ => return None,
        };
        // A container may see its cgroup as the root, whatever the path outside is.
        let paths = [path.trim_start_matches('/'), ""];
        let mut files = folders.iter().flat_map(|folder| {
            let at = |path: &&str| folder.join(path).join(file);
            paths.iter().map(at).collect::<Vec<_>>()
        });
        files.find_map(|file| count(&std::fs::read_to_string(file).ok()?))
    })
}

fn count(counters: &str) -> Option<u64> {
    let mut lines = counters.lines();
    lines.find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_counter_of_the_own_cgroup_is_read_in_both_versions() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let kills = |own| kills_below(root.path(), own);
        assert_eq!(kills("0::/a/b\n"), None);
        put(
            "a/b/memory.events",
            "low 0\noom 4\noom_kill 3\noom_group_kill 1\n",
        );
        put("memory.events", "oom_kill 9\n");
        assert_eq!(kills("0::/a/b\n"), Some(3));
        assert_eq!(kills("0::/docker/0123\n"), Some(9));
        let control = "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n";
        put("memory/x/memory.oom_control", control);
        let own = "5:devices:/y\n4:memory:/x\n0::/gone\n";
        assert_eq!(kills(own), Some(5));
        assert_eq!(kills("nonsense\n4:cpu:/x\n"), None);
    }
}
