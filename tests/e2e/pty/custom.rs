//! Custom commands on the screen: listed, asked about, said in their order, and said again by
//! nobody who did not trust them.

use serde_json::Value;

use crate::pty::{scripted, step};
use support::{ENTER, Home, Terminal};

fn put(home: &Home, path: &str, text: &str) {
    let path = home.path(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// What was said in the newest session, from its log.
fn said(home: &Home) -> Vec<Value> {
    let history = home.run(["history"]).expect(0).stdout;
    let id = history.split_whitespace().next().unwrap();
    let export = home.run(["export", id, "--json"]).expect(0).stdout;
    let export: Value = serde_json::from_str(&export).unwrap();
    let entries = export["records"].as_array().unwrap().iter();
    let entries = entries.map(|record| record["entry"].clone());
    entries.filter(|entry| entry["kind"] == "said").collect()
}

#[test]
fn a_command_of_the_folder_is_asked_about_and_then_said() {
    let home = scripted(&[step("First answer.", &[]), step("Second answer.", &[])]);
    put(&home, "rules.md", "Never push.\n");
    put(
        &home,
        ".rewake/commands/git/commit.md",
        "---\ndescription: commit as we do\nargument-hint: [message]\n---\nCommit $1, see @rules.md.",
    );
    put(&home, ".rewake/commands/help.md", "mine");
    let mut terminal = Terminal::start(&home, &["hello"]);
    terminal.sees("First answer.");
    terminal.sees("/help is rewake's own");
    terminal.types("/git");
    terminal.sees("/git:commit [message]  commit as we do (project)");
    terminal.types("\tparser");
    terminal.sees("› /git:commit parser");
    terminal.types(ENTER);
    terminal.sees("comes with this folder. Do you trust");
    terminal.sees("Commit $1, see @rules.md.");
    terminal.sees("y trust this text");
    terminal.chooses("y");
    terminal.sees("Second answer.");
    terminal.sees("/git:commit parser");
    terminal.types("\x04");
    assert_eq!(terminal.ends().code(), Some(0));
    let said = said(&home);
    assert_eq!(said[0]["text"], "hello");
    assert_eq!(
        said[1]["text"],
        "Commit parser, see @rules.md.\n\nrules.md:\n```\nNever push.\n```"
    );
    assert_eq!(said[1]["command"]["name"], "git:commit");
    // It is trusted from now on, as long as it says the same.
    home.run(["-p", "/git:commit x"]).expect(0);
}
