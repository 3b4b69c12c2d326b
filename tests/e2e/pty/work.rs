//! A day's work: a task, an edit that is approved, words while it works, a stop.

use serde_json::json;

use crate::pty::{bash, open_gate, scripted, slowly, step, turn_ends, until_gate};
use crate::scenes::until;
use support::Home;
use support::{ENTER, ESC, Terminal};

fn home(steps: &[String]) -> Home {
    scripted(steps)
}

#[test]
fn a_task_is_typed_streamed_and_its_edit_approved() {
    let edit = json!({ "path": "a.txt", "edits": [{ "old": "one", "new": "two" }] });
    let home = home(&[
        step("I will read it.", &[("read", json!({ "path": "a.txt" }))]),
        step("Now the edit.", &[("edit", edit)]),
        slowly("It is mended, all of it, as you wished."),
    ]);
    std::fs::write(home.path("a.txt"), "one\n").unwrap();
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.says("mend a.txt");
    terminal.sees("Change ");
    assert_eq!(
        home.read("a.txt"),
        "one\n",
        "nothing is done before the answer"
    );
    terminal.chooses("y");
    terminal.sees("It is mended");
    assert_eq!(home.read("a.txt"), "two\n");
    turn_ends(&terminal, "as you wished.");
    terminal.types("\x04");
    assert_eq!(terminal.ends().code(), Some(0));
    terminal.sees("to resume: rewake -c");
    assert!(terminal.is_cooked() && !terminal.is_on_other_screen());
}

#[test]
fn edits_have_the_line_numbers_of_their_file_also_after_a_kill() {
    let lines: String = (1..=20).map(|n| format!("line {n}\n")).collect();
    let edit = |old: &str, new: &str| {
        let edits = json!([{ "old": old, "new": new }]);
        ("edit", json!({ "path": "a.txt", "edits": edits }))
    };
    let steps = [
        step("", &[edit("line 10\n", "line ten\n")]),
        // What came before moved it.
        step("", &[edit("line 15\n", "line 15\nmore\n")]),
        step("All is edited.", &[]),
    ];
    let home = scripted(&steps);
    home.write_config(&format!(
        "permission_mode = \"acceptEdits\"\n{}",
        crate::pty::CONFIG
    ));
    std::fs::write(home.path("a.txt"), &lines).unwrap();
    let wanted = [
        "10 - line 10",
        "10 + line ten",
        "15   line 15",
        "16 + more",
        "17   line 16",
    ];
    let terminal = Terminal::start(&home, &["mend it"]);
    terminal.sees("All is edited.");
    wanted.iter().for_each(|line| terminal.sees(line));
    terminal.kill();
    // The file is another by now: what counts is what it was.
    std::fs::write(home.path("a.txt"), format!("new\n{lines}")).unwrap();
    let mut terminal = Terminal::start(&home, &["-c"]);
    terminal.sees("All is edited.");
    wanted.iter().for_each(|line| terminal.sees(line));
    // And in the history, beside the tree.
    terminal.types("\x1bOQ");
    terminal.sees("look inside");
    terminal.types("\x1b[C");
    terminal.sees("answered: All is edited.");
    terminal.sees("10 + line ten");
}

#[test]
fn a_denial_with_its_reason_reaches_the_model() {
    let home = home(&[
        step("", &[bash("touch made")]),
        "[[step]]\nwhen = \"not before lunch\"\ntext = \"As you say.\"\n".to_string(),
    ]);
    let mut terminal = Terminal::start(&home, &["make it"]);
    terminal.chooses("n");
    terminal.says("not before lunch");
    terminal.sees("As you say.");
    assert!(!home.path("made").exists());
}

/// The files of the rules that were allowed for one project.
fn project_rules(home: &Home) -> Vec<String> {
    let folder = home.rewake_home().join("permissions");
    let files = std::fs::read_dir(folder).into_iter().flatten();
    let paths = files.map(|file| file.unwrap().path());
    let rules = paths.filter(|path| path.extension().is_some_and(|e| e == "toml"));
    rules
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

fn touches() -> Home {
    home(&[
        step("", &[bash("touch first")]),
        step("", &[bash("touch second")]),
        step("Both are there.", &[]),
    ])
}

#[test]
fn always_is_for_this_project_and_asks_no_second_time() {
    let home = touches();
    let mut terminal = Terminal::start(&home, &["make them"]);
    terminal.sees("always in this project allows `touch`");
    terminal.chooses("a");
    terminal.sees("new permanent rule, in this project: Bash(touch:*)");
    terminal.sees("Both are there.");
    assert!(home.path("second").exists());
    let config = || std::fs::read_to_string(home.rewake_home().join("config.toml")).unwrap();
    assert!(!config().contains("touch"), "{}", config());
    let rules = project_rules(&home);
    assert!(
        matches!(&rules[..], [one] if one.contains("Bash(touch:*)")),
        "{rules:?}"
    );
    // It is listed with where it stands, and taken back after a question.
    terminal.says("/permissions");
    terminal.sees("permissions: 1 rule");
    terminal.sees("allow  Bash(touch:*)  this project: ");
    terminal.types(ENTER);
    terminal.sees("remove allow Bash(touch:*)?");
    terminal.types(ENTER);
    assert!(
        project_rules(&home).concat().contains("touch"),
        "it was kept"
    );
    terminal.says("/permissions");
    terminal.sees("permissions: 1 rule");
    terminal.types(ENTER);
    terminal.sees("remove allow Bash(touch:*)?");
    terminal.types("\x1b[B");
    terminal.types(ENTER);
    terminal.sees("was removed from permissions.allow in");
    assert!(!project_rules(&home).concat().contains("touch"));
}

#[test]
fn always_everywhere_is_written_into_the_config() {
    let home = touches();
    let mut terminal = Terminal::start(&home, &["make them"]);
    terminal.chooses("e");
    terminal.sees("new permanent rule, everywhere: Bash(touch:*)");
    terminal.sees("Both are there.");
    let config = std::fs::read_to_string(home.rewake_home().join("config.toml")).unwrap();
    assert!(config.contains("Bash(touch:*)"), "{config}");
    assert!(project_rules(&home).is_empty());
}

#[test]
fn a_rule_for_this_session_is_in_its_log_and_in_no_file() {
    let home = home(&[
        step("", &[bash("touch first")]),
        step("", &[bash("touch second")]),
        step("Both are there.", &[]),
        step("", &[bash("touch third")]),
        step("Three.", &[]),
        step("", &[bash("touch fourth")]),
        step("As you say.", &[]),
    ]);
    let mut terminal = Terminal::start(&home, &["make them"]);
    terminal.sees("for this session allows `touch`");
    terminal.chooses("s");
    terminal.sees("Both are there.");
    let config = std::fs::read_to_string(home.rewake_home().join("config.toml")).unwrap();
    assert!(!config.contains("touch") && project_rules(&home).is_empty());
    terminal.types("\x04");
    terminal.ends();
    // After a restart it still holds, there and nowhere else.
    home.run(["-c", "-p", "one more"]).expect(0);
    assert!(home.path("third").exists());
    home.run(["-p", "in another session"]).expect(0);
    assert!(!home.path("fourth").exists());
}

/// Each part of a line gets its own rule, for the project and for the session.
#[test]
fn always_for_a_line_of_two_commands_writes_a_rule_for_each() {
    for letter in ["a", "s"] {
        let home = home(&[
            step("", &[bash("touch first && mkdir sub")]),
            step("", &[bash("mkdir other")]),
            step("", &[bash("touch second")]),
            step("All are there.", &[]),
        ]);
        let mut terminal = Terminal::start(&home, &["make them"]);
        terminal.sees("allows `touch` and `mkdir`");
        terminal.chooses(letter);
        terminal.sees("All are there.");
        assert!(home.path("other").exists() && home.path("second").exists());
        let rules = project_rules(&home).concat();
        for rule in ["\"Bash(touch:*)\"", "\"Bash(mkdir:*)\""] {
            assert_eq!(rules.contains(rule), letter == "a", "{rules}");
        }
    }
}

#[test]
fn a_message_sent_while_a_turn_runs_is_queued_and_editable() {
    let home = scripted(&[]);
    home.write_config(crate::pty::FREE);
    let steps = [
        step("", &[bash(&until_gate(&home, 0))]),
        "[[step]]\nwhen = \"and the docs too\"\ntext = \"The docs too.\"\n".to_string(),
    ];
    std::fs::write(home.rewake_home().join("script.toml"), steps.concat()).unwrap();
    let mut terminal = Terminal::start(&home, &["build it"]);
    terminal.sees("it began");
    terminal.says("and the doc");
    terminal.sees("queued: and the doc");
    terminal.types("\x1b[A");
    terminal.sees("✎ queued");
    terminal.types("s too");
    terminal.sees("and the docs too");
    terminal.types(ENTER);
    terminal.sees("queued: and the docs too");
    open_gate(&home);
    terminal.sees("The docs too.");
    terminal.no_longer_sees("queued:");
}

#[test]
fn escape_stops_and_what_was_said_stays() {
    let home = home(&[
        slowly(&"A very long answer that takes its time and would go on. ".repeat(40)),
        step("A second answer.", &[]),
    ]);
    let mut terminal = Terminal::start(&home, &["tell me"]);
    terminal.sees("A very long");
    terminal.types(ESC);
    terminal.sees("stopped by you");
    terminal.sees("[cut off here]");
    terminal.says("go on then");
    terminal.sees("A second answer.");
}

#[test]
fn a_shell_command_of_the_user_is_run() {
    let home = home(&[step("I saw it.", &[])]);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.says("!echo from-$((40+2))");
    terminal.sees("from-42");
}

#[test]
fn a_shell_command_of_the_user_is_ended_with_all_it_started() {
    // One that obeys is gone before anybody can read that it is being ended.
    for (key, stays) in [(ESC, "trap '' TERM; "), ("\x03", "")] {
        let home = home(&[]);
        let mut terminal = Terminal::start(&home, &[]);
        terminal.sees("Describe a task");
        terminal.says(&format!(
            "!{stays}sleep 1000 & echo $! > child; echo be''gun; echo > ready; sleep 1000"
        ));
        terminal.sees("Esc ends it");
        crate::pty::wait_for(&home, "ready");
        terminal.types(key);
        if !stays.is_empty() {
            terminal.sees("· it is being ended");
        }
        terminal.waits("it is not ended", |screen| {
            !screen.contains("Esc ends it") && !screen.contains("it is being ended")
        });
        terminal.sees("begun");
        let child = home.read("child");
        let alive = std::path::Path::new("/proc").join(child.trim());
        // An orphan may still be waited for by whoever took it.
        let is_gone = || {
            let state = std::fs::read_to_string(alive.join("stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        until(is_gone);
    }
}

#[test]
fn all_keys_are_shown_and_the_size_may_change() {
    let home = home(&[]);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.types("?");
    terminal.sees("keys and commands");
    terminal.resize(40, 12);
    terminal.waits("it is not drawn anew", |screen| {
        screen.contains("Esc closes") && screen.lines().count() <= 12
    });
    terminal.types(ESC);
    terminal.resize(120, 40);
    terminal.sees("Every step is on disk");
    terminal.resize(3, 2);
    terminal.sees("too");
    terminal.resize(100, 30);
    terminal.says("/status");
    terminal.sees("to resume later");
}

#[test]
fn a_paste_without_its_end_does_not_swallow_the_keyboard() {
    let home = home(&[step("I heard you.", &[])]);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.types("\x1b[200~half a paste");
    terminal.sees("half a paste");
    terminal.says(" and more");
    terminal.sees("I heard you.");
}

#[test]
fn a_paste_is_not_sent_by_its_line_ends() {
    let home = home(&[step("I heard you.", &[])]);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.types("\x1b[200~one\rtwo\rthree\x1b[201~");
    terminal.waits("the lines are not in the box", |screen| {
        ["› one", "  two", "  three"]
            .iter()
            .all(|line| screen.contains(line))
    });
    terminal.types(ENTER);
    terminal.sees("I heard you.");
}

#[test]
fn escape_sequences_in_output_do_not_reach_the_terminal() {
    let home = home(&[
        step(
            "\u{1b}]0;from-the-model\u{7}\u{1b}[?1049lHere.",
            &[bash(
                "printf '\\033]0;from-a-comm''and\\007\\033[2Jprint''ed'",
            )],
        ),
        step("It is over.", &[]),
    ]);
    home.write_config(crate::pty::FREE);
    let terminal = Terminal::start(&home, &["print it"]);
    terminal.sees("printed");
    terminal.sees("It is over.");
    assert!(terminal.is_on_other_screen());
    for title in ["\x1b]0;from-the-model", "\x1b]0;from-a-command"] {
        assert!(!terminal.raw().contains(title));
    }
}
