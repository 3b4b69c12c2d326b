//! Death between `Started` and the keeper's claim. No real kill can be aimed there, so the
//! log and the run folder that it leaves are made by hand.

use rewake::command::{Spec, boot_id, default_shell};
use rewake::core::entry::*;

use super::scene::*;
use crate::support::Says;

const COMMAND: &str = "echo begun >> effects; echo it ran";

/// A session whose last entry is the `Started` of [`COMMAND`] in this boot. Gives its run.
fn started(boot: &str) -> (Scene, String) {
    let scene = Scene::new(|seen| Says::text(format!("answer {}", seen.turn)).into());
    scene.live(&["-p", "hello", "--yolo"]).wait(LIMIT).expect(0);
    let store = scene.store();
    let session = store.newest(None).unwrap().expect("a session").id;
    drop(store);
    scene.append(|_| Entry::Said {
        text: "do it".into(),
        images: vec![],
        via: Via::Prompt,
    });
    let mut call = CallId { reply: 0, index: 0 };
    scene.append(|seq| {
        call.reply = seq;
        let arguments = serde_json::json!({"command": COMMAND}).to_string();
        Entry::Replied {
            blocks: vec![Block::call("bash", arguments)],
            usage: Usage::default(),
            stop: StopReason::ToolUse,
            model: "local/test-model".into(),
            took_ms: 0,
            asked_bytes: 0,
        }
    });
    let spec = Spec {
        command: COMMAND.into(),
        folder: scene.home.workspace(),
        timeout_ms: u64::MAX,
        output_cap_bytes: 1_000_000,
        shell: default_shell(),
        env_remove: vec![],
        env_set: vec![],
        session,
        call: format!("bg_{}_0", call.reply),
        background: false,
        sandbox: None,
    };
    let run = scene.runs().prepare(&spec).expect("prepare the run");
    scene.append(|_| Entry::Started {
        call,
        guard: Guard::Supervised {
            run: run.clone(),
            boot: boot.into(),
            background: false,
        },
    });
    (scene, run)
}

fn assert_that_it_runs_once(scene: &Scene, run: &str) {
    scene.go_on().expect(0);
    assert_eq!(scene.effects(), 1);
    let started = scene.entries("started");
    assert_eq!(started.len(), 2, "{started:?}");
    assert_eq!(started[0]["guard"]["run"], run);
    assert_ne!(started[1]["guard"]["run"], run, "a run folder serves once");
    assert_has(&scene.last_result(), &["it ran"]);
    assert!(
        !scene.last_result().contains("rewake was down"),
        "{}",
        scene.last_result()
    );
    assert!(scene.the_run().is_none(), "a run folder is left");
    scene.server.assert_no_violations();
}

#[test]
fn what_no_keeper_claimed_runs_once() {
    let (scene, run) = started(&boot_id());
    assert_that_it_runs_once(&scene, &run);
}

/// Also what a second start sees when the first one claimed and died before it could say so.
#[test]
fn what_was_claimed_and_never_begun_runs_once() {
    let (scene, run) = started(&boot_id());
    let folder = scene.home.rewake_home().join("runs").join(&run);
    std::fs::write(folder.join("claim"), "").expect("claim the run");
    assert_that_it_runs_once(&scene, &run);
}

#[test]
fn what_was_begun_in_another_boot_is_never_run_again() {
    let (scene, _) = started("another boot");
    scene.go_on().expect(0);
    assert_eq!(scene.effects(), 0);
    assert_eq!(scene.entries("started").len(), 1);
    let finished = scene.entries("finished");
    assert_eq!(
        finished[0]["outcome"]["outcome"], "interrupted",
        "{finished:?}"
    );
    assert_has(
        &scene.last_result(),
        &["may or may not", "look before you repeat it"],
    );
    scene.server.assert_no_violations();
}
