//! Calls on awkward files, folders and commands: each is answered, and the work goes on.

use std::os::unix::fs::symlink;
use std::time::Duration;

use serde_json::json;

use crate::cli::{SCRIPTED, bash, calling, results, streamed, tool_results};
use support::Live;

#[test]
fn a_binary_file_is_refused_in_words_and_a_huge_one_in_parts() {
    let home = calling(&[
        ("read", json!({"path": "binary"})),
        ("read", json!({"path": "huge", "limit": 2})),
        ("grep", json!({"pattern": "needle"})),
        (
            "edit",
            json!({"path": "huge", "edits": [{"old": "a", "new": "b"}]}),
        ),
        ("read", json!({"path": "."})),
        ("read", json!({"path": "/dev/zero"})),
    ]);
    std::fs::write(home.path("binary"), b"\x7fELF\0\0\0needle").unwrap();
    let huge = std::fs::File::create(home.path("huge")).unwrap();
    std::io::Write::write_all(&mut &huge, b"a line\nanother\n").unwrap();
    huge.set_len(3 << 30).unwrap();
    let tool_results = tool_results(&home, &["--yolo"]);
    let is = |at: usize, kind: &str, word: &str| {
        assert!(
            tool_results[at].0 == kind && tool_results[at].1.contains(word),
            "{:?}",
            tool_results[at]
        );
    };
    is(0, "error", "binary");
    assert!(tool_results[1].1.len() < 1_000, "{:?}", tool_results[1]);
    is(2, "done", "no match");
    is(3, "error", "huge");
    is(4, "error", "folder");
    is(5, "error", "device");
}

#[test]
fn a_path_outside_the_workspace_is_denied_and_counted() {
    let home = calling(&[
        ("read", json!({"path": "/etc/hostname"})),
        ("read", json!({"path": "../user/notes"})),
        ("read", json!({"path": "way-out/notes"})),
        ("grep", json!({"pattern": "private", "path": "way-out"})),
        ("write", json!({"path": "way-out/new", "content": "x"})),
        ("grep", json!({"pattern": "private"})),
        ("glob", json!({"pattern": "**/*"})),
        ("read", json!({"path": "inside"})),
    ]);
    std::fs::write(home.user().join("notes"), "private\n").unwrap();
    std::fs::write(home.path("inside"), "mine\n").unwrap();
    symlink(home.user(), home.path("way-out")).unwrap();
    let run = streamed(&home, &["-p", "x"]).expect(0);
    let tool_results = results(&run);
    for (kind, text) in &tool_results[..5] {
        assert_eq!(kind, "denied", "{text}");
    }
    assert!(
        tool_results
            .iter()
            .all(|(_, text)| !text.contains("private\n")),
        "{tool_results:?}"
    );
    assert_eq!(tool_results[7].0, "done");
    assert!(run.stderr.contains("5 calls were denied"), "{}", run.stderr);
    assert!(run.stderr.contains("--yolo"), "{}", run.stderr);
    assert!(!home.user().join("new").exists());
}

#[test]
fn denied_files_are_not_found_by_grep_or_glob() {
    let home = calling(&[
        ("grep", json!({"pattern": "KEY"})),
        ("glob", json!({"pattern": "**/*"})),
        ("read", json!({"path": "keys/a.txt"})),
    ]);
    std::fs::create_dir(home.path("keys")).unwrap();
    std::fs::write(home.path("keys/a.txt"), "KEY=1\n").unwrap();
    std::fs::write(home.path("b.txt"), "KEY=2\n").unwrap();
    let tool_results = tool_results(
        &home,
        &["--yolo", "--set", "permissions.deny=[\"Read(keys/**)\"]"],
    );
    assert_eq!(tool_results[0].1, "b.txt\n1:KEY=2\n");
    assert_eq!(tool_results[1].1, "b.txt\n");
    assert_eq!(tool_results[2].0, "denied");
}

#[test]
fn no_other_name_of_an_argument_leads_past_a_rule() {
    let wrapped = json!({"path": "keys/a.txt"}).to_string();
    let home = calling(&[
        ("read", json!({"file_path": "keys/a.txt"})),
        ("read", json!({"filePath": "keys/a.txt"})),
        ("read", json!(json!(wrapped).to_string())),
        ("read", json!({"path": "b.txt", "file_path": "keys/a.txt"})),
        ("read", json!({"path": "keys/a.txt", "file_path": "b.txt"})),
        ("grep", json!({"regex": "KEY", "dir": "keys"})),
        ("bash", json!({"cmd": "rm b.txt"})),
        ("bash", json!({"command": "true", "cmd": "rm b.txt"})),
        (
            "edit",
            json!({"file_path": "keys/a.txt", "old_string": "KEY", "new_string": "LOCK"}),
        ),
        ("read", json!({"file_path": "b.txt"})),
    ]);
    std::fs::create_dir(home.path("keys")).unwrap();
    std::fs::write(home.path("keys/a.txt"), "KEY=1\n").unwrap();
    std::fs::write(home.path("b.txt"), "KEY=2\n").unwrap();
    let rules = "permissions.deny=[\"Read(keys/**)\",\"Edit(keys/**)\",\"Bash(rm *)\"]";
    let told = tool_results(&home, &["--yolo", "--set", rules]);
    for n in [0, 1, 2, 6, 8] {
        assert_eq!(told[n].0, "denied", "{n}: {}", told[n].1);
    }
    for n in [3, 4, 7] {
        assert_eq!(told[n].0, "error", "{n}: {}", told[n].1);
        assert!(
            told[n].1.contains("name the same argument"),
            "{}",
            told[n].1
        );
    }
    assert!(!told[5].1.contains("KEY=1"), "{}", told[5].1);
    assert!(told.iter().all(|(_, text)| !text.contains("KEY=1")));
    assert!(told[9].1.contains("KEY=2"), "{}", told[9].1);
    assert_eq!(home.read("keys/a.txt"), "KEY=1\n");
    assert_eq!(home.read("b.txt"), "KEY=2\n");
}

#[test]
fn a_file_that_cannot_be_written_is_told_and_left_as_it_was() {
    let home = calling(&[
        ("write", json!({"path": "file/below", "content": "x"})),
        ("write", json!({"path": "/proc/version", "content": "x"})),
        ("write", json!({"path": "", "content": "x"})),
        ("write", json!({"path": "a\u{0}b", "content": "x"})),
        ("write", json!({"path": "fine", "content": "x"})),
    ]);
    std::fs::write(home.path("file"), "kept").unwrap();
    let tool_results = tool_results(&home, &["--yolo"]);
    for (kind, text) in &tool_results[..4] {
        assert_eq!(kind, "error", "{text}");
    }
    assert!(
        tool_results[0].1.contains("file/below"),
        "{:?}",
        tool_results[0]
    );
    assert_eq!(
        (tool_results[4].0.as_str(), home.read("fine").as_str()),
        ("done", "x")
    );
    assert_eq!(home.read("file"), "kept");
}

#[test]
fn output_that_is_not_text_is_shown_with_replacements() {
    let home = calling(&[bash("printf 'caf\\351 \\000 \\033[31mred\\n'; exit 7")]);
    let run = streamed(&home, &["-p", "x", "--yolo"]).expect(0);
    let (kind, text) = &results(&run)[0];
    assert_eq!(kind, "done");
    assert_eq!(text, "caf\u{fffd} \u{2400} \u{1b}[31mred\n[exit code 7]");
    assert!(run.stderr.contains("exit code 7"), "{}", run.stderr);
}

#[test]
fn a_command_that_does_not_run_is_a_result_like_any_other() {
    let home = calling(&[
        bash("no-such-program"),
        bash("kill -9 $$"),
        // It does not end at once, and the limit is told as it was set all the same.
        (
            "bash",
            json!({"command": "trap 'sleep 0.4; exit' TERM; sleep 100 & wait", "timeout_ms": 1_500}),
        ),
        bash(""),
    ]);
    let tool_results = tool_results(&home, &["--yolo"]);
    assert!(
        tool_results[0].1.contains("exit code 127"),
        "{tool_results:?}"
    );
    assert!(tool_results[1].1.contains("signal 9"), "{tool_results:?}");
    let limit = "[ended by rewake: it ran longer than its time limit of 1.5 s]";
    assert!(tool_results[2].1.contains(limit), "{tool_results:?}");
}

#[test]
fn children_left_running_do_not_delay_the_call() {
    let home = calling(&[bash("sleep 1000 & echo $!")]);
    let tool_results = tool_results(&home, &["--yolo"]);
    let (printed, note) = tool_results[0].1.split_once('\n').expect("a note");
    let child: u32 = printed.parse().expect("the child's number");
    let left = format!("it left 1 process running: {child} (sleep 1000)");
    assert!(note.contains(&left), "{note}");
    let end = std::process::Command::new("kill")
        .arg(child.to_string())
        .status();
    assert!(
        end.unwrap().success(),
        "what a command leaves behind is its own affair"
    );
}

const PRINTED: u64 = 300_000_000;

#[test]
#[cfg(target_os = "linux")]
fn a_flood_of_output_is_capped_on_disk_and_never_in_memory() {
    let home = calling(&[bash(&format!(
        "head -c {PRINTED} /dev/zero | tr '\\0' x; echo; echo the end"
    ))]);
    let args = ["-p", "x", "--yolo", "--output-format", "stream-json"];
    let agent = Live::spawn(home.rewake(args));
    let id = agent.id();
    agent.wait_for(crate::cli::LIMIT, |line| line.contains("entry.started"));
    let (mut memory_kb, mut disk_bytes) = (0, 0);
    while let Some(now_kb) = crate::cli::peak_memory_kb(id) {
        memory_kb = memory_kb.max(now_kb);
        disk_bytes = disk_bytes.max(size(&home.rewake_home().join("runs")));
        std::thread::sleep(Duration::from_millis(5));
    }
    let run = agent.wait(crate::cli::LIMIT).expect(0);
    let (_, text) = &results(&run)[0];
    assert!(
        text.len() < 40_000 && text.contains("the end"),
        "{}",
        text.len()
    );
    assert!(
        (1..100_000).contains(&memory_kb),
        "{memory_kb} KB at its peak"
    );
    assert!((1..40_000_000).contains(&disk_bytes), "{disk_bytes} bytes");
    assert!(size(&home.rewake_home()) < 40_000_000);
}

#[cfg(target_os = "linux")]
fn size(folder: &std::path::Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

#[test]
fn other_projects_are_looked_at_only_when_a_rule_allows_it() {
    let look = |allow: &str| {
        let search = json!({ "query": "secret garden", "scope": "all" });
        let home = calling(&[("memory_search", search)]);
        home.write_config(&format!("{SCRIPTED}[permissions]\nallow = [{allow}]\n"));
        tool_results(&home, &[])
    };
    let (outcome, text) = look("")[0].clone();
    assert_eq!(outcome, "denied", "{text}");
    assert!(
        text.contains("looks at sessions of other projects"),
        "{text}"
    );
    let (outcome, text) = look("\"Memory(all)\"")[0].clone();
    assert_eq!(outcome, "done", "{text}");
}

#[test]
fn odd_names_are_quoted_in_results_and_read_by_the_quoted_form() {
    let home = calling(&[
        ("read", json!({"path": "\"a\\nb.txt\""})),
        (
            "edit",
            json!({"path": "a\nb.txt", "edits": [{"old": "needle", "new": "pin"}]}),
        ),
        ("write", json!({"path": "~t.txt", "content": "tilde\n"})),
        ("read", json!({"path": "~t.txt"})),
        ("write", json!({"path": "trailing/", "content": "x"})),
        ("read", json!({"path": "."})),
    ]);
    std::fs::write(home.path("a\nb.txt"), "needle\n").unwrap();
    let results = tool_results(&home, &["--yolo"]);
    let texts: Vec<&str> = results.iter().map(|(_, text)| text.as_str()).collect();
    assert!(texts[0].contains("needle"), "{texts:?}");
    assert_eq!(texts[1], "edited \"a\\nb.txt\": line 1, +1 −1");
    assert!(texts[2].starts_with("created ~t.txt"), "{texts:?}");
    assert!(texts[3].contains("tilde"), "{texts:?}");
    assert!(texts[4].contains("it names a folder"), "{texts:?}");
    assert!(texts[5].contains("\n\"a\\nb.txt\"\n"), "{texts:?}");
    assert!(!home.path("trailing").exists());
}

#[test]
fn a_folder_that_was_removed_is_not_created_again() {
    let remove = json!({"command": "rm -rf \"$PWD\"", "access": "full"});
    let home = calling(&[
        ("read", json!({"path": "a.txt"})),
        ("bash", remove),
        ("write", json!({"path": "src/n.txt", "content": "x"})),
        ("bash", json!({"command": "pwd"})),
        ("bash", json!({"command": "pwd", "access": "full"})),
    ]);
    std::fs::write(home.path("a.txt"), "1\n").unwrap();
    for (kind, text) in &tool_results(&home, &["--yolo"])[2..] {
        assert_eq!(kind, "error", "{text}");
        assert!(text.contains("the session's folder"), "{text}");
        assert!(text.contains("was removed"), "{text}");
        assert!(text.contains("rewake -C DIR -r ID"), "{text}");
    }
    assert!(!home.workspace().exists());
}
