//! What documentation, CI and mutants say of the tests is compared with Cargo.toml and the sources:
//! a filter without a test, or a target that nobody runs, proves nothing.

use super::{modules, root, sources};
use regex::Regex;

/// The commands that the scripts and the documentation give.
const FILES: [&str; 11] = [
    ".ci/long",
    ".ci/power",
    ".ci/run",
    ".ci/tests",
    ".github/workflows/ci.yml",
    "CONTRIBUTING.md",
    "README.md",
    "assets/pictures/make",
    "docs/benchmarks.md",
    "docs/models.md",
    "docs/testing.md",
];

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The targets that `cargo test` leaves out.
fn left_out() -> Vec<String> {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let tests = manifest["test"].as_array().unwrap().iter();
    let left_out =
        tests.filter(|test| test.get("test").and_then(toml::Value::as_bool) == Some(false));
    left_out
        .map(|test| test["name"].as_str().unwrap().to_string())
        .collect()
}

/// All targets of tests: each is a folder with a `main.rs`.
fn targets() -> Vec<String> {
    let folders = std::fs::read_dir(root().join("tests")).unwrap();
    let paths = folders.map(|folder| folder.unwrap().path());
    let mut names: Vec<String> = paths
        .filter(|path| path.join("main.rs").is_file())
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The names of the tests of a target; `lib` is the library. Modules within a file are left out.
fn tests_of(target: &str) -> Vec<String> {
    let folder = match target {
        "lib" => "src".to_string(),
        target => format!("tests/{target}"),
    };
    let test = Regex::new(r"#\[test\][^{]*?\bfn ([a-z0-9_]+)\(").unwrap();
    let mut names = Vec::new();
    for (path, text) in sources(&folder) {
        let mut module = modules(&path);
        if target != "lib" {
            module.drain(..2);
            module.retain(|name| name != "main");
        }
        for found in test.captures_iter(&text) {
            let name = [&module[..], &[found[1].to_string()]].concat();
            names.push(name.join("::"));
        }
    }
    names
}

/// A `cargo test` of one file: its targets and its filters.
struct TestCommand {
    place: String,
    targets: Vec<String>,
    filters: Vec<String>,
}

fn commands() -> Vec<TestCommand> {
    let mut found = Vec::new();
    for file in FILES {
        for (number, line) in read(file).lines().enumerate() {
            for words in line.split("cargo test").skip(1) {
                // To the end of the code, or to a comment.
                let words = words
                    .split(['`', '#', '|', '"', ')'])
                    .next()
                    .unwrap_or_default();
                let mut command = TestCommand {
                    place: format!("{file}:{}", number + 1),
                    targets: Vec::new(),
                    filters: Vec::new(),
                };
                let mut words = words.split_whitespace();
                while let Some(word) = words.next() {
                    let is_filter = |c: char| c.is_ascii_lowercase() || "_:0123456789".contains(c);
                    match word {
                        "--lib" => command.targets.push("lib".into()),
                        "--test" => command.targets.extend(words.next().map(String::from)),
                        word if word.chars().all(is_filter) => command.filters.push(word.into()),
                        _ => {}
                    }
                }
                found.push(command);
            }
        }
    }
    found
}

#[test]
fn every_command_names_a_target_and_tests_that_exist() {
    let known = targets();
    let mut wrong = Vec::new();
    let commands = commands();
    for command in commands.iter().filter(|c| !c.targets.is_empty()) {
        let place = &command.place;
        let is_known = |target: &&String| *target == "lib" || known.contains(target);
        if let Some(target) = command.targets.iter().find(|target| !is_known(target)) {
            wrong.push(format!("{place}: there is no target {target}"));
            continue;
        }
        let tests: Vec<String> = command.targets.iter().flat_map(|t| tests_of(t)).collect();
        for filter in &command.filters {
            if !tests.iter().any(|test| test.contains(filter)) {
                wrong.push(format!(
                    "{place}: no test of {:?} matches {filter}",
                    command.targets
                ));
            }
        }
    }
    let with_filter = commands.iter().filter(|c| !c.filters.is_empty()).count();
    assert!(
        with_filter > 10,
        "only {with_filter} commands have a filter"
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `cargo test` and `--all-targets` leave these out, so that each check of CI has to name them.
#[test]
fn ci_names_every_target_that_cargo_test_leaves_out() {
    let left_out = left_out();
    assert!(!left_out.is_empty());
    let names = left_out.iter().map(|name| format!(" --test {name}"));
    let names = names.collect::<String>();
    for (file, commands) in [
        (".ci/run", &["cargo clippy", "cargo check"][..]),
        (".ci/long", &["cargo clippy"]),
        (
            ".github/workflows/ci.yml",
            &["cargo test --locked", "check --locked"],
        ),
    ] {
        let text = read(file);
        for command in commands {
            assert!(
                text.contains(&format!("{command}{names}")),
                "{file}: {command}{names}"
            );
        }
        if file.starts_with(".ci/") {
            assert!(
                text.lines().any(|line| line.ends_with(".ci/tests")),
                "{file}"
            );
        }
    }
    assert!(read(".ci/tests").contains(&format!("left_out=({})", names.trim())));
}

#[test]
fn the_manual_names_every_target_with_its_tier() {
    let page = read("docs/testing.md");
    let row = Regex::new(r"(?m)^\| `([a-z0-9]+)` \| (`cargo test`|`--test [a-z0-9]+`) \|").unwrap();
    let mut rows: Vec<(String, String)> = row
        .captures_iter(&page)
        .map(|row| (row[1].to_string(), row[2].to_string()))
        .collect();
    rows.sort();
    let left_out = left_out();
    let tier = |name: String| match left_out.contains(&name) {
        true => (name.clone(), format!("`--test {name}`")),
        false => (name, "`cargo test`".to_string()),
    };
    let mut targets: Vec<(String, String)> = targets().into_iter().map(tier).collect();
    targets.push(("lib".into(), "`cargo test`".into()));
    targets.sort();
    assert_eq!(rows, targets);
}
