//! Prompts and resources of servers (MCP) at the keyboard: completed, sent, and kept when the server
//! does not answer.

use serde_json::json;

use crate::pty::{CONFIG, scripted, step, wait_until_kept};
use support::{ENTER, Home, Terminal, spoken};

fn home() -> Home {
    home_with(&[step("First answer.", &[]), step("Second answer.", &[])])
}

fn home_with(steps: &[String]) -> Home {
    let home = scripted(steps);
    let program = std::env::current_exe().unwrap();
    let args = spoken::arguments(spoken::ITSELF);
    home.write_config(&format!(
        "{CONFIG}[permissions]\nallow = [\"mcp__far\"]\n[mcp_servers.far]\ncommand = {:?}\nargs = {args:?}\n[mcp_servers.far.env]\n{} = \"offers\"\n",
        program.to_str().unwrap(),
        spoken::ASKED,
    ));
    home
}

#[test]
fn prompts_and_resources_are_completed_and_sent() {
    let home = home();
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.types("/fa");
    terminal.sees("/far:");
    terminal.types("r:");
    terminal.sees("/far:weather <city> [when]");
    terminal.sees("Asks for[31m the weather");
    terminal.types("wea\t");
    terminal.sees("› /far:weather");
    terminal.types("Paris");
    terminal.types(ENTER);
    terminal.sees("First answer.");
    terminal.types("see @far:not");
    terminal.sees("what we noted · All notes");
    terminal.types("\t");
    terminal.sees("see @far:demo://notes");
    terminal.types(ENTER);
    terminal.sees("Second answer.");
    terminal.sees("inside");
    // What is none stays in the box, with why.
    terminal.types("/far:wether x");
    terminal.types(ENTER);
    terminal.sees("the server far has no prompt wether");
    terminal.sees("did you mean /far:weather?");
    terminal.sees("› /far:wether x");
}

/// What came with a block of text was seen by nobody.
#[test]
fn a_resource_is_not_mentioned_by_what_was_pasted() {
    let home = home();
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    let lines = "a line of a log\n".repeat(12);
    terminal.types(&format!("\x1b[200~{lines}see @far:demo://notes\x1b[201~"));
    terminal.sees("[Pasted text #1");
    terminal.types(ENTER);
    terminal.sees("First answer.");
    let history = home.run(["history"]).expect(0).stdout;
    let id = history.split_whitespace().next().expect("a session");
    let said = home.run(["show", id]).expect(0).stdout;
    assert!(said.contains("@far:demo://notes"), "{said}");
    assert!(!said.contains("inside"), "{said}");
}

#[test]
fn words_that_wait_for_a_server_are_kept_when_the_agent_is_killed() {
    let home = home();
    let mut terminal = Terminal::start(&home, &["hello"]);
    terminal.sees("First answer.");
    terminal.types("/far:stall");
    terminal.sees("  /far:stall");
    terminal.types(ENTER);
    terminal.sees("asking the MCP server far");
    wait_until_kept(&home, "/far:stall");
    terminal.kill();
    let terminal = Terminal::start(&home, &["-c"]);
    terminal.sees("› /far:stall");
}

#[test]
fn a_call_is_named_by_server_and_tool_in_plain_lines_and_in_the_history() {
    let home = home_with(&[]);
    let arguments = json!({ "file": home.path("effects"), "text": "one" });
    let call = json!({ "tool": "mcp__far__append", "arguments": arguments });
    let steps = [
        step("", &[("mcp_find", json!({ "query": "" }))]),
        step("I add a line.", &[("mcp_call", call)]),
        step("All is done.", &[]),
    ];
    std::fs::write(home.rewake_home().join("script.toml"), steps.concat()).unwrap();
    let tools = home.rewake_home().join("tools.json");
    let tool = json!([{ "name": "append", "inputSchema": { "type": "object" } }]);
    std::fs::write(&tools, tool.to_string()).unwrap();
    let config = home.rewake_home().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}{} = {tools:?}\n", spoken::TOOLS)).unwrap();

    let mut terminal = Terminal::start(&home, &["--plain"]);
    terminal.sees("Ready: describe a task");
    terminal.types("add it\r");
    terminal.sees("rewake: All is done.");
    terminal.sees("Done: far · append  {\"file\":");
    terminal.types("/quit\r");
    assert_eq!(terminal.ends().code(), Some(0));
    assert_eq!(home.read("effects"), "one\n");

    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.types("\x1bOQ");
    terminal.sees("look inside");
    terminal.types("\x1b[C");
    terminal.sees("far · append  {\"file\":");
}
