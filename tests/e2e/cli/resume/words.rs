//! What the user said is not lost.

use super::scene::*;
use support::Says;

/// Killed as soon as it says which session it has.
#[test]
fn a_reported_session_already_contains_its_prompt() {
    for _ in 0..8 {
        let scene = Scene::new(|_| Says::text(FINAL_WORDS).into());
        let mut live = scene.live(&["-p", "words to be kept"]);
        live.wait_for(LIMIT, |line| line.contains("session.opened"));
        live.kill();
        live.wait(LIMIT);
        scene.go_on().expect(0);
        let said = scene.entries("said");
        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!(said[0]["text"], "words to be kept");
        assert_eq!(scene.entries("replied").len(), 1);
    }
}
