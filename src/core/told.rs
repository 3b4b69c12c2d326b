//! What the model was told of the mode, and whether a person answers questions. The layers say it
//! once; what changed since is told as a note.
//!
//! Derived from the log: it is told again when the note has left the context, and after a crash
//! only when it was not recorded.

use super::entry::{About, Entry, Mode};
use super::state::State;

/// What the model knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    mode: Mode,
    /// `None`: layers of an older version do not say it.
    is_attended: Option<bool>,
}

const MODE: &str = "mode: ";
const USER: &str = "user: ";

/// The lines of `<environment>`.
pub fn lines(mode: Mode, is_attended: bool) -> String {
    format!("{MODE}{}\n{USER}{}", mode.name(), answered(is_attended))
}

fn answered(is_attended: bool) -> &'static str {
    match is_attended {
        true => "can be asked",
        false => "cannot be asked",
    }
}

/// The note that is due before the model is asked again. `None`: what it knows is so.
pub fn note(state: &State, is_attended: bool) -> Option<Entry> {
    let told = told(state)?;
    let mut said = Vec::new();
    if told.mode != state.mode {
        said.push(format!("the mode is {} now", state.mode.name()));
    }
    if told.is_attended.is_some_and(|told| told != is_attended) {
        said.push(format!("the user {} now", answered(is_attended)));
    }
    (!said.is_empty()).then(|| Entry::Noted {
        text: said.join("; "),
        about: Some(About::Mode {
            mode: state.mode,
            is_attended,
        }),
    })
}

/// What stands last in what the model reads: a note of the context, else the layers.
fn told(state: &State) -> Option<Told> {
    let noted = state.context.iter().rev().find_map(|r| match &r.entry {
        Entry::Noted {
            about: Some(About::Mode { mode, is_attended }),
            ..
        } => Some(Told {
            mode: *mode,
            is_attended: Some(*is_attended),
        }),
        _ => None,
    });
    noted.or_else(|| in_layers(&state.layers.system))
}

/// `None`: the layers do not say it.
fn in_layers(system: &str) -> Option<Told> {
    let (_, environment) = system.rsplit_once("<environment>")?;
    let value = |name: &str| environment.lines().find_map(|line| line.strip_prefix(name));
    let mode = value(MODE)?.split_whitespace().next()?;
    Some(Told {
        mode: Mode::ALL.into_iter().find(|known| known.name() == mode)?,
        is_attended: value(USER).map(|said| said == answered(true)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::entry::{Choice, Layers, Record};
    use crate::core::tool::Described;

    fn describe(_: &str, _: &str) -> Result<Described, String> {
        Err("no tool".into())
    }

    fn after(said: &str, entries: &[Entry]) -> State {
        let opened = Entry::Opened {
            folder: "/w".into(),
            version: "0".into(),
            model: "a/b".into(),
            mode: Mode::Default,
            layers: Layers {
                system: format!("x\n<environment>\nfolder: /w\n{said}\n</environment>"),
                ..Layers::default()
            },
        };
        let mut state = State::new(describe);
        for entry in std::iter::once(&opened).chain(entries) {
            let seq = state.next_seq();
            let record = Record {
                seq,
                at_ms: 0,
                entry: entry.clone(),
            };
            state.fold(&record).unwrap();
        }
        state
    }

    fn text(state: &State, is_attended: bool) -> Option<String> {
        match note(state, is_attended)? {
            Entry::Noted { text, .. } => Some(text),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_change_of_the_mode_is_told_once() {
        let said = lines(Mode::Default, true);
        let mut entries = Vec::new();
        assert_eq!(text(&after(&said, &entries), true), None);
        entries.push(Entry::Chose(Choice::of_mode(Mode::Plan)));
        let state = after(&said, &entries);
        assert_eq!(text(&state, true).unwrap(), "the mode is plan now");
        entries.push(note(&state, true).unwrap());
        assert_eq!(text(&after(&said, &entries), true), None);
        entries.push(Entry::Chose(Choice::of_mode(Mode::Default)));
        assert_eq!(
            text(&after(&said, &entries), true).unwrap(),
            "the mode is default now"
        );
        // There and back again, between two requests: nothing changed.
        entries.push(Entry::Chose(Choice::of_mode(Mode::Plan)));
        assert_eq!(text(&after(&said, &entries), true), None);
    }

    #[test]
    fn who_answers_is_told_when_it_is_another() {
        let state = after(&lines(Mode::Default, false), &[]);
        assert_eq!(text(&state, false), None);
        assert_eq!(text(&state, true).unwrap(), "the user can be asked now");
        let state = after(&lines(Mode::Default, true), &[]);
        assert!(text(&state, false).unwrap().contains("cannot be asked now"));
    }

    #[test]
    fn layers_of_older_versions_say_less_and_none_is_made_up() {
        let plan = [Entry::Chose(Choice::of_mode(Mode::Plan))];
        assert_eq!(text(&after("", &plan), false), None);
        let old = "mode: default (may change)";
        assert_eq!(text(&after(old, &[]), false), None);
        assert_eq!(
            text(&after(old, &plan), false).unwrap(),
            "the mode is plan now"
        );
    }
}
