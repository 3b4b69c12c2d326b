//! The box: lines, lists, chips, earlier prompts.

use std::sync::Arc;
use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rewake::core::entry::{About, Entry, Guard};
use rewake::core::signal::Signal;
use rewake::engine::{Command, Event};
use rewake::mcp::offers::{Offers, Prompt, PromptArgument, Resource};
use rewake::session::{CommandLine, NotSaid, UntrustedCommand};
use rewake::ui::app::{Intent, Msg, OutgoingMessage};
use rewake::ui::commands::{Custom, CustomList};
use rewake::ui::files::Files;

use crate::log::text;
use crate::stage::{Stage, scene};

#[test]
fn a_letter_that_came_late_after_an_escape_byte_is_alt_only_where_that_is_a_key() {
    let split = |c| {
        let kind = KeyEventKind::Repeat;
        KeyEvent::new_with_kind(KeyCode::Char(c), KeyModifiers::ALT, kind)
    };
    let press = |stage: &mut Stage, key| stage.send(Msg::Key(key, Instant::now()));
    let mut stage = Stage::opened(80, 24);
    stage.keys("two words");
    press(&mut stage, split('b'));
    stage.keys("|");
    stage.sees("two |words");
    press(&mut stage, split('x'));
    stage.sees("two |xwords");
    // Vim's Esc and a letter.
    let mut stage = Stage::opened(80, 24);
    stage.keys("/vim<Enter>two words");
    press(&mut stage, split('b'));
    stage.keys("i|");
    stage.sees("two |words");
    // Esc stops.
    let mut stage = Stage::new(80, 24);
    stage.open();
    press(&mut stage, split('x'));
    let stops = |intent: &Intent| matches!(intent, Intent::Engine(Command::Signal(_)));
    assert!(stage.wanted.iter().any(stops));
    stage.sees("› x");
}

#[test]
fn the_box_grows_with_what_is_typed() {
    scene!("multi_line", |stage: &mut Stage| {
        stage.open();
        stage.rest();
        stage.keys("first line<S-Enter>second line<C-j>third, which is so long that it does not fit into one row of a narrow terminal");
    });
    let mut stage = Stage::opened(80, 24);
    stage.keys("one\\<Enter>two<Enter>");
    assert_eq!(stage.sent(), ["one\ntwo"]);
}

/// The line end of a paste without marks runs nothing. It sends a message, as `tmux send-keys` wants.
#[test]
fn an_enter_that_came_with_a_shell_command_does_not_run_it() {
    let mut stage = Stage::opened(80, 24);
    let at = std::time::Instant::now();
    for pasted in ["!touch pasted.txt", "!a\nb"] {
        stage.pastes(pasted);
        stage.send(Msg::BurstEnter(at));
        stage.sees("Enter runs it");
        // More of the paste may come: its line end stays.
        stage.pastes("more");
        let text = format!("{pasted}\nmore");
        assert_eq!(stage.app.input.composer.text(), text);
        stage.keys("<C-c>");
    }
    // A long one is a chip.
    stage.pastes(&format!("!touch pasted.txt{}", "\n#".repeat(20)));
    stage.send(Msg::BurstEnter(at));
    stage.sees("Enter runs it");
    assert!(
        stage
            .wanted
            .iter()
            .all(|intent| !matches!(intent, Intent::Engine(_)))
    );
    stage.keys("<C-c>");
    stage.pastes("some notes\n!touch pasted.txt");
    stage.send(Msg::BurstEnter(at));
    assert_eq!(stage.sent(), ["some notes\n!touch pasted.txt"]);
}

#[test]
fn a_warning_about_the_clipboard_stays_when_the_session_opens_later() {
    let mut stage = Stage::new(80, 24);
    let why = "the image in the clipboard is too large\nhint: copy a part of it";
    stage.send(Msg::PastedImage(Err(why.into())));
    stage.sees("is too large");
    stage.open();
    stage.sees("is too large");
    stage.sees("hint: copy a part of it");
}

#[test]
fn commands_are_completed() {
    scene!("commands", |stage: &mut Stage| {
        stage.open();
        stage.rest();
        stage.keys("/");
    });
    scene!("commands_narrowed", |stage: &mut Stage| {
        stage.open();
        stage.rest();
        stage.keys("/re<Down>");
    });
    let mut stage = Stage::opened(80, 24);
    stage.keys("/nosuch thing<Enter>");
    assert!(
        stage.sent().is_empty(),
        "a command that is none is no message"
    );
    stage.sees("/nosuch");
}

/// A command of the workspace, as it is listed.
fn found(name: &str, argument: &str, help: &str) -> Arc<Custom> {
    Arc::new(Custom {
        name: name.into(),
        argument: argument.into(),
        help: format!("{help} (project)"),
    })
}

#[test]
fn custom_commands_stand_in_the_palette() {
    let listed = || {
        Msg::Commands(CustomList {
            commands: vec![
                found("git:commit", "[message]", "make a commit as we do"),
                found("git:review", "<branch>", "review a branch"),
            ],
            warnings: vec![
                "the command .rewake/commands/help.md is not used: /help is rewake's own".into(),
            ],
            servers: Vec::new(),
        })
    };
    scene!("custom_commands", |stage: &mut Stage| {
        stage.open();
        stage.rest();
        stage.send(listed());
        stage.keys("/git");
    });
    let mut stage = Stage::opened(80, 24);
    stage.send(listed());
    stage.sees("/help is rewake's own");
    stage.keys("/git:c<Tab>the parser<Enter>");
    assert_eq!(stage.sent(), ["/git:commit the parser"]);
}

/// What the server `every` has.
fn offers() -> Msg {
    let argument = |name: &str, is_required| PromptArgument {
        name: name.into(),
        description: String::new(),
        is_required,
    };
    let prompt = |name: &str, description: &str, arguments| Prompt {
        name: name.into(),
        description: description.into(),
        arguments,
    };
    let resource = |uri: &str, name: &str, description: &str| Resource {
        uri: uri.into(),
        name: name.into(),
        description: description.into(),
        mime: String::new(),
    };
    let offers = Offers {
        prompts: vec![
            prompt("simple-prompt", "A prompt\nwithout arguments", vec![]),
            prompt(
                "args-prompt",
                "A prompt with two arguments",
                vec![argument("city", true), argument("state", false)],
            ),
        ],
        resources: vec![
            resource("demo://notes/1", "notes.md", "What we noted"),
            resource("demo://plan", "the plan", ""),
        ],
    };
    Msg::Offered("every".into(), Ok(offers))
}

#[test]
fn prompts_and_resources_of_a_server_are_completed() {
    let servers = || {
        Msg::Commands(CustomList {
            servers: vec!["every".into()],
            ..CustomList::default()
        })
    };
    scene!("server_prompts", |stage: &mut Stage| {
        stage.open();
        stage.rest();
        stage.send(servers());
        stage.keys("/every:");
        stage.send(offers());
    });
    scene!("server_resources", |stage: &mut Stage| {
        stage.open();
        stage.rest();
        stage.send(servers());
        stage.keys("look at @every:");
        stage.send(offers());
    });
    let asked = |stage: &Stage| {
        let asks = |intent: &&Intent| matches!(intent, Intent::AskServer(name) if name == "every");
        stage.wanted.iter().filter(asks).count()
    };
    let mut stage = Stage::opened(80, 24);
    stage.send(servers());
    stage.keys("/ever<Tab>");
    assert_eq!(stage.app.input.composer.text(), "/every:");
    stage.sees("listing what the MCP server offers: every …");
    stage.keys("args");
    // Once, however much is typed behind it.
    assert_eq!(asked(&stage), 1);
    stage.send(offers());
    stage.sees("/every:args-prompt <city> [state]");
    stage.keys("<Tab>Paris<Enter>");
    assert_eq!(stage.sent(), ["/every:args-prompt Paris"]);
    stage.keys("see @every:plan");
    assert_eq!(asked(&stage), 2);
    stage.keys("<Tab>now<Enter>");
    assert_eq!(stage.sent()[1], "see @every:demo://plan now");
    // What came to nothing is back in the box.
    let failed = || NotSaid::Failed("it was not sent".into(), Some("try again".into()));
    stage.send(Msg::WordsNotSaid(
        OutgoingMessage {
            text: "see @every:gone".into(),
            ..OutgoingMessage::default()
        },
        failed(),
    ));
    stage.sees("hint: try again");
    assert_eq!(stage.app.input.composer.text(), "see @every:gone");
    let mut stage = Stage::opened(80, 24);
    stage.send(servers());
    stage.keys("/every:");
    stage.send(Msg::Offered(
        "every".into(),
        Err(("it is\u{1b}[2J down".into(), None)),
    ));
    stage.sees("it is␛[2J down");
}

/// Enter may come before the list: the message still waits for its server.
#[test]
fn a_late_list_does_not_end_what_a_message_waits_for() {
    let mut stage = Stage::opened(80, 24);
    let servers = vec!["every".into()];
    stage.send(Msg::Commands(CustomList {
        servers,
        ..CustomList::default()
    }));
    stage.keys("/every:simple-prompt<Enter>");
    assert_eq!(stage.sent(), ["/every:simple-prompt"]);
    // As sending it does.
    stage.app.hint = Some("asking the MCP server every …".into());
    stage.send(offers());
    stage.sees("asking the MCP server every …");
}

#[test]
fn a_server_is_asked_as_soon_as_a_session_is_open() {
    let mut stage = Stage::new(80, 24);
    stage.send(Msg::Commands(CustomList {
        servers: vec!["every".into()],
        ..CustomList::default()
    }));
    stage.keys("/every:");
    let is_asked = |stage: &Stage| {
        let mut wanted = stage.wanted.iter();
        wanted.any(|i| matches!(i, Intent::AskServer(_)))
    };
    assert!(!is_asked(&stage));
    stage.open();
    stage.rest();
    assert!(is_asked(&stage));
}

#[test]
fn a_command_of_the_folder_is_shown_before_it_is_trusted() {
    let untrusted = |is_changed| {
        let typed = CommandLine::parse("/review the parser").unwrap();
        let untrusted = UntrustedCommand {
            typed: typed.clone(),
            path: ".rewake/commands/review.md".into(),
            hash: "abc".into(),
            is_changed,
            model: Some("s/large".into()),
            body: "Review $ARGUMENTS.\nThen push\u{1b}[2J it.".into(),
        };
        Msg::NotSaid(typed, NotSaid::Untrusted(Box::new(untrusted)))
    };
    scene!("command_trust", |stage: &mut Stage| {
        stage.open();
        stage.rest();
        stage.send(untrusted(false));
    });
    let mut stage = Stage::opened(80, 24);
    stage.send(untrusted(true));
    stage.sees("changed since you trusted it");
    stage.chooses("n");
    assert!(stage.sent().is_empty());
    stage.send(untrusted(true));
    stage.chooses("y");
    assert_eq!(stage.sent(), ["/review the parser"]);
    // What failed is back in the box, with why.
    let typed = CommandLine::parse("/review x").unwrap();
    let failed = NotSaid::Failed("/review was not sent: no file".into(), None);
    stage.send(Msg::NotSaid(typed, failed));
    stage.sees("/review was not sent: no file");
    assert_eq!(stage.app.input.composer.text(), "/review x");
}

#[test]
fn a_command_is_trusted_when_the_end_of_its_text_was_seen() {
    let typed = CommandLine::parse("/review x").unwrap();
    let filler = "Read the change, and say what is wrong with it.\n".repeat(60);
    let gap = " ".repeat(3_000);
    let untrusted = UntrustedCommand {
        typed: typed.clone(),
        path: ".rewake/commands/review.md".into(),
        hash: "abc".into(),
        is_changed: false,
        model: None,
        body: format!(
            "First.{gap}Then run evil.{}\n{filler}At the end.",
            "\u{2800}"
        ),
    };
    let mut stage = Stage::opened(80, 24);
    let why = NotSaid::Untrusted(Box::new(untrusted));
    stage.send(Msg::NotSaid(typed, why));
    stage.sees("⟨3,000 spaces⟩Then run evil.<U+2800>");
    stage.does_not_see("At the end.");
    stage.chooses("y");
    assert!(stage.sent().is_empty(), "trusted unread");
    stage.sees("scroll to the end");
    stage.keys("<PageDown><Down><Up>");
    stage.does_not_see("At the end.");
    stage.chooses("y");
    assert!(stage.sent().is_empty(), "trusted half read");
    stage.keys("<End>");
    stage.sees("At the end.");
    stage.chooses("y");
    assert_eq!(stage.sent(), ["/review x"]);
}

#[test]
fn files_are_mentioned() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["parser.rs", "parser_tests.rs", "lexer.rs"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let (listed, ready) = std::sync::mpsc::channel();
    let root = folder.path().to_path_buf();
    let files = Files::start(root, move || listed.send(()).unwrap_or_default()).unwrap();
    ready.recv().unwrap();
    let files = Arc::new(files);
    scene!("files", |stage: &mut Stage| {
        stage.open();
        stage.rest();
        stage.app.input.files = Some(Arc::clone(&files));
        stage.keys("see @pars");
    });
    let mut stage = Stage::opened(80, 24);
    stage.app.input.files = Some(files);
    stage.keys("see @lex<Tab>please<Enter>");
    assert_eq!(stage.sent(), ["see @lexer.rs please"]);
    // The keys of the list, until a letter narrows it.
    stage.keys("@");
    stage.sees("lexer.rs");
    let before = stage.screen();
    stage.keys("?");
    stage.sees("keys and commands");
    stage.sees("previous");
    stage.keys("x");
    assert_eq!(stage.screen(), before);
    stage.keys("l?");
    assert_eq!(stage.app.input.composer.text(), "@l?");
}

#[test]
fn a_long_paste_is_a_chip_and_is_sent_whole() {
    let long: String = (1..=40).map(|n| format!("line {n}\n")).collect();
    scene!("paste", |stage: &mut Stage| {
        stage.open();
        stage.rest();
        stage.keys("look at ");
        stage.pastes(&long);
        stage.keys(" please");
    });
    let mut stage = Stage::opened(80, 24);
    stage.pastes(&long);
    stage.does_not_see("line 7");
    stage.keys("<Enter>");
    assert!(stage.sent()[0].contains("line 1\n") && stage.sent()[0].contains("line 40"));
}

#[test]
fn earlier_prompts_come_back() {
    let mut stage = Stage::new(80, 24);
    for prompt in ["mend the parser", "write the tests", "and the docs"] {
        stage.says(prompt);
        stage.replies(vec![text("Done.")]);
    }
    stage.open();
    stage.rest();
    stage.keys("draft<Up><Up><Enter>");
    assert_eq!(stage.sent(), ["write the tests"]);
    scene!("prompt_search", |stage: &mut Stage| {
        for prompt in ["mend the parser", "write the tests", "and the docs"] {
            stage.says(prompt);
            stage.replies(vec![text("Done.")]);
        }
        stage.open();
        stage.rest();
        stage.keys("<C-r>pars");
    });
}

#[test]
fn a_shell_command_looks_like_one() {
    scene!("shell", |stage: &mut Stage| {
        stage.open();
        stage.rest();
        stage.keys("!git status");
    });
}

#[test]
fn a_shell_command_that_runs_is_ended_by_escape_and_by_ctrl_c() {
    scene!("shell_running", |stage: &mut Stage| {
        stage.open();
        stage.rest();
        stage.keys("!make test<Enter>");
        stage.waits(12_000);
    });
    for key in ["<Esc>", "<C-c>"] {
        let mut stage = Stage::opened(80, 24);
        stage.keys("!sleep 1000<Enter>!sleep 2000<Enter>");
        stage.log(user_command("sleep 1000", "r1"));
        stage.log(user_command("sleep 2000", "r2"));
        let stopped = |stage: &Stage| -> Vec<String> {
            let wanted = stage.wanted.iter();
            let stopped = wanted.filter_map(|intent| match intent {
                Intent::StopRun(run) => Some(run.clone()),
                _ => None,
            });
            stopped.collect()
        };
        // The newest first, each once; and only then what the key is else.
        stage.keys(key);
        assert_eq!(stopped(&stage), ["r2"]);
        stage.sees("running    sleep 2000 · 1 s · it is being ended");
        stage.log(user_command_ended(2));
        stage.does_not_see("it is being ended");
        stage.waits(1_000);
        stage.keys(key);
        assert_eq!(stopped(&stage), ["r2", "r1"]);
        stage.log(user_command_ended(1));
        stage.waits(1_000);
        stage.keys(key);
        assert_eq!(stopped(&stage), ["r2", "r1"]);
        assert!(!stage.is_over());
    }
    // A model that works is stopped by the next key.
    let mut stage = Stage::opened(80, 24);
    stage.says("go");
    stage.engine_event(rewake::ui::live::LiveEvent::Working);
    stage.keys("!sleep 1000<Enter><Esc>");
    let stops = |i: &Intent| {
        matches!(
            i,
            Intent::Engine(rewake::engine::Command::Signal(Signal::Stop { .. }))
        )
    };
    assert!(!stage.wanted.iter().any(stops));
    stage.keys("<Esc>");
    assert!(stage.wanted.iter().any(stops));
}

fn user_command(command: &str, run: &str) -> Entry {
    Entry::UserCommand {
        command: command.into(),
        guard: Guard::Supervised {
            run: run.into(),
            boot: "b".into(),
            background: true,
        },
    }
}

fn user_command_ended(entry: u64) -> Entry {
    Entry::Noted {
        text: "the user ran a command: it\nstopped".into(),
        about: Some(About::UserCommandEnded {
            entry,
            exit_code: None,
        }),
    }
}

#[test]
fn a_shell_command_that_is_stopped_before_it_is_recorded_is_stopped_then() {
    let mut stage = Stage::opened(80, 24);
    let stops = |i: &Intent| matches!(i, Intent::StopRun(run) if run == "r1");
    stage.keys("!sleep 1000<Enter><Esc>");
    stage.sees("it is being ended");
    assert!(!stage.wanted.iter().any(stops));
    stage.log(user_command("sleep 1000", "r1"));
    assert!(stage.wanted.iter().any(stops));
}

#[test]
fn a_shell_command_shows_the_last_lines_that_it_printed() {
    let mut stage = Stage::opened(80, 24);
    stage.keys("!make<Enter>");
    stage.log(user_command("make", "r1"));
    let text = "one\ntwo\nthree\n\x1b[31mfour\x1b[0m\x07\n".to_string();
    stage.send(Msg::UserTails(vec![("r1".into(), text)]));
    stage.does_not_see("  one");
    for line in ["  two", "  three", "  four"] {
        stage.sees(line);
    }
    let refused = Event::CommandNotRun {
        command: "make".into(),
        why: "no".into(),
    };
    stage.engine_event(refused);
    stage.sees("running    make · 0 s");
}

#[test]
fn a_shell_command_that_is_refused_is_shown_no_longer() {
    let mut stage = Stage::opened(80, 24);
    stage.keys("!make<Enter>");
    stage.sees("running    make · 0 s");
    stage.engine_event(Event::CommandNotRun {
        command: "make".into(),
        why: "no room".into(),
    });
    stage.does_not_see("running    make · 0 s");
    stage.sees("make was not run: no room");
}

#[test]
fn wide_characters_are_typed_and_taken_back_whole() {
    let mut stage = Stage::opened(40, 12);
    stage.keys("漢字👩‍👩‍👧é<Backspace>x");
    stage.sees("漢字👩‍👩‍👧x");
    stage.keys("<Backspace><Backspace>y<Enter>");
    assert_eq!(stage.sent(), ["漢字y"]);
}

#[test]
fn text_from_the_editor_replaces_the_draft_in_the_box() {
    let mut stage = Stage::opened(80, 24);
    stage.keys("draft<C-g>");
    stage.send(Msg::Edited(Ok("from the editor\nin two lines\n".into())));
    stage.sees("in two lines");
    stage.send(Msg::Edited(Err("the editor ended with exit code 1".into())));
    stage.sees("the editor ended with exit code 1");
    stage.sees("in two lines");
}

#[test]
fn ctrl_c_clears_then_leaves_and_ctrl_d_leaves_an_empty_box() {
    let mut stage = Stage::opened(80, 24);
    stage.keys("words<C-c>");
    stage.does_not_see("words");
    assert!(!stage.is_over());
    stage.keys("<C-c>");
    stage.sees("Ctrl+C again quits");
    assert!(!stage.is_over());
    stage.keys("<C-c>");
    assert!(stage.is_over());
    let mut stage = Stage::opened(80, 24);
    stage.keys("w<C-d>");
    assert!(!stage.is_over());
    stage.keys("<Backspace><C-d>");
    assert!(stage.is_over());
    let mut stage = Stage::opened(80, 24);
    stage.keys("<C-c>");
    stage.waits(2_500);
    stage.keys("<C-c>");
    assert!(
        !stage.is_over(),
        "two that are far apart are no wish to leave"
    );
}

#[test]
fn a_shell_command_that_ended_looks_like_one_of_the_model() {
    let mut stage = Stage::opened(80, 24);
    let output: String = (1..=20).map(|n| format!("line {n}\n")).collect();
    stage.log(user_command("make test", "r1"));
    stage.log(Entry::Noted {
        text: format!("the user ran a command: make test\nexit code 2\n```\n{output}```"),
        about: Some(About::UserCommandEnded {
            entry: 1,
            exit_code: Some(2),
        }),
    });
    let row = stage.line_with("make test");
    assert!(row.starts_with("✗ you ran    make test"), "{row}");
    assert!(row.contains("exit 2"), "{row}");
    stage.sees("… 10 earlier lines (Ctrl+O)");
    stage.sees("line 20");
    stage.does_not_see("note");
}
