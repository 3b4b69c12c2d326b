//! What lies over the conversation: help, context, lists, questions.

use crossterm::event::{KeyModifiers, MouseEvent, MouseEventKind};
use ratatui::text::Line;
use rewake::core::choice::Effort;
use rewake::core::entry::{CallId, Choice, Entry};
use rewake::core::rule::RuleScope;
use rewake::core::signal::Signal;
use rewake::engine::Command;
use rewake::session::ServerRow;
use rewake::ui::app::{Intent, Msg};
use rewake::ui::overlay::{For, Picker, PickerItem, RulePlace};

use crate::log::{entry, text};
use crate::stage::{Stage, scene};

fn talk(stage: &mut Stage) {
    for (question, answer) in [
        ("mend the parser", "It is mended."),
        ("and the docs", "Written."),
    ] {
        stage.says(question);
        stage.replies(vec![text(answer)]);
    }
    stage.open();
    stage.rest();
}

#[test]
fn the_help_sheet_names_every_key() {
    scene!("help", |stage: &mut Stage| {
        talk(stage);
        stage.keys("<F1>");
    });
    let mut stage = Stage::opened(80, 24);
    stage.keys("?");
    stage.sees("keys and commands");
    stage.sees("Most used");
    stage.sees("/permissions");
    stage.keys("<End>");
    stage.sees("look at the trash");
    stage.keys("<Esc>");
    stage.does_not_see("keys and commands");
    stage.keys("what is this?");
    stage.does_not_see("keys and commands");
}

/// Shows the keys with `help` and closes them with any key: nothing else changes.
#[track_caller]
fn shows_keys(stage: &mut Stage, help: &str, row: &str) {
    let (before, wanted) = (stage.screen(), stage.wanted.len());
    for closes in ["x", "?", "<Esc>", "<Enter>", "<F1>"] {
        stage.keys(help);
        stage.sees("keys and commands");
        stage.sees(row);
        stage.keys(closes);
        assert_eq!(stage.screen(), before, "{closes}");
    }
    assert_eq!(stage.wanted.len(), wanted);
}

#[test]
fn the_keys_of_what_is_in_front_come_first_and_any_key_closes_them() {
    fn models(stage: &mut Stage) {
        let item = |name: &str| PickerItem {
            value: name.into(),
            label: name.into(),
            detail: String::new(),
        };
        let items = ["p/one", "p/two", "p/three"].map(item).into();
        stage.send(Msg::Pick(Picker::new(For::Model, "model", items)));
        stage.keys("<Down>");
    }
    type Opens = fn(&mut Stage);
    let cases: [(Opens, &str); 4] = [
        (models, "ten rows"),
        (|stage| stage.keys("<F2>"), "bring back"),
        (|stage| stage.keys("<C-f>"), "or ↑ earlier"),
        (|stage| stage.keys("<C-r>"), "take it to edit"),
    ];
    for (opens, row) in cases {
        let mut stage = Stage::new(80, 24);
        talk(&mut stage);
        opens(&mut stage);
        shows_keys(&mut stage, "?", row);
        // A question mark in a text belongs to it.
        stage.keys("a?");
        stage.does_not_see("keys and commands");
        stage.sees("a?");
        shows_keys(&mut stage, "<F1>", row);
    }
    let mut stage = Stage::new(80, 24);
    talk(&mut stage);
    stage.keys("/context<Enter>");
    shows_keys(&mut stage, "?", "ten lines");
    stage.keys("<Esc>");
    stage.does_not_see("ten lines");
    stage.sees("Describe a task");
}

#[test]
fn a_paste_and_the_wheel_do_not_reach_what_the_keys_cover() {
    let mut stage = Stage::new(80, 24);
    talk(&mut stage);
    stage.keys("<F2>");
    let before = stage.screen();
    stage.keys("?<Down><Down>");
    stage.pastes("words");
    let wheel = MouseEvent {
        kind: MouseEventKind::ScrollDown,
        column: 1,
        row: 1,
        modifiers: KeyModifiers::NONE,
    };
    let read = stage.screen();
    stage.send(Msg::Mouse(wheel));
    assert_ne!(stage.screen(), read);
    stage.keys("x");
    assert_eq!(stage.screen(), before);
}

#[test]
fn the_context_is_shown_with_its_parts() {
    scene!("context", |stage: &mut Stage| {
        talk(stage);
        stage.keys("/context<Enter>");
    });
}

#[test]
fn servers_are_shown_with_their_states() {
    let row = |name: &str, state: &str, more: &[&str]| ServerRow {
        name: name.into(),
        state: state.into(),
        more: more.iter().map(ToString::to_string).collect(),
    };
    let rows = [
        row(
            "files",
            "14 tools (2 switched off), about 1,230 tokens if listed · runs for 2:05",
            &[
                "from your own config (~/.config/rewake/config.toml)",
                "the tool read_1a2b3c4d is mcp__files__read_1a2b3c4d_5e6f7a8b for the model: another tool has its usual name",
                "it printed last: listening on stdio",
            ],
        ),
        row("notes", "not trusted: rewake trust", &["from .mcp.json"]),
        row(
            "tracker",
            "cannot be used: TRACKER_TOKEN is not set",
            &["from this workspace's config"],
        ),
    ];
    let text = ServerRow::text(&rows);
    let lines = text.lines().map(|line| Line::raw(line.to_string()));
    let lines: Vec<Line<'static>> = lines.collect();
    scene!("servers", |stage: &mut Stage| {
        talk(stage);
        stage.keys("/mcp<Enter>");
        assert!(stage.wanted.iter().any(|i| matches!(i, Intent::Mcp)));
        stage.send(Msg::Show("servers".into(), lines.clone()));
    });
}

#[test]
fn a_model_is_chosen_from_a_list_or_by_its_name() {
    let item = |name: &str| PickerItem {
        value: name.into(),
        label: name.into(),
        detail: "200000 tokens".into(),
    };
    let picker = || {
        let items = [
            "anthropic/claude-sonnet-4-5",
            "openai/gpt-5",
            "ollama/qwen3",
        ];
        let mut picker = Picker::new(For::Model, "model", items.map(item).into());
        picker.note = Some("or type provider/model".into());
        picker.free = true;
        picker
    };
    scene!("models", |stage: &mut Stage| {
        talk(stage);
        stage.send(Msg::Pick(picker()));
        stage.keys("o<Down>");
    });
    let chosen = |keys: &str| {
        let mut stage = Stage::opened(80, 24);
        stage.send(Msg::Pick(picker()));
        stage.keys(keys);
        stage.wanted.into_iter().find_map(|intent| match intent {
            Intent::UseModel { choice, .. } => choice.model,
            _ => None,
        })
    };
    assert_eq!(chosen("gpt<Enter>").as_deref(), Some("openai/gpt-5"));
    assert_eq!(chosen("my/own<Enter>").as_deref(), Some("my/own"));
    assert_eq!(chosen("<Esc>"), None);
}

#[test]
fn another_model_is_offered_only_while_nobody_types() {
    let picker = || {
        let item = |value: &str, label: &str| PickerItem {
            value: value.to_string(),
            label: label.to_string(),
            detail: String::new(),
        };
        let items = vec![item("", "none for now"), item("p/new", "p/new")];
        Picker::new(
            For::Replacement,
            "p/old is not there: another model?",
            items,
        )
    };
    let chosen = |before: &str, keys: &str| {
        let mut stage = Stage::opened(80, 24);
        stage.keys(before);
        stage.send(Msg::Pick(picker()));
        stage.keys(keys);
        stage.wanted.into_iter().find_map(|intent| match intent {
            Intent::UseModel { choice, goes_on } => Some((choice.model?, goes_on)),
            _ => None,
        })
    };
    let new = ("p/new".to_string(), true);
    assert_eq!(chosen("", "<Down><Enter>"), Some(new));
    // The first row changes nothing, and a list that nobody asked for takes no words.
    assert_eq!(chosen("", "<Enter>"), None);
    assert_eq!(chosen("some words", "<Down><Enter>"), None);
}

#[test]
fn a_list_that_is_longer_than_the_screen_follows_the_choice() {
    let item = |n: u32| PickerItem {
        value: n.to_string(),
        label: format!("item {n}"),
        detail: String::new(),
    };
    let mut stage = Stage::opened(40, 12);
    stage.send(Msg::Pick(Picker::new(
        For::Resume,
        "resume",
        (0..50).map(item).collect(),
    )));
    stage.keys(&"<Down>".repeat(30));
    stage.sees("› item 30");
    stage.keys(&"<PageDown>".repeat(9));
    stage.sees("› item 49");
}

#[test]
fn questions_do_not_cover_what_lies_over_the_conversation() {
    let mut stage = Stage::opened(80, 24);
    stage.says("go");
    stage.keys("<F1>");
    let id = stage.replies(vec![crate::log::bash("make")])[0];
    stage.asks(id, "why", None);
    // Keys go to what is read; the question is there when that is closed.
    stage.keys("y");
    let answered = |i: &Intent| matches!(i, Intent::Engine(Command::Decide { .. }));
    assert!(!stage.wanted.iter().any(answered));
    stage.sees("Run this command?");
    stage.answers("<F1>");
    stage.sees("set typed text aside");
    stage.keys("y");
    stage.sees("Run this command?");
    stage.keys("<Enter>");
    assert!(!stage.wanted.iter().any(answered));
    stage.chooses("y");
    assert!(stage.wanted.iter().any(answered));
    let _: CallId = id;
    stage.log(entry::allowed(id));
}

#[test]
fn a_choice_before_the_first_message_leaves_the_start_screen() {
    let mut stage = Stage::opened(80, 24);
    stage.log(Entry::Chose(Choice {
        effort: Some(Effort::High),
        ..Choice::default()
    }));
    stage.sees("Every step is on disk before it counts.");
    stage.sees("effort high");
}

#[test]
fn an_effort_is_chosen_with_the_model_or_alone() {
    let chosen = |keys: &str| {
        let mut stage = Stage::opened(80, 24);
        stage.keys(keys);
        let choice = stage.wanted.into_iter().find_map(|intent| match intent {
            Intent::UseModel { choice, .. }
            | Intent::Engine(Command::Signal(Signal::Choose(choice))) => Some(choice),
            _ => None,
        });
        choice.map(|c| (c.model, c.effort.map(|e| e.name()), c.temperature))
    };
    assert_eq!(
        chosen("/model high<Enter>"),
        Some((None, Some("high"), None))
    );
    assert_eq!(
        chosen("/model a/b low temperature=0.5<Enter>"),
        Some((Some("a/b".to_string()), Some("low"), Some(0.5)))
    );
    for wrong in ["hard", "temperature=9", "temperature=x"] {
        assert_eq!(chosen(&format!("/model {wrong}<Enter>")), None, "{wrong}");
    }
}

#[test]
fn a_schema_that_is_owed_is_shown_and_dropped() {
    let mut stage = Stage::opened(80, 24);
    stage.keys("/schema<Enter>");
    stage.sees("no JSON Schema applies");
    stage.log(Entry::Chose(Choice {
        schema: Some(serde_json::json!({ "required": ["count"] })),
        ..Choice::default()
    }));
    stage.keys("/schema<Enter>");
    stage.sees("\"count\"");
    stage.keys("<Esc>/schema forget<Enter>");
    stage.sees("/schema drop");
    let drops = |intent: &Intent| match intent {
        Intent::Engine(Command::Signal(Signal::Choose(choice))) => choice.without_schema,
        _ => false,
    };
    assert!(!stage.wanted.iter().any(drops));
    stage.keys("/schema drop<Enter>");
    assert!(stage.wanted.iter().any(drops));
    stage.log(Entry::Chose(Choice {
        without_schema: true,
        ..Choice::default()
    }));
    stage.sees("no JSON Schema applies any more");
    stage.wanted.clear();
    stage.keys("/schema drop<Enter>");
    assert!(!stage.wanted.iter().any(drops));
}

#[test]
fn rules_are_listed_with_their_place_and_taken_back_after_a_question() {
    let item = |place: RulePlace, list: &str, rule: &str| PickerItem {
        value: place.value(list, rule),
        label: format!("{list:<5}  {rule}"),
        detail: place.words(),
    };
    let rules = || {
        let own = |scope, origin: &str| RulePlace::Own(scope, origin.to_string());
        let theirs = RulePlace::Elsewhere("/home/u/parser/.rewake/config.toml:4".into());
        let user = "/home/u/.config/rewake/config.toml:9";
        let project = "/home/u/.local/share/rewake/permissions/ab12.toml:4";
        let items = vec![
            item(theirs, "deny", "Read(.env)"),
            item(
                own(RuleScope::Everywhere, user),
                "allow",
                "Bash(cargo test:*)",
            ),
            item(
                own(RuleScope::Project, project),
                "allow",
                "Network(cargo fetch:*)",
            ),
            item(own(RuleScope::Session, ""), "allow", "Bash(make:*)"),
        ];
        let mut picker = Picker::new(For::Rule, "permissions: 4 rules", items);
        picker.note = Some("Enter takes a rule back · default: changes and commands ask".into());
        Msg::Pick(picker)
    };
    scene!("permissions", |stage: &mut Stage| {
        stage.open();
        stage.send(rules());
    });
    scene!("permissions_remove", |stage: &mut Stage| {
        stage.open();
        stage.send(rules());
        stage.keys("<Down><Enter>");
    });
    let wanted = |keys: &str| {
        let mut stage = Stage::opened(80, 24);
        stage.send(rules());
        stage.keys(keys);
        let said = stage.screen();
        let wanted = stage.wanted.iter().find_map(|intent| match intent {
            Intent::RemoveRule { scope, list, rule } => Some(format!("{scope:?} {list} {rule}")),
            Intent::Engine(Command::TakeBackRule(rule)) => Some(format!("session {rule}")),
            _ => None,
        });
        (wanted, said)
    };
    let (elsewhere, said) = wanted("<Enter><Down><Enter>");
    assert_eq!(elsewhere, None);
    assert!(said.contains("cannot be removed here"), "{said}");
    assert!(said.contains("parser/.rewake/config.toml:4"), "{said}");
    let everywhere = Some("Everywhere allow Bash(cargo test:*)".to_string());
    assert_eq!(wanted("<Down><Enter><Down><Enter>").0, everywhere);
    let session = Some("session Bash(make:*)".to_string());
    assert_eq!(wanted("<Down><Down><Down><Enter><Down><Enter>").0, session);
    // It stays unless it is confirmed.
    assert_eq!(wanted("<Down><Enter><Enter>").0, None);
    assert_eq!(wanted("<Down><Enter><Esc>").0, None);
}

#[test]
fn the_page_below_a_box_is_dim() {
    let dim = rewake::ui::theme::Theme::named("dark").unwrap().dim.fg;
    let mut stage = Stage::new(80, 40);
    talk(&mut stage);
    assert_ne!(stage.style_of("It is mended.").fg, dim);
    let item = PickerItem {
        value: "a".into(),
        label: "a/b".into(),
        detail: String::new(),
    };
    stage.send(Msg::Pick(Picker::new(For::Model, "model", vec![item])));
    assert_eq!(stage.style_of("It is mended.").fg, dim);
    stage.keys("<Esc>");
    assert_ne!(stage.style_of("It is mended.").fg, dim);
    stage.keys("/permiss");
    assert_eq!(stage.style_of("It is mended.").fg, dim);
}

#[test]
fn the_chosen_command_has_a_mark_and_long_words_are_cut() {
    let mut stage = Stage::opened(60, 24);
    stage.keys("/<Down>");
    let screen = stage.screen();
    assert!(screen.contains("› /resume"), "{screen}");
    assert!(screen.contains('…'), "{screen}");
}

#[test]
fn all_keys_are_on_one_screen_where_there_is_room() {
    let mut stage = Stage::opened(120, 40);
    stage.keys("?");
    stage.does_not_see("↑↓ scroll");
    stage.sees("Ctrl+G");
    stage.sees("/permissions");
}

#[test]
fn a_part_of_the_context_has_one_row_also_where_it_is_narrow() {
    let mut stage = Stage::new(40, 24);
    talk(&mut stage);
    stage.keys("/context<Enter>");
    let rows = stage.rows();
    let parts = rows.iter().filter(|row| row.contains('▓'));
    assert!(parts.clone().all(|row| row.contains('%')), "{rows:#?}");
    assert_eq!(parts.count(), 2);
}
