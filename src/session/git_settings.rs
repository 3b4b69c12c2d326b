//! Settings of a repository that name programs, and the options with which git runs none of them.
//!
//! Git obeys the settings of the repository it works in: filters when it checks files out or compares
//! them, hooks, and helpers of those (git-lfs asks git for `core.sshCommand` and
//! `credential.helper`). Git itself lists them, so the same files, includes and worktree settings are
//! read. Each one gets the value of the user's own settings, or none. Programs that the user's own
//! settings name run as usual.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::git::{git, run_for};
use crate::config::Env;
use crate::workspace::names_program;

/// Maximum size of a list of settings.
const MAX_LISTED: u64 = 1 << 20;

/// Maximum number of settings of a repository that name programs.
const MAX_SETTINGS: usize = 500;

/// Settings with which git runs no program in a submodule.
const NO_SUBMODULES: [&str; 2] = ["-c", "submodule.recurse=false"];

/// Returns a git command for a folder that runs no program which the repository names. `repository`: git
/// is taken from outside of this one.
///
/// # Errors
/// The settings cannot be listed, or they cannot be overridden.
pub(super) fn git_without_programs(
    env: &Env,
    repository: &Path,
    folder: &Path,
) -> Result<Command, String> {
    let settings = settings(env, repository, folder)?;
    if let Some(setting) = settings.iter().find(|s| is_changeable(s, repository)) {
        return Err(format!(
            "its settings include the file {:?}, which a command can change while git reads it",
            setting.value
        ));
    }
    let mut command = git(env, repository)?;
    if folder != repository {
        command.arg("-C").arg(folder);
    }
    command.args(NO_SUBMODULES);
    for option in overrides(&settings)? {
        command.arg("-c").arg(option);
    }
    // An older git knows no other way not to fetch missing objects.
    command.env("GIT_ALLOW_PROTOCOL", "none");
    Ok(command)
}

/// Returns the names of the filters of a repository that [`git_without_programs`] does not run.
///
/// # Errors
/// The settings cannot be listed.
pub(super) fn filters_left_out(env: &Env, folder: &Path) -> Result<BTreeSet<String>, String> {
    settings(env, folder, folder).map(|settings| left_out(&settings))
}

fn settings(env: &Env, repository: &Path, folder: &Path) -> Result<Vec<Setting>, String> {
    let mut list = git(env, repository)?;
    list.arg("-C").arg(folder);
    list.args(["config", "--list", "--show-scope", "--includes", "-z"]);
    let text = run_for(&mut list, MAX_LISTED)?;
    if text.len() as u64 >= MAX_LISTED {
        return Err("git lists more settings than are looked at".to_string());
    }
    // A name in another encoding may be in them. Such a value is never given to git.
    Ok(parse(&String::from_utf8_lossy(&text)))
}

/// A line of git's list of settings.
struct Setting {
    is_of_repository: bool,
    /// Section and name are in lowercase.
    key: String,
    value: String,
}

/// Parses the output of `git config --list --show-scope -z`: the scope and a zero byte; the key, a line
/// end with the value, and a zero byte.
fn parse(text: &str) -> Vec<Setting> {
    let mut parts = text.split('\0');
    let mut settings = Vec::new();
    while let (Some(scope), Some(setting)) = (parts.next(), parts.next()) {
        let (key, value) = setting.split_once('\n').unwrap_or((setting, "true"));
        settings.push(Setting {
            is_of_repository: !matches!(scope, "system" | "global" | "command"),
            key: key.to_string(),
            value: value.to_string(),
        });
    }
    settings
}

/// Returns whether a setting of the repository includes a file that a command may write to: git would
/// read it again after rewake has.
fn is_changeable(setting: &Setting, repository: &Path) -> bool {
    let file = Path::new(&setting.value);
    let is_outside = setting.value.starts_with('~')
        || file.is_absolute() && !file.starts_with(repository) && !setting.value.contains("..");
    setting.is_of_repository && setting.key == "include.path" && !is_outside
}

/// Returns the value of a setting outside of the repository.
fn value_outside<'a>(settings: &'a [Setting], key: &str) -> Option<&'a str> {
    let mut outside = settings
        .iter()
        .filter(|s| !s.is_of_repository && s.key == key);
    outside.next_back().map(|s| s.value.as_str())
}

fn left_out(settings: &[Setting]) -> BTreeSet<String> {
    let own = settings
        .iter()
        .filter(|s| s.is_of_repository && names_program(&s.key, &s.value));
    let other = own.filter(|s| value_outside(settings, &s.key) != Some(&s.value));
    let filters = other.filter_map(|s| s.key.strip_prefix("filter.")?.rsplit_once('.'));
    let runs = filters.filter(|(_, name)| matches!(*name, "smudge" | "process"));
    runs.map(|(filter, _)| filter.to_string()).collect()
}

/// Returns options that give each setting of the repository that names a program its value outside of
/// the repository.
fn overrides(settings: &[Setting]) -> Result<Vec<String>, String> {
    let own = settings.iter().filter(|s| s.is_of_repository);
    if let Some(setting) = own.clone().find(|s| s.key.starts_with("includeif.")) {
        // The condition may be true for the worktree and not here.
        return Err(format!(
            "its settings name others that apply in a part of it only ({:?}), which may name programs",
            setting.key
        ));
    }
    let keys: BTreeSet<&str> = own
        .filter(|s| names_program(&s.key, &s.value))
        .map(|s| s.key.as_str())
        .collect();
    let is_other_text = |s: &&Setting| s.value.contains(char::REPLACEMENT_CHARACTER);
    let mut others = settings.iter().filter(|s| keys.contains(s.key.as_str()));
    if let Some(setting) = others.find(is_other_text) {
        return Err(format!("the setting {:?} is not UTF-8", setting.key));
    }
    // An option ends its name at the first `=`.
    if let Some(key) = keys.iter().find(|key| key.contains(['=', '\n'])) {
        return Err(format!("its setting {key:?} names a program"));
    }
    if keys.len() > MAX_SETTINGS {
        return Err("its settings name too many programs".to_string());
    }
    let mut options = Vec::new();
    for key in keys {
        let values = match key.rsplit('.').next() {
            // Each one is asked in turn; an empty one removes those before it.
            Some("helper") => {
                let outside = settings
                    .iter()
                    .filter(|s| !s.is_of_repository && s.key == key);
                [""].into_iter()
                    .chain(outside.map(|s| s.value.as_str()))
                    .collect()
            }
            name => vec![
                value_outside(settings, key)
                    .unwrap_or_else(|| default_value(key, name.unwrap_or_default())),
            ],
        };
        options.extend(
            values
                .into_iter()
                .map(|value: &str| format!("{key}={value}")),
        );
    }
    Ok(options)
}

/// Returns the value with which a setting names no program.
fn default_value(key: &str, name: &str) -> &'static str {
    match (key, name) {
        ("core.sshcommand", _) => "ssh",
        (_, "command") if key.starts_with("hook.") => "true",
        (_, "required" | "promisor" | "enabled" | "prompt" | "trustexitcode") => "false",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(listed: &str) -> Result<Vec<String>, String> {
        overrides(&parse(listed))
    }

    #[test]
    fn a_program_of_the_repository_gives_way_to_the_users_own() {
        let listed = "global\0filter.lfs.process\ngit-lfs filter-process\0\
            local\0filter.lfs.process\n./evil\0\
            local\0filter.x.smudge\n./evil\0\
            worktree\0filter.x.required\0\
            global\0credential.helper\nstore\0\
            local\0credential.helper\n!evil\0\
            local\0core.sshcommand\nevil\0\
            local\0lfs.customtransfer.t.path\nevil\0\
            local\0hook.h.command\nevil\0\
            local\0core.hookspath\nevil\0\
            local\0core.packedgitlimit\n1m\0\
            local\0user.name\nclean\0";
        let expected = [
            "core.sshcommand=ssh",
            "credential.helper=",
            "credential.helper=store",
            "filter.lfs.process=git-lfs filter-process",
            "filter.x.required=false",
            "filter.x.smudge=",
            "hook.h.command=true",
            "lfs.customtransfer.t.path=",
        ];
        assert_eq!(options(listed).unwrap(), expected);
        let left_out: Vec<_> = left_out(&parse(listed)).into_iter().collect();
        assert_eq!(left_out, ["lfs", "x"]);
    }

    #[test]
    fn a_filter_that_git_lfs_installed_stays() {
        let listed = "local\0filter.lfs.smudge\ngit-lfs smudge -- %f\0\
            local\0filter.lfs.required\ntrue\0";
        assert!(options(listed).unwrap().is_empty());
    }

    #[test]
    fn settings_that_cannot_be_overridden_are_refused() {
        for listed in [
            "local\0includeif.gitdir:**.path\n../inc\0",
            "local\0filter.a=b.smudge\nevil\0",
        ] {
            assert!(options(listed).is_err(), "{listed:?}");
        }
        assert!(
            options("global\0includeif.gitdir:**.path\n../inc\0")
                .unwrap()
                .is_empty()
        );
    }
}
