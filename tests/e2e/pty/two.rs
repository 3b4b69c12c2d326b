//! Two processes and one session.

use rewake::session::objects::entry_line;
use rewake::store::Store;

use crate::pty::{FREE, bash, open_gate, scripted, step, until_gate};
use crate::scenes::newest;
use support::Home;
use support::{ENTER, ESC, Terminal};

fn working() -> (Home, Terminal) {
    let home = scripted(&[]);
    home.write_config(FREE);
    let steps = [
        step("", &[bash(&until_gate(&home, 0))]),
        step("So it ended.", &[]),
        step("And that too.", &[]),
    ];
    std::fs::write(home.rewake_home().join("script.toml"), steps.concat()).unwrap();
    let terminal = Terminal::start(&home, &["build it"]);
    terminal.sees("it began");
    (home, terminal)
}

#[test]
fn a_session_open_in_another_process_can_be_watched_live() {
    let (home, first) = working();
    let mut second = Terminal::start(&home, &[]);
    second.sees(&format!("open in process {}", first.id()));
    second.sees("open in process");
    second.answers("Enter watch it", ENTER);
    second.sees("another process uses this session");
    second.sees("build it");
    open_gate(&home);
    first.sees("So it ended.");
    second.sees("So it ended.");
    // What is said here is said there.
    second.says("let me in");
    first.sees("let me in");
    first.sees("And that too.");
    second.sees("And that too.");
}

/// Words that were said right before the terminal is left are sent all the same.
#[test]
fn words_of_who_looks_on_and_leaves_at_once_are_not_lost() {
    let (home, first) = working();
    let mut second = Terminal::start(&home, &[]);
    second.sees("open in process");
    second.answers("Enter watch it", ENTER);
    second.sees("another process uses this session");
    second.says("let me in");
    second.types("\x04");
    second.ends();
    open_gate(&home);
    first.sees("So it ended.");
    // The other process takes it up when it looks next.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(90);
    while of_origin(&home, "said").is_empty() && std::time::Instant::now() < end {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(of_origin(&home, "said"), ["let me in"]);
}

/// The words of entries of this kind that came from the screen of another process.
fn of_origin(home: &Home, kind: &str) -> Vec<String> {
    let entries = crate::scenes::entries(home, &newest(home), kind).into_iter();
    let entries = entries.filter(|e| e["origin"] == "screen");
    entries
        .map(|e| e["text"].as_str().unwrap_or_default().to_string())
        .collect()
}

/// Esc is none of the other process's business: it leaves, and `/stop` stops.
#[test]
fn esc_leaves_a_watched_session_without_stopping_it() {
    let (home, first) = working();
    let mut second = Terminal::start(&home, &[]);
    second.sees("open in process");
    second.answers("Enter watch it", ENTER);
    second.sees("another process uses this session");
    second.sees("Esc leaves");
    // Words in the box stay.
    second.types("not yet");
    second.sees("not yet");
    second.types(ESC);
    second.sees("your text stays");
    second.types("\x03");
    second.types(ESC);
    second.sees("the other process continues it");
    second.no_longer_sees("another process uses this session");
    open_gate(&home);
    first.sees("So it ended.");
    assert!(entries(&home, "stopped").is_empty());
}

#[test]
fn stop_from_a_watcher_stops_the_other_process() {
    let (home, first) = working();
    let mut second = Terminal::start(&home, &[]);
    second.sees("open in process");
    second.answers("Enter watch it", ENTER);
    second.sees("another process uses this session");
    second.says("/stop");
    second.sees("the other process is told to stop");
    first.sees("stopped by you");
    let stopped = entries(&home, "stopped");
    assert_eq!(stopped.len(), 1, "{stopped:?}");
    assert_eq!(stopped[0]["origin"], "screen");
}

/// A question of the other process is not answered by leaving it, nor is that process stopped.
#[test]
fn leaving_a_question_of_another_process_keeps_it_open() {
    let (home, mut first, mut second) = asking();
    second.sees("touch made");
    second.answers("Enter chooses", ESC);
    second.sees("the other process continues it");
    first.chooses("y");
    first.sees("It is over.");
    assert!(home.path("made").exists());
    assert!(entries(&home, "stopped").is_empty());
}

/// The entries of this kind in the session that was worked in.
fn entries(home: &Home, kind: &str) -> Vec<serde_json::Value> {
    let store = Store::open(&home.rewake_home()).unwrap();
    let kind = format!("entry.{kind}");
    let of = |id: &str| store.load(id).unwrap().1;
    let sessions = store
        .history()
        .page(rewake::store::PageFilter::default(), 50)
        .unwrap();
    let all = sessions.iter().flat_map(|paged| of(&paged.info.id));
    let lines = all.map(|record| entry_line(&record));
    lines.filter(|line| line["type"] == kind).collect()
}

fn asking() -> (Home, Terminal, Terminal) {
    let home = scripted(&[step("", &[bash("touch made")]), step("It is over.", &[])]);
    let first = Terminal::start(&home, &["make it"]);
    first.sees("Run this");
    let mut second = Terminal::start(&home, &[]);
    second.sees("open in process");
    second.answers("Enter watch it", ENTER);
    (home, first, second)
}

#[test]
fn a_watcher_answers_a_question_of_the_other_process() {
    let (home, first, mut second) = asking();
    second.sees("touch made");
    second.chooses("y");
    first.sees("It is over.");
    second.sees("It is over.");
    assert!(home.path("made").exists());
    assert_eq!(of_origin(&home, "decided").len(), 1);
}

#[test]
fn a_question_that_was_answered_there_is_gone_here() {
    let (home, mut first, second) = asking();
    second.sees("touch made");
    second.sees("Run this");
    first.chooses("n");
    first.types(ENTER);
    first.sees("It is over.");
    second.no_longer_sees("Run this");
    assert!(!home.path("made").exists());
    assert!(of_origin(&home, "decided").is_empty());
}

#[test]
fn a_session_open_in_another_process_can_be_taken_over() {
    let (home, mut first) = working();
    let mut second = Terminal::start(&home, &[]);
    second.sees("open in process");
    second.answers("Enter watch it", "t");
    second.answers("Enter take it over", ENTER);
    first.ends();
    second.chooses("y");
    second.sees("1 command ran on");
    open_gate(&home);
    second.sees("So it ended.");
}

#[test]
fn naming_one_that_is_open_elsewhere_offers_to_watch_it() {
    let (home, first) = working();
    let mut second = Terminal::start(&home, &["-c"]);
    second.sees(&format!("open in process {}", first.id()));
    second.sees("open in process");
    second.answers("Enter watch it", ENTER);
    second.sees("another process uses this session");
    open_gate(&home);
    second.sees("So it ended.");
    drop(first);
}
