//! The demo shows a crash and needs no key.

use support::{Home, Terminal};

#[test]
fn the_demo_says_what_to_do_next() {
    let home = Home::new();
    let mut terminal = Terminal::start(&home, &["demo"]);
    terminal.sees("nothing ran twice");
    terminal.sees("rewake key PROVIDER");
    terminal.sees("rewake -m ollama/MODEL");
    assert_eq!(terminal.ends().code(), Some(0));
}
