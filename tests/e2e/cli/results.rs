//! What the model is told of its calls, as it stands in the requests.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::cli::{LIMIT, bash, results};
use support::{Answer, Home, Live, Protocol, Says, Server};

/// The results that the model was sent for these calls, all of one answer, in a window of so many
/// tokens.
fn sent(home: &Home, server: &Server, window: u64) -> Vec<String> {
    let more = format!("[models.\"local/test-model\"]\ncontext_window = {window}\n");
    home.configure(server, Protocol::Chat, &more);
    home.run(["-p", "--yolo", "work"]).expect(0);
    server.assert_no_violations();
    let last = server.requests().pop().unwrap();
    let body: Value = serde_json::from_slice(&last.body.unwrap()).unwrap();
    let messages = body["messages"].as_array().unwrap().iter();
    let results = messages.filter(|m| m["role"] == "tool");
    results
        .map(|m| m["content"].as_str().unwrap().to_string())
        .collect()
}

fn calls(calls: &[(&str, Value)]) -> Server {
    let says = calls
        .iter()
        .fold(Says::default(), |says, (name, arguments)| {
            says.and_call(name, arguments.clone())
        });
    let asked = std::sync::atomic::AtomicUsize::new(0);
    Server::start(
        move |_| match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => Answer::Says(says.clone()),
            _ => Answer::text("done"),
        },
    )
}

#[test]
fn no_result_is_cut_twice_and_what_is_left_out_is_named() {
    for (window, most) in [(200_000, 16_384), (16_000, 6_400)] {
        let server = calls(&[
            bash("for n in $(seq 1 900); do echo \"output line $n is here\"; done; exit 3"),
            bash("head -c 10000000 /dev/zero | tr '\\0' x"),
            ("read", json!({"path": "lines"})),
            ("read", json!({"path": "one"})),
            ("grep", json!({"pattern": "line", "limit": 2000})),
        ]);
        let home = Home::new();
        let lines: String = (1..=900).map(|n| format!("line {n} of a file\n")).collect();
        std::fs::write(home.path("lines"), lines).unwrap();
        std::fs::write(home.path("one"), "x".repeat(10_000_000)).unwrap();
        let results = sent(&home, &server, window);
        for text in &results {
            assert!(text.len() <= most, "{} bytes", text.len());
            let ends = [
                "left out (",
                "read on with offset",
                "the middle is",
                "Result stored",
            ];
            let cuts: usize = ends.iter().map(|end| text.matches(end).count()).sum();
            assert!(cuts <= 1, "{text}");
        }
        let [printed, endless, page, one, hits] = &results[..] else {
            panic!("{} results", results.len());
        };
        // Whole lines before and behind, and their numbers between.
        let (head, rest) = printed.split_once("\n[lines ").unwrap();
        let (range, _) = rest.split_once(" of 900 left out (").unwrap();
        let (first, last) = range.split_once('-').unwrap();
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        assert!(
            head.ends_with(&format!("output line {} is here", first - 1)),
            "{head}"
        );
        assert!(printed.contains(&format!("]\noutput line {} is here\n", last + 1)));
        assert!(printed.ends_with("[exit code 3]"));
        // The keeper keeps the beginning and the end of so much, with a line between.
        let in_part = "[lines 1-3 of 3, the first and the last in part, left out (";
        assert!(endless.contains(in_part), "{endless}");
        let (lines, on) = page.trim_end().rsplit_once('\n').unwrap();
        let (_, next) = on.rsplit_once("read on with offset ").unwrap();
        let next: usize = next.split(',').next().unwrap().parse().unwrap();
        assert!(
            lines.ends_with(&format!("line {} of a file", next - 1)),
            "{on}"
        );
        assert!(one.contains("[cut: the line has 10000000 bytes]"));
        assert!(hits.contains("shown, "));
    }
}

#[test]
fn an_edit_of_a_file_that_changed_is_made_and_says_so() {
    let edit = |old: &str, new: &str| {
        let edits = json!([{"old": old, "new": new}]);
        ("edit", json!({"path": "a.txt", "edits": edits}))
    };
    let home = crate::cli::calling(&[
        edit("one", "1"),
        ("write", json!({"path": "a.txt", "content": "x"})),
        ("read", json!({"path": "a.txt"})),
        bash("echo four >> a.txt"),
        edit("two", "2"),
        edit("three", "3"),
        ("write", json!({"path": "a.txt", "content": "x"})),
        ("read", json!({"path": "a.txt"})),
        edit("four", "4"),
    ]);
    std::fs::write(home.path("a.txt"), "one\ntwo\nthree\n").unwrap();
    let told = crate::cli::tool_results(&home, &["--yolo"]);
    let texts: Vec<&str> = told.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts[0], "edited a.txt: line 1, +1 −1");
    // An edit alone makes no file known.
    assert!(
        texts[1].contains("was not read in this session"),
        "{}",
        texts[1]
    );
    for n in [4, 5] {
        assert!(texts[n].starts_with("edited a.txt: line "), "{}", texts[n]);
        assert!(
            texts[n].contains("[the file had changed since it was read"),
            "{}",
            texts[n]
        );
    }
    assert!(
        texts[6].contains("changed on disk since it was read"),
        "{}",
        texts[6]
    );
    assert!(
        texts[8].starts_with("edited a.txt: line 4, +1 −1"),
        "{}",
        texts[8]
    );
    assert!(!texts[8].contains("had changed"), "{}", texts[8]);
    assert_eq!(home.read("a.txt"), "1\n2\n3\n4\n");
}

#[test]
fn the_first_call_after_a_refused_edit_states_that_it_ran_without_it() {
    let home = crate::cli::calling(&[
        bash("echo before"),
        (
            "edit",
            json!({"path": "a.txt", "edits": [{"old": "absent", "new": "x"}]}),
        ),
        bash("true"),
        ("read", json!({"path": "a.txt"})),
        // What never ran says no more than that.
        ("read", json!({"limit": 1})),
        // What no file has a part in is the same without the change.
        ("memory_search", json!({"query": "nowhere"})),
        (
            "plan",
            json!({"steps": [{"text": "look", "state": "current"}]}),
        ),
    ]);
    std::fs::write(home.path("a.txt"), "one\n").unwrap();
    let told = crate::cli::tool_results(&home, &["--yolo"]);
    let note = "[edit a.txt, before this call in the same answer, was refused: this is without its change]";
    assert!(told[1].1.contains("was not found"), "{}", told[1].1);
    let has_note = [false, false, true, false, false, false, false];
    for (at, has_note) in has_note.into_iter().enumerate() {
        assert_eq!(told[at].1.contains(note), has_note, "{}", told[at].1);
    }
}

/// The user's process limit is reached for a while: a call reports it, and the session continues.
#[cfg(target_os = "linux")]
#[test]
fn a_process_limit_fails_the_call_and_not_the_session() {
    // The limit does not apply to root.
    let as_other = |program: &OsStr| match rustix::process::getuid().is_root() {
        true => {
            let mut command = Command::new("setpriv");
            let ids = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
            command.args(ids).arg(program);
            command
        }
        false => Command::new(program),
    };
    let agent = Arc::new(AtomicU32::new(0));
    let limited = Arc::clone(&agent);
    let limit = move |to: &str| {
        while limited.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        let pid = limited.load(Ordering::Relaxed).to_string();
        let mut command = as_other(OsStr::new("prlimit"));
        let command = command.args(["--pid", &pid, &format!("--nproc={to}")]);
        assert!(command.status().unwrap().success());
    };
    let server = Server::start(move |seen| {
        match seen.turn {
            // The keeper of the second command waits already, that of the third cannot start.
            1 => limit("1:"),
            3 => limit("4000:"),
            _ => {}
        }
        match seen.turn {
            turn @ 0..4 => Answer::call("bash", json!({"command": format!("echo at {turn}")})),
            _ => Answer::text("done"),
        }
    });
    let home = Home::with(&server, Protocol::Anthropic);
    if rustix::process::getuid().is_root() {
        let mut chown = Command::new("chown");
        let root = home.workspace();
        let chown = chown
            .args(["-R", "65534:65534"])
            .arg(root.parent().unwrap());
        assert!(chown.status().unwrap().success());
    }
    let usual = home.rewake(["-p", "go", "--yolo", "--output-format", "stream-json"]);
    let variables = usual
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    let mut command = as_other(usual.get_program());
    command
        .args(usual.get_args())
        .env_clear()
        .envs(variables)
        .current_dir(home.workspace())
        .stdin(Stdio::null());
    let live = Live::spawn(command);
    agent.store(live.id(), Ordering::Relaxed);
    let run = live.wait(LIMIT).expect(0);
    let results = results(&run);
    let texts: Vec<&str> = results.iter().map(|(_, text)| text.trim()).collect();
    assert_eq!(
        (texts[0], texts[1], texts[3]),
        ("at 0", "at 1", "at 3"),
        "{texts:?}"
    );
    for words in [
        "cannot start the command",
        "Resource temporarily unavailable",
    ] {
        assert!(texts[2].contains(words), "{texts:?}");
    }
}
