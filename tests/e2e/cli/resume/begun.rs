//! Death between `Started` and the keeper's claim. No real kill can be aimed there, so the
//! log and the run folder that it leaves are made by hand.

use rewake::command::boot_id;
use rewake::core::access::Access;

use crate::scenes::resume::*;
use crate::scenes::until;
use support::skip;

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
fn an_unclaimed_run_runs_once() {
    let (scene, run) = started(&boot_id());
    assert_that_it_runs_once(&scene, &run);
}

/// Also what a second start sees when the first one claimed and died before it could say so.
#[test]
fn a_claimed_run_that_never_started_runs_once() {
    let (scene, run) = started(&boot_id());
    let folder = scene.home.rewake_home().join("runs").join(&run);
    std::fs::write(folder.join("claim"), "").expect("claim the run");
    assert_that_it_runs_once(&scene, &run);
}

/// Writes here, and where only a command without a sandbox may.
const REACHES: &str = "echo begun >> effects; echo x > $HOME/outside; echo it ran";

fn has_sandbox(scene: &Scene) -> bool {
    let doctor = scene.home.run(["doctor"]);
    let has = doctor.stdout.contains("protected files are read-only");
    if !has {
        skip("Landlock, seccomp and user namespaces");
    }
    has
}

#[test]
fn an_unstarted_run_gets_its_recorded_access() {
    let access = Some(Access::Workspace);
    let (scene, _) = started_with(&boot_id(), REACHES, "acceptEdits", access);
    if !has_sandbox(&scene) {
        return;
    }
    scene.go_on().expect(0);
    assert_eq!(scene.effects(), 1);
    let started = scene.entries("started");
    assert_eq!(started.len(), 2, "{started:?}");
    assert_eq!(started[1]["access"], "workspace");
    assert_has(&scene.last_result(), &["it ran", "outside"]);
    assert!(!scene.home.user().join("outside").exists());
    scene.server.assert_no_violations();
}

/// Neither with what was recorded, for the mode gives it no more, nor with less, unasked.
#[test]
fn an_unstarted_run_is_dropped_when_the_mode_denies_its_access() {
    let modes = [
        ("acceptEdits", "default", Some(Access::Workspace)),
        ("bypassPermissions", "acceptEdits", Some(Access::Full)),
        // A log of an older version: it was to run without a sandbox.
        ("bypassPermissions", "default", None),
    ];
    for (before, now, access) in modes {
        let (scene, _) = started_with(&boot_id(), REACHES, before, access);
        if !has_sandbox(&scene) {
            return;
        }
        let again = ["-p", "-c", "--permission-mode", now];
        scene.live(&again).wait(LIMIT).expect(0);
        assert_eq!(scene.effects(), 0, "{before} {now}");
        assert!(!scene.home.user().join("outside").exists());
        assert_eq!(scene.entries("started").len(), 1);
        assert_has(
            &scene.last_result(),
            &["not run", "do not give that any more"],
        );
        assert!(scene.the_run().is_none(), "a run folder is left");
        scene.server.assert_no_violations();
    }
}

/// The keeper of the command has the sandbox: it stays when the agent is gone.
#[test]
fn a_command_that_outlived_its_agent_still_has_its_sandbox() {
    let command = format!(
        "{}; touch $HOME/outside",
        waits_for_go().replace("; exit 7", "")
    );
    let scene = Scene::with_command(&command);
    if !has_sandbox(&scene) {
        return;
    }
    let accept = ["-p", "do it", "--permission-mode", "acceptEdits"];
    let mut live = scene.live(&accept);
    until(|| scene.effects() == 1);
    live.kill();
    live.wait(LIMIT);
    std::fs::write(scene.home.path("go"), "").unwrap();
    scene.go_on().expect(0);
    assert_eq!(scene.effects(), 1);
    assert_has(
        &scene.last_result(),
        &["last words", "looks like the sandbox"],
    );
    assert!(!scene.home.user().join("outside").exists());
}
