//! The options of a command as a set: `rm -rf`, `rm -fr`, `rm -r -f` and `rm --recursive --force`
//! are the same for a rule that refuses.
//!
//! This is only for programs whose options are known to be letters that can be combined.

use std::collections::BTreeSet;

use super::Word;
use crate::core::path;

/// A program, the long names of its letters, and the options whose value is the next word.
struct Program {
    name: &'static str,
    letters: &'static [(&'static str, char)],
    valued: &'static [&'static str],
}

const FILES: &[(&str, char)] = &[
    ("recursive", 'r'),
    ("force", 'f'),
    ("dir", 'd'),
    ("symbolic", 's'),
];

#[rustfmt::skip]
const PROGRAMS: [Program; 7] = [
    Program { name: "rm", letters: FILES, valued: &[] },
    Program { name: "cp", letters: FILES, valued: &["-t", "-S"] },
    Program { name: "mv", letters: FILES, valued: &["-t", "-S"] },
    Program { name: "ln", letters: FILES, valued: &["-t", "-S"] },
    Program { name: "chmod", letters: FILES, valued: &[] },
    Program { name: "chown", letters: FILES, valued: &[] },
    Program { name: "git", letters: &[("force", 'f'), ("delete", 'd')], valued: &["-C", "-c"] },
];

/// The words, divided into options and operands.
struct Parted {
    options: BTreeSet<String>,
    operands: Vec<String>,
}

/// Returns whether the command has all options of the rule, in any spelling, and its operands begin
/// like those of the rule. `prefix`: more of both may follow.
pub(super) fn refuse(rule: &[String], prefix: bool, words: &[Word]) -> bool {
    let (Some(name), Some(of_rule)) = (words.first(), rule.first()) else {
        return false;
    };
    let (name, of_rule) = (program_name(&name.text), program_name(of_rule));
    let Some(program) = PROGRAMS.iter().find(|p| p.name == of_rule) else {
        return false;
    };
    if name != of_rule {
        return false;
    }
    let wanted = program.part(rule[1..].iter().map(String::as_str));
    let found = program.part(words[1..].iter().map(|w| w.text.as_str()));
    let begins = found.operands.len() >= wanted.operands.len()
        && wanted
            .operands
            .iter()
            .zip(&found.operands)
            .all(|(piece, word)| path::text_matches(piece, word));
    let is_whole = found.operands.len() == wanted.operands.len() && found.options == wanted.options;
    !wanted.options.is_empty()
        && begins
        && wanted.options.is_subset(&found.options)
        && (prefix || is_whole)
}

fn program_name(word: &str) -> String {
    path::fold(word.rsplit('/').next().unwrap_or_default())
}

impl Program {
    fn part<'a>(&self, words: impl Iterator<Item = &'a str>) -> Parted {
        let mut parted = Parted {
            options: BTreeSet::new(),
            operands: Vec::new(),
        };
        let mut words = words.peekable();
        let mut options_end = false;
        while let Some(word) = words.next() {
            match word {
                "--" if !options_end => options_end = true,
                _ if options_end || !word.starts_with('-') || word == "-" => {
                    parted.operands.push(word.to_string());
                }
                _ if self.valued.contains(&word) => {
                    words.next();
                }
                _ => parted.options.extend(self.options(word)),
            }
        }
        parted
    }

    /// Returns one option for each letter, and a long option as its letter if it has one,
    /// abbreviated or not.
    fn options(&self, word: &str) -> Vec<String> {
        let Some(long) = word.strip_prefix("--") else {
            let letters = word.chars().skip(1);
            return letters.map(|c| self.letter(c)).collect();
        };
        let long = long.split('=').next().unwrap_or_default();
        let short: Vec<String> = self
            .letters
            .iter()
            .filter(|(name, _)| !long.is_empty() && name.starts_with(long))
            .map(|(_, letter)| letter.to_string())
            .collect();
        if short.is_empty() {
            vec![format!("--{long}")]
        } else {
            short
        }
    }

    /// Returns the normal form of a letter: `git branch -D` is `--delete --force`; for files `-R`
    /// and `-r` are the same.
    fn letter(&self, c: char) -> String {
        match (self.name, c) {
            ("git", c) => c.to_string(),
            (_, 'R') => "r".to_string(),
            (_, c) => c.to_string(),
        }
    }
}
