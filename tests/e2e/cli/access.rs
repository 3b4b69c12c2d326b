//! What commands of the model may do: the real binary, real commands in the real sandbox.
//!
//! On a kernel without all that a sandbox needs there is nothing to see here: then the tests
//! say that they are skipped.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::cli::{
    LIMIT, SCRIPTED, bash, calling, newest, play, results, scripted, step, stream, streamed, until,
};
use crate::scenes::access::*;
use support::{Home, Live, git};

#[test]
fn more_than_the_mode_gives_is_asked_for_and_says_what_it_is() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    let calls = [
        with("touch x", "workspace"),
        with("touch x", "network"),
        with("touch x", "full"),
    ];
    let asked = ran(&home, &calls, &[]);
    let words = [
        "writes in the workspace",
        "uses the network",
        "without a sandbox",
    ];
    for ((kind, text), word) in asked.iter().zip(words) {
        assert_eq!(kind, "denied", "{text}");
        has(text, &[word, "nobody is there to be asked"]);
    }
    for (kind, text) in ran(&home, &calls, &PLAN) {
        assert_eq!(kind, "denied", "{text}");
        has(&text, &["plan mode is on"]);
    }
    assert!(!home.path("x").exists());
    let rule = ["--set", "permissions.allow=[\"Bash(touch:*)\"]"];
    let by_rule = ran(&home, &[bash("touch y"), with("touch x", "full")], &rule);
    assert_eq!(by_rule[0].0, "done", "{by_rule:?}");
    assert_eq!(by_rule[1].0, "denied", "{by_rule:?}");
    assert!(home.path("y").exists() && !home.path("x").exists());
}

/// Also where no rule speaks of the words of the line.
#[test]
fn files_denied_by_a_read_rule_are_hidden_from_commands() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    fs::create_dir(home.path("a")).unwrap();
    fs::write(home.path("a/.env"), "SECRET=1\n").unwrap();
    fs::write(home.path("a/b"), "SECRET=2\n").unwrap();
    let rule = ["--set", "permissions.deny=[\"Read(.env)\"]"];
    let lines = [
        bash("cat a/.env"),
        bash("sed -n p a/.env"),
        bash("cat a/.e*; cat a/.[e]nv; x=.en; cat a/${x}v"),
        bash("grep -r SECRET ."),
        bash("python3 -c 'print(open(\"a/.\" + \"env\").read())'"),
    ];
    let ran = ran(&home, &lines, &rule);
    assert_eq!((ran[0].0.as_str(), ran[1].0.as_str()), ("denied", "denied"));
    for (_, text) in &ran {
        assert!(!text.contains("SECRET=1"), "{text}");
    }
    has(&ran[3].1, &["a/b:SECRET=2"]);
}

#[test]
fn without_a_sandbox_the_short_list_holds_and_with_one_that_cannot_be_nothing_runs() {
    let home = scripted(&[]);
    let off = ["--set", "sandbox.enabled=false"];
    let off = ran(
        &home,
        &[
            bash("echo a"),
            bash("cat *.rs; for f in *; do echo $f; done"),
        ],
        &off,
    );
    assert_eq!((off[0].0.as_str(), off[1].0.as_str()), ("done", "denied"));
    if !has_sandbox(&home) {
        return;
    }
    // The temporary folder cannot be made.
    fs::write(home.rewake_home().join("tmp"), "").unwrap();
    // No command could start, and the run does not end as if all were well.
    let none = ran_with(1, &home, &[bash("echo it ran > $HOME/x; echo it ran")], &[]);
    assert_eq!(none[0].0, "error");
    has(
        &none[0].1,
        &["not run: cannot set up the sandbox for access read"],
    );
    assert!(!none[0].1.contains("it ran"), "{}", none[0].1);
}

#[test]
fn the_access_of_a_command_is_recorded() {
    let home = calling(&[bash("true"), with("true", "workspace")]);
    if !has_sandbox(&home) {
        return;
    }
    let run = streamed(&home, &[&["-p", "x"][..], &ACCEPT].concat()).expect(0);
    let events = run.events();
    let started = events.iter().filter(|e| e["type"] == "entry.started");
    let access: Vec<&str> = started.filter_map(|e| e["access"].as_str()).collect();
    assert_eq!(access, ["workspace", "workspace"], "{events:?}");
}

/// Nothing that is remembered of a folder is older than what is in it.
#[test]
fn a_file_that_a_rule_hides_is_hidden_from_the_command_after_the_one_that_made_it() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    fs::create_dir(home.path("a")).unwrap();
    fs::write(home.path("a/b"), "SECRET=b\n").unwrap();
    fs::write(
        home.path("make.sh"),
        "mkdir -p a/$1; echo SECRET=$1 > a/$1/x.key; touch made-$1\n",
    )
    .unwrap();
    let makes = ["1", "2", "1", "3"].map(|n| bash(&format!("sh make.sh {n}")));
    let looks = || bash("grep -r SECRET . || true");
    let lines: Vec<_> = makes
        .into_iter()
        .flat_map(|make| [looks(), make, looks()])
        .collect();
    let args = [
        &["--set", "permissions.deny=[\"Read(*.key)\"]"][..],
        &ACCEPT,
    ]
    .concat();
    for (kind, text) in ran(&home, &lines, &args) {
        assert_eq!(kind, "done", "{text}");
        assert!(!text.contains("x.key:SECRET"), "{text}");
    }
    for name in ["made-1", "made-2", "made-3", "a/3/x.key"] {
        assert!(home.path(name).exists(), "{name}");
    }
}

/// The names below the folder for temporary folders.
fn tmp_folders(home: &Home) -> Vec<String> {
    let entries = fs::read_dir(home.rewake_home().join("tmp"));
    let names = entries.into_iter().flatten().flatten();
    names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn the_temporary_folder_goes_with_the_session_and_not_while_a_command_runs() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    let keep = "echo x > $TMPDIR/kept; mkdir -p $TMPDIR/a/b; cat $TMPDIR/kept";
    let first = ran(&home, &[bash(keep)], &ACCEPT);
    assert_eq!(first[0].1, "x\n");
    assert_eq!(tmp_folders(&home), Vec::<String>::new());
    // A command in the background goes on when the session has ended.
    let runs_on = "echo x > $TMPDIR/kept; echo up > up; while [ ! -e stop ]; do sleep 0.05; done; \
                   cat $TMPDIR/kept > seen";
    let call = json!({"command": runs_on, "background": true});
    // It writes in the workspace: that needs a rule, in the background.
    let rule = ["--set", "permissions.allow=[\"Bash\"]"];
    ran(&home, &[("bash", call)], &[&ACCEPT[..], &rule].concat());
    until(|| home.path("up").exists());
    assert_eq!(tmp_folders(&home).len(), 1);
    // Neither does another session take it.
    ran(&home, &[bash("true")], &ACCEPT);
    assert_eq!(tmp_folders(&home).len(), 1);
    fs::write(home.path("stop"), "").unwrap();
    until(|| home.path("seen").exists() && !home.run(["ps"]).stdout.contains("background"));
    assert_eq!(home.read("seen"), "x\n");
    // The next start, of whichever session, removes what is left.
    ran(&home, &[bash("true")], &ACCEPT);
    assert_eq!(tmp_folders(&home), Vec::<String>::new());
}

#[test]
fn a_start_removes_temporary_folders_of_killed_sessions_and_nothing_else() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    play(
        &home,
        &[step(
            "",
            &[bash("echo x > $TMPDIR/kept; echo up > up; sleep 300")],
        )],
    );
    let mut live = Live::spawn(home.rewake([&["-p", "x"][..], &ACCEPT].concat()));
    until(|| home.path("up").exists());
    let held = tmp_folders(&home);
    assert_eq!(held.len(), 1);
    // Somebody works in that session, and its command runs: twice a reason.
    ran(&home, &[bash("true")], &ACCEPT);
    assert_eq!(tmp_folders(&home), held);
    assert!(live.kill());
    live.wait(LIMIT);
    ran(&home, &[bash("true")], &ACCEPT);
    assert_eq!(tmp_folders(&home), held, "its command still runs");
    let foreign = home.rewake_home().join("tmp/notes");
    fs::create_dir(&foreign).unwrap();
    let ps = home.run(["ps"]).stdout;
    let run = ps.lines().find(|line| line.contains("sleep 300")).unwrap();
    let run = run.split_whitespace().next().unwrap();
    home.run(["ps", "stop", run]).expect(0);
    until(|| !home.run(["ps"]).stdout.contains("running"));
    ran(&home, &[bash("true")], &ACCEPT);
    assert_eq!(tmp_folders(&home), ["notes"]);
}

/// Four commands that each wait for the other three. The last call sees that their folders are gone.
#[test]
fn commands_that_only_read_run_at_the_same_time_in_separate_temporary_folders() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    // A line that names the variable would run alone.
    let line = |n: u32| {
        let all = "[ -e $d/../1 ] && [ -e $d/../2 ] && [ -e $d/../3 ] && [ -e $d/../4 ]";
        let wait = format!("for i in $(seq 600); do {all} && break; sleep 0.1; done");
        format!(r"eval d=\$T''MPDIR; touch $d/../{n}; {wait}; {all} && echo $d")
    };
    let mut calls: Vec<_> = (1..=4).map(|n| with(&line(n), "read")).collect();
    calls.push(with("ls $TMPDIR", "read"));
    let results = ran(&home, &calls, &[]);
    let mut folders: Vec<&str> = results[..4].iter().map(|(_, text)| text.trim()).collect();
    assert!(
        folders.iter().all(|folder| folder.contains("/bg_")),
        "{folders:?}"
    );
    folders.dedup();
    assert_eq!(folders.len(), 4, "{folders:?}");
    assert_eq!(results[4].1, "1\n2\n3\n4\n", "{results:?}");
}

#[test]
fn a_stop_ends_all_commands_that_run_at_the_same_time() {
    let line = format!("sleep {}.5", 1_000_000 + std::process::id());
    let sleep = with(&line, "read");
    let home = calling(&[sleep.clone(), sleep.clone(), sleep.clone(), sleep]);
    if !has_sandbox(&home) {
        return;
    }
    let live = stream(&home, &["-p", "x"]);
    let sleeping = || {
        let mut pgrep = std::process::Command::new("pgrep");
        let found = pgrep.args(["-fx", &line]).output().unwrap();
        String::from_utf8_lossy(&found.stdout).lines().count()
    };
    until(|| sleeping() == 4);
    let agent = Pid::from_raw(i32::try_from(live.id()).unwrap()).unwrap();
    kill_process(agent, Signal::INT).unwrap();
    let run = live.wait(LIMIT).expect(130);
    let results = results(&run);
    assert_eq!(results.len(), 4, "{results:?}");
    assert!(
        results.iter().all(|(kind, _)| kind == "interrupted"),
        "{results:?}"
    );
    assert_eq!(sleeping(), 0);
}

/// A program that a command with less access puts there is not run by one with more.
#[test]
fn commands_with_another_access_have_another_temporary_folder() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    let with =
        |access: &str, command: &str| ("bash", json!({"command": command, "access": access}));
    let calls = [
        with("read", "echo x > $TMPDIR/made; cat $TMPDIR/made"),
        with("workspace", "cat $TMPDIR/made || echo y > $TMPDIR/made"),
        with("read", "cat $TMPDIR/made"),
    ];
    let results = ran(&home, &calls, &ACCEPT);
    assert_eq!(results[0].1, "x\n");
    has(&results[1].1, &["No such file"]);
    assert_eq!(results[2].1, "x\n");
}

/// Each has its own place for them: zsh one with the beginning that `TMPPREFIX` names. fish has no
/// here-documents, and complains about a home folder that it cannot write.
#[test]
fn here_documents_and_temporary_files_work_in_each_shell() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    let document = "cat > \"$(mktemp -d)/x\" <<'END'\nnew\nEND\ncat <<'END'\nnew\nEND\n";
    let more = format!("{document}cat <(echo new)\ncat <<< new\n");
    let of_zsh = format!("{more}cat =(echo new)\n");
    let shells = [
        ("dash", document, "new\n"),
        ("bash", more.as_str(), "new\nnew\nnew\n"),
        ("zsh", of_zsh.as_str(), "new\nnew\nnew\nnew\n"),
        ("fish", "cat (echo new | psub)", "new\n"),
    ];
    for (shell, line, want) in shells {
        let places =
            ["/bin", "/usr/bin", "/usr/local/bin"].map(|place| Path::new(place).join(shell));
        let Some(path) = places.into_iter().find(|path| path.is_file()) else {
            continue;
        };
        let set = format!("shell.path={:?}", path.display().to_string());
        let options = [&ACCEPT[..], &["--set", set.as_str()]].concat();
        // The first has a separate temporary folder.
        for access in ["read", "workspace"] {
            let came = ran(&home, &[with(line, access)], &options);
            assert_eq!(came[0].1, want, "{shell} {access}");
        }
    }
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Lines whose program is on this machine.
fn possible<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let programs = [
        "jq", "rg", "tree", "bc", "cargo", "rustc", "node", "npm", "python3", "go", "make", "gcc",
        "perl", "ruby", "xxd", "pytest",
    ];
    let runs = |line: &str| {
        let named = programs
            .iter()
            .filter(|p| line.split_whitespace().any(|w| w == **p));
        named.into_iter().all(|program| is_there(program))
    };
    lines.iter().copied().filter(|line| runs(line)).collect()
}

/// The toolchains of whoever runs the tests, where the home of the test has them.
fn toolchains(home: &Home) {
    let Some(real) = std::env::var_os("HOME") else {
        return;
    };
    for name in [".cargo", ".rustup", ".pyenv", ".nvm"] {
        let folder = Path::new(&real).join(name);
        if folder.is_dir() {
            symlink(folder, home.user().join(name)).unwrap();
        }
    }
}

fn project(home: &Home) {
    toolchains(home);
    let name = "[user]\nname = a\nemail = a@b.c\n";
    fs::write(home.user().join(".gitconfig"), name).unwrap();
    let folder = home.workspace();
    git(&folder, &["init", "-q"]);
    for (name, text) in [
        (
            "Cargo.toml",
            "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        ),
        (
            "src/main.rs",
            "fn main() { println!(\"x\"); }\n#[test]\nfn one() {}\n#[test]\nfn net() {\n    let l = std::net::TcpListener::bind(\"127.0.0.1:0\").unwrap();\n    std::net::TcpStream::connect(l.local_addr().unwrap()).unwrap();\n}\n",
        ),
        ("src/lib.rs", "pub fn a() -> u32 { 1 }\n"),
        ("README.md", "# x\n\nTODO: more\n"),
        ("a.json", "{\"a\": [1, 2], \"version\": \"1\"}\n"),
        ("b.csv", "a,b\n1,2\n3,4\n"),
        (
            "Makefile",
            "all:\n\techo made > made.txt\ntest:\n\t./test.sh\n",
        ),
        ("test.sh", "#!/bin/sh\nmkdir -p out && echo ok > out/log\n"),
        (
            "test_x.py",
            "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(1, 1)\n",
        ),
        (
            "package.json",
            "{\"name\": \"x\", \"version\": \"1.0.0\", \"scripts\": {\"test\": \"echo ok\"}}\n",
        ),
        ("x.c", "int main(void) { return 0; }\n"),
        ("log.txt", "ERROR one\nINFO two\nERROR three\n"),
    ] {
        let path = home.path(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::set_permissions(home.path("test.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "-qm", "one"]);
    fs::write(home.path("README.md"), "# y\n").unwrap();
}

/// At least 95 of 100 everyday lines that only look need nobody, and work at the first try.
#[test]
fn everyday_read_commands_run_unasked_in_default_mode() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    project(&home);
    let lines = possible(&include!("looking.in"));
    let calls: Vec<_> = lines.iter().map(|line| bash(line)).collect();
    let ran = ran(&home, &calls, &[]);
    figures("looking", &lines, &ran, 95);
}

/// Lines that work, in `acceptEdits`: builds, tests, commits, servers of their own.
#[test]
fn everyday_work_commands_run_unasked_in_accept_edits() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    project(&home);
    let lines = possible(&include!("working.in"));
    let calls: Vec<_> = lines.iter().map(|line| bash(line)).collect();
    let ran = ran(&home, &calls, &ACCEPT);
    figures("working", &lines, &ran, 90);
}

/// A question is a line that was denied because nobody is there. A failed first try is one that
/// does not end well.
#[track_caller]
fn figures(what: &str, lines: &[&str], ran: &[(String, String)], at_least: usize) {
    let asked: Vec<_> = lines
        .iter()
        .zip(ran)
        .filter(|(_, (kind, _))| kind == "denied")
        .collect();
    let failed = |(_, (_, text)): &(&&str, &(String, String))| {
        text.contains("[exit code") || text.contains("ended by signal")
    };
    let failed: Vec<_> = lines.iter().zip(ran).filter(failed).collect();
    let good = lines.len() - asked.len() - failed.len();
    assert!(
        good * 100 >= lines.len() * at_least,
        "{what}: {good} of {}: {} asked, {} failed: {asked:#?} {failed:#?}",
        lines.len(),
        asked.len(),
        failed.len()
    );
}

#[test]
fn sandbox_notices_are_shown_once() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    let run = |rules: &[&str]| {
        play(&home, &[step("done", &[])]);
        let rules = format!("permissions.allow={}", json!(rules));
        let run = home.run(["-p", "x", "--set", &rules]).expect(0);
        let count = |word: &str| run.stderr.matches(word).count();
        (count("run in a sandbox"), count("a Bash rule gives"))
    };
    let first = ["Bash(git push:*)"];
    assert_eq!(run(&first), (1, 1));
    assert_eq!(run(&first), (0, 0));
    assert_eq!(run(&["Bash(git push:*)", "Full(git push:*)"]), (0, 0));
    // Other rules are another matter.
    assert_eq!(run(&["Bash(npm ci:*)"]), (0, 1));
}

#[test]
fn commands_the_sandbox_cannot_run_are_asked_for_and_not_tried() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    git(&home.workspace(), &["init", "-q"]);
    let lines = [
        "git config a.b c",
        "git remote add o x",
        "git worktree add ../w",
    ];
    let calls = lines.map(bash);
    for args in [&[][..], &ACCEPT[..]] {
        for (kind, text) in ran(&home, &calls, args) {
            assert_eq!(kind, "denied", "{text}");
            has(&text, &["runs without a sandbox; `git ", "nobody is there"]);
        }
    }
    let look = ran(
        &home,
        &[bash("git config --list --local"), bash("git remote -v")],
        &[],
    );
    assert!(look.iter().all(|(kind, _)| kind == "done"), "{look:?}");
    let rule = ["--set", "permissions.allow=[\"Full(git config a.b c)\"]"];
    let ran = ran(&home, &calls[..1], &rule);
    assert_eq!(ran[0].0, "done", "{ran:?}");
    let config = fs::read_to_string(home.path(".git/config")).unwrap();
    assert!(config.contains("[a]"), "{config}");
}

#[test]
fn a_file_that_could_not_be_hidden_is_told() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    let rule = ["--set", "permissions.deny=[\"Read(*.key)\"]"];
    for n in 0..20 {
        fs::write(home.path(format!("{n}.key")), "SECRET\n").unwrap();
    }
    let held = ran(&home, &[bash("true")], &rule);
    assert!(!held[0].1.contains("not held"), "{held:?}");
    for n in 20..230 {
        fs::write(home.path(format!("{n}.key")), "SECRET\n").unwrap();
    }
    let told = ran(&home, &[bash("true")], &rule);
    has(&told[0].1, &["[not held: not every file that a rule keeps"]);
}

#[test]
fn files_denied_by_a_read_rule_are_hidden_in_further_folders() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    let more = home.user().join("more");
    fs::create_dir(&more).unwrap();
    fs::write(more.join("x.key"), "SECRET\n").unwrap();
    fs::write(more.join("x.txt"), "seen\n").unwrap();
    let read = format!("sandbox.read=[{}]", json!(more));
    let args = [
        "--set",
        "permissions.deny=[\"Read(/**/*.key)\"]",
        "--set",
        &read,
    ];
    let line = format!("cat {}/x.txt; k=key; cat {0}/x.$k", more.display());
    let ran = ran(&home, &[bash(&line)], &args);
    has(&ran[0].1, &["seen"]);
    assert!(!ran[0].1.contains("SECRET"), "{ran:?}");
}

#[test]
fn files_denied_by_a_read_rule_are_hidden_in_path_folders() {
    let line = "cat $TOOLS/x.txt; k=key; cat $TOOLS/x.$k; cat $TOOLS/of-model";
    let home = calling(&[bash(line)]);
    if !has_sandbox(&home) {
        return;
    }
    let tools = home.user().join("tools");
    fs::create_dir(&tools).unwrap();
    for name in ["x.key", "of-model"] {
        fs::write(tools.join(name), "SECRET\n").unwrap();
    }
    fs::write(tools.join("x.txt"), "seen\n").unwrap();
    let key_file = format!(
        "{SCRIPTED}[providers.other]\nprotocol = \"openai-chat\"\nbase_url = \"http://127.0.0.1:9\"\n\
         api_key_file = {}\n",
        json!(tools.join("of-model"))
    );
    home.write_config(&key_file);
    let deny = "permissions.deny=[\"Read(/**/*.key)\"]";
    let mut command = home.rewake(["-p", "x", "--output-format", "stream-json"]);
    command.args(["--set", deny]);
    let usual = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{usual}", tools.display()));
    command.env("TOOLS", &tools);
    let run = support::run(command, LIMIT).expect(0);
    let ran = results(&run);
    has(&ran[0].1, &["seen"]);
    assert!(!ran[0].1.contains("SECRET"), "{ran:?}");
}

#[test]
fn a_failure_that_looks_like_the_sandbox_is_counted() {
    let home = calling(&[bash("touch x"), bash("true"), bash("exit 3")]);
    if !has_sandbox(&home) {
        return;
    }
    let run = home.run(["-p", "x", "--output-format", "json"]).expect(0);
    let result: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(result["refused_by_sandbox"], 1);
    has(
        &run.stderr,
        &["1 command failed in a way that looks like the sandbox"],
    );
    play(&home, &[step("", &[bash("exit 3")]), step("done", &[])]);
    let run = home.run(["-p", "x"]).expect(0);
    assert!(
        !run.stderr.contains("looks like the sandbox"),
        "{}",
        run.stderr
    );
}

#[test]
fn the_home_folder_as_workspace_is_not_written_unasked() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    for folder in [home.user(), Path::new("/").to_path_buf()] {
        play(
            &home,
            &[step("", &[bash("touch x.wire")]), step("done", &[])],
        );
        let args = ["-p", "x", "--output-format", "stream-json"];
        let mut command = home.rewake(args.iter().chain(&ACCEPT));
        command.current_dir(&folder);
        let run = support::run(command, crate::cli::LIMIT).expect(0);
        has(
            &results(&run)[0].1,
            &["access read", "looks like the sandbox"],
        );
        assert!(!folder.join("x.wire").exists());
    }
}

#[test]
fn a_temporary_folder_that_is_missing_keeps_no_command_from_running() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    play(
        &home,
        &[
            step("", &[bash("echo a > $TMPDIR/a && cat $TMPDIR/a")]),
            step("done", &[]),
        ],
    );
    let args = ["-p", "x", "--output-format", "stream-json"];
    let mut command = home.rewake(args);
    command.env("TMPDIR", home.path("there/is/none"));
    let run = support::run(command, crate::cli::LIMIT).expect(0);
    assert_eq!(results(&run)[0], ("done".into(), "a\n".into()));
}

#[test]
fn the_model_is_told_that_nobody_answers_and_of_another_mode() {
    let home = scripted(&[step("one", &[])]);
    home.run(["-p", "x"]).expect(0);
    play(&home, &[step("two", &[])]);
    let run = streamed(&home, &["-p", "y", "-c", "--permission-mode", "plan"]).expect(0);
    let events = run.events();
    let noted: Vec<&str> = events
        .iter()
        .filter(|e| e["type"] == "entry.noted")
        .filter_map(|e| e["text"].as_str())
        .collect();
    let [noted] = noted[..] else {
        panic!("{noted:?}");
    };
    assert!(
        noted.starts_with("the mode is plan now\nedits: are denied in plan mode."),
        "{noted}"
    );
    // A person reads that the mode changed, and not what the model may do.
    let id = newest(&home);
    let shown = home.run(["show", &id]).expect(0).stdout;
    assert!(shown.contains("the mode is plan now"), "{shown}");
    assert!(!shown.contains("are denied in plan mode"), "{shown}");
    play(&home, &[step("three", &[])]);
    let run = streamed(&home, &["-p", "z", "-c"]).expect(0);
    assert!(run.events().iter().all(|e| e["type"] != "entry.noted"));
}

/// A rule names a file through a folder that is a link. Commands find it under its other path, too.
#[test]
fn a_rule_through_a_link_hides_the_file_itself() {
    let home = scripted(&[]);
    if !has_sandbox(&home) {
        return;
    }
    let ws = home.workspace();
    fs::create_dir_all(ws.join("real/kept")).unwrap();
    fs::write(ws.join("real/one"), "SECRET").unwrap();
    fs::write(ws.join("real/kept/two"), "SECRET").unwrap();
    fs::write(ws.join("real/open"), "shown").unwrap();
    symlink("real", ws.join("led")).unwrap();
    let rules = "[permissions]\ndeny = [\"Read(led/one)\", \"Read(led/kept/**)\"]\n";
    home.write_config(&format!("{SCRIPTED}{rules}"));
    let line = "cat real/one led/one real/kept/two; cat real/open";
    fs::write(ws.join("look.sh"), line).unwrap();
    let (_, text) = &ran(&home, &[bash("sh look.sh")], &[])[0];
    assert!(!text.contains("SECRET"), "{text}");
    has(text, &["shown"]);
}
