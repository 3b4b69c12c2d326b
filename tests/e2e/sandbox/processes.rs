//! The processes of a command in a sandbox: they end with it, they have a limit, and their numbers
//! are their own.

use std::collections::HashSet;
use std::process::Command;

use rewake::command::{How, RunState, SettledRun};
use rewake::core::access::Access;
use rustix::process::{Pid, Signal, kill_process};

use crate::sandbox::kept::{Place, after, place, until};
use crate::scenes::runtime;

/// With the namespace around it, without that, and without any.
const KERNELS: [&str; 6] = [
    "",
    "no-pid-max",
    "abi=4",
    "no-numbers",
    "no-pid",
    "no-namespaces",
];

/// Those of them on which the kernel ends what a command left running.
const CONTAINED: [&str; 3] = ["", "no-pid-max", "abi=4"];

/// Processes of the machine that have this word among their arguments.
fn named(word: &str) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap();
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .any(|arg| arg == word.as_bytes())
    })
    .collect()
}

/// A word that no other test has in its command lines.
fn word(of: &str) -> String {
    let random = tempfile::Builder::new().prefix(of).tempdir().unwrap();
    random
        .path()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_string()
}

/// A python that commands in the sandbox may run: one below a home folder is no such.
const PYTHON: &str = "env PATH=/usr/local/bin:/usr/bin:/bin python3";

/// A program that lives on beside its command. It has the word among its arguments.
fn lives_on(word: &str) -> String {
    let program = "touch $TMPDIR/live; while :; do sleep 1; done";
    format!(
        "setsid sh -c '{program}' {word} > /dev/null 2>&1 &
         while ! test -e $TMPDIR/live; do sleep 0.01; done"
    )
}

/// Twenty processes, each of which forks and exits, for as long as they can.
fn forks(word: &str, seconds: u32) -> String {
    let program = "import os, time
end = time.monotonic() + SECONDS
for _ in range(20):
    if os.fork() == 0:
        null = os.open('/dev/null', os.O_RDWR)
        [os.dup2(null, fd) for fd in range(3)]
        while time.monotonic() < end:
            if os.fork() != 0:
                os._exit(0)
        os._exit(0)
time.sleep(0.05)
print('they fork')"
        .replace("SECONDS", &seconds.to_string());
    format!("exec {PYTHON} -c \"{program}\" {word}")
}

/// What lives on could change a protected file after it was compared.
#[test]
fn leftover_processes_end_with_the_command_at_every_level() {
    for lacks in KERNELS {
        for access in [Access::Read, Access::Workspace, Access::Network] {
            let place = place(lacks);
            let word = word("left");
            let (ended, text) = place.run(
                place.profile(access),
                &format!("{}; echo done", lives_on(&word)),
            );
            let what = format!("{lacks} {access}: {ended:?}");
            assert_eq!(ended.how, How::Exited(0), "{what}");
            assert_eq!(text, "done\n", "{what}");
            assert!(after(&ended).ended >= 1, "{lacks} {access}: {ended:?}");
            assert_eq!(named(&word), Vec::<i32>::new(), "{lacks} {access}");
        }
    }
}

/// A look that finds nobody proves nothing: they were between two forks.
#[test]
fn a_command_cannot_fork_its_way_out() {
    let runs = std::env::var("REWAKE_FORKING_RUNS").ok();
    let runs: usize = runs.and_then(|n| n.parse().ok()).unwrap_or(3);
    for lacks in CONTAINED {
        for access in [Access::Read, Access::Workspace] {
            let mut living = 0;
            for _ in 0..runs {
                let place = place(lacks);
                let word = word("forks");
                let (ended, text) = place.run(place.profile(access), &forks(&word, 10));
                let what = format!("{lacks} {access}: {ended:?}");
                assert_eq!(ended.how, How::Exited(0), "{what}");
                assert_eq!(text, "they fork\n", "{what}");
                living += usize::from(!named(&word).is_empty());
                end(&word);
            }
            assert_eq!(living, 0, "{lacks} {access}: of {runs} commands");
        }
    }
}

/// Where the kernel does not end them, either nobody is left or the result says who.
#[test]
fn surviving_processes_are_reported_without_kernel_support() {
    for lacks in ["no-pid", "no-namespaces"] {
        let place = place(lacks);
        let word = word("forks");
        let (ended, text) = place.run(place.profile(Access::Read), &forks(&word, 10));
        assert_eq!(text, "they fork\n", "{ended:?}");
        let is_told = after(&ended).survivors > 0;
        assert!(named(&word).is_empty() || is_told, "{lacks}: {ended:?}");
        end(&word);
    }
}

fn end(word: &str) {
    until(|| {
        let living = named(word);
        for pid in living.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        living.is_empty()
    });
}

#[test]
fn a_command_with_too_many_processes_is_ended() {
    for lacks in KERNELS {
        let place = place(lacks);
        let mut profile = place.profile(Access::Read);
        profile.limits.processes = 20;
        let (ended, _) = place.run(profile, "for i in $(seq 60); do sleep 50 & done; wait");
        assert_eq!(ended.how, How::Stopped, "{lacks}");
        assert_eq!(
            after(&ended).limit.as_deref(),
            Some("more than 20 processes"),
            "{lacks}"
        );
    }
}

/// Between two looks of the keeper a command could make thousands.
#[test]
fn the_kernel_limits_processes_where_it_can() {
    let place = place("");
    let mut profile = place.profile(Access::Read);
    if !is_limited(&place) {
        return support::skip("a kernel whose process namespaces have a limit");
    }
    profile.limits.processes = 50;
    let counts = "
import os, time
made = 1
for _ in range(400):
    try:
        if os.fork() == 0:
            time.sleep(60)
    except OSError:
        continue
    made += 1
    print(made, flush=True)
time.sleep(60)";
    let (ended, text) = place.run(profile, &format!("exec {PYTHON} -c \"{counts}\""));
    // The keeper ends it as soon as it sees one more than the limit, and there is never another.
    assert_eq!(ended.how, How::Stopped, "{text}");
    let made = text
        .lines()
        .filter_map(|line| line.parse::<u32>().ok())
        .max();
    assert!(made.is_some_and(|made| made <= 51), "{text} {ended:?}");
}

fn is_limited(place: &Place) -> bool {
    let kernel = place.profile(Access::Read).kernel;
    kernel.process_namespace && kernel.process_limit
}

/// Commands share `$TMPDIR`, and programs name files there by their number.
#[test]
fn no_two_commands_have_a_process_of_the_same_number() {
    for lacks in KERNELS {
        let place = place(lacks);
        let mut seen = HashSet::new();
        for _ in 0..6 {
            let numbers = "echo $$; for i in 1 2 3 4 5 6 7 8; do sh -c 'echo $$'; done";
            let (_, text) = place.run(place.profile(Access::Read), numbers);
            for number in text.lines() {
                assert!(seen.insert(number.to_string()), "{lacks}: {number} again");
            }
        }
        assert_eq!(seen.len(), 54, "{lacks}");
    }
}

/// A PID file of a server outside: the number is that of no process inside.
#[test]
fn a_number_of_a_process_outside_names_nobody_inside() {
    for lacks in CONTAINED {
        let place = place(lacks);
        let mut server = Command::new("sleep").arg("60").spawn().unwrap();
        std::fs::write(place.path("ws/server.pid"), server.id().to_string()).unwrap();
        let script = "for i in 1 2 3; do sleep 60 & done
            kill -9 $(cat server.pid) 2>/dev/null && echo killed
            kill -0 $(cat server.pid) 2>/dev/null && echo seen
            jobs -r | grep -c sleep";
        let (_, text) = place.run(place.profile(Access::Read), script);
        assert_eq!(text, "3\n", "{lacks}");
        assert!(server.try_wait().unwrap().is_none(), "{lacks}");
        server.kill().unwrap();
        server.wait().unwrap();
    }
}

#[test]
fn a_command_sees_no_processes_but_its_own() {
    for lacks in CONTAINED {
        let place = place(lacks);
        let script = "cd /proc; ls -d [0-9]* | wc -l; test -d /proc/$$ && echo itself; tr '\\0' ' ' < 1/environ";
        let (_, text) = place.run(place.profile(Access::Read), script);
        let count = text.lines().next().unwrap_or_default();
        assert!(
            count.parse::<u32>().is_ok_and(|n| n <= 5),
            "{lacks}: {text}"
        );
        assert!(text.contains("itself"), "{lacks}: {text}");
        assert!(!text.contains("PATH="), "{lacks}: {text}");
    }
}

/// A killed keeper cannot write down an end: the command is lost, and nothing of it lives on.
#[test]
fn the_command_of_a_killed_keeper_ends_and_is_lost() {
    for lacks in CONTAINED {
        for background in [false, true] {
            let place = place(lacks);
            let word = word("lost");
            let command = format!("{}; touch ready; sleep 60", lives_on(&word));
            let spec = place.spec(place.profile(Access::Workspace), &command, background);
            let runs = place.runs();
            let runtime = runtime();
            runtime.block_on(async {
                let run = runs.prepare(&spec).unwrap();
                let mut running = runs.start(&run).unwrap();
                until(|| place.path("ws/ready").exists());
                // Between fork and exec a child of its bears its arguments, too.
                assert!(!named(&word).is_empty(), "{lacks}");
                let RunState::Running {
                    keeper: Some(keeper),
                    ..
                } = runs.list()[0].state
                else {
                    panic!("{lacks}: it does not run");
                };
                let keeper = Pid::from_raw(i32::try_from(keeper).unwrap()).unwrap();
                kill_process(keeper, Signal::KILL).unwrap();
                let ended = runs.wait(&mut running).await.unwrap();
                assert_eq!(ended.how, How::Lost { group: None }, "{lacks}");
                until(|| named(&word).is_empty());
            });
        }
    }
}

/// An agent that is gone ends nothing.
#[test]
fn a_command_keeps_running_when_its_waiter_is_dropped() {
    for lacks in CONTAINED {
        let place = place(lacks);
        let command = "touch ready; while ! test -e go; do sleep 0.01; done; echo went on";
        let spec = place.spec(place.profile(Access::Workspace), command, false);
        let runs = place.runs();
        let runtime = runtime();
        runtime.block_on(async {
            let run = runs.prepare(&spec).unwrap();
            let running = runs.start(&run).unwrap();
            until(|| place.path("ws/ready").exists());
            drop(running);
            std::fs::write(place.path("ws/go"), "").unwrap();
            let boot = rewake::command::boot_id();
            let SettledRun::Running(mut running) = runs.settle(&run, &boot).unwrap() else {
                return;
            };
            let ended = runs.wait(&mut running).await.unwrap();
            assert_eq!(ended.how, How::Exited(0), "{lacks}");
        });
        let list = place.runs().list();
        let RunState::Ended(ended) = &list[0].state else {
            panic!("{lacks}: it runs on");
        };
        assert_eq!(ended.how, How::Exited(0), "{lacks}");
    }
}
