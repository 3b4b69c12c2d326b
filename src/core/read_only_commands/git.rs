//! Read-only commands of git.

use super::{Contents, Reads, refuse};
use crate::core::shell::Word;

/// Options of git that write, run a program, or leave the repository.
const GIT_REFUSED: &[&str] = &[
    "--output",
    "--ext-diff",
    "--textconv",
    "--no-index",
    "--show-signature",
    "--contents",
    "--exec",
    "--paginate",
    // Runs the merge drivers that a repository names.
    "--remerge-diff",
    "--diff-merges",
    "--stdin",
];

/// Returns what a listed command of git reads. The caller must check that nothing in the repository
/// makes git run a program: [`Reads::repository`].
pub(super) fn reads(rest: &[Word]) -> Result<Reads, String> {
    let rest = match rest {
        [pager, rest @ ..] if pager.text == "--no-pager" => rest,
        rest => rest,
    };
    let not_listed = || "this `git` command may do more than look".to_string();
    let Some((name, rest)) = rest.split_first() else {
        return Err(not_listed());
    };
    for word in rest {
        refuse("git", &word.text, "", GIT_REFUSED)?;
        let is_option = word.text.starts_with('-');
        if word.text.contains("%G") || (is_option && word.text.contains("signature")) {
            // To verify signatures.
            return Err(format!("`git {}` runs a program", word.text));
        }
        // git would run in the submodule of an older commit, with its settings.
        let shows = word
            .text
            .split_once('=')
            .filter(|(option, _)| option.starts_with("--su") && "--submodule".starts_with(option));
        if shows.is_some_and(|(_, how)| !matches!(how, "short" | "log")) {
            return Err(format!("`git {}` may run a program", word.text));
        }
    }
    let only_lists = match name.text.as_str() {
        "--version" => return Ok(Reads::default()),
        "status" | "log" | "diff" | "show" | "rev-parse" | "ls-files" | "blame" | "describe" => {
            true
        }
        "branch" => is_listing(
            rest,
            &[
                "-a",
                "-r",
                "-v",
                "-vv",
                "-l",
                "--list",
                "--all",
                "--remotes",
                "--verbose",
                "--show-current",
            ],
            false,
        ),
        "tag" => {
            let listing = rest.iter().any(|w| w.text == "-l" || w.text == "--list");
            is_listing(rest, &["-l", "--list", "-n"], listing)
        }
        "remote" => match rest {
            [verb, options @ ..] if verb.text == "get-url" => {
                is_listing(options, &["--push", "--all"], true)
            }
            _ => is_listing(rest, &["-v", "--verbose"], false),
        },
        "stash" => rest.first().is_some_and(|w| w.text == "list"),
        _ => false,
    };
    if !only_lists {
        return Err(not_listed());
    }
    let words: Vec<&Word> = rest.iter().collect();
    let is_verbose = |w: &&Word| match w.text.strip_prefix("--") {
        Some(name) => name.starts_with('v'),
        None => w.text.starts_with('-') && w.text.contains('v'),
    };
    let mut reads = Reads {
        recursive: match name.text.as_str() {
            "log" | "diff" | "show" | "stash" => true,
            // With `-v` it also shows the changes.
            "status" => words.iter().any(is_verbose),
            _ => false,
        },
        repository: true,
        ..Reads::default()
    };
    reads.add(&words, Contents, false)?;
    Ok(reads)
}

fn is_listing(rest: &[Word], options: &[&str], operands: bool) -> bool {
    rest.iter().all(|w| {
        if w.text.starts_with('-') {
            options.contains(&w.text.as_str()) || w.text.starts_with("--sort=")
        } else {
            operands
        }
    })
}
