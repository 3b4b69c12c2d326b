//! A person who looks elsewhere is called, and the window's title.

use crate::pty::{CONFIG, bash, scripted, step, wait_for};
use crate::scenes::until;
use support::{Home, Terminal};

const OUT_OF_FOCUS: &str = "\x1b[O";

/// It asks about a command, in a terminal that takes OSC 9.
fn asking(home: &Home, keys: &str) -> Terminal {
    let mut command = home.rewake([] as [&str; 0]);
    command.env("TERM_PROGRAM", "WezTerm");
    let mut terminal = Terminal::of(command);
    terminal.sees("Describe a task");
    terminal.types(keys);
    terminal.says("run it");
    terminal.sees("touch made");
    terminal
}

fn home(more: &str) -> Home {
    let home = scripted(&[step("", &[bash("touch made")]), step("Done.", &[])]);
    home.write_config(&CONFIG.replace("[providers.s]", &format!("{more}[providers.s]")));
    home
}

#[test]
fn an_unfocused_terminal_is_notified_of_a_question() {
    let home = home("");
    let terminal = asking(&home, OUT_OF_FOCUS);
    for written in ["\x1b]9;asks: run it\x07", "\x1b]0;rewake: asks: run it"] {
        until(|| terminal.raw().contains(written));
    }
}

#[test]
fn a_focused_terminal_is_not_notified() {
    let home = home("[notify]\ncommand = [\"sh\", \"-c\", \"echo called > called\"]\n");
    let mut terminal = asking(&home, "");
    terminal.chooses("y");
    terminal.sees("Done.");
    assert!(!terminal.raw().contains("\x1b]9;"));
    assert_eq!(home.read("called"), "");
}

#[test]
fn a_command_of_the_users_own_is_given_the_text_and_never_waited_for() {
    let script = "printf '%s|%s|%s' \"$REWAKE_EVENT\" \"$REWAKE_TEXT\" \"$1\" > called; sleep 1000";
    let home = home(&format!(
        "[notify]\nmethod = \"none\"\ncommand = [\"sh\", \"-c\", {script:?}, \"sh\"]\n"
    ));
    let mut terminal = asking(&home, OUT_OF_FOCUS);
    wait_for(&home, "called");
    assert_eq!(home.read("called"), "approval|asks: run it|asks: run it");
    assert!(!terminal.raw().contains("\x1b]9;"));
    // Nothing waits for it.
    terminal.chooses("y");
    terminal.sees("Done.");
}

/// It looks elsewhere and is called by a command that hangs, and so does what that started: the
/// two processes.
fn called_by_what_hangs() -> (Home, Terminal, Vec<String>) {
    let script = "sleep 1000 & echo $$ $! > called.part; mv called.part called; wait";
    let home = home(&format!(
        "[notify]\nmethod = \"none\"\ncommand = [\"sh\", \"-c\", {script:?}]\n"
    ));
    let terminal = asking(&home, OUT_OF_FOCUS);
    wait_for(&home, "called");
    let pids = home.read("called");
    let pids = pids.split_whitespace().map(str::to_string).collect();
    (home, terminal, pids)
}

#[track_caller]
fn all_end(pids: &[String]) {
    let runs = |pid: &String| {
        let stat = std::process::Command::new("ps")
            .args(["-o", "stat=", "-p", pid])
            .output();
        let stat = String::from_utf8(stat.unwrap().stdout).unwrap();
        !stat.trim().is_empty() && !stat.trim().starts_with('Z')
    };
    until(|| !pids.iter().any(runs));
}

#[test]
fn a_command_that_hangs_ends_with_all_that_it_started() {
    let (_home, _terminal, pids) = called_by_what_hangs();
    assert_eq!(pids.len(), 2);
    all_end(&pids);
}

#[test]
fn a_command_that_hangs_does_not_outlive_rewake() {
    let (_home, mut terminal, pids) = called_by_what_hangs();
    terminal.types("\x04");
    terminal.ends();
    all_end(&pids);
    // Nor one that is killed.
    let (_home, terminal, pids) = called_by_what_hangs();
    terminal.kill();
    all_end(&pids);
}

#[test]
fn changed_notify_settings_apply_at_once() {
    let home = home("[notify]\non = []\ncommand = [\"sh\", \"-c\", \"echo called > called\"]\n");
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.types(OUT_OF_FOCUS);
    let config = std::fs::read_to_string(home.rewake_home().join("config.toml")).unwrap();
    home.write_config(&config.replace("on = []\n", ""));
    terminal.sees("the config was read again");
    terminal.says("run it");
    wait_for(&home, "called");
}

#[test]
fn the_title_of_the_window_comes_back() {
    let home = home("");
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.types("\x04");
    terminal.ends();
    let raw = terminal.raw();
    let kept = raw.find("\x1b[22;0t").expect("the title is not kept");
    let back = raw
        .rfind("\x1b[23;0t")
        .expect("the title is not given back");
    assert!(kept < back);
}
