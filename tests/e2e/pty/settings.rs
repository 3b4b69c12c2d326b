//! The config is read again when its file changes, and a broken one says so.

use crate::pty::{CONFIG, bash, scripted, step};
use support::{Home, Terminal};

#[test]
fn a_rule_that_is_written_meanwhile_holds() {
    let home = scripted(&[
        step("", &[bash("touch first")]),
        step("", &[bash("touch second")]),
        step("Both are there.", &[]),
    ]);
    let mut terminal = Terminal::start(&home, &["make them"]);
    terminal.sees("Run this");
    home.write_config(&format!(
        "{CONFIG}[permissions]\nallow = [\"Bash(touch second)\"]\n"
    ));
    terminal.sees("the config was read again");
    terminal.types("\x1b[6~");
    terminal.chooses("y");
    terminal.sees("Both are there.");
    assert!(home.path("second").exists());
}

#[test]
fn a_config_that_is_broken_meanwhile_says_what_is_wrong() {
    let home = scripted(&[step("Hello.", &[])]);
    let mut terminal = Terminal::start(&home, &["hello"]);
    terminal.sees("Hello.");
    home.write_config(&format!("shel = 1\n{CONFIG}"));
    terminal.sees("unknown key \"shel\"");
    home.write_config(&format!("theme = \"light\"\n{CONFIG}"));
    terminal.sees("the config was read again");
    terminal.types("still typing");
    terminal.sees("› still typing");
}

/// A home whose rules let the model put another config, which allows all, in the place of the
/// user's, and that user's config. The model does so first, and then plays these answers.
fn rewritten(then: &[String]) -> (Home, String) {
    let home = scripted(&[]);
    let file = |name: &str| home.rewake_home().join(name);
    let (next, config) = (file("next.toml"), file("config.toml"));
    let open = format!("theme = \"light\"\n{CONFIG}[permissions]\nallow = [\"Bash\"]\n");
    std::fs::write(&next, open).unwrap();
    let copy = format!("cp {} {}", next.display(), config.display());
    let first = step("", &[bash(&copy)]);
    std::fs::write(file("script.toml"), [&[first], then].concat().concat()).unwrap();
    let own = format!("{CONFIG}[permissions]\nallow = [\"Bash(cp:*)\"]\n");
    home.write_config(&own);
    (home, own)
}

#[test]
fn config_changes_by_the_session_apply_only_after_reload() {
    let (home, _) = rewritten(&[
        step("", &[bash("touch unasked")]),
        step("Now it is made.", &[]),
        step("", &[bash("touch later")]),
        step("And that.", &[]),
    ]);
    let mut terminal = Terminal::start(&home, &["make it"]);
    terminal.sees("Run this");
    assert!(!home.path("unasked").exists());
    terminal.sees("is not used: /reload reads it");
    terminal.chooses("y");
    terminal.sees("Now it is made.");
    terminal.says("/reload");
    terminal.sees("the config was read again");
    terminal.says("and another");
    terminal.sees("And that.");
    assert!(home.path("later").exists());
}

#[test]
fn a_person_may_change_the_config_while_nothing_runs_and_always_holds_at_any_time() {
    let (home, own) = rewritten(&[
        step("", &[bash("touch first")]),
        step("", &[bash("touch second")]),
        step("Both are there.", &[]),
    ]);
    let mut terminal = Terminal::start(&home, &["make them"]);
    terminal.sees("Run this");
    terminal.sees("is not used: /reload reads it");
    // "Always" is a person's: it holds, and the rest of the file does not come with it.
    terminal.chooses("e");
    terminal.sees("Both are there.");
    let config = std::fs::read_to_string(home.rewake_home().join("config.toml")).unwrap();
    assert!(config.contains("Bash(touch:*)"), "{config}");
    // What it said is back: nothing of the session's is left, and a person's change counts.
    home.write_config(&own);
    terminal.sees("the config was read again");
    home.write_config(&format!("shel = 1\n{own}"));
    terminal.sees("unknown key \"shel\"");
}

#[test]
fn a_workspace_config_changed_in_session_is_reported_untrusted() {
    let home = scripted(&[
        step("Hello.", &[]),
        step("", &[bash("touch unasked")]),
        step("Made.", &[]),
    ]);
    std::fs::create_dir(home.path(".rewake")).unwrap();
    let config = |text: &str| std::fs::write(home.path(".rewake/config.toml"), text).unwrap();
    config("max_turns = 9\n");
    home.run(["trust", "--yes"]).expect(0);
    let mut terminal = Terminal::start(&home, &["hello"]);
    terminal.sees("Hello.");
    config("max_turns = 9\n[permissions]\nallow = [\"Bash\"]\n");
    terminal.sees("it changed since it was trusted");
    terminal.says("make it");
    terminal.sees("Run this");
    assert!(!home.path("unasked").exists());
    terminal.chooses("n");
    // Trusted elsewhere, it holds at once.
    home.run(["trust", "--yes"]).expect(0);
    terminal.sees("the config was read again");
}
