//! The built-in list of commands that only look, whatever their options.
//!
//! [`look`] says what such a command looks at; whether it may look there is decided by who
//! asks. A command is on the list only if every option that writes, runs a program or
//! reads a list of further files can be told from its spelling. So these are not on it:
//! `sed` and `awk` (scripts that write and run), `tee`, `xargs`, `env` and other wrappers,
//! `hostname` (sets it), `tree` (`-R` writes), `cargo`, `rustc` and `go` even for
//! `--version` (a file in the folder names the toolchain that runs).
//!
//! [`runs_others`] is the opposite list: commands behind which another may hide.
//!
//! Invariant: the list is closed. What is not understood is not harmless.

use super::path;
use super::shell::{Assignment, Command, Word};

/// What a harmless command looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Look {
    /// Everything that may be a path, as written, relative ones seen from where it runs.
    pub paths: Vec<String>,
    /// It goes through whole folders and shows what is in the files.
    pub recursive: bool,
    /// It obeys the configuration of the repository it runs in.
    pub repository: bool,
}

/// What a command makes of its operands.
#[derive(Clone, Copy, PartialEq)]
enum Operands {
    /// Not paths.
    Text,
    /// Paths, of which names and figures are shown.
    Names,
    /// Paths, whose contents are shown.
    Contents,
}

use Operands::{Contents, Names, Text};

/// A command with the options that make it harmful. A long option is refused in every
/// abbreviation, a letter anywhere in a cluster.
struct Looker {
    name: &'static str,
    operands: Operands,
    letters: &'static str,
    options: &'static [&'static str],
}

const fn looker(name: &'static str, operands: Operands) -> Looker {
    but(name, operands, "", &[])
}

const fn but(
    name: &'static str,
    operands: Operands,
    letters: &'static str,
    options: &'static [&'static str],
) -> Looker {
    Looker {
        name,
        operands,
        letters,
        options,
    }
}

/// Longer clusters of one-letter options are not read for what is attached to them.
const MAX_CLUSTER_BYTES: usize = 128;

const LISTS_OF_FILES: &[&str] = &["--files0-from"];

#[rustfmt::skip]
const LOOKERS: &[Looker] = &[
    looker("true", Text), looker("false", Text), looker("pwd", Text), looker("whoami", Text),
    looker("id", Text), looker("uname", Text), looker("which", Text), looker("echo", Text),
    looker("basename", Text), looker("dirname", Text), looker("tr", Text),
    // `-v` assigns, and evaluates a subscript: `test -v 'a[$(rm x)]'`.
    but("printf", Text, "v", &[]), but("test", Names, "vR", &[]), but("[", Names, "vR", &[]),
    // Sets the clock.
    but("date", Contents, "s", &["--set"]),
    looker("ls", Names), looker("stat", Names), looker("df", Names), looker("realpath", Names),
    looker("readlink", Names),
    but("du", Names, "", LISTS_OF_FILES), but("wc", Names, "", LISTS_OF_FILES),
    looker("md5sum", Names), looker("sha1sum", Names), looker("sha224sum", Names),
    looker("sha256sum", Names), looker("sha384sum", Names), looker("sha512sum", Names),
    looker("b2sum", Names), looker("cksum", Names), looker("shasum", Names),
    // Compiles a magic file, reads lists, unpacks.
    but("file", Names, "CfmzZS", &["--compile", "--files-from", "--magic-file", "--uncompress", "--no-sandbox"]),
    looker("cat", Contents), looker("head", Contents), looker("tail", Contents),
    looker("cut", Contents), looker("nl", Contents), looker("cmp", Contents),
    looker("uniq", Contents),
    // A recursive diff follows links.
    but("diff", Contents, "rl", &["--recursive", "--paginate"]),
    but("sort", Contents, "oT", &["--output", "--temporary-directory", "--compress-program", "--files0-from"]),
    // `-R` follows links.
    but("grep", Contents, "R", &["--dereference-recursive"]),
    but("egrep", Contents, "R", &["--dereference-recursive"]),
    but("fgrep", Contents, "R", &["--dereference-recursive"]),
    // Links, programs for each file.
    but("rg", Contents, "Lz", &["--follow", "--pre", "--pre-glob", "--hostname-bin", "--search-zip"]),
];

/// Parts of `find` that run, delete or write.
const FIND_ACTS: [&str; 6] = ["-exec", "-ok", "-delete", "-fprint", "-fls", "-files0-from"];

/// Programs whose `--version` runs nothing of the folder.
#[rustfmt::skip]
const VERSIONED: [&str; 11] =
    ["bash", "git", "gcc", "clang", "make", "cmake", "node", "python", "python3", "perl", "rg"];

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
];

/// Commands that run what their words say.
#[rustfmt::skip]
const RUNNERS: &[&str] = &[
    ".", "awk", "bash", "builtin", "bun", "bunx", "busybox", "chroot", "command", "dash", "deno", "doas", "entr",
    "env", "eval", "exec", "fish", "flock", "gawk", "ionice", "ksh", "lua", "mawk", "nice", "node", "nohup", "npx",
    "nsenter", "osascript", "parallel", "perl", "php", "pipx", "pkexec", "pwsh", "python", "python2", "python3",
    "ruby", "runuser", "script", "setsid", "sh", "source", "ssh", "stdbuf", "strace", "su", "sudo", "systemd-run",
    "tclsh", "time", "timeout", "tmux", "trap", "tsx", "unshare", "uvx", "watch", "xargs", "zsh",
];

/// Whether a command may run another one that its words name, as `sudo` or `sh -c`.
pub fn runs_others(words: &[Word]) -> bool {
    let Some((name, rest)) = words.split_first() else {
        return false;
    };
    let name = path::fold(name.text.rsplit('/').next().unwrap_or_default());
    let has = |starts: &[&str]| {
        rest.iter()
            .any(|w| starts.iter().any(|s| w.text.starts_with(s)))
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
            RUNNERS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'))
                || RUNNERS.contains(&name)
        }
    }
}

/// What a command on the list looks at, or why it is not harmless, in words for a person.
pub fn look(command: &Command) -> Result<Look, String> {
    if let Some(a) = command.assignments.iter().find(|a| !is_setting(a)) {
        return Err(format!("sets `{}`", a.name));
    }
    let Some((name, rest)) = command.words.split_first() else {
        return Ok(Look::default());
    };
    if name.quoted || !name.is_literal() {
        return Err("names its command in quotes".to_string());
    }
    if let Some(unknown) = rest.iter().find(|w| w.expands) {
        return Err(format!("what `{}` becomes is not known", unknown.text));
    }
    let name = name.text.as_str();
    match name {
        "git" => git(rest),
        "find" => find(rest),
        _ if VERSIONED.contains(&name) && is_version(rest) => Ok(Look::default()),
        _ => match LOOKERS.iter().find(|l| l.name == name) {
            Some(looker) => looker.look(rest),
            None => Err(format!("`{name}` is not on the list of harmless commands")),
        },
    }
}

/// Variables that only change how something is shown.
pub fn is_setting(assignment: &Assignment) -> bool {
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

impl Looker {
    fn look(&self, rest: &[Word]) -> Result<Look, String> {
        for word in rest {
            refuse(self.name, &word.text, self.letters, self.options)?;
        }
        let mut look = Look::default();
        let mut words: Vec<&Word> = rest.iter().collect();
        match self.name {
            "uniq" if words.iter().filter(|w| !w.text.starts_with('-')).count() > 1 => {
                return Err("`uniq` writes to its second operand".to_string());
            }
            "date" if words.iter().any(|w| is_clock(&w.text)) => {
                return Err("`date` sets the clock".to_string());
            }
            "rg" | "grep" | "egrep" | "fgrep" => {
                look.recursive = self.name == "rg" || words.iter().any(|w| is_recursive(&w.text));
                words = without_pattern(words);
            }
            _ => {}
        }
        look.paths = paths(&words, self.operands)?;
        Ok(look)
    }
}

/// `[MMDDhhmm[[CC]YY][.ss]]`
fn is_clock(operand: &str) -> bool {
    operand.starts_with(|c: char| c.is_ascii_digit())
        && operand.chars().all(|c| c.is_ascii_digit() || c == '.')
}

fn is_recursive(option: &str) -> bool {
    match option.strip_prefix("--") {
        Some(name) => name.starts_with('r') || name.starts_with("dir"),
        None => option.starts_with('-') && option.contains(['r', 'd']),
    }
}

/// The words without the pattern that is searched for, when it is certain which it is.
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

/// Everything in the words that may name a file.
fn paths(words: &[&Word], operands: Operands) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    for word in words {
        let text = word.text.as_str();
        if word.glob {
            if operands == Contents {
                return Err(format!("which files `{text}` names is not known"));
            }
            if text.split('/').any(|part| part == "..") {
                return Err(format!("where `{text}` leads is not known"));
            }
            paths.push(before_pattern(text).to_string());
        } else if operands == Text {
            paths.extend(word.tilde.then(|| word.path()));
        } else if text.starts_with('-') && text.len() > 1 {
            paths.extend(attached(text)?);
        } else {
            paths.push(word.path());
        }
    }
    Ok(paths)
}

/// The folder of a pattern that is certain, `.` when there is none.
fn before_pattern(text: &str) -> &str {
    let certain = text.find(['*', '?', '[']).map_or(text, |at| &text[..at]);
    match certain.rfind('/') {
        Some(0) => "/",
        Some(at) => &certain[..at],
        None => ".",
    }
}

/// Paths that may be attached to an option: `--file=x`, `-fx`, `-nf/x`.
fn attached(option: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    if let Some((_, value)) = option.split_once('=') {
        found.push(value.to_string());
    }
    if !option.starts_with("--") {
        if option.len() > MAX_CLUSTER_BYTES {
            return Err("an option of one letter is too long to be understood".to_string());
        }
        // Which letter takes the value is not known: each may.
        let values = option.char_indices().skip(2);
        found.extend(values.map(|(at, _)| option[at..].to_string()));
    }
    // The shell expands no `~` there.
    found.retain_mut(|path| {
        if path.starts_with('~') {
            path.insert_str(0, "./");
        }
        !path.is_empty()
    });
    Ok(found)
}

fn find(rest: &[Word]) -> Result<Look, String> {
    if let Some(act) = rest
        .iter()
        .find(|w| FIND_ACTS.iter().any(|act| w.text.starts_with(act)))
    {
        return Err(format!("`find {}` does more than look", act.text));
    }
    let words: Vec<&Word> = rest.iter().collect();
    Ok(Look {
        paths: paths(&words, Names)?,
        ..Look::default()
    })
}

fn git(rest: &[Word]) -> Result<Look, String> {
    let rest = match rest {
        [pager, rest @ ..] if pager.text == "--no-pager" => rest,
        rest => rest,
    };
    let not_listed = || "this `git` command is not on the list of harmless ones".to_string();
    let Some((name, rest)) = rest.split_first() else {
        return Err(not_listed());
    };
    for word in rest {
        refuse("git", &word.text, "", GIT_REFUSED)?;
    }
    let only_lists = match name.text.as_str() {
        "--version" => return Ok(Look::default()),
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
    Ok(Look {
        paths: paths(&words, Contents)?,
        recursive: matches!(name.text.as_str(), "log" | "diff" | "show" | "stash"),
        repository: true,
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::shell;

    fn looks(line: &str) -> Result<Look, String> {
        look(&shell::split(line).unwrap()[0])
    }

    #[test]
    #[rustfmt::skip]
    fn commands_that_only_look_are_harmless() {
        for line in [
            "true", "pwd", "ls", "ls -la src", "ls *.rs", "cat a b", "cat -", "head -n 5 a", "wc -l src/*.rs",
            "echo 'a b' > /dev/null", "printf '%s\\n' x", "test -f a", "[ -d a ]", "date", "date +%F",
            "date -u -d yesterday +%s", "sort -k2 -u a", "uniq -c a", "cut -d/ -f1 a", "tr a-z A-Z", "diff -u a b",
            "sha256sum a", "grep -rn foo src", "grep -n '/api/v1' src/a.rs", "rg foo", "rg -n '^\\.\\./x' src",
            "grep -e foo a", "find . -name '*.rs' -type f", "find src \\( -name a -o -name b \\)",
            "git status", "git --no-pager log --oneline -5", "git diff HEAD~1 -- src/a", "git show HEAD:src/a",
            "git branch", "git branch -a --sort=-committerdate", "git branch --show-current", "git tag", "git tag -l 'v*'",
            "git remote -v", "git remote get-url origin", "git stash list", "git rev-parse HEAD", "git ls-files",
            "git blame a", "git --version", "node --version", "python3 --version",
            "LC_ALL=C sort a", "NO_COLOR=1 ls", "file a", "stat a", "du -sh .", "which cargo", "readlink a",
        ] {
            assert!(looks(line).is_ok(), "{line}: {:?}", looks(line));
        }
    }

    #[test]
    #[rustfmt::skip]
    fn whatever_may_do_more_is_not() {
        for line in [
            "rm a", "sed -n 1p a", "awk 1 a", "tee a", "xargs ls", "env", "env ls", "sudo ls", "bash", "bash -c ls",
            "eval ls", "exec ls", "source a", ". a", "nohup ls", "timeout 5 ls", "command ls", "tree",
            "hostname x", "/bin/ls", "./ls", "\\ls", "l''s", "LS",
            "sort -o a b", "sort -uo a b", "sort -oa b", "sort --output=a b", "sort --outp a b",
            "sort --compress-program=x a", "sort --compress-prog x a", "sort -T /x a", "sort --files0-from=a",
            "uniq a b", "uniq -c a b", "date -s x", "date --set=x", "date --se x", "date 010100002030", "date 0101.30",
            "printf -v PATH x", "test -v 'a[$(rm x)]'", "[ -v 'a[$(rm x)]' ]", "test -R x",
            "diff -r a b", "diff --recurs a b", "grep -R x .", "grep -nR x .", "grep --deref x .",
            "rg --pre ./x foo", "rg --pre=./x foo", "rg --hostname-bin x foo", "rg -z foo", "rg -L foo", "rg --follow foo",
            "find . -delete", "find . -exec rm {} +", "find . -execdir rm {} +", "find . -ok rm {} +", "find . -okdir x",
            "find . -fprint a", "find . -fprintf a x", "find . -fls a", "find -files0-from a",
            "file -C -m a", "file -m a b", "file -f a", "wc --files0-from=a", "du --files0-from a",
            "git", "git commit", "git push", "git -C x status", "git -c core.pager=x log", "git --git-dir=x log",
            "git -p log", "git --exec-path=x status", "git diff --output=a", "git diff --outp=a", "git log --output a",
            "git diff --ext-diff", "git diff --no-index a b", "git log --show-signature", "git blame --contents a b",
            "git branch x", "git branch -d x", "git branch -D x", "git branch -m a b", "git tag x", "git tag -d x",
            "git tag -l -d x", "git remote add a b", "git remote show x", "git remote update", "git stash", "git stash pop",
            "git config -l", "git grep -O x", "git fetch", "git checkout .", "git bisect run x",
            "cargo --version", "cargo build", "go version", "node --version x", "node x", "python3 -c x", "npm --version",
            "PATH=x ls", "LD_PRELOAD=x ls", "GIT_PAGER=x git log", "PAGER=x git log", "LC_ALL=../x ls", "IFS=x ls",
            "NO_COLOR=$X ls", "BASH_ENV=x ls", "LC_ALL+=C ls -l $X",
            "cat $HOME/x", "echo $SECRET", "cat {a,b}", "cat *", "grep x *", "ls */../..", "head src/*.rs",
        ] {
            assert!(looks(line).is_err(), "{line}");
        }
    }

    #[test]
    fn commands_that_hide_others_are_known() {
        let runs = |line: &str| runs_others(&shell::split(line).unwrap()[0].words);
        for line in [
            "sudo rm",
            "/usr/bin/env x",
            "python3.12 -c x",
            "find . -exec rm",
            "docker exec a b",
            "BASH -c x",
        ] {
            assert!(runs(line), "{line}");
        }
        for line in [
            "ls",
            "find . -name x",
            "docker ps",
            "npm test",
            "git status",
            ".",
        ] {
            assert_eq!(runs(line), line == ".", "{line}");
        }
    }

    #[test]
    fn every_path_is_seen() {
        for (line, want) in [
            ("cat /etc/passwd", "/etc/passwd"),
            ("cat a ../b", "../b"),
            ("cat -- ~/x", "~/x"),
            ("ls /etc/*", "/etc"),
            ("echo /etc/*", "/etc"),
            ("echo ~", "~"),
            ("grep -f/etc/shadow x", "/etc/shadow"),
            ("grep -nf/etc/shadow x", "/etc/shadow"),
            ("grep --file=/etc/shadow x", "/etc/shadow"),
            ("grep --file /etc/shadow x", "/etc/shadow"),
            ("grep -f /etc/shadow x", "/etc/shadow"),
            ("grep x /etc/shadow", "/etc/shadow"),
            ("grep /etc/shadow -e root", "/etc/shadow"),
            ("grep -- -x /etc/shadow", "/etc/shadow"),
            ("grep - /etc/shadow", "/etc/shadow"),
            ("grep '' /etc/shadow", "/etc/shadow"),
            ("grep x -nflink", "link"),
            ("grep -A 1 root /etc/shadow", "/etc/shadow"),
            ("rg --files /etc", "/etc"),
            ("rg -e x /etc", "/etc"),
            ("rg --ignore-file=/etc/x y", "/etc/x"),
            ("date -f /etc/shadow", "/etc/shadow"),
            ("date --file=/etc/shadow", "/etc/shadow"),
            ("wc -l /etc/shadow", "/etc/shadow"),
            ("find / -name x", "/"),
            ("git diff /etc/passwd", "/etc/passwd"),
            ("git diff -O/etc/passwd", "/etc/passwd"),
            ("sha256sum --check /etc/x", "/etc/x"),
            ("diff --from-file=/etc/x a", "/etc/x"),
        ] {
            let look = looks(line).unwrap();
            assert!(look.paths.iter().any(|p| p == want), "{line}: {look:?}");
        }
        assert_eq!(looks("grep -rn '/api' src").unwrap().paths, ["n", "src"]);
    }
}
