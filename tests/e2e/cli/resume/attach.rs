//! The agent is killed; its command is not.

use crate::scenes::resume::*;
use crate::scenes::until;
use support::{Answer, Says};

#[test]
fn a_command_that_ended_while_nobody_was_there_gives_its_real_result() {
    let scene = Scene::with_command(&waits_for_go());
    let mut first = scene.start_command();
    assert!(first.kill());
    first.wait(LIMIT);
    scene.go();
    until(|| scene.running().is_none());

    let run = scene.go_on().expect(0);
    assert!(!run.stderr.contains("still running"), "{}", run.stderr);
    assert_has(&scene.last_result(), &REAL_RESULT);
    assert_eq!(scene.effects(), 1);
    scene.server.assert_no_violations();
}

/// Agent after agent dies while the same command runs: it is the same command for all.
#[test]
fn a_command_outlives_several_agents() {
    let scene = Scene::with_command(&waits_for_go());
    let mut live = scene.start_command();
    let running = scene.running();
    for _ in 0..2 {
        assert!(live.kill());
        live.wait(LIMIT);
        live = scene.live(&["-p", "-c"]);
        live.wait_for(LIMIT, |line| is_entry(line, "woke"));
        assert_eq!(scene.running(), running);
    }
    scene.go();
    live.wait(LIMIT).expect(0);
    assert_has(&scene.last_result(), &REAL_RESULT);
    assert_eq!(scene.effects(), 1);
}

#[test]
fn the_end_of_a_background_command_is_told_though_nobody_was_there() {
    // It says nothing until it is told: a request without the note would wait for ever.
    let scene = Scene::new(|seen| match seen.turn {
        0 => bash_in_background(&waits_for_go()),
        _ if seen.json.to_string().contains("background command bg_") => {
            Says::text(FINAL_WORDS).into()
        }
        _ => Answer::Hang,
    });
    let mut first = scene.start_command();
    until(|| scene.server.requests().len() == 2);
    assert!(first.kill());
    first.wait(LIMIT);
    scene.go();
    until(|| scene.running().is_none());

    scene.go_on().expect(0);
    assert_has(&scene.last_request(), &["ended: exit code 7", "last words"]);
    let noted = scene.entries("noted");
    assert_eq!(noted.len(), 1, "{noted:?}");
    assert_eq!(noted[0]["about"]["exit_code"], 7, "{noted:?}");
    assert_eq!(scene.effects(), 1);
    scene.server.assert_no_violations();
}
