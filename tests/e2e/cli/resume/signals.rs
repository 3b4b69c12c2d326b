//! Leaving lets commands go on; stopping ends them.

use rustix::process::Signal;

use super::scene::*;

#[test]
fn a_signal_ends_rewake_and_leaves_the_command_running() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let scene = Scene::with_command(&waits_for_go());
        let first = scene.start_command();
        first.wait_for(LIMIT, |line| is_entry(line, "started"));
        send(first.id(), signal);
        let run = first.wait(LIMIT).expect(code);
        assert_has(
            &run.stderr,
            &["running commands keep running", "to continue: rewake -p -c"],
        );
        let mut saved = scene.entries("saved");
        saved.retain(|entry| entry["reason"] != "files");
        assert_eq!(saved[0]["reason"], "signal", "{saved:?}");
        assert!(scene.entries("finished").is_empty());
        assert!(scene.running().is_some(), "the command is gone");

        let second = scene.live(&["-p", "-c"]);
        second.wait_for(LIMIT, |line| is_entry(line, "woke"));
        scene.go();
        let run = second.wait(LIMIT).expect(0);
        assert_has(&run.stderr, &["interrupted", "1 command still running"]);
        assert_has(
            &scene.last_result(),
            &["first words\nlast words\n", "[exit code 7]"],
        );
        assert_eq!(scene.effects(), 1);
    }
}

#[test]
fn an_interrupt_ends_the_command_and_keeps_what_it_printed() {
    let scene = Scene::with_command(&waits_for_go());
    let first = scene.start_command();
    first.wait_for(LIMIT, |line| is_entry(line, "started"));
    let (_, group) = scene.running().expect("a command");
    send(first.id(), Signal::INT);
    first.wait(LIMIT).expect(130);

    assert!(is_gone(group), "the command goes on");
    assert_eq!(scene.entries("stopped").len(), 1);
    let finished = scene.entries("finished");
    let outcome = &finished[0]["outcome"];
    assert_eq!(outcome["outcome"], "interrupted", "{finished:?}");
    let text = outcome["output"]["text"].as_str().unwrap();
    let begin = "first words\n[changed since it started: effects; `rewake restore effects --at ";
    assert!(text.starts_with(begin), "{finished:?}");

    let run = scene.go_on().expect(0);
    assert_has(&run.stderr, &["stopped", "nothing is unfinished"]);
    scene.live(&["-p", "-c", "go on"]).wait(LIMIT).expect(0);
    assert_has(&scene.last_request(), &["first words", "stopped", "go on"]);
    assert_eq!(scene.effects(), 1);
    scene.server.assert_no_violations();
}

/// It takes two seconds to end a command that will not; nobody has to wait for them. Here its keeper
/// is frozen meanwhile, so that it takes longer than the test may need.
#[test]
fn a_second_interrupt_leaves_at_once() {
    let stubborn = format!("trap '' TERM; {}", waits_for_go());
    let scene = Scene::with_command(&stubborn);
    let first = scene.start_command();
    first.wait_for(LIMIT, |line| is_entry(line, "started"));
    let (keeper, _) = scene.running().expect("a command");
    send(keeper, Signal::STOP);
    send(first.id(), Signal::INT);
    first.wait_for(LIMIT, |line| is_entry(line, "stopped"));
    send(first.id(), Signal::INT);
    let run = first.wait(LIMIT);
    send(keeper, Signal::CONT);
    run.expect(130);
    assert!(
        scene.entries("finished").is_empty(),
        "it waited for the end"
    );

    // What was stopped is settled by the next start, and nothing is asked of the model.
    scene.go_on().expect(130);
    let finished = scene.entries("finished");
    assert_eq!(
        finished[0]["outcome"]["outcome"], "interrupted",
        "{finished:?}"
    );
    assert_eq!(scene.server.requests().len(), 1);
    assert_eq!(scene.effects(), 1);
}
