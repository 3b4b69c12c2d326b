//! The pictures of the README and of docs, taken from the real program on a terminal:
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

mod svg;

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use regex::Regex;

use support::{ENTER, ESC, Home, Terminal};

/// Colours of code and previews come a moment after their text. A screen with a clock on it
/// is never calm for long.
const CALM: Duration = Duration::from_millis(400);

const TASK: &str = "The total is wrong: sh test.sh fails. Find out why and fix it.";

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
        { text = "fix total.sh", state = "left" },
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
        { text = "fix total.sh", state = "done" },
        { text = "run the whole test", state = "current" },
    ] } },
    { name = "bash", arguments = { command = "sh test.sh" } },
]

[[step]]
text = """`total.sh` subtracted where it should add. It is fixed, and the whole test passes:

| input | before | now |
|---|---|---|
| `1 2 3` | -6 | 6 |
"""
"#;

/// A theme, the paper that it is for, and what the names of its pictures end with.
struct Look {
    theme: &'static str,
    paper: svg::Paper,
    ending: &'static str,
}

const LOOKS: [Look; 2] = [
    Look {
        theme: "dark",
        paper: svg::DARK,
        ending: "",
    },
    Look {
        theme: "light",
        paper: svg::LIGHT,
        ending: "-light",
    },
];

/// The end of the name of a picture, and its columns and rows. The program continues in the last
/// size.
const SIZES: [(&str, (u16, u16)); 3] = [
    ("-80x24", (80, 24)),
    ("-120x40", (120, 40)),
    ("", (100, 30)),
];

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
    for look in &LOOKS {
        all(look);
        kill_and_resume(look);
    }
}

#[test]
fn the_pictures_show_the_program_as_it_is() {
    for look in &LOOKS {
        let home = Home::new();
        let project = project(&home, look);
        let terminal = asked(&home, &project);
        let file = file(look, "approval");
        let known = std::fs::read_to_string(&file).unwrap_or_default();
        // Words with their colours; how long something took is another each time.
        let now = words(&picture(&terminal, APPROVAL, look));
        assert!(
            words(&known) == now,
            "{} is not what the screen shows now; assets/pictures/make takes the pictures anew.\n{now:#?}",
            file.display()
        );
    }
}

/// A page shows the one that fits its reader's colours.
#[test]
fn each_picture_is_there_in_dark_and_in_light() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/pictures");
    let names = std::fs::read_dir(folder).expect("the pictures");
    let names = names.map(|entry| entry.expect("a picture").file_name());
    let names: BTreeSet<String> = names
        .filter_map(|name| Some(name.to_str()?.strip_suffix(".svg")?.to_string()))
        .collect();
    let dark = names.iter().filter(|name| !name.ends_with("-light"));
    for name in dark {
        let words = LOOKS.map(|look| {
            let text = std::fs::read_to_string(file(&look, name)).expect("a picture");
            let text = words(&text).into_iter();
            text.map(|line| line["#000000 ".len()..].to_string())
                .collect::<Vec<_>>()
        });
        let [dark, light] = words.map(|words| words.concat().replace(' ', ""));
        assert!(!dark.is_empty(), "{name}");
        // What runs was looked at at another moment.
        let sizes = SIZES.iter().map(|(ending, _)| *ending);
        let screen = sizes
            .filter(|ending| !ending.is_empty())
            .find_map(|ending| name.strip_suffix(ending));
        if !MOVING.contains(&screen.unwrap_or(name)) {
            assert_eq!(dark, light, "{name}");
        }
    }
    assert!(names.len() >= 56, "{names:?}");
}

/// Pictures with a command that runs.
const MOVING: [&str; 3] = ["conversation", "kill-and-resume", "resume"];

/// The texts of a picture, each with its colour.
fn words(picture: &str) -> Vec<String> {
    let text = Regex::new(r#"fill="(#[0-9a-f]{6})"[^>]*>([^<]*)</text>"#).expect("a pattern");
    let took = Regex::new(r"\s*\b\d+(\.\d)? (s|min)\b").expect("a pattern");
    let texts = text.captures_iter(picture).map(|found| {
        let words = took.replace_all(&found[2], "");
        format!("{} {}", &found[1], words.trim_end())
    });
    texts.filter(|text| text.len() > "#000000 ".len()).collect()
}

const APPROVAL: &str = "The model asks before it changes a file";

/// The task was given, and it asks.
fn asked(home: &Home, project: &Path) -> Terminal {
    let mut terminal = start(home, project);
    terminal.sees("Describe a task");
    terminal.types(TASK);
    terminal.types(ENTER);
    terminal.answers("Enter chooses", "");
    while !["5 -", "5 +"]
        .iter()
        .all(|line| is_coloured(&terminal, line))
    {
        std::thread::sleep(CALM / 10);
    }
    std::thread::sleep(CALM);
    terminal
}

/// Whether code in the line with these words has the colours of its language: the mark, the line
/// and the part that changed have three others.
fn is_coloured(terminal: &Terminal, words: &str) -> bool {
    terminal.cells(|screen| {
        let (rows, columns) = screen.size();
        let line = screen
            .rows(0, columns.get())
            .position(|row| row.contains(words));
        let row = line.and_then(|row| u16::try_from(row).ok());
        row.filter(|row| *row < rows.get()).is_some_and(|row| {
            let cells = (0..columns.get()).filter_map(|column| screen.cell(row, column));
            let colours: HashSet<_> = cells
                .filter(|cell| !cell.contents().trim().is_empty())
                .map(|cell| format!("{:?}", cell.fgcolor()))
                .collect();
            colours.len() > 3
        })
    })
}

fn all(look: &Look) {
    let home = Home::new();
    let project = project(&home, look);
    let take = |terminal: &Terminal, name: &str, title: &str| {
        for (ending, (columns, rows)) in SIZES {
            terminal.resize(columns, rows);
            std::thread::sleep(CALM);
            let picture = picture(terminal, title, look);
            let file = file(look, &format!("{name}{ending}"));
            std::fs::write(file, picture).expect("write a picture");
        }
    };
    // In a separate home: the first start shows a notice.
    let new = Home::new();
    let terminal = start(&new, &self::project(&new, look));
    terminal.sees("Describe a task");
    take(&terminal, "start", "An empty session");
    terminal.kill();
    let mut terminal = asked(&home, &project);
    take(&terminal, "approval", APPROVAL);
    terminal.chooses("y");
    terminal.sees("checking part 2 of 6");
    terminal.types("and then say what was wrong");
    terminal.types(ENTER);
    terminal.sees("queued");
    take(
        &terminal,
        "conversation",
        "A conversation: the diff, the plan, a command that runs",
    );
    terminal.kill();

    let mut terminal = start(&home, &project);
    terminal.sees("still running");
    terminal.sees("checking part");
    terminal.answers("Enter resume", "");
    take(
        &terminal,
        "resume",
        "After the kill: what was going on, and what still runs",
    );
    terminal.types(ENTER);
    terminal.sees("the whole test passes");
    take(&terminal, "resumed", "The command's real output arrived");
    terminal.types("?");
    terminal.sees("Conversation");
    take(&terminal, "help", "Every key");
    terminal.types(ESC);
    terminal.no_longer_sees("Esc closes");
    terminal.types("/context\r");
    terminal.sees("window");
    take(
        &terminal,
        "context",
        "What the context window is filled with",
    );
    terminal.types(ESC);
    terminal.no_longer_sees("Esc closes");
    terminal.types("\x1bOQ");
    terminal.sees("search: everything said");
    take(
        &terminal,
        "history",
        "History: all sessions, filtered as you type",
    );
    terminal.types("\x1b[C");
    terminal.sees("answer");
    take(
        &terminal,
        "checkpoints",
        "The checkpoints of a session, and what was said there",
    );
    terminal.kill();
}

/// Takes the animation of the README: one run, with a kill in the middle.
fn kill_and_resume(look: &Look) {
    let home = Home::new();
    let project = project(&home, look);
    let mut scenes = Vec::new();
    let mut add = |frame: String, caption, seconds| {
        scenes.push(svg::Scene {
            frame,
            caption,
            seconds,
        });
    };
    let frame = |terminal: &Terminal| {
        std::thread::sleep(CALM);
        terminal.cells(|screen| svg::frame(screen, &look.paper, same_each_time()))
    };
    let mut terminal = asked(&home, &project);
    terminal.chooses("y");
    terminal.sees("checking part 1 of 6");
    let running = "The agent has fixed the bug and runs the slow test.";
    add(frame(&terminal), running, 2);
    terminal.sees("checking part 2 of 6");
    add(frame(&terminal), running, 2);
    let agent = terminal.id();
    terminal.kill();

    let ps = home.rewake(["ps"]).output().expect("rewake ps");
    let lines = format!(
        "$ kill -9 {agent}\n$ rewake ps\n{}$ rewake",
        String::from_utf8_lossy(&ps.stdout)
    );
    let mut terminal = start(&home, &project);
    let size = terminal.cells(vt100::Screen::size);
    let mut shell = vt100::Parser::new(size.0, size.1, 0);
    shell.process(lines.replace('\n', "\r\n").as_bytes());
    let shell = svg::frame(shell.screen(), &look.paper, same_each_time());
    add(shell, "The agent is killed. The test keeps running.", 4);

    terminal.sees("still running");
    terminal.sees("checking part");
    terminal.answers("Enter resume", "");
    add(
        frame(&terminal),
        "A new start offers the unfinished session.",
        4,
    );
    terminal.types(ENTER);
    terminal.sees("the whole test passes");
    add(
        frame(&terminal),
        "The real output of the test arrives. It ran once.",
        5,
    );
    let title = "An agent is killed while a test runs, and resumed: the output of the test arrives";
    let animation = svg::animation(size, &scenes, title, &look.paper);
    std::fs::write(file(look, "kill-and-resume"), animation).expect("write a picture");
    terminal.kill();
}

/// A folder `~/project` with a small program whose test fails.
fn project(home: &Home, look: &Look) -> PathBuf {
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
    home.write_config(&format!("theme = \"{}\"\n{CONFIG}", look.theme));
    std::fs::write(home.rewake_home().join("answers.toml"), ANSWERS).expect("the answers");
    project
}

fn start(home: &Home, project: &Path) -> Terminal {
    let mut command = home.rewake::<&str>([]);
    command
        .env("COLORTERM", "truecolor")
        .env("LANG", "C.UTF-8")
        .current_dir(project);
    Terminal::of(command)
}

fn picture(terminal: &Terminal, title: &str, look: &Look) -> String {
    terminal.cells(|screen| svg::picture(screen, title, &look.paper, same_each_time()))
}

fn file(look: &Look, name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/pictures");
    folder.join(format!("{name}{}.svg", look.ending))
}

/// What no two runs have in common, written over.
fn same_each_time() -> impl Fn(&str) -> String {
    let rules = [
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}\b", "01a1fc18-224f"),
        (r"saved \d\.\d s ago", "saved 0.2 s ago"),
        (r"saved \d\d s ago", "saved 20 s ago"),
        (r"running in \d{5}\b", "running in 14458"),
        (r"kill -9 \d+", "kill -9 14458"),
        (r"group \d+", "group 14460"),
        (r"\b20\d\d-\d\d-\d\d", "2026-11-21"),
        (r"\b\d\d:\d\d\b", "10:24"),
        (r"\S*/rewake-test-\w+/user", "~"),
    ];
    let rules = rules.map(|(pattern, same)| (Regex::new(pattern).expect("a pattern"), same));
    move |text| {
        rules
            .iter()
            .fold(text.to_string(), |text, (pattern, same)| {
                pattern.replace_all(&text, *same).into_owned()
            })
    }
}
