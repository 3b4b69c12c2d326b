//! What a power cut could take: the order of writes and syncs of the real binary, as strace
//! sees it from outside. A short task over the scripted server, with a command, new files and
//! edits; [`rules`] says what must be on the disk before what.
//!
//! The run under strace is `#[ignore]`d, since few machines have it: `.ci/power` installs it
//! and runs this. The rules and the reading of a trace are tested on every run.

mod restore;
mod rules;
mod trace;

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
fn effects_and_output_are_synced_before_they_are_visible() {
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

/// Few files are synced one by one, many with one sync of the file system.
#[test]
#[ignore = "needs strace: .ci/power installs it and runs this"]
fn restored_files_are_synced_in_order() {
    for files in [5, 100] {
        let command = format!("for n in $(seq {files}); do echo new > $n; done");
        let server = Server::start(list(vec![
            Answer::call("bash", json!({ "command": command })),
            Answer::call("write", json!({"path": "by/a/tool", "content": "x\n"})),
            Answer::text("done"),
        ]));
        let home = Home::with(&server, Protocol::Chat);
        for n in 1..=files {
            // Not to be compressed, so that they lie in a pack.
            std::fs::write(home.path(n.to_string()), noise(2_000 + n)).expect("write a file");
        }
        run(home.rewake(["-p", "do it", "--yolo"]), LIMIT).expect(0);
        let (id, at) = first_known(&home);
        let checked = |args: &[&str], root: &Path, is_fork| {
            let file = home.rewake_home().join("trace");
            run(traced(&home.rewake(args), &file), LIMIT).expect(0);
            let text = std::fs::read_to_string(&file).expect("read the trace");
            restore::check(&trace::read(&text), root, is_fork).unwrap_or_else(|fault| {
                let kept = std::env::temp_dir().join("rewake-power.trace");
                std::fs::write(&kept, &text).expect("keep the trace");
                panic!("{fault}; the trace is in {}", kept.display())
            })
        };
        let back = checked(
            &["rewind", &id, &at, "--files", "--yes"],
            &home.workspace(),
            false,
        );
        let (placed, removed) = (files, 1);
        assert_eq!(back, restore::Found { placed, removed });
        let again = checked(
            &["rewind", &id, "--redo", "--yes"],
            &home.workspace(),
            false,
        );
        let (placed, removed) = (files + 1, 0);
        assert_eq!(again, restore::Found { placed, removed });
        let copy = home.workspace().with_file_name("copy");
        let args = ["fork", &id, "--at", &at, "--files", "../copy"];
        let (placed, removed) = (files, 0);
        assert_eq!(
            checked(&args, &copy, true),
            restore::Found { placed, removed }
        );
    }
}

/// The newest session, and the first entry at which its files are known.
fn first_known(home: &Home) -> (String, String) {
    let listed = run(home.rewake(["history"]), LIMIT).expect(0).stdout;
    let id = listed
        .split_whitespace()
        .next()
        .expect("a session")
        .to_string();
    let export = run(home.rewake(["export", &id, "--json"]), LIMIT)
        .expect(0)
        .stdout;
    let export: serde_json::Value = serde_json::from_str(&export).expect("JSON");
    let records = export["records"].as_array().expect("records");
    let known = records.iter().find(|r| r["entry"]["tree"].is_string());
    (id, known.expect("a tree")["seq"].to_string())
}

/// Its own syncs are a thread's, at most one in each pause and one on leaving. The home is there
/// already, so no migration is among them.
#[test]
#[ignore = "needs strace: .ci/power installs it and runs this"]
fn a_journal_adds_no_sync_to_a_call() {
    let [with, without] = [true, false].map(|journal| {
        let settings = format!("[store]\njournal = {journal}\njournal_sync_ms = 60000\n");
        let measure = || [2, 12].map(|calls| syncs_of(calls, &format!("{settings}{NO_FILES}")));
        let is_enough = |of: &[Syncs; 2]| of.iter().all(|syncs| syncs.journal <= 2);
        let [few, more] = first_that(measure, is_enough);
        assert!(few.journal <= 2 && more.journal <= 2, "{few:?} {more:?}");
        assert_eq!(journal, few.journal > 0, "{few:?}");
        (more.database - few.database, more.runs - few.runs)
    });
    assert_eq!(with, without);
}

/// Returns the first measurement that is enough, else the first one. On a busy machine a step is
/// silent for long, and what the store does when it is idle is synced too.
fn first_that<T>(mut measure: impl FnMut() -> T, is_enough: impl Fn(&T) -> bool) -> T {
    let first = measure();
    if is_enough(&first) {
        return first;
    }
    let mut others = (1..TRIES).map(|_| measure());
    others.find(|found| is_enough(found)).unwrap_or(first)
}

/// What a command costs: the answer and what it starts are one transaction, its result is another.
/// Its run folder costs nothing: whoever waits for it records the result. What the files are takes
/// one more at most.
#[test]
#[ignore = "needs strace: .ci/power installs it and runs this"]
fn a_command_call_costs_a_fixed_number_of_syncs() {
    let cost = |settings: &str| {
        let settings = format!("{settings}[store]\njournal = false\n");
        let (few, more) = (syncs_of(2, &settings), syncs_of(22, &settings));
        (more.database - few.database, more.runs - few.runs)
    };
    let least =
        |settings: &str, enough: usize| first_that(|| cost(settings), |found| found.0 <= enough);
    let exact = (20 * A_CALL, 20 * A_RUN_FOLDER);
    assert_eq!(least(NO_FILES, exact.0), exact);
    let at_most = 20 * (A_CALL + 1);
    let (database, runs) = least("", at_most);
    assert!(database <= at_most, "{database} syncs of the database");
    assert_eq!(runs, 20 * A_RUN_FOLDER);
}

/// Those of the folder above, of the new database, of its name, and of a folder in it.
#[test]
#[ignore = "needs strace: .ci/power installs it and runs this"]
fn a_new_store_costs_few_syncs() {
    let home = Home::new();
    std::fs::create_dir_all(home.rewake_home()).expect("make the data folder");
    let file = home.path("trace");
    run(traced(&home.rewake(["history"]), &file), LIMIT).expect(0);
    let text = std::fs::read_to_string(&file).expect("read the trace");
    let is_sync = |op: &trace::Op| matches!(op.what, trace::What::Synced { .. });
    let syncs: Vec<_> = trace::read(&text).into_iter().filter(is_sync).collect();
    assert!(home.rewake_home().join("rewake.db").is_file());
    assert!(syncs.len() <= A_NEW_STORE, "{syncs:#?}");
}

/// Syncs to make a store.
const A_NEW_STORE: usize = 6;

const TRIES: usize = 4;

/// Syncs of the database for a call.
const A_CALL: usize = 2;
/// And of its run folder.
const A_RUN_FOLDER: usize = 0;

/// What the files are is a record of its own when it is found at some instants, so the number of
/// syncs is exact only without it.
const NO_FILES: &str = "[files]\nsnapshots = \"off\"\n";

#[derive(Debug, Default)]
struct Syncs {
    journal: usize,
    runs: usize,
    database: usize,
}

/// Of a session with so many commands, in a home that had one before.
fn syncs_of(calls: usize, settings: &str) -> Syncs {
    let bash = |n| Answer::call("bash", json!({ "command": format!("echo {n}") }));
    let mut answers: Vec<Answer> = (0..calls).map(bash).collect();
    answers.push(Answer::text("done"));
    let server = Server::start(list(answers));
    let home = Home::new();
    home.configure(&server, Protocol::Chat, settings);
    run(home.rewake(["-p", "begin", "--yolo"]), LIMIT).expect(0);
    let file = home.rewake_home().join("trace");
    let agent = home.rewake(["-p", "do it", "--yolo", "--output-format", "stream-json"]);
    run(traced(&agent, &file), LIMIT).expect(0);
    let text = std::fs::read_to_string(&file).expect("read the trace");
    let mut syncs = Syncs::default();
    for op in trace::read(&text) {
        if let trace::What::Synced { path } = op.what {
            *match () {
                () if path.contains("/journal") => &mut syncs.journal,
                () if path.contains("/runs") => &mut syncs.runs,
                () => &mut syncs.database,
            } += 1;
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
