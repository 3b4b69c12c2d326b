//! Which session is taken, what is said of it, and how a run that ended early goes on.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::cli::{
    LIMIT, bash, calling, history, newest, play, quiet, refused, results, scripted, shell,
    short_id, step, stream, streamed, until,
};
use crate::scenes::sessions::*;
use support::{Home, Live, Run, run, skip};

fn signal(live: &Live, signal: Signal) {
    let id = i32::try_from(live.id()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
}

#[test]
fn an_unknown_session_is_refused_and_nothing_starts() {
    let home = scripted(&[step("fine", &[])]);
    refused(
        home.run(["-p", "x", "-c"]),
        2,
        &["no session in", "rewake -p"],
    );
    home.run(["-p", "x"]).expect(0);
    let id = newest(&home);
    let commands: [&[&str]; 4] = [
        &["-p", "x", "-r", "ffff"],
        &["-p", "x", "-r", "ffff", "--fork-session"],
        &["show", "ffff"],
        &["fork", "ffff"],
    ];
    for args in commands {
        refused(
            home.run(args),
            2,
            &["no session \"ffff\"", "rewake history"],
        );
    }
    let other = if id.ends_with('f') { 'e' } else { 'f' };
    let near = format!("{}{other}", &id[..id.len() - 1]);
    refused(home.run(["show", near.as_str()]), 2, &[&near]);
    refused(home.run(["show", ""]), 2, &[]);
    refused(home.run(["show", "%"]), 2, &[]);
    assert_eq!(history(&home).len(), 1);
    home.run(["-p", "y", "-r", &id[..8]]).expect(0);
}

#[test]
fn a_beginning_that_fits_several_sessions_is_not_guessed() {
    let home = scripted(&[step("fine", &[])]);
    home.run(["-p", "x"]).expect(0);
    home.run(["-p", "y"]).expect(0);
    refused(home.run(["-p", "z", "-r", "0"]), 2, &["could be any of"]);
}

#[test]
fn resume_reports_that_nothing_is_unfinished() {
    let home = scripted(&[step("fine", &[])]);
    home.run(["-p", "say it"]).expect(0);
    let run = home.run(["-p", "-c"]).expect(0);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("resumed") && run.stderr.contains("\"say it\", done"));
    assert!(
        run.stderr.contains("nothing is unfinished"),
        "{}",
        run.stderr
    );
    let json = home.run(["-p", "-c", "--output-format", "json"]).expect(0);
    assert_eq!(json.events()[0]["exit_code"], 0);
}

/// There the leader of the session of processes has no number.
#[cfg(target_os = "linux")]
#[test]
fn a_session_is_taken_up_in_a_container() {
    const IN_CONTAINER: &str = "unshare --map-root-user --pid --fork --mount-proc";
    let home = scripted(&[step("fine", &[]), step("fine", &[])]);
    home.run(["-p", "say it"]).expect(0);
    let can = shell(&home, &format!("{IN_CONTAINER} true")).output();
    if !can.is_ok_and(|output| output.status.success()) {
        return skip("unshare, and the right to make a namespace of processes");
    }
    let line = format!("{IN_CONTAINER} \"$0\" -p -c 'say it again'");
    let run = run(shell(&home, &line), LIMIT).expect(0);
    quiet(&run);
    assert_eq!(run.stdout, "fine\n");
}

#[test]
fn with_a_prompt_what_is_owed_is_settled_first() {
    let home = long();
    let mut live = busy(&home);
    live.kill();
    live.wait(LIMIT);
    let_go(&home);
    let run = streamed(&home, &["-p", "-c", "and then this"]).expect(0);
    let events = run.events();
    let at = |kind: &str| events.iter().position(|e| e["type"] == kind).unwrap();
    assert!(at("entry.finished") < at("entry.said"));
    assert_eq!(events.last().unwrap()["result"], "finished");
    assert_eq!(home.read("times"), "ran\n");
}

#[test]
fn a_session_in_use_is_never_replaced_by_an_older_one() {
    let home = long();
    home.run(["-p", "the older one", "--max-turns", "1"]);
    let live = busy(&home);
    let id = newest(&home);
    let pid = live.id().to_string();
    for args in [
        &["-p", "x", "-c"][..],
        &["-p", "x", "-r", &id],
        &["-p", "-c"],
    ] {
        let run = refused(home.run(args), 75, &["in use", &pid, "--fork-session"]);
        assert!(!run.stderr.contains("the older one"), "{}", run.stderr);
    }
    let fork = home.run(["-p", "x", "-c", "--fork-session"]).expect(0);
    assert!(fork.stderr.contains("forked"), "{}", fork.stderr);
    let_go(&home);
    live.wait(LIMIT).expect(0);
    assert_eq!(
        home.read("times"),
        "ran\n",
        "a fork does not run what its origin began"
    );
    home.run(["-p", "now it is free", "-r", &id]).expect(0);
}

#[test]
fn two_processes_work_on_one_store_at_once() {
    let steps: Vec<String> = (0..20)
        .map(|n| step("", &[bash(&format!("echo {n}"))]))
        .collect();
    let home = scripted(&[steps, vec![step("done", &[])]].concat());
    let runs: Vec<Live> = (0..3)
        .map(|n| stream(&home, &["-p", &format!("task {n}"), "--yolo"]))
        .collect();
    for run in runs {
        let run = run.wait(LIMIT).expect(0);
        quiet(&run);
        assert_eq!(results(&run).len(), 20);
    }
    assert_eq!(history(&home).len(), 3);
    home.run(["doctor"]).expect(0);
}

#[test]
fn only_one_of_two_concurrent_resumes_gets_the_session() {
    let home = long();
    let mut live = busy(&home);
    live.kill();
    live.wait(LIMIT);
    let both = [stream(&home, &["-p", "-c"]), stream(&home, &["-p", "-c"])];
    until(|| both.iter().any(|live| has_ended(live.id())));
    let_go(&home);
    let codes: Vec<Option<i32>> = both.map(|live| live.wait(LIMIT).code()).into();
    assert!(
        codes.contains(&Some(0)) && codes.contains(&Some(75)),
        "{codes:?}"
    );
    assert_eq!(home.read("times"), "ran\n");
}

/// It may still wait to be reaped.
fn has_ended(id: u32) -> bool {
    let output = std::process::Command::new("ps")
        .args(["-o", "stat=", "-p", &id.to_string()])
        .output();
    let stat = String::from_utf8(output.unwrap().stdout).unwrap();
    stat.trim().is_empty() || stat.starts_with('Z')
}

#[test]
fn the_first_interrupt_stops_the_command_and_the_run() {
    let home = long();
    let live = busy(&home);
    signal(&live, Signal::INT);
    let run = live.wait(LIMIT).expect(130);
    assert!(run.stderr.contains("stopped"), "{}", run.stderr);
    assert!(run.stderr.contains("rewake -p -c"), "{}", run.stderr);
    assert_eq!(results(&run)[0].0, "interrupted");
    let offered = home.run(["-p", "x", "--max-turns", "1"]);
    assert!(
        !offered.stderr.contains("the long task"),
        "who stopped it knows: {}",
        offered.stderr
    );
    let id = history(&home)[1].0.clone();
    let on = home.run(["-p", "go on", "-r", &id]).expect(0);
    assert_eq!(on.stdout, "finished\n");
}

#[test]
fn a_termination_leaves_the_command_running_and_says_so() {
    for (sent, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let home = long();
        let live = busy(&home);
        signal(&live, sent);
        let run = live.wait(LIMIT).expect(code);
        assert!(
            run.stderr.contains("running commands keep running"),
            "{}",
            run.stderr
        );
        let_go(&home);
        let on = streamed(&home, &["-p", "-c"]).expect(0);
        assert!(
            on.stderr.contains("\"the long task\", interrupted "),
            "{}",
            on.stderr
        );
        assert!(results(&on)[0].1.starts_with("over\n"));
        assert_eq!(home.read("times"), "ran\n");
    }
}

#[test]
fn a_session_at_its_turn_limit_can_be_resumed() {
    let home = scripted(&[step("", &[bash("pwd")]), step("finished", &[])]);
    let run: Run = home.run(["-p", "x", "--max-turns", "1"]).expect(75);
    quiet(&run);
    assert!(
        run.stderr.contains("--max-turns raises it"),
        "{}",
        run.stderr
    );
    let id = short_id(&home);
    assert!(
        run.stderr.contains(&format!("rewake -p -r {id}")),
        "{}",
        run.stderr
    );
    assert_eq!(home.run(["-p", "-c"]).expect(0).stdout, "finished\n");
}

#[test]
fn resume_reports_that_a_bypass_mode_is_still_on() {
    let home = scripted(&[step("one", &[]), step("two", &[]), step("three", &[])]);
    home.run(["-p", "x", "--yolo"]).expect(0);
    let on = home.run(["-p", "y", "-c"]).expect(0);
    assert!(on.stderr.contains("bypassPermissions"), "{}", on.stderr);
    let back = home
        .run(["-p", "z", "-c", "--permission-mode", "default"])
        .expect(0);
    assert!(
        !back.stderr.contains("bypassPermissions"),
        "{}",
        back.stderr
    );
    let after = home.run(["-p", "z", "-c"]).expect(0);
    assert!(
        !after.stderr.contains("bypassPermissions"),
        "{}",
        after.stderr
    );
}

#[test]
fn an_empty_id_stops_no_command() {
    let background = json!({"command": "exec sleep 1000", "background": true});
    let home = calling(&[("bash", background)]);
    home.run(["-p", "x", "--yolo"]).expect(0);
    for id in ["", " "] {
        let stop = home.run(["ps", "stop", id]).expect(2);
        assert!(stop.stderr.contains("the id is empty"), "{}", stop.stderr);
        assert!(stop.stderr.contains("rewake ps"), "{}", stop.stderr);
    }
    let listed = home.run(["ps"]).expect(0).stdout;
    let run = listed.split_whitespace().next().unwrap();
    // It still ran, so this one has something to stop.
    let stop = home.run(["ps", "stop", run]).expect(0);
    assert!(stop.stdout.contains("being stopped"), "{}", stop.stdout);
}

#[test]
fn a_background_command_begins_lives_on_and_is_told_of() {
    let background = json!({"command": "touch began; exec sleep 1000", "background": true});
    let home = scripted(&[
        step("", &[("bash", background)]),
        step("done", &[]),
        step("told", &[]),
    ]);
    for _ in 0..5 {
        let run = home.run(["-p", "x", "--yolo"]).expect(0);
        assert!(
            run.stderr.contains("1 background command is still running"),
            "{}",
            run.stderr
        );
    }
    let listed = home.run(["ps"]).expect(0).stdout;
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 5, "{listed}");
    for line in &lines {
        assert!(
            line.contains("background group") && line.contains("exec sleep 1000"),
            "{line}"
        );
        let run = line.split_whitespace().next().unwrap();
        let stop = home.run(["ps", "stop", run]).expect(0);
        assert!(stop.stdout.contains("being stopped"), "{}", stop.stdout);
    }
    until(|| home.run(["ps"]).stdout.is_empty());
    play(&home, &[step("", &[]), step("", &[]), step("told", &[])]);
    let on = streamed(&home, &["-p", "how is it", "-c"]).expect(0);
    let noted = |e: &serde_json::Value| e["type"] == "entry.noted";
    let text = on
        .events()
        .iter()
        .find(|e| noted(e))
        .map(|e| e["text"].to_string());
    assert!(text.unwrap().contains("stopped"));
}

/// A session that is left with an answer owed, and its id.
fn left_with_work_owed(home: &Home, prompt: &str) -> String {
    home.run(["-p", prompt, "--max-turns", "1"]).expect(75);
    short_id(home)
}

fn state_of(home: &Home, id: &str) -> String {
    let lines = history(home);
    let (_, line) = lines.iter().find(|(found, _)| found == id).unwrap();
    line.split("  ").nth(2).unwrap().trim().to_string()
}

#[test]
fn a_dismissed_session_is_not_offered_until_somebody_resumes_it() {
    let home = scripted(&[
        step("", &[bash("true")]),
        step("", &[bash("true")]),
        step("", &[bash("true")]),
    ]);
    let id = left_with_work_owed(&home, "the first task");
    let offer = format!("unfinished here: {id}");
    let new = home.run(["-p", "another", "--max-turns", "1"]);
    assert!(new.stderr.contains(&offer), "{}", new.stderr);

    let said = home.run(["dismiss", &id]).expect(0);
    assert!(
        said.stderr.contains("is not offered again"),
        "{}",
        said.stderr
    );
    assert_eq!(said.stdout, "");
    assert_eq!(state_of(&home, &id), "dismissed");
    let new = home.run(["-p", "a third", "--max-turns", "1"]);
    assert!(!new.stderr.contains(&offer), "{}", new.stderr);
    let again = home.run(["dismiss", &id]).expect(0);
    assert!(
        again.stderr.contains("is already dismissed"),
        "{}",
        again.stderr
    );

    let resumed = home.run(["-p", "-r", &id, "--max-turns", "1"]);
    let line = format!("resumed {id} \"the first task\", dismissed ");
    assert!(resumed.stderr.contains(&line), "{}", resumed.stderr);
    assert_eq!(state_of(&home, &id), "turn limit");
    let again = home.run(["-p", "-r", &id, "--max-turns", "1"]);
    let line = format!("resumed {id} \"the first task\", turn limit ");
    assert!(again.stderr.contains(&line), "{}", again.stderr);
    let new = home.run(["-p", "a fourth", "--max-turns", "1"]);
    assert!(new.stderr.contains(&offer), "{}", new.stderr);
}

#[test]
fn only_what_is_owed_and_what_nobody_works_in_can_be_dismissed() {
    let home = scripted(&[step("fine", &[])]);
    home.run(["-p", "say it"]).expect(0);
    let id = short_id(&home);
    let said = home.run(["dismiss", &id]).expect(0);
    assert!(
        said.stderr.contains("is finished, so it is not offered"),
        "{}",
        said.stderr
    );
    assert_eq!(state_of(&home, &id), "done");
    refused(home.run(["dismiss", "ffff"]), 2, &["no session \"ffff\""]);

    let home = long();
    let mut live = busy(&home);
    let id = newest(&home);
    let held = home.run(["dismiss", &id]);
    assert_ne!(held.code(), Some(0));
    assert!(
        held.stderr.contains("is in use by process"),
        "{}",
        held.stderr
    );
    live.kill();
    live.wait(LIMIT);
    let_go(&home);
}

#[test]
fn forks_are_told_apart_by_what_was_said_last() {
    let home = scripted(&[step("fine", &[]), step("fine", &[]), step("fine", &[])]);
    home.run(["-p", "the task"]).expect(0);
    let id = newest(&home);
    for way in ["with a table", "with a map"] {
        home.run(["-p", "-r", &id, "--fork-session", way]).expect(0);
    }
    home.run(["fork", &id]).expect(0);
    let lines = history(&home);
    let line = |n: usize| lines[n].1.as_str();
    assert!(line(0).contains("the task ⑂ nothing said yet"), "{lines:?}");
    assert!(line(1).contains("the task ⑂ with a map"), "{lines:?}");
    assert!(line(2).contains("the task ⑂ with a table"), "{lines:?}");
    assert!(!line(3).contains('⑂'), "{lines:?}");
}

/// Nobody is there to say yes: it says how, and is no success.
#[test]
fn a_purge_that_nobody_confirmed_removes_nothing_and_fails() {
    let home = scripted(&[step("done", &[])]);
    home.run(["-p", "secret words"]).expect(0);
    let id = newest(&home);
    let run = refused(
        home.run(["purge", &id]),
        2,
        &["nothing was removed", "--yes"],
    );
    assert!(run.stdout.contains("secret words"), "{}", run.stdout);
    assert_eq!(history(&home).len(), 1);
    let run = home.run(["purge", &id, "--yes"]).expect(0);
    assert!(run.stdout.starts_with("removed"), "{}", run.stdout);
    assert_eq!(history(&home).len(), 0);
}

#[test]
fn history_says_when_it_cuts() {
    let home = scripted(&[step("fine", &[])]);
    for _ in 0..3 {
        home.run(["-p", "say it"]).expect(0);
    }
    let listed = home.run(["history", "--limit", "2"]).expect(0);
    assert_eq!(listed.stdout.lines().count(), 2);
    let cut = "the newest 2 sessions; --limit N shows up to 200; page further with";
    assert!(listed.stderr.contains(cut), "{}", listed.stderr);
    for args in [&["history", "--limit", "3"][..], &["history"]] {
        let listed = home.run(args).expect(0);
        assert_eq!(listed.stdout.lines().count(), 3);
        assert!(!listed.stderr.contains("newest"), "{}", listed.stderr);
    }
    let found = home.run(["history", "say it", "--limit", "2"]).expect(0);
    assert_eq!(found.stdout.lines().count(), 2);
    let cut = "the newest 2 entries in 2 sessions; --limit";
    assert!(found.stderr.contains(cut), "{}", found.stderr);
    let found = home.run(["history", "say it"]).expect(0);
    assert!(found.stderr.contains("3 entries in 3 sessions"));
    assert!(!found.stderr.contains("newest"), "{}", found.stderr);
}
