//! Forks of copies, of another agent's sessions and of those in bundles: the folder of the fork, its
//! model, and what the model is told.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::relocation::healthy_store;
use super::{AppContext, SessionError, SessionSelector, added_folder};
use crate::core::entry::{Block, Choice, Entry};
use crate::core::path::text_matches;
use crate::core::state::State;
use crate::core::text::{count, head_tail};
use crate::core::visible::visible;
use crate::import::{Agent, Sources, foreign_tools, printed_of};
use crate::sandbox::holds_secrets;
use crate::store::{NewPlace, SessionInfo, Store, host_of, is_of_rewake};
use crate::tools;
use crate::workspace::files::is_secret;
use crate::workspace::here;

/// Maximum length of the arguments and of the output of a call in the note, bytes.
const SHOWN_BYTES: usize = 2_000;
/// Maximum number of tools that the note names.
const MAX_TOOLS: usize = 20;
/// Maximum number of files of a folder whose names are compared with those of keys.
const MAX_ENTRIES: usize = 10_000;
const CUT: &str = "\n[… cut …]\n";

/// Folders whose folders are home folders.
const HOMES: [&str; 3] = ["/home", "/Users", "/var/home"];
/// Names in a folder that holds the keys of a user.
const KEYS: [&str; 6] = [
    ".ssh",
    ".gnupg",
    "id_rsa",
    "id_ecdsa",
    "id_ed25519",
    "authorized_keys",
];
/// Names of files with keys, in a folder that is not a repository.
#[rustfmt::skip]
const KEY_FILES: [&str; 12] = [
    "*_rsa", "*_dsa", "*_ecdsa", "*_ed25519", "id_*_sk", "key?.db", "logins.json", "Login Data", "wallet.dat",
    "*.keychain-db", "*.kdbx", "*.key",
];
/// Folders of the home folder in which programs keep what is theirs, beside those that begin with a dot.
const OF_PROGRAMS: [&str; 2] = ["snap", "Library"];

/// Returns the folder of a fork of `info` at an entry of a copy. `None`: that of the copy, with the
/// files that its entries name.
pub(super) fn place_of_fork(
    ctx: &AppContext,
    info: &SessionInfo,
    copy: &SessionInfo,
) -> Result<Option<NewPlace>, SessionError> {
    let is_of_rewake = copy.replica.as_deref().is_some_and(is_of_rewake);
    // A fork of the copy has a folder here.
    let is_elsewhere = info.replica.is_some() && is_elsewhere(ctx, info)?;
    Ok(match is_elsewhere {
        true => Some(NewPlace {
            workspace: ctx.workspace(),
            folder: ctx.here.folder.to_string_lossy().into_owned(),
        }),
        // The files of the other machine are not here.
        false if is_of_rewake || info.replica.is_none() => Some(NewPlace {
            workspace: info.workspace.clone(),
            folder: info.folder.clone(),
        }),
        false => None,
    })
}

/// Returns whether a fork of a copy works in the folder of this start, and not in that of the copy.
/// Its source may name any folder of this machine. So that folder is used only if it lies in the
/// workspace of this start, or if the user confirmed it.
///
/// # Errors
/// The user has to name another folder.
pub(super) fn is_elsewhere(ctx: &AppContext, info: &SessionInfo) -> Result<bool, SessionError> {
    let folder = Path::new(&info.folder);
    let is_named = ctx.env.is_folder_named();
    let real = folder.canonicalize().ok().filter(|real| real.is_dir());
    let why = match real.filter(|_| folder.is_absolute()) {
        _ if is_named && !is_same(&ctx.here.folder, folder) => {
            match check_folder(ctx, &ctx.here.folder) {
                Ok(()) => return Ok(true),
                Err(why) => format!("{} is not used for it: {why}", ctx.here.folder.display()),
            }
        }
        None if info.folder.is_empty() => "its source names no folder".to_string(),
        None => format!("its folder {} does not exist", visible(&info.folder)),
        Some(real) => match check_folder(ctx, &real) {
            Err(why) => format!("{} is not used for it: {why}", visible(&info.folder)),
            Ok(()) if is_named || is_chosen(ctx, &real) => return Ok(false),
            Ok(()) => format!("its folder {} was not confirmed", visible(&info.folder)),
        },
    };
    Err(SessionError::NoSourceFolder {
        session: info.id.clone(),
        why,
    })
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Returns whether the user chose this folder: by starting in its workspace, or in a question.
fn is_chosen(ctx: &AppContext, real: &Path) -> bool {
    let root = ctx.here.root.canonicalize();
    root.is_ok_and(|root| real.starts_with(root))
        || ctx.given.confirmed_folder.as_deref() == Some(real)
}

/// Checks that sessions of others may continue in a folder and in its workspace.
fn check_folder(ctx: &AppContext, folder: &Path) -> Result<(), String> {
    let root = here(folder).map_err(|error| error.to_string())?.root;
    let is_repository = root.join(".git").exists();
    for folder in [folder, &root] {
        let real = added_folder(ctx, folder)?;
        let real = Path::new(&real);
        let is_home = HOMES
            .iter()
            .any(|homes| real.parent() == Some(Path::new(homes)))
            || real == Path::new("/root");
        if is_home || real.parent().is_none() {
            return Err("it is a home folder or the root of all files".to_string());
        }
        let is_key_place = is_secret(real.as_os_str().as_bytes())
            || KEYS
                .iter()
                .any(|name| real.join(name).symlink_metadata().is_ok())
            || ctx.env.home().is_some_and(|home| holds_secrets(real, home))
            || !is_repository && has_key_files(real);
        if is_key_place {
            return Err("it has keys, or is a folder for them".to_string());
        }
        let is_of_program = ctx.env.home().is_some_and(|home| is_of_program(real, home));
        if is_of_program && !is_repository {
            return Err("it is a folder of settings, not of a project".to_string());
        }
    }
    Ok(())
}

fn has_key_files(folder: &Path) -> bool {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.take(MAX_ENTRIES).any(|entry| {
        let name = entry.file_name();
        KEY_FILES
            .iter()
            .any(|pattern| text_matches(pattern, &name.to_string_lossy()))
    })
}

/// Returns whether a program keeps its files there: below a hidden folder of the home folder.
fn is_of_program(folder: &Path, home: &Path) -> bool {
    let home = home.canonicalize();
    let below = home.ok().and_then(|home| folder.strip_prefix(home).ok());
    let first = below.and_then(|below| below.components().next());
    first.is_some_and(|first| {
        let name = first.as_os_str().to_string_lossy();
        name.starts_with('.') || OF_PROGRAMS.contains(&&*name)
    })
}

/// Returns the folder that a copy of a session would continue in, if the user has to confirm it.
pub fn folder_to_confirm(ctx: &AppContext, which: &SessionSelector) -> Option<PathBuf> {
    let (SessionSelector::Named { id, .. } | SessionSelector::ForkAt { id, .. }) = which else {
        return None;
    };
    let store = healthy_store(ctx)?;
    let info = store.history().find(id).ok()?;
    let real = Path::new(&info.folder).canonicalize().ok()?;
    let is_copy = info.replica.is_some() && !ctx.env.is_folder_named();
    let is_open = is_copy && !is_chosen(ctx, &real) && check_folder(ctx, &real).is_ok();
    is_open.then_some(real)
}

/// Returns the notice that other agents have sessions of this folder. It is given at the first start
/// in a folder.
pub(super) fn sessions_of_others(ctx: &AppContext, store: &Store) -> Option<String> {
    if store.history().count_in(&ctx.workspace()).ok()? > 0 {
        return None;
    }
    let folders = [ctx.here.root.clone(), ctx.here.folder.clone()];
    let agents = Sources::new(&ctx.env).agents_of(&folders);
    let names: Vec<&str> = agents.into_iter().map(Agent::name).collect();
    let (last, others) = names.split_last()?;
    let (names, verb) = match others {
        [] => (last.to_string(), "has"),
        others => (format!("{} and {last}", others.join(", ")), "have"),
    };
    Some(format!(
        "{names} {verb} sessions of this folder; rewake import lists them"
    ))
}

/// Returns the error of a workspace without a session to continue.
pub(super) fn nothing_here(ctx: &AppContext, store: &Store) -> SessionError {
    match store.history().newest_replica(&ctx.workspace()) {
        Ok(Some((session, agent))) => SessionError::OnlyReplicas { session, agent },
        _ => SessionError::NothingHere(ctx.here.root.clone()),
    }
}

/// Returns the choice of the configured model, if the model of a copy cannot be used here.
pub(super) fn choice(ctx: &AppContext, info: &SessionInfo, state: &State) -> Option<Entry> {
    let is_of_rewake = info.replica.as_deref().is_some_and(is_of_rewake);
    if !is_of_rewake || ctx.models().check(&state.model).is_ok() {
        return None;
    }
    let model = ctx.config().model_name(&ctx.env).ok()?.to_string();
    Some(Entry::Chose(Choice {
        model: Some(model),
        ..Choice::default()
    }))
}

/// Returns the note for the model of a fork. `state`: of the copy where the fork begins.
pub(super) fn note(store: &Store, info: &SessionInfo, state: &State) -> Entry {
    if let Some(host) = info.replica.as_deref().and_then(host_of) {
        return note_of_bundle(host, info, state);
    }
    let source = state.imported.as_deref();
    let version = source.and_then(|source| source.agent_version.as_deref());
    let name = source.map(|source| source.agent.as_str());
    let name = name.or(info.replica.as_deref()).unwrap_or_default();
    let agent = format!("{name} {}", version.unwrap_or_default());
    let mut text = format!(
        "This session began in another agent, {}, and ended there at {}. Read a file again before you \
         change it: it may differ from what was read there.",
        agent.trim(),
        utc(info.updated_ms)
    );
    let about = store.history().source_of(&info.id).ok().flatten();
    // It is of the calls at the end.
    let about = about.filter(|_| state.next_seq() == info.entries);
    let printed = about.as_deref().map(printed_of).unwrap_or_default();
    let open = open_calls(state, &printed);
    if let Some(open) = &open {
        text.push_str(open);
    } else if name == "gemini" {
        text.push_str("\nIts log names a call only when it has ended: one more may have run.");
    }
    let specs = [tools::specs(), tools::attended_specs()].concat();
    let known: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    let blocks = state
        .context
        .iter()
        .filter_map(|record| match &record.entry {
            Entry::Replied { blocks, .. } => Some(blocks),
            _ => None,
        });
    let names = blocks.flat_map(|blocks| Block::calls(0, blocks).map(|(_, name, _)| name));
    let mut foreign = foreign_tools(names.filter(|name| !known.contains(name)));
    let more = foreign.len().saturating_sub(MAX_TOOLS);
    foreign.truncate(MAX_TOOLS);
    if !foreign.is_empty() {
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        text.push_str(&format!(
            "\nTools of its calls that do not exist here: {}{more}.",
            foreign.join(", ")
        ));
    }
    Entry::Noted { text, about: None }
}

/// Returns the calls without a result, with what they had printed. `None`: there is none.
fn open_calls(state: &State, printed: &[Option<String>]) -> Option<String> {
    let open = state.calls.iter().filter(|call| !call.finished);
    let open: Vec<String> = open
        .enumerate()
        .map(|(place, open)| {
            let arguments = head_tail(&open.call.arguments, SHOWN_BYTES, CUT);
            let printed = printed.get(place).and_then(Option::as_deref);
            let printed = printed
                .map(|text| format!("\n  It had printed:\n{}", head_tail(text, SHOWN_BYTES, CUT)));
            let name = &open.call.name;
            format!("\n- {name} {arguments}{}", printed.unwrap_or_default())
        })
        .collect();
    let number = count(open.len() as u64, "call");
    (!open.is_empty()).then(|| {
        format!(
            "\n{number} had no result at that time and may have had effects:{}",
            open.concat()
        )
    })
}

/// Returns the note for the fork of a session that came in a bundle.
fn note_of_bundle(host: &str, info: &SessionInfo, state: &State) -> Entry {
    let mut text = format!(
        "This session comes from another machine, {host}, where its folder was {}. Its last entry there \
         is of {}. Its commands do not run here, and files may differ: read a file again before you \
         change it.",
        state.folder,
        utc(info.updated_ms)
    );
    text.push_str(&open_calls(state, &[]).unwrap_or_default());
    Entry::Noted { text, about: None }
}

fn utc(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms).map_or_else(
        |_| "an unknown time".to_string(),
        |at| at.strftime("%Y-%m-%d %H:%M UTC").to_string(),
    )
}
