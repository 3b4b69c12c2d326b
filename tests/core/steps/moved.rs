//! A session that another machine continues.

use super::*;

fn decided(call: CallId) -> Entry {
    Entry::Decided {
        call,
        verdict: Verdict::Allow,
        by: By::Person,
        access: None,
        at: None,
        rule: None,
        origin: None,
    }
}

fn moved(mode: Mode) -> Entry {
    Entry::Moved {
        from: "first".into(),
        until: "2026-01-02 03:04:05 UTC".into(),
        host: "second".into(),
        os: "linux".into(),
        boot: "b".into(),
        mode,
        folder: Some("/clone".into()),
    }
}

/// The call was denied on the new machine.
fn finished_early(call: CallId) -> Entry {
    Entry::Finished {
        call,
        outcome: Outcome::Denied {
            reason: "not here".into(),
        },
        fact: None,
        tree: None,
    }
}

/// Two calls: one ran on the machine before, one was only allowed.
fn before() -> Vec<Entry> {
    vec![
        said("go"),
        replied(vec![bash("one"), bash("two")]),
        Entry::Chose(Choice {
            mode: Some(Mode::BypassPermissions),
            folders: Some(vec!["/elsewhere".into()]),
            ..Choice::default()
        }),
        started(id(2, 0), supervised()),
        decided(id(2, 1)),
    ]
}

#[test]
fn nothing_that_was_allowed_on_another_machine_applies() {
    let state_before = state(before());
    assert_eq!(state_before.mode, Mode::BypassPermissions);
    assert!(state_before.call(id(2, 1)).unwrap().decided.is_some());
    let state = state(before().into_iter().chain([moved(Mode::Plan)]));
    assert_eq!(state.mode, Mode::Plan);
    assert!(state.added_folders.is_empty());
    // The verdict counts no more, so the call is judged here.
    let second = state.call(id(2, 1)).unwrap();
    assert_eq!(
        (second.decided.as_ref(), second.lost.as_ref()),
        (None, None)
    );
    // What ran there has no result here.
    let first = state.call(id(2, 0)).unwrap();
    let lost = first.lost.as_ref().unwrap();
    assert!(
        lost.contains("first") && lost.contains("2026-01-02 03:04:05 UTC"),
        "{lost}"
    );
}

/// A folder that only looks like the one before is another folder.
#[test]
fn what_was_allowed_in_a_folder_applies_only_there() {
    for (by, is_same) in [
        (RecognisedBy::Folder, true),
        (RecognisedBy::Repository, false),
        (RecognisedBy::Files, false),
        (RecognisedBy::Request, false),
    ] {
        let relocated = Entry::Relocated {
            from: "/w".into(),
            folder: "/new".into(),
            from_root: "/w".into(),
            root: "/new".into(),
            by,
        };
        let state = state(before().into_iter().chain([relocated]));
        assert_eq!(state.folder, "/new");
        let [first, second] = [0, 1].map(|index| state.call(id(2, index)).unwrap());
        assert_eq!(second.decided.is_some(), is_same, "{by:?}");
        // Its keeper on this machine ends it.
        assert_eq!(first.lost.is_none(), is_same, "{by:?}");
        assert_eq!(first.guard, Some(supervised()), "{by:?}");
        let results = [interrupted(id(2, 0)), finished_early(id(2, 1))];
        let state = results.into_iter().fold(state, |mut state, entry| {
            let seq = state.next_seq();
            state
                .fold(&Record {
                    seq,
                    at_ms: 0,
                    entry,
                })
                .unwrap();
            state
        });
        let text = format!("{:?}", messages(&state, usize::MAX));
        assert!(text.contains("The folder /w was moved"), "{text}");
    }
}

#[test]
fn the_model_reads_what_stayed_behind() {
    let results = [interrupted(id(2, 0)), finished_early(id(2, 1))];
    let entries = before()
        .into_iter()
        .chain([moved(Mode::Default)])
        .chain(results);
    let state = state(entries);
    let text = format!("{:?}", messages(&state, usize::MAX));
    assert!(
        text.contains("continues on the machine second (linux)"),
        "{text}"
    );
    assert!(text.contains("stayed behind"), "{text}");
}
