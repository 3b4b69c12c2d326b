//! The texts that inform the model about the mode, the sandbox, and whether a person answers
//! questions. The layers say it once; a note reports each change and says what applies from then
//! on.
//!
//! The note is derived from the log: it is repeated when it has left the context, and after a crash
//! only if it was not recorded.

use super::access::Access;
use super::entry::{About, Entry, Mode};
use super::policy::Sandbox;
use super::settings::Policy;
use super::state::State;

/// The settings that the model knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StatedSettings {
    mode: Mode,
    /// `None`: the layers of an older version do not contain it.
    is_attended: Option<bool>,
}

const TEXT_CALLS: &str = "your last answer ended with a call written as text. It was read as a call, \
    and it was judged like any other. Text counts as a call only at the end of an answer.";

const MODE: &str = "mode: ";
const USER: &str = "user: ";

/// Returns the lines of `<environment>`: the rights in this mode, and nothing about other modes.
pub fn lines(mode: Mode, is_attended: bool, sandbox: Sandbox) -> String {
    format!(
        "{MODE}{}\n{USER}{}\n{}",
        mode.name(),
        answered(is_attended),
        rights(mode, is_attended, sandbox)
    )
}

fn answered(is_attended: bool) -> &'static str {
    if is_attended {
        "can be asked"
    } else {
        "cannot be asked"
    }
}

/// Describes which edits and commands run at once, and what happens to the others.
fn rights(mode: Mode, is_attended: bool, sandbox: Sandbox) -> String {
    let others = match (mode, is_attended) {
        (Mode::Plan, _) => "are denied in plan mode",
        (_, true) => "need the user's approval",
        (_, false) => "are denied: nobody can approve them",
    };
    let edits = match mode {
        Mode::BypassPermissions => "run at once".to_string(),
        Mode::AcceptEdits => format!("in the workspace run at once; others {others}"),
        Mode::Default | Mode::Plan => others.to_string(),
    };
    let commands = commands(mode, sandbox, others);
    format!("edits: {edits}.\ncommands: {commands}.")
}

fn commands(mode: Mode, sandbox: Sandbox, others: &str) -> String {
    let place = if sandbox.available {
        "in a sandbox"
    } else {
        "no sandbox, `access` has no effect"
    };
    let (at_once, rest) = Access::ALL
        .into_iter()
        .partition::<Vec<Access>, _>(|access| runs_at_once(mode, sandbox, *access));
    match at_once.as_slice() {
        _ if mode == Mode::BypassPermissions && sandbox.available => {
            "all run at once, below access full in a sandbox".to_string()
        }
        _ if mode == Mode::BypassPermissions => format!("{place}. All run at once"),
        [one] if sandbox.available => {
            format!(
                "{place}. access {one} runs at once; {} {others}",
                list(&rest)
            )
        }
        [_, ..] if sandbox.available => format!(
            "{place}. access {} run at once; {} {others}. In the background only read runs at once",
            list(&at_once),
            list(&rest)
        ),
        _ => format!("{place}. Commands that only look run at once; others {others}"),
    }
}

/// Returns whether any command runs in the sandbox with this access without approval. It is the
/// result of [`super::policy::judge`] when no rule applies.
fn runs_at_once(mode: Mode, sandbox: Sandbox, access: Access) -> bool {
    match (mode, access) {
        (Mode::BypassPermissions, _) => true,
        (_, Access::Read) => sandbox.read,
        (Mode::AcceptEdits, Access::Workspace) => sandbox.workspace,
        _ => false,
    }
}

/// Joins names: `workspace, network and full`.
fn list(levels: &[Access]) -> String {
    let names: Vec<&str> = levels.iter().map(|level| level.name()).collect();
    match names.split_last() {
        Some((last, [])) => last.to_string(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
        None => String::new(),
    }
}

/// Returns the note that is due before the next model call. `None`: the model's knowledge is
/// current. The first line is the change; the others are only for the model.
pub fn note(state: &State, policy: &Policy) -> Option<Entry> {
    changed(state, policy.interactive, policy.sandbox)
}

/// Returns the note on a call that the model wrote as text, unless the context has it.
pub fn text_calls(state: &State) -> Option<Entry> {
    let note = Entry::Noted {
        text: TEXT_CALLS.to_string(),
        about: None,
    };
    let is_told = state.context.iter().any(|record| record.entry == note);
    (!is_told).then_some(note)
}

fn changed(state: &State, is_attended: bool, sandbox: Sandbox) -> Option<Entry> {
    let told = told(state)?;
    let mut said = Vec::new();
    if told.mode != state.mode {
        said.push(format!("the mode is {} now", state.mode.name()));
    }
    if told.is_attended.is_some_and(|told| told != is_attended) {
        said.push(format!("the user {} now", answered(is_attended)));
    }
    (!said.is_empty()).then(|| Entry::Noted {
        text: format!(
            "{}\n{}",
            said.join("; "),
            rights(state.mode, is_attended, sandbox)
        ),
        about: Some(About::Mode {
            mode: state.mode,
            is_attended,
        }),
    })
}

/// Returns the last settings that the model has read: from a note of the context, else from the
/// layers.
fn told(state: &State) -> Option<StatedSettings> {
    let noted = state.context.iter().rev().find_map(|r| match &r.entry {
        Entry::Noted {
            about: Some(About::Mode { mode, is_attended }),
            ..
        } => Some(StatedSettings {
            mode: *mode,
            is_attended: Some(*is_attended),
        }),
        _ => None,
    });
    noted.or_else(|| settings_in_prefix(&state.layers.system))
}

/// Reads the settings from the layers. `None`: the layers do not contain them.
fn settings_in_prefix(system: &str) -> Option<StatedSettings> {
    let (_, environment) = system.rsplit_once("<environment>")?;
    let value = |name: &str| environment.lines().find_map(|line| line.strip_prefix(name));
    let mode = value(MODE)?.split_whitespace().next()?;
    Some(StatedSettings {
        mode: Mode::ALL.into_iter().find(|known| known.name() == mode)?,
        is_attended: value(USER).map(|said| said == answered(true)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::entry::{Choice, PromptPrefix, Record};
    use crate::core::permission::{PathUse, Permission};
    use crate::core::policy::{Decision, Disk, Rules, Workspace, judge};
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
            layers: PromptPrefix {
                system: format!("x\n<environment>\nfolder: /w\n{said}\n</environment>"),
                ..PromptPrefix::default()
            },
            imported: None,
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

    const WHOLE: Sandbox = Sandbox::WHOLE;

    fn sandboxes() -> [Sandbox; 4] {
        let workspace = false;
        let (only_read, only_looking) = (
            Sandbox { workspace, ..WHOLE },
            Sandbox {
                workspace,
                read: false,
                ..WHOLE
            },
        );
        [WHOLE, only_read, only_looking, Sandbox::default()]
    }

    /// The first line of the note.
    fn text(state: &State, is_attended: bool) -> Option<String> {
        match changed(state, is_attended, WHOLE)? {
            Entry::Noted { text, .. } => text.lines().next().map(str::to_string),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the decision about a command or an edit, without any rule of the user.
    fn decision(permission: &Permission, mode: Mode, sandbox: Sandbox) -> Decision {
        let place = Workspace {
            folder: "/w".into(),
            root: "/w".into(),
            sandbox,
            ..Workspace::default()
        };
        let disk = Disk {
            resolve: |path| path.to_string(),
            matches: |_, _| Ok(Vec::new()),
            is_folder: |_| false,
            repository: |_| Ok(()),
        };
        judge(permission, mode, &Rules::default(), &place, &disk).decision
    }

    #[test]
    fn runs_at_once_agrees_with_the_policy_decision() {
        for (mode, sandbox) in Mode::ALL
            .into_iter()
            .flat_map(|mode| sandboxes().map(|sandbox| (mode, sandbox)))
            .filter(|(_, sandbox)| sandbox.available)
        {
            for access in Access::ALL {
                let command = |background| Permission::Command {
                    line: "frobnicate --all".into(),
                    access: Some(access),
                    background,
                };
                let is_allowed =
                    |background| decision(&command(background), mode, sandbox) == Decision::Allow;
                let told = runs_at_once(mode, sandbox, access);
                assert_eq!(told, is_allowed(false), "{mode:?} {sandbox:?} {access}");
                let in_background =
                    told && (mode == Mode::BypassPermissions || access == Access::Read);
                assert_eq!(
                    in_background,
                    is_allowed(true),
                    "{mode:?} {sandbox:?} {access}"
                );
            }
        }
        for mode in Mode::ALL {
            let edit = Permission::Path {
                path_use: PathUse::Edit,
                path: "a".into(),
            };
            let allowed = decision(&edit, mode, WHOLE) == Decision::Allow;
            let told = rights(mode, false, WHOLE);
            let edits = told.lines().next().unwrap();
            assert_eq!(allowed, edits.contains("run at once"), "{told}");
        }
    }

    #[test]
    fn the_environment_says_what_applies_in_each_mode() {
        let said = |mode, is_attended, sandbox| {
            let lines = lines(mode, is_attended, sandbox);
            let commands = lines.lines().last().unwrap();
            commands.strip_prefix("commands: ").unwrap().to_string()
        };
        assert_eq!(
            said(Mode::AcceptEdits, false, WHOLE),
            "in a sandbox. access read and workspace run at once; network and full are denied: \
             nobody can approve them. In the background only read runs at once."
        );
        assert_eq!(
            said(Mode::Default, true, WHOLE),
            "in a sandbox. access read runs at once; workspace, network and full need the user's \
             approval."
        );
        assert_eq!(
            said(Mode::Plan, true, WHOLE),
            "in a sandbox. access read runs at once; workspace, network and full are denied in \
             plan mode."
        );
        assert_eq!(
            said(Mode::BypassPermissions, false, WHOLE),
            "all run at once, below access full in a sandbox."
        );
        assert_eq!(
            said(Mode::Default, false, Sandbox::default()),
            "no sandbox, `access` has no effect. Commands that only look run at once; others are \
             denied: nobody can approve them."
        );
        // It mentions no other mode, and no question if nobody can be asked.
        for (mode, sandbox) in Mode::ALL
            .into_iter()
            .flat_map(|mode| sandboxes().map(|sandbox| (mode, sandbox)))
        {
            let text = lines(mode, false, sandbox);
            assert!(!text.contains("approval"), "{text}");
            for other in Mode::ALL.into_iter().filter(|other| *other != mode) {
                assert!(!text.contains(&format!("{}:", other.name())), "{text}");
            }
        }
    }

    #[test]
    fn a_note_says_what_applies_from_then_on() {
        let plan = [Entry::Chose(Choice::of_mode(Mode::Plan))];
        let state = after(&lines(Mode::AcceptEdits, true, WHOLE), &plan);
        let Some(Entry::Noted { text, .. }) = changed(&state, true, WHOLE) else {
            panic!("no note");
        };
        assert_eq!(
            text,
            format!("the mode is plan now\n{}", rights(Mode::Plan, true, WHOLE))
        );
    }

    #[test]
    fn a_change_of_the_mode_is_told_once() {
        let said = lines(Mode::Default, true, WHOLE);
        let mut entries = Vec::new();
        assert_eq!(text(&after(&said, &entries), true), None);
        entries.push(Entry::Chose(Choice::of_mode(Mode::Plan)));
        let state = after(&said, &entries);
        assert_eq!(text(&state, true).unwrap(), "the mode is plan now");
        entries.push(changed(&state, true, WHOLE).unwrap());
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
    fn a_change_of_whether_the_user_can_be_asked_is_reported() {
        let state = after(&lines(Mode::Default, false, WHOLE), &[]);
        assert_eq!(text(&state, false), None);
        assert_eq!(text(&state, true).unwrap(), "the user can be asked now");
        let state = after(&lines(Mode::Default, true, WHOLE), &[]);
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
