//! What the real binary runs without asking on kernels that lack something, and what `doctor`
//! says of them. A kernel can only be taken features away from.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::LIMIT;
use crate::support::{Home, Run, git, has_whole_sandbox, run};
use crate::{play, results, scripted, step};

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
fn unasked_access_and_doctor_output_depend_on_the_kernel() {
    let home = scripted(&[]);
    if !has_all(&home) {
        return;
    }
    // No list of harmless commands has it.
    let any = crate::bash("sh -c 'echo as $REWAKE_SANDBOX'");
    let listed = crate::bash("ls");
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
    fs::write(&config, format!("{}{rules}", crate::SCRIPTED)).unwrap();
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
    fs::write(&config, format!("{}{rules}", crate::SCRIPTED)).unwrap();
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
