//! Custom commands without a screen: where they come from, what they say, what is not used.

use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::cli::{LIMIT, refused, scripted, step, stream, streamed};
use support::{Home, Run};

fn put(home: &Home, path: &str, text: impl AsRef<[u8]>) {
    let path = home.path(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A command of the user's own.
fn own(home: &Home, name: &str, text: impl AsRef<[u8]>) {
    let path = home.rewake_home().join("commands").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn answering() -> Home {
    scripted(&[step("done", &[]), step("again", &[]), step("more", &[])])
}

/// Events of this type.
fn events(run: &Run, kind: &str) -> Vec<Value> {
    let events = run.events().into_iter();
    events.filter(|e| e["type"] == kind).collect()
}

fn said(run: &Run) -> String {
    let said = events(run, "entry.said").remove(0);
    said["text"].as_str().unwrap().to_string()
}

#[test]
fn a_custom_command_sends_its_expanded_text() {
    let home = answering();
    put(&home, "docs/rules.md", "Never push.\n");
    own(
        &home,
        "git/commit.md",
        "---\ndescription: commit\n---\nCommit $1 as $2, see @docs/rules.md and @ann.\nAll: $ARGUMENTS\n",
    );
    let run = streamed(&home, &["-p", "/git:commit parser \"fix it\" @x.md $1"]).expect(0);
    let want = "Commit parser as fix it, see @docs/rules.md and @ann.\n\
                All: parser \"fix it\" @x.md $1\n\ndocs/rules.md:\n```\nNever push.\n```";
    assert_eq!(said(&run), want);
    let command = &events(&run, "entry.said")[0]["command"];
    assert_eq!(command["name"], "git:commit");
    assert_eq!(command["arguments"], "parser \"fix it\" @x.md $1");
    // A person sees what was typed, and what it stands for.
    let history = home.run(["history"]).expect(0).stdout;
    assert!(history.contains("/git:commit parser"), "{history}");
    let id = history.split_whitespace().next().unwrap();
    let shown = home.run(["show", id]).expect(0).stdout;
    assert!(
        shown.contains("you: /git:commit parser \"fix it\"") && shown.contains("Never push."),
        "{shown}"
    );
    // The log does not change with the file.
    own(&home, "git/commit.md", "Another text.");
    let again = home.run(["show", id]).expect(0).stdout;
    assert!(again.contains("Commit parser as fix it"), "{again}");
}

#[test]
fn a_command_of_the_folder_needs_trust_in_its_text() {
    let home = answering();
    put(&home, ".claude/commands/review.md", "Review it.");
    let why = ".claude/commands/review.md comes with this folder and is not trusted";
    refused(home.run(["-p", "/review"]), 2, &[why, "`rewake trust`"]);
    let trusted = home.run(["trust", "--yes"]).expect(0).stdout;
    assert!(
        trusted.contains("\n  .claude/commands/review.md\n"),
        "{trusted}"
    );
    assert_eq!(
        said(&streamed(&home, &["-p", "/review"]).expect(0)),
        "Review it."
    );
    // Another text is another matter, and so is a folder that is trusted no longer.
    put(&home, ".claude/commands/review.md", "Review it, and push.");
    refused(
        home.run(["-p", "/review"]),
        2,
        &["changed since it was trusted"],
    );
    home.run(["trust", "--yes"]).expect(0);
    home.run(["-p", "/review"]).expect(0);
    home.run(["trust", "--remove"]).expect(0);
    refused(home.run(["-p", "/review"]), 2, &["is not trusted"]);
}

#[test]
fn its_model_answers_this_request_alone_also_after_a_kill() {
    let slow = "[[step]]\ntext = \"a b c d e f g h i j k l m n o p q r s t u v w x y z\"\n\
                chunk_chars = 1\nchunk_ms = 100\n";
    let home = scripted(&[slow.to_string(), step("done", &[]), step("again", &[])]);
    own(&home, "think.md", "---\nmodel: s/large\n---\nThink.");
    let mut live = stream(&home, &["-p", "/think"]);
    live.wait_for(LIMIT, |line| line.contains("delta.text"));
    assert!(live.kill());
    live.wait(LIMIT);
    let model = |run: &Run| {
        let replied = events(run, "entry.replied");
        replied[0]["model"].as_str().unwrap().to_string()
    };
    let resumed = streamed(&home, &["-p", "-c"]).expect(0);
    assert_eq!(model(&resumed), "s/large");
    let next = streamed(&home, &["-p", "-c", "and now"]).expect(0);
    assert_eq!(model(&next), "s/play");
}

#[test]
fn an_unusable_custom_command_is_an_error_and_sends_nothing() {
    let home = answering();
    own(&home, "missing.md", "See @docs/none.md.");
    own(&home, "huge.md", "See @huge.txt");
    own(&home, "binary.md", "See @binary.bin");
    own(
        &home,
        "itself.md",
        "/itself and $ARGUMENTS and @~/none-at-all",
    );
    own(&home, "broken.md", "---\ndescription: x\n");
    own(&home, "large.md", "x".repeat(10_000_000));
    own(&home, "other.md", "---\nmodel: nobody/x\n---\nhi");
    own(&home, "help.md", "mine");
    put(&home, "huge.txt", "x".repeat(10_000_000));
    put(&home, "binary.bin", b"\xff\xfe");
    for (line, words) in [
        (
            "/missing",
            &["/missing was not sent: @docs/none.md: there is no such file"][..],
        ),
        ("/huge", &["@huge.txt: it is larger than 262144 bytes"]),
        ("/binary", &["@binary.bin: it is not UTF-8 text"]),
        ("/itself x", &["@~/none-at-all: there is no such file"]),
        ("/broken", &["its front matter has no closing line"]),
        ("/large", &["it is larger than 65536 bytes"]),
        ("/other", &["its model nobody/x cannot be asked"]),
        (
            "/mising",
            &["there is no command /mising", "did you mean /missing?"],
        ),
        ("/help", &["/help is a command of the screen"]),
        ("/compact now", &["/compact is a command of the screen"]),
    ] {
        refused(home.run(["-p", line]), 2, words);
    }
    assert_eq!(home.run(["history"]).expect(0).stdout, "");
    // A path is no command, and neither is a line that begins with a space.
    assert_eq!(
        said(&streamed(&home, &["-p", "/etc/hosts is odd"]).expect(0)),
        "/etc/hosts is odd"
    );
    assert_eq!(
        said(&streamed(&home, &["-p", " /mising"]).expect(0)).trim(),
        "/mising"
    );
}

#[test]
fn a_command_of_the_folder_puts_in_nothing_from_outside_of_it() {
    let home = answering();
    std::fs::write(home.user().join("secret"), "the key").unwrap();
    symlink(home.user().join("secret"), home.path("inside.txt")).unwrap();
    let home_file = "@~/secret".to_string();
    for (n, mention) in [
        "@../user/secret".to_string(),
        "@inside.txt".into(),
        home_file,
    ]
    .iter()
    .enumerate()
    {
        put(&home, &format!(".rewake/commands/leak{n}.md"), mention);
        own(&home, &format!("mine{n}.md"), mention);
    }
    home.run(["trust", "--yes"]).expect(0);
    for n in 0..3 {
        let why = "it lies outside of the workspace";
        refused(home.run(["-p", &format!("/leak{n}")]), 2, &[why]);
        // The user's own command reads what the user may.
        let run = streamed(&home, &["-p", &format!("/mine{n}")]).expect(0);
        assert!(said(&run).contains("the key"));
    }
    // But not what their rules deny.
    let deny = format!(
        "{}[permissions]\ndeny = [\"Read(~/secret)\"]\n",
        crate::cli::SCRIPTED
    );
    home.write_config(&deny);
    refused(home.run(["-p", "/mine2"]), 2, &["a rule denies to read it"]);
}

#[test]
fn init_asks_the_model_to_write_what_must_be_known() {
    let home = answering();
    let run = streamed(&home, &["-p", "/init mind the tests"]).expect(0);
    let text = said(&run);
    assert!(
        text.contains("AGENTS.md") && text.ends_with("mind the tests"),
        "{text}"
    );
    assert_eq!(events(&run, "entry.said")[0]["command"]["name"], "init");
}

/// What the system makes up as it is read is no text of a person: the environment has keys in it.
#[test]
fn no_command_puts_in_what_the_system_makes_up() {
    let home = answering();
    symlink("/proc/self/environ", home.path("mine.txt")).unwrap();
    symlink("/proc", home.path("system")).unwrap();
    for path in [
        "/proc/self/environ",
        "/proc/version",
        "/dev/fd/../../version",
        "mine.txt",
        "system/version",
        "/dev/zero",
    ] {
        own(&home, "see.md", format!("see @{path}"));
        let run = home.run(["-p", "/see"]);
        assert!(!run.stdout.contains("done"), "{path}: {}", run.stdout);
        refused(run, 2, &[&format!("@{path}: it is not a file on a disk")]);
    }
    assert!(!home.run(["history"]).expect(0).stdout.contains("/see"));
}
