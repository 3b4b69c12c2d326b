//! A command outlives the agent; its keeper or the machine may die, too.

use crate::scenes::resume::*;

#[test]
fn a_command_that_outlives_the_agent_is_attached_again() {
    let scene = Scene::with_command(&waits_for_go());
    let mut first = scene.start_command();
    assert!(first.kill());
    first.wait(LIMIT);
    assert!(scene.running().is_some(), "the command died with the agent");

    let second = scene.live(&["-p", "-c"]);
    second.wait_for(LIMIT, |line| is_entry(line, "woke"));
    scene.go();
    let run = second.wait(LIMIT).expect(0);
    assert_has(&run.stderr, &["killed", "1 command still running"]);
    assert_has(&scene.last_result(), &REAL_RESULT);
    assert_eq!(scene.effects(), 1);
    assert_eq!(scene.server.requests().len(), 2);
    assert!(scene.the_run().is_none(), "its run folder is left");
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
fn a_run_started_in_another_boot_is_never_run_again() {
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
        &["It may have finished", "Check before you repeat it."],
    );
    scene.server.assert_no_violations();
}
