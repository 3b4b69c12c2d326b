//! A question about a call: what is seen of it, and what becomes of each answer.

use rewake::core::access::Access;
use rewake::core::entry::{CallId, Fact, Mode, Outcome, Plan, PlanStep, StepState, Verdict};
use rewake::core::rule::RuleScope;
use rewake::core::signal::Signal;
use rewake::core::tool::ToolCall;
use rewake::engine::Event;
use rewake::engine::{ChildQuestion, Command};
use rewake::ui::app::{Intent, Msg};
use serde_json::json;

use crate::log::{Log, bash, call, edit, entry, text, write};
use crate::stage::{Stage, scene};

const CHILD: &str = "01a1fc18-224f-7000-8000-000000000001";

const WHY: &str = "a command that no rule allows";

fn asked(stage: &mut Stage, rule: Option<&str>) -> CallId {
    stage.open();
    stage.says("push it");
    let id = stage.replies(vec![text("I will push."), bash("git push origin main")])[0];
    stage.asks(id, WHY, rule);
    id
}

fn verdicts(stage: &Stage) -> Vec<Verdict> {
    let decided = stage.wanted.iter().filter_map(|intent| match intent {
        Intent::Engine(Command::Decide { verdict, .. }) => Some(verdict.clone()),
        _ => None,
    });
    decided.collect()
}

#[test]
fn a_command_is_asked_about() {
    scene!("ask_command", |stage: &mut Stage| {
        asked(stage, None);
    });
    scene!("ask_rule", |stage: &mut Stage| {
        asked(stage, Some("Bash(git push:*)"));
        stage.answers("<Down>");
    });
    scene!("ask_deny", |stage: &mut Stage| {
        asked(stage, Some("Bash(git push:*)"));
        stage.chooses("n");
        stage.keys("not before the tests pass");
    });
}

#[test]
fn how_far_a_command_reaches_stays_in_sight() {
    scene!("ask_access", |stage: &mut Stage| {
        stage.open();
        stage.says("push it");
        let id = stage.replies(vec![text("I will push."), bash("git push origin main")])[0];
        let why = "runs without a sandbox";
        stage.asks_for(id, why, Some("Full(git push:*)"), Access::Full);
    });
    let long: String = (1..=60).map(|n| format!("echo step {n} && \\\n")).collect();
    for (width, height) in [(80, 24), (40, 12)] {
        let mut stage = Stage::opened(width, height);
        stage.says("go");
        let id = stage.replies(vec![bash(&format!("{long}curl x"))])[0];
        stage.asks_for(id, "uses the network", None, Access::Network);
        stage.sees("access network: ");
        stage.keys(&"<PageDown>".repeat(40));
        stage.sees("curl x");
        stage.sees("access network: ");
    }
}

#[test]
fn several_questions_of_an_answer_are_counted() {
    let mut stage = Stage::opened(80, 24);
    stage.says("go");
    let ids = stage.replies(vec![bash("make"), bash("make test"), bash("make install")]);
    stage.asks_one_of(ids[0], WHY, None, (1, 3));
    stage.sees("Run this command? · 1 of 3");
    stage.chooses("y");
    stage.log(entry::allowed(ids[0]));
    stage.asks_one_of(ids[1], WHY, None, (2, 3));
    stage.sees("Run this command? · 2 of 3");
    // The first waits for the others.
    stage.does_not_see("running");
    stage.chooses("y");
    assert_eq!(verdicts(&stage), [Verdict::Allow, Verdict::Allow]);
    stage.log(entry::allowed(ids[1]));
    stage.asks(ids[2], WHY, None);
    stage.does_not_see(" of 1");
}

#[test]
fn all_of_a_long_command_can_be_read() {
    let command: String = (1..=60).map(|n| format!("echo step {n} && \\\n")).collect();
    let command = format!("{command}rm -rf build");
    scene!("ask_long", |stage: &mut Stage| {
        stage.open();
        stage.says("go");
        let id = stage.replies(vec![bash(&command)])[0];
        stage.asks(id, WHY, None);
    });
    let mut stage = Stage::opened(80, 24);
    stage.says("go");
    let id = stage.replies(vec![bash(&command)])[0];
    stage.asks(id, WHY, None);
    stage.does_not_see("rm -rf build");
    stage.sees(WHY);
    stage.sees("61 commands");
    // A yes counts when the end was seen.
    stage.chooses("y");
    stage.sees("scroll to the end first");
    assert_eq!(verdicts(&stage), []);
    stage.keys(&"<PageDown>".repeat(9));
    stage.sees("rm -rf build");
    stage.sees(WHY);
    assert_eq!(verdicts(&stage), []);
    stage.chooses("y");
    assert_eq!(verdicts(&stage), [Verdict::Allow]);
}

#[test]
fn an_edit_is_asked_about_with_its_diff() {
    scene!("ask_edit", |stage: &mut Stage| {
        stage.open();
        stage.says("mend it");
        let old = "fn next(&self) -> usize {\n    self.at - 1\n}";
        let new = "fn next(&self) -> usize {\n    self.at\n}";
        let id = stage.replies(vec![edit("src/parser.rs", old, new)])[0];
        stage.asks(id, "an edit of a file", Some("Edit(src/**)"));
    });
}

#[test]
fn each_answer_is_given() {
    let answered = |keys: &str, rule: Option<&str>| {
        let mut stage = Stage::new(80, 24);
        asked(&mut stage, rule);
        stage.answers(keys);
        assert_eq!(verdicts(&stage), [], "{keys}: no letter confirms");
        stage.confirms();
        let always = stage.wanted.iter().find_map(|intent| match intent {
            Intent::AllowRule(scope, rule) => Some((*scope, rule.clone())),
            Intent::Engine(Command::Decide {
                rule: Some(rule), ..
            }) => Some((RuleScope::Session, rule.clone())),
            _ => None,
        });
        (verdicts(&stage), always)
    };
    let rule = Some("Bash(git push:*)");
    let deny = |reason: &str| Verdict::Deny {
        reason: reason.into(),
    };
    assert_eq!(answered("y", None), (vec![Verdict::Allow], None));
    assert_eq!(answered("", rule), (vec![Verdict::Allow], None));
    for (key, scope) in [
        ("s", RuleScope::Session),
        ("a", RuleScope::Project),
        ("e", RuleScope::Everywhere),
        ("2", RuleScope::Session),
        ("3", RuleScope::Project),
        ("4", RuleScope::Everywhere),
    ] {
        let kept = rule.map(|rule| (scope, rule.to_string()));
        assert_eq!(answered(key, rule), (vec![Verdict::Allow], kept));
    }
    for key in ["s", "a", "e", "3"] {
        assert_eq!(answered(key, None), (vec![], None), "no rule is offered");
    }
    let mut stage = Stage::new(80, 24);
    asked(&mut stage, rule);
    stage.denies("later");
    assert_eq!(verdicts(&stage), [deny("later")]);
    // What is typed by chance is no answer.
    assert_eq!(answered("x <C-y><F5>", rule), (vec![], None));
}

#[test]
fn the_words_in_the_box_are_there_after_the_question() {
    let mut stage = Stage::opened(80, 24);
    stage.says("push it");
    stage.keys("half a sentence");
    let id = stage.replies(vec![bash("git push")])[0];
    stage.asks(id, WHY, None);
    // While words stand in the box no key is an answer, however long it is quiet.
    stage.answers("y");
    stage.sees("half a sentencey");
    stage.sees("Tab puts your words aside");
    assert_eq!(verdicts(&stage), []);
    stage.keys("<Backspace><Tab>");
    // Put aside by mistake, they come back with the next key.
    stage.keys("!");
    stage.sees("half a sentence!");
    stage.keys("<Backspace><Tab>");
    stage.chooses("y");
    assert_eq!(verdicts(&stage), [Verdict::Allow]);
    stage.log(entry::allowed(id));
    stage.sees("half a sentence");
    // And what is kept of them meanwhile is all of them.
    assert!(
        stage
            .app
            .input
            .composer
            .draft()
            .unwrap()
            .contains("half a sentence")
    );
}

#[test]
fn keys_typed_before_the_question_go_to_the_box() {
    for early in ["yyya", "y<Enter>", "1", "a", "ny"] {
        let mut stage = Stage::new(80, 24);
        asked(&mut stage, Some("Bash(git push:*)"));
        stage.keys(early);
        assert_eq!(verdicts(&stage), [], "{early}");
        let always = |i: &Intent| matches!(i, Intent::AllowRule(..));
        assert!(!stage.wanted.iter().any(always), "{early}");
        let typed = stage.app.input.composer.text() + &stage.sent().concat();
        assert_eq!(typed, early.replace("<Enter>", ""), "{early}");
        stage.sees("Run this command?");
    }
}

#[test]
fn a_question_is_armed_by_quiet_after_it_was_seen() {
    let mut stage = Stage::new(80, 24);
    asked(&mut stage, None);
    // Time goes by before it is on the screen.
    stage.waits(5_000);
    stage.keys("<Left>");
    stage.waits(650);
    stage.draw();
    stage.sees("a moment");
    stage.keys("<Left>");
    stage.waits(690);
    stage.keys("<Enter>");
    assert_eq!(verdicts(&stage), [], "the last key was too near");
    stage.quiet();
    stage.sees("Enter chooses");
    stage.keys("<Enter>");
    assert_eq!(verdicts(&stage), [Verdict::Allow]);
}

#[test]
fn the_next_question_needs_a_separate_quiet_period() {
    let mut stage = Stage::new(80, 24);
    let first = asked(&mut stage, None);
    stage.chooses("y");
    stage.log(entry::allowed(first));
    stage.log(entry::started(first));
    stage.log(entry::ran(first, 0, "pushed"));
    let second = stage.replies(vec![bash("git push --force")])[0];
    stage.asks(second, WHY, None);
    stage.keys("y");
    assert_eq!(verdicts(&stage), [Verdict::Allow]);
    stage.keys("<Backspace>");
    stage.chooses("y");
    assert_eq!(verdicts(&stage).len(), 2);
}

#[test]
fn a_paste_is_never_an_answer() {
    let mut stage = Stage::new(80, 24);
    asked(&mut stage, None);
    stage.quiet();
    stage.pastes("y\n");
    assert_eq!(verdicts(&stage), []);
    assert_eq!(stage.app.input.composer.text(), "y\n");
    // But it may be the reason for a no.
    let mut stage = Stage::new(80, 24);
    asked(&mut stage, None);
    stage.chooses("n");
    stage.pastes("later");
    stage.keys("<Enter>");
    let reason = "later".into();
    assert_eq!(verdicts(&stage), [Verdict::Deny { reason }]);
}

#[test]
fn another_mode_is_no_way_to_answer_ahead() {
    let mut stage = Stage::new(80, 24);
    asked(&mut stage, None);
    stage.keys("<S-Tab>");
    let chosen = |i: &Intent| matches!(i, Intent::Engine(Command::Signal(Signal::Choose(_))));
    assert!(!stage.wanted.iter().any(chosen));
    stage.answers("<S-Tab>");
    assert!(stage.wanted.iter().any(chosen));
}

#[test]
fn words_that_begin_when_it_is_armed_are_not_lost() {
    let mut stage = Stage::new(80, 24);
    asked(&mut stage, Some("Bash(git push:*)"));
    stage.answers("please say why");
    assert_eq!(stage.app.input.composer.text(), "please say why");
    assert_eq!(verdicts(&stage), []);
}

#[test]
fn a_reason_that_is_typed_when_the_question_goes_is_not_lost() {
    let mut stage = Stage::new(80, 24);
    let id = asked(&mut stage, None);
    stage.chooses("n");
    stage.keys("not today");
    stage.log(entry::allowed(id));
    assert_eq!(stage.app.input.composer.text(), "not today");
}

const OSC: &str = "true \u{1b}]0;touch x; true \u{7}";

#[test]
fn every_byte_of_what_is_asked_is_seen() {
    scene!("ask_marks", |stage: &mut Stage| {
        stage.open();
        stage.says("go");
        let id = stage.replies(vec![bash(OSC)])[0];
        stage.asks(id, WHY, None);
    });
    let seen = |call: rewake::core::entry::Block, rule: Option<&str>| {
        let mut stage = Stage::new(120, 40);
        stage.open();
        stage.says("go");
        let id = stage.replies(vec![call])[0];
        stage.asks(id, WHY, rule);
        stage.screen()
    };
    let osc = "␛]0;touch x; true ␇";
    let screen = seen(bash(OSC), None);
    // In the question, once.
    assert_eq!(screen.matches(osc).count(), 1, "{screen}");
    let screen = seen(edit("a.sh", "true", OSC), None);
    assert!(screen.contains(osc), "{screen}");
    let screen = seen(write("a.sh", &format!("{OSC}\nrm \u{202e}x\rls")), None);
    for want in [osc, "rm <U+202E>x␍ls"] {
        assert!(screen.contains(want), "{screen}");
    }
    let screen = seen(bash("make"), Some("Bash(make\u{1b}]0;x\u{7})"));
    assert!(screen.contains("Bash(make␛]0;x␇)"), "{screen}");
}

#[test]
fn blanks_do_not_push_a_command_out_of_sight() {
    for (blank, mark) in [
        (" ".repeat(3_000), "⟨3,000 spaces⟩"),
        ("\n".repeat(120), "⟨120 line breaks⟩"),
    ] {
        let command = format!("true{blank}touch x");
        for (width, height) in [(120, 40), (80, 24), (40, 12)] {
            let mut stage = Stage::new(width, height);
            stage.open();
            stage.says("go");
            let id = stage.replies(vec![bash(&command)])[0];
            stage.asks(id, WHY, None);
            stage.sees(mark);
            stage.sees("touch x");
        }
    }
}

#[test]
fn the_whole_of_a_long_file_is_seen_before_a_yes() {
    let content = "echo harmless\n".repeat(5_000) + "rm -rf build\n";
    let mut stage = Stage::opened(80, 24);
    stage.says("go");
    let id = stage.replies(vec![write("a.sh", &content)])[0];
    stage.asks(id, WHY, None);
    stage.chooses("y");
    assert_eq!(verdicts(&stage), []);
    stage.keys("<End>");
    stage.sees("rm -rf build");
    stage.chooses("y");
    assert_eq!(verdicts(&stage), [Verdict::Allow]);
}

#[test]
fn a_rule_that_is_too_long_for_its_row_is_read_first() {
    let rule = format!("Bash({}end:*)", "make target ".repeat(30));
    let mut stage = Stage::new(80, 24);
    asked(&mut stage, Some(&rule));
    stage.sees("end`");
    // And in a row of all answers none has room for it.
    let mut stage = Stage::new(120, 12);
    asked(&mut stage, Some("Bash(git push:*)"));
    stage.sees("`git push`");
}

#[test]
fn a_small_terminal_can_answer() {
    for (width, height) in [(40, 12), (20, 5), (12, 4)] {
        for (keys, want) in [("y", vec![Verdict::Allow]), ("n", Vec::new())] {
            let mut stage = Stage::new(width, height);
            asked(&mut stage, Some("Bash(git push:*)"));
            let down = "<Down>".repeat(60);
            stage.answers(&down);
            stage.chooses(keys);
            match keys {
                "y" => assert_eq!(verdicts(&stage), want, "{width}x{height}"),
                _ => stage.keys("<Enter>"),
            }
            match keys {
                "y" => {}
                _ => assert!(matches!(verdicts(&stage)[..], [Verdict::Deny { .. }])),
            }
            let mut stage = Stage::new(width, height);
            asked(&mut stage, None);
            stage.answers("<Esc>");
            let stopped =
                |i: &Intent| matches!(i, Intent::Engine(Command::Signal(Signal::Stop { .. })));
            assert!(stage.wanted.iter().any(stopped));
        }
    }
    // And all of it can be read there.
    let mut stage = Stage::new(20, 5);
    asked(&mut stage, Some("Bash(git push:*)"));
    stage.quiet();
    let mut read = String::new();
    for _ in 0..40 {
        read.push_str(&stage.screen());
        stage.keys("<Down>");
    }
    stage.quiet();
    read.push_str(&stage.screen());
    for part in [
        "Run this command?",
        "rule",
        "git push",
        "origin main",
        "everywhere",
        "y yes",
    ] {
        assert!(read.contains(part), "{part:?} in {read}");
    }
}

#[test]
fn words_are_seen_beside_a_question() {
    scene!("ask_typing", |stage: &mut Stage| {
        asked(stage, Some("Bash(git push:*)"));
        stage.keys("and then the docs");
    });
}

#[test]
fn escape_stops_the_work_and_page_up_looks_round() {
    let mut stage = Stage::new(80, 24);
    for n in 0..30 {
        stage.says(&format!("question {n}"));
        stage.replies(vec![text("answer")]);
    }
    asked(&mut stage, None);
    stage.keys("<PageUp><PageUp>");
    stage.sees("more below");
    stage.sees("Run this command?");
    assert_eq!(verdicts(&stage), []);
    stage.answers("<Esc>");
    let stopped = |i: &Intent| matches!(i, Intent::Engine(Command::Signal(Signal::Stop { .. })));
    assert!(stage.wanted.iter().any(stopped));
}

#[test]
fn shift_tab_goes_round_the_modes_and_never_to_the_one_that_asks_nothing() {
    let mut stage = Stage::opened(80, 24);
    let mut seen = Vec::new();
    for _ in 0..3 {
        stage.keys("<S-Tab>");
        let chosen = stage.wanted.drain(..).find_map(|intent| match intent {
            Intent::Engine(Command::Signal(Signal::Choose(choice))) => choice.mode,
            _ => None,
        });
        let mode = chosen.unwrap();
        seen.push(mode);
        stage.log(entry::chose(mode));
        stage.sees(&format!("mode: {}", mode.name()));
    }
    assert_eq!(seen, [Mode::AcceptEdits, Mode::Plan, Mode::Default]);
}

#[test]
fn a_question_is_open_again_when_its_session_is() {
    let mut log = Log::default();
    log.push(entry::said("push it"));
    log.push(entry::replied(vec![bash("git push")]));
    let mut stage = Stage::new(80, 24);
    stage.log = log;
    stage.open();
    let id = CallId { reply: 2, index: 0 };
    stage.asks(id, WHY, None);
    stage.sees("Run this command?");
    stage.sees("git push");
}

/// An edit of a file whose text the screen has read.
fn asks_about_an_edit(stage: &mut Stage) {
    stage.says("mend it");
    let id = stage.replies(vec![edit(
        "src/parser.rs",
        "    self.at - 1\n",
        "    self.at\n",
    )])[0];
    stage.open();
    stage.asks(id, "it changes `src/parser.rs`", None);
    let text = "// a\n// b\n\nfn next(&self) -> usize {\n    self.at - 1\n}\n";
    stage.send(Msg::AskedFile(id, Some(text.into())));
}

#[test]
fn an_edit_that_is_asked_about_stands_in_its_place_in_the_file() {
    scene!("ask_edit_in_place", asks_about_an_edit);
    let mut stage = Stage::new(80, 24);
    asks_about_an_edit(&mut stage);
    let wants = |intent: &Intent| matches!(intent, Intent::ReadAsked(_, path) if path.ends_with("src/parser.rs"));
    assert!(stage.wanted.iter().any(wants));
    let rows = stage.rows();
    let title = "┃ Change src/parser.rs?";
    let title = rows.iter().position(|row| row.starts_with(title));
    let below = &rows[title.expect("no title") + 1];
    assert!(
        below.contains("4") && below.contains("fn next"),
        "{rows:#?}"
    );
    stage.sees("5 -     self.at - 1");
    stage.sees("It asks because edits ask in this mode. Shift+Tab: acceptEdits.");
    // A text that the edit does not fit changes nothing.
    let mut stage = Stage::new(80, 24);
    stage.says("mend it");
    let id = stage.replies(vec![edit("src/parser.rs", "self.at - 1", "self.at")])[0];
    stage.open();
    stage.asks(id, "it changes `src/parser.rs`", None);
    stage.send(Msg::AskedFile(id, Some("another file\n".into())));
    stage.sees("- self.at - 1");
    stage.does_not_see("another file");
}

#[test]
fn a_question_says_why_in_a_sentence() {
    for (why, rule, want) in [
        (
            "it contains a loop, so no rule can be offered",
            None,
            "It contains a loop, so no rule can be offered.",
        ),
        (
            "`make` may do more than look",
            Some("Bash(make:*)"),
            "It asks because `make` may do more than look.",
        ),
        (
            "the rule `Bash(make:*)` asks",
            None,
            "It asks because the rule `Bash(make:*)` asks.",
        ),
    ] {
        let mut stage = Stage::new(100, 30);
        stage.says("go");
        let id = stage.replies(vec![bash("make")])[0];
        stage.open();
        stage.asks(id, why, rule);
        stage.sees(want);
    }
}

#[test]
fn a_command_is_in_the_colours_of_the_shell_where_it_is_asked_about_alone() {
    let line = "for i in 1 2; do echo \"part $i\"; done # rm -rf build";
    let mut stage = Stage::opened(80, 24);
    stage.says("go");
    let id = stage.replies(vec![bash(line)])[0];
    stage.asks(id, WHY, None);
    let (keyword, word) = (stage.style_of("for i"), stage.style_of("echo"));
    let string = stage.style_of("\"part");
    assert!(keyword.fg != word.fg && string.fg != word.fg);
    // What a grammar takes for a comment is as loud as the rest.
    let text = stage.style_of("Run this command?");
    assert_eq!(stage.style_of("# rm -rf build"), text);
    stage.chooses("y");
    stage.log(entry::allowed(id));
    stage.log(entry::started(id));
    stage.log(entry::ran(id, 0, ""));
    assert_eq!(stage.style_of("for i").fg, stage.style_of("\"part").fg);
}

#[test]
fn a_file_that_would_be_written_over_is_asked_about_with_what_changes() {
    let mut stage = Stage::opened(80, 24);
    stage.says("write it");
    let calls = vec![
        write("a.txt", "1\n2\nthree\n"),
        write("b.txt", "new\n"),
        edit("c.txt", "old", "new"),
    ];
    let ids = stage.replies(calls);
    stage.asks_one_of(ids[0], "it changes `a.txt`", None, (1, 3));
    stage.sees("1 + 1");
    stage.send(Msg::AskedFile(ids[0], Some("1\n2\n3\n".into())));
    stage.does_not_see("1 + 1");
    stage.sees("3 - 3");
    stage.sees("3 + three");
    // What waits behind it is no part of it, and how much it changes is not known.
    stage.does_not_see("1 + new");
    stage.does_not_see("- old");
    assert!(
        stage
            .line_with("write      b.txt")
            .trim_end()
            .ends_with("b.txt")
    );
    assert!(stage.line_with("edit       c.txt").contains("+1 −1"));
}

#[test]
fn the_title_of_a_question_names_the_file_of_the_diff_below_it() {
    let mut stage = Stage::new(80, 24);
    stage.open();
    stage.says("mend it");
    let plan = Plan {
        steps: vec![PlanStep {
            text: "mend the lexer".into(),
            state: StepState::Current,
        }],
        goals: vec![],
    };
    let ids = stage.replies(vec![
        call("plan", serde_json::json!({ "steps": [] })),
        edit("a.rs", "old", "new"),
    ]);
    let fact = Fact::Planned { plan };
    stage.log(entry::finished(ids[0], Outcome::done("kept"), Some(fact)));
    stage.sees("plan 1 of 1 · mend the lexer");
    stage.asks(ids[1], "it changes `a.rs`", None);
    let rows = stage.rows();
    let title = rows.iter().position(|row| row == "┃ Change a.rs? · +1 −1");
    assert!(rows[title.unwrap() + 1].contains("- old"), "{rows:#?}");
    // Of two edits in one answer, each has its own title, whatever stands above.
    let mut stage = Stage::opened(80, 24);
    stage.says("mend it");
    let edits = [("README.md", "# Old"), ("total.py", "sum = 0")];
    let calls = edits.map(|(path, old)| edit(path, old, "new"));
    let ids = stage.replies(calls.to_vec());
    for (place, (path, old)) in edits.iter().enumerate() {
        stage.asks_one_of(
            ids[place],
            &format!("it changes `{path}`"),
            None,
            (place + 1, 2),
        );
        let rows = stage.rows();
        let title = format!("┃ Change {path}? · {} of 2 · +1 −1", place + 1);
        let at = rows.iter().position(|row| *row == title).expect(&title);
        assert!(rows[at + 1].contains(&format!("- {old}")), "{rows:#?}");
        assert!(rows[at + 3].contains("y  once"), "{rows:#?}");
        stage.log(entry::allowed(ids[place]));
    }
}

#[test]
fn the_background_of_a_change_begins_at_its_numbers_and_ends_with_the_measure() {
    let mut stage = Stage::opened(180, 30);
    stage.says("mend it");
    let id = stage.replies(vec![edit("a.rs", "old", "new")])[0];
    stage.log(entry::checked(id, "/home/ann/parser/a.rs"));
    stage.log(entry::done(id, "edited"));
    let theme = stage.app.look.theme.clone();
    let y = stage
        .rows()
        .iter()
        .position(|row| row.contains("- old"))
        .unwrap();
    let y = u16::try_from(y).unwrap();
    let buffer = stage.draw();
    let with: Vec<u16> = (0..180)
        .filter(|x| {
            buffer[(*x, y)].style().bg == theme.diff_del.bg
                || buffer[(*x, y)].style().bg == theme.diff_del_word.bg
        })
        .collect();
    assert_eq!((with[0], with[with.len() - 1]), (13, 177));
}

fn served(arguments: serde_json::Value) -> rewake::core::entry::Block {
    let arguments = serde_json::json!({ "tool": "mcp__mail__send", "arguments": arguments });
    call("mcp_call", arguments)
}

#[test]
fn a_tool_of_a_server_is_asked_about_with_all_its_arguments() {
    const WHY: &str = "it calls `mcp__mail__send`, a tool of a server";
    scene!("ask_server", |stage: &mut Stage| {
        stage.open();
        stage.says("tell her");
        let arguments = serde_json::json!({
            "to": ["ada@example.org"], "body": "Hello,\nit is done.", "urgent": true,
        });
        let id = stage.replies(vec![text("I will write to her."), served(arguments)])[0];
        stage.asks(id, WHY, Some("mcp__mail__send"));
    });
}

#[test]
fn nothing_is_hidden_in_the_arguments_of_a_servers_tool() {
    let hostile = format!(
        "ok{}and \u{202e}gnp.exe\u{1b}[8m hidden\u{200b}\u{1b}[0m {}THE END",
        " ".repeat(3_000),
        "word ".repeat(2_000)
    );
    let mut stage = Stage::opened(80, 24);
    stage.says("go");
    let arguments = serde_json::json!({ "body": hostile, "z": "last \u{430}" });
    let id = stage.replies(vec![served(arguments)])[0];
    stage.asks(id, "asks", None);
    stage.sees("Call mail · send?");
    stage.sees("⟨3,000 spaces⟩");
    stage.sees("<U+202E>");
    stage.keys(&"<PageDown>".repeat(60));
    stage.sees("THE END");
    stage.sees("<U+0430>");
}

/// What a sub-agent asks.
fn child_asks(stage: &mut Stage) -> CallId {
    stage.open();
    stage.says("give it to somebody");
    let start = call("task", json!({ "prompt": "push it" }));
    let id = stage.replies(vec![start])[0];
    stage.log(entry::task_started(id));
    let question = ChildQuestion {
        session: CHILD.into(),
        title: "push it".into(),
        call: ToolCall::new(
            CallId { reply: 7, index: 0 },
            "bash",
            r#"{"command":"git push"}"#,
            rewake::tools::describe,
        ),
        asked: 9,
        why: WHY.into(),
        access: Some(Access::Full),
        form: None,
    };
    stage.engine_event(Event::ChildAsks(Some(Box::new(question))));
    id
}

#[test]
fn the_question_of_a_task_is_answered_on_the_screen_of_its_parent() {
    scene!("ask_of_task", |stage: &mut Stage| {
        child_asks(stage);
    });
    for (keys, wanted) in [
        ("y", Verdict::Allow),
        (
            "n",
            Verdict::Deny {
                reason: "not now".into(),
            },
        ),
    ] {
        let mut stage = Stage::new(80, 24);
        child_asks(&mut stage);
        match keys {
            "n" => stage.denies("not now"),
            keys => stage.chooses(keys),
        }
        let sent = stage.wanted.iter().find_map(|intent| match intent {
            Intent::Engine(Command::DecideChild {
                session,
                call,
                asked,
                verdict,
            }) => Some((session.as_str(), *call, *asked, verdict.clone())),
            _ => None,
        });
        let call = CallId { reply: 7, index: 0 };
        assert_eq!(sent, Some((CHILD, call, 9, wanted)), "{keys}");
        assert_eq!(verdicts(&stage), [], "the parent's own call is not decided");
        stage.does_not_see("Run this command without the sandbox?");
    }
    // It was answered elsewhere.
    let mut stage = Stage::new(80, 24);
    child_asks(&mut stage);
    stage.sees("Run this command without the sandbox?");
    stage.engine_event(Event::ChildAsks(None));
    stage.does_not_see("Run this command without");
}

fn rule_of(stage: &Stage) -> Option<(RuleScope, String)> {
    stage.wanted.iter().find_map(|intent| match intent {
        Intent::AllowRule(scope, rule) => Some((*scope, rule.clone())),
        Intent::Engine(Command::Decide {
            rule: Some(rule), ..
        }) => Some((RuleScope::Session, rule.clone())),
        _ => None,
    })
}

#[test]
fn the_rules_for_the_parts_of_a_line_are_one_choice_in_words() {
    let rules = "Bash(cargo test:*), Bash(cargo fmt:*)";
    let mut stage = Stage::opened(80, 24);
    stage.says("check it");
    let id = stage.replies(vec![bash("cargo test && cargo fmt")])[0];
    stage.asks(id, WHY, Some(rules));
    stage.sees("a  always in this project  allows `cargo test` and `cargo fmt`");
    stage.does_not_see("Bash(");
    stage.chooses("a");
    assert_eq!(rule_of(&stage), Some((RuleScope::Project, rules.into())));
}

#[test]
fn a_servers_tool_is_allowed_alone_or_with_its_server_in_words() {
    let ask = || {
        let mut stage = Stage::opened(80, 24);
        stage.says("go");
        let arguments = json!({ "tool": "mcp__mail__send", "arguments": { "to": "bob" } });
        let id = stage.replies(vec![call("mcp_call", arguments)])[0];
        stage.asks(id, WHY, Some("mcp__mail__send(spec:0123456789abcdef)"));
        stage
    };
    let mut stage = ask();
    stage.sees("s  for this session        allows this tool");
    stage.sees("t  for this session        allows all tools of this server");
    stage.does_not_see("spec:");
    stage.does_not_see("0123456789");
    stage.chooses("t");
    let server = (RuleScope::Session, "mcp__mail".to_string());
    assert_eq!(rule_of(&stage), Some(server));
    assert_eq!(verdicts(&stage), [Verdict::Allow]);
    let mut stage = ask();
    stage.chooses("e");
    let tool = "mcp__mail__send(spec:0123456789abcdef)".to_string();
    assert_eq!(rule_of(&stage), Some((RuleScope::Everywhere, tool)));
}

#[test]
fn a_long_new_file_needs_no_scrolling() {
    let content: String = (1..=110).map(|n| format!("line {n}\n")).collect();
    let ask = |found: Option<&str>| {
        let mut stage = Stage::opened(80, 24);
        stage.says("write it");
        let id = stage.replies(vec![write("new.txt", &content)])[0];
        stage.asks(id, "it changes `new.txt`", None);
        stage.send(Msg::AskedFile(id, found.map(str::to_string)));
        stage.quiet();
        stage
    };
    let mut stage = ask(None);
    stage.sees("Write new.txt? · new file · +110 −0");
    stage.sees("more lines · Enter chooses");
    // The call is not shown a second time above the question.
    assert_eq!(stage.screen().matches("new.txt").count(), 1);
    stage.chooses("y");
    assert_eq!(verdicts(&stage), [Verdict::Allow]);
    // What is written over must be seen.
    let mut stage = ask(Some("old\n"));
    stage.chooses("y");
    stage.sees("scroll to the end first");
    assert_eq!(verdicts(&stage), []);
}
