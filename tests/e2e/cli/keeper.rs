//! Commands that outlive the agent, with the real binary as their keeper.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod lease;

use crate::scenes::{runtime, until};
use std::fs::File;
use std::future::Future;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rewake::command::{
    How, RunEnd, RunInfo, RunState, Running, Runs, SettledRun, Spare, Spec, Stopped, boot_id,
};
use rustix::process::{Pid, Signal, kill_process};
use support::default_shell;

const NEVER_MS: u64 = u64::MAX;

/// A place to run commands in, as one agent sees it.
struct Place {
    folder: tempfile::TempDir,
    runs: Runs,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let runs = runs_in(folder.path().into());
    Place { folder, runs }
}

fn runs_in(folder: PathBuf) -> Runs {
    Runs::new(folder.join("runs"), env!("CARGO_BIN_EXE_rewake"))
}

fn spec(folder: PathBuf, command: &str) -> Spec {
    Spec {
        command: command.into(),
        folder,
        timeout_ms: NEVER_MS,
        output_cap_bytes: 1_000_000,
        shell: default_shell(),
        env_remove: vec![],
        env_set: vec![],
        session: "session".into(),
        call: "0.0".into(),
        background: false,
        sandbox: None,
        child: None,
        hook: None,
        lease: None,
    }
}

impl Place {
    fn spec(&self, command: &str) -> Spec {
        spec(self.folder.path().into(), command)
    }

    fn prepare(&self, command: &str) -> String {
        self.runs.prepare(&self.spec(command)).unwrap()
    }

    /// Starts a command and waits until its keeper has begun it.
    fn begin(&self, command: &str) -> (String, Running) {
        let run = self.prepare(command);
        let running = self.runs.start(&run).unwrap();
        until(|| self.group(&run).is_some());
        (run, running)
    }

    async fn run(&self, spec: &Spec) -> RunEnd {
        let run = self.runs.prepare(spec).unwrap();
        let mut running = self.runs.start(&run).unwrap();
        self.runs.wait(&mut running).await.unwrap()
    }

    /// Runs a command that says the PID of its child into its time limit. On a busy machine it may
    /// not have come so far: then it has more time.
    async fn timed_out(&self, spec: &Spec, said: impl Fn(&RunEnd) -> String) -> u32 {
        let mut spec = spec.clone();
        for timeout_ms in [50, 300, 2_000, 10_000] {
            spec.timeout_ms = timeout_ms;
            let ended = self.run(&spec).await;
            assert_eq!(ended.how, How::TimedOut);
            if let Ok(child) = said(&ended).trim().parse() {
                return child;
            }
        }
        panic!("it said nothing: {spec:?}");
    }

    fn settle(&self, run: &str) -> SettledRun {
        self.runs.settle(run, &boot_id()).unwrap()
    }

    fn output(&self, ended: &RunEnd) -> String {
        let printed = self.runs.output(ended, 1_000_000).unwrap();
        assert_eq!(printed.left_out, 0);
        String::from_utf8(printed.head).unwrap()
    }

    fn info(&self, run: &str) -> RunInfo {
        let mut all = self.runs.list();
        all.retain(|info| info.run == run);
        all.pop().unwrap()
    }

    fn keeper(&self, run: &str) -> Option<u32> {
        match self.info(run).state {
            RunState::Running { keeper, .. } => keeper,
            RunState::NotBegun | RunState::Ended(_) => None,
        }
    }

    fn group(&self, run: &str) -> Option<u32> {
        match self.info(run).state {
            RunState::Running { group, .. } => group,
            RunState::NotBegun | RunState::Ended(_) => None,
        }
    }

    fn kill_keeper(&self, run: &str) {
        signal(self.keeper(run).unwrap(), Signal::KILL);
        until(|| matches!(self.info(run).state, RunState::Ended(_)));
    }

    /// How often commands said `echo >> count`.
    fn count(&self) -> usize {
        std::fs::read(self.folder.path().join("count")).map_or(0, |bytes| bytes.len())
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    runtime().block_on(future)
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

/// Not merely a zombie.
fn is_alive(pid: u32) -> bool {
    let ps = Command::new("ps")
        .args(["-o", "stat=", "-p", &pid.to_string()])
        .output()
        .unwrap();
    let state = String::from_utf8(ps.stdout).unwrap();
    !state.trim().is_empty() && !state.trim().starts_with('Z')
}

#[tokio::test]
async fn exit_code_and_output_are_the_real_ones() {
    let place = place();
    let ended = place
        .run(&place.spec("echo out; echo err >&2; pwd; exit 3"))
        .await;
    let here = place.folder.path().canonicalize().unwrap();
    assert_eq!(ended.how, How::Exited(3));
    assert_eq!(
        place.output(&ended),
        format!("out\nerr\n{}\n", here.display())
    );
    let ended = place.run(&place.spec("kill -9 $$")).await;
    assert_eq!(ended.how, How::Signalled(9));
}

#[tokio::test]
async fn any_bytes_may_be_printed() {
    let place = place();
    let ended = place.run(&place.spec(r"printf '\0\377a\0'")).await;
    let printed = place.runs.output(&ended, 100).unwrap();
    assert_eq!(printed.head, b"\0\xffa\0");
}

#[tokio::test]
async fn any_command_may_be_given_but_one_with_a_nul_byte() {
    let place = place();
    let long = format!(": '{}'\necho long", "x".repeat(300_000));
    let ended = place.run(&place.spec(&long)).await;
    assert_eq!(place.output(&ended), "long\n");
    let ended = place.run(&place.spec("-e 2>/dev/null")).await;
    assert_eq!(ended.how, How::Exited(127));

    let refused = place.runs.prepare(&place.spec("echo a\0b")).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("NUL"), "{refused}");
    assert_eq!(place.runs.list().len(), 2);
}

#[tokio::test]
async fn a_failed_start_states_its_reason() {
    let place = place();
    let mut spec = place.spec("true");
    spec.folder = "/no/such/folder".into();
    let How::NotRun(why) = place.run(&spec).await.how else {
        panic!("it ran");
    };
    assert!(why.contains("/no/such/folder"), "{why}");
    let mut spec = place.spec("true");
    spec.shell = "/no/such/shell".into();
    let How::NotRun(why) = place.run(&spec).await.how else {
        panic!("it ran");
    };
    assert!(why.contains("/no/such/shell"), "{why}");
}

#[tokio::test]
async fn a_command_sees_no_keys_no_terminal_and_no_input() {
    let place = place();
    let mut spec = place.spec(
        "cat; echo \"[$HOME]\" $PAGER $GIT_PAGER $GIT_TERMINAL_PROMPT $TERM $GIVEN; \
         tr '\\0' '\\n' </proc/$PPID/environ | grep -c ^HOME=",
    );
    spec.env_remove = vec!["HOME".into()];
    spec.env_set = vec![("GIVEN".into(), "given".into())];
    let ended = place.run(&spec).await;
    assert_eq!(place.output(&ended), "[] cat cat 0 dumb given\n0\n");
}

/// An editor of the user would wait for somebody who closes it.
#[tokio::test]
async fn an_editor_fails_at_once_and_git_keeps_a_text_if_it_is_told_to() {
    let place = place();
    let line = "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1; git init -q r && cd r
git config user.name a; git config user.email a@b.c
git config core.editor 'touch ../opened; sleep 1000'
git config sequence.editor 'touch ../opened; sleep 1000'
echo 1 > a; git add a; git commit -qm one; echo 2 > a
git commit -a; echo \"commit $?\"; git commit -qam two
git commit --amend; echo \"amend $?\"
git rebase -i HEAD~1; echo \"list $?\"
git -c core.editor=true commit -q --amend; echo \"kept $?\"
edit='f() { sed s/^pick/reword/ \"$1\" > ../list; cp ../list \"$1\"; }; f'
GIT_SEQUENCE_EDITOR=$edit git rebase -q -i HEAD~1; echo \"reword $?\"
git -c core.editor=true rebase --continue; echo \"continued $?\"
GIT_EDITOR=true git rebase -q -i HEAD~1; echo \"named $?\"
sh -c \"$VISUAL a\"; echo \"other $?\"; git log --format=%s; ls ../opened";
    let ended = place.run(&place.spec(line)).await;
    let printed = place.output(&ended);
    for told in [
        "commit 1",
        "amend 1",
        "list 1",
        "kept 0",
        "reword 1",
        "continued 0",
        "named 0",
        "other 1",
        "two\none",
    ] {
        assert!(
            printed.contains(&format!("\n{told}\n")),
            "{told}: {printed}"
        );
    }
    let said = "--no-edit or git -c core.editor=true\n";
    assert_eq!(printed.matches(said).count(), 5, "{printed}");
    assert!(!place.folder.path().join("opened").exists(), "{printed}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_starts_with_the_signals_of_a_login() {
    let place = place();
    let ended = place
        .run(&place.spec("grep -E 'Sig(Blk|Ign)' /proc/self/status"))
        .await;
    let masks = place.output(&ended);
    assert_eq!(masks.lines().count(), 2);
    for mask in masks.lines() {
        let (_, hex) = mask.split_once(":\t").unwrap();
        // Above 31 are the C library's own, which it lets nobody touch.
        let ours = u64::from_str_radix(hex, 16).unwrap() & 0x7fff_ffff;
        assert_eq!(ours, 0, "{mask}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_keeper_inherits_nothing_but_the_standard_descriptors() {
    let place = place();
    let path = place.folder.path().join("held");
    let held = std::fs::File::create(&path).unwrap();
    // Unlike what std opens, this one is open after exec.
    let _leaked = rustix::io::dup(&held).unwrap();
    let (run, mut running) = place.begin("until [ -e go ]; do sleep 0.01; done");
    let open: Vec<PathBuf> = std::fs::read_dir(format!("/proc/{}/fd", place.keeper(&run).unwrap()))
        .unwrap()
        .filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok())
        .collect();
    assert!(open.len() > 3, "{open:?}");
    assert!(!open.contains(&path), "{open:?}");
    std::fs::write(place.folder.path().join("go"), "").unwrap();
    place.runs.wait(&mut running).await.unwrap();
}

#[tokio::test]
async fn a_run_is_private() {
    let place = place();
    let run = place.prepare("true");
    let folder = place.folder.path().join("runs").join(&run);
    let mode = |path: PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(folder.clone()), 0o700);
    for file in std::fs::read_dir(&folder).unwrap() {
        assert_eq!(mode(file.unwrap().path()), 0o600);
    }
}

#[tokio::test]
async fn waiting_may_be_given_up_and_taken_up_again() {
    let place = place();
    let (run, mut running) = place.begin("until [ -e go ]; do sleep 0.01; done; exit 4");
    let short = Duration::from_millis(20);
    assert!(
        tokio::time::timeout(short, place.runs.wait(&mut running))
            .await
            .is_err()
    );
    drop(running);
    let SettledRun::Running(mut running) = place.settle(&run) else {
        panic!("it is not running");
    };
    assert!(
        tokio::time::timeout(short, place.runs.wait(&mut running))
            .await
            .is_err()
    );
    std::fs::write(place.folder.path().join("go"), "").unwrap();
    let ended = place.runs.wait(&mut running).await.unwrap();
    assert_eq!(ended.how, How::Exited(4));
    let SettledRun::Ended(again) = place.settle(&run) else {
        panic!("it has not ended");
    };
    assert_eq!(again, ended);
}

#[tokio::test]
async fn a_keeper_has_a_separate_session_and_ignores_terminal_signals() {
    let place = place();
    let (run, mut running) = place.begin("until [ -e go ]; do sleep 0.01; done");
    let keeper = place.keeper(&run).unwrap();
    let session = rustix::process::getsid(Pid::from_raw(keeper as i32)).unwrap();
    assert_eq!(session.as_raw_nonzero().get() as u32, keeper);
    assert_ne!(place.group(&run).unwrap(), keeper);
    signal(keeper, Signal::HUP);
    signal(keeper, Signal::INT);
    signal(keeper, Signal::PIPE);
    std::fs::write(place.folder.path().join("go"), "").unwrap();
    let ended = place.runs.wait(&mut running).await.unwrap();
    assert_eq!(ended.how, How::Exited(0));
}

/// Not a test of its own: the agent that [`dies`] kills.
#[tokio::test]
#[ignore = "started by other tests"]
async fn agent() {
    let Some(folder) = std::env::var_os("REWAKE_TEST_FOLDER").map(PathBuf::from) else {
        return;
    };
    let runs = runs_in(folder.clone());
    let command = std::env::var("REWAKE_TEST_COMMAND").unwrap();
    let run = runs.prepare(&spec(folder.clone(), &command)).unwrap();
    let _running = runs.start(&run).unwrap();
    std::fs::write(folder.join("run"), run).unwrap();
    signal(std::process::id(), Signal::KILL);
}

/// An agent starts the command and is killed in the same instant: the name of its run.
fn dies(place: &Place, command: &str) -> String {
    dies_under(place, "true", command)
}

/// As [`dies`], with something said to the shell that starts the agent.
fn dies_under(place: &Place, before: &str, command: &str) -> String {
    let status = Command::new("sh")
        .args(["-c", &format!("{before}; exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "cli::keeper::agent", "--ignored"])
        .env("REWAKE_TEST_FOLDER", place.folder.path())
        .env("REWAKE_TEST_COMMAND", command)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), None, "the agent was not killed");
    let run = place.read("run");
    until(|| place.info(&run).state != RunState::NotBegun);
    run
}

#[tokio::test]
async fn a_command_outlives_its_agent_and_its_result_is_found() {
    let place = place();
    let run = dies(
        &place,
        "echo >> count; until [ -e go ]; do sleep 0.01; done; echo real; exit 7",
    );
    let SettledRun::Running(mut running) = place.settle(&run) else {
        panic!("it is not running");
    };
    std::fs::write(place.folder.path().join("go"), "").unwrap();
    let ended = place.runs.wait(&mut running).await.unwrap();
    assert_eq!(ended.how, How::Exited(7));
    assert_eq!(place.output(&ended), "real\n");
    assert_eq!(place.count(), 1);
}

#[test]
fn a_command_that_ended_while_nobody_was_there_has_its_result() {
    let place = place();
    let run = dies(&place, "echo >> count; echo real; exit 7");
    until(|| matches!(place.info(&run).state, RunState::Ended(_)));
    let SettledRun::Ended(ended) = place.settle(&run) else {
        panic!("it has not ended");
    };
    assert_eq!(ended.how, How::Exited(7));
    assert_eq!(place.output(&ended), "real\n");
    assert_eq!(place.count(), 1);
}

#[test]
fn output_that_cannot_be_written_does_not_hold_up_the_command() {
    let place = place();
    // Stands for a full disk: no file may be larger than 200 blocks of 512 or 1024 bytes.
    let run = dies_under(
        &place,
        "ulimit -f 200",
        "head -c 500000 /dev/zero; printf 'the end'",
    );
    until(|| matches!(place.info(&run).state, RunState::Ended(_)));
    let SettledRun::Ended(ended) = place.settle(&run) else {
        panic!("it has not ended");
    };
    assert_eq!(ended.how, How::Exited(0));
    assert_eq!(ended.bytes_total, 500_007);
    assert!(ended.bytes_kept < 300_000);
    assert!(ended.write_error.is_some());
    assert!(
        place
            .runs
            .output(&ended, 100)
            .unwrap()
            .tail
            .ends_with(b"the end")
    );
}

/// Also before it has said who it is.
#[cfg(target_os = "linux")]
fn keeper_of(run: &str) -> Option<u32> {
    let ends = format!("{run}\0");
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .find(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.starts_with(b"rewake\0__keep\0") && line.ends_with(ends.as_bytes())
        })
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_keeper_killed_at_any_instant_never_hides_a_side_effect() {
    let mut never = Vec::new();
    let mut kills = 0;
    for round in 0..40 {
        let place = place();
        let run = place.prepare("echo >> count");
        let mut running = place.runs.start(&run).unwrap();
        std::thread::sleep(Duration::from_micros(round * 75));
        if let Some(keeper) = keeper_of(&run) {
            // It may be gone by now.
            let killed = kill_process(Pid::from_raw(keeper as i32).unwrap(), Signal::KILL);
            kills += usize::from(killed.is_ok());
        }
        match place.runs.wait(&mut running).await.unwrap().how {
            How::NotRun(_) => never.push(place),
            How::Exited(code) => assert_eq!((code, place.count()), (0, 1)),
            How::Lost { .. } => assert!(place.count() <= 1),
            how => panic!("{how:?}"),
        }
    }
    assert!(kills > 0);
    // The last was killed a moment ago: what it could have started would have to be seen.
    std::thread::sleep(Duration::from_millis(20));
    assert!(never.iter().all(|place| place.count() == 0));
}

/// A spare keeper, and its process.
fn spare(place: &Place) -> (Spare, u32) {
    let spare = place.runs.spare(&["HOME".into()]).unwrap();
    let pid = spare.pid().unwrap();
    (spare, pid)
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_spare_keeper_gives_a_command_the_environment_of_its_run() {
    let place = place();
    let (spare, pid) = spare(&place);
    let environment = || std::fs::read(format!("/proc/{pid}/environ"));
    // Only root may read it. It is empty while the program is being loaded.
    if environment().is_ok() {
        until(|| !environment().unwrap().is_empty());
        let environment = format!("\0{}", String::from_utf8_lossy(&environment().unwrap()));
        assert!(environment.contains("\0CARGO_PKG_NAME="), "{environment}");
        assert!(!environment.contains("\0HOME="), "{environment}");
    }
    // Cargo sets it for tests.
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
    let mut spec = place.spec(r#"echo "$ONE ${CARGO_PKG_NAME-none} $PAGER""#);
    spec.env_set = vec![("ONE".into(), "1 2".into())];
    spec.env_remove = vec!["CARGO_PKG_NAME".into(), "A=B".into(), String::new()];
    let run = place.runs.prepare(&spec).unwrap();
    let mut running = place.runs.start_in(&run, spare).unwrap();
    let ended = place.runs.wait(&mut running).await.unwrap();
    let printed = place.runs.output(&ended, 1000).unwrap().head;
    let printed = String::from_utf8_lossy(&printed).into_owned();
    assert_eq!(printed, "1 2 none cat\n");
}

/// Its claim decides. Until then another keeper may take its place.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_spare_keeper_that_was_killed_or_stopped_is_replaced() {
    for told in [Signal::KILL, Signal::TERM, Signal::STOP] {
        let place = place();
        let (spare, pid) = spare(&place);
        signal(pid, told);
        let run = place.prepare("echo >> count");
        let mut running = place.runs.start_in(&run, spare).unwrap();
        let ended = place.runs.wait(&mut running).await.unwrap();
        assert!(matches!(ended.how, How::Exited(0)), "{told:?}: {ended:?}");
        assert_eq!(place.count(), 1, "{told:?}");
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{told:?}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_spare_keeper_whose_run_folder_is_gone_runs_nothing() {
    let place = place();
    let (spare, pid) = spare(&place);
    let run = place.prepare("echo >> count");
    std::fs::remove_dir_all(place.folder.path().join("runs").join(&run)).unwrap();
    let mut running = place.runs.start_in(&run, spare).unwrap();
    assert!(place.runs.wait(&mut running).await.is_err());
    until(|| !Path::new(&format!("/proc/{pid}")).exists());
    assert_eq!(place.count(), 0);
}

/// The fresh keeper that replaced it may have started the command.
#[tokio::test]
async fn a_late_spare_keeper_runs_nothing() {
    let place = place();
    let (spare, _) = spare(&place);
    let run = place.prepare("echo >> count");
    let mut fresh = place.runs.start(&run).unwrap();
    place.runs.wait(&mut fresh).await.unwrap();
    let mut late = place.runs.start_in(&run, spare).unwrap();
    place.runs.wait(&mut late).await.unwrap();
    assert_eq!(place.count(), 1);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_spare_keeper_ends_when_nobody_can_give_it_a_run() {
    let place = place();
    let (spare, pid) = spare(&place);
    drop(spare);
    // A zombie is over.
    let is_over = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z")
    };
    until(is_over);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_spare_keeper_killed_at_the_handover_never_hides_a_side_effect() {
    let (mut kept, mut kills) = (Vec::new(), 0);
    for round in 0..100 {
        let place = place();
        let (spare, pid) = spare(&place);
        let run = place.prepare("echo >> count");
        let mut running = place.runs.start_in(&run, spare).unwrap();
        std::thread::sleep(Duration::from_micros(round * 20));
        let killed = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
        kills += usize::from(killed.is_ok());
        match place.runs.wait(&mut running).await.unwrap().how {
            How::Exited(code) => assert_eq!((code, place.count()), (0, 1)),
            How::Lost { .. } | How::NotRun(_) => {}
            how => panic!("{how:?}"),
        }
        kept.push(place);
    }
    assert!(kills > 0);
    // The last was killed a moment ago: what it could have started would have to be seen.
    std::thread::sleep(Duration::from_millis(20));
    assert!(kept.iter().all(|place| place.count() <= 1));
}

#[tokio::test]
async fn a_keeper_that_comes_too_late_runs_nothing() {
    let place = place();
    let run = place.prepare("echo >> count");
    assert!(matches!(place.settle(&run), SettledRun::NotBegun));
    let mut late = place.runs.start(&run).unwrap();
    let ended = place.runs.wait(&mut late).await.unwrap();
    assert!(matches!(ended.how, How::NotRun(_)), "{ended:?}");
    assert_eq!(place.count(), 0);
    // The agent may die between settling and recording it.
    assert!(matches!(place.settle(&run), SettledRun::NotBegun));
    assert!(matches!(place.settle(&run), SettledRun::NotBegun));
}

#[tokio::test]
async fn polling_for_the_end_does_not_disturb_the_keeper() {
    for _ in 0..10 {
        let place = place();
        let run = place.prepare("echo >> count");
        let mut running = place.runs.start(&run).unwrap();
        // As the engine does, again and again while the keeper is on its way.
        while place.runs.ended(&run).unwrap().is_none() {}
        place.runs.wait(&mut running).await.unwrap();
        assert_eq!(place.count(), 1);
    }
}

#[tokio::test]
async fn a_background_command_starts_before_it_is_reported_running() {
    let place = place();
    let run = place.prepare("until [ -e go ]; do sleep 0.01; done; echo >> count");
    let mut running = place.runs.start(&run).unwrap();
    let found = place.runs.begun(&mut running).await.unwrap();
    assert!(matches!(found, SettledRun::Running(_)), "{found:?}");
    // Whoever settles it from now on finds it.
    let SettledRun::Running(mut running) = place.settle(&run) else {
        panic!("it is not running");
    };
    std::fs::write(place.folder.path().join("go"), "").unwrap();
    place.runs.wait(&mut running).await.unwrap();
    assert_eq!(place.count(), 1);
}

#[tokio::test]
async fn a_command_whose_keeper_cannot_begin_is_not_waited_for() {
    let place = place();
    let run = place.prepare("echo >> count");
    std::fs::remove_file(place.folder.path().join("runs").join(&run).join("output")).unwrap();
    let mut running = place.runs.start(&run).unwrap();
    let found = place.runs.begun(&mut running).await.unwrap();
    assert!(matches!(found, SettledRun::NotBegun), "{found:?}");
    assert_eq!(place.count(), 0);
}

#[tokio::test]
async fn a_result_does_not_depend_on_who_reaps_the_keeper() {
    let place = place();
    let (run, mut running) = place.begin("until [ -e go ]; do sleep 0.01; done; exit 7");
    let keeper = Pid::from_raw(place.keeper(&run).unwrap() as i32);
    std::fs::write(place.folder.path().join("go"), "").unwrap();
    // As the system does itself where SIGCHLD is ignored.
    let reaped = rustix::process::waitpid(keeper, rustix::process::WaitOptions::empty());
    assert!(reaped.unwrap().is_some());
    let ended = place.runs.wait(&mut running).await.unwrap();
    assert_eq!(ended.how, How::Exited(7));
}

#[tokio::test]
async fn a_keeper_finds_nothing_in_a_run_that_was_removed() {
    let place = place();
    let run = place.prepare("echo >> count");
    let mut late = place.runs.start(&run).unwrap();
    if place.runs.remove(&run).unwrap() {
        let ended = place.runs.wait(&mut late).await.unwrap();
        assert_eq!(ended.how, How::Lost { group: None });
        assert_eq!(place.count(), 0);
        assert!(!place.runs.exists(&run));
    } else {
        place.runs.wait(&mut late).await.unwrap();
        assert_eq!(place.count(), 1);
    }
}

/// In the first, settling comes before all; in the last, it waits for a keeper.
const ROUNDS: u64 = 20;

#[test]
fn concurrent_starts_and_settles_have_a_single_outcome() {
    let mut outcomes = [0; 2];
    for round in 0..ROUNDS {
        let place = place();
        let run = place.prepare("echo >> count");
        if round == 0 {
            assert!(matches!(place.settle(&run), SettledRun::NotBegun));
        }
        let not_begun = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..8)
                .map(|racer| {
                    let (place, run) = (&place, run.as_str());
                    scope.spawn(move || block_on(race(place, run, racer, round)))
                })
                .collect();
            racers
                .into_iter()
                .map(|racer| racer.join().unwrap())
                .fold(false, |any, not_begun| any | not_begun)
        });
        assert_eq!(place.count(), usize::from(!not_begun));
        outcomes[place.count()] += 1;
    }
    // Both must have been seen, or nothing was shown.
    assert!(outcomes.iter().all(|n| *n > 0), "{outcomes:?}");
}

/// Half start, half settle, the latter later and later: true when it never ran. In the last
/// round one starts: with several, a keeper that comes second ends before the first has claimed the
/// run, and who waits for it settles the run.
async fn race(place: &Place, run: &str, racer: u64, round: u64) -> bool {
    if racer == 0 || racer.is_multiple_of(2) && round != ROUNDS - 1 {
        let mut running = place.runs.start(run).unwrap();
        let ended = place.runs.wait(&mut running).await.unwrap();
        return matches!(ended.how, How::NotRun(_));
    }
    std::thread::sleep(Duration::from_micros(racer * round * 200));
    if round == ROUNDS - 1 {
        until(|| place.info(run).state != RunState::NotBegun);
    }
    match place.settle(run) {
        SettledRun::NotBegun => true,
        SettledRun::Ended(ended) => {
            assert_eq!(ended.how, How::Exited(0));
            false
        }
        SettledRun::Running(mut running) => {
            let ended = place.runs.wait(&mut running).await.unwrap();
            matches!(ended.how, How::NotRun(_))
        }
    }
}

#[test]
fn half_created_runs_are_removed_when_they_are_old() {
    let place = place();
    let whole = place.prepare("true");
    let claimed = uuid::Uuid::new_v7(uuid::Timestamp::from_unix_time(1_000, 0, 0, 0));
    let half = uuid::Uuid::new_v7(uuid::Timestamp::from_unix_time(1_000, 0, 0, 0));
    let torn = uuid::Uuid::new_v7(uuid::Timestamp::from_unix_time(1_000, 0, 0, 0));
    let young = uuid::Uuid::new_v7(uuid::Timestamp::now(uuid::NoContext));
    let path = |run: String| place.folder.path().join("runs").join(run);
    for run in [claimed, half, torn, young] {
        std::fs::create_dir(path(run.to_string())).unwrap();
    }
    std::fs::write(path(claimed.to_string()).join("claim"), "").unwrap();
    std::fs::write(path(torn.to_string()).join("spec"), "{\"spec\":").unwrap();
    std::fs::write(path(torn.to_string()).join("status"), "").unwrap();

    place.runs.remove_unfinished().unwrap();
    for (run, stays) in [(claimed, true), (half, false), (torn, false), (young, true)] {
        assert_eq!(path(run.to_string()).is_dir(), stays, "{run}");
    }
    assert!(path(whole).is_dir());
}

#[tokio::test]
async fn after_another_boot_nothing_is_run_again() {
    let place = place();
    let lost = |run: &str, boot: &str| match place.runs.settle(run, boot).unwrap() {
        SettledRun::Ended(ended) => ended.how == How::Lost { group: None },
        SettledRun::NotBegun | SettledRun::Running(_) => false,
    };
    // Not claimed.
    let run = place.prepare("echo >> count");
    assert!(lost(&run, "another boot"));
    assert!(lost(&run, ""));
    // Claimed and no more.
    assert!(matches!(place.settle(&run), SettledRun::NotBegun));
    assert!(lost(&run, "another boot"));
    // Gone.
    assert!(place.runs.remove(&run).unwrap());
    assert!(lost(&run, "another boot"));
    assert!(lost(&run, &boot_id()));
    // What has ended has ended in any boot.
    let run = place.prepare("exit 5");
    let mut running = place.runs.start(&run).unwrap();
    let ended = place.runs.wait(&mut running).await.unwrap();
    let SettledRun::Ended(found) = place.runs.settle(&run, "another boot").unwrap() else {
        panic!("it has not ended");
    };
    assert_eq!(found, ended);
    assert_eq!(place.count(), 0);
}

/// The run folder is not synced, so a power cut leaves any part of it: each file may be there,
/// be empty, hold zeros, or be gone.
#[test]
fn whatever_a_power_cut_leaves_of_a_run_folder_nothing_is_run_again() {
    const FILES: [&str; 4] = ["spec", "status", "claim", "output"];
    let place = place();
    for began in [false, true] {
        for leaves in 0..4_usize.pow(FILES.len() as u32) {
            let run = place.prepare("echo >> count");
            let folder = place.folder.path().join("runs").join(&run);
            if began {
                let status = File::options().write(true).open(folder.join("status"));
                status.unwrap().write_all_at(b"begun", 0).unwrap();
                std::fs::write(folder.join("claim"), "").unwrap();
            }
            for (place, file) in FILES.iter().enumerate() {
                let path = folder.join(file);
                let bytes = std::fs::metadata(&path).map_or(0, |of| of.len());
                match (leaves / 4_usize.pow(place as u32)) % 4 {
                    0 => {}
                    1 if path.exists() => std::fs::write(path, "").unwrap(),
                    2 if path.exists() => std::fs::write(path, vec![0; bytes as usize]).unwrap(),
                    _ => drop(std::fs::remove_file(path)),
                }
            }
            for boot in ["another boot", ""] {
                let settled = place.runs.settle(&run, boot).unwrap();
                let SettledRun::Ended(ended) = settled else {
                    panic!("began {began}, leaves {leaves}: {settled:?}");
                };
                assert_eq!(ended.how, How::Lost { group: None });
            }
            // Looking has decided nothing, and what is left can be tidied up.
            assert!(place.runs.remove(&run).unwrap(), "leaves {leaves}");
            assert!(!folder.exists());
        }
    }
    assert_eq!(place.count(), 0);
}

/// A record of the end may be on the disk without the output. In another boot it is told so.
#[tokio::test]
async fn an_end_that_outlived_its_output_is_told_with_its_exit_code() {
    let place = place();
    let mut spec = place.spec("printf 'the head, and the tail'; exit 3");
    for (cap, file) in [(1_000, "output"), (4, "output"), (4, "tail")] {
        spec.output_cap_bytes = cap;
        let damages: [fn(&mut Vec<u8>); 3] =
            [Vec::clear, |b| b.fill(0), |b| b.truncate(b.len() - 1)];
        for damage in damages {
            let run = place.runs.prepare(&spec).unwrap();
            let mut running = place.runs.start(&run).unwrap();
            let ended = place.runs.wait(&mut running).await.unwrap();
            let settled = |boot: &str| match place.runs.settle(&run, boot).unwrap() {
                SettledRun::Ended(ended) => ended,
                other => panic!("{other:?}"),
            };
            assert_eq!(settled("another boot"), ended, "nothing is lacking");
            let path = place.folder.path().join("runs").join(&run).join(file);
            let mut bytes = std::fs::read(&path).unwrap();
            damage(&mut bytes);
            std::fs::write(&path, bytes).unwrap();
            let found = settled("another boot");
            assert!(found.is_output_lost, "{cap} {file}");
            assert_eq!(found.how, How::Exited(3));
            place.runs.output(&found, 1_000).unwrap();
            // Gone altogether.
            std::fs::remove_file(&path).unwrap();
            assert!(settled("another boot").is_output_lost);
            place.runs.remove(&run).unwrap();
        }
    }
}

/// Who waits records the result. Where nobody does, what the keeper wrote has to be on the disk.
#[cfg(target_os = "linux")]
#[test]
fn a_keeper_syncs_when_nobody_waits_for_it() {
    if !crate::cli::nasty::is_there("strace") {
        support::skip("strace");
        return;
    }
    let place = place();
    let syncs = |spec: &Spec, stdin: Stdio| {
        let run = place.runs.prepare(spec).unwrap();
        let trace = place.folder.path().join("trace");
        let folder = place.folder.path().join("runs").join(&run);
        let mut keeper = Command::new("strace")
            .args(["-f", "-yy", "-e", "trace=fsync,fdatasync", "-o"])
            .arg(&trace)
            .arg(env!("CARGO_BIN_EXE_rewake"))
            .arg("__keep")
            .arg(&folder)
            .stdin(stdin)
            .spawn()
            .unwrap();
        // Not `wait`: that would close the pipe first.
        until(|| keeper.try_wait().unwrap().is_some());
        assert!(matches!(place.info(&run).state, RunState::Ended(_)));
        let trace = std::fs::read_to_string(&trace).unwrap();
        let name = |line: &str| {
            let path = line.split_once('<')?.1.split_once('>')?.0;
            Some(path.rsplit('/').next()?.replace(&run, "folder"))
        };
        trace.lines().filter_map(name).collect::<Vec<String>>()
    };
    let said = place.spec("echo said");
    assert!(syncs(&said, Stdio::piped()).is_empty());
    // The agent is gone, or of an older version.
    let all = ["output", "status", "folder", "runs"];
    assert_eq!(syncs(&said, Stdio::null()), all);
    let (input, waits) = std::io::pipe().unwrap();
    drop(waits);
    assert_eq!(syncs(&said, Stdio::from(input)), all);
    let mut background = said;
    background.background = true;
    assert_eq!(syncs(&background, Stdio::piped()), all);
    background.output_cap_bytes = 2;
    let with_tail = ["output", "tail", "status", "folder", "runs"];
    assert_eq!(syncs(&background, Stdio::piped()), with_tail);
}

/// The agent's side: the keeper is waited for until its result can be recorded, and not when the
/// agent leaves it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_keeper_is_waited_for_as_long_as_its_run_is_held() {
    let place = place();
    let (run, mut running) = place.begin("until [ -e go ]; do sleep 0.01; done; echo said");
    let input = format!("/proc/{}/fd/0", place.keeper(&run).unwrap());
    let held = std::fs::read_link(&input).unwrap();
    let is_held = || {
        let fds = std::fs::read_dir("/proc/self/fd").unwrap();
        fds.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok())
            .any(|to| to == held)
    };
    assert!(held.to_string_lossy().starts_with("pipe:"), "{held:?}");
    assert!(is_held());
    std::fs::write(place.folder.path().join("go"), "").unwrap();
    place.runs.wait(&mut running).await.unwrap();
    assert!(is_held(), "not any more while it writes its end");
    drop(running);
    assert!(!is_held());
}

#[tokio::test]
async fn a_torn_status_says_nothing() {
    let place = place();
    let run = place.prepare("echo printed");
    let mut running = place.runs.start(&run).unwrap();
    place.runs.wait(&mut running).await.unwrap();
    let path = place.folder.path().join("runs").join(&run).join("status");
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(b"torn", 4096).unwrap();
    let SettledRun::Ended(ended) = place.settle(&run) else {
        panic!("it is not lost");
    };
    assert_eq!(ended.how, How::Lost { group: None });
    assert_eq!(place.output(&ended), "printed\n");
}

#[tokio::test]
async fn a_killed_keeper_leaves_its_output_and_process_group() {
    let place = place();
    let (run, mut running) = place.begin("echo so far; sleep 30 & set -m; sleep 30 & wait");
    until(|| place.runs.tail(&run, 100).unwrap() == b"so far\n");
    let group = place.group(&run).unwrap();
    place.kill_keeper(&run);

    let ended = place.runs.wait(&mut running).await.unwrap();
    assert_eq!(place.output(&ended), "so far\n");
    let How::Lost { group: Some(left) } = ended.how else {
        panic!("nothing is left: {ended:?}");
    };
    assert!(is_alive(left));
    assert!(matches!(
        place.info(&run).state,
        RunState::Ended(ended) if matches!(ended.how, How::Lost { group: Some(_) })
    ));
    assert!(!place.runs.remove(&run).unwrap());

    assert_eq!(place.runs.stop(&run).unwrap(), Stopped::Asked);
    until(|| !is_alive(group) && !is_alive(left));
    assert_eq!(place.runs.stop(&run).unwrap(), Stopped::Over);
    let SettledRun::Ended(ended) = place.settle(&run) else {
        panic!("it is not lost");
    };
    assert_eq!(ended.how, How::Lost { group: None });
    assert!(place.runs.remove(&run).unwrap());
}

/// A command whose child is in another process session and writes its pid to a file.
#[cfg(target_os = "linux")]
fn leaves(then: &str) -> String {
    format!("setsid sh -c 'echo $$ > pid; exec sleep 1000' >/dev/null 2>&1 & {then}")
}

#[cfg(target_os = "linux")]
async fn left(place: &Place) -> u32 {
    let pid = place.folder.path().join("pid");
    let read = || std::fs::read_to_string(&pid).unwrap_or_default();
    until(|| read().ends_with('\n'));
    read().trim().parse().unwrap()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn processes_that_outlive_a_command_without_a_sandbox_are_named() {
    let place = place();
    let spec = place.spec(&leaves("until test -s pid; do sleep 0.01; done; echo out"));
    let ended = place.run(&spec).await;
    let child = left(&place).await;
    assert_eq!(ended.how, How::Exited(0));
    let after = ended.sandbox.as_ref().unwrap();
    assert_eq!(after.survivors, 1);
    let named = &after.living()[..];
    assert_eq!(named[0].pid, child);
    assert_eq!(named[0].command.as_deref(), Some("sleep 1000"));
    assert!(is_alive(child));
    let run = ended.output.parent().unwrap().file_name().unwrap();
    let run = run.to_str().unwrap();
    // The folder stays, so that they are listed.
    assert!(!place.runs.remove(run).unwrap());
    assert_eq!(place.runs.stop(run).unwrap(), Stopped::Asked);
    until(|| !is_alive(child));
    until(|| place.runs.stop(run).unwrap() == Stopped::Over);
    assert!(place.runs.remove(run).unwrap());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_stop_ends_processes_in_other_sessions_without_a_sandbox() {
    let place = place();
    // The child ignores what asks it to end.
    let command = format!("trap '' TERM; {}", leaves("trap - TERM; sleep 1000"));
    let (run, mut running) = place.begin(&command);
    let child = left(&place).await;
    assert_eq!(place.runs.stop(&run).unwrap(), Stopped::Asked);
    let ended = place.runs.wait(&mut running).await.unwrap();
    assert_eq!(ended.how, How::Stopped);
    until(|| !is_alive(child));
    assert_eq!(ended.sandbox, None);
}

/// Processes in other sessions have two seconds to end, as those of the group have.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_stop_asks_processes_in_other_sessions_first() {
    let place = place();
    let child = "trap 'sleep 0.05; echo bye > said; exit' TERM; echo up > up; \
                 while :; do sleep 0.01; done";
    let (run, mut running) = place.begin(&format!(
        "setsid sh -c \"{child}\" >/dev/null 2>&1 & sleep 1000"
    ));
    until(|| place.read("up") == "up\n");
    assert_eq!(place.runs.stop(&run).unwrap(), Stopped::Asked);
    let ended = place.runs.wait(&mut running).await.unwrap();
    assert_eq!(ended.how, How::Stopped);
    assert_eq!(place.read("said"), "bye\n");
}

/// The shell has exited, and the pause for its output is not over.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_stop_right_after_the_exit_ends_what_was_left_running() {
    let place = place();
    let (run, mut running) = place.begin(&leaves("until test -e go; do sleep 0.01; done"));
    let child = left(&place).await;
    let (keeper, shell) = (place.keeper(&run).unwrap(), place.group(&run).unwrap());
    signal(keeper, Signal::STOP);
    std::fs::write(place.folder.path().join("go"), "").unwrap();
    until(|| !is_alive(shell));
    signal(keeper, Signal::TERM);
    signal(keeper, Signal::CONT);
    let ended = place.runs.wait(&mut running).await.unwrap();
    assert_eq!(ended.how, How::Stopped);
    until(|| !is_alive(child));
}

/// A server such as tmux has no terminal itself; what it runs has one, and may be the user's.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_stop_spares_processes_with_a_terminal_and_their_server() {
    let place = place();
    let script = "script -qfc 'echo $$ > pid; exec sleep 1000' /dev/null";
    let (run, mut running) = place.begin(&format!(
        "setsid {script} </dev/null >/dev/null 2>&1 & echo $! > server; sleep 1000"
    ));
    let child = left(&place).await;
    let server = place.read("server").trim().parse().unwrap();
    assert_eq!(place.runs.stop(&run).unwrap(), Stopped::Asked);
    let ended = place.runs.wait(&mut running).await.unwrap();
    assert_eq!(ended.how, How::Stopped);
    assert_eq!(ended.sandbox, None);
    assert!(is_alive(child) && is_alive(server));
    signal(child, Signal::KILL);
    until(|| !is_alive(server));
}

/// Processes that a survivor of a command has started since then end with it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_stop_of_what_was_left_running_ends_its_descendants_too() {
    let place = place();
    let child = "trap '' TERM; until test -e go; do sleep 0.01; done; \
                 setsid sh -c 'echo $$ > pid; exec sleep 1000' & wait";
    let script = place.folder.path().join("child");
    std::fs::write(script, child).unwrap();
    let run = place.prepare("setsid sh child >/dev/null 2>&1 &");
    let mut running = place.runs.start(&run).unwrap();
    place.runs.wait(&mut running).await.unwrap();
    std::fs::write(place.folder.path().join("go"), "").unwrap();
    let child = left(&place).await;
    assert_eq!(place.runs.stop(&run).unwrap(), Stopped::Asked);
    until(|| !is_alive(child));
    assert_eq!(place.runs.stop(&run).unwrap(), Stopped::Over);
}

/// A process substitution ends after its shell, and is no survivor.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_ends_right_after_its_command_is_not_named() {
    let place = place();
    let spec = place.spec("(sleep 0.02) >/dev/null 2>&1 & echo out");
    assert_eq!(place.run(&spec).await.sandbox, None);
}

#[tokio::test]
async fn the_time_limit_ends_the_whole_group() {
    let place = place();
    let spec = place.spec("sleep 30 & echo $!; wait");
    let child = place.timed_out(&spec, |ended| place.output(ended)).await;
    until(|| !is_alive(child));
}

#[tokio::test]
async fn a_stop_asks_first() {
    let place = place();
    let (run, mut running) =
        place.begin("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done");
    until(|| place.runs.tail(&run, 100).unwrap() == b"up\n");
    assert_eq!(place.runs.stop(&run).unwrap(), Stopped::Asked);
    let ended = place.runs.wait(&mut running).await.unwrap();
    assert_eq!(ended.how, How::Stopped);
    // Between the two bash may say that the sleep was terminated.
    assert!(place.output(&ended).ends_with("bye\n"));
    assert_eq!(place.runs.stop(&run).unwrap(), Stopped::Over);
}

#[tokio::test]
async fn a_stop_kills_what_does_not_obey() {
    let place = place();
    // The shell obeys; a child of it does not.
    let (run, mut running) =
        place.begin("(trap '' TERM; echo $BASHPID; exec sleep 30) & trap 'exit 0' TERM; wait");
    until(|| !place.runs.tail(&run, 100).unwrap().is_empty());
    assert_eq!(place.runs.stop(&run).unwrap(), Stopped::Asked);
    let ended = place.runs.wait(&mut running).await.unwrap();
    assert_eq!(ended.how, How::Stopped);
    let child = place.output(&ended).trim().parse().unwrap();
    until(|| !is_alive(child));
}

#[tokio::test]
async fn a_run_stopped_before_its_start_never_starts() {
    let place = place();
    let run = place.prepare("echo >> count");
    assert_eq!(place.runs.stop(&run).unwrap(), Stopped::NotBegun);
    // Also for an agent that comes later: it must not take it for one to be started again.
    for _ in 0..2 {
        let SettledRun::Ended(ended) = place.settle(&run) else {
            panic!("it would be started again");
        };
        let How::NotRun(why) = ended.how else {
            panic!("it ran");
        };
        assert!(why.contains("stopped"), "{why}");
        let mut running = place.runs.start(&run).unwrap();
        place.runs.wait(&mut running).await.unwrap();
    }
    assert_eq!(place.count(), 0);
}

#[tokio::test]
async fn a_flood_is_counted_and_its_head_and_end_are_kept() {
    let place = place();
    let mut spec = place.spec(
        "echo the start; head -c 50000000 /dev/zero; printf 'the end'; \
         touch printed; until [ -e go ]; do sleep 0.01; done",
    );
    spec.output_cap_bytes = 100_000;
    let run = place.runs.prepare(&spec).unwrap();
    let mut running = place.runs.start(&run).unwrap();
    until(|| place.folder.path().join("printed").exists());
    // What a server says last is to be seen while it runs.
    until(|| place.runs.tail(&run, 7).unwrap() == b"the end");
    #[cfg(target_os = "linux")]
    {
        // Most of it is the program's own file, so only the difference says something.
        let (quiet, mut waiting) = place.begin("until [ -e seen ]; do sleep 0.01; done");
        let peak = |run: &str| crate::cli::peak_memory_kb(place.keeper(run).unwrap()).unwrap();
        let (quiet, flooded) = (peak(&quiet), peak(&run));
        assert!(flooded < quiet + 10_000, "{flooded} KB, {quiet} without");
        std::fs::write(place.folder.path().join("seen"), "").unwrap();
        place.runs.wait(&mut waiting).await.unwrap();
    }
    std::fs::write(place.folder.path().join("go"), "").unwrap();
    let ended = place.runs.wait(&mut running).await.unwrap();
    assert_eq!(ended.bytes_total, 50_000_000 + 10 + 7);
    assert_eq!(ended.bytes_kept, 100_000);
    assert_eq!(ended.output.metadata().unwrap().len(), 100_000);
    let printed = place.runs.output(&ended, 40).unwrap();
    assert!(printed.head.starts_with(b"the start\n"));
    assert!(printed.tail.ends_with(b"the end"));
    assert_eq!(printed.left_out, ended.bytes_total - 40);
}

#[tokio::test]
async fn a_call_ends_with_its_shell_not_with_its_pipe() {
    let place = place();
    let ended = place.run(&place.spec("sleep 30 & echo $!")).await;
    assert_eq!(ended.how, How::Exited(0));
    let child = place.output(&ended).trim().parse().unwrap();
    assert!(is_alive(child));
    signal(child, Signal::KILL);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_time_limit_ends_a_daemon_too() {
    let place = place();
    let spec = place.spec(
        "(setsid sh -c 'echo $$ > pid; exec sleep 1000' >/dev/null 2>&1 &); \
         until [ -s pid ]; do sleep 0.01; done; sleep 30",
    );
    let daemon = place.timed_out(&spec, |_| place.read("pid")).await;
    until(|| !is_alive(daemon));
}

#[tokio::test]
async fn a_run_is_listed_until_it_is_removed_and_not_removed_while_it_runs() {
    let place = place();
    let (run, mut running) = place.begin("until [ -e go ]; do sleep 0.01; done");
    let info = place.info(&run);
    assert_eq!(info.spec.session, "session");
    assert!(info.since_ms > 0);
    assert!(!place.runs.remove(&run).unwrap());
    std::fs::write(place.folder.path().join("go"), "").unwrap();
    place.runs.wait(&mut running).await.unwrap();
    assert!(place.runs.remove(&run).unwrap());
    assert!(!place.runs.exists(&run));
    assert!(place.runs.list().is_empty());
    assert!(place.runs.remove(&run).unwrap());
}

#[test]
fn only_our_own_names_are_runs() {
    let place = place();
    let outside = place.folder.path().join("kept");
    std::fs::create_dir(&outside).unwrap();
    for name in ["../kept", "", ".", "/tmp", "{0197-x}"] {
        assert!(place.runs.remove(name).is_err(), "{name}");
        assert!(place.runs.settle(name, &boot_id()).is_err(), "{name}");
    }
    assert!(outside.exists());
}
