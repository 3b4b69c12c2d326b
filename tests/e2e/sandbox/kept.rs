//! Commands in a sandbox as their keeper runs them: limits, what lives on, what is told.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sandbox::scene::{Scene, Who};
use crate::scenes::runtime;
pub use crate::scenes::until;
use rewake::command::{Aftermath, How, RunEnd, Runs, Spec};
use rewake::core::access::Access;
use rewake::sandbox::{Kernel, Profile, Remembered, Repository, Request, Toolchains, Unsupported};
use rustix::process::{Pid, Signal, kill_process};
use support::default_shell;

/// A workspace with a repository, and runs beside it.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    kernel: Kernel,
    remembered: Remembered,
}

pub(crate) fn place(lacks: &str) -> Place {
    place_in(&std::env::temp_dir(), lacks)
}

fn place_in(parent: &Path, lacks: &str) -> Place {
    let folder = tempfile::tempdir_in(parent).unwrap();
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
        remembered: Remembered::default(),
    }
}

impl Place {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn profile(&self, access: Access) -> Profile {
        self.try_profile(access).unwrap()
    }

    fn try_profile(&self, access: Access) -> Result<Profile, Unsupported> {
        let denied = [self.path("ws/.env")];
        Profile::new(&Request {
            access,
            workspace: &self.path("ws"),
            repository: Repository::of(&self.path("ws")),
            objects: &[],
            home: Some(&self.path("home")),
            toolchains: &Toolchains::default(),
            more_read: &[],
            more_write: &[self.path("further")],
            pass_env: &[],
            denied: &denied,
            private: &[self.path("runs")],
            shown: &[],
            tmp: &self.path("tmp"),
            caches: &self.path("caches"),
            quarantine: &self.path("quarantine"),
            kernel: self.kernel,
            held: &[],
            remembered: &self.remembered,
        })
    }

    pub fn run(&self, profile: Profile, command: &str) -> (RunEnd, String) {
        self.run_so(profile, command, false)
    }

    fn run_so(&self, profile: Profile, command: &str, background: bool) -> (RunEnd, String) {
        let runs = self.runs();
        let spec = self.spec(profile, command, background);
        let runtime = runtime();
        runtime.block_on(async {
            let run = runs.prepare(&spec).unwrap();
            let mut running = runs.start(&run).unwrap();
            let ended = runs.wait(&mut running).await.unwrap();
            let printed = runs.output(&ended, 1_000_000).unwrap();
            (ended, String::from_utf8(printed.head).unwrap())
        })
    }

    pub fn runs(&self) -> Runs {
        Runs::new(self.path("runs"), env!("CARGO_BIN_EXE_rewake"))
    }

    pub fn spec(&self, profile: Profile, command: &str, background: bool) -> Spec {
        Spec {
            command: command.into(),
            folder: self.path("ws"),
            timeout_ms: 60_000,
            output_cap_bytes: 1_000_000,
            shell: default_shell(),
            env_remove: vec![],
            env_set: vec![("GIT_CONFIG_GLOBAL".into(), "/dev/null".into())],
            session: "session".into(),
            call: "0.0".into(),
            background,
            sandbox: Some(Box::new(profile)),
            child: None,
            hook: None,
            lease: None,
        }
    }
}

pub fn after(ended: &RunEnd) -> &Aftermath {
    ended.sandbox.as_ref().unwrap()
}

/// Without a file to hide, whose folder is only open in part where mounts cannot be had.
pub(crate) fn open_place(lacks: &str) -> Place {
    let place = place(lacks);
    std::fs::remove_file(place.path("ws/.env")).unwrap();
    std::fs::create_dir(place.path("ws/src")).unwrap();
    // What was there before is older than the clock of a file system is coarse.
    std::thread::sleep(Duration::from_millis(50));
    place
}

/// Each line makes something that the user's tools would run or obey, where nothing was.
const MAKES: [(&str, &str); 24] = [
    (
        "mv src s0; mkdir -p src/.git; mv s0 src/s0; mkdir src/.claude; echo x > src/.claude/x",
        "src/.claude",
    ),
    (
        "mkdir -p n/.git; git init -q n/sub; git -C n/sub config core.fsmonitor x",
        "n/sub/.git",
    ),
    (
        "m=.git/modules/l; mkdir -p $m/objects $m/refs $m/hooks; echo x > $m/hooks/a; ln -s refs/heads/main $m/HEAD",
        ".git/modules/l",
    ),
    (
        "git init -q tq; mkdir -p tq/.git/hooks; echo x > tq/.git/hooks/pre-commit; chmod 311 tq/.git/hooks",
        "tq/.git",
    ),
    (
        "touch HEAD; mkdir src/.claude; echo x > src/.claude/settings.json",
        "src/.claude",
    ),
    ("mkdir head; echo x > src/.mcp.json", "src/.mcp.json"),
    (
        "git init -q src; mkdir src/.claude; echo x > src/.claude/settings.json",
        "src/.claude",
    ),
    (
        "git init -q src; git -C src config core.pager x; echo x > src/.mcp.json",
        "src/.mcp.json",
    ),
    (
        "mkdir src/conf.d; git init -q src/conf.d/p; git -C src/conf.d/p config core.pager x",
        "src/conf.d/p/.git",
    ),
    (
        "git init -q --bare x.git; git -C x.git config core.pager x",
        "x.git/HEAD",
    ),
    (
        "mkdir p cfg; ln -s ../cfg p/.vscode; echo x > cfg/tasks.json",
        "p/.vscode",
    ),
    (
        "git init -q tp; git -C tp config core.pager x; chmod 311 tp",
        "tp/.git",
    ),
    (
        "mkdir -p .git/modules/lib/hooks; cp .git/HEAD .git/modules/lib/; echo x > .git/modules/lib/hooks/post-checkout",
        ".git/modules/lib",
    ),
    ("git init -q s; echo x > s/.git/hooks/pre-commit", "s/.git"),
    (
        "git init -q s; git -C s config core.fsmonitor ./x",
        "s/.git",
    ),
    ("git init -q s; git -C s config core.sshCommand x", "s/.git"),
    ("git init -q s; git -C s config alias.st '!x'", "s/.git"),
    (
        "mkdir -p a b; git init -q a; mv a/.git b/data; echo 'gitdir: data' > b/.git",
        "b/.git",
    ),
    (
        "git init -q a; git -C a config core.pager x; mv a/.git z; mkdir y; mv z y/.git",
        "y/.git",
    ),
    (
        "git init -q --bare b; git -C b config core.pager x",
        "b/HEAD",
    ),
    (
        "git init -q --bare s/t/deep; git -C s/t/deep config core.pager x",
        "s/t/deep/HEAD",
    ),
    (
        "mkdir -p pkg/.vscode; echo x > pkg/.vscode/tasks.json",
        "pkg/.vscode/tasks.json",
    ),
    (
        "mkdir -p pkg/.claude; echo x > pkg/.claude/settings.json",
        "pkg/.claude",
    ),
    (
        "mkdir -p p/q; ln -s /etc/passwd p/q/.mcp.json",
        "p/q/.mcp.json",
    ),
];

#[test]
fn new_protected_files_are_removed_at_any_depth() {
    for (command, path) in MAKES {
        for lacks in ["", "no-namespaces"] {
            let place = open_place(lacks);
            let (ended, text) = place.run(place.profile(Access::Workspace), command);
            assert_eq!(ended.how, How::Exited(0), "{command}: {text}");
            let left = place.path("ws").join(path).symlink_metadata();
            assert!(left.is_err(), "{lacks} {command}: {text} {ended:?}");
            let told = &after(&ended).changed;
            assert!(told.iter().any(|one| one.contains(path)), "{told:?}");
        }
    }
}

#[test]
fn a_repository_without_programs_may_be_made_and_used() {
    let place = open_place("");
    let makes = "git init -q -b main s && cd s && git config user.email a@b && git config user.name n && \
                 mkdir -p .github/workflows && touch .github/workflows/ci.yml && git add -A && \
                 git commit -qm x && cd .. && git clone -q s t && git -C s worktree add -q ../u && \
                 git clone -q --bare s v.git";
    let (ended, text) = place.run(place.profile(Access::Network), makes);
    assert_eq!(ended.how, How::Exited(0), "{text}");
    assert_eq!(after(&ended).changed, Vec::<String>::new());
    for name in [
        "s/.git/config",
        "t/.github/workflows/ci.yml",
        "u/.git",
        "v.git/HEAD",
    ] {
        assert!(place.path("ws").join(name).exists(), "{name}");
    }
    // The next command finds them there and does not change what is obeyed in them.
    let (ended, _) = place.run(
        place.profile(Access::Workspace),
        "echo x > s/.git/hooks/pre-commit; git -C t config alias.st '!x'",
    );
    assert!(
        !place.path("ws/s/.git/hooks/pre-commit").exists(),
        "{ended:?}"
    );
    let config = std::fs::read_to_string(place.path("ws/t/.git/config")).unwrap();
    assert!(!config.contains("alias"), "{config}");
}

#[test]
fn the_settings_of_a_submodule_are_held_whatever_its_name() {
    for lacks in ["", "no-namespaces"] {
        let place = open_place(lacks);
        let inner = place.path("ws/.git/modules/lib/deep");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(inner.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(inner.join("config"), "[core]\n").unwrap();
        let command = "echo '\tpager = x' >> .git/modules/lib/deep/config";
        place.run(place.profile(Access::Workspace), command);
        let config = std::fs::read_to_string(inner.join("config")).unwrap();
        assert_eq!(config, "[core]\n", "{lacks}");
    }
}

/// Each line is a command of its own. What the last one reaches for is there as it was.
#[test]
fn earlier_commands_do_not_open_a_way_to_protected_files() {
    const DEEP: &str = "mkdir -p z/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17";
    let held = "echo evil > src/.mcp.json; echo evil >> src/sub/.git/config; true";
    let steps: [(&str, &str, &str); 6] = [
        ("mkdir .bash{1..300}", held, ""),
        ("mkdir {1..9000}", held, ""),
        (DEEP, held, ""),
        (
            "chmod 311 src",
            "echo evil > src/.mcp.json; chmod 755 src; echo evil >> src/sub/.git/config; true",
            "",
        ),
        (
            "mkdir -p node_modules/ev/.vscode; echo x > node_modules/ev/.vscode/tasks.json",
            "mv node_modules/ev evil",
            "evil/.vscode/tasks.json",
        ),
        (
            "git init -q --bare pkg",
            "git -C pkg config core.pager x; echo x > pkg/hooks/post-receive",
            "pkg/hooks/post-receive",
        ),
    ];
    for (first, second, made) in steps {
        let place = open_place("");
        let sub = place.path("ws/src/sub");
        let made_sub = std::process::Command::new("git")
            .args(["init", "-q", "--template="])
            .arg(&sub)
            .status();
        assert!(made_sub.unwrap().success());
        std::fs::write(place.path("ws/src/.mcp.json"), "mine").unwrap();
        std::thread::sleep(Duration::from_millis(50));
        for command in [first, second] {
            let (ended, text) = place.run(place.profile(Access::Workspace), command);
            assert!(matches!(ended.how, How::Exited(_)), "{command}: {text}");
        }
        let read = |name: &str| std::fs::read_to_string(place.path("ws/src").join(name)).unwrap();
        assert_eq!(read(".mcp.json"), "mine", "{first}");
        assert!(!read("sub/.git/config").contains("evil"), "{first}");
        assert!(
            made.is_empty() || !place.path("ws").join(made).exists(),
            "{made}"
        );
        let pager = std::fs::read_to_string(place.path("ws/pkg/config")).unwrap_or_default();
        assert!(!pager.contains("pager"), "{pager}");
    }
}

#[test]
fn more_than_can_be_held_is_refused() {
    let place = open_place("");
    let (ended, _) = place.run(place.profile(Access::Workspace), "mkdir .bash{1..4100}");
    assert_eq!(ended.how, How::Exited(0));
    let refused = place.try_profile(Access::Workspace).unwrap_err();
    assert!(refused.why.contains("than can be held"), "{refused}");
    assert!(place.try_profile(Access::Read).is_ok());
}

/// What was there before is not touched, whatever it looks like.
#[test]
fn existing_user_files_are_not_moved() {
    let place = open_place("");
    let ws = place.path("ws");
    let makes = "git config user.email a@b; git config user.name n; git commit -q --allow-empty -m x
        git worktree add -q wt; git -C wt config extensions.worktreeConfig true
        git -C wt config --worktree core.hooksPath h
        git init -q sub; rm sub/.git/config; mkdir -p sub/.git/hooks; echo x > sub/.git/hooks/pre-commit
        d=$(printf 'd/%.0s' $(seq 16)); mkdir -p $d.github/workflows $d.cargo; touch $d.github/workflows/ci.yml
        touch $d.cargo/config.toml; mkdir -p other/workflows s; ln -s ../other s/.github";
    let made = std::process::Command::new("bash")
        .args(["-ec", makes])
        .current_dir(&ws)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    std::thread::sleep(Duration::from_millis(50));
    let (ended, _) = place.run(place.profile(Access::Workspace), "true");
    assert_eq!(after(&ended).changed, Vec::<String>::new());
    assert!(!place.path("quarantine").exists());
}

/// A `.git` file may name any folder; only the repository itself says whose it is.
#[test]
fn a_git_file_does_not_open_the_repository_of_somebody_else() {
    for lacks in ["", "no-namespaces"] {
        let place = open_place(lacks);
        let ws = place.path("ws");
        std::fs::remove_dir_all(ws.join(".git")).unwrap();
        let other = place.path("other");
        let made = std::process::Command::new("git")
            .args(["init", "-q"])
            .arg(&other)
            .status();
        assert!(made.unwrap().success());
        std::fs::write(other.join(".git/objects/secret"), "PASSWORD").unwrap();
        std::fs::write(ws.join(".git"), format!("gitdir: {}/.git", other.display())).unwrap();
        let command = "cat ../other/.git/objects/secret; rm -rf ../other/.git/refs";
        for access in [Access::Read, Access::Workspace] {
            let (_, text) = place.run(place.profile(access), command);
            assert!(!text.contains("PASSWORD"), "{lacks} {access}: {text}");
        }
        assert!(other.join(".git/refs/heads").exists(), "{lacks}");
    }
}

#[test]
fn a_repository_at_the_root_stays_only_without_programs() {
    let armed = [
        "git init -q --bare x.git; git -C x.git config core.worktree ..; echo 'gitdir: x.git' > .git",
        "git init -q x; git -C x config core.pager x; ln -s x/.git .git",
        "git init -q; git config core.fsmonitor ./x",
    ];
    for lacks in ["", "no-namespaces"] {
        for command in armed {
            let place = open_place(lacks);
            std::fs::remove_dir_all(place.path("ws/.git")).unwrap();
            let (ended, text) = place.run(place.profile(Access::Workspace), command);
            let left = place.path("ws/.git").symlink_metadata();
            assert!(left.is_err(), "{lacks} {command}: {text} {ended:?}");
        }
        let place = open_place(lacks);
        std::fs::remove_dir_all(place.path("ws/.git")).unwrap();
        let (ended, text) = place.run(place.profile(Access::Workspace), "git init -q .");
        assert!(
            place.path("ws/.git/config").exists(),
            "{lacks}: {text} {ended:?}"
        );
    }
}

/// A person works in the folder meanwhile.
#[test]
fn new_files_during_a_background_run_are_reported_and_kept() {
    for lacks in ["", "no-namespaces"] {
        let place = open_place(lacks);
        let makes = "echo x > .mcp.json; mkdir -p p; git init -q p; git -C p config alias.a b";
        let (ended, _) = place.run_so(place.profile(Access::Workspace), makes, true);
        assert_eq!(after(&ended).changed, Vec::<String>::new());
        let told = &after(&ended).found_changed;
        for name in [".mcp.json", "p/.git"] {
            assert!(told.iter().any(|one| one.ends_with(name)), "{told:?}");
            assert!(place.path("ws").join(name).exists(), "{name}");
        }
    }
}

/// There is always a free name for what is put aside.
#[test]
fn a_repeatedly_created_file_is_quarantined_each_time() {
    let place = place("");
    for _ in 0..3 {
        place.run(place.profile(Access::Workspace), "echo x > .mcp.json");
        assert!(!place.path("ws/.mcp.json").exists());
    }
    let kept = std::fs::read_dir(place.path("quarantine")).unwrap().count();
    assert_eq!(kept, 3);
}

#[test]
fn a_command_that_fills_its_temporary_folder_is_ended() {
    let place = place("");
    let mut profile = place.profile(Access::Read);
    profile.limits.tmp_bytes = 2 << 20;
    let (ended, _) = place.run(profile, "head -c 8000000 /dev/zero > $TMPDIR/big; sleep 50");
    assert_eq!(ended.how, How::Stopped);
    assert_eq!(
        after(&ended).limit.as_deref(),
        Some("more than 2 MiB in $TMPDIR")
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
fn a_missing_temporary_folder_is_reported_before_any_run() {
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
        child: None,
        hook: None,
        lease: None,
    };
    let runtime = runtime();
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
    let _alone = crate::sandbox::alone();
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
    for (access, lacks, has_own) in [
        (Access::Read, "", true),
        (Access::Workspace, "", true),
        (Access::Read, "no-namespaces", false),
    ] {
        let place = place(lacks);
        let name = format!("/dev/shm/rewake-test-{}", std::process::id());
        std::fs::write(&name, "GOT-IT").unwrap();
        let command = format!("cat {name}; echo mine > {name}-2 && cat {name}-2");
        let (_, text) = place.run(place.profile(access), &command);
        std::fs::remove_file(&name).unwrap();
        assert!(!text.contains("GOT-IT"), "{access} {lacks}: {text}");
        assert_eq!(text.contains("mine\n"), has_own, "{access} {lacks}: {text}");
    }
}

/// Writes to protected names below the current folder, existing and new, also of a new repository.
const PLANTS: &str = "for f in .git/config .git/hooks/post-checkout sub/.git/config sub/.git/hooks/a .npmrc \
                      .github/workflows/ci.yml a/.envrc AGENTS.md; do mkdir -p $(dirname $f); echo evil >> $f; done; \
                      git init -q new; git -C new config core.fsmonitor evil; echo x > plain";

fn has_evil(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let below = entries.flat_map(|entry| match entry.path() {
        path if path.is_dir() => has_evil(&path),
        path => vec![path],
    });
    let is_evil = |path: &PathBuf| std::fs::read(path).is_ok_and(|text| text.ends_with(b"evil\n"));
    below.filter(is_evil).collect()
}

#[test]
fn protected_files_of_another_writable_folder_are_held_as_in_the_workspace() {
    for lacks in ["", "no-namespaces"] {
        let place = open_place(lacks);
        let further = place.path("further");
        std::fs::create_dir(&further).unwrap();
        let made = std::process::Command::new("sh")
            .args([
                "-c",
                "git init -q . && git init -q sub && echo mine > .npmrc",
            ])
            .current_dir(&further)
            .status();
        assert!(made.unwrap().success());
        let command = format!("cd ../further; {PLANTS}");
        let (_, text) = place.run(place.profile(Access::Workspace), &command);
        assert!(further.join("plain").exists(), "{lacks}: {text}");
        assert_eq!(has_evil(&further), [""; 0].map(PathBuf::from), "{lacks}");
        let rights = std::fs::read_to_string(further.join(".npmrc")).unwrap();
        assert_eq!(rights, "mine\n");
    }
}

/// The path of the workspace may have a protected name, seen from there.
#[test]
fn another_writable_folder_may_hold_the_workspace() {
    for lacks in ["", "no-namespaces"] {
        let place = open_place(lacks);
        let inner = place.path("further/.claude/worktrees/ws");
        std::fs::create_dir_all(inner.parent().unwrap()).unwrap();
        std::fs::rename(place.path("ws"), &inner).unwrap();
        std::os::unix::fs::symlink(&inner, place.path("ws")).unwrap();
        let command = format!("echo 1 > made; cd ../../..; {PLANTS}");
        let (ended, text) = place.run(place.profile(Access::Workspace), &command);
        assert!(inner.join("made").exists(), "{lacks}: {text} {ended:?}");
        let left = has_evil(&place.path("further"));
        assert_eq!(left, [""; 0].map(PathBuf::from), "{lacks}: {text}");
    }
}

/// Their other content is the packages' own, and tools exchange it.
#[test]
fn repositories_in_folders_that_tools_fill_are_held() {
    for lacks in ["", "no-namespaces"] {
        for name in [
            "node_modules",
            "target",
            ".venv",
            "venv",
            "__pycache__",
            ".tox",
        ] {
            let place = open_place(lacks);
            let filled = place.path("ws").join(name);
            std::fs::create_dir_all(filled.join("@a/old")).unwrap();
            for repository in ["pkg", "@a/b"] {
                let made = std::process::Command::new("git")
                    .args(["init", "-q"])
                    .arg(filled.join(repository))
                    .status();
                assert!(made.unwrap().success());
            }
            let command = format!(
                "cd {name}; for d in . pkg @a/b; do git init -q $d; git config -f $d/.git/config core.fsmonitor evil; \
                 echo evil >> $d/.git/config; echo evil >> $d/.git/hooks/a; done; echo evil > .envrc; \
                 rm -r @a/old; mkdir new; echo own > new/.npmrc"
            );
            let (_, text) = place.run(place.profile(Access::Workspace), &command);
            let left = has_evil(&filled);
            assert_eq!(left, [""; 0].map(PathBuf::from), "{lacks} {name}: {text}");
            assert!(filled.join("new/.npmrc").exists() && !filled.join("@a/old").exists());
        }
    }
}

/// git prints that to stderr and ends with 0. A commit of everything would revert the files.
#[test]
fn a_checkout_names_the_protected_files_that_git_could_not_write() {
    let place = open_place("");
    let made = std::process::Command::new("sh")
        .args([
            "-c",
            "git config user.name a && git config user.email b && mkdir -p .github/workflows && echo 1 > AGENTS.md \
             && echo 1 > .github/workflows/ci.yml && git add -A && git commit -qm 1 && git checkout -qb other \
             && echo 2 > AGENTS.md && echo 2 > .github/workflows/ci.yml && echo 2 > plain && git commit -qam 2 \
             && git checkout -q -",
        ])
        .current_dir(place.path("ws"))
        .status();
    assert!(made.unwrap().success());
    let run = |command: &str| place.run(place.profile(Access::Workspace), command).0;
    let quiet = run("git status; git commit -q --allow-empty -m x; git checkout -q -b new");
    assert_eq!(after(&quiet).unwritten, [""; 0]);
    let ended = run("git checkout -q other 2>/dev/null");
    assert_eq!(ended.how, How::Exited(0));
    let files = [".github/workflows/ci.yml", "AGENTS.md"].map(|name| place.path("ws").join(name));
    let named = files.map(|path| path.display().to_string());
    assert_eq!(after(&ended).unwritten, named);
}

#[test]
fn a_workspace_that_is_one_of_rewakes_own_folders_is_refused() {
    let place = open_place("");
    std::fs::remove_dir_all(place.path("ws")).unwrap();
    std::fs::create_dir(place.path("runs")).unwrap();
    std::os::unix::fs::symlink(place.path("runs"), place.path("ws")).unwrap();
    for access in [Access::Read, Access::Workspace] {
        let refused = place.try_profile(access).unwrap_err();
        assert!(refused.why.contains("rewake's own"), "{refused}");
    }
}

#[test]
fn protected_files_are_found_at_any_depth() {
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

/// The workspace is a linked worktree of a repository beside it.
#[test]
fn a_worktree_commits_and_changes_nothing_else_of_its_repository() {
    for lacks in ["", "no-namespaces"] {
        let place = open_place(lacks);
        std::fs::remove_dir_all(place.path("ws")).unwrap();
        let made = std::process::Command::new("sh")
            .args([
                "-c",
                "git init -q main && cd main && git config user.name a && git config user.email b \
                 && mkdir -p .git/modules/lib && cp .git/HEAD .git/modules/lib/ \
                 && echo '[core]' > .git/modules/lib/config && git commit -q --allow-empty -m x \
                 && git worktree add -q ../other && git worktree add -q -b rewake/fix ../ws",
            ])
            .current_dir(place.path(""))
            .status();
        assert!(made.unwrap().success());
        let commits = "echo 1 > a && git add a && git commit -qm one && git commit -q --allow-empty -m two \
                       && git tag t && git log --oneline";
        let (ended, text) = place.run(place.profile(Access::Workspace), commits);
        assert_eq!(ended.how, How::Exited(0), "{lacks}: {text}");
        assert_eq!(text.lines().count(), 3, "{text}");
        let before = common_files(&place.path("main/.git"));
        let reaches = "cd ../main/.git; for f in config info/attributes hooks/pre-commit modules/lib/config \
                       modules/lib/hooks/pre-commit worktrees/other/gitdir worktrees/other/commondir \
                       worktrees/other/config.worktree worktrees/ws/gitdir worktrees/ws/commondir \
                       worktrees/ws/config.worktree objects/info/alternates HEAD index info/exclude \
                       info/sparse-checkout worktrees/other/HEAD worktrees/other/index worktrees/other/locked; do \
                       mkdir -p $(dirname $f); echo x >> $f; done; \
                       git -C ../../ws config core.hooksPath h; git -C ../../ws config --worktree a.b c; \
                       echo x > ../../ws/.git; true";
        place.run(place.profile(Access::Workspace), reaches);
        let after = common_files(&place.path("main/.git"));
        let names = before.keys().chain(after.keys());
        let other = names.filter(|name| before.get(*name) != after.get(*name));
        let other: Vec<&PathBuf> = other.collect();
        assert!(other.is_empty(), "{lacks}: {other:?}");
        let (ended, text) = place.run(place.profile(Access::Workspace), "git status --short");
        assert_eq!((ended.how, text.as_str()), (How::Exited(0), ""), "{lacks}");
    }
}

/// All files of a git folder with their content, but for objects, refs and logs.
fn common_files(git: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    let mut folders = vec![git.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            let below = path.strip_prefix(git).unwrap();
            let is_shared = ["refs", "logs"].iter().any(|name| below.starts_with(name));
            if path.is_dir() && !is_shared {
                folders.push(path);
            } else if !is_shared && !below.starts_with("objects") || below.ends_with("alternates") {
                found.insert(below.to_path_buf(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// `chmod` is governed by no rule for files.
#[test]
fn the_permissions_of_rewakes_own_folders_and_of_keys_are_put_back() {
    use std::os::unix::fs::PermissionsExt;
    for lacks in ["", "no-namespaces"] {
        for (access, background) in [(Access::Workspace, false), (Access::Network, true)] {
            let place = place(lacks);
            let (runs, key) = (place.path("runs"), place.path("home/key"));
            std::fs::create_dir(&runs).unwrap();
            std::fs::write(runs.join("rewake.db"), "").unwrap();
            std::fs::write(&key, "sk-1").unwrap();
            let set = |path: &Path, mode: u32| {
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
            };
            let all = [
                (runs.as_path(), 0o700),
                (&runs.join("rewake.db"), 0o600),
                (&key, 0o600),
            ];
            for (path, mode) in all {
                set(path, mode);
            }
            let mut profile = place.profile(access);
            profile.modes.push(key.clone());
            let command =
                "chmod 777 ../runs/rewake.db ../home/key ../runs && chmod 000 ../home/key";
            let (ended, text) = place.run_so(profile, command, background);
            assert_eq!(ended.how, How::Exited(0), "{lacks} {access}: {text}");
            for (path, mode) in all {
                let now = std::fs::metadata(path).unwrap().mode() & 0o7777;
                assert_eq!(now, mode, "{lacks} {access} {}: {ended:?}", path.display());
                let told = &after(&ended).changed;
                let name = path.display().to_string();
                assert!(told.iter().any(|one| one.starts_with(&name)), "{told:?}");
            }
        }
    }
}

/// The link of the user stays; what is there is obeyed, so it is protected too.
#[test]
fn the_target_of_a_user_symlink_is_protected_as_well() {
    for lacks in ["", "no-namespaces"] {
        let place = place(lacks);
        let real = place.path("ws/dot/workflows");
        std::fs::create_dir_all(&real).unwrap();
        std::fs::write(real.join("ci.yml"), "mine").unwrap();
        std::os::unix::fs::symlink("dot", place.path("ws/.github")).unwrap();
        let command =
            "echo evil > dot/workflows/ci.yml; echo evil > .github/workflows/ci.yml; true";
        place.run(place.profile(Access::Workspace), command);
        let text = std::fs::read_to_string(real.join("ci.yml")).unwrap();
        assert_eq!(text, "mine", "{lacks}");
        assert!(place.path("ws/.github").is_symlink(), "{lacks}");
    }
}

#[test]
fn a_link_in_the_place_of_the_temporary_folder_is_refused() {
    let place = place("");
    std::fs::remove_dir(place.path("tmp")).unwrap();
    std::os::unix::fs::symlink(place.path("home"), place.path("tmp")).unwrap();
    let refused = place.try_profile(Access::Read).unwrap_err();
    assert!(refused.why.contains("is a symbolic link"), "{refused}");
}

/// A command has a separate folder for shared memory, in which only its own places are.
#[cfg(target_os = "linux")]
#[test]
fn a_workspace_in_the_shared_memory_is_worked_in() {
    let memory = Path::new("/dev/shm");
    let other = tempfile::tempdir_in(memory).unwrap();
    let place = place_in(memory, "");
    let line = format!(
        "echo x > made; cat plain; ls -d {}; echo x > /dev/shm/own",
        other.path().display()
    );
    let (ended, text) = place.run(place.profile(Access::Workspace), &line);
    assert_eq!(ended.how, How::Exited(0), "{text}");
    assert!(text.contains("plain\n"), "{text}");
    assert!(place.path("ws/made").exists());
    if place.profile(Access::Workspace).is_held() {
        assert!(text.contains("No such file"), "{text}");
        assert!(!memory.join("own").exists());
    }
}
