//! The config is read again when its file changes, and a broken one says so.

use crate::support::Terminal;
use crate::{CONFIG, bash, scripted, step};

#[test]
fn a_rule_that_is_written_meanwhile_holds() {
    let home = scripted(&[
        step("", &[bash("touch first")]),
        step("", &[bash("touch second")]),
        step("Both are there.", &[]),
    ]);
    let mut terminal = Terminal::start(&home, &["make them"]);
    terminal.sees("bash asks");
    home.write_config(&format!(
        "{CONFIG}[permissions]\nallow = [\"Bash(touch second)\"]\n"
    ));
    terminal.types("\x1b[6~");
    terminal.answers("Enter chooses", "y");
    terminal.sees("Both are there.");
    assert!(home.path("second").exists());
}

#[test]
fn a_config_that_is_broken_meanwhile_says_what_is_wrong() {
    let home = scripted(&[step("Hello.", &[])]);
    let mut terminal = Terminal::start(&home, &["hello"]);
    terminal.sees("Hello.");
    home.write_config(&format!("shel = 1\n{CONFIG}"));
    terminal.sees("unknown key \"shel\"");
    home.write_config(&format!("theme = \"light\"\n{CONFIG}"));
    terminal.sees("the config was read again");
    terminal.types("still typing");
    terminal.sees("> still typing");
}
