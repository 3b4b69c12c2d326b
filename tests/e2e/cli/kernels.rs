//! What the real binary runs without asking on kernels that lack something, and what `doctor`
//! says of them. A kernel can only be taken features away from.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::cli::LIMIT;
use crate::cli::{bash, play, results, scripted, step};
use support::{Home, Refusal, Run, git, has_whole_sandbox, run, skip};

const ACCEPT: [&str; 2] = ["--permission-mode", "acceptEdits"];

struct Kernel {
    lacks: &'static str,
    /// Any line runs unasked with this access: in the mode `default`, and in `acceptEdits`.
    unasked: [Option<&'static str>; 2],
    doctor: &'static [&'static str],
}

#[rustfmt::skip]
const KERNELS: [Kernel; 9] = [
    Kernel { lacks: "", unasked: [Some("read"), Some("workspace")], doctor: &["protected files are read-only"] },
    Kernel { lacks: "abi=6", unasked: [Some("read"), Some("workspace")], doctor: &["Landlock version 6 and seccomp", "protected files are read-only"] },
    Kernel { lacks: "no-namespaces", unasked: [Some("read"), Some("read")], doctor: &["protected files are compared", "no mount namespace", "no network namespace"] },
    Kernel { lacks: "abi=4", unasked: [Some("read"), Some("workspace")], doctor: &["Landlock version 4", "older than version 6"] },
    Kernel { lacks: "abi=4,no-pid", unasked: [Some("read"), Some("read")], doctor: &["Landlock version 4", "no process namespace"] },
    Kernel { lacks: "abi=2", unasked: [None, None], doctor: &["Landlock is older than version 3", "no command runs without approval because of it"] },
    Kernel { lacks: "abi=2,no-namespaces", unasked: [None, None], doctor: &["Landlock is older than version 3", "protected files are compared"] },
    Kernel { lacks: "no-seccomp", unasked: [None, None], doctor: &["this system has no sandbox", "no seccomp: commands have no sandbox"] },
    Kernel { lacks: "abi=0,no-seccomp,no-namespaces", unasked: [None, None], doctor: &["this system has no sandbox", "no Landlock: commands have no sandbox"] },
];

fn on(home: &Home, lacks: &str, args: &[&str]) -> Run {
    let mut command: Command = home.rewake(args);
    command.env("REWAKE_TEST_KERNEL", lacks);
    run(command, LIMIT)
}

/// What came of each call of one answer.
fn ran(home: &Home, lacks: &str, calls: &[(&str, Value)], mode: &[&str]) -> Vec<(String, String)> {
    play(home, &[step("", calls), step("done", &[])]);
    let args = [&["-p", "x", "--output-format", "stream-json"], mode].concat();
    results(&on(home, lacks, &args).expect(0))
}

fn has_all(home: &Home) -> bool {
    has_whole_sandbox(&home.run(["doctor"]).stdout)
}

#[test]
fn the_first_start_says_whether_commands_are_sandboxed() {
    let home = scripted(&[]);
    let first = |lacks: &str, mode: &[&str]| {
        play(&home, &[step("done", &[])]);
        on(&home, lacks, &[&["-p", "x"], mode].concat())
            .expect(0)
            .stderr
    };
    let none = "abi=0,no-seccomp,no-namespaces";
    // In this mode nothing is sandboxed, and the notice is left for another start.
    for lacks in ["", none] {
        assert!(!first(lacks, &["--yolo"]).contains("sandbox"));
    }
    assert!(first(none, &[]).contains("no sandbox: approved commands reach all your files"));
    assert!(!first(none, &[]).contains("no sandbox"));
    if has_all(&home) {
        assert!(first("", &[]).contains("run in a sandbox"));
    }
}

#[test]
fn unasked_access_and_doctor_output_depend_on_the_kernel() {
    let home = scripted(&[]);
    if !has_all(&home) {
        return;
    }
    // No list of harmless commands has it.
    let any = crate::cli::bash("sh -c 'echo as $REWAKE_SANDBOX'");
    let listed = crate::cli::bash("ls");
    for kernel in KERNELS {
        let doctor = on(&home, kernel.lacks, &["doctor"]).stdout;
        for word in kernel.doctor {
            assert!(
                doctor.contains(word),
                "{}: {word} is not in {doctor}",
                kernel.lacks
            );
        }
        for (mode, unasked) in [&[][..], &ACCEPT].into_iter().zip(kernel.unasked) {
            let came = ran(&home, kernel.lacks, &[any.clone(), listed.clone()], mode);
            let what = format!("{:?} {mode:?}: {came:?}", kernel.lacks);
            match unasked {
                Some(access) => {
                    assert_eq!(came[0], ("done".into(), format!("as {access}\n")), "{what}")
                }
                None => assert_eq!(came[0].0, "denied", "{what}"),
            }
            assert_eq!(came[1].0, "done", "{what}");
        }
    }
}

/// What was approved runs in as much of a sandbox as there is, and never in less than that.
#[test]
fn approved_commands_run_in_the_available_sandbox() {
    let home = scripted(&[]);
    if !has_all(&home) {
        return;
    }
    fs::write(home.user().join("notes"), "SECRET\n").unwrap();
    let config = home.rewake_home().join("config.toml");
    let rules = "[permissions]\nallow = [\"Bash(sh look.sh)\"]\n";
    fs::write(&config, format!("{}{rules}", crate::cli::SCRIPTED)).unwrap();
    fs::write(
        home.path("look.sh"),
        "cat \"$HOME/notes\"; echo as $REWAKE_SANDBOX\n",
    )
    .unwrap();
    let call = (
        "bash",
        json!({"command": "sh look.sh", "access": "workspace"}),
    );
    for kernel in KERNELS {
        let came = ran(&home, kernel.lacks, std::slice::from_ref(&call), &[]);
        let text = &came[0].1;
        let has_none = kernel.doctor.contains(&"this system has no sandbox");
        assert_eq!(
            text.contains("SECRET"),
            has_none,
            "{}: {came:?}",
            kernel.lacks
        );
        assert_eq!(
            text.contains("as workspace"),
            !has_none,
            "{}: {came:?}",
            kernel.lacks
        );
    }
}

#[test]
fn changes_to_protected_files_are_undone_and_reported() {
    let home = scripted(&[]);
    if !has_all(&home) {
        return;
    }
    let config = home.rewake_home().join("config.toml");
    let rules = "[permissions]\nallow = [\"Bash(sh make.sh)\"]\n";
    fs::write(&config, format!("{}{rules}", crate::cli::SCRIPTED)).unwrap();
    git(&home.workspace(), &["init", "-q"]);
    let before = home.read(".git/config");
    let script = "echo made > made; echo evil >> .git/config; mkdir -p .git/hooks\n\
                  echo evil > .git/hooks/pre-commit; echo evil > .envrc\n";
    fs::write(home.path("make.sh"), script).unwrap();
    let call = (
        "bash",
        json!({"command": "sh make.sh", "access": "workspace"}),
    );
    for lacks in [
        "no-namespaces",
        "abi=4,no-namespaces",
        "abi=2,no-namespaces",
    ] {
        let came = ran(&home, lacks, std::slice::from_ref(&call), &[]);
        let text = &came[0].1;
        assert!(
            text.contains("protected files may not be changed"),
            "{lacks}: {came:?}"
        );
        assert_eq!(home.read("made"), "made\n", "{lacks}");
        assert_eq!(home.read(".git/config"), before, "{lacks}");
        for name in [".git/hooks/pre-commit", ".envrc"] {
            assert!(!home.path(name).exists(), "{lacks}: {name}");
        }
    }
}

/// Systems that refuse something, with the lack and the setting that `doctor` and the first
/// start name.
const REFUSALS: [(Refusal, &str, &str); 2] = [
    (
        Refusal::Namespaces,
        "no process namespace",
        "--security-opt seccomp=unconfined",
    ),
    (
        Refusal::Mounts,
        "no mount namespace",
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
];

/// Any line reads without approval, none writes, and one setting gives the rest.
#[test]
fn a_system_without_namespaces_lets_any_line_read_and_names_the_setting() {
    for (refusal, lack, setting) in REFUSALS {
        let home = scripted(&[]);
        if !has_all(&home) {
            return;
        }
        let refused = |args: &[&str]| {
            let mut command: Command = home.rewake(args);
            refusal.apply_to(&mut command);
            run(command, LIMIT)
        };
        let doctor = refused(&["doctor"]).stdout;
        for word in [lack, "protected files are compared", setting] {
            assert!(doctor.contains(word), "{refusal:?}: {word}: {doctor}");
        }
        let calls = [
            crate::cli::bash("sh -c 'echo as $REWAKE_SANDBOX'"),
            crate::cli::bash("touch made"),
            crate::cli::bash("sleep 60 & echo over"),
        ];
        for (start, mode) in [&[][..], &ACCEPT].into_iter().enumerate() {
            play(&home, &[step("", &calls), step("done", &[])]);
            let args = [&["-p", "x", "--output-format", "stream-json"], mode].concat();
            let run = refused(&args).expect(0);
            assert_eq!(run.stderr.contains(setting), start == 0, "{}", run.stderr);
            let came = results(&run);
            assert_eq!(came[0], ("done".into(), "as read\n".into()), "{came:?}");
            assert!(came[1].1.contains("looks like the sandbox"), "{came:?}");
            assert!(came[2].1.contains("ended with it"), "{came:?}");
            assert!(!home.path("made").exists());
        }
        // What asks is approved, and held as far as the system lets it be.
        let rule = ["--set", "permissions.allow=[\"Bash(sh make.sh)\"]"];
        git(&home.workspace(), &["init", "-q"]);
        let script = "echo made > made; echo evil > .git/commondir; echo evil > .envrc\n";
        fs::write(home.path("make.sh"), script).unwrap();
        let call = (
            "bash",
            json!({"command": "sh make.sh", "access": "workspace"}),
        );
        play(&home, &[step("", &[call]), step("done", &[])]);
        let args = [&["-p", "x", "--output-format", "stream-json"], &rule[..]].concat();
        let came = results(&refused(&args).expect(0));
        assert!(
            came[0].1.contains("protected files may not be changed"),
            "{came:?}"
        );
        assert_eq!(home.read("made"), "made\n");
        for name in [".git/commondir", ".envrc"] {
            assert!(!home.path(name).exists(), "{refusal:?}: {name}");
        }
    }
}

/// Each mount is then made read-only by itself.
#[test]
fn protected_files_are_held_on_a_kernel_that_remounts_one_by_one() {
    let home = scripted(&[]);
    if !has_all(&home) {
        return;
    }
    git(&home.workspace(), &["init", "-q"]);
    let refused = |args: &[&str]| {
        let mut command: Command = home.rewake(args);
        Refusal::SetAttributes.apply_to(&mut command);
        run(command, LIMIT)
    };
    assert!(has_whole_sandbox(&refused(&["doctor"]).stdout));
    // A mount below a protected folder is as read-only as the folder.
    let script = "mkdir -p .claude/below && mount -t tmpfs none .claude/below && \
                  \"$0\" sandbox -- sh -c 'echo x > .claude/below/a; echo x > .git/config; echo over'; \
                  test ! -e .claude/below/a && echo held";
    let mut command = Command::new("unshare");
    let rewake = env!("CARGO_BIN_EXE_rewake");
    command.args(["-Urm", "sh", "-c", script, rewake]);
    command.env("REWAKE_HOME", home.rewake_home());
    command.current_dir(home.workspace());
    Refusal::SetAttributes.apply_to(&mut command);
    let done = run(command, LIMIT);
    let text = format!("{}{}", done.stdout, done.stderr);
    assert!(text.contains("over") && text.contains("held"), "{text}");
    assert_eq!(text.matches("Read-only file system").count(), 2, "{text}");
}

/// As the first process of a container, rewake gets every process whose parent has ended.
#[test]
fn orphans_do_not_stay_as_zombies_where_rewake_is_the_first_process() {
    let left = "for n in $(seq 400); do grep -qs '^Name:.sleep' /proc/[0-9]*/status || { echo none; exit; }; \
                sleep 0.01; done; echo zombies";
    let home = scripted(&[
        step("", &[bash("(sleep 0.7 > /dev/null 2>&1 &); exit 3")]),
        step("", &[bash(left)]),
        step("done", &[]),
    ]);
    let rewake = env!("CARGO_BIN_EXE_rewake");
    let mut command = Command::new("unshare");
    command.args(["-Urmpf", "--mount-proc", rewake]);
    command.args(["-p", "x", "--yolo", "--output-format", "stream-json"]);
    command.env("REWAKE_HOME", home.rewake_home());
    command.current_dir(home.workspace());
    let probe = Command::new("unshare")
        .args(["-Urmpf", "--mount-proc", "true"])
        .output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        skip("user and process namespaces");
        return;
    }
    let came = results(&run(command, LIMIT).expect(0));
    // The status of its children is not lost.
    assert!(came[0].1.contains("[exit code 3]"), "{came:?}");
    assert_eq!(came[1].1.trim(), "none", "{came:?}");
}
