//! What a person is asked: that it is seen as it is, and that only an answer is one.

use serde_json::json;

use crate::pty::{FREE, bash, scripted, slowly, step, wait_until_kept};
use support::{ENTER, Home, Terminal};

const OSC: &str = "true \u{1b}]0;touch x; true \u{7}";
const SEEN: &str = "true ␛]0;touch x; true ␇";

fn asks_once(command: &str) -> Home {
    scripted(&[step("", &[bash(command)]), step("It is over.", &[])])
}

/// Of a test: the screen must go on at once, so what did not happen by then will not.
fn nothing_was_decided(terminal: &Terminal, home: &Home) {
    assert!(!terminal.screen().contains("It is over."));
    assert!(!home.path("made").exists());
}

#[test]
fn keys_typed_before_the_question_is_armed_go_to_the_box() {
    let home = asks_once("touch made");
    let mut terminal = Terminal::start(&home, &["make it"]);
    terminal.sees("Run this");
    terminal.types("yyya");
    terminal.sees("› yyya");
    terminal.sees("Tab puts your words aside");
    nothing_was_decided(&terminal, &home);
    let config = std::fs::read_to_string(home.rewake_home().join("config.toml")).unwrap();
    assert!(!config.contains("permissions"), "{config}");
    terminal.types("\t");
    terminal.chooses("y");
    terminal.sees("It is over.");
    assert!(home.path("made").exists());
    terminal.sees("› yyya");
}

#[test]
fn every_byte_of_a_command_is_seen_and_exported() {
    let home = asks_once(OSC);
    let mut terminal = Terminal::start(&home, &["do it"]);
    terminal.sees("Run this");
    terminal.sees(SEEN);
    terminal.chooses("n");
    terminal.types(ENTER);
    terminal.sees("It is over.");
    terminal.types("\x04");
    terminal.ends();
    let id = home.run(["history"]).expect(0).stdout;
    let id = id.split_whitespace().next().unwrap();
    home.run(["export", id, "-o", "told.md"]).expect(0);
    let told = home.read("told.md");
    assert!(told.contains(SEEN), "{told}");
    let shown = home.run(["show", id]).expect(0).stdout;
    assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown}");
    let headless = asks_once(OSC);
    headless.write_config(FREE);
    let ran = headless.run(["-p", "go"]).expect(0);
    assert!(ran.stderr.contains(SEEN), "{}", ran.stderr);
}

#[test]
fn every_byte_of_a_file_is_seen() {
    let edit = json!({ "path": "a.sh", "edits": [{ "old": "true", "new": OSC }] });
    for call in [
        ("write", json!({ "path": "b.sh", "content": OSC })),
        ("edit", edit),
    ] {
        let read = step("", &[("read", json!({ "path": "a.sh" }))]);
        let home = scripted(&[read, step("", &[call]), step("It is over.", &[])]);
        std::fs::write(home.path("a.sh"), "true\n").unwrap();
        let terminal = Terminal::start(&home, &["do it"]);
        terminal.sees(&format!("+ {SEEN}"));
    }
}

#[test]
fn blanks_hide_nothing() {
    for (blank, mark) in [
        (" ".repeat(3_000), "⟨3,000 spaces⟩"),
        ("\n".repeat(120), "⟨120 line breaks⟩"),
    ] {
        let home = asks_once(&format!("true;{blank}touch made"));
        let mut terminal = Terminal::start(&home, &["do it"]);
        terminal.sees("· 2 commands");
        terminal.sees(mark);
        terminal.sees("touch made");
        terminal.chooses("y");
        terminal.sees("It is over.");
        assert!(home.path("made").exists());
    }
}

#[test]
fn the_end_of_a_long_command_is_seen_before_a_yes() {
    let lines: String = (0..200).map(|n| format!("true {n}\n")).collect();
    let home = asks_once(&format!("{lines}touch made"));
    let mut terminal = Terminal::start(&home, &["do it"]);
    terminal.sees("scroll to the end first");
    terminal.types("\x1b[6~");
    terminal.sees("true 20");
    terminal.types("\x1b[F");
    terminal.chooses("y");
    terminal.sees("It is over.");
}

/// Killed in the middle of an answer, with one session here. The next answer is a whole one.
fn killed(config: &str) -> Home {
    let home = scripted(&[slowly(&"An answer that is long. ".repeat(100))]);
    home.write_config(config);
    let terminal = Terminal::start(&home, &["tell me"]);
    terminal.sees("An answer that is lo");
    wait_until_kept(&home, "An answer");
    terminal.kill();
    let whole = step("The one who killed it came in the middle of it all.", &[]);
    std::fs::write(home.rewake_home().join("script.toml"), whole).unwrap();
    home
}

fn sessions(home: &Home) -> usize {
    home.run(["history"]).expect(0).stdout.lines().count()
}

#[test]
fn keys_typed_before_the_card_is_shown_go_to_the_box() {
    let home = killed(crate::pty::CONFIG);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.types("f\r");
    terminal.sees("Unfinished sessions in this folder");
    terminal.sees("in the box: f");
    assert_eq!(sessions(&home), 1, "no copy was made");
    terminal.types("\t");
    terminal.answers("Enter resume", ENTER);
    terminal.sees("[cut off here]");
    terminal.sees("› f");
}

#[test]
fn a_session_without_approvals_continues_only_when_confirmed() {
    let home = killed(FREE);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("bypassPermissions");
    terminal.answers("Enter resume", ENTER);
    terminal.types(ENTER);
    terminal.sees("This session runs without asking");
    terminal.chooses("n");
    terminal.sees("waiting · Enter continues");
    // What is kept of it meanwhile, and any other news, is no word to go on.
    terminal.types("half a thought");
    wait_until_kept(&home, "half a thought");
    terminal.sees("waiting · Enter continues");
    assert!(!terminal.screen().contains("middle of it all"));
    terminal.types("\x15");
    terminal.no_longer_sees("half a thought");
    terminal.types(ENTER);
    terminal.sees("in the middle of it all.");
}

#[test]
fn a_copy_waits_for_a_word() {
    let home = scripted(&[step("First answer.", &[]), step("Second answer.", &[])]);
    let mut terminal = Terminal::start(&home, &["first question"]);
    terminal.sees("First answer.");
    terminal.says("second question");
    terminal.sees("Second answer.");
    let id = home.run(["history"]).expect(0).stdout;
    let id = id.split_whitespace().next().unwrap();
    let shown = home.run(["show", id]).expect(0).stdout;
    let asked = shown.lines().find(|l| l.contains("you: second question"));
    let at = asked
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .to_string();
    // Behind a question that has no answer there.
    terminal.says(&format!("/fork {at}"));
    terminal.sees(&format!("forked from {id}"));
    terminal.sees("waiting · Enter continues");
    terminal.types("half a thought");
    wait_until_kept(&home, "half a thought");
    terminal.sees("waiting · Enter continues");
    terminal.types("\x15");
    terminal.no_longer_sees("half a thought");
    terminal.sees("waiting · Enter continues");
    assert!(!terminal.screen().contains("Second answer."));
    terminal.types(ENTER);
    terminal.sees("Second answer.");
}
