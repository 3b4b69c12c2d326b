//! Background commands of the model on the screen: their end asks the model again.

use serde_json::json;

use crate::pty::{FREE, open_gate, scripted, slowly, step, until_gate};
use support::{ESC, Home, Terminal};

fn in_background(home: &Home) -> String {
    let command = until_gate(home, 0);
    step(
        "",
        &[("bash", json!({"command": command, "background": true}))],
    )
}

fn plays(answers: impl Fn(&Home) -> Vec<String>) -> Home {
    let home = scripted(&[]);
    home.write_config(FREE);
    let script = answers(&home).concat();
    std::fs::write(home.rewake_home().join("script.toml"), script).unwrap();
    home
}

#[test]
fn the_end_of_a_background_command_asks_the_model_again() {
    let home = plays(|home| {
        let first = step("It runs.", &[]);
        vec![in_background(home), first, step("It has ended.", &[])]
    });
    let terminal = Terminal::start(&home, &["start it"]);
    terminal.sees("It runs.");
    open_gate(&home);
    terminal.sees("It has ended.");
}

#[test]
fn after_esc_the_end_of_a_background_command_asks_nobody() {
    let home = plays(|home| {
        let words = "An answer that the user stops in the middle of its words. ";
        let first = slowly(&words.repeat(40));
        vec![in_background(home), first, step("Nobody asked.", &[])]
    });
    let mut terminal = Terminal::start(&home, &["start it"]);
    terminal.sees("An answer");
    terminal.types(ESC);
    terminal.sees("stopped");
    open_gate(&home);
    terminal.sees("ended in the background");
    terminal.says("and now?");
    terminal.sees("Nobody asked.");
    let log = home.run(["show", "--json"]).stdout;
    assert!(!log.contains("asks_model"), "{log}");
}
