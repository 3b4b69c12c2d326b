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

/// The title of the window and the report are those of the present state, for a terminal that takes
/// reports.
#[test]
fn a_terminal_that_takes_reports_has_the_status() {
    let home = home("");
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    assert!(terminal.raw().contains("\x1b]7501;?\x1b\\"));
    assert!(!terminal.raw().contains("\x1b]7501;state="));
    terminal.types("\x1b]7501;?\x1b\\");
    until(|| {
        terminal
            .raw()
            .contains("\x1b]7501;state=idle:app=rewake:title=")
    });
    terminal.says("run it");
    terminal.sees("touch made");
    // `run it` in base64.
    let asks = "\x1b]7501;state=blocked:kind=permission:app=rewake:title=cnVuIGl0\x1b\\";
    until(|| terminal.raw().contains(asks));
    terminal.chooses("y");
    terminal.sees("Done.");
    for written in [
        "\x1b]7501;state=done:app=rewake:title=cnVuIGl0\x1b\\",
        "\x1b]0;rewake: done: run it\x07",
    ] {
        until(|| terminal.raw().contains(written));
    }
    terminal.types("\x04");
    terminal.ends();
    let raw = terminal.raw();
    let last = raw.rfind("\x1b]7501;state=").unwrap();
    assert!(raw[last..].starts_with("\x1b]7501;state=clear\x1b\\"));
}

#[test]
fn a_terminal_that_does_not_answer_gets_no_report() {
    let home = home("");
    let mut terminal = asking(&home, "");
    terminal.chooses("y");
    terminal.sees("Done.");
    until(|| terminal.raw().contains("\x1b]0;rewake: done: run it\x07"));
    terminal.types("\x04");
    terminal.ends();
    assert!(!terminal.raw().contains("\x1b]7501;state="));
}

fn with_status(home: &Home, script: &str) {
    let ui = format!("[ui]\nstatus_command = {script:?}\n[providers.s]");
    home.write_config(&CONFIG.replace("[providers.s]", &ui));
}

#[test]
fn a_status_line_of_the_users_own_is_shown_without_its_sequences() {
    let home = home("");
    with_status(
        &home,
        "cat > part; mv part seen; printf '\\n\\033[31mred\\033[0m \\033]0;stolen\\007line\\nsecond\\n'",
    );
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("red line");
    assert!(!terminal.screen().contains("second"));
    assert!(!terminal.raw().contains("\x1b]0;stolen"));
    terminal.says("run it");
    terminal.sees("touch made");
    until(|| home.read("seen").contains("run it"));
    let seen: serde_json::Value = serde_json::from_str(&home.read("seen")).unwrap();
    let folder = home.workspace().canonicalize().unwrap();
    assert_eq!(seen["hook_event_name"], "Status");
    assert_eq!(seen["session_name"], "run it");
    assert_eq!(seen["model"]["id"], "s/play");
    assert_eq!(seen["model"]["display_name"], "play");
    assert_eq!(seen["workspace"]["current_dir"], folder.to_str().unwrap());
    assert_eq!(seen["cwd"], folder.to_str().unwrap());
    assert!(seen["cost"]["total_duration_ms"].is_u64());
    assert!(seen["context_window"]["used_percentage"].is_u64());
}

#[test]
fn a_changed_status_command_applies_at_once() {
    let home = home("");
    with_status(&home, "echo the first one");
    let terminal = Terminal::start(&home, &[]);
    terminal.sees("the first one");
    with_status(&home, "echo the second one");
    terminal.sees("the second one");
    with_status(&home, "");
    terminal.no_longer_sees("the second one");
}

#[test]
fn a_status_command_that_hangs_is_ended_and_holds_nothing_up() {
    let home = home("");
    with_status(&home, "echo run >> runs; sleep 1000");
    let mut terminal = asking(&home, "");
    terminal.chooses("y");
    terminal.sees("Done.");
    wait_for(&home, "runs");
    terminal.sees("status_command failed: did not end within 5 s");
    with_status(&home, "exit 3");
    terminal.sees("status_command failed: exit status: 3, nothing printed");
    with_status(&home, "printf '\\033[31moops\\nmore\\n' >&2; exit 3");
    terminal.sees("status_command failed: exit status: 3: oops");
    // More errors than a pipe holds end nothing.
    with_status(&home, "yes | head -c 200000 >&2; echo it went on");
    terminal.sees("it went on");
}

/// A process that left the group has the pipe open until the end of the test.
#[test]
fn a_status_command_with_a_process_that_stays_is_followed_by_others() {
    let home = home("");
    std::fs::write(home.path("here"), "").unwrap();
    let stays = "setsid sh -c 'while test -e here; do sleep 0.1; done' &";
    with_status(&home, &format!("{stays} echo the first one"));
    let terminal = Terminal::start(&home, &[]);
    terminal.sees("the first one");
    with_status(&home, "echo the second one");
    terminal.sees("the second one");
}

#[test]
fn a_folder_names_no_status_command() {
    let home = home("");
    std::fs::create_dir(home.path(".rewake")).unwrap();
    let own = "[ui]\nstatus_command = \"echo run > runs\"\n";
    std::fs::write(home.path(".rewake/config.toml"), own).unwrap();
    home.run(["trust", "--yes"]);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("since only your own config says it: ui.status_command");
    terminal.says("run it");
    terminal.sees("touch made");
    terminal.chooses("y");
    terminal.sees("Done.");
    assert_eq!(home.read("runs"), "");
}
