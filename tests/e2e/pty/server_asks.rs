//! A server asks in the middle of a call: a form on the screen that outlives kills.

use serde_json::json;

use crate::pty::plain::answers;
use crate::pty::{scripted, step};
use support::{ENTER, Home, Terminal, spoken};

const SERVER: &str = spoken::ITSELF;

/// In the way of 2025-11-25, and in that of 2026-07-28.
const WAYS: [(&str, &str); 2] = [("asks_old", "old"), ("asks", "new")];

/// A model that calls this tool of a server once.
fn calls(tool: &str, mode: &str) -> Home {
    calls_until(tool, mode, None)
}

/// The same. The call is over when it got its answer, and this file of the workspace is there.
fn calls_until(tool: &str, mode: &str, file: Option<&str>) -> Home {
    let home = scripted(&[]);
    let until = file.map(|file| home.path(file));
    let arguments = json!({ "file": home.path("effects"), "text": "one", "until": until });
    let call = json!({ "tool": format!("mcp__far__{tool}"), "arguments": arguments });
    let steps = [
        step("", &[("mcp_find", json!({ "query": "" }))]),
        step("I will ask it.", &[("mcp_call", call)]),
        step("It is over.", &[]),
    ];
    let place = home.rewake_home();
    std::fs::write(place.join("script.toml"), steps.concat()).unwrap();
    let tools =
        json!([{ "name": tool, "description": "Asks", "inputSchema": { "type": "object" } }]);
    std::fs::write(place.join("tools.json"), tools.to_string()).unwrap();
    let program = place.join("server");
    std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &program).unwrap();
    home.write_config(&format!(
        "model = \"s/play\"\nsandbox.enabled = false\n[permissions]\nallow = [\"mcp__far\"]\n\
         [providers.s]\nprotocol = \"script\"\nscript = \"script.toml\"\n\
         [mcp_servers.far]\ncommand = {}\nargs = {}\n\
         [mcp_servers.far.env]\n{} = \"{mode}\"\n{} = {}\n",
        json!(program),
        json!(spoken::arguments(SERVER)),
        spoken::ASKED,
        spoken::TOOLS,
        json!(place.join("tools.json")),
    ));
    home
}

fn fill_in(terminal: &mut Terminal) {
    terminal.answers("Enter sends", "ada");
    terminal.sees("ada");
    terminal.answers("Enter sends", ENTER);
}

fn was_done_once(home: &Home) {
    assert_eq!(home.read("effects"), "one\n");
}

fn resumed(home: &Home) -> Terminal {
    let mut terminal = Terminal::start(home, &[]);
    terminal.sees("Unfinished sessions in this folder");
    terminal.answers("Enter resume", ENTER);
    terminal
}

#[test]
fn a_form_that_was_open_at_a_kill_is_shown_again_and_its_answer_gives_the_real_result() {
    for (tool, mode) in WAYS {
        let home = calls(tool, mode);
        let mut terminal = Terminal::start(&home, &["do it"]);
        terminal.sees("The server far asks you");
        terminal.sees("who are you?");
        terminal.answers("Enter sends", "half");
        terminal.sees("half");
        terminal.kill();

        let mut terminal = resumed(&home);
        terminal.sees("The server far asks you");
        fill_in(&mut terminal);
        terminal.sees("answered by you: name \"ada\"");
        terminal.sees("It is over.");
        terminal.sees("accept");
        was_done_once(&home);
    }
}

#[test]
fn a_kill_between_the_answer_and_the_result_asks_nobody_again() {
    for (tool, mode) in WAYS {
        let home = calls_until(tool, mode, Some("go"));
        let mut terminal = Terminal::start(&home, &["do it"]);
        terminal.sees("The server far asks you");
        fill_in(&mut terminal);
        terminal.sees("answered by you: name \"ada\"");
        assert!(!terminal.screen().contains("It is over."));
        terminal.kill();
        std::fs::write(home.path("go"), "").unwrap();

        let terminal = resumed(&home);
        terminal.waits("it is not over", |screen| {
            assert!(!screen.contains("asks you"), "{screen}");
            screen.contains("It is over.")
        });
        was_done_once(&home);
    }
}

#[test]
fn a_watcher_fills_in_the_form_and_it_closes_for_the_asker() {
    let home = calls("asks_old", "old");
    let first = Terminal::start(&home, &["do it"]);
    first.sees("The server far asks you");
    let mut second = Terminal::start(&home, &[]);
    second.sees("open in process");
    second.answers("Enter watch it", ENTER);
    second.sees("The server far asks you");
    fill_in(&mut second);
    first.sees("It is over.");
    assert!(!first.screen().contains("asks you"));
    second.sees("It is over.");
    second.sees("answered by you (screen): name \"ada\"");
    was_done_once(&home);
}

#[test]
fn in_plain_lines_it_is_asked_field_by_field() {
    let home = calls("asks", "new");
    let mut terminal = Terminal::start(&home, &["--plain", "do it"]);
    terminal.sees("Question: the server far asks you, 1 field:");
    terminal.sees("who are you?");
    terminal.sees("Field 1 of 1: name (text)");
    answers(&mut terminal, "/later", "put aside");
    terminal.types("\r");
    answers(&mut terminal, "ada", "Send this?");
    terminal.sees("  name: ada");
    answers(&mut terminal, "y", "It is over.");
    was_done_once(&home);
    assert!(!terminal.raw().contains('\x1b'));
}

/// A question of the model is such a form, with room for own words.
#[test]
fn a_question_of_the_model_that_was_open_at_a_kill_is_shown_again() {
    let options = json!([{"label": "SQLite", "description": "one file"}, {"label": "PostgreSQL"}]);
    let question = json!({"question": "Which database?", "header": "Database", "options": options});
    let call = ("ask_user", json!({ "questions": [question] }));
    let home = scripted(&[step("I need to know.", &[call]), step("Then I begin.", &[])]);
    let terminal = Terminal::start(&home, &["build it"]);
    terminal.sees("The agent asks you");
    terminal.sees("1. ( ) SQLite: one file");
    terminal.kill();

    let mut terminal = resumed(&home);
    terminal.sees("Which database?");
    terminal.answers("Enter sends", "2");
    terminal.sees("2. (•) PostgreSQL");
    terminal.answers("Enter sends", "SQLite for now");
    terminal.sees("In your own words: SQLite for now");
    terminal.answers("Enter sends", ENTER);
    terminal.sees("Then I begin.");
    let id = home.run(["history"]).expect(0).stdout;
    let id = id.split_whitespace().next().unwrap();
    let shown = home.run(["show", id]).expect(0).stdout;
    assert!(
        shown.contains("Database: in their own words: SQLite for now"),
        "{shown}"
    );
    assert_eq!(shown.matches(" asked in call ").count(), 1, "{shown}");
}

/// In lines too nothing is answered by an empty line.
#[test]
fn in_plain_lines_each_question_of_the_model_is_answered_or_skipped() {
    let options = json!([{"label": "SQLite", "description": "one file"}, {"label": "PostgreSQL"}]);
    let questions = json!([
        {"question": "Which database?", "header": "Database", "options": options},
        {"question": "Which port?", "header": "Port"},
        {"question": "Where?", "header": "Place", "options": [{"label": "here"}, {"label": "there"}]},
    ]);
    let call = ("ask_user", json!({ "questions": questions }));
    let home = scripted(&[step("", &[call]), step("Then I begin.", &[])]);
    let mut terminal = Terminal::start(&home, &["--plain", "build it"]);
    terminal.sees("Question: the agent asks you, 3 questions:");
    terminal.sees("Question 1 of 3: Database");
    answers(
        &mut terminal,
        "",
        "answer with a number or in your own words",
    );
    answers(&mut terminal, "2", "Question 2 of 3: Port");
    terminal.types("skip\r");
    terminal.sees("Question 3 of 3: Place");
    terminal.types("neither\r");
    terminal.sees("Send this?");
    terminal.sees("Port: skipped");
    terminal.types("y\r");
    terminal.sees("Then I begin.");
    let id = home.run(["history"]).expect(0).stdout;
    let id = id.split_whitespace().next().unwrap();
    let shown = home.run(["show", id]).expect(0).stdout;
    for answer in [
        "Database: PostgreSQL",
        "Port: not answered",
        "Place: in their own words: neither",
    ] {
        assert!(shown.contains(answer), "{answer}: {shown}");
    }
}
