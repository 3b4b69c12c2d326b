//! Programs are started with the limit of open files that rewake was started with.

use regex::Regex;

use super::threads::code;

/// What starts programs in another way: processes whose own limit was not raised (keepers and what
/// they become), and programs of the system.
const OTHERS: [&str; 11] = [
    "src/command/keeper.rs",
    "src/command/limited.rs",
    "src/command/on_terminal.rs",
    "src/command/process.rs",
    "src/command/server/child.rs",
    "src/net/browser.rs",
    "src/sandbox/descriptors.rs",
    "src/sandbox/kernel.rs",
    "src/sandbox/stage.rs",
    "src/sandbox/start.rs",
    "src/store/machine.rs",
];

#[test]
fn programs_get_the_limit_of_open_files_from_before() {
    let start = Regex::new(r"\b(Command|Process)::new\(").unwrap();
    let starts: Vec<String> = code()
        .into_iter()
        .filter(|(path, text)| start.is_match(text) && !OTHERS.contains(&path.as_str()))
        .map(|(path, _)| path)
        .collect();
    assert!(starts.is_empty(), "use sandbox::child: {starts:?}");
}
