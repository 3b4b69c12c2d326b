//! The thread that draws waits for nothing: what it runs reads no file, opens no store, starts
//! no process and waits for no thread. What is to be done outside is an intent, and
//! `src/ui/effects` does it on other threads.

use super::{modules, names, sources, tokens};

/// Modules that are all drawing: `ui::` and their names.
const DRAWS: [&str; 16] = [
    "ansi",
    "app",
    "changes",
    "commands",
    "composer",
    "diff",
    "history",
    "keys",
    "markdown",
    "offered",
    "overlay",
    "rewind",
    "text",
    "theme",
    "transcript",
    "view",
];

/// Files among them that run on threads of their own.
const THREADS: [&str; 3] = [
    "src/ui/history/queue.rs",
    "src/ui/history/read.rs",
    "src/ui/history/worker.rs",
];

/// What of the standard library leads outside, or waits.
const STD: [&str; 5] = ["env", "fs", "net", "process", "thread"];

/// Rooms that act on the machine.
const ROOMS: [&str; 3] = ["command", "workspace", "world"];

/// Of the store, what is only a value.
const VALUES_OF_STORE: [&str; 4] = ["AbandonedDraft", "InboxId", "Message", "Queued"];

/// Types that open, read or run something.
const TYPES: [&str; 7] = [
    "AppContext",
    "EngineHandle",
    "Process",
    "Runs",
    "SessionLock",
    "Store",
    "TcpStream",
];

/// Methods of paths that ask the disk, and of channels that wait.
const METHODS: [&str; 11] = [
    "canonicalize",
    "exists",
    "is_dir",
    "is_file",
    "metadata",
    "read_dir",
    "read_link",
    "recv",
    "recv_timeout",
    "symlink_metadata",
    "try_exists",
];

#[test]
fn drawing_code_does_not_block() {
    let files = sources("src/ui");
    let drawing: Vec<_> = files.iter().filter(|(path, _)| draws(path)).collect();
    assert!(drawing.len() > 40, "only {} files draw", drawing.len());
    let found: Vec<String> = drawing
        .iter()
        .flat_map(|(path, text)| outside(path, text))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    for path in THREADS {
        assert!(files.iter().any(|(p, _)| p == path), "{path} is gone");
    }
}

fn draws(path: &str) -> bool {
    let modules = modules(path);
    let is_test = modules.iter().any(|name| name == "tests");
    let is_drawing = modules.get(1).is_some_and(|m| DRAWS.contains(&m.as_str()));
    is_drawing && !is_test && !THREADS.contains(&path)
}

/// A line for each thing that leads outside.
fn outside(path: &str, text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let tokens = tokens(code);
    let word = |i: usize| tokens.get(i).map_or("", |(_, token)| token.as_str());
    let mut found = Vec::new();
    for (i, (line, token)) in tokens.iter().enumerate() {
        let follows = |sign: &str| i > 0 && word(i - 1) == sign;
        let leads = word(i + 1) == "::" && !follows("::");
        let inner = || names(&tokens, i + 2);
        let wrong: Vec<String> = match token.as_str() {
            "std" if leads => of(inner(), |name| STD.contains(&name)),
            "crate" if leads => of(inner(), |name| ROOMS.contains(&name)),
            "store" if follows("::") && word(i + 1) == "::" => {
                of(inner(), |name| !VALUES_OF_STORE.contains(&name))
            }
            name if METHODS.contains(&name) && follows(".") && word(i + 1) == "(" => {
                vec![name.to_string()]
            }
            name if TYPES.contains(&name) => vec![name.to_string()],
            _ => Vec::new(),
        };
        found.extend(wrong.into_iter().map(|name| {
            format!(
                "{path}:{line}: `{name}` leads outside, and this is run by the thread that draws"
            )
        }));
    }
    found
}

fn of(names: Vec<String>, is_wrong: impl Fn(&str) -> bool) -> Vec<String> {
    names.into_iter().filter(|name| is_wrong(name)).collect()
}

#[test]
fn outside_access_in_drawing_code_is_detected() {
    for (text, name) in [
        ("use std::fs::read;", "fs"),
        ("use std::{collections::BTreeMap, process};", "process"),
        ("fn f() { std::thread::sleep(x) }", "thread"),
        ("use crate::store::{Message, Store};", "Store"),
        ("fn f() { crate::store::database::bytes(x) }", "database"),
        ("use crate::command::Runs;", "command"),
        ("fn f(path: &Path) -> bool { path.is_file() }", "is_file"),
        ("fn f(ctx: &AppContext) {}", "AppContext"),
        ("fn f(live: EngineHandle) { }", "EngineHandle"),
        ("fn f() { receiver.recv() }", "recv"),
    ] {
        let found = outside("src/ui/app/x.rs", text);
        let named = format!("`{name}`");
        assert!(
            found.iter().any(|f| f.contains(&named)),
            "{text}: {found:?}"
        );
    }
    for text in [
        "use std::path::Path; use std::time::Instant;",
        "use crate::store::{InboxId, Queued};",
        "use crate::core::entry::Entry; // std::fs",
        "fn f(p: &Popup) -> bool { p.exists }",
        "#[cfg(test)]\nmod tests { use std::fs; }",
    ] {
        assert_eq!(outside("src/ui/app/x.rs", text), [""; 0], "{text}");
    }
    assert!(draws("src/ui/app/keys.rs") && draws("src/ui/composer/images.rs"));
    assert!(!draws("src/ui/effects/files.rs") && !draws("src/ui/composer/tests.rs"));
}
