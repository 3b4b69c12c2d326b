//! Two processes and one session.

use crate::support::Home;
use crate::support::{ENTER, Terminal};
use crate::{FREE, bash, open_gate, scripted, step, until_gate};

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
fn one_that_is_open_elsewhere_is_watched_live() {
    let (home, first) = working();
    let mut second = Terminal::start(&home, &[]);
    second.sees(&format!("open in process {}", first.id()));
    second.sees("open in process");
    second.answers("Enter watch it", ENTER);
    second.sees("another process works here");
    second.sees("build it");
    open_gate(&home);
    first.sees("So it ended.");
    second.sees("So it ended.");
    second.says("let me in");
    second.sees("another process uses this session");
}

#[test]
fn one_that_is_open_elsewhere_can_be_taken_over() {
    let (home, mut first) = working();
    let mut second = Terminal::start(&home, &[]);
    second.sees("open in process");
    second.answers("Enter watch it", "t");
    first.ends();
    second.answers("y or Enter continue", "y");
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
    second.answers("Enter watch it", "w");
    second.sees("another process works here");
    open_gate(&home);
    second.sees("So it ended.");
    drop(first);
}
