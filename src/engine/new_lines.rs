//! The lines in the output of a check that are new for the model.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

/// Returns the new lines of an output. `before` is the output of the previous run: lines that
/// differ from it only in line numbers, times and numbers of problems are not new. `None`: it is
/// the first run, and only lines that name one of `files` are new.
pub(super) fn new_lines(output: &str, before: Option<&str>, files: &[String]) -> Vec<String> {
    let known: Option<BTreeSet<String>> =
        before.map(|before| before.lines().map(without_numbers).collect());
    let mut seen = BTreeSet::new();
    let is_new = |line: &&str| match &known {
        Some(known) => !known.contains(&without_numbers(line)),
        None => files.iter().any(|file| names(line, file)),
    };
    let lines = output.lines().map(str::trim_end);
    let lines = lines.filter(|line| !line.trim().is_empty()).filter(is_new);
    let lines = lines.filter(|line| seen.insert(line.to_string()));
    lines.map(str::to_string).collect()
}

/// Returns the line without line numbers, columns, times and numbers of problems.
fn without_numbers(line: &str) -> String {
    const NUMBERS: &str = concat!(
        r"(?i)\b\d+(?:\.\d+)?\s?m?s(?:ec|econds?)?\b",
        r"|\b\d+ (?:previous )?(?:error|warning|information|problem)s?\b",
        r"|[:(,]\d+|\b(?:line|col|column) \d+|^\s*\d+",
    );
    // A pattern that is not valid would fail each test of this file.
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(NUMBERS).ok());
    match &*PATTERN {
        Some(pattern) => pattern.replace_all(line.trim_end(), "").into_owned(),
        None => line.trim_end().to_string(),
    }
}

/// Returns whether a line names a file, given by its path below the root. A tool may name it by an
/// absolute path, or from a folder below the root.
fn names(line: &str, file: &str) -> bool {
    let is_separator = |c: char| {
        c.is_whitespace()
            || matches!(
                c,
                '"' | '\'' | '`' | '(' | ')' | '[' | ']' | ':' | ',' | ';' | '=' | '<' | '>' | '|'
            )
    };
    if file.contains(is_separator) {
        return line.contains(file);
    }
    let is_below = |longer: &str, shorter: &str| {
        longer
            .strip_suffix(shorter)
            .is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
    };
    line.split(is_separator)
        .map(|word| word.strip_prefix("./").unwrap_or(word))
        .filter(|word| !word.is_empty())
        .any(|word| is_below(word, file) || is_below(file, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_first_run_reports_lines_that_name_a_changed_file() {
        let output = "src/a.rs:3:5: error: x\n\
            src/data.rs:1:1: error: y\n\
            \n\
            /w/src/a.rs: warning\n\
            --> ./src/a.rs:9:1\n\
            a.rs(3,5): error TS1\n\
            File \"my file.py\", line 3\n\
            error: aborting";
        let new = new_lines(output, None, &files(&["src/a.rs", "my file.py"]));
        let is = |line: &str| new.iter().any(|new| new.contains(line));
        assert_eq!(new.len(), 5, "{new:?}");
        assert!(!is("data.rs") && !is("aborting"));
        assert_eq!(new_lines(output, None, &[]), [""; 0]);
    }

    #[test]
    fn later_runs_report_lines_that_the_run_before_did_not_print() {
        let before = "src/a.rs:3:5: error[E0308]: expected 2\n\
            a.ts(3,5): error TS2304: x\n\
            12 | let x\n\
            3 errors found\n\
            File \"a.py\", line 3, in f\n\
            error: could not compile due to 2 previous errors\n\
            Finished in 0.31s";
        let moved = "src/a.rs:30:50: error[E0308]: expected 2\n\
            a.ts(30,5): error TS2304: x\n\
            120 | let x\n\
            2 errors found\n\
            File \"a.py\", line 30, in f\n\
            error: could not compile due to 1 previous error\n\
            Finished in 12.5 seconds";
        assert_eq!(
            new_lines(moved, Some(before), &[])[..],
            ["Finished in 12.5 seconds"][..0]
        );
        for other in [
            "src/a.rs:3:5: error[E0309]: expected 2",
            "src/a.rs:3:5: error[E0308]: expected 3",
            "a.ts(3,5): error TS2322: x",
            "src/b.rs:3:5: error[E0308]: expected 2",
        ] {
            let now = format!("{before}\n{other}\n{other}");
            assert_eq!(new_lines(&now, Some(before), &[]), [other]);
        }
        assert_eq!(new_lines("a\nb", Some(""), &[]), ["a", "b"]);
    }
}
