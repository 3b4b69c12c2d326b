//! The specification of a run: the part of a run folder that the agent writes.
//!
//! Invariant: a spec is stored in clear text, so it names the variables that are removed from the
//! command's environment and never contains their values.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sandbox::Profile;

/// Variables that keep programs from waiting for a person and from drawing on the terminal.
const QUIET: [(&str, &str); 4] = [
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("TERM", "dumb"),
];

/// Value of variables that name an editor. It fails at once and says what to do. Some programs give it to
/// a shell and others split it into words, so it has no quotes: [`NO_EDITOR_ALIAS`] says the words.
const NO_EDITOR: &str = "git no-editor";

/// Setting of git for [`NO_EDITOR`].
const NO_EDITOR_ALIAS: &str = "alias.no-editor=!echo there is no editor here: give the text with -m or \
     -F, or keep it with --no-edit or git -c core.editor=true >&2; exit 1; :";

/// Variables that name an editor. Those of programs are set too, since they come before the settings
/// of the program.
#[rustfmt::skip]
const EDITORS: [&str; 12] = [
    "EDITOR", "VISUAL", "FCEDIT", "SUDO_EDITOR", "SYSTEMD_EDITOR", "KUBE_EDITOR", "GH_EDITOR", "JJ_EDITOR", "HGEDITOR", "SVN_EDITOR",
    "P4EDITOR", "BZR_EDITOR",
];

/// Variables that name a pager of a program.
#[rustfmt::skip]
const PAGERS: [&str; 7] = [
    "MANPAGER", "SYSTEMD_PAGER", "DELTA_PAGER", "BAT_PAGER", "GH_PAGER", "AWS_PAGER", "PSQL_PAGER",
];

/// Variables that keep programs in the sandbox from asking for a password in a window, which they
/// could not open. Git takes an empty program for none.
const NO_PASSWORD_WINDOWS: [(&str, &str); 3] = [
    ("GIT_ASKPASS", ""),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("GCM_INTERACTIVE", "never"),
];

/// Variables of git that would come before `git -c core.editor=…`.
const EDITORS_OF_GIT: [&str; 2] = ["GIT_EDITOR", "GIT_SEQUENCE_EDITOR"];

/// Variable with the settings of `git -c`. Later ones win.
pub(super) const GIT_SETTINGS: &str = "GIT_CONFIG_PARAMETERS";

/// Setting that gives the list of a rebase to the editor that git would use for a message.
const SEQUENCE_EDITOR: &str = r#"sequence.editor=f() { eval "$(git var GIT_EDITOR) \"\$@\""; }; f"#;

/// Maximum size of a command. A longer script should be a file.
pub(super) const COMMAND_MAX_BYTES: usize = 8 * 1024 * 1024;

/// Maximum size of a command that is passed as an argument; a longer one becomes a script. Linux
/// accepts no argument above 128 KiB.
pub(super) const ARGUMENT_MAX_BYTES: usize = 100 * 1024;

/// The command that a keeper runs, and its settings. Stored as a file in the run folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The command line.
    pub command: String,
    /// The folder the command starts in.
    pub folder: PathBuf,
    /// Time limit in milliseconds; `u64::MAX` for none.
    pub timeout_ms: u64,
    /// Number of bytes of the head of the output that are stored. The end is stored as well.
    pub output_cap_bytes: u64,
    /// The shell, which runs as `shell -c command`.
    pub shell: PathBuf,
    /// Names of variables that are removed from the environment, since they hold keys.
    pub env_remove: Vec<String>,
    /// Variables set for the command. Stored in clear text: never secrets.
    pub env_set: Vec<(String, String)>,
    /// The session of the command, for display.
    pub session: String,
    /// The call that started the command, under the name that the model uses: `bg_3_0`.
    pub call: String,
    /// Whether the agent does not wait for the end.
    pub background: bool,
    /// The sandbox. `None` for a command without one, as at level `full` and for every command of
    /// older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Box<Profile>>,
    /// The session that this program runs as a subagent, if the run is one. `command` is then the
    /// task, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    /// Set if the command is a hook. It reads the file `input` of the run folder, and its errors go
    /// to the file `err`. It has ended when nothing has its output open any more. More output than
    /// the cap ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<HookSpec>,
    /// The file with the lease of the session, if the session is shared: the command is not started
    /// after the end of the lease, and ends with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<PathBuf>,
}

/// The files that a hook needs. They are compared again right before it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookSpec {
    pub files: Vec<NeededFile>,
}

/// A file that a hook needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeededFile {
    /// Absolute.
    pub path: PathBuf,
    /// It is a program, so it must be executable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_program: bool,
    /// The trusted hash of the file or of the folder. `None`: any content is trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// Value of [`Spec::call`] for a command that the user typed.
pub const OF_USER: &str = "user";

/// Value of [`Spec::call`] for a check.
pub const OF_CHECK: &str = "check";

/// Value of [`Spec::call`] for a hook.
pub const OF_HOOK: &str = "hook";

/// Value of [`Spec::call`] for a hook for which nobody waits. Its run folder is in no log.
pub const OF_UNAWAITED_HOOK: &str = "hook, not waited for";

impl Spec {
    /// Returns whether the user typed the command with `!`.
    pub fn is_of_user(&self) -> bool {
        self.call == OF_USER
    }

    /// Returns whether nobody can answer the command: it is of the model, or a check. A hook, which the
    /// user wrote, may start an editor.
    fn is_unattended(&self) -> bool {
        !self.is_of_user() && self.hook.is_none() && self.child.is_none()
    }

    /// Returns the variables of the keeper: the value of each, or `None` if it is removed.
    /// `git_settings`: the settings of git in this environment.
    pub(super) fn environment(
        &self,
        git_settings: Option<String>,
    ) -> Vec<(String, Option<String>)> {
        let set = |(name, value): (&str, &str)| (name.to_string(), Some(value.to_string()));
        let removed = self.env_remove.iter().map(|name| (name.clone(), None));
        let mut all: Vec<_> = removed.chain(QUIET.map(set)).collect();
        if self.is_unattended() {
            all.extend(EDITORS_OF_GIT.map(|name| (name.to_string(), None)));
            all.extend(EDITORS.map(|name| set((name, NO_EDITOR))));
            all.extend(PAGERS.map(|name| set((name, "cat"))));
            all.push(set(("DEBIAN_FRONTEND", "noninteractive")));
            let is_removed = self.env_remove.iter().any(|name| name == GIT_SETTINGS);
            let before = git_settings.filter(|_| !is_removed);
            let before = before.map(|before| before + " ").unwrap_or_default();
            let settings = [
                "core.editor=git no-editor",
                NO_EDITOR_ALIAS,
                SEQUENCE_EDITOR,
            ];
            let settings = format!("{before}'{}'", settings.join("' '"));
            all.push((GIT_SETTINGS.to_string(), Some(settings)));
            if self.sandbox.is_some() {
                all.extend(NO_PASSWORD_WINDOWS.map(set));
            }
        }
        let given = self.env_set.iter().cloned();
        all.extend(given.map(|(name, value)| (name, Some(value))));
        all
    }

    /// Refuses a command that cannot be given to a shell.
    pub(super) fn check(&self) -> io::Result<()> {
        let refuse = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if self.command.len() > COMMAND_MAX_BYTES {
            return refuse(format!(
                "the command is {} bytes long, more than {COMMAND_MAX_BYTES}",
                self.command.len()
            ));
        }
        if self.command.contains('\0') {
            return refuse("the command holds a NUL byte".to_string());
        }
        Ok(())
    }

    pub(super) fn needs_script(&self) -> bool {
        self.command.len() > ARGUMENT_MAX_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLDER: &str = r#"{"command":"true","folder":"/","timeout_ms":1,"output_cap_bytes":2,"shell":"/bin/sh","env_remove":[],"env_set":[],"session":"s","call":"bg_1_0","background":true}"#;

    fn names(spec: &Spec) -> String {
        let environment = spec.environment(None).into_iter();
        environment.map(|(name, _)| format!("{name} ")).collect()
    }

    #[test]
    fn commands_of_the_user_and_hooks_keep_their_editors() {
        let model: Spec = serde_json::from_str(OLDER).unwrap();
        let check = Spec {
            call: OF_CHECK.into(),
            ..model.clone()
        };
        for spec in [model.clone(), check] {
            assert!(names(&spec).contains("EDITOR VISUAL "), "{}", names(&spec));
        }
        let user = Spec {
            call: OF_USER.into(),
            ..model.clone()
        };
        let hook = Spec {
            hook: Some(HookSpec::default()),
            ..model.clone()
        };
        let child = Spec {
            child: Some("s".into()),
            ..model.clone()
        };
        for spec in [user, hook, child] {
            assert_eq!(names(&spec), "PAGER GIT_PAGER GIT_TERMINAL_PROMPT TERM ");
        }
    }

    #[test]
    fn settings_of_git_stay_and_variables_of_the_command_come_last() {
        let mut spec: Spec = serde_json::from_str(OLDER).unwrap();
        spec.env_set = vec![("EDITOR".into(), "mine".into())];
        let of = |spec: &Spec, name: &str| {
            let environment = spec.environment(Some("'a.b=c'".into()));
            let last = environment.into_iter().rfind(|(known, _)| known == name);
            last.and_then(|(_, value)| value)
        };
        assert_eq!(of(&spec, "EDITOR").as_deref(), Some("mine"));
        assert_eq!(of(&spec, "GIT_EDITOR"), None);
        // Outside of the sandbox the user may be asked in a window.
        assert_eq!(of(&spec, "GIT_ASKPASS"), None);
        let settings = of(&spec, GIT_SETTINGS).unwrap();
        let want = "'a.b=c' 'core.editor=git no-editor' 'alias.no-editor=!echo ";
        assert!(settings.starts_with(want), "{settings}");
        spec.env_remove = vec![GIT_SETTINGS.into()];
        let settings = of(&spec, GIT_SETTINGS).unwrap();
        assert!(settings.starts_with("'core.editor="), "{settings}");
    }

    #[test]
    fn the_spec_that_an_older_version_wrote_is_read() {
        let spec: Spec = serde_json::from_str(OLDER).unwrap();
        assert_eq!(spec.lease, None);
        // A session that is not shared has no new field.
        assert_eq!(serde_json::to_string(&spec).unwrap(), OLDER);
    }
}
