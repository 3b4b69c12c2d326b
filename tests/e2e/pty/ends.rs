//! How it ends: by signals, by a closed window, by its keys; and sleeping meanwhile.

use rustix::process::Signal;

use crate::pty::{FREE, bash, open_gate, scripted, step, turn_ends, until_gate};
use support::Home;
use support::{ENTER, Terminal};

fn working() -> (Home, Terminal) {
    let home = scripted(&[]);
    home.write_config(FREE);
    let steps = [
        step("", &[bash(&until_gate(&home, 0))]),
        step("So it ended.", &[]),
    ];
    std::fs::write(home.rewake_home().join("script.toml"), steps.concat()).unwrap();
    let terminal = Terminal::start(&home, &["build it"]);
    terminal.sees("it began");
    (home, terminal)
}

#[test]
fn a_signal_restores_the_screen_and_prints_how_to_resume() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let (home, mut terminal) = working();
        terminal.signal(signal);
        assert_eq!(terminal.ends().code(), Some(code));
        terminal.sees("to resume: rewake -c");
        assert!(terminal.is_cooked() && !terminal.is_on_other_screen());
        let again = Terminal::start(&home, &["-c"]);
        again.sees("1 command ran on");
        open_gate(&home);
        again.sees("So it ended.");
    }
}

/// A dead ssh link, or a paused window: what draws must not hold up what hears signals.
#[test]
fn a_terminal_that_takes_nothing_holds_no_signal_up() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let home = scripted(&[step("The answer is 42.", &[]), step("It is free.", &[])]);
        let mut terminal = Terminal::start(&home, &["how much is it?"]);
        turn_ends(&terminal, "The answer is 42.");
        terminal.stalls();
        terminal.signal(signal);
        assert_eq!(terminal.ends().code(), Some(code));
        assert!(terminal.is_cooked());
        let again = home.run(["-p", "-c", "and now?"]).expect(0);
        assert!(again.stdout.contains("It is free."), "{}", again.stdout);
    }
}

#[test]
fn a_closed_window_loses_nothing() {
    let (home, mut terminal) = working();
    terminal.types("unsent words");
    terminal.sees("unsent words");
    terminal.close();
    assert_eq!(terminal.ends().code(), Some(129));
    let mut again = Terminal::start(&home, &[]);
    again.sees("interrupted");
    again.sees("still running");
    again.answers("Enter resume", ENTER);
    again.chooses("y");
    again.sees("› unsent words");
    open_gate(&home);
    again.sees("So it ended.");
}

#[test]
fn suspend_and_resume_restore_the_screen_and_the_draft() {
    let home = scripted(&[step("I am awake.", &[])]);
    let script = "\"$0\"; echo it sleeps; read line; fg";
    let mut terminal = Terminal::of(under_shell(&home, script));
    terminal.sees("Describe a task");
    terminal.types("words\x1a");
    terminal.sees("it sleeps");
    assert!(!terminal.is_on_other_screen());
    terminal.types(ENTER);
    terminal.sees("› words");
    assert!(terminal.is_on_other_screen());
    terminal.types(ENTER);
    terminal.sees("I am awake.");
}

#[test]
fn without_the_other_screen_the_conversation_stays() {
    let home = scripted(&[step("The answer is 42.", &[])]);
    let mut terminal = Terminal::start(&home, &["--no-alt-screen", "how much is it?"]);
    turn_ends(&terminal, "The answer is 42.");
    assert!(!terminal.is_on_other_screen());
    terminal.types("\x04");
    assert_eq!(terminal.ends().code(), Some(0));
    terminal.sees("how much is it?");
    terminal.sees("The answer is 42.");
    assert!(terminal.is_cooked());
    assert!(!terminal.raw().contains("\x1b[?1049h"));
}

/// As `rewake stop`, and the screen is left.
#[test]
fn the_time_limit_stops_the_work_and_leaves() {
    let home = scripted(&[]);
    home.write_config(FREE);
    let steps = [step("", &[bash(&until_gate(&home, 0))])];
    std::fs::write(home.rewake_home().join("script.toml"), steps.concat()).unwrap();
    // On a busy machine, too, the work has begun by then.
    let mut terminal = Terminal::start(&home, &["--timeout", "6s", "build it"]);
    assert_eq!(terminal.ends().code(), Some(75));
    terminal.sees("the time limit of --timeout is reached");
    terminal.sees("to resume: rewake -c");
    let id = home.run(["history"]).expect(0).stdout;
    let id = id.split_whitespace().next().unwrap();
    let shown = home.run(["show", id]).expect(0).stdout;
    assert!(shown.contains("stopped by you"), "{shown}");
}

#[test]
fn an_ephemeral_session_is_purged_when_the_screen_is_left() {
    let home = scripted(&[step("The answer is 42.", &[])]);
    let mut terminal = Terminal::start(&home, &["--ephemeral", "how much is it?"]);
    turn_ends(&terminal, "The answer is 42.");
    terminal.types("\x04");
    assert_eq!(terminal.ends().code(), Some(0));
    assert!(!terminal.screen().contains("to resume"));
    let left = home.run(["history"]).expect(0).stdout;
    assert!(!left.contains("how much"), "{left}");
}

/// Until the screen is left in order, the session is recorded as any other.
#[test]
fn an_ephemeral_session_survives_a_kill() {
    let home = scripted(&[step("The answer is 42.", &[])]);
    let mut terminal = Terminal::start(&home, &["--ephemeral", "how much is it?"]);
    terminal.sees("The answer is 42.");
    terminal.signal(Signal::KILL);
    terminal.ends();
    let again = Terminal::start(&home, &["-c"]);
    again.sees("The answer is 42.");
}

#[test]
fn a_closed_output_is_an_error_without_a_panic() {
    let home = scripted(&[]);
    let terminal = Terminal::of(under_shell(&home, "\"$0\" >&-; echo code $?; read line"));
    terminal.sees("the screen needs a terminal");
    terminal.sees("code 2");
    assert!(!terminal.screen().contains("panicked"));
}

/// A shell with jobs, as people have it; `$0` is the program.
fn under_shell(home: &Home, script: &str) -> std::process::Command {
    let program = home.rewake([""; 0]);
    let mut shell = std::process::Command::new("/bin/bash");
    shell
        .args(["--norc", "-mc", script])
        .arg(program.get_program());
    let env = program
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    shell.env_clear().envs(env).current_dir(home.workspace());
    shell
}

#[test]
fn resuming_an_unknown_session_keeps_the_current_one_open() {
    let (home, mut terminal) = working();
    terminal.says("/resume 0000");
    terminal.sees("there is no session");
    open_gate(&home);
    terminal.sees("So it ended.");
}

#[test]
fn the_conversation_stays_in_the_scrollback_when_the_screen_is_left() {
    let home = scripted(&[step("The answer is 42.", &[]), step("And 43.", &[])]);
    let mut terminal = Terminal::start(&home, &["how much is it?"]);
    turn_ends(&terminal, "The answer is 42.");
    terminal.types("\x04");
    assert_eq!(terminal.ends().code(), Some(0));
    assert!(!terminal.is_on_other_screen());
    terminal.sees("how much is it?");
    terminal.sees("The answer is 42.");
    terminal.sees("to resume: rewake -c");
    // A resumed session prints only its new part.
    let mut again = Terminal::start(&home, &["-c", "and the next?"]);
    turn_ends(&again, "And 43.");
    again.types("\x04");
    again.ends();
    again.sees("and the next?");
    assert!(
        !again.screen().contains("The answer is 42."),
        "{}",
        again.screen()
    );
    // As the config says, nothing stays.
    let config = std::fs::read_to_string(home.rewake_home().join("config.toml")).unwrap();
    home.write_config(&config.replace(
        "[providers.s]",
        "[ui]\nscrollback = \"none\"\n[providers.s]",
    ));
    let mut last = Terminal::start(&home, &["-c"]);
    last.sees("And 43.");
    last.types("\x04");
    last.ends();
    last.sees("to resume: rewake -c");
    assert!(!last.screen().contains("And 43."), "{}", last.screen());
}
