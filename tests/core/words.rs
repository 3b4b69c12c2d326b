//! What the user said, as a property: for any history and any window of 4,000 tokens or more,
//! each request holds the first and the newest words of the user and each of the rules in them,
//! verbatim or by the address under which the model reads them.

use proptest::prelude::*;
use rewake::core::compacting;
use rewake::core::entry::*;
use rewake::core::request::Message;
use rewake::core::size::prefix_bytes;
use rewake::core::window::{self, CompactionStep};

use crate::context::{Session, all_text, any_size, any_summariser, bytes, finish, windows};

/// Sentences that a person would not want to be forgotten, with a number in place of `#`.
const RULES: [&str; 8] = [
    "Never touch the file r#.rs.",
    "Always run make check# before you say that it is done.",
    "Do not add the crate dep#!",
    "Du darfst niemals die Tabelle t# ändern.",
    "Il ne faut jamais modifier config#.toml.",
    "Los nombres de prueba deben empezar con ca#.",
    "絶対に設定#番を変更しないでください。",
    "不要修改第#个文件。",
];

#[derive(Debug, Clone)]
enum Turn {
    /// Filler of so many bytes, a rule in the middle of it, or none.
    Says(usize, Option<usize>),
    Calls(Vec<usize>),
}

fn any_turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        3 => (any_size(), prop::option::of(0..RULES.len())).prop_map(|(n, rule)| Turn::Says(n, rule)),
        2 => (0..60usize, prop::option::of(0..RULES.len())).prop_map(|(n, rule)| Turn::Says(n, rule)),
        6 => prop::collection::vec(any_size(), 1..5).prop_map(Turn::Calls),
    ]
}

/// What was said, with its rules.
pub(crate) struct Said {
    pub(crate) seq: u64,
    pub(crate) text: String,
    pub(crate) rule: Option<String>,
}

fn filler(bytes: usize) -> String {
    const WORDS: &str = "the parser reads a line and gives a tree of it. ";
    WORDS
        .repeat(bytes / 2 / WORDS.len() + 1)
        .trim_end()
        .to_string()
}

pub(crate) fn say(session: &mut Session, said: &mut Vec<Said>, bytes: usize, rule: Option<usize>) {
    let seq = session.state.next_seq();
    let rule = rule.map(|n| RULES[n].replace('#', &seq.to_string()));
    let middle = rule.as_deref().unwrap_or("So it is.");
    let text = format!(
        "Message {seq}: {0} {middle} {0} End of {seq}.",
        filler(bytes)
    );
    let images = Vec::new();
    let via = Via::Prompt;
    session.push(Entry::Said {
        text: text.clone(),
        images,
        via,
        command: None,
        origin: None,
    });
    said.push(Said { seq, text, rule });
}

pub(crate) fn work(session: &mut Session, sizes: &[usize]) {
    session.make_room();
    let call = |n| Block::call("read", format!(r#"{{"path":"file{n}"}}"#));
    session.reply((0..sizes.len()).map(call).collect());
    let outcome = |size: &usize| Outcome::done(format!("result {}", "r".repeat(*size)));
    finish(session, sizes.iter().map(outcome).collect(), None);
}

/// A quarter of what is left of the window after system, tools and answer, in bytes.
fn share(session: &Session) -> usize {
    let budget = session.budget();
    let layers = budget.tokens(prefix_bytes(&session.state.layers));
    budget.bytes((budget.window - budget.answer).saturating_sub(layers) / 4)
}

/// Whether the address of the entry stands there: its own, or that of a range with it.
pub(crate) fn is_addressed(text: &str, seq: u64) -> bool {
    let numbers = |from: &str| -> Vec<u64> {
        let end = from.find(|c: char| !c.is_ascii_digit() && c != '-');
        let range = &from[..end.unwrap_or(from.len())];
        range.split('-').filter_map(|n| n.parse().ok()).collect()
    };
    let one = text
        .match_indices("entry ")
        .any(|(at, word)| numbers(&text[at + word.len()..]) == [seq]);
    one || text.match_indices("entries ").any(|(at, word)| {
        matches!(numbers(&text[at + word.len()..])[..], [a, b] if (a..=b).contains(&seq))
    })
}

pub(crate) fn check(session: &mut Session, said: &[Said]) -> String {
    let request = session.make_room();
    crate::valid::assert_valid(&request.messages);
    let window = session.budget().window;
    let tokens = bytes(&request) as u64 / 4 + request.max_tokens;
    assert!(tokens <= window, "{tokens} tokens in a window of {window}");
    let share = share(session);
    let text = all_text(&request.messages);
    let in_full = |seq| session.state.context.iter().any(|r| r.seq == seq);
    let left: Vec<&Said> = said.iter().filter(|s| !in_full(s.seq)).collect();
    for one in said {
        let is_there = text.contains(&one.text) || is_addressed(&text, one.seq);
        assert!(
            is_there,
            "message {} is there, or its address: {text}",
            one.seq
        );
        if let Some(rule) = &one.rule {
            let is_there = text.contains(rule) || is_addressed(&text, one.seq);
            assert!(is_there, "{rule:?} is there, or its address: {text}");
        }
    }
    // What was said and how it is headed.
    let cost = |all: &[&Said]| all.iter().map(|s| s.text.len() + 20).sum::<usize>();
    let verbatim = |all: &[&Said]| {
        let mut from = 0;
        for one in all {
            let at = text[from..].find(&one.text);
            assert!(
                at.is_some(),
                "message {} is there, whole and in its order: {text}",
                one.seq
            );
            from += at.unwrap_or_default();
        }
    };
    if cost(&left) <= share {
        verbatim(&left);
    }
    if let [first, .., newest] = left[..]
        && cost(&[first, newest]) <= share
    {
        verbatim(&[first, newest]);
    }
    let rules: Vec<&Said> = left.iter().filter(|s| s.rule.is_some()).copied().collect();
    let bytes_of_rules: usize = rules
        .iter()
        .filter_map(|s| s.rule.as_ref())
        .map(|r| r.len() + 100)
        .sum();
    if bytes_of_rules <= share / 4 {
        for one in rules {
            let rule = one.rule.as_deref().unwrap_or_default();
            assert!(text.contains(rule), "{rule:?} is there, verbatim: {text}");
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_holds_the_words_of_the_user(
        turns in prop::collection::vec(any_turn(), 1..30),
        window in prop_oneof![4_000..9_000u64, 9_000..40_000u64, 40_000..200_000u64],
        summariser in any_summariser(),
        background in any::<bool>(),
    ) {
        let mut session = Session::new(window, windows(), summariser);
        let mut said = Vec::new();
        say(&mut session, &mut said, 100, Some(0));
        for turn in turns {
            match turn {
                Turn::Says(bytes, rule) => say(&mut session, &mut said, bytes, rule),
                Turn::Calls(sizes) => work(&mut session, &sizes),
            }
            if background {
                session.do_due();
            }
            check(&mut session, &said);
        }
    }
}

/// The smallest case of what was measured: three rules at the start, and then results.
#[test]
fn rules_said_at_the_start_are_in_every_request() {
    for window in [4_000, 8_000, 32_000] {
        let mut session = Session::new(window, windows(), crate::context::Summariser::Works);
        let mut said = Vec::new();
        for rule in 0..3 {
            say(&mut session, &mut said, 60, Some(rule));
        }
        for _ in 0..60 {
            work(&mut session, &[4_000]);
            check(&mut session, &said);
        }
    }
}

/// Between two steps that free results the requests have the same beginning, the newest results
/// stay, and there are not many steps.
#[test]
fn results_leave_in_steps_before_exchanges_do() {
    let mut session = Session::new(200_000, windows(), crate::context::Summariser::Works);
    let mut said = Vec::new();
    say(&mut session, &mut said, 60, Some(0));
    let (mut freed, mut summarised) = (0, 0);
    let mut before: Vec<Message> = Vec::new();
    for _ in 0..300 {
        work(&mut session, &[2_000]);
        match session.do_due() {
            Some(CompactionStep::Free(_)) => {
                freed += 1;
                before.clear();
            }
            Some(CompactionStep::Summarise(_)) => {
                summarised += 1;
                before.clear();
            }
            None => {}
        }
        let now = session.make_room().messages;
        let same = |m: &Message| m.parts.clone();
        let was = before.len().saturating_sub(1);
        assert_eq!(
            before.iter().take(was).map(same).collect::<Vec<_>>(),
            now.iter().take(was).map(same).collect::<Vec<_>>(),
            "the prefix stays between two steps"
        );
        let whole = all_text(&now).matches("result rrr").count();
        assert!(whole >= 10.min(now.len() / 2), "{whole} results are whole");
        before = now;
    }
    assert!((2..12).contains(&freed), "{freed} steps");
    assert!(summarised < freed, "{summarised} summaries, {freed} steps");
}

/// What is freed and asked for again is counted: by the same call, and by its address.
#[test]
fn a_freed_result_that_is_read_again_is_counted() {
    let mut session = Session::new(32_000, windows(), crate::context::Summariser::Works);
    let mut said = Vec::new();
    say(&mut session, &mut said, 60, None);
    while session.state.freed.results == 0 {
        work(&mut session, &[4_000, 3_900]);
        session.do_due();
    }
    let text = all_text(&session.make_room().messages);
    let line = "[left out: read file0: 4007 bytes; memory_page has it at entry 3]";
    assert!(text.contains(line), "{text}");
    // The paths of the scripted calls are the same each time.
    let before = session.state.freed.read_again;
    work(&mut session, &[10]);
    assert_eq!(session.state.freed.read_again, before + 1);
    session.make_room();
    session.reply(vec![Block::call("memory_page", r#"{"address":"entry 3"}"#)]);
    finish(
        &mut session,
        vec![Outcome::done("result")],
        Some(Fact::Recalled),
    );
    assert_eq!(session.state.freed.read_again, before + 2);
}

/// An answer that asks for these commands, each with what it printed and its exit code.
fn runs(session: &mut Session, commands: &[(&str, &str, i32)]) {
    session.make_room();
    let call = |(command, ..): &(&str, &str, i32)| {
        Block::call(
            "bash",
            serde_json::json!({ "command": command }).to_string(),
        )
    };
    session.reply(commands.iter().map(call).collect());
    for (_, printed, code) in commands {
        let call = session.state.first_open().expect("an open call").call.id;
        let guard = Guard::Supervised {
            run: "r".into(),
            boot: "b".into(),
            background: false,
        };
        session.push(Entry::Started {
            call,
            guard,
            access: None,
        });
        session.push(Entry::Finished {
            call,
            outcome: Outcome::done(*printed),
            fact: Some(Fact::Ran {
                exit_code: Some(*code),
                took_ms: 1,
                refused: false,
            }),
            tree: None,
        });
    }
}

/// How each command of the last answer ended, and whole lines of what was printed or none.
#[test]
fn a_note_says_how_the_commands_of_the_last_answer_ended() {
    let printed: String = (0..400).map(|n| format!("printed {n}.\n")).collect();
    for (window, has_parts) in [(5_000, false), (200_000, true)] {
        let mut session = Session::new(window, windows(), crate::context::Summariser::Fails);
        let mut said = Vec::new();
        say(&mut session, &mut said, 60, Some(0));
        let all: Vec<String> = (0..6)
            .map(|n| format!("{printed}all {n} are well\n"))
            .collect();
        let mut commands: Vec<(&str, &str, i32)> = all
            .iter()
            .map(|text| ("make all", text.as_str(), 0))
            .collect();
        commands.push(("make check", "in a.c\nerror: no b.c\nthe end", 2));
        runs(&mut session, &commands);
        let budget = session.budget();
        let entry = compacting::continued(&session.state, &budget, None, &|_| true, vec![]);
        let Entry::Continued { note, .. } = &entry else {
            panic!("{entry:?}");
        };
        let results = note.split("## Results of the last answer").nth(1);
        let results = results.and_then(|text| text.split("\n## ").next());
        let results = results.expect("a section of results");
        for part in ["exit 0, \"all 5 are well\"", "exit 2, \"error: no b.c\""] {
            assert!(results.contains(part), "{part}: {results}");
        }
        assert_eq!(results.contains(" in part:"), has_parts, "{results}");
        let of_printed = results.lines().filter(|line| line.contains("printed"));
        for line in of_printed {
            assert!(
                printed.lines().any(|whole| whole == line),
                "{line}: {results}"
            );
        }
    }
}

/// A note has the commands that did something with what they printed last, and leaves room.
#[test]
fn a_note_in_a_small_window_leaves_room_for_three_exchanges() {
    let mut session = Session::new(5_000, windows(), crate::context::Summariser::Fails);
    let mut said = Vec::new();
    say(&mut session, &mut said, 60, Some(0));
    runs(&mut session, &[("ls", "a.rs", 0)]);
    let piped = "cargo test 2>&1 | tail -3";
    runs(&mut session, &[(piped, "test result: FAILED. 3 failed", 0)]);
    runs(&mut session, &[("make", "make: *** error 2\nend", 2)]);
    work(&mut session, &[3_000, 3_000, 3_000]);
    let budget = session.budget();
    let entry = compacting::continued(&session.state, &budget, None, &|_| true, vec![]);
    let Entry::Continued { note, .. } = &entry else {
        panic!("{entry:?}");
    };
    for part in [
        "`cargo test 2>&1 | tail -3`: exit 0 of the last part, \"test result: FAILED. 3 failed\"",
        "`make`: exit 2, \"make: *** error 2\"",
        "Never touch the file r1.rs.",
    ] {
        assert!(note.contains(part), "{part}: {note}");
    }
    assert!(!note.contains("`ls`") && !note.contains("{\""), "{note}");
    session.push(entry);
    let now = window::request_tokens(&session.state, &budget, &session.policy.windows);
    // A result of 1 KB, its call and an answer of some words.
    let exchange = budget.tokens(1_000 + 500);
    assert!(
        now + 3 * exchange <= budget.hard(),
        "{now} of {}",
        budget.hard()
    );
}

/// The note of a continuation says why there is one, and a summary is followed by facts of the log.
#[test]
fn a_restart_names_its_reason_and_a_summary_is_followed_by_facts() {
    let printed: String = (0..400).map(|n| format!("printed {n}.\n")).collect();
    for (window, results, why) in [
        (
            6_000,
            7,
            "The last 7 results did not fit together. Read one at a time, in parts.",
        ),
        (6_000, 1, "The context was full."),
        (200_000, 7, "The context was full."),
    ] {
        let mut session = Session::new(window, windows(), crate::context::Summariser::Fails);
        let mut said = Vec::new();
        say(&mut session, &mut said, 60, Some(0));
        runs(&mut session, &[("make check", "error: no b.c", 2)]);
        runs(&mut session, &[("make docs", "fatal: no docs", 2)]);
        runs(&mut session, &[("make docs", "done", 0)]);
        runs(&mut session, &vec![("cat a", printed.as_str(), 0); results]);
        let budget = session.budget();
        let entry = compacting::continued(&session.state, &budget, None, &|_| true, vec![]);
        let Entry::Continued { note, .. } = &entry else {
            panic!("{entry:?}");
        };
        assert!(
            note.starts_with(&format!("<continuation>\n{why} ")),
            "{window} {results}: {note}"
        );
        let facts = session.state.ledger.facts(400, &session.state.folder);
        assert!(
            facts.contains("last failing command: `make check`: exit 2"),
            "{facts}"
        );
        assert!(!facts.contains("make docs"), "{facts}");
    }
}

/// Remarks of a person: rules of safety, constraints, facts, and much else.
const SAFETY: [&str; 5] = [
    "Never print a token or a password, not even while you debug.",
    "Do not run a command from a web page unless I agree.",
    "Customer data must not leave this machine.",
    "If a change could delete data, stop and ask instead of trying it.",
    "Never touch prod.",
];
const CONSTRAINTS: [&str; 5] = [
    "The spending limit is 300 EUR. Never go over it without asking.",
    "Only Rust 1.85. No new crates in the core.",
    "Do not push before I have read the diff.",
    "All times must be in Europe/Madrid.",
    "Keep the API stable and use tabs.",
];
const FACTS: [&str; 5] = [
    "The project is called HERON and ships on 2027-02-09.",
    "The staging database is MariaDB 11 in eu-south-2.",
    "The base address is https://stage.heron.example/v3.",
    "Pages go to Inés Okafor this week.",
    "The port is 8391, the ticket ABC-123.",
];
const ELSE: [&str; 12] = [
    "Let's look at the layout of the importer first.",
    "The retries wait longer each time, up to 30s.",
    "Yesterday was about the schema, today is about tests.",
    "The helper was renamed for clarity.",
    "We talked about caching of the static pages.",
    "The mock shows both latencies side by side.",
    "Somebody should write a smoke test for the health page.",
    "The memo is in the shared drive.",
    "The load test had no errors on the small cluster.",
    "The design of the webhooks is a draft.",
    "The list for new people has 14 items.",
    "The linter reads its settings from the manifest.",
];

/// Without a summary model, rules come before facts, and facts before the rest.
#[test]
fn rules_and_facts_survive_a_small_window_without_a_summary_model() {
    for (window, floors) in [(4_096, [100, 100, 75]), (8_000, [100, 100, 90])] {
        let mut session = Session::new(window, windows(), crate::context::Summariser::Fails);
        let mut others = ELSE.iter().cycle();
        let told = (0..5).flat_map(|n| [SAFETY[n], FACTS[n], CONSTRAINTS[n]]);
        for words in told {
            for text in [others.next().unwrap(), others.next().unwrap(), &words] {
                session.push(Entry::Said {
                    text: text.to_string(),
                    images: Vec::new(),
                    via: Via::Prompt,
                    command: None,
                    origin: None,
                });
                work(&mut session, &[700]);
                session.reply(vec![Block::text("Noted.")]);
            }
        }
        for _ in 0..4 {
            session.push(Entry::Said {
                text: "continue".into(),
                images: Vec::new(),
                via: Via::Prompt,
                command: None,
                origin: None,
            });
            work(&mut session, &[6_000, 2_000]);
        }
        let text = all_text(&session.make_room().messages);
        for (all, floor) in [SAFETY, CONSTRAINTS, FACTS].iter().zip(floors) {
            let kept = all.iter().filter(|words| text.contains(**words)).count();
            let kept = kept * 100 / all.len();
            assert!(kept >= floor, "{window}: {kept} % of {all:?}: {text}");
        }
    }
}
