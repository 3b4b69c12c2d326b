//! Processes that outlived their command: `rewake ps` lists them, and `rewake ps stop` ends them.
//! The record of a real run is given two processes that the test itself started.

use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use rewake::command::{Runs, Spec};
use serde_json::{Value, json};

use crate::cli::{LIMIT, runtime};
use support::{Home, default_shell};

/// Where the record of the end begins in the file `status`, and what stands before its JSON:
/// blake3 of the rest, and the length of the JSON.
const ENDED_AT: u64 = 4_096;
const SUM_BYTES: usize = 32;
const HEAD_BYTES: usize = SUM_BYTES + 4;

fn sleeps() -> Child {
    // Should a test fail, nobody waits for the end of its output.
    let null = Stdio::null;
    let mut sleep = Command::new("sleep");
    sleep.arg("1000").stdout(null()).stderr(null());
    sleep.spawn().unwrap()
}

/// When a process was started, as the kernel counts (proc_pid_stat(5)).
fn started(child: &Child) -> u64 {
    let line = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let (_, rest) = line.rsplit_once(')').unwrap();
    rest.split_whitespace().nth(19).unwrap().parse().unwrap()
}

/// A command that has ended, by its real keeper.
fn ended_run(home: &Home) -> String {
    let runs = Runs::new(
        home.rewake_home().join("runs"),
        env!("CARGO_BIN_EXE_rewake"),
    );
    let spec = Spec {
        command: "echo forked".into(),
        folder: home.workspace(),
        timeout_ms: u64::MAX,
        output_cap_bytes: 1_000,
        shell: default_shell(),
        env_remove: vec![],
        env_set: vec![],
        session: "01a1fc18-224f-7000-8000-000000000000".into(),
        call: "0.0".into(),
        background: false,
        sandbox: None,
        child: None,
        hook: None,
        lease: None,
    };
    let runtime = runtime();
    runtime.block_on(async {
        let run = runs.prepare(&spec).unwrap();
        let mut running = runs.start(&run).unwrap();
        let within = tokio::time::timeout(LIMIT, runs.wait(&mut running));
        within.await.expect("it ends").unwrap();
        run
    })
}

/// As a keeper writes it that could not end these.
fn record_survivors(home: &Home, run: &str, survivors: &[Value]) {
    let path = home.rewake_home().join("runs").join(run).join("status");
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut head = [0; HEAD_BYTES];
    file.read_exact_at(&mut head, ENDED_AT).unwrap();
    let length = u32::from_le_bytes(head[SUM_BYTES..].try_into().unwrap());
    let mut record = vec![0; length as usize];
    file.read_exact_at(&mut record, ENDED_AT + HEAD_BYTES as u64)
        .unwrap();
    let mut record: Value = serde_json::from_slice(&record).unwrap();
    record["sandbox"] = json!({"survivors": survivors.len(), "survivor_pids": survivors});
    let json = serde_json::to_vec(&record).unwrap();
    let mut body = u32::try_from(json.len()).unwrap().to_le_bytes().to_vec();
    body.extend(json);
    let slot = [blake3::hash(&body).as_bytes().as_slice(), &body].concat();
    file.write_all_at(&slot, ENDED_AT).unwrap();
}

#[test]
fn surviving_processes_are_listed_and_can_be_stopped() {
    let home = Home::new();
    let run = ended_run(&home);
    let (mut survivor, mut stranger) = (sleeps(), sleeps());
    let (of_survivor, of_stranger) = (started(&survivor), started(&stranger));
    record_survivors(
        &home,
        &run,
        &[
            json!({"pid": survivor.id(), "started": of_survivor}),
            // A later process has the number of one that is gone.
            json!({"pid": stranger.id(), "started": of_stranger - 1}),
        ],
    );
    let listed = home.run(["ps"]).expect(0).stdout;
    let left = format!("left behind, process {}  echo forked", survivor.id());
    assert!(listed.contains(&left), "{listed}");
    let stop = home.run(["ps", "stop", &run]).expect(0);
    assert!(stop.stdout.contains("being stopped"), "{}", stop.stdout);
    assert_eq!(
        survivor.wait().unwrap().signal(),
        Some(15),
        "it is asked first"
    );
    assert!(stranger.try_wait().unwrap().is_none(), "it is not theirs");
    assert_eq!(home.run(["ps"]).expect(0).stdout, "");
    let again = home.run(["ps", "stop", &run]).expect(0);
    assert!(again.stdout.contains("had ended"), "{}", again.stdout);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}
