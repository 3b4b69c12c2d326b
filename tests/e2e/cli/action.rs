//! The scripts of the GitHub Action, with GitHub's variables, an empty home folder, and a folder in
//! the part of the artifacts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::cli::mirror::{Mirror, VERSION, has, sha256, write_program};
use crate::cli::served::until;
use crate::cli::{LIMIT, SCRIPTED, bash, step};
use support::{Run, git, run, skip_everywhere};

/// A machine that GitHub gives for one attempt.
struct Runner {
    root: TempDir,
    attempt: u32,
}

impl Runner {
    fn new(attempt: u32) -> Runner {
        let runner = Runner {
            root: tempfile::tempdir().unwrap(),
            attempt,
        };
        for folder in [
            "home",
            "temp/rewake-job/bin",
            "temp/rewake-job/artifacts",
            "tools",
        ] {
            fs::create_dir_all(runner.path(folder)).unwrap();
        }
        symlink(
            env!("CARGO_BIN_EXE_rewake"),
            runner.path("temp/rewake-job/bin/rewake"),
        )
        .unwrap();
        runner.may("write");
        runner
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Sets the answer of the API about the permission of each actor.
    fn may(&self, permission: &str) {
        let says = format!(
            "#!/bin/sh\ncase \"$*\" in
                *Nobody*) exit 1 ;;
                'api repos/ann/work/collaborators/'*'/permission --jq .permission') echo {permission} ;;
                *) exit 1 ;;
            esac\n"
        );
        write_program(&self.path("tools/gh"), says);
    }

    fn step(&self, step: &str, folder: &Path) -> Command {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new("bash");
        let path = std::env::var("PATH").unwrap();
        command
            .arg(root.join(".github/action/action.sh"))
            .arg(step)
            .env_clear()
            .env("PATH", format!("{}:{path}", self.path("tools").display()))
            .env("HOME", self.path("home"))
            .env("RUNNER_TEMP", self.path("temp"))
            .env("GITHUB_OUTPUT", self.path("output"))
            .env("GITHUB_RUN_ATTEMPT", self.attempt.to_string())
            .env("GITHUB_EVENT_NAME", "push")
            .env("GITHUB_ACTOR", "ann")
            .env("GITHUB_REPOSITORY", "ann/work")
            .env("KEY", "job")
            .current_dir(folder)
            .stdin(Stdio::null());
        command
    }

    fn output(&self, name: &str) -> String {
        let text = fs::read_to_string(self.path("output")).unwrap_or_default();
        let mut values = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        values.next_back().unwrap_or_default().to_string()
    }

    fn bundle(&self) -> PathBuf {
        self.path("temp/rewake-job/session.rewake")
    }

    /// Gives the artifact of another attempt to this one.
    fn takes(&self, other: &Runner) -> PathBuf {
        self.takes_as(other, &other.output("artifact"))
    }

    fn takes_as(&self, other: &Runner, name: &str) -> PathBuf {
        let folder = self.path("temp/rewake-job/artifacts").join(name);
        fs::create_dir(&folder).unwrap();
        fs::copy(other.bundle(), folder.join("session.rewake")).unwrap();
        folder.join("session.rewake")
    }

    fn sessions(&self) -> usize {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rewake"));
        command.args(["history", "--json"]).env_clear();
        command
            .env("HOME", self.path("home"))
            .env("REWAKE_HOME", self.path("temp/rewake-job/home"));
        let list = run(command, LIMIT).expect(0).stdout;
        let list: serde_json::Value = serde_json::from_str(&list).unwrap();
        list["sessions"].as_array().unwrap().len()
    }
}

/// A repository, and a way to get a fresh clone of it.
struct Repository(TempDir);

impl Repository {
    fn new() -> Repository {
        let folder = tempfile::tempdir().unwrap();
        let origin = folder.path().join("origin");
        fs::create_dir(&origin).unwrap();
        git(&origin, &["init", "-q"]);
        fs::write(origin.join("kept"), "kept\n").unwrap();
        git(&origin, &["add", "."]);
        git(&origin, &["commit", "-qm", "first"]);
        Repository(folder)
    }

    fn clone(&self, name: &str) -> PathBuf {
        git(self.0.path(), &["clone", "-q", "origin", name]);
        self.0.path().join(name)
    }
}

/// Two commands: the first ends, and the second waits at a gate that never opens in the first
/// attempt.
fn config(at: &Path) -> String {
    let steps = [
        step(
            "",
            &[bash(
                "echo one >> ../done; echo new > new; echo $GITHUB_OUTPUT$GITHUB_ENV nothing > ../seen",
            )],
        ),
        step(
            "",
            &[bash(
                "echo two >> ../done; touch ../waits; until [ -e ../gate ]; do sleep 0.05; done",
            )],
        ),
        step("the end", &[]),
    ];
    fs::write(at, steps.concat()).unwrap();
    SCRIPTED.replace("script.toml", at.to_str().unwrap())
}

fn can_act() -> bool {
    let can = has("bash") && has("git") && has("tar");
    if !can {
        skip_everywhere("bash, git and tar");
    }
    can
}

#[test]
fn a_killed_attempt_is_continued_in_a_fresh_clone() {
    if !can_act() {
        return;
    }
    let repository = Repository::new();
    let config = config(&repository.0.path().join("script.toml"));
    let started = |runner: &Runner, folder: &Path| {
        let mut command = runner.step("run", folder);
        command
            .env("PROMPT", "--do $(it)")
            .env("CONFIG", &config)
            .env(
                "ARGS",
                "--permission-mode=bypassPermissions\n--set=sandbox.enabled=false\n",
            );
        command
    };
    let first = Runner::new(1);
    let mut child = started(&first, &repository.clone("one")).spawn().unwrap();
    until(|| repository.0.path().join("waits").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let id = first.output("session");
    let one = repository.0.path().join("one");
    let said = run(first.step("save", &one), LIMIT).expect(0).stdout;
    assert_eq!(first.output("artifact"), format!("rewake-job-1-{id}"));
    // Commands for the runner count again.
    let token = fs::read_to_string(first.path("temp/rewake-job/token")).unwrap();
    assert!(said.contains(&format!("::{token}::")), "{said}");
    let again = run(started(&first, &one), LIMIT).expect(1);
    assert!(again.stderr.contains("is used twice"), "{}", again.stderr);

    let second = Runner::new(2);
    second.takes(&first);
    // Not of this key, not of an attempt before, and no artifact of the action.
    for other in [
        "rewake-other-1",
        "rewake-job-x-1",
        "rewake-job-2",
        "rewake-job-999999999",
    ] {
        let name = format!("{other}-{id}");
        fs::create_dir(second.path("temp/rewake-job/artifacts").join(name)).unwrap();
    }
    fs::create_dir(second.path("temp/rewake-job/artifacts/notes")).unwrap();
    let folder = repository.clone("two");
    let ran = run(started(&second, &folder), LIMIT).expect(0);
    assert!(ran.stdout.contains("the end"), "{}", ran.stdout);
    let done = fs::read_to_string(repository.0.path().join("done")).unwrap();
    assert_eq!(done, "one\ntwo\n");
    assert_eq!(
        fs::read_to_string(repository.0.path().join("seen")).unwrap(),
        "nothing\n"
    );
    assert!(
        ran.stdout.starts_with("::stop-commands::"),
        "{}",
        ran.stdout
    );
    assert_eq!(fs::read_to_string(folder.join("new")).unwrap(), "new\n");
    assert_eq!(fs::read_to_string(folder.join("kept")).unwrap(), "kept\n");
    assert_ne!(second.output("session"), id);
    // The copy and its fork; the one for the files is gone.
    assert_eq!(second.sessions(), 2);
    run(second.step("save", &folder), LIMIT).expect(0);

    // A third attempt takes the newest one.
    let third = Runner::new(3);
    third.takes(&first);
    third.takes(&second);
    let ran = run(started(&third, &repository.clone("three")), LIMIT).expect(0);
    // That of the first would go to its end here.
    assert!(!ran.stdout.contains("the end"), "{}", ran.stdout);
    assert_eq!(
        fs::read_to_string(repository.0.path().join("done")).unwrap(),
        done
    );
    fs::write(repository.0.path().join("gate"), "").unwrap();

    // Two of one attempt: nobody knows which one is meant.
    let fourth = Runner::new(4);
    fourth.takes(&second);
    let other = second
        .output("artifact")
        .replace(&second.output("session"), &id);
    fourth.takes_as(&first, &other);
    let ran = run(started(&fourth, &repository.clone("four")), LIMIT).expect(1);
    assert!(
        ran.stderr.contains("two sessions of attempt 2"),
        "{}",
        ran.stderr
    );
    assert_eq!(fourth.output("session"), "");
}

#[test]
fn a_truncated_or_changed_artifact_starts_no_session() {
    if !can_act() {
        return;
    }
    let repository = Repository::new();
    let script = repository.0.path().join("script.toml");
    fs::write(&script, step("the end", &[])).unwrap();
    let config = SCRIPTED.replace("script.toml", script.to_str().unwrap());
    let run_of = |runner: &Runner, folder: &Path| -> Run {
        let mut command = runner.step("run", folder);
        command.env("PROMPT", "do it").env("CONFIG", &config);
        run(command, LIMIT)
    };
    let first = Runner::new(1);
    let folder = repository.clone("one");
    run_of(&first, &folder).expect(0);
    run(first.step("save", &folder), LIMIT).expect(0);
    let whole = fs::read(first.bundle()).unwrap();
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    for (number, bytes) in [&whole[..whole.len() / 2], &changed, &[]]
        .into_iter()
        .enumerate()
    {
        let runner = Runner::new(2);
        let artifact = runner.takes(&first);
        fs::write(&artifact, bytes).unwrap();
        let ran = run_of(&runner, &repository.clone(&format!("cut{number}"))).expect(1);
        assert!(ran.stderr.contains("cannot be read"), "{}", ran.stderr);
        assert_eq!(runner.sessions(), 0);
        assert_eq!(runner.output("session"), "");
        fs::remove_file(artifact).unwrap();
        run_of(&runner, &repository.clone(&format!("gone{number}"))).expect(1);
        assert_eq!(runner.sessions(), 0);
    }
    // A run that never started saves nothing.
    let none = Runner::new(1);
    run(none.step("save", &folder), LIMIT).expect(0);
    assert!(!none.bundle().exists());
    for key in ["", "a b", "../x", "$(x)"] {
        let mut command = none.step("run", &folder);
        command.env("KEY", key).env("PROMPT", "do it");
        let ran = run(command, LIMIT).expect(1);
        assert!(ran.stderr.contains("the key"), "{}", ran.stderr);
    }
}

#[test]
fn only_actors_with_write_access_start_a_run() {
    if !can_act() {
        return;
    }
    let runner = Runner::new(1);
    let check = |env: &[(&str, &str)], code: i32| {
        let mut command = runner.step("check", runner.root.path());
        command.envs(env.iter().copied());
        run(command, LIMIT).expect(code).stderr
    };
    check(&[], 0);
    for event in [
        "pull_request_target",
        "issue_comment",
        "issues",
        "workflow_run",
        "discussion",
        "watch",
        "fork",
    ] {
        let said = check(&[("GITHUB_EVENT_NAME", event)], 1);
        assert!(said.contains("allow-event"), "{said}");
        check(&[("GITHUB_EVENT_NAME", event), ("ALLOW_EVENT", "true")], 0);
    }
    check(&[("GITHUB_ACTOR", "dependabot[bot]")], 0);
    for actor in ["Nobody", "../x", "a b", ""] {
        check(&[("GITHUB_ACTOR", actor)], 1);
        check(
            &[(
                "GITHUB_TRIGGERING_ACTOR",
                if actor.is_empty() { "x/y" } else { actor },
            )],
            1,
        );
    }
    for permission in ["read", "none", "triage", ""] {
        runner.may(permission);
        let said = check(&[], 1);
        assert!(said.contains("allow-actor"), "{said}");
        check(&[("ALLOW_ACTOR", "true")], 0);
    }
}

#[test]
fn the_program_is_installed_by_its_checksum() {
    let can_install = has("bash") && has("tar") && has("gzip") && (has("curl") || has("wget"));
    if !can_install {
        return skip_everywhere("bash, tar, gzip and curl or wget");
    }
    let mirror = Mirror::new(&format!("#!/bin/sh\necho rewake {VERSION}\n"));
    let sum = sha256(&fs::read(mirror.archive()).unwrap());
    let install = |sum: &str| {
        let runner = Runner::new(1);
        fs::remove_file(runner.path("temp/rewake-job/bin/rewake")).unwrap();
        let mut command = runner.step("install", runner.root.path());
        command
            .env("REWAKE_RELEASES", &mirror.address)
            .env("VERSION", VERSION)
            .env("SHA256", sum);
        let ran = run(command, LIMIT);
        (ran, runner.path("temp/rewake-job/bin/rewake").exists())
    };
    for sum in ["", &sum] {
        let (ran, is_there) = install(sum);
        ran.expect(0);
        assert!(is_there);
    }
    let (ran, is_there) = install(&"0".repeat(64));
    assert!(ran.expect(1).stderr.contains("REWAKE_SHA256"));
    assert!(!is_there);
}

/// An input in the text of a script would be a way in.
#[test]
fn no_input_is_in_the_text_of_a_script() {
    let action = Path::new(env!("CARGO_MANIFEST_DIR")).join("action.yml");
    let text = fs::read_to_string(action).unwrap();
    let scripts: Vec<&str> = text
        .lines()
        .filter(|line| line.trim().starts_with("run:"))
        .collect();
    assert_eq!(scripts.len(), 4);
    assert!(
        scripts.iter().all(|line| !line.contains("${{")),
        "{scripts:?}"
    );
    assert!(!text.contains("actions/cache"));
    for line in text.lines().filter(|line| line.contains("uses: ")) {
        let hash = line.split('@').nth(1).unwrap().split(' ').next().unwrap();
        assert!(
            hash.len() == 40 && hash.bytes().all(|b| b.is_ascii_hexdigit()),
            "{line}"
        );
    }
}
