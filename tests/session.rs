//! A session from start to start, with the real binary and a scripted model: signals,
//! outages, forks, folders, and what is said of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use support::{Home, Live, Run};

const SOON: Duration = Duration::from_secs(30);

/// A home whose model plays these steps.
fn home(script: &str) -> Home {
    let home = Home::new();
    home.write_config(
        "model = \"s/x\"\n[providers.s]\nprotocol = \"script\"\nscript = \"s.toml\"\n",
    );
    play(&home, script);
    home
}

fn play(home: &Home, script: &str) {
    std::fs::write(home.rewake_home().join("s.toml"), script).unwrap();
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
    let mut live =
        Live::spawn(home.rewake(["-p", "go", "--yolo", "--output-format", "stream-json"]));
    wait_for(&live, "entry.started");
    live.kill();
    live.wait(SOON);
}

#[test]
fn one_interrupt_stops_also_what_was_asked_with_the_start() {
    let home = home(&(bash("sleep 60") + &says("i went on")));
    killed_in_a_command(&home);
    let live = Live::spawn(home.rewake([
        "-p",
        "-c",
        "and then this",
        "--output-format",
        "stream-json",
    ]));
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
fn a_session_is_under_the_rules_of_its_own_folder_wherever_it_is_resumed() {
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
    play(
        &home,
        &format!(
            "{}[[step]]\ncalls = [{both}]\n{}",
            says("first"),
            says("end")
        ),
    );

    let at = |folder: &std::path::Path, args: &[&str]| {
        let mut command = home.rewake(args);
        command.current_dir(folder);
        support::run(command, SOON).expect(0)
    };
    at(&its, &["trust"]);
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
    play(&home, &says("another"));
    let next = home.run(["-p", "something else"]).expect(0);
    let told = format!("unfinished here: {}", &fork[..13]);
    assert!(next.stderr.contains(&told), "{}", next.stderr);
}
