//! Notes on a command that ended: processes that it left running, changes that were
//! undone, and, for a failure that looks like a denial, the access that would have allowed it.

use std::path::{Path, PathBuf};

use rustix::fs::{Access as Rights, access};

use crate::command::{How, RunEnd, Survivor};
use crate::core::access::Access;
use crate::core::text::boundary_above;
use crate::core::visible::visible;
use crate::sandbox::Repository;
use crate::tools::paths::clean;

/// Number of bytes at the end of the output that are searched for a denial.
const LOOKED_AT_BYTES: usize = 16 * 1024;

/// Messages of programs that find no network.
const NO_NETWORK: [&str; 12] = [
    "could not resolve host",
    "couldn't resolve host",
    "temporary failure in name resolution",
    "name or service not known",
    "no address associated with hostname",
    "network is unreachable",
    "network unreachable",
    "address family not supported",
    "enotfound",
    "eai_again",
    "failed to lookup address",
    "no route to host",
];

/// Messages of programs whose operation was denied.
const NOT_PERMITTED: [&str; 8] = [
    "permission denied",
    "operation not permitted",
    "read-only file system",
    "eacces",
    "eperm",
    "erofs",
    "permissionerror",
    "device or resource busy",
];

/// Messages of programs that wanted to ask on a terminal.
#[rustfmt::skip]
const NO_TERMINAL: [&str; 15] = [
    "/dev/tty", "inappropriate ioctl for device", "not a tty", "non-tty", "not a terminal", "not from a terminal", "no tty present",
    "failed tty get", "requires a tty", "must be run from a terminal", "be connected to a terminal", "a terminal is required",
    "terminal prompts disabled", "error opening terminal", "eof when reading a line",
];

/// Beginning of the note on such a program.
const WANTED_TERMINAL: &str =
    "this looks like a question on a terminal, which commands do not have";

/// Parts of messages about a temporary file of the shell, which is a question of its settings.
const HERE_DOCUMENT: [&str; 2] = ["here document", "here-document"];

/// Words of messages of programs that wanted to remove or rename a file.
const TAKES_AWAY: [&str; 4] = ["remove", "unlink", "rename", "move"];

/// Folders that every command may read, so that a denial there is one of writing.
#[rustfmt::skip]
const READABLE: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/opt", "/etc", "/proc", "/sys"];

/// Exit code of a shell that could not run a program. With it, as with [`NOT_FOUND`], a denial that
/// was printed earlier is not the cause of the failure.
const NOT_RUN: i32 = 126;
const NOT_FOUND: i32 = 127;

/// Signal `SIGSYS`: the seccomp filter kills a program for another architecture.
const BAD_CALL: i32 = 31;

/// Returns the notes, one line each, without brackets. `printed` is the output of the command, and
/// `folder` the folder in which it started.
pub(super) fn lines(ended: &RunEnd, printed: &str, folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let refused = refusal(ended, printed, folder);
    let asked = failed(&ended.how) && says(&last_part(printed).to_lowercase(), &NO_TERMINAL);
    if asked && refused.is_none() {
        lines.push(format!(
            "{WANTED_TERMINAL}; give the answer as an option (-y, -m, --no-edit), in a file or by a \
             pipe; only the user knows passwords"
        ));
    }
    let Some(after) = &ended.sandbox else {
        return lines;
    };
    if let Some(limit) = &after.limit {
        lines.push(format!("ended by the sandbox: {limit}"));
    }
    let more = match after.more_changed {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    if !after.changed.is_empty() {
        lines.push(format!(
            "protected files may not be changed; what the command did to them was undone: {}{more}",
            after.changed.join(", ")
        ));
    }
    if !after.found_changed.is_empty() {
        lines.push(format!(
            "while it ran, these protected files were made or changed, by it or by somebody else; \
             they are as they were found: {}{more}",
            after.found_changed.join(", ")
        ));
    }
    if !after.unwritten.is_empty() {
        lines.push(format!(
            "git could not write these protected files, and takes their old content for a change: \
             {}; do not commit that, access full would check them out",
            after.unwritten.join(", ")
        ));
    }
    if after.ended > 0 {
        lines.push(format!(
            "{} that it left running ended with it; for a server use `background`",
            processes(after.ended)
        ));
    }
    if after.survivors > 0 {
        let pids: Vec<String> = after.survivor_pids.iter().map(named).collect();
        let left = format!("it left {} running", processes(after.survivors));
        lines.push(match (pids.join(", "), ended.access) {
            (pids, _) if pids.is_empty() => left,
            (pids, Some(_)) => format!("{left} that could not be ended in time: {pids}"),
            (pids, None) => format!("{left}: {pids}; `rewake ps` lists them"),
        });
    }
    lines.extend(ended.not_held.iter().map(|gap| format!("not held: {gap}")));
    lines.extend(git_elsewhere(ended, printed, folder).or(refused));
    lines
}

const LOOKS_LIKE_SANDBOX: &str = "this looks like the sandbox: ";

/// Returns a line of [`lines`] as a person reads it, without the advice for the model. `None` when
/// the line is not one of them.
pub(super) fn note(line: &str) -> Option<String> {
    const OTHERS: [&str; 4] = [
        "ended by the sandbox: ",
        "protected files may not be changed; ",
        "while it ran, these protected files ",
        "not held: ",
    ];
    if let Some(why) = line.strip_prefix(LOOKS_LIKE_SANDBOX) {
        let why = why.split_once("; access ").map_or(why, |(why, _)| why);
        return Some(format!("perhaps the sandbox: {why}"));
    }
    if line.starts_with(WANTED_TERMINAL) {
        return Some("it wanted a terminal, which commands do not have".to_string());
    }
    if let Some((files, _)) = line.split_once("; do not commit that, ") {
        return Some(files.to_string());
    }
    if let Some((left, _)) = line.split_once("; `rewake ps` lists them") {
        return Some(left.to_string());
    }
    if let Some((left, _)) = line.split_once(" that it left running ended with it; ") {
        return Some(format!("{left} that it left running ended with it"));
    }
    let is_survivor = line.starts_with("it left ")
        && (line.ends_with(" running") || line.contains(" running that could not be ended "));
    let is_other = is_survivor || OTHERS.iter().any(|known| line.starts_with(known));
    is_other.then(|| line.to_string())
}

/// Returns whether the command failed in a way that looks like a denial by the sandbox.
pub(super) fn is_refused(ended: &RunEnd, printed: &str, folder: &Path) -> bool {
    refusal(ended, printed, folder).is_some()
}

fn refusal(ended: &RunEnd, printed: &str, folder: &Path) -> Option<String> {
    let access = ended.access.filter(|_| ended.sandbox.is_some())?;
    hint(access, &ended.how, printed, folder)
        .filter(|_| failed(&ended.how) || ends_with_denial(printed))
}

/// Names the folder elsewhere that git could not use, and the setting that allows it.
fn git_elsewhere(ended: &RunEnd, printed: &str, folder: &Path) -> Option<String> {
    let access = ended.access?;
    let mut above = folder.ancestors();
    let root = above.find(|folder| folder.join(".git").symlink_metadata().is_ok())?;
    let (needed, setting) = Repository::missing_elsewhere(root, last_part(printed))?;
    let needed = visible(&needed.to_string_lossy()).into_owned();
    Some(format!(
        "{LOOKS_LIKE_SANDBOX}with access {access} git cannot use {needed}, which does not name this \
         workspace, unless the user's config.toml has [sandbox] {setting} = [{needed:?}]; access full \
         would do, if it is needed"
    ))
}

/// Returns whether the last line is the message of a denied operation. A pipe hides the exit code of
/// the program that printed it.
fn ends_with_denial(printed: &str) -> bool {
    let last = printed.trim_end().lines().next_back().unwrap_or("");
    let last = last.to_lowercase();
    // Python and others end a sentence in a bracket or a quote. Code does so with the name of an error.
    let sentence = last.trim_end_matches([')', ']', '>', '\'', '"', '.']);
    let mut denials = NOT_PERMITTED.iter().chain(&NO_NETWORK);
    denials.any(|words| last.ends_with(words) || words.contains(' ') && sentence.ends_with(words))
}

fn named(one: &Survivor) -> String {
    match &one.command {
        None => one.pid.to_string(),
        Some(command) => format!("{} ({command})", one.pid),
    }
}

fn processes(count: u32) -> String {
    match count {
        1 => "1 process".to_string(),
        n => format!("{n} processes"),
    }
}

fn failed(how: &How) -> bool {
    matches!(how, How::Exited(code) if *code != 0) || matches!(how, How::Signalled(_))
}

/// Names the rule of the sandbox that a failure looks like, and the access that would allow the
/// command.
fn hint(access: Access, how: &How, printed: &str, folder: &Path) -> Option<String> {
    let printed = last_part(printed);
    let end = printed.to_lowercase();
    let says = |words: &[&str]| says(&end, words);
    let (rule, would_do) = if *how == How::Signalled(BAD_CALL) {
        (
            "a system call or a 32-bit program that it does not let through",
            "full",
        )
    } else if access < Access::Network && says(&NO_NETWORK) {
        match access {
            Access::Read => (
                "there is no network",
                "workspace (loopback alone) or network",
            ),
            _ => ("only the loopback network", "network"),
        }
    } else if *how == How::Exited(NOT_FOUND) {
        return None;
    } else if *how == How::Exited(NOT_RUN) {
        let program = denied_program(printed, folder)?;
        let folder = program.parent()?;
        let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
        let folder = folder.display();
        return Some(format!(
            "{LOOKS_LIKE_SANDBOX}with access {access} it may not run programs in {folder}; access \
             full would do, if it is needed"
        ));
    } else if says(&NO_TERMINAL) || says(&HERE_DOCUMENT) {
        return None;
    } else if says(&NOT_PERMITTED) {
        match (access, access_of_denied_file(printed, folder)?) {
            (Access::Read, would_do) => ("only $TMPDIR can be written", would_do.name()),
            (Access::Workspace, _) => (
                "only the workspace can be written, but for protected files such as .git/config; \
                 no Unix sockets",
                "full",
            ),
            (Access::Network, _) => (
                "only the workspace and the package caches can be written, but for protected \
                 files; no Unix sockets",
                "full",
            ),
            (Access::Full, _) => return None,
        }
    } else {
        return None;
    };
    Some(format!(
        "{LOOKS_LIKE_SANDBOX}with access {access} {rule}; access {would_do} would do, if it is \
         needed"
    ))
}

fn says(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

/// Returns the part of an output that is searched.
fn last_part(printed: &str) -> &str {
    &printed[boundary_above(printed, printed.len().saturating_sub(LOOKED_AT_BYTES))..]
}

/// Returns the least access with which the last denied operation may work: `full` for a file outside of
/// the repository of `folder`. `None` if the user may not do it either. Files elsewhere are not looked
/// at: the message may name a mount that does not answer.
fn access_of_denied_file(printed: &str, folder: &Path) -> Option<Access> {
    let denied = printed.lines().rev().find_map(|line| {
        let line = Some(line).filter(|line| says(&line.to_lowercase(), &NOT_PERMITTED))?;
        Some((line, denied_file(line, folder)?))
    });
    let Some((line, path)) = denied else {
        return Some(Access::Workspace);
    };
    let top = folder.ancestors().find(|top| top.join(".git").exists());
    let is_inside = path.starts_with(top.unwrap_or(folder));
    let least = if is_inside || path.components().any(|part| part.as_os_str() == ".git") {
        Access::Workspace
    } else {
        Access::Full
    };
    if !is_inside && !READABLE.iter().any(|folder| path.starts_with(folder)) {
        return Some(least);
    }
    let takes_away = says(&line.to_lowercase(), &TAKES_AWAY);
    let mut places = path.ancestors().skip(usize::from(takes_away));
    let is_writable = places
        .find(|place| place.exists())
        .is_some_and(|place| access(place, Rights::WRITE_OK).is_ok());
    is_writable.then_some(least)
}

/// Returns the file that a message is about: an absolute path, or a name that exists.
fn denied_file(line: &str, folder: &Path) -> Option<PathBuf> {
    let is_end = |c: char| c.is_whitespace() || "'\"`‘’()[],".contains(c);
    // The program that prints the message comes first.
    let speaker = usize::from(line.split(": ").count() > 2);
    let words = line
        .split(is_end)
        .skip(speaker)
        .map(|word| word.trim_end_matches(':'));
    let mut paths = words
        .filter(|word| !word.is_empty())
        .map(|word| clean(&folder.join(word)));
    // A sentence has words that are no files.
    paths.find(|path| !path.starts_with(folder) || path.exists())
}

/// Returns the program that the sandbox kept the command from running, although the user may run
/// it. `None` when the cause is another: the file is not executable, or its disk is mounted
/// `noexec`.
fn denied_program(printed: &str, folder: &Path) -> Option<PathBuf> {
    let denied = printed
        .lines()
        .filter(|line| line.to_lowercase().contains("permission denied"));
    let programs = denied.flat_map(|line| {
        let parts: Vec<&str> = line.split(": ").collect();
        // The first part is the program that prints the message, such as the shell, unless the
        // message names only one.
        let speaker = usize::from(parts.len() > 2);
        parts[speaker..].to_vec()
    });
    programs
        .map(|part| part.trim_matches(['\'', '"', '`', '‘', '’', ' ']))
        // A shell looks up a name without a folder on PATH, and its message has the folder.
        .filter(|part| part.contains('/'))
        .map(|part| folder.join(part))
        .find(|path| {
            path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Aftermath;

    fn ended(access: Access, how: How, after: Aftermath) -> RunEnd {
        RunEnd {
            how,
            took_ms: 1,
            limit_ms: None,
            ended_at_ms: 1,
            bytes_total: 0,
            bytes_kept: 0,
            output: "/run/output".into(),
            write_error: None,
            is_output_lost: false,
            sandbox: Some(after),
            access: Some(access),
            not_held: Vec::new(),
        }
    }

    fn told(access: Access, how: How, printed: &str) -> String {
        told_in(access, how, printed, Path::new("/"))
    }

    fn told_in(access: Access, how: How, printed: &str, folder: &Path) -> String {
        lines(&ended(access, how, Aftermath::default()), printed, folder).join("\n")
    }

    #[test]
    fn a_denial_at_the_end_of_a_pipe_is_named() {
        let piped = "touch: cannot touch 'x': Read-only file system\n";
        let hint = told(Access::Read, How::Exited(0), piped);
        assert!(hint.contains("access workspace would do"), "{hint}");
        let python = "URLError: <urlopen error [Errno -3] Temporary failure in name resolution>\n";
        let hint = told(Access::Workspace, How::Exited(0), python);
        assert!(hint.contains("access network would do"), "{hint}");
        for other in [
            "grep: x: Permission denied\n3 matches",
            "all is well",
            "",
            "return -EPERM;",
            "case 'EACCES'",
            "[\"eacces\"]",
        ] {
            assert_eq!(told(Access::Read, How::Exited(0), other), "");
        }
    }

    #[test]
    fn a_person_is_told_what_happened_and_not_what_the_model_may_do() {
        let after = Aftermath {
            ended: 2,
            survivors: 1,
            limit: Some("too many processes".into()),
            unwritten: vec!["/w/AGENTS.md".into()],
            ..Aftermath::default()
        };
        let lines = lines(
            &ended(Access::Read, How::Exited(1), after),
            "EROFS",
            Path::new("/"),
        );
        let notes: Vec<String> = lines.iter().filter_map(|line| note(line)).collect();
        assert_eq!(
            notes,
            [
                "ended by the sandbox: too many processes",
                "git could not write these protected files, and takes their old content for a \
                 change: /w/AGENTS.md",
                "2 processes that it left running ended with it",
                "it left 1 process running",
                "perhaps the sandbox: with access read only $TMPDIR can be written",
            ]
        );
        assert_eq!((lines.len(), note("it left no trace")), (5, None));
    }

    #[test]
    fn a_failure_that_looks_like_the_sandbox_names_the_access_that_would_do() {
        let table = [
            (
                Access::Read,
                "touch: cannot touch 'x': Permission denied",
                "access workspace would",
            ),
            (
                Access::Read,
                "fatal: Unable to create index.lock: Read-only file system",
                "access workspace would",
            ),
            (
                Access::Read,
                "curl: (6) Could not resolve host: x",
                "network would do",
            ),
            (
                Access::Workspace,
                "getaddrinfo ENOTFOUND x",
                "access network would",
            ),
            (
                Access::Workspace,
                "could not lock config file: Device or resource busy",
                "access full would",
            ),
            (
                Access::Network,
                "connect: Operation not permitted",
                "access full would",
            ),
        ];
        for (access, printed, want) in table {
            let line = told(access, How::Exited(1), printed);
            assert!(line.contains(want), "{printed}: {line}");
            assert_eq!(line.lines().count(), 1, "{line}");
            let passed = format!("{printed}\nall is well");
            assert_eq!(told(access, How::Exited(0), &passed), "", "it did not fail");
        }
        assert!(told(Access::Read, How::Signalled(31), "").contains("access full"));
        assert_eq!(told(Access::Read, How::Exited(1), "1 test failed"), "");
        let far = format!("permission denied{}", "é".repeat(LOOKED_AT_BYTES));
        assert_eq!(told(Access::Read, How::Exited(1), &far), "");
    }

    #[test]
    fn a_question_on_a_terminal_is_named_and_no_access_is_offered_for_it() {
        for printed in [
            "sudo: a terminal is required to read the password; either use ssh or an askpass helper",
            "fatal: could not read Username for 'https://h': terminal prompts disabled",
            "the input device is not a TTY",
            "gpg: signing failed: Inappropriate ioctl for device\n\nfatal: failed to write commit object",
            "bash: line 1: /dev/tty: No such device or address",
            "bash: line 1: /dev/tty: Permission denied",
            "EOFError: EOF when reading a line",
            "su: must be run from a terminal",
        ] {
            let line = told(Access::Workspace, How::Exited(1), printed);
            assert!(line.starts_with(WANTED_TERMINAL), "{printed}: {line}");
            assert_eq!(line.lines().count(), 1, "{line}");
            assert!(!line.contains("access"), "{line}");
            let wanted = "it wanted a terminal, which commands do not have";
            assert_eq!(note(&line).as_deref(), Some(wanted));
            assert_eq!(told(Access::Workspace, How::Exited(0), printed), "");
            let mut full = ended(Access::Full, How::Exited(1), Aftermath::default());
            (full.sandbox, full.access) = (None, None);
            assert_eq!(lines(&full, printed, Path::new("/")), [line]);
        }
        let offline = "curl: (6) Could not resolve host: x\nstdin: is not a tty";
        let line = told(Access::Workspace, How::Exited(1), offline);
        assert!(line.contains("access network would do"), "{line}");
    }

    #[test]
    fn an_access_that_would_not_help_is_not_named() {
        use std::os::unix::fs::PermissionsExt;
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("project/part");
        let elsewhere = top.path().join("elsewhere");
        std::fs::create_dir_all(top.path().join("project/.git")).unwrap();
        for folder in [&folder, &elsewhere] {
            std::fs::create_dir(folder).unwrap();
        }
        let told = |access, printed: &str| told_in(access, How::Exited(1), printed, &folder);
        let at = |folder: &Path, name: &str| folder.join(name).display().to_string();
        // In the repository, also above the folder of the session.
        let lock = at(&top.path().join("project/.git"), "index.lock");
        let line = format!("fatal: Unable to create '{lock}': Read-only file system");
        assert!(told(Access::Read, &line).contains("access workspace would do"));
        assert!(
            told(
                Access::Read,
                "touch: cannot touch 'new': Read-only file system"
            )
            .contains("access workspace")
        );
        let outside = at(&elsewhere, "x");
        let line = format!("bash: line 1: {outside}: Read-only file system");
        assert!(told(Access::Read, &line).contains("access full would do"));
        // Nothing is looked at there, so it makes no difference that the user may not do it either.
        for missing in ["/none/x", "../../../none/x"] {
            let line = format!("rm: cannot remove '{missing}': Permission denied");
            let line = told(Access::Read, &line);
            assert!(line.contains("access full would do"), "{line}");
        }
        for line in [
            "zsh:1: can't create temp file for here document: read-only file system",
            "bash: cannot create temp file for here-document: Permission denied",
        ] {
            assert_eq!(told(Access::Read, line), "", "{line}");
        }
        // The user may not do these either, unless it is root.
        let locked = at(&folder, "locked");
        std::fs::write(&locked, "").unwrap();
        std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o0)).unwrap();
        if std::fs::File::open(&locked).is_err() {
            for line in [
                "cat: locked: Permission denied",
                "touch: cannot touch '/etc/x': Permission denied",
                "bash: line 1: /etc/hosts: Permission denied",
            ] {
                assert_eq!(told(Access::Read, line), "", "{line}");
            }
        }
        let line = "rm: cannot remove 'locked': Read-only file system";
        assert!(told(Access::Read, line).contains("access workspace would do"));
    }

    /// A shell exits with 126 for a program that it may not run, and with 127 for one that it does
    /// not find. Neither code is about a path that is not writable.
    #[test]
    fn a_program_that_does_not_start_is_laid_to_the_sandbox_only_where_that_is_so() {
        use std::os::unix::fs::PermissionsExt;
        let denied = |path: &std::path::Path, code| {
            let printed = format!("bash: line 1: {}: Permission denied", path.display());
            told(Access::Read, How::Exited(code), &printed)
        };
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("shims/python");
        std::fs::create_dir(folder.path().join("shims")).unwrap();
        // First the file is missing, then it is not executable.
        assert_eq!(denied(&program, 126), "");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(denied(&program, 126), "");
        let lost = "pyenv: cannot rehash: Permission denied\npyenv: python: command not found";
        assert_eq!(told(Access::Read, How::Exited(127), lost), "");
        // The user could run it, so the sandbox denied it.
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let line = denied(&program, 126);
        assert!(line.contains("may not run programs in"), "{line}");
        assert!(line.contains("shims; access full would do"), "{line}");
        assert!(!line.contains("TMPDIR"), "{line}");
        assert_eq!(denied(&program, 127), "");
    }

    /// The shell names itself first, and names the program as the command did.
    #[test]
    fn the_hint_names_the_folder_of_the_denied_program_and_not_that_of_the_shell() {
        use std::os::unix::fs::PermissionsExt;
        let top = tempfile::tempdir().unwrap();
        let top = std::fs::canonicalize(top.path()).unwrap();
        let bin = top.join("venv/bin");
        let folder = top.join("project");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir(&folder).unwrap();
        let program = bin.join("python");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let want = format!("may not run programs in {}; access full", bin.display());
        for printed in [
            "bash: line 1: ../venv/bin/python: Permission denied",
            "/bin/sh: line 1: ../venv/bin/python: Permission denied",
            "/bin/sh: 1: ../venv/bin/python: Permission denied",
            "zsh:1: permission denied: ../venv/bin/python",
            "env: ‘../venv/bin/python’: Permission denied",
            "../venv/bin/python: Permission denied",
        ] {
            let line = told_in(Access::Read, How::Exited(126), printed, &folder);
            assert!(line.contains(&want), "{printed}: {line}");
        }
        for printed in [
            "/bin/sh: line 1: ../venv/bin/ruby: Permission denied",
            "/bin/sh: line 1: python: Permission denied",
        ] {
            let line = told_in(Access::Read, How::Exited(126), printed, &folder);
            assert_eq!(line, "", "{printed}");
        }
    }

    #[test]
    fn each_effect_of_the_sandbox_is_described_on_a_separate_line() {
        let after = Aftermath {
            survivors: 2,
            ended: 1,
            changed: vec![".git/config (it is as it was)".into()],
            more_changed: 3,
            found_changed: vec![".mcp.json".into()],
            limit: Some("more than 10 processes".into()),
            ..Aftermath::default()
        };
        let lines = lines(
            &ended(Access::Workspace, How::Exited(0), after),
            "",
            Path::new("/"),
        );
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert!(lines[0].contains("more than 10 processes"));
        let open = RunEnd {
            not_held: vec!["a file is not hidden".into()],
            ..ended(Access::Read, How::Exited(0), Aftermath::default())
        };
        assert_eq!(
            super::lines(&open, "", Path::new("/")),
            ["not held: a file is not hidden"]
        );
        assert!(lines[1].contains(".git/config") && lines[1].contains("and 3 more"));
        assert!(lines[2].contains(".mcp.json") && lines[2].contains("somebody else"));
        assert!(lines[3].starts_with("1 process"));
        assert!(lines[4].contains("2 processes"));
    }

    #[test]
    fn a_command_without_a_sandbox_is_told_as_it_was() {
        let mut ended = ended(Access::Read, How::Exited(1), Aftermath::default());
        ended.sandbox = None;
        assert!(lines(&ended, "Permission denied", Path::new("/")).is_empty());
    }

    #[test]
    fn processes_that_outlive_a_command_without_a_sandbox_are_named() {
        let survivor = |pid, command: Option<&str>| Survivor {
            pid,
            started: Some(1),
            command: command.map(str::to_string),
        };
        let after = Aftermath {
            survivors: 2,
            survivor_pids: vec![survivor(7, Some("sleep 9")), survivor(8, None)],
            ..Aftermath::default()
        };
        let mut ended = ended(Access::Full, How::Exited(0), after);
        ended.access = None;
        let lines = lines(&ended, "", Path::new("/"));
        let left = "it left 2 processes running: 7 (sleep 9), 8";
        assert_eq!(lines, [format!("{left}; `rewake ps` lists them")]);
        assert_eq!(note(&lines[0]).as_deref(), Some(left));
    }
}
