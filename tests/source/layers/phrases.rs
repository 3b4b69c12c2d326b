//! Phrases that the style of the project rules out, counted in texts, help and comments.
//!
//! A ratchet: [`STORED`] has the counts, and a count may only fall. A test fails when a count
//! rises, and also when it falls without being stored here.

use std::path::Path;
use std::process::Command;

use regex::Regex;

use super::{root, sources};

/// Phrases, each with the continuations that are ordinary English.
const BAD: [(&str, &str); 20] = [
    (r"\banew\b", ""),
    (r"\bmend(s|ed|ing)?\b", ""),
    (r"\bmade good\b", ""),
    (r"\bbegun\b", ""),
    (r"\bto be had\b", ""),
    (r"\bis had\b", ""),
    (
        r"\bbehind\b",
        r"behind (a|the|its|your|an) (proxy|flag|feature|gateway|firewall|lock|mutex|NAT|load)",
    ),
    (r"\bso many\b", ""),
    (r"\bso much for\b", ""),
    (r"\bin place of\b", ""),
    (r"\b(is|are) said\b", ""),
    (r"\bwhat becomes of\b", ""),
    (r"\bwhoever\b", ""),
    (
        r"\bis no [a-z]+\b",
        "is no (longer|more|less|other|such|need|way|limit)",
    ),
    (r"\bof its own\b", ""),
    (r"\b(goes|go) on\b", ""),
    (r"\bsub-agent", ""),
    (r"\bunasked\b", ""),
    (r"\blays? out\b", ""),
    (r"\bwhat is so\b", ""),
];

/// Openings of a doc line in place of a verb (functions) or a noun (types).
const OPENINGS: &str = r"^(What|Whoever|So many|Of the)\b";

/// Documents about the inside of the program, which are counted for themselves.
const DOCUMENTS_OF_THE_CODE: [&str; 2] = ["docs/architecture.md", "docs/storage.md"];

/// The counts of today.
const STORED: [(&str, usize); 5] = [
    ("texts", 12),
    ("documents of the code", 3),
    ("help", 1),
    ("comments", 0),
    ("doc lines", 0),
];

#[test]
fn phrases_become_fewer() {
    let bad = Phrases::new();
    let (of_code, texts): (Vec<_>, Vec<_>) = texts()
        .into_iter()
        .partition(|path| DOCUMENTS_OF_THE_CODE.contains(&path.as_str()));
    let in_files = |paths: &[String]| paths.iter().map(|path| bad.count(&read(path))).sum();
    let (comments, doc_lines) = in_comments(&bad);
    let counts = [
        in_files(&texts),
        in_files(&of_code),
        bad.count(&help()),
        comments,
        doc_lines,
    ];
    let mut wrong = Vec::new();
    for ((subject, stored), count) in STORED.into_iter().zip(counts) {
        if count > stored {
            wrong.push(format!(
                "{subject}: {count} phrases, {stored} before; see `BAD` for what to avoid"
            ));
        }
        if count < stored {
            wrong.push(format!(
                "{subject}: {count} phrases, {stored} before: store {count} in `STORED`"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

struct Phrases(Vec<(Regex, Option<Regex>)>);

impl Phrases {
    fn new() -> Phrases {
        let regex = |text: &str| Regex::new(&format!("(?i){text}")).unwrap();
        let phrase = |(bad, ordinary): (&str, &str)| {
            let ordinary = (!ordinary.is_empty()).then(|| regex(&format!("^(?:{ordinary})")));
            (regex(bad), ordinary)
        };
        Phrases(BAD.into_iter().map(phrase).collect())
    }

    /// Returns how often a text has one of the phrases.
    fn count(&self, text: &str) -> usize {
        let count = |(bad, ordinary): &(Regex, Option<Regex>)| {
            let is_bad = |start: usize| {
                let ordinary = ordinary.as_ref();
                !ordinary.is_some_and(|ordinary| ordinary.is_match(&text[start..]))
            };
            bad.find_iter(text).filter(|at| is_bad(at.start())).count()
        };
        self.0.iter().map(count).sum()
    }
}

/// Returns the paths of what users read, and of what the model reads.
fn texts() -> Vec<String> {
    let single = [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "config.example.toml",
        "assets/openapi.json",
    ];
    let mut paths: Vec<String> = single.map(str::to_string).into();
    for (folder, all) in [("docs", false), ("assets", false), ("assets/page", true)] {
        let is_text = |path: &Path| match all {
            true => path.extension().is_some_and(|e| e != "md"),
            false => path.extension().is_some_and(|e| e == "md"),
        };
        below(&root().join(folder), &is_text, &mut paths);
    }
    paths
}

fn below(folder: &Path, is_text: &dyn Fn(&Path) -> bool, paths: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            below(&path, is_text, paths);
        } else if is_text(&path) {
            let path = path.strip_prefix(root()).unwrap();
            paths.push(path.display().to_string());
        }
    }
}

fn read(path: &str) -> String {
    let bytes = std::fs::read(root().join(path)).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the help of the program and of each subcommand that it lists.
fn help() -> String {
    let of = |arguments: &[&str]| {
        let run = Command::new(env!("CARGO_BIN_EXE_rewake"))
            .args(arguments)
            .arg("--help")
            .output()
            .unwrap();
        assert!(run.status.success(), "{arguments:?} --help fails");
        String::from_utf8(run.stdout).unwrap()
    };
    let main = of(&[]);
    let row = Regex::new(r"(?m)^  ([a-z][a-z-]+)\s{2,}").unwrap();
    let names = row.captures_iter(&main).map(|row| row[1].to_string());
    // Examples look like rows of the list, but are no subcommands.
    let mut names: Vec<String> = names.filter(|name| name != "rewake").collect();
    names.sort();
    names.dedup();
    assert!(names.len() > 30, "only {names:?} have a help");
    let mut text = main.clone();
    for name in names {
        text.push_str(&of(&[&name]));
    }
    text
}

/// Returns the phrases in comments, and the doc lines with one of the openings.
fn in_comments(bad: &Phrases) -> (usize, usize) {
    let comment = Regex::new(r"(?m)^\s*(//[/!]?)\s?(.*)$").unwrap();
    let opening = Regex::new(OPENINGS).unwrap();
    let (mut phrases, mut doc_lines) = (0, 0);
    for (_, text) in sources("src") {
        for line in text.lines() {
            let Some(found) = comment.captures(line) else {
                continue;
            };
            phrases += bad.count(&found[2]);
            if &found[1] != "//" && opening.is_match(&found[2]) {
                doc_lines += 1;
            }
        }
    }
    (phrases, doc_lines)
}

#[test]
fn ordinary_english_is_not_counted() {
    let bad = Phrases::new();
    let table = [
        ("a server behind a proxy", 0),
        ("the words behind it are Anew", 2),
        ("it is no longer there", 0),
        ("it is no session", 1),
        ("It goes on; sub-agents are said to go on", 4),
    ];
    for (text, count) in table {
        assert_eq!(bad.count(text), count, "{text}");
    }
}
