//! Sentences that are typed into an open question, fast and slowly: they approve nothing, none of
//! their letters is lost, and the letters that select still do. The clock is injected.

use rewake::core::access::Access;
use rewake::core::entry::{CallId, Verdict};
use rewake::engine::Command;
use rewake::ui::app::Intent;
use rewake::ui::highlight::Highlighter;

use crate::log::{bash, entry};
use crate::stage::Stage;

const WHY: &str = "a command that no rule allows";
const RULE: Option<&str> = Some("Bash(git push:*)");

/// What a person types or dictates while a question is open. Each key of a choice begins some.
const SENTENCES: [&str; 64] = [
    "also run the linter",
    "also check the docs before you push",
    "add a test for the parser first",
    "are you sure about that?",
    "actually use the other remote",
    "and then say what was wrong",
    "a shorter message would be better",
    "ask me before you push again",
    "all tests must pass first",
    "always run the tests before this",
    "stop after this one",
    "skip the slow tests",
    "say why you want to push",
    "show me the diff first",
    "so what happens then?",
    "some of the files are generated",
    "save the log to a file",
    "see the notes in README.md",
    "sorry, wrong branch",
    "squash the commits first",
    "ensure that the tests pass",
    "each of them needs a changelog line",
    "explain the failure to me",
    "every file has a header",
    "either way is fine with me",
    "edit the config as well",
    "even better: make it a flag",
    "else it will break the build",
    "easy, but not now",
    "ease off and read it again",
    "yes please",
    "yes, but only to the fork",
    "you forgot the changelog",
    "your last change broke the build",
    "yet another thing: the docs",
    "yesterday it still worked",
    "yay, that was fast",
    "y is the better name for it",
    "yeah go on",
    "no, use the other file",
    "not before the tests pass",
    "now run it again",
    "next time ask me first",
    "never push to main",
    "name the branch fix-parser",
    "nothing of this is needed",
    "nearly done, but the docs are missing",
    "need to think about that",
    "do not push yet",
    "delete the old branch first",
    "don't forget the tests",
    "docs come first",
    "1 more thing: bump the version",
    "2 files are missing",
    "3 tests fail on my machine",
    "4 eyes see more, wait for review",
    "5 minutes, please",
    "please run make check",
    "what does this command do?",
    "wait for me",
    "use --force-with-lease",
    "I would rather see it first",
    "läuft das auch unter macOS?",
    "先に テスト を実行して",
];

/// The milliseconds before a letter, by its number.
type Gap = fn(usize) -> i64;

/// How a sentence is typed: milliseconds between two letters, and from the last one to Enter.
const RHYTHMS: [(&str, Gap, i64); 6] = [
    // A whole line at once, its end too.
    ("dictation", |_| 0, 0),
    ("fast", |_| 60, 60),
    ("steady", |_| 180, 250),
    // Two letters, and a pause after each.
    ("in bursts", |n| if n % 2 == 0 { 900 } else { 90 }, 400),
    (
        "with a pause after the first letter",
        |n| if n == 1 { 2_500 } else { 120 },
        500,
    ),
    ("slow", |_| 650, 690),
];

fn asked(access: Option<Access>) -> (Stage, CallId) {
    asked_in(access, Highlighter::direct())
}

fn asked_in(access: Option<Access>, code: Highlighter) -> (Stage, CallId) {
    let mut stage = Stage::new(60, 16);
    stage.app.look.code = code;
    stage.open();
    stage.says("push it");
    let id = stage.replies(vec![bash("git push origin main")])[0];
    match access {
        Some(access) => stage.asks_for(id, WHY, RULE, access),
        None => stage.asks(id, WHY, RULE),
    }
    stage.quiet();
    (stage, id)
}

/// What was decided, and the rules that were made.
fn decided(stage: &Stage) -> usize {
    let decides = |intent: &&Intent| {
        matches!(
            intent,
            Intent::Engine(Command::Decide { .. }) | Intent::AllowRule(..)
        )
    };
    stage.wanted.iter().filter(decides).count()
}

fn verdicts(stage: &Stage) -> Vec<Verdict> {
    let decided = stage.wanted.iter().filter_map(|intent| match intent {
        Intent::Engine(Command::Decide { verdict, .. }) => Some(verdict.clone()),
        _ => None,
    });
    decided.collect()
}

/// Types a text in a rhythm, and Enter behind it.
fn types(stage: &mut Stage, text: &str, gap: Gap, to_enter: i64) {
    for (n, letter) in text.chars().enumerate() {
        if n > 0 {
            stage.waits(gap(n));
        }
        stage.presses(letter);
    }
    stage.waits(to_enter);
    stage.presses('\n');
}

#[test]
fn no_sentence_approves_and_none_of_its_letters_is_lost() {
    let (mut approved, mut lost, mut sent, mut typed) = (Vec::new(), Vec::new(), 0, 0);
    // Reading the grammar of the shell takes longer than all else, so one highlighter goes along.
    let mut code = Highlighter::direct();
    for (rhythm, gap, to_enter) in RHYTHMS {
        for (n, sentence) in SENTENCES.into_iter().enumerate() {
            let access = (n % 8 == 0).then_some(Access::Full);
            let (mut stage, _) = asked_in(access, code);
            types(&mut stage, sentence, gap, to_enter);
            typed += 1;
            if decided(&stage) > 0 {
                approved.push((sentence, rhythm));
            }
            if stage.app.input.composer.text() != sentence {
                lost.push((sentence, rhythm, stage.app.input.composer.text()));
            }
            sent += stage.sent().len();
            // The question is still there, with what is preselected.
            stage.sees("git push origin main");
            let preselected = if access.is_some() { "› n" } else { "› y" };
            stage.sees(preselected);
            code = stage.app.look.code;
        }
    }
    println!(
        "sentences typed: {typed}, that approved: {}",
        approved.len()
    );
    assert_eq!(approved, [], "sentences that approve");
    assert_eq!(lost, [], "letters that are lost");
    assert_eq!(sent, 0, "sent by an Enter right after a letter");
}

#[test]
fn a_dictated_line_needs_a_separate_enter_to_be_sent() {
    let (mut stage, _) = asked(None);
    types(&mut stage, "also run the linter", |_| 0, 0);
    stage.sees("wait a moment, then press Enter");
    stage.confirms();
    assert_eq!(stage.sent(), ["also run the linter"]);
    assert_eq!(decided(&stage), 0);
    // The box is empty: the choice that is preselected can be confirmed.
    stage.confirms();
    assert_eq!(verdicts(&stage), [Verdict::Allow]);
}

#[test]
fn a_dictated_line_that_ends_after_the_question_came_up_sends_nothing() {
    let mut stage = Stage::new(60, 16);
    stage.open();
    stage.says("push it");
    let id = stage.replies(vec![bash("git push origin main")])[0];
    for letter in "also run".chars() {
        stage.presses(letter);
    }
    stage.asks(id, WHY, RULE);
    for letter in " it\n".chars() {
        stage.presses(letter);
    }
    assert_eq!((decided(&stage), stage.sent().len()), (0, 0));
    assert_eq!(stage.app.input.composer.text(), "also run it");
}

#[test]
fn enter_right_after_a_letter_confirms_nothing() {
    for (letter, wait, want) in [("y", 699, 0), ("y", 700, 1), ("a", 699, 0), ("a", 700, 2)] {
        let (mut stage, _) = asked(None);
        stage.keys(letter);
        stage.sees(&format!("› {letter} "));
        stage.sees("wait a moment, then press Enter");
        stage.waits(wait);
        stage.presses('\n');
        assert_eq!(decided(&stage), want, "{letter} and Enter after {wait} ms");
    }
}

#[test]
fn a_letter_selects_and_what_follows_brings_it_into_the_box() {
    let (mut stage, _) = asked(None);
    stage.keys("a");
    stage.sees("› a");
    stage.waits(2_000);
    stage.keys("n");
    stage.sees("› n");
    assert_eq!(stage.app.input.composer.text(), "");
    // A blank shows that it was a sentence. The choice is the preselected one again.
    stage.waits(2_000);
    stage.keys(" ");
    assert_eq!(stage.app.input.composer.text(), "an ");
    stage.sees("› y");
    stage.keys("idea");
    assert_eq!(stage.app.input.composer.text(), "an idea");
    // So does a paste.
    let (mut stage, _) = asked(None);
    stage.keys("e");
    stage.waits(2_000);
    stage.pastes("xplain it\n");
    assert_eq!(stage.app.input.composer.text(), "explain it\n");
    stage.sees("› y");
    assert_eq!(decided(&stage), 0);
}

#[test]
fn backspace_takes_a_letter_back_and_an_arrow_makes_it_a_choice() {
    let (mut stage, _) = asked(None);
    stage.keys("s");
    stage.waits(500);
    stage.keys("e");
    stage.sees("› e");
    stage.keys("<Backspace>");
    stage.sees("› s");
    stage.keys("<Backspace>");
    stage.sees("› y");
    stage.waits(500);
    stage.keys("s<Down>");
    stage.sees("› a");
    // The letter was a choice: it is no part of what is typed now.
    stage.waits(500);
    stage.keys("wait");
    assert_eq!(stage.app.input.composer.text(), "wait");
}

#[test]
fn a_letter_is_not_lost_when_the_question_is_answered_elsewhere() {
    let (mut stage, id) = asked(None);
    stage.keys("a");
    stage.log(entry::allowed(id));
    stage.keys("lso the docs");
    assert_eq!(stage.app.input.composer.text(), "also the docs");
}

#[test]
fn text_that_tab_put_aside_stays_so_until_the_next_question() {
    let mut stage = Stage::new(80, 24);
    stage.open();
    stage.says("go");
    stage.keys("half a sentence");
    let ids = stage.replies(vec![bash("make"), bash("make test"), bash("make install")]);
    stage.asks_one_of(ids[0], WHY, None, (1, 3));
    stage.keys("<Tab>");
    stage.chooses("y");
    stage.log(entry::allowed(ids[0]));
    // Time goes by before the next one.
    stage.waits(300);
    stage.draw();
    stage.waits(300);
    stage.asks_one_of(ids[1], WHY, None, (2, 3));
    stage.does_not_see("Tab puts your words aside");
    stage.chooses("y");
    assert_eq!(verdicts(&stage), [Verdict::Allow, Verdict::Allow]);
    stage.log(entry::allowed(ids[1]));
    stage.sees("half a sentence");
    // A key that comes too early for a question is not lost.
    stage.asks_one_of(ids[2], WHY, None, (3, 3));
    stage.keys("y");
    assert_eq!(stage.app.input.composer.text(), "half a sentencey");
    assert_eq!(verdicts(&stage).len(), 2);
}

#[test]
fn a_sentence_at_the_card_and_at_a_question_of_yes_or_no_is_for_the_box() {
    for sentence in [
        "fix the parser",
        "no, something new",
        "take another look",
        "yes, go on",
    ] {
        for gap in [0, 900] {
            let mut stage = Stage::new(80, 24);
            crate::start::offers(&mut stage, vec![crate::start::offer(0, "mend it")]);
            stage.quiet();
            for letter in sentence.chars() {
                stage.waits(gap);
                stage.presses(letter);
            }
            stage.presses('\n');
            assert_eq!(stage.app.input.composer.text(), sentence, "every {gap} ms");
            stage.sees("Unfinished sessions in this folder");
            let mut stage = Stage::opened(80, 24);
            stage.keys("/permissions bypassPermissions<Enter>");
            stage.sees("WITHOUT the sandbox");
            stage.quiet();
            for letter in sentence.chars() {
                stage.waits(gap);
                stage.presses(letter);
            }
            stage.presses('\n');
            assert_eq!(stage.app.input.composer.text(), sentence, "every {gap} ms");
            stage.sees("WITHOUT the sandbox");
        }
    }
}
