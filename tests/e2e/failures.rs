//! What a test that fails leaves to read: one page.

use std::path::Path;
use std::process::Command;

use support::page::{COLUMNS, LINES};
use support::{Answer, Home, Protocol, Seed, Server, Terminal};

/// Set for the process whose test fails.
const FAILS: &str = "REWAKE_TEST_FAILS";

#[test]
fn fails_if_asked() {
    if std::env::var_os(FAILS).is_none() {
        return;
    }
    let _seed = Seed::new(7, "REWAKE_KILL_SEED=7".into());
    let server = Server::start(|_| Answer::text("the model answers"));
    let home = Home::with(&server, Protocol::Chat);
    let terminal = Terminal::start(&home, &["the user asks"]);
    terminal.sees("the model answers");
    panic!("on purpose");
}

#[test]
fn a_failure_prints_one_page() {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "failures::fails_if_asked"]);
    let run = program.env(FAILS, "1").output().unwrap();
    assert_eq!(run.status.code(), Some(101), "{run:?}");
    let text = String::from_utf8(run.stdout).unwrap();
    let page: Vec<&str> = text.lines().skip_while(|l| !l.starts_with("== ")).collect();
    let end = page.iter().position(|line| line.is_empty());
    let page = &page[..end.expect("the end of the page")];
    assert!(page.len() <= LINES, "{text}");
    assert!(page.iter().all(|l| l.chars().count() <= COLUMNS), "{text}");
    let parts = [
        ("== last frame of the terminal", "the model answers"),
        ("== entries of the newest session", "the user asks"),
        (
            "== last request to the model",
            "POST /v1/chat/completions: 200",
        ),
        ("== replay it with", "REWAKE_KILL_SEED=7"),
    ];
    for (title, words) in parts {
        let part = page.iter().skip_while(|line| **line != title).skip(1);
        let mut part = part.take_while(|line| !line.starts_with("== "));
        assert!(part.any(|line| line.contains(words)), "{title}: {text}");
    }
    let of_answer = |line: &&str| line.contains(" replied ") && line.contains("the model answers");
    assert!(page.iter().any(of_answer), "{text}");
    let at = page.iter().position(|line| *line == "== the rest is in");
    let folder = Path::new(page[at.expect("a folder") + 1]);
    assert!(folder.join("rewake/config.toml").exists(), "{text}");
    std::fs::remove_dir_all(folder).unwrap();
}
