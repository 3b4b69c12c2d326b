//! A session from start to start, with the real binary and a scripted model: signals,
//! outages, forks, folders, and what is said of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;
use std::time::Duration;

use crate::scenes::{play, scripted, stream};
use serde_json::Value;
use support::{self, Answer, Home, Live, Protocol, Run, Says, Server};

const SOON: Duration = Duration::from_secs(90);

/// A home whose model plays these steps.
fn home(script: &str) -> Home {
    scripted(&[script.to_string()])
}

fn says(text: &str) -> String {
    format!("[[step]]\ntext = {text:?}\n")
}

fn calls(tool: &str, arguments: &str) -> String {
    format!("[[step]]\ncalls = [{{ name = {tool:?}, arguments = {arguments} }}]\n")
}

fn bash(command: &str) -> String {
    calls("bash", &format!("{{ command = {command:?} }}"))
}

fn signal(name: &str, pid: u32) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .status();
    assert!(status.unwrap().success());
}

/// Until a line of the stream has this type.
fn wait_for(live: &Live, kind: &str) {
    live.wait_for(SOON, |line| line.contains(&format!("\"type\":\"{kind}\"")));
}

/// The types of the stream's lines.
fn types(run: &Run) -> Vec<String> {
    let events = run.events();
    events
        .iter()
        .map(|e| e["type"].as_str().unwrap().to_string())
        .collect()
}

fn result(run: &Run) -> Value {
    let last = run.events().pop().unwrap();
    assert_eq!(last["type"], "result");
    last
}

/// A run that is killed while its command sleeps.
fn killed_in_a_command(home: &Home) {
    let mut live = stream(home, &["-p", "go", "--yolo"]);
    wait_for(&live, "entry.started");
    // Recorded is not yet running.
    while home.run(["ps"]).expect(0).stdout.is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    live.kill();
    live.wait(SOON);
}

#[test]
fn an_interrupt_also_stops_the_prompt_given_at_start() {
    let home = home(&(bash("sleep 60") + &says("i went on")));
    killed_in_a_command(&home);
    let live = stream(&home, &["-p", "-c", "and then this"]);
    wait_for(&live, "entry.woke");
    signal("INT", live.id());
    let stopped = live.wait(SOON).expect(130);
    let kinds = types(&stopped);
    assert!(kinds.contains(&"entry.stopped".into()), "{kinds:?}");
    assert!(!kinds.contains(&"entry.said".into()), "{kinds:?}");
    // It is kept for the next start.
    let next = home
        .run(["-p", "-c", "--output-format", "stream-json"])
        .expect(0);
    let said: Vec<Value> = next
        .events()
        .into_iter()
        .filter(|e| e["type"] == "entry.said")
        .collect();
    assert_eq!(said[0]["text"], "and then this");
    assert_eq!(result(&next)["result"], "i went on");
}

#[test]
fn a_resumed_session_keeps_the_rules_of_its_folder() {
    let read = |path: &str| format!("{{ name = \"read\", arguments = {{ path = {path:?} }} }}");
    let home = home("");
    let (its, other) = (home.path("its"), home.path("other"));
    for folder in [&its, &other] {
        std::fs::create_dir_all(folder.join(".rewake")).unwrap();
    }
    std::fs::write(
        its.join(".rewake/config.toml"),
        "permissions.deny = [\"Read(private)\"]",
    )
    .unwrap();
    std::fs::write(its.join("private"), "secret of its own\n").unwrap();
    std::fs::write(other.join("b"), "secret of the other\n").unwrap();
    let both = [
        read("private"),
        read(&other.join("b").display().to_string()),
    ]
    .join(", ");
    let second = format!("[[step]]\ncalls = [{both}]\n");
    play(&home, &[says("first"), second, says("end")]);

    let at = |folder: &std::path::Path, args: &[&str]| {
        let mut command = home.rewake(args);
        command.current_dir(folder);
        support::run(command, SOON).expect(0)
    };
    at(&its, &["trust", "--yes"]);
    let first = at(&its, &["-p", "go", "--output-format", "json"]);
    let id = result(&first)["session"].as_str().unwrap().to_string();
    let resumed = at(
        &other,
        &["-p", "more", "-r", &id, "--output-format", "stream-json"],
    );
    let outcomes: Vec<String> = resumed
        .events()
        .iter()
        .filter(|e| e["type"] == "entry.finished")
        .map(|e| e["outcome"]["outcome"].as_str().unwrap().to_string())
        .collect();
    assert_eq!(outcomes, ["denied", "denied"]);
    assert!(!resumed.stdout.contains("secret of"), "{}", resumed.stdout);
}

#[test]
fn a_copy_of_what_owes_an_answer_owes_it_too() {
    let home = home("[[step]]\nfail = { class = \"auth\", tries = 9 }\n");
    home.run(["-p", "go"]).expect(1);
    let id = home.run(["history"]).expect(0).stdout;
    let fork = home.run(["fork", &id[..13]]).expect(0).stdout;
    play(&home, &[says("another")]);
    let next = home.run(["-p", "something else"]).expect(0);
    let told = format!("unfinished here: {}", &fork[..13]);
    assert!(next.stderr.contains(&told), "{}", next.stderr);
}

#[test]
fn an_outage_never_holds_a_session() {
    let down = "[[step]]\nfail = { class = \"network\", tries = 99 }\n";
    let home = home(down);
    home.run(["-p", "go"]).expect(75);
    for _ in 0..4 {
        home.run(["-p", "-c"]).expect(75);
    }
    play(&home, &[says("the network is back")]);
    let back = home.run(["-p", "-c"]).expect(0);
    assert_eq!(back.stdout.trim(), "the network is back");
}

#[test]
fn going_on_gives_turns_again() {
    let look = calls("glob", "{ pattern = \"*\" }");
    let home = home(&(look.repeat(3) + &says("end")));
    home.run(["-p", "go", "--max-turns", "2"]).expect(75);
    let end = home.run(["-p", "-c", "--max-turns", "2"]).expect(0);
    assert_eq!(end.stdout.trim(), "end");
}

#[test]
fn leaving_works_while_a_stop_is_waited_for() {
    let home = home(&bash("touch began; sleep 60"));
    let live = stream(&home, &["-p", "go", "--yolo"]);
    wait_for(&live, "entry.started");
    // A keeper that is stopped before it began is not waited for: the stop takes its claim.
    while !home.path("began").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let keeper = keeper_of(live.id());
    signal("STOP", keeper);
    signal("INT", live.id());
    wait_for(&live, "entry.stopped");
    signal("TERM", live.id());
    let left = live.wait(Duration::from_secs(90));
    signal("CONT", keeper);
    let left = left.expect(143);
    // It did not wait until the stop was given up, which is a result.
    assert!(!left.stdout.contains("entry.finished"), "{}", left.stdout);
    // The next start still stops it.
    home.run(["-p", "-c"]).expect(130);
}

/// Returns the keeper of the command: the child that has a child. The spare keeper has none.
fn keeper_of(pid: u32) -> u32 {
    loop {
        let mut keepers = children(pid).into_iter();
        if let Some(keeper) = keepers.find(|child| !children(*child).is_empty()) {
            return keeper;
        }
    }
}

fn children(pid: u32) -> Vec<u32> {
    let found = Command::new("pgrep")
        .args(["-P", &pid.to_string()])
        .output()
        .unwrap();
    let pids = String::from_utf8_lossy(&found.stdout).into_owned();
    pids.lines().filter_map(|pid| pid.parse().ok()).collect()
}

#[test]
fn a_busy_store_does_not_end_a_stream() {
    let words = "one two three four five six seven eight";
    let home = home(&format!("{}chunk_chars = 5\nchunk_ms = 50\n", says(words)));
    let live = stream(&home, &["-p", "go"]);
    wait_for(&live, "delta.text");
    let other = rusqlite::Connection::open(home.rewake_home().join("rewake.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Longer than a write waits.
    std::thread::sleep(Duration::from_millis(5_500));
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(result(&live.wait(SOON).expect(0))["result"], words);
}

#[test]
fn text_of_a_broken_stream_is_kept_as_a_draft() {
    let server = Server::start(|_| Answer::Cut {
        says: Says::text("word ".repeat(100)),
        after_bytes: 2_000,
    });
    let home = Home::new();
    home.configure(&server, Protocol::Anthropic, "[retry]\ntries = 1\n");
    let cut = home
        .run(["-p", "go", "--output-format", "stream-json"])
        .expect(75);
    let failed = cut
        .events()
        .into_iter()
        .find(|e| e["type"] == "entry.failed");
    let draft = failed.unwrap()["draft"].as_str().unwrap().to_string();
    assert!(draft.starts_with("word word"), "{draft}");
}

#[test]
fn an_answer_that_was_cut_is_continued_and_printed_whole() {
    let cut = format!("{}stop = \"max_tokens\"\n", says("The three "));
    let rest = "when = \"output limit cut your answer\"\n";
    let home = home(&format!("{cut}{}{rest}", says("steps.")));
    let run = home.run(["-p", "go"]).expect(0);
    assert_eq!(run.stdout, "The three steps.\n");
    let again = home.run(["-p", "-c"]).expect(0);
    assert!(again.stdout.is_empty() || again.stdout == run.stdout);
}

#[test]
fn an_answer_that_is_not_whole_is_not_done() {
    let ends = |stop: &str, code: i32| {
        let says = format!("{}stop = {stop:?}\n", says("The three steps are"));
        // One that was cut is continued once.
        let home = home(&says.repeat(1 + usize::from(stop == "max_tokens")));
        let run = home
            .run(["-p", "go", "--output-format", "json"])
            .expect(code);
        assert_eq!(result(&run)["stop"], stop);
        run.stderr
    };
    assert!(ends("max_tokens", 75).contains("rewake -p \"go on\" -r"));
    assert!(ends("refusal", 1).contains("refused"));
    ends("end_turn", 0);
}

/// `script` of util-linux gives a child a terminal; elsewhere it has other arguments.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_gets_no_control_sequences_of_the_model() {
    let home = home("[[step]]\ntext = \"hi \\u001b]0;OWNED\\u0007 bye\"\n");
    let direct = home.rewake(["-p", "go"]);
    let mut command = Command::new("script");
    command
        .args([
            "-qec",
            &format!("{} -p go", direct.get_program().display()),
            "/dev/null",
        ])
        .current_dir(home.workspace())
        .env("HOME", home.user())
        .env("REWAKE_HOME", home.rewake_home())
        .stdin(std::process::Stdio::null());
    let shown = support::run(command, SOON).stdout;
    assert!(shown.contains("hi"), "{shown:?}");
    assert!(!shown.contains("\u{1b}]"), "{shown:?}");
    // A pipe gets it as it is.
    assert!(home.run(["-p", "go"]).stdout.contains("\u{1b}]0;OWNED"));
}

/// Only there it can be known what was ignored at the start.
#[cfg(target_os = "linux")]
#[test]
fn a_hangup_that_is_ignored_stays_ignored() {
    let home = home(&(bash("sleep 1") + &says("ok")));
    let direct = home.rewake(["-p", "go", "--yolo", "--output-format", "stream-json"]);
    let mut command = Command::new("nohup");
    command
        .arg(direct.get_program())
        .args(direct.get_args())
        .current_dir(home.workspace())
        .env("HOME", home.user())
        .env("REWAKE_HOME", home.rewake_home())
        .stdin(std::process::Stdio::null());
    let live = Live::spawn(command);
    wait_for(&live, "entry.started");
    signal("HUP", live.id());
    assert_eq!(result(&live.wait(SOON).expect(0))["result"], "ok");
}

#[test]
fn a_run_that_cannot_record_still_gives_a_result() {
    let home = home(&format!(
        "{}chunk_chars = 1\nchunk_ms = 50\n",
        says("a long answer")
    ));
    let live = stream(&home, &["-p", "go"]);
    wait_for(&live, "delta.text");
    let other = rusqlite::Connection::open(home.rewake_home().join("rewake.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = live.wait(SOON).expect(75);
    assert_eq!(result(&refused)["exit_code"], 75);
}

#[test]
fn the_resume_line_names_a_mode_that_allows_more() {
    let home = home(&(says("first") + &says("second")));
    home.run(["-p", "go", "--yolo"]).expect(0);
    let next = home.run(["-p", "-c", "more"]).expect(0);
    assert!(
        next.stderr.contains("mode bypassPermissions"),
        "{}",
        next.stderr
    );
    let back = home
        .run(["-p", "-c", "again", "--permission-mode", "default"])
        .expect(0);
    assert!(
        !back.stderr.contains("bypassPermissions"),
        "{}",
        back.stderr
    );
}

#[test]
fn a_fork_is_told_by_its_own_id_and_runs_nothing_of_its_origin() {
    let home = home(&(bash("sleep 60") + &says("copy")));
    killed_in_a_command(&home);
    let fork = home
        .run([
            "-p",
            "-c",
            "go on",
            "--fork-session",
            "--output-format",
            "stream-json",
        ])
        .expect(0);
    let id = result(&fork)["session"].as_str().unwrap().to_string();
    let line = format!("forked as {}", &id[..13]);
    assert!(fork.stderr.contains(&line), "{}", fork.stderr);
    assert!(!fork.stderr.contains("still running"), "{}", fork.stderr);
    let run = home.run(["ps"]).expect(0).stdout;
    home.run(["ps", "stop", run.split_whitespace().next().unwrap()])
        .expect(0);
}

#[test]
fn a_session_that_runs_is_in_use_not_unfinished() {
    let home = home("[[step]]\ntext = \"a\"\nchunk_ms = 2000\n");
    let live = stream(&home, &["-p", "first"]);
    wait_for(&live, "entry.said");
    let second = home.run(["-p", "second"]).expect(0);
    assert!(second.stderr.contains("in use here"), "{}", second.stderr);
    assert!(
        !second.stderr.contains("unfinished here"),
        "{}",
        second.stderr
    );
    live.wait(SOON).expect(0);
}

#[test]
fn doctor_leaves_locks_and_old_stores_as_they_are() {
    let home = home(&says("done"));
    home.run(["-p", "go"]).expect(0);
    let locks = home.rewake_home().join("locks");
    let lock = std::fs::read_dir(&locks)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let signed = std::fs::read(&lock).unwrap();
    home.run(["doctor"]);
    assert_eq!(std::fs::read(&lock).unwrap(), signed);
    let store = rusqlite::Connection::open(home.rewake_home().join("rewake.db")).unwrap();
    store.pragma_update(None, "user_version", 9).unwrap();
    let told = home.run(["doctor"]).stdout;
    assert!(told.contains("from before version 0.1.0"), "{told}");
    let version: i64 = store
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version, 9);
}

#[test]
fn faults_are_logged_and_stderr_contains_only_user_messages() {
    let home = home(&says("done"));
    let wrong = home.run(["-p", "go", "-r", "nobody"]).expect(2);
    for line in wrong.stderr.lines() {
        assert!(
            line.starts_with("error: ") || line.starts_with("hint: "),
            "{line}"
        );
    }
    let log = std::fs::read_dir(home.rewake_home().join("log"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let logged = std::fs::read_to_string(log.path()).unwrap();
    assert!(logged.contains("nobody"), "{logged}");
}
