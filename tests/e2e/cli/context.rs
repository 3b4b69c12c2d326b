//! What the first request says besides the prompt: skills, how the last session ended, and
//! the short forms of a small window.

use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::cli::{calling, quiet, results, scripted, step, streamed, tool_results};
use support::{Answer, Home, Protocol, Says, Seen, Server, git, prompt};

/// A server that says "fine" and keeps what it was asked with.
fn listening() -> (Server, Arc<Mutex<Vec<Seen>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let server = Server::start(move |seen: &Seen| {
        hears.lock().unwrap().push(seen.clone());
        Answer::from(Says::text("fine"))
    });
    (server, heard)
}

fn last_system(heard: &Arc<Mutex<Vec<Seen>>>) -> String {
    heard.lock().unwrap().last().unwrap().system.clone()
}

fn last_start(heard: &Arc<Mutex<Vec<Seen>>>) -> String {
    heard.lock().unwrap().last().unwrap().start.clone()
}

fn put(home: &Home, path: &str, text: &str) {
    let path = home.path(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn skill(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\n\nThe body of {name}.\n")
}

#[test]
fn skills_are_listed_and_a_bad_one_is_named() {
    let (server, heard) = listening();
    let home = Home::with(&server, Protocol::Anthropic);
    put(
        &home,
        ".claude/skills/good/SKILL.md",
        &skill("good", "does good"),
    );
    put(&home, ".agents/skills/bad/SKILL.md", "# no front matter\n");
    let run = home.run(["-p", "x"]).expect(0);
    quiet(&run);
    let system = last_system(&heard);
    assert!(
        system.contains("- good*: does good (\".claude/skills/good/SKILL.md\")"),
        "{system}"
    );
    assert!(!system.contains("The body of good"), "{system}");
    assert!(
        run.stderr.contains(".agents/skills/bad/SKILL.md"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("does not begin with"), "{}", run.stderr);
    server.assert_no_violations();
}

#[test]
fn a_skill_of_the_user_is_read_without_asking_and_nothing_beside_it() {
    let home = Home::new();
    let folder = home.rewake_home().join("skills/mine");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("SKILL.md"), skill("mine", "is mine")).unwrap();
    std::fs::write(folder.join("more.md"), "more of it").unwrap();
    let read = |path: std::path::PathBuf| ("read", json!({ "path": path }));
    let calls = [
        read(folder.join("SKILL.md")),
        read(folder.join("more.md")),
        read(home.rewake_home().join("config.toml")),
        read(folder.parent().unwrap().to_path_buf()),
        ("write", json!({"path": folder.join("new"), "content": "x"})),
    ];
    crate::cli::play(&home, &[step("", &calls), step("done", &[])]);
    home.write_config(crate::cli::SCRIPTED);
    let run = streamed(&home, &["-p", "x"]).expect(0);
    let kinds: Vec<String> = results(&run).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["done", "done", "denied", "denied", "denied"]);
}

#[test]
fn a_skill_that_was_saved_is_listed_from_then_on() {
    let arguments = json!({
        "name": "run-tests", "description": "How the tests are run", "body": "Run `make test`.",
    });
    let save = [("save_skill", arguments)];
    let home = calling(&save);
    let asked = streamed(&home, &["-p", "x", "--permission-mode", "acceptEdits"]).expect(0);
    assert_eq!(
        results(&asked)[0].0,
        "denied",
        "nobody is there to be asked"
    );
    assert!(!home.path(".rewake").exists());

    crate::cli::play(&home, &[step("", &save), step("done", &[])]);
    let tool_results = tool_results(&home, &["--yolo"]);
    assert_eq!(tool_results[0].0, "done", "{tool_results:?}");
    let text = home.read(".rewake/skills/run-tests/SKILL.md");
    assert!(text.starts_with("---\nname: run-tests\n"), "{text}");

    let (server, heard) = listening();
    home.configure(&server, Protocol::Chat, "");
    home.run(["-p", "x"]).expect(0);
    let system = last_system(&heard);
    assert!(
        system.contains("- run-tests*: How the tests are run"),
        "{system}"
    );
}

#[test]
fn a_skill_with_a_bad_name_is_an_error_for_the_model() {
    let home = calling(&[(
        "save_skill",
        json!({"name": "../x", "description": "d", "body": "b"}),
    )]);
    let tool_results = tool_results(&home, &["--yolo"]);
    assert_eq!(tool_results[0].0, "error");
    assert!(
        tool_results[0].1.contains("`name` must have"),
        "{tool_results:?}"
    );
}

#[test]
fn a_new_session_knows_how_the_last_one_here_ended() {
    let steps =
        json!([{"text": "find it", "state": "done"}, {"text": "fix it", "state": "current"}]);
    let home = scripted(&[
        step("", &[("plan", json!({ "steps": steps }))]),
        step("I found it.", &[]),
    ]);
    home.run(["-p", "repair the parser"]).expect(0);
    let (server, heard) = listening();
    home.configure(&server, Protocol::Responses, "");
    home.run(["-p", "x"]).expect(0);
    let start = last_start(&heard);
    for words in [
        "last session (data): done. Resume it only if the user asks.\n",
        "task: \"repair the parser\"",
        "plan: 1 of 2 completed; next: \"fix it\"",
        "answer: \"I found it.\"",
    ] {
        assert!(start.contains(words), "{words}: {start}");
    }

    home.run(["-p", "x", "--set", "context.cross_session=false"])
        .expect(0);
    assert!(!last_start(&heard).contains("last session"));
    // Another folder is another workspace.
    std::fs::create_dir(home.path("sub")).unwrap();
    home.run(["-p", "x", "-C", "sub"]).expect(0);
    assert!(!last_start(&heard).contains("last session"));
    server.assert_no_violations();
}

#[test]
fn a_fork_is_told_of_no_other_session() {
    let (server, heard) = listening();
    let home = Home::with(&server, Protocol::Gemini);
    home.run(["-p", "first"]).expect(0);
    home.run(["-p", "-c", "--fork-session", "second"]).expect(0);
    let body = heard.lock().unwrap().last().unwrap().json.to_string();
    assert!(
        body.contains("at_start") && !body.contains("last session"),
        "{body}"
    );
}

/// A provider's cache has all that the sessions of a folder have in common: what differs comes
/// after it, and is not in the system message, since templates put the tools after that.
#[test]
fn a_new_session_begins_with_the_bytes_of_the_one_before() {
    for protocol in Protocol::ALL {
        let (server, heard) = listening();
        let home = Home::with(&server, protocol);
        git(&home.path(""), &["init", "-q", "-b", "one"]);
        put(&home, "AGENTS.md", "Use blanks.\n");
        put(&home, ".rewake/skills/s/SKILL.md", &skill("s", "does it"));
        home.run(["-p", "the first task"]).expect(0);
        git(&home.path(""), &["checkout", "-qb", "two"]);
        put(&home, "changed", "x");
        home.run(["-p", "the second task"]).expect(0);
        let heard = heard.lock().unwrap();
        let [one, two] = [&heard[0], &heard[1]].map(|seen| prompt(&seen.json));
        let same = one
            .bytes()
            .zip(two.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        let start = two.find("<at_start>").expect("what differs");
        assert_eq!(two.matches("the first task").count(), 1, "{two}");
        assert!(same >= start, "{}: {same} of {start}", protocol.name());
        assert_eq!(heard[0].system, heard[1].system);
        assert!(heard[1].system.contains("Use blanks."));
        server.assert_no_violations();
    }
}

#[test]
fn a_small_window_gets_the_short_forms() {
    const MESSAGE_AND_FRAME: usize = 800;
    for (protocol, window) in Protocol::ALL.into_iter().zip([4_000, 7_999, 8_000, 15_999]) {
        let (server, heard) = listening();
        let home = Home::with(&server, protocol);
        let models = format!("[models.\"local/test-model\"]\ncontext_window = {window}\n");
        home.configure(&server, protocol, &models);
        home.run(["-p", "x"]).expect(0);
        let seen = heard.lock().unwrap().remove(0);
        let bytes = seen.body.len();
        assert!(
            bytes <= 4_700 + MESSAGE_AND_FRAME,
            "{}: {bytes}",
            protocol.name()
        );
        let has = |tool: &str| seen.tools.iter().any(|name| name == tool);
        assert_eq!(has("task"), window >= 8_000, "{window}");
        assert!(has("memory") && !has("memory_search") && !has("save_skill"));
        if window < 8_000 {
            // A quarter of 4,096 tokens at 4 bytes, without the tool that waits.
            let all = bytes - MESSAGE_AND_FRAME;
            assert!(all <= 4_096 + 240, "{}: {all}", protocol.name());
        }
        server.assert_no_violations();
    }
}

/// Named as they were when the session began: what is sent is sent again in the same bytes.
#[test]
fn branch_and_uncommitted_files_are_told_once() {
    let (server, heard) = listening();
    let home = Home::with(&server, Protocol::Anthropic);
    let top = home.path("");
    git(&top, &["init", "-q", "-b", "repair/it"]);
    put(&home, "a.rs", "a");
    git(&top, &["add", "."]);
    git(&top, &["commit", "-qm", "one"]);
    put(&home, "a.rs", "b");
    put(&home, "new\nmode: x", "c");
    home.run(["-p", "x"]).expect(0);
    let (system, start) = (last_system(&heard), last_start(&heard));
    let told = "\nbranch: repair/it\nnot committed: 2 files (a.rs, new␊mode: x)";
    assert!(start.contains(told) && system.contains(" (git)"), "{start}");
    git(&top, &["checkout", "-qb", "another"]);
    put(&home, "later", "d");
    home.run(["-p", "-c", "y"]).expect(0);
    assert_eq!(last_system(&heard), system);
    // A new session sees what is so now.
    home.run(["-p", "z"]).expect(0);
    let told = "\nbranch: another\nnot committed: 3 files (a.rs, later, new␊mode: x)";
    assert!(last_start(&heard).contains(told), "{}", last_start(&heard));
    assert_eq!(last_system(&heard), system);
    server.assert_no_violations();
}

#[test]
fn parts_cut_for_a_small_window_are_named() {
    let (server, heard) = listening();
    let home = Home::with(&server, Protocol::Anthropic);
    let models = "[models.\"local/test-model\"]\ncontext_window = 4000\n";
    home.configure(&server, Protocol::Anthropic, models);
    put(&home, "AGENTS.md", &"Mind the gap.\n".repeat(1_000));
    for n in 0..9 {
        let text = skill(&format!("s{n}"), &"many words ".repeat(50));
        put(&home, &format!(".rewake/skills/s{n}/SKILL.md"), &text);
    }
    let run = home.run(["-p", "x"]).expect(0);
    for words in ["AGENTS.md", "are cut to", " skills are not listed", "s8"] {
        assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
    }
    let system = last_system(&heard);
    assert!(system.contains("- s0*: many words"), "{system}");
    assert!(system.len() < 4_000, "{}", system.len());
}
