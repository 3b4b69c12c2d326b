//! Commands in a sandbox as their keeper runs them: limits, what lives on, what is told.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::scene::{Scene, Who};
use rewake::command::{Aftermath, Ended, How, Runs, Spec, default_shell};
use rewake::core::access::Access;
use rewake::sandbox::{Kernel, Profile, Repository, Request, Unsupported};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// A workspace with a repository, and runs beside it.
struct Place {
    folder: tempfile::TempDir,
    kernel: Kernel,
}

fn place(lacks: &str) -> Place {
    let folder = tempfile::tempdir().unwrap();
    for name in ["ws", "tmp", "caches", "home"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    let made = std::process::Command::new("git")
        .args(["init", "-q", "--template="])
        .current_dir(folder.path().join("ws"))
        .status();
    assert!(made.unwrap().success());
    std::fs::write(folder.path().join("ws/.env"), "PASSWORD=1\n").unwrap();
    std::fs::write(folder.path().join("ws/plain"), "plain\n").unwrap();
    let kernel = Kernel::probe(Path::new(env!("CARGO_BIN_EXE_rewake"))).unwrap();
    Place {
        folder,
        kernel: kernel.pretending(lacks).unwrap(),
    }
}

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn profile(&self, access: Access) -> Profile {
        self.try_profile(access).unwrap()
    }

    fn try_profile(&self, access: Access) -> Result<Profile, Unsupported> {
        let denied = [self.path("ws/.env")];
        Profile::new(&Request {
            access,
            workspace: &self.path("ws"),
            repository: Repository::of(&self.path("ws")),
            home: Some(&self.path("home")),
            more_read: &[],
            more_write: &[],
            pass_env: &[],
            denied: &denied,
            private: &[self.path("runs")],
            shown: &[],
            tmp: &self.path("tmp"),
            caches: &self.path("caches"),
            quarantine: &self.path("quarantine"),
            kernel: self.kernel,
            remembered: &rewake::sandbox::Remembered::default(),
        })
    }

    fn run(&self, profile: Profile, command: &str) -> (Ended, String) {
        let runs = Runs::new(self.path("runs"), env!("CARGO_BIN_EXE_rewake"));
        let spec = Spec {
            command: command.into(),
            folder: self.path("ws"),
            timeout_ms: 60_000,
            output_cap_bytes: 1_000_000,
            shell: default_shell(),
            env_remove: vec![],
            env_set: vec![],
            session: "session".into(),
            call: "0.0".into(),
            background: false,
            sandbox: Some(Box::new(profile)),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let run = runs.prepare(&spec).unwrap();
            let mut running = runs.start(&run).unwrap();
            let ended = runs.wait(&mut running).await.unwrap();
            let printed = runs.output(&ended, 1_000_000).unwrap();
            (ended, String::from_utf8(printed.head).unwrap())
        })
    }
}

fn after(ended: &Ended) -> &Aftermath {
    ended.sandbox.as_ref().unwrap()
}

fn pid_in(path: &Path) -> Pid {
    let text = std::fs::read_to_string(path).unwrap();
    Pid::from_raw(text.trim().parse().unwrap()).unwrap()
}

fn until(what: impl Fn() -> bool) {
    let since = Instant::now();
    while !what() {
        assert!(since.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(5));
    }
}

const LEAVES_ONE: &str = "setsid sh -c 'echo $$ > $TMPDIR/pid; exec sleep 60' > /dev/null 2>&1 &
while ! test -s $TMPDIR/pid; do sleep 0.01; done; echo done";

#[test]
fn level_read_ends_what_a_command_left_behind() {
    let place = place("");
    let (ended, text) = place.run(place.profile(Access::Read), LEAVES_ONE);
    assert_eq!((&ended.how, text.as_str()), (&How::Exited(0), "done\n"));
    assert!(after(&ended).ended >= 1, "{ended:?}");
    assert!(test_kill_process(pid_in(&place.path("tmp/pid"))).is_err());
}

#[test]
fn level_workspace_counts_what_a_command_left_behind() {
    let place = place("");
    let (ended, _) = place.run(place.profile(Access::Workspace), LEAVES_ONE);
    let pid = pid_in(&place.path("tmp/pid"));
    let lives = test_kill_process(pid).is_ok();
    let _ = kill_process(pid, Signal::KILL);
    assert!(lives && after(&ended).survivors >= 1, "{ended:?}");
}

/// What lives on could change a protected file after it was compared.
#[test]
fn where_files_are_only_compared_nothing_is_left_behind() {
    let place = place("no-namespaces");
    let (ended, _) = place.run(place.profile(Access::Workspace), LEAVES_ONE);
    assert!(after(&ended).ended >= 1, "{ended:?}");
    assert!(test_kill_process(pid_in(&place.path("tmp/pid"))).is_err());
}

#[test]
fn a_command_with_too_many_processes_is_ended() {
    let place = place("");
    let mut profile = place.profile(Access::Read);
    profile.limits.processes = 20;
    let (ended, _) = place.run(profile, "for i in $(seq 60); do sleep 50 & done; wait");
    assert_eq!(ended.how, How::Stopped);
    assert_eq!(
        after(&ended).limit.as_deref(),
        Some("more than 20 processes")
    );
}

#[test]
fn a_command_that_fills_its_temporary_folder_is_ended() {
    let place = place("");
    let mut profile = place.profile(Access::Read);
    profile.limits.tmp_bytes = 2_000_000;
    let (ended, _) = place.run(profile, "head -c 8000000 /dev/zero > $TMPDIR/big; sleep 50");
    assert_eq!(ended.how, How::Stopped);
    assert_eq!(
        after(&ended).limit.as_deref(),
        Some("more than 2 MB in $TMPDIR")
    );
}

#[test]
fn a_file_has_a_largest_size() {
    let place = place("");
    let mut profile = place.profile(Access::Workspace);
    profile.limits.file_bytes = 1_000_000;
    let (_, text) = place.run(profile, "head -c 9000000 /dev/zero > big; echo over");
    assert!(text.contains("over"), "{text}");
    assert_eq!(
        std::fs::metadata(place.path("ws/big")).unwrap().len(),
        1_000_000
    );
}

#[test]
fn a_change_of_a_protected_file_is_told_with_the_end() {
    let place = place("no-namespaces");
    let profile = place.profile(Access::Workspace);
    assert!(profile.gaps.iter().any(|gap| gap.contains("not held")));
    let (ended, _) = place.run(
        profile,
        "echo x >> .git/config; mkdir .husky; echo y > .husky/pre-commit",
    );
    let changed = &after(&ended).changed;
    assert!(
        changed.iter().any(|one| one.contains(".git/config")),
        "{changed:?}"
    );
    assert!(
        changed.iter().any(|one| one.contains(".husky")),
        "{changed:?}"
    );
    assert!(!place.path("ws/.husky").exists());
}

#[test]
fn a_denied_file_is_not_read_and_the_ones_beside_it_are() {
    for lacks in ["", "no-namespaces"] {
        let place = place(lacks);
        for access in [Access::Read, Access::Workspace, Access::Network] {
            let command = "cat .env; cat < .env; cp .env $TMPDIR/e && cat $TMPDIR/e; mv .env x; cat x; cat plain";
            let (_, text) = place.run(place.profile(access), command);
            assert!(text.contains("plain"), "{lacks} {access}: {text}");
            assert!(!text.contains("PASSWORD"), "{lacks} {access}: {text}");
            let _ = std::fs::rename(place.path("ws/x"), place.path("ws/.env"));
        }
    }
}

#[test]
fn a_workspace_that_was_exchanged_is_not_entered() {
    let place = place("");
    let profile = place.profile(Access::Read);
    std::fs::rename(place.path("ws"), place.path("old")).unwrap();
    std::fs::create_dir(place.path("ws")).unwrap();
    let (ended, text) = place.run(profile, "echo it ran");
    let How::NotRun(why) = &ended.how else {
        panic!("{ended:?}");
    };
    assert!(why.contains("is not the folder that it was"), "{why}");
    assert_eq!(text, "");
}

#[test]
fn a_workspace_that_became_a_link_is_not_entered() {
    let place = place("");
    let profile = place.profile(Access::Read);
    std::fs::rename(place.path("ws"), place.path("old")).unwrap();
    std::os::unix::fs::symlink(place.path("old"), place.path("ws")).unwrap();
    let (ended, text) = place.run(profile, "echo it ran");
    assert!(matches!(ended.how, How::NotRun(_)), "{ended:?} {text}");
}

/// Only what the profile names is opened, and not what somebody made of it since.
#[test]
fn a_folder_that_became_a_link_grants_nothing() {
    for lacks in ["", "no-namespaces"] {
        let place = place(lacks);
        for name in ["outside", "more"] {
            std::fs::create_dir(place.path(name)).unwrap();
        }
        std::fs::write(place.path("outside/notes"), "notes\n").unwrap();
        let mut profile = place.profile(Access::Read);
        profile.read.push(place.path("more"));
        std::fs::remove_dir(place.path("more")).unwrap();
        std::os::unix::fs::symlink(place.path("outside"), place.path("more")).unwrap();
        let look = format!("cat {}", place.path("outside/notes").display());
        let (ended, text) = place.run(profile, &look);
        assert_eq!(ended.how, How::Exited(1), "{lacks}: {text}");
        assert!(text.contains("Permission denied"), "{lacks}: {text}");
    }
}

#[test]
fn a_missing_temporary_folder_is_said_before_anything_runs() {
    let place = place("");
    std::fs::remove_dir(place.path("tmp")).unwrap();
    let refused = place.try_profile(Access::Read).unwrap_err();
    assert!(
        refused.why.contains("cannot find the temporary folder"),
        "{refused}"
    );
}

#[test]
fn a_command_that_starts_in_a_held_folder_does_not_stand_below_the_mount() {
    let place = place("");
    let runs = Runs::new(place.path("runs"), env!("CARGO_BIN_EXE_rewake"));
    let before = std::fs::read(place.path("ws/.git/config")).unwrap();
    let spec = Spec {
        command: "echo x >> config; cd ..; ls".into(),
        folder: place.path("ws/.git"),
        timeout_ms: 60_000,
        output_cap_bytes: 1_000,
        shell: default_shell(),
        env_remove: vec![],
        env_set: vec![],
        session: "session".into(),
        call: "0.0".into(),
        background: false,
        sandbox: Some(Box::new(place.profile(Access::Workspace))),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let run = runs.prepare(&spec).unwrap();
        let mut running = runs.start(&run).unwrap();
        runs.wait(&mut running).await.unwrap();
    });
    assert_eq!(std::fs::read(place.path("ws/.git/config")).unwrap(), before);
}

#[test]
fn a_command_is_ended_before_the_agent_when_memory_runs_out() {
    let place = place("");
    let (_, text) = place.run(place.profile(Access::Read), "cat /proc/self/oom_score_adj");
    let own: i32 = std::fs::read_to_string("/proc/self/oom_score_adj")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert_eq!(text.trim(), (own + 500).min(1000).to_string());
}

/// The kernel gives the files of such a process to root: seen as an ordinary user.
#[test]
fn the_agent_cannot_be_looked_into() {
    let _alone = crate::alone();
    let who = *Who::all().last().unwrap();
    let scene = Scene::new(who, false);
    let args = ["sandbox", "--access", "full", "--", "/bin/sleep", "60"];
    let mut child = scene
        .command(&scene.root().join("rewake"), &args)
        .spawn()
        .unwrap();
    let owner = |pid: &str| {
        std::fs::metadata(format!("/proc/{pid}/environ"))
            .unwrap()
            .uid()
    };
    let children = PathBuf::from(format!("/proc/{0}/task/{0}/children", child.id()));
    until(|| std::fs::read_to_string(&children).is_ok_and(|text| !text.trim().is_empty()));
    let started = std::fs::read_to_string(&children).unwrap();
    let agent = owner(&child.id().to_string());
    for pid in started.split_whitespace() {
        let _ = kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL);
    }
    child.wait().unwrap();
    assert_eq!(agent, 0);
}

#[test]
fn shared_memory_of_others_is_not_seen_where_mounts_can_be_had() {
    let place = place("");
    let name = format!("/dev/shm/rewake-test-{}", std::process::id());
    std::fs::write(&name, "GOT-IT").unwrap();
    let command = format!("cat {name}; echo x > /dev/shm/mine && cat /dev/shm/mine");
    let (_, text) = place.run(place.profile(Access::Workspace), &command);
    std::fs::remove_file(&name).unwrap();
    assert!(text.contains('x') && !text.contains("GOT-IT"), "{text}");
}

#[test]
fn what_is_protected_is_found_at_any_depth() {
    let place = place("");
    for name in [
        "a/b/AGENTS.md",
        "crates/x/.cargo/config.toml",
        "web/.vscode/settings.json",
    ] {
        let path = place.path("ws").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "as it was").unwrap();
        let (_, text) = place.run(
            place.profile(Access::Workspace),
            &format!("echo x >> {name}; rm -f {name}; mv a b; mv crates c; mv web w; echo over"),
        );
        assert!(text.contains("over"), "{text}");
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "as it was",
            "{name}"
        );
    }
}
