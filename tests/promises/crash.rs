//! On the screen: the unfinished session is offered, its command gives its real end, and a streamed
//! answer is there.

use crate::scenes::pty::*;
use crate::scenes::step;
use support::{ENTER, Terminal};

#[test]
fn a_command_outlives_a_kill_and_gives_its_real_end() {
    let home = working(3);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.says("build the thing");
    terminal.sees("it began");
    terminal.kill();

    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Unfinished sessions in this folder");
    terminal.sees("build the thing");
    terminal.sees("killed");
    terminal.sees("still running");
    terminal.sees("it runs without asking");
    terminal.sees("it began");
    terminal.answers("Enter resume", ENTER);
    terminal.chooses("y");
    terminal.sees("1 command ran on");
    open_gate(&home);
    terminal.sees("the real end");
    terminal.sees("exit 3");
    terminal.sees("So it ended.");
}

#[test]
fn an_answer_cut_off_by_a_kill_is_shown_as_cut() {
    let home = scripted(&[slowly(&"An answer that is long. ".repeat(100))]);
    let terminal = Terminal::start(&home, &["tell me"]);
    terminal.sees("An answer that is lo");
    wait_until_kept(&home, "An answer");
    terminal.kill();
    let whole = step("The one who killed it came in the middle of it all.", &[]);
    std::fs::write(home.rewake_home().join("script.toml"), whole).unwrap();
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("words of an answer that was streaming");
    terminal.answers("Enter resume", ENTER);
    terminal.sees("[cut off here]");
    terminal.sees("in the middle of it all.");
}
