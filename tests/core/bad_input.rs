//! What a person, a model or a server may come up with: after each of it the request fits, is valid,
//! and holds the first and the newest words and all rules, verbatim or by their address.

use rewake::core::entry::*;

use crate::context::{MODEL, Session, Summariser, finish, windows};
use crate::sim::plays_each;
use crate::words::{Said, check, is_addressed, say, work};

const WINDOWS: [u64; 4] = [4_000, 8_000, 32_000, 200_000];

fn session(window: u64, summariser: Summariser) -> (Session, Vec<Said>) {
    let mut session = Session::new(window, windows(), summariser);
    let mut said = Vec::new();
    say(&mut session, &mut said, 80, Some(0));
    (session, said)
}

/// Words without filler, and a rule if they are one.
fn says(session: &mut Session, said: &mut Vec<Said>, text: &str, is_rule: bool) {
    let seq = session.state.next_seq();
    session.push(Entry::Said {
        text: text.into(),
        images: Vec::new(),
        via: Via::Prompt,
        command: None,
        origin: None,
    });
    said.push(Said {
        seq,
        text: text.into(),
        rule: is_rule.then(|| text.to_string()),
    });
}

/// Until the context was made shorter a few times.
fn work_on(session: &mut Session, said: &[Said]) -> String {
    let calls = usize::try_from(session.budget().window / 400).expect("a window");
    for _ in 0..calls.min(150) {
        work(session, &[4_000]);
        session.do_due();
        check(session, said);
    }
    assert!(session.state.preface.is_some() || session.state.freed.results > 0);
    check(session, said)
}

#[test]
fn contradicting_rules_keep_their_order() {
    for window in WINDOWS {
        let (mut session, mut said) = session(window, Summariser::Works);
        let rules = [
            "Always indent with tabs.",
            "No: never indent with tabs.",
            "I was wrong. Only tabs, always.",
        ];
        for rule in rules {
            says(&mut session, &mut said, rule, true);
            work(&mut session, &[1_000]);
        }
        // In small windows they are behind a summary then.
        let text = work_on(&mut session, &said);
        let places: Vec<_> = rules.iter().map(|rule| text.find(rule)).collect();
        assert!(
            places.is_sorted() && places[0].is_some(),
            "{places:?}: {text}"
        );
        if session.state.preface.is_some() {
            assert!(text.contains("what was said later holds"), "{text}");
        }
    }
}

#[test]
fn five_hundred_short_messages() {
    for window in WINDOWS {
        let (mut session, mut said) = session(window, Summariser::Works);
        for n in 0..500 {
            let is_rule = n % 50 == 0;
            let text = match is_rule {
                true => format!("never do {n}"),
                false => format!("and then {n}"),
            };
            says(&mut session, &mut said, &text, is_rule);
            session.make_room();
            session.reply(vec![Block::text("so it is")]);
            session.do_due();
        }
        says(&mut session, &mut said, "the very newest", false);
        let text = check(&mut session, &said);
        assert!(text.contains("the very newest"), "{text}");
        work_on(&mut session, &said);
    }
}

/// Of a message that is longer than 256 KiB, rules are looked for at its two ends.
#[test]
fn a_message_that_is_larger_than_the_window() {
    const FIRST: &str = "Never touch lib.rs.";
    const LAST: &str = "Only then push.";
    for window in WINDOWS {
        for size in [window as usize * 4, 3_000_000] {
            // The rules are in what is cut of it, behind its first words and before its last.
            let filler = |bytes: usize| "so it went on and on. ".repeat(bytes / 20);
            let (ends, middle) = (size / 8, size);
            let ends = ends.min(100_000);
            let text = format!(
                "{0}{FIRST} {1}{LAST} {0}",
                filler(ends),
                filler(middle - 2 * ends)
            );
            let say_it = |session: &mut Session, said: &mut Vec<Said>| {
                let seq = session.state.next_seq();
                says(session, said, &text, false);
                for rule in [FIRST, LAST] {
                    said.push(Said {
                        seq,
                        text: rule.into(),
                        rule: Some(rule.into()),
                    });
                }
            };
            let (mut session, mut said) = session(window, Summariser::Fails);
            say_it(&mut session, &mut said);
            check(&mut session, &said);
            work_on(&mut session, &said);
            // As the first words of all, too.
            let mut session = Session::new(window, windows(), Summariser::Works);
            let mut said = Vec::new();
            say_it(&mut session, &mut said);
            check(&mut session, &said);
            work_on(&mut session, &said);
        }
    }
}

fn plans(session: &mut Session, steps: usize, goals: &[&str]) -> u64 {
    session.make_room();
    session.reply(vec![Block::call("plan", r#"{"steps":[]}"#)]);
    let step = |n: usize| PlanStep {
        text: format!("step {n} of many words, some of which are needed"),
        state: match n.cmp(&(steps / 2)) {
            std::cmp::Ordering::Less => StepState::Done,
            std::cmp::Ordering::Equal => StepState::Current,
            std::cmp::Ordering::Greater => StepState::Left,
        },
    };
    let plan = Plan {
        steps: (0..steps).map(step).collect(),
        goals: goals.iter().map(|goal| goal.to_string()).collect(),
    };
    let planned = session.state.next_seq();
    let fact = Some(Fact::Planned { plan });
    finish(session, vec![Outcome::done("planned")], fact);
    planned
}

#[test]
fn a_plan_of_200_steps() {
    for window in WINDOWS {
        let (mut session, said) = session(window, Summariser::Works);
        let at = plans(&mut session, 200, &["no test is changed"]);
        let text = work_on(&mut session, &said);
        if session.state.preface.as_ref().is_some_and(|p| p.last >= at) {
            assert!(text.contains("step 100 of many words"), "{text}");
            assert!(text.contains("no test is changed"), "{text}");
            let is_whole = text.contains("step 199 ");
            assert!(is_whole || is_addressed(&text, at), "{text}");
        }
    }
}

/// What a model notes with `plan` stands there verbatim, behind summaries and notes.
#[test]
fn a_rule_that_the_model_noted_with_plan_stands_verbatim() {
    const RULES: [&str; 3] = [
        "the API of v1 is never changed",
        "each commit is signed off",
        "ask before a table is dropped",
    ];
    for window in WINDOWS {
        for summariser in [Summariser::Works, Summariser::Fails] {
            let (mut session, said) = session(window, summariser);
            let at = plans(&mut session, 6, &RULES);
            let text = work_on(&mut session, &said);
            let gone = session.state.preface.as_ref().is_some_and(|p| p.last >= at);
            assert!(gone || window > 32_000, "it left the context of {window}");
            for rule in RULES.iter().filter(|_| gone) {
                assert!(text.contains(rule), "{window} {rule}: {text}");
            }
        }
    }
}

#[test]
fn a_result_that_is_one_line_of_10_mb() {
    // The largest takes longer than the others together.
    let most = if plays_each() { 4 } else { 3 };
    for window in WINDOWS.into_iter().take(most) {
        let (mut session, said) = session(window, Summariser::Works);
        work(&mut session, &[10_000_000, 200, 10_000_000]);
        let text = check(&mut session, &said);
        let seq = session.state.next_seq() - 1;
        assert!(is_addressed(&text, seq), "the last result has its address");
        work_on(&mut session, &said);
    }
}

#[test]
fn a_window_that_is_smaller_than_was_thought() {
    for summariser in [Summariser::Works, Summariser::Fails] {
        let (mut session, mut said) = session(200_000, summariser);
        for n in 0..60 {
            work(&mut session, &[4_000]);
            if n % 20 == 7 {
                // In the smallest of these windows they take more than their share.
                say(&mut session, &mut said, 3_000, Some(n % 8));
            }
        }
        for limit in [100_000, 32_000, 8_000, 4_000] {
            session.push(Entry::Learned(Learned {
                model: MODEL.into(),
                limit,
                ..Learned::default()
            }));
            assert!(session.budget().window <= limit);
            check(&mut session, &said);
            work(&mut session, &[4_000]);
            check(&mut session, &said);
        }
    }
}
