//! A sub-agent asks, and a person who looks at its parent answers.

use serde_json::json;

use support::{Answer, ENTER, Home, Protocol, Says, Seen, Server, Terminal};

const OVER: &str = "So it was made.";

/// The parent gives a task, whose command needs a yes.
fn serves() -> Server {
    Server::start(|seen: &Seen| {
        let is_child = seen.json.to_string().contains("You are a subagent");
        match (is_child, seen.turn) {
            (false, 0) => Answer::call("task", json!({"prompt": "make the file"})),
            (false, _) => Says::text(OVER).into(),
            (true, 0) => {
                let command = json!({"command": "touch made", "access": "full"});
                Answer::call("bash", command)
            }
            (true, _) => Says::text("It is made.").into(),
        }
    })
}

#[test]
fn a_task_asks_on_the_screen_of_its_parent() {
    let server = serves();
    let home = Home::with(&server, Protocol::Chat);
    let mut terminal = Terminal::start(&home, &["have it made"]);
    terminal.sees("The task \"make the file\" asks");
    terminal.sees("touch made");
    assert!(!home.path("made").exists());
    terminal.chooses("y");
    terminal.sees(OVER);
    assert!(home.path("made").exists());
    // Its session stands below that of its parent.
    let history = home.run(["history"]).expect(0).stdout;
    let lines: Vec<&str> = history.lines().collect();
    assert!(lines[1].contains("└ task: make the file"), "{history}");
}

#[test]
fn a_watcher_sees_and_answers_the_question_of_a_subagent() {
    let server = serves();
    let home = Home::with(&server, Protocol::Chat);
    let first = Terminal::start(&home, &["have it made"]);
    first.sees("The task \"make the file\" asks");
    let mut second = Terminal::start(&home, &[]);
    second.sees("open in process");
    second.answers("Enter watch it", ENTER);
    second.sees("another process uses this session");
    second.sees("The task \"make the file\" asks");
    second.chooses("y");
    second.sees(OVER);
    first.sees(OVER);
    assert!(home.path("made").exists());
}
