//! Going back from the screen: the bytes on the disk, back and forth, and through a kill.

use std::fs;

use serde_json::json;

use crate::pty::{FREE, bash, scripted, step};
use support::{ENTER, ESC, Home, Terminal};

const DOWN: &str = "\x1b[B";

/// What the model writes, what a command changes, and a file of the person.
fn home() -> Home {
    let home = scripted(&[
        step("", &[("read", json!({ "path": "tool" }))]),
        step(
            "",
            &[
                ("write", json!({ "path": "tool", "content": "by tool\n" })),
                ("write", json!({ "path": "made", "content": "by tool\n" })),
                bash("echo by bash > shell; echo by bash > new"),
            ],
        ),
        step("It is done.", &[]),
        step("It went on.", &[]),
    ]);
    home.write_config(FREE);
    for path in ["tool", "shell", "hand"] {
        fs::write(home.path(path), "before\n").unwrap();
    }
    home
}

fn all(home: &Home) -> [Option<String>; 5] {
    ["tool", "made", "shell", "new", "hand"].map(|path| fs::read_to_string(home.path(path)).ok())
}

fn some(texts: [&str; 5]) -> [Option<String>; 5] {
    texts.map(|text| (!text.is_empty()).then(|| text.to_string()))
}

const AFTER: [&str; 5] = [
    "by tool\n",
    "by tool\n",
    "by bash\n",
    "by bash\n",
    "by hand\n",
];

/// A session in which it was done, and a person saved a file since.
fn played(home: &Home) -> Terminal {
    let mut terminal = Terminal::start(home, &[]);
    terminal.sees("Describe a task");
    terminal.says("do it");
    terminal.sees("It is done.");
    terminal.sees("Describe a task");
    fs::write(home.path("hand"), "by hand\n").unwrap();
    terminal
}

/// To the list of what would change.
fn list(terminal: &mut Terminal, downs: usize) {
    // At once: twice is within half a second.
    terminal.types(&ESC.repeat(2));
    terminal.sees("rewind to before");
    terminal.types(ENTER);
    terminal.sees("nothing leave everything as it is");
    terminal.types(&DOWN.repeat(downs));
    terminal.types(ENTER);
    terminal.sees("Changed outside of rewake");
}

#[test]
fn files_go_back_and_forth_with_their_bytes() {
    let home = home();
    let mut terminal = played(&home);
    list(&mut terminal, 2);
    terminal.sees("restores 2 files, removes 1, keeps 2");
    // The lines of the first path.
    terminal.types(ENTER);
    terminal.sees("-by tool");
    terminal.types(ESC);
    terminal.sees("y restore");
    assert_eq!(all(&home), some(AFTER));
    // What a command made goes too when that is said.
    terminal.types(&DOWN.repeat(3));
    terminal.answers("y restore", "t");
    terminal.sees("restores 2 files, removes 2, keeps 1");
    terminal.answers("y restore", "y");
    terminal.answers("Enter restores", ENTER);
    terminal.sees("2 files restored, 2 removed");
    let back = some(["before\n", "", "before\n", "", "by hand\n"]);
    assert_eq!(all(&home), back);
    terminal.sees("Describe a task");
    terminal.types("/redo");
    terminal.types(ENTER);
    terminal.sees("Redo: take the last rewind back");
    terminal.sees("restores 4 files");
    terminal.answers("y restore", "y");
    terminal.answers("Enter restores", ENTER);
    terminal.sees("4 files restored");
    assert_eq!(all(&home), some(AFTER));
    does_not_go_on(&terminal);
}

#[test]
fn undo_takes_the_last_message_back_and_redo_brings_it_again() {
    let home = home();
    let mut terminal = played(&home);
    terminal.types("/undo");
    terminal.types(ENTER);
    terminal.sees("Rewind files and conversation to before: do it");
    terminal.answers("y rewind", "y");
    terminal.answers("Enter rewinds", ENTER);
    terminal.sees("2 files restored, 1 removed");
    let back = some(["before\n", "", "before\n", "by bash\n", "by hand\n"]);
    assert_eq!(all(&home), back);
    // The words are in the box, and nothing is done before they are sent.
    terminal.sees("› do it");
    terminal.no_longer_sees("It is done.");
    does_not_go_on(&terminal);
    terminal.types("\x03");
    terminal.sees("Describe a task");
    terminal.types("/redo");
    terminal.types(ENTER);
    terminal.sees("Redo: take the last rewind back");
    terminal.answers("y restore", "y");
    terminal.answers("Enter restores", ENTER);
    terminal.sees("It is done.");
    assert_eq!(all(&home), some(AFTER));
}

const MANY: usize = 2_000;

fn many(home: &Home, n: usize) -> std::path::PathBuf {
    home.path(format!("d/{n}"))
}

/// Folders in which a rewind lays out what it restores.
fn staged(home: &Home) -> usize {
    let names = fs::read_dir(home.workspace()).unwrap().flatten();
    let is_staged = |e: &fs::DirEntry| e.file_name().to_string_lossy().contains("-restore-");
    names.filter(is_staged).count()
}

/// A rewind of many files, killed in the middle. `None`: it was over before the kill.
fn cut_off() -> Option<Home> {
    let script = "for f in d/*; do echo new > $f; done";
    let home = scripted(&[
        step("", &[bash(script)]),
        step("It is done.", &[]),
        step("It went on.", &[]),
    ]);
    home.write_config(FREE);
    fs::create_dir(home.path("d")).unwrap();
    for n in 0..MANY {
        fs::write(many(&home, n), format!("old {n}\n")).unwrap();
    }
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.says("do it");
    terminal.sees("It is done.");
    terminal.sees("Describe a task");
    terminal.types("/undo");
    terminal.types(ENTER);
    terminal.sees("restores 2,000 files");
    terminal.answers("y rewind", "y");
    terminal.answers("Enter rewinds", ENTER);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(90);
    while staged(&home) == 0 {
        if terminal.screen().contains("files restored") {
            return None;
        }
        assert!(std::time::Instant::now() < end, "nothing is set back");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    terminal.kill();
    (staged(&home) == 1).then_some(home)
}

#[test]
fn the_next_start_completes_a_rewind_cut_off_by_a_kill() {
    let home = (0..10).find_map(|_| cut_off());
    let home = home.expect("it was over before each kill");
    let terminal = Terminal::start(&home, &["-c"]);
    terminal.sees("2,000 files restored");
    terminal.sees("› do it");
    does_not_go_on(&terminal);
    assert_eq!(staged(&home), 0);
    for n in 0..MANY {
        let text = fs::read_to_string(many(&home, n)).unwrap();
        assert_eq!(text, format!("old {n}\n"));
    }
}

/// The model is not asked again by itself.
#[track_caller]
fn does_not_go_on(terminal: &Terminal) {
    std::thread::sleep(std::time::Duration::from_millis(300));
    let screen = terminal.screen();
    assert!(!screen.contains("It went on."), "{screen}");
}
