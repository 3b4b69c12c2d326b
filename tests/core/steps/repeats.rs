//! The loop guard: which calls are a repetition, and what follows from it.

use rewake::core::entry::*;
use rewake::core::next::{Step, Why, next};
use rewake::core::settings::Policy;
use rewake::core::state::State;
use rewake::core::tool::Class;

use super::{bash, noted, nothing_else, policy, read, replied, resumed, said, started, supervised};

/// A call and its result.
type Done = (Block, Outcome, Option<Fact>);

/// A session whose model makes these calls.
struct Played {
    state: State,
    policy: Policy,
    calls: usize,
    /// The number of calls before each note, and the note.
    notes: Vec<(usize, String)>,
}

impl Played {
    fn new() -> Played {
        let policy = Policy {
            max_turns: None,
            ..policy(false)
        };
        let mut played = Played {
            state: super::state([]),
            policy,
            calls: 0,
            notes: Vec::new(),
        };
        played.record(said("go"));
        played
    }

    fn record(&mut self, entry: Entry) {
        let record = Record {
            seq: self.state.next_seq(),
            at_ms: 0,
            entry,
        };
        self.state.fold(&record).unwrap();
    }

    /// Plays up to this many calls. Returns whether it came to the end of them.
    fn play(&mut self, calls: usize, call: impl Fn(usize) -> Done) -> bool {
        let end = self.calls + calls;
        loop {
            match next(&self.state, &self.policy, &nothing_else(&self.state)) {
                Step::NoteRepetition => self.note(),
                Step::CallModel if self.calls == end => return true,
                Step::CallModel => self.call(call(self.calls)),
                Step::Wait(Why::Repeats) => return false,
                step => panic!("{step:?}"),
            }
        }
    }

    fn call(&mut self, (block, outcome, fact): Done) {
        self.record(replied(vec![block]));
        let open = self.state.first_open().unwrap();
        let (call, class) = (open.call.id, open.call.class());
        let guard = match class {
            Some(Class::Supervised) => Some(supervised()),
            Some(Class::Checked) => Some(Guard::Checked {
                path: "/w/f".into(),
                before: None,
                after: self.calls.to_string(),
            }),
            _ => None,
        };
        if let Some(guard) = guard.filter(|_| matches!(outcome, Outcome::Done { .. })) {
            self.record(started(call, guard));
        }
        self.record(Entry::Finished {
            call,
            outcome,
            fact,
            tree: None,
        });
        self.calls += 1;
    }

    fn note(&mut self) {
        let found = self.state.loop_guard.due().unwrap();
        let (text, (calls, rounds)) = (found.note(), found.size());
        self.notes.push((self.calls, text.clone()));
        let about = Some(About::Repeats { calls, rounds });
        self.record(Entry::Noted { text, about });
    }

    fn notes_at(&self) -> Vec<usize> {
        self.notes.iter().map(|(at, _)| *at).collect()
    }
}

fn done(block: Block, result: &str) -> Done {
    (block, Outcome::done(result), None)
}

fn check(line: &str) -> Done {
    done(bash(line), "failed, exit code 1")
}

fn edit(n: usize) -> Done {
    let block = Block::call(
        "edit",
        format!(r#"{{"path":"f","edits":[{{"old":"{n}","new":"x"}}]}}"#),
    );
    let fact = Fact::Wrote {
        path: "/w/f".into(),
        hash: n.to_string(),
    };
    (block, Outcome::done("edited"), Some(fact))
}

#[test]
fn a_model_that_repeats_one_call_is_told_once_and_stopped_after_three_more() {
    let mut played = Played::new();
    assert!(!played.play(100, |_| check("make")));
    assert_eq!((played.calls, played.notes_at()), (7, vec![4]));
    let words = "`bash make`, 4 times with the same result";
    assert!(played.notes[0].1.contains(words), "{:?}", played.notes);
    let stuck = played.state.loop_guard.stuck();
    assert_eq!(stuck.unwrap(), words.replace('4', "7"));
    // Between other calls, and denied each time.
    let mut played = Played::new();
    let others = |n: usize| match n.is_multiple_of(10) {
        true => (
            bash("deny"),
            Outcome::Denied {
                reason: "no".into(),
            },
            None,
        ),
        false => done(read(&n.to_string()), "text"),
    };
    assert!(!played.play(100, others));
    assert_eq!((played.calls, played.notes_at()), (61, vec![31]));
    // Four times among more than forty calls.
    let seldom = |n: usize| match n.is_multiple_of(14) {
        true => check("make"),
        false => done(read(&n.to_string()), "text"),
    };
    let mut played = Played::new();
    assert!(played.play(500, seldom));
    assert!(played.notes.is_empty());
}

#[test]
fn a_cycle_is_told_once_and_stopped_after_three_more_rounds() {
    let cycle = |length: usize| move |n: usize| check(&format!("make {}", n % length));
    for (length, notes, calls) in [(2, 6, 12), (5, 15, 30), (80, 240, 480), (100, 300, 600)] {
        let mut played = Played::new();
        assert!(!played.play(1_000, cycle(length)), "{length}");
        assert_eq!((played.calls, played.notes_at()), (calls, vec![notes]));
        let words = format!("a cycle of {length} calls, from `bash make 0` to");
        assert!(played.notes[0].1.contains(&words), "{:?}", played.notes);
    }
    let mut played = Played::new();
    assert!(played.play(1_000, cycle(101)));
    assert!(played.notes.is_empty());
}

#[test]
fn what_brings_something_new_is_no_repetition() {
    let waits = |_| done(Block::call("bash_wait", "{}"), "still runs");
    let sleeps = |_| check("sleep 5; curl localhost");
    let results = |n: usize| done(bash("date"), &n.to_string());
    // The same page of a file that changed elsewhere.
    let changed = |n: usize| {
        let (path, hash) = ("/w/f".into(), n.to_string());
        let part = None;
        let fact = Fact::Seen { path, hash, part };
        (read("f"), Outcome::done("page 1"), Some(fact))
    };
    let tests = |n: usize| match n.is_multiple_of(2) {
        true => edit(n),
        false => check("make"),
    };
    let all: [&dyn Fn(usize) -> Done; 5] = [&waits, &sleeps, &results, &changed, &tests];
    for (at, call) in all.iter().enumerate() {
        let mut played = Played::new();
        assert!(played.play(500, call), "{at}");
        assert!(played.notes.is_empty(), "{at}");
    }
    // A wait that fails, and edits that are repeated.
    let no_wait = |_| {
        let none = Outcome::error("no such command");
        (Block::call("bash_wait", "{}"), none, None)
    };
    let back = |n: usize| match n % 4 {
        at @ (0 | 2) => edit(at),
        _ => check("make"),
    };
    let all: [(&dyn Fn(usize) -> Done, usize); 2] = [(&no_wait, 7), (&back, 28)];
    for (call, calls) in all {
        let mut played = Played::new();
        assert!(!played.play(500, call));
        assert!(played.calls <= calls, "{}", played.calls);
        // Two edits and a test are three repeated calls.
        assert!(played.notes.len() <= 3, "{:?}", played.notes);
    }
}

#[test]
fn a_compaction_and_a_restart_forget_nothing() {
    let mut played = Played::new();
    assert!(played.play(3, |_| check("make")));
    let note = Entry::Continued {
        note: "what was done".into(),
        by: SummaryBy::Digest,
        spent: vec![],
        story: None,
    };
    played.record(note.clone());
    played.record(resumed(By::Start));
    assert!(played.play(2, |_| check("make")));
    assert_eq!(played.notes_at(), [4]);
    played.record(note);
    played.record(resumed(By::Person));
    assert!(!played.play(9, |_| check("make")));
    assert_eq!((played.calls, played.notes_at()), (7, vec![4]));
    played.record(resumed(By::Person));
    assert!(!played.play(9, |_| check("make")));
    assert_eq!(played.calls, 7);
}

#[test]
fn a_person_lets_it_continue_or_redirects_it() {
    let lifted = Entry::Lifted { origin: None };
    for lifts in [lifted.clone(), said("try make -B")] {
        let mut played = Played::new();
        assert!(!played.play(100, |_| check("make")));
        played.record(lifts);
        assert!(!played.play(100, |_| check("make")));
        assert_eq!((played.calls, played.notes_at()), (14, vec![4, 11]));
    }
    // Another way is one; but a later return to the old one is not told again.
    let mut played = Played::new();
    assert!(played.play(5, |_| check("make")));
    assert!(played.play(20, |n| check(&format!("make {n}"))));
    assert!(!played.play(2, |_| check("make")));
    assert_eq!((played.calls, played.notes_at()), (27, vec![4]));
    // After many other calls it is.
    let mut played = Played::new();
    assert!(played.play(5, |_| check("make")));
    assert!(played.play(110, |n| check(&format!("make {n}"))));
    assert!(!played.play(9, |_| check("make")));
    assert_eq!((played.calls, played.notes_at()), (122, vec![4, 119]));
    // Only what is due is lifted or told.
    let state = Played::new().state;
    let about = Some(About::Repeats {
        calls: 1,
        rounds: 4,
    });
    let told = Entry::Noted {
        text: "x".into(),
        about,
    };
    assert!(state.check(&told).is_err() && state.check(&lifted).is_err());
    assert!(state.check(&noted()).is_ok());
}

#[test]
fn the_guard_can_be_switched_off() {
    let mut played = Played::new();
    played.policy.loop_guard = false;
    assert!(played.play(100, |_| check("make")));
    assert!(played.notes.is_empty());
    // The model is told before it is stopped.
    played.policy.loop_guard = true;
    assert!(!played.play(100, |_| check("make")));
    assert_eq!((played.calls, played.notes_at()), (103, vec![100]));
}
