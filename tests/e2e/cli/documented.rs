//! The commands of the README and of `docs`: each `sh` block runs as it is printed, in a home with a
//! scripted model, and ends with exit code 0.
//!
//! A comment before a block says what is different:
//!
//! - `<!-- not run: REASON -->`: it needs the network, an account, another program or another machine.
//!   Its options must exist.
//! - `<!-- each line by itself -->`: the lines are alternatives, and each gets its own home.
//! - `<!-- each line by itself, with a question -->`: a question of the session is open, too.
//!
//! `ID` and the ID that the pages show stand for the session of the home, `ENTRY` for one of its
//! entries, and `[CALL]` or `[--option]` may be left out.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use regex::{NoExpand, Regex};
use rustix::process::Signal;

use crate::cli::{LIMIT, newest};
use support::{Home, Live, Run, Terminal, program, run};

const CONFIG: &str = "model = \"played/any\"\n[permissions]\nallow = [\"Bash(echo:*)\"]\n\
    [providers.played]\nprotocol = \"script\"\nscript = \"script.toml\"\n\
    [models.\"played/any\"]\ninput_price = 1\noutput_price = 1\n";

/// Needs of a block that a test cannot fulfil.
const NEEDED: [&str; 5] = [
    " the network",
    " another machine",
    " account",
    " another program",
    " the program ",
];

/// Parts of the lines that run until somebody stops them.
const ENDLESS: [&str; 2] = ["rewake serve", " --watch"];

/// A block of commands of a page.
struct Block {
    place: String,
    mark: String,
    lines: Vec<String>,
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries = std::fs::read_dir(root.join("docs")).unwrap();
    let mut pages: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    pages.push(root.join("README.md"));
    pages.retain(|path| path.extension().is_some_and(|e| e == "md"));
    pages.sort();
    pages
}

fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        let mut before = "";
        let mut lines = text.lines().enumerate();
        while let Some((at, line)) = lines.next() {
            if let Some(language) = line.strip_prefix("```") {
                let inside = lines.by_ref().map(|(_, line)| line.to_string());
                let inside = inside.take_while(|line| !line.starts_with("```")).collect();
                let mark = before.strip_prefix("<!-- ");
                let mark = mark.and_then(|mark| mark.strip_suffix(" -->"));
                if language == "sh" {
                    blocks.push(Block {
                        place: format!("{name}:{}", at + 1),
                        mark: mark.unwrap_or_default().to_string(),
                        lines: inside,
                    });
                }
            }
            before = line;
        }
    }
    blocks
}

/// A home with a session in a git repository. It is finished, or asks.
struct Scene {
    home: Home,
    id: String,
}

/// The steps of the session: two changes of a file with many commands between, or a question.
fn steps(asks: bool) -> String {
    let step = |name: &str, arguments: &str| {
        format!("[[step]]\ncalls = [{{ name = \"{name}\", arguments = {{ {arguments} }} }}]\n")
    };
    let write = |text: &str| {
        step(
            "write",
            &format!("path = \"src/a.rs\", content = \"{text}\\n\""),
        )
    };
    // The same command again and again would be stopped as a repetition.
    let echo = |n: u32| step("bash", &format!("command = \"echo so {n}\""));
    if asks {
        return step("bash", "command = \"touch x\", access = \"full\"");
    }
    let read = step("read", "path = \"src/a.rs\"");
    read + &write("second") + &(0..14).map(echo).collect::<String>() + &write("third")
}

impl Scene {
    fn new(asks: bool) -> Scene {
        let home = Home::new();
        // The second is the folder that a job keeps between its attempts.
        for folder in [home.rewake_home(), home.path(".ci-rewake")] {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("config.toml"), CONFIG).unwrap();
            let answers = "[[step]]\ntext = '{\"n\": 3}'\n".repeat(8);
            std::fs::write(folder.join("script.toml"), steps(asks) + &answers).unwrap();
        }
        for folder in ["src", "your/project", "../other-project"] {
            std::fs::create_dir_all(home.path(folder)).unwrap();
        }
        let files = [
            ("task.md", "fix it\n"),
            ("endpoints.json", "{\"type\": \"object\"}\n"),
            (".gitignore", ".ci-rewake\n"),
            ("src/a.rs", "first\n"),
        ];
        for (name, text) in files {
            std::fs::write(home.path(name), text).unwrap();
        }
        home.git(&["init", "-q"]);
        home.git(&["add", "."]);
        home.git(&["commit", "-qm", "first"]);
        let task = ["-p", "the task", "--permission-mode", "acceptEdits"];
        if asks {
            let waits = task.into_iter().chain(["--on-approval", "wait=1s"]);
            home.run(waits).expect(75);
        } else {
            home.run(task).expect(0);
        }
        let id = newest(&home);
        Scene { home, id }
    }

    /// Replaces what a reader replaces.
    fn filled_in(&self, line: &str) -> String {
        let rest = Regex::new(r" \[(--[^\]]*|[A-Z]+)\]").unwrap();
        let line = rest.replace_all(line, "");
        let id = Regex::new(r"(^|[ :/=])(ID|01a1fc22-62bf)\b").unwrap();
        let line = id.replace_all(&line, format!("${{1}}{}", self.id));
        let entry = Regex::new(r"\bENTRY\b").unwrap();
        entry.replace_all(&line, NoExpand("40")).into_owned()
    }

    fn shell(&self, text: &str) -> Command {
        let like = self.home.rewake(["--version"]);
        let mut command = Command::new("sh");
        command
            .args(["-e", "-c", text])
            .env_clear()
            .current_dir(self.home.workspace());
        for (name, value) in like.get_envs() {
            command.envs(value.map(|value| (name, value)));
        }
        let folder = program().parent().unwrap().to_path_buf();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([folder].into_iter().chain(std::env::split_paths(&path)));
        command.env("PATH", path.unwrap());
        command.env("JOB_UUID", "6f1c0a2e-7d10-4c55-9d0e-0d6f6f3f0a77");
        command.stdin(Stdio::null());
        command
    }

    /// Returns why the text does not work as a person runs it.
    fn fault(&self, help: &Help, text: &str) -> Option<String> {
        let last = text.lines().last().unwrap_or_default();
        if ENDLESS.iter().any(|part| last.contains(part)) {
            // The port of the default may be in use on the machine of the test.
            let text = text.replace("rewake serve", "rewake serve --listen 127.0.0.1:0");
            let mut live = Live::spawn(self.shell(&format!("exec {text}")));
            live.wait_for(LIMIT, |_| true);
            return (!live.kill()).then(|| "it ended by itself".to_string());
        }
        if help.is_of_screen(last) {
            let mut terminal = Terminal::of(self.shell(text));
            terminal.waits("takes keys", |screen| screen.contains('›'));
            let status = quit(&mut terminal);
            return (!status).then(|| terminal.screen());
        }
        let mut command = self.shell(text);
        if last.starts_with("rewake key ") {
            command = self.shell(&format!("echo sk-test | {last}"));
        }
        let Run {
            status,
            stdout,
            stderr,
        } = run(command, LIMIT);
        (!status.success()).then(|| format!("{status}\n{stdout}\n{stderr}"))
    }
}

/// Presses Ctrl+C until the screen is left. Returns whether nothing failed. A key that comes after the
/// screen was left interrupts the program.
fn quit(terminal: &mut Terminal) -> bool {
    let end = Instant::now() + LIMIT;
    while !terminal.has_ended() {
        let before = terminal.screen();
        let raw = terminal.raw();
        let has_left = raw.rfind("\x1b[?1049l") > raw.rfind("\x1b[?1049h");
        if !has_left && !before.contains("quitting") {
            terminal.types("\x03");
        }
        while !terminal.has_ended() && terminal.screen() == before {
            assert!(Instant::now() < end, "it does not end:\n{before}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let status = terminal.ends();
    let interrupt = Signal::INT.as_raw();
    status.success() || status.signal() == Some(interrupt) || status.code() == Some(128 + interrupt)
}

/// The help texts of the program, by the words before `--help`.
#[derive(Default)]
struct Help(BTreeMap<String, String>);

impl Help {
    fn new() -> Help {
        let mut help = Help::default();
        help.add("");
        help
    }

    /// Adds the help of these words. Returns whether there is one.
    fn add(&mut self, words: &str) -> bool {
        if self.0.contains_key(words) {
            return true;
        }
        let mut command = Command::new(program());
        command
            .args(words.split_whitespace())
            .arg("--help")
            .env_clear();
        let run = run(command, LIMIT);
        if run.status.success() {
            self.0.insert(words.to_string(), run.stdout);
        }
        run.status.success()
    }

    fn is_command(&self, word: &str) -> bool {
        let row = format!("\n  {word} ");
        self.0[""].contains(&row)
    }

    /// Returns whether a line opens the screen: `rewake` without a command and `-p`.
    fn is_of_screen(&self, line: &str) -> bool {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        words.next() == Some("rewake") && words.all(|word| word != "-p" && !self.is_command(word))
    }

    /// Returns the options in the words after `rewake` that do not exist.
    fn unknown(&mut self, words: &str) -> Vec<String> {
        let own = words.split(" -- ").next().unwrap_or_default();
        let own = own.split(['|', '#']).next().unwrap_or_default();
        let path: Vec<&str> = own
            .split_whitespace()
            .take_while(|word| {
                word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-')
            })
            .take(2)
            .collect();
        let mut faults = Vec::new();
        let mut known = String::new();
        match path[..] {
            [command, ..] if !self.is_command(command) => faults.push(command.to_string()),
            [command, part] if self.add(&format!("{command} {part}")) => {
                known += &self.0[&format!("{command} {part}")];
            }
            _ => {}
        }
        let command = path
            .first()
            .filter(|command| self.is_command(command))
            .unwrap_or(&"");
        self.add(command);
        known += &self.0[*command];
        let option = Regex::new(r"(?:^|[ \[|])(--[a-z][a-z-]+)").unwrap();
        let options = option.captures_iter(own).map(|found| found[1].to_string());
        let is_unknown = |option: &String| {
            let whole = Regex::new(&format!(r"{option}(?:[^a-z-]|$)")).unwrap();
            !whole.is_match(&known)
        };
        faults.extend(options.filter(is_unknown));
        faults
    }
}

#[test]
fn every_block_of_the_documentation_runs_as_it_is_printed() {
    let help = Help::new();
    let mut faults = Vec::new();
    let mut count = 0;
    for block in blocks() {
        if let Some(reason) = block.mark.strip_prefix("not run: ") {
            let is_good = NEEDED.iter().any(|needed| reason.contains(needed));
            assert!(is_good, "{}: {reason:?} is not a reason", block.place);
            continue;
        }
        let is_alone = block.mark.starts_with("each line by itself");
        let asks = block.mark.ends_with(", with a question");
        let lines = block.lines.iter().filter(|line| !line.is_empty());
        let mut scene = Scene::new(asks);
        let is_of_screen = block.lines.iter().any(|line| help.is_of_screen(line));
        // Commands before the screen opens apply to it, such as `cd`.
        let mut before = String::new();
        let texts: Vec<String> = if is_alone || is_of_screen {
            lines.cloned().collect()
        } else {
            vec![block.lines.join("\n")]
        };
        for (n, text) in texts.iter().enumerate() {
            if is_alone && n > 0 {
                scene = Scene::new(asks);
            }
            let is_set_up = ["cd ", "export "].iter().any(|word| text.starts_with(word));
            if is_set_up && is_of_screen {
                before += &format!("{text}\n");
                continue;
            }
            count += 1;
            let text = scene.filled_in(&format!("{before}{text}"));
            if let Some(fault) = scene.fault(&help, &text) {
                faults.push(format!("{}: {text}\n{fault}", block.place));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    assert!(count > 35, "only {count} commands were found");
}

#[test]
fn every_option_in_the_documentation_exists() {
    let inline = Regex::new(r"`rewake ([^`\n]+)`").unwrap();
    let mut help = Help::new();
    let mut faults = Vec::new();
    let command = Regex::new(r"(?m)(?:^|[`| ])rewake ([^`\n]+)").unwrap();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let inline = inline
            .captures_iter(&text)
            .map(|found| found[1].to_string());
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        let blocks = blocks()
            .into_iter()
            .filter(|block| block.place.starts_with(&name));
        let printed: Vec<String> = blocks.flat_map(|block| block.lines).collect();
        let printed = printed.join("\n").replace("\\\n", "");
        let printed = command
            .captures_iter(&printed)
            .map(|found| found[1].to_string());
        for words in inline.chain(printed) {
            for fault in help.unknown(&words) {
                faults.push(format!("{name}: rewake {words}: there is no {fault}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_wrong_option_and_a_failing_command_are_found() {
    let mut help = Help::new();
    assert_eq!(help.unknown("rewind ID --filez -- --x"), ["--filez"]);
    assert_eq!(help.unknown("--on wait"), ["--on"], "--on-approval");
    assert!(help.unknown("mcp add NAME --header H").is_empty());
    assert_eq!(help.unknown("hystory"), ["hystory"]);
    assert!(help.is_of_screen("rewake -r ID  # history lists all"));
    assert!(!help.is_of_screen("rewake history"));
    let scene = Scene::new(false);
    assert!(scene.fault(&help, "rewake show nothing").is_some());
    let filled_in = scene.filled_in("rewake allow ID [CALL] \"a [b]\"");
    assert_eq!(filled_in, format!("rewake allow {} \"a [b]\"", scene.id));
}
