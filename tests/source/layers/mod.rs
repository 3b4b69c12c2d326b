//! The order of the house, read from its sources: the rooms of a crate use only rooms below them, the
//! core is pure, and every file says what it is for.
//!
//! The compiler checks the order of the crates, and what each uses of other crates.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "all of this file is a test; clippy sees only the #[test] functions as such"
)]

mod children;
mod circles;
mod drawing;
mod kinds;
mod links;
mod mutants;
mod name_resolution;
mod paragraphs;
mod phrases;
mod test_names;
mod threads;
mod words;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use name_resolution::Names;

/// The rooms of each crate. A room may use itself and those after it in its crate.
const ROOMS: [&[&str]; 8] = [
    &["cli", "acp", "headless", "server"],
    &["ui"],
    &["report", "session", "import"],
    &["engine", "world", "tools", "mcp", "telemetry", "shared"],
    &["command", "sandbox"],
    &["bundle", "recovery", "store", "journal"],
    &["model", "workspace", "net", "config"],
    &["core"],
];

/// What the core may not use of the standard library: the world outside, and the clock.
const IMPURE: [&str; 6] = ["fs", "env", "time", "net", "process", "thread"];

#[test]
fn imports_go_down() {
    let found = violations(&sources("src"));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_core_is_pure() {
    let sources = sources("src/core");
    let found: Vec<String> = sources.iter().flat_map(|(p, t)| impure(p, t)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_file_says_what_it_is_for() {
    let files = ["src", "tests", "benches"].into_iter().flat_map(sources);
    let silent: Vec<String> = files
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(path, _)| path)
        .collect();
    assert!(
        silent.is_empty(),
        "these files do not begin with `//! what it is for`:\n{}",
        silent.join("\n")
    );
}

/// Why is said in the one file that may: to open a file of the database beside SQLite takes
/// its locks away.
#[test]
fn only_one_file_names_the_database() {
    let names = ["\"rewake.db", "Connection::open"];
    assert_eq!(files_with("src", &names), ["src/store/database.rs"]);
}

/// The lock, the runtime and the record of a resume belong to it: they are written once.
#[test]
fn only_one_file_starts_an_engine() {
    let names = ["Engine::new(", "record_resumed("];
    let files = files_with("src", &names);
    assert_eq!(files, ["src/engine/mod.rs", "src/session/driver.rs"]);
}

/// One crate watches files, for the config. Of the workspace every change has to be known before the
/// next effect, so its queue is read here, from the kernel.
#[test]
fn only_the_config_uses_the_file_watching_crate() {
    let watchers = dependencies().into_iter().filter(|name| {
        let words = ["notify", "watch", "kqueue"];
        words.iter().any(|word| name.contains(word))
    });
    assert_eq!(watchers.collect::<Vec<_>>(), ["notify"]);
    assert_eq!(
        files_with("src", &["RecommendedWatcher"]),
        ["src/ui/start.rs"]
    );
    let kernel = files_with("src", &["inotify::{", "inotify::init"]);
    assert_eq!(kernel, ["src/workspace/files/watch.rs"]);
}

/// What a user may configure has its default in `config::schema` and nowhere else; the rooms
/// below it get complete values.
#[test]
fn the_defaults_of_the_config_are_in_one_place() {
    let names = ["impl Default for Windows {", "impl Default for Retry {"];
    assert_eq!(files_with("src", &names), [""; 0]);
}

/// What a kind of entry says to a person is in `session::describe`; the places that show it
/// would else forget a kind, and have words of their own. A fork is more than its line.
#[test]
fn kinds_of_entries_are_described_in_one_file() {
    let kinds = [
        "Stopped",
        "Failed",
        "Noted",
        "Compacted",
        "Chose",
        "Learned",
    ];
    let names = kinds.map(|kind| [format!("Entry::{kind} {{"), format!("Entry::{kind}(")]);
    let names: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
    for room in ["src/ui", "src/session/export"] {
        assert_eq!(files_with(room, &names), [""; 0]);
    }
}

/// Exit codes and notes are below both, so neither needs the other.
#[test]
fn the_screen_and_the_run_without_one_do_not_know_each_other() {
    assert_eq!(files_with("src/ui", &["headless::"]), [""; 0]);
}

/// The files below a folder that have one of these words, tests left out.
fn files_with(folder: &str, words: &[&str]) -> Vec<String> {
    let files = sources(folder).into_iter().filter(|(path, text)| {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        !path.contains("/tests") && words.iter().any(|word| code.contains(word))
    });
    files.map(|(path, _)| path).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Path (from the root) and text of every Rust file below a folder.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.expect("list a folder").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("read a source file");
        let path = path.strip_prefix(root()).expect("a path below the root");
        (path.display().to_string(), text)
    };
    files.into_iter().map(read).collect()
}

/// The crates of `[dependencies]` of all manifests, as they are written in paths.
fn dependencies() -> BTreeSet<String> {
    let crates = std::fs::read_dir(root().join("crates")).expect("list the crates");
    let crates = crates.map(|entry| entry.expect("list the crates").path());
    let manifests = crates.chain([root().to_path_buf()]).map(|folder| {
        let text = std::fs::read_to_string(folder.join("Cargo.toml")).expect("read Cargo.toml");
        text.parse::<toml::Table>().expect("parse Cargo.toml")
    });
    let names = manifests.flat_map(|manifest| {
        let table = manifest["dependencies"].as_table().expect("a table");
        table.keys().cloned().collect::<Vec<_>>()
    });
    names.map(|name| name.replace('-', "_")).collect()
}

/// Returns a line for each use of a room by one below it in the same crate, and for each file in no
/// room.
fn violations(sources: &[(String, String)]) -> Vec<String> {
    let place = |room: &String| {
        let mut crates = ROOMS.iter().enumerate();
        crates.find_map(|(number, rooms)| Some((number, rooms.iter().position(|r| r == room)?)))
    };
    let mut found = Vec::new();
    for (module, used) in Names::of(sources).uses() {
        let name = module.join("::");
        let Some((of_crate, height)) = place(&module[0]) else {
            // The program and its library are two crates.
            if name != "main" {
                found.push(format!("{name} is in no room of `ROOMS`"));
            }
            continue;
        };
        for (other, names) in used {
            let is_above = |(of, at)| of == of_crate && at < height;
            if place(&other[0]).is_some_and(is_above) {
                found.push(format!("{name} uses a room above it: {names:?}"));
            }
        }
    }
    found
}

/// Returns a line for each use of the outside in a file of the core.
fn impure(path: &str, text: &str) -> Vec<String> {
    let tokens = tokens(text);
    let word = |i: usize| tokens.get(i).map_or("", |(_, token)| token.as_str());
    let is_std = |i: &usize| word(*i) == "std" && word(i + 1) == "::";
    let used = (0..tokens.len()).filter(is_std).flat_map(|i| {
        let names = names(&tokens, i + 2).into_iter();
        names.map(move |name| (i, name))
    });
    used.filter(|(_, name)| IMPURE.contains(&name.as_str()))
        .map(|(i, name)| format!("{path}:{}: the core uses `std::{name}`", tokens[i].0))
        .collect()
}

/// `src/core/entry.rs` is `core::entry`; `src/lib.rs` and the other roots of crates are the root.
fn modules(path: &str) -> Vec<String> {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    let mut names: Vec<String> = inner.split('/').map(str::to_string).collect();
    if names.last().is_some_and(|n| n == "mod") || names == ["lib"] || inner.starts_with("rewake_")
    {
        names.pop();
    }
    names
}

/// The name at `first`, or those of the group that opens there.
fn names(tokens: &[(usize, String)], first: usize) -> Vec<String> {
    let word = |i: usize| tokens.get(i).map_or("", |(_, token)| token.as_str());
    if word(first) != "{" {
        return vec![word(first).to_string()];
    }
    let mut names = Vec::new();
    let mut level = 0;
    for i in first..tokens.len() {
        match word(i) {
            "{" => level += 1,
            "}" => level -= 1,
            _ => {}
        }
        if level == 0 {
            break;
        }
        if level == 1 && matches!(word(i), "{" | ",") && !matches!(word(i + 1), "}" | "") {
            names.push(word(i + 1).to_string());
        }
    }
    names
}

/// Words, `::` and single signs with their lines; comments, strings and characters left out.
fn tokens(text: &str) -> Vec<(usize, String)> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = skipped(rest).unwrap_or_else(|| {
            let length = if c.is_alphanumeric() || c == '_' {
                rest.find(|c: char| !c.is_alphanumeric() && c != '_')
                    .unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                c.len_utf8()
            };
            if !c.is_whitespace() {
                tokens.push((line, rest[..length].to_string()));
            }
            length
        });
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    tokens
}

/// The length of the comment, string or character that `rest` begins with.
fn skipped(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(rest.find("*/").map_or(rest.len(), |end| end + 2));
    }
    let raw = rest.strip_prefix('b').unwrap_or(rest);
    if let Some(raw) = raw.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let start = rest.len() - raw.len() + hashes + 1;
            let found = rest[start..].find(&end);
            return Some(found.map_or(rest.len(), |at| start + at + end.len()));
        }
    }
    if rest.starts_with('"') {
        return Some(quoted(rest, '"'));
    }
    // A lifetime has no closing quote behind its first letter.
    let mut chars = rest.chars();
    if chars.next() == Some('\'') {
        let first = chars.next()?;
        if first == '\\' || chars.next() == Some('\'') {
            return Some(quoted(rest, '\''));
        }
    }
    None
}

/// The length of a literal that `text` begins with, its quotes included.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let file = |(path, text): (&str, &str)| (path.to_string(), text.to_string());
        let rooms = ROOMS.iter().copied().flatten();
        let rooms = rooms.map(|room| (format!("src/{room}/mod.rs"), "pub fn x() {}".to_string()));
        violations(&rooms.chain([file((path, text))]).collect::<Vec<_>>())
    }

    #[test]
    fn an_import_that_goes_up_in_a_crate_is_found() {
        for (path, text, name) in [
            ("src/journal/a.rs", "\nuse crate::store::x;", "store::x"),
            ("src/net/a.rs", "fn f() { crate::model::x() }", "model::x"),
            (
                "src/net/a.rs",
                "use crate::{core::x, workspace};\nfn f() { workspace::x() }",
                "workspace::x",
            ),
            ("src/net/a.rs", "use super::super::model::x;", "model::x"),
            (
                "src/tools/a/b.rs",
                "mod tests { mod deep { use super::super::super::super::super::world::x; } }",
                "world::x",
            ),
        ] {
            let found = found(path, text);
            assert!(
                found.len() == 1 && found[0].contains(name),
                "{text}: {found:?}"
            );
        }
    }

    #[test]
    fn an_import_that_goes_down_is_not() {
        for (path, text) in [
            ("src/main.rs", "use rewake::cli;"),
            ("src/rewake_store.rs", "use rewake_core::core;"),
            ("src/engine/a.rs", "use crate::{core::{x, y::Z}, world::x};"),
            (
                "src/store/a.rs",
                "// use crate::recovery::x;\nconst X: &str = \"crate::recovery::x\";",
            ),
            (
                "src/store/a.rs",
                "/* crate::bundle::x */ const R: &str = r#\"\" crate::bundle::x\"#;",
            ),
            (
                "src/store/a.rs",
                "fn f<'a>(c: char) -> &'a str { if c == '\"' { crate::core::x() } }",
            ),
        ] {
            assert_eq!(found(path, text), [""; 0], "{path}: {text}");
        }
    }

    #[test]
    fn a_core_that_looks_outside_is_found() {
        for (text, name) in [
            ("use std::time::Instant;", "`std::time`"),
            ("use std::{collections::BTreeMap, fs};", "`std::fs`"),
            ("fn f() { std::env::var(\"X\") }", "`std::env`"),
        ] {
            let found = impure("src/core/next.rs", text);
            assert!(
                found.len() == 1 && found[0].contains(name),
                "{text}: {found:?}"
            );
        }
        let pure = "use std::collections::BTreeMap; use serde::Serialize; // std::fs";
        assert_eq!(impure("src/core/next.rs", pure), [""; 0]);
    }

    #[test]
    fn a_source_file_outside_of_all_rooms_is_detected() {
        assert_eq!(found("src/util.rs", ""), ["util is in no room of `ROOMS`"]);
    }
}
