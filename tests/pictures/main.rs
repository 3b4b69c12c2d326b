//! The pictures of the README, taken from the real program on a terminal:
//!
//! ```sh
//! assets/pictures/make
//! ```
//!
//! The model is played from a file; engine, tools, store and screen are the real ones. What is
//! other in each run (ids, the time of day) is written over with the same each time, so that
//! a new picture differs only where the screen does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a picture that cannot be taken ends the run"
)]

#[path = "../support/mod.rs"]
mod support;
mod svg;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use regex::Regex;

use support::{Home, Pty};

const COLUMNS: u16 = 100;
const ROWS: u16 = 30;

const LIMIT: Duration = Duration::from_secs(30);
/// Colours of code and previews come a moment after their text. A screen with a clock on it
/// is never calm for long.
const CALM: Duration = Duration::from_millis(400);

const TASK: &str = "The total is wrong: sh test.sh fails. Find out why, and mend it.";

/// Slow on purpose: it runs while the agent is killed and started again.
const TEST: &str = "#!/bin/sh
part=1
while [ \"$part\" -le 6 ]; do
    echo \"checking part $part of 6\"
    sleep 2
    part=$((part + 1))
done
got=$(sh total.sh 1 2 3)
[ \"$got\" = 6 ] && echo \"ok: the total of 1 2 3 is 6\" && exit 0
echo \"FAILED: the total of 1 2 3 is 6, not $got\"
exit 1
";

const TOTAL: &str = "#!/bin/sh
# Prints the sum of its arguments.
sum=0
for n in \"$@\"; do
    sum=$((sum - n))
done
echo \"$sum\"
";

const ANSWERS: &str = r#"
[[step]]
thinking = "The sum is made in total.sh. I read it before I run anything."
text = "I read the code first."
calls = [
    { name = "plan", arguments = { steps = [
        { text = "find out why the test fails", state = "current" },
        { text = "mend total.sh", state = "left" },
        { text = "run the whole test", state = "left" },
    ] } },
    { name = "read", arguments = { path = "total.sh" } },
]

[[step]]
text = "It **subtracts**: `sum - n` should be `sum + n`."
calls = [
    { name = "edit", arguments = { path = "total.sh", edits = [{ old = "    sum=$((sum - n))", new = "    sum=$((sum + n))" }] } },
]

[[step]]
text = "Now the whole test, which is slow."
calls = [
    { name = "plan", arguments = { steps = [
        { text = "find out why the test fails", state = "done" },
        { text = "mend total.sh", state = "done" },
        { text = "run the whole test", state = "current" },
    ] } },
    { name = "bash", arguments = { command = "sh test.sh" } },
]

[[step]]
text = """`total.sh` subtracted where it should add. It is mended, and the whole test passes:

| input | before | now |
|---|---|---|
| `1 2 3` | -6 | 6 |
"""
"#;

const CONFIG: &str = r#"
model = "played/any"
[permissions]
allow = ["Bash(sh test.sh)"]
[providers.played]
protocol = "script"
script = "answers.toml"
[models."played/any"]
context_window = 200000
"#;

#[test]
#[ignore = "writes assets/pictures; assets/pictures/make runs it"]
fn pictures() {
    let home = Home::new();
    let project = project(&home);

    let mut pty = start(&home, &project);
    pty.wait_for(LIMIT, "say what is to be done");
    pty.send(TASK);
    pty.send("\r");
    pty.wait_for(LIMIT, "edit asks");
    take(&pty, "approval", "The model asks before it changes a file");
    pty.send("y");
    pty.wait_for(LIMIT, "checking part 2 of 6");
    pty.send("and then say what was wrong");
    pty.send("\r");
    pty.wait_for(LIMIT, "queued");
    take(
        &pty,
        "conversation",
        "A conversation: the diff, the plan, a command that runs",
    );
    pty.kill();

    let mut pty = start(&home, &project);
    pty.wait_for(LIMIT, "still running");
    pty.wait_for(LIMIT, "checking part");
    take(
        &pty,
        "resume",
        "After the kill: what was going on, and what still runs",
    );
    pty.send("\r");
    pty.wait_for(LIMIT, "the whole test passes");
    take(&pty, "resumed", "The command's real output arrived");
    pty.send("?");
    pty.wait_for(LIMIT, "Conversation");
    take(&pty, "help", "Every key");
    pty.send("\x1b");
    pty.wait_until(LIMIT, "the help is closed", |text| {
        !text.contains("Esc closes")
    });
    pty.send("/context\r");
    pty.wait_for(LIMIT, "window");
    take(&pty, "context", "What the context window is filled with");
    pty.send("\x1b");
    pty.wait_until(LIMIT, "the figures are closed", |text| {
        !text.contains("Esc closes")
    });
    pty.send("\x1bOQ");
    pty.wait_until(LIMIT, "the history", |text| {
        !text.contains("total.sh subtracted")
    });
    take(
        &pty,
        "history",
        "History: sessions, their checkpoints, and what was said there",
    );
    pty.kill();
}

/// A folder `~/project` with a small program whose test fails.
fn project(home: &Home) -> PathBuf {
    let project = home.user().join("project");
    std::fs::create_dir_all(&project).expect("the project");
    for (name, text) in [("total.sh", TOTAL), ("test.sh", TEST)] {
        std::fs::write(project.join(name), text).expect("a file of the project");
    }
    let git = Command::new("git")
        .args(["init", "--quiet", "--initial-branch=main"])
        .current_dir(&project)
        .status();
    assert!(git.is_ok_and(|status| status.success()), "git init");
    home.write_config(CONFIG);
    std::fs::write(home.rewake_home().join("answers.toml"), ANSWERS).expect("the answers");
    project
}

fn start(home: &Home, project: &Path) -> Pty {
    let mut command = home.rewake::<&str>([]);
    command
        .env("COLORTERM", "truecolor")
        .env("LANG", "C.UTF-8")
        .current_dir(project);
    Pty::spawn(command, COLUMNS, ROWS)
}

fn take(pty: &Pty, name: &str, title: &str) {
    std::thread::sleep(CALM);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/pictures");
    let picture = pty.with(|screen| svg::picture(screen, title));
    std::fs::write(folder.join(format!("{name}.svg")), same_each_time(picture))
        .expect("write a picture");
}

/// What no two runs have in common, as long as it was.
fn same_each_time(picture: String) -> String {
    let rules = [
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}\b", "01a1fc18-224f"),
        (r"saved \d\.\d s ago", "saved 0.2 s ago"),
        (r"saved \d\d s ago", "saved 20 s ago"),
        (r"\b20\d\d-\d\d-\d\d", "2026-11-21"),
        (r"\b\d\d:\d\d\b", "10:24"),
    ];
    rules.iter().fold(picture, |picture, (pattern, same)| {
        let pattern = Regex::new(pattern).expect("a pattern");
        pattern.replace_all(&picture, *same).into_owned()
    })
}
