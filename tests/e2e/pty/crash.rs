//! Killed at the worst moment, and started again.

use std::fs::File;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::json;

use crate::pty::{open_gate, scripted, step, wait_until_kept};
use crate::scenes::pty::*;
use support::{ENTER, Terminal};

#[test]
fn the_offer_can_be_left_alone_for_something_new() {
    let home = working(0);
    let terminal = Terminal::start(&home, &["build the thing"]);
    terminal.sees("it began");
    terminal.kill();
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Unfinished sessions in this folder");
    terminal.answers("Enter resume", "n");
    terminal.answers("Enter new session", ENTER);
    terminal.sees("Describe a task");
    open_gate(&home);
}

#[test]
fn words_that_were_not_sent_are_in_the_box_again() {
    let home = working(0);
    let mut terminal = Terminal::start(&home, &["build it"]);
    terminal.sees("it began");
    terminal.types("half a thought");
    terminal.sees("half a thought");
    // They are kept shortly after the last key; what the store has is what is asked.
    wait_until_kept(&home, "half a thought");
    terminal.kill();
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("typed half a thought");
    terminal.answers("Enter resume", ENTER);
    terminal.chooses("y");
    terminal.sees("› half a thought");
    open_gate(&home);
}

#[test]
fn words_typed_in_a_finished_session_are_offered_after_a_kill() {
    let home = scripted(&[step("As you say.", &[])]);
    let mut terminal = Terminal::start(&home, &["begin"]);
    terminal.sees("As you say.");
    terminal.types("half a thought");
    terminal.sees("› half a thought");
    wait_until_kept(&home, "half a thought");
    terminal.kill();
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("half a thought");
    terminal.answers("Enter resume", ENTER);
    terminal.sees("› half a thought");
    // Taken back, they are offered no more.
    terminal.types("\x03");
    terminal.no_longer_sees("› half a thought");
    terminal.types("\x04");
    assert_eq!(terminal.ends().code(), Some(0));
    let terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
}

#[test]
fn words_that_went_along_into_another_session_are_not_offered_in_the_first() {
    // Each start begins the script anew.
    let home = scripted(&[step("So it is.", &[]), step("The other one.", &[])]);
    for words in ["begin one", "begin two"] {
        let mut terminal = Terminal::start(&home, &[]);
        terminal.sees("Describe a task");
        terminal.says(words);
        terminal.sees("So it is.");
        if words == "begin two" {
            terminal.types("along with me");
            terminal.sees("› along with me");
            wait_until_kept(&home, "along with me");
            // F2, the older one, Enter.
            terminal.types("\x1bOQ");
            terminal.sees("begin one");
            terminal.types("\x1b[B");
            terminal.sees("› · begin one");
            terminal.types(ENTER);
            terminal.sees("▌ begin one");
            terminal.sees("› along with me");
            terminal.types(ENTER);
            terminal.sees("The other one.");
        }
        terminal.types("\x04");
        assert_eq!(terminal.ends().code(), Some(0));
    }
    let terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
}

#[test]
fn an_open_question_is_open_again() {
    let home = scripted(&[
        step(
            "",
            &[("write", json!({ "path": "new.txt", "content": "made\n" }))],
        ),
        step("It is written.", &[]),
    ]);
    let terminal = Terminal::start(&home, &["write it"]);
    terminal.sees("Write ");
    terminal.kill();
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Unfinished sessions in this folder");
    terminal.answers("Enter resume", ENTER);
    terminal.sees("Write ");
    assert!(!home.path("new.txt").exists());
    terminal.chooses("y");
    terminal.sees("It is written.");
    assert_eq!(home.read("new.txt"), "made\n");
}

#[test]
fn a_queued_message_outlives_a_kill() {
    let home = working(0);
    let mut terminal = Terminal::start(&home, &["build it"]);
    terminal.sees("it began");
    terminal.says("then the docs");
    terminal.sees("queued: then the docs");
    terminal.kill();
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("1 queued message");
    terminal.answers("Enter resume", ENTER);
    terminal.chooses("y");
    terminal.sees("queued: then the docs");
    open_gate(&home);
    terminal.sees("So it ended.");
    terminal.no_longer_sees("queued:");
}

#[test]
fn a_session_shows_that_it_lives_while_its_command_prints_nothing() {
    let home = working(0);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.says("build the thing");
    terminal.sees("it began");
    let locks = home.rewake_home().join("locks");
    let lock = std::fs::read_dir(locks).unwrap().next().unwrap().unwrap();
    let long_ago = UNIX_EPOCH + Duration::from_secs(1_000_000);
    let file = File::options().write(true).open(lock.path()).unwrap();
    file.set_modified(long_ago).unwrap();
    // What a start counts from when it was killed.
    terminal.waits("the time of the lock does not move", |_| {
        lock.metadata().unwrap().modified().unwrap() > long_ago
    });
    terminal.kill();
    let terminal = Terminal::start(&home, &[]);
    terminal.sees("Unfinished sessions in this folder");
    terminal.waits("it was killed long ago", |screen| {
        screen.contains("killed") && !screen.contains(" d ago")
    });
    open_gate(&home);
}
