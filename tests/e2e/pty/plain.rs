//! Lines alone (`--plain`): what a screen reader reads out, and a terminal that cannot be drawn on.

use rewake::store::Store;
use rustix::process::Signal;

use crate::pty::{bash, open_gate, scripted, slowly, step, until_gate, wait_for};
use crate::scenes::{newest, until};
use support::{Home, Terminal, run};

fn plain(home: &Home) -> Terminal {
    Terminal::start(home, &["--plain"])
}

/// Lines and nothing else: no escape sequence, no cursor, no other screen.
#[track_caller]
fn is_only_lines(terminal: &Terminal) {
    let raw = terminal.raw();
    assert!(!raw.contains('\x1b'), "{raw:?}");
    let printed = raw.replace("\r\n", "\n");
    let is_odd = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    assert!(!printed.contains(is_odd), "{printed:?}");
}

/// An answer counts when the question stood there for a moment. It is given again only when it came
/// too early: a second one would answer the next question.
#[track_caller]
pub fn answers(terminal: &mut Terminal, line: &str, then: &str) {
    use std::time::{Duration, Instant};
    let refusals =
        |terminal: &Terminal| terminal.raw().matches("came before you could read").count();
    let end = Instant::now() + Duration::from_secs(90);
    while !terminal.screen().contains(then) {
        assert!(
            Instant::now() < end,
            "{then:?} does not come:\n{}",
            terminal.screen()
        );
        std::thread::sleep(Duration::from_secs(1));
        let refused = refusals(terminal);
        terminal.types(&format!("{line}\r"));
        // The same refusal is not printed twice in a row.
        let again = Instant::now() + Duration::from_secs(20);
        while !terminal.screen().contains(then)
            && refusals(terminal) == refused
            && Instant::now() < again
        {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_conversation_is_lines_that_say_who_speaks() {
    let home = scripted(&[
        step(
            "I will look.\n\n\x1b[31mIn red.",
            &[bash("touch made; echo printed it")],
        ),
        step("All is done.", &[]),
    ]);
    let mut terminal = plain(&home);
    terminal.sees("Ready: describe a task");
    terminal.types("make it\r");
    terminal.sees("You: make it");
    terminal.sees("rewake: I will look.");
    terminal.sees("Question: bash runs a command");
    terminal.sees("touch made; echo printed it");
    terminal.sees("Answer with a line: y yes, this once");
    terminal.sees("Ctrl+C stops the turn");
    answers(&mut terminal, "y", "rewake: All is done.");
    terminal.sees("Done: bash touch made; echo printed it, exit code 0");
    assert!(home.path("made").exists());
    terminal.types("/quit\r");
    assert_eq!(terminal.ends().code(), Some(0));
    is_only_lines(&terminal);
    assert!(terminal.is_cooked());
}

#[test]
fn a_line_typed_before_the_question_does_not_answer_it() {
    let home = scripted(&[step("", &[bash("touch made")]), step("It was denied.", &[])]);
    let mut terminal = plain(&home);
    terminal.sees("Ready");
    terminal.types("make it\ry\r");
    terminal.sees("Question: bash");
    // It was said, or it came too early; an answer it is not.
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert!(!home.path("made").exists());
    answers(&mut terminal, "n use another name", "It was denied.");
    assert!(!home.path("made").exists());
    let shown = home
        .run(["export", "--json", &newest(&home)])
        .expect(0)
        .stdout;
    assert!(shown.contains("use another name"), "{shown}");
}

/// Before that, what is said more goes into the same request.
#[track_caller]
fn until_it_streams(home: &Home) {
    let store = Store::open(&home.rewake_home()).unwrap();
    let streams = || {
        // It is listed from the first words on.
        let newest = store.history().newest(None).unwrap();
        newest.is_some_and(|info| store.inbox().drafts(&info.id).unwrap().stream.is_some())
    };
    until(streams);
}

/// The program that reads the output has stopped reading, as a pager does.
#[test]
fn output_that_nobody_reads_delays_no_signal() {
    let stream = ["-p", "go", "--output-format", "stream-json"];
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        assert_eq!(ended_unread(&["--plain"], signal), code);
        assert_eq!(ended_unread(&["-p", "go"], signal), code);
        assert_eq!(ended_unread(&stream, signal), code);
    }
    // One stops the work, one leaves, and others come while it leaves.
    assert_eq!(ended_unread(&["--plain"], Signal::INT), 0);
    assert_eq!(ended_unread(&["-p", "go"], Signal::INT), 130);
    assert_eq!(ended_unread(&stream, Signal::INT), 130);
}

/// Returns the exit code of a program whose output nobody reads. SIGINT is sent until it ends.
#[track_caller]
fn ended_unread(args: &[&str], signal: Signal) -> i32 {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::io::Write;
    use std::time::{Duration, Instant};
    let home = scripted(&[step(&"many words\n\n".repeat(50_000), &[])]);
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = home.rewake(args);
    command.stdin(std::process::Stdio::piped());
    command.stdout(writer.try_clone().unwrap());
    command.stderr(writer.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    // It is the prompt, or text after it.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"go\n").unwrap();
    let is_prompt = args == ["--plain"];
    let stdin = is_prompt.then_some(stdin);
    let end = Instant::now() + Duration::from_secs(90);
    let moment = Timespec::try_from(Duration::from_millis(50)).unwrap();
    while poll(&mut [PollFd::new(&writer, PollFlags::OUT)], Some(&moment)).unwrap() > 0 {
        assert!(Instant::now() < end, "the pipe does not become full");
        assert_eq!(child.try_wait().unwrap(), None);
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, signal).unwrap();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < end, "{args:?}: {signal:?} does not end it");
        std::thread::sleep(Duration::from_millis(if is_prompt { 20 } else { 400 }));
        if signal == Signal::INT {
            let _ = rustix::process::kill_process(pid, signal);
        }
    };
    drop((reader, stdin));
    home.run(["history"]).expect(0);
    status.code().unwrap()
}

#[test]
fn lines_are_queued_while_it_works_and_ctrl_c_stops() {
    let home = scripted(&[
        slowly(&"a very long answer that takes its time, and then some more. ".repeat(3)),
        step("Second.", &[]),
    ]);
    let mut terminal = plain(&home);
    terminal.sees("Ready");
    terminal.types("first\r");
    until_it_streams(&home);
    terminal.types("then this\r");
    terminal.sees("Queued: then this (1 message)");
    terminal.sees("You: then this");
    terminal.sees("rewake: Second.");
    let home = scripted(&[slowly(&"never ends ".repeat(400)), step("On again.", &[])]);
    let mut terminal = plain(&home);
    terminal.sees("Ready");
    terminal.types("first\r");
    until_it_streams(&home);
    terminal.signal(Signal::INT);
    terminal.sees("stopped by you");
    terminal.types("go on\r");
    terminal.sees("rewake: On again.");
    terminal.types("\x04");
    assert_eq!(terminal.ends().code(), Some(0));
    is_only_lines(&terminal);
}

#[test]
fn a_killed_session_is_offered_as_a_numbered_question() {
    let home = Home::new();
    let gate = until_gate(&home, 3);
    let script = [step("", &[bash(&gate)]), step("Now it is done.", &[])].concat();
    std::fs::write(home.rewake_home().join("script.toml"), script).unwrap();
    home.write_config(crate::pty::FREE);
    let mut terminal = plain(&home);
    terminal.sees("Ready");
    terminal.types("run it\r");
    terminal.sees("Running: bash");
    terminal.sees("it began");
    terminal.kill();
    let mut terminal = plain(&home);
    terminal.sees("Question: unfinished sessions in this folder");
    terminal.sees("1. run it");
    terminal.sees("Offer 1: killed");
    answers(
        &mut terminal,
        "1",
        "Question: This session runs without asking",
    );
    answers(&mut terminal, "y", "Working");
    open_gate(&home);
    terminal.sees("the real end");
    terminal.sees("rewake: Now it is done.");
    is_only_lines(&terminal);
}

/// A home with a session that was killed in a command.
fn killed_in_a_command(then: &[String]) -> Home {
    let home = Home::new();
    let gate = until_gate(&home, 0);
    let script = [&[step("", &[bash(&gate)])], then].concat().concat();
    std::fs::write(home.rewake_home().join("script.toml"), script).unwrap();
    home.write_config(crate::pty::FREE);
    let mut terminal = plain(&home);
    terminal.sees("Ready");
    terminal.types("run it\r");
    terminal.sees("it began");
    terminal.kill();
    home
}

#[test]
fn words_at_the_offer_wait_for_its_answer_and_go_where_it_leads() {
    let home = killed_in_a_command(&[step("The build ran.", &[])]);
    let mut terminal = plain(&home);
    terminal.sees("Question: unfinished sessions in this folder");
    terminal.sees("Anything longer is a message");
    terminal.types("then write the docs\r");
    terminal.sees("Note: kept until you have answered: then write the docs");
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    // The ages of what is offered move meanwhile: it is not printed again for that.
    let asked = terminal
        .screen()
        .matches("unfinished sessions in this")
        .count();
    assert_eq!(asked, 1, "{}", terminal.screen());
    assert_eq!(home.run(["history"]).expect(0).stdout.lines().count(), 1);
    answers(
        &mut terminal,
        "1",
        "Question: This session runs without asking",
    );
    answers(&mut terminal, "y", "Working");
    open_gate(&home);
    terminal.sees("You: then write the docs");
    terminal.sees("rewake: The build ran.");
    assert_eq!(home.run(["history"]).expect(0).stdout.lines().count(), 1);
    is_only_lines(&terminal);
}

#[test]
fn words_at_the_offer_begin_a_new_session_when_that_is_the_answer() {
    let home = killed_in_a_command(&[]);
    let script = step("Something new.", &[]);
    std::fs::write(home.rewake_home().join("script.toml"), script).unwrap();
    let mut terminal = plain(&home);
    terminal.sees("Question: unfinished sessions in this folder");
    terminal.types("say something new\r");
    answers(&mut terminal, "n", "rewake: Something new.");
    assert_eq!(home.run(["history"]).expect(0).stdout.lines().count(), 2);
    open_gate(&home);
}

#[test]
fn a_pipe_that_answers_no_offer_begins_a_new_session() {
    let home = killed_in_a_command(&[]);
    let script = step("Something new.", &[]);
    std::fs::write(home.rewake_home().join("script.toml"), script).unwrap();
    std::fs::write(home.user().join("input"), "say something new\n").unwrap();
    let mut command = home.rewake(["--plain"]);
    command.stdin(std::fs::File::open(home.user().join("input")).unwrap());
    let said = run(command, std::time::Duration::from_secs(60)).expect(0);
    assert!(
        said.stdout.contains("rewake: Something new."),
        "{}",
        said.stdout
    );
    open_gate(&home);
}

#[test]
fn commands_print_what_the_screen_shows() {
    let home = scripted(&[step("Hello.", &[])]);
    let mut terminal = plain(&home);
    terminal.sees("Ready");
    terminal.types("hello\r");
    terminal.sees("rewake: Hello.");
    terminal.types("/status\r");
    terminal.sees("s/play");
    terminal.types("/help\r");
    terminal.sees("/quit: leave; everything is saved");
    terminal.types("/mode plan\r");
    terminal.sees("Note: mode: plan");
    // The session that is open is not among those to be resumed.
    terminal.types("/resume\r");
    terminal.sees("no other session");
    terminal.types("/nonsense\r");
    terminal.sees("there is no command /nonsense");
    terminal.types("!echo it is m''ine > mine; cat mine\r");
    wait_for(&home, "mine");
    terminal.sees("it is mine");
    terminal.types("/quit\r");
    assert_eq!(terminal.ends().code(), Some(0));
    is_only_lines(&terminal);
}

#[test]
fn a_key_that_is_typed_is_not_shown() {
    let home = Home::new();
    // Nobody listens there.
    home.write_config("[providers.anthropic]\nbase_url = \"http://127.0.0.1:9\"\n");
    let mut terminal = plain(&home);
    terminal.sees("Question: rewake has no model yet");
    answers(
        &mut terminal,
        "1",
        "Question: type or paste the key for anthropic",
    );
    terminal.waits("the echo is off", |_| !terminal.is_cooked());
    terminal.types("sk-ant-very-secret-0123456789\r");
    terminal.sees("Ready");
    assert!(terminal.is_cooked());
    // rewake wrote the model itself, and has said so.
    assert!(!terminal.screen().contains("the config was read again"));
    assert!(!terminal.raw().contains("secret"), "{}", terminal.raw());
    let key = std::fs::read_to_string(home.rewake_home().join("keys/anthropic")).unwrap();
    assert_eq!(key.trim(), "sk-ant-very-secret-0123456789");
}

#[test]
fn a_dumb_terminal_gets_lines_and_is_told_so() {
    let home = scripted(&[step("Hello.", &[])]);
    let rewake = home.rewake([] as [&str; 0]);
    let mut command = std::process::Command::new("env");
    command.arg("TERM=dumb").arg(rewake.get_program());
    command.env_clear().current_dir(home.workspace());
    command.envs(rewake.get_envs().filter_map(|(k, v)| Some((k, v?))));
    let mut terminal = Terminal::of(command);
    terminal.sees("TERM=dumb cannot draw a screen: plain lines, as with --plain");
    terminal.sees("Ready");
    terminal.types("hello\r");
    terminal.sees("rewake: Hello.");
    is_only_lines(&terminal);
}

#[test]
fn a_stop_and_an_exit_code_are_each_shown_once() {
    let home = Home::new();
    let script = [
        step("It fails.", &[bash("echo no; exit 3")]),
        step("It takes long.", &[bash(&until_gate(&home, 0))]),
    ];
    std::fs::write(home.rewake_home().join("script.toml"), script.concat()).unwrap();
    home.write_config(crate::pty::FREE);
    let mut terminal = plain(&home);
    terminal.sees("Ready");
    terminal.types("go\r");
    terminal.sees("it began");
    terminal.signal(Signal::INT);
    terminal.sees("Interrupted: bash");
    terminal.waits("it is ready again", |screen| {
        screen.matches("Ready:").count() == 2
    });
    let said = terminal.screen();
    let place = |words: &str| {
        said.find(words)
            .unwrap_or_else(|| panic!("{words}: {said}"))
    };
    assert!(place("Interrupted: bash") < place("tokens"), "{said}");
    assert!(said.contains("\nWorking: Ctrl+C stops"), "{said}");
    assert_eq!(said.matches("topped").count(), 1, "{said}");
    assert_eq!(said.matches("exit code 3").count(), 1, "{said}");
    // It is just being stopped.
    assert!(!said.contains("running commands keep running"), "{said}");
    terminal.types("/help\r");
    terminal.sees("/quit: leave");
    open_gate(&home);
}
