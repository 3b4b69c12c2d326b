//! What a power cut could take: the order of writes and syncs of the real binary, as strace
//! sees it from outside. A short task over the scripted server, with a command, new files and
//! edits; [`rules`] says what must be on the disk before what.
//!
//! The run under strace is `#[ignore]`d, since few machines have it: `.ci/power` installs it
//! and runs this. The rules and the reading of a trace are tested on every run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "all of this is a test; clippy sees only the #[test] functions as such"
)]

mod rules;
mod trace;

#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use support::{Answer, Home, Protocol, Server, list, run};

const LIMIT: Duration = Duration::from_secs(120);

/// One call in each answer, so that each entry is a transaction of its own.
fn answers() -> Vec<Answer> {
    vec![
        Answer::call("bash", json!({"command": "echo one > one.txt; echo said"})),
        Answer::call("write", json!({"path": "two.txt", "content": "two\n"})),
        Answer::call(
            "write",
            json!({"path": "new/deep/three.txt", "content": "three\n"}),
        ),
        Answer::call("read", json!({"path": "two.txt"})),
        Answer::call(
            "edit",
            json!({"path": "two.txt", "edits": [{"old": "two", "new": "2"}]}),
        ),
        Answer::call("bash", json!({"command": "exit 3"})),
        Answer::text("done"),
    ]
}

#[test]
#[ignore = "needs strace: .ci/power installs it and runs this"]
fn what_is_told_or_done_is_on_the_disk_before() {
    let server = Server::start(list(answers()));
    let home = Home::with(&server, Protocol::Chat);
    // Too much for a row of the database, and not to be compressed: it goes into a pack.
    std::fs::write(home.path("big"), noise(64 * 1024)).expect("write a file");
    let file = home.rewake_home().join("trace");
    let agent = home.rewake(["-p", "do it", "--yolo", "--output-format", "stream-json"]);
    run(traced(&agent, &file), LIMIT).expect(0);
    server.assert_no_violations();
    assert_eq!(home.read("two.txt"), "2\n");

    let text = std::fs::read_to_string(&file).expect("read the trace");
    let ops = trace::read(&text);
    let found = rules::check(&ops, server.address().port(), &home.workspace());
    let found = found.unwrap_or_else(|fault| {
        let kept = std::env::temp_dir().join("rewake-power.trace");
        std::fs::write(&kept, &text).expect("keep the trace");
        panic!("{fault}; the trace is in {}", kept.display())
    });
    let wanted = rules::Found {
        requests: answers().len(),
        finished: answers().len() - 1,
        keepers: 2,
        replaced: 3,
        folders: 2,
        packs: 1,
    };
    assert_eq!(found, wanted);
}

/// A command costs as many syncs as without a journal: its own are a thread's, at most one in
/// each pause and one on leaving. The home is there already, so no migration is among them.
#[test]
#[ignore = "needs strace: .ci/power installs it and runs this"]
fn a_journal_adds_no_sync_to_a_call() {
    let [with, without] = [true, false].map(|journal| {
        let few = syncs_of(2, journal);
        let more = syncs_of(12, journal);
        assert!(few.journal <= 2 && more.journal <= 2, "{few:?} {more:?}");
        assert_eq!(journal, few.journal > 0, "{few:?}");
        (more.others - few.others, few.others)
    });
    assert_eq!(with, without);
}

#[derive(Debug)]
struct Syncs {
    journal: usize,
    others: usize,
}

/// Of a session with so many commands, in a home that had one before.
fn syncs_of(calls: usize, journal: bool) -> Syncs {
    let bash = |n| Answer::call("bash", json!({ "command": format!("echo {n}") }));
    let mut answers: Vec<Answer> = (0..calls).map(bash).collect();
    answers.push(Answer::text("done"));
    let server = Server::start(list(answers));
    let home = Home::new();
    // Longer than the run: what is left to sync is synced on leaving.
    // What is kept of files is found beside the calls: how often it is recorded is a matter of time.
    let store =
        format!("files.time = \"off\"\n[store]\njournal = {journal}\njournal_sync_ms = 60000\n");
    home.configure(&server, Protocol::Chat, &store);
    run(home.rewake(["-p", "begin", "--yolo"]), LIMIT).expect(0);
    let file = home.rewake_home().join("trace");
    let agent = home.rewake(["-p", "do it", "--yolo", "--output-format", "stream-json"]);
    run(traced(&agent, &file), LIMIT).expect(0);
    let text = std::fs::read_to_string(&file).expect("read the trace");
    let mut syncs = Syncs {
        journal: 0,
        others: 0,
    };
    for op in trace::read(&text) {
        if let trace::What::Synced { path } = op.what {
            match path.contains("/journal") {
                true => syncs.journal += 1,
                false => syncs.others += 1,
            }
        }
    }
    syncs
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

/// The same command under strace.
fn traced(agent: &Command, to: &Path) -> Command {
    let mut command = Command::new("strace");
    command
        .args(["-f", "-yy", "-s", "20000", "-e", "signal=none", "-o"])
        .arg(to)
        .arg("-e")
        .arg(format!("trace={}", trace::CALLS.join(",")))
        .arg(agent.get_program())
        .args(agent.get_args())
        .env_clear()
        .stdin(std::process::Stdio::null())
        .current_dir(agent.get_current_dir().expect("a folder to work in"));
    for (name, value) in agent.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command
}
