//! The order of the house, read from its sources: imports go strictly down, the core is
//! pure, and every file says what it is for.
//!
//! A room may use itself and the rooms below it. `src/lib.rs` only names the rooms.
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
mod methods;
mod mutants;
mod paragraphs;
mod phrases;
mod test_names;
mod threads;
mod words;

use std::path::{Path, PathBuf};

const ORDER: [&str; 26] = [
    "main",
    "cli",
    "ui",
    "acp",
    "headless",
    "server",
    "report",
    "session",
    "engine",
    "world",
    "model",
    "tools",
    "mcp",
    "command",
    "sandbox",
    "telemetry",
    "shared",
    "import",
    "bundle",
    "recovery",
    "store",
    "journal",
    "workspace",
    "net",
    "config",
    "core",
];

/// What the core may not use of the standard library: the world outside, and the clock.
const IMPURE: [&str; 6] = ["fs", "env", "time", "net", "process", "thread"];

/// The crates that the core may use.
const CORE_CRATES: [&str; 2] = ["serde", "serde_json"];

#[test]
fn imports_go_down() {
    let dependencies = dependencies();
    let found: Vec<String> = sources("src")
        .iter()
        .flat_map(|(path, text)| violations(path, text, &dependencies))
        .collect();
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

/// Returns the code before the unit tests of a file.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("")
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

/// The crates of `[dependencies]`, as they are written in paths.
fn dependencies() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("Cargo.toml")).expect("read Cargo.toml");
    let manifest: toml::Table = text.parse().expect("parse Cargo.toml");
    let table = manifest["dependencies"].as_table().expect("a table");
    table.keys().map(|name| name.replace('-', "_")).collect()
}

fn violations(path: &str, text: &str, dependencies: &[String]) -> Vec<String> {
    let modules = modules(path);
    let room = match modules.first().map(String::as_str) {
        None => return Vec::new(),
        Some(room) => room,
    };
    let Some(place) = ORDER.iter().position(|r| *r == room) else {
        return vec![format!(
            "{path}: {room:?} is no room of the house: {}",
            order()
        )];
    };
    let mut found = Vec::new();
    for used in paths(text, modules.len()) {
        let at = format!("{path}:{}", used.line);
        let (root, name) = (used.root.as_str(), used.name.as_str());
        let of_ours = root == "crate" || (root == "rewake" && room == "main");
        if of_ours {
            match ORDER.iter().position(|r| *r == name) {
                None => found.push(format!("{at}: `{root}::{name}` names no room: {}", order())),
                Some(other) if other < place => found.push(format!(
                    "{at}: `{room}` uses `{root}::{name}`, which stands above it: {}",
                    order()
                )),
                Some(_) => {}
            }
        }
        if room == "core" {
            let foreign = dependencies.iter().any(|d| d == root) && !CORE_CRATES.contains(&root);
            let impure = root == "std" && IMPURE.contains(&name);
            if foreign || impure {
                found.push(format!(
                    "{at}: `core` uses `{root}::{name}`; it is pure and knows only std (without \
                     {}) and {}",
                    IMPURE.join(", "),
                    CORE_CRATES.join(", ")
                ));
            }
        }
    }
    found
}

fn order() -> String {
    format!("the order is {}", ORDER.join(", "))
}

/// `src/core/entry.rs` is `core::entry`; `src/lib.rs` is the root.
fn modules(path: &str) -> Vec<String> {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    let mut names: Vec<String> = inner.split('/').map(str::to_string).collect();
    if names.last().is_some_and(|n| n == "mod") || names == ["lib"] {
        names.pop();
    }
    names
}

/// A path in the source: `root::name`.
#[derive(Debug, PartialEq)]
struct Used {
    line: usize,
    root: String,
    name: String,
}

/// Every path's root and next name; a group gives one for each of its names. A `super` that
/// leads to the crate's root counts as `crate`. `depth` is that of the file's module.
fn paths(text: &str, depth: usize) -> Vec<Used> {
    let tokens = tokens(text);
    let word = |i: usize| tokens.get(i).map_or("", |(_, token)| token.as_str());
    let mut found = Vec::new();
    let mut braces = 0;
    // At which brace each inline module was opened.
    let mut inline: Vec<usize> = Vec::new();
    for i in 0..tokens.len() {
        match word(i) {
            "{" => {
                braces += 1;
                if i >= 2 && word(i - 2) == "mod" {
                    inline.push(braces);
                }
            }
            "}" => {
                if inline.last() == Some(&braces) {
                    inline.pop();
                }
                braces -= 1;
            }
            "::" => {}
            root if word(i + 1) == "::" && (i == 0 || word(i - 1) != "::") => {
                let mut at = i;
                let mut climbs = 0;
                while word(at) == "super" && word(at + 1) == "::" {
                    climbs += 1;
                    at += 2;
                }
                let root = match climbs {
                    0 => root,
                    _ if climbs == depth + inline.len() => "crate",
                    _ => continue,
                };
                let first = if climbs == 0 { at + 2 } else { at };
                for name in names(&tokens, first) {
                    found.push(Used {
                        line: tokens[i].0,
                        root: root.to_string(),
                        name,
                    });
                }
            }
            _ => {}
        }
    }
    found
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
        violations(
            path,
            text,
            &["tokio".into(), "serde".into(), "tracing".into()],
        )
    }

    #[track_caller]
    fn planted(path: &str, text: &str, line: usize, what: &str) {
        let found = found(path, text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with(&format!("{path}:{line}: ")),
            "{found:?}"
        );
        assert!(found[0].contains(what), "{found:?}");
    }

    #[test]
    fn an_import_that_goes_up_is_found() {
        planted(
            "src/store/mod.rs",
            "\nuse crate::engine::Engine;",
            2,
            "`crate::engine`",
        );
        planted(
            "src/store/log.rs",
            "fn f() { crate::tools::run() }",
            1,
            "`crate::tools`",
        );
        planted(
            "src/core/next.rs",
            "use crate::{core::entry, store};",
            1,
            "`crate::store`",
        );
        planted(
            "src/core/next.rs",
            "use super::super::model;",
            1,
            "`crate::model`",
        );
        planted(
            "src/world.rs",
            "use super::engine::X;",
            1,
            "`crate::engine`",
        );
        planted(
            "src/core/mod.rs",
            "mod tests {\n mod deep { use super::super::super::cli; } }",
            2,
            "`crate::cli`",
        );
        planted(
            "src/config/mod.rs",
            "macro! { $crate::ui::x }",
            1,
            "`crate::ui`",
        );
    }

    #[test]
    fn an_import_that_goes_down_is_not() {
        let good = [
            ("src/main.rs", "use rewake::cli;"),
            (
                "src/engine.rs",
                "use crate::{core::{entry::Entry, next}, world::World};",
            ),
            (
                "src/core/next.rs",
                "use super::entry; use crate::core::tool;",
            ),
            (
                "src/core/next.rs",
                "mod tests { use super::*; use super::super::entry; }",
            ),
            (
                "src/store/mod.rs",
                "// use crate::engine;\nconst X: &str = \"crate::ui::x\";",
            ),
            (
                "src/store/mod.rs",
                "/* crate::ui::x */ const R: &str = r#\"\" crate::ui::x\"#;",
            ),
            (
                "src/store/mod.rs",
                "fn f<'a>(c: char) -> &'a str { if c == '\"' { crate::core::x() } }",
            ),
            ("src/lib.rs", "pub use crate::cli::run;"),
        ];
        for (path, text) in good {
            assert_eq!(found(path, text), [""; 0], "{path}: {text}");
        }
    }

    #[test]
    fn a_core_that_looks_outside_is_found() {
        planted(
            "src/core/next.rs",
            "use std::time::Instant;",
            1,
            "`std::time`",
        );
        planted(
            "src/core/next.rs",
            "use std::{collections::BTreeMap, fs};",
            1,
            "`std::fs`",
        );
        planted(
            "src/core/next.rs",
            "fn f() { std::env::var(\"X\") }",
            1,
            "`std::env`",
        );
        planted(
            "src/core/next.rs",
            "fn f() { tracing::info!() }",
            1,
            "`tracing::info`",
        );
        planted("src/core/next.rs", "use tokio::sync;", 1, "`tokio::sync`");
        assert!(found("src/core/next.rs", "use serde::Serialize;").is_empty());
        assert!(found("src/store/mod.rs", "use std::fs; use tokio::sync;").is_empty());
    }

    #[test]
    fn a_source_file_outside_of_all_layers_is_detected() {
        assert!(found("src/util.rs", "")[0].contains("no room"));
        planted("src/store/mod.rs", "use crate::Thing;", 1, "`crate::Thing`");
    }
}
