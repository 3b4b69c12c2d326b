//! Checks as users write them: once for each answer, new lines alone, time limits, trust, stops and
//! kills. Without a sandbox none runs, and these tests say that they are skipped.

use std::fs;

use serde_json::{Value, json};

use crate::cli::{LIMIT, SCRIPTED, bash, newest, play, scripted, step, streamed, until};
use crate::scenes::checks::*;
use support::Live;

/// A check of `*.rs`: it counts its runs, and prints what `problems` says.
const CHECK: &str = "echo x >> runs; cat problems";

#[test]
fn a_check_runs_once_for_an_answer_and_only_for_files_that_it_matches() {
    let steps = [
        step("", &[write("a.rs"), write("src/b.rs"), write("a.rs")]),
        step("", &[write("a.txt"), ("read", json!({"path": "a.rs"}))]),
        // A command changes a file that it matches.
        step("", &[bash("echo y > c.rs")]),
        step("done", &[]),
    ];
    let Some(home) = with_checks(&check(CHECK, ""), &steps) else {
        return;
    };
    let run = streamed(&home, &ACCEPT).expect(0);
    assert_eq!((runs(&home), ends(&run).len()), (2, 2), "{run:?}");
    let kinds: Vec<Value> = run.events().iter().map(|e| e["type"].clone()).collect();
    let places = |kind: &str| -> Vec<usize> {
        let found = kinds.iter().enumerate().filter(|(_, k)| **k == kind);
        found.map(|(place, _)| place).collect()
    };
    let started = places("entry.check_started");
    let finished = places("entry.finished");
    assert!(finished[2] < started[0] && started[0] < places("entry.replied")[1]);
    let files = |at: usize| run.events()[started[at]]["files"].clone();
    assert_eq!(files(0), json!(["a.rs", "src/b.rs"]));
    assert_eq!(files(1), json!(["c.rs"]));
    // It prints nothing new, so the model hears nothing.
    assert!(ends(&run).iter().all(|(_, text)| text.is_empty()));
    let shown = home.run(["show", &newest(&home)]).expect(0).stdout;
    assert!(
        shown.contains("checked echo x >> runs; cat problems: nothing new"),
        "{shown}"
    );
}

#[test]
fn the_first_run_names_changed_files_and_later_ones_what_is_new() {
    let many: String = (0..14)
        .map(|n| format!("b.rs:1: problem {}x\\n", char::from(b'a' + n)))
        .collect();
    let steps = [
        step(
            "",
            &[
                problems("a.rs:3: bad\\nb.rs:1: old\\nin all\\n"),
                write("a.rs"),
            ],
        ),
        step(
            "",
            &[
                problems("a.rs:9: bad\\nb.rs:7: old\\nb.rs:7: new\\n"),
                write("a.rs"),
            ],
        ),
        step("", &[problems("b.rs:8: new\\n"), write("a.rs")]),
        step("", &[problems(&many), write("a.rs")]),
        step("done", &[]),
    ];
    let named = check(CHECK, "name = \"lint\"");
    let Some(home) = with_checks(&named, &steps) else {
        return;
    };
    let run = streamed(&home, &ACCEPT).expect(0);
    let ends = ends(&run);
    let told: Vec<&str> = ends.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(told.len(), 4, "{run:?}");
    assert_eq!(told[0], "checked lint: 1 new line\n```\na.rs:3: bad\n```");
    assert_eq!(told[1], "checked lint: 1 new line\n```\nb.rs:7: new\n```");
    assert_eq!(told[2], "");
    assert!(told[3].contains("14 new lines") && told[3].contains("[4 more; memory_page"));
    assert_eq!(told[3].matches("problem").count(), 10);
    // The next start compares with the last run of the one before.
    let more = vec![step("", &[write("a.rs")]), step("done", &[])];
    play(&home, &[steps.to_vec(), more].concat());
    let args = ["-c", "-p", "more", "--permission-mode", "acceptEdits"];
    let again = streamed(&home, &args).expect(0);
    assert_eq!(self::ends(&again)[0].1, "", "{again:?}");
}

#[test]
fn a_check_that_hangs_is_ended_and_after_three_timeouts_switched_off() {
    let edits = || step("", &[write("a.rs")]);
    let steps = [edits(), edits(), edits(), edits(), step("done", &[])];
    let hangs = check("echo x >> runs; echo a.rs; sleep 600", "timeout_sec = 1");
    let Some(home) = with_checks(&hangs, &steps) else {
        return;
    };
    let run = streamed(&home, &ACCEPT).expect(0);
    let ends = ends(&run);
    assert_eq!((runs(&home), ends.len()), (3, 3), "{run:?}");
    let row = |(about, _): &(Value, String)| about["ending"]["in_a_row"].clone();
    assert_eq!(ends.iter().map(row).collect::<Vec<_>>(), [1, 2, 3]);
    let is_told = |(_, text): &(Value, String)| text.contains("time limit reached");
    assert!(ends.iter().all(is_told), "{ends:?}");
    let notes = run
        .stderr
        .matches("it does not run again in this session")
        .count();
    assert_eq!(notes, 1, "{}", run.stderr);
}

/// The user and the model are told that it is not green.
#[test]
fn a_check_that_cannot_run_says_so() {
    for command in ["no-such-linter --quiet", "./lint.sh"] {
        let steps = [step("", &[write("a.rs")]), step("done", &[])];
        let Some(home) = with_checks(&check(command, ""), &steps) else {
            return;
        };
        fs::write(home.path("lint.sh"), "#!/bin/sh\nexit 0\n").unwrap();
        let run = streamed(&home, &ACCEPT).expect(0);
        let ends = ends(&run);
        let [(about, text)] = &ends[..] else {
            panic!("{ends:?}");
        };
        assert_eq!(about["ending"]["how"], "failed", "{about}");
        assert!(text.contains("it could not run (exit code 12"), "{text}");
        assert!(run.stderr.contains("it could not run"), "{}", run.stderr);
        let newest = "newest run, in session ";
        let said = home.run(["doctor"]).stdout;
        assert!(
            said.contains(newest) && said.contains("it could not run"),
            "{said}"
        );
        // Another folder has other checks.
        fs::create_dir(home.path("other")).unwrap();
        let said = home.run(["doctor", "-C", "other"]).stdout;
        assert!(!said.contains(newest), "{said}");
    }
}

#[test]
fn a_check_of_a_workspace_runs_only_if_it_is_trusted_and_unchanged() {
    let steps = [step("", &[write("a.rs")]), step("done", &[])];
    let Some(home) = with_checks(&check("echo x >> of-user", ""), &steps) else {
        return;
    };
    fs::create_dir_all(home.path(".rewake")).unwrap();
    let of_workspace = |command: &str| {
        fs::write(home.path(".rewake/config.toml"), check(command, "")).unwrap();
        // The model of another session has not read it.
        let _ = fs::remove_file(home.path("a.rs"));
        streamed(&home, &ACCEPT).expect(0)
    };
    let run = of_workspace(CHECK);
    assert_eq!(runs(&home), 0);
    assert!(
        run.stderr.contains("not trusted") && run.stderr.contains("check"),
        "{}",
        run.stderr
    );
    let listed = home.run(["hooks"]).expect(0).stdout;
    assert!(
        listed.contains("not trusted, so it does not run; `rewake trust`"),
        "{listed}"
    );
    assert!(home.run(["doctor"]).stdout.contains("checks"));
    let trust = home.run(["trust", "--yes"]).expect(0).stdout;
    assert!(trust.contains(CHECK), "{trust}");
    of_workspace(CHECK);
    assert_eq!(runs(&home), 1);
    // The checks of the user apply beside it.
    assert_eq!(home.read("of-user").lines().count(), 2);
    let json = home.run(["hooks", "list", "--json"]).expect(0).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    let states: Vec<&Value> = json["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["state"])
        .collect();
    assert_eq!(states, ["used", "used"]);
    let run = of_workspace("echo y >> runs; cat problems");
    assert_eq!(runs(&home), 1, "the changed one does not run");
    assert!(
        run.stderr.contains("changed since it was trusted"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_check_is_in_the_sandbox_and_without_one_none_runs() {
    let steps = [step("", &[write("a.rs")]), step("done", &[])];
    let leaves = "echo x >> runs; echo y > ../outside || true";
    let Some(home) = with_checks(&check(leaves, ""), &steps) else {
        return;
    };
    streamed(&home, &ACCEPT).expect(0);
    assert_eq!(runs(&home), 1);
    assert!(!home.path("../outside").exists());
    // Even where commands of the model run without a question.
    fs::remove_file(home.path("a.rs")).unwrap();
    let off = [
        "-p",
        "go",
        "--permission-mode",
        "bypassPermissions",
        "--set",
        "sandbox.enabled=false",
    ];
    let run = streamed(&home, &off).expect(0);
    assert_eq!((runs(&home), ends(&run).len()), (1, 0));
    assert!(run.stderr.contains("1 check not run"), "{}", run.stderr);
}

/// A stop ends the check, and the session waits for the user.
#[test]
fn a_stop_ends_a_check() {
    let waits = "echo x >> runs; while [ ! -e go ]; do sleep 0.02; done; echo over > over";
    let steps = [step("", &[write("a.rs")]), step("done", &[])];
    let Some(home) = with_checks(&check(waits, ""), &steps) else {
        return;
    };
    let agent = Live::spawn(home.rewake(ACCEPT));
    until(|| runs(&home) == 1);
    home.run(["stop", "@here"]).expect(0);
    agent.wait(LIMIT);
    fs::write(home.path("go"), "").unwrap();
    let shown = home.run(["show", &newest(&home)]).expect(0).stdout;
    assert!(shown.contains(": stopped"), "{shown}");
    let more = ["-c", "-p", "more", "--permission-mode", "acceptEdits"];
    streamed(&home, &more).expect(0);
    assert_eq!(runs(&home), 1, "once for the answer");
    assert!(!home.path("over").exists());
}

#[test]
fn a_check_that_cannot_be_used_is_refused_with_its_place() {
    let home = scripted(&[step("done", &[])]);
    for (text, why) in [
        ("files = \"[\"\ncommand = \"x\"", "which is no glob"),
        ("files = \"*\"\ncommand = \" \"", "has no command"),
        ("files = \"\"\ncommand = \"x\"", "has no files"),
        (
            "files = \"*\"\ncommand = \"x\"\ntimeout_sec = 0",
            "must have 1 to 600",
        ),
        ("files = \"*\"", "missing field `command`"),
        (
            "files = \"*\"\ncommand = \"x\"\nwhen = 1",
            "unknown key \"when\"",
        ),
    ] {
        home.write_config(&format!("{SCRIPTED}[[check]]\n{text}\n"));
        let run = home.run(ACCEPT).expect(2);
        assert!(
            run.stderr.contains(why) && run.stderr.contains("config.toml"),
            "{text}: {run:?}"
        );
    }
}
