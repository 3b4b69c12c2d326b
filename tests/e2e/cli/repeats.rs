//! A model that repeats itself, and a scripted model that plays on after a compaction.

use serde_json::json;

use crate::cli::{SCRIPTED, bash, play, quiet, scripted, step, streamed};

fn repeated(rounds: usize) -> Vec<String> {
    let rounds = (0..rounds).map(|_| step("", &[bash("false")]));
    rounds.chain([step("done", &[])]).collect()
}

#[test]
fn a_run_stops_at_a_repetition_and_continues_when_a_person_says_so() {
    let home = scripted(&repeated(12));
    let run = streamed(&home, &["-p", "x", "--yolo"]).expect(75);
    let result = run.events().pop().unwrap();
    let why = "the model repeats itself: `bash false`, 7 times with the same result";
    assert_eq!(result["why"], json!(why));
    assert_eq!(result["calls"], json!(7));
    let notes = run
        .events()
        .into_iter()
        .filter(|e| e["type"] == "entry.noted");
    let notes: Vec<_> = notes.map(|e| e["about"].clone()).collect();
    assert_eq!(
        notes,
        [json!({"about": "repeats", "calls": 1, "rounds": 4})]
    );
    // Neither a start nor a resume by name lifts it.
    let session = result["session"].as_str().unwrap().to_string();
    for more in [vec!["-c"], vec!["-r", &session]] {
        let again = home.run([vec!["-p", "--yolo"], more].concat()).expect(75);
        quiet(&again);
        assert!(again.stderr.contains(why), "{}", again.stderr);
        assert!(again.stderr.contains("rewake unblock"), "{}", again.stderr);
    }
    home.run(["unblock", "@here"]).expect(0);
    let run = home.run(["-p", "-c", "--yolo"]).expect(0);
    assert_eq!(run.stdout, "done\n");
}

#[test]
fn a_message_redirects_a_model_that_repeats_itself() {
    let home = scripted(&repeated(8));
    home.run(["-p", "x", "--yolo"]).expect(75);
    let run = home.run(["-p", "-c", "try true", "--yolo"]).expect(0);
    assert_eq!(run.stdout, "done\n");
}

#[test]
fn without_the_guard_nothing_stops_a_repetition() {
    let home = scripted(&repeated(30));
    home.write_config(&format!("loop_guard = false\n{SCRIPTED}"));
    let run = streamed(&home, &["-p", "x", "--yolo"]).expect(0);
    let notes = run
        .events()
        .into_iter()
        .filter(|e| e["type"] == "entry.noted");
    assert_eq!(notes.count(), 0);
}

#[test]
fn a_script_plays_on_after_a_compaction() {
    let home = scripted(&[]);
    home.write_config(&format!(
        "{SCRIPTED}[models.\"s/play\"]\ncontext_window = 8000\n"
    ));
    let call = |n: usize| bash(&format!("seq {n} {}", n + 500));
    let steps = (0..40).map(|n| step(&format!("step {n}"), &[call(n)]));
    let steps: Vec<String> = steps.chain([step("all played", &[])]).collect();
    play(&home, &steps);
    let run = streamed(&home, &["-p", "x", "--yolo"]).expect(0);
    let events = run.events();
    let kinds = |kinds: &[&str]| {
        let is = |e: &&serde_json::Value| kinds.iter().any(|kind| e["type"] == *kind);
        events.iter().filter(is).count()
    };
    assert!(kinds(&["entry.closed", "entry.continued"]) > 0);
    assert_eq!(kinds(&["entry.replied"]), 41);
    assert_eq!(events.last().unwrap()["calls"], json!(40));
}
