//! What the screen's commands show, write, and put on the clipboard.

use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::json;

use crate::pty::{scripted, step};
use support::{ENTER, ESC, Home, Terminal, git};

/// A screen with one answer on it.
fn talked(home: &Home) -> Terminal {
    let terminal = Terminal::start(home, &["how much is it?"]);
    terminal.sees("The answer is 42.");
    terminal
}

fn one_answer() -> Home {
    scripted(&[step("The answer is 42.", &[])])
}

/// The session that is open stays open when the fork that is asked for cannot be made.
#[test]
fn a_fork_at_an_entry_that_is_not_there_leaves_the_session_open() {
    let home = scripted(&[
        step("The answer is 42.", &[]),
        step("I am still here.", &[]),
    ]);
    let mut terminal = talked(&home);
    terminal.sees("Describe a task");
    terminal.says("/fork 9999");
    terminal.sees("there is no entry 9999 of session");
    terminal.sees("hint: the last is");
    terminal.no_longer_sees("looking for the session");
    terminal.says("are you there?");
    terminal.sees("I am still here.");
    assert_eq!(home.run(["history"]).expect(0).stdout.lines().count(), 1);
}

#[test]
fn diff_shows_what_changed_since_the_last_commit() {
    let home = one_answer();
    let mut terminal = talked(&home);
    terminal.says("/diff");
    terminal.sees("git diff:");

    git(&home.workspace(), &["init", "-q"]);
    std::fs::write(home.path("price.txt"), "41 euros\n").unwrap();
    git(&home.workspace(), &["add", "."]);
    git(&home.workspace(), &["commit", "-qm", "one"]);
    terminal.says("/diff");
    terminal.sees("no file of the repository is changed");

    std::fs::write(home.path("price.txt"), "43 euros\n").unwrap();
    terminal.says("/diff");
    terminal.sees("1 file · +1 −1 · 0 seen");
    terminal.types(ENTER);
    terminal.sees("1 - 41 euros");
    terminal.sees("1 + 43 euros");
    terminal.types("q");
    terminal.no_longer_sees("43 euros");

    // Where the repository has git run a program, git is not asked, and that is said.
    git(
        &home.workspace(),
        &["config", "diff.external", "touch ran; true"],
    );
    terminal.says("/diff");
    terminal.sees("diff.external");
    terminal.sees("`rewake diff ID` shows what changed in a session");
    assert!(!home.path("ran").exists());
}

#[test]
fn doctor_shows_the_report_of_the_command() {
    let home = one_answer();
    let report = home.run(["doctor"]).stdout;
    let line = |word: &str| report.lines().find(|l| l.contains(word)).unwrap();
    let mut terminal = talked(&home);
    terminal.says("/doctor");
    terminal.sees(line("shell "));
    terminal.types("G");
    terminal.sees(line("git version"));
    terminal.types(ESC);
    terminal.no_longer_sees("git version");
}

#[test]
fn skills_shows_those_found_here_and_what_is_wrong_with_the_others() {
    let home = one_answer();
    let mut terminal = talked(&home);
    terminal.says("/skills");
    terminal.sees("no skill was found in .rewake/skills");
    terminal.types(ESC);
    terminal.no_longer_sees("no skill was found");

    let put = |name: &str, text: &str| {
        let folder = home.path(".agents/skills").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("SKILL.md"), text).unwrap();
    };
    put(
        "mend",
        "---\nname: mend\ndescription: mends what is broken\n---\nFirst look.\n",
    );
    put("bad", "no front matter\n");
    terminal.says("/skills");
    terminal.sees("mends what is broken");
    terminal.sees("mend/SKILL.md");
    terminal.sees("bad/SKILL.md is not used");
    assert!(!terminal.screen().contains("First look."));
}

#[test]
fn memory_shows_what_is_remembered_here_and_searches_it() {
    let keep = |text: &str, topic: &str| {
        let memory = json!({"text": text, "kind": "semantic", "topic": topic});
        ("memory_insert", memory)
    };
    let calls = [
        keep("the tests need docker", "tests"),
        keep("the office closes at noon", "hours"),
    ];
    let home = scripted(&[step("", &calls), step("The answer is 42.", &[])]);
    let mut terminal = Terminal::start(&home, &[]);
    terminal.sees("Describe a task");
    terminal.says("/memory");
    terminal.sees("nothing is remembered here yet");
    terminal.types(ESC);
    terminal.no_longer_sees("nothing is remembered here yet");
    terminal.says("keep it in mind");
    terminal.sees("The answer is 42.");

    terminal.says("/memory");
    terminal.sees("memory of this workspace");
    terminal.sees("semantic · tests ·");
    terminal.sees("semantic · hours ·");
    terminal.types(ESC);
    terminal.no_longer_sees("memory of this workspace");
    terminal.says("/memory docker");
    terminal.sees("semantic · tests ·");
    assert!(!terminal.screen().contains("semantic · hours"));
    terminal.types(ESC);
    terminal.no_longer_sees("memory of this workspace");
    terminal.says("/memory kubernetes");
    terminal.sees("matches \"kubernetes\"");
}

#[test]
fn export_writes_the_conversation_to_a_file() {
    let home = one_answer();
    let mut terminal = talked(&home);
    terminal.says("/export talk.md");
    terminal.sees("written to");
    let talk = home.read("talk.md");
    assert!(
        talk.contains("how much is it?") && talk.contains("The answer is 42."),
        "{talk}"
    );
    terminal.says("/export talk.json");
    terminal.sees("talk.json");
    crate::pty::wait_for(&home, "talk.json");
    let talk: serde_json::Value = serde_json::from_str(&home.read("talk.json")).unwrap();
    assert!(talk.to_string().contains("The answer is 42."), "{talk}");

    // Without a name: one that is free, each time.
    terminal.says("/export");
    terminal.waits("no file is named", |_| exported(&home) == 1);
    terminal.says("/export");
    terminal.sees("-2.md");
    assert_eq!(exported(&home), 2);

    terminal.says("/export no/such/folder/talk.md");
    terminal.sees("No such file");
}

fn exported(home: &Home) -> usize {
    let files = std::fs::read_dir(home.workspace()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.starts_with("rewake-") && name.ends_with(".md"))
        .count()
}

/// OSC 52: the terminal's own clipboard, which is that of the person before it, also over ssh.
fn copied(terminal: &Terminal) -> Option<String> {
    let raw = terminal.raw();
    let coded = raw.rsplit_once("\x1b]52;c;")?.1.split_once('\x07')?.0;
    let bytes = base64::engine::general_purpose::STANDARD.decode(coded);
    Some(String::from_utf8(bytes.unwrap()).unwrap())
}

/// The answer that is copied is one that is recorded, a moment after it was seen.
#[track_caller]
fn copy_until(terminal: &mut Terminal, holds: impl Fn(&Terminal) -> bool) {
    let end = Instant::now() + Duration::from_secs(90);
    while !holds(terminal) {
        assert!(Instant::now() < end, "not copied:\n{}", terminal.screen());
        terminal.types("\x18y");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_last_answer_is_put_on_the_clipboard_as_it_was_written() {
    let answer = "It is **42**, ä 漢\u{1f980}.\n\n```sh\necho \"42\"\n```";
    let home = scripted(&[step("The first one.", &[]), step(answer, &[])]);
    let mut terminal = Terminal::start(&home, &["how much is it?"]);
    terminal.sees("The first one.");
    terminal.says("and now?");
    terminal.sees("echo \"42\"");
    copy_until(&mut terminal, |terminal| {
        copied(terminal).as_deref() == Some(answer)
    });
    terminal.sees("copied");
}

#[test]
fn text_too_long_for_the_clipboard_is_not_copied() {
    let home = scripted(&[step(&format!("long {}", "x".repeat(100_000)), &[])]);
    let mut terminal = Terminal::start(&home, &["how much is it?"]);
    terminal.sees("xxxx");
    copy_until(&mut terminal, |terminal| {
        terminal.screen().contains("/export writes it to a file")
    });
    assert_eq!(copied(&terminal), None);
}
