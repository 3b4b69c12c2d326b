//! The keeper is killed, so nobody can know how its command ends: the model is told so.

use rustix::process::Signal;

use super::scene::*;
use crate::support::Run;

/// Kills the keeper, and gives the command's process group, which goes on.
fn kill_keeper(scene: &Scene) -> u32 {
    let (keeper, group) = scene.running().expect("a command");
    send(keeper, Signal::KILL);
    scene.until(|| scene.running().is_none());
    group
}

fn assert_interrupted(scene: &Scene, run: Run, group: u32) {
    run.expect(0);
    let finished = scene.entries("finished");
    assert_eq!(finished.len(), 1, "{finished:?}");
    assert_eq!(
        finished[0]["outcome"]["outcome"], "interrupted",
        "{finished:?}"
    );
    let told = scene.last_result();
    assert_has(
        &told,
        &[
            "first words",
            "the supervisor of this command was killed; the output ends here. Its processes",
            "Check before you repeat it.",
        ],
    );
    assert_has(&told, &[&format!("`kill -- -{group}` ends them")]);
    let listed = scene.home.run(["ps"]).expect(0).stdout;
    assert_has(&listed, &[&format!("left behind, group {group}")]);
    let listed = scene.home.run(["ps", "--json"]).expect(0).stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed[0]["left_behind"], true, "{listed:#}");
    assert_eq!(listed[0]["group"], group, "{listed:#}");
    scene.go();
    scene.until(|| is_gone(group));
    assert_eq!(scene.effects(), 1);
    scene.server.assert_no_violations();
}

#[test]
fn a_keeper_killed_beside_its_agent() {
    let scene = Scene::with_command(&waits_for_go());
    let live = scene.start_command();
    let group = kill_keeper(&scene);
    assert_interrupted(&scene, live.wait(LIMIT), group);
}

#[test]
fn a_keeper_killed_while_nobody_was_there() {
    let scene = Scene::with_command(&waits_for_go());
    let mut first = scene.start_command();
    assert!(first.kill());
    first.wait(LIMIT);
    let group = kill_keeper(&scene);
    assert_interrupted(&scene, scene.go_on(), group);
}
