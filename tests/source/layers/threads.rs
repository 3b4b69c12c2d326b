//! Threads, tasks and channels: the list in the documents is that of the code, and an unbounded
//! channel says why it has no bound.

use std::collections::BTreeMap;

use regex::Regex;

use super::{root, sources, tokens};

/// Calls that start a thread or a task, when they are given what it runs.
const SPAWNS: [&str; 3] = ["spawn", "spawn_blocking", "spawn_scoped"];

/// Calls of crates that do it.
const SPAWNS_OF_CRATES: [&[&str]; 3] = [
    &["recommended_watcher", "("],
    &["NonBlockingBuilder", "::"],
    &["axum", "::", "serve", "("],
];

/// Unbounded channels of today. The number may only fall.
const UNBOUNDED: usize = 15;

#[test]
fn the_documents_list_every_thread_and_task() {
    let document = std::fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let (_, section) = document.split_once("## Threads and tasks\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let row = Regex::new(r"(?m)^\| \[.*?\]\(\.\./(src/[^)]+)\) \|").unwrap();
    let listed = row.captures_iter(section).map(|row| row[1].to_string());
    let mut of_files: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    listed.for_each(|path| of_files.entry(path).or_default().0 += 1);
    for (path, text) in code() {
        let started = started(&text);
        if started > 0 {
            of_files.entry(path).or_default().1 = started;
        }
    }
    let wrong = of_files
        .iter()
        .filter(|(_, (rows, started))| rows != started);
    let wrong: Vec<String> = wrong
        .map(|(path, (rows, started))| {
            format!(
                "{path} starts {started} threads or tasks, and docs/architecture.md lists {rows}"
            )
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unbounded_channels_say_why_and_become_no_more() {
    let (mut count, mut silent) = (0, Vec::new());
    for (path, text) in code() {
        for (line, has_reason) in unbounded(&text) {
            count += 1;
            if !has_reason {
                silent.push(format!(
                    "{path}:{line}: no comment `// Unbounded: …` above it"
                ));
            }
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
    assert_eq!(count, UNBOUNDED, "store a lower number in `UNBOUNDED`");
}

/// Returns the sources without their tests.
pub(super) fn code() -> Vec<(String, String)> {
    let tests = Regex::new(r"#\[cfg\((all\()?test\b[^\]]*\]\s*mod \w+ \{").unwrap();
    let code = sources("src").into_iter().map(|(path, text)| {
        let end = tests.find(&text).map_or(text.len(), |tests| tests.start());
        (path, text[..end].to_string())
    });
    let is_code = |(path, text): &(String, String)| {
        let is_test = path.contains("/tests") || path.contains("/test_");
        !is_test && !text.contains("#[test]")
    };
    code.filter(is_code).collect()
}

/// Returns how many places of a source start a thread or a task.
fn started(text: &str) -> usize {
    let tokens = tokens(text);
    let word = |i: usize| tokens.get(i).map_or("", |(_, token)| token.as_str());
    let starts = |i: &usize| {
        let has_work = word(i + 1) == "(" && word(i + 2) != ")";
        let is_call = *i == 0 || word(i - 1) != "fn";
        let of_crate = |words: &&[&str]| words.iter().enumerate().all(|(n, w)| word(i + n) == *w);
        (SPAWNS.contains(&word(*i)) && has_work && is_call) || SPAWNS_OF_CRATES.iter().any(of_crate)
    };
    (0..tokens.len()).filter(starts).count()
}

/// Returns the lines that make an unbounded channel, and whether a comment above says why.
fn unbounded(text: &str) -> Vec<(usize, bool)> {
    let tokens = tokens(text);
    let word = |i: usize| tokens.get(i).map_or("", |(_, token)| token.as_str());
    let has_no_bound = |name: usize| {
        let mut open = name + 1;
        if word(open) == "::" {
            while !matches!(word(open), "(" | "") {
                // The unit type in `channel::<()>`.
                open += if word(open + 1) == "(" && word(open) == "<" {
                    3
                } else {
                    1
                };
            }
        }
        word(open) == "(" && word(open + 1) == ")"
    };
    let lines: Vec<&str> = text.lines().collect();
    let has_reason = |line: usize| {
        let above = lines[..line - 1].iter().rev().map(|line| line.trim());
        let mut comments = above.take_while(|line| line.starts_with("//"));
        comments.any(|line| line.starts_with("// Unbounded: "))
    };
    (0..tokens.len())
        .filter(|i| matches!(word(*i), "channel" | "unbounded_channel") && has_no_bound(*i))
        // It carries one value.
        .filter(|i| *i < 2 || word(i - 2) != "oneshot")
        .map(|i| (tokens[i].0, has_reason(tokens[i].0)))
        .collect()
}

#[test]
fn thread_starts_and_unbounded_channels_are_detected() {
    let table = [
        ("std::thread::spawn(move || work());", 1),
        ("thread::Builder::new().name(n)\n    .spawn(work)", 1),
        ("tokio::spawn(a); tasks.spawn(async {}); scope.spawn(b)", 3),
        ("spawn_blocking(work); builder.spawn_scoped(scope, work)", 2),
        ("notify::recommended_watcher(on_change)", 1),
        ("Command::new(x).spawn()?; fn spawn(x: X) {} // spawn(x)", 0),
    ];
    for (text, count) in table {
        assert_eq!(started(text), count, "{text}");
    }
    let reason = "// Unbounded: a reason\n// of two lines.\nlet a = mpsc::channel();";
    let table = [
        ("mpsc::channel()", vec![(1, false)]),
        (reason, vec![(3, true)]),
        ("unbounded_channel::<Vec<u8>>()", vec![(1, false)]),
        ("channel::<()>()", vec![(1, false)]),
        (
            "oneshot::channel(); mpsc::channel(8); sync_channel::<()>(0); channel::<()>(1); self.channel",
            vec![],
        ),
    ];
    for (text, found) in table {
        assert_eq!(unbounded(text), found, "{text}");
    }
}
