//! What a sandbox costs a command, as the keeper starts it: from the fork to the end of `/bin/true`, beside
//! the same program without one.

#[cfg(not(target_os = "linux"))]
pub fn rows() -> Vec<crate::table::Row> {
    Vec::new()
}

#[cfg(target_os = "linux")]
pub use linux::rows;

#[cfg(target_os = "linux")]
mod linux {
    use std::path::Path;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use rewake::core::access::Access;
    use rewake::sandbox::{Kernel, Profile, Remembered, Repository, Request, Toolchains, forked};

    use crate::sample::{Times, process, ratio};
    use crate::table::{Row, ms};

    const TIMES: usize = 200;

    /// So many folders may be read.
    const RULES: usize = 300;

    /// In the workspace that is looked through for protected files.
    const FOLDERS: usize = 1_000;
    const FILES_A_FOLDER: usize = 20;

    const TARGET: Duration = Duration::from_micros(1_500);

    pub fn rows() -> Vec<Row> {
        let exe = Path::new(env!("CARGO_BIN_EXE_rewake"));
        let kernel = Kernel::probe(exe).expect("ask the kernel");
        if !kernel.can_sandbox() {
            return vec![Row::new("a command in the sandbox", "this system has none")];
        }
        let levels = [Access::Read, Access::Workspace];
        let whole = levels.map(|access| row(exe, kernel, access));
        let made = levels.map(|access| made(kernel, access));
        whole.into_iter().chain(made).collect()
    }

    /// What is worked out for each command before it starts, in a workspace of many folders.
    fn made(kernel: Kernel, access: Access) -> Row {
        let place = tempfile::tempdir().expect("make a temporary folder");
        let root = place.path().canonicalize().expect("a path");
        let path = |name: &str| root.join(name);
        for number in 0..FOLDERS {
            let folder = path(&format!("ws/{}/{}", number / 50, number % 50));
            std::fs::create_dir_all(&folder).expect("make a folder");
            for file in 0..FILES_A_FOLDER {
                std::fs::write(folder.join(format!("file-{file}.rs")), "").expect("write");
            }
        }
        for name in ["tmp", "caches"] {
            std::fs::create_dir(path(name)).expect("make a folder");
        }
        process(Command::new("git").args(["init", "-q"]).arg(path("ws")));
        let (workspace, tmp, caches) = (path("ws"), path("tmp"), path("caches"));
        let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
        let request = Request {
            objects: &[],
            access,
            workspace: &workspace,
            repository: Repository::of(&workspace),
            home: home.as_deref(),
            more_read: &[],
            more_write: &[],
            pass_env: &[],
            denied: &[],
            private: &[],
            shown: &[],
            toolchains: &Toolchains::default(),
            tmp: &tmp,
            caches: &caches,
            quarantine: &path("quarantine"),
            kernel,
            held: &[],
            remembered: &Remembered::default(),
        };
        let mut times = Times::default();
        for _ in 0..TIMES {
            let since = Instant::now();
            Profile::new(&request).expect("a profile");
            times.push(since.elapsed());
        }
        Row::new(
            format!("a profile of level {access}, {FOLDERS} folders"),
            format!(
                "{}, p99 {}",
                ms(times.median()),
                ms(times.worst_of_hundred())
            ),
        )
    }

    fn row(exe: &Path, kernel: Kernel, access: Access) -> Row {
        let place = tempfile::tempdir().expect("make a temporary folder");
        let path = |name: &str| place.path().canonicalize().expect("a path").join(name);
        let mut more = Vec::new();
        for name in ["ws", "tmp", "caches"] {
            std::fs::create_dir(path(name)).expect("make a folder");
        }
        for number in 0..RULES {
            more.push(path(&format!("more-{number}")));
            std::fs::create_dir(&more[number]).expect("make a folder");
        }
        process(Command::new("git").args(["init", "-q"]).arg(path("ws")));
        let workspace = path("ws");
        let profile = Profile::new(&Request {
            objects: &[],
            access,
            workspace: &workspace,
            repository: Repository::of(&workspace),
            home: None,
            more_read: &more,
            more_write: &[],
            pass_env: &[],
            denied: &[],
            private: &[],
            shown: &[],
            toolchains: &Toolchains::default(),
            tmp: &path("tmp"),
            caches: &path("caches"),
            quarantine: &path("quarantine"),
            kernel,
            held: &[],
            remembered: &Remembered::default(),
        })
        .expect("a profile");
        let (mut with, mut without) = (Times::default(), Times::default());
        for _ in 0..TIMES {
            without.push(process(Command::new("/bin/true").current_dir(&workspace)));
            with.push(once(exe, &profile, &workspace));
        }
        let more = with.median().saturating_sub(without.median());
        Row::new(
            format!("a sandbox of level {access}, {RULES} rules"),
            format!("+{}, p99 {}", ms(more), ms(with.worst_of_hundred())),
        )
        .beside(format!("/bin/true {}", ms(without.median())))
        .ratio(ratio(with.median(), without.median()))
        .target("+1.5 ms", more <= TARGET)
    }

    fn once(exe: &Path, profile: &Profile, folder: &Path) -> Duration {
        let since = Instant::now();
        let mut starting = forked(profile, exe, Path::new("/bin/true"), vec![]).expect("a command");
        let mut child = starting
            .command
            .current_dir(folder)
            .spawn()
            .expect("a stage");
        drop(starting.command);
        assert_eq!(starting.report.failure(), None);
        assert!(child.wait().expect("wait").success());
        since.elapsed()
    }
}
