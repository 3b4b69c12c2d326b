//! The hooks of the user and of the workspace: from which files they are, and which of them run.
//!
//! A hook of the workspace runs only if the user trusted its definition and the files that it
//! names. The files of other agents are used in place, once the user trusted them.
//!
//! Invariant: a trusted guard that changed, or that is missing, counts as failed.

mod definition;
mod needed;
#[cfg(test)]
mod tests;
mod tool_names;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub use definition::{HookDefinition, Matcher};
pub use needed::{MISSING, hash as hash_of_file, is_executable};
use needed::{Needed, Place, needed_files};
pub use tool_names::TOOLS;

use crate::config::trusted::{TrustedHook, TrustedHooks};
use crate::config::{ConfigError, Paths, ReadError, read_text, trust};
use crate::core::access::Access;
use crate::core::entry::HookEvent;
use crate::core::text;

/// Maximum size of a file with hooks.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Maximum number of characters of a command in a line for a person.
const COMMAND_CHARS: usize = 100;

/// The file of the user, below the config folder.
const OF_USER: &str = "hooks.json";

/// The file of the workspace, below its root.
const OF_WORKSPACE: &str = ".rewake/hooks.json";

/// Files of other agents in the same format, below the root and below the home folder.
const IN_PLACE: [&str; 3] = [
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".codex/hooks.json",
];

/// The state of a hook: it runs, or why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookState {
    Used,
    /// The user has not trusted it, so it does not run.
    Untrusted,
    /// It cannot run, and why. A guard counts as failed.
    Failed(String),
}

/// A hook of a file.
#[derive(Debug, Clone)]
pub struct Hook {
    pub definition: HookDefinition,
    pub matcher: Matcher,
    pub file: PathBuf,
    /// The file as a person reads it: `.rewake/hooks.json`.
    pub shown_file: String,
    pub is_of_user: bool,
    pub state: HookState,
    /// The user trusted it, and its file does not define it any more.
    pub is_lost: bool,
    /// The folder in which it runs.
    pub folder: PathBuf,
    /// Access in the sandbox. `None`: a hook of the user, which runs outside.
    pub access: Option<Access>,
    /// The files that it needs, each with its trusted hash.
    pub files: Vec<(Needed, Option<String>)>,
}

impl Hook {
    /// Returns whether the hook is for calls, and its matcher covers no tool.
    pub fn is_of_no_tool(&self) -> bool {
        self.matcher.is_of_no_tool(self.definition.event)
    }

    /// Returns the file and the command, for a person.
    pub fn name(&self) -> String {
        let command = text::one_line(&self.definition.command, COMMAND_CHARS);
        format!("{}: {command}", self.shown_file)
    }
}

/// All hooks of a folder.
#[derive(Debug, Clone, Default)]
pub struct Hooks {
    pub hooks: Vec<Hook>,
    /// Lines for a person.
    pub warnings: Vec<String>,
}

/// The folders whose hooks are looked for.
#[derive(Debug, Clone, Copy)]
pub struct HookPlaces<'a> {
    pub paths: &'a Paths,
    /// The root of the workspace, or of the project of a worktree.
    pub root: &'a Path,
    /// The folder of the session.
    pub folder: &'a Path,
    pub home: Option<&'a Path>,
    /// The folders that are searched for programs.
    pub search_path: &'a [PathBuf],
}

/// A file that may have hooks.
struct Source {
    path: PathBuf,
    shown: String,
    is_of_user: bool,
    needs_trust: bool,
}

impl HookPlaces<'_> {
    fn sources(&self) -> Vec<Source> {
        let source = |folder: &Path, name: &str, shown: String, is_of_user, needs_trust| Source {
            path: folder.join(name),
            shown,
            is_of_user,
            needs_trust,
        };
        let own = &self.paths.config_dir;
        let mut sources = vec![
            source(own, OF_USER, OF_USER.into(), true, false),
            source(self.root, OF_WORKSPACE, OF_WORKSPACE.into(), false, true),
        ];
        // The config folder may be the `.rewake` of the workspace.
        sources.dedup_by(|b, a| a.path == b.path);
        // In the home folder the files of other agents are the user's.
        if self.home != Some(self.root) {
            for name in IN_PLACE {
                sources.push(source(self.root, name, name.into(), false, true));
            }
        }
        for (home, name) in self
            .home
            .iter()
            .flat_map(|home| IN_PLACE.map(|name| (home, name)))
        {
            sources.push(source(home, name, format!("~/{name}"), true, true));
        }
        sources
    }

    fn place(&self, source: &Source) -> Place<'_> {
        Place {
            folder: if source.is_of_user {
                self.folder
            } else {
                self.root
            },
            root: self.root,
            search_path: self.search_path,
        }
    }
}

/// Returns the hooks of this folder.
///
/// # Errors
/// The user's own file, or the file with the trust, cannot be used.
pub fn find_hooks(places: HookPlaces<'_>) -> Result<Hooks, ConfigError> {
    let mut found = Hooks::default();
    let mut trusted: Option<BTreeMap<String, TrustedHooks>> = None;
    for source in places.sources() {
        let read = read_text(&source.path, MAX_FILE_BYTES);
        let is_missing = matches!(read, Err(ReadError::Missing));
        if !source.needs_trust && is_missing {
            continue;
        }
        let parsed = read
            .map_err(|error| error.to_string())
            .and_then(|text| definition::parse(&source.path, &text));
        if !source.needs_trust {
            let defined = parsed.map_err(|why| {
                ConfigError::new(format!("cannot use {}: {why}", source.path.display()))
                    .with_hint("repair the file, or move it away")
            })?;
            found.add(&source, defined, None, places);
            continue;
        }
        if trusted.is_none() {
            // Without this file nothing is trusted, which is the common case.
            trusted = Some(trust::trusted_hooks(places.paths)?);
        }
        let path = source.path.to_string_lossy();
        let record = trusted.as_ref().and_then(|all| all.get(path.as_ref()));
        let is_in_place = source.shown != OF_WORKSPACE;
        match parsed {
            // Hooks of other agents are named elsewhere until they are imported.
            _ if record.is_none() && (is_missing || is_in_place) => {}
            Ok(defined) => found.add(&source, defined, record, places),
            Err(_) if is_missing => {
                found.add(&source, definition::DefinedHooks::default(), record, places);
            }
            Err(why) => found.add_unreadable(&source, &why, record, places),
        }
    }
    Ok(found)
}

impl Hooks {
    /// Returns the files of the workspace that hooks name. Nobody changes them without a question.
    pub fn protected_files(&self, root: &Path) -> Vec<PathBuf> {
        let hooks = self.hooks.iter();
        let used = hooks.filter(|hook| hook.state != HookState::Untrusted);
        let files = used.flat_map(|hook| &hook.files);
        let files = files.filter(|(needed, _)| needed.is_hashed || needed.path.starts_with(root));
        files.map(|(needed, _)| needed.path.clone()).collect()
    }

    /// Adds the hooks of a file. `record` has those that the user trusted.
    fn add(
        &mut self,
        source: &Source,
        defined: definition::DefinedHooks,
        record: Option<&TrustedHooks>,
        places: HookPlaces<'_>,
    ) {
        let place = places.place(source);
        self.warnings.extend(
            defined
                .warnings
                .into_iter()
                .map(|warning| format!("{}: {warning}", source.shown)),
        );
        for definition in &defined.hooks {
            let trusted = record.and_then(|record| record.get(&definition.hash));
            let needed = needed_files(&definition.command, place);
            let unknown = needed.unknown.filter(|_| source.needs_trust);
            let state = match (&definition.fault, source.needs_trust, trusted, unknown) {
                (_, true, None, _) => HookState::Untrusted,
                (Some(fault), ..) => HookState::Failed(fault.clone()),
                (_, _, _, Some(word)) => HookState::Failed(format!(
                    "`{}` is known only when the hook runs, so it cannot be trusted; name the file",
                    text::one_line(&word, 60)
                )),
                (None, _, _, None) => HookState::Used,
            };
            let files = needed.files.into_iter().map(|needed| {
                let hash = trusted.and_then(|trusted| {
                    let path = needed.path.to_string_lossy();
                    let known = trusted.files.get(path.as_ref()).cloned();
                    // A file that is named now and was not there then was not trusted.
                    known.or(needed.is_hashed.then(|| MISSING.to_string()))
                });
                (needed, hash)
            });
            let files = files.collect();
            self.push(
                source,
                definition.clone(),
                state,
                files,
                place.folder,
                trusted,
            );
        }
        let is_there = |hash: &String| defined.hooks.iter().any(|hook| hook.hash == *hash);
        for (hash, trusted) in record.into_iter().flatten() {
            if !is_there(hash) {
                let why = "it changed or is missing since it was trusted; review it and run `rewake trust`";
                self.add_lost(source, hash, trusted, why, places);
            }
        }
        let untrusted = self
            .hooks
            .iter()
            .filter(|hook| hook.file == source.path && hook.state == HookState::Untrusted);
        let names: Vec<&str> = untrusted.map(|hook| hook.definition.event.name()).collect();
        if !names.is_empty() {
            let hooks = text::count(names.len() as u64, "hook");
            self.warnings.push(format!(
                "{hooks} of {} not run, because not trusted: {}; `rewake trust` shows the commands",
                source.shown,
                names.join(", ")
            ));
        }
    }

    /// Adds a trusted hook that its file does not define any more.
    fn add_lost(
        &mut self,
        source: &Source,
        hash: &str,
        trusted: &TrustedHook,
        why: &str,
        places: HookPlaces<'_>,
    ) {
        let event = HookEvent::ALL
            .into_iter()
            .find(|event| event.name() == trusted.event);
        let Some(event) = event else { return };
        let definition = HookDefinition {
            event,
            matcher: trusted.matcher.clone(),
            command: trusted.command.clone(),
            timeout_ms: 0,
            may_fail: trusted.may_fail,
            is_async: false,
            fault: None,
            hash: hash.to_string(),
        };
        let state = HookState::Failed(why.to_string());
        let folder = places.place(source).folder;
        if event.is_guard() {
            let files = Vec::new();
            self.push(source, definition, state, files, folder, Some(trusted));
            if let Some(hook) = self.hooks.last_mut() {
                hook.is_lost = true;
            }
        } else {
            self.warnings.push(format!(
                "{}: a hook for {} does not run: {why}",
                source.shown,
                event.name()
            ));
        }
    }

    /// Adds a file that cannot be read. If the user trusted a guard of it, every call counts as
    /// under a failed guard.
    fn add_unreadable(
        &mut self,
        source: &Source,
        why: &str,
        record: Option<&TrustedHooks>,
        places: HookPlaces<'_>,
    ) {
        let why = text::one_line(why, 200);
        self.warnings.push(format!(
            "{} cannot be used, and none of its hooks run: {why}",
            source.shown
        ));
        let trusted = record.into_iter().flat_map(BTreeMap::iter);
        for (hash, trusted) in trusted {
            let every = TrustedHook {
                matcher: String::new(),
                may_fail: false,
                ..trusted.clone()
            };
            let why = format!("its file cannot be read: {why}");
            self.add_lost(source, hash, &every, &why, places);
        }
    }

    fn push(
        &mut self,
        source: &Source,
        definition: HookDefinition,
        mut state: HookState,
        files: Vec<(Needed, Option<String>)>,
        folder: &Path,
        trusted: Option<&TrustedHook>,
    ) {
        let access = trusted.and_then(|trusted| trusted.access);
        // A guard with a matcher that is not understood covers all tools.
        let matcher = Matcher::parse(definition.event, &definition.matcher).unwrap_or_else(|why| {
            if state == HookState::Used {
                state = HookState::Failed(why);
            }
            Matcher::All
        });
        self.hooks.push(Hook {
            definition,
            matcher,
            file: source.path.clone(),
            shown_file: source.shown.clone(),
            is_of_user: source.is_of_user,
            state,
            is_lost: false,
            folder: folder.to_path_buf(),
            files,
            access: (!source.is_of_user).then(|| access.unwrap_or(Access::Workspace)),
        });
    }
}

/// The hooks of a file as a person would trust them.
pub struct HooksToTrust {
    pub path: PathBuf,
    pub hooks: TrustedHooks,
    /// The hash of each hook, and a line for a person.
    named: Vec<(String, String)>,
    is_of_user: bool,
}

impl HooksToTrust {
    /// Sets the access of each hook of a workspace. `choose` gets its line, and the access that it
    /// had before, or the least one.
    pub fn choose_access(
        &mut self,
        before: Option<&TrustedHooks>,
        mut choose: impl FnMut(&str, Access) -> Access,
    ) {
        for (hash, line) in self.named.iter().filter(|_| !self.is_of_user) {
            let known = before.and_then(|before| before.get(hash)?.access);
            if let Some(hook) = self.hooks.get_mut(hash) {
                hook.access = Some(choose(line, known.unwrap_or(Access::Workspace)));
            }
        }
    }

    /// Returns a line for each hook.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.named.iter().map(|(_, line)| line.as_str())
    }

    /// Returns whether the hooks are of a workspace, so that they run in the sandbox.
    pub fn is_of_workspace(&self) -> bool {
        !self.is_of_user
    }
}

/// Returns what a person would trust by trusting the hooks of these files as they are now.
/// `is_wanted` says of which files, by path and whether it is rewake's own.
///
/// # Errors
/// A file cannot be read or parsed, so its content is unknown.
pub fn hooks_to_trust(
    places: HookPlaces<'_>,
    is_wanted: impl Fn(&Path, bool) -> bool,
) -> Result<Vec<HooksToTrust>, ConfigError> {
    let mut all = Vec::new();
    let sources = places.sources().into_iter();
    let is_wanted = |source: &Source| {
        source.needs_trust && is_wanted(&source.path, source.shown == OF_WORKSPACE)
    };
    for source in sources.filter(is_wanted) {
        let defined = match read_text(&source.path, MAX_FILE_BYTES) {
            Err(ReadError::Missing) => definition::DefinedHooks::default(),
            read => read
                .map_err(|error| error.to_string())
                .and_then(|text| definition::parse(&source.path, &text))
                .map_err(|why| {
                    ConfigError::new(format!("cannot use {}: {why}", source.path.display()))
                        .with_hint("repair or remove the file, and run rewake trust again")
                })?,
        };
        let mut hooks = TrustedHooks::new();
        let mut named = Vec::new();
        for hook in &defined.hooks {
            let needed = needed_files(&hook.command, places.place(&source)).files;
            let hashed = needed.iter().filter(|needed| needed.is_hashed);
            let files = hashed.map(|needed| {
                let hash = match needed::hash(&needed.path) {
                    Ok(hash) => hash,
                    Err(error) if error.kind() == ErrorKind::NotFound => MISSING.to_string(),
                    Err(error) => {
                        let path = needed.path.display();
                        let error = ConfigError::new(format!("cannot trust {path}: {error}"));
                        let hint = "repair or move the file, and run rewake trust again";
                        return Err(error.with_hint(hint));
                    }
                };
                Ok((needed.path.to_string_lossy().into_owned(), hash))
            });
            let matcher = match hook.matcher.as_str() {
                "" => String::new(),
                matcher => format!(" {}", text::one_line(matcher, 60)),
            };
            let compiled = Matcher::parse(hook.event, &hook.matcher);
            let is_of_no_tool = compiled.is_ok_and(|matcher| matcher.is_of_no_tool(hook.event));
            let matcher = match &hook.fault {
                Some(fault) => format!("{matcher} (cannot run: {fault})"),
                None if is_of_no_tool => format!("{matcher} (matches no tool, so it never runs)"),
                None => matcher,
            };
            let line = format!(
                "{} {}{matcher}: {}",
                source.shown,
                hook.event.name(),
                text::one_line(&hook.command, 2_000)
            );
            named.push((hook.hash.clone(), line));
            let trusted = TrustedHook {
                event: hook.event.name().to_string(),
                matcher: hook.matcher.clone(),
                command: hook.command.clone(),
                may_fail: hook.may_fail,
                files: files.collect::<Result<_, ConfigError>>()?,
                access: None,
            };
            hooks.insert(hook.hash.clone(), trusted);
        }
        all.push(HooksToTrust {
            path: source.path,
            hooks,
            named,
            is_of_user: source.is_of_user,
        });
    }
    Ok(all)
}
