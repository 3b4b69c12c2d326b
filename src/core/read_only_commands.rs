//! The built-in list of read-only commands, whatever their options.
//!
//! [`reads`] returns what such a command reads; the caller decides whether it may read there. A
//! command is on the list only if the spelling of its options shows whether it writes, runs a
//! program or reads a list of further files. So these are not on it: `sed` and `awk` (scripts that
//! write and run), `tee`, `xargs`, `env` and other wrappers, `hostname` (sets it), `tree` (`-R`
//! writes), `cargo`, `rustc` and `go` even for `--version` (a file in the folder names the
//! toolchain that runs).
//!
//! [`runs_others`] is the opposite list: commands that may run another command.
//!
//! # Globs
//!
//! A word with an unquoted `*`, `?` or `[` is judged before the shell expands it, and the folder
//! may change in between. The judgement therefore uses only what no file can change: an expansion
//! keeps the literal characters at its beginning. If the first one is a letter, a digit, `_`, `.`
//! or `/` ([`Word::stays_operand`]), the word can only become operands, whatever files there are or
//! will be. Any other glob may become an option, as `*` does beside a file named `-exec`. It is
//! accepted only for commands without a harmful option, such as `ls`. If the number or the order of
//! operands matters (`uniq`, `test`), no glob is accepted. The remaining question is which files
//! are read: the matches of [`Reads::patterns`], each judged as if it had been written out. A file
//! that is created later is as safe as one with a literal name, because no command that runs
//! without approval creates a link.
//!
//! # Options and operands
//!
//! Every word is checked both as the options and as the path that it could be. This also applies to
//! a word that begins with `-`: after a `--` it is an operand. It need not be known where the `--`
//! stands, or which option takes it for a value.
//!
//! Invariant: the list is closed. A command that is not understood is not harmless.

mod builtin;
mod git;
#[cfg(test)]
mod tests;

use super::access::Access;
use super::path;
use super::rule::Likeness;
use super::shell::{self, Assignment, SimpleCommand, Word};

pub(crate) use builtin::assigns;

/// The files that a harmless command reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    /// Everything that may be a path, as written. Relative paths start where the command runs.
    pub paths: Vec<String>,
    /// Patterns of the shell; the command reads each file that they match.
    pub patterns: Vec<String>,
    /// It must not be given a folder: it would read the files in it and follow links.
    pub files_only: bool,
    /// It searches whole folders and shows the content of files.
    pub recursive: bool,
    /// It obeys the configuration of the repository in which it runs.
    pub repository: bool,
}

/// The use of a command's operands.
#[derive(Clone, Copy, PartialEq)]
enum Operands {
    /// Not paths.
    Text,
    /// Paths; names and figures are shown.
    Names,
    /// Paths; contents are shown.
    Contents,
}

use Operands::{Contents, Names, Text};

/// A read-only command with its harmful options. A long option is refused in every abbreviation, a
/// letter anywhere in a cluster.
struct ReadOnlyCommand {
    name: &'static str,
    operands: Operands,
    letters: &'static str,
    options: &'static [&'static str],
}

const fn looker(name: &'static str, operands: Operands) -> ReadOnlyCommand {
    but(name, operands, "", &[])
}

const fn but(
    name: &'static str,
    operands: Operands,
    letters: &'static str,
    options: &'static [&'static str],
) -> ReadOnlyCommand {
    ReadOnlyCommand {
        name,
        operands,
        letters,
        options,
    }
}

/// Maximum length of a cluster of one-letter options. A longer one is refused, because a path may
/// be attached anywhere in it.
const MAX_CLUSTER_BYTES: usize = 128;

const CHECK: &[&str] = &["--check"];

/// Commands that count their operands, or read them as an expression.
const WITHOUT_GLOBS: [&str; 5] = ["date", "printf", "test", "[", "uniq"];

#[rustfmt::skip]
const LOOKERS: &[ReadOnlyCommand] = &[
    looker("true", Text), looker("false", Text), looker("pwd", Text), looker("whoami", Text),
    looker("id", Text), looker("uname", Text), looker("which", Text), looker("echo", Text),
    looker("basename", Text), looker("dirname", Text), looker("tr", Text),
    // `-v` assigns, and evaluates a subscript: `test -v 'a[$(rm x)]'`.
    but("printf", Text, "v", &[]), but("test", Names, "vR", &[]), but("[", Names, "vR", &[]),
    // `-s` sets the clock, on BSD `-f` too.
    but("date", Contents, "sf", &["--set", "--file"]),
    looker("ls", Names), looker("stat", Names), looker("df", Names), looker("realpath", Names),
    looker("readlink", Names),
    // `-L` follows links.
    but("du", Names, "L", &["--files0-from", "--dereference"]), but("wc", Names, "", &["--files0-from"]),
    // `-c` reads a list of files.
    but("md5sum", Names, "c", CHECK), but("sha1sum", Names, "c", CHECK), but("sha224sum", Names, "c", CHECK),
    but("sha256sum", Names, "c", CHECK), but("sha384sum", Names, "c", CHECK), but("sha512sum", Names, "c", CHECK),
    but("b2sum", Names, "c", CHECK), but("cksum", Names, "c", CHECK), but("shasum", Names, "c", CHECK),
    // Options that compile a magic file, read lists, or unpack.
    but("file", Names, "CfmMzZS", &["--compile", "--files-from", "--magic-file", "--uncompress", "--no-sandbox"]),
    looker("cat", Contents), looker("head", Contents),
    // Options that never end.
    but("tail", Contents, "fF", &["--follow", "--retry"]),
    looker("cut", Contents), looker("nl", Contents), looker("cmp", Contents),
    looker("uniq", Contents),
    // A recursive diff follows links.
    but("diff", Contents, "rl", &["--recursive", "--paginate"]),
    but("sort", Contents, "oT", &["--output", "--temporary-directory", "--compress-program", "--files0-from"]),
    // `-R` follows links.
    but("grep", Contents, "R", &["--dereference-recursive"]),
    but("egrep", Contents, "R", &["--dereference-recursive"]),
    but("fgrep", Contents, "R", &["--dereference-recursive"]),
    // Options that follow links or run a program for each file.
    but("rg", Contents, "Lz", &["--follow", "--pre", "--pre-glob", "--hostname-bin", "--search-zip"]),
];

/// Parts of `find` that run, delete or write.
const FIND_ACTS: [&str; 6] = ["-exec", "-ok", "-delete", "-fprint", "-fls", "-files0-from"];

/// Programs whose `--version` runs nothing from the folder.
#[rustfmt::skip]
const VERSIONED: [&str; 11] =
    ["bash", "git", "gcc", "clang", "make", "cmake", "node", "python", "python3", "perl", "rg"];

/// Commands that run the command in their arguments.
#[rustfmt::skip]
const RUNNERS: &[&str] = &[
    ".", "awk", "bash", "builtin", "bun", "bunx", "busybox", "chroot", "command", "dash", "deno", "doas", "entr",
    "env", "eval", "exec", "fish", "flock", "gawk", "ionice", "ksh", "lua", "mawk", "nice", "node", "nohup", "npx",
    "nsenter", "osascript", "parallel", "perl", "php", "pipx", "pkexec", "pwsh", "python", "python2", "python3",
    "ruby", "runuser", "script", "setsid", "sh", "source", "ssh", "stdbuf", "strace", "su", "sudo", "systemd-run",
    "tclsh", "time", "timeout", "tmux", "trap", "tsx", "unshare", "uvx", "watch", "xargs", "zsh",
];

/// Commands that run code from files of the workspace. A model writes such files, so with more
/// access than `workspace` each use needs a separate decision.
#[rustfmt::skip]
const RUN_THE_WORKSPACE: &[(&str, &[&str])] = &[
    ("ant", &[]), ("bazel", &[]), ("bundle", &["exec"]), ("cargo", &["b", "bench", "build", "c", "check", "clippy", "d", "doc", "package", "publish", "r", "run", "rustc", "rustdoc", "t", "test"]),
    ("cmake", &[]), ("composer", &["run-script", "test"]), ("ctest", &[]), ("docker", &["compose"]), ("dotnet", &["build", "msbuild", "publish", "run", "test"]),
    ("flutter", &["build", "run", "test"]), ("go", &["build", "generate", "run", "test"]), ("gradle", &[]), ("gradlew", &[]), ("jest", &[]),
    ("just", &[]), ("make", &[]), ("meson", &[]), ("mise", &[]), ("mix", &[]), ("mocha", &[]), ("mvn", &[]), ("ninja", &[]), ("nox", &[]),
    ("npm", &["restart", "run", "run-script", "start", "stop", "t", "test"]), ("nx", &[]), ("pnpm", &["run", "start", "test"]), ("podman", &["compose"]),
    ("poetry", &["run"]), ("pytest", &[]), ("rake", &[]), ("rspec", &[]), ("swift", &["build", "run", "test"]), ("task", &[]), ("tox", &[]),
    ("turbo", &[]), ("uv", &["run"]), ("vitest", &[]), ("yarn", &["run", "start", "test"]), ("zig", &["build", "run", "test"]),
];

/// Returns whether a command may run code from a file of the workspace.
pub(crate) fn runs_the_workspace(words: &[Word]) -> bool {
    let [program, rest @ ..] = words else {
        return false;
    };
    let verb = rest.first().map(|word| word.text.as_str());
    let is_known = |(known, verbs): &(&str, &[&str])| {
        *known == program.text && (verbs.is_empty() || verb.is_none_or(|v| verbs.contains(&v)))
    };
    // A path may name a file of the workspace.
    program.text.contains('/') || RUN_THE_WORKSPACE.iter().any(is_known)
}

/// Returns whether a command runs another one that its arguments name, as `sudo` or `sh -c` do.
pub(crate) fn runs_others(words: &[Word]) -> Likeness {
    let Some((name, rest)) = words.split_first() else {
        return Likeness::No;
    };
    let name = path::fold(name.text.rsplit('/').next().unwrap_or_default());
    let has = |starts: &[&str]| {
        let each = rest.iter().map(|w| begins(w, starts));
        each.max().unwrap_or(Likeness::No)
    };
    match name.as_str() {
        "find" => has(&["-exec", "-ok"]),
        "docker" | "podman" | "kubectl" => has(&["run", "exec"]),
        "npm" | "pnpm" | "yarn" | "uv" | "poetry" | "mise" => has(&["exec", "run", "dlx", "x"]),
        "git" => has(&[
            "-c",
            "--config-env",
            "--exec",
            "bisect",
            "rebase",
            "submodule",
            "filter-branch",
        ]),
        name => {
            let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
            if RUNNERS.contains(&bare) || RUNNERS.contains(&name) {
                Likeness::Yes
            } else {
                Likeness::No
            }
        }
    }
}

/// Returns whether a word begins with one of these after the shell's expansion.
fn begins(word: &Word, starts: &[&str]) -> Likeness {
    let certain = word.certain_beginning();
    let could = |s: &&str| s.starts_with(certain) || certain.starts_with(*s);
    if word.is_literal() && starts.iter().any(|s| word.text.starts_with(s)) {
        return Likeness::Yes;
    }
    if word.expands || (word.glob && starts.iter().any(could)) {
        Likeness::Maybe
    } else {
        Likeness::No
    }
}

/// Returns whether a line only reads, judged by its words and the requested access. It is for
/// display only and permits nothing.
pub fn only_looks(line: &str, access: Option<Access>) -> bool {
    let Ok(commands) = shell::split(line) else {
        return false;
    };
    // A command that runs another program can do whatever that program does.
    let is_bound = |command: &SimpleCommand| {
        access == Some(Access::Read)
            && runs_others(&command.words) == Likeness::No
            && !runs_the_workspace(&command.words)
    };
    let looks = |command: &SimpleCommand| {
        let writes = command
            .redirects
            .iter()
            .any(|r| r.writes && r.target.text != "/dev/null");
        let moves = command.words.first().is_some_and(|word| word.text == "cd");
        !writes && (moves || reads(command).is_ok() || is_bound(command))
    };
    commands.iter().all(looks) && commands.iter().any(shows_files)
}

/// Returns whether the command shows something about files, unlike `echo`.
fn shows_files(command: &SimpleCommand) -> bool {
    let Some(name) = command.words.first().map(|word| word.text.as_str()) else {
        return false;
    };
    match LOOKERS.iter().find(|looker| looker.name == name) {
        Some(looker) => looker.operands != Text && !["date", "test", "["].contains(&name),
        // All others are listed for what they show, except `cd`.
        None => name != "cd",
    }
}

/// Returns what a listed command reads, or why it is not harmless, in words for a person.
pub(crate) fn reads(command: &SimpleCommand) -> Result<Reads, String> {
    if let Some(a) = command.assignments.iter().find(|a| !is_setting(a)) {
        return Err(format!("it sets `{}`", a.name));
    }
    let Some((name, rest)) = command.words.split_first() else {
        return Ok(Reads::default());
    };
    if name.quoted || !name.is_literal() {
        return Err("it names its command in quotes".to_string());
    }
    // bash expands a `~` in the middle of what looks like an assignment.
    let is_unknown = |w: &&Word| w.expands || (w.tilde && !w.text.starts_with('~'));
    if let Some(unknown) = rest.iter().find(is_unknown) {
        return Err(format!("what `{}` becomes is not known", unknown.text));
    }
    let name = name.text.as_str();
    match name {
        "git" => git::reads(rest),
        "find" => find(rest),
        _ if VERSIONED.contains(&name) && is_version(rest) => Ok(Reads::default()),
        _ => match LOOKERS.iter().find(|l| l.name == name) {
            Some(looker) => looker.reads(rest),
            None => Err(format!("`{name}` may do more than look")),
        },
    }
}

/// Returns whether a variable only changes how output looks.
pub(crate) fn is_setting(assignment: &Assignment) -> bool {
    let name = assignment.name.as_str();
    let known = matches!(
        name,
        "LANG" | "NO_COLOR" | "CLICOLOR" | "FORCE_COLOR" | "RUST_BACKTRACE" | "COLUMNS" | "CI"
    ) || name.starts_with("LC_");
    let value = &assignment.value;
    known && value.is_literal() && !value.text.contains('/')
}

fn is_version(rest: &[Word]) -> bool {
    matches!(rest, [only] if only.text == "--version")
}

impl ReadOnlyCommand {
    fn reads(&self, rest: &[Word]) -> Result<Reads, String> {
        for word in rest {
            refuse(self.name, &word.text, self.letters, self.options)?;
        }
        if WITHOUT_GLOBS.contains(&self.name)
            && let Some(word) = rest.iter().find(|w| w.glob)
        {
            let why = "how many words it becomes";
            return Err(format!("`{} {}`: {why} is not known", self.name, word.text));
        }
        let mut reads = Reads {
            files_only: self.name == "diff",
            ..Reads::default()
        };
        let mut words: Vec<&Word> = rest.iter().collect();
        match self.name {
            "uniq" if operands_of_uniq(rest) > 1 => {
                return Err("`uniq` writes to its second operand".to_string());
            }
            "date" if words.iter().any(|w| is_clock(&w.text)) => {
                return Err("`date` sets the clock".to_string());
            }
            // `tail +5f`: an old form of `-f`.
            "tail" if rest.iter().any(|w| is_old_follow(&w.text)) => {
                return Err("`tail` does not end".to_string());
            }
            "printf" => builtin::printf(rest)?,
            "test" | "[" => builtin::test(rest)?,
            "rg" | "grep" | "egrep" | "fgrep" => {
                reads.recursive = self.name == "rg" || words.iter().any(|w| is_recursive(&w.text));
                words = without_pattern(words);
            }
            _ => {}
        }
        let any_option = self.letters.is_empty() && self.options.is_empty();
        reads.add(&words, self.operands, any_option)?;
        Ok(reads)
    }
}

fn is_old_follow(word: &str) -> bool {
    word.starts_with('+') && word.contains('f')
}

/// Counts the words that `uniq` may take for its input and its output.
fn operands_of_uniq(rest: &[Word]) -> usize {
    const FLAGS: [&str; 7] = [
        "--count",
        "--repeated",
        "--unique",
        "--ignore-case",
        "--zero-terminated",
        "--all-repeated",
        "--group",
    ];
    const VALUED: [&str; 5] = [
        "--all-repeated=",
        "--group=",
        "--skip-fields=",
        "--skip-chars=",
        "--check-chars=",
    ];
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let is_flag = |text: &str| {
        let letters = text.strip_prefix('-').filter(|rest| !rest.is_empty());
        let attached = ["-f", "-s", "-w"].iter().find_map(|o| text.strip_prefix(o));
        letters.is_some_and(|l| l.chars().all(|c| "cduiDz".contains(c)))
            || attached.is_some_and(is_number)
            || FLAGS.contains(&text)
            || VALUED.iter().any(|o| text.starts_with(o))
    };
    let mut operands = 0;
    let mut options_end = false;
    let mut words = rest.iter().map(|w| w.text.as_str()).peekable();
    while let Some(word) = words.next() {
        match word {
            _ if options_end => operands += 1,
            "--" => options_end = true,
            "-f" | "-s" | "-w" => {
                words.next_if(|next| is_number(next));
            }
            word if is_flag(word) => {}
            _ => operands += 1,
        }
    }
    operands
}

/// `[MMDDhhmm[[CC]YY][.ss]]`
fn is_clock(operand: &str) -> bool {
    operand.starts_with(|c: char| c.is_ascii_digit())
        && operand.chars().all(|c| c.is_ascii_digit() || c == '.')
}

fn is_recursive(option: &str) -> bool {
    match option.strip_prefix("--") {
        Some(name) => name.starts_with('r') || name.starts_with("di"),
        None => option.starts_with('-') && option.contains(['r', 'd']),
    }
}

/// Removes the search pattern from the words, if it is certain which word it is.
fn without_pattern(words: Vec<&Word>) -> Vec<&Word> {
    let is_operand = |w: &Word| !w.text.starts_with('-') || w.text == "-";
    let certain =
        words
            .iter()
            .filter(|w| !is_operand(w))
            .all(|w| match w.text.strip_prefix("--") {
                // `--regexp`, `--file` and `--files` make every operand a path; after `--` a
                // pattern may look like an option.
                Some(name) => matches!(
                    name.split('=').next().unwrap_or_default(),
                    "include"
                        | "exclude"
                        | "exclude-dir"
                        | "color"
                        | "type"
                        | "glob"
                        | "hidden"
                        | "line-number"
                        | "ignore-case"
                        | "count"
                        | "word-regexp"
                        | "fixed-strings"
                        | "only-matching"
                        | "files-with-matches"
                        | "max-count"
                        | "context"
                        | "no-heading"
                ),
                None => !w.text.contains(['e', 'f']),
            });
    let pattern = words.iter().position(|w| is_operand(w));
    match pattern {
        Some(at) if certain && words[at].is_literal() => {
            let mut rest = words;
            rest.remove(at);
            rest
        }
        _ => words,
    }
}

fn refuse(name: &str, word: &str, letters: &str, options: &[&str]) -> Result<(), String> {
    let refused = match word.strip_prefix("--") {
        Some("") => false,
        Some(_) => {
            let given = word.split('=').next().unwrap_or(word);
            options.iter().any(|o| o.starts_with(given))
        }
        None => word.starts_with('-') && word.contains(|c| letters.contains(c)),
    };
    if refused {
        return Err(format!("`{name} {word}` may do more than look"));
    }
    Ok(())
}

impl Reads {
    /// Adds everything in the words that may name a file.
    fn add(&mut self, words: &[&Word], operands: Operands, any_option: bool) -> Result<(), String> {
        for word in words {
            let text = word.text.as_str();
            if word.glob {
                check_glob(word, operands, any_option)?;
                self.patterns.push(word.path());
            } else if operands == Text {
                self.paths.extend(word.tilde.then(|| word.path()));
            } else {
                if text.starts_with('-') && text.len() > 1 {
                    self.paths.extend(attached(text)?);
                }
                self.paths.push(word.path());
            }
        }
        Ok(())
    }
}

fn check_glob(word: &Word, operands: Operands, any_option: bool) -> Result<(), String> {
    let text = &word.text;
    if text.split('/').any(|part| part == "..") {
        return Err(format!("where `{text}` leads is not known"));
    }
    if operands != Text && !any_option && !word.stays_operand() {
        return Err(format!(
            "`{text}` becomes an option where a file is named like one; quote it, or write `./{text}`"
        ));
    }
    Ok(())
}

/// Returns the paths that may be attached to an option: `--file=x`, `-fx`, `-nf/x`.
fn attached(option: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    if let Some((_, value)) = option.split_once('=') {
        found.push(value.to_string());
    }
    if !option.starts_with("--") {
        if option.len() > MAX_CLUSTER_BYTES {
            return Err("an option of one letter is too long to be understood".to_string());
        }
        // It is not known which letter takes the value: each may.
        let values = option.char_indices().skip(2);
        found.extend(values.map(|(at, _)| option[at..].to_string()));
    }
    // The shell does not expand a `~` there.
    found.retain_mut(|path| {
        if path.starts_with('~') {
            path.insert_str(0, "./");
        }
        !path.is_empty()
    });
    Ok(found)
}

fn find(rest: &[Word]) -> Result<Reads, String> {
    if let Some(act) = rest
        .iter()
        .find(|w| FIND_ACTS.iter().any(|act| w.text.starts_with(act)))
    {
        return Err(format!("`find {}` does more than look", act.text));
    }
    // No other option has an `L`.
    let follows = |w: &&Word| w.text.starts_with('-') && w.text.contains('L');
    if let Some(option) = rest.iter().find(|w| follows(w) || w.text == "-follow") {
        return Err(format!("`find {}` follows links", option.text));
    }
    let words: Vec<&Word> = rest.iter().collect();
    let mut reads = Reads::default();
    reads.add(&words, Names, false)?;
    Ok(reads)
}
