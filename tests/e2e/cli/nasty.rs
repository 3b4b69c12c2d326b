//! Lines that run without being asked about, in a folder of nasty names: whatever they are
//! made of, nothing is written, nothing is run, and nothing outside is shown.
//!
//! Each line that the rules allow is run by bash and by dash. A file that would be run, one
//! outside and one that a rule denies leave traces.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rewake::core::entry::Mode;
use rewake::core::permission::Permission;
use rewake::core::policy::{Decision, Rule, Rules, Workspace, judge};
use rewake::session::DISK;

use crate::cli::LIMIT;
use support::{Home, run};

const OUTSIDE: &str = "TRACE-OF-OUTSIDE";
const DENIED: &str = "TRACE-OF-DENIED";

/// How many lines are made up besides the short ones.
const LINES: usize = 1_200;

#[rustfmt::skip]
const COMMANDS: [&str; 54] = [
    "ls", "ls -la", "stat", "df", "realpath", "readlink", "du", "du -s", "wc", "wc -l", "md5sum", "sha256sum", "cksum",
    "file", "cat", "cat -n", "head", "head -n 3", "tail", "tail -n 2", "cut -c1-80", "nl", "cmp", "uniq", "uniq -c", "diff",
    "diff -u", "sort", "sort -u", "grep x", "grep -rn x", "grep -c", "egrep x", "rg x", "find", "find .", "find . -name",
    "echo", "printf", "printf %s", "test", "[", "date", "which", "basename", "dirname", "tr a", "id", "uname", "git status",
    "git diff", "git log", "cd src && cat", "cat list | sort",
];

#[rustfmt::skip]
const OPERANDS: [&str; 76] = [
    "*", "-*", "?", "-?", "-[a-z]*", "[!a]*", "[^a]*", "[[:punct:]]*", "*=*", "?v", "./*", "l*", "a*", "a\\[*", "src/*", "src/../*",
    ".*", ".e*", "./.[a-z]*", "*/*", "l*/*", "linkdir/*", "s*/../l*", "./-*", "'-'*", "\"\"*", "''-k", "*k", "*t", "+*", "~/*", "[n]*",
    "a", "-- -k", "-- -*", "-- *", "-k", "./-k", "link", "linkdir", "linkdir/secret", "list", "'*'", "\"-k\"", "\\-k", "*.env", ".env",
    "'a[$(touch made)]'", "-exe? ./run \\;", "-exec ./run \\;", "-delet?", "-delete", "-o made", "-omade", "--output=made", "--outp* made",
    "-f list", "-flist", "--fil=list", "--files0-from=list", "--files0*", "--pre=./run a", "--pre* a", "a -out", "a made", "LANG -eq 1",
    "-v 'a[$(touch made)]'", "+5", "-s 0101", "-c list", "-L", "--ex*", "2*", "%n PATH; ls", "one two", "-N one/* two",
];

/// A folder of names that are options, operators and links.
pub fn room() -> Home {
    let home = Home::new();
    fs::write(home.user().join("secret"), format!("{OUTSIDE}\n")).unwrap();
    let secret = home.user().join("secret").to_str().unwrap().to_string();
    let names = [
        "-exec",
        "-execdir",
        "-ok",
        "-delete",
        "-fprint",
        "-v",
        "-R",
        "-o",
        "-omade",
        "-out",
        "-f",
        "-flist",
        "-c",
        "-C",
        "-r",
        "-L",
        "-s",
        "--files0-from=list",
        "--output=made",
        "--pre=run",
        "--ext-diff",
        "--follow",
        "--file=list",
        "a=list",
        "a",
        "b",
        "+5f",
        "a[$(touch made)]",
        "(",
        "!",
        ",",
        ";",
        "{}",
        "*",
        "[ab]",
        "x y",
        "n\nl",
        "1",
        "0101",
        "LANG",
        "-eq",
        "%n",
        "PATH",
        "src/b.rs",
        "src/-exec",
        "src/-k2",
    ];
    fs::create_dir(home.path("src")).unwrap();
    for name in names {
        fs::write(home.path(name), "x a\n").unwrap();
    }
    fs::write(home.path("list"), format!("{secret}\0{secret}\n")).unwrap();
    fs::write(home.path(".env"), format!("{DENIED}\n")).unwrap();
    fs::create_dir(home.path("2")).unwrap();
    for program in ["run", "sh", "2/ls", "2/cat"] {
        let text = format!("#!/bin/sh\necho run > '{}'\n", home.path("made").display());
        fs::write(home.path(program), text).unwrap();
        fs::set_permissions(home.path(program), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (name, to) in [
        ("link", &*secret),
        ("-k", &*secret),
        ("src/-k", &*secret),
        ("a.link", ".env"),
    ] {
        symlink(to, home.path(name)).unwrap();
    }
    symlink(home.user(), home.path("linkdir")).unwrap();
    for folder in ["one", "two", "one/in"] {
        fs::create_dir(home.path(folder)).unwrap();
    }
    symlink(&secret, home.path("one/in/f")).unwrap();
    symlink(&secret, home.path("one/f")).unwrap();
    fs::write(home.path("two/f"), "").unwrap();
    home
}

/// Every file below a folder: its bytes, or where it leads.
fn state(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        if metadata.is_dir() {
            files.extend(state(&path));
        }
        let content = match metadata.is_symlink() {
            true => path
                .read_link()
                .unwrap()
                .into_os_string()
                .into_encoded_bytes(),
            false => fs::read(&path).unwrap_or_default(),
        };
        files.insert(path, content);
    }
    files
}

pub fn allows(line: &str, home: &Home, deny: &str) -> bool {
    let place = Workspace {
        sandbox: rewake::core::policy::Sandbox::default(),
        rewakes_own: Vec::new(),
        obeyed: Vec::new(),
        keys: None,
        project: None,
        folder: home.workspace().to_str().unwrap().to_string(),
        root: home.workspace().to_str().unwrap().to_string(),
        home: Some(home.user().to_str().unwrap().to_string()),
        added: Vec::new(),
        readable: Vec::new(),
        served: None,
        page: Default::default(),
    };
    let rules = Rules {
        deny: deny
            .split_whitespace()
            .map(|r| Rule::parse(r).unwrap())
            .collect(),
        ..Rules::default()
    };
    let line = line.to_string();
    let judged = judge(
        &Permission::Command {
            line,
            access: None,
            background: false,
        },
        Mode::Default,
        &rules,
        &place,
        &DISK,
    );
    judged.decision == Decision::Allow
}

/// The short lines, and longer ones: the same in every run.
fn lines() -> Vec<String> {
    let mut lines: Vec<String> = COMMANDS.iter().map(|c| c.to_string()).collect();
    for command in COMMANDS {
        lines.extend(OPERANDS.map(|operand| format!("{command} {operand}")));
    }
    lines.extend(made_up(0x9e37_79b9_7f4a_7c15).take(LINES));
    lines
}

/// Commands with a few operands, the same for a seed.
pub fn made_up(mut seed: u64) -> impl Iterator<Item = String> {
    let mut pick = move |count: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % count
    };
    std::iter::repeat_with(move || {
        let command = COMMANDS[pick(COMMANDS.len())];
        let words: Vec<&str> = (0..1 + pick(3))
            .map(|_| OPERANDS[pick(OPERANDS.len())])
            .collect();
        format!("{command} {}", words.join(" "))
    })
}

#[test]
fn commands_allowed_unasked_only_read_permitted_files() {
    let home = room();
    let (inside, outside) = (state(&home.workspace()), state(&home.user()));
    let mut allowed = 0;
    for line in lines() {
        let without = allows(&line, &home, "");
        let with = allows(&line, &home, "Read(.env)");
        assert!(without || !with, "{line}: a rule that denies allows it");
        if !without {
            continue;
        }
        allowed += 1;
        // They differ in what they make of a glob.
        let shells = match line.contains(['*', '?', '[']) {
            true => &["bash", "dash"][..],
            false => &["bash"],
        };
        for shell in shells.iter().filter(|shell| is_there(shell)) {
            let mut command = Command::new(shell);
            command
                .args(["-c", "--", &line])
                .current_dir(home.workspace())
                .env("HOME", home.user())
                .stdin(Stdio::null());
            let run = run(command, LIMIT);
            let tool_results = format!("{}{}", run.stdout, run.stderr);
            let line = format!("{shell}: {line}");
            assert!(
                !tool_results.contains(OUTSIDE),
                "{line}: shows what is outside"
            );
            assert!(
                !with || !tool_results.contains(DENIED),
                "{line}: shows what is denied"
            );
            assert!(state(&home.workspace()) == inside, "{line}: changed a file");
            assert!(
                state(&home.user()) == outside,
                "{line}: changed a file outside"
            );
        }
    }
    // Else nothing was shown.
    assert!(allowed > 1_000, "{allowed} lines were run");
}

pub fn is_there(shell: &str) -> bool {
    ["/bin", "/usr/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(shell).exists())
}
