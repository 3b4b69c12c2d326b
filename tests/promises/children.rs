//! Subagents survive a kill.

use serde_json::json;

use crate::scenes::children::*;
use crate::scenes::until;

#[test]
fn a_killed_child_is_restarted_and_resumes() {
    for with_keeper in [false, true] {
        let scene = Scene::with_task(json!({"prompt": DO_IT}), WAITS);
        let live = scene.start();
        until(|| scene.effects() == 1);
        assert!(scene.kill_child(with_keeper));
        scene.go();
        live.wait(LIMIT).expect(0);
        scene.is_whole();
        let child = &scene.children()[0].id;
        assert_eq!(scene.entries(child, "woke").len(), 1);
    }
}
