//! How it is started: folders, prompts, standard input, and what the words mean.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cli::{LIMIT, history, newest, quiet, refused, scripted, shell, step};
use support::{Home, Protocol, Run, Says, Server, run};

fn fine() -> Home {
    scripted(&[step("fine", &[])])
}

/// With this on standard input.
fn piped(home: &Home, args: &[&str], input: impl AsRef<[u8]>) -> Run {
    let file = home.user().join("input");
    std::fs::write(&file, input).unwrap();
    let mut command = home.rewake(args);
    command.stdin(std::fs::File::open(file).unwrap());
    run(command, LIMIT)
}

#[test]
fn a_command_that_is_mistyped_is_named() {
    let home = fine();
    let said = |args: &[&str]| home.run(args.iter().copied()).expect(2).stderr;
    let near = |args: &[&str]| said(args).contains("hint: did you mean \"show\"?");
    assert!(near(&["shwo", "0197"]), "{}", said(&["shwo", "0197"]));
    // A flag of the subcommand that was meant.
    assert!(said(&["histroy", "--all-of-it"]).contains("did you mean \"history\"?"));
    // Words that are like no command, and a prompt in quotes.
    assert!(!said(&["fix", "it"]).contains("did you mean"));
    assert!(!said(&["show me the tests", "now"]).contains("did you mean"));
}

#[test]
fn a_folder_that_cannot_be_worked_in_is_named() {
    let home = fine();
    std::fs::write(home.path("file"), "").unwrap();
    refused(
        home.run(["-p", "x", "-C", "nowhere"]),
        2,
        &["nowhere", "no such folder"],
    );
    refused(
        home.run(["-p", "x", "-C", "file"]),
        2,
        &["file", "not a folder"],
    );
    std::fs::create_dir(home.path("sub")).unwrap();
    home.run(["-p", "x", "-C", "sub/../sub/"]).expect(0);
    let lines = history(&home);
    assert!(lines[0].1.ends_with("/sub"), "{lines:?}");
}

#[test]
fn a_missing_working_folder_is_reported_unless_another_is_given() {
    let home = fine();
    let gone = |args: &str| {
        let line = format!("mkdir gone; cd gone; rmdir ../gone; exec \"$0\" -p x {args}");
        run(shell(&home, &line), LIMIT)
    };
    refused(gone(""), 2, &["working folder", "-C"]);
    let named = gone("-C \"$OLDPWD\"").expect(0);
    assert_eq!(named.stdout, "fine\n");
}

/// With `--plain` a pipe is as good as a keyboard: what it says is done before it ends.
#[test]
fn a_pipe_of_lines_is_worked_off() {
    let home = scripted(&[step("first answer", &[]), step("second answer", &[])]);
    let said = piped(&home, &["--plain"], "hello\n/mode plan\nand again\n").expect(0);
    for line in [
        "You: hello",
        "rewake: first answer",
        "Note: mode: plan",
        "You: and again",
    ] {
        assert!(said.stdout.contains(line), "{}", said.stdout);
    }
    assert!(!said.stdout.contains('\u{1b}'));
}

#[test]
fn without_a_terminal_and_without_p_it_is_a_mistake() {
    let home = fine();
    refused(home.run(["do it"]), 2, &["rewake -p"]);
    refused(home.run([""; 0]), 2, &["rewake -p"]);
    refused(home.run(["-c"]), 2, &["rewake -p"]);
    assert_eq!(history(&home), []);
}

#[test]
fn an_empty_prompt_is_nothing_to_do() {
    let home = fine();
    refused(home.run(["-p", ""]), 2, &["empty"]);
    refused(home.run(["-p", " \n\t "]), 2, &["empty"]);
    refused(piped(&home, &["-p"], "\n"), 2, &["empty"]);
    assert_eq!(history(&home), []);
}

#[test]
fn a_subcommand_wins_over_a_prompt_and_dashes_end_the_options() {
    let home = fine();
    assert!(
        home.run(["history"])
            .expect(0)
            .stderr
            .contains("no sessions")
    );
    for prompt in [
        &["-p", "history"][..],
        &["-p", "--", "ps"],
        &["-p", "--", "--yolo"],
    ] {
        assert_eq!(home.run(prompt).expect(0).stdout, "fine\n");
    }
    let titles: Vec<String> = history(&home).into_iter().map(|(_, line)| line).collect();
    for (line, title) in titles.iter().zip(["--yolo", "ps", "history"]) {
        assert!(line.contains(&format!("  {title}  ")), "{line}");
    }
}

#[test]
fn arguments_that_make_no_sense_are_wrong_usage() {
    let home = fine();
    let table: [(&[&str], &str); 10] = [
        (&["-p", "a", "b"], "two prompts"),
        (&["-p", "x", "--frok"], "--frok"),
        (&["--output-format", "json", "x"], "--print"),
        (&["-p", "x", "--output-format", "yaml"], "stream-json"),
        (&["-p", "x", "--fork-session"], "--continue"),
        (&["-p", "x", "--max-turns", "0"], "--max-turns"),
        (&["-p", "-r"], "needs the id"),
        (&["-p", "x", "-c", "-r", "1"], "--resume"),
        (
            &["-p", "x", "--yolo", "--permission-mode", "plan"],
            "--yolo",
        ),
        (&["history", "--yolo"], "--yolo"),
    ];
    for (args, word) in table {
        let run = home.run(args).expect(2);
        quiet(&run);
        assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
        assert!(run.stderr.contains(word), "{args:?}: {}", run.stderr);
        // A program that reads JSON gets the error as JSON too.
        match args.contains(&"json") {
            true => assert!(run.stdout.starts_with('{'), "{}", run.stdout),
            false => assert_eq!(run.stdout, ""),
        }
    }
    assert_eq!(history(&home), []);
}

/// A server that says how many bytes it was told by the user.
fn counting() -> (Server, Arc<AtomicUsize>) {
    let bytes = Arc::new(AtomicUsize::new(0));
    let tool_results = Arc::clone(&bytes);
    let server = Server::start(move |seen| {
        tool_results.store(seen.user.len(), Ordering::Relaxed);
        Says::text(format!(
            "[{}]",
            seen.user.chars().take(40).collect::<String>()
        ))
        .into()
    });
    (server, bytes)
}

#[test]
fn piped_input_follows_the_prompt_or_replaces_it() {
    let (server, _) = counting();
    let home = Home::with(&server, Protocol::Chat);
    assert_eq!(
        piped(&home, &["-p", "look"], "at this").expect(0).stdout,
        "[look\n\nat this]\n"
    );
    assert_eq!(piped(&home, &["-p"], "alone").expect(0).stdout, "[alone]\n");
    server.assert_no_violations();
}

/// No window holds it: the model gets head, tail and the address, and nothing is lost.
#[test]
fn a_prompt_of_five_megabytes_is_kept_whole() {
    let (server, bytes) = counting();
    let home = Home::with(&server, Protocol::Anthropic);
    let long = format!("{}the end", "0123456789".repeat(500_000));
    quiet(&piped(&home, &["-p"], &long).expect(0));
    let sent = bytes.load(Ordering::Relaxed);
    assert!((10_000..100_000).contains(&sent), "{sent} bytes were sent");
    let id = newest(&home);
    let shown = home.run(["show", &id]).expect(0).stdout;
    assert!(shown.contains(&long), "all of it is in the log");
    server.assert_no_violations();
}

#[test]
fn more_than_ten_mebibytes_are_refused_before_anything_begins() {
    let home = fine();
    let big = vec![b'x'; (10 << 20) + 1];
    refused(piped(&home, &["-p", "look"], &big), 2, &["10 MiB", "file"]);
    assert_eq!(history(&home), []);
    piped(&home, &["-p"], &big[..10 << 20]).expect(0);
}

#[test]
fn bytes_that_are_no_text_are_shown_and_not_lost() {
    let (server, _) = counting();
    let home = Home::with(&server, Protocol::Gemini);
    let run = piped(&home, &["-p"], b"a\0b \xff c").expect(0);
    assert_eq!(run.stdout, "[a\u{2400}b \u{fffd} c]\n");
    server.assert_no_violations();
}

#[test]
fn a_closed_standard_input_is_none() {
    let home = fine();
    let closed = shell(&home, "exec \"$0\" -p x <&-");
    assert_eq!(run(closed, LIMIT).expect(0).stdout, "fine\n");
}

#[test]
fn a_folder_without_a_repository_can_be_worked_in() {
    let server = Server::start(|seen| {
        let here = seen.system.contains("(no git)");
        Says::text(if here { "no git" } else { "git" }).into()
    });
    let home = Home::with(&server, Protocol::Chat);
    assert_eq!(home.run(["-p", "x"]).expect(0).stdout, "no git\n");
}
