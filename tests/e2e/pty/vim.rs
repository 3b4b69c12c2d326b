//! Vim's keys, keys of the config and a very long paste, through a terminal.

use crate::pty::{CONFIG, scripted, step};
use support::{ENTER, ESC, Terminal};

/// Ctrl+E.
const CTRL_E: &str = "\x05";

#[test]
fn vim_is_turned_on_and_off() {
    let home = scripted(&[step("It is done.", &[])]);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.says("/vim");
    terminal.sees("vim's keys are on");
    terminal.types("fix the old parser");
    terminal.sees("fix the old parser");
    terminal.types(ESC);
    terminal.sees("NORMAL");
    terminal.types("bbdwA now");
    terminal.sees("› fix the parser now");
    terminal.no_longer_sees("NORMAL");
    terminal.types(ESC);
    terminal.sees("NORMAL");
    terminal.types(ENTER);
    terminal.sees("It is done.");
    terminal.says("/vim");
    terminal.sees("vim's keys are off");
}

#[test]
fn the_config_turns_vim_on_and_gives_other_keys() {
    let home = scripted(&[]);
    home.write_config(&format!(
        "{CONFIG}[editor]\nmode = \"vim\"\n[keys]\nhelp = \"Ctrl+E\"\nline_end = \"End\"\n\
         expand = \"Ctrl+T\"\nnosuch = \"F5\"\n"
    ));
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.sees(":11: keys.expand: Ctrl+T is the key of fold_thinking");
    terminal.sees(":12: keys.nosuch: unknown action");
    terminal.types(ESC);
    terminal.sees("NORMAL");
    terminal.types(CTRL_E);
    terminal.sees("keys and commands");
    terminal.sees("Ctrl+E");
    let doctor = home.run(["doctor"]).stdout;
    assert!(doctor.contains(":11: keys.expand"), "{doctor}");
    assert!(doctor.contains(":12: keys.nosuch"), "{doctor}");
}

#[test]
fn a_wrong_theme_is_named_with_its_line_and_the_usual_one_is_shown() {
    let home = scripted(&[]);
    home.write_config(&format!("theme = \"nosuch\"\n{CONFIG}"));
    let terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.sees("config.toml:1: there is no theme \"nosuch\"");
    let doctor = home.run(["doctor"]).stdout;
    assert!(
        doctor.contains("config.toml:1: there is no theme"),
        "{doctor}"
    );
}

#[test]
fn a_workspace_cannot_set_keys_or_the_editor() {
    let home = scripted(&[]);
    std::fs::create_dir(home.path(".rewake")).unwrap();
    let config = home.path(".rewake/config.toml");
    std::fs::write(&config, "[keys]\nhelp = \"Ctrl+E\"\n").unwrap();
    home.run(["trust", "--yes"]);
    let doctor = home.run(["doctor"]).stdout;
    assert!(
        doctor.contains("only your own config says it: keys.help"),
        "{doctor}"
    );
    std::fs::write(&config, "editor.mode = \"vim\"\n").unwrap();
    let doctor = home.run(["doctor"]).stdout;
    assert!(
        doctor.contains("only your own config says it: editor.mode"),
        "{doctor}"
    );
    let terminal = Terminal::start(&home, &[]);
    terminal.sees("not used, since only your own config says it");
}

#[test]
fn a_megabyte_that_is_pasted_is_a_placeholder_and_is_sent_whole() {
    let home = scripted(&[step("I have all of it.", &[])]);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    let pasted: String = (0..)
        .map(|line| format!("line {line} of the long paste\n"))
        .take(35_000)
        .collect();
    assert!(pasted.len() > 1_000_000);
    terminal.types(&format!("\x1b[200~{pasted}\x1b[201~"));
    terminal.sees("[Pasted text #1 +35000 lines]");
    terminal.types(ENTER);
    terminal.sees("I have all of it.");
    let history = home.run(["history"]).expect(0).stdout;
    let newest = history.split_whitespace().next().unwrap();
    let log = home.run(["export", newest, "--json"]).expect(0).stdout;
    let sent = serde_json::to_string(pasted.trim_end()).unwrap();
    assert!(log.contains(&sent), "the log has another text");
}
