//! Background work at the end of a turn: the reminder, and which end asks the model again.

use rewake::core::background::{BackgroundMode, MAX_WAKES, reminder_text, wakes};
use rewake::core::ending::{Ending, of_entries};
use rewake::core::entry::*;
use rewake::core::next::{Step, Why};
use rewake::core::settings::Policy;
use rewake::core::state::{Background, State};

use super::{bash, finished, id, policy, read, replied, resumed, said, started, state, stopped};
use super::{supervised, what_next};

/// A message, and a command that the model started in the background.
fn with_background() -> Vec<Entry> {
    let call = replied(vec![bash("serve")]);
    let started = started(id(2, 0), supervised());
    vec![said("go"), call, started, in_background(2)]
}

fn in_background(reply: u64) -> Entry {
    let Entry::Finished { call, outcome, .. } = finished(id(reply, 0)) else {
        unreachable!();
    };
    Entry::Finished {
        call,
        outcome,
        fact: Some(Fact::Background {
            id: format!("bg_{reply}_0"),
            run: format!("run-{reply}"),
            command: "npm run dev".into(),
            child: None,
        }),
        tree: None,
    }
}

fn answer() -> Entry {
    replied(vec![Block::text("done")])
}

fn ended(id: &str, asks_model: bool) -> Entry {
    Entry::Noted {
        text: "it ended".into(),
        about: Some(About::BackgroundEnded {
            id: id.into(),
            exit_code: Some(0),
            spent: Vec::new(),
            asks_model,
        }),
    }
}

fn reminded(ids: &[&str]) -> Entry {
    Entry::Noted {
        text: "it still runs".into(),
        about: Some(About::StillRunning {
            ids: ids.iter().map(ToString::to_string).collect(),
        }),
    }
}

fn with(mode: BackgroundMode) -> Policy {
    Policy {
        background: mode,
        ..policy(false)
    }
}

fn log(more: Vec<Entry>) -> Vec<Entry> {
    [with_background(), more].concat()
}

fn next_of(mode: BackgroundMode, more: Vec<Entry>) -> Step {
    what_next(&state(log(more)), &with(mode))
}

#[test]
fn the_model_is_reminded_once_of_each_set_of_running_commands() {
    use BackgroundMode::{Leave, Remind, Stop, Wake};
    let remind = |id: &str| Step::Remind(vec![id.into()]);
    // Not before its turn ends.
    assert_eq!(next_of(Remind, vec![]), Step::CallModel);
    assert_eq!(next_of(Remind, vec![answer()]), remind("bg_2_0"));
    for mode in [Leave, Stop, Wake] {
        assert_eq!(next_of(mode, vec![answer()]), Step::Wait(Why::Idle));
    }
    let told = vec![answer(), reminded(&["bg_2_0"])];
    assert_eq!(next_of(Remind, told.clone()), Step::CallModel);
    let again = [told, vec![answer()]].concat();
    assert_eq!(next_of(Remind, again.clone()), Step::Wait(Why::Idle));
    let resumed = [again.clone(), vec![resumed(By::Start)]].concat();
    assert_eq!(next_of(Remind, resumed), Step::Wait(Why::Idle));
    // Another command is another set.
    let other = vec![
        said("more"),
        replied(vec![bash("watch")]),
        started(id(9, 0), supervised()),
        in_background(9),
        answer(),
    ];
    let both = Step::Remind(vec!["bg_2_0".into(), "bg_9_0".into()]);
    assert_eq!(next_of(Remind, [again, other].concat()), both);
    // An ended command, a stop.
    let over = vec![ended("bg_2_0", false), answer()];
    assert_eq!(next_of(Remind, over), Step::Wait(Why::Idle));
    let halted = vec![answer(), stopped()];
    assert_eq!(next_of(Remind, halted), Step::Wait(Why::Halted));
}

#[test]
fn a_reminder_owes_an_answer_and_names_only_known_commands() {
    let owing = log(vec![answer(), reminded(&["bg_2_0"])]);
    assert!(state(owing.clone()).owed);
    assert_eq!(
        of_entries(owing.iter()),
        Ending::with_pending_work(owing.last())
    );
    assert_ne!(of_entries(owing.iter()), Ending::Done);
    let unknown = Record {
        seq: 6,
        at_ms: 0,
        entry: reminded(&["bg_9_9"]),
    };
    assert!(state(log(vec![answer()])).fold(&unknown).is_err());
    let text = reminder_text(&state(with_background()), &["bg_2_0".to_string()]);
    let begins = "bg_2_0 (npm run dev) still runs. This run ends with your answer: bash_wait waits, \
                  bash_stop stops it, an answer leaves it running.";
    assert!(text.starts_with(begins), "{text}");
}

#[test]
fn only_notes_that_owe_an_answer_count_as_wakes() {
    let wakes = |more: Vec<Entry>| state(log(more)).wakes;
    assert_eq!(wakes(vec![answer(), ended("bg_2_0", true)]), 1);
    // An answer was owed anyway, or the note asks nobody, as in an old log.
    assert_eq!(wakes(vec![ended("bg_2_0", true)]), 0);
    let quiet = state(log(vec![answer(), ended("bg_2_0", false)]));
    assert_eq!((quiet.wakes, quiet.owed), (0, false));
    assert_eq!(
        wakes(vec![answer(), ended("bg_2_0", true), said("and?")]),
        0
    );
    assert_eq!(wakes(vec![answer(), reminded(&["bg_2_0"])]), 1);
}

#[test]
fn a_note_of_an_older_version_asks_nobody() {
    let old = r#"{"about":"background_ended","id":"bg_2_0","exit_code":0}"#;
    let about: About = serde_json::from_str(old).unwrap();
    let Entry::Noted { text, .. } = ended("bg_2_0", false) else {
        unreachable!();
    };
    let noted = Entry::Noted {
        text,
        about: Some(about),
    };
    assert!(!state(log(vec![answer(), noted])).owed);
}

#[test]
fn an_end_asks_the_model_at_most_eight_times_without_a_message() {
    use BackgroundMode::{Leave, Remind, Stop, Wake};
    let command = Background {
        run: "run".into(),
        command: "make".into(),
        child: None,
        searched: 0,
    };
    let task = Background {
        child: Some(ChildRun {
            session: "s".into(),
            before: Vec::new(),
            worked_ms: 0,
        }),
        ..command.clone()
    };
    let idle = state(log(vec![answer()]));
    for (mode, leaves, of_command, of_task) in [
        (Wake, false, true, true),
        (Remind, true, true, true),
        (Leave, true, false, true),
        (Stop, true, false, true),
        (Leave, false, false, false),
    ] {
        assert_eq!(wakes(&idle, mode, &command, leaves), of_command, "{mode:?}");
        assert_eq!(wakes(&idle, mode, &task, leaves), of_task, "{mode:?}");
    }
    let mut woken = idle;
    woken.wakes = MAX_WAKES - 1;
    assert!(wakes(&woken, Wake, &command, false));
    woken.wakes = MAX_WAKES;
    assert!(!wakes(&woken, Wake, &command, false));
    // A run without a screen waits for tasks, whose number is limited.
    assert!(wakes(&woken, Remind, &task, true));
    // A message or a result asks the model already.
    assert!(!wakes(&state(with_background()), Wake, &command, false));
}

#[test]
fn a_wait_runs_alone() {
    let wait = || Block::call("bash_wait", r#"{"ids":["bg_2_0"]}"#);
    let alone = |blocks: Vec<Block>| {
        let log = [with_background(), vec![replied(blocks)]].concat();
        assert_eq!(
            what_next(&state(log), &policy(true)),
            Step::Run(vec![id(5, 0)])
        );
    };
    // The read may be of what the command writes before its end.
    alone(vec![wait(), read("out")]);
    alone(vec![read("out"), wait()]);
    alone(vec![wait(), wait()]);
}

#[test]
fn the_searched_output_is_remembered_until_the_end_of_the_command() {
    let waited = |bytes| {
        let Entry::Finished { call, outcome, .. } = finished(id(5, 0)) else {
            unreachable!();
        };
        let searched = [("bg_2_0".to_string(), bytes), ("bg_9_9".to_string(), 7)];
        Entry::Finished {
            call,
            outcome,
            fact: Some(Fact::Waited {
                searched: searched.into(),
            }),
            tree: None,
        }
    };
    let wait = Block::call("bash_wait", r#"{"until":"ready"}"#);
    let log = [with_background(), vec![replied(vec![wait]), waited(40)]].concat();
    let searched = |state: &State| state.background.get("bg_2_0").map(|b| b.searched);
    assert_eq!(searched(&state(log)), Some(40));
    assert_eq!(searched(&state(with_background())), Some(0));
}
