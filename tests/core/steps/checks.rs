//! Checks: when one is due, what waits for it, and what a repeated timeout does.

use std::sync::Arc;

use rewake::core::check::{Check, MAX_TIMEOUTS};
use rewake::core::entry::*;
use rewake::core::next::{Pending, Step, Why, next};
use rewake::core::prompt::messages;
use rewake::core::settings::Policy;
use rewake::core::state::State;

use super::{bash, finished, id, nothing_else, policy, replied, resumed, said, state, stopped};

/// The answer whose calls change files.
const ANSWER: Seq = 2;

pub fn with_check(policy: Policy) -> Policy {
    let check = |name: &str| Check {
        name: name.into(),
        command: name.into(),
        timeout_ms: 1_000,
        matches: Arc::new(|path| path.ends_with(".rs")),
    };
    Policy {
        checks: vec![check("lint")],
        ..policy
    }
}

pub fn started(check: &str, of: Seq) -> Entry {
    Entry::CheckStarted {
        check: check.into(),
        of,
        run: "r".into(),
        boot: "b".into(),
        files: vec!["src/a.rs".into()],
    }
}

pub fn ended(check: &str, entry: Seq) -> Entry {
    let ending = CheckEnding::Exited {
        exit_code: 0,
        new_lines: 0,
        output: None,
    };
    ended_so(check, entry, ending, "")
}

fn ended_so(check: &str, entry: Seq, ending: CheckEnding, text: &str) -> Entry {
    Entry::Noted {
        text: text.into(),
        about: Some(About::CheckEnded {
            entry,
            check: check.into(),
            ending,
            took_ms: 1,
        }),
    }
}

fn edit() -> Block {
    Block::call("write", r#"{"path":"src/a.rs","content":"x"}"#)
}

/// A message, and an answer with two edits that are done.
fn edited() -> Vec<Entry> {
    let guard = || Guard::Checked {
        path: "/w/src/a.rs".into(),
        before: None,
        after: "h".into(),
    };
    let wrote = |index| {
        let Entry::Finished { call, outcome, .. } = finished(id(ANSWER, index)) else {
            unreachable!();
        };
        let fact = Some(Fact::Wrote {
            path: "/w/src/a.rs".into(),
            hash: "h".into(),
        });
        Entry::Finished {
            call,
            outcome,
            fact,
            tree: None,
        }
    };
    vec![
        said("go"),
        replied(vec![edit(), edit()]),
        super::started(id(ANSWER, 0), guard()),
        wrote(0),
        super::started(id(ANSWER, 1), guard()),
        wrote(1),
    ]
}

/// The place of the next entry after [`edited`].
const AFTER: Seq = 7;

fn then(more: Vec<Entry>) -> State {
    state([edited(), more].concat())
}

fn next_with(state: &State, change: impl FnOnce(&mut Pending)) -> Step {
    let mut pending = Pending {
        changed: vec!["src/a.rs".into(), "README.md".into()],
        ..nothing_else(state)
    };
    change(&mut pending);
    next(state, &with_check(policy(false)), &pending)
}

fn next_of(state: &State) -> Step {
    next_with(state, |_| ())
}

fn start() -> Step {
    Step::StartCheck {
        check: "lint".into(),
        files: vec!["src/a.rs".into()],
    }
}

#[test]
fn a_check_runs_once_before_the_next_request() {
    // Not before all calls of the answer are finished.
    let half = state(edited()[..4].to_vec());
    assert_ne!(next_of(&half), start());
    assert_eq!(next_of(&then(vec![])), start());
    let running = vec![started("lint", ANSWER)];
    assert_eq!(next_of(&then(running.clone())), Step::RunCheck(AFTER));
    let done = [running, vec![ended("lint", AFTER)]].concat();
    assert_eq!(next_of(&then(done.clone())), Step::CallModel);
    // A failed request is not a reason for a second run.
    let again = [done.clone(), vec![super::failed(), resumed(By::Person)]].concat();
    assert_eq!(next_of(&then(again)), Step::CallModel);
    let twice = started("lint", ANSWER);
    assert!(then(done).check(&twice).is_err());
}

#[test]
fn a_check_needs_a_changed_file_that_it_matches() {
    let owes = then(vec![]);
    assert_eq!(next_with(&owes, |p| p.changed.clear()), Step::CallModel);
    assert_eq!(
        next_with(&owes, |p| p.changed = vec!["a.ts".into()]),
        Step::CallModel
    );
    assert_eq!(next_with(&owes, |p| p.message = true), Step::TakeMessage);
}

#[test]
fn neither_a_request_nor_another_check_starts_beside_a_check() {
    let running = then(vec![started("lint", ANSWER)]);
    for entry in [
        replied(vec![]),
        started("other", ANSWER),
        ended("other", AFTER),
    ] {
        assert!(running.check(&entry).is_err(), "{entry:?}");
    }
    let owes = then(vec![]);
    assert!(owes.check(&started("lint", ANSWER - 1)).is_err());
    assert!(owes.check(&ended("lint", AFTER)).is_err());
    // While a call is open, none starts.
    let open = state(vec![said("go"), replied(vec![bash("x")])]);
    assert!(open.check(&started("lint", 2)).is_err());
}

#[test]
fn after_a_stop_a_running_check_is_ended_and_none_starts() {
    let is_stopped = then(vec![stopped()]);
    assert_eq!(next_of(&is_stopped), Step::Wait(Why::Halted));
    assert!(is_stopped.check(&started("lint", ANSWER)).is_err());
    let running = vec![started("lint", ANSWER), stopped()];
    let in_stop = then(running.clone());
    assert!(in_stop.unfinished());
    assert_eq!(next_of(&in_stop), Step::RunCheck(AFTER));
    let end = ended_so("lint", AFTER, CheckEnding::Stopped, "");
    let rest = [running, vec![end]].concat();
    assert_eq!(next_of(&then(rest.clone())), Step::Wait(Why::Halted));
    // It was its run for this answer.
    let more = [rest, vec![said("go on")]].concat();
    assert_eq!(next_of(&then(more)), Step::CallModel);
}

#[test]
fn in_a_pause_a_running_check_ends_and_none_starts() {
    let pause = || Entry::Paused { origin: None };
    assert_eq!(next_of(&then(vec![pause()])), Step::Wait(Why::Paused));
    let running = then(vec![started("lint", ANSWER), pause()]);
    assert_eq!(next_of(&running), Step::RunCheck(AFTER));
    let waits = |settles| {
        let running = then(vec![started("lint", ANSWER)]);
        next_with(&running, |p| {
            (p.waits_for_person, p.settles) = (true, settles);
        })
    };
    assert_eq!(waits(true), Step::RunCheck(AFTER));
    assert_eq!(waits(false), Step::Wait(Why::Idle));
}

/// Answers with an edit, each with a check that ends so.
fn runs(endings: Vec<CheckEnding>) -> State {
    let mut entries = vec![said("go")];
    for (n, ending) in endings.into_iter().enumerate() {
        let path = format!(r#"{{"path":"a{n}"}}"#);
        let of = entries.len() as Seq + 1;
        entries.push(replied(vec![Block::call("read", path)]));
        entries.push(finished(id(of, 0)));
        entries.push(started("lint", of));
        entries.push(ended_so("lint", of + 2, ending, ""));
    }
    let of = entries.len() as Seq + 1;
    entries.push(replied(vec![Block::call("read", r#"{"path":"a"}"#)]));
    entries.push(finished(id(of, 0)));
    state(entries)
}

#[test]
fn three_timeouts_in_a_row_switch_a_check_off() {
    let timed_out = |in_a_row| CheckEnding::TimedOut { in_a_row };
    let exited = || CheckEnding::Exited {
        exit_code: 1,
        new_lines: 0,
        output: None,
    };
    assert_eq!(next_of(&runs(vec![timed_out(1), timed_out(2)])), start());
    let off = runs((1..=MAX_TIMEOUTS).map(timed_out).collect());
    assert_eq!(next_of(&off), Step::CallModel);
    // One that runs to its end begins the count again, one that was stopped does not.
    let again = runs(vec![timed_out(1), timed_out(2), exited(), timed_out(1)]);
    assert_eq!(again.checks.next_timeout("lint"), 2);
    let kept = runs(vec![timed_out(1), CheckEnding::Stopped]);
    assert_eq!(kept.checks.next_timeout("lint"), 2);
}

#[test]
fn the_next_run_is_compared_with_the_last_complete_one() {
    let printed = |hash: &str| CheckEnding::Exited {
        exit_code: 1,
        new_lines: 1,
        output: Some(BlobRef {
            hash: hash.into(),
            bytes: 1,
        }),
    };
    let last = |endings| {
        runs(endings)
            .checks
            .last_output("lint")
            .map(|o| o.map(|b| b.hash.clone()))
    };
    assert_eq!(last(vec![]), None);
    assert_eq!(last(vec![CheckEnding::TimedOut { in_a_row: 1 }]), None);
    assert_eq!(
        last(vec![printed("1"), printed("2")]),
        Some(Some("2".into()))
    );
    let failed = CheckEnding::Failed { why: "lost".into() };
    assert_eq!(last(vec![printed("1"), failed]), Some(Some("1".into())));
}

#[test]
fn the_model_hears_only_of_what_is_new() {
    let with = |text: &str| {
        let ending = CheckEnding::Exited {
            exit_code: 1,
            new_lines: 0,
            output: None,
        };
        let end = ended_so("lint", AFTER, ending, text);
        messages(&then(vec![started("lint", ANSWER), end]), usize::MAX)
    };
    let without = messages(&then(vec![]), usize::MAX);
    assert_eq!(with(""), without);
    let text = format!("{:?}", with("checked lint: 1 new line"));
    assert!(text.contains("checked lint: 1 new line"));
}

#[test]
fn a_fork_has_neither_the_check_nor_the_changes_of_the_other_branch() {
    let from = ForkPoint {
        session: "s".into(),
        seq: AFTER,
    };
    let fork = then(vec![
        started("lint", ANSWER),
        Entry::Forked {
            from,
            folder: None,
            from_replica: None,
        },
    ]);
    assert_eq!(fork.checks.running(), None);
    assert_eq!(fork.checks.written().count(), 0);
}
