//! Shell commands that the user types with `!`: under a keeper, or with the terminal.

use crate::pty::{open_gate, scripted, step, until_gate, wait_for};
use support::{ENTER, ESC, Terminal};

#[test]
fn output_of_a_user_command_is_shown_while_it_runs() {
    let home = scripted(&[]);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.says(&format!("!{}", until_gate(&home, 3)));
    terminal.sees("it began");
    let listed = home.run(["ps"]).stdout;
    assert!(listed.contains("typed by you"), "{listed}");
    terminal.says("/ps");
    terminal.sees("› echo it be");
    terminal.types(ESC);
    terminal.no_longer_sees("› echo it be");
    open_gate(&home);
    terminal.sees("the real end");
    terminal.sees("exit 3");
    terminal.no_longer_sees("Esc ends it");
}

#[test]
fn a_command_of_the_user_survives_the_death_of_the_agent_and_its_end_is_told() {
    let home = scripted(&[step("I read it.", &[])]);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.says(&format!("!echo x >> ran; {}", until_gate(&home, 3)));
    terminal.sees("it began");
    terminal.kill();

    open_gate(&home);
    let mut terminal = Terminal::start(&home, &["-c"]);
    terminal.sees("the real end");
    terminal.sees("exit 3");
    terminal.says("what came of it?");
    terminal.sees("I read it.");
    assert_eq!(home.read("ran"), "x\n");
    terminal.types("\x04");
    terminal.ends();
    let runs = std::fs::read_dir(home.rewake_home().join("runs")).unwrap();
    assert_eq!(runs.count(), 0, "its run folder stays");
}

#[test]
fn a_user_command_keeps_running_after_the_program_exits() {
    let home = scripted(&[]);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.says(&format!("!{}", until_gate(&home, 0)));
    terminal.sees("it began");
    terminal.types("\x04");
    assert_eq!(terminal.ends().code(), Some(0));
    assert!(home.run(["ps"]).stdout.contains("typed by you"));
    open_gate(&home);
}

/// A program that is of no use without a terminal, in the workspace.
fn interactive(home: &support::Home, body: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let file = home.path("vim");
    std::fs::write(&file, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file.display().to_string()
}

#[test]
fn an_interactive_program_takes_the_terminal_and_gives_it_back() {
    let home = scripted(&[]);
    let program = interactive(
        &home,
        "test -t 0 && test -t 1 && echo have the terminal; read line; echo \"$line\" > read; exit 4",
    );
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.says(&format!("!{program} file"));
    terminal.sees("have the terminal");
    assert!(!terminal.is_on_other_screen());
    terminal.types("typed at it");
    terminal.types(ENTER);
    terminal.sees("exit code 4; what it showed is not known");
    assert!(terminal.is_on_other_screen());
    assert_eq!(home.read("read"), "typed at it\n");
    // Ctrl+C is for the program, and so is any behind two marks.
    terminal.says("!!trap 'exit 5' INT; echo it wa''its; while :; do sleep 0.05; done");
    terminal.sees("it waits");
    terminal.types("\x03");
    terminal.sees("exit code 5; what it showed");
    terminal.types("still here");
    terminal.sees("› still here");
}

#[test]
fn an_interactive_program_ends_with_the_agent_and_that_is_told() {
    let home = scripted(&[]);
    let program = interactive(
        &home,
        "trap 'echo over > over; exit' HUP; echo $$ > child; while :; do sleep 0.05; done",
    );
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.says(&format!("!{program}"));
    wait_for(&home, "child");
    terminal.kill();
    wait_for(&home, "over");
    let terminal = Terminal::start(&home, &["-c"]);
    terminal.sees("it ended with rewake, and how is not known");
}
