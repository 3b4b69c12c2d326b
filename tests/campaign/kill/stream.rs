//! Killed in the middle of an answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::kill::random::{Random, seed_of_now};
use crate::kill::{LIMIT, QUIET};
use support::{Answer, Home, Live, Protocol, Says, Server};

/// The words that stream, one of them in each event.
const WORDS: usize = 2_000;

fn word(number: usize) -> String {
    format!("word-{number:04} ")
}

/// Killed in the middle of an answer, twice: what was to be read half a second before is in
/// the next `woke`, and the next request is the same as the one that was cut.
#[test]
fn a_streamed_answer_survives_the_kill() {
    let _quiet = QUIET.write().unwrap_or_else(PoisonError::into_inner);
    let seed = seed_of_now();
    println!("seed {seed}");
    std::thread::scope(|scope| {
        for (place, protocol) in Protocol::ALL.into_iter().enumerate() {
            let random = Random(seed.wrapping_add(place as u64));
            scope.spawn(move || kill_in_the_stream(protocol, random));
        }
    });
}

fn kill_in_the_stream(protocol: Protocol, mut random: Random) {
    let text: String = (0..WORDS).map(word).collect();
    let patient = Arc::new(AtomicBool::new(true));
    let slow = patient.clone();
    let says = Says {
        piece_chars: word(0).len(),
        ..Says::text(text.clone())
    };
    let server = Server::start(move |_| match slow.load(Ordering::Relaxed) {
        true => Answer::Slow {
            says: says.clone(),
            chunk_bytes: 150,
            delay_ms: 8,
        },
        false => says.clone().into(),
    });
    let home = Home::with(&server, protocol);
    let format = ["--output-format", "stream-json"];
    let mut args = vec!["-p", "say it"];
    let mut last_read: Option<String> = None;
    for _ in 0..2 {
        let mut live = Live::spawn(home.rewake(args.iter().chain(&format)));
        if let Some(read) = &last_read {
            let woke = live.wait_for(LIMIT, |line| line.contains("entry.woke"));
            check_draft(&woke, &text, read);
        }
        let read = word(random.between(20, 150) as usize);
        let is_read = |line: &str| line.contains("delta.text") && line.contains(&read);
        live.wait_for(LIMIT, is_read);
        std::thread::sleep(Duration::from_millis(500));
        assert!(live.kill(), "{protocol:?}: the stream was over too soon");
        live.wait(LIMIT);
        last_read = Some(read);
        args = vec!["-p", "-c"];
    }
    patient.store(false, Ordering::Relaxed);
    let run = home.run(args.iter().chain(&format)).expect(0);
    let woke = run.stdout.lines().find(|l| l.contains("entry.woke"));
    check_draft(woke.expect("a woke"), &text, &last_read.expect("a kill"));
    let answer = run.events().pop().expect("a result");
    assert_eq!(answer["result"], json!(text), "{protocol:?}");
    let bodies: Vec<_> = server.requests().into_iter().map(|r| r.body).collect();
    assert_eq!(bodies.len(), 3, "{protocol:?}");
    assert!(bodies.iter().all(|b| *b == bodies[0]), "{protocol:?}");
    server.assert_no_violations();
}

#[track_caller]
fn check_draft(woke: &str, text: &str, read: &str) {
    let woke: Value = serde_json::from_str(woke).expect("a line of JSON");
    let draft = woke["draft"].as_str().unwrap_or_default();
    assert!(text.starts_with(draft), "not what was said: {draft:?}");
    assert!(draft.contains(read), "{read:?} is lost; left: {draft:?}");
}
