//! The keeper is killed, so nobody can know how its command ends: the model is told so.

use crate::scenes::resume::*;

#[test]
fn a_keeper_killed_while_nobody_was_there() {
    let scene = Scene::with_command(&waits_for_go());
    let mut first = scene.start_command();
    assert!(first.kill());
    first.wait(LIMIT);
    let group = kill_keeper(&scene);
    assert_interrupted(&scene, scene.go_on(), group);
}
