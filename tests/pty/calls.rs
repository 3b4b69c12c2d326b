//! A person who looks elsewhere is called, and the window's title.

use crate::support::{Home, Terminal};
use crate::{CONFIG, bash, scripted, step, wait_for};

const OUT_OF_FOCUS: &str = "\x1b[O";

/// It asks about a command, in a terminal that takes OSC 9.
fn asking(home: &Home, keys: &str) -> Terminal {
    let mut command = home.rewake([] as [&str; 0]);
    command.env("TERM_PROGRAM", "WezTerm");
    let mut terminal = Terminal::of(command);
    terminal.sees("Say what is to be done");
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
fn who_looks_elsewhere_is_called_when_it_asks() {
    let home = home("");
    let terminal = asking(&home, OUT_OF_FOCUS);
    for written in ["\x1b]9;asks: run it\x07", "\x1b]0;rewake: asks: run it"] {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !terminal.raw().contains(written) {
            assert!(std::time::Instant::now() < end, "{written:?} does not come");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn who_looks_at_it_is_not_called() {
    let home = home("[notify]\ncommand = [\"sh\", \"-c\", \"echo called > called\"]\n");
    let mut terminal = asking(&home, "");
    terminal.answers("Enter chooses", "y");
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
    terminal.answers("Enter chooses", "y");
    terminal.sees("Done.");
}

#[test]
fn the_title_of_the_window_comes_back() {
    let home = home("");
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Say what is to be done");
    terminal.types("\x04");
    terminal.ends();
    let raw = terminal.raw();
    let kept = raw.find("\x1b[22;0t").expect("the title is not kept");
    let back = raw
        .rfind("\x1b[23;0t")
        .expect("the title is not given back");
    assert!(kept < back);
}
